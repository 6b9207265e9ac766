//! Addresses are translated through every layout of page tables.

use crate::common::*;
use vidmm::contract::{KmdAllocationHandle, MemoryTransferDirection, Pte, PteFlags, PteRun, UpdatePageTableFlags};
use vidmm::{GpuVirtualAddress, PageSize};
use vidmm_runtime::GpuEvent;
use vidmm_soft::encoding::{Command, Foreign, encode_to_vec};
use vidmm_soft::{RENDER_ENGINE, SoftAdapterConfig};

fn small(config: SoftAdapterConfig) -> SoftAdapterConfig {
    SoftAdapterConfig { local_memory_bytes: 256 << 20, ..config }
}

/// Writes through one mapping and reads through another of the same memory, over the border of a leaf table.
fn maps_and_reads(config: SoftAdapterConfig, page_size: PageSize) {
    let mut rig = Rig::new(small(config));
    let process = rig.process();
    let border = 1 << 35;
    let (there, here) = (border - 2 * page_size.bytes(), 5 * border + page_size.bytes());
    rig.map_now(process, there, Pte::valid(local(1 << 20)), 4, page_size);
    rig.map_now(process, here, Pte::valid(local(1 << 20)), 4, page_size);
    let pages = 4 * page_size.bytes() / PAGE;
    rig.write_local(process, there, pages, 1);
    let events = rig.run(process, kernel(2, 0, &[range(here, pages)], &[]));
    let (_, inputs) = &reads(&events)[0];
    assert_eq!(inputs[0].len() as u64, pages);
    assert_eq!(inputs[0][0], expected(1, &[]));
    for page in 0..pages {
        assert_eq!(rig.digest(process, there + page * PAGE), Some(inputs[0][page as usize]));
    }
    assert_eq!(rig.digest(process, there - PAGE), None);
}

#[test]
fn of_4_kib_pages_in_four_levels() {
    maps_and_reads(SoftAdapterConfig::with_4kib_pages(), PageSize::Kib4);
}

#[test]
fn of_4_kib_pages_beside_dual_entries() {
    maps_and_reads(SoftAdapterConfig::default(), PageSize::Kib4);
}

#[test]
fn of_64_kib_pages_behind_dual_entries() {
    maps_and_reads(SoftAdapterConfig::default(), PageSize::Kib64);
}

#[test]
fn in_two_levels_whose_root_is_dual() {
    let config =
        SoftAdapterConfig { page_table_index_bits: vec![13], virtual_address_bit_count: 40, ..Default::default() };
    maps_and_reads(config, PageSize::Kib64);
}

#[test]
fn in_six_levels_of_system_memory() {
    let config = SoftAdapterConfig {
        page_table_index_bits: vec![9, 8, 5, 5, 5],
        page_tables_in_system_memory: true,
        virtual_address_bit_count: 48,
        ..Default::default()
    };
    maps_and_reads(config.clone(), PageSize::Kib64);
    maps_and_reads(config, PageSize::Kib4);
}

#[test]
fn a_64_kib_page_is_16_entries_where_there_are_no_64_kib_tables() {
    let mut rig = Rig::new(small(SoftAdapterConfig { dual_pte: false, ..Default::default() }));
    let process = rig.process();
    rig.map_now(process, 1 << 16, Pte::valid(local(1 << 16)), 16, PageSize::Kib4);
    rig.write_local(process, 1 << 16, 16, 1);
    assert_eq!(rig.digest(process, 1 << 16), Some(expected(1, &[])));
}

#[test]
fn either_side_of_a_dual_entry_counts() {
    let mut rig = Rig::new(small(SoftAdapterConfig::default()));
    let process = rig.process();
    // Neighbours in one level-1 entry: 64 KiB of local memory, then 64 KiB in pages of system memory.
    rig.map_now(process, 0x1_0000, Pte::valid(local(0)), 1, PageSize::Kib64);
    rig.map_now(process, 0x2_0000, Pte::valid(system(0x10_0000)), 16, PageSize::Kib4);
    rig.write_local(process, 0x1_0000, 32, 7);
    let in_memory = rig.system.lock().page_digest(0x100);
    assert_eq!(rig.digest(process, 0x2_0000), Some(in_memory));
    // The 64 KiB side goes, the 4 KiB side takes its place (GVA-43).
    rig.map_now(process, 0x1_0000, Pte::INVALID, 1, PageSize::Kib64);
    assert_eq!(rig.digest(process, 0x1_0000), None);
    rig.map_now(process, 0x1_0000, Pte::valid(system(0x10_0000)), 16, PageSize::Kib4);
    assert_eq!(rig.digest(process, 0x1_0000), rig.digest(process, 0x2_0000));
}

/// GVA-21: the entry above a leaf table shows as much as that covers, whatever the leaf table says.
#[test]
fn an_entry_of_level_1_shows_a_large_page() {
    for has_large_side in [false, true] {
        let mut rig = Rig::new(small(SoftAdapterConfig::default()));
        let process = rig.process();
        let coverage = 1 << 25; // Of a level-1 entry.
        let memory = 64 << 20;
        rig.map_now(process, 0, Pte::valid(local(0)), 1, PageSize::Kib64);
        let page = Pte { flags: PteFlags::VALID | PteFlags::LARGE_PAGE, address: local(memory) };
        let [first, large] = if has_large_side { [Pte::INVALID, page] } else { [page, Pte::INVALID] };
        let run = PteRun { first, first_64kb: Some(large), num_page_table_entries: 1 };
        let level1 = local(rig.config.local_memory_bytes / 2 + (32 << 10));
        let commands = rig.update(process, 1, level1, 0, run, UpdatePageTableFlags::empty(), 0);
        rig.run(process, commands);
        let last = coverage - PAGE;
        rig.map_now(process, 1 << 40, Pte::valid(local(memory)), 1, PageSize::Kib4);
        rig.map_now(process, (1 << 40) + PAGE, Pte::valid(local(memory + last)), 1, PageSize::Kib4);
        rig.write_local(process, 0, 1, 7);
        rig.write_local(process, last, 1, 8);
        assert_eq!(rig.digest(process, 1 << 40), Some(expected(7, &[])));
        assert_eq!(rig.digest(process, (1 << 40) + PAGE), Some(expected(8, &[])));
        assert_eq!(rig.digest(process, coverage), None);
    }
}

#[test]
fn a_run_of_dual_entries_advances_on_both_sides() {
    let mut rig = Rig::new(small(SoftAdapterConfig::default()));
    let process = rig.process();
    let coverage = 1 << 25; // Of a level-1 entry.
    rig.map_now(process, 0, Pte::valid(local(0)), 1, PageSize::Kib64);
    // Entries 1 to 3 point to 64 KiB tables one page apart, whose first entries map pages of different content.
    for entry in 1..4 {
        rig.system.lock().write_word((1 << 30) + (entry - 1) * PAGE, entry << 16 | 1 << 5 | 1);
    }
    let run = PteRun { first: Pte::INVALID, first_64kb: Some(Pte::valid(system(1 << 30))), num_page_table_entries: 3 };
    let level1 = local(rig.config.local_memory_bytes / 2 + (32 << 10));
    let commands = rig.update(process, 1, level1, 1, run, UpdatePageTableFlags::empty(), coverage);
    rig.run(process, commands);
    for entry in 1..4 {
        rig.write_local(process, entry * coverage, 1, entry);
    }
    rig.map_now(process, 1 << 40, Pte::valid(local(0)), 64, PageSize::Kib4);
    for entry in 1..4 {
        assert_eq!(rig.digest(process, (1 << 40) + (entry << 16)), Some(expected(entry, &[])));
    }
}

#[test]
fn zero_entries_read_as_zero_and_drop_writes() {
    let mut rig = Rig::new(small(SoftAdapterConfig::default()));
    let process = rig.process();
    let zero = Pte { flags: PteFlags::ZERO, ..Pte::INVALID };
    rig.map_now(process, 0x1_0000, zero, 1, PageSize::Kib64);
    rig.map_now(process, 0x2_0000, zero, 16, PageSize::Kib4);
    rig.write_local(process, 0x1_0000, 32, 1);
    let events = rig.run(process, kernel(2, 0, &[range(0x1_0000, 32)], &[]));
    assert_eq!(reads(&events)[0].1, [vec![0; 32]]);
    // The zero bit wins over the valid bit (C-8).
    let both = Pte { flags: PteFlags::ZERO | PteFlags::VALID, address: local(0) };
    rig.map_now(process, 0x3_0000, both, 1, PageSize::Kib64);
    assert_eq!(rig.digest(process, 0x3_0000), Some(0));
}

#[test]
fn a_zero_entry_of_a_higher_level_speaks_for_all_below_it() {
    let mut rig = Rig::new(small(SoftAdapterConfig::with_4kib_pages()));
    let process = rig.process();
    rig.map_now(process, 0, Pte::valid(local(0)), 1, PageSize::Kib4);
    let zero = Pte { flags: PteFlags::ZERO, ..Pte::INVALID };
    let root = local(rig.config.local_memory_bytes / 2);
    let run = PteRun { first: zero, first_64kb: None, num_page_table_entries: 2 };
    let commands = rig.update(process, 3, root, 1, run, UpdatePageTableFlags::REPEAT, 1 << 39);
    rig.run(process, commands);
    assert_eq!(rig.digest(process, (2 << 39) + 0x1234_5000), Some(0));
    assert_eq!(rig.digest(process, 3 << 39), None);
}

#[test]
fn addresses_beyond_the_roots_entries_fault() {
    let mut rig = Rig::new(small(SoftAdapterConfig::default()));
    let process = rig.process();
    let beyond = 3 << 35;
    rig.map_now(process, beyond, Pte::valid(local(0)), 1, PageSize::Kib64);
    rig.limit_root(process, 3);
    let events = rig.run(process, kernel(1, 0, &[], &[range(beyond, 1)]));
    assert_eq!(faults(&events), [(beyond, true)]);
    rig.limit_root(process, 4);
    rig.write_local(process, beyond, 1, 1);
}

#[test]
fn a_context_without_a_root_faults_everywhere() {
    let mut rig = Rig::new(small(SoftAdapterConfig::default()));
    let process = rig.process();
    rig.map_now(process, 0, Pte::valid(local(0)), 1, PageSize::Kib64);
    let mut stray = process;
    stray.context = vidmm::contract::Kmd::create_context(&mut rig.kmd, process.handle, RENDER_ENGINE, false).unwrap();
    let events = rig.run(stray, kernel(1, 0, &[range(0, 1)], &[]));
    assert_eq!(faults(&events), [(0, false)]);
}

#[test]
fn entries_that_point_outside_of_memory_fault() {
    let mut rig = Rig::new(small(SoftAdapterConfig::default()));
    let process = rig.process();
    rig.map_now(process, 0, Pte::valid(local(256 << 20)), 1, PageSize::Kib64);
    let in_aperture = vidmm::PhysicalAddress { segment: rig.config.aperture_segment().unwrap(), offset: 0 };
    rig.map_now(process, 1 << 16, Pte::valid(in_aperture), 1, PageSize::Kib64);
    for address in [0, 1 << 16] {
        let events = rig.run(process, kernel(1, 0, &[range(address, 1)], &[]));
        assert_eq!(faults(&events), [(address, false)]);
    }
}

#[test]
fn content_keeps_its_order_through_scattered_memory() {
    let mut rig = Rig::new(small(SoftAdapterConfig::default()));
    let process = rig.process();
    let (straight, scattered) = (1 << 30, 2 << 30);
    rig.map_now(process, straight, Pte::valid(local(1 << 20)), 4, PageSize::Kib64);
    // Backwards, 16 pages at a time, in both memories and with zeros between.
    rig.map_now(process, scattered, Pte::valid(local(5 << 20)), 1, PageSize::Kib64);
    rig.map_now(process, scattered + (1 << 16), Pte::valid(system(1 << 20)), 16, PageSize::Kib4);
    rig.map_now(process, scattered + (2 << 16), Pte { flags: PteFlags::ZERO, ..Pte::INVALID }, 1, PageSize::Kib64);
    rig.map_now(process, scattered + (3 << 16), Pte::valid(local(4 << 20)), 1, PageSize::Kib64);
    let page = |rig: &mut Rig, base, page| rig.digest(process, base + page * PAGE);

    rig.write_local(process, straight, 64, 1);
    let transfer = rig.transfer(straight, scattered, 64 * PAGE, MemoryTransferDirection::LocalToLocal);
    rig.run(process, transfer);
    for number in (0..64).filter(|number| number / 16 != 2) {
        assert_eq!(page(&mut rig, scattered, number), page(&mut rig, straight, number), "page {number}");
    }
    rig.write_local(process, straight, 64, 2);
    rig.write_local(process, scattered, 64, 2);
    for number in 0..64 {
        let written = page(&mut rig, straight, number);
        let expected = if number / 16 == 2 { Some(0) } else { written };
        assert_eq!(page(&mut rig, scattered, number), expected, "page {number}");
    }
    let transfer = rig.transfer(scattered, straight, 64 * PAGE, MemoryTransferDirection::LocalToLocal);
    rig.run(process, transfer);
    for number in 0..64 {
        assert_eq!(page(&mut rig, scattered, number), page(&mut rig, straight, number), "page {number}");
    }
}

/// The model GPU has no commands of users, and looks whether their range is there.
#[test]
fn commands_of_users_need_their_range() {
    let mut rig = Rig::new(small(SoftAdapterConfig::default()));
    let process = rig.process();
    rig.map_now(process, 1 << 20, Pte::valid(local(0)), 1, PageSize::Kib64);
    for (virtual_address, faults) in [(1 << 20, false), ((1 << 20) + PageSize::Kib64.bytes(), true)] {
        let mut commands = Vec::new();
        let foreign = Foreign {
            token: 1,
            virtual_address: GpuVirtualAddress(virtual_address),
            bytes: PageSize::Kib64.bytes(),
            allocation: KmdAllocationHandle(1),
            allocation_offset: 0,
        };
        encode_to_vec(&Command::Foreign(foreign), &mut commands);
        rig.submit(process, RENDER_ENGINE, &[], commands);
        let events = rig.drain();
        let has_faulted = events.iter().any(|event| matches!(event, GpuEvent::Interrupt { .. }));
        assert_eq!(has_faulted, faults, "{events:?}");
    }
}
