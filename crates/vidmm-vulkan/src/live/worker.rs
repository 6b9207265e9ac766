//! The worker: the thread that owns the manager, the driver and the memory.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender};
use std::time::{Duration, Instant};

use ash::vk;
use vidmm::contract::{AllocationFlags, AllocationFlags2, Packet};
use vidmm::{
    AllocationId, DestroyFlags, DeviceId, MakeResidentFlags, MapGpuVirtualAddress, Nanoseconds, OfferFlags, Output,
    PAGE_SIZE, ProcessId, ReclaimResult, Reclaimed, Residency, SubmitDesc, VidMm,
};
use vidmm_runtime::{AllocationSegments, Placement};
use vidmm_soft::{AllocationPrivateData, CostModel, PAGING_ENGINE, RENDER_ENGINE, SoftKmd};

use crate::device::{Batch, Point, VulkanDevice};
use crate::error::{VulkanError, caught};
use crate::host::VulkanHost;
use crate::machine::Parts;
use crate::memory::{Chunks, VulkanMemory};
use crate::sparse::SparseBuffer;

use super::client::Status;
use super::command::{Command, NewBuffer, NewDevice, Trim, Turn};
use super::error::Error;
use super::objects::{BufferRecord, DeviceRecord, Objects, ProcessRecord, Ready};
use super::options::{Sizes, manager_options};
use super::paging::Paging;
use super::staging::Staging;
use super::turns::{After, End, Turns};
use super::watcher::Watcher;

/// How long the worker waits for the queue, and for the last uses when it is to end.
const PATIENCE: Duration = Duration::from_secs(120);

/// The worker's state. Fields are dropped in their order: threads that wait, then memory.
pub(super) struct Worker {
    commands: Receiver<Command>,
    paging_ends: Watcher,
    use_ends: Watcher,
    vidmm: VidMm,
    kmd: SoftKmd,
    paging: Paging,
    host: VulkanHost,
    /// Paging buffers that wait for a use to end.
    paging_queue: VecDeque<Packet>,
    turns: Turns,
    /// The last fence of each engine of which the manager was told.
    completed: [u64; 2],
    /// Engines that are to yield, and the number of the request.
    preempting: BTreeMap<u32, u64>,
    objects: Objects,
    /// Buffers that are gone, and the value of the timeline from which on nothing uses them.
    graveyard: VecDeque<(u64, SparseBuffer)>,
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
    sizes: Sizes,
    commands: Receiver<Command>,
    to_self: Sender<Command>,
    status: &Status,
    started: &Sender<Result<(), Error>>,
) {
    let mut worker = match Worker::new(device, sizes, commands, to_self) {
        Ok(worker) => worker,
        Err(error) => {
            let _ = started.send(Err(error));
            return;
        }
    };
    // Whoever asked waits for this answer.
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
        sizes: Sizes,
        commands: Receiver<Command>,
        to_self: Sender<Command>,
    ) -> Result<Self, Error> {
        let config = sizes.config();
        let memory = VulkanMemory::new(device.clone(), &config, device.report().rules(), Chunks::Reserved)?;
        let Parts { mut kmd, gpu, mut host, memory } =
            Parts::new(memory, &config, CostModel::default(), Some(sizes.system()));
        let vidmm = VidMm::start_adapter(manager_options(), &mut kmd, &mut host)?;
        let now = Instant::now();
        Ok(Self {
            commands,
            paging_ends: Watcher::new(device.clone(), to_self.clone(), || Command::PagingEnded)?,
            use_ends: Watcher::new(device.clone(), to_self, || Command::UseEnded)?,
            vidmm,
            kmd,
            paging: Paging::new(device.clone(), gpu, memory, config.layout()),
            host,
            paging_queue: VecDeque::new(),
            turns: Turns::default(),
            completed: [0; 2],
            preempting: BTreeMap::new(),
            objects: Objects::default(),
            graveyard: VecDeque::new(),
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
            self.pump()?;
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
        wake.map_or(PATIENCE, |wake| wake.min(PATIENCE))
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
            let has_paged = self.page()?;
            let has_begun = self.begin_turns()?;
            let has_ended = self.end_uses()?;
            if !(has_paged || has_begun || has_ended || self.yield_engines()) {
                break;
            }
        }
        while let Some(&(value, _)) = self.graveyard.front() {
            if !self.device.has_reached(value)? {
                break;
            }
            if let Some((_, buffer)) = self.graveyard.pop_front() {
                buffer.destroy_unused();
            }
        }
        Ok(())
    }

    fn carry_out(&mut self, output: Output) -> Result<(), Error> {
        match output {
            Output::Submit(packet) if packet.signal.engine == PAGING_ENGINE => self.paging_queue.push_back(packet),
            Output::Submit(packet) => self.turns.queued.push_back(packet),
            Output::PagingFenceSignaled { queue, value } => {
                let device = self.objects.queues.get(&queue).and_then(|device| self.objects.devices.get_mut(device));
                let Some(record) = device else { return Ok(()) };
                while let Some((_, ready)) = record.requests.pop_front_if(|&mut (of, _)| of <= value) {
                    record.ready.come(&self.device, ready)?;
                }
            }
            Output::AllocationReclaimed { allocation } => self.bury(allocation)?,
            Output::TrimNotification { device, flags, num_bytes_to_trim, .. } => {
                let record = self.objects.devices.get_mut(&device);
                if let Some(call) = record.and_then(|record| record.on_trim.as_mut()) {
                    call(Trim { flags, num_bytes_to_trim });
                }
            }
            Output::PreemptCommand { engine, preemption_fence_id } => {
                self.preempting.insert(engine, preemption_fence_id);
            }
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

    fn has_completed(&self, packet: &Packet) -> bool {
        packet.waits.iter().all(|wait| self.completed[wait.engine as usize] >= wait.fence_id)
    }

    /// Submits paging buffers, and tells of those that have ended.
    fn page(&mut self) -> Result<bool, Error> {
        let mut has_paged = false;
        while let Some((signal, buffer)) = self.paging.take_ended()? {
            self.completed[PAGING_ENGINE as usize] = signal.fence_id;
            self.vidmm.handle_completed(signal, buffer);
            self.progress = Instant::now();
            has_paged = true;
        }
        while !self.preempting.contains_key(&PAGING_ENGINE) {
            // Paging waits for paging by the order of the queue alone.
            let may_run = |packet: &Packet| {
                let others = packet.waits.iter().filter(|wait| wait.engine != PAGING_ENGINE);
                others.into_iter().all(|wait| self.completed[wait.engine as usize] >= wait.fence_id)
            };
            if !self.paging_queue.front().is_some_and(may_run) {
                break;
            }
            let Some(packet) = self.paging_queue.pop_front() else { break };
            if self.paging.is_idle() {
                self.progress = Instant::now();
            }
            let value = self.paging.execute(packet)?;
            self.paging_ends.watch(self.device.point(value));
            has_paged = true;
        }
        Ok(has_paged)
    }

    /// Lets uses have their turn whose waits are over.
    fn begin_turns(&mut self) -> Result<bool, Error> {
        let mut has_begun = false;
        while !self.preempting.contains_key(&RENDER_ENGINE) {
            if !self.turns.queued.front().is_some_and(|packet| self.has_completed(packet)) {
                break;
            }
            let Some(packet) = self.turns.queued.pop_front() else { break };
            let Some((device, turn)) = self.turns.take(&packet) else {
                return Err(Error::Lost("the manager has handed out work of nobody".to_owned()));
            };
            self.begin(packet, device, turn)?;
            has_begun = true;
        }
        Ok(has_begun)
    }

    /// It is the turn of a use.
    fn begin(&mut self, packet: Packet, device: DeviceId, turn: Turn) -> Result<(), Error> {
        let Some(record) = self.objects.devices.get_mut(&device) else {
            return Err(Error::Lost("a device was destroyed before its uses ended".to_owned()));
        };
        let mut until = |value| {
            record.done.value = value;
            record.done
        };
        let memory = self.paging.memory();
        let (end, after) = match turn {
            Turn::Application { number, ready } => {
                record.ready.come(&self.device, ready)?;
                (End::Untold(number), After::Nothing)
            }
            Turn::Submit { mut work, done } => {
                let done = until(done);
                work.signals.push(done);
                let (commands, waits, signals) = (&work.commands, &work.waits, &work.signals);
                self.device.submit(Batch { commands, waits, signals })?;
                (End::At(Some(done)), After::Nothing)
            }
            Turn::Write { buffer, offset, bytes, done } => {
                let done = until(done);
                let mut block = self.staging.take(bytes.len() as u64)?;
                block.write(&bytes);
                let recorder = &mut memory.borrow_mut().recorder;
                recorder.copy_buffer((block.buffer(), 0), (buffer, offset), bytes.len() as u64)?;
                recorder.submit_and_signal(&[done])?;
                (End::At(Some(done)), After::Recycle(block))
            }
            Turn::Read { buffer, offset, bytes, done, to } => {
                let done = until(done);
                let block = self.staging.take(bytes)?;
                let recorder = &mut memory.borrow_mut().recorder;
                recorder.copy_buffer((buffer, offset), (block.buffer(), 0), bytes)?;
                recorder.submit_and_signal(&[done])?;
                (End::At(Some(done)), After::Deliver(block, bytes as usize, to))
            }
        };
        self.turns.begin(packet, device, end, after);
        Ok(())
    }

    /// Tells the manager of uses that have ended, in the order of their turns.
    fn end_uses(&mut self) -> Result<bool, Error> {
        let mut has_ended = false;
        while let Some(end) = self.turns.first_end() {
            let point = match *end {
                End::Untold(_) => break,
                End::At(point) => point,
                End::Watched(point) => Some(point),
            };
            if let Some(point) = point
                && !self.device.wait_point(point, 0)?
            {
                if *end == End::At(Some(point)) {
                    *end = End::Watched(point);
                    self.use_ends.watch(point);
                }
                break;
            }
            self.end_first_use()?;
            has_ended = true;
        }
        Ok(has_ended)
    }

    fn end_first_use(&mut self) -> Result<(), Error> {
        let Some(ended) = self.turns.end_first() else { return Ok(()) };
        match ended.after {
            After::Nothing => {}
            After::Recycle(block) => self.staging.give(block),
            After::Deliver(block, bytes, to) => {
                // Nobody may want the bytes any more.
                let _ = to.send(block.read(bytes));
                self.staging.give(block);
            }
        }
        self.completed[RENDER_ENGINE as usize] = ended.signal.fence_id;
        self.vidmm.handle_completed(ended.signal, ended.buffer);
        if let Some(record) = self.objects.devices.get(&ended.device) {
            record.uses.fetch_sub(1, Ordering::Relaxed);
        }
        self.close_device(ended.device)
    }

    /// Engines that were asked to yield do so once they run nothing: what they have not begun goes back.
    fn yield_engines(&mut self) -> bool {
        let idle = [(PAGING_ENGINE, self.paging.is_idle()), (RENDER_ENGINE, self.turns.none_under_way())];
        let mut has_yielded = false;
        for (engine, is_idle) in idle {
            if !is_idle {
                continue;
            }
            let Some(number) = self.preempting.remove(&engine) else { continue };
            let queue = if engine == PAGING_ENGINE { &mut self.paging_queue } else { &mut self.turns.queued };
            let returned = queue.drain(..).map(|packet| (packet.signal.fence_id, packet.buffer)).collect();
            self.vidmm.handle_preempted(engine, number, self.completed[engine as usize], returned);
            has_yielded = true;
        }
        has_yielded
    }

    fn handle(&mut self, command: Command) -> Result<(), Error> {
        match command {
            Command::CreateProcess(reply) => {
                let _ = reply.send(self.create_process());
            }
            Command::DestroyProcess(process) => {
                if let Some(record) = self.objects.processes.get_mut(&process) {
                    record.is_closing = true;
                }
                self.close_process(process);
            }
            Command::CreateDevice { process, uses, reply } => {
                let _ = reply.send(self.create_device(process, uses));
            }
            Command::DestroyDevice(device) => {
                if let Some(record) = self.objects.devices.get_mut(&device) {
                    record.is_closing = true;
                }
                self.close_device(device)?;
            }
            Command::CreateBuffer { device, bytes, usage, reply } => {
                let _ = reply.send(self.create_buffer(device, bytes, usage));
            }
            Command::DestroyBuffer(buffer) => {
                // The worker alone destroys allocations, each once.
                let _ = self.vidmm.destroy_allocation(&mut self.host, buffer, DestroyFlags::SYNCHRONOUS_DESTROY);
            }
            Command::MakeResident { device, buffers, flags, ready, reply } => {
                let made = self.make_resident(device, &buffers, flags, ready)?;
                let _ = reply.send(made);
            }
            Command::Evict { device, buffers, flags } => {
                // The application's own list was looked at before.
                self.vidmm.evict(device, &buffers, flags).map_err(|error| Error::Lost(error.to_string()))?;
            }
            Command::Offer { device, buffers, priority, reply } => {
                let offered = self.vidmm.offer_allocations(device, &buffers, priority, OfferFlags::empty());
                let _ = reply.send(offered.map_err(Error::from));
            }
            Command::Reclaim { device, buffers, ready, reply } => {
                let reclaimed = self.reclaim(device, &buffers, ready)?;
                let _ = reply.send(reclaimed);
            }
            Command::Begin { device, turn } => self.queue_use(device, turn)?,
            Command::End { number, at } => self.turns.tell(number, at),
            Command::OnTrim { device, call } => self.listen(device, call)?,
            Command::Budget { process, group, reply } => {
                let info = self.vidmm.query_video_memory_info(process, group);
                let _ = reply.send(info.map_err(|error| Error::Lost(error.to_string())));
            }
            Command::Statistics(reply) => {
                let _ = reply.send(Ok(self.vidmm.statistics()));
            }
            // What has ended is found out in the next round.
            Command::PagingEnded | Command::UseEnded => {}
            Command::Failed(error) => return Err(error.into()),
            Command::Stop => self.stopping = Some(Instant::now()),
        }
        Ok(())
    }

    fn create_process(&mut self) -> Result<ProcessId, Error> {
        let process = self.vidmm.create_process(&mut self.kmd, &mut self.host)?;
        // The driver's handles rise: the last is the new one's.
        let handle = self.kmd.processes().next_back();
        let handle = handle.ok_or_else(|| Error::Lost("the driver has lost a process".to_owned()))?;
        self.objects.processes.insert(process, ProcessRecord { handle, devices: 0, is_closing: false });
        Ok(process)
    }

    /// The point before the first of a device: of a new semaphore, or of one whose device is gone.
    fn first_point(&mut self) -> Result<Point, VulkanError> {
        match self.free_points.pop() {
            Some(point) => Ok(point),
            None => Ok(Point { semaphore: self.device.new_semaphore()?, value: 0 }),
        }
    }

    fn create_device(&mut self, process: ProcessId, uses: Arc<AtomicUsize>) -> Result<NewDevice, Error> {
        let (ready, done) = (self.first_point()?, self.first_point()?);
        let device = self.vidmm.create_device(process)?;
        let made = self.vidmm.create_paging_queue(device, 0).and_then(|queue| {
            let context = self.vidmm.create_context(&mut self.kmd, device, RENDER_ENGINE)?;
            Ok((queue, context))
        });
        let (queue, context) = match made {
            Ok(made) => made,
            Err(error) => {
                // It was just created.
                let _ = self.vidmm.destroy_device(&mut self.kmd, &mut self.host, device);
                self.free_points.extend([ready, done]);
                return Err(error.into());
            }
        };
        let record = DeviceRecord {
            process,
            queue,
            context,
            ready: Ready::new(ready),
            done,
            requests: VecDeque::new(),
            uses,
            buffers: 0,
            on_trim: None,
            is_closing: false,
        };
        self.objects.devices.insert(device, record);
        self.objects.queues.insert(queue, device);
        if let Some(process) = self.objects.processes.get_mut(&process) {
            process.devices += 1;
        }
        Ok(NewDevice { device, ready, done })
    }

    fn create_buffer(&mut self, device: DeviceId, bytes: u64, usage: vk::BufferUsageFlags) -> Result<NewBuffer, Error> {
        let data = AllocationPrivateData {
            size: bytes,
            allocation_priority: 0,
            flags: AllocationFlags::empty(),
            flags2: AllocationFlags2::empty(),
            segments: AllocationSegments::Local,
            surface: None,
            placement: Placement::default(),
        };
        let gone = || Error::Lost("a device has no record".to_owned());
        let record = self.objects.devices.get(&device).ok_or_else(gone)?;
        let (queue, process) = (record.queue, record.process);
        let process = self.objects.processes.get(&process).ok_or_else(gone)?.handle;
        let buffer = SparseBuffer::for_application(&self.device, bytes, usage)?;
        let (raw, address) = (buffer.raw(), buffer.address);
        let data = data.to_bytes();
        let allocation = match self.vidmm.create_allocation(&mut self.kmd, &mut self.host, device, &data) {
            Ok(allocation) => allocation,
            Err(error) => {
                buffer.destroy_unused();
                return Err(error.into());
            }
        };
        let desc = MapGpuVirtualAddress::whole(allocation);
        let mapped = self.vidmm.map_gpu_virtual_address(&mut self.host, queue, &desc).map_err(Error::from);
        let reserved = mapped.and_then(|mapped| {
            let first = mapped.virtual_address.0 / PAGE_SIZE;
            let mut memory = self.paging.memory().borrow_mut();
            memory.reserve(process, first, bytes / PAGE_SIZE, buffer)?;
            Ok(first)
        });
        match reserved {
            Ok(first) => {
                self.objects.buffers.insert(allocation, BufferRecord { device, process, first });
                if let Some(record) = self.objects.devices.get_mut(&device) {
                    record.buffers += 1;
                }
                Ok(NewBuffer { allocation, raw, address })
            }
            Err(error) => {
                // It was just created.
                let _ = self.vidmm.destroy_allocation(&mut self.host, allocation, DestroyFlags::empty());
                Err(error)
            }
        }
    }

    /// The worker's own failure, or else the answer to the caller.
    fn make_resident(
        &mut self,
        device: DeviceId,
        buffers: &[AllocationId],
        flags: MakeResidentFlags,
        ready: u64,
    ) -> Result<Result<(), Error>, Error> {
        let Some(record) = self.objects.devices.get_mut(&device) else { return Ok(Ok(())) };
        record.ready.expect(ready);
        let answer = match self.vidmm.make_resident(record.queue, buffers, flags) {
            Ok(Residency::Pending { paging_fence_value }) => {
                record.requests.push_back((paging_fence_value, ready));
                return Ok(Ok(()));
            }
            Ok(Residency::Resident) => Ok(()),
            Err(error) => Err(Error::from(error)),
        };
        record.ready.come(&self.device, ready)?;
        Ok(answer)
    }

    /// The worker's own failure, or else the answer to the caller.
    fn reclaim(
        &mut self,
        device: DeviceId,
        buffers: &[AllocationId],
        ready: u64,
    ) -> Result<Result<Vec<ReclaimResult>, Error>, Error> {
        let Some(record) = self.objects.devices.get_mut(&device) else { return Ok(Ok(Vec::new())) };
        record.ready.expect(ready);
        let answer = self.vidmm.reclaim_allocations(&mut self.host, record.queue, buffers);
        match answer {
            Ok(Reclaimed { paging_fence_value, .. }) if paging_fence_value > 0 => {
                record.requests.push_back((paging_fence_value, ready));
            }
            _ => record.ready.come(&self.device, ready)?,
        }
        Ok(answer.map(|reclaimed| reclaimed.results).map_err(Error::from))
    }

    fn queue_use(&mut self, device: DeviceId, turn: Turn) -> Result<(), Error> {
        let Some(record) = self.objects.devices.get_mut(&device) else { return Ok(()) };
        if let Turn::Application { ready, .. } = turn {
            record.ready.expect(ready);
        }
        let desc = SubmitDesc { dma_buffer: self.turns.wait(device, turn), ..SubmitDesc::default() };
        // The number of a device's uses is bounded before.
        self.vidmm.submit(record.context, desc).map(drop).map_err(|error| Error::Lost(error.to_string()))
    }

    fn listen(&mut self, device: DeviceId, call: super::command::OnTrim) -> Result<(), Error> {
        let Some(record) = self.objects.devices.get_mut(&device) else { return Ok(()) };
        if record.on_trim.replace(call).is_none() {
            self.vidmm.register_trim_notification(device)?;
        }
        Ok(())
    }

    /// An allocation is gone, and so is its buffer once nothing that was submitted names it.
    fn bury(&mut self, allocation: AllocationId) -> Result<(), Error> {
        let Some(BufferRecord { device, process, first }) = self.objects.buffers.remove(&allocation) else {
            return Ok(());
        };
        let buffer = self.paging.memory().borrow_mut().space(process).take_chunk(first);
        self.graveyard.extend(buffer.map(|buffer| (self.device.submitted(), buffer)));
        if let Some(record) = self.objects.devices.get_mut(&device) {
            record.buffers -= 1;
        }
        self.close_device(device)
    }

    /// Destroys a device, if nobody has a handle to it, a buffer of it or a use of it any more.
    fn close_device(&mut self, device: DeviceId) -> Result<(), Error> {
        let is_over = |record: &DeviceRecord| {
            record.is_closing && record.buffers == 0 && record.uses.load(Ordering::Relaxed) == 0
        };
        if !self.objects.devices.get(&device).is_some_and(is_over) {
            return Ok(());
        }
        let Some(mut record) = self.objects.devices.remove(&device) else { return Ok(()) };
        // The worker alone destroys devices, each once.
        let _ = self.vidmm.destroy_device(&mut self.kmd, &mut self.host, device);
        self.objects.queues.remove(&record.queue);
        record.ready.release(&self.device)?;
        self.free_points.extend([record.ready.signalled(), record.done]);
        if let Some(process) = self.objects.processes.get_mut(&record.process) {
            process.devices -= 1;
        }
        self.close_process(record.process);
        Ok(())
    }

    /// Destroys a process, if nobody has a handle to it or a device of it any more.
    fn close_process(&mut self, process: ProcessId) {
        let is_over = |record: &ProcessRecord| record.is_closing && record.devices == 0;
        if !self.objects.processes.get(&process).is_some_and(is_over) {
            return;
        }
        if let Some(record) = self.objects.processes.remove(&process) {
            // The worker alone destroys processes, each once.
            let _ = self.vidmm.destroy_process(&mut self.kmd, &mut self.host, process);
            self.paging.forget_process(record.handle);
        }
    }

    /// The adapter is lost: nobody is to wait for ever.
    fn release_all(&mut self) {
        for record in self.objects.devices.values_mut() {
            // On a device that is lost all waits are over anyway.
            let _ = record.ready.release(&self.device);
        }
    }
}
