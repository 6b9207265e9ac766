//! Pins: the entries of devices' lists keep allocations in place; an allocation that nothing keeps may be evicted (D3).

use alloc::vec::Vec;

use crate::{
    event::list_flags::EvictFlags,
    id::{AllocationIx, DeviceIx, SubmissionNo},
    memory::Memory,
    moment::Moment,
    objects::{
        Objects,
        allocation::{Allocation, AllocationState},
        device::Device,
        list::{Effect, EntryFlags, Leave, ListEntry},
        request::RequestKind,
        spans::SpanNo,
    },
    policy::RANK_MAX,
    residency::{Residents, weight},
    shares::Shares,
};

/// The effect of a change of an entry on the queue of victims.
enum Change {
    None,
    /// The entry pins the allocation. The device's record of pinned allocations may have grown.
    Pinned {
        has_grown: bool,
    },
    /// A span has ended, and the entry pins the allocation no more.
    Unpinned,
}

impl Residents {
    /// The device makes the allocation resident without a request, after submission `from` (RES-16). The caller renews
    /// the promise to the device.
    pub(crate) fn join_granted(
        &mut self,
        objects: &mut Objects,
        index: AllocationIx,
        device: DeviceIx,
        from: SubmissionNo,
    ) {
        let (allocation, record) = objects.records(index, device);
        if allocation.entry_mut(device).join_granted(from) {
            let change = open(allocation, record, index, device);
            self.follow(objects, index, device, change);
        }
    }

    /// The device evicts the allocation once, or does without it, after a submission (RES-20); the count of the entry is lowered. What was
    /// submitted while the list named the allocation has used the allocation (CRE-31a). The caller renews the promise to the device.
    pub(crate) fn leave(
        &mut self,
        moment: &mut Moment,
        objects: &mut Objects,
        memory: &mut Memory,
        index: AllocationIx,
        device: DeviceIx,
        leave: Leave,
    ) {
        let (allocation, record) = objects.records(index, device);
        let entry = allocation.entry_mut(device);
        let is_used = entry.is_used(leave.last, &self.spans);
        if leave.flags.contains(EvictFlags::NOT_WRITTEN_TO) {
            record.expiring.forget_noted(index);
        }
        let effect = entry.leave(leave, &mut self.spans);
        if leave.left == 0 {
            weight::note_listed(record, allocation, false);
        }
        if is_used {
            self.note_use(objects, index, device);
        }
        self.apply(moment, objects, memory, index, device, effect);
    }

    /// Notes that the last submission of a device has used an allocation.
    pub(crate) fn note_use(&mut self, objects: &mut Objects, index: AllocationIx, device: DeviceIx) {
        let last_use = objects[device].last_use;
        let rank = self.rank_released(objects, index, last_use);
        self.set_rank(objects, index, rank);
    }

    /// Gives an allocation another rank, also before the allocation is evictable.
    pub(super) fn set_rank(&mut self, objects: &mut Objects, index: AllocationIx, rank: u64) {
        if rank == objects[index].rank() {
            return;
        }
        let allocation = &objects[index];
        match allocation.place.filter(|_| allocation.is(AllocationState::EVICTABLE)) {
            Some(place) => self.evictable[place.account()].set_rank(&mut objects.allocations, index, rank),
            None => objects[index].set_rank(rank),
        }
    }

    /// Carries out what a grant or an Evict of a device does to an allocation. The caller renews the promise to the device.
    #[inline(always)]
    fn apply(
        &mut self,
        moment: &mut Moment,
        objects: &mut Objects,
        memory: &mut Memory,
        index: AllocationIx,
        device: DeviceIx,
        effect: Effect,
    ) {
        let (allocation, record) = objects.records(index, device);
        let change = match effect {
            Effect::Nothing => Change::None,
            Effect::Open => open(allocation, record, index, device),
            Effect::Until { last, unwritten, flags } => {
                let pin = record.expiring.pin(index, unwritten, flags);
                if last <= record.dispatched() {
                    let flags = record.flags_of(pin, last);
                    expire(allocation, record, device, flags)
                } else {
                    record.expiring.insert(last, pin);
                    // The allocations that a suspended device still needs are brought back, and pinned, when it is resumed.
                    if record.is_suspended() { Change::None } else { pin_entry(allocation, record, index, device) }
                }
            }
            Effect::InVain { flags, was_pinned } => {
                let entry = allocation.entry_mut(device);
                let pinned_for = was_pinned.then(|| record.expiring.hand_over(index, flags)).flatten();
                entry.shorten(pinned_for.unwrap_or_else(|| entry.until().min(record.dispatched())));
                expire(allocation, record, device, flags)
            }
        };
        if let Change::Unpinned = change {
            self.unpin(moment, objects, memory, index);
        } else {
            self.follow(objects, index, device, change);
        }
    }

    /// The device's entry pins the allocation in place. The caller renews the promise to the device.
    fn pin(&mut self, objects: &mut Objects, index: AllocationIx, device: DeviceIx) {
        let (allocation, record) = objects.records(index, device);
        let change = pin_entry(allocation, record, index, device);
        self.follow(objects, index, device, change);
    }

    /// An allocation that an entry pins is no victim any more.
    #[inline(always)]
    fn follow(&mut self, objects: &mut Objects, index: AllocationIx, device: DeviceIx, change: Change) {
        let Change::Pinned { has_grown } = change else { return };
        let record = &objects[device];
        if has_grown && record.pinned_allocations.len() > 2 * (record.num_pins - 1) + 64 {
            strike_out_unpinned(objects, device);
        }
        self.remove_candidate(objects, index);
    }

    /// An allocation that is resident and that nothing requires may be evicted from now on. An offered or destroyed one
    /// goes first when nothing will use it any more, which changes only here: where a span of it ends.
    pub(crate) fn unpin(
        &mut self,
        moment: &mut Moment,
        objects: &mut Objects,
        memory: &mut Memory,
        index: AllocationIx,
    ) {
        let allocation = &objects[index];
        if allocation.is_pinned() {
            return;
        }
        // Ranges are assigned with each grant: an allocation that nothing pins keeps none.
        if allocation.is(AllocationState::ACCESSED_PHYSICALLY) {
            memory.aperture.release(index);
        }
        if allocation.place.is_none() {
            return;
        }
        if allocation.is(AllocationState::EVICT_SOON) {
            self.hasten(moment, index);
        }
        self.make_evictable(objects, index);
    }

    /// The allocation goes at the earliest opportunity.
    pub(crate) fn hasten(&mut self, moment: &mut Moment, index: AllocationIx) {
        self.evict_soon.push_back(index);
        moment.request_poll();
    }

    /// The next allocation that was to go at the earliest opportunity; it may have been pinned since, or be gone.
    pub(crate) fn next_hastened(&mut self) -> Option<AllocationIx> {
        self.evict_soon.pop_front()
    }

    /// The allocation is no victim any more.
    #[inline]
    pub(crate) fn remove_candidate(&mut self, objects: &mut Objects, index: AllocationIx) {
        let allocation = &objects[index];
        if allocation.is(AllocationState::EVICTABLE)
            && let Some(place) = &allocation.place
        {
            self.evictable[place.account()].remove(&mut objects.allocations, index);
        }
    }

    /// The allocations are no victims any more.
    pub(crate) fn keep_all(&mut self, objects: &mut Objects, indices: impl Iterator<Item = AllocationIx>) {
        indices.for_each(|index| self.remove_candidate(objects, index));
    }

    /// The allocation may be a victim, as what it is to its owner now: as the most recently used of that class and its priority
    /// if it was none, or of another class.
    #[inline(always)]
    pub(crate) fn make_evictable(&mut self, objects: &mut Objects, index: AllocationIx) {
        let class = self.class_of(objects, index);
        let allocation = &objects[index];
        let Some(place) = allocation.place else { return };
        if allocation.is(AllocationState::EVICTABLE) {
            if allocation.queued_class() == class {
                return;
            }
            self.remove_candidate(objects, index);
        }
        if let Some(policy) = &self.policy {
            objects[index].set_rank(policy.rank(index.at()).min(RANK_MAX));
        }
        self.evictable[place.account()].push(&mut objects.allocations, index, class);
    }

    /// Sets the priority of an allocation. Among the worthless it does not count: there the allocation keeps its place.
    pub(crate) fn set_priority(&mut self, objects: &mut Objects, index: AllocationIx, priority: u32) {
        let allocation = &mut objects[index];
        let is_evictable = allocation.is(AllocationState::EVICTABLE);
        if is_evictable && allocation.queued_class().is_worthless() {
            allocation.priority = priority;
        } else {
            self.requeue(objects, index, |allocation| allocation.priority = priority);
        }
    }

    /// Changes what the place of an allocation among the evictable ones depends on.
    pub(crate) fn requeue(&mut self, objects: &mut Objects, index: AllocationIx, change: impl FnOnce(&mut Allocation)) {
        let is_evictable = objects[index].is(AllocationState::EVICTABLE);
        self.remove_candidate(objects, index);
        change(&mut objects[index]);
        if is_evictable {
            self.make_evictable(objects, index);
        }
    }

    /// A call has changed the worth of an allocation to its owner.
    pub(crate) fn reclassify(&mut self, objects: &mut Objects, index: AllocationIx) {
        if objects[index].is(AllocationState::EVICTABLE) {
            self.make_evictable(objects, index);
        }
    }
}

/// A span is open: the device's entry pins the allocation, and no earlier Evict hastens it.
#[inline(always)]
fn open(allocation: &mut Allocation, record: &mut Device, index: AllocationIx, device: DeviceIx) -> Change {
    allocation.set_hastened(false);
    record.expiring.forget_noted(index);
    pin_entry(allocation, record, index, device)
}

/// The device's entry pins the allocation from now on.
#[inline(always)]
fn pin_entry(allocation: &mut Allocation, record: &mut Device, index: AllocationIx, device: DeviceIx) -> Change {
    let (account, size) = (allocation.account(), allocation.size);
    let before = allocation.entry_mut(device).pin();
    if before.contains(EntryFlags::TO_RESTORE) {
        record.to_restore[account] -= size;
    }
    let has_grown = !before.intersects(EntryFlags::PINNING | EntryFlags::IN_PINNED);
    if !before.contains(EntryFlags::PINNING) {
        record.pinned[account] += size;
        record.num_pins += 1;
    }
    if has_grown {
        record.pinned_allocations.push(index);
    }
    if !before.intersects(EntryFlags::PINNING | EntryFlags::TO_RESTORE) {
        weight::note_pinned(record, allocation, true);
    }
    Change::Pinned { has_grown }
}

/// A span of the allocation ends on a device: the last submission made in it has been dispatched. The caller
/// renews the promise to the device.
#[inline(always)]
fn expire(allocation: &mut Allocation, record: &mut Device, device: DeviceIx, flags: EvictFlags) -> Change {
    if !flags.contains(EvictFlags::NOT_WRITTEN_TO) {
        allocation.note_written();
    }
    let Some(entry) = allocation.entry(device) else { return Change::None };
    if entry.is_open() || entry.until() > record.dispatched() {
        return Change::None;
    }
    // Of several spans that end with one submission the last decides (RES-21). An allocation that was offered since
    // stays where it is until memory is wanted (RES-61).
    let is_hastened = !flags.contains(EvictFlags::EVICT_ONLY_IF_NECESSARY);
    let is_offered = allocation.is(AllocationState::OFFERED);
    allocation.set_hastened(is_hastened && !is_offered);
    release(allocation, record, device);
    Change::Unpinned
}

/// The device's entry pins the allocation no more. The caller renews the promise to the device.
#[inline(always)]
pub(crate) fn release(allocation: &mut Allocation, record: &mut Device, device: DeviceIx) {
    let (account, size) = (allocation.account(), allocation.size);
    let before = allocation.entry_mut(device).release();
    if before.contains(EntryFlags::TO_RESTORE) {
        record.to_restore[account] -= size;
    } else if before.contains(EntryFlags::PINNING) {
        record.pinned[account] -= size;
        record.num_pins -= 1;
    } else {
        return;
    }
    weight::note_pinned(record, allocation, false);
}

/// The device is suspended: its entry, which pins the allocation, is to pin the allocation again when the device is resumed.
fn hold_for_resume(allocation: &mut Allocation, record: &mut Device, device: DeviceIx) {
    release(allocation, record, device);
    record.to_restore[allocation.account()] += allocation.size;
    allocation.entry_mut(device).hold_for_resume();
    weight::note_pinned(record, allocation, true);
}

impl Residents {
    /// The device is suspended: the allocations that its list pins are to be pinned again when the device is resumed. Returns them.
    pub(crate) fn hold_all_for_resume(&mut self, objects: &mut Objects, device: DeviceIx) -> Vec<AllocationIx> {
        note_writes(objects, device);
        let mut held = core::mem::take(&mut objects[device].pinned_allocations);
        held.retain(|&index| {
            let is_open = objects.allocations.contains(index) && objects[index].entry(device).is_some();
            if !is_open {
                return false;
            }
            let entry = objects.allocations[index].entry_mut(device);
            entry.forget_pinned();
            if !entry.is_pinning() {
                return false;
            }
            if entry.is_used(objects.devices[device].submitted, &self.spans) {
                self.note_use(objects, index, device);
            }
            let id = objects.allocation_id(index);
            objects[device].to_bring_back.push(id);
            let (allocation, record) = objects.records(index, device);
            hold_for_resume(allocation, record, device);
            true
        });
        held
    }
}

/// Notes writes by dispatched work of a device to pinned allocations, beyond earlier notes.
pub(crate) fn note_writes(objects: &mut Objects, device: DeviceIx) {
    note_ended_writes(objects, device);
    for at in 0..objects[device].pinned_allocations.len() {
        let index = objects[device].pinned_allocations[at];
        if objects.allocations.contains(index) && objects[index].is_pinned_by(device) {
            note_open_writes(objects, index, device);
        }
    }
}

/// Notes writes to an allocation by dispatched work of all pinning devices, beyond earlier notes.
pub(crate) fn note_writes_to(objects: &mut Objects, index: AllocationIx) {
    let pinning = objects[index].entries().filter(|(_, entry)| entry.is_pinning());
    for (device, pins_before) in Vec::from_iter(pinning.map(|(device, entry)| (device, entry.pins_for_ended_spans()))) {
        if pins_before {
            note_ended_writes(objects, device);
        }
        note_open_writes(objects, index, device);
    }
}

fn note_ended_writes(objects: &mut Objects, device: DeviceIx) {
    let Objects { allocations, devices, .. } = objects;
    let Device { expiring, dispatches, .. } = &mut devices[device];
    expiring.take_ended_writes(dispatches).for_each(|index| allocations[index].note_written());
}

fn note_open_writes(objects: &mut Objects, index: AllocationIx, device: DeviceIx) {
    let Objects { allocations, devices, .. } = objects;
    let Device { expiring, dispatches, .. } = &mut devices[device];
    // DMA buffers with references name written allocations.
    let is_written = expiring.take_writes(index, allocations[index].entry_mut(device), dispatches);
    if is_written && !devices[device].has_reference_lists() {
        allocations[index].note_written();
    }
}

/// Strikes the allocations that a device pins no more out of its record of pinned allocations.
#[inline(never)]
fn strike_out_unpinned(objects: &mut Objects, device: DeviceIx) {
    let Objects { allocations, devices, .. } = objects;
    devices[device].pinned_allocations.retain(|&index| {
        let entry = allocations.get_mut(index).and_then(|allocation| allocation.find_entry_mut(device));
        entry.is_some_and(ListEntry::keep_pinned)
    });
}

/// All that a device's list names, now or for what is outstanding, and some that it named; some more than once.
pub(crate) fn named_by_list(objects: &Objects, device: DeviceIx) -> impl Iterator<Item = AllocationIx> {
    let record = &objects[device];
    let to_restore = record.to_bring_back.iter().filter_map(|&id| objects.allocations.lookup(id).ok());
    let asked_for = record.requests.iter().flat_map(|request| match &request.kind {
        RequestKind::MakeResident(items) => &items[..],
        _ => &[],
    });
    let named = record.pinned_allocations.iter().copied().chain(to_restore).chain(asked_for.map(|&(index, _)| index));
    named.filter(|&index| objects.allocations.contains(index))
}

impl Residents {
    /// Ends the pins of spans whose last submission has been dispatched.
    #[inline]
    pub(crate) fn expire_dispatched(
        &mut self,
        moment: &mut Moment,
        objects: &mut Objects,
        memory: &mut Memory,
        shares: &mut Shares,
        device: DeviceIx,
    ) {
        let record = &objects[device];
        if record.expiring.is_due(record.dispatched()) {
            self.expire_up_to(moment, objects, memory, shares, device);
        }
    }

    #[inline(never)]
    fn expire_up_to(
        &mut self,
        moment: &mut Moment,
        objects: &mut Objects,
        memory: &mut Memory,
        shares: &mut Shares,
        device: DeviceIx,
    ) {
        let dispatched = objects[device].dispatched();
        while let Some((last, pin)) = objects[device].expiring.pop(dispatched) {
            let (allocation, record) = objects.records(pin.allocation, device);
            let flags = record.flags_of(pin, last);
            if let Change::Unpinned = expire(allocation, record, device, flags) {
                self.unpin(moment, objects, memory, pin.allocation);
            }
        }
        shares.renew_promise(objects, device);
    }

    /// The spans that the items name are granted.
    pub(crate) fn pin_granted(
        &mut self,
        moment: &mut Moment,
        objects: &mut Objects,
        memory: &mut Memory,
        device: DeviceIx,
        items: &[(AllocationIx, Option<SpanNo>)],
    ) {
        for &(index, span) in items {
            if let Some(span) = span {
                let effect = objects[index].entry_mut(device).grant(span, &mut self.spans);
                self.apply(moment, objects, memory, index, device, effect);
            } else if objects[index].entry(device).is_some_and(ListEntry::is_to_restore) {
                // An allocation that was pinned before its device was suspended is pinned again.
                self.pin(objects, index, device);
            }
        }
    }
}

/// The device is resumed: nothing is to be brought back any more.
pub(crate) fn forget_held(objects: &mut Objects, device: DeviceIx) {
    objects[device].to_bring_back.clear();
}

/// The allocations that were pinned when the device was suspended, and are still required.
pub(crate) fn items_to_bring_back(objects: &Objects, device: DeviceIx) -> Vec<(AllocationIx, Option<SpanNo>)> {
    let record = &objects[device];
    let still_required = |&id| {
        let index = objects.allocations.lookup(id).ok()?;
        let entry = objects[index].entry(device)?;
        entry.is_to_restore().then_some((index, None))
    };
    record.to_bring_back.iter().filter_map(still_required).collect()
}

impl Residents {
    /// Whether a list names an allocation, or work that is not dispatched requires the allocation. A span of a request that ended without
    /// a submission requires nothing.
    pub(crate) fn is_wanted(&self, objects: &Objects, index: AllocationIx) -> bool {
        objects[index].entries().any(|(device, entry)| {
            let is_wanted = || self.spans.any_is_wanted(entry.spans, objects[device].dispatched());
            entry.count > 0 || entry.is_pinned() || is_wanted()
        })
    }

    /// The items of a request that it is still to bring in: those that it added to the list for work that is to come or to
    /// be dispatched (U-41), and those that the device pinned then and pins still. An allocation that has left the list
    /// since, and has joined it again, is for the later request to bring in: its home may be another one by now.
    pub(crate) fn still_wanted(
        &self,
        objects: &Objects,
        device: DeviceIx,
        items: &[(AllocationIx, Option<SpanNo>)],
    ) -> Vec<(AllocationIx, Option<SpanNo>)> {
        let dispatched = objects[device].dispatched();
        let is_pinned = |entry: &ListEntry| entry.is_pinning() || entry.is_to_restore();
        let is_wanted = |&(index, span): &(AllocationIx, Option<SpanNo>)| {
            let allocation = &objects[index];
            let is_wanted = |entry: &ListEntry| match span {
                Some(span) => entry.has_ungranted_span() && self.spans.is_wanted(span, dispatched),
                None => is_pinned(entry),
            };
            allocation.is_required() && allocation.entry(device).is_some_and(is_wanted)
        };
        items.iter().copied().filter(is_wanted).collect()
    }
}
