//! Admission: whether allocations may join their device's list, and the account of each (RES-11).
//!
//! A list that fits beside those of all others may always be. If it does not, memory is short, and its process may have
//! its budget; a process with more is then asked to trim, and yields (RES-53, RES-75). With CantTrimFurther it may have
//! all memory that others have not reserved (RES-15, U-24). In any case the device's list must fit alone: then its turn
//! comes (D3).
//!
//! An allocation that may have several homes is counted in the first of its choices that has room (SEG-47): the
//! choice is fixed while anything outstanding requires it, so that each account's promises can be summed
//! up on their own. A later join makes the choice anew: so a demoted allocation comes back. Where first choices find no room
//! for all, a search looks for homes of all joining allocations, and of the movable allocations of the list (D30).

use alloc::vec::Vec;
use core::cmp::Reverse;

use super::candidates::{self, Candidate, Joining, Joins};
use crate::{
    budget::account::{Account, Choices, Home, PerAccount},
    event::list_flags::MakeResidentFlags,
    id::{AllocationIx, DeviceIx},
    objects::allocation::Rehoming,
    residency::{
        assignment::{self, Assignment, Class, Room},
        packing,
    },
    schedule::{Schedule, turns},
    state::State,
    work::Work,
};

/// The additions of one MakeResident to its device's list.
pub(crate) struct Admission {
    device: DeviceIx,
    /// Bytes of joining and moved allocations, by the new account; and of moved allocations, by the former.
    added: PerAccount<u64>,
    removed: PerAccount<u64>,
    /// The joining bytes without a pin of the device.
    pub not_pinned: PerAccount<u64>,
    /// The allocations that are counted in another home than before, and the former home.
    moved: Vec<(AllocationIx, Home)>,
    /// The allocations of the list that move their homes for it.
    pub rehomed: Vec<AllocationIx>,
    /// The allocations with another home than the preferred home.
    elsewhere: Vec<AllocationIx>,
}

/// The terms for a list to grow.
#[derive(Clone, Copy)]
pub(crate) enum Terms {
    /// The list fits beside all lists of further devices.
    Beside,
    /// As above, or the process stays within the entitlement of a call with these flags.
    Entitled(MakeResidentFlags),
    /// No further device has anything.
    Alone,
}

impl Terms {
    /// The bytes left for a device's list after a trim of the process, as far as possible from the device's list; below 0 the list has too
    /// much.
    pub(crate) fn left_after_trimming(self, state: &State, device: DeviceIx, account: Account, trimmed: u64) -> i128 {
        let list = &state.objects[device].list[account];
        let capacity = i128::from(state.memory.list_capacity(account));
        let alone = capacity - i128::from(list.now()) + i128::from(trimmed.min(list.now()));
        let (shares, process) = (&state.shares.by_account[account], state.objects[device].process);
        let beside = capacity - i128::from(shares.requested_total()) + i128::from(trimmed);
        let within =
            |entitlement: u64| i128::from(entitlement) - i128::from(shares.requested(process)) + i128::from(trimmed);
        match self {
            Terms::Beside => beside.min(alone),
            Terms::Entitled(flags) if flags.contains(MakeResidentFlags::CANT_TRIM_FURTHER) => {
                beside.max(within(shares.maximum_budget(process))).min(alone)
            }
            Terms::Entitled(_) => beside.max(within(shares.budget(process))).min(alone),
            Terms::Alone => alone,
        }
    }

    fn left(self, state: &State, device: DeviceIx, account: Account) -> i128 {
        self.left_after_trimming(state, device, account, 0)
    }

    /// The room beside a device's present list.
    pub(crate) fn room(self, state: &State, joining: &Joining<'_>) -> Room {
        let bytes = state.memory.accounts().per(|account| self.left(state, joining.device, account));
        Room { bytes, ranges: joining.ranges.clone() }
    }
}

/// The room on a device's list without the candidates. In an account beyond the limit, the list keeps the room of the present bytes.
pub(crate) fn room_without(
    state: &State,
    joining: &Joining<'_>,
    candidates: &[(Candidate, u64)],
    terms: Terms,
) -> Room {
    let mut room = terms.room(state, joining);
    state.memory.accounts().iter().for_each(|account| room.bytes[account] = room.bytes[account].max(0));
    for (candidate, number) in candidates.iter().filter(|(candidate, _)| !candidate.joins) {
        let present = candidate.choices.first().expect("a listed allocation has a home");
        room.bytes[present.account()] += i128::from(candidate.weight.size) * i128::from(*number);
    }
    if let Some(ranges) = &mut room.ranges {
        let listed = candidates::candidates(state, joining).filter(|(_, candidate)| !candidate.joins);
        let listed = listed.map(|(index, _)| index);
        *ranges = packing::packing_room_without(&state.objects, &state.memory, joining.device, listed);
    }
    room
}

/// The home of a joining allocation: the first choice with room. The room shrinks.
#[inline(always)]
fn take_home(room: &mut Room, &Joins { weight, choices, .. }: &Joins) -> Option<Home> {
    let home = choices.into_iter().find(|&home| room.has(weight, home))?;
    room.take(weight, home, 1);
    Some(home)
}

/// Whether all joining allocations fit on these terms without a change of the list.
pub(crate) fn fits(state: &State, joining: &Joining<'_>, terms: Terms) -> bool {
    let mut room = terms.room(state, joining);
    joining.allocations.iter().all(|of| take_home(&mut room, of).is_some())
}

/// Counts joining allocations, if all fit on these terms without a change of the list.
pub(crate) fn admit(state: &mut State, joining: &Joining<'_>, terms: Terms) -> Option<Admission> {
    let mut room = terms.room(state, joining);
    let mut admission = Admission::to_list_of(state, joining.device);
    for of in &joining.allocations {
        let Some(home) = take_home(&mut room, of) else {
            admission.undo(state);
            return None;
        };
        admission.count_in(state, of.index, home);
    }
    Some(admission)
}

/// The possible homes of a candidate on these terms. Nothing joins in an account beyond the limit, though others leave it with the call.
fn choices_within(state: &State, joining: &Joining<'_>, terms: Terms) -> impl Fn(&Candidate) -> Choices + use<> {
    let is_within = state.memory.accounts().per(|account| terms.left(state, joining.device, account) >= 0);
    move |candidate| {
        let homes = candidate.choices.into_iter().filter(|home| !candidate.joins || is_within[home.account()]);
        homes.collect()
    }
}

/// Searches homes with room for all candidates.
pub(crate) fn search(
    state: &State,
    joining: &Joining<'_>,
    candidates: &[(Candidate, u64)],
    terms: Terms,
) -> Assignment {
    let choices = choices_within(state, joining, terms);
    if candidates.iter().any(|(candidate, _)| choices(candidate).first().is_none()) {
        return Assignment::Impossible;
    }
    let room = room_without(state, joining, candidates, terms);
    assignment::assign(candidates::classes(candidates, choices), room)
}

/// Counts joining allocations, if a search finds homes with room for all candidates.
pub(crate) fn assign(
    state: &mut State,
    joining: &Joining<'_>,
    candidates: &[(Candidate, u64)],
    terms: Terms,
) -> Result<Admission, Assignment> {
    let assigned = match search(state, joining, candidates, terms) {
        Assignment::Found(assigned) => assigned,
        none => return Err(none),
    };
    let choices = choices_within(state, joining, terms);
    let mut members = Vec::from_iter(candidates::candidates(state, joining));
    // In a class, listed allocations keep the first home before joining allocations, and a high priority before a low.
    members.sort_unstable_by_key(|&(index, candidate)| {
        let class = Class::order(candidate.weight, choices(&candidate));
        (class, candidate.joins, Reverse(state.objects[index].priority), Reverse(index))
    });
    let mut admission = Admission::to_list_of(state, joining.device);
    let mut members = members.into_iter();
    for (class, numbers) in assigned {
        let homes = class.homes.into_iter().zip(numbers);
        let homes = homes.flat_map(|(home, number)| core::iter::repeat_n(home, number as usize));
        for (home, (index, candidate)) in homes.zip(members.by_ref()) {
            match candidate.joins {
                true => admission.count_in(state, index, home),
                false => admission.rehome(state, index, home),
            }
        }
    }
    Ok(admission)
}

impl Admission {
    /// Nothing is added yet.
    fn to_list_of(state: &State, device: DeviceIx) -> Self {
        let accounts = state.memory.accounts();
        Self {
            device,
            added: accounts.none(),
            removed: accounts.none(),
            not_pinned: accounts.none(),
            moved: Vec::new(),
            rehomed: Vec::new(),
            elsewhere: Vec::new(),
        }
    }

    /// Counts a joining allocation in a home.
    #[inline(always)]
    fn count_in(&mut self, state: &mut State, index: AllocationIx, home: Home) {
        let allocation = &mut state.objects[index];
        let counted = allocation.home_on_list();
        self.added[home.account()] += allocation.size;
        if !allocation.is_pinned_by(self.device) {
            self.not_pinned[home.account()] += allocation.size;
        }
        // Outstanding work may leave no other choice now; the allocation comes home later.
        if allocation.allowed_homes().first() != Some(home) {
            self.elsewhere.push(index);
        }
        if counted != home {
            allocation.set_home(home);
            self.moved.push((index, counted));
        }
    }

    /// A listed allocation moves to a home with the request of this call, or stays.
    fn rehome(&mut self, state: &mut State, index: AllocationIx, to: Home) {
        if state.objects[index].home_on_list() == to {
            return;
        }
        let allocation = &state.objects[index];
        self.removed[allocation.account()] += allocation.size;
        self.added[to.account()] += allocation.size;
        let (device, request) = (self.device, state.objects[self.device].last_request + 1);
        state.objects.begin_rehoming(index, Rehoming { to, device, request });
        self.rehomed.push(index);
        self.elsewhere.push(index);
    }

    /// Gives the former homes back.
    fn undo(self, state: &mut State) {
        for (index, counted) in self.moved {
            state.objects[index].set_home(counted);
        }
    }

    /// Lets the counted allocations join the list.
    pub(crate) fn accept(&self, state: &mut State, schedule: &mut Schedule, work: &Work) {
        for &index in self.elsewhere.iter().filter(|_| !state.adapter.is_physical()) {
            schedule.turns.note_away(self.device, index, state.moment.now());
        }
        turns::change_list(state, work, self.device, &self.added, &self.removed);
        let counted = self.moved.iter().map(|&(index, _)| index).chain(self.rehomed.iter().copied());
        counted.for_each(|index| state.record_counted(index, false));
    }
}
