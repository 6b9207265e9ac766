//! Several workloads as one: processes keep apart, arrivals are shifted and compressed.

use crate::support::{any_workload, kernel, workload};
use proptest::prelude::*;
use vidmm_trace::{Kernel, Workload};

/// Two kernels of process 3 and one of process 7.
fn two_processes() -> Workload {
    let of = |process, kernel| Kernel { process, ..kernel };
    workload(&[10, 20], vec![of(3, kernel(&[], &[0])), of(7, kernel(&[], &[1])), of(3, kernel(&[0], &[]))])
}

#[test]
fn an_added_workload_has_buffers_and_processes_of_its_own() {
    let mut both = workload(&[1000], vec![kernel(&[], &[0])]);
    assert_eq!(both.append(two_processes()), 1..3);
    assert_eq!(both.processes(), [0, 1, 2]);
    assert_eq!(both.kernels.iter().map(|kernel| kernel.process).collect::<Vec<_>>(), [0, 1, 2, 1]);
    assert_eq!((&both.kernels[2].writes, &both.kernels[3].reads), (&vec![2], &vec![1]));
    assert_eq!(both.validate(), Ok(()));
}

#[test]
fn the_first_workload_that_is_added_keeps_its_place() {
    let mut all = Workload::default();
    assert_eq!(all.append(two_processes()), 0..2);
    assert_eq!(all.kernels.len(), 3);
}

#[test]
fn processes_that_run_beside_each_other_need_the_sum_of_their_peaks() {
    let mut both = workload(&[1000, 1], vec![kernel(&[], &[0]), kernel(&[], &[1])]);
    both.append(two_processes());
    assert_eq!(both.footprint(1).peak_bytes, 1000 + 10 + 20);
}

#[test]
fn arrivals_are_compressed_and_then_start_later() {
    let mut late = workload(&[1], vec![Kernel { not_before_ns: 4_000, ..kernel(&[], &[0]) }]);
    late.compress_arrivals(400);
    assert_eq!(late.kernels[0].not_before_ns, 10);
    late.delay(5);
    assert_eq!(late.kernels[0].not_before_ns, 15);
    late.compress_arrivals(0);
    assert_eq!(late.kernels[0].not_before_ns, 15);
}

proptest! {
    #[test]
    fn the_footprint_of_two_is_the_sum(one in any_workload(), other in any_workload()) {
        let sum = one.footprint(1).peak_bytes + other.footprint(1).peak_bytes;
        let mut both = one;
        both.append(other);
        prop_assert_eq!(both.footprint(1).peak_bytes, sum);
    }
}
