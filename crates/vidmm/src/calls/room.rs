//! Will it fit: the answer of a MakeResident without the call (D30).

use alloc::{collections::BTreeSet, vec::Vec};

use super::{
    admission::{self, Terms},
    candidates::{self, Joining, Joins, Named},
    refusal::{self, Refusal},
    resident,
};
use crate::{
    budget::{MemoryAccount, account::Account},
    event::{
        error::{MakeResidentError, NoMemoryReason, Shortage},
        list_flags::MakeResidentFlags,
    },
    id::{AllocationId, AllocationIx, DeviceId, DeviceIx, ProcessId},
    manager::VidMm,
    objects::Objects,
    residency::assignment::Assignment,
    state::State,
};

/// The answer to the question whether a set fits on a device's list.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Room {
    /// The refusal that [`make_resident`](VidMm::make_resident) would answer; none if the set fits.
    pub refusal: Option<RoomRefusal>,
    /// Every memory where an allocation of the set may be counted, memory segments first.
    pub memory: Vec<MemoryRoom>,
}

/// The reason why a set does not fit now.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RoomRefusal {
    /// The bytes to trim before the set fits; 0 where a trim of all lists of the process would not be enough.
    pub num_bytes_to_trim: u64,
    /// The reason.
    pub reason: NoMemoryReason,
    /// The missing bytes in each memory.
    pub shortages: Vec<Shortage>,
}

/// The room of a device's list in a memory.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct MemoryRoom {
    /// The memory.
    pub account: MemoryAccount,
    /// The bytes that may join the device's list now.
    pub bytes_now: u64,
    /// The bytes that could join the list if the process had trimmed all else.
    pub bytes_after_trims: u64,
    /// The processes that list more than their reservations, most first.
    pub holders: Vec<Holder>,
}

/// A process with more bytes on its lists than its reservation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Holder {
    /// The process.
    pub process: ProcessId,
    /// The listed bytes beyond the reservation.
    pub bytes: u64,
}

impl VidMm {
    /// Whether `allocations` would fit on the device's list, what is missing, and who holds the memory. The answer is that of
    /// [`make_resident`](Self::make_resident) without flags at this moment. Nothing changes.
    ///
    /// # Errors
    ///
    /// The errors of `make_resident` but for [`NoMemory`](MakeResidentError::NoMemory), which is an answer here.
    pub fn query_room(&self, device: DeviceId, allocations: &[AllocationId]) -> Result<Room, MakeResidentError> {
        let state = &self.state;
        let device = state.objects.devices.lookup(device)?;
        state.objects.check_device(&state.moment, device)?;
        if allocations.is_empty() {
            return Err(MakeResidentError::Empty);
        }
        let pending = state.objects[device].requests.len();
        if pending >= resident::REQUESTS_MAX {
            return Err(MakeResidentError::TooManyPending { pending });
        }
        let named = resident::name(&state.objects, device, allocations)?;
        let mut joining = to_join(state, device, &named);
        let terms = Terms::Entitled(MakeResidentFlags::empty());
        let refusal = refusal(state, &mut joining, terms).map(|Refusal { shortages, reason }| RoomRefusal {
            num_bytes_to_trim: shortages.num_bytes_to_trim(),
            reason,
            shortages: shortages.told(&state.adapter),
        });
        let choices = joining.allocations.iter().map(|joins| joins.choices);
        let mut accounts = Vec::from_iter(BTreeSet::from_iter(choices.flat_map(|choices| choices.accounts())));
        accounts.sort_by_key(|account| (!account.is_memory(), *account));
        let memory = accounts.into_iter().map(|account| memory_room(state, device, account, terms)).collect();
        Ok(Room { refusal, memory })
    }
}

/// The named allocations that are not on the device's list.
fn to_join<'n>(state: &State, device: DeviceIx, named: &'n Named) -> Joining<'n> {
    let is_new = |&index: &AllocationIx| state.objects[index].entry(device).is_none_or(|entry| entry.count == 0);
    let mut seen = BTreeSet::new();
    let new = named.indices.iter().copied().filter(is_new).filter(|&index| seen.insert(index));
    let allocations = new.map(|index| Joins::of(&state.residency, &state.objects, index, device)).collect();
    Joining::new(&state.objects, &state.memory, device, named, allocations)
}

/// The refusal of a MakeResident of these; none if they are admitted.
fn refusal(state: &State, joining: &mut Joining<'_>, terms: Terms) -> Option<Refusal> {
    if [Terms::Beside, terms].into_iter().any(|terms| admission::fits(state, joining, terms)) {
        return None;
    }
    joining.with_choice = Some(listed_with_choice(state, joining.device));
    let candidates = candidates::counted(candidates::candidates(state, joining));
    match admission::search(state, joining, &candidates, terms) {
        Assignment::Found(_) => None,
        within => Some(refusal::refuse(state, joining, &candidates, MakeResidentFlags::empty(), within)),
    }
}

/// The listed allocations of the device's set of allocations with several homes. The set may hold others until the next
/// MakeResident strikes these out, and a reused index twice.
fn listed_with_choice(state: &State, device: DeviceIx) -> Vec<AllocationIx> {
    let Objects { allocations, devices, .. } = &state.objects;
    let is_listed = |index: AllocationIx| {
        allocations.contains(index) && allocations[index].entry(device).is_some_and(|entry| entry.count > 0)
    };
    let mut seen = BTreeSet::new();
    let with_choice = devices[device].with_choice.iter().copied();
    with_choice.filter(|&index| is_listed(index) && seen.insert(index)).collect()
}

fn memory_room(state: &State, device: DeviceIx, account: Account, terms: Terms) -> MemoryRoom {
    let shares = &state.shares.by_account[account];
    let own = shares.requested(state.objects[device].process);
    let left = |trimmed| {
        let left = terms.left_after_trimming(state, device, account, trimmed);
        u64::try_from(left.max(0)).unwrap_or(u64::MAX)
    };
    let beyond = state.objects.processes.iter().map(|(index, _)| Holder {
        process: state.objects.processes.id(index),
        bytes: shares.requested(index).saturating_sub(shares.get(index).reservation),
    });
    let mut holders = Vec::from_iter(beyond.filter(|holder| holder.bytes > 0));
    holders.sort_by_key(|holder| core::cmp::Reverse(holder.bytes));
    MemoryRoom {
        account: state.adapter.memory_account(account),
        bytes_now: left(0),
        bytes_after_trims: left(own),
        holders,
    }
}
