//! Memory that no list requires, and that a process keeps all the same: within its reservation, and within its budget (RES-53, RES-70, U-31).

use vidmm::policy::PolicyChoice;
use vidmm::*;

use crate::world::*;

/// Brings in each of the allocations and lets it go again if necessary, as a program does that makes its list anew for each frame.
fn use_each(world: &mut World, client: Client, allocations: &[AllocationId]) {
    for &allocation in allocations {
        world.bring_in(client, &[allocation]);
        world.submit(client, &[]);
        world.evict(client, &[allocation], IF_NECESSARY).unwrap();
        world.run_all();
    }
}

fn allocate(world: &mut World, client: Client, count: usize) -> Vec<AllocationId> {
    (0..count).map(|_| world.allocate(client, 1)).collect()
}

/// An allocation that is one range of the memory segment.
fn range(world: &mut World, client: Client, pages: u64) -> AllocationId {
    let flags = contract::AllocationFlags::ACCESSED_PHYSICALLY;
    let info = contract::AllocationInfo { flags, ..allocation_info(pages * PAGE_SIZE, NORMAL) };
    world.try_create(client, info).unwrap()
}

/// The allocations of `own` that were evicted, in that order, each by its number.
fn evicted(world: &World, own: &[AllocationId]) -> Vec<usize> {
    let number = |id| own.iter().position(|&allocation| allocation == id);
    world.evicted().into_iter().filter_map(|(id, _)| number(id)).collect()
}

fn is_above_the_other(world: &mut World, client: Client) {
    world.set_priority(client, PriorityBand::Focus, Visibility::Visible);
}

const POLICIES: [&str; 5] = ["lru", "clock", "s3-fifo", "lfu-da", "predict"];

/// T7, D24: the game uses half of the memory, far less than its budget, and the scan streams through all that it has.
#[test]
fn a_game_in_focus_loses_nothing_to_a_scan_under_any_policy() {
    for name in POLICIES {
        let policy: PolicyChoice = name.parse().unwrap();
        let mut world = World::new(Config { policy, ..Config::pages(16) });
        let (game, scan) = (world.client(), world.client());
        is_above_the_other(&mut world, game);
        let (textures, files) = (allocate(&mut world, game, 8), allocate(&mut world, scan, 40));
        for files in files.chunks(10) {
            use_each(&mut world, game, &textures);
            use_each(&mut world, scan, files);
        }
        assert_eq!(evicted(&world, &textures), [0; 0], "{name}");
        assert_eq!(evicted(&world, &files).len(), 40 - 8, "{name}");
        world.tear_down();
    }
}

/// RES-53: while all lists fit, no budget is imposed among equals, and the documented order holds (CRE-31a).
#[test]
fn equals_lose_what_is_used_least_recently() {
    let mut world = World::new(Config::pages(16));
    let (one, other) = (world.client(), world.client());
    let (old, new) = (allocate(&mut world, one, 8), allocate(&mut world, other, 12));
    use_each(&mut world, one, &old);
    use_each(&mut world, other, &new);
    assert_eq!(evicted(&world, &old), [0, 1, 2, 3]);
    assert_eq!(evicted(&world, &new), [0; 0]);
    world.tear_down();
}

/// RES-53: what a process has above its budget is no more its own than that of any other.
#[test]
fn a_process_in_focus_above_its_budget_gives_down_to_it() {
    let mut world = World::new(Config::pages(16));
    let (game, scan) = (world.client(), world.client());
    is_above_the_other(&mut world, game);
    let textures = allocate(&mut world, game, 16);
    use_each(&mut world, game, &textures);
    let files = allocate(&mut world, scan, 6);
    world.bring_in(scan, &files);
    // Of 16 pages the list of the scan needs 6; a game that demanded the rest could have 12.
    assert_eq!(world.local_info(game).budget / PAGE_SIZE, 12);
    assert_eq!(evicted(&world, &textures), [0, 1, 2, 3, 4, 5]);
    world.evict(scan, &files, IF_NECESSARY).unwrap();
    let more = allocate(&mut world, scan, 6);
    use_each(&mut world, scan, &more);
    assert_eq!(evicted(&world, &textures), [0, 1, 2, 3, 4, 5]);
    assert_eq!(evicted(&world, &files), [0, 1, 2, 3, 4, 5]);
    world.tear_down();
}

/// U-31: a reservation stays with a process, whoever asks.
#[test]
fn a_reservation_is_kept_from_equals() {
    let mut world = World::new(Config::pages(16));
    let (one, other) = (world.client(), world.client());
    let old = allocate(&mut world, one, 8);
    world.reserve(one, 6 * PAGE_SIZE).unwrap();
    use_each(&mut world, one, &old);
    let new = allocate(&mut world, other, 20);
    use_each(&mut world, other, &new);
    assert_eq!(evicted(&world, &old), [0, 1]);
    assert_eq!(evicted(&world, &new), Vec::from_iter(0..10));
    world.tear_down();
}

/// D3, RES-01: what is only kept goes when a list cannot be resident without it.
#[test]
fn a_list_that_needs_what_others_keep_takes_it() {
    let mut world = World::new(Config::pages(16));
    let (game, scan) = (world.client(), world.client());
    is_above_the_other(&mut world, game);
    let textures = allocate(&mut world, game, 8);
    use_each(&mut world, game, &textures);
    let files = allocate(&mut world, scan, 10);
    world.bring_in(scan, &files);
    assert_eq!(evicted(&world, &textures), [0, 1]);
    world.tear_down();
}

/// RES-60: what is offered and what is destroyed goes first, whoever has it.
#[test]
fn offered_memory_is_kept_from_no_process() {
    let mut world = World::new(Config::pages(16));
    let (game, scan) = (world.client(), world.client());
    is_above_the_other(&mut world, game);
    let textures = allocate(&mut world, game, 8);
    use_each(&mut world, game, &textures);
    let files = allocate(&mut world, scan, 9);
    use_each(&mut world, scan, &files[..8]);
    world.offer(game, &textures[5..6], OfferPriority::Normal).unwrap();
    world.run_all();
    use_each(&mut world, scan, &files[8..]);
    assert_eq!((evicted(&world, &textures), evicted(&world, &files)), (vec![5], vec![]));
    world.tear_down();
}

/// U-34: with an allocation its place among those goes to the new owner that may be evicted.
#[test]
fn a_shared_allocation_is_kept_for_its_new_owner() {
    let mut world = World::new(Config::pages(16));
    let (maker, game, scan) = (world.client(), world.client(), world.client());
    is_above_the_other(&mut world, game);
    let shared = world.create_shared(maker, 4);
    use_each(&mut world, maker, &[shared]);
    world.open(game, shared).unwrap();
    world.destroy(shared);
    world.run_all();
    let files = allocate(&mut world, scan, 20);
    use_each(&mut world, scan, &files);
    assert_eq!(evicted(&world, &[shared]), [0; 0]);
    world.tear_down();
}

/// SEG-13: where a range must become free, the same holds.
#[test]
fn ranges_are_kept_as_pages_are() {
    let mut world = World::new(Config { policy: PolicyChoice::default(), ..Config::discrete(16, 64) });
    let (game, scan) = (world.client(), world.client());
    is_above_the_other(&mut world, game);
    let textures = [(); 4].map(|()| range(&mut world, game, 2));
    let files = [(); 8].map(|()| range(&mut world, scan, 2));
    use_each(&mut world, game, &textures);
    use_each(&mut world, scan, &files);
    assert_eq!(evicted(&world, &textures), [0; 0]);
    assert!(!evicted(&world, &files).is_empty());
    let large = range(&mut world, scan, 12);
    world.bring_in(scan, &[large]);
    assert!(!evicted(&world, &textures).is_empty(), "what is only kept goes in the end");
    world.tear_down();
}

/// U-31: all that one placement takes of a process counts, so that it keeps what it has reserved.
#[test]
fn a_reservation_is_kept_from_a_range_that_takes_the_place_of_several() {
    let mut world = World::new(Config::discrete(16, 64));
    let (one, other) = (world.client(), world.client());
    let [old, new] = [one, other].map(|client| [(); 3].map(|()| range(&mut world, client, 2)));
    world.reserve(one, 4 * PAGE_SIZE).unwrap();
    use_each(&mut world, one, &old);
    use_each(&mut world, other, &new);
    let large = range(&mut world, other, 6);
    world.bring_in(other, &[large]);
    assert!(!world.evicted().is_empty(), "memory is short");
    assert!(evicted(&world, &old).len() <= 1, "of three ranges it has reserved two: {:?}", world.evicted());
    world.tear_down();
}
