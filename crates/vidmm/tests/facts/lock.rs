//! Lock and Unlock: what the CPU sees of an allocation, and where it must be for that (5.9).

use crate::world::*;
use vidmm::contract::{AllocationFlags, CpuAddressError, CpuVirtualAddress};
use vidmm::event::EvictReason;
use vidmm::*;

const VISIBLE: AllocationFlags = AllocationFlags::CPU_VISIBLE;

/// Locks what is on its way, as the error says.
fn lock_in_the_end(world: &mut World, client: Client, allocation: AllocationId) -> CpuVirtualAddress {
    assert_eq!(world.lock(client, allocation), Err(LockError::AllocationBusy));
    world.run_all();
    world.lock(client, allocation).unwrap()
}

/// A world whose local memory the CPU sees, and an allocation there.
fn visible() -> (World, Client, AllocationId, u64) {
    let mut world = World::new(Config { cpu_visible: true, ..Config::pages(8) });
    let client = world.client();
    let allocation = world.create_flagged(client, Place::Local, 4, VISIBLE).unwrap();
    let at = world.map(client, allocation);
    world.bring_in(client, &[allocation]);
    (world, client, allocation, at)
}

/// RES-81, RES-82: in a memory segment that the CPU sees it is seen where it is, also while the GPU uses it.
#[test]
fn the_cpu_sees_visible_memory_where_it_is() {
    let (mut world, client, a, at) = visible();
    write(&mut world, client, at, 7);
    let address = world.lock(client, a).unwrap();
    assert_eq!(world.cpu_read(address, 0), 7);
    world.cpu_write(address, 0, 9);
    assert_eq!(read(&mut world, client, at), 9);
    world.unlock(a).unwrap();
    world.tear_down();
}

/// RES-82, RES-83: paging that moves no byte of it keeps nobody waiting: a mapping, and leaving system memory.
#[test]
fn the_cpu_need_not_wait_for_page_tables() {
    for place in [Place::Local, Place::System] {
        let mut world = World::new(Config { cpu_visible: true, ..Config::pages(8) });
        let client = world.client();
        let a = world.create_flagged(client, place, 4, VISIBLE).unwrap();
        world.map(client, a);
        world.poll();
        world.lock(client, a).unwrap();
        world.unlock(a).unwrap();
        world.bring_in(client, &[a]);
        world.map(client, a);
        world.poll();
        world.lock(client, a).unwrap();
        world.unlock(a).unwrap();
        world.evict(client, &[a], SOON).unwrap();
        world.poll();
        let is_copied = place == Place::Local;
        assert_eq!(world.lock(client, a).err(), is_copied.then_some(LockError::AllocationBusy), "{place:?}");
        world.run_all();
        world.tear_down();
    }
}

/// RES-86: the address stays while the allocation moves, shows nothing meanwhile, and the right bytes afterwards.
#[test]
fn the_address_stays_while_the_allocation_moves() {
    let (mut world, client, a, at) = visible();
    let address = world.lock(client, a).unwrap();
    world.cpu_write(address, 1, 5);
    // The GPU wrote nothing, but the CPU did (RES-22).
    world.evict(client, &[a], NOT_WRITTEN).unwrap();
    world.poll();
    assert_eq!(world.host.seen(address, 1), None, "it is on its way");
    world.run_all();
    let store = world.machine.known[&world.handle(a)].backing_store;
    assert_eq!(world.host.seen(address, 0), Some(store));
    assert_eq!(world.cpu_read(address, 1), 5);
    world.cpu_write(address, 2, 6);
    assert!(matches!(world.make_resident(client, &[a]), Ok(Residency::Pending { .. })));
    world.poll();
    assert_eq!(world.host.seen(address, 1), None, "it is on its way back");
    world.run_all();
    assert_eq!(world.host.seen(address, 0), world.translate(client, at));
    assert_eq!([1, 2].map(|page| read(&mut world, client, at + page * PAGE_SIZE)), [5, 6]);
    let moves = world.events.iter().filter(|event| matches!(event, Event::Rotated { .. })).count();
    assert_eq!(moves, 4, "away and there, twice");
    world.unlock(a).unwrap();
    world.tear_down();
}

/// RES-81: in system memory the bytes stay where they are, resident or not: the CPU sees them all the time.
#[test]
fn the_cpu_sees_what_stays_in_system_memory_all_the_time() {
    for place in [Place::System, Place::Aperture] {
        let mut world = World::new(Config::discrete(16, 64));
        let client = world.client();
        let a = world.create_flagged(client, place, 4, VISIBLE).unwrap();
        let at = world.map(client, a);
        let address = world.lock(client, a).unwrap();
        world.cpu_write(address, 1, 5);
        let store = world.machine.known[&world.handle(a)].backing_store;
        assert!(matches!(world.make_resident(client, &[a]), Ok(Residency::Pending { .. })));
        world.poll();
        assert_eq!(world.host.seen(address, 0), Some(store), "{place:?}: a plan brings it in");
        world.run_all();
        assert_eq!(read(&mut world, client, at + PAGE_SIZE), 5);
        world.evict(client, &[a], SOON).unwrap();
        world.poll();
        assert_eq!(world.host.seen(address, 0), Some(store), "{place:?}: a plan takes it out");
        world.run_all();
        assert_eq!(world.cpu_read(address, 1), 5);
        assert!(!world.events.iter().any(|event| matches!(event, Event::Rotated { .. })), "{place:?}");
        world.unlock(a).unwrap();
        world.tear_down();
    }
}

/// RES-83: an allocation that must be in memory that the CPU does not see can be locked only while it is not resident.
#[test]
fn allocations_required_in_hidden_memory_and_allowed_nowhere_else_are_not_lockable() {
    let (mut world, client) = World::with_pages(8);
    let (a, at) = world.resident(client, 4);
    write(&mut world, client, at, 7);
    assert_eq!(world.lock(client, a), Err(LockError::NotLockable));
    world.evict(client, &[a], IF_NECESSARY).unwrap();
    let address = lock_in_the_end(&mut world, client, a);
    assert_eq!(world.evicted(), [(a, EvictReason::Locked)]);
    assert_eq!(world.cpu_read(address, 0), 7);
    world.unlock(a).unwrap();
    world.tear_down();
}

/// RES-84, U-40: while it is locked, a MakeResident that needs hidden memory is pending; others are not held back by it.
#[test]
fn a_make_resident_of_what_is_locked_waits_for_the_unlock() {
    let (mut world, client) = World::with_pages(8);
    let a = world.allocate(client, 4);
    let at = world.map(client, a);
    world.run_all();
    let address = world.lock(client, a).unwrap();
    world.cpu_write(address, 0, 7);
    assert!(matches!(world.make_resident(client, &[a]), Ok(Residency::Pending { .. })));
    world.submit(client, &[Access::Read(at)]);
    world.run_all();
    assert_eq!((world.placed.get(&a), world.read.len()), (None, 0));
    let other = world.client();
    world.resident(other, 4);
    world.unlock(a).unwrap();
    world.run_all();
    assert_eq!(world.read, [7]);
    world.tear_down();
}

/// RES-82: an allocation that may be in system memory goes there to be seen, also if the list requires it; the GPU
/// finds it there.
#[test]
fn allocations_allowed_in_system_memory_go_there_to_be_seen() {
    let mut world = World::new(Config::discrete(8, 32));
    let client = world.client();
    let (a, at) = world.create_resident(client, Place::LocalOrSystem, 4, SILENT);
    assert_eq!(world.placed[&a], LOCAL);
    write(&mut world, client, at, 7);
    let address = lock_in_the_end(&mut world, client, a);
    assert_eq!(world.cpu_read(address, 0), 7);
    world.cpu_write(address, 1, 9);
    assert_eq!(read(&mut world, client, at + PAGE_SIZE), 9);
    assert_eq!(world.placed[&a], SegmentId::SYSTEM);
    write(&mut world, client, at, 8);
    assert_eq!(world.cpu_read(address, 0), 8);
    // Joining the list again while it is locked does not take it out of sight.
    world.evict(client, &[a], SOON).unwrap();
    world.run_all();
    world.bring_in(client, &[a]);
    assert_eq!((world.placed[&a], world.cpu_read(address, 0)), (SegmentId::SYSTEM, 8));
    world.unlock(a).unwrap();
    world.tear_down();
}

/// RES-82: in system memory it is always lockable, behind the aperture too.
#[test]
fn system_memory_is_always_seen() {
    for place in [Place::System, Place::Aperture] {
        let mut world = World::new(Config::discrete(8, 32));
        let client = world.client();
        let (a, at) = world.create_resident(client, place, 4, SILENT);
        let address = world.lock(client, a).unwrap();
        world.cpu_write(address, 3, 7);
        assert_eq!(read(&mut world, client, at + 3 * PAGE_SIZE), 7);
        world.unlock(a).unwrap();
        world.evict(client, &[a], NOT_WRITTEN).unwrap();
        world.run_all();
        world.bring_in(client, &[a]);
        assert_eq!(read(&mut world, client, at + 3 * PAGE_SIZE), 7, "{place:?}");
        world.tear_down();
    }
}

/// RES-18: bytes that the CPU wrote before the first MakeResident are content, not zeros.
#[test]
fn first_writes_of_the_cpu_are_paged_in() {
    let (mut world, client) = World::with_pages(8);
    let a = world.allocate(client, 4);
    let at = world.map(client, a);
    world.run_all();
    let address = world.lock(client, a).unwrap();
    assert_eq!(world.cpu_read(address, 2), 0, "CRE-42");
    world.cpu_write(address, 2, 7);
    world.unlock(a).unwrap();
    world.bring_in(client, &[a]);
    assert_eq!(read(&mut world, client, at + 2 * PAGE_SIZE), 7);
}

/// D30: a device list counts a locked allocation where the CPU sees it, so a request behind the lock is granted, and work runs, while
/// the lock is held. A lock may be held for ever (RES-81).
#[test]
fn requests_and_work_go_on_while_a_lock_is_held() {
    for is_asked_before_the_lock in [false, true] {
        let mut world = World::new(Config::discrete(8, 32));
        let client = world.client();
        let (a, at) = world.create_resident(client, Place::LocalOrSystem, 4, SILENT);
        let other = world.create(client, Place::Local, 2, SILENT);
        let other_at = world.map(client, other);
        write(&mut world, client, at, 7);
        assert_eq!(world.lock(client, a), Err(LockError::AllocationBusy));
        world.run_all();
        let ask =
            |world: &mut World| assert!(matches!(world.make_resident(client, &[other]), Ok(Residency::Pending { .. })));
        if is_asked_before_the_lock {
            ask(&mut world);
        }
        let address = world.lock(client, a).unwrap();
        if !is_asked_before_the_lock {
            ask(&mut world);
        }
        world.submit(client, &[Access::Write(other_at, 9), Access::Read(at)]);
        world.run_all();
        assert_eq!((world.placed[&other], world.placed[&a]), (LOCAL, SegmentId::SYSTEM));
        assert_eq!((world.read.clone(), world.cpu_read(address, 0)), (vec![7], 7));
        world.unlock(a).unwrap();
        world.tear_down();
    }
}

/// D30: a lock of an allocation that a pending request brings in moves the home of the allocation; the request does not wait.
#[test]
fn an_allocation_is_locked_before_its_request_is_granted() {
    let mut world = World::new(Config::discrete(8, 32));
    let client = world.client();
    let a = world.create(client, Place::LocalOrSystem, 4, SILENT);
    let at = world.map(client, a);
    assert!(matches!(world.make_resident(client, &[a]), Ok(Residency::Pending { .. })));
    let address = world.lock(client, a).unwrap();
    world.cpu_write(address, 0, 7);
    world.submit(client, &[Access::Read(at)]);
    world.run_all();
    assert_eq!((world.placed[&a], world.read.clone()), (SegmentId::SYSTEM, vec![7]));
    world.unlock(a).unwrap();
    world.tear_down();
}

/// RES-83, D30: a lock that would make a list too large for system memory is refused, and the list goes on.
#[test]
fn a_list_that_does_not_fit_in_sight_is_not_lockable() {
    let mut world = World::new(Config::discrete(8, 8));
    let client = world.client();
    let (a, at) = world.create_resident(client, Place::LocalOrSystem, 4, SILENT);
    let (full, _) = world.create_resident(client, Place::System, 6, SILENT);
    assert_eq!(world.lock(client, a), Err(LockError::NotLockable));
    write(&mut world, client, at, 7);
    world.evict(client, &[full], SOON).unwrap();
    world.run_all();
    let address = lock_in_the_end(&mut world, client, a);
    assert_eq!(world.cpu_read(address, 0), 7);
    world.unlock(a).unwrap();
    world.tear_down();
}

/// RES-83: an allocation that several devices have open keeps its home while a list requires it, so that no device waits for the unlock.
#[test]
fn shared_allocations_on_lists_in_hidden_memory_are_not_lockable() {
    let (mut world, client) = World::with_pages(8);
    let sibling = world.sibling(client);
    let a = world.create_shared(client, 4);
    world.open(sibling, a).unwrap();
    assert!(matches!(world.make_resident(client, &[a]), Ok(Residency::Pending { .. })));
    assert_eq!(world.lock(client, a), Err(LockError::NotLockable), "the list waits for the allocation");
    world.run_all();
    assert_eq!(world.lock(client, a), Err(LockError::NotLockable));
    world.tear_down();
}

/// RES-83, D30: a suspended device keeps its list, which may wait for no unlock; so the caller is told to evict, not to poll.
#[test]
fn allocations_on_the_list_of_a_suspended_device_are_not_lockable_where_they_may_only_be_hidden() {
    let (mut world, client) = World::with_pages(8);
    let (a, at) = world.resident(client, 4);
    write(&mut world, client, at, 7);
    world.call(|vidmm, _, _| vidmm.suspend_process(client.process, false)).unwrap();
    world.run_all();
    assert_eq!(world.evicted().len(), 1, "a halted device has nothing in memory");
    assert_eq!(world.lock(client, a), Err(LockError::NotLockable));
    world.evict(client, &[a], SOON).unwrap();
    let address = world.lock(client, a).unwrap();
    assert_eq!(world.cpu_read(address, 0), 7);
    world.unlock(a).unwrap();
    world.call(|vidmm, _, _| vidmm.resume_process(client.process)).unwrap();
    world.tear_down();
}

/// RES-83: a request whose allocations have left the list again, without a submission, brings in nothing, and holds up no lock.
#[test]
fn allocations_that_a_waiting_request_brings_in_no_more_are_lockable() {
    let (mut world, client) = World::with_pages(8);
    let a = world.create(client, Place::Local, 4, SILENT);
    world.call(|vidmm, _, _| vidmm.suspend_process(client.process, false)).unwrap();
    assert!(matches!(world.make_resident(client, &[a]), Ok(Residency::Pending { .. })));
    assert_eq!(world.lock(client, a), Err(LockError::NotLockable));
    world.evict(client, &[a], SOON).unwrap();
    world.lock(client, a).unwrap();
    world.call(|vidmm, _, _| vidmm.resume_process(client.process)).unwrap();
    world.run_all();
    world.unlock(a).unwrap();
    world.tear_down();
}

/// RES-55: an allocation that left its home to be seen returns after the last unlock.
#[test]
fn an_allocation_returns_home_after_its_last_unlock() {
    let mut world = World::new(Config::discrete(64, 64));
    let client = world.client();
    let (a, at) = world.create_resident(client, Place::LocalOrSystem, 4, SILENT);
    write(&mut world, client, at, 7);
    lock_in_the_end(&mut world, client, a);
    write(&mut world, client, at, 8);
    assert_eq!(world.placed[&a], SegmentId::SYSTEM);
    world.unlock(a).unwrap();
    world.wait(2_000_000_000);
    world.run_all();
    assert_eq!(world.placed[&a], LOCAL);
    assert_eq!(read(&mut world, client, at), 8);
    world.tear_down();
}

/// RES-80: locks are counted, and the address is the same until the last unlock.
#[test]
fn locks_are_counted() {
    let (mut world, client) = World::with_pages(8);
    let a = world.allocate(client, 4);
    assert_eq!(world.unlock(a), Err(UnlockError::NotLocked));
    let address = world.lock(client, a).unwrap();
    assert_eq!(world.lock(client, a), Ok(address));
    world.unlock(a).unwrap();
    assert_eq!(world.host.views.len(), 1);
    world.unlock(a).unwrap();
    assert_eq!(world.host.views.len(), 0);
    assert_eq!(world.unlock(a), Err(UnlockError::NotLocked));
    world.tear_down();
}

/// 2.2: the process that created a shared allocation may lock it, on any device where it is open, and no other process.
#[test]
fn any_device_of_the_creators_process_may_lock() {
    let (mut world, client) = World::with_pages(8);
    let (sibling, other) = (world.sibling(client), world.client());
    let a = world.create_shared(client, 4);
    world.open(sibling, a).unwrap();
    world.open(other, a).unwrap();
    assert_eq!(world.lock(other, a), Err(LockError::WrongDevice));
    world.lock(sibling, a).unwrap();
    world.unlock(a).unwrap();
    world.tear_down();
}

/// RES-62, U-35, 2.2: what is refused changes nothing.
#[test]
fn a_refused_lock_locks_nothing() {
    let (mut world, client) = World::with_pages(8);
    let other = world.client();
    let a = world.allocate(client, 4);
    assert_eq!(world.lock(other, a), Err(LockError::WrongDevice));
    let sibling = world.sibling(client);
    assert_eq!(world.lock(sibling, a), Err(LockError::WrongDevice), "it is not open there");
    world.host.no_cpu_addresses = true;
    let none_left = CpuAddressError { size: 4 * PAGE_SIZE };
    assert_eq!(world.lock(client, a), Err(LockError::CpuAddress(none_left)));
    world.host.no_cpu_addresses = false;
    world.offer(client, &[a], OfferPriority::Low).unwrap();
    assert_eq!(world.lock(client, a), Err(LockError::Offered));
    let _: Reclaimed = world.reclaim(client, &[a]).unwrap();
    world.lock(client, a).unwrap();
    assert_eq!(world.offer(client, &[a], OfferPriority::Low), Err(OfferError::Locked { position: 0 }));
    world.destroy(a);
    world.run_all();
    assert_eq!(world.host.views.len(), 0, "RES-91: the CPU sees it no more");
    world.tear_down();
}

/// RES-65: an allocation that was discarded and reclaimed can be locked at once, before it is brought in, and reads as
/// zero.
#[test]
fn reclaimed_allocations_can_be_locked_at_once() {
    let (mut world, client) = World::with_pages(8);
    let (a, at) = world.resident(client, 4);
    write(&mut world, client, at, 7);
    world.evict(client, &[a], SOON).unwrap();
    world.offer_with(client, &[a], OfferPriority::Low, OfferFlags::OFFER_IMMEDIATELY).unwrap();
    world.run_all();
    let reclaimed = world.reclaim(client, &[a]).unwrap();
    assert_eq!(reclaimed.results, [ReclaimResult::Discarded]);
    let address = world.lock(client, a).unwrap();
    assert_eq!(world.cpu_read(address, 0), 0);
    world.unlock(a).unwrap();
    world.tear_down();
}

/// RES-86: a lock of what is locked already shows what the CPU sees there, also while a plan waits that is to move it.
#[test]
fn another_lock_shows_what_the_first_one_does_until_the_allocation_moves() {
    let (mut world, client, a, _) = visible();
    world.evict(client, &[a], SOON).unwrap();
    world.run_all();
    let address = world.lock(client, a).unwrap();
    let (other, _) = world.resident(client, 8);
    world.submit(client, &[]);
    world.evict(client, &[other], SOON).unwrap();
    // Room for it is there when the work has ended, which may use the other.
    world.make_resident(client, &[a]).map(drop).unwrap();
    world.poll();
    assert_eq!(world.lock(client, a), Ok(address));
    let store = world.machine.known[&world.handle(a)].backing_store;
    assert_eq!(world.host.seen(address, 0), Some(store));
    world.run_all();
    world.tear_down();
}
