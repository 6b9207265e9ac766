//! Spare memory: the victims for an allocation on the way home (D36). First goes memory outside of all lists that no process keeps. Then go
//! listed allocations, beyond reservations, of processes suspended by a call, and of sleepers suspended for this allocation. The lists of
//! equals stay.

use alloc::{
    collections::{BTreeMap, BTreeSet},
    vec::Vec,
};

use crate::{
    budget::account::Account,
    id::{AllocationIx, DeviceIx, ProcessIx},
    objects::Objects,
    objects::allocation::worth::Class,
    state::State,
};

/// A search passes by no more kept allocations than this.
const KEPT_MAX: usize = 64;

/// The victims in an account that free `bytes` for a process, in the order of their evictions. None if they are too few. `givers` are the
/// sleepers suspended for this purpose.
pub(super) fn leaving_for(
    state: &State,
    account: Account,
    process: ProcessIx,
    givers: &[DeviceIx],
    bytes: u64,
) -> Option<Vec<AllocationIx>> {
    let State { objects, memory, shares, residency, .. } = state;
    let (evictable, share) = (&residency.evictable[account], &shares.by_account[account]);
    let mut missing = bytes.saturating_sub(memory.available(account));
    let mut leaving = Vec::new();
    if missing == 0 || missing > evictable.bytes() {
        return (missing == 0).then_some(leaving);
    }
    // The lost bytes of each process.
    let mut lost: BTreeMap<ProcessIx, u64> = BTreeMap::new();
    let mut num_kept = 0;
    let unlisted = evictable
        .iter(&objects.allocations)
        .take_while(|&index| objects[index].queued_class() != Class::DeviceSuspended);
    let gives = |&device: &DeviceIx| objects[device].turn.is_halted || givers.contains(&device);
    let giving = shares.stopped.iter().filter(|device| gives(device)).map(|&device| objects[device].process);
    let giving = BTreeSet::from_iter(giving);
    let listed = giving.iter().flat_map(|&giver| evictable.of_suspended(&objects.allocations, giver));
    let listed = listed.filter(|&index| is_listed_by_all(objects, index, &gives));
    for index in unlisted.chain(listed) {
        let (owner, size, class) = (objects[index].process, objects[index].size, objects[index].queued_class());
        let lost = lost.entry(owner).or_insert(0);
        let is_kept = match class {
            _ if class.is_worthless() => false,
            Class::DeviceSuspended => {
                let reservation = share.get(owner).reservation;
                reservation > 0 && share.usage(owner).saturating_sub(*lost + size) < reservation
            }
            _ => share.keeps(owner, process, *lost + size),
        };
        if is_kept {
            num_kept += 1;
            if num_kept > KEPT_MAX {
                return None;
            }
            continue;
        }
        *lost += size;
        leaving.push(index);
        missing = missing.saturating_sub(size);
        if missing == 0 {
            return Some(leaving);
        }
    }
    None
}

/// Whether all devices with an allocation to restore are such devices.
fn is_listed_by_all(objects: &Objects, index: AllocationIx, are_such: &impl Fn(&DeviceIx) -> bool) -> bool {
    objects[index].entries().filter(|(_, entry)| entry.is_to_restore()).all(|(device, _)| are_such(&device))
}
