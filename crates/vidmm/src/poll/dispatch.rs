//! Dispatch: queued work goes to its engine once all that it requires is on its way.

use alloc::vec::Vec;

use crate::{
    buggify::{MOMENT, Unlikely},
    contract::{DmaBuffer, EngineFence, Kmd, Packet, SubmitCommand},
    engine::{InFlight, Work},
    event::{Event, PreemptReason},
    gpu_va::TableKey,
    id::{ContextIx, DeviceIx, PlanNo, ProcessIx, SubmissionNo},
    paging::root_page_table,
    planted::PlantedBug,
    recovery::Returned,
    state::{Context, Output, Queued, VidMm},
    submission::{FenceValueDesc, Submission, SubmitDesc},
};

/// Packets of a context that an engine holds at most: enough that it never waits for the host between two of them (D7).
const IN_FLIGHT_MAX: usize = 4;

/// What is handed to an engine at once: a submission, or a portion of one.
pub(super) struct Job {
    pub number: SubmissionNo,
    pub commands: Vec<u8>,
    pub waits: Vec<FenceValueDesc>,
    pub signals: Vec<FenceValueDesc>,
    /// Of a portion, its first byte in the DMA buffer and the first that is not in it.
    pub offsets: Option<(u32, u32)>,
}

impl VidMm {
    /// Notes which granted requests are built to their end: their submissions may follow.
    pub(crate) fn settle_requests(&mut self) {
        let mut next = DeviceIx::FIRST;
        while let Some(device) = self.granted.next_from(next) {
            next = device.next();
            let books = &mut self.devices[device];
            while books.ready < books.granted {
                let Some(fence) = self.stream.fence_of_all(&books.requests[books.ready].plans) else { break };
                let earlier = books.ready.checked_sub(1).map_or(0, |before| books.requests[before].paging_fence);
                books.requests[books.ready].paging_fence = fence.max(earlier);
                books.ready += 1;
                self.stirred = true;
            }
            self.signal_requests(device);
        }
    }

    /// Signals requests whose plans have retired, in their order (RES-33).
    fn signal_requests(&mut self, device: DeviceIx) {
        let books = &mut self.devices[device];
        let is_early = self.adapter.has_bug(PlantedBug::SignalEarly);
        let has_retired = |plan: &PlanNo| self.stream.is_retired(*plan) || is_early;
        while books.ready > 0 && books.requests[0].plans.iter().all(has_retired) {
            let request = books.requests.pop_front().expect("ready requests are queued");
            books.ready -= 1;
            books.granted -= 1;
            let queue = &mut self.paging_queues[request.queue];
            queue.pending -= 1;
            queue.completed_value = request.fence_value;
            let past = u64::from(self.adapter.has_bug(PlantedBug::SignalTooFar));
            let (queue, value) = (self.paging_queues.id(request.queue), request.fence_value + past);
            self.statistics.paging_fences_signaled += 1;
            self.events.record(|| Event::PagingFenceSignaled { queue, value });
            self.outputs.push_back(Output::PagingFenceSignaled { queue, value });
        }
        if books.granted == 0 {
            self.granted.remove(&device);
        }
    }

    /// Hands queued work to engines, context by context.
    pub(crate) fn dispatch(&mut self, kmd: &mut dyn Kmd) {
        let mut next = Queued::FIRST;
        while let Some(queued) = self.queued.next_from(next) {
            next = queued.next();
            while let Some(paging_fence) = self.dispatchable(queued.context) {
                if self.buggify.makes(Unlikely::HoldPacket) {
                    self.wake_at(self.now + MOMENT);
                    break;
                }
                if self.has_priorities && self.overtakes(queued.context, paging_fence) {
                    self.preempt(self.contexts[queued.context].engine, PreemptReason::Priority);
                    break;
                }
                self.hand_out(kmd, queued.context, paging_fence);
            }
            if self.contexts[queued.context].queue.is_empty() {
                self.queued.remove(&queued);
            }
        }
    }

    /// Whether the context's next submission could run now, and its engine has been given less urgent work that it has not begun.
    /// One that still waits for something does not overtake what it may wait for.
    fn overtakes(&self, context: ContextIx, paging_fence: u64) -> bool {
        let Context { engine, priority, ref queue, .. } = self.contexts[context];
        let waits = queue.front().map_or(&[][..], |next| &next.desc.waits);
        // Without saved state nothing comes between the portions of a DMA buffer (SPL-07).
        let may_come_between = !self.adapter.is_physical() || self.adapter.preemption_aware;
        if !may_come_between || paging_fence > self.paging_engine().retired || self.fence_waits(waits).next().is_some()
        {
            return false;
        }
        let not_begun = self.engines[engine as usize].in_flight.iter().skip(1);
        not_begun.into_iter().any(|packet| self.priority_of(packet).is_some_and(|given| given < priority))
    }

    /// How urgent a packet is; none for a paging buffer.
    fn priority_of(&self, packet: &InFlight) -> Option<i32> {
        match packet.work {
            Work::Paging => None,
            Work::User { context, .. } => Some(self.contexts[context].priority),
        }
    }

    /// Hands out what overtakes packets that engines have given back, before these are handed out again.
    pub(super) fn dispatch_urgent(&mut self, kmd: &mut dyn Kmd) {
        if !self.has_priorities {
            return;
        }
        let mut next = Queued::FIRST;
        while let Some(queued) = self.queued.next_from(next) {
            next = queued.next();
            let Context { engine, priority, .. } = self.contexts[queued.context];
            let is_less_urgent = |returned: &Returned| {
                returned.engine == engine && self.priority_of(&returned.packet).is_some_and(|given| given < priority)
            };
            if !self.recovery.returned.iter().any(is_less_urgent) {
                continue;
            }
            while let Some(paging_fence) = self.dispatchable_on(queued.context, |_| true) {
                self.hand_out(kmd, queued.context, paging_fence);
            }
        }
    }

    /// The fence of the paging engine that the context's next submission waits for, 0 if it waits for none; none if it cannot be
    /// handed out yet.
    fn dispatchable(&self, context: ContextIx) -> Option<u64> {
        self.dispatchable_on(context, |engine| !self.recovery.holds(engine))
    }

    fn dispatchable_on(&self, index: ContextIx, takes: impl Fn(u32) -> bool) -> Option<u64> {
        let context = &self.contexts[index];
        let next = context.queue.front()?;
        let device = &self.devices[context.device];
        if context.in_flight >= IN_FLIGHT_MAX || !takes(context.engine) || !self.is_engine_open(index) {
            return None;
        }
        if self.processes[device.process].is_paused {
            return None;
        }
        // A device that yields ends the DMA buffers that it has begun.
        let is_begun = next.is_prepared() && context.portion.is_some();
        if !device.is_active() && (device.is_suspended() || !is_begun) {
            return None;
        }
        // The driver was told the root table once it had been planned, and with nothing in the stream its plan has retired.
        let root_is_there = context.root_is_set && self.stream.is_empty();
        let root_fence = if root_is_there { 0 } else { self.root_fence(device.process)? };
        let gated = next.number - u64::from(self.adapter.has_bug(PlantedBug::GateByOne));
        let mut paging_fence = device.gate(gated)?.max(root_fence).max(device.turn.fence()?);
        for &plan in &device.refreshes {
            paging_fence = paging_fence.max(self.stream.fence_of(plan)?);
        }
        if next.is_prepared() {
            paging_fence = paging_fence.max(self.stream.fence_of_all(&context.portion.as_ref()?.plans)?);
        }
        (next.desc.waits.is_empty() || self.is_front_unblocked(index)).then_some(paging_fence)
    }

    /// Whether all that the submission in front of a context's queue waits for has been dispatched.
    pub(super) fn is_front_unblocked(&self, index: ContextIx) -> bool {
        // What an engine gives back gets another fence.
        let is_settled = |wait: Option<EngineFence>| {
            wait.is_some_and(|wait| wait.engine == self.adapter.paging_engine || !self.recovery.holds(wait.engine))
        };
        let waits = self.contexts[index].queue.front().map_or(&[][..], |next| &next.desc.waits);
        self.fence_waits(waits).all(is_settled)
    }

    /// What a submission waits for on the GPU because of the monitored fences that it names; none for one that waits for what
    /// is not dispatched.
    pub(super) fn fence_waits(&self, waits: &[FenceValueDesc]) -> impl Iterator<Item = Option<EngineFence>> {
        waits.iter().filter_map(|&FenceValueDesc { fence, value }| {
            let fence = &self.monitored_fences[fence.ix()];
            let signal = || fence.dispatched.iter().find(|&&(dispatched, _)| dispatched >= value);
            (fence.value < value).then(|| signal().map(|&(_, signal)| signal))
        })
    }

    /// The fence of the paging engine that completes the root table of a process: 0 if it has, none until it is built.
    fn root_fence(&self, process: ProcessIx) -> Option<u64> {
        if !self.adapter.has_page_tables() {
            return Some(0);
        }
        let root = self.processes[process].tables.get(TableKey::root(&self.adapter))?;
        self.stream.fence_of(Some(root.plan).filter(|&plan| plan > 0)?)
    }

    /// Tells the driver the root page table of a context whose work runs for the first time, or again after power-up.
    fn set_root(&mut self, kmd: &mut dyn Kmd, index: ContextIx) {
        let context = &mut self.contexts[index];
        if context.root_is_set || !self.adapter.has_page_tables() {
            return;
        }
        let process = &self.processes[self.devices[context.device].process];
        let root = root_page_table(&self.adapter, &process.tables);
        let root = root.expect("nothing is dispatchable before its root table is built");
        kmd.set_root_page_table(context.handle, root);
        context.root_is_set = true;
        let context = self.contexts.id(index);
        self.events.record(|| Event::RootPageTableSet { context, address: root.address });
    }

    fn hand_out(&mut self, kmd: &mut dyn Kmd, index: ContextIx, paging_fence: u64) {
        self.set_root(kmd, index);
        let context = &mut self.contexts[index];
        context.in_flight += 1;
        let (engine, device_index, handle) = (context.engine, context.device, context.handle);
        let signal = EngineFence { engine, fence_id: self.engines[engine as usize].submitted + 1 };
        let Job { number, commands, waits: waited, signals, offsets } = self.next_job(kmd, index, signal.fence_id);
        let buffer = DmaBuffer::User(commands);
        let mut packet = Packet { waits: Vec::new(), signal, preamble: Vec::new(), buffer };
        if paging_fence > self.paging_engine().retired && !self.adapter.has_bug(PlantedBug::SkipPagingWait) {
            self.recovery.awaited = self.recovery.awaited.max(paging_fence);
            packet.waits.push(EngineFence { engine: self.adapter.paging_engine, fence_id: paging_fence });
        }
        for wait in waited {
            packet.waits.extend(self.fence_waits(&[wait]).flatten());
            self.monitored_fences[wait.fence.ix()].references -= 1;
        }
        for fence in &signals {
            self.monitored_fences[fence.fence.ix()].dispatched.push_back((fence.value, signal));
        }
        // Other work may wait for a fence that this one signals: now it can be handed out.
        self.stirred |= !signals.is_empty();
        let work = Work::User { context: index, submission: number, signals, offsets };
        self.engines[engine as usize].push(packet.waits.clone(), work);
        let submit = SubmitCommand {
            context: handle,
            node_ordinal: engine,
            submission_fence_id: signal.fence_id,
            paging: false,
            dma_buffer_submission_offsets: offsets,
        };
        kmd.submit_command(&submit, &mut packet.preamble);
        self.statistics.submissions += 1;
        let device = self.device_id(device_index);
        self.events.record(|| Event::Dispatched { device, submission: number, signal, waits: packet.waits.clone() });
        self.devices[device_index].dispatches.end(number);
        self.lapse_dispatched(device_index);
        self.outputs.push_back(Output::Submit(packet));
    }

    /// What a context hands out next.
    fn next_job(&mut self, kmd: &mut dyn Kmd, index: ContextIx, fence_id: u64) -> Job {
        let queue = &mut self.contexts[index].queue;
        if queue.front().is_some_and(Submission::is_prepared) {
            return self.next_portion(kmd, index, fence_id);
        }
        let mut submission = queue.pop_front().expect("it was found dispatchable");
        if let Some(references) = submission.references.take() {
            return self.patch_whole(kmd, index, fence_id, submission, &references);
        }
        let Submission { number, desc, .. } = submission;
        let SubmitDesc { dma_buffer: commands, waits, signals, .. } = desc;
        Job { number, commands, waits, signals, offsets: None }
    }

    /// Ends the holds of spans whose last submission has been dispatched.
    #[inline]
    pub(crate) fn lapse_dispatched(&mut self, device: DeviceIx) {
        let books = &self.devices[device];
        if books.lapsing.is_due(books.dispatched()) {
            self.lapse_up_to(device, books.dispatched());
        }
    }

    #[inline(never)]
    fn lapse_up_to(&mut self, device: DeviceIx, dispatched: SubmissionNo) {
        self.withdraw_promise(device);
        while let Some((index, flags)) = self.devices[device].lapsing.pop(dispatched) {
            self.lapse(index, device, flags);
        }
        self.renew_promise(device);
    }
}
