//! Turns: devices whose lists do not fit together run one after the other (RES-71, D3, U-30, U-38, U-39).

use crate::world::*;
use vidmm::event::{EvictReason, ResumeReason, SuspendReason};
use vidmm::*;

/// How long the work of a player takes.
const WORK: Nanoseconds = 2 * MILLISECOND;

const SECOND: Nanoseconds = 1000 * MILLISECOND;

/// A client that always has work.
struct Player {
    client: Client,
    at: u64,
    submitted: u64,
    done: u64,
}

/// The turns: device, from, to.
type Turn = (DeviceId, Nanoseconds, Nanoseconds);

/// Its list has one allocation of `pages` pages, whatever its budget is.
fn player(world: &mut World, client: Client, pages: u64) -> Player {
    let allocation = world.allocate(client, pages);
    let at = world.map(client, allocation);
    let _: Residency = world.cant_trim(client, &[allocation]).unwrap();
    Player { client, at, submitted: 0, done: 0 }
}

/// Each has two packets that have not ended.
fn keep_busy(world: &mut World, players: &mut [Player]) {
    for (number, player) in (0..).zip(players) {
        while player.submitted < player.done + 2 {
            world.submit(player.client, &[Access::Read(player.at), Access::Tag(number)]);
            player.submitted += 1;
        }
    }
}

/// The engine ends a packet, if it has one.
fn end_one(world: &mut World, players: &mut [Player]) {
    if world.can_complete(RENDER) {
        world.read.clear();
        world.complete(RENDER);
        players[world.read[1] as usize].done += 1;
    }
}

/// All players keep two packets ahead for so long; the engine takes 2 ms for each. Returns which ran when.
fn play(world: &mut World, players: &mut [Player], time: Nanoseconds) -> Vec<Turn> {
    let end = world.now + time;
    let mut seen = world.events.len();
    let mut began = std::collections::BTreeMap::new();
    let mut turns = Vec::new();
    while world.now < end {
        keep_busy(world, players);
        world.wait(WORK);
        end_one(world, players);
        world.run_paging();
        for event in &world.events[seen..] {
            match *event {
                Event::DeviceResumed { device, .. } => _ = began.insert(device, world.now),
                Event::DeviceYielded { device, .. } => {
                    turns.extend(began.remove(&device).map(|began| (device, began, world.now)));
                }
                _ => {}
            }
        }
        seen = world.events.len();
    }
    turns
}

/// Clocks jump: also to their end, where nothing can be later.
#[test]
fn turns_go_on_at_the_end_of_time() {
    let (mut world, first) = World::with_pages(100);
    let second = world.client();
    let mut players = [first, second].map(|client| player(&mut world, client, 60));
    play(&mut world, &mut players, 20 * MILLISECOND);
    for now in [Nanoseconds::MAX - SECOND, Nanoseconds::MAX] {
        world.now = now;
        for _ in 0..4 {
            keep_busy(&mut world, &mut players);
            world.poll();
            world.run_paging();
            end_one(&mut world, &mut players);
        }
    }
    assert!(players.iter().all(|player| player.done > 0), "both have run");
}

/// P13, U-39, D3: two devices of 60 % each both run, each for a slice of at least 100 ms, and most of the time is work.
#[test]
fn devices_that_do_not_fit_together_run_in_turn() {
    let (mut world, first) = World::with_pages(10);
    let second = world.client();
    let mut players = [first, second].map(|client| player(&mut world, client, 6));
    let turns = play(&mut world, &mut players, 4000 * MILLISECOND);
    assert!(turns.len() >= 10, "{turns:?}");
    assert!(turns.windows(2).all(|two| two[0].0 != two[1].0), "they alternate: {turns:?}");
    for (_, from, to) in turns {
        let slice = (to - from) / MILLISECOND;
        assert!((98..=110).contains(&slice), "a slice of {slice} ms");
    }
    for player in &players {
        assert!(player.done * WORK >= 1800 * MILLISECOND, "{} of 2000 packets", player.done);
    }
    world.tear_down();
}

/// D3: a device whose list fits alone makes progress beside ones that never stop, however many they are.
#[test]
fn a_list_that_fits_alone_gets_its_turn() {
    let (mut world, first) = World::with_pages(8);
    let mut players = vec![player(&mut world, first, 8)];
    for _ in 0..4 {
        let client = world.client();
        players.push(player(&mut world, client, 5));
    }
    play(&mut world, &mut players, 5000 * MILLISECOND);
    let done: Vec<u64> = players.iter().map(|player| player.done).collect();
    assert!(done.iter().all(|&done| done * WORK >= 500 * MILLISECOND), "{done:?}");
    world.tear_down();
}

/// U-39: whose list took long to come back runs longer: four times as long.
#[test]
fn a_slice_is_four_times_as_long_as_its_paging() {
    let (mut world, first) = World::with_pages(8);
    let second = world.client();
    let mut players = [first, second].map(|client| player(&mut world, client, 6));
    play(&mut world, &mut players, 300 * MILLISECOND);
    let resumes = world.resumed().len();
    while world.resumed().len() == resumes {
        keep_busy(&mut world, &mut players);
        world.now += WORK;
        world.poll();
        end_one(&mut world, &mut players);
    }
    let (device, _) = *world.resumed().last().unwrap();
    let resumed_at = world.now;
    world.now += 50 * MILLISECOND;
    let yields = world.yielded().len();
    while world.yielded().len() == yields {
        play(&mut world, &mut players, WORK);
    }
    assert_eq!(world.yielded()[yields].0, device);
    let ran = (world.now - resumed_at) / MILLISECOND - 50;
    assert!((200..=210).contains(&ran), "its paging took 50 ms, and it ran for {ran} ms");
    world.tear_down();
}

/// U-30, U-38: a process within its budget yields only to one that has waited for a second.
#[test]
fn a_process_within_its_budget_yields_after_a_second() {
    let (mut world, modest) = World::with_pages(8);
    let mut players = vec![player(&mut world, modest, 4)];
    world.run_paging();
    let greedy = world.client();
    players.push(player(&mut world, greedy, 6));
    let before = world.yielded().len();
    play(&mut world, &mut players, 990 * MILLISECOND);
    assert_eq!(world.yielded()[before..], []);
    play(&mut world, &mut players, 20 * MILLISECOND);
    assert_eq!(world.yielded()[before..], [(modest.device, SuspendReason::Starvation)]);
    play(&mut world, &mut players, 3000 * MILLISECOND);
    let [first, second] = [0, 1].map(|index| players[index].done);
    assert!(first > 10 * second && second > 0, "the one within its budget runs most of the time: {first}, {second}");
    world.tear_down();
}

/// P08, U-30: the foreground within its budget never yields, even to one that waits for ever.
#[test]
fn the_foreground_within_its_budget_never_yields() {
    for band in [PriorityBand::Focus, PriorityBand::Dwm] {
        let (mut world, foreground) = World::with_pages(8);
        world.set_priority(foreground, band, Visibility::Visible);
        let mut players = vec![player(&mut world, foreground, 4)];
        world.run_paging();
        let greedy = world.client();
        players.push(player(&mut world, greedy, 6));
        play(&mut world, &mut players, 10_000 * MILLISECOND);
        assert_eq!(world.evicted(), []);
        assert_eq!(players[1].done, 0);
        assert!(world.yielded().iter().all(|&(device, _)| device != foreground.device));
        // When it is in the background it is like any other.
        world.set_priority(foreground, PriorityBand::Normal, Visibility::Visible);
        play(&mut world, &mut players, 3000 * MILLISECOND);
        assert!(players[1].done > 0);
        world.tear_down();
    }
}

/// P08, RES-71: a foreground that has drawn at 60 Hz and stops is asleep after 250 ms, and yields then; no sooner.
#[test]
fn a_foreground_that_is_asleep_yields() {
    for gap in [16, 90] {
        let (mut world, foreground) = World::with_pages(8);
        world.set_priority(foreground, PriorityBand::Focus, Visibility::Visible);
        let mut players = [player(&mut world, foreground, 4)];
        world.run_paging();
        let greedy = world.client();
        let wanted = world.allocate(greedy, 6);
        let _: Residency = world.cant_trim(greedy, &[wanted]).unwrap();
        for _ in 0..200 {
            world.submit(foreground, &[Access::Read(players[0].at), Access::Tag(0)]);
            world.poll();
            end_one(&mut world, &mut players);
            world.wait(gap * MILLISECOND);
        }
        let awake = 250.max(4 * gap) - gap;
        let its = |world: &World| world.yielded().iter().any(|&(device, _)| device == foreground.device);
        world.wait((awake - 1) * MILLISECOND);
        assert!(!its(&world), "a gap of {gap} ms");
        world.wait(MILLISECOND);
        assert!(world.yielded().contains(&(foreground.device, SuspendReason::Asleep)), "a gap of {gap} ms");
        world.run_all();
        assert!(world.placed.contains_key(&wanted));
        world.tear_down();
    }
}

/// RES-44: a wait behind a foreground that is awake is told once, after a second.
#[test]
fn a_wait_behind_the_foreground_is_told_once() {
    let (mut world, foreground) = World::with_pages(8);
    world.set_priority(foreground, PriorityBand::Focus, Visibility::Visible);
    let mut players = vec![player(&mut world, foreground, 4)];
    world.run_paging();
    let greedy = world.client();
    players.push(player(&mut world, greedy, 6));
    let told = |world: &World| {
        let told = |event: &Event| match *event {
            Event::DeviceHeldUp { device, behind, .. } => Some((device, behind)),
            _ => None,
        };
        world.events.iter().filter_map(told).collect::<Vec<_>>()
    };
    play(&mut world, &mut players, 990 * MILLISECOND);
    assert_eq!(told(&world), []);
    play(&mut world, &mut players, 3000 * MILLISECOND);
    assert_eq!(told(&world), [(greedy.device, foreground.device)]);
    world.set_priority(foreground, PriorityBand::Normal, Visibility::Visible);
    play(&mut world, &mut players, 3000 * MILLISECOND);
    world.tear_down();
}

/// RES-52, U-31: a process that has reserved all that it demands, and no more, keeps it however long another waits.
#[test]
fn a_process_that_has_reserved_what_it_demands_never_yields() {
    let (mut world, greedy) = World::with_pages(8);
    let mut players = vec![player(&mut world, greedy, 6)];
    world.run_paging();
    let reserved = world.client();
    world.reserve(reserved, 4 * PAGE_SIZE).unwrap();
    players.push(player(&mut world, reserved, 4));
    play(&mut world, &mut players, 10_000 * MILLISECOND);
    let its = |world: &World| {
        world.yielded().into_iter().filter(|&(device, _)| device == reserved.device).collect::<Vec<_>>()
    };
    assert_eq!(its(&world), [(reserved.device, SuspendReason::WaitsForRoom)], "it waits for its turn once");
    assert!(players[1].done > 0);
    world.reserve(reserved, 0).unwrap();
    play(&mut world, &mut players, 3000 * MILLISECOND);
    assert!(its(&world).len() > 1, "without a reservation it is a process like any other");
    world.tear_down();
}

/// P08, I26: the foreground above its budget is a device like any other.
#[test]
fn the_foreground_above_its_budget_yields() {
    let (mut world, foreground) = World::with_pages(8);
    world.set_priority(foreground, PriorityBand::Focus, Visibility::Visible);
    let mut players = vec![player(&mut world, foreground, 8)];
    world.run_paging();
    let other = world.client();
    players.push(player(&mut world, other, 1));
    play(&mut world, &mut players, 1000 * MILLISECOND);
    assert!(players[1].done > 0);
    assert_eq!(world.yielded().last().map(|last| last.1), Some(SuspendReason::SliceOver));
    world.tear_down();
}

/// RES-44: a device that was asked to trim has 10 ms for it; who does not listen has none.
#[test]
fn a_device_that_listens_has_a_moment_to_trim() {
    for listens in [true, false] {
        let (mut world, client) = World::with_pages(8);
        if listens {
            _ = world.call(|vidmm, _, _| vidmm.register_trim_notification(client.device)).unwrap();
        }
        world.resident(client, 6);
        let other = world.client();
        let wanted = world.allocate(other, 4);
        let _: Residency = world.make_resident(other, &[wanted]).unwrap();
        let idle = (client.device, SuspendReason::IdleOverBudget);
        world.wait(10 * MILLISECOND - 1);
        assert_eq!(world.yielded().contains(&idle), !listens);
        world.wait(1);
        assert!(world.yielded().contains(&idle));
        world.run_all();
        assert_eq!(world.local_info(other).current_usage, 4 * PAGE_SIZE);
        world.tear_down();
    }
}

/// RES-44, I32: a device that is asked to trim another amount every 10 ms, and has a moment for it each time, yields when another has
/// waited for a second.
#[test]
fn repeated_trim_requests_do_not_starve_other_devices() {
    let (mut world, client) = World::with_pages(8);
    _ = world.call(|vidmm, _, _| vidmm.register_trim_notification(client.device)).unwrap();
    world.resident(client, 6);
    let other = world.client();
    let wanted = world.allocate(other, 6);
    world.set_priority(other, PriorityBand::Focus, Visibility::Visible);
    let _: Residency = world.make_resident(other, &[wanted]).unwrap();
    world.set_priority(other, PriorityBand::Normal, Visibility::Visible);
    let idle = (client.device, SuspendReason::IdleOverBudget);
    let visibilities = [Visibility::Occluded, Visibility::Visible];
    for visibility in visibilities.into_iter().cycle().take(100) {
        world.wait(5 * MILLISECOND);
        world.set_priority(client, PriorityBand::Normal, visibility);
        world.wait(4 * MILLISECOND);
        assert!(!world.yielded().contains(&idle));
        world.wait(MILLISECOND);
    }
    assert!(world.yielded().contains(&idle));
    world.run_all();
    assert_eq!(world.local_info(other).current_usage, 6 * PAGE_SIZE);
    world.tear_down();
}

/// U-38: a device that has waited for a second goes before one in focus, for which room is still being made. Time alone decides that.
#[test]
fn a_device_that_starves_goes_first_when_its_time_comes() {
    let (mut world, runner) = World::with_pages(26);
    let [leaver, starving, in_focus] = [(); 3].map(|()| world.client());
    world.resident(runner, 20);
    let (left, _) = world.resident(leaver, 1);
    world.submit(runner, &[]);
    world.poll();
    let ask = |world: &mut World, client: Client, pages: u64| {
        let wanted = world.allocate(client, pages);
        let _: Residency = world.make_resident(client, &[wanted]).unwrap();
    };
    ask(&mut world, starving, 6);
    world.wait(500 * MILLISECOND);
    ask(&mut world, in_focus, 7);
    world.set_priority(in_focus, PriorityBand::Focus, Visibility::Visible);
    world.wait(100 * MILLISECOND);
    world.evict(leaver, &[left], SOON).unwrap();
    world.wait(399 * MILLISECOND);
    assert_eq!(world.paging_fence(starving), 0, "the six pages that are free are for the device in focus");
    world.wait(2 * MILLISECOND);
    assert_eq!((world.paging_fence(starving), world.paging_fence(in_focus)), (1, 0));
    world.complete(RENDER);
    world.run_all();
    assert_eq!(world.paging_fence(in_focus), 1);
    world.tear_down();
}

/// RES-71: of two that could make way the idle one does, and the one that is busy goes on.
#[test]
fn idle_devices_yield_before_busy_ones() {
    let (mut world, busy) = World::with_pages(12);
    let idle = world.client();
    let mut players = vec![player(&mut world, busy, 5)];
    world.run_paging();
    let (sleeping, _) = world.resident(idle, 5);
    let third = world.client();
    play(&mut world, &mut players, 200 * MILLISECOND);
    let before = world.yielded().len();
    players.push(player(&mut world, third, 4));
    play(&mut world, &mut players, 50 * MILLISECOND);
    let yielded: Vec<_> = world.yielded()[before..].iter().map(|&(device, _)| device).collect();
    assert_eq!(yielded, [third.device, idle.device]);
    assert_eq!(world.evicted(), [(sleeping, EvictReason::DeviceSuspended)]);
    world.tear_down();
}

/// RES-71: an idle device's memory comes back by itself when there is room again, and not in the moment after somebody
/// yielded.
#[test]
fn demoted_allocations_come_back_when_pressure_falls() {
    let (mut world, client) = World::with_pages(32);
    let (a, at) = world.resident(client, 20);
    world.submit(client, &[Access::Write(at, 7)]);
    world.run_all();
    let other = world.client();
    let [b, c] = [10, 1].map(|pages| world.allocate(other, pages));
    let more = world.allocate(other, 4);
    world.bring_in(other, &[b, c]);
    let _: Residency = world.make_resident(other, &[more]).unwrap();
    world.run_paging();
    assert_eq!(world.evicted(), [(a, EvictReason::DeviceSuspended)]);
    world.wait(1000 * MILLISECOND);
    assert_eq!(world.placed.get(&a), None, "there is no room");
    world.evict(other, &[more], SOON).unwrap();
    world.wait(1);
    assert_eq!(world.resumed().last(), Some(&(client.device, ResumeReason::PressureFell)));
    assert_eq!(world.token(client, at), Some(7));
    world.tear_down();
}

/// The same, while devices yield: not before nobody has yielded for 100 ms.
#[test]
fn demoted_allocations_come_back_only_when_it_is_calm() {
    let (mut world, client) = World::with_pages(32);
    let (a, _) = world.resident(client, 20);
    let other = world.client();
    let b = world.allocate(other, 14);
    world.bring_in(other, &[b]);
    let yielded = world.now;
    assert_eq!(world.evicted(), [(a, EvictReason::DeviceSuspended)]);
    world.evict(other, &[b], SOON).unwrap();
    world.wait(99 * MILLISECOND);
    assert_eq!(world.placed.get(&a), None);
    assert_eq!(world.vidmm.next_wake(), Some(yielded + 100 * MILLISECOND));
    world.wait(2 * MILLISECOND);
    assert!(world.placed.contains_key(&a));
    world.tear_down();
}

/// RES-55, U-30: a device above its budget that is resumed keeps in memory what is most important, and the rest in system
/// memory; when there is room, all comes back.
#[test]
fn the_least_important_is_demoted_and_comes_back() {
    let mut world = World::new(Config::discrete(8, 32));
    let client = world.client();
    let info = world.config.allocation(Place::LocalOrSystem, 2, SILENT);
    let create = |world: &mut World, priority| {
        let info = vidmm::contract::AllocationInfo { allocation_priority: priority, ..info };
        let allocation = world.try_create(client, info).unwrap();
        (allocation, world.map(client, allocation))
    };
    let made = [NORMAL - 1, NORMAL + 1, NORMAL, NORMAL - 2].map(|priority| create(&mut world, priority));
    let all = made.map(|(allocation, _)| allocation);
    world.bring_in(client, &all);
    for (&(_, at), token) in made.iter().zip(1..) {
        world.submit(client, &[Access::Write(at, token)]);
    }
    world.run_all();
    let foreground = world.client();
    world.set_priority(foreground, PriorityBand::Focus, Visibility::Visible);
    let wanted = world.allocate(foreground, 4);
    world.bring_in(foreground, &[wanted]);
    let reads = made.map(|(_, at)| Access::Read(at));
    world.submit(client, &reads);
    world.run_all();
    assert_eq!(world.read, [1, 2, 3, 4]);
    let local = |world: &World| all.map(|allocation| world.placed.get(&allocation) == Some(&LOCAL));
    assert_eq!(local(&world), [false, true, true, false]);
    assert!(world.placed.contains_key(&wanted), "and the foreground has kept what it has");
    let yields = world.yielded().len();

    world.evict(foreground, &[wanted], SOON).unwrap();
    world.wait(200 * MILLISECOND);
    assert_eq!(local(&world), [false, true, true, false], "what was demoted stays away for a second");
    world.wait(900 * MILLISECOND);
    assert_eq!(local(&world), [true; 4], "8 of 8 pages are home, and nothing is left over");
    assert!(
        !world.yielded()[yields..].contains(&(client.device, SuspendReason::Replace)),
        "it need not yield for that"
    );
    world.read.clear();
    world.submit(client, &reads);
    world.run_all();
    assert_eq!(world.read, [1, 2, 3, 4]);
    world.tear_down();
}

/// Brings allocations of a device in, of which the first is demoted for the foreground, which has 8 pages then.
fn demoted(world: &mut World, client: Client, allocations: &[AllocationId]) -> (Client, AllocationId) {
    world.bring_in(client, allocations);
    let foreground = world.client();
    world.set_priority(foreground, PriorityBand::Focus, Visibility::Visible);
    let wanted = world.allocate(foreground, 8);
    world.bring_in(foreground, &[wanted]);
    world.submit(client, &[]);
    world.run_all();
    assert_eq!(world.placed.get(&allocations[0]), Some(&SegmentId::SYSTEM));
    (foreground, wanted)
}

/// RES-55: a device that keeps nothing in memory comes back as well.
#[test]
fn a_device_that_was_demoted_whole_comes_back() {
    let mut world = World::new(Config::discrete(16, 32));
    let client = world.client();
    let a = world.create(client, Place::LocalOrSystem, 15, SILENT);
    let (foreground, wanted) = demoted(&mut world, client, &[a]);
    world.evict(foreground, &[wanted], SOON).unwrap();
    world.wait(1100 * MILLISECOND);
    assert_eq!(world.placed.get(&a), Some(&LOCAL));
    world.tear_down();
}

/// RES-55: a device whose demoted allocation has left its list has nothing to yield for.
#[test]
fn a_device_yields_for_nothing_that_is_not_on_its_list() {
    let mut world = World::new(Config::discrete(16, 32));
    let client = world.client();
    let a = world.create(client, Place::LocalOrSystem, 12, SILENT);
    let (foreground, wanted) = demoted(&mut world, client, &[a]);
    world.evict(client, &[a], SOON).unwrap();
    world.evict(foreground, &[wanted], SOON).unwrap();
    world.run_all();
    let yields = world.yielded().len();
    world.wait(1000 * MILLISECOND);
    assert_eq!(world.yielded()[yields..], []);
    world.tear_down();
}

/// RES-55: an allocation that had better be in system memory, and is there, needs no room in memory when the rest comes
/// back.
#[test]
fn allocations_that_prefer_system_memory_stay_there_when_the_rest_comes_back() {
    let mut world = World::new(Config::discrete(16, 32));
    let client = world.client();
    let a = world.create(client, Place::LocalOrSystem, 12, SILENT);
    let info = world.config.allocation(Place::LocalOrSystem, 12, SILENT);
    let mut segment_ids = [SegmentId(0); 5];
    (segment_ids[0], segment_ids[1]) = (world.config.aperture(), LOCAL);
    let preferred_segment = vidmm::contract::SegmentPreference::of(segment_ids);
    let b = world.try_create(client, vidmm::contract::AllocationInfo { preferred_segment, ..info }).unwrap();
    let (foreground, wanted) = demoted(&mut world, client, &[a, b]);
    world.evict(foreground, &[wanted], SOON).unwrap();
    world.wait(1100 * MILLISECOND);
    assert_eq!([a, b].map(|id| world.placed[&id]), [LOCAL, SegmentId::SYSTEM]);
    world.tear_down();
}

/// RES-55, U-30: a device within its budget is not demoted as long as it has not waited for a second.
#[test]
fn a_process_within_its_budget_is_not_demoted() {
    let mut world = World::new(Config::discrete(8, 32));
    let modest = world.client();
    let (a, at) = world.create_resident(modest, Place::LocalOrSystem, 4, SILENT);
    let mut players = vec![Player { client: modest, at, submitted: 0, done: 0 }];
    let greedy = world.client();
    players.push(player(&mut world, greedy, 6));
    for _ in 0..1500 {
        play(&mut world, &mut players, WORK);
        let waits = world.suspended.contains(&modest.device);
        assert!(waits || world.placed.get(&a) == Some(&LOCAL), "it runs with all of its list in memory");
    }
    assert!(players.iter().all(|player| player.done > 0), "both have run");
    world.tear_down();
}

/// RES-55, U-34: an allocation that another device has opened is demoted for nobody.
#[test]
fn shared_allocations_are_not_demoted() {
    let mut world = World::new(Config::discrete(8, 32));
    let (client, other) = (world.client(), world.client());
    let info = world.config.allocation(Place::LocalOrSystem, 6, SILENT);
    let shared = world.create_to_share(client, info);
    world.open(other, shared).unwrap();
    world.bring_in(client, &[shared]);
    let foreground = world.client();
    world.set_priority(foreground, PriorityBand::Focus, Visibility::Visible);
    let wanted = world.allocate(foreground, 4);
    world.bring_in(foreground, &[wanted]);
    world.submit(client, &[]);
    world.wait(200 * MILLISECOND);
    assert!(!world.can_complete(RENDER), "it waits for room in memory");
    world.evict(foreground, &[wanted], SOON).unwrap();
    world.run_all();
    assert_eq!(world.placed.get(&shared), Some(&LOCAL));
    world.tear_down();
}

/// RES-71, P06: no context of a resumed device runs before all of its list is back; other devices run meanwhile.
#[test]
fn nothing_of_a_resumed_device_runs_before_its_list_is_back() {
    let (mut world, client) = World::with_pages(10);
    let contexts = [client.context, world.context(client, COPY), world.context(client, RENDER)];
    let listed = [(); 5].map(|()| world.resident(client, 1));
    let bystander = world.client();
    let (_, its) = world.resident(bystander, 1);
    let other = world.client();
    let b = world.allocate(other, 6);
    let _: Residency = world.cant_trim(other, &[b]).unwrap();
    world.run_all();
    world.evict(other, &[b], SOON).unwrap();
    world.run_paging();
    for context in contexts {
        world.submit_to(context, &[Access::Read(listed[0].1)], &[], &[]);
    }
    world.submit(bystander, &[Access::Read(its)]);
    world.poll();
    assert!(world.can_complete(PAGING), "its list is under way");
    assert!(!world.can_complete(COPY));
    world.complete(RENDER);
    assert!(!world.can_complete(RENDER), "the rest is the device's");
    world.run_paging();
    assert!(world.can_complete(RENDER) && world.can_complete(COPY));
    world.run_all();
    assert_eq!(world.read.len(), 4);
    world.tear_down();
}

/// D5, I17: a device that yields loses nothing before its work in flight has ended.
#[test]
fn a_device_is_suspended_when_its_work_has_ended() {
    let (mut world, first) = World::with_pages(8);
    let second = world.client();
    let mut players = [first, second].map(|client| player(&mut world, client, 6));
    play(&mut world, &mut players, 50 * MILLISECOND);
    let running = players.iter().find(|player| !world.suspended.contains(&player.client.device));
    let device = running.expect("one of them runs").client.device;
    let evicted = world.evicted().len();
    keep_busy(&mut world, &mut players);
    world.wait(500 * MILLISECOND);
    assert_eq!(world.yielded().last(), Some(&(device, SuspendReason::SliceOver)));
    assert_eq!(world.evicted().len(), evicted);
    while !world.suspended.contains(&device) {
        assert!(world.can_complete(RENDER), "it is suspended in the end");
        end_one(&mut world, &mut players);
    }
    world.run_all();
    assert!(world.evicted().len() > evicted);
    world.tear_down();
}

/// RES-71: a device that has none of the memory that is wanted keeps what it has.
#[test]
fn no_device_yields_whose_memory_is_of_no_use() {
    let mut world = World::new(Config::discrete(8, 64));
    let [elsewhere, holder, waiting] = [0; 3].map(|_| world.client());
    world.create_resident(elsewhere, Place::System, 8, SILENT);
    world.resident(holder, 4);
    let b = world.allocate(waiting, 6);
    let _: Residency = world.cant_trim(waiting, &[b]).unwrap();
    world.wait(2_000 * MILLISECOND);
    let yielded: Vec<_> = world.yielded().iter().map(|&(device, _)| device).collect();
    assert!(yielded.contains(&holder.device), "{yielded:?}");
    assert!(!yielded.contains(&elsewhere.device), "{yielded:?}");
    world.tear_down();
}
