//! The reports about faults and resets in a run.

use vidmm::{NumberedEvent, ProcessId};
use vidmm_trace::FaultReporter;

/// The number of reports that are kept.
const MOST: usize = 100;

/// The first reports of a run, in the order of its events, and how many more there were.
#[derive(Debug, Default)]
pub(crate) struct FaultTales {
    reporter: FaultReporter,
    pub told: Vec<String>,
    pub more: u64,
}

impl FaultTales {
    /// Sets the name of a process in the reports that follow.
    pub fn name_process(&mut self, process: ProcessId, name: &str) {
        self.reporter.name_process(process, name);
    }

    /// Reads the next event.
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
