//! A trial: what a portion would require is given its places one after another, and taken back if it does not fit.
//!
//! It works on the free ranges themselves, and writes down what it did: going back costs what was tried, and keeping it is free.

use alloc::{collections::BTreeMap, vec::Vec};

use crate::{
    allocation::AllocationState, evictable::Evictable, packing::pack, place::Place, pool::Pool, state::VidMm,
    units::Extent,
};

/// What was tried so far.
#[derive(Default)]
pub(super) struct Trial {
    done: Vec<Done>,
    /// Residents of the memory segment whose ranges were freed for it, in the order in which they would go.
    victims: Vec<u32>,
    /// What is required and where it goes; none is where it is.
    pub members: BTreeMap<u32, Option<Target>>,
    /// Bytes that members take of system memory, and take already.
    wanted_in_system: u64,
    kept_in_system: u64,
}

/// Where a member goes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Target {
    Memory(Extent),
    Aperture,
}

/// A step of a trial.
enum Done {
    Taken(Extent),
    Freed(Extent),
    Victim,
    Spared { position: usize, index: u32 },
    Assigned(u32),
    Member { index: u32, before: Option<Option<Target>> },
    System { wanted: u64, kept: u64 },
}

/// Where a trial was once.
#[derive(Clone, Copy)]
pub(super) struct Mark(usize);

impl Mark {
    /// Before anything was tried.
    pub const START: Self = Self(0);
}

impl Trial {
    /// Where the trial is.
    pub fn mark(&self) -> Mark {
        Mark(self.done.len())
    }
}

/// What a trial has come to.
pub(super) struct Verdict {
    /// Who must go, in that order.
    pub victims: Vec<u32>,
    /// What is required, and where it goes; none is where it is.
    pub members: BTreeMap<u32, Option<Target>>,
}

impl VidMm {
    /// The range of the linear memory segment that an allocation has.
    pub(super) fn memory_range(&self, index: u32) -> Option<Extent> {
        let allocation = &self.allocations[index as usize];
        match allocation.place {
            Some(Place::Memory(place)) => allocation.extents(place).iter().next(),
            _ => None,
        }
    }

    /// Gives an allocation its place beside the other members. Returns whether it has one; if not, some steps are to be taken
    /// back.
    pub(super) fn try_member(&mut self, trial: &mut Trial, index: u32) -> bool {
        if trial.members.contains_key(&index) {
            return true;
        }
        let is_there = match self.allocations[index as usize].place {
            Some(Place::Memory(_)) => self.keep_in_memory(trial, index),
            Some(_) => self.keep_in_system(trial, index),
            None => false,
        };
        is_there
            || self.allocations[index as usize].allowed_pools().into_iter().flatten().any(|pool| match pool {
                Pool::Memory => self.try_in_memory(trial, index),
                Pool::System => self.try_in_system(trial, index),
            })
            || self.try_by_demoting(trial, index)
    }

    /// What is in the memory segment stays there; unless it was tried as a victim, and its room is taken.
    fn keep_in_memory(&mut self, trial: &mut Trial, index: u32) -> bool {
        let range = self.memory_range(index).expect("it is in the memory segment");
        if let Some(position) = trial.victims.iter().position(|&victim| victim == index) {
            trial.victims.remove(position);
            trial.done.push(Done::Spared { position, index });
            if self.placer.linear().take(range).is_none() {
                return false;
            }
            trial.done.push(Done::Taken(range));
        }
        self.note_member(trial, index, None);
        true
    }

    fn keep_in_system(&mut self, trial: &mut Trial, index: u32) -> bool {
        let allocation = &self.allocations[index as usize];
        let (size, shown_at) = (
            allocation.size,
            match allocation.place {
                Some(Place::Aperture(page)) => Some(page.bytes()),
                _ => None,
            },
        );
        if self.aperture.assigned(index).is_none() {
            match self.aperture.assign(index, size, shown_at) {
                Some(range) if Some(range.offset) == shown_at => trial.done.push(Done::Assigned(index)),
                found => {
                    // Its range is another's now: it goes elsewhere.
                    found.into_iter().for_each(|_| self.aperture.release(index));
                    return false;
                }
            }
        }
        let kept = if self.allocations[index as usize].state.contains(AllocationState::EVICTABLE) { size } else { 0 };
        self.note_system(trial, 0, kept);
        self.note_member(trial, index, None);
        true
    }

    /// A range of the memory segment for the allocation: where there is one; where victims make one; or where other members
    /// make one by moving.
    fn try_in_memory(&mut self, trial: &mut Trial, index: u32) -> bool {
        let size = self.allocations[index as usize].size;
        if size > self.placer.size() {
            return false;
        }
        let wish = self.patching.allocations.get(&index).map(|patched| patched.wish.clone()).unwrap_or_default();
        let mut candidates = None;
        let range = loop {
            if let Some(range) = self.placer.linear().find(size, &wish) {
                break range;
            }
            let candidates: &mut alloc::vec::IntoIter<u32> = candidates.get_or_insert_with(|| {
                // What was spared for its own sake and is not where it was has its room counted already.
                let is_candidate = |other: &u32| {
                    *other != index && !trial.members.contains_key(other) && !trial.victims.contains(other)
                };
                let queue: &Evictable = &self.evictable[Pool::Memory];
                Vec::from_iter(queue.iter(&self.allocations).filter(is_candidate)).into_iter()
            });
            let Some(victim) = candidates.next() else { return self.try_by_moving(trial, index) };
            let freed = self.memory_range(victim).expect("what is evictable there is there");
            self.placer.linear().release(freed);
            trial.done.push(Done::Freed(freed));
            trial.victims.push(victim);
            trial.done.push(Done::Victim);
        };
        self.placer.linear().take(range).expect("it was found free");
        trial.done.push(Done::Taken(range));
        self.note_member(trial, index, Some(Target::Memory(range)));
        true
    }

    /// Lets members move that need not stay where they are, the largest first, until there is a place for all.
    fn try_by_moving(&mut self, trial: &mut Trial, index: u32) -> bool {
        let movable = self.movable_members(trial);
        let mark = trial.mark();
        for &(_, range) in &movable {
            self.placer.linear().release(range);
            trial.done.push(Done::Freed(range));
        }
        let alignment = |index: u32| self.patching.allocations.get(&index).map_or(1, |patched| patched.wish.alignment);
        let items: Vec<(u64, u64)> = core::iter::once(index)
            .chain(movable.iter().map(|&(member, _)| member))
            .map(|index| (self.allocations[index as usize].size, alignment(index).max(1)))
            .collect();
        let now: Vec<Option<u64>> =
            core::iter::once(None).chain(movable.iter().map(|&(_, range)| Some(range.offset))).collect();
        let gaps: Vec<Extent> = self.placer.linear().holes().collect();
        let Some(offsets) = pack(&gaps, &items, &now) else {
            self.undo(trial, mark);
            return false;
        };
        let members = core::iter::once(index).chain(movable.iter().map(|&(member, _)| member));
        for ((member, offset), (size, _)) in Vec::from_iter(members.zip(offsets).zip(items)) {
            let range = Extent { offset, size };
            self.placer.linear().take(range).expect("it was packed into what is free");
            trial.done.push(Done::Taken(range));
            let stays = self.memory_range(member) == Some(range);
            self.note_member(trial, member, (!stays).then_some(Target::Memory(range)));
        }
        true
    }

    /// Lets members that may be in system memory go there, the largest first, until there is a place in the memory segment for
    /// one that may not.
    fn try_by_demoting(&mut self, trial: &mut Trial, index: u32) -> bool {
        if !self.allocations[index as usize].state.contains(AllocationState::MAY_BE_IN_MEMORY) {
            return false;
        }
        for (member, range) in self.movable_members(trial) {
            let mark = trial.mark();
            self.placer.linear().release(range);
            trial.done.push(Done::Freed(range));
            let is_allowed = self.allocations[member as usize].allowed_pools().contains(&Some(Pool::System));
            if !is_allowed || !self.try_in_system(trial, member) {
                self.undo(trial, mark);
            } else if self.try_in_memory(trial, index) {
                return true;
            }
        }
        false
    }

    /// Members in the memory segment that need not stay where they are, and their ranges; the largest first.
    fn movable_members(&self, trial: &Trial) -> Vec<(u32, Extent)> {
        let mut movable = Vec::new();
        for (&member, target) in &trial.members {
            let range = match target {
                Some(Target::Memory(range)) => Some(*range),
                Some(Target::Aperture) => None,
                None => self.memory_range(member),
            };
            movable.extend(range.filter(|_| self.may_move(member)).map(|range| (member, range)));
        }
        movable.sort_by_key(|&(member, range)| (core::cmp::Reverse(range.size), member));
        movable
    }

    /// Whether a member of a portion may be given another place.
    fn may_move(&self, index: u32) -> bool {
        // What a decided portion, of this DMA buffer or another, relies on stays.
        !self.allocations[index as usize].is_held()
    }

    /// A range of the aperture for the allocation, and a part of the commit limit.
    fn try_in_system(&mut self, trial: &mut Trial, index: u32) -> bool {
        let size = self.allocations[index as usize].size;
        let evictable = self.evictable[Pool::System].bytes() - trial.kept_in_system;
        if trial.wanted_in_system + size > self.commit.available() + evictable {
            return false;
        }
        if self.aperture.assign(index, size, None).is_none() {
            return false;
        }
        trial.done.push(Done::Assigned(index));
        self.note_system(trial, size, 0);
        self.note_member(trial, index, Some(Target::Aperture));
        true
    }

    fn note_member(&mut self, trial: &mut Trial, index: u32, target: Option<Target>) {
        let before = trial.members.insert(index, target);
        trial.done.push(Done::Member { index, before });
    }

    fn note_system(&mut self, trial: &mut Trial, wanted: u64, kept: u64) {
        trial.wanted_in_system += wanted;
        trial.kept_in_system += kept;
        trial.done.push(Done::System { wanted, kept });
    }

    /// Ends a trial: nothing of the memory segment has changed yet, and ranges of the aperture are assigned. A victim whose range
    /// nobody needs after all is none.
    pub(super) fn conclude(&mut self, mut trial: Trial) -> Verdict {
        let mut victims = core::mem::take(&mut trial.victims);
        victims.retain(|&index| {
            let range = self.memory_range(index).expect("a victim is in the memory segment");
            let is_needed = self.placer.linear().take(range).is_none();
            if !is_needed {
                trial.done.push(Done::Taken(range));
            }
            is_needed
        });
        for done in trial.done.into_iter().rev() {
            match done {
                Done::Taken(range) => self.placer.linear().release(range),
                Done::Freed(range) => self.placer.linear().take(range).expect("it was free then"),
                _ => {}
            }
        }
        Verdict { victims, members: trial.members }
    }

    /// Takes back all that was done since `mark`.
    pub(super) fn undo(&mut self, trial: &mut Trial, mark: Mark) {
        while trial.done.len() > mark.0 {
            match trial.done.pop().expect("there is more than at the mark") {
                Done::Taken(range) => self.placer.linear().release(range),
                Done::Freed(range) => self.placer.linear().take(range).expect("it was free then"),
                Done::Victim => drop(trial.victims.pop()),
                Done::Spared { position, index } => trial.victims.insert(position, index),
                Done::Assigned(index) => self.aperture.release(index),
                Done::Member { index, before: None } => drop(trial.members.remove(&index)),
                Done::Member { index, before: Some(before) } => drop(trial.members.insert(index, before)),
                Done::System { wanted, kept } => {
                    trial.wanted_in_system -= wanted;
                    trial.kept_in_system -= kept;
                }
            }
        }
    }
}
