//! Targets: functions for arbitrary bytes, each with checks that must hold.
//!
//! Each [`Target`] is one function from bytes that panics when a check does not hold: parsers refuse or read, the
//! manager refuses or works, and neither ever panics, hangs or leaks. The same functions serve the fuzzer of this
//! crate, which needs no nightly compiler, the coverage-guided one in `fuzz/`, and plain tests;
//! `docs/guides/fuzzing.md` says how.

// A file imports only from those above it. The test worlds of the core and the machine of the command line are links to
// their files, used in part: a package then has what it takes to build it.
#[allow(dead_code, unused_imports)]
mod judge;
#[allow(dead_code, unused_imports)]
mod world;
#[allow(dead_code, unused_imports)]
mod model;
#[allow(dead_code, unused_imports)]
mod patching;
mod soft;
mod choices;
mod random;
mod rig;
pub mod targets;
pub mod fuzzer;

pub use targets::{TARGETS, Target};

/// Feeds `data` to the target called `name`.
///
/// # Panics
///
/// If there is no such target, or a check does not hold.
pub fn run(name: &str, data: &[u8]) {
    let target = Target::named(name).expect("a target has this name");
    (target.run)(data);
}
