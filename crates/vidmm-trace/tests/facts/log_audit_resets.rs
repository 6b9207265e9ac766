//! The audit of faults: engines and the adapter are reset, the guilty devices are in error, and no others.

use crate::log_support::broken::*;
use crate::log_support::faults::*;
use crate::log_support::*;
use vidmm::contract::*;
use vidmm::event::{ContentSource, Event, PreemptReason};
use vidmm::*;
use vidmm_trace::Invariant::*;

fn guilty() -> DeviceId {
    device()
}

fn completed(fence_id: u64) -> Event {
    Event::Completed { signal: fence(RENDER, fence_id) }
}

fn aborted(fence_id: u64) -> Event {
    Event::Aborted { signal: fence(RENDER, fence_id) }
}

fn resubmitted(fence_id: u64) -> impl Fn(&Event) -> bool {
    move |event| matches!(event, Event::Resubmitted { before, .. } if before.fence_id == fence_id)
}

fn was_reset(event: &Event) -> bool {
    matches!(event, Event::EngineReset { .. })
}

fn in_error(id: DeviceId) -> impl Fn(&Event) -> bool {
    move |event| matches!(event, Event::DeviceInError { device, .. } if *device == id)
}

fn restarted(event: &Event) -> bool {
    *event == Event::AdapterRestarted
}

fn purged(event: &Event) -> bool {
    matches!(event, Event::PurgeOperation { .. })
}

fn reset_begun(event: &Event) -> bool {
    matches!(event, Event::AdapterResetBegun { .. })
}

fn lost(thing: Thing) -> Event {
    Event::ContentLost { allocation: thing.id(), is_kept: false }
}

/// Changes the packet that the driver names as the last to be aborted.
fn reset_that_aborted(last: Option<u64>) -> Broken {
    engine_reset().change(was_reset, |event| {
        let Event::EngineReset { last_aborted_fence_id, .. } = event else { unreachable!("it was found") };
        *last_aborted_fence_id = last;
    })
}

#[test]
fn a_log_with_the_reset_of_an_engine_is_right() {
    engine_reset().breaks_nothing();
}

#[test]
fn i30_a_packet_that_faulted_has_not_ended_by_that() {
    engine_reset().remove(is(aborted(1))).breaks(I30);
}

#[test]
fn i13_a_packet_ends_once() {
    engine_reset().insert_after(is(completed(4)), completed(4)).breaks(I13);
}

#[test]
fn i30_a_packet_is_aborted_once() {
    engine_reset().insert_after(is(monitored_reaches(u64::MAX)), aborted(1)).breaks(I30);
}

#[test]
fn i30_a_packet_that_came_back_is_not_under_way() {
    let begun = |event: &Event| matches!(event, Event::PreemptRequested { .. });
    engine_reset().insert_before(begun, completed(2)).breaks(I13);
}

#[test]
fn i30_nothing_ends_while_its_engine_is_reset() {
    engine_reset().insert_before(was_reset, completed(1)).breaks(I30);
}

#[test]
fn i30_a_packet_is_neither_handed_out_again_nor_dropped() {
    engine_reset().remove(resubmitted(3)).breaks(I30);
}

#[test]
fn i30_a_packet_that_did_not_end_did_not_come_back() {
    let story = engine_reset().change(was_reset, |event| {
        let Event::EngineReset { returned, .. } = event else { unreachable!("it was found") };
        returned.pop();
    });
    story.breaks(I30);
}

#[test]
fn an_engine_that_keeps_a_packet_stops_the_adapter() {
    let story = engine_reset().change(was_reset, |event| {
        let Event::EngineReset { returned, .. } = event else { unreachable!("it was found") };
        returned.pop();
    });
    let mut events = story.0;
    let end = events.iter().position(is(monitored_reaches(u64::MAX))).expect("packet 1 is aborted") + 1;
    events.truncate(end);
    let missing = fence(RENDER, 3);
    events.push(Event::AdapterInError { violation: Violation::PacketNotReturned { missing } });
    Broken(events).breaks_nothing();
}

#[test]
fn flt22_a_packet_that_was_not_under_way_cannot_have_been_aborted() {
    reset_that_aborted(Some(9)).breaks(Flt22);
    let mut events = reset_that_aborted(Some(9)).0;
    let end = events.iter().position(was_reset).expect("the engine is reset") + 1;
    events.truncate(end);
    let violation = Violation::AbortedFence { engine: RENDER, last_aborted: 9, last_completed: 0, last_submitted: 3 };
    events.push(Event::AdapterInError { violation });
    Broken(events).breaks_nothing();
}

#[test]
fn i30_a_reset_that_failed_is_followed_by_that_of_the_adapter() {
    reset_that_aborted(None).breaks(I30);
}

#[test]
fn i12_an_engine_is_reset_without_cause() {
    let story = engine_reset();
    let reason = DeviceErrorReason::IllegalCommand;
    story.append(Event::EngineResetBegun { engine: RENDER, reason, dependent_engines: vec![] }).breaks_only(I12);
}

/// D23: packets that an engine has not begun make way for more urgent work.
#[test]
fn i30_urgent_work_waits_behind_what_has_not_begun() {
    let with_priority = |priority: i32| {
        let (device, context) = (innocent(), ContextId::from_bits(2));
        let urgent = vec![
            Event::ContextCreated { context, device, engine: RENDER },
            Event::RootPageTableSet { context, address: local(ROOT), num_entries: ROOT_ENTRIES },
            Event::ContextPriorityChanged { context, priority },
            Event::Submitted { device, context, submission: 3, waits: vec![], signals: vec![] },
            Event::Dispatched { device, submission: 3, signal: fence(RENDER, 4), waits: vec![] },
        ];
        Broken([with_work_behind(), urgent].concat())
    };
    with_priority(0).breaks_nothing();
    with_priority(5).breaks_only(I30);
}

/// D23: an engine takes four packets of a context at a time. Work that waits stays behind ready work that is held up by that.
#[test]
fn i30_work_that_waits_is_handed_out_before_ready_work() {
    let (device, [full, other]) = (innocent(), [2, 3].map(ContextId::from_bits));
    let created = |context| {
        let address = local(ROOT);
        vec![
            Event::ContextCreated { context, device, engine: RENDER },
            Event::RootPageTableSet { context, address, num_entries: ROOT_ENTRIES },
        ]
    };
    let submitted = |context, submission| {
        let (waits, signals) = (vec![], vec![]);
        Event::Submitted { device, context, submission, waits, signals }
    };
    let handed_out = |submission, fence_id, waits| {
        let signal = fence(RENDER, fence_id);
        Event::Dispatched { device, submission, signal, waits }
    };
    let with_packets = |count: u64| {
        let mut events = [with_work_behind(), created(full), created(other)].concat();
        for packet in 0..count {
            events.extend([submitted(full, 3 + packet), handed_out(3 + packet, 4 + packet, vec![])]);
        }
        let (ready, waiting) = (3 + count, 4 + count);
        events.extend([submitted(full, ready), submitted(other, waiting)]);
        events.push(handed_out(waiting, 4 + count, vec![fence(RENDER, 3 + count)]));
        Broken(events)
    };
    with_packets(3).breaks_nothing();
    with_packets(4).breaks_only(I30);
}

#[test]
fn flt23_the_paging_engine_is_not_reset_alone() {
    let reason = DeviceErrorReason::EngineTimeout;
    engine_reset().append(Event::EngineResetBegun { engine: PAGING, reason, dependent_engines: vec![] }).breaks(Flt23);
}

/// The reset of an engine that harms the one of kernels, which has packets; before it that one is asked to yield, or not.
fn harmful_reset(asked: Option<PreemptReason>) -> Broken {
    let faulted = |event: &Event| matches!(event, Event::PageFault { .. });
    let reason = DeviceErrorReason::EngineTimeout;
    let begun = Event::EngineResetBegun { engine: PAGING, reason, dependent_engines: vec![RENDER] };
    let story = engine_reset().insert_before(faulted, begun.clone());
    match asked {
        Some(reason) => {
            story.insert_before(is(begun), Event::PreemptRequested { engine: RENDER, preemption_fence_id: 1, reason })
        }
        None => story,
    }
}

#[test]
fn flt26_an_engine_that_a_reset_harms_is_asked_to_yield_first() {
    harmful_reset(None).breaks(Flt26);
    let asked = numbered(harmful_reset(Some(PreemptReason::Dependent)).0);
    assert!(!audit(&asked).iter().any(|finding| finding.invariant == Flt26));
}

#[test]
fn flt23_work_is_handed_out_again_with_a_new_fence() {
    let story = engine_reset().change(resubmitted(2), |event| {
        let Event::Resubmitted { signal, .. } = event else { unreachable!("it was found") };
        signal.fence_id = 2;
    });
    story.breaks(Flt23);
}

#[test]
fn flt23_work_is_handed_out_again_in_its_order() {
    engine_reset().move_before(resubmitted(3), resubmitted(2)).breaks(Flt23);
}

#[test]
fn i30_a_wait_keeps_the_old_name() {
    let story = engine_reset().change(resubmitted(3), |event| {
        let Event::Resubmitted { waits, .. } = event else { unreachable!("it was found") };
        *waits = vec![fence(RENDER, 2)];
    });
    story.breaks(I30);
}

#[test]
fn i30_a_wait_is_forgotten() {
    let story = engine_reset().change(resubmitted(3), |event| {
        let Event::Resubmitted { waits, .. } = event else { unreachable!("it was found") };
        waits.clear();
    });
    story.breaks_only(I30);
}

#[test]
fn flt23_a_wait_is_made_up() {
    let story = engine_reset().change(resubmitted(2), |event| {
        let Event::Resubmitted { waits, .. } = event else { unreachable!("it was found") };
        *waits = vec![fence(RENDER, 5)];
    });
    story.breaks_only(Flt23);
}

#[test]
fn i13_aborted_work_signals_the_maximum() {
    engine_reset().remove(is(monitored_reaches(u64::MAX))).breaks_only(I13);
}

#[test]
fn i12_a_device_is_told_twice() {
    let reason = DeviceErrorReason::IllegalCommand;
    engine_reset().insert_after(in_error(device()), Event::DeviceInError { device: device(), reason }).breaks_only(I12);
}

#[test]
fn i12_an_innocent_device_is_in_error() {
    let reason = DeviceErrorReason::IllegalCommand;
    let story = engine_reset().insert_after(in_error(device()), Event::DeviceInError { device: innocent(), reason });
    story.breaks(I12);
}

#[test]
fn i12_a_device_in_error_makes_no_call() {
    engine_reset().append(submitted(2, &[], &[])).breaks(I12);
    engine_reset().append(evict(A, EvictFlags::empty(), 1)).breaks(I12);
}

#[test]
fn i07_the_list_of_a_device_in_error_is_empty() {
    engine_reset().append(evict(A, EvictFlags::empty(), 1)).breaks(I07);
}

#[test]
fn i12_work_of_a_device_in_error_is_not_handed_out_again() {
    // The second packet is the guilty device's, too.
    let mut story = engine_reset();
    for event in &mut story.0 {
        if let Event::ContextCreated { device: of, .. } = event {
            *of = device();
        }
    }
    let dispatched = |event: &Event| matches!(event, Event::Dispatched { device, .. } if *device == innocent());
    let at = story.0.iter().position(dispatched).expect("the innocent device has work");
    let Event::Dispatched { device: of, submission, .. } = &mut story.0[at] else { unreachable!("it was found") };
    (*of, *submission) = (device(), 2);
    let Event::Submitted { device: of, submission, .. } = &mut story.0[at - 1] else { panic!("it was submitted") };
    (*of, *submission) = (device(), 2);
    story.breaks(I12);
}

#[test]
fn i30_nothing_is_dispatched_to_an_engine_that_has_stopped() {
    let (device, context) = (innocent(), ContextId::from_bits(1));
    let work = Event::Submitted { device, context, submission: 3, waits: vec![], signals: vec![] };
    let dispatched = Event::Dispatched { device, submission: 3, signal: fence(RENDER, 4), waits: vec![] };
    engine_reset().insert_after(in_error(guilty()), work.clone()).breaks_nothing();
    let begun = |event: &Event| matches!(event, Event::EngineResetBegun { .. });
    engine_reset().insert_after(in_error(guilty()), work).insert_before(begun, dispatched).breaks(I30);
}

#[test]
fn log_a_packet_under_way_is_missing_at_a_fault() {
    let fault = |event: &Event| matches!(event, Event::PageFault { .. });
    let story = engine_reset().change(fault, |event| {
        let Event::PageFault { in_flight, .. } = event else { unreachable!("it was found") };
        in_flight.pop();
    });
    story.breaks_only(Log);
}

#[test]
fn i30_an_engine_answers_a_request_that_was_not_made() {
    let answer =
        Event::Preempted { engine: RENDER, preemption_fence_id: 1, last_completed_fence_id: 5, returned: vec![] };
    engine_reset().append(answer).breaks_only(I30);
}

/// FLT-22: also an engine that has nothing under way gets nothing before its request to yield has ended.
#[test]
fn i30_an_engine_that_is_to_yield_gets_a_packet() {
    let (device, context) = (innocent(), ContextId::from_bits(1));
    let asked = Event::PreemptRequested { engine: RENDER, preemption_fence_id: 2, reason: PreemptReason::Quantum };
    let timed_out = Event::PreemptTimedOut { engine: RENDER, preemption_fence_id: 2 };
    let work = Event::Submitted { device, context, submission: 3, waits: vec![], signals: vec![] };
    let dispatched = Event::Dispatched { device, submission: 3, signal: fence(RENDER, 6), waits: vec![] };
    let story = || engine_reset().append(asked.clone());
    story().append(timed_out.clone()).append(work.clone()).append(dispatched.clone()).breaks_nothing();
    story().append(work).append(dispatched).breaks_only(I30);
    story().append(timed_out.clone()).append(timed_out.clone()).breaks_only(I30);
    engine_reset().append(timed_out).breaks_only(I30);
}

#[test]
fn log_requests_to_yield_are_numbered() {
    let reason = PreemptReason::Quantum;
    engine_reset().append(Event::PreemptRequested { engine: RENDER, preemption_fence_id: 3, reason }).breaks_only(Log);
}

#[test]
fn a_log_with_the_reset_of_the_adapter_is_right() {
    adapter_reset().breaks_nothing();
    adapter_reset_halfway_out().breaks_nothing();
}

#[test]
fn i12_a_device_is_not_told_of_the_reset() {
    adapter_reset().remove(in_error(innocent())).breaks(I12);
}

#[test]
fn i12_the_adapter_is_reset_without_cause() {
    let cause = DeviceErrorReason::PagingBufferFault;
    adapter_reset().replace(reset_begun, Event::AdapterResetBegun { cause }).breaks(I12);
}

/// FLT-23: only devices are to blame for a paging buffer of which it moves something.
#[test]
fn i12_a_device_is_blamed_for_a_paging_buffer_without_anything_of_it() {
    let created = |event: &Event| matches!(event, Event::DeviceCreated { .. });
    let residency = DeviceResidency::DeviceList;
    let bystander = Event::DeviceCreated { device: innocent(), process: process(), residency };
    let story = |reason| {
        let told = Event::DeviceInError { device: innocent(), reason };
        let story = adapter_reset_halfway_out().insert_after(created, bystander.clone());
        story.insert_after(is(monitored_reaches(u64::MAX)), told)
    };
    story(DeviceErrorReason::AdapterReset).breaks_nothing();
    story(DeviceErrorReason::PagingBufferFault).breaks_only(I12);
}

#[test]
fn i30_a_packet_is_not_said_to_be_aborted() {
    adapter_reset().remove(is(aborted(3))).breaks(I30);
}

#[test]
fn i30_a_packet_ends_while_the_adapter_is_reset() {
    adapter_reset().insert_after(in_error(innocent()), completed(1)).breaks(I30);
}

#[test]
fn i30_a_packet_from_before_the_reset_ends_after_it() {
    adapter_reset().append(completed(3)).breaks(I13);
}

#[test]
fn i30_nothing_is_built_while_the_adapter_is_reset() {
    adapter_reset().insert_before(purged, flush_a(0)).breaks(I30);
}

#[test]
fn flt32_the_driver_is_not_told_of_an_allocation_that_was_resident() {
    adapter_reset().remove(purged).breaks_only(Flt32);
}

#[test]
fn flt32_the_driver_is_not_told_of_an_allocation_that_was_about_to_leave() {
    adapter_reset_halfway_out().remove(is(purge_of_a())).breaks_only(Flt32);
}

#[test]
fn flt32_the_driver_is_told_twice() {
    adapter_reset().insert_after(purged, purge_of_a()).breaks_only(Flt32);
}

#[test]
fn flt32_the_driver_is_told_to_move_content() {
    let story = adapter_reset().change(purged, |event| {
        let Event::PurgeOperation { operation: PagingOperation::Transfer(op), .. } = event else {
            unreachable!("it was found")
        };
        op.transfer_size = 0x1000;
    });
    story.breaks_only(Flt32);
}

#[test]
fn flt32_a_purge_without_a_reset() {
    engine_reset().append(purge_of_a()).breaks_only(Flt32);
    engine_reset().append(lost(A)).breaks_only(Flt32);
}

#[test]
fn flt32_a_plan_outlives_the_reset() {
    adapter_reset_halfway_out().remove(is(Event::PlanAbandoned { plan: 4 })).breaks(Flt32);
}

#[test]
fn flt32_a_plan_is_given_up_that_had_retired() {
    adapter_reset().insert_before(restarted, Event::PlanAbandoned { plan: 2 }).breaks_only(Flt32);
}

#[test]
fn i03_content_in_memory_alone_is_lost() {
    adapter_reset().remove(is(lost(A))).breaks_only(I03);
}

#[test]
fn i03_content_on_its_way_out_is_lost() {
    adapter_reset_halfway_out().remove(is(lost(A))).breaks_only(I03);
}

#[test]
fn i03_content_that_is_gone_is_not_kept() {
    let kept = Event::ContentLost { allocation: A.id(), is_kept: true };
    adapter_reset().replace(is(lost(A)), kept.clone()).breaks_only(I03);
    adapter_reset_halfway_out().replace(is(lost(A)), kept).breaks_only(I03);
}

#[test]
fn i03_content_elsewhere_is_not_lost() {
    adapter_reset().insert_before(restarted, lost(B)).breaks_only(I03);
    adapter_reset_halfway_out().insert_after(is(lost(A)), lost(B)).breaks_only(I03);
}

/// `A` after the reset, for nobody, with content from the place that the log names.
fn a_comes_again(content: ContentSource) -> Broken {
    let (allocation, extents) = (A.id(), vec![extent(0x5000, A.size)]);
    adapter_reset()
        .append(Event::Placed { plan: 3, allocation, segment: SegmentId(1), extents, content })
        .append(decided(3, &[], &[]))
}

#[test]
fn after_a_reset_the_room_is_free_and_lost_content_is_zero() {
    a_comes_again(ContentSource::Fill).breaks_only(U41);
}

#[test]
fn i02_lost_content_is_not_in_its_backing_store() {
    a_comes_again(ContentSource::BackingStore).breaks(I02);
}

/// A fault while the engine has no packet: the driver says that it knows of none (FLT-11).
fn fault_of_no_packet() -> Event {
    let mut fault = page_fault(fence(RENDER, 0), GpuVirtualAddress(8));
    if let Event::PageFault { flags, in_flight, .. } = &mut fault {
        *flags = PageFaultFlags::FENCE_INVALID | PageFaultFlags::ADAPTER_RESET_REQUIRED;
        in_flight.clear();
    }
    fault
}

#[test]
fn i30_an_engine_stops_at_a_packet_that_it_has() {
    let nothing_runs = || Broken(story());
    let is_reset = Event::AdapterResetBegun { cause: DeviceErrorReason::AdapterReset };
    nothing_runs().append(fault_of_no_packet()).append(is_reset.clone()).breaks_nothing();
    nothing_runs().append(Event::IllegalCommand { signal: fence(RENDER, 0) }).append(is_reset).breaks_only(I30);
}

/// That many resets of the adapter.
fn resets(count: usize) -> Broken {
    let reset = |story: Broken| {
        story
            .append(fault_of_no_packet())
            .append(Event::AdapterResetBegun { cause: DeviceErrorReason::AdapterReset })
            .append(Event::AdapterRestarted)
    };
    (1..count).fold(adapter_reset(), |story, _| reset(story))
}

#[test]
fn i31_a_sixth_reset_within_a_minute_stops_the_adapter() {
    let violation = Violation::TooManyResets { resets: 5, seconds: 60 };
    resets(5).append(Event::AdapterInError { violation: violation.clone() }).breaks_nothing();
    resets(4).append(Event::AdapterInError { violation }).breaks_only(I31);
    resets(6).breaks_only(I31);
}

#[test]
fn i12_a_process_that_is_blocked_gets_no_device() {
    let (process, device) = (process(), DeviceId::from_bits(2));
    engine_reset()
        .append(Event::ProcessBlocked { process })
        .append(Event::DeviceCreated { device, process, residency: vidmm::DeviceResidency::DeviceList })
        .breaks(I12);
}

fn blocked_innocent() -> Event {
    Event::DeviceInError { device: innocent(), reason: DeviceErrorReason::ProcessBlocked }
}

/// An engine is reset because its packet takes too long, in a log in which one such reset is too many.
fn hung_once_too_often() -> Broken {
    let is_start = |event: &Event| matches!(event, Event::AdapterStarted { .. });
    let reason = DeviceErrorReason::EngineTimeout;
    let asked = Event::PreemptRequested { engine: RENDER, preemption_fence_id: 1, reason: PreemptReason::Quantum };
    let mut events = with_work_behind();
    events.extend([
        asked,
        Event::PreemptTimedOut { engine: RENDER, preemption_fence_id: 1 },
        Event::EngineResetBegun { engine: RENDER, reason, dependent_engines: vec![] },
        Event::EngineReset { engine: RENDER, last_aborted_fence_id: Some(1), returned: vec![1, 2, 3] },
        Event::DeviceInError { device: device(), reason },
        Event::ProcessBlocked { process: process() },
        blocked_innocent(),
        Event::Aborted { signal: fence(RENDER, 1) },
        monitored_reaches(u64::MAX),
        Event::PreemptRequested { engine: RENDER, preemption_fence_id: 2, reason: PreemptReason::AfterReset },
    ]);
    Broken(events).change(is_start, |event| {
        let Event::AdapterStarted { tdr_limit_count, .. } = event else { unreachable!() };
        *tdr_limit_count = 1;
    })
}

/// FLT-22: an engine is not reset for a packet that did not yield in time and has ended since.
#[test]
fn flt22_an_engine_is_reset_for_what_has_ended() {
    let begun = |event: &Event| matches!(event, Event::EngineResetBegun { .. });
    let story = hung_once_too_often();
    let until = story.position(begun) + 1;
    let begins = || Broken(hung_once_too_often().0[..until].to_vec());
    begins().breaks_nothing();
    begins().insert_before(begun, completed(1)).insert_before(begun, monitored_reaches(1)).breaks_only(Flt22);
}

#[test]
fn flt31_a_process_is_blocked_if_and_only_if_it_has_hung_engines_too_often() {
    let process = process();
    hung_once_too_often().breaks_nothing();
    hung_once_too_often().remove(is(Event::ProcessBlocked { process })).breaks(Flt31);
    hung_once_too_often().remove(is(blocked_innocent())).breaks_only(Flt31);
    engine_reset().append(Event::ProcessBlocked { process }).breaks(Flt31);
}
