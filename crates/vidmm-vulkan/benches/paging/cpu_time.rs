//! The processor time that vidmm takes.

use std::fs;
use std::time::Duration;

/// The milliseconds that the calling thread and the threads of vidmm have run, from when each began. On a device that is a CPU the
/// threads that do the work of the GPU are others.
///
/// Linux alone tells it: elsewhere it is `None`.
pub fn of_vidmm() -> Option<f64> {
    // The time of a thread is brought up to date when it stops running.
    std::thread::sleep(Duration::from_millis(1));
    let caller = run_by("/proc/thread-self")?;
    let tasks = fs::read_dir("/proc/self/task").ok()?;
    let of_vidmm = tasks.filter_map(|task| {
        let task = task.ok()?.path();
        let name = fs::read_to_string(task.join("comm")).ok()?;
        name.starts_with("vidmm ").then(|| run_by(task.to_str()?)).flatten()
    });
    Some((caller + of_vidmm.sum::<f64>()) * 1e-6)
}

/// The nanoseconds that a thread has run.
fn run_by(task: &str) -> Option<f64> {
    fs::read_to_string(format!("{task}/schedstat")).ok()?.split_whitespace().next()?.parse().ok()
}
