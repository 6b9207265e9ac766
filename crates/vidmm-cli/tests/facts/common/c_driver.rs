//! Drivers in C, built and checked.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use super::{Run, workspace};

/// Whether drivers in C can be built. A test that needs one skips otherwise, and fails with `VIDMM_REQUIRE_C`.
pub fn can_build() -> bool {
    let is_missing = |tool: &&&str| !Command::new(tool).arg("--version").output().is_ok_and(|run| run.status.success());
    let Some(tool) = ["make", "cc"].iter().find(is_missing) else { return true };
    assert!(std::env::var_os("VIDMM_REQUIRE_C").is_none(), "{tool} is not there");
    eprintln!("skipped: {tool} is not there");
    false
}

/// Builds the reference driver with page tables, with a mistake of its `bugs.h` or without (`BUG_NONE`).
pub fn built(planted: &str) -> PathBuf {
    built_of("gpummu", planted, "")
}

/// Builds a reference driver, with a mistake of its `bugs.h` or without (`BUG_NONE`); the variant is a variable of its Makefile, or empty.
/// Each is built once, however many tests need the driver.
pub fn built_of(driver: &str, planted: &str, variant: &str) -> PathBuf {
    type Built = BTreeMap<[String; 3], Arc<OnceLock<PathBuf>>>;
    static BUILT: Mutex<Built> = Mutex::new(Built::new());
    let key = [driver, planted, variant].map(str::to_owned);
    let built = BUILT.lock().unwrap_or_else(PoisonError::into_inner).entry(key).or_default().clone();
    built.get_or_init(|| build(driver, planted, variant)).clone()
}

fn build(driver: &str, planted: &str, variant: &str) -> PathBuf {
    let variables = (!variant.is_empty()).then(|| format!("{variant}=1"));
    // A driver with a mistake is run once: a compiler that optimizes takes longer than it saves.
    let flags = (planted != "BUG_NONE").then(|| "CFLAGS=-O0 -Wall -Wextra".to_owned());
    let variables: Vec<_> = variables.into_iter().chain(flags).chain([format!("PLANTED={planted}")]).collect();
    made(driver, &format!("{driver}{variant}-{planted}.so"), &variables)
}

/// Builds a reference driver with all mistakes of its `bugs.h`, of which `VIDMM_PLANTED` chooses one.
pub fn with_all_bugs(driver: &str, variant: &str) -> PathBuf {
    built_of(driver, "FROM_ENVIRONMENT", variant)
}

/// The names of the mistakes of a reference driver, in the order of their numbers. The first is `BUG_NONE`.
pub fn bugs(driver: &str) -> Vec<String> {
    let header = workspace().join("crates/vidmm-ddi/examples/drivers").join(driver).join("bugs.h");
    let header = std::fs::read_to_string(header).expect("the driver has one");
    let names = header.lines().filter_map(|line| line.strip_prefix("    BUG_")?.split([',', ' ']).next());
    names.map(|name| format!("BUG_{name}")).collect()
}

/// Makes a driver in C with these variables of its Makefile. Several tests make the same one, each to the end before it has its name:
/// none opens what another is still writing.
pub fn made(driver: &str, name: &str, variables: &[String]) -> PathBuf {
    static MADE: AtomicU32 = AtomicU32::new(0);
    let made = PathBuf::from(env!("CARGO_TARGET_TMPDIR"));
    let unfinished = format!("{}-{}-{name}", std::process::id(), MADE.fetch_add(1, Ordering::Relaxed));
    let (named, out) = (made.join(name), made.join(unfinished));
    let folder = workspace().join("crates/vidmm-ddi/examples/drivers").join(driver);
    let mut make = Command::new("make");
    make.args(["-s", "-B", "-C"]).arg(folder).arg(format!("OUT={}", out.display())).args(variables);
    let make = make.output().expect("make and a C compiler are there");
    assert!(make.status.success(), "{}", String::from_utf8_lossy(&make.stderr));
    std::fs::rename(&out, &named).expect("it was made beside its place");
    named
}

/// Runs `vidmm check` on a driver with these arguments.
pub fn check(driver: &std::path::Path, arguments: &[&str]) -> Run {
    check_planted(driver, 0, arguments)
}

/// Runs `vidmm check` on a driver that has all mistakes, with the mistake of this number.
pub fn check_planted(driver: &std::path::Path, number: usize, arguments: &[&str]) -> Run {
    let mut command = Command::new(env!("CARGO_BIN_EXE_vidmm"));
    command.arg("check").arg(driver).args(arguments).current_dir(workspace()).env("VIDMM_PLANTED", number.to_string());
    Run::new(format!("vidmm check {} {}", driver.display(), arguments.join(" ")), &command.output().expect("it starts"))
}
