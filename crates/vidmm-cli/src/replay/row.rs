//! The figures of a combination, as a row of a CSV or a Parquet file. Rows say what they are of, so that those of many runs are one table.

use std::{error::Error, path::Path};

use vidmm::policy::PolicyChoice;
use vidmm_replay::{Link, Played};
use vidmm_view::tables::{Column, CsvWriter, ParquetWriter, Value};

use super::Cell;
use crate::{args::ListsArg, output::write_file};

/// The figures of runs that know the future, at one size of memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Optimum {
    /// MIN on bytes: no policy brings in less.
    pub split: Played,
    /// MIN on whole allocations, a heuristic with a schedule that can be kept.
    pub whole: Played,
    /// The bytes in of PFOO-L, a lower bound.
    pub pfoo_bytes_in: u64,
}

/// A quotient. Nothing by nothing is 1: as much.
pub fn quotient((of, by): (u64, u64)) -> f64 {
    if of == by { 1.0 } else { of as f64 / by as f64 }
}

/// The result of a combination. What is not known is none.
#[derive(Clone, Debug, Default)]
pub struct Row {
    /// Its place among all rows, whichever shard it is of.
    pub number: u64,
    pub input: String,
    pub input_digest: String,
    /// How the input was read: the format and the columns. Empty with content.
    pub reading: String,
    /// Remarks of the reader on odd requests.
    pub remarks: Vec<String>,
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
    /// None with content.
    pub link: Option<Link>,
    pub page_bytes: u64,
    /// The share of the objects that were read, in millionths.
    pub sample: Option<u64>,
    /// The standard error of the share of the bytes used that is brought in, for a sample.
    pub sample_error: Option<f64>,
    pub local_memory_bytes: u64,
    pub footprint_bytes: u64,
    pub submissions: Option<u64>,
    pub objects: Option<u64>,
    pub processes: Option<u64>,
    pub uses: Option<u64>,
    pub misses: Option<u64>,
    pub bytes_used: Option<u64>,
    /// Uses that passed by, since their objects are larger than local memory.
    pub passed: Option<u64>,
    /// None where a submission does not fit.
    pub bytes_in: Option<u64>,
    pub bytes_prefetched: Option<u64>,
    pub bytes_out: Option<u64>,
    pub evictions: Option<u64>,
    pub optimum: Option<Optimum>,
    pub work_ns: Option<u64>,
    pub virtual_ns: Option<u64>,
    /// How evenly several processes pay for each other.
    pub fairness: Option<f64>,
    pub pages_checked: Option<u64>,
    pub findings: Option<u64>,
}

/// The columns of a row.
const COLUMNS: usize = 42;

impl Row {
    /// A row without figures.
    pub fn of(cell: &Cell<'_>) -> Self {
        Self {
            input: cell.input.path.display().to_string(),
            input_digest: cell.input.digest.clone(),
            remarks: cell.input.remarks.clone(),
            page_bytes: vidmm_replay::PAGE,
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

    /// The columns with their values.
    fn fields(&self) -> [(Column, Value<'_>); COLUMNS] {
        fn text<'a>(name: &'static str, value: impl Into<Value<'a>>) -> (Column, Value<'a>) {
            (Column::name(name), value.into())
        }
        fn count<'a>(name: &'static str, value: impl Into<Option<u64>>) -> (Column, Value<'a>) {
            (Column::integer(name), value.into().into())
        }
        let millionths = |share: f64| (share * 1e6).round() as u64;
        [
            count("row", self.number),
            text("vidmm_version", env!("CARGO_PKG_VERSION")),
            text("vidmm_commit", env!("VIDMM_COMMIT")),
            text("input", &*self.input),
            text("input_digest", &*self.input_digest),
            text("format", &*self.reading),
            text("policy", self.policy.to_string()),
            count("seed", self.policy.seed()),
            text("local_memory", &*self.local_memory),
            text("lists", self.lists.map_or("content", ListsArg::name)),
            count("batch", u64::from(self.batch)),
            count("iterations", u64::from(self.iterations)),
            count("in_flight", self.in_flight),
            count("warm_up", self.warm_up),
            count("bytes_in_per_second", self.link.map(|link| link.bytes_in_per_second)),
            count("bytes_out_per_second", self.link.map(|link| link.bytes_out_per_second)),
            count("page_bytes", self.page_bytes),
            count("sample_millionths", self.sample),
            count("sample_error_millionths", self.sample_error.map(millionths)),
            count("local_memory_bytes", self.local_memory_bytes),
            count("footprint_bytes", self.footprint_bytes),
            count("submissions", self.submissions),
            count("objects", self.objects),
            count("processes", self.processes),
            count("uses", self.uses),
            count("misses", self.misses),
            count("passed", self.passed),
            count("bytes_used", self.bytes_used),
            count("bytes_in", self.bytes_in),
            count("bytes_prefetched", self.bytes_prefetched),
            count("bytes_out", self.bytes_out),
            count("evictions", self.evictions),
            count("min_split_bytes_in", self.optimum.map(|optimum| optimum.split.bytes_in)),
            count("min_whole_bytes_in", self.optimum.map(|optimum| optimum.whole.bytes_in)),
            count("pfoo_bytes_in", self.optimum.map(|optimum| optimum.pfoo_bytes_in)),
            count("min_whole_virtual_ns", self.optimum.map(|optimum| optimum.whole.virtual_ns)),
            count("work_ns", self.work_ns),
            count("in_ns", self.link.zip(self.bytes_in).map(|(link, bytes)| link.time_in(bytes))),
            count("out_ns", self.link.zip(self.bytes_out).map(|(link, bytes)| link.time_out(bytes))),
            count("virtual_ns", self.virtual_ns),
            count("fairness_millionths", self.fairness.map(millionths)),
            count("findings", self.findings),
        ]
    }
}

fn columns() -> [Column; COLUMNS] {
    Row::default().fields().map(|(column, _)| column)
}

/// Writes the rows as text.
pub fn write_csv(path: &Path, rows: &[Row]) -> Result<(), Box<dyn Error>> {
    let mut file = CsvWriter::new(Vec::new(), &columns())?;
    rows.iter().try_for_each(|row| file.row(row.fields().map(|(_, value)| value)))?;
    Ok(write_file(path, file.finish()?)?)
}

/// Writes the rows as columns.
pub fn write_parquet(path: &Path, rows: &[Row]) -> Result<(), Box<dyn Error>> {
    let mut file = ParquetWriter::new(Vec::new(), "replay", &columns())?;
    rows.iter().try_for_each(|row| file.row(row.fields().map(|(_, value)| value)))?;
    Ok(write_file(path, file.finish()?)?)
}
