//! Buffers that are read and rewritten at random.
//!
//! No use says anything about the next, so no policy does better than chance. The content of a buffer depends on all
//! buffers that were read before it was written.

use serde::{Deserialize, Serialize};

use super::builder::{Builder, Task};
use super::check;
use super::random::SplitMix64;
use crate::{ByteSize, Lifetime, Workload, WorkloadError};

/// The name of the generator and its workloads.
pub(super) const KIND: &str = "random-touches";

/// The parameters of the generator `random-touches`.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default, rename_all = "kebab-case")]
pub struct TouchesParams {
    /// The number of buffers.
    pub buffers: u32,
    /// The size of each.
    pub buffer_bytes: ByteSize,
    /// The number of touches; each is a kernel that reads one buffer and rewrites another. Before them each buffer is written
    /// once.
    pub touches: u32,
    /// The time that a kernel runs, in nanoseconds.
    pub kernel_ns: u64,
}

impl Default for TouchesParams {
    /// 200 buffers of 16 MiB, touched 500 times.
    fn default() -> Self {
        Self { buffers: 200, buffer_bytes: ByteSize::mib(16), touches: 500, kernel_ns: 100_000 }
    }
}

/// Makes the workload.
///
/// # Errors
///
/// Returns [`WorkloadError`] for parameters that are 0 or absurdly large.
pub fn generate(params: &TouchesParams, seed: u64) -> Result<Workload, WorkloadError> {
    validate(params)?;
    let mut random = SplitMix64::new(seed);
    let mut builder = Builder::new(KIND);
    let bytes = params.buffer_bytes.bytes();
    let buffers = (0..params.buffers).map(|_| builder.buffer(bytes, Lifetime::Whole));
    let buffers = buffers.collect::<Result<Vec<_>, _>>()?;
    for &buffer in &buffers {
        builder.kernel(Task { writes: vec![buffer], nanoseconds: params.kernel_ns, ..Task::default() })?;
    }
    let mut any = || buffers[random.below(u64::from(params.buffers)) as usize];
    for _ in 0..params.touches {
        let (reads, writes) = (vec![any()], vec![any()]);
        builder.kernel(Task { reads, writes, nanoseconds: params.kernel_ns, ..Task::default() })?;
    }
    builder.finish()
}

/// Refuses parameters out of range.
fn validate(params: &TouchesParams) -> Result<(), WorkloadError> {
    check::range("buffers", params.buffers, 1..=100_000)?;
    check::size("buffer-bytes", params.buffer_bytes)?;
    check::range("touches", params.touches, 1..=1_000_000)
}
