//! Candidates: the allocations whose homes a MakeResident may choose (D30). Those that join the list are, and those of the list that nothing
//! holds where they are; everything else counts where it is. A list keeps those that may have several homes, so that it is never walked.

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

/// The allocations that join a device's list with a call, those with the fewest choices first: the others take what these leave (D19).
pub(crate) struct Joining<'c> {
    pub device: DeviceIx,
    /// All that the call names, also what is on the list already.
    pub named: &'c [AllocationIx],
    pub allocations: Vec<(AllocationIx, Choices)>,
    /// The room for ranges that the list leaves; none where all that join are pages.
    pub ranges: Option<PerHome<PackingRoom>>,
}

/// An allocation of a list, or one that joins it, and its homes (D30).
#[derive(Clone, Copy)]
pub(crate) struct Candidate {
    pub allocation: AllocationIx,
    pub weight: Weight,
    pub joins: bool,
    priority: u32,
    /// The homes that it may have now: of one that is on the list first the one that it has.
    pub choices: Choices,
    /// The homes that it may have once nothing holds it where it is.
    pub allowed: Choices,
}

impl Candidate {
    /// The order in which candidates are placed: the largest first. Of those that weigh the same and have the same homes, those that are on
    /// the list keep theirs first, then those of the highest priority.
    pub(crate) fn order(&self, homes: Choices) -> impl Ord + use<> {
        let class = (Reverse(self.weight), homes.len(), homes);
        (class, self.joins, Reverse(self.priority), Reverse(self.allocation))
    }
}

/// All that joins a list.
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

/// All that joins a list or may have several homes on it, in order.
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

/// Whether an allocation of a device's list may move its home for others that join: nothing that is to be granted names it, no other
/// device has it or may open it meanwhile, and the CPU does not see it.
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

/// Candidates in order as classes, by the homes of each.
pub(crate) fn classes(candidates: &[Candidate], homes: impl Fn(&Candidate) -> Choices) -> Vec<Class> {
    let is_one = |a: &Candidate, b: &Candidate| (a.weight, homes(a)) == (b.weight, homes(b));
    let class = |of: &[Candidate]| Class { weight: of[0].weight, homes: homes(&of[0]), number: of.len() as u64 };
    candidates.chunk_by(is_one).map(class).collect()
}
