//! The instructions of a page-in of 1 MiB: of this program on all threads, without those of the Vulkan driver and of the C library.

use std::collections::BTreeMap;
use std::env;
use std::process::Command;

use vidmm_vulkan::{Adapter, Error, Options, Unbinding, Validation};

use crate::report::{Goal, Metric, Report};
use crate::{MIB, Pages, Rounds};

/// The first argument of a run under valgrind.
pub const CHILD: &str = "--instructions";

const SET: u64 = 32 * MIB;

/// The most instructions that a check lets pass. The goal is 25,000. Threads take turns as the machine lets them, and two counts differ by up to
/// a tenth.
const MOST: f64 = 45_000.0;

/// The rounds of the two runs whose difference counts. A round brings in the whole set.
const ROUNDS: [u64; 2] = [4, 12];

/// The difference of two runs under callgrind.
pub fn instructions(_: &Rounds, report: &mut Report) {
    if !Command::new("valgrind").arg("--version").output().is_ok_and(|output| output.status.success()) {
        return println!("skipped: valgrind is not there");
    }
    let [less, more] = ROUNDS.map(|rounds| counted(rounds) as f64);
    let page_ins = (ROUNDS[1] - ROUNDS[0]) * SET / MIB;
    let each = (more - less) / page_ins as f64;
    report.add(Metric::alone("instructions of a page-in of 1 MiB, lazy", "", &[each], Goal::exact(MOST)));
}

/// The body of a run under valgrind.
pub fn child(rounds: &str) -> Result<(), Error> {
    let options = Options { local_bytes: Some(SET), unbinding: Unbinding::Lazy, ..Options::default() };
    let adapter = Adapter::open(options, Validation::Off)?;
    let mut pages = Pages::new(&adapter, SET, MIB)?;
    (0..rounds.parse().expect("the parent gives a number")).try_for_each(|_| pages.come_in_one_by_one())
}

/// The instructions of this program in a run of so many rounds.
fn counted(rounds: u64) -> u64 {
    let program = env::current_exe().expect("the program has a path");
    let out = env::temp_dir().join(format!("vidmm-callgrind-{}-{rounds}", std::process::id()));
    let output = Command::new("valgrind")
        .arg("--tool=callgrind")
        .arg(format!("--callgrind-out-file={}", out.display()))
        .arg(&program)
        .args([CHILD, &rounds.to_string()])
        .output()
        .expect("valgrind was there before");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = std::fs::read_to_string(&out).expect("callgrind writes text");
    let _ = std::fs::remove_file(&out);
    of_object(&text, &program.display().to_string())
}

/// The instructions of an object file by callgrind's own count, without the functions of other objects that it calls.
fn of_object(text: &str, object: &str) -> u64 {
    let (mut names, mut is_counted, mut is_call, mut sum) = (BTreeMap::new(), false, false, 0);
    for line in text.lines() {
        // A name stands in full where it occurs first, and as a number from then on.
        if let Some(named) = line.strip_prefix("ob=").or(line.strip_prefix("cob=")) {
            let (number, name) = named.split_once(' ').unwrap_or((named, ""));
            let name = names.entry(number).or_insert(name);
            if line.starts_with("ob=") {
                is_counted = *name == object;
            }
        } else if line.starts_with("calls=") {
            is_call = true;
        } else if line.starts_with(|first: char| first.is_ascii_digit() || "+-*".contains(first)) {
            let cost = line.split(' ').nth(1).and_then(|cost| cost.parse::<u64>().ok()).unwrap_or(0);
            if is_counted && !std::mem::take(&mut is_call) {
                sum += cost;
            }
            is_call = false;
        }
    }
    sum
}
