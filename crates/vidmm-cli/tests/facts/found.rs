//! Scenarios that `vidmm sim` has found, made small: each of these once broke a rule, and breaks none any more.

use std::fs;

use crate::common::{vidmm_run, workspace};

#[test]
fn found_scenarios_hold_now() {
    let folder = workspace().join("scenarios/found");
    let files = fs::read_dir(folder).expect("there are scenarios").map(|file| file.expect("a file").file_name());
    let mut names: Vec<String> = files.map(|name| name.into_string().expect("text")).collect();
    names.retain(|name| name.ends_with(".toml"));
    names.sort();
    assert!(names.len() >= 5, "{names:?}");
    for name in names {
        vidmm_run(&[&format!("scenarios/found/{name}")]).expect(0);
    }
}
