//! A device in error: its work is dropped, and it requires nothing any more (FLT-04, FLT-33).

use alloc::vec::Vec;

use crate::{
    allocation::AllocationState,
    error::{DeviceErrorReason, DeviceInError},
    event::Event,
    id::DeviceIx,
    planted::PlantedBug,
    pool::{PerPool, Pool},
    residency::EvictFlags,
    state::{Output, Queued, VidMm},
};

impl VidMm {
    /// No more work of the device is accepted or dispatched, what waits for its fences waits no longer, and what it made
    /// resident is given back. It is told once.
    pub(crate) fn put_device_in_error(&mut self, index: DeviceIx, reason: DeviceErrorReason) {
        if self.devices[index].error.is_some() && !self.adapter.has_bug(PlantedBug::TellTwice) {
            return;
        }
        self.devices[index].error = Some(reason);
        self.devices[index].turn.takes_all = false;
        let device = self.device_id(index);
        self.events.record(|| Event::DeviceInError { device, reason });
        self.outputs.push_back(Output::DeviceInError(DeviceInError { device, reason }));
        self.drop_queued_work(index);
        self.empty_list(index);
        self.lapse_dispatched(index);
        self.settle_list(index);
        self.stirred = true;
    }

    fn drop_queued_work(&mut self, index: DeviceIx) {
        let of_device = |queued: &&Queued| self.contexts[queued.context].device == index;
        for queued in Vec::from_iter(self.queued.iter().filter(of_device).copied()) {
            self.queued.remove(&queued);
            self.give_up_portion(queued.context);
            for dropped in core::mem::take(&mut self.contexts[queued.context].queue) {
                let device = &mut self.devices[index];
                device.dispatches.end(dropped.number);
                device.retirements.end(dropped.number);
                if let Some(references) = dropped.references.as_ref().filter(|_| dropped.is_prepared()) {
                    self.forget_references(references);
                }
                for wait in &dropped.desc.waits {
                    self.monitored_fences[wait.fence.ix()].references -= 1;
                }
                for named in &dropped.desc.signals {
                    self.monitored_fences[named.fence.ix()].references -= 1;
                    self.raise_fence(named.fence, u64::MAX);
                }
            }
        }
    }

    /// Takes everything off a device's list, as Evict would, however often it is on it. Work under way still has it.
    fn empty_list(&mut self, device: DeviceIx) {
        let last = self.devices[device].submitted;
        let listed = Vec::from_iter(self.named_by_list(device));
        let mut left: PerPool<u64> = PerPool::default();
        self.withdraw_promise(device);
        for index in listed {
            let is_open = self.allocations[index].entry(device).is_some();
            if !is_open || self.allocations[index].entry_mut(device).count == 0 {
                continue;
            }
            let allocation = &mut self.allocations[index];
            left[allocation.pool()] += allocation.size;
            let entry = allocation.entry_mut(device);
            entry.count = 1;
            let effect = entry.leave(last, EvictFlags::EVICT_ONLY_IF_NECESSARY, &mut self.spans);
            allocation.state -= AllocationState::EVICT_SOON;
            self.apply(index, device, effect);
        }
        self.renew_promise(device);
        for pool in Pool::ALL.into_iter().filter(|&pool| left[pool] > 0) {
            let bytes = self.devices[device].list[pool].now() - left[pool];
            self.set_list_bytes(device, pool, bytes);
        }
    }
}
