//! The reference drivers are right.

use vidmm_ddi::take_reports;
use vidmm_sim::{Profile, SimDesc, Unobserved, simulate};

use crate::common::{are_there, machines};

#[test]
fn random_worlds_find_nothing_in_the_driver_with_page_tables() {
    find_nothing("gpummu");
}

#[test]
fn random_worlds_find_nothing_in_the_driver_that_patches() {
    find_nothing("patching");
}

fn find_nothing(driver: &str) {
    if !are_there(&["make", "cc"]) {
        return;
    }
    let machines = machines(driver, "");
    for seed in 1..=20 {
        let desc = SimDesc { seed, steps: 400, profile: Profile::default(), policy: None, digest: false };
        let outcome = simulate(desc, &machines, &mut Unobserved).expect("the machine starts");
        let failure = outcome.failure.map(|failure| failure.to_string());
        assert_eq!(failure, None, "seed {seed}");
        assert_eq!(take_reports(), [], "seed {seed}");
        assert!(outcome.report.kernels_judged > 0 || outcome.machine_steps > 0, "seed {seed} judged nothing");
    }
}
