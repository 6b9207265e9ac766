//! The audit of fences: of paging queues, and monitored ones; and of the order in which requests are granted.

use crate::log_support::broken::*;
use crate::log_support::*;
use vidmm::contract::*;
use vidmm::event::{Event, PreemptReason};
use vidmm::*;
use vidmm_trace::Invariant::*;

fn other_device() -> DeviceId {
    DeviceId::from_bits(1)
}

fn other_queue() -> PagingQueueId {
    PagingQueueId::from_bits(1)
}

/// The story with another device, whose paging queue has a request made before `when`.
fn with_other_device(priority: i32, when: impl Fn(&Event) -> bool) -> Broken {
    let (device, process, queue, allocation) = (other_device(), process(), other_queue(), AllocationId::from_bits(7));
    let asked = Event::MakeResident {
        device,
        queue,
        allocations: vec![allocation],
        flags: MakeResidentFlags::empty(),
        after_submission: 0,
        paging_fence_value: 1,
        waiting: vec![allocation],
    };
    let handle = KmdAllocationHandle(77);
    let created = NewAllocation { device, handle, backing_store: 0x900_0000, ..NewAllocation::of(allocation) }.event();
    let mut story = broken();
    let at = story.position(when);
    let more = [
        Event::DeviceCreated { device, process, residency: vidmm::DeviceResidency::DeviceList },
        Event::PagingQueueCreated { queue, device, priority },
        created,
        asked,
    ];
    story.0.splice(at..at, more);
    story
}

#[test]
fn a_device_of_lower_priority_waits_its_turn() {
    with_other_device(-1, is(make_resident(A, 0, 2))).breaks_nothing();
}

#[test]
fn a_device_that_asks_later_waits_its_turn() {
    with_other_device(0, is(granted(4, &[5]))).breaks_nothing();
}

#[test]
fn u28_a_device_of_higher_priority_is_passed_over() {
    with_other_device(1, is(granted(4, &[5]))).breaks_only(U28);
}

#[test]
fn u28_a_device_that_asked_first_is_passed_over() {
    with_other_device(0, is(make_resident(A, 2, 4))).breaks_only(U28);
}

/// U-40: an allocation that the CPU would not see in its new place comes in when it is unlocked; no other request waits
/// for that.
#[test]
fn a_device_whose_request_waits_for_an_unlock_is_passed_over() {
    let (device, allocation) = (other_device(), AllocationId::from_bits(7));
    let extents = vec![extent(0x900_0000, PAGE_SIZE)];
    let (address, segment) = (CpuVirtualAddress(0x1000), SegmentId::SYSTEM);
    let locked = Event::Locked { device, allocation, address, segment, extents };
    let asked = |event: &Event| matches!(event, Event::MakeResident { device, .. } if *device == other_device());
    with_other_device(1, is(granted(4, &[5]))).insert_before(asked, locked).breaks_nothing();
}

/// The call that brings `B` in, made on a second queue of the device.
fn on_second_queue(value: u64) -> Broken {
    let (device, queue) = (device(), other_queue());
    let asked = |event: &mut Event| {
        let Event::MakeResident { queue: of, paging_fence_value, .. } = event else { unreachable!() };
        (*of, *paging_fence_value) = (queue, value);
    };
    // The next request on the first queue has value 3, not 4.
    let renumbered = |event: &mut Event| {
        let Event::MakeResident { paging_fence_value, .. } = event else { unreachable!() };
        *paging_fence_value = 3;
    };
    broken()
        .insert_before(is(make_resident(B, 1, 3)), Event::PagingQueueCreated { queue, device, priority: 0 })
        .change(is(make_resident(B, 1, 3)), asked)
        .change(is(make_resident(A, 2, 4)), renumbered)
        .replace(is(granted(4, &[5])), granted(3, &[5]))
        .replace(is(signaled(self::queue(), 4)), signaled(self::queue(), 9))
        .change(is(granted_on(self::queue(), 3, &[4])), |event| *event = granted_on(queue, value, &[4]))
        .replace(is(signaled(self::queue(), 3)), signaled(queue, value))
        .replace(is(signaled(self::queue(), 9)), signaled(self::queue(), 3))
}

fn granted_on(queue: PagingQueueId, paging_fence_value: u64, plans: &[PlanNo]) -> Event {
    Event::Granted { device: device(), queue, paging_fence_value, plans: plans.to_vec() }
}

fn signaled(queue: PagingQueueId, value: u64) -> Event {
    Event::PagingFenceSignaled { queue, value }
}

#[test]
fn each_queue_counts_for_itself() {
    on_second_queue(1).breaks_nothing();
}

#[test]
fn i13_a_queue_skips_a_value() {
    on_second_queue(2).breaks_only(I13);
}

#[test]
fn i13_a_request_is_granted_on_another_queue() {
    on_second_queue(1).replace(is(granted_on(other_queue(), 1, &[4])), granted_on(queue(), 1, &[4])).breaks(I13);
}

#[test]
fn i13_a_request_is_signalled_on_another_queue() {
    on_second_queue(1).replace(is(signaled(other_queue(), 1)), signaled(queue(), 3)).breaks(I13);
}

#[test]
fn log_a_request_names_the_queue_of_another_device() {
    let moved = |event: &mut Event| {
        let Event::PagingQueueCreated { device, .. } = event else { unreachable!() };
        *device = other_device();
    };
    let created = Event::DeviceCreated {
        device: other_device(),
        process: process(),
        residency: vidmm::DeviceResidency::DeviceList,
    };
    let queue_created = |event: &Event| matches!(event, Event::PagingQueueCreated { .. });
    broken().insert_before(queue_created, created).change(queue_created, moved).breaks(Log);
}

/// The wait of submission 2 for the monitored fence, with the packet that signals it under way: it is dispatched before
/// submission 1 ends.
fn waiting(waits: &[EngineFence]) -> Broken {
    let mut story = broken();
    // In the story submission 2 needs memory that comes in only after submission 1. Here it waits for nothing but the
    // fence.
    let end = story.position(is(Event::Completed { signal: fence(RENDER, 1) }));
    story.0.truncate(end);
    let asked = story.position(is(make_resident(B, 1, 3)));
    story.0.truncate(asked);
    story.0.push(submitted(2, &[1], &[2]));
    let (device, submission, signal) = (device(), 2, fence(RENDER, 2));
    story.append(Event::Dispatched { device, submission, signal, waits: waits.to_vec() })
}

#[test]
fn work_may_wait_for_the_packet_that_signals_its_fence() {
    waiting(&[fence(RENDER, 1)]).breaks_nothing();
}

#[test]
fn i06_work_does_not_wait_for_a_fence() {
    waiting(&[]).breaks_only(I06);
}

#[test]
fn i06_work_waits_for_a_packet_that_does_not_signal_its_fence() {
    waiting(&[fence(PAGING, 2)]).breaks_only(I06);
}

#[test]
fn i06_work_waits_for_too_small_a_value() {
    let mut story = waiting(&[fence(RENDER, 1)]);
    let at = story.position(is(submitted(2, &[1], &[2])));
    story.0[at] = submitted(2, &[2], &[3]);
    story.breaks_only(I06);
}

#[test]
fn i13_the_end_of_work_signals_nothing() {
    broken().remove(is(monitored_reaches(2))).breaks_only(I13);
}

#[test]
fn i13_the_end_of_work_signals_later() {
    let entered = Event::PlanEntered { plan: 3 };
    broken().move_before(is(entered), is(monitored_reaches(1))).breaks_only(I13);
}

#[test]
fn a_fence_that_is_further_on_is_not_signalled() {
    // The CPU was faster than the end of submission 1.
    broken().move_before(is(monitored_reaches(1)), is(Event::Completed { signal: fence(RENDER, 1) })).breaks_nothing();
}

#[test]
fn i13_dropped_work_signals_its_fence() {
    let virtual_address = GpuVirtualAddress(0);
    let signal = fence(RENDER, 1);
    let in_error = Event::DeviceInError { device: device(), reason: DeviceErrorReason::PageFault { virtual_address } };
    let mut story = broken();
    let end = story.position(is(Event::Completed { signal: fence(RENDER, 1) }));
    story.0.truncate(end);
    story.0.extend([before_a(page_fault(signal, virtual_address)), in_error]);
    let reason = DeviceErrorReason::PageFault { virtual_address };
    story.0.extend([
        Event::EngineResetBegun { engine: RENDER, reason, dependent_engines: vec![] },
        Event::EngineReset { engine: RENDER, last_aborted_fence_id: Some(1), returned: vec![1] },
        Event::Aborted { signal },
        monitored_reaches(u64::MAX),
        Event::PlanEntered { plan: 3 },
    ]);
    Broken(story.0.clone()).breaks_nothing();
    let begun = |event: &Event| matches!(event, Event::EngineResetBegun { .. });
    Broken(story.0.clone()).move_before(is(monitored_reaches(u64::MAX)), begun).breaks(I13);
    Broken(story.0).remove(is(monitored_reaches(u64::MAX))).breaks_only(I13);
}

#[test]
fn i13_a_device_in_error_signals_its_fence() {
    let in_error = Event::DeviceInError { device: device(), reason: DeviceErrorReason::AdapterInError };
    let mut story = broken();
    let end = story.position(is(submitted(2, &[1], &[2]))) + 1;
    story.0.truncate(end);
    let story = story.append(Event::Completed { signal: fence(RENDER, 1) }).append(monitored_reaches(1));
    let story = story.append(in_error).append(monitored_reaches(u64::MAX)).append(Event::PlanEntered { plan: 9 });
    let findings =
        |story: &Broken| audit(&numbered(story.0.clone())).into_iter().filter(|found| found.invariant == I13).count();
    assert_eq!(findings(&story), 0);
    assert_eq!(findings(&story.remove(is(monitored_reaches(u64::MAX)))), 1);
}

/// FLT-03: a page fault is told with what is mapped next to its address.
#[test]
fn flt03_a_page_fault_names_the_wrong_mappings() {
    let faults = |fault: Event| {
        let mut story = broken();
        let end = story.position(is(Event::Completed { signal: fence(RENDER, 1) }));
        story.0.truncate(end);
        story.append(fault)
    };
    let at = |address| page_fault(fence(RENDER, 1), GpuVirtualAddress(address));
    faults(before_a(at(8))).breaks_nothing();
    faults(at(8)).breaks_only(Flt03);
    faults(before_a(at(MAPPED_AT + A.size))).breaks_only(Flt03);
    faults(at(MAPPED_AT)).breaks_only(Flt03);
}

/// Of a device that ends, a fence of its own is at the maximum when its work has ended, not before.
#[test]
fn i13_a_fence_of_a_device_that_ends_is_at_the_maximum_while_its_work_runs() {
    let own = MonitoredFenceId::from_bits(7);
    let created = Event::MonitoredFenceCreated { fence: own, value: 0, device: Some(device()) };
    let maximum = Event::MonitoredFenceSignaled { fence: own, value: u64::MAX };
    let ends = |story: Broken| {
        let created_before = |event: &Event| matches!(event, Event::MonitoredFenceCreated { .. });
        story
            .insert_after(created_before, created.clone())
            .append(Event::DeviceTerminated { device: device() })
            .append(maximum.clone())
    };
    ends(broken()).breaks_nothing();
    let mut running = broken();
    let end = running.position(is(Event::Completed { signal: fence(RENDER, 1) }));
    running.0.truncate(end);
    ends(running).breaks_only(I13);
}

/// FLT-22: a packet is asked to yield after a quantum of its own, in which it had nothing to wait for.
#[test]
fn flt22_a_packet_is_asked_to_yield_before_its_quantum_is_over() {
    let asked = Event::PreemptRequested { engine: RENDER, preemption_fence_id: 1, reason: PreemptReason::Quantum };
    let asked_after = |quantum| {
        let mut story = broken().change(started, |event| {
            let Event::AdapterStarted { tdr_quantum, .. } = event else { unreachable!("it was found") };
            *tdr_quantum = Some(quantum);
        });
        let signaled = story.position(is(Event::PagingFenceSignaled { queue: queue(), value: 2 }));
        story.0.truncate(signaled + 1);
        story.append(asked.clone())
    };
    // Events are a microsecond apart. The packet is handed out four before the request, and waits for paging that ends three before.
    asked_after(3000).breaks_nothing();
    asked_after(4000).breaks_only(Flt22);
}
