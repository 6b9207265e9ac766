//! Errors and findings, in sentences.

use vidmm::{AllocationId, Event, NumberedEvent};
use vidmm_trace::explain::words::refusal;
use vidmm_trace::{ByteSize, FaultReporter};

use super::record::{Finding, Record, Severity};

/// Tells of faults in paragraphs, as runs do, and of all else that a reader should know first.
#[derive(Debug, Default)]
pub(super) struct Findings {
    reporter: FaultReporter,
}

impl Findings {
    pub fn learn(&mut self, event: &NumberedEvent, out: &mut Vec<Record>) {
        let NumberedEvent { number, at, .. } = *event;
        self.reporter.see(event);
        for text in self.reporter.take_reports() {
            out.push(Record::Finding(Finding { number, at, severity: Severity::Error, allocation: None, text }));
        }
        if let Some((severity, allocation, text)) = of_event(&event.event) {
            out.push(Record::Finding(Finding { number, at, severity, allocation, text }));
        }
    }
}

/// The finding that one event is by itself.
fn of_event(event: &Event) -> Option<(Severity, Option<AllocationId>, String)> {
    Some(match *event {
        Event::Finding { kernel, allocation, page, expected, found } => {
            let digests = format!("its digest was {found:#018x} instead of {expected:#018x}");
            (
                Severity::Error,
                Some(allocation),
                format!("Kernel {kernel} read a wrong page {page} of {allocation}: {digests}."),
            )
        }
        Event::ContentLost { allocation, is_kept } => {
            let how = if is_kept { "and its bytes in system memory are kept" } else { "and reads as zero" };
            (Severity::Warning, Some(allocation), format!("The content of {allocation} was lost with a reset, {how}."))
        }
        Event::MakeResidentRefused { device, ref allocations, num_bytes_to_trim, reason, .. } => {
            let text = format!(
                "MakeResident of {} allocations by {device} was refused, {} to trim: {}.",
                allocations.len(),
                ByteSize(num_bytes_to_trim),
                refusal(reason)
            );
            (Severity::Warning, allocations.first().copied(), text)
        }
        Event::DriverFinding { ref finding } => {
            let severity = if finding.is_advice() { Severity::Note } else { Severity::Error };
            (severity, None, format!("For the driver's author: {finding}."))
        }
        _ => return None,
    })
}
