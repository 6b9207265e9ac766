//! Time.

use std::time::Instant;

use cpu_time::ThreadTime;

/// How long `work` takes on the processor, in nanoseconds. The time of other programs of a shared machine is left out.
pub fn nanoseconds(work: impl FnOnce()) -> f64 {
    let start = ThreadTime::now();
    work();
    start.elapsed().as_nanos() as f64
}

/// How long `work` takes each of `count` times, in nanoseconds, shortest first. Reading the clock is included; the clock is
/// the wall's, which is read faster.
pub fn latencies(count: usize, mut work: impl FnMut()) -> Vec<f64> {
    let mut timed = || {
        let start = Instant::now();
        work();
        start.elapsed().as_nanos() as f64
    };
    let mut all: Vec<f64> = (0..count).map(|_| timed()).collect();
    all.sort_unstable_by(f64::total_cmp);
    all
}
