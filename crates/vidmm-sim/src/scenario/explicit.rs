//! An explicit scenario: calls one by one, on a machine of which everything is said.

use vidmm_runtime::AllocationSegments;

use super::adapter::AdapterSettings;
use super::cost::CostSettings;
use super::fault::{Fault, FaultKind, When};
use super::judged_by::JudgedBy;
use super::steps::{Action, Answer, Call, Step, check_steps, drop_orphans};
use vidmm_trace::{ByteSize, LocalMemory};

/// The local memory of a scenario of steps that does not say.
pub(super) const DEFAULT_LOCAL_MEMORY: LocalMemory = LocalMemory::Bytes(ByteSize::mib(256));

/// A question about the manager, as calls with the answers that are expected.
#[derive(Clone, Debug, PartialEq)]
pub struct ExplicitScenario {
    /// What reports call it; by default its file's name without the extension.
    pub name: String,
    /// Its own: with another one the machine is otherwise fast.
    pub seed: u64,
    /// A mistake to be made at one occasion: the n-th, where n is the seed.
    pub fault_at_seed: Option<FaultKind>,
    /// What it is judged by.
    pub judged_by: JudgedBy,
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
    /// Where allocations may be of which the steps say nothing: in local memory, if there is any.
    pub(crate) fn default_segments(&self) -> AllocationSegments {
        if self.local_memory_bytes > 0 { AllocationSegments::Local } else { AllocationSegments::System }
    }

    /// Runs it with another seed: what the steps leave open is drawn from it. With its own it is as it is written.
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

    /// Checks that its steps name what there is, as is done when a file is read.
    ///
    /// # Errors
    ///
    /// Returns where in [`steps`](Self::steps) the first step is that does not, counted from 0, and what is wrong with it.
    pub fn check(&self) -> Result<(), (usize, String)> {
        check_steps(&self.steps, self.adapter.is_physical())
    }

    /// Drops the names in lists of what steps have not created, and the steps that make no sense without them.
    pub fn drop_orphans(&mut self) {
        drop_orphans(&mut self.steps, self.adapter.is_physical());
    }

    /// Whether its steps say what faults on purpose must bring about.
    pub fn tells_of_faults(&self) -> bool {
        let tells = |step: &Step| match &step.action {
            Action::Call(_) => matches!(step.expect, Some(Answer::Kmd | Answer::Allocation)),
            Action::Look(look) => look.tells_of_faults(),
        };
        self.steps.iter().any(tells)
    }
}
