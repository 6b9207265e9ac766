//! One run: a workload on a machine, every page that a kernel reads judged by the oracle.

use serde::Serialize;
use vidmm::contract::EngineKind;
use vidmm::{AdapterOptions, AllocationId, CheckError, Event, NumberedEvent, StartAdapterError, Statistics};
use vidmm_runtime::{Content as KernelContent, Happening, Runtime};
use vidmm_trace::{ByteSize, Workload};

use crate::{
    client::{Client, ClientError, ClientOptions},
    machine::{MachineDesc, MachineFactory},
    oracle::{Content, Oracle, Verdict, WrongPage},
    timeline::{Shares, Timeline},
};

/// What is run.
#[derive(Clone, Debug)]
pub struct RunDesc {
    /// The machine.
    pub machine: MachineDesc,
    /// Kernels that are submitted ahead of the one that runs.
    pub ahead: usize,
    /// What fills the buffers.
    pub content: Content,
    /// Whether events are recorded, or only counted.
    pub events: bool,
}

/// Who watches a run.
pub trait Observer {
    /// Something happened. Called only if the run records events.
    fn event(&mut self, event: &NumberedEvent) {
        let _ = event;
    }

    /// So many kernels of the workload have ended.
    fn progress(&mut self, ended: usize, of: usize) {
        let _ = (ended, of);
    }
}

/// An observer that looks away.
pub struct Unobserved;

impl Observer for Unobserved {}

/// Why a run did not come to its end. None of these is a finding: the input or the arguments do not make a run.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RunError {
    /// The factory cannot build the machine.
    #[error("the machine cannot be built: {0}")]
    Machine(String),
    /// The adapter refused to start.
    #[error(transparent)]
    Start(#[from] StartAdapterError),
    /// The largest kernel does not fit.
    #[error(
        "local memory has {}, but the largest kernel of the workload works on {} at once; give local memory more than that",
        ByteSize(*.local), ByteSize(*.kernel)
    )]
    KernelDoesNotFit {
        /// Bytes of local memory.
        local: u64,
        /// Bytes that the kernel works on.
        kernel: u64,
    },
    /// The client cannot go on.
    #[error(transparent)]
    Client(#[from] ClientError),
}

/// What a run found. Any finding means that something that was checked did not hold.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "finding", rename_all = "kebab-case")]
pub enum Finding {
    /// A kernel read a page that is not what it must be.
    WrongPage {
        /// The kernel.
        kernel: usize,
        /// The buffer, as the workload names it.
        buffer: u64,
        /// The allocation that holds it.
        allocation: Option<String>,
        /// The page, counted from 0.
        page: u64,
        /// The digest that it must have.
        expected: u64,
        /// The digest that it had.
        found: u64,
        /// Wrong pages in all inputs of the kernel.
        wrong: u64,
        /// The number of the event that recorded the finding.
        event: u64,
    },
    /// Work accessed memory where nothing is resident.
    PageFault {
        /// The address.
        virtual_address: u64,
        /// Whether it was a write.
        write: bool,
        /// The engine.
        engine: u32,
        /// The allocation that the client has mapped there.
        allocation: Option<String>,
        /// Which page of it, counted from 0.
        page: u64,
        /// The number of the last event.
        event: u64,
    },
    /// The driver or the GPU broke a rule.
    Violation {
        /// The rule, in words.
        rule: String,
        /// The number of the last event.
        event: u64,
    },
    /// Nothing runs, nothing is to come, and kernels are left: the manager has lost its way.
    Stuck {
        /// Kernels that have ended.
        ended: usize,
        /// The number of the last event.
        event: u64,
    },
    /// The audit of the manager found a broken invariant.
    Audit {
        /// The invariants.
        broken: Vec<String>,
        /// The number of the last event.
        event: u64,
    },
}

/// The figures of a run.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Report {
    /// Bytes that live at most at one time, in pages of the memory segment.
    pub footprint_bytes: u64,
    /// Bytes of local memory.
    pub local_memory_bytes: u64,
    /// Buffers of the workload.
    pub buffers: u64,
    /// Kernels of the workload, without uploads.
    pub kernels: u64,
    /// Kernels that load what nobody computes.
    pub uploads: u64,
    /// Kernels that ended, uploads too.
    pub kernels_ended: u64,
    /// Pages that kernels read and the oracle judged.
    pub pages_checked: u64,
    /// Pages that were wrong.
    pub pages_wrong: u64,
    /// Bytes copied into local memory.
    pub bytes_paged_in: u64,
    /// Bytes copied out of it.
    pub bytes_paged_out: u64,
    /// Bytes filled because they had no content yet.
    pub bytes_filled: u64,
    /// Allocations taken out of local memory while they lived.
    pub evictions: u64,
    /// Of those, with content that had to be copied out.
    pub evictions_copied: u64,
    /// VIRTUAL_TRANSFER operations.
    pub virtual_transfers: u64,
    /// VIRTUAL_FILL operations.
    pub virtual_fills: u64,
    /// UPDATE_PAGE_TABLE operations.
    pub update_page_tables: u64,
    /// FLUSH_TLB operations.
    pub flush_tlbs: u64,
    /// Calls of the driver's `build_paging_buffer`.
    pub build_calls: u64,
    /// Paging buffers that the GPU ran.
    pub paging_buffers: u64,
    /// Plans decided.
    pub plans: u64,
    /// Paging fence values signalled.
    pub paging_fences: u64,
    /// Submissions dispatched.
    pub submissions: u64,
    /// Events, recorded or counted.
    pub events: u64,
    /// Where the virtual time went.
    #[serde(flatten)]
    pub time: Shares,
    /// What did not hold.
    pub findings: Vec<Finding>,
}

impl Report {
    /// Whether all that was checked held.
    pub fn all_held(&self) -> bool {
        self.findings.is_empty()
    }
}

/// Runs `workload` as `desc` says, on a machine of `factory`'s.
///
/// # Errors
///
/// If the input does not make a run. What does not hold during the run is a finding in the report.
pub fn run(
    workload: &Workload,
    desc: &RunDesc,
    factory: &MachineFactory<'_>,
    observer: &mut dyn Observer,
) -> Result<Report, RunError> {
    let footprint = workload.footprint(desc.machine.page_size.bytes());
    let (local, kernel) = (desc.machine.local_memory_bytes, footprint.largest_kernel_bytes);
    if kernel > local {
        return Err(RunError::KernelDoesNotFit { local, kernel });
    }
    let machine = factory(&desc.machine).map_err(RunError::Machine)?;
    let runtime = Runtime::start(AdapterOptions { events: desc.events, ..AdapterOptions::default() }, machine)?;
    let mut run = Run {
        runtime,
        oracle: Oracle::new(workload, desc.content),
        workload,
        timeline: Timeline::default(),
        verdict: Verdict::default(),
        findings: Vec::new(),
        observer,
    };
    let outcome = run.run_to_end(desc);
    run.hand_on_events();
    let ended = outcome?;
    let Run { mut runtime, timeline, verdict, findings, .. } = run;
    let statistics: Statistics = runtime.statistics();
    Ok(Report {
        footprint_bytes: footprint.peak_bytes,
        local_memory_bytes: local,
        buffers: footprint.buffers,
        kernels: footprint.kernels,
        uploads: footprint.uploads,
        kernels_ended: ended as u64,
        pages_checked: verdict.pages,
        pages_wrong: verdict.wrong,
        bytes_paged_in: statistics.bytes_paged_in,
        bytes_paged_out: statistics.bytes_paged_out,
        bytes_filled: statistics.bytes_filled,
        evictions: statistics.evictions,
        evictions_copied: statistics.evictions_copied,
        virtual_transfers: statistics.virtual_transfers,
        virtual_fills: statistics.virtual_fills,
        update_page_tables: statistics.update_page_tables,
        flush_tlbs: statistics.flush_tlbs,
        build_calls: statistics.build_calls,
        paging_buffers: statistics.paging_buffers,
        plans: statistics.plans,
        paging_fences: statistics.paging_fences_signaled,
        submissions: statistics.submissions,
        events: runtime.vidmm().events().number(),
        time: timeline.shares(runtime.now()),
        findings,
    })
}

struct Run<'a> {
    runtime: Runtime,
    oracle: Oracle,
    workload: &'a Workload,
    timeline: Timeline,
    verdict: Verdict,
    findings: Vec<Finding>,
    observer: &'a mut dyn Observer,
}

impl Run<'_> {
    /// Runs until all kernels have ended or something does not hold. Returns how many kernels have ended.
    fn run_to_end(&mut self, desc: &RunDesc) -> Result<usize, RunError> {
        let engines: Vec<EngineKind> = self.runtime.vidmm().engines().to_vec();
        let options = ClientOptions {
            ahead: desc.ahead,
            content: match desc.content {
                Content::Uniform => KernelContent::Uniform,
                Content::Ramp => KernelContent::Ramp,
            },
            upload_bytes_per_second: desc.machine.bus_bytes_per_second,
        };
        let mut client = Client::new(&mut self.runtime, &engines, self.workload, options)?;
        while self.findings.is_empty() && !client.is_done() {
            let next_arrival = client.submit(&mut self.runtime)?;
            if !self.runtime.advance(next_arrival) {
                let event = self.last_event();
                self.findings.push(Finding::Stuck { ended: client.ended(), event });
            }
            while let Some(happening) = self.runtime.next_happening() {
                self.take_note(happening, &mut client);
            }
            self.hand_on_events();
            self.observer.progress(client.ended(), self.workload.kernels.len());
        }
        let ended = client.ended();
        if self.findings.is_empty() {
            client.close(&mut self.runtime)?;
            self.audit();
        }
        Ok(ended)
    }

    fn take_note(&mut self, happening: Happening, client: &mut Client<'_>) {
        match happening {
            Happening::MonitoredFenceSignaled { fence, value } => client.fence_signaled(fence, value),
            Happening::KernelRead { kernel, inputs } => self.judge(kernel as usize, &inputs, client),
            Happening::PacketEnded { paging, started_at, ended_at, .. } => {
                self.timeline.ran(paging, started_at, ended_at);
            }
            Happening::PageFault { signal, virtual_address, write } => {
                let event = self.last_event();
                let (virtual_address, engine) = (virtual_address.0, signal.engine);
                let mapped = client.mapping_at(virtual_address);
                let page = mapped.map_or(0, |(_, page)| page);
                let allocation = mapped.map(|(allocation, _)| allocation.to_string());
                self.findings.push(Finding::PageFault { virtual_address, write, engine, allocation, page, event });
            }
            Happening::AdapterInError(violation) => self.violated(&violation),
            Happening::DeviceInError(error) if self.findings.is_empty() => self.violated(&error),
            Happening::DeviceInError(_) | Happening::PagingFenceSignaled { .. } => {}
        }
    }

    fn judge(&mut self, kernel: usize, inputs: &[Vec<u64>], client: &Client<'_>) {
        if !self.findings.is_empty() {
            return;
        }
        let verdict = self.oracle.judge(kernel, inputs);
        let (pages, wrong) = (verdict.pages, verdict.wrong);
        self.verdict.add(&verdict);
        self.record(|| Event::ContentChecked { kernel: kernel as u64, pages, wrong });
        if let Some(page) = verdict.first {
            self.found_wrong(kernel, page, wrong, client.allocation_of(page.buffer));
        }
    }

    fn found_wrong(&mut self, kernel: usize, wrong_page: WrongPage, wrong: u64, allocation: Option<AllocationId>) {
        let WrongPage { buffer, page, expected, found } = wrong_page;
        let event = match allocation {
            Some(allocation) => {
                self.record(|| Event::Finding { kernel: kernel as u64, allocation, page, expected, found })
            }
            None => self.last_event(),
        };
        self.findings.push(Finding::WrongPage {
            kernel,
            buffer: self.workload.buffers[buffer as usize].name,
            allocation: allocation.map(|allocation| allocation.to_string()),
            page,
            expected,
            found,
            wrong,
            event,
        });
    }

    fn violated(&mut self, violation: &dyn std::fmt::Display) {
        let event = self.last_event();
        self.findings.push(Finding::Violation { rule: violation.to_string(), event });
    }

    fn audit(&mut self) {
        if let Err(CheckError { broken }) = self.runtime.vidmm().check() {
            let event = self.last_event();
            self.findings.push(Finding::Audit { broken, event });
        }
    }

    fn record(&mut self, event: impl FnOnce() -> Event) -> u64 {
        self.runtime.vidmm().events().record(event)
    }

    fn last_event(&mut self) -> u64 {
        self.runtime.vidmm().events().number()
    }

    fn hand_on_events(&mut self) {
        for event in self.runtime.drain_events() {
            self.observer.event(&event);
        }
    }
}
