//! Dispatch: queued work goes to its engine once all that it requires is on its way.

use alloc::vec::Vec;

use crate::{
    contract::{DmaBuffer, EngineFence, Kmd, Packet, SubmitCommand},
    event::Event,
    gpu_va::TableKey,
    paging::root_page_table,
    state::{FenceValue, InFlight, Output, Submission, VidMm},
};

/// Packets of a context that an engine holds at most: enough that it never waits for the host between two of them (D7).
const IN_FLIGHT_MAX: usize = 4;

impl VidMm {
    /// Notes which granted requests are built to their end: their submissions may follow.
    pub(crate) fn settle_requests(&mut self) {
        let mut next = 0;
        while let Some(&device) = self.granted.range(next..).next() {
            next = device + 1;
            let books = &mut self.devices[device as usize];
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
    fn signal_requests(&mut self, device: u32) {
        let books = &mut self.devices[device as usize];
        while books.ready > 0 && books.requests[0].plans.iter().all(|&plan| self.stream.is_retired(plan)) {
            let request = books.requests.pop_front().expect("ready requests are queued");
            books.ready -= 1;
            books.granted -= 1;
            let queue = &mut self.paging_queues[request.queue as usize];
            queue.pending -= 1;
            queue.completed_value = request.fence_value;
            let (queue, value) = (self.paging_queues.id(request.queue as usize), request.fence_value);
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
        let mut next = 0;
        while let Some(&context) = self.queued.range(next..).next() {
            next = context + 1;
            while let Some(waits) = self.dispatchable(context) {
                self.hand_out(kmd, context, waits);
            }
            if self.contexts[context as usize].queue.is_empty() {
                self.queued.remove(&context);
            }
        }
    }

    /// What the context's next submission waits for on the GPU; none if it cannot be handed out yet.
    fn dispatchable(&self, context: u32) -> Option<Vec<EngineFence>> {
        let context = &self.contexts[context as usize];
        let next = context.queue.front()?;
        let device = &self.devices[context.device as usize];
        if context.in_flight >= IN_FLIGHT_MAX || !device.is_active() {
            return None;
        }
        let mut paging_fence =
            device.gate(next.number)?.max(self.root_fence(device.process)?).max(device.turn.fence()?);
        for &plan in &device.refreshes {
            paging_fence = paging_fence.max(self.stream.fence_of(plan)?);
        }
        let mut waits = Vec::new();
        if paging_fence > self.paging_engine().retired {
            waits.push(EngineFence { engine: self.adapter.paging_engine, fence_id: paging_fence });
        }
        waits.extend(self.fence_waits(next)?);
        Some(waits)
    }

    /// What a submission waits for on the GPU because of the monitored fences that it names; none if one of them waits for what
    /// is not dispatched.
    pub(super) fn fence_waits(&self, submission: &Submission) -> Option<Vec<EngineFence>> {
        let mut waits = Vec::new();
        for &FenceValue { fence, value } in &submission.waits {
            let fence = &self.monitored_fences[fence as usize];
            if fence.value < value {
                let (_, signal) = fence.dispatched.iter().find(|&&(dispatched, _)| dispatched >= value)?;
                waits.push(*signal);
            }
        }
        Some(waits)
    }

    /// The fence of the paging engine that completes the root table of a process: 0 if it has, none until it is built.
    fn root_fence(&self, process: u32) -> Option<u64> {
        if !self.adapter.has_page_tables() {
            return Some(0);
        }
        let root = self.processes[process as usize].tables.get(TableKey::root(&self.adapter))?;
        self.stream.fence_of(Some(root.plan).filter(|&plan| plan > 0)?)
    }

    fn hand_out(&mut self, kmd: &mut dyn Kmd, index: u32, waits: Vec<EngineFence>) {
        let context = &mut self.contexts[index as usize];
        let submission = context.queue.pop_front().expect("it was found dispatchable");
        context.in_flight += 1;
        let (engine, device_index, handle) = (context.engine, context.device, context.handle);
        if !context.root_is_set && self.adapter.has_page_tables() {
            let process = &self.processes[self.devices[device_index as usize].process as usize];
            let root = root_page_table(&self.adapter, &process.tables);
            let root = root.expect("nothing is dispatchable before its root table is built");
            kmd.set_root_page_table(handle, root);
            context.root_is_set = true;
            let context = self.contexts.id(index as usize);
            self.events.record(|| Event::RootPageTableSet { context, address: root.address });
        }
        let books = &mut self.engines[engine as usize];
        books.submitted += 1;
        let signal = EngineFence { engine, fence_id: books.submitted };
        for wait in &submission.waits {
            self.monitored_fences[wait.fence as usize].references -= 1;
        }
        for fence in &submission.signals {
            self.monitored_fences[fence.fence as usize].dispatched.push_back((fence.value, signal));
        }
        // Other work may wait for a fence that this one signals: now it can be handed out.
        self.stirred |= !submission.signals.is_empty();
        let number = submission.number;
        books.in_flight.push_back(InFlight { context: index, submission: number, signals: submission.signals });
        let mut preamble = Vec::new();
        let submit = SubmitCommand {
            context: handle,
            node_ordinal: engine,
            submission_fence_id: signal.fence_id,
            paging: false,
        };
        kmd.submit_command(&submit, &mut preamble);
        self.statistics.submissions += 1;
        let device = self.device_id(device_index);
        self.events.record(|| Event::Dispatched { device, submission: number, signal, waits: waits.clone() });
        let buffer = DmaBuffer::User(submission.dma_buffer);
        self.outputs.push_back(Output::Submit(Packet { waits, signal, preamble, buffer }));
        self.devices[device_index as usize].undispatched.remove(&number);
        self.lapse_dispatched(device_index);
    }

    /// Ends the holds of spans whose last submission has been dispatched.
    pub(crate) fn lapse_dispatched(&mut self, device: u32) {
        let dispatched = self.devices[device as usize].dispatched();
        self.with_holds(device, |vidmm| {
            while let Some((index, flags)) = vidmm.devices[device as usize].lapsing.pop(dispatched) {
                vidmm.lapse(index, device, flags);
            }
        });
    }
}
