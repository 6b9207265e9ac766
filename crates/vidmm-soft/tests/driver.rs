//! The driver keeps the contract of paging buffers, however small they are.

use proptest::prelude::*;
use vidmm::contract::*;
use vidmm::{GpuVirtualAddress, PAGE_SIZE, PageSize, PhysicalAddress};
use vidmm_runtime::{AllocationDesc, AllocationSegments, Umd};
use vidmm_soft::encoding::{Command, Decoder};
use vidmm_soft::*;

const PAGE: u64 = PAGE_SIZE;

fn driver(config: SoftAdapterConfig) -> SoftKmd {
    SoftKmd::new(config)
}

fn transfer(bytes: u64) -> PagingOperation {
    PagingOperation::VirtualTransfer(TransferVirtual {
        allocation: KmdAllocationHandle(7),
        allocation_offset_in_bytes: 1 << 20,
        transfer_size_in_bytes: bytes,
        source_virtual_address: GpuVirtualAddress(1 << 30),
        destination_virtual_address: GpuVirtualAddress(2 << 30),
        transfer_direction: MemoryTransferDirection::SystemToLocal,
        flags: TransferVirtualFlags::empty(),
    })
}

fn fill(bytes: u64) -> PagingOperation {
    PagingOperation::VirtualFill(FillVirtual {
        allocation: KmdAllocationHandle(7),
        allocation_offset_in_bytes: 0,
        fill_size_in_bytes: bytes,
        fill_pattern: 0xABCD,
        destination_virtual_address: GpuVirtualAddress(1 << 30),
    })
}

fn update(count: u32, flags: UpdatePageTableFlags) -> PagingOperation {
    let address = PhysicalAddress { segment: LOCAL_SEGMENT, offset: 1 << 24 };
    PagingOperation::UpdatePageTable(UpdatePageTable {
        page_table_level: 0,
        allocation: Some(KmdAllocationHandle(7)),
        page_table_address: PhysicalAddress { segment: LOCAL_SEGMENT, offset: 0 },
        page_table_entries: PteRun { first: Pte::valid(address), first_64kb: None, num_page_table_entries: count },
        start_index: 3,
        flags,
        driver_protection: 0,
        allocation_offset_in_bytes: 0,
        process: KmdProcessHandle(1),
        first_pte_virtual_address: GpuVirtualAddress(3 * PAGE),
    })
}

struct Pass {
    status: BuildStatus,
    bytes: Vec<u8>,
    private: usize,
}

fn pass(
    kmd: &mut SoftKmd,
    operation: &PagingOperation,
    size: usize,
    private: usize,
    multipass: &mut u32,
    idle: bool,
) -> Pass {
    let (mut buffer, mut private) = (vec![0xEE; size], vec![0; private]);
    let mut build = BuildPagingBuffer {
        operation,
        dma_buffer: &mut buffer,
        dma_buffer_write_offset: 0,
        dma_buffer_private_data: &mut private,
        dma_bytes_written: 0,
        private_bytes_written: 0,
        multipass_offset: multipass,
        allocation_is_idle: idle,
        system_context: KmdContextHandle(1),
    };
    let status = kmd.build_paging_buffer(&mut build);
    let (written, private) = (build.dma_bytes_written, build.private_bytes_written);
    assert!(buffer[written..].iter().all(|&byte| byte == 0xEE), "wrote more than it says");
    buffer.truncate(written);
    Pass { status, bytes: buffer, private }
}

/// All commands of `operation`, through buffers of `size` bytes; and how many buffers it took.
fn build_all(kmd: &mut SoftKmd, operation: &PagingOperation, size: usize) -> (Vec<Command>, usize) {
    let (mut commands, mut multipass) = (Vec::new(), 0);
    for buffers in 1.. {
        let pass = pass(kmd, operation, size, 0, &mut multipass, false);
        commands.extend(Decoder::new(&pass.bytes).map(|command| command.expect("whole commands in every buffer")));
        match pass.status {
            BuildStatus::Success => return (commands, buffers),
            status => assert_eq!(status, BuildStatus::InsufficientDmaBuffer),
        }
        assert!(!pass.bytes.is_empty(), "no progress");
    }
    unreachable!()
}

#[test]
fn one_command_covers_an_operation_that_fits() {
    let mut kmd = driver(SoftAdapterConfig::default());
    for operation in [transfer(64 << 20), fill(64 << 20), update(8000, UpdatePageTableFlags::empty())] {
        assert_eq!(build_all(&mut kmd, &operation, 4096).0.len(), 1);
    }
}

#[test]
fn a_buffer_without_room_is_insufficient_and_nothing_is_lost() {
    let mut kmd = driver(SoftAdapterConfig { max_command_bytes: PAGE, ..Default::default() });
    let mut multipass = 0;
    let operation = transfer(3 * PAGE);
    for size in [0, 1, 51] {
        let pass = pass(&mut kmd, &operation, size, 0, &mut multipass, false);
        assert_eq!((pass.status, pass.bytes.len(), multipass), (BuildStatus::InsufficientDmaBuffer, 0, 0));
    }
    let second = pass(&mut kmd, &operation, 110, 0, &mut multipass, false);
    assert_eq!((second.status, second.bytes.len(), multipass), (BuildStatus::InsufficientDmaBuffer, 104, 2));
    let none = pass(&mut kmd, &operation, 10, 0, &mut multipass, false);
    assert_eq!((none.status, none.bytes.len(), multipass), (BuildStatus::InsufficientDmaBuffer, 0, 2));
    let third = pass(&mut kmd, &operation, 52, 0, &mut multipass, false);
    assert_eq!((third.status, third.bytes.len()), (BuildStatus::Success, 52));
}

proptest! {
    #[test]
    fn transfers_and_fills_are_tiled_by_their_commands(pages in 1u64..40, per_command in 1u64..9, size in 52usize..400) {
        let mut kmd = driver(SoftAdapterConfig { max_command_bytes: per_command * PAGE, ..Default::default() });
        let (commands, _) = build_all(&mut kmd, &transfer(pages * PAGE), size);
        let mut next = 0;
        for command in &commands {
            let Command::Transfer(part) = command else { panic!("{command:?}") };
            prop_assert_eq!(part.source.0, (1 << 30) + next);
            prop_assert_eq!(part.destination.0, (2 << 30) + next);
            prop_assert_eq!(part.allocation_offset, (1 << 20) + next);
            prop_assert!(part.bytes > 0 && part.bytes <= per_command * PAGE);
            next += part.bytes;
        }
        prop_assert_eq!(next, pages * PAGE);
        let (commands, _) = build_all(&mut kmd, &fill(pages * PAGE), size);
        let bytes = commands.iter().map(|command| match command {
            Command::Fill(part) => part.bytes,
            _ => 0,
        });
        prop_assert_eq!(bytes.sum::<u64>(), pages * PAGE);
    }

    #[test]
    fn updates_are_tiled_by_their_commands(count in 1u32..60, per_command in 1u32..20, repeat: bool, large: bool) {
        let mut kmd = driver(SoftAdapterConfig { max_entries_per_command: per_command, ..Default::default() });
        let mut flags = UpdatePageTableFlags::empty();
        flags.set(UpdatePageTableFlags::REPEAT, repeat);
        flags.set(UpdatePageTableFlags::USE_64KB_PAGES, large);
        let (commands, _) = build_all(&mut kmd, &update(count, flags), 100);
        let (page_size, mut next) = (if large { PageSize::Kib64 } else { PageSize::Kib4 }, 0);
        for command in &commands {
            let Command::WritePtes(part) = command else { panic!("{command:?}") };
            let stride = if repeat { 0 } else { page_size.bytes() };
            prop_assert_eq!((part.start_index, part.stride, part.page_size), (3 + next, stride, page_size));
            prop_assert_eq!(part.first.address().offset, (1 << 24) + u64::from(next) * stride);
            prop_assert_eq!(part.virtual_address.0, 3 * PAGE + u64::from(next) * page_size.bytes());
            next += part.count;
        }
        prop_assert_eq!(next, count);
    }
}

#[test]
fn private_data_is_used_where_there_is_any_and_its_end_is_an_end_of_the_buffer() {
    let mut kmd = driver(SoftAdapterConfig { paging_buffer_private_data_bytes: 64, ..Default::default() });
    let mut multipass = 0;
    let full = pass(&mut kmd, &fill(PAGE), 4096, 7, &mut multipass, false);
    assert_eq!((full.status, full.bytes.len(), full.private), (BuildStatus::InsufficientDmaBuffer, 0, 0));
    let fits = pass(&mut kmd, &fill(PAGE), 4096, 8, &mut multipass, false);
    assert_eq!((fits.status, fits.private), (BuildStatus::Success, 8));
}

#[test]
fn every_nth_transfer_wants_an_idle_allocation() {
    let mut kmd = driver(SoftAdapterConfig { busy_every: Some(3), ..Default::default() });
    let mut status = |operation: &PagingOperation, idle| pass(&mut kmd, operation, 4096, 0, &mut 0, idle).status;
    let answers: Vec<_> = (0..6).map(|_| status(&transfer(PAGE), false) == BuildStatus::AllocationBusy).collect();
    assert_eq!(answers, [false, false, true, false, false, true]);
    for _ in 0..6 {
        assert_eq!(status(&transfer(PAGE), true), BuildStatus::Success);
        assert_eq!(status(&fill(PAGE), false), BuildStatus::Success);
    }
}

#[test]
fn the_adapter_is_as_it_was_configured() {
    let info = driver(SoftAdapterConfig::default()).query_adapter_info();
    let levels: Vec<_> =
        info.page_table_levels.iter().map(|l| (l.page_table_index_bit_count, l.page_table_size_in_bytes)).collect();
    assert_eq!(levels, [(13, 64 << 10), (10, 16 << 10), (12, 32 << 10)]);
    assert_eq!(info.gpu_mmu.leaf_page_table_size_for_64k_pages_in_bytes, 4 << 10);
    assert_eq!(info.segments.iter().filter(|segment| segment.flags.contains(SegmentFlags::APERTURE)).count(), 1);
    assert!(info.segments[0].flags.contains(SegmentFlags::USE_64KB_PAGES));
    let info = driver(SoftAdapterConfig::with_4kib_pages()).query_adapter_info();
    assert!(info.page_table_levels.iter().all(|level| level.page_table_size_in_bytes == 4096));
    assert_eq!(info.page_table_levels.iter().map(|level| level.page_table_index_bit_count).sum::<u32>() + 12, 48);
    assert!(!info.gpu_mmu.flags.contains(GpuMmuFlags::DUAL_PTE_SUPPORTED));
}

#[test]
fn contradictions_in_the_configuration_are_found() {
    let default = SoftAdapterConfig::default;
    let error = |config: SoftAdapterConfig| config.check().unwrap_err();
    assert_eq!(default().check(), Ok(()));
    assert_eq!(SoftAdapterConfig::with_4kib_pages().check(), Ok(()));
    let odd = SoftAdapterConfig { local_memory_bytes: (1 << 30) + 4096, ..default() };
    assert!(matches!(error(odd), ConfigError::NotAMultiple { field: "local_memory_bytes", .. }));
    assert_eq!(
        error(SoftAdapterConfig { page_table_index_bits: vec![], ..default() }),
        ConfigError::LevelCount { levels: 1 }
    );
    for bits in [vec![3, 10], vec![13, 0], vec![13, 22], vec![35], vec![4], vec![u32::MAX, u32::MAX]] {
        let config = SoftAdapterConfig { page_table_index_bits: bits, ..default() };
        assert_eq!(error(config), ConfigError::IndexBits);
    }
    let system = SoftAdapterConfig { page_tables_in_system_memory: true, ..default() };
    assert_eq!(error(system), ConfigError::TableTooLargeForSystemMemory);
    assert_eq!(error(SoftAdapterConfig { max_entries_per_command: 0, ..default() }), ConfigError::NoEntriesPerCommand);
}

#[test]
fn the_two_halves_agree_on_allocations() {
    let mut kmd = driver(SoftAdapterConfig::default());
    let info = kmd.create_allocation(&SoftUmd.allocation_private_data(&AllocationDesc::local(12345))).unwrap();
    assert_eq!((info.size, info.alignment, info.allocation_priority), (12345, 64 << 10, 0x7800_0000));
    assert!(info.supported_segment_set.contains(LOCAL_SEGMENT));
    let data = AllocationPrivateData {
        size: 1,
        allocation_priority: 5,
        flags: AllocationFlags::CPU_VISIBLE,
        flags2: AllocationFlags2::NOTIFY_EVICTION,
        segments: AllocationSegments::Local,
        surface: Some(9),
    };
    assert_eq!(AllocationPrivateData::from_bytes(&data.to_bytes()), Ok(data));
    assert_eq!(kmd.create_allocation(&data.to_bytes()).unwrap().allocation_priority, 5);
    assert_eq!(kmd.live_objects(), (0, 0, 2));
    kmd.destroy_allocation(info.allocation);
    assert_eq!(kmd.live_objects(), (0, 0, 1));
}

#[test]
fn private_data_that_means_nothing_is_refused() {
    use CreateAllocationError::*;
    let good = SoftUmd.allocation_private_data(&AllocationDesc::local(1));
    let with = |at: usize, byte| {
        let mut bytes = good.clone();
        bytes[at] = byte;
        AllocationPrivateData::from_bytes(&bytes).unwrap_err()
    };
    assert_eq!(with(4, 9), DriverMismatch);
    for (at, byte, what) in [
        (0, 0, "magic"),
        (8, 0, "no bytes"),
        (20, 2, "an unknown flag"),
        (24, 1, "another unknown flag"),
        (28, 3, "unknown segments"),
        (32, 2, "neither a surface nor none"),
        (36, 1, "a surface that it does not have"),
    ] {
        assert_eq!(with(at, byte), InvalidParameter, "{what}");
    }
    for length in 0..good.len() {
        assert!(AllocationPrivateData::from_bytes(&good[..length]).is_err());
    }
    assert!(AllocationPrivateData::from_bytes(&[good.as_slice(), &[0]].concat()).is_err());
}
