//! Allocations that several devices use: opening, closing, and ownership (RES-02, U-34).

use crate::{
    contract::Kmd,
    event::{Event, error::OpenError, list_flags::EvictFlags},
    id::{AllocationId, AllocationIx, DeviceId, DeviceIx},
    manager::VidMm,
    objects::{
        allocation::{Allocation, AllocationState, Owner},
        device::DeferredAction,
    },
    requests::Requests,
    state::State,
};

/// # Shared allocations
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
        let device_index = self.state.objects.devices.lookup(device)?;
        self.state.objects.check_device(&self.state.moment, device_index)?;
        if self.state.objects[device_index].has_reference_lists() {
            return Err(OpenError::ReferenceLists);
        }
        let index = self.state.objects.lookup_allocation(allocation)?;
        let record = &self.state.objects[index];
        if !record.is(AllocationState::SHARED) {
            return Err(OpenError::NotShared);
        }
        if self.state.objects[record.device].has_reference_lists() {
            return Err(OpenError::ReferenceLists);
        }
        if record.entry(device_index).is_some() {
            return Err(OpenError::AlreadyOpen);
        }
        let owner = Owner { process: self.state.objects[device_index].process, device: device_index };
        let handle = kmd.open_allocation(self.state.objects[owner.process].handle, record.handle)?;
        self.state.objects[index].open(owner, handle);
        self.state.objects[device_index].allocations += 1;
        let process = self.state.objects.processes.id(owner.process);
        self.state.moment.record(|| Event::AllocationOpened { allocation, device, process });
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
        let device_index = self.state.objects.devices.lookup(device)?;
        let index = self.state.objects.lookup_allocation(allocation)?;
        let record = &self.state.objects[index];
        if record.device == device_index || !record.is_open_on(device_index) {
            return Err(OpenError::NotOpen);
        }
        close(&mut self.state, &mut self.requests, index, device_index);
        Ok(())
    }
}

/// Closes an allocation on a device that has opened it.
pub(crate) fn close(state: &mut State, requests: &mut Requests, index: AllocationIx, device: DeviceIx) {
    state.objects[index].close(device);
    let (allocation, closed_on) = (state.objects.allocation_id(index), state.objects.device_id(device));
    state.moment.record(|| Event::AllocationClosed { allocation, device: closed_on });
    end_opening(state, requests, index, device);
}

/// Ends the use of an allocation by a device that has closed it, once the device's work has ended.
fn end_opening(state: &mut State, requests: &mut Requests, index: AllocationIx, device: DeviceIx) {
    // The device's writes stay for the others.
    state.leave_list(index, device, EvictFlags::EVICT_ONLY_IF_NECESSARY);
    requests.defer(&mut state.objects, device, DeferredAction::Close(index));
}

/// Makes the first other device that has it open the owner of a shared allocation whose owner destroys it. Returns
/// `false` if no other device has it open.
pub(crate) fn hand_over(state: &mut State, requests: &mut Requests, index: AllocationIx) -> bool {
    let former = state.objects[index].device;
    let former_process = state.objects[index].process;
    let mut has_heir = false;
    state.residency.requeue(&mut state.objects, index, |allocation| has_heir = allocation.transfer_ownership());
    if !has_heir {
        return false;
    }
    let Allocation { process, size, place, .. } = state.objects.allocations[index];
    if let Some(place) = place {
        state.shares.move_usage(place.account(), former_process, process, size);
    }
    let allocation = state.objects.allocation_id(index);
    let (closed_on, record) = (state.objects.device_id(former), &state.objects.allocations[index]);
    let (device, process) = (state.objects.device_id(record.device), state.objects.processes.id(record.process));
    state.moment.record(|| Event::AllocationClosed { allocation, device: closed_on });
    state.moment.record(|| Event::AllocationOwnershipTransferred { allocation, device, process });
    end_opening(state, requests, index, former);
    true
}
