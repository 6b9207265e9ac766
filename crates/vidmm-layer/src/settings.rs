//! The settings of the residency mode, as `vidmm exec` hands them over in the environment.

use std::env;
use std::ffi::OsString;
use std::path::PathBuf;

use vidmm::policy::PolicyChoice;

/// The variable with the settings: `KEY=VALUE` of the keys `local`, `heap`, `mode` and `policy`, apart by semicolons. Residency is on if the
/// variable is there.
pub const RESIDENCY_VARIABLE: &str = "VIDMM_LAYER_RESIDENCY";

/// The variable that names the file for events of the manager.
pub const EVENTS_VARIABLE: &str = "VIDMM_LAYER_EVENTS";

/// The variable that names the folder for the figures of each device.
pub const FIGURES_VARIABLE: &str = "VIDMM_LAYER_FIGURES";

/// The place of ranges that are not in local memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Mode {
    /// The range is bound to the home: a use that the layer has missed is right, and slow.
    BindsHome,
    /// The range is bound to nothing: all that a submission can reach must be in local memory.
    BindsNothing,
}

/// The settings of the residency mode.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ResidencySettings {
    /// Bytes of local memory for ranges; none is what the device has.
    pub local: Option<u64>,
    /// Bytes of the heap that the program sees; none depends on the mode.
    pub heap: Option<u64>,
    /// The mode; none is what the device can.
    pub mode: Option<Mode>,
    /// The policy of eviction.
    pub policy: PolicyChoice,
    /// The file for the events of the manager.
    pub events: Option<PathBuf>,
    /// The folder for the figures of each device.
    pub figures: Option<PathBuf>,
}

impl Default for ResidencySettings {
    fn default() -> Self {
        Self { local: None, heap: None, mode: None, policy: PolicyChoice::PREDICT, events: None, figures: None }
    }
}

impl ResidencySettings {
    /// The variables of the environment.
    pub fn variables(&self) -> Vec<(&'static str, OsString)> {
        let size = |key: &str, bytes: Option<u64>| bytes.map(|bytes| format!("{key}={bytes}"));
        let mode = self.mode.map(|mode| if mode == Mode::BindsHome { "mode=a" } else { "mode=b" }.to_owned());
        let items = [size("local", self.local), size("heap", self.heap), mode, Some(format!("policy={}", self.policy))];
        let text = items.into_iter().flatten().collect::<Vec<_>>().join(";");
        let path = |name, path: &Option<PathBuf>| path.as_ref().map(|path| (name, path.clone().into_os_string()));
        let paths = [path(EVENTS_VARIABLE, &self.events), path(FIGURES_VARIABLE, &self.figures)];
        std::iter::once((RESIDENCY_VARIABLE, text.into())).chain(paths.into_iter().flatten()).collect()
    }

    /// The settings of this process, if residency is on.
    ///
    /// # Errors
    ///
    /// If the variable has anything that is not understood.
    pub fn of_process() -> Result<Option<Self>, String> {
        let Some(text) = env::var_os(RESIDENCY_VARIABLE) else { return Ok(None) };
        let mut settings = Self::parse(&text.to_string_lossy())?;
        settings.events = env::var_os(EVENTS_VARIABLE).map(PathBuf::from);
        settings.figures = env::var_os(FIGURES_VARIABLE).map(PathBuf::from);
        Ok(Some(settings))
    }

    fn parse(text: &str) -> Result<Self, String> {
        let mut settings = Self::default();
        for item in text.split(';').filter(|item| !item.is_empty()) {
            let (key, value) = item.split_once('=').unwrap_or((item, ""));
            let wrong = || format!("{RESIDENCY_VARIABLE} has `{item}`, which is not understood");
            match key {
                "local" => settings.local = Some(value.parse().map_err(|_| wrong())?),
                "heap" => settings.heap = Some(value.parse().map_err(|_| wrong())?),
                "policy" => settings.policy = value.parse().map_err(|error| format!("{}: {error}", wrong()))?,
                "mode" if value == "a" => settings.mode = Some(Mode::BindsHome),
                "mode" if value == "b" => settings.mode = Some(Mode::BindsNothing),
                _ => return Err(wrong()),
            }
        }
        Ok(settings)
    }
}

#[cfg(test)]
mod tests {
    use super::{Mode, ResidencySettings};

    #[test]
    fn settings_arrive_as_they_were_and_others_are_refused() {
        let settings = ResidencySettings {
            local: Some(1 << 26),
            heap: Some(1 << 28),
            mode: Some(Mode::BindsNothing),
            policy: "predict:sample=16".parse().unwrap(),
            ..ResidencySettings::default()
        };
        let variables = settings.variables();
        assert_eq!(ResidencySettings::parse(variables[0].1.to_str().unwrap()), Ok(settings));
        assert_eq!(ResidencySettings::parse(""), Ok(ResidencySettings::default()));
        for wrong in ["mode=c", "local=1GiB", "policy=best", "local", "hep=1"] {
            assert!(ResidencySettings::parse(wrong).is_err(), "{wrong}");
        }
    }
}
