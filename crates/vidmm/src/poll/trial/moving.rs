//! Room that is made by moving: members go elsewhere within their memory, or to the other one (SPL-08); and what lists keep in
//! place moves too while nothing uses it.

use alloc::{collections::BTreeMap, vec::Vec};

use super::{Done, Target, Trial};
use crate::{
    id::{AllocationIx, DeviceIx},
    linear::Movable,
    place::Place,
    pool::Pool,
    state::VidMm,
    units::{Extent, PAGE_SIZE_64K},
};

impl VidMm {
    /// Lets those move that need not stay where they are, the largest first, until there is a place for all.
    pub(super) fn try_by_moving(&mut self, trial: &mut Trial, index: AllocationIx) -> bool {
        let members = self.movable_in(trial, Pool::Memory);
        let alignment = |index: AllocationIx| self.alignment(index, Pool::Memory);
        let movable = members.iter().map(|&(member, range)| Movable { range, alignment: alignment(member) });
        let (movable, size) = (Vec::from_iter(movable), self.allocations[index].size);
        let alignment = alignment(index);
        let Some(plan) = self.placer.linear().plan_compaction(&movable, size, alignment) else { return false };
        for moved in &plan.moves {
            self.free_for(trial, moved.range);
        }
        let member_at = |at: Extent| members.iter().find(|&&(_, range)| range == at).expect("members move").0;
        let moves = plan.moves.iter().map(|moved| (member_at(moved.range), moved.destination()));
        for (member, range) in Vec::from_iter(moves.chain([(index, plan.hole)])) {
            self.placer.linear().take(range).expect("the plan of moves says that it is free");
            trial.done.push(Done::Taken(range));
            let stays = self.memory_range(member) == Some(range);
            self.note_member(trial, member, (!stays).then_some(Target::Memory(range)));
        }
        true
    }

    /// Lets members that may be elsewhere go there, the largest first, until there is a place in `pool` for one that may not.
    pub(super) fn try_by_resettling(&mut self, trial: &mut Trial, index: AllocationIx, pool: Pool) -> bool {
        let start = trial.mark();
        for (member, range) in self.movable_members(trial, pool) {
            let mark = trial.mark();
            self.vacate(trial, member, range, pool);
            let other = self.pools_of(member).find(|&other| other != pool);
            if !other.is_some_and(|other| self.try_in(trial, member, other)) {
                self.undo(trial, mark);
            } else if self.try_in(trial, index, pool) {
                return true;
            }
        }
        self.undo(trial, start);
        false
    }

    /// Members in a pool that need not stay where they are, and their ranges; the largest first.
    fn movable_members(&self, trial: &Trial, pool: Pool) -> Vec<(AllocationIx, Extent)> {
        let in_memory = |member, target: &Option<Target>| match target {
            Some(Target::Memory(range)) => Some(*range),
            Some(Target::Aperture) => None,
            None => self.memory_range(member),
        };
        let range = |(&member, target): (&AllocationIx, &Option<Target>)| match pool {
            Pool::Memory => Some((member, in_memory(member, target)?)),
            Pool::System => Some((member, self.aperture.assigned(member)?)),
        };
        let mut movable: Vec<(AllocationIx, Extent)> = trial.members.iter().filter_map(range).collect();
        movable.retain(|&(member, _)| self.may_move(member));
        movable.sort_by_key(|&(member, range)| (core::cmp::Reverse(range.size), member));
        movable
    }

    /// Members in a pool that need not stay where they are, and what else lists keep there while nothing uses it.
    fn movable_in(&self, trial: &Trial, pool: Pool) -> Vec<(AllocationIx, Extent)> {
        let mut movable = self.movable_members(trial, pool);
        let still = self.devices.iter().filter(|&(device, _)| self.is_still(device));
        let held = still.flat_map(|(_, books)| books.holdings.iter().copied());
        let is_bystander = |&index: &AllocationIx| {
            let is_there = self.allocations.contains(index);
            is_there && self.allocations[index].is_held() && !trial.members.contains_key(&index)
        };
        let range = |index: AllocationIx| match pool {
            Pool::Memory => Some((index, self.memory_range(index)?)),
            Pool::System => Some((index, self.aperture.assigned(index)?)),
        };
        let bystanders: BTreeMap<AllocationIx, Extent> = held.filter(is_bystander).filter_map(range).collect();
        movable.extend(bystanders.into_iter().filter(|&(index, _)| self.may_move(index)));
        movable.sort_by_key(|&(index, range)| (core::cmp::Reverse(range.size), index));
        movable
    }

    /// A member leaves the range that it has in a pool.
    fn vacate(&mut self, trial: &mut Trial, member: AllocationIx, range: Extent, pool: Pool) {
        match pool {
            Pool::Memory => {
                self.free_for(trial, range);
            }
            Pool::System => {
                self.aperture.release(member);
                trial.done.push(Done::Unassigned { index: member, range });
                let (wanted, kept) = self.bytes_in_system(member, trial.members[&member]);
                trial.done.push(Done::System { wanted: trial.wanted_in_system, kept: trial.kept_in_system });
                trial.wanted_in_system -= wanted;
                trial.kept_in_system -= kept;
            }
        }
    }

    /// Whether an allocation may be given another place.
    pub(super) fn may_move(&self, index: AllocationIx) -> bool {
        // What a decided portion, of this DMA buffer or another, relies on stays.
        !self.allocations[index].any_entry(|device, entry| entry.is_holding() && !self.is_still(device))
    }

    /// Whether what a device's list holds may move: nothing of the device is in flight, and what it hands out next is patched then.
    fn is_still(&self, device: DeviceIx) -> bool {
        let books = &self.devices[device];
        !books.has_reference_lists() && !books.is_in_flight()
    }

    /// Assigns a range of the aperture to an allocation by giving others, which need not stay where they are, other ranges.
    pub(super) fn assign_by_moving(&mut self, trial: &mut Trial, index: AllocationIx) -> bool {
        let members = self.movable_in(trial, Pool::System);
        let movable = members.iter().map(|&(_, range)| Movable { range, alignment: PAGE_SIZE_64K });
        let (movable, size) = (Vec::from_iter(movable), self.allocations[index].size);
        let Some(plan) = self.aperture.plan_compaction(&movable, size) else { return false };
        let member_at = |at: Extent| members.iter().find(|&&(_, range)| range == at).expect("members move").0;
        let moves = plan.moves.iter().map(|moved| (member_at(moved.range), moved.destination()));
        let moves = Vec::from_iter(moves);
        for moved in &plan.moves {
            let member = member_at(moved.range);
            if !trial.members.contains_key(&member) {
                self.note_member(trial, member, None);
            }
            self.vacate(trial, member, moved.range, Pool::System);
        }
        for &(member, range) in &moves {
            self.assign_at(trial, member, range);
            self.note_in_aperture(trial, member, range);
        }
        self.assign_at(trial, index, plan.hole);
        true
    }

    /// A member is in the aperture from now on, at `range`; unless it is there already.
    pub(super) fn note_in_aperture(&mut self, trial: &mut Trial, member: AllocationIx, range: Extent) {
        let is_shown_there = |place| matches!(place, Place::Aperture(page) if page.bytes() == range.offset);
        let stays = self.allocations[member].place.is_some_and(is_shown_there);
        let target = (!stays).then_some(Target::Aperture);
        self.note_in_system(trial, member, target);
        self.note_member(trial, member, target);
    }

    pub(super) fn assign_at(&mut self, trial: &mut Trial, index: AllocationIx, range: Extent) {
        let assigned = self.aperture.assign(index, range.size, Some(range.offset));
        debug_assert_eq!(assigned, Some(range), "the plan of moves says that it is unassigned");
        trial.done.push(Done::Assigned(index));
    }
}
