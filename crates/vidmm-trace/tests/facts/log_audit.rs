//! The audit finds nothing in a right log, and each broken invariant in a wrong one.

use crate::log_support::broken::*;
use crate::log_support::*;
use vidmm::contract::*;
use vidmm::event::{ContentSource, Event};
use vidmm::*;
use vidmm_trace::Invariant::*;

#[test]
fn a_right_log_has_no_findings() {
    let findings = audit(&numbered(story()));
    assert!(findings.is_empty(), "{findings:#?}");
}

#[test]
fn every_beginning_of_a_right_log_has_no_findings() {
    let events = numbered(story());
    for end in 0..events.len() {
        let findings = audit(&events[..end]);
        assert!(findings.is_empty(), "the first {end}: {findings:#?}");
    }
}

#[test]
fn findings_name_the_event_and_the_invariant() {
    let mut events = numbered(story());
    let Event::Placed { extents, .. } = &mut events.iter_mut().find(|event| placed(2)(&event.event)).unwrap().event
    else {
        unreachable!()
    };
    extents[0].offset = 0x4000;
    let number = events.iter().find(|event| placed(2)(&event.event)).unwrap().number;
    let first = &audit(&events)[0];
    assert_eq!((first.event, first.invariant.name()), (number, "I01"));
    assert!(first.to_string().starts_with(&format!("event {number}: I01: ")), "{first}");
}

#[test]
fn i01_overlap_with_a_page_table() {
    broken().change(placed(2), |event| change_extents(event, |e| e[0].offset = 0x4000)).breaks(I01);
}

#[test]
fn i01_overlap_with_the_paging_tables() {
    broken().change(placed(2), |event| change_extents(event, |e| e[0].offset = 0x2000)).breaks(I01);
}

#[test]
fn i01_overlap_with_an_allocation_that_was_not_evicted() {
    broken().remove(evicted(3)).breaks(I01);
}

#[test]
fn i01_outside_the_segment() {
    for offset in [0x1_d000, 0x2_0000, u64::MAX - 0xfff] {
        broken().change(placed(2), |event| change_extents(event, |e| e[0].offset = offset)).breaks(I01);
    }
}

#[test]
fn i01_not_on_a_page() {
    broken().change(placed(2), |event| change_extents(event, |e| e[0].offset = 0x5800)).breaks(I01);
}

#[test]
fn i01_not_as_large_as_the_allocation() {
    broken().change(placed(2), |event| change_extents(event, |e| e[0].size = 0x3000)).breaks(I01);
}

#[test]
fn i01_a_promised_range_is_taken_without_following_its_plan() {
    broken().replace(is(decided(4, &[], &[3])), decided(4, &[], &[])).breaks_only(I01);
}

#[test]
fn i02_an_allocation_that_was_written_is_not_copied_out() {
    let uncopied = |event: &mut Event| {
        let Event::Evicted { copied, .. } = event else { unreachable!() };
        *copied = false;
    };
    broken().change(evicted(3), uncopied).breaks(I02);
}

#[test]
fn i02_content_comes_from_the_wrong_place() {
    for (plan, wrong) in [(2, ContentSource::BackingStore), (5, ContentSource::Fill)] {
        let change = |event: &mut Event| {
            let Event::Placed { content, .. } = event else { unreachable!() };
            *content = wrong;
        };
        broken().change(placed(plan), change).breaks(I02);
    }
}

#[test]
fn i03_an_allocation_leaves_where_it_is_not() {
    broken().change(evicted(5), |event| change_extents(event, |e| e.swap(0, 1))).breaks_only(I03);
}

#[test]
fn i03_an_allocation_is_placed_twice() {
    broken().remove(evicted(3)).remove(placed(4)).breaks(I03);
}

#[test]
fn i04_an_entry_stays_valid() {
    broken().remove(is(entries_of_a(3, Pte::INVALID))).breaks(I04);
}

#[test]
fn i04_an_entry_points_elsewhere() {
    let right = entries_of_a(5, Pte::valid(local(0x1_0000)));
    broken().replace(is(right), entries_of_a(5, Pte::valid(local(0x1_1000)))).breaks_only(I04);
}

#[test]
fn i04_an_entry_never_becomes_valid() {
    broken().remove(is(entries_of_a(2, Pte::valid(local(0x5000))))).breaks(I04);
}

#[test]
fn i04_some_entries_never_become_valid() {
    let right = || is(entries_of_a(2, Pte::valid(local(0x5000))));
    let change = |op: &mut UpdatePageTable| op.page_table_entries.num_page_table_entries = 3;
    broken().change(right(), |event| change_update(event, change)).breaks_only(I04);
}

#[test]
fn i04_all_entries_show_the_first_page() {
    let right = || is(entries_of_a(2, Pte::valid(local(0x5000))));
    let change = |op: &mut UpdatePageTable| op.flags |= UpdatePageTableFlags::REPEAT;
    broken().change(right(), |event| change_update(event, change)).breaks_only(I04);
}

#[test]
fn i04_an_entry_shows_another_allocation() {
    let right = || is(entries_of_a(2, Pte::valid(local(0x5000))));
    let change = |op: &mut UpdatePageTable| op.allocation = Some(B.handle());
    broken().change(right(), |event| change_update(event, change)).breaks(I04);
}

#[test]
fn i05_entries_are_valid_while_the_content_leaves() {
    let invalid = || is(entries_of_a(3, Pte::INVALID));
    broken().remove(invalid()).insert_before(buffer(3), entries_of_a(3, Pte::INVALID)).breaks(I05);
}

#[test]
fn i05_no_flush() {
    broken().remove(is(flush_a(3))).breaks_only(I05);
}

#[test]
fn i05_the_flush_comes_after_the_first_byte() {
    broken().remove(is(flush_a(3))).insert_after(transfer(3, 0), flush_a(3)).breaks_only(I05);
}

#[test]
fn i05_the_flush_is_too_short() {
    let shorten = |event: &mut Event| {
        let Event::PagingOperation { operation: PagingOperation::FlushTlb(op), .. } = event else { unreachable!() };
        op.end_virtual_address = GpuVirtualAddress(MAPPED_AT + A.size - 0x1000);
    };
    broken().change(is(flush_a(3)), shorten).breaks_only(I05);
}

#[test]
fn i05_the_flush_is_of_another_process() {
    let other = |event: &mut Event| {
        let Event::PagingOperation { operation: PagingOperation::FlushTlb(op), .. } = event else { unreachable!() };
        op.process = KmdProcessHandle(100);
    };
    broken().change(is(flush_a(3)), other).breaks_only(I05);
}

#[test]
fn i05_a_flush_of_everything_is_enough() {
    let whole = |event: &mut Event| {
        let Event::PagingOperation { operation: PagingOperation::FlushTlb(op), .. } = event else { unreachable!() };
        (op.start_virtual_address, op.end_virtual_address) = Default::default();
    };
    let findings = audit(&numbered(broken().change(is(flush_a(3)), whole).0));
    assert!(findings.is_empty(), "{findings:#?}");
}

#[test]
fn i06_dispatched_without_waiting() {
    broken().change(dispatched(1), |event| change_waits(event, &[])).breaks_only(I06);
}

#[test]
fn i06_waits_for_too_early_a_packet() {
    broken().change(dispatched(2), |event| change_waits(event, &[fence(PAGING, 3)])).breaks_only(I06);
}

#[test]
fn i06_dispatched_before_the_buffer_is_submitted() {
    let submitted = |event: &Event| matches!(event, Event::Submitted { submission: 1, .. });
    broken()
        .change(dispatched(1), |event| change_waits(event, &[fence(PAGING, 1)]))
        .move_before(submitted, buffer(2))
        .move_before(root_set, buffer(2))
        .move_before(dispatched(1), buffer(2))
        .breaks_only(I06);
}

#[test]
fn i06_dispatched_before_the_plan_is_built_to_its_end() {
    let last = entries_of_a(2, Pte::valid(local(0x5000)));
    let late = Event::PagingBufferSubmitted { signal: fence(PAGING, 3), bytes: 64 };
    // The last operation comes in a buffer after the one that the dispatch waits for.
    let mut story = broken().remove(is(last.clone())).insert_after(dispatched(1), last);
    let at = story.position(dispatched(1)) + 2;
    story.0.truncate(at);
    story.append(late).breaks_only(I06);
}

#[test]
fn i06_dispatched_before_the_request_is_granted() {
    broken().remove(is(granted(2, &[2]))).breaks(I06);
}

#[test]
fn i06_dispatched_while_an_allocation_has_no_place() {
    broken().remove(placed(2)).breaks(I06);
}

#[test]
fn i06_the_plans_of_a_grant_are_not_believed() {
    broken()
        .replace(is(granted(2, &[2])), granted(2, &[]))
        .change(dispatched(1), |event| change_waits(event, &[]))
        .breaks(I06);
}

#[test]
fn i07_evicted_more_often_than_made_resident() {
    let again = evict(A, EvictFlags::empty(), 1);
    broken().insert_after(is(again.clone()), again).breaks_only(I07);
}

#[test]
fn i07_a_refused_call_does_not_count() {
    let refused = Event::MakeResidentRefused {
        device: device(),
        allocations: vec![A.id()],
        flags: MakeResidentFlags::empty(),
        num_bytes_to_trim: 4096,
        reason: NoMemoryReason::Fragmented,
        shortages: short_of(SegmentId(1), 4096, NoMemoryReason::Fragmented),
    };
    let evicted = evict(A, EvictFlags::empty(), 1);
    broken().insert_before(is(evicted.clone()), refused).insert_after(is(evicted.clone()), evicted).breaks_only(I07);
}

#[test]
fn i07_on_the_list_of_another_device() {
    let other = DeviceId::from_bits(1);
    let created =
        Event::DeviceCreated { device: other, process: process(), residency: vidmm::DeviceResidency::DeviceList };
    broken()
        .insert_after(|event| matches!(event, Event::DeviceCreated { .. }), created)
        .change(is(make_resident(A, 0, 2)), |event| {
            let Event::MakeResident { device, .. } = event else { unreachable!() };
            *device = other;
        })
        .breaks(I07);
}

#[test]
fn i10_a_chunk_is_missing() {
    for offset in [0, WINDOW] {
        broken().remove(transfer(3, offset)).breaks_exactly(&[I10, I14]);
        broken().remove(transfer(5, offset)).breaks_exactly(&[I10, I14]);
        broken().remove(fill(2, offset)).breaks_exactly(&[I10, I14]);
    }
}

#[test]
fn i10_a_chunk_comes_twice() {
    let story = broken();
    let chunk = story.0[story.position(transfer(3, 0))].clone();
    story.insert_before(transfer(3, 0), chunk).breaks_exactly(&[I10, I14]);
}

/// RES-22: A is copied out, though its Evict says NOT_WRITTEN_TO.
#[test]
fn res22_an_allocation_that_was_not_written_is_copied_out() {
    let evicted = |flags| broken().replace(is(evict(A, EvictFlags::empty(), 1)), evict(A, flags, 1));
    evicted(EvictFlags::EVICT_ONLY_IF_NECESSARY).breaks_nothing();
    evicted(EvictFlags::NOT_WRITTEN_TO).breaks_only(Res22);
}

#[test]
fn i10_content_is_moved_that_was_not_to_be_copied() {
    let clean = |event: &mut Event| {
        let Event::Evicted { copied, .. } = event else { unreachable!() };
        *copied = false;
    };
    broken().change(evicted(3), clean).breaks(I10);
}

#[test]
fn i13_a_packet_ends_out_of_order() {
    let done = |id| is(Event::Completed { signal: fence(PAGING, id) });
    broken().move_before(done(4), done(3)).breaks_only(I13);
}

#[test]
fn i13_a_packet_ends_twice() {
    let done = Event::Completed { signal: fence(RENDER, 1) };
    broken().insert_after(is(done.clone()), done).breaks_only(I13);
}

#[test]
fn i13_a_packet_ends_that_was_not_submitted() {
    broken().append(Event::Completed { signal: fence(RENDER, 3) }).breaks_only(I13);
}

#[test]
fn i13_a_buffer_has_the_wrong_number() {
    broken()
        .change(buffer(5), |event| {
            let Event::PagingBufferSubmitted { signal, .. } = event else { unreachable!() };
            signal.fence_id = 6;
        })
        .breaks(I13);
}

#[test]
fn i13_work_waits_for_a_packet_that_was_not_handed_out() {
    broken().change(dispatched(2), |event| change_waits(event, &[fence(PAGING, 9)])).breaks_only(I13);
}

#[test]
fn i13_a_plan_retires_before_its_buffer_is_done() {
    broken()
        .move_before(is(Event::PlanRetired { plan: 3 }), is(Event::Completed { signal: fence(PAGING, 3) }))
        .breaks_only(I13);
}

#[test]
fn i13_a_paging_fence_is_signalled_before_its_plans_retire() {
    let signaled = Event::PagingFenceSignaled { queue: queue(), value: 3 };
    broken().move_before(is(signaled), is(Event::PlanRetired { plan: 4 })).breaks_only(I13);
}

#[test]
fn i13_a_paging_fence_falls() {
    let signaled = |value| Event::PagingFenceSignaled { queue: queue(), value };
    broken().replace(is(signaled(3)), signaled(2)).breaks(I13);
    broken().append(signaled(4)).breaks_only(I13);
}

#[test]
fn i13_values_are_granted_out_of_order() {
    broken().replace(is(granted(3, &[4])), granted(2, &[4])).breaks(I13);
}

#[test]
fn i13_resident_at_once_but_nowhere() {
    broken().append(make_resident(B, 2, 0)).breaks(I13);
}

#[test]
fn i13_a_monitored_fence_falls() {
    for value in [0, 2, 3] {
        broken().append(monitored_reaches(value)).breaks_only(I13);
    }
}

#[test]
fn i14_a_window_shows_other_memory() {
    let mut story = broken();
    let at = story.position(transfer(3, 0)) - 1;
    change_update(&mut story.0[at], |op| op.page_table_entries.first.address.offset += 0x1000);
    story.breaks_only(I14);
}

#[test]
fn i14_a_window_is_not_mapped() {
    let mut story = broken();
    let at = story.position(transfer(5, WINDOW)) - 1;
    story.0.remove(at);
    story.breaks(I14);
}

#[test]
fn i14_a_window_stays_mapped() {
    let mut story = broken();
    let at = story.position(transfer(3, WINDOW)) + 1;
    story.0.remove(at);
    story.breaks_only(I14);
}

#[test]
fn i15_entries_are_written_where_no_table_is() {
    let right = || is(entries_of_a(2, Pte::valid(local(0x5000))));
    broken().change(right(), |event| change_update(event, |op| op.page_table_address = local(0x6000))).breaks_only(I15);
}

#[test]
fn i15_entries_are_written_at_the_wrong_index() {
    let right = || is(entries_of_a(2, Pte::valid(local(0x5000))));
    broken().change(right(), |event| change_update(event, |op| op.start_index += 1)).breaks_only(I15);
}

#[test]
fn i15_a_parent_points_elsewhere() {
    let link = |event: &Event| match event {
        Event::PagingOperation { operation: PagingOperation::UpdatePageTable(op), .. } => {
            op.page_table_level == 1 && op.page_table_entries.first.flags.contains(PteFlags::VALID)
        }
        _ => false,
    };
    let elsewhere = |op: &mut UpdatePageTable| op.page_table_entries.first.address = local(0x3000);
    broken().change(link, |event| change_update(event, elsewhere)).breaks_only(I15);
}

#[test]
fn i17_a_victim_is_still_on_the_list() {
    broken().remove(is(evict(A, EvictFlags::empty(), 1))).breaks(I17);
}

#[test]
fn i17_a_victim_is_required_by_work_that_was_not_dispatched() {
    let story = broken();
    let (at, evicted_at) = (story.position(dispatched(2)), story.position(evicted(5)));
    let mut events = story.0;
    let late = events.remove(at);
    events.insert(evicted_at, late);
    Broken(events).breaks(I17);
}

#[test]
fn i17_a_plan_takes_out_an_allocation_that_running_work_uses() {
    let done = || is(Event::Completed { signal: fence(RENDER, 1) });
    broken()
        .replace(is(decided(3, &[1], &[])), decided(3, &[], &[]))
        .move_before(is(Event::PlanEntered { plan: 3 }), done())
        .breaks_only(I17);
}

#[test]
fn i20_an_operation_of_a_plan_that_has_not_entered() {
    broken().remove(is(Event::PlanEntered { plan: 2 })).breaks(I20);
}

#[test]
fn i20_an_operation_of_a_plan_that_was_built() {
    let late = flush_a(3);
    broken().insert_before(is(Event::PlanRetired { plan: 4 }), late).breaks(I20);
}

#[test]
fn i20_an_operation_is_given_up() {
    let full = |event: &mut Event| {
        let Event::PagingOperation { status, .. } = event else { unreachable!() };
        *status = BuildStatus::InsufficientDmaBuffer;
    };
    broken().change(transfer(3, 0), full).breaks(I20);
}

#[test]
fn an_operation_that_is_continued_counts_once() {
    let story = broken();
    let mut first = story.0[story.position(transfer(3, 0))].clone();
    let Event::PagingOperation { status, .. } = &mut first else { unreachable!() };
    *status = BuildStatus::InsufficientDmaBuffer;
    story.insert_before(transfer(3, 0), first).breaks_nothing();
}

#[test]
fn i28_an_allocation_is_gone_but_has_a_place() {
    broken().append(Event::AllocationReclaimed { allocation: A.id() }).breaks_only(I28);
}

#[test]
fn i28_a_process_is_gone_but_has_a_mapping() {
    broken().append(Event::ProcessDestroyed { process: process() }).breaks_only(I28);
}

#[test]
fn d5_a_plan_enters_before_its_predecessor() {
    let entered = |plan| is(Event::PlanEntered { plan });
    broken().move_before(entered(4), entered(3)).breaks(D5);
}

#[test]
fn d5_a_plan_enters_before_the_work_that_it_waits_for_retires() {
    let done = || is(Event::Completed { signal: fence(RENDER, 1) });
    broken().move_before(is(Event::PlanEntered { plan: 3 }), done()).breaks(D5);
}

#[test]
fn d5_a_plan_follows_a_later_one() {
    broken().replace(is(decided(3, &[1], &[])), decided(3, &[1], &[4])).breaks(D5);
}

#[test]
fn log_events_are_missing() {
    let mut events = numbered(story());
    events.remove(20);
    assert_eq!(audit(&events)[0].invariant, Log);
}

#[test]
fn log_time_falls() {
    let mut events = numbered(story());
    events[20].at = 1;
    let findings = audit(&events);
    assert!(findings.iter().all(|finding| finding.invariant == Log) && findings.len() == 1, "{findings:#?}");
}

#[test]
fn log_a_name_names_nothing() {
    let nothing = AllocationId::from_bits(1 << 32);
    broken().append(Event::AllocationDestroyed { allocation: nothing, flags: DestroyFlags::empty() }).breaks_only(Log);
}

#[test]
fn log_a_call_tells_the_wrong_submission() {
    broken().replace(is(make_resident(B, 1, 3)), make_resident(B, 0, 3)).breaks(Log);
}

#[test]
fn i14_a_transfer_names_other_pages_than_its_windows_have() {
    let change = |event: &mut Event| {
        let Event::PagingOperation { operation: PagingOperation::VirtualTransfer(op), .. } = event else {
            unreachable!()
        };
        op.flags = TransferVirtualFlags::SRC_64KB_PAGES;
    };
    broken().change(transfer(3, 0), change).breaks_only(I14);
}

#[test]
fn cre42_new_memory_is_not_filled_with_zeros() {
    let change = |event: &mut Event| {
        let Event::PagingOperation { operation: PagingOperation::VirtualFill(op), .. } = event else { unreachable!() };
        op.fill_pattern = 1;
    };
    broken().change(fill(2, 0), change).breaks_only(Cre42);
}
