//! The shadow of the leaf page tables: what entries say, in the order in which they were built, and what a TLB may still
//! remember of them.

use std::collections::BTreeMap;

use vidmm::contract::{
    FlushTlb, KmdAllocationHandle, KmdProcessHandle, PteFlags, UpdatePageTable, UpdatePageTableFlags,
};
use vidmm::{PageSize, PhysicalAddress};

use super::intervals::{Intervals, Known};
use super::segment::{Run, push_run};

/// The valid leaf entries of all processes.
#[derive(Debug, Default)]
pub(super) struct Shadow {
    /// Leaf tables of 4 KiB and of 64 KiB pages are different tables (GVA-43).
    spaces: BTreeMap<(KmdProcessHandle, PageSize), Intervals<Target>>,
    /// Ranges whose entries are no longer valid, and not flushed yet.
    stale: Vec<Stale>,
}

/// What a run of entries shows.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Target {
    allocation: Option<KmdAllocationHandle>,
    address: PhysicalAddress,
}

impl Known for Target {
    fn advanced(self, bytes: u64) -> Self {
        let offset = self.address.offset.saturating_add(bytes);
        Self { address: PhysicalAddress { offset, ..self.address }, ..self }
    }
}

/// Addresses that a TLB may still know by entries that are gone.
#[derive(Clone, Copy, Debug)]
pub(super) struct Stale {
    pub process: KmdProcessHandle,
    pub start: u64,
    pub end: u64,
    allocation: Option<KmdAllocationHandle>,
}

/// The size of the pages that the entries of an operation map.
pub(super) fn page_size(op: &UpdatePageTable) -> PageSize {
    if op.flags.contains(UpdatePageTableFlags::USE_64KB_PAGES) { PageSize::Kib64 } else { PageSize::Kib4 }
}

/// Bytes of addresses that leaf entries cover.
pub(super) fn leaf_bytes(op: &UpdatePageTable) -> u64 {
    u64::from(op.page_table_entries.num_page_table_entries) * page_size(op).bytes()
}

impl Shadow {
    /// Leaf entries are written. With `cached`, what they replace is stale until it is flushed.
    pub fn write(&mut self, op: &UpdatePageTable, cached: bool) {
        let start = op.first_pte_virtual_address.0;
        let end = start.saturating_add(leaf_bytes(op));
        let space = self.spaces.entry((op.process, page_size(op))).or_default();
        let first = op.page_table_entries.first;
        let target = Target { allocation: op.allocation, address: first.address };
        let valid = first.flags.contains(PteFlags::VALID);
        let replaced = if valid { space.insert(start, end, target) } else { space.remove(start, end) };
        if !cached {
            return;
        }
        for (from, to, before) in replaced {
            if !valid || target.advanced(from - start) != before {
                let allocation = before.allocation;
                self.stale.push(Stale { process: op.process, start: from, end: to, allocation });
            }
        }
    }

    /// Addresses are flushed; both 0 are the whole space.
    pub fn flush(&mut self, op: &FlushTlb) {
        let (start, end) = match (op.start_virtual_address.0, op.end_virtual_address.0) {
            (0, 0) => (0, u64::MAX),
            range => range,
        };
        let mut rest = Vec::new();
        self.stale.retain(|stale| {
            let touched = stale.process == op.process && stale.start < end && start < stale.end;
            if touched {
                rest.extend(
                    [(stale.start, start.min(stale.end)), (end.max(stale.start), stale.end)]
                        .into_iter()
                        .filter(|(start, end)| start < end)
                        .map(|(start, end)| Stale { start, end, ..*stale }),
                );
            }
            !touched
        });
        self.stale.append(&mut rest);
    }

    /// Whether a valid entry in a range of a process shows the allocation.
    pub fn shows(&self, process: KmdProcessHandle, start: u64, end: u64, allocation: KmdAllocationHandle) -> bool {
        let sides = [PageSize::Kib4, PageSize::Kib64].into_iter().filter_map(|side| self.spaces.get(&(process, side)));
        sides.flat_map(|space| space.within(start, end)).any(|(_, _, target)| target.allocation == Some(allocation))
    }

    /// Where a TLB may still know an allocation by entries that are gone.
    pub fn stale_of(&self, allocation: KmdAllocationHandle) -> Option<Stale> {
        self.stale.iter().find(|stale| stale.allocation == Some(allocation)).copied()
    }

    /// Forgets what is stale, and returns the first of it.
    pub fn take_stale(&mut self) -> Option<Stale> {
        let first = self.stale.first().copied();
        self.stale.clear();
        first
    }

    /// The memory that a range shows; none unless all of it is mapped.
    pub fn translate(&self, process: KmdProcessHandle, side: PageSize, start: u64, size: u64) -> Option<Vec<Run>> {
        let end = start.checked_add(size)?;
        let (mut runs, mut at) = (Vec::new(), start);
        for (from, to, target) in self.spaces.get(&(process, side))?.within(start, end) {
            if from != at {
                return None;
            }
            push_run(&mut runs, (target.address, to - from));
            at = to;
        }
        (at == end).then_some(runs)
    }

    /// The first address of a process that is mapped.
    pub fn first_mapped(&self, process: KmdProcessHandle) -> Option<u64> {
        let sides = [PageSize::Kib4, PageSize::Kib64].into_iter().filter_map(|side| self.spaces.get(&(process, side)));
        sides.filter_map(Intervals::first).map(|(start, ..)| start).min()
    }

    /// Forgets the entries of a process.
    pub fn remove(&mut self, process: KmdProcessHandle) {
        self.spaces.retain(|&(of, _), _| of != process);
    }
}
