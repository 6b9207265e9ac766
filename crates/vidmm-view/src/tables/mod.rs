//! Tables: files of rows, for DuckDB, pandas and spreadsheets.
//!
//! A [`TableFolder`] takes the events of a log and the records of its [`Timeline`](crate::timeline::Timeline), and
//! writes the tables of [`Table`] as Parquet or as CSV. [`ParquetWriter`] and [`CsvWriter`] write rows of any other
//! table. All write a part at a time: their memory does not grow with the length of a run.

mod about;
mod column;
mod csv;
mod folder;
mod parquet;
mod rows;

pub use self::column::{Column, Kind, Value};
pub use self::csv::CsvWriter;
pub use self::folder::{Format, TableFolder};
pub use self::parquet::ParquetWriter;
pub use self::rows::{Rows, Table};
