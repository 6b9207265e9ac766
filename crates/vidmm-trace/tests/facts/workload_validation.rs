//! The workloads that `Workload::validate` accepts and refuses.

use crate::support::{kernel, workload};
use vidmm_trace::{Cost, Engine, Kernel, Workload, WorkloadError};

/// The error that validation of the workload gives.
fn refused(workload: &Workload) -> WorkloadError {
    workload.validate().expect_err("the workload is invalid")
}

#[test]
fn a_proper_workload_passes() {
    let workload = workload(&[10, 20], vec![kernel(&[], &[0]), kernel(&[0, 1], &[1])]);
    assert_eq!(workload.validate(), Ok(()));
}

#[test]
fn an_empty_workload_is_refused() {
    assert_eq!(refused(&Workload::default()), WorkloadError::Empty);
}

#[test]
fn an_index_out_of_range_is_refused() {
    let error = refused(&workload(&[10], vec![kernel(&[0], &[7])]));
    assert_eq!(error, WorkloadError::NoSuchBuffer { kernel: 0, index: 7, buffers: 1 });
}

#[test]
fn a_buffer_without_bytes_is_refused() {
    let error = refused(&workload(&[10, 0], vec![kernel(&[0], &[1])]));
    assert_eq!(error, WorkloadError::NoBytes { name: 1 });
}

#[test]
fn a_buffer_without_uses_is_refused() {
    let error = refused(&workload(&[10, 20], vec![kernel(&[], &[0])]));
    assert_eq!(error, WorkloadError::Unused { name: 1 });
}

#[test]
fn a_kernel_without_buffers_is_refused() {
    let error = refused(&workload(&[10], vec![kernel(&[], &[0]), kernel(&[], &[])]));
    assert_eq!(error, WorkloadError::Idle { kernel: 1 });
}

#[test]
fn a_buffer_named_twice_in_one_list_is_refused() {
    let error = refused(&workload(&[10, 20], vec![kernel(&[0, 1, 0], &[1])]));
    assert_eq!(error, WorkloadError::Twice { kernel: 0, name: 0 });
}

#[test]
fn an_upload_that_reads_is_refused() {
    let upload = Kernel { cost: Cost::Upload, engine: Engine::Copy, ..kernel(&[0], &[1]) };
    let error = refused(&workload(&[10, 20], vec![upload]));
    assert_eq!(error, WorkloadError::BadUpload { kernel: 0 });
}

#[test]
fn an_upload_on_the_compute_engine_is_refused() {
    let upload = Kernel { cost: Cost::Upload, ..kernel(&[], &[0]) };
    let error = refused(&workload(&[10], vec![upload]));
    assert_eq!(error, WorkloadError::BadUpload { kernel: 0 });
}

#[test]
fn sizes_beyond_any_machine_are_refused() {
    let error = refused(&workload(&[u64::MAX, u64::MAX], vec![kernel(&[0], &[1])]));
    assert_eq!(error, WorkloadError::TooLarge);
}

#[test]
fn a_buffer_of_two_processes_is_refused_by_name() {
    let second = Kernel { process: 3, ..kernel(&[0], &[1]) };
    let error = refused(&workload(&[10, 20], vec![kernel(&[], &[0]), second]));
    assert_eq!(error, WorkloadError::Shared { kernel: 1, name: 0, first: 0, second: 3 });
    let text = error.to_string();
    assert!(text.contains("belongs to process 0") && text.contains("its own buffer"), "{text}");
}

#[test]
fn processes_are_listed_once_and_in_order() {
    let of = |process| Kernel { process, ..kernel(&[], &[process]) };
    let workload = workload(&[1, 1, 1], vec![of(2), of(0), of(2)]);
    assert_eq!(workload.processes(), [0, 2]);
}
