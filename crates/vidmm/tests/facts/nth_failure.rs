//! One script that makes every call, and each answer of driver and host that may be a failure is one, once: whoever called is
//! told and nothing has changed, or nobody notices. Everybody goes on, content is right, and nothing is left at the end (P54).

use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::caller::*;
use crate::world::*;
use vidmm::contract::*;
use vidmm::*;

const STEPS: usize = 150;

/// Local memory and an aperture that are too small for what the script asks for.
fn with_page_tables(tables_in_system: bool) -> Config {
    Config { tables_in_system, ..Config::discrete(if tables_in_system { 20 } else { 44 }, 24) }
}

/// Runs the script with a failure of this call; the calls that may fail.
fn run(config: &Config, script: &[Step], build_failure: BuildStatus, fails_at: Option<usize>) -> Vec<Fallible> {
    let mut caller = Caller::new(config.clone());
    caller.world.driver.build_failure = build_failure;
    let failing = caller.world.driver.failing.clone();
    failing.arm(fails_at);
    caller.run(script);
    caller.tear_down();
    failing.calls()
}

/// Lets each call fail that may; which kinds did.
fn each_call_fails_once(config: &Config, build_failure: BuildStatus) -> Vec<Fallible> {
    let script = script(1, STEPS);
    let calls = run(config, &script, build_failure, None);
    for (number, call) in calls.iter().enumerate() {
        // Other failures of building than the first kind are another test's.
        let is_elsewhere = build_failure == BuildStatus::AllocationBusy && *call != Fallible::BuildPagingBuffer;
        if is_elsewhere {
            continue;
        }
        let once = || run(config, &script, build_failure, Some(number));
        if let Err(panic) = catch_unwind(AssertUnwindSafe(once)) {
            eprintln!("call {number} of {} failed: {call:?} ({build_failure:?})", calls.len());
            std::panic::resume_unwind(panic);
        }
    }
    calls
}

/// Without a failure: the script makes every call with success, and memory is scarce.
#[test]
fn the_script_makes_every_call() {
    let mut caller = Caller::new(with_page_tables(true));
    caller.run(&script(1, STEPS));
    let never: Vec<_> = caller.answers.iter().filter(|(_, answers)| answers.0 == 0).collect();
    assert!(never.is_empty(), "no success: {never:?}");
    let statistics = caller.world.vidmm.statistics();
    assert!(statistics.bytes_paged_out > 5 * PAGE_SIZE && statistics.evictions > 10, "{statistics:?}");
    caller.tear_down();
}

#[test]
#[ignore = "takes long, runs in .ci/run"]
fn each_failure_with_page_tables_in_system_memory_is_survived() {
    let calls = each_call_fails_once(&with_page_tables(true), BuildStatus::InsufficientDmaBuffer);
    for kind in [
        Fallible::CreateProcess,
        Fallible::CreateContext,
        Fallible::CreateAllocation,
        Fallible::OpenAllocation,
        Fallible::ValidateUpdateAllocationProperty,
        Fallible::BuildPagingBuffer,
        Fallible::CommitBackingStore,
        Fallible::MapCpuVirtualAddress,
    ] {
        assert!(calls.contains(&kind), "{kind:?} was never asked for");
    }
}

#[test]
#[ignore = "takes long, runs in .ci/run"]
fn each_failure_with_page_tables_in_the_segment_is_survived() {
    each_call_fails_once(&with_page_tables(false), BuildStatus::InsufficientDmaBuffer);
}

#[test]
#[ignore = "takes long, runs in .ci/run"]
fn each_failure_behind_an_io_mmu_is_survived() {
    let config = Config { scheduling_log: None, ..Config::integrated(AddressingModel::GpuVaIoMmu, 32) };
    each_call_fails_once(&config, BuildStatus::InsufficientDmaBuffer);
}

/// BPB-06: the driver is asked again when the allocation is idle.
#[test]
#[ignore = "takes long, runs in .ci/run"]
fn each_busy_answer_is_survived() {
    each_call_fails_once(&with_page_tables(true), BuildStatus::AllocationBusy);
}

/// P53: so does whatever a caller names that is not, or not any more, or not its own.
#[test]
#[ignore = "takes long, runs in .ci/run"]
fn a_wrong_handle_changes_nothing() {
    let mut caller = Caller::new(Config::discrete(40, 48));
    caller.run(&script(2, STEPS));
    caller.come_to_rest();
    caller.make_stale_calls();
    caller.make_foreign_calls();
    caller.tear_down();
}
