//! Reports of the shim, the border and the model's memory, outside of the manager's own rules.

use std::sync::{Mutex, PoisonError};

/// A mistake of a driver or of its GPU's model that no rule of the manager sees.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Report {
    /// The name of the check: a fact's number, or a name of ours such as `SHIM-POOL-FREE`.
    pub rule: String,
    /// The deed.
    pub message: String,
    /// The weight of the report.
    pub kind: ReportKind,
}

/// The weight of a report.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ReportKind {
    /// A mistake.
    Mistake,
    /// A mistake from which further findings of the same check follow: the findings are about victims.
    Spoils,
    /// The documents are silent: the reading of the driver's answer is said, and is no mistake.
    Remark,
}

/// More of them tell a reader nothing.
const REPORTS_MAX: usize = 100;

static REPORTS: Mutex<Vec<Report>> = Mutex::new(Vec::new());

/// Adds a report, unless the same one waits already.
pub(crate) fn report(rule: &str, message: impl Into<String>) {
    add(rule, message.into(), ReportKind::Mistake);
}

/// Adds a report of a mistake from which further findings of the check follow.
pub(crate) fn report_stray(rule: &str, message: impl Into<String>) {
    add(rule, message.into(), ReportKind::Spoils);
}

/// Adds a remark.
pub(crate) fn remark(rule: &str, message: impl Into<String>) {
    add(rule, message.into(), ReportKind::Remark);
}

fn add(rule: &str, message: String, kind: ReportKind) {
    let report = Report { rule: rule.to_owned(), message, kind };
    let mut reports = REPORTS.lock().unwrap_or_else(PoisonError::into_inner);
    if reports.len() < REPORTS_MAX && !reports.contains(&report) {
        reports.push(report);
    }
}

/// Takes the reports of this process since the last call, oldest first.
pub fn take_reports() -> Vec<Report> {
    std::mem::take(&mut *REPORTS.lock().unwrap_or_else(PoisonError::into_inner))
}

/// The call that took the most stack.
static DEEPEST: Mutex<Option<(u64, String)>> = Mutex::new(None);

/// Notes how many bytes of stack a call took.
pub(crate) fn note_deepest(call: &str, bytes: u64) {
    let mut deepest = DEEPEST.lock().unwrap_or_else(PoisonError::into_inner);
    if deepest.as_ref().is_none_or(|&(most, _)| most < bytes) {
        *deepest = Some((bytes, call.to_owned()));
    }
}

/// Takes the call of this process that took the most stack since the last one was taken, and the bytes; none if none was measured.
pub fn take_deepest() -> Option<(u64, String)> {
    DEEPEST.lock().unwrap_or_else(PoisonError::into_inner).take()
}
