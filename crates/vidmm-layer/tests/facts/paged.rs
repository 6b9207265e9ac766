//! The residency mode, under programs of ours.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::BufReader;
use std::path::Path;

use VkLayer_vidmm::{FAULT_VARIABLE, Figures, LAYER_NAME, Mode, ResidencySettings};
use vidmm_trace::{Audit, LogReader};

use crate::kinds::{KIND_BYTES, KINDS};
use crate::watched::{VALIDATION, run_with};

/// The file of the log.
const EVENTS: &str = "events.jsonl";

const PROGRAM: &str = "kinds::reads_what_each_kind_had";

/// A run of the program in local memory for some of the kinds: what the program printed, and the figures of the layer.
fn run(kinds: u64, mode: Mode, layers: &[&str], fault: Option<&str>) -> Option<(String, Figures)> {
    let fault = fault.map(|fault| (FAULT_VARIABLE, OsString::from(fault)));
    let folder = tempfile::tempdir().expect("there is a folder");
    let settings = settings(kinds, mode, folder.path());
    let text = run_with(PROGRAM, layers, settings.variables().into_iter().chain(fault))?;
    let mut all = figures(folder.path());
    assert_eq!(all.len(), 1);
    audit(&folder.path().join(EVENTS));
    Some((text, all.remove(0)))
}

fn settings(kinds: u64, mode: Mode, folder: &Path) -> ResidencySettings {
    let figures = folder.join("figures");
    fs::create_dir(&figures).expect("there is a folder");
    ResidencySettings {
        local: Some(kinds * KIND_BYTES),
        heap: Some(1 << 28),
        mode: Some(mode),
        figures: Some(figures),
        events: Some(folder.join(EVENTS)),
        ..ResidencySettings::default()
    }
}

/// The figures of each device.
fn figures(folder: &Path) -> Vec<Figures> {
    let files = fs::read_dir(folder.join("figures")).expect("there is a folder").map(|file| file.unwrap().path());
    files.map(|file| Figures::read(&fs::read_to_string(file).expect("it is there"))).collect()
}

/// The auditor finds no broken invariant in a log, which is whole.
fn audit(log: &Path) {
    let mut reader = LogReader::new(BufReader::new(File::open(log).expect("there is a log"))).expect("a header");
    let mut audit = Audit::new();
    reader.by_ref().for_each(|event| audit.event(&event.expect("a whole log")));
    let findings = audit.finish();
    assert!(findings.is_empty(), "{findings:?}");
}

/// Whether all content was right.
fn is_right(text: &str) -> bool {
    assert!(text.contains("wrong "), "{text}");
    text.contains("wrong 0,")
}

#[test]
fn each_kind_of_buffer_keeps_its_content_in_both_modes() {
    let all = KINDS.len() as u64;
    for kinds in [all, all / 2, all / 4] {
        for mode in [Mode::BindsHome, Mode::BindsNothing] {
            let Some((text, figures)) = run(kinds, mode, &[LAYER_NAME], None) else { return };
            assert!(is_right(&text), "{text}");
            // Without room for all at once, mode a serves the rest from home, and mode b refuses.
            let is_refused = mode == Mode::BindsNothing && kinds < all;
            let result = if is_refused { "Err(ERROR_OUT_OF_DEVICE_MEMORY)" } else { "Ok(())" };
            assert!(text.contains(&format!("all at once: {result}")), "{text}");
            let served = if mode == Mode::BindsHome { all - kinds } else { 0 };
            assert_eq!((figures.get("served"), figures.get("refused")), (served, u64::from(is_refused)), "{figures}");
            assert_eq!(figures.get("split"), u64::from(kinds < all), "{figures}");
            assert!(figures.get("page-ins") >= all && figures.without.is_none(), "{figures}");
            assert_eq!(kinds == all, figures.get("evictions") == 0, "{figures}");
        }
    }
}

#[test]
fn planted_mistakes_are_found() {
    let faults = KINDS.map(|(kind, _)| format!("no-{kind}")).into_iter().chain(["no-write-back".to_owned()]);
    for fault in faults {
        let Some((text, _)) = run(3, Mode::BindsNothing, &[LAYER_NAME], Some(&fault)) else { return };
        assert!(!is_right(&text), "{fault}: {text}");
    }
    // In mode a use that is not seen is served from home, and right.
    let Some((text, _)) = run(3, Mode::BindsHome, &[LAYER_NAME], Some("no-uniform")) else { return };
    assert!(is_right(&text), "{text}");
}

#[test]
fn validation_finds_nothing_on_either_side() {
    for layers in [[VALIDATION, LAYER_NAME], [LAYER_NAME, VALIDATION]] {
        for mode in [Mode::BindsHome, Mode::BindsNothing] {
            let Some((text, _)) = run(3, mode, &layers, None) else { return };
            assert!(is_right(&text) && !text.contains("Validation"), "{text}");
        }
    }
}

#[test]
fn programs_of_many_threads_and_devices_run_as_without_the_layer() {
    for (program, devices) in [("crowd::threads_and_devices_and_a_child", 2), ("program::uses_each_kind_of_buffer", 1)]
    {
        for mode in [Mode::BindsHome, Mode::BindsNothing] {
            let folder = tempfile::tempdir().expect("there is a folder");
            let settings = settings(1, mode, folder.path());
            let Some(_) = run_with(program, &[LAYER_NAME], settings.variables()) else { return };
            let figures = figures(folder.path());
            assert_eq!(figures.len(), devices);
            // All memory of the programs was freed.
            let is_left = |figures: &Figures| figures.get("home-bytes") > 0 || figures.get("unfinished") > 0;
            assert!(figures.iter().all(|figures| figures.without.is_none() && !is_left(figures)), "{figures:?}");
        }
    }
}
