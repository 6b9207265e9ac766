//! Fences of engines and of paging queues (I13).

use std::collections::BTreeMap;

use vidmm::contract::{EngineFence, EngineKind};
use vidmm::{ContextId, DeviceId, PagingQueueId};

use super::finding::{Findings, Invariant};
use super::monitored::{FenceValue, Monitored};

/// What was issued and what is done.
#[derive(Debug, Default)]
pub(super) struct Fences {
    engines: Vec<Engine>,
    /// The engine that runs paging buffers.
    pub paging_engine: u32,
    pub queues: BTreeMap<PagingQueueId, Queue>,
    pub monitored: Monitored,
    /// User work under way.
    pub work: BTreeMap<EngineFence, Work>,
}

/// User work that an engine has.
#[derive(Debug)]
pub(super) struct Work {
    pub device: DeviceId,
    pub submission: u64,
    pub context: ContextId,
    /// What its end signals.
    pub signals: Vec<FenceValue>,
}

/// The fence of an engine.
#[derive(Clone, Copy, Debug, Default)]
struct Engine {
    submitted: u64,
    completed: u64,
}

/// The fence of a paging queue.
#[derive(Clone, Copy, Debug)]
pub(super) struct Queue {
    pub device: DeviceId,
    pub priority: i32,
    /// The last value that a call was answered with.
    pub asked: u64,
    /// The last value that was signalled.
    pub signaled: u64,
}

impl Queue {
    pub fn new(device: DeviceId, priority: i32) -> Self {
        Self { device, priority, asked: 0, signaled: 0 }
    }
}

impl Fences {
    pub fn start(&mut self, engines: &[EngineKind]) {
        self.engines = vec![Engine::default(); engines.len()];
        let paging = engines.iter().position(|&kind| kind == EngineKind::Paging);
        self.paging_engine = paging.map_or(u32::MAX, |engine| engine as u32);
    }

    fn engine(&self, engine: u32) -> Engine {
        self.engines.get(engine as usize).copied().unwrap_or_default()
    }

    /// The last packet that was handed to an engine.
    pub fn submitted(&self, engine: u32) -> u64 {
        self.engine(engine).submitted
    }

    /// The last packet that an engine has ended.
    pub fn completed(&self, engine: u32) -> u64 {
        self.engine(engine).completed
    }

    /// A packet is handed to its engine.
    pub fn submit(&mut self, signal: EngineFence, findings: &mut Findings) {
        let next = self.submitted(signal.engine).saturating_add(1);
        findings.check(signal.fence_id == next, Invariant::I13, || {
            format!("engine {} is handed packet {}, but its next is {next}", signal.engine, signal.fence_id)
        });
        match self.engines.get_mut(signal.engine as usize) {
            Some(engine) => engine.submitted = signal.fence_id.max(engine.submitted),
            None => findings.report(Invariant::Log, format!("there is no engine {}", signal.engine)),
        }
    }

    /// An engine has ended a packet. Returns whose it was.
    pub fn complete(&mut self, signal: EngineFence, findings: &mut Findings) -> Option<Work> {
        let Engine { submitted, completed } = self.engine(signal.engine);
        let is_next = signal.fence_id == completed.saturating_add(1) && signal.fence_id <= submitted;
        findings.check(is_next, Invariant::I13, || {
            format!(
                "engine {} ends packet {} after packet {completed}, {submitted} being submitted",
                signal.engine, signal.fence_id
            )
        });
        if let Some(engine) = self.engines.get_mut(signal.engine as usize) {
            engine.completed = signal.fence_id.clamp(completed, submitted.max(completed));
        }
        self.work.remove(&signal)
    }
}
