//! Properties of an allocation that change later: its priority, and where it may be (CRE-31, CRE-50).

use vidmm::{AllocationId, Event, PagingQueueId};

use super::Audit;
use super::device::RequestKind;

impl Audit {
    pub(super) fn properties(&mut self, event: &Event) {
        match *event {
            Event::AllocationPriorityChanged { allocation, priority } => {
                if let Some(allocation) = self.allocations.get_mut(&allocation) {
                    allocation.priority = priority;
                }
            }
            Event::AllocationPropertyUpdated { allocation, supported_segment_set, queue, paging_fence_value } => {
                self.property_updated(allocation, supported_segment_set, queue, paging_fence_value);
            }
            Event::ContextPriorityChanged { context, priority } => {
                if let Some(context) = self.contexts.get_mut(&context) {
                    context.priority = priority;
                }
            }
            _ => {}
        }
    }

    /// Where it may be is another set of segments; if it must move for that, it is a request of the queue's device.
    fn property_updated(&mut self, id: AllocationId, set: u32, queue: PagingQueueId, paging_fence_value: u64) {
        if let Some(allocation) = self.allocations.get_mut(&id) {
            allocation.supported_segment_set = set;
        }
        self.charge(id);
        let device = self.fences.queues.get(&queue).map(|queue| queue.device);
        if let Some(device) = device.filter(|_| paging_fence_value > 0) {
            self.ask(device, queue, paging_fence_value, RequestKind::Move);
        }
    }
}
