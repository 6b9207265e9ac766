//! Whether the outputs are those that the events tell of.

use vidmm::{
    DeviceId, Event, GpuVirtualAddress, MapGpuVirtualAddress, MemorySegmentGroup, MonitoredFenceId, Output,
    PagingQueueId, ProcessId, TrimFlags, TrimNotificationId,
};

use super::session::Session;

/// News for a client, which an event and an output tell of.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Told {
    PagingFence(PagingQueueId, u64),
    MonitoredFence(MonitoredFenceId, u64),
    Trim(TrimNotificationId, DeviceId, TrimFlags, Option<MemorySegmentGroup>, u64),
    Budget(ProcessId, MemorySegmentGroup, u64),
}

impl Session<'_> {
    /// An event tells of news: an output follows.
    pub fn must_tell(&mut self, event: &Event) {
        let told = match *event {
            Event::PagingFenceSignaled { queue, value } => Told::PagingFence(queue, value),
            Event::MonitoredFenceSignaled { fence, value } => Told::MonitoredFence(fence, value),
            Event::TrimNotified { notification, device, flags, group, num_bytes_to_trim } => {
                Told::Trim(notification, device, flags, group, num_bytes_to_trim)
            }
            Event::BudgetChanged { process, group, budget, .. } if self.budget_listeners.contains(&process) => {
                Told::Budget(process, group, budget)
            }
            _ => return,
        };
        self.untold.push(told);
    }

    /// An output tells of news: an event has told of the same.
    pub fn judge_told(&mut self, output: &Output) {
        let told = match *output {
            Output::PagingFenceSignaled { queue, value } => Told::PagingFence(queue, value),
            Output::MonitoredFenceSignaled { fence, value } => Told::MonitoredFence(fence, value),
            Output::TrimNotification { notification, device, flags, group, num_bytes_to_trim } => {
                Told::Trim(notification, device, flags, group, num_bytes_to_trim)
            }
            Output::BudgetChanged { process, group, budget } => Told::Budget(process, group, budget),
            _ => return,
        };
        match self.untold.iter().position(|known| *known == told) {
            Some(at) => drop(self.untold.remove(at)),
            None => self.broke("OUTPUTS", format!("a client is told {told:?}, of which no event tells")),
        }
    }

    /// All that events told of has been told to clients.
    pub fn judge_untold(&mut self) {
        if let Some(told) = self.untold.first().copied() {
            self.untold.clear();
            self.broke("OUTPUTS", format!("an event tells of {told:?}, but no client is told"));
        }
    }

    /// An event tells of a mapping: it is as it was asked for (GVA-50, GVA-57). What a driver cannot forbid is allowed.
    pub fn judge_mapping(&mut self, event: &Event) {
        let &Event::GpuVirtualAddressMapped {
            virtual_address,
            size,
            allocation,
            allocation_offset,
            read_only,
            no_execute,
            driver_protection,
            ..
        } = event
        else {
            return;
        };
        let is_this = |(asked, address): &(MapGpuVirtualAddress, GpuVirtualAddress)| {
            asked.allocation == allocation && *address == virtual_address
        };
        let Some(at) = self.asked_mappings.iter().position(is_this) else { return };
        let (asked, _) = self.asked_mappings.swap_remove(at);
        let is_right = asked.base_address.is_none_or(|base| base == virtual_address)
            && allocation_offset == asked.offset
            && (asked.size == 0 || size == asked.size)
            && !(read_only && asked.write)
            && !(no_execute && asked.execute)
            && driver_protection == asked.driver_protection;
        if !is_right {
            self.broke("GVA-50", format!("{asked:?} was asked for, but {event:?} was made"));
        }
    }
}
