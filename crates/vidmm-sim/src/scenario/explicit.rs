//! An explicit scenario: calls one by one, on a machine of which everything is said.

use super::adapter::AdapterSettings;
use super::cost::CostSettings;
use super::fault::Fault;
use super::steps::{Action, Look, Step};

/// A question about the manager, as calls with the answers that are expected.
#[derive(Clone, Debug)]
pub struct ExplicitScenario {
    /// What reports call it; by default its file's name without the extension.
    pub name: String,
    /// Which transfer a fault hits follows from it.
    pub seed: u64,
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
    /// Whether its steps say what faults on purpose must bring about.
    pub fn tells_of_faults(&self) -> bool {
        let looks = |step: &Step| {
            matches!(
                step.action,
                Action::Look(Look::DeviceError(_) | Look::AdapterError(_) | Look::Resets(_) | Look::Finding(_))
            )
        };
        self.steps.iter().any(looks)
    }
}
