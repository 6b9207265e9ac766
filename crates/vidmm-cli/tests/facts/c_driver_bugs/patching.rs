//! The driver that patches physical addresses.

bugs! {
    "patching";
    a_transfer_that_is_dropped: BUG_TRANSFER_REPORTS_SUCCESS by "BPB-20 TRANSFER";
    a_transfer_the_other_way_round: BUG_SWAPPED_TRANSFER by "BPB-20 TRANSFER";
    a_transfer_without_its_last_page: BUG_SHORT_TRANSFER by "BPB-20 TRANSFER";
    a_part_that_begins_at_the_start: BUG_TRANSFER_OFFSET_IGNORED by "BPB-21 TRANSFER" in "1..60";
    a_part_from_the_first_page_of_its_list: BUG_MDL_OFFSET_IGNORED by "BPB-20 TRANSFER" in "1..60";
    pages_that_are_counted_on: BUG_FIRST_PAGE_COUNTED_ON by "BPB-20 TRANSFER";
    a_base_address_that_is_added_twice: BUG_BASE_ADDRESS_ADDED by "FLT-23";
    a_transfer_that_begins_again: BUG_MULTIPASS_FROM_START by "BPB-05 TRANSFER";
    a_transfer_that_goes_on_too_far: BUG_MULTIPASS_SKIPS_ONE by "BPB-20 TRANSFER";
    a_fill_with_another_pattern: BUG_FILL_PATTERN_IGNORED by "BPB-24 FILL";
    a_fill_of_half_the_size: BUG_HALF_FILL by "BPB-24 FILL";
    an_answer_of_busy: BUG_BUSY_FILL by "BPB-06 FILL";
    an_unknown_operation_that_succeeds: BUG_UNKNOWN_IS_SUCCESS by "DDI-UNKNOWN-OPERATION";
    an_address_that_is_known_and_not_written: BUG_NO_PREPATCH by "PAT-14";
    an_offset_in_an_allocation_that_is_not_seen: BUG_ALLOCATION_OFFSET_IGNORED by "PAT-10";
    an_address_that_is_written_once: BUG_PATCH_ONCE by "PAT-10";
    a_patch_of_the_whole_list: BUG_PATCH_ALL by "SPL-11";
    a_patch_from_the_start_of_the_part: BUG_PATCH_FROM_START by "SPL-11";
    a_reference_that_is_not_listed: BUG_KNOWN_NOT_LISTED by "PAT-14";
    a_slot_that_is_not_bound_again: BUG_STAYS_BOUND by "SPL-12";
    a_split_point_behind_the_state: BUG_SPLIT_BEHIND_STATE by "SPL-06";
    a_list_that_is_believed: BUG_LIST_NOT_CHECKED by "SPL-04";
    a_list_that_ends_in_an_entry: BUG_LIST_NOT_ADVANCED by "DDI-RENDER";
    a_kernel_that_no_program_has: BUG_COMMAND_GARBLED by "DDI-RENDER";
    a_dma_buffer_that_ends_behind_its_end: BUG_RENDER_TOO_FAR by "BPB-02";
    private_data_that_ends_behind_its_end: BUG_PRIVATE_DATA_TOO_FAR by "BPB-02";
    a_status_that_is_not_allowed: BUG_RENDER_STATUS by "PAT-12";
    a_patch_that_fails: BUG_PATCH_FAILS by "PAT-15";
    a_part_that_begins_at_the_start_of_its_buffer: BUG_START_IGNORED by "GPU-ACCESS";
    a_submission_that_fails: BUG_SUBMIT_FAILS by "DDI-SUBMIT";
    a_paging_buffer_with_a_device: BUG_PAGING_HAS_DEVICE by "CRASH";
    a_transfer_after_a_reset_that_is_refused: BUG_RESET_TRANSFER_REFUSED by "BPB-27";
    a_reset_that_names_another_packet: BUG_WRONG_ABORTED_FENCE by "FLT-21";
    a_restart_that_fails: BUG_RESTART_FAILS by "FLT-32";
    an_open_allocation_that_is_kept: BUG_CLOSE_LEAK by "SHIM-POOL-LEAK";
    a_translation_that_begins_again: BUG_PARTS_FROM_START with WITH_PARTS by "PAT-12";
    a_resource_that_is_kept: BUG_RESOURCE_LEAK with WITHOUT_TEST_INTERFACE by "SHIM-POOL-LEAK";
    a_mapping_without_its_last_page: BUG_SHORT_MAP with WITH_APERTURE by "BPB-30 MAP_APERTURE_SEGMENT";
    pages_that_are_counted_on_in_a_mapping: BUG_MAP_COUNTS_ON with WITH_APERTURE by "BPB-30 MAP_APERTURE_SEGMENT";
    pages_that_go_on_to_show_what_they_did: BUG_NO_DUMMY_PAGE with WITH_APERTURE by "BPB-33 UNMAP_APERTURE_SEGMENT";
}
