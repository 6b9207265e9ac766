//! Allocations that several devices have open: who can name them, and whose they are (RES-02, U-34).

use vidmm::{AllocationId, DestroyFlags, DeviceId, Event, ProcessId};

use super::Audit;
use super::finding::Invariant;

impl Audit {
    pub(super) fn opened(&mut self, id: AllocationId, device: DeviceId, process: ProcessId) {
        self.check_process_of(device, process);
        let Some(allocation) = self.allocations.get_mut(&id) else { return };
        let openable = allocation.shared && !allocation.open.contains(&device);
        self.findings.check(openable, Invariant::U34, || {
            format!("{device} opens {id}, which is not shared, or which it has open")
        });
        allocation.open.push(device);
        // Lists of several devices count it, each for itself.
        let (set, size) = (allocation.supported_segment_set, allocation.size);
        self.may_be_in(set, size);
    }

    /// It leaves the device's list after what was submitted so far, and its mappings end with that work.
    pub(super) fn closed(&mut self, id: AllocationId, device: DeviceId) {
        self.devices.entry(device).and_modify(|device| device.has_closed = true);
        let submitted = self.devices.get(&device).map_or(0, |device| device.submitted);
        let Some(allocation) = self.allocations.get_mut(&id) else { return };
        // An owner that has destroyed it while others have it open closes it so, before it is theirs.
        let hands_over = self.heir.is_some_and(|(of, _)| of == id) && allocation.owner == device;
        let opened = allocation.open.contains(&device) && allocation.owner != device || hands_over;
        self.findings.check(opened, Invariant::U34, || format!("{device} closes {id}, which it did not open"));
        allocation.open.retain(|&other| other != device);
        allocation.closed_by.push((device, submitted));
        if let Some(entry) = allocation.lists.get_mut(&device) {
            entry.leave_for_good(submitted);
        }
        for key in &allocation.mappings {
            if let Some(mapping) = self.mappings.get_mut(key).filter(|mapping| mapping.device == device) {
                mapping.freed.get_or_insert(submitted);
            }
        }
        self.charge(id);
    }

    /// The owner destroys it. It leaves the owner's list after what was submitted so far; if others have it open it is theirs.
    pub(super) fn allocation_destroyed(&mut self, id: AllocationId, flags: DestroyFlags) {
        let Some(allocation) = self.allocations.get_mut(&id) else { return };
        let owner = allocation.owner;
        let submitted = self.devices.get(&owner).map_or(0, |device| device.submitted);
        allocation.open.retain(|&device| device != owner);
        // An allocation that others have open is only closed by its owner, as any device does.
        // Where engines use physical addresses, the flag is not believed: the work would find whatever is there by then.
        let is_believed = flags.contains(DestroyFlags::ASSUME_NOT_IN_USE) && !self.adapter.is_physical();
        let is_over = is_believed && allocation.open.is_empty();
        if let Some(entry) = allocation.lists.get_mut(&owner) {
            entry.leave_for_good(submitted);
            if is_over {
                let owner = self.devices.get(&owner);
                let made = owner
                    .into_iter()
                    .flat_map(|owner| entry.spans().map(|span| owner.writes_in(span, allocation.moved_at)));
                made.for_each(|writes| allocation.writes.possible |= writes.possible);
                entry.forget_all();
            }
        }
        allocation.offer = None;
        self.offered.remove(&id);
        match allocation.open.first() {
            Some(&heir) => self.heir = Some((id, heir)),
            None => allocation.destroyed = true,
        }
        self.charge(id);
    }

    pub(super) fn transferred(&mut self, id: AllocationId, device: DeviceId, process: ProcessId) {
        self.check_process_of(device, process);
        let heir = self.heir.take();
        self.findings.check(heir == Some((id, device)), Invariant::U34, || {
            format!("{id} goes to {device}, but what changes its owner is {heir:?}")
        });
        self.names.give(id.into(), device.into());
        if let Some(allocation) = self.allocations.get_mut(&id) {
            allocation.owner = device;
        }
        self.charge(id);
    }

    /// An allocation that its owner destroyed and others have open goes to the first of them at once.
    pub(super) fn check_inherited(&mut self, event: &Event) {
        let Some((id, heir)) = self.heir else { return };
        let hands_over = match event {
            Event::AllocationOwnershipTransferred { .. } => true,
            Event::AllocationClosed { allocation, .. } => *allocation == id,
            _ => false,
        };
        if !hands_over {
            self.heir = None;
            self.findings.report(Invariant::U34, format!("{id} was destroyed by its owner, but does not go to {heir}"));
        }
    }

    /// A device is gone: it has nothing open any more.
    pub(super) fn check_nothing_open(&mut self, device: DeviceId) {
        let open = self.allocations.iter().find(|(_, allocation)| allocation.open.contains(&device)).map(|(&id, _)| id);
        self.findings.check(open.is_none(), Invariant::I28, || format!("{device} is gone, but has {open:?} open"));
    }

    fn check_process_of(&mut self, id: DeviceId, process: ProcessId) {
        let of = self.process_of(id);
        self.findings.check(of.is_none_or(|of| of == process), Invariant::Log, || {
            format!("{id} is of {of:?}, not of {process}")
        });
    }
}
