//! Several memory segments: each is filled on its own, and an allocation goes where its driver prefers it and there is room
//! (SEG-05, SEG-42, SEG-47, RES-50).

use crate::world::*;
use vidmm::contract::*;
use vidmm::event::EvictReason;
use vidmm::*;

/// The segments of [`two_segments`], the aperture among them.
const VISIBLE: SegmentId = SegmentId(3);
const APERTURE: SegmentId = SegmentId(2);

/// An adapter with 16 pages that the CPU does not see, and 8 that it sees.
fn two_segments() -> (World, Client) {
    let more_memory = vec![(8 * PAGE_SIZE, true)];
    let mut world = World::new(Config { more_memory, ..Config::discrete(16, 64) });
    let client = world.client();
    (world, client)
}

/// An allocation that may be in these segments, in this order of preference; and its address.
fn among(world: &mut World, client: Client, pages: u64, segments: &[SegmentId]) -> (AllocationId, u64) {
    let set = segments.iter().fold(0, |set, &segment| set | SegmentSet::of(segment).0);
    let mut preferred_segment = SegmentPreference::default();
    preferred_segment.segment_ids[..segments.len()].copy_from_slice(segments);
    let allocation = world
        .try_create(
            client,
            AllocationInfo {
                supported_segment_set: SegmentSet(set),
                preferred_segment,
                flags: AllocationFlags::CPU_VISIBLE,
                ..allocation_info(pages * PAGE_SIZE, NORMAL)
            },
        )
        .unwrap();
    let at = world.map(client, allocation);
    (allocation, at)
}

/// The segment that an address shows.
fn segment(world: &World, client: Client, at: u64) -> Option<SegmentId> {
    world.translate(client, at).map(|at| at.segment)
}

/// SEG-42, SEG-47: first the preferred segments in their order, then any other of the set.
#[test]
fn an_allocation_goes_to_the_first_of_its_segments_that_has_room() {
    let (mut world, client) = two_segments();
    let all = [LOCAL, VISIBLE, APERTURE];
    let allocations: Vec<_> = (0..5).map(|_| among(&mut world, client, 8, &all)).collect();
    world.bring_in(client, &allocations.iter().map(|&(id, _)| id).collect::<Vec<_>>());
    let segments: Vec<_> = allocations.iter().map(|&(_, at)| segment(&world, client, at).unwrap()).collect();
    assert_eq!(segments, [LOCAL, LOCAL, VISIBLE, SegmentId::SYSTEM, SegmentId::SYSTEM]);
    for (token, &(_, at)) in (1..).zip(&allocations) {
        write(&mut world, client, at, token);
    }
    for (token, &(_, at)) in (1..).zip(&allocations) {
        assert_eq!(read(&mut world, client, at), token);
    }
    world.tear_down();
}

/// RES-11: what may be in one segment only is refused when that is full, however much room another has; and is told how much
/// to trim there.
#[test]
fn room_in_another_segment_is_of_no_use() {
    let (mut world, client) = two_segments();
    let (held, _) = among(&mut world, client, 6, &[VISIBLE]);
    world.bring_in(client, &[held]);
    let (refused, _) = among(&mut world, client, 4, &[VISIBLE]);
    let answer = world.make_resident(client, &[refused]);
    let visible = MemoryAccount { segment: VISIBLE, group: Some(MemorySegmentGroup::Local) };
    let missing = refused_in(visible, 2 * PAGE_SIZE, NoMemoryReason::DoesNotFit);
    assert_eq!(answer, Err(missing), "local memory is empty");
    world.evict(client, &[held], SOON).unwrap();
    world.bring_in(client, &[refused]);
    world.tear_down();
}

/// CRE-31a: a victim is looked for in the segment where room is wanted.
#[test]
fn victims_go_from_the_segment_that_is_full() {
    let (mut world, client) = two_segments();
    let (in_local, local_at) = among(&mut world, client, 16, &[LOCAL]);
    let (older, older_at) = among(&mut world, client, 8, &[VISIBLE]);
    let (newer, newer_at) = among(&mut world, client, 8, &[VISIBLE]);
    world.bring_in(client, &[in_local]);
    write(&mut world, client, local_at, 5);
    world.evict(client, &[in_local], IF_NECESSARY).unwrap();
    world.bring_in(client, &[older]);
    write(&mut world, client, older_at, 6);
    world.evict(client, &[older], IF_NECESSARY).unwrap();
    world.bring_in(client, &[newer]);
    assert_eq!(world.evicted(), [(older, EvictReason::RoomWanted)]);
    assert_eq!(segment(&world, client, local_at), Some(LOCAL), "it was used before, but stands in nobody's way");
    assert_eq!(segment(&world, client, newer_at), Some(VISIBLE));
    world.evict(client, &[newer], IF_NECESSARY).unwrap();
    world.bring_in(client, &[older, in_local]);
    assert_eq!([older_at, local_at].map(|at| read(&mut world, client, at)), [6, 5]);
    world.tear_down();
}

/// RES-50: the budget of a group is that of all its segments.
#[test]
fn a_group_is_all_its_segments() {
    let (mut world, client) = two_segments();
    let (a, _) = among(&mut world, client, 16, &[LOCAL]);
    let (b, _) = among(&mut world, client, 4, &[VISIBLE]);
    world.bring_in(client, &[a, b]);
    let info = world.local_info(client);
    assert_eq!((info.current_usage, info.requested), (20 * PAGE_SIZE, 20 * PAGE_SIZE));
    assert_eq!((info.budget, info.available_for_reservation), (24 * PAGE_SIZE, 12 * PAGE_SIZE));
    world.reserve(client, 12 * PAGE_SIZE).unwrap();
    assert_eq!(world.local_info(client).current_reservation, 12 * PAGE_SIZE);
    let too_much = world.reserve(client, 13 * PAGE_SIZE);
    assert_eq!(too_much, Err(ReservationError::TooMuch { available_for_reservation: 12 * PAGE_SIZE }));
    world.tear_down();
}

/// SEG-20, RES-50: where some segments count toward budgets, the others count toward none.
#[test]
fn a_segment_that_is_no_application_target_has_no_budget() {
    let config = Config { more_memory: vec![(8 * PAGE_SIZE, true)], ..Config::discrete(16, 64) };
    let mut driver = Driver::new(&config);
    driver.info.segments[2].flags -= SegmentFlags::APPLICATION_TARGET;
    let mut vidmm = VidMm::start_adapter(config.options(), &mut driver, &mut Ledger::default()).unwrap();
    let process = vidmm.create_process(&mut driver, &mut Ledger::default()).unwrap();
    let info = vidmm.query_video_memory_info(process, MemorySegmentGroup::Local).unwrap();
    assert_eq!(info.budget, 16 * PAGE_SIZE);
    // A refusal in this segment names no budget.
    let mut host = Ledger::default();
    let [first, second] = [(); 2].map(|()| {
        let process = vidmm.create_process(&mut driver, &mut host).unwrap();
        let device = vidmm.create_device(process).unwrap();
        let queue = vidmm.create_paging_queue(device, 0).unwrap();
        let info = allocation_info(6 * PAGE_SIZE, NORMAL);
        driver.next_allocation = Some(AllocationInfo { supported_segment_set: SegmentSet::of(VISIBLE), ..info });
        let data = private_data(0, 0);
        let allocation = vidmm.create_allocation(&mut driver, &mut host, device, &data).unwrap();
        vidmm.make_resident(queue, &[allocation], MakeResidentFlags::empty())
    });
    assert!(first.is_ok());
    let reason = NoMemoryReason::OverShare;
    assert_eq!(second, Err(MakeResidentError::NoMemory { num_bytes_to_trim: 0, reason, shortages: vec![] }));
}

/// RES-82: the CPU sees an allocation where it is, in a segment that the CPU reaches.
#[test]
fn the_cpu_sees_what_is_in_a_segment_that_it_reaches() {
    let (mut world, client) = two_segments();
    let (seen, at) = among(&mut world, client, 4, &[VISIBLE]);
    world.bring_in(client, &[seen]);
    write(&mut world, client, at, 7);
    let address = world.lock(client, seen).unwrap();
    assert_eq!(world.cpu_read(address, 0), 7);
    assert_eq!(segment(&world, client, at), Some(VISIBLE));
    world.unlock(seen).unwrap();
    world.tear_down();
}

/// RES-82: what is to be seen leaves a segment that the CPU does not reach, for the next of its choices that it does.
#[test]
fn a_locked_allocation_moves_to_a_segment_that_the_cpu_reaches() {
    let (mut world, client) = two_segments();
    let (a, at) = among(&mut world, client, 4, &[LOCAL, VISIBLE]);
    world.bring_in(client, &[a]);
    write(&mut world, client, at, 9);
    assert_eq!(segment(&world, client, at), Some(LOCAL));
    assert_eq!(world.lock(client, a), Err(LockError::AllocationBusy));
    world.run_all();
    let address = world.lock(client, a).unwrap();
    assert_eq!(world.cpu_read(address, 0), 9);
    world.cpu_write(address, 0, 10);
    assert_eq!(read(&mut world, client, at), 10);
    assert_eq!(segment(&world, client, at), Some(VISIBLE));
    assert_eq!(world.cpu_read(address, 0), 10);
    world.unlock(a).unwrap();
    world.tear_down();
}

/// RES-55: what was demoted to another segment comes back when its first choice has room.
#[test]
fn an_allocation_comes_back_to_the_segment_that_it_prefers() {
    let (mut world, client) = two_segments();
    let (first, _) = among(&mut world, client, 12, &[LOCAL]);
    let (second, at) = among(&mut world, client, 6, &[LOCAL, VISIBLE]);
    world.bring_in(client, &[first, second]);
    write(&mut world, client, at, 3);
    assert_eq!(segment(&world, client, at), Some(VISIBLE));
    world.evict(client, &[first], SOON).unwrap();
    world.run_all();
    world.wait(10_000 * MILLISECOND);
    world.run_all();
    assert_eq!(read(&mut world, client, at), 3);
    assert_eq!(segment(&world, client, at), Some(LOCAL));
    world.tear_down();
}
