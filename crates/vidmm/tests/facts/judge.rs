//! The auditor of event logs, for every world of these tests: whatever a test looks at, its events hold together.

use vidmm::{Event, NumberedEvent, VidMm};
use vidmm_trace::{Audit, Invariant};

#[derive(Debug, Default)]
pub struct Judge {
    audit: Audit,
    /// The rules that a driver breaks on purpose.
    expected: Vec<Invariant>,
}

impl Judge {
    /// The driver breaks this rule on purpose.
    pub fn expect(&mut self, invariant: Invariant) {
        self.expected.push(invariant);
    }

    /// The events since the last call; a finding that nobody expects is a panic.
    pub fn drain(&mut self, vidmm: &mut VidMm) -> Vec<Event> {
        let events: Vec<Event> =
            vidmm.events().drain().inspect(|event| self.audit.event(event)).map(|numbered| numbered.event).collect();
        let is_expected = |invariant| self.expected.contains(&invariant);
        if let Some(finding) = self.audit.findings().iter().find(|finding| !is_expected(finding.invariant)) {
            panic!("{finding}");
        }
        events
    }
}

/// The rules that the auditor finds broken in a log of these events.
pub fn found(events: &[Event]) -> Vec<Invariant> {
    let mut audit = Audit::new();
    for (number, event) in (1..).zip(events) {
        audit.event(&NumberedEvent { number, at: 0, occurred_at: None, event: event.clone() });
    }
    let mut found: Vec<Invariant> = audit.finish().iter().map(|finding| finding.invariant).collect();
    found.dedup();
    found
}
