//! What is told of faults and resets in a run.

use vidmm::{NumberedEvent, ProcessId};
use vidmm_trace::FaultReporter;

/// The most reports that are kept.
const MOST: usize = 100;

/// The first reports of a run, as its events come; how many more there were.
#[derive(Debug, Default)]
pub(crate) struct FaultTales {
    reporter: FaultReporter,
    pub told: Vec<String>,
    pub more: u64,
}

impl FaultTales {
    /// What reports call a process from now on.
    pub fn name_process(&mut self, process: ProcessId, name: &str) {
        self.reporter.name_process(process, name);
    }

    /// Looks at the next event.
    pub fn see(&mut self, event: &NumberedEvent) {
        self.reporter.see(event);
        for report in self.reporter.take_reports() {
            match self.told.len() < MOST {
                true => self.told.push(report),
                false => self.more += 1,
            }
        }
    }
}
