//! Candidates: the allocations with a choice of homes in a MakeResident (D30). All joining allocations are candidates, and so are movable
//! allocations of the list; everything else keeps the present home. A device keeps its allocations with several homes in a set, so no call
//! walks the list.

use alloc::{collections::BTreeSet, vec::Vec};
use core::cmp::Reverse;

use crate::{
    budget::account::{Choices, PerHome},
    id::{AllocationIx, DeviceIx},
    objects::{Objects, allocation::AllocationState},
    residency::{
        assignment::Class,
        rehoming,
        weight::{PackingRoom, Weight},
    },
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
}

/// A listed or joining allocation, and the possible homes (D30).
#[derive(Clone, Copy)]
pub(crate) struct Candidate {
    pub allocation: AllocationIx,
    pub weight: Weight,
    pub joins: bool,
    priority: u32,
    /// The possible homes now; for a listed allocation the present home first.
    pub choices: Choices,
    /// The possible homes of an allocation without locks, sharing or requests.
    pub allowed: Choices,
}

impl Candidate {
    /// The order of candidates: largest first. Among candidates with equal weight and homes, listed allocations keep the first home before
    /// joining ones, and a high priority before a low.
    pub(crate) fn order(&self, homes: Choices) -> impl Ord + use<> {
        let class = (Reverse(self.weight), homes.len(), homes);
        (class, self.joins, Reverse(self.priority), Reverse(self.allocation))
    }
}

/// The joining allocations as candidates.
pub(crate) fn joining(objects: &Objects, joining: &Joining<'_>) -> Vec<Candidate> {
    let candidate = |&(allocation, choices): &(AllocationIx, Choices)| Candidate {
        allocation,
        weight: Weight::of(objects, allocation),
        joins: true,
        priority: objects[allocation].priority,
        choices,
        allowed: objects[allocation].allowed_homes(),
    };
    joining.allocations.iter().map(candidate).collect()
}

/// The joining allocations, and the listed allocations with several homes, in order.
pub(crate) fn candidates(state: &mut State, of: &Joining<'_>) -> Vec<Candidate> {
    let mut candidates = joining(&state.objects, of);
    let joins = BTreeSet::from_iter(of.allocations.iter().map(|&(index, _)| index));
    rehoming::strike_out_unlisted(&mut state.objects, of.device);
    for &allocation in state.objects[of.device].with_choice.iter().filter(|index| !joins.contains(index)) {
        let record = &state.objects[allocation];
        let present = state.residency.home_on_list(&state.objects, allocation);
        let allowed = core::iter::once(present).chain(record.allowed_homes()).collect();
        let choices = if may_move(state, of.device, allocation) { allowed } else { Choices::only(present) };
        let (weight, priority) = (Weight::of(&state.objects, allocation), record.priority);
        candidates.push(Candidate { allocation, weight, joins: false, priority, choices, allowed });
    }
    candidates.sort_unstable_by_key(|candidate| candidate.order(candidate.choices));
    candidates
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
        && !allocation.state.intersects(keeps_home)
        && !state.residency.rehomings.contains_key(&index)
}

/// Ordered candidates as classes, by the homes of each.
pub(crate) fn classes(candidates: &[Candidate], homes: impl Fn(&Candidate) -> Choices) -> Vec<Class> {
    let is_one = |a: &Candidate, b: &Candidate| (a.weight, homes(a)) == (b.weight, homes(b));
    let class = |of: &[Candidate]| Class { weight: of[0].weight, homes: homes(&of[0]), number: of.len() as u64 };
    candidates.chunk_by(is_one).map(class).collect()
}
