//! The event log: a run as JSON lines. `docs/reference/events.md` is its schema.
//!
//! * [`LogWriter`] writes a [`LogHeader`], then one line an event, and at last a line with their number and a hash;
//! * [`open`] and [`LogFile`] read and write it as a file, compressed by gzip if its name ends with `.gz`;
//! * [`LogReader`] reads them back, and refuses a log that is not whole;
//! * [`Audit`] rebuilds the places of all allocations from the events alone, and checks the invariants.

mod audit;
mod error;
mod file;
mod header;
mod reader;
mod trailer;
mod writer;

pub use audit::{Audit, AuditFinding, Invariant};
pub use error::LogError;
pub use file::{LogFile, open, plain};
pub use header::{EVENTS_VERSION, EventsLevel, LogHeader};
pub use reader::LogReader;
pub use writer::LogWriter;
