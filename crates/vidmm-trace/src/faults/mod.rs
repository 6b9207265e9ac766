//! Reports that a person can act on: the device in error or the reset, the reason, and the work at that time.
//!
//! A [`FaultReporter`] sees the events of a run one by one. It remembers the living devices, the packets under way, and
//! the last events of each allocation. So its memory grows with the objects that exist, and not with the run.

mod history;
mod packets;
mod reset;

use std::collections::BTreeMap;

use vidmm::contract::{EngineFence, EngineKind, PageFaultFlags};
use vidmm::event::Neighbour;
use vidmm::{DeviceErrorReason, DeviceId, Event, GpuVirtualAddress, NumberedEvent, ProcessId};

use crate::ByteSize;
use crate::explain::words::{capitalised, list, time};
use history::History;
use packets::Packets;
use reset::ResetStory;

/// Reports each device in error, each reset of an engine and each reset of the adapter, from the events of a run.
///
/// ```
/// use vidmm::{Event, NumberedEvent, Violation};
/// use vidmm_trace::FaultReporter;
///
/// let mut reporter = FaultReporter::new();
/// let event = Event::AdapterInError { violation: Violation::RestartFailed };
/// reporter.see(&NumberedEvent { number: 1, at: 0, occurred_at: None, event });
/// let reports = reporter.take_reports();
/// assert!(reports[0].starts_with("The adapter has stopped for good"));
/// ```
#[derive(Debug, Default)]
pub struct FaultReporter {
    packets: Packets,
    history: History,
    engines: Vec<EngineKind>,
    /// The last fault of each engine, until the report about a device in error or a reset of the adapter has told it.
    faults: BTreeMap<u32, Fault>,
    /// The reset of the adapter that is going on.
    reset: Option<ResetStory>,
    reports: Vec<String>,
}

/// An engine has stopped at a packet.
#[derive(Debug)]
struct Fault {
    number: u64,
    at: u64,
    event: Event,
}

impl FaultReporter {
    /// A reporter that has seen nothing yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the name of a process in reports, in place of its number, until the process is destroyed.
    pub fn name_process(&mut self, process: ProcessId, name: &str) {
        self.packets.name_process(process, name);
    }

    /// Reads the next event of the run.
    pub fn see(&mut self, event: &NumberedEvent) {
        let NumberedEvent { number, at, event, .. } = event;
        match event {
            Event::AdapterStarted { engines, .. } => self.engines.clone_from(engines),
            Event::PageFault { signal, .. } | Event::IllegalCommand { signal } => {
                self.faults.insert(signal.engine, Fault { number: *number, at: *at, event: event.clone() });
            }
            Event::DeviceInError { device, reason } => self.device_in_error(*number, *at, *device, *reason),
            Event::EngineReset { engine, last_aborted_fence_id, returned } => {
                self.engine_reset(*number, *at, *engine, *last_aborted_fence_id, returned);
            }
            Event::ProcessBlocked { process } => self.reports.push(format!(
                "{} hung engines too often and has lost the GPU (event {number}, at {}): end it; others are not harmed.",
                self.packets.process_as_subject(*process),
                time(*at)
            )),
            Event::AdapterResetBegun { cause } => self.reset_begun(*number, *at, *cause),
            Event::AdapterInError { violation } => {
                self.end_of_reset();
                self.reports
                    .push(format!("The adapter has stopped for good (event {number}, at {}): {violation}.", time(*at)));
            }
            Event::AdapterRestarted => self.end_of_reset(),
            _ => {}
        }
        if let Some(reset) = &mut self.reset {
            reset.learn(event);
        }
        self.packets.learn(event);
        self.history.learn(*number, *at, event);
    }

    /// The reports since the last call: paragraphs of one or more lines, in the order of the events.
    pub fn take_reports(&mut self) -> Vec<String> {
        std::mem::take(&mut self.reports)
    }

    fn device_in_error(&mut self, number: u64, at: u64, device: DeviceId, reason: DeviceErrorReason) {
        // The report about a reset of the adapter has all its devices.
        if self.reset.is_some() {
            return;
        }
        let mut text = format!(
            "{} is in error (event {number}, at {}): {reason}.",
            capitalised(&self.packets.device(device)),
            time(at)
        );
        match reason {
            DeviceErrorReason::PageFault { .. } | DeviceErrorReason::IllegalCommand => {
                if let Some(fault) = self.take_fault_for(reason) {
                    self.tell_fault(&mut text, &fault);
                }
            }
            DeviceErrorReason::EngineTimeout => self.tell_hang(&mut text, device),
            DeviceErrorReason::NotResident { allocation } => {
                line(&mut text, &format!("The last of {allocation}: {}", self.history.last(allocation)));
            }
            _ => {}
        }
        self.reports.push(text);
    }

    /// The last fault that a device can be in error for with this reason.
    fn take_fault_for(&mut self, reason: DeviceErrorReason) -> Option<Fault> {
        let is_reason = |fault: &Fault| match fault.event {
            Event::PageFault { virtual_address, .. } => reason == DeviceErrorReason::PageFault { virtual_address },
            _ => reason == DeviceErrorReason::IllegalCommand,
        };
        let faults = self.faults.iter().filter(|(_, fault)| is_reason(fault));
        let (&engine, _) = faults.max_by_key(|(_, fault)| fault.number)?;
        self.faults.remove(&engine)
    }

    /// Tells the packet of a fault, the address, the mappings near it, and the packets under way.
    fn tell_fault(&self, text: &mut String, fault: &Fault) {
        let (Event::PageFault { signal, .. } | Event::IllegalCommand { signal }) = &fault.event else { return };
        let (signal, who) = match fault.event {
            // The first packet under way is the guilty one: the engine's reset has settled which packets had ended
            // unheard.
            Event::PageFault { flags, .. } if flags.contains(PageFaultFlags::FENCE_INVALID) => {
                let first = self.packets.first_of_engines().find(|first| first.engine == signal.engine);
                (first.unwrap_or(*signal), "The driver did not know the packet; the first under way was")
            }
            _ => (*signal, "It was"),
        };
        line(text, &format!("{who} {} on {}.", self.packets.name(signal), self.engine(signal.engine)));
        let Event::PageFault {
            virtual_address, write, allocation, below, above, ref in_flight, page_table_level, ..
        } = fault.event
        else {
            let under_way: Vec<EngineFence> = self.packets.under_way().collect();
            return self.tell_in_flight(text, &under_way);
        };
        let how = if write { "It wrote to" } else { "It read" };
        let what = match allocation {
            Some(id) if self.history.is_placed(id) => {
                format!("which is mapped to {id}; the manager has that in place, so the GPU saw another entry")
            }
            Some(id) => format!("which is mapped to {id}; that is not resident"),
            None => "where nothing is mapped".to_owned(),
        };
        line(text, &format!("{how} {virtual_address}, {what} (the walk ended at level {page_table_level})."));
        if let Some(id) = allocation {
            line(text, &format!("The last of {id}: {}", self.history.last(id)));
        }
        let process = self.packets.process_of_packet(signal);
        if let Some(said) = process.and_then(|process| self.history.freed_at(process, virtual_address.0)) {
            line(text, &said);
        }
        self.tell_neighbour(text, "below", below, virtual_address, process);
        self.tell_neighbour(text, "above", above, virtual_address, process);
        self.tell_in_flight(text, in_flight);
    }

    fn tell_neighbour(
        &self,
        text: &mut String,
        side: &str,
        neighbour: Option<Neighbour>,
        address: GpuVirtualAddress,
        process: Option<ProcessId>,
    ) {
        let Some(Neighbour { allocation, virtual_address, size }) = neighbour else {
            if process.is_some() {
                line(text, &format!("Nothing is mapped {side} it."));
            }
            return;
        };
        let end = virtual_address.0.saturating_add(size);
        let (from, distance) = match side {
            "below" => ("ends", address.0.saturating_sub(end)),
            _ => ("begins", virtual_address.0.saturating_sub(address.0)),
        };
        line(
            text,
            &format!(
                "The nearest {side}: {allocation}, {} at {virtual_address}, which {from} {} away. Its last: {}",
                ByteSize(size),
                ByteSize(distance),
                self.history.last(allocation)
            ),
        );
    }

    fn tell_hang(&self, text: &mut String, device: DeviceId) {
        let first = self.packets.first_of_engines().find(|&packet| self.packets.device_of(packet) == Some(device));
        if let Some(packet) = first {
            line(text, &format!("It was {} on {}.", self.packets.name(packet), self.engine(packet.engine)));
        }
        let under_way: Vec<EngineFence> = self.packets.under_way().collect();
        self.tell_in_flight(text, &under_way);
    }

    /// Tells the packets of each engine.
    fn tell_in_flight(&self, text: &mut String, packets: &[EngineFence]) {
        for engine in 0..self.engines.len() as u32 {
            let of_engine = packets.iter().filter(|packet| packet.engine == engine);
            let named: Vec<String> = of_engine.map(|&packet| self.packets.name(packet)).collect();
            if !named.is_empty() {
                line(text, &format!("Under way on {}: {}.", self.engine(engine), list(&named)));
            }
        }
    }

    fn engine_reset(&mut self, number: u64, at: u64, engine: u32, last_aborted: Option<u64>, returned: &[u64]) {
        let mut text = format!("{} was reset (event {number}, at {})", capitalised(&self.engine(engine)), time(at));
        let Some(last) = last_aborted else {
            text.push_str(", but the driver could not: the adapter is reset instead.");
            return self.reports.push(text);
        };
        let aborted = EngineFence { engine, fence_id: last };
        match self.packets.is_under_way(aborted) {
            true => text.push_str(&format!(": {} was aborted", self.packets.name(aborted))),
            false => text.push_str(": it had nothing to abort"),
        }
        let back: Vec<String> = returned
            .iter()
            .filter(|&&fence_id| fence_id > last)
            .map(|&fence_id| self.packets.name(EngineFence { engine, fence_id }))
            .collect();
        match back.is_empty() {
            true => text.push_str("; nothing was behind it."),
            false => text.push_str(&format!("; behind it came back {}.", list(&back))),
        }
        self.reports.push(text);
    }

    /// The name of an engine in reports.
    fn engine(&self, engine: u32) -> String {
        let kind = match self.engines.get(engine as usize) {
            Some(EngineKind::Paging) => " (paging)",
            Some(EngineKind::Render3d) => " (3D)",
            Some(EngineKind::Copy) => " (copy)",
            None => "",
        };
        format!("engine {engine}{kind}")
    }
}

/// One more line of a paragraph.
fn line(text: &mut String, said: &str) {
    text.push_str("\n    ");
    text.push_str(said);
}
