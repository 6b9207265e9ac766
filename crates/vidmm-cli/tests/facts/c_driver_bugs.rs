//! Each mistake that can be planted in the reference driver in C is found, by the rule that names it.

use crate::common::c_driver::{built, can_build, check};

/// Checks the driver with a mistake. The finding begins with `key`: the rule, and the operation if it is about one.
fn finds(planted: &str, key: &str) {
    if !can_build() {
        return;
    }
    let driver = built(planted);
    let run = check(&driver, &["--seeds", "1..25", "--hang", "1", "--max-deaths", "2"]).expect(1);
    let is_found = run
        .stdout
        .lines()
        .any(|line| line.strip_prefix("finding     ").is_some_and(|found| found.split(", in ").next() == Some(key)));
    assert!(is_found, "{planted} is not found by {key}: {run}");
    std::fs::remove_file(driver).expect("it was built");
}

macro_rules! bugs {
    ($($name:ident: $planted:ident by $key:literal;)*) => {
        $(
            #[test]
            fn $name() {
                finds(stringify!($planted), $key);
            }
        )*

        #[test]
        fn every_bug_has_a_test() {
            let header = include_str!("../../../vidmm-ddi/examples/drivers/gpummu/bugs.h");
            let names = header.lines().filter_map(|line| line.strip_prefix("    BUG_")?.split([',', ' ']).next());
            let planted: Vec<String> = names.map(|name| format!("BUG_{}", name.trim())).collect();
            let tested = ["BUG_NONE", $(stringify!($planted)),*];
            assert!(planted.iter().all(|bug| tested.contains(&bug.as_str())), "{planted:?}");
            assert_eq!(planted.len(), tested.len());
        }
    };
}

bugs! {
    a_transfer_that_is_dropped: BUG_TRANSFER_REPORTS_SUCCESS by "BPB-40 VIRTUAL_TRANSFER";
    a_transfer_the_other_way_round: BUG_SWAPPED_TRANSFER by "BPB-40 VIRTUAL_TRANSFER";
    a_transfer_without_its_last_page: BUG_SHORT_TRANSFER by "BPB-40 VIRTUAL_TRANSFER";
    an_offset_that_is_added_twice: BUG_OFFSET_ADDED by "I04";
    a_fill_with_another_pattern: BUG_FILL_PATTERN_IGNORED by "BPB-42 VIRTUAL_FILL";
    a_fill_of_half_the_size: BUG_HALF_FILL by "BPB-42 VIRTUAL_FILL";
    a_fill_of_the_wrong_bytes: BUG_FILL_SYSTEM_RESIDENT by "BPB-42 VIRTUAL_FILL";
    a_flush_that_is_left_out: BUG_SKIP_FLUSH by "GVA-34 FLUSH_TLB";
    a_flush_of_another_process: BUG_FLUSH_WRONG_PROCESS by "I02";
    an_entry_that_is_repeated: BUG_FIRST_ENTRY_REPEATED by "GVA-30 UPDATE_PAGE_TABLE";
    an_entry_that_is_counted_up: BUG_FIRST_ENTRY_COUNTED_UP by "GVA-30 UPDATE_PAGE_TABLE";
    a_repeat_that_is_not_seen: BUG_REPEAT_IGNORED by "GVA-30 UPDATE_PAGE_TABLE";
    a_start_index_that_is_not_seen: BUG_START_INDEX_IGNORED by "GVA-30 UPDATE_PAGE_TABLE";
    an_entry_that_allows_writes: BUG_READ_ONLY_DROPPED by "GVA-30 UPDATE_PAGE_TABLE";
    an_entry_of_another_segment: BUG_SEGMENT_DROPPED by "GVA-30 UPDATE_PAGE_TABLE";
    a_last_entry_that_is_lost: BUG_LAST_ENTRY_LOST by "GVA-30 UPDATE_PAGE_TABLE";
    an_update_that_begins_again: BUG_MULTIPASS_FROM_START by "BPB-05 UPDATE_PAGE_TABLE";
    an_update_that_goes_on_too_far: BUG_MULTIPASS_SKIPS_ONE by "GVA-30 UPDATE_PAGE_TABLE";
    a_pointer_that_stays: BUG_POINTER_NOT_ADVANCED by "GVA-30 UPDATE_PAGE_TABLE";
    a_pointer_behind_the_end: BUG_POINTER_ADVANCED_TOO_FAR by "BPB-02 UPDATE_PAGE_TABLE";
    bytes_behind_the_end: BUG_BUFFER_OVERRUN by "BPB-02 VIRTUAL_TRANSFER";
    a_check_that_never_fires: BUG_OVERFLOW_CHECK by "BPB-02 VIRTUAL_TRANSFER";
    an_unknown_operation_that_succeeds: BUG_UNKNOWN_IS_SUCCESS by "DDI-UNKNOWN-OPERATION";
    a_status_that_is_not_allowed: BUG_UNSUCCESSFUL by "BPB-01 UPDATE_PAGE_TABLE";
    a_buffer_that_is_never_enough: BUG_ALWAYS_FULL by "BPB-05 VIRTUAL_TRANSFER";
    an_answer_of_busy: BUG_BUSY_TRANSFER by "BPB-06 VIRTUAL_TRANSFER";
    an_allocation_that_is_kept: BUG_ALLOCATION_LEAK by "SHIM-POOL-LEAK";
    an_allocation_that_is_freed_twice: BUG_DOUBLE_FREE by "SHIM-POOL-FREE";
    a_free_of_what_there_is_not: BUG_FREE_ON_FAILURE by "SHIM-POOL-FREE";
    a_pool_that_is_believed: BUG_NO_CHECK_OF_POOL by "CRASH";
    a_write_behind_a_pool_block: BUG_POOL_OVERRUN by "SHIM-POOL-OVERRUN";
    a_lock_that_is_left: BUG_LOCK_LEFT by "SHIM-LOCK";
    a_context_that_is_kept: BUG_CONTEXT_LEAK by "SHIM-POOL-LEAK";
    a_root_table_of_another_context: BUG_FIRST_ROOT by "I04";
    a_root_table_without_entries: BUG_ROOT_ENTRIES by "I04";
    a_reset_that_names_another_packet: BUG_WRONG_ABORTED_FENCE by "FLT-21";
    a_restart_that_fails: BUG_RESTART_FAILS by "FLT-32";
    a_transfer_after_a_reset_that_is_refused: BUG_RESET_TRANSFER_REFUSED by "BPB-27";
    an_end_that_is_not_reported: BUG_NO_INTERRUPT by "SYN-13";
    an_end_of_another_packet: BUG_WRONG_FENCE by "SYN-13";
    a_size_in_pages: BUG_SIZE_IN_PAGES by "DDI-SIZE";
    a_priority_of_zero: BUG_PRIORITY_ZERO by "CRE-03";
    an_allocation_without_a_segment: BUG_NO_SEGMENT by "CRE-03";
    a_crash: BUG_CRASH by "CRASH VIRTUAL_TRANSFER";
    an_exit: BUG_EXIT by "EXIT VIRTUAL_TRANSFER";
    a_hang: BUG_HANG by "HANG VIRTUAL_TRANSFER";
    a_smashed_stack: BUG_SMASHED_STACK by "CRASH VIRTUAL_TRANSFER";
}
