//! The timeline: one fold over an event log that yields typed records.
//!
//! A [`Timeline`] reads the events of a log in order. It keeps what is alive or under way, and no more: its memory does not
//! grow with the length of a run. [`record`] has all kinds of records.
//!
//! ```
//! use vidmm_trace::{LogReader, log};
//! use vidmm_view::timeline::{Record, Timeline};
//!
//! # fn read(path: &std::path::Path) -> Result<(), Box<dyn std::error::Error>> {
//! let mut evictions = 0;
//! for record in Timeline::of(LogReader::new(log::open(path)?)?) {
//!     if let Record::Eviction(_) = record? {
//!         evictions += 1;
//!     }
//! }
//! # Ok(())
//! # }
//! ```
//!
//! The log decides: victims, beneficiaries, reasons and places are what its events say. The timeline adds the two things that an
//! event log does not have: the time at which a packet began, and the price of an eviction.

mod engines;
mod findings;
mod fold;
mod homes;
mod memory;
mod plans;
pub mod record;
mod requests;

use std::collections::VecDeque;

use vidmm::NumberedEvent;

pub(crate) use memory::BYTES_MAX;
pub use record::Record;

/// The fold over an event log.
#[derive(Debug, Default)]
pub struct Timeline {
    fold: fold::Fold,
    out: Vec<Record>,
}

impl Timeline {
    /// A timeline that has read nothing yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// The records of a whole log, such as a [`LogReader`](vidmm_trace::LogReader). An error of the log ends them.
    pub fn of<I, E>(log: I) -> impl Iterator<Item = Result<Record, E>>
    where
        I: IntoIterator<Item = Result<NumberedEvent, E>>,
    {
        Records { log: log.into_iter().fuse(), timeline: Some(Self::new()), ready: VecDeque::new() }
    }

    /// Reads the next event. Returns the records that are complete with it.
    pub fn event(&mut self, event: &NumberedEvent) -> impl Iterator<Item = Record> {
        self.fold.event(event, &mut self.out);
        self.out.drain(..)
    }

    /// Ends the log. Returns the records of all that is still under way.
    pub fn finish(mut self) -> impl Iterator<Item = Record> {
        self.fold.finish(&mut self.out);
        self.out.into_iter()
    }
}

/// The records of a log that is being read.
struct Records<I> {
    log: I,
    /// None when the log is over.
    timeline: Option<Timeline>,
    ready: VecDeque<Record>,
}

impl<I, E> Iterator for Records<I>
where
    I: Iterator<Item = Result<NumberedEvent, E>>,
{
    type Item = Result<Record, E>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if let Some(record) = self.ready.pop_front() {
                return Some(Ok(record));
            }
            match self.log.next() {
                Some(Ok(event)) => self.ready.extend(self.timeline.as_mut()?.event(&event)),
                Some(Err(error)) => {
                    self.timeline = None;
                    return Some(Err(error));
                }
                None => self.ready.extend(self.timeline.take()?.finish()),
            }
        }
    }
}
