//! `Workload::insert_uploads` makes the host load the buffers that are read first.

use std::collections::BTreeSet;

use crate::support::{any_workload, kernel, workload};
use proptest::prelude::*;
use vidmm_trace::{Engine, Kernel, Workload};

/// The buffers that are uploaded, in order.
fn uploaded(workload: &Workload) -> Vec<u32> {
    let uploads = workload.kernels.iter().filter(|kernel| kernel.is_upload());
    uploads.flat_map(|kernel| kernel.writes.clone()).collect()
}

#[test]
fn an_upload_comes_right_before_the_first_reader() {
    let reader = Kernel { not_before_ns: 77, ..kernel(&[0, 1], &[1]) };
    let mut workload = workload(&[10, 20], vec![kernel(&[], &[0]), reader]);
    workload.insert_uploads();
    let upload = &workload.kernels[1];
    assert_eq!(workload.kernels.len(), 3);
    assert!(upload.is_upload() && upload.reads.is_empty());
    assert_eq!((upload.engine, &upload.writes[..]), (Engine::Copy, &[1][..]));
    assert_eq!((upload.not_before_ns, upload.process), (77, 0));
}

#[test]
fn an_upload_belongs_to_the_process_of_its_reader() {
    let mut workload = workload(&[10], vec![Kernel { process: 5, ..kernel(&[0], &[]) }]);
    workload.insert_uploads();
    assert_eq!(workload.kernels[0].process, 5);
    assert_eq!(workload.validate(), Ok(()));
}

#[test]
fn a_buffer_that_is_written_first_is_not_uploaded() {
    let mut workload = workload(&[10, 20], vec![kernel(&[], &[0]), kernel(&[0], &[1])]);
    workload.insert_uploads();
    assert!(uploaded(&workload).is_empty());
}

#[test]
fn indices_out_of_range_do_not_panic() {
    let mut workload = workload(&[10], vec![kernel(&[9, 0], &[8])]);
    workload.insert_uploads();
    assert_eq!(uploaded(&workload), [0]);
}

proptest! {
    #[test]
    fn nothing_is_read_before_it_was_written(mut workload in any_workload()) {
        workload.insert_uploads();
        let mut written = BTreeSet::<u32>::new();
        for kernel in &workload.kernels {
            prop_assert!(kernel.reads.iter().all(|buffer| written.contains(buffer)));
            written.extend(&kernel.writes);
        }
    }

    #[test]
    fn the_client_kernels_stay_as_they_are(workload in any_workload()) {
        let mut loaded = workload.clone();
        loaded.insert_uploads();
        let kept = loaded.kernels.iter().filter(|kernel| !kernel.is_upload());
        prop_assert!(kept.eq(&workload.kernels));
    }

    #[test]
    fn each_buffer_is_uploaded_at_most_once(mut workload in any_workload()) {
        workload.insert_uploads();
        let mut buffers = uploaded(&workload);
        buffers.sort_unstable();
        prop_assert!(buffers.windows(2).all(|pair| pair[0] != pair[1]));
    }

    #[test]
    fn inserting_again_changes_nothing(mut workload in any_workload()) {
        workload.insert_uploads();
        let once = workload.clone();
        workload.insert_uploads();
        prop_assert_eq!(workload, once);
    }
}
