//! The pieces of memory that submissions use as a whole, and the workload of them.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use crate::{Buffer, Cost, Engine, Kernel, Lifetime, Workload, WorkloadError};

/// Pieces begin and end at pages of this size, in bytes.
const PAGE: u64 = 4096;

/// The most uses of pieces in a workload.
const MAX_USES: u64 = 64 << 20;

/// The access of a submission to a range.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Access {
    /// The content is needed, and stays.
    Read,
    /// All bytes get new content.
    Write,
    /// The content may be needed, and may change.
    Update,
}

/// An allocation of memory.
pub(super) struct Memory {
    pub(super) bytes: u64,
    /// Whether the memory is the device's own.
    pub(super) is_local: bool,
    pub(super) device: u64,
    /// The number of submissions at the free.
    pub(super) freed: Option<usize>,
}

/// A submission to a queue.
pub(super) struct Submission {
    pub(super) device: u64,
    pub(super) at: u64,
    /// The time of the next submission, or of the end as the program saw, if earlier.
    pub(super) until: Option<u64>,
    pub(super) uses: Vec<Use>,
}

/// A range of memory that a submission uses.
pub(super) struct Use {
    pub(super) memory: usize,
    pub(super) range: Range<u64>,
    pub(super) access: Access,
}

impl Use {
    /// The pages that the range touches.
    fn outer(&self) -> Range<u64> {
        self.range.start / PAGE * PAGE..self.range.end.next_multiple_of(PAGE)
    }

    /// The pages that the range covers.
    fn inner(&self) -> Range<u64> {
        self.range.start.next_multiple_of(PAGE)..self.range.end / PAGE * PAGE
    }
}

/// The workload: a buffer for each piece that all submissions use as a whole or not at all, and a kernel for each submission. `end` is the
/// time of the last event.
pub(super) fn pieces(memories: &[Memory], submissions: &[Submission], end: u64) -> Result<Workload, WorkloadError> {
    let mut cuts: Vec<BTreeSet<u64>> = memories.iter().map(|_| BTreeSet::new()).collect();
    let local = |of: &&Use| memories[of.memory].is_local;
    for of in submissions.iter().flat_map(|submission| &submission.uses).filter(local) {
        let (outer, inner) = (of.outer(), of.inner());
        cuts[of.memory].extend([outer.start, outer.end]);
        if of.access == Access::Write && !inner.is_empty() {
            cuts[of.memory].extend([inner.start, inner.end]);
        }
    }
    let first = submissions.first().map_or(0, |submission| submission.at);
    let mut pieces = Pieces { cuts, ..Pieces::default() };
    for submission in submissions {
        let used = pieces.used(submission, memories)?;
        if used.is_empty() {
            continue;
        }
        let with =
            |is_in: fn(&(bool, bool)) -> bool| used.iter().filter(|(_, of)| is_in(of)).map(|(&at, _)| at).collect();
        pieces.kernels.push(Kernel {
            engine: Engine::Compute,
            reads: with(|(is_read, _)| *is_read),
            writes: with(|(_, is_written)| *is_written),
            cost: Cost::Nanoseconds(submission.until.unwrap_or(end) - submission.at),
            not_before_ns: submission.at - first,
            process: u32::try_from(submission.device).expect("a line makes a device"),
        });
    }
    let last = submissions.iter().rposition(|submission| submission.uses.iter().any(|of| local(&of)));
    for (&(memory, _), &at) in &pieces.known {
        let is_freed = memories[memory].freed.is_some_and(|freed| last.is_some_and(|last| freed <= last));
        pieces.buffers[at as usize].lifetime = if is_freed { Lifetime::Temporary } else { Lifetime::Kept };
    }
    Ok(Workload { name: String::new(), buffers: pieces.buffers, kernels: pieces.kernels })
}

/// The pieces so far.
#[derive(Default)]
struct Pieces {
    /// The borders of pieces in each memory.
    cuts: Vec<BTreeSet<u64>>,
    /// The buffer of each piece that was used, by memory and offset.
    known: BTreeMap<(usize, u64), u32>,
    buffers: Vec<Buffer>,
    kernels: Vec<Kernel>,
    uses: u64,
}

impl Pieces {
    /// The pieces that a submission uses, each with whether the former content is needed and whether the content changes.
    fn used(
        &mut self,
        submission: &Submission,
        memories: &[Memory],
    ) -> Result<BTreeMap<u32, (bool, bool)>, WorkloadError> {
        let mut used: BTreeMap<u32, (bool, bool)> = BTreeMap::new();
        let num_known = self.buffers.len() as u32;
        for of in submission.uses.iter().filter(|of| memories[of.memory].is_local) {
            let (outer, inner) = (of.outer(), of.inner());
            let borders = Vec::from_iter(self.cuts[of.memory].range(outer.start..=outer.end).copied());
            for piece in borders.windows(2) {
                let (start, end) = (piece[0], piece[1]);
                let buffers = &mut self.buffers;
                let at = *self.known.entry((of.memory, start)).or_insert_with(|| {
                    let name = buffers.len() as u64;
                    buffers.push(Buffer { name, bytes: end - start, lifetime: Lifetime::Kept });
                    name as u32
                });
                // The first write to a piece finds no content that could be needed.
                let is_whole = inner.start <= start && end <= inner.end || at >= num_known;
                let is_needed = of.access != Access::Write || !is_whole;
                let all = used.entry(at).or_default();
                *all = (all.0 | is_needed, all.1 | (of.access != Access::Read));
                self.uses += 1;
            }
            if self.uses > MAX_USES {
                return Err(WorkloadError::TooMany { what: "uses", limit: MAX_USES });
            }
        }
        Ok(used)
    }
}
