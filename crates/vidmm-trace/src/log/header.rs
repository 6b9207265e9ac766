//! The first line of a log.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use vidmm::Event;

/// The version of the schema that this crate writes, and the only one that it reads.
pub const EVENTS_VERSION: u64 = 10;

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
    /// The events that the log has.
    pub level: EventsLevel,
    /// All other settings that are needed to repeat the run.
    #[serde(default)]
    pub settings: BTreeMap<String, String>,
}

/// The events that a log has. Their numbers are the same at every level.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EventsLevel {
    /// Decisions and their outcomes, without how they were carried out: without paging operations and the host's maps in the
    /// IOMMU, which are most of a log.
    Decisions,
    /// All.
    #[default]
    Full,
}

impl EventsLevel {
    /// Whether a log of this level has the event.
    pub fn has(self, event: &Event) -> bool {
        let is_step =
            matches!(event, Event::PagingOperation { .. } | Event::IoMmuMapped { .. } | Event::IoMmuUnmapped { .. });
        self == Self::Full || !is_step
    }
}

impl LogHeader {
    /// The header of a log that this version of vidmm writes, without settings.
    pub fn new(scenario: impl Into<String>, seed: u64) -> Self {
        Self {
            version: EVENTS_VERSION,
            vidmm_version: env!("CARGO_PKG_VERSION").to_owned(),
            seed,
            scenario: scenario.into(),
            level: EventsLevel::Full,
            settings: BTreeMap::new(),
        }
    }
}
