//! The parts that a benchmark is asked to measure.

use std::process::ExitCode;

use super::report::Report;

/// A part of the report, and what measures it.
pub type Part<S> = (&'static str, fn(&S, &mut Report));

const FLAGS: [&str; 4] = ["--quick", "--json", "--check", "--bench"];

/// Measures the parts that the arguments name, all if they name none, and reports.
pub fn run<S>(arguments: &[String], parts: &[Part<S>], full: &S, quick: &S) -> ExitCode {
    if cfg!(debug_assertions) && arguments.is_empty() {
        // So `cargo test --all-targets` runs it.
        println!("nothing is measured: this is not an optimised build");
        return ExitCode::SUCCESS;
    }
    let is_known = |argument: &str| FLAGS.contains(&argument) || parts.iter().any(|&(part, _)| part == argument);
    if let Some(unknown) = arguments.iter().find(|argument| !is_known(argument)) {
        let parts: Vec<&str> = parts.iter().map(|&(part, _)| part).collect();
        eprintln!(
            "error: there is no argument '{unknown}'; there are --quick, --json, --check, and the parts: {}",
            parts.join(" ")
        );
        return ExitCode::from(2);
    }
    let has = |wanted: &str| arguments.iter().any(|argument| argument == wanted);
    let is_everything = !parts.iter().any(|&(part, _)| has(part));
    let scale = if has("--quick") { quick } else { full };
    let mut report = Report::new(has("--json"));
    for (part, run) in parts {
        if is_everything || has(part) {
            run(scale, &mut report);
        }
    }
    let is_met = report.finish();
    if has("--check") && !is_met { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}
