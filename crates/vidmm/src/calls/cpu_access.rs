//! Lock2 and Unlock2: what the CPU sees of an allocation (5.9).

use crate::{
    contract::{CpuVirtualAddress, Host},
    error::{LockError, UnlockError},
    id::{AllocationId, DeviceId},
    state::VidMm,
};

impl VidMm {
    /// Shows the whole allocation to the CPU, at an address that stays the same until the last unlock: when the allocation
    /// moves, the address shows where it is (RES-86). Nothing is synchronised: that is the caller's duty, who may keep an
    /// allocation locked for its whole life (RES-05, RES-81).
    ///
    /// An allocation in a memory segment that the CPU does not see must leave it (RES-82); so must one whose content is on its
    /// way. Then the answer is [`LockError::AllocationBusy`]: poll, let paging end, and try again. With PERMANENT_SYS_MEM or
    /// EXISTING_SYS_MEM the CPU sees the copy in system memory, wherever the allocation is.
    ///
    /// # Errors
    ///
    /// If the allocation is another device's, offered, or cannot be where the CPU sees it.
    #[doc(alias = "D3DKMTLock2")]
    pub fn lock(
        &mut self,
        host: &mut dyn Host,
        device: DeviceId,
        allocation: AllocationId,
    ) -> Result<CpuVirtualAddress, LockError> {
        let _ = (host, device, allocation);
        todo!()
    }

    /// Ends one lock. With the last, the address shows nothing any more; of an allocation with PERMANENT_SYS_MEM or
    /// EXISTING_SYS_MEM that is in the memory segment, what is there is brought up to date (2.2).
    ///
    /// # Errors
    ///
    /// If it is not locked.
    #[doc(alias = "D3DKMTUnlock2")]
    pub fn unlock(&mut self, host: &mut dyn Host, allocation: AllocationId) -> Result<(), UnlockError> {
        let _ = (host, allocation);
        todo!()
    }
}
