//! Holds: what the entries of devices' lists keep in place, and who may go because nothing keeps it there any more (D3).

use crate::{
    allocation::AllocationState,
    id::{AllocationIx, DeviceIx},
    planted::PlantedBug,
    pool::Pool,
    request::RequestKind,
    residency::{Effect, EntryFlags, EvictFlags},
    state::VidMm,
};

impl VidMm {
    /// Takes back what the device is promised, while what it holds changes. Until [`renew_promise`](Self::renew_promise) nothing
    /// may ask what devices are promised.
    pub(crate) fn withdraw_promise(&mut self, device: DeviceIx) {
        let books = &self.devices[device];
        Pool::ALL.into_iter().for_each(|pool| self.promised_bytes[pool] -= books.promised(pool));
    }

    /// Promises the device what it holds and lists now.
    pub(crate) fn renew_promise(&mut self, device: DeviceIx) {
        let books = &self.devices[device];
        Pool::ALL.into_iter().for_each(|pool| self.promised_bytes[pool] += books.promised(pool));
    }

    /// Carries out what a grant or an Evict of a device does to an allocation. While the promise is withdrawn.
    pub(crate) fn apply(&mut self, index: AllocationIx, device: DeviceIx, effect: Effect) {
        match effect {
            Effect::Nothing => {}
            Effect::Open => {
                self.allocations[index].state -= AllocationState::EVICT_SOON;
                self.hold(index, device);
            }
            Effect::Until(last, flags) => {
                let books = &mut self.devices[device];
                if last <= books.dispatched() {
                    return self.lapse(index, device, flags);
                }
                books.lapsing.insert(last, index, flags);
                // What a suspended device still needs is brought back, and held, when it is resumed.
                if !books.is_suspended() {
                    self.hold(index, device);
                }
            }
        }
    }

    /// The device's entry holds the allocation in place. While the promise is withdrawn.
    pub(crate) fn hold(&mut self, index: AllocationIx, device: DeviceIx) {
        let allocation = &mut self.allocations[index];
        let books = &mut self.devices[device];
        let (pool, size) = (allocation.pool(), allocation.size);
        allocation.state -= AllocationState::SUSPENDED;
        let entry = allocation.entry_mut(device);
        if entry.replace(EntryFlags::OWED, false) {
            books.owed[pool] -= size;
        }
        if !entry.replace(EntryFlags::HOLDING, true) {
            let is_noted = entry.replace(EntryFlags::IN_HOLDINGS, true);
            books.held[pool] += size;
            books.num_held += 1;
            if !is_noted {
                self.note_holding(device, index);
            }
        }
        self.keep(index);
    }

    /// The device's entry holds the allocation no more. While the promise is withdrawn.
    pub(crate) fn release(&mut self, index: AllocationIx, device: DeviceIx) {
        let allocation = &mut self.allocations[index];
        let books = &mut self.devices[device];
        let (pool, size) = (allocation.pool(), allocation.size);
        let entry = allocation.entry_mut(device);
        if entry.replace(EntryFlags::OWED, false) {
            books.owed[pool] -= size;
        } else if entry.replace(EntryFlags::HOLDING, false) {
            books.held[pool] -= size;
            books.num_held -= 1;
        }
    }

    /// Notes that the device holds the allocation, for when all that it holds must be found. What it holds no more is struck
    /// out when that is the larger part.
    fn note_holding(&mut self, device: DeviceIx, index: AllocationIx) {
        let books = &mut self.devices[device];
        books.holdings.push(index);
        let held_before = books.num_held - 1;
        if books.holdings.len() <= 2 * held_before + 64 {
            return;
        }
        let allocations = &mut self.allocations;
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
    pub(crate) fn named_by_list(&self, device: DeviceIx) -> impl Iterator<Item = AllocationIx> {
        let books = &self.devices[device];
        let owed = books.to_bring_back.iter().filter_map(|&id| self.allocations.lookup(id).ok());
        let asked_for = books.requests.iter().flat_map(|request| match &request.kind {
            RequestKind::MakeResident(items) => &items[..],
            _ => &[],
        });
        let named = books.holdings.iter().copied().chain(owed).chain(asked_for.map(|&(index, _)| index));
        named.filter(|&index| self.allocations.contains(index))
    }

    /// A span of the allocation ends on a device: the last submission made in it has been dispatched. While the
    /// promise is withdrawn.
    pub(crate) fn lapse(&mut self, index: AllocationIx, device: DeviceIx, flags: EvictFlags) {
        let allocation = &mut self.allocations[index];
        // To a device in error nothing is brought in, and its work writes nowhere.
        let may_be_written = allocation.place.is_some() && !flags.contains(EvictFlags::NOT_WRITTEN_TO);
        if may_be_written && !self.adapter.has_bug(PlantedBug::ForgetDirty) {
            allocation.state |= AllocationState::DIRTY;
        }
        let Some(entry) = allocation.entry(device) else { return };
        if entry.is_open() || entry.until() > self.devices[device].dispatched() {
            return;
        }
        // Of several spans that end with one submission the last decides (RES-21). What was offered since stays where it is until
        // memory is wanted (RES-61).
        let is_hastened = !flags.contains(EvictFlags::EVICT_ONLY_IF_NECESSARY);
        let is_offered = allocation.state.contains(AllocationState::OFFERED);
        allocation.state.set(AllocationState::EVICT_SOON, is_hastened && !is_offered);
        self.release(index, device);
        self.let_go(index);
    }

    /// Whoever is resident and required by nobody may be evicted from now on. What is offered or destroyed goes first when nothing
    /// will use it any more, which changes only here: where a span of it ends.
    pub(crate) fn let_go(&mut self, index: AllocationIx) {
        let allocation = &self.allocations[index];
        // Where a range is assigned with each grant, nobody keeps one that nothing is in.
        let keeps_range = !self.adapter.is_physical() && (allocation.is_required() || self.is_listed_offered(index));
        if allocation.state.contains(AllocationState::ACCESSED_PHYSICALLY) && !allocation.is_held() && !keeps_range {
            self.aperture.release(index);
        }
        if allocation.place.is_none() || allocation.is_held() {
            return;
        }
        if allocation.state.contains(AllocationState::SUSPENDED) && !allocation.is_required() {
            self.allocations[index].state -= AllocationState::SUSPENDED;
        }
        if self.allocations[index].state.contains(AllocationState::EVICT_SOON) {
            self.evict_soon.push_back(index);
            self.stirred = true;
        }
        self.expose(index);
    }

    /// The allocation is no victim any more.
    pub(crate) fn keep(&mut self, index: AllocationIx) {
        let allocation = &self.allocations[index];
        if allocation.state.contains(AllocationState::EVICTABLE)
            && let Some(place) = &allocation.place
        {
            self.evictable[place.pool()].remove(&mut self.allocations, index);
        }
    }

    /// The allocations are no victims any more. Their neighbours in the queues lie anywhere in memory: with nothing else between
    /// one and the next, the processor waits for several of them at once.
    pub(crate) fn keep_all(&mut self, indices: impl Iterator<Item = AllocationIx>) {
        indices.for_each(|index| self.keep(index));
    }

    /// The allocation may be a victim, as what it is to its owner now: as the most recently used of that class and its priority
    /// if it was none, or of another class.
    pub(crate) fn expose(&mut self, index: AllocationIx) {
        let Some(place) = self.allocations[index].place else { return };
        let class = self.class_of(index);
        let allocation = &self.allocations[index];
        if allocation.state.contains(AllocationState::EVICTABLE) {
            if allocation.queued_class() == class {
                return;
            }
            self.keep(index);
        }
        self.evictable[place.pool()].push(&mut self.allocations, index, class);
    }

    /// What the allocation is to its owner has changed by a call.
    pub(crate) fn reclassify(&mut self, index: AllocationIx) {
        if self.allocations[index].state.contains(AllocationState::EVICTABLE) {
            self.expose(index);
        }
    }
}
