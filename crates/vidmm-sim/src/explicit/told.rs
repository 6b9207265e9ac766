//! Whether the outputs are those that the events tell of.

use vidmm::{
    DeviceId, Event, GpuVirtualAddress, MapGpuVirtualAddress, MemorySegmentGroup, MonitoredFenceId, Output,
    PagingQueueId, ProcessId, TrimFlags, TrimNotificationId,
};

/// News for a client, which an event and an output tell of.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Told {
    PagingFence(PagingQueueId, u64),
    MonitoredFence(MonitoredFenceId, u64),
    Trim(TrimNotificationId, DeviceId, TrimFlags, Option<MemorySegmentGroup>, u64),
    Budget(ProcessId, MemorySegmentGroup, u64),
}

/// The news of events that no client has been told yet.
#[derive(Debug, Default)]
pub(crate) struct Untold(Vec<Told>);

impl Untold {
    /// An event tells of news: an output follows. `listens` says whether a process is to be told of its budgets.
    pub fn must_tell(&mut self, event: &Event, listens: impl Fn(ProcessId) -> bool) {
        self.0.extend(match *event {
            Event::PagingFenceSignaled { queue, value } => Some(Told::PagingFence(queue, value)),
            Event::MonitoredFenceSignaled { fence, value } => Some(Told::MonitoredFence(fence, value)),
            Event::TrimNotified { notification, device, flags, group, num_bytes_to_trim } => {
                Some(Told::Trim(notification, device, flags, group, num_bytes_to_trim))
            }
            Event::BudgetChanged { process, group, budget, .. } if listens(process) => {
                Some(Told::Budget(process, group, budget))
            }
            _ => None,
        });
    }

    /// An output tells of news: an event has told of the same. Returns the fault.
    pub fn judge_told(&mut self, output: &Output) -> Option<String> {
        let told = match *output {
            Output::PagingFenceSignaled { queue, value } => Told::PagingFence(queue, value),
            Output::MonitoredFenceSignaled { fence, value } => Told::MonitoredFence(fence, value),
            Output::TrimNotification { notification, device, flags, group, num_bytes_to_trim } => {
                Told::Trim(notification, device, flags, group, num_bytes_to_trim)
            }
            Output::BudgetChanged { process, group, budget } => Told::Budget(process, group, budget),
            _ => return None,
        };
        match self.0.iter().position(|known| *known == told) {
            Some(at) => {
                self.0.remove(at);
                None
            }
            None => Some(format!("a client is told {told:?}, of which no event tells")),
        }
    }

    /// All that events told of has been told to clients. Returns the fault.
    pub fn judge_untold(&mut self) -> Option<String> {
        let told = self.0.first().copied()?;
        self.0.clear();
        Some(format!("an event tells of {told:?}, but no client is told"))
    }
}

/// The mappings that were asked for, and where they were made, of which no event has told yet.
#[derive(Debug, Default)]
pub(crate) struct AskedMappings(Vec<(MapGpuVirtualAddress, GpuVirtualAddress)>);

impl AskedMappings {
    /// A call has asked for a mapping, and was told the address.
    pub fn ask(&mut self, asked: MapGpuVirtualAddress, address: GpuVirtualAddress) {
        self.0.push((asked, address));
    }

    /// An event tells of a mapping: the mapping is as it was asked for (GVA-50, GVA-57). What a driver cannot forbid is allowed.
    /// Returns the fault.
    pub fn judge(&mut self, event: &Event) -> Option<String> {
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
            return None;
        };
        let is_this = |(asked, address): &(MapGpuVirtualAddress, GpuVirtualAddress)| {
            asked.allocation == allocation && *address == virtual_address
        };
        let at = self.0.iter().position(is_this)?;
        let (asked, _) = self.0.swap_remove(at);
        let is_right = asked.base_address.is_none_or(|base| base == virtual_address)
            && allocation_offset == asked.offset
            && (asked.size == 0 || size == asked.size)
            && !(read_only && asked.write)
            && !(no_execute && asked.execute)
            && driver_protection == asked.driver_protection;
        (!is_right).then(|| format!("{asked:?} was asked for, but {event:?} was made"))
    }
}
