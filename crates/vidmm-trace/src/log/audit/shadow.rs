//! The shadow of the leaf page tables: what entries say, in the order in which they were built.

use std::collections::BTreeMap;

use vidmm::contract::{KmdAllocationHandle, KmdProcessHandle, PteFlags, UpdatePageTable};
use vidmm::{PageSize, PhysicalAddress};

use super::intervals::{Intervals, Known, Part};
use super::segment::{Run, push_run};
use super::tlb::{Stale, Tlb};

/// The valid leaf entries of all processes.
#[derive(Debug, Default)]
pub(super) struct Shadow {
    /// Leaf tables of 4 KiB and of 64 KiB pages are different tables (GVA-43).
    spaces: BTreeMap<(KmdProcessHandle, PageSize), Intervals<Target>>,
    /// Windows of the paging process whose operation is built.
    used_windows: Intervals<()>,
    pub tlb: Tlb,
}

/// The memory that a run of entries shows.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Target {
    pub allocation: Option<KmdAllocationHandle>,
    pub address: PhysicalAddress,
    pub flags: PteFlags,
}

impl Known for Target {
    fn advanced(self, bytes: u64) -> Self {
        let offset = self.address.offset.saturating_add(bytes);
        Self { address: PhysicalAddress { offset, ..self.address }, ..self }
    }
}

/// The addresses that leaf entries cover: the first, and the first after them.
pub(super) fn leaf_range(op: &UpdatePageTable) -> (u64, u64) {
    let start = op.first_pte_virtual_address.0;
    (start, start.saturating_add(leaf_bytes(op)))
}

/// Bytes of addresses that leaf entries cover.
pub(super) fn leaf_bytes(op: &UpdatePageTable) -> u64 {
    u64::from(op.page_table_entries.num_page_table_entries) * op.page_size().bytes()
}

impl Shadow {
    /// Leaf entries are written. Addresses that a TLB may remember otherwise are stale until it is flushed. Whether any
    /// of them says something else than before.
    pub fn write(&mut self, op: &UpdatePageTable) -> bool {
        let (start, end) = leaf_range(op);
        let space = self.spaces.entry((op.process, op.page_size())).or_default();
        let first = op.page_table_entries.first;
        let target = Target { allocation: op.allocation, address: first.address, flags: first.flags };
        let valid = first.flags.contains(PteFlags::VALID);
        let replaced = if valid { space.insert(start, end, target) } else { space.remove(start, end) };
        let stale = |start, end, allocation| Stale { process: op.process, start, end, allocation };
        let mut changes = valid && gaps(&replaced, start, end).next().is_some();
        if valid && self.tlb.remembers_invalid {
            gaps(&replaced, start, end).for_each(|(from, to)| self.tlb.written(stale(from, to, None)));
        }
        for (from, to, before) in replaced {
            if !valid || target.advanced(from - start) != before {
                changes = true;
                self.tlb.written(stale(from, to, before.allocation));
            }
        }
        changes
    }

    /// Whether a valid entry in a range of a process shows the allocation.
    pub fn shows(&self, process: KmdProcessHandle, start: u64, end: u64, allocation: KmdAllocationHandle) -> bool {
        self.sides(process).flat_map(|space| space.within(start, end)).any(|(.., at)| at.allocation == Some(allocation))
    }

    /// Whether an entry for pages of this size is valid in a range of a process.
    pub fn is_shown(&self, process: KmdProcessHandle, side: PageSize, start: u64, end: u64) -> bool {
        self.spaces.get(&(process, side)).is_some_and(|space| space.within(start, end).next().is_some())
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

    /// The memory that all of a range shows, as one piece; none if it is not.
    pub fn shown_as_one(&self, process: KmdProcessHandle, side: PageSize, start: u64, end: u64) -> Option<Target> {
        let (mut whole, mut at) = (None, start);
        for (from, to, target) in self.spaces.get(&(process, side))?.within(start, end) {
            let first: Target = *whole.get_or_insert(target);
            if from != at || target != first.advanced(from - start) {
                return None;
            }
            at = to;
        }
        whole.filter(|_| at == end)
    }

    /// An address of a process that is mapped and lies in none of `ranges`, each from its start to its end.
    pub fn mapped_outside(&self, process: KmdProcessHandle, ranges: &[(u64, u64)]) -> Option<u64> {
        let mut mapped = self.sides(process).flat_map(|space| space.within(0, u64::MAX));
        let outside = |&(start, end, _): &Part<Target>| !ranges.iter().any(|&(from, to)| from <= start && end <= to);
        mapped.find(outside).map(|(start, ..)| start)
    }

    /// Whether something is mapped in a range of a process.
    pub fn is_mapped(&self, process: KmdProcessHandle, start: u64, end: u64) -> bool {
        self.sides(process).any(|space| space.within(start, end).next().is_some())
    }

    /// An operation uses a window. Returns the first address of the window that an earlier operation has used.
    pub fn use_window(&mut self, start: u64, end: u64) -> Option<u64> {
        self.used_windows.insert(start, end, ()).first().map(|part| part.0)
    }

    /// Windows of a process go. Returns the first address in the windows without an operation.
    pub fn end_windows(&mut self, process: KmdProcessHandle, start: u64, end: u64) -> Option<u64> {
        let used = self.used_windows.remove(start, end);
        let mut unused = gaps(&used, start, end);
        unused
            .find_map(|(from, to)| self.sides(process).find_map(|space| space.within(from, to).next()))
            .map(|part| part.0)
    }

    /// The first address of a process that is mapped.
    pub fn first_mapped(&self, process: KmdProcessHandle) -> Option<u64> {
        self.sides(process).filter_map(Intervals::first).map(|(start, ..)| start).min()
    }

    /// Forgets the entries of a process.
    pub fn remove(&mut self, process: KmdProcessHandle) {
        self.spaces.retain(|&(of, _), _| of != process);
    }

    /// All entries are gone, and no TLB knows them.
    pub fn clear(&mut self) {
        self.spaces.clear();
        self.used_windows = Intervals::default();
        self.tlb.clear();
    }

    /// The two kinds of leaf tables of a process.
    fn sides(&self, process: KmdProcessHandle) -> impl Iterator<Item = &Intervals<Target>> {
        [PageSize::Kib4, PageSize::Kib64].into_iter().filter_map(move |side| self.spaces.get(&(process, side)))
    }
}

/// The parts of `start..end` that no part in `taken`, which is in order, covers.
fn gaps<T>(taken: &[Part<T>], start: u64, end: u64) -> impl Iterator<Item = (u64, u64)> {
    let ends = std::iter::once(start).chain(taken.iter().map(|part| part.1));
    let starts = taken.iter().map(|part| part.0).chain(std::iter::once(end));
    ends.zip(starts).filter(|(from, to)| from < to)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gaps_are_what_is_left() {
        let gaps = |taken: &[Part<()>]| super::gaps(taken, 10, 20).collect::<Vec<_>>();
        assert_eq!(gaps(&[]), [(10, 20)]);
        assert_eq!(gaps(&[(10, 12, ()), (15, 20, ())]), [(12, 15)]);
        assert_eq!(gaps(&[(12, 15, ())]), [(10, 12), (15, 20)]);
        assert_eq!(gaps(&[(10, 20, ())]), []);
    }
}
