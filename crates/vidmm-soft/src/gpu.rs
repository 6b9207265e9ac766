//! The model GPU: engines that run side by side in virtual time.

use vidmm::contract::{EngineFence, KmdProcessHandle, Packet};
use vidmm::{GpuVirtualAddress, Nanoseconds, PhysicalAddress};
use vidmm_runtime::{Content, Gpu, GpuEvent};

use crate::config::SoftAdapterConfig;
use crate::cost::CostModel;
use crate::device::{Abort, Device, ModelGpuCounters, ModelGpuFaults};
use crate::engine::{Engine, Running, State};
use crate::io_mmu::IoMmu;
use crate::physical::Memories;
use crate::system::SystemMemory;
use crate::tlb::PageFault;
use crate::translation::Translation;

const NUM_ENGINES: u32 = 3;

/// A GPU that executes the [`encoding`](crate::encoding) on real content, in virtual time.
///
/// What happens at one time happens in the order of the engines' ordinals, so that two runs are equal.
///
/// A packet is aborted when an address cannot be accessed ([`GpuEvent::PageFault`]) or a command means nothing
/// ([`GpuEvent::IllegalCommand`]): nothing more of it runs, and its fence counts as signalled for those who wait for it.
///
/// [`next_event_at`](Gpu::next_event_at) is the time of the next *step*: a command that begins or ends. Advancing to it may
/// yield no event.
#[derive(Debug)]
pub struct ModelGpu {
    engines: Vec<Engine>,
    device: Device,
    cost: CostModel,
}

impl ModelGpu {
    /// A GPU for the adapter that `config` describes, over the system memory and the IOMMU that it shares with the host.
    ///
    /// # Panics
    ///
    /// If [`SoftAdapterConfig::check`] finds an error.
    pub fn new(
        config: &SoftAdapterConfig,
        cost: CostModel,
        faults: ModelGpuFaults,
        system: SystemMemory,
        io_mmu: IoMmu,
    ) -> Self {
        if let Err(error) = config.check() {
            panic!("{error}");
        }
        Self {
            engines: (0..NUM_ENGINES).map(|_| Engine::default()).collect(),
            device: Device::new(Translation::new(config, io_mmu), Memories::new(config, system), faults),
            cost,
        }
    }

    /// What the GPU has done so far.
    pub fn counters(&self) -> ModelGpuCounters {
        self.device.counters()
    }

    /// Bytes that the content of local memory costs this process.
    pub fn local_resident_bytes(&self) -> u64 {
        self.device.memories().local_resident_bytes()
    }

    /// The digest of the page at `virtual_address` of `process`; `None` if nothing is mapped there.
    ///
    /// It walks the page tables that the process used last, or the IOMMU's mappings, past every cache, and leaves no trace. A
    /// compressed page has the digest of its compressed bytes.
    pub fn read_page_digest(&mut self, process: KmdProcessHandle, virtual_address: GpuVirtualAddress) -> Option<u64> {
        self.device.page_digest(process, virtual_address)
    }

    fn has_signalled(&self, fence: EngineFence) -> bool {
        self.engines[fence.engine as usize].completed_fence >= fence.fence_id
    }

    /// Lets every idle engine begin whose next packet has nothing to wait for any more.
    fn schedule(&mut self, now: Nanoseconds) {
        for engine in 0..self.engines.len() {
            let waits = self.engines[engine].next_waits();
            if waits.is_some_and(|waits| waits.iter().all(|&fence| self.has_signalled(fence))) {
                self.engines[engine].schedule(now);
            }
        }
    }

    /// The next step: when, and of which engine. The lowest ordinal of those at the same time.
    fn next_step(&self) -> Option<(Nanoseconds, usize)> {
        let steps = self.engines.iter().enumerate();
        steps.filter_map(|(engine, state)| Some((state.next_step_at()?, engine))).min()
    }

    fn step(&mut self, engine: usize, now: Nanoseconds, events: &mut Vec<GpuEvent>) {
        match std::mem::take(&mut self.engines[engine].state) {
            State::Idle => {}
            State::Starting(_) => {
                if let Some(running) = self.engines[engine].start(now) {
                    let until = now.saturating_add(self.cost.packet_nanoseconds);
                    self.engines[engine].state = State::Preparing { running, until };
                }
            }
            State::Preparing { running, .. } => self.begin_next(engine, running, now, events),
            State::Executing { running, begun, .. } => {
                match self.device.finish(&mut self.engines[engine].space, begun) {
                    Ok(()) => self.begin_next(engine, running, now, events),
                    Err(abort) => self.abort(engine, *running, abort, now, events),
                }
            }
        }
    }

    fn begin_next(&mut self, engine: usize, mut running: Box<Running>, now: Nanoseconds, events: &mut Vec<GpuEvent>) {
        let command = match running.commands.pop_front() {
            None => return self.complete(engine, *running, now, events),
            Some(Err(_)) => return self.abort(engine, *running, Abort::IllegalCommand, now, events),
            Some(Ok(command)) => command,
        };
        let until = now.saturating_add(self.cost.duration(&command));
        match self.device.begin(self.engines[engine].space, command, events) {
            Ok(begun) => self.engines[engine].state = State::Executing { running, begun, until },
            Err(abort) => self.abort(engine, *running, abort, now, events),
        }
    }

    fn abort(&mut self, engine: usize, running: Running, abort: Abort, now: Nanoseconds, events: &mut Vec<GpuEvent>) {
        self.device.count_abort(abort);
        let Packet { signal, buffer, .. } = running.packet;
        events.push(match abort {
            Abort::IllegalCommand => GpuEvent::IllegalCommand { signal, buffer, at: now },
            Abort::PageFault(PageFault { virtual_address, write }) => {
                GpuEvent::PageFault { signal, virtual_address, write, buffer, at: now }
            }
        });
        self.end_packet(engine, signal, now);
    }

    fn complete(&mut self, engine: usize, running: Running, now: Nanoseconds, events: &mut Vec<GpuEvent>) {
        let Packet { signal, buffer, .. } = running.packet;
        events.push(GpuEvent::Completed { signal, started_at: running.started_at, ended_at: now, buffer });
        self.end_packet(engine, signal, now);
    }

    fn end_packet(&mut self, engine: usize, signal: EngineFence, now: Nanoseconds) {
        self.engines[engine].end_packet(signal.fence_id, now);
        self.schedule(now);
    }
}

impl Gpu for ModelGpu {
    /// # Panics
    ///
    /// If the packet names an engine that there is not.
    fn submit(&mut self, now: Nanoseconds, packet: Packet) {
        let exists = |fence: &EngineFence| fence.engine < NUM_ENGINES;
        assert!(
            exists(&packet.signal) && packet.waits.iter().all(exists),
            "a packet names an engine that does not exist"
        );
        self.engines[packet.signal.engine as usize].push(packet, now);
        self.schedule(now);
    }

    fn next_event_at(&self) -> Option<Nanoseconds> {
        self.next_step().map(|(at, _)| at)
    }

    fn bytes_decompressed(&self) -> u64 {
        self.counters().bytes_decompressed
    }

    fn page_digest(&self, address: PhysicalAddress) -> Option<u64> {
        self.device.memories().page_digest(address)
    }

    fn write_page(&mut self, address: PhysicalAddress, content: Content, seed: u64) -> bool {
        self.device.write_page(address, content, seed)
    }

    /// # Panics
    ///
    /// If a packet is under way.
    fn lose_power(&mut self) {
        assert!(self.next_step().is_none(), "power is lost while a packet is under way");
        self.engines.iter_mut().for_each(|engine| engine.space = None);
        self.device.lose_power();
    }

    fn advance(&mut self, now: Nanoseconds, events: &mut Vec<GpuEvent>) {
        while let Some((at, engine)) = self.next_step().filter(|&(at, _)| at <= now) {
            self.step(engine, at, events);
        }
    }
}
