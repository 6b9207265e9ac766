//! Properties of an allocation that change, and the cache.

use vidmm_kmt::{Call, Memory, Rule, Status};

use crate::client::{Client, MIB};

/// Segments as bits: local memory is the first, and system memory that the GPU reaches is the second.
const LOCAL: u32 = 1 << 0;
const APERTURE: u32 = 1 << 1;

fn update(client: &mut Client, allocation: u32, supported_segment_set: u32) -> vidmm_kmt::Reply {
    client.call(Call::UpdateAllocationProperty {
        paging_queue: client.queue,
        allocation,
        supported_segment_set: Some(supported_segment_set),
        preferred_segments: None,
    })
}

/// CRE-50.
#[test]
fn an_allocation_is_resident_where_its_new_segments_say() {
    let mut client = Client::small();
    let allocation = client.create(MIB);
    assert!(update(&mut client, allocation, APERTURE).status.is_success());
    let made = client.make_resident(allocation, 0);
    client.wait(made.value());
    client.call(Call::TimePasses { until: 100_000_000 });
    let query = Call::QueryAllocationResidency { device: client.device, allocations: vec![allocation] };
    assert_eq!(client.call(query).values, [2], "resident in shared memory");
    assert_eq!(client.end(), []);
}

/// CRE-50: work does not wait for the update of another allocation, and is no mistake before the fence.
#[test]
fn work_may_be_submitted_before_the_fence_of_an_update() {
    let mut client = Client::with_faults(&["pending"]);
    let (_, commands) = client.ready(MIB);
    let other = client.create(MIB);
    assert_eq!(update(&mut client, other, LOCAL | APERTURE).status, Status::PENDING);
    client.submit(commands);
    assert_eq!(client.end(), []);
}

#[test]
fn segments_that_are_not_there_and_a_forbidden_home_are_refused() {
    let mut client = Client::small();
    let (allocation, _) = client.ready(MIB);
    client.call(Call::TimePasses { until: 100_000_000 });
    for set in [0, 1 << 9, APERTURE] {
        assert_eq!(update(&mut client, allocation, set).status, Status::INVALID_PARAMETER, "{set}");
    }
    let nowhere = Call::UpdateAllocationProperty {
        paging_queue: client.queue,
        allocation,
        supported_segment_set: None,
        preferred_segments: Some([9, 0, 0, 0, 0]),
    };
    assert_eq!(client.call(nowhere).status, Status::INVALID_PARAMETER);
    assert_eq!(client.end(), []);
}

/// RES-85.
#[test]
fn a_cache_is_invalidated_inside_an_allocation_only() {
    let mut client = Client::small();
    let allocation = client.create(MIB);
    let device = client.device;
    let mut of =
        |allocation, offset, length| client.call(Call::InvalidateCache { device, allocation, offset, length }).status;
    assert_eq!(of(allocation, 0, MIB), Status::SUCCESS);
    assert_eq!([of(allocation, 1, MIB), of(allocation, u64::MAX, 1)], [Status::INVALID_PARAMETER; 2]);
    client.destroy(allocation, 0);
    let gone = Call::InvalidateCache { device, allocation, offset: 0, length: 0 };
    assert_eq!(client.call(gone).status, Status::INVALID_HANDLE);
    assert_eq!(client.end(), [Rule::DeadHandle]);
}

/// Before, a wait with an event was no call, and dead handles were not named.
#[test]
fn an_event_of_a_dead_fence_is_named() {
    let mut client = Client::small();
    let fence = client.call(Call::CreateMonitoredFence { device: client.device, initial_value: 0, is_shared: false });
    let fences = vec![vidmm_kmt::FenceValue { fence: fence.handle(), value: 1 }];
    let wait = Call::SignalEventFromFences { device: client.device, fences, any: false };
    assert_eq!(client.call(wait.clone()).status, Status::SUCCESS);
    client.call(Call::DestroySynchronizationObject { fence: fence.handle() });
    assert_eq!(client.call(wait).status, Status::INVALID_HANDLE);
    assert_eq!(client.end(), [Rule::DeadHandle]);
}

/// CRE-51.
#[test]
fn the_same_segments_again_are_accepted() {
    let mut client = Client::small();
    let allocation = client.create_in(Memory::System, MIB);
    assert!(update(&mut client, allocation, APERTURE).status.is_success());
    assert_eq!(client.end(), []);
}
