//! Growth of costs with untouched things: instructions of a unit at two sizes, counted by callgrind.
//!
//! ```text
//! cargo bench -p vidmm --bench growth [-- CELL...]
//! ```
//!
//! Each cell runs twice under `valgrind` (a package of Debian), with ten times as many things in the second run. The benchmark fails
//! if a unit takes more than a fifth more instructions in the second run. A cell with a known growth names the reason; without that
//! growth the benchmark fails too, so the list of reasons only shrinks. Counts are exact, whatever the load of the machine.

#[path = "growth/cells.rs"]
mod cells;
#[allow(dead_code, reason = "the rest is for further benchmarks")]
#[path = "support/draws.rs"]
mod draws;
#[allow(dead_code, reason = "the rest is for further benchmarks")]
#[path = "support/world.rs"]
mod world;

use std::{
    env, fs,
    path::Path,
    process::{Command, ExitCode},
    thread,
};

use cells::{CELLS, Cell, Op};

/// The first argument of a run under valgrind.
const CHILD: &str = "--cell";

/// Operations before the count.
const WARM_UP: usize = 64;

/// Counted operations.
const COUNTED: usize = 128;

/// The most instructions of a unit with ten times as many things, by the instructions before.
const GROWTH_MAX: f64 = 1.2;

/// Callgrind counts the instructions of this function.
#[inline(never)]
fn counted_by_callgrind(op: &mut Op) {
    op();
}

fn main() -> ExitCode {
    let arguments = Vec::from_iter(env::args().skip(1).filter(|argument| argument != "--bench"));
    if let [flag, name, size] = &arguments[..]
        && flag == CHILD
    {
        let cell = CELLS.iter().find(|cell| cell.name == name).expect("the parent names a cell");
        let mut op = (cell.set_up)(size.parse().expect("the parent gives a size"));
        (0..WARM_UP).for_each(|_| op());
        (0..COUNTED).for_each(|_| counted_by_callgrind(&mut op));
        return ExitCode::SUCCESS;
    }
    if cfg!(debug_assertions) {
        // `cargo test --all-targets` runs the benchmark.
        println!("nothing is counted: this is not an optimised build");
        return ExitCode::SUCCESS;
    }
    if let Some(unknown) = arguments.iter().find(|name| CELLS.iter().all(|cell| cell.name != **name)) {
        let names = Vec::from_iter(CELLS.iter().map(|cell| cell.name));
        eprintln!("error: there is no cell '{unknown}'; there are {}", names.join(", "));
        return ExitCode::from(2);
    }
    println!("{:<12} {:>8} {:>12} {:>12} {:>7}  unit", "cell", "size", "instructions", "at 10x", "growth");
    let chosen = CELLS.iter().filter(|cell| arguments.is_empty() || arguments.iter().any(|name| name == cell.name));
    let mut failed = Vec::new();
    for cell in chosen {
        let [small, large] = thread::scope(|scope| {
            let runs = [cell.size, 10 * cell.size].map(|size| scope.spawn(move || instructions(cell, size)));
            runs.map(|run| run.join().expect("callgrind counts"))
        });
        let growth = large / small;
        println!("{:<12} {:>8} {small:>12.0} {large:>12.0} {growth:>7.2}  {}", cell.name, cell.size, cell.unit);
        match (growth > GROWTH_MAX, cell.grows) {
            (true, None) => failed.push(format!("{} grows", cell.name)),
            (false, Some(_)) => failed.push(format!("{} does not grow any more: remove the reason", cell.name)),
            (true, Some(why)) => println!("{:<12} known: {why}", ""),
            (false, None) => {}
        }
    }
    failed.iter().for_each(|failed| eprintln!("error: {failed}"));
    if failed.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// The instructions of a unit of a cell at a size: of all counted operations, or of the longest operation alone.
fn instructions(cell: &Cell, size: usize) -> f64 {
    // Of two options with the same pattern, callgrind takes one.
    let folder = tempfile::tempdir().expect("there is a folder for what callgrind writes");
    let output = Command::new("valgrind")
        .args(["--tool=callgrind", "--collect-atstart=no", "--toggle-collect=*counted_by_callgrind*"])
        .args(cell.longest.then_some("--dump-before=growth::counted_by_callgrind"))
        .arg(format!("--callgrind-out-file={}", folder.path().join("out").display()))
        .arg(env::current_exe().expect("the program has a path"))
        .args([CHILD, cell.name, &size.to_string()])
        .output()
        .unwrap_or_else(|error| panic!("valgrind does not run ({error}): install the package `valgrind`"));
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "cell {} at {size}: {said}", cell.name);
    let counts = counts(folder.path());
    match cell.longest {
        true => counts.into_iter().max().expect("callgrind has counted something") as f64 / cell.units as f64,
        false => counts.into_iter().sum::<u64>() as f64 / (COUNTED * cell.units) as f64,
    }
}

/// The counts in callgrind's files.
fn counts(folder: &Path) -> Vec<u64> {
    let files = fs::read_dir(folder).expect("callgrind has written to its folder");
    let count = |file: fs::DirEntry| {
        let text = fs::read_to_string(file.path()).expect("callgrind writes text");
        let line = text.lines().find_map(|line| line.strip_prefix("totals: ").or(line.strip_prefix("summary: ")));
        line.and_then(|count| count.trim().parse().ok()).unwrap_or(0)
    };
    files.map(|file| count(file.expect("the folder can be read"))).collect()
}
