//! Reserved addresses read as zero where nothing is mapped, and no others do (GVA-20, GVA-52).

use std::collections::BTreeMap;

use vidmm::contract::{KmdProcessHandle, PteFlags, UpdatePageTable, UpdatePageTableFlags};
use vidmm::{GpuVirtualAddress, PageSize, PagingQueueId, PhysicalAddress, ProcessId};

use super::Audit;
use super::allocation::Mapping;
use super::device::RequestKind;
use super::finding::Invariant;
use super::intervals::Intervals;
use super::tlb::Stale;

/// Addresses that read as zero.
#[derive(Debug, Default)]
pub(super) struct Zeros {
    /// By the tables that are reached from the root.
    reached: BTreeMap<KmdProcessHandle, Intervals<()>>,
    /// By those that were initialised, and that nothing points to yet.
    apart: BTreeMap<(KmdProcessHandle, PhysicalAddress), Intervals<()>>,
    /// The rests of reservations that are to read as zero, by queue and value.
    asked: BTreeMap<(PagingQueueId, u64), (ProcessId, Intervals<()>)>,
    /// Reservations that were said to read as zero.
    shown: BTreeMap<ProcessId, Intervals<()>>,
    /// Reservations, or parts of them, that were given back, and whose addresses are not free yet.
    ending: BTreeMap<ProcessId, Intervals<()>>,
}

impl Zeros {
    /// A reservation reads as zero from now on: what is left of it.
    pub fn show(&mut self, queue: PagingQueueId, value: u64) {
        let Some((process, left)) = self.asked.remove(&(queue, value)) else { return };
        let shown = self.shown.entry(process).or_default();
        left.within(0, u64::MAX).for_each(|(start, end, ())| drop(shown.insert(start, end, ())));
    }

    /// A part of a reservation was given back.
    pub fn end(&mut self, process: ProcessId, start: u64, end: u64) {
        let asked = self.asked.values_mut().filter(|(of, _)| *of == process).map(|(_, left)| left);
        for left in asked.chain([self.shown.entry(process).or_default()]) {
            left.remove(start, end);
        }
        self.ending.entry(process).or_default().insert(start, end, ());
    }

    /// Whether a part of a reservation was given back and is not reclaimed: tables in which the rest ends may be to come.
    pub fn has_ending(&self) -> bool {
        self.ending.values().any(|parts| parts.first().is_some())
    }

    /// All tables are gone.
    pub fn lose_content(&mut self) {
        self.reached.clear();
        self.apart.clear();
    }

    /// A process is gone.
    pub fn remove(&mut self, process: ProcessId, handle: KmdProcessHandle) {
        self.reached.remove(&handle);
        self.apart.retain(|&(of, _), _| of != handle);
        self.asked.retain(|_, &mut (of, _)| of != process);
        self.shown.remove(&process);
        self.ending.remove(&process);
    }

    /// Entries of a table are written, which cover `start..end`. Returns what read as zero there and does no longer, and what does
    /// newly.
    fn write(&mut self, op: &UpdatePageTable, is_root: bool, (start, end): (u64, u64)) -> [Vec<(u64, u64)>; 2] {
        let table = (op.process, op.page_table_address);
        let flags = op.page_table_entries.first.flags;
        if op.flags.contains(UpdatePageTableFlags::INITIAL_UPDATE) && !is_root {
            self.apart.insert(table, Intervals::default());
        }
        if flags.contains(PteFlags::LARGE_PAGE) {
            // It shows what the table in whose place it is shows.
            return Default::default();
        }
        let is_link = op.page_table_level > 0 && flags.contains(PteFlags::VALID);
        let below = match is_link {
            true => self.apart.remove(&(op.process, op.page_table_entries.first.address)),
            false => None,
        };
        if is_link && below.is_none() {
            // It points to the table that it pointed to before.
            return Default::default();
        }
        let (space, is_reached) = match self.apart.get_mut(&table) {
            Some(apart) => (apart, false),
            None => (self.reached.entry(op.process).or_default(), true),
        };
        let before = space.remove(start, end);
        if flags.contains(PteFlags::ZERO) && !flags.contains(PteFlags::VALID) {
            space.insert(start, end, ());
        }
        for (from, to, ()) in below.iter().flat_map(|below| below.within(start, end)) {
            space.insert(from, to, ());
        }
        if !is_reached {
            return Default::default();
        }
        let after = ranges_in(space, start, end);
        let before: Vec<(u64, u64)> = before.into_iter().map(|(from, to, ())| (from, to)).collect();
        [without(&before, &after), without(&after, &before)]
    }
}

/// The parts of some ranges that are in no others.
fn without(ranges: &[(u64, u64)], others: &[(u64, u64)]) -> Vec<(u64, u64)> {
    let mut left = Intervals::default();
    ranges.iter().for_each(|&(start, end)| drop(left.insert(start, end, ())));
    others.iter().for_each(|&(start, end)| drop(left.remove(start, end)));
    ranges_in(&left, 0, u64::MAX)
}

/// The ranges of some addresses, as far as they lie in `start..end`.
fn ranges_in(addresses: &Intervals<()>, start: u64, end: u64) -> Vec<(u64, u64)> {
    addresses.within(start, end).map(|(from, to, ())| (from, to)).collect()
}

impl Audit {
    /// Reserved addresses are to read as zero, if entries can say so.
    pub(super) fn ask_to_show(
        &mut self,
        process: ProcessId,
        (GpuVirtualAddress(start), size): (GpuVirtualAddress, u64),
        queue: Option<PagingQueueId>,
        paging_fence_value: u64,
    ) {
        let is_asked = paging_fence_value > 0;
        self.findings.check(is_asked == self.adapter.zero_in_pte_supported, Invariant::Gva52, || {
            format!("{start:#x} of {process} is reserved with value {paging_fence_value}, whatever its entries can say")
        });
        let Some(queue) = queue.filter(|_| is_asked) else { return };
        self.reach(process, start.saturating_add(size));
        let Some(device) = self.fences.queues.get(&queue).map(|queue| queue.device) else { return };
        let mut left = Intervals::default();
        left.insert(start, start.saturating_add(size), ());
        self.zeros.asked.insert((queue, paging_fence_value), (process, left));
        self.ask(device, queue, paging_fence_value, RequestKind::Reserve);
    }

    /// Addresses of a reservation that was given back are not free before they are reclaimed.
    pub(super) fn check_not_ending(&mut self, process: ProcessId, start: u64, end: u64) {
        let first = self.ending_within(process, start, end).first().map(|&(first, _)| first);
        self.findings.check(first.is_none(), Invariant::Gva52, || {
            format!("{first:x?} of {process} has an owner, but what was reserved there is not reclaimed")
        });
    }

    /// Whether what is reclaimed was reserved: then it must not read as zero any more.
    pub(super) fn reclaim_reserved(&mut self, process: ProcessId, start: u64, end: u64) -> bool {
        let Some(ending) = self.zeros.ending.get_mut(&process) else { return false };
        if !ending.within(start, end).any(|part| (part.0, part.1) == (start, end)) {
            return false;
        }
        ending.remove(start, end);
        let left = self.zero_within(process, start, end).first().copied();
        self.findings.check(left.is_none(), Invariant::Gva52, || {
            format!("{start:#x}..{end:#x} of {process} is reclaimed, but {left:x?} reads as zero")
        });
        true
    }

    /// Entries of a user's process are written: zeros where addresses are reserved, and nowhere else.
    pub(super) fn write_zeros(&mut self, op: &UpdatePageTable) {
        // The side of small pages says what reads as zero.
        if op.page_table_level == 0 && op.page_size() == PageSize::Kib64 {
            return;
        }
        let entry_bytes = self.tables.entry_bytes(op.page_table_level, PageSize::Kib4);
        let count = u64::from(op.page_table_entries.num_page_table_entries);
        let start = op.first_pte_virtual_address.0;
        let range = (start, start.saturating_add(count.saturating_mul(entry_bytes)));
        let is_root = self.tables.is_root(op.page_table_level);
        let [gone, new] = self.zeros.write(op, is_root, range);
        let stale = |&(start, end): &(u64, u64)| Stale { process: op.process, start, end, allocation: None };
        // That something reads as zero is remembered in any case.
        gone.iter().for_each(|range| self.shadow.tlb.written(stale(range)));
        let Some(&process) = self.by_process_handle.get(&op.process) else { return };
        // After a reset nothing is cached of a process before a context of it is told its root.
        let of_process = |device| self.process_of(device) == Some(process);
        let is_known = self.contexts.values().any(|context| context.root.is_some() && of_process(context.device));
        if self.shadow.tlb.remembers_invalid && is_known {
            new.iter().for_each(|range| self.shadow.tlb.written(stale(range)));
        }
        for (start, end) in new {
            let mut known = self.reserved_within(process, start, end);
            known.extend(self.ending_within(process, start, end));
            let stray = without(&[(start, end)], &known).first().copied();
            self.findings.check(stray.is_none(), Invariant::Gva52, || {
                format!("{stray:x?} of {process} reads as zero, but is not reserved")
            });
        }
    }

    /// Work of a process is handed out: what it has reserved reads as zero where nothing is mapped, and faults where a mapping
    /// is not shown.
    pub(super) fn check_read_zero(&mut self, process: ProcessId) {
        let Some(shown) = self.zeros.shown.get(&process) else { return };
        for (start, end) in ranges_in(shown, 0, u64::MAX) {
            let mapped: Vec<Mapping> = self.mappings_within(process, start, end).copied().collect();
            let taken: Vec<(u64, u64)> =
                mapped.iter().map(|mapping| (mapping.virtual_address, mapping.end())).collect();
            let zero = self.zero_within(process, start, end);
            let lacking = without(&without(&[(start, end)], &taken), &zero).first().copied();
            self.findings.check(lacking.is_none(), Invariant::Gva52, || {
                format!("{lacking:x?} of {process} is reserved, but work that is handed out does not read zeros there")
            });
            let is_usable = |mapping: &&Mapping| {
                let (queue, value) = mapping.asked_by;
                let is_told = self.fences.queues.get(&queue).is_some_and(|queue| queue.signaled >= value);
                let allocation = self.allocations.get(&mapping.allocation);
                is_told && mapping.freed.is_none() && allocation.is_some_and(|allocation| !allocation.destroyed)
            };
            let used: Vec<(u64, u64)> =
                mapped.iter().filter(is_usable).map(|mapping| (mapping.virtual_address, mapping.end())).collect();
            let covered = without(&used, &without(&used, &zero)).first().copied();
            self.findings.check(covered.is_none(), Invariant::Gva52, || {
                format!("{covered:x?} of {process} is mapped, but reads as zero")
            });
        }
    }

    /// Whether a reservation that reads as zero ends between some addresses, or one that was given back and is not reclaimed.
    pub(super) fn is_cut_by_reservation(&self, process: ProcessId, start: u64, end: u64) -> bool {
        let reserved = self.reserved_within(process, start, end);
        let mut ranges = self.ending_within(process, 0, u64::MAX).into_iter().chain(reserved);
        let is_cut = |(first, last): (u64, u64)| first < end && start < last && (start < first || last < end);
        self.adapter.zero_in_pte_supported && ranges.any(is_cut)
    }

    fn zero_within(&self, process: ProcessId, start: u64, end: u64) -> Vec<(u64, u64)> {
        let handle = self.processes.get(&process).map(|process| process.handle);
        let space = handle.and_then(|handle| self.zeros.reached.get(&handle));
        space.map_or_else(Vec::new, |space| ranges_in(space, start, end))
    }

    /// The parts of reservations that were given back, and whose addresses are not free yet.
    fn ending_within(&self, process: ProcessId, start: u64, end: u64) -> Vec<(u64, u64)> {
        self.zeros.ending.get(&process).map_or_else(Vec::new, |ending| ranges_in(ending, start, end))
    }

    fn reserved_within(&self, process: ProcessId, start: u64, end: u64) -> Vec<(u64, u64)> {
        let all = self.reservations.range((process, 0)..(process, end));
        let range = all.map(|(&(_, first), &size)| (first, first.saturating_add(size)));
        range.filter(|&(_, last)| last > start).collect()
    }
}
