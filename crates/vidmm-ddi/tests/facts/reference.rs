//! The reference drivers are right.

use std::ops::RangeInclusive;

use vidmm_ddi::take_reports;
use vidmm_sim::{Profile, SimDesc, Unobserved, simulate};

use crate::common::{are_there, machines};

#[test]
fn random_worlds_find_nothing_in_the_driver_with_page_tables() {
    find_nothing("gpummu", &[], 1..=20);
}

#[test]
fn random_worlds_find_nothing_in_the_driver_that_patches() {
    find_nothing("patching", &[], 1..=20);
}

#[test]
fn random_worlds_find_nothing_in_drivers_of_which_only_standard_allocations_are_known() {
    find_nothing("gpummu", &["WITHOUT_TEST_INTERFACE"], 1..=20);
    find_nothing("patching", &["WITHOUT_TEST_INTERFACE"], 1..=20);
    find_nothing("patching", &["WITHOUT_TEST_INTERFACE", "WITH_APERTURE"], 1..=20);
}

/// The world of this seed ends with allocations that devices have open, so nobody but the machine closes them.
#[test]
fn a_driver_leaks_nothing_when_a_run_is_cut_short() {
    find_nothing("patching", &["WITH_APERTURE"], 257..=257);
}

/// The log of this world does not say what a process demands for DMA buffers that it has handed in, so it may be asked to trim early.
#[test]
fn a_process_is_asked_to_trim_for_dma_buffers_that_come_and_go() {
    find_nothing("patching", &[], 3313..=3313);
}

#[test]
fn random_worlds_find_nothing_in_a_driver_that_keeps_pointers_to_dma_buffers() {
    find_nothing("patching", &["WITH_KEPT_POINTERS"], 1..=20);
}

#[test]
fn random_worlds_find_nothing_in_hardware_that_queues_packets() {
    find_nothing("patching", &["WITH_QUEUE"], 1..=20);
    find_nothing("patching", &["WITH_QUEUE", "WITH_APERTURE"], 1..=20);
}

fn find_nothing(driver: &str, variables: &[&str], seeds: RangeInclusive<u64>) {
    if !are_there(&["make", "cc"]) {
        return;
    }
    let machines = machines(driver, variables);
    for seed in seeds {
        let desc = SimDesc { seed, steps: 500, profile: Profile::default(), policy: None, digest: false };
        let outcome = simulate(desc, &machines, &mut Unobserved).expect("the machine starts");
        let failure = outcome.failure.map(|failure| failure.to_string());
        assert_eq!(failure, None, "seed {seed}");
        assert_eq!(take_reports(), [], "seed {seed}");
        // A world may make the driver answer wrongly amid the start: the adapter ends in error then, as it must (BPB-01).
        let has_judged =
            outcome.report.kernels_judged > 0 || outcome.machine_steps > 0 || outcome.adapter_error.is_some();
        assert!(has_judged, "seed {seed} judged nothing");
    }
}
