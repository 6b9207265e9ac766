//! The aperture shows pages of system memory, and the dummy page where nothing is mapped any more.

use crate::common::*;
use vidmm::contract::*;
use vidmm::{PageSize, PhysicalAddress};
use vidmm_runtime::{Content, Gpu};
use vidmm_soft::encoding::{Command, MapAperture, UnmapAperture, encode_to_vec};
use vidmm_soft::{HardwareEntry, LOCAL_SEGMENT, SoftAdapterConfig};

const ALLOCATION: u64 = 16 << 20;
const DUMMY: u64 = 1 << 20;
const VA: u64 = 1 << 30;
const PAGES: u64 = 8;
/// The page of the aperture that the allocation is mapped at, where 64 KiB begin.
const AT: u64 = 7 << 4;

fn config() -> SoftAdapterConfig {
    // So small that every operation takes several commands.
    SoftAdapterConfig { local_memory_bytes: 256 << 20, max_command_bytes: 3 * PAGE, ..Default::default() }
}

fn in_aperture(rig: &Rig, page: u64) -> PhysicalAddress {
    PhysicalAddress { segment: rig.config.aperture_segment().unwrap(), offset: page * PAGE }
}

/// Ramp pages in the allocation and in the dummy page; the aperture shows the allocation, and VA maps the aperture.
fn rig_with(config: SoftAdapterConfig) -> (Rig, Process) {
    let mut rig = Rig::new(config);
    let process = rig.process();
    rig.system.lock().write_pages(ALLOCATION / PAGE, PAGES, Content::Ramp, |page| 1000 + page);
    rig.system.lock().write_pages(DUMMY / PAGE, 1, Content::Ramp, |_| 7);
    let commands = rig.map_aperture(AT, PAGES, ALLOCATION);
    rig.run_well(process, commands);
    let first = Pte::valid(in_aperture(&rig, AT));
    rig.map_now(process, VA, first, PAGES, PageSize::Kib4);
    (rig, process)
}

fn system_digests(rig: &Rig, offset: u64, pages: u64) -> Vec<u64> {
    (0..pages).map(|page| rig.system.lock().page_digest(offset / PAGE + page)).collect()
}

fn shown(rig: &Rig) -> Vec<u64> {
    (0..PAGES).map(|page| rig.gpu.page_digest(in_aperture(rig, AT + page)).unwrap()).collect()
}

#[test]
fn kernels_read_and_write_system_memory_through_it() {
    for config in [
        config(),
        SoftAdapterConfig { map_aperture2: true, ..config() },
        SoftAdapterConfig { max_command_bytes: 3 * PAGE, ..SoftAdapterConfig::without_local_memory() },
    ] {
        let (mut rig, process) = rig_with(config);
        let content = system_digests(&rig, ALLOCATION, PAGES);
        assert_eq!(rig.read(process, range(VA, PAGES)), content);
        assert_eq!(shown(&rig), content);
        rig.write_local(process, VA + PAGE, 3, 5);
        let written = system_digests(&rig, ALLOCATION, PAGES);
        assert_eq!(written[1], expected(5, &[]));
        assert_eq!((written[0], &written[4..]), (content[0], &content[4..]));
        assert_eq!(rig.gpu.counters().aperture_entries_written, PAGES);
        assert_eq!(rig.gpu.counters().commands.map_aperture, 3);
    }
}

#[test]
fn without_local_memory_it_is_the_first_segment() {
    assert_eq!(SoftAdapterConfig::without_local_memory().aperture_segment(), Some(LOCAL_SEGMENT));
    let (mut rig, process) = rig_with(SoftAdapterConfig::without_local_memory());
    assert_eq!(rig.digest(process, VA), Some(system_digests(&rig, ALLOCATION, 1)[0]));
    assert_eq!(rig.gpu.page_digest(local(0)), None, "page 0 of the aperture shows nothing");
}

#[test]
fn a_new_mapping_is_seen_without_a_flush() {
    let (mut rig, process) = rig_with(config());
    rig.read(process, range(VA, PAGES));
    let other = ALLOCATION + (1 << 20);
    rig.system.lock().write_pages(other / PAGE, PAGES, Content::Ramp, |page| page);
    let commands = rig.map_aperture(AT, PAGES, other);
    rig.run_well(process, commands);
    assert_eq!(rig.read(process, range(VA, PAGES)), system_digests(&rig, other, PAGES));
}

#[test]
fn an_unmapped_range_shows_the_dummy_page_and_stray_access_harms_nobody() {
    let (mut rig, process) = rig_with(config());
    let content = system_digests(&rig, ALLOCATION, PAGES);
    let commands = rig.unmap_aperture(AT, PAGES, DUMMY);
    rig.run_well(process, commands);
    let dummy = system_digests(&rig, DUMMY, 1)[0];
    assert_eq!(shown(&rig), [dummy; PAGES as usize]);
    assert_eq!(rig.read(process, range(VA, PAGES)), [dummy; PAGES as usize]);
    rig.write_local(process, VA, 1, 5);
    assert_eq!(system_digests(&rig, ALLOCATION, PAGES), content);
    assert_eq!(shown(&rig), [expected(5, &[]); PAGES as usize]);
}

#[test]
fn old_entries_that_a_driver_leaves_are_seen() {
    let (mut rig, process) = rig_with(config());
    // Of the three commands the driver loses the second.
    let commands = rig.unmap_aperture(AT, PAGES, DUMMY);
    let one = commands.len() / 3;
    rig.run_well(process, [&commands[..one], &commands[2 * one..]].concat());
    let (content, dummy) = (system_digests(&rig, ALLOCATION, PAGES), system_digests(&rig, DUMMY, 1)[0]);
    let mut left = vec![dummy; PAGES as usize];
    left[3..6].copy_from_slice(&content[3..6]);
    assert_eq!(shown(&rig), left);
}

#[test]
fn pages_that_nothing_was_ever_mapped_at_fault() {
    let (mut rig, process) = rig_with(config());
    let before = Pte::valid(in_aperture(&rig, AT - 1));
    rig.map_now(process, 2 * VA, before, 3, PageSize::Kib4);
    let events = rig.run(process, kernel(1, 0, &[], &[range(2 * VA, 3)]));
    assert_eq!(faults(&events), [(2 * VA, true)]);
    rig.read(process, range(2 * VA + PAGE, 2));
    let end = Pte::valid(in_aperture(&rig, AT + PAGES - 1));
    rig.map_now(process, 3 * VA, end, 2, PageSize::Kib4);
    let events = rig.run(process, kernel(1, 0, &[range(3 * VA, 2)], &[]));
    assert_eq!(faults(&events), [(3 * VA + PAGE, false)]);
    // An entry of 64 KiB, of which only a part shows something.
    let large = Pte::valid(in_aperture(&rig, AT));
    rig.map_now(process, 4 * VA, large, 1, PageSize::Kib64);
    let events = rig.run(process, kernel(1, 0, &[range(4 * VA, 16)], &[]));
    assert_eq!(faults(&events), [(4 * VA + PAGES * PAGE, false)]);
    let pages = rig.config.aperture_bytes / PAGE;
    for page in [0, AT - 1, AT + PAGES, pages, 1 << 50] {
        assert_eq!(rig.gpu.page_digest(in_aperture(&rig, page)), None);
    }
}

#[test]
fn transfers_through_it_count_as_system_memory() {
    let (mut rig, process) = rig_with(config());
    rig.map_now(process, 2 * VA, Pte::valid(local(0)), 1, PageSize::Kib64);
    let commands = rig.transfer(VA, 2 * VA, PAGES * PAGE, MemoryTransferDirection::SystemToLocal);
    rig.run_well(process, commands);
    assert_eq!(rig.gpu.counters().bytes_from_system, PAGES * PAGE);
    assert_eq!(rig.read(process, range(2 * VA, PAGES)), system_digests(&rig, ALLOCATION, PAGES));
}

#[test]
fn no_page_table_is_found_in_it() {
    let (mut rig, process) = rig_with(config());
    // The allocation as a leaf table: its first entry maps the dummy page.
    rig.system.lock().write_word(ALLOCATION, HardwareEntry::from_pte(Pte::valid(system(DUMMY))).0);
    let (level_1, mapped) = (local(rig.config.local_memory_bytes / 2 + (32 << 10)), 9 << 25);
    let through_aperture = in_aperture(&rig, AT);
    let dummy = system_digests(&rig, DUMMY, 1)[0];
    for (table, found) in [(system(ALLOCATION), Some(dummy)), (through_aperture, None)] {
        let run = PteRun { first: Pte::valid(table), first_64kb: None, num_page_table_entries: 1 };
        let commands = rig.update(process, 1, level_1, 9, run, UpdatePageTableFlags::empty(), mapped);
        rig.run_well(process, commands);
        assert_eq!(rig.digest(process, mapped), found);
    }
}

#[test]
fn commands_outside_of_it_or_of_system_memory_mean_nothing() {
    let (mut rig, process) = rig_with(config());
    let pages = rig.config.aperture_bytes / PAGE;
    let segment = rig.config.aperture_segment().unwrap();
    let allocation = KmdAllocationHandle(1);
    let map = |first_page, num_pages, system_memory| {
        Command::MapAperture(MapAperture {
            segment,
            first_page,
            num_pages,
            system_memory,
            cache_coherent: false,
            allocation,
        })
    };
    let unmap = |first_page, num_pages, dummy_page| {
        Command::UnmapAperture(UnmapAperture { segment, first_page, num_pages, dummy_page, allocation })
    };
    for command in [
        map(pages, 1, system(DUMMY)),
        map(pages - 1, 2, system(DUMMY)),
        map(u64::MAX, 2, system(DUMMY)),
        map(0, 1, local(0)),
        map(0, 1, system(DUMMY + 8)),
        map(0, 2, system(vidmm_soft::SYSTEM_MEMORY_BYTES - PAGE)),
        unmap(pages, 1, system(DUMMY)),
        unmap(0, u64::MAX, system(DUMMY)),
        unmap(0, 1, local(0)),
        unmap(0, 1, system(u64::MAX - 4095)),
    ] {
        let mut bytes = Vec::new();
        encode_to_vec(&command, &mut bytes);
        let events = rig.run(process, bytes);
        assert!(is_refusal(&events), "{command:?}: {events:?}");
        assert_eq!(rig.gpu.page_digest(in_aperture(&rig, 0)), None, "{command:?}");
    }
}
