//! Trim notifications: who is asked to give up memory, when, and how much (RES-40..RES-44, 5.5).

use crate::world::*;
use vidmm::*;

const TO_BUDGET: TrimFlags = TrimFlags::TRIM_TO_BUDGET;
const PERIODIC: TrimFlags = TrimFlags::PERIODIC_TRIM;
const RESTART: TrimFlags = TrimFlags::RESTART_PERIODIC_TRIM;

fn register(world: &mut World, client: Client) -> TrimNotificationId {
    let registered = world.call(|vidmm, _, _| vidmm.register_trim_notification(client.device)).unwrap();
    world.poll();
    registered
}

fn unregister(world: &mut World, notification: TrimNotificationId) -> Result<(), InvalidHandle> {
    world.call(|vidmm, _, _| vidmm.unregister_trim_notification(notification))
}

/// The requests since the last look: which registration, why, and how many pages.
fn asked(world: &mut World) -> Vec<(TrimNotificationId, TrimFlags, u64)> {
    let asked = |output| match output {
        Output::TrimNotification { notification, flags, num_bytes_to_trim, .. } => {
            Some((notification, flags, num_bytes_to_trim / PAGE_SIZE))
        }
        _ => None,
    };
    std::mem::take(&mut world.outputs).into_iter().filter_map(asked).collect()
}

fn set_intervals(world: &mut World, min: u64, max: u64, idle: u64) {
    let [min, max, idle] = [min, max, idle].map(|time| time * MILLISECOND);
    world.call(|vidmm, _, _| vidmm.set_trim_intervals(TrimIntervals { min, max, idle }));
}

/// 64 pages, of which one process has 44 on its list, and another 16: its budget is 48.
fn with_44_of_64_pages() -> (World, Client, Vec<AllocationId>, Client) {
    let (mut world, client) = World::with_pages(64);
    let other = world.client();
    let listed: Vec<AllocationId> = (0..44).map(|_| world.allocate(client, 1)).collect();
    world.bring_in(client, &listed);
    world.resident(other, 16);
    (world, client, listed, other)
}

/// Lists `pages` more, and lets 5 ms pass.
fn list_more(world: &mut World, client: Client, pages: u64) -> AllocationId {
    let more = world.allocate(client, pages);
    let _: Residency = world.make_resident(client, &[more]).unwrap();
    world.wait(5 * MILLISECOND);
    more
}

/// RES-43: an interval may be without end; then a process is asked once.
#[test]
fn an_interval_without_end_asks_once() {
    let (mut world, client, _, other) = with_44_of_64_pages();
    let never = Nanoseconds::MAX;
    world.call(|vidmm, _, _| vidmm.set_trim_intervals(TrimIntervals { min: never, max: never, idle: never }));
    world.wait(MILLISECOND);
    let registered = register(&mut world, client);
    list_more(&mut world, other, 16);
    assert_eq!(asked(&mut world), [(registered, TO_BUDGET, 12)]);
    world.wait(1000 * MILLISECOND);
    assert_eq!(asked(&mut world), []);
}

/// P07, RES-41: the budget falls from 48 to 32 pages, 44 are on the list: only that process is asked, for 12.
#[test]
fn a_process_above_its_budget_is_asked_to_trim_the_difference() {
    let (mut world, client, listed, other) = with_44_of_64_pages();
    let innocent = register(&mut world, other);
    let notification = register(&mut world, client);
    assert_eq!(asked(&mut world), [], "nobody is asked while memory is not short");
    list_more(&mut world, other, 16);
    assert_eq!(asked(&mut world), [(notification, TO_BUDGET, 12)]);
    world.evict(client, &listed[..12], SOON).unwrap();
    world.run_all();
    world.wait(5000 * MILLISECOND);
    assert_eq!(asked(&mut world), [], "it has trimmed");
    assert_eq!(world.local_info(client).current_usage, 32 * PAGE_SIZE);
    assert_eq!(world.local_info(client).budget, 32 * PAGE_SIZE);
    let yielded = world.yielded().into_iter().filter(|&(device, _)| device == client.device);
    assert_eq!(yielded.count(), 0, "who trims in time does not yield");
    unregister(&mut world, innocent).unwrap();
    world.tear_down();
}

/// RES-40: a process that does not trim is not asked for the same amount again; one that trims too little is.
#[test]
fn a_process_that_trims_too_little_is_asked_again() {
    let (mut world, client, listed, other) = with_44_of_64_pages();
    let notification = register(&mut world, client);
    list_more(&mut world, other, 16);
    assert_eq!(asked(&mut world), [(notification, TO_BUDGET, 12)]);
    world.wait(5000 * MILLISECOND);
    assert_eq!(asked(&mut world), []);
    world.evict(client, &listed[..3], SOON).unwrap();
    world.wait(5000 * MILLISECOND);
    assert_eq!(asked(&mut world), [(notification, TO_BUDGET, 9)]);
    world.evict(client, &listed[3..4], SOON).unwrap();
    world.wait(5000 * MILLISECOND);
    assert_eq!(asked(&mut world), [(notification, TO_BUDGET, 8)]);
    world.tear_down();
}

/// RES-40, U-30: a device has a moment for each request, however often its process comes above its budget meanwhile.
#[test]
fn a_device_has_a_moment_for_each_request_to_trim() {
    let (mut world, client, _, other) = with_44_of_64_pages();
    let notification = register(&mut world, client);
    list_more(&mut world, other, 16);
    assert_eq!(asked(&mut world), [(notification, TO_BUDGET, 12)]);
    for band in [PriorityBand::Focus, PriorityBand::Normal, PriorityBand::Focus, PriorityBand::Normal] {
        world.set_priority(client, band, Visibility::Visible);
        world.wait(MILLISECOND);
        assert_eq!(asked(&mut world), []);
    }
    world.wait(MILLISECOND);
    assert_eq!(asked(&mut world), [(notification, TO_BUDGET, 12)], "10 ms after the first");
    world.tear_down();
}

/// RES-40: a budget that moves is told at once.
#[test]
fn a_budget_that_falls_further_is_asked_for_at_once() {
    let (mut world, client, _, other) = with_44_of_64_pages();
    let notification = register(&mut world, client);
    list_more(&mut world, other, 16);
    assert_eq!(asked(&mut world), [(notification, TO_BUDGET, 12)]);
    world.set_priority(client, PriorityBand::Normal, Visibility::Occluded);
    list_more(&mut world, other, 8);
    assert_eq!(asked(&mut world).last(), Some(&(notification, TO_BUDGET, 44 - 24)));
    world.tear_down();
}

/// RES-44: when pressure has fallen and comes back, the process is asked again.
#[test]
fn no_process_is_asked_after_pressure_has_fallen() {
    let (mut world, client, _, other) = with_44_of_64_pages();
    set_intervals(&mut world, 30, 1000, 1000);
    let notification = register(&mut world, client);
    let more = list_more(&mut world, other, 16);
    assert_eq!(asked(&mut world), [(notification, TO_BUDGET, 12)]);
    world.destroy(more);
    world.run_all();
    world.wait(500 * MILLISECOND);
    assert_eq!(asked(&mut world), []);
    list_more(&mut world, other, 16);
    assert_eq!(asked(&mut world), [(notification, TO_BUDGET, 12)]);
    world.tear_down();
}

/// RES-40: each registration is notified, until it ends: by itself with its device.
#[test]
fn a_registration_lasts_until_it_ends_or_its_device() {
    let (mut world, client, listed, other) = with_44_of_64_pages();
    let [first, second] = [(); 2].map(|()| register(&mut world, client));
    let sibling = world.sibling(client);
    let of_sibling = register(&mut world, sibling);
    list_more(&mut world, other, 16);
    let mut all = asked(&mut world);
    all.sort_by_key(|&(notification, ..)| notification);
    assert_eq!(all, [first, second, of_sibling].map(|notification| (notification, TO_BUDGET, 12)));
    unregister(&mut world, first).unwrap();
    assert!(unregister(&mut world, first).is_err());
    world.call(|vidmm, driver, _| vidmm.destroy_context(driver, sibling.context)).unwrap();
    world.call(|vidmm, _, _| vidmm.destroy_paging_queue(sibling.queue)).unwrap();
    world.call(|vidmm, driver, host| vidmm.destroy_device(driver, host, sibling.device)).unwrap();
    assert!(unregister(&mut world, of_sibling).is_err(), "it ended with its device");
    world.evict(client, &listed[..1], SOON).unwrap();
    world.wait(1000 * MILLISECOND);
    assert_eq!(asked(&mut world), [(second, TO_BUDGET, 11)]);
    let dead = world.call(|vidmm, _, _| vidmm.register_trim_notification(sibling.device));
    assert!(matches!(dead, Err(CreateError::InvalidHandle(_))));
}

/// A client whose device listens, and an address to work on.
fn listener(pages: u64, listed: u64) -> (World, Client, TrimNotificationId, u64) {
    let (mut world, client) = World::with_pages(pages);
    let notification = register(&mut world, client);
    let (_, at) = world.resident(client, listed);
    (world, client, notification, at)
}

/// RES-42, RES-43: a device that submits is asked once at the end of each period in which it did.
#[test]
fn a_device_that_submits_trims_periodically() {
    let (mut world, client, notification, at) = listener(64, 4);
    set_intervals(&mut world, 10, 20, 40);
    world.wait(200 * MILLISECOND);
    assert_eq!(asked(&mut world), [], "nothing was submitted");
    for _ in 0..3 {
        for _ in 0..2 {
            world.submit(client, &[Access::Read(at)]);
            world.wait(MILLISECOND);
            world.complete(RENDER);
        }
        world.wait(37 * MILLISECOND);
        assert_eq!(asked(&mut world), []);
        world.wait(MILLISECOND);
        assert_eq!(asked(&mut world), [(notification, PERIODIC, 0)]);
    }
    world.wait(200 * MILLISECOND);
    assert_eq!(asked(&mut world), [], "nothing was submitted since");
    world.tear_down();
}

/// RES-43: the fuller the lists, the shorter the period.
#[test]
fn periods_are_shorter_when_memory_is_short() {
    let period = |listed_by_others: u64| {
        let (mut world, client, notification, at) = listener(64, 20);
        set_intervals(&mut world, 10, 20, 40);
        let other = world.client();
        let allocation = world.allocate(other, listed_by_others);
        let _: Residency = world.cant_trim(other, &[allocation]).unwrap();
        world.wait(100 * MILLISECOND);
        asked(&mut world);
        world.submit(client, &[Access::Read(at)]);
        world.poll();
        let began = world.now;
        while asked(&mut world).iter().all(|&(asked, flags, _)| (asked, flags) != (notification, PERIODIC)) {
            world.wait(MILLISECOND);
        }
        (world.now - began) / MILLISECOND
    };
    assert_eq!([4, 24, 25, 44, 45].map(period), [40, 40, 20, 20, 10], "70 % of 64 pages are 44.8");
}

/// RES-42: after a period in which the device was suspended nothing is evicted: what it did not use it could not use.
#[test]
fn a_device_that_was_suspended_begins_anew() {
    let (mut world, client, notification, at) = listener(64, 4);
    set_intervals(&mut world, 10, 20, 40);
    world.submit(client, &[Access::Read(at)]);
    world.wait(MILLISECOND);
    world.complete(RENDER);
    world.call(|vidmm, _, _| vidmm.suspend_process(client.process, false)).unwrap();
    world.wait(5 * MILLISECOND);
    world.call(|vidmm, _, _| vidmm.resume_process(client.process)).unwrap();
    world.wait(100 * MILLISECOND);
    assert_eq!(asked(&mut world), [(notification, RESTART, 0)]);
    world.submit(client, &[Access::Read(at)]);
    world.wait(100 * MILLISECOND);
    assert_eq!(asked(&mut world), [(notification, PERIODIC, 0)], "the next period is like any other");
    world.tear_down();
}

/// RES-42: the same of a device that runs again when its period ends.
#[test]
fn a_device_that_runs_again_after_it_was_suspended_begins_anew() {
    let (mut world, client, notification, at) = listener(64, 4);
    set_intervals(&mut world, 10, 20, 40);
    world.submit(client, &[Access::Read(at)]);
    world.wait(MILLISECOND);
    world.complete(RENDER);
    world.call(|vidmm, _, _| vidmm.suspend_process(client.process, true)).unwrap();
    world.run_all();
    world.submit(client, &[Access::Read(at)]);
    world.run_all();
    asked(&mut world);
    world.wait(100 * MILLISECOND);
    assert_eq!(asked(&mut world), [(notification, RESTART, 0)]);
    world.tear_down();
}

/// RES-43: an amount that changes without the budget is asked for again after the smallest interval, and not before.
#[test]
fn a_changed_amount_is_asked_for_after_the_smallest_interval() {
    let (mut world, client, listed, other) = with_44_of_64_pages();
    let notification = register(&mut world, client);
    list_more(&mut world, other, 16);
    assert_eq!(asked(&mut world), [(notification, TO_BUDGET, 12)]);
    world.evict(client, &listed[..3], SOON).unwrap();
    world.wait(990 * MILLISECOND);
    assert_eq!(asked(&mut world), []);
    world.wait(10 * MILLISECOND);
    assert_eq!(asked(&mut world), [(notification, TO_BUDGET, 9)]);
    world.tear_down();
}

/// The manager asks for the time at which somebody is to be asked, and for none when nobody is.
#[test]
fn the_manager_wakes_when_somebody_is_to_be_asked() {
    let (mut world, client, _, at) = listener(64, 4);
    set_intervals(&mut world, 10, 20, 40);
    world.poll();
    assert_eq!(world.vidmm.next_wake(), None);
    world.wait(7 * MILLISECOND);
    world.submit(client, &[Access::Read(at)]);
    world.poll();
    assert_eq!(world.vidmm.next_wake(), Some(47 * MILLISECOND));
    world.complete(RENDER);
    world.now = 47 * MILLISECOND;
    world.poll();
    assert_eq!(world.vidmm.next_wake(), None);
    assert_eq!(asked(&mut world).len(), 1);
    world.tear_down();
}

/// RES-40, RES-41: a registration of a device that is above its budget already is told at once, whatever others were told.
#[test]
fn a_device_that_registers_above_its_budget_is_asked_at_once() {
    let (mut world, client, _, other) = with_44_of_64_pages();
    list_more(&mut world, other, 16);
    world.wait(MILLISECOND);
    let first = register(&mut world, client);
    assert_eq!(asked(&mut world), [(first, TO_BUDGET, 12)]);
    let second = register(&mut world, client);
    assert_eq!(asked(&mut world), [(second, TO_BUDGET, 12)], "the first was told already");
    unregister(&mut world, first).unwrap();
    world.wait(MILLISECOND);
    let third = register(&mut world, client);
    assert_eq!(asked(&mut world), [(third, TO_BUDGET, 12)]);
    world.tear_down();
}

/// RES-42: the period of a device ends with it; a new device has its own from its beginning on.
#[test]
fn a_device_has_its_own_period_though_one_that_is_gone_had_begun_one() {
    let (mut world, client) = World::with_pages(64);
    set_intervals(&mut world, 10, 20, 40);
    let gone = world.sibling(client);
    register(&mut world, gone);
    world.submit_to(gone.context, &[Access::Tag(1)], &[], &[]);
    world.run_all();
    world.call(|vidmm, driver, _| vidmm.destroy_context(driver, gone.context)).unwrap();
    world.call(|vidmm, _, _| vidmm.destroy_paging_queue(gone.queue)).unwrap();
    world.call(|vidmm, driver, host| vidmm.destroy_device(driver, host, gone.device)).unwrap();
    world.wait(30 * MILLISECOND);
    let new = world.sibling(client);
    let registered = register(&mut world, new);
    world.submit_to(new.context, &[Access::Tag(2)], &[], &[]);
    world.run_all();
    asked(&mut world);
    world.wait(39 * MILLISECOND);
    assert_eq!(asked(&mut world), []);
    world.wait(MILLISECOND);
    assert_eq!(asked(&mut world), [(registered, PERIODIC, 0)]);
}
