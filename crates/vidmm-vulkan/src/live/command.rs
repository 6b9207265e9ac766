//! The commands of an application to the worker.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::sync::mpsc::Sender;

use ash::vk;
use vidmm::{
    AllocationId, AllocationResidencyStatus, DeviceId, EvictFlags, MakeResidentFlags, MemorySegmentGroup,
    OfferPriority, ProcessId, ReclaimResult, Statistics, TrimFlags, VideoMemoryInfo,
};
use vidmm_runtime::AllocationSegments;

use crate::device::Point;
use crate::error::VulkanError;
use crate::foreign::RecordEviction;
use crate::sparse::Handle;

use super::error::Error;
use super::image_desc::ImageDesc;
use super::names::NamedAllocation;
use super::no_room::ListRoom;

/// Where an answer goes.
pub(super) type Reply<T> = Sender<Result<T, Error>>;

/// The number of a use, in the order in which an adapter's uses were begun.
pub(super) type UseNo = u64;

/// A request to trim (RES-40).
#[doc(alias = "D3DKMT_TRIMNOTIFICATION")]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Trim {
    /// The reasons.
    pub flags: TrimFlags,
    /// The memory whose budget is exceeded; none if that is not the reason.
    pub group: Option<MemorySegmentGroup>,
    /// The bytes to evict for the process to meet its budget, beside what frames have given up; 0 if that is enough, or not the reason. A
    /// trim is not repeated if fewer are evicted.
    pub num_bytes_to_trim: u64,
}

/// The local memory of an adapter.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LocalMemory {
    /// The bytes that the manager may use of it, if nobody restricts them.
    pub bytes: u64,
    /// The bytes that it may use now, if those are fewer: the application has restricted them or pinned some, or others leave no more.
    pub limit: Option<u64>,
    /// The bytes that the application has pinned.
    pub pinned: u64,
    /// The bytes that it has taken from the device, in blocks of 16 MiB: it can be more than there is to use.
    pub allocated: u64,
}

/// A buffer or an image that exists.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct AllocationStatistics {
    /// The names.
    pub allocation: NamedAllocation,
    /// The device.
    pub device: DeviceId,
    /// The size in bytes.
    pub bytes: u64,
    /// The number of ranges: one for an image.
    pub ranges: usize,
    /// The memory, by the decisions so far: as [`Allocation::residency`](super::Allocation::residency) tells.
    pub residency: AllocationResidencyStatus,
    /// The bytes of the ranges in local memory, by the decisions so far.
    pub local_bytes: u64,
    /// The count on the device's own list.
    pub listed: u64,
    /// The content is [offered](super::Device::offer).
    pub is_offered: bool,
    /// Frames have the allocation, or a range of it, on the device's list.
    pub is_held_by_frames: bool,
}

/// The function that is called when a device is to trim.
pub(super) type OnTrim = Box<dyn FnMut(Trim) + Send>;

/// A device that was created.
#[derive(Clone, Copy, Debug)]
pub(super) struct NewDevice {
    pub device: DeviceId,
    /// The point before the first that the worker signals.
    pub ready: Point,
    /// The point before the first that the queue signals.
    pub done: Point,
}

/// An allocation to be created.
pub(super) struct CreateAllocation {
    pub resource: NewResource,
    pub segments: AllocationSegments,
    pub notify_eviction: Option<RecordEviction>,
}

/// The kind of an allocation that is to be created.
pub(super) enum NewResource {
    Buffer { bytes: u64, range_bytes: u64, usage: vk::BufferUsageFlags },
    Image(ImageDesc),
}

/// An allocation that was created.
#[derive(Clone, Copy)]
pub(super) struct NewAllocation {
    pub id: AllocationId,
    pub bytes: u64,
    pub range_bytes: u64,
    pub raw: Handle,
    /// The address of a buffer.
    pub address: u64,
}

/// Commands of an application, for the queue that the manager uses.
#[derive(Clone, Debug, Default)]
pub struct Submission {
    /// The command buffers.
    pub commands: Vec<vk::CommandBuffer>,
    /// Points that they wait for. Whatever reaches them was submitted before, or the host reaches them: on one queue a wait that
    /// is not over holds up all that comes later.
    pub waits: Vec<Point>,
    /// Points that their end reaches.
    pub signals: Vec<Point>,
}

/// The action at the turn of a use.
pub(super) enum Turn {
    /// The application goes on by itself: the value is signalled, and it says when it ends.
    Application { number: UseNo, ready: u64 },
    /// Its commands are submitted.
    Submit { work: Submission, done: u64 },
    /// Bytes are written to a buffer, from an offset on.
    Write { buffer: AllocationId, offset: u64, bytes: Vec<u8>, done: u64 },
    /// Bytes of a buffer are read, from an offset on.
    Read { buffer: AllocationId, offset: u64, bytes: u64, done: u64, to: Sender<Vec<u8>> },
}

/// Ranges of a buffer or an image, by their numbers.
#[derive(Clone, Debug)]
pub(super) struct NamedRanges {
    pub resource: AllocationId,
    pub ranges: Range<u32>,
}

/// The ranges that a frame uses.
#[derive(Clone, Default)]
pub(super) struct FrameAllocations {
    pub read: Vec<NamedRanges>,
    pub written: Vec<NamedRanges>,
}

/// Buffers and images have the name of their first allocation here.
pub(super) enum Command {
    CreateProcess(Reply<ProcessId>),
    DestroyProcess(ProcessId),
    CreateDevice {
        process: ProcessId,
        uses: Arc<AtomicUsize>,
        reply: Reply<NewDevice>,
    },
    DestroyDevice(DeviceId),
    CreateAllocation {
        device: DeviceId,
        desc: CreateAllocation,
        reply: Reply<NewAllocation>,
    },
    DestroyAllocation(AllocationId),
    MakeResident {
        device: DeviceId,
        allocations: Vec<AllocationId>,
        flags: MakeResidentFlags,
        ready: u64,
        reply: Reply<()>,
    },
    QueryRoom {
        device: DeviceId,
        allocations: Vec<AllocationId>,
        reply: Reply<ListRoom>,
    },
    Evict {
        device: DeviceId,
        allocations: Vec<AllocationId>,
        flags: EvictFlags,
    },
    Announce {
        device: DeviceId,
        allocations: Vec<NamedRanges>,
    },
    Offer {
        device: DeviceId,
        allocations: Vec<AllocationId>,
        priority: OfferPriority,
        reply: Reply<()>,
    },
    Reclaim {
        device: DeviceId,
        allocations: Vec<AllocationId>,
        ready: u64,
        reply: Reply<Vec<ReclaimResult>>,
    },
    Begin {
        device: DeviceId,
        turn: Turn,
    },
    /// A use of allocations that are brought in for it.
    BeginFrame {
        device: DeviceId,
        allocations: FrameAllocations,
        turn: Turn,
        reply: Reply<()>,
    },
    End {
        number: UseNo,
        at: Option<Point>,
    },
    OnTrim {
        device: DeviceId,
        call: OnTrim,
    },
    Budget {
        process: ProcessId,
        group: MemorySegmentGroup,
        reply: Reply<VideoMemoryInfo>,
    },
    Residency {
        allocation: AllocationId,
        reply: Reply<AllocationResidencyStatus>,
    },
    /// No more than so much local memory is to be used.
    RestrictLocalMemory(Option<u64>),
    /// So much local memory is the application's own.
    PinLocalMemory {
        bytes: u64,
        reply: Reply<()>,
    },
    /// So much is the manager's again.
    UnpinLocalMemory(u64),
    LocalMemory(Reply<LocalMemory>),
    Statistics(Reply<Statistics>),
    Allocations(Reply<Vec<AllocationStatistics>>),
    /// A name for messages of validation.
    Name {
        allocation: AllocationId,
        name: Arc<str>,
    },
    /// The allocation leaves all lists and local memory.
    Release {
        allocation: AllocationId,
        /// The count on the application's own list.
        listed: u32,
    },
    /// The first paging submission that has not been told of has ended.
    PagingEnded,
    /// The first use that has not been told of has ended.
    UseEnded,
    /// A wait for the GPU has failed.
    Failed(VulkanError),
    /// The last handle of the adapter is gone.
    Stop,
}
