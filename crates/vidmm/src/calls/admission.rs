//! Admission: whether an allocation may join its device's list, and in which account it is counted (RES-11).
//!
//! A list that fits beside those of all others may always be. If it does not, memory is short, and its process may have
//! its budget; a process with more is then asked to trim, and yields (RES-53, RES-75). With CantTrimFurther it may have
//! all memory that others have not reserved (RES-15, U-24). In any case the device's list must fit alone: then its turn
//! comes (D3).
//!
//! An allocation that may have several homes is counted in the first of its choices that has room (SEG-47): the
//! choice is fixed while anything outstanding requires it, so that each account's promises can be summed
//! up on their own. When it joins the list again, the choice is made anew: so a demoted allocation comes back. If one that joins finds
//! no room, others of the list move their homes for it (D19).

use alloc::vec::Vec;

use crate::{
    adapter::Adapter,
    budget::account::{Account, Choices, Home, PerAccount, PerHome},
    event::{
        error::{NoMemoryReason, Shortage},
        list_flags::MakeResidentFlags,
    },
    id::{AllocationIx, DeviceIx},
    placement::homes,
    residency::{
        rehoming::Rehoming,
        weight::{self, Footprint, PackingRoom},
    },
    schedule::{Schedule, turns},
    state::State,
    work::Work,
};
/// The additions of one MakeResident to its device's list.
#[derive(Clone)]
pub(crate) struct Admission {
    device: DeviceIx,
    /// Whether others of the list may move their homes for it.
    rehomes: bool,
    /// The reason for a refusal of what would fit alone.
    over_budget: NoMemoryReason,
    /// Bytes that are left for the device's list; below 0 is the amount to be trimmed first.
    left: PerAccount<i128>,
    /// The room for joiners in which each allocation that is one range still has its place when no other list is there;
    /// none where all that join are pages.
    packing: Option<PerHome<PackingRoom>>,
    /// Bytes that join it, and that move their home from an account.
    added: PerAccount<u64>,
    removed: PerAccount<u64>,
    /// Of those, bytes that it does not pin in place.
    pub not_pinned: PerAccount<u64>,
    /// The allocations that are counted in another home than before, and the former home.
    moved: Vec<(AllocationIx, Home)>,
    /// The allocations of the list that move their homes for it.
    pub rehomed: Vec<AllocationIx>,
    /// The reason why an allocation did not fit.
    pub refused: Option<NoMemoryReason>,
    /// The bytes that are missing, and the reason.
    pub shortages: Shortages,
}

/// The bytes that accounts miss of what a list was to have, and the reasons. Nothing is missing by default.
#[derive(Clone, Default)]
pub(crate) struct Shortages(Vec<(Account, u64, NoMemoryReason)>);

impl Shortages {
    /// An account misses so much more, for a reason; the first one stands. Nothing is missing below 0.
    pub(crate) fn add(&mut self, account: Account, missing: i128, reason: NoMemoryReason) {
        let bytes = u64::try_from(missing.max(0)).unwrap_or(u64::MAX);
        match self.0.iter_mut().find(|(of, ..)| *of == account) {
            Some((_, before, _)) => *before = before.saturating_add(bytes),
            None if bytes > 0 => self.0.push((account, bytes, reason)),
            None => {}
        }
    }

    /// The bytes that all accounts miss.
    pub(crate) fn num_bytes_to_trim(&self) -> u64 {
        self.0.iter().map(|&(_, bytes, _)| bytes).fold(0, u64::saturating_add)
    }

    /// The shortages, as callers are told of them: those of memory segments first.
    pub(crate) fn told(&self, adapter: &Adapter) -> Vec<Shortage> {
        let mut shortages = self.0.clone();
        shortages.sort_by_key(|&(account, ..)| (!account.is_memory(), account));
        let told = |(account, num_bytes_to_trim, reason)| Shortage {
            account: adapter.memory_account(account),
            num_bytes_to_trim,
            reason,
        };
        shortages.into_iter().map(told).collect()
    }
}

/// Begins an admission to a device's list of what fits beside all other lists, or, with the flags of a call, is within the entitlement of
/// its process. Others of the list move their homes for it only if it `rehomes`.
pub(crate) fn begin_admission(
    state: &State,
    device: DeviceIx,
    joining: &[AllocationIx],
    entitled: Option<MakeResidentFlags>,
    rehomes: bool,
) -> Admission {
    let process = state.objects[device].process;
    let accounts = state.memory.accounts();
    let cannot_trim = entitled.is_some_and(|flags| flags.contains(MakeResidentFlags::CANT_TRIM_FURTHER));
    let left = |account: Account| {
        let account_shares = &state.shares.by_account[account];
        let beside_all = i128::from(state.memory.list_capacity(account)) - i128::from(account_shares.requested_total());
        let within = |entitlement: u64| i128::from(entitlement) - i128::from(account_shares.requested(process));
        let left = match entitled {
            None => beside_all,
            Some(_) if cannot_trim => beside_all.max(within(account_shares.maximum_budget(process))),
            Some(_) => beside_all.max(within(account_shares.budget(process))),
        };
        left.min(left_alone(state, device, account))
    };
    Admission {
        device,
        rehomes,
        over_budget: if cannot_trim { NoMemoryReason::OverMaximumBudget } else { NoMemoryReason::OverBudget },
        left: accounts.per(left),
        packing: weight::packing_room_for(
            &state.objects,
            &state.memory,
            &state.residency,
            device,
            joining.iter().copied(),
        ),
        added: accounts.none(),
        removed: accounts.none(),
        not_pinned: accounts.none(),
        moved: Vec::new(),
        rehomed: Vec::new(),
        refused: None,
        shortages: Shortages::default(),
    }
}

/// Bytes that are left for a device's list as it stands when no other list is there.
fn left_alone(state: &State, device: DeviceIx, account: Account) -> i128 {
    i128::from(state.memory.list_capacity(account)) - i128::from(state.objects[device].list[account].now())
}

impl Admission {
    /// Whether an allocation fits in a home.
    #[inline(always)]
    fn has_room(&self, state: &State, index: AllocationIx, home: Home) -> bool {
        let size = i128::from(state.objects[index].size);
        size <= self.left[home.account()] && self.misplaced(state, index, home) <= 0
    }

    /// The bytes that a home misses for the range of an allocation; 0 or less if it fits.
    #[inline(always)]
    fn misplaced(&self, state: &State, index: AllocationIx, home: Home) -> i128 {
        let missing =
            |packing: &PerHome<PackingRoom>| packing[home].missing_for(weight::footprint(&state.objects, index, home));
        self.packing.as_ref().map_or(0, missing)
    }

    /// Changes the room that ranges have in a home by that of an allocation.
    #[inline(always)]
    fn pack(
        &mut self,
        state: &State,
        index: AllocationIx,
        home: Home,
        change: impl FnOnce(PackingRoom, Footprint) -> PackingRoom,
    ) {
        if let Some(packing) = &mut self.packing {
            packing[home] = change(packing[home], weight::footprint(&state.objects, index, home));
        }
    }

    /// Counts an allocation in a home.
    #[inline(always)]
    fn count_in(&mut self, state: &State, index: AllocationIx, home: Home) {
        let (account, size) = (home.account(), state.objects[index].size);
        self.pack(state, index, home, PackingRoom::with);
        self.left[account] -= i128::from(size);
        self.added[account] += size;
    }

    /// Counts an allocation in a home no more.
    fn count_out(&mut self, state: &State, index: AllocationIx, home: Home) {
        let (account, size) = (home.account(), state.objects[index].size);
        self.pack(state, index, home, PackingRoom::without);
        self.left[account] += i128::from(size);
        self.removed[account] += size;
    }

    /// Bytes that are left for the device's list with all that was counted, when no other list is there.
    fn left_alone(&self, state: &State, account: Account) -> i128 {
        left_alone(state, self.device, account) - i128::from(self.added[account]) + i128::from(self.removed[account])
    }
}

/// Finds room for an allocation that joins the list in one of the homes that it may have, or adds to the amount to be trimmed.
pub(crate) fn admit(
    state: &mut State,
    schedule: &mut Schedule,
    admission: &mut Admission,
    index: AllocationIx,
    choices: Choices,
) {
    let allocation = &state.objects[index];
    let size = allocation.size;
    let counted = state.residency.home_on_list(&state.objects, index);
    let is_pinned = allocation.is_pinned_by(admission.device);
    let fitting = choices.into_iter().find(|&home| admission.has_room(state, index, home));
    if let Some(home) = fitting.or_else(|| rehome(state, admission, index, choices)) {
        admission.count_in(state, index, home);
        if !is_pinned {
            admission.not_pinned[home.account()] += size;
        }
        if choices.first() != Some(home) && !state.adapter.is_physical() {
            schedule.turns.note_away(admission.device, index, state.moment.now());
        }
        if counted != home {
            state.objects[index].set_home(home);
            admission.moved.push((index, counted));
        }
        return;
    }
    // Once the caller has trimmed what an account misses, one of its homes has enough room, wherever the trimmed bytes were.
    let mut reason = NoMemoryReason::DoesNotFit;
    for home in choices {
        let account = home.account();
        let missing = i128::from(size) - core::mem::take(&mut admission.left[account]);
        let misplaced = admission.misplaced(state, index, home);
        admission.pack(state, index, home, PackingRoom::with_after_trimming);
        let alone = admission.left_alone(state, account);
        let here = match i128::from(size) <= alone {
            _ if missing <= 0 && misplaced > 0 => NoMemoryReason::Fragmented,
            true => admission.over_budget,
            false => NoMemoryReason::DoesNotFit,
        };
        if reason == NoMemoryReason::DoesNotFit || here == NoMemoryReason::Fragmented {
            reason = here;
        }
        // An allocation that leaves weighs no less than its size, and no more can leave than the list has.
        let listed = i128::from(state.memory.list_capacity(account)) - alone;
        let misplaced = misplaced.min(listed.max(i128::from(size)));
        admission.shortages.add(account, missing.max(misplaced), here);
    }
    admission.refused.get_or_insert(reason);
}

/// Undoes an admission: `indices` are counted no more.
pub(crate) fn undo_admission(state: &mut State, admission: &Admission, indices: &[AllocationIx]) {
    for &index in indices {
        state.objects[index].entry_mut(admission.device).count -= 1;
    }
    for &(index, counted) in &admission.moved {
        state.objects[index].set_home(counted);
    }
    for index in &admission.rehomed {
        state.residency.rehomings.remove(index);
    }
}

/// Lets the admitted allocations join the list.
pub(crate) fn accept_admission(state: &mut State, schedule: &mut Schedule, work: &Work, admission: &Admission) {
    for &index in admission.rehomed.iter().filter(|_| !state.adapter.is_physical()) {
        schedule.turns.note_away(admission.device, index, state.moment.now());
    }
    turns::change_list(state, work, admission.device, &admission.added, &admission.removed);
    let counted = admission.moved.iter().map(|&(index, _)| index).chain(admission.rehomed.iter().copied());
    counted.for_each(|index| state.record_counted(index, false));
}

/// Makes room for an allocation by moving the homes of others on the list, those of the lowest priority first, then the largest, each at
/// most once. Returns the home that has room then; if there is none, nothing has changed.
fn rehome(state: &mut State, admission: &mut Admission, joining: AllocationIx, choices: Choices) -> Option<Home> {
    admission.rehomes.then_some(())?;
    let candidates = homes::rehomable(state, admission.device);
    choices.into_iter().find(|&home| {
        let before = admission.clone();
        for &(index, choices) in &candidates {
            if state.objects[index].home() != home || state.residency.rehomings.contains_key(&index) {
                continue;
            }
            let others = choices.into_iter().filter(|&other| other != home);
            let Some(to) = { others }.find(|&other| admission.has_room(state, index, other)) else { continue };
            admission.count_out(state, index, home);
            admission.count_in(state, index, to);
            let (device, request) = (admission.device, state.objects[admission.device].last_request + 1);
            state.residency.rehomings.insert(index, Rehoming { to, device, request });
            admission.rehomed.push(index);
            if admission.has_room(state, joining, home) {
                return true;
            }
        }
        for index in admission.rehomed.split_off(before.rehomed.len()) {
            state.residency.rehomings.remove(&index);
        }
        *admission = before;
        false
    })
}
