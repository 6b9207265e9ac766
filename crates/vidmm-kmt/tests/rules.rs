//! A client keeps every rule and nothing is found; each mistake is named by its rule, with the earlier call.

use vidmm_kmt::{AllocationInfo, Call, FenceValue, Memory, Reply, Rule, Session, Settings, Status};

const MIB: u64 = 1 << 20;
const CANT_TRIM_FURTHER: u32 = 1;
const MUST_SUCCEED: u32 = 2;
const ASSUME_NOT_IN_USE: u32 = 1;

/// A client with a device, a paging queue, a context and a fence.
struct Client {
    session: Session,
    adapter: u32,
    device: u32,
    queue: u32,
    paging_fence: u32,
    context: u32,
    fence: u32,
    fence_address: u64,
    submitted: u64,
    alive: Vec<u32>,
}

impl Client {
    fn start(settings: Settings) -> Self {
        let mut session = Session::start(settings).expect("the adapter starts");
        let adapter = session.call(&Call::OpenAdapter).handle();
        let device = session.call(&Call::CreateDevice { adapter }).handle();
        let queues = session.call(&Call::CreatePagingQueue { device, priority: 0 });
        let context = session.call(&Call::CreateContext { device, node_ordinal: 0 }).handle();
        let fence = session.call(&Call::CreateMonitoredFence { device, initial_value: 0 });
        Self {
            adapter,
            device,
            queue: queues.handles[0],
            paging_fence: queues.handles[1],
            context,
            fence: fence.handle(),
            fence_address: fence.address,
            submitted: 0,
            alive: Vec::new(),
            session,
        }
    }

    /// A client in 64 MiB of local memory.
    fn small() -> Self {
        Self::start(Settings { local_memory: 64 * MIB, ..Settings::default() })
    }

    fn call(&mut self, call: Call) -> Reply {
        self.session.call(&call)
    }

    fn create(&mut self, size: u64) -> u32 {
        let allocations = vec![AllocationInfo { size, memory: Memory::Local, lockable: true }];
        let call = Call::CreateAllocation { device: self.device, resource: 0, creates_resource: false, allocations };
        let allocation = self.call(call).handles[1];
        self.alive.push(allocation);
        allocation
    }

    /// Maps an allocation anywhere.
    fn map(&mut self, allocation: u32) -> Reply {
        self.call(Call::MapGpuVirtualAddress {
            paging_queue: self.queue,
            allocation,
            base: 0,
            minimum: MIB,
            maximum: 1 << 40,
            offset: 0,
            size: 0,
            protection: 1,
            driver_protection: 0,
        })
    }

    fn make_resident(&mut self, allocation: u32, flags: u32) -> Reply {
        self.call(Call::MakeResident { paging_queue: self.queue, allocations: vec![allocation], flags })
    }

    /// The context's work waits for the paging queue.
    fn wait(&mut self, value: u64) {
        let fences = vec![FenceValue { fence: self.paging_fence, value }];
        self.call(Call::WaitFromGpu { context: self.context, fences });
    }

    fn submit(&mut self, commands: u64) -> Reply {
        self.submitted += 1;
        self.call(Call::SubmitCommand {
            context: self.context,
            commands,
            length: 64,
            fence_address: self.fence_address,
            fence_value: self.submitted,
        })
    }

    /// Waits for the work that was submitted last.
    fn finish(&mut self) -> Reply {
        let fences = vec![FenceValue { fence: self.fence, value: self.submitted }];
        self.call(Call::WaitFromCpu { device: self.device, fences, any: false })
    }

    /// An allocation that is resident, and mapped at the address.
    fn ready(&mut self, size: u64) -> (u32, u64) {
        let allocation = self.create(size);
        let mapped = self.map(allocation);
        let made = self.make_resident(allocation, 0);
        assert!(made.status.is_success(), "{made:?}");
        self.wait(mapped.value().max(made.value()));
        (allocation, mapped.address)
    }

    fn evict(&mut self, allocation: u32) -> Reply {
        self.call(Call::Evict { device: self.device, allocations: vec![allocation], flags: 0 })
    }

    fn destroy(&mut self, allocation: u32, flags: u32) -> Reply {
        self.alive.retain(|&other| other != allocation);
        self.call(Call::DestroyAllocation { device: self.device, resource: 0, allocations: vec![allocation], flags })
    }

    /// Destroys all that is alive. Returns the broken rules.
    fn end(mut self) -> Vec<Rule> {
        for allocation in self.alive.clone() {
            self.destroy(allocation, 0);
        }
        let closes = [
            Call::DestroyContext { context: self.context },
            Call::DestroyPagingQueue { paging_queue: self.queue },
            Call::DestroyDevice { device: self.device },
            Call::CloseAdapter { adapter: self.adapter },
        ];
        for call in closes {
            let reply = self.session.call(&call);
            assert!(reply.status.is_success(), "{call:?}: {reply:?}");
        }
        self.session.findings().iter().map(|finding| finding.rule).collect()
    }
}

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
    assert_eq!(findings.iter().map(|of| of.since).collect::<Vec<_>>(), [Some(8), Some(7)]);
    assert_eq!(client.end(), [Rule::SubmittedBeforeResident, Rule::SubmittedBeforeMapped]);
}

#[test]
fn commands_must_be_where_a_listed_allocation_is_mapped() {
    let mut client = Client::small();
    let (allocation, commands) = client.ready(MIB);
    client.submit(1 << 30);
    client.finish();
    client.evict(allocation);
    client.submit(commands);
    assert_eq!(client.end(), [Rule::CommandsNotResident, Rule::CommandsNotResident]);
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
    client.context = client.call(Call::CreateContext { device: client.device, node_ordinal: 0 }).handle();
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
    assert_eq!(client.evict(allocation).status, Status::INVALID_PARAMETER);
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
    assert_eq!(client.session.findings()[0].since, Some(refusal));
    assert_eq!(client.end(), [Rule::NothingTrimmed]);
}

#[test]
fn a_client_that_trims_what_was_asked_is_accepted() {
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
    let mut client = Client::start(Settings { local_memory: 64 * MIB, refuse: 1, ..Settings::default() });
    let allocation = client.create(MIB);
    assert_eq!(client.make_resident(allocation, 0).status, Status::NO_MEMORY);
    assert_eq!(client.session.refused_by_fault(), 1);
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
    client.destroy(allocation, ASSUME_NOT_IN_USE);
    assert_eq!(client.end(), [Rule::DestroyedInUse]);
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
    let texts = ["1 devices are left", "1 allocations are left"];
    assert!(findings.iter().zip(texts).all(|(of, text)| of.rule == Rule::Leaked && of.text.starts_with(text)));
    assert_eq!(findings.len(), texts.len());
}

#[test]
fn an_unused_allocation_that_is_evicted_after_a_refusal_is_named() {
    let mut client = Client::start(Settings { local_memory: 64 * MIB, refuse: 1, ..Settings::default() });
    let held = client.create(MIB);
    let made = client.make_resident(held, CANT_TRIM_FURTHER);
    let call = client.session.num_calls();
    client.wait(made.value());
    let other = client.create(MIB);
    assert_eq!(client.make_resident(other, 0).status, Status::NO_MEMORY);
    client.evict(held);
    assert_eq!(client.session.findings()[0].since, Some(call));
    assert_eq!(client.end(), [Rule::TakenBack]);
}

#[test]
fn a_device_whose_work_hangs_is_lost_and_its_waits_end() {
    let mut client = Client::start(Settings { local_memory: 64 * MIB, hang: 2, ..Settings::default() });
    let (_, commands) = client.ready(MIB);
    let state = Call::GetDeviceState { device: client.device };
    client.submit(commands);
    assert_eq!((client.finish().status, client.call(state.clone()).value()), (Status::SUCCESS, 1));
    client.submit(commands);
    assert_eq!(client.finish().status, Status::SUCCESS);
    assert_eq!(client.call(state).value(), 4);
    assert_eq!(client.submit(commands).status, Status::DEVICE_REMOVED);
    assert_eq!(client.end(), []);
}

#[test]
fn a_notification_to_trim_that_is_ignored_is_named() {
    let mut client = Client::start(Settings { local_memory: 64 * MIB, neighbour: 40 * MIB, ..Settings::default() });
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
