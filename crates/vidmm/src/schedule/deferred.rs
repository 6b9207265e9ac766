use alloc::vec::Vec;

use crate::{
    event::EvictReason,
    gpu_va::Mapping,
    id::DeviceIx,
    objects::{
        allocation::Allocation,
        device::{Deferred, DeferredAction},
    },
    plans::{
        Plans, Retire,
        draft::{self, Draft},
        unmapping,
    },
    requests::Requests,
    state::State,
};

/// Plans what waited for submissions to be dispatched and requests to be granted.
pub(crate) fn follow_up_all(state: &mut State, plans: &mut Plans, requests: &mut Requests) {
    let mut next = DeviceIx::FIRST;
    while let Some(device) = requests.deferring.next_from(next) {
        next = device.next();
        follow_up(state, plans, requests, device);
    }
}

fn follow_up(state: &mut State, plans: &mut Plans, requests: &mut Requests, device: DeviceIx) {
    while let Some(next) = state.objects[device].deferred.front().copied() {
        if !state.objects[device].is_due(&next) || !unmapping::get_ready_for(state, &next.action) {
            return;
        }
        requests.take_deferred(&mut state.objects, device);
        carry_out(state, plans, device, next);
        // The owner may have offered it, to be discarded at once, while the device that closed it still had a use for it.
        if let DeferredAction::Close(index) = next.action {
            carry_out(state, plans, device, Deferred { action: DeferredAction::Discard(index), ..next });
        }
    }
    requests.end_deferring(device);
}

fn carry_out(state: &mut State, plans: &mut Plans, device: DeviceIx, deferred: Deferred) {
    let mut draft = Draft::default();
    match deferred.action {
        DeferredAction::Purge(index) if state.objects[index].openings().next().is_some() => {
            // Devices that have closed it may still use it: the last of them purges it.
            state.objects[index].purge_when_unused();
            return;
        }
        DeferredAction::Purge(index) => {
            let Allocation { ref place, last_plan, .. } = state.objects[index];
            let retired = state.objects[device].retired() >= deferred.submission;
            let is_out = place.is_none();
            if !is_out {
                plans.plan_out(state, &mut draft, index, EvictReason::Destroyed);
            }
            if state.adapter.has_zero {
                for mapping in Vec::from_iter(state.objects[index].mappings()) {
                    plans.plan_zero_of(&state.adapter, &mut state.objects, &mut draft, &mapping, Some(true));
                }
            }
            if is_out && !draft.decided && retired && plans.stream.is_retired(last_plan) {
                state.objects.note_dead(index);
                state.moment.request_poll();
                return;
            }
            plans.plan_after(&mut draft, last_plan);
            draft::plan_retire(&mut draft, Retire::Allocation(index));
        }
        DeferredAction::Discard(index) => plans.discard_at_once(state, &mut draft, index),
        DeferredAction::Unmap { allocation, freed } => plans.plan_unmap(state, &mut draft, allocation, freed),
        DeferredAction::Close(index) => {
            let of_device = |mapping: &Mapping| mapping.device == device;
            for mapping in state.objects[index].take_mappings(of_device) {
                plans.plan_mapping_away(&state.adapter, &mut state.objects, &mut draft, index, mapping);
            }
            draft::plan_retire(&mut draft, Retire::Opening { allocation: index, device });
            plans.plan_after(&mut draft, state.objects[index].last_plan);
        }
    }
    draft::plan_wait(&state.objects, &mut draft, device, deferred.submission);
    plans.decide(&mut state.moment, &state.objects, draft);
}
