//! The story with faults in it: resets of an engine and of the adapter.

use vidmm::contract::*;
use vidmm::event::{Event, PreemptReason};
use vidmm::*;

use super::broken::Broken;
use super::*;

/// A device without a fault, whose work is behind that of the guilty one.
pub fn innocent() -> DeviceId {
    DeviceId::from_bits(1)
}

fn innocent_context() -> ContextId {
    ContextId::from_bits(1)
}

pub fn innocent_fence() -> MonitoredFenceId {
    MonitoredFenceId::from_bits(1)
}

/// The story up to the point where submission 1, which uses `A`, is under way. Another device has two submissions
/// behind it, on the same engine. The second waits for the first.
pub fn with_work_behind() -> Vec<Event> {
    let (process, device, context) = (process(), innocent(), innocent_context());
    let mut events = story();
    let end = events.iter().position(|event| *event == Event::Completed { signal: fence(PAGING, 2) });
    let rest = events.split_off(end.expect("plan 2 ends"));
    events.extend([
        Event::DeviceCreated { device, process, residency: vidmm::DeviceResidency::DeviceList },
        Event::ContextCreated { context, device, engine: RENDER },
        Event::MonitoredFenceCreated { fence: innocent_fence(), value: 0, device: None },
    ]);
    events.extend(rest.into_iter().take(3));
    events.push(Event::RootPageTableSet { context, address: local(ROOT), num_entries: ROOT_ENTRIES });
    for submission in [1, 2] {
        let before = (submission > 1).then_some((innocent_fence(), submission - 1));
        let waits = before.map(|_| fence(RENDER, submission)).into_iter().collect();
        events.extend([
            Event::Submitted {
                device,
                context,
                submission,
                waits: before.into_iter().collect(),
                signals: vec![(innocent_fence(), submission)],
            },
            Event::Dispatched { device, submission, signal: fence(RENDER, submission + 1), waits },
        ]);
    }
    events
}

/// Submission 1 faults.
pub fn faulted() -> Vec<Event> {
    let virtual_address = GpuVirtualAddress(8);
    let mut fault = before_a(page_fault(fence(RENDER, 1), virtual_address));
    if let Event::PageFault { in_flight, .. } = &mut fault {
        *in_flight = (1..=3).map(|fence_id| fence(RENDER, fence_id)).collect();
    }
    let reason = DeviceErrorReason::PageFault { virtual_address };
    vec![fault, Event::DeviceInError { device: device(), reason }]
}

/// The engine is reset, and the work behind runs again.
pub fn reset_and_resubmitted() -> Vec<Event> {
    let reason = DeviceErrorReason::PageFault { virtual_address: GpuVirtualAddress(8) };
    let again = |fence_id, waits: &[EngineFence]| Event::Resubmitted {
        before: fence(RENDER, fence_id),
        signal: fence(RENDER, fence_id + 2),
        waits: waits.to_vec(),
    };
    vec![
        Event::EngineResetBegun { engine: RENDER, reason, dependent_engines: vec![] },
        Event::EngineReset { engine: RENDER, last_aborted_fence_id: Some(1), returned: vec![1, 2, 3] },
        Event::Aborted { signal: fence(RENDER, 1) },
        monitored_reaches(u64::MAX),
        Event::PreemptRequested { engine: RENDER, preemption_fence_id: 1, reason: PreemptReason::AfterReset },
        Event::Preempted { engine: RENDER, preemption_fence_id: 1, last_completed_fence_id: 1, returned: vec![] },
        again(2, &[]),
        again(3, &[fence(RENDER, 4)]),
        Event::Completed { signal: fence(RENDER, 4) },
        Event::MonitoredFenceSignaled { fence: innocent_fence(), value: 1 },
        Event::Completed { signal: fence(RENDER, 5) },
        Event::MonitoredFenceSignaled { fence: innocent_fence(), value: 2 },
    ]
}

/// An engine is reset for a fault, and the work behind it runs again.
pub fn engine_reset() -> Broken {
    Broken([with_work_behind(), faulted(), reset_and_resubmitted()].concat())
}

/// The purge operation for `A` in the memory segment: a transfer of nothing.
pub fn purge_of_a() -> Event {
    let (source, destination) = (local(0x5000), local(0x5000));
    let operation = PagingOperation::Transfer(Transfer {
        allocation: A.handle(),
        transfer_offset: 0,
        transfer_size: 0,
        source,
        destination,
        flags: TransferFlags::TRANSFER_START | TransferFlags::TRANSFER_END,
        mdl_offset: 0,
    });
    Event::PurgeOperation { allocation: A.id(), operation, status: BuildStatus::Success }
}

/// A fault needs a reset of the adapter; `A`, to which submission 1 has written, is lost. No plan takes `A` out in this
/// story.
pub fn adapter_reset() -> Broken {
    let mut events = [with_work_behind(), faulted()].concat();
    events.extend([
        Event::AdapterResetBegun { cause: DeviceErrorReason::AdapterReset },
        Event::DeviceInError { device: innocent(), reason: DeviceErrorReason::AdapterReset },
        Event::Aborted { signal: fence(RENDER, 1) },
        monitored_reaches(u64::MAX),
        Event::Aborted { signal: fence(RENDER, 2) },
        Event::Aborted { signal: fence(RENDER, 3) },
        Event::MonitoredFenceSignaled { fence: innocent_fence(), value: u64::MAX },
        purge_of_a(),
        Event::ContentLost { allocation: A.id(), is_kept: false },
        Event::AdapterRestarted,
    ]);
    Broken(events)
}

/// The story in which a paging buffer faults while `A` is leaving: its plan is not built to its end.
pub fn adapter_reset_halfway_out() -> Broken {
    let mut events = story();
    let end =
        events.iter().position(|event| *event == Event::PagingBufferSubmitted { signal: fence(PAGING, 3), bytes: 640 });
    events.truncate(end.expect("plan 3 is built") + 1);
    let cause = DeviceErrorReason::PagingBufferFault;
    let purge = Event::PurgeOperation {
        allocation: B.id(),
        operation: PagingOperation::Transfer(Transfer {
            allocation: B.handle(),
            transfer_offset: 0,
            transfer_size: 0,
            source: local(0x9000),
            destination: local(0x9000),
            flags: TransferFlags::TRANSFER_START | TransferFlags::TRANSFER_END,
            mdl_offset: 0,
        }),
        status: BuildStatus::Success,
    };
    events.extend([
        page_fault(fence(PAGING, 3), GpuVirtualAddress(0)),
        Event::AdapterResetBegun { cause },
        Event::DeviceInError { device: device(), reason: cause },
        monitored_reaches(u64::MAX),
        Event::Aborted { signal: fence(PAGING, 3) },
        purge_of_a(),
        purge,
        Event::ContentLost { allocation: A.id(), is_kept: false },
        Event::PlanAbandoned { plan: 3 },
        Event::PlanAbandoned { plan: 4 },
        Event::AdapterRestarted,
        Event::PagingFenceSignaled { queue: queue(), value: 3 },
    ]);
    Broken(events)
}
