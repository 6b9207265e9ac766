//! The worker: the thread that owns the manager, the driver and the memory.

mod allocations;
mod calls;
mod ends;
mod limit;
mod room;
mod vacating;

use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender};
use std::time::{Duration, Instant};

use vidmm::contract::Packet;
use vidmm::policy::PolicyChoice;
use vidmm::{AllocationId, ContextId, DeviceId, Nanoseconds, Output, PAGE_SIZE, VidMm};

use crate::block::Block;
use crate::device::{Batch, Mark, Point, VulkanDevice};
use crate::error::{VulkanError, caught};
use crate::memory::{Chunks, VulkanMemory};
use crate::sparse::SparseResource;

use super::client::Status;
use super::command::{Command, Trim, Turn};
use super::driver::{DirectKmd, LOCAL_SEGMENT, PAGING_ENGINE};
use super::error::Error;
use super::host::BackingStore;
use super::names::Names;
use super::objects::Objects;
use super::options::{Checked, manager_options};
use super::paging::Paging;
use super::resources::ResourceRecord;
use super::staging::Staging;
use super::turns::{After, Begun, End, Turns};
use super::watcher::Watcher;
use limit::{GLANCE, LocalLimit};
use vacating::Vacating;

/// How long the worker waits for the queue, and for the last uses when it is to end.
const PATIENCE: Duration = Duration::from_secs(120);

/// A resource or memory that is to be destroyed when nothing that was submitted uses it any more.
enum Retired {
    Resource(SparseResource),
    Block(Block),
}

impl Retired {
    fn destroy_unused(self) {
        match self {
            Self::Resource(resource) => resource.destroy_unused(),
            Self::Block(block) => block.destroy_unused(),
        }
    }
}

/// The worker's state. Fields are dropped in their order: threads that wait, then memory.
pub(super) struct Worker {
    commands: Receiver<Command>,
    paging_ends: Watcher,
    use_ends: Watcher,
    vidmm: VidMm,
    kmd: DirectKmd,
    paging: Paging,
    host: BackingStore,
    /// Paging buffers that were not submitted.
    paging_queue: VecDeque<Packet>,
    turns: Turns,
    /// The last fence of the paging engine whose packet the queue has got.
    submitted: u64,
    /// The last fence of the paging engine of which the manager was told.
    completed: u64,
    /// The number of the request to the paging engine to yield.
    preempting: Option<u64>,
    objects: Objects,
    /// Resources and memory that are gone, and when nothing uses them any more.
    graveyard: VecDeque<(Mark, Retired)>,
    limit: LocalLimit,
    vacating: Vacating,
    policy: PolicyChoice,
    names: Arc<Names>,
    staging: Staging,
    /// The last points of semaphores whose devices are gone.
    free_points: Vec<Point>,
    device: Arc<VulkanDevice>,
    started: Instant,
    /// When the queue last had nothing to do, or ended something.
    progress: Instant,
    stopping: Option<Instant>,
}

/// The body of the worker's thread: says whether the adapter has started, and works until nobody uses it.
pub(super) fn run(
    device: Arc<VulkanDevice>,
    names: Arc<Names>,
    options: Checked,
    commands: Receiver<Command>,
    to_self: Sender<Command>,
    status: &Status,
    started: &Sender<Result<(), Error>>,
) {
    let mut worker = match Worker::new(device, names, options, commands, to_self) {
        Ok(worker) => worker,
        Err(error) => {
            let _ = started.send(Err(error));
            return;
        }
    };
    // The caller of `Adapter::start` waits for this answer.
    let _ = started.send(Ok(()));
    let ended = caught(|| worker.work()).map_err(Error::from).and_then(|worked| worked);
    if let Err(error) = ended {
        let reason = match error {
            Error::Lost(reason) => reason,
            error => error.to_string(),
        };
        status.lose(reason);
        worker.release_all();
    }
}

impl Worker {
    fn new(
        device: Arc<VulkanDevice>,
        names: Arc<Names>,
        options: Checked,
        commands: Receiver<Command>,
        to_self: Sender<Command>,
    ) -> Result<Self, Error> {
        let memory = VulkanMemory::new(device.clone(), [LOCAL_SEGMENT], options.rules(), Chunks::Reserved)?;
        let memory = Rc::new(RefCell::new(memory));
        let mut kmd = DirectKmd::new(options.local(), options.aperture());
        let mut host = BackingStore::new(memory.clone(), options.system());
        let vidmm = VidMm::start_adapter(manager_options(options.policy()), &mut kmd, &mut host)?;
        let now = Instant::now();
        Ok(Self {
            commands,
            paging_ends: Watcher::new(device.clone(), to_self.clone(), || Command::PagingEnded)?,
            use_ends: Watcher::new(device.clone(), to_self, || Command::UseEnded)?,
            vidmm,
            kmd,
            paging: Paging::new(device.clone(), memory),
            host,
            paging_queue: VecDeque::new(),
            turns: Turns::default(),
            submitted: 0,
            completed: 0,
            preempting: None,
            objects: Objects::default(),
            graveyard: VecDeque::new(),
            limit: LocalLimit::new(options.local(), now),
            vacating: Vacating::default(),
            policy: options.policy(),
            names,
            staging: Staging::new(device.clone()),
            free_points: Vec::new(),
            device,
            started: now,
            progress: now,
            stopping: None,
        })
    }

    fn now(&self) -> Nanoseconds {
        u64::try_from(self.started.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }

    fn work(&mut self) -> Result<(), Error> {
        loop {
            self.glance_at_others();
            self.pump()?;
            self.give_memory_back()?;
            if self.is_over() {
                return Ok(());
            }
            match self.commands.recv_timeout(self.pause()) {
                Ok(command) => self.handle(command)?,
                Err(RecvTimeoutError::Timeout) => self.check_progress()?,
                // The watchers have a sender each.
                Err(RecvTimeoutError::Disconnected) => return Ok(()),
            }
            while let Ok(command) = self.commands.try_recv() {
                self.handle(command)?;
            }
        }
    }

    /// How long nothing needs to be done if nothing happens.
    fn pause(&self) -> Duration {
        let wake = self.vidmm.next_wake().map(|at| Duration::from_nanos(at.saturating_sub(self.now())));
        let glance = if self.device.report().says_budgets() { GLANCE } else { PATIENCE };
        wake.map_or(glance, |wake| wake.min(glance))
    }

    fn is_over(&self) -> bool {
        let is_idle = self.objects.processes.is_empty() && self.paging.is_idle() && self.paging_queue.is_empty();
        self.stopping.is_some_and(|since| is_idle || since.elapsed() >= PATIENCE)
    }

    fn check_progress(&mut self) -> Result<(), Error> {
        if self.paging.is_idle() {
            self.progress = Instant::now();
        }
        match self.progress.elapsed() >= PATIENCE {
            true => Err(VulkanError::TimedOut { seconds: PATIENCE.as_secs() }.into()),
            false => Ok(()),
        }
    }

    /// Does all that can be done without waiting.
    fn pump(&mut self) -> Result<(), Error> {
        loop {
            let now = self.now();
            while let Some(output) = self.vidmm.poll(now, &mut self.kmd, &mut self.host) {
                self.carry_out(output)?;
            }
            let has_paged = self.end_paging()? | self.page()?;
            let has_begun = self.begin_turns()?;
            let has_ended = self.end_uses()?;
            if !(has_paged || has_begun || has_ended || self.yield_engine()) {
                break;
            }
        }
        while let Some(&(mark, _)) = self.graveyard.front() {
            if !self.device.has_reached(mark)? {
                break;
            }
            if let Some((_, retired)) = self.graveyard.pop_front() {
                retired.destroy_unused();
            }
        }
        Ok(())
    }

    fn carry_out(&mut self, output: Output) -> Result<(), Error> {
        match output {
            // Only the paging engine is given packets: applications run what they use by themselves.
            Output::Submit(packet) => self.paging_queue.push_back(packet),
            Output::UseBegun { context, number, waits } => self.turns.let_begin(Begun { context, number, waits }),
            Output::PagingFenceSignaled { queue, value } => {
                let device = self.objects.queues.get(&queue).and_then(|device| self.objects.devices.get_mut(device));
                let Some(record) = device else { return Ok(()) };
                record.reach(&self.device, value)?;
            }
            Output::AllocationReclaimed { allocation } => self.bury(allocation)?,
            Output::TrimNotification { device, flags, group, num_bytes_to_trim, .. } => {
                let Some(record) = self.objects.devices.get_mut(&device) else { return Ok(()) };
                let trimmed = match &mut record.frames {
                    Some(frames) => {
                        let listed = self.objects.resources.listed_and_managed(device);
                        frames.trim(&mut self.vidmm, flags, group, num_bytes_to_trim, &listed)
                    }
                    None => Ok(0),
                };
                // The worker alone evicts what frames have brought in.
                let trimmed = trimmed.map_err(|error| Error::Lost(error.to_string()))?;
                if let Some(call) = &mut record.on_trim {
                    call(Trim { flags, group, num_bytes_to_trim: num_bytes_to_trim.saturating_sub(trimmed) });
                }
            }
            Output::PreemptCommand { preemption_fence_id, .. } => self.preempting = Some(preemption_fence_id),
            Output::DeviceInError(error) => return Err(Error::Lost(error.to_string())),
            Output::AdapterInError(violation) => return Err(Error::Lost(violation.to_string())),
            Output::ResetEngine { .. } | Output::ResetFromTimeout | Output::RestartFromTimeout => {
                return Err(Error::Lost(
                    "the manager has asked for a reset, which a Vulkan device cannot do".to_owned(),
                ));
            }
            // Fences and notifications that nothing here asks for.
            Output::MonitoredFenceSignaled { .. } | Output::BudgetChanged { .. } | Output::PoweredDown => {}
        }
        Ok(())
    }

    /// Tells the manager of paging buffers that have ended.
    fn end_paging(&mut self) -> Result<bool, Error> {
        let mut has_ended = false;
        while let Some((signal, buffer)) = self.paging.take_ended()? {
            self.completed = signal.fence_id;
            self.vidmm.handle_completed(signal, buffer);
            self.progress = Instant::now();
            has_ended = true;
        }
        Ok(has_ended)
    }

    /// Submits paging buffers, and behind them the points of the requests that they carry out.
    fn page(&mut self) -> Result<bool, Error> {
        let mut has_paged = false;
        while self.preempting.is_none() {
            // Paging waits for paging by the order of the queue alone.
            let Some(packet) = self.paging_queue.pop_front() else { break };
            if self.paging.is_idle() {
                self.progress = Instant::now();
            }
            self.submitted = packet.signal.fence_id;
            let end = self.paging.execute(packet)?;
            self.paging_ends.watch(self.device.points(end));
            has_paged = true;
        }
        if has_paged {
            self.reach_requests()?;
        }
        Ok(has_paged)
    }

    /// Lets the queue reach the points of requests whose last paging buffer it has got: nobody waits for the manager to hear of its end.
    fn reach_requests(&mut self) -> Result<(), Error> {
        for record in self.objects.devices.values_mut() {
            while let Some(&(value, _)) = record.requests.front() {
                // The queue lives as long as its device.
                let end = self.vidmm.paging_fence_end(record.queue, value).ok().flatten();
                if end.is_none_or(|end| end.fence_id > self.submitted) {
                    break;
                }
                record.reach(&self.device, value)?;
            }
        }
        Ok(())
    }

    /// Lets uses have their turn that the queue gets behind the paging that they wait for.
    fn begin_turns(&mut self) -> Result<bool, Error> {
        let mut has_begun = false;
        let submitted = self.submitted;
        while let Some((begun, device, turn)) = self.turns.next(|wait| wait.fence_id <= submitted) {
            self.begin(&begun, device, turn)?;
            has_begun = true;
        }
        Ok(has_begun)
    }

    /// It is the turn of a use.
    fn begin(&mut self, begun: &Begun, device: DeviceId, turn: Turn) -> Result<(), Error> {
        let Some(record) = self.objects.devices.get_mut(&device) else {
            return Err(Error::Lost("a device was destroyed before its uses ended".to_owned()));
        };
        let mut until = |value| {
            record.done.value = value;
            record.done
        };
        let (end, after) = match turn {
            Turn::Application { number, ready } => {
                record.ready.come(&self.device, ready)?;
                (End::Untold(number), After::Nothing)
            }
            Turn::Submit { mut work, done } => {
                let done = until(done);
                work.signals.push(done);
                let (commands, waits, signals) = (&work.commands, &work.waits, &work.signals);
                self.device.submit(Batch { commands, waits, signals, uses_addresses: true })?;
                (End::At(Some(done)), After::Nothing)
            }
            Turn::Write { buffer, offset, bytes, done } => {
                let done = until(done);
                let mut block = self.staging.take(bytes.len() as u64)?;
                block.write(&bytes);
                self.copy(buffer, offset, bytes.len() as u64, &block, true, done)?;
                (End::At(Some(done)), After::Recycle(block))
            }
            Turn::Read { buffer, offset, bytes, done, to } => {
                let done = until(done);
                let block = self.staging.take(bytes)?;
                self.copy(buffer, offset, bytes, &block, false, done)?;
                (End::At(Some(done)), After::Deliver(block, bytes as usize, to))
            }
        };
        self.turns.begin(begun, device, end, after);
        Ok(())
    }

    /// Copies between a block and a buffer whose turn it is.
    fn copy(
        &self,
        buffer: AllocationId,
        offset: u64,
        bytes: u64,
        block: &Block,
        is_write: bool,
        done: Point,
    ) -> Result<(), Error> {
        let not_there = || Error::Lost(format!("{buffer} is resident and has no memory"));
        let &ResourceRecord { process, first, .. } = self.objects.resources.get(buffer).ok_or_else(not_there)?;
        let mut memory = self.paging.memory().borrow_mut();
        let copied = memory.copy_mapped(process, first * PAGE_SIZE + offset, bytes, block, is_write)?;
        if copied < bytes {
            return Err(not_there());
        }
        memory.recorder.submit()?;
        self.device.submit(Batch { signals: &[done], ..Batch::default() })?;
        Ok(())
    }

    /// Tells the manager of uses that have ended: of each device in the order of their turns.
    fn end_uses(&mut self) -> Result<bool, Error> {
        let mut has_ended = false;
        for context in self.turns.contexts() {
            while self.has_first_ended(context)? {
                self.end_first_use(context)?;
                has_ended = true;
            }
        }
        Ok(has_ended)
    }

    /// Whether the first use of a context that has its turn has ended, which the manager hears after the end of the paging that the use
    /// waited for. If not, a thread waits for that.
    fn has_first_ended(&mut self, context: ContextId) -> Result<bool, Error> {
        let Some((end, paging)) = self.turns.first_end(context) else { return Ok(false) };
        let has_ended = match *end {
            End::Untold(_) => false,
            End::At(None) => true,
            End::At(Some(point)) | End::Watched(point) => {
                let is_reached = self.device.wait_points(&[point], 0)?;
                if !is_reached && *end == End::At(Some(point)) {
                    *end = End::Watched(point);
                    self.use_ends.watch([point]);
                }
                is_reached
            }
        };
        if has_ended && paging > self.completed {
            self.end_paging()?;
        }
        Ok(has_ended && paging <= self.completed)
    }

    fn end_first_use(&mut self, context: ContextId) -> Result<(), Error> {
        let Some(ended) = self.turns.end_first(context) else { return Ok(()) };
        if let Some(point) = ended.elsewhere {
            self.device.see(point);
        }
        match ended.after {
            After::Nothing => {}
            After::Recycle(block) => self.staging.give(block),
            After::Deliver(block, bytes, to) => {
                // The application may have dropped its download.
                let _ = to.send(block.read(bytes));
                self.staging.give(block);
            }
        }
        self.vidmm.end_use(context, ended.number).map_err(|error| Error::Lost(error.to_string()))?;
        if let Some(record) = self.objects.devices.get_mut(&ended.device) {
            record.uses.fetch_sub(1, Ordering::Relaxed);
            if let Some(frames) = &mut record.frames {
                frames.ended(ended.number);
            }
        }
        self.close_device(ended.device)
    }

    /// The paging engine yields, if it is asked to, once it runs nothing: what it has not begun goes back.
    fn yield_engine(&mut self) -> bool {
        let Some(number) = self.preempting.take_if(|_| self.paging.is_idle()) else { return false };
        let returned = self.paging_queue.drain(..).map(|packet| (packet.signal.fence_id, packet.buffer)).collect();
        self.vidmm.handle_preempted(PAGING_ENGINE, number, self.completed, returned);
        true
    }

    /// The adapter is lost: nobody is to wait for ever.
    fn release_all(&mut self) {
        for record in self.objects.devices.values_mut() {
            // On a device that is lost all waits are over anyway.
            let _ = record.ready.release(&self.device);
        }
    }
}
