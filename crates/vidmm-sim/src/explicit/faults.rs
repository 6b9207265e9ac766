//! Faults that steps expect: devices in error, resets, findings about the driver.

use vidmm::DeviceErrorReason;

use super::answered::Absent;
use super::session::Session;
use crate::scenario::steps::{Action, CheckError, CheckResets, ErrorReason, Look, Step};

impl Session<'_> {
    /// A step is about to be made: what is in error by now must be expected, unless the step says so itself.
    pub fn before_step(&mut self, step: &Step) {
        let tells = matches!(
            step.action,
            Action::Look(
                Look::Wait(_) | Look::DeviceError(_) | Look::AdapterError(_) | Look::Resets(_) | Look::Finding(_)
            )
        );
        if !tells {
            self.find_unexpected_errors();
        }
    }

    /// Whatever is in error, and was not expected to be, is a finding. Where the rules judge, the audit of the log does (I12).
    pub fn find_unexpected_errors(&mut self) {
        if self.rules.is_some() {
            return;
        }
        let mut problems = std::mem::take(&mut self.paging_faults);
        let adapter = self.adapter_error.iter_mut().filter(|error| !error.is_expected);
        problems.extend(adapter.map(|error| {
            error.is_expected = true;
            error.why.clone()
        }));
        let names = &self.narrator.names;
        let devices = self.errors.iter_mut().filter(|(_, error)| !error.is_expected);
        let devices: Vec<String> = devices
            .map(|(&device, error)| {
                error.is_expected = true;
                format!("{} is in error: {}", names.device(device), error.why)
            })
            .collect();
        // The rest follows from what is found first.
        let first = problems.into_iter().chain(devices).next();
        if let Some(problem) = first.filter(|_| self.report.findings.is_empty()) {
            self.found(problem);
        }
    }

    pub fn check_error(&mut self, check: &CheckError) -> Result<(), Absent> {
        if matches!(check.reason, ErrorReason::AdapterReset | ErrorReason::PagingBufferFault) {
            self.paging_faults.clear();
        }
        for name in &check.devices {
            let device = self.objects.device(name)?.device;
            let problem = match self.errors.get_mut(&device) {
                None => format!("{name} is not in error"),
                Some(error) => {
                    error.is_expected = true;
                    let reason = ErrorReason::from(error.why);
                    if reason == check.reason {
                        self.narrator.checked(format!("{name} is in error: {}", error.why));
                        continue;
                    }
                    format!("{name} is in error for `{reason}`: {}", error.why)
                }
            };
            self.found(format!("{problem}, but `{}` was expected", check.reason));
        }
        Ok(())
    }

    pub fn check_adapter_error(&mut self, words: &str) {
        for error in self.errors.values_mut() {
            error.is_expected |= error.why == DeviceErrorReason::AdapterInError;
        }
        let problem = match &mut self.adapter_error {
            None => "the adapter is not in error".to_owned(),
            Some(error) => {
                error.is_expected = true;
                if error.why.contains(words) {
                    return self.narrator.checked(format!("the adapter is in error: {}", error.why));
                }
                format!("the adapter is in error: {}", error.why)
            }
        };
        self.found(format!("{problem}; `{words}` was expected"));
    }

    pub fn check_resets(&mut self, expected: CheckResets) {
        let statistics = self.runtime.statistics();
        let found = CheckResets { engines: statistics.engine_resets, adapter: statistics.adapter_resets };
        if found != expected {
            let CheckResets { engines, adapter } = found;
            self.found(format!("engines were reset {engines} times, and the adapter {adapter} times"));
        }
    }

    pub fn check_finding(&mut self, words: &str) {
        if !self.driver_findings.iter().any(|finding| finding.contains(words)) {
            self.found(format!("the driver's author was told nothing of `{words}`"));
        }
    }
}
