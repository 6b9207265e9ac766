//! The audit of the IOMMU: the mappings behind it, and their end (P27).

use crate::log_support::broken::*;
use crate::log_support::notified::*;
use crate::log_support::*;
use vidmm::contract::*;
use vidmm::event::{Event, ReclaimReason};
use vidmm::*;
use vidmm_trace::Invariant::*;

/// Behind an IOMMU, with no notification.
const QUIET: [Run; 2] =
    [Run { notify: AllocationFlags2::empty(), ..BY_PROCESS }, Run { notify: AllocationFlags2::empty(), ..GLOBAL }];

/// The host's map of a mapping in the plan that brings `T` in.
fn mapped(run: Run, which: usize) -> impl Fn(&Event) -> bool {
    is(run.io_mmu_mapped(IN, SEEN[which]))
}

fn unmapped(run: Run, which: usize) -> impl Fn(&Event) -> bool {
    is(run.io_mmu_unmapped(OUT, SEEN[which]))
}

fn change_mapped(event: &mut Event, change: impl FnOnce(&mut IoMmuDomain, &mut u64, &mut u64)) {
    let Event::IoMmuMapped { domain, allocation_offset, size, .. } = event else { unreachable!() };
    change(domain, allocation_offset, size);
}

/// The second mapping is freed while `T` is resident. Plan 3 unmaps it when submission 1 has ended, and its driver is
/// notified if it asked. Later events are left out.
fn freed(run: Run) -> Broken {
    let mut events = run.story().0;
    let goes = Broken(events.clone()).position(is(evict(T, EvictFlags::empty(), 1)));
    events.truncate(goes);
    let virtual_address = GpuVirtualAddress(SEEN[1].at);
    events.extend([
        Event::GpuVirtualAddressFreed { process: process(), virtual_address, size: SEEN[1].size },
        decided(3, &[1], &[]),
        Event::Completed { signal: fence(RENDER, 1) },
        Event::PlanEntered { plan: 3 },
    ]);
    if run.notify.contains(AllocationFlags2::NOTIFY_IO_MMU_UNMAP) {
        events.push(notify_unmap(3, SEEN[1]));
        events.extend(packet());
    }
    events.extend([
        run.io_mmu_unmapped(3, SEEN[1]),
        Event::PlanRetired { plan: 3 },
        Event::GpuVirtualAddressReclaimed {
            process: process(),
            virtual_address,
            size: SEEN[1].size,
            reason: ReclaimReason::Freed,
        },
    ]);
    renumbered(Broken(events))
}

#[test]
fn a_freed_mapping_is_unmapped_alone() {
    for run in [QUIET[0], QUIET[1], BY_PROCESS, GLOBAL] {
        freed(run).breaks_nothing();
    }
}

#[test]
fn i06_work_runs_before_the_host_has_mapped_its_allocations() {
    for run in QUIET {
        let first = run.io_mmu_mapped(IN, SEEN[0]);
        run.story().remove(is(first.clone())).insert_after(dispatched(1), first).breaks(I06);
    }
}

#[test]
fn i29_a_mapping_is_not_mapped() {
    for run in QUIET {
        let late = |event: &Event| dispatched(1)(event) || matches!(event, Event::Submitted { .. });
        let mut story = run.story().remove(mapped(run, 1));
        let used = story.0.iter().position(late).unwrap();
        story.0.truncate(used);
        story.breaks_only(I29);
    }
}

#[test]
fn i29_the_host_maps_another_part() {
    for run in QUIET {
        run.story()
            .change(mapped(run, 0), |event| change_mapped(event, |_, offset, _| *offset += PAGE_SIZE))
            .breaks_only(I29);
    }
}

#[test]
fn i29_the_host_maps_more_than_the_allocation() {
    for run in QUIET {
        let most = T.size + PAGE_SIZE;
        run.story().change(mapped(run, 1), |event| change_mapped(event, |_, _, size| *size = most)).breaks(I29);
    }
}

#[test]
fn i29_the_host_maps_in_another_domain() {
    let [by_process, global] = QUIET;
    let paging = IoMmuDomain::Process(PAGING_HANDLE);
    for (run, wrong) in [
        (by_process, IoMmuDomain::Global),
        (by_process, IoMmuDomain::Process(KmdProcessHandle(7))),
        (by_process, paging),
        (global, IoMmuDomain::Process(USER_HANDLE)),
    ] {
        run.story().change(mapped(run, 0), |event| change_mapped(event, |domain, _, _| *domain = wrong)).breaks(I29);
    }
}

#[test]
fn i29_an_adapter_with_page_tables_has_no_io_mmu_addresses() {
    let run = Run { notify: AllocationFlags2::empty(), ..IMPLICIT };
    run.story().insert_before(is(Event::PlanRetired { plan: IN }), run.io_mmu_mapped(IN, SEEN[0])).breaks_only(I29);
}

#[test]
fn i29_an_address_is_mapped_twice() {
    for run in QUIET {
        let again = run.io_mmu_mapped(IN, SEEN[0]);
        run.story().insert_after(is(again.clone()), again).breaks_only(I29);
    }
}

#[test]
fn i29_a_window_lies_at_an_address_that_a_process_has_mapped() {
    let run = GLOBAL;
    let there = GpuVirtualAddress(SEEN[0].at);
    let move_there = |event: &mut Event| {
        let Event::IoMmuMapped { virtual_address, .. } = event else { unreachable!() };
        *virtual_address = there;
    };
    run.story().change(is(run.window_mapped(CHUNKS[0])), move_there).breaks(I29);
}

#[test]
fn i14_a_window_is_in_the_domain_of_a_user() {
    let run = BY_PROCESS;
    let elsewhere =
        |event: &mut Event| change_mapped(event, |domain, _, _| *domain = IoMmuDomain::Process(USER_HANDLE));
    run.story().change(is(run.window_mapped(CHUNKS[2])), elsewhere).breaks(I14);
}

#[test]
fn i29_an_allocation_that_is_not_resident_is_mapped() {
    for run in QUIET {
        let late = Event::PlanEntered { plan: 1 };
        let mut early = run.io_mmu_mapped(1, SEEN[0]);
        if let Event::IoMmuMapped { plan, .. } = &mut early {
            *plan = 1;
        }
        run.story().insert_after(is(late), early).breaks(I29);
    }
}

#[test]
fn i20_the_host_maps_for_a_plan_that_has_not_entered() {
    for run in QUIET {
        run.story().move_before(mapped(run, 0), is(Event::PlanEntered { plan: IN })).breaks(I20);
    }
}

#[test]
fn i29_an_allocation_that_left_stays_mapped() {
    for run in QUIET {
        run.story().remove(unmapped(run, 1)).breaks_only(I29);
    }
    let run = Run { destroyed: true, ..QUIET[0] };
    run.story().remove(unmapped(run, 0)).breaks(I29);
}

#[test]
fn i29_an_allocation_that_left_is_unmapped_in_part() {
    for run in QUIET {
        let half = |event: &mut Event| {
            let Event::IoMmuUnmapped { size, .. } = event else { unreachable!() };
            *size /= 2;
        };
        run.story().change(unmapped(run, 0), half).breaks_only(I29);
    }
}

#[test]
fn i29_an_allocation_that_stays_is_unmapped() {
    for run in QUIET {
        let early = run.io_mmu_unmapped(IN, SEEN[0]);
        let mut story = run.story().insert_after(dispatched(1), early);
        let end = story.position(dispatched(1)) + 2;
        story.0.truncate(end);
        story.breaks_only(I29);
    }
}

#[test]
fn i20_the_host_unmaps_before_the_plan_has_entered() {
    for run in QUIET {
        run.story().move_before(unmapped(run, 0), is(Event::PlanEntered { plan: OUT })).breaks(I20);
    }
}

/// The adapter is reset while plan `OUT` waits for submission 1; the reset takes over the plan's unmaps (FLT-32).
fn reset_while_parked(run: Run) -> Broken {
    let mut events = run.story().0;
    let is_parked = Broken(events.clone()).position(is(decided(OUT, &[1], &[])));
    events.truncate(is_parked + 1);
    let cause = DeviceErrorReason::AdapterReset;
    events.extend([
        Event::IllegalCommand { signal: fence(RENDER, 1) },
        Event::AdapterResetBegun { cause },
        Event::DeviceInError { device: device(), reason: cause },
        Event::Aborted { signal: fence(RENDER, 1) },
    ]);
    events.extend(SEEN.map(|seen| run.io_mmu_unmapped(OUT, seen)));
    events.extend([Event::PlanAbandoned { plan: OUT }, Event::AdapterRestarted]);
    renumbered(Broken(events))
}

#[test]
fn i20_a_reset_unmaps_for_a_plan_that_was_not_decided() {
    for run in QUIET {
        reset_while_parked(run).breaks_nothing();
        let unmapped = run.io_mmu_unmapped(OUT, SEEN[0]);
        let undecided = run.io_mmu_unmapped(OUT + 1, SEEN[0]);
        reset_while_parked(run).replace(is(unmapped), undecided).breaks_only(I20);
    }
}

#[test]
fn i29_a_freed_mapping_is_unmapped_while_work_may_use_it() {
    for run in QUIET {
        freed(run)
            .replace(is(decided(3, &[1], &[])), decided(3, &[], &[]))
            .remove(is(Event::Completed { signal: fence(RENDER, 1) }))
            .remove(|event| matches!(event, Event::GpuVirtualAddressReclaimed { .. }))
            .breaks_only(I29);
    }
}

#[test]
fn i29_a_freed_mapping_is_reclaimed_while_it_is_mapped() {
    for run in QUIET {
        freed(run).remove(is(run.io_mmu_unmapped(3, SEEN[1]))).breaks_only(I29);
    }
}

#[test]
fn i09_a_freed_mapping_is_unmapped_without_notification() {
    for run in [BY_PROCESS, GLOBAL] {
        freed(run).remove(is(notify_unmap(3, SEEN[1]))).breaks_only(I09);
    }
}

#[test]
fn i28_a_process_is_gone_that_still_has_a_mapping() {
    let run = QUIET[0];
    let mut story = run.story();
    let end = story.position(dispatched(1)) + 1;
    story.0.truncate(end);
    story.append(Event::ProcessDestroyed { process: process() }).breaks_only(I28);
}

#[test]
fn i28_an_allocation_is_gone_that_is_still_mapped() {
    let run = QUIET[1];
    let mut story = run.story();
    let end = story.position(dispatched(1)) + 1;
    story.0.truncate(end);
    let gone = [
        Event::AllocationDestroyed { allocation: T.id(), flags: DestroyFlags::empty() },
        Event::AllocationReclaimed { allocation: T.id() },
    ];
    story.append(gone[0].clone()).append(gone[1].clone()).breaks_only(I28);
}

/// A second process with a mapping at the addresses of the first.
fn with_other_process(run: Run) -> Broken {
    let (other, device) = (ProcessId::from_bits(1), DeviceId::from_bits(1));
    let (queue, allocation) = (PagingQueueId::from_bits(1), AllocationId::from_bits(1));
    let (handle, backing_store) = (KmdAllocationHandle(77), 0x8000_0000);
    let seen = NewAllocation {
        device,
        process: other,
        handle,
        size: T.size,
        backing_store,
        segment: APERTURE,
        ..NewAllocation::of(allocation)
    };
    run.story()
        .append(Event::ProcessCreated { process: other, handle: KmdProcessHandle(102) })
        .append(Event::DeviceCreated { device, process: other, residency: vidmm::DeviceResidency::DeviceList })
        .append(Event::PagingQueueCreated { queue, device, priority: 0 })
        .append(seen.event())
        .append(Event::GpuVirtualAddressMapped {
            process: other,
            virtual_address: GpuVirtualAddress(SEEN[0].at + PAGE_SIZE),
            size: PAGE_SIZE,
            allocation,
            allocation_offset: 0,
            page_size: PageSize::Kib4,
            read_only: false,
            no_execute: false,
            driver_protection: 0,
            queue,
            paging_fence_value: 0,
        })
}

#[test]
fn i29_two_processes_use_an_address_of_one_domain() {
    let [by_process, global] = QUIET;
    with_other_process(by_process).breaks_nothing();
    with_other_process(global).breaks_only(I29);
}

#[test]
fn i15_an_adapter_behind_an_io_mmu_has_a_page_table() {
    let placed = Event::PageTablePlaced {
        plan: IN,
        process: process(),
        level: 0,
        page_size: PageSize::Kib4,
        virtual_address: GpuVirtualAddress(SEEN[0].at),
        address: system(0xa_0000),
        size: PAGE_SIZE,
    };
    QUIET[0].story().insert_before(is(decided(IN, &[], &[])), placed).breaks(I15);
}

#[test]
fn log_an_adapter_behind_an_io_mmu_has_local_memory() {
    let local = |event: &mut Event| {
        let Event::AdapterStarted { memory, .. } = event else { unreachable!() };
        *memory = vec![vidmm::event::MemorySegmentFacts {
            segment: MEMORY,
            size: 64 * MIB,
            page_size: PageSize::Kib4,
            cpu_visible: false,
            group: Some(vidmm::MemorySegmentGroup::Local),
            page_table_area: 0,
        }];
    };
    QUIET[0].story().change(started, local).breaks_only(Log);
}
