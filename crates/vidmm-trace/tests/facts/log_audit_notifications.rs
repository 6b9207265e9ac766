//! The audit of notifications: a driver that asks is notified in chunks, in time, and of nothing else (P23 to P30).

use crate::log_support::broken::*;
use crate::log_support::notified::*;
use crate::log_support::*;
use vidmm::contract::*;
use vidmm::event::Event;
use vidmm::*;
use vidmm_trace::Invariant::*;

const UNMAP: NotifyAllocFlags = NotifyAllocFlags::IO_MMU_UNMAP;

/// Every model, revision, set of flags and place, dead and alive, but those that no log has.
fn all_runs() -> Vec<Run> {
    let models = [AddressingModel::GpuMmu, AddressingModel::GpuVaIoMmu, AddressingModel::GpuVaIoMmuGlobal];
    let revisions = [NotificationRevision::Current, NotificationRevision::August2024];
    let mut runs = Vec::new();
    for (model, revision) in models.into_iter().flat_map(|model| revisions.map(|revision| (model, revision))) {
        for bits in 0..16u32 {
            let mut notify = AllocationFlags2::empty();
            notify.set(AllocationFlags2::NOTIFY_EVICTION, bits & 1 > 0);
            notify.set(AllocationFlags2::NOTIFY_IO_MMU_UNMAP, bits & 2 > 0);
            let run = Run { model, revision, notify, in_aperture: bits & 4 > 0, destroyed: bits & 8 > 0 };
            let never_sent = model == AddressingModel::GpuMmu
                && revision == NotificationRevision::Current
                && notify.contains(AllocationFlags2::NOTIFY_IO_MMU_UNMAP);
            runs.extend((!never_sent).then_some(run));
        }
    }
    runs
}

/// The runs in which the driver is notified of an eviction.
const EVICTED: [Run; 5] = [IMPLICIT, IN_APERTURE, BY_PROCESS, GLOBAL, AUGUST];

/// The events of a chunk of a notification, the flush of the window aside.
fn of_chunk(event: &Event) -> bool {
    match event {
        Event::IoMmuMapped { window, .. } | Event::IoMmuUnmapped { window, .. } => *window,
        Event::PagingOperation { operation: PagingOperation::NotifyAlloc(op), .. } => op.process.is_none(),
        Event::PagingOperation { operation: PagingOperation::UpdatePageTable(op), .. } => op.process == PAGING_HANDLE,
        _ => false,
    }
}

/// The story without the events of one chunk. Packets that are empty now do no harm.
fn without_chunk(run: Run, offset: u64) -> Broken {
    let story = run.story();
    let at = story.position(evicted_chunk(offset));
    // The window becomes valid, is flushed, and invalid; or it is mapped, and unmapped when a packet has ended.
    let around = if run.has_page_tables() { at - 2..=at + 3 } else { at - 1..=at + 3 };
    let is_kept = |(position, event): &(usize, Event)| !around.contains(position) || !of_chunk(event);
    Broken(story.0.into_iter().enumerate().filter(is_kept).map(|(_, event)| event).collect())
}

fn set_notify(event: &mut Event, by: AllocationFlags2) {
    let Event::AllocationCreated { notify, .. } = event else { unreachable!() };
    *notify = by;
}

fn unfinished(mut event: Event, by: BuildStatus) -> Event {
    let Event::PagingOperation { status, .. } = &mut event else { unreachable!() };
    *status = by;
    event
}

fn first(story: &Broken, is_it: impl Fn(&Event) -> bool) -> Event {
    story.0[story.position(is_it)].clone()
}

#[test]
fn right_logs_have_no_findings() {
    for run in all_runs() {
        run.story().breaks_nothing();
    }
}

#[test]
fn every_beginning_of_a_right_log_has_no_findings() {
    for run in all_runs() {
        let events = numbered(run.story().0);
        for end in 0..events.len() {
            let findings = audit(&events[..end]);
            assert!(findings.is_empty(), "the first {end}: {findings:#?}");
        }
    }
}

#[test]
fn i09_an_eviction_is_not_notified() {
    for run in EVICTED {
        run.story().remove_all(of_chunk).breaks_only(I09);
    }
}

#[test]
fn i09_an_eviction_is_notified_after_its_entries_are_invalid() {
    for run in [IMPLICIT, IN_APERTURE] {
        let late = SEEN.map(|seen| invalid_entries(OUT, seen));
        let story = run.story().remove_all(|event| late.contains(event));
        let window = window_entries(OUT, CHUNKS[0], Pte::valid(system(T.backing_store)));
        story.insert_all_before(is(window), late).breaks_only(I09);
    }
}

#[test]
fn i09_an_eviction_is_notified_after_the_aperture_is_unmapped() {
    let run = Run { in_aperture: true, ..BY_PROCESS };
    run.story().move_before(is(unmap_aperture(OUT)), is(run.window_mapped(CHUNKS[0]))).breaks_only(I09);
}

#[test]
fn i09_the_driver_did_not_ask() {
    for run in EVICTED {
        run.story().change(created, |event| set_notify(event, AllocationFlags2::empty())).breaks_only(I09);
    }
}

#[test]
fn i09_the_driver_asked_for_the_other_notification() {
    let only = AllocationFlags2::NOTIFY_IO_MMU_UNMAP;
    BY_PROCESS.story().change(created, |event| set_notify(event, only)).breaks_only(I09);
    let only = AllocationFlags2::NOTIFY_EVICTION;
    BY_PROCESS.story().change(created, |event| set_notify(event, only)).breaks_only(I09);
}

#[test]
fn i09_an_eviction_is_notified_for_a_process() {
    for run in EVICTED {
        let named = |op: &mut NotifyAlloc| op.process = Some(USER_HANDLE);
        run.story().change(evicted_chunk(CHUNKS[1].0), |event| change_notify(event, named)).breaks_only(I09);
    }
}

#[test]
fn i09_a_notification_has_both_flags_or_none() {
    // No notification is due for a destroyed allocation, so none is missing then.
    for flags in [NotifyAllocFlags::all(), NotifyAllocFlags::empty()] {
        let run = Run { destroyed: true, ..IMPLICIT };
        let story = run.story();
        let wrong = notify_chunk(OUT, flags, CHUNKS[0]);
        story.insert_before(is(invalid_entries(OUT, SEEN[0])), wrong).breaks_only(I09);
    }
}

#[test]
fn i09_content_that_no_work_needs_is_notified() {
    for run in [IMPLICIT, IN_APERTURE] {
        let alive = run.story();
        let chunks = alive.0.into_iter().filter(of_chunk);
        let dead = Run { destroyed: true, ..run };
        dead.story().insert_all_before(is(invalid_entries(OUT, SEEN[0])), chunks).breaks(I09);
    }
}

/// `T` is destroyed, but earlier work is still to read it.
fn destroyed_but_wanted() -> Broken {
    let destroyed = Event::AllocationDestroyed { allocation: T.id(), flags: DestroyFlags::empty() };
    let wanted = [make_resident(T, 1, 4), submitted(2, &[], &[]), destroyed];
    IMPLICIT.story().insert_all_before(is(IMPLICIT.evicted(OUT)), wanted)
}

#[test]
fn i09_content_that_work_still_needs_is_not_notified() {
    destroyed_but_wanted().breaks_nothing();
    destroyed_but_wanted().remove_all(of_chunk).breaks_only(I09);
}

#[test]
fn content_that_no_work_needs_may_be_notified_if_it_leaves_for_another_reason() {
    let destroyed = || Event::AllocationDestroyed { allocation: T.id(), flags: DestroyFlags::empty() };
    let story = || IMPLICIT.story().insert_before(is(IMPLICIT.evicted(OUT)), destroyed());
    story().breaks_nothing();
    story().remove_all(of_chunk).breaks_nothing();
    let whole = |event: &Event| evicted_chunk(CHUNKS[2].0)(event);
    story().remove(whole).breaks_exactly(&[I10, I14]);
}

#[test]
fn i10_a_chunk_is_missing() {
    for run in [IMPLICIT, IN_APERTURE, BY_PROCESS, GLOBAL] {
        for (offset, _) in CHUNKS {
            without_chunk(run, offset).breaks_only(I10);
        }
    }
}

#[test]
fn i10_a_chunk_comes_twice() {
    for run in [IMPLICIT, BY_PROCESS] {
        let story = run.story();
        let again = first(&story, evicted_chunk(CHUNKS[1].0));
        let window_too: &[_] = if run.has_page_tables() { &[I10, I14] } else { &[I10] };
        story.insert_after(is(again.clone()), again).breaks_exactly(window_too);
    }
}

#[test]
fn i10_a_chunk_is_larger_than_a_window() {
    let mut story = BY_PROCESS.story();
    for event in &mut story.0 {
        match event {
            Event::AdapterStarted { paging_va_size, .. } => *paging_va_size = MIB,
            Event::PagingVaQueried { paging_va_size, .. } => *paging_va_size = MIB,
            Event::DriverFinding { finding: DriverFinding::AllocationBeyondPagingVa { paging_va_size, .. } } => {
                *paging_va_size = MIB;
            }
            _ => {}
        }
    }
    let (physical_adapter_index, asked_mib, paging_va_size) = (0, ANSWER_MIB, MIB);
    let finding = DriverFinding::PagingVaClamped { physical_adapter_index, asked_mib, paging_va_size };
    story.insert_after(started, Event::DriverFinding { finding }).breaks_only(I10);
}

#[test]
fn i10_a_chunk_is_no_whole_page() {
    let cut = |op: &mut NotifyAlloc| op.size_in_bytes -= 1;
    IMPLICIT.story().change(evicted_chunk(CHUNKS[2].0), |event| change_notify(event, cut)).breaks(I10);
}

#[test]
fn i10_a_window_is_mapped_before_the_last_one_is_unmapped() {
    let invalid = |(offset, size)| window_entries(OUT, (offset, size), Pte::INVALID);
    let valid = window_entries(OUT, CHUNKS[1], Pte::valid(system(T.backing_store + CHUNKS[1].0)));
    IMPLICIT.story().remove(is(invalid(CHUNKS[0]))).breaks_only(I10);
    IMPLICIT.story().move_before(is(valid), is(invalid(CHUNKS[0]))).breaks(I10);
}

#[test]
fn i10_a_window_of_the_io_mmu_is_mapped_before_the_last_one_is_unmapped() {
    for run in [BY_PROCESS, GLOBAL] {
        // The second window lies elsewhere, so that the two do not overlap.
        let aside = GpuVirtualAddress(WINDOW_AT + 10 * NOTIFY_WINDOW);
        let mut story = run.story();
        let mapped = story.position(is(run.window_mapped(CHUNKS[1])));
        let Event::IoMmuMapped { virtual_address, .. } = &mut story.0[mapped] else { unreachable!() };
        *virtual_address = aside;
        change_notify(&mut story.0[mapped + 1], |op| op.gpu_virtual_address_at_offset = aside);
        let Event::IoMmuUnmapped { virtual_address, .. } = &mut story.0[mapped + 4] else { unreachable!() };
        *virtual_address = aside;
        Broken(story.0.clone()).breaks_nothing();
        story.0.swap(mapped - 1, mapped);
        story.breaks_only(I10);
    }
}

#[test]
fn i14_a_window_shows_another_part() {
    let shown = is(window_entries(OUT, CHUNKS[1], Pte::valid(system(T.backing_store + CHUNKS[1].0))));
    let elsewhere = |op: &mut UpdatePageTable| op.page_table_entries.first.address.offset += PAGE_SIZE;
    IMPLICIT.story().change(shown, |event| change_update(event, elsewhere)).breaks_only(I14);
    for run in [BY_PROCESS, GLOBAL] {
        let other = |event: &mut Event| {
            let Event::IoMmuMapped { allocation_offset, .. } = event else { unreachable!() };
            *allocation_offset += PAGE_SIZE;
        };
        run.story().change(is(run.window_mapped(CHUNKS[1])), other).breaks_only(I14);
    }
}

#[test]
fn i14_a_window_shows_the_aperture_instead_of_the_backing_store() {
    let shown = is(window_entries(OUT, CHUNKS[0], Pte::valid(system(T.backing_store))));
    let aperture = PhysicalAddress { segment: APERTURE, offset: RANGE.offset };
    let elsewhere = |op: &mut UpdatePageTable| op.page_table_entries.first.address = aperture;
    IN_APERTURE.story().change(shown, |event| change_update(event, elsewhere)).breaks_only(I14);
}

#[test]
fn i14_a_window_is_not_mapped() {
    let shown = is(window_entries(OUT, CHUNKS[1], Pte::valid(system(T.backing_store + CHUNKS[1].0))));
    IMPLICIT.story().remove(shown).breaks(I14);
}

#[test]
fn i14_another_window_is_mapped_while_a_chunk_is_notified() {
    let aside = |first| {
        let mut event = window_entries(OUT, CHUNKS[1], first);
        change_update(&mut event, |op| op.first_pte_virtual_address.0 += 10 * NOTIFY_WINDOW);
        event
    };
    let mut story = IMPLICIT.story();
    let told = story.position(evicted_chunk(CHUNKS[1].0));
    story.0.insert(told + 2, aside(Pte::INVALID));
    story.0.insert(told, aside(Pte::valid(system(T.backing_store + CHUNKS[1].0))));
    story.breaks_only(I14);
}

#[test]
fn i14_a_window_is_unmapped_before_its_operation_has_ended() {
    for run in [BY_PROCESS, GLOBAL] {
        let mut story = run.story();
        let told = story.position(evicted_chunk(CHUNKS[1].0));
        assert!(matches!(story.0[told + 2], Event::Completed { .. }));
        story.0.swap(told + 2, told + 3);
        story.breaks_only(I14);
    }
}

#[test]
fn i14_a_window_is_unmapped_without_its_operation() {
    let story = BY_PROCESS.story();
    let told = first(&story, evicted_chunk(CHUNKS[2].0));
    story.remove(is(told)).breaks(I14);
}

#[test]
fn i09_a_window_goes_before_its_notification_is_submitted() {
    for run in [IMPLICIT, IN_APERTURE, AUGUST] {
        let mut story = run.story();
        let told = story.position(evicted_chunk(CHUNKS[1].0));
        assert!(matches!(story.0[told + 1], Event::PagingBufferSubmitted { .. }));
        // The window goes right after its operation, in the same buffer.
        let gone = story.0.remove(told + 3);
        story.0.insert(told + 1, gone);
        story.breaks_only(I09);
    }
}

#[test]
fn i14_the_last_window_stays_mapped() {
    IMPLICIT.story().remove(is(window_entries(OUT, CHUNKS[2], Pte::INVALID))).breaks_only(I14);
    BY_PROCESS.story().remove(is(BY_PROCESS.window_unmapped(MIB))).breaks_only(I14);
}

#[test]
fn i05_a_window_is_used_again_without_a_flush() {
    let mut story = IMPLICIT.story();
    let flushed = story.position(evicted_chunk(CHUNKS[1].0)) - 1;
    assert_eq!(story.0.remove(flushed), flush(OUT, PAGING_HANDLE, WINDOW_AT, CHUNKS[1].1));
    story.breaks_only(I05);
}

#[test]
fn i17_an_allocation_that_running_work_uses_is_notified() {
    for run in EVICTED {
        run.story()
            .replace(is(decided(OUT, &[1], &[])), decided(OUT, &[], &[]))
            .move_before(is(Event::PlanEntered { plan: OUT }), is(Event::Completed { signal: fence(RENDER, 1) }))
            .breaks_only(I17);
    }
}

/// A pass of the second chunk, with this answer, in a packet of its own.
fn with_pass(run: Run, status: BuildStatus) -> Broken {
    with_passes(run, &[status])
}

/// Passes of the second chunk with these answers, each in a packet of its own.
fn with_passes(run: Run, statuses: &[BuildStatus]) -> Broken {
    let story = run.story();
    let [submitted, completed] = packet();
    let pass = |&status| unfinished(first(&story, evicted_chunk(CHUNKS[1].0)), status);
    let passes = Vec::from_iter(statuses.iter().map(pass));
    let passes = passes.into_iter().flat_map(|pass| [pass, submitted.clone(), completed.clone()]);
    renumbered(story.insert_all_before(evicted_chunk(CHUNKS[1].0), passes))
}

/// The driver's author is told that busy is no answer to NOTIFY_ALLOC.
fn busy_told() -> Event {
    Event::DriverFinding { finding: DriverFinding::BusyUndocumented { operation: PagingOperationKind::NotifyAlloc } }
}

#[test]
fn a_notification_in_passes_counts_once() {
    for run in EVICTED {
        with_pass(run, BuildStatus::InsufficientDmaBuffer).breaks_nothing();
        let busy = with_pass(run, BuildStatus::AllocationBusy);
        busy.insert_before(evicted_chunk_ended, busy_told()).breaks_nothing();
    }
}

/// The second chunk, when the driver ends it.
fn evicted_chunk_ended(event: &Event) -> bool {
    let ended = matches!(event, Event::PagingOperation { status: BuildStatus::Success, .. });
    ended && evicted_chunk(CHUNKS[1].0)(event)
}

#[test]
fn i20_the_author_is_not_told_that_busy_is_no_answer() {
    with_pass(IMPLICIT, BuildStatus::AllocationBusy).breaks_only(I20);
}

/// BPB-06: also when the driver was busy some passes before.
#[test]
fn i17_a_driver_that_was_busy_is_called_again_before_the_gpu_is_idle() {
    let answers = [BuildStatus::AllocationBusy, BuildStatus::InsufficientDmaBuffer];
    for (run, passes) in EVICTED.into_iter().flat_map(|run| [(run, 1), (run, 2)]) {
        let mut story = with_passes(run, &answers[..passes]);
        let first = story.0.iter().position(evicted_chunk(CHUNKS[1].0)).expect("the chunk is evicted");
        story.0.insert(first, busy_told());
        Broken(story.0.clone()).breaks_nothing();
        let at = story.position(evicted_chunk_ended);
        assert!(matches!(story.0[at - 1], Event::Completed { .. }));
        story.0.swap(at - 1, at);
        story.breaks_only(I17);
    }
}

#[test]
fn i20_a_pass_goes_on_with_another_chunk() {
    for status in [BuildStatus::InsufficientDmaBuffer, BuildStatus::AllocationBusy] {
        let story = IMPLICIT.story();
        let pass = unfinished(first(&story, evicted_chunk(CHUNKS[0].0)), status);
        story.insert_before(evicted_chunk(CHUNKS[1].0), pass).breaks_only(I20);
    }
}

#[test]
fn i09_an_unmap_is_not_notified() {
    for run in [BY_PROCESS, GLOBAL] {
        for seen in SEEN {
            run.story().remove(is(notify_unmap(OUT, seen))).breaks_only(I09);
        }
    }
}

#[test]
fn i09_an_unmap_is_notified_twice() {
    let again = notify_unmap(OUT, SEEN[1]);
    BY_PROCESS.story().insert_after(is(again.clone()), again).breaks_only(I09);
}

#[test]
fn i09_an_unmap_is_notified_in_chunks() {
    let mut halves = [notify_unmap(OUT, SEEN[0]), notify_unmap(OUT, SEEN[0])];
    change_notify(&mut halves[0], |op| op.size_in_bytes /= 2);
    change_notify(&mut halves[1], |op| {
        op.size_in_bytes /= 2;
        op.offset_in_bytes += op.size_in_bytes;
        op.gpu_virtual_address_at_offset.0 += op.size_in_bytes;
    });
    let whole = || is(notify_unmap(OUT, SEEN[0]));
    BY_PROCESS.story().insert_all_before(whole(), halves).remove(whole()).breaks_only(I09);
}

#[test]
fn i09_an_unmap_names_another_process_part_or_address() {
    let wrong: [fn(&mut NotifyAlloc); 4] = [
        |op| op.process = None,
        |op| op.process = Some(PAGING_HANDLE),
        |op| op.offset_in_bytes += PAGE_SIZE,
        |op| op.gpu_virtual_address_at_offset.0 += PAGE_SIZE,
    ];
    for run in [BY_PROCESS, GLOBAL] {
        for wrong in wrong {
            let told = is(notify_unmap(OUT, SEEN[0]));
            run.story().change(told, |event| change_notify(event, wrong)).breaks_only(I09);
        }
    }
}

#[test]
fn i09_an_unmap_is_notified_before_the_eviction() {
    let run = BY_PROCESS;
    let story = run.story().move_before(is(notify_unmap(OUT, SEEN[0])), is(run.window_mapped(CHUNKS[0])));
    story.breaks_only(I09);
}

#[test]
fn i09_an_unmap_is_notified_before_the_aperture_is_unmapped() {
    let run = Run { in_aperture: true, ..GLOBAL };
    let unmapped = || is(unmap_aperture(OUT));
    run.story().move_before(is(notify_unmap(OUT, SEEN[0])), unmapped()).breaks_only(I09);
}

#[test]
fn i09_an_unmap_is_notified_of_an_allocation_that_stays() {
    let early = notify_unmap(IN, SEEN[0]);
    let run = Run { notify: AllocationFlags2::NOTIFY_IO_MMU_UNMAP, ..BY_PROCESS };
    let retired = is(Event::PlanRetired { plan: IN });
    run.story().insert_before(retired, early).breaks(I09);
}

#[test]
fn i09_the_io_mmu_is_unmapped_before_all_paging_operations_have_ended() {
    for run in [BY_PROCESS, GLOBAL] {
        let mut story = run.story();
        let unmapped = story.position(is(run.io_mmu_unmapped(OUT, SEEN[0])));
        assert!(matches!(story.0[unmapped - 1], Event::Completed { .. }));
        story.0.swap(unmapped - 1, unmapped);
        story.breaks_only(I09);
    }
}

#[test]
fn i09_an_unmap_of_an_adapter_without_an_io_mmu() {
    let asked = AllocationFlags2::all();
    IMPLICIT.story().change(created, |event| set_notify(event, asked)).breaks_only(I09);
    let told = notify_unmap(OUT, SEEN[0]);
    IMPLICIT.story().insert_before(is(invalid_entries(OUT, SEEN[0])), told).breaks_only(I09);
}

#[test]
fn i09_in_the_text_of_august_unmaps_are_notified_after_evictions() {
    let story = AUGUST.story();
    let is_window = |event: &Event| of_chunk(event) && !matches!(event, Event::AdapterStarted { .. });
    let (chunks, mut rest): (Vec<Event>, Vec<Event>) = story.0.into_iter().partition(is_window);
    let (evictions, unmaps) = chunks.split_at(CHUNKS.len() * 3);
    let at = Broken(rest.clone()).position(is(invalid_entries(OUT, SEEN[0])));
    // The flushes of the windows come first now; one more between the chunks makes the rest right.
    let flushed = |event: &Event| match event {
        Event::PagingOperation { operation: PagingOperation::UpdatePageTable(op), .. } => {
            op.page_table_entries.first != Pte::INVALID
        }
        _ => false,
    };
    let mut swapped = Vec::new();
    for event in unmaps.iter().chain(evictions) {
        swapped.push(event.clone());
        swapped.extend(flushed(event).then(|| flush(OUT, PAGING_HANDLE, WINDOW_AT, NOTIFY_WINDOW)));
        let told = matches!(event, Event::PagingOperation { operation: PagingOperation::NotifyAlloc(_), .. });
        swapped.extend(told.then(packet).into_iter().flatten());
    }
    rest.splice(at..at, swapped);
    renumbered(Broken(rest)).breaks_only(I09);
}

#[test]
fn i09_in_the_text_of_august_unmaps_are_missing() {
    let unmaps = |event: &Event| match event {
        Event::PagingOperation { operation: PagingOperation::NotifyAlloc(op), .. } => op.flags == UNMAP,
        _ => false,
    };
    AUGUST.story().remove_all(unmaps).breaks_exactly(&[I09, I14]);
}

#[test]
fn i09_in_the_text_of_august_unmaps_name_no_process() {
    let named = |op: &mut NotifyAlloc| op.process = Some(USER_HANDLE);
    AUGUST.story().change(chunk(UNMAP, 0), |event| change_notify(event, named)).breaks_only(I09);
    let by_mapping = notify_unmap(OUT, SEEN[0]);
    let run = Run { model: AddressingModel::GpuVaIoMmu, ..AUGUST };
    run.story().insert_before(is(run.io_mmu_unmapped(OUT, SEEN[0])), by_mapping).breaks(I09);
}

#[test]
fn i09_in_the_text_of_august_the_io_mmu_is_unmapped_before_the_notification_has_ended() {
    for model in [AddressingModel::GpuVaIoMmu, AddressingModel::GpuVaIoMmuGlobal] {
        let run = Run { model, ..AUGUST };
        let last = chunk(UNMAP, CHUNKS[2].0);
        let mut story = run.story();
        let told = story.position(last);
        let early = story.0.remove(story.position(is(run.io_mmu_unmapped(OUT, SEEN[0]))));
        story.0.insert(told + 1, early);
        story.breaks_only(I09);
    }
}

#[test]
fn i23_the_driver_is_older_than_notifications() {
    let older = |event: &mut Event| {
        let Event::AdapterStarted { wddm_version, .. } = event else { unreachable!() };
        *wddm_version = WddmVersion::WDDM3_2.0 - 1;
    };
    for run in EVICTED {
        run.story().change(started, older).breaks_only(I23);
    }
}

#[test]
fn i23_page_tables_of_an_adapter_without() {
    let entries = invalid_entries(OUT, SEEN[0]);
    BY_PROCESS.story().insert_before(is(notify_unmap(OUT, SEEN[0])), entries).breaks_only(I23);
    let flushed = flush(OUT, USER_HANDLE, SEEN[0].at, SEEN[0].size);
    GLOBAL.story().insert_before(is(notify_unmap(OUT, SEEN[0])), flushed).breaks_only(I23);
}
