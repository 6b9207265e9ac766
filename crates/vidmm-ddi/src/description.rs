//! The driver's report at adapter start, in the manager's words.

use vidmm::contract::{
    AdapterInfo, AddressingModel, EngineDesc, EngineKind, GpuMmuCaps, PatchingCaps, SegmentDescriptor, SegmentFlags,
    VidMmCaps, WddmVersion,
};

use crate::abi::*;
use crate::adapter::{Adapter, PASSIVE_LEVEL};
use crate::components;
use crate::host_aperture;
use crate::page_tables;
use crate::progress::Entry;
use crate::reports::{remark, report};
use crate::segments::{Segments, must, query, segments};

/// A slot id has 24 bits.
const SLOTS_MAX: u32 = 1 << 24;

/// More levels has no page table (GVA-11).
const LEVELS_MAX: u32 = 6;

/// Asks the driver to describe its adapter.
///
/// # Errors
///
/// If a query fails without which there is no adapter, or the adapter is of a model that is not tried here.
pub(crate) fn describe(adapter: &Adapter) -> Result<AdapterInfo, String> {
    let mut caps = DXGK_DRIVERCAPS::zeroed();
    must(query(adapter, DXGKQAITYPE_DRIVERCAPS, &(), &mut caps), "DRIVERCAPS")?;
    let is_set = |bit| caps.MemoryManagementCaps & bit != 0;
    if is_set(VIDMMCAPS_IO_MMU_SUPPORTED) {
        return Err("DXGK_VIDMMCAPS.IoMmuSupported is set: adapters behind an IOMMU are not tried in C".into());
    }
    let addressing_model = match (is_set(VIDMMCAPS_VIRTUAL_ADDRESSING_SUPPORTED), is_set(VIDMMCAPS_GPU_MMU_SUPPORTED)) {
        (true, true) => AddressingModel::GpuMmu,
        (false, false) => AddressingModel::Physical,
        _ => {
            return Err("DXGK_VIDMMCAPS has one of VirtualAddressingSupported and GpuMmuSupported: an adapter has \
                            both, or engines use physical addresses (PGV-20)"
                .into());
        }
    };
    read_highest_address(adapter, &caps);
    let is_physical = addressing_model == AddressingModel::Physical;
    let (resets_engines, ddi) = (caps.SupportPerEngineTDR != 0, adapter.ddi());
    adapter.resets_engines.set(resets_engines);
    read_cancellation(adapter, &caps);
    components::start(adapter, &caps);
    if resets_engines && (ddi.DxgkDdiResetEngine.is_none() || ddi.DxgkDdiQueryDependentEngineGroup.is_none()) {
        let lacks = "the driver's table lacks DxgkDdiResetEngine or DxgkDdiQueryDependentEngineGroup";
        report("FLT-20", format!("DXGK_DRIVERCAPS.SupportPerEngineTDR is set, and {lacks}"));
    }
    if is_physical {
        check_table(adapter)?;
    }
    let Segments { mut descriptors, paging_buffer, bank_range_table, written } = segments(adapter)?;
    (1..).zip(&written).for_each(|(id, segment)| host_aperture::try_segment(adapter, id, segment));
    if paging_buffer.size == 0 {
        remark("SEG-35", "PagingBufferSize is 0: a paging buffer has no room for a command");
    }
    adapter.paging_private_size.set(paging_buffer.private_data_size as usize);
    read_limits(&mut descriptors);
    if !is_physical {
        read_bases(&mut descriptors);
    }
    let aperture_segment_commit_limit = match caps.ApertureSegmentCommitLimit as u64 {
        0 => {
            remark("DRV-04", "ApertureSegmentCommitLimit is 0, read as no limit");
            u64::MAX
        }
        limit => limit,
    };
    let slots = match caps.MaxAllocationListSlotId {
        0 if is_physical => {
            remark("DRV-05", "MaxAllocationListSlotId is 0: every SlotId is right, and no DMA buffer is split");
            adapter.splits.set(false);
            SLOTS_MAX
        }
        slots => slots,
    };
    let (gpu_mmu, page_table_levels) = match is_physical {
        true => (page_tables::no_mmu(), Vec::new()),
        false => page_tables(adapter)?,
    };
    let patching = PatchingCaps {
        max_allocation_list_slot_id: slots,
        preemption_aware: caps.SchedulingCaps & VIDSCHCAPS_PREEMPTION_AWARE != 0,
        no_dma_patching: caps.SchedulingCaps & VIDSCHCAPS_NO_DMA_PATCHING != 0,
        bank_range_table,
    };
    Ok(AdapterInfo {
        wddm_version: WddmVersion(adapter.ddi().Version),
        addressing_model,
        memory_management_caps: VidMmCaps::from_bits_truncate(caps.MemoryManagementCaps),
        segments: descriptors,
        linked_adapter_segments: Vec::new(),
        aperture_segment_commit_limit,
        scheduling_log_buffer_size: None,
        engines: engines(adapter, &caps)?,
        gpu_mmu,
        page_table_levels,
        paging_buffer,
        write_behind: adapter.driver().test().is_some_and(|test| test.TakesWriteBehind != 0),
        patching: if is_physical { patching } else { PatchingCaps::default() },
    })
}

/// WDDM 1.2 has DxgkDdiCancelCommand.
const WDDM1_2: WddmVersion = WddmVersion(0x300E);

/// Reads whether the driver hears of work that the hardware never gets (DRV-13).
fn read_cancellation(adapter: &Adapter, caps: &DXGK_DRIVERCAPS) {
    let is_aware = caps.SchedulingCaps & VIDSCHCAPS_CANCEL_COMMAND_AWARE != 0 && adapter.ddi().Version >= WDDM1_2.0;
    if is_aware && adapter.ddi().DxgkDdiCancelCommand.is_none() {
        report("DDI-CANCEL", "CancelCommandAware is set, and the driver's table lacks DxgkDdiCancelCommand");
    }
    adapter.cancels.set(is_aware);
}

/// WDDM 2.6 has a limit for the addresses of a machine's pages.
const WDDM2_6: WddmVersion = WddmVersion(0xB004);

/// Reads the highest address of a page in a machine with the driver: none with the processor's highest, and none before WDDM 2.6 (DRV-08).
fn read_highest_address(adapter: &Adapter, caps: &DXGK_DRIVERCAPS) {
    let highest = caps.HighestAcceptableAddress as u64;
    if adapter.ddi().Version < WDDM2_6.0 {
        return;
    }
    if highest == 0 {
        remark("DRV-08", "HighestAcceptableAddress is 0, read as no limit");
        return;
    }
    adapter.limit_addresses(highest);
}

/// Reads commit limits: 0 is right for a memory segment, and of an aperture 0 stands for the size (DRV-04).
fn read_limits(descriptors: &mut [SegmentDescriptor]) {
    for (id, segment) in (1..).zip(descriptors).filter(|(_, segment)| segment.commit_limit == 0) {
        segment.commit_limit = segment.size;
        if segment.flags.contains(SegmentFlags::APERTURE) {
            remark("DRV-04", format!("CommitLimit of aperture segment {id} is 0, read as the Size"));
        }
    }
}

/// Engines with page tables ignore addresses of segments: segments at the same address are moved apart (DRV-08).
fn read_bases(descriptors: &mut [SegmentDescriptor]) {
    let ranges = descriptors
        .iter()
        .map(|segment| segment.base_address.checked_add(segment.size).map(|end| (segment.base_address, end)));
    let mut ranges = Vec::from_iter(ranges.map(|range| range.unwrap_or((0, u64::MAX))));
    ranges.sort_unstable();
    if ranges.windows(2).all(|pair| pair[0].1 <= pair[1].0) {
        return;
    }
    remark("DRV-08", "segments have the same BaseAddress, read as none: engines have page tables");
    let mut next = 0;
    for segment in descriptors {
        segment.base_address = next;
        next += segment.size.min(1 << 48);
    }
}

/// The functions without which no adapter with physical addresses runs (PAT-10).
fn check_table(adapter: &Adapter) -> Result<(), String> {
    let ddi = adapter.ddi();
    let needed = [
        ("DxgkDdiRender", ddi.DxgkDdiRender.is_some()),
        ("DxgkDdiPatch", ddi.DxgkDdiPatch.is_some()),
        ("DxgkDdiSubmitCommand", ddi.DxgkDdiSubmitCommand.is_some()),
    ];
    match needed.iter().find(|&&(_, is_there)| !is_there) {
        None => Ok(()),
        Some((name, _)) => Err(format!("the adapter uses physical addresses, and the driver's table lacks {name}")),
    }
}

/// The driver's size of the paging process's address space, in MiB; none if it fails the query (PGV-01).
pub(crate) fn paging_process_gpu_va_size(adapter: &Adapter, physical_adapter_index: u32) -> Option<u32> {
    let mut size = 0u32;
    let status = query(adapter, DXGKQAITYPE_PAGINGPROCESSGPUVASIZE, &physical_adapter_index, &mut size);
    (status >= 0).then_some(size)
}

type PageTables = (GpuMmuCaps, Vec<vidmm::contract::PageTableLevelDesc>);

fn page_tables(adapter: &Adapter) -> Result<PageTables, String> {
    let physical_adapter = 0u32;
    let mut caps = DXGK_GPUMMUCAPS::zeroed();
    must(query(adapter, DXGKQAITYPE_GPUMMUCAPS, &physical_adapter, &mut caps), "GPUMMUCAPS")?;
    let gpu_mmu = page_tables::gpu_mmu_caps(&caps)?;
    if caps.PageTableLevelCount > LEVELS_MAX {
        return Err(format!("DXGK_GPUMMUCAPS.PageTableLevelCount is {}: at most 6 (GVA-11)", caps.PageTableLevelCount));
    }
    let level = |index: u32| {
        let input = DXGK_QUERYPAGETABLELEVELDESCIN { LevelIndex: index as u16, PhysicalAdapterIndex: 0 };
        let mut desc = DXGK_PAGE_TABLE_LEVEL_DESC::zeroed();
        must(query(adapter, DXGKQAITYPE_PAGETABLELEVELDESC, &input, &mut desc), "PAGETABLELEVELDESC")?;
        page_tables::level(&desc)
    };
    let levels = (0..caps.PageTableLevelCount).map(level).collect::<Result<Vec<_>, _>>()?;
    Ok((gpu_mmu, levels))
}

fn engines(adapter: &Adapter, caps: &DXGK_DRIVERCAPS) -> Result<Vec<EngineDesc>, String> {
    let physical_adapter = 0u32;
    let mut physical = DXGK_PHYSICALADAPTERCAPS::zeroed();
    // The query is one of WDDM 2.0.
    let is_known = adapter.ddi().Version >= WddmVersion::WDDM2_0.0
        && query(adapter, DXGKQAITYPE_PHYSICALADAPTERCAPS, &physical_adapter, &mut physical) >= 0;
    let (count, paging) = match is_known {
        true => (u32::from(physical.NumExecutionNodes), u32::from(physical.PagingNodeIndex)),
        false => (caps.GpuEngineTopology, caps.PagingNode),
    };
    if count == 0 || count > 64 || paging >= count {
        return Err(format!("the adapter has {count} engines, and engine {paging} is the paging engine (GVA-63)"));
    }
    let kind = |node| match node == paging {
        true => EngineKind::Paging,
        false if engine_type(adapter, node) == DXGK_ENGINE_TYPE_COPY => EngineKind::Copy,
        false => EngineKind::Render3d,
    };
    Ok((0..count).map(|node| EngineDesc { kind: kind(node) }).collect())
}

fn engine_type(adapter: &Adapter, node: u32) -> u32 {
    let Some(function) = adapter.ddi().DxgkDdiGetNodeMetadata else { return 0 };
    let mut metadata = DXGK_NODEMETADATA { EngineType: 0, Rest: [0; 70] };
    // SAFETY: the struct is as large as Windows' packed one, and lives for the call.
    let status = adapter.call(Entry::DxgkDdiGetNodeMetadata, PASSIVE_LEVEL, || unsafe {
        function(adapter.handle(), node, &mut metadata)
    });
    if status >= 0 { metadata.EngineType } else { 0 }
}

/// The sizes of memory with which a driver is tried.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sizes {
    pub local: u64,
    pub aperture: u64,
    pub aperture_commit_limit: Option<u64>,
    /// The slots of a resource table (SPL-02), without page tables.
    pub slots: u32,
}

/// Makes the first segment of each kind as small as a run asks for: the driver does not see that it has less memory. Other
/// segments stay as they are.
///
/// # Errors
///
/// If the driver has less memory than the run asks for: the name of the lack.
pub(crate) fn shrink(adapter: &Adapter, info: &mut AdapterInfo, sizes: Sizes) -> Result<(), String> {
    let fit = |info: &mut AdapterInfo, is_aperture: bool, size: u64, name: &str| {
        let is_kind = |segment: &&mut SegmentDescriptor| segment.flags.contains(SegmentFlags::APERTURE) == is_aperture;
        let Some(segment) = info.segments.iter_mut().find(is_kind) else {
            return if size == 0 { Ok(()) } else { Err(name.to_owned()) };
        };
        if size == 0 || size > segment.size {
            return Err(format!("more {name} than the driver's {} KiB", segment.size >> 10));
        }
        (segment.size, segment.commit_limit) = (size, segment.commit_limit.min(size));
        Ok(())
    };
    fit(info, false, sizes.local, "local memory")?;
    if sizes.aperture == 0 && may_leave_out_aperture(info) {
        info.segments.pop();
        adapter.hidden_segments.set(1 << info.segments.len());
    }
    fit(info, true, sizes.aperture, "aperture segment")?;
    let slots = info.patching.max_allocation_list_slot_id;
    if info.addressing_model == AddressingModel::Physical && slots < sizes.slots {
        return Err(format!("more slots than the driver's {slots} (U-44)"));
    }
    if let Some(limit) = sizes.aperture_commit_limit {
        info.aperture_segment_commit_limit = info.aperture_segment_commit_limit.min(limit);
    }
    Ok(())
}

/// Whether the adapter is one without its aperture, too: a driver before WDDM 2.0 needs none (SEG-10), and no other segment changes its
/// id when the last one is left out.
pub(crate) fn may_leave_out_aperture(info: &AdapterInfo) -> bool {
    let is_aperture = |segment: &SegmentDescriptor| segment.flags.contains(SegmentFlags::APERTURE);
    let is_old = info.addressing_model == AddressingModel::Physical && info.wddm_version < WddmVersion::WDDM2_0;
    match &info.segments[..] {
        [before @ .., last] => is_old && is_aperture(last) && !before.is_empty() && !before.iter().any(is_aperture),
        [] => false,
    }
}

/// Whether the tables of processes lie in system memory.
pub(crate) fn has_tables_in_system_memory(info: &AdapterInfo) -> bool {
    info.page_table_levels.iter().any(|level| level.page_table_segment_id.is_system())
}
