//! A GPU that misbehaves: it does not do as it is asked, or reports what did not happen.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::rc::Rc;

use vidmm::contract::{
    AdapterInfo, DmaBuffer, EngineFence, Packet, PagingBuffer, PagingBufferDesc, ResetEngineError, RestartError,
};
use vidmm::{Nanoseconds, PhysicalAddress};

use crate::hook::{HookedKmd, KmdHook};
use crate::named_faults::named_faults;
use crate::occasions::{Hits, Occasions};
use crate::runtime::Machine;
use crate::{Content, Gpu, GpuEvent, Probe};

named_faults! {
    /// A misbehaviour of a GPU. Each has occasions: requests or completions, of whatever engine.
    GpuFault:
    /// A request to preempt an engine is ignored.
    IgnorePreempt, "ignore-preempt";
    /// A reset of an engine is not done, and answered with failure at once.
    FailEngineReset, "fail-engine-reset";
    /// A reset of an engine is not done, and never answered.
    IgnoreEngineReset, "ignore-engine-reset";
    /// The answer to a reset of an engine names a packet that has ended as the last that was aborted, if two have.
    AbortEndedPacket, "abort-ended-packet";
    /// The answer of an engine that yields, or is reset, is reported twice, the second time without packets.
    RepeatAnswer, "repeat-answer";
    /// A restart of the adapter is not done, and answered with failure at once.
    FailRestart, "fail-restart";
    /// A packet ends, and no completion is reported. Its buffer never comes back.
    LoseInterrupt, "lose-interrupt";
    /// A completion is reported [`INTERRUPT_DELAY`](Self::INTERRUPT_DELAY) late, after later events of its engine and
    /// of others.
    DelayInterrupt, "delay-interrupt";
    /// A completion is reported twice, the second time with a buffer that was never submitted, of the same kind and
    /// size.
    RepeatInterrupt, "repeat-interrupt";
    /// After a completion, another is reported of the fence that its engine will be given next.
    ForgeInterrupt, "forge-interrupt";
    /// A completion is reported after the next one of its engine, and never if there is none.
    SwapInterrupts, "swap-interrupts";
    /// After a completion, an interrupt comes that is not the adapter's.
    ForgeStatus, "forge-status";
}

impl GpuFault {
    /// The delay of a late interrupt, in nanoseconds: 3 s, by which time its engine may have been taken for hung and
    /// reset.
    pub const INTERRUPT_DELAY: Nanoseconds = 3_000_000_000;
}

impl Machine {
    /// The machine with a GPU that misbehaves.
    pub fn with_gpu_fault(self, fault: GpuFault, hits: Hits) -> Self {
        let Self { kmd, gpu, .. } = self;
        let paging_buffer = Rc::new(Cell::new(PagingBufferDesc { size: 0, private_data_size: 0 }));
        let kmd = Box::new(HookedKmd::new(kmd, Sizes(paging_buffer.clone())));
        let gpu = FaultyGpu {
            gpu,
            fault,
            occasions: Occasions::new(hits, &self.fault_switch),
            pending: Vec::new(),
            held: None,
            submitted: BTreeMap::new(),
            ended: BTreeMap::new(),
            paging_buffer,
        };
        Self { kmd, gpu: Box::new(gpu), ..self }
    }
}

/// Tells the GPU how large paging buffers are.
struct Sizes(Rc<Cell<PagingBufferDesc>>);

impl KmdHook for Sizes {
    fn adapter_queried(&mut self, info: &AdapterInfo) {
        self.0.set(info.paging_buffer);
    }
}

/// A GPU behind a wrapper that loses and changes requests and reports.
struct FaultyGpu {
    gpu: Box<dyn Gpu>,
    fault: GpuFault,
    occasions: Occasions,
    /// Events that are still to be reported, and their times, in the order in which they occurred.
    pending: Vec<(Nanoseconds, GpuEvent)>,
    /// The engine and the completion that waits for the engine's next one.
    held: Option<(u32, GpuEvent)>,
    /// The last fence that each engine was given.
    submitted: BTreeMap<u32, u64>,
    /// The last packet of each engine that has ended.
    ended: BTreeMap<u32, u64>,
    paging_buffer: Rc<Cell<PagingBufferDesc>>,
}

impl FaultyGpu {
    /// Whether this is an occasion of `fault`, and one that it hits.
    fn is_hit(&mut self, fault: GpuFault) -> bool {
        self.fault == fault && self.occasions.strike()
    }

    /// Reports `event`, or the wrong report in its place.
    fn report(&mut self, event: GpuEvent, events: &mut Vec<GpuEvent>) {
        let GpuEvent::Completed { signal, started_at, ended_at, buffer } = event else {
            return self.report_answer(event, events);
        };
        self.ended.insert(signal.engine, signal.fence_id);
        let submitted = self.submitted.get(&signal.engine).copied().unwrap_or(0);
        let again = |signal, buffer| GpuEvent::Completed { signal, started_at, ended_at, buffer };
        let decoy = self.decoy(&buffer);
        let completed = again(signal, buffer);
        // An event that another fault has forged is reported at once. Later its fence may have been handed out, and the
        // forgery could not be told from a right report.
        if signal.fence_id > submitted {
            return events.push(completed);
        }
        if let Some((_, held)) = self.held.take_if(|(engine, _)| *engine == signal.engine) {
            return events.extend([completed, held]);
        }
        let fault = self.fault;
        match fault {
            GpuFault::LoseInterrupt if self.is_hit(fault) => {}
            GpuFault::DelayInterrupt if self.is_hit(fault) => {
                self.pending.push((ended_at.saturating_add(GpuFault::INTERRUPT_DELAY), completed));
            }
            GpuFault::SwapInterrupts if self.is_hit(fault) => {
                self.held = Some((signal.engine, completed));
            }
            GpuFault::RepeatInterrupt if self.is_hit(fault) => {
                events.extend([completed, again(signal, decoy)]);
            }
            GpuFault::ForgeInterrupt if self.is_hit(fault) => {
                let forged = EngineFence { engine: signal.engine, fence_id: submitted + 1 };
                events.extend([completed, again(forged, decoy)]);
            }
            // No driver has so few registers.
            GpuFault::ForgeStatus if self.is_hit(fault) => {
                events.extend([completed, GpuEvent::Interrupt { status: vec![], at: ended_at }]);
            }
            _ => events.push(completed),
        }
    }

    /// Reports the answer of an engine that yields or is reset, or what it is made to answer.
    fn report_answer(&mut self, event: GpuEvent, events: &mut Vec<GpuEvent>) {
        match event {
            GpuEvent::EngineReset { engine, result: Ok(_), returned, at }
                if self.ended.get(&engine).is_some_and(|&ended| ended > 1)
                    && self.is_hit(GpuFault::AbortEndedPacket) =>
            {
                events.push(GpuEvent::EngineReset { engine, result: Ok(self.ended[&engine] - 1), returned, at });
            }
            GpuEvent::EngineReset { engine, result, at, .. } if self.is_hit(GpuFault::RepeatAnswer) => {
                events.extend([event, GpuEvent::EngineReset { engine, result, returned: Vec::new(), at }]);
            }
            GpuEvent::Preempted { engine, preemption_fence_id, last_completed_fence_id, at, .. }
                if self.is_hit(GpuFault::RepeatAnswer) =>
            {
                let returned = Vec::new();
                let again = GpuEvent::Preempted { engine, preemption_fence_id, last_completed_fence_id, returned, at };
                events.extend([event, again]);
            }
            event => events.push(event),
        }
    }

    /// A buffer like `buffer` that was never submitted.
    fn decoy(&self, buffer: &DmaBuffer) -> DmaBuffer {
        let PagingBufferDesc { size, private_data_size } = self.paging_buffer.get();
        match buffer {
            DmaBuffer::Paging(_) => DmaBuffer::Paging(PagingBuffer::new(size as usize, private_data_size as usize)),
            DmaBuffer::User(_) | DmaBuffer::Rendered(_) => DmaBuffer::User(vec![]),
        }
    }
}

impl Gpu for FaultyGpu {
    fn submit(&mut self, now: Nanoseconds, packet: Packet) {
        self.submitted.insert(packet.signal.engine, packet.signal.fence_id);
        self.gpu.submit(now, packet);
    }

    fn next_event_at(&self) -> Option<Nanoseconds> {
        self.gpu.next_event_at().into_iter().chain(self.pending.iter().map(|&(at, _)| at)).min()
    }

    fn advance(&mut self, now: Nanoseconds, events: &mut Vec<GpuEvent>) {
        let mut reported = Vec::new();
        self.gpu.advance(now, &mut reported);
        for event in reported {
            self.report(event, events);
        }
        events.extend(self.pending.extract_if(.., |&mut (at, _)| at <= now).map(|(_, event)| event));
    }

    fn preempt(&mut self, now: Nanoseconds, engine: u32, preemption_fence_id: u64) {
        if !self.is_hit(GpuFault::IgnorePreempt) {
            self.gpu.preempt(now, engine, preemption_fence_id);
        }
    }

    fn reset_engine(&mut self, now: Nanoseconds, engine: u32) {
        if self.is_hit(GpuFault::FailEngineReset) {
            let failed = GpuEvent::EngineReset { engine, result: Err(ResetEngineError), returned: Vec::new(), at: now };
            self.pending.push((now, failed));
        } else if !self.is_hit(GpuFault::IgnoreEngineReset) {
            self.gpu.reset_engine(now, engine);
        }
    }

    fn reset_from_timeout(&mut self, now: Nanoseconds) {
        self.gpu.reset_from_timeout(now);
    }

    fn restart_from_timeout(&mut self, now: Nanoseconds) {
        if self.is_hit(GpuFault::FailRestart) {
            self.pending.push((now, GpuEvent::RestartedFromTimeout { result: Err(RestartError), at: now }));
        } else {
            self.gpu.restart_from_timeout(now);
        }
    }

    fn caches_translations(&self) -> bool {
        self.gpu.caches_translations()
    }

    fn executes_commands(&self) -> bool {
        self.gpu.executes_commands()
    }

    fn probe(&self) -> Option<&dyn Probe> {
        self.gpu.probe()
    }

    fn page_digest(&self, address: PhysicalAddress) -> Option<u64> {
        self.gpu.page_digest(address)
    }

    fn write_page(&mut self, address: PhysicalAddress, content: Content, seed: u64) -> bool {
        self.gpu.write_page(address, content, seed)
    }

    fn lose_power(&mut self) {
        self.gpu.lose_power();
    }

    fn bytes_decompressed(&self) -> u64 {
        self.gpu.bytes_decompressed()
    }
}
