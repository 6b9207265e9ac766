//! The turns of all devices: waits for a place, allocations away from home, and the power.

use alloc::{collections::BTreeMap, vec::Vec};

use crate::{
    data::ordered_set::OrderedSet,
    id::{AllocationId, AllocationIx, DeviceIx},
    units::Nanoseconds,
};

/// The turns of all devices.
#[derive(Debug, Default)]
pub(crate) struct Turns {
    /// Active devices with the list on the way back.
    pub resuming: OrderedSet<DeviceIx>,
    /// Devices with allocations to be placed anew, as soon as the device can yield.
    pub to_replace: OrderedSet<DeviceIx>,
    /// Allocations that may be away from the preferred home, by device, with the begin of the absence.
    pub away: BTreeMap<(DeviceIx, AllocationIx), Nanoseconds>,
    /// The size of the smallest allocation away, in bytes.
    pub smallest_away: u64,
    /// Allocations brought home by an exchange, and the sleeping devices of the room.
    pub exchanges: BTreeMap<AllocationId, Vec<DeviceIx>>,
    /// The sleep of a process before the exchange.
    pub exchange_after: Nanoseconds,
    /// The times of the last and of the next look for such processes.
    pub exchange_look: (Nanoseconds, Nanoseconds),
    /// The time of the last yield for another device.
    pub last_yield: Nanoseconds,
    /// Whether the adapter has power, and whether power is wanted back after the power-down.
    pub power: Power,
    pub power_up_wanted: bool,
}

impl Turns {
    /// Whether there is power, and the list of each active device is in the preferred places.
    pub fn is_calm(&self) -> bool {
        self.power == Power::Up
            && self.away.is_empty()
            && [&self.resuming, &self.to_replace].into_iter().all(OrderedSet::is_empty)
    }

    /// The allocations of a device are to be placed anew, as soon as the device can yield.
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
