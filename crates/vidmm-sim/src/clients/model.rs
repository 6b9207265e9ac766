//! What a model of a client is, and what it works with.

use vidmm::{
    AllocationId, DeviceId, EvictError, EvictFlags, InvalidHandle, MakeResidentError, MakeResidentFlags,
    MemorySegmentGroup, Nanoseconds, PagingQueueId, ProcessId, TrimFlags, VidMm,
};

/// Why a client cannot go on.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ModelError {
    /// MakeResident was refused at the end of the client's ladder.
    #[error("{bytes} bytes found no memory, and nothing is left that the client would do")]
    NothingLeft {
        /// What was to be made resident.
        bytes: u64,
    },
    /// MakeResident was refused for another reason than want of memory.
    #[error(transparent)]
    MakeResident(#[from] MakeResidentError),
    /// Evict was refused: the client's books are wrong.
    #[error(transparent)]
    Evict(#[from] EvictError),
    /// An object of the client's is gone.
    #[error(transparent)]
    InvalidHandle(#[from] InvalidHandle),
}

/// Something that work uses.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Use {
    /// The allocation.
    pub allocation: AllocationId,
    /// Its size in bytes.
    pub bytes: u64,
    /// The group that the client asked for it in.
    pub group: MemorySegmentGroup,
    /// Whether the client made it for a passing purpose, such as an upload.
    pub is_temporary: bool,
}

/// What a client's submission waits for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[must_use]
pub enum Prepared {
    /// Nothing: submit it now.
    Ready,
    /// The client's fence, which must have reached this value before the client is asked again.
    WaitsFor(u64),
}

/// A client's device, for the length of a call.
pub struct ModelDevice<'v> {
    /// The manager.
    pub vidmm: &'v mut VidMm,
    /// The client's process.
    pub process: ProcessId,
    /// Its device.
    pub device: DeviceId,
    /// The paging queue through which it makes resident.
    pub queue: PagingQueueId,
    /// The time.
    pub now: Nanoseconds,
    /// The value that the fence of its work has reached.
    pub completed: u64,
    /// The value that the fence will have reached when all submitted work has ended.
    pub submitted: u64,
}

/// What one client does about residency. It is driven one submission at a time.
pub trait ClientModel {
    /// An allocation was created, which work will use.
    ///
    /// # Errors
    ///
    /// If the client cannot go on.
    fn created(&mut self, device: &mut ModelDevice<'_>, new: &Use) -> Result<(), ModelError> {
        let _ = (device, new);
        Ok(())
    }

    /// Makes resident what the next submission uses, each allocation once. Called again with the same until it is ready.
    ///
    /// # Errors
    ///
    /// If the client cannot go on.
    fn prepare(&mut self, device: &mut ModelDevice<'_>, uses: &[Use]) -> Result<Prepared, ModelError>;

    /// The fence of its work has reached `device.completed`.
    ///
    /// # Errors
    ///
    /// If the client cannot go on.
    fn fence_reached(&mut self, device: &mut ModelDevice<'_>) -> Result<(), ModelError> {
        let _ = device;
        Ok(())
    }

    /// Whether it wants trim notifications.
    fn wants_trim_notifications(&self) -> bool {
        false
    }

    /// It is asked to trim (RES-41).
    ///
    /// # Errors
    ///
    /// If the client cannot go on.
    fn trim(
        &mut self,
        device: &mut ModelDevice<'_>,
        flags: TrimFlags,
        num_bytes_to_trim: u64,
    ) -> Result<(), ModelError> {
        let _ = (device, flags, num_bytes_to_trim);
        Ok(())
    }
}

impl ModelDevice<'_> {
    /// Makes allocations resident. Returns how many bytes to trim if that is refused for want of memory; none is success.
    pub(super) fn make_resident(
        &mut self,
        allocations: &[AllocationId],
        flags: MakeResidentFlags,
    ) -> Result<Option<u64>, MakeResidentError> {
        if allocations.is_empty() {
            return Ok(None);
        }
        match self.vidmm.make_resident(self.queue, allocations, flags) {
            Ok(_) => Ok(None),
            Err(MakeResidentError::NoMemory { num_bytes_to_trim, .. }) => Ok(Some(num_bytes_to_trim)),
            Err(error) => Err(error),
        }
    }

    /// Takes allocations off the list.
    pub(super) fn evict(&mut self, allocations: &[AllocationId], flags: EvictFlags) -> Result<(), EvictError> {
        if allocations.is_empty() { Ok(()) } else { self.vidmm.evict(self.device, allocations, flags).map(drop) }
    }

    /// The process's budget in a group, in bytes.
    pub(super) fn budget(&self, group: MemorySegmentGroup) -> Result<u64, InvalidHandle> {
        Ok(self.vidmm.query_video_memory_info(self.process, group)?.budget)
    }
}
