//! Allocation notification (NTF-01 to NTF-09, U-15): what is sent when, and what must hold meanwhile.

use crate::transcript::*;
use crate::world::*;
use vidmm::contract::*;
use vidmm::event::EvictReason;
use vidmm::*;

const MODELS: [AddressingModel; 3] =
    [AddressingModel::GpuMmu, AddressingModel::GpuVaIoMmu, AddressingModel::GpuVaIoMmuGlobal];
const IO_MMU_MODELS: [AddressingModel; 2] = [AddressingModel::GpuVaIoMmu, AddressingModel::GpuVaIoMmuGlobal];
const SYSTEM_PLACES: [Place; 2] = [Place::System, Place::Aperture];

/// An adapter without local memory, and a client.
fn integrated(model: AddressingModel) -> (World, Client) {
    of(Config::integrated(model, 256))
}

fn of(config: Config) -> (World, Client) {
    let mut world = World::new(config);
    let client = world.client();
    (world, client)
}

/// An adapter of any model whose paging process has 4 MiB of addresses.
fn chunked(model: AddressingModel) -> (World, Client) {
    of(Config { paging_va_mib: Some(4), level_bits: vec![9, 9, 9], ..Config::integrated(model, 8192) })
}

/// Stores `token` compressed in pages of an allocation that is mapped at `at`.
fn compress(world: &mut World, client: Client, allocation: AllocationId, at: u64, pages: &[u64]) {
    let handle = world.handle(allocation);
    let write = |&page: &u64| Access::WriteSurface(at + page * PAGE_SIZE, handle, page, 100 + page);
    let program: Vec<Access> = pages.iter().map(write).collect();
    world.submit(client, &program);
    world.run_all();
}

/// Looks for what [`compress`] has stored, in the backing store, as plain tokens.
fn is_plain(world: &World, handle: KmdAllocationHandle, pages: &[u64]) {
    let store = world.machine.known[&handle].backing_store;
    for &page in pages {
        let found = world.machine.read(store.offset_by(page * PAGE_SIZE), &world.host);
        assert_eq!(found, 100 + page, "page {page} of the backing store");
    }
    assert_eq!(world.machine.surfaces.pages_of(handle).count(), 0);
}

fn evict_now(world: &mut World, client: Client, allocation: AllocationId) {
    world.evict(client, &[allocation], SOON).unwrap();
    world.run_all();
}

/// The notifications among the steps since the journal had `since` lines.
fn told(world: &World, since: usize) -> Vec<Step> {
    let is_told = |step: &Step| matches!(step, Step::NotifyEviction { .. } | Step::NotifyIoMmuUnmap { .. });
    transcript(world, since).into_iter().filter(is_told).collect()
}

fn evictions(world: &World, since: usize) -> usize {
    told(world, since).iter().filter(|step| matches!(step, Step::NotifyEviction { .. })).count()
}

fn unmaps(world: &World, since: usize) -> usize {
    told(world, since).len() - evictions(world, since)
}

fn findings(world: &World) -> Vec<DriverFinding> {
    let finding = |event: &Event| match event {
        Event::DriverFinding { finding } => Some(*finding),
        _ => None,
    };
    world.events.iter().filter_map(finding).collect()
}

/// NTF-01, NTF-02, P23, P25: the driver can decompress in time, and the content is what it was.
#[test]
fn content_leaves_the_aperture_and_implicit_system_memory_as_plain_bytes() {
    for model in MODELS {
        for place in SYSTEM_PLACES {
            let (mut world, client) = integrated(model);
            let (a, at) = world.create_resident(client, place, 20, EVICTION);
            compress(&mut world, client, a, at, &[0, 7, 19]);
            let since = world.journal.len();
            evict_now(&mut world, client, a);
            assert_eq!(evictions(&world, since), 1, "{model:?} {place:?}");
            is_plain(&world, world.handle(a), &[0, 7, 19]);
            world.bring_in(client, &[a]);
            assert_eq!(world.token(client, at + 7 * PAGE_SIZE), Some(107));
            world.tear_down();
        }
    }
}

/// P26: no flag, no word.
#[test]
fn a_driver_that_did_not_ask_is_not_told() {
    for model in MODELS {
        for revision in [NotificationRevision::Current, NotificationRevision::August2024] {
            let (mut world, client) = of(Config { revision, ..Config::integrated(model, 256) });
            for place in SYSTEM_PLACES {
                let (a, at) = world.create_resident(client, place, 20, SILENT);
                world.submit(client, &[Access::Write(at, 5)]);
                world.run_all();
                evict_now(&mut world, client, a);
                let (b, _) = world.create_resident(client, place, 20, SILENT);
                world.destroy(b);
                world.run_all();
            }
            assert_eq!(told(&world, 0), []);
        }
    }
}

/// NTF-03, P24: a driver that compresses in local memory decompresses when it is asked for the transfer.
#[test]
fn leaving_local_memory_tells_nothing() {
    for revision in [NotificationRevision::Current, NotificationRevision::August2024] {
        let (mut world, client) = of(Config { revision, ..Config::discrete(32, 64) });
        let (a, at) = world.create_resident(client, Place::Local, 8, BOTH);
        compress(&mut world, client, a, at, &[0, 7]);
        evict_now(&mut world, client, a);
        assert_eq!(told(&world, 0), []);
        is_plain(&world, world.handle(a), &[0, 7]);
        world.tear_down();
    }
}

/// NTF-03, NTF-07: demotion and promotion are between local memory and implicit system memory, and nobody is told.
#[test]
fn demotion_and_promotion_tell_nothing() {
    let (mut world, client) = of(Config::discrete(8, 64));
    let (a, at) = world.create_resident(client, Place::LocalOrSystem, 8, BOTH);
    compress(&mut world, client, a, at, &[3]);
    world.evict(client, &[a], IF_NECESSARY).unwrap();
    let (b, _) = world.create_resident(client, Place::Local, 8, SILENT);
    assert_eq!(world.vidmm.statistics().demotions, 1);
    assert_eq!(world.pte(client, at).map(|pte| pte.address.segment), Some(SegmentId::SYSTEM));
    is_plain(&world, world.handle(a), &[3]);
    evict_now(&mut world, client, b);
    world.bring_in(client, &[a]);
    assert_eq!(world.vidmm.statistics().promotions, 1);
    assert_eq!(world.pte(client, at).map(|pte| pte.address.segment), Some(LOCAL));
    assert_eq!(told(&world, 0), []);
    assert_eq!(world.token(client, at + 3 * PAGE_SIZE), Some(103));
    world.tear_down();
}

/// Content that was compressed while it was demoted goes to local memory as it is, and is plain when it leaves, even if
/// nothing was written to it there: the backing store holds compressed bytes.
#[test]
fn content_compressed_before_its_promotion_leaves_as_plain_bytes() {
    for flags in [SOON, NOT_WRITTEN] {
        let (mut world, client) = of(Config::discrete(8, 64));
        let (a, at) = world.create_resident(client, Place::LocalOrSystem, 8, EVICTION);
        world.evict(client, &[a], IF_NECESSARY).unwrap();
        let (b, _) = world.create_resident(client, Place::Local, 8, SILENT);
        world.bring_in(client, &[a]);
        let segment = |world: &World| world.pte(client, at).map(|pte| pte.address.segment);
        assert_eq!(segment(&world), Some(SegmentId::SYSTEM), "no room in local memory");
        compress(&mut world, client, a, at, &[3]);
        world.evict(client, &[a], IF_NECESSARY).unwrap();
        evict_now(&mut world, client, b);
        world.bring_in(client, &[a]);
        assert_eq!(segment(&world), Some(LOCAL));
        let read = [Access::ReadSurface(at + 3 * PAGE_SIZE, world.handle(a), 3)];
        world.submit(client, &read);
        world.run_all();
        assert_eq!(world.read, [103]);
        world.evict(client, &[a], flags).unwrap();
        world.run_all();
        is_plain(&world, world.handle(a), &[3]);
        world.tear_down();
    }
}

/// NTF-05, P28: with page tables nothing is unmapped from an IOMMU; the driver's author hears of it once.
#[test]
fn an_io_mmu_unmap_is_not_sent_where_there_is_no_io_mmu() {
    let (mut world, client) = integrated(AddressingModel::GpuMmu);
    for place in SYSTEM_PLACES {
        for flags2 in [IO_MMU_UNMAP, BOTH] {
            let (a, _) = world.create_resident(client, place, 4, flags2);
            evict_now(&mut world, client, a);
        }
    }
    assert_eq!(unmaps(&world, 0), 0);
    assert_eq!(evictions(&world, 0), 2);
    assert_eq!(findings(&world), [DriverFinding::NotifyIoMmuUnmapWithoutIoMmu]);
}

/// CRE-07: flags that the driver's version does not have mean nothing; the driver's author hears of it once.
#[test]
fn flags_of_a_newer_version_mean_nothing() {
    for wddm_version in [WddmVersion::WDDM2_0, WddmVersion(WddmVersion::WDDM3_2.0 - 1)] {
        for model in MODELS {
            let (mut world, client) = of(Config { wddm_version, ..Config::integrated(model, 256) });
            for _ in 0..2 {
                let info = world.config.allocation(Place::System, 4, BOTH);
                let a = world.try_create(client, info).unwrap();
                let handle = world.handle(a);
                // The driver does not count on notifications that it does not get.
                world.machine.known.get_mut(&handle).unwrap().info.flags2 = SILENT;
                world.map(client, a);
                world.bring_in(client, &[a]);
                evict_now(&mut world, client, a);
            }
            assert_eq!(told(&world, 0), []);
            let wddm_version = wddm_version.0;
            assert_eq!(findings(&world), [DriverFinding::FlagsBeyondVersion { flags2: BOTH, wddm_version }]);
        }
    }
}

/// NTF-01, U-15: both flags are two operations, the eviction first.
#[test]
fn with_both_flags_the_eviction_comes_first() {
    for model in IO_MMU_MODELS {
        for place in SYSTEM_PLACES {
            let (mut world, client) = integrated(model);
            let (a, at) = world.create_resident(client, place, 4, BOTH);
            let since = world.journal.len();
            evict_now(&mut world, client, a);
            let told = told(&world, since);
            let unmap = Step::NotifyIoMmuUnmap {
                process: Some(client.kmd_process),
                address: at,
                offset: 0,
                size: 4 * PAGE_SIZE,
            };
            assert!(matches!(told[0], Step::NotifyEviction { process: None, .. }), "{told:?}");
            assert_eq!(told[1..], [unmap]);
        }
    }
}

/// P29, P30, PGV-05, I10: chunks as large as the paging process's addresses, whatever the model.
#[test]
fn an_eviction_is_told_in_chunks() {
    const WINDOW: u64 = 1024;
    let cases: [(u64, &[u64]); 5] = [
        (WINDOW - 1, &[WINDOW - 1]),
        (WINDOW, &[WINDOW]),
        (WINDOW + 1, &[WINDOW, 1]),
        (2 * WINDOW, &[WINDOW, WINDOW]),
        (6 * WINDOW + 5, &[WINDOW, WINDOW, WINDOW, WINDOW, WINDOW, WINDOW, 5]),
    ];
    for model in MODELS {
        for (pages, sizes) in cases {
            let (mut world, client) = chunked(model);
            let (a, at) = world.create_resident(client, Place::System, pages, EVICTION);
            let edges: Vec<u64> =
                (0..=6).flat_map(|n| [n * WINDOW, n * WINDOW + WINDOW - 1]).filter(|&n| n < pages).collect();
            compress(&mut world, client, a, at, &edges);
            let since = world.journal.len();
            evict_now(&mut world, client, a);
            let chunk = |step: Step| match step {
                Step::NotifyEviction { offset, size, .. } => (offset / PAGE_SIZE, size / PAGE_SIZE),
                other => panic!("{other:?}"),
            };
            let chunks: Vec<_> = told(&world, since).into_iter().map(chunk).collect();
            let expected: Vec<_> = sizes.iter().enumerate().map(|(n, &size)| (n as u64 * WINDOW, size)).collect();
            assert_eq!(chunks, expected, "{model:?}, {pages} pages");
            is_plain(&world, world.handle(a), &edges);
            let statistics = world.vidmm.statistics();
            assert_eq!(statistics.eviction_notifications, 1);
            assert_eq!(statistics.eviction_notification_chunks, sizes.len() as u64);
            assert_eq!(statistics.eviction_notification_bytes, pages * PAGE_SIZE);
        }
    }
}

/// NTF-09, U-15: work that is under way keeps the allocation as it is; the driver is told when it has ended.
#[test]
fn the_gpu_is_idle_before_the_driver_is_told() {
    for model in MODELS {
        for place in SYSTEM_PLACES {
            let (mut world, client) = integrated(model);
            let (a, at) = world.create_resident(client, place, 4, BOTH);
            let handle = world.handle(a);
            world.submit(client, &[Access::WriteSurface(at, handle, 0, 100)]);
            world.evict(client, &[a], SOON).unwrap();
            let since = world.journal.len();
            world.run_paging();
            assert_eq!(transcript(&world, since), [], "{model:?} {place:?}: the work has not ended");
            world.run_all();
            assert_eq!(evictions(&world, since), 1);
            is_plain(&world, handle, &[0]);
        }
    }
}

/// NTF-02, BPB-04: a notification that goes over several buffers has its window until the last part has run.
#[test]
fn a_full_buffer_in_mid_chunk_keeps_the_window() {
    for model in MODELS {
        for operation_bytes in [4096, 6000, 20_000] {
            let config = Config::integrated(model, 256);
            let (mut world, client) = of(Config { operation_bytes, ..config });
            let (a, at) = world.create_resident(client, Place::System, 4, EVICTION);
            compress(&mut world, client, a, at, &[0, 3]);
            let (since, calls) = (world.journal.len(), world.driver.calls.len());
            world.evict(client, &[a], SOON).unwrap();
            world.poll();
            while world.can_complete(PAGING) {
                // While any part of it is still to be run, the window shows the chunk.
                let is_told = evictions(&world, since) > 0;
                let was_built = world.driver.calls[calls..].iter().any(|call| is_eviction(&call.operation));
                if was_built && !is_told && model != AddressingModel::GpuMmu {
                    let windows =
                        world.host.io_mmu.keys().filter(|key| world.is_window(key.0, GpuVirtualAddress(key.1)));
                    assert_eq!(windows.count(), 1, "{model:?}: the window is gone before the last part has run");
                }
                world.complete(PAGING);
            }
            let parts: Vec<&Call> =
                world.driver.calls[calls..].iter().filter(|call| is_eviction(&call.operation)).collect();
            assert!(parts.len() >= operation_bytes.div_ceil(4096), "{} parts", parts.len());
            for pair in parts.windows(2) {
                assert_eq!(pair[0].operation, pair[1].operation, "BPB-04: the same operation again");
                assert_eq!(pair[0].multipass_after, pair[1].multipass_before, "BPB-04");
            }
            assert_eq!(evictions(&world, since), 1);
            is_plain(&world, world.handle(a), &[0, 3]);
            world.tear_down();
        }
    }
}

fn is_eviction(operation: &PagingOperation) -> bool {
    matches!(operation, PagingOperation::NotifyAlloc(op) if op.flags == NotifyAllocFlags::EVICTION)
}

fn is_notification(operation: &PagingOperation) -> bool {
    matches!(operation, PagingOperation::NotifyAlloc(_))
}

/// U-15, BPB-06: busy is not documented for a notification. It is handled, and the driver's author hears of it once.
#[test]
fn busy_is_handled_and_reported() {
    for model in MODELS {
        let (mut world, client) = chunked(model);
        let (a, at) = world.create_resident(client, Place::System, 2048, BOTH);
        compress(&mut world, client, a, at, &[0, 2047]);
        world.driver.answer = Box::new(|build| {
            let refuses = is_notification(build.operation) && !build.allocation_is_idle;
            refuses.then_some(BuildStatus::AllocationBusy)
        });
        let (since, calls) = (world.journal.len(), world.driver.calls.len());
        evict_now(&mut world, client, a);
        let answers: Vec<_> = world.driver.calls[calls..]
            .iter()
            .filter(|call| is_notification(&call.operation))
            .map(|call| (call.allocation_is_idle, call.status))
            .collect();
        for pair in answers.chunks(2) {
            assert_eq!(pair, [(false, BuildStatus::AllocationBusy), (true, BuildStatus::Success)], "{model:?}");
        }
        assert_eq!(evictions(&world, since), 2);
        is_plain(&world, world.handle(a), &[0, 2047]);
        let busy = |finding: &DriverFinding| matches!(finding, DriverFinding::BusyUndocumented { .. });
        let reported: Vec<_> = findings(&world).into_iter().filter(busy).collect();
        assert_eq!(reported, [DriverFinding::BusyUndocumented { operation: PagingOperationKind::NotifyAlloc }]);
        world.tear_down();
    }
}

/// BPB-06, NTF-02: a busy answer comes when the window is mapped already, and it stays mapped.
#[test]
fn busy_keeps_the_window() {
    for model in MODELS {
        let (mut world, client) = integrated(model);
        let (a, _) = world.create_resident(client, Place::System, 4, EVICTION);
        let since = world.journal.len();
        world.driver.answer = Box::new(|build| {
            (is_notification(build.operation) && !build.allocation_is_idle).then_some(BuildStatus::AllocationBusy)
        });
        evict_now(&mut world, client, a);
        let is_window = |step: &Step| match *step {
            Step::Validate { process, .. } => process == PAGING_PROCESS,
            Step::HostMap { .. } => true,
            _ => false,
        };
        let mapped = transcript(&world, since).iter().filter(|step| is_window(step)).count();
        assert_eq!(mapped, 1, "{model:?}: one chunk, one window");
    }
}

/// U-11: idle is idle.
#[test]
fn busy_for_ever_is_an_error_of_the_driver() {
    for model in MODELS {
        let (mut world, client) = integrated(model);
        let (a, _) = world.create_resident(client, Place::System, 4, EVICTION);
        world.driver.answer = Box::new(|build| is_notification(build.operation).then_some(BuildStatus::AllocationBusy));
        evict_now(&mut world, client, a);
        let error = world.outputs.iter().find_map(|output| match output {
            Output::AdapterInError(violation) => Some(violation.clone()),
            _ => None,
        });
        assert!(matches!(error, Some(Violation::BusyWhileIdle { operation: PagingOperationKind::NotifyAlloc, .. })));
    }
}

/// U-15: a destroyed allocation is read by nobody, but caches know its addresses.
#[test]
fn the_eviction_of_what_is_destroyed_is_not_told_and_its_io_mmu_unmap_is() {
    for model in MODELS {
        for place in SYSTEM_PLACES {
            let (mut world, client) = integrated(model);
            let (a, at) = world.create_resident(client, place, 4, BOTH);
            compress(&mut world, client, a, at, &[1]);
            let since = world.journal.len();
            world.destroy(a);
            world.run_all();
            assert_eq!(evictions(&world, since), 0, "{model:?} {place:?}");
            assert_eq!(unmaps(&world, since), usize::from(model != AddressingModel::GpuMmu), "{model:?} {place:?}");
            world.tear_down();
        }
    }
}

/// U-15: the same for what is destroyed while it is idle in its place.
#[test]
fn an_allocation_destroyed_off_every_list_is_not_told_of_either() {
    for model in MODELS {
        let (mut world, client) = integrated(model);
        let (a, _) = world.create_resident(client, Place::System, 4, BOTH);
        world.evict(client, &[a], IF_NECESSARY).unwrap();
        world.run_all();
        let since = world.journal.len();
        world.destroy(a);
        world.run_all();
        assert_eq!(evictions(&world, since), 0);
        world.tear_down();
    }
}

/// U-15: that nothing was written since the last MakeResident does not say that nothing is compressed from before.
#[test]
fn not_written_to_is_told_all_the_same() {
    for model in MODELS {
        for place in SYSTEM_PLACES {
            let (mut world, client) = integrated(model);
            let (a, at) = world.create_resident(client, place, 4, EVICTION);
            compress(&mut world, client, a, at, &[2]);
            world.evict(client, &[a], IF_NECESSARY).unwrap();
            world.bring_in(client, &[a]);
            let since = world.journal.len();
            world.evict(client, &[a], NOT_WRITTEN).unwrap();
            world.run_all();
            assert_eq!(evictions(&world, since), 1, "{model:?} {place:?}");
            is_plain(&world, world.handle(a), &[2]);
        }
    }
}

/// RES-21: EvictOnlyIfNecessary tells nothing until somebody wants the room.
#[test]
fn an_evict_only_if_necessary_is_told_when_it_is_necessary() {
    for model in MODELS {
        for place in SYSTEM_PLACES {
            let (mut world, client) = of(Config::integrated(model, 32));
            let (a, at) = world.create_resident(client, place, 20, EVICTION);
            compress(&mut world, client, a, at, &[11]);
            world.evict(client, &[a], IF_NECESSARY).unwrap();
            world.run_all();
            assert_eq!(evictions(&world, 0), 0);
            world.create_resident(client, place, 20, SILENT);
            assert_eq!(evictions(&world, 0), 1, "{model:?} {place:?}");
            let reason = world.evicted().last().map(|&(evicted, reason)| (evicted == a, reason));
            let wanted = [EvictReason::RoomWanted, EvictReason::RangeWanted];
            assert!(reason.is_some_and(|(is_a, reason)| is_a && wanted.contains(&reason)), "{reason:?}");
            is_plain(&world, world.handle(a), &[11]);
        }
    }
}

/// NTF-04: once for each mapping, with the part that it shows.
#[test]
fn each_mapping_is_told_of_once() {
    for model in IO_MMU_MODELS {
        for place in SYSTEM_PLACES {
            let (mut world, client) = integrated(model);
            let a = world.create(client, place, 16, BOTH);
            let whole = MapGpuVirtualAddress::whole(a);
            let (offset, size) = (5 * PAGE_SIZE, 3 * PAGE_SIZE);
            let part = MapGpuVirtualAddress { offset, size, ..whole };
            let descs = [whole, part, MapGpuVirtualAddress { write: false, ..whole }];
            let at = descs.map(|desc| world.try_map(client, &desc).unwrap().virtual_address.0);
            world.bring_in(client, &[a]);
            let since = world.journal.len();
            evict_now(&mut world, client, a);
            let told = told(&world, since);
            let process = Some(client.kmd_process);
            for (address, (offset, size)) in
                at.into_iter().zip([(0, 16 * PAGE_SIZE), (offset, size), (0, 16 * PAGE_SIZE)])
            {
                let expected = Step::NotifyIoMmuUnmap { process, address, offset, size };
                assert_eq!(told.iter().filter(|&&step| step == expected).count(), 1, "{expected:?} in {told:?}");
            }
            assert_eq!(told.len(), 4, "one eviction, three mappings");
            world.tear_down();
        }
    }
}

/// U-15: a mapping that is freed while the allocation is resident will have its addresses used again.
#[test]
fn a_freed_mapping_is_told_of() {
    for model in IO_MMU_MODELS {
        let (mut world, client) = integrated(model);
        let (a, at) = world.create_resident(client, Place::System, 8, BOTH);
        let second = world.map(client, a);
        world.run_all();
        let program = [Access::Write(second, 1), Access::Write(at + PAGE_SIZE, 2)];
        world.submit(client, &program);
        let since = world.journal.len();
        world.free(client, second, 8).unwrap();
        world.run_paging();
        assert_eq!(transcript(&world, since), [], "the work that was submitted before may use it");
        world.run_all();
        let process = Some(client.kmd_process);
        let expected = Step::NotifyIoMmuUnmap { process, address: second, offset: 0, size: 8 * PAGE_SIZE };
        assert_eq!(told(&world, since), [expected]);
        assert_eq!(world.translate(client, second), None);
        assert_eq!(world.token(client, at), Some(1), "the other mapping stays");
        let since = world.journal.len();
        evict_now(&mut world, client, a);
        assert_eq!((evictions(&world, since), unmaps(&world, since)), (1, 1), "what is gone is not told of again");
        world.tear_down();
    }
}

/// FLT-23, U-43: a notification that faults is no context's fault: the adapter is reset, who owns the allocation is told so, and
/// its content, which the notification may have begun to rewrite in place, is lost.
#[test]
fn a_fault_in_a_notification_resets_the_adapter() {
    for model in MODELS {
        let (mut world, client) = integrated(model);
        let other = world.client();
        let (a, _) = world.create_resident(client, Place::Aperture, 8, BOTH);
        world.evict(client, &[a], SOON).unwrap();
        world.poll();
        assert!(world.driver.calls.iter().any(|call| is_eviction(&call.operation)));
        world.fault(PAGING, 0xDEAD_0000);
        let expected =
            [(client.device, DeviceErrorReason::PagingBufferFault), (other.device, DeviceErrorReason::AdapterReset)];
        assert_eq!(world.devices_in_error(), expected, "{model:?}");
        assert!(world.events.contains(&Event::ContentLost { allocation: a, is_kept: true }), "{model:?}");
        world.run_all();
        world.tear_down();
    }
}

/// D5: a notification that waits for a kernel that never ends keeps nobody else from paging.
#[test]
fn a_notification_that_waits_keeps_nobody_from_paging() {
    for model in MODELS {
        for place in SYSTEM_PLACES {
            let (mut world, client) = integrated(model);
            let (a, at) = world.create_resident(client, place, 16, BOTH);
            world.submit(client, &[Access::Read(at)]);
            world.evict(client, &[a], SOON).unwrap();
            world.run_paging();
            let other = world.client();
            for round in 1..=20 {
                let (b, at) = world.create_resident(other, place, 16, BOTH);
                assert_eq!(world.token(other, at), Some(0), "{model:?} {place:?}, round {round}");
                world.evict(other, &[b], SOON).unwrap();
                world.run_paging();
                assert_eq!(world.translate(other, at), None, "{model:?} {place:?}, round {round}");
                world.destroy(b);
                world.run_paging();
            }
            assert_eq!(evictions(&world, 0), 20, "the one that waits was not told");
            world.run_all();
            assert_eq!(evictions(&world, 0), 21);
            world.tear_down();
        }
    }
}

/// I10, U-15: one chunk at a time behind an IOMMU, and yet the allocations of two devices do not wait for each other's work.
#[test]
fn two_devices_are_told_of_their_chunks() {
    for model in MODELS {
        let (mut world, client) = chunked(model);
        let other = world.client();
        let (a, at) = world.create_resident(client, Place::System, 3000, BOTH);
        let (b, bt) = world.create_resident(other, Place::System, 3000, BOTH);
        compress(&mut world, client, a, at, &[0, 1023, 1024, 2999]);
        compress(&mut world, other, b, bt, &[0, 1023, 1024, 2999]);
        world.evict(client, &[a], SOON).unwrap();
        world.evict(other, &[b], SOON).unwrap();
        world.run_all();
        assert_eq!(evictions(&world, 0), 6);
        for allocation in [a, b] {
            is_plain(&world, world.handle(allocation), &[0, 1023, 1024, 2999]);
        }
        world.tear_down();
    }
}

/// U-15: an allocation that is listed again while it is on its way out comes in when it is out, with its content.
#[test]
fn allocations_listed_again_on_their_way_out_come_back() {
    for model in MODELS {
        for place in SYSTEM_PLACES {
            // After how many paging buffers it is listed again.
            for steps in 0..4 {
                let (mut world, client) = integrated(model);
                let (a, at) = world.create_resident(client, place, 16, BOTH);
                compress(&mut world, client, a, at, &[9]);
                world.evict(client, &[a], SOON).unwrap();
                world.poll();
                for _ in 0..steps {
                    if world.can_complete(PAGING) {
                        world.complete(PAGING);
                    }
                }
                let _: Residency = world.make_resident(client, &[a]).unwrap();
                let page = Access::ReadSurface(at + 9 * PAGE_SIZE, world.handle(a), 9);
                world.submit(client, &[page]);
                world.run_all();
                assert_eq!(world.read, [109], "{model:?} {place:?} after {steps}");
                assert!(world.translate(client, at).is_some());
                world.tear_down();
            }
        }
    }
}

/// NTF-04: while the host has not unmapped, the allocation is not mapped again.
#[test]
fn nothing_is_mapped_again_before_it_is_unmapped() {
    for model in IO_MMU_MODELS {
        let (mut world, client) = integrated(model);
        let (a, at) = world.create_resident(client, Place::System, 16, IO_MMU_UNMAP);
        let since = world.journal.len();
        world.evict(client, &[a], SOON).unwrap();
        world.poll();
        let _: Residency = world.make_resident(client, &[a]).unwrap();
        world.run_all();
        let domain = world.config.domain(client.kmd_process);
        let host_steps: Vec<Step> = transcript(&world, since)
            .into_iter()
            .filter(|step| matches!(step, Step::HostMap { .. } | Step::HostUnmap { .. }))
            .collect();
        let store = world.machine.known[&world.handle(a)].backing_store;
        let size = 16 * PAGE_SIZE;
        let unmap = Step::HostUnmap { domain, address: at, size };
        assert_eq!(host_steps, [unmap, Step::HostMap { domain, address: at, size, at: store, read_only: false }]);
    }
}

/// C-16, NTF-06: the text of August 2024 tells of an IOMMU unmap as of an eviction, whatever the addressing model.
#[test]
fn the_earlier_revision_tells_in_chunks_and_of_no_process() {
    for model in MODELS {
        for place in SYSTEM_PLACES {
            let config = Config::integrated(model, 8192);
            let revision = NotificationRevision::August2024;
            let (mut world, client) =
                of(Config { revision, paging_va_mib: Some(4), level_bits: vec![9, 9, 9], ..config });
            let (a, at) = world.create_resident(client, place, 1500, BOTH);
            compress(&mut world, client, a, at, &[0, 1024, 1499]);
            let since = world.journal.len();
            evict_now(&mut world, client, a);
            let told: Vec<(bool, u64, u64)> = told(&world, since)
                .into_iter()
                .map(|step| match step {
                    Step::NotifyEviction { process: None, offset, size, .. } => (true, offset, size),
                    Step::NotifyIoMmuUnmap { process: None, offset, size, .. } => (false, offset, size),
                    other => panic!("{other:?}"),
                })
                .map(|(is_eviction, offset, size)| (is_eviction, offset / PAGE_SIZE, size / PAGE_SIZE))
                .collect();
            let expected = [(true, 0, 1024), (true, 1024, 476), (false, 0, 1024), (false, 1024, 476)];
            assert_eq!(told, expected, "{model:?} {place:?}");
            is_plain(&world, world.handle(a), &[0, 1024, 1499]);
            assert!(!findings(&world).contains(&DriverFinding::NotifyIoMmuUnmapWithoutIoMmu), "it is sent");
            world.tear_down();
        }
    }
}

/// FLT-03: the allocations of a device in error go without a word about their content.
#[test]
fn a_device_in_error_leaves_without_evictions() {
    for model in MODELS {
        let (mut world, client) = integrated(model);
        let (a, at) = world.create_resident(client, Place::System, 4, BOTH);
        world.submit(client, &[Access::Read(at)]);
        world.poll();
        world.fault(RENDER, 0xBAD0_0000);
        let since = world.journal.len();
        world.destroy(a);
        world.run_all();
        assert_eq!(evictions(&world, since), 0);
        assert_eq!(unmaps(&world, since), usize::from(model != AddressingModel::GpuMmu));
        assert!(world.host.io_mmu.is_empty());
    }
}

/// The worth of the world: each mistake of a driver is found.
mod mistakes {
    use super::*;

    fn evict_compressed(model: AddressingModel, place: Place, mistake: Mistake) {
        let (mut world, client) = chunked(model);
        world.machine.mistake = Some(mistake);
        let (a, at) = world.create_resident(client, place, 1500, BOTH);
        compress(&mut world, client, a, at, &[3, 1030]);
        evict_now(&mut world, client, a);
        is_plain(&world, world.handle(a), &[3, 1030]);
        world.tear_down();
    }

    #[test]
    #[should_panic(expected = "page 3 of the backing store")]
    fn a_decompression_that_is_skipped_is_found() {
        evict_compressed(AddressingModel::GpuMmu, Place::System, Mistake::SkipDecompression);
    }

    #[test]
    #[should_panic(expected = "page 1030 of the backing store")]
    fn a_chunk_offset_that_is_ignored_is_found() {
        evict_compressed(AddressingModel::GpuVaIoMmu, Place::System, Mistake::IgnoreChunkOffset);
    }

    #[test]
    #[should_panic(expected = "is used as the device has cached it, but was unmapped")]
    fn a_window_that_is_not_flushed_is_found() {
        evict_compressed(AddressingModel::GpuVaIoMmu, Place::System, Mistake::SkipWindowFlush);
    }

    #[test]
    #[should_panic(expected = "whose memory is gone")]
    fn an_aperture_that_is_not_unmapped_is_found() {
        evict_compressed(AddressingModel::GpuMmu, Place::Aperture, Mistake::SkipApertureUnmap);
    }

    #[test]
    #[should_panic(expected = "is used as the device has cached it, but was unmapped")]
    fn a_cache_that_is_not_flushed_is_found() {
        let (mut world, client) = integrated(AddressingModel::GpuVaIoMmu);
        world.machine.mistake = Some(Mistake::SkipCacheFlush);
        let (a, at) = world.create_resident(client, Place::System, 4, IO_MMU_UNMAP);
        world.submit(client, &[Access::Write(at, 1)]);
        world.run_all();
        world.destroy(a);
        world.run_all();
        // The next one gets the same addresses.
        let (_, again) = world.create_resident(client, Place::System, 4, IO_MMU_UNMAP);
        assert_eq!(at, again);
        world.submit(client, &[Access::Read(again)]);
        world.run_all();
    }
}
