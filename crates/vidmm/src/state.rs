//! The state: the parts of present facts, lowest part first.

use core::mem;

use crate::{
    adapter::Adapter,
    addresses::Addresses,
    budget::account::Home,
    engines::Engines,
    event::{Event, list_flags::EvictFlags},
    id::{AllocationIx, DeviceIx},
    memory::Memory,
    moment::Moment,
    objects::{Objects, list::Leave},
    residency::{Residents, weight},
    shares::Shares,
};

/// The parts of present facts. Higher parts, with the work under way, take the state as an argument.
pub(crate) struct State {
    pub adapter: Adapter,
    pub moment: Moment,
    pub objects: Objects,
    pub engines: Engines,
    pub memory: Memory,
    pub shares: Shares,
    pub residency: Residents,
    pub addresses: Addresses,
}

impl State {
    /// Lists count an allocation in `home` from now on.
    pub fn set_home(&mut self, index: AllocationIx, home: Home) {
        let counted = self.objects[index].counted_in();
        weight::set_home(&mut self.objects, index, home);
        if self.objects[index].counted_in() != counted {
            self.record_counted(index, false);
        }
    }

    /// The list of its device counts an allocation in its home, and no more in the account of the one that it had before. Work that is
    /// queued finds it there too, so no earlier weight counts.
    pub fn recount_home(&mut self, device: DeviceIx, index: AllocationIx, before: Home) {
        let (from, to, size) = (before.account(), self.objects[index].account(), self.objects[index].size);
        let now = |account| self.objects[device].list[account].now();
        for (account, bytes) in [(from, now(from) - size), (to, now(to) + size)] {
            self.shares.set_list_bytes(&mut self.objects, device, account, bytes);
            self.shares.recount_list(&mut self.objects, device, account);
        }
        self.record_counted(index, true);
    }

    /// Takes an allocation off a device's list, whatever the count; submitted work still has the allocation.
    pub fn leave_list(&mut self, index: AllocationIx, device: DeviceIx, flags: EvictFlags) {
        let Self { moment, objects, memory, shares, residency, .. } = self;
        if mem::take(&mut objects[index].entry_mut(device).count) == 0 {
            return;
        }
        let account = objects[index].counted_in();
        let bytes = objects[device].list[account].now() - objects[index].size;
        shares.set_list_bytes(objects, device, account, bytes);
        let leave = Leave { left: 0, last: objects[device].submitted, flags };
        residency.leave(moment, objects, memory, index, device, leave);
        shares.renew_promise(objects, device);
    }

    /// Records the memory in which lists count an allocation with several possible memories.
    pub fn record_counted(&mut self, index: AllocationIx, anew: bool) {
        let Self { adapter, moment, objects, .. } = self;
        let account = objects[index].counted_in();
        if objects[index].choices.accounts().any(|other| other != account) {
            let (allocation, segment) = (objects.allocations.id(index), adapter.memory_account(account).segment);
            moment.record(|| Event::AllocationCounted { allocation, segment, anew });
        }
    }
}
