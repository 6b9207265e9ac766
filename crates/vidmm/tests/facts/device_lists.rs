//! Devices whose list drives residency on adapters without GPU virtual addresses (PAT-17, RES-04, FLT-02, P41).

use crate::patching::{lister::Lister, random::Random, *};
use crate::world::{LOCAL_MEMORY, refused_in};
use vidmm::{contract::*, event::*, *};

const MILLISECOND: u64 = 1_000_000;

fn pending(paging_fence_value: u64) -> Result<Residency, MakeResidentError> {
    Ok(Residency::Pending { paging_fence_value })
}

/// Engines take their time in these tests.
fn slow(pages: u64) -> Config {
    Config { tdr: TdrOptions { quantum: u64::MAX, ..TdrOptions::default() }, ..Config::pages(pages) }
}

/// An allocation of local memory whose range begins at a multiple of `alignment` pages.
fn aligned(world: &mut World, lister: Lister, pages: u64, alignment: u64) -> AllocationId {
    let alignment = (alignment * PAGE_SIZE) as u32;
    world.create(*lister, AllocationInfo { alignment, ..info(pages, SegmentSet::of(LOCAL)) })
}

/// Reads a page of each allocation.
fn read(
    world: &mut World,
    lister: Lister,
    allocations: &[(AllocationId, u64)],
) -> Result<std::ops::RangeInclusive<u64>, RenderError> {
    let bind = |writer: Writer, (slot, &(id, page)): (usize, &(AllocationId, u64))| writer.read(slot as u32, id, page);
    let writer = allocations.iter().enumerate().fold(Writer::new().split(), bind);
    world.try_render(lister.context, writer.finish())
}

/// RES-02, RES-11: an allocation on the list is there with its content whenever work of the device runs.
#[test]
fn resident_allocations_are_where_the_dma_buffer_is_patched_to() {
    let mut world = World::new(Config::pages(16));
    let lister = world.lister();
    let [a, b] = [5, 7].map(|pages| world.local(*lister, pages));
    assert_eq!(world.make_resident(lister, &[a, b]), pending(1));
    world.touch(lister, &[(a, 4, 10), (b, 6, 11)]).unwrap();
    world.run_all();
    assert_eq!((world.read.clone(), world.errors(), world.paged(lister)), (vec![10, 11], vec![], 1));
    assert_eq!(world.make_resident(lister, &[a]), Ok(Residency::Resident), "it is there");
    assert_eq!(world.portions().len(), 1);
}

/// RES-02: an allocation is on the list until it was evicted as often as it was made resident.
#[test]
fn an_allocation_leaves_the_list_when_it_was_evicted_as_often_as_it_was_made_resident() {
    let mut world = World::new(Config::pages(16));
    let lister = world.lister();
    let a = world.local(*lister, 4);
    assert_eq!(world.make_resident(lister, &[a, a]), pending(1));
    assert_eq!(world.evict(lister, &[a]), Ok(0));
    world.touch(lister, &[(a, 0, 5)]).unwrap();
    world.run_all();
    assert_eq!(world.read, [5]);
    assert_eq!(world.evict(lister, &[a, a]), Err(EvictError::NotResident { position: 1 }));
    assert_eq!(world.evict(lister, &[a]), Ok(0));
    assert_eq!(read(&mut world, lister, &[(a, 0)]), Err(RenderError::NotResident { position: 0 }));
}

/// I06: a DMA buffer waits for the paging that its device asked for before it, and for nothing that was asked for after it.
#[test]
fn work_waits_for_what_was_made_resident_before_it() {
    let mut world = World::new(Config::pages(16));
    let lister = world.lister();
    let [a, b] = [4, 4].map(|pages| world.local(*lister, pages));
    assert_eq!(world.make_resident(lister, &[a]), pending(1));
    read(&mut world, lister, &[(a, 0)]).unwrap();
    world.poll();
    let packet = world.engines[RENDER as usize].front().unwrap();
    assert_eq!(packet.waits, [EngineFence { engine: PAGING, fence_id: 1 }]);
    world.run_all();
    read(&mut world, lister, &[(a, 1)]).unwrap();
    assert_eq!(world.make_resident(lister, &[b]), pending(2));
    world.poll();
    assert_eq!(world.engines[RENDER as usize].front().unwrap().waits, []);
    world.run_all();
    assert_eq!(world.paged(lister), 2);
}

/// D2: a client that runs ahead has each list for the work that it submitted under it.
#[test]
fn a_client_that_runs_ahead_has_every_list_for_the_work_under_it() {
    let mut world = World::new(Config::pages(8));
    let lister = world.lister();
    let all: Vec<AllocationId> = (0..6).map(|_| world.local(*lister, 6)).collect();
    for round in 0..2 {
        for (token, &allocation) in (0..).zip(&all) {
            assert!(world.make_resident(lister, &[allocation]).is_ok());
            let writer = Writer::new().split().read(0, allocation, 5).write(0, allocation, 5, 10 * (round + 1) + token);
            world.render(lister.context, writer.finish());
            world.evict(lister, &[allocation]).unwrap();
        }
    }
    world.run_in_time();
    assert!(world.vidmm.is_idle());
    assert_eq!(world.read, [0, 0, 0, 0, 0, 0, 10, 11, 12, 13, 14, 15]);
}

/// P41, FLT-02: nothing of it is submitted, its device alone is in error, and others run.
#[track_caller]
fn is_refused(prepare: impl FnOnce(&mut World, Lister, AllocationId)) {
    let mut world = World::new(Config::pages(16));
    let (lister, other) = (world.lister(), world.lister());
    let [a, b] = [4, 4].map(|pages| world.local(*lister, pages));
    let c = world.local(*other, 4);
    assert_eq!(world.make_resident(lister, &[a]), pending(1));
    assert_eq!(world.make_resident(other, &[c]), pending(1));
    prepare(&mut world, lister, b);
    world.run_all();
    let renders = world.driver.renders;
    assert_eq!(read(&mut world, lister, &[(a, 0), (b, 0)]), Err(RenderError::NotResident { position: 1 }));
    assert_eq!(world.driver.renders, renders, "the driver is not asked");
    world.touch(other, &[(c, 3, 7)]).unwrap();
    world.run_all();
    assert_eq!((world.portions().len(), world.read.clone()), (1, vec![7]));
    assert_eq!(world.errors(), [DeviceErrorReason::NotResident { allocation: b }]);
    assert!(matches!(read(&mut world, lister, &[(a, 0)]), Err(RenderError::DeviceInError(_))));
    assert!(world.vidmm.is_idle());
}

#[test]
fn a_reference_to_what_was_never_made_resident_puts_the_device_in_error() {
    is_refused(|_, _, _| ());
}

#[test]
fn a_reference_to_what_was_evicted_puts_the_device_in_error_although_it_is_there_still() {
    is_refused(|world, lister, b| {
        assert_eq!(world.make_resident(lister, &[b]), pending(2));
        world.run_all();
        world.evict(lister, &[b]).unwrap();
    });
}

#[test]
fn a_reference_to_what_is_offered_puts_the_device_in_error() {
    is_refused(|world, lister, b| {
        assert_eq!(world.make_resident(lister, &[b]), pending(2));
        let flags = OfferFlags::empty();
        let offer = |vidmm: &mut VidMm| vidmm.offer_allocations(lister.device, &[b], OfferPriority::Low, flags);
        world.call(|vidmm, _, _| offer(vidmm)).unwrap();
    });
}

/// RES-04: an element that unbinds names nothing that could be missing.
#[test]
fn a_list_may_unbind() {
    let mut world = World::new(Config::pages(16));
    let lister = world.lister();
    let a = world.local(*lister, 4);
    assert_eq!(world.make_resident(lister, &[a]), pending(1));
    let writer = Writer::new().split().write(0, a, 1, 3).unbind(1).read(0, a, 1);
    world.render(lister.context, writer.finish());
    world.run_all();
    assert_eq!((world.read.clone(), world.errors()), (vec![3], vec![]));
}

/// PAT-17: only references that drive residency are a reason to cut.
#[test]
fn a_dma_buffer_is_never_split() {
    let knobs = PreparationKnobs { take_split_point: true, ..PreparationKnobs::default() };
    let mut world = World::new(Config { knobs, ..Config::pages(16) });
    let (lister, prepared) = (world.lister(), world.client());
    let a = world.local(*lister, 4);
    let b = world.local(prepared, 4);
    assert_eq!(world.make_resident(lister, &[a]), pending(1));
    let split = |id| Writer::new().split().write(0, id, 0, 1).split().read(0, id, 0).split().read(0, id, 0).finish();
    world.render(lister.context, split(a));
    world.run_all();
    assert_eq!(world.portions(), [(0, 6 * COMMAND_BYTES)]);
    world.render(prepared.context, split(b));
    world.run_in_time();
    assert_eq!(world.portions().len(), 4, "the other kind is");
}

/// PAT-14: an address that was told when the DMA buffer was rendered is patched only if it is another when it runs.
#[test]
fn a_dma_buffer_is_patched_only_where_addresses_have_changed() {
    let mut world = World::new(Config::pages(16));
    let lister = world.lister();
    let a = world.local(*lister, 4);
    assert_eq!(world.make_resident(lister, &[a]), pending(1));
    read(&mut world, lister, &[(a, 0)]).unwrap();
    world.run_all();
    assert_eq!(world.driver.patches.len(), 1, "it was nowhere when it was rendered");
    read(&mut world, lister, &[(a, 0)]).unwrap();
    world.run_all();
    assert_eq!(world.driver.patches.len(), 1);
}

/// RES-19, I08: bytes would suffice, but not the places. Trimming as much as the answer says makes the same call succeed.
#[test]
fn a_list_that_cannot_be_packed_is_refused_with_what_to_trim() {
    let mut world = World::new(Config::pages(16));
    let lister = world.lister();
    let all: Vec<AllocationId> = (0..5).map(|_| aligned(&mut world, lister, 3, 4)).collect();
    assert_eq!(world.make_resident(lister, &all[..4]), pending(1));
    let refused = Err(refused_in(LOCAL_MEMORY, 4 * PAGE_SIZE, NoMemoryReason::Fragmented));
    assert_eq!(world.make_resident(lister, &all[4..]), refused);
    world.run_all();
    assert_eq!((world.errors(), world.paged(lister)), (vec![], 1), "nothing has changed");
    world.evict(lister, &all[..2]).unwrap();
    assert_eq!(world.make_resident(lister, &all[4..]), pending(2));
    world.touch(lister, &[(all[2], 0, 2), (all[3], 0, 3), (all[4], 0, 4)]).unwrap();
    world.run_all();
    assert_eq!(world.read, [2, 3, 4]);
}

/// I08: this holds for any list, and whichever of its allocations go.
#[test]
fn trimming_what_the_answer_says_is_enough() {
    let mut random = Random(3);
    let mut refused = 0;
    for _ in 0..300 {
        let mut world = World::new(Config::pages(24));
        let lister = world.lister();
        let mut listed: Vec<(AllocationId, u64)> = Vec::new();
        for _ in 0..20 {
            let pages = 1 + random.below(9);
            let alignment = 1 << random.below(4);
            let allocation = aligned(&mut world, lister, pages, alignment);
            match world.make_resident(lister, &[allocation]) {
                Ok(_) => {}
                Err(MakeResidentError::NoMemory { num_bytes_to_trim, .. }) => {
                    let mut trimmed = 0;
                    while trimmed < num_bytes_to_trim && !listed.is_empty() {
                        let at = random.below(listed.len() as u64) as usize;
                        let (victim, pages) = listed.swap_remove(at);
                        world.evict(lister, &[victim]).unwrap();
                        trimmed += pages * PAGE_SIZE;
                    }
                    refused += 1;
                    assert!(world.make_resident(lister, &[allocation]).is_ok(), "{num_bytes_to_trim} were trimmed");
                }
                Err(error) => panic!("{error}"),
            }
            listed.push((allocation, pages));
            if random.one_in(2) {
                world.run_all();
                assert!(world.vidmm.is_idle(), "alone a list that was admitted has its places");
            }
        }
    }
    assert!(refused > 1000);
}

/// An allocation on no list makes room, and comes back with its content.
#[test]
fn evicted_allocations_come_back_as_they_were() {
    let mut world = World::new(Config::pages(8));
    let lister = world.lister();
    let [a, b] = [6, 6].map(|pages| world.local(*lister, pages));
    for (round, allocation) in [a, b, a, b].into_iter().enumerate() {
        assert!(world.make_resident(lister, &[allocation]).is_ok());
        if round < 2 {
            world.touch(lister, &[(allocation, 5, 20 + round as u64)]).unwrap();
        } else {
            read(&mut world, lister, &[(allocation, 5)]).unwrap();
        }
        world.run_all();
        world.evict(lister, &[allocation]).unwrap();
    }
    assert_eq!(world.read, [20, 21, 20, 21]);
    assert_eq!(world.evicted().len(), 3);
}

/// Four allocations of two pages one behind the other; the second and the fourth have left the list.
fn holes(world: &mut World, lister: Lister) -> [AllocationId; 4] {
    let all = [2; 4].map(|pages| world.local(*lister, pages));
    assert_eq!(world.make_resident(lister, &all), pending(1));
    world.touch(lister, &[(all[0], 1, 70), (all[1], 1, 71), (all[2], 1, 72), (all[3], 1, 73)]).unwrap();
    world.run_all();
    world.evict(lister, &[all[1], all[3]]).unwrap();
    all
}

/// D3: an allocation that a list keeps in place moves while nothing uses it, and nobody must yield for that.
#[test]
fn listed_allocations_move_out_of_the_way_while_nothing_uses_them() {
    let mut world = World::new(Config::pages(8));
    let (lister, other) = (world.lister(), world.lister());
    let all = holes(&mut world, lister);
    let whole = world.local(*other, 4);
    assert_eq!(world.make_resident(other, &[whole]), pending(1));
    world.touch(other, &[(whole, 3, 9)]).unwrap();
    read(&mut world, lister, &[(all[0], 1), (all[2], 1)]).unwrap();
    world.run_all();
    assert_eq!((world.errors(), world.suspensions()), (vec![], 0));
    assert_eq!((world.read_in(other.context), &world.read_in(lister.context)[4..]), (&[9][..], &[70, 72][..]));
    let moved = |event: &&Event| matches!(event, Event::Evicted { reason: EvictReason::Moved, .. });
    assert_eq!(world.events.iter().filter(moved).count(), 1);
}

/// The same with work in flight: its addresses stay until it has ended.
#[test]
fn allocations_of_running_work_stay_until_it_has_ended() {
    let mut world = World::new(Config::pages(8));
    let (lister, other) = (world.lister(), world.lister());
    let all = holes(&mut world, lister);
    read(&mut world, lister, &[(all[0], 1), (all[2], 1)]).unwrap();
    world.poll();
    let whole = world.local(*other, 4);
    assert_eq!(world.make_resident(other, &[whole]), pending(1));
    world.poll();
    assert_eq!(world.paged(other), 0);
    while world.complete(PAGING) {
        world.poll();
    }
    assert_eq!(world.paged(other), 0, "nothing moves under work that runs");
    world.run_all();
    assert_eq!((world.paged(other), world.suspensions()), (1, 0));
    assert_eq!(&world.read_in(lister.context)[4..], [70, 72]);
}

/// The same with work in flight of another device that shares what would move.
#[test]
fn allocations_of_another_devices_running_work_stay_too() {
    let mut world = World::new(Config::pages(8));
    let lister = world.lister();
    let [running, other] = [(); 2].map(|()| world.lister_of(lister.process));
    let shared = |world: &mut World| {
        world.driver.next_allocation = Some(info(1, SegmentSet::of(LOCAL)));
        let desc = CreateAllocationDesc { flags: CreateAllocationFlags::CREATE_SHARED, ..Default::default() };
        let id = world.call(|vidmm, driver, host| vidmm.create_allocation(driver, host, lister.device, desc)).unwrap();
        world.call(|vidmm, driver, _| vidmm.open_allocation(driver, running.device, id)).unwrap();
        id
    };
    // Two small ones, and a hole of three pages behind each.
    let (a, b) = (shared(&mut world), world.local(*lister, 3));
    let (c, d) = (shared(&mut world), world.local(*lister, 3));
    for id in [a, b, c, d] {
        assert!(world.make_resident(lister, &[id]).is_ok());
        world.run_all();
    }
    world.touch(lister, &[(a, 0, 70), (c, 0, 72)]).unwrap();
    world.run_all();
    world.evict(lister, &[b, d]).unwrap();
    assert!(world.make_resident(running, &[a, c]).is_ok());
    world.run_all();
    read(&mut world, running, &[(a, 0), (c, 0)]).unwrap();
    world.poll();
    let whole = world.local(*other, 4);
    assert_eq!(world.make_resident(other, &[whole]), pending(1));
    world.poll();
    while world.complete(PAGING) {
        world.poll();
    }
    assert_eq!(world.paged(other), 0, "nothing moves under work that runs");
    world.run_all();
    assert_eq!((world.paged(other), world.suspensions()), (1, 0));
    assert_eq!(world.read_in(running.context), [70, 72]);
}

/// RES-71, D3: a device that always has work in flight yields when another has waited for long, although all bytes
/// would fit.
#[test]
fn a_busy_device_yields_to_one_that_finds_no_place_beside_it() {
    let mut world = World::new(slow(8));
    let (busy, other) = (world.lister(), world.lister());
    let all = holes(&mut world, busy);
    let whole = world.local(*other, 4);
    assert_eq!(world.make_resident(other, &[whole]), pending(1));
    let mut submitted = 0;
    let mut there_at = None;
    for step in 0..2_000 {
        while submitted < step + 2 {
            read(&mut world, busy, &[(all[0], 1), (all[2], 1)]).unwrap();
            submitted += 1;
        }
        world.now += MILLISECOND;
        world.poll();
        world.complete(RENDER);
        world.poll();
        while world.complete(PAGING) {
            world.poll();
        }
        if world.paged(other) == 1 && there_at.is_none() {
            there_at = Some(step);
        }
    }
    let there_at = there_at.expect("it gets its turn");
    assert!((900..1_200).contains(&there_at), "after {there_at} ms");
    world.run_in_time();
    assert!(world.vidmm.is_idle());
    let reads = &world.read_in(busy.context)[4..];
    assert_eq!(reads.len(), 2 * submitted);
    assert!(reads.chunks(2).all(|pair| pair == [70, 72]), "content is what it was wherever it was");
}

/// RES-71: lists that do not fit together run in turn, and each finds its content.
#[test]
fn devices_that_do_not_fit_together_take_turns() {
    let mut world = World::new(slow(8));
    let (first, second) = (world.lister(), world.lister());
    let [a, b] = [first, second].map(|lister| world.local(*lister, 6));
    let flags = MakeResidentFlags::CANT_TRIM_FURTHER;
    for (lister, allocation) in [(first, a), (second, b)] {
        let _: Residency = world.call(|vidmm, _, _| vidmm.make_resident(lister.queue, &[allocation], flags)).unwrap();
    }
    for token in 0..20 {
        for (lister, allocation) in [(first, a), (second, b)] {
            let writer = Writer::new().split().read(0, allocation, 2).write(0, allocation, 2, token + 1);
            world.render(lister.context, writer.finish());
        }
    }
    world.run_in_time();
    assert!(world.vidmm.is_idle() && world.suspensions() > 0);
    for lister in [first, second] {
        assert_eq!(world.read_in(lister.context), Vec::from_iter(0..20));
    }
}

/// The requirements of portions are decided beside lists: none of what an active list requires goes for them.
#[test]
fn portions_run_beside_a_list_and_take_nothing_from_it() {
    let mut world = World::new(Config::pages(8));
    let (lister, prepared) = (world.lister(), world.client());
    let a = world.local(*lister, 4);
    assert_eq!(world.make_resident(lister, &[a]), pending(1));
    world.touch(lister, &[(a, 3, 5)]).unwrap();
    world.run_all();
    for at in 0..6 {
        let b = world.local(prepared, 4);
        world.render(prepared.context, Writer::new().split().write(0, b, 3, at).read(0, b, 3).finish());
        read(&mut world, lister, &[(a, 3)]).unwrap();
    }
    world.run_all();
    assert_eq!((world.errors(), world.suspensions()), (vec![], 0));
    assert!(!world.evicted().iter().any(|&(_, evicted)| evicted == a));
    assert_eq!(world.read_in(prepared.context), Vec::from_iter(0..6));
    assert_eq!(world.read_in(lister.context), [5; 7]);
}

/// A DMA buffer that must be cut has all memory, from its turn to its end; then the list is back.
#[test]
fn a_dma_buffer_that_does_not_fit_beside_a_list_has_its_turn() {
    let mut world = World::new(slow(8));
    let (lister, prepared) = (world.lister(), world.client());
    let a = world.local(*lister, 6);
    assert_eq!(world.make_resident(lister, &[a]), pending(1));
    world.touch(lister, &[(a, 5, 5)]).unwrap();
    world.run_all();
    let kept = world.local(prepared, 2);
    let mut writer = Writer::new().split().program(5, kept).write_bound(5, 0, 30);
    for at in 0..4 {
        let b = world.local(prepared, 5);
        writer = writer.split().read_bound(5, 0).write_bound(5, 0, 31 + at).write(0, b, 4, at);
    }
    world.render(prepared.context, writer.finish());
    world.run_in_time();
    assert_eq!(world.read_in(prepared.context), [30, 31, 32, 33]);
    assert!(world.portions().len() > 4, "it was cut: {:?}", world.portions());
    read(&mut world, lister, &[(a, 5)]).unwrap();
    world.run_in_time();
    assert!(world.vidmm.is_idle());
    assert_eq!((world.errors(), world.read_in(lister.context)), (vec![], &[5, 5][..]));
}

/// While a DMA buffer is cut, a list that is made resident waits for its end.
#[test]
fn a_list_that_grows_while_a_dma_buffer_is_cut_waits_for_its_end() {
    let mut world = World::new(slow(8));
    let (lister, prepared) = (world.lister(), world.client());
    let writer = (0..6).fold(Writer::new(), |writer, at| {
        let b = world.local(prepared, 6);
        writer.split().write(0, b, 5, at).read(0, b, 5)
    });
    world.render(prepared.context, writer.finish());
    world.poll();
    let a = world.local(*lister, 8);
    let flags = MakeResidentFlags::CANT_TRIM_FURTHER;
    let _: Residency = world.call(|vidmm, _, _| vidmm.make_resident(lister.queue, &[a], flags)).unwrap();
    world.touch(lister, &[(a, 7, 8)]).unwrap();
    while world.read_in(prepared.context).len() < 6 {
        assert_eq!(world.paged(lister), 0);
        world.poll();
        assert!((0..3).any(|engine| world.complete(engine)));
    }
    world.run_in_time();
    assert_eq!((world.read_in(prepared.context), world.read_in(lister.context)), (&[0, 1, 2, 3, 4, 5][..], &[8][..]));
}

/// Portions that come one after another leave a waiting list its turn.
#[test]
fn a_list_gets_its_turn_against_a_device_that_always_renders() {
    let mut world = World::new(slow(8));
    let (lister, first, second) = (world.lister(), world.client(), world.client());
    let copy = world.context(second.device, COPY);
    let [b, c] = [first, second].map(|client| world.local(client, 4));
    let a = world.local(*lister, 6);
    let flags = MakeResidentFlags::CANT_TRIM_FURTHER;
    let mut asked = false;
    let mut there_at = None;
    for step in 0..1_500u64 {
        for (context, allocation) in [(first.context, b), (copy, c)] {
            world.render(context, Writer::new().split().write(0, allocation, 3, step).read(0, allocation, 3).finish());
        }
        world.now += MILLISECOND;
        world.poll();
        if !asked {
            asked = world.call(|vidmm, _, _| vidmm.make_resident(lister.queue, &[a], flags)).is_ok();
        }
        for engine in [RENDER, COPY, PAGING] {
            world.complete(engine);
        }
        world.poll();
        if world.paged(lister) == 1 && there_at.is_none() {
            there_at = Some(step);
        }
    }
    assert!(there_at.is_some(), "it was there after {there_at:?} ms");
    world.run_in_time();
    assert_eq!(world.read_in(first.context), Vec::from_iter(0..1_500));
    assert_eq!(world.read_in(copy), Vec::from_iter(0..1_500));
}

/// RES-61 to RES-66: what is offered makes room without being copied, and comes back as nothing.
#[test]
fn offered_allocations_make_room_and_unneeded_ones_keep_their_content() {
    let mut world = World::new(Config::pages(8));
    let (lister, other) = (world.lister(), world.lister());
    let [a, b] = [4, 4].map(|pages| world.local(*lister, pages));
    assert_eq!(world.make_resident(lister, &[a, b]), pending(1));
    world.touch(lister, &[(a, 0, 1), (b, 0, 2)]).unwrap();
    world.run_all();
    let (priority, flags) = (OfferPriority::Low, OfferFlags::empty());
    world.call(|vidmm, _, _| vidmm.offer_allocations(lister.device, &[a, b], priority, flags)).unwrap();
    let c = world.local(*other, 4);
    assert_eq!(world.make_resident(other, &[c]), pending(1));
    world.run_all();
    let reclaimed = world.call(|vidmm, _, host| vidmm.reclaim_allocations(host, lister.queue, &[b])).unwrap();
    assert_eq!(reclaimed, Reclaimed { results: vec![ReclaimResult::Ok], paging_fence_value: 0 });
    world.evict(other, &[c]).unwrap();
    let reclaimed = world.call(|vidmm, _, host| vidmm.reclaim_allocations(host, lister.queue, &[a])).unwrap();
    assert_eq!(reclaimed, Reclaimed { results: vec![ReclaimResult::Discarded], paging_fence_value: 2 });
    read(&mut world, lister, &[(a, 0), (b, 0)]).unwrap();
    world.run_in_time();
    assert_eq!(world.read[2..], [0, 2]);
}

/// U-34, RES-02: a shared allocation has one place, and each list its own count.
#[test]
fn a_shared_allocation_is_one_for_all_lists() {
    let mut world = World::new(Config::pages(8));
    let (lister, other, prepared) = (world.lister(), world.lister(), world.client());
    world.driver.next_allocation = Some(info(4, SegmentSet::of(LOCAL)));
    let desc = CreateAllocationDesc { flags: CreateAllocationFlags::CREATE_SHARED, ..Default::default() };
    let device = lister.device;
    let shared = world.call(|vidmm, driver, host| vidmm.create_allocation(driver, host, device, desc)).unwrap();
    let open = |world: &mut World, device| world.call(|vidmm, driver, _| vidmm.open_allocation(driver, device, shared));
    assert_eq!(open(&mut world, prepared.device), Err(OpenError::ReferenceLists));
    open(&mut world, other.device).unwrap();
    assert_eq!(world.make_resident(lister, &[shared]), pending(1));
    world.touch(lister, &[(shared, 3, 6)]).unwrap();
    world.run_in_time();
    let answer = world.make_resident(other, &[shared]);
    assert!(answer.is_ok(), "{answer:?}");
    read(&mut world, other, &[(shared, 3)]).unwrap();
    world.run_in_time();
    assert_eq!(world.read_in(other.context), [6]);
    world.evict(lister, &[shared]).unwrap();
    assert_eq!(read(&mut world, other, &[(shared, 3)]).map(drop), Ok(()), "it is on the other's list");
    assert_eq!(read(&mut world, lister, &[(shared, 3)]), Err(RenderError::NotResident { position: 0 }));
    world.run_in_time();
    assert_eq!(world.read_in(other.context), [6, 6]);
    assert_eq!(world.operations(PagingOperationKind::Fill).len(), 1, "there is one copy");
}

/// SEG-13: an allocation in the aperture keeps nothing from others while no list holds it, and is found there.
#[test]
fn allocations_that_stay_in_the_aperture_are_found_there() {
    let mut world = World::new(Config { aperture_pages: 32, ..Config::pages(8) });
    let lister = world.lister();
    let [a, b, c] = [1, 1, 1].map(|pages| world.create(*lister, info(pages, SegmentSet::of(APERTURE))));
    assert_eq!(world.make_resident(lister, &[a, b]), pending(1));
    world.touch(lister, &[(a, 0, 1), (b, 0, 2)]).unwrap();
    world.run_all();
    // The third begins where the aperture ends.
    let system = MemoryAccount { segment: SegmentId::SYSTEM, group: Some(MemorySegmentGroup::NonLocal) };
    let refused = Err(refused_in(system, PAGE_SIZE, NoMemoryReason::Fragmented));
    assert_eq!(world.make_resident(lister, &[c]), refused);
    world.evict(lister, &[a]).unwrap();
    assert_eq!(world.make_resident(lister, &[a]), Ok(Residency::Resident));
    world.evict(lister, &[a]).unwrap();
    assert_eq!(world.make_resident(lister, &[c]), pending(2));
    world.touch(lister, &[(c, 0, 3)]).unwrap();
    world.run_all();
    world.evict(lister, &[c]).unwrap();
    assert_eq!(world.make_resident(lister, &[a]), pending(3));
    read(&mut world, lister, &[(a, 0), (b, 0)]).unwrap();
    world.run_all();
    assert_eq!(world.read, [1, 2, 3, 1, 2]);
}

/// RES-91: work that was rendered before has what is destroyed.
#[test]
fn destroyed_allocations_live_until_work_rendered_before_has_ended() {
    for flags in [DestroyFlags::empty(), DestroyFlags::ASSUME_NOT_IN_USE] {
        let mut world = World::new(Config::pages(8));
        let lister = world.lister();
        let a = world.local(*lister, 4);
        assert_eq!(world.make_resident(lister, &[a]), pending(1));
        world.touch(lister, &[(a, 0, 3)]).unwrap();
        world.call(|vidmm, _, host| vidmm.destroy_allocation(host, a, flags)).unwrap();
        world.run_all();
        assert_eq!((world.read.clone(), world.errors()), (vec![3], vec![]));
        world.call(|vidmm, driver, _| vidmm.destroy_context(driver, lister.context)).unwrap();
        world.call(|vidmm, _, _| vidmm.destroy_paging_queue(lister.queue)).unwrap();
        world.call(|vidmm, driver, host| vidmm.destroy_device(driver, host, lister.device)).unwrap();
    }
}

/// A device says which kind it is when it is created; without a word it has reference lists.
#[test]
fn calls_of_the_other_kind_are_refused() {
    let mut world = World::new(Config::pages(8));
    let (lister, prepared) = (world.lister(), world.client());
    let created = |world: &World, device| {
        world.events.iter().find_map(|event| match event {
            Event::DeviceCreated { device: of, residency, .. } if *of == device => Some(*residency),
            _ => None,
        })
    };
    assert_eq!(created(&world, lister.device), Some(DeviceResidency::DeviceList));
    assert_eq!(created(&world, prepared.device), Some(DeviceResidency::ReferenceLists));
    let queue = world.call(|vidmm, _, _| vidmm.create_paging_queue(prepared.device, 0));
    assert_eq!(queue, Err(CreateError::ReferenceLists));
    let theirs = world.local(prepared, 1);
    let evicted = world.call(|vidmm, _, _| vidmm.evict(prepared.device, &[theirs], EvictFlags::empty()));
    assert_eq!(evicted, Err(EvictError::ReferenceLists));
    let (low, flags) = (OfferPriority::Low, OfferFlags::empty());
    let offered = world.call(|vidmm, _, _| vidmm.offer_allocations(prepared.device, &[theirs], low, flags));
    assert_eq!(offered, Err(OfferError::ReferenceLists));
    // No list counts what is its, so no list of another device can name it.
    world.driver.next_allocation = Some(info(1, SegmentSet::of(LOCAL)));
    let desc = CreateAllocationDesc { flags: CreateAllocationFlags::CREATE_SHARED, ..Default::default() };
    let shared =
        world.call(|vidmm, driver, host| vidmm.create_allocation(driver, host, prepared.device, desc)).unwrap();
    let opened = world.call(|vidmm, driver, _| vidmm.open_allocation(driver, lister.device, shared));
    assert_eq!(opened, Err(OpenError::ReferenceLists));
    let a = world.local(*lister, 1);
    let desc = MapGpuVirtualAddress::whole(a);
    let mapped = world.call(|vidmm, _, host| vidmm.map_gpu_virtual_address(host, lister.queue, &desc));
    assert_eq!(mapped, Err(MapError::PhysicalAddresses));
    let b = world.local(prepared, 1);
    assert_eq!(world.make_resident(lister, &[b]), Err(MakeResidentError::WrongDevice { position: 0 }));
    assert_eq!(read(&mut world, lister, &[(b, 0)]), Err(RenderError::WrongDevice { position: 0 }));
    assert_eq!(world.errors(), []);
}

/// RES-82: an allocation that the CPU is to see goes where the CPU sees it, and its content with it.
#[test]
fn locked_allocations_go_to_the_aperture() {
    let mut world = World::new(Config { aperture_pages: 16, ..Config::pages(16) });
    let lister = world.lister();
    let either = SegmentSet(SegmentSet::of(LOCAL).0 | SegmentSet::of(APERTURE).0);
    let hidden = world.create(lister.client, info(4, either));
    assert_eq!(world.make_resident(lister, &[hidden]), pending(1));
    world.touch(lister, &[(hidden, 3, 8)]).unwrap();
    world.run_in_time();
    assert_eq!(world.operations(PagingOperationKind::MapApertureSegment), []);
    let locked = world.call(|vidmm, _, host| vidmm.lock(host, lister.device, hidden));
    assert_eq!(locked, Err(LockError::AllocationBusy));
    world.run_in_time();
    read(&mut world, lister, &[(hidden, 3)]).unwrap();
    world.run_in_time();
    assert_eq!(world.operations(PagingOperationKind::MapApertureSegment).len(), 1);
    assert_eq!(world.read, [8, 8]);
}

/// RES-19, RES-82: an allocation that the CPU is to see does not go where the list has bytes left for it, but no range.
#[test]
fn a_lock_for_which_there_is_no_range_leaves_the_list_as_it_is() {
    // The aperture has one range of 64 KiB, and the alignment of ranges there is as much.
    let mut world = World::new(Config { aperture_pages: 16, ..Config::pages(16) });
    let lister = world.lister();
    let in_aperture = world.create(lister.client, info(4, SegmentSet::of(APERTURE)));
    let either = SegmentSet(SegmentSet::of(LOCAL).0 | SegmentSet::of(APERTURE).0);
    let hidden = world.create(lister.client, info(4, either));
    let _: Residency = world.make_resident(lister, &[in_aperture, hidden]).unwrap();
    world.run_in_time();
    let locked = world.call(|vidmm, _, host| vidmm.lock(host, lister.device, hidden));
    assert_eq!(locked, Err(LockError::NotLockable));
    world.run_in_time();
    world.touch(lister, &[(in_aperture, 3, 7), (hidden, 3, 8)]).unwrap();
    world.run_in_time();
    assert_eq!(world.read, [7, 8]);
}

/// D19, SEG-47: A may be in either segment, and lies in the second one, evicted lazily. Its list counts it in the first one beside B,
/// which is as large as the second and takes the range of A there.
#[test]
fn a_member_that_goes_to_another_home_leaves_its_range_to_another_member() {
    let mut world = World::new(Config { aperture_pages: 0, more_pages: vec![8], ..Config::pages(16) });
    let (lister, second) = (world.lister(), SegmentId(2));
    let mut preferred_segment = SegmentPreference::default();
    preferred_segment.segment_ids[..2].copy_from_slice(&[second, LOCAL]);
    let either = SegmentSet(SegmentSet::of(LOCAL).0 | SegmentSet::of(second).0);
    let a = world.create(*lister, AllocationInfo { preferred_segment, ..info(4, either) });
    let b = world.create(*lister, info(8, SegmentSet::of(second)));
    assert_eq!(world.make_resident(lister, &[a]), pending(1));
    world.touch(lister, &[(a, 3, 10)]).unwrap();
    world.run_all();
    assert_eq!(world.evict(lister, &[a]), Ok(0));

    assert_eq!(world.make_resident(lister, &[b, a]), pending(2));
    world.touch(lister, &[(b, 7, 11)]).unwrap();
    read(&mut world, lister, &[(a, 3)]).unwrap();
    world.run_all();
    assert_eq!((world.read.clone(), world.errors(), world.paged(lister)), (vec![10, 11, 10], vec![], 2));
    let segments = world.events.iter().filter_map(|event| match *event {
        Event::Placed { allocation, segment, .. } => Some((allocation, segment)),
        _ => None,
    });
    assert_eq!(segments.collect::<Vec<_>>(), [(a, second), (a, LOCAL), (b, second)]);
}
