//! A table as a Parquet file.

use std::{io::Write, sync::Arc};

use parquet::{
    basic::{Compression, Encoding, LogicalType, Repetition, Type as Physical},
    data_type::{ByteArray, ByteArrayType, Int64Type},
    errors::Result,
    file::{metadata::KeyValue, properties::WriterProperties, writer::SerializedFileWriter},
    schema::types::{ColumnPath, Type},
};

use super::column::{Column, Kind, Value};

/// The rows that are kept before they are written as a group.
const ROWS_KEPT: usize = 1 << 16;

/// Writes a table, some rows at a time. Integers are `INT64`, all else is UTF-8 text, names with a dictionary. The metadata of the file
/// have the name of the table, the version, and a description of each column.
pub struct ParquetWriter<W: Write + Send> {
    file: SerializedFileWriter<W>,
    columns: Vec<Values>,
    rows: usize,
}

/// The values of a column that are not written yet, and for each row whether it has one.
enum Values {
    Integers(Vec<i64>, Vec<i16>),
    Texts(Vec<ByteArray>, Vec<i16>),
}

impl<W: Write + Send> ParquetWriter<W> {
    /// Begins a table with this name and these columns.
    ///
    /// # Errors
    ///
    /// If the file cannot be written.
    pub fn new(out: W, name: &str, columns: &[Column]) -> Result<Self> {
        let described =
            columns.iter().filter_map(|column| Some((format!("description.{}", column.name), column.about()?)));
        let facts = [("table".to_owned(), name), ("vidmm_version".to_owned(), env!("CARGO_PKG_VERSION"))];
        let metadata = facts.into_iter().chain(described).map(|(key, value)| KeyValue::new(key, value.to_owned()));
        let mut properties = WriterProperties::builder()
            .set_compression(Compression::SNAPPY)
            .set_key_value_metadata(Some(metadata.collect()));
        let mut fields = Vec::new();
        for column in columns {
            let is_integer = column.kind == Kind::Integer;
            let physical = if is_integer { Physical::INT64 } else { Physical::BYTE_ARRAY };
            let logical = (!is_integer).then_some(LogicalType::String);
            let field = Type::primitive_type_builder(column.name, physical).with_logical_type(logical);
            fields.push(Arc::new(field.with_repetition(Repetition::OPTIONAL).build()?));
            let path = ColumnPath::from(column.name);
            properties = properties.set_column_dictionary_enabled(path.clone(), column.kind == Kind::Name);
            if is_integer {
                properties = properties.set_column_encoding(path, Encoding::DELTA_BINARY_PACKED);
            }
        }
        let schema = Type::group_type_builder(name).with_fields(fields).build()?;
        let file = SerializedFileWriter::new(out, Arc::new(schema), Arc::new(properties.build()))?;
        let columns = columns.iter().map(|column| match column.kind {
            Kind::Integer => Values::Integers(Vec::new(), Vec::new()),
            Kind::Name | Kind::Text => Values::Texts(Vec::new(), Vec::new()),
        });
        Ok(Self { file, columns: columns.collect(), rows: 0 })
    }

    /// Appends a row.
    ///
    /// # Errors
    ///
    /// If the file cannot be written.
    ///
    /// # Panics
    ///
    /// If the row does not have a value of the right kind, or none, for each column.
    pub fn row<'a>(&mut self, row: impl IntoIterator<Item = Value<'a>>) -> Result<()> {
        let mut row = row.into_iter();
        for column in &mut self.columns {
            let value = row.next().expect("a row has a value for each column");
            match (column, value) {
                (Values::Integers(_, is_there) | Values::Texts(_, is_there), Value::Missing) => is_there.push(0),
                (Values::Integers(values, is_there), Value::Integer(integer)) => {
                    values.push(Value::signed(integer));
                    is_there.push(1);
                }
                (Values::Texts(values, is_there), Value::Text(text)) => {
                    values.push(ByteArray::from(text.into_owned().into_bytes()));
                    is_there.push(1);
                }
                (Values::Integers(..), Value::Text(_)) | (Values::Texts(..), Value::Integer(_)) => {
                    panic!("the value is of another kind than its column")
                }
            }
        }
        assert!(row.next().is_none(), "a row has no more values than there are columns");
        self.rows += 1;
        if self.rows >= ROWS_KEPT { self.write_group() } else { Ok(()) }
    }

    /// Ends the table, and returns the writer.
    ///
    /// # Errors
    ///
    /// If the file cannot be written.
    pub fn finish(mut self) -> Result<W> {
        self.write_group()?;
        self.file.into_inner()
    }

    fn write_group(&mut self) -> Result<()> {
        if self.rows == 0 {
            return Ok(());
        }
        let mut group = self.file.next_row_group()?;
        for column in &mut self.columns {
            let mut writer = group.next_column()?.expect("the schema has each column");
            match column {
                Values::Integers(values, is_there) => {
                    writer.typed::<Int64Type>().write_batch(values, Some(is_there), None)?;
                    values.clear();
                    is_there.clear();
                }
                Values::Texts(values, is_there) => {
                    writer.typed::<ByteArrayType>().write_batch(values, Some(is_there), None)?;
                    values.clear();
                    is_there.clear();
                }
            }
            writer.close()?;
        }
        group.close()?;
        self.rows = 0;
        Ok(())
    }
}
