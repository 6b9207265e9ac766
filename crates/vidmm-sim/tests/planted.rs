//! Each planted bug is found by the rule that it names. Those of the manager are in the saboteur's copy of it alone:
//! `cargo run -p vidmm-saboteur -- test --workspace --test planted`. All packages have a say in the features of the packages from
//! outside, so that what has been built for other tests serves for the copy too.

#[path = "../../vidmm-cli/src/soft.rs"]
mod soft;

use vidmm_saboteur::{BUGS, IS_AT_WORK};
use vidmm_sim::{Hunt, MachineDesc, Planted};

/// The number of seeds that suffices for the bug which is hardest to find.
const HUNT: Hunt = Hunt { seeds: 4000, steps: 2000 };

/// The number of steps that half of the bugs take at most.
const MEDIAN_STEPS: u64 = 10_000;

#[track_caller]
fn are_found(bugs: impl Iterator<Item = Planted>) {
    let factory = |desc: &MachineDesc| soft::machine(desc);
    let (mut free, mut steps) = (Vec::new(), Vec::new());
    for bug in bugs {
        let quarry = HUNT.run(bug, &factory);
        let seed = quarry.seed.map_or("none".to_owned(), |seed| seed.to_string());
        println!("{bug:<32} {:<4} seed {seed:<4} {:>7} steps  {}", bug.rule(), quarry.steps, quarry.problem);
        steps.push(quarry.steps);
        if quarry.seed.is_none() {
            free.push(format!(
                "{bug} ({}): found were {:?}; {} seeds are wrong without it",
                bug.rule(),
                quarry.others,
                quarry.wrong
            ));
        }
    }
    assert!(free.is_empty(), "{} not found by their rules:\n{}", free.len(), free.join("\n"));
    steps.sort_unstable();
    let median = steps[steps.len() / 2];
    assert!(median <= MEDIAN_STEPS, "{median} steps in the median");
}

#[test]
fn bugs_of_the_manager_are_found_by_their_rules() {
    if !IS_AT_WORK {
        eprintln!("skipped: this build has none; `cargo run -p vidmm-saboteur -- test --workspace --test planted`");
        return;
    }
    are_found(Planted::all().filter(|bug| matches!(bug, Planted::Manager(_))));
}

#[test]
fn mistakes_of_drivers_are_found_by_their_rules() {
    are_found(Planted::all().filter(|bug| matches!(bug, Planted::Driver(_))));
}

#[test]
fn effects_of_mistakes_of_drivers_are_named_by_the_verifier() {
    are_found(Planted::all().filter(|bug| matches!(bug, Planted::Effect(_))));
}

#[test]
fn there_is_a_bug_for_each_invariant() {
    let of_drivers = || Planted::all().filter(|bug| matches!(bug, Planted::Driver(_)));
    let is_planted = |rule: &str| BUGS.iter().any(|bug| bug.rule == rule) || of_drivers().any(|bug| bug.rule() == rule);
    let free: Vec<String> = (1..=34).map(|number| format!("I{number:02}")).filter(|rule| !is_planted(rule)).collect();
    assert!(free.is_empty(), "nobody breaks {free:?}");
    assert!(BUGS.len() >= 40);
    assert!(of_drivers().count() >= 20);
}
