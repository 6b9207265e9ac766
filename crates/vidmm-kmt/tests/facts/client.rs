//! A client in Rust, whose calls go to a session.

use vidmm_kmt::{AllocationInfo, Call, Fault, FaultKind, FenceValue, Memory, Reply, Rule, Session, Settings};

pub const MIB: u64 = 1 << 20;
pub const CANT_TRIM_FURTHER: u32 = 1;
pub const MUST_SUCCEED: u32 = 2;
pub const ASSUME_NOT_IN_USE: u32 = 1;

/// A client with a device, a paging queue, a context and a fence.
pub struct Client {
    pub session: Session,
    pub adapter: u32,
    pub device: u32,
    pub queue: u32,
    pub paging_fence: u32,
    pub context: u32,
    pub fence: u32,
    pub fence_address: u64,
    pub submitted: u64,
    pub alive: Vec<u32>,
}

impl Client {
    pub fn start(settings: Settings) -> Self {
        let mut session = Session::start(settings).expect("the adapter starts");
        let adapter = session.call(&Call::OpenAdapter).handle();
        let device = session.call(&Call::CreateDevice { adapter }).handle();
        let queues = session.call(&Call::CreatePagingQueue { device, priority: 0 });
        let context = session.call(&Call::CreateContext { device, node_ordinal: 0, flags: 0 }).handle();
        let fence = session.call(&Call::CreateMonitoredFence { device, initial_value: 0, is_shared: false });
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
    pub fn small() -> Self {
        Self::with_faults(&[])
    }

    /// A client in 64 MiB of local memory that meets faults.
    pub fn with_faults(faults: &[&str]) -> Self {
        Self::start(Settings { faults: parsed(faults), ..small() })
    }

    /// How often a fault has struck.
    pub fn struck(&self, kind: FaultKind) -> u64 {
        self.session.struck().get(&kind).copied().unwrap_or(0)
    }

    pub fn call(&mut self, call: Call) -> Reply {
        self.session.call(&call)
    }

    /// The call that creates allocations.
    pub fn creation(&self, memory: Memory, sizes: &[u64]) -> Call {
        let info = |&size| AllocationInfo { size, memory, lockable: true };
        Call::CreateAllocation {
            device: self.device,
            resource: 0,
            creates_resource: false,
            is_shared: false,
            allocations: sizes.iter().map(info).collect(),
        }
    }

    pub fn create(&mut self, size: u64) -> u32 {
        self.create_in(Memory::Local, size)
    }

    pub fn create_in(&mut self, memory: Memory, size: u64) -> u32 {
        let allocation = self.call(self.creation(memory, &[size])).handles[1];
        self.alive.push(allocation);
        allocation
    }

    /// Maps an allocation anywhere.
    pub fn map(&mut self, allocation: u32) -> Reply {
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

    pub fn make_resident(&mut self, allocation: u32, flags: u32) -> Reply {
        self.call(Call::MakeResident { paging_queue: self.queue, allocations: vec![allocation], flags })
    }

    /// The context's work waits for the paging queue.
    pub fn wait(&mut self, value: u64) {
        let fences = vec![FenceValue { fence: self.paging_fence, value }];
        self.call(Call::WaitFromGpu { context: self.context, fences });
    }

    pub fn submit(&mut self, commands: u64) -> Reply {
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
    pub fn finish(&mut self) -> Reply {
        let fences = vec![FenceValue { fence: self.fence, value: self.submitted }];
        self.call(Call::WaitFromCpu { device: self.device, fences, any: false })
    }

    /// An allocation that is resident, and mapped at the address.
    pub fn ready(&mut self, size: u64) -> (u32, u64) {
        let allocation = self.create(size);
        let mapped = self.map(allocation);
        let made = self.make_resident(allocation, 0);
        assert!(made.status.is_success(), "{made:?}");
        self.wait(mapped.value().max(made.value()));
        (allocation, mapped.address)
    }

    pub fn evict(&mut self, allocation: u32) -> Reply {
        self.call(Call::Evict { device: self.device, allocations: vec![allocation], flags: 0 })
    }

    pub fn destroy(&mut self, allocation: u32, flags: u32) -> Reply {
        self.alive.retain(|&other| other != allocation);
        self.call(Call::DestroyAllocation { device: self.device, resource: 0, allocations: vec![allocation], flags })
    }

    /// Destroys all that is alive. Returns the broken rules.
    pub fn end(mut self) -> Vec<Rule> {
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
        self.session.end();
        self.session.findings().iter().map(|finding| finding.rule).collect()
    }
}

/// 64 MiB of local memory.
pub fn small() -> Settings {
    Settings { local_memory: 64 * MIB, ..Settings::default() }
}

pub fn parsed(faults: &[&str]) -> Vec<Fault> {
    faults.iter().map(|fault| fault.parse().expect("the fault is known")).collect()
}
