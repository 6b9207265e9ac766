//! The effect of a move on the mappings of an allocation: page-table entries, or what the host maps in the IOMMU.

use crate::{
    adapter::{Adapter, NotificationRevision},
    addresses::io_mmu_range,
    gpu_va::Mapping,
    id::AllocationIx,
    objects::{
        Objects,
        allocation::{Allocation, AllocationState},
    },
    plans::{
        Plans,
        draft::Draft,
        plan::{PteRange, UnmapNotice},
    },
};

impl Plans {
    /// Writes into `draft` that a mapping shows its allocation, or no longer, with the allocation where it is.
    pub(crate) fn plan_entries(
        &self,
        adapter: &Adapter,
        objects: &mut Objects,
        draft: &mut Draft,
        index: AllocationIx,
        mapping: Mapping,
        valid: bool,
    ) {
        let number = self.stream.next_number();
        let allocation = &mut objects[index];
        self.plan_after(draft, allocation.last_plan);
        // Also without entries to write: whoever brings the allocation in writes them, and must follow the plan that
        // initialises their tables.
        if allocation.place.is_some() || draft.decided || !draft.plan.after.is_empty() {
            allocation.follow(number);
            draft.decided = true;
        }
        match (allocation.place.is_some(), valid) {
            (false, _) => {}
            (true, true) => show_mapping(adapter, objects, draft, index, mapping),
            (true, false) => hide_mapping(adapter, objects, draft, index, mapping),
        }
    }
}

/// Writes into `draft` that a mapping shows its allocation where that is resident.
pub(crate) fn show_mapping(
    adapter: &Adapter,
    objects: &Objects,
    draft: &mut Draft,
    index: AllocationIx,
    mapping: Mapping,
) {
    let allocation = &objects[index];
    match io_mmu_range(adapter, objects, index, &mapping) {
        Some(range) => draft.plan.io_mmu_map.push(range),
        None => draft.plan.validate.push(entries(adapter, allocation, mapping)),
    }
}

/// Writes into `draft` that a mapping shows its allocation no longer. The driver is told before the host unmaps it from
/// the IOMMU, whatever becomes of the content: it is about caches (U-15).
pub(crate) fn hide_mapping(
    adapter: &Adapter,
    objects: &Objects,
    draft: &mut Draft,
    index: AllocationIx,
    mapping: Mapping,
) {
    let allocation = &objects[index];
    let Some(range) = io_mmu_range(adapter, objects, index, &mapping) else {
        return draft.plan.invalidate.push(entries(adapter, allocation, mapping));
    };
    draft.plan.io_mmu_unmap.push(range);
    let is_current = adapter.revision == NotificationRevision::Current;
    if is_current && allocation.is(AllocationState::NOTIFY_IO_MMU_UNMAP) {
        let (handle, process) = (allocation.handle, objects[mapping.process].handle);
        draft.plan.notify_unmap.push(UnmapNotice { handle, process, mapping });
    }
}

fn entries(adapter: &Adapter, allocation: &Allocation, mapping: Mapping) -> PteRange {
    let (segment, extents) = allocation.location(adapter);
    let may_be_large = !allocation.is(AllocationState::NO_LARGE_PAGES);
    PteRange { handle: allocation.handle, mapping, segment, extents, is_cached: allocation.is_cached(), may_be_large }
}
