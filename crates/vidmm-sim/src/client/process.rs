//! The objects of a process: a device, a paging queue, and a context on each kind of engine.

use std::collections::{BTreeMap, VecDeque};

use vidmm::contract::EngineKind;
use vidmm::{
    AllocationId, ContextId, CreateError, DestroyError, DeviceId, EvictFlags, MonitoredFenceId, Nanoseconds,
    PagingQueueId, PriorityBand, ProcessId, Visibility,
};
use vidmm_runtime::{PageRange, Runtime};
use vidmm_trace::Engine;

use super::{
    desc::{ClientDesc, ResidencyPolicy},
    error::{ClientError, refused},
    kept::Kept,
    list::{DeviceList, EachKernel, ListKeeper},
    models::model,
};

/// A process of the workload at work.
pub(super) struct Process {
    pub desc: ClientDesc,
    pub id: ProcessId,
    pub device: DeviceId,
    pub queue: PagingQueueId,
    pub engines: [EngineQueue; 2],
    pub list: Box<dyn ListKeeper>,
    /// Its kernels, and how many are submitted and ended.
    pub kernels: Vec<u32>,
    pub submitted: usize,
    pub ended: usize,
    /// The engine of each kernel that has not ended, or waits for one before it that has not, and what it signals there.
    pub under_way: VecDeque<(usize, u64)>,
    /// Up to this kernel, counted from 1, all must have ended before the next is prepared.
    pub waits_for: u64,
    /// Whether the buffers that exist from its start on have been created.
    pub started: bool,
    /// Offered allocations by the size that was asked for, the last offered last.
    pub spares: BTreeMap<u64, Vec<Spare>>,
    /// Since when it waits for memory, and for how many bytes.
    pub waits: Option<(Nanoseconds, u64)>,
    /// How long it waited for memory, in nanoseconds.
    pub waited_ns: Nanoseconds,
    /// How much later than its workload says everything arrives.
    pub delay: Nanoseconds,
    /// Since when it is minimised, if it is paced.
    pub paused_at: Option<Nanoseconds>,
    /// When each kernel that was submitted had arrived.
    pub arrivals: Vec<Nanoseconds>,
    pub answers: Vec<Answer>,
    pub has_exited: bool,
}

/// A context with the fence that counts its kernels.
pub(super) struct EngineQueue {
    pub context: ContextId,
    pub fence: MonitoredFenceId,
    pub submitted: u64,
    pub ended: u64,
}

/// What a process did for kernels that arrived together: a frame, or the answer to a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Answer {
    pub arrived_at: Nanoseconds,
    /// When the last of its kernels ended.
    pub ended_at: Nanoseconds,
}

impl Answer {
    /// How long it took, in nanoseconds.
    pub fn ns(self) -> Nanoseconds {
        self.ended_at - self.arrived_at
    }
}

/// An allocation that is offered, and can be reclaimed for another buffer of its size.
#[derive(Clone, Copy)]
pub(super) struct Spare {
    pub allocation: AllocationId,
    pub mapping: PageRange,
    /// The value of each engine's fence after the last kernel that named it.
    pub last_access: [u64; 2],
}

const ENGINES: [(Engine, EngineKind); 2] = [(Engine::Compute, EngineKind::Render3d), (Engine::Copy, EngineKind::Copy)];

/// Where an engine's queue is among a process's.
pub(super) fn slot(engine: Engine) -> usize {
    match engine {
        Engine::Compute => 0,
        Engine::Copy => 1,
    }
}

impl Process {
    pub fn new(runtime: &mut Runtime, engines: &[EngineKind], desc: &ClientDesc) -> Result<Self, ClientError> {
        let ordinal = |kind| {
            let at = engines.iter().position(|&engine| engine == kind);
            at.map(|at| at as u32).ok_or(ClientError::NoEngine(kind))
        };
        let ordinals = [ordinal(ENGINES[0].1)?, ordinal(ENGINES[1].1)?];
        let create = |error: CreateError| refused(0, "create", error);
        let (vidmm, kmd, host) = runtime.borrow();
        let process = vidmm.create_process(kmd, host).map_err(create)?;
        let device = vidmm.create_device(process).map_err(create)?;
        let queue = vidmm.create_paging_queue(device, 0).map_err(create)?;
        let mut engine_queue = |ordinal| {
            let context = vidmm.create_context(kmd, device, ordinal).map_err(create)?;
            Ok(EngineQueue { context, fence: vidmm.create_monitored_fence(0), submitted: 0, ended: 0 })
        };
        let engines = [engine_queue(ordinals[0])?, engine_queue(ordinals[1])?];
        if (desc.band, desc.visibility) != (PriorityBand::default(), Visibility::default()) {
            let set = vidmm.set_process_priority(process, desc.band, desc.visibility);
            set.expect("the process was just created");
        }
        let list: Box<dyn ListKeeper> = match desc.residency {
            ResidencyPolicy::EachKernel => Box::new(EachKernel { flags: EvictFlags::EVICT_ONLY_IF_NECESSARY }),
            ResidencyPolicy::EvictedAtOnce => Box::new(EachKernel { flags: EvictFlags::empty() }),
            ResidencyPolicy::Kept => Box::new(Kept::default()),
            ResidencyPolicy::Modelled(kind) => model(kind),
        };
        if list.wants_trim_notifications() {
            vidmm.register_trim_notification(device).map_err(create)?;
        }
        Ok(Self {
            desc: desc.clone(),
            id: process,
            device,
            queue,
            engines,
            list,
            kernels: Vec::new(),
            submitted: 0,
            ended: 0,
            under_way: VecDeque::new(),
            waits_for: 0,
            started: false,
            spares: BTreeMap::new(),
            waits: None,
            waited_ns: 0,
            delay: 0,
            paused_at: None,
            arrivals: Vec::new(),
            answers: Vec::new(),
            has_exited: false,
        })
    }

    /// Lets the keeper of the process's list do something.
    pub fn with_list<T>(
        &mut self,
        runtime: &mut Runtime,
        act: impl FnOnce(&mut dyn ListKeeper, &mut DeviceList<'_>) -> T,
    ) -> T {
        let (completed, submitted, now) = (self.completed(), self.submitted as u64, runtime.now());
        let Self { id: process, device, queue, .. } = *self;
        act(
            &mut *self.list,
            &mut DeviceList { vidmm: runtime.vidmm(), process, device, queue, now, completed, submitted },
        )
    }

    /// The kernels up to this one, counted from 1, have ended.
    pub fn completed(&self) -> u64 {
        (self.submitted - self.under_way.len()) as u64
    }

    /// The fence of one of its engines has reached `value`, if it is its own. Returns whether it is.
    pub fn fence_signaled(&mut self, fence: MonitoredFenceId, value: u64) -> bool {
        let Some(engine) = self.engines.iter_mut().find(|engine| engine.fence == fence) else { return false };
        // A device in error signals the maximum.
        let value = value.min(engine.submitted);
        self.ended += (value - engine.ended) as usize;
        engine.ended = value;
        while self.under_way.front().is_some_and(|&(engine, value)| self.engines[engine].ended >= value) {
            self.under_way.pop_front();
        }
        true
    }

    /// Whether kernels of it are submitted and not ended.
    pub fn is_busy(&self) -> bool {
        self.ended < self.submitted
    }

    /// Whether all its kernels have ended.
    pub fn is_done(&self) -> bool {
        self.ended == self.kernels.len()
    }

    /// It was refused that many bytes.
    pub fn waits(&mut self, now: Nanoseconds, num_bytes: u64) {
        let since = self.waits.map_or(now, |(since, _)| since);
        self.waits = Some((since, num_bytes));
    }

    /// It has what it waited for.
    pub fn goes_on(&mut self, now: Nanoseconds) {
        if let Some((since, _)) = self.waits.take() {
            self.waited_ns += now - since;
        }
    }

    pub fn destroy(&self, runtime: &mut Runtime) -> Result<(), DestroyError> {
        let (vidmm, kmd, host) = runtime.borrow();
        for engine in &self.engines {
            vidmm.destroy_context(kmd, engine.context)?;
            vidmm.destroy_monitored_fence(engine.fence)?;
        }
        vidmm.destroy_paging_queue(self.queue)?;
        vidmm.destroy_device(self.device)?;
        vidmm.destroy_process(kmd, host, self.id)
    }
}
