//! A scenario of steps that is written is read again as the same scenario.

use std::fs;
use std::path::{Path, PathBuf};

use vidmm_sim::steps::{Action, CheckFinding, Kernel, KernelEngine, Step, Until, Wait};
use vidmm_sim::{Content, Duration, ExplicitScenario, Fault, FaultKind, JudgedBy, ScenarioFile, When};
use vidmm_trace::{ByteSize, LocalMemory};

/// Reads a scenario of steps, which must be accepted, and drops the line numbers of its steps.
#[track_caller]
fn parse(text: &str) -> ExplicitScenario {
    match ScenarioFile::parse(text, Path::new("folder/tiny.toml")) {
        Ok(ScenarioFile::Explicit(scenario)) => without_lines(*scenario),
        other => panic!("{text}\n{other:?}"),
    }
}

fn without_lines(mut scenario: ExplicitScenario) -> ExplicitScenario {
    scenario.steps.iter_mut().for_each(|step| step.line = 0);
    scenario
}

/// Checks that a scenario is the same when it is written and read again. Returns the text.
#[track_caller]
fn survives(scenario: &ExplicitScenario) -> String {
    let text = scenario.to_toml();
    assert_eq!(parse(&text), *scenario, "{text}");
    text
}

/// A scenario of one step, to be changed.
fn one_step() -> ExplicitScenario {
    parse("[[step]]\nwait = \"idle\"")
}

fn step(action: impl Into<Action>) -> Step {
    Step { line: 0, action: action.into(), expect: None }
}

/// All scenario files below a folder.
fn scenarios_below(folder: &Path) -> Vec<PathBuf> {
    let entries =
        fs::read_dir(folder).expect("the scenarios are there").map(|entry| entry.expect("it can be read").path());
    let (folders, files): (Vec<PathBuf>, Vec<PathBuf>) = entries.partition(|path| path.is_dir());
    let scenarios = files.into_iter().filter(|path| path.extension().is_some_and(|extension| extension == "toml"));
    scenarios.chain(folders.iter().flat_map(|folder| scenarios_below(folder))).collect()
}

#[test]
fn every_scenario_of_the_project_survives() {
    let mut survived = 0;
    for path in scenarios_below(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios")) {
        if let ScenarioFile::Explicit(scenario) = ScenarioFile::load(&path).expect("it is a scenario") {
            survives(&without_lines(*scenario));
            survived += 1;
        }
    }
    assert!(survived > 80, "only {survived} scenarios have steps");
}

#[test]
fn keys_with_their_default_are_left_out() {
    let text = survives(&one_step());
    assert_eq!(text, "name = \"tiny\"\nseed = 1\n\n[[step]]\nwait = \"idle\"\n");
}

#[test]
fn the_verb_comes_first_and_the_expectation_last() {
    let text = survives(&parse(
        "[[step]]\ncreate-allocation = \"A\"\nsize = \"1 MiB\"\n[[step]]\nexpect = \"ok\"\nflags = [\"must-succeed\", \
         \"cant-trim-further\"]\ndevice = \"D\"\nmake-resident = \"A\"",
    ));
    let step = "[[step]]\nmake-resident = \"A\"\ndevice = \"D\"\nflags = [\"must-succeed\", \"cant-trim-further\"]\nexpect = \"ok\"\n";
    assert!(text.ends_with(step), "{text}");
}

#[test]
fn sizes_and_numbers_are_exact() {
    let mut scenario = parse(
        "seed = 18446744073709551615\n[cost]\nbus-gb-per-s = 0.1\n[adapter]\npaging-buffer = \"4100 KiB\"\n\
         page-size = \"4 KiB\"\nbanks = [\"1 MiB\", 2097153]\n[[step]]\ncreate-allocation = \"A\"\nsize = 1073741825\n\
         [[step]]\nmap = \"A\"\noffset = 18446744073709551615\nsize = \"1.5 KiB\"",
    );
    let text = survives(&scenario);
    for exact in ["18446744073709551615", "0.1", "\"4100 KiB\"", "\"2 MiB + 1 B\"", "\"1 GiB + 1 B\"", "\"1536 B\""] {
        assert!(text.contains(exact), "no {exact} in {text}");
    }
    scenario.cost.local_gb_per_s = f64::from_bits(400.0_f64.to_bits() + 1);
    survives(&scenario);
}

#[test]
fn memory_of_a_size_of_its_own_is_the_adapters_when_it_is_read() {
    let mut scenario = one_step();
    scenario.local_memory_bytes = 3 << 20;
    scenario.aperture_bytes = 5 << 20;
    scenario.aperture_commit_limit_bytes = Some(4096);
    let read = parse(&scenario.to_toml());
    assert_eq!(
        (read.local_memory_bytes, read.aperture_bytes, read.aperture_commit_limit_bytes),
        (3 << 20, 5 << 20, Some(4096))
    );
    assert_eq!(read.adapter.local_memory, Some(LocalMemory::Bytes(ByteSize(3 << 20))));
    survives(&read);
    scenario.local_memory_bytes = 0;
    survives(&parse(&scenario.to_toml()));
}

#[test]
fn tables_in_tables_keep_only_the_given_keys() {
    let text = survives(&parse(
        "[adapter]\ntdr.delay = \"20 ms\"\npreparation.take-split-point = true\nlinked-adapters = [{ local-memory = 0 }, {}]\n\
         dependent-engines = [[\"paging\", \"copy\"]]\npaging-va-mib = \"fails\"\n[[step]]\ntrim-intervals = { min = \"1 s\", \
         max = \"5 s\", idle = \"1500 us\" }\n[[step]]\ncheck-resets = { engines = 1, adapter = 0 }\n[[step]]\nwait = \"3 ns\"",
    ));
    assert!(text.contains("delay = \"20 ms\"") && !text.contains("quantum"), "{text}");
}

#[test]
fn words_may_have_any_characters() {
    let mut scenario = one_step();
    scenario.steps.push(step(CheckFinding { words: "a \"quote\",\na line, a \\ and \u{1}".to_owned() }));
    scenario.name = "a 'name' of \"its\" own = [x]".to_owned();
    survives(&scenario);
}

#[test]
fn lists_may_be_empty_and_groups_are_their_members() {
    let group = "[[step]]\ncreate-allocation = \"A\"\ncount = 3\nsize = \"4 KiB\"\n[[step]]\nmap = \"A\"\n";
    let scenario = parse(&format!(
        "{group}[[step]]\nevict = []\nexpect = \"empty\"\n[[step]]\nkernel = \"K\"\nreads = \"A\"\n[[step]]\ncheck-content = \"A\""
    ));
    let text = survives(&scenario);
    assert!(text.contains("evict = []") && text.contains("map = [\"A1\", \"A2\", \"A3\"]"), "{text}");
}

#[test]
fn a_kernel_has_other_defaults_than_its_parts() {
    let mut scenario = one_step();
    let kernel = |content, nanoseconds, engine| Kernel {
        name: format!("K{nanoseconds}"),
        reads: Vec::new(),
        writes: Vec::new(),
        zeros: Vec::new(),
        content,
        nanoseconds,
        hangs: nanoseconds == 1,
        illegal: nanoseconds == 1,
        engine,
        after: Vec::new(),
        signals: Vec::new(),
        allocations: Vec::new(),
        device: None,
    };
    for (content, nanoseconds, engine) in
        [(Content::Uniform, 1000, KernelEngine::Render), (Content::Ramp, 1, KernelEngine::Copy)]
    {
        scenario.steps.push(step(kernel(content, nanoseconds, engine)));
    }
    let text = survives(&scenario);
    assert!(
        text.contains("[[step]]\nkernel = \"K1000\"\ncontent = \"uniform\"\n\n[[step]]\nkernel = \"K1\"\n"),
        "{text}"
    );
}

#[test]
fn command_buffers_and_faults_survive() {
    survives(&parse(
        "faults = [\"skip-tlb-flush@3\", \"drop-page-out\"]\n[adapter]\naddressing-model = \"physical\"\nslots = 3\n[[step]]\n\
         create-allocation = \"A\"\nsize = \"64 KiB\"\ncount = 2\nbanks = [2, 1]\ndirection = \"from-end\"\n[[step]]\nrender = \
         \"R\"\ncommands = [\"write A1@0 read A2[2..5]@1\", \"split\", \"unbind 1\", \"read A1@0\"]\nhostile = \
         \"decreasing-split-offsets\"",
    ));
}

#[test]
fn every_fault_survives() {
    for kind in FaultKind::all() {
        survives(&ExplicitScenario { faults: vec![Fault { kind, when: When::OneIn(u64::MAX) }], ..one_step() });
    }
}

#[test]
fn the_judge_is_written_unless_it_is_the_steps() {
    let text = survives(&parse("judge = \"rules\"\n[[step]]\nwait = \"idle\""));
    assert!(text.contains("\njudge = \"rules\"\n"), "{text}");
    assert_eq!(parse(&text).judged_by, JudgedBy::Rules);
    let refused = ScenarioFile::parse("judge = \"rules\"", Path::new("x.toml")).expect_err("a workload has no judge");
    assert!(refused.to_string().contains("line 1"), "{refused}");
}

#[test]
fn steps_made_in_memory_are_checked_as_those_of_a_file() {
    let mut scenario =
        parse("[[step]]\ncreate-allocation = \"A\"\nsize = \"4 KiB\"\n[[step]]\nmap = \"A\"\n[[step]]\nevict = \"A\"");
    assert_eq!(scenario.check(), Ok(()));
    scenario.steps.remove(0);
    let (at, problem) = scenario.check().expect_err("nobody has created it");
    assert_eq!(at, 0);
    assert!(problem.contains("there is no allocation `A`"), "{problem}");
    scenario.steps = vec![step(Wait { until: Until::For(Duration { ns: 5 }) })];
    assert_eq!(scenario.check(), Ok(()));
}
