//! Residency lists: MakeResident and Evict, and how often they named an allocation (I07).

use vidmm::{AllocationId, DeviceId, EvictFlags};

use super::Audit;
use super::allocation::Allocation;
use super::device::{Request, RequestKind};
use super::finding::Invariant;

impl Audit {
    pub(super) fn make_resident(&mut self, id: DeviceId, named: &[AllocationId], after: u64, paging_fence_value: u64) {
        self.check_position(id, after);
        let granted = paging_fence_value == 0;
        let mut spans = Vec::new();
        for &allocation in named {
            if granted {
                self.check_in_place(allocation);
            }
            let Some(books) = self.listed(id, allocation) else { continue };
            let span = books.list.join(after);
            if granted {
                books.list.grant(span);
            }
            spans.push((allocation, span));
            self.forget_spans(allocation);
        }
        let Some(device) = self.devices.get_mut(&id) else { return };
        device.spans.extend(&spans);
        if !granted {
            let kind = RequestKind::MakeResident(spans);
            device.requests.push_back(Request {
                fence_value: paging_fence_value,
                after_submission: after,
                kind,
                granted: None,
            });
        }
    }

    pub(super) fn evict(&mut self, device: DeviceId, named: &[AllocationId], flags: EvictFlags, after: u64) {
        self.check_position(device, after);
        for &allocation in named {
            let Some(books) = self.listed(device, allocation) else { continue };
            let counted = books.list.leave(after, flags);
            self.findings.check(counted, Invariant::I07, || {
                format!("{allocation} is evicted from the list of {device}, on which it is not")
            });
        }
    }

    /// The books of an allocation that a device's list names: only that device's list can.
    fn listed(&mut self, device: DeviceId, id: AllocationId) -> Option<&mut Allocation> {
        let owner = self.allocations.get(&id).map(|allocation| allocation.device);
        if owner.is_none() {
            self.unknown(id);
        }
        let foreign = owner.is_some_and(|owner| owner != device);
        self.findings
            .check(!foreign, Invariant::I07, || format!("{id} is on the list of {device}, which it is not of"));
        self.allocations.get_mut(&id).filter(|_| !foreign)
    }

    /// A call on the list says after which submission it was made.
    fn check_position(&mut self, id: DeviceId, after: u64) {
        let Some(device) = self.devices.get(&id) else { return self.unknown(id) };
        let submitted = device.submitted;
        self.findings.check(after == submitted, Invariant::Log, || {
            format!("the call says that submission {after} of {id} was before it, but {submitted} was")
        });
    }

    /// Forgets spans of which all work has retired; what they wrote is remembered.
    fn forget_spans(&mut self, id: AllocationId) {
        let Some(allocation) = self.allocations.get_mut(&id) else { return };
        let Some(device) = self.devices.get(&allocation.device) else { return };
        allocation.written |= allocation.list.forget(|span| device.unretired_in(span).is_none());
    }
}
