//! Objects: handles, order of destruction, failures of driver and host (I27, I28, P53, P54).

use crate::world::*;
use vidmm::*;

/// Handles that name nothing: never made, made up, another generation.
fn bad<K>() -> Vec<Id<K>> {
    [99, u64::MAX, u32::MAX.into(), 1 << 32, 7 << 32 | 1, 0xDEAD_BEEF_0BAD_F00D].map(Id::from_bits).into()
}

/// P53: a bad handle in any place of any call is refused, and nothing changes.
#[test]
fn bad_handles_are_refused_everywhere() {
    let (mut world, client) = World::with_pages(16);
    let (a, _) = world.resident(client, 2);
    let fence = world.fence();
    let (mut allocations, mut processes, mut devices) = (bad(), bad(), bad());
    let (mut contexts, mut queues, mut fences) = (bad(), bad(), bad());
    // Objects that are gone, too.
    let gone = world.client();
    let dead = world.allocate(gone, 1);
    world.destroy(dead);
    world.run_all();
    let dead_fence = world.call(|vidmm, _, _| vidmm.create_monitored_fence(0)).unwrap();
    world.call(|vidmm, driver, host| {
        vidmm.destroy_context(driver, gone.context).unwrap();
        vidmm.destroy_paging_queue(gone.queue).unwrap();
        vidmm.destroy_device(driver, host, gone.device).unwrap();
        vidmm.destroy_process(driver, host, gone.process).unwrap();
        vidmm.destroy_monitored_fence(dead_fence).unwrap();
    });
    allocations.push(dead);
    processes.push(gone.process);
    devices.push(gone.device);
    contexts.push(gone.context);
    queues.push(gone.queue);
    fences.push(dead_fence);

    let before = world.fingerprint();
    macro_rules! refused {
        ($($call:expr),* $(,)?) => {$(
            let is_refused = world.call($call);
            assert!(is_refused, "{} took a bad handle", stringify!($call));
            assert_eq!(world.fingerprint(), before, "{} changed something", stringify!($call));
        )*};
    }
    for process in processes {
        refused!(
            |vidmm: &mut VidMm, _: &mut Driver, _: &mut Ledger| vidmm.create_device(process).is_err(),
            |vidmm: &mut VidMm, driver: &mut Driver, host: &mut Ledger| {
                vidmm.destroy_process(driver, host, process).is_err()
            },
            |vidmm: &mut VidMm, _: &mut Driver, host: &mut Ledger| {
                vidmm.free_gpu_virtual_address(host, process, GpuVirtualAddress(PAGE_SIZE_64K), PAGE_SIZE).is_err()
            },
        );
    }
    for device in devices {
        refused!(
            |vidmm: &mut VidMm, driver: &mut Driver, host: &mut Ledger| vidmm
                .destroy_device(driver, host, device)
                .is_err(),
            |vidmm: &mut VidMm, _: &mut Driver, _: &mut Ledger| vidmm.create_paging_queue(device, 0).is_err(),
            |vidmm: &mut VidMm, _: &mut Driver, _: &mut Ledger| vidmm.evict(device, &[a], SOON).is_err(),
            |vidmm: &mut VidMm, driver: &mut Driver, _: &mut Ledger| {
                vidmm.create_context(driver, device, RENDER).is_err()
            },
            |vidmm: &mut VidMm, driver: &mut Driver, host: &mut Ledger| {
                vidmm.create_allocation(driver, host, device, &private_data(PAGE_SIZE, NORMAL)).is_err()
            },
        );
    }
    for context in contexts {
        refused!(
            |vidmm: &mut VidMm, driver: &mut Driver, _: &mut Ledger| vidmm.destroy_context(driver, context).is_err(),
            |vidmm: &mut VidMm, _: &mut Driver, _: &mut Ledger| vidmm.submit(context, SubmitDesc::default()).is_err(),
        );
    }
    for queue in queues {
        let desc = MapGpuVirtualAddress::whole(a);
        refused!(
            |vidmm: &mut VidMm, _: &mut Driver, _: &mut Ledger| vidmm.destroy_paging_queue(queue).is_err(),
            |vidmm: &mut VidMm, _: &mut Driver, _: &mut Ledger| vidmm.paging_fence_value(queue).is_err(),
            |vidmm: &mut VidMm, _: &mut Driver, _: &mut Ledger| vidmm
                .make_resident(queue, &[a], MakeResidentFlags::empty())
                .is_err(),
            |vidmm: &mut VidMm, _: &mut Driver, host: &mut Ledger| {
                vidmm.map_gpu_virtual_address(host, queue, &desc).is_err()
            },
        );
    }
    for bad in fences {
        let (good, bad) = (FenceValueDesc { fence, value: 1 }, FenceValueDesc { fence: bad, value: 1 });
        let wait = SubmitDesc { waits: vec![good, bad], ..SubmitDesc::default() };
        let signal = SubmitDesc { waits: vec![good], signals: vec![bad], ..SubmitDesc::default() };
        refused!(
            |vidmm: &mut VidMm, _: &mut Driver, _: &mut Ledger| vidmm.destroy_monitored_fence(bad.fence).is_err(),
            |vidmm: &mut VidMm, _: &mut Driver, _: &mut Ledger| vidmm.monitored_fence_value(bad.fence).is_err(),
            |vidmm: &mut VidMm, _: &mut Driver, _: &mut Ledger| vidmm.signal_monitored_fence(bad.fence, 1).is_err(),
            |vidmm: &mut VidMm, _: &mut Driver, _: &mut Ledger| vidmm.submit(client.context, wait).is_err(),
            |vidmm: &mut VidMm, _: &mut Driver, _: &mut Ledger| vidmm.submit(client.context, signal).is_err(),
        );
    }
    for bad in allocations {
        let desc = MapGpuVirtualAddress::whole(bad);
        refused!(
            |vidmm: &mut VidMm, _: &mut Driver, host: &mut Ledger| vidmm
                .destroy_allocation(host, bad, DestroyFlags::empty())
                .is_err(),
            |vidmm: &mut VidMm, _: &mut Driver, _: &mut Ledger| vidmm
                .make_resident(client.queue, &[a, bad], MakeResidentFlags::empty())
                .is_err(),
            |vidmm: &mut VidMm, _: &mut Driver, _: &mut Ledger| vidmm.evict(client.device, &[a, bad], SOON).is_err(),
            |vidmm: &mut VidMm, _: &mut Driver, host: &mut Ledger| {
                vidmm.map_gpu_virtual_address(host, client.queue, &desc).is_err()
            },
        );
    }
    world.evict(client, &[a], SOON).expect("no refused call has counted");
    world.call(|vidmm, _, _| vidmm.destroy_monitored_fence(fence)).expect("no refused call holds the fence");
}

/// I27: a handle is not given to another object.
#[test]
fn handles_are_not_given_twice() {
    let (mut world, client) = World::with_pages(16);
    let mut seen = std::collections::BTreeSet::new();
    for _ in 0..100 {
        let a = world.allocate(client, 1);
        assert!(seen.insert(a.to_bits()));
        world.destroy(a);
        world.run_all();
    }
    world.tear_down();
}

/// I28: an object that others need is not destroyed.
#[test]
fn objects_in_use_are_not_destroyed() {
    let (mut world, client) = World::with_pages(16);
    let in_use = |remaining| Err(DestroyError::InUse { remaining });
    let fence = world.fence();
    let gate = world.fence();
    let a = world.allocate(client, 1);
    let Client { queue, context, .. } = client;
    let destroy_context = |world: &mut World| world.call(|vidmm, driver, _| vidmm.destroy_context(driver, context));
    let destroy_queue = |world: &mut World| world.call(|vidmm, _, _| vidmm.destroy_paging_queue(queue));
    let destroy_fence = |world: &mut World| world.call(|vidmm, _, _| vidmm.destroy_monitored_fence(fence));

    let _: Residency = world.make_resident(client, &[a]).unwrap();
    world.submit_to(context, &[], &[(gate, 1)], &[(fence, 1)]);
    assert_eq!(destroy_queue(&mut world), in_use(1));
    world.run_all();
    assert_eq!(destroy_queue(&mut world), Ok(()));
    assert_eq!((destroy_context(&mut world), destroy_fence(&mut world)), (in_use(1), in_use(1)));
    world.signal(gate, 1);
    world.poll();
    assert_eq!((destroy_context(&mut world), destroy_fence(&mut world)), (in_use(1), in_use(1)), "it runs");
    world.complete(RENDER);
    assert_eq!((destroy_context(&mut world), destroy_fence(&mut world)), (Ok(()), Ok(())));
    world.destroy(a);
    world.run_all();
    world.leave(client, &[context]);
    world.check();
}

/// GVA-63: engines that take no contexts.
#[test]
fn contexts_are_for_engines_that_run_work() {
    let (mut world, client) = World::with_pages(16);
    let before = world.fingerprint();
    for engine in [PAGING, 3, u32::MAX] {
        let answer = world.call(|vidmm, driver, _| vidmm.create_context(driver, client.device, engine));
        assert_eq!(answer, Err(CreateError::Engine { engine, last: 2, paging: PAGING }));
    }
    assert_eq!(world.fingerprint(), before);
}

/// P54: the driver fails at each of its creations; the caller is told, and nothing is left.
#[test]
fn a_driver_that_fails_leaves_nothing_behind() {
    for fails_after in 0..6 {
        let mut world = World::new(Config::pages(16));
        let before = world.driver.live.clone();
        world.driver.fails_after = Some(fails_after);
        let error = world.call(|vidmm, driver, host| -> Result<(), CreateError> {
            let process = vidmm.create_process(driver, host)?;
            let device = vidmm.create_device(process)?;
            for engine in [RENDER, COPY] {
                vidmm.create_context(driver, device, engine)?;
            }
            for _ in 0..3 {
                vidmm.create_allocation(driver, host, device, &private_data(PAGE_SIZE, NORMAL))?;
            }
            Ok(())
        });
        assert!(error.is_err());
        assert_eq!(world.driver.live.len() - before.len(), fails_after as usize);
        world.run_all();
    }
}

/// P54, U-9: the host fails at each commit; what was made before is whole, what failed is gone from the driver too.
#[test]
fn a_host_that_fails_leaves_nothing_behind() {
    for fails_after in 0..8 {
        let (mut world, client) = World::with_pages(64);
        world.host.fails_after = Some(fails_after);
        let mut whole = Vec::new();
        for _ in 0..8 {
            let before = world.fingerprint();
            match world.try_allocate(client, 2 * PAGE_SIZE, NORMAL) {
                Ok(allocation) => whole.push(allocation),
                Err(error) => {
                    assert!(matches!(error, CreateError::BackingStore(_)), "{error}");
                    assert_eq!(world.fingerprint(), before);
                }
            }
        }
        assert_eq!(whole.len(), 7);
        world.bring_in(client, &whole);
        world.tear_down();
    }
}

/// P54, D9: so it is when the host has no memory for the root table of a process.
#[test]
fn a_process_without_a_root_table_is_not_created() {
    let mut world = World::new(Config::pages(16));
    let before = world.fingerprint();
    world.host.fails_after = Some(0);
    let answer = world.call(|vidmm, driver, host| vidmm.create_process(driver, host));
    assert!(matches!(answer, Err(CreateError::BackingStore(_))), "{answer:?}");
    assert_eq!(world.fingerprint(), before);
}

/// U-9: the commit limit of the system is the limit of creation, and comes back with destruction.
#[test]
fn the_commit_limit_is_the_limit_of_creation() {
    let (mut world, client) = World::with_pages(16);
    world.host.limit = Some(world.host.bytes() + 10 * PAGE_SIZE);
    let a = world.allocate(client, 6);
    assert_eq!(
        world.try_allocate(client, 6 * PAGE_SIZE, NORMAL),
        Err(CreateError::BackingStore(vidmm::contract::BackingStoreError { size: 6 * PAGE_SIZE }))
    );
    world.destroy(a);
    world.run_all();
    world.allocate(client, 10);
    world.host.limit = None;
    world.tear_down();
}

/// RES-13, D9: a root table in the segment takes room that nobody was promised; the refusal says how much is missing, and that is
/// enough.
#[test]
fn a_process_whose_root_table_has_no_room_is_told_how_much_is_missing() {
    let mut world = World::new(Config { tables_in_system: false, ..Config::pages(256) });
    let refused = loop {
        let answer = world.call(|vidmm, driver, host| vidmm.create_process(driver, host));
        if let Err(error) = answer {
            break error;
        }
    };
    assert_eq!(refused, CreateError::NoMemory { num_bytes_to_trim: PAGE_SIZE, account: LOCAL_MEMORY });
    let before = world.fingerprint();
    let again = world.call(|vidmm, driver, host| vidmm.create_process(driver, host));
    assert_eq!(again, Err(refused));
    assert_eq!(world.fingerprint(), before);
}

/// D9: a process that ends before its root table has its place gives back what was set aside for it.
#[test]
fn a_process_that_ends_at_once_leaves_nothing_set_aside() {
    let mut world = World::new(Config { tables_in_system: false, ..Config::pages(256) });
    for _ in 0..1_000 {
        let process = world.call(|vidmm, driver, host| vidmm.create_process(driver, host)).unwrap();
        world.call(|vidmm, driver, host| vidmm.destroy_process(driver, host, process)).unwrap();
    }
    let client = world.client();
    world.resident(client, 64);
    world.tear_down();
}

/// PAT-17: nothing is patched where engines use GPU virtual addresses, so no device's references can drive residency there.
#[test]
fn reference_lists_are_for_adapters_that_patch() {
    let (mut world, client) = World::with_pages(16);
    let before = world.fingerprint();
    let desc = CreateDeviceDesc { process: client.process, residency: Some(DeviceResidency::ReferenceLists) };
    let refused = world.call(|vidmm, _, _| vidmm.create_device(desc));
    assert!(matches!(refused, Err(CreateError::NotSupported(_))), "{refused:?}");
    let rendered = world.call(|vidmm, driver, _| vidmm.render(driver, client.context, RenderDesc::default()));
    assert_eq!(rendered, Err(RenderError::GpuVirtualAddresses));
    assert_eq!(world.fingerprint(), before);
}
