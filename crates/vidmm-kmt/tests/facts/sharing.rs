//! Shared resources and fences, and semaphores: two devices of a process (RES-02, U-34).

use vidmm_kmt::{AllocationInfo, Call, FenceValue, Memory, Rule, Status};

use crate::client::{Client, MIB};

/// A client with another device, which has a paging queue.
struct Two {
    client: Client,
    device: u32,
    queue: u32,
    context: u32,
}

impl Two {
    fn start() -> Self {
        let mut client = Client::small();
        let device = client.call(Call::CreateDevice { adapter: client.adapter }).handle();
        let queue = client.call(Call::CreatePagingQueue { device, priority: 0 }).handle();
        let context = client.call(Call::CreateContext { device, node_ordinal: 0, flags: 0 }).handle();
        Self { client, device, queue, context }
    }

    /// A resource with one allocation: the handles of both.
    fn resource(&mut self, is_shared: bool) -> [u32; 2] {
        let allocations = vec![AllocationInfo { size: MIB, memory: Memory::Local, lockable: true }];
        let device = self.client.device;
        let create = Call::CreateAllocation { device, resource: 0, creates_resource: true, is_shared, allocations };
        self.client.call(create).handles.try_into().expect("a resource and an allocation")
    }

    fn destroy(&mut self, device: u32, resource: u32) -> Status {
        self.client.call(Call::DestroyAllocation { device, resource, allocations: Vec::new(), flags: 0 }).status
    }

    fn end(mut self) -> Vec<Rule> {
        self.client.call(Call::DestroyDevice { device: self.device });
        self.client.end()
    }
}

#[test]
fn a_shared_resource_is_opened_on_another_device_and_outlives_its_creator() {
    let mut two = Two::start();
    let [resource, allocation] = two.resource(true);
    let device = two.device;
    assert_eq!(two.client.call(Call::QueryResourceInfo { device, resource }).value(), 1);
    let opened = two.client.call(Call::OpenResource { device, resource });
    let [other_resource, other] = opened.handles[..] else { panic!("{opened:?}") };
    // Each device has a count of its own.
    let make = Call::MakeResident { paging_queue: two.queue, allocations: vec![other], flags: 0 };
    assert!(two.client.call(make).status.is_success());
    assert_eq!(two.client.evict(allocation).status, Status::INVALID_PARAMETER);
    assert_eq!(two.destroy(two.client.device, resource), Status::SUCCESS);
    let residency = Call::QueryAllocationResidency { device, allocations: vec![other] };
    assert_eq!(two.client.call(residency).status, Status::SUCCESS);
    assert_eq!(two.destroy(device, other_resource), Status::SUCCESS);
    assert_eq!(two.end(), [Rule::EvictedTooOften]);
}

#[test]
fn a_resource_that_nobody_may_open_is_refused_without_a_finding() {
    let mut two = Two::start();
    let [alone, _] = two.resource(false);
    let [shared, _] = two.resource(true);
    let (device, own) = (two.device, two.client.device);
    let open = |two: &mut Two, device, resource| two.client.call(Call::OpenResource { device, resource }).status;
    assert_eq!(open(&mut two, device, alone), Status::INVALID_PARAMETER);
    assert_eq!(open(&mut two, own, shared), Status::INVALID_PARAMETER);
    two.destroy(own, shared);
    two.destroy(own, alone);
    assert_eq!(open(&mut two, device, shared), Status::INVALID_HANDLE);
    assert_eq!(two.end(), []);
}

#[test]
fn work_needs_the_list_of_its_own_device() {
    let mut two = Two::start();
    let [resource, allocation] = two.resource(true);
    let mapped = two.client.map(allocation);
    let made = two.client.make_resident(allocation, 0);
    two.client.wait(mapped.value().max(made.value()));
    two.client.submit(mapped.address);
    two.client.finish();
    let (device, context, queue) = (two.device, two.context, two.queue);
    let other = two.client.call(Call::OpenResource { device, resource }).handles[1];
    let submit =
        Call::SubmitCommand { context, commands: mapped.address, length: 64, fence_address: 0, fence_value: 0 };
    two.client.call(submit.clone());
    assert_eq!(two.client.session.findings().len(), 1, "the list of the other device does not count");
    two.client.call(Call::MakeResident { paging_queue: queue, allocations: vec![other], flags: 0 });
    two.client.call(submit);
    two.destroy(two.client.device, resource);
    let allocations = vec![other];
    two.client.call(Call::DestroyAllocation { device, resource: 0, allocations, flags: 0 });
    assert_eq!(two.end(), [Rule::CommandsNotResident]);
}

#[test]
fn a_shared_fence_has_one_value_and_ends_with_the_last_handle() {
    let mut two = Two::start();
    let (device, own) = (two.device, two.client.device);
    let create = Call::CreateMonitoredFence { device: own, initial_value: 0, is_shared: true };
    let fence = two.client.call(create).handle();
    let opened = two.client.call(Call::OpenSyncObject { device, fence });
    assert_eq!(opened.status, Status::SUCCESS);
    let other = opened.handle();
    two.client.call(Call::SignalFromCpu { device: own, fences: vec![FenceValue { fence, value: 3 }] });
    two.client.call(Call::DestroySynchronizationObject { fence });
    let wait = |value| Call::WaitFromCpu { device, fences: vec![FenceValue { fence: other, value }], any: false };
    assert_eq!(two.client.call(wait(3)).status, Status::SUCCESS);
    assert_eq!(two.client.call(wait(4)).status, Status::IO_TIMEOUT);
    two.client.call(Call::SignalFromCpu { device, fences: vec![FenceValue { fence: other, value: 4 }] });
    assert_eq!(two.client.call(wait(4)).status, Status::SUCCESS);
    let unshared = two.client.fence;
    let open = Call::OpenSyncObject { device, fence: unshared };
    assert_eq!(two.client.call(open).status, Status::INVALID_PARAMETER);
    assert_eq!(two.end(), []);
}

#[test]
fn a_semaphore_lets_one_context_wait_for_another() {
    let mut client = Client::small();
    let (device, first) = (client.device, client.context);
    let second = client.call(Call::CreateContext { device, node_ordinal: 1, flags: 0 }).handle();
    let semaphores = vec![client.call(Call::CreateSemaphore { device, initial_count: 1 }).handle()];
    let (_, commands) = client.ready(MIB);
    let wait_and_signal = |client: &mut Client, value| {
        client.call(Call::WaitForSemaphores { context: second, semaphores: semaphores.clone() });
        let fences = vec![FenceValue { fence: client.fence, value }];
        client.call(Call::SignalFromGpu { context: second, fences: fences.clone() });
        Call::WaitFromCpu { device, fences, any: false }
    };
    // The count is 1, so the first wait ends at once.
    let wait = wait_and_signal(&mut client, 1);
    assert_eq!(client.call(wait).status, Status::SUCCESS);
    let wait = wait_and_signal(&mut client, 2);
    assert_eq!(client.call(wait.clone()).status, Status::IO_TIMEOUT, "nobody has signalled the semaphore again");
    client.call(Call::SignalSemaphores { context: first, semaphores: semaphores.clone() });
    assert_eq!(client.call(wait).status, Status::SUCCESS);
    client.submitted = 2;
    client.submit(commands);
    client.call(Call::DestroySynchronizationObject { fence: semaphores[0] });
    client.call(Call::DestroyContext { context: second });
    assert_eq!(client.end(), []);
}
