//! The commands of an application to the worker.

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

use super::error::Error;
use super::uses::Submission;

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
    /// The bytes to evict for the process to meet its budget, beside what frames have given up; 0 if that is not the reason.
    pub num_bytes_to_trim: u64,
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

/// A buffer to be created.
pub(super) struct CreateBuffer {
    pub bytes: u64,
    pub usage: vk::BufferUsageFlags,
    pub segments: AllocationSegments,
    pub notify_eviction: Option<RecordEviction>,
}

/// A buffer that was created.
#[derive(Clone, Copy, Debug)]
pub(super) struct NewBuffer {
    pub allocation: AllocationId,
    pub raw: vk::Buffer,
    pub address: u64,
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

/// The buffers that a frame uses.
pub(super) struct FrameBuffers {
    pub read: Vec<AllocationId>,
    pub written: Vec<AllocationId>,
}

pub(super) enum Command {
    CreateProcess(Reply<ProcessId>),
    DestroyProcess(ProcessId),
    CreateDevice {
        process: ProcessId,
        uses: Arc<AtomicUsize>,
        reply: Reply<NewDevice>,
    },
    DestroyDevice(DeviceId),
    CreateBuffer {
        device: DeviceId,
        desc: CreateBuffer,
        reply: Reply<NewBuffer>,
    },
    DestroyBuffer(AllocationId),
    MakeResident {
        device: DeviceId,
        buffers: Vec<AllocationId>,
        flags: MakeResidentFlags,
        ready: u64,
        reply: Reply<()>,
    },
    Evict {
        device: DeviceId,
        buffers: Vec<AllocationId>,
        flags: EvictFlags,
    },
    Offer {
        device: DeviceId,
        buffers: Vec<AllocationId>,
        priority: OfferPriority,
        reply: Reply<()>,
    },
    Reclaim {
        device: DeviceId,
        buffers: Vec<AllocationId>,
        ready: u64,
        reply: Reply<Vec<ReclaimResult>>,
    },
    Begin {
        device: DeviceId,
        turn: Turn,
    },
    /// A use of buffers that are brought in for it.
    BeginFrame {
        device: DeviceId,
        buffers: FrameBuffers,
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
        buffer: AllocationId,
        reply: Reply<AllocationResidencyStatus>,
    },
    Statistics(Reply<Statistics>),
    /// The first paging submission that has not been told of has ended.
    PagingEnded,
    /// The first use that has not been told of has ended.
    UseEnded,
    /// A wait for the GPU has failed.
    Failed(VulkanError),
    /// The last handle of the adapter is gone.
    Stop,
}
