//! The page of a long run: the time and memory to write it, its size, the time to open it, and the time of a step.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use crate::browser::Browser;
use crate::page::vidmm;

/// Steps of moving and zooming that are measured.
const STEPS: usize = 200;

/// The most memory that a process had resident, in bytes, by its present status.
fn most_resident(process: u32) -> Option<u64> {
    let status = fs::read_to_string(format!("/proc/{process}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    Some(line.trim().strip_suffix(" kB")?.parse::<u64>().ok()? << 10)
}

/// Writes the page. Returns the time and the most memory.
fn write(log: &Path, page: &Path) -> (Duration, u64) {
    let begun = Instant::now();
    let mut command = Command::new(env!("CARGO_BIN_EXE_vidmm"));
    let mut child =
        command.arg("report").arg(log).arg("-o").arg(page).stdout(Stdio::null()).spawn().expect("it starts");
    let mut most = 0;
    while child.try_wait().expect("it can be waited for").is_none() {
        most = most.max(most_resident(child.id()).unwrap_or(0));
        thread::sleep(Duration::from_millis(5));
    }
    (begun.elapsed(), most)
}

/// One step, until the browser has drawn it, in milliseconds.
const STEP: &str = "new Promise((done) => {
    const begun = performance.now();
    STEP;
    requestAnimationFrame(() => { const channel = new MessageChannel(); channel.port1.onmessage = () => done(performance.now() - begun);
        channel.port2.postMessage(0); });
})";

#[test]
#[ignore = "a benchmark of minutes: cargo test --release -p vidmm-cli --test report long -- --ignored --nocapture"]
fn a_long_run_is_written_opened_and_moved_through_in_time() {
    let folder = tempfile::tempdir().expect("a folder for the page");
    let (scenario, log) = (folder.path().join("long.toml"), folder.path().join("run.jsonl"));
    let page = folder.path().join("report.html");
    let long = "name = \"long\"\n[adapter]\nlocal-memory = \"50%\"\n[client]\nscale = 16\n[workload]\nkind = \"transformer-training\"\nsteps = 104\n";
    fs::write(&scenario, long).expect("it can be written");
    vidmm(&["run", &scenario.to_string_lossy(), "--events", &log.to_string_lossy()]);
    let events = fs::read_to_string(&log).expect("it is there").lines().count() - 2;
    let (written, most) = write(&log, &page);
    let bytes = fs::metadata(&page).expect("it is there").len();
    println!("{events} events: written in {written:?} with at most {} MiB, {} KiB", most >> 20, bytes >> 10);
    assert!(events >= 1_000_000, "the run has only {events} events");
    assert!(written < Duration::from_secs(20) && most < 1 << 30 && bytes < 30 << 20);
    let Some(mut browser) = Browser::start(1400, 1000) else { return };
    let opened = browser.open(&page);
    let mut steps: Vec<f64> = (0..STEPS)
        .map(|number| {
            let step = match number % 4 {
                0 => "report.timeline.zoom(0.6)",
                1 => "report.timeline.pan(0.2)",
                2 => "report.timeline.pan(-0.35)",
                _ if number % 40 == 39 => "report.timeline.show(0, report.model.end)",
                _ => "report.timeline.zoom(0.8)",
            };
            browser.evaluate(&STEP.replace("STEP", step)).as_f64().expect("it is a number")
        })
        .collect();
    steps.sort_by(f64::total_cmp);
    let p95 = steps[STEPS * 95 / 100];
    println!("opened in {opened:?}; a step takes {:.1} ms at p50, {p95:.1} ms at p95", steps[STEPS / 2]);
    assert!(opened < Duration::from_secs(3) && p95 < 100.0);
    assert_eq!(browser.complaints(), Vec::<String>::new());
}
