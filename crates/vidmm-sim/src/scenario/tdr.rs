//! How long things may take before they count as hung, and which engines are reset together.

use serde::{Deserialize, Serialize};
use vidmm::TdrOptions;
use vidmm::contract::EngineKind;

use super::duration::Duration;
use super::number::within;

/// The time limits of 6.4: the table `[adapter.tdr]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default, rename_all = "kebab-case", expecting = "a table")]
pub struct TdrSettings {
    /// A packet that has run for so long is asked to yield its engine.
    pub quantum: Duration,
    /// How long an engine may take to answer that.
    pub delay: Duration,
    /// How long the driver may take for a reset.
    pub ddi_delay: Duration,
    /// How long engines that depend on one which is to be reset may take to yield.
    pub dependent_delay: Duration,
    /// How long a reset is remembered.
    pub limit_time: Duration,
    /// How many resets of the adapter may be remembered.
    #[serde(deserialize_with = "within::<_, _, 1, 1_000_000>")]
    pub limit_count: u32,
}

impl Default for TdrSettings {
    /// As the manager has them.
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

/// An engine, by what it does.
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
