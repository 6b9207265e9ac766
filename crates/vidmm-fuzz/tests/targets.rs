//! Every input that ever failed, and a few new ones, of each target.

use std::convert::Infallible;
use std::path::{Path, PathBuf};

use vidmm_fuzz::fuzzer::{Campaign, Corpus, Found, Until, be_quiet, failure};
use vidmm_fuzz::{TARGETS, Target};

/// The number of inputs beyond the corpus: enough to see that the target still works, not to find rare failures.
const EXECUTIONS: u64 = 2000;

fn holds(name: &str) {
    be_quiet();
    let target = Target::named(name).expect("it is a target");
    for (file, input) in Corpus::of(target).load().expect("the corpus is read") {
        if let Some(said) = failure(target, &input) {
            fails(&file, &said);
        }
    }
    let hung = |file: PathBuf| -> Infallible {
        // A running execution cannot be interrupted.
        eprintln!("{}: it takes too long", file.display());
        std::process::exit(1)
    };
    let mut campaign = Campaign::new(target, 7, hung).expect("the corpus is read");
    if let Some(Found { said, file }) = campaign.run(Until::Executions(EXECUTIONS)).expect("a find is kept") {
        fails(&file, &said);
    }
}

fn fails(file: &Path, said: &str) -> ! {
    panic!("{}: {said}", file.display())
}

macro_rules! targets {
    ($($test:ident, $name:literal;)*) => {
        $(#[test] fn $test() { holds($name); })*

        #[test]
        fn every_target_is_tested() {
            assert_eq!(TARGETS.map(|target| target.name), [$($name),*]);
        }
    };
}

targets! {
    any_text_is_a_size_a_time_or_a_fault_or_is_refused, "text";
    any_text_is_a_scenario_or_is_refused, "scenario";
    any_small_scenario_of_steps_runs, "scenario_run";
    any_bytes_are_a_trace_or_are_refused, "trace";
    any_bytes_are_requests_or_are_refused, "requests";
    any_events_are_audited_and_told, "event_log";
    any_adapter_is_refused_or_works, "caps";
    any_calls_leave_every_page_as_it_must_be, "calls";
    any_answers_of_a_driver_are_borne, "driver_answers";
    any_lists_of_a_command_buffer_are_refused_or_run, "patch_lists";
    any_addresses_are_had_or_refused_as_a_plain_list_says, "gpu_va";
}
