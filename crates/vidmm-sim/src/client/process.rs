//! The objects of a process: a device, a paging queue, and a context on each kind of engine.

use std::collections::{BTreeMap, VecDeque};

use vidmm::contract::{EngineKind, Kmd};
use vidmm::{
    AllocationId, ContextId, CreateError, CreateMonitoredFenceDesc, DeviceId, EvictFlags, InvalidHandle,
    MonitoredFenceId, Nanoseconds, PagingQueueId, PriorityBand, ProcessId, SubmissionNo, VidMm, Visibility,
};
use vidmm_runtime::{PageRange, Runtime};
use vidmm_trace::Engine;

use super::desc::{ClientDesc, ResidencyPolicy};
use super::error::{ClientError, refused};
use super::kept::Kept;
use super::list::{DeviceList, EachKernel, ListKeeper};
use super::models::model;
use crate::features::engine_for;

/// A process of the workload at work.
pub(super) struct Process {
    pub desc: ClientDesc,
    pub id: ProcessId,
    pub device: DeviceId,
    pub queue: PagingQueueId,
    pub engines: [EngineQueue; 2],
    /// The engines that run its kernels.
    ordinals: [u32; 2],
    pub list: Box<dyn ListKeeper>,
    /// Its kernels, and the numbers of those that are submitted and ended.
    pub kernels: Vec<u32>,
    pub submitted: usize,
    pub ended: usize,
    /// The kernels under way, by the number of the submission.
    pub running: BTreeMap<SubmissionNo, usize>,
    /// Kernels up to this one were submitted to a device that is in error; when they run again they have other numbers.
    pub renumbered: usize,
    /// The numbers of kernels under way.
    pub numbers: BTreeMap<usize, usize>,
    /// The time of its next mistake; none while one is under way.
    pub next_misdeed: Option<Nanoseconds>,
    /// The engine of each kernel that has not ended, or follows one that has not, and the fence value that it signals
    /// there.
    pub under_way: VecDeque<(usize, u64)>,
    /// All kernels up to this one, counted from 1, must have ended before the next is prepared.
    pub waits_for: u64,
    /// Whether the buffers that exist from its start on have been created.
    pub started: bool,
    /// Offered allocations by the size that was asked for, the last offered last.
    pub spares: BTreeMap<u64, Vec<Spare>>,
    /// The start of its wait for memory, and the bytes that it waits for.
    pub waits: Option<(Nanoseconds, u64)>,
    /// The time that it waited for memory, in nanoseconds.
    pub waited_ns: Nanoseconds,
    /// The delay of all arrivals against the workload.
    pub delay: Nanoseconds,
    /// The time since which it is minimised, if it is paced.
    pub paused_at: Option<Nanoseconds>,
    /// The arrival time of each kernel that was submitted.
    pub arrivals: Vec<Nanoseconds>,
    pub answers: Vec<Answer>,
    pub has_exited: bool,
}

/// A device with its paging queue, and a context on each engine.
pub(super) struct DeviceObjects {
    pub device: DeviceId,
    pub queue: PagingQueueId,
    pub engines: [EngineQueue; 2],
}

/// A context with the fence that counts its kernels.
pub(super) struct EngineQueue {
    pub context: ContextId,
    pub fence: MonitoredFenceId,
    pub submitted: u64,
    pub ended: u64,
}

/// The work of a process for kernels that arrived together: a frame, or the answer to a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Answer {
    pub arrived_at: Nanoseconds,
    /// The time at which the last of its kernels ended.
    pub ended_at: Nanoseconds,
}

impl Answer {
    /// Its duration in nanoseconds.
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

/// The index of an engine's queue among a process's.
pub(super) fn slot(engine: Engine) -> usize {
    match engine {
        Engine::Compute => 0,
        Engine::Copy => 1,
    }
}

impl Process {
    pub fn new(runtime: &mut Runtime, engines: &[EngineKind], desc: &ClientDesc) -> Result<Self, ClientError> {
        let ordinal = |kind| engine_for(engines, kind).ok_or(ClientError::NoEngine(kind));
        let ordinals = [ordinal(ENGINES[0].1)?, ordinal(ENGINES[1].1)?];
        let create = |error: CreateError| refused(0, "create", error);
        let (vidmm, kmd, host) = runtime.borrow();
        let process = vidmm.create_process(kmd, host).map_err(create)?;
        let DeviceObjects { device, queue, engines } =
            DeviceObjects::new(vidmm, kmd, process, ordinals).map_err(create)?;
        if (desc.band, desc.visibility) != (PriorityBand::default(), Visibility::default()) {
            let set = vidmm.set_process_priority(process, desc.band, desc.visibility);
            set.expect("the process was just created");
        }
        let list = keeper(desc.residency);
        if list.wants_trim_notifications() {
            vidmm.register_trim_notification(device).map_err(create)?;
        }
        Ok(Self {
            desc: desc.clone(),
            id: process,
            device,
            queue,
            engines,
            ordinals,
            list,
            kernels: Vec::new(),
            submitted: 0,
            ended: 0,
            running: BTreeMap::new(),
            renumbered: 0,
            numbers: BTreeMap::new(),
            next_misdeed: desc.misbehaviour.map(|misbehaviour| desc.start + misbehaviour.every),
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

    /// Lends the process's list to its keeper.
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

    /// The number of kernels, from the first on, that have all ended.
    pub fn completed(&self) -> u64 {
        (self.submitted - self.under_way.len()) as u64
    }

    /// Records that a fence has reached `value`. Returns whether it is the fence of one of the process's engines.
    pub fn fence_signaled(&mut self, fence: MonitoredFenceId, value: u64) -> bool {
        let Some(engine) = self.engines.iter_mut().find(|engine| engine.fence == fence) else { return false };
        // A device in error signals the maximum. No kernel has ended by that, unless the process has exited.
        if value == u64::MAX && !self.has_exited {
            return true;
        }
        let value = value.min(engine.submitted);
        self.ended += (value - engine.ended) as usize;
        engine.ended = value;
        while self.under_way.front().is_some_and(|&(engine, value)| self.engines[engine].ended >= value) {
            self.under_way.pop_front();
        }
        let completed = self.completed() as usize;
        self.numbers = self.numbers.split_off(&completed);
        while self.running.first_entry().is_some_and(|entry| *entry.get() < completed) {
            self.running.pop_first();
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

    /// Records a refusal of that many bytes.
    pub fn waits(&mut self, now: Nanoseconds, num_bytes: u64) {
        let since = self.waits.map_or(now, |(since, _)| since);
        self.waits = Some((since, num_bytes));
    }

    /// Records the end of the wait.
    pub fn goes_on(&mut self, now: Nanoseconds) {
        if let Some((since, _)) = self.waits.take() {
            self.waited_ns += now - since;
        }
    }

    /// Gives up its device for another one.
    pub fn replace_device(&mut self, runtime: &mut Runtime) -> Result<(), CreateError> {
        let (vidmm, kmd, host) = runtime.borrow();
        let DeviceObjects { device, queue, engines } = DeviceObjects::new(vidmm, kmd, self.id, self.ordinals)?;
        self.list = keeper(self.desc.residency);
        if self.list.wants_trim_notifications() {
            vidmm.register_trim_notification(device)?;
        }
        vidmm.destroy_device(kmd, host, self.device)?;
        (self.device, self.queue, self.engines) = (device, queue, engines);
        Ok(())
    }

    /// Ends it.
    pub fn destroy(&self, runtime: &mut Runtime) -> Result<(), InvalidHandle> {
        let (vidmm, kmd, host) = runtime.borrow();
        vidmm.destroy_process(kmd, host, self.id)
    }
}

impl DeviceObjects {
    fn new(vidmm: &mut VidMm, kmd: &mut dyn Kmd, process: ProcessId, ordinals: [u32; 2]) -> Result<Self, CreateError> {
        let device = vidmm.create_device(process)?;
        let queue = vidmm.create_paging_queue(device, 0)?;
        let mut engine_queue = |ordinal| {
            let context = vidmm.create_context(kmd, device, ordinal)?;
            let fence = CreateMonitoredFenceDesc { device: Some(device), initial_fence_value: 0 };
            let fence = vidmm.create_monitored_fence(fence)?;
            Ok::<_, CreateError>(EngineQueue { context, fence, submitted: 0, ended: 0 })
        };
        let engines = [engine_queue(ordinals[0])?, engine_queue(ordinals[1])?];
        Ok(Self { device, queue, engines })
    }
}

/// The keeper for a policy.
fn keeper(policy: ResidencyPolicy) -> Box<dyn ListKeeper> {
    match policy {
        ResidencyPolicy::EachKernel => Box::new(EachKernel { flags: EvictFlags::EVICT_ONLY_IF_NECESSARY }),
        ResidencyPolicy::EvictedAtOnce => Box::new(EachKernel { flags: EvictFlags::empty() }),
        ResidencyPolicy::Kept => Box::new(Kept::default()),
        ResidencyPolicy::Modelled(kind) => model(kind),
    }
}
