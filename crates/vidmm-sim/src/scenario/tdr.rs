//! The times after which packets count as hung, and the engines that are reset together.

use serde::{Deserialize, Serialize};
use vidmm::TdrOptions;
use vidmm::contract::EngineKind;

use super::duration::Duration;
use super::number::within;

/// The time limits of 6.4: the table `[adapter.tdr]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default, rename_all = "kebab-case", expecting = "a table")]
pub struct TdrSettings {
    /// The run time after which a packet is asked to yield its engine.
    pub quantum: Duration,
    /// The time that an engine may take to answer that request.
    pub delay: Duration,
    /// The time that the driver may take for a reset.
    pub ddi_delay: Duration,
    /// The time that engines which depend on one to be reset may take to yield.
    pub dependent_delay: Duration,
    /// The time for which a reset is remembered.
    pub limit_time: Duration,
    /// The number of resets of the adapter that may be remembered.
    #[serde(deserialize_with = "within::<_, _, 1, 1_000_000>")]
    pub limit_count: u32,
}

impl Default for TdrSettings {
    /// The limits in the manager's type.
    fn default() -> Self {
        let TdrOptions { quantum, delay, ddi_delay, dependent_delay, limit_time, limit_count } = TdrOptions::default();
        let [quantum, delay, ddi_delay, dependent_delay, limit_time] =
            [quantum, delay, ddi_delay, dependent_delay, limit_time].map(|ns| Duration { ns });
        Self { quantum, delay, ddi_delay, dependent_delay, limit_time, limit_count }
    }
}

impl From<TdrSettings> for TdrOptions {
    fn from(settings: TdrSettings) -> Self {
        let TdrSettings { quantum, delay, ddi_delay, dependent_delay, limit_time, limit_count } = settings;
        let [quantum, delay, ddi_delay, dependent_delay, limit_time] =
            [quantum, delay, ddi_delay, dependent_delay, limit_time].map(|duration| duration.ns);
        Self { quantum, delay, ddi_delay, dependent_delay, limit_time, limit_count }
    }
}

/// An engine, by its work.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum EngineName {
    /// It runs paging buffers.
    Paging,
    /// It runs shaders.
    Render,
    /// It copies.
    Copy,
}

impl From<EngineName> for EngineKind {
    fn from(name: EngineName) -> Self {
        match name {
            EngineName::Paging => Self::Paging,
            EngineName::Render => Self::Render3d,
            EngineName::Copy => Self::Copy,
        }
    }
}
