//! The outcome of an explicit scenario.

use std::fmt;

use serde::Serialize;
use vidmm::Nanoseconds;

use crate::figures::Figures;
use crate::held_up::HeldUp;
use crate::illegal_uses::UseFinding;
use crate::sequence::Portions;
use crate::timeline::is_zero;
use crate::turns::TurnWait;

/// Something that did not hold.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct StepFinding {
    /// The line of the step in the file, counted from 1; 0 is the end, when all that is left is destroyed.
    pub line: usize,
    /// The step.
    pub step: String,
    /// The rule that is broken, by its name in the documents; none is what a step expects, or a page that is wrong.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rule: Option<&'static str>,
    /// The findings.
    pub problem: String,
    /// The number of the last event.
    pub event: u64,
}

impl fmt::Display for StepFinding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.line > 0 {
            write!(f, "line {}, ", self.line)?;
        }
        write!(f, "{}: ", self.step)?;
        self.rule.map_or(Ok(()), |rule| write!(f, "{rule}: "))?;
        f.write_str(&self.problem)
    }
}

/// The figures of an explicit scenario.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ExplicitReport {
    /// Steps of the scenario.
    pub steps: u64,
    /// Steps that were done.
    pub steps_done: u64,
    /// Kernels that read what they had to, and were judged.
    pub kernels_judged: u64,
    /// Pages that kernels read.
    pub pages_checked: u64,
    /// Pages of evicted allocations, as the CPU sees them.
    pub system_pages_checked: u64,
    /// Pages of the aperture.
    pub aperture_pages_checked: u64,
    /// Pages of all these that were wrong.
    pub pages_wrong: u64,
    /// Virtual time from the first call to the last completion.
    pub virtual_ns: Nanoseconds,
    /// How much longer kernels took because of their accesses to system memory, in sum.
    #[serde(skip_serializing_if = "is_zero")]
    pub bus_ns: Nanoseconds,
    /// The work of the manager.
    #[serde(flatten)]
    pub figures: Figures,
    /// The portions of DMA buffers; none with GPU virtual addresses.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub portions: Option<Portions>,
    /// Whether the run shows what was done on purpose: an error, a reset, a refusal that was expected, or a finding about the driver.
    #[serde(skip)]
    pub shows_faults: bool,
    /// Devices that waited for a second behind others that kept their memory.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub held_up: Vec<HeldUp>,
    /// The devices that waited for their turn for longer than a second before the end.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub turn_waits: Vec<TurnWait>,
    /// The findings of strict mode.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub illegal_uses: Vec<UseFinding>,
    /// The findings.
    pub findings: Vec<StepFinding>,
}

impl ExplicitReport {
    /// Whether all that was checked held, beside the findings of strict mode.
    pub fn all_held(&self) -> bool {
        self.findings.is_empty()
    }
}
