//! The errors. A caller's mistake is an error of the call and changes nothing; a driver's mistake is a [`Violation`] and puts
//! the adapter in error; a program's mistake puts the program's device in error.

use alloc::{format, string::String, vec::Vec};

use crate::{
    adapter::patching::PatchListRule,
    budget::MemoryAccount,
    contract::{
        AddressingModel, AllocationFlags2, BackingStoreError, BuildStatus, CpuAddressError, CreateAllocationError,
        EngineFence, KmdAllocationHandle, KmdError, PagingOperationKind,
    },
    gpu_va::VaRangeError,
    id::{AllocationId, DeviceId, InvalidHandle},
    units::{Bytes, GpuVirtualAddress, PhysicalAddress, SegmentId},
};

/// A rule of the contract that the driver or the GPU broke. The text names the fact.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(tag = "kind", rename_all = "snake_case"))]
pub enum Violation {
    /// The driver claims to have written more than the buffer holds.
    #[error(
        "BPB-02: the driver claims {dma_bytes} bytes of commands and {private_bytes} of private data for {}, more than were left",
        of_what(*.operation)
    )]
    BufferOverrun {
        /// The requested operation; none for the commands of a user-mode driver.
        operation: Option<PagingOperationKind>,
        /// Bytes of commands claimed.
        dma_bytes: usize,
        /// Bytes of private data claimed.
        private_bytes: usize,
    },
    /// The driver answered a build with an undocumented status.
    #[error("BPB-01: illegal status {status:#010x} from BuildPagingBuffer, for {operation}")]
    IllegalStatus {
        /// The requested operation.
        operation: PagingOperationKind,
        /// The NTSTATUS.
        status: i32,
    },
    /// Fresh full-size buffers brought no progress: a buffer with an unchanged multipass offset, or two buffers in a row.
    #[error("BPB-05, U-10: the driver wrote nothing into a new buffer and asked for another, for {}", of_allocation(*.operation, *.allocation))]
    NoProgress {
        /// The requested operation.
        operation: PagingOperationKind,
        /// The allocation.
        #[cfg_attr(feature = "serde", serde(rename = "allocation_handle"))]
        allocation: Option<KmdAllocationHandle>,
    },
    /// An operation takes more buffers than any encoding of it could.
    #[error("BPB-05, U-10: the driver asked for another buffer {passes} times for {}", of_allocation(*.operation, *.allocation))]
    TooManyPasses {
        /// The requested operation.
        operation: PagingOperationKind,
        /// The allocation.
        #[cfg_attr(feature = "serde", serde(rename = "allocation_handle"))]
        allocation: Option<KmdAllocationHandle>,
        /// The number of buffers; a buffer for each 4 KiB, plus 64, is tolerated.
        passes: u64,
    },
    /// Busy was answered although the allocation is idle.
    #[error("BPB-06, U-11: the driver answered busy although the allocation is idle, for {}", of_allocation(*.operation, *.allocation))]
    BusyWhileIdle {
        /// The requested operation.
        operation: PagingOperationKind,
        /// The allocation.
        #[cfg_attr(feature = "serde", serde(rename = "allocation_handle"))]
        allocation: Option<KmdAllocationHandle>,
    },
    /// An operation that the CPU carries out at once was not carried out.
    #[error(
        "BPB-08: {operation} without a paging buffer was answered {status:?}, with {dma_bytes} bytes of commands and {private_bytes} of private data; the CPU carries it out at once, with success and no bytes"
    )]
    NotAtOnce {
        /// The requested operation.
        operation: PagingOperationKind,
        /// The driver's answer.
        status: BuildStatus,
        /// Bytes of commands claimed.
        dma_bytes: usize,
        /// Bytes of private data claimed.
        private_bytes: usize,
    },
    /// The driver names an aborted packet that was not under way.
    #[doc(alias = "VIDEO_SCHEDULER_INTERNAL_ERROR")]
    #[error(
        "FLT-22: after its reset engine {engine} names {last_aborted} as the last aborted fence; it must be from {last_completed} to {last_submitted}"
    )]
    AbortedFence {
        /// The engine.
        engine: u32,
        /// The driver's answer.
        last_aborted: u64,
        /// The last fence that had been completed.
        last_completed: u64,
        /// The last fence that had been submitted.
        last_submitted: u64,
    },
    /// A yielding or reset engine did not return a packet without a run.
    #[error("FLT-22: engine {} has not run the packet of fence {}, and did not give it back", .missing.engine, .missing.fence_id)]
    PacketNotReturned {
        /// The packet.
        missing: EngineFence,
    },
    /// The driver did not come back from a reset.
    #[doc(alias = "VIDEO_TDR_FAILURE")]
    #[error("FLT-30: the driver did not return from a reset within TdrDdiDelay")]
    ResetDoesNotReturn,
    /// The driver could not restart the adapter.
    #[error("FLT-32: the driver could not restart the adapter after its reset")]
    RestartFailed,
    /// The driver did not encode the operations behind a reset.
    #[error("BPB-27: the driver refused an operation between reset and restart; there is nothing in it to refuse")]
    PurgeRefused,
    /// The adapter was reset too often.
    #[error("FLT-31: the adapter was reset {resets} times within {seconds} seconds, and hangs again")]
    TooManyResets {
        /// The number of tolerated resets.
        resets: u32,
        /// The period of the tolerated resets, in seconds.
        seconds: u64,
    },
    /// The driver reports that the hardware is broken.
    #[error("FLT-10: the driver reports a fatal hardware error")]
    FatalHardwareError,
    /// The driver created an allocation with an impossible property.
    #[error("CRE-03: the driver created an allocation with {rule}")]
    AllocationInfo {
        /// The property.
        rule: AllocationInfoRule,
    },
}

fn of_allocation(operation: PagingOperationKind, allocation: Option<KmdAllocationHandle>) -> String {
    match allocation {
        Some(KmdAllocationHandle(handle)) => {
            format!("{operation} of the allocation with the driver's handle {handle:#x}")
        }
        None => format!("{operation}"),
    }
}

/// The reason why the paging process of an adapter has no GPU virtual addresses.
const fn no_paging_va(model: AddressingModel) -> &'static str {
    match model {
        AddressingModel::Physical => "the engines of the adapter use physical addresses",
        AddressingModel::GpuMmu | AddressingModel::GpuVaIoMmu | AddressingModel::GpuVaIoMmuGlobal => {
            "the adapter has neither a local memory segment nor hardware scheduling"
        }
    }
}

fn of_what(operation: Option<PagingOperationKind>) -> &'static str {
    operation.map_or("a command buffer", PagingOperationKind::name)
}

/// A finding for the driver's author, an error or [advice](Self::is_advice); no call is refused. Each kind is reported once.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(tag = "kind", rename_all = "snake_case"))]
pub enum DriverFinding {
    /// A patch-location list breaks a rule; the device is in error (U-45).
    #[error("patch location number {position} of a DMA buffer breaks a rule: {rule}")]
    PatchLocationList {
        /// The position in the driver's list.
        position: usize,
        /// The rule.
        rule: PatchListRule,
    },
    /// The driver reports no aperture segment: nothing can be resident in system memory (SEG-11).
    #[error("SEG-10: the driver reports no aperture segment; WDDM 2 asks for one")]
    NoApertureSegment,
    /// The driver gave the paging process an address space, which the manager ignores.
    #[error(
        "PGV-03: physical adapter {physical_adapter_index} asks for a paging process address space of {asked_mib} MiB, which is ignored: without a local memory segment and without hardware scheduling there is none"
    )]
    PagingVaIgnored {
        /// The physical adapter.
        physical_adapter_index: u32,
        /// The driver's answer in MiB.
        asked_mib: u32,
    },
    /// The driver gave the paging process an address space where engines use physical addresses.
    #[error(
        "PGV-03: physical adapter {physical_adapter_index} asks for a paging process address space of {asked_mib} MiB, which is ignored: its engines use physical addresses, and so does the paging process"
    )]
    PagingVaWithPhysicalAddresses {
        /// The physical adapter.
        physical_adapter_index: u32,
        /// The driver's answer in MiB.
        asked_mib: u32,
    },
    /// The driver's size was rounded up.
    #[error(
        "U-16: physical adapter {physical_adapter_index} asks for a paging process address space of {asked_mib} MiB and gets {}: it is made of whole page tables, and is not below 4 MiB",
        Bytes(*.paging_va_size)
    )]
    PagingVaRounded {
        /// The physical adapter.
        physical_adapter_index: u32,
        /// The driver's answer in MiB.
        asked_mib: u32,
        /// The resulting size, in bytes.
        paging_va_size: u64,
    },
    /// The driver's size was cut down to the largest possible size.
    #[error(
        "PGV-04: physical adapter {physical_adapter_index} asks for a paging process address space of {asked_mib} MiB and gets {} MiB: its page tables stay resident for ever, and no window can be larger than the address space or any allocation",
        .paging_va_size >> 20
    )]
    PagingVaClamped {
        /// The physical adapter.
        physical_adapter_index: u32,
        /// The driver's answer in MiB.
        asked_mib: u32,
        /// The resulting size, in bytes.
        paging_va_size: u64,
    },
    /// The driver's size is larger than the default although the adapter has local memory.
    #[error(
        "PGV-04: physical adapter {physical_adapter_index} has local memory and asks for a paging process address space of {asked_mib} MiB, more than the default of {}: its page tables take {} that stay resident for ever; answer 0 to leave the size to the system",
        Bytes(*.default_size),
        Bytes(*.table_bytes)
    )]
    PagingVaNeedlesslyLarge {
        /// The physical adapter.
        physical_adapter_index: u32,
        /// The driver's answer in MiB.
        asked_mib: u32,
        /// The system's own choice of the size, in bytes.
        default_size: u64,
        /// Bytes of page tables for the size.
        table_bytes: u64,
    },
    /// An allocation is larger than a window of the paging process: the driver is notified in chunks.
    #[error(
        "PGV-05: an allocation of {} that asks for notifications does not fit into the paging process's address space of {}: it is notified in {} chunks; answer PAGINGPROCESSGPUVASIZE with a larger size if the driver needs it whole",
        Bytes(*.size),
        Bytes(*.paging_va_size),
        .size.div_ceil(*.paging_va_size)
    )]
    AllocationBeyondPagingVa {
        /// The allocation's size in bytes.
        size: u64,
        /// The size of a window in bytes.
        paging_va_size: u64,
    },
    /// The driver set a flag outside of the driver's interface version.
    #[error(
        "CRE-07: an allocation sets flags {flags2:?}, which begin with WDDM 3.2 (0x11007); the driver declares {wddm_version:#x}, so they are ignored"
    )]
    FlagsBeyondVersion {
        /// The flags.
        flags2: AllocationFlags2,
        /// The interface version that the driver declares.
        wddm_version: u32,
    },
    /// The driver asks for notifications of an IOMMU without unmaps.
    #[error(
        "NTF-05: an allocation sets NotifyIoMmuUnmap, but the adapter's addressing model is neither GpuVaIoMmu nor GpuVaIoMmuGlobal: it is never sent"
    )]
    NotifyIoMmuUnmapWithoutIoMmu,
    /// An engine signalled an ended fence: a late or doubled interrupt. The interrupt changes nothing.
    #[error("SYN-13: engine {} signalled fence {}, which had ended before; that is ignored", .found.engine, .found.fence_id)]
    CompletedAgain {
        /// The signalled fence.
        found: EngineFence,
    },
    /// An engine signalled an unknown fence. The interrupt changes nothing.
    #[error("SYN-13: engine {} signalled fence {}, which it was never given; that is ignored", .found.engine, .found.fence_id)]
    CompletedForeign {
        /// The signalled fence.
        found: EngineFence,
    },
    /// An engine signalled a fence before an earlier fence: the earlier packet has ended too, for engines run packets in order.
    #[error(
        "SYN-13: engine {} has come to fence {}, and fence {expected} was never reported: its interrupt must have been lost",
        .found.engine,
        .found.fence_id
    )]
    InterruptLost {
        /// The signalled fence.
        found: EngineFence,
        /// The first fence without a signal.
        expected: u64,
    },
    /// An engine has yielded without a request. The answer changes nothing.
    #[error(
        "FLT-22: engine {engine} answers a request to yield, number {preemption_fence_id}, that was not made or was answered"
    )]
    PreemptedUnasked {
        /// The engine.
        engine: u32,
        /// The named number.
        preemption_fence_id: u64,
    },
    /// The driver answered a reset without a request. The answer changes nothing.
    #[error("FLT-21: the driver reports the reset of engine {engine}, which nobody asked for")]
    ResetUnasked {
        /// The engine.
        engine: u32,
    },
    /// The driver answered a step of the adapter's reset without a request. The answer changes nothing.
    #[error("FLT-32: the driver reports a step of a reset of the adapter that nobody asked for")]
    AdapterResetUnasked,
    /// A reported fault names no running packet, or contradicts itself. The report is ignored; a stopped engine will be found
    /// hung.
    #[error(
        "FLT-11: a fault is reported of fence {fence_id} on engine {engine}, which is not under way there; without a known packet the fence is 0, FENCE_INVALID is set, and so is a reset bit"
    )]
    FaultData {
        /// The named engine.
        engine: u32,
        /// The named fence.
        fence_id: u64,
    },
    /// The driver answered busy to an operation without a documented busy answer. The driver is called again once the GPU is
    /// idle.
    #[error(
        "BPB-06: the driver answered busy to {operation}; that is documented for TRANSFER, DISCARD_CONTENT and SPECIAL_LOCK_TRANSFER only"
    )]
    BusyUndocumented {
        /// The operation.
        operation: PagingOperationKind,
    },
    /// All patch locations of a DMA buffer have one split offset, and a slot is bound anew in between.
    #[error(
        "SPL-01: patch location number {position} binds slot {slot_id} anew, and the whole DMA buffer has one split offset: it cannot be split; a driver must support that"
    )]
    NoSplitPoint {
        /// The patch location's position in the driver's list.
        position: usize,
        /// The slot.
        slot_id: u32,
    },
    /// A split point only adds bindings: nothing is unbound or reprogrammed. The verifier of Windows rejects such a packet.
    #[error(
        "SPL-12: the patch locations from number {position} neither unbind nor reprogram a slot at their split point, though allocations are bound: the bindings leak; a driver that patches no DMA buffer reports NoDmaPatching"
    )]
    BindingLeak {
        /// The position of the first patch location of the split point.
        position: usize,
    },
    /// An allocation that takes a quarter of the largest memory segment, or more, is bound across a split point.
    #[error(
        "SPL-08: an allocation of {} stays bound to slot {slot_id} across the split point of patch location number {position}, so that it cannot move there: reprogram large allocations at each split point, and unbind them early",
        Bytes(*.size)
    )]
    LargeStaysBound {
        /// The position of the first patch location of the split point.
        position: usize,
        /// The slot.
        slot_id: u32,
        /// The allocation's size in bytes.
        size: u64,
    },
    /// A slot is bound anew between two split points: the old and the new allocation are brought in together.
    #[error(
        "SPL-09: patch location number {position} binds slot {slot_id} anew between two split points: place a split point at every bind and unbind"
    )]
    MissingSplitPoint {
        /// The patch location's position in the driver's list.
        position: usize,
        /// The slot.
        slot_id: u32,
    },
}

impl DriverFinding {
    /// Whether the finding is about a patch-location list that breaks no rule.
    pub const fn is_of_patch_list(&self) -> bool {
        matches!(
            self,
            Self::NoSplitPoint { .. }
                | Self::BindingLeak { .. }
                | Self::LargeStaysBound { .. }
                | Self::MissingSplitPoint { .. }
        )
    }

    /// Whether the finding is advice: the driver breaks no rule.
    pub const fn is_advice(&self) -> bool {
        matches!(
            self,
            Self::PagingVaNeedlesslyLarge { .. }
                | Self::AllocationBeyondPagingVa { .. }
                | Self::LargeStaysBound { .. }
                | Self::MissingSplitPoint { .. }
        )
    }

    /// Whether both findings are of the same kind, reported once.
    pub(crate) fn is_of_kind(&self, other: &DriverFinding) -> bool {
        match (self, other) {
            (
                DriverFinding::BusyUndocumented { operation: one },
                DriverFinding::BusyUndocumented { operation: two },
            ) => one == two,
            (
                DriverFinding::PagingVaIgnored { .. }
                | DriverFinding::PagingVaWithPhysicalAddresses { .. }
                | DriverFinding::PagingVaRounded { .. }
                | DriverFinding::PagingVaClamped { .. }
                | DriverFinding::PagingVaNeedlesslyLarge { .. },
                _,
            ) => self == other,
            _ => core::mem::discriminant(self) == core::mem::discriminant(other),
        }
    }
}

/// The impossible property of a driver's allocation.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(tag = "kind", content = "value", rename_all = "snake_case"))]
pub enum AllocationInfoRule {
    /// No bytes, or a number of bytes whose rounding overflows.
    #[error("a size of {}", Bytes(*.0))]
    Size(u64),
    /// Not a power of two, or finer than the pool's pages (SEG-46).
    #[error("an alignment of {}; it must be 0 or a power of two that the segment's pages divide", Bytes(u64::from(*.0)))]
    Alignment(u32),
    /// An empty set, or a set with an unreported segment (SEG-40).
    #[error("a supported segment set of {0:#x}")]
    SegmentSet(u32),
    /// A preferred segment outside the supported set (SEG-42).
    #[error("segment {0} as preferred, which is not in its supported set")]
    PreferredSegment(u8),
    /// An eviction segment set with a segment other than the aperture, or with a missing segment (SEG-45).
    #[error("an eviction segment set of {0:#x}, which may name the aperture segment only")]
    EvictionSegmentSet(u32),
    /// A hint at a bank outside of the first preferred segment (SEG-43).
    #[error("bank {0} as hinted, which the segment of first preference does not have")]
    HintedBank(u8),
    /// Priority 0 (CRE-05).
    #[error("an initial priority of 0")]
    Priority,
    /// PERMANENT_SYS_MEM of an allocation hidden from the CPU, or together with EXISTING_SYS_MEM (2.2).
    #[error("PermanentSysMem, which needs CpuVisible and excludes ExistingSysMem")]
    PermanentSysMem,
    /// CACHED of an allocation hidden from the CPU (2.2).
    #[error("Cached, which needs CpuVisible")]
    Cached,
    /// EXISTING_SYS_MEM without memory of the caller, or memory of the caller without EXISTING_SYS_MEM (2.2).
    #[error(
        "ExistingSysMem of memory at {0:x?}: the caller must give memory with the flag and only with it, in system memory and at a multiple of 64 KiB"
    )]
    ExistingSysMem(Option<PhysicalAddress>),
    /// EXPLICIT_RESIDENCY_NOTIFICATION without ACCESSED_PHYSICALLY (BPB-51).
    #[error("ExplicitResidencyNotification, which needs AccessedPhysically (BPB-51)")]
    ExplicitResidencyNotification,
}

/// The reason why a device is in error.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(tag = "kind", rename_all = "snake_case"))]
pub enum DeviceErrorReason {
    /// The device's work accessed unmapped or non-resident memory (FLT-03).
    #[error("its work accessed {virtual_address}, where nothing is resident (FLT-03)")]
    PageFault {
        /// The address.
        virtual_address: GpuVirtualAddress,
    },
    /// The device's work has a command unknown to the GPU (FLT-12).
    #[error("its work holds a command that means nothing to the GPU (FLT-12)")]
    IllegalCommand,
    /// The device's work did not end (FLT-31).
    #[doc(alias = "VIDEO_ENGINE_TIMEOUT_DETECTED")]
    #[error("its work ran for too long and did not yield, and its engine was reset (FLT-22)")]
    EngineTimeout,
    /// The device's packet was on an engine that another engine's reset harms, and did not yield in time (FLT-26). The device
    /// hung nothing.
    #[error("an engine that its work runs on is harmed by the reset of another, and was reset with it (FLT-26)")]
    DependentEngineReset,
    /// A reset of an engine failed, or did not help.
    #[error("an engine could not be reset, and the adapter was (FLT-30)")]
    EngineTimeoutPromotedToAdapterReset,
    /// The paging engine did not come to an end.
    #[error("the paging engine hung, and the adapter was reset (FLT-23)")]
    PagingEngineTimeout,
    /// The adapter was reset while a paging buffer was under way for an allocation of the device.
    #[error("a paging buffer for one of its allocations faulted, and the adapter was reset (FLT-23)")]
    PagingBufferFault,
    /// The adapter was reset (FLT-33).
    #[doc(alias = "DXGI_ERROR_DEVICE_RESET")]
    #[error("the adapter was reset; what was only in its memory is lost (FLT-33)")]
    AdapterReset,
    /// The device's process hung engines too often (FLT-31).
    #[error("its process hung engines too often, and has lost the GPU (FLT-31)")]
    ProcessBlocked,
    /// A submission named an allocation outside of the device's list (FLT-02).
    #[error("its work names {allocation}, which is not resident on it (FLT-02)")]
    NotResident {
        /// The allocation.
        allocation: AllocationId,
    },
    /// A MakeResident with `MUST_SUCCEED` did not succeed (RES-15).
    #[error("a MakeResident with MustSucceed found no memory (RES-15)")]
    OutOfMemory,
    /// The driver's patch-location list breaks a rule (U-45).
    #[error("the patch-location list that its driver gave breaks a rule: {rule}")]
    PatchLocationList {
        /// The rule.
        rule: PatchListRule,
    },
    /// The needs of a DMA buffer at one split point do not fit, even with all evictions and moves (SPL-10, U-46).
    #[doc(alias = "D3DKMT_DEVICEEXECUTION_ERROR_OUTOFMEMORY")]
    #[error(
        "DMA buffer {dma_buffer} requires {} at once where it cannot be split, and there is no place for all of it (SPL-10)",
        Bytes(*.bytes)
    )]
    PreparationFailed {
        /// The number.
        dma_buffer: u64,
        /// Bytes bound together at the split point.
        bytes: u64,
    },
    /// The adapter is in error.
    #[error("the adapter is in error")]
    AdapterInError,
}

/// The device or the adapter no longer works.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{device} is in error and takes no more calls: {reason}; destroy it and create another")]
pub struct DeviceInError {
    /// The device.
    pub device: DeviceId,
    /// The reason.
    pub reason: DeviceErrorReason,
}

/// The reason why an object was not created.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum CreateError {
    /// The device has reference lists: references of DMA buffers drive residency, and nothing is requested on a paging queue.
    #[error("the references of the device's DMA buffers say what is resident: it has no paging queues")]
    ReferenceLists,
    /// A handle names nothing.
    #[error(transparent)]
    InvalidHandle(#[from] InvalidHandle),
    /// The device or the adapter is in error.
    #[error(transparent)]
    DeviceInError(#[from] DeviceInError),
    /// The driver has no memory.
    #[error(transparent)]
    Kmd(#[from] KmdError),
    /// The driver refused the allocation.
    #[error(transparent)]
    Allocation(#[from] CreateAllocationError),
    /// The system has no memory for the backing store.
    #[error(transparent)]
    BackingStore(#[from] BackingStoreError),
    /// Memory has no room for the root page table (D9).
    #[error("the root page table would not fit: evict at least {} of segment {} and try again", Bytes(*.num_bytes_to_trim), .account.segment.0)]
    NoMemory {
        /// Evicting this many bytes makes room.
        num_bytes_to_trim: u64,
        /// The memory segment of the page tables: evict allocations counted in the segment.
        account: MemoryAccount,
    },
    /// The area for page tables has no room for the root page table (D19).
    #[error("the area for page tables lacks {}: unmap something, or start the adapter with a larger area", Bytes(*.missing))]
    PageTableAreaFull {
        /// The missing bytes.
        missing: u64,
    },
    /// The process has hung engines too often, and has lost the GPU (FLT-31).
    #[error("the process hung engines too often and has lost the GPU; end it")]
    ProcessBlocked,
    /// All slices of the shared address space are in use (U-17).
    #[error(
        "no process can have addresses of its own any more: 255 processes share one address space; destroy one first"
    )]
    NoAddresses,
    /// The driver patches addresses into commands: no owner runs commands unseen by the driver.
    #[error(
        "the adapter's engines take physical addresses, which its driver patches: no context can be self-scheduled"
    )]
    PhysicalAddresses,
    /// The engine does not exist, or is the paging engine, which runs no user's work.
    #[error(
        "engine {engine} takes no contexts; the adapter's engines are 0 to {last}, and {paging} runs paging buffers"
    )]
    Engine {
        /// The engine asked for.
        engine: u32,
        /// The last engine.
        last: u32,
        /// The paging engine.
        paging: u32,
    },
    /// The driver broke a rule; the adapter is not harmed, the allocation does not exist.
    #[error(transparent)]
    Violation(Violation),
    /// The driver asks for eviction notifications, which need a window of the paging process, and the paging process has no
    /// addresses (NTF-02, PGV-03).
    #[error(
        "PGV-03: the allocation sets NotifyEviction, but the paging process has no GPU virtual addresses to show it at: {}",
        no_paging_va(*.model)
    )]
    NoPagingVa {
        /// How the adapter's engines find memory.
        model: AddressingModel,
    },
    /// This version cannot place such an allocation.
    #[error("the allocation needs what this version does not have yet: {0}")]
    NotSupported(&'static str),
}

/// The reason why an object was not destroyed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum DestroyError {
    /// A handle names nothing.
    #[error(transparent)]
    InvalidHandle(#[from] InvalidHandle),
    /// An object of the destroyed object still lives. Destroy the inner object first, and poll until the last use has ended.
    #[error(
        "it still has {remaining} object(s) or unfinished operations; destroy them first and poll until they are gone"
    )]
    InUse {
        /// The number of living objects.
        remaining: u64,
    },
}

/// The reason why MakeResident was refused. Nothing changed (RES-11).
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum MakeResidentError {
    /// A handle names nothing.
    #[error(transparent)]
    InvalidHandle(#[from] InvalidHandle),
    /// The device or the adapter is in error.
    #[error(transparent)]
    DeviceInError(#[from] DeviceInError),
    /// The list of allocations is empty (RES-17).
    #[error("the list of allocations is empty")]
    Empty,
    /// An allocation belongs to another device (RES-10).
    #[error("allocation number {position} of the list was not created on the paging queue's device")]
    WrongDevice {
        /// The position in the list.
        position: usize,
    },
    /// Memory is short, and the list would be above the process's budget, or would not fit at all (RES-13).
    #[doc(alias = "STATUS_NO_MEMORY")]
    #[error("there is no room ({reason}): {}", Remedy(*.num_bytes_to_trim))]
    NoMemory {
        /// The sum of the shortages: the bytes to trim before a retry, by the budget at the call. Enough for the retry (P03), and no more
        /// than the lists of the process name; 0 where all of these lists would not be enough.
        num_bytes_to_trim: u64,
        /// The reason.
        reason: NoMemoryReason,
        /// The missing bytes in each memory. Evicting so many bytes of allocations that count in the memory
        /// ([`query_account`](crate::VidMm::query_account)) makes room, unless the budget shrinks meanwhile.
        shortages: Vec<Shortage>,
    },
    /// `MUST_SUCCEED` without `CANT_TRIM_FURTHER` (RES-15).
    #[error("MustSucceed is legal only together with CantTrimFurther")]
    Flags,
    /// An allocation is offered: reclaim it first (RES-62).
    #[error("allocation number {position} of the list is offered; reclaim it first")]
    Offered {
        /// The position in the list.
        position: usize,
    },
    /// An allocation has no backing store any more, as Reclaim said (RES-66).
    #[error("allocation number {position} of the list is not committed: destroy it and create another")]
    NotCommitted {
        /// The position in the list.
        position: usize,
    },
    /// Too many requests of the device wait for their grant (D14).
    #[error("{pending} requests of the device are pending; poll and complete work before the next")]
    TooManyPending {
        /// The limit.
        pending: usize,
    },
}

/// A caller's remedy for missing bytes.
struct Remedy(u64);

impl core::fmt::Display for Remedy {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self.0 {
            0 => f.write_str("all that the process lists would not be enough"),
            bytes => write!(
                f,
                "evict at least {} of the device's list and try again; when nothing is left to trim, try with CANT_TRIM_FURTHER",
                Bytes(bytes)
            ),
        }
    }
}

/// Memory missing for a device's list.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Shortage {
    /// The memory. An allocation with several possible memories has a shortage in each: room in a single memory is enough.
    pub account: MemoryAccount,
    /// The bytes to evict, of list allocations counted in the memory. If a wanted allocation must be one range, evict
    /// allocations of one range first.
    pub num_bytes_to_trim: u64,
    /// The reason.
    pub reason: NoMemoryReason,
}

/// The reason why there is no memory for a MakeResident.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(tag = "kind", rename_all = "snake_case"))]
pub enum NoMemoryReason {
    /// Memory is short, and the process would be above its budget (RES-53).
    #[error("memory is short and the process would be above its budget")]
    OverBudget,
    /// The process would be above the maximum budget: memory reserved by further processes, or pinned, is not available (U-24).
    #[error("the process would be above its maximum budget")]
    OverMaximumBudget,
    /// Memory is short in segments without a budget (RES-50), and the process would exceed a fair share.
    #[error("memory is short and the process would exceed a fair share of a segment without a budget")]
    OverShare,
    /// The device's list would not fit into memory even alone, in any assignment to segments (D30).
    #[error("the device's list would not fit even alone")]
    DoesNotFit,
    /// The device's list would fit alone with other homes of listed allocations, held in place by another device, a lock, or a pending
    /// request (D30).
    #[error("the device's list would fit, but part of the list is held where it is for now")]
    HeldForNow,
    /// A bounded search found no assignment of the device's list to segments, and no proof against one (D30).
    #[error("no assignment of the device's list to its segments was found")]
    NoAssignment,
    /// The ranges of the list would not find places even alone (RES-19).
    #[error("the bytes would fit, but not in one range for each allocation")]
    Fragmented,
}

/// The reason why Offer was refused. Nothing changed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum OfferError {
    /// The device has reference lists: allocations without a reference by a DMA buffer make room anyway.
    #[error("the references of the device's DMA buffers say what is resident: there is nothing to offer")]
    ReferenceLists,
    /// A handle names nothing.
    #[error(transparent)]
    InvalidHandle(#[from] InvalidHandle),
    /// The device or the adapter is in error.
    #[error(transparent)]
    DeviceInError(#[from] DeviceInError),
    /// The list of allocations is empty.
    #[error("the list of allocations is empty")]
    Empty,
    /// An allocation belongs to another device.
    #[error("allocation number {position} of the list was not created on the device")]
    WrongDevice {
        /// The position in the list.
        position: usize,
    },
    /// An allocation is offered already, or named twice.
    #[error("allocation number {position} of the list is offered already")]
    Offered {
        /// The position in the list.
        position: usize,
    },
    /// An allocation has no backing store any more, as Reclaim said (RES-66).
    #[error("allocation number {position} of the list is not committed: destroy it and create another")]
    NotCommitted {
        /// The position in the list.
        position: usize,
    },
    /// An allocation is locked (RES-62).
    #[error("allocation number {position} of the list is locked; unlock it first")]
    Locked {
        /// The position in the list.
        position: usize,
    },
    /// An allocation is open on other devices as well (RES-62).
    #[error("allocation number {position} of the list is shared; only who has it alone may offer it")]
    Shared {
        /// The position in the list.
        position: usize,
    },
    /// An allocation's content is the caller's own memory.
    #[error("allocation number {position} of the list is backed by memory of the caller's; there is nothing to offer")]
    ExistingSysMem {
        /// The position in the list.
        position: usize,
    },
}

/// The reason why Reclaim was refused. Nothing changed.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum ReclaimError {
    /// A handle names nothing.
    #[error(transparent)]
    InvalidHandle(#[from] InvalidHandle),
    /// The device or the adapter is in error.
    #[error(transparent)]
    DeviceInError(#[from] DeviceInError),
    /// The list of allocations is empty.
    #[error("the list of allocations is empty")]
    Empty,
    /// An allocation belongs to another device.
    #[error("allocation number {position} of the list was not created on the paging queue's device")]
    WrongDevice {
        /// The position in the list.
        position: usize,
    },
    /// An allocation is not offered, or named twice.
    #[error("allocation number {position} of the list is not offered")]
    NotOffered {
        /// The position in the list.
        position: usize,
    },
    /// The device's list with the reclaimed allocations would not fit into memory, even alone.
    #[doc(alias = "STATUS_NO_MEMORY")]
    #[error("the device's list would not fit even alone: evict at least {} of it and try again", Bytes(*.num_bytes_to_trim))]
    NoMemory {
        /// The sum of the missing bytes.
        num_bytes_to_trim: u64,
        /// The missing bytes in each memory. Evicting so many bytes of allocations that count in the memory makes room.
        shortages: Vec<Shortage>,
    },
    /// Too many requests of the device wait for their grant (D14).
    #[error("{pending} requests of the device are pending; poll and complete work before the next")]
    TooManyPending {
        /// The limit.
        pending: usize,
    },
}

/// The reason why Lock was refused. Nothing changed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum LockError {
    /// A handle names nothing.
    #[error(transparent)]
    InvalidHandle(#[from] InvalidHandle),
    /// The device or the adapter is in error.
    #[error(transparent)]
    DeviceInError(#[from] DeviceInError),
    /// The allocation belongs to another process, or is not open on the device: only the owner's process may lock (2.2).
    #[error("the allocation is another process's, or not open on the device; only its owner's process may lock it")]
    WrongDevice,
    /// The allocation is offered (RES-62, U-35).
    #[error("the allocation is offered; reclaim it first")]
    Offered,
    /// The allocation has no backing store any more.
    #[error("the allocation is not committed: destroy it and create another")]
    NotCommitted,
    /// A device list requires the allocation in a memory segment that the CPU does not see. The allocation may be in no other, or the
    /// list does not fit with the allocation there, or another device has opened the allocation (RES-82, RES-83).
    #[error(
        "a device list requires the allocation in a memory segment that the CPU does not see, and the list has no room for the allocation elsewhere, or another device has opened it: evict the allocation first, or add an aperture segment to its set"
    )]
    NotLockable,
    /// The content is on the way to memory that the CPU can see. Poll, let paging end, and try again.
    #[doc(alias = "STATUS_GRAPHICS_ALLOCATION_BUSY")]
    #[error("the allocation is on its way to where the CPU can see it; poll and try again")]
    AllocationBusy,
    /// The allocation has too many locks.
    #[doc(alias = "STATUS_GRAPHICS_TOO_MANY_REFERENCES")]
    #[error("the allocation is locked {locks} times")]
    TooManyReferences {
        /// The limit.
        locks: u32,
    },
    /// No CPU addresses are left.
    #[error(transparent)]
    CpuAddress(#[from] CpuAddressError),
}

/// The reason why Unlock was refused. Nothing changed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum UnlockError {
    /// A handle names nothing.
    #[error(transparent)]
    InvalidHandle(#[from] InvalidHandle),
    /// The allocation is not locked.
    #[error("the allocation is not locked")]
    NotLocked,
}

/// The reason why an allocation was not opened or closed. Nothing changed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum OpenError {
    /// The device, or the allocation's owner, has reference lists; this version shares allocations only between device lists.
    #[error("allocations of devices with reference lists are not shared, nor opened by such devices")]
    ReferenceLists,
    /// A handle names nothing.
    #[error(transparent)]
    InvalidHandle(#[from] InvalidHandle),
    /// The device or the adapter is in error.
    #[error(transparent)]
    DeviceInError(#[from] DeviceInError),
    /// The allocation was not created to be shared (CRE-41).
    #[error("the allocation was not created with CreateShared")]
    NotShared,
    /// The allocation is open on the device already, or work submitted before the last close is still to end: poll, and try
    /// again.
    #[error("the allocation is open on the device already, or still used by work that came before it was closed")]
    AlreadyOpen,
    /// The allocation is not open on the device, or the device is the owner: as the creator, or since the former owner
    /// destroyed the allocation (U-34).
    #[error("the allocation is not open on the device, or is the device's own by now: its owner destroys it")]
    NotOpen,
    /// The driver has no memory.
    #[error(transparent)]
    Kmd(#[from] KmdError),
}

/// The reason why a property was not changed. Nothing changed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum UpdateError {
    /// A handle names nothing.
    #[error(transparent)]
    InvalidHandle(#[from] InvalidHandle),
    /// The device or the adapter is in error.
    #[error(transparent)]
    DeviceInError(#[from] DeviceInError),
    /// The allocation belongs to another device.
    #[error("the allocation was not created on the paging queue's device")]
    WrongDevice,
    /// The new value is impossible (CRE-03, CRE-05).
    #[error("the property cannot become {0}")]
    Impossible(AllocationInfoRule),
    /// The driver does not allow the change (CRE-51).
    #[error("the driver does not allow it")]
    Vetoed,
    /// This version cannot make the change.
    #[error("the change needs what this version does not have yet: {0}")]
    NotSupported(&'static str),
    /// Too many requests of the device wait for their grant (D14).
    #[error("{pending} requests of the device are pending; poll and complete work before the next")]
    TooManyPending {
        /// The limit.
        pending: usize,
    },
}

/// The reason why a reservation was not changed. Nothing changed (RES-52).
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum ReservationError {
    /// A handle names nothing.
    #[error(transparent)]
    InvalidHandle(#[from] InvalidHandle),
    /// The process cannot reserve so many bytes.
    #[error("only {} can be reserved", Bytes(*.available_for_reservation))]
    TooMuch {
        /// The largest possible reservation now, in bytes.
        available_for_reservation: u64,
    },
}

/// The reason why statistics were refused.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum QueryStatisticsError {
    /// A handle names nothing.
    #[error(transparent)]
    InvalidHandle(#[from] InvalidHandle),
    /// The segment is an aperture, or does not exist.
    #[error(
        "segment {} is no memory segment; system memory is counted as a whole, as segment {}",
        .segment.0,
        SegmentId::SYSTEM.0
    )]
    NoMemorySegment {
        /// The segment.
        segment: SegmentId,
    },
}

/// The reason why an announcement was refused. The last announcement stands.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum AnnounceError {
    /// A handle names nothing.
    #[error(transparent)]
    InvalidHandle(#[from] InvalidHandle),
    /// The device or the adapter is in error.
    #[error(transparent)]
    DeviceInError(#[from] DeviceInError),
    /// An allocation is not open on the device.
    #[error("allocation number {position} of the announcement is not open on the device")]
    WrongDevice {
        /// The position in the announcement.
        position: usize,
    },
}

/// The reason why Evict was refused. Nothing changed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum EvictError {
    /// The device has reference lists: references of DMA buffers drive residency, and no list can change.
    #[error("the references of the device's DMA buffers say what is resident")]
    ReferenceLists,
    /// A handle names nothing.
    #[error(transparent)]
    InvalidHandle(#[from] InvalidHandle),
    /// The device is in error, and its list is empty.
    #[error(transparent)]
    DeviceInError(#[from] DeviceInError),
    /// The list of allocations is empty.
    #[error("the list of allocations is empty")]
    Empty,
    /// The call names an allocation more often than the device's list does (RES-02).
    #[error("allocation number {position} of the list is not on the device's list, or not as often as it is named")]
    NotResident {
        /// The position in the list.
        position: usize,
    },
}

/// The reason why a mapping was refused. Nothing changed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum MapError {
    /// Engines use physical addresses (PAT-17).
    #[error("the adapter's engines use physical addresses: there is nothing to map")]
    PhysicalAddresses,
    /// A handle names nothing.
    #[error(transparent)]
    InvalidHandle(#[from] InvalidHandle),
    /// The device or the adapter is in error.
    #[error(transparent)]
    DeviceInError(#[from] DeviceInError),
    /// The addresses cannot be had.
    #[error(transparent)]
    Range(#[from] VaRangeError),
    /// The allocation belongs to another device.
    #[error("the allocation was not created on the paging queue's device")]
    WrongDevice,
    /// The part is empty, not made of whole pages, or not inside the allocation.
    #[error(
        "the part of the allocation is empty, not a multiple of its pages of {}, or not inside its {}",
        Bytes(*.page_size),
        Bytes(*.size)
    )]
    Part {
        /// The page size of the allocation, in bytes.
        page_size: u64,
        /// The allocation's size in bytes.
        size: u64,
    },
    /// Memory has no room for the page tables (D9).
    #[error("the page tables would not fit: evict at least {} of segment {} and try again", Bytes(*.num_bytes_to_trim), .account.segment.0)]
    NoMemory {
        /// Evicting this many bytes makes room.
        num_bytes_to_trim: u64,
        /// The memory segment of the page tables: evict allocations counted in the segment.
        account: MemoryAccount,
    },
    /// The area for page tables has no room (D19).
    #[error("the area for page tables lacks {}: unmap something, or start the adapter with a larger area", Bytes(*.missing))]
    PageTableAreaFull {
        /// The missing bytes.
        missing: u64,
    },
    /// The host has no memory for page tables.
    #[error(transparent)]
    BackingStore(#[from] BackingStoreError),
    /// Too many requests of the device wait for their grant (D14).
    #[error("{pending} requests of the device are pending; poll and complete work before the next")]
    TooManyPending {
        /// The limit.
        pending: usize,
    },
}

/// The reason why a submission was refused. Nothing changed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum SubmitError {
    /// A handle names nothing.
    #[error(transparent)]
    InvalidHandle(#[from] InvalidHandle),
    /// The device or the adapter is in error (FLT-04).
    #[error(transparent)]
    DeviceInError(#[from] DeviceInError),
    /// A named allocation is not on the device's list: the device is in error, and nothing was submitted (FLT-02).
    #[error(
        "allocation number {position} of the submission's list is not resident on the device, which is in error for it"
    )]
    NotResident {
        /// The position in the list.
        position: usize,
    },
    /// The context's owner runs the work although the call is for scheduled contexts, or the other way round (D25).
    #[error("{}", match .is_self_scheduled {
        true => "the context is self-scheduled: begin a use of it, and let its owner's queue run the work",
        false => "the context is scheduled: submit its work, and the manager runs it",
    })]
    WrongContext {
        /// Whether the context is self-scheduled.
        is_self_scheduled: bool,
    },
    /// The context's queue is full (D14).
    #[error("{queued} submissions of the context are queued; poll and complete work before the next")]
    QueueFull {
        /// The limit.
        queued: usize,
    },
}

/// The reason why a use of a self-scheduled context was not ended. Nothing changed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum EndUseError {
    /// The handle names nothing.
    #[error(transparent)]
    InvalidHandle(#[from] InvalidHandle),
    /// The use has not begun, or has ended; a reset of the adapter ends all uses.
    #[error(
        "use {number} of the context is not under way: it has not begun, or has ended; end a use once, after it has begun"
    )]
    NotUnderWay {
        /// The number.
        number: u64,
    },
    /// A fence that the use waits for was not reached.
    #[error("use {number} waits for fence {} of engine {}: its work has not begun, so it has not ended", .wait.fence_id, .wait.engine)]
    Waits {
        /// The number.
        number: u64,
        /// The first fence that the use waits for.
        wait: EngineFence,
    },
}

/// The reason why the priority of a context was not changed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum PriorityError {
    /// The handle names nothing.
    #[error(transparent)]
    InvalidHandle(#[from] InvalidHandle),
    /// The priority does not exist.
    #[error("priority {priority} is not one of -7 to 7")]
    Range {
        /// The priority asked for.
        priority: i32,
    },
}

/// The reason why addresses were not reserved or freed. Nothing changed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum GpuVaError {
    /// A handle names nothing.
    #[error(transparent)]
    InvalidHandle(#[from] InvalidHandle),
    /// The range cannot be had, or is no mapping and no reservation.
    #[error(transparent)]
    Range(#[from] VaRangeError),
    /// Memory has no room for the page tables of the rest of a 64 KiB page (GVA-42), or of a reservation that reads as zero.
    #[error(
        "the page tables of the rest would not fit: evict at least {} of segment {} and try again",
        Bytes(*.num_bytes_to_trim),
        .account.segment.0
    )]
    NoMemory {
        /// Evicting this many bytes makes room.
        num_bytes_to_trim: u64,
        /// The memory segment of the page tables: evict allocations counted in the segment.
        account: MemoryAccount,
    },
    /// The area for page tables has no room for the tables (D19).
    #[error(
        "a page of 64 KiB is cut, and the area for page tables lacks {} for its rest: free the whole page, or start the adapter with a larger area",
        Bytes(*.missing)
    )]
    PageTableAreaFull {
        /// The missing bytes.
        missing: u64,
    },
    /// The host has no memory for the page tables.
    #[error(transparent)]
    BackingStore(#[from] BackingStoreError),
}

/// The reason why page tables cannot be set aside.
pub(crate) enum PageTableError {
    NoMemory { num_bytes_to_trim: u64, account: MemoryAccount },
    AreaFull { missing: u64 },
    BackingStore(BackingStoreError),
}

macro_rules! from_page_table_error {
    ($($error:ident)*) => {
        $(impl From<PageTableError> for $error {
            fn from(error: PageTableError) -> Self {
                match error {
                    PageTableError::NoMemory { num_bytes_to_trim, account } => {
                        Self::NoMemory { num_bytes_to_trim, account }
                    }
                    PageTableError::AreaFull { missing } => Self::PageTableAreaFull { missing },
                    PageTableError::BackingStore(error) => Self::BackingStore(error),
                }
            }
        })*
    };
}

from_page_table_error! { MapError GpuVaError CreateError }
