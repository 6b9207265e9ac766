//! Requests: what was asked for, its grants and its fences; and mappings, which are asked for like residency (I13).

use vidmm::{AllocationId, DeviceId, Event, PagingQueueId, PlanNo, ProcessId};

use super::Audit;
use super::allocation::Mapping;
use super::device::{Request, RequestKind};
use super::finding::Invariant;

impl Audit {
    pub(super) fn request(&mut self, event: &Event) {
        match *event {
            Event::MakeResident { device, ref allocations, after_submission, paging_fence_value } => {
                self.make_resident(device, allocations, after_submission, paging_fence_value);
            }
            Event::Evict { device, ref allocations, flags, after_submission } => {
                self.evict(device, allocations, flags, after_submission);
            }
            Event::GpuVirtualAddressMapped {
                process,
                virtual_address,
                size,
                allocation,
                allocation_offset,
                page_size,
                paging_fence_value,
            } => {
                let granted = paging_fence_value == 0;
                let virtual_address = virtual_address.0;
                let freed = false;
                let mapping = Mapping {
                    process,
                    virtual_address,
                    size,
                    allocation,
                    allocation_offset,
                    page_size,
                    granted,
                    freed,
                };
                self.map(mapping, paging_fence_value);
            }
            Event::GpuVirtualAddressFreed { process, virtual_address, size } => {
                // What is no mapping is a reservation, which nothing depends on.
                let mapping = self.mappings.get_mut(&(process, virtual_address.0));
                if let Some(mapping) = mapping.filter(|mapping| mapping.size == size) {
                    mapping.freed = true;
                }
            }
            Event::Granted { device, queue, paging_fence_value, ref plans } => {
                self.granted(device, queue, paging_fence_value, plans);
            }
            Event::PagingFenceSignaled { queue, value } => self.paging_fence_signaled(queue, value),
            _ => {}
        }
    }

    fn map(&mut self, mapping: Mapping, paging_fence_value: u64) {
        let Mapping { process, virtual_address, allocation: id, .. } = mapping;
        self.replace_mappings(&mapping);
        let Some(allocation) = self.allocations.get_mut(&id) else { return self.unknown(id) };
        allocation.mappings.insert((process, virtual_address));
        let device = allocation.device;
        self.mappings.insert((process, virtual_address), mapping);
        if let (false, Some(device)) = (mapping.granted, self.devices.get_mut(&device)) {
            device.requests.push_back(Request {
                fence_value: paging_fence_value,
                after_submission: device.submitted,
                kind: RequestKind::Map(process, virtual_address),
                granted: None,
            });
        }
    }

    /// Forgets mappings at the addresses of a new one. They must be gone from the page tables.
    fn replace_mappings(&mut self, new: &Mapping) {
        let before = self.mappings.range((new.process, 0)..(new.process, new.end()));
        let overlapping = |mapping: &&Mapping| mapping.end() > new.virtual_address;
        let old: Vec<Mapping> = before.rev().map(|(_, mapping)| mapping).take_while(overlapping).copied().collect();
        for mapping in old {
            self.mappings.remove(&(mapping.process, mapping.virtual_address));
            let Some(allocation) = self.allocations.get_mut(&mapping.allocation) else { continue };
            allocation.mappings.remove(&(mapping.process, mapping.virtual_address));
            let Some(process) = self.processes.get(&mapping.process) else { continue };
            let (start, end, handle) = (mapping.virtual_address, mapping.end(), allocation.handle);
            let shown = self.shadow.shows(process.handle, start, end, handle);
            self.findings.check(mapping.freed && !shown, Invariant::I04, || {
                format!(
                    "{start:#x} of {} is mapped anew while {} is still mapped there",
                    new.process, mapping.allocation
                )
            });
        }
    }

    fn granted(&mut self, id: DeviceId, queue: PagingQueueId, value: u64, plans: &[PlanNo]) {
        let Some(device) = self.devices.get_mut(&id) else { return self.unknown(id) };
        let Some(books) = self.fences.queues.get_mut(&queue).filter(|books| books.device == id) else {
            return self.findings.report(Invariant::Log, format!("{queue} is not a queue of {id}"));
        };
        self.findings.check(value > books.granted, Invariant::I13, || {
            format!("{queue} grants value {value} after {}", books.granted)
        });
        books.granted = value.max(books.granted);
        // The requests of a device are granted in the order in which they were made, whatever their queue.
        let next = device.requests.iter_mut().find(|request| request.granted.is_none());
        let Some(request) = next.filter(|request| request.fence_value == value) else {
            let message = format!("value {value} of {queue} is granted, but is not the next that {id} asked for");
            return self.findings.report(Invariant::I13, message);
        };
        request.granted = Some((queue, plans.to_vec()));
        match &request.kind {
            RequestKind::MakeResident(spans) => {
                for &(allocation, span) in spans {
                    if let Some(allocation) = self.allocations.get_mut(&allocation) {
                        allocation.list.grant(span);
                    }
                }
            }
            RequestKind::Map(process, virtual_address) => {
                if let Some(mapping) = self.mappings.get_mut(&(*process, *virtual_address)) {
                    mapping.granted = true;
                }
            }
        }
    }

    fn paging_fence_signaled(&mut self, queue: PagingQueueId, value: u64) {
        let Some(books) = self.fences.queues.get_mut(&queue) else { return self.unknown(queue) };
        self.findings.check(value > books.signaled, Invariant::I13, || {
            format!("{queue} is signalled with {value} after {}", books.signaled)
        });
        books.signaled = value.max(books.signaled);
        let device = books.device;
        let Some(kind) = self.take_granted(device, queue, value) else {
            let message = format!("{queue} is signalled with {value}, which is not the next that was granted");
            return self.findings.report(Invariant::I13, message);
        };
        match kind {
            RequestKind::MakeResident(spans) => {
                for (id, span) in spans {
                    let span = self.allocations.get(&id).and_then(|allocation| allocation.list.span(span));
                    if span.is_some_and(|span| span.to.is_none()) {
                        self.check_in_place(id);
                    }
                }
            }
            RequestKind::Map(process, virtual_address) => self.check_mapped(process, virtual_address),
        }
    }

    /// Takes the next granted request of a queue, if it has this value; its plans must have retired.
    fn take_granted(&mut self, device: DeviceId, queue: PagingQueueId, value: u64) -> Option<RequestKind> {
        let requests = &mut self.devices.get_mut(&device)?.requests;
        let of_queue = |request: &Request| request.granted.as_ref().is_some_and(|(of, _)| *of == queue);
        let position = requests.iter().position(of_queue)?;
        if requests[position].fence_value != value {
            return None;
        }
        let request = requests.remove(position)?;
        let (_, plans) = request.granted?;
        if let Some(plan) = plans.into_iter().find(|&plan| !self.plans.is_retired(plan)) {
            let message = format!("{queue} is signalled with {value}, but plan {plan} has not retired");
            self.findings.report(Invariant::I13, message);
        }
        Some(request.kind)
    }

    /// The caller was told that the allocation is in its place.
    pub(super) fn check_in_place(&mut self, id: AllocationId) {
        let Some(allocation) = self.allocations.get(&id) else { return };
        let retired = allocation.decided.as_ref().is_some_and(|place| self.plans.is_retired(place.plan));
        self.findings.check(retired, Invariant::I13, || {
            format!("{id} is said to be resident, but is not yet where it is to be")
        });
    }

    /// The caller was told that a mapping can be used.
    fn check_mapped(&mut self, process: ProcessId, virtual_address: u64) {
        let Some(&mapping) = self.mappings.get(&(process, virtual_address)) else { return };
        let Some(place) = self.allocations.get(&mapping.allocation).and_then(|books| books.built.as_ref()) else {
            return;
        };
        if !mapping.freed && self.plans.is_retired(place.plan) {
            let extents = place.extents.clone();
            self.check_visible(&mapping, &extents);
        }
    }
}
