//! Paging operations, and the call that lets a driver encode one.

use core::{
    fmt,
    ops::{Index, IndexMut},
};

use bitflags::bitflags;

use super::{
    AddressingModel, CpuVirtualAddress, KmdAllocationHandle, KmdContextHandle, KmdProcessHandle, PteRun, WddmVersion,
};
use crate::units::{GpuVirtualAddress, PAGE_SIZE, PageSize, PhysicalAddress, SegmentId};

/// One call of [`build_paging_buffer`](super::Kmd::build_paging_buffer).
#[doc(alias = "DXGKARG_BUILDPAGINGBUFFER")]
#[derive(Debug)]
pub struct BuildPagingBuffer<'a> {
    /// The operation to be encoded.
    pub operation: &'a PagingOperation,
    /// The free part of the paging buffer: operations are packed without gaps (BPB-02). Empty where there is no paging buffer,
    /// because the CPU carries out the operation at once (BPB-08): see [`UpdateMode::CpuVirtual`].
    pub dma_buffer: &'a mut [u8],
    /// The offset of `dma_buffer` in the paging buffer, in bytes; 0 in a new buffer.
    #[doc(alias = "DmaBufferWriteOffset")]
    pub dma_buffer_write_offset: u32,
    /// The free part of the buffer's private data (SEG-35).
    pub dma_buffer_private_data: &'a mut [u8],
    /// Set by the driver: the number of bytes of `dma_buffer` that it wrote.
    pub dma_bytes_written: usize,
    /// Set by the driver: the number of bytes of `dma_buffer_private_data` that it used.
    pub private_bytes_written: usize,
    /// The driver's progress in earlier calls for this operation. 0 at first; the core never writes it (BPB-04).
    pub multipass_offset: &'a mut u32,
    /// No work uses the allocation, and none will during this call: set after a busy answer (BPB-06).
    pub allocation_is_idle: bool,
    /// The context in which the commands will run (BPB-07).
    #[doc(alias = "hSystemContext")]
    pub system_context: KmdContextHandle,
}

impl BuildPagingBuffer<'_> {
    /// Writes the commands of the operation from number `multipass_offset` on, as many as fit, and counts the commands that are written. For
    /// a driver whose commands have one size (BPB-04).
    pub fn write<const BYTES: usize>(&mut self, commands: impl IntoIterator<Item = [u8; BYTES]>) -> BuildStatus {
        let Self { dma_buffer, dma_bytes_written, multipass_offset, .. } = self;
        for command in commands.into_iter().skip(**multipass_offset as usize) {
            let Some(room) = dma_buffer[*dma_bytes_written..].first_chunk_mut() else {
                return BuildStatus::InsufficientDmaBuffer;
            };
            *room = command;
            *dma_bytes_written += BYTES;
            **multipass_offset += 1;
        }
        BuildStatus::Success
    }
}

/// The driver's answer (BPB-01). Three answers are allowed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "snake_case"))]
pub enum BuildStatus {
    /// The operation is encoded, to its end.
    Success,
    /// The buffer is full; call again with a new one. The commands written so far are submitted.
    #[doc(alias = "STATUS_GRAPHICS_INSUFFICIENT_DMA_BUFFER")]
    InsufficientDmaBuffer,
    /// The allocation must be idle first; call again when it is.
    #[doc(alias = "STATUS_GRAPHICS_ALLOCATION_BUSY")]
    AllocationBusy,
    /// Any other NTSTATUS, which a driver behind a C interface may return: it breaks BPB-01. The operation does not count as
    /// encoded, nothing of it is submitted, and the adapter is in error.
    Other(i32),
}

/// Makes the table of operations: [`PagingOperation`], its kinds, and what is said of each.
macro_rules! paging_operations {
    ($($(#[$about:meta])* $kind:ident($payload:ident) = ($name:literal, $fact:literal, $since:expr, $addresses:expr, $busy:expr);)*) => {
        /// The operation that the driver is asked to encode (3.2).
        #[doc(alias = "DXGK_BUILDPAGINGBUFFER_OPERATION")]
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        #[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
        #[cfg_attr(feature = "serde", serde(rename_all = "snake_case"))]
        pub enum PagingOperation {
            $($(#[$about])* $kind($payload),)*
        }

        /// The operations by name, as WDDM writes them.
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
        #[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
        #[cfg_attr(feature = "serde", serde(rename_all = "SCREAMING_SNAKE_CASE"))]
        pub enum PagingOperationKind {
            $(#[doc = concat!($name, ".")] $kind,)*
        }

        impl PagingOperation {
            /// Which operation it is.
            pub fn kind(&self) -> PagingOperationKind {
                match self {
                    $(PagingOperation::$kind(_) => PagingOperationKind::$kind,)*
                }
            }
        }

        impl PagingOperationKind {
            /// How many kinds there are.
            const COUNT: usize = [$($name),*].len();

            const fn row(self) -> Row {
                let (name, fact, since, addresses, busy) = match self {
                    $(Self::$kind => ($name, $fact, $since, $addresses, $busy),)*
                };
                Row { name, fact, since, addresses, busy }
            }
        }
    };
}

paging_operations! {
    /// Copy between two ranges of the paging process's address space.
    #[doc(alias = "DXGK_OPERATION_VIRTUAL_TRANSFER")]
    VirtualTransfer(TransferVirtual) = ("VIRTUAL_TRANSFER", "BPB-40", WddmVersion::WDDM2_0, Addresses::PageTables, Busy::Undocumented);
    /// Fill a range of the paging process's address space.
    #[doc(alias = "DXGK_OPERATION_VIRTUAL_FILL")]
    VirtualFill(FillVirtual) = ("VIRTUAL_FILL", "BPB-42", WddmVersion::WDDM2_0, Addresses::PageTables, Busy::Undocumented);
    /// Write entries of one page table.
    #[doc(alias = "DXGK_OPERATION_UPDATE_PAGE_TABLE")]
    UpdatePageTable(UpdatePageTable) = ("UPDATE_PAGE_TABLE", "GVA-30", WddmVersion::WDDM2_0, Addresses::PageTables, Busy::Undocumented);
    /// Make the GPU forget cached entries.
    #[doc(alias = "DXGK_OPERATION_FLUSH_TLB")]
    FlushTlb(FlushTlb) = ("FLUSH_TLB", "GVA-34", WddmVersion::WDDM2_0, Addresses::PageTables, Busy::Undocumented);
    /// Let a range of the aperture segment show system memory.
    #[doc(alias = "DXGK_OPERATION_MAP_APERTURE_SEGMENT")]
    MapApertureSegment(MapApertureSegment) = ("MAP_APERTURE_SEGMENT", "BPB-30", FIRST, Addresses::Any, Busy::Undocumented);
    /// The same, with the system memory given by logical addresses: the first form is then never sent (BPB-34).
    #[doc(alias = "DXGK_OPERATION_MAP_APERTURE_SEGMENT2")]
    MapApertureSegment2(MapApertureSegment2) = ("MAP_APERTURE_SEGMENT2", "BPB-34", WddmVersion::WDDM2_9, Addresses::Any, Busy::Undocumented);
    /// Let a range of the aperture segment show the dummy page again.
    #[doc(alias = "DXGK_OPERATION_UNMAP_APERTURE_SEGMENT")]
    UnmapApertureSegment(UnmapApertureSegment) = ("UNMAP_APERTURE_SEGMENT", "BPB-33", FIRST, Addresses::Any, Busy::Undocumented);
    /// Prepare an allocation to leave device access.
    #[doc(alias = "DXGK_OPERATION_NOTIFY_ALLOC")]
    NotifyAlloc(NotifyAlloc) = ("NOTIFY_ALLOC", "NTF-04", WddmVersion::WDDM3_2, Addresses::Any, Busy::Undocumented);
    /// Copy between physical places. With no bytes, after a reset of the adapter: the allocation's content in the
    /// memory segment is gone (BPB-27). Then the driver leaves the GPU alone, and its commands are not run.
    #[doc(alias = "DXGK_OPERATION_TRANSFER")]
    Transfer(Transfer) = ("TRANSFER", "BPB-20", FIRST, Addresses::Physical, Busy::Allowed);
    /// Fill an allocation in the memory segment.
    #[doc(alias = "DXGK_OPERATION_FILL")]
    Fill(Fill) = ("FILL", "BPB-24", FIRST, Addresses::Physical, Busy::Undocumented);
    /// An allocation leaves the memory segment, and its content there is not needed.
    #[doc(alias = "DXGK_OPERATION_DISCARD_CONTENT")]
    DiscardContent(DiscardContent) = ("DISCARD_CONTENT", "BPB-25", FIRST, Addresses::Physical, Busy::Allowed);
    /// Take note that an allocation has come into a memory segment, or is about to leave it.
    #[doc(alias = "DXGK_OPERATION_NOTIFY_RESIDENCY")]
    NotifyResidency(NotifyResidency) = ("NOTIFY_RESIDENCY", "BPB-51", WddmVersion::WDDM2_0, Addresses::Any, Busy::Undocumented);
}

/// The properties of an operation, whatever it is asked for (3.2).
struct Row {
    name: &'static str,
    /// The number of the fact that documents its effect.
    fact: &'static str,
    /// The first version of WDDM that has it.
    since: WddmVersion,
    addresses: Addresses,
    busy: Busy,
}

/// The version of operations that are older than every version that is told apart.
const FIRST: WddmVersion = WddmVersion(0);

/// The adapters that have an operation, by how their engines find memory.
enum Addresses {
    PageTables,
    Physical,
    Any,
}

/// Whether the documents let a driver ask for an idle allocation before it encodes an operation (BPB-06).
enum Busy {
    Allowed,
    Undocumented,
}

impl PagingOperationKind {
    /// WDDM's name of it.
    pub const fn name(self) -> &'static str {
        self.row().name
    }

    /// The number of the fact that documents its effect.
    pub const fn fact(self) -> &'static str {
        self.row().fact
    }

    /// Whether a driver of this version and model has it: no other is ever asked for it (3.2, I23).
    pub fn is_known_to(self, version: WddmVersion, model: AddressingModel) -> bool {
        let Row { since, addresses, .. } = self.row();
        let has_addresses = match addresses {
            Addresses::PageTables => model == AddressingModel::GpuMmu,
            Addresses::Physical => model == AddressingModel::Physical,
            Addresses::Any => true,
        };
        version >= since && has_addresses
    }

    /// Whether the documents let a driver ask for an idle allocation before it encodes this (BPB-06).
    pub const fn may_be_busy(self) -> bool {
        matches!(self.row().busy, Busy::Allowed)
    }
}

impl fmt::Display for PagingOperationKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl PagingOperation {
    /// Says in the operation itself that its allocation is idle, where there is a flag for that (BPB-06).
    pub fn note_idle(&mut self) {
        match self {
            PagingOperation::Transfer(op) => op.flags |= TransferFlags::ALLOCATION_IS_IDLE,
            PagingOperation::DiscardContent(op) => op.flags |= DiscardContentFlags::ALLOCATION_IS_IDLE,
            PagingOperation::VirtualTransfer(_)
            | PagingOperation::VirtualFill(_)
            | PagingOperation::UpdatePageTable(_)
            | PagingOperation::FlushTlb(_)
            | PagingOperation::MapApertureSegment(_)
            | PagingOperation::MapApertureSegment2(_)
            | PagingOperation::UnmapApertureSegment(_)
            | PagingOperation::NotifyAlloc(_)
            | PagingOperation::Fill(_)
            | PagingOperation::NotifyResidency(_) => {}
        }
    }

    /// Whether the driver carries it out with the CPU before it returns, and encodes nothing (BPB-08).
    pub fn is_by_cpu(&self) -> bool {
        matches!(self, PagingOperation::UpdatePageTable(op) if op.update_mode.is_by_cpu())
    }

    /// The allocation that the operation is about, if any.
    pub fn allocation(&self) -> Option<KmdAllocationHandle> {
        match self {
            PagingOperation::VirtualTransfer(op) => Some(op.allocation),
            PagingOperation::VirtualFill(op) => Some(op.allocation),
            PagingOperation::UpdatePageTable(op) => op.allocation,
            PagingOperation::FlushTlb(_) => None,
            PagingOperation::MapApertureSegment(op) => Some(op.allocation),
            PagingOperation::MapApertureSegment2(op) => Some(op.allocation),
            PagingOperation::UnmapApertureSegment(op) => Some(op.allocation),
            PagingOperation::NotifyAlloc(op) => Some(op.allocation),
            PagingOperation::Transfer(op) => Some(op.allocation),
            PagingOperation::Fill(op) => Some(op.allocation),
            PagingOperation::DiscardContent(op) => Some(op.allocation),
            PagingOperation::NotifyResidency(op) => Some(op.allocation),
        }
    }

    /// Bytes of memory that the operation is about: of entries, those that they map; 0 where there are none.
    pub fn size_in_bytes(&self) -> u64 {
        match self {
            PagingOperation::VirtualTransfer(op) => op.transfer_size_in_bytes,
            PagingOperation::VirtualFill(op) => op.fill_size_in_bytes,
            PagingOperation::UpdatePageTable(op) => {
                u64::from(op.page_table_entries.num_page_table_entries).saturating_mul(PAGE_SIZE)
            }
            PagingOperation::MapApertureSegment(op) => op.number_of_pages.saturating_mul(PAGE_SIZE),
            PagingOperation::MapApertureSegment2(op) => op.number_of_pages.saturating_mul(PAGE_SIZE),
            PagingOperation::UnmapApertureSegment(op) => op.number_of_pages.saturating_mul(PAGE_SIZE),
            PagingOperation::NotifyAlloc(op) => op.size_in_bytes,
            PagingOperation::Transfer(op) => op.transfer_size,
            PagingOperation::Fill(op) => op.fill_size,
            PagingOperation::FlushTlb(_) | PagingOperation::DiscardContent(_) | PagingOperation::NotifyResidency(_) => {
                0
            }
        }
    }

    /// The process that the operation is about, if any.
    pub fn process(&self) -> Option<KmdProcessHandle> {
        match self {
            PagingOperation::UpdatePageTable(op) => Some(op.process),
            PagingOperation::FlushTlb(op) => Some(op.process),
            PagingOperation::NotifyAlloc(op) => op.process,
            PagingOperation::VirtualTransfer(_)
            | PagingOperation::VirtualFill(_)
            | PagingOperation::MapApertureSegment(_)
            | PagingOperation::MapApertureSegment2(_)
            | PagingOperation::UnmapApertureSegment(_)
            | PagingOperation::Transfer(_)
            | PagingOperation::Fill(_)
            | PagingOperation::DiscardContent(_)
            | PagingOperation::NotifyResidency(_) => None,
        }
    }
}

/// Copy a part of an allocation between two windows of the paging process (BPB-40).
#[doc(alias = "DXGK_BUILDPAGINGBUFFER_TRANSFERVIRTUAL")]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct TransferVirtual {
    /// The allocation that moves.
    #[cfg_attr(feature = "serde", serde(rename = "allocation_handle"))]
    pub allocation: KmdAllocationHandle,
    /// The offset of the part in the allocation, in bytes. It is *not* to be added to the addresses.
    pub allocation_offset_in_bytes: u64,
    /// Bytes to copy; a multiple of 4 KiB, never 0.
    pub transfer_size_in_bytes: u64,
    /// The address of the part.
    pub source_virtual_address: GpuVirtualAddress,
    /// The address that it goes to.
    pub destination_virtual_address: GpuVirtualAddress,
    /// The direction.
    pub transfer_direction: MemoryTransferDirection,
    /// The page sizes of the two windows.
    pub flags: TransferVirtualFlags,
}

/// The direction of a transfer.
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
    #[cfg_attr(feature = "serde", serde(rename = "allocation_handle"))]
    pub allocation: KmdAllocationHandle,
    /// The offset of the part in the allocation, in bytes.
    pub allocation_offset_in_bytes: u64,
    /// Bytes to fill; a multiple of 4 KiB, never 0.
    pub fill_size_in_bytes: u64,
    /// The pattern: 32 bits, little-endian, repeated (U-12).
    pub fill_pattern: u32,
    /// The address of the part.
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
    #[cfg_attr(feature = "serde", serde(rename = "allocation_handle"))]
    pub allocation: Option<KmdAllocationHandle>,
    /// The table. WDDM has a union here; its other members are in [`update_mode`](Self::update_mode).
    pub page_table_address: PhysicalAddress,
    /// The entries.
    pub page_table_entries: PteRun,
    /// The index of the first.
    pub start_index: u32,
    /// The flags.
    pub flags: UpdatePageTableFlags,
    /// The user-mode driver's protection for the mapping; level 0 only (GVA-32, GVA-57).
    pub driver_protection: u64,
    /// The offset in the allocation of the bytes that the first entry maps (GVA-31).
    pub allocation_offset_in_bytes: u64,
    /// The process whose table it is.
    #[doc(alias = "hProcess")]
    #[cfg_attr(feature = "serde", serde(rename = "process_handle"))]
    pub process: KmdProcessHandle,
    /// How the entries are written.
    #[cfg_attr(feature = "serde", serde(default, skip_serializing_if = "UpdateMode::is_gpu_physical"))]
    pub update_mode: UpdateMode,
    /// The address that the first entry maps.
    pub first_pte_virtual_address: GpuVirtualAddress,
}

impl UpdatePageTable {
    /// The size of the pages that the entries of a leaf table map; 4 KiB above the leaves.
    pub fn page_size(&self) -> PageSize {
        if self.flags.contains(UpdatePageTableFlags::USE_64KB_PAGES) { PageSize::Kib64 } else { PageSize::Kib4 }
    }
}

/// How the entries of an [`UpdatePageTable`] are written, and where the table is for that (GVA-10, GVA-33).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "snake_case"))]
pub enum UpdateMode {
    /// By the CPU, before the call returns, at this address: there is no paging buffer, and the one answer is success
    /// (BPB-08). What was built before has completed on the GPU, and what comes after is not built yet.
    CpuVirtual(CpuVirtualAddress),
    /// By the paging engine, at this address of the paging process, where the table is mapped.
    GpuVirtual(GpuVirtualAddress),
    /// By the paging engine, at [`page_table_address`](UpdatePageTable::page_table_address).
    #[default]
    GpuPhysical,
}

impl UpdateMode {
    /// Whether the paging engine writes, at the table's physical address.
    pub fn is_gpu_physical(&self) -> bool {
        *self == Self::GpuPhysical
    }

    /// Whether the driver writes with the CPU, before the call returns.
    pub fn is_by_cpu(&self) -> bool {
        matches!(self, Self::CpuVirtual(_))
    }
}

bitflags! {
    /// The flags of an [`UpdatePageTable`] (3.3).
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

/// Make the GPU forget cached entries of a process's page tables (GVA-34).
#[doc(alias = "DXGK_BUILDPAGINGBUFFER_FLUSHTLB")]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct FlushTlb {
    /// The root table of the process.
    pub root_page_table_address: PhysicalAddress,
    /// The process.
    #[doc(alias = "hProcess")]
    #[cfg_attr(feature = "serde", serde(rename = "process_handle"))]
    pub process: KmdProcessHandle,
    /// First address to forget.
    pub start_virtual_address: GpuVirtualAddress,
    /// The address behind the last one to forget (U-20); with the start, both 0 mean the whole space.
    pub end_virtual_address: GpuVirtualAddress,
}

/// Let pages of the aperture segment show system memory (BPB-30). The GPU does not touch the range meanwhile (BPB-32).
#[doc(alias = "DXGK_BUILDPAGINGBUFFER_MAPAPERTURESEGMENT")]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct MapApertureSegment {
    /// The allocation that is mapped.
    #[cfg_attr(feature = "serde", serde(rename = "allocation_handle"))]
    pub allocation: KmdAllocationHandle,
    /// The aperture segment.
    pub segment_id: SegmentId,
    /// The first page of the aperture, in pages of 4 KiB from its start.
    pub offset_in_pages: u64,
    /// The number of pages; never 0.
    pub number_of_pages: u64,
    /// The system memory that the first page shows. The rest follows without gaps: WDDM passes a page list.
    #[doc(alias = "pMdl")]
    pub mdl: PhysicalAddress,
    /// The flags.
    pub flags: MapApertureFlags,
}

bitflags! {
    /// The flags of a [`MapApertureSegment`] and of a [`MapApertureSegment2`] (BPB-30).
    #[doc(alias = "DXGK_MAPAPERTUREFLAGS")]
    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    #[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
    pub struct MapApertureFlags: u32 {
        /// Cacheable memory in a cache-coherent aperture.
        const CACHE_COHERENT = 1 << 0;
    }
}

/// Let pages of the aperture segment show system memory that is given by its logical addresses (BPB-34): what a driver with
/// [`MAP_APERTURE2_SUPPORTED`](super::VidMmCaps::MAP_APERTURE2_SUPPORTED) is sent in place of a [`MapApertureSegment`], which
/// says the same.
///
/// WDDM's `CpuVisibleAddress` is left out: it is for allocations with MapApertureCpuVisible, which this project does not have.
#[doc(alias = "DXGK_BUILDPAGINGBUFFER_MAPAPERTURESEGMENT2")]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct MapApertureSegment2 {
    /// The allocation that is mapped.
    #[cfg_attr(feature = "serde", serde(rename = "allocation_handle"))]
    pub allocation: KmdAllocationHandle,
    /// The aperture segment.
    pub segment_id: SegmentId,
    /// The first page of the aperture, in pages of 4 KiB from its start.
    pub offset_in_pages: u64,
    /// The number of pages; never 0.
    pub number_of_pages: u64,
    /// The system memory that they show.
    pub adl: Adl,
    /// The flags.
    pub flags: MapApertureFlags,
}

/// The logical addresses of pages of system memory: of as many as the operation maps, in WDDM's contiguous form. Its other form,
/// an array of pages, does not occur, because a backing store has no gaps (BPB-34).
#[doc(alias = "DXGK_ADL")]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Adl {
    /// The address of the first page, in pages of 4 KiB. The rest follows without gaps.
    pub base_page_number: u64,
}

impl From<MapApertureSegment> for MapApertureSegment2 {
    fn from(op: MapApertureSegment) -> Self {
        let MapApertureSegment { allocation, segment_id, offset_in_pages, number_of_pages, mdl, flags } = op;
        let adl = Adl { base_page_number: mdl.offset / PAGE_SIZE };
        Self { allocation, segment_id, offset_in_pages, number_of_pages, adl, flags }
    }
}

impl From<MapApertureSegment2> for MapApertureSegment {
    fn from(op: MapApertureSegment2) -> Self {
        let MapApertureSegment2 { allocation, segment_id, offset_in_pages, number_of_pages, adl, flags } = op;
        // A log may hold any number, also of a page that no address reaches.
        let mdl =
            PhysicalAddress { segment: SegmentId::SYSTEM, offset: adl.base_page_number.saturating_mul(PAGE_SIZE) };
        Self { allocation, segment_id, offset_in_pages, number_of_pages, mdl, flags }
    }
}

/// Let pages of the aperture segment show the dummy page, so that a stray access is found and harms no allocation
/// (BPB-33).
#[doc(alias = "DXGK_BUILDPAGINGBUFFER_UNMAPAPERTURESEGMENT")]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct UnmapApertureSegment {
    /// The allocation that was mapped.
    #[cfg_attr(feature = "serde", serde(rename = "allocation_handle"))]
    pub allocation: KmdAllocationHandle,
    /// The aperture segment.
    pub segment_id: SegmentId,
    /// The first page of the aperture, in pages of 4 KiB from its start.
    pub offset_in_pages: u64,
    /// The number of pages; never 0.
    pub number_of_pages: u64,
    /// The page of system memory that all of them show from now on.
    pub dummy_page: PhysicalAddress,
}

/// Copy between physical places (BPB-20). An allocation moves completely, in one such operation or in several that follow each
/// other.
#[doc(alias = "DXGK_BUILDPAGINGBUFFER_TRANSFER")]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Transfer {
    /// The allocation.
    #[cfg_attr(feature = "serde", serde(rename = "allocation_handle"))]
    pub allocation: KmdAllocationHandle,
    /// Bytes from the start of the allocation: to be added on the side of a segment, and not on that of system memory (BPB-21).
    pub transfer_offset: u64,
    /// The number of bytes; none after a reset (BPB-27), else a multiple of 4 KiB.
    pub transfer_size: u64,
    /// The place of the allocation; in system memory, the start of its page list (BPB-22).
    pub source: PhysicalAddress,
    /// The place that it goes to, likewise.
    pub destination: PhysicalAddress,
    /// The flags.
    pub flags: TransferFlags,
    /// The first page of the page list that is meant, in pages of 4 KiB: to be added on the side of system memory (BPB-21).
    pub mdl_offset: u32,
}

impl Transfer {
    /// The address of the first byte at the source.
    pub fn first_source(&self) -> PhysicalAddress {
        self.advanced(self.source)
    }

    /// The address of the first byte at the destination.
    pub fn first_destination(&self) -> PhysicalAddress {
        self.advanced(self.destination)
    }

    fn advanced(&self, side: PhysicalAddress) -> PhysicalAddress {
        let by = if side.segment.is_system() { u64::from(self.mdl_offset) * PAGE_SIZE } else { self.transfer_offset };
        PhysicalAddress { offset: side.offset + by, ..side }
    }
}

bitflags! {
    /// The flags of a [`Transfer`] (BPB-20, BPB-06).
    #[doc(alias = "DXGK_TRANSFERFLAGS")]
    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    #[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
    pub struct TransferFlags: u32 {
        /// No work uses the allocation, and none will during this call.
        const ALLOCATION_IS_IDLE = 1 << 2;
        /// The first part.
        const TRANSFER_START = 1 << 3;
        /// The last part.
        const TRANSFER_END = 1 << 4;
    }
}

/// Give an allocation without content its first one (BPB-24). Only in the memory segment.
#[doc(alias = "DXGK_BUILDPAGINGBUFFER_FILL")]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Fill {
    /// The allocation.
    #[cfg_attr(feature = "serde", serde(rename = "allocation_handle"))]
    pub allocation: KmdAllocationHandle,
    /// The number of bytes: all of it, a multiple of 4 KiB.
    pub fill_size: u64,
    /// The pattern: 32 bits, little-endian, repeated (U-12).
    pub fill_pattern: u32,
    /// Its place.
    pub destination: PhysicalAddress,
}

/// An allocation leaves the memory segment without a copy (BPB-25, U-13).
#[doc(alias = "DXGK_BUILDPAGINGBUFFER_DISCARDCONTENT")]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct DiscardContent {
    /// The allocation.
    #[cfg_attr(feature = "serde", serde(rename = "allocation_handle"))]
    pub allocation: KmdAllocationHandle,
    /// The flags.
    pub flags: DiscardContentFlags,
    /// Its former place.
    pub address: PhysicalAddress,
}

bitflags! {
    /// The flags of a [`DiscardContent`] (BPB-06).
    #[doc(alias = "DXGK_DISCARDCONTENTFLAGS")]
    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    #[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
    pub struct DiscardContentFlags: u32 {
        /// No work uses the allocation, and none will during this call.
        const ALLOCATION_IS_IDLE = 1 << 0;
    }
}

/// An allocation is about to leave device access (NTF-01 to NTF-05).
#[doc(alias = "DXGK_BUILDPAGINGBUFFER_NOTIFYALLOC")]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct NotifyAlloc {
    /// The allocation.
    #[cfg_attr(feature = "serde", serde(rename = "allocation_handle"))]
    pub allocation: KmdAllocationHandle,
    /// The process whose address space the address is of: none is the paging process, as in every eviction
    /// notification.
    #[doc(alias = "hKmdProcessHandle")]
    #[cfg_attr(feature = "serde", serde(rename = "process_handle"))]
    pub process: Option<KmdProcessHandle>,
    /// The reason: exactly one flag.
    pub flags: NotifyAllocFlags,
    /// The offset of the part in the allocation, in bytes.
    pub offset_in_bytes: u64,
    /// Bytes of the part; a multiple of 4 KiB, never 0.
    pub size_in_bytes: u64,
    /// The address of the part.
    #[doc(alias = "GpuVirtualAddressAtOffset")]
    pub gpu_virtual_address_at_offset: GpuVirtualAddress,
}

bitflags! {
    /// The reason of a notification. One operation has exactly one (NTF-01).
    #[doc(alias = "DXGK_NOTIFYALLOCFLAGS")]
    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    #[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
    pub struct NotifyAllocFlags: u32 {
        /// It is evicted from the aperture or the implicit system memory segment (NTF-02).
        const EVICTION = 1 << 0;
        /// It is unmapped from the IOMMU (NTF-04).
        const IO_MMU_UNMAP = 1 << 1;
    }
}

/// An allocation has come into a memory segment, or is about to leave it (BPB-51). The driver is told of each once, for
/// the whole allocation.
#[doc(alias = "DXGK_BUILDPAGINGBUFFER_NOTIFYRESIDENCY")]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct NotifyResidency {
    /// The allocation.
    #[cfg_attr(feature = "serde", serde(rename = "allocation_handle"))]
    pub allocation: KmdAllocationHandle,
    /// Its place from now on; segment 0, offset 0 if it leaves.
    pub physical_address: PhysicalAddress,
    /// Whether it has come: the operations that bring its content precede, and may still run. Otherwise it leaves, and
    /// those that take its content out follow.
    pub resident: bool,
}

/// How many operations of each kind drivers have encoded, by [`PagingOperationKind`].
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct PagingOperationCounts([u64; PagingOperationKind::COUNT]);

impl Index<PagingOperationKind> for PagingOperationCounts {
    type Output = u64;

    fn index(&self, kind: PagingOperationKind) -> &u64 {
        &self.0[kind as usize]
    }
}

impl IndexMut<PagingOperationKind> for PagingOperationCounts {
    fn index_mut(&mut self, kind: PagingOperationKind) -> &mut u64 {
        &mut self.0[kind as usize]
    }
}
