use crate::{
    adapter::Adapter,
    contract::Host,
    data::extents::Extents,
    id::AllocationIx,
    objects::{Objects, allocation::AllocationState, place::Place},
    residency::place,
    units::{Extent, SegmentId},
};
/// The CPU no longer sees the allocation.
pub(crate) fn end_locks(objects: &mut Objects, host: &mut dyn Host, index: AllocationIx) {
    if let Some(lock) = objects[index].end_locks() {
        host.unmap_cpu_virtual_address(lock.address);
    }
}

/// The ranges that the CPU sees, or would, and their segment: the copy in system memory unless it sees the allocation in its
/// memory segment. Memory that the aperture shows is in system memory too.
pub(crate) fn view_of(adapter: &Adapter, objects: &Objects, index: AllocationIx) -> (SegmentId, Extents) {
    let allocation = &objects[index];
    let is_copy = allocation.is(AllocationState::KEEPS_COPY);
    match allocation.place {
        Some(Place::Memory(account, place)) if !is_copy => (adapter.memory_id(account), allocation.extents(place)),
        _ => {
            let extent = Extent { offset: allocation.backing_store, size: allocation.size };
            (SegmentId::SYSTEM, Extents::one(extent))
        }
    }
}

/// Whether a locked allocation comes in after the last unlock, since it may be in no memory that the CPU sees (RES-84, U-40). A
/// device list counts a locked allocation where the CPU sees it, if there is such a home.
pub(crate) fn waits_for_unlock(objects: &Objects, index: AllocationIx) -> bool {
    let allocation = &objects[index];
    let is_hidden = || match place::is_counted(objects, index) {
        true => !allocation.is_seen_at_home(),
        false => !allocation.may_be_seen(),
    };
    allocation.is(AllocationState::LOCKED) && is_hidden()
}
