//! The model GPU: engines that run side by side in virtual time.

mod packet;

use vidmm::contract::{DmaBuffer, EngineFence, KmdProcessHandle, Packet};
use vidmm::{GpuVirtualAddress, Nanoseconds, PhysicalAddress};
use vidmm_runtime::{Content, Gpu, GpuEvent, Probe};

use crate::both_ways::BothWays;
use crate::bus::Bus;
use crate::config::SoftAdapterConfig;
use crate::cost::CostModel;
use crate::device::{Device, ModelGpuCounters};
use crate::driver::RENDER_ENGINE;
use crate::engine::{Engine, State};
use crate::executor::Executor;
use crate::faults::{ModelGpuFaults, strikes};
use crate::io_mmu::IoMmu;
use crate::physical::Memories;
use crate::programmed_state::ProgrammedState;
use crate::surface::SurfaceBook;
use crate::system::SystemMemory;
use crate::translation::Translation;

/// A GPU that executes the [`encoding`](crate::encoding) on real content, in virtual time.
///
/// Events at one time happen in the order of the engines' ordinals, so that two runs are equal.
///
/// A packet is aborted when an address cannot be accessed or a command means nothing: nothing more of it runs, its fence counts
/// as signalled for those who wait for it (FLT-11), and its engine has stopped until it is reset. The GPU raises an interrupt
/// ([`StatusRegisters`](crate::StatusRegisters)). A kernel of `u64::MAX` nanoseconds never ends.
///
/// A reset takes [`reset_nanoseconds`](CostModel::reset_nanoseconds), and stops at once what is under way: such a command has
/// written the first half of the pages or entries that it would have written, rounded down.
///
/// [`next_event_at`](Gpu::next_event_at) is the time of the next *step*: a command that begins or ends. Advancing to it may
/// yield no event.
#[derive(Debug)]
pub struct ModelGpu<E: Executor = Memories> {
    engines: Vec<Engine<E::Bytes>>,
    device: Device<E>,
    cost: CostModel,
    bus: Bus,
    /// None if the paging engine copies in one direction at a time.
    both_ways: Option<BothWays>,
    faults: ModelGpuFaults,
    power: Power,
    /// None on an adapter with GPU virtual addresses: its engines have no state to lose.
    programmed: Option<ProgrammedState>,
    /// The pages that kernels had written when their engines were stopped, of which no event has told yet.
    half_written: Vec<GpuEvent>,
}

/// Whether the engines run.
#[derive(Debug)]
enum Power {
    /// They do.
    On,
    /// They are being reset until the time; then these buffers come back.
    Resetting(Nanoseconds, Vec<(EngineFence, DmaBuffer)>),
    /// They have been reset.
    Off,
    /// They will run again at the time.
    Restarting(Nanoseconds),
}

/// The next thing to do.
#[derive(Clone, Copy, Debug)]
enum Step {
    /// All engines together: a reset or a restart ends.
    Adapter,
    /// One engine.
    Engine(usize),
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
        Self::over(config, cost, faults, Memories::new(config, system), io_mmu)
    }

    /// Bytes that the content of local memory costs this process.
    pub fn local_resident_bytes(&self) -> u64 {
        self.device.memories().local_resident_bytes()
    }
}

impl<E: Executor> ModelGpu<E> {
    /// A GPU for the adapter that `config` describes, whose bytes `executor` moves. The executor's
    /// [memories](Executor::memories) are those of `config`.
    ///
    /// # Panics
    ///
    /// If [`SoftAdapterConfig::check`] finds an error.
    pub fn over(
        config: &SoftAdapterConfig,
        cost: CostModel,
        faults: ModelGpuFaults,
        executor: E,
        io_mmu: IoMmu,
    ) -> Self {
        if let Err(error) = config.check() {
            panic!("{error}");
        }
        Self {
            engines: (0..config.engines).map(|_| Engine::default()).collect(),
            device: Device::new(Translation::new(config, io_mmu), executor, faults.clone()),
            cost,
            bus: Bus::default(),
            both_ways: config.copies_both_ways.then(BothWays::default),
            faults,
            power: Power::On,
            programmed: config.is_physical().then(|| ProgrammedState::new(config.engines, config.preemption_aware)),
            half_written: Vec::new(),
        }
    }

    /// The GPU, which is told the surfaces of allocations for its [`Probe`].
    pub fn with_surface_book(mut self, surfaces: SurfaceBook) -> Self {
        self.device.set_surface_book(surfaces);
        self
    }

    /// The GPU's counters so far.
    pub fn counters(&self) -> ModelGpuCounters {
        self.device.counters()
    }

    /// The digest of the page at `virtual_address` of `process`; `None` if nothing is mapped there.
    ///
    /// It walks the page tables that the process used last, or the IOMMU's mappings, past every cache, and leaves no trace. A
    /// compressed page has the digest of its compressed bytes.
    pub fn read_page_digest(&mut self, process: KmdProcessHandle, virtual_address: GpuVirtualAddress) -> Option<u64> {
        self.device.page_digest(process, virtual_address)
    }

    /// Lets mappings that have changed hold now, as before a kernel: for work on the GPU that its engines do not run.
    pub fn bind(&mut self) {
        self.device.executor.bind(&self.device.translation);
    }

    fn has_signalled(&self, fence: EngineFence) -> bool {
        self.engines[fence.engine as usize].completed_fence >= fence.fence_id
    }

    /// Lets every idle engine begin whose next packet has nothing to wait for any more.
    fn schedule(&mut self, now: Nanoseconds) {
        if !matches!(self.power, Power::On) {
            return;
        }
        for engine in 0..self.engines.len() {
            let waits = self.engines[engine].next_waits();
            if waits.is_some_and(|waits| waits.iter().all(|&fence| self.has_signalled(fence))) {
                self.engines[engine].schedule(now);
            }
        }
    }

    /// The next step: when, and of whom. The lowest ordinal of those at the same time.
    fn next_step(&self) -> Option<(Nanoseconds, Step)> {
        let mut next = match self.power {
            Power::Resetting(until, _) | Power::Restarting(until) => Some((until, Step::Adapter)),
            Power::On | Power::Off => None,
        };
        // The GPU is asked before and after each step: a loop costs a third of a chain of iterators.
        for (engine, state) in self.engines.iter().enumerate() {
            if let Some(at) = state.next_step_at()
                && next.is_none_or(|(first, _)| at < first)
            {
                next = Some((at, Step::Engine(engine)));
            }
        }
        next
    }

    fn step_adapter(&mut self, now: Nanoseconds, events: &mut Vec<GpuEvent>) {
        match std::mem::replace(&mut self.power, Power::Off) {
            Power::Resetting(_, returned) => events.push(GpuEvent::ResetFromTimeout { returned, at: now }),
            Power::Restarting(_) => {
                self.power = Power::On;
                events.push(GpuEvent::RestartedFromTimeout { result: Ok(()), at: now });
                self.schedule(now);
            }
            other => self.power = other,
        }
    }

    fn step_engine(&mut self, engine: usize, now: Nanoseconds, events: &mut Vec<GpuEvent>) {
        match std::mem::take(&mut self.engines[engine].state) {
            State::Idle => self.answer_preemption(engine, now, events),
            State::Starting(_) => {
                let is_only = self.engines.len() == 1;
                let mishap = |is_paging: bool| match is_only && !is_paging {
                    true => self.faults.mishap(RENDER_ENGINE),
                    false => self.faults.mishap(engine as u32),
                };
                if let Some(running) = self.engines[engine].start(now, mishap) {
                    let latency = self.cost.packet_latency(engine as u32, self.engines[engine].num_begun);
                    let until = now.saturating_add(latency);
                    self.engines[engine].state = State::Preparing { running, until };
                }
            }
            State::Preparing { running, .. } => self.begin_next(engine, running, now, events),
            State::Executing { running, begun, began_at, .. } => {
                self.end_command(engine, running, begun, began_at, now, events);
            }
            State::Stopped(packet) => self.engines[engine].state = State::Stopped(packet),
            State::Resetting { aborted, .. } => self.end_reset(engine, aborted, now, events),
        }
    }

    fn forget_programmed_state(&mut self) {
        if let Some(programmed) = &mut self.programmed {
            programmed.forget_all();
        }
    }

    fn end_packet(&mut self, engine: usize, fence_id: u64, now: Nanoseconds) {
        if let Some(programmed) = &mut self.programmed {
            programmed.packet_ended(self.engines[engine].space);
        }
        self.engines[engine].end_packet(fence_id, now);
        self.schedule(now);
    }

    fn answer_preemption(&mut self, engine: usize, now: Nanoseconds, events: &mut Vec<GpuEvent>) {
        let Some(preemption_fence_id) = self.engines[engine].take_preemption() else { return };
        events.push(GpuEvent::Preempted {
            engine: engine as u32,
            preemption_fence_id,
            last_completed_fence_id: self.engines[engine].completed_fence,
            returned: self.engines[engine].take_queue().map(by_fence).collect(),
            at: now,
        });
    }

    /// Stops what `engine` runs at `now`, in the middle of it, and returns its packet.
    fn stop(&mut self, engine: usize, now: Nanoseconds) -> Option<Packet> {
        self.bus.stop(now);
        if let Some(both_ways) = &mut self.both_ways {
            *both_ways = BothWays::default();
        }
        let (packet, begun) = self.engines[engine].stop();
        if let Some(begun) = begun {
            self.half_written.extend(self.device.abandon(self.engines[engine].space, begun));
        }
        packet
    }

    fn end_reset(&mut self, engine: usize, aborted: Option<Packet>, now: Nanoseconds, events: &mut Vec<GpuEvent>) {
        if let Some(programmed) = &mut self.programmed {
            programmed.forget(engine);
        }
        self.engines[engine].is_dead |= strikes(&mut self.faults.lie_about_engine_reset);
        let last_completed = self.engines[engine].completed_fence;
        let last_aborted = aborted.as_ref().map_or(last_completed, |packet| packet.signal.fence_id);
        let queue = self.engines[engine].take_queue();
        let returned = aborted.into_iter().chain(queue).map(by_fence).collect();
        events.push(GpuEvent::EngineReset { engine: engine as u32, result: Ok(last_aborted), returned, at: now });
        self.end_packet(engine, last_aborted, now);
    }
}

fn by_fence(packet: Packet) -> (u64, DmaBuffer) {
    (packet.signal.fence_id, packet.buffer)
}

impl<E: Executor> Gpu for ModelGpu<E> {
    /// # Panics
    ///
    /// If the packet names an engine that there is not.
    fn submit(&mut self, now: Nanoseconds, packet: Packet) {
        let exists = |fence: &EngineFence| (fence.engine as usize) < self.engines.len();
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
        self.device.executor.page_digest(address, 0)
    }

    fn probe(&self) -> Option<&dyn Probe> {
        Some(&self.device)
    }

    fn write_page(&mut self, address: PhysicalAddress, content: Content, seed: u64) -> bool {
        self.device.write_page(address, content, seed)
    }

    /// # Panics
    ///
    /// If a packet is under way.
    fn lose_power(&mut self) {
        assert!(self.engines.iter().all(Engine::is_idle), "power is lost while a packet is under way");
        self.engines.iter_mut().for_each(|engine| engine.space = None);
        self.device.lose_power();
        self.forget_programmed_state();
    }

    /// A second request takes the place of one that is not answered yet.
    ///
    /// # Panics
    ///
    /// If there is no such engine.
    fn preempt(&mut self, now: Nanoseconds, engine: u32, preemption_fence_id: u64) {
        self.engines[engine as usize].preempt(preemption_fence_id, now);
    }

    /// # Panics
    ///
    /// If there is no such engine.
    fn reset_engine(&mut self, now: Nanoseconds, engine: u32) {
        let aborted = self.stop(engine as usize, now);
        let until = now.saturating_add(self.cost.reset_nanoseconds);
        self.engines[engine as usize].state = State::Resetting { aborted, until };
    }

    fn reset_from_timeout(&mut self, now: Nanoseconds) {
        let mut returned = Vec::new();
        for engine in 0..self.engines.len() {
            let aborted = self.stop(engine, now);
            let packets = aborted.into_iter().chain(self.engines[engine].take_queue());
            returned.extend(packets.map(|packet| (packet.signal, packet.buffer)));
            self.engines[engine].forget(now);
        }
        self.device.lose_power();
        self.forget_programmed_state();
        if let Power::Resetting(_, earlier) = &mut self.power {
            returned.splice(..0, earlier.drain(..));
        }
        self.power = Power::Resetting(now.saturating_add(self.cost.reset_nanoseconds), returned);
    }

    fn restart_from_timeout(&mut self, now: Nanoseconds) {
        self.power = Power::Restarting(now.saturating_add(self.cost.reset_nanoseconds));
    }

    fn advance(&mut self, now: Nanoseconds, events: &mut Vec<GpuEvent>) {
        events.append(&mut self.half_written);
        let before = events.len();
        let has_ended = |events: &[GpuEvent]| matches!(events.last(), Some(GpuEvent::Completed { .. }));
        while let Some((at, step)) = self.next_step().filter(|&(at, _)| at <= now) {
            match step {
                Step::Adapter => self.step_adapter(at, events),
                Step::Engine(engine) => self.step_engine(engine, at, events),
            }
            if has_ended(&events[before..]) {
                return;
            }
        }
    }
}
