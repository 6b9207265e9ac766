//! What became of each process of a run, added up from its events.

use std::collections::BTreeMap;

use serde::Serialize;
use vidmm::contract::EngineFence;
use vidmm::{AllocationId, DeviceId, Event, Nanoseconds, ProcessId, TrimFlags};

use crate::client::ClientDesc;

/// What became of a process.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ProcessFigures {
    /// What it is called.
    pub name: String,
    /// Submissions that ended.
    pub kernels_ended: u64,
    /// While a kernel of it ran, in nanoseconds.
    pub work_ns: Nanoseconds,
    /// Bytes of its allocations that were copied into local memory.
    pub bytes_paged_in: u64,
    /// Bytes of its allocations that were copied out of local memory.
    pub bytes_paged_out: u64,
    /// Bytes of its allocations that were filled because they had no content.
    pub bytes_filled: u64,
    /// MakeResidents that were refused for want of memory.
    pub refusals: u64,
    /// How long it waited after refusals, in nanoseconds.
    pub waited_ns: Nanoseconds,
    /// How often it was asked to trim to its budget.
    pub trims_to_budget: u64,
    /// How often it was asked for what it had not used of late.
    pub periodic_trims: u64,
    /// How often its device was suspended.
    pub suspensions: u64,
}

/// The figures of all processes, and what they are told apart by.
#[derive(Debug, Default)]
pub(crate) struct Accounts {
    figures: Vec<ProcessFigures>,
    processes: BTreeMap<ProcessId, usize>,
    devices: BTreeMap<DeviceId, usize>,
    /// Whose each allocation is, and its bytes.
    allocations: BTreeMap<AllocationId, (usize, u64)>,
    /// Whose each packet is that was dispatched and has not ended.
    packets: BTreeMap<EngineFence, usize>,
}

impl Accounts {
    /// A process of the run, as the manager calls it.
    pub fn open(&mut self, process: ProcessId, device: DeviceId, desc: &ClientDesc) {
        let index = self.figures.len();
        self.figures.push(ProcessFigures { name: desc.name.clone(), ..ProcessFigures::default() });
        self.processes.insert(process, index);
        self.devices.insert(device, index);
    }

    /// A packet that ran from `started_at` to `ended_at` has ended.
    pub fn packet_ended(&mut self, signal: EngineFence, started_at: Nanoseconds, ended_at: Nanoseconds) {
        if let Some(process) = self.packets.remove(&signal) {
            let figures = &mut self.figures[process];
            figures.kernels_ended += 1;
            figures.work_ns += ended_at - started_at;
        }
    }

    /// How long each process waited for memory, in their order.
    pub fn note_waits(&mut self, waited_ns: impl Iterator<Item = Nanoseconds>) {
        for (figures, waited_ns) in self.figures.iter_mut().zip(waited_ns) {
            figures.waited_ns = waited_ns;
        }
    }

    /// What happened.
    pub fn take_note(&mut self, event: &Event) {
        match *event {
            Event::AllocationCreated { allocation, process, size, .. } => {
                if let Some(&process) = self.processes.get(&process) {
                    self.allocations.insert(allocation, (process, size));
                }
            }
            Event::AllocationReclaimed { allocation } => drop(self.allocations.remove(&allocation)),
            Event::Dispatched { device, signal, .. } => {
                if let Some(&process) = self.devices.get(&device) {
                    self.packets.insert(signal, process);
                }
            }
            Event::Placed { allocation, segment, content, .. } if !segment.is_system() => {
                self.count_bytes(allocation, |figures, bytes| match content {
                    vidmm::event::ContentSource::Fill => figures.bytes_filled += bytes,
                    vidmm::event::ContentSource::BackingStore => figures.bytes_paged_in += bytes,
                    vidmm::event::ContentSource::InPlace => {}
                });
            }
            Event::Evicted { allocation, segment, copied: true, .. } if !segment.is_system() => {
                self.count_bytes(allocation, |figures, bytes| figures.bytes_paged_out += bytes);
            }
            Event::MakeResidentRefused { device, .. } => self.count(device, |figures| figures.refusals += 1),
            Event::DeviceSuspended { device } => self.count(device, |figures| figures.suspensions += 1),
            Event::TrimNotified { device, flags, .. } => self.count(device, |figures| {
                figures.trims_to_budget += u64::from(flags.contains(TrimFlags::TRIM_TO_BUDGET));
                figures.periodic_trims += u64::from(flags.contains(TrimFlags::PERIODIC_TRIM));
            }),
            _ => {}
        }
    }

    fn count(&mut self, device: DeviceId, add: impl FnOnce(&mut ProcessFigures)) {
        if let Some(&process) = self.devices.get(&device) {
            add(&mut self.figures[process]);
        }
    }

    fn count_bytes(&mut self, allocation: AllocationId, add: impl FnOnce(&mut ProcessFigures, u64)) {
        if let Some(&(process, bytes)) = self.allocations.get(&allocation) {
            add(&mut self.figures[process], bytes);
        }
    }

    /// The figures, in the order of the processes.
    pub fn into_figures(self) -> Vec<ProcessFigures> {
        self.figures
    }
}
