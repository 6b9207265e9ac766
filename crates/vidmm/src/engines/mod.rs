//! The engines, seen from the host: the packets that each was given, and how far its recovery is.

pub(crate) mod engine;
pub(crate) mod recovering;

use alloc::vec::Vec;

use crate::{
    adapter::Adapter,
    engines::{
        engine::{Engine, PacketWork},
        recovering::{Phase, Recovery, TdrOptions},
    },
    event::{Event, PreemptReason},
    id::DeviceIx,
    moment::{Moment, Output},
    objects::Objects,
};

/// The engines, and the adapter as a whole.
pub(crate) struct Engines {
    pub engines: Vec<Engine>,
    /// Engines that are being recovered, and the adapter.
    pub recovery: Recovery,
    tdr: TdrOptions,
}

impl Engines {
    /// The engines of an adapter: nothing was handed to them.
    pub(crate) fn new(count: usize, tdr: TdrOptions) -> Self {
        Self { engines: (0..count).map(|_| Engine::default()).collect(), recovery: Recovery::default(), tdr }
    }

    /// How long things may take before they count as hung.
    pub(crate) fn tdr(&self) -> TdrOptions {
        self.tdr
    }

    pub(crate) fn paging_engine(&self, adapter: &Adapter) -> &Engine {
        &self.engines[adapter.paging_engine as usize]
    }

    /// Asks an engine to yield.
    pub(crate) fn preempt(&mut self, moment: &mut Moment, engine: u32, reason: PreemptReason) {
        let delay = if reason == PreemptReason::Dependent { self.tdr.dependent_delay } else { self.tdr.delay };
        let until = moment.now().saturating_add(delay);
        self.recovery.engines.insert(engine, Phase::Preempting { until, reason });
        let record = &mut self.engines[engine as usize];
        record.preemption_fence_id += 1;
        let preemption_fence_id = record.preemption_fence_id;
        moment.statistics_mut().preemptions += 1;
        moment.record(|| Event::PreemptRequested { engine, preemption_fence_id, reason });
        moment.hand_out(Output::PreemptCommand { engine, preemption_fence_id });
    }

    /// The device whose packet an engine runs.
    pub(crate) fn device_under_way(&self, objects: &Objects, engine: u32) -> Option<DeviceIx> {
        let in_flight = &self.engines[engine as usize].in_flight;
        match in_flight.front()?.work {
            PacketWork::Paging { .. } => None,
            PacketWork::User { context, .. } => Some(objects[context].device),
        }
    }

    /// Whether what an engine reports counts: not while it, or the adapter, is being reset (FLT-22).
    pub(crate) fn hears(&self, engine: u32) -> bool {
        let is_reset = matches!(self.recovery.phase(engine), Some(Phase::Resetting { .. }));
        self.recovery.is_working() && !is_reset
    }
}
