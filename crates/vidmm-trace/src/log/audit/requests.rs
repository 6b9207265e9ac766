//! Requests: what was asked for, its grants and its fences (I13, U-28).

use std::cmp::Reverse;

use vidmm::contract::SegmentSet;
use vidmm::{AllocationId, DeviceId, Event, MakeResidentFlags, PagingQueueId, PlanNo, ProcessId};

use super::Audit;
use super::allocation::Allocation;
use super::allocation::Mapping;
use super::aspects::Pool;
use super::device::{Device, Request, RequestKind};
use super::finding::Invariant;
use super::list_entry::ListEntry;
use super::places::Pools;

impl Audit {
    pub(super) fn make_resident_accepted(&mut self, event: &Event) {
        let &Event::MakeResident {
            device,
            queue,
            ref allocations,
            flags,
            after_submission,
            paging_fence_value,
            ref waiting,
        } = event
        else {
            return;
        };
        self.check_names_any(allocations, "MakeResident");
        let is_consistent =
            !flags.contains(MakeResidentFlags::MUST_SUCCEED) || flags.contains(MakeResidentFlags::CANT_TRIM_FURTHER);
        self.findings.check(is_consistent, Invariant::Res15, || {
            format!("a MakeResident that must succeed, but may trim further, is accepted with {flags:?}")
        });
        let process = self.process_of(device);
        let requested = process.map(|process| self.requested_by(process)).unwrap_or_default();
        let demoted = self.demoted_by_choice(device, allocations);
        let spans = self.make_resident(device, allocations, after_submission, waiting);
        self.check_admitted(device, flags, &requested);
        self.check_first_choice(&demoted);
        self.findings.check((paging_fence_value > 0) != waiting.is_empty(), Invariant::I13, || {
            format!("a MakeResident of which {} wait is answered with {paging_fence_value}", waiting.len())
        });
        if paging_fence_value > 0 {
            self.ask(device, queue, paging_fence_value, RequestKind::MakeResident(spans));
        }
    }

    /// A call that names no allocation is refused (U-26).
    pub(super) fn check_names_any(&mut self, named: &[AllocationId], call: &str) {
        self.findings.check(!named.is_empty(), Invariant::U26, || format!("{call} is accepted, but names nothing"));
    }

    /// A call is answered with a fence value: the next one of its queue.
    pub(super) fn ask(&mut self, id: DeviceId, queue: PagingQueueId, fence_value: u64, kind: RequestKind) {
        let Some(device) = self.devices.get_mut(&id) else { return };
        let Some(books) = self.fences.queues.get_mut(&queue) else { return };
        self.findings.check(books.device == id, Invariant::Log, || format!("{queue} is not a queue of {id}"));
        let next = books.asked.saturating_add(1);
        self.findings.check(fence_value == next, Invariant::I13, || {
            format!("{queue} answers with value {fence_value}, but its next is {next}")
        });
        books.asked = fence_value.max(books.asked);
        device.requests.push_back(Request {
            queue,
            fence_value,
            arrival: self.findings.event,
            at: self.at,
            after_submission: device.submitted,
            kind,
            granted: None,
        });
    }

    pub(super) fn granted(&mut self, id: DeviceId, queue: PagingQueueId, value: u64, plans: &[PlanNo]) {
        self.check_turn(id);
        self.check_emptied(id, plans);
        self.note_stillness(id, |of, at| {
            of.begin(at);
            of.end(at);
        });
        let Some(device) = self.devices.get_mut(&id) else { return };
        // The requests of a device are granted in the order in which they were made, whatever their queue.
        let next = device.requests.iter_mut().find(|request| request.granted.is_none());
        let Some(request) = next.filter(|request| request.queue == queue && request.fence_value == value) else {
            let message = format!("value {value} of {queue} is granted, but is not the next that {id} asked for");
            return self.findings.report(Invariant::I13, message);
        };
        request.granted = Some(plans.to_vec());
        match &request.kind {
            RequestKind::MakeResident(spans) => {
                for &(allocation, span) in spans {
                    self.allocations.get_mut(&allocation).into_iter().for_each(|of| of.grant(id, span));
                }
            }
            &RequestKind::Map(process, start, end) => {
                for mapping in Vec::from_iter(self.mappings_within(process, start, end).copied()) {
                    self.mappings.insert((process, mapping.virtual_address), Mapping { granted: true, ..mapping });
                }
            }
            RequestKind::Reserve | RequestKind::Move => {}
        }
        self.settle(id);
    }

    /// Between devices, a queue with higher priority is granted first; then the device that asked first. A device that
    /// takes nothing of the memory that another waits for need not wait for that one; nor does any wait for a device
    /// that must first let go of what it holds itself: it runs ahead, and what it asks for was admitted in the place of
    /// that. Nor for one whose request waits for an Unlock (U-40), or for the end of its own work because it takes
    /// others to new homes (D19).
    ///
    /// A device that finds no range lets others pass until what runs has ended, or until its turn. The log does not say
    /// which device that is; without GPU virtual addresses every allocation is a range.
    fn check_turn(&mut self, id: DeviceId) {
        if self.adapter.is_physical() {
            self.taken = Pools::default();
            return;
        }
        let turn = |device: &Device| {
            let request = device.next_request()?;
            let priority = self.fences.queues.get(&request.queue).map_or(0, |queue| queue.priority);
            Some((Reverse(priority), request.arrival))
        };
        let competes = |of: &Device| of.next_request().is_some_and(|of| self.waits_for(of).meets(&self.taken));
        let own = self.devices.get(&id).and_then(turn);
        let is_before = |device: &Device| turn(device).is_some_and(|turn| own.is_none_or(|own| turn < own));
        // A device that yielded waits for its turn before it is granted anything.
        let others = self.devices.iter().filter(|&(&other, device)| {
            other != id && device.is_active() && !device.is_over() && is_before(device) && competes(device)
        });
        let keeps_all_waiting = |other: &DeviceId| {
            !self.runs_ahead(*other)
                && !self.waits_for_unlock(*other)
                && !self.may_find_no_range(*other)
                && !self.may_rehome(*other)
        };
        let passed_over = others.map(|(&other, _)| other).find(keeps_all_waiting);
        self.findings.check(passed_over.is_none(), Invariant::U28, || {
            format!("a request of {id} is granted and takes {:?}, but it is the turn of {passed_over:?}", self.taken)
        });
        self.taken = Pools::default();
    }

    /// Whether work that is not dispatched still holds something that has left the device's list.
    fn runs_ahead(&self, id: DeviceId) -> bool {
        let Some(device) = self.devices.get(&id) else { return false };
        let entries = self.allocations.values().filter_map(|allocation| allocation.lists.get(&id));
        entries.flat_map(ListEntry::spans).any(|span| span.granted && device.still_holds(span))
    }

    /// Whether a device's next request may take other allocations of its list to new homes: they move once nothing of
    /// the device is in flight, and the log does not say which they are.
    fn may_rehome(&self, id: DeviceId) -> bool {
        let is_running = self.devices.get(&id).is_some_and(|device| !device.is_still());
        let may_be_elsewhere = |allocation: &Allocation| {
            allocation.lists.contains_key(&id)
                && self.places.pools_of(SegmentSet(allocation.supported_segment_set)).len() > 1
        };
        is_running && self.allocations.values().any(may_be_elsewhere)
    }

    /// Whether the next request of a device brings in an allocation that is one range of the aperture (SEG-13).
    fn may_find_no_range(&self, id: DeviceId) -> bool {
        let request = self.devices.get(&id).and_then(Device::next_request);
        let Some(RequestKind::MakeResident(spans)) = request.map(|request| &request.kind) else { return false };
        spans.iter().filter_map(|(id, _)| self.allocations.get(id)).any(|allocation| allocation.accessed_physically)
    }

    /// Whether the next request of a device brings in what is locked, and the CPU may not see it where it goes (RES-84). The log
    /// does not say which allocations were declared visible to it.
    fn waits_for_unlock(&self, id: DeviceId) -> bool {
        let request = self.devices.get(&id).and_then(Device::next_request);
        let Some(RequestKind::MakeResident(spans)) = request.map(|request| &request.kind) else { return false };
        let is_hidden = |allocation: &Allocation| {
            let pools = self.places.pools_of(SegmentSet(allocation.supported_segment_set));
            let may_be_in_memory = pools.iter().any(|&pool| pool != Pool::SYSTEM);
            allocation.cpu_view.is_some() && may_be_in_memory && !allocation.seen_in_backing_store
        };
        spans.iter().filter_map(|(id, _)| self.allocations.get(id)).any(is_hidden)
    }

    /// The pools that a request certainly needs. Where an allocation goes that may be in several, the log does not say
    /// before it is placed.
    fn waits_for(&self, request: &Request) -> Pools {
        let mut pools = Pools::default();
        match &request.kind {
            // In which of several segments tables live the log does not say before they are placed.
            RequestKind::Map(..) | RequestKind::Reserve => pools.0.extend(
                self.places.memory.first().filter(|_| self.places.memory.len() == 1).map(|memory| Pool(memory.id)),
            ),
            RequestKind::Move => {}
            RequestKind::MakeResident(spans) => {
                let named = spans.iter().filter_map(|(id, _)| self.allocations.get(id));
                let absent = named.filter(|of| of.decided.is_none());
                pools.0.extend(absent.filter_map(|of| self.only_pool_of(of)));
            }
        }
        pools
    }

    pub(super) fn paging_fence_signaled(&mut self, queue: PagingQueueId, value: u64) {
        let Some(books) = self.fences.queues.get_mut(&queue) else { return };
        self.findings.check(value > books.signaled, Invariant::I13, || {
            format!("{queue} is signalled with {value} after {}", books.signaled)
        });
        books.signaled = value.max(books.signaled);
        let device = books.device;
        let Some(kind) = self.take_granted(device, queue, value) else {
            let message = format!("{queue} is signalled with {value}, which is not the next that was granted");
            return self.findings.report(Invariant::I13, message);
        };
        let is_required = self.devices.get(&device).is_some_and(Device::requires_its_list);
        match kind {
            RequestKind::MakeResident(spans) => {
                for (id, span) in spans {
                    let entry = self.allocations.get(&id).and_then(|allocation| allocation.lists.get(&device));
                    let span = entry.and_then(|entry| entry.span(span));
                    // An allocation that a suspended device asked for may be on its way out again.
                    if span.is_some_and(|span| span.to.is_none()) && is_required {
                        self.check_in_place(device, id);
                    }
                }
            }
            RequestKind::Map(process, start, end) => self.check_mapped((queue, value), process, start, end),
            RequestKind::Reserve => self.zeros.show(queue, value),
            RequestKind::Move => {}
        }
    }

    /// Takes the next request of a queue, if it is granted and has this value; its plans must have retired.
    fn take_granted(&mut self, device: DeviceId, queue: PagingQueueId, value: u64) -> Option<RequestKind> {
        let requests = &mut self.devices.get_mut(&device)?.requests;
        let position = requests.iter().position(|request| request.queue == queue)?;
        let is_next = |request: &&Request| request.fence_value == value && request.granted.is_some();
        requests.get(position).filter(is_next)?;
        let request = requests.remove(position)?;
        if let Some(plan) = request.granted?.into_iter().find(|&plan| !self.plans.is_retired(plan)) {
            let message = format!("{queue} is signalled with {value}, but plan {plan} has not retired");
            self.findings.report(Invariant::I13, message);
        }
        Some(request.kind)
    }

    /// The caller was told that the allocation is in its place; or it is on its way back there since the device was
    /// resumed, or to another since it was in the way there: work waits for that.
    pub(super) fn check_in_place(&mut self, device: DeviceId, id: AllocationId) {
        let Some(allocation) = self.allocations.get(&id) else { return };
        let resumed_by = self.devices.get(&device).map_or(&[][..], |device| &device.resumed_by);
        let moved_by = allocation.moved_by;
        let comes_back = |plan| resumed_by.iter().any(|&by| by == plan || self.plans.follows(by, plan));
        let is_there = |plan: PlanNo| self.plans.is_retired(plan) || comes_back(plan) || moved_by == Some(plan);
        let retired = allocation.decided.as_ref().is_some_and(|place| is_there(place.plan));
        self.findings.check(retired, Invariant::I13, || {
            format!("{id} is said to be resident, but is not yet where it is to be")
        });
    }

    /// The caller was told that a mapping can be used: what is left of it can. Another may be at its addresses by now.
    fn check_mapped(&mut self, asked_by: (PagingQueueId, u64), process: ProcessId, start: u64, end: u64) {
        let mappings = self.mappings_within(process, start, end);
        for mapping in Vec::from_iter(mappings.filter(|mapping| mapping.asked_by == asked_by).copied()) {
            self.check_usable(&mapping);
        }
    }

    /// A mapping that is not freed shows its allocation, if that has arrived.
    pub(super) fn check_usable(&mut self, mapping: &Mapping) {
        let place = self.allocations.get(&mapping.allocation).and_then(|books| books.built.clone());
        let place = place.filter(|place| mapping.freed.is_none() && self.plans.is_retired(place.plan));
        if let Some(place) = place {
            self.check_visible(mapping, &place);
        }
    }
}
