//! The suite of six workloads at four sizes of memory, on which the project's own goals are set (T1 to T4).
//!
//! Each is made from a seed, so that anyone can dispute it. Sizes are in bytes, and what a generator leaves open is said with it.

mod camera;
mod cyclic;
mod experts;
mod game;
mod moving;
mod training;

pub use camera::camera;
pub use cyclic::cyclic;
pub use experts::experts;
pub use game::{mixed_size, scanned, zipf};
pub use moving::{drifting, flat_experts, local_experts, nearly_fitting_25, nearly_fitting_50, phases};
pub use training::training;

use vidmm_trace::generate::SplitMix64;

use crate::References;

/// The sizes of memory, in percent of the bytes that a workload uses.
pub const PERCENTS: [u64; 4] = [25, 50, 75, 90];

/// A workload, from a seed.
pub type Generator = fn(u64) -> References;

/// The six, with their names.
pub const WORKLOADS: [(&str, Generator); 6] = [
    ("cyclic", cyclic),
    ("training", training),
    ("zipf", zipf),
    ("camera", camera),
    ("scan", scanned),
    ("experts", experts),
];

/// Further workloads, on which only T4 is set, with the sizes of memory in percent.
pub const FURTHER: [(&str, Generator, &[u64]); 6] = [
    ("drifting", drifting, &[5, 10, 15, 20]),
    ("nearly-fitting-25", nearly_fitting_25, &[25]),
    ("nearly-fitting-50", nearly_fitting_50, &[50]),
    ("phases", phases, &PERCENTS),
    ("local-experts", local_experts, &PERCENTS),
    ("flat-experts", flat_experts, &PERCENTS),
];

/// Zipf's law: the r-th most popular of `n` is drawn in proportion to r^-s. Ranks are spread at random.
struct Popularity {
    cumulated: Vec<f64>,
    by_rank: Vec<u32>,
}

impl Popularity {
    fn zipf(n: usize, s: f64, random: &mut SplitMix64) -> Self {
        let mut sum = 0.0;
        let weights = (1..=n).map(|rank| (rank as f64).powf(-s));
        let cumulated = weights.map(|weight| (sum += weight, sum).1).collect();
        let mut by_rank = Vec::from_iter(0..n as u32);
        for last in (1..n).rev() {
            by_rank.swap(last, random.below(last as u64 + 1) as usize);
        }
        Self { cumulated, by_rank }
    }

    fn draw(&self, random: &mut SplitMix64) -> u32 {
        let at = unit(random) * self.cumulated[self.cumulated.len() - 1];
        self.by_rank[self.cumulated.partition_point(|&sum| sum <= at)]
    }

    /// `count` different ones.
    fn draw_distinct(&self, count: usize, random: &mut SplitMix64) -> Vec<u32> {
        let mut drawn = Vec::new();
        while drawn.len() < count {
            let one = self.draw(random);
            if !drawn.contains(&one) {
                drawn.push(one);
            }
        }
        drawn
    }
}

/// A number from 0 to 1, without 1.
fn unit(random: &mut SplitMix64) -> f64 {
    (random.draw() >> 11) as f64 / (1u64 << 53) as f64
}

/// Whole MiB between two numbers of them, both included, as bytes.
fn mebibytes(least: u64, most: u64, random: &mut SplitMix64) -> u64 {
    random.within(least, most) << 20
}
