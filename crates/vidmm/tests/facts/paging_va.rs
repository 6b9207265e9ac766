//! How large the paging process's address space is, and what follows from it (PGV-01 to PGV-06, U-16, P31, P32).

use crate::transcript::*;
use crate::world::*;
use vidmm::contract::*;
use vidmm::*;

const MIB: u64 = 1 << 20;
const MODELS: [AddressingModel; 3] =
    [AddressingModel::GpuMmu, AddressingModel::GpuVaIoMmu, AddressingModel::GpuVaIoMmuGlobal];

/// An adapter with room for large windows, and `local` bytes of local memory.
fn config(model: AddressingModel, local: u64) -> Config {
    Config {
        segment_bytes: local,
        scheduling_log: None,
        tables_in_system: local == 0,
        level_bits: vec![9, 9, 9],
        io_mmu_bits: 48,
        ..Config::integrated(model, 1 << 18)
    }
}

/// The facts of an adapter that has just started.
struct Started {
    vidmm: VidMm,
    driver: Driver,
    host: Ledger,
    events: Vec<Event>,
}

fn start(config: &Config) -> Started {
    let (mut driver, mut host) = (Driver::new(config), Ledger::default());
    let mut vidmm = VidMm::start_adapter(config.options(), &mut driver, &mut host).unwrap();
    let events = vidmm.events().drain().map(|numbered| numbered.event).collect();
    Started { vidmm, driver, host, events }
}

impl Started {
    /// The size of a window, the bytes of all tables of the paging process, and how many of them are in local memory.
    fn sizes(&self) -> (u64, u64, u64) {
        let sizes = self.events.iter().find_map(|event| match event {
            Event::AdapterStarted { paging_va_size, paging_table_bytes, paging_tables, .. } => {
                let local = paging_tables.iter().map(|extent| extent.size).sum();
                Some((*paging_va_size, *paging_table_bytes, local))
            }
            _ => None,
        });
        sizes.expect("the adapter has started")
    }

    fn findings(&self) -> Vec<DriverFinding> {
        let finding = |event: &Event| match event {
            Event::DriverFinding { finding } => Some(*finding),
            _ => None,
        };
        self.events.iter().filter_map(finding).collect()
    }
}

/// P31, PGV-02, PGV-03, U-16: the whole table, computed as the seed says it.
#[test]
fn the_size_follows_from_local_memory_the_scheduling_log_and_the_answer() {
    let mut cases = 0;
    for local in [64 * MIB, 0] {
        for scheduling_log in [None, Some(0), Some(4 * MIB), Some(64 * MIB)] {
            for paging_va_mib in [None, Some(0), Some(8), Some(512)] {
                for model in MODELS {
                    if local > 0 && model != AddressingModel::GpuMmu {
                        continue; // GVA-02.
                    }
                    let started = start(&Config { scheduling_log, paging_va_mib, ..config(model, local) });
                    let answer = paging_va_mib.map_or(0, |mib| u64::from(mib) * MIB);
                    let log = scheduling_log.unwrap_or(0);
                    let expected = if local == 0 && log == 0 {
                        0
                    } else if answer > 0 {
                        answer
                    } else {
                        (local / 4).max(log)
                    };
                    let case = format!("{local} {scheduling_log:?} {paging_va_mib:?} {model:?}");
                    assert_eq!(started.sizes().0, expected, "{case}");
                    let is_ignored = expected == 0 && answer > 0;
                    let ignored = matches!(started.findings()[..], [DriverFinding::PagingVaIgnored { .. }]);
                    assert_eq!(ignored, is_ignored, "{case}: {:?}", started.findings());
                    cases += 1;
                }
            }
        }
    }
    assert_eq!(cases, 16 + 3 * 16);
}

/// U-16: an answer that is not made of whole page tables is rounded up, and the driver's author is told.
#[test]
fn an_answer_that_is_rounded_up_is_told() {
    for (asked_mib, expected) in [(1, 4), (3, 4), (5, 6), (6, 6)] {
        let config = Config { paging_va_mib: Some(asked_mib), ..config(AddressingModel::GpuMmu, 64 * MIB) };
        let started = start(&config);
        let paging_va_size = expected * MIB;
        assert_eq!(started.sizes().0, paging_va_size, "{asked_mib} MiB");
        let rounded = DriverFinding::PagingVaRounded { physical_adapter_index: 0, asked_mib, paging_va_size };
        let is_told = started.findings().contains(&rounded);
        assert_eq!(is_told, u64::from(asked_mib) < expected, "{asked_mib} MiB: {:?}", started.findings());
    }
}

/// PGV-01, P32: the query has a type, an index of 4 bytes as input, and 4 bytes of output.
#[test]
fn the_driver_is_asked_in_the_documented_form() {
    for model in MODELS {
        for paging_va_mib in [None, Some(0), Some(8)] {
            let started = start(&Config { scheduling_log: Some(MIB), paging_va_mib, ..config(model, 0) });
            assert_eq!(started.driver.paging_va_queries, [0], "0 where adapters are not linked");
            let queries: Vec<&Event> =
                started.events.iter().filter(|event| matches!(event, Event::PagingVaQueried { .. })).collect();
            let expected = Event::PagingVaQueried {
                query_type: 48,
                physical_adapter_index: 0,
                input_data_size: 4,
                output_data_size: 4,
                answer_mib: paging_va_mib,
                paging_va_size: started.sizes().0,
            };
            assert_eq!(queries, [&expected]);
        }
    }
}

/// PGV-01, U-14: each physical adapter of a link is asked with its own index, and gets the size of its own memory.
#[test]
fn each_linked_adapter_is_asked_with_its_index() {
    let linked = vec![(128 * MIB, None), (0, Some(8)), (64 * MIB, Some(32))];
    let started = start(&Config { linked, ..config(AddressingModel::GpuMmu, 64 * MIB) });
    assert_eq!(started.driver.paging_va_queries, [0, 1, 2, 3]);
    let sizes: Vec<(u32, Option<u32>, u64)> = started
        .events
        .iter()
        .filter_map(|event| match *event {
            Event::PagingVaQueried { physical_adapter_index, answer_mib, paging_va_size, .. } => {
                Some((physical_adapter_index, answer_mib, paging_va_size))
            }
            _ => None,
        })
        .collect();
    assert_eq!(sizes, [(0, None, 16 * MIB), (1, None, 32 * MIB), (2, Some(8), 0), (3, Some(32), 32 * MIB)]);
    let findings = started.findings();
    assert!(findings.contains(&DriverFinding::PagingVaIgnored { physical_adapter_index: 2, asked_mib: 8 }));
    let needlessly = |finding: &DriverFinding| {
        matches!(finding, DriverFinding::PagingVaNeedlesslyLarge { physical_adapter_index: 3, asked_mib: 32, .. })
    };
    assert!(findings.iter().any(needlessly), "{findings:?}");
}

/// PGV-04: a size beyond the default is reported with what it costs.
#[test]
fn a_needlessly_large_answer_is_reported() {
    let size = |paging_va_mib| start(&Config { paging_va_mib, ..config(AddressingModel::GpuMmu, 64 * MIB) });
    for fine in [None, Some(0), Some(4), Some(16)] {
        assert_eq!(size(fine).findings(), [], "{fine:?}");
    }
    let large = size(Some(64));
    let [DriverFinding::PagingVaNeedlesslyLarge { asked_mib: 64, default_size, table_bytes, .. }] =
        large.findings()[..]
    else {
        panic!("{:?}", large.findings())
    };
    assert_eq!(default_size, 16 * MIB);
    // Both windows have a leaf table for each 2 MiB.
    assert_eq!(table_bytes, 2 * 32 * PAGE_SIZE);
    let integrated =
        Config { scheduling_log: Some(MIB), paging_va_mib: Some(64), ..config(AddressingModel::GpuMmu, 0) };
    assert_eq!(start(&integrated).findings(), [], "without local memory the driver must say what it needs");
}

/// PGV-04: a larger address space pins more, and all that it pins is accounted for.
#[test]
fn the_tables_are_accounted_for() {
    let mut last = 0;
    for mib in [4, 8, 16, 32, 64] {
        let paging_va_mib = Some(mib);
        let in_local = start(&Config { paging_va_mib, ..config(AddressingModel::GpuMmu, 64 * MIB) });
        let (size, bytes, local) = in_local.sizes();
        assert_eq!(size, u64::from(mib) * MIB);
        assert_eq!(local, bytes, "all of them are in local memory");
        assert!(bytes >= 2 * size / (512 * PAGE_SIZE) * PAGE_SIZE && bytes > last, "{bytes} bytes");
        assert_eq!(in_local.host.bytes(), PAGE_SIZE, "the host has committed the dummy page");
        last = bytes;

        let in_system = Config { tables_in_system: true, ..config(AddressingModel::GpuMmu, 64 * MIB) };
        let in_system = start(&Config { paging_va_mib, ..in_system });
        assert_eq!(in_system.sizes(), (size, bytes, 0));
        assert_eq!(in_system.host.bytes(), bytes + PAGE_SIZE, "the host has committed the tables");

        for model in [AddressingModel::GpuVaIoMmu, AddressingModel::GpuVaIoMmuGlobal] {
            let behind = start(&Config { scheduling_log: Some(MIB), paging_va_mib, ..config(model, 0) });
            assert_eq!(behind.sizes(), (size, 0, 0), "an IOMMU has no tables of ours");
        }
    }
}

/// PGV-03, PGV-04: nothing is pinned where there are no addresses.
#[test]
fn without_addresses_there_are_no_tables() {
    for paging_va_mib in [None, Some(0), Some(8), Some(u32::MAX)] {
        let started = start(&Config { paging_va_mib, ..config(AddressingModel::GpuMmu, 0) });
        assert_eq!(started.sizes(), (0, 0, 0));
        assert_eq!(started.host.bytes(), PAGE_SIZE);
    }
}

/// U-16: an absurd answer is cut down, with every model, and the adapter works.
#[test]
fn an_absurd_answer_is_cut_down() {
    for model in MODELS {
        for local in [64 * MIB, 0] {
            if local > 0 && model != AddressingModel::GpuMmu {
                continue;
            }
            for asked_mib in [u32::MAX, u32::MAX - 1, 1 << 31, 1 << 20] {
                let scheduling_log = Some(MIB);
                let config = Config {
                    scheduling_log,
                    paging_va_mib: Some(asked_mib),
                    aperture_bytes: 64 * MIB,
                    ..config(model, local)
                };
                let started = start(&config);
                let (paging_va_size, table_bytes, _) = started.sizes();
                let expected = DriverFinding::PagingVaClamped { physical_adapter_index: 0, asked_mib, paging_va_size };
                assert_eq!(started.findings(), [expected], "{model:?}");
                assert!(paging_va_size <= 64 * MIB, "no more than can be resident: {paging_va_size}");
                assert!(table_bytes <= if local > 0 { local / 8 + 8 * PAGE_SIZE } else { 256 * MIB }, "{table_bytes}");
                drop(started.vidmm);
                works(config);
            }
        }
    }
}

/// An allocation of 5 MiB comes and goes, and is told of.
fn works(config: Config) {
    let place = if config.segment_bytes > 0 { Place::Local } else { Place::System };
    let mut world = World::new(config);
    let client = world.client();
    let (a, at) = world.create_resident(client, place, 1280, EVICTION);
    world.submit(client, &[Access::Write(at + 1279 * PAGE_SIZE, 9)]);
    world.evict(client, &[a], SOON).unwrap();
    world.run_all();
    world.bring_in(client, &[a]);
    assert_eq!(world.token(client, at + 1279 * PAGE_SIZE), Some(9));
    world.tear_down();
}

/// U-16: the least is 4 MiB, and sizes are rounded up to what leaf tables cover, or to 64 KiB without them.
#[test]
fn a_small_answer_is_rounded_up() {
    for model in MODELS {
        for (asked, expected) in [(1, 4), (3, 4), (4, 4), (5, if model == AddressingModel::GpuMmu { 6 } else { 5 })] {
            let asked = Config { scheduling_log: Some(MIB), paging_va_mib: Some(asked), ..config(model, 0) };
            assert_eq!(start(&asked).sizes().0, expected * MIB, "{model:?}");
        }
    }
}

/// U-16, D16: a switch lets the driver's size count where the documents give none.
#[test]
fn a_switch_honours_the_answer_without_local_memory() {
    for model in MODELS {
        let size = |paging_va_mib| {
            let switched = Config { paging_va_without_local_memory: true, paging_va_mib, ..config(model, 0) };
            let started = start(&switched);
            assert_eq!(started.findings(), []);
            started.sizes().0
        };
        assert_eq!(size(Some(8)), 8 * MIB);
        assert_eq!((size(None), size(Some(0))), (0, 0), "there is nothing to honour");
        works(Config { paging_va_without_local_memory: true, paging_va_mib: Some(8), ..config(model, 0) });
    }
}

/// PGV-03, NTF-02: without addresses there is no window to show an eviction in, and that is said when it is asked for.
#[test]
fn an_eviction_notification_without_addresses_is_refused() {
    for model in MODELS {
        for revision in [NotificationRevision::Current, NotificationRevision::August2024] {
            let mut world = World::new(Config { revision, ..config(model, 0) });
            let client = world.client();
            for place in [Place::System, Place::Aperture] {
                for flags2 in [SILENT, EVICTION, IO_MMU_UNMAP, BOTH] {
                    let before = world.fingerprint();
                    let info = world.config.allocation(place, 4, flags2);
                    let answer = world.try_create(client, info);
                    // The earlier text shows an IOMMU unmap in a window too (NTF-06).
                    let is_current = revision == NotificationRevision::Current;
                    let needs_window = if is_current { flags2.contains(EVICTION) } else { flags2 != SILENT };
                    if needs_window {
                        assert_eq!(answer, Err(CreateError::NoPagingVa { model }), "{model:?} {revision:?} {flags2:?}");
                        assert_eq!(world.fingerprint(), before);
                    } else {
                        let a = answer.unwrap();
                        let at = world.map(client, a);
                        world.bring_in(client, &[a]);
                        world.submit(client, &[Access::Write(at, 3)]);
                        world.evict(client, &[a], SOON).unwrap();
                        world.run_all();
                        world.bring_in(client, &[a]);
                        assert_eq!(world.token(client, at), Some(3));
                    }
                }
            }
            world.tear_down();
        }
    }
}

/// PGV-05: a driver that wants to see an allocation whole reads what to answer; once.
#[test]
fn an_allocation_beyond_the_addresses_is_reported_once() {
    for model in MODELS {
        let mut world = World::new(Config { scheduling_log: Some(4 * MIB), ..config(model, 0) });
        let client = world.client();
        let reported = |world: &World| {
            let findings = world.events.iter().filter_map(|event| match event {
                Event::DriverFinding { finding } => Some(*finding),
                _ => None,
            });
            findings.collect::<Vec<_>>()
        };
        world.create(client, Place::System, 1024, EVICTION);
        world.create(client, Place::System, 4096, SILENT);
        assert_eq!(reported(&world), []);
        world.create(client, Place::System, 1025, EVICTION);
        world.create(client, Place::System, 5000, EVICTION);
        let (size, paging_va_size) = (1025 * PAGE_SIZE, 4 * MIB);
        assert_eq!(reported(&world), [DriverFinding::AllocationBeyondPagingVa { size, paging_va_size }]);
    }
}

/// PGV-05: fills, transfers and notifications go in chunks of the same size.
#[test]
fn all_operations_are_cut_to_the_same_size() {
    let local = 64 * MIB;
    let mut world = World::new(Config { paging_va_mib: Some(4), ..config(AddressingModel::GpuMmu, local) });
    let client = world.client();
    let (a, at) = world.create_resident(client, Place::Local, 2500, SILENT);
    world.submit(client, &[Access::Write(at, 1)]);
    world.evict(client, &[a], SOON).unwrap();
    world.run_all();
    world.bring_in(client, &[a]);
    let (b, _) = world.create_resident(client, Place::System, 2500, EVICTION);
    world.evict(client, &[b], SOON).unwrap();
    world.run_all();
    let mut sizes: [Vec<u64>; 4] = Default::default();
    for step in transcript(&world, 0) {
        let (kind, size) = match step {
            Step::Fill { size, .. } => (0, size),
            Step::TransferOut { size, .. } => (1, size),
            Step::TransferIn { size, .. } => (2, size),
            Step::NotifyEviction { size, .. } => (3, size),
            _ => continue,
        };
        sizes[kind].push(size / PAGE_SIZE);
    }
    for sizes in sizes {
        assert_eq!(sizes, [1024, 1024, 452]);
    }
}

/// GVA-02: a linked adapter with local memory behind an IOMMU is refused like the first.
#[test]
fn a_linked_adapter_behind_an_io_mmu_has_no_local_memory() {
    let linked = vec![(64 << 20, Some(64))];
    let config = Config { linked, ..Config::integrated(AddressingModel::GpuVaIoMmu, 1 << 18) };
    let started = VidMm::start_adapter(config.options(), &mut Driver::new(&config), &mut Ledger::default());
    let broken = started.err().expect("it does not start").broken_rules;
    assert!(matches!(broken[..], [BrokenRule::MemorySegmentBehindIoMmu(_)]), "{broken:?}");
}

/// PGV-05, NTF-06: with the text of August 2024 an IOMMU unmap is notified in chunks too, and the driver's author is told.
#[test]
fn the_finding_of_chunks_is_about_every_notification_in_a_window() {
    let revision = NotificationRevision::August2024;
    let config = Config { revision, paging_va_mib: Some(4), ..Config::integrated(AddressingModel::GpuVaIoMmu, 4096) };
    let mut world = World::new(config);
    let client = world.client();
    world.create_resident(client, Place::System, 2048, IO_MMU_UNMAP);
    let findings = world.vidmm.driver_findings();
    assert!(
        findings.iter().any(|finding| matches!(finding, DriverFinding::AllocationBeyondPagingVa { .. })),
        "{findings:?}"
    );
}
