//! Devices in error: for what they did, told once, with nothing left that is required (I12, FLT-33).

use vidmm::contract::KmdAllocationHandle;
use vidmm::{DeviceErrorReason, DeviceId, Event, EvictFlags, MonitoredFenceId, ProcessId};

use super::Audit;
use super::device::Device;
use super::finding::Invariant;

impl Audit {
    pub(super) fn device_in_error(&mut self, id: DeviceId, reason: DeviceErrorReason) {
        self.check_blame(id, reason);
        self.blamed.remove(&id);
        if let Some(reset) = &mut self.reset {
            reset.doomed.remove(&id);
            let own = reset.suspect.filter(|&(suspect, _)| suspect == id).map_or(reason, |(_, own)| own);
            self.findings.check(own == reason, Invariant::I12, || {
                format!("{id} is told {reason:?}, but the adapter is reset for what it did: {own:?}")
            });
        }
        let Some(device) = self.devices.get_mut(&id) else { return };
        let was_over = device.is_over();
        device.in_error = true;
        self.findings.check(!was_over, Invariant::I12, || format!("{id} is told twice that it is in error"));
        self.drop_work(id);
    }

    /// Nothing more of a device is handed out, and nothing is required for it.
    pub(super) fn drop_work(&mut self, id: DeviceId) {
        self.empty_list(id);
        let mut dropped = self.portions.drop_device(id);
        dropped.extend(self.devices.get_mut(&id).map(Device::drop_undispatched).unwrap_or_default());
        self.settle(id);
        self.owe_dropped(id, dropped);
    }

    /// Work of a device is over that would have signalled `fences`: they are owed the maximum when nothing of the device is in flight.
    pub(super) fn owe_dropped(&mut self, id: DeviceId, fences: impl IntoIterator<Item = MonitoredFenceId>) {
        let Some(device) = self.devices.get_mut(&id) else { return };
        device.dropped_signals.extend(fences);
        if device.unretired.is_empty() {
            let dropped = std::mem::take(&mut device.dropped_signals);
            self.fences.monitored.owe(dropped.into_iter().map(|fence| (fence, u64::MAX)));
        }
    }

    /// Whether the reason is a fact that the log has.
    fn check_blame(&mut self, id: DeviceId, reason: DeviceErrorReason) {
        let Some(process) = self.process_of(id) else { return };
        let cause = self.reset.as_ref().map(|reset| reset.cause);
        let is_right = match reason {
            DeviceErrorReason::PageFault { .. }
            | DeviceErrorReason::IllegalCommand
            | DeviceErrorReason::EngineTimeout
            | DeviceErrorReason::DependentEngineReset => self.blamed.contains(&id),
            DeviceErrorReason::AdapterReset => cause.is_some(),
            // A log of decisions does not say what a paging buffer works on.
            DeviceErrorReason::PagingBufferFault => {
                cause == Some(reason) && (self.owns_paged(id) || !self.sees_operations())
            }
            DeviceErrorReason::EngineTimeoutPromotedToAdapterReset | DeviceErrorReason::PagingEngineTimeout => false,
            DeviceErrorReason::ProcessBlocked => self.blocked.contains(&process),
            DeviceErrorReason::NotResident { allocation } => {
                // An allocation that is offered, or was not committed again, is not resident, whatever list it is on
                // (RES-62, RES-66).
                let books = self.allocations.get(&allocation);
                let books = books.filter(|books| books.offer.is_none() && books.committed);
                let entry = books.and_then(|books| books.lists.get(&id));
                entry.is_none_or(|entry| entry.count == 0)
            }
            _ => true,
        };
        self.findings.check(is_right, Invariant::I12, || format!("{id} is in error, but did not do this: {reason}"));
    }

    /// Whether the paging buffer that runs names an allocation of a device (FLT-23).
    fn owns_paged(&self, id: DeviceId) -> bool {
        let paging = self.fences.engines.get(self.fences.paging_engine as usize);
        let named = paging.and_then(|paging| self.paged.get(paging.in_flight.front()?));
        let owner = |handle: &KmdAllocationHandle| Some(self.allocations.get(self.by_handle.get(handle)?)?.owner);
        named.is_some_and(|named| named.iter().any(|handle| owner(handle) == Some(id)))
    }

    /// All that it made resident is given back, as if it had been evicted as often as it is on the list. What was to have another home
    /// for one of its requests keeps its own, and the log does not say of which allocations that is so.
    fn empty_list(&mut self, id: DeviceId) {
        let Some(submitted) = self.devices.get(&id).map(|device| device.submitted) else { return };
        let mut left = Vec::new();
        for (&allocation, books) in &mut self.allocations {
            let Some(entry) = books.lists.get_mut(&id) else { continue };
            if entry.count > 0 {
                entry.count = 1;
                entry.leave(submitted, EvictFlags::EVICT_ONLY_IF_NECESSARY);
            }
            books.counted_in = None;
            left.push(allocation);
        }
        left.into_iter().for_each(|allocation| self.charge(allocation));
    }

    /// A process loses the GPU: all its devices are in error at once.
    pub(super) fn process_blocked(&mut self, id: ProcessId) {
        let is_new = self.blocked.insert(id);
        self.findings.check(is_new, Invariant::I12, || format!("{id} is blocked twice"));
        self.check_may_be_blocked(id);
    }

    /// A device in error makes no call that succeeds.
    pub(super) fn check_caller(&mut self, event: &Event) {
        let queue_of = |queue| self.fences.queues.get(queue).map(|queue| queue.device);
        let device = match event {
            Event::Submitted { device, .. }
            | Event::Rendered { device, .. }
            | Event::Portion { device, .. }
            | Event::MakeResident { device, .. }
            | Event::MakeResidentRefused { device, .. }
            | Event::Evict { device, .. }
            | Event::Offered { device, .. }
            | Event::Reclaimed { device, .. }
            | Event::Locked { device, .. }
            | Event::AllocationOpened { device, .. }
            | Event::AllocationCreated { device, .. }
            | Event::ContextCreated { device, .. }
            | Event::PagingQueueCreated { device, .. }
            | Event::TrimNotificationRegistered { device, .. } => Some(*device),
            Event::GpuVirtualAddressMapped { queue, .. } | Event::AllocationPropertyUpdated { queue, .. } => {
                queue_of(queue)
            }
            Event::DeviceCreated { process, .. } => {
                let has_ended = self.processes.get(process).is_some_and(|process| process.has_ended);
                self.findings
                    .check(!has_ended, Invariant::I27, || format!("a call names {process}, which was destroyed"));
                let blocked = self.blocked.contains(process);
                self.findings.check(!blocked, Invariant::I12, || format!("{process} is blocked, but gets a device"));
                return;
            }
            _ => return,
        };
        let Some(id) = device else { return };
        let Some(&Device { in_error, has_ended, .. }) = self.devices.get(&id) else { return };
        self.findings.check(!has_ended, Invariant::I27, || format!("a call names {id}, which was destroyed"));
        let answered = in_error && !has_ended;
        self.findings.check(!answered, Invariant::I12, || format!("{id} is in error, but a call of it is answered"));
    }
}
