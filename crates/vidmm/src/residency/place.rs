use crate::{
    adapter::Adapter,
    budget::account::{Account, Home},
    data::extents::Extents,
    event::EvictReason,
    gpu_va::Mapping,
    id::AllocationIx,
    memory::Memory,
    objects::{
        Objects,
        allocation::{Allocation, AllocationState},
        place::Place,
        request::RequestKind,
    },
    units::{Extent, PhysicalAddress},
};
/// The mappings of an allocation that wait for their grant.
pub(crate) fn mappings_asked_for(objects: &Objects, index: AllocationIx) -> impl Iterator<Item = Mapping> {
    let allocation = &objects[index];
    let openers = allocation.openings().map(|opening| opening.device);
    let pending = core::iter::once(allocation.device).chain(openers).flat_map(|device| &objects[device].requests);
    pending.filter_map(move |request| match &request.kind {
        RequestKind::MapGpuVirtualAddress { allocation, mapping } if *allocation == index => Some(*mapping),
        _ => None,
    })
}

/// Where an allocation is, as engines that use physical addresses name it; none if it is not in a segment.
pub(crate) fn address(adapter: &Adapter, objects: &Objects, index: AllocationIx) -> Option<PhysicalAddress> {
    let allocation = &objects[index];
    allocation.place?;
    let (segment, extents) = allocation.location(adapter);
    Some(PhysicalAddress { segment, offset: extents.first().offset })
}

/// The home that a place is in.
pub(crate) fn home(memory: &Memory, place: Place) -> Home {
    match place {
        Place::Memory(account, _) => account.into(),
        Place::System => Home::SYSTEM,
        Place::Aperture(page) => memory.aperture.home_at(page.bytes()),
    }
}

/// An allocation that joins a list at once is in place; where the aperture shows it, the range is its own from now on.
#[inline]
pub(crate) fn assign_where_shown(objects: &Objects, memory: &mut Memory, index: AllocationIx) {
    let Allocation { place, size, .. } = objects[index];
    if let Some(Place::Aperture(page)) = place
        && memory.aperture.assigned(index).is_none()
    {
        memory.aperture.assign_at(index, Extent { offset: page.bytes(), size });
    }
}

/// Whether it is decided that the allocation is where its device's list counts it.
#[inline(always)]
pub(crate) fn is_placed(allocation: &Allocation, memory: &Memory, index: AllocationIx) -> bool {
    match allocation.place {
        Some(Place::Memory(account, _)) => allocation.account() == account,
        Some(Place::System) => {
            allocation.account() == Account::SYSTEM && !allocation.is(AllocationState::ACCESSED_PHYSICALLY)
        }
        Some(Place::Aperture(offset)) => {
            let shown = Extent { offset: offset.bytes(), size: allocation.size };
            // An allocation that nothing pins has no range assigned; it may have the one that shows it again.
            let can_be_had = || memory.aperture.is_unassigned(shown);
            let is_counted_there = allocation.home() == memory.aperture.home_at(shown.offset);
            is_counted_there && memory.aperture.assigned(index).map_or_else(can_be_had, |range| range == shown)
        }
        None => false,
    }
}

/// Why an allocation that is resident, but not where its device's list counts it, goes there.
pub(crate) fn reason_to_move(objects: &Objects, index: AllocationIx) -> EvictReason {
    let allocation = &objects[index];
    match (&allocation.place, allocation.account()) {
        _ if allocation.is(AllocationState::LOCK_PENDING) => EvictReason::Locked,
        (Some(Place::Memory(..)), Account::SYSTEM) => EvictReason::RoomWanted,
        (_, Account::SYSTEM) => EvictReason::RangeWanted,
        (Some(Place::Memory(..)), _) => EvictReason::Moved,
        (_, _) => EvictReason::Promoted,
    }
}

/// The ranges of a memory segment that an allocation has; none if it is not in one.
pub(crate) fn memory_extents(objects: &Objects, index: AllocationIx) -> Option<(Account, Extents)> {
    let allocation = &objects[index];
    match allocation.place {
        Some(Place::Memory(account, place)) => Some((account, allocation.extents(place))),
        _ => None,
    }
}

/// The memory segment that an allocation is in, and its first range there: the only one, if engines address it physically.
pub(crate) fn memory_place(objects: &Objects, index: AllocationIx) -> Option<(Account, Extent)> {
    let (account, extents) = memory_extents(objects, index)?;
    Some((account, extents.first()))
}

/// Whether the home of an allocation is fixed: those of device lists are, while a list names them.
pub(crate) fn is_counted(objects: &Objects, index: AllocationIx) -> bool {
    !objects[objects[index].device].has_reference_lists()
}
