//! Allocations that several devices use: opening, closing, and whose they are (RES-02, U-34).

use crate::{
    allocation::{Allocation, AllocationState, Owner},
    contract::Kmd,
    error::OpenError,
    event::Event,
    id::{AllocationId, AllocationIx, DeviceId, DeviceIx},
    residency::EvictFlags,
    state::{DeferredAction, VidMm},
};

impl VidMm {
    /// Opens an allocation on another device than its creator's: the device can put it on its list, and map it into the
    /// addresses of its process. There is one copy of the content; counts are each device's own (RES-02).
    ///
    /// Its bytes are charged to its owner: the process that created it, until that destroys it (U-34).
    ///
    /// # Errors
    ///
    /// If the allocation was not created with [`CREATE_SHARED`](crate::CreateAllocationFlags::CREATE_SHARED), is open on the
    /// device already, or the driver has no memory.
    #[doc(alias = "D3DKMTOpenResource")]
    #[doc(alias = "DxgkDdiOpenAllocation")]
    pub fn open_allocation(
        &mut self,
        kmd: &mut dyn Kmd,
        device: DeviceId,
        allocation: AllocationId,
    ) -> Result<(), OpenError> {
        let device_index = self.devices.lookup(device)?;
        self.check_device(device_index)?;
        if self.devices[device_index].has_reference_lists() {
            return Err(OpenError::ReferenceLists);
        }
        let index = self.lookup_allocation(allocation)?;
        let books = &self.allocations[index];
        if !books.state.contains(AllocationState::SHARED) {
            return Err(OpenError::NotShared);
        }
        if self.devices[books.device].has_reference_lists() {
            return Err(OpenError::ReferenceLists);
        }
        if books.entry(device_index).is_some() {
            return Err(OpenError::AlreadyOpen);
        }
        let owner = Owner { process: self.devices[device_index].process, device: device_index };
        let handle = kmd.open_allocation(self.processes[owner.process].handle, books.handle)?;
        self.allocations[index].open(owner, handle);
        self.devices[device_index].allocations += 1;
        let process = self.processes.id(owner.process);
        self.events.record(|| Event::AllocationOpened { allocation, device, process });
        Ok(())
    }

    /// Closes an allocation that the device opened. It leaves the device's list; work that the device submitted before may
    /// still use it, and its mappings end with that work.
    ///
    /// # Errors
    ///
    /// If the device has not opened it. The creator destroys instead.
    #[doc(alias = "DxgkDdiCloseAllocation")]
    pub fn close_allocation(&mut self, device: DeviceId, allocation: AllocationId) -> Result<(), OpenError> {
        let device_index = self.devices.lookup(device)?;
        let index = self.lookup_allocation(allocation)?;
        let books = &mut self.allocations[index];
        if books.device == device_index || !books.is_open_on(device_index) {
            return Err(OpenError::NotOpen);
        }
        books.close(device_index);
        self.events.record(|| Event::AllocationClosed { allocation, device });
        self.end_opening(index, device_index);
        Ok(())
    }

    /// A device that has closed an allocation uses it no more, once what it submitted has ended.
    fn end_opening(&mut self, index: AllocationIx, device: DeviceIx) {
        // What it wrote is there for the others.
        self.leave_list(index, device, EvictFlags::EVICT_ONLY_IF_NECESSARY);
        self.defer(device, DeferredAction::Close(index));
    }

    /// The owner of a shared allocation destroys it while others have it open: it is the first of them whose it is from now on,
    /// and the owner has closed it. `false` if nobody else has it.
    pub(super) fn hand_over(&mut self, index: AllocationIx) -> bool {
        let former = self.allocations[index].device;
        let former_process = self.allocations[index].process;
        if !self.allocations[index].transfer_ownership() {
            return false;
        }
        let Allocation { process, size, ref place, .. } = self.allocations[index];
        if let Some(place) = place {
            self.processes[former_process].standing.usage[place.pool()] -= size;
            self.processes[process].standing.usage[place.pool()] += size;
        }
        let allocation = self.allocation_id(index);
        let (closed_on, books) = (self.device_id(former), &self.allocations[index]);
        let (device, process) = (self.device_id(books.device), self.processes.id(books.process));
        self.events.record(|| Event::AllocationClosed { allocation, device: closed_on });
        self.events.record(|| Event::AllocationOwnershipTransferred { allocation, device, process });
        self.end_opening(index, former);
        true
    }
}
