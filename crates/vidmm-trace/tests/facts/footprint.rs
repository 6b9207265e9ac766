//! `Workload::footprint` measures the memory that a workload needs.

use crate::support::{any_workload, kernel, workload};
use proptest::prelude::*;
use vidmm_trace::{Buffer, Lifetime, Workload};

/// Says whether a buffer is alive while kernel `at` runs, by looking at every kernel.
fn alive(workload: &Workload, buffer: usize, at: usize) -> bool {
    let used = |kernel: &vidmm_trace::Kernel| kernel.buffers().contains(&(buffer as u32));
    let before = workload.kernels[..=at].iter().any(used);
    let after = workload.kernels[at..].iter().any(used);
    match workload.buffers[buffer].lifetime {
        Lifetime::Whole => true,
        Lifetime::Temporary => before && after,
        Lifetime::Kept => before,
    }
}

/// The peak, found by summing up everything at every kernel.
fn brute_force_peak(workload: &Workload, granule: u64) -> u64 {
    let live = |at| {
        let buffers = 0..workload.buffers.len();
        let live = buffers.filter(|&buffer| alive(workload, buffer, at));
        live.map(|buffer| workload.buffers[buffer].bytes.next_multiple_of(granule)).sum()
    };
    (0..workload.kernels.len()).map(live).max().unwrap_or(0)
}

/// A chain of three kernels over four buffers of 100 bytes.
fn chain() -> Workload {
    let kernels = vec![kernel(&[], &[0]), kernel(&[0], &[1]), kernel(&[1, 3], &[2, 3])];
    workload(&[100; 4], kernels)
}

#[test]
fn a_chain_of_temporaries_holds_a_link_at_a_time() {
    let footprint = chain().footprint(1);
    assert_eq!(footprint.peak_bytes, 300);
    assert_eq!(footprint.touched_bytes, 400);
    assert_eq!(footprint.largest_kernel_bytes, 300);
    assert_eq!((footprint.buffers, footprint.kernels), (4, 3));
    assert_eq!(footprint.touches, 6);
}

#[test]
fn uploads_are_counted_apart() {
    let mut chain = chain();
    chain.insert_uploads();
    let footprint = chain.footprint(1);
    assert_eq!((footprint.kernels, footprint.uploads, footprint.touches), (3, 1, 6));
}

#[test]
fn sizes_are_rounded_up_to_the_granule() {
    let footprint = chain().footprint(4096);
    assert_eq!(footprint.peak_bytes, 3 * 4096);
    assert_eq!(footprint.touched_bytes, 4 * 4096);
}

#[test]
fn a_granule_of_zero_counts_as_one() {
    assert_eq!(chain().footprint(0), chain().footprint(1));
}

#[test]
fn sums_beyond_64_bits_saturate() {
    let workload = workload(&[u64::MAX, u64::MAX], vec![kernel(&[0], &[1])]);
    let footprint = workload.footprint(u64::MAX);
    assert_eq!(footprint.peak_bytes, u64::MAX);
    assert_eq!(footprint.largest_kernel_bytes, u64::MAX);
}

#[test]
fn scaling_keeps_whole_pages_and_times() {
    let mut workload = workload(&[1, 8192, 1 << 20, u64::MAX], vec![kernel(&[0, 1], &[2, 3])]);
    workload.scale(100);
    let sizes: Vec<u64> = workload.buffers.iter().map(|buffer| buffer.bytes).collect();
    assert_eq!(sizes[..3], [4096, 4096, 12288]);
    assert_eq!(sizes[3] % 4096, 0);
    assert_eq!(workload.kernels[0], kernel(&[0, 1], &[2, 3]));
}

#[test]
fn scaling_by_zero_and_by_one_rounds_only() {
    for divisor in [0, 1] {
        let mut workload = workload(&[4097], vec![kernel(&[0], &[])]);
        workload.scale(divisor);
        assert_eq!(workload.buffers[0].bytes, 8192);
    }
}

#[test]
fn a_buffer_without_uses_has_an_empty_range() {
    let workload = workload(&[1, 1], vec![kernel(&[], &[1]), kernel(&[1], &[])]);
    assert_eq!(workload.first_and_last_use(), [(u32::MAX, 0), (0, 1)]);
}

#[test]
fn kept_buffers_stay_to_the_end() {
    let mut workload = workload(&[10, 10, 10], (0..3).map(|b| kernel(&[], &[b])).collect());
    assert_eq!(workload.footprint(1).peak_bytes, 10);
    for Buffer { lifetime, .. } in &mut workload.buffers {
        *lifetime = Lifetime::Kept;
    }
    assert_eq!(workload.footprint(1).peak_bytes, 30);
}

proptest! {
    #[test]
    fn the_peak_is_that_of_a_count_at_every_kernel(
        workload in any_workload(),
        granule in prop_oneof![Just(1_u64), Just(4096), Just(65536)],
    ) {
        prop_assert_eq!(workload.footprint(granule).peak_bytes, brute_force_peak(&workload, granule));
    }

    #[test]
    fn a_kernel_needs_no_more_than_the_peak(workload in any_workload()) {
        let footprint = workload.footprint(1);
        prop_assert!(footprint.largest_kernel_bytes <= footprint.peak_bytes);
    }
}
