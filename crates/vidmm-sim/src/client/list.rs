//! What a process does about its residency list: one kernel's buffers at a time.

use vidmm::{
    AllocationId, DeviceId, EvictError, EvictFlags, MakeResidentError, MakeResidentFlags, PagingQueueId, TrimFlags,
    VidMm,
};

/// A buffer that a kernel names.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Named {
    pub allocation: AllocationId,
    /// Its size in bytes.
    pub bytes: u64,
    /// Whether the kernel writes it.
    pub written: bool,
}

/// A device's list, for whoever keeps it.
pub(crate) struct DeviceList<'v> {
    pub vidmm: &'v mut VidMm,
    pub device: DeviceId,
    pub queue: PagingQueueId,
    /// Whether kernels of the device are under way: when they have ended there is more room.
    pub busy: bool,
}

impl DeviceList<'_> {
    /// Makes allocations resident. Returns how many bytes are missing if there is no room; none is success.
    pub fn make_resident(
        &mut self,
        allocations: &[AllocationId],
        flags: MakeResidentFlags,
    ) -> Result<Option<u64>, MakeResidentError> {
        match self.vidmm.make_resident(self.queue, allocations, flags) {
            Ok(_) => Ok(None),
            Err(MakeResidentError::NoMemory { num_bytes_to_trim, .. }) => Ok(Some(num_bytes_to_trim)),
            Err(error) => Err(error),
        }
    }

    /// Takes allocations off the list. Returns what the process should still trim.
    pub fn evict(&mut self, allocations: &[AllocationId], flags: EvictFlags) -> Result<u64, EvictError> {
        if allocations.is_empty() { Ok(0) } else { self.vidmm.evict(self.device, allocations, flags) }
    }
}

/// Who keeps a process's residency list.
pub(crate) trait ListKeeper {
    /// Puts what the next kernel names on the list. Returns how many bytes are missing if it cannot be; none is success.
    fn make_resident(&mut self, list: &mut DeviceList<'_>, named: &[Named]) -> Result<Option<u64>, MakeResidentError>;

    /// The kernel has been submitted.
    fn submitted(&mut self, list: &mut DeviceList<'_>, named: &[Named]) -> Result<(), EvictError>;

    /// The process does without an allocation: it leaves the list.
    fn leave(&mut self, list: &mut DeviceList<'_>, allocation: AllocationId) -> Result<(), EvictError>;

    /// The process is asked to trim.
    fn trim(&mut self, list: &mut DeviceList<'_>, flags: TrimFlags, num_bytes: u64) -> Result<(), EvictError>;

    /// Takes everything off the list: the application has nothing to do for a while.
    fn trim_all(&mut self, list: &mut DeviceList<'_>) -> Result<(), EvictError>;
}

/// Each kernel's buffers are on the list for the kernel alone.
pub(crate) struct EachKernel {
    /// How they are evicted.
    pub flags: EvictFlags,
}

impl ListKeeper for EachKernel {
    /// While own kernels are under way the process waits for them; after that it says that it cannot trim further.
    fn make_resident(&mut self, list: &mut DeviceList<'_>, named: &[Named]) -> Result<Option<u64>, MakeResidentError> {
        let allocations: Vec<AllocationId> = named.iter().map(|named| named.allocation).collect();
        match list.make_resident(&allocations, MakeResidentFlags::empty())? {
            Some(_) if !list.busy => list.make_resident(&allocations, MakeResidentFlags::CANT_TRIM_FURTHER),
            answer => Ok(answer),
        }
    }

    /// What the kernel did not write is evicted as not written to.
    fn submitted(&mut self, list: &mut DeviceList<'_>, named: &[Named]) -> Result<(), EvictError> {
        for (written, flags) in [(true, self.flags), (false, self.flags | EvictFlags::NOT_WRITTEN_TO)] {
            let those = named.iter().filter(|named| named.written == written);
            let allocations: Vec<AllocationId> = those.map(|named| named.allocation).collect();
            list.evict(&allocations, flags)?;
        }
        Ok(())
    }

    fn leave(&mut self, _: &mut DeviceList<'_>, _: AllocationId) -> Result<(), EvictError> {
        Ok(())
    }

    fn trim(&mut self, _: &mut DeviceList<'_>, _: TrimFlags, _: u64) -> Result<(), EvictError> {
        Ok(())
    }

    fn trim_all(&mut self, _: &mut DeviceList<'_>) -> Result<(), EvictError> {
        Ok(())
    }
}
