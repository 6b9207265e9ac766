//! Shared allocations: one copy, counts of each device, and an owner (RES-02, U-34, P15).

use crate::world::*;
use vidmm::contract::*;
use vidmm::event::EvictReason;
use vidmm::*;

/// Two clients of their own processes, and an allocation of the first that the second has opened; both have it mapped.
struct Shared {
    world: World,
    owner: Client,
    opener: Client,
    allocation: AllocationId,
    /// Where each sees it.
    at: [u64; 2],
}

fn shared(pages: u64, of: u64) -> Shared {
    let (mut world, owner) = World::with_pages(of);
    let opener = world.client();
    let allocation = world.create_shared(owner, pages);
    world.open(opener, allocation).unwrap();
    let at = [owner, opener].map(|client| world.map(client, allocation));
    Shared { world, owner, opener, allocation, at }
}

fn usage(world: &World, client: Client) -> u64 {
    world.local_info(client).current_usage / PAGE_SIZE
}

/// P15: both see the one physical copy, and what one writes the other reads.
#[test]
fn there_is_one_copy_that_both_see() {
    let Shared { mut world, owner, opener, allocation, at } = shared(4, 8);
    world.bring_in(owner, &[allocation]);
    world.bring_in(opener, &[allocation]);
    assert!(world.translate(owner, at[0]).is_some());
    assert_eq!(world.translate(owner, at[0]), world.translate(opener, at[1]));
    write(&mut world, opener, at[1], 7);
    assert_eq!(read(&mut world, owner, at[0]), 7);
    let placed = |event: &Event| matches!(event, Event::Placed { .. });
    assert_eq!(world.events.iter().filter(|event| placed(event)).count(), 1);
    world.tear_down();
}

/// RES-02: counts are each device's own, and it stays as long as any device requires it.
#[test]
fn counts_are_each_device_s_own() {
    let Shared { mut world, owner, opener, allocation, at } = shared(4, 8);
    world.bring_in(owner, &[allocation]);
    assert_eq!(world.evict(opener, &[allocation], SOON), Err(EvictError::NotResident { position: 0 }));
    world.bring_in(opener, &[allocation, allocation]);
    world.evict(owner, &[allocation], SOON).unwrap();
    assert_eq!(world.evict(owner, &[allocation], SOON), Err(EvictError::NotResident { position: 0 }));
    world.evict(opener, &[allocation], SOON).unwrap();
    world.run_all();
    assert_eq!(world.evicted(), []);
    assert_eq!(read(&mut world, opener, at[1]), 0);
    world.evict(opener, &[allocation], SOON).unwrap();
    world.run_all();
    assert_eq!(world.evicted(), [(allocation, EvictReason::EvictRequested)]);
    world.tear_down();
}

/// CRE-31a: the last use of any device counts, although the device that used it first evicts it last.
#[test]
fn the_last_use_of_any_device_counts() {
    let Shared { mut world, owner, opener, allocation, .. } = shared(2, 8);
    let third = world.client();
    let used_between = world.allocate(third, 2);
    for (client, used) in [(owner, allocation), (third, used_between), (opener, allocation)] {
        world.bring_in(client, &[used]);
        world.submit(client, &[]);
        world.run_all();
    }
    for (client, used) in [(third, used_between), (opener, allocation), (owner, allocation)] {
        world.evict(client, &[used], IF_NECESSARY).unwrap();
    }
    squeeze(&mut world, 8);
    let order: Vec<_> = world.evicted().into_iter().map(|(evicted, _)| evicted).take(2).collect();
    assert_eq!(order, [used_between, allocation]);
    world.tear_down();
}

/// RES-71: it leaves for a suspension only while a device that is suspended is to have it back: not when a call has ended that.
#[test]
fn it_leaves_for_a_suspension_that_still_concerns_it() {
    for evicted_while_suspended in [false, true] {
        let Shared { mut world, owner, opener, allocation, .. } = shared(4, 8);
        world.bring_in(owner, &[allocation]);
        world.bring_in(opener, &[allocation]);
        world.call(|vidmm, _, _| vidmm.suspend_process(owner.process, false)).unwrap();
        world.run_all();
        if evicted_while_suspended {
            world.evict(owner, &[allocation], SOON).unwrap();
            world.run_all();
        }
        world.evict(opener, &[allocation], SOON).unwrap();
        world.run_all();
        let reason = match evicted_while_suspended {
            false => EvictReason::DeviceSuspended,
            true => EvictReason::EvictRequested,
        };
        assert_eq!(world.evicted(), [(allocation, reason)]);
        world.call(|vidmm, _, _| vidmm.resume_process(owner.process)).unwrap();
        world.run_all();
        world.tear_down();
    }
}

/// RES-71: the suspension of one does not take it from the other.
#[test]
fn it_stays_when_one_of_its_devices_is_suspended() {
    let Shared { mut world, owner, opener, allocation, at } = shared(4, 8);
    world.bring_in(owner, &[allocation]);
    world.bring_in(opener, &[allocation]);
    write(&mut world, owner, at[0], 7);
    world.call(|vidmm, _, _| vidmm.suspend_process(owner.process, false)).unwrap();
    world.run_all();
    assert_eq!(world.evicted(), []);
    assert_eq!(read(&mut world, opener, at[1]), 7);
    world.call(|vidmm, _, _| vidmm.suspend_process(opener.process, false)).unwrap();
    world.run_all();
    assert_eq!(world.evicted().len(), 1);
    for client in [owner, opener] {
        world.call(|vidmm, _, _| vidmm.resume_process(client.process)).unwrap();
    }
    assert_eq!(read(&mut world, owner, at[0]), 7);
    assert_eq!(read(&mut world, opener, at[1]), 7);
    world.tear_down();
}

/// P15, I05: the mappings of both processes are invalid and flushed before the bytes move.
#[test]
fn the_mappings_of_both_processes_go_before_the_bytes() {
    let Shared { mut world, owner, opener, allocation, at } = shared(4, 8);
    world.bring_in(owner, &[allocation]);
    world.bring_in(opener, &[allocation]);
    write(&mut world, owner, at[0], 7);
    world.evict(owner, &[allocation], SOON).unwrap();
    world.evict(opener, &[allocation], SOON).unwrap();
    let since = world.driver.operations.len();
    world.run_all();
    let operations = world.operations_since(since);
    let moved = operations.iter().position(|operation| kind(operation) == "out").expect("its bytes move");
    for client in [owner, opener] {
        let invalid = operations[..moved].iter().position(
            |operation| matches!(operation, PagingOperation::UpdatePageTable(op) if op.process == client.kmd_process),
        );
        let flushed = operations[..moved].iter().rposition(
            |operation| matches!(operation, PagingOperation::FlushTlb(op) if op.process == client.kmd_process),
        );
        assert!(invalid.is_some() && invalid < flushed, "{client:?}: {operations:#?}");
    }
    assert_eq!([world.translate(owner, at[0]), world.translate(opener, at[1])], [None, None]);
    world.bring_in(opener, &[allocation]);
    assert_eq!(read(&mut world, opener, at[1]), 7);
    assert_eq!(world.token(owner, at[0]), Some(7), "whoever has it mapped sees it");
    world.tear_down();
}

/// U-34: it is charged to its creator, whoever lists it.
#[test]
fn its_bytes_are_its_owner_s() {
    let Shared { mut world, owner, opener, allocation, .. } = shared(4, 8);
    world.bring_in(opener, &[allocation]);
    assert_eq!([usage(&world, owner), usage(&world, opener)], [4, 0]);
    world.bring_in(owner, &[allocation]);
    world.evict(opener, &[allocation], SOON).unwrap();
    world.run_all();
    assert_eq!([usage(&world, owner), usage(&world, opener)], [4, 0]);
    world.tear_down();
}

/// U-34: when the owner destroys it, the first that has opened it owns it; the content stays until the last is gone.
#[test]
fn the_first_opener_inherits_what_its_owner_destroys() {
    let Shared { mut world, owner, opener, allocation, at } = shared(4, 16);
    let third = world.client();
    world.open(third, allocation).unwrap();
    let third_at = world.map(third, allocation);
    world.bring_in(owner, &[allocation]);
    world.bring_in(opener, &[allocation]);
    world.bring_in(third, &[allocation]);
    write(&mut world, owner, at[0], 7);
    let backed = world.backing_store_bytes();
    world.destroy(allocation);
    world.run_all();
    assert_eq!([owner, opener, third].map(|client| usage(&world, client)), [0, 4, 0]);
    assert_eq!(world.translate(owner, at[0]), None, "the former owner sees it no more");
    let wrong = world.make_resident(owner, &[allocation]);
    assert_eq!(wrong, Err(MakeResidentError::WrongDevice { position: 0 }));
    assert_eq!(read(&mut world, opener, at[1]), 7);
    assert_eq!(world.close(opener, allocation), Err(OpenError::NotOpen), "it is its own now");
    world.destroy(allocation);
    world.run_all();
    assert_eq!([owner, opener, third].map(|client| usage(&world, client)), [0, 0, 4]);
    assert_eq!(read(&mut world, third, third_at), 7);
    assert_eq!(world.backing_store_bytes(), backed);
    world.destroy(allocation);
    world.run_all();
    assert_eq!(world.backing_store_bytes(), backed - 4 * PAGE_SIZE);
    assert!(world.call(|vidmm, _, host| vidmm.destroy_allocation(host, allocation, DestroyFlags::empty())).is_err());
    world.tear_down();
}

/// U-34: the former owner's locks end with its handle. The new owner could not end them, and what must leave system memory
/// would wait for ever (RES-84).
#[test]
fn the_locks_of_a_former_owner_end() {
    let Shared { mut world, owner, opener, allocation, at } = shared(4, 16);
    world.lock(owner, allocation).unwrap();
    world.lock(owner, allocation).unwrap();
    let pending = world.make_resident(opener, &[allocation]).unwrap();
    assert!(matches!(pending, Residency::Pending { .. }));
    world.run_all();
    assert_eq!(world.translate(opener, at[1]), None, "the CPU sees it in system memory only");
    world.destroy(allocation);
    assert_eq!(world.unlock(allocation), Err(UnlockError::NotLocked));
    world.run_all();
    assert_eq!(read(&mut world, opener, at[1]), 0);
    world.tear_down();
}

/// U-34: the lock of a former owner ends as any: the GPU sees what the CPU wrote into the copy in system memory.
#[test]
fn the_gpu_sees_what_a_former_owner_wrote() {
    let mut world = World::new(Config::discrete(8, 8));
    let (owner, opener) = (world.client(), world.client());
    let info = world.config.allocation(Place::Local, 4, SILENT);
    let flags = info.flags | AllocationFlags::PERMANENT_SYS_MEM | AllocationFlags::CPU_VISIBLE;
    let allocation = world.create_to_share(owner, AllocationInfo { flags, ..info });
    world.open(opener, allocation).unwrap();
    let at = world.map(opener, allocation);
    world.bring_in(opener, &[allocation]);
    write(&mut world, opener, at, 7);
    let address = world.lock(owner, allocation).unwrap();
    world.cpu_write(address, 0, 8);
    world.destroy(allocation);
    assert_eq!(read(&mut world, opener, at), 8);
    world.tear_down();
}

/// RES-91: closing does not take it from work that was submitted before; then its mappings end, and the owner's do not.
#[test]
fn closing_waits_for_work_that_is_queued() {
    let Shared { mut world, owner, opener, allocation, at } = shared(4, 8);
    world.bring_in(owner, &[allocation]);
    world.bring_in(opener, &[allocation]);
    write(&mut world, owner, at[0], 7);
    let fence = world.fence();
    world.submit_to(opener.context, &[Access::Read(at[1])], &[(fence, 1)], &[]);
    world.close(opener, allocation).unwrap();
    world.run_paging();
    assert!(world.translate(opener, at[1]).is_some());
    let refused = world.make_resident(opener, &[allocation]);
    assert_eq!(refused, Err(MakeResidentError::WrongDevice { position: 0 }));
    world.signal(fence, 1);
    world.run_all();
    assert_eq!(world.read, [7]);
    assert_eq!(world.translate(opener, at[1]), None);
    assert_eq!(world.token(owner, at[0]), Some(7));
    world.tear_down();
}

/// An allocation that one device requires alone leaves when that one closes it.
#[test]
fn closing_ends_the_count() {
    let Shared { mut world, owner, opener, allocation, .. } = shared(4, 8);
    world.bring_in(opener, &[allocation]);
    world.close(opener, allocation).unwrap();
    world.run_all();
    assert_eq!(world.local_info(opener).requested, 0);
    let all = world.allocate(owner, 8);
    world.bring_in(owner, &[all]);
    assert!(!world.placed.contains_key(&allocation));
    world.tear_down();
}

/// RES-91: the owner's destruction does not take it from the owner's work either.
#[test]
fn destroying_waits_for_the_owner_s_work() {
    let Shared { mut world, owner, opener, allocation, at } = shared(4, 8);
    world.bring_in(owner, &[allocation]);
    write(&mut world, owner, at[0], 7);
    let fence = world.fence();
    world.submit_to(owner.context, &[Access::Read(at[0]), Access::Write(at[0], 8)], &[(fence, 1)], &[]);
    world.destroy(allocation);
    world.run_paging();
    world.signal(fence, 1);
    world.run_all();
    assert_eq!(world.read, [7]);
    world.bring_in(opener, &[allocation]);
    assert_eq!(read(&mut world, opener, at[1]), 8);
    world.tear_down();
}

/// It can be closed and opened again, also while what uses it is under way.
#[test]
fn closed_allocations_can_be_opened_again() {
    let Shared { mut world, owner, opener, allocation, at } = shared(4, 8);
    world.bring_in(opener, &[allocation]);
    write(&mut world, opener, at[1], 7);
    world.close(opener, allocation).unwrap();
    world.run_all();
    world.open(opener, allocation).unwrap();
    let again = world.map(opener, allocation);
    world.bring_in(opener, &[allocation]);
    assert_eq!(read(&mut world, opener, again), 7);
    world.bring_in(owner, &[allocation]);
    assert_eq!(read(&mut world, owner, at[0]), 7);
    world.tear_down();
}

/// CRE-41: only what was created to be shared can be opened, by each device once; only who opened it closes it.
#[test]
fn illegal_opens_and_closes_are_refused() {
    let Shared { mut world, owner, opener, allocation, .. } = shared(4, 8);
    let own = world.allocate(owner, 1);
    assert_eq!(world.open(opener, own), Err(OpenError::NotShared));
    assert_eq!(world.open(opener, allocation), Err(OpenError::AlreadyOpen));
    assert_eq!(world.open(owner, allocation), Err(OpenError::AlreadyOpen));
    assert_eq!(world.close(owner, allocation), Err(OpenError::NotOpen));
    let third = world.client();
    assert_eq!(world.close(third, allocation), Err(OpenError::NotOpen));
    let refused = world.make_resident(third, &[allocation]);
    assert_eq!(refused, Err(MakeResidentError::WrongDevice { position: 0 }));
    world.destroy(own);
    assert!(matches!(world.open(opener, own), Err(OpenError::InvalidHandle(_))));
    world.tear_down();
}

/// RES-02: devices of one process share it too, with their own counts and one mapping for both.
#[test]
fn devices_of_one_process_have_counts_of_their_own() {
    let (mut world, client) = World::with_pages(8);
    let sibling = world.sibling(client);
    let allocation = world.create_shared(client, 4);
    world.open(sibling, allocation).unwrap();
    let at = world.map(client, allocation);
    world.bring_in(sibling, &[allocation]);
    write(&mut world, sibling, at, 7);
    assert_eq!(world.evict(client, &[allocation], SOON), Err(EvictError::NotResident { position: 0 }));
    world.bring_in(client, &[allocation]);
    world.evict(sibling, &[allocation], SOON).unwrap();
    world.run_all();
    assert_eq!(read(&mut world, client, at), 7);
    world.tear_down();
}

/// RES-91: content that its owner has written before it destroyed an allocation, queued work of who has closed it still
/// reads; also if its owner says that nobody uses it, which speaks for the owner's own work.
#[test]
fn writes_before_a_destruction_are_read_by_queued_work() {
    for flags in [DestroyFlags::empty(), DestroyFlags::ASSUME_NOT_IN_USE] {
        let Shared { mut world, owner, opener, allocation, at } = shared(4, 8);
        world.bring_in(owner, &[allocation]);
        write(&mut world, owner, at[0], 7);
        let fence = world.fence();
        world.submit_to(owner.context, &[], &[(fence, 1)], &[]);
        world.call(|vidmm, _, _| vidmm.suspend_process(opener.process, false)).unwrap();
        let _: Residency = world.make_resident(opener, &[allocation]).unwrap();
        world.submit(opener, &[Access::Read(at[1])]);
        world.close(opener, allocation).unwrap();
        world.destroy_with(allocation, flags);
        if flags.is_empty() {
            world.signal(fence, 1);
        }
        let (other, _) = world.resident(owner, 8);
        assert_eq!(world.evicted(), [(allocation, EvictReason::RoomWanted)], "{flags:?}");
        world.signal(fence, 1);
        world.evict(owner, &[other], SOON).unwrap();
        world.call(|vidmm, _, _| vidmm.resume_process(opener.process)).unwrap();
        world.run_all();
        assert_eq!(world.read, [7], "{flags:?}");
        world.tear_down();
    }
}

/// I02: content that a device has written before it closed or destroyed its part is there for the others.
#[test]
fn writes_before_a_close_or_a_hand_over_are_kept() {
    for closes in [true, false] {
        let Shared { mut world, owner, opener, allocation, at } = shared(4, 8);
        let [writer, reader] = if closes { [opener, owner] } else { [owner, opener] };
        world.bring_in(writer, &[allocation]);
        write(&mut world, writer, at[usize::from(closes)], 7);
        if closes {
            world.close(opener, allocation).unwrap();
        } else {
            world.destroy(allocation);
        }
        let other = world.client();
        let (all, _) = world.resident(other, 8);
        assert!(!world.placed.contains_key(&allocation));
        world.destroy(all);
        world.run_all();
        world.bring_in(reader, &[allocation]);
        assert_eq!(read(&mut world, reader, at[usize::from(!closes)]), 7);
        world.tear_down();
    }
}

/// U-34: a close frees no allocation: the device's mappings end with the work that may use them.
#[test]
fn a_mapping_that_ends_with_its_close_is_not_freed() {
    let Shared { mut world, opener, allocation, at, .. } = shared(4, 8);
    world.bring_in(opener, &[allocation]);
    world.submit(opener, &[Access::Read(at[1])]);
    world.close(opener, allocation).unwrap();
    let refused = Err(VaRangeError::NotFound.into());
    assert_eq!(world.free(opener, at[1], 4), refused, "at once");
    world.poll();
    assert_eq!(world.free(opener, at[1], 4), refused, "while its work runs");
    world.complete(RENDER);
    assert_eq!(world.free(opener, at[1], 4), refused, "while its entries are made invalid");
    world.run_all();
    assert_eq!(world.free(opener, at[1], 4), refused, "when it has ended");
    world.tear_down();
}
