//! Local memory and system memory: who is resident in which, who goes from one to the other, and what fits (SEG-42, SEG-47,
//! SEG-50, U-6, P21).

use crate::world::*;
use proptest::prelude::*;
use vidmm::contract::*;
use vidmm::*;

fn of(config: Config) -> (World, Client) {
    let mut world = World::new(config);
    let client = world.client();
    (world, client)
}

/// The segment that an address shows.
fn segment(world: &World, client: Client, at: u64) -> Option<SegmentId> {
    world.translate(client, at).map(|at| at.segment)
}

const SYSTEM: Option<SegmentId> = Some(SegmentId::SYSTEM);

/// An allocation of `pages` pages that may be in both, and prefers segments in this order.
fn preferring(world: &mut World, client: Client, pages: u64, ids: [u8; 5]) -> (AllocationId, u64) {
    let info = world.config.allocation(Place::LocalOrSystem, pages, SILENT);
    let preferred_segment = SegmentPreference::of(ids.map(SegmentId));
    let a = world.try_create(client, AllocationInfo { preferred_segment, ..info }).unwrap();
    (a, world.map(client, a))
}

/// SEG-42, SEG-12: the first preferred segment that has room; naming the aperture means system memory.
#[test]
fn the_preferred_segment_is_used_when_it_is_free() {
    let (mut world, client) = of(Config::discrete(16, 64));
    let cases = [
        ([0; 5], Some(LOCAL)),
        ([1, 0, 0, 0, 0], Some(LOCAL)),
        ([1, 2, 0, 0, 0], Some(LOCAL)),
        ([2, 0, 0, 0, 0], SYSTEM),
        ([2, 1, 0, 0, 0], SYSTEM),
    ];
    for (ids, expected) in cases {
        let (a, at) = preferring(&mut world, client, 8, ids);
        world.bring_in(client, &[a]);
        assert_eq!(segment(&world, client, at), expected, "{ids:?}");
        world.destroy(a);
        world.run_all();
    }
    world.tear_down();
}

/// SEG-47: a full segment is no reason to refuse what another of the set has room for.
#[test]
fn the_other_segment_is_used_when_the_preferred_one_is_full() {
    let (mut world, client) = of(Config::discrete(16, 32));
    let (a, a_at) = preferring(&mut world, client, 12, [1, 0, 0, 0, 0]);
    let (b, b_at) = preferring(&mut world, client, 12, [1, 0, 0, 0, 0]);
    let (c, c_at) = preferring(&mut world, client, 20, [2, 0, 0, 0, 0]);
    world.bring_in(client, &[a, b, c]);
    assert_eq!(segment(&world, client, a_at), Some(LOCAL));
    assert_eq!(segment(&world, client, b_at), SYSTEM);
    assert_eq!(segment(&world, client, c_at), SYSTEM);
    let (d, d_at) = preferring(&mut world, client, 4, [2, 0, 0, 0, 0]);
    world.bring_in(client, &[d]);
    assert_eq!(segment(&world, client, d_at), Some(LOCAL), "preferred is full");
    let (e, _) = preferring(&mut world, client, 1, [1, 0, 0, 0, 0]);
    let before = world.fingerprint();
    let answer = world.make_resident(client, &[e]);
    assert!(matches!(answer, Err(MakeResidentError::NoMemory { .. })), "{answer:?}");
    assert_eq!(world.fingerprint(), before, "RES-11");
    world.tear_down();
}

/// P21: content survives the way from local memory to system memory and back, and residency does not end.
#[test]
fn demotion_and_promotion_keep_the_content() {
    let (mut world, client) = of(Config::discrete(16, 64));
    let (a, at) = world.create_resident(client, Place::LocalOrSystem, 16, SILENT);
    world.submit(client, &[Access::Write(at, 1), Access::Write(at + 15 * PAGE_SIZE, 2)]);
    world.evict(client, &[a], IF_NECESSARY).unwrap();
    let (b, b_at) = world.create_resident(client, Place::Local, 16, SILENT);
    world.run_all();
    assert_eq!(segment(&world, client, at), SYSTEM, "demoted, and still resident");
    assert_eq!((world.token(client, at), world.token(client, at + 15 * PAGE_SIZE)), (Some(1), Some(2)));
    assert_eq!(world.vidmm.statistics().demotions, 1);

    // Listed again while local memory is full, it is usable where it is.
    assert_eq!(world.make_resident(client, &[a]), Ok(Residency::Resident));
    world.submit(client, &[Access::Write(at + PAGE_SIZE, 3), Access::Read(b_at)]);
    world.run_all();
    world.evict(client, &[a], IF_NECESSARY).unwrap();
    world.evict(client, &[b], SOON).unwrap();
    world.run_all();

    world.bring_in(client, &[a]);
    assert_eq!(segment(&world, client, at), Some(LOCAL), "promoted");
    assert_eq!(world.vidmm.statistics().promotions, 1);
    let tokens = [0, 1, 15].map(|page| world.token(client, at + page * PAGE_SIZE));
    assert_eq!(tokens, [Some(1), Some(3), Some(2)]);
    world.tear_down();
}

/// An allocation that may not be in system memory is evicted, not demoted.
#[test]
fn only_who_may_be_in_system_memory_is_demoted() {
    let (mut world, client) = of(Config::discrete(16, 64));
    let (a, at) = world.create_resident(client, Place::Local, 16, SILENT);
    world.evict(client, &[a], IF_NECESSARY).unwrap();
    world.create_resident(client, Place::Local, 16, SILENT);
    assert_eq!(world.translate(client, at), None);
    assert_eq!(world.vidmm.statistics().demotions, 0);
    world.tear_down();
}

/// SEG-50: demotion goes no further than the commit limit, and pushes nobody out of system memory.
#[test]
fn demotion_stops_at_the_commit_limit() {
    let (mut world, client) = of(Config::discrete(16, 24));
    let (_, kept) = world.create_resident(client, Place::System, 10, SILENT);
    let (first, first_at) = world.create_resident(client, Place::LocalOrSystem, 8, SILENT);
    let (second, second_at) = world.create_resident(client, Place::LocalOrSystem, 8, SILENT);
    world.evict(client, &[first, second], IF_NECESSARY).unwrap();
    world.create_resident(client, Place::Local, 16, SILENT);
    let mut at = [first_at, second_at].map(|at| segment(&world, client, at));
    at.sort();
    assert_eq!(at, [None, SYSTEM], "there is room for one of them");
    assert_eq!(segment(&world, client, kept), SYSTEM);
    world.tear_down();
}

/// RES-21: Evict without conditions leaves no copy resident anywhere.
#[test]
fn an_unconditional_evict_does_not_demote() {
    let (mut world, client) = of(Config::discrete(16, 64));
    let (a, at) = world.create_resident(client, Place::LocalOrSystem, 8, SILENT);
    world.evict(client, &[a], SOON).unwrap();
    world.run_all();
    assert_eq!(world.translate(client, at), None);
    assert_eq!(world.vidmm.statistics().demotions, 0);
}

/// A demoted allocation counts against the commit limit until it is evicted from there; it goes when the room is
/// wanted.
#[test]
fn the_demoted_make_room_in_system_memory() {
    let (mut world, client) = of(Config::discrete(16, 32));
    let (a, at) = world.create_resident(client, Place::LocalOrSystem, 16, SILENT);
    world.submit(client, &[Access::Write(at, 8)]);
    world.evict(client, &[a], IF_NECESSARY).unwrap();
    let (b, _) = world.create_resident(client, Place::Local, 16, SILENT);
    world.run_all();
    assert_eq!(segment(&world, client, at), SYSTEM);
    world.create_resident(client, Place::System, 32, SILENT);
    assert_eq!(world.translate(client, at), None, "evicted from there");
    world.evict(client, &[b], SOON).unwrap();
    world.bring_in(client, &[a]);
    assert_eq!(world.token(client, at), Some(8));
    world.tear_down();
}

/// P08: two devices that want both pools get what is theirs, whoever comes first, and keep it.
#[test]
fn two_devices_share_both_pools() {
    let (mut world, client) = of(Config::discrete(16, 16));
    let other = world.client();
    let (_, local_at) = world.create_resident(client, Place::Local, 12, SILENT);
    let (_, system_at) = world.create_resident(other, Place::System, 12, SILENT);
    // Each pool has 4 pages left, and the budget of each process is half of it.
    for (client, place) in [(client, Place::System), (other, Place::Local)] {
        let a = world.create(client, place, 9, SILENT);
        let answer = world.make_resident(client, &[a]);
        assert!(matches!(answer, Err(MakeResidentError::NoMemory { .. })), "{place:?}: {answer:?}");
        let (_, at) = world.create_resident(client, place, 4, SILENT);
        assert!(world.translate(client, at).is_some());
    }
    let either = world.create(client, Place::LocalOrSystem, 5, SILENT);
    let answer = world.make_resident(client, &[either]);
    assert!(matches!(answer, Err(MakeResidentError::NoMemory { .. })), "both are full: {answer:?}");
    assert_eq!(segment(&world, client, local_at), Some(LOCAL), "nobody lost what is required");
    assert_eq!(segment(&world, other, system_at), SYSTEM);
    world.tear_down();
}

/// D2, D5: two devices that run ahead over both pools get all their work done, with the right bytes.
#[test]
fn two_devices_compete_in_both_pools() {
    let (mut world, client) = of(Config::discrete(16, 16));
    let clients = [client, world.client()];
    let places = [Place::Local, Place::System, Place::LocalOrSystem, Place::LocalOrSystem];
    let mut all = Vec::new();
    for client in clients {
        for place in places {
            let a = world.create(client, place, 6, EVICTION);
            all.push((client, a, world.map(client, a), 0));
        }
    }
    for round in 0..60u64 {
        let number = (round * 5 % 8) as usize;
        let (client, a, at, last) = all[number];
        let answer = world.make_resident(client, &[a]);
        assert!(answer.is_ok(), "round {round}: half of each pool is enough for one: {answer:?}");
        let handle = world.handle(a);
        world.submit(client, &[Access::ReadSurface(at, handle, 0), Access::WriteSurface(at, handle, 0, round + 1)]);
        all[number].3 = round + 1;
        world.evict(client, &[a], if round % 3 == 0 { SOON } else { IF_NECESSARY }).unwrap();
        if round % 4 == 0 {
            world.run_all();
            let expected = last;
            assert_eq!(world.read.last(), Some(&expected), "round {round}");
        }
    }
    world.run_all();
    assert_eq!(world.read.len(), 60);
    world.tear_down();
}

/// RES-13: memory of which nothing is missing is not worth trimming, and the refusal says so.
#[test]
fn a_refusal_names_the_memory_that_is_short() {
    let (mut world, client) = of(Config::discrete(16, 16));
    let places = [Place::Local, Place::System, Place::System];
    let listed = places.map(|place| world.create_resident(client, place, 8, SILENT).0);
    let wanted = world.create(client, Place::Local, 12, SILENT);
    assert_eq!(world.misses(client, &[wanted]), [(LOCAL, 4)]);
    world.evict(client, &listed[2..], SOON).unwrap();
    assert_eq!(world.misses(client, &[wanted]), [(LOCAL, 4)], "that made no room");
    let either = world.create(client, Place::LocalOrSystem, 12, SILENT);
    assert_eq!(world.misses(client, &[either]), [(LOCAL, 4), (SegmentId::SYSTEM, 4)], "each alone would do");
    let neither = world.create(client, Place::LocalOrSystem, 20, SILENT);
    assert_eq!(world.misses(client, &[neither]), [], "nothing would do");
    assert_eq!(world.vidmm.query_account(listed[0]), Ok(LOCAL_MEMORY));
    let system = MemoryAccount { segment: SegmentId::SYSTEM, group: Some(MemorySegmentGroup::NonLocal) };
    assert_eq!(world.vidmm.query_account(listed[1]), Ok(system), "where it was counted last");
    world.evict(client, &listed[..1], SOON).unwrap();
    world.bring_in(client, &[wanted]);
    world.tear_down();
}

/// RES-13, P03: when either pool would do, trimming what is said is enough, wherever the trimmed are.
#[test]
fn trimming_what_is_said_is_enough_in_either_pool() {
    for from_the_end in [false, true] {
        let (mut world, client) = of(Config::discrete(16, 16));
        let places = [Place::Local, Place::LocalOrSystem, Place::System, Place::System];
        let mut listed: Vec<AllocationId> =
            places.map(|place| world.create_resident(client, place, 8, SILENT).0).into();
        let wanted = world.create(client, Place::LocalOrSystem, 8, SILENT);
        let Err(MakeResidentError::NoMemory { num_bytes_to_trim, .. }) = world.make_resident(client, &[wanted]) else {
            panic!("both pools are full")
        };
        assert!(num_bytes_to_trim <= 32 * PAGE_SIZE);
        if from_the_end {
            listed.reverse();
        }
        let count = num_bytes_to_trim.div_ceil(8 * PAGE_SIZE) as usize;
        for &victim in &listed[..count] {
            world.evict(client, &[victim], SOON).unwrap();
        }
        let _: Residency = world.make_resident(client, &[wanted]).expect("what was said was trimmed");
        world.run_all();
        world.tear_down();
    }
}

/// I32, SEG-47: an idle allocation in local memory, that is asked for together with what needs all of local memory, goes to
/// system memory.
#[test]
fn a_request_moves_what_it_names_to_make_room() {
    let (mut world, client) = of(Config::discrete(14, 64));
    let (b, b_at) = world.create_resident(client, Place::LocalOrSystem, 1, SILENT);
    world.submit(client, &[Access::Write(b_at, 6)]);
    world.run_all();
    world.evict(client, &[b], IF_NECESSARY).unwrap();
    let a = world.create(client, Place::Local, 14, SILENT);
    let a_at = world.map(client, a);
    world.bring_in(client, &[a, b]);
    assert_eq!(segment(&world, client, a_at), Some(LOCAL));
    assert_eq!((segment(&world, client, b_at), world.token(client, b_at)), (SYSTEM, Some(6)));
    world.tear_down();
}

/// SEG-40: an allocation is in a segment of its set, or in none.
fn is_in_its_set(world: &World, client: Client, place: Place, at: u64) {
    let found = segment(world, client, at);
    let allowed: &[Option<SegmentId>] = match place {
        Place::Local => &[None, Some(LOCAL)],
        Place::System => &[None, SYSTEM],
        Place::LocalOrSystem => &[None, Some(LOCAL), SYSTEM],
        Place::Aperture => &[None, Some(SegmentId(2))],
    };
    assert!(allowed.contains(&found), "{place:?} is in {found:?}");
}

const PLACES: [Place; 4] = [Place::Local, Place::System, Place::LocalOrSystem, Place::Aperture];

#[derive(Debug)]
struct Listed {
    a: AllocationId,
    place: Place,
    pages: u64,
    at: u64,
    token: u64,
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    /// RES-13, RES-14, I08: wherever allocations are listed, trimming what is said and trying again ends with success,
    /// or with nothing left to trim and a request that is too large by itself. One round is enough if what is said of each
    /// memory could be trimmed there (P03), in whatever order; ranges go first. What fits nowhere alone is refused for ever.
    #[test]
    fn trimming_is_enough_for_random_lists(
        pages in 8..40u64,
        units in 1..6u64,
        listed in prop::collection::vec((0..4usize, 1..12u64), 0..12),
        wanted in prop::collection::vec((0..4usize, 1..12u64), 1..4),
        order in any::<u64>(),
    ) {
        let (mut world, client) = of(Config::discrete(pages, units * 16));
        let mut all = Vec::new();
        for (number, &(place, pages)) in (0..).zip(&listed) {
            let a = world.create(client, PLACES[place], pages, SILENT);
            let at = world.map(client, a);
            if world.make_resident(client, &[a]).is_ok() {
                world.submit(client, &[Access::Write(at, 1000 + number)]);
                world.run_all();
                all.push(Listed { a, place: PLACES[place], pages, at, token: 1000 + number });
            }
        }
        let mut left = all;
        let requested: Vec<AllocationId> =
            wanted.iter().map(|&(place, pages)| world.create(client, PLACES[place], pages, SILENT)).collect();
        // The aperture's ranges are aligned to 64 KiB.
        let of = |kinds: &[Place]| wanted.iter().filter(|&&(place, _)| kinds.contains(&PLACES[place])).map(|w| w.1).sum::<u64>();
        let apertures = wanted.iter().filter(|&&(place, _)| PLACES[place] == Place::Aperture);
        let wanted_units: u64 = apertures.map(|&(_, pages)| pages.div_ceil(16)).sum();
        let fits = of(&[Place::Local, Place::LocalOrSystem]) <= pages
            && wanted_units <= units
            && of(&[Place::System, Place::Aperture]) <= units * 16;
        let mut was_trimmed = false;
        while let Err(error) = world.make_resident(client, &requested) {
            let MakeResidentError::NoMemory { num_bytes_to_trim, shortages, .. } = error else { panic!("{error}") };
            prop_assert_eq!(shortages.iter().map(|shortage| shortage.num_bytes_to_trim).sum::<u64>(), num_bytes_to_trim);
            prop_assert!(shortages.iter().all(|shortage| shortage.num_bytes_to_trim > 0));
            if left.is_empty() {
                prop_assert!(!fits, "there is nothing left to trim, and it would fit");
                break;
            }
            prop_assert!(!was_trimmed || !fits, "P03: what was said was trimmed");
            let before = left.len();
            was_trimmed = true;
            for shortage in shortages {
                let mut bytes = 0;
                while bytes < shortage.num_bytes_to_trim {
                    let counts = |listed: &Listed| world.vidmm.query_account(listed.a).unwrap() == shortage.account;
                    let there = (0..left.len()).filter(|&number| counts(&left[number]));
                    let (ranges, pages): (Vec<usize>, Vec<usize>) =
                        there.partition(|&number| left[number].place == Place::Aperture);
                    let there = if ranges.is_empty() { pages } else { ranges };
                    if there.is_empty() {
                        was_trimmed = false;
                        break;
                    }
                    let victim = left.remove(there[order.rotate_left(left.len() as u32 * 9) as usize % there.len()]);
                    world.evict(client, &[victim.a], SOON).unwrap();
                    bytes += victim.pages * PAGE_SIZE;
                }
            }
            if left.len() == before {
                left.drain(..).for_each(|victim| world.evict(client, &[victim.a], SOON).unwrap());
            }
        }
        world.run_all();
        for listed in left {
            is_in_its_set(&world, client, listed.place, listed.at);
            prop_assert_eq!(world.token(client, listed.at), Some(listed.token));
        }
        world.tear_down();
    }
}

/// RES-13: allocations beyond all measure are refused, however many.
#[test]
fn sizes_that_could_never_fit_are_refused_without_overflow() {
    let (mut world, client) = World::with_pages(64);
    let info = world.config.allocation(Place::LocalOrSystem, 1 << 50, SILENT);
    let all: Vec<AllocationId> = (0..3).map(|_| world.try_create(client, info).unwrap()).collect();
    let answer = world.make_resident(client, &all);
    assert!(matches!(answer, Err(MakeResidentError::NoMemory { num_bytes_to_trim: 0, .. })));
}
