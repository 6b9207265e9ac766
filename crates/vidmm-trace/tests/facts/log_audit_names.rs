//! The audit of names: no event names an object that is gone, and no object is gone that is still used.

use crate::log_support::broken::*;
use crate::log_support::*;
use vidmm::contract::*;
use vidmm::event::Event;
use vidmm::*;
use vidmm_trace::Invariant::*;

/// The end of `A`: plan 6 takes it out of its place.
fn a_is_destroyed() -> Vec<Event> {
    vec![
        Event::AllocationDestroyed { allocation: A.id(), flags: DestroyFlags::empty() },
        Event::Evicted {
            plan: 6,
            allocation: A.id(),
            segment: SegmentId(1),
            extents: vec![extent(0x1_0000, A.size)],
            copied: false,
            reason: vidmm::event::EvictReason::Destroyed,
            discarded: false,
            wanted_by: None,
        },
        decided(6, &[], &[]),
        Event::PlanEntered { plan: 6 },
        entries_of_a(6, Pte::INVALID),
        flush_a(6),
        Event::PagingBufferSubmitted { signal: fence(PAGING, 6), bytes: 0 },
        Event::Completed { signal: fence(PAGING, 6) },
        Event::PlanRetired { plan: 6 },
        Event::AllocationReclaimed { allocation: A.id() },
    ]
}

/// The end of everything, from the parts to the whole.
fn all_is_destroyed() -> Broken {
    let mut story = broken();
    story.0.extend(a_is_destroyed());
    story.0.extend(leaf_freed(7));
    story.0.extend(b_is_destroyed());
    story.0.extend([
        Event::MonitoredFenceDestroyed { fence: monitored() },
        Event::PagingQueueDestroyed { queue: queue() },
        Event::ContextDestroyed { context: context() },
        Event::DeviceDestroyed { device: device() },
        Event::ProcessDestroyed { process: process() },
    ]);
    story
}

/// `B` has no place any more.
fn b_is_destroyed() -> [Event; 2] {
    [
        Event::AllocationDestroyed { allocation: B.id(), flags: DestroyFlags::empty() },
        Event::AllocationReclaimed { allocation: B.id() },
    ]
}

#[test]
fn all_can_be_destroyed() {
    all_is_destroyed().breaks_nothing();
}

#[test]
fn i28_an_object_that_is_gone_is_named() {
    for event in [
        monitored_reaches(9),
        Event::MonitoredFenceDestroyed { fence: monitored() },
        Event::PagingFenceSignaled { queue: queue(), value: 9 },
        Event::PagingQueueDestroyed { queue: queue() },
        Event::RootPageTableSet { context: context(), address: local(ROOT), num_entries: ROOT_ENTRIES },
        Event::ContextCreated { context: ContextId::from_bits(1 << 32), device: device(), engine: RENDER },
        Event::DeviceCreated {
            device: DeviceId::from_bits(1 << 32),
            process: process(),
            residency: vidmm::DeviceResidency::DeviceList,
        },
        submitted(3, &[1], &[]),
        submitted(3, &[], &[1]),
        granted(5, &[]),
        decided(8, &[1], &[]),
        Event::AllocationReclaimed { allocation: B.id() },
    ] {
        all_is_destroyed().append(event).breaks(I28);
    }
    for call in [make_resident(A, 2, 5), evict(A, EvictFlags::empty(), 2)] {
        all_is_destroyed().append(call).breaks(I27);
    }
}

#[test]
fn log_an_object_that_never_was_is_named() {
    let fence = MonitoredFenceId::from_bits(3);
    broken().append(Event::MonitoredFenceSignaled { fence, value: 1 }).breaks_only(Log);
    broken().append(Event::PagingQueueDestroyed { queue: PagingQueueId::from_bits(1 << 32) }).breaks_only(Log);
}

#[test]
fn log_a_name_is_used_again() {
    broken().append(Event::MonitoredFenceCreated { fence: monitored(), value: 0, device: None }).breaks_only(Log);
    all_is_destroyed()
        .append(Event::ProcessCreated { process: process(), handle: KmdProcessHandle(9) })
        .breaks_only(Log);
}

#[test]
fn i27_a_call_names_an_allocation_that_was_destroyed() {
    let destroyed = Event::AllocationDestroyed { allocation: B.id(), flags: DestroyFlags::empty() };
    broken().append(destroyed.clone()).append(make_resident(B, 2, 5)).breaks(I27);
    broken().append(destroyed.clone()).append(destroyed).breaks_only(I27);
}

#[test]
fn i28_an_allocation_is_reclaimed_that_was_not_destroyed() {
    broken().append(Event::AllocationReclaimed { allocation: B.id() }).breaks_only(I28);
}

#[test]
fn i28_a_whole_is_gone_before_its_parts() {
    broken().append(Event::DeviceDestroyed { device: device() }).breaks_only(I28);
    let device = Event::DeviceDestroyed { device: device() };
    all_is_destroyed().remove(is(device)).breaks_only(I28);
}

#[test]
fn i28_a_queue_is_gone_before_its_fence_is_signalled() {
    let gone = Event::PagingQueueDestroyed { queue: queue() };
    broken().append(make_resident(B, 2, 5)).append(gone).breaks(I28);
}

#[test]
fn i28_a_context_is_gone_while_it_has_work() {
    let gone = || Event::ContextDestroyed { context: context() };
    broken().append(submitted(3, &[], &[])).append(gone()).breaks_only(I28);
    let mut running = broken();
    let end = running.position(dispatched(1)) + 1;
    running.0.truncate(end);
    running.append(gone()).breaks_only(I28);
}

#[test]
fn i28_a_monitored_fence_is_gone_while_work_names_it() {
    let gone = || Event::MonitoredFenceDestroyed { fence: monitored() };
    broken().append(submitted(3, &[9], &[])).append(gone()).breaks_only(I28);
    broken().append(submitted(3, &[], &[9])).append(gone()).breaks_only(I28);
    let mut running = broken();
    let end = running.position(dispatched(1)) + 1;
    running.0.truncate(end);
    running.append(gone()).breaks_only(I28);
}

/// The work that is made after the story, and its way to the engine.
fn third() -> [Event; 2] {
    let signal = fence(RENDER, 3);
    [submitted(3, &[], &[9]), Event::Dispatched { device: device(), submission: 3, signal, waits: Vec::new() }]
}

fn terminated(device: DeviceId) -> Event {
    Event::DeviceTerminated { device }
}

#[test]
fn i12_work_of_a_device_that_was_destroyed_is_dispatched() {
    let [made, dispatched] = third();
    let ends =
        |story: Broken| story.append(made.clone()).append(terminated(device())).append(monitored_reaches(u64::MAX));
    ends(broken()).breaks_nothing();
    ends(broken()).append(dispatched).breaks_only(I12);
}

#[test]
fn i13_dropped_work_of_a_device_that_was_destroyed_signals_nothing() {
    let [made, _] = third();
    let gone = Event::DeviceDestroyed { device: device() };
    broken().append(made).append(terminated(device())).append(gone).breaks(I13);
}

#[test]
fn i27_a_call_names_a_device_or_a_process_that_was_destroyed() {
    let [made, _] = third();
    broken().append(terminated(device())).append(made).breaks_only(I27);
    broken().append(terminated(device())).append(terminated(device())).breaks_only(I27);
    let process_ends = || Event::ProcessTerminated { process: process() };
    let residency = DeviceResidency::DeviceList;
    let made = Event::DeviceCreated { device: DeviceId::from_bits(1), process: process(), residency };
    broken().append(process_ends()).append(terminated(device())).append(made).breaks_only(I27);
}

#[test]
fn i28_a_process_was_destroyed_and_its_device_goes_on() {
    let [made, dispatched] = third();
    broken().append(made.clone()).append(dispatched.clone()).breaks_nothing();
    let process_ends = Event::ProcessTerminated { process: process() };
    broken().append(made).append(process_ends).append(dispatched).breaks_only(I28);
}

#[test]
fn i28_a_device_was_destroyed_and_nothing_of_it_is_under_way_but_it_is_not_gone() {
    let [made, dispatched] = third();
    let (other, residency) = (DeviceId::from_bits(1), DeviceResidency::DeviceList);
    let created = Event::DeviceCreated { device: other, process: process(), residency };
    let story = || broken().append(created.clone()).append(terminated(other)).append(made.clone());
    story().append(Event::DeviceDestroyed { device: other }).append(dispatched.clone()).breaks_nothing();
    story().append(dispatched.clone()).breaks_only(I28);
}
