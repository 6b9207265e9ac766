//! The GPU's refusals, and the errors that it can be asked to make.

use crate::common::*;
use proptest::prelude::*;
use vidmm::PageSize;
use vidmm::contract::MemoryTransferDirection::*;
use vidmm::contract::{FaultErrorCode, Kmd, NotifyInterrupt, PageFaultFlags, Pte, PteFlags};
use vidmm_runtime::{Gpu, GpuEvent, Hits};
use vidmm_soft::encoding::{Command, TableAddress, WritePtes, encode_to_vec};
use vidmm_soft::{
    COPY_ENGINE, HardwareEntry, ModelGpuFaults, RENDER_ENGINE, SoftAdapterConfig, SoftKmd, StatusKind, StatusRegisters,
};

const A: u64 = 1 << 20;

fn rig_with(faults: ModelGpuFaults) -> (Rig, Process) {
    let config = SoftAdapterConfig { local_memory_bytes: 256 << 20, ..Default::default() };
    let mut rig = Rig::with(config, FREE, faults);
    let process = rig.process();
    rig.map_now(process, A, Pte::valid(local(A)), 16, PageSize::Kib64);
    (rig, process)
}

fn rig() -> (Rig, Process) {
    rig_with(ModelGpuFaults::default())
}

#[test]
fn an_unmapped_access_stops_its_engine_and_no_other() {
    let (mut rig, process) = rig();
    let beyond = A + 256 * PAGE;
    let mut commands = kernel(1, 10, &[range(A, 257)], &[range(A, 1)]);
    commands.extend(kernel(2, 10, &[], &[range(A, 1)]));
    let aborted = rig.submit(process, RENDER_ENGINE, &[], commands);
    rig.submit(process, RENDER_ENGINE, &[], kernel(3, 10, &[], &[range(A + PAGE, 1)]));
    let waits = rig.submit(process, COPY_ENGINE, &[aborted], kernel(4, 10, &[], &[range(A + 2 * PAGE, 1)]));
    let events = rig.drain();
    assert_eq!(faults(&events), [(beyond, false)]);
    assert_eq!(times(&events).iter().map(|time| time.0).collect::<Vec<_>>(), [waits], "the fence counts as signalled");
    assert_eq!(rig.digest(process, A), Some(0), "nothing of the packet wrote");
    assert_eq!(rig.digest(process, A + PAGE), Some(0), "nothing else runs on the engine");
    assert_eq!(rig.digest(process, A + 2 * PAGE), Some(expected(4, &[])));
    assert_eq!(rig.gpu.counters().page_faults, 1);
}

#[test]
fn the_driver_reads_from_the_registers_what_faulted_and_where_the_walk_ended() {
    let (mut rig, process) = rig();
    // Another leaf entry of the same table, another leaf table, another table of a higher level.
    for (address, level) in [(A + 256 * PAGE, 0), (1 << 33, 1), (1 << 45, 2)] {
        let signal = rig.submit(process, RENDER_ENGINE, &[], kernel(1, 0, &[], &[range(address, 1)]));
        let events = rig.drain();
        let [GpuEvent::KernelRead { .. }, GpuEvent::Interrupt { status, .. }] = &events[..] else {
            panic!("{events:?}")
        };
        assert_eq!(status.len(), StatusRegisters::SIZE);
        let Some(NotifyInterrupt::DmaPageFaulted(fault)) = rig.kmd.interrupt_routine(status) else {
            panic!("{status:?}")
        };
        assert_eq!((fault.faulted_fence_id, fault.node_ordinal), (signal.fence_id, RENDER_ENGINE));
        assert_eq!((fault.faulted_virtual_address.0, fault.page_table_level), (address, level));
        assert_eq!(fault.page_fault_flags, PageFaultFlags::WRITE | PageFaultFlags::ENGINE_RESET_REQUIRED);
        assert_eq!(fault.fault_error_code, FaultErrorCode::PAGE_FAULT);
        assert_eq!(fault.faulted_process, Some(process.handle));
        rig.gpu.reset_engine(rig.now, RENDER_ENGINE);
        rig.drain();
    }
    let signal = rig.submit(process, RENDER_ENGINE, &[], vec![1, 2, 3]);
    let events = rig.drain();
    let [GpuEvent::Interrupt { status, .. }] = &events[..] else { panic!("{events:?}") };
    let illegal = NotifyInterrupt::DmaFaulted { faulted_fence_id: signal.fence_id, node_ordinal: RENDER_ENGINE };
    assert_eq!(rig.kmd.interrupt_routine(status), Some(illegal));
}

#[test]
fn registers_that_the_gpu_never_shows_are_not_its_interrupt() {
    let mut kmd = SoftKmd::new(SoftAdapterConfig::default());
    let kind = StatusKind::IllegalCommand;
    let right = StatusRegisters { kind, engine: RENDER_ENGINE, fence_id: 7 }.to_bytes();
    assert!(kmd.interrupt_routine(&right).is_some());
    assert_eq!(kmd.interrupt_routine(&[]), None);
    assert_eq!(kmd.interrupt_routine(&right[1..]), None);
    assert_eq!(kmd.interrupt_routine(&[&right[..], &[0]].concat()), None);
    assert_eq!(kmd.interrupt_routine(&[0xFF; StatusRegisters::SIZE]), None);
    let mut wrong = right;
    wrong[0] = 3;
    assert_eq!(kmd.interrupt_routine(&wrong), None);
}

#[test]
fn writes_through_read_only_entries_fault() {
    let (mut rig, process) = rig();
    let read_only = Pte { flags: PteFlags::VALID | PteFlags::READ_ONLY, address: local(A) };
    let (large, small) = (8 << 20, 9 << 20);
    rig.map_now(process, large, read_only, 1, PageSize::Kib64);
    rig.map_now(process, small, read_only, 16, PageSize::Kib4);
    for address in [large, small] {
        let events = rig.run(process, kernel(1, 0, &[range(address, 1)], &[]));
        assert_eq!(faults(&events), []);
        let events = rig.run(process, kernel(1, 0, &[], &[range(address + PAGE, 1)]));
        assert_eq!(faults(&events), [(address + PAGE, true)]);
        let fill = rig.fill(address, PAGE, 1);
        assert_eq!(faults(&rig.run(process, fill)), [(address, true)]);
        let transfer = rig.transfer(A, address, PAGE, LocalToLocal);
        assert_eq!(faults(&rig.run(process, transfer)), [(address, true)]);
    }
}

#[test]
fn commands_that_mean_nothing_end_their_packet() {
    let (mut rig, process) = rig();
    let write_ptes = |level, start_index, count, table, second, page_size| {
        let mut bytes = Vec::new();
        encode_to_vec(
            &Command::WritePtes(WritePtes {
                process: process.handle,
                virtual_address: vidmm::GpuVirtualAddress(0),
                level,
                page_size,
                table: TableAddress::Physical(table),
                start_index,
                count,
                first: HardwareEntry::INVALID,
                first_64kb: second,
                stride: 0,
            }),
            &mut bytes,
        );
        bytes
    };
    let reserved = vec![7, 0, 0, 0, 8, 0, 0, 0];
    let nonsense = [
        vec![1, 2, 3],
        reserved,
        vec![99; 64],
        kernel(1, 0, &[range(A + 1, 1)], &[]),
        kernel(1, 0, &[], &[range(A, u64::MAX)]),
        kernel(1, 0, &[range(!0xFFF, 2)], &[]),
        write_ptes(3, 0, 1, local(0), None, PageSize::Kib4),
        write_ptes(0, 8192, 1, local(0), None, PageSize::Kib4),
        write_ptes(0, 0, 513, local(0), None, PageSize::Kib64),
        write_ptes(0, u32::MAX, u32::MAX, local(0), None, PageSize::Kib4),
        write_ptes(0, 0, 1, local(8), None, PageSize::Kib4),
        write_ptes(0, 0, 1, local(1 << 40), None, PageSize::Kib4),
        write_ptes(0, 0, 1, local(0), Some(HardwareEntry::INVALID), PageSize::Kib4),
    ];
    for (number, mut commands) in nonsense.into_iter().enumerate() {
        commands.extend(kernel(2, 0, &[], &[range(A, 1)]));
        let events = rig.run(process, commands);
        assert!(is_refusal(&events), "{number}: {events:?}");
        assert_eq!(rig.gpu.counters().illegal_commands, number as u64 + 1);
    }
    assert_eq!(rig.digest(process, A), Some(0));
}

#[test]
fn one_bit_of_the_chosen_transfer_flips() {
    let (mut rig, process) =
        rig_with(ModelGpuFaults { flip_bit_in_transfer: Some(Hits::Nth(2).into()), ..Default::default() });
    let pages = 8;
    rig.write_local(process, A, pages, 1);
    let wrong_pages = |rig: &mut Rig, copy: u64| {
        let at = |page| page * PAGE;
        (0..pages).filter(|&page| rig.digest(process, copy + at(page)) != rig.digest(process, A + at(page))).count()
    };
    for (transfer, wrong) in [(1, 0), (2, 1), (3, 0)] {
        let copy = A + transfer * 16 * PAGE;
        let commands = rig.transfer(A, copy, pages * PAGE, LocalToLocal);
        rig.run(process, commands);
        assert_eq!(wrong_pages(&mut rig, copy), wrong, "transfer {transfer}");
    }
}

proptest! {
    #[test]
    fn wrong_bytes_end_their_packet_and_never_the_gpu(
        wrong in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..8),
    ) {
        let (mut rig, process) = rig();
        let mut commands = kernel(1, 10, &[range(A, 4)], &[range(A, 4)]);
        commands.extend(rig.map(process, A, Pte::valid(local(A)), 4, PageSize::Kib64));
        commands.extend(rig.transfer(A, A + 8 * PAGE, 4 * PAGE, LocalToLocal));
        commands.extend(rig.fill(A, 4 * PAGE, 1));
        commands.extend(rig.flush(process, A, A + PAGE));
        for (index, byte) in wrong {
            let index = index.index(commands.len());
            commands[index] = byte;
        }
        let events = rig.run(process, commands);
        prop_assert_eq!(times(&events).len() + interrupts(&events).len(), 1);
        let events = rig.run(process, kernel(2, 0, &[], &[]));
        prop_assert_eq!(times(&events).len(), 1);
    }
}
