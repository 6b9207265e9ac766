//! A Vulkan device under the manager: the same decisions as on the model GPU, and the same bytes.
//!
//! A test skips where there is no device, and says so; with `VIDMM_REQUIRE_VULKAN=1` it fails. Validation watches where its
//! layers are installed, and must be there with that variable.

use std::fmt::{self, Write};
use std::path::{Path, PathBuf};
use std::process::Command;

use vidmm::NumberedEvent;
use vidmm_cli::{ModelGpu, VulkanGpu};
use vidmm_runtime::Machine;
use vidmm_sim::{
    ExplicitScenario, Features, MachineDesc, MachineFactory, Observer, Profile, ScenarioFile, SimDesc, run_explicit,
    simulate,
};
use vidmm_vulkan::{Mode, Rules, Unbinding, Validation, VulkanError, caught, take_validation_messages};

use crate::common::{is_long, workspace};

/// The random worlds that are compared. A Vulkan device made of a CPU plays ten in two seconds.
const WORLDS: u64 = 200;

/// Steps of each world.
const STEPS: u64 = 300;

/// The worlds that are compared again on a device that binds less.
const WORLDS_WITH_RULES: u64 = 20;

/// A device, watched if it can be; none if there is none and none is required.
fn device() -> Option<VulkanGpu> {
    let is_required = std::env::var_os("VIDMM_REQUIRE_VULKAN").is_some_and(|value| value != "0");
    let opened = match VulkanGpu::open(Validation::On) {
        Err(VulkanError::NoLayer(_)) if !is_required => VulkanGpu::open(Validation::Off),
        opened => opened,
    };
    match opened {
        Ok(device) => Some(device),
        Err(error) if is_required => panic!("VIDMM_REQUIRE_VULKAN says that there must be a device, and: {error}"),
        Err(error) => {
            // Not through `print`, which tests keep to themselves.
            let _ = std::io::Write::write_all(&mut std::io::stderr(), format!("skipped: {error}\n").as_bytes());
            None
        }
    }
}

/// The model GPU, asked for no more than a Vulkan device is.
struct Alike;

impl MachineFactory for Alike {
    fn lacks(&self) -> Features {
        VulkanGpu::LACKS
    }

    fn machine(&self, desc: &MachineDesc) -> Result<Machine, String> {
        ModelGpu.machine(desc)
    }
}

/// Follows from every event of a run (FNV-1a).
struct Hash(u64);

impl Write for Hash {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        text.bytes().for_each(|byte| self.0 = (self.0 ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3));
        Ok(())
    }
}

impl Observer for Hash {
    fn event(&mut self, event: &NumberedEvent) {
        write!(self, "{event:?}").expect("nothing is written anywhere");
    }
}

/// All that is said of a run: its events as one number, and everything else that can be told.
fn told_of_world(seed: u64, factory: &dyn MachineFactory) -> Option<(u64, String)> {
    let desc = SimDesc { seed, steps: STEPS, profile: Profile::Any, policy: None, digest: true };
    let mut hash = Hash(0xcbf2_9ce4_8422_2325);
    let outcome = simulate(desc, factory, &mut hash).ok()?;
    let failure = outcome.failure.as_ref().map(ToString::to_string);
    Some((hash.0, format!("{:?} {failure:?} {:?}", outcome.digest, outcome.report)))
}

fn told_of_scenario(scenario: &ExplicitScenario, factory: &dyn MachineFactory) -> (u64, String) {
    let mut hash = Hash(0xcbf2_9ce4_8422_2325);
    let report = run_explicit(scenario, factory, &mut hash).expect("the scenario runs");
    (hash.0, format!("{report:?}"))
}

fn assert_worlds_are_alike(devices: &[VulkanGpu], seeds: std::ops::RangeInclusive<u64>) {
    let mut num_worlds = 0;
    for seed in seeds {
        let Some(expected) = told_of_world(seed, &Alike) else { continue };
        assert!(expected.1.contains(" None "), "seed {seed} fails on the model GPU: {}", expected.1);
        for device in devices {
            assert_eq!(told_of_world(seed, device).as_ref(), Some(&expected), "seed {seed}, {device:?}");
        }
        num_worlds += 1;
    }
    assert!(num_worlds > 0, "no world was drawn");
    assert_eq!(take_validation_messages(), [""; 0], "validation");
}

/// Three machines: the model GPU, the reference driver's commands on the device, and on the device the driver of real time.
#[test]
#[ignore = "takes long, runs in .ci/run"]
fn random_worlds_are_as_on_the_model_gpu() {
    let Some(device) = device() else { return };
    assert_worlds_are_alike(&[device.clone(), device.with_direct_driver()], 1..=WORLDS);
}

/// Where a device binds less or later, the driver of real time leads kernels to the same bytes.
#[test]
fn worlds_are_the_same_with_the_driver_of_real_time() {
    let Some(device) = device() else { return };
    let rules = device.device().report().rules();
    let local_only = Rules { mode: Mode::BindsLocalOnly, ..rules };
    let lazy = Rules { unbinding: Unbinding::Lazy, ..rules };
    let devices = [local_only, lazy].map(|rules| device.clone().with_rules(rules).with_direct_driver());
    assert_worlds_are_alike(&devices, 1..=WORLDS_WITH_RULES);
}

#[test]
fn worlds_are_the_same_where_only_local_memory_is_bound() {
    let Some(device) = device() else { return };
    let rules = Rules { mode: Mode::BindsLocalOnly, ..device.device().report().rules() };
    assert_worlds_are_alike(&[device.with_rules(rules)], 1..=WORLDS_WITH_RULES);
}

#[test]
fn worlds_are_the_same_where_memory_is_bound_in_units_of_64_kib() {
    let Some(device) = device() else { return };
    let rules = Rules { granule_bytes: 64 << 10, ..device.device().report().rules() };
    assert_worlds_are_alike(&[device.with_rules(rules)], 1..=WORLDS_WITH_RULES);
}

#[test]
fn worlds_are_the_same_where_what_is_unmapped_stays_bound() {
    let Some(device) = device() else { return };
    let rules = Rules { unbinding: Unbinding::Lazy, ..device.device().report().rules() };
    assert_worlds_are_alike(&[device.with_rules(rules)], 1..=WORLDS_WITH_RULES);
}

/// All scenario files made of steps.
fn scenarios() -> Vec<(PathBuf, ExplicitScenario)> {
    let files = walkdir::WalkDir::new(workspace().join("scenarios")).sort_by_file_name().into_iter();
    let files = files.filter_map(Result::ok).map(walkdir::DirEntry::into_path);
    let files = files.filter(|path| path.extension().is_some_and(|extension| extension == "toml"));
    let explicit = |path: PathBuf| match ScenarioFile::load(&path) {
        Ok(ScenarioFile::Explicit(scenario)) => Some((path, *scenario)),
        _ => None,
    };
    files.filter_map(explicit).collect()
}

#[test]
#[ignore = "takes long, runs in .ci/run"]
fn scenarios_are_as_on_the_model_gpu() {
    let Some(device) = device() else { return };
    let mut num_run = 0;
    for (path, scenario) in scenarios() {
        if !(scenario.needs() & VulkanGpu::LACKS).is_empty() {
            continue;
        }
        let name = path.strip_prefix(workspace()).unwrap_or(&path).display().to_string();
        if is_long(&name) {
            continue;
        }
        match caught(|| told_of_scenario(&scenario, &device)) {
            Err(error) => panic!("{name}: {error}"),
            Ok(told) => assert_eq!(told, told_of_scenario(&scenario, &Alike), "{name}"),
        }
        num_run += 1;
    }
    assert!(num_run > 90, "only {num_run} scenarios were run");
    assert_eq!(take_validation_messages(), [""; 0], "validation");
}

/// The events of a workload on a GPU, which were checked as they came.
fn events_of(gpu: &str, arguments: &[&str]) -> Vec<String> {
    let scratch = tempfile::tempdir().expect("there is room");
    let log = scratch.path().join("run.jsonl");
    let output = Command::new(env!("CARGO_BIN_EXE_vidmm"))
        .current_dir(workspace())
        .args(["run", "--gpu", gpu, "--events"])
        .arg(&log)
        .args(arguments)
        .output()
        .expect("the program starts");
    assert!(output.status.success(), "{gpu} {arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    let text = std::fs::read_to_string(log).expect("the log is there");
    // The first line says how the log came about, and the last one sums up all before it.
    let lines: Vec<&str> = text.lines().skip(1).collect();
    let (end, events) = lines.split_last().expect("the log ends");
    assert!(end.contains("vidmm_events_end"), "{end}");
    events.iter().map(|&line| without_quantum(line)).collect()
}

/// An event without the quantum of the adapter, which is none on a device that cannot be preempted.
fn without_quantum(line: &str) -> String {
    let (before, quantum) = line.split_once("\"tdr_quantum\":").unwrap_or((line, ""));
    let after = quantum.split_once(',').map_or("", |(_, after)| after);
    format!("{before}{after}")
}

#[test]
#[ignore = "takes long, runs in .ci/run"]
fn workloads_are_as_on_the_model_gpu() {
    if device().is_none() {
        return;
    }
    for arguments in [
        &["scenarios/training.toml", "--scale", "64"][..],
        &["scenarios/textures.toml", "--scale", "32"],
        &["scenarios/two-devices.toml", "--scale", "32"],
        &["scenarios/cyclic.toml", "--scale", "4"],
    ] {
        assert_workload_is_alike(arguments);
    }
}

fn assert_workload_is_alike(arguments: &[&str]) {
    let (vulkan, soft) = (events_of("vulkan", arguments), events_of("soft", arguments));
    assert!(vulkan.len() > 1000, "{arguments:?}: {} events", vulkan.len());
    let first = vulkan.iter().zip(&soft).position(|(one, other)| one != other);
    assert_eq!((vulkan.len(), first), (soft.len(), None), "{arguments:?}");
}

/// A scenario file that is that of `name`, if any, with these lines at the head of its `[adapter]`.
fn with_adapter(folder: &Path, name: Option<&str>, lines: &str) -> String {
    let read = |name| std::fs::read_to_string(workspace().join(name)).expect("the scenario is there");
    let scenario = name.map_or_else(|| "[adapter]".to_owned(), read);
    let path = folder.join("scenario.toml");
    std::fs::write(&path, scenario.replacen("[adapter]", &format!("[adapter]\n{lines}\n"), 1)).expect("it is written");
    path.to_str().expect("the path is text").to_owned()
}

#[test]
#[ignore = "takes long, runs in .ci/run"]
fn evicted_textures_are_decompressed_through_windows_of_any_size() {
    if device().is_none() {
        return;
    }
    let folder = tempfile::tempdir().expect("there is room");
    for mib in [4, 16, 64] {
        let lines = format!("paging-va-mib = {mib}");
        let scenario = with_adapter(folder.path(), Some("scenarios/textures.toml"), &lines);
        assert_workload_is_alike(&[&scenario, "--scale", "32"]);
    }
}

/// The model GPU yields after a quantum, and a Vulkan device does not: neither is asked to.
#[test]
#[ignore = "needs a recorded trace, and half a minute"]
fn a_recorded_trace_is_as_on_the_model_gpu() {
    if device().is_none() {
        return;
    }
    let traces = std::env::var_os("VIDMM_TRACES").map_or_else(|| workspace().join("../shared/traces"), PathBuf::from);
    let bert = traces.join("g10_bert_base_256.txt");
    let folder = tempfile::tempdir().expect("there is room");
    let scenario = with_adapter(folder.path(), None, "tdr = { quantum = \"100 s\" }");
    let bert = bert.to_str().expect("the path is text");
    assert_workload_is_alike(&[&scenario, "--trace", bert, "--scale", "32", "--local-memory", "50%"]);
}

#[test]
fn more_than_the_device_has_is_refused() {
    let Some(device) = device() else { return };
    if !device.device().report().is_lavapipe {
        return;
    }
    let output = vidmm(&["run", "--gpu", "vulkan", "scenarios/residency/ready-work-behind-a-page-in.toml"], false);
    assert_eq!(output.0, Some(2));
    assert_eq!(output.1, "");
    assert!(output.2.contains("of addresses for sparse buffers") && output.2.contains("--scale"), "{}", output.2);
}

/// The status, the output and the errors of the program; without the drivers of Vulkan if `is_bare`.
fn vidmm(arguments: &[&str], is_bare: bool) -> (Option<i32>, String, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_vidmm"));
    command.current_dir(workspace()).args(arguments);
    if is_bare {
        command.env("VK_DRIVER_FILES", "/nowhere").env("VK_ICD_FILENAMES", "/nowhere");
    }
    let output = command.output().expect("the program starts");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (output.status.code(), text(&output.stdout), text(&output.stderr))
}

#[test]
fn a_machine_without_a_device_is_told_so() {
    let (status, printed, _) = vidmm(&["doctor"], true);
    assert_eq!(status, Some(1));
    assert!(printed.starts_with("not usable"), "{printed}");
    let (status, printed, _) = vidmm(&["doctor", "--json"], true);
    assert_eq!(status, Some(1));
    let findings: serde_json::Value = serde_json::from_str(&printed).expect("it is JSON");
    assert_eq!(findings["usable"], serde_json::Value::Null);
    assert!(findings["reason"].as_str().is_some_and(|reason| reason.contains("Vulkan")), "{findings}");
    let (status, _, errors) = vidmm(&["run", "--gpu", "vulkan", "scenarios/cyclic.toml"], true);
    assert_eq!(status, Some(2));
    assert!(errors.starts_with("error: ") && errors.contains("Vulkan"), "{errors}");
}

#[test]
fn a_device_is_described() {
    let Some(device) = device() else { return };
    let (status, printed, _) = vidmm(&["doctor"], false);
    assert_eq!(status, Some(0), "{printed}");
    let name = &device.device().report().name;
    assert!(printed.contains(name) && printed.contains("binds in") && printed.contains("usable"), "{printed}");
    let (status, printed, _) = vidmm(&["doctor", "--json"], false);
    assert_eq!(status, Some(0), "{printed}");
    let findings: serde_json::Value = serde_json::from_str(&printed).expect("it is JSON");
    let usable = findings["usable"].as_u64().expect("a device is usable") as usize;
    assert_eq!(findings["devices"][usable]["name"], **name);
    assert!(findings["devices"][usable]["granule_bytes"].as_u64().is_some_and(|granule| granule >= 4096));
}

#[test]
fn a_device_is_measured_on_request() {
    if device().is_none() {
        return;
    }
    let (status, printed, errors) = vidmm(&["doctor", "--measure", "--json"], false);
    assert_eq!(status, Some(0), "{errors}");
    let findings: serde_json::Value = serde_json::from_str(&printed).expect("it is JSON");
    let figures = |list: &str, figure: &str| -> Vec<f64> {
        let list = findings["measured"][list].as_array().expect("it is measured");
        list.iter().map(|of| of[figure].as_f64().expect("it is a number")).collect()
    };
    let copies = [figures("copies", "bytes_per_second_in"), figures("copies", "bytes_per_second_out")].concat();
    let bindings = [figures("bindings", "nanoseconds"), figures("bindings", "ranges")].concat();
    let stores = figures("stores", "bytes_per_second");
    assert_eq!((copies.len(), bindings.len(), stores.len()), (10, 12, 3));
    assert!([copies, bindings, stores].concat().into_iter().all(|figure| figure > 0.0), "{printed}");
}

#[test]
fn missing_features_are_skipped_by_name() {
    if device().is_none() {
        return;
    }
    let (status, _, errors) = vidmm(&["run", "--gpu", "vulkan", "scenarios/splitting/p35-unbind.toml"], false);
    assert_eq!(status, Some(2));
    assert!(errors.contains("physical addresses"), "{errors}");
}

/// The SPIR-V in the tree is what the GLSL beside it gives, by the compiler of the machine that checks changes.
#[test]
fn spir_v_is_what_the_glsl_gives() {
    let shaders = workspace().join("crates/vidmm-vulkan/shaders");
    let made = tempfile::tempdir().expect("there is room");
    let is_required = std::env::var_os("VIDMM_REQUIRE_VULKAN").is_some_and(|value| value != "0");
    match Command::new(shaders.join("build.sh")).arg(made.path()).output() {
        Ok(output) if output.status.success() => {}
        failed if is_required => panic!("the shaders are not built: {failed:?}"),
        _ => return eprintln!("skipped: glslangValidator is not there"),
    }
    for name in ["digest", "write", "decompress", "stream"] {
        let file = format!("{name}.spv");
        let read = |folder: &Path| std::fs::read(folder.join(&file)).expect("the file is there");
        assert!(read(&shaders) == read(made.path()), "{file} is to be made again, by shaders/build.sh");
    }
}
