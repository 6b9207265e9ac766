//! One script of 300 steps, and each thing that can go wrong before each of its steps: whatever happens, the ledger is right at
//! the end, whoever lost something was told, and everybody goes on (I03, I12, I30, I32).

use crate::model::*;
use crate::world::*;
use proptest::{
    strategy::{Strategy, ValueTree},
    test_runner::TestRunner,
};
use vidmm::*;

const STEPS: usize = 300;

/// For how many steps a run goes on after something went wrong.
const AFTERMATH: usize = 40;

/// Two processes with three devices, and twice as much memory asked for as there is.
fn start() -> Model {
    let tempers = Tempers { patience: 2, resets_at_once: true, stops_at_once: true, dependent: false };
    let mut model = Model::with_trouble(Config::discrete(40, 48), false, &[false, true, false], 5, &tempers);
    for number in 0..18u32 {
        model.create(number as usize % 3, u64::from(number % 5 + 2), number % 3, number * 7);
    }
    model
}

fn mishap(engine: u32, steps: usize, mishap: Mishap) -> Trouble {
    Trouble::Mishap { engine, steps, mishap }
}

/// The same steps in each run.
fn script() -> Vec<Step> {
    let mut runner = TestRunner::deterministic();
    let any_step = step();
    let mut next = || any_step.new_tree(&mut runner).expect("a step").current();
    let is_right = |step: &Step| !matches!(step, Step::Suffer(_));
    std::iter::from_fn(|| Some(next())).filter(is_right).take(STEPS).collect()
}

/// Runs the script with `trouble` before the step with this number; how many devices were told that they are in error. What comes
/// before is audited by the run in which nothing goes wrong.
fn run(script: &[Step], at: usize, trouble: &Trouble) -> usize {
    let mut model = start();
    let mut is_due = true;
    model.world.is_audited = false;
    for (number, step) in script.iter().enumerate().take(at + AFTERMATH) {
        model.world.is_audited |= number == at;
        // It happens as soon as there is something that it can happen to.
        is_due = is_due && !(number >= at && model.suffer(trouble));
        model.step(step);
    }
    model.run_all();
    let told = model.world.trouble.told.len();
    model.world.tear_down();
    told
}

/// The numbers of devices that were told, over all steps.
fn at_every_step(trouble: &Trouble) -> Vec<usize> {
    let script = script();
    (0..STEPS).map(|at| run(&script, at, trouble)).collect()
}

fn at_most_one_is_told(trouble: &Trouble) {
    let told = at_every_step(trouble);
    assert!(told.iter().all(|&devices| devices <= 1), "I12: the guilty device alone: {told:?}");
    let happened = told.iter().filter(|&&devices| devices == 1).count();
    assert!(happened > STEPS / 2, "it happened only {happened} times");
}

fn all_are_told(trouble: &Trouble) {
    let told = at_every_step(trouble);
    // No device, if nothing was there that it could happen to; one more, if one was to blame before the adapter was
    // reset.
    assert!(told.iter().all(|&devices| devices == 0 || devices >= 3), "U-43: each user device: {told:?}");
    let happened = told.iter().filter(|&&devices| devices >= 3).count();
    assert!(happened > STEPS / 2, "it happened only {happened} times");
}

fn no_device_is_told(trouble: &Trouble) {
    assert_eq!(at_every_step(trouble), [0; STEPS]);
}

/// Nothing goes wrong: the script makes use of everything, and memory is scarce.
#[test]
fn the_script_pages() {
    let mut model = start();
    for step in script() {
        model.step(&step);
    }
    model.run_all();
    let statistics = model.world.vidmm.statistics();
    assert!(statistics.bytes_paged_out > 40 * PAGE_SIZE && statistics.bytes_paged_in > 40 * PAGE_SIZE);
    assert!(statistics.submissions > 30 && statistics.evictions > 30 && statistics.yields > 0, "{statistics:?}");
    model.world.tear_down();
}

#[test]
#[ignore = "takes long, runs in .ci/run"]
fn a_page_fault_costs_its_device_alone() {
    at_most_one_is_told(&mishap(RENDER, 2, Mishap::Fault));
}

#[test]
#[ignore = "takes long, runs in .ci/run"]
fn a_hang_costs_its_device_alone() {
    at_most_one_is_told(&mishap(RENDER, 6, Mishap::Hang));
}

#[test]
#[ignore = "takes long, runs in .ci/run"]
fn a_reset_that_fails_is_one_of_the_adapter() {
    all_are_told(&mishap(RENDER, 4, Mishap::ResetFails));
}

#[test]
#[ignore = "takes long, runs in .ci/run"]
fn a_reset_that_lies_is_one_of_the_adapter() {
    all_are_told(&mishap(RENDER, 0, Mishap::ResetLies));
}

#[test]
#[ignore = "takes long, runs in .ci/run"]
fn a_fault_of_paging_is_a_reset_of_the_adapter() {
    all_are_told(&mishap(PAGING, 1, Mishap::Fault));
}

#[test]
#[ignore = "takes long, runs in .ci/run"]
fn paging_that_hangs_is_a_reset_of_the_adapter() {
    all_are_told(&mishap(PAGING, 2, Mishap::Hang));
}

#[test]
#[ignore = "takes long, runs in .ci/run"]
fn an_interrupt_that_is_lost_harms_nobody() {
    no_device_is_told(&Trouble::Interrupt { engine: RENDER, ending: Ending::Lost });
    no_device_is_told(&Trouble::Interrupt { engine: PAGING, ending: Ending::Lost });
}

#[test]
#[ignore = "takes long, runs in .ci/run"]
fn an_interrupt_that_comes_late_harms_nobody() {
    no_device_is_told(&Trouble::Interrupt { engine: RENDER, ending: Ending::Late });
    no_device_is_told(&Trouble::Interrupt { engine: PAGING, ending: Ending::Late });
}

#[test]
#[ignore = "takes long, runs in .ci/run"]
fn an_interrupt_that_comes_twice_harms_nobody() {
    no_device_is_told(&Trouble::Interrupt { engine: RENDER, ending: Ending::Twice });
    no_device_is_told(&Trouble::Interrupt { engine: PAGING, ending: Ending::Twice });
}
