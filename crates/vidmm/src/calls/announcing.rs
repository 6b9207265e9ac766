//! Announcements: the next needs of a device (D37).

use alloc::vec::Vec;

use crate::{
    event::{Event, error::AnnounceError},
    id::{AllocationId, AllocationIx, DeviceId},
    manager::VidMm,
};

/// # Announcements
impl VidMm {
    /// Says which allocations the device needs soon, the first need first. The last announcement of the device is void; an empty one
    /// withdraws it. No fact of WDDM stands behind this call: it is ours (D37).
    ///
    /// While engines leave the bus alone, announced content comes into the preferred memory segment, as long as the segment has free memory.
    /// Nothing is evicted for announced content. In the order of evictions an announcement is a use by the last submission: announced
    /// allocations go after allocations with earlier uses (CRE-31a). Only a [`make_resident`](Self::make_resident) promises anything.
    ///
    /// Offered and locked allocations stay away, and so do ranges for engines with physical addresses, and allocations that prefer system
    /// memory.
    ///
    /// # Errors
    ///
    /// If a handle names nothing, an allocation is not open on the device, or the device or the adapter is in error.
    pub fn announce(&mut self, device: DeviceId, allocations: &[AllocationId]) -> Result<(), AnnounceError> {
        let index = self.state.objects.devices.lookup(device)?;
        self.state.objects.check_device(&self.state.moment, index)?;
        let mut named: Vec<AllocationIx> = Vec::with_capacity(allocations.len());
        for (position, &id) in allocations.iter().enumerate() {
            let (of, allocation) = self.state.objects.find_allocation(id)?;
            if !allocation.is_open_on(index) {
                return Err(AnnounceError::WrongDevice { position });
            }
            named.push(of);
        }
        self.state.moment.record(|| Event::Announced { device, allocations: allocations.to_vec() });
        // Of equal ranks the oldest goes first, so the first need gets the rank last.
        for of in named.into_iter().rev() {
            self.state.residency.note_announced(&mut self.state.objects, of);
        }
        self.schedule.idle.prefetcher.announce(index, allocations);
        self.state.moment.request_poll();
        Ok(())
    }
}
