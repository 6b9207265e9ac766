//! The driver's report, checked (U-1).

use super::{Adapter, ApertureSegment, LargePages, Level, MemorySegment, NotificationRevision, VerifierKnobs};
use alloc::vec::Vec;

use vidmm_linear::{MAX_BANKS, MAX_SEGMENT_SIZE};

use crate::{
    budget::{
        MemorySegmentGroup,
        account::{Account, Home},
    },
    contract::{
        AdapterInfo, AddressingModel, BrokenRule, EngineKind, GpuMmuFlags, LegacyBehaviors, PageTableUpdateMode,
        PagingBufferDesc, PatchingCaps, SegmentDescriptor, SegmentFlags, VidMmCaps, WddmVersion,
    },
    units::{PAGE_SIZE, PAGE_SIZE_64K, PageSize, PhysicalAddress, SegmentId},
};

const SEGMENTS_MAX: usize = 32;
const ENGINES_MAX: usize = 64;
/// The number of a page in a segment has 48 bits in our records.
const SEGMENT_SIZE_MAX: u64 = PAGE_SIZE << 48;
/// A slot id has 24 bits (7.1, U-44).
const SLOTS_MAX: u32 = 1 << 24;
/// A bank id has 7 bits (SEG-43).
const BANKS_MAX: usize = MAX_BANKS;
const PAGING_BUFFER_MAX: u32 = 64 << 20;

/// Checks what the driver reports. The size of the paging process's address space is left to
/// [`paging_va`](crate::calls::paging_va).
pub(crate) fn validate(info: &AdapterInfo, total_system_memory: u64) -> Result<Adapter, Vec<BrokenRule>> {
    let mut broken = Vec::new();
    let is_physical = info.addressing_model == AddressingModel::Physical;
    if info.wddm_version < WddmVersion::WDDM2_0 && !is_physical {
        broken.push(BrokenRule::Version(info.wddm_version.0));
    }
    let map_aperture2 = info.memory_management_caps.contains(VidMmCaps::MAP_APERTURE2_SUPPORTED);
    if map_aperture2 && info.wddm_version < WddmVersion::WDDM2_9 {
        broken.push(BrokenRule::MapAperture2(info.wddm_version.0));
    }
    let (memory, apertures) = check_segments(info.wddm_version, &info.segments, &mut broken);
    for segments in &info.linked_adapter_segments {
        let (memory, _) = check_segments(info.wddm_version, segments, &mut broken);
        check_reach(info, &memory, &mut broken);
    }
    check_reach(info, &memory, &mut broken);
    let paging_engine = check_engines(info, &mut broken);
    let levels = match info.addressing_model {
        AddressingModel::GpuMmu => check_levels(info, &mut broken),
        AddressingModel::Physical => check_patching(info, &memory, &mut broken),
        AddressingModel::GpuVaIoMmu | AddressingModel::GpuVaIoMmuGlobal => check_io_mmu(info, &mut broken),
    };
    let has_page_tables = info.addressing_model == AddressingModel::GpuMmu;
    if has_page_tables {
        check_update_mode(info, &mut broken);
        check_mmu(info, &mut broken);
    }
    let dual = has_page_tables && info.gpu_mmu.flags.contains(GpuMmuFlags::DUAL_PTE_SUPPORTED);
    let leaf_64kb = info.gpu_mmu.leaf_page_table_size_for_64k_pages_in_bytes;
    if let (true, Some(levels)) = (dual, &levels) {
        check_leaf_64kb(leaf_64kb, &levels[0], &mut broken);
    }
    let PagingBufferDesc { size, private_data_size } = info.paging_buffer;
    if size.max(private_data_size) > PAGING_BUFFER_MAX {
        broken.push(BrokenRule::PagingBufferSize { size, private_data_size });
    }
    let (Some(paging_engine), Some(levels), true) = (paging_engine, levels, broken.is_empty()) else {
        return Err(broken);
    };
    let mut adapter = Adapter {
        version: info.wddm_version,
        model: info.addressing_model,
        map_aperture2,
        revision: NotificationRevision::default(),
        memory,
        apertures,
        system_group: system_group(&info.segments),
        system_commit_limit: system_commit_limit(info, total_system_memory),
        segments_mask: u32::MAX >> (32 - info.segments.len()),
        engines: info.engines.iter().map(|engine| engine.kind).collect(),
        paging_engine,
        levels,
        leaf_table_64kb: dual.then_some(u64::from(leaf_64kb)),
        // Without GPU virtual addresses whatever is reported means nothing.
        va_bits: if is_physical { 0 } else { info.gpu_mmu.virtual_address_bit_count },
        // A mapping in the IOMMU can always be read-only.
        has_read_only: !has_page_tables || info.gpu_mmu.flags.contains(GpuMmuFlags::READ_ONLY_MEMORY_SUPPORTED),
        has_no_execute: has_page_tables && info.gpu_mmu.flags.contains(GpuMmuFlags::NO_EXECUTE_MEMORY_SUPPORTED),
        has_zero: has_page_tables && info.gpu_mmu.flags.contains(GpuMmuFlags::ZERO_IN_PTE_SUPPORTED),
        large_pages: None,
        has_cache_coherent: has_page_tables
            && info.gpu_mmu.flags.contains(GpuMmuFlags::CACHE_COHERENT_MEMORY_SUPPORTED),
        verifier: VerifierKnobs::default(),
        page_table_update_mode: PageTableUpdateMode::default(),
        paging_tables_by_cpu: false,
        invalid_not_cached: info.gpu_mmu.flags.contains(GpuMmuFlags::INVALID_TLB_ENTRIES_NOT_CACHED),
        tables_in: Account::FIRST_MEMORY,
        paging_tables_in: Account::FIRST_MEMORY,
        first_root_entries: 0,
        page_table_area: 0,
        table_alignment: table_alignment(info),
        paging_va_size: 0,
        table_views: None,
        dummy_page: PhysicalAddress { segment: SegmentId::SYSTEM, offset: 0 },
        paging_buffer_size: (info.paging_buffer.size as usize)
            .next_multiple_of(PAGE_SIZE as usize)
            .max(PAGE_SIZE as usize),
        paging_private_size: info.paging_buffer.private_data_size as usize,
        num_slots: info.patching.max_allocation_list_slot_id,
        preemption_aware: info.patching.preemption_aware,
        no_dma_patching: info.patching.no_dma_patching,
        bank_ends: info.patching.bank_range_table.clone(),
    };
    adapter.first_root_entries = adapter.root_entries();
    if has_page_tables {
        // Tables are never in an aperture: what is no memory segment is system memory (GVA-15).
        let [tables_in, paging_tables_in] =
            homes_of(info).map(|segment| adapter.home_in(segment).map_or(Account::SYSTEM, Home::account));
        (adapter.tables_in, adapter.paging_tables_in) = (tables_in, paging_tables_in);
        adapter.page_table_update_mode = info.gpu_mmu.page_table_update_mode;
        let has = |flag| info.gpu_mmu.flags.contains(flag);
        adapter.large_pages = has(GpuMmuFlags::LARGE_PAGE_SUPPORTED).then(|| LargePages {
            bytes: adapter.coverage(0),
            begins_anywhere: has(GpuMmuFlags::ALLOW_NON_ALIGNED_LARGE_PAGE_ADDRESS),
            in_system_memory: has(GpuMmuFlags::SYS_MEM_LARGE_PAGE_SUPPORTED),
        });
    }
    Ok(adapter)
}

/// The alignment of page tables: that of the level that asks for most.
fn table_alignment(info: &AdapterInfo) -> u64 {
    let alignments = info.page_table_levels.iter().map(|level| u64::from(level.page_table_alignment_in_bytes));
    alignments.max().unwrap_or(0).max(PAGE_SIZE)
}

/// The segments in which page tables live, those of processes and those of the paging process: the same for all levels.
fn homes_of(info: &AdapterInfo) -> [SegmentId; 2] {
    let leaf = info.page_table_levels.first();
    leaf.map_or([SegmentId::SYSTEM; 2], |leaf| [leaf.page_table_segment_id, leaf.paging_process_page_table_segment_id])
}

/// The shared limit (1.7). Implicit system memory counts against it as the aperture does (U-6); without an aperture no driver can
/// name it (SEG-11), and nothing is resident there.
fn system_commit_limit(info: &AdapterInfo, total_system_memory: u64) -> u64 {
    let apertures = info.segments.iter().filter(|segment| is_aperture(segment));
    let committable: u64 = apertures.map(|segment| segment.commit_limit).sum();
    let for_graphics = (total_system_memory / 2).max(64 << 20);
    let limit = committable.min(info.aperture_segment_commit_limit).min(for_graphics);
    limit - limit % PAGE_SIZE
}

/// Behind an IOMMU engines reach system memory only (GVA-02, U-17).
fn check_reach(info: &AdapterInfo, memory: &[MemorySegment], broken: &mut Vec<BrokenRule>) {
    let is_behind_io_mmu =
        matches!(info.addressing_model, AddressingModel::GpuVaIoMmu | AddressingModel::GpuVaIoMmuGlobal);
    if let Some(memory) = memory.first().filter(|_| is_behind_io_mmu) {
        broken.push(BrokenRule::MemorySegmentBehindIoMmu(memory.id.0));
    }
}

/// The CPU writes page tables only where they lie in system memory (GVA-10, GVA-33).
fn check_update_mode(info: &AdapterInfo, broken: &mut Vec<BrokenRule>) {
    match info.gpu_mmu.page_table_update_mode {
        PageTableUpdateMode::CpuVirtual => {
            let in_memory = homes_of(info).into_iter().find(|segment| !segment.is_system());
            broken.extend(in_memory.map(|segment| BrokenRule::CpuTablesInLocalMemory(segment.0)));
        }
        PageTableUpdateMode::GpuVirtual => {
            let [_, of_paging_process] = homes_of(info);
            if !of_paging_process.is_system() {
                broken.push(BrokenRule::PagingTablesBeyondCpu(of_paging_process.0));
            }
        }
        PageTableUpdateMode::GpuPhysical => {}
    }
}

/// A capability that is not used harms nobody; a demand that is not met does.
fn check_mmu(info: &AdapterInfo, broken: &mut Vec<BrokenRule>) {
    if info.gpu_mmu.flags.contains(GpuMmuFlags::PAGE_TABLE_UPDATE_REQUIRE_ADDRESS_SPACE_IDLE) {
        broken.push(BrokenRule::AddressSpaceIdle);
    }
    if info.gpu_mmu.legacy_behaviors.contains(LegacyBehaviors::SOURCE_PAGE_TABLE_VA_IN_TRANSFER) {
        broken.push(BrokenRule::PageTablesInTransfers);
    }
}

/// An adapter behind an IOMMU has no page tables (U-17).
fn check_io_mmu(info: &AdapterInfo, broken: &mut Vec<BrokenRule>) -> Option<Vec<Level>> {
    if !info.page_table_levels.is_empty() {
        broken.push(BrokenRule::LevelsWithoutGpuMmu(info.page_table_levels.len()));
    }
    let va_bits = info.gpu_mmu.virtual_address_bit_count;
    if !(32..=63).contains(&va_bits) {
        broken.push(BrokenRule::IoMmuAddressBits(va_bits));
    }
    Some(Vec::new())
}

/// An adapter without GPU virtual addresses has slots to bind allocations to, and may divide its memory segment into banks.
fn check_patching(info: &AdapterInfo, memory: &[MemorySegment], broken: &mut Vec<BrokenRule>) -> Option<Vec<Level>> {
    if !info.page_table_levels.is_empty() {
        broken.push(BrokenRule::LevelsWithoutGpuMmu(info.page_table_levels.len()));
    }
    let PatchingCaps { max_allocation_list_slot_id: slots, ref bank_range_table, .. } = info.patching;
    if !(1..=SLOTS_MAX).contains(&slots) {
        broken.push(BrokenRule::SlotCount(slots));
    }
    for memory in memory.iter().filter(|memory| memory.size > MAX_SEGMENT_SIZE) {
        broken.push(BrokenRule::LinearSegmentSize(memory.size));
    }
    let size = memory.first().map_or(0, |memory| memory.size);
    let rises = bank_range_table.is_sorted_by(|before, next| before < next);
    let is_end = |&end: &u64| end > 0 && end.is_multiple_of(PAGE_SIZE) && end <= size;
    if bank_range_table.len() > BANKS_MAX || !rises || !bank_range_table.iter().all(is_end) {
        broken.push(BrokenRule::Banks { count: bank_range_table.len() });
    }
    Some(Vec::new())
}

fn check_segments(
    version: WddmVersion,
    segments: &[SegmentDescriptor],
    broken: &mut Vec<BrokenRule>,
) -> (Vec<MemorySegment>, Vec<ApertureSegment>) {
    if segments.is_empty() || segments.len() > SEGMENTS_MAX {
        broken.push(BrokenRule::SegmentCount(segments.len()));
        return (Vec::new(), Vec::new());
    }
    let numbered = || segments.iter().enumerate().map(|(index, segment)| (index as u8 + 1, segment));
    for (id, segment) in numbered() {
        let page_size = page_size_of(segment).bytes();
        if segment.size == 0 || !segment.size.is_multiple_of(page_size) {
            broken.push(BrokenRule::SegmentSize { segment: id, size: segment.size, page_size });
        }
        if segment.size > SEGMENT_SIZE_MAX {
            broken.push(BrokenRule::SegmentTooLarge { segment: id, size: segment.size });
        }
        if segment.base_address.checked_add(segment.size).is_none() {
            broken.push(BrokenRule::SegmentOverflow(id));
        }
        if !is_aperture(segment) && segment.commit_limit != segment.size {
            let (size, commit_limit) = (segment.size, segment.commit_limit);
            broken.push(BrokenRule::CommitLimit { segment: id, size, commit_limit });
        }
        for (other_id, other) in numbered().skip(usize::from(id)) {
            let starts_before_end =
                |a: &SegmentDescriptor, b: &SegmentDescriptor| a.base_address < b.base_address.saturating_add(b.size);
            if starts_before_end(segment, other) && starts_before_end(other, segment) {
                broken.push(BrokenRule::SegmentOverlap(id, other_id));
            }
        }
    }
    let num_apertures = segments.iter().filter(|segment| is_aperture(segment)).count();
    let apertures_max = if version >= WddmVersion::WDDM2_0 { 1 } else { Home::APERTURES_MAX };
    if num_apertures > apertures_max {
        broken.push(BrokenRule::ApertureCount(num_apertures));
    }
    let memories = segments.len() - num_apertures;
    if memories >= Account::COUNT_MAX {
        broken.push(BrokenRule::MemorySegmentCount(memories));
    }
    let memory = numbered().filter(|(_, segment)| !is_aperture(segment)).map(|(id, segment)| MemorySegment {
        id: SegmentId(id),
        size: segment.size,
        page_size: page_size_of(segment),
        cpu_visible: segment.flags.contains(SegmentFlags::CPU_VISIBLE),
        group: memory_group(segments, segment),
    });
    let mut start = 0;
    let apertures = numbered().filter(|(_, segment)| is_aperture(segment)).map(|(id, segment)| {
        // The shared limit of a lone aperture is its own limit too. Of several no more is used than may be mapped in each (SEG-50).
        let usable = if num_apertures > 1 { segment.commit_limit.min(segment.size) } else { segment.size };
        let aperture = ApertureSegment {
            id: SegmentId(id),
            start,
            size: usable - usable % PAGE_SIZE,
            cache_coherent: segment.flags.contains(SegmentFlags::CACHE_COHERENT),
        };
        // No range begins in one aperture and ends in the next.
        start = (start + usable.min(SEGMENT_SIZE_MAX) + PAGE_SIZE_64K).next_multiple_of(PAGE_SIZE_64K);
        aperture
    });
    let apertures = Vec::from_iter(apertures.take(Home::APERTURES_MAX));
    let is_beyond = |aperture: &&ApertureSegment| aperture.start.saturating_add(aperture.size) > SEGMENT_SIZE_MAX;
    for beyond in apertures.iter().skip(1).filter(is_beyond) {
        broken.push(BrokenRule::SegmentTooLarge { segment: beyond.id.0, size: beyond.size });
    }
    (memory.collect(), apertures)
}

/// The group that a memory segment counts in. If any of them counts toward budgets, those do that say so (SEG-20, RES-50).
fn memory_group(segments: &[SegmentDescriptor], segment: &SegmentDescriptor) -> Option<MemorySegmentGroup> {
    let counts = |segment: &SegmentDescriptor| segment.flags.contains(SegmentFlags::APPLICATION_TARGET);
    let any_counts = segments.iter().any(|segment| !is_aperture(segment) && counts(segment));
    if any_counts && !counts(segment) {
        return None;
    }
    let groups = segment.flags & (SegmentFlags::LOCAL_BUDGET_GROUP | SegmentFlags::NON_LOCAL_BUDGET_GROUP);
    let is_non_local = groups == SegmentFlags::NON_LOCAL_BUDGET_GROUP;
    Some(if is_non_local { MemorySegmentGroup::NonLocal } else { MemorySegmentGroup::Local })
}

/// The group that system memory counts in: the aperture's, and where there is nothing else the local one (SEG-20, RES-50).
fn system_group(segments: &[SegmentDescriptor]) -> MemorySegmentGroup {
    let is_local = |segment: &SegmentDescriptor| segment.flags.contains(SegmentFlags::LOCAL_BUDGET_GROUP);
    let mut apertures = segments.iter().filter(|segment| is_aperture(segment));
    let has_memory = segments.iter().any(|segment| !is_aperture(segment));
    if !has_memory || apertures.any(is_local) { MemorySegmentGroup::Local } else { MemorySegmentGroup::NonLocal }
}

fn is_aperture(segment: &SegmentDescriptor) -> bool {
    segment.flags.contains(SegmentFlags::APERTURE)
}

fn page_size_of(segment: &SegmentDescriptor) -> PageSize {
    if segment.flags.contains(SegmentFlags::USE_64KB_PAGES) { PageSize::Kib64 } else { PageSize::Kib4 }
}

fn check_leaf_64kb(size: u32, leaf: &Level, broken: &mut Vec<BrokenRule>) {
    let entries = (1u64 << leaf.index_bits) / (PageSize::Kib64.bytes() / PageSize::Kib4.bytes());
    let bytes = u64::from(size);
    if entries == 0 || bytes == 0 || !bytes.is_multiple_of(PAGE_SIZE) || bytes < entries * 8 {
        broken.push(BrokenRule::LeafTableSize64Kb { size, entries });
    }
}

fn check_engines(info: &AdapterInfo, broken: &mut Vec<BrokenRule>) -> Option<u32> {
    if info.engines.is_empty() || info.engines.len() > ENGINES_MAX {
        broken.push(BrokenRule::EngineCount(info.engines.len()));
    }
    let mut paging = info.engines.iter().enumerate().filter(|(_, engine)| engine.kind == EngineKind::Paging);
    match (paging.next(), paging.count()) {
        (Some((ordinal, _)), 0) => Some(ordinal as u32),
        (first, more) => {
            broken.push(BrokenRule::PagingEngineCount(usize::from(first.is_some()) + more));
            None
        }
    }
}

fn check_levels(info: &AdapterInfo, broken: &mut Vec<BrokenRule>) -> Option<Vec<Level>> {
    let descs = &info.page_table_levels;
    if !(2..=6).contains(&descs.len()) {
        broken.push(BrokenRule::LevelCount(descs.len()));
        return None;
    }
    let page_shift = PAGE_SIZE.trailing_zeros();
    let va_bits = info.gpu_mmu.virtual_address_bit_count;
    let root = descs.len() - 1;
    let below_root = descs[..root]
        .iter()
        .fold(u64::from(page_shift), |bits, desc| bits + u64::from(desc.page_table_index_bit_count));
    let zero_level = descs[..root].iter().any(|desc| desc.page_table_index_bit_count == 0);
    if zero_level || u64::from(va_bits) <= below_root || va_bits > 63 || u64::from(va_bits) - below_root > 31 {
        broken.push(BrokenRule::AddressBits { va_bits, below_root });
        return None;
    }
    let mut shift = page_shift;
    let mut levels = Vec::with_capacity(descs.len());
    for (index, desc) in descs.iter().enumerate() {
        let index_bits = if index == root { va_bits - below_root as u32 } else { desc.page_table_index_bit_count };
        let size = desc.page_table_size_in_bytes;
        let (level, entries) = (index as u32, 1u64 << index_bits);
        if !u64::from(size).is_multiple_of(PAGE_SIZE) || u64::from(size) < entries * 8 {
            broken.push(BrokenRule::TableSize { level, size, entries });
        }
        let memory_ids: Vec<u8> =
            (1..).zip(&info.segments).filter(|(_, segment)| !is_aperture(segment)).map(|(id, _)| id).collect();
        let homes = [desc.page_table_segment_id, desc.paging_process_page_table_segment_id];
        let first_homes = [descs[0].page_table_segment_id, descs[0].paging_process_page_table_segment_id];
        for (home, first_home) in homes.into_iter().zip(first_homes) {
            if home.is_system() && u64::from(size) > PAGE_SIZE {
                broken.push(BrokenRule::SystemTableSize { level, size });
            }
            if home != first_home || !(home.is_system() || memory_ids.contains(&home.0)) {
                broken.push(BrokenRule::TableSegment { level, segment: home.0 });
            }
        }
        levels.push(Level { index_bits, shift, table_bytes: u64::from(size) });
        shift += index_bits;
    }
    Some(levels)
}
