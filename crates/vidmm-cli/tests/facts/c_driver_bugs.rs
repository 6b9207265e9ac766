//! Each mistake that can be planted in the reference drivers in C is found, by the rule that names it.

use crate::common::c_driver::{bugs, can_build, check_planted, with_all_bugs};

/// Checks the driver with a mistake in the scenarios and in the worlds of these seeds, until a finding begins with `key`: the rule, and
/// the operation if the rule is about an operation. Without seeds there are as many worlds as most mistakes need; `wrap` stands for the
/// check of this name alone.
fn finds(driver: &'static str, planted: &str, variant: &'static str, key: &str, seeds: &str) {
    if !can_build() {
        return;
    }
    let number = bugs(driver).iter().position(|bug| bug == planted).expect("the driver has the mistake");
    let driver = with_all_bugs(driver, variant);
    let checks = match seeds {
        "" => ["--seeds", "1..6"],
        "wrap" => ["--replay", "wrap"],
        _ => ["--seeds", seeds],
    };
    let rule = key.split(' ').next().expect("a key begins with a rule");
    if ["OUTPUT", "SLOW"].contains(&rule) {
        // A check that ends early is not judged. This world has 26 transfers.
        let run = check_planted(&driver, number, &["--replay", "world-6", "--hang", "2"]);
        let is_remark = |line: &str| line.strip_prefix("remark      ").is_some_and(|told| told.starts_with(rule));
        assert!(run.stdout.lines().any(is_remark), "{planted} is not found by {key}: {run}");
        return;
    }
    let options = [&checks[..], &["--hang", "1", "--max-deaths", "2", "--rule", rule]].concat();
    let is_finding =
        |line: &str| line.strip_prefix("finding     ").is_some_and(|found| found.split(", in ").next() == Some(key));
    // The first finding may be about another operation.
    let first = check_planted(&driver, number, &[&options[..], &["--max-failures", "1"]].concat());
    let is_found = first.stdout.lines().any(is_finding);
    let run = if is_found { first } else { check_planted(&driver, number, &options) }.expect(1);
    assert!(run.stdout.lines().any(is_finding), "{planted} is not found by {key}: {run}");
}

/// Operations and entries that go astray spoil pages of other allocations: the findings name the culprit.
#[test]
#[ignore = "takes long, runs in .ci/run"]
fn findings_name_the_culprit_and_no_victim() {
    if !can_build() {
        return;
    }
    let planted = [
        ("gpummu", "", "BUG_FILL_TOO_FAR", "BPB-42 VIRTUAL_FILL"),
        ("gpummu", "", "BUG_TRANSFER_TOO_FAR", "BPB-40 VIRTUAL_TRANSFER"),
        ("gpummu", "", "BUG_TABLE_OVERRUN", "GVA-30 UPDATE_PAGE_TABLE"),
        ("gpummu", "WITHOUT_ENTRIES", "BUG_ENTRY_OF_NEIGHBOUR", "GVA-30 UPDATE_PAGE_TABLE"),
        ("gpummu", "WITHOUT_ENTRIES", "BUG_FLUSH_WRONG_PROCESS", "GVA-34 FLUSH_TLB"),
        ("patching", "", "BUG_FILL_TOO_FAR", "BPB-24 FILL"),
    ];
    for (driver, variant, bug, key) in planted {
        let number = bugs(driver).iter().position(|name| name == bug).expect("the driver has the mistake");
        let run = check_planted(&with_all_bugs(driver, variant), number, &["--seeds", "1..20"]).expect(1);
        let found = run.stdout.lines().filter_map(|line| line.strip_prefix("finding     "));
        let keys = Vec::from_iter(found.map(|found| found.split(", in ").next().expect("a finding has a key")));
        assert_eq!(keys, [key], "{bug}: {run}");
    }
}

macro_rules! bugs {
    ($driver:literal; $($name:ident: $planted:ident $(with $variant:ident)? by $key:literal $(in $seeds:literal)?;)*) => {
        $(
            #[test]
            #[ignore = "takes long, runs in .ci/run"]
            fn $name() {
                super::finds($driver, stringify!($planted), stringify!($($variant)?), $key, concat!($($seeds)?));
            }
        )*

        #[test]
        fn every_bug_has_a_test() {
            let planted = super::bugs($driver);
            let tested = ["BUG_NONE", $(stringify!($planted)),*];
            assert!(planted.iter().all(|bug| tested.contains(&bug.as_str())), "{planted:?}");
            assert_eq!(planted.len(), tested.len());
        }
    };
}

mod gpummu;
mod patching;
