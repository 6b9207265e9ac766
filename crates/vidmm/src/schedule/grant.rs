//! Granting: the order in which requests are decided, each whole or not at all (D3).

use alloc::{collections::BTreeSet, vec::Vec};
use core::cmp::Reverse;

use crate::{
    addresses,
    buggify::{MOMENT, Unlikely},
    event::EvictReason,
    gpu_va::PageTables,
    id::{DeviceIx, PlanNo, SubmissionNo},
    objects::{Objects, allocation::AllocationState, request::RequestKind},
    placement::satisfy::{self, Shortfall},
    plans::{Plans, bring_in, draft::Draft},
    requests::Requests,
    residency::views,
    schedule::{Schedule, replacement, turns, waiting::Power},
    state::State,
};

impl Schedule {
    /// Plans the eviction of what was to go at the earliest opportunity: each device's on its own, so that none waits for
    /// another's work (D5).
    pub(crate) fn evict_soon(&self, state: &mut State, plans: &mut Plans) {
        if state.residency.evict_soon.is_empty() {
            return;
        }
        let mut draft = Draft::default();
        let mut device = None;
        while let Some(index) = state.residency.next_hastened() {
            let wanted = AllocationState::EVICTABLE | AllocationState::EVICT_SOON;
            if !state.objects.allocations.contains(index) || !state.objects[index].is(wanted) {
                continue;
            }
            let owner = state.objects[index].device;
            if device.replace(owner) != Some(owner) {
                plans.decide(&mut state.moment, &state.objects, core::mem::take(&mut draft));
            }
            let suspended = state.objects[index].is_to_restore();
            let locked = state.objects[index].is(AllocationState::LOCK_PENDING);
            let reason = match (self.turns.power, suspended) {
                (Power::Up, _) if locked => EvictReason::Locked,
                (Power::Up, true) => EvictReason::DeviceSuspended,
                (Power::Up, false) => EvictReason::EvictRequested,
                (Power::GoingDown | Power::Down, _) => EvictReason::PoweredDown,
            };
            plans.plan_out(state, &mut draft, index, state.residency.reason(&state.objects, index, reason));
        }
        plans.decide(&mut state.moment, &state.objects, draft);
    }

    /// Grants requests until one does not fit yet: queues of higher priority first, then by arrival (U-28). No request is
    /// passed over for want of room: what the first one waits for would otherwise be taken by the next, again and again. A
    /// device that must first unpin allocations of its own keeps nobody waiting.
    pub(crate) fn grant(&mut self, state: &mut State, plans: &mut Plans, requests: &mut Requests) {
        let mut held_back = BTreeSet::new();
        while let Some(device) = next_to_grant(&state.objects, requests, &held_back) {
            if state.moment.makes(Unlikely::HoldRequests, device.get().into(), state.moment.now()) {
                return state.moment.wake_at(state.moment.now() + MOMENT);
            }
            match grant_next(state, plans, requests, device) {
                Ok(()) => {}
                Err(Shortfall::Own) if self.moves_into_sight(state, device) => {}
                Err(Shortfall::Own | Shortfall::Place(_)) => drop(held_back.insert(device)),
                Err(Shortfall::Room) => return,
            }
        }
    }

    /// Whether a locked allocation of the next request of a device moves to a home in the CPU's sight: work that was to find the
    /// list without the allocation there may be over by now (D30).
    fn moves_into_sight(&mut self, state: &mut State, device: DeviceIx) -> bool {
        let record = &state.objects[device];
        let RequestKind::MakeResident(items) = &record.requests[record.granted].kind else { return false };
        // A re-homed allocation gets the next home with the grant.
        let is_hidden =
            |index| views::waits_for_unlock(&state.objects, index) && state.objects[index].rehoming().is_none();
        let hidden = Vec::from_iter(items.iter().copied().filter(|&(index, _)| is_hidden(index)));
        let wanted = state.residency.still_wanted(&state.objects, device, &hidden);
        wanted.first().is_some_and(|&(index, _)| replacement::move_into_sight(&mut self.turns, state, index))
    }
}

/// Decides the next request of a device, if it can be granted.
fn grant_next(
    state: &mut State,
    plans: &mut Plans,
    requests: &mut Requests,
    device: DeviceIx,
) -> Result<(), Shortfall> {
    let record = &mut state.objects[device];
    let granted = record.granted;
    let request = &mut record.requests[granted];
    let position = request.position;
    let kind = core::mem::replace(&mut request.kind, RequestKind::MakeResident(Vec::new()));
    match decide(state, plans, device, position, &kind) {
        Ok(numbers) => {
            requests.note_grant(state, plans, device, numbers);
            Ok(())
        }
        Err(shortfall) => {
            state.objects[device].requests[granted].kind = kind;
            Err(shortfall)
        }
    }
}

fn next_to_grant(objects: &Objects, requests: &Requests, held_back: &BTreeSet<DeviceIx>) -> Option<DeviceIx> {
    let is_candidate = |device: &DeviceIx| {
        let record = &objects[*device];
        !held_back.contains(device) && (record.is_active() || record.is_over())
    };
    let candidates = requests.requesting.iter().copied().filter(is_candidate);
    candidates.min_by_key(|&device| {
        let record = &objects[device];
        let request = &record.requests[record.granted];
        (Reverse(objects[request.queue].priority), request.arrival)
    })
}

/// Decides a whole request, or nothing of it.
fn decide(
    state: &mut State,
    plans: &mut Plans,
    device: DeviceIx,
    position: SubmissionNo,
    kind: &RequestKind,
) -> Result<Vec<PlanNo>, Shortfall> {
    match kind {
        RequestKind::MakeResident(items) => {
            // To a device in error nothing is brought in.
            if state.objects[device].is_over() {
                bring_in::pin_list(state, device, items);
                return Ok(Vec::new());
            }
            let wanted = state.residency.still_wanted(&state.objects, device, items);
            let placement = satisfy::satisfy_request(state, device, &wanted, position).inspect_err(|shortfall| {
                if matches!(shortfall, Shortfall::Place(_)) {
                    turns::note_no_place(state, device);
                }
            })?;
            Ok(plans.bring_in(state, device, items, &wanted, placement))
        }
        RequestKind::Decided(numbers) => Ok(numbers.clone()),
        RequestKind::MapGpuVirtualAddress { allocation, mapping } => {
            let keys = addresses::tables_of(&state.adapter, mapping);
            if !satisfy::has_room_for_tables(state, mapping.process, keys) {
                return Err(Shortfall::Room);
            }
            Ok(plans.make_mapping(state, *allocation, *mapping))
        }
        &RequestKind::ReserveGpuVirtualAddress { process, range } => {
            if !satisfy::has_room_for_tables(state, process, PageTables::cut_by(&state.adapter, range)) {
                return Err(Shortfall::Room);
            }
            Ok(plans.show_reservation(state, device, process, range))
        }
    }
}
