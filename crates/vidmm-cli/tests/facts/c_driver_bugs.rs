//! Each mistake that can be planted in the reference drivers in C is found, by the rule that names it.

use crate::common::c_driver::{built_of, can_build, check};

/// Checks the driver with a mistake, in the worlds of these seeds; without any, in as many as most mistakes need. The finding begins with `key`: the rule, and the operation if it is about one.
fn finds(driver: &str, planted: &str, variant: &str, key: &str, seeds: &str) {
    if !can_build() {
        return;
    }
    let driver = built_of(driver, planted, variant);
    let seeds = if seeds.is_empty() { "1..6" } else { seeds };
    let run = check(&driver, &["--seeds", seeds, "--hang", "1", "--max-deaths", "2"]).expect(1);
    let is_found = run
        .stdout
        .lines()
        .any(|line| line.strip_prefix("finding     ").is_some_and(|found| found.split(", in ").next() == Some(key)));
    assert!(is_found, "{planted} is not found by {key}: {run}");
    std::fs::remove_file(driver).expect("it was built");
}

macro_rules! bugs {
    ($driver:literal; $($name:ident: $planted:ident $(with $variant:ident)? by $key:literal $(in $seeds:literal)?;)*) => {
        $(
            #[test]
            fn $name() {
                super::finds($driver, stringify!($planted), stringify!($($variant)?), $key, concat!($($seeds)?));
            }
        )*

        #[test]
        fn every_bug_has_a_test() {
            let header = include_str!(concat!("../../../../vidmm-ddi/examples/drivers/", $driver, "/bugs.h"));
            let names = header.lines().filter_map(|line| line.strip_prefix("    BUG_")?.split([',', ' ']).next());
            let planted: Vec<String> = names.map(|name| format!("BUG_{}", name.trim())).collect();
            let tested = ["BUG_NONE", $(stringify!($planted)),*];
            assert!(planted.iter().all(|bug| tested.contains(&bug.as_str())), "{planted:?}");
            assert_eq!(planted.len(), tested.len());
        }
    };
}

mod gpummu;
mod patching;
