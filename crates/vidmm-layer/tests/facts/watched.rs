//! The traces of the programs.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::{env, fs};

use VkLayer_vidmm::{LAYER_NAME, TRACE_VARIABLE, manifest, of_process};
use vidmm_trace::{ImportOptions, import};

use crate::crowd::{ROUNDS, THREADS};

pub const VALIDATION: &str = "VK_LAYER_KHRONOS_validation";

const EACH_KIND: &str = "program::uses_each_kind_of_buffer";
const CROWD: &str = "crowd::threads_and_devices_and_a_child";

/// The program's buffers by number, in the order of their binds.
const EXPECTED: &str = "\
submit 1 1 1
read 1 0 16
update 2 0 4096
read 3 256 256
update 4 0 256
read 5 256 16
update 6 512 256
submit 1 1 2
update 7 128 64
read 10 0 12
submit 1 1 3
read 11 0 1024
write 12 64 1024
write 13 0 256
submit 1 1 4
read 8 64 65472
read 9 128 65408
read 10 32 20
submit 1 1 5
update 14 256 512
done 1 1 5
submit 1 1 6
update 12 0 128
done 1 1 6
submit 1 1 7
write 1 0 64
read 1 64 64
read 2 0 64
update 2 64 64
write 2 128 128
submit 1 1 8
done 1 1 8
";

/// Runs the program under layers, with a trace. Returns what the program printed, if there is a device.
fn run(program: &str, layers: &[&str], trace: Option<&Path>) -> Option<String> {
    run_with(program, layers, trace.map(|trace| (TRACE_VARIABLE, trace.to_owned().into_os_string())))
}

/// Runs the program under layers, with variables. Returns what the program printed, if there is a device.
pub fn run_with(
    program: &str,
    layers: &[&str],
    variables: impl IntoIterator<Item = (&'static str, OsString)>,
) -> Option<String> {
    let library = library();
    let folder = tempfile::tempdir().expect("there is a folder");
    let shaders = folder.path().join("shaders");
    fs::create_dir(&shaders).expect("there is a folder");
    fs::write(folder.path().join("layer.json"), manifest(library.to_str().expect("a path of text")))
        .expect("it is written");
    let mut command = Command::new(env::current_exe().expect("this program"));
    command
        .args(["--exact", program, "--ignored", "--nocapture"])
        .env("VIDMM_LAYER_SHADERS", &shaders)
        .env("VK_INSTANCE_LAYERS", layers.join(":"))
        .env("VK_ADD_LAYER_PATH", folder.path())
        .env_remove(TRACE_VARIABLE)
        .envs(variables)
        .stderr(Stdio::inherit());
    let output = command.output().expect("this program runs");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{text}");
    (!text.contains("skipped:")).then_some(text)
}

/// The layer's library, which the build of this test has made.
fn library() -> PathBuf {
    let deps = env::current_exe().expect("this program").parent().expect("a folder").to_owned();
    let library = deps.join("libVkLayer_vidmm.so");
    assert!(library.exists(), "{}", library.display());
    library
}

/// The submissions, their uses and their ends, without times.
fn submissions(trace: &str) -> String {
    let mut lines = String::new();
    for line in trace.lines() {
        let words = Vec::from_iter(line.split(' '));
        match words[..] {
            ["read" | "write" | "update", ..] => lines += &format!("{line}\n"),
            [_, "submit" | "done", ..] => lines += &format!("{}\n", words[1..].join(" ")),
            _ => {}
        }
    }
    lines
}

#[test]
fn the_trace_has_each_use_of_each_kind_of_buffer() {
    let folder = tempfile::tempdir().expect("there is a folder");
    let path = folder.path().join("out.vt");
    let Some(_) = run(EACH_KIND, &[LAYER_NAME], Some(&path)) else { return };
    let trace = fs::read_to_string(&path).expect("there is a trace");
    assert_eq!(submissions(&trace), EXPECTED, "{trace}");
    // The trace names no place in the program's memory, and no file.
    assert!(!trace.contains("0x") && !trace.contains('/'), "{trace}");
    let count = |event: &str| trace.lines().filter(|line| line.split(' ').nth(1) == Some(event)).count();
    assert_eq!([count("memory"), count("buffer"), count("destroy"), count("free")], [1, 14, 14, 1], "{trace}");
    assert!(trace.lines().any(|line| line.ends_with(" uncovered images")), "{trace}");
    // The program has two instances one behind the other, and one trace.
    assert!(!of_process(&path, 2).exists());

    // The reader understands what the layer writes.
    let whole = format!("{trace}end\n");
    let workload = import::parse("program", whole.as_bytes(), &ImportOptions::default()).expect("a trace");
    assert_eq!(workload.kernels.iter().filter(|kernel| !kernel.is_upload()).count(), 7);
}

#[test]
fn validation_finds_nothing_on_either_side_of_the_layer() {
    let folder = tempfile::tempdir().expect("there is a folder");
    for (number, layers) in [[VALIDATION, LAYER_NAME], [LAYER_NAME, VALIDATION]].iter().enumerate() {
        let path = folder.path().join(format!("{number}.vt"));
        let Some(text) = run(EACH_KIND, layers, Some(&path)) else { return };
        assert!(!text.contains("Validation"), "{text}");
        assert_eq!(submissions(&fs::read_to_string(&path).expect("there is a trace")), EXPECTED);
    }
}

#[test]
fn threads_and_devices_have_one_trace_and_a_child_has_another() {
    let folder = tempfile::tempdir().expect("there is a folder");
    let path = folder.path().join("out.vt");
    let Some(_) = run(CROWD, &[LAYER_NAME], Some(&path)) else { return };
    // The reader refuses numbers and times that are out of order, and uses of what is gone.
    let whole = format!("{}end\n", fs::read_to_string(&path).expect("there is a trace"));
    let workload = import::parse("crowd", whole.as_bytes(), &ImportOptions::default()).expect("a trace");
    let of = |process| workload.kernels.iter().filter(|kernel| kernel.process == process).count();
    assert_eq!([of(1), of(2)], [(THREADS + 1) * ROUNDS, THREADS * ROUNDS]);
    assert!(workload.kernels.iter().all(|kernel| kernel.reads.is_empty() && kernel.writes.len() == 1));
    assert_eq!(fs::read_to_string(of_process(&path, 2)).expect("the child has a trace"), "vidmm-trace 1\n");
    assert!(!of_process(&path, 3).exists());
}

#[test]
fn without_a_trace_the_layer_only_hands_calls_on() {
    run(EACH_KIND, &[LAYER_NAME], None);
}

#[test]
fn the_library_exports_what_the_loader_asks_for_and_nothing_else() {
    let Ok(output) = Command::new("nm").args(["-D", "--defined-only"]).arg(library()).output() else { return };
    let text = String::from_utf8_lossy(&output.stdout);
    let names = Vec::from_iter(text.lines().filter_map(|line| line.split(' ').next_back()));
    assert_eq!(names, ["vkNegotiateLoaderLayerInterfaceVersion"]);
}
