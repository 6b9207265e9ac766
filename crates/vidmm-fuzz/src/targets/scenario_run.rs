//! Scenarios of steps that are small are run: whatever they ask for is answered, and the manager's books hold together.

use vidmm_sim::{ExplicitScenario, ScenarioFile, Unobserved, run_explicit};

use super::{Target, scenario, scenario_files};
use crate::soft;

pub const TARGET: Target = Target { name: "scenario_run", run, seeds, words: scenario::WORDS, max_len: 1536 };

/// The most memory of each kind that a machine is built with, in bytes.
const MEMORY_MAX: u64 = 16 << 20;
const STEPS_MAX: usize = 24;

/// Scenarios of steps that are short, on small machines.
fn seeds() -> Vec<Vec<u8>> {
    let small = |file: Vec<u8>| {
        let text = String::from_utf8(file).ok().filter(|text| text.contains("[[step]]"))?;
        let text: Vec<&str> = text.lines().filter(|line| !line.starts_with('#')).collect();
        Some(text.join("\n").into_bytes())
    };
    scenario_files().into_iter().filter_map(small).filter(|text| text.len() <= TARGET.max_len).collect()
}

fn run(data: &[u8]) {
    let Some(ScenarioFile::Explicit(mut scenario)) = scenario::parse(&String::from_utf8_lossy(data)) else { return };
    shrink(&mut scenario);
    let Ok(report) = run_explicit(&scenario, &soft::machine, &mut Unobserved) else { return };
    for finding in &report.findings {
        assert!(!finding.problem.contains("books do not hold together"), "{}: {}", finding.step, finding.problem);
    }
}

/// Makes it small enough to be run quickly.
fn shrink(scenario: &mut ExplicitScenario) {
    let limit = |bytes: &mut u64| *bytes = (*bytes).min(MEMORY_MAX);
    limit(&mut scenario.local_memory_bytes);
    limit(&mut scenario.aperture_bytes);
    scenario.aperture_commit_limit_bytes.iter_mut().for_each(limit);
    scenario.adapter.more_memory.iter_mut().for_each(|memory| limit(&mut memory.size.0));
    scenario.adapter.more_apertures.iter_mut().for_each(|aperture| limit(&mut aperture.size.0));
    scenario.steps.truncate(STEPS_MAX);
}
