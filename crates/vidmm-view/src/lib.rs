//! Views of an event log, for people and for tools that draw.
//!
//! [`timeline`] is the one fold over a log that all views share: it yields typed records, and keeps no more of the run than
//! what is alive or under way.
//! [`report`] is a page that draws them, [`perfetto`] a trace for the viewer of that name, [`tables`] Parquet and CSV,
//! [`statistics`] its sums.

pub mod perfetto;
pub mod report;
pub mod statistics;
pub mod tables;
pub mod timeline;
mod text;
mod whole_file;

pub use text::cut;
pub use whole_file::WholeFile;
