//! Legal calls near to a mistake have no finding: a case for each rule.

use vidmm_kmt::{Call, FenceValue, Memory, Settings, Status};

use crate::client::{ASSUME_NOT_IN_USE, CANT_TRIM_FURTHER, Client, MIB, MUST_SUCCEED, small};

/// KMT-01, KMT-02.
#[test]
fn a_wait_of_the_cpu_is_a_wait() {
    let mut client = Client::small();
    let allocation = client.create(MIB);
    let mapped = client.map(allocation);
    let made = client.make_resident(allocation, 0);
    let fences = vec![FenceValue { fence: client.paging_fence, value: mapped.value().max(made.value()) }];
    let wait = Call::WaitFromCpu { device: client.device, fences, any: false };
    assert_eq!(client.call(wait).status, Status::SUCCESS);
    client.submit(mapped.address);
    assert_eq!(client.end(), []);
}

/// KMT-01, KMT-02: a client that reads the fence's memory makes no call.
#[test]
fn time_that_passes_is_as_good_as_a_wait() {
    let mut client = Client::small();
    let allocation = client.create(MIB);
    let mapped = client.map(allocation);
    client.make_resident(allocation, 0);
    client.call(Call::TimePasses { until: 100_000_000 });
    client.submit(mapped.address);
    assert_eq!(client.end(), []);
}

/// KMT-01, KMT-02: other work may run while a prefetch is on the way (RES-11).
#[test]
fn work_that_uses_other_allocations_waits_for_no_prefetch() {
    let mut client = Client::small();
    let (_, commands) = client.ready(MIB);
    client.ready(MIB);
    for _ in 0..3 {
        let ahead = client.create(MIB);
        let mapped = client.map(ahead);
        let made = client.make_resident(ahead, 0);
        assert_eq!(made.status, Status::PENDING);
        client.submit(commands);
        client.submit(commands);
        client.wait(mapped.value().max(made.value()));
        client.submit(mapped.address);
        client.finish();
        client.evict(ahead);
        client.destroy(ahead, 0);
    }
    assert_eq!(client.end(), []);
}

/// KMT-03, KMT-05.
#[test]
fn a_list_that_names_an_allocation_twice_keeps_it_after_one_evict() {
    let mut client = Client::small();
    let (allocation, commands) = client.ready(MIB);
    let made = client.make_resident(allocation, 0);
    client.wait(made.value());
    client.evict(allocation);
    client.submit(commands + MIB - 64);
    client.finish();
    client.evict(allocation);
    assert_eq!(client.end(), []);
}

/// KMT-03.
#[test]
fn commands_may_be_where_an_offer_was_taken_back() {
    let mut client = Client::small();
    let (allocation, commands) = client.ready(MIB);
    let (device, paging_queue, allocations) = (client.device, client.queue, vec![allocation]);
    client.call(Call::OfferAllocations { device, allocations: allocations.clone(), priority: 1 });
    let reclaimed = client.call(Call::ReclaimAllocations { paging_queue, allocations });
    client.wait(reclaimed.value());
    client.submit(commands);
    assert_eq!(client.end(), []);
}

/// KMT-04.
#[test]
fn a_new_object_in_the_place_of_a_dead_one_is_alive() {
    let mut client = Client::small();
    let first = client.create(MIB);
    client.destroy(first, 0);
    let second = client.create(MIB);
    assert_ne!(first, second);
    assert!(client.make_resident(second, 0).status.is_success());
    assert_eq!(client.end(), []);
}

/// KMT-06: what work in flight uses is not idle.
#[test]
fn a_client_whose_list_is_busy_can_trim_no_further() {
    let mut client = Client::small();
    let (_, commands) = client.ready(8 * MIB);
    loop {
        let allocation = client.create(8 * MIB);
        client.submit(commands);
        let made = client.make_resident(allocation, 0);
        if made.status == Status::NO_MEMORY {
            let _ = client.make_resident(allocation, CANT_TRIM_FURTHER);
            break;
        }
        client.wait(made.value());
    }
    assert_eq!(client.end(), []);
}

/// KMT-06: the commands, and what no work has used yet, may be what the next work needs.
#[test]
fn a_client_that_holds_what_the_next_work_needs_can_trim_no_further() {
    let mut client = Client::with_faults(&["refuse"]);
    let made_resident = |client: &mut Client, allocation| {
        assert_eq!(client.make_resident(allocation, 0).status, Status::NO_MEMORY);
        let made = client.make_resident(allocation, CANT_TRIM_FURTHER);
        client.wait(made.value());
    };
    let allocation = client.create(MIB);
    let mapped = client.map(allocation);
    client.wait(mapped.value());
    made_resident(&mut client, allocation);
    for _ in 0..3 {
        let of_work = client.create(MIB);
        made_resident(&mut client, of_work);
        client.submit(mapped.address);
        client.finish();
        client.evict(of_work);
    }
    assert_eq!(client.end(), []);
}

/// KMT-06: a client with a list for each work keeps what two works in a row need.
#[test]
fn a_client_that_has_trimmed_before_is_trusted() {
    let mut client = Client::with_faults(&["refuse"]);
    let mut listed = Vec::<(u32, u64)>::new();
    for round in 0..4 {
        let allocation = client.create(MIB);
        let mapped = client.map(allocation);
        let mut made = client.make_resident(allocation, 0);
        if round == 2 {
            client.evict(listed.remove(0).0);
            made = client.make_resident(allocation, 0);
        }
        assert_eq!(made.status, Status::NO_MEMORY);
        let made = client.make_resident(allocation, CANT_TRIM_FURTHER);
        client.wait(mapped.value().max(made.value()));
        client.submit(mapped.address);
        client.finish();
        listed.push((allocation, mapped.address));
        if round == 0 {
            // The first work alone is over, and all of it goes.
            client.evict(listed.remove(0).0);
        }
    }
    assert_eq!(client.end(), []);
}

/// KMT-06: system memory makes no room in local memory.
#[test]
fn idle_allocations_of_another_memory_are_no_room() {
    let mut client = Client::with_faults(&["refuse@2"]);
    let system = client.create_in(Memory::System, MIB);
    assert!(client.make_resident(system, 0).status.is_success());
    let local = client.create(MIB);
    assert_eq!(client.make_resident(local, 0).status, Status::NO_MEMORY);
    assert!(client.make_resident(local, CANT_TRIM_FURTHER).status.is_success());
    assert_eq!(client.end(), []);
}

/// KMT-06: what is offered is given back already.
#[test]
fn offered_allocations_are_not_idle() {
    let mut client = Client::with_faults(&["refuse@2"]);
    let (used, commands) = client.ready(MIB);
    client.submit(commands);
    client.finish();
    client.call(Call::OfferAllocations { device: client.device, allocations: vec![used], priority: 1 });
    let other = client.create(MIB);
    assert_eq!(client.make_resident(other, 0).status, Status::NO_MEMORY);
    assert!(client.make_resident(other, CANT_TRIM_FURTHER).status.is_success());
    assert_eq!(client.end(), []);
}

/// KMT-07: a trim takes nothing back for good if the allocation is resident again for its work.
#[test]
fn an_unused_allocation_may_be_trimmed_and_made_resident_again() {
    let mut client = Client::with_faults(&["refuse@2"]);
    let (unused, commands) = client.ready(MIB);
    client.call(Call::TimePasses { until: 100_000_000 });
    let other = client.create(MIB);
    assert_eq!(client.make_resident(other, 0).status, Status::NO_MEMORY);
    client.evict(unused);
    for allocation in [other, unused] {
        let made = client.make_resident(allocation, 0);
        client.wait(made.value());
    }
    client.submit(commands);
    assert_eq!(client.end(), []);
}

/// KMT-07: what work has used may go.
#[test]
fn an_allocation_that_work_has_used_is_a_trim_after_a_refusal() {
    let mut client = Client::with_faults(&["refuse@2"]);
    let (used, commands) = client.ready(MIB);
    client.submit(commands);
    client.finish();
    let other = client.create(MIB);
    assert_eq!(client.make_resident(other, 0).status, Status::NO_MEMORY);
    client.evict(used);
    assert!(client.make_resident(other, 0).status.is_success());
    assert_eq!(client.end(), []);
}

/// KMT-07: a driver that takes back the first part of its own list has promised nothing to the program.
#[test]
fn the_first_part_of_a_list_may_be_taken_back_when_the_second_is_refused() {
    let mut client = Client::with_faults(&["refuse@2"]);
    let (first, second) = (client.create(MIB), client.create(MIB));
    assert!(client.make_resident(first, 0).status.is_success());
    assert_eq!(client.make_resident(second, 0).status, Status::NO_MEMORY);
    client.evict(first);
    assert_eq!(client.end(), []);
}

/// KMT-08.
#[test]
fn both_flags_together_are_legal() {
    let mut client = Client::small();
    let allocation = client.create(MIB);
    assert!(client.make_resident(allocation, MUST_SUCCEED | CANT_TRIM_FURTHER).status.is_success());
    assert_eq!(client.end(), []);
}

/// KMT-09.
#[test]
fn a_notification_to_trim_is_heeded_by_an_evict() {
    let mut client = Client::with_faults(&["trim@1"]);
    client.call(Call::RegisterTrimNotification { device: client.device });
    let (allocation, _) = client.ready(8 * MIB);
    let (_, commands) = client.ready(MIB);
    client.submit(commands);
    client.evict(allocation);
    (0..40).for_each(|_| _ = client.call(Call::GetDeviceState { device: client.device }));
    client.submit(commands);
    assert_eq!(client.end(), []);
}

/// KMT-10.
#[test]
fn an_allocation_whose_work_has_ended_is_not_in_use() {
    let mut client = Client::small();
    let (allocation, commands) = client.ready(MIB);
    client.submit(commands);
    client.finish();
    client.destroy(allocation, ASSUME_NOT_IN_USE);
    assert_eq!(client.end(), []);
}

/// KMT-10: a driver without hardware takes work for done at the submission, and so does the session.
#[test]
fn work_without_hardware_has_ended_when_the_submission_returns() {
    let mut client = Client::start(Settings { null_hardware: true, ..small() });
    let (allocation, commands) = client.ready(MIB);
    client.submit(commands);
    client.destroy(allocation, ASSUME_NOT_IN_USE);
    assert_eq!(client.end(), []);
}

/// KMT-11: another thread may still signal.
#[test]
fn a_wait_may_begin_before_the_signal() {
    let mut client = Client::small();
    let (device, fences) = (client.device, vec![FenceValue { fence: client.fence, value: 5 }]);
    let wait = Call::WaitFromCpu { device, fences: fences.clone(), any: false };
    assert_eq!(client.call(wait.clone()).status, Status::IO_TIMEOUT);
    client.call(Call::SignalFromCpu { device, fences });
    assert_eq!(client.call(wait).status, Status::SUCCESS);
    assert_eq!(client.end(), []);
}

/// KMT-12: contexts, queues and fences end with the device.
#[test]
fn a_device_may_be_destroyed_with_its_queues_on_it() {
    let mut client = Client::small();
    client.call(Call::DestroyDevice { device: client.device });
    client.call(Call::CloseAdapter { adapter: client.adapter });
    assert_eq!(client.session.findings(), []);
}
