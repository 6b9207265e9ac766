//! Residency lists: MakeResident and Evict, and how often they named an allocation (I07).

use vidmm::{AllocationId, DeviceId, EvictFlags};

use super::Audit;
use super::allocation::Allocation;
use super::finding::Invariant;

impl Audit {
    /// The list grows; with `granted`, all that is named is in place. Returns the spans that the call is for.
    pub(super) fn make_resident(
        &mut self,
        id: DeviceId,
        named: &[AllocationId],
        after: u64,
        granted: bool,
    ) -> Vec<(AllocationId, u64)> {
        self.check_position(id, after);
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
        if let Some(device) = self.devices.get_mut(&id) {
            device.spans.extend(&spans);
        }
        spans
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
        let foreign = self.allocations.get(&id).is_some_and(|allocation| allocation.device != device);
        self.findings
            .check(!foreign, Invariant::I07, || format!("{id} is on the list of {device}, which it is not of"));
        self.allocations.get_mut(&id).filter(|_| !foreign)
    }

    /// A call on the list says after which submission it was made.
    fn check_position(&mut self, id: DeviceId, after: u64) {
        let Some(device) = self.devices.get(&id) else { return };
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
