//! Budgets: what a process may keep resident while memory is short, and what it is told of that (5.6, U-24, U-31..U-33).

use crate::world::*;
use vidmm::contract::AddressingModel;
use vidmm::event::EvictReason;
use vidmm::*;

const GROUPS: [MemorySegmentGroup; 2] = [MemorySegmentGroup::Local, MemorySegmentGroup::NonLocal];

fn no_memory(pages: u64, reason: NoMemoryReason) -> Result<Residency, MakeResidentError> {
    Err(refused_in(LOCAL_MEMORY, pages * PAGE_SIZE, reason))
}

/// The pages that the client's process may have of local memory.
fn budget(world: &World, client: Client) -> u64 {
    world.local_info(client).budget / PAGE_SIZE
}

/// Budgets that a process was told, in pages.
fn told(world: &World, client: Client) -> Vec<u64> {
    let told = |output: &Output| match *output {
        Output::BudgetChanged { process, group: MemorySegmentGroup::Local, budget } if process == client.process => {
            Some(budget / PAGE_SIZE)
        }
        _ => None,
    };
    world.outputs.iter().filter_map(told).collect()
}

fn listen(world: &mut World, client: Client) {
    world.call(|vidmm, _, _| vidmm.notify_budget_changes(client.process, true)).unwrap();
    world.poll();
}

/// RES-53: however little a process weighs, it may have what nobody else wants.
#[test]
fn no_budget_is_imposed_while_all_lists_fit() {
    let (mut world, small) = World::with_pages(8);
    world.set_priority(small, PriorityBand::Normal, Visibility::Minimized);
    let large = world.client();
    world.set_priority(large, PriorityBand::Focus, Visibility::Visible);
    world.resident(large, 2);
    let (a, at) = world.resident(small, 6);
    assert_eq!(world.evict(small, &[a], IF_NECESSARY), Ok(()));
    world.bring_in(small, &[a]);
    assert!(world.translate(small, at).is_some());
    assert_eq!(world.yielded(), []);
    world.tear_down();
}

/// P02, RES-11, I07: of a MakeResident that is refused nothing is counted, whichever of its allocations does not fit.
#[test]
fn a_refused_make_resident_counts_nothing() {
    let (mut world, client) = World::with_pages(8);
    let other = world.client();
    world.resident(other, 4);
    let allocations = [(); 8].map(|()| world.allocate(client, 1));
    assert_eq!(world.make_resident(client, &allocations), no_memory(0, NoMemoryReason::OverBudget));
    for allocation in allocations {
        assert_eq!(world.evict(client, &[allocation], SOON), Err(EvictError::NotResident { position: 0 }));
    }
    assert_eq!(world.local_info(client).requested, 0);
    world.bring_in(client, &allocations[..4]);
    world.tear_down();
}

/// P03, I08: a process that trims what it was asked for succeeds with the same call, and one page less is not enough.
#[test]
fn trimming_what_was_asked_for_is_enough_and_not_absurd() {
    let (mut world, client) = World::with_pages(16);
    let other = world.client();
    world.resident(other, 8);
    let listed = [(); 6].map(|()| world.allocate(client, 1));
    world.bring_in(client, &listed);
    let wanted = world.allocate(client, 5);
    assert_eq!(world.make_resident(client, &[wanted]), no_memory(3, NoMemoryReason::OverBudget));
    world.evict(client, &listed[..2], SOON).unwrap();
    assert_eq!(world.make_resident(client, &[wanted]), no_memory(1, NoMemoryReason::OverBudget));
    world.evict(client, &listed[2..3], SOON).unwrap();
    world.bring_in(client, &[wanted]);
    world.tear_down();
}

/// RES-23, RES-57: Evict says how far the process still is above its budget.
#[test]
fn evict_says_what_is_left_to_trim() {
    let (mut world, client) = World::with_pages(8);
    let listed = [(); 6].map(|()| world.allocate(client, 1));
    world.bring_in(client, &listed);
    let other = world.client();
    world.resident(other, 2);
    let evict = |world: &mut World, allocation| {
        world.call(|vidmm, _, _| vidmm.evict(client.device, &[allocation], SOON)).unwrap() / PAGE_SIZE
    };
    let more = world.allocate(other, 2);
    let _: Residency = world.make_resident(other, &[more]).unwrap();
    assert_eq!([0, 1].map(|index| evict(&mut world, listed[index])), [1, 0]);
    world.tear_down();
}

/// P08: a process within its budget loses nothing that it requires, however much its neighbour wants.
#[test]
fn a_process_within_its_budget_loses_nothing_to_one_above() {
    let (mut world, greedy) = World::with_pages(16);
    let modest = world.client();
    let (b, b_at) = world.resident(modest, 6);
    world.submit(modest, &[Access::Write(b_at, 7)]);
    world.run_all();
    let (_, a_at) = world.resident(greedy, 10);
    let more = world.allocate(greedy, 4);
    assert_eq!(world.make_resident(greedy, &[more]), no_memory(4, NoMemoryReason::OverBudget));
    let _: Residency = world.cant_trim(greedy, &[more]).unwrap();
    for _ in 0..100 {
        world.submit(greedy, &[Access::Read(a_at)]);
        world.submit(modest, &[Access::Read(b_at)]);
        world.wait(5 * MILLISECOND);
        while world.can_complete(RENDER) {
            world.complete(RENDER);
        }
    }
    assert!(world.evicted().iter().all(|&(allocation, _)| allocation != b), "{:?}", world.evicted());
    assert_eq!(world.token(modest, b_at), Some(7));
    assert_eq!(world.local_info(modest).current_usage, 6 * PAGE_SIZE);
    world.tear_down();
}

/// RES-15, U-24: with CantTrimFurther a process may have all that others have not reserved, and no more.
#[test]
fn cant_trim_further_goes_up_to_what_others_have_reserved() {
    let (mut world, client) = World::with_pages(16);
    let other = world.client();
    world.reserve(other, 4 * PAGE_SIZE).unwrap();
    world.resident(other, 6);
    let [most, one] = [12, 1].map(|pages| world.allocate(client, pages));
    assert_eq!(world.make_resident(client, &[most, one]), no_memory(0, NoMemoryReason::OverBudget));
    assert_eq!(world.cant_trim(client, &[most, one]), no_memory(0, NoMemoryReason::OverMaximumBudget));
    assert!(matches!(world.cant_trim(client, &[most]), Ok(Residency::Pending { .. })));
    world.tear_down();
}

/// RES-13: a list that is larger than all of the memory never fits.
#[test]
fn a_list_that_does_not_fit_alone_never_fits() {
    let (mut world, client) = World::with_pages(8);
    let a = world.allocate(client, 9);
    assert_eq!(world.make_resident(client, &[a]), no_memory(0, NoMemoryReason::DoesNotFit));
    assert_eq!(world.cant_trim(client, &[a]), no_memory(0, NoMemoryReason::DoesNotFit));
    world.tear_down();
}

/// RES-15: MustSucceed is not for one who could trim, and its failure is the end of the device.
#[test]
fn must_succeed_that_fails_puts_the_device_in_error() {
    let (mut world, client) = World::with_pages(8);
    let sibling = world.sibling(client);
    let [fits, large] = [4, 9].map(|pages| world.allocate(client, pages));
    let must = MakeResidentFlags::MUST_SUCCEED;
    let with = |world: &mut World, allocation, flags| {
        world.call(|vidmm, _, _| vidmm.make_resident(client.queue, &[allocation], flags))
    };
    assert_eq!(with(&mut world, fits, must), Err(MakeResidentError::Flags));
    let must = must | MakeResidentFlags::CANT_TRIM_FURTHER;
    assert!(with(&mut world, fits, must).is_ok());
    world.run_all();
    assert_eq!(with(&mut world, large, must), no_memory(0, NoMemoryReason::DoesNotFit));
    let error = DeviceInError { device: client.device, reason: DeviceErrorReason::OutOfMemory };
    assert_eq!(with(&mut world, fits, must), Err(MakeResidentError::DeviceInError(error)));
    world.poll();
    let in_error = |output: &Output| matches!(output, Output::DeviceInError(found) if *found == error);
    assert_eq!(world.outputs.iter().filter(|output| in_error(output)).count(), 1);
    let of_sibling = world.allocate(sibling, 1);
    world.bring_in(sibling, &[of_sibling]);
    world.tear_down();
}

/// RES-52, U-31: all processes together reserve at most half of the memory, and each can change what it has reserved.
#[test]
fn half_of_the_memory_can_be_reserved() {
    let (mut world, client) = World::with_pages(16);
    let other = world.client();
    let too_much = |pages| Err(ReservationError::TooMuch { available_for_reservation: pages * PAGE_SIZE });
    assert_eq!(world.reserve(client, 9 * PAGE_SIZE), too_much(8));
    world.reserve(client, 5 * PAGE_SIZE).unwrap();
    assert_eq!(world.reserve(other, 4 * PAGE_SIZE), too_much(3));
    let info = world.local_info(client);
    assert_eq!(
        (info.current_reservation, info.available_for_reservation),
        (5 * PAGE_SIZE, 8 * PAGE_SIZE),
        "what it has reserved it can reserve again"
    );
    world.reserve(client, 2 * PAGE_SIZE).unwrap();
    world.reserve(other, 6 * PAGE_SIZE).unwrap();
    assert_eq!(world.local_info(client).available_for_reservation, 2 * PAGE_SIZE);
    world.tear_down();
}

/// RES-52, U-31: a reservation is the least that the budget can be, and raises nothing else.
#[test]
fn a_budget_is_never_below_the_reservation() {
    let (mut world, client) = World::with_pages(16);
    world.set_priority(client, PriorityBand::Normal, Visibility::Minimized);
    world.reserve(client, 8 * PAGE_SIZE).unwrap();
    let other = world.client();
    world.set_priority(other, PriorityBand::Focus, Visibility::Visible);
    let b = world.allocate(other, 16);
    world.bring_in(other, &[b]);
    assert_eq!([client, other].map(|user| budget(&world, user)), [8, 16], "it costs nothing while it is not used");
    let a = world.allocate(client, 8);
    assert!(matches!(world.make_resident(client, &[a]), Ok(Residency::Pending { .. })));
    assert_eq!(budget(&world, client), 8);
    assert_eq!(budget(&world, other), 8);
    world.tear_down();
}

/// U-32: memory that all want is shared by band and visibility.
#[test]
fn memory_is_shared_by_band_and_visibility() {
    use {PriorityBand::*, Visibility::*};
    let weight = |band, visibility| {
        (if band == Normal { 1 } else { 4 })
            * [1, 2, 4][[Minimized, Occluded, Visible].binary_search(&visibility).unwrap()]
    };
    for (band, visibility) in [Dwm, Focus, Normal]
        .into_iter()
        .flat_map(|band| [Minimized, Occluded, Visible].map(|visibility| (band, visibility)))
    {
        let (mut world, first) = World::with_pages(240);
        let second = world.client();
        for client in [first, second] {
            let all = world.allocate(client, 240);
            let _: Residency = world.cant_trim(client, &[all]).unwrap();
        }
        world.set_priority(first, band, visibility);
        let weights = [weight(band, visibility), weight(Normal, Visible)];
        let share = |own: u64| 240 * PAGE_SIZE * own / (weights[0] + weights[1]);
        let budgets = [first, second].map(|client| world.local_info(client).budget);
        assert_eq!(budgets, weights.map(share), "{band:?} {visibility:?}");
    }
}

/// U-32: a process that wants less than its share leaves the rest to the others.
#[test]
fn an_unwanted_share_is_left_to_the_others() {
    let (mut world, a) = World::with_pages(24);
    let [b, c] = [(); 2].map(|()| world.client());
    world.resident(c, 4);
    for client in [a, b] {
        let allocation = world.allocate(client, 20);
        let _: Residency = world.cant_trim(client, &[allocation]).unwrap();
    }
    assert_eq!([a, b, c].map(|client| budget(&world, client)), [10, 10, 8]);
    world.tear_down();
}

/// U-32, P11: a budget is told again only when it has moved by more than 5 %; what is queried is what was told last.
#[test]
fn a_budget_is_told_when_it_has_moved_by_more_than_a_twentieth() {
    let (mut world, client) = World::with_pages(100);
    listen(&mut world, client);
    assert_eq!(told(&world, client), [100]);
    let other = world.client();
    let pages = [(); 40].map(|()| world.allocate(other, 1));
    for (listed, page) in (1..).zip(pages) {
        world.bring_in(other, &[page]);
        let last = *told(&world, client).last().unwrap();
        assert_eq!(budget(&world, client), last, "P11");
        let moved: u64 = last - (100 - listed);
        assert!(moved * 20 <= last, "it was told {last}, but has {}", 100 - listed);
    }
    let falling = told(&world, client);
    assert_eq!(falling, [100, 94, 89, 84, 79, 75, 71, 67, 63]);
    for page in pages {
        world.evict(other, &[page], IF_NECESSARY).unwrap();
        world.poll();
        assert_eq!(budget(&world, client), *told(&world, client).last().unwrap(), "P11");
    }
    let rising = &told(&world, client)[falling.len()..];
    assert!(rising.is_sorted() && rising.len() <= falling.len(), "{rising:?}");
    world.tear_down();
}

/// U-32: a process is told at once of a change of its own.
#[test]
fn a_new_reservation_or_priority_is_seen_at_once() {
    let (mut world, client) = World::with_pages(160);
    let other = world.client();
    for user in [client, other] {
        let all = world.allocate(user, 160);
        let _: Residency = world.cant_trim(user, &[all]).unwrap();
    }
    listen(&mut world, client);
    assert_eq!(told(&world, client), [80]);
    world.reserve(client, 2 * PAGE_SIZE).unwrap();
    world.poll();
    assert_eq!(told(&world, client), [80, 81]);
    world.set_priority(client, PriorityBand::Focus, Visibility::Visible);
    world.poll();
    assert_eq!(told(&world, client)[2..], [2 + 158 * 16 / 20]);
    assert_eq!(budget(&world, client), *told(&world, client).last().unwrap());
    world.tear_down();
}

/// RES-53: only who asked is told.
#[test]
fn a_process_that_does_not_listen_is_told_nothing() {
    let (mut world, client) = World::with_pages(100);
    listen(&mut world, client);
    world.call(|vidmm, _, _| vidmm.notify_budget_changes(client.process, false)).unwrap();
    let other = world.client();
    world.resident(other, 50);
    assert_eq!(told(&world, client), [100]);
    assert_eq!(told(&world, other), [0u64; 0]);
    assert_eq!(budget(&world, other), 100);
    world.tear_down();
}

/// RES-53: what a process asks when it begins to listen, and what it is told from then on, go on from each other: the budget that it
/// was told when it listened last does not come back unsaid.
#[test]
fn a_process_that_listens_again_is_told_what_it_can_have_asked_for() {
    let (mut world, client) = World::with_pages(160);
    let other = world.client();
    listen(&mut world, client);
    world.call(|vidmm, _, _| vidmm.notify_budget_changes(client.process, false)).unwrap();
    let all = world.allocate(client, 160);
    let _: Residency = world.cant_trim(client, &[all]).unwrap();
    let all = world.allocate(other, 160);
    let _: Residency = world.cant_trim(other, &[all]).unwrap();
    assert_eq!(budget(&world, client), 80);
    world.call(|vidmm, _, _| vidmm.notify_budget_changes(client.process, true)).unwrap();
    world.set_priority(client, PriorityBand::Focus, Visibility::Visible);
    world.poll();
    assert_eq!(told(&world, client), [160, 80, 128]);
    world.tear_down();
}

/// P11, I16, U-33: usage is what is resident, requested is what is on lists; what is offered is in neither.
#[test]
fn usage_is_what_is_resident_and_requested_what_is_on_lists() {
    let (mut world, client) = World::with_pages(16);
    let figures = |world: &World| {
        let info = world.local_info(client);
        (info.current_usage / PAGE_SIZE, info.requested / PAGE_SIZE)
    };
    let sibling = world.sibling(client);
    let [a, b] = [3, 5].map(|pages| world.allocate(client, pages));
    assert_eq!(figures(&world), (0, 0));
    let _: Residency = world.make_resident(client, &[a, b, b]).unwrap();
    assert_eq!(figures(&world), (0, 8));
    world.run_paging();
    assert_eq!(figures(&world), (8, 8));
    let c = world.allocate(sibling, 2);
    world.bring_in(sibling, &[c]);
    assert_eq!(figures(&world), (10, 10), "of all devices of the process");
    world.evict(client, &[a], IF_NECESSARY).unwrap();
    world.run_all();
    assert_eq!(figures(&world), (10, 7));
    world.evict(client, &[b], SOON).unwrap();
    world.run_all();
    assert_eq!(figures(&world), (10, 7), "it is on the list once more");
    world.offer(sibling, &[c], OfferPriority::Low).unwrap();
    assert_eq!(figures(&world), (8, 5));
    world.evict(client, &[b], SOON).unwrap();
    world.run_all();
    assert_eq!(figures(&world), (3, 0));
    world.destroy(a);
    world.run_all();
    world.tear_down();
}

/// RES-50, U-3: without a memory segment all is one group.
#[test]
fn an_adapter_without_local_memory_has_one_group() {
    let mut world = World::new(Config::integrated(AddressingModel::GpuMmu, 32));
    let client = world.client();
    let (_, _) = world.create_resident(client, Place::System, 8, SILENT);
    let info = GROUPS.map(|group| world.vidmm.query_video_memory_info(client.process, group).unwrap());
    assert_eq!(info[0].budget, 32 * PAGE_SIZE);
    assert_eq!((info[0].current_usage, info[0].requested), (8 * PAGE_SIZE, 8 * PAGE_SIZE));
    assert_eq!(info[1], VideoMemoryInfo::default());
    let group = MemorySegmentGroup::NonLocal;
    let refused = world.call(|vidmm, _, _| vidmm.change_video_memory_reservation(client.process, group, PAGE_SIZE));
    assert_eq!(refused, Err(ReservationError::TooMuch { available_for_reservation: 0 }));
    world.tear_down();
}

/// I16: a moved budget is told whatever moved it, also a list that grows by what is resident already.
#[test]
fn a_list_that_grows_at_once_moves_the_budgets_that_are_told() {
    let (mut world, client) = World::with_pages(16);
    let other = world.client();
    listen(&mut world, client);
    let (a, _) = world.resident(other, 12);
    world.evict(other, &[a], IF_NECESSARY).unwrap();
    world.poll();
    assert_eq!(told(&world, client), [16, 8, 16]);
    assert_eq!(world.make_resident(other, &[a]), Ok(Residency::Resident));
    world.poll();
    assert_eq!(told(&world, client), [16, 8, 16, 8]);
    world.tear_down();
}

/// RES-50, U-3: without a memory segment nobody hears of a budget of it.
#[test]
fn without_local_memory_one_budget_is_told() {
    let mut world = World::new(Config::integrated(AddressingModel::GpuMmu, 32));
    let client = world.client();
    listen(&mut world, client);
    assert_eq!(told(&world, client), [32]);
    world.tear_down();
}

/// RES-50: each group has its own budget, and pressure in one is none in the other.
#[test]
fn each_group_is_short_on_its_own() {
    let mut world = World::new(Config::discrete(8, 32));
    let client = world.client();
    let other = world.client();
    world.create_resident(other, Place::Local, 6, SILENT);
    let local = world.create(client, Place::Local, 6, SILENT);
    assert_eq!(world.make_resident(client, &[local]), no_memory(0, NoMemoryReason::OverBudget));
    world.create_resident(client, Place::System, 20, SILENT);
    let budgets = GROUPS.map(|group| world.vidmm.query_video_memory_info(client.process, group).unwrap().budget);
    assert_eq!(budgets, [4 * PAGE_SIZE, 32 * PAGE_SIZE]);
    world.tear_down();
}

fn restrict(world: &mut World, pages: Option<u64>) {
    let bytes = pages.map(|pages| pages * PAGE_SIZE);
    world.call(|vidmm, _, _| vidmm.restrict_budget(MemorySegmentGroup::Local, bytes));
    world.poll();
}

/// An owner of the adapter says what others have left of its memory, at any time.
#[test]
fn a_budget_that_is_restricted_is_told_and_trimmed_to() {
    let (mut world, client) = World::with_pages(100);
    listen(&mut world, client);
    world.call(|vidmm, _, _| vidmm.register_trim_notification(client.device)).unwrap();
    let a = world.allocate(client, 60);
    world.bring_in(client, &[a]);
    restrict(&mut world, Some(40));
    assert_eq!((told(&world, client), budget(&world, client)), (vec![100, 40], 40));
    let to_trim = |output: &Output| match *output {
        Output::TrimNotification { num_bytes_to_trim, .. } => Some(num_bytes_to_trim / PAGE_SIZE),
        _ => None,
    };
    assert_eq!(world.outputs.iter().filter_map(to_trim).next_back(), Some(20));
    assert_eq!(world.evicted(), [], "a device requires it");
    restrict(&mut world, None);
    assert_eq!((told(&world, client), budget(&world, client)), (vec![100, 40, 100], 100));
    world.tear_down();
}

/// They go in the documented order, and no more of them than others want.
#[test]
fn allocations_that_nothing_requires_leave_memory_that_others_want() {
    let (mut world, client) = World::with_pages(100);
    let [a, b, c, required] = [10; 4].map(|pages| world.allocate(client, pages));
    for allocation in [a, b, c] {
        let at = world.map(client, allocation);
        world.bring_in(client, &[allocation]);
        write(&mut world, client, at, allocation.to_bits());
        world.evict(client, &[allocation], IF_NECESSARY).unwrap();
    }
    world.bring_in(client, &[required]);
    restrict(&mut world, Some(40));
    world.run_all();
    assert_eq!(world.evicted(), []);
    restrict(&mut world, Some(25));
    world.run_all();
    let left = |allocation| (allocation, EvictReason::BudgetRestricted);
    assert_eq!(world.evicted(), [left(a), left(b)]);
    restrict(&mut world, Some(0));
    world.run_all();
    assert_eq!(world.evicted(), [left(a), left(b), left(c)]);
    // A list that fits is accepted all the same, and what it names goes when nothing requires it any more.
    world.bring_in(client, &[a]);
    world.evict(client, &[a], IF_NECESSARY).unwrap();
    world.run_all();
    assert_eq!(world.evicted()[3..], [left(a)]);
    world.tear_down();
}
