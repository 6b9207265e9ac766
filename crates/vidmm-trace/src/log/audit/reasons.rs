//! The reasons for which allocations leave their places: each is a fact of the log (RES-21, RES-71, P60).

use vidmm::event::EvictReason;
use vidmm::{AllocationId, SegmentId};

use super::Audit;
use super::allocation::Allocation;
use super::device::Device;
use super::finding::Invariant;
use super::segment::Segment;

impl Audit {
    /// An allocation leaves a segment for a reason that there is. Of the others an order of victims or a decision that follows tells.
    pub(super) fn check_reason(&mut self, id: AllocationId, segment: SegmentId, reason: EvictReason) {
        let Some(allocation) = self.allocations.get(&id) else { return };
        let has_stopped = |device: &Device| device.is_over() || !device.is_active();
        let (is_fact, invariant) = match reason {
            EvictReason::EvictRequested => (allocation.is_to_go, Invariant::Res21),
            EvictReason::Destroyed => (allocation.destroyed, Invariant::I03),
            EvictReason::RangeWanted => (self.places.is_aperture(segment), Invariant::I03),
            EvictReason::Promoted => (self.places.in_system_memory(segment), Invariant::I03),
            EvictReason::Locked => (self.is_unseen(allocation, segment), Invariant::Res84),
            EvictReason::DeviceSuspended => (self.is_of_stopped(allocation), Invariant::Res71),
            EvictReason::BudgetRestricted => (self.is_above_limit(segment), Invariant::I16),
            EvictReason::PoweredDown => (self.devices.values().all(has_stopped), Invariant::P60),
            EvictReason::RoomWanted | EvictReason::Offered | EvictReason::PropertyUpdated | EvictReason::Moved => {
                return;
            }
        };
        self.findings
            .check(is_fact, invariant, || format!("{id} leaves segment {} as {reason:?}, which is not so", segment.0));
    }

    /// Whether more of a segment's memory is in use than budgets there are for; of system memory the log does not say how much is.
    fn is_above_limit(&self, segment: SegmentId) -> bool {
        let pool = self.places.pool(segment);
        let limit = self.groups.group(pool.0).map_or(u64::MAX, |group| self.adapter.budget_limit(group));
        self.places.memory(pool.0).map_or(self.places.size(pool), Segment::used) > limit
    }

    /// Whether the CPU may not see an allocation in a segment: it may not see all that is in a segment that it reaches.
    fn is_unseen(&self, allocation: &Allocation, segment: SegmentId) -> bool {
        self.places.is_memory(segment) && !allocation.seen_in_backing_store
    }

    /// Whether a device whose list named an allocation runs nothing.
    fn is_of_stopped(&self, allocation: &Allocation) -> bool {
        let mut devices = allocation.lists.keys().filter_map(|id| self.devices.get(id));
        devices.any(|device| device.is_over() || !device.is_active())
    }
}
