//! The engines, seen from the host: the packets that each was given, and how far its recovery is.

pub(crate) mod engine;
pub(crate) mod recovering;

use alloc::vec::Vec;
use core::ops::Range;

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
    /// Those of the adapter, and behind them one for each self-scheduled context (D25).
    pub engines: Vec<Engine>,
    num_scheduled: usize,
    /// The places behind the adapter's engines that no context has.
    free: Vec<u32>,
    /// Engines that are being recovered, and the adapter.
    pub recovery: Recovery,
    tdr: TdrOptions,
}

impl Engines {
    /// The engines of an adapter: nothing was handed to them.
    pub(crate) fn new(count: usize, tdr: TdrOptions) -> Self {
        let engines = (0..count).map(|_| Engine::default()).collect();
        Self { engines, num_scheduled: count, free: Vec::new(), recovery: Recovery::default(), tdr }
    }

    /// The adapter's engines, which the manager schedules: only these are watched, asked to yield and reset, and only these
    /// does the driver report of.
    pub(crate) fn scheduled(&self) -> Range<u32> {
        0..self.num_scheduled as u32
    }

    /// The engine of the adapter that a driver names, if there is one.
    pub(crate) fn named(&self, engine: u32) -> Option<&Engine> {
        self.engines[..self.num_scheduled].get(engine as usize)
    }

    /// An engine for a self-scheduled context: its owner's queue, which runs its work in order as any engine does.
    pub(crate) fn add_self_scheduled(&mut self) -> u32 {
        self.free.pop().unwrap_or_else(|| {
            self.engines.push(Engine::default());
            self.engines.len() as u32 - 1
        })
    }

    /// A context is gone, of which nothing is under way.
    pub(crate) fn forget_context(&mut self, engine: u32) {
        if !self.scheduled().contains(&engine) {
            self.free.push(engine);
        }
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

    /// An engine that was asked to yield, and has time until `until`, has no longer than an engine that a reset harms (FLT-26).
    pub(crate) fn hasten(&mut self, moment: &Moment, engine: u32, until: u64) {
        let sooner = moment.now().saturating_add(self.tdr.dependent_delay);
        if sooner < until {
            self.recovery.engines.insert(engine, Phase::Preempting { until: sooner, reason: PreemptReason::Dependent });
            self.recovery.due_at(sooner);
        }
    }

    /// The device whose packet an engine runs.
    pub(crate) fn device_under_way(&self, objects: &Objects, engine: u32) -> Option<DeviceIx> {
        let in_flight = self.engines[engine as usize].in_flight();
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
