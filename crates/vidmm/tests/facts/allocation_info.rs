//! The driver's description of an allocation, and what becomes of it (CRE-, SEG-40..46).

use crate::world::*;
use vidmm::contract::*;
use vidmm::*;

fn create(world: &mut World, client: Client, info: AllocationInfo) -> Result<AllocationId, CreateError> {
    world.driver.next_allocation = Some(info);
    world.try_allocate(client, 0, 0)
}

/// Creates an allocation that breaks a rule, and sees that nothing is left of it.
fn broken(info: AllocationInfo) -> AllocationInfoRule {
    broken_in(Config::default(), info)
}

fn broken_in(config: Config, info: AllocationInfo) -> AllocationInfoRule {
    let mut world = World::new(config);
    let client = world.client();
    let before = world.fingerprint();
    let error = create(&mut world, client, info).unwrap_err();
    assert_eq!(world.fingerprint(), before);
    let CreateError::Violation(Violation::AllocationInfo { rule }) = error else { panic!("{error}") };
    rule
}

fn usual() -> AllocationInfo {
    allocation_info(PAGE_SIZE, NORMAL)
}

fn size_of(config: Config, bytes: u64) -> u64 {
    let mut world = World::new(config);
    let client = world.client();
    let held = world.host.bytes();
    world.try_allocate(client, bytes, NORMAL).unwrap();
    world.host.bytes() - held
}

/// CRE-04, SEG-46, P16.
#[test]
fn sizes_are_rounded_up_to_pages() {
    for (bytes, pages) in [(1, 1), (4095, 1), (4096, 1), (4097, 2)] {
        assert_eq!(size_of(Config::default(), bytes), pages * PAGE_SIZE);
    }
    for (bytes, pages) in [(1, 1), (65535, 1), (65536, 1), (65537, 2)] {
        assert_eq!(size_of(Config::pages_64kb(4, false), bytes), pages * PAGE_SIZE_64K);
    }
}

/// CRE-03.
#[test]
fn an_allocation_has_a_possible_size() {
    for size in [0, u64::MAX, u64::MAX - 4094, 1 << 63] {
        assert_eq!(broken(AllocationInfo { size, ..usual() }), AllocationInfoRule::Size(size));
    }
}

/// SEG-46, 1.3 bit 11.
#[test]
fn an_alignment_is_a_power_of_two_of_whole_pages() {
    for alignment in [3, 4097, 3 << 12, u32::MAX] {
        assert_eq!(broken(AllocationInfo { alignment, ..usual() }), AllocationInfoRule::Alignment(alignment));
    }
    let fine = AllocationInfo { alignment: 4096, ..usual() };
    let in_64kb_pool = broken_in(Config::pages_64kb(4, false), fine);
    assert_eq!(in_64kb_pool, AllocationInfoRule::Alignment(4096));
    let mut world = World::new(Config::default());
    let client = world.client();
    create(&mut world, client, fine).unwrap();
    create(&mut world, client, AllocationInfo { alignment: 0, ..usual() }).unwrap();
}

/// SEG-40, SEG-11.
#[test]
fn a_segment_set_names_reported_segments() {
    for set in [0, 0b100, 0b101, 1 << 31, u32::MAX] {
        let info = AllocationInfo { supported_segment_set: SegmentSet(set), ..usual() };
        assert_eq!(broken(info), AllocationInfoRule::SegmentSet(set));
    }
}

/// SEG-42.
#[test]
fn a_preferred_segment_is_a_supported_one() {
    let prefer = |ids: [u8; 5]| SegmentPreference::of(ids.map(SegmentId));
    for (ids, outside) in [([2, 0, 0, 0, 0], 2), ([1, 7, 0, 0, 0], 7), ([255, 1, 1, 1, 1], 255), ([1, 1, 1, 1, 2], 2)] {
        let info = AllocationInfo { preferred_segment: prefer(ids), ..usual() };
        assert_eq!(broken(info), AllocationInfoRule::PreferredSegment(outside));
    }
    let mut world = World::new(Config::default());
    let client = world.client();
    let ended = AllocationInfo { preferred_segment: prefer([1, 0, 9, 9, 9]), ..usual() };
    create(&mut world, client, ended).expect("segment 0 ends the list");
}

/// CRE-05, CRE-30.
#[test]
fn priority_0_is_invalid_and_all_others_are_not() {
    assert_eq!(broken(AllocationInfo { allocation_priority: 0, ..usual() }), AllocationInfoRule::Priority);
    let mut world = World::new(Config::default());
    let client = world.client();
    for allocation_priority in [1, 0x2800_0000, 0xC800_0000, u32::MAX] {
        create(&mut world, client, AllocationInfo { allocation_priority, ..usual() }).unwrap();
    }
}

/// CRE-01: the driver's own refusals reach the caller.
#[test]
fn a_driver_may_refuse() {
    let (mut world, client) = World::with_pages(8);
    let before = world.fingerprint();
    let data = [1, 2, 3];
    let answer = world.call(|vidmm, driver, host| vidmm.create_allocation(driver, host, client.device, &data));
    assert_eq!(answer, Err(CreateError::Allocation(CreateAllocationError::InvalidParameter)));
    world.driver.fails_after = Some(0);
    let answer = world.try_allocate(client, 1, NORMAL);
    assert_eq!(answer, Err(CreateError::Allocation(CreateAllocationError::NoMemory)));
    assert_eq!(world.fingerprint(), before);
}

/// SEG-45: an eviction segment set names an aperture that there is, in every addressing model.
#[test]
fn an_eviction_segment_set_names_the_aperture() {
    for set in [LOCAL, SegmentId(5)] {
        let eviction_segment_set = SegmentSet::of(set);
        let rule = AllocationInfoRule::EvictionSegmentSet(eviction_segment_set.0);
        assert_eq!(broken(AllocationInfo { eviction_segment_set, ..usual() }), rule);
    }
    let (mut world, client) = World::with_pages(8);
    let eviction_segment_set = SegmentSet::of(world.config.aperture());
    create(&mut world, client, AllocationInfo { eviction_segment_set, ..usual() }).unwrap();
}

/// Flags that this version does not support are refused, not done wrong.
#[test]
fn unsupported_flags_are_refused() {
    let mut world = World::new(Config { tables_in_system: false, ..Config::pages(64) });
    let client = world.client();
    let before = world.fingerprint();
    let contiguous = AllocationInfo { flags: AllocationFlags::ACCESSED_PHYSICALLY, ..usual() };
    let answer = create(&mut world, client, contiguous);
    assert!(matches!(answer, Err(CreateError::NotSupported(_))), "{answer:?}");
    assert_eq!(world.fingerprint(), before);
}

/// SEG-46, U-23: of an allocation in pages it is the GPU virtual addresses that are aligned; a user who chooses them may choose
/// others.
#[test]
fn an_alignment_above_a_page_is_that_of_the_addresses() {
    let (mut world, client) = World::with_pages(8);
    world.allocate(client, 1);
    let allocation = create(&mut world, client, AllocationInfo { alignment: 1 << 20, ..usual() }).unwrap();
    for base_address in [None, None, Some(GpuVirtualAddress(0x12_3000))] {
        let desc = MapGpuVirtualAddress { base_address, ..MapGpuVirtualAddress::whole(allocation) };
        let queue = client.queue;
        let mapped = world.call(|vidmm, _, host| vidmm.map_gpu_virtual_address(host, queue, &desc)).unwrap();
        match base_address {
            None => assert!(mapped.virtual_address.0.is_multiple_of(1 << 20), "{mapped:?}"),
            Some(base) => assert_eq!(mapped.virtual_address, base),
        }
    }
}

/// CRE-43, U-9: creation commits the backing store, and makes nothing resident.
#[test]
fn creation_commits_and_brings_nothing_in() {
    let (mut world, client) = World::with_pages(8);
    let held = world.host.bytes();
    let operations = world.driver.operations.len();
    world.allocate(client, 100);
    world.run_all();
    assert_eq!(world.host.bytes() - held, 100 * PAGE_SIZE);
    assert_eq!(world.driver.operations.len(), operations);
}
