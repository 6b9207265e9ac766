//! Pins: the entries of devices' lists keep allocations in place; an allocation that nothing keeps may be evicted (D3).

use alloc::vec::Vec;

use crate::{
    event::list_flags::EvictFlags,
    id::{AllocationIx, DeviceIx, SubmissionNo},
    memory::Memory,
    moment::Moment,
    objects::{
        Objects,
        allocation::AllocationState,
        list::{Effect, EntryFlags, ListEntry},
        request::RequestKind,
        spans::SpanNo,
    },
    residency::Residents,
    shares::Shares,
};

/// The device submits work, which may write what was said not to be written before.
pub(crate) fn forget_not_written(objects: &mut Objects, device: DeviceIx) {
    if objects[device].not_written.is_empty() {
        return;
    }
    for index in core::mem::take(&mut objects[device].not_written) {
        let is_there = objects.allocations.contains(index);
        if is_there && objects[index].entry(device).is_some() {
            objects[index].entry_mut(device).is -= EntryFlags::NOT_WRITTEN;
        }
    }
}

impl Residents {
    /// Carries out what a grant or an Evict of a device does to an allocation. Called while the promise is withdrawn.
    pub(crate) fn apply(
        &mut self,
        moment: &mut Moment,
        objects: &mut Objects,
        memory: &mut Memory,
        index: AllocationIx,
        device: DeviceIx,
        effect: Effect,
    ) {
        match effect {
            Effect::Nothing => {}
            Effect::Open => {
                objects[index].state -= AllocationState::EVICT_SOON;
                self.hold(objects, index, device);
            }
            Effect::Until(last, flags) => {
                let books = &mut objects[device];
                if last <= books.dispatched() {
                    return self.lapse(moment, objects, memory, index, device, flags);
                }
                books.lapsing.insert(last, index, flags);
                // The allocations that a suspended device still needs are brought back, and held, when it is resumed.
                if !books.is_suspended() {
                    self.hold(objects, index, device);
                }
            }
        }
    }

    /// The device's entry holds the allocation in place. Called while the promise is withdrawn.
    pub(crate) fn hold(&mut self, objects: &mut Objects, index: AllocationIx, device: DeviceIx) {
        let allocation = &mut objects.allocations[index];
        let books = &mut objects.devices[device];
        let (account, size) = (allocation.account(), allocation.size);
        allocation.state -= AllocationState::SUSPENDED;
        let entry = allocation.entry_mut(device);
        if entry.replace(EntryFlags::OWED, false) {
            books.owed[account] -= size;
        }
        if !entry.replace(EntryFlags::HOLDING, true) {
            let is_noted = entry.replace(EntryFlags::IN_HOLDINGS, true);
            books.held[account] += size;
            books.num_held += 1;
            if !is_noted {
                note_holding(objects, device, index);
            }
        }
        self.keep(objects, index);
    }

    /// A span of the allocation ends on a device: the last submission made in it has been dispatched. While the
    /// promise is withdrawn.
    pub(crate) fn lapse(
        &mut self,
        moment: &mut Moment,
        objects: &mut Objects,
        memory: &mut Memory,
        index: AllocationIx,
        device: DeviceIx,
        flags: EvictFlags,
    ) {
        let allocation = &mut objects.allocations[index];
        // To a device in error nothing is brought in, and its work writes nowhere.
        let may_be_written = allocation.place.is_some() && !flags.contains(EvictFlags::NOT_WRITTEN_TO);
        if may_be_written {
            allocation.state |= AllocationState::DIRTY;
        }
        let Some(entry) = allocation.entry(device) else { return };
        if entry.is_open() || entry.until() > objects.devices[device].dispatched() {
            return;
        }
        // Of several spans that end with one submission the last decides (RES-21). What was offered since stays where it is until
        // memory is wanted (RES-61).
        let is_hastened = !flags.contains(EvictFlags::EVICT_ONLY_IF_NECESSARY);
        let is_offered = allocation.state.contains(AllocationState::OFFERED);
        allocation.state.set(AllocationState::EVICT_SOON, is_hastened && !is_offered);
        release(objects, index, device);
        self.let_go(moment, objects, memory, index);
    }

    /// An allocation that is resident and that nothing requires may be evicted from now on. An offered or destroyed one goes first
    /// when nothing will use it any more, which changes only here: where a span of it ends.
    pub(crate) fn let_go(
        &mut self,
        moment: &mut Moment,
        objects: &mut Objects,
        memory: &mut Memory,
        index: AllocationIx,
    ) {
        let allocation = &objects[index];
        // Ranges are assigned with each grant: an allocation that nothing holds keeps none.
        if allocation.state.contains(AllocationState::ACCESSED_PHYSICALLY) && !allocation.is_held() {
            memory.aperture.release(index);
        }
        if allocation.place.is_none() || allocation.is_held() {
            return;
        }
        if allocation.state.contains(AllocationState::SUSPENDED) && !allocation.is_required() {
            objects[index].state -= AllocationState::SUSPENDED;
        }
        if objects[index].state.contains(AllocationState::EVICT_SOON) {
            self.evict_soon.push_back(index);
            moment.request_poll();
        }
        self.expose(objects, index);
    }

    /// The allocation is no victim any more.
    pub(crate) fn keep(&mut self, objects: &mut Objects, index: AllocationIx) {
        let allocation = &objects[index];
        if allocation.state.contains(AllocationState::EVICTABLE)
            && let Some(place) = &allocation.place
        {
            self.evictable[place.account()].remove(&mut objects.allocations, index);
        }
    }

    /// The allocations are no victims any more. Their neighbours in the queues lie anywhere in memory: with nothing else between
    /// one and the next, the processor waits for several of them at once.
    pub(crate) fn keep_all(&mut self, objects: &mut Objects, indices: impl Iterator<Item = AllocationIx>) {
        indices.for_each(|index| self.keep(objects, index));
    }

    /// The allocation may be a victim, as what it is to its owner now: as the most recently used of that class and its priority
    /// if it was none, or of another class.
    pub(crate) fn expose(&mut self, objects: &mut Objects, index: AllocationIx) {
        let Some(place) = objects[index].place else { return };
        let class = self.class_of(objects, index);
        let allocation = &objects[index];
        if allocation.state.contains(AllocationState::EVICTABLE) {
            if allocation.queued_class() == class {
                return;
            }
            self.keep(objects, index);
        }
        self.evictable[place.account()].push(&mut objects.allocations, index, class);
    }

    /// A call has changed the worth of an allocation to its owner.
    pub(crate) fn reclassify(&mut self, objects: &mut Objects, index: AllocationIx) {
        if objects[index].state.contains(AllocationState::EVICTABLE) {
            self.expose(objects, index);
        }
    }
}

/// The device's entry holds the allocation no more. Called while the promise is withdrawn.
pub(crate) fn release(objects: &mut Objects, index: AllocationIx, device: DeviceIx) {
    let allocation = &mut objects.allocations[index];
    let books = &mut objects.devices[device];
    let (account, size) = (allocation.account(), allocation.size);
    let entry = allocation.entry_mut(device);
    if entry.replace(EntryFlags::OWED, false) {
        books.owed[account] -= size;
    } else if entry.replace(EntryFlags::HOLDING, false) {
        books.held[account] -= size;
        books.num_held -= 1;
    }
}

/// Notes that the device holds the allocation, for when all that it holds must be found. What it holds no more is struck
/// out when that is the larger part.
fn note_holding(objects: &mut Objects, device: DeviceIx, index: AllocationIx) {
    let books = &mut objects.devices[device];
    books.holdings.push(index);
    let held_before = books.num_held - 1;
    if books.holdings.len() <= 2 * held_before + 64 {
        return;
    }
    let allocations = &mut objects.allocations;
    books.holdings.retain(|&index| {
        let is_open = allocations.contains(index) && allocations[index].entry(device).is_some();
        is_open && {
            let entry = allocations[index].entry_mut(device);
            entry.is.set(EntryFlags::IN_HOLDINGS, entry.is_holding());
            entry.is_holding()
        }
    });
}

/// All that a device's list names, now or for what is outstanding, and some that it named; some more than once.
pub(crate) fn named_by_list(objects: &Objects, device: DeviceIx) -> impl Iterator<Item = AllocationIx> {
    let books = &objects[device];
    let owed = books.to_bring_back.iter().filter_map(|&id| objects.allocations.lookup(id).ok());
    let asked_for = books.requests.iter().flat_map(|request| match &request.kind {
        RequestKind::MakeResident(items) => &items[..],
        _ => &[],
    });
    let named = books.holdings.iter().copied().chain(owed).chain(asked_for.map(|&(index, _)| index));
    named.filter(|&index| objects.allocations.contains(index))
}

impl Residents {
    /// Ends the holds of spans whose last submission has been dispatched.
    #[inline]
    pub(crate) fn lapse_dispatched(
        &mut self,
        moment: &mut Moment,
        objects: &mut Objects,
        memory: &mut Memory,
        shares: &mut Shares,
        device: DeviceIx,
    ) {
        let books = &objects[device];
        if books.lapsing.is_due(books.dispatched()) {
            self.lapse_up_to(moment, objects, memory, shares, device, books.dispatched());
        }
    }

    #[inline(never)]
    fn lapse_up_to(
        &mut self,
        moment: &mut Moment,
        objects: &mut Objects,
        memory: &mut Memory,
        shares: &mut Shares,
        device: DeviceIx,
        dispatched: SubmissionNo,
    ) {
        shares.withdraw_promise(objects, device);
        while let Some((index, flags)) = objects[device].lapsing.pop(dispatched) {
            self.lapse(moment, objects, memory, index, device, flags);
        }
        shares.renew_promise(objects, device);
    }

    /// The spans that the items name are granted.
    pub(crate) fn hold_granted(
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
            } else if objects[index].entry(device).is_some_and(ListEntry::is_owed) {
                // An allocation that was held before its device was suspended is held again.
                self.hold(objects, index, device);
            }
        }
    }
}

/// The allocations that were held when the device was suspended, and are still required.
pub(crate) fn items_to_bring_back(objects: &Objects, device: DeviceIx) -> Vec<(AllocationIx, Option<SpanNo>)> {
    let books = &objects[device];
    let still_required = |&id| {
        let index = objects.allocations.lookup(id).ok()?;
        let entry = objects[index].entry(device)?;
        entry.is_owed().then_some((index, None))
    };
    books.to_bring_back.iter().filter_map(still_required).collect()
}

/// The items of a request that it is still to bring in: those that it added to the list, and those that the device held then and
/// holds still. An allocation that has left the list since, and has joined it again, is for the later request to bring in: its home
/// may be another one by now.
pub(crate) fn still_wanted(
    objects: &Objects,
    device: DeviceIx,
    items: &[(AllocationIx, Option<SpanNo>)],
) -> Vec<(AllocationIx, Option<SpanNo>)> {
    let is_held = |entry: &ListEntry| entry.is_holding() || entry.is_owed();
    let is_wanted = |&(index, span): &(AllocationIx, Option<SpanNo>)| {
        let allocation = &objects[index];
        allocation.is_required() && (span.is_some() || allocation.entry(device).is_some_and(is_held))
    };
    items.iter().copied().filter(is_wanted).collect()
}
