//! Hands each event to the parts that follow its subject.

use std::collections::BTreeMap;

use vidmm::contract::{BuildStatus, EngineFence, KmdAllocationHandle, PagingOperation};
use vidmm::{AllocationId, Event, Extent, Nanoseconds, NumberedEvent, PlanNo, event};
use vidmm_trace::Segments;

use super::engines::Engines;
use super::findings::Findings;
use super::memory::Memory;
use super::plans::Plans;
use super::record::{
    Adapter, Budget, BusAccess, Cleaning, Created, Eviction, Gone, GoneObject, Holder, Object, Operation,
    PacketContent, PacketEnd, PageIn, Record, Segment, WaitedFor,
};
use super::requests::Requests;

/// All that is alive or under way.
#[derive(Debug, Default)]
pub(super) struct Fold {
    number: u64,
    at: Nanoseconds,
    memory: Memory,
    engines: Engines,
    plans: Plans,
    requests: Requests,
    findings: Findings,
    handles: BTreeMap<KmdAllocationHandle, AllocationId>,
    /// Operations of the paging buffer that is being built.
    building: Vec<Operation>,
}

impl Fold {
    pub fn event(&mut self, numbered: &NumberedEvent, out: &mut Vec<Record>) {
        let NumberedEvent { number, at, occurred_at, ref event } = *numbered;
        if at > self.at {
            self.memory.flush(self.at, out);
            self.memory.look_for_debts(self.number, self.at, out);
        }
        (self.number, self.at) = (number, at);
        self.engines.polled(at);
        self.findings.learn(numbered, out);
        self.of_objects(event, out);
        self.of_lists(event, out);
        self.of_places(event, out);
        self.of_plans(event, out);
        self.of_packets(event, occurred_at.unwrap_or(at), out);
    }

    pub fn finish(&mut self, out: &mut Vec<Record>) {
        let first = out.len();
        self.engines.finish(out);
        self.charge(first, out);
        self.memory.flush(self.at, out);
        self.memory.homes.finish(self.at, out);
        self.flush_operations(None, out);
        self.plans.finish(out);
        self.requests.finish(out);
    }

    fn of_objects(&mut self, event: &Event, out: &mut Vec<Record>) {
        let (at, number) = (self.at, self.number);
        let created = |object| Record::Created(Created { at, number, object });
        let gone = |object| Record::Gone(Gone { at, object });
        match *event {
            Event::AdapterStarted { ref paging_tables, paging_tables_segment, ref memory, .. } => {
                for of in memory {
                    let name = Segments::of(event).map_or_else(String::new, |all| all.name(of.segment).into_owned());
                    self.memory.homes.segment(of.segment, of.size.saturating_sub(of.page_table_area), name);
                }
                out.extend(adapter(event, at).map(Record::Adapter));
                for &extent in paging_tables {
                    self.memory.set(at, paging_tables_segment, extent, Holder::PageTable(None), out);
                }
            }
            Event::ProcessCreated { process, .. } => out.push(created(Object::Process(process))),
            Event::ProcessDestroyed { process } => out.push(gone(GoneObject::Process(process))),
            Event::DeviceCreated { device, process, .. } => {
                self.memory.device(device, process);
                out.push(created(Object::Device(device, process)));
            }
            Event::DeviceDestroyed { device } => {
                self.memory.device_gone(device);
                self.requests.device_gone(device, out);
                out.push(gone(GoneObject::Device(device)));
            }
            Event::ContextCreated { context, device, engine } => {
                out.push(created(Object::Context(context, device, engine)));
            }
            Event::ContextDestroyed { context } => out.push(gone(GoneObject::Context(context))),
            Event::PagingQueueCreated { queue, device, .. } => {
                self.requests.queue(queue, device);
                out.push(created(Object::PagingQueue(queue, device)));
            }
            Event::PagingQueueDestroyed { queue } => {
                self.requests.queue_gone(queue);
                out.push(gone(GoneObject::PagingQueue(queue)));
            }
            Event::MonitoredFenceCreated { fence, value, .. } => self.requests.fence(fence, value, at),
            Event::MonitoredFenceDestroyed { fence } => self.requests.fence_gone(fence),
            Event::AllocationCreated { allocation, device, process, handle, size, preferred_segment, .. } => {
                self.memory.homes.allocation(allocation, size, preferred_segment);
                self.handles.insert(handle, allocation);
                self.memory.allocation(allocation, device, process, size);
                out.push(created(Object::Allocation(allocation, device, process, size)));
            }
            Event::AllocationReclaimed { allocation } => {
                self.memory.gone(allocation);
                self.plans.allocation_gone(allocation, out);
                out.push(gone(GoneObject::Allocation(allocation)));
            }
            Event::BudgetChanged { process, group, budget, requested } => {
                out.push(Record::Budget(Budget { at, process, group, budget, requested }));
            }
            _ => {}
        }
    }

    fn of_lists(&mut self, event: &Event, out: &mut Vec<Record>) {
        let at = self.at;
        match *event {
            Event::MakeResident { device, queue, ref allocations, paging_fence_value, ref waiting, .. } => {
                allocations.iter().for_each(|&allocation| self.memory.join(device, allocation));
                self.requests.ask(queue, paging_fence_value, waiting, at);
            }
            Event::Evict { device, ref allocations, .. } => {
                allocations.iter().for_each(|&allocation| self.memory.leave_list(device, allocation));
            }
            Event::Offered { ref allocations, .. } => {
                allocations.iter().for_each(|&allocation| self.memory.offer(allocation, true));
            }
            Event::Reclaimed { queue, ref allocations, paging_fence_value, .. } => {
                allocations.iter().for_each(|&allocation| self.memory.offer(allocation, false));
                self.requests.ask(queue, paging_fence_value, allocations, at);
            }
            Event::GpuVirtualAddressMapped { queue, allocation, paging_fence_value, .. }
            | Event::AllocationPropertyUpdated { queue, allocation, paging_fence_value, .. } => {
                self.requests.ask(queue, paging_fence_value, &[allocation], at);
            }
            Event::AllocationClosed { allocation, device } => self.memory.forget(device, allocation),
            Event::AllocationDestroyed { allocation, .. } => self.memory.destroy(allocation),
            Event::AllocationOwnershipTransferred { allocation, device, process } => {
                self.memory.transfer(allocation, device, process);
            }
            Event::DeviceInError { device, .. } => self.memory.empty_list(device),
            Event::DeviceYielded { device, reason, wanted_by } => {
                self.requests.yielded(device, reason, wanted_by, at, out);
            }
            Event::DeviceSuspended { device } => self.memory.suspend(device, true),
            Event::DeviceResumed { device, .. } => {
                self.memory.suspend(device, false);
                self.requests.resumed(device, at, out);
            }
            Event::Granted { device, queue, paging_fence_value, ref plans } => {
                self.requests.granted(device, queue, paging_fence_value, plans, at);
            }
            Event::PagingFenceSignaled { queue, value } => self.requests.signaled(queue, value, at, out),
            Event::MonitoredFenceSignaled { fence, value } => self.requests.fence(fence, value, at),
            _ => {}
        }
    }

    fn of_places(&mut self, event: &Event, out: &mut Vec<Record>) {
        let (at, number) = (self.at, self.number);
        match *event {
            Event::Evicted { plan, allocation, segment, ref extents, copied, reason, discarded, wanted_by } => {
                let bytes = self.memory.size_of(allocation);
                self.plans.evicted(
                    Eviction {
                        number,
                        at,
                        plan,
                        allocation,
                        process: self.memory.process_of(allocation),
                        segment,
                        bytes,
                        bytes_out: if copied { bytes } else { 0 },
                        reason,
                        discarded,
                        wanted_by,
                        moved_to: None,
                        returned: None,
                        lost_out_ns: 0,
                    },
                    out,
                );
                self.memory.evict(at, allocation, plan, segment, extents, out);
            }
            Event::Cleaned { plan, allocation, size, is_last, .. } => {
                self.plans.cleaned(plan, at, size);
                let process = self.memory.process_of(allocation);
                let segment = self.memory.segment_of(allocation);
                out.push(Record::Cleaning(Cleaning {
                    number,
                    at,
                    plan,
                    allocation,
                    process,
                    segment,
                    bytes: size,
                    is_last,
                }));
            }
            Event::Placed { plan, allocation, segment, ref extents, content } => {
                let bytes = self.memory.size_of(allocation);
                let lost_ns = 0;
                let ended_at = None;
                self.plans.placed(PageIn { number, at, ended_at, plan, allocation, segment, bytes, content, lost_ns });
                self.memory.place(at, allocation, segment, extents, out);
            }
            Event::PageTablePlaced { process, address, size, .. } => {
                let extent = Extent { offset: address.offset, size };
                self.memory.set(at, address.segment, extent, Holder::PageTable(Some(process)), out);
            }
            Event::PageTableFreed { address, size, .. } => {
                self.memory.set(at, address.segment, Extent { offset: address.offset, size }, Holder::Free, out);
            }
            Event::AdapterRestarted => self.memory.reset(at, out),
            _ => {}
        }
    }

    fn of_plans(&mut self, event: &Event, out: &mut Vec<Record>) {
        let at = self.at;
        match *event {
            Event::PlanDecided { plan, ref waits, ref after } => self.plans.decided(plan, at, waits, after),
            Event::PlanEntered { plan } => {
                self.plans.entered(plan, at);
                self.memory.entered(at, plan, out);
            }
            Event::PlanBuilt { plan, signal } => self.plans.built(plan, signal),
            Event::PlanRetired { plan } => self.plans.retired(plan, at),
            Event::PlanAbandoned { plan } => self.plans.abandoned(plan, out),
            _ => {}
        }
    }

    fn of_packets(&mut self, event: &Event, occurred_at: Nanoseconds, out: &mut Vec<Record>) {
        let at = self.at;
        match *event {
            Event::Submitted { device, context, submission, ref waits, .. } => {
                self.requests.submitted(device, context, submission, waits, at);
            }
            Event::Rendered { device, context, dma_buffer, .. } => {
                self.requests.rendered(device, context, dma_buffer, at);
            }
            Event::Portion { device, dma_buffer, submission, is_last, .. } => {
                self.requests.portion(device, dma_buffer, submission, is_last);
            }
            Event::PreparationFailed { device, dma_buffer, .. } => self.requests.dropped(device, dma_buffer),
            Event::Dispatched { device, submission, signal, ref waits } => {
                let state = self.requests.dispatched(device, submission, at, out);
                let content = PacketContent::Work {
                    device,
                    context: state.context,
                    submission,
                    submitted_at: state.submitted_at,
                };
                self.engines.queue(signal, waits.clone(), content, at);
            }
            Event::Resubmitted { before, signal, ref waits } => self.engines.resubmit(before, signal, waits.clone()),
            Event::PagingOperation { plan, operation, status, offset, bytes, .. } => {
                let operation = self.operation(plan, operation, status);
                self.building.push(operation);
                // It is in no packet, and none is submitted for it.
                if offset == 0 && bytes == 0 && self.building.len() == 1 {
                    self.flush_operations(None, out);
                }
            }
            Event::PagingBufferSubmitted { signal, bytes } => {
                let mut plans: Vec<PlanNo> = self.building.iter().map(|operation| operation.plan).collect();
                plans.sort_unstable();
                plans.dedup();
                let operations = self.building.len() as u32;
                self.flush_operations(Some(signal), out);
                self.engines.queue(signal, Vec::new(), PacketContent::Paging { bytes, operations, plans }, at);
            }
            Event::Completed { signal } => {
                self.plans.packet_ended(signal, occurred_at);
                self.packet_ended(signal, occurred_at, PacketEnd::Completed, out);
            }
            Event::AccessedOverBus { device, kernel, ref accesses } => {
                let record = |&event::BusAccess { allocation, bytes, lost_ns }: &_| {
                    Record::BusAccess(BusAccess { at: occurred_at, device, kernel, allocation, bytes, lost_ns })
                };
                out.extend(accesses.iter().map(record));
            }
            Event::Aborted { signal } => self.packet_ended(signal, occurred_at, PacketEnd::Aborted, out),
            _ => {}
        }
    }

    fn packet_ended(&mut self, signal: EngineFence, at: Nanoseconds, end: PacketEnd, out: &mut Vec<Record>) {
        let first = out.len();
        self.engines.end(signal, at, end, out);
        self.charge(first, out);
        self.plans.settle(self.engines.horizon(), out);
    }

    /// Charges the waits among the records from `first` on to the plans that they were for.
    fn charge(&mut self, first: usize, out: &[Record]) {
        for record in &out[first..] {
            if let Record::Wait(wait) = record
                && matches!(wait.on, WaitedFor::Packet(_))
            {
                self.plans.charge(wait);
            }
        }
    }

    fn operation(&self, plan: PlanNo, operation: PagingOperation, status: BuildStatus) -> Operation {
        Operation {
            number: self.number,
            at: self.at,
            plan,
            kind: operation.kind(),
            allocation: operation.allocation().and_then(|handle| self.handles.get(&handle)).copied(),
            bytes: operation.size_in_bytes(),
            is_encoded: status == BuildStatus::Success,
            packet: None,
        }
    }

    fn flush_operations(&mut self, packet: Option<EngineFence>, out: &mut Vec<Record>) {
        let operations = self.building.drain(..);
        out.extend(operations.map(|operation| Record::Operation(Operation { packet, ..operation })));
    }
}

/// The adapter of the event that starts it.
fn adapter(event: &Event, at: Nanoseconds) -> Option<Adapter> {
    let segments = Segments::of(event)?;
    let Event::AdapterStarted { memory, apertures, system_commit_limit, engines, .. } = event else { return None };
    let facts = memory.iter().map(|memory| (memory.segment, memory.size, true));
    let facts = facts.chain(apertures.iter().map(|aperture| (aperture.segment, aperture.size, false)));
    let facts = facts.chain([(vidmm::SegmentId::SYSTEM, *system_commit_limit, false)]);
    let segment = |(segment, size, is_memory)| Segment {
        segment,
        name: segments.name(segment).into_owned(),
        size,
        group: segments.group(segment),
        is_memory,
    };
    Some(Adapter { at, segments: facts.map(segment).collect(), engines: engines.clone() })
}
