//! The adapter's report, and what follows from that for all that is sent to its driver (I23).

use std::collections::BTreeSet;

use vidmm::contract::{
    AddressingModel, AllocationFlags2, KmdProcessHandle, PageTableUpdateMode, PagingOperation, PagingOperationKind,
    UpdateMode, UpdatePageTable, WddmVersion,
};
use vidmm::event::{ApertureSegmentFacts, MemorySegmentFacts};
use vidmm::{Event, Extent, MemorySegmentGroup, NotificationRevision, PhysicalAddress, SegmentId};

use super::Audit;
use super::finding::Invariant;
use super::large_pages::LargePageCaps;
use super::places::Places;
use super::table_views::TableViews;
use super::tables::Tables;
use crate::Segments;

/// The adapter, as its start describes it.
#[derive(Debug, Default)]
pub(super) struct Adapter {
    wddm_version: u32,
    pub addressing_model: AddressingModel,
    /// The aperture is mapped by MAP_APERTURE_SEGMENT2, and never by the first form (BPB-34).
    map_aperture2_supported: bool,
    /// How page tables are written (GVA-10).
    page_table_update_mode: PageTableUpdateMode,
    /// The CPU writes the paging process's tables however others are written (GVA-33).
    paging_tables_by_cpu: bool,
    /// Entries can say that the CPU's caches are snooped.
    pub cache_coherent_memory_supported: bool,
    /// Entries can read as zero.
    pub zero_in_pte_supported: bool,
    pub large_pages: LargePageCaps,
    /// The most bytes of each memory of the local and of the non-local group that budgets are for (RES-25).
    budget_limits: (Option<u64>, Option<u64>),
    /// Whether budgets were ever for less than there is.
    restricts_budgets: bool,
    /// Slots of a resource table.
    pub num_slots: u32,
    /// Others may run between two portions of a DMA buffer.
    pub preemption_aware: bool,
    pub notification_revision: NotificationRevision,
    /// Bytes of a scratch window; 0 if there are none.
    pub window_bytes: u64,
    pub paging_process: Option<KmdProcessHandle>,
    /// The page that pages of the aperture show when nothing is mapped there.
    pub dummy_page: PhysicalAddress,
    /// The time that a packet runs before it is asked to yield; none if the log does not say.
    pub tdr_quantum: Option<u64>,
    /// The time that an engine has to yield before another's reset that would harm it; none if the log does not say.
    pub tdr_dependent_delay: Option<u64>,
    /// The first address that processes may have, as far as the log says, and the first beyond all.
    pub user_addresses: Option<(u64, u64)>,
}

impl Adapter {
    /// The IOMMU translates the addresses of processes: there is neither local memory nor a page table.
    pub fn has_io_mmu_addresses(&self) -> bool {
        matches!(self.addressing_model, AddressingModel::GpuVaIoMmu | AddressingModel::GpuVaIoMmuGlobal)
    }

    /// Engines use physical addresses: the driver patches DMA buffers.
    pub fn is_physical(&self) -> bool {
        self.addressing_model == AddressingModel::Physical
    }

    /// There are page tables.
    pub fn has_page_tables(&self) -> bool {
        self.addressing_model == AddressingModel::GpuMmu
    }

    /// The most that one operation moves, in bytes: a window, if it needs one.
    pub fn most_moved(&self) -> u64 {
        if self.is_physical() { u64::MAX } else { self.window_bytes }
    }

    /// The most bytes of a memory of a group that budgets are for.
    pub fn budget_limit(&self, group: MemorySegmentGroup) -> u64 {
        let (local, non_local) = self.budget_limits;
        let limit = if group == MemorySegmentGroup::Local { local } else { non_local };
        limit.unwrap_or(u64::MAX)
    }

    /// Budgets in each memory of a group are for no more bytes than these from now on.
    pub fn restrict_budgets(&mut self, group: MemorySegmentGroup, bytes: Option<u64>) {
        let (local, non_local) = &mut self.budget_limits;
        *if group == MemorySegmentGroup::Local { local } else { non_local } = bytes;
        self.restricts_budgets = true;
    }

    /// Whether budgets were ever for less than there is.
    pub fn restricts_budgets(&self) -> bool {
        self.restricts_budgets
    }

    /// The driver knows what came with WDDM 3.2: notifications, and the query for the paging process's size.
    pub fn knows_notifications(&self) -> bool {
        self.wddm_version >= WddmVersion::WDDM3_2.0
    }

    /// An unmap from the IOMMU is notified as the present text says: for each mapping, not in chunks (NTF-04, NTF-06).
    pub fn notifies_unmap_by_mapping(&self) -> bool {
        self.notification_revision == NotificationRevision::Current
    }
}

impl Audit {
    pub(super) fn adapter_started(&mut self, event: &Event) {
        let &Event::AdapterStarted {
            wddm_version,
            addressing_model,
            map_aperture2_supported,
            num_slots,
            preemption_aware,
            notification_revision,
            ref memory,
            ref apertures,
            system_commit_limit,
            dummy_page,
            ref engines,
            ref level_bits,
            ref table_bytes,
            leaf_table_64kb_bytes,
            page_table_update_mode,
            invalid_tlb_entries_not_cached,
            paging_tables_by_cpu,
            cache_coherent_memory_supported,
            zero_in_pte_supported,
            large_page_supported,
            allow_non_aligned_large_page_address,
            sys_mem_large_page_supported,
            restrict_budget_local,
            restrict_budget_non_local,
            paging_buffer_bytes,
            va_bits,
            paging_va_size,
            paging_process,
            ref paging_tables,
            paging_tables_segment,
            tdr_limit_count,
            tdr_limit_time,
            tdr_quantum,
            tdr_dependent_delay,
            ..
        } = event
        else {
            return;
        };
        self.tables = Tables::new(level_bits, table_bytes, leaf_table_64kb_bytes);
        self.adapter = Adapter {
            wddm_version,
            addressing_model,
            map_aperture2_supported,
            page_table_update_mode,
            paging_tables_by_cpu,
            cache_coherent_memory_supported,
            zero_in_pte_supported,
            large_pages: LargePageCaps {
                supported: large_page_supported,
                begin_anywhere: allow_non_aligned_large_page_address,
                in_system_memory: sys_mem_large_page_supported,
            },
            budget_limits: (restrict_budget_local, restrict_budget_non_local),
            restricts_budgets: restrict_budget_local.is_some() || restrict_budget_non_local.is_some(),
            num_slots,
            preemption_aware,
            notification_revision,
            window_bytes: paging_va_size,
            paging_process: Some(paging_process),
            dummy_page,
            tdr_quantum,
            tdr_dependent_delay,
            user_addresses: Some((self.tables.leaf_coverage(), 1u64.checked_shl(va_bits).unwrap_or(u64::MAX))),
        };
        self.places = Places::new(memory, apertures, system_commit_limit);
        self.fences.start(engines);
        self.resets.limit = (tdr_limit_count, tdr_limit_time);
        self.groups = Segments::of(event).unwrap_or_default();
        self.open_buffer.capacity = paging_buffer_bytes;
        self.shadow.tlb.paging_process = Some(paging_process);
        self.shadow.tlb.remembers_invalid = !invalid_tlb_entries_not_cached;
        self.views = TableViews::new(paging_process, !invalid_tlb_entries_not_cached);
        self.paging_va.start(memory, system_commit_limit, level_bits, self.tables.largest(), va_bits, paging_va_size);
        self.check_segments(memory, apertures);
        self.check_dummy_page(dummy_page);
        self.paging_va.is_physical = self.adapter.is_physical();
        self.check_model(memory, level_bits, paging_tables);
        for &extent in paging_tables {
            let Some(ledger) = self.places.ranges(paging_tables_segment) else { continue };
            ledger.take(extent, &mut self.findings);
            ledger.check_side(extent, true, &mut self.findings);
            ledger.add_tables(extent.size);
        }
    }

    /// Segments have numbers of their own (SEG-05); 0 is implicit system memory.
    fn check_segments(&mut self, memory: &[MemorySegmentFacts], apertures: &[ApertureSegmentFacts]) {
        let memory = memory.iter().map(|memory| memory.segment);
        let all: Vec<SegmentId> = memory.chain(apertures.iter().map(|aperture| aperture.segment)).collect();
        let apart: BTreeSet<SegmentId> = all.iter().copied().filter(|segment| !segment.is_system()).collect();
        self.findings.check(apart.len() == all.len(), Invariant::Log, || {
            format!("segments do not have numbers of their own: {all:?}, the aperture segments being {apertures:?}")
        });
    }

    fn check_dummy_page(&mut self, page: PhysicalAddress) {
        self.findings.check(page.segment.is_system(), Invariant::I24, || {
            format!("the dummy page is {page:?}, which is not in system memory")
        });
    }

    /// Where the IOMMU translates, only system memory can be reached, and nothing has page tables (U-17).
    fn check_model(&mut self, memory: &[MemorySegmentFacts], level_bits: &[u32], tables: &[Extent]) {
        let has_no_tables = level_bits.is_empty() && tables.is_empty();
        let bare = has_no_tables && (memory.is_empty() || self.adapter.is_physical());
        self.findings.check(bare || self.adapter.has_page_tables(), Invariant::Log, || {
            format!("an adapter of the model {:?} has local memory or page tables", self.adapter.addressing_model)
        });
    }

    /// The driver is sent only operations that its version, its model and its caps have (3.2, U-17). Returns whether the model
    /// has it: what only the version or the caps rule out is judged like any other.
    pub(super) fn check_operation_exists(&mut self, operation: &PagingOperation) -> bool {
        let Adapter { wddm_version: version, addressing_model, map_aperture2_supported, .. } = self.adapter;
        let kind = operation.kind();
        self.findings.check(kind.is_known_to(WddmVersion(version), addressing_model), Invariant::I23, || {
            format!("{kind} is sent to a driver of version {version:#x} and of the model {addressing_model:?}")
        });
        let is_other_form = match kind {
            PagingOperationKind::MapApertureSegment => map_aperture2_supported,
            PagingOperationKind::MapApertureSegment2 => !map_aperture2_supported,
            _ => false,
        };
        self.findings.check(!is_other_form, Invariant::I23, || {
            format!("{kind} is sent to a driver whose MapAperture2Supported is {map_aperture2_supported} (BPB-34)")
        });
        if let PagingOperation::UpdatePageTable(op) = operation {
            self.check_update_mode(op);
        }
        kind.is_known_to(WddmVersion(u32::MAX), addressing_model)
    }

    /// Entries are written as the driver has reported (GVA-33).
    fn check_update_mode(&mut self, op: &UpdatePageTable) {
        let mode = op.update_mode;
        let of_paging_process = self.adapter.paging_process == Some(op.process);
        let reported = self.adapter.page_table_update_mode;
        let is_right = match mode {
            _ if of_paging_process && self.adapter.paging_tables_by_cpu => matches!(mode, UpdateMode::CpuVirtual(_)),
            // The CPU sets up the tables through which all others are written.
            UpdateMode::CpuVirtual(_) => match reported {
                PageTableUpdateMode::CpuVirtual => true,
                PageTableUpdateMode::GpuVirtual => of_paging_process,
                PageTableUpdateMode::GpuPhysical => false,
            },
            UpdateMode::GpuVirtual(_) => reported == PageTableUpdateMode::GpuVirtual,
            UpdateMode::GpuPhysical => reported == PageTableUpdateMode::GpuPhysical,
        };
        self.findings.check(is_right, Invariant::I23, || {
            format!("entries are written as {mode:?}, but the driver has reported {reported:?} (GVA-10)")
        });
    }

    /// An allocation gets only notifications that the driver's version, its model and its paging process's addresses allow.
    pub(super) fn check_notifications_exist(&mut self, notify: AllocationFlags2) {
        let known = notify.is_empty() || self.adapter.knows_notifications();
        self.findings.check(known, Invariant::I23, || {
            format!("{notify:?} is to be sent to a driver of version {:#x} (CRE-07)", self.adapter.wddm_version)
        });
        let by_mapping = self.adapter.notifies_unmap_by_mapping();
        let unmapped = notify.contains(AllocationFlags2::NOTIFY_IO_MMU_UNMAP);
        self.findings.check(!unmapped || !by_mapping || self.adapter.has_io_mmu_addresses(), Invariant::I09, || {
            format!("NotifyIoMmuUnmap is kept on an adapter of the model {:?} (NTF-05)", self.adapter.addressing_model)
        });
        let in_windows = notify.contains(AllocationFlags2::NOTIFY_EVICTION) || unmapped && !by_mapping;
        self.findings.check(!in_windows || self.adapter.window_bytes > 0, Invariant::U16, || {
            format!("{notify:?} needs windows of the paging process, which has no addresses (PGV-03)")
        });
    }
}
