//! Candidates: the allocations with a choice of homes in a MakeResident (D30). All joining allocations are candidates, and so are movable
//! allocations of the list; everything else keeps the present home. A device keeps its allocations with several homes in a set, so no call
//! walks the list.

use alloc::{collections::BTreeSet, vec::Vec};

use crate::{
    budget::account::{Choices, PerHome},
    id::{AllocationIx, DeviceIx},
    objects::{Objects, allocation::AllocationState, list::ListEntry},
    residency::{assignment::Class, packing::PackingRoom, weight::Weight},
    state::State,
};

/// The joining allocations of a call, fewest choices first (D19).
pub(crate) struct Joining<'c> {
    pub device: DeviceIx,
    /// All allocations in the call, also the listed.
    pub named: &'c [AllocationIx],
    pub allocations: Vec<(AllocationIx, Choices)>,
    /// The room for ranges beside the list; none if all joining allocations are pages.
    pub ranges: Option<PerHome<PackingRoom>>,
    /// The listed allocations with several homes; none is the device's set, which holds no unlisted allocation.
    pub with_choice: Option<Vec<AllocationIx>>,
}

/// The weight and the possible homes of a listed or joining allocation (D30).
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Candidate {
    pub weight: Weight,
    pub joins: bool,
    /// The possible homes now; for a listed allocation the present home first.
    pub choices: Choices,
    /// The possible homes of an allocation without locks, sharing or requests.
    pub allowed: Choices,
}

/// The joining allocations as candidates.
pub(crate) fn joining<'j>(
    objects: &'j Objects,
    of: &'j Joining<'_>,
) -> impl Iterator<Item = (AllocationIx, Candidate)> + use<'j> {
    let candidate = |&(index, choices): &(AllocationIx, Choices)| {
        let (weight, allowed) = (Weight::of(objects, index), objects[index].allowed_homes());
        (index, Candidate { weight, joins: true, choices, allowed })
    };
    of.allocations.iter().map(candidate)
}

/// The joining allocations, and the listed allocations with several homes. Such a set holds no unlisted allocation.
pub(crate) fn candidates<'j>(
    state: &'j State,
    of: &'j Joining<'_>,
) -> impl Iterator<Item = (AllocationIx, Candidate)> + use<'j> {
    let joins = BTreeSet::from_iter(of.allocations.iter().map(|&(index, _)| index));
    let with_choice = of.with_choice.as_ref().unwrap_or(&state.objects[of.device].with_choice);
    let listed = with_choice.iter().filter_map(move |&index| {
        let record = &state.objects[index];
        // Only an allocation without an open span can be new on the list.
        let is_open = record.entry(of.device).is_some_and(ListEntry::is_open);
        if !is_open && joins.contains(&index) {
            return None;
        }
        let present = state.residency.home_on_list(&state.objects, index);
        let allowed = core::iter::once(present).chain(record.allowed_homes()).collect();
        let choices = if may_move(state, of.device, index) { allowed } else { Choices::only(present) };
        Some((index, Candidate { weight: Weight::of(&state.objects, index), joins: false, choices, allowed }))
    });
    joining(&state.objects, of).chain(listed)
}

/// Equal neighbours among candidates, and the number of each.
pub(crate) fn counted(candidates: impl Iterator<Item = (AllocationIx, Candidate)>) -> Vec<(Candidate, u64)> {
    let mut counted: Vec<(Candidate, u64)> = Vec::new();
    for (_, candidate) in candidates {
        match counted.last_mut() {
            Some((last, number)) if *last == candidate => *number += 1,
            _ => counted.push((candidate, 1)),
        }
    }
    counted
}

/// Whether a listed allocation may move home for joining allocations: granted, unlocked, of this device alone, and without a pending move.
fn may_move(state: &State, device: DeviceIx, index: AllocationIx) -> bool {
    let allocation = &state.objects[index];
    let keeps_home = AllocationState::LOCKED
        | AllocationState::LOCK_PENDING
        | AllocationState::SHARED
        | AllocationState::ACCESSED_PHYSICALLY;
    let is_granted = allocation.entry(device).is_some_and(|entry| entry.is_open() && !entry.has_ungranted_span());
    is_granted
        && allocation.device == device
        && allocation.openings().next().is_none()
        && !allocation.is_any(keeps_home)
        && state.objects[index].rehoming().is_none()
}

/// Candidates as classes, by the homes of each.
pub(crate) fn classes(counted: &[(Candidate, u64)], homes: impl Fn(&Candidate) -> Choices) -> Vec<Class> {
    let class = |(of, number): &(Candidate, u64)| Class { weight: of.weight, homes: homes(of), number: *number };
    counted.iter().map(class).collect()
}
