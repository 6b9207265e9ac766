//! What is known of everything else: who belongs to whom.

use std::collections::{BTreeMap, BTreeSet};

use vidmm::contract::SegmentSet;
use vidmm::{AllocationId, DeviceId, Event, ProcessId, SegmentId};

use super::words::list;

/// Devices, segments, and the names of allocations.
#[derive(Debug, Default)]
pub(super) struct World {
    devices: BTreeMap<DeviceId, ProcessId>,
    allocations: BTreeSet<AllocationId>,
    memory: Option<SegmentId>,
    aperture: SegmentId,
    /// How many there were.
    pub events: u64,
}

impl World {
    pub fn learn(&mut self, event: &Event) {
        self.events += 1;
        match *event {
            Event::AdapterStarted { memory, aperture, .. } => {
                (self.memory, self.aperture) = (memory.map(|memory| memory.segment), aperture.segment);
            }
            Event::DeviceCreated { device, process, .. } => drop(self.devices.insert(device, process)),
            Event::AllocationCreated { allocation, .. } => drop(self.allocations.insert(allocation)),
            _ => {}
        }
    }

    pub fn process_of(&self, device: DeviceId) -> Option<ProcessId> {
        self.devices.get(&device).copied()
    }

    /// A device, with its process.
    pub fn device(&self, device: DeviceId) -> String {
        match self.process_of(device) {
            Some(process) => format!("{device} of {process}"),
            None => device.to_string(),
        }
    }

    /// A segment, as people call it.
    pub fn segment(&self, segment: SegmentId) -> &'static str {
        match segment {
            _ if self.memory == Some(segment) => "local memory",
            _ if segment == self.aperture => "the aperture",
            _ => "system memory",
        }
    }

    pub fn is_local(&self, segment: SegmentId) -> bool {
        self.memory == Some(segment)
    }

    /// A set of segments, as people call them.
    pub fn segments(&self, set: u32) -> &'static str {
        let set = SegmentSet(set);
        match (self.memory.is_some_and(|memory| set.contains(memory)), set.contains(self.aperture)) {
            (true, true) => "local or system memory",
            (true, false) => "local memory",
            (false, true) => "system memory",
            (false, false) => "no segment",
        }
    }

    /// What could have been meant by a name that does not exist.
    pub fn other_names(&self, id: AllocationId) -> String {
        let index = |id: AllocationId| id.to_bits() as u32;
        let others: Vec<&AllocationId> = self.allocations.iter().filter(|&&other| index(other) == index(id)).collect();
        match (others.as_slice(), self.allocations.len()) {
            ([], 0) => "it creates none".to_owned(),
            ([], 1) => format!("it has {}", list(&self.allocations.iter().collect::<Vec<_>>())),
            ([], count) => {
                let largest = self.allocations.iter().map(|&id| index(id)).max().unwrap_or(0);
                format!("it has {count}, with numbers up to {largest}")
            }
            (others, _) => format!("with that number it has {}", list(others)),
        }
    }
}
