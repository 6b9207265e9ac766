//! The first line of a log.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// The version of the schema that this crate writes, and the only one that it reads.
pub const EVENTS_VERSION: u64 = 8;

/// The first line of a log: the run that it is of.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct LogHeader {
    /// The version of the schema. It marks the line as the header of a log, so it is written first.
    #[serde(rename = "vidmm_events")]
    pub version: u64,
    /// The version of vidmm that wrote the log.
    pub vidmm_version: String,
    /// The seed of the run.
    pub seed: u64,
    /// The name of the scenario or the workload.
    pub scenario: String,
    /// All other settings that are needed to repeat the run.
    #[serde(default)]
    pub settings: BTreeMap<String, String>,
}

impl LogHeader {
    /// The header of a log that this version of vidmm writes, without settings.
    pub fn new(scenario: impl Into<String>, seed: u64) -> Self {
        Self {
            version: EVENTS_VERSION,
            vidmm_version: env!("CARGO_PKG_VERSION").to_owned(),
            seed,
            scenario: scenario.into(),
            settings: BTreeMap::new(),
        }
    }
}
