//! Packing: whether what a device requires fits together where each allocation is one range (RES-19).
//!
//! Without GPU virtual addresses an allocation *weighs* its size, rounded up to its alignment. Ranges that lie one behind the
//! other, those with the larger alignment first, take no more than they weigh: each begins where those before it end. So what
//! weighs no more than its segment fits into it when nothing else is there, and so does any part of it. That is what a device's
//! list is admitted by; with GPU virtual addresses a weight is the size, and the segment is never too fragmented (D10).

use alloc::{collections::BTreeSet, vec::Vec};

use crate::{
    adapter::{Adapter, patching::Wish},
    budget::account::{Account, PerAccount},
    id::{AllocationIx, DeviceIx},
    memory::Memory,
    objects::{Objects, list::ListEntry},
    residency::holds,
    units::PAGE_SIZE_64K,
};
/// The alignment of an allocation's ranges in an account, in bytes.
pub(crate) fn alignment(objects: &Objects, index: AllocationIx, account: Account) -> u64 {
    match account {
        Account::SYSTEM => PAGE_SIZE_64K,
        _ => {
            let known = objects.patched.get(&index);
            known.map_or(Wish::default().alignment, |known| known.wish.alignment)
        }
    }
}

/// The weight of an allocation in an account, in bytes: with GPU virtual addresses its size.
pub(crate) fn weight(adapter: &Adapter, objects: &Objects, index: AllocationIx, account: Account) -> u64 {
    let alignment = if adapter.is_physical() { alignment(objects, index, account) } else { 1 };
    objects[index].size.next_multiple_of(alignment)
}

/// The size of the segment that an account's allocations have ranges of, in bytes.
fn range_capacity(memory: &Memory, account: Account) -> u64 {
    match account {
        Account::SYSTEM => memory.aperture.size(),
        _ => memory.placer(account).size(),
    }
}

/// The room for more on a device's list, in bytes of weight. Below 0 is none.
pub(crate) fn packing_room(
    adapter: &Adapter,
    objects: &Objects,
    memory: &Memory,
    device: DeviceIx,
) -> PerAccount<i128> {
    let accounts = memory.accounts();
    if !adapter.is_physical() {
        return accounts.per(|_| i128::MAX);
    }
    let listed = on_list(objects, device, |entry| entry.count > 0);
    let weights = weights(adapter, objects, listed);
    accounts.per(|account| i128::from(range_capacity(memory, account)) - i128::from(weights[account]))
}

/// Whether a device's list still fits together when these of its allocations are counted in other accounts.
pub(crate) fn packs_if_moved(
    adapter: &Adapter,
    objects: &Objects,
    memory: &Memory,
    device: DeviceIx,
    moved: &[(AllocationIx, Account)],
) -> bool {
    if !adapter.is_physical() {
        return true;
    }
    let mut room = packing_room(adapter, objects, memory, device);
    for &(index, to) in moved {
        let from = objects[index].account();
        room[from] += i128::from(weight(adapter, objects, index, from));
        room[to] -= i128::from(weight(adapter, objects, index, to));
    }
    memory.accounts().iter().all(|account| room[account] >= 0)
}

/// Whether what a device holds, or is to hold again, fits together with `joining`, if nothing else is there.
pub(crate) fn packs_with(
    adapter: &Adapter,
    objects: &Objects,
    memory: &Memory,
    device: DeviceIx,
    joining: impl Iterator<Item = AllocationIx>,
) -> bool {
    if !adapter.is_physical() {
        return true;
    }
    let mut all = on_list(objects, device, |entry| entry.is_holding() || entry.is_owed());
    all.extend(joining);
    let weights = weights(adapter, objects, all);
    memory.accounts().iter().all(|account| weights[account] <= range_capacity(memory, account))
}

fn weights(adapter: &Adapter, objects: &Objects, allocations: BTreeSet<AllocationIx>) -> PerAccount<u64> {
    let mut weights: PerAccount<u64> = adapter.accounts().none();
    for index in allocations {
        let account = objects[index].account();
        weights[account] += weight(adapter, objects, index, account);
    }
    weights
}

/// The allocations that a device's list names so that `is_so`.
pub(crate) fn on_list(
    objects: &Objects,
    device: DeviceIx,
    is_so: impl Fn(&ListEntry) -> bool,
) -> BTreeSet<AllocationIx> {
    let is_listed = |index: &AllocationIx| objects[*index].entry(device).is_some_and(&is_so);
    holds::named_by_list(objects, device).filter(is_listed).collect()
}

/// Allocations in the order in which their ranges lie one behind the other, and waste nothing but what their weights say.
pub(crate) fn sort_for_packing(objects: &Objects, allocations: &mut [AllocationIx], account: Account) {
    allocations.sort_unstable_by_key(|&index| {
        let (alignment, size) = (alignment(objects, index, account), objects[index].size);
        (core::cmp::Reverse((alignment, size)), index)
    });
}

/// Devices with device lists whose lists weigh more than fits, for the audit.
pub(crate) fn overweight(adapter: &Adapter, objects: &Objects, memory: &Memory) -> Vec<DeviceIx> {
    let is_over = |index: &DeviceIx| {
        let room = packing_room(adapter, objects, memory, *index);
        memory.accounts().iter().any(|account| room[account] < 0)
    };
    let devices = objects.devices.iter().filter(|(_, books)| !books.has_reference_lists());
    devices.map(|(index, _)| index).filter(is_over).collect()
}
