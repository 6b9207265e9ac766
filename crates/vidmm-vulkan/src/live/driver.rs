//! The driver: it reports an adapter whose paging buffers hold copies and mappings.

use vidmm::contract::{
    AdapterInfo, AddressingModel, AllocationFlags2, AllocationInfo, BuildPagingBuffer, BuildStatus,
    CreateAllocationError, EngineDesc, EngineKind, GpuMmuCaps, GpuMmuFlags, Kmd, KmdAllocationHandle, KmdContextHandle,
    KmdError, KmdProcessHandle, LegacyBehaviors, PageTableLevelDesc, PageTableUpdateMode, PagingBufferDesc,
    PatchingCaps, RootPageTable, SegmentDescriptor, SegmentFlags, SegmentPreference, SegmentSet, SubmitCommand,
    VidMmCaps, WddmVersion,
};
use vidmm::{PAGE_SIZE, PAGE_SIZE_64K, SegmentId};
use vidmm_runtime::AllocationSegments;

use crate::operation::Encoder;

/// The segment of local memory.
pub(super) const LOCAL_SEGMENT: SegmentId = SegmentId(1);

/// An aperture names system memory (SEG-11). Nothing is mapped in it.
const APERTURE_SEGMENT: SegmentId = SegmentId(2);

/// The one engine. Applications run their work by themselves.
pub(super) const PAGING_ENGINE: u32 = 0;

const PAGING_BUFFER_BYTES: u32 = 64 << 10;

const ADDRESS_BITS: u32 = 47;

/// Index bits of page tables below the root. Entries are for pages of 4 KiB, and one update has any number of them.
const INDEX_BITS: [u32; 3] = [9, 9, 9];

/// A driver without a GPU of its own: its [`Encoder`] says what the queue is to do.
pub(super) struct DirectKmd {
    local_bytes: u64,
    /// 0 where the device cannot bind system memory.
    aperture_bytes: u64,
    last_handle: u64,
    last_process: KmdProcessHandle,
    encoder: Encoder,
}

/// The private data of an allocation (CRE-03).
#[derive(Clone, Copy)]
pub(super) struct AllocationData {
    pub size: u64,
    pub segments: AllocationSegments,
    /// The token of the application's commands before an eviction.
    pub foreign: Option<u32>,
}

impl AllocationData {
    /// The size, the number of the segments, and the token or 0.
    pub fn to_bytes(self) -> [u8; 16] {
        let segments: u32 = match self.segments {
            AllocationSegments::System => 1,
            AllocationSegments::LocalOrSystem => 2,
            AllocationSegments::Local | AllocationSegments::Ordered(_) => 0,
        };
        let words = [self.size as u32, (self.size >> 32) as u32, segments, self.foreign.unwrap_or(0)];
        let mut bytes = [0; 16];
        bytes.as_chunks_mut::<4>().0.iter_mut().zip(words).for_each(|(to, word)| *to = word.to_le_bytes());
        bytes
    }

    fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let bytes: [u8; 16] = bytes.try_into().ok()?;
        let word = |number: usize| u32::from_le_bytes(std::array::from_fn(|byte| bytes[number * 4 + byte]));
        let segments = match word(2) {
            0 => AllocationSegments::Local,
            1 => AllocationSegments::System,
            2 => AllocationSegments::LocalOrSystem,
            _ => return None,
        };
        let size = u64::from(word(1)) << 32 | u64::from(word(0));
        Some(Self { size, segments, foreign: Some(word(3)).filter(|&token| token > 0) })
    }
}

impl DirectKmd {
    /// The driver of an adapter with so many bytes of local memory, and of an aperture.
    pub fn new(local_bytes: u64, aperture_bytes: u64) -> Self {
        let (last_handle, last_process) = (0, KmdProcessHandle(0));
        Self { local_bytes, aperture_bytes, last_handle, last_process, encoder: Encoder::default() }
    }

    /// The process that was created last.
    pub fn last_process(&self) -> KmdProcessHandle {
        self.last_process
    }

    fn handle(&mut self) -> u64 {
        self.last_handle += 1;
        self.last_handle
    }

    /// Local memory is in pages of 64 KiB, the largest unit in which a device binds.
    fn segments(&self) -> Vec<SegmentDescriptor> {
        let of_local =
            SegmentFlags::APPLICATION_TARGET | SegmentFlags::LOCAL_BUDGET_GROUP | SegmentFlags::USE_64KB_PAGES;
        let of_aperture = SegmentFlags::APERTURE | SegmentFlags::NON_LOCAL_BUDGET_GROUP;
        let segment = |flags, base_address, size| SegmentDescriptor { flags, base_address, size, commit_limit: size };
        let mut segments = vec![segment(of_local, 0, self.local_bytes)];
        if self.aperture_bytes > 0 {
            segments.push(segment(of_aperture, self.local_bytes, self.aperture_bytes));
        }
        segments
    }
}

/// The levels of page tables, leaf first. Vulkan keeps tables of its own, so those of the manager take no local memory.
fn page_table_levels() -> Vec<PageTableLevelDesc> {
    let root = ADDRESS_BITS - PAGE_SIZE.trailing_zeros() - INDEX_BITS.iter().sum::<u32>();
    let level = |page_table_index_bit_count| PageTableLevelDesc {
        page_table_index_bit_count,
        page_table_segment_id: SegmentId::SYSTEM,
        paging_process_page_table_segment_id: SegmentId::SYSTEM,
        page_table_size_in_bytes: PAGE_SIZE as u32,
        page_table_alignment_in_bytes: 0,
    };
    INDEX_BITS.into_iter().chain([root]).map(level).collect()
}

impl Kmd for DirectKmd {
    fn query_adapter_info(&mut self) -> AdapterInfo {
        AdapterInfo {
            wddm_version: WddmVersion::WDDM3_2,
            addressing_model: AddressingModel::GpuMmu,
            memory_management_caps: VidMmCaps::empty(),
            segments: self.segments(),
            linked_adapter_segments: Vec::new(),
            aperture_segment_commit_limit: u64::MAX,
            scheduling_log_buffer_size: None,
            engines: vec![EngineDesc { kind: EngineKind::Paging }],
            gpu_mmu: GpuMmuCaps {
                // Nothing at all is cached.
                flags: GpuMmuFlags::INVALID_TLB_ENTRIES_NOT_CACHED,
                page_table_update_mode: PageTableUpdateMode::GpuPhysical,
                virtual_address_bit_count: ADDRESS_BITS,
                leaf_page_table_size_for_64k_pages_in_bytes: 0,
                legacy_behaviors: LegacyBehaviors::empty(),
            },
            page_table_levels: page_table_levels(),
            paging_buffer: PagingBufferDesc { size: PAGING_BUFFER_BYTES, private_data_size: 0 },
            write_behind: true,
            patching: PatchingCaps::default(),
        }
    }

    fn create_process(&mut self, system_process: bool) -> Result<KmdProcessHandle, KmdError> {
        self.last_process = KmdProcessHandle(self.handle());
        if system_process {
            self.encoder.set_paging_process(self.last_process);
        }
        Ok(self.last_process)
    }

    fn destroy_process(&mut self, _: KmdProcessHandle) {}

    fn create_context(&mut self, _: KmdProcessHandle, _: u32, _: bool) -> Result<KmdContextHandle, KmdError> {
        Ok(KmdContextHandle(self.handle()))
    }

    fn destroy_context(&mut self, _: KmdContextHandle) {}

    fn create_allocation(&mut self, private_driver_data: &[u8]) -> Result<AllocationInfo, CreateAllocationError> {
        let data = AllocationData::from_bytes(private_driver_data).ok_or(CreateAllocationError::InvalidParameter)?;
        let segments: &[SegmentId] = match data.segments {
            AllocationSegments::System => &[APERTURE_SEGMENT],
            AllocationSegments::LocalOrSystem => &[LOCAL_SEGMENT, APERTURE_SEGMENT],
            AllocationSegments::Local | AllocationSegments::Ordered(_) => &[LOCAL_SEGMENT],
        };
        let allocation = KmdAllocationHandle(self.handle());
        let mut flags2 = AllocationFlags2::empty();
        if let Some(token) = data.foreign {
            self.encoder.set_foreign(allocation, token);
            flags2 |= AllocationFlags2::NOTIFY_EVICTION;
        }
        let mut preferred_segment = SegmentPreference::default();
        preferred_segment.segment_ids[..segments.len()].copy_from_slice(segments);
        let supported = SegmentSet(segments.iter().map(|&segment| SegmentSet::of(segment).0).sum());
        let plain = AllocationInfo::new(allocation, data.size, supported);
        Ok(AllocationInfo { alignment: PAGE_SIZE_64K as u32, preferred_segment, flags2, ..plain })
    }

    fn destroy_allocation(&mut self, allocation: KmdAllocationHandle) {
        self.encoder.forget(allocation);
    }

    fn set_root_page_table(&mut self, _: KmdContextHandle, _: RootPageTable) {}

    fn build_paging_buffer(&mut self, build: &mut BuildPagingBuffer<'_>) -> BuildStatus {
        self.encoder.build(build)
    }

    fn submit_command(&mut self, _: &SubmitCommand, _: &mut Vec<u8>) {}
}
