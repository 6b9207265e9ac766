//! Adapter stop: the way on after an adapter error.

use crate::{
    calls::start,
    contract::{Host, Kmd},
    manager::VidMm,
    objects::allocation::Allocation,
    recovery::{adapter_reset, purge},
    units::PAGE_SIZE,
};

/// # Stop of an adapter
impl VidMm {
    /// Stops the adapter, in error or not, with all that is on it. The driver is told that each object is gone; the host
    /// gets back what it committed, and shows nothing of it any more. [`start_adapter`](Self::start_adapter) begins anew.
    ///
    /// The caller has stopped the GPU before: nothing that was handed out runs any more. Content is lost, but for that of
    /// memory of the caller's. Outputs and events that were not taken before are dropped.
    #[doc(alias = "DxgkDdiStopDevice")]
    pub fn stop_adapter(mut self, kmd: &mut dyn Kmd, host: &mut dyn Host) {
        adapter_reset::end_all(&mut self.state, &mut self.plans, host);
        purge::clear(&mut self.state, &mut self.plans, host);
        let objects = &self.state.objects;
        for lock in objects.allocations.iter().filter_map(|(_, allocation)| allocation.lock()) {
            host.unmap_cpu_virtual_address(lock.address);
        }
        for (_, allocation) in objects.allocations.iter() {
            destroy_allocation(allocation, kmd, host);
        }
        let handles = objects.contexts.iter().filter_map(|(_, context)| context.handle);
        handles.for_each(|handle| kmd.destroy_context(handle));
        for (_, process) in objects.processes.iter() {
            start::release_system_tables(&self.state.adapter, &process.tables, host);
            kmd.destroy_process(process.handle);
        }
        start::release_system_tables(&self.state.adapter, &self.plans.windows.tables, host);
        kmd.destroy_context(self.plans.system_context);
        kmd.destroy_process(self.plans.windows.process);
        host.decommit_backing_store(self.state.adapter.dummy_page, PAGE_SIZE);
    }
}

fn destroy_allocation(allocation: &Allocation, kmd: &mut dyn Kmd, host: &mut dyn Host) {
    allocation.openings().filter_map(|opening| opening.handle).for_each(|handle| kmd.close_allocation(handle));
    allocation.give_back_store(host);
    kmd.destroy_allocation(allocation.handle);
}
