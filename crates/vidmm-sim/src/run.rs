//! One run: a workload on a machine, every page that a kernel reads judged by the oracle.

use std::borrow::Cow;

use vidmm::contract::{EngineFence, EngineKind};
use vidmm::{
    AdapterOptions, AllocationId, CheckError, DeviceErrorReason, DeviceInError, Event, GpuVirtualAddress,
    MemorySegmentGroup, Nanoseconds, NumberedEvent, Output, StartAdapterError,
};
use vidmm_runtime::{AllocationSegments, Happening, Machine, MemoryKind, Runtime};
use vidmm_trace::{ByteSize, Workload};

use crate::{
    accounts::Accounts,
    caught::caught_of,
    client::{Client, ClientDesc, ClientError, ClientOptions},
    fault_tales::FaultTales,
    features::Features,
    figures::Figures,
    finding::Finding,
    illegal_uses::StrictWorkload,
    machine::{MachineDesc, MachineFactory, build, limits_without},
    oracle::{Oracle, Verdict, WrongPage},
    over_bus,
    play::{CheckReport, Play},
    prediction::Content,
    report::Report,
    scenario::{
        Script,
        steps::{Action, Answer},
    },
    sequence::Line,
    system_copies::{SystemCopies, WrongCopy},
    timeline::Timeline,
    turns::{TurnWait, Turns},
};

/// The settings of a run.
#[derive(Clone, Debug)]
pub struct RunDesc {
    /// The machine.
    pub machine: MachineDesc,
    /// The fill of the buffers.
    pub content: Content,
    /// The behaviour of each process of the workload, in the order of their numbers. Where it is shorter, the last is
    /// for all that follow; where it is empty, they are [`ClientDesc::default`].
    pub clients: Vec<ClientDesc>,
    /// The timetable: changes, the table and the checks.
    pub script: Script,
    /// Whether work is found that uses what its process has evicted or offered, which changes no decision.
    pub strict: bool,
    /// The options of the manager. A run of several processes takes their figures from its events, and therefore
    /// records them; the observer is shown them only if this asks for them.
    pub options: AdapterOptions,
}

/// The observer of a run.
pub trait Observer {
    /// Called with each event, if the run records events.
    fn event(&mut self, event: &NumberedEvent) {
        let _ = event;
    }

    /// The next line of an explicit scenario's sequence.
    fn line(&mut self, line: &Line) {
        let _ = line;
    }

    /// Called with each call of random worlds and of steps that rules judge, and its answer; none if it could not be made.
    fn answered(&mut self, action: &Action, answer: Option<Answer>) {
        let _ = (action, answer);
    }

    /// Asked before each move of a random world: whether the world goes on. One that does not is brought to its end, and judged.
    fn goes_on(&self) -> bool {
        true
    }

    /// Called with the number of kernels of the workload that have ended.
    fn progress(&mut self, ended: usize, of: usize) {
        let _ = (ended, of);
    }
}

/// An observer that looks away.
pub struct Unobserved;

impl Observer for Unobserved {}

/// The reasons why a run does not come to its end. None of these is a finding: the input or the arguments do not make a
/// run.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// The machine lacks what the scenario needs.
    #[error("skipped: needs {0}, which the machine lacks")]
    Lacks(Features),
    /// No world can be drawn for a machine that lacks these.
    #[error("no world can be drawn for a machine that lacks {0}")]
    NoWorld(Features),
    /// The factory cannot build the machine.
    #[error("the machine cannot be built: {0}")]
    Machine(String),
    /// The driver panicked while the adapter started.
    #[error("the driver panicked while the adapter started: {0}")]
    Panicked(String),
    /// The adapter refused to start.
    #[error(transparent)]
    Start(#[from] StartAdapterError),
    /// The largest kernel does not fit.
    #[error(
        "there are {} for the workload's buffers, but its largest kernel works on {} at once; give them more than that {more}",
        ByteSize(*.memory), ByteSize(*.kernel)
    )]
    KernelDoesNotFit {
        /// Bytes of all memory that buffers may be in.
        memory: u64,
        /// Bytes that the kernel works on.
        kernel: u64,
        /// The keys that give more memory, in words.
        more: &'static str,
    },
    /// The client cannot go on.
    #[error(transparent)]
    Client(#[from] ClientError),
    /// A step needs an object that was never created.
    #[error("line {line}: `{name}` was never created, because the step that was to create it was refused")]
    Absent {
        /// The line of the step.
        line: usize,
        /// The object.
        name: String,
    },
}

/// Runs `workload` as `desc` says, on a machine of `factory`'s.
///
/// # Errors
///
/// If the input does not make a run. A broken rule during the run is a finding in the report.
pub fn run(
    workload: &Workload,
    desc: &RunDesc,
    factory: &dyn MachineFactory,
    observer: &mut dyn Observer,
) -> Result<Report, RunError> {
    let footprint = workload.footprint(desc.machine.page_size.bytes());
    let (memory, kernel) = (memory_for_buffers(desc), footprint.largest_kernel_bytes);
    if kernel > memory {
        return Err(RunError::KernelDoesNotFit { memory, kernel, more: more_keys(desc) });
    }
    let machine = build(factory, &desc.machine).map_err(RunError::Machine)?;
    let is_modelled = desc.clients.iter().any(|client| client.kind().is_some());
    let is_harmed = desc.clients.iter().any(|client| client.recovers || client.misbehaviour.is_some());
    let has_accounts = is_modelled || is_harmed || workload.processes().len() > 1 || desc.script != Script::default();
    let tells = has_accounts || !desc.machine.faults.is_empty();
    let tdr = limits_without(factory.lacks(), desc.options.tdr);
    let options = AdapterOptions { events: desc.options.events || tells || desc.strict, tdr, ..desc.options };
    let runtime = start_adapter(factory, options, machine)?;
    let mut run = Run {
        runtime,
        is_observed: desc.options.events,
        play: Play::new(&desc.script),
        checks: Vec::new(),
        turns: Turns::default(),
        turn_waits: Vec::new(),
        accounts: has_accounts.then(Accounts::default),
        last_sign: 0,
        patience: PATIENCE.saturating_add(workload.longest_kernel()),
        faults: FaultTales::default(),
        names: Vec::new(),
        strict: desc.strict.then(StrictWorkload::default),
        oracle: Oracle::new(workload, desc.content),
        workload,
        timeline: Timeline::default(),
        verdict: Verdict::default(),
        copies: Verdict::default(),
        findings: Vec::new(),
        ended: 0,
        is_brought_about: !desc.machine.faults.is_empty(),
        observer,
    };
    let mut outcome = Ok(());
    let panic = caught_of(factory, || {
        outcome = run.run_to_end(desc);
        run.judge_rest(&mut outcome);
    });
    outcome?;
    let mut findings = std::mem::take(&mut run.findings);
    if let Some(message) = panic {
        let (running, event) = (run.runtime.running().map(|running| running.to_string()), run.last_event());
        findings.push(Finding::Panic { running, message, event });
    }
    let Run {
        mut runtime, ended, timeline, accounts, play, checks, turn_waits, verdict, copies, faults, strict, ..
    } = run;
    let (processes, held_up) = accounts.map(Accounts::into_figures).unwrap_or_default();
    Ok(Report {
        footprint_bytes: footprint.peak_bytes,
        local_memory_bytes: desc.machine.local_memory_bytes,
        system_memory_bytes: desc
            .segments()
            .any(|segments| segments != AllocationSegments::Local)
            .then(|| system_memory(desc)),
        buffers: footprint.buffers,
        kernels: footprint.kernels,
        uploads: footprint.uploads,
        kernels_ended: ended as u64,
        pages_checked: verdict.pages,
        pages_wrong: verdict.wrong,
        system_pages_checked: copies.pages,
        system_pages_wrong: copies.wrong,
        figures: Figures::of(&mut runtime),
        time: timeline.shares(runtime.now()),
        processes,
        held_up,
        rows: play.rows,
        checks,
        faults: faults.told,
        more_faults: faults.more,
        turn_waits,
        illegal_uses: strict.map(StrictWorkload::into_findings).unwrap_or_default(),
        findings,
    })
}

/// Starts the adapter of a machine.
pub(crate) fn start_adapter(
    factory: &dyn MachineFactory,
    options: AdapterOptions,
    machine: Machine,
) -> Result<Runtime, RunError> {
    let mut started = None;
    let panic = caught_of(factory, || started = Some(Runtime::start(options, machine)));
    match (started, panic) {
        (Some(started), _) => Ok(started?),
        (None, message) => Err(RunError::Panicked(message.unwrap_or_default())),
    }
}

impl RunDesc {
    /// The segments where the buffers of its processes may be.
    fn segments(&self) -> impl Iterator<Item = AllocationSegments> {
        let default = self.clients.is_empty().then(AllocationSegments::default);
        self.clients.iter().map(ClientDesc::segments).chain(default)
    }
}

/// Bytes of all memory that the buffers of one process may be in, at most. An allocation is in one kind of memory as a
/// whole, but the allocations of a kernel may be in several.
fn memory_for_buffers(desc: &RunDesc) -> u64 {
    let local = desc.machine.local_memory_bytes;
    let memory = |segments| match segments {
        AllocationSegments::Local => local,
        AllocationSegments::System => system_memory(desc),
        AllocationSegments::LocalOrSystem => local.saturating_add(system_memory(desc)),
        AllocationSegments::Ordered(order) => order.kinds().fold(0u64, |sum, kind| {
            sum.saturating_add(match kind {
                MemoryKind::Memory(1) => local,
                MemoryKind::Memory(number) => more_memory(desc, number),
                MemoryKind::System | MemoryKind::Aperture(_) => system_memory(desc),
            })
        }),
    };
    desc.segments().map(memory).max().unwrap_or(local)
}

/// Bytes of a further memory segment: local memory is number 1.
fn more_memory(desc: &RunDesc, number: u8) -> u64 {
    let at = usize::from(number).checked_sub(2);
    at.and_then(|at| desc.machine.more_memory.get(at)).map_or(0, |&(bytes, _)| bytes)
}

/// The most bytes that may be resident in system memory.
fn system_memory(desc: &RunDesc) -> u64 {
    desc.machine.aperture_commit_limit_bytes.unwrap_or(u64::MAX).min(apertures(desc))
}

/// The bytes of all apertures.
fn apertures(desc: &RunDesc) -> u64 {
    let more: u64 = desc.machine.more_apertures.iter().map(|aperture| aperture.bytes).sum();
    desc.machine.aperture_bytes.saturating_add(more)
}

/// The keys of a scenario that give the buffers more memory. A commit limit that the apertures cap is none of them.
fn more_keys(desc: &RunDesc) -> &'static str {
    let is_limited = desc.machine.aperture_commit_limit_bytes.is_some_and(|limit| limit < apertures(desc));
    let uses_system = desc.segments().any(|segments| segments != AllocationSegments::Local);
    let uses_local = desc.segments().any(|segments| segments != AllocationSegments::System);
    match (uses_local, uses_system, is_limited) {
        (_, false, _) => "with `--local-memory`, or with `local-memory` in `[adapter]`",
        (true, true, true) => "with `--local-memory`, or with `local-memory` or `aperture-commit-limit` in `[adapter]`",
        (true, true, false) => "with `--local-memory`, or with `local-memory` or `aperture` in `[adapter]`",
        (false, true, true) => "with `aperture-commit-limit` in `[adapter]`",
        (false, true, false) => "with `aperture` in `[adapter]`",
    }
}

/// The time in which nothing arrives or ends while kernels are left, in nanoseconds, before the run counts as stuck; beside the time
/// that its longest kernel takes.
const PATIENCE: Nanoseconds = 1_000_000_000_000;

struct Run<'a> {
    runtime: Runtime,
    /// Whether the observer is shown events.
    is_observed: bool,
    accounts: Option<Accounts>,
    play: Play<'a>,
    checks: Vec<CheckReport>,
    turns: Turns,
    turn_waits: Vec<TurnWait>,
    /// The time at which work arrived or a packet ended last.
    last_sign: Nanoseconds,
    /// The time of which a run without a sign is stuck.
    patience: Nanoseconds,
    faults: FaultTales,
    /// The name of each process in reports.
    names: Vec<String>,
    strict: Option<StrictWorkload>,
    oracle: Oracle,
    workload: &'a Workload,
    timeline: Timeline,
    verdict: Verdict,
    copies: Verdict,
    findings: Vec<Finding>,
    /// Kernels that have ended.
    ended: usize,
    /// Whether faults of driver and GPU are made on purpose.
    is_brought_about: bool,
    observer: &'a mut dyn Observer,
}

impl Run<'_> {
    /// Runs until all kernels have ended or something does not hold.
    fn run_to_end(&mut self, desc: &RunDesc) -> Result<(), RunError> {
        let engines: Vec<EngineKind> = self.runtime.vidmm().engines().to_vec();
        let options = ClientOptions {
            content: desc.content.of_kernels(),
            upload_bytes_per_second: desc.machine.bus_bytes_per_second,
            strict: desc.strict,
            more_memory: more_keys(desc),
            are_alone: true,
        };
        let mut client =
            Client::new(&mut self.runtime, &engines, Cow::Borrowed(self.workload), &desc.clients, options)?;
        if let Some(accounts) = &mut self.accounts {
            client.processes().for_each(|(process, device, desc)| accounts.open(process, device, desc));
        }
        self.names = client.names();
        for ((process, ..), name) in client.processes().zip(&self.names) {
            self.faults.name_process(process, name);
        }
        while self.findings.is_empty() && (!client.is_done() || self.play.lasts()) {
            if let Some(accounts) = &self.accounts {
                self.play.act(&mut self.runtime, &mut client, accounts)?;
            }
            let next_arrival = self.with_copies(desc, |runtime, copies| client.submit(runtime, copies))?;
            if let Some(strict) = &mut self.strict {
                strict.declare(client.take_declared());
            }
            let next_arrival = next_arrival.into_iter().chain(self.play.next()).min();
            let goes_on = self.runtime.advance(next_arrival);
            let now = self.runtime.now();
            if next_arrival.is_some_and(|arrival| arrival <= now) {
                self.last_sign = now;
            }
            if !goes_on || now.saturating_sub(self.last_sign) > self.patience {
                client.check_memory()?;
                self.turns.is_stuck = true;
                let event = self.last_event();
                self.findings.push(Finding::Stuck { ended: client.ended(), event });
            }
            // The events come first: they say which process a packet belongs to.
            self.hand_on_events();
            while let Some(happening) = self.runtime.next_happening() {
                self.take_note(happening, &mut client)?;
            }
            self.hand_on_events();
            self.ended = client.ended();
            self.observer.progress(self.ended, self.workload.kernels.len());
        }
        if let Some(accounts) = &mut self.accounts {
            accounts.note_waits(client.waited_ns());
            self.turn_waits = self.turns.long_waits(self.runtime.now(), |device| accounts.name_of(device));
            self.checks = self.play.judge(&client, accounts, self.timeline.clone().shares(self.runtime.now()));
        }
        self.ended = client.ended();
        if self.findings.is_empty() {
            self.with_copies(desc, |runtime, copies| client.close(runtime, copies))?;
            self.audit();
        }
        Ok(())
    }

    /// Judges what was told since the last look. An adapter in error refuses every call: the violation is a finding, and the
    /// refusal no error of the input.
    fn judge_rest(&mut self, outcome: &mut Result<(), RunError>) {
        if let Err(RunError::Client(ClientError::Violation(violation))) = outcome {
            let violation = violation.to_string();
            self.violated(&violation);
        }
        self.runtime.pump();
        self.hand_on_events();
        while let Some(happening) = self.runtime.next_happening() {
            match happening {
                Happening::Output(Output::DeviceInError(error)) if outcome.is_err() => self.violated(&error),
                happening => drop(self.judge_effect(&happening)),
            }
        }
        if !self.findings.is_empty() {
            *outcome = Ok(());
        }
    }

    /// Judges the effect of the driver's commands, and whether the adapter is in error. Returns whether `happening` is about that.
    fn judge_effect(&mut self, happening: &Happening) -> bool {
        match happening {
            Happening::LateAccess { kernel, virtual_address, .. } => {
                self.violated(&format_args!(
                    "NTF-04: kernel {kernel} accessed {virtual_address} after the host had unmapped it from the IOMMU: the driver did not flush what its device caches when it was notified"
                ));
            }
            Happening::WrongEffect(wrong) => self.violated(&format_args!("{}: {wrong}", wrong.fact())),
            Happening::Output(Output::AdapterInError(violation)) => self.violated(violation),
            _ => return false,
        }
        true
    }

    /// Runs `act`, during which copies in system memory are judged.
    fn with_copies<T>(&mut self, desc: &RunDesc, act: impl FnOnce(&mut Runtime, &mut SystemCopies<'_>) -> T) -> T {
        let mut wrong = Vec::new();
        let enabled = desc.segments().any(|segments| segments != AllocationSegments::Local)
            || desc.clients.iter().any(|client| client.buffers.compression);
        let copies = &mut SystemCopies { oracle: &self.oracle, enabled, verdict: &mut self.copies, wrong: &mut wrong };
        let done = act(&mut self.runtime, copies);
        wrong.first().into_iter().for_each(|copy| self.found_wrong_copy(copy));
        done
    }

    fn found_wrong_copy(&mut self, copy: &WrongCopy) {
        let WrongCopy { page: WrongPage { buffer, page, expected, found }, wrong, allocation, address } = *copy;
        let event = self.last_event();
        self.findings.push(Finding::WrongSystemPage {
            buffer: self.workload.buffers[buffer as usize].name,
            allocation: allocation.to_string(),
            page,
            address: address.offset,
            expected,
            found,
            wrong,
            event,
        });
    }

    fn take_note(&mut self, happening: Happening, client: &mut Client<'_>) -> Result<(), RunError> {
        match happening {
            happening if self.judge_effect(&happening) => {}
            Happening::KernelRead { kernel, inputs } => self.judge(kernel as usize, &inputs, client),
            Happening::AccessedOverBus { kernel, read, written, lost_ns } => {
                self.timeline.lost_over_bus(lost_ns);
                let buffers = self.oracle.buffers_of(kernel as usize);
                let parts = buffers.zip(read.into_iter().chain(written));
                let parts = parts.map(|(buffer, bytes)| (client.allocation_of(buffer), bytes));
                let accesses = over_bus::accesses(parts, lost_ns);
                let device = client.processes().nth(client.process_of(kernel as usize)).map(|(_, device, _)| device);
                if let Some(device) = device {
                    self.record(|| Event::AccessedOverBus { device, kernel, accesses });
                }
            }
            Happening::PacketEnded { signal, paging, started_at, ended_at } => {
                self.timeline.ran(paging, started_at, ended_at);
                self.last_sign = ended_at;
                let ended =
                    self.accounts.as_mut().and_then(|accounts| accounts.packet_ended(signal, started_at, ended_at));
                if let Some((process, submission)) = ended {
                    client.kernel_ended(process, submission, ended_at);
                }
            }
            // The error of the device, which follows, decides.
            Happening::PageFault { signal, .. } if self.is_survived(signal, client) => {}
            Happening::PageFault { signal, virtual_address, write } => {
                self.faulted(signal, virtual_address.0, write, client);
            }
            Happening::Output(output) => self.told(output, client)?,
            Happening::LateAccess { .. } | Happening::WrongEffect(_) => {}
        }
        Ok(())
    }

    fn told(&mut self, output: Output, client: &mut Client<'_>) -> Result<(), RunError> {
        match output {
            Output::MonitoredFenceSignaled { fence, value } => {
                let process = client.fence_signaled(fence, value);
                if let Some(process) = process.filter(|_| self.findings.is_empty()) {
                    client.fence_reached(&mut self.runtime, process)?;
                }
            }
            Output::TrimNotification { device, flags, num_bytes_to_trim, .. } if self.findings.is_empty() => {
                client.trim(&mut self.runtime, device, flags, num_bytes_to_trim)?;
            }
            Output::DeviceInError(error) if self.findings.is_empty() => self.lost_device(&error, client)?,
            _ => {}
        }
        Ok(())
    }

    /// Gives the process of a device in error another device, if the process survives the error.
    fn lost_device(&mut self, error: &DeviceInError, client: &mut Client<'_>) -> Result<(), RunError> {
        let Some(process) = client.process_with(error.device) else { return Ok(()) };
        if !client.survives(process, error.reason, self.is_brought_about) {
            let violation = format!("{}: {error}", self.names[process]);
            self.violated(&violation);
            return Ok(());
        }
        client.recover(&mut self.runtime, process)?;
        let device = client.processes().nth(process).map(|(_, device, _)| device);
        if let (Some(accounts), Some(device)) = (&mut self.accounts, device) {
            accounts.reopen(process, device);
        }
        Ok(())
    }

    /// Whether the processes that a page fault of this packet harms go on after it.
    fn is_survived(&mut self, signal: EngineFence, client: &Client<'_>) -> bool {
        let reason = DeviceErrorReason::PageFault { virtual_address: GpuVirtualAddress(0) };
        let is_brought_about = self.is_brought_about;
        let survives = |process| client.survives(process, reason, is_brought_about);
        match self.accounts.as_ref().and_then(|accounts| accounts.packet(signal)) {
            Some((process, _)) => survives(process),
            None => is_brought_about && (0..client.processes().count()).all(survives),
        }
    }

    fn judge(&mut self, kernel: usize, inputs: &[Vec<u64>], client: &Client<'_>) {
        if !self.findings.is_empty() || client.is_void(kernel) {
            return;
        }
        let known = self.oracle.num_kernels() - self.workload.kernels.len();
        client.more_kernels()[known..].iter().for_each(|more| self.oracle.add_kernel(&more.reads, &more.writes));
        let verdict = self.oracle.judge(kernel, inputs);
        let (pages, wrong) = (verdict.pages, verdict.wrong);
        self.verdict.add(&verdict);
        if let Some(accounts) = &mut self.accounts {
            accounts.judged(client.process_of(kernel), &verdict);
        }
        self.record(|| Event::ContentChecked { kernel: kernel as u64, pages, wrong });
        if let Some(page) = verdict.first {
            self.found_wrong(kernel, client.process_of(kernel), page, wrong, client.allocation_of(page.buffer));
        }
    }

    /// Records a finding: work accessed memory where nothing is resident.
    fn faulted(&mut self, signal: EngineFence, virtual_address: u64, write: bool, client: &Client<'_>) {
        let (event, engine) = (self.last_event(), signal.engine);
        // The paging process's mapping at the address belongs to no process. Without accounts there is one process.
        let engines = self.runtime.vidmm().engines();
        let is_paging = engines.len() > 1 && engines.get(engine as usize) == Some(&EngineKind::Paging);
        let packet = self.accounts.as_ref().map_or(Some((0, 0)), |accounts| accounts.packet(signal));
        let found = packet.filter(|_| !is_paging).and_then(|packet| {
            let (buffer, page) = client.mapping_at(packet.0, virtual_address)?;
            Some((packet, buffer, page, client.allocation_of(buffer)?))
        });
        let touched = found.zip(self.accounts.as_ref()).map(|((packet, buffer, _, allocation), accounts)| {
            let group = client.group_of(packet.0, buffer);
            accounts.touched(packet, allocation, group)
        });
        let page = found.map_or(0, |(_, _, page, _)| page);
        let allocation = found.map(|(.., allocation)| allocation.to_string());
        self.findings.push(Finding::PageFault { virtual_address, write, engine, allocation, page, touched, event });
    }

    fn found_wrong(
        &mut self,
        kernel: usize,
        process: usize,
        wrong_page: WrongPage,
        wrong: u64,
        allocation: Option<AllocationId>,
    ) {
        let WrongPage { buffer, page, expected, found } = wrong_page;
        let event = match allocation {
            Some(allocation) => {
                self.record(|| Event::Finding { kernel: kernel as u64, allocation, page, expected, found })
            }
            None => self.last_event(),
        };
        self.findings.push(Finding::WrongPage {
            kernel,
            process: self.names[process].clone(),
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
        let mut lost = Vec::new();
        for event in self.runtime.drain_events() {
            if let Some(accounts) = &mut self.accounts {
                lost.extend(accounts.take_note(&event.event, event.at));
            }
            self.turns.observe(&event);
            if let Some(strict) = &mut self.strict {
                strict.observe(&event, &self.names);
            }
            if self.is_observed {
                self.observer.event(&event);
            }
            self.faults.see(&event);
        }
        for eviction in lost {
            let info = self.runtime.vidmm().query_video_memory_info(eviction.process, MemorySegmentGroup::Local);
            let within_budget = info.is_ok_and(|info| info.requested <= info.budget);
            if let Some(accounts) = self.accounts.as_mut().filter(|_| within_budget) {
                accounts.evicted_within_budget(eviction);
            }
        }
    }
}
