//! A workload that says nothing about the next step: random touches, some buffers much more often than others.

use vidmm_trace::{Buffer, Cost, Engine, Kernel, Lifetime, Workload};

/// A unit of size, in bytes.
const PAGE: u64 = 4096;

/// What is touched.
#[derive(Clone, Copy, Debug)]
pub struct RandomTouches {
    /// What the touches follow from.
    pub seed: u64,
    /// Processes, each with buffers of its own.
    pub processes: u32,
    /// Buffers of each process.
    pub buffers: u32,
    /// The largest buffer, in bytes; sizes are whole pages of 4 KiB.
    pub max_bytes: u64,
    /// Kernels of each process.
    pub kernels: u32,
    /// How many buffers a kernel uses at most.
    pub max_touches: u64,
    /// How long a kernel runs, in nanoseconds.
    pub nanoseconds: u64,
}

impl RandomTouches {
    /// The workload. Kernels of the processes alternate.
    pub fn workload(&self) -> Workload {
        let mut random = Random(self.seed);
        let sizes = (0..u64::from(self.processes * self.buffers)).map(|name| Buffer {
            name,
            bytes: (1 + random.below(self.max_bytes / PAGE)) * PAGE,
            lifetime: Lifetime::Whole,
        });
        let buffers = sizes.collect();
        let mut kernels = Vec::new();
        for _ in 0..self.kernels {
            kernels.extend((0..self.processes).map(|process| self.kernel(&mut random, process)));
        }
        Workload { name: "random-touches".to_owned(), buffers, kernels }
    }

    fn kernel(&self, random: &mut Random, process: u32) -> Kernel {
        let mut touched: Vec<u32> = Vec::new();
        for _ in 0..=random.below(self.max_touches) {
            // The lower of two draws: the first buffers are touched most, the last hardly ever.
            let [one, other] = [0; 2].map(|_| random.below(self.buffers.into()) as u32);
            let buffer = process * self.buffers + one.min(other);
            if !touched.contains(&buffer) {
                touched.push(buffer);
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
        let cost = Cost::Nanoseconds(self.nanoseconds);
        Kernel { engine: Engine::Compute, reads, writes, cost, not_before_ns: 0, process }
    }
}

/// SplitMix64.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// A number below `bound`, which is above 0.
    fn below(&mut self, bound: u64) -> u64 {
        ((u128::from(self.next()) * u128::from(bound)) >> 64) as u64
    }
}
