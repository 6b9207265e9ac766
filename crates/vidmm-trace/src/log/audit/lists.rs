//! Residency lists: MakeResident and Evict, and how often they named an allocation (I07).

use vidmm::{AllocationId, DeviceId, EvictFlags};

use super::Audit;
use super::finding::Invariant;
use super::list_entry::{ListEntry, Span};

impl Audit {
    /// The list grows; all that is named is in place, but for those that are `waiting`. Returns the spans that these wait for.
    pub(super) fn make_resident(
        &mut self,
        id: DeviceId,
        named: &[AllocationId],
        after: u64,
        waiting: &[AllocationId],
    ) -> Vec<(AllocationId, u64)> {
        self.check_position(id, after);
        // Those that wait are in the order of the call.
        let mut left = waiting.iter().copied().peekable();
        let (mut spans, mut asked_for) = (Vec::new(), Vec::new());
        for &allocation in named {
            let granted = left.next_if_eq(&allocation).is_none();
            if granted {
                self.check_in_place(id, allocation);
            }
            self.check_not_offered(allocation, "made resident");
            let Some(entry) = self.listed(id, allocation) else { continue };
            let span = entry.join(after);
            spans.push((allocation, span));
            if !granted {
                asked_for.push((allocation, span));
            } else if let Some(allocation) = self.allocations.get_mut(&allocation) {
                allocation.grant(id, span);
            }
            self.forget_spans(allocation);
            self.charge(allocation);
        }
        self.findings.check(left.peek().is_none(), Invariant::Log, || {
            format!("of a MakeResident of {named:?}, {waiting:?} wait")
        });
        if let Some(device) = self.devices.get_mut(&id) {
            device.spans.extend(&spans);
        }
        asked_for
    }

    pub(super) fn evict(&mut self, device: DeviceId, named: &[AllocationId], flags: EvictFlags, after: u64) {
        self.check_position(device, after);
        for &allocation in named {
            let Some(entry) = self.listed(device, allocation) else { continue };
            let counted = entry.leave(after, flags);
            let asks = !flags.contains(EvictFlags::EVICT_ONLY_IF_NECESSARY);
            self.allocations.entry(allocation).and_modify(|allocation| allocation.is_to_go |= asks);
            self.findings.check(counted, Invariant::I07, || {
                format!("{allocation} is evicted from the list of {device}, on which it is not")
            });
            self.charge(allocation);
        }
    }

    /// How a call on a device's list finds an allocation named there: only devices that have it open can name it.
    fn listed(&mut self, device: DeviceId, id: AllocationId) -> Option<&mut ListEntry> {
        let is_open = self.check_open(device, [&id]);
        self.list_entry(device, id).filter(|_| is_open)
    }

    /// How a device's list names an allocation.
    pub(super) fn list_entry(&mut self, device: DeviceId, id: AllocationId) -> Option<&mut ListEntry> {
        let allocation = self.allocations.get_mut(&id)?;
        Some(allocation.lists.entry(device).or_default())
    }

    /// A call of a device names only what that has open. Returns whether that is so.
    pub(super) fn check_open<'a>(
        &mut self,
        device: DeviceId,
        named: impl IntoIterator<Item = &'a AllocationId>,
    ) -> bool {
        let is_closed = |id: &&AllocationId| self.allocations.get(id).is_some_and(|of| !of.open.contains(&device));
        let closed = named.into_iter().find(is_closed);
        self.findings.check(closed.is_none(), Invariant::I07, || {
            format!("{device} names {closed:?}, which it does not have open")
        });
        closed.is_none()
    }

    /// A call on the list says after which submission it was made.
    pub(super) fn check_position(&mut self, id: DeviceId, after: u64) {
        let Some(device) = self.devices.get(&id) else { return };
        let submitted = device.submitted;
        self.findings.check(after == submitted, Invariant::Log, || {
            format!("the call says that submission {after} of {id} was before it, but {submitted} was")
        });
    }

    /// Forgets spans of which all work has retired; what they wrote is remembered.
    pub(super) fn forget_spans(&mut self, id: AllocationId) {
        let Some(allocation) = self.allocations.get_mut(&id) else { return };
        for (device, entry) in &mut allocation.lists {
            let Some(device) = self.devices.get(device) else { continue };
            let writes = |span: &Span| device.writes_in(span, allocation.moved_at);
            allocation
                .writes
                .add(entry.forget(|span| device.unretired_in(span).is_none() && !device.still_holds(span), writes));
        }
    }
}
