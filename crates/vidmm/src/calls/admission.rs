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
    adapter::Adapter,
    budget::account::{Account, PerAccount},
    event::{error::NoMemoryReason, list_flags::MakeResidentFlags},
    id::{AllocationIx, DeviceIx},
    memory::Memory,
    objects::{Objects, allocation::AllocationState, place::Place},
    planted::PlantedBug,
    residency::weight,
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
    /// What may join it so that each allocation has a range when nobody else is there, in bytes of weight.
    packing: PerAccount<i128>,
    /// Bytes that join it.
    added: PerAccount<u64>,
    /// Of those, bytes that it does not hold in place.
    pub not_held: PerAccount<u64>,
    /// The allocations that are counted elsewhere than before, and where that was.
    moved: Vec<(AllocationIx, Account)>,
    /// The allocations that got a range of the aperture for it.
    assigned: Vec<AllocationIx>,
    /// Why something did not fit.
    pub refused: Option<NoMemoryReason>,
    /// What is missing.
    pub num_bytes_to_trim: u64,
}

/// What may join a device's list: beside all others, or as its process is entitled to.
pub(crate) fn begin_admission(state: &State, device: DeviceIx, entitled: Option<MakeResidentFlags>) -> Admission {
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
        packing: weight::packing_room(&state.adapter, &state.objects, &state.memory, device),
        added: accounts.none(),
        not_held: accounts.none(),
        moved: Vec::new(),
        assigned: Vec::new(),
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
        let weight = i128::from(weight::weight(&state.adapter, &state.objects, index, account));
        let fits = i128::from(size) <= admission.left[account] && weight <= admission.packing[account];
        if !fits || !has_range(&state.adapter, &state.objects, &mut state.memory, admission, index, account) {
            continue;
        }
        admission.packing[account] -= weight;
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
        let misplaced = i128::from(weight::weight(&state.adapter, &state.objects, index, account))
            - core::mem::take(&mut admission.packing[account]);
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
        let fragmented = if needs_range(&state.adapter, &state.objects, index, account) {
            assigned_before(&state.objects, &state.memory, admission).max(1)
        } else {
            0
        };
        if missing == 0 {
            reason = NoMemoryReason::Fragmented;
        }
        admission.num_bytes_to_trim = admission.num_bytes_to_trim.saturating_add(missing.max(fragmented));
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
    admission.assigned.iter().for_each(|&index| state.memory.aperture.release(index));
}

/// What was admitted joins the list.
pub(crate) fn accept_admission(state: &mut State, work: &Work, admission: &Admission) {
    turns::add_to_list(state, work, admission.device, &admission.added);
}

/// Assigns a range of the aperture if the allocation needs one; `false` if there is no hole for it.
fn has_range(
    adapter: &Adapter,
    objects: &Objects,
    memory: &mut Memory,
    admission: &mut Admission,
    index: AllocationIx,
    account: Account,
) -> bool {
    if !needs_range(adapter, objects, index, account) || memory.aperture.assigned(index).is_some() {
        return true;
    }
    let allocation = &objects[index];
    let shown_at = match allocation.place {
        Some(Place::Aperture(offset)) => Some(offset.bytes()),
        _ => None,
    };
    let assigned = memory.aperture.assign(index, allocation.size, shown_at).is_some();
    if assigned {
        admission.assigned.push(index);
    }
    assigned
}

fn needs_range(adapter: &Adapter, objects: &Objects, index: AllocationIx, account: Account) -> bool {
    // Without GPU virtual addresses ranges are found with the grant.
    let accessed_physically = AllocationState::ACCESSED_PHYSICALLY;
    let is_assigned_now = account == Account::SYSTEM && !adapter.is_physical();
    is_assigned_now && objects[index].state.contains(accessed_physically)
}

/// Bytes of the aperture that allocations of the device had before the call: with all of them gone, no hole of its own is
/// too small.
fn assigned_before(objects: &Objects, memory: &Memory, admission: &Admission) -> u64 {
    let is_own = |other: AllocationIx| objects[other].entry(admission.device).is_some();
    memory.aperture.assigned_bytes(|other| is_own(other) && !admission.assigned.contains(&other))
}
