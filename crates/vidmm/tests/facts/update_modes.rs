//! The writer of page tables: the paging engine, or the driver with the CPU (GVA-10, GVA-33, BPB-08). In which place of the stream
//! the CPU comes is asserted by the world after every call.

use crate::judge::found;
use crate::world::{self, Access, Config, Place, SILENT, SOON, World, is_by_cpu};
use vidmm::contract::*;
use vidmm::*;
use vidmm_trace::Invariant;

const MODES: [PageTableUpdateMode; 2] = [PageTableUpdateMode::GpuPhysical, PageTableUpdateMode::CpuVirtual];

fn configs() -> [Config; 4] {
    [
        Config::discrete(16, 256),
        Config { invalid_not_cached: true, ..Config::discrete(16, 256) },
        Config::pages_64kb(4, true),
        Config { level_bits: vec![9, 9, 9], ..Config::integrated(AddressingModel::GpuMmu, 256) },
    ]
}

/// Allocations come, are written, leave, come back, and their tables are freed in the end. Returns the world at rest.
fn comes_and_goes(config: Config) -> World {
    let place = if config.segment_bytes > 0 { Place::Local } else { Place::System };
    let mut world = World::new(config);
    let client = world.client();
    let (a, at) = world.create_resident(client, place, 16, SILENT);
    let (b, at_b) = world.create_resident(client, Place::Aperture, 3, SILENT);
    world::write(&mut world, client, at + 15 * PAGE_SIZE, 4);
    world::write(&mut world, client, at_b, 5);
    world.evict(client, &[a, b], SOON).unwrap();
    world.run_all();
    world.bring_in(client, &[a, b]);
    world.submit(client, &[Access::Read(at + 15 * PAGE_SIZE), Access::Read(at_b)]);
    world.run_all();
    assert_eq!(world.read[world.read.len() - 2..], [4, 5]);
    world.free(client, at_b, 3).unwrap();
    world.run_all();
    world
}

/// GVA-10, GVA-61: the paging engine writes each table where the paging process sees it, which the world's machine looks up. The
/// CPU sets up that process's own tables, before there is anything to see (GVA-33), and writes nothing else.
#[test]
fn tables_are_written_where_the_paging_process_sees_them() {
    for config in configs() {
        let update_mode = PageTableUpdateMode::GpuVirtual;
        let world = comes_and_goes(Config { update_mode, ..config });
        let updates = world.driver.operations.iter().filter_map(|operation| match operation {
            PagingOperation::UpdatePageTable(op) => Some(op),
            _ => None,
        });
        let updates: Vec<&UpdatePageTable> = updates.collect();
        let by_cpu = updates.iter().take_while(|op| op.update_mode.is_by_cpu()).count();
        let paging_process = updates[0].process;
        let (set_up, others) = updates.split_at(by_cpu);
        assert!(set_up.iter().all(|op| op.process == paging_process));
        let is_in_view = |op: &&UpdatePageTable| matches!(op.update_mode, UpdateMode::GpuVirtual(_));
        assert!(others.iter().all(is_in_view), "each of the others is written by a virtual address");
        assert!(others.iter().any(|op| op.process != paging_process && op.page_table_level > 0));
        world.tear_down();
    }
}

/// The operation as a driver whose paging engine writes entries gets it.
fn by_engine(operation: &PagingOperation) -> PagingOperation {
    match *operation {
        PagingOperation::UpdatePageTable(op) => {
            PagingOperation::UpdatePageTable(UpdatePageTable { update_mode: UpdateMode::GpuPhysical, ..op })
        }
        other => other,
    }
}

/// GVA-10: the same operations in the same order, whoever writes. The CPU writes all entries, those of the paging process too
/// (GVA-33); flushes stay with the GPU.
#[test]
fn the_order_does_not_depend_on_the_writer() {
    for config in configs() {
        let [by_gpu, by_cpu] = MODES.map(|update_mode| {
            let world = comes_and_goes(Config { update_mode, ..config.clone() });
            let operations = world.driver.operations.clone();
            world.tear_down();
            operations
        });
        assert!(!by_gpu.iter().any(is_by_cpu));
        let is_update = |operation: &PagingOperation| operation.kind() == PagingOperationKind::UpdatePageTable;
        assert!(by_cpu.iter().all(|operation| is_update(operation) == is_by_cpu(operation)));
        assert!(by_cpu.iter().any(|operation| operation.kind() == PagingOperationKind::FlushTlb));
        assert_eq!(by_cpu.iter().map(by_engine).collect::<Vec<_>>(), by_gpu);
    }
}

/// BPB-08: there is no paging buffer, and the driver is called once for each update.
#[test]
fn there_is_no_buffer() {
    for config in configs() {
        let world = comes_and_goes(Config { update_mode: PageTableUpdateMode::CpuVirtual, ..config });
        for call in world.driver.calls.iter().filter(|call| is_by_cpu(&call.operation)) {
            assert_eq!(
                (call.write_offset, call.room, call.multipass_before, call.allocation_is_idle),
                (0, 0, 0, false)
            );
        }
        let updates = world.driver.calls.iter().filter(|call| is_by_cpu(&call.operation)).count() as u64;
        assert_eq!(world.vidmm.statistics().operations[PagingOperationKind::UpdatePageTable], updates);
        world.tear_down();
    }
}

/// BPB-08, GVA-28: the CPU waits for the GPU: while a copy out has not ended, nobody overwrites the entries that it reads through.
#[test]
fn the_cpu_waits_for_what_was_built_before() {
    let mut world = World::new(Config { update_mode: PageTableUpdateMode::CpuVirtual, ..Config::discrete(16, 256) });
    let client = world.client();
    let (a, at) = world.create_resident(client, Place::Local, 8, SILENT);
    world::write(&mut world, client, at, 4);
    world.evict(client, &[a], SOON).unwrap();
    world.poll();
    let is_copy = |operation: &PagingOperation| operation.kind() == PagingOperationKind::VirtualTransfer;
    while !is_copy(world.driver.operations.last().unwrap()) {
        world.complete(0);
    }
    let built = world.driver.operations.len();
    world.poll();
    assert_eq!(world.driver.operations.len(), built, "the windows are taken away by the CPU, after the copy");
    world.complete(0);
    assert!(is_by_cpu(&world.driver.operations[built]));
    world.run_all();
    world.tear_down();
}

/// BPB-08, BPB-01: the CPU carries an update out at once; a driver that does anything else puts its adapter in error.
#[test]
fn only_success_without_bytes_is_an_answer() {
    type Answer = fn(&mut BuildPagingBuffer<'_>) -> BuildStatus;
    let operation = PagingOperationKind::UpdatePageTable;
    let not_at_once =
        |status, dma_bytes, private_bytes| Some(Violation::NotAtOnce { operation, status, dma_bytes, private_bytes });
    let answers: [(Answer, Option<Violation>); 6] = [
        (|_| BuildStatus::Success, None),
        (|_| BuildStatus::InsufficientDmaBuffer, not_at_once(BuildStatus::InsufficientDmaBuffer, 0, 0)),
        (|_| BuildStatus::AllocationBusy, not_at_once(BuildStatus::AllocationBusy, 0, 0)),
        (|_| BuildStatus::Other(-7), Some(Violation::IllegalStatus { operation, status: -7 })),
        (
            |build| {
                build.dma_bytes_written = 8;
                BuildStatus::Success
            },
            not_at_once(BuildStatus::Success, 8, 0),
        ),
        (
            |build| {
                build.private_bytes_written = usize::MAX;
                BuildStatus::Success
            },
            not_at_once(BuildStatus::Success, 0, usize::MAX),
        ),
    ];
    for (answer, expected) in answers {
        let mut world =
            World::new(Config { update_mode: PageTableUpdateMode::CpuVirtual, ..Config::discrete(16, 256) });
        let client = world.client();
        let a = world.create(client, Place::Local, 4, SILENT);
        world.map(client, a);
        world.run_all();
        world.audit.expect(Invariant::I21);
        world.driver.answer = Box::new(move |build| is_by_cpu(build.operation).then(|| answer(build)));
        let calls = world.driver.calls.len();
        let _: Residency = world.make_resident(client, &[a]).unwrap();
        world.poll();
        let violations = world.outputs.iter().filter_map(|output| match output {
            Output::AdapterInError(violation) => Some(violation.clone()),
            _ => None,
        });
        assert_eq!(violations.collect::<Vec<_>>(), Vec::from_iter(expected.clone()));
        if expected.is_some() {
            assert_eq!(world.driver.calls.len(), calls + 1, "after it the driver is asked for nothing");
        }
    }
}

/// GVA-33: the CPU writes the paging process's tables at once, where the adapter's user wants what the documents say;
/// all others are written as the driver has reported. The auditor finds one that is not.
#[test]
fn the_paging_process_s_tables_can_be_the_cpu_s() {
    for update_mode in [PageTableUpdateMode::GpuPhysical, PageTableUpdateMode::GpuVirtual] {
        let config =
            Config { update_mode, paging_tables_by_cpu: true, tables_in_system: true, ..Config::discrete(16, 256) };
        let world = comes_and_goes(config);
        let events = world.events.clone();
        world.tear_down();
        assert_eq!(found(&events), []);
        let paging_process = events.iter().find_map(|event| match event {
            Event::AdapterStarted { paging_process, .. } => Some(*paging_process),
            _ => None,
        });
        let updates: Vec<(usize, bool, bool)> = (events.iter().enumerate())
            .filter_map(|(at, event)| match event {
                Event::PagingOperation { operation, .. } => match operation {
                    PagingOperation::UpdatePageTable(op) => {
                        Some((at, Some(op.process) == paging_process, is_by_cpu(operation)))
                    }
                    _ => None,
                },
                _ => None,
            })
            .collect();
        assert!(updates.iter().any(|update| !update.1), "users have tables");
        assert!(updates.iter().all(|&(_, of_paging_process, by_cpu)| of_paging_process == by_cpu), "{updates:?}");
        let last = updates.iter().rfind(|update| update.1).expect("windows are mapped").0;
        let mut by_engine_then = events.clone();
        let Event::PagingOperation { operation, .. } = &mut by_engine_then[last] else { unreachable!() };
        *operation = by_engine(operation);
        assert!(found(&by_engine_then).contains(&Invariant::I23));
    }
}

/// The auditor misses neither a table that is written elsewhere nor one that stays mapped.
#[test]
fn the_auditor_finds_tables_that_are_not_where_they_are_written() {
    let update_mode = PageTableUpdateMode::GpuVirtual;
    let world = comes_and_goes(Config { update_mode, ..Config::discrete(16, 256) });
    let events = world.events.clone();
    world.tear_down();
    assert_eq!(found(&events), []);
    let update = |event: &Event| match event {
        Event::PagingOperation { operation: PagingOperation::UpdatePageTable(op), .. } => Some(*op),
        _ => None,
    };
    let paging_process = events.iter().find_map(update).unwrap().process;
    let of_user = |event: &Event| update(event).is_some_and(|op| op.process != paging_process);
    let last = events.iter().rposition(of_user).unwrap();

    let mut elsewhere = events.clone();
    let Event::PagingOperation { operation: PagingOperation::UpdatePageTable(op), .. } = &mut elsewhere[last] else {
        unreachable!()
    };
    let UpdateMode::GpuVirtual(address) = op.update_mode else { panic!("{op:?}") };
    op.update_mode = UpdateMode::GpuVirtual(GpuVirtualAddress(address.0 + PAGE_SIZE));
    assert_eq!(found(&elsewhere), [Invariant::I14]);

    let mut by_place = events.clone();
    let Event::PagingOperation { operation, .. } = &mut by_place[last] else { unreachable!() };
    *operation = by_engine(operation);
    assert_eq!(found(&by_place), [Invariant::I23]);

    let mut stays = events;
    let is_taken_away = |event: &Event| {
        let of_views =
            |op: UpdatePageTable| op.process == paging_process && op.page_table_entries.first == Pte::INVALID;
        update(event).is_some_and(of_views)
    };
    let away = last + stays[last..].iter().position(is_taken_away).unwrap();
    stays.remove(away);
    assert!(found(&stays).contains(&Invariant::I14), "{:?}", found(&stays));
}

/// The auditor misses none of the rules: the mode that was reported, the place in the stream, and no commands.
#[test]
fn the_auditor_finds_who_writes_otherwise() {
    let world = comes_and_goes(Config { update_mode: PageTableUpdateMode::CpuVirtual, ..Config::discrete(16, 256) });
    let events = world.events.clone();
    world.tear_down();
    assert_eq!(found(&events), []);
    let is_cpu = |event: &Event| matches!(event, Event::PagingOperation { operation, .. } if is_by_cpu(operation));
    let last = events.iter().rposition(is_cpu).unwrap();

    let mut other_mode = events.clone();
    let Event::PagingOperation { operation, .. } = &mut other_mode[last] else { unreachable!() };
    *operation = by_engine(operation);
    assert_eq!(found(&other_mode), [Invariant::I23]);

    let mut with_bytes = events.clone();
    let Event::PagingOperation { bytes, .. } = &mut with_bytes[last] else { unreachable!() };
    *bytes = 8;
    assert_eq!(found(&with_bytes), [Invariant::I21]);

    let mut early = events.clone();
    let is_end = |event: &Event| matches!(event, Event::Completed { signal } if signal.engine == 0);
    let end = early[..last].iter().rposition(is_end).unwrap();
    let completed = early.remove(end);
    early.insert(last, completed);
    assert!(found(&early).contains(&Invariant::I05), "{:?}", found(&early));
}

/// 4.2: an entry forbids writes, or execution, only where the driver has said that it can.
#[test]
fn entries_forbid_what_is_supported() {
    for (has_read_only, has_no_execute) in [(true, false), (false, true), (true, true), (false, false)] {
        let config = Config { has_read_only, has_no_execute, ..Config::discrete(16, 256) };
        let mut world = World::new(config);
        let client = world.client();
        let a = world.create(client, Place::Local, 4, SILENT);
        let map = MapGpuVirtualAddress { write: false, execute: false, ..MapGpuVirtualAddress::whole(a) };
        let at = world.try_map(client, &map).unwrap().virtual_address;
        world.bring_in(client, &[a]);
        let of_a = world.driver.operations.iter().filter_map(|operation| match operation {
            PagingOperation::UpdatePageTable(op) if op.first_pte_virtual_address == at => Some(op.page_table_entries),
            _ => None,
        });
        let flags = of_a.map(|entries| entries.first.flags).rfind(|flags| flags.contains(PteFlags::VALID)).unwrap();
        assert_eq!(flags.contains(PteFlags::READ_ONLY), has_read_only);
        assert_eq!(flags.contains(PteFlags::NO_EXECUTE), has_no_execute);
        let mut told = world.events.iter().filter_map(|event| match *event {
            Event::GpuVirtualAddressMapped { read_only, no_execute, .. } => Some((read_only, no_execute)),
            _ => None,
        });
        assert_eq!(told.next_back(), Some((has_read_only, has_no_execute)), "the log says what the entries do");
        world.tear_down();
    }
}
