//! The calls of a client, and their answers, as plain data.

use serde::{Deserialize, Serialize};

use crate::status::Status;

/// The kinds of memory that an allocation may be in.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Memory {
    /// Local memory alone.
    Local,
    /// System memory alone.
    System,
    /// Local memory by preference, else system memory.
    LocalOrSystem,
}

/// An allocation to be created.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct AllocationInfo {
    /// In bytes.
    pub size: u64,
    /// The kinds of memory.
    pub memory: Memory,
    /// Whether the CPU may lock the allocation.
    pub lockable: bool,
}

/// A fence and a value.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct FenceValue {
    /// The handle of a monitored fence, or of a paging queue's fence.
    pub fence: u32,
    /// The value.
    pub value: u64,
}

/// An operation of UpdateGpuVirtualAddress.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[allow(missing_docs, reason = "the fields have the names of WDDM's structs")]
pub enum UpdateOperation {
    /// Maps a part of an allocation, as often as the part fits.
    Map {
        base: u64,
        size: u64,
        allocation: u32,
        offset: u64,
        allocation_size: u64,
        protection: u64,
        driver_protection: u64,
    },
    Unmap {
        base: u64,
        size: u64,
    },
    /// Maps at `base` what is mapped at `source`.
    Copy {
        source: u64,
        base: u64,
        size: u64,
    },
}

impl UpdateOperation {
    /// The addresses that change: the first, and the size.
    pub fn destination(&self) -> (u64, u64) {
        match *self {
            Self::Map { base, size, .. } | Self::Unmap { base, size } | Self::Copy { base, size, .. } => (base, size),
        }
    }
}

/// A call. Handles are those that earlier replies gave; sizes and addresses are in bytes.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[allow(missing_docs, reason = "the fields have the names of WDDM's structs")]
pub enum Call {
    OpenAdapter,
    CloseAdapter {
        adapter: u32,
    },
    QueryAdapterInfo {
        adapter: u32,
        info_type: i32,
    },
    CreateDevice {
        adapter: u32,
    },
    DestroyDevice {
        device: u32,
    },
    GetDeviceState {
        device: u32,
    },
    CreatePagingQueue {
        device: u32,
        priority: i32,
    },
    DestroyPagingQueue {
        paging_queue: u32,
    },
    CreateContext {
        device: u32,
        node_ordinal: u32,
        flags: u32,
    },
    DestroyContext {
        context: u32,
    },
    CreateHwQueue {
        context: u32,
    },
    DestroyHwQueue {
        hw_queue: u32,
    },
    /// Queues commands at a GPU virtual address. Their end signals the queue's progress fence.
    SubmitCommandToHwQueue {
        hw_queue: u32,
        commands: u64,
        progress_fence_value: u64,
    },
    SubmitWaitForSyncObjectsToHwQueue {
        hw_queue: u32,
        fences: Vec<FenceValue>,
    },
    SubmitSignalSyncObjectsToHwQueue {
        hw_queue: u32,
        fences: Vec<FenceValue>,
    },
    SetContextSchedulingPriority {
        context: u32,
        priority: i32,
    },
    /// Creates allocations: of a new resource, of the resource that is named, or of none.
    CreateAllocation {
        device: u32,
        resource: u32,
        creates_resource: bool,
        is_shared: bool,
        allocations: Vec<AllocationInfo>,
    },
    /// Answers how many allocations a shared resource has.
    QueryResourceInfo {
        device: u32,
        resource: u32,
    },
    /// Opens a shared resource on another device.
    OpenResource {
        device: u32,
        resource: u32,
    },
    DestroyAllocation {
        device: u32,
        resource: u32,
        allocations: Vec<u32>,
        flags: u32,
    },
    SetAllocationPriority {
        device: u32,
        allocations: Vec<u32>,
        priorities: Vec<u32>,
    },
    /// Changes the supported and the preferred segments of an allocation; none leaves the segments as they are.
    UpdateAllocationProperty {
        paging_queue: u32,
        allocation: u32,
        supported_segment_set: Option<u32>,
        preferred_segments: Option<[u8; 5]>,
    },
    InvalidateCache {
        device: u32,
        allocation: u32,
        offset: u64,
        length: u64,
    },
    QueryAllocationResidency {
        device: u32,
        allocations: Vec<u32>,
    },
    ReserveGpuVirtualAddress {
        object: u32,
        base: u64,
        minimum: u64,
        maximum: u64,
        size: u64,
    },
    MapGpuVirtualAddress {
        paging_queue: u32,
        allocation: u32,
        base: u64,
        minimum: u64,
        maximum: u64,
        offset: u64,
        size: u64,
        protection: u64,
        driver_protection: u64,
    },
    /// Changes mappings in a reservation, when a fence has a value; then the fence gets the next value.
    UpdateGpuVirtualAddress {
        context: u32,
        fence: FenceValue,
        does_not_wait: bool,
        operations: Vec<UpdateOperation>,
    },
    FreeGpuVirtualAddress {
        adapter: u32,
        base: u64,
        size: u64,
    },
    /// Answers whether a MakeResident would be accepted. The values: the bytes with room now, the bytes with room after trims, the bytes of
    /// other processes beyond their reservations; first of local memory, then of system memory.
    QueryRoom {
        device: u32,
        allocations: Vec<u32>,
    },
    MakeResident {
        paging_queue: u32,
        allocations: Vec<u32>,
        flags: u32,
    },
    Evict {
        device: u32,
        allocations: Vec<u32>,
        flags: u32,
    },
    OfferAllocations {
        device: u32,
        allocations: Vec<u32>,
        priority: u32,
    },
    ReclaimAllocations {
        paging_queue: u32,
        allocations: Vec<u32>,
    },
    Lock {
        device: u32,
        allocation: u32,
    },
    Unlock {
        device: u32,
        allocation: u32,
    },
    /// Queues commands of `length` bytes at a GPU virtual address, with the fence that the private data names by the GPU virtual
    /// address of the fence's value; 0 is none.
    SubmitCommand {
        context: u32,
        commands: u64,
        length: u32,
        fence_address: u64,
        fence_value: u64,
    },
    /// Makes a descriptor that other devices open the objects by.
    ShareObjects {
        objects: Vec<u32>,
    },
    CreateMonitoredFence {
        device: u32,
        initial_value: u64,
        is_shared: bool,
    },
    /// Opens a shared fence on another device.
    OpenSyncObject {
        device: u32,
        fence: u32,
    },
    DestroySynchronizationObject {
        fence: u32,
    },
    SignalFromCpu {
        device: u32,
        fences: Vec<FenceValue>,
    },
    SignalFromGpu {
        context: u32,
        fences: Vec<FenceValue>,
    },
    WaitFromGpu {
        context: u32,
        fences: Vec<FenceValue>,
    },
    /// Creates a semaphore, or a mutex that is a semaphore of one.
    CreateSemaphore {
        device: u32,
        initial_count: u64,
    },
    SignalSemaphores {
        context: u32,
        semaphores: Vec<u32>,
    },
    WaitForSemaphores {
        context: u32,
        semaphores: Vec<u32>,
    },
    /// Lets time pass until all fences have their values, or any fence.
    WaitFromCpu {
        device: u32,
        fences: Vec<FenceValue>,
        any: bool,
    },
    /// Lets an event be signalled when all fences have their values, or any fence.
    SignalEventFromFences {
        device: u32,
        fences: Vec<FenceValue>,
        any: bool,
    },
    /// The client's wait has lasted for seconds of real time, and nothing was to signal the fences.
    GiveUpWaiting {
        fences: Vec<FenceValue>,
    },
    QueryVideoMemoryInfo {
        adapter: u32,
        local: bool,
    },
    /// Answers the limit, the bytes on lists, and the resident bytes of a memory; of the process alone, or of all.
    QueryStatistics {
        local: bool,
        of_process: bool,
    },
    /// Answers the time in nanoseconds.
    QueryClockCalibration {
        adapter: u32,
    },
    ChangeVideoMemoryReservation {
        adapter: u32,
        local: bool,
        bytes: u64,
    },
    RegisterTrimNotification {
        device: u32,
    },
    UnregisterTrimNotification {
        notification: u32,
    },
    /// A function that the library does not have.
    NotSupported {
        function: String,
    },
    /// No call: time passes until this moment, in nanoseconds since the start.
    TimePasses {
        until: u64,
    },
}

impl Call {
    /// The name of the function, without `D3DKMT`.
    pub fn name(&self) -> String {
        if let Self::NotSupported { function } = self {
            return function.trim_start_matches("D3DKMT").to_owned();
        }
        // The log has the names of the functions in another case.
        let text = serde_json::to_value(self).unwrap_or_default();
        let named = text.as_str().or_else(|| text.as_object().and_then(|of| of.keys().next().map(String::as_str)));
        let words = named.unwrap_or_default().split('_');
        words.map(|word| word[..1].to_uppercase() + &word[1..]).collect()
    }
}

/// The answer to a call. What a call does not answer is empty or 0.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Reply {
    /// The status.
    pub status: Status,
    /// New handles, in the order of the struct's fields.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub handles: Vec<u32>,
    /// The paging fence's value, or a device's state, or a residency status for each allocation, or the figures of a budget.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub values: Vec<u64>,
    /// A GPU virtual address.
    #[serde(skip_serializing_if = "is_zero")]
    pub address: u64,
    /// The bytes to trim.
    #[serde(skip_serializing_if = "is_zero")]
    pub num_bytes_to_trim: u64,
    /// The reason of a refusal, for the log.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub reason: String,
}

fn is_zero(number: &u64) -> bool {
    *number == 0
}

impl Reply {
    /// A refusal with a reason.
    pub(crate) fn refused(status: Status, reason: impl ToString) -> Self {
        Self { status, reason: reason.to_string(), ..Self::default() }
    }

    /// A success with new handles.
    pub(crate) fn created(handles: impl Into<Vec<u32>>) -> Self {
        Self { handles: handles.into(), ..Self::default() }
    }

    /// A paging fence's value: pending unless it is 0.
    pub(crate) fn paging(value: u64) -> Self {
        let status = if value == 0 { Status::SUCCESS } else { Status::PENDING };
        Self { status, values: vec![value], ..Self::default() }
    }

    /// The first value; 0 without a value.
    pub fn value(&self) -> u64 {
        self.values.first().copied().unwrap_or(0)
    }

    /// The first handle; 0 without a handle.
    pub fn handle(&self) -> u32 {
        self.handles.first().copied().unwrap_or(0)
    }
}
