//! The tables of a log as files of a folder.

use std::{
    fs,
    io::{self, BufWriter},
    path::Path,
};

use vidmm::NumberedEvent;

use super::column::Value;
use super::csv::CsvWriter;
use super::parquet::ParquetWriter;
use super::rows::{Rows, Table};
use crate::{WholeFile, timeline::Record};

/// A format of files.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Format {
    /// Parquet.
    Parquet,
    /// Text with commas between values.
    Csv,
}

/// Writes all tables of a log to a folder, a file each.
pub struct TableFolder {
    rows: Rows,
    /// In the order of [`Table::ALL`].
    files: Vec<TableFile>,
}

enum TableFile {
    Parquet(ParquetWriter<BufWriter<WholeFile>>),
    Csv(CsvWriter<WholeFile>),
}

impl TableFolder {
    /// Makes the folder, if it is not there, and its files. Files of these names are written over.
    ///
    /// # Errors
    ///
    /// If the folder or a file cannot be written.
    pub fn create(folder: &Path, format: Format) -> io::Result<Self> {
        fs::create_dir_all(folder)?;
        let create = |table: &Table| {
            let extension = match format {
                Format::Parquet => "parquet",
                Format::Csv => "csv",
            };
            let file = WholeFile::create(&folder.join(table.name()).with_extension(extension))?;
            Ok(match format {
                Format::Parquet => {
                    let file = ParquetWriter::new(BufWriter::new(file), table.name(), table.columns());
                    TableFile::Parquet(file.map_err(io::Error::other)?)
                }
                Format::Csv => TableFile::Csv(CsvWriter::new(file, table.columns())?),
            })
        };
        let files = Table::ALL.iter().map(create).collect::<io::Result<_>>()?;
        Ok(Self { rows: Rows::default(), files })
    }

    /// Takes the next event.
    ///
    /// # Errors
    ///
    /// If its row cannot be written.
    pub fn event(&mut self, event: &NumberedEvent) -> io::Result<()> {
        let files = &mut self.files;
        self.rows.event(event, |table, row| files[table as usize].row(row))
    }

    /// Takes a record of the timeline.
    ///
    /// # Errors
    ///
    /// If its row cannot be written.
    pub fn record(&mut self, record: &Record) -> io::Result<()> {
        let row = self.rows.record(record);
        row.map_or(Ok(()), |(table, row)| self.files[table as usize].row(row))
    }

    /// Ends all tables: the files have their names from now on.
    ///
    /// # Errors
    ///
    /// If a file cannot be written.
    pub fn finish(mut self) -> io::Result<()> {
        for (table, row) in self.rows.finish() {
            self.files[table as usize].row(row)?;
        }
        let whole = self.files.into_iter().map(TableFile::finish).collect::<io::Result<Vec<_>>>()?;
        whole.into_iter().try_for_each(WholeFile::finish)
    }
}

impl TableFile {
    fn row(&mut self, row: Vec<Value<'_>>) -> io::Result<()> {
        match self {
            Self::Parquet(file) => file.row(row).map_err(io::Error::other),
            Self::Csv(file) => Ok(file.row(row)?),
        }
    }

    fn finish(self) -> io::Result<WholeFile> {
        match self {
            Self::Parquet(file) => Ok(file.finish().map_err(io::Error::other)?.into_inner()?),
            Self::Csv(file) => Ok(file.finish()?),
        }
    }
}
