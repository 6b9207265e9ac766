//! The TLB is endless: what is not flushed is stale.

use crate::common::*;
use vidmm::PageSize;
use vidmm::contract::Pte;
use vidmm_soft::SoftAdapterConfig;

fn config() -> SoftAdapterConfig {
    SoftAdapterConfig { local_memory_bytes: 256 << 20, ..Default::default() }
}

const VA: u64 = 1 << 20;

/// Content 1 at local 0, content 2 at local 1 MiB; `VA` maps the first and has been read.
fn rig_with_cached_mapping(page_size: PageSize) -> (Rig, Process) {
    let mut rig = Rig::new(config());
    let process = rig.process();
    for (content, at) in [(1, 0), (2, 1 << 20)] {
        rig.map_now(process, (1 << 30) + at, Pte::valid(local(at)), 16, PageSize::Kib4);
        rig.write_local(process, (1 << 30) + at, 1, content);
    }
    rig.map_now(process, VA, Pte::valid(local(0)), 1, page_size);
    assert_eq!(read(&mut rig, process), expected(1, &[]));
    rig.map_now(process, VA, Pte::valid(local(1 << 20)), 1, page_size);
    (rig, process)
}

fn read(rig: &mut Rig, process: Process) -> u64 {
    let events = rig.run(process, kernel(9, 0, &[range(VA, 1)], &[]));
    reads(&events)[0].1[0][0]
}

#[test]
fn without_a_flush_old_bytes_are_read() {
    for page_size in [PageSize::Kib4, PageSize::Kib64] {
        let (mut rig, process) = rig_with_cached_mapping(page_size);
        assert_eq!(rig.digest(process, VA), Some(expected(2, &[])), "the tables are right");
        assert_eq!(read(&mut rig, process), expected(1, &[]));
    }
}

#[test]
fn with_a_flush_new_bytes_are_read() {
    for page_size in [PageSize::Kib4, PageSize::Kib64] {
        for (start, end) in [(VA, VA + PAGE), (0, 0), (0, 1 << 40)] {
            let (mut rig, process) = rig_with_cached_mapping(page_size);
            let flush = rig.flush(process, start, end);
            rig.run(process, flush);
            assert_eq!(read(&mut rig, process), expected(2, &[]));
        }
    }
}

#[test]
fn a_flush_of_other_addresses_or_another_process_changes_nothing() {
    let (mut rig, process) = rig_with_cached_mapping(PageSize::Kib4);
    let other = rig.process();
    for flush in [
        rig.flush(process, 0, VA),
        rig.flush(process, VA + PAGE, 1 << 40),
        rig.flush(other, 0, 0),
        rig.flush(process, VA, VA),
    ] {
        rig.run(process, flush);
        assert_eq!(read(&mut rig, process), expected(1, &[]));
    }
}

#[test]
fn a_flush_of_a_part_forgets_a_64_kib_entry_whole() {
    let (mut rig, process) = rig_with_cached_mapping(PageSize::Kib64);
    let flush = rig.flush(process, VA + 15 * PAGE, VA + 16 * PAGE);
    rig.run(process, flush);
    assert_eq!(read(&mut rig, process), expected(2, &[]));
}

#[test]
fn a_4_kib_entry_that_was_not_flushed_stays_stale_under_a_new_64_kib_one() {
    let (mut rig, process) = rig_with_cached_mapping(PageSize::Kib4);
    rig.map_now(process, VA, Pte::valid(local(1 << 20)), 1, PageSize::Kib64);
    let events = rig.run(process, kernel(9, 0, &[range(VA + PAGE, 1)], &[]));
    assert_eq!(faults(&events), []);
    assert_eq!(read(&mut rig, process), expected(1, &[]));
}

#[test]
fn a_removed_mapping_can_be_used_until_it_is_flushed() {
    let (mut rig, process) = rig_with_cached_mapping(PageSize::Kib64);
    rig.map_now(process, VA, Pte::INVALID, 1, PageSize::Kib64);
    rig.map_now(process, VA, Pte::INVALID, 16, PageSize::Kib4);
    assert_eq!(read(&mut rig, process), expected(1, &[]));
    let flush = rig.flush(process, VA, VA + (64 << 10));
    rig.run(process, flush);
    let events = rig.run(process, kernel(9, 0, &[range(VA, 1)], &[]));
    assert_eq!(faults(&events), [(VA, false)]);
}

/// Faults at an address, maps it, and tries again.
fn fault_then_map(config: SoftAdapterConfig) -> (Rig, Process, Vec<(u64, bool)>) {
    let mut rig = Rig::new(config);
    let process = rig.process();
    rig.map_now(process, VA - PAGE, Pte::valid(local(0)), 1, PageSize::Kib4);
    let events = rig.run(process, kernel(1, 0, &[range(VA, 1)], &[]));
    assert_eq!(faults(&events), [(VA, false)]);
    rig.map_now(process, VA, Pte::valid(local(0)), 1, PageSize::Kib64);
    let events = rig.run(process, kernel(2, 0, &[range(VA, 1)], &[]));
    (rig, process, faults(&events))
}

#[test]
fn invalid_entries_are_not_cached_by_default() {
    let (_, _, faults) = fault_then_map(config());
    assert_eq!(faults, []);
}

#[test]
fn invalid_entries_are_cached_if_the_adapter_says_so() {
    let (mut rig, process, seen) =
        fault_then_map(SoftAdapterConfig { invalid_tlb_entries_not_cached: false, ..config() });
    assert_eq!(seen, [(VA, false)]);
    let flush = rig.flush(process, VA, VA + PAGE);
    rig.run(process, flush);
    let events = rig.run(process, kernel(3, 0, &[range(VA, 1)], &[]));
    assert_eq!(faults(&events), []);
}

#[test]
fn every_entry_is_filled_once() {
    let mut rig = Rig::new(config());
    let process = rig.process();
    rig.map_now(process, VA, Pte::valid(local(0)), 8, PageSize::Kib64);
    rig.write_local(process, VA, 128, 1);
    rig.write_local(process, VA, 128, 2);
    assert_eq!(rig.gpu.counters().tlb_fills, 8);
}
