//! The figures of a combination, as a row of a CSV or a Parquet file. Rows say what they are of, so that those of many runs are one table.

use std::{error::Error, fs::File, path::Path, sync::Arc};

use parquet::{
    basic::{LogicalType, Repetition, Type as Physical},
    data_type::{ByteArray, ByteArrayType, Int64Type},
    file::{properties::WriterProperties, writer::SerializedFileWriter},
    schema::types::Type,
};
use vidmm::policy::PolicyChoice;

use super::Cell;
use crate::args::ListsArg;

/// The figures that no policy betters, at one size of memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Optimum {
    /// Bytes in, of MIN on bytes.
    pub split_bytes_in: u64,
    /// Bytes in, of MIN on whole allocations.
    pub whole_bytes_in: u64,
    /// The time that the latter's copies take with the work.
    pub virtual_ns: u64,
}

/// The result of a combination. What is not known is none.
#[derive(Clone, Debug, Default)]
pub struct Row {
    /// Its place among all rows, whichever shard it is of.
    pub number: u64,
    pub input: String,
    pub input_digest: String,
    pub policy: PolicyChoice,
    /// The seed is one of those that the command draws.
    pub is_one_seed: bool,
    pub local_memory: String,
    /// None with content.
    pub lists: Option<ListsArg>,
    pub batch: u32,
    pub iterations: u32,
    pub in_flight: u64,
    pub warm_up: u64,
    pub local_memory_bytes: u64,
    pub footprint_bytes: u64,
    pub submissions: Option<u64>,
    pub objects: Option<u64>,
    pub uses: Option<u64>,
    pub misses: Option<u64>,
    pub bytes_used: Option<u64>,
    pub bytes_in: u64,
    pub bytes_out: u64,
    pub evictions: u64,
    pub optimum: Option<Optimum>,
    pub work_ns: u64,
    pub virtual_ns: u64,
    pub pages_checked: Option<u64>,
    pub findings: Option<u64>,
}

/// A field of a row.
enum Value {
    Text(String),
    Count(Option<u64>),
}

impl Row {
    /// A row without figures.
    pub fn of(cell: &Cell<'_>) -> Self {
        Self {
            input: cell.input.path.display().to_string(),
            input_digest: cell.input.digest.clone(),
            policy: cell.policy,
            local_memory: cell.local_memory.to_string(),
            batch: 1,
            iterations: 1,
            ..Self::default()
        }
    }

    /// The policy; without the seed, if that is one of several.
    pub fn policy_name(&self) -> String {
        if self.is_one_seed { self.policy.without_seed() } else { self.policy }.to_string()
    }

    /// The columns with their names.
    fn fields(&self) -> [(&'static str, Value); 29] {
        let text = |text: &str| Value::Text(text.to_owned());
        let count = |count: u64| Value::Count(Some(count));
        let lists = self.lists.map_or("content", ListsArg::name);
        [
            ("row", count(self.number)),
            ("vidmm_version", text(env!("CARGO_PKG_VERSION"))),
            ("vidmm_commit", text(env!("VIDMM_COMMIT"))),
            ("input", text(&self.input)),
            ("input_digest", text(&self.input_digest)),
            ("policy", text(&self.policy.to_string())),
            ("seed", Value::Count(self.policy.seed())),
            ("local_memory", text(&self.local_memory)),
            ("lists", text(lists)),
            ("batch", count(self.batch.into())),
            ("iterations", count(self.iterations.into())),
            ("in_flight", count(self.in_flight)),
            ("warm_up", count(self.warm_up)),
            ("local_memory_bytes", count(self.local_memory_bytes)),
            ("footprint_bytes", count(self.footprint_bytes)),
            ("submissions", Value::Count(self.submissions)),
            ("objects", Value::Count(self.objects)),
            ("uses", Value::Count(self.uses)),
            ("misses", Value::Count(self.misses)),
            ("bytes_used", Value::Count(self.bytes_used)),
            ("bytes_in", count(self.bytes_in)),
            ("bytes_out", count(self.bytes_out)),
            ("evictions", count(self.evictions)),
            ("min_split_bytes_in", Value::Count(self.optimum.map(|optimum| optimum.split_bytes_in))),
            ("min_whole_bytes_in", Value::Count(self.optimum.map(|optimum| optimum.whole_bytes_in))),
            ("min_whole_virtual_ns", Value::Count(self.optimum.map(|optimum| optimum.virtual_ns))),
            ("work_ns", count(self.work_ns)),
            ("virtual_ns", count(self.virtual_ns)),
            ("findings", Value::Count(self.findings)),
        ]
    }
}

fn cannot_write(path: &Path, error: impl std::fmt::Display) -> Box<dyn Error> {
    format!("cannot write {}: {error}; check that the folder exists and can be written to", path.display()).into()
}

/// Writes the rows as text.
pub fn write_csv(path: &Path, rows: &[Row]) -> Result<(), Box<dyn Error>> {
    let mut file = csv::Writer::from_path(path).map_err(|error| cannot_write(path, error))?;
    let names = Row::default().fields().map(|(name, _)| name);
    let texts = |row: &Row| {
        row.fields().map(|(_, value)| match value {
            Value::Text(text) => text,
            Value::Count(count) => count.map_or_else(String::new, |count| count.to_string()),
        })
    };
    file.write_record(names)?;
    rows.iter().try_for_each(|row| file.write_record(texts(row)))?;
    Ok(file.flush()?)
}

/// Writes the rows as columns.
pub fn write_parquet(path: &Path, rows: &[Row]) -> Result<(), Box<dyn Error>> {
    let file = File::create(path).map_err(|error| cannot_write(path, error))?;
    let column = |(name, value): &(&str, Value)| {
        let builder = match value {
            Value::Text(_) => Type::primitive_type_builder(name, Physical::BYTE_ARRAY)
                .with_logical_type(Some(LogicalType::String))
                .with_repetition(Repetition::REQUIRED),
            Value::Count(_) => {
                Type::primitive_type_builder(name, Physical::INT64).with_repetition(Repetition::OPTIONAL)
            }
        };
        builder.build().map(Arc::new)
    };
    let fields = Row::default().fields().iter().map(column).collect::<Result<_, _>>()?;
    let schema = Type::group_type_builder("replay").with_fields(fields).build()?;
    let mut file = SerializedFileWriter::new(file, Arc::new(schema), Arc::new(WriterProperties::default()))?;
    let mut group = file.next_row_group()?;
    let mut table = Vec::from_iter(rows.iter().map(|row| row.fields().into_iter()));
    while let Some(mut writer) = group.next_column()? {
        let (mut texts, mut counts, mut is_known) = (Vec::new(), Vec::new(), Vec::new());
        for fields in &mut table {
            match fields.next().expect("there is a column for each").1 {
                Value::Text(text) => texts.push(ByteArray::from(text.into_bytes())),
                Value::Count(count) => {
                    is_known.push(i16::from(count.is_some()));
                    counts.extend(count.map(|count| count.min(i64::MAX as u64) as i64));
                }
            }
        }
        if !texts.is_empty() {
            writer.typed::<ByteArrayType>().write_batch(&texts, None, None)?;
        } else if !is_known.is_empty() {
            writer.typed::<Int64Type>().write_batch(&counts, Some(&is_known), None)?;
        }
        writer.close()?;
    }
    group.close()?;
    file.close()?;
    Ok(())
}
