//! A scenario under way: the machine, what steps have created, and what was found.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::rc::Rc;

use vidmm::contract::EngineKind;
use vidmm::{
    AllocationId, CheckError, DeviceErrorReason, DeviceId, EndUseError, Event, MemorySegmentGroup, MonitoredFenceId,
    Nanoseconds, NumberedEvent, Output, ProcessId, TrimFlags,
};
use vidmm_runtime::{AllocationSegments, Happening, Runtime};
use vidmm_trace::{Audit, IllegalUse, Rights};

use super::graves::Graves;
use super::held::Held;
use super::in_error::{InError, UnnamedFault};
use super::ledger::{Comparison, Difference, Ledger, Part, Work};
use super::objects::{Doomed, KernelState, Objects};
use super::report::{ExplicitReport, StepFinding};
use super::rules::known::Rules;
use super::told::{AskedMappings, Untold};
use super::truth::Truth;
use crate::features::engine_for;
use crate::held_up::HeldUp;
use crate::illegal_uses::{IllegalUses, UseFinding};
use crate::over_bus;
use crate::run::Observer;
use crate::scenario::ExplicitScenario;
use crate::scenario::steps::{Action, Answer};
use crate::sequence::Narrator;
use crate::turns::Turns;

/// How long nothing but the manager's clock may move before a wait gives up, beside the longest kernel's time.
const PATIENCE: Nanoseconds = 60_000_000_000;

/// The most steps of a wait without progress: endless preemptions take hardly any time.
const PATIENCE_STEPS: u64 = 1_000_000;

/// A scenario under way.
pub(crate) struct Session<'a> {
    pub runtime: Runtime,
    pub objects: Objects,
    pub ledger: Ledger,
    pub narrator: Narrator,
    pub report: ExplicitReport,
    /// The ordinals of the engines that run kernels, as [`KernelEngine`](crate::KernelEngine) numbers them.
    pub engines: [u32; 2],
    /// The dice that forged handles are drawn from.
    pub seed: u64,
    /// Whether there are no GPU virtual addresses.
    pub is_physical: bool,
    /// The line and the words of the step that is being made.
    pub step: (usize, String),
    /// The answer that the step is expected to give.
    pub expect: Option<Answer>,
    /// Where allocations may be of which steps say nothing.
    pub default_segments: AllocationSegments,
    /// The most that the driver lets be resident in system memory; none if it sets no limit.
    pub commit_limit: Option<u64>,
    /// All is being destroyed, and nobody watches.
    pub closing: bool,
    /// Where everything is, by the log alone.
    pub truth: Truth,
    graves: Graves,
    /// The audit of the event log where steps judge: it tells whether anything waits for ever.
    audit: Audit,
    /// The allocations that went with their processes.
    pub gone: BTreeSet<AllocationId>,
    /// Allocations whose content was discarded, and how many kernels there were when that was said. Those that had been
    /// submitted before find what it was, and what they write goes with it (RES-61).
    pub discarded: BTreeMap<String, usize>,
    /// How often the CPU wrote an allocation.
    pub cpu_writes: u64,
    /// Notifications that no step has looked at yet, oldest first.
    pub trims: BTreeMap<DeviceId, VecDeque<(TrimFlags, u64)>>,
    /// The budgets that were notified last.
    pub budgets: BTreeMap<(ProcessId, MemorySegmentGroup), u64>,
    /// The kernel that the step reads with.
    pub awaited_reader: Option<usize>,
    /// Allocations whose synchronous destruction has not ended.
    pub awaited: BTreeSet<AllocationId>,
    /// Devices that a MustSucceed was refused.
    pub failed: BTreeSet<DeviceId>,
    /// Devices in error.
    pub errors: BTreeMap<DeviceId, InError<DeviceErrorReason>>,
    /// The adapter's error, if it is in error.
    pub adapter_error: Option<InError<String>>,
    /// Faults of paging buffers that no step has expected yet.
    pub paging_faults: Vec<String>,
    /// Faults of which the packet is not known yet.
    pub unnamed_faults: Vec<UnnamedFault>,
    /// The devices that wait for their turn.
    pub turns: Turns,
    /// The findings that the driver's author was told.
    pub driver_findings: Vec<String>,
    /// Processes that steps have suspended, those that are killed soon, and those that were and have not ended.
    pub suspended: BTreeSet<ProcessId>,
    pub doomed: Vec<Doomed>,
    /// Steps have said that power goes, and everything has been saved.
    pub is_down: bool,
    pub has_powered_down: bool,
    /// The rights of devices to what their work uses, in strict mode; and the uses without one.
    pub rights: Option<Rights>,
    pub illegal_uses: IllegalUses,
    /// Set if nothing is expected, and rules judge alone.
    pub rules: Option<Box<Rules>>,
    /// Calls that were made, and how often time has passed.
    pub num_machine_steps: u64,
    /// When anything happened last that is no mere notification.
    last_activity: Nanoseconds,
    /// The step of the last activity.
    last_active_step: u64,
    /// How long nothing but the manager's clock may move before a wait gives up.
    pub patience: Nanoseconds,
    /// The events so far.
    pub num_events: u64,
    /// The outputs that must follow the events so far.
    pub untold: Untold,
    /// Processes that are to be told of changes of their budgets.
    pub budget_listeners: BTreeSet<ProcessId>,
    /// The mappings that were asked for, and where they were made, of which no event has told yet.
    pub asked_mappings: AskedMappings,
    /// The things that the manager has of the host and of the driver, now and when it had just started.
    pub held: Rc<RefCell<Held>>,
    pub held_at_start: Held,
    observer: &'a mut dyn Observer,
}

impl<'a> Session<'a> {
    /// Begins on a machine that was just started; none if it has no engine of a kind that kernels need.
    pub fn new(
        mut runtime: Runtime,
        scenario: &ExplicitScenario,
        rules: Option<Box<Rules>>,
        held: Rc<RefCell<Held>>,
        observer: &'a mut dyn Observer,
    ) -> Option<Self> {
        let kinds = runtime.vidmm().engines().to_vec();
        let engines = [engine_for(&kinds, EngineKind::Render3d)?, engine_for(&kinds, EngineKind::Copy)?];
        Some(Self {
            runtime,
            objects: Objects::default(),
            ledger: Ledger::default(),
            narrator: Narrator::default(),
            report: ExplicitReport { steps: scenario.steps.len() as u64, ..ExplicitReport::default() },
            engines,
            seed: scenario.seed,
            is_physical: scenario.adapter.is_physical(),
            step: (0, String::new()),
            expect: None,
            default_segments: scenario.default_segments(),
            commit_limit: scenario.aperture_commit_limit_bytes,
            closing: false,
            truth: Truth::default(),
            graves: Graves::default(),
            audit: Audit::new(),
            gone: BTreeSet::new(),
            discarded: BTreeMap::new(),
            cpu_writes: 0,
            trims: BTreeMap::new(),
            budgets: BTreeMap::new(),
            awaited_reader: None,
            awaited: BTreeSet::new(),
            failed: BTreeSet::new(),
            errors: BTreeMap::new(),
            adapter_error: None,
            paging_faults: Vec::new(),
            unnamed_faults: Vec::new(),
            turns: Turns::default(),
            driver_findings: Vec::new(),
            suspended: BTreeSet::new(),
            doomed: Vec::new(),
            is_down: false,
            has_powered_down: false,
            rights: scenario.strict.then(Rights::default),
            illegal_uses: IllegalUses::default(),
            rules,
            num_machine_steps: 0,
            last_activity: 0,
            last_active_step: 0,
            patience: PATIENCE.saturating_add(scenario.longest_kernel()),
            num_events: 0,
            untold: Untold::default(),
            budget_listeners: BTreeSet::new(),
            asked_mappings: AskedMappings::default(),
            held: Rc::clone(&held),
            held_at_start: held.borrow().clone(),
            observer,
        })
    }

    /// Whether nothing was found, and the adapter is not in error.
    pub fn is_intact(&self) -> bool {
        self.report.findings.is_empty() && self.adapter_error.is_none()
    }

    /// Records that something did not hold.
    pub fn found(&mut self, problem: impl Into<String>) {
        self.find(None, problem.into());
    }

    /// Records that a rule is broken.
    pub fn broke(&mut self, rule: &'static str, problem: impl Into<String>) {
        self.find(Some(rule), problem.into());
    }

    /// Records that a panic has ended the step, and which call of the driver or the GPU it was in.
    pub fn panicked(&mut self, message: &str) {
        let running = self.runtime.running().map_or_else(String::new, |running| format!("{running}: "));
        self.broke("PANIC", format!("{running}{message}"));
    }

    fn find(&mut self, rule: Option<&'static str>, problem: String) {
        let event = self.runtime.vidmm().events().number();
        let (line, step) = self.step.clone();
        self.report.findings.push(StepFinding { line, step, rule, problem, event });
    }

    /// Records what a comparison of pages found. `who` says who saw them, as in "the CPU sees"; `of` says of what.
    pub fn compared(&mut self, comparison: &Comparison, who: &str, of: &str) {
        let Comparison { pages, wrong, first } = comparison;
        self.report.pages_wrong += wrong;
        if !self.narrator.silent {
            let noun = if *pages == 1 { "page" } else { "pages" };
            self.narrator.checked(format!("{who} {pages} {noun}{of}, {wrong} wrong"));
        }
        if let Some(Difference { allocation, page, expected, found }) = first {
            // Zeros alone have the digest 0.
            let named = |digest| if digest == 0 { "zeros".to_owned() } else { format!("digest {digest:#018x}") };
            let found = found.map_or_else(|| "is missing".to_owned(), |found| format!("has {}", named(found)));
            let expected = named(*expected);
            self.broke("I02", format!(
                "{who} a wrong page: page {page} of {allocation} {found}, but must have {expected}; {wrong} wrong pages in all"
            ));
        }
    }

    /// Hands out what the manager has decided, and takes note of all that it says.
    pub fn settle(&mut self) {
        self.runtime.pump();
        self.take_note();
        if let Some(fault) = self.untold.judge_untold() {
            self.broke("OUTPUTS", fault);
        }
        self.judge_banks();
    }

    /// Lets time pass until something happens, or until `limit`; `false` if nothing is to come.
    pub fn advance(&mut self, limit: Option<Nanoseconds>) -> bool {
        self.settle();
        let advanced = self.runtime.advance(limit);
        self.num_machine_steps += 1;
        self.take_note();
        if !self.doomed.is_empty() {
            self.count_down();
        }
        self.settle();
        advanced
    }

    /// Lets time pass until something is the case; `false` if it never will be: for `patience` nobody's work gets ahead.
    pub fn run_until(&mut self, patience: Nanoseconds, is_reached: impl Fn(&mut Self) -> bool) -> bool {
        self.settle();
        self.note_activity(self.runtime.now());
        // In the end, and where rules judge, nobody waits for a step that ends a use.
        let ends_uses = self.rules.is_some() || self.closing;
        while !is_reached(self) {
            let goes_on = self.advance(None) | (ends_uses && self.end_uses());
            if !goes_on {
                self.judge_rest();
            }
            let is_over = self.runtime.now() > self.last_activity.saturating_add(patience)
                || self.num_machine_steps > self.last_active_step + PATIENCE_STEPS;
            if !goes_on || is_over {
                return is_reached(self);
            }
        }
        true
    }

    /// Work gets ahead.
    fn note_activity(&mut self, at: Nanoseconds) {
        (self.last_activity, self.last_active_step) = (at, self.num_machine_steps);
    }

    /// Nothing more follows by itself: whatever waits has a reason (D30).
    fn judge_rest(&mut self) {
        if !self.is_intact() || self.closing || self.is_down {
            return;
        }
        let audit = self.rules.as_mut().map_or(&mut self.audit, |rules| &mut rules.audit);
        let judged = audit.findings().len();
        audit.at_rest();
        if let Some(finding) = audit.findings().get(judged) {
            let (rule, problem) = (finding.invariant.name(), finding.message.clone());
            self.broke(rule, problem);
        }
    }

    /// The owners' queues end what they have begun; `false` if that is nothing.
    fn end_uses(&mut self) -> bool {
        let (vidmm, before) = (self.runtime.vidmm(), self.objects.uses.len());
        self.objects.uses.retain(|_, &mut (context, number)| {
            let ended = vidmm.end_use(context, number);
            matches!(ended, Err(EndUseError::NotUnderWay { .. } | EndUseError::Waits { .. }))
        });
        self.objects.uses.len() < before
    }

    /// Lets time pass until everything has ended; `false` if something never does.
    pub fn run_until_idle(&mut self) -> bool {
        self.run_until(self.patience, |session| session.runtime.vidmm().is_idle())
    }

    /// Lets time pass until a kernel has ended; `false` if it never does.
    pub fn run_until_ended(&mut self, kernel: usize) -> bool {
        self.run_until(self.patience, |session| session.objects.kernels[kernel].ended)
    }

    /// Checks the manager's books.
    pub fn audit(&mut self) {
        if let Err(CheckError { broken }) = self.runtime.vidmm().check() {
            self.broke("BOOKS", format!("the manager's books do not hold together: {}", broken.join("; ")));
        }
    }

    /// Shows the lines so far.
    pub fn show_lines(&mut self) {
        for line in self.narrator.take() {
            if !self.closing {
                self.observer.line(&line);
            }
        }
    }

    /// Tells the observer of a call.
    pub fn answered(&mut self, action: &Action, answer: Option<Answer>) {
        self.observer.answered(action, answer);
    }

    /// Whether the observer lets a random world go on.
    pub fn goes_on(&self) -> bool {
        self.observer.goes_on()
    }

    fn take_note(&mut self) {
        // An output may name objects that only the events before it introduce.
        self.hand_on_events();
        while let Some(happening) = self.runtime.next_happening() {
            self.happened(happening);
        }
        self.hand_on_events();
    }

    fn hand_on_events(&mut self) {
        for event in self.runtime.drain_events().collect::<Vec<_>>() {
            self.num_events += 1;
            self.narrator.event(&event);
            self.truth.observe(&event.event);
            self.turns.observe(&event);
            self.judge_uses(&event);
            match &mut self.rules {
                Some(rules) => rules.observe(&event),
                None => {
                    self.audit.event(&event);
                    if let Some(problem) = self.graves.observe(&event.event) {
                        self.found(problem);
                    }
                }
            }
            self.take_note_of(&event);
            self.observer.event(&event);
        }
    }

    /// Strict mode: judges what the submission uses that an event tells of.
    fn judge_uses(&mut self, event: &NumberedEvent) {
        let Some(rights) = &mut self.rights else { return };
        for IllegalUse { device, submission, allocation, ended, event } in rights.observe(event) {
            let names = &self.narrator.names;
            let work =
                names.kernels.get(&(device, submission)).map_or_else(String::new, |name| format!("kernel {name}"));
            let device_name = names.devices.get(&device).cloned().unwrap_or_else(|| device.to_string());
            let allocation = names.allocations.get(&allocation).cloned().unwrap_or_else(|| allocation.to_string());
            let line = Some(self.step.0);
            let found = UseFinding { line, work, device: device_name, submission, allocation, ended, event, times: 1 };
            self.illegal_uses.add(found);
        }
    }

    fn take_note_of(&mut self, numbered: &NumberedEvent) {
        self.untold.must_tell(&numbered.event, |process| self.budget_listeners.contains(&process));
        if let Some(fault) = self.asked_mappings.judge(&numbered.event) {
            self.broke("GVA-50", fault);
        }
        self.judge_knobs(&numbered.event);
        self.follow_page_faults(&numbered.event);
        let name = |device| Some(self.narrator.names.device(device));
        HeldUp::take_note(&mut self.report.held_up, &numbered.event, numbered.at, name);
        match numbered.event {
            // Lists that come and go while no work gets ahead are no progress.
            Event::Granted { .. } | Event::Dispatched { .. } | Event::PagingFenceSignaled { .. } => {
                self.note_activity(numbered.at);
            }
            Event::Evicted { allocation, copied: true, .. } => self.copied_out(allocation),
            Event::Placed { allocation, segment, ref extents, .. } if self.rules.is_some() => {
                self.check_range(allocation, segment, extents);
            }
            Event::AdapterStarted { system_commit_limit, .. } => {
                if let Some(limit) = self.commit_limit.filter(|&limit| limit < system_commit_limit) {
                    self.broke(
                        "SEG-50",
                        format!("{system_commit_limit} bytes may be resident, but the driver allows {limit}"),
                    );
                }
            }
            Event::PoweredUp if self.rules.is_some() && self.is_down => {
                self.broke("P60", "the adapter has power again, but was last told to lose it".to_owned());
            }
            Event::AdapterRestarted => {
                self.note_activity(numbered.at);
                self.adapter_restarted();
            }
            Event::Completed { signal } => self.forget_late_writes(signal),
            Event::Aborted { signal } => {
                self.note_activity(numbered.at);
                self.packet_aborted(signal);
            }
            Event::BackingStoreRefused { .. } | Event::EngineResetBegun { .. } | Event::AdapterResetBegun { .. } => {
                self.report.shows_faults = true;
            }
            Event::DriverFinding { finding } => {
                self.driver_findings.push(finding.to_string());
                if !finding.is_of_patch_list() {
                    self.fault_misreported();
                }
            }
            Event::ContentLost { allocation, is_kept } => {
                if let Some(name) = self.narrator.names.allocations.get(&allocation).cloned() {
                    match is_kept {
                        true => self.content_left(&name),
                        false => self.content_lost(&name),
                    }
                }
            }
            _ => {}
        }
    }

    fn happened(&mut self, happening: Happening) {
        match happening {
            Happening::KernelRead { kernel, inputs } => match (kernel as usize).checked_sub(1) {
                Some(number) if number < self.objects.kernels.len() => self.judge(number, &inputs),
                _ => self.broke("I02", format!("the GPU has run kernel number {kernel}, which no program has")),
            },
            Happening::AccessedOverBus { kernel, read, written, lost_ns } => {
                self.accessed_over_bus(kernel, read.into_iter().chain(written), lost_ns);
            }
            Happening::LateAccess { kernel, virtual_address, write } => {
                let kernel = &self.objects.kernels[kernel as usize - 1];
                // Its program said that it was not in use (RES-91): no flush before the unmap would have been enough.
                if self.rules.is_some() && !kernel.is_covered {
                    return;
                }
                let (name, access) = (&kernel.name, if write { "wrote to" } else { "read" });
                let problem = format!(
                    "kernel {name} {access} {virtual_address} after the host had unmapped it from the IOMMU: the driver did not flush what its device caches when it was notified"
                );
                self.broke("NTF-04", problem);
            }
            Happening::PageFault { signal, virtual_address, write } => {
                self.page_fault_reported(signal, virtual_address, write);
            }
            Happening::WrongEffect(wrong) => self.broke(wrong.fact(), wrong.to_string()),
            Happening::PacketEnded { paging: false, .. } => self.note_activity(self.runtime.now()),
            Happening::PacketEnded { .. } => {}
            Happening::Output(output) => self.told(output),
        }
    }

    fn accessed_over_bus(&mut self, kernel: u64, bytes: impl Iterator<Item = u64>, lost_ns: Nanoseconds) {
        self.report.bus_ns += lost_ns;
        let Objects { kernels, allocations, .. } = &self.objects;
        let Some(state) = (kernel as usize).checked_sub(1).and_then(|number| kernels.get(number)) else { return };
        let Work { reads, zeros, writes, .. } = &state.work;
        let parts = reads.iter().map(Some).chain(zeros.iter().map(|_| None)).chain(writes.iter().map(Some));
        let id = |part: &Part| allocations.get(&part.allocation).map(|known| known.id);
        let parts = parts.zip(bytes).map(|(part, bytes)| (part.and_then(id), bytes));
        let (device, accesses) = (state.device, over_bus::accesses(parts, lost_ns));
        self.runtime.vidmm().events().record(|| Event::AccessedOverBus { device, kernel, accesses });
    }

    fn told(&mut self, output: Output) {
        if let Some(fault) = self.untold.judge_told(&output) {
            self.broke("OUTPUTS", fault);
        }
        match output {
            Output::MonitoredFenceSignaled { fence, value } => self.fence_signaled(fence, value),
            Output::AdapterInError(violation) => {
                if self.rules.as_ref().is_some_and(|rules| !rules.may_fail) {
                    self.broke("I12", format!("the adapter is in error, and nobody made a mistake: {violation}"));
                }
                self.adapter_error = Some(InError::unexpected(violation.to_string()));
            }
            Output::DeviceInError(error) => {
                self.empty_list(error.device);
                let mut kernels = self.objects.kernels.iter();
                let is_expected = self.failed.contains(&error.device)
                    || kernels.any(|kernel| kernel.device == error.device && kernel.fault_is_expected);
                self.errors.insert(error.device, InError { why: error.reason, is_expected });
            }
            Output::TrimNotification { device, flags, num_bytes_to_trim, .. } => {
                if flags.contains(TrimFlags::PERIODIC_TRIM | TrimFlags::RESTART_PERIODIC_TRIM) {
                    self.found("RES-41: a notification has PeriodicTrim and RestartPeriodicTrim at once");
                }
                self.trims.entry(device).or_default().push_back((flags, num_bytes_to_trim));
            }
            Output::BudgetChanged { process, group, budget } => {
                self.budgets.insert((process, group), budget);
            }
            Output::AllocationReclaimed { allocation } => {
                let was_awaited = self.awaited.remove(&allocation);
                if self.rules.is_some() && !was_awaited {
                    self.broke("RES-91", format!("the end of {allocation} is told, for which no program asked"));
                }
            }
            Output::PoweredDown => self.has_powered_down = true,
            _ => {}
        }
    }

    fn judge(&mut self, kernel: usize, inputs: &[Vec<u64>]) {
        self.objects.kernels[kernel].begun = true;
        let KernelState { name, work, aborted, .. } = &self.objects.kernels[kernel];
        // Content that a kernel finds without its device having made it resident is nobody's promise.
        let is_uncovered = self.rules.is_some() && !self.objects.kernels[kernel].is_covered;
        // No client waits for work that a device in error had handed out, and an adapter in error does not page for
        // what still runs.
        let is_doubtful = self.rules.is_some() && (*aborted || self.adapter_error.is_some());
        // Until the lock ends, a move may bring in what the CPU has written to its copy (2.2).
        let is_written_copy =
            |name: &str| self.objects.allocations.get(name).is_some_and(|known| known.written_copy.is_some());
        let is_past = |allocation: &str| {
            is_uncovered
                || is_doubtful
                || is_written_copy(allocation)
                || self.discarded.get(allocation).is_some_and(|&since| kernel < since)
        };
        let (comparison, name) = (self.ledger.run(work, inputs, is_past), name.clone());
        if *aborted || is_uncovered {
            self.ledger.aborted(work);
        }
        if is_uncovered {
            self.forget_addresses_of(kernel);
        }
        self.report.kernels_judged += 1;
        self.report.pages_checked += comparison.pages;
        let (pages, wrong) = (comparison.pages, comparison.wrong);
        self.runtime.vidmm().events().record(|| Event::ContentChecked { kernel: kernel as u64 + 1, pages, wrong });
        if pages > 0 {
            self.compared(&comparison, &format!("kernel {name} read"), "");
        }
    }

    fn fence_signaled(&mut self, fence: MonitoredFenceId, value: u64) {
        let may_be_misreported = self.rules.as_ref().is_none_or(|rules| rules.may_misreport_ends);
        let Some(waiting) = self.objects.waiting.get_mut(&fence) else { return };
        let ended = waiting.iter().take_while(|&&kernel| self.objects.kernels[kernel].value <= value).count();
        for index in waiting.drain(..ended).collect::<Vec<_>>() {
            let kernel = &mut self.objects.kernels[index];
            kernel.ended = true;
            if kernel.fault_is_expected && !kernel.faulted {
                self.found(self.expected_fault_missing(index, value == u64::MAX));
            } else if kernel.must_fault && !kernel.faulted && value != u64::MAX {
                let problem = format!(
                    "kernel {} wrote through a mapping that is read-only, and no fault is reported",
                    kernel.name
                );
                self.broke("GVA-50", problem);
            } else if (kernel.faulted || kernel.is_illegal) && value != u64::MAX && !may_be_misreported {
                let problem =
                    format!("kernel {} has faulted, and its fence is signalled as if it had ended", kernel.name);
                self.broke("FLT-03", problem);
            }
        }
    }
}
