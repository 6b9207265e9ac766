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
    /// The driver's name for an allocation as one device has it open.
    #[doc(alias = "hDeviceSpecificAllocation")]
    KmdOpenHandle
);

/// A kernel-mode driver: it describes the GPU, and encodes paging operations.
///
/// The core borrows it for the length of a call, and calls it from one thread at a time (BPB-10). It must not wait for the
/// GPU inside a call (BPB-11).
pub trait Kmd {
    /// Describes the adapter. Called once, at adapter start: the adapter is fixed while it runs (SEG-05).
    #[doc(alias = "DxgkDdiQueryAdapterInfo")]
    fn query_adapter_info(&mut self) -> AdapterInfo;

    /// The size of the paging process's address space in MiB; `None` (the call failed) or 0 leaves it to the core (PGV-01,
    /// PGV-02). Asked once for each physical adapter, at adapter start; without a link the index is 0. Not asked below WDDM 3.2.
    #[doc(alias = "DXGKQAITYPE_PAGINGPROCESSGPUVASIZE")]
    fn query_paging_process_gpu_va_size(&mut self, physical_adapter_index: u32) -> Option<u32> {
        let _ = physical_adapter_index;
        None
    }

    /// Creates a process that begins to use the adapter. `system_process` is the paging process (GVA-62).
    ///
    /// # Errors
    ///
    /// If the driver is out of memory; the process is then not created.
    #[doc(alias = "DxgkDdiCreateProcess")]
    fn create_process(&mut self, system_process: bool) -> Result<KmdProcessHandle, KmdError>;

    /// Destroys a process. Nothing names it any more.
    #[doc(alias = "DxgkDdiDestroyProcess")]
    fn destroy_process(&mut self, process: KmdProcessHandle);

    /// Creates a context for `process` on engine `node_ordinal`. `system_context` is the one that runs paging buffers.
    ///
    /// # Errors
    ///
    /// If the driver is out of memory; the context is then not created.
    #[doc(alias = "DxgkDdiCreateContext")]
    fn create_context(
        &mut self,
        process: KmdProcessHandle,
        node_ordinal: u32,
        system_context: bool,
    ) -> Result<KmdContextHandle, KmdError>;

    /// Destroys a context. None of its work is queued any more.
    #[doc(alias = "DxgkDdiDestroyContext")]
    fn destroy_context(&mut self, context: KmdContextHandle);

    /// Creates an allocation from the private data of the driver's user-mode part, which the core does not understand
    /// (CRE-03). The driver sets size, alignment, segments, priority and flags.
    ///
    /// # Errors
    ///
    /// The three that are documented (CRE-01).
    #[doc(alias = "DxgkDdiCreateAllocation")]
    fn create_allocation(&mut self, private_driver_data: &[u8]) -> Result<AllocationInfo, CreateAllocationError>;

    /// Destroys an allocation. No operation names it any more.
    #[doc(alias = "DxgkDdiDestroyAllocation")]
    fn destroy_allocation(&mut self, allocation: KmdAllocationHandle);

    /// Opens an allocation that another device created on a device of `process` (CRE-06).
    ///
    /// # Errors
    ///
    /// If the driver is out of memory; the allocation is then not open on the device.
    #[doc(alias = "DxgkDdiOpenAllocation")]
    fn open_allocation(
        &mut self,
        process: KmdProcessHandle,
        allocation: KmdAllocationHandle,
    ) -> Result<KmdOpenHandle, KmdError> {
        let _ = process;
        Ok(KmdOpenHandle(allocation.0))
    }

    /// Closes an allocation on a device; none of its work names the allocation any more.
    #[doc(alias = "DxgkDdiCloseAllocation")]
    fn close_allocation(&mut self, allocation: KmdOpenHandle) {
        let _ = allocation;
    }

    /// Whether the segments of an allocation may become these (CRE-51).
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

    /// The bytes of a root table of `num_entries` entries, where there are two levels of page tables (GVA-16); none leaves it to the
    /// [description](super::PageTableLevelDesc) of level 1. It is asked once, when the adapter starts, for all entries that addresses have.
    /// A process's root then begins with those of the description, one at least, and grows where it lies: [`set_root_page_table`] says
    /// how many of its entries count (GVA-18).
    ///
    /// [`set_root_page_table`]: Self::set_root_page_table
    #[doc(alias = "DxgkDdiGetRootPageTableSize")]
    fn get_root_page_table_size(&mut self, num_entries: u32) -> Option<u32> {
        let _ = num_entries;
        None
    }

    /// Sets the root page table of `context` from its next submission on; no work of the context is under way (GVA-17).
    #[doc(alias = "DxgkDdiSetRootPageTable")]
    fn set_root_page_table(&mut self, context: KmdContextHandle, root: RootPageTable);

    /// Encodes one paging operation into `build`'s buffer (section 3).
    ///
    /// The driver writes from the start of [`dma_buffer`](BuildPagingBuffer::dma_buffer), and sets
    /// [`dma_bytes_written`](BuildPagingBuffer::dma_bytes_written). When the operation does not fit it answers
    /// [`InsufficientDmaBuffer`](BuildStatus::InsufficientDmaBuffer), and is called again with the same operation, a
    /// new buffer, and `multipass_offset` as it left it (BPB-04).
    ///
    /// An update of entries in mode [`CpuVirtual`](super::UpdateMode::CpuVirtual) has no buffer: the driver writes the
    /// entries with the CPU before it returns (BPB-08).
    #[doc(alias = "DxgkDdiBuildPagingBuffer")]
    fn build_paging_buffer(&mut self, build: &mut BuildPagingBuffer<'_>) -> BuildStatus;

    /// Encodes the commands that the engine needs before a DMA buffer of `context`: at least the root page table.
    ///
    /// Called once for each submission, a user's as well as a paging buffer's. The bytes run before the buffer's own.
    #[doc(alias = "DxgkDdiSubmitCommandVirtual")]
    #[doc(alias = "DxgkDdiSubmitCommand")]
    fn submit_command(&mut self, submit: &SubmitCommand, preamble: &mut Vec<u8>);

    /// Translates commands of the user-mode driver into a DMA buffer, and reports its patch locations (PAT-10). The
    /// user-mode driver is not trusted: its commands are checked here. Called only for an adapter without GPU virtual
    /// addresses.
    ///
    /// # Errors
    ///
    /// Those that are documented (PAT-12). After [`InsufficientDmaBuffer`](RenderStatus::InsufficientDmaBuffer) it is called again
    /// with more room, and `multipass_offset` as it left it.
    #[doc(alias = "DxgkDdiRender")]
    fn render(&mut self, render: &mut Render<'_>) -> Result<(), RenderStatus> {
        let _ = render;
        Err(RenderStatus::InvalidParameter)
    }

    /// Writes the addresses of a portion's allocations into its commands (PAT-10). It may be called again for the same portion,
    /// with other addresses, and cannot fail (PAT-15).
    #[doc(alias = "DxgkDdiPatch")]
    fn patch(&mut self, patch: &mut Patch<'_>) {
        let _ = patch;
    }

    /// Decodes an interrupt of the GPU, from the bytes of its status registers, which only the driver understands
    /// (6.2). `None` if the interrupt is not the adapter's.
    ///
    /// Called by the loop that joins core, driver and GPU; the answer goes to the core.
    #[doc(alias = "DxgkDdiInterruptRoutine")]
    fn interrupt_routine(&mut self, status: &[u8]) -> Option<NotifyInterrupt> {
        let _ = status;
        None
    }

    /// The engines that are harmed when `node_ordinal` is reset, that one included: bit n is engine n (FLT-26).
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
    /// The number of its entries; an address beyond them must fault (GVA-17).
    pub num_entries: u32,
}

/// A DMA buffer is about to be handed to an engine.
#[doc(alias = "DXGKARG_SUBMITCOMMANDVIRTUAL")]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SubmitCommand {
    /// The context that it runs in.
    pub context: KmdContextHandle,
    /// The engine that it runs on.
    pub node_ordinal: u32,
    /// The fence that its end signals; rises by one with each submission to the engine.
    pub submission_fence_id: u64,
    /// Whether it is a paging buffer (BPB-09).
    pub paging: bool,
    /// The first byte of the DMA buffer that is submitted, and the first behind the end: of a portion, its own
    /// (PAT-01).
    pub dma_buffer_submission_offsets: Option<(u32, u32)>,
}

/// A driver is out of memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("the driver has no memory")]
pub struct KmdError;
