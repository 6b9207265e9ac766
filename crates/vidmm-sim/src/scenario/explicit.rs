//! An explicit scenario: calls one by one, on a machine that the file describes in full.

use vidmm_runtime::AllocationSegments;

use super::adapter::AdapterSettings;
use super::cost::CostSettings;
use super::fault::{Fault, FaultKind, When};
use super::judged_by::JudgedBy;
use super::steps::{Action, Answer, Call, Step, check_steps, drop_orphans};
use vidmm_trace::{ByteSize, LocalMemory};

/// The local memory of a scenario of steps without that key.
pub(super) const DEFAULT_LOCAL_MEMORY: LocalMemory = LocalMemory::Bytes(ByteSize::mib(256));

/// A question about the manager, as calls with the answers that are expected.
#[derive(Clone, Debug, PartialEq)]
pub struct ExplicitScenario {
    /// The name in reports; by default the file's name without the extension.
    pub name: String,
    /// The seed that the scenario is written for: another one makes the machine otherwise fast.
    pub seed: u64,
    /// A mistake to be made at one occasion: the n-th, where n is the seed.
    pub fault_at_seed: Option<FaultKind>,
    /// The judge of the run.
    pub judged_by: JudgedBy,
    /// Whether work that uses what its device has evicted or offered is a finding, although the content is still there
    /// (RES-20, U-35).
    pub strict: bool,
    /// The words that its findings must contain, if it is there to show how a mistake is found.
    pub shows: Option<String>,
    /// The machine.
    pub adapter: AdapterSettings,
    /// How fast the machine is.
    pub cost: CostSettings,
    /// The errors to be made on purpose, each name once.
    pub faults: Vec<Fault>,
    /// Bytes of local memory; 0 is none.
    pub local_memory_bytes: u64,
    /// Bytes of the aperture segment.
    pub aperture_bytes: u64,
    /// The most bytes of system memory that may be resident; none is the size of the aperture.
    pub aperture_commit_limit_bytes: Option<u64>,
    /// The calls, in order.
    pub steps: Vec<Step>,
}

impl ExplicitScenario {
    /// The segments of allocations whose steps name none: local memory, if there is any.
    pub(crate) fn default_segments(&self) -> AllocationSegments {
        if self.local_memory_bytes > 0 { AllocationSegments::Local } else { AllocationSegments::System }
    }

    /// Sets another seed, which draws all that the steps leave open. With its own seed the scenario is as it is
    /// written.
    pub fn set_seed(&mut self, seed: u64) {
        if seed != self.seed {
            (self.seed, self.cost) = (seed, self.cost.drawn(seed));
            for step in &mut self.steps {
                if let Action::Call(Call::KillProcess(kill)) = &mut step.action
                    && kill.after_up_to > 0
                {
                    kill.after = 1 + (seed % u64::from(kill.after_up_to)) as u32;
                }
            }
        }
    }

    /// The errors to be made on purpose, with the one that the seed picks.
    pub fn all_faults(&self) -> Vec<Fault> {
        let at_seed = self.fault_at_seed.map(|kind| Fault { kind, when: When::Nth(self.seed.max(1)) });
        self.faults.iter().copied().chain(at_seed).collect()
    }

    /// Checks that the steps name objects that exist, as is done when a file is read.
    ///
    /// # Errors
    ///
    /// Returns the index in [`steps`](Self::steps) of the first step that does not, counted from 0, and the problem
    /// with it.
    pub fn check(&self) -> Result<(), (usize, String)> {
        check_steps(&self.steps, self.adapter.is_physical())
    }

    /// Drops the names of objects that no step has created from lists, and the steps that make no sense without them.
    pub fn drop_orphans(&mut self) {
        drop_orphans(&mut self.steps, self.adapter.is_physical());
    }

    /// The time that the longest kernel takes that ends by itself, in nanoseconds.
    pub fn longest_kernel(&self) -> u64 {
        let length = |step: &Step| match &step.action {
            Action::Call(Call::Kernel(kernel)) if !kernel.hangs => kernel.nanoseconds,
            Action::Call(Call::Render(render)) => render.nanoseconds,
            _ => 0,
        };
        self.steps.iter().map(length).max().unwrap_or(0)
    }

    /// Whether the steps expect the effects of faults.
    pub fn tells_of_faults(&self) -> bool {
        let tells = |step: &Step| match &step.action {
            Action::Call(_) => matches!(step.expect, Some(Answer::Kmd | Answer::Allocation)),
            Action::Look(look) => look.tells_of_faults(),
        };
        self.steps.iter().any(tells)
    }
}
