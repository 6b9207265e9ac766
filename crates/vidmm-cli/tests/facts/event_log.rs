//! The log of a right run holds together: the audit, which knows it alone, has no finding.

use std::fs;
use std::io::Read;

use crate::common::{
    Scratch, expected_status, fault_scenarios, notification_scenarios, shell, short_scenarios, splitting_scenarios,
    summary, vidmm_run,
};
use vidmm_trace::{Audit, EventsLevel, LogHeader, LogReader, LogWriter, log};

#[path = "../../../vidmm-trace/tests/facts/log_support/schema.rs"]
#[expect(dead_code, reason = "its tests in vidmm-trace need more of it")]
mod schema;
use schema::Schema;

/// Other machines: the keys of `[adapter]` in place of a scenario's own.
const MACHINES: [(&str, &str); 10] = [
    ("4 KiB pages", "page-size = \"4 KiB\""),
    ("4 KiB pages with two kinds of leaf tables", "page-size = \"4 KiB\"\ndual-pte = true"),
    ("one kind of leaf table", "dual-pte = false"),
    ("page tables in system memory", "page-tables = \"system\""),
    ("4 KiB pages, and page tables in system memory", "page-size = \"4 KiB\"\npage-tables = \"system\""),
    ("page tables that the CPU writes", "update-mode = \"cpu-virtual\""),
    ("a scratch space that cuts moves into chunks", "paging-va-mib = 1"),
    ("paging buffers that are soon full", "paging-buffer = \"4 KiB\""),
    ("a TLB that caches invalid entries", "invalid-tlb-entries-not-cached = false"),
    ("a shortage", "local-memory = \"20%\""),
];

/// Machines on which buffers are in system memory: the keys of `[adapter]` and `[client]`.
const IN_SYSTEM_MEMORY: [(&str, &str, &str); 6] = [
    ("no local memory", "local-memory = 0\nscheduling-log = \"4 MiB\"\naperture-commit-limit = \"50%\"", ""),
    (
        "no local memory, and notifications of August 2024",
        "local-memory = 0\nscheduling-log = \"4 MiB\"\naperture-commit-limit = \"50%\"\nnotification-revision = \"2024-08\"",
        "",
    ),
    (
        "an IOMMU with a domain for each process",
        "addressing-model = \"gpu-va-io-mmu\"\nscheduling-log = \"4 MiB\"\naperture-commit-limit = \"50%\"",
        "",
    ),
    (
        "an IOMMU with one domain, and windows smaller than buffers",
        "addressing-model = \"gpu-va-io-mmu-global\"\nscheduling-log = \"1 MiB\"\npaging-va-mib = 1\n\
         aperture-commit-limit = \"50%\"\npaging-buffer = \"4 KiB\"",
        "",
    ),
    (
        "demotion and promotion",
        "local-memory = \"30%\"\naperture-commit-limit = \"40%\"",
        "segments = \"local-or-system\"",
    ),
    ("compression in local memory", "local-memory = \"50%\"", "segments = \"local\""),
];

/// Workloads with allocations of up to 4 MiB, so that a scratch space of 1 MiB cuts them.
const WORKLOADS: [&str; 2] = [
    "kind = \"transformer-training\"\nlayers = 2\nhidden = 512\nsequence = 256\nbatch = 4\nheads = 8\n",
    "kind = \"zipf-textures\"\nprocesses = 2\ntextures = 24\ntexture-bytes = \"2 MiB\"\ntarget-bytes = \"4 MiB\"\n\
     draws-per-frame = 5\nframes = 20\n",
];

/// The scenario whose driver writes more than there is room for.
const OVERRUN: &str = "scenarios/faults/p51-overrun-dma-buffer.toml";

/// Runs with these arguments and checks the log.
#[track_caller]
fn log_holds(what: &str, arguments: &[&str]) {
    let findings = findings_in_log(what, arguments);
    let first = findings.iter().take(10).map(String::as_str).collect::<Vec<_>>().join("\n");
    assert!(findings.is_empty(), "{what}: vidmm run {}: {} findings\n{first}", arguments.join(" "), findings.len());
}

/// Runs with these arguments. Returns the findings of the audit, which knows the log alone.
#[track_caller]
fn findings_in_log(what: &str, arguments: &[&str]) -> Vec<String> {
    let scratch = Scratch::new();
    let (log, figures) = (scratch.path("log.jsonl"), scratch.path("figures.json"));
    let run = vidmm_run(&[arguments, &["--events", &log, "--summary", &figures]].concat()).expect(0);
    let text = fs::read_to_string(log).expect("there is a log");
    let log = LogReader::new(text.as_bytes()).expect("it is a log");
    let figures = summary(&figures);
    assert_eq!(figures["scenario"], *log.header().scenario);
    assert_eq!(figures["seed"], log.header().seed);
    let header = LogHeader { level: EventsLevel::Decisions, ..log.header().clone() };
    let (mut audit, mut events) = (Audit::new(), 0_u64);
    let mut decisions = LogWriter::new(Vec::new(), &header);
    for event in log {
        let event = event.unwrap_or_else(|error| panic!("{what}: {}: {error}", run.command));
        audit.event(&event);
        decisions.event(&event);
        events += 1;
    }
    assert_eq!(figures["events"], events);
    decisions_hold(what, &decisions.finish().expect("memory can be written"));
    // Later lines are of the same kinds.
    let schema = Schema::read();
    text.lines().take(3000).for_each(|line| schema.check_line(line));
    audit.finish().iter().map(ToString::to_string).collect()
}

/// Reads a log of decisions alone: the audit finds nothing wrong in it.
#[track_caller]
fn decisions_hold(what: &str, log: &[u8]) {
    let log = LogReader::new(log).expect("it is a log");
    let mut audit = Audit::of(log.header().level);
    log.for_each(|event| audit.event(&event.expect("it is whole")));
    assert_eq!(audit.finish(), [], "{what}, without operations");
}

#[test]
#[ignore = "takes long, runs in .ci/run"]
fn logs_of_the_scenarios_hold() {
    for scenario in short_scenarios() {
        log_holds(&scenario, &[&scenario, "--scale", "4"]);
    }
}

#[test]
#[ignore = "takes long, runs in .ci/run"]
fn logs_of_steps_hold() {
    let mut scenarios = [notification_scenarios(), fault_scenarios(), splitting_scenarios()].concat();
    scenarios.retain(|scenario| scenario != OVERRUN && expected_status(scenario) == 0);
    scenarios.iter().for_each(|scenario| log_holds(scenario, &[scenario]));
}

/// A log that is compressed, and has decisions alone, is read by everything that reads logs.
#[test]
fn a_log_has_the_form_and_the_level_that_are_asked_for() {
    const SCENARIO: &str = "scenarios/residency/p09-evict-while-in-use.toml";
    let scratch = Scratch::new();
    let [plain, packed] = ["log.jsonl", "log.jsonl.gz"].map(|name| scratch.path(name));
    vidmm_run(&[SCENARIO, "--events", &plain, "--events-level", "decisions"]).expect(0);
    vidmm_run(&[SCENARIO, "--events", &packed, "--events-level", "decisions"]).expect(0);
    let mut text = String::new();
    log::open(packed.as_ref()).and_then(|mut log| log.read_to_string(&mut text)).expect("it is compressed");
    let shown = fs::read_to_string(&plain).expect("there is a log");
    // The headers name the same command: what a run writes is not in it.
    assert_eq!(text, shown);
    assert_eq!(LogReader::new(text.as_bytes()).expect("it is a log").header().level, EventsLevel::Decisions);
    decisions_hold(SCENARIO, text.as_bytes());
    let told = [plain, packed].map(|log| shell(&format!("vidmm explain '{log}' 0")).expect(0).stdout);
    assert!(told[0] == told[1] && told[0].contains("its last Evict had asked for that"), "{}", told[0]);
    for name in ["log.jsonl.zst", "log.xz"] {
        let refused = vidmm_run(&[SCENARIO, "--events", &scratch.path(name)]).expect(2);
        assert!(refused.stderr.contains(".gz, and in no other form"), "{refused}");
    }
    let refused = vidmm_run(&[SCENARIO, "--events-level", "decisions"]).expect(2);
    assert!(refused.stderr.contains("--events"), "{refused}");
}

/// P51: the log has the size that a driver says it has written, and that is too much.
#[test]
fn the_log_has_the_overrun() {
    let findings = findings_in_log(OVERRUN, &[OVERRUN]);
    let [overrun] = &findings[..] else { panic!("{findings:?}") };
    assert!(overrun.contains("I21: a buffer of 65536 bytes holds 65537 bytes of commands"), "{overrun}");
}

#[test]
#[ignore = "takes long, runs in .ci/run"]
fn logs_of_buffers_in_system_memory_hold() {
    let scratch = Scratch::new();
    for (what, adapter, client) in IN_SYSTEM_MEMORY {
        for workload in WORKLOADS {
            let text = format!(
                "[adapter]\n{adapter}\n[client]\n{client}\ncompression = true\n\
                 notify = [\"eviction\", \"io-mmu-unmap\"]\n[workload]\n{workload}"
            );
            log_holds(&format!("{what}:\n{text}"), &[&scratch.file("scenario.toml", text)]);
        }
    }
}

#[test]
#[ignore = "takes long, runs in .ci/run"]
fn logs_of_other_machines_hold() {
    let scratch = Scratch::new();
    for (what, adapter) in MACHINES {
        for workload in WORKLOADS {
            let text = format!("[adapter]\n{adapter}\n[workload]\n{workload}");
            log_holds(&format!("{what}:\n{text}"), &[&scratch.file("scenario.toml", text)]);
        }
    }
}
