//! The figures of each process of a run, added up from its events.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;
use vidmm::contract::EngineFence;
use vidmm::event::{ContentSource, EvictReason};
use vidmm::{AllocationId, DeviceId, Event, MemorySegmentGroup, Nanoseconds, PriorityBand, ProcessId, TrimFlags};

use crate::client::{ClientDesc, ClientKind};
use crate::held_up::HeldUp;
use crate::listings::Listings;
use crate::oracle::Verdict;
use crate::timeline::is_zero;

/// The figures of a process.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ProcessFigures {
    /// Its name.
    pub name: String,
    /// The real client whose habits it has; none if it has those of no such client.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub client: Option<ClientKind>,
    /// Whether it makes mistakes on purpose.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub misbehaves: bool,
    /// Submissions that ended.
    pub kernels_ended: u64,
    /// The time during which a kernel of it ran, in nanoseconds.
    pub work_ns: Nanoseconds,
    /// How much longer its kernels took because of their accesses to system memory, in nanoseconds.
    #[serde(skip_serializing_if = "is_zero")]
    pub bus_ns: Nanoseconds,
    /// Bytes of its allocations that were copied into local memory.
    pub bytes_paged_in: u64,
    /// Bytes of its allocations that were copied out of local memory.
    pub bytes_paged_out: u64,
    /// Bytes of its allocations that were filled because they had no content.
    pub bytes_filled: u64,
    /// Pages that its kernels read and the oracle judged.
    pub pages_checked: u64,
    /// Of those, pages that were wrong.
    pub pages_wrong: u64,
    /// MakeResidents, refused ones too.
    pub make_residents: u64,
    /// MakeResidents that were refused for want of memory.
    pub refusals: u64,
    /// Evicts.
    pub evicts: u64,
    /// The time that it waited after refusals, in nanoseconds.
    pub waited_ns: Nanoseconds,
    /// The number of requests to trim to its budget.
    pub trims_to_budget: u64,
    /// The number of requests to trim allocations that it had not used of late.
    pub periodic_trims: u64,
    /// The number of errors of its device.
    pub device_errors: u64,
    /// The number of suspensions of its device.
    pub suspensions: u64,
    /// Bytes of its allocations that left local memory while they lived.
    pub bytes_evicted: u64,
    /// Of those, bytes that were on its list while it was in focus and within its budget.
    pub foreground_bytes_evicted: u64,
}

/// The figures of all processes, and the records by which events are assigned to them.
#[derive(Debug, Default)]
pub(crate) struct Accounts {
    figures: Vec<ProcessFigures>,
    held_up: Vec<HeldUp>,
    processes: BTreeMap<ProcessId, usize>,
    bands: BTreeMap<usize, PriorityBand>,
    suspended: BTreeSet<usize>,
    listings: Listings,
    resident: BTreeSet<AllocationId>,
    devices: BTreeMap<DeviceId, usize>,
    /// The process of each allocation, and its bytes.
    allocations: BTreeMap<AllocationId, (usize, u64)>,
    /// The process of each packet that was dispatched and has not ended, and the packet's number within the device.
    packets: BTreeMap<EngineFence, (usize, u64)>,
}

/// The eviction from local memory of an allocation that was on the list of a process in focus.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ForegroundEviction {
    pub process: ProcessId,
    pub bytes: u64,
}

/// An access by a process's work to memory where nothing is resident.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Touched {
    /// The process.
    pub process: String,
    /// The group that the process asked for it in.
    pub group: MemorySegmentGroup,
    /// Whether it was on its device's list when the work was submitted.
    pub is_listed: bool,
    /// Whether the manager has it resident.
    pub is_resident: bool,
}

impl Accounts {
    /// Adds a process of the run.
    pub fn open(&mut self, process: ProcessId, device: DeviceId, desc: &ClientDesc) {
        let index = self.figures.len();
        self.figures.push(ProcessFigures {
            name: desc.name.clone(),
            client: desc.kind(),
            misbehaves: desc.misbehaviour.is_some(),
            ..ProcessFigures::default()
        });
        self.processes.insert(process, index);
        self.bands.insert(index, desc.band);
        self.devices.insert(device, index);
    }

    /// Gives a process another device: work under way on its old one does not count.
    pub fn reopen(&mut self, index: usize, device: DeviceId) {
        self.devices.retain(|_, process| *process != index);
        self.packets.retain(|_, packet| packet.0 != index);
        self.suspended.remove(&index);
        self.devices.insert(device, index);
    }

    /// Records the end of a packet that ran from `started_at` to `ended_at`. Returns its process, and its number within
    /// the device.
    pub fn packet_ended(
        &mut self,
        signal: EngineFence,
        started_at: Nanoseconds,
        ended_at: Nanoseconds,
    ) -> Option<(usize, u64)> {
        let (process, submission) = self.packets.remove(&signal)?;
        let figures = &mut self.figures[process];
        figures.kernels_ended += 1;
        figures.work_ns += ended_at - started_at;
        Some((process, submission))
    }

    /// The process of a packet that was dispatched and has not ended, and its number within the device.
    pub fn packet(&self, signal: EngineFence) -> Option<(usize, u64)> {
        self.packets.get(&signal).copied()
    }

    /// The log's answer about an allocation that a submission of a process touched.
    pub fn touched(
        &self,
        (process, submission): (usize, u64),
        allocation: AllocationId,
        group: MemorySegmentGroup,
    ) -> Touched {
        Touched {
            process: self.figures[process].name.clone(),
            group,
            is_listed: self.listings.was_listed(allocation, submission),
            is_resident: self.resident.contains(&allocation),
        }
    }

    /// Adds the verdict on the pages that a kernel of a process read.
    pub fn judged(&mut self, process: usize, verdict: &Verdict) {
        self.figures[process].pages_checked += verdict.pages;
        self.figures[process].pages_wrong += verdict.wrong;
    }

    /// The name of the process of a device.
    pub fn name_of(&self, device: DeviceId) -> String {
        self.devices.get(&device).map_or_else(|| device.to_string(), |&process| self.figures[process].name.clone())
    }

    /// The figures of a process.
    pub fn figures(&self, process: usize) -> &ProcessFigures {
        &self.figures[process]
    }

    /// The figures of all processes.
    pub fn all_figures(&self) -> impl Iterator<Item = &ProcessFigures> {
        self.figures.iter()
    }

    /// Whether a process's device is suspended.
    pub fn is_suspended(&self, process: usize) -> bool {
        self.suspended.contains(&process)
    }

    /// Counts an eviction from a process that was within its budget.
    pub fn evicted_within_budget(&mut self, eviction: ForegroundEviction) {
        if let Some(&process) = self.processes.get(&eviction.process) {
            self.figures[process].foreground_bytes_evicted += eviction.bytes;
        }
    }

    /// Records how long each process waited for memory, in their order.
    pub fn note_waits(&mut self, waited_ns: impl Iterator<Item = Nanoseconds>) {
        for (figures, waited_ns) in self.figures.iter_mut().zip(waited_ns) {
            figures.waited_ns = waited_ns;
        }
    }

    /// Adds an event. Returns the eviction of a process in focus that it is, if it is one.
    pub fn take_note(&mut self, event: &Event, at: Nanoseconds) -> Option<ForegroundEviction> {
        let name = |device| self.devices.get(&device).map(|&process| self.figures[process].name.clone());
        HeldUp::take_note(&mut self.held_up, event, at, name);
        match *event {
            Event::AllocationCreated { allocation, process, size, .. } => {
                if let Some(&process) = self.processes.get(&process) {
                    self.allocations.insert(allocation, (process, size));
                }
            }
            Event::AllocationReclaimed { allocation } => drop(self.allocations.remove(&allocation)),
            Event::Dispatched { device, submission, signal, .. } => {
                if let Some(&process) = self.devices.get(&device) {
                    self.packets.insert(signal, (process, submission));
                }
            }
            Event::Resubmitted { before, signal, .. } => {
                if let Some(packet) = self.packets.remove(&before) {
                    self.packets.insert(signal, packet);
                }
            }
            Event::AccessedOverBus { device, ref accesses, .. } => {
                let lost_ns = accesses.iter().map(|access| access.lost_ns).sum::<Nanoseconds>();
                self.count(device, |figures| figures.bus_ns += lost_ns);
            }
            Event::Aborted { signal } => drop(self.packets.remove(&signal)),
            Event::DeviceInError { device, .. } => self.count(device, |figures| figures.device_errors += 1),
            Event::AdapterRestarted => self.resident.clear(),
            Event::MakeResident { device, ref allocations, after_submission, .. } => {
                self.count(device, |figures| figures.make_residents += 1);
                allocations.iter().for_each(|&allocation| self.listings.join(allocation, after_submission));
            }
            Event::Evict { device, ref allocations, after_submission, .. } => {
                self.count(device, |figures| figures.evicts += 1);
                allocations.iter().for_each(|&allocation| self.listings.leave(allocation, after_submission));
            }
            Event::AllocationDestroyed { allocation, .. } => self.listings.forget(allocation),
            Event::ProcessPriorityChanged { process, band, .. } => {
                if let Some(&process) = self.processes.get(&process) {
                    self.bands.insert(process, band);
                }
            }
            Event::Placed { allocation, segment, content, .. } => {
                self.resident.insert(allocation);
                if segment.is_system() {
                    return None;
                }
                self.count_bytes(allocation, |figures, bytes| match content {
                    ContentSource::Fill => figures.bytes_filled += bytes,
                    ContentSource::BackingStore => figures.bytes_paged_in += bytes,
                    ContentSource::InPlace => {}
                });
            }
            Event::Evicted { allocation, segment, copied, reason, .. } => {
                self.resident.remove(&allocation);
                if segment.is_system() {
                    return None;
                }
                self.count_bytes(allocation, |figures, bytes| {
                    figures.bytes_paged_out += if copied { bytes } else { 0 };
                    figures.bytes_evicted += if reason == EvictReason::Destroyed { 0 } else { bytes };
                });
                return self.foreground_eviction(allocation);
            }
            Event::Cleaned { allocation, size, .. } => {
                self.count_bytes(allocation, |figures, _| figures.bytes_paged_out += size);
            }
            Event::MakeResidentRefused { device, .. } => self.count(device, |figures| {
                figures.make_residents += 1;
                figures.refusals += 1;
            }),
            Event::DeviceSuspended { device } => {
                self.count(device, |figures| figures.suspensions += 1);
                self.suspended.extend(self.devices.get(&device));
            }
            Event::DeviceResumed { device, .. } => {
                if let Some(process) = self.devices.get(&device) {
                    self.suspended.remove(process);
                }
            }
            Event::TrimNotified { device, flags, .. } => self.count(device, |figures| {
                figures.trims_to_budget += u64::from(flags.contains(TrimFlags::TRIM_TO_BUDGET));
                figures.periodic_trims += u64::from(flags.contains(TrimFlags::PERIODIC_TRIM));
            }),
            _ => {}
        }
        None
    }

    /// The eviction of a process in focus that follows if this allocation leaves local memory.
    fn foreground_eviction(&self, allocation: AllocationId) -> Option<ForegroundEviction> {
        let &(process, bytes) = self.allocations.get(&allocation)?;
        let in_focus = self.bands.get(&process) == Some(&PriorityBand::Focus);
        let (process, _) = self.processes.iter().find(|&(_, &index)| index == process)?;
        (in_focus && self.listings.is_listed(allocation)).then_some(ForegroundEviction { process: *process, bytes })
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

    /// The figures, in the order of the processes, and the devices that were held up.
    pub fn into_figures(self) -> (Vec<ProcessFigures>, Vec<HeldUp>) {
        (self.figures, self.held_up)
    }
}
