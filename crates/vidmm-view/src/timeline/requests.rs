//! Requests that are answered with a paging fence, and what keeps submissions from being handed out.

use std::collections::BTreeMap;

use vidmm::event::SuspendReason;
use vidmm::{AllocationId, ContextId, DeviceId, MonitoredFenceId, Nanoseconds, PagingQueueId, PlanNo};

use super::record::{Record, Request, Suspension, Wait, WaitedFor};

/// Requests, submissions and turns that are under way.
#[derive(Debug, Default)]
pub(super) struct Requests {
    requests: BTreeMap<(PagingQueueId, u64), Request>,
    devices: BTreeMap<DeviceId, Device>,
    queues: BTreeMap<PagingQueueId, DeviceId>,
    submissions: BTreeMap<(DeviceId, u64), Submission>,
    /// The value of each monitored fence, and when it reached that.
    fences: BTreeMap<MonitoredFenceId, (u64, Nanoseconds)>,
    /// The context of each DMA buffer that is not handed out whole, and the time of its Render.
    dma_buffers: BTreeMap<(DeviceId, u64), Submission>,
}

/// The last things of a device that work may have waited for.
#[derive(Debug, Default)]
struct Device {
    suspension: Option<Suspension>,
    resumed_at: Option<Nanoseconds>,
    ended: Option<(Nanoseconds, PagingQueueId, u64)>,
    granted: Option<(Nanoseconds, PagingQueueId, u64)>,
}

/// A submission that is not handed out.
#[derive(Clone, Debug)]
pub(super) struct Submission {
    pub context: Option<ContextId>,
    pub submitted_at: Nanoseconds,
    waits: Vec<(MonitoredFenceId, u64)>,
}

impl Requests {
    pub fn queue(&mut self, queue: PagingQueueId, device: DeviceId) {
        self.queues.insert(queue, device);
    }

    pub fn queue_gone(&mut self, queue: PagingQueueId) {
        self.queues.remove(&queue);
    }

    /// A call was answered with a value of a queue's fence; 0 is no request.
    pub fn ask(&mut self, queue: PagingQueueId, value: u64, allocations: &[AllocationId], at: Nanoseconds) {
        if value == 0 {
            return;
        }
        let device = self.queues.get(&queue).copied();
        self.requests.entry((queue, value)).or_insert_with(|| Request {
            device,
            queue,
            paging_fence_value: value,
            allocations: allocations.to_vec(),
            asked_at: at,
            granted_at: None,
            ended_at: None,
            plans: Vec::new(),
        });
    }

    pub fn granted(&mut self, device: DeviceId, queue: PagingQueueId, value: u64, plans: &[PlanNo], at: Nanoseconds) {
        self.devices.entry(device).or_default().granted = Some((at, queue, value));
        if let Some(request) = self.requests.get_mut(&(queue, value)) {
            (request.granted_at, request.plans) = (Some(at), plans.to_vec());
        }
    }

    pub fn signaled(&mut self, queue: PagingQueueId, value: u64, at: Nanoseconds, out: &mut Vec<Record>) {
        let done: Vec<_> = self.requests.range((queue, 0)..=(queue, value)).map(|(&key, _)| key).collect();
        for key in done {
            let Some(request) = self.requests.remove(&key) else { continue };
            if let Some(device) = request.device {
                self.devices.entry(device).or_default().ended = Some((at, queue, key.1));
            }
            out.push(Record::Request(Request { ended_at: Some(at), ..request }));
        }
    }

    pub fn fence(&mut self, fence: MonitoredFenceId, value: u64, at: Nanoseconds) {
        self.fences.insert(fence, (value, at));
    }

    pub fn fence_gone(&mut self, fence: MonitoredFenceId) {
        self.fences.remove(&fence);
    }

    pub fn submitted(
        &mut self,
        device: DeviceId,
        context: ContextId,
        submission: u64,
        waits: &[(MonitoredFenceId, u64)],
        at: Nanoseconds,
    ) {
        let state = Submission { context: Some(context), submitted_at: at, waits: waits.to_vec() };
        self.submissions.insert((device, submission), state);
    }

    pub fn rendered(&mut self, device: DeviceId, context: ContextId, dma_buffer: u64, at: Nanoseconds) {
        let state = Submission { context: Some(context), submitted_at: at, waits: Vec::new() };
        self.dma_buffers.insert((device, dma_buffer), state);
    }

    /// A portion of a DMA buffer gets its number, and is handed out next.
    pub fn portion(&mut self, device: DeviceId, dma_buffer: u64, submission: u64, is_last: bool) {
        let state = match is_last {
            true => self.dma_buffers.remove(&(device, dma_buffer)),
            false => self.dma_buffers.get(&(device, dma_buffer)).cloned(),
        };
        if let Some(state) = state {
            self.submissions.insert((device, submission), state);
        }
    }

    pub fn dropped(&mut self, device: DeviceId, dma_buffer: u64) {
        self.dma_buffers.remove(&(device, dma_buffer));
    }

    /// A submission is handed out. Returns its record.
    pub fn dispatched(
        &mut self,
        device: DeviceId,
        submission: u64,
        at: Nanoseconds,
        out: &mut Vec<Record>,
    ) -> Submission {
        let unknown = Submission { context: None, submitted_at: at, waits: Vec::new() };
        let state = self.submissions.remove(&(device, submission)).unwrap_or(unknown);
        let from = state.submitted_at;
        if at > from {
            let on = self.last_reason(device, &state, at);
            out.push(Record::Wait(Wait { device, submission, from, to: at, on }));
        }
        state
    }

    /// The last thing that kept a submission from being handed out.
    fn last_reason(&self, device: DeviceId, submission: &Submission, at: Nanoseconds) -> WaitedFor {
        let fences = submission.waits.iter().filter_map(|&(fence, value)| {
            let &(_, reached_at) = self.fences.get(&fence)?;
            Some((reached_at, WaitedFor::MonitoredFence(fence, value)))
        });
        let state = self.devices.get(&device);
        let granted = state.and_then(|state| state.granted);
        let ended = state.and_then(|state| state.ended);
        let requests = granted.into_iter().chain(ended);
        let requests = requests.map(|(at, queue, value)| (at, WaitedFor::Request(queue, value)));
        let turn = state.and_then(|state| state.resumed_at).map(|at| (at, WaitedFor::Turn));
        let reasons =
            fences.chain(requests).chain(turn).filter(|&(then, _)| submission.submitted_at < then && then <= at);
        reasons.max_by_key(|&(then, _)| then).map_or(WaitedFor::Order, |(_, on)| on)
    }

    pub fn yielded(
        &mut self,
        device: DeviceId,
        reason: SuspendReason,
        wanted_by: Option<DeviceId>,
        at: Nanoseconds,
        out: &mut Vec<Record>,
    ) {
        let suspension = Suspension { device, from: at, to: None, reason, wanted_by };
        let before = self.devices.entry(device).or_default().suspension.replace(suspension);
        out.extend(before.map(Record::Suspension));
    }

    pub fn resumed(&mut self, device: DeviceId, at: Nanoseconds, out: &mut Vec<Record>) {
        let state = self.devices.entry(device).or_default();
        state.resumed_at = Some(at);
        let over = state.suspension.take().map(|suspension| Suspension { to: Some(at), ..suspension });
        out.extend(over.map(Record::Suspension));
    }

    /// The device is gone, and what it had queued.
    pub fn device_gone(&mut self, device: DeviceId, out: &mut Vec<Record>) {
        if let Some(state) = self.devices.remove(&device) {
            out.extend(state.suspension.map(Record::Suspension));
        }
        self.submissions.retain(|&(of, _), _| of != device);
        self.dma_buffers.retain(|&(of, _), _| of != device);
        self.requests.retain(|_, request| {
            let is_open = request.device == Some(device);
            out.extend(is_open.then(|| Record::Request(request.clone())));
            !is_open
        });
    }

    /// Yields what is under way at the end of the log.
    pub fn finish(&mut self, out: &mut Vec<Record>) {
        let devices: Vec<DeviceId> = self.devices.keys().copied().collect();
        devices.into_iter().for_each(|device| self.device_gone(device, out));
        out.extend(std::mem::take(&mut self.requests).into_values().map(Record::Request));
    }
}
