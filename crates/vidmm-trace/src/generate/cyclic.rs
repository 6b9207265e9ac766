//! Layers that are read again and again, and a small hot set.
//!
//! Inference with too little memory looks like this: each pass reads all weights in the same order, which is the worst
//! case of a policy that evicts the least recently used.

use serde::{Deserialize, Serialize};

use super::builder::{Builder, Task};
use super::check;
use super::random::SplitMix64;
use crate::{ByteSize, Lifetime, Workload, WorkloadError};

/// The name of the generator and its workloads.
pub(super) const KIND: &str = "cyclic-layers";

/// The parameters of the generator `cyclic-layers`.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default, rename_all = "kebab-case")]
pub struct CyclicParams {
    /// The number of layers that each pass reads.
    pub layers: u32,
    /// The size of one layer's weights.
    pub layer_bytes: ByteSize,
    /// The number of hot buffers; every kernel reads all of them.
    pub hot_buffers: u32,
    /// The size of one hot buffer.
    pub hot_bytes: ByteSize,
    /// The number of passes over all layers.
    pub passes: u32,
    /// The time that a layer's kernel runs, in nanoseconds.
    pub kernel_ns: u64,
}

impl Default for CyclicParams {
    /// 24 layers of 128 MiB, read ten times, and a hot set of 64 MiB: 3.1 GiB and 240 kernels.
    fn default() -> Self {
        Self {
            layers: 24,
            layer_bytes: ByteSize::mib(128),
            hot_buffers: 4,
            hot_bytes: ByteSize::mib(16),
            passes: 10,
            kernel_ns: 1_000_000,
        }
    }
}

/// Makes the workload. Each layer's kernel reads the layer and the hot set, and writes one hot
/// buffer in place, which the seed decides.
///
/// # Errors
///
/// Returns [`WorkloadError`] for parameters that are 0 or absurdly large.
pub fn generate(params: &CyclicParams, seed: u64) -> Result<Workload, WorkloadError> {
    validate(params)?;
    let mut random = SplitMix64::new(seed);
    let mut builder = Builder::new(KIND);
    let hot = buffers(&mut builder, params.hot_buffers, params.hot_bytes)?;
    let layers = buffers(&mut builder, params.layers, params.layer_bytes)?;
    for _ in 0..params.passes {
        for &layer in &layers {
            let mut reads = hot.clone();
            reads.push(layer);
            let written = random.below(hot.len() as u64) as usize;
            let writes = vec![hot[written]];
            builder.kernel(Task { reads, writes, nanoseconds: params.kernel_ns, ..Task::default() })?;
        }
    }
    builder.finish()
}

/// Refuses parameters out of range.
fn validate(params: &CyclicParams) -> Result<(), WorkloadError> {
    check::range("layers", params.layers, 1..=100_000)?;
    check::size("layer-bytes", params.layer_bytes)?;
    check::range("hot-buffers", params.hot_buffers, 1..=1_000)?;
    check::size("hot-bytes", params.hot_bytes)?;
    check::range("passes", params.passes, 1..=1_000_000)
}

/// Adds buffers of one size that exist for the whole run.
fn buffers(builder: &mut Builder, count: u32, size: ByteSize) -> Result<Vec<u32>, WorkloadError> {
    (0..count).map(|_| builder.buffer(size.bytes(), Lifetime::Whole)).collect()
}
