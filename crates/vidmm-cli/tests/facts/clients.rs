//! Models of real clients, as processes of scenarios: the mistake of one is found with every seed, the others run any
//! workload.

use crate::common::{Scratch, summary, vidmm_run, workspace};
use serde_json::{Value, json};

/// The clients without a mistake.
const RIGHT: [&str; 3] = ["sync-point-lru", "mixed-fixed", "controller"];

/// Runs a scenario and returns its figures.
#[track_caller]
fn figures(text: &str, seed: u64, status: i32) -> Value {
    let scratch = Scratch::new();
    let (scenario, figures) = (scratch.file("clients.toml", text), scratch.path("figures.json"));
    vidmm_run(&[&scenario, "--seed", &seed.to_string(), "--summary", &figures]).expect(status);
    summary(&figures)
}

/// The scenario in which the mistake is found.
fn with_the_mistake() -> String {
    let path = workspace().join("scenarios/clients-mixed-bug.toml");
    std::fs::read_to_string(path).expect("there is the scenario")
}

/// When a submission needs evicted allocations of both groups, only the local ones are made resident.
#[test]
fn the_mistake_of_the_mixed_client_is_found_with_every_seed() {
    for seed in 1..6 {
        let figures = figures(&with_the_mistake(), seed, 1);
        let [finding] = &figures["findings"].as_array().expect("a list")[..] else { panic!("one finding: {figures}") };
        let touched = json!({ "process": "mixed", "group": "non_local", "is_listed": false, "is_resident": false });
        assert_eq!((&finding["finding"], &finding["touched"]), (&json!("page-fault"), &touched), "seed {seed}");
        assert_eq!(figures["pages_wrong"], 0, "seed {seed}: it is found before a wrong page is read");
    }
}

#[test]
fn without_its_mistake_the_mixed_client_holds() {
    let fixed = with_the_mistake().replace("\"mixed\"", "\"mixed-fixed\"").replace("5_000", "2_000");
    for seed in 1..6 {
        let figures = figures(&fixed, seed, 0);
        assert_eq!((&figures["kernels_ended"], &figures["pages_wrong"]), (&json!(4_000), &json!(0)), "seed {seed}");
    }
}

/// A client keeps its process's list; all else is as in any process: its workload, the treatment of its buffers, its
/// changes.
#[test]
fn a_client_runs_any_workload() {
    for client in RIGHT {
        for lifetimes in ["destroy", "offer", "ignore"] {
            let text = format!(
                "client.lifetimes = \"{lifetimes}\"\nadapter.local-memory = \"60%\"\nadapter.aperture-commit-limit = \"60%\"\n\
                 [[process]]\nname = \"A\"\nclient = \"{client}\"\n\
                 kind = \"transformer-training\"\nlayers = 4\nhidden = 256\nsequence = 128\nbatch = 2\nheads = 4\n\
                 [[process]]\nclient = \"{client}\"\nkind = \"zipf-textures\"\ntextures = 64\n\
                 texture-bytes = \"512 KiB\"\ntarget-bytes = \"1 MiB\"\nframes = 60\n\
                 [[change]]\nat = \"3 ms\"\nprocess = \"A\"\ntrim = true\n\
                 [[change]]\nat = \"400 ms\"\nprocess = \"{client}\"\nexit = true\n"
            );
            let figures = figures(&text, 1, 0);
            let processes = figures["processes"].as_array().expect("a list");
            assert_eq!(processes.len(), 2);
            for process in processes {
                assert_eq!(process["client"], client);
                assert!(
                    ["pages_checked", "make_residents"].iter().all(|figure| process[figure].as_u64() > Some(0)),
                    "{process}"
                );
            }
            assert!(figures["evictions"].as_u64() > Some(0), "there is no pressure: {figures}");
            assert_eq!(figures["pages_wrong"], 0);
        }
    }
}

#[test]
fn the_client_s_list_is_compared_with_a_list_that_is_kept_otherwise() {
    let text = "adapter.local-memory = \"40%\"\n[[process]]\nclient = \"controller\"\nsubmissions = 2_000\n\
                [compare]\nresidency = \"kept\"\n[[check]]\nthat = \"copied\"\nat-most = 1000\n";
    let scratch = Scratch::new();
    let run = vidmm_run(&[&scratch.file("compared.toml", text)]).expect(0);
    assert!(run.stdout.contains("  otherwise   ") && !run.stdout.contains("held        1.000 times"), "{run}");
    let kept = vidmm_run(&[&scratch.file("kept.toml", text), "--residency", "kept"]).expect(0);
    assert!(kept.stdout.contains("held        1.000 times"), "{kept}");
}

/// The mixed client makes everything resident when it is created. So the next process has no room for its page tables
/// until the client has trimmed.
#[test]
fn a_process_begins_when_its_page_tables_have_room() {
    let process = |client| format!("[[process]]\nclient = \"{client}\"\nsubmissions = 500\n");
    let adapter = "[adapter]\nlocal-memory = \"6 MiB\"\naperture-commit-limit = \"4 MiB\"\n";
    let figures = figures(&format!("{adapter}{}{}", process("mixed-fixed"), process("controller")), 1, 0);
    assert_eq!((&figures["kernels_ended"], &figures["pages_wrong"]), (&json!(1_000), &json!(0)));
}
