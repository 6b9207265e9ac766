//! Allocations that several devices use: opening, closing, and whose they are (RES-02, U-34).

use crate::{
    contract::Kmd,
    error::OpenError,
    id::{AllocationId, DeviceId},
    state::VidMm,
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
        let _ = (kmd, device, allocation);
        todo!()
    }

    /// Closes an allocation that the device opened. It leaves the device's list; work that the device submitted before may
    /// still use it, and its mappings end with that work.
    ///
    /// # Errors
    ///
    /// If the device has not opened it. The creator destroys instead.
    #[doc(alias = "DxgkDdiCloseAllocation")]
    pub fn close_allocation(&mut self, device: DeviceId, allocation: AllocationId) -> Result<(), OpenError> {
        let _ = (device, allocation);
        todo!()
    }
}
