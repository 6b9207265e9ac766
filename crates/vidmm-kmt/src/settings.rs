//! The settings of a session.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::faults::Fault;

/// The environment variable with the settings as JSON, which `vidmm exec` gives to the program.
pub const SETTINGS_VARIABLE: &str = "VIDMM_KMT";

/// The settings of a session.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Settings {
    /// Local memory in bytes, a multiple of 64 KiB.
    pub local_memory: u64,
    /// The seed of the draws of faults.
    pub seed: u64,
    /// The time that submitted commands take, in nanoseconds.
    pub work: u64,
    /// Whether the driver was told that there is no hardware. Such a driver takes work for done at the submission.
    pub null_hardware: bool,
    /// Another user of the manager.
    pub neighbour: Option<Neighbour>,
    /// The faults that the client meets.
    pub faults: Vec<Fault>,
    /// The most local memory of a budget, in bytes. Processes above the limit are asked to trim. None is no limit.
    pub budget: Option<u64>,
    /// The PCI device id that the client sees: 0x56A0 is a part with local memory, 0x9A49 a part without.
    pub device_id: u32,
    /// The path of the library in the place of `libdxcore.so`.
    pub library: PathBuf,
    /// The folder with the client's helper library.
    pub driver_store: PathBuf,
    /// The log of the calls.
    pub calls: Option<PathBuf>,
    /// Whether the session keeps the manager's events.
    #[serde(skip)]
    pub events: bool,
}

/// Another user of the manager, for the whole session.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Neighbour {
    /// A process that has so many bytes of local memory on its list.
    Size(u64),
    /// The processes of a scenario.
    Scenario {
        /// The name of the file.
        name: String,
        /// The text of the file, so that the log of the calls needs no other file.
        text: String,
    },
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            local_memory: 8 << 30,
            seed: 0,
            work: 200_000,
            null_hardware: false,
            neighbour: None,
            faults: Vec::new(),
            budget: None,
            device_id: 0x56A0,
            library: PathBuf::new(),
            driver_store: PathBuf::new(),
            calls: None,
            events: false,
        }
    }
}
