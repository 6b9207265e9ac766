//! Requests: admitted, granted, built, signalled.

use alloc::vec::Vec;

use crate::{
    contract::{Host, Kmd},
    data::ordered_set::OrderedSet,
    event::Event,
    id::{DeviceIx, PagingQueueIx, PlanNo},
    moment::Output,
    objects::{
        Objects,
        allocation::AllocationState,
        device::{Deferred, DeferredAction, Device},
        request::{Request, RequestKind},
    },
    plans::{Plans, retire},
    state::State,
};

/// The devices that have requests, by how far these are.
#[derive(Default)]
pub(crate) struct Requests {
    /// Requests made so far, by all devices: their order of arrival.
    arrivals: u64,
    /// Devices that have requests which are not granted.
    pub requesting: OrderedSet<DeviceIx>,
    /// Devices that have requests which are granted and not signalled.
    pub granted: OrderedSet<DeviceIx>,
    /// Devices that have something to do once a submission is dispatched and a request granted.
    pub deferring: OrderedSet<DeviceIx>,
}

impl Requests {
    /// Whether nothing is requested or deferred.
    pub(crate) fn is_idle(&self) -> bool {
        self.requesting.is_empty() && self.granted.is_empty() && self.deferring.is_empty()
    }

    /// Does `action` before all else that a device has deferred, as soon as anything is carried out.
    pub(crate) fn defer_first(&mut self, objects: &mut Objects, device: DeviceIx, action: DeferredAction) {
        objects[device].deferred.push_front(Deferred { submission: 0, request: 0, action });
        self.deferring.insert(device);
    }

    /// Does `action` once all that was submitted and requested so far is dispatched and granted.
    pub(crate) fn defer(&mut self, objects: &mut Objects, device: DeviceIx, action: DeferredAction) {
        let record = &mut objects[device];
        let deferred = Deferred { submission: record.submitted, request: record.last_request, action };
        record.deferred.push_back(deferred);
        self.deferring.insert(device);
    }

    /// Takes the first of a device's deferred actions, which is carried out now.
    pub(crate) fn take_deferred(&mut self, objects: &mut Objects, device: DeviceIx) {
        objects[device].deferred.pop_front();
    }

    /// A device has nothing deferred any more.
    pub(crate) fn end_deferring(&mut self, device: DeviceIx) {
        self.deferring.remove(&device);
    }

    /// Appends a request of the queue's device.
    pub(crate) fn request(&mut self, objects: &mut Objects, queue: PagingQueueIx, kind: RequestKind) {
        let (device_index, fence_value) = (objects[queue].device, objects[queue].begin());
        let device = &mut objects[device_index];
        device.last_request += 1;
        self.arrivals += 1;
        device.requests.push_back(Request {
            number: device.last_request,
            arrival: self.arrivals,
            queue,
            fence_value,
            position: device.submitted,
            kind,
            plans: Vec::new(),
            paging_fence: 0,
        });
        self.requesting.insert(device_index);
    }

    /// Notes which granted requests are built to their end: their submissions may follow.
    pub(crate) fn settle_requests(&mut self, state: &mut State, plans: &Plans) {
        let mut next = DeviceIx::FIRST;
        while let Some(device) = self.granted.next_from(next) {
            next = device.next();
            let record = &mut state.objects[device];
            while record.ready < record.granted {
                let Some(fence) = plans.stream.fence_of_all(&record.requests[record.ready].plans) else { break };
                let earlier = record.ready.checked_sub(1).map_or(0, |before| record.requests[before].paging_fence);
                record.requests[record.ready].paging_fence = fence.max(earlier);
                record.ready += 1;
                state.moment.request_poll();
            }
            self.signal_requests(state, plans, device);
        }
    }

    /// Signals requests whose plans have retired, in their order (RES-33).
    fn signal_requests(&mut self, state: &mut State, plans: &Plans, device: DeviceIx) {
        while let Some(request) = take_ended(&mut state.objects[device], plans) {
            state.objects[request.queue].complete(request.fence_value);
            let (queue, value) = (state.objects.paging_queues.id(request.queue), request.fence_value);
            state.moment.statistics_mut().paging_fences_signaled += 1;
            state.moment.record(|| Event::PagingFenceSignaled { queue, value });
            state.moment.hand_out(Output::PagingFenceSignaled { queue, value });
        }
        if state.objects[device].granted == 0 {
            self.granted.remove(&device);
        }
    }

    pub(crate) fn note_grant(&mut self, state: &mut State, plans: &Plans, device: DeviceIx, numbers: Vec<PlanNo>) {
        let numbers = plans.stream.unretired(numbers);
        let device_id = state.objects.device_id(device);
        let record = &mut state.objects.devices[device];
        state.objects.processes[record.process].stillness.touch(state.moment.now());
        let request = &mut record.requests[record.granted];
        request.plans = numbers;
        let queue = state.objects.paging_queues.id(request.queue);
        state.moment.record(|| Event::Granted {
            device: device_id,
            queue,
            paging_fence_value: request.fence_value,
            plans: request.plans.clone(),
        });
        record.granted += 1;
        if record.granted == record.requests.len() {
            self.requesting.remove(&device);
        }
        self.granted.insert(device);
        state.shares.settle_list(&mut state.objects, device);
    }

    /// Tells the driver and the host of allocations that are gone.
    pub(crate) fn reap(&mut self, state: &mut State, kmd: &mut dyn Kmd, host: &mut dyn Host) {
        for (index, device) in state.objects.take_closed() {
            let closed = state.objects[index].forget_opening(device).expect("an opening ends once");
            state.objects[device].allocations -= 1;
            if let Some(handle) = closed.handle {
                kmd.close_allocation(handle);
            }
            let record = &state.objects[index];
            let owner = record.device;
            if record.is(AllocationState::PURGE_DUE) && record.openings().next().is_none() {
                self.defer(&mut state.objects, owner, DeferredAction::Purge(index));
            }
        }
        for index in state.objects.take_dead() {
            let id = state.objects.allocation_id(index);
            state.objects.end_rehoming(index);
            state.residency.note_gone(&state.objects, index);
            let gone = state.objects.allocations.remove(index);
            gone.mappings().for_each(|mapping| retire::end_mapping(state, &mapping));
            gone.give_back_store(host);
            kmd.destroy_allocation(gone.handle);
            state.objects[gone.device].allocations -= 1;
            state.moment.record(|| Event::AllocationReclaimed { allocation: id });
            if gone.is(AllocationState::SYNCHRONOUS_DESTROY) {
                state.moment.hand_out(Output::AllocationReclaimed { allocation: id });
            }
        }
    }
}

/// Takes the oldest request of a device, if the plans of the request have retired.
fn take_ended(device: &mut Device, plans: &Plans) -> Option<Request> {
    let has_retired = |plan: &PlanNo| plans.stream.is_retired(*plan);
    device.requests.front().filter(|request| device.ready > 0 && request.plans.iter().all(has_retired))?;
    device.ready -= 1;
    device.granted -= 1;
    device.requests.pop_front()
}
