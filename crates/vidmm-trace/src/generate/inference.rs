//! A model that answers requests as they come, and is idle in between.

use serde::{Deserialize, Serialize};

use super::builder::{Builder, Task};
use super::check;
use crate::{ByteSize, Lifetime, Workload, WorkloadError};

/// The name of the generator and its workloads.
pub(super) const KIND: &str = "inference";

/// The parameters of the generator `inference`.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default, rename_all = "kebab-case")]
pub struct InferenceParams {
    /// The number of buffers of weights; every kernel reads all of them.
    pub weight_buffers: u32,
    /// The size of one buffer of weights.
    pub weight_bytes: ByteSize,
    /// The size of the model's record of a conversation; every kernel reads and writes it.
    pub cache_bytes: ByteSize,
    /// The times at which requests arrive, in milliseconds.
    pub arrivals_ms: Vec<u64>,
    /// The number of kernels that an answer takes.
    pub kernels: u32,
    /// The time that a kernel runs, in nanoseconds.
    pub kernel_ns: u64,
}

impl Default for InferenceParams {
    /// 2 GiB of weights, and two answers of 0.2 s, ten seconds apart.
    fn default() -> Self {
        Self {
            weight_buffers: 16,
            weight_bytes: ByteSize::mib(128),
            cache_bytes: ByteSize::mib(64),
            arrivals_ms: vec![0, 10_000],
            kernels: 40,
            kernel_ns: 5_000_000,
        }
    }
}

/// Makes the workload. The kernels of an answer arrive together. The workload has nothing random.
///
/// # Errors
///
/// Returns [`WorkloadError`] for parameters that are 0 or absurdly large.
pub fn generate(params: &InferenceParams) -> Result<Workload, WorkloadError> {
    check::range("weight-buffers", params.weight_buffers, 1..=10_000)?;
    check::size("weight-bytes", params.weight_bytes)?;
    check::size("cache-bytes", params.cache_bytes)?;
    check::range("kernels", params.kernels, 1..=100_000)?;
    let mut builder = Builder::new(KIND);
    let cache = builder.buffer(params.cache_bytes.bytes(), Lifetime::Whole)?;
    let weights = (0..params.weight_buffers).map(|_| builder.buffer(params.weight_bytes.bytes(), Lifetime::Whole));
    let mut reads = weights.collect::<Result<Vec<u32>, _>>()?;
    reads.push(cache);
    for &arrival in &params.arrivals_ms {
        let not_before_ns = check::product("the time", &[arrival, 1_000_000])?;
        for _ in 0..params.kernels {
            let (reads, writes) = (reads.clone(), vec![cache]);
            builder.kernel(Task { reads, writes, nanoseconds: params.kernel_ns, not_before_ns, ..Task::default() })?;
        }
    }
    builder.finish()
}
