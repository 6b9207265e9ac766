//! The keeper of a process's residency list, its view of the list, and the simplest keeper: one kernel's buffers at a
//! time.

use vidmm::{
    AllocationId, DeviceId, EvictError, EvictFlags, InvalidHandle, MakeResidentError, MakeResidentFlags,
    MemorySegmentGroup, Nanoseconds, PagingQueueId, ProcessId, TrimFlags, VidMm,
};

use crate::exact::exact;

/// A buffer that a kernel names.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Named {
    pub allocation: AllocationId,
    /// Its size in bytes.
    pub bytes: u64,
    /// Whether the kernel writes it.
    pub written: bool,
    /// The group that the process asked for it in.
    pub group: MemorySegmentGroup,
    /// Whether it is temporary.
    pub is_temporary: bool,
}

/// A device's list, for its keeper.
pub(crate) struct DeviceList<'v> {
    pub vidmm: &'v mut VidMm,
    pub process: ProcessId,
    pub device: DeviceId,
    pub queue: PagingQueueId,
    /// The time.
    pub now: Nanoseconds,
    /// The number of kernels of the process, from the first on, that have ended: the value that a fence of them all has
    /// reached.
    pub completed: u64,
    /// The number of kernels that it has submitted.
    pub submitted: u64,
}

impl DeviceList<'_> {
    /// Whether kernels of the device are under way: their end makes room.
    pub fn is_busy(&self) -> bool {
        self.completed < self.submitted
    }

    /// Makes allocations resident. Returns the bytes that are missing if there is no room; none is success.
    pub fn make_resident(
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

    /// Takes allocations off the list. Returns the bytes that the process should still trim.
    pub fn evict(&mut self, allocations: &[AllocationId], flags: EvictFlags) -> Result<u64, EvictError> {
        if allocations.is_empty() { Ok(0) } else { self.vidmm.evict(self.device, allocations, flags) }
    }

    /// The process's budget in a group, in bytes.
    pub fn budget(&self, group: MemorySegmentGroup) -> Result<u64, InvalidHandle> {
        Ok(self.vidmm.query_video_memory_info(self.process, group)?.budget)
    }
}

/// Whether all allocations of a kernel are on the list.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[must_use]
pub(crate) enum Listed {
    /// All are: the kernel may be submitted.
    All,
    /// There is no room at present.
    NoMemory { num_bytes_to_trim: u64 },
    /// No room until the process's kernels up to this one have ended, counted from 1.
    WaitsFor(u64),
}

impl From<Option<u64>> for Listed {
    /// The missing bytes are those to trim.
    fn from(missing: Option<u64>) -> Self {
        missing.map_or(Self::All, |num_bytes_to_trim| Self::NoMemory { num_bytes_to_trim })
    }
}

/// The reason why the keeper of a list cannot go on.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub(crate) enum ListError {
    /// MakeResident was refused at the end of a ladder.
    #[error(
        "{} found no memory, and nothing is left that such a client would do", exact(*.bytes)
    )]
    NothingLeft {
        /// The bytes to be made resident, or to be trimmed for that.
        bytes: u64,
    },
    /// MakeResident was refused for another reason than lack of memory.
    #[error(transparent)]
    MakeResident(#[from] MakeResidentError),
    /// Evict was refused: the keeper's record of the list is wrong.
    #[error(transparent)]
    Evict(#[from] EvictError),
    /// An object of the process is gone.
    #[error(transparent)]
    InvalidHandle(#[from] InvalidHandle),
}

/// The keeper of a process's residency list. It is driven one kernel at a time.
pub(crate) trait ListKeeper {
    /// Whether it wants trim notifications (RES-41).
    fn wants_trim_notifications(&self) -> bool {
        false
    }

    /// Tells that an allocation was created, which kernels will use.
    fn created(&mut self, list: &mut DeviceList<'_>, new: &Named) -> Result<(), ListError> {
        let _ = (list, new);
        Ok(())
    }

    /// Puts the allocations of the next kernel on the list, each once. It is called again with the same ones until all
    /// are there.
    fn make_resident(&mut self, list: &mut DeviceList<'_>, named: &[Named]) -> Result<Listed, ListError>;

    /// Tells that the kernel has been submitted.
    fn submitted(&mut self, list: &mut DeviceList<'_>, named: &[Named]) -> Result<(), EvictError> {
        let _ = (list, named);
        Ok(())
    }

    /// Tells that `list.completed` has been reached.
    fn fence_reached(&mut self, list: &mut DeviceList<'_>) -> Result<(), EvictError> {
        let _ = list;
        Ok(())
    }

    /// Takes an allocation that the process does without off the list.
    fn leave(&mut self, list: &mut DeviceList<'_>, allocation: AllocationId) -> Result<(), EvictError>;

    /// Tells that the process is asked to trim.
    fn trim(&mut self, list: &mut DeviceList<'_>, flags: TrimFlags, num_bytes: u64) -> Result<(), EvictError> {
        let _ = (list, flags, num_bytes);
        Ok(())
    }

    /// Takes everything off the list: the application is idle.
    fn trim_all(&mut self, list: &mut DeviceList<'_>) -> Result<(), EvictError>;
}

/// Each kernel's buffers are on the list for the kernel alone.
pub(crate) struct EachKernel {
    /// The flags of Evict.
    pub flags: EvictFlags,
}

impl ListKeeper for EachKernel {
    /// While own kernels are under way the process waits for them; after that it says that it cannot trim further.
    fn make_resident(&mut self, list: &mut DeviceList<'_>, named: &[Named]) -> Result<Listed, ListError> {
        let allocations: Vec<AllocationId> = named.iter().map(|named| named.allocation).collect();
        let missing = match list.make_resident(&allocations, MakeResidentFlags::empty())? {
            Some(_) if !list.is_busy() => list.make_resident(&allocations, MakeResidentFlags::CANT_TRIM_FURTHER)?,
            missing => missing,
        };
        Ok(missing.into())
    }

    /// Evicts the allocations that the kernel did not write as not written to.
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

    fn trim_all(&mut self, _: &mut DeviceList<'_>) -> Result<(), EvictError> {
        Ok(())
    }
}
