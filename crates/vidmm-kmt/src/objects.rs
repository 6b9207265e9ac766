//! The objects of a client.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use vidmm::{AllocationId, ContextId, DeviceId, FenceValueDesc, MonitoredFenceId, PagingQueueId, TrimNotificationId};

use crate::addresses::Mapping;
use crate::call::{FenceValue, Memory};

/// An object that a handle names.
#[derive(Debug)]
pub(crate) enum Object {
    Adapter(Adapter),
    Device(Device),
    PagingQueue(PagingQueue),
    Context(Context),
    HwQueue(HwQueue),
    Resource(Resource),
    Allocation(Allocation),
    Fence(Fence),
    Semaphore(Semaphore),
    TrimNotification(TrimNotification),
}

impl Object {
    /// The device of the object, or the adapter of a device; none for adapters.
    pub fn owner(&self) -> Option<u32> {
        match self {
            Self::Adapter(_) => None,
            Self::Device(device) => Some(device.adapter),
            Self::PagingQueue(queue) => Some(queue.device),
            Self::Context(context) => Some(context.device),
            Self::HwQueue(queue) => Some(queue.device),
            Self::Resource(resource) => Some(resource.device),
            Self::TrimNotification(notification) => Some(notification.device),
            Self::Allocation(allocation) => Some(allocation.device),
            Self::Fence(fence) => Some(fence.device),
            Self::Semaphore(semaphore) => Some(semaphore.device),
        }
    }
}

/// An adapter.
#[derive(Debug)]
pub(crate) struct Adapter;

/// A device.
#[derive(Debug)]
pub(crate) struct Device {
    pub id: DeviceId,
    pub adapter: u32,
    /// A fence of the library's: each submission of the device signals its number.
    pub progress: MonitoredFenceId,
    pub submitted: u64,
    /// The number of the call of the last submission.
    pub submitted_by: u64,
    /// The handles of the paging queues.
    pub queues: BTreeSet<u32>,
    /// The paging queue of updates of mappings, which is the library's.
    pub companion: Option<u32>,
    /// The last MakeResident that was refused, if the device has given nothing back since.
    pub refused: Option<Refused>,
    /// Whether the device has ever given memory back after a refusal.
    pub has_trimmed: bool,
    /// The last notification to trim, if the device has given nothing back since.
    pub asked_to_trim: Option<AskedToTrim>,
}

/// A MakeResident that was refused.
#[derive(Clone, Debug)]
pub(crate) struct Refused {
    /// The number of the call.
    pub call: u64,
    pub num_bytes_to_trim: u64,
    /// The listed allocations that could make room for those that the call named, without work in flight on the device.
    pub idle: Vec<u32>,
    /// The values of the paging queues' fences at the call.
    pub reached: BTreeMap<u32, u64>,
}

impl Refused {
    /// Whether the program may have been told, before the refusal, that an allocation is resident: all of an earlier call was done. A
    /// driver that takes back the first part of one operation has not waited for that part.
    pub fn is_after_the_end_of(&self, made: MadeResident) -> bool {
        match made.value {
            0 => self.call > made.call + 1,
            value => self.reached.get(&made.queue).is_some_and(|&reached| reached >= value),
        }
    }
}

/// A notification to trim.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AskedToTrim {
    /// The number of the call before the notification.
    pub call: u64,
    pub num_bytes_to_trim: u64,
}

/// A paging queue.
#[derive(Debug)]
pub(crate) struct PagingQueue {
    pub device: u32,
    pub id: PagingQueueId,
    pub fence: u32,
    /// The slot of the fence's value.
    pub slot: usize,
    /// A fence of the library's, with the same value: what contexts wait for.
    pub shown: MonitoredFenceId,
    /// The values that calls have answered, and the fence has not reached.
    pub issued: VecDeque<Issued>,
    /// The last value that a call has answered.
    pub last: u64,
    /// The value that the manager's fence has.
    pub reached: u64,
}

/// A value of a paging queue's fence. Values come in order.
#[derive(Clone, Debug)]
pub(crate) struct Issued {
    pub value: u64,
    pub of: Issuer,
    /// The first value of the manager's fence.
    pub of_manager: u64,
    /// The time that comes first.
    pub not_before: u64,
}

/// The call that answered a value of a paging queue's fence.
#[derive(Clone, Debug)]
pub(crate) struct Issuer {
    pub function: &'static str,
    /// The number of the call.
    pub call: u64,
    /// The allocations that work may use when the fence has the value: resident, or mapped.
    pub allocations: Vec<u32>,
}

/// A context.
#[derive(Debug)]
pub(crate) struct Context {
    pub device: u32,
    pub id: ContextId,
    pub node_ordinal: u32,
    /// `D3DDDI_CREATECONTEXTFLAGS`.
    pub flags: u32,
    /// The fences that the next work waits for.
    pub waits: Vec<FenceValueDesc>,
    /// The value of each fence that the context's work waits for, by the handle of a monitored fence or of a paging queue.
    pub awaited: BTreeMap<u32, u64>,
}

/// A hardware queue of a context.
#[derive(Clone, Copy, Debug)]
pub(crate) struct HwQueue {
    pub device: u32,
    pub context: u32,
    /// A context of the library's, for this queue alone: queues do not wait for each other.
    pub order: u32,
    /// The progress fence: the handle, the slot of the value, and the manager's fence.
    pub fence: u32,
    pub slot: usize,
    pub progress: MonitoredFenceId,
}

/// A resource: allocations that are created, shared and opened together.
#[derive(Debug)]
pub(crate) struct Resource {
    pub device: u32,
    pub is_shared: bool,
    /// In the order of their creation.
    pub allocations: Vec<u32>,
}

/// An allocation on a device: created there, or opened.
#[derive(Clone, Debug)]
pub(crate) struct Allocation {
    pub device: u32,
    /// The resource; 0 is none.
    pub resource: u32,
    pub id: AllocationId,
    pub size: u64,
    pub kinds: Memory,
    /// How often the device's list names the allocation.
    pub count: u64,
    /// The call that raised the count from 0.
    pub made_resident: MadeResident,
    /// The number of the last call that took the allocation off the list.
    pub evicted_by: Option<u64>,
    /// The number of the last submission of the device before the last Evict.
    pub last_submission: u64,
    /// How often the CPU has locked the allocation.
    pub locks: u64,
    /// The call that offered the allocation, until the allocation is reclaimed.
    pub offered: Option<u64>,
    /// Whether other devices may open the allocation.
    pub is_shared: bool,
    /// Whether another handle may name the allocation, or has named it.
    pub is_opened: bool,
    /// The first handle of the allocation. The CPU sees the same memory by all handles.
    pub memory: u32,
}

/// A MakeResident that has put an allocation on the device's list.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct MadeResident {
    /// The number of the call.
    pub call: u64,
    /// The number of the device's last submission before the call.
    pub submitted: u64,
    /// The paging queue, and the value that its fence has when the allocation is resident; 0 is at once.
    pub queue: u32,
    pub value: u64,
}

/// A synchronization object.
#[derive(Debug)]
pub(crate) struct Fence {
    pub device: u32,
    /// The slot of the value in the memory that the client reads.
    pub slot: usize,
    pub of: FenceOf,
    /// The GPU virtual address of the value.
    pub address: u64,
    /// Whether other devices may open the fence.
    pub is_shared: bool,
}

/// A synchronization object without a value, of the time before monitored fences: a semaphore, or a mutex, which is a semaphore of one. A
/// fence counts the signals, and each wait takes the next.
#[derive(Debug)]
pub(crate) struct Semaphore {
    pub device: u32,
    pub id: MonitoredFenceId,
    pub signalled: u64,
    pub waited: u64,
}

/// The owner of a fence's value.
#[derive(Clone, Copy, Debug)]
pub(crate) enum FenceOf {
    Monitored(MonitoredFenceId),
    /// A hardware queue's progress fence.
    HwQueue(MonitoredFenceId),
    /// The handle of the paging queue.
    PagingQueue(u32),
}

/// An update that has not ended.
#[derive(Debug)]
pub(crate) struct Update {
    pub context: u32,
    /// The value that begins the update. The end gives the fence the next value.
    pub fence: FenceValue,
    pub does_not_wait: bool,
    /// The number of the call.
    pub call: u64,
    /// The addresses that change: the first, and the size.
    pub destinations: Vec<(u64, u64)>,
    pub parts: VecDeque<Part>,
    /// The value of the manager's fence behind the last mapping.
    pub mapped: u64,
}

/// A part of an update.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Part {
    Unmap { base: u64, size: u64 },
    Map { base: u64, mapping: Mapping },
}

/// A registration for notifications to trim.
#[derive(Debug)]
pub(crate) struct TrimNotification {
    pub device: u32,
    pub id: TrimNotificationId,
}

/// A kind of object.
pub(crate) trait Kind: Sized {
    /// In words.
    const NAME: &'static str;

    /// The object, if it is of this kind.
    fn of(object: &mut Object) -> Option<&mut Self>;
}

macro_rules! kinds {
    ($($kind:ident $name:literal),*) => {$(
        impl Kind for $kind {
            const NAME: &'static str = $name;

            fn of(object: &mut Object) -> Option<&mut Self> {
                match object {
                    Object::$kind(of) => Some(of),
                    _ => None,
                }
            }
        }
    )*};
}

kinds!(
    Adapter "adapter",
    Device "device",
    PagingQueue "paging queue",
    Context "context",
    HwQueue "hardware queue",
    Resource "resource",
    Allocation "allocation",
    Fence "monitored fence",
    Semaphore "semaphore",
    TrimNotification "trim notification"
);
