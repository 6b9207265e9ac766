//! The turns of all devices: who waits for a place, what is away from home, and the power.

use alloc::{collections::BTreeMap, vec::Vec};

use crate::{
    data::ordered_set::OrderedSet,
    id::{AllocationId, AllocationIx, DeviceIx},
    units::Nanoseconds,
};

/// The turns of all devices.
#[derive(Debug, Default)]
pub(crate) struct Turns {
    /// Active devices whose list is on its way back.
    pub resuming: OrderedSet<DeviceIx>,
    /// Devices whose allocations are to be placed anew, as soon as they can yield for it.
    pub to_replace: OrderedSet<DeviceIx>,
    /// Allocations of devices that may have another home than they prefer, and since when they do.
    pub away: BTreeMap<(DeviceIx, AllocationIx), Nanoseconds>,
    /// No allocation that is away is smaller, in bytes.
    pub smallest_away: u64,
    /// Allocations that have come home by an exchange, and the sleeping devices that gave the room.
    pub exchanges: BTreeMap<AllocationId, Vec<DeviceIx>>,
    /// The time for which a process sleeps before it gives its memory away.
    pub exchange_after: Nanoseconds,
    /// The times of the last and of the next look for such processes.
    pub exchange_look: (Nanoseconds, Nanoseconds),
    /// The time at which a device last yielded for another.
    pub last_yield: Nanoseconds,
    /// Whether the adapter has power, and whether it is wanted back as soon as it is gone.
    pub power: Power,
    pub power_up_wanted: bool,
}

impl Turns {
    /// Whether there is power, and the list of every device that has its turn is there, in the places that it prefers.
    pub fn is_calm(&self) -> bool {
        self.power == Power::Up
            && self.away.is_empty()
            && [&self.resuming, &self.to_replace].into_iter().all(OrderedSet::is_empty)
    }

    /// The allocations of a device are to be placed anew, as soon as the device can yield for that.
    pub fn replace(&mut self, device: DeviceIx) {
        self.to_replace.insert(device);
    }

    /// Power is wanted no more. Returns whether there was power, and no power-down under way.
    pub fn begin_power_down(&mut self) -> bool {
        self.power_up_wanted = false;
        let is_up = self.power == Power::Up;
        if is_up {
            self.power = Power::GoingDown;
        }
        is_up
    }

    /// Power is wanted back as soon as the power-down is over.
    pub fn want_power(&mut self) {
        self.power_up_wanted = true;
    }

    /// An allocation of a device may be away from home.
    pub fn note_away(&mut self, device: DeviceIx, index: AllocationIx, now: Nanoseconds) {
        self.away.entry((device, index)).or_insert(now);
        self.smallest_away = 0;
    }

    /// An allocation of a device leaves its home.
    pub fn note_demoted(&mut self, device: DeviceIx, index: AllocationIx, now: Nanoseconds) {
        self.away.insert((device, index), now);
        self.smallest_away = 0;
    }

    /// The devices of allocations that may be away.
    pub fn debtors(&self) -> Vec<DeviceIx> {
        let first = self.away.keys().next();
        let next = |&device: &DeviceIx| {
            let behind = self.away.range((device.next(), AllocationIx::FIRST)..).next();
            behind.map(|(&(device, _), _)| device)
        };
        core::iter::successors(first.map(|&(device, _)| device), next).collect()
    }

    /// Forgets a device that is gone.
    pub fn forget(&mut self, device: DeviceIx) {
        for devices in [&mut self.resuming, &mut self.to_replace] {
            devices.remove(&device);
        }
        self.away.retain(|&(of, _), _| of != device);
        self.exchanges.values_mut().for_each(|givers| givers.retain(|&giver| giver != device));
    }
}

/// Whether the adapter has power.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Power {
    #[default]
    Up,
    /// Devices drain, then everything leaves.
    GoingDown,
    /// Everything is in system memory.
    Down,
}
