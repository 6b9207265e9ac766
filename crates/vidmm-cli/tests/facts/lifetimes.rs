//! The savings when a client gives up the buffers that it no longer uses: no manager could copy much less.
//!
//! The recorded traces are not part of the repository. The tests look for them in the folder that `VIDMM_TRACES` names, or else
//! in `../shared/traces` beside the workspace, and do without them where they are absent.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

use crate::common::{Scratch, summary, vidmm_run, workspace};
use vidmm_sim::ScenarioFile;
use vidmm_trace::{Engine, ImportOptions, Workload, import};

/// Pages of local memory, to which allocations are rounded.
const GRANULE: u64 = 64 << 10;

/// One step of training. A second one would page the same bytes again, which `least_bytes` does not count.
const ONE_STEP: &str = "name = \"one step\"\n[workload]\nkind = \"transformer-training\"\nsteps = 1\n";

/// The divisor of the traces' buffer sizes, because a test judges every page.
const SCALE: u64 = 16;

/// A workload, and the arguments that run it.
struct Subject {
    workload: Workload,
    arguments: Vec<String>,
}

/// Bytes that were copied between local and system memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Copied {
    r#in: u64,
    out: u64,
    local_memory: u64,
}

impl Copied {
    fn sum(self) -> u64 {
        self.r#in + self.out
    }
}

impl Subject {
    fn one_step(scratch: &Scratch) -> Self {
        let path = scratch.file("one-step.toml", ONE_STEP);
        let ScenarioFile::Workload(scenario) = ScenarioFile::load(Path::new(&path)).expect("it is a scenario") else {
            panic!("it is a workload");
        };
        let workload = scenario.load(Path::new("")).expect("it is generated").workload;
        Self { workload, arguments: vec![path] }
    }

    fn trace(name: &str) -> Option<Self> {
        let folder =
            std::env::var_os("VIDMM_TRACES").map_or_else(|| workspace().join("../shared/traces"), PathBuf::from);
        let path = folder.join(name);
        if !path.exists() {
            println!("skipped: {} is absent", path.display());
            return None;
        }
        let mut workload = import::read(&path, &ImportOptions::default()).expect("the published trace is good");
        workload.scale(SCALE);
        let path = path.to_str().expect("the path is text");
        let arguments = ["--trace", path, "--scale", &SCALE.to_string()].map(str::to_owned).to_vec();
        Some(Self { workload, arguments })
    }

    fn all(scratch: &Scratch) -> Vec<Self> {
        let traces = ["g10_bert_base_256.txt", "g10_vit_256.txt"].into_iter().filter_map(Self::trace);
        std::iter::once(Self::one_step(scratch)).chain(traces).collect()
    }

    /// Runs it in a share of the memory that it needs. All pages that kernels read must be right.
    fn run(&self, share: &str, lifetimes: &str, residency: &str) -> Copied {
        let scratch = Scratch::new();
        let figures = scratch.path("figures.json");
        let own = self.arguments.iter().map(String::as_str);
        let how = ["--local-memory", share, "--lifetimes", lifetimes, "--residency", residency, "--summary", &figures];
        vidmm_run(&own.chain(how).collect::<Vec<&str>>()).expect(0);
        let figures = summary(&figures);
        let bytes = |name: &str| figures[name].as_u64().expect("a figure is a number");
        Copied {
            r#in: bytes("bytes_paged_in"),
            out: bytes("bytes_paged_out"),
            local_memory: bytes("local_memory_bytes"),
        }
    }
}

/// The most bytes of content that exist at one time and will be read: written before a kernel starts, and read by it or
/// later, before they are overwritten.
fn live_content(workload: &Workload) -> u64 {
    let size = |buffer: u32| workload.buffers[buffer as usize].bytes.next_multiple_of(GRANULE);
    // Backwards: a buffer's content is live above a kernel that reads it, and below one that writes it.
    let mut live: BTreeMap<u32, u64> = BTreeMap::new();
    let mut most = 0;
    for kernel in workload.kernels.iter().rev() {
        kernel.writes.iter().for_each(|buffer| _ = live.remove(buffer));
        live.extend(kernel.reads.iter().map(|&buffer| (buffer, size(buffer))));
        // An upload runs beside kernels that come before it.
        if kernel.engine == Engine::Compute {
            most = most.max(live.values().sum());
        }
    }
    most
}

/// The fewest bytes that any manager can copy, with full knowledge of the future. Of the content that is live at one
/// time, the part that does not fit into local memory was copied out, and will be copied in.
fn least_bytes(workload: &Workload, local_memory: u64) -> u64 {
    2 * live_content(workload).saturating_sub(local_memory)
}

#[test]
fn giving_up_dead_buffers_copies_an_eighth_more_than_must_be_at_most() {
    let scratch = Scratch::new();
    for subject in Subject::all(&scratch) {
        for lifetimes in ["destroy", "offer"] {
            for residency in ["each-kernel", "kept"] {
                let copied = subject.run("50%", lifetimes, residency);
                let least = least_bytes(&subject.workload, copied.local_memory);
                let case = format!("{}: {lifetimes}, {residency}: {copied:?}, at least {least}", subject.workload.name);
                assert!(copied.sum() >= least, "{case}");
                assert!(copied.sum() * 8 <= least * 9, "{case}");
            }
        }
    }
}

#[test]
fn content_that_is_not_needed_again_is_not_copied_out() {
    let scratch = Scratch::new();
    for subject in Subject::all(&scratch) {
        for lifetimes in ["destroy", "offer"] {
            let copied = subject.run("50%", lifetimes, "each-kernel");
            assert_eq!(copied.r#in, copied.out, "{}: {lifetimes}", subject.workload.name);
        }
    }
}

#[test]
fn ignoring_lifetimes_copies_dead_buffers_out() {
    let scratch = Scratch::new();
    for subject in Subject::all(&scratch) {
        for residency in ["each-kernel", "kept"] {
            let copied = subject.run("50%", "ignore", residency);
            assert!(copied.out > 2 * copied.r#in, "{}: {residency}: {copied:?}", subject.workload.name);
        }
    }
}

#[test]
fn lifetimes_save_most_copies_of_a_recorded_training_iteration() {
    // No manager could do with less than 0.255 of them in half of the memory: that is `least_bytes`.
    for (share, at_most) in [("50%", 0.27), ("65%", 0.2), ("75%", 0.15)] {
        for subject in ["g10_bert_base_256.txt", "g10_vit_256.txt"].into_iter().filter_map(Subject::trace) {
            let without = subject.run(share, "ignore", "each-kernel").sum() as f64;
            for lifetimes in ["destroy", "offer"] {
                let ratio = subject.run(share, lifetimes, "each-kernel").sum() as f64 / without;
                assert!(ratio <= at_most, "{} in {share}: {lifetimes}: {ratio:.3}", subject.workload.name);
            }
        }
    }
}
