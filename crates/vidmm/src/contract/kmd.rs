//! The driver.

use alloc::vec::Vec;

use super::{
    AdapterInfo, AllocationInfo, BuildPagingBuffer, BuildStatus, CreateAllocationError, NotifyInterrupt, Patch, Render,
    RenderStatus, SegmentPreference, SegmentSet,
};
use crate::units::PhysicalAddress;

macro_rules! handle {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
        #[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
        pub struct $name(pub u64);
    };
}

handle!(
    /// The driver's name for a process.
    #[doc(alias = "hKmdProcess")]
    KmdProcessHandle
);
handle!(
    /// The driver's name for a context.
    #[doc(alias = "hContext")]
    KmdContextHandle
);
handle!(
    /// The driver's name for an allocation.
    #[doc(alias = "hAllocation")]
    KmdAllocationHandle
);

handle!(
    /// The driver's name for an allocation opened by a device.
    #[doc(alias = "hDeviceSpecificAllocation")]
    KmdOpenHandle
);

/// A kernel-mode driver: describes the GPU, and encodes paging operations.
///
/// The core borrows the driver for the length of a call, and calls from a single thread at a time (BPB-10). The driver must not
/// wait for the GPU inside a call (BPB-11).
pub trait Kmd {
    /// Describes the adapter. Called once, at adapter start: a running adapter is fixed (SEG-05).
    #[doc(alias = "DxgkDdiQueryAdapterInfo")]
    fn query_adapter_info(&mut self) -> AdapterInfo;

    /// The size of the paging process's address space in MiB; `None` (the call failed) or 0 leaves the size to the core
    /// (PGV-01, PGV-02). Asked once for each physical adapter, at adapter start; without a link the index is 0. Not asked below
    /// WDDM 3.2.
    #[doc(alias = "DXGKQAITYPE_PAGINGPROCESSGPUVASIZE")]
    fn query_paging_process_gpu_va_size(&mut self, physical_adapter_index: u32) -> Option<u32> {
        let _ = physical_adapter_index;
        None
    }

    /// Creates a process that begins to use the adapter. `system_process` is the paging process (GVA-62).
    ///
    /// # Errors
    ///
    /// If the driver is out of memory; the process is not created.
    #[doc(alias = "DxgkDdiCreateProcess")]
    fn create_process(&mut self, system_process: bool) -> Result<KmdProcessHandle, KmdError>;

    /// Destroys a process. Nothing names the process any more.
    #[doc(alias = "DxgkDdiDestroyProcess")]
    fn destroy_process(&mut self, process: KmdProcessHandle);

    /// Creates a context for `process` on engine `node_ordinal`. `system_context` is for the context of paging buffers.
    ///
    /// # Errors
    ///
    /// If the driver is out of memory; the context is not created.
    #[doc(alias = "DxgkDdiCreateContext")]
    fn create_context(
        &mut self,
        process: KmdProcessHandle,
        node_ordinal: u32,
        system_context: bool,
    ) -> Result<KmdContextHandle, KmdError>;

    /// Destroys a context. No work of the context is queued any more.
    #[doc(alias = "DxgkDdiDestroyContext")]
    fn destroy_context(&mut self, context: KmdContextHandle);

    /// Creates an allocation from the private data of the driver's user-mode part; the data is opaque to the core (CRE-03). The
    /// driver sets size, alignment, segments, priority and flags.
    ///
    /// # Errors
    ///
    /// The three documented errors (CRE-01).
    #[doc(alias = "DxgkDdiCreateAllocation")]
    fn create_allocation(&mut self, private_driver_data: &[u8]) -> Result<AllocationInfo, CreateAllocationError>;

    /// Destroys an allocation. No operation names the allocation any more.
    #[doc(alias = "DxgkDdiDestroyAllocation")]
    fn destroy_allocation(&mut self, allocation: KmdAllocationHandle);

    /// Opens an allocation of another device on a device of `process` (CRE-06).
    ///
    /// # Errors
    ///
    /// If the driver is out of memory; the allocation is not open on the device.
    #[doc(alias = "DxgkDdiOpenAllocation")]
    fn open_allocation(
        &mut self,
        process: KmdProcessHandle,
        allocation: KmdAllocationHandle,
    ) -> Result<KmdOpenHandle, KmdError> {
        let _ = process;
        Ok(KmdOpenHandle(allocation.0))
    }

    /// Closes an allocation on a device; no work of the device names the allocation any more.
    #[doc(alias = "DxgkDdiCloseAllocation")]
    fn close_allocation(&mut self, allocation: KmdOpenHandle) {
        let _ = allocation;
    }

    /// Whether an allocation's segments may change to the given set (CRE-51).
    #[doc(alias = "DxgkDdiValidateUpdateAllocationProperty")]
    fn validate_update_allocation_property(
        &mut self,
        allocation: KmdAllocationHandle,
        supported_segment_set: SegmentSet,
        preferred_segment: SegmentPreference,
    ) -> bool {
        let _ = (allocation, supported_segment_set, preferred_segment);
        true
    }

    /// The bytes of a root table of `num_entries` entries, for two levels of page tables (GVA-16); none leaves the size to the
    /// [description](super::PageTableLevelDesc) of level 1. Asked once, at adapter start, for the entries of all addresses. A
    /// process's root begins with the entries of the description, at least 1, and grows in place: [`set_root_page_table`] tells
    /// the number of valid entries (GVA-18).
    ///
    /// [`set_root_page_table`]: Self::set_root_page_table
    #[doc(alias = "DxgkDdiGetRootPageTableSize")]
    fn get_root_page_table_size(&mut self, num_entries: u32) -> Option<u32> {
        let _ = num_entries;
        None
    }

    /// Sets the root page table of `context` from the next submission on; no work of the context is under way (GVA-17).
    #[doc(alias = "DxgkDdiSetRootPageTable")]
    fn set_root_page_table(&mut self, context: KmdContextHandle, root: RootPageTable);

    /// Encodes one paging operation into `build`'s buffer (section 3).
    ///
    /// The driver writes from the start of [`dma_buffer`](BuildPagingBuffer::dma_buffer), and sets
    /// [`dma_bytes_written`](BuildPagingBuffer::dma_bytes_written). If the operation does not fit, the driver answers
    /// [`InsufficientDmaBuffer`](BuildStatus::InsufficientDmaBuffer), and is called again with the same operation, a new
    /// buffer, and the driver's last `multipass_offset` (BPB-04).
    ///
    /// An update of entries in mode [`CpuVirtual`](super::UpdateMode::CpuVirtual) has no buffer: the driver writes the entries
    /// with the CPU before the return (BPB-08).
    #[doc(alias = "DxgkDdiBuildPagingBuffer")]
    fn build_paging_buffer(&mut self, build: &mut BuildPagingBuffer<'_>) -> BuildStatus;

    /// Encodes the commands that the engine needs before a DMA buffer of `context`: at least the root page table.
    ///
    /// Called once for each submission, a user's as well as a paging buffer's. The bytes run before the buffer's own.
    #[doc(alias = "DxgkDdiSubmitCommandVirtual")]
    #[doc(alias = "DxgkDdiSubmitCommand")]
    fn submit_command(&mut self, submit: &SubmitCommand, preamble: &mut Vec<u8>);

    /// Translates commands of the user-mode driver into a DMA buffer, and reports the patch locations (PAT-10). The user-mode
    /// driver is not trusted: `render` checks the commands. Called only for an adapter without GPU virtual addresses.
    ///
    /// # Errors
    ///
    /// The documented errors (PAT-12). After [`InsufficientDmaBuffer`](RenderStatus::InsufficientDmaBuffer) the next call has
    /// a new DMA buffer, and the driver's last `multipass_offset`. After a call without a written byte the DMA buffer is larger.
    #[doc(alias = "DxgkDdiRender")]
    fn render(&mut self, render: &mut Render<'_>) -> Result<(), RenderStatus> {
        let _ = render;
        Err(RenderStatus::InvalidParameter)
    }

    /// Writes the addresses of a portion's allocations into the portion's commands (PAT-10). A second call for the same portion
    /// may have new addresses. The call cannot fail (PAT-15).
    #[doc(alias = "DxgkDdiPatch")]
    fn patch(&mut self, patch: &mut Patch<'_>) {
        let _ = patch;
    }

    /// Decodes an interrupt of the GPU, from the bytes of the status registers; only the driver understands the bytes (6.2).
    /// `None` if the interrupt is not the adapter's.
    ///
    /// Called by the loop that joins core, driver and GPU; the answer goes to the core.
    #[doc(alias = "DxgkDdiInterruptRoutine")]
    fn interrupt_routine(&mut self, status: &[u8]) -> Option<NotifyInterrupt> {
        let _ = status;
        None
    }

    /// The engines that a reset of `node_ordinal` harms, including `node_ordinal`: bit n is engine n (FLT-26).
    #[doc(alias = "DxgkDdiQueryDependentEngineGroup")]
    fn query_dependent_engine_group(&mut self, node_ordinal: u32) -> u64 {
        1 << node_ordinal
    }
}

/// The root page table of a context.
#[doc(alias = "DXGKARG_SETROOTPAGETABLE")]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RootPageTable {
    /// The root table.
    pub address: PhysicalAddress,
    /// The number of entries; an address beyond the entries must fault (GVA-17).
    pub num_entries: u32,
}

/// A DMA buffer is about to be handed to an engine.
#[doc(alias = "DXGKARG_SUBMITCOMMANDVIRTUAL")]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SubmitCommand {
    /// The context of the work.
    pub context: KmdContextHandle,
    /// The engine.
    pub node_ordinal: u32,
    /// The fence signalled by the end; rises by 1 with each submission to the engine.
    pub submission_fence_id: u64,
    /// Whether the DMA buffer is a paging buffer (BPB-09).
    pub paging: bool,
    /// The first submitted byte of the DMA buffer, and the first byte behind the end: for a portion, the portion's bytes
    /// (PAT-01).
    pub dma_buffer_submission_offsets: Option<(u32, u32)>,
}

/// A driver is out of memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("the driver has no memory")]
pub struct KmdError;
