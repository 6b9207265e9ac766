//! Admission: where an allocation that joins its device's list will be resident, and whether that may be (RES-11).
//!
//! A list that fits beside those of all others may always be. If it does not, memory is short, and its process may have its
//! budget; who has more is then asked to trim, and yields (RES-53, RES-75). With CantTrimFurther it may have all that others
//! have not reserved (RES-15, U-24). In any case the device's list must fit alone: then its turn comes (D3).
//!
//! An allocation that may be resident in several accounts is counted in the first of its choices that has room (SEG-47): the
//! choice is fixed while anything outstanding requires it, so that each account's promises can be summed
//! up on their own. When it joins the list again, the choice is made anew: so what was demoted comes back.

use alloc::vec::Vec;

use crate::{
    budget::account::{Account, PerAccount},
    event::{error::NoMemoryReason, list_flags::MakeResidentFlags},
    id::{AllocationIx, DeviceIx},
    planted::PlantedBug,
    residency::weight::{self, PackingRoom},
    schedule::{Schedule, turns},
    state::State,
    work::Work,
};
/// What one MakeResident adds to its device's list.
pub(crate) struct Admission {
    device: DeviceIx,
    /// Bytes that are left for the device's list, and would be with nobody else there; below 0 is what must be trimmed first.
    left: PerAccount<i128>,
    alone: PerAccount<i128>,
    /// What may join it so that each allocation that is one range has its place when nobody else is there.
    packing: PerAccount<PackingRoom>,
    /// Bytes that join it.
    added: PerAccount<u64>,
    /// Of those, bytes that it does not hold in place.
    pub not_held: PerAccount<u64>,
    /// The allocations that are counted elsewhere than before, and where that was.
    moved: Vec<(AllocationIx, Account)>,
    /// Why something did not fit.
    pub refused: Option<NoMemoryReason>,
    /// What is missing.
    pub num_bytes_to_trim: u64,
}

/// What may join a device's list: beside all others, or as its process is entitled to.
pub(crate) fn begin_admission(
    state: &State,
    device: DeviceIx,
    joining: &[AllocationIx],
    entitled: Option<MakeResidentFlags>,
) -> Admission {
    let process = state.objects[device].process;
    let accounts = state.memory.accounts();
    let alone = |account: Account| {
        let books = &state.objects[device];
        i128::from(state.memory.list_capacity(account)) - i128::from(books.list[account].now())
    };
    let left = |account: Account| {
        let account_shares = &state.shares.by_account[account];
        let beside_all = i128::from(state.memory.list_capacity(account)) - i128::from(account_shares.demand_total());
        let entitlement = match entitled {
            None => 0,
            Some(flags) if flags.contains(MakeResidentFlags::CANT_TRIM_FURTHER) => {
                account_shares.maximum_budget(process)
            }
            Some(_) if state.adapter.has_bug(PlantedBug::HalveBudget) => account_shares.budget(process) / 2,
            Some(_) => account_shares.budget(process),
        };
        beside_all.max(i128::from(entitlement) - i128::from(account_shares.get(process).demand)).min(alone(account))
    };
    Admission {
        device,
        left: accounts.per(left),
        alone: accounts.per(alone),
        packing: weight::packing_room_for(
            &state.adapter,
            &state.objects,
            &state.memory,
            device,
            joining.iter().copied(),
        ),
        added: accounts.none(),
        not_held: accounts.none(),
        moved: Vec::new(),
        refused: None,
        num_bytes_to_trim: 0,
    }
}

/// Finds room for an allocation that joins the list, or adds to what must be trimmed.
pub(crate) fn admit(state: &mut State, schedule: &mut Schedule, admission: &mut Admission, index: AllocationIx) {
    let allocation = &state.objects[index];
    let (size, counted, accounts) = (allocation.size, allocation.account(), allocation.accounts(admission.device));
    let is_held = allocation.is_held_by(admission.device);
    for account in accounts {
        let footprint = weight::footprint(&state.adapter, &state.objects, index, account);
        let fits =
            i128::from(size) <= admission.left[account] && admission.packing[account].missing_for(footprint) <= 0;
        if !fits {
            continue;
        }
        admission.packing[account] = admission.packing[account].with(footprint);
        admission.left[account] -= i128::from(size);
        admission.alone[account] -= i128::from(size);
        admission.added[account] += size;
        if !is_held {
            admission.not_held[account] += size;
        }
        if accounts.first() != Some(account) && !state.adapter.is_physical() {
            schedule.turns.demoted.insert(admission.device);
        }
        if counted != account {
            state.objects[index].set_account(account);
            admission.moved.push((index, counted));
        }
        return;
    }
    let fits_alone = accounts.into_iter().any(|account| i128::from(size) <= admission.alone[account]);
    let mut reason = if fits_alone { NoMemoryReason::OverBudget } else { NoMemoryReason::DoesNotFit };
    // Whatever the caller trims, one of the accounts then has enough.
    for account in accounts {
        let missing = i128::from(size) - core::mem::take(&mut admission.left[account]);
        let footprint = weight::footprint(&state.adapter, &state.objects, index, account);
        let misplaced = core::mem::take(&mut admission.packing[account]).missing_for(footprint);
        if missing <= 0 && misplaced > 0 {
            reason = NoMemoryReason::Fragmented;
        }
        // An allocation that leaves weighs no less than its size.
        let mut missing = u64::try_from(missing.max(misplaced).max(0)).unwrap_or(u64::MAX);
        if state.adapter.has_bug(PlantedBug::TrimTooLittle) {
            missing /= 2;
        }
        if state.adapter.has_bug(PlantedBug::TrimTooMuch) {
            missing += size;
        }
        admission.num_bytes_to_trim = admission.num_bytes_to_trim.saturating_add(missing);
    }
    admission.refused.get_or_insert(reason);
}

/// Nothing joins the list: `indices` are counted no more.
pub(crate) fn undo_admission(state: &mut State, admission: &Admission, indices: &[AllocationIx]) {
    let is_undone = !state.adapter.has_bug(PlantedBug::SkipUndo);
    for &index in indices.iter().filter(|_| is_undone) {
        state.objects[index].entry_mut(admission.device).count -= 1;
    }
    for &(index, counted) in &admission.moved {
        state.objects[index].set_account(counted);
    }
}

/// What was admitted joins the list.
pub(crate) fn accept_admission(state: &mut State, work: &Work, admission: &Admission) {
    turns::add_to_list(state, work, admission.device, &admission.added);
}
