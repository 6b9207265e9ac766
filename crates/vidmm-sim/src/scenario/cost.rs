//! The speed of the machine.

use std::ops::RangeInclusive;

use serde::de::{Deserializer, Error as _};
use serde::{Deserialize, Serialize};
use vidmm_trace::SplitMix64;

use super::duration::Duration;

/// The bandwidths that are accepted, in 10^9 bytes a second.
const BANDWIDTHS: RangeInclusive<f64> = 0.001..=1_000_000.0;

/// The speed of the machine.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default, rename_all = "kebab-case", expecting = "a table")]
pub struct CostSettings {
    /// The bandwidth between system and local memory, each way, in 10^9 bytes a second: from 0.001 to 1000000.
    #[serde(deserialize_with = "bandwidth")]
    pub bus_gb_per_s: f64,
    /// The bandwidth at which kernels read system memory over the bus, in 10^9 bytes a second; none is that of the bus, and no cost
    /// without local memory.
    #[serde(deserialize_with = "optional_bandwidth", skip_serializing_if = "Option::is_none")]
    pub kernel_read_gb_per_s: Option<f64>,
    /// The same of kernels that write system memory.
    #[serde(deserialize_with = "optional_bandwidth", skip_serializing_if = "Option::is_none")]
    pub kernel_write_gb_per_s: Option<f64>,
    /// The bandwidth of local memory, in 10^9 bytes a second: from 0.001 to 1000000.
    #[serde(deserialize_with = "bandwidth")]
    pub local_gb_per_s: f64,
    /// The duration of a reset of an engine, of a reset of the adapter, and of its restart.
    pub reset: Duration,
    /// The seed of the delays after which packets begin; none is no delay.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub latency_seed: Option<u64>,
}

impl Default for CostSettings {
    /// A GPU on 16 lanes of PCIe 4.
    fn default() -> Self {
        Self {
            bus_gb_per_s: 25.0,
            kernel_read_gb_per_s: None,
            kernel_write_gb_per_s: None,
            local_gb_per_s: 800.0,
            reset: Duration { ns: 1_000_000 },
            latency_seed: None,
        }
    }
}

impl CostSettings {
    /// A machine of the same kind with other speeds, each from half to twice as high. Packets begin late, so that
    /// engines overtake each other in another order.
    #[must_use]
    pub fn drawn(&self, seed: u64) -> Self {
        let mut random = SplitMix64::stream(seed, 0);
        let mut factor = || random.within(50, 200) as f64 / 100.0;
        let (bus, local, reset) = (factor(), factor(), factor());
        let within = |bandwidth: f64| bandwidth.clamp(*BANDWIDTHS.start(), *BANDWIDTHS.end());
        Self {
            bus_gb_per_s: within(self.bus_gb_per_s * bus),
            kernel_read_gb_per_s: self.kernel_read_gb_per_s.map(|bandwidth| within(bandwidth * bus)),
            kernel_write_gb_per_s: self.kernel_write_gb_per_s.map(|bandwidth| within(bandwidth * bus)),
            local_gb_per_s: within(self.local_gb_per_s * local),
            reset: Duration { ns: (self.reset.ns as f64 * reset) as u64 },
            latency_seed: Some(seed),
        }
    }

    /// The bandwidth between system and local memory, each way, in bytes a second.
    pub fn bus_bytes_per_second(&self) -> u64 {
        bytes_per_second(self.bus_gb_per_s)
    }

    /// The bandwidths at which kernels read and write system memory, in bytes a second; none is no cost.
    pub fn kernel_bytes_per_second(&self, has_local_memory: bool) -> [Option<u64>; 2] {
        let bus = has_local_memory.then_some(self.bus_gb_per_s);
        [self.kernel_read_gb_per_s, self.kernel_write_gb_per_s].map(|own| own.or(bus).map(bytes_per_second))
    }

    /// The bandwidth of local memory, in bytes a second.
    pub fn local_bytes_per_second(&self) -> u64 {
        bytes_per_second(self.local_gb_per_s)
    }
}

/// Turns 10^9 bytes a second into bytes a second; never 0, whatever the number.
fn bytes_per_second(gb_per_s: f64) -> u64 {
    ((gb_per_s * 1e9) as u64).max(1)
}

/// Reads a bandwidth that is given.
fn optional_bandwidth<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<f64>, D::Error> {
    bandwidth(deserializer).map(Some)
}

/// Reads a bandwidth in 10^9 bytes a second.
fn bandwidth<'de, D: Deserializer<'de>>(deserializer: D) -> Result<f64, D::Error> {
    let bandwidth = f64::deserialize(deserializer)?;
    if BANDWIDTHS.contains(&bandwidth) {
        return Ok(bandwidth);
    }
    let (least, most) = (BANDWIDTHS.start(), BANDWIDTHS.end());
    Err(D::Error::custom(format!("a bandwidth of {bandwidth} GB/s; give a number from {least} to {most}")))
}
