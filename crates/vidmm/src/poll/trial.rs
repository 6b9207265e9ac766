//! A trial: what a portion or a device's list would require is given its places one after another, and taken back if it does not
//! fit.
//!
//! It works on the free ranges themselves, and writes down what it did: going back costs what was tried, and keeping it is free.

use alloc::{collections::BTreeMap, vec::Vec};

use crate::id::AllocationIx;
use crate::{allocation::AllocationState, place::Place, pool::Pool, state::VidMm, units::Extent};

mod anew;
mod moving;

/// What was tried so far.
#[derive(Default)]
pub(super) struct Trial {
    done: Vec<Done>,
    /// Residents of the memory segment whose ranges were freed for it, in the order in which they would go.
    victims: Vec<AllocationIx>,
    /// The last that was looked at among those that may go.
    looked_at: Option<AllocationIx>,
    /// What is required and where it goes; none is where it is.
    pub members: BTreeMap<AllocationIx, Option<Target>>,
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
    /// The next candidate was looked for, from this one on.
    Looked {
        before: Option<AllocationIx>,
    },
    Spared {
        position: usize,
        index: AllocationIx,
    },
    Assigned(AllocationIx),
    Unassigned {
        index: AllocationIx,
        range: Extent,
    },
    Member {
        index: AllocationIx,
        before: Option<Option<Target>>,
    },
    /// What was wanted in system memory before, and kept.
    System {
        wanted: u64,
        kept: u64,
    },
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
    pub victims: Vec<AllocationIx>,
    /// What is required, and where it goes; none is where it is.
    pub members: BTreeMap<AllocationIx, Option<Target>>,
}

impl VidMm {
    /// The range of the linear memory segment that an allocation has.
    pub(super) fn memory_range(&self, index: AllocationIx) -> Option<Extent> {
        let allocation = &self.allocations[index];
        match allocation.place {
            Some(Place::Memory(place)) => allocation.extents(place).iter().next(),
            _ => None,
        }
    }

    /// Gives an allocation its place beside the other members. Returns whether it has one; if not, some steps are to be taken
    /// back.
    pub(super) fn try_member(&mut self, trial: &mut Trial, index: AllocationIx) -> bool {
        if trial.members.contains_key(&index) {
            return true;
        }
        let is_there = match self.allocations[index].place {
            // Where a list counts it, and nowhere else.
            Some(place) if self.pools_of(index).all(|pool| pool != place.pool()) && self.is_counted(index) => false,
            Some(Place::Memory(_)) => self.keep_in_memory(trial, index),
            Some(_) => self.keep_in_system(trial, index),
            None => false,
        };
        is_there
            || self.pools_of(index).any(|pool| self.try_in(trial, index, pool))
            || self.pools_of(index).any(|pool| self.try_by_resettling(trial, index, pool))
    }

    /// The pools that a member may be in: what a device's list requires, in the one where that counts it.
    fn pools_of(&self, index: AllocationIx) -> impl Iterator<Item = Pool> + use<> {
        let allocation = &self.allocations[index];
        let pools = if self.is_counted(index) { [Some(allocation.pool()), None] } else { allocation.allowed_pools() };
        pools.into_iter().flatten()
    }

    /// Whether it is fixed in which pool an allocation is counted: those of device lists are, while a list names them.
    pub(super) fn is_counted(&self, index: AllocationIx) -> bool {
        !self.devices[self.allocations[index].device].has_reference_lists()
    }

    fn try_in(&mut self, trial: &mut Trial, index: AllocationIx, pool: Pool) -> bool {
        match pool {
            Pool::Memory => self.try_in_memory(trial, index),
            Pool::System => self.try_in_system(trial, index),
        }
    }

    /// What is in the memory segment stays there; unless it was tried as a victim, and its room is taken.
    fn keep_in_memory(&mut self, trial: &mut Trial, index: AllocationIx) -> bool {
        let range = self.memory_range(index).expect("it is in the memory segment");
        if let Some(position) = trial.victims.iter().position(|&victim| victim == index) {
            if self.placer.linear().take(range).is_none() {
                return false;
            }
            trial.done.push(Done::Taken(range));
            trial.victims.remove(position);
            trial.done.push(Done::Spared { position, index });
        }
        self.note_member(trial, index, None);
        true
    }

    fn keep_in_system(&mut self, trial: &mut Trial, index: AllocationIx) -> bool {
        let allocation = &self.allocations[index];
        let (size, shown_at) = (
            allocation.size,
            match allocation.place {
                Some(Place::Aperture(page)) => Some(page.bytes()),
                _ => None,
            },
        );
        // It was counted among what may be taken, perhaps for a member that was looked at before.
        let (_, kept) = self.bytes_in_system(index, None);
        if !self.fits_in_system(trial, 0, kept) {
            return false;
        }
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
        self.note_in_system(trial, index, None);
        self.note_member(trial, index, None);
        true
    }

    /// A range of the memory segment for the allocation: where there is one; where victims make one; or where other members
    /// make one by moving.
    fn try_in_memory(&mut self, trial: &mut Trial, index: AllocationIx) -> bool {
        let size = self.allocations[index].size;
        if size > self.placer.size() {
            return false;
        }
        let wish = self.patched.get(&index).map(|patched| patched.wish.clone()).unwrap_or_default();
        let range = loop {
            if let Some(range) = self.placer.linear().allocate(size, &wish) {
                break range;
            }
            let Some(victim) = self.next_candidate(trial) else { return self.try_by_moving(trial, index) };
            self.free_victim(trial, victim);
        };
        trial.done.push(Done::Taken(range));
        self.note_member(trial, index, Some(Target::Memory(range)));
        true
    }

    /// Who goes next in the memory segment, in the documented order (CRE-31a).
    fn next_candidate(&self, trial: &mut Trial) -> Option<AllocationIx> {
        trial.done.push(Done::Looked { before: trial.looked_at });
        loop {
            let next = self.evictable[Pool::Memory].after(&self.allocations, trial.looked_at)?;
            trial.looked_at = Some(next);
            if !trial.members.contains_key(&next) {
                return Some(next);
            }
        }
    }

    fn free_victim(&mut self, trial: &mut Trial, victim: AllocationIx) {
        let freed = self.memory_range(victim).expect("what is evictable there is there");
        self.free_for(trial, freed);
        trial.victims.push(victim);
        trial.done.push(Done::Victim);
    }

    fn free_for(&mut self, trial: &mut Trial, range: Extent) {
        self.placer.linear().release(range);
        trial.done.push(Done::Freed(range));
    }

    /// A range of the aperture for the allocation, and a part of the commit limit.
    fn try_in_system(&mut self, trial: &mut Trial, index: AllocationIx) -> bool {
        let size = self.allocations[index].size;
        if !self.fits_in_system(trial, size, 0) {
            return false;
        }
        if self.aperture.assign(index, size, None).is_some() {
            trial.done.push(Done::Assigned(index));
        } else if !self.assign_by_moving(trial, index) {
            return false;
        }
        self.note_in_system(trial, index, Some(Target::Aperture));
        self.note_member(trial, index, Some(Target::Aperture));
        true
    }

    /// Whether what members want of system memory fits, with so many bytes more, beside what must stay there, and so many more.
    fn fits_in_system(&self, trial: &Trial, wanted: u64, kept: u64) -> bool {
        let evictable = self.evictable[Pool::System].bytes() - trial.kept_in_system - kept;
        trial.wanted_in_system + wanted <= self.commit.available() + evictable
    }

    fn note_member(&mut self, trial: &mut Trial, index: AllocationIx, target: Option<Target>) {
        let before = trial.members.insert(index, target);
        trial.done.push(Done::Member { index, before });
    }

    /// A member is in system memory: it comes, or stays.
    fn note_in_system(&mut self, trial: &mut Trial, index: AllocationIx, target: Option<Target>) {
        let (wanted, kept) = self.bytes_in_system(index, target);
        trial.done.push(Done::System { wanted: trial.wanted_in_system, kept: trial.kept_in_system });
        trial.wanted_in_system += wanted;
        trial.kept_in_system += kept;
    }

    /// Bytes of system memory that a member takes, and those that it keeps from being taken.
    fn bytes_in_system(&self, index: AllocationIx, target: Option<Target>) -> (u64, u64) {
        let allocation = &self.allocations[index];
        let is_there = allocation.place.is_some_and(|place| place.pool() == Pool::System);
        match target {
            // It gives back what it takes.
            Some(_) if is_there && !allocation.state.contains(AllocationState::EVICTABLE) => (0, 0),
            Some(_) => (allocation.size, 0),
            None if allocation.state.contains(AllocationState::EVICTABLE) => (0, allocation.size),
            None => (0, 0),
        }
    }

    /// Ends a trial: nothing of the memory segment has changed yet, and ranges of the aperture are assigned. A victim whose range
    /// nobody needs after all is none.
    pub(super) fn conclude(&mut self, mut trial: Trial) -> Verdict {
        let mut victims = core::mem::take(&mut trial.victims);
        // A member whose range went to another moves.
        victims.retain(|index| !trial.members.contains_key(index));
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
                Done::Looked { before } => trial.looked_at = before,
                Done::Spared { position, index } => trial.victims.insert(position, index),
                Done::Assigned(index) => self.aperture.release(index),
                Done::Unassigned { index, range } => {
                    let again = self.aperture.assign(index, range.size, Some(range.offset));
                    debug_assert_eq!(again, Some(range), "it was its own");
                }
                Done::Member { index, before: None } => drop(trial.members.remove(&index)),
                Done::Member { index, before: Some(before) } => drop(trial.members.insert(index, before)),
                Done::System { wanted, kept } => {
                    (trial.wanted_in_system, trial.kept_in_system) = (wanted, kept);
                }
            }
        }
    }
}
