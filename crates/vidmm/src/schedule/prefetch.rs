//! Prefetch: announced content, or content that a policy expects, comes into free memory ahead of the MakeResident (D37). Nothing is
//! evicted for a prefetch. Prefetched content may go again like all content without a list.

use alloc::{
    collections::{BTreeMap, VecDeque},
    vec::Vec,
};
use core::ops::Bound;

use crate::{
    budget::account::{Account, Home},
    event::PrefetchReason,
    id::{AllocationId, AllocationIx, DeviceIx},
    objects::{allocation::AllocationState, device::Device, place::Place},
    plans::Plans,
    residency::weight,
    state::State,
};

/// The bytes of one look: so many keep the bus busy for much longer than a decision takes.
const BATCH: u64 = 2 << 20;
/// One look asks no more devices than this.
const DEVICES_MAX: usize = 16;

/// The announcements.
#[derive(Debug, Default)]
pub(crate) struct Prefetcher {
    /// The last announcement of each device, without allocations of earlier looks; the first need is first.
    announced: BTreeMap<DeviceIx, VecDeque<AllocationId>>,
    /// The device that was asked last.
    asked: Option<DeviceIx>,
}

impl Prefetcher {
    /// Replaces the last announcement of a device.
    pub(crate) fn announce(&mut self, device: DeviceIx, allocations: &[AllocationId]) {
        self.announced.remove(&device);
        if !allocations.is_empty() {
            self.announced.insert(device, allocations.iter().copied().collect());
        }
    }

    /// The device is gone.
    pub(super) fn forget_device(&mut self, device: DeviceIx) {
        self.announced.remove(&device);
    }

    /// Whether an announced allocation is still to come.
    #[inline]
    pub(super) fn is_on(&self) -> bool {
        !self.announced.is_empty()
    }

    /// Brings the next allocations in. Returns whether there were any.
    pub(super) fn prefetch(&mut self, state: &mut State, plans: &mut Plans) -> bool {
        let mut bytes = 0;
        while bytes < BATCH
            && let Some((index, home, reason)) = self.next_announced(state).or_else(|| next_expected(state))
        {
            bytes += state.objects[index].size;
            state.set_home(index, home);
            plans.bring_in_ahead(state, index, reason);
        }
        bytes > 0
    }

    /// The next announced allocation that has room. Devices are asked in turn.
    fn next_announced(&mut self, state: &State) -> Option<(AllocationIx, Home, PrefetchReason)> {
        let announced = &self.announced;
        let behind = self.asked.map_or(Bound::Unbounded, Bound::Excluded);
        let devices = announced.range((behind, Bound::Unbounded)).chain(announced).map(|(&device, _)| device);
        let devices = Vec::from_iter(devices.take(announced.len().min(DEVICES_MAX)));
        devices.into_iter().find_map(|device| {
            self.asked = Some(device);
            let (index, home) = self.next_of(state, device)?;
            Some((index, home, PrefetchReason::Announced { device: state.objects.device_id(device) }))
        })
    }

    /// The next announced allocation of a device, if there is room. No later allocation takes the room of an earlier one.
    fn next_of(&mut self, state: &State, device: DeviceIx) -> Option<(AllocationIx, Home)> {
        if !may_have_more(&state.objects[device]) {
            return None;
        }
        let queue = self.announced.get_mut(&device)?;
        while let Some(&id) = queue.front() {
            if let Some((index, home)) = state.objects.allocations.lookup(id).ok().and_then(|index| away(state, index))
            {
                return has_room(state, index, home).then_some((index, home));
            }
            queue.pop_front();
        }
        self.announced.remove(&device);
        None
    }
}

/// The policy's choice, if there is room.
fn next_expected(state: &mut State) -> Option<(AllocationIx, Home, PrefetchReason)> {
    if !state.residency.may_prefetch {
        return None;
    }
    state.memory.accounts().memory().find_map(|account| {
        let (memory, free) = (state.adapter.memory_account(account).segment, free_bytes(state, account));
        let slot = (free > 0).then(|| state.residency.ask_to_prefetch(memory, free)).flatten()?;
        // A policy may answer anything.
        let index = AllocationIx::new(u32::try_from(slot).ok()?);
        let (index, home) = state.objects.allocations.contains(index).then(|| away(state, index)).flatten()?;
        let may_come = may_have_more(&state.objects[state.objects[index].device]) && home.account() == account;
        (may_come && has_room(state, index, home)).then_some((index, home, PrefetchReason::Policy))
    })
}

/// Whether a device may have memory ahead of a need: a device that was stopped, or has made way, gets its list back first.
fn may_have_more(device: &Device) -> bool {
    !device.is_over() && !device.turn.is_halted && !device.turn.is_exchanged && device.turn.waits_since.is_none()
}

/// The allocation with the first choice of a home, if the home is a memory segment, the content is elsewhere, and no request is to bring
/// the content in. A range for physical addresses comes with a list alone.
fn away(state: &State, index: AllocationIx) -> Option<(AllocationIx, Home)> {
    const NEVER: AllocationState = AllocationState::OFFERED
        .union(AllocationState::DESTROYED)
        .union(AllocationState::LOCKED)
        .union(AllocationState::LOCK_PENDING)
        .union(AllocationState::NOT_COMMITTED);
    let allocation = &state.objects[index];
    let home = allocation.allowed_homes().first().filter(|home| home.account().is_memory())?;
    let is_away = matches!(allocation.place, None | Some(Place::System));
    let may_come = !allocation.is_any(NEVER) && !weight::is_one_range(allocation) && !allocation.is_required();
    (is_away && may_come).then_some((index, home))
}

fn has_room(state: &State, index: AllocationIx, home: Home) -> bool {
    state.objects[index].size <= free_bytes(state, home.account())
}

/// The free bytes of a memory, within the limit of programs outside of the manager.
fn free_bytes(state: &State, account: Account) -> u64 {
    let (free, used) = (state.memory.available(account), state.memory.used(account));
    let limits = state.shares.limits.iter().filter(|&&(of, _)| of == account);
    limits.fold(free, |free, &(_, limit)| free.min(limit.saturating_sub(used)))
}
