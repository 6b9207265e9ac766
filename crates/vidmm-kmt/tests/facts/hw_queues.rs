//! Hardware queues: orders of their own, and progress fences (SYN-06).

use vidmm_kmt::{Call, FenceValue, Reply, Rule, Status};

use crate::client::{Client, MIB};

const HW_QUEUE_SUPPORTED: u32 = 1 << 4;

/// A client whose context has two hardware queues: the handles of the queues, and of their progress fences.
fn with_queues() -> (Client, [u32; 2], [u32; 2]) {
    let mut client = Client::small();
    client.call(Call::DestroyContext { context: client.context });
    let create = Call::CreateContext { device: client.device, node_ordinal: 0, flags: HW_QUEUE_SUPPORTED };
    client.context = client.call(create).handle();
    let context = client.context;
    let [first, second] = [(); 2].map(|()| client.call(Call::CreateHwQueue { context }).handles);
    (client, [first[0], second[0]], [first[1], second[1]])
}

fn submit(client: &mut Client, hw_queue: u32, commands: u64, progress_fence_value: u64) -> Reply {
    client.call(Call::SubmitCommandToHwQueue { hw_queue, commands, progress_fence_value })
}

fn reaches(client: &mut Client, fence: u32, value: u64) -> Status {
    let (device, fences) = (client.device, vec![FenceValue { fence, value }]);
    client.call(Call::WaitFromCpu { device, fences, any: false }).status
}

#[test]
fn the_end_of_the_work_raises_the_progress_fence() {
    let (mut client, [queue, _], [progress, _]) = with_queues();
    let (_, commands) = client.ready(MIB);
    assert_eq!(submit(&mut client, queue, commands, 3).status, Status::SUCCESS);
    assert_eq!(reaches(&mut client, progress, 3), Status::SUCCESS);
    assert_eq!(reaches(&mut client, progress, 4), Status::IO_TIMEOUT);
    assert_eq!(client.end(), []);
}

#[test]
fn a_progress_fence_only_rises_and_only_by_work() {
    let (mut client, [queue, _], [progress, _]) = with_queues();
    let (_, commands) = client.ready(MIB);
    submit(&mut client, queue, commands, 3);
    assert_eq!(submit(&mut client, queue, commands, 3).status, Status::INVALID_PARAMETER);
    let signal = Call::SignalFromCpu { device: client.device, fences: vec![FenceValue { fence: progress, value: 9 }] };
    assert_eq!(client.call(signal).status, Status::INVALID_PARAMETER);
    let destroy = Call::DestroySynchronizationObject { fence: progress };
    assert_eq!(client.call(destroy).status, Status::INVALID_PARAMETER);
    assert_eq!(client.end(), []);
}

#[test]
fn queues_of_one_context_do_not_wait_for_each_other() {
    let (mut client, [first, second], [of_first, of_second]) = with_queues();
    let (_, commands) = client.ready(MIB);
    let fences = vec![FenceValue { fence: client.fence, value: 1 }];
    client.call(Call::SubmitWaitForSyncObjectsToHwQueue { hw_queue: first, fences: fences.clone() });
    submit(&mut client, first, commands, 1);
    submit(&mut client, second, commands, 1);
    assert_eq!(reaches(&mut client, of_second, 1), Status::SUCCESS);
    let now = vec![FenceValue { fence: of_first, value: 1 }];
    client.call(Call::TimePasses { until: 1_000_000_000 });
    let asked = Call::WaitFromCpu { device: client.device, fences: [now, fences.clone()].concat(), any: true };
    assert_eq!(client.call(asked).status, Status::IO_TIMEOUT);
    client.call(Call::SubmitSignalSyncObjectsToHwQueue { hw_queue: second, fences });
    assert_eq!(reaches(&mut client, of_first, 1), Status::SUCCESS);
    assert_eq!(client.end(), []);
}

/// KMT-01: what the context waits for, its queues wait for. `ready` lets the context wait for the paging fence.
#[test]
fn work_on_a_queue_before_the_paging_fence_is_named() {
    let (mut client, [queue, _], _) = with_queues();
    let allocation = client.create(MIB);
    let mapped = client.map(allocation);
    client.wait(mapped.value());
    assert_eq!(client.make_resident(allocation, 0).status, Status::PENDING);
    let make_resident = client.session.num_calls();
    submit(&mut client, queue, mapped.address, 1);
    assert_eq!(client.session.findings()[0].since, Some(make_resident));
    assert_eq!(client.end(), [Rule::SubmittedBeforeResident]);
}

/// KMT-03, KMT-04.
#[test]
fn commands_and_handles_of_a_queue_are_judged() {
    let (mut client, [queue, other], _) = with_queues();
    submit(&mut client, queue, 1 << 30, 1);
    client.call(Call::DestroyHwQueue { hw_queue: other });
    assert_eq!(submit(&mut client, other, 1 << 30, 1).status, Status::INVALID_HANDLE);
    assert_eq!(client.end(), [Rule::CommandsNotResident, Rule::DeadHandle]);
}

#[test]
fn a_context_ends_with_its_queues_and_a_plain_context_has_none() {
    let (mut client, [queue, _], _) = with_queues();
    let context = client.call(Call::CreateContext { device: client.device, node_ordinal: 0, flags: 0 }).handle();
    assert_eq!(client.call(Call::CreateHwQueue { context }).status, Status::INVALID_PARAMETER);
    client.call(Call::DestroyContext { context: client.context });
    assert_eq!(client.call(Call::DestroyHwQueue { hw_queue: queue }).status, Status::INVALID_HANDLE);
    client.context = context;
    assert_eq!(client.end(), [Rule::DeadHandle]);
}
