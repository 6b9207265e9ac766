//! `vidmm exec --trace`, and runs of the traces. `.ci/layer` watches programs of others.

use crate::common::{Scratch, shell};

/// Two buffers of 64 KiB, used in turn by submissions that the program waits for.
fn trace() -> String {
    let mut trace = "vidmm-trace 1\n0 device 1\n0 memory 1 1 131072 local\n".to_owned();
    trace += "0 buffer 1 1 0 65536\n0 buffer 2 1 65536 65536\n0 uncovered maps\n";
    for number in 1..=20_u64 {
        let (at, buffer) = (1000 * number, 1 + number % 2);
        trace += &format!("{at} submit 1 1 {number}\nupdate {buffer} 0 65536\n{} done 1 1 {number}\n", at + 500);
    }
    trace + "end\n"
}

#[test]
fn a_watched_trace_runs_alone_and_as_a_process_of_a_scenario_and_is_replayed() {
    let folder = Scratch::new();
    let path = folder.path("out.vt");
    std::fs::write(&path, trace()).unwrap();
    let run = shell(&format!("vidmm run --trace {path} --local-memory 1MiB")).expect(0);
    assert!(run.stdout.contains("20 kernels and 2 uploads") && run.stdout.contains("kernels: 0 wrong\n"), "{run}");
    let scenario = folder.path("two.toml");
    let process = format!("[[process]]\ntrace = \"{path}\"\n");
    std::fs::write(&scenario, format!("name = \"two\"\n{process}{process}")).unwrap();
    let run = shell(&format!("vidmm run {scenario} --local-memory 2MiB")).expect(0);
    assert!(run.stdout.contains("40 kernels and 4 uploads of 2 processes"), "{run}");
    // Half of the memory holds one buffer, and each submission needs the other buffer: 18 of 22 uses miss.
    let replay = shell(&format!("vidmm replay {path} --local-memory 50% --policy lru --ahead 0")).expect(0);
    assert!(
        replay.stdout.contains("out.vt: vidmm, ") && replay.stdout.contains(" 1.1 MiB    1.2 MiB  81.82 %"),
        "{replay}"
    );
    std::fs::write(&path, trace().replace("7500 done 1 1 7", "7500 done 1 1 8")).unwrap();
    let refused = shell(&format!("vidmm replay {path} --local-memory 50%")).expect(2);
    assert!(refused.stderr.contains("line 27: found `8`, expected a submission above"), "{refused}");
}

#[test]
fn a_program_without_vulkan_leaves_no_trace_and_exec_says_so() {
    let folder = Scratch::new();
    let path = folder.path("out.vt");
    let run = shell(&format!("vidmm exec --trace {path} -- true")).expect(2);
    assert!(run.stderr.contains("made no instance through Vulkan's loader"), "{run}");
    assert!(!std::path::Path::new(&path).exists());
}

#[test]
fn a_program_without_vulkan_is_not_paged_and_exec_says_so() {
    let run = shell("vidmm exec --local-memory 16MiB -- true").expect(2);
    assert!(run.stderr.contains("made no device through Vulkan's loader: nothing was paged"), "{run}");
}

#[test]
fn exec_does_one_thing_at_a_time() {
    for arguments in [
        "--kmt --trace out.vt",
        "--trace out.vt --faults refuse@1/2",
        "--trace out.vt --local-memory 1MiB",
        "--trace out.vt --policy lru",
        "--kmt --heap 1GiB",
        "--faults refuse@1/2",
        "--mode c",
        "--policy best",
    ] {
        shell(&format!("vidmm exec {arguments} -- true")).expect(2);
    }
}
