//! Scenario files: any text is a scenario, or is refused with the place and the reason.

use std::path::Path;

use vidmm_sim::{ScenarioError, ScenarioFile};

use super::{Target, scenario_files};

pub const TARGET: Target = Target { name: "scenario", run, seeds, words: WORDS, max_len: 768 };

/// Keys and values of scenario files.
pub const WORDS: &[&str] = &[
    "[[step]]\n",
    "[adapter]\n",
    "[workload]\n",
    "[[process]]\n",
    "[client]\n",
    "[cost]\n",
    "[[check]]\n",
    "[[change]]\n",
    "[table]\n",
    "call = ",
    "look = ",
    "expect = ",
    "name = ",
    "kind = ",
    "trace = ",
    "submissions = ",
    "faults = ",
    "seed = ",
    "local-memory = ",
    "aperture = ",
    "more-apertures = ",
    "size = ",
    "device = ",
    "process = ",
    "allocation = ",
    "count = ",
    "at = ",
    "every = ",
    "end = ",
    "band = ",
    "\"create-device\"",
    "\"create-allocation\"",
    "\"make-resident\"",
    "\"evict\"",
    "\"kernel\"",
    "\"render\"",
    "\"wait\"",
    "\"50%\"",
    "\"64 KiB\"",
    "\"1 ms\"",
    "\"physical\"",
    "\"gpu-mmu\"",
    "\"skip-tlb-flush@2\"",
    "true",
    "false",
    "0",
    "1",
    "-1",
    "18446744073709551615",
    "9223372036854775807",
    "1e308",
    "nan",
    "\"\"",
    "[]",
    "{}",
    "[[",
    "\"\"\"",
    "#",
    "\n",
    "=",
    ".",
    "1979-05-27",
];

/// Short files as they are, and others in paragraphs.
fn seeds() -> Vec<Vec<u8>> {
    let mut seeds = Vec::new();
    for file in scenario_files() {
        if file.len() <= TARGET.max_len {
            seeds.push(file);
        } else {
            let text = String::from_utf8_lossy(&file);
            seeds.extend(
                text.split("\n\n").filter(|part| part.len() < TARGET.max_len).map(|part| part.as_bytes().to_vec()),
            );
        }
    }
    seeds
}

fn run(data: &[u8]) {
    _ = parse(&String::from_utf8_lossy(data));
}

/// The scenario, if it is one; else it was refused properly.
pub fn parse(text: &str) -> Option<ScenarioFile> {
    let error = match ScenarioFile::parse(text, Path::new("folder/fuzz.toml")) {
        Ok(scenario) => return Some(scenario),
        Err(error) => error,
    };
    let message = error.to_string();
    assert!(message.contains("fuzz.toml"), "an error without its file: {message}");
    if let ScenarioError::At { line, .. } = error {
        assert!((1..=text.lines().count().max(1) + 1).contains(&line), "line {line} of {}", text.lines().count());
    }
    None
}
