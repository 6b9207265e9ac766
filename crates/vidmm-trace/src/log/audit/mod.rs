//! The audit: do the events of a run hold together (DESIGN 8)?
//!
//! It knows nothing of the manager but its events. There are two ledgers of places. What is *decided* (`Evicted`, `Placed`)
//! runs ahead: by it no two places may overlap, and victims must not be required. What is *built* follows the paging
//! operations in their order, which is the order in which the paging engine runs them: by it entries of page tables must be
//! right, chunks complete, and flushes in time. A plan's decisions pass from the first to the second when its operations
//! begin.

mod allocation;
mod calls;
mod content;
mod decisions;
mod device;
mod fences;
mod finding;
mod intervals;
mod lists;
mod operations;
mod plans;
mod requests;
mod segment;
mod shadow;
mod stream;
mod tables;
mod work;

use std::collections::BTreeMap;

use vidmm::contract::{KmdAllocationHandle, KmdProcessHandle, PagingOperation};
use vidmm::{AllocationId, ContextId, DeviceId, Event, Extent, NumberedEvent, PlanNo, ProcessId};

use allocation::{Allocation, Mapping};
use device::Device;
use fences::Fences;
use finding::Findings;
pub use finding::{AuditFinding, Invariant};
use plans::{Plans, Steps};
use segment::Segment;
use shadow::Shadow;
use tables::Tables;

/// Rebuilds from a run's events alone who was where, and checks the invariants.
///
/// Give it every event of the run, in order. A log that ends early is judged as far as it goes.
#[derive(Debug, Default)]
pub struct Audit {
    findings: Findings,
    at: u64,
    /// Bytes of a scratch window.
    window_bytes: u64,
    paging_process: Option<KmdProcessHandle>,
    segment: Segment,
    tables: Tables,
    shadow: Shadow,
    fences: Fences,
    plans: Plans,
    /// The plan whose operations are being built.
    building: Option<Building>,
    /// An operation that the driver has not ended.
    unfinished: Option<PagingOperation>,
    processes: BTreeMap<ProcessId, Process>,
    by_process_handle: BTreeMap<KmdProcessHandle, ProcessId>,
    devices: BTreeMap<DeviceId, Device>,
    contexts: BTreeMap<ContextId, u32>,
    allocations: BTreeMap<AllocationId, Allocation>,
    by_handle: BTreeMap<KmdAllocationHandle, AllocationId>,
    mappings: BTreeMap<(ProcessId, u64), Mapping>,
}

/// What is known of a process.
#[derive(Debug)]
struct Process {
    handle: KmdProcessHandle,
    /// Where the segment holds its page tables.
    tables: Vec<Extent>,
}

/// The plan whose operations are being built.
#[derive(Debug)]
struct Building {
    plan: PlanNo,
    steps: Steps,
    /// Its victims were found hidden, or reported, when memory was first used again.
    victims_checked: bool,
}

impl Audit {
    /// An audit that has seen nothing yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Looks at the next event.
    pub fn event(&mut self, event: &NumberedEvent) {
        let expected = self.findings.event.saturating_add(1);
        self.findings.event = event.number;
        self.findings.check(event.number == expected, Invariant::Log, || {
            format!("event {} follows event {}", event.number, expected - 1)
        });
        self.findings
            .check(event.at >= self.at, Invariant::Log, || format!("time falls from {} to {} ns", self.at, event.at));
        self.at = event.at;
        self.look(&event.event);
    }

    /// What was found, by event.
    pub fn finish(self) -> Vec<AuditFinding> {
        let mut findings = self.findings.list;
        findings.sort_by_key(|finding| finding.event);
        findings
    }

    fn look(&mut self, event: &Event) {
        match event {
            Event::AdapterStarted { .. }
            | Event::ProcessCreated { .. }
            | Event::ProcessDestroyed { .. }
            | Event::DeviceCreated { .. }
            | Event::DeviceDestroyed { .. }
            | Event::ContextCreated { .. }
            | Event::ContextDestroyed { .. }
            | Event::PagingQueueCreated { .. }
            | Event::AllocationCreated { .. }
            | Event::AllocationDestroyed { .. }
            | Event::AllocationReclaimed { .. } => self.object(event),
            Event::GpuVirtualAddressMapped { .. }
            | Event::GpuVirtualAddressFreed { .. }
            | Event::MakeResident { .. }
            | Event::Evict { .. }
            | Event::Granted { .. }
            | Event::PagingFenceSignaled { .. } => self.request(event),
            Event::Evicted { .. }
            | Event::Placed { .. }
            | Event::PageTablePlaced { .. }
            | Event::PlanDecided { .. }
            | Event::PlanEntered { .. }
            | Event::PlanRetired { .. } => self.decision(event),
            Event::PagingOperation { .. } | Event::PagingBufferSubmitted { .. } => self.paging(event),
            Event::Submitted { .. }
            | Event::Dispatched { .. }
            | Event::Completed { .. }
            | Event::MonitoredFenceSignaled { .. }
            | Event::PageFault { .. }
            | Event::DeviceInError { .. } => self.work(event),
            // A refused call changes nothing, and neither do the rest.
            _ => {}
        }
    }

    /// Reports that a name names nothing.
    fn unknown(&mut self, name: impl std::fmt::Display) {
        self.findings.report(Invariant::Log, format!("{name} does not exist"));
    }
}
