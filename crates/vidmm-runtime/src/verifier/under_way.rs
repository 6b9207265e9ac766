//! The writes of operations that are under way.

use std::ops::Range;

use vidmm::{PhysicalAddress, SegmentId};

use super::page::Page;
use crate::probe::TableEntry;

/// Places of one kind, which a number tells apart.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Space {
    /// Pages of a segment.
    Pages(SegmentId),
    /// Entries of a table.
    Table(PhysicalAddress),
    /// Pages of an aperture.
    Aperture(SegmentId),
}

/// The values that consecutive places get.
#[derive(Debug)]
pub(super) enum Values {
    /// The digests of pages, where they are known.
    Digests(Vec<Option<u64>>),
    /// Entries of a table.
    Entries(Vec<TableEntry>),
    /// So many values that no operation reads.
    Other(u64),
}

/// A write of an operation.
#[derive(Debug)]
struct Write {
    /// The operation's number; the highest of all is somebody else.
    operation: u64,
    space: Space,
    places: Range<u64>,
    values: Values,
}

const SOMEBODY_ELSE: u64 = u64::MAX;

/// The writes of the operations that have begun and not ended, in their order. There are few at a time.
#[derive(Debug, Default)]
pub(super) struct UnderWay(Vec<Write>);

impl UnderWay {
    /// Nothing is under way any more.
    pub fn clear(&mut self) {
        self.0.clear();
    }

    /// An operation has begun that writes places from `first` on.
    pub fn add(&mut self, operation: u64, space: Space, first: u64, values: Values) {
        let count = match &values {
            Values::Digests(digests) => digests.len() as u64,
            Values::Entries(entries) => entries.len() as u64,
            Values::Other(count) => *count,
        };
        self.0.push(Write { operation, space, places: first..first + count, values });
    }

    /// The CPU or a kernel has written a page: what it holds is no operation's effect.
    pub fn written(&mut self, page: Page) {
        if self.last(Space::Pages(page.segment), page.number).is_some_and(|last| last.operation != SOMEBODY_ELSE) {
            self.add(SOMEBODY_ELSE, Space::Pages(page.segment), page.number, Values::Other(1));
        }
    }

    /// An operation has ended.
    pub fn release(&mut self, operation: u64) {
        self.0.retain(|write| write.operation != operation);
        if self.0.iter().all(|write| write.operation == SOMEBODY_ELSE) {
            self.clear();
        }
    }

    /// The digest, if it is known, that a page has when all that has begun has ended; none if nothing writes it.
    pub fn digest(&self, page: Page) -> Option<Option<u64>> {
        let write = self.last(Space::Pages(page.segment), page.number)?;
        Some(match &write.values {
            Values::Digests(digests) => digests[(page.number - write.places.start) as usize],
            Values::Entries(_) | Values::Other(_) => None,
        })
    }

    /// The entry that a table has then; none if nothing writes it.
    pub fn entry(&self, table: PhysicalAddress, index: u32) -> Option<TableEntry> {
        let write = self.last(Space::Table(table), index.into())?;
        match &write.values {
            Values::Entries(entries) => entries.get((u64::from(index) - write.places.start) as usize).copied(),
            Values::Digests(_) | Values::Other(_) => None,
        }
    }

    fn last(&self, space: Space, place: u64) -> Option<&Write> {
        self.0.iter().rev().find(|write| write.space == space && write.places.contains(&place))
    }

    /// The writes behind an operation.
    pub fn later(&self, operation: u64) -> Later<'_> {
        Later(self.0.iter().filter(|write| write.operation > operation).collect())
    }
}

/// The writes behind an operation.
pub(super) struct Later<'a>(Vec<&'a Write>);

impl Later<'_> {
    /// Whether a place is.
    pub fn writes(&self, space: Space, place: u64) -> bool {
        self.0.iter().any(|write| write.space == space && write.places.contains(&place))
    }
}
