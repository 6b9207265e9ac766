//! MakeResident and Evict (RES-10..RES-24).

use alloc::vec::Vec;

use super::admission::Admission;
use crate::{
    allocation::{AllocationState, Place},
    error::{DeviceErrorReason, EvictError, MakeResidentError, NoMemoryReason},
    event::Event,
    id::{AllocationId, DeviceId, PagingQueueId},
    pool::{PerPool, Pool},
    request::{Request, RequestKind},
    residency::{Effect, EvictFlags, MakeResidentFlags},
    state::VidMm,
};

/// How many requests of a device may wait for their end (D14).
pub(crate) const REQUESTS_MAX: usize = 4096;

/// What MakeResident answers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[must_use]
pub enum Residency {
    /// All are resident and can be used now (RES-11, paging fence value 0).
    #[doc(alias = "S_OK")]
    Resident,
    /// They can be used when the paging queue's fence has reached this value. Work submitted after the call waits for it by
    /// itself.
    #[doc(alias = "E_PENDING")]
    Pending {
        /// The value.
        paging_fence_value: u64,
    },
}

impl VidMm {
    /// Adds `allocations` to the residency list of the queue's device, each as often as it is named (RES-02).
    ///
    /// Work submitted after the call requires them, until [`evict`](Self::evict) was called as often. The answer is
    /// [`Residency::Resident`] if all are in place and nothing is under way for them, and nothing that the device asked for
    /// earlier is pending (RES-16, U-25).
    ///
    /// A list that fits beside those of all other processes is always accepted. If they do not fit together, memory is short:
    /// then a process may have its budget (RES-53), with CANT_TRIM_FURTHER up to the maximum budget (RES-15), and devices run in
    /// turn (RES-71).
    ///
    /// # Errors
    ///
    /// [`MakeResidentError::NoMemory`] if that is not enough. Any error leaves the list as it was (RES-11); with MUST_SUCCEED
    /// NoMemory also puts the device in error.
    #[doc(alias = "D3DKMTMakeResident")]
    #[doc(alias = "D3DDDI_MAKERESIDENT")]
    pub fn make_resident(
        &mut self,
        paging_queue: PagingQueueId,
        allocations: &[AllocationId],
        flags: MakeResidentFlags,
    ) -> Result<Residency, MakeResidentError> {
        let queue = self.paging_queues.lookup(paging_queue)?;
        let device = self.paging_queues[queue].device as usize;
        self.check_device(device)?;
        if allocations.is_empty() {
            return Err(MakeResidentError::Empty);
        }
        if flags.contains(MakeResidentFlags::MUST_SUCCEED) && !flags.contains(MakeResidentFlags::CANT_TRIM_FURTHER) {
            return Err(MakeResidentError::Flags);
        }
        let pending = self.devices[device].requests.len();
        if pending >= REQUESTS_MAX {
            return Err(MakeResidentError::TooManyPending { pending });
        }
        let mut indices = Vec::with_capacity(allocations.len());
        for (position, &id) in allocations.iter().enumerate() {
            let index = self.lookup_allocation(id)?;
            if !self.allocations[index].is_open_on(device as u32) {
                return Err(MakeResidentError::WrongDevice { position });
            }
            let state = self.allocations[index].state;
            if state.contains(AllocationState::OFFERED) {
                return Err(MakeResidentError::Offered { position });
            }
            if state.contains(AllocationState::NOT_COMMITTED) {
                return Err(MakeResidentError::NotCommitted { position });
            }
            indices.push(index as u32);
        }
        self.count_in(device, allocations, &indices, flags)?;

        let at_once = self.can_join_at_once(device, &indices);
        let books = &self.devices[device];
        let paging_fence_value = if at_once { 0 } else { self.paging_queues[queue].last_value + 1 };
        let (device_id, after_submission) = (self.devices.id(device), books.submitted);
        self.events.record(|| Event::MakeResident {
            device: device_id,
            queue: paging_queue,
            allocations: allocations.to_vec(),
            flags,
            after_submission,
            paging_fence_value,
        });
        if at_once {
            for index in indices {
                let effect = self.allocations[index as usize].entry_mut(device as u32).join_granted();
                self.apply(index, device as u32, effect);
            }
            return Ok(Residency::Resident);
        }
        let join = |index| (index, self.allocations[index as usize].entry_mut(device as u32).join_ungranted());
        let items = indices.into_iter().map(join).collect();
        self.request(queue, RequestKind::MakeResident(items));
        Ok(Residency::Pending { paging_fence_value })
    }

    /// Takes `allocations` off the device's list, each as often as it is named (RES-02).
    ///
    /// Work submitted before still has them; work submitted later must not use them (RES-20). Memory is given up when that
    /// work has ended: soon, or only when it is wanted, as `flags` say (RES-21). Returns how many bytes the process should still
    /// trim to meet its budget; 0 is none (RES-23).
    ///
    /// # Errors
    ///
    /// If the device is in error, or an allocation is not on the list that often. The list is then as it was.
    #[doc(alias = "D3DKMTEvict")]
    #[doc(alias = "D3DKMT_EVICT")]
    pub fn evict(
        &mut self,
        device: DeviceId,
        allocations: &[AllocationId],
        flags: EvictFlags,
    ) -> Result<u64, EvictError> {
        let device_index = self.devices.lookup(device)?;
        self.check_device(device_index)?;
        if allocations.is_empty() {
            return Err(EvictError::Empty);
        }
        let mut indices = Vec::with_capacity(allocations.len());
        for &id in allocations {
            indices.push(self.lookup_allocation(id)? as u32);
        }
        self.count_out(device_index, &indices)?;

        let last = self.devices[device_index].submitted;
        let mut left: PerPool<u64> = PerPool::default();
        for &index in &indices {
            if self.offers.contains_key(&index) {
                self.leave_offered(index);
                continue;
            }
            let allocation = &mut self.allocations[index as usize];
            let entry = allocation.entry_mut(device_index as u32);
            let effect = entry.leave(last, flags);
            if entry.count == 0 {
                left[allocation.pool()] += allocation.size;
            }
            self.apply(index, device_index as u32, effect);
        }
        for pool in Pool::ALL.into_iter().filter(|&pool| left[pool] > 0) {
            self.set_list_bytes(device_index, pool, self.devices[device_index].list[pool].now() - left[pool]);
        }
        let num_bytes_to_trim = self.num_bytes_to_trim(self.devices[device_index].process);
        self.events.record(|| Event::Evict {
            device,
            allocations: allocations.to_vec(),
            flags,
            after_submission: last,
            num_bytes_to_trim,
        });
        self.stirred = true;
        Ok(num_bytes_to_trim)
    }

    /// Adds to the device's list what is not on it yet, if that fits.
    fn count_in(
        &mut self,
        device: usize,
        allocations: &[AllocationId],
        indices: &[u32],
        flags: MakeResidentFlags,
    ) -> Result<(), MakeResidentError> {
        let mut admission = self.admission(device, indices, None);
        if admission.refused.is_some() {
            self.undo_admission(&admission);
            admission = self.admission(device, indices, Some(flags));
        }
        let Some(reason) = admission.refused else {
            self.accept_admission(&admission);
            return Ok(());
        };
        self.undo_admission(&admission);
        let cant_trim = flags.contains(MakeResidentFlags::CANT_TRIM_FURTHER);
        let reason = match reason {
            NoMemoryReason::OverBudget if cant_trim => NoMemoryReason::OverMaximumBudget,
            other => other,
        };
        let (num_bytes_to_trim, device_id) = (admission.num_bytes_to_trim, self.devices.id(device));
        self.events.record(|| Event::MakeResidentRefused {
            device: device_id,
            allocations: allocations.to_vec(),
            flags,
            num_bytes_to_trim,
            reason,
        });
        if flags.contains(MakeResidentFlags::MUST_SUCCEED) {
            self.put_device_in_error(device as u32, DeviceErrorReason::OutOfMemory);
        }
        Err(MakeResidentError::NoMemory { num_bytes_to_trim, reason })
    }

    /// Whether allocations join the device's list without a request: it has its turn, nothing is ahead of them, and they are in
    /// place (RES-16, U-25).
    pub(super) fn can_join_at_once(&self, device: usize, indices: &[u32]) -> bool {
        let books = &self.devices[device];
        books.granted == books.requests.len()
            && self.recovery.is_working()
            && books.is_active()
            && books.turn.plans.is_empty()
            && indices.iter().all(|&index| self.is_in_place(index))
            && self.may_hold(device, self.bytes_not_held(device as u32, indices))
    }

    /// Finds room for what is not on the device's list yet.
    fn admission(&mut self, device: usize, indices: &[u32], entitled: Option<MakeResidentFlags>) -> Admission {
        let mut admission = self.begin_admission(device, entitled);
        for &index in indices {
            // Counts go up first, so that an allocation named twice weighs once; joining raises them for good.
            let count = &mut self.allocations[index as usize].entry_mut(device as u32).count;
            *count += 1;
            if *count == 1 {
                self.admit(&mut admission, index);
            }
        }
        for &index in indices {
            self.allocations[index as usize].entry_mut(device as u32).count -= 1;
        }
        admission
    }

    /// Checks that each allocation is on the device's list as often as it is named.
    fn count_out(&mut self, device: usize, indices: &[u32]) -> Result<(), EvictError> {
        let mut counted = 0;
        for &index in indices {
            let is_open = self.allocations[index as usize].is_open_on(device as u32);
            if !is_open || *self.count_mut(device, index) == 0 {
                break;
            }
            *self.count_mut(device, index) -= 1;
            counted += 1;
        }
        for &index in &indices[..counted] {
            *self.count_mut(device, index) += 1;
        }
        if counted < indices.len() { Err(EvictError::NotResident { position: counted }) } else { Ok(()) }
    }

    /// How often the device's list names the allocation; while it is offered, how often it will again.
    fn count_mut(&mut self, device: usize, index: u32) -> &mut u32 {
        match self.offers.get_mut(&index) {
            Some(offer) => &mut offer.count,
            None => &mut self.allocations[index as usize].entry_mut(device as u32).count,
        }
    }

    /// Whether the allocation is where it is to be, with its content, and nothing is under way for it.
    pub(super) fn is_in_place(&self, index: u32) -> bool {
        self.is_placed(index) && self.stream.is_retired(self.allocations[index as usize].last_plan)
    }

    /// Whether it is decided that the allocation is where its device's list counts it.
    pub(crate) fn is_placed(&self, index: u32) -> bool {
        let allocation = &self.allocations[index as usize];
        match &allocation.place {
            Some(Place::Memory(_)) => allocation.pool() == Pool::Memory,
            Some(Place::System) => {
                allocation.pool() == Pool::System && !allocation.state.contains(AllocationState::ACCESSED_PHYSICALLY)
            }
            Some(Place::Aperture(offset)) => self.aperture.assigned(index).is_some_and(|range| range.offset == *offset),
            None => false,
        }
    }

    /// Appends a request of the queue's device.
    pub(crate) fn request(&mut self, queue: usize, kind: RequestKind) {
        let books = &mut self.paging_queues[queue];
        books.last_value += 1;
        books.pending += 1;
        let (device_index, fence_value) = (books.device, books.last_value);
        let device = &mut self.devices[device_index as usize];
        device.last_request += 1;
        self.arrivals += 1;
        device.requests.push_back(Request {
            number: device.last_request,
            arrival: self.arrivals,
            queue: queue as u32,
            fence_value,
            position: device.submitted,
            kind,
            plans: Vec::new(),
            paging_fence: 0,
        });
        self.requesting.insert(device_index);
        self.stirred = true;
    }

    /// Carries out what a grant or an Evict of a device does to an allocation.
    pub(crate) fn apply(&mut self, index: u32, device: u32, effect: Effect) {
        match effect {
            Effect::Nothing => {}
            Effect::Open => {
                self.allocations[index as usize].state -= AllocationState::EVICT_SOON;
                self.hold(index, device);
            }
            Effect::Until(last, flags) => {
                let books = &mut self.devices[device as usize];
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

    /// The device's entry holds the allocation in place.
    pub(crate) fn hold(&mut self, index: u32, device: u32) {
        let allocation = &mut self.allocations[index as usize];
        let (pool, size) = (allocation.pool(), allocation.size);
        let entry = allocation.entry_mut(device);
        if core::mem::replace(&mut entry.owed, false) {
            self.devices[device as usize].owed[pool] -= size;
        }
        if !core::mem::replace(&mut entry.holding, true) {
            if !core::mem::replace(&mut entry.in_holdings, true) {
                self.note_holding(device, index);
            }
            self.account(device as usize, pool, |books| {
                books.held[pool] += size;
                books.num_held += 1;
            });
        }
        self.keep(index);
        self.allocations[index as usize].state -= AllocationState::SUSPENDED;
    }

    /// The device's entry holds the allocation no more.
    pub(crate) fn release(&mut self, index: u32, device: u32) {
        let allocation = &mut self.allocations[index as usize];
        let (pool, size) = (allocation.pool(), allocation.size);
        let entry = allocation.entry_mut(device);
        if core::mem::replace(&mut entry.owed, false) {
            self.account(device as usize, pool, |books| books.owed[pool] -= size);
            return;
        }
        if core::mem::replace(&mut entry.holding, false) {
            self.account(device as usize, pool, |books| {
                books.held[pool] -= size;
                books.num_held -= 1;
            });
        }
    }

    /// Notes that the device holds the allocation, for when all that it holds must be found. What it holds no more is struck
    /// out when that is the larger part.
    fn note_holding(&mut self, device: u32, index: u32) {
        let books = &mut self.devices[device as usize];
        books.holdings.push(index);
        if books.holdings.len() > 2 * books.num_held + 64 {
            let mut holdings = core::mem::take(&mut books.holdings);
            let allocations = &mut self.allocations;
            holdings.retain(|&index| {
                let is_open =
                    allocations.contains(index as usize) && allocations[index as usize].entry(device).is_some();
                is_open && {
                    let entry = allocations[index as usize].entry_mut(device);
                    entry.in_holdings = entry.holding;
                    entry.holding
                }
            });
            self.devices[device as usize].holdings = holdings;
        }
    }

    /// The bytes of those of `indices` that the device does not hold, each counted once.
    pub(crate) fn bytes_not_held(&self, device: u32, indices: &[u32]) -> PerPool<u64> {
        let mut not_held: PerPool<Vec<u32>> = PerPool::default();
        for &index in indices {
            let allocation = &self.allocations[index as usize];
            if allocation.entry(device).is_some_and(|entry| !entry.holding) {
                not_held[allocation.pool()].push(index);
            }
        }
        not_held.map(|indices| self.bytes_of(indices))
    }

    /// The allocation is no victim any more.
    pub(crate) fn keep(&mut self, index: u32) {
        if let Some(place) = &self.allocations[index as usize].place {
            self.evictable[place.pool()].remove(&mut self.allocations, index);
        }
    }

    /// The allocation may be a victim, as the most recently used of its priority.
    pub(crate) fn expose(&mut self, index: u32) {
        if let Some(place) = &self.allocations[index as usize].place {
            let class = self.class_of(index);
            self.evictable[place.pool()].push(&mut self.allocations, index, class);
        }
    }

    /// What the allocation is to its owner has changed.
    pub(crate) fn reclassify(&mut self, index: u32) {
        if self.allocations[index as usize].state.contains(AllocationState::EVICTABLE) {
            self.keep(index);
            self.expose(index);
        }
    }

    /// The bytes of allocations, each counted once.
    pub(crate) fn bytes_of(&self, mut indices: Vec<u32>) -> u64 {
        indices.sort_unstable();
        indices.dedup();
        indices.iter().map(|&index| self.allocations[index as usize].size).sum()
    }

    /// A span of the allocation ends on a device: the last submission made in it has been dispatched.
    pub(crate) fn lapse(&mut self, index: u32, device: u32, flags: EvictFlags) {
        let allocation = &mut self.allocations[index as usize];
        allocation.state.set(
            AllocationState::DIRTY,
            allocation.state.contains(AllocationState::DIRTY) || !flags.contains(EvictFlags::NOT_WRITTEN_TO),
        );
        let dispatched = self.devices[device as usize].dispatched();
        let Some(entry) = allocation.entry(device) else { return };
        if entry.open || entry.until > dispatched {
            return;
        }
        // Of several spans that end with one submission the last decides (RES-21).
        allocation.state.set(AllocationState::EVICT_SOON, !flags.contains(EvictFlags::EVICT_ONLY_IF_NECESSARY));
        self.release(index, device);
        self.let_go(index);
    }

    /// Whoever is resident and required by nobody may be evicted from now on.
    pub(crate) fn let_go(&mut self, index: u32) {
        let allocation = &self.allocations[index as usize];
        if allocation.state.contains(AllocationState::ACCESSED_PHYSICALLY)
            && !allocation.is_required()
            && !self.is_listed_offered(index)
        {
            self.aperture.release(index);
        }
        if allocation.place.is_none() || allocation.is_held() {
            return;
        }
        if allocation.state.contains(AllocationState::SUSPENDED) && !allocation.is_required() {
            self.keep(index);
            self.allocations[index as usize].state -= AllocationState::SUSPENDED;
        }
        let allocation = &self.allocations[index as usize];
        if allocation.state.contains(AllocationState::EVICT_SOON) {
            self.evict_soon.push_back(index);
            self.stirred = true;
        }
        self.expose(index);
        self.bury(index);
    }

    /// Puts a destroyed allocation that nothing will use any more first among those that may go: its content is worthless,
    /// and its room need not wait for the submissions that were made between its last use and its end.
    pub(crate) fn bury(&mut self, index: u32) {
        if !self.is_dead(index) {
            return;
        }
        self.aperture.release(index);
        self.reclassify(index);
    }
}
