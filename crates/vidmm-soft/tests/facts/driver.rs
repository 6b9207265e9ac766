//! The driver keeps the contract of paging buffers, however small they are.

use proptest::prelude::*;
use vidmm::contract::*;
use vidmm::{GpuVirtualAddress, PAGE_SIZE, PageSize, PhysicalAddress, SegmentId};
use vidmm_runtime::{AllocationDesc, AllocationSegments, Placement, Surface, Umd};
use vidmm_soft::encoding::{Command, Decoder, FlushRange, Foreign};
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

fn create(kmd: &mut SoftKmd, desc: AllocationDesc) -> AllocationInfo {
    kmd.create_allocation(&SoftUmd.allocation_private_data(&desc)).unwrap()
}

/// An allocation that the GPU may hold compressed, in surface 9.
fn with_surface(kmd: &mut SoftKmd) -> KmdAllocationHandle {
    create(kmd, AllocationDesc { surface: Some(9), ..AllocationDesc::local(1 << 30) }).allocation
}

fn notify(
    allocation: KmdAllocationHandle,
    flags: NotifyAllocFlags,
    process: Option<u64>,
    pages: u64,
) -> PagingOperation {
    PagingOperation::NotifyAlloc(NotifyAlloc {
        allocation,
        process: process.map(KmdProcessHandle),
        flags,
        offset_in_bytes: 1 << 20,
        size_in_bytes: pages * PAGE,
        gpu_virtual_address_at_offset: GpuVirtualAddress(1 << 30),
    })
}

fn notify_eviction(allocation: KmdAllocationHandle, pages: u64) -> PagingOperation {
    notify(allocation, NotifyAllocFlags::EVICTION, None, pages)
}

fn map_aperture(pages: u64) -> PagingOperation {
    PagingOperation::MapApertureSegment(MapApertureSegment {
        allocation: KmdAllocationHandle(7),
        segment_id: SegmentId(2),
        offset_in_pages: 50,
        number_of_pages: pages,
        mdl: PhysicalAddress { segment: SegmentId::SYSTEM, offset: 1 << 24 },
        flags: MapApertureFlags::CACHE_COHERENT,
    })
}

fn map_aperture2(pages: u64) -> PagingOperation {
    PagingOperation::MapApertureSegment2(MapApertureSegment2 {
        allocation: KmdAllocationHandle(7),
        segment_id: SegmentId(2),
        offset_in_pages: 50,
        number_of_pages: pages,
        adl: Adl { base_page_number: (1 << 24) / PAGE },
        flags: MapApertureFlags::CACHE_COHERENT,
    })
}

fn unmap_aperture(pages: u64) -> PagingOperation {
    PagingOperation::UnmapApertureSegment(UnmapApertureSegment {
        allocation: KmdAllocationHandle(7),
        segment_id: SegmentId(2),
        offset_in_pages: 50,
        number_of_pages: pages,
        dummy_page: PhysicalAddress { segment: SegmentId::SYSTEM, offset: 1 << 16 },
    })
}

fn io_mmu(model: AddressingModel) -> SoftKmd {
    driver(SoftAdapterConfig { max_command_bytes: 4 * PAGE, ..SoftAdapterConfig::with_io_mmu(model) })
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
        update_mode: UpdateMode::GpuPhysical,
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
    let compressible = with_surface(&mut kmd);
    for operation in [
        transfer(64 << 20),
        fill(64 << 20),
        update(8000, UpdatePageTableFlags::empty()),
        map_aperture(16384),
        map_aperture2(16384),
        unmap_aperture(16384),
        notify_eviction(compressible, 16384),
    ] {
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
    fn aperture_ranges_are_tiled_by_their_commands(pages in 1u64..40, per_command in 1u64..9, size in 52usize..400) {
        let mut kmd = driver(SoftAdapterConfig { max_command_bytes: per_command * PAGE, ..Default::default() });
        let mut next = 0;
        for command in build_all(&mut kmd, &map_aperture(pages), size).0 {
            let Command::MapAperture(part) = command else { panic!("{command:?}") };
            prop_assert_eq!(part.first_page, 50 + next);
            prop_assert_eq!(part.system_memory, PhysicalAddress { segment: SegmentId::SYSTEM, offset: (1 << 24) + next * PAGE });
            prop_assert!(part.cache_coherent && part.num_pages > 0 && part.num_pages <= per_command);
            next += part.num_pages;
        }
        prop_assert_eq!(next, pages);
        let [first, second] = [map_aperture(pages), map_aperture2(pages)].map(|map| build_all(&mut kmd, &map, size).0);
        prop_assert_eq!(first, second, "BPB-34: both forms say the same");
        next = 0;
        for command in build_all(&mut kmd, &unmap_aperture(pages), size).0 {
            let Command::UnmapAperture(part) = command else { panic!("{command:?}") };
            prop_assert_eq!((part.first_page, part.dummy_page.offset), (50 + next, 1 << 16));
            prop_assert!(part.num_pages > 0 && part.num_pages <= per_command);
            next += part.num_pages;
        }
        prop_assert_eq!(next, pages);
    }

    #[test]
    fn notifications_of_eviction_are_tiled_by_their_commands(pages in 1u64..40, per_command in 1u64..9, size in 52usize..400) {
        let mut kmd = driver(SoftAdapterConfig { max_command_bytes: per_command * PAGE, ..Default::default() });
        let allocation = with_surface(&mut kmd);
        let mut next = 0;
        for command in build_all(&mut kmd, &notify_eviction(allocation, pages), size).0 {
            let Command::Decompress(part) = command else { panic!("{command:?}") };
            prop_assert_eq!(part.virtual_address.0, (1 << 30) + next);
            prop_assert_eq!(part.surface, Surface { number: 9, first_page: 256 + next / PAGE });
            prop_assert_eq!((part.allocation, part.allocation_offset), (allocation, (1 << 20) + next));
            prop_assert!(part.bytes > 0 && part.bytes <= per_command * PAGE);
            next += part.bytes;
        }
        prop_assert_eq!(next, pages * PAGE);
    }

    #[test]
    fn compressible_pages_are_made_plain_before_they_are_paged_out_or_filled(
        pages in 1u64..40, per_command in 1u64..9, size in 52usize..400, to_system: bool,
    ) {
        let mut kmd = driver(SoftAdapterConfig { max_command_bytes: per_command * PAGE, ..Default::default() });
        let allocation = with_surface(&mut kmd);
        let operation = match (transfer(pages * PAGE), fill(pages * PAGE)) {
            (PagingOperation::VirtualTransfer(op), _) if to_system => {
                let transfer_direction = MemoryTransferDirection::LocalToSystem;
                PagingOperation::VirtualTransfer(TransferVirtual { allocation, transfer_direction, ..op })
            }
            (_, PagingOperation::VirtualFill(op)) => PagingOperation::VirtualFill(FillVirtual { allocation, ..op }),
            _ => unreachable!(),
        };
        let mut next = 0;
        for pair in build_all(&mut kmd, &operation, size).0.chunks(2) {
            let (plain, at, bytes) = match pair {
                [Command::Decompress(plain), Command::Transfer(part)] => (plain, part.source, part.bytes),
                [Command::Decompress(plain), Command::Fill(part)] => (plain, part.destination, part.bytes),
                _ => panic!("{pair:?}"),
            };
            prop_assert_eq!((plain.virtual_address, plain.bytes), (at, bytes));
            prop_assert_eq!(at.0, (1 << 30) + next);
            prop_assert_eq!(plain.surface.first_page, plain.allocation_offset / PAGE);
            prop_assert_eq!(plain.allocation_offset, if to_system { (1 << 20) + next } else { next });
            next += bytes;
        }
        prop_assert_eq!(next, pages * PAGE);
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
fn every_nth_notification_wants_an_idle_allocation() {
    let mut kmd = driver(SoftAdapterConfig { busy_notify_every: Some(2), ..Default::default() });
    let notification = notify_eviction(with_surface(&mut kmd), 1);
    let mut status = |operation: &PagingOperation, idle| pass(&mut kmd, operation, 4096, 0, &mut 0, idle).status;
    let answers: Vec<_> = (0..4).map(|_| status(&notification, false) == BuildStatus::AllocationBusy).collect();
    assert_eq!(answers, [false, true, false, true]);
    for _ in 0..4 {
        assert_eq!(status(&notification, true), BuildStatus::Success);
        assert_eq!(status(&transfer(PAGE), false), BuildStatus::Success);
    }
}

#[test]
fn bringing_content_in_moves_bytes_as_they_are() {
    let mut kmd = driver(SoftAdapterConfig::default());
    let allocation = with_surface(&mut kmd);
    let PagingOperation::VirtualTransfer(op) = transfer(PAGE) else { unreachable!() };
    for transfer_direction in [MemoryTransferDirection::SystemToLocal, MemoryTransferDirection::LocalToLocal] {
        let operation = PagingOperation::VirtualTransfer(TransferVirtual { allocation, transfer_direction, ..op });
        assert!(matches!(build_all(&mut kmd, &operation, 4096).0[..], [Command::Transfer(_)]));
    }
}

#[test]
fn with_page_tables_a_notification_is_about_what_is_compressed_and_nothing_else() {
    let mut kmd = driver(SoftAdapterConfig::default());
    let (compressible, plain) = (with_surface(&mut kmd), create(&mut kmd, AllocationDesc::local(1 << 30)).allocation);
    assert!(matches!(build_all(&mut kmd, &notify_eviction(compressible, 1), 4096).0[..], [Command::Decompress(_)]));
    assert_eq!(build_all(&mut kmd, &notify_eviction(plain, 1), 4096).0, []);
    let unmap = notify(compressible, NotifyAllocFlags::IO_MMU_UNMAP, None, 1);
    assert_eq!(build_all(&mut kmd, &unmap, 4096).0, []);
}

/// NTF-01, D1: the user's own commands take the place of decompression.
#[test]
fn a_notification_of_eviction_runs_the_commands_of_the_user() {
    let mut kmd = driver(SoftAdapterConfig { max_command_bytes: 4 * PAGE, ..SoftAdapterConfig::default() });
    let data = AllocationPrivateData {
        foreign: Some(5),
        ..AllocationPrivateData::from_bytes(&SoftUmd.allocation_private_data(&AllocationDesc::local(1 << 30))).unwrap()
    };
    let allocation = kmd.create_allocation(&data.to_bytes()).unwrap().allocation;
    let (commands, _) = build_all(&mut kmd, &notify_eviction(allocation, 6), 4096);
    let PagingOperation::NotifyAlloc(op) = notify_eviction(allocation, 6) else { unreachable!() };
    let part = |pages: u64, bytes| {
        Command::Foreign(Foreign {
            token: 5,
            virtual_address: op.gpu_virtual_address_at_offset.offset(pages * PAGE),
            bytes,
            allocation,
            allocation_offset: op.offset_in_bytes + pages * PAGE,
        })
    };
    assert_eq!(commands, [part(0, 4 * PAGE), part(4, 2 * PAGE)]);
}

#[test]
fn behind_an_io_mmu_a_notification_of_eviction_begins_with_a_flush_of_its_window() {
    for model in [AddressingModel::GpuVaIoMmu, AddressingModel::GpuVaIoMmuGlobal] {
        let mut kmd = io_mmu(model);
        let paging = kmd.create_process(true).unwrap();
        kmd.create_process(false).unwrap();
        let desc =
            AllocationDesc { segments: AllocationSegments::System, surface: Some(9), ..AllocationDesc::local(1) };
        let allocation = create(&mut kmd, desc).allocation;
        let (commands, buffers) = build_all(&mut kmd, &notify_eviction(allocation, 9), 52);
        assert_eq!((commands.len(), buffers), (4, 4), "one command a buffer");
        let (start, end) = (GpuVirtualAddress(1 << 30), GpuVirtualAddress((1 << 30) + 9 * PAGE));
        assert_eq!(commands[0], Command::FlushTlb(FlushRange { process: Some(paging), start, end }));
        let parts: Vec<_> = commands[1..]
            .iter()
            .map(|command| match command {
                Command::Decompress(part) => (part.virtual_address.0 - start.0, part.surface.first_page - 256),
                _ => panic!("{command:?}"),
            })
            .collect();
        assert_eq!(parts, [(0, 0), (4 * PAGE, 4), (8 * PAGE, 8)]);
    }
}

#[test]
fn behind_an_io_mmu_a_notification_of_an_unmap_is_a_flush() {
    let mut kmd = io_mmu(AddressingModel::GpuVaIoMmu);
    let mut flush = |process| {
        let operation = notify(KmdAllocationHandle(1), NotifyAllocFlags::IO_MMU_UNMAP, process, 9);
        build_all(&mut kmd, &operation, 4096).0
    };
    let (process, start) = (Some(KmdProcessHandle(77)), GpuVirtualAddress(1 << 30));
    let range = FlushRange { process, start, end: start.offset(9 * PAGE) };
    assert_eq!(flush(Some(77)), [Command::FlushTlb(range)]);
    let nowhere = GpuVirtualAddress(0);
    let everything = FlushRange { process: None, start: nowhere, end: nowhere };
    assert_eq!(flush(None), [Command::FlushTlb(everything)]);
}

#[test]
fn an_engine_is_told_whose_addresses_it_runs_in() {
    for (mut kmd, uses_io_mmu) in
        [(io_mmu(AddressingModel::GpuVaIoMmuGlobal), true), (driver(SoftAdapterConfig::default()), false)]
    {
        let process = kmd.create_process(false).unwrap();
        let context = kmd.create_context(process, RENDER_ENGINE, false).unwrap();
        let submit = SubmitCommand {
            context,
            node_ordinal: RENDER_ENGINE,
            submission_fence_id: 1,
            paging: false,
            dma_buffer_submission_offsets: None,
        };
        let mut preamble = Vec::new();
        kmd.submit_command(&submit, &mut preamble);
        let commands: Vec<_> = Decoder::new(&preamble).map(Result::unwrap).collect();
        match commands[..] {
            [Command::SetAddressSpace(of)] => assert!(uses_io_mmu && of == process),
            [Command::SetRootPageTable(root)] => assert!(!uses_io_mmu && root.process == process),
            _ => panic!("{commands:?}"),
        }
    }
}

#[test]
fn an_adapter_behind_an_io_mmu_has_no_page_tables_and_no_local_memory() {
    let info = io_mmu(AddressingModel::GpuVaIoMmuGlobal).query_adapter_info();
    assert_eq!(info.addressing_model, AddressingModel::GpuVaIoMmuGlobal);
    assert!(info.page_table_levels.is_empty());
    let [aperture] = info.segments[..] else { panic!("{:?}", info.segments) };
    assert!(aperture.flags.contains(SegmentFlags::APERTURE));
    assert_eq!((aperture.base_address, aperture.size), (0, 256 << 20));
}

#[test]
fn the_second_form_of_mapping_the_aperture_is_reported() {
    for map_aperture2 in [false, true] {
        let caps = driver(SoftAdapterConfig { map_aperture2, ..Default::default() })
            .query_adapter_info()
            .memory_management_caps;
        assert_eq!(caps.contains(VidMmCaps::MAP_APERTURE2_SUPPORTED), map_aperture2);
    }
}

#[test]
fn limits_links_and_log_buffers_are_reported() {
    let linked = |local_memory_bytes, paging_va_mib| LinkedAdapterConfig {
        local_memory_bytes,
        aperture_bytes: 64 << 20,
        paging_va_mib,
    };
    let mut kmd = driver(SoftAdapterConfig {
        wddm_version: WddmVersion::WDDM2_0,
        aperture_commit_limit_bytes: Some(5 << 20),
        cache_coherent_aperture: true,
        system_commit_limit_bytes: Some(7 << 30),
        scheduling_log_buffer_bytes: Some(3 << 20),
        paging_va_mib: Some(8),
        linked_adapters: vec![linked(1 << 30, None), linked(0, Some(64))],
        ..Default::default()
    });
    let info = kmd.query_adapter_info();
    assert_eq!(info.wddm_version, WddmVersion::WDDM2_0);
    let [_, aperture] = info.segments[..] else { panic!("{:?}", info.segments) };
    assert_eq!((aperture.commit_limit, aperture.base_address), (5 << 20, 8 << 30));
    assert!(aperture.flags.contains(SegmentFlags::CACHE_COHERENT));
    assert_eq!(info.aperture_segment_commit_limit, 7 << 30);
    assert_eq!(info.scheduling_log_buffer_size, Some(3 << 20));
    let sizes = |segments: &Vec<SegmentDescriptor>| segments.iter().map(|segment| segment.size).collect::<Vec<_>>();
    let linked: Vec<_> = info.linked_adapter_segments.iter().map(sizes).collect();
    assert_eq!(linked, [vec![1 << 30, 64 << 20], vec![64 << 20]]);
    let answers: Vec<_> = (0..4).map(|index| kmd.query_paging_process_gpu_va_size(index)).collect();
    assert_eq!(answers, [Some(8), None, Some(64), None]);
    let info = driver(SoftAdapterConfig::default()).query_adapter_info();
    assert_eq!((info.aperture_segment_commit_limit, info.segments[1].commit_limit), (u64::MAX, 256 << 20));
    assert!(!info.segments[1].flags.contains(SegmentFlags::CACHE_COHERENT));
}

#[test]
fn allocations_may_live_where_they_were_asked_to() {
    use AllocationSegments::*;
    let asked = |kmd: &mut SoftKmd, segments| {
        let info = create(kmd, AllocationDesc { segments, ..AllocationDesc::local(PAGE) });
        let preferred: Vec<_> = info.preferred_segment.segment_ids.iter().map(|segment| segment.0).collect();
        (info.supported_segment_set.0, preferred, u64::from(info.alignment))
    };
    let mut kmd = driver(SoftAdapterConfig::default());
    assert_eq!(asked(&mut kmd, Local), (0b01, vec![1, 0, 0, 0, 0], 64 << 10));
    assert_eq!(asked(&mut kmd, System), (0b10, vec![2, 0, 0, 0, 0], PAGE));
    assert_eq!(asked(&mut kmd, LocalOrSystem), (0b11, vec![1, 2, 0, 0, 0], 64 << 10));
    let mut kmd = driver(SoftAdapterConfig::with_4kib_pages());
    assert_eq!(asked(&mut kmd, LocalOrSystem), (0b11, vec![1, 2, 0, 0, 0], PAGE));
    let mut kmd = driver(SoftAdapterConfig::without_local_memory());
    assert_eq!(asked(&mut kmd, LocalOrSystem), (0b1, vec![1, 0, 0, 0, 0], PAGE));
    let nowhere = kmd.create_allocation(&SoftUmd.allocation_private_data(&AllocationDesc::local(PAGE)));
    assert_eq!(nowhere.unwrap_err(), CreateAllocationError::InvalidParameter);
}

#[test]
fn allocations_have_the_flags_that_were_asked_for() {
    let mut kmd = driver(SoftAdapterConfig::default());
    let asked = |kmd: &mut SoftKmd, accessed_physically, notify_eviction, notify_io_mmu_unmap| {
        let desc =
            AllocationDesc { accessed_physically, notify_eviction, notify_io_mmu_unmap, ..AllocationDesc::local(PAGE) };
        let info = create(kmd, desc);
        (info.flags, info.flags2)
    };
    let (none, none2) = (AllocationFlags::empty(), AllocationFlags2::empty());
    assert_eq!(asked(&mut kmd, false, false, false), (none, none2));
    assert_eq!(asked(&mut kmd, true, false, false), (AllocationFlags::ACCESSED_PHYSICALLY, none2));
    assert_eq!(asked(&mut kmd, false, true, false), (none, AllocationFlags2::NOTIFY_EVICTION));
    assert_eq!(asked(&mut kmd, false, false, true), (none, AllocationFlags2::NOTIFY_IO_MMU_UNMAP));
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
    let order = SoftAdapterConfig { segment_order: vec![SegmentKind::Memory; 2], ..default() };
    assert_eq!(error(order), ConfigError::SegmentOrder);
    assert_eq!(
        error(SoftAdapterConfig { aperture_commit_limit_bytes: Some((256 << 20) + 1), ..default() }),
        ConfigError::ApertureCommitLimit { limit: (256 << 20) + 1, size: 256 << 20 }
    );
    let bad = LinkedAdapterConfig { local_memory_bytes: 4096, aperture_bytes: 4096, paging_va_mib: None };
    assert!(matches!(
        error(SoftAdapterConfig { linked_adapters: vec![bad], ..default() }),
        ConfigError::NotAMultiple { field: "local_memory_bytes", value: 4096, .. }
    ));
}

#[test]
fn memory_that_nothing_could_reach_is_a_contradiction() {
    let model = AddressingModel::GpuVaIoMmu;
    assert_eq!(SoftAdapterConfig::without_local_memory().check(), Ok(()));
    assert_eq!(SoftAdapterConfig::with_io_mmu(model).check(), Ok(()));
    let local = SoftAdapterConfig { addressing_model: model, ..SoftAdapterConfig::default() };
    assert_eq!(local.check(), Err(ConfigError::LocalMemoryBehindIoMmu { bytes: 8 << 30 }));
    let no_tables = SoftAdapterConfig { local_memory_bytes: 0, ..SoftAdapterConfig::with_4kib_pages() };
    assert_eq!(no_tables.check(), Err(ConfigError::TablesWithoutLocalMemory));
    let io_mmu = SoftAdapterConfig { page_tables_in_system_memory: false, ..SoftAdapterConfig::with_io_mmu(model) };
    assert_eq!(io_mmu.check(), Ok(()), "where they would be does not matter");
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
        foreign: Some(4),
        placement: Placement::default(),
    };
    assert_eq!(AllocationPrivateData::from_bytes(&data.to_bytes()), Ok(data));
    assert_eq!(kmd.create_allocation(&data.to_bytes()).unwrap().allocation_priority, 5);
    assert_eq!(kmd.live_objects(), (0, 0, 2));
    kmd.destroy_allocation(info.allocation);
    assert_eq!(kmd.live_objects(), (0, 0, 1));
}

#[test]
fn allocations_have_the_placement_that_was_asked_for() {
    use Direction::{FromEnd, FromStart};
    let mut kmd = driver(SoftAdapterConfig::with_patching());
    let placement = Placement {
        alignment: 1 << 20,
        from_end_of_segment: true,
        directions: [FromEnd, FromStart, FromStart, FromStart, FromEnd],
        hinted_bank: SegmentBankPreference {
            banks: [2, 1, 0, 200],
            directions: [FromStart, FromEnd, FromStart, FromEnd],
        },
        evict_through_aperture: true,
    };
    let desc = AllocationDesc { segments: AllocationSegments::LocalOrSystem, ..AllocationDesc::local(PAGE) };
    let info = create(&mut kmd, AllocationDesc { placement, ..desc });
    assert_eq!(info.alignment, 1 << 20);
    assert_eq!(info.flags, AllocationFlags::FROM_END_OF_SEGMENT);
    assert_eq!(info.preferred_segment.segment_ids.map(|segment| segment.0), [1, 2, 0, 0, 0]);
    assert_eq!(info.preferred_segment.directions, placement.directions);
    assert_eq!(info.hinted_bank, placement.hinted_bank);
    assert_eq!(info.eviction_segment_set, SegmentSet::of(SegmentId(2)));
    let info = create(&mut kmd, desc);
    assert_eq!((u64::from(info.alignment), info.flags), (PAGE, AllocationFlags::empty()));
    assert_eq!(info.preferred_segment, SegmentPreference::of([1, 2, 0, 0, 0].map(SegmentId)));
    assert_eq!(info.hinted_bank, SegmentBankPreference::default());
    assert_eq!(info.eviction_segment_set, SegmentSet::default());
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
        (20, 8, "an unknown flag"),
        (24, 1, "another unknown flag"),
        (28, 3, "unknown segments"),
        (32, 2, "neither a surface nor none"),
        (36, 1, "a surface that it does not have"),
        (40, 2, "neither commands of the user's own nor none"),
        (44, 1, "commands that it does not have"),
        (48, 3, "an alignment that is no power of two"),
        (56, 32, "a direction of a sixth segment"),
        (59, 1, "an unknown hint"),
    ] {
        assert_eq!(with(at, byte), InvalidParameter, "{what}");
    }
    for length in 0..good.len() {
        assert!(AllocationPrivateData::from_bytes(&good[..length]).is_err());
    }
    assert!(AllocationPrivateData::from_bytes(&[good.as_slice(), &[0]].concat()).is_err());
}
