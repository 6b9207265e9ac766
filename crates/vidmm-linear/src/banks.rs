//! The banks of a segment, and what is free in each (SEG-31).

use crate::Direction;
use alloc::{collections::BTreeSet, vec, vec::Vec};

use super::{
    MAX_SEGMENT_SIZE,
    run::{Run, Want},
};
use crate::PAGE_SIZE;

/// Banks have numbers from 1 to this (SEG-43).
pub const MAX_BANKS: usize = 127;

/// A bank in which an allocation would rather be (SEG-43).
#[doc(alias = "DXGK_SEGMENTBANKPREFERENCE")]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct HintedBank {
    /// The bank, from 1; a bank that the segment does not have is no hint.
    pub bank: u8,
    /// The end of the bank from which a place is sought. It overrides the direction of the request (SEG-44).
    pub direction: Direction,
}

/// The table of banks does not divide the segment (SEG-31): ends ascend, are multiples of the page size and lie in the
/// segment, and there are at most [`MAX_BANKS`].
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("the end of bank {bank} does not divide the segment")]
pub struct BankRangeTableError {
    /// The first bank whose end is wrong, from 1.
    pub bank: usize,
}

/// Holes are cut at the ends of banks, and their parts kept by bank and size.
#[derive(Clone, Debug, Default)]
pub(super) struct Banks {
    ends: Vec<u32>,
    /// Length and start of each part.
    parts: Vec<BTreeSet<(u32, u32)>>,
}

impl Banks {
    pub fn new(pages: u32, bank_ends: &[u64]) -> Result<Self, BankRangeTableError> {
        let mut ends: Vec<u32> = Vec::new();
        for (index, &end) in bank_ends.iter().enumerate() {
            let is_page = end.is_multiple_of(PAGE_SIZE) && end <= MAX_SEGMENT_SIZE;
            let page = (end / PAGE_SIZE) as u32;
            if !is_page || page <= ends.last().copied().unwrap_or(0) || page > pages || index >= MAX_BANKS {
                return Err(BankRangeTableError { bank: index + 1 });
            }
            ends.push(page);
        }
        // The end of the last bank may be left out.
        if ends.last().is_some_and(|&end| end < pages) {
            if ends.len() == MAX_BANKS {
                return Err(BankRangeTableError { bank: MAX_BANKS });
            }
            ends.push(pages);
        }
        Ok(Self { parts: vec![BTreeSet::new(); ends.len()], ends })
    }

    /// The hole `old` is now `new`; `None` is no hole.
    #[inline]
    pub fn replace(&mut self, old: Option<Run>, new: Option<Run>) {
        if !self.ends.is_empty() {
            self.replace_parts(old, new);
        }
    }

    fn replace_parts(&mut self, old: Option<Run>, new: Option<Run>) {
        let touched = old.into_iter().chain(new);
        let start = touched.clone().map(|run| run.start).min().unwrap_or(0);
        let end = touched.map(|run| run.end()).max().unwrap_or(0);
        let first = self.ends.partition_point(|&bank_end| bank_end <= start);
        for bank in first..self.ends.len() {
            let window = self.window(bank);
            if window.start >= end {
                break;
            }
            let [before, after] = [old, new].map(|run| run.and_then(|run| run.part_inside(window)));
            if before == after {
                continue;
            }
            if let Some(part) = before {
                self.parts[bank].remove(&(part.len, part.start));
            }
            if let Some(part) = after {
                self.parts[bank].insert((part.len, part.start));
            }
        }
    }

    /// A place in a hinted bank: where [`Want::choose`] finds it among the parts of holes in the bank.
    pub fn find(&self, hint: HintedBank, want: Want) -> Option<Run> {
        let parts = self.parts.get(usize::from(hint.bank).checked_sub(1)?)?;
        let want = Want { direction: hint.direction, ..want };
        let at_least = |len| parts.range((len, 0)..).map(|&(len, start)| Run { start, len });
        want.choose(at_least, |part| part).map(|(_, place)| place)
    }

    /// The free ranges of each bank, by bank and then by place, for the audit.
    pub fn check(&self, holes: impl Iterator<Item = Run> + Clone) -> bool {
        (0..self.ends.len()).all(|bank| {
            let window = self.window(bank);
            let parts = holes.clone().filter_map(|hole| hole.part_inside(window));
            parts.map(|part| (part.len, part.start)).collect::<BTreeSet<_>>() == self.parts[bank]
        })
    }

    fn window(&self, bank: usize) -> Run {
        let start = if bank == 0 { 0 } else { self.ends[bank - 1] };
        Run::between(start, self.ends[bank])
    }
}
