//! Faults that steps expect: devices in error, resets, findings about the driver.

use vidmm::DeviceErrorReason;

use super::session::Session;
use crate::scenario::steps::{
    Action, CheckAdapterError, CheckError, CheckFinding, CheckResets, ErrorReason, Look, Resets, See, Step, Undone,
};

impl Session<'_> {
    /// A step is about to be made: what is in error by now must be expected, unless the step says so itself.
    pub fn before_step(&mut self, step: &Step) {
        let tells = match &step.action {
            Action::Call(_) => false,
            Action::Look(look) => matches!(look, Look::Wait(_)) || look.tells_of_faults(),
        };
        if !tells {
            self.find_unexpected_errors();
        }
    }

    /// An object that is in error, and was not expected to be, is a finding. Where the rules judge, an adapter in error is a
    /// finding; the audit of the log judges devices (I12).
    pub fn find_unexpected_errors(&mut self) {
        let is_by_rules = self.rules.is_some();
        // Devices that are being destroyed may be in error for their last work.
        let judges_devices = !is_by_rules && !self.closing;
        let mut problems = std::mem::take(&mut self.paging_faults);
        let adapter = self.adapter_error.iter_mut().filter(|error| !error.is_expected);
        problems.extend(adapter.map(|error| {
            error.is_expected = true;
            error.why.clone()
        }));
        let names = &self.narrator.names;
        let devices = self.errors.iter_mut().filter(|(_, error)| judges_devices && !error.is_expected);
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
}

impl See<Session<'_>> for CheckError {
    fn see(&self, session: &mut Session<'_>) -> Result<(), Undone> {
        if matches!(self.reason, ErrorReason::AdapterReset | ErrorReason::PagingBufferFault) {
            session.paging_faults.clear();
        }
        for name in &self.devices {
            let device = session.objects.device(name)?.device;
            let problem = match session.errors.get_mut(&device) {
                None => match &session.adapter_error {
                    Some(error) => format!("{name} itself is not in error; the adapter is: {}", error.why),
                    None => format!("{name} is not in error"),
                },
                Some(error) => {
                    error.is_expected = true;
                    let reason = ErrorReason::from(&error.why);
                    if reason == self.reason {
                        session.narrator.checked(format!("{name} is in error: {}", error.why));
                        continue;
                    }
                    format!("{name} is in error for `{reason}`: {}", error.why)
                }
            };
            session.found(format!("{problem}, but `{}` was expected", self.reason));
        }
        Ok(())
    }
}

impl See<Session<'_>> for CheckAdapterError {
    fn see(&self, session: &mut Session<'_>) -> Result<(), Undone> {
        for error in session.errors.values_mut() {
            error.is_expected |= error.why == DeviceErrorReason::AdapterInError;
        }
        let problem = match &mut session.adapter_error {
            None => "the adapter is not in error".to_owned(),
            Some(error) => {
                error.is_expected = true;
                if error.why.contains(&self.words) {
                    session.narrator.checked(format!("the adapter is in error: {}", error.why));
                    return Ok(());
                }
                format!("the adapter is in error: {}", error.why)
            }
        };
        session.found(format!("{problem}; `{}` was expected", self.words));
        Ok(())
    }
}

impl See<Session<'_>> for CheckResets {
    fn see(&self, session: &mut Session<'_>) -> Result<(), Undone> {
        let statistics = session.runtime.statistics();
        let found = Resets { engines: statistics.engine_resets, adapter: statistics.adapter_resets };
        if found != self.resets {
            let Resets { engines, adapter } = found;
            session.found(format!("engines were reset {engines} times, and the adapter {adapter} times"));
        }
        Ok(())
    }
}

impl See<Session<'_>> for CheckFinding {
    fn see(&self, session: &mut Session<'_>) -> Result<(), Undone> {
        if !session.driver_findings.iter().any(|finding| finding.contains(&self.words)) {
            session.found(format!("the driver's author was told nothing of `{}`", self.words));
        }
        Ok(())
    }
}
