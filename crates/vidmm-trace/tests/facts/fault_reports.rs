//! Reports about faults and resets while a run goes on.

use crate::log_support::*;
use vidmm::contract::PageFaultFlags;
use vidmm::event::{Event, Neighbour};
use vidmm::*;
use vidmm_trace::FaultReporter;

/// The position in the story at which submission 1, which uses `A`, is under way.
fn story_with_work_under_way() -> Vec<Event> {
    let mut events = story();
    let end = events.iter().position(|event| *event == Event::Completed { signal: fence(RENDER, 1) });
    events.truncate(end.expect("submission 1 ends"));
    events
}

fn reports(events: Vec<Event>) -> Vec<String> {
    let mut reporter = FaultReporter::new();
    numbered(events).iter().for_each(|event| reporter.see(event));
    reporter.take_reports()
}

#[track_caller]
fn tells(text: &str, sentences: &[&str]) {
    for sentence in sentences {
        assert!(text.contains(sentence), "`{sentence}` is not told:\n{text}");
    }
}

/// Submission 1 reads behind the mapping of `A`.
fn fault_behind_a() -> Vec<Event> {
    let virtual_address = GpuVirtualAddress(MAPPED_AT + A.size + 0x1000);
    let mut fault = page_fault(fence(RENDER, 1), virtual_address);
    if let Event::PageFault { below, .. } = &mut fault {
        let (allocation, virtual_address) = (A.id(), GpuVirtualAddress(MAPPED_AT));
        *below = Some(Neighbour { allocation, virtual_address, size: A.size });
    }
    let reason = DeviceErrorReason::PageFault { virtual_address };
    vec![fault, Event::DeviceInError { device: device(), reason }]
}

#[test]
fn a_fault_is_told_with_its_packet_its_address_and_its_neighbours() {
    let reports = reports([story_with_work_under_way(), fault_behind_a()].concat());
    let [report] = reports.as_slice() else { panic!("one device is in error: {reports:#?}") };
    tells(
        report,
        &[
            "Device 0 of process 0 is in error (event ",
            "It was packet 1 (submission 1 of device 0 of process 0, context 0) on engine 1 (3D).",
            "It read 0x205000, where nothing is mapped",
            "The nearest below: allocation 0, 16 KiB at 0x200000, which ends 4 KiB away. Its last: ",
            "device 0 evicted it from its list (event ",
            "Nothing is mapped above it.",
            "Under way on engine 1 (3D): packet 1 (submission 1 of device 0 of process 0, context 0).",
        ],
    );
}

#[test]
fn an_address_that_was_freed_is_told_with_its_former_mapping() {
    let (process, virtual_address) = (process(), GpuVirtualAddress(MAPPED_AT));
    let freed = Event::GpuVirtualAddressFreed { process, virtual_address, size: A.size };
    let virtual_address = GpuVirtualAddress(MAPPED_AT + 8);
    let reason = DeviceErrorReason::PageFault { virtual_address };
    let faulted = [page_fault(fence(RENDER, 1), virtual_address), Event::DeviceInError { device: device(), reason }];
    let reports = reports([story_with_work_under_way(), vec![freed], faulted.to_vec()].concat());
    tells(&reports[0], &["allocation 0 was mapped there, 16 KiB at 0x200000, until that was freed (event "]);
}

#[test]
fn a_hang_names_the_packet_that_did_not_end() {
    let reason = DeviceErrorReason::EngineTimeout;
    let hang = vec![Event::DeviceInError { device: device(), reason }];
    let reports = reports([story_with_work_under_way(), hang].concat());
    tells(
        &reports[0],
        &["did not yield", "It was packet 1 (submission 1 of device 0 of process 0, context 0) on engine 1"],
    );
}

#[test]
fn the_reset_of_an_engine_tells_what_was_aborted() {
    let reset = Event::EngineReset { engine: RENDER, last_aborted_fence_id: Some(1), returned: vec![1] };
    let reports = reports([story_with_work_under_way(), fault_behind_a(), vec![reset]].concat());
    assert_eq!(reports.len(), 2);
    tells(&reports[1], &["Engine 1 (3D) was reset", ": packet 1 (submission 1 of device 0", "nothing was behind it."]);
}

#[test]
fn the_reset_of_the_adapter_is_told_once_with_all_that_it_cost() {
    let signal = fence(PAGING, 3);
    let paging = Event::PagingBufferSubmitted { signal, bytes: 640 };
    let cause = DeviceErrorReason::PagingBufferFault;
    let reset = vec![
        paging,
        page_fault(signal, GpuVirtualAddress(0)),
        Event::AdapterResetBegun { cause },
        Event::DeviceInError { device: device(), reason: cause },
        Event::Aborted { signal },
        Event::ContentLost { allocation: A.id(), is_kept: false },
        Event::PlanAbandoned { plan: 3 },
    ];
    let mut events = [story_with_work_under_way(), reset].concat();
    assert_eq!(reports(events.clone()), [""; 0], "it is told when it is over");
    events.push(Event::AdapterRestarted);
    let reports = reports(events);
    let [report] = reports.as_slice() else { panic!("one reset: {reports:#?}") };
    tells(
        report,
        &[
            "a paging buffer faulted.",
            "It was packet 3 (a paging buffer) on engine 0 (paging).",
            "In error for it (1): device 0 of process 0.",
            "The content that was being paged belongs to device 0 of process 0.",
            "1 packets were aborted and 1 plans abandoned",
            "Content that was lost (1): allocation 0.",
        ],
    );
}

#[test]
fn reports_are_taken_once() {
    let mut reporter = FaultReporter::new();
    let events = numbered([story_with_work_under_way(), fault_behind_a()].concat());
    events.iter().for_each(|event| reporter.see(event));
    assert_eq!((reporter.take_reports().len(), reporter.take_reports().len()), (1, 0));
}

/// FLT-11: where the driver did not know the packet of a fault, the engine's reset names it.
#[test]
fn a_fault_of_an_unknown_packet_is_told_with_the_packet_that_the_reset_aborted() {
    let mut events = story_with_work_under_way();
    // The end of submission 1 is not reported.
    let (device, context, submission) = (device(), context(), 2);
    events.extend([
        Event::Submitted { device, context, submission, waits: vec![], signals: vec![] },
        Event::Dispatched { device, submission, signal: fence(RENDER, 2), waits: vec![] },
    ]);
    let virtual_address = GpuVirtualAddress(8);
    let mut fault = page_fault(fence(RENDER, 1), virtual_address);
    if let Event::PageFault { flags, .. } = &mut fault {
        *flags = PageFaultFlags::FENCE_INVALID | PageFaultFlags::ENGINE_RESET_REQUIRED;
    }
    let reason = DeviceErrorReason::PageFault { virtual_address };
    events.extend([
        fault,
        Event::EngineReset { engine: RENDER, last_aborted_fence_id: Some(2), returned: vec![] },
        Event::Completed { signal: fence(RENDER, 1) },
        Event::DeviceInError { device, reason },
    ]);
    let reports = reports(events);
    tells(
        &reports[1],
        &["The driver did not know the packet; the first under way was packet 2 (submission 2 of device 0"],
    );
}

#[test]
fn a_process_that_has_a_name_is_called_by_it() {
    let mut reporter = FaultReporter::new();
    reporter.name_process(process(), "game");
    let blocked = Event::ProcessBlocked { process: process() };
    let events = numbered([story_with_work_under_way(), fault_behind_a(), vec![blocked]].concat());
    events.iter().for_each(|event| reporter.see(event));
    let reports = reporter.take_reports();
    tells(&reports[0], &["Device 0 of game is in error (event ", "submission 1 of device 0 of game, context 0"]);
    tells(&reports[1], &["game hung engines too often and has lost the GPU (event "]);
}

/// A fault of one engine is told of its device, even if another device is in error before.
#[test]
fn a_fault_waits_for_the_device_that_is_in_error_for_it() {
    let [fault, in_error] = fault_behind_a().try_into().expect("a fault and an error");
    let refused = Event::DeviceInError {
        device: DeviceId::from_bits(1),
        reason: DeviceErrorReason::NotResident { allocation: A.id() },
    };
    let reports = reports([story_with_work_under_way(), vec![fault, refused, in_error]].concat());
    tells(&reports[1], &["Device 0 of process 0 is in error", "It read 0x205000, where nothing is mapped"]);
}
