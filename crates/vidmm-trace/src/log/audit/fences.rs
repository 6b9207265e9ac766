//! Fences of engines and of paging queues (I13).

use std::collections::{BTreeMap, VecDeque};

use vidmm::contract::{EngineFence, EngineKind};
use vidmm::{ContextId, DeviceErrorReason, DeviceId, PagingQueueId};

use super::finding::{Findings, Invariant};
use super::monitored::{FenceValue, Monitored};

/// The fences that were issued, and those that are done.
#[derive(Debug, Default)]
pub(super) struct Fences {
    pub engines: Vec<Engine>,
    num_scheduled: usize,
    /// The engine that runs paging buffers.
    pub paging_engine: u32,
    pub queues: BTreeMap<PagingQueueId, Queue>,
    pub monitored: Monitored,
    /// The last paging buffer that was handed out for the first time. An only engine has fences of other work beside these.
    pub paging_submitted: u64,
    /// The last packet of the paging engine that work was handed out to run after.
    pub awaited: u64,
    /// User work under way.
    pub work: BTreeMap<EngineFence, Work>,
}

/// User work that an engine has.
#[derive(Debug)]
pub(super) struct Work {
    pub device: DeviceId,
    pub submission: u64,
    pub context: ContextId,
    /// The fences that must have ended before it runs.
    pub waits: Vec<EngineFence>,
    /// The fences that its end signals.
    pub signals: Vec<FenceValue>,
}

/// The packets of an engine, and its state.
#[derive(Clone, Debug, Default)]
pub(super) struct Engine {
    /// The last packet that was handed to it.
    pub submitted: u64,
    /// The last packet that has ended.
    pub completed: u64,
    /// Its packets, in the order in which it runs them.
    pub in_flight: VecDeque<u64>,
    /// The packets that it gave back.
    pub returned: Vec<u64>,
    /// Requests to yield that were made.
    pub preemptions: u64,
    /// The last that was answered.
    pub answered: u64,
    /// The last of them is not answered, and nothing was handed to the engine since.
    pub asked: bool,
    /// The last of them has not ended: by an answer, by the end of its time, or by a reset.
    pub is_to_yield: bool,
    /// The packet under way at the end of the time to yield.
    pub hung: Option<u64>,
    /// Since when it is to yield because another's reset would harm it (FLT-26).
    pub dependent_since: Option<u64>,
    /// Its first packet, and since when that has had nothing to wait for but the engine.
    pub running: Option<(u64, u64)>,
    /// It has stopped at a packet that cannot go on.
    pub stopped: bool,
    /// Why the driver resets it, if it does.
    pub reset_for: Option<DeviceErrorReason>,
    /// The packets that its last reset aborted.
    pub aborted: Option<u64>,
}

impl Engine {
    /// The GPU runs again: nothing is under way, and nothing will end that was.
    pub fn restart(&mut self) {
        let (submitted, preemptions) = (self.submitted, self.preemptions);
        *self = Self { submitted, preemptions, answered: preemptions, completed: submitted, ..Self::default() };
    }

    /// Whether the packet that did not yield in time is still under way.
    pub fn hangs(&self) -> bool {
        self.hung.is_some_and(|hung| self.in_flight.contains(&hung))
    }

    /// Whether nothing may be handed to it: what it has must end, or come back, first.
    pub fn is_held(&self) -> bool {
        self.reset_for.is_some() || self.stopped || self.is_to_yield
    }
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
        self.num_scheduled = engines.len();
        let paging = engines.iter().position(|&kind| kind == EngineKind::Paging);
        self.paging_engine = paging.map_or(u32::MAX, |engine| engine as u32);
    }

    /// An engine of the adapter, which is watched, asked to yield and reset.
    pub fn engine_mut(&mut self, engine: u32) -> Option<&mut Engine> {
        self.engines[..self.num_scheduled].get_mut(engine as usize)
    }

    /// An engine of the adapter.
    pub fn engine(&self, engine: u32) -> Option<&Engine> {
        self.engines[..self.num_scheduled].get(engine as usize)
    }

    /// Whether an engine is the adapter's: the manager schedules its work.
    pub fn is_scheduled(&self, engine: u32) -> bool {
        (engine as usize) < self.num_scheduled
    }

    /// A context is created whose work an engine runs. Behind the adapter's engines each self-scheduled context has its own (D25).
    pub fn add_engine(&mut self, engine: u32, is_taken: bool, findings: &mut Findings) {
        let (at, count) = (engine as usize, self.engines.len());
        if at < self.num_scheduled {
            return;
        }
        findings.check(at <= count && !is_taken, Invariant::Log, || {
            format!(
                "a self-scheduled context gets engine {engine}; that is another's: {is_taken}, and there are {count}"
            )
        });
        if at == count {
            self.engines.push(Engine::default());
        }
    }

    /// The last packet that an engine has ended.
    pub fn completed(&self, engine: u32) -> u64 {
        self.engines.get(engine as usize).map_or(0, |engine| engine.completed)
    }

    /// The last packet that was handed to an engine.
    pub fn submitted(&self, engine: u32) -> u64 {
        self.engines.get(engine as usize).map_or(0, |engine| engine.submitted)
    }

    /// The last packet that the paging engine has ended.
    pub fn paging_completed(&self) -> u64 {
        self.completed(self.paging_engine)
    }

    /// The next packet of the paging engine.
    pub fn next_paging(&self) -> u64 {
        self.submitted(self.paging_engine).saturating_add(1)
    }

    /// Whether work waits for paging.
    pub fn awaits_paging(&self, work: &Work) -> bool {
        let mut waits = work.waits.iter().filter(|wait| wait.engine == self.paging_engine);
        waits.any(|wait| self.paging_completed() < wait.fence_id)
    }

    /// Whether an engine has a packet that has not ended.
    pub fn has(&self, signal: EngineFence) -> bool {
        self.engines.get(signal.engine as usize).is_some_and(|engine| engine.in_flight.contains(&signal.fence_id))
    }

    /// Whether a packet that has not ended is a paging buffer. An only engine runs users' work too.
    pub fn is_paging(&self, signal: EngineFence) -> bool {
        signal.engine == self.paging_engine && !self.work.contains_key(&signal)
    }

    /// Whether a paging buffer came back, and is not handed out again yet.
    pub fn has_returned_paging(&self, signal: EngineFence) -> bool {
        let books = self.engines.get(signal.engine as usize);
        self.is_paging(signal) && books.is_some_and(|books| books.returned.contains(&signal.fence_id))
    }

    /// Whether an engine goes on with nothing that it has: that comes back, or it has stopped, and it will be reset.
    pub fn has_stopped(&self, engine: u32) -> bool {
        self.engines.get(engine as usize).is_some_and(|engine| engine.stopped || engine.reset_for.is_some())
    }

    /// Notes which packets run from now on.
    pub fn note_running(&mut self, now: u64) {
        for engine in 0..self.num_scheduled as u32 {
            let Some(first) = self.engine(engine).and_then(|books| books.in_flight.front()).copied() else { continue };
            let work = self.work.get(&EngineFence { engine, fence_id: first });
            let runs =
                work.is_none_or(|work| work.waits.iter().all(|&wait| self.completed(wait.engine) >= wait.fence_id));
            let running = &mut self.engines[engine as usize].running;
            *running = running.filter(|&(fence_id, _)| fence_id == first).or(Some((first, now))).filter(|_| runs);
        }
    }

    /// All that engines have.
    pub fn in_flight(&self) -> impl Iterator<Item = EngineFence> {
        let engines = (0..).zip(&self.engines);
        engines
            .flat_map(|(engine, books)| books.in_flight.iter().map(move |&fence_id| EngineFence { engine, fence_id }))
    }

    /// A packet is handed to its engine for the first time.
    pub fn submit(&mut self, signal: EngineFence, findings: &mut Findings) {
        let Some(engine) = self.engines.get_mut(signal.engine as usize) else {
            return findings.report(Invariant::Log, format!("there is no engine {}", signal.engine));
        };
        let next = engine.submitted.saturating_add(1);
        findings.check(signal.fence_id == next, Invariant::I13, || {
            format!("engine {} is handed packet {}, but its next is {next}", signal.engine, signal.fence_id)
        });
        findings.check(!engine.is_held(), Invariant::I30, || {
            format!("engine {} is handed packet {} while it is to yield or to be reset", signal.engine, signal.fence_id)
        });
        engine.asked = false;
        engine.submitted = signal.fence_id.max(engine.submitted);
        engine.in_flight.push_back(signal.fence_id);
    }

    /// An engine has ended a packet: the first that it has. Returns whose it was.
    pub fn complete(&mut self, signal: EngineFence, findings: &mut Findings) -> Option<Work> {
        let Some(engine) = self.engines.get_mut(signal.engine as usize) else {
            findings.report(Invariant::I13, format!("there is no engine {}, which ends a packet", signal.engine));
            return None;
        };
        let first = engine.in_flight.front().copied();
        findings.check(first == Some(signal.fence_id), Invariant::I13, || {
            format!("engine {} ends packet {}, but the first that it has is {first:?}", signal.engine, signal.fence_id)
        });
        findings.check(engine.reset_for.is_none(), Invariant::I30, || {
            format!("packet {} of engine {} ends while that is reset", signal.fence_id, signal.engine)
        });
        findings.check(engine.aborted != Some(signal.fence_id), Invariant::I30, || {
            format!("packet {} of engine {} ends, which its reset aborted", signal.fence_id, signal.engine)
        });
        let work = self.work.remove(&signal);
        let is_own = signal.engine as usize >= self.num_scheduled;
        let waits =
            || work.iter().flat_map(|work| &work.waits).find(|wait| self.completed(wait.engine) < wait.fence_id);
        if let Some(wait) = waits().filter(|_| is_own) {
            findings.report(Invariant::I06, format!("a use ends before {wait:?}, which it waits for, is signalled"));
        }
        let engine = &mut self.engines[signal.engine as usize];
        engine.in_flight.retain(|&packet| packet != signal.fence_id);
        engine.completed = signal.fence_id.clamp(engine.completed, engine.submitted.max(engine.completed));
        work
    }

    /// A packet has left its engine without having ended. Returns whose it was.
    pub fn abort(&mut self, signal: EngineFence, findings: &mut Findings) -> Option<Work> {
        let is_paging = self.is_paging(signal);
        let engine = self.engines.get_mut(signal.engine as usize)?;
        let was_there = engine.in_flight.contains(&signal.fence_id) || engine.returned.contains(&signal.fence_id);
        findings.check(was_there, Invariant::I30, || {
            format!("packet {} of engine {} is aborted, but is not under way", signal.fence_id, signal.engine)
        });
        let is_first = engine.in_flight.front() == Some(&signal.fence_id);
        engine.in_flight.retain(|&packet| packet != signal.fence_id);
        engine.returned.retain(|&packet| packet != signal.fence_id);
        // An event that plans wait for has not happened.
        if is_first && !is_paging {
            engine.completed = signal.fence_id.max(engine.completed);
        }
        self.work.remove(&signal)
    }
}
