//! The allocations whose stories an event may belong to.

use std::collections::BTreeMap;

use vidmm::contract::{KmdAllocationHandle, PagingOperation};
use vidmm::event::{Neighbour, PortionEnd};
use vidmm::{AllocationId, Event, Extent, PagingQueueId, PlanNo, ProcessId, SegmentId};

use super::pieces::Pieces;

/// The allocations that an event may concern.
#[derive(Debug)]
pub(super) enum Concern {
    /// These, some of them perhaps more than once.
    Some(Vec<AllocationId>),
    /// All that live: their devices, their processes or the adapter are concerned.
    All,
}

/// The links that an event does not name by itself: which allocations a plan, a request, an address or a room belongs to.
#[derive(Debug, Default)]
pub(super) struct Index {
    handles: BTreeMap<KmdAllocationHandle, AllocationId>,
    plans: BTreeMap<PlanNo, Vec<AllocationId>>,
    requests: BTreeMap<(PagingQueueId, u64), Vec<AllocationId>>,
    mappings: Pieces<ProcessId, AllocationId>,
    /// Ranges that were given up and are not taken, and the allocations that gave them up.
    rooms: Pieces<SegmentId, Vec<AllocationId>>,
}

impl Index {
    /// Learns an event, and says which allocations it may concern.
    pub fn concern(&mut self, event: &Event) -> Concern {
        Concern::Some(match *event {
            Event::AllocationCreated { allocation, handle, .. } => {
                self.handles.insert(handle, allocation);
                vec![allocation]
            }
            Event::MakeResident { queue, ref allocations, paging_fence_value, ref waiting, .. } => {
                self.ask(queue, paging_fence_value, waiting);
                allocations.clone()
            }
            Event::Reclaimed { queue, ref allocations, paging_fence_value, .. } => {
                self.ask(queue, paging_fence_value, allocations);
                allocations.clone()
            }
            Event::MakeResidentRefused { ref allocations, .. }
            | Event::Evict { ref allocations, .. }
            | Event::Announced { ref allocations, .. }
            | Event::Offered { ref allocations, .. } => allocations.clone(),
            Event::Granted { queue, paging_fence_value, .. } => {
                self.requests.get(&(queue, paging_fence_value)).cloned().unwrap_or_default()
            }
            Event::PagingFenceSignaled { queue, value } => self.signaled(queue, value),
            Event::Evicted { .. }
            | Event::Cleaned { .. }
            | Event::Prefetched { .. }
            | Event::Placed { .. }
            | Event::PageTablePlaced { .. } => self.of_places(event),
            Event::PlanRetired { plan } | Event::PlanAbandoned { plan } => self.plans.remove(&plan).unwrap_or_default(),
            Event::GpuVirtualAddressMapped { process, virtual_address, size, allocation, .. } => {
                self.map(process, virtual_address.0, size, allocation);
                vec![allocation]
            }
            Event::GpuVirtualAddressFreed { process, virtual_address, .. }
            | Event::GpuVirtualAddressReclaimed { process, virtual_address, .. } => {
                self.mapped_at(process, virtual_address.0).into_iter().collect()
            }
            Event::PagingOperation { operation, .. } => self.notified(operation).into_iter().collect(),
            Event::AccessedOverBus { ref accesses, .. } => accesses.iter().map(|access| access.allocation).collect(),
            Event::Portion { ref bindings, cut, .. } => {
                let without = match cut {
                    PortionEnd::NoRoom { allocation } => Some(allocation),
                    _ => None,
                };
                bindings.iter().filter_map(|binding| binding.allocation).chain(without).collect()
            }
            Event::PageFault { allocation, below, above, .. } => {
                let of = |neighbour: Neighbour| neighbour.allocation;
                allocation.into_iter().chain(below.map(of)).chain(above.map(of)).collect()
            }
            _ => match named(event) {
                Some(allocation) => vec![allocation],
                None if is_of_all(event) => return Concern::All,
                None => Vec::new(),
            },
        })
    }

    /// A call was answered with a value of a queue's fence; 0 is no request.
    fn ask(&mut self, queue: PagingQueueId, value: u64, asked_for: &[AllocationId]) {
        if value > 0 {
            self.requests.insert((queue, value), asked_for.to_vec());
        }
    }

    fn signaled(&mut self, queue: PagingQueueId, value: u64) -> Vec<AllocationId> {
        let done: Vec<_> = self.requests.range((queue, 0)..=(queue, value)).map(|(&key, _)| key).collect();
        done.iter().filter_map(|key| self.requests.remove(key)).flatten().collect()
    }

    fn of_places(&mut self, event: &Event) -> Vec<AllocationId> {
        match *event {
            Event::Evicted { plan, allocation, segment, ref extents, .. } => {
                self.plans.entry(plan).or_default().push(allocation);
                if !segment.is_system() {
                    extents.iter().for_each(|&extent| self.give_up(segment, extent, allocation));
                }
                vec![allocation]
            }
            Event::Cleaned { allocation, .. } | Event::Prefetched { allocation, .. } => vec![allocation],
            Event::Placed { plan, allocation, segment, ref extents, .. } => {
                self.plans.entry(plan).or_default().push(allocation);
                let mut concerned = vec![allocation];
                extents.iter().for_each(|&extent| concerned.extend(self.take(segment, extent)));
                concerned
            }
            Event::PageTablePlaced { address, size, .. } => {
                self.take(address.segment, Extent { offset: address.offset, size })
            }
            _ => Vec::new(),
        }
    }

    /// Adds a mapping. What was mapped at its addresses is free, but other parts of that may be mapped still.
    fn map(&mut self, process: ProcessId, first: u64, size: u64, allocation: AllocationId) {
        self.mappings.cut(process, first, first.saturating_add(size));
        self.mappings.insert(process, first, first.saturating_add(size), allocation);
    }

    fn mapped_at(&self, process: ProcessId, address: u64) -> Option<AllocationId> {
        self.mappings.at(process, address).copied()
    }

    fn notified(&self, operation: PagingOperation) -> Option<AllocationId> {
        let handle = match operation {
            PagingOperation::NotifyAlloc(notice) => notice.allocation,
            PagingOperation::NotifyResidency(notice) => notice.allocation,
            _ => return None,
        };
        self.handles.get(&handle).copied()
    }

    fn give_up(&mut self, segment: SegmentId, extent: Extent, allocation: AllocationId) {
        // Another had given up a part of it, and this one took the rest and gives up all.
        let parts = self.rooms.cut(segment, extent.offset, extent.saturating_end());
        let mut next = extent.offset;
        for (start, end, mut of) in parts {
            self.rooms.insert(segment, next, start, vec![allocation]);
            of.push(allocation);
            self.rooms.insert(segment, start, end, of);
            next = end;
        }
        self.rooms.insert(segment, next, extent.saturating_end(), vec![allocation]);
    }

    fn take(&mut self, segment: SegmentId, extent: Extent) -> Vec<AllocationId> {
        let parts = self.rooms.cut(segment, extent.offset, extent.saturating_end());
        parts.into_iter().flat_map(|(_, _, of)| of).collect()
    }
}

/// The allocation that an event of its own life names.
fn named(event: &Event) -> Option<AllocationId> {
    match *event {
        Event::AllocationDestroyed { allocation, .. }
        | Event::AllocationReclaimed { allocation }
        | Event::AllocationPriorityChanged { allocation, .. }
        | Event::AllocationCounted { allocation, .. }
        | Event::AllocationPropertyUpdated { allocation, .. }
        | Event::AllocationOpened { allocation, .. }
        | Event::AllocationClosed { allocation, .. }
        | Event::AllocationOwnershipTransferred { allocation, .. }
        | Event::ContentDiscarded { allocation, .. }
        | Event::Decommitted { allocation }
        | Event::Locked { allocation, .. }
        | Event::Rotated { allocation, .. }
        | Event::Unlocked { allocation, .. }
        | Event::PurgeOperation { allocation, .. }
        | Event::ContentLost { allocation, .. }
        | Event::Finding { allocation, .. } => Some(allocation),
        _ => None,
    }
}

/// Whether an event is about devices, processes or the adapter, in a way that stories tell.
fn is_of_all(event: &Event) -> bool {
    matches!(
        event,
        Event::DeviceInError { .. }
            | Event::AdapterResetBegun { .. }
            | Event::EngineResetBegun { .. }
            | Event::AdapterRestarted
            | Event::DeviceYielded { .. }
            | Event::DeviceSuspended { .. }
            | Event::DeviceResumed { .. }
            | Event::DeviceHeldUp { .. }
            | Event::PoweredDown
            | Event::PoweredUp
            | Event::ProcessSuspended { .. }
            | Event::ProcessResumed { .. }
            | Event::TrimNotified { .. }
            | Event::BudgetChanged { .. }
            | Event::ProcessPriorityChanged { .. }
    )
}
