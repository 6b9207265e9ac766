//! Random submissions that say nothing about the next: some allocations are touched much more often than others.

use serde::Deserialize;
use serde::de::{Deserializer, Error as _};
use vidmm_trace::{Buffer, ByteSize, Cost, Engine, Kernel, Lifetime, SplitMix64, Workload};

use super::number::within;

/// The name of such workloads.
const NAME: &str = "submissions";

/// A unit of size, in bytes.
const PAGE: u64 = 4096;

/// The largest size that may be asked for, in bytes.
const MAX_LARGEST: u64 = 1 << 30;

/// The number of allocations that a submission draws at most.
const MOST_TOUCHES: u64 = 6;

/// One of so many allocations is temporary.
const TEMPORARY_EVERY: u64 = 8;

/// How long a submission runs, in nanoseconds.
const KERNEL_NS: u64 = 1_000_000;

/// Submissions that are drawn from the scenario's seed, each of a millisecond and on up to six allocations.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct SubmissionsSource {
    /// The number of submissions, from 1 to 1,000,000.
    #[serde(deserialize_with = "within::<_, _, 1, 1_000_000>")]
    pub submissions: u32,
    /// The number of allocations to draw from. Each is used at least once, if there are as many submissions.
    #[serde(default = "default_allocations", deserialize_with = "within::<_, _, 1, 100_000>")]
    pub allocations: u32,
    /// The size of the largest; sizes are whole pages of 4 KiB.
    #[serde(default = "default_largest", deserialize_with = "largest")]
    pub largest: ByteSize,
}

impl SubmissionsSource {
    /// The workload, of one process.
    pub(super) fn workload(&self, seed: u64) -> Workload {
        let mut random = SplitMix64::new(seed);
        let allocations = self.allocations.min(self.submissions);
        let buffers = (0..u64::from(allocations)).map(|name| Buffer {
            name,
            bytes: (1 + random.below(self.largest.bytes() / PAGE)) * PAGE,
            lifetime: if name.is_multiple_of(TEMPORARY_EVERY) { Lifetime::Temporary } else { Lifetime::Whole },
        });
        let buffers = buffers.collect();
        let kernels = (0..self.submissions).map(|number| kernel(&mut random, number, allocations)).collect();
        Workload { name: NAME.to_owned(), buffers, kernels }
    }
}

/// The submission of that number. The first ones use one allocation each that none before them has.
fn kernel(random: &mut SplitMix64, number: u32, allocations: u32) -> Kernel {
    let mut touched: Vec<u32> = (number..allocations).take(1).collect();
    for _ in 0..=random.below(MOST_TOUCHES - touched.len() as u64) {
        // The lower of two draws is taken: the first allocations are touched most, the last hardly ever.
        let [one, other] = [0; 2].map(|_| random.below(allocations.into()) as u32);
        if !touched.contains(&one.min(other)) {
            touched.push(one.min(other));
        }
    }
    let (mut reads, mut writes) = (Vec::new(), Vec::new());
    for buffer in touched {
        let how = random.below(3);
        if how != 0 {
            reads.push(buffer);
        }
        if how != 1 {
            writes.push(buffer);
        }
    }
    let cost = Cost::Nanoseconds(KERNEL_NS);
    Kernel { engine: Engine::Compute, reads, writes, cost, not_before_ns: 0, process: 0 }
}

/// The allocations if the scenario does not say.
fn default_allocations() -> u32 {
    96
}

/// The size of the largest if the scenario does not say.
fn default_largest() -> ByteSize {
    ByteSize(256 << 10)
}

/// Reads the size of the largest allocation.
fn largest<'de, D: Deserializer<'de>>(deserializer: D) -> Result<ByteSize, D::Error> {
    let size = ByteSize::deserialize(deserializer)?;
    if (PAGE..=MAX_LARGEST).contains(&size.bytes()) {
        return Ok(size);
    }
    let (least, most) = (ByteSize(PAGE), ByteSize(MAX_LARGEST));
    Err(D::Error::custom(format!(
        "a largest allocation of {size}; give a size from {least} to {most}, such as `256 KiB`"
    )))
}
