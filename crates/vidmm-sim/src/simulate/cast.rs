//! A player's record of the objects that it has made, by the answers to its calls.

use std::collections::{BTreeMap, BTreeSet};

/// All objects.
#[derive(Debug, Default)]
pub(super) struct Cast {
    pub processes: Vec<Process>,
    pub devices: Vec<Device>,
    pub allocations: Vec<Allocation>,
    /// Kernels that wait for a person, and the fences that they wait for.
    pub fences: Vec<String>,
    /// The number of names so far.
    pub num_names: u32,
}

#[derive(Debug)]
pub(super) struct Process {
    pub name: String,
    pub lives: bool,
    pub is_suspended: bool,
    /// The bytes that it has reserved last, in any group.
    pub reserved: u64,
}

#[derive(Debug)]
pub(super) struct Device {
    pub name: String,
    pub process: usize,
    pub lives: bool,
    /// The number of its registrations for trim notifications.
    pub listens: u32,
    /// Whether the allocations of its work must be on its list.
    pub has_list: bool,
}

#[derive(Debug)]
pub(super) struct Allocation {
    pub name: String,
    pub device: usize,
    pub pages: u64,
    pub is_shared: bool,
    pub is_lockable: bool,
    /// Its pages mean nothing to the CPU.
    pub is_compressed: bool,
    /// The devices that have opened it.
    pub openers: Vec<usize>,
    pub views: Vec<View>,
    /// The number of times it is on the list of each device.
    pub lists: BTreeMap<usize, u32>,
    /// The devices whose work has written it since they made it resident.
    pub writers: BTreeSet<usize>,
    /// Work may have written it, or may yet, that did not have it on its list.
    pub is_written_at_any_time: bool,
    pub is_offered: bool,
    pub locks: u32,
    pub lives: bool,
}

/// A mapping.
#[derive(Clone, Debug)]
pub(super) struct View {
    pub name: String,
    pub device: usize,
    pub is_read_only: bool,
    /// The pages of the allocation that it shows.
    pub pages: u64,
}

impl Cast {
    /// A name that no object has.
    pub fn name(&mut self, kind: &str) -> String {
        self.num_names += 1;
        format!("{kind}{}", self.num_names)
    }

    pub fn living_processes(&self) -> Vec<usize> {
        indices(&self.processes, |process| process.lives)
    }

    pub fn living_devices(&self) -> Vec<usize> {
        indices(&self.devices, |device| device.lives)
    }

    /// Living allocations that fulfil `holds`.
    pub fn those(&self, holds: impl Fn(&Allocation) -> bool) -> Vec<usize> {
        indices(&self.allocations, |allocation| allocation.lives && holds(allocation))
    }

    /// Living allocations that a device may put on its list.
    pub fn usable_by(&self, device: usize) -> Vec<usize> {
        self.those(|allocation| !allocation.is_offered && allocation.is_known_to(device))
    }

    /// Living allocations that are on a device's list, and that its work may use.
    pub fn required_by(&self, device: usize) -> Vec<usize> {
        self.those(|allocation| allocation.is_listed_by(device) && !allocation.is_offered)
    }

    /// Living allocations that are on a device's list.
    pub fn listed_by(&self, device: usize) -> Vec<usize> {
        self.those(|allocation| allocation.is_listed_by(device))
    }

    /// Records the end of a device and of all its objects.
    pub fn bury_device(&mut self, device: usize) {
        self.devices[device].lives = false;
        for allocation in &mut self.allocations {
            allocation.lists.remove(&device);
            allocation.views.retain(|view| view.device != device);
            allocation.openers.retain(|&opener| opener != device);
            if allocation.device == device {
                allocation.lives = false;
            }
        }
    }

    /// The names of allocations.
    pub fn names(&self, allocations: &[usize]) -> Vec<String> {
        allocations.iter().map(|&allocation| self.allocations[allocation].name.clone()).collect()
    }
}

impl Allocation {
    pub fn is_known_to(&self, device: usize) -> bool {
        self.device == device || self.openers.contains(&device)
    }

    pub fn is_listed_by(&self, device: usize) -> bool {
        self.lists.get(&device).is_some_and(|&count| count > 0)
    }

    pub fn is_listed(&self) -> bool {
        self.lists.values().any(|&count| count > 0)
    }
}

fn indices<T>(of: &[T], holds: impl Fn(&T) -> bool) -> Vec<usize> {
    (0..of.len()).filter(|&index| holds(&of[index])).collect()
}
