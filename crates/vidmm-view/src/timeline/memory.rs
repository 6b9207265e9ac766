//! The holders of all ranges of all segments, and the sums over them.

use std::collections::{BTreeMap, BTreeSet};

use vidmm::{AllocationId, DeviceId, Extent, Nanoseconds, PlanNo, ProcessId, SegmentId};

use super::homes::Homes;
use super::record::{Holder, Holding, Listed, Occupancy, RangeChange, Record};

/// No machine has more bytes: a log that says so is damaged, and its numbers are cut, so that sums of them are numbers.
pub(crate) const BYTES_MAX: u64 = 1 << 48;

/// The sum that a piece of memory counts in.
type Account = (SegmentId, Option<ProcessId>, Holding);

/// The ranges of a segment that are not free, by their first bytes.
type Ranges = BTreeMap<u64, Range>;

/// The rest of a range: the first byte behind it, its holder, and the process that this belongs to.
#[derive(Clone, Copy, Debug)]
struct Range {
    end: u64,
    holder: Holder,
    process: Option<ProcessId>,
}

/// Ranges, lists, and sums.
#[derive(Debug, Default)]
pub(super) struct Memory {
    ranges: BTreeMap<SegmentId, Ranges>,
    sums: BTreeMap<Account, u64>,
    changed: BTreeSet<Account>,
    allocations: BTreeMap<AllocationId, Allocation>,
    devices: BTreeMap<DeviceId, Device>,
    listed: BTreeMap<ProcessId, u64>,
    listed_changed: BTreeSet<ProcessId>,
    leaving: BTreeMap<PlanNo, Vec<(SegmentId, Extent)>>,
    pub homes: Homes,
}

#[derive(Debug)]
struct Allocation {
    process: ProcessId,
    owner: DeviceId,
    size: u64,
    /// The segment where it is, and the bytes that it takes there.
    place: Option<(SegmentId, u64)>,
    listed_by: BTreeMap<DeviceId, u64>,
    is_offered: bool,
    is_destroyed: bool,
    /// The way in which its bytes count at present.
    holding: Holding,
}

#[derive(Debug)]
struct Device {
    process: ProcessId,
    is_suspended: bool,
    lists: BTreeSet<AllocationId>,
}

impl Memory {
    pub fn device(&mut self, device: DeviceId, process: ProcessId) {
        self.devices.insert(device, Device { process, is_suspended: false, lists: BTreeSet::new() });
    }

    pub fn allocation(&mut self, allocation: AllocationId, owner: DeviceId, process: ProcessId, size: u64) {
        let state = Allocation {
            process,
            owner,
            size: size.min(BYTES_MAX),
            place: None,
            listed_by: BTreeMap::new(),
            is_offered: false,
            is_destroyed: false,
            holding: Holding::Unlisted,
        };
        self.allocations.insert(allocation, state);
    }

    pub fn process_of(&self, allocation: AllocationId) -> Option<ProcessId> {
        self.allocations.get(&allocation).map(|state| state.process)
    }

    pub fn segment_of(&self, allocation: AllocationId) -> Option<SegmentId> {
        self.allocations.get(&allocation)?.place.map(|(segment, _)| segment)
    }

    pub fn size_of(&self, allocation: AllocationId) -> u64 {
        self.allocations.get(&allocation).map_or(0, |state| state.size)
    }

    pub fn process_of_device(&self, device: DeviceId) -> Option<ProcessId> {
        self.devices.get(&device).map(|state| state.process)
    }

    /// A device is gone, and its list with it.
    pub fn device_gone(&mut self, device: DeviceId) {
        self.empty_list(device);
        self.devices.remove(&device);
    }

    /// A device's list names an allocation once more.
    pub fn join(&mut self, device: DeviceId, allocation: AllocationId) {
        self.relist(device, allocation, |count| count.saturating_add(1));
    }

    /// A device's list names an allocation once less.
    pub fn leave_list(&mut self, device: DeviceId, allocation: AllocationId) {
        self.relist(device, allocation, |count| count.saturating_sub(1));
    }

    /// A device has closed an allocation, or its list was emptied.
    pub fn forget(&mut self, device: DeviceId, allocation: AllocationId) {
        self.relist(device, allocation, |_| 0);
    }

    /// A device's list is empty.
    pub fn empty_list(&mut self, device: DeviceId) {
        let lists = self.devices.get(&device).map(|state| state.lists.clone()).unwrap_or_default();
        lists.into_iter().for_each(|allocation| self.forget(device, allocation));
    }

    pub fn suspend(&mut self, device: DeviceId, is_suspended: bool) {
        let Some(state) = self.devices.get_mut(&device) else { return };
        state.is_suspended = is_suspended;
        for allocation in state.lists.clone() {
            self.count_anew(allocation);
        }
    }

    pub fn offer(&mut self, allocation: AllocationId, is_offered: bool) {
        let Some(state) = self.allocations.get_mut(&allocation) else { return };
        let was = std::mem::replace(&mut state.is_offered, is_offered);
        let (listed_by, size): (Vec<_>, _) = (state.listed_by.keys().copied().collect(), state.size);
        if was != is_offered {
            for device in listed_by {
                self.list_bytes(device, size, !is_offered);
            }
        }
        self.count_anew(allocation);
    }

    pub fn destroy(&mut self, allocation: AllocationId) {
        let Some(state) = self.allocations.get_mut(&allocation) else { return };
        state.is_destroyed = true;
        let owner = state.owner;
        self.forget(owner, allocation);
        self.count_anew(allocation);
    }

    pub fn transfer(&mut self, allocation: AllocationId, device: DeviceId, process: ProcessId) {
        let Some(state) = self.allocations.get_mut(&allocation) else { return };
        let (place, holding) = (state.place, state.holding);
        let before = std::mem::replace(&mut state.process, process);
        (state.owner, state.is_destroyed) = (device, false);
        if let Some((segment, bytes)) = place {
            self.subtract((segment, Some(before), holding), bytes);
            self.add((segment, Some(process), holding), bytes);
        }
        self.count_anew(allocation);
    }

    pub fn gone(&mut self, allocation: AllocationId) {
        let listed_by = self.allocations.get(&allocation).map(|state| state.listed_by.clone()).unwrap_or_default();
        listed_by.into_keys().for_each(|device| self.forget(device, allocation));
        self.allocations.remove(&allocation);
        self.homes.gone(allocation);
    }

    pub fn place(
        &mut self,
        at: Nanoseconds,
        allocation: AllocationId,
        segment: SegmentId,
        extents: &[Extent],
        out: &mut Vec<Record>,
    ) {
        if let Some(state) = self.allocations.get_mut(&allocation) {
            state.place = Some((segment, extents.iter().map(|extent| extent.size.min(BYTES_MAX)).sum()));
        }
        self.note_home(allocation);
        for &extent in extents {
            self.set(at, segment, extent, Holder::Allocation(allocation), out);
        }
    }

    pub fn evict(
        &mut self,
        at: Nanoseconds,
        allocation: AllocationId,
        plan: PlanNo,
        segment: SegmentId,
        extents: &[Extent],
        out: &mut Vec<Record>,
    ) {
        for &extent in extents {
            self.set(at, segment, extent, Holder::Leaving(allocation, plan), out);
            let extent = bounded(extent);
            self.leaving.entry(plan).or_default().push((segment, extent));
        }
        if let Some(state) = self.allocations.get_mut(&allocation) {
            state.place = None;
        }
        self.note_home(allocation);
    }

    /// A plan has entered: the ranges that it empties are free, but for those that others have taken meanwhile.
    pub fn entered(&mut self, at: Nanoseconds, plan: PlanNo, out: &mut Vec<Record>) {
        for (segment, extent) in self.leaving.remove(&plan).unwrap_or_default() {
            let ranges = self.ranges.get(&segment).into_iter();
            let inside = ranges.flat_map(|ranges| ranges.range(extent.offset..extent.saturating_end()));
            let left: Vec<Extent> = inside
                .filter(|(_, range)| matches!(range.holder, Holder::Leaving(_, by) if by == plan))
                .map(|(&offset, range)| Extent { offset, size: range.end - offset })
                .collect();
            left.into_iter().for_each(|extent| self.set(at, segment, extent, Holder::Free, out));
        }
    }

    /// Nothing is resident any more; page tables stay where they lay.
    pub fn reset(&mut self, at: Nanoseconds, out: &mut Vec<Record>) {
        self.leaving.clear();
        let all = self.ranges.iter().flat_map(|(&segment, ranges)| ranges.iter().map(move |range| (segment, range)));
        let taken: Vec<(SegmentId, Extent)> = all
            .filter(|(_, (_, range))| !matches!(range.holder, Holder::PageTable(_)))
            .map(|(segment, (&offset, range))| (segment, Extent { offset, size: range.end - offset }))
            .collect();
        taken.into_iter().for_each(|(segment, extent)| self.set(at, segment, extent, Holder::Free, out));
        self.allocations.values_mut().for_each(|state| state.place = None);
        self.allocations.keys().for_each(|&allocation| self.homes.counts(allocation, None));
    }

    /// Gives a range another holder.
    pub fn set(&mut self, at: Nanoseconds, segment: SegmentId, extent: Extent, holder: Holder, out: &mut Vec<Record>) {
        let extent = bounded(extent);
        for (bytes, before) in cut(self.ranges.entry(segment).or_default(), extent) {
            self.subtract(self.account(segment, before), bytes);
        }
        if holder != Holder::Free {
            let process = match holder {
                Holder::Allocation(id) | Holder::Leaving(id, _) => self.process_of(id),
                Holder::PageTable(process) => process,
                Holder::Free => None,
            };
            let range = Range { end: extent.saturating_end(), holder, process };
            self.ranges.entry(segment).or_default().insert(extent.offset, range);
            self.add(self.account(segment, range), extent.size);
        }
        out.push(Record::Range(RangeChange { at, segment, extent, holder }));
    }

    /// Yields the sums that have changed since the last call.
    pub fn flush(&mut self, at: Nanoseconds, out: &mut Vec<Record>) {
        for account in std::mem::take(&mut self.changed) {
            let (segment, process, holding) = account;
            let bytes = self.sums.get(&account).copied().unwrap_or(0);
            out.push(Record::Occupancy(Occupancy { at, segment, process, holding, bytes }));
            if bytes == 0 {
                self.sums.remove(&account);
            }
        }
        for process in std::mem::take(&mut self.listed_changed) {
            let bytes = self.listed.get(&process).copied().unwrap_or(0);
            out.push(Record::Listed(Listed { at, process, bytes }));
        }
    }

    fn relist(&mut self, device: DeviceId, allocation: AllocationId, change: impl FnOnce(u64) -> u64) {
        let (Some(list), Some(state)) = (self.devices.get_mut(&device), self.allocations.get_mut(&allocation)) else {
            return;
        };
        let before = state.listed_by.get(&device).copied().unwrap_or(0);
        let count = change(before);
        match count {
            0 => drop(state.listed_by.remove(&device)),
            count => drop(state.listed_by.insert(device, count)),
        }
        match count {
            0 => drop(list.lists.remove(&allocation)),
            _ => drop(list.lists.insert(allocation)),
        }
        if (before > 0) != (count > 0) && !state.is_offered {
            let size = state.size;
            self.list_bytes(device, size, count > 0);
        }
        self.count_anew(allocation);
    }

    fn list_bytes(&mut self, device: DeviceId, bytes: u64, more: bool) {
        let Some(process) = self.process_of_device(device) else { return };
        let sum = self.listed.entry(process).or_default();
        *sum = if more { *sum + bytes } else { sum.saturating_sub(bytes) };
        self.listed_changed.insert(process);
    }

    /// Counts the bytes of an allocation in the way that it is held now.
    fn count_anew(&mut self, allocation: AllocationId) {
        let Some(state) = self.allocations.get(&allocation) else { return };
        let is_suspended = |device| self.devices.get(device).is_some_and(|device: &Device| device.is_suspended);
        let holding = if state.is_destroyed && state.listed_by.is_empty() {
            Holding::Destroyed
        } else if state.is_offered {
            Holding::Offered
        } else if state.listed_by.is_empty() {
            Holding::Unlisted
        } else if state.listed_by.keys().all(is_suspended) {
            Holding::Suspended
        } else {
            Holding::Listed
        };
        let (before, place, process) = (state.holding, state.place, Some(state.process));
        if holding == before {
            return;
        }
        if let Some(state) = self.allocations.get_mut(&allocation) {
            state.holding = holding;
        }
        if let Some((segment, bytes)) = place {
            self.subtract((segment, process, before), bytes);
            self.add((segment, process, holding), bytes);
        }
        self.note_home(allocation);
    }

    fn note_home(&mut self, allocation: AllocationId) {
        let Some(state) = self.allocations.get(&allocation) else { return };
        let listed_in = state.place.filter(|_| state.holding == Holding::Listed).map(|(segment, _)| segment);
        self.homes.counts(allocation, listed_in);
    }

    /// Time goes on from `at`, after the event with this number.
    pub fn look_for_debts(&mut self, number: u64, at: Nanoseconds, out: &mut Vec<Record>) {
        let sums = &self.sums;
        let taken = |segment| {
            let of_segment = sums.range((segment, None, Holding::Listed)..).take_while(|((of, ..), _)| *of == segment);
            of_segment.map(|(_, bytes)| bytes).sum()
        };
        self.homes.look((number, at), taken, out);
    }

    /// The sum that a range counts in. An allocation's follows its present state; all others are as they were when it was taken.
    fn account(&self, segment: SegmentId, range: Range) -> Account {
        let holding = match range.holder {
            Holder::Allocation(id) => {
                let state = self.allocations.get(&id).map(|state| (Some(state.process), state.holding));
                let (process, holding) = state.unwrap_or((range.process, Holding::Unlisted));
                return (segment, process, holding);
            }
            Holder::Leaving(..) | Holder::Free => Holding::Leaving,
            Holder::PageTable(_) => Holding::PageTable,
        };
        (segment, range.process, holding)
    }

    fn add(&mut self, account: Account, bytes: u64) {
        *self.sums.entry(account).or_default() += bytes;
        self.changed.insert(account);
    }

    fn subtract(&mut self, account: Account, bytes: u64) {
        let sum = self.sums.entry(account).or_default();
        *sum = sum.saturating_sub(bytes);
        self.changed.insert(account);
    }
}

/// A range of which the end is a number.
fn bounded(extent: Extent) -> Extent {
    Extent { offset: extent.offset.min(BYTES_MAX), size: extent.size.min(BYTES_MAX) }
}

/// Takes a range out of the ranges that there are, and returns the bytes that it had in common with each.
fn cut(ranges: &mut Ranges, extent: Extent) -> Vec<(u64, Range)> {
    let (start, stop) = (extent.offset, extent.saturating_end());
    let first = ranges.range(..=start).next_back().map_or(start, |(&offset, _)| offset);
    let inside = ranges.range(first..stop).filter(|(_, range)| range.end > start);
    let touched: Vec<(u64, Range)> = inside.map(|(&offset, &range)| (offset, range)).collect();
    for &(offset, range) in &touched {
        ranges.remove(&offset);
        if offset < start {
            ranges.insert(offset, Range { end: start, ..range });
        }
        if range.end > stop {
            ranges.insert(stop, range);
        }
    }
    touched.into_iter().map(|(offset, range)| (range.end.min(stop) - offset.max(start), range)).collect()
}
