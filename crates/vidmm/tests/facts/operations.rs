//! The operations that are sent, and for what: the grammar of plans, chunks and windows (D6, U-14, BPB-40..42, PGV-05).

use crate::world::*;
use vidmm::contract::*;
use vidmm::*;

/// The kinds of the operations since `since`, repeated ones once, without those of the paging process.
fn phases(world: &World, since: usize) -> Vec<&'static str> {
    let mut kinds = Vec::new();
    for operation in world.operations_since(since) {
        let process = match operation {
            PagingOperation::UpdatePageTable(op) => op.process,
            PagingOperation::FlushTlb(op) => op.process,
            _ => KmdProcessHandle(0),
        };
        if process != KmdProcessHandle(1) {
            kinds.push(kind(&operation));
        }
    }
    kinds.dedup();
    kinds
}

/// The kinds of all operations since `since`.
fn kinds(world: &World, since: usize) -> Vec<&'static str> {
    world.operations_since(since).iter().map(kind).collect()
}

/// Work of which the manager must think that it writes to all that is on the list.
fn work(world: &mut World, client: Client) {
    world.submit(client, &[]);
    world.run_all();
}

/// An adapter whose windows show `window_pages` pages, and an allocation of `pages` pages.
fn narrow(window_pages: u64, pages: u64) -> (World, Client, AllocationId) {
    // An eighth of the address space bounds a window (U-16).
    let root = (window_pages * 8).ilog2() - 7;
    let config = Config { level_bits: vec![4, 3, root], ..Config::pages(pages.max(window_pages)) };
    let mut world = World::new(config);
    let client = world.client();
    let a = world.allocate(client, pages);
    (world, client, a)
}

/// GVA-25, GVA-51, U-14: first tables from the root down, then the content, then the entries.
#[test]
fn tables_are_made_from_the_root_down() {
    let mut world = World::new(Config::pages(8));
    let since = world.driver.operations.len();
    let client = world.client();
    let a = world.allocate(client, 4);
    world.map(client, a);
    world.run_all();
    let levels = world.operations_since(since).into_iter().map(|operation| match operation {
        PagingOperation::UpdatePageTable(op) => (kind(&operation), op.page_table_level),
        other => panic!("{other:?}"),
    });
    let expected = [("initialise", 2), ("initialise", 1), ("link", 2), ("initialise", 0), ("link", 1)];
    assert_eq!(levels.collect::<Vec<_>>(), expected);
}

/// U-14, RES-18: content first, then the entries that show it.
#[test]
fn a_page_in_shows_what_has_arrived() {
    let (mut world, client) = World::with_pages(8);
    let a = world.allocate(client, 4);
    world.map(client, a);
    world.run_all();
    let since = world.driver.operations.len();
    world.bring_in(client, &[a]);
    assert_eq!(phases(&world, since), ["fill", "valid", "flush"]);
}

/// U-14, GVA-28, RES-22: out of sight, flushed, then copied out.
#[test]
fn an_eviction_hides_what_it_copies_out() {
    let (mut world, client) = World::with_pages(8);
    let (a, _) = world.resident(client, 4);
    work(&mut world, client);
    let since = world.driver.operations.len();
    world.evict(client, &[a], SOON).unwrap();
    world.run_all();
    assert_eq!(phases(&world, since), ["invalid", "flush", "out"]);
    let since = world.driver.operations.len();
    world.bring_in(client, &[a]);
    assert_eq!(phases(&world, since), ["in", "valid", "flush"]);
    work(&mut world, client);
    let since = world.driver.operations.len();
    world.evict(client, &[a], NOT_WRITTEN).unwrap();
    world.run_all();
    assert_eq!(phases(&world, since), ["invalid", "flush"], "what is clean is not copied");
}

/// U-14: evictions go before page-ins.
#[test]
fn victims_leave_before_others_come_in() {
    let (mut world, client) = World::with_pages(4);
    let (a, _) = world.resident(client, 4);
    work(&mut world, client);
    world.evict(client, &[a], IF_NECESSARY).unwrap();
    let b = world.allocate(client, 4);
    world.map(client, b);
    world.run_all();
    let since = world.driver.operations.len();
    world.bring_in(client, &[b]);
    assert_eq!(phases(&world, since), ["invalid", "flush", "out", "fill", "valid", "flush"]);
}

/// 4.2 bit 10: no flush where invalid entries are never cached.
#[test]
fn no_flush_where_invalid_entries_are_not_cached() {
    let mut world = World::new(Config { invalid_not_cached: true, ..Config::pages(8) });
    let client = world.client();
    let since = world.driver.operations.len();
    let (a, _) = world.resident(client, 4);
    assert!(!kinds(&world, since).contains(&"flush"));
    work(&mut world, client);
    let since = world.driver.operations.len();
    world.evict(client, &[a], SOON).unwrap();
    world.run_all();
    assert_eq!(phases(&world, since), ["invalid", "flush", "out"], "what was valid is flushed");
}

/// BPB-40, BPB-41: map the windows, flush both, move, unmap the windows.
#[test]
fn a_transfer_has_a_window_on_each_side() {
    let (mut world, client) = World::with_pages(8);
    let a = world.allocate(client, 4);
    world.bring_in(client, &[a]);
    work(&mut world, client);
    let since = world.driver.operations.len();
    world.evict(client, &[a], SOON).unwrap();
    world.run_all();
    let mut sent = kinds(&world, since);
    sent.dedup();
    assert_eq!(sent, ["valid", "flush", "out", "invalid"]);
    assert_eq!(kinds(&world, since).iter().filter(|&&kind| kind == "invalid").count(), 2);
}

/// GVA-31, BPB-41: the windows of a plan are mapped one after another, flushed together, and unmapped together.
#[test]
fn the_windows_of_a_list_are_open_together() {
    let (mut world, client) = World::with_pages(32);
    let allocations = [0; 4].map(|_| world.allocate(client, 4));
    let since = world.driver.operations.len();
    world.bring_in(client, &allocations);
    let each = |kind| [kind; 4];
    assert_eq!(kinds(&world, since), [&each("valid")[..], &["flush"], &each("fill"), &["invalid"]].concat());
    work(&mut world, client);
    let since = world.driver.operations.len();
    world.evict(client, &allocations, SOON).unwrap();
    world.run_all();
    let of = |kind: &str| kinds(&world, since).into_iter().filter(|&is| is == kind).count();
    assert_eq!(["valid", "flush", "out", "invalid"].map(of), [8, 1, 4, 2], "both sides are unmapped as one range each");
}

/// BPB-42: where invalid entries are not cached, a fill of a list takes two calls of the driver, for the window and for the fill, and the list
/// one more.
#[test]
fn a_fill_takes_two_calls_of_the_driver() {
    let config = Config { level_bits: vec![9, 9, 9], buffer_bytes: 64 << 10, ..Config::pages(256) };
    let mut world = World::new(Config { invalid_not_cached: true, ..config });
    let client = world.client();
    let allocations = [0; 16].map(|_| world.allocate(client, 4));
    let before = world.vidmm.statistics().build_calls;
    world.bring_in(client, &allocations);
    assert_eq!(world.vidmm.statistics().build_calls - before, 2 * 16 + 1);
}

/// PGV-05, I10: windows that do not fit beside the open ones wait until these are unmapped.
#[test]
fn a_list_larger_than_the_addresses_of_windows_takes_several_batches() {
    let mut world = World::new(Config { level_bits: vec![4, 3, 2], ..Config::pages(128) });
    let client = world.client();
    let list = [0; 5].map(|_| world.allocate(client, 24));
    let since = world.driver.operations.len();
    world.bring_in(client, &list);
    let mut sent = kinds(&world, since);
    sent.dedup();
    let batch = ["valid", "flush", "fill", "invalid"];
    assert_eq!(sent, [batch; 3].concat(), "two of 24 pages fit into 64");
}

/// BPB-04: the windows of a batch stay open across the ends of paging buffers.
#[test]
fn a_batch_survives_the_ends_of_buffers() {
    let mut world = World::new(Config { level_bits: vec![9, 9, 9], ..Config::pages(256) });
    let client = world.client();
    let residents = [0; 64].map(|_| world.resident(client, 2));
    let program = Vec::from_iter(residents.iter().map(|&(_, at)| Access::Write(at + PAGE_SIZE, at)));
    world.submit(client, &program);
    world.run_all();
    let list = residents.map(|(allocation, _)| allocation);
    let buffers = world.vidmm.statistics().paging_buffers;
    world.evict(client, &list, SOON).unwrap();
    world.run_all();
    world.bring_in(client, &list);
    assert!(world.vidmm.statistics().paging_buffers - buffers > 4, "a buffer does not hold a batch");
    for (_, at) in residents {
        assert_eq!(world.token(client, at + PAGE_SIZE), Some(at));
    }
    world.tear_down();
}

/// GVA-57, GVA-32: the bits that the user-mode driver passed come back in leaf entries of the process, and nowhere
/// else.
#[test]
fn driver_protection_is_handed_back_in_leaf_entries() {
    let (mut world, client) = World::with_pages(8);
    let a = world.allocate(client, 4);
    let desc = MapGpuVirtualAddress { driver_protection: 0xABCD, ..MapGpuVirtualAddress::whole(a) };
    world.try_map(client, &desc).unwrap();
    world.bring_in(client, &[a]);
    for operation in &world.driver.operations {
        let PagingOperation::UpdatePageTable(op) = operation else { continue };
        let is_leaf = op.process == client.kmd_process && kind(operation) == "valid";
        assert_eq!(op.driver_protection, if is_leaf { 0xABCD } else { 0 }, "{op:?}");
        assert!(op.page_table_level == 0 || op.allocation.is_none(), "GVA-31: {op:?}");
    }
}

/// The chunks of an operation: offset and size, in pages.
fn chunks(world: &World, since: usize, of: &str) -> Vec<(u64, u64)> {
    let chunk = |operation: &PagingOperation| match operation {
        PagingOperation::VirtualFill(op) => (op.allocation_offset_in_bytes, op.fill_size_in_bytes),
        PagingOperation::VirtualTransfer(op) => (op.allocation_offset_in_bytes, op.transfer_size_in_bytes),
        _ => unreachable!(),
    };
    let operations = world.operations_since(since);
    let chunks = operations.iter().filter(|operation| kind(operation) == of).map(chunk);
    chunks.map(|(offset, size)| (offset / PAGE_SIZE, size / PAGE_SIZE)).collect()
}

/// PGV-05, P30: an allocation is cut where it is larger than the window.
#[test]
fn allocations_are_cut_to_the_window() {
    let window = 64;
    let cases: [(u64, &[(u64, u64)]); 5] = [
        (63, &[(0, 63)]),
        (64, &[(0, 64)]),
        (65, &[(0, 64), (64, 1)]),
        (128, &[(0, 64), (64, 64)]),
        (200, &[(0, 64), (64, 64), (128, 64), (192, 8)]),
    ];
    for (pages, expected) in cases {
        let (mut world, client, a) = narrow(window, pages);
        let since = world.driver.operations.len();
        world.bring_in(client, &[a]);
        assert_eq!(chunks(&world, since, "fill"), expected, "fill of {pages} pages");
        work(&mut world, client);
        world.evict(client, &[a], SOON).unwrap();
        world.run_all();
        assert_eq!(chunks(&world, since, "out"), expected, "page-out of {pages} pages");
        world.bring_in(client, &[a]);
        assert_eq!(chunks(&world, since, "in"), expected, "page-in of {pages} pages");
        world.tear_down();
    }
}

/// P29: 100 MiB through windows of 16 MiB: 7 chunks, the last of 4 MiB.
#[test]
fn a_hundred_mebibytes_go_through_sixteen() {
    let config = Config {
        segment_bytes: 128 << 20,
        level_bits: vec![9, 9, 9],
        paging_va_mib: Some(16),
        tables_in_system: false,
        ..Config::default()
    };
    let mut world = World::new(config);
    let client = world.client();
    let since = world.driver.operations.len();
    let (a, at) = world.resident(client, 25_600);
    let expected: Vec<(u64, u64)> = (0..7).map(|chunk| (chunk * 4096, if chunk < 6 { 4096 } else { 1024 })).collect();
    assert_eq!(chunks(&world, since, "fill"), expected);
    let pages = [0, 1, 4095, 4096, 20_000, 25_599];
    let program: Vec<Access> = pages.iter().map(|&page| Access::Write(at + page * PAGE_SIZE, page + 1)).collect();
    world.submit(client, &program);
    world.evict(client, &[a], SOON).unwrap();
    world.run_all();
    assert_eq!(chunks(&world, since, "out"), expected);
    world.bring_in(client, &[a]);
    assert_eq!(chunks(&world, since, "in"), expected);
    for page in pages {
        assert_eq!(world.token(client, at + page * PAGE_SIZE), Some(page + 1));
    }
}

/// I10, I14: a window that takes all addresses of a ring is taken away before the next is mapped.
#[test]
fn one_chunk_is_unmapped_before_the_next_is_mapped() {
    let (mut world, client, a) = narrow(64, 200);
    let since = world.driver.operations.len();
    world.bring_in(client, &[a]);
    let mut mapped = 0i64;
    for operation in world.operations_since(since) {
        let PagingOperation::UpdatePageTable(op) = operation else { continue };
        let entries = i64::from(op.page_table_entries.num_page_table_entries);
        mapped += if kind(&operation) == "valid" { entries } else { -entries };
        assert!((0..=64).contains(&mapped), "{mapped} pages are mapped");
    }
    assert_eq!(mapped, 0);
}

/// GVA-34: window addresses come round again only after a flush; the machine finds one that is missing.
#[test]
fn windows_are_flushed_before_they_are_used_again() {
    for invalid_not_cached in [false, true] {
        let mut world = World::new(Config { invalid_not_cached, ..Config::pages(16) });
        let client = world.client();
        let (a, at) = world.resident(client, 7);
        for turn in 1..=40 {
            world.submit(client, &[Access::Write(at + 6 * PAGE_SIZE, turn)]);
            world.evict(client, &[a], SOON).unwrap();
            world.run_all();
            world.bring_in(client, &[a]);
            assert_eq!(world.token(client, at + 6 * PAGE_SIZE), Some(turn));
        }
    }
}

/// D6: a large request is cut into plans, so that its parts overlap with what waits for them.
#[test]
fn a_large_request_is_cut_into_plans() {
    let config = Config { segment_bytes: 128 << 20, level_bits: vec![9, 9, 9], ..Config::default() };
    let mut world = World::new(config);
    let client = world.client();
    let allocations = [0; 6].map(|_| world.allocate(client, 4096));
    let plans = world.vidmm.statistics().plans;
    world.bring_in(client, &allocations);
    assert_eq!(world.vidmm.statistics().plans - plans, 3, "96 MiB in parts of 32");
    assert_eq!(world.paging_fence(client), 1);
}

/// BPB-40: flags tell which side has 64 KiB pages.
#[test]
fn transfers_say_which_side_has_64_kib_pages() {
    for dual in [false, true] {
        let mut world = World::new(Config::pages_64kb(4, dual));
        let client = world.client();
        let (a, at) = world.resident(client, 32);
        world.submit(client, &[Access::Write(at + 17 * PAGE_SIZE, 7)]);
        world.evict(client, &[a], SOON).unwrap();
        world.run_all();
        world.bring_in(client, &[a]);
        assert_eq!(world.token(client, at + 17 * PAGE_SIZE), Some(7));
        let flags: Vec<_> = world
            .driver
            .operations
            .iter()
            .filter_map(|operation| match operation {
                PagingOperation::VirtualTransfer(op) => Some(op.flags),
                _ => None,
            })
            .collect();
        let side = |flag| if dual { flag } else { TransferVirtualFlags::empty() };
        let expected = [side(TransferVirtualFlags::SRC_64KB_PAGES), side(TransferVirtualFlags::DST_64KB_PAGES)];
        assert_eq!(flags, expected);
        world.tear_down();
    }
}
