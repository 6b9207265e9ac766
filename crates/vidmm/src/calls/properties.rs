//! What of an allocation can be changed later: its priority and its segments (CRE-31, 2.6).

use super::resident::REQUESTS_MAX;
use crate::{
    adapter::Adapter,
    budget::account::Account,
    contract::{Kmd, SegmentPreference, SegmentSet},
    event::{
        Event, EvictReason,
        error::{AllocationInfoRule, UpdateError},
    },
    id::{AllocationId, AllocationIx, PagingQueueId},
    manager::VidMm,
    objects::{Objects, allocation::AllocationState, request::RequestKind},
    plans::{Plans, draft::Draft},
    residency::place,
    schedule::Schedule,
    state::State,
    units::{PageSize, SegmentId},
};

/// What is to change; `None` leaves a property as it is.
#[doc(alias = "D3DDDI_UPDATEALLOCPROPERTY")]
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct UpdateAllocationProperty {
    /// Where it may live.
    pub supported_segment_set: Option<SegmentSet>,
    /// Where it had better live.
    pub preferred_segment: Option<SegmentPreference>,
}

impl VidMm {
    /// Sets priorities: larger stays longer (CRE-30, CRE-31a). A hint of the allocation's creator.
    ///
    /// # Errors
    ///
    /// If the priority is 0 or the handle names nothing.
    #[doc(alias = "D3DKMTSetAllocationPriority")]
    pub fn set_allocation_priority(&mut self, allocation: AllocationId, priority: u32) -> Result<(), UpdateError> {
        let index = self.state.objects.lookup_allocation(&self.state.adapter, allocation)?;
        if priority == 0 {
            return Err(UpdateError::Impossible(AllocationInfoRule::Priority));
        }
        let is_evictable = self.state.objects[index].state.contains(AllocationState::EVICTABLE);
        self.state.residency.keep(&mut self.state.objects, index);
        self.state.objects[index].priority = priority;
        if is_evictable {
            self.state.residency.expose(&mut self.state.objects, index);
        }
        self.state.moment.record(|| Event::AllocationPriorityChanged { allocation, priority });
        Ok(())
    }

    /// Changes where an allocation may be resident (CRE-50). If it leaves the place where it is for that, the value of the paging
    /// queue's fence is returned that says when it has; 0 is at once. The same value again is ignored (CRE-51).
    ///
    /// # Errors
    ///
    /// If the new set is impossible or the driver does not allow it. What the device's list requires where it may not be any more
    /// is not moved by this version: evict it first.
    #[doc(alias = "D3DKMTUpdateAllocationProperty")]
    pub fn update_allocation_property(
        &mut self,
        kmd: &mut dyn Kmd,
        paging_queue: PagingQueueId,
        allocation: AllocationId,
        update: &UpdateAllocationProperty,
    ) -> Result<u64, UpdateError> {
        let queue = self.state.objects.paging_queues.lookup(paging_queue)?;
        let device = self.state.objects[queue].device;
        self.state.objects.check_device(&self.state.moment, device)?;
        let index = self.state.objects.lookup_allocation(&self.state.adapter, allocation)?;
        if self.state.objects[index].device != device {
            return Err(UpdateError::WrongDevice);
        }
        let (set, preferred) = updated(&self.state.adapter, &self.state.objects, index, update);
        let residence = check_update(&self.state.adapter, &self.state.objects, index, set, preferred)?;
        let allocation_state = self.state.objects[index].state;
        if allocation_state & RESIDENCE == residence {
            return Ok(0);
        }
        let may_stay = residence.contains(match self.state.objects[index].account() {
            Account::Memory => AllocationState::MAY_BE_IN_MEMORY,
            Account::System => AllocationState::MAY_BE_IN_SYSTEM,
        });
        let is_required = self.state.objects[index].is_required()
            || !self.state.objects.is_done_with(index)
            || self.state.residency.is_listed_offered(index);
        if is_required && !may_stay {
            return Err(UpdateError::NotSupported("moving what a device's list requires to another kind of memory"));
        }
        let pending = self.state.objects[device].requests.len();
        if pending >= REQUESTS_MAX {
            return Err(UpdateError::TooManyPending { pending });
        }
        let handle = self.state.objects[index].handle;
        if !kmd.validate_update_allocation_property(handle, set, preferred) {
            return Err(UpdateError::Vetoed);
        }
        let numbers =
            change_residence(&mut self.state, &mut self.plans, &mut self.schedule, index, residence, may_stay);
        let paging_fence_value = if numbers.is_empty() { 0 } else { self.state.objects[queue].last_value + 1 };
        self.state.moment.record(|| Event::AllocationPropertyUpdated {
            allocation,
            supported_segment_set: set.0,
            queue: paging_queue,
            paging_fence_value,
        });
        if !numbers.is_empty() {
            self.requests.request(
                &mut self.state.moment,
                &mut self.state.objects,
                queue,
                RequestKind::Decided(numbers),
            );
        }
        self.state.moment.stir();
        Ok(paging_fence_value)
    }
}

/// What an allocation's segments would be.
fn updated(
    adapter: &Adapter,
    objects: &Objects,
    index: AllocationIx,
    update: &UpdateAllocationProperty,
) -> (SegmentSet, SegmentPreference) {
    let allocation_state = objects[index].state;
    let aperture = adapter.aperture.id;
    let memory = adapter.memory.filter(|_| allocation_state.contains(AllocationState::MAY_BE_IN_MEMORY));
    let system = allocation_state.contains(AllocationState::MAY_BE_IN_SYSTEM);
    let mut set = memory.map_or(0, |memory| SegmentSet::of(memory.id).0);
    if system {
        set |= SegmentSet::of(aperture).0;
    }
    let mut preferred = SegmentPreference::default();
    if allocation_state.contains(AllocationState::PREFERS_SYSTEM) {
        preferred.segment_ids[0] = aperture;
    }
    (update.supported_segment_set.unwrap_or(SegmentSet(set)), update.preferred_segment.unwrap_or(preferred))
}

/// Where an allocation may be from now on, as bits of its state, or why it may not.
fn check_update(
    adapter: &Adapter,
    objects: &Objects,
    index: AllocationIx,
    set: SegmentSet,
    preferred: SegmentPreference,
) -> Result<AllocationState, UpdateError> {
    let allocation = &objects[index];
    if set.0 == 0 || set.0 & !adapter.segments_mask != 0 {
        return Err(UpdateError::Impossible(AllocationInfoRule::SegmentSet(set.0)));
    }
    let mut named = preferred.segment_ids.into_iter().take_while(|segment| *segment != SegmentId::SYSTEM);
    if let Some(outside) = named.find(|&segment| !set.contains(segment)) {
        return Err(UpdateError::Impossible(AllocationInfoRule::PreferredSegment(outside.0)));
    }
    let aperture = adapter.aperture.id;
    let memory = adapter.memory.filter(|memory| set.contains(memory.id));
    if memory.is_some_and(|memory| !allocation.size.is_multiple_of(memory.page_size.bytes())) {
        return Err(UpdateError::Impossible(AllocationInfoRule::Size(allocation.size)));
    }
    if memory.is_some() && allocation.state.contains(AllocationState::ACCESSED_PHYSICALLY) {
        return Err(UpdateError::NotSupported("contiguous placement in the memory segment"));
    }
    let is_large = |mapping: crate::gpu_va::Mapping| mapping.pte_page_size == PageSize::Kib64;
    let mut asked_for = place::mappings_asked_for(objects, index);
    if set.contains(aperture) && (allocation.mappings().any(is_large) || asked_for.any(is_large)) {
        return Err(UpdateError::NotSupported("system memory that is mapped by entries of 64 KiB"));
    }
    let mut residence = AllocationState::empty();
    residence.set(AllocationState::MAY_BE_IN_MEMORY, memory.is_some());
    residence.set(AllocationState::MAY_BE_IN_SYSTEM, set.contains(aperture));
    residence.set(AllocationState::PREFERS_SYSTEM, preferred.segment_ids[0] == aperture);
    Ok(residence)
}

/// Changes where an allocation may be. It leaves the place where it may be no more; returns the plans for that.
fn change_residence(
    state: &mut State,
    plans: &mut Plans,
    schedule: &mut Schedule,
    index: AllocationIx,
    residence: AllocationState,
    may_stay: bool,
) -> alloc::vec::Vec<crate::id::PlanNo> {
    let allocation = &mut state.objects[index];
    allocation.state = allocation.state.difference(RESIDENCE) | residence;
    if !may_stay {
        allocation.state.toggle(AllocationState::LISTED_IN_SYSTEM);
    }
    let allocation = &state.objects[index];
    if allocation.is_required() && allocation.accounts_differ() {
        schedule.turns.demoted.insert(allocation.device);
    }
    let is_outside = allocation.place.is_some_and(|place| match place.account() {
        Account::Memory => !residence.contains(AllocationState::MAY_BE_IN_MEMORY),
        Account::System => !residence.contains(AllocationState::MAY_BE_IN_SYSTEM),
    });
    let mut draft = Draft::default();
    if is_outside {
        plans.plan_out(state, &mut draft, index, EvictReason::PropertyUpdated);
    }
    plans.finish(&mut state.moment, &state.objects, draft)
}

/// The bits that say where an allocation may be.
const RESIDENCE: AllocationState =
    AllocationState::MAY_BE_IN_MEMORY.union(AllocationState::MAY_BE_IN_SYSTEM).union(AllocationState::PREFERS_SYSTEM);
