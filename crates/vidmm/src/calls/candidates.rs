//! Candidates: the allocations with a choice of homes in a MakeResident (D30). All joining allocations are candidates, and so are movable
//! allocations of the list; everything else keeps the present home. A device keeps a set of the allocations with several homes. No call
//! walks the list.

use alloc::{collections::BTreeSet, vec::Vec};

use crate::{
    budget::account::{Choices, PerHome},
    id::{AllocationIx, DeviceIx},
    memory::Memory,
    objects::{Objects, allocation::AllocationState, list::ListEntry},
    residency::{
        Residents,
        assignment::Class,
        packing::{self, PackingRoom},
        weight::Weight,
    },
    state::State,
};

/// The allocations that a call names.
pub(crate) struct Named {
    pub indices: Vec<AllocationIx>,
    /// Whether any of the allocations is one range.
    pub has_ranges: bool,
}

/// An allocation that joins a list.
#[derive(Clone, Copy)]
pub(crate) struct Joins {
    pub index: AllocationIx,
    pub weight: Weight,
    /// The possible homes.
    pub choices: Choices,
}

/// The joining allocations of a call, fewest choices first (D19).
pub(crate) struct Joining<'c> {
    pub device: DeviceIx,
    /// All allocations in the call, also the listed.
    pub named: &'c [AllocationIx],
    pub allocations: Vec<Joins>,
    /// The room for ranges beside the list; none if all joining allocations are pages.
    pub ranges: Option<PerHome<PackingRoom>>,
    /// The listed allocations with several homes; none is the device's set, which holds no unlisted allocation.
    pub with_choice: Option<Vec<AllocationIx>>,
}

impl Joins {
    /// An allocation that joins the list of a device.
    #[inline(always)]
    pub(crate) fn of(residency: &Residents, objects: &Objects, index: AllocationIx, device: DeviceIx) -> Self {
        let choices = residency.choices(objects, index, device);
        Self { index, weight: Weight::of(&objects[index]), choices }
    }
}

impl<'c> Joining<'c> {
    /// These of the named allocations join the list of a device.
    pub(crate) fn new(
        objects: &Objects,
        memory: &Memory,
        device: DeviceIx,
        named: &'c Named,
        mut allocations: Vec<Joins>,
    ) -> Self {
        if allocations.iter().any(|joins| joins.choices != allocations[0].choices) {
            allocations.sort_by_key(|joins| joins.choices.len());
        }
        let ranges = named.has_ranges.then(|| packing::packing_room(objects, memory, device));
        Self { device, named: &named.indices, allocations, ranges, with_choice: None }
    }
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
    let candidate = |&Joins { index, weight, choices }: &Joins| {
        (index, Candidate { weight, joins: true, choices, allowed: objects[index].allowed_homes() })
    };
    of.allocations.iter().map(candidate)
}

/// The joining allocations, and the listed allocations with several homes. Such a set holds no unlisted allocation.
pub(crate) fn candidates<'j>(
    state: &'j State,
    of: &'j Joining<'_>,
) -> impl Iterator<Item = (AllocationIx, Candidate)> + use<'j> {
    let joins = BTreeSet::from_iter(of.allocations.iter().map(|joins| joins.index));
    let with_choice = of.with_choice.as_ref().unwrap_or(&state.objects[of.device].with_choice);
    let listed = with_choice.iter().filter_map(move |&index| {
        let record = &state.objects[index];
        // Only an allocation without an open span can be new on the list.
        let is_open = record.entry(of.device).is_some_and(ListEntry::is_open);
        if !is_open && joins.contains(&index) {
            return None;
        }
        let present = state.objects[index].home_on_list();
        let allowed = core::iter::once(present).chain(record.allowed_homes()).collect();
        let choices = if may_move(state, of.device, index) { allowed } else { Choices::only(present) };
        Some((index, Candidate { weight: Weight::of(&state.objects[index]), joins: false, choices, allowed }))
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
