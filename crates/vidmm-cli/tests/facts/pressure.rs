//! Every machine runs every workload right, or says that it does not fit, down to the memory of its largest kernel.

use crate::common::{Run, Scratch, summary, vidmm_run, workspace};

/// Workloads, and the memory in MiB that the largest kernel of each needs without page tables.
const WORKLOADS: [(&str, u64); 4] = [
    ("kind = \"transformer-training\"\nlayers = 2\nhidden = 256\nsequence = 128\nbatch = 2\nheads = 4\n", 4),
    (
        "kind = \"cyclic-layers\"\nlayers = 12\nlayer-bytes = \"3 MiB\"\nhot-buffers = 2\nhot-bytes = \"1 MiB\"\n\
         passes = 2\nkernel-ns = 100_000\n",
        6,
    ),
    (
        "kind = \"zipf-textures\"\nprocesses = 2\ntextures = 32\ntexture-bytes = \"512 KiB\"\n\
         target-bytes = \"1 MiB\"\ndraws-per-frame = 8\nframes = 12\nframe-ns = 400_000\ninterval-ns = 1_000_000\n",
        6,
    ),
    (
        "kind = \"llm-serving\"\nrequests = 12\nmean-gap-ns = 4_000_000\nbatch = 4\nweight-buffers = 4\n\
         weight-bytes = \"2 MiB\"\nblock-bytes = \"256 KiB\"\nprefixes = 2\nprefix-blocks = 4\n\
         prompt-blocks-max = 8\nanswer-blocks-max = 6\nprefill-block-ns = 100_000\ndecode-block-ns = 400_000\n",
        12,
    ),
];

/// The lines of `[adapter]` beside the memory.
const MACHINES: [&str; 8] = [
    "page-size = \"64 KiB\"",
    "page-size = \"64 KiB\"\ndual-pte = false",
    "page-size = \"4 KiB\"",
    "page-size = \"64 KiB\"\npage-tables = \"system\"",
    "page-size = \"4 KiB\"\npage-tables = \"system\"\ninvalid-tlb-entries-not-cached = false",
    "paging-buffer = \"4 KiB\"",
    "paging-va-mib = 1",
    "page-size = \"4 KiB\"\npaging-buffer = \"4 KiB\"\npaging-va-mib = 1",
];

/// Machines on which buffers are in system memory: the keys of `[adapter]` beside the amount, which is `{memory}`, and
/// those of `[client]`.
const IN_SYSTEM_MEMORY: [(&str, &str); 6] = [
    (
        "local-memory = 0\nscheduling-log = \"4 MiB\"\naperture-commit-limit = \"{memory}\"",
        "compression = true\nnotify = [\"eviction\"]",
    ),
    (
        "local-memory = 0\nscheduling-log = \"1 MiB\"\npaging-va-mib = 1\naperture-commit-limit = \"{memory}\"\n\
         notification-revision = \"2024-08\"\npaging-buffer = \"4 KiB\"\nmax-command = \"16 KiB\"",
        "compression = true\nnotify = [\"eviction\", \"io-mmu-unmap\"]",
    ),
    (
        "addressing-model = \"gpu-va-io-mmu\"\nscheduling-log = \"4 MiB\"\naperture-commit-limit = \"{memory}\"",
        "compression = true\nnotify = [\"eviction\", \"io-mmu-unmap\"]",
    ),
    (
        "addressing-model = \"gpu-va-io-mmu-global\"\nscheduling-log = \"1 MiB\"\npaging-va-mib = 1\n\
         busy-notify-every = 3\naperture-commit-limit = \"{memory}\"",
        "compression = true\nnotify = [\"eviction\", \"io-mmu-unmap\"]",
    ),
    (
        "local-memory = \"16 MiB\"\naperture-commit-limit = \"{memory}\"",
        "segments = \"local-or-system\"\ncompression = true\nnotify = [\"eviction\"]",
    ),
    (
        "page-size = \"4 KiB\"\nlocal-memory = \"{memory}\"\naperture-commit-limit = \"8 MiB\"\n\
         invalid-tlb-entries-not-cached = false",
        "segments = \"local-or-system\"\nnotify = [\"eviction\"]",
    ),
];

/// Kernels submitted ahead. Each run takes the next number, because all numbers with everything else would take
/// minutes.
const AHEAD: [u32; 5] = [0, 1, 3, 16, 64];

/// The amounts of memory for a workload whose largest kernel needs `least` MiB.
fn memories(least: u64) -> [String; 6] {
    let just_enough = format!("{least} MiB");
    let a_bit_more = format!("{} MiB", least + 2);
    let [third, half, most, all] = ["33%", "50%", "80%", "100%"].map(str::to_owned);
    [just_enough, a_bit_more, third, half, most, all]
}

/// Checks that a run came to its end, or was refused because its memory is too small.
fn ends(run: &Run, scenario: &str) -> bool {
    let too_small = ["does not fit in local memory", "cannot run the workload", "for the workload's buffers"];
    let refused = run.status == Some(2) && too_small.iter().any(|words| run.stderr.contains(words));
    assert!(run.status == Some(0) || refused, "`vidmm run` of this scenario:\n{scenario}\n{run}");
    !refused
}

/// Runs one workload on all machines, in all amounts of memory.
fn runs_everywhere(workload: usize) {
    let scratch = Scratch::new();
    let (workload, least) = WORKLOADS[workload];
    let mut ahead = AHEAD.iter().cycle();
    let mut ran = 0;
    for machine in MACHINES {
        for memory in memories(least) {
            let ahead = ahead.next().expect("a cycle does not end");
            let scenario = format!(
                "[adapter]\nlocal-memory = \"{memory}\"\n{machine}\n[client]\nahead = {ahead}\ncontent = \"ramp\"\n\
                 [workload]\n{workload}"
            );
            let run = vidmm_run(&[&scratch.file("scenario.toml", &scenario)]);
            ran += usize::from(ends(&run, &scenario));
        }
    }
    // Four amounts are above the least by far.
    assert!(ran >= 4 * MACHINES.len(), "only {ran} runs came to their end");
}

/// Runs one workload on all machines with buffers in system memory, in all amounts of it.
fn runs_in_system_memory(workload: usize) {
    let scratch = Scratch::new();
    let (workload, least) = WORKLOADS[workload];
    let mut ahead = AHEAD.iter().cycle();
    let mut ran = 0;
    for (machine, client) in IN_SYSTEM_MEMORY {
        for memory in memories(least) {
            let ahead = ahead.next().expect("a cycle does not end");
            let machine = machine.replace("{memory}", &memory);
            let scenario = format!(
                "[adapter]\n{machine}\n[client]\nahead = {ahead}\ncontent = \"ramp\"\n{client}\n[workload]\n{workload}"
            );
            let run = vidmm_run(&[&scratch.file("scenario.toml", &scenario)]);
            ran += usize::from(ends(&run, &scenario));
        }
    }
    assert!(ran >= 4 * IN_SYSTEM_MEMORY.len(), "only {ran} runs came to their end");
}

#[test]
#[ignore = "takes long, runs in .ci/run"]
fn training_runs_everywhere() {
    runs_everywhere(0);
}

#[test]
#[ignore = "takes long, runs in .ci/run"]
fn training_runs_in_system_memory() {
    runs_in_system_memory(0);
}

#[test]
#[ignore = "takes long, runs in .ci/run"]
fn cyclic_layers_run_in_system_memory() {
    runs_in_system_memory(1);
}

#[test]
#[ignore = "takes long, runs in .ci/run"]
fn textures_run_in_system_memory() {
    runs_in_system_memory(2);
}

#[test]
#[ignore = "takes long, runs in .ci/run"]
fn serving_runs_in_system_memory() {
    runs_in_system_memory(3);
}

#[test]
#[ignore = "takes long, runs in .ci/run"]
fn cyclic_layers_run_everywhere() {
    runs_everywhere(1);
}

#[test]
#[ignore = "takes long, runs in .ci/run"]
fn textures_run_everywhere() {
    runs_everywhere(2);
}

#[test]
#[ignore = "takes long, runs in .ci/run"]
fn serving_runs_everywhere() {
    runs_everywhere(3);
}

/// D35: system memory is no place where a workload runs for nothing.
#[test]
fn half_of_the_memory_in_local_segments_is_faster_than_all_in_system_memory() {
    let scratch = Scratch::new();
    let text = std::fs::read_to_string(workspace().join("scenarios/residency/over-the-bus.toml")).expect("it is there");
    let of_run = |segments: &str| {
        let scenario =
            scratch.file(&format!("{segments}.toml"), text.replace("\"system\"", &format!("\"{segments}\"")));
        let path = scratch.path(&format!("{segments}.json"));
        vidmm_run(&[&scenario, "--summary", &path]).expect(0);
        let summary = summary(&path);
        ["virtual_ns", "work_ns", "bus_ns"].map(|name| summary[name].as_u64().unwrap_or(0))
    };
    let [local_ns, _, local_bus] = of_run("local");
    let [system_ns, work_ns, bus_ns] = of_run("system");
    assert!(local_ns < system_ns, "{local_ns} ns with half in local segments, {system_ns} ns without");
    assert_eq!(local_bus, 0, "what is in local memory needs no bus");
    assert!(bus_ns > work_ns / 2 && bus_ns < work_ns, "{bus_ns} ns of {work_ns} are lost");
}
