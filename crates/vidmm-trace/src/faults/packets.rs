//! The packets under way, and their devices.

use std::collections::BTreeMap;

use vidmm::contract::{EngineFence, EngineKind};
use vidmm::{ContextId, DeviceId, Event, ProcessId};

use crate::explain::words::capitalised;

/// Devices that live, and packets that engines have.
#[derive(Debug, Default)]
pub(super) struct Packets {
    devices: BTreeMap<DeviceId, ProcessId>,
    /// The names of processes in reports.
    names: BTreeMap<ProcessId, String>,
    /// The contexts of submissions that are not dispatched.
    submitted: BTreeMap<(DeviceId, u64), ContextId>,
    under_way: BTreeMap<EngineFence, Option<Packet>>,
    paging: u32,
}

/// Work of a user.
#[derive(Clone, Copy, Debug)]
struct Packet {
    device: DeviceId,
    context: Option<ContextId>,
    submission: u64,
}

impl Packets {
    pub fn learn(&mut self, event: &Event) {
        match *event {
            Event::AdapterStarted { ref engines, .. } => {
                let paging = engines.iter().position(|&kind| kind == EngineKind::Paging);
                self.paging = paging.map_or(u32::MAX, |engine| engine as u32);
            }
            Event::DeviceCreated { device, process, .. } => drop(self.devices.insert(device, process)),
            Event::DeviceDestroyed { device } => drop(self.devices.remove(&device)),
            Event::ProcessDestroyed { process } => drop(self.names.remove(&process)),
            Event::Submitted { device, context, submission, .. } => {
                self.submitted.insert((device, submission), context);
            }
            Event::Dispatched { device, submission, signal, .. } => {
                let context = self.submitted.remove(&(device, submission));
                self.under_way.insert(signal, Some(Packet { device, context, submission }));
            }
            Event::PagingBufferSubmitted { signal, .. } => drop(self.under_way.insert(signal, None)),
            Event::Completed { signal } | Event::Aborted { signal } => drop(self.under_way.remove(&signal)),
            Event::Resubmitted { before, signal, .. } => {
                if let Some(packet) = self.under_way.remove(&before) {
                    self.under_way.insert(signal, packet);
                }
            }
            // The device's submissions are dropped.
            Event::DeviceInError { device, .. } | Event::DeviceTerminated { device } => {
                self.submitted.retain(|&(of, _), _| of != device)
            }
            _ => {}
        }
    }

    /// All packets that engines have, or gave back and will get again.
    pub fn under_way(&self) -> impl Iterator<Item = EngineFence> {
        self.under_way.keys().copied()
    }

    pub fn is_under_way(&self, packet: EngineFence) -> bool {
        self.under_way.contains_key(&packet)
    }

    /// The oldest packet of each engine.
    pub fn first_of_engines(&self) -> impl Iterator<Item = EngineFence> {
        let mut last = None;
        self.under_way().filter(move |packet| last.replace(packet.engine) != Some(packet.engine))
    }

    pub fn device_of(&self, packet: EngineFence) -> Option<DeviceId> {
        self.under_way.get(&packet).copied().flatten().map(|packet| packet.device)
    }

    pub fn process_of_packet(&self, packet: EngineFence) -> Option<ProcessId> {
        self.devices.get(&self.device_of(packet)?).copied()
    }

    pub fn name_process(&mut self, process: ProcessId, name: &str) {
        self.names.insert(process, name.to_owned());
    }

    /// The name of a process in reports.
    pub fn process(&self, process: ProcessId) -> String {
        self.names.get(&process).cloned().unwrap_or_else(|| process.to_string())
    }

    /// The name at the start of a sentence: a number becomes `Process 1`, a given name stays as it is.
    pub fn process_as_subject(&self, process: ProcessId) -> String {
        self.names.get(&process).cloned().unwrap_or_else(|| capitalised(&process.to_string()))
    }

    /// A device, with its process.
    pub fn device(&self, device: DeviceId) -> String {
        match self.devices.get(&device) {
            Some(&process) => format!("{device} of {}", self.process(process)),
            None => device.to_string(),
        }
    }

    /// The name of a packet in reports.
    pub fn name(&self, packet: EngineFence) -> String {
        let number = packet.fence_id;
        match self.under_way.get(&packet) {
            Some(Some(Packet { device, context, submission })) => {
                let context = context.map_or_else(String::new, |context| format!(", {context}"));
                format!("packet {number} (submission {submission} of {}{context})", self.device(*device))
            }
            _ if packet.engine == self.paging => format!("packet {number} (a paging buffer)"),
            _ => format!("packet {number}"),
        }
    }
}
