//! Time.

use std::time::Instant;

/// How long `work` takes, in nanoseconds.
pub fn nanoseconds(work: impl FnOnce()) -> f64 {
    let start = Instant::now();
    work();
    start.elapsed().as_nanos() as f64
}

/// How long `work` takes each of `count` times, in nanoseconds, shortest first. Reading the clock is included.
pub fn latencies(count: usize, mut work: impl FnMut()) -> Vec<f64> {
    let mut all: Vec<f64> = (0..count).map(|_| nanoseconds(&mut work)).collect();
    all.sort_unstable_by(f64::total_cmp);
    all
}
