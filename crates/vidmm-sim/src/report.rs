//! The report of a run, and its comparison with another run.

use serde::Serialize;

use crate::{
    accounts::ProcessFigures,
    figures::Figures,
    finding::Finding,
    held_up::HeldUp,
    illegal_uses::UseFinding,
    play::{CheckReport, Row},
    scenario::{Check, Script},
    timeline::Shares,
    turns::TurnWait,
};

/// The figures of a run.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Report {
    /// Bytes that are alive at one time at most, in pages of the memory segment.
    pub footprint_bytes: u64,
    /// Bytes of local memory; 0 is none.
    pub local_memory_bytes: u64,
    /// The most bytes that may be resident in system memory; none if the buffers are in local memory only.
    pub system_memory_bytes: Option<u64>,
    /// Buffers of the workload.
    pub buffers: u64,
    /// Kernels of the workload, without uploads.
    pub kernels: u64,
    /// Kernels that load content which no kernel computes.
    pub uploads: u64,
    /// Kernels that ended, uploads too.
    pub kernels_ended: u64,
    /// Pages that kernels read and the oracle judged.
    pub pages_checked: u64,
    /// Pages that were wrong.
    pub pages_wrong: u64,
    /// Pages of evicted buffers that the oracle judged as the CPU sees them.
    pub system_pages_checked: u64,
    /// Of those, pages that were wrong.
    pub system_pages_wrong: u64,
    /// The manager's work.
    #[serde(flatten)]
    pub figures: Figures,
    /// The shares of the virtual time.
    #[serde(flatten)]
    pub time: Shares,
    /// The figures of each process, if there are several.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub processes: Vec<ProcessFigures>,
    /// The table over time, if the script has one.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub rows: Vec<Row>,
    /// The results of the script's checks.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub checks: Vec<CheckReport>,
    /// The reports about devices in error and resets, in their order: the first hundred.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub faults: Vec<String>,
    /// The number of further reports.
    pub more_faults: u64,
    /// Devices that waited for a second behind others that kept their memory.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub held_up: Vec<HeldUp>,
    /// The devices that waited for their turn for longer than a second, by the names of their processes.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub turn_waits: Vec<TurnWait>,
    /// The findings of strict mode.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub illegal_uses: Vec<UseFinding>,
    /// The findings.
    pub findings: Vec<Finding>,
}

impl Report {
    /// Whether all checks held, beside the findings of strict mode.
    pub fn all_held(&self) -> bool {
        self.findings.is_empty() && self.checks.iter().all(|check| check.held)
    }

    /// The results of those checks of `script` that compare the run with another one.
    pub fn judge_against(&self, other: &Self, script: &Script) -> Vec<CheckReport> {
        let copied = |report: &Self| report.figures.bytes_paged_in + report.figures.bytes_paged_out;
        let judged = script.checks.iter().filter_map(|check| match *check {
            Check::Copied { at_most } => {
                let ratio = copied(self) as f64 / copied(other).max(1) as f64;
                let text = format!(
                    "{ratio:.3} times the bytes of the other run were copied in and out, at most {at_most} is allowed"
                );
                Some(CheckReport { text, held: ratio <= at_most })
            }
            Check::KeepsUp { at_least } => Some(self.keeps_up(other, at_least)),
            _ => None,
        });
        judged.collect()
    }

    /// Whether the processes without a mistake got as far as in another run.
    fn keeps_up(&self, other: &Self, at_least: f64) -> CheckReport {
        let shares = self.processes.iter().zip(&other.processes).filter(|(process, _)| !process.misbehaves);
        let shares = shares
            .map(|(here, there)| (100.0 * here.kernels_ended as f64 / there.kernels_ended.max(1) as f64, &*here.name));
        let (least, who) = shares.min_by(|one, two| one.0.total_cmp(&two.0)).unwrap_or((0.0, "nobody"));
        let text = format!(
            "{who} ended {least:.1} % of the kernels of the other run, and no well-behaved process less; at least {at_least} % are wanted"
        );
        CheckReport { text, held: least >= at_least }
    }
}
