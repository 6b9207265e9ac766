//! Builds the reference drivers.

use std::path::{Path, PathBuf};
use std::process::Command;

use vidmm_ddi::{Driver, DriverMachines, Progress};

/// Whether these tools are there. A test that needs them skips otherwise, and fails with `VIDMM_REQUIRE_C`.
pub fn are_there(tools: &[&str]) -> bool {
    let is_missing = |tool: &&&str| !Command::new(tool).arg("--version").output().is_ok_and(|run| run.status.success());
    let Some(tool) = tools.iter().find(is_missing) else { return true };
    assert!(std::env::var_os("VIDMM_REQUIRE_C").is_none(), "{tool} is not there");
    eprintln!("skipped: {tool} is not there");
    false
}

/// Builds a reference driver with these variables of its Makefile.
pub fn built(driver: &str, variables: &[&str]) -> PathBuf {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/drivers").join(driver);
    let out = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{driver}-{}.so", variables.join("-")));
    let make = Command::new("make")
        .args(["-s", "-B", "-C"])
        .arg(&folder)
        .arg(format!("OUT={}", out.display()))
        .args(variables.iter().map(|variable| format!("{variable}=1")))
        .output();
    let make = make.expect("make and a C compiler are there");
    assert!(make.status.success(), "{}", String::from_utf8_lossy(&make.stderr));
    out
}

/// Machines of a reference driver.
pub fn machines(driver: &str, variables: &[&str]) -> DriverMachines {
    let progress = Progress::anonymous().expect("there is memory");
    let driver = Driver::load(&built(driver, variables), &progress, &[]).expect("the driver loads");
    DriverMachines::new(driver, "reference", Vec::new()).expect("the driver starts")
}
