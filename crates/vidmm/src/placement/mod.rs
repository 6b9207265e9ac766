//! A transaction: what a portion or a device's list would require is given its places one after another, and taken back
//! if it does not fit.
//!
//! It works on the free ranges themselves, and writes down what it did: going back costs what was tried, and keeping it is free.

pub(crate) mod anew;
pub(crate) mod homes;
pub(crate) mod moving;
pub(crate) mod satisfy;

use alloc::{
    collections::{BTreeMap, BTreeSet, btree_map::Entry},
    vec::Vec,
};

use crate::{
    budget::account::{Account, Choices, Home},
    id::{AllocationIx, ProcessIx},
    memory::{Memory, linear_placer::LinearPlacer},
    objects::{Objects, allocation::AllocationState, place::Place},
    residency::{Residents, order, place},
    state::State,
    units::Extent,
};
/// The steps that were tried so far.
pub(super) struct Transaction {
    done: Vec<Done>,
    /// Residents of memory segments whose ranges were freed for it, in the order in which they would go.
    victims: Vec<AllocationIx>,
    /// The free ranges of memory segments of pages in which allocations are tried that are one range each.
    scratch: BTreeMap<Account, LinearPlacer>,
    /// Members whose ranges were freed from the start, because they go to other homes.
    leaving: BTreeSet<AllocationIx>,
    /// How far those were looked at that may go, in each memory segment where they were.
    looked_at: BTreeMap<Account, LookedAt>,
    /// The process that it makes room for.
    wanted_by: ProcessIx,
    /// The allocations that are required, and where each goes; none is where it is.
    pub members: BTreeMap<AllocationIx, Option<Target>>,
    /// Bytes that members take of system memory, and take already.
    wanted_in_system: u64,
    kept_in_system: u64,
    /// Bytes that are pinned in system memory, and leave it for other homes.
    leaving_system: u64,
}

/// How far the allocations of a memory segment were looked at that may go.
#[derive(Clone, Copy, Default)]
struct LookedAt {
    last: Option<AllocationIx>,
    /// All were looked at once: now those go too that processes keep.
    takes_kept: bool,
}

/// Where a member goes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Target {
    /// A range of a memory segment.
    Memory(Account, Extent),
    /// The range of the aperture that is assigned to it.
    Aperture,
    /// Any pages of its memory segment: its own make room for a range.
    Pages,
}

/// A step of a transaction.
enum Done {
    Taken(Account, Extent),
    Freed(Account, Extent),
    Victim,
    /// The next candidate was looked for, from this one on.
    Looked {
        account: Account,
        before: LookedAt,
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
    /// The bytes that were wanted in system memory before, and kept.
    System {
        wanted: u64,
        kept: u64,
    },
}

/// Where a transaction was once.
#[derive(Clone, Copy)]
pub(super) struct Mark(usize);

impl Mark {
    /// Before anything was tried.
    pub const START: Self = Self(0);
}

impl Transaction {
    /// Before anything was tried for a process; so many bytes of system memory are left for other homes.
    pub fn new(wanted_by: ProcessIx, leaving_system: u64) -> Self {
        Self {
            done: Vec::new(),
            victims: Vec::new(),
            scratch: BTreeMap::new(),
            leaving: BTreeSet::new(),
            looked_at: BTreeMap::new(),
            wanted_by,
            members: BTreeMap::new(),
            wanted_in_system: 0,
            kept_in_system: 0,
            leaving_system,
        }
    }

    /// The free ranges of a memory segment that are tried in.
    pub fn ranges<'a>(&'a mut self, memory: &'a mut Memory, account: Account) -> &'a mut LinearPlacer {
        match self.scratch.entry(account) {
            Entry::Occupied(scratch) => scratch.into_mut(),
            Entry::Vacant(vacant) => match memory.placers[account].scratch() {
                Some(scratch) => vacant.insert(scratch),
                None => memory.placers[account].linear(),
            },
        }
    }

    /// Where the transaction is.
    pub fn mark(&self) -> Mark {
        Mark(self.done.len())
    }
}

/// The outcome of a transaction.
#[derive(Default)]
pub(super) struct Placement {
    /// The allocations that must go, in that order.
    pub victims: Vec<AllocationIx>,
    /// The allocations that are required, and where each goes; none is where it is.
    pub members: BTreeMap<AllocationIx, Option<Target>>,
}

/// Gives an allocation its place beside the other members. Returns whether it has one; if not, some steps are to be taken
/// back.
pub(crate) fn try_member(state: &mut State, transaction: &mut Transaction, index: AllocationIx) -> bool {
    if transaction.members.contains_key(&index) {
        return true;
    }
    let is_there = match state.objects[index].place {
        // Where a list counts it, and nowhere else.
        Some(place)
            if !homes_of(&state.objects, index).contains(place::home(&state.memory, place))
                && place::is_counted(&state.objects, index) =>
        {
            false
        }
        Some(Place::Memory(..)) => keep_in_memory(&state.objects, &mut state.memory, transaction, index),
        Some(_) => keep_in_system(state, transaction, index),
        None => false,
    };
    is_there
        || homes_of(&state.objects, index).into_iter().any(|home| try_in(state, transaction, index, home))
        || homes_of(&state.objects, index)
            .into_iter()
            .any(|home| moving::try_by_resettling(state, transaction, index, home))
}

/// The homes that a member may be in: what a device's list requires, in the one where that counts it.
pub(crate) fn homes_of(objects: &Objects, index: AllocationIx) -> Choices {
    let allocation = &objects[index];
    match place::is_counted(objects, index) {
        true => Choices::only(allocation.home()),
        false => allocation.allowed_homes(),
    }
}

pub(crate) fn try_in(state: &mut State, transaction: &mut Transaction, index: AllocationIx, home: Home) -> bool {
    match home.account() {
        Account::SYSTEM => try_in_aperture(state, transaction, home, index),
        account => try_in_memory(state, transaction, account, index),
    }
}

/// A member that is in a memory segment stays there; unless it was tried as a victim, and its room is taken.
fn keep_in_memory(objects: &Objects, memory: &mut Memory, transaction: &mut Transaction, index: AllocationIx) -> bool {
    if let Some(position) = transaction.victims.iter().position(|&victim| victim == index) {
        if !take_back(objects, memory, transaction, index) {
            return false;
        }
        transaction.victims.remove(position);
        transaction.done.push(Done::Spared { position, index });
    }
    note_member(transaction, index, None);
    true
}

fn keep_in_system(state: &mut State, transaction: &mut Transaction, index: AllocationIx) -> bool {
    let allocation = &state.objects[index];
    let shown = match allocation.place {
        Some(Place::Aperture(page)) => Some(Extent { offset: page.bytes(), size: allocation.size }),
        _ => None,
    };
    // It was counted among what may be taken, perhaps for a member that was looked at before.
    let (_, kept) = bytes_in_system(&state.objects, index, None);
    if !fits_in_system(&state.memory, &state.residency, transaction, 0, kept) {
        return false;
    }
    if state.memory.aperture.assigned(index).is_none() {
        // If its range is another's now, it goes elsewhere.
        if shown.and_then(|shown| state.memory.aperture.assign_at(index, shown)).is_none() {
            return false;
        }
        transaction.done.push(Done::Assigned(index));
    }
    note_in_system(&state.objects, transaction, index, None);
    note_member(transaction, index, None);
    true
}

/// A range of a memory segment for the allocation: where there is one; where victims make one; or where other members make
/// one by moving.
fn try_in_memory(state: &mut State, transaction: &mut Transaction, account: Account, index: AllocationIx) -> bool {
    let size = state.objects[index].size;
    if size > state.memory.placers[account].size() {
        return false;
    }
    let known = state.objects[index].patched();
    let hint = known.map(|patched| patched.hint_in(account)).unwrap_or_default();
    let range = loop {
        if let Some(range) = transaction.ranges(&mut state.memory, account).allocate(size, &hint) {
            break range;
        }
        if let Some(victim) = next_candidate(state, transaction, account) {
            free_victim(&state.objects, &mut state.memory, transaction, victim);
        } else if !moving::displace_pages(&state.objects, &mut state.memory, transaction, account) {
            return moving::try_by_moving(&state.objects, &mut state.memory, transaction, account, index);
        }
    };
    transaction.done.push(Done::Taken(account, range));
    note_member(transaction, index, Some(Target::Memory(account, range)));
    true
}

/// The allocation that goes next in a memory segment, in the documented order (CRE-31a): first those that no process keeps, then
/// the others.
pub(crate) fn next_candidate(state: &State, transaction: &mut Transaction, account: Account) -> Option<AllocationIx> {
    let before = transaction.looked_at.get(&account).copied().unwrap_or_default();
    transaction.done.push(Done::Looked { account, before });
    let mut looked_at = before;
    let candidate = loop {
        let next = state.residency.evictable[account].after(&state.objects.allocations, looked_at.last);
        match next {
            None if looked_at.takes_kept => break None,
            None => looked_at = LookedAt { last: None, takes_kept: true },
            Some(next) => {
                looked_at.last = Some(next);
                if may_go(state, transaction, account, next, looked_at.takes_kept) {
                    break Some(next);
                }
            }
        }
    };
    transaction.looked_at.insert(account, looked_at);
    candidate
}

/// Whether an allocation that is evictable may go for the transaction.
fn may_go(state: &State, transaction: &Transaction, account: Account, index: AllocationIx, takes_kept: bool) -> bool {
    if transaction.members.contains_key(&index) || transaction.leaving.contains(&index) {
        return false;
    }
    if takes_kept {
        return !transaction.victims.contains(&index);
    }
    let objects = &state.objects;
    let is_of_process = |&&victim: &&AllocationIx| {
        let is_there = objects[victim].place.is_some_and(|place| place.account() == account);
        is_there && objects[victim].process == objects[index].process
    };
    let leaving = || transaction.victims.iter().filter(is_of_process).map(|&victim| objects[victim].size).sum();
    !order::is_kept(objects, &state.shares.by_account[account], index, Some(transaction.wanted_by), leaving)
}

pub(crate) fn free_victim(objects: &Objects, memory: &mut Memory, transaction: &mut Transaction, victim: AllocationIx) {
    free_all_of(objects, memory, transaction, victim);
    transaction.victims.push(victim);
    transaction.done.push(Done::Victim);
}

/// All that an allocation has of its memory segment is free.
pub(crate) fn free_all_of(objects: &Objects, memory: &mut Memory, transaction: &mut Transaction, index: AllocationIx) {
    let (account, extents) = place::memory_extents(objects, index).expect("it is in a memory segment");
    extents.iter().for_each(|range| free_for(memory, transaction, account, range));
}

pub(crate) fn free_for(memory: &mut Memory, transaction: &mut Transaction, account: Account, range: Extent) {
    transaction.ranges(memory, account).release(range);
    transaction.done.push(Done::Freed(account, range));
}

/// An allocation has all again that it has of its memory segment. Returns whether that could be; if not, nothing has changed.
fn take_back(objects: &Objects, memory: &mut Memory, transaction: &mut Transaction, index: AllocationIx) -> bool {
    let (account, extents) = place::memory_extents(objects, index).expect("it is in a memory segment");
    let mark = transaction.mark();
    for range in extents.iter() {
        if transaction.ranges(memory, account).take(range).is_none() {
            undo(memory, transaction, mark);
            return false;
        }
        transaction.done.push(Done::Taken(account, range));
    }
    true
}

/// A range of an aperture for the allocation, and a part of the commit limit.
fn try_in_aperture(state: &mut State, transaction: &mut Transaction, home: Home, index: AllocationIx) -> bool {
    let size = state.objects[index].size;
    if !fits_in_system(&state.memory, &state.residency, transaction, size, 0) {
        return false;
    }
    if state.memory.aperture.assign(index, size, home).is_some() {
        transaction.done.push(Done::Assigned(index));
    } else if !moving::assign_by_moving(&state.objects, &mut state.memory, transaction, home, index) {
        return false;
    }
    note_in_system(&state.objects, transaction, index, Some(Target::Aperture));
    note_member(transaction, index, Some(Target::Aperture));
    true
}

/// Whether what members want of system memory fits, with so many bytes more, beside what must stay there, and so many more.
pub(crate) fn fits_in_system(
    memory: &Memory,
    residency: &Residents,
    transaction: &Transaction,
    wanted: u64,
    kept: u64,
) -> bool {
    let evictable = residency.evictable[Account::SYSTEM].bytes() - transaction.kept_in_system - kept;
    transaction.wanted_in_system + wanted <= memory.commit.available() + evictable + transaction.leaving_system
}

pub(crate) fn note_member(transaction: &mut Transaction, index: AllocationIx, target: Option<Target>) {
    let before = transaction.members.insert(index, target);
    transaction.done.push(Done::Member { index, before });
}

/// A member is in system memory: it comes, or stays.
pub(crate) fn note_in_system(
    objects: &Objects,
    transaction: &mut Transaction,
    index: AllocationIx,
    target: Option<Target>,
) {
    let (wanted, kept) = bytes_in_system(objects, index, target);
    transaction.done.push(Done::System { wanted: transaction.wanted_in_system, kept: transaction.kept_in_system });
    transaction.wanted_in_system += wanted;
    transaction.kept_in_system += kept;
}

/// Bytes of system memory that a member takes, and those that it keeps from being taken.
pub(crate) fn bytes_in_system(objects: &Objects, index: AllocationIx, target: Option<Target>) -> (u64, u64) {
    let allocation = &objects[index];
    let is_there = allocation.place.is_some_and(|place| place.account() == Account::SYSTEM);
    match target {
        // It gives back what it takes.
        Some(_) if is_there && !allocation.is(AllocationState::EVICTABLE) => (0, 0),
        Some(_) => (allocation.size, 0),
        None if allocation.is(AllocationState::EVICTABLE) => (0, allocation.size),
        None => (0, 0),
    }
}

/// Ends a transaction: nothing of a memory segment has changed yet, and ranges of the aperture are assigned. A victim whose range
/// nobody needs after all is none.
pub(crate) fn conclude(objects: &Objects, memory: &mut Memory, mut transaction: Transaction) -> Placement {
    let mut victims = core::mem::take(&mut transaction.victims);
    // A member whose range went to another moves.
    victims.retain(|index| !transaction.members.contains_key(index));
    victims.retain(|&index| !take_back(objects, memory, &mut transaction, index));
    let mut members = core::mem::take(&mut transaction.members);
    for (&index, target) in members.iter_mut().filter(|(_, target)| **target == Some(Target::Pages)) {
        if take_back(objects, memory, &mut transaction, index) {
            *target = None;
        }
    }
    for done in core::mem::take(&mut transaction.done).into_iter().rev() {
        match done {
            Done::Taken(account, range) => transaction.ranges(memory, account).release(range),
            Done::Freed(account, range) => transaction.ranges(memory, account).take(range).expect("it was free then"),
            _ => {}
        }
    }
    Placement { victims, members }
}

/// Takes back all that was done since `mark`.
pub(crate) fn undo(memory: &mut Memory, transaction: &mut Transaction, mark: Mark) {
    while transaction.done.len() > mark.0 {
        match transaction.done.pop().expect("there is more than at the mark") {
            Done::Taken(account, range) => transaction.ranges(memory, account).release(range),
            Done::Freed(account, range) => transaction.ranges(memory, account).take(range).expect("it was free then"),
            Done::Victim => drop(transaction.victims.pop()),
            Done::Looked { account, before } => drop(transaction.looked_at.insert(account, before)),
            Done::Spared { position, index } => transaction.victims.insert(position, index),
            Done::Assigned(index) => memory.aperture.release(index),
            Done::Unassigned { index, range } => {
                memory.aperture.assign_at(index, range).expect("it was its own");
            }
            Done::Member { index, before: None } => drop(transaction.members.remove(&index)),
            Done::Member { index, before: Some(before) } => drop(transaction.members.insert(index, before)),
            Done::System { wanted, kept } => {
                (transaction.wanted_in_system, transaction.kept_in_system) = (wanted, kept);
            }
        }
    }
}
