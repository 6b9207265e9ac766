//! A driver is built as the guide says, by pkg-config and by CMake.

use std::path::Path;
use std::process::Command;

use vidmm_ddi::{Driver, Progress};

use crate::common::are_there;

/// The text of the guide between a fence of this language and the next.
fn snippet(language: &str) -> &'static str {
    const GUIDE: &str = include_str!("../../../../docs/guides/c-drivers.md");
    let fence = format!("```{language}\n");
    let (_, after) = GUIDE.split_once(&fence).expect("the guide has a snippet");
    after.split_once("```").expect("the snippet ends").0
}

/// Runs shell commands in a folder with the sources of a reference driver, and loads the library that they make.
fn builds(files: &[(&str, &str)], commands: &str, library: &str) {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let folder = tempfile::tempdir().expect("there is a folder for files");
    for name in ["driver.c", "gpu.c", "gpu.h", "bugs.h"] {
        let source = root.join("examples/drivers/gpummu").join(name);
        std::fs::copy(source, folder.path().join(name)).expect("the driver has the file");
    }
    for (name, content) in files {
        std::fs::write(folder.path().join(name), content).expect("the file is written");
    }
    let mut shell = Command::new("sh");
    shell.args(["-ec", commands]).current_dir(folder.path()).env("VIDMM", root.join("../.."));
    let run = shell.output().expect("there is a shell");
    let told = String::from_utf8_lossy(&run.stdout).into_owned() + &String::from_utf8_lossy(&run.stderr);
    assert!(run.status.success(), "{commands}\n{told}");
    let progress = Progress::anonymous().expect("there is memory");
    Driver::load(&folder.path().join(library), &progress, &[]).expect("it is a driver");
}

#[test]
fn pkg_config_names_the_headers_and_the_shim() {
    if are_there(&["cc", "pkg-config"]) {
        builds(&[], snippet("sh"), "driver.so");
    }
}

#[test]
fn cmake_builds_a_driver() {
    if are_there(&["cc", "cmake"]) {
        let lists = [("CMakeLists.txt", snippet("cmake"))];
        builds(&lists, "cmake -B build -DVIDMM=$VIDMM && cmake --build build", "build/driver.so");
    }
}
