//! The properties of an allocation that can be changed later: its priority and its segments (CRE-31, 2.6).

use super::resident::REQUESTS_MAX;
use crate::{
    adapter::Adapter,
    budget::account::{Account, Choices},
    contract::{Kmd, SegmentPreference, SegmentSet},
    event::{
        Event, EvictReason,
        error::{AllocationInfoRule, UpdateError},
    },
    id::{AllocationId, AllocationIx, PagingQueueId},
    manager::VidMm,
    objects::{Objects, allocation::AllocationState, request::RequestKind},
    plans::{Plans, draft::Draft},
    residency::{offers, place, rehoming, views},
    schedule::{Schedule, replacement},
    state::State,
    units::{PageSize, SegmentId},
};

/// The changes; `None` leaves a property as it is.
#[doc(alias = "D3DDDI_UPDATEALLOCPROPERTY")]
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct UpdateAllocationProperty {
    /// The segments where it may live.
    pub supported_segment_set: Option<SegmentSet>,
    /// The segments where it had better live.
    pub preferred_segment: Option<SegmentPreference>,
}

/// # Priority and segments of an allocation
impl VidMm {
    /// Sets priorities: larger stays longer (CRE-30, CRE-31a). A hint of the allocation's creator.
    ///
    /// # Errors
    ///
    /// If the priority is 0 or the handle names nothing.
    #[doc(alias = "D3DKMTSetAllocationPriority")]
    pub fn set_allocation_priority(&mut self, allocation: AllocationId, priority: u32) -> Result<(), UpdateError> {
        let index = self.state.objects.lookup_allocation(allocation)?;
        if priority == 0 {
            return Err(UpdateError::Impossible(AllocationInfoRule::Priority));
        }
        self.state.residency.set_priority(&mut self.state.objects, index, priority);
        self.state.moment.record(|| Event::AllocationPriorityChanged { allocation, priority });
        Ok(())
    }

    /// Changes the segments where an allocation may be resident (CRE-50). If it leaves its place for that, the value of
    /// the paging queue's fence is returned that says when it has; 0 is at once. The same value again is ignored
    /// (CRE-51).
    ///
    /// # Errors
    ///
    /// If the new set is impossible or the driver does not allow it. An allocation that the device's list requires is
    /// not moved out of a forbidden segment by this version: evict it first.
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
        let index = self.state.objects.lookup_allocation(allocation)?;
        if self.state.objects[index].device != device {
            return Err(UpdateError::WrongDevice);
        }
        let (set, preferred) = updated(&self.state.adapter, &self.state.objects, index, update);
        let choices = check_update(&self.state.adapter, &self.state.objects, index, set, preferred)?;
        let record = &self.state.objects[index];
        if record.choices == choices {
            return Ok(0);
        }
        let next_home = self.state.objects[index].home_on_list();
        let may_stay = choices.contains(record.home()) && choices.contains(next_home);
        let is_required = self.state.objects[index].is_required()
            || !self.state.objects.is_done_with(index)
            || offers::is_listed_offered(&self.state.objects, index);
        if is_required && !may_stay {
            return Err(UpdateError::NotSupported(
                "moving to other segments what a device's list requires; evict it first",
            ));
        }
        let pending = self.state.objects[device].requests.len();
        if pending >= REQUESTS_MAX {
            return Err(UpdateError::TooManyPending { pending });
        }
        let handle = self.state.objects[index].handle;
        if !kmd.validate_update_allocation_property(handle, set, preferred) {
            return Err(UpdateError::Vetoed);
        }
        if !is_required {
            self.state.objects.end_rehoming(index);
        }
        let numbers =
            change_residence(&mut self.state, &mut self.plans, &mut self.schedule, index, (choices, preferred));
        let paging_fence_value = if numbers.is_empty() { 0 } else { self.state.objects[queue].last_value + 1 };
        self.state.moment.record(|| Event::AllocationPropertyUpdated {
            allocation,
            supported_segment_set: set.0,
            queue: paging_queue,
            paging_fence_value,
        });
        self.state.record_counted(index, false);
        // A locked allocation that had no home in sight may have one now: its request waits for the unlock no more.
        if views::waits_for_unlock(&self.state.objects, index) && self.state.objects[index].is_required() {
            replacement::move_into_sight(&mut self.schedule.turns, &mut self.state, index);
        }
        if !numbers.is_empty() {
            self.requests.request(&mut self.state.objects, queue, RequestKind::Decided(numbers));
        }
        Ok(paging_fence_value)
    }
}

/// The segments of an allocation after a change.
fn updated(
    adapter: &Adapter,
    objects: &Objects,
    index: AllocationIx,
    update: &UpdateAllocationProperty,
) -> (SegmentSet, SegmentPreference) {
    let allocation = &objects[index];
    let segments = allocation.choices.into_iter().filter_map(|home| adapter.segment_of(home));
    let set = segments.fold(0, |set, segment| set | SegmentSet::of(segment).0);
    let set = update.supported_segment_set.unwrap_or(SegmentSet(set));
    let preferred = update.preferred_segment.unwrap_or_else(|| allocation.preferred.within(set));
    (set, preferred)
}

/// The accounts that an allocation may be counted in from now on, or the reason why not.
fn check_update(
    adapter: &Adapter,
    objects: &Objects,
    index: AllocationIx,
    set: SegmentSet,
    preferred: SegmentPreference,
) -> Result<Choices, UpdateError> {
    let allocation = &objects[index];
    if set.0 == 0 || set.0 & !adapter.segments_mask != 0 {
        return Err(UpdateError::Impossible(AllocationInfoRule::SegmentSet(set.0)));
    }
    let mut named = preferred.segment_ids.into_iter().take_while(|segment| *segment != SegmentId::SYSTEM);
    if let Some(outside) = named.find(|&segment| !set.contains(segment)) {
        return Err(UpdateError::Impossible(AllocationInfoRule::PreferredSegment(outside.0)));
    }
    let choices = adapter.choices(set, preferred);
    let page_sizes = choices.accounts().map(|account| adapter.page_size_in(account));
    let (largest, smallest) = (page_sizes.clone().max(), page_sizes.min());
    if largest.is_some_and(|largest| !allocation.size.is_multiple_of(largest.bytes())) {
        return Err(UpdateError::Impossible(AllocationInfoRule::Size(allocation.size)));
    }
    if choices.accounts().any(Account::is_memory) && allocation.is(AllocationState::ACCESSED_PHYSICALLY) {
        return Err(UpdateError::NotSupported("contiguous placement in the memory segment"));
    }
    let is_large = |mapping: crate::gpu_va::Mapping| mapping.pte_page_size == PageSize::Kib64;
    let mut asked_for = place::mappings_asked_for(objects, index);
    if smallest == Some(PageSize::Kib4) && (allocation.mappings().any(is_large) || asked_for.any(is_large)) {
        return Err(UpdateError::NotSupported(
            "memory of small pages for what entries of 64 KiB map; free the mapping first",
        ));
    }
    Ok(choices)
}

/// Changes the segments where an allocation may be. It leaves a place that is forbidden now; returns the plans for
/// that.
fn change_residence(
    state: &mut State,
    plans: &mut Plans,
    schedule: &mut Schedule,
    index: AllocationIx,
    (choices, preferred): (Choices, SegmentPreference),
) -> alloc::vec::Vec<crate::id::PlanNo> {
    let allocation = &mut state.objects[index];
    (allocation.choices, allocation.preferred) = (choices, preferred);
    if !choices.contains(allocation.home()) {
        allocation.set_home(choices.first().expect("an empty set is refused"));
    }
    let listing = state.objects[index].entries().filter(|(_, entry)| entry.count > 0).map(|(device, _)| device);
    for device in alloc::vec::Vec::from_iter(listing) {
        rehoming::note_choice(&mut state.objects, device, index);
    }
    let allocation = &state.objects[index];
    if allocation.is_required() && allocation.homes_differ() {
        schedule.turns.note_away(allocation.device, index, state.moment.now());
    }
    let is_outside =
        state.objects[index].place.is_some_and(|place| !choices.contains(place::home(&state.memory, place)));
    let mut draft = Draft::default();
    if is_outside {
        plans.plan_out(state, &mut draft, index, EvictReason::PropertyUpdated);
    }
    plans.decide(&mut state.moment, &state.objects, draft)
}
