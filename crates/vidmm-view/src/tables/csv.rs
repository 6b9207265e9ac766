//! A table as a CSV file.

use std::io::Write;

use csv::Result;

use super::column::{Column, Value};

/// Writes a table. A missing value is an empty field; text is quoted where it must be.
pub struct CsvWriter<W: Write>(csv::Writer<W>);

impl<W: Write> CsvWriter<W> {
    /// Begins a table with these columns.
    ///
    /// # Errors
    ///
    /// If the file cannot be written.
    pub fn new(out: W, columns: &[Column]) -> Result<Self> {
        let mut writer = csv::Writer::from_writer(out);
        writer.write_record(columns.iter().map(|column| column.name))?;
        Ok(Self(writer))
    }

    /// Appends a row.
    ///
    /// # Errors
    ///
    /// If the file cannot be written, or the row has not as many values as there are columns.
    pub fn row<'a>(&mut self, row: impl IntoIterator<Item = Value<'a>>) -> Result<()> {
        for value in row {
            match value {
                Value::Missing => self.0.write_field("")?,
                Value::Integer(integer) => self.0.write_field(Value::signed(integer).to_string())?,
                Value::Text(text) => self.0.write_field(text.as_bytes())?,
            }
        }
        self.0.write_record(None::<&[u8]>)
    }

    /// Ends the table, and returns the writer.
    ///
    /// # Errors
    ///
    /// If the file cannot be written.
    pub fn finish(self) -> Result<W> {
        self.0.into_inner().map_err(|error| error.into_error().into())
    }
}
