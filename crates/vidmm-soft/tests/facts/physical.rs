//! Without GPU virtual addresses engines address segments: paging moves content between them, and kernels find it there.

use crate::common::patching::*;
use crate::common::*;
use proptest::prelude::*;
use vidmm::contract::*;
use vidmm::{GpuVirtualAddress, PhysicalAddress, SegmentId};
use vidmm_runtime::{Content, PageRange};
use vidmm_soft::encoding::{Command, Decoder, SetContext, SetRootPageTable};
use vidmm_soft::*;

const STORE: u64 = 16 << 20;
const DUMMY: u64 = 1 << 20;
const PAGES: u64 = 8;

/// Ramp pages in system memory, and the digests of them.
fn rig() -> (PatchRig, Vec<u64>) {
    let rig = PatchRig::new(config());
    rig.rig.system.lock().write_pages(STORE / PAGE, PAGES, Content::Ramp, |page| 1000 + page);
    rig.rig.system.lock().write_pages(DUMMY / PAGE, 1, Content::Ramp, |_| 7);
    let content = rig.digests(system(STORE), PAGES);
    (rig, content)
}

#[test]
fn content_moves_from_system_memory_to_local_memory_and_back() {
    let (mut rig, content) = rig();
    rig.transfer(system(STORE), local(5 * PAGE), 0, PAGES);
    assert_eq!(rig.digests(local(5 * PAGE), PAGES), content);
    rig.transfer(local(5 * PAGE), system(2 * STORE), 0, PAGES);
    assert_eq!(rig.digests(system(2 * STORE), PAGES), content);
    let counters = rig.rig.gpu.counters();
    assert_eq!((counters.bytes_from_system, counters.bytes_to_system), (PAGES * PAGE, PAGES * PAGE));
    assert_eq!(counters.commands.transfer, 6, "two transfers of 8 pages, 3 pages a command");
}

#[test]
fn a_part_of_an_allocation_moves_to_its_place_in_the_whole() {
    let (mut rig, content) = rig();
    rig.transfer(system(STORE), local(0), 2, 3);
    assert_eq!(rig.digests(local(2 * PAGE), 3), content[2..5]);
    assert_eq!((rig.digests(local(PAGE), 1), rig.digests(local(5 * PAGE), 1)), (vec![0], vec![0]));
    // The two offsets need not be equal: the page list may begin in the middle of the allocation.
    let operation = PagingOperation::Transfer(Transfer {
        allocation: KmdAllocationHandle(1),
        transfer_offset: 6 * PAGE,
        transfer_size: 2 * PAGE,
        source: system(STORE),
        destination: local(0),
        flags: TransferFlags::TRANSFER_END,
        mdl_offset: 1,
    });
    rig.page(&operation);
    assert_eq!(rig.digests(local(6 * PAGE), 2), content[1..3]);
}

#[test]
fn an_allocation_moves_inside_local_memory() {
    let (mut rig, content) = rig();
    rig.transfer(system(STORE), local(0), 0, PAGES);
    rig.transfer(local(0), local(LOCAL_BYTES - PAGES * PAGE), 0, PAGES);
    assert_eq!(rig.digests(local(LOCAL_BYTES - PAGES * PAGE), PAGES), content);
    assert_eq!(rig.rig.gpu.counters().bytes_local, PAGES * PAGE);
}

#[test]
fn content_leaves_and_enters_local_memory_through_the_aperture() {
    let (mut rig, content) = rig();
    rig.map_aperture(3, PAGES, STORE);
    rig.transfer(aperture(3 * PAGE), local(0), 0, PAGES);
    assert_eq!(rig.digests(local(0), PAGES), content);
    rig.map_aperture(100, PAGES, 2 * STORE);
    rig.transfer(local(0), aperture(100 * PAGE), 0, PAGES);
    assert_eq!(rig.digests(system(2 * STORE), PAGES), content);
    let counters = rig.rig.gpu.counters();
    assert_eq!((counters.bytes_from_system, counters.bytes_to_system), (PAGES * PAGE, PAGES * PAGE));
}

#[test]
fn copies_go_the_way_that_their_places_say() {
    use MemoryTransferDirection::*;
    let mut kmd = SoftKmd::new(config());
    for (source, destination, way) in [
        (system(STORE), local(0), SystemToLocal),
        (aperture(0), local(0), SystemToLocal),
        (local(0), system(STORE), LocalToSystem),
        (local(0), aperture(0), LocalToSystem),
        (aperture(0), system(STORE), LocalToSystem),
        (local(0), local(PAGE), LocalToLocal),
    ] {
        let bytes = build(&mut kmd, &transfer(KmdAllocationHandle(1), source, destination, 0, 1));
        let commands: Vec<_> = Decoder::new(&bytes).collect();
        assert!(matches!(&commands[..], [Ok(Command::Transfer(only))] if only.direction == way), "{commands:?}");
    }
}

#[test]
fn fills_write_the_pattern_where_the_allocation_is() {
    let (mut rig, _) = rig();
    rig.page(&PagingOperation::Fill(Fill {
        allocation: KmdAllocationHandle(1),
        fill_size: 4 * PAGE,
        fill_pattern: 0xABCD,
        destination: local(7 * PAGE),
    }));
    assert_eq!(rig.digests(local(7 * PAGE), 4), [uniform_digest(0x0000_ABCD_0000_ABCD); 4]);
    assert_eq!((rig.digests(local(6 * PAGE), 1), rig.digests(local(11 * PAGE), 1)), (vec![0], vec![0]));
    assert_eq!(rig.rig.gpu.counters().commands.fill, 2);
}

#[test]
fn kernels_use_local_memory_and_the_aperture() {
    let (mut rig, content) = rig();
    rig.transfer(system(STORE), local(0), 0, PAGES);
    rig.map_aperture(3, PAGES, STORE);
    assert_eq!(rig.read(local(0), PAGES), content);
    assert_eq!(rig.read(aperture(3 * PAGE), PAGES), content);
    let (inputs, outputs) = ([range(PAGE, 1)], [range(rig.address(aperture(4 * PAGE)), 1)]);
    rig.run(kernel(9, 0, &inputs, &outputs));
    assert_eq!(rig.digests(system(STORE + PAGE), 1), [expected(9, &content[1..2])]);
    assert_eq!(rig.rig.digest(rig.user, LOCAL_BYTES + 4 * PAGE), Some(expected(9, &content[1..2])));
}

#[test]
fn the_aperture_begins_where_local_memory_ends() {
    let (mut rig, content) = rig();
    rig.transfer(system(STORE), local(LOCAL_BYTES - 2 * PAGE), 0, 2);
    rig.map_aperture(0, 2, STORE + 2 * PAGE);
    assert_eq!(rig.read(local(LOCAL_BYTES - 2 * PAGE), 4), content[..4]);
}

#[test]
fn an_unmapped_range_of_the_aperture_shows_the_dummy_page() {
    let (mut rig, content) = rig();
    rig.map_aperture(3, PAGES, STORE);
    rig.unmap_aperture(3, PAGES, DUMMY);
    let dummy = rig.digests(system(DUMMY), 1)[0];
    assert_eq!(rig.read(aperture(3 * PAGE), PAGES), [dummy; PAGES as usize]);
    rig.run(kernel(5, 0, &[], &[range(rig.address(aperture(5 * PAGE)), 1)]));
    assert_eq!(rig.digests(system(STORE), PAGES), content, "stray access harms nobody");
    assert_eq!(rig.digests(system(DUMMY), 1), [expected(5, &[])]);
}

#[test]
fn kernels_fault_where_no_segment_is() {
    let (mut rig, _) = rig();
    rig.map_aperture(0, APERTURE_BYTES / PAGE, STORE);
    let end = LOCAL_BYTES + APERTURE_BYTES;
    for (address, pages, faulting) in [
        (end, 1, end),
        (end - PAGE, 2, end),
        (UNPATCHED_ADDRESS.0, 1, UNPATCHED_ADDRESS.0),
        (SYSTEM_MEMORY_ADDRESS.0 - PAGE, 2, SYSTEM_MEMORY_ADDRESS.0),
        (SYSTEM_MEMORY_ADDRESS.0 + SYSTEM_MEMORY_BYTES, 1, SYSTEM_MEMORY_ADDRESS.0 + SYSTEM_MEMORY_BYTES),
    ] {
        let events = rig.run(kernel(1, 0, &[range(address, pages)], &[]));
        assert_eq!(faults(&events), [(faulting, false)]);
    }
    rig.unmap_aperture(0, 1, DUMMY);
    let mut fresh = PatchRig::new(config());
    let events = fresh.run(kernel(1, 0, &[], &[range(fresh.address(aperture(0)), 1)]));
    assert_eq!(faults(&events), [(LOCAL_BYTES, true)], "nothing was ever mapped there");
}

#[test]
fn kernels_do_not_reach_system_memory_but_through_the_aperture() {
    let (mut rig, content) = rig();
    let address = rig.address(system(STORE));
    for commands in [kernel(1, 0, &[range(address, 1)], &[]), kernel(1, 0, &[], &[range(address, 1)])] {
        let events = rig.run(commands);
        assert_eq!(faults(&events).len(), 1);
        let [StatusRegisters { kind: StatusKind::PageFault { virtual_address, process, .. }, .. }] =
            interrupts(&events)[..]
        else {
            panic!("{events:?}")
        };
        assert_eq!((virtual_address, process), (GpuVirtualAddress(address), Some(rig.user.handle)));
    }
    let compressed = PageRange { ..compressed(range(address, 1), 1, 0) };
    assert_eq!(faults(&rig.run(kernel(1, 0, &[compressed], &[]))), [(address, false)]);
    assert_eq!(rig.digests(system(STORE), PAGES), content);
}

#[test]
fn compressed_pages_are_made_plain_before_they_leave_local_memory_and_when_they_are_discarded() {
    let (mut rig, _) = rig();
    let allocation = rig.allocation(4 * PAGE, Some(2));
    let pages = compressed(range(0, 4), 2, 0);
    rig.run(kernel(3, 0, &[], &[pages]));
    let plain = [0, 1, 2, 3].map(|page| uniform_digest(KernelState::new(3).seed(0, page)));
    assert_ne!(rig.digests(local(0), 4), plain);
    rig.page(&transfer(allocation, local(0), local(PAGE << 8), 0, 4));
    assert_ne!(rig.digests(local(PAGE << 8), 4), plain, "inside local memory it may stay as it is");
    rig.page(&transfer(allocation, local(0), system(STORE), 0, 4));
    assert_eq!(rig.digests(system(STORE), 4), plain);
    // Content that comes back is plain, whatever was written in between.
    rig.run(kernel(4, 0, &[], &[pages]));
    rig.page(&PagingOperation::DiscardContent(DiscardContent {
        allocation,
        flags: DiscardContentFlags::empty(),
        address: local(0),
    }));
    rig.page(&transfer(allocation, system(STORE), local(0), 0, 4));
    let events = rig.run(kernel(0, 0, &[pages], &[]));
    assert_eq!(reads(&events)[0].1[0], plain);
}

#[test]
fn discarding_plain_content_takes_no_command() {
    let mut rig = PatchRig::new(config());
    let allocation = rig.allocation(PAGE, None);
    let discard = DiscardContent { allocation, flags: DiscardContentFlags::empty(), address: local(0) };
    assert_eq!(rig.rig.build(&PagingOperation::DiscardContent(discard)), []);
}

#[test]
fn a_transfer_of_no_bytes_takes_no_command_and_is_never_busy() {
    let mut kmd = SoftKmd::new(SoftAdapterConfig { busy_every: Some(1), ..config() });
    let operation = transfer(KmdAllocationHandle(1), local(0), system(STORE), 0, 0);
    let mut multipass_offset = 0;
    let mut build = BuildPagingBuffer {
        operation: &operation,
        dma_buffer: &mut [],
        dma_buffer_write_offset: 0,
        dma_buffer_private_data: &mut [],
        dma_bytes_written: 0,
        private_bytes_written: 0,
        multipass_offset: &mut multipass_offset,
        allocation_is_idle: false,
        system_context: KmdContextHandle(0),
    };
    assert_eq!(kmd.build_paging_buffer(&mut build), BuildStatus::Success);
    assert_eq!(build.dma_bytes_written, 0);
}

#[test]
fn every_nth_transfer_or_discarding_asks_for_an_idle_allocation() {
    let mut kmd = SoftKmd::new(SoftAdapterConfig { busy_every: Some(2), ..config() });
    let allocation = KmdAllocationHandle(1);
    let discard = DiscardContent { allocation, flags: DiscardContentFlags::empty(), address: local(0) };
    let fill = Fill { allocation, fill_size: PAGE, fill_pattern: 0, destination: local(0) };
    let mut ask = |operation: &PagingOperation, allocation_is_idle| {
        kmd.build_paging_buffer(&mut BuildPagingBuffer {
            operation,
            dma_buffer: &mut [0; 4096],
            dma_buffer_write_offset: 0,
            dma_buffer_private_data: &mut [],
            dma_bytes_written: 0,
            private_bytes_written: 0,
            multipass_offset: &mut 0,
            allocation_is_idle,
            system_context: KmdContextHandle(0),
        })
    };
    let moved = transfer(allocation, local(0), system(STORE), 0, 1);
    assert_eq!(ask(&moved, false), BuildStatus::Success);
    assert_eq!(ask(&PagingOperation::Fill(fill), false), BuildStatus::Success);
    assert_eq!(ask(&PagingOperation::DiscardContent(discard), false), BuildStatus::AllocationBusy);
    assert_eq!(ask(&PagingOperation::DiscardContent(discard), true), BuildStatus::Success);
    assert_eq!(ask(&moved, false), BuildStatus::Success);
    assert_eq!(ask(&moved, false), BuildStatus::AllocationBusy);
}

#[test]
fn commands_of_other_adapters_mean_nothing() {
    let mut rig = PatchRig::new(config());
    let process = rig.user.handle;
    let root = SetRootPageTable { process, root: local(0), num_entries: 1 };
    for command in [Command::SetRootPageTable(root), Command::SetAddressSpace(process)] {
        let events = rig.run(bytes_of(&command));
        assert!(is_refusal(&events), "{command:?}: {events:?}");
    }
    let mut with_page_tables = Rig::new(SoftAdapterConfig::default());
    let user = with_page_tables.process();
    let context = SetContext { process: user.handle, context: user.context, is_system: false };
    for command in [Command::SetState(1), Command::SetContext(context)] {
        let events = with_page_tables.run(user, bytes_of(&command));
        assert!(is_refusal(&events), "{command:?}: {events:?}");
    }
}

#[test]
fn the_driver_reports_what_was_configured() {
    let mut kmd = SoftKmd::new(SoftAdapterConfig {
        max_allocation_list_slot_id: 5,
        preemption_aware: true,
        bank_range_table: vec![1 << 20, 2 << 20],
        ..config()
    });
    let info = kmd.query_adapter_info();
    assert_eq!(info.addressing_model, AddressingModel::Physical);
    let bases: Vec<_> = info.segments.iter().map(|segment| (segment.base_address, segment.size)).collect();
    assert_eq!(bases, [(0, LOCAL_BYTES), (LOCAL_BYTES, APERTURE_BYTES)]);
    assert_eq!(info.page_table_levels, []);
    let patching = PatchingCaps {
        no_dma_patching: false,
        max_allocation_list_slot_id: 5,
        preemption_aware: true,
        bank_range_table: vec![1 << 20, 2 << 20],
    };
    assert_eq!(info.patching, patching);
}

#[test]
fn without_local_memory_the_aperture_begins_at_0() {
    let map = PhysicalAddressMap::new(&SoftAdapterConfig { local_memory_bytes: 0, ..config() });
    let place = |segment, offset| map.address(PhysicalAddress { segment: SegmentId(segment), offset });
    assert_eq!(place(1, PAGE), GpuVirtualAddress(PAGE));
    assert_eq!(place(1, APERTURE_BYTES), UNPATCHED_ADDRESS);
    assert_eq!(place(2, 0), UNPATCHED_ADDRESS);
    assert_eq!(place(0, PAGE), SYSTEM_MEMORY_ADDRESS.offset(PAGE));
}

proptest! {
    #[test]
    fn parts_tile_a_transfer_and_a_fill(pages in 1u64..20, first in 0u64..20, to_local: bool, buffer in 60usize..300) {
        let mut kmd = SoftKmd::new(config());
        let sides = if to_local { (system(STORE), local(0)) } else { (local(0), system(STORE)) };
        let operation = transfer(KmdAllocationHandle(1), sides.0, sides.1, first, pages);
        let mut next = first * PAGE;
        for command in Decoder::new(&build_in(&mut kmd, &operation, buffer)) {
            let Ok(Command::Transfer(part)) = command else { panic!("{command:?}") };
            prop_assert_eq!(part.allocation_offset, next);
            let (in_system, in_local) = if to_local { (part.source, part.destination) } else { (part.destination, part.source) };
            prop_assert_eq!(in_system, SYSTEM_MEMORY_ADDRESS.offset(STORE + next));
            prop_assert_eq!(in_local, GpuVirtualAddress(next));
            next += part.bytes;
        }
        prop_assert_eq!(next, (first + pages) * PAGE);
        let fill = Fill {
            allocation: KmdAllocationHandle(1),
            fill_size: pages * PAGE,
            fill_pattern: 3,
            destination: local(first * PAGE),
        };
        let mut next = 0;
        for command in Decoder::new(&build_in(&mut kmd, &PagingOperation::Fill(fill), buffer)) {
            let Ok(Command::Fill(part)) = command else { panic!("{command:?}") };
            prop_assert_eq!((part.allocation_offset, part.destination), (next, GpuVirtualAddress(first * PAGE + next)));
            next += part.bytes;
        }
        prop_assert_eq!(next, pages * PAGE);
    }
}
