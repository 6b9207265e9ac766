//! The end of processes and devices, whatever they are doing (I12, I28).

use crate::world::*;
use vidmm::contract::{AddressingModel, CpuVirtualAddress, DmaPageFaulted, NotifyInterrupt, PageFaultFlags};
use vidmm::*;

fn is_gone(world: &World, client: Client) -> bool {
    world.events.contains(&Event::ProcessDestroyed { process: client.process })
}

fn value(world: &World, fence: MonitoredFenceId) -> Result<u64, InvalidHandle> {
    world.vidmm.monitored_fence_value(fence)
}

/// I12, I28: queued work of a process that ends is dropped, others that wait for it go on, and nothing of its content is copied out.
#[test]
fn queued_work_of_a_process_that_ends_is_dropped() {
    let (mut world, survivor) = World::with_pages(16);
    let dying = world.client();
    let (_, at) = world.resident(dying, 12);
    write(&mut world, dying, at, 7);
    let [gate, signal] = [(); 2].map(|()| world.fence());
    world.submit_to(dying.context, &[Access::Write(at, 8)], &[(gate, 1)], &[(signal, 1)]);
    let theirs = world.allocate(survivor, 12);
    let seen = world.map(survivor, theirs);
    world.run_all();

    world.end_process(dying);
    assert_eq!(value(&world, signal), Ok(u64::MAX), "who waits for it goes on");
    world.run_all();
    assert!(is_gone(&world, dying));
    let _: Residency = world.make_resident(survivor, &[theirs]).unwrap();
    world.submit_to(survivor.context, &[Access::Read(seen)], &[(signal, 1)], &[]);
    world.run_all();
    assert_eq!(world.statistics_of_copies(), (0, 0), "nobody reads it again");
    world.signal(gate, 1);
    world.run_all();
    assert_eq!(world.completed[RENDER as usize], 2, "of the process that ended only what had run before");
    world.tear_down();
}

/// I28: what the GPU has been given runs to its end with all that it needs, and then all is given back.
#[test]
fn dispatched_work_of_a_process_that_ends_runs_to_its_end() {
    let (mut world, _) = World::with_pages(16);
    let dying = world.client();
    let (_, at) = world.resident(dying, 4);
    let signal = world.fence();
    world.submit_to(dying.context, &[Access::Write(at, 7)], &[], &[(signal, 5)]);
    world.run_paging();
    world.end_process(dying);
    world.run_paging();
    assert!(world.translate(dying, at).is_some(), "it still runs");
    assert!(!is_gone(&world, dying));
    assert!(!world.vidmm.is_idle());
    world.complete(RENDER);
    assert_eq!(value(&world, signal), Ok(5));
    world.run_all();
    assert!(is_gone(&world, dying));
    assert!(world.vidmm.is_idle());
    world.tear_down();
}

/// I27: from the call on no call names the process, its devices or what belongs to them.
#[test]
fn handles_of_a_process_that_ends_are_invalid_at_once() {
    let (mut world, _) = World::with_pages(16);
    let dying = world.client();
    let (a, at) = world.resident(dying, 4);
    let desc = CreateMonitoredFenceDesc { device: Some(dying.device), initial_fence_value: 3 };
    let own = world.call(|vidmm, _, _| vidmm.create_monitored_fence(desc)).unwrap();
    world.submit(dying, &[Access::Write(at, 7)]);
    world.run_paging();
    world.end_process(dying);
    assert!(world.call(|vidmm, driver, host| vidmm.destroy_process(driver, host, dying.process)).is_err());
    assert!(world.call(|vidmm, driver, host| vidmm.destroy_device(driver, host, dying.device)).is_err());
    assert!(world.call(|vidmm, _, _| vidmm.create_device(dying.process)).is_err());
    assert!(world.call(|vidmm, _, _| vidmm.create_paging_queue(dying.device, 0)).is_err());
    assert!(world.call(|vidmm, _, _| vidmm.destroy_paging_queue(dying.queue)).is_err());
    assert!(world.call(|vidmm, driver, _| vidmm.destroy_context(driver, dying.context)).is_err());
    assert!(world.call(|vidmm, _, _| vidmm.submit(dying.context, SubmitDesc::default())).is_err());
    assert!(world.call(|vidmm, _, host| vidmm.destroy_allocation(host, a, DestroyFlags::empty())).is_err());
    assert!(value(&world, own).is_err());
    world.complete(RENDER);
    world.run_all();
    assert!(world.events.contains(&Event::MonitoredFenceDestroyed { fence: own }));
    world.tear_down();
}

/// I12: another's work that waits for a fence of a device that ends goes on.
#[test]
fn a_fence_ends_with_its_device_and_nobody_waits_for_it() {
    let (mut world, waiting) = World::with_pages(16);
    let dying = world.sibling(waiting);
    let desc = CreateMonitoredFenceDesc { device: Some(dying.device), initial_fence_value: 0 };
    let own = world.call(|vidmm, _, _| vidmm.create_monitored_fence(desc)).unwrap();
    world.submit_to(waiting.context, &[], &[(own, 9)], &[]);
    world.run_all();
    assert_eq!(world.completed[RENDER as usize], 0);
    world.leave(dying, &[]);
    world.run_all();
    assert_eq!(world.completed[RENDER as usize], 1);
    assert!(world.events.contains(&Event::MonitoredFenceDestroyed { fence: own }));
    world.tear_down();
}

/// U-34: a shared allocation of a device that ends is another's; the CPU's views of it end with the program that had them.
#[test]
fn a_shared_allocation_outlives_the_device_that_created_it() {
    let (mut world, heir) = World::with_pages(16);
    let dying = world.client();
    let a = world.create_shared(dying, 4);
    world.open(heir, a).unwrap();
    let [theirs, at] = [dying, heir].map(|client| world.map(client, a));
    world.bring_in(dying, &[a]);
    world.bring_in(heir, &[a]);
    write(&mut world, dying, theirs, 7);
    world.end_process(dying);
    world.run_all();
    assert!(is_gone(&world, dying));
    assert_eq!(read(&mut world, heir, at), 7);
    assert_eq!(world.lock(heir, a), Err(LockError::NotLockable));
    world.tear_down();
}

/// U-34: views of a device that ends do not keep what another inherits.
#[test]
fn views_of_the_cpu_end_with_their_device() {
    let mut world = World::new(Config::discrete(16, 16));
    let heir = world.client();
    let dying = world.client();
    let a = world.create_shared(dying, 4);
    world.open(heir, a).unwrap();
    world.run_all();
    let _: CpuVirtualAddress = world.lock(dying, a).unwrap();
    let _: CpuVirtualAddress = world.lock(dying, a).unwrap();
    world.leave(dying, &[]);
    assert_eq!(world.unlock(a), Err(UnlockError::NotLocked));
    world.run_all();
    world.tear_down();
}

/// A device that has no turn, and whose request is not granted, ends as well.
#[test]
fn a_suspended_device_ends_with_its_requests() {
    let (mut world, _) = World::with_pages(16);
    let dying = world.client();
    let (_, at) = world.resident(dying, 4);
    world.call(|vidmm, _, _| vidmm.suspend_process(dying.process, false)).unwrap();
    world.run_all();
    let more = world.allocate(dying, 4);
    world.map(dying, more);
    let _: Residency = world.make_resident(dying, &[more]).unwrap();
    world.submit(dying, &[Access::Write(at, 7)]);
    world.run_all();
    let placed = |world: &World| world.events.iter().filter(|event| matches!(event, Event::Placed { .. })).count();
    let before = placed(&world);
    world.end_process(dying);
    world.run_all();
    assert!(is_gone(&world, dying));
    assert_eq!(placed(&world), before, "nothing is brought in for it");
    world.tear_down();
}

/// I12: a packet that an engine gives back is not handed out again for a device that ended meanwhile.
#[test]
fn packets_that_come_back_after_the_end_are_dropped() {
    let (mut world, other) = World::with_pages(16);
    let dying = world.sibling(other);
    let signal = world.fence();
    world.submit(other, &[]);
    world.submit_to(dying.context, &[], &[], &[(signal, 4)]);
    world.poll();
    world.call(|vidmm, _, _| vidmm.set_context_scheduling_priority(other.context, 7)).unwrap();
    world.leave(dying, &[]);
    world.run_all();
    assert!(matches!(value(&world, signal), Ok(4 | u64::MAX)));
    world.tear_down();
}

/// An adapter in error is stopped with all that is on it, whatever was under way, and started again: the driver and the host have
/// nothing left of what was there. What was decommitted before goes back once (RES-66).
#[test]
fn an_adapter_in_error_is_stopped_and_started_again() {
    let models = [AddressingModel::GpuMmu, AddressingModel::GpuVaIoMmu];
    let configs = models.map(|model| Config::integrated(model, 64)).into_iter().chain([Config::discrete(16, 16)]);
    for config in configs {
        let mut world = World::new(config);
        let (client, other) = (world.client(), world.client());
        let shared = world.create_shared(client, 2);
        world.open(other, shared).unwrap();
        world.map(other, shared);
        let a = world.allocate(client, 2);
        let at = world.map(client, a);
        let decommitted = world.allocate(client, 2);
        let as_offered = OfferFlags::ALLOW_DECOMMIT | OfferFlags::OFFER_IMMEDIATELY;
        world.offer_with(client, &[decommitted], OfferPriority::Low, as_offered).unwrap();
        world.run_all();
        assert!(world.events.contains(&Event::Decommitted { allocation: decommitted }));
        let _: CpuVirtualAddress = world.lock(client, shared).unwrap();
        world.bring_in(client, &[a]);
        let fence = world.fence();
        world.submit(client, &[Access::Write(at, 7)]);
        world.submit_to(other.context, &[], &[(fence, 1)], &[]);
        let late = world.allocate(client, 2);
        world.map(client, late);
        let _: Residency = world.make_resident(client, &[late]).unwrap();
        world.evict(client, &[a], SOON).unwrap();
        world.poll();
        let fault = DmaPageFaulted { page_fault_flags: PageFaultFlags::FATAL_HARDWARE_ERROR, ..page_fault(0) };
        world.call(|vidmm, _, _| vidmm.handle_interrupt(&NotifyInterrupt::DmaPageFaulted(fault)));
        assert!(world.call(|vidmm, _, _| vidmm.create_paging_queue(client.device, 0)).is_err());

        let World { vidmm, mut driver, mut host, config, .. } = world;
        vidmm.stop_adapter(&mut driver, &mut host);
        assert!(driver.live.is_empty() && host.live.is_empty(), "the driver or the host has objects left");
        assert!(host.views.is_empty() && host.io_mmu.is_empty(), "the CPU or a device sees what is gone");
        let mut again = VidMm::start_adapter(config.options(), &mut driver, &mut host).unwrap();
        again.create_process(&mut driver, &mut host).unwrap();
        again.stop_adapter(&mut driver, &mut host);
        assert!(driver.live.is_empty() && host.live.is_empty());
    }
}
