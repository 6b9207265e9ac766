//! Content in system memory that is kept, or is the caller's: PERMANENT_SYS_MEM and EXISTING_SYS_MEM (2.2).

use crate::world::*;
use vidmm::contract::{AllocationFlags, DmaPageFaulted, Host, PageFaultFlags};
use vidmm::*;

const PERMANENT: AllocationFlags = AllocationFlags::PERMANENT_SYS_MEM.union(AllocationFlags::CPU_VISIBLE);
const EXISTING: AllocationFlags = AllocationFlags::EXISTING_SYS_MEM;

fn permanent() -> (World, Client, AllocationId, u64) {
    let (mut world, client) = World::with_pages(8);
    let allocation = world.create_flagged(client, Place::Local, 4, PERMANENT).unwrap();
    let at = world.map(client, allocation);
    world.bring_in(client, &[allocation]);
    (world, client, allocation, at)
}

fn create_existing(
    world: &mut World,
    client: Client,
    flags: AllocationFlags,
    at: Option<PhysicalAddress>,
) -> Result<AllocationId, CreateError> {
    let info = world.config.allocation(Place::Local, 4, SILENT);
    world.driver.next_allocation = Some(contract::AllocationInfo { flags, ..info });
    let data = private_data(0, 0);
    let desc = CreateAllocationDesc { private_driver_data: &data, existing_sys_mem: at, ..Default::default() };
    world.call(|vidmm, driver, host| vidmm.create_allocation(driver, host, client.device, desc))
}

/// 2.2: Lock shows the copy in system memory while the allocation is in memory that the CPU does not see, and Unlock brings it up
/// to date for the work that is submitted later.
#[test]
fn an_unlock_brings_the_memory_segment_up_to_date() {
    let (mut world, client, a, at) = permanent();
    world.submit(client, &[Access::Read(at)]);
    world.poll();
    let address = world.lock(client, a).unwrap();
    let store = world.machine.known[&world.handle(a)].backing_store;
    assert_eq!(world.host.seen(address, 0), Some(store));
    world.cpu_write(address, 0, 7);
    world.unlock(a).unwrap();
    world.submit(client, &[Access::Read(at)]);
    world.run_all();
    assert_eq!(world.read, [0, 7], "work that was under way does not see it");
    assert_eq!(world.evicted(), []);
    world.tear_down();
}

/// 2.2, I17: so it is with work that was handed out before other work of its device, which waits for a fence.
#[test]
fn an_unlock_waits_for_work_that_overtook_other_work() {
    let (mut world, client, a, at) = permanent();
    let (other, fence) = (world.context(client, COPY), world.fence());
    world.submit_to(other, &[Access::Read(at)], &[(fence, 1)], &[]);
    world.submit(client, &[Access::Read(at)]);
    world.poll();
    let address = world.lock(client, a).unwrap();
    world.cpu_write(address, 0, 7);
    world.unlock(a).unwrap();
    world.run_all();
    assert_eq!(world.read, [0]);
    world.signal(fence, 1);
    world.run_all();
    assert_eq!(world.read, [0, 7]);
    world.tear_down();
}

/// I27 of the facts, 2.2: clean content is discarded, content that the GPU has written is copied out.
#[test]
fn clean_content_is_not_copied_out() {
    let (mut world, client, a, at) = permanent();
    let address = world.lock(client, a).unwrap();
    world.cpu_write(address, 1, 7);
    world.unlock(a).unwrap();
    world.evict(client, &[a], NOT_WRITTEN).unwrap();
    world.run_all();
    assert_eq!(world.vidmm.statistics().bytes_paged_out, 0);
    world.bring_in(client, &[a]);
    world.submit(client, &[Access::Read(at + PAGE_SIZE), Access::Write(at, 8)]);
    world.evict(client, &[a], SOON).unwrap();
    world.run_all();
    assert_eq!(world.read, [7]);
    assert_eq!(world.vidmm.statistics().bytes_paged_out, 4 * PAGE_SIZE);
    let address = world.lock(client, a).unwrap();
    assert_eq!([0, 1].map(|page| world.cpu_read(address, page)), [8, 7]);
    world.unlock(a).unwrap();
    world.tear_down();
}

/// RES-84 does not hold for it: it comes into memory that the CPU does not see while it is locked.
#[test]
fn a_kept_copy_is_seen_wherever_the_allocation_is() {
    let (mut world, client, a, at) = permanent();
    let address = world.lock(client, a).unwrap();
    world.cpu_write(address, 0, 7);
    world.evict(client, &[a], NOT_WRITTEN).unwrap();
    world.run_all();
    assert_eq!(world.cpu_read(address, 0), 7);
    world.bring_in(client, &[a]);
    world.submit(client, &[Access::Read(at)]);
    world.run_all();
    assert_eq!(world.read, [7]);
    world.unlock(a).unwrap();
    world.tear_down();
}

/// FLT-34, 2.2: what the GPU may have written is lost with a reset; the copy stays as the CPU sees it, and is the content from then on.
#[test]
fn a_reset_leaves_the_kept_copy_as_it_is() {
    let (mut world, client, a, at) = permanent();
    let other = world.client();
    world.submit(client, &[Access::Read(at)]);
    world.run_all();
    let address = world.lock(client, a).unwrap();
    world.cpu_write(address, 0, 7);
    world.submit(other, &[]);
    world.poll();
    let page_fault_flags = PageFaultFlags::ADAPTER_RESET_REQUIRED;
    world.fault_with(RENDER, DmaPageFaulted { page_fault_flags, ..page_fault(0) });
    world.run_all();
    assert!(world.events.contains(&Event::ContentLost { allocation: a, is_kept: true }));
    let store = world.machine.known[&world.handle(a)].backing_store;
    assert_eq!(world.host.seen(address, 0), Some(store));
    assert_eq!(world.cpu_read(address, 0), 7);
    world.tear_down();
}

/// 2.2: memory of the caller's has its content from the beginning, gets what the GPU has written, and stays the caller's.
#[test]
fn the_caller_s_memory_holds_the_content_and_stays_the_caller_s() {
    let (mut world, client) = World::with_pages(8);
    let own = world.host.commit_backing_store(4 * PAGE_SIZE).unwrap();
    world.machine.write(own, 7, &world.host);
    let a = create_existing(&mut world, client, EXISTING, Some(own)).unwrap();
    assert_eq!(world.offer(client, &[a], OfferPriority::Low), Err(OfferError::ExistingSysMem { position: 0 }));
    let at = world.map(client, a);
    world.bring_in(client, &[a]);
    world.submit(client, &[Access::Read(at), Access::Write(at, 8)]);
    world.evict(client, &[a], SOON).unwrap();
    world.run_all();
    assert_eq!(world.read, [7]);
    assert_eq!(world.machine.read(own, &world.host), 8);
    world.destroy(a);
    world.run_all();
    assert!(world.host.holds(own.offset), "it is not the manager's to give back");
    world.host.decommit_backing_store(own, 4 * PAGE_SIZE);
    world.tear_down();
}

/// 2.2: flags that exclude each other, or lack what they need, are the driver's mistake; nothing remains of the allocation.
#[test]
fn impossible_flags_are_refused() {
    let (mut world, client) = World::with_pages(8);
    let own = world.host.commit_backing_store(4 * PAGE_SIZE).unwrap();
    let before = world.fingerprint();
    let refused = |rule| Err(CreateError::Violation(Violation::AllocationInfo { rule }));
    let permanent_alone = AllocationFlags::PERMANENT_SYS_MEM;
    let rule = AllocationInfoRule::PermanentSysMem;
    assert_eq!(world.create_flagged(client, Place::Local, 4, permanent_alone), refused(rule));
    assert_eq!(create_existing(&mut world, client, PERMANENT | EXISTING, Some(own)), refused(rule));
    let crooked = Some(own.offset_by(PAGE_SIZE));
    let local = Some(PhysicalAddress { segment: LOCAL, offset: 0 });
    for (flags, memory) in [(EXISTING, None), (PERMANENT, Some(own)), (EXISTING, crooked), (EXISTING, local)] {
        let rule = AllocationInfoRule::ExistingSysMem(memory);
        assert_eq!(create_existing(&mut world, client, flags, memory), refused(rule));
    }
    let after = world.fingerprint();
    assert!(before == after, "{before:?} became {after:?}");
}
