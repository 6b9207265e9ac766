//! The audit of the three places: the memory segment, implicit system memory and the aperture segment (P21, P52).

use crate::log_support::broken::*;
use crate::log_support::notified::*;
use crate::log_support::*;
use vidmm::contract::*;
use vidmm::event::{ContentSource, Event, EvictReason};
use vidmm::*;
use vidmm_trace::Invariant::*;

const QUIET: Run = Run { notify: AllocationFlags2::empty(), ..IMPLICIT };
const QUIET_IN_APERTURE: Run = Run { in_aperture: true, ..QUIET };

/// The place of `T` in the memory segment.
const LOCAL: Extent = Extent { offset: 16 * MIB, size: T.size };

fn in_place(event: &Event) -> bool {
    matches!(event, Event::Placed { .. })
}

fn victim(event: &Event) -> bool {
    matches!(event, Event::Evicted { .. })
}

fn change_created(event: &mut Event, change: impl FnOnce(&mut u32, &mut bool)) {
    let Event::AllocationCreated { supported_segment_set, accessed_physically, .. } = event else { unreachable!() };
    change(supported_segment_set, accessed_physically);
}

fn change_map(event: &mut Event, change: impl FnOnce(&mut MapApertureSegment)) {
    let Event::PagingOperation { operation: PagingOperation::MapApertureSegment(op), .. } = event else {
        unreachable!()
    };
    change(op);
}

/// `T` in the aperture of an adapter whose driver has MAP_APERTURE_SEGMENT2.
fn by_second_form() -> Broken {
    QUIET_IN_APERTURE.story().change(started, has_second_form).change(is(map_aperture(IN)), to_second_form)
}

fn has_second_form(event: &mut Event) {
    let Event::AdapterStarted { map_aperture2_supported, .. } = event else { unreachable!() };
    *map_aperture2_supported = true;
}

fn to_second_form(event: &mut Event) {
    let Event::PagingOperation { operation, .. } = event else { unreachable!() };
    let PagingOperation::MapApertureSegment(op) = *operation else { unreachable!() };
    *operation = PagingOperation::MapApertureSegment2(op.into());
}

fn is_second_form(event: &Event) -> bool {
    matches!(event, Event::PagingOperation { operation: PagingOperation::MapApertureSegment2(_), .. })
}

fn change_unmap(event: &mut Event, change: impl FnOnce(&mut UnmapApertureSegment)) {
    let Event::PagingOperation { operation: PagingOperation::UnmapApertureSegment(op), .. } = event else {
        unreachable!()
    };
    change(op);
}

fn change_placed(event: &mut Event, change: impl FnOnce(&mut SegmentId, &mut Vec<Extent>, &mut ContentSource)) {
    let Event::Placed { segment, extents, content, .. } = event else { unreachable!() };
    change(segment, extents, content);
}

/// `T` may be in the memory segment too, and asks for all notifications. It is made resident there, demoted by plan 3
/// and promoted by plan 4. The driver is not notified, for `T` is never evicted from system memory.
fn demoted_and_promoted() -> Broken {
    let story = IMPLICIT.story().change(created, |event| change_created(event, |set, _| *set = 0b11));
    let mut events = story.0;
    let comes = Broken(events.clone()).position(in_place);
    events.truncate(comes);
    events.extend([moved_in(IN, MEMORY, LOCAL, ContentSource::Fill), decided(IN, &[], &[])]);
    events.extend([granted(3, &[IN]), Event::PlanEntered { plan: IN }]);
    events.extend(CHUNKS.into_iter().flat_map(|chunk| filled(IN, chunk)));
    events.extend(SEEN.map(|seen| shown(IN, seen, local(LOCAL.offset + seen.offset))));
    events.extend(packet());
    events.extend([
        Event::PlanRetired { plan: IN },
        Event::PagingFenceSignaled { queue: queue(), value: 3 },
        submitted(1, &[], &[]),
        Event::RootPageTableSet { context: context(), address: local(ROOT), num_entries: ROOT_ENTRIES },
        Event::Dispatched { device: device(), submission: 1, signal: fence(RENDER, 1), waits: vec![] },
        Event::Completed { signal: fence(RENDER, 1) },
        evict(T, EvictFlags::EVICT_ONLY_IF_NECESSARY, 1),
        moved_out(3, MEMORY, LOCAL, true, EvictReason::RoomWanted),
        moved_in(3, SegmentId::SYSTEM, STORE, ContentSource::InPlace),
        decided(3, &[1], &[]),
        Event::PlanEntered { plan: 3 },
    ]);
    events.extend(hidden(3));
    events.extend(CHUNKS.into_iter().flat_map(|chunk| copied(3, chunk, MemoryTransferDirection::LocalToSystem)));
    events.extend(SEEN.map(|seen| shown(3, seen, system(STORE.offset + seen.offset))));
    events.extend(packet());
    events.extend([
        Event::PlanRetired { plan: 3 },
        make_resident(T, 1, 4),
        moved_out(4, SegmentId::SYSTEM, STORE, false, EvictReason::Promoted),
        moved_in(4, MEMORY, LOCAL, ContentSource::BackingStore),
        decided(4, &[1], &[]),
        granted(4, &[4]),
        Event::PlanEntered { plan: 4 },
    ]);
    events.extend(hidden(4));
    events.extend(CHUNKS.into_iter().flat_map(|chunk| copied(4, chunk, MemoryTransferDirection::SystemToLocal)));
    events.extend(SEEN.map(|seen| shown(4, seen, local(LOCAL.offset + seen.offset))));
    events.extend(packet());
    events.extend([Event::PlanRetired { plan: 4 }, Event::PagingFenceSignaled { queue: queue(), value: 4 }]);
    renumbered(Broken(events))
}

/// The backing store of `T`.
const STORE: Extent = Extent { offset: T.backing_store, size: T.size };

/// The window of the memory segment's side.
const LOCAL_WINDOW_AT: u64 = 32 * MIB;

fn moved_in(plan: PlanNo, segment: SegmentId, extent: Extent, content: ContentSource) -> Event {
    Event::Placed { plan, allocation: T.id(), segment, extents: vec![extent], content }
}

fn moved_out(plan: PlanNo, segment: SegmentId, extent: Extent, copied: bool, reason: EvictReason) -> Event {
    Event::Evicted {
        plan,
        allocation: T.id(),
        segment,
        extents: vec![extent],
        copied,
        reason,
        discarded: false,
        wanted_by: None,
    }
}

fn shown(plan: PlanNo, seen: Seen, address: PhysicalAddress) -> Event {
    entries(plan, seen, Pte::valid(address))
}

/// No process sees `T` any more.
fn hidden(plan: PlanNo) -> impl Iterator<Item = Event> {
    let invalid = SEEN.map(|seen| invalid_entries(plan, seen));
    invalid.into_iter().chain(SEEN.map(|seen| flush(plan, USER_HANDLE, seen.at, seen.size)))
}

/// The window of the memory segment's side becomes valid, or invalid.
fn local_window(plan: PlanNo, (offset, size): (u64, u64), valid: bool) -> Event {
    let first = if valid { Pte::valid(local(LOCAL.offset + offset)) } else { Pte::INVALID };
    let (process, level, table, allocation, count) = (PAGING_HANDLE, 0, 0x2000, Some(T), size >> 12);
    write(plan, &Entries { process, level, table, allocation, virtual_address: LOCAL_WINDOW_AT, offset, first, count })
}

fn filled(plan: PlanNo, (offset, size): (u64, u64)) -> [Event; 4] {
    let op = FillVirtual {
        allocation: T.handle(),
        allocation_offset_in_bytes: offset,
        fill_size_in_bytes: size,
        fill_pattern: 0,
        destination_virtual_address: GpuVirtualAddress(LOCAL_WINDOW_AT),
    };
    [
        local_window(plan, (offset, size), true),
        flush(plan, PAGING_HANDLE, LOCAL_WINDOW_AT, size),
        built(plan, PagingOperation::VirtualFill(op)),
        local_window(plan, (offset, size), false),
    ]
}

fn copied(plan: PlanNo, (offset, size): (u64, u64), transfer_direction: MemoryTransferDirection) -> Vec<Event> {
    let (store, local) = (GpuVirtualAddress(WINDOW_AT), GpuVirtualAddress(LOCAL_WINDOW_AT));
    let (source_virtual_address, destination_virtual_address) = match transfer_direction {
        MemoryTransferDirection::LocalToSystem => (local, store),
        _ => (store, local),
    };
    let op = TransferVirtual {
        allocation: T.handle(),
        allocation_offset_in_bytes: offset,
        transfer_size_in_bytes: size,
        source_virtual_address,
        destination_virtual_address,
        transfer_direction,
        flags: TransferVirtualFlags::empty(),
    };
    let window = |first| {
        let (process, level, table, allocation, count) = (PAGING_HANDLE, 0, 0x1000, Some(T), size >> 12);
        write(plan, &Entries { process, level, table, allocation, virtual_address: WINDOW_AT, offset, first, count })
    };
    vec![
        local_window(plan, (offset, size), true),
        window(Pte::valid(system(T.backing_store + offset))),
        flush(plan, PAGING_HANDLE, WINDOW_AT, LOCAL_WINDOW_AT + size - WINDOW_AT),
        built(plan, PagingOperation::VirtualTransfer(op)),
        local_window(plan, (offset, size), false),
        window(Pte::INVALID),
    ]
}

/// Another allocation for the aperture of the run, and its place there, decided before `T` leaves.
fn with_neighbour(run: Run, range: Extent) -> Broken {
    let neighbour = AllocationId::from_bits(9);
    let created = NewAllocation {
        handle: KmdAllocationHandle(99),
        size: range.size,
        backing_store: 0x8000_0000,
        segment: APERTURE,
        accessed_physically: true,
        ..NewAllocation::of(neighbour)
    }
    .event();
    let map = MapApertureSegment {
        allocation: KmdAllocationHandle(99),
        segment_id: APERTURE,
        offset_in_pages: range.offset / PAGE_SIZE,
        number_of_pages: range.size / PAGE_SIZE,
        mdl: system(0x8000_0000),
        flags: MapApertureFlags::empty(),
    };
    let enough = |event: &mut Event| {
        let Event::AdapterStarted { system_commit_limit, .. } = event else { unreachable!() };
        *system_commit_limit = T.size + range.size;
    };
    let (segment, extents, content) = (APERTURE, vec![range], ContentSource::InPlace);
    let comes = [
        created,
        Event::MakeResident {
            device: device(),
            queue: queue(),
            allocations: vec![neighbour],
            flags: MakeResidentFlags::empty(),
            after_submission: 1,
            paging_fence_value: 4,
            waiting: vec![neighbour],
        },
        Event::Placed { plan: 3, allocation: neighbour, segment, extents, content },
        decided(3, &[], &[]),
        granted(4, &[3]),
        Event::PlanEntered { plan: 3 },
        built(3, PagingOperation::MapApertureSegment(map)),
    ];
    let story = run.story().change(started, enough);
    let mut events = story.0;
    let leaves = Broken(events.clone()).position(|event| matches!(event, Event::Evict { .. }));
    events.truncate(leaves);
    events.extend(comes);
    events.extend(packet());
    events.extend([Event::PlanRetired { plan: 3 }, Event::PagingFenceSignaled { queue: queue(), value: 4 }]);
    renumbered(Broken(events))
}

#[test]
fn moves_between_places_have_no_findings() {
    demoted_and_promoted().breaks_nothing();
}

#[test]
fn every_beginning_of_moves_between_places_has_no_findings() {
    let events = numbered(demoted_and_promoted().0);
    for end in 0..events.len() {
        let findings = audit(&events[..end]);
        assert!(findings.is_empty(), "the first {end}: {findings:#?}");
    }
}

#[test]
fn i09_leaving_local_memory_is_notified() {
    let told = notify_chunk(3, NotifyAllocFlags::EVICTION, CHUNKS[0]);
    demoted_and_promoted().insert_after(transfer(3, 0), told).breaks(I09);
}

#[test]
fn i09_a_promotion_is_notified() {
    let told = notify_chunk(4, NotifyAllocFlags::EVICTION, CHUNKS[0]);
    demoted_and_promoted().insert_before(is(invalid_entries(4, SEEN[0])), told).breaks(I09);
}

#[test]
fn i09_an_eviction_that_is_no_promotion_is_not_notified() {
    let wanted = |event: &mut Event| {
        let Event::Evicted { reason, .. } = event else { unreachable!() };
        *reason = EvictReason::RoomWanted;
    };
    demoted_and_promoted().change(evicted(4), wanted).breaks_only(I09);
}

#[test]
fn i03_a_promotion_goes_nowhere() {
    let promoted = |event: &mut Event| {
        let Event::Evicted { reason, .. } = event else { unreachable!() };
        *reason = EvictReason::Promoted;
    };
    QUIET.story().change(victim, promoted).breaks_only(I03);
}

#[test]
fn i02_an_allocation_that_was_written_in_local_memory_is_not_copied_out() {
    let kept = |event: &mut Event| {
        let Event::Evicted { copied, .. } = event else { unreachable!() };
        *copied = false;
    };
    demoted_and_promoted().change(evicted(3), kept).breaks(I02);
}

#[test]
fn i02_content_in_system_memory_is_brought_in() {
    for wrong in [ContentSource::Fill, ContentSource::BackingStore] {
        for run in [QUIET, QUIET_IN_APERTURE] {
            let change = |event: &mut Event| change_placed(event, |_, _, content| *content = wrong);
            // Then the content that is said to be brought in is missing, too.
            run.story().change(in_place, change).breaks(I02);
        }
    }
}

#[test]
fn i02_an_allocation_that_was_written_in_system_memory_is_filled_when_it_is_promoted() {
    let filled = |event: &mut Event| change_placed(event, |_, _, content| *content = ContentSource::Fill);
    demoted_and_promoted().change(placed(4), filled).breaks(I02);
}

#[test]
fn i02_content_that_comes_to_local_memory_is_said_to_be_there() {
    let there = |event: &mut Event| change_placed(event, |_, _, content| *content = ContentSource::InPlace);
    demoted_and_promoted().change(placed(4), there).breaks(I02);
}

#[test]
fn i01_an_allocation_goes_to_a_segment_that_its_driver_did_not_allow() {
    for run in [QUIET, QUIET_IN_APERTURE] {
        run.story().change(created, |event| change_created(event, |set, _| *set = 0b01)).breaks_only(I01);
    }
    demoted_and_promoted().change(created, |event| change_created(event, |set, _| *set = 0b10)).breaks_only(I01);
}

#[test]
fn i01_accessed_physically_decides_on_which_side_of_the_aperture() {
    QUIET.story().change(created, |event| change_created(event, |_, physically| *physically = true)).breaks_only(I01);
    QUIET_IN_APERTURE
        .story()
        .change(created, |event| change_created(event, |_, physically| *physically = false))
        .breaks_only(I01);
}

#[test]
fn i01_an_allocation_is_in_system_memory_but_not_in_its_backing_store() {
    let mut story = QUIET.story();
    for event in story.0.iter_mut().filter(|event| in_place(event) || victim(event)) {
        change_extents(event, |extents| extents[0].offset += PAGE_SIZE);
    }
    // Then entries that point to the backing store are wrong, too.
    story.breaks(I01);
}

#[test]
fn i01_a_range_of_the_aperture_is_not_contiguous() {
    let half = RANGE.size / 2;
    let halves = |event: &mut Event| {
        change_extents(event, |extents| *extents = vec![extent(0, half), extent(RANGE.offset, RANGE.size - half)]);
    };
    QUIET_IN_APERTURE.story().change(in_place, halves).breaks(I01);
}

#[test]
fn i01_ranges_of_the_aperture_overlap() {
    let beside = Extent { offset: RANGE.end(), size: MIB };
    with_neighbour(QUIET_IN_APERTURE, beside).breaks_nothing();
    let inside = Extent { offset: RANGE.end() - PAGE_SIZE, size: MIB };
    with_neighbour(QUIET_IN_APERTURE, inside).breaks(I01);
}

#[test]
fn i01_a_range_lies_outside_the_aperture() {
    with_neighbour(QUIET_IN_APERTURE, Extent { offset: 64 * MIB - PAGE_SIZE, size: MIB }).breaks_only(I01);
}

#[test]
fn i01_backing_stores_overlap() {
    let mut other = QUIET.story().0.into_iter().find(created).unwrap();
    let Event::AllocationCreated { allocation, handle, backing_store, .. } = &mut other else { unreachable!() };
    (*allocation, *handle) = (AllocationId::from_bits(7), KmdAllocationHandle(77));
    *backing_store += T.size - PAGE_SIZE;
    QUIET.story().append(other).breaks_only(I01);
}

#[test]
fn i03_an_allocation_leaves_another_segment() {
    let elsewhere = |event: &mut Event| {
        let Event::Evicted { segment, .. } = event else { unreachable!() };
        *segment = MEMORY;
    };
    let run = Run { destroyed: true, ..QUIET };
    run.story().change(victim, elsewhere).breaks_only(I03);
}

#[test]
fn seg50_more_is_resident_than_the_commit_limit() {
    let less = |event: &mut Event| {
        let Event::AdapterStarted { system_commit_limit, .. } = event else { unreachable!() };
        *system_commit_limit -= PAGE_SIZE;
    };
    for run in [QUIET, QUIET_IN_APERTURE, BY_PROCESS, GLOBAL] {
        run.story().change(started, less).breaks_only(Seg50);
    }
    with_neighbour(QUIET_IN_APERTURE, extent(RANGE.end(), MIB)).change(started, less).breaks_only(Seg50);
    demoted_and_promoted().change(started, less).breaks_only(Seg50);
}

#[test]
fn i24_the_aperture_is_not_mapped() {
    QUIET_IN_APERTURE.story().remove(is(map_aperture(IN))).breaks_only(I24);
    let run = Run { in_aperture: true, notify: AllocationFlags2::empty(), ..BY_PROCESS };
    run.story().remove(is(map_aperture(IN))).breaks_only(I24);
}

#[test]
fn i24_entries_point_to_the_aperture_before_it_is_mapped() {
    let mut story = QUIET_IN_APERTURE.story();
    let at = story.position(is(map_aperture(IN)));
    story.0.swap(at, at + 1);
    story.breaks_only(I24);
}

#[test]
fn i24_the_aperture_shows_other_memory() {
    let elsewhere = |op: &mut MapApertureSegment| op.mdl.offset += PAGE_SIZE;
    QUIET_IN_APERTURE.story().change(is(map_aperture(IN)), |event| change_map(event, elsewhere)).breaks_only(I24);
}

#[test]
fn i24_the_aperture_is_mapped_elsewhere_in_part_or_twice() {
    let wrong: [fn(&mut MapApertureSegment); 3] =
        [|op| op.offset_in_pages += 1, |op| op.number_of_pages -= 1, |op| op.segment_id = MEMORY];
    for wrong in wrong {
        QUIET_IN_APERTURE.story().change(is(map_aperture(IN)), |event| change_map(event, wrong)).breaks_only(I24);
    }
    let again = map_aperture(IN);
    QUIET_IN_APERTURE.story().insert_after(is(again.clone()), again).breaks_only(I24);
}

#[test]
fn the_second_form_of_mapping_the_aperture_has_no_findings() {
    by_second_form().breaks_nothing();
}

#[test]
fn i24_the_second_form_shows_other_memory_elsewhere_or_in_part() {
    let wrong: [fn(&mut MapApertureSegment2); 5] = [
        |op| op.adl.base_page_number += 1,
        |op| op.adl.base_page_number = u64::MAX,
        |op| op.offset_in_pages += 1,
        |op| op.number_of_pages -= 1,
        |op| op.segment_id = MEMORY,
    ];
    for wrong in wrong {
        let change = |event: &mut Event| {
            let Event::PagingOperation { operation: PagingOperation::MapApertureSegment2(op), .. } = event else {
                unreachable!()
            };
            wrong(op);
        };
        by_second_form().change(is_second_form, change).breaks_only(I24);
    }
}

#[test]
fn i24_the_second_form_is_not_sent_sent_twice_or_too_late() {
    by_second_form().remove(is_second_form).breaks_only(I24);
    let mut again = map_aperture(IN);
    to_second_form(&mut again);
    by_second_form().insert_after(is_second_form, again).breaks_only(I24);
    let mut late = by_second_form();
    let at = late.position(is_second_form);
    late.0.swap(at, at + 1);
    late.breaks_only(I24);
}

#[test]
fn i23_a_driver_is_sent_the_form_of_mapping_that_it_has_not() {
    QUIET_IN_APERTURE.story().change(is(map_aperture(IN)), to_second_form).breaks_only(I23);
    QUIET_IN_APERTURE.story().change(started, has_second_form).breaks_only(I23);
}

#[test]
fn i23_the_driver_is_older_than_the_second_form() {
    for (wddm, is_known) in [(WddmVersion::WDDM2_9.0 - 1, false), (WddmVersion::WDDM2_9.0, true)] {
        let older = |event: &mut Event| {
            let Event::AdapterStarted { wddm_version, .. } = event else { unreachable!() };
            *wddm_version = wddm;
        };
        // Before WDDM 3.2 a driver is not asked for the size of its paging process either, which would be a finding of its own.
        let queried = |event: &Event| matches!(event, Event::PagingVaQueried { .. });
        let story = by_second_form().change(started, older).remove(queried);
        if is_known { story.breaks_nothing() } else { story.breaks_only(I23) }
    }
}

#[test]
fn i24_the_aperture_is_mapped_for_an_allocation_that_is_not_there() {
    QUIET.story().insert_before(is(QUIET.entries(IN, SEEN[0])), map_aperture(IN)).breaks_only(I24);
}

#[test]
fn i24_the_aperture_stays_mapped() {
    QUIET_IN_APERTURE.story().remove(is(unmap_aperture(OUT))).breaks_only(I24);
}

#[test]
fn i24_the_aperture_is_unmapped_elsewhere_or_in_part() {
    let wrong: [fn(&mut UnmapApertureSegment); 3] =
        [|op| op.offset_in_pages += 1, |op| op.number_of_pages -= 1, |op| op.segment_id = MEMORY];
    for wrong in wrong {
        QUIET_IN_APERTURE.story().change(is(unmap_aperture(OUT)), |event| change_unmap(event, wrong)).breaks_only(I24);
    }
}

#[test]
fn i24_the_aperture_is_unmapped_while_it_is_used() {
    let early = unmap_aperture(IN);
    QUIET_IN_APERTURE.story().insert_before(is(Event::PlanRetired { plan: IN }), early).breaks(I24);
}

#[test]
fn i24_an_unmapped_page_does_not_show_the_dummy_page() {
    let elsewhere = |op: &mut UnmapApertureSegment| op.dummy_page = system(T.backing_store);
    QUIET_IN_APERTURE.story().change(is(unmap_aperture(OUT)), |event| change_unmap(event, elsewhere)).breaks_only(I24);
}

#[test]
fn i24_the_dummy_page_is_in_a_segment() {
    let local = |event: &mut Event| {
        let Event::AdapterStarted { dummy_page, .. } = event else { unreachable!() };
        *dummy_page = local(0x8000);
    };
    QUIET.story().change(started, local).breaks_only(I24);
}

#[test]
fn i05_the_aperture_is_unmapped_before_its_entries_are_flushed() {
    let flushed = flush(OUT, USER_HANDLE, SEEN[1].at, SEEN[1].size);
    QUIET_IN_APERTURE.story().move_before(is(unmap_aperture(OUT)), is(flushed)).breaks_only(I05);
}

#[test]
fn i05_the_aperture_is_unmapped_before_its_entries_are_invalid() {
    let invalid = is(invalid_entries(OUT, SEEN[0]));
    QUIET_IN_APERTURE.story().move_before(is(unmap_aperture(OUT)), invalid).breaks_only(I05);
}

#[test]
fn i24_an_allocation_in_system_memory_is_filled() {
    for run in [QUIET, QUIET_IN_APERTURE] {
        let [_, _, fill, _] = filled(IN, CHUNKS[0]);
        run.story().insert_before(is(run.entries(IN, SEEN[0])), fill).breaks_only(I24);
    }
}

#[test]
fn i24_an_allocation_in_system_memory_is_copied() {
    for way in [MemoryTransferDirection::LocalToSystem, MemoryTransferDirection::SystemToLocal] {
        let transfer = copied(OUT, CHUNKS[0], way).swap_remove(3);
        for run in [QUIET, QUIET_IN_APERTURE] {
            run.story().insert_before(is(invalid_entries(OUT, SEEN[0])), transfer.clone()).breaks_only(I24);
        }
    }
}

#[test]
fn i24_an_allocation_in_system_memory_is_said_to_be_copied_out() {
    let out = |event: &mut Event| {
        let Event::Evicted { copied, .. } = event else { unreachable!() };
        *copied = true;
    };
    QUIET.story().change(victim, out).breaks(I24);
}

#[test]
fn i04_entries_point_elsewhere_in_system_memory() {
    for run in [QUIET, QUIET_IN_APERTURE] {
        let right = is(run.entries(IN, SEEN[1]));
        let elsewhere = |op: &mut UpdatePageTable| op.page_table_entries.first.address.offset += PAGE_SIZE;
        run.story().change(right, |event| change_update(event, elsewhere)).breaks_only(I04);
    }
}

#[test]
fn i04_entries_for_system_memory_map_large_pages() {
    let mut story = QUIET.story();
    for event in &mut story.0 {
        if let Event::GpuVirtualAddressMapped { page_size, .. } = event {
            *page_size = PageSize::Kib64;
        }
    }
    let right = QUIET.entries(IN, SEEN[1]);
    let large = |op: &mut UpdatePageTable| op.flags |= UpdatePageTableFlags::USE_64KB_PAGES;
    Broken(story.0.clone()).breaks_only(Gva41);
    story.change(is(right), |event| change_update(event, large)).breaks(I04);
}

#[test]
fn i04_entries_point_past_the_aperture_to_the_backing_store() {
    let past = QUIET.entries(IN, SEEN[0]);
    QUIET_IN_APERTURE.story().replace(is(QUIET_IN_APERTURE.entries(IN, SEEN[0])), past).breaks_only(I04);
}

#[test]
fn i04_entries_of_a_demoted_allocation_still_point_to_local_memory() {
    let right = shown(3, SEEN[0], system(STORE.offset + SEEN[0].offset));
    let stale = shown(3, SEEN[0], local(LOCAL.offset + SEEN[0].offset));
    demoted_and_promoted().replace(is(right), stale).breaks_only(I04);
}

#[test]
fn i05_local_memory_is_copied_out_while_entries_show_it() {
    let flushed = flush(3, USER_HANDLE, SEEN[0].at, SEEN[0].size);
    demoted_and_promoted().remove(is(flushed)).breaks_only(I05);
}

#[test]
fn i10_a_chunk_of_a_demotion_is_missing() {
    for (offset, _) in CHUNKS {
        demoted_and_promoted().remove(transfer(3, offset)).breaks_exactly(&[I10, I14]);
    }
}

#[test]
fn i14_another_window_is_mapped_while_content_moves() {
    let elsewhere = |op: &mut UpdatePageTable| op.first_pte_virtual_address.0 += 8 * MIB;
    let mut stray = local_window(3, CHUNKS[0], true);
    change_update(&mut stray, elsewhere);
    let mut away = local_window(3, CHUNKS[0], false);
    change_update(&mut away, elsewhere);
    let story = demoted_and_promoted().insert_before(transfer(3, 0), stray).insert_after(transfer(3, 0), away);
    story.breaks_only(I14);
}

/// D19: tables lie in their area.
#[test]
fn i01_page_tables_lie_before_the_area_for_them() {
    let set_area = |event: &mut Event| {
        let Event::AdapterStarted { memory, .. } = event else { unreachable!() };
        memory[0].page_table_area = 4 * MIB;
    };
    demoted_and_promoted().change(started, set_area).breaks_only(I01);
}

/// SEG-42: where there is certainly room for all, an allocation goes where its driver prefers it.
#[test]
fn seg42_an_allocation_goes_elsewhere_than_its_driver_prefers() {
    let created = |event: &Event| matches!(event, Event::AllocationCreated { .. });
    let preferring = |segment: Option<SegmentId>| {
        QUIET.story().change(created, |event| {
            let Event::AllocationCreated { supported_segment_set, preferred_segment, .. } = event else {
                unreachable!()
            };
            *supported_segment_set |= SegmentSet::of(MEMORY).0;
            *preferred_segment = segment;
        })
    };
    preferring(None).breaks_nothing();
    preferring(Some(APERTURE)).breaks_nothing();
    preferring(Some(MEMORY)).breaks_only(Seg42);
}

/// RES-21, RES-71, P60: the reason for which an allocation leaves is a fact.
#[test]
fn an_allocation_leaves_for_a_reason_that_is_none() {
    let goes = || is(evict(T, EvictFlags::empty(), 1));
    let kept = evict(T, EvictFlags::EVICT_ONLY_IF_NECESSARY, 1);
    QUIET.story().breaks_nothing();
    QUIET.story().replace(goes(), kept).breaks_only(Res21);
    let leaves_as = |because: EvictReason| {
        QUIET.story().change(victim, |event| {
            let Event::Evicted { reason, .. } = event else { unreachable!() };
            *reason = because;
        })
    };
    leaves_as(EvictReason::RoomWanted).breaks_nothing();
    leaves_as(EvictReason::Destroyed).breaks(I03);
    leaves_as(EvictReason::RangeWanted).breaks_only(I03);
    leaves_as(EvictReason::Locked).breaks_only(Res84);
    leaves_as(EvictReason::DeviceSuspended).breaks_only(Res71);
    leaves_as(EvictReason::PoweredDown).breaks_only(P60);
    leaves_as(EvictReason::PropertyUpdated).breaks_only(Cre51);
}

/// RES-21: an Evict without EVICT_ONLY_IF_NECESSARY takes an allocation out although no memory is wanted.
#[test]
fn res21_an_allocation_stays_that_was_evicted_to_go() {
    let evicted = |flags| {
        let story = QUIET.story().replace(is(evict(T, EvictFlags::empty(), 1)), evict(T, flags, 1));
        let at = story.position(victim);
        let end = Event::Completed { signal: fence(RENDER, 1) };
        Broken([&story.0[..at], &[end], &time_passes()].concat())
    };
    evicted(EvictFlags::EVICT_ONLY_IF_NECESSARY).breaks_nothing();
    evicted(EvictFlags::empty()).breaks_only(Res21);
}

/// RES-91, GVA-53: what is destroyed or freed is gone when the work before has ended.
#[test]
fn res91_a_destroyed_allocation_or_a_freed_mapping_stays() {
    let story = || Run { destroyed: true, ..QUIET }.story();
    let gone = is(Event::AllocationReclaimed { allocation: T.id() });
    story().breaks_nothing();
    let left = story().remove(gone);
    Broken([left.0, time_passes().to_vec()].concat()).breaks_only(Res91);
    let (process, virtual_address, size) = (process(), GpuVirtualAddress(SEEN[0].at), SEEN[0].size);
    let freed = Event::GpuVirtualAddressFreed { process, virtual_address, size };
    let kept = [QUIET.story().0, vec![freed], time_passes().to_vec()].concat();
    Broken(kept[..kept.len() - 1].to_vec()).breaks_nothing();
    Broken(kept).breaks_only(Res91);
}
