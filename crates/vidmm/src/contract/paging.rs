//! Paging operations, and how a driver is asked to encode one.

use bitflags::bitflags;

use super::{KmdAllocationHandle, KmdContextHandle, KmdProcessHandle, PteRun};
use crate::units::{GpuVirtualAddress, PhysicalAddress};

/// One call of [`build_paging_buffer`](super::Kmd::build_paging_buffer).
#[doc(alias = "DXGKARG_BUILDPAGINGBUFFER")]
#[derive(Debug)]
pub struct BuildPagingBuffer<'a> {
    /// What is to be encoded.
    pub operation: &'a PagingOperation,
    /// What is left of the paging buffer: operations are packed without gaps (BPB-02).
    pub dma_buffer: &'a mut [u8],
    /// Where `dma_buffer` begins in the paging buffer, in bytes; 0 in a new buffer.
    #[doc(alias = "DmaBufferWriteOffset")]
    pub dma_buffer_write_offset: u32,
    /// What is left of the buffer's private data (SEG-35).
    pub dma_buffer_private_data: &'a mut [u8],
    /// Set by the driver: how many bytes of `dma_buffer` it wrote.
    pub dma_bytes_written: usize,
    /// Set by the driver: how many bytes of `dma_buffer_private_data` it used.
    pub private_bytes_written: usize,
    /// How far the driver came in earlier calls for this operation. 0 at first; the core never writes it (BPB-04).
    pub multipass_offset: &'a mut u32,
    /// Nothing uses the allocation, and nothing will during this call: set after a busy answer (BPB-06).
    pub allocation_is_idle: bool,
    /// The context in which the commands will run (BPB-07).
    #[doc(alias = "hSystemContext")]
    pub system_context: KmdContextHandle,
}

/// What a driver answers (BPB-01). There is no fourth answer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "snake_case"))]
pub enum BuildStatus {
    /// The operation is encoded, to its end.
    Success,
    /// The buffer is full; call again with a new one. What was written so far is submitted.
    #[doc(alias = "STATUS_GRAPHICS_INSUFFICIENT_DMA_BUFFER")]
    InsufficientDmaBuffer,
    /// The allocation must be idle first; call again when it is.
    #[doc(alias = "STATUS_GRAPHICS_ALLOCATION_BUSY")]
    AllocationBusy,
}

/// What the driver is asked to encode (3.2).
#[doc(alias = "DXGK_BUILDPAGINGBUFFER_OPERATION")]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "snake_case"))]
#[non_exhaustive]
pub enum PagingOperation {
    /// Copy between two ranges of the paging process's address space.
    #[doc(alias = "DXGK_OPERATION_VIRTUAL_TRANSFER")]
    VirtualTransfer(TransferVirtual),
    /// Fill a range of the paging process's address space.
    #[doc(alias = "DXGK_OPERATION_VIRTUAL_FILL")]
    VirtualFill(FillVirtual),
    /// Write entries of one page table.
    #[doc(alias = "DXGK_OPERATION_UPDATE_PAGE_TABLE")]
    UpdatePageTable(UpdatePageTable),
    /// Make the GPU forget cached entries.
    #[doc(alias = "DXGK_OPERATION_FLUSH_TLB")]
    FlushTlb(FlushTlb),
}

impl PagingOperation {
    /// The allocation that the operation is about, if any.
    pub fn allocation(&self) -> Option<KmdAllocationHandle> {
        match self {
            PagingOperation::VirtualTransfer(op) => Some(op.allocation),
            PagingOperation::VirtualFill(op) => Some(op.allocation),
            PagingOperation::UpdatePageTable(op) => op.allocation,
            PagingOperation::FlushTlb(_) => None,
        }
    }
}

/// Copy a part of an allocation between two windows of the paging process (BPB-40).
#[doc(alias = "DXGK_BUILDPAGINGBUFFER_TRANSFERVIRTUAL")]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct TransferVirtual {
    /// The allocation that moves.
    pub allocation: KmdAllocationHandle,
    /// Which part: bytes from its start. It is *not* to be added to the addresses.
    pub allocation_offset_in_bytes: u64,
    /// Bytes to copy; a multiple of 4 KiB, never 0.
    pub transfer_size_in_bytes: u64,
    /// Where the part is.
    pub source_virtual_address: GpuVirtualAddress,
    /// Where it goes.
    pub destination_virtual_address: GpuVirtualAddress,
    /// Which way.
    pub transfer_direction: MemoryTransferDirection,
    /// The page sizes of the two windows.
    pub flags: TransferVirtualFlags,
}

/// Which way a transfer goes.
#[doc(alias = "DXGK_MEMORY_TRANSFER_DIRECTION")]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "snake_case"))]
pub enum MemoryTransferDirection {
    /// Page-out.
    LocalToSystem,
    /// Page-in.
    SystemToLocal,
    /// Between segments, or inside one.
    LocalToLocal,
}

bitflags! {
    /// The page sizes of a transfer's windows (3.3).
    #[doc(alias = "DXGK_TRANSFERVIRTUALFLAGS")]
    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    #[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
    pub struct TransferVirtualFlags: u32 {
        /// The source's window has 64 KiB pages.
        const SRC_64KB_PAGES = 1 << 0;
        /// The destination's window has 64 KiB pages.
        const DST_64KB_PAGES = 1 << 1;
    }
}

/// Fill a part of an allocation that has no content yet (BPB-24, BPB-42).
#[doc(alias = "DXGK_BUILDPAGINGBUFFER_FILLVIRTUAL")]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct FillVirtual {
    /// The allocation that is filled.
    pub allocation: KmdAllocationHandle,
    /// Which part: bytes from its start.
    pub allocation_offset_in_bytes: u64,
    /// Bytes to fill; a multiple of 4 KiB, never 0.
    pub fill_size_in_bytes: u64,
    /// The pattern: 32 bits, little-endian, repeated (U-12).
    pub fill_pattern: u32,
    /// Where the part is.
    pub destination_virtual_address: GpuVirtualAddress,
}

/// Write consecutive entries of one page table (4.6).
#[doc(alias = "DXGK_BUILDPAGINGBUFFER_UPDATEPAGETABLE")]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct UpdatePageTable {
    /// The level of the table; 0 is the leaf.
    pub page_table_level: u32,
    /// The allocation that the entries map; none for entries that point to tables (GVA-31).
    pub allocation: Option<KmdAllocationHandle>,
    /// The table.
    pub page_table_address: PhysicalAddress,
    /// The entries.
    pub page_table_entries: PteRun,
    /// The index of the first.
    pub start_index: u32,
    /// How the entries are to be read.
    pub flags: UpdatePageTableFlags,
    /// What the user-mode driver passed when it mapped; level 0 only (GVA-32, GVA-57).
    pub driver_protection: u64,
    /// What part of the allocation the first entry maps: bytes from its start (GVA-31).
    pub allocation_offset_in_bytes: u64,
    /// The process whose table it is.
    #[doc(alias = "hProcess")]
    pub process: KmdProcessHandle,
    /// The address that the first entry maps.
    pub first_pte_virtual_address: GpuVirtualAddress,
}

bitflags! {
    /// How the entries of an [`UpdatePageTable`] are to be read (3.3).
    #[doc(alias = "DXGK_UPDATEPAGETABLEFLAGS")]
    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    #[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
    pub struct UpdatePageTableFlags: u32 {
        /// All entries are equal to the first (GVA-30).
        const REPEAT = 1 << 0;
        /// The table has no content yet (GVA-25).
        const INITIAL_UPDATE = 1 << 1;
        /// The entries map 64 KiB pages: the table is a 64 KiB leaf table (GVA-30).
        const USE_64KB_PAGES = 1 << 3;
    }
}

/// Make the GPU forget what it cached of a process's page tables (GVA-34).
#[doc(alias = "DXGK_BUILDPAGINGBUFFER_FLUSHTLB")]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct FlushTlb {
    /// The root table of the process.
    pub root_page_table_address: PhysicalAddress,
    /// The process.
    #[doc(alias = "hProcess")]
    pub process: KmdProcessHandle,
    /// First address to forget.
    pub start_virtual_address: GpuVirtualAddress,
    /// First address not to forget (U-20); with the start, both 0 mean the whole space.
    pub end_virtual_address: GpuVirtualAddress,
}
