use alloc::{collections::BTreeSet, vec::Vec};

use crate::{
    budget::account::Account,
    event::EvictReason,
    gpu_va::Mapping,
    id::{AllocationIx, DeviceIx, PlanNo},
    objects::{Objects, allocation::AllocationState, spans::SpanNo},
    placement::{
        self, Target, Trial, Verdict,
        list::{self, Items},
    },
    plans::{Plans, draft::Draft},
    planted::PlantedBug,
    residency::place,
    state::State,
};
impl Plans {
    /// Whether the allocation is where it is to be, with its content, and nothing is under way for it.
    pub(crate) fn is_in_place(&self, state: &State, index: AllocationIx) -> bool {
        place::is_placed(&state.adapter, &state.objects, &state.memory, index)
            && self.stream.is_retired(state.objects[index].last_plan)
    }

    pub(crate) fn bring_in(
        &mut self,
        state: &mut State,
        device: DeviceIx,
        items: &[(AllocationIx, Option<SpanNo>)],
    ) -> Vec<PlanNo> {
        let mut draft = Draft { wanted_by: Some(device), ..Draft::default() };
        let mut numbers = Vec::new();
        let mut missing = Vec::new();
        // What the request names is no victim of it.
        state.residency.keep_all(&mut state.objects, items.iter().map(|&(index, _)| index));
        for &(index, _) in items {
            if place::is_placed(&state.adapter, &state.objects, &state.memory, index) {
                let plan = state.objects[index].last_plan;
                if !self.stream.is_retired(plan) {
                    numbers.push(plan);
                }
                continue;
            }
            if state.adapter.has_bug(PlantedBug::PlaceTwice) {
                state.objects[index].take_place();
            }
            if state.objects[index].place.is_some() {
                self.plan_out(state, &mut draft, index, place::reason_to_move(&state.objects, index));
            }
            missing.push(index);
        }
        // System memory first: what leaves a memory segment may then stay resident in what is left there.
        for account in [Account::SYSTEM].into_iter().chain(state.memory.accounts().memory()) {
            for &index in &missing {
                let allocation = &state.objects[index];
                if allocation.place.is_none() && allocation.account() == account {
                    self.plan_in(state, &mut draft, index);
                }
            }
        }
        numbers.extend(self.finish(&mut state.moment, &state.objects, draft));
        state.shares.withdraw_promise(&state.objects, device);
        state.residency.hold_granted(&mut state.moment, &mut state.objects, &mut state.memory, device, items);
        state.shares.renew_promise(&state.objects, device);
        // What was held when it was asked for may have lapsed since.
        items.iter().for_each(|&(index, _)| {
            state.residency.let_go(&mut state.moment, &mut state.objects, &mut state.memory, index)
        });
        numbers
    }

    pub(crate) fn make_mapping(&mut self, state: &mut State, index: AllocationIx, mapping: Mapping) -> Vec<PlanNo> {
        let mut draft = Draft::default();
        let mut numbers = self.plan_tables(state, &mut draft, &mapping);
        numbers.push(state.objects[index].last_plan);
        state.objects[index].add_mapping(mapping);
        self.plan_entries(&state.adapter, &mut state.objects, &mut draft, index, mapping, true);
        numbers.extend(self.finish(&mut state.moment, &state.objects, draft));
        numbers
    }

    /// Brings `items` in for a device's list, all or none of them. Returns the plans for that; none if there is no place at present.
    pub(crate) fn bring_in_if_placed(
        &mut self,
        state: &mut State,
        device: DeviceIx,
        items: &Items,
    ) -> Option<Vec<PlanNo>> {
        let numbers = self.place_list(state, device, items)?;
        hold_list(state, device, items);
        Some(numbers)
    }

    /// Decides where `items` go, and plans that.
    pub(crate) fn place_list(&mut self, state: &mut State, device: DeviceIx, items: &Items) -> Option<Vec<PlanNo>> {
        let mut trial = Trial::default();
        let members = list::members_of(&state.objects, items);
        if !list::try_list(state, &mut trial, device, &members) {
            return None;
        }
        let verdict = placement::conclude(&state.objects, &mut state.memory, trial);
        Some(self.carry_out_verdict(state, device, &members, verdict))
    }

    /// Work of the devices that hold an allocation waits for the plan that has moved it.
    fn await_move(&self, objects: &mut Objects, index: AllocationIx) {
        let plan = objects[index].last_plan;
        let holders = objects[index].entries().filter(|(_, entry)| entry.is_holding());
        for device in Vec::from_iter(holders.map(|(device, _)| device)) {
            self.await_plan(objects, device, plan);
        }
    }
}

pub(crate) fn hold_list(state: &mut State, device: DeviceIx, items: &Items) {
    state.shares.withdraw_promise(&state.objects, device);
    state.residency.hold_granted(&mut state.moment, &mut state.objects, &mut state.memory, device, items);
    state.shares.renew_promise(&state.objects, device);
    // What was held when it was asked for may have lapsed since.
    items.iter().for_each(|&(index, _)| {
        state.residency.let_go(&mut state.moment, &mut state.objects, &mut state.memory, index)
    });
}

impl Plans {
    /// Plans what a verdict asks for: who goes, who moves, who comes. Returns the plans that what is `required` waits for.
    pub(crate) fn carry_out_verdict(
        &mut self,
        state: &mut State,
        device: DeviceIx,
        required: &[AllocationIx],
        verdict: Verdict,
    ) -> Vec<PlanNo> {
        let Verdict { victims, members } = verdict;
        let mut draft = Draft { wanted_by: Some(device), ..Draft::default() };
        state.residency.keep_all(&mut state.objects, members.keys().copied());
        for index in victims {
            self.plan_out(
                state,
                &mut draft,
                index,
                state.residency.reason(&state.objects, index, EvictReason::RoomWanted),
            );
        }
        let mut numbers = Vec::new();
        let named: BTreeSet<AllocationIx> = required.iter().copied().collect();
        let others = members.keys().copied().filter(|index| !named.contains(index));
        let in_order = Vec::from_iter(required.iter().copied().chain(others));
        let (staying, moving): (Vec<AllocationIx>, Vec<AllocationIx>) =
            in_order.into_iter().partition(|index| members[index].is_none());
        for index in staying {
            let plan = state.objects[index].last_plan;
            numbers.extend((!self.stream.is_retired(plan)).then_some(plan));
        }
        for &index in &moving {
            if let Some(place) = state.objects[index].place {
                let allocation = &mut state.objects[index];
                // The work of those that hold it may have written to it.
                let is_held = allocation.is_held();
                allocation.state |= if is_held { AllocationState::DIRTY } else { AllocationState::empty() };
                let is_moved = place.account() == allocation.account() || !place::is_counted(&state.objects, index);
                let reason = if is_moved { EvictReason::Moved } else { place::reason_to_move(&state.objects, index) };
                self.plan_out(state, &mut draft, index, reason);
            }
            let account = match members[&index] {
                Some(Target::Memory(account, _)) => account,
                _ => Account::SYSTEM,
            };
            state.objects[index].set_account(account);
        }
        for &index in &moving {
            if let Some(Target::Memory(_, range)) = members[&index] {
                state.objects.patched.entry(index).or_default().assigned = Some(range);
            }
            self.plan_in(state, &mut draft, index);
        }
        numbers.extend(self.finish(&mut state.moment, &state.objects, draft));
        moving.iter().for_each(|&index| self.await_move(&mut state.objects, index));
        self.stream.unretired(numbers)
    }
}
