use alloc::{collections::BTreeSet, vec::Vec};

use crate::{
    addresses,
    budget::account::Account,
    event::{Event, EvictReason, PrefetchReason},
    gpu_va::Mapping,
    id::{AllocationIx, DeviceIx, PlanNo},
    objects::{Objects, allocation::Allocation},
    placement::{Placement, Target, satisfy::Items},
    plans::{Plans, draft::Draft},
    residency::{pins, place},
    state::State,
};
impl Plans {
    /// Whether the allocation is where it is to be, with its content, and nothing is under way for it.
    #[inline(always)]
    pub(crate) fn is_in_place(&self, state: &State, index: AllocationIx) -> bool {
        let allocation = &state.objects[index];
        place::is_placed(allocation, &state.memory, index) && self.stream.is_retired(allocation.last_plan)
    }

    /// Whether the content of an allocation is on its way, or is being put right.
    pub(crate) fn moves_content(&self, allocation: &Allocation) -> bool {
        let is_settled = self.stream.is_retired(allocation.last_plan);
        !is_settled && self.stream.plans().any(|plan| plan.moves_content(allocation.handle))
    }

    /// Plans that what is still `wanted` of `items` comes in for a device's list as decided, and has the list pin it. Returns the
    /// plans that must retire first.
    pub(crate) fn bring_in(
        &mut self,
        state: &mut State,
        device: DeviceIx,
        items: &Items,
        wanted: &Items,
        placement: Placement,
    ) -> Vec<PlanNo> {
        let required = Vec::from_iter(wanted.iter().map(|&(index, _)| index));
        let draft = self.begin(device, state.objects.next_request(device));
        let numbers = self.carry_out(state, draft, &required, placement);
        pin_list(state, device, items);
        numbers
    }

    /// Plans that an allocation comes ahead of its MakeResident into free memory at home, where the allocation may be evicted again.
    pub(crate) fn bring_in_ahead(&mut self, state: &mut State, index: AllocationIx, reason: PrefetchReason) {
        let (plan, allocation) = (self.stream.next_number(), state.objects.allocation_id(index));
        state.moment.record(|| Event::Prefetched { plan, allocation, reason });
        let draft = self.begin(state.objects[index].device, None).with_victims(Vec::new());
        self.carry_out(state, draft, &[index], Placement::default());
        let statistics = state.moment.statistics_mut();
        statistics.prefetches += 1;
        statistics.bytes_prefetched += state.objects[index].size;
        // An earlier Evict no longer hastens the eviction.
        state.objects[index].set_hastened(false);
        state.residency.make_evictable(&mut state.objects, index);
    }

    pub(crate) fn make_mapping(&mut self, state: &mut State, index: AllocationIx, mapping: Mapping) -> Vec<PlanNo> {
        let device = mapping.device;
        let mut draft = self.begin(device, state.objects.next_request(device));
        let keys = addresses::tables_of(&state.adapter, &mapping).collect();
        let mut numbers = self.plan_tables(state, &mut draft, mapping.process, keys);
        numbers.push(state.objects[index].last_plan);
        state.objects[index].add_mapping(mapping);
        // An allocation that is not resident is not shown, and then its addresses must not read as zero either.
        let reads_zero = state.objects[index].place.is_none().then_some(false);
        self.plan_zero_of(&state.adapter, &mut state.objects, &mut draft, &mapping, reads_zero);
        self.plan_entries(&state.adapter, &mut state.objects, &mut draft, index, mapping, true);
        numbers.extend(self.decide(&mut state.moment, &state.objects, draft));
        numbers
    }

    /// Work of the devices that pin an allocation waits for the plan that has moved it.
    fn await_move(&self, objects: &mut Objects, index: AllocationIx) {
        let allocation = &objects[index];
        let plan = allocation.last_plan;
        if !allocation.is_pinned() {
            return;
        }
        let holders = allocation.entries().filter(|(_, entry)| entry.is_pinning());
        for device in Vec::from_iter(holders.map(|(device, _)| device)) {
            self.await_plan(objects, device, plan);
        }
    }
}

/// The items of a device's list are granted: it pins those that nothing has ended since they were asked for.
pub(crate) fn pin_list(state: &mut State, device: DeviceIx, items: &Items) {
    state.residency.pin_granted(&mut state.moment, &mut state.objects, &mut state.memory, device, items);
    state.shares.renew_promise(&mut state.objects, device);
    items
        .iter()
        .for_each(|&(index, _)| state.residency.unpin(&mut state.moment, &mut state.objects, &mut state.memory, index));
}

impl Plans {
    /// Plans in `draft` what a placement asks for: which allocations go, move and come. Those of `required` that it does not name are pages.
    /// Returns the plans that the required ones wait for.
    pub(crate) fn carry_out(
        &mut self,
        state: &mut State,
        mut draft: Draft,
        required: &[AllocationIx],
        placement: Placement,
    ) -> Vec<PlanNo> {
        let Placement { victims, members } = placement;
        // No allocation that is required is a victim.
        state.residency.keep_all(&mut state.objects, required.iter().chain(members.keys()).copied());
        for index in victims {
            let reason = state.residency.reason(&state.objects, index, EvictReason::RoomWanted);
            self.plan_out(state, &mut draft, index, reason);
        }
        let mut numbers = Vec::new();
        let mut coming = Vec::new();
        let named = BTreeSet::from_iter(if members.is_empty() { &[] } else { required });
        let others = Vec::from_iter(members.keys().copied().filter(|index| !named.contains(index)));
        for index in required.iter().copied().chain(others) {
            let target = members.get(&index);
            let stays =
                target.map_or_else(|| place::is_placed(&state.objects[index], &state.memory, index), Option::is_none);
            if stays {
                numbers.push(state.objects[index].last_plan);
            } else {
                self.leave_for(state, &mut draft, index, target.copied().flatten());
                coming.push(index);
            }
        }
        // System memory first: an allocation that leaves a memory segment may then stay resident in what is left there. Ranges before
        // pages, which go wherever there is room.
        let is_assigned =
            |index: &AllocationIx| state.objects[*index].patched().is_some_and(|of| of.coming_at.is_some());
        let (ranges, pages): (Vec<_>, Vec<_>) = coming.iter().copied().partition(is_assigned);
        for account in [Account::SYSTEM].into_iter().chain(state.memory.accounts().memory()) {
            for &index in ranges.iter().chain(&pages) {
                if state.objects[index].place.is_none() && state.objects[index].account() == account {
                    self.plan_in(state, &mut draft, index);
                }
            }
        }
        numbers.extend(self.decide(&mut state.moment, &state.objects, draft));
        coming.iter().for_each(|&index| self.await_move(&mut state.objects, index));
        self.stream.unretired(numbers)
    }

    /// An allocation leaves the place where it is for another range, or for pages of the account where its list counts it.
    fn leave_for(&mut self, state: &mut State, draft: &mut Draft, index: AllocationIx, range: Option<Target>) {
        let allocation = &state.objects[index];
        if let Some(place) = allocation.place {
            let is_pinned = allocation.is_pinned();
            pins::note_writes_to(&mut state.objects, index);
            let allocation = &state.objects[index];
            let comes_home = range.is_none() && place.account() == Account::SYSTEM && allocation.account().is_memory();
            let is_moved = is_pinned && !comes_home
                || range.is_some()
                    && (place.account() == allocation.account() || !place::is_counted(&state.objects, index));
            let reason = if is_moved { EvictReason::Moved } else { place::reason_to_move(&state.objects, index) };
            self.plan_out(state, draft, index, reason);
        }
        match range {
            None | Some(Target::Pages) => {}
            Some(Target::Memory(account, range)) => {
                state.set_home(index, account.into());
                state.objects[index].patched_mut().coming_at = Some(range);
            }
            Some(Target::Aperture) => {
                let range = state.memory.aperture.assigned(index).expect("a placement assigns what it names");
                state.set_home(index, state.memory.aperture.home_at(range.offset));
            }
        }
    }
}
