//! The driver's report when its adapter starts.

use alloc::vec::Vec;

use bitflags::bitflags;

use crate::units::SegmentId;

/// The version of the driver's interface (0.4).
///
/// Nothing newer than the version that the driver declares is ever sent to it (I23).
#[doc(alias = "DXGKDDI_INTERFACE_VERSION")]
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct WddmVersion(pub u32);

impl WddmVersion {
    /// WDDM 1.3: Windows 8.1.
    pub const WDDM1_3: WddmVersion = WddmVersion(0x4002);
    /// WDDM 2.0: GPU virtual addresses and residency lists.
    pub const WDDM2_0: WddmVersion = WddmVersion(0x5023);
    /// WDDM 2.9: MAP_APERTURE_SEGMENT2 (BPB-34, C-18).
    pub const WDDM2_9: WddmVersion = WddmVersion(0xE003);
    /// WDDM 3.2: Windows 11 24H2, allocation notification.
    pub const WDDM3_2: WddmVersion = WddmVersion(0x11007);
}

/// The driver's whole report at adapter start (CAP-01).
#[derive(Clone, Debug)]
pub struct AdapterInfo {
    /// The interface version that the driver was written for.
    pub wddm_version: WddmVersion,
    /// How engines find memory.
    pub addressing_model: AddressingModel,
    /// The driver's capabilities for the memory manager.
    #[doc(alias = "MemoryManagementCaps")]
    pub memory_management_caps: VidMmCaps,
    /// The segments of physical adapter 0, ids 1.. in this order (SEG-05).
    #[doc(alias = "DXGK_QUERYSEGMENTOUT4")]
    pub segments: Vec<SegmentDescriptor>,
    /// The segments of the other physical adapters of a link, by index from 1; empty without a link. This version asks
    /// each for the size of its paging process's address space (PGV-01), and places nothing in their segments.
    pub linked_adapter_segments: Vec<Vec<SegmentDescriptor>>,
    /// The most that may be resident in all aperture segments and implicit system memory together, in bytes (1.7).
    #[doc(alias = "ApertureSegmentCommitLimit")]
    pub aperture_segment_commit_limit: u64,
    /// Bytes of the log buffers of hardware scheduling; none, or 0, if the OS schedules (PGV-02, PGV-03).
    #[doc(alias = "DxgkDdiSetSchedulingLogBuffer")]
    pub scheduling_log_buffer_size: Option<u64>,
    /// The engines ("nodes"), ordinals 0.. in this order.
    #[doc(alias = "DXGK_NODEMETADATA")]
    pub engines: Vec<EngineDesc>,
    /// The GPU's memory management unit.
    pub gpu_mmu: GpuMmuCaps,
    /// The levels of its page tables; level 0 is the leaf (GVA-11). Empty unless the model is GpuMmu: then there are none.
    pub page_table_levels: Vec<PageTableLevelDesc>,
    /// The buffers in which the driver encodes paging operations (SEG-35).
    pub paging_buffer: PagingBufferDesc,
    /// Whether the driver takes VIRTUAL_TRANSFER from a memory segment to system memory for an allocation that stays in place (D37). A
    /// driver that counts each such transfer as an eviction (BPB-51) says no. Ours; WDDM has no such copies.
    pub write_behind: bool,
    /// The further report for an adapter without GPU virtual addresses. Ignored otherwise.
    pub patching: PatchingCaps,
}

/// The report of the driver of an adapter without GPU virtual addresses (section 7).
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct PatchingCaps {
    /// The number of slots of a DMA buffer's resource table: slots are 0 to one less (SPL-02, U-44).
    #[doc(alias = "DXGK_DRIVERCAPS")]
    pub max_allocation_list_slot_id: u32,
    /// Whether engines save and restore their state between packets, so that other contexts may run between the
    /// portions of a split DMA buffer (SPL-07).
    #[doc(alias = "DXGK_VIDSCHCAPS")]
    pub preemption_aware: bool,
    /// Whether DMA buffers need no patching, so that bindings that leak from one portion to the next are none of the manager's
    /// business (SPL-12).
    #[doc(alias = "DXGK_VIDSCHCAPS")]
    pub no_dma_patching: bool,
    /// The banks of the first memory segment: the end of each, in bytes from the segment's start. The last may be left
    /// out; none is one bank (SEG-31).
    #[doc(alias = "pBankRangeTable")]
    pub bank_range_table: Vec<u64>,
}

/// How engines find memory (PGV-20, U-17).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "snake_case"))]
pub enum AddressingModel {
    /// The GPU has page tables of its own, which the manager writes (GVA-01).
    #[default]
    GpuMmu,
    /// The GPU virtual addresses of each process are translated by the IOMMU, in a domain of the process's own; only system
    /// memory can be reached.
    #[doc(alias = "GpuVaIommuRequired")]
    GpuVaIoMmu,
    /// As GpuVaIoMmu, with one domain for all processes: no two of them use the same address.
    #[doc(alias = "GpuVaIommuGlobalRequired")]
    GpuVaIoMmuGlobal,
    /// Engines use physical addresses, which the driver patches into each DMA buffer before it runs (PAT-10). An allocation is
    /// one range of its segment, and devices have reference lists unless they are created with a device list (PAT-17).
    Physical,
}

bitflags! {
    /// A driver's capabilities for the memory manager, with WDDM's bit positions.
    #[doc(alias = "DXGK_VIDMMCAPS")]
    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    pub struct VidMmCaps: u32 {
        /// The driver is sent MAP_APERTURE_SEGMENT2 in place of MAP_APERTURE_SEGMENT (BPB-34). From WDDM 2.9 on (C-18).
        #[doc(alias = "MapAperture2Supported")]
        const MAP_APERTURE2_SUPPORTED = 1 << 14;
    }
}

/// One segment.
#[doc(alias = "DXGK_SEGMENTDESCRIPTOR4")]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SegmentDescriptor {
    /// Its kind and properties.
    pub flags: SegmentFlags,
    /// Its address in the GPU's physical address space, in bytes.
    pub base_address: u64,
    /// Its size in bytes; a multiple of its page size (SEG-06).
    pub size: u64,
    /// The most that may be committed in it, in bytes; equal to `size` for a memory segment (SEG-30).
    pub commit_limit: u64,
}

bitflags! {
    /// The flags of a segment, with WDDM's bit positions (1.3).
    #[doc(alias = "DXGK_SEGMENTFLAGS")]
    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    pub struct SegmentFlags: u32 {
        /// An address range over system memory, without storage of its own.
        const APERTURE = 1 << 0;
        /// The CPU sees the segment.
        const CPU_VISIBLE = 1 << 2;
        /// An aperture through which the GPU snoops the CPU's caches.
        const CACHE_COHERENT = 1 << 4;
        /// Managed as 64 KiB pages (GVA-40).
        const USE_64KB_PAGES = 1 << 11;
        /// Counts toward application budgets (C-2).
        const APPLICATION_TARGET = 1 << 15;
        /// Counts in the local group.
        const LOCAL_BUDGET_GROUP = 1 << 19;
        /// Counts in the non-local group.
        const NON_LOCAL_BUDGET_GROUP = 1 << 20;
    }
}

/// One engine.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct EngineDesc {
    /// Its purpose.
    pub kind: EngineKind,
}

/// The purpose of an engine.
#[doc(alias = "DXGK_ENGINE_TYPE")]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "snake_case"))]
pub enum EngineKind {
    /// Runs the paging buffers, in the system context (GVA-63). Exactly one engine does. Users' contexts run on it only if
    /// it is the adapter's only engine.
    Paging,
    /// Runs shaders.
    Render3d,
    /// Copies.
    Copy,
}

/// The memory management unit (GVA-10, 4.2).
#[doc(alias = "DXGK_GPUMMUCAPS")]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct GpuMmuCaps {
    /// Its capabilities.
    pub flags: GpuMmuFlags,
    /// How page tables are written.
    pub page_table_update_mode: PageTableUpdateMode,
    /// Bits in a GPU virtual address.
    pub virtual_address_bit_count: u32,
    /// Bytes in a leaf table whose entries map 64 KiB pages (GVA-44); used when the MMU has dual entries.
    pub leaf_page_table_size_for_64k_pages_in_bytes: u32,
    /// The driver's wishes beyond today's contract.
    pub legacy_behaviors: LegacyBehaviors,
}

bitflags! {
    /// The capabilities of a memory management unit, with WDDM's bit positions (4.2).
    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    pub struct GpuMmuFlags: u32 {
        /// An entry can forbid writes. Without it mappings are writable, whatever their callers ask for.
        const READ_ONLY_MEMORY_SUPPORTED = 1 << 0;
        /// An entry can forbid execution. Without it mappings are executable, whatever their callers ask for.
        const NO_EXECUTE_MEMORY_SUPPORTED = 1 << 1;
        /// An entry can read as zero, on every level (GVA-20). Those of reserved addresses do (GVA-52).
        const ZERO_IN_PTE_SUPPORTED = 1 << 2;
        /// Every valid entry must be invalidated before its table is freed.
        const EXPLICIT_PAGE_TABLE_INVALIDATION = 1 << 3;
        /// An entry can say that the CPU's caches are snooped. Entries that show allocations with
        /// [`CACHED`](super::AllocationFlags::CACHED) in system memory do.
        const CACHE_COHERENT_MEMORY_SUPPORTED = 1 << 4;
        /// No work of a process may run while its entries are written or flushed (GVA-35). Refused at adapter start in this
        /// version.
        const PAGE_TABLE_UPDATE_REQUIRE_ADDRESS_SPACE_IDLE = 1 << 5;
        /// An entry above the leaves can point to memory (GVA-21). Those of level 1 do, where a leaf table shows one piece of it.
        const LARGE_PAGE_SUPPORTED = 1 << 6;
        /// A level-1 entry holds the address of a 4 KiB leaf table and of a 64 KiB leaf table (GVA-43).
        ///
        /// Without it we map a 64 KiB page as 16 contiguous entries of 4 KiB (GVA-40).
        const DUAL_PTE_SUPPORTED = 1 << 7;
        /// Such memory may begin at any page; else at a multiple of what a leaf table covers.
        const ALLOW_NON_ALIGNED_LARGE_PAGE_ADDRESS = 1 << 8;
        /// Pages of 64 KiB can lie in system memory. The core does not use this capability.
        const SYS_MEM_64KB_PAGE_SUPPORTED = 1 << 9;
        /// An invalid entry is never cached: no flush when an entry becomes valid.
        const INVALID_TLB_ENTRIES_NOT_CACHED = 1 << 10;
        /// Memory that an entry above the leaves points to can be system memory.
        const SYS_MEM_LARGE_PAGE_SUPPORTED = 1 << 11;
    }
}

bitflags! {
    /// Behaviour of older memory managers that a driver may still rely on, with WDDM's bit positions (4.2).
    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    pub struct LegacyBehaviors: u32 {
        /// A virtual transfer says where the page tables of its two sides are (BPB-40). Refused at adapter start in this version.
        const SOURCE_PAGE_TABLE_VA_IN_TRANSFER = 1 << 0;
    }
}

/// How page tables are written (GVA-10).
#[doc(alias = "DXGK_PAGETABLEUPDATEMODE")]
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "snake_case"))]
pub enum PageTableUpdateMode {
    /// By the CPU, without a paging buffer (BPB-08). All page tables must live in system memory.
    CpuVirtual,
    /// By the paging engine, the table addressed in the paging process's address space. The tables of that process must live in
    /// system memory: the CPU sets them up (GVA-33).
    GpuVirtual,
    /// By the paging engine, the table addressed by segment and offset.
    #[default]
    GpuPhysical,
}

impl PageTableUpdateMode {
    /// Whether it is the mode of a log that does not name one.
    #[cfg(feature = "serde")]
    pub(crate) fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

/// One level of the page tables (4.3).
#[doc(alias = "DXGK_PAGE_TABLE_LEVEL_DESC")]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PageTableLevelDesc {
    /// A table of this level has two to this power entries. The root takes the address bits that remain (GVA-12); with two
    /// levels this is how many of its entries it has at first (GVA-15), if the driver says
    /// [how large all are](crate::contract::Kmd::get_root_page_table_size).
    pub page_table_index_bit_count: u32,
    /// The segment of the tables of processes; system memory allows 4 KiB tables only (GVA-15).
    pub page_table_segment_id: SegmentId,
    /// The segment of the tables of the paging process.
    pub paging_process_page_table_segment_id: SegmentId,
    /// Bytes in a table; a multiple of 4 KiB. What is larger than a page of its segment lies in an area of its own
    /// ([`AdapterOptions::page_table_area`](crate::AdapterOptions::page_table_area)).
    pub page_table_size_in_bytes: u32,
    /// A table lies at a multiple of so many bytes; up to 4 KiB means nothing. No more than the largest table takes.
    pub page_table_alignment_in_bytes: u32,
}

/// The buffers in which the driver encodes paging operations (SEG-35).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PagingBufferDesc {
    /// Bytes in a buffer; we round up to 4 KiB (U-4).
    pub size: u32,
    /// Bytes of private data beside each buffer; zeroed once, never touched by us afterwards; 0 is none.
    pub private_data_size: u32,
}
