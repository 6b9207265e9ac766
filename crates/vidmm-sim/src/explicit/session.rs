//! A scenario under way: the machine, what steps have created, and what was found.

use vidmm::contract::EngineKind;
use vidmm::{CheckError, Event, MonitoredFenceId};
use vidmm_runtime::{Happening, Runtime};

use super::ledger::{Comparison, Difference, Ledger};
use super::objects::{KernelState, Objects};
use super::report::{ExplicitReport, StepFinding};
use crate::run::Observer;
use crate::sequence::Narrator;

/// A scenario under way.
pub(super) struct Session<'a> {
    pub runtime: Runtime,
    pub objects: Objects,
    pub ledger: Ledger,
    pub narrator: Narrator,
    pub report: ExplicitReport,
    /// The ordinals of the engines that run kernels, as [`KernelEngine`](crate::KernelEngine) numbers them.
    pub engines: [u32; 2],
    /// The line and the words of the step that is being made.
    pub step: (usize, String),
    /// All is being destroyed, and nobody watches.
    pub closing: bool,
    observer: &'a mut dyn Observer,
}

impl<'a> Session<'a> {
    /// Begins on a machine that was just started; none if it has no engine of a kind that kernels need.
    pub fn new(mut runtime: Runtime, steps: usize, observer: &'a mut dyn Observer) -> Option<Self> {
        let kinds = runtime.vidmm().engines().to_vec();
        let ordinal = |kind| kinds.iter().position(|&engine| engine == kind).map(|at| at as u32);
        let engines = [ordinal(EngineKind::Render3d)?, ordinal(EngineKind::Copy)?];
        Some(Self {
            runtime,
            objects: Objects::default(),
            ledger: Ledger::default(),
            narrator: Narrator::default(),
            report: ExplicitReport { steps: steps as u64, ..ExplicitReport::default() },
            engines,
            step: (0, String::new()),
            closing: false,
            observer,
        })
    }

    /// Records that something did not hold.
    pub fn found(&mut self, problem: impl Into<String>) {
        let event = self.runtime.vidmm().events().number();
        let (line, step) = self.step.clone();
        self.report.findings.push(StepFinding { line, step, problem: problem.into(), event });
    }

    /// Records what a comparison of pages found. `who` says who saw them, as in "the CPU sees"; `of` says of what.
    pub fn compared(&mut self, comparison: &Comparison, who: &str, of: &str) {
        let Comparison { pages, wrong, first } = comparison;
        self.report.pages_wrong += wrong;
        let noun = if *pages == 1 { "page" } else { "pages" };
        self.narrator.checked(format!("{who} {pages} {noun}{of}, {wrong} wrong"));
        if let Some(Difference { allocation, page, expected, found }) = first {
            let found = found.map_or_else(|| "is missing".to_owned(), |found| format!("has digest {found:#018x}"));
            self.found(format!(
                "{who} a wrong page: page {page} of {allocation} {found}, but must have {expected:#018x}; {wrong} wrong pages in all"
            ));
        }
    }

    /// Hands out what the manager has decided, and takes note of all that it says.
    pub fn settle(&mut self) {
        self.runtime.pump();
        self.take_note();
    }

    /// Lets time pass until something happens; `false` if nothing is to come.
    pub fn advance(&mut self) -> bool {
        self.settle();
        let advanced = self.runtime.advance(None);
        self.take_note();
        advanced
    }

    /// Lets time pass until everything has ended; `false` if something never does.
    pub fn run_until_idle(&mut self) -> bool {
        self.settle();
        while !self.runtime.vidmm().is_idle() {
            if !self.advance() {
                return self.runtime.vidmm().is_idle();
            }
        }
        true
    }

    /// Lets time pass until a kernel has ended; `false` if it never does.
    pub fn run_until_ended(&mut self, kernel: usize) -> bool {
        self.settle();
        while !self.objects.kernels[kernel].ended {
            if !self.advance() {
                return self.objects.kernels[kernel].ended;
            }
        }
        true
    }

    /// Checks the manager's books.
    pub fn audit(&mut self) {
        if let Err(CheckError { broken }) = self.runtime.vidmm().check() {
            self.found(format!("the manager's books do not hold together: {}", broken.join("; ")));
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

    fn take_note(&mut self) {
        // What happened may name what only the events before it introduce.
        self.hand_on_events();
        while let Some(happening) = self.runtime.next_happening() {
            self.happened(happening);
        }
        self.hand_on_events();
    }

    fn hand_on_events(&mut self) {
        for event in self.runtime.drain_events().collect::<Vec<_>>() {
            self.narrator.event(&event.event);
            self.observer.event(&event);
        }
    }

    fn happened(&mut self, happening: Happening) {
        match happening {
            Happening::KernelRead { kernel, inputs } => self.judge(kernel as usize - 1, &inputs),
            Happening::MonitoredFenceSignaled { fence, value } => self.fence_signaled(fence, value),
            Happening::PageFault { signal, virtual_address, write } => {
                let name = self.narrator.names.kernel_of(signal);
                let kernel = self.objects.kernels.iter_mut().find(|kernel| Some(&kernel.name) == name.as_ref());
                let is_expected = kernel.is_some_and(|kernel| {
                    kernel.faulted = true;
                    kernel.fault_is_expected
                });
                if !is_expected {
                    let access = if write { "wrote to" } else { "read" };
                    let who = name.map_or_else(|| "a paging buffer".to_owned(), |name| format!("kernel {name}"));
                    self.found(format!("{who} {access} {virtual_address}, where nothing is resident"));
                }
            }
            Happening::AdapterInError(violation) => self.found(violation.to_string()),
            Happening::DeviceInError(error) => {
                let mut kernels = self.objects.kernels.iter();
                let is_expected = kernels.any(|kernel| kernel.device == error.device && kernel.fault_is_expected);
                if !is_expected && self.report.findings.is_empty() {
                    self.found(error.to_string());
                }
            }
            Happening::PacketEnded { .. }
            | Happening::PagingFenceSignaled { .. }
            | Happening::TrimNotification { .. }
            | Happening::BudgetChanged { .. }
            | Happening::AllocationReclaimed { .. }
            | Happening::PoweredDown => {}
        }
    }

    fn judge(&mut self, kernel: usize, inputs: &[Vec<u64>]) {
        let KernelState { name, work, .. } = &self.objects.kernels[kernel];
        let (comparison, name) = (self.ledger.run(work, inputs), name.clone());
        self.report.kernels_judged += 1;
        self.report.pages_checked += comparison.pages;
        let (pages, wrong) = (comparison.pages, comparison.wrong);
        self.runtime.vidmm().events().record(|| Event::ContentChecked { kernel: kernel as u64 + 1, pages, wrong });
        if pages > 0 {
            self.compared(&comparison, &format!("kernel {name} read"), "");
        }
    }

    fn fence_signaled(&mut self, fence: MonitoredFenceId, value: u64) {
        let ended: Vec<usize> = (0..self.objects.kernels.len())
            .filter(|&kernel| {
                let kernel = &self.objects.kernels[kernel];
                kernel.fence == fence && kernel.value <= value && !kernel.ended
            })
            .collect();
        for kernel in ended {
            let kernel = &mut self.objects.kernels[kernel];
            kernel.ended = true;
            if kernel.fault_is_expected && !kernel.faulted {
                let problem = format!("kernel {} ended, but `page-fault` was expected", kernel.name);
                self.found(problem);
            }
        }
    }
}
