//! The audit of page tables: access, flushes, sizes and roots of tables, and addresses that are used again.

use crate::log_support::broken::*;
use crate::log_support::*;
use vidmm::contract::*;
use vidmm::event::{Event, ReclaimReason};
use vidmm::*;
use vidmm_trace::Invariant::*;

/// The entries that bring `A` in for the first time.
fn valid_entries(event: &Event) -> bool {
    *event == entries_of_a(2, Pte::valid(local(0x5000)))
}

fn mapped(event: &Event) -> bool {
    matches!(event, Event::GpuVirtualAddressMapped { .. })
}

/// The story on a GPU that caches invalid entries: all written entries are flushed.
fn cautious() -> Broken {
    let mut events = Vec::new();
    for mut event in story() {
        if let Event::AdapterStarted { invalid_tlb_entries_not_cached, .. } = &mut event {
            *invalid_tlb_entries_not_cached = false;
        }
        events.push(event);
        let Some(Event::PagingOperation { plan, operation: PagingOperation::UpdatePageTable(op), .. }) = events.last()
        else {
            continue;
        };
        if op.page_table_level == 0 {
            let size = u64::from(op.page_table_entries.num_page_table_entries) * PAGE_SIZE;
            events.push(flush(*plan, op.process, op.first_pte_virtual_address.0, size));
        }
    }
    Broken(events)
}

/// The story with another mapping of `A`.
fn with_mapping(change: impl FnOnce(&mut bool, &mut u64)) -> Broken {
    broken().change(mapped, |event| {
        let Event::GpuVirtualAddressMapped { read_only, driver_protection, .. } = event else { unreachable!() };
        change(read_only, driver_protection);
    })
}

#[test]
fn i04_an_entry_allows_writes_that_the_mapping_does_not() {
    with_mapping(|read_only, _| *read_only = true).breaks_only(I04);
}

#[test]
fn i04_an_entry_forbids_writes_that_the_mapping_allows() {
    let read_only = |op: &mut UpdatePageTable| op.page_table_entries.first.flags |= PteFlags::READ_ONLY;
    broken().change(valid_entries, |event| change_update(event, read_only)).breaks_only(I04);
}

#[test]
fn i04_an_entry_is_valid_and_zero() {
    let zero = |op: &mut UpdatePageTable| op.page_table_entries.first.flags |= PteFlags::ZERO;
    broken().change(valid_entries, |event| change_update(event, zero)).breaks_only(I04);
}

#[test]
fn i04_an_entry_loses_the_drivers_protection() {
    with_mapping(|_, protection| *protection = PROTECTION + 1).breaks_only(I04);
    broken().change(valid_entries, |event| change_update(event, |op| op.driver_protection = 0)).breaks_only(I04);
}

#[test]
fn a_read_only_mapping_has_read_only_entries() {
    let mut story = with_mapping(|read_only, _| *read_only = true);
    for event in &mut story.0 {
        let Event::PagingOperation { operation: PagingOperation::UpdatePageTable(op), .. } = event else { continue };
        let first = &mut op.page_table_entries.first;
        if op.process == USER_HANDLE && op.page_table_level == 0 && first.flags.contains(PteFlags::VALID) {
            first.flags |= PteFlags::READ_ONLY;
        }
    }
    story.breaks_nothing();
}

#[test]
fn i05_a_window_is_used_again_without_a_flush() {
    let mut story = broken();
    // Before the chunk's four operations of windows: the flush of both.
    let at = story.position(transfer(3, 0)) - 5;
    assert!(matches!(
        story.0.remove(at),
        Event::PagingOperation { operation: PagingOperation::FlushTlb(op), .. } if op.process == PAGING_HANDLE
    ));
    story.breaks_only(I05);
}

#[test]
fn invalid_entries_may_be_cached_if_all_are_flushed() {
    cautious().breaks_nothing();
}

#[test]
fn i05_valid_entries_are_not_flushed_on_a_gpu_that_caches_invalid_ones() {
    let mut story = cautious();
    let at = story.position(valid_entries) + 1;
    assert_eq!(story.0.remove(at), flush_a(2));
    story.breaks_only(I05);
}

#[test]
fn i05_a_new_window_is_not_flushed_on_a_gpu_that_caches_invalid_entries() {
    let mut story = cautious();
    let at = story.position(fill(2, 0)) - 1;
    assert_eq!(story.0.remove(at), flush(2, PAGING_HANDLE, LOCAL_WINDOW + 0x2000, PAGE_SIZE));
    story.breaks_only(I05);
}

#[test]
fn i15_a_table_is_smaller_than_the_driver_said() {
    let smaller = |event: &mut Event| {
        let Event::AdapterStarted { table_bytes, .. } = event else { unreachable!() };
        table_bytes[0] = 0x2000;
    };
    broken().change(|event| matches!(event, Event::AdapterStarted { .. }), smaller).breaks_only(I15);
}

#[test]
fn i15_a_table_is_used_without_content() {
    let first_content = |level| {
        move |event: &Event| match event {
            Event::PagingOperation { operation: PagingOperation::UpdatePageTable(op), .. } => {
                op.page_table_level == level && op.flags.contains(UpdatePageTableFlags::INITIAL_UPDATE)
            }
            _ => false,
        }
    };
    for level in [0, 1] {
        broken().remove(first_content(level)).breaks_only(I15);
    }
    let parent = |event: &Event| *event == root_points_to_leaf();
    broken().move_before(parent, first_content(0)).breaks_only(I15);
}

#[test]
fn i15_a_table_is_used_that_no_parent_points_to() {
    broken().remove(|event| *event == root_points_to_leaf()).breaks_only(I15);
}

/// The entry of the root table for the leaf of `A`.
fn root_points_to_leaf() -> Event {
    let (process, level, table, allocation) = (USER_HANDLE, 1, ROOT, None);
    let (virtual_address, offset, first, count) = (MAPPED_AT, 0, Pte::valid(local(0x4000)), 1);
    write(1, &Entries { process, level, table, allocation, virtual_address, offset, first, count })
}

#[test]
fn i15_a_context_does_not_know_its_root_table() {
    broken().remove(root_set).breaks_only(I15);
}

#[test]
fn i15_a_context_is_told_the_wrong_root_table() {
    let context = context();
    broken()
        .replace(root_set, Event::RootPageTableSet { context, address: local(0x4000), num_entries: ROOT_ENTRIES })
        .breaks_only(I15);
}

#[test]
fn gva17_a_context_is_told_of_too_few_entries_of_its_root_table() {
    let told = |num_entries| {
        let (context, address) = (context(), local(ROOT));
        broken().replace(root_set, Event::RootPageTableSet { context, address, num_entries })
    };
    // The only mapping is at the second of the 2 MiB that an entry covers.
    told(1).breaks_only(Gva17);
    told(2).breaks_nothing();
}

#[test]
fn gva17_a_context_is_told_of_its_root_table_while_its_work_is_under_way() {
    let told = |num_entries| Event::RootPageTableSet { context: context(), address: local(ROOT), num_entries };
    broken().insert_after(dispatched(1), told(2 * ROOT_ENTRIES)).breaks_only(Gva17);
    broken().insert_after(root_set, told(2 * ROOT_ENTRIES)).breaks_nothing();
    broken().insert_after(root_set, told(ROOT_ENTRIES / 2)).breaks_only(Gva17);
}

#[test]
fn i15_a_context_is_told_its_root_table_before_there_is_one() {
    let placed = |event: &Event| matches!(event, Event::PageTablePlaced { level: 1, .. });
    broken().move_before(root_set, placed).breaks_only(I15);
}

#[test]
fn i06_work_runs_before_its_root_table_is_initialised() {
    // Work that was submitted before the mapping does not wait for it.
    let (device, signal) = (device(), fence(RENDER, 1));
    let early = [
        Event::RootPageTableSet { context: context(), address: local(ROOT), num_entries: ROOT_ENTRIES },
        Event::Dispatched { device, submission: 1, signal, waits: vec![] },
    ];
    let mut story = broken();
    let mapped_at = story.position(mapped);
    story.0.insert(mapped_at, submitted(1, &[], &[]));
    let built = story.position(buffer(1)) + 1;
    story.0.truncate(built);
    story.0.extend(early);
    story.breaks_only(I06);
}

#[test]
fn i15_a_flush_names_another_root_table() {
    let elsewhere = |event: &mut Event| {
        let Event::PagingOperation { operation: PagingOperation::FlushTlb(op), .. } = event else { unreachable!() };
        op.root_page_table_address = local(0x4000);
    };
    broken().change(|event| *event == flush_a(3), elsewhere).breaks_only(I15);
}

#[test]
fn i20_adapter_start_goes_on_after_a_plan() {
    let late = write(
        0,
        &Entries {
            process: PAGING_HANDLE,
            level: 1,
            table: 0,
            allocation: None,
            virtual_address: 0,
            offset: 0,
            first: Pte::INVALID,
            count: 1,
        },
    );
    broken().insert_before(buffer(2), late.clone()).breaks_only(I20);
    broken().insert_before(|event| *event == Event::PlanEntered { plan: 1 }, late).breaks_nothing();
}

#[test]
fn i21_an_operation_is_written_over_another() {
    for by in [-1, 1] {
        let mut events = numbered(story());
        let second = events.iter_mut().filter_map(|event| match &mut event.event {
            Event::PagingOperation { offset, .. } => Some(offset),
            _ => None,
        });
        let offset = second.into_iter().nth(1).expect("there are operations");
        *offset = offset.strict_add_signed(by);
        assert!(audit(&events).iter().all(|finding| finding.invariant == I21) && !audit(&events).is_empty());
    }
}

#[test]
fn i21_a_buffer_holds_more_than_it_can() {
    let small = |event: &mut Event| {
        let Event::AdapterStarted { paging_buffer_bytes, .. } = event else { unreachable!() };
        *paging_buffer_bytes = u64::from(OPERATION) * 2;
    };
    broken().change(|event| matches!(event, Event::AdapterStarted { .. }), small).breaks_only(I21);
}

#[test]
fn i21_a_buffer_is_submitted_with_less_than_was_written() {
    let mut events = numbered(story());
    let submitted = events.iter_mut().find_map(|event| match &mut event.event {
        Event::PagingBufferSubmitted { bytes, .. } => Some(bytes),
        _ => None,
    });
    *submitted.expect("there are buffers") -= OPERATION;
    let findings = audit(&events);
    assert!(findings.len() == 1 && findings[0].invariant == I21, "{findings:#?}");
}

/// `A` is unmapped: plan 6 takes its entries away when submission 2 has ended. Then its addresses are free.
fn unmapped() -> Vec<Event> {
    vec![
        freed(),
        decided(6, &[2], &[]),
        Event::PlanEntered { plan: 6 },
        entries_of_a(6, Pte::INVALID),
        flush_a(6),
        Event::PagingBufferSubmitted { signal: fence(PAGING, 6), bytes: 0 },
        Event::Completed { signal: fence(PAGING, 6) },
        Event::PlanRetired { plan: 6 },
        reclaimed(),
    ]
}

fn freed() -> Event {
    let virtual_address = GpuVirtualAddress(MAPPED_AT);
    Event::GpuVirtualAddressFreed { process: process(), virtual_address, size: A.size }
}

fn reclaimed() -> Event {
    let virtual_address = GpuVirtualAddress(MAPPED_AT);
    Event::GpuVirtualAddressReclaimed {
        process: process(),
        virtual_address,
        size: A.size,
        reason: ReclaimReason::Freed,
    }
}

/// `B` is mapped at some of the former addresses of `A`.
fn mapped_again() -> Event {
    Event::GpuVirtualAddressMapped {
        process: process(),
        virtual_address: GpuVirtualAddress(MAPPED_AT + PAGE_SIZE),
        size: PAGE_SIZE,
        allocation: B.id(),
        allocation_offset: 0,
        page_size: PageSize::Kib4,
        read_only: false,
        no_execute: false,
        driver_protection: 0,
        queue: queue(),
        paging_fence_value: 5,
    }
}

fn broken_with(more: Vec<Event>) -> Broken {
    let mut story = broken();
    story.0.extend(more);
    story
}

#[test]
fn addresses_are_used_again_when_they_were_reclaimed() {
    broken_with(unmapped()).append(mapped_again()).breaks_nothing();
}

#[test]
fn i04_addresses_are_used_again_before_they_were_reclaimed() {
    broken_with(unmapped()).insert_before(|event| *event == reclaimed(), mapped_again()).breaks(I04);
    broken_with(vec![mapped_again()]).breaks_only(I04);
}

#[test]
fn i04_addresses_are_reclaimed_that_still_show_an_allocation() {
    broken_with(vec![freed(), reclaimed()]).breaks_only(I04);
}

#[test]
fn i17_addresses_are_reclaimed_that_work_may_use() {
    let late = submitted(3, &[], &[]);
    broken_with(unmapped()).insert_before(|event| *event == freed(), late).breaks_only(I17);
}

#[test]
fn log_addresses_are_reclaimed_that_were_not_freed() {
    broken_with(vec![reclaimed()]).breaks_only(Log);
    broken_with(vec![freed(), freed()]).breaks_only(Log);
}

/// `A` is unmapped, and plan 7 frees its leaf table.
fn leaf_freed_after_all() -> Broken {
    broken_with([unmapped(), leaf_freed(7)].concat())
}

fn unlinked(event: &Event) -> bool {
    matches!(event, Event::PagingOperation { plan: 7, operation: PagingOperation::UpdatePageTable(_), .. })
}

#[test]
fn a_table_is_freed_when_no_mapping_needs_it() {
    leaf_freed_after_all().breaks_nothing();
}

#[test]
fn i15_a_table_is_freed_while_a_mapping_needs_it() {
    broken_with([vec![freed()], leaf_freed(6)].concat()).breaks(I15);
    broken_with([unmapped(), vec![mapped_again()], leaf_freed(7)].concat()).breaks_only(I15);
}

#[test]
fn i15_a_table_is_freed_and_its_parent_still_points_to_it() {
    leaf_freed_after_all().remove(unlinked).breaks_only(I15);
}

#[test]
fn i05_a_table_is_freed_that_a_tlb_may_still_know() {
    let flushed = |event: &Event| {
        matches!(event, Event::PagingOperation { plan: 7, operation: PagingOperation::FlushTlb(_), .. })
    };
    leaf_freed_after_all().remove(flushed).breaks_only(I05);
}

#[test]
fn i15_a_table_is_freed_that_is_not_there() {
    let elsewhere = |event: &mut Event| {
        let Event::PageTableFreed { address, .. } = event else { unreachable!() };
        *address = local(0x1_9000);
    };
    let freed = |event: &Event| matches!(event, Event::PageTableFreed { .. });
    leaf_freed_after_all().change(freed, elsewhere).breaks(I15);
}

#[test]
fn i15_entries_are_written_to_a_table_that_is_freed() {
    let mut story = broken_with(leaf_freed_after_all().0);
    story.0.push(entries_of_a(8, Pte::INVALID));
    story.breaks(I15);
}

/// The event that frees some pages of `A` at the story's end, by the first page and their number.
fn part(first: u64, pages: u64) -> [Event; 2] {
    let (process, virtual_address, size) =
        (process(), GpuVirtualAddress(MAPPED_AT + first * PAGE_SIZE), pages * PAGE_SIZE);
    [
        Event::GpuVirtualAddressFreed { process, virtual_address, size },
        Event::GpuVirtualAddressReclaimed { process, virtual_address, size, reason: ReclaimReason::Freed },
    ]
}

/// Pages 1 and 2 of `A` are freed: plan 6 takes their entries away.
fn part_unmapped() -> Vec<Event> {
    let [freed, reclaimed] = part(1, 2);
    let (process, level, table, allocation) = (USER_HANDLE, 0, LEAF, Some(A));
    let (virtual_address, offset, first, count) = (MAPPED_AT + PAGE_SIZE, PAGE_SIZE, Pte::INVALID, 2);
    vec![
        freed,
        decided(6, &[2], &[]),
        Event::PlanEntered { plan: 6 },
        write(6, &Entries { process, level, table, allocation, virtual_address, offset, first, count }),
        flush(6, USER_HANDLE, MAPPED_AT + PAGE_SIZE, 2 * PAGE_SIZE),
        Event::PagingBufferSubmitted { signal: fence(PAGING, 6), bytes: 0 },
        Event::Completed { signal: fence(PAGING, 6) },
        Event::PlanRetired { plan: 6 },
        reclaimed,
    ]
}

#[test]
fn a_part_of_a_mapping_is_freed() {
    broken_with(part_unmapped()).breaks_nothing();
    // The rest on either side becomes a mapping that can be freed too, and the freed pages are mapped again.
    broken_with([part_unmapped(), vec![part(0, 1)[0].clone(), part(3, 1)[0].clone()]].concat()).breaks_nothing();
    broken_with(part_unmapped()).append(mapped_again()).breaks_nothing();
}

#[test]
fn i04_a_part_is_reclaimed_that_is_still_shown() {
    let [freed, reclaimed] = part(1, 2);
    broken_with(vec![freed, reclaimed]).breaks_only(I04);
}

#[test]
fn log_addresses_are_reclaimed_in_part_that_were_not_freed() {
    let [_, more] = part(0, 3);
    let last = part_unmapped().len() - 1;
    let mut story = part_unmapped();
    story[last] = more;
    broken_with(story).breaks_only(Log);
    broken_with([part_unmapped(), vec![part(2, 1)[1].clone()]].concat()).breaks_only(Log);
}

#[test]
fn log_a_part_is_freed_twice() {
    broken_with(vec![part(1, 2)[0].clone(), part(2, 2)[0].clone()]).breaks_only(Log);
}

/// GVA-50, GVA-52: reserved addresses are free for what is mapped into the reservation, and for nothing else.
#[test]
fn gva52_addresses_are_reserved_or_mapped_that_are_reserved_by_others() {
    const AT: u64 = MAPPED_AT + (1 << 20);
    let reserved = |address| {
        let (process, virtual_address) = (process(), GpuVirtualAddress(address));
        Event::GpuVirtualAddressReserved {
            process,
            virtual_address,
            size: PAGE_SIZE_64K,
            queue: None,
            paging_fence_value: 0,
        }
    };
    let freed = |address, size| {
        let (process, virtual_address) = (process(), GpuVirtualAddress(address));
        Event::GpuVirtualAddressFreed { process, virtual_address, size }
    };
    let mapped_at = |address| {
        let mut mapped = mapped_again();
        let Event::GpuVirtualAddressMapped { virtual_address, size, .. } = &mut mapped else { unreachable!() };
        (*virtual_address, *size) = (GpuVirtualAddress(address), 2 * PAGE_SIZE);
        mapped
    };
    let story = |events: &[Event]| {
        let mut story = broken();
        story.0.extend(events.iter().cloned());
        story
    };
    story(&[reserved(AT), mapped_at(AT)]).breaks_nothing();
    story(&[reserved(AT), freed(AT, PAGE_SIZE), reserved(AT + PAGE_SIZE_64K)]).breaks_nothing();
    story(&[reserved(AT), freed(AT, PAGE_SIZE_64K), mapped_at(AT - PAGE_SIZE)]).breaks_nothing();
    story(&[reserved(AT), reserved(AT)]).breaks_only(Gva52);
    story(&[reserved(MAPPED_AT)]).breaks_only(Gva52);
    story(&[reserved(AT), mapped_at(AT - PAGE_SIZE)]).breaks_only(Gva52);
    story(&[reserved(AT), freed(AT - PAGE_SIZE, PAGE_SIZE_64K)]).breaks_only(Gva52);
    story(&[freed(AT, PAGE_SIZE_64K)]).breaks_only(Gva52);
}

/// GVA-41, GVA-58: the pages and the addresses of a mapping.
#[test]
fn a_mapping_has_other_pages_or_addresses_than_it_may_have() {
    let map = |address: u64, by: PageSize| {
        let mut story = broken();
        let at = story.position(mapped);
        let mut event = story.0[at].clone();
        let Event::GpuVirtualAddressMapped { virtual_address, page_size, paging_fence_value, .. } = &mut event else {
            unreachable!()
        };
        (*virtual_address, *page_size, *paging_fence_value) = (GpuVirtualAddress(address), by, 0);
        story.0.truncate(at);
        story.append(event)
    };
    map(MAPPED_AT, PageSize::Kib4).breaks_nothing();
    map(MAPPED_AT, PageSize::Kib64).breaks_only(Gva41);
    map(MAPPED_AT - PAGE_SIZE, PageSize::Kib4).breaks_only(Gva58);
    map((1 << 30) - PAGE_SIZE, PageSize::Kib4).breaks_only(Gva58);
    map(MAPPED_AT + 1, PageSize::Kib4).breaks_only(I04);
}

/// GVA-52: addresses are reserved in blocks of 64 KiB.
#[test]
fn gva52_addresses_are_reserved_that_are_no_blocks_of_64_kib() {
    let reserved = |address, size| {
        let (process, virtual_address) = (process(), GpuVirtualAddress(address));
        broken().append(Event::GpuVirtualAddressReserved {
            process,
            virtual_address,
            size,
            queue: None,
            paging_fence_value: 0,
        })
    };
    reserved(2 * MAPPED_AT, PAGE_SIZE_64K).breaks_nothing();
    reserved(2 * MAPPED_AT, PAGE_SIZE).breaks_only(Gva52);
    reserved(2 * MAPPED_AT + PAGE_SIZE, PAGE_SIZE_64K).breaks_only(Gva52);
}

/// GVA-43: where leaf tables of both page sizes stand side by side, an entry above them has two sides, and nowhere else.
#[test]
fn i15_an_entry_has_one_side_though_leaf_tables_are_of_two_kinds() {
    let dual = |has_two_sides: bool| {
        let mut story = broken().change(started, |event| {
            let Event::AdapterStarted { leaf_table_64kb_bytes, .. } = event else { unreachable!("it was found") };
            *leaf_table_64kb_bytes = Some(0x1000);
        });
        for event in &mut story.0 {
            let Event::PagingOperation { operation: PagingOperation::UpdatePageTable(op), .. } = event else {
                continue;
            };
            if op.page_table_level == 1 && has_two_sides {
                op.page_table_entries.first_64kb = Some(Pte::INVALID);
            }
        }
        story
    };
    dual(true).breaks_nothing();
    dual(false).breaks_only(I15);
    let two_sides = |op: &mut UpdatePageTable| op.page_table_entries.first_64kb = Some(Pte::INVALID);
    broken().change(is(root_points_to_leaf()), |event| change_update(event, two_sides)).breaks_only(I15);
}
