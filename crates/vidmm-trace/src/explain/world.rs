//! The objects beside the subject: devices and their processes, segments, other allocations.

use std::collections::{BTreeMap, BTreeSet};

use vidmm::{AllocationId, DeviceId, Event, ProcessId};

use super::holders::Holders;
use super::words::list;
use crate::Segments;

/// Devices, segments, and the names of allocations.
#[derive(Debug, Default)]
pub(super) struct World {
    devices: BTreeMap<DeviceId, ProcessId>,
    allocations: BTreeSet<AllocationId>,
    pub segments: Segments,
    pub holders: Holders,
    /// The order of eviction, by its name.
    pub policy: Option<String>,
    /// The number of events so far.
    pub events: u64,
}

impl World {
    pub fn learn(&mut self, event: &Event) {
        self.events += 1;
        self.holders.learn(event);
        match *event {
            Event::AdapterStarted { .. } => self.segments = Segments::of(event).unwrap_or_default(),
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

    /// The names that a caller could have meant by an unknown name.
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
