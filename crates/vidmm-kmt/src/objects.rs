//! The objects of a client.

use std::collections::BTreeMap;

use vidmm::{AllocationId, ContextId, DeviceId, FenceValueDesc, MonitoredFenceId, PagingQueueId, TrimNotificationId};

/// An object that a handle names.
#[derive(Debug)]
pub(crate) enum Object {
    Adapter(Adapter),
    Device(Device),
    PagingQueue(PagingQueue),
    Context(Context),
    /// Of a device.
    Resource(u32),
    Allocation(Allocation),
    Fence(Fence),
    TrimNotification(TrimNotification),
}

impl Object {
    /// The device of the object; none for adapters and devices.
    pub fn device(&self) -> Option<u32> {
        match self {
            Self::Adapter(_) | Self::Device(_) => None,
            Self::PagingQueue(queue) => Some(queue.device),
            Self::Context(context) => Some(context.device),
            Self::Resource(device) => Some(*device),
            Self::TrimNotification(notification) => Some(notification.device),
            Self::Allocation(allocation) => Some(allocation.device),
            Self::Fence(fence) => Some(fence.device),
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
    /// The handles of the paging queues.
    pub queues: Vec<u32>,
    /// The last MakeResident that was refused, if the device has given nothing back since.
    pub refused: Option<Refused>,
    /// The last notification to trim, if the device has given nothing back since.
    pub asked_to_trim: Option<AskedToTrim>,
}

/// A MakeResident that was refused.
#[derive(Clone, Debug)]
pub(crate) struct Refused {
    /// The number of the call.
    pub call: u64,
    pub num_bytes_to_trim: u64,
    /// The bytes of listed allocations that the call did not name, without work in flight on the device.
    pub idle_bytes: u64,
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
    /// The last values that calls of each kind answered: the function, the value, the number of the call.
    pub owed: BTreeMap<&'static str, (u64, u64)>,
}

/// A context.
#[derive(Debug)]
pub(crate) struct Context {
    pub device: u32,
    pub id: ContextId,
    /// The fences that the next work waits for.
    pub waits: Vec<FenceValueDesc>,
    /// The value of each paging queue that the context's work waits for.
    pub awaited: BTreeMap<u32, u64>,
}

/// An allocation.
#[derive(Debug)]
pub(crate) struct Allocation {
    pub device: u32,
    /// The resource; 0 is none.
    pub resource: u32,
    pub id: AllocationId,
    pub size: u64,
    /// How often the device's list names the allocation.
    pub count: u64,
    /// The call that raised the count from 0, and the number of the device's last submission before that.
    pub made_resident: (u64, u64),
    /// The number of the last submission of the device before the last Evict.
    pub last_submission: u64,
    /// How often the CPU has locked the allocation.
    pub locks: u64,
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
    /// The largest value that anything is to signal.
    pub promised: u64,
}

/// The owner of a fence's value.
#[derive(Clone, Copy, Debug)]
pub(crate) enum FenceOf {
    Monitored(MonitoredFenceId),
    /// The handle of the paging queue.
    PagingQueue(u32),
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
    Allocation "allocation",
    Fence "synchronization object",
    TrimNotification "trim notification"
);
