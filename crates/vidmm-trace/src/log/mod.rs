//! The event log: what happened in a run, as JSON lines. `docs/events.md` is its schema.
//!
//! * [`LogWriter`] writes a [`LogHeader`] and then one line an event;
//! * [`LogReader`] reads them back, and refuses what is no whole log;
//! * [`Audit`] rebuilds from the events alone who was where, and checks the invariants.

mod audit;
mod error;
mod header;
mod reader;
mod writer;

pub use audit::{Audit, AuditFinding, Invariant, paging_va_rule};
pub use error::LogError;
pub use header::{EVENTS_VERSION, LogHeader};
pub use reader::LogReader;
pub use writer::LogWriter;
