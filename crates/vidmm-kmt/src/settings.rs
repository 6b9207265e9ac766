//! The settings of a session.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// The environment variable with the settings as JSON, which `vidmm exec` gives to the program.
pub const SETTINGS_VARIABLE: &str = "VIDMM_KMT";

/// The settings of a session.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Settings {
    /// Local memory in bytes, a multiple of 64 KiB.
    pub local_memory: u64,
    /// The dice of faults are of this seed.
    pub seed: u64,
    /// The time that submitted commands take, in nanoseconds.
    pub work: u64,
    /// Whether the driver was told that there is no hardware. Such a driver takes work for done at the submission.
    pub null_hardware: bool,
    /// The local memory that another process of the manager keeps in use, in bytes; 0 is none.
    pub neighbour: u64,
    /// N refuses one of N calls of MakeResident without CANT_TRIM_FURTHER, by the seed; 0 refuses none.
    pub refuse: u64,
    /// N refuses one of N calls of MakeResident with CANT_TRIM_FURTHER; 0 refuses none.
    pub refuse_final: u64,
    /// The render engine hangs in the packet of this number, from 1; 0 is none. The device is in error then (FLT-20).
    pub hang: u64,
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

impl Default for Settings {
    fn default() -> Self {
        Self {
            local_memory: 8 << 30,
            seed: 0,
            work: 200_000,
            null_hardware: false,
            neighbour: 0,
            refuse: 0,
            refuse_final: 0,
            hang: 0,
            budget: None,
            device_id: 0x56A0,
            library: PathBuf::new(),
            driver_store: PathBuf::new(),
            calls: None,
            events: false,
        }
    }
}
