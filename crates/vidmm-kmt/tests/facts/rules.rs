//! Each mistake of a client is named by its rule, with the earlier call.

use vidmm_kmt::{Call, FaultKind, FenceValue, Memory, Neighbour, Reply, Rule, Settings, Status};

use crate::client::{ASSUME_NOT_IN_USE, CANT_TRIM_FURTHER, Client, MIB, MUST_SUCCEED, small};

#[test]
fn a_client_that_keeps_the_rules_has_no_finding() {
    let mut client = Client::small();
    for _ in 0..4 {
        let (allocation, commands) = client.ready(8 * MIB);
        assert_eq!(client.submit(commands).status, Status::SUCCESS);
        assert_eq!(client.finish().status, Status::SUCCESS);
        assert_eq!(client.call(Call::Lock { device: client.device, allocation }).status, Status::SUCCESS);
        assert_eq!(client.call(Call::Unlock { device: client.device, allocation }).status, Status::SUCCESS);
        assert_eq!(client.evict(allocation).status, Status::SUCCESS);
        assert_eq!(client.destroy(allocation, 0).status, Status::SUCCESS);
    }
    assert_eq!(client.end(), []);
}

#[test]
fn work_before_the_paging_fences_is_named_by_the_function() {
    let mut client = Client::small();
    let allocation = client.create(MIB);
    let mapped = client.map(allocation);
    let made = client.make_resident(allocation, 0);
    assert_eq!([mapped.status, made.status], [Status::PENDING; 2]);
    client.submit(mapped.address);
    let (_, commands) = client.ready(MIB);
    client.submit(commands);
    let findings = client.session.findings();
    assert_eq!(findings.iter().map(|of| of.since).collect::<Vec<_>>(), [Some(7), Some(8)]);
    assert_eq!(client.end(), [Rule::SubmittedBeforeMapped, Rule::SubmittedBeforeResident]);
}

/// KMT-01: the commands are resident, and the work can use nothing but the allocation that is on the way.
#[test]
fn work_with_nothing_else_on_the_list_uses_what_is_on_the_way() {
    let mut client = Client::small();
    let (_, commands) = client.ready(MIB);
    let allocation = client.create(MIB);
    assert_eq!(client.make_resident(allocation, 0).status, Status::PENDING);
    let make_resident = client.session.num_calls();
    client.submit(commands);
    assert_eq!(client.session.findings()[0].since, Some(make_resident));
    client.finish();
    client.submit(commands);
    assert_eq!(client.end(), [Rule::SubmittedBeforeResident]);
}

/// KMT-01: the work could have used something else, but no other work came before the allocation was given back.
#[test]
fn an_allocation_is_used_by_the_only_work_between_make_resident_and_evict() {
    let mut client = Client::small();
    let (_, commands) = client.ready(MIB);
    client.ready(MIB);
    for _ in 0..3 {
        let allocation = client.create(MIB);
        assert_eq!(client.make_resident(allocation, 0).status, Status::PENDING);
        client.submit(commands);
        client.finish();
        client.evict(allocation);
    }
    assert_eq!(client.end(), [Rule::SubmittedBeforeResident; 3]);
}

#[test]
fn commands_must_be_where_a_listed_allocation_is_mapped() {
    let mut client = Client::small();
    let (allocation, commands) = client.ready(MIB);
    client.submit(1 << 30);
    client.finish();
    client.evict(allocation);
    let evict = client.session.num_calls();
    client.submit(commands);
    client.finish();
    client.destroy(allocation, 0);
    let destroy = client.session.num_calls();
    client.submit(commands);
    let findings = client.session.findings();
    assert_eq!(Vec::from_iter(findings.iter().map(|of| of.since)), [None, Some(evict), Some(destroy)]);
    assert!(findings[2].text.contains(&format!("{allocation:#x} was")), "{}", findings[2]);
    assert_eq!(client.end(), [Rule::CommandsNotResident; 3]);
}

#[test]
fn a_dead_handle_is_named_with_the_call_that_destroyed_the_object() {
    let mut client = Client::small();
    let allocation = client.create(MIB);
    client.destroy(allocation, 0);
    assert_eq!(client.make_resident(allocation, 0).status, Status::INVALID_HANDLE);
    assert_eq!(client.make_resident(client.device, 0).status, Status::INVALID_HANDLE);
    assert_eq!(client.session.findings()[0].since, Some(7));
    assert_eq!(client.end(), [Rule::DeadHandle, Rule::DeadHandle]);
}

/// Before, DestroyAllocation destroyed an allocation of any device.
#[test]
fn a_handle_of_another_device_is_named_with_the_call_of_its_origin() {
    let mut client = Client::small();
    let (allocation, _) = client.ready(MIB);
    let (device, allocations) =
        (client.call(Call::CreateDevice { adapter: client.adapter }).handle(), vec![allocation]);
    let paging_queue = client.call(Call::CreatePagingQueue { device, priority: 0 }).handle();
    let calls = [
        Call::Evict { device, allocations: allocations.clone(), flags: 0 },
        Call::Lock { device, allocation },
        Call::MakeResident { paging_queue, allocations: allocations.clone(), flags: 0 },
        Call::DestroyAllocation { device, resource: 0, allocations, flags: 0 },
    ];
    for call in calls {
        assert_eq!(client.call(call).status, Status::INVALID_HANDLE);
    }
    client.call(Call::DestroyDevice { device });
    assert!(client.session.findings().iter().all(|of| of.since == Some(6)));
    assert_eq!(client.end(), [Rule::DeadHandle; 4]);
}

/// Before, closing a device as an adapter removed the device.
#[test]
fn a_handle_of_another_kind_removes_nothing() {
    let mut client = Client::small();
    assert_eq!(client.call(Call::CloseAdapter { adapter: client.device }).status, Status::INVALID_HANDLE);
    let unregister = Call::UnregisterTrimNotification { notification: client.context };
    assert_eq!(client.call(unregister).status, Status::INVALID_HANDLE);
    assert_eq!(client.end(), [Rule::DeadHandle, Rule::DeadHandle]);
}

/// Before, a reservation on the adapter was asked of the paging queue of the first device, which was gone.
#[test]
fn addresses_are_reserved_after_another_device_is_gone() {
    let mut client = Client::small();
    client.call(Call::DestroyDevice { device: client.device });
    client.device = client.call(Call::CreateDevice { adapter: client.adapter }).handle();
    client.queue = client.call(Call::CreatePagingQueue { device: client.device, priority: 0 }).handle();
    client.context = client.call(Call::CreateContext { device: client.device, node_ordinal: 0, flags: 0 }).handle();
    let (object, base, size) = (client.adapter, 1 << 30, MIB);
    let reserve = Call::ReserveGpuVirtualAddress { object, base, minimum: 0, maximum: 0, size };
    assert_eq!(client.call(reserve).status, Status::SUCCESS);
    assert_eq!(client.end(), []);
}

#[test]
fn an_evict_needs_a_make_resident() {
    let mut client = Client::small();
    let (allocation, _) = client.ready(MIB);
    client.evict(allocation);
    let evict = client.session.num_calls();
    assert_eq!(client.evict(allocation).status, Status::INVALID_PARAMETER);
    assert_eq!(client.session.findings()[0].since, Some(evict));
    assert_eq!(client.end(), [Rule::EvictedTooOften]);
}

/// Fills local memory with idle allocations, beside a neighbour, until MakeResident is refused. Returns the last allocation.
fn refused(client: &mut Client) -> (u32, Reply) {
    loop {
        let allocation = client.create(8 * MIB);
        let made = client.make_resident(allocation, 0);
        if made.status == Status::NO_MEMORY {
            return (allocation, made);
        }
        client.wait(made.value());
    }
}

#[test]
fn a_client_that_trims_nothing_after_a_refusal_is_named() {
    let mut client = Client::small();
    let (allocation, made) = refused(&mut client);
    assert!(made.num_bytes_to_trim > 0, "{made:?}");
    let refusal = client.session.num_calls();
    let _ = client.make_resident(allocation, CANT_TRIM_FURTHER);
    client.session.end();
    assert_eq!(client.session.findings()[0].since, Some(refusal));
    assert_eq!(client.end(), [Rule::NothingTrimmed]);
}

/// The commands of the next work are not idle. Other allocations with an earlier use are idle.
#[test]
fn kept_allocations_without_a_need_of_work_are_named() {
    let mut client = Client::with_faults(&["refuse@3"]);
    let (_, commands) = client.ready(MIB);
    let (idle, _) = client.ready(MIB);
    client.submit(commands);
    client.finish();
    let other = client.create(MIB);
    assert_eq!(client.make_resident(other, 0).status, Status::NO_MEMORY);
    let made = client.make_resident(other, CANT_TRIM_FURTHER);
    client.wait(made.value());
    assert_eq!(client.session.findings(), []);
    client.submit(commands);
    let found = client.session.findings()[0].text.clone();
    assert!(
        found.ends_with(&format!("{MIB} bytes of idle allocations are on the list, the first is {idle:#x}")),
        "{found}"
    );
    assert_eq!(client.end(), [Rule::NothingTrimmed]);
}

#[test]
fn a_client_with_a_trim_of_the_asked_bytes_is_accepted() {
    let mut client = Client::small();
    let (_, commands) = client.ready(MIB);
    let mut listed = Vec::new();
    let last = loop {
        let allocation = client.create(8 * MIB);
        let made = client.make_resident(allocation, 0);
        if made.status == Status::NO_MEMORY {
            break allocation;
        }
        client.wait(made.value());
        client.submit(commands);
        listed.push(allocation);
    };
    client.finish();
    client.evict(listed[0]);
    let made = client.make_resident(last, CANT_TRIM_FURTHER);
    assert!(made.status.is_success(), "{made:?}");
    assert_eq!(client.end(), []);
}

#[test]
fn a_refusal_by_a_fault_is_a_refusal() {
    let mut client = Client::with_faults(&["refuse"]);
    let allocation = client.create(MIB);
    assert_eq!(client.make_resident(allocation, 0).status, Status::NO_MEMORY);
    assert_eq!(client.struck(FaultKind::Refuse), 1);
    assert!(client.make_resident(allocation, CANT_TRIM_FURTHER).status.is_success());
    // Nothing idle was held, so nothing could be trimmed.
    assert_eq!(client.end(), []);
}

#[test]
fn must_succeed_is_legal_with_cant_trim_further_only() {
    let mut client = Client::small();
    let allocation = client.create(MIB);
    assert_eq!(client.make_resident(allocation, MUST_SUCCEED).status, Status::INVALID_PARAMETER);
    assert!(client.make_resident(allocation, MUST_SUCCEED | CANT_TRIM_FURTHER).status.is_success());
    assert_eq!(client.end(), [Rule::MustSucceedAlone]);
}

#[test]
fn an_allocation_in_use_is_not_assumed_idle() {
    let mut client = Client::small();
    let (allocation, commands) = client.ready(MIB);
    client.submit(commands);
    let submission = client.session.num_calls();
    client.destroy(allocation, ASSUME_NOT_IN_USE);
    assert_eq!(client.session.findings()[0].since, Some(submission));
    assert_eq!(client.end(), [Rule::DestroyedInUse]);
}

/// Work that a fence holds up is in flight, also for a driver without hardware.
#[test]
fn an_allocation_whose_work_is_held_up_is_in_use_without_hardware_too() {
    let mut client = Client::start(Settings { null_hardware: true, ..small() });
    let (allocation, commands) = client.ready(MIB);
    let fence = client.call(Call::CreateMonitoredFence { device: client.device, initial_value: 0, is_shared: false });
    let fences = vec![FenceValue { fence: fence.handle(), value: 1 }];
    client.call(Call::WaitFromGpu { context: client.context, fences: fences.clone() });
    client.submit(commands);
    client.destroy(allocation, ASSUME_NOT_IN_USE);
    client.call(Call::SignalFromCpu { device: client.device, fences });
    assert_eq!(client.finish().status, Status::SUCCESS);
    assert_eq!(client.end(), [Rule::DestroyedInUse]);
}

#[test]
fn commands_in_an_offered_allocation_are_named_with_the_offer() {
    let mut client = Client::small();
    let (allocation, commands) = client.ready(MIB);
    client.call(Call::OfferAllocations { device: client.device, allocations: vec![allocation], priority: 1 });
    let offer = client.session.num_calls();
    client.submit(commands);
    assert_eq!(client.session.findings()[0].since, Some(offer));
    assert_eq!(client.end(), [Rule::CommandsNotResident]);
}

#[test]
fn a_wait_that_nothing_ends_is_named() {
    let mut client = Client::small();
    let fences = vec![FenceValue { fence: client.fence, value: 5 }];
    let wait = Call::WaitFromCpu { device: client.device, fences: fences.clone(), any: false };
    assert_eq!(client.call(wait).status, Status::IO_TIMEOUT);
    assert_eq!(client.call(Call::GiveUpWaiting { fences }).status, Status::DEVICE_REMOVED);
    assert_eq!(client.end(), [Rule::NeverSignalled]);
}

#[test]
fn objects_left_on_an_adapter_or_a_device_are_named() {
    let mut client = Client::small();
    client.create(MIB);
    client.call(Call::CloseAdapter { adapter: client.adapter });
    client.call(Call::DestroyDevice { device: client.device });
    let findings = client.session.findings();
    let texts = findings.iter().map(|of| (of.rule, &of.text[..of.text.find(" of ").unwrap_or(0)], of.since));
    let left = [(Rule::Leaked, "1 devices", Some(2)), (Rule::Leaked, "1 allocations", Some(6))];
    assert_eq!(Vec::from_iter(texts), left);
}

#[test]
fn an_unused_allocation_that_is_evicted_after_a_refusal_is_named() {
    let mut client = Client::with_faults(&["refuse"]);
    let held = client.create(MIB);
    let made = client.make_resident(held, CANT_TRIM_FURTHER);
    let call = client.session.num_calls();
    let fences = vec![FenceValue { fence: client.paging_fence, value: made.value() }];
    client.call(Call::WaitFromCpu { device: client.device, fences, any: false });
    let other = client.create(MIB);
    assert_eq!(client.make_resident(other, 0).status, Status::NO_MEMORY);
    client.evict(held);
    client.session.end();
    assert_eq!(client.session.findings()[0].since, Some(call));
    assert_eq!(client.end(), [Rule::TakenBack]);
}

#[test]
fn a_device_whose_work_hangs_is_lost_and_its_waits_end() {
    let mut client = Client::with_faults(&["hang@2"]);
    let (_, commands) = client.ready(MIB);
    let state = Call::GetDeviceState { device: client.device };
    client.submit(commands);
    assert_eq!((client.finish().status, client.call(state.clone()).value()), (Status::SUCCESS, 1));
    client.submit(commands);
    assert_eq!(client.finish().status, Status::SUCCESS);
    assert_eq!(client.call(state).value(), 4);
    assert_eq!(client.submit(commands).status, Status::DEVICE_REMOVED);
    assert_eq!(client.call(client.creation(Memory::Local, &[MIB])).status, Status::DEVICE_REMOVED);
    assert_eq!(client.end(), []);
}

/// Before, a call that needed two handles kept the first, which nobody could destroy.
#[test]
fn a_call_without_room_for_its_handles_makes_none() {
    let mut client = Client::small();
    while client.call(Call::OpenAdapter).status == Status::SUCCESS {}
    client.call(Call::DestroySynchronizationObject { fence: client.fence });
    let device = client.device;
    assert_eq!(client.call(client.creation(Memory::Local, &[MIB; 2])).status, Status::INSUFFICIENT_RESOURCES);
    assert_eq!(client.call(Call::CreatePagingQueue { device, priority: 0 }).status, Status::INSUFFICIENT_RESOURCES);
    let fence = Call::CreateMonitoredFence { device, initial_value: 0, is_shared: false };
    assert_eq!(client.call(fence).status, Status::SUCCESS);
    assert_eq!(client.end(), []);
}

#[test]
fn a_notification_to_trim_that_is_ignored_is_named() {
    let mut client = Client::start(Settings { neighbour: Some(Neighbour::Size(40 * MIB)), ..small() });
    client.call(Call::RegisterTrimNotification { device: client.device });
    let (_, commands) = client.ready(8 * MIB);
    for _ in 0..5 {
        let allocation = client.create(8 * MIB);
        let _ = client.make_resident(allocation, CANT_TRIM_FURTHER);
    }
    client.call(Call::TimePasses { until: 2_000_000_000 });
    (0..40).for_each(|_| _ = client.call(Call::GetDeviceState { device: client.device }));
    client.submit(commands);
    assert!(client.end().contains(&Rule::TrimIgnored));
}
