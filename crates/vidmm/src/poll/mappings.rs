//! What a move of an allocation does to its mappings: page-table entries, or what the host maps in the IOMMU.

use super::draft::{Draft, follow};
use crate::{
    adapter::NotificationRevision,
    allocation::AllocationState,
    gpu_va::Mapping,
    id::AllocationIx,
    paging::{IoMmuRange, PteRange, UnmapNotice},
    planted::PlantedBug,
    state::VidMm,
    units::GpuVirtualAddress,
};

impl VidMm {
    /// Writes into `draft` that a mapping shows its allocation where that is resident.
    pub(super) fn show_mapping(&self, draft: &mut Draft, index: AllocationIx, mapping: Mapping) {
        let allocation = &self.allocations[index];
        match self.io_mmu_range(index, &mapping) {
            Some(range) => draft.plan.io_mmu_map.push(range),
            None => {
                let (segment, extents) = allocation.location(&self.adapter);
                draft.plan.validate.push(PteRange { handle: allocation.handle, mapping, segment, extents });
            }
        }
    }

    /// Writes into `draft` that a mapping shows its allocation no longer. The driver is told before the host unmaps it from
    /// the IOMMU, whatever becomes of the content: it is about caches (U-15).
    pub(super) fn hide_mapping(&self, draft: &mut Draft, index: AllocationIx, mapping: Mapping) {
        let allocation = &self.allocations[index];
        let handle = allocation.handle;
        let Some(range) = self.io_mmu_range(index, &mapping) else {
            let (segment, extents) = allocation.location(&self.adapter);
            draft.plan.invalidate.push(PteRange { handle, mapping, segment, extents });
            return;
        };
        if !self.adapter.has_bug(PlantedBug::KeepIoMmu) {
            draft.plan.io_mmu_unmap.push(range);
        }
        let is_current = self.adapter.revision == NotificationRevision::Current;
        let is_told = is_current && !self.adapter.has_bug(PlantedBug::SkipUnmapNotice);
        if is_told && allocation.state.contains(AllocationState::NOTIFY_IO_MMU_UNMAP) {
            let process = self.processes[mapping.process].handle;
            draft.plan.notify_unmap.push(UnmapNotice { handle, process, mapping });
        }
    }

    /// What the host maps for a mapping; none if the GPU has page tables.
    pub(super) fn io_mmu_range(&self, index: AllocationIx, mapping: &Mapping) -> Option<IoMmuRange> {
        let domain = self.adapter.io_mmu_domain(self.processes[mapping.process].handle)?;
        Some(IoMmuRange {
            domain,
            virtual_address: GpuVirtualAddress(mapping.virtual_address),
            size: mapping.size,
            system_offset: self.allocations[index].backing_store + mapping.allocation_offset,
            read_only: mapping.read_only,
            allocation: self.allocations.id(index),
            allocation_offset: mapping.allocation_offset,
            window: false,
        })
    }

    /// Writes into `draft` that a mapping shows its allocation, or no longer, with the allocation where it is.
    pub(crate) fn plan_entries(&mut self, draft: &mut Draft, index: AllocationIx, mapping: Mapping, valid: bool) {
        let number = self.stream.next_number();
        let allocation = &mut self.allocations[index];
        follow(&self.stream, &mut draft.plan, allocation.last_plan);
        // Also without entries to write: whoever brings the allocation in writes them, and must follow the plan that
        // initialises their tables.
        if allocation.place.is_some() || draft.decided || !draft.plan.after.is_empty() {
            allocation.last_plan = number;
            draft.decided = true;
        }
        match (allocation.place.is_some(), valid) {
            (false, _) => {}
            (true, true) => self.show_mapping(draft, index, mapping),
            (true, false) => self.hide_mapping(draft, index, mapping),
        }
    }
}
