//! A machine with a mistake in it makes that mistake, when it was asked to, and no other.

use crate::common::*;
use vidmm::contract::*;
use vidmm::{GpuVirtualAddress, PAGE_SIZE_64K, PhysicalAddress};
use vidmm_runtime::{AllocationDesc, AllocationSegments, DriverFault, Hits, Machine, Umd};
use vidmm_soft::encoding::{Command, Decoder, OPCODE_DECOMPRESS, OPCODE_FLUSH_TLB, OPCODE_TRANSFER, OPCODE_WRITE_PTES};
use vidmm_soft::*;

const WINDOW: u64 = 1 << 30;
const BYTES: u64 = PAGE_SIZE_64K;

/// A machine with a mistake, its paging process, another process, and an allocation that the GPU may hold compressed.
struct Faulty {
    machine: Machine,
    io_mmu: IoMmu,
    paging: KmdProcessHandle,
    process: KmdProcessHandle,
    allocation: KmdAllocationHandle,
}

fn faulty(config: SoftAdapterConfig, fault: DriverFault, hits: Hits) -> Faulty {
    let machine = machine(&config, CostModel::default(), ModelGpuFaults::default(), None);
    let io_mmu = machine.host.io_mmu().clone();
    let mut machine = Machine::from(machine).with_fault(fault, hits);
    machine.kmd.query_adapter_info();
    let paging = machine.kmd.create_process(true).unwrap();
    let process = machine.kmd.create_process(false).unwrap();
    let segments = AllocationSegments::System;
    let desc = AllocationDesc { segments, surface: Some(3), ..AllocationDesc::local(1 << 30) };
    let private_data = SoftUmd.allocation_private_data(&desc);
    let allocation = machine.kmd.create_allocation(&private_data).unwrap().allocation;
    Faulty { machine, io_mmu, paging, process, allocation }
}

/// Every operation takes several commands.
fn page_tables() -> SoftAdapterConfig {
    SoftAdapterConfig { max_command_bytes: 6 * PAGE, ..SoftAdapterConfig::default() }
}

fn io_mmu() -> SoftAdapterConfig {
    let with_io_mmu = SoftAdapterConfig::with_io_mmu(AddressingModel::GpuVaIoMmu);
    SoftAdapterConfig { max_command_bytes: 6 * PAGE, ..with_io_mmu }
}

impl Faulty {
    fn commands(&mut self, operation: &PagingOperation) -> Vec<Command> {
        self.commands_in(operation, 4096)
    }

    fn commands_in(&mut self, operation: &PagingOperation, size: usize) -> Vec<Command> {
        let bytes = build_in(&mut *self.machine.kmd, operation, size);
        Decoder::new(&bytes).map(Result::unwrap).collect()
    }

    /// The opcodes of the commands of `operation`.
    fn opcodes(&mut self, operation: &PagingOperation) -> Vec<u16> {
        self.commands(operation).iter().map(opcode).collect()
    }

    fn eviction(&self, chunk: u64) -> PagingOperation {
        notify_eviction(self.allocation, chunk * BYTES, BYTES, WINDOW)
    }

    fn flush(&self, process: KmdProcessHandle) -> PagingOperation {
        PagingOperation::FlushTlb(FlushTlb {
            root_page_table_address: local(0),
            process,
            start_virtual_address: GpuVirtualAddress(WINDOW),
            end_virtual_address: GpuVirtualAddress(WINDOW + BYTES),
        })
    }

    fn page_out(&self) -> PagingOperation {
        PagingOperation::VirtualTransfer(TransferVirtual {
            allocation: KmdAllocationHandle(99),
            allocation_offset_in_bytes: 0,
            transfer_size_in_bytes: PAGE,
            source_virtual_address: GpuVirtualAddress(WINDOW),
            destination_virtual_address: GpuVirtualAddress(2 * WINDOW),
            transfer_direction: MemoryTransferDirection::LocalToSystem,
            flags: TransferVirtualFlags::empty(),
        })
    }

    /// Writes one entry of the paging process.
    fn write_entry(&self, address: u64, first: Pte) -> PagingOperation {
        PagingOperation::UpdatePageTable(UpdatePageTable {
            page_table_level: 0,
            allocation: None,
            page_table_address: local(0),
            page_table_entries: PteRun { first, first_64kb: None, num_page_table_entries: 1 },
            start_index: 0,
            flags: UpdatePageTableFlags::REPEAT,
            driver_protection: 0,
            allocation_offset_in_bytes: 0,
            process: self.paging,
            update_mode: UpdateMode::GpuPhysical,
            first_pte_virtual_address: GpuVirtualAddress(address),
        })
    }
}

/// Moves 16 pages.
fn moving(source: PhysicalAddress, destination: PhysicalAddress) -> PagingOperation {
    patching::transfer(KmdAllocationHandle(99), source, destination, 0, BYTES / PAGE)
}

fn opcode(command: &Command) -> u16 {
    match command {
        Command::Decompress(_) => OPCODE_DECOMPRESS,
        Command::FlushTlb(_) => OPCODE_FLUSH_TLB,
        Command::Transfer(_) => OPCODE_TRANSFER,
        Command::WritePtes(_) => OPCODE_WRITE_PTES,
        _ => panic!("{command:?}"),
    }
}

/// The surface's pages that the decompressions among `commands` begin at.
fn surface_pages(commands: &[Command]) -> Vec<u64> {
    let first_page = |command: &Command| match command {
        Command::Decompress(part) => Some(part.surface.first_page),
        _ => None,
    };
    commands.iter().filter_map(first_page).collect()
}

#[test]
fn an_operation_that_is_skipped_is_the_nth_of_its_kind() {
    for hits in [Hits::Nth(2), Hits::Always] {
        let skipped = |fault, operation: &dyn Fn(&Faulty) -> PagingOperation, config| {
            let mut machine = faulty(config, fault, hits);
            let operation = operation(&machine);
            let none: Vec<_> = (0..3).map(|_| machine.commands(&operation).is_empty()).collect();
            assert_eq!(none, if hits == Hits::Nth(2) { [false, true, false] } else { [true; 3] }, "{fault:?}");
        };
        skipped(DriverFault::SkipTlbFlush, &|machine| machine.flush(machine.process), page_tables());
        skipped(DriverFault::DropPageOut, &|machine| machine.page_out(), page_tables());
        skipped(DriverFault::DropPageOut, &|_| moving(local(0), system(0)), patching::config());
        skipped(DriverFault::DropPageOut, &|_| moving(local(0), patching::aperture(0)), patching::config());
        skipped(DriverFault::SkipDecompression, &|machine| machine.eviction(0), page_tables());
        skipped(DriverFault::ReusePagingVa, &|machine| machine.flush(machine.paging), page_tables());
        let unmap = |machine: &Faulty| notify_io_mmu_unmap(Some(machine.process), WINDOW, BYTES);
        skipped(DriverFault::SkipCacheFlush, &unmap, io_mmu());
    }
}

#[test]
fn a_patch_that_is_skipped_leaves_what_was_there() {
    let mut machine = faulty(patching::config(), DriverFault::SkipPatch, Hits::Nth(2)).machine;
    let kmd = &mut *machine.kmd;
    let data = SoftUmd.allocation_private_data(&AllocationDesc::local(PAGE));
    let allocation = kmd.create_allocation(&data).unwrap().allocation;
    let list = |offset| [patching::NULL, patching::element(allocation, true, Some(local(offset)))];
    let user = CommandBuffer::new().bind(0, 1).kernel(&patching::bound_kernel(1, &[], &[(0, 0, 1)])).finish();
    let mut rendered = patching::render(kmd, &user, &list(0));
    let end = rendered.dma.len();
    // A portion without patch locations is no occasion.
    let mut empty = patching::Rendered::default();
    let mut patched = Vec::new();
    for offset in [PAGE, 2 * PAGE, 3 * PAGE] {
        patching::patch(kmd, &mut empty, &list(offset), 0, 0);
        patched.push(patching::patch(kmd, &mut rendered, &list(offset), 0, end));
    }
    assert_eq!(patched[0], patched[1]);
    assert_ne!(patched[1], patched[2]);
    assert_ne!(patched[0], user.commands);
}

#[test]
fn other_operations_are_as_they_should_be() {
    let is_right = |fault, operation: &dyn Fn(&Faulty) -> PagingOperation, config: SoftAdapterConfig| {
        let mut right = SoftKmd::new(config.clone());
        let mut machine = faulty(config, fault, Hits::Always);
        right.create_process(true).unwrap();
        right.create_process(false).unwrap();
        let operation = operation(&machine);
        assert_eq!(build(&mut *machine.machine.kmd, &operation), build(&mut right, &operation), "{fault:?}");
    };
    let unmap = |machine: &Faulty| notify_io_mmu_unmap(Some(machine.process), WINDOW, BYTES);
    is_right(DriverFault::SkipTlbFlush, &|machine| machine.page_out(), page_tables());
    is_right(DriverFault::DropPageOut, &|machine| machine.flush(machine.process), page_tables());
    is_right(DriverFault::DropPageOut, &|_| moving(system(0), local(0)), patching::config());
    is_right(DriverFault::DropPageOut, &|_| moving(local(0), local(1 << 20)), patching::config());
    is_right(DriverFault::DropPageOut, &|_| moving(patching::aperture(0), system(0)), patching::config());
    is_right(DriverFault::SkipDecompression, &unmap, io_mmu());
    is_right(DriverFault::ReusePagingVa, &|machine| machine.flush(machine.process), page_tables());
    is_right(DriverFault::ReusePagingVa, &unmap, io_mmu());
    is_right(DriverFault::LateNotification, &|machine| machine.page_out(), page_tables());
}

#[test]
fn an_operation_that_is_asked_for_again_is_the_same_occasion() {
    // Each notification is answered busy first, and then takes three buffers.
    let config = SoftAdapterConfig { busy_notify_every: Some(1), ..page_tables() };
    let mut machine = faulty(config, DriverFault::SkipDecompression, Hits::Nth(3));
    let notification = machine.eviction(1);
    let commands: Vec<_> = (0..4).map(|_| machine.commands_in(&notification, 60).len()).collect();
    assert_eq!(commands, [3, 3, 0, 3]);
}

#[test]
fn the_offset_of_a_chunk_is_ignored() {
    let mut machine = faulty(page_tables(), DriverFault::IgnoreChunkOffset, Hits::Nth(2));
    let mut pages = |chunk| {
        let notification = machine.eviction(chunk);
        // Small buffers: the mistake is made to the end of the operation.
        surface_pages(&machine.commands_in(&notification, 60))
    };
    assert_eq!(pages(0), [0, 6, 12], "no occasion");
    assert_eq!(pages(1), [16, 22, 28]);
    assert_eq!(pages(2), [0, 6, 12]);
    assert_eq!(pages(3), [48, 54, 60]);
}

#[test]
fn a_late_notification_comes_after_its_window_is_unmapped() {
    for size in [4096, 80] {
        let mut machine = faulty(page_tables(), DriverFault::LateNotification, Hits::Nth(1));
        let notification = machine.eviction(1);
        assert_eq!(machine.commands_in(&notification, size), []);
        for address in [WINDOW, WINDOW + BYTES - PAGE] {
            let unmapping = machine.write_entry(address, Pte::INVALID);
            assert_eq!(machine.opcodes(&unmapping), [OPCODE_WRITE_PTES]);
        }
        let next = machine.write_entry(WINDOW, Pte::valid(local(0)));
        let commands = machine.commands_in(&next, size);
        assert_eq!(surface_pages(&commands), [16, 22, 28]);
        assert!(matches!(commands[3..], [Command::WritePtes(_)]), "{commands:?}");
        assert_eq!(machine.opcodes(&next), [OPCODE_WRITE_PTES], "once");
        assert_eq!(machine.commands(&notification).len(), 3, "the second is in time");
    }
}

#[test]
fn an_unmapping_of_other_addresses_brings_the_late_notification() {
    let mut machine = faulty(page_tables(), DriverFault::LateNotification, Hits::Always);
    let notification = machine.eviction(0);
    machine.commands(&notification);
    let elsewhere = machine.write_entry(WINDOW + BYTES, Pte::INVALID);
    assert_eq!(machine.commands(&elsewhere).len(), 4);
}

#[test]
fn behind_an_io_mmu_a_late_notification_comes_with_the_next() {
    let mut machine = faulty(io_mmu(), DriverFault::LateNotification, Hits::Always);
    let (first, second) = (machine.eviction(0), machine.eviction(1));
    let unmap = notify_io_mmu_unmap(Some(machine.process), 2 * WINDOW, BYTES);
    assert_eq!(machine.commands(&first), []);
    assert_eq!(surface_pages(&machine.commands(&second)), [0, 6, 12]);
    assert_eq!(surface_pages(&machine.commands(&unmap)), [16, 22, 28]);
    let after = machine.flush(machine.process);
    let flushed: Vec<_> = machine
        .commands(&after)
        .iter()
        .map(|command| match command {
            Command::FlushTlb(range) => range.start.0,
            _ => panic!("{command:?}"),
        })
        .collect();
    assert_eq!(flushed, [2 * WINDOW, WINDOW]);
}

#[test]
fn behind_an_io_mmu_a_reused_window_is_the_flush_that_the_driver_leaves_out() {
    for size in [4096, 60] {
        let config = SoftAdapterConfig { busy_notify_every: Some(1), ..io_mmu() };
        let mut machine = faulty(config, DriverFault::ReusePagingVa, Hits::Nth(2));
        let notification = machine.eviction(1);
        let mut opcodes = || machine.commands_in(&notification, size).iter().map(opcode).collect::<Vec<_>>();
        let right = [OPCODE_FLUSH_TLB, OPCODE_DECOMPRESS, OPCODE_DECOMPRESS, OPCODE_DECOMPRESS];
        assert_eq!(opcodes(), right);
        assert_eq!(opcodes(), right[1..]);
        assert_eq!(opcodes(), right);
        assert_eq!(surface_pages(&machine.commands_in(&notification, size)), [16, 22, 28]);
    }
}

#[test]
fn a_window_without_anything_to_make_plain_is_left_alone() {
    let mut machine = faulty(io_mmu(), DriverFault::ReusePagingVa, Hits::Always);
    let notification = notify_eviction(KmdAllocationHandle(99), 0, BYTES, WINDOW);
    assert_eq!(machine.commands(&notification), []);
}

#[test]
fn a_range_is_unmapped_when_its_notification_is_built() {
    for model in [AddressingModel::GpuVaIoMmu, AddressingModel::GpuVaIoMmuGlobal] {
        let mut faulty = faulty(SoftAdapterConfig::with_io_mmu(model), DriverFault::EarlyIoMmuUnmap, Hits::Always);
        let domain = |process| match model {
            AddressingModel::GpuVaIoMmuGlobal => IoMmuDomain::Global,
            _ => IoMmuDomain::Process(process),
        };
        let memory = faulty.machine.host.commit_backing_store(BYTES).unwrap();
        let unmap = notify_io_mmu_unmap(Some(faulty.process), 2 * WINDOW, BYTES);
        for (notification, process, address) in
            [(faulty.eviction(0), faulty.paging, WINDOW), (unmap, faulty.process, 2 * WINDOW)]
        {
            let (domain, address) = (domain(process), GpuVirtualAddress(address));
            // The window is used again: what was early once is so the next time as well.
            for _ in 0..2 {
                faulty.machine.host.map_io_mmu(domain, address, memory, BYTES, false);
                assert_eq!(faulty.io_mmu.translate(domain, address), Some(memory));
                assert!(!faulty.commands(&notification).is_empty(), "the driver does what it should");
                assert_eq!(faulty.io_mmu.translate(domain, address), None);
                faulty.machine.host.unmap_io_mmu(domain, address, BYTES);
            }
        }
        // A mapping that no notification was about goes when it should.
        faulty.machine.host.map_io_mmu(domain(faulty.process), GpuVirtualAddress(WINDOW), memory, BYTES, false);
        faulty.machine.host.unmap_io_mmu(domain(faulty.process), GpuVirtualAddress(WINDOW), BYTES);
        assert_eq!((faulty.io_mmu.num_mappings(), faulty.io_mmu.misuses()), (0, vec![]));
    }
}

#[test]
fn only_the_nth_range_is_unmapped_early() {
    let mut faulty = faulty(io_mmu(), DriverFault::EarlyIoMmuUnmap, Hits::Nth(2));
    let domain = IoMmuDomain::Process(faulty.paging);
    let memory = faulty.machine.host.commit_backing_store(BYTES).unwrap();
    let notification = faulty.eviction(0);
    for is_early in [false, true, false] {
        faulty.machine.host.map_io_mmu(domain, GpuVirtualAddress(WINDOW), memory, BYTES, false);
        faulty.commands(&notification);
        assert_eq!(faulty.io_mmu.translate(domain, GpuVirtualAddress(WINDOW)).is_none(), is_early);
        faulty.machine.host.unmap_io_mmu(domain, GpuVirtualAddress(WINDOW), BYTES);
    }
    assert_eq!(faulty.io_mmu.misuses(), []);
}

#[test]
fn without_an_io_mmu_nothing_is_unmapped_early() {
    let mut faulty = faulty(page_tables(), DriverFault::EarlyIoMmuUnmap, Hits::Always);
    let notification = faulty.eviction(0);
    assert_eq!(faulty.commands(&notification).len(), 3);
    assert_eq!(faulty.io_mmu.misuses(), []);
}

#[test]
fn an_illegal_status_is_answered_on_its_occasion_only() {
    let mut faulty = faulty(page_tables(), DriverFault::AnswerNotSupported, Hits::Nth(2));
    let operation = faulty.page_out();
    let status = |faulty: &mut Faulty| {
        let mut multipass_offset = 0;
        let mut build = BuildPagingBuffer {
            operation: &operation,
            dma_buffer: &mut [0; 4096],
            dma_buffer_write_offset: 0,
            dma_buffer_private_data: &mut [],
            dma_bytes_written: 0,
            private_bytes_written: 0,
            multipass_offset: &mut multipass_offset,
            allocation_is_idle: true,
            system_context: KmdContextHandle(0),
        };
        (faulty.machine.kmd.build_paging_buffer(&mut build), build.dma_bytes_written > 0)
    };
    assert_eq!(status(&mut faulty), (BuildStatus::Success, true));
    assert_eq!(status(&mut faulty), (BuildStatus::Other(0xC000_00BB_u32 as i32), false));
}

#[test]
fn each_creation_is_refused_on_its_occasion_only() {
    // The process that every faulty machine has is its first occasion, the allocation its second.
    for (refused, nth) in [("none", 2), ("process", 3), ("context", 4), ("allocation", 5), ("open", 6)] {
        let mut faulty = faulty(page_tables(), DriverFault::NoMemory, Hits::Nth(if nth > 2 { nth } else { 99 }));
        let private_data = SoftUmd.allocation_private_data(&AllocationDesc::local(1 << 20));
        let (kmd, process, allocation) = (&mut faulty.machine.kmd, faulty.process, faulty.allocation);
        let system_context = kmd.create_context(faulty.paging, 0, true);
        assert!(system_context.is_ok(), "what the adapter needs is no occasion");
        let answers = [
            ("process", kmd.create_process(false).is_ok()),
            ("context", kmd.create_context(process, 1, false).is_ok()),
            ("allocation", kmd.create_allocation(&private_data) != Err(CreateAllocationError::NoMemory)),
            ("open", kmd.open_allocation(process, allocation).is_ok()),
        ];
        answers.into_iter().for_each(|(what, is_ok)| assert_eq!(is_ok, what != refused, "{what} of {nth}"));
    }
}
