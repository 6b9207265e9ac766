//! Several contexts while DMA buffers are cut: what comes between portions, fences, and what ends amid a split (P39, SPL-06,
//! SPL-07).

use crate::patching::*;
use vidmm::*;

/// A buffer of portions of `count` allocations of four pages, one after the other: each is written and read in its own.
fn one_by_one(world: &mut World, client: Client, count: u64) -> (Vec<AllocationId>, Writer) {
    let allocations: Vec<AllocationId> = (0..count).map(|_| world.local(client, 4)).collect();
    let write = |writer: Writer, (at, &allocation): (usize, &AllocationId)| {
        writer.split().write(0, allocation, 3, at as u64 + 10).read(0, allocation, 3)
    };
    let writer = allocations.iter().enumerate().fold(Writer::new(), write);
    (allocations, writer)
}

fn ran_on(world: &World, engine: u32) -> Vec<Ran> {
    world.ran.iter().copied().filter(|ran| matches!(ran, Ran::Portion { engine: on, .. } if *on == engine)).collect()
}

/// P39, SPL-07: an engine that does not save state runs the portions of a DMA buffer back to back, with paging in between.
#[test]
fn between_portions_come_paging_buffers_and_no_other_dma_buffer() {
    let mut world = World::new(Config::pages(8));
    let (client, other) = (world.client(), world.client());
    let (_, cut) = one_by_one(&mut world, client, 6);
    let small = world.local(other, 1);
    let whole = Writer::new().split().write(0, small, 0, 99).read(0, small, 0).finish();
    world.render(client.context, cut.finish());
    world.poll();
    for _ in 0..3 {
        world.render(other.context, whole.clone());
    }
    world.run_all();
    assert_eq!((world.read.len(), world.errors()), (9, vec![]));
    assert!(world.portions().len() > 4);
    let ran = &world.ran;
    let of_cut = |ran: &Ran| matches!(ran, Ran::Portion { start, end, .. } if (*start, *end) != (0, 96) || *start > 0);
    let first = ran.iter().position(of_cut).unwrap();
    let last = ran.iter().rposition(of_cut).unwrap();
    let between = &ran[first..last];
    assert!(between.contains(&Ran::Paging), "{ran:?}");
    assert!(between.iter().all(|ran| *ran == Ran::Paging || of_cut(ran)), "{ran:?}");
}

/// SPL-07: an engine that saves state serves other contexts in between, if what they require fits beside what stays bound.
#[test]
fn with_preemption_awareness_others_come_between_portions() {
    let mut world = World::new(Config { preemption_aware: true, ..Config::pages(8) });
    let (client, other) = (world.client(), world.client());
    let (_, cut) = one_by_one(&mut world, client, 8);
    let small = world.local(other, 1);
    let whole = Writer::new().split().write(0, small, 0, 99).read(0, small, 0).finish();
    world.render(client.context, cut.finish());
    world.poll();
    let bytes = whole.command.len() as u32;
    for _ in 0..2 {
        world.render(other.context, whole.clone());
    }
    world.run_all();
    assert_eq!((world.read.len(), world.errors()), (10, vec![]));
    let of_other = |ran: &Ran| matches!(ran, Ran::Portion { start: 0, end, .. } if *end == bytes);
    let last = world.ran.iter().rposition(|ran| matches!(ran, Ran::Portion { .. })).unwrap();
    let [first, second] =
        [0, 1].map(|at| world.ran.iter().enumerate().filter(|(_, ran)| of_other(ran)).nth(at).unwrap().0);
    assert!(first < second && second < last, "the long buffer ends last: {:?}", world.ran);
}

/// Neither keeps in its place what the other needs for its next portion.
#[test]
fn two_contexts_of_different_engines_that_must_both_be_cut_both_end() {
    for (preemption_aware, take_split_point) in [(false, false), (true, false), (false, true), (true, true)] {
        let knobs = PreparationKnobs { take_split_point, ..PreparationKnobs::default() };
        let mut world = World::new(Config { preemption_aware, knobs, ..Config::pages(12) });
        let client = world.client();
        let copy = Client { context: world.context(client.device, COPY), ..client };
        for client in [client, copy] {
            let kept = world.local(client, 4);
            let mut writer = Writer::new().split().program(5, kept).write_bound(5, 0, 1);
            for at in 0..6 {
                let allocation = world.local(client, 5);
                writer = writer.split().read_bound(5, 0).write_bound(5, 0, at + 2).write(0, allocation, 1, 3);
            }
            world.render(client.context, writer.finish());
        }
        world.run_all();
        assert!(world.vidmm.is_idle());
        assert_eq!(world.errors(), []);
        assert!(ran_on(&world, RENDER).len() > 2 && ran_on(&world, COPY).len() > 2, "both were cut");
        for read in world.read_by.values() {
            assert_eq!(*read, Vec::from_iter(1..7));
        }
    }
}

/// SYN-13: a DMA buffer's waits come before its first portion, and its signals after its last.
#[test]
fn a_cut_buffer_waits_before_its_first_portion_and_signals_after_its_last() {
    let mut world = World::new(Config::pages(8));
    let client = world.client();
    let (_, writer) = one_by_one(&mut world, client, 6);
    let [before, after] = [0, 0].map(|value| world.call(|vidmm, _, _| vidmm.create_monitored_fence(value)).unwrap());
    let desc = RenderDesc {
        waits: vec![FenceValueDesc { fence: before, value: 1 }],
        signals: vec![FenceValueDesc { fence: after, value: 5 }],
        ..writer.finish()
    };
    world.render(client.context, desc);
    world.run_all();
    assert_eq!(world.ran, [], "nothing runs before the fence has its value");
    world.call(|vidmm, _, _| vidmm.signal_monitored_fence(before, 1)).unwrap();
    while world.read.len() < 6 {
        assert_eq!(world.vidmm.monitored_fence_value(after), Ok(0));
        world.poll();
        assert!((0..3).any(|engine| world.complete(engine)));
    }
    world.run_all();
    assert_eq!(world.vidmm.monitored_fence_value(after), Ok(5));
    for fence in [before, after] {
        world.call(|vidmm, _, _| vidmm.destroy_monitored_fence(fence)).unwrap();
    }
}

/// Waits on a fence of another context's cut buffer are met by its last portion.
#[test]
fn a_buffer_that_waits_for_a_cut_one_runs_after_its_last_portion() {
    let mut world = World::new(Config::pages(8));
    let client = world.client();
    let copy = world.context(client.device, COPY);
    let (allocations, writer) = one_by_one(&mut world, client, 4);
    let fence = world.call(|vidmm, _, _| vidmm.create_monitored_fence(0)).unwrap();
    let named = vec![FenceValueDesc { fence, value: 1 }];
    world.render(client.context, RenderDesc { signals: named.clone(), ..writer.finish() });
    let read = allocations.iter().fold(Writer::new(), |writer, &allocation| writer.split().read(0, allocation, 3));
    world.render(copy, RenderDesc { waits: named, ..read.finish() });
    world.run_all();
    assert_eq!(world.read, [10, 11, 12, 13, 10, 11, 12, 13]);
}

/// Every step of a cut buffer, with something done after so many of them; then everything ends.
#[track_caller]
fn amid(steps: u64, mut act: impl FnMut(&mut World, Client, &[AllocationId])) -> World {
    let mut world = World::new(Config::pages(8));
    let (client, other) = (world.client(), world.client());
    let kept = world.local(client, 2);
    let mut writer = Writer::new().split().program(3, kept).write_bound(3, 1, 10);
    let mut allocations = vec![kept];
    for at in 0..5 {
        let allocation = world.local(client, 4);
        allocations.push(allocation);
        writer = writer.split().read_bound(3, 1).write_bound(3, 1, 11 + at).write(0, allocation, 1, at);
    }
    let theirs = world.local(other, 8);
    world.render(client.context, writer.finish());
    let mut step = 0;
    loop {
        if step == steps {
            act(&mut world, client, &allocations);
            world.render(other.context, Writer::new().split().write(0, theirs, 7, 77).read(0, theirs, 7).finish());
        }
        step += 1;
        world.poll();
        if !(0..3).any(|engine| world.complete(engine)) && step > steps {
            break;
        }
    }
    world.run_all();
    assert!(world.read.contains(&77), "another device's work runs");
    assert_eq!(world.read_by.values().flatten().count(), world.read.len());
    world
}

const STEPS: u64 = 16;

/// The allocations stay until the last portion that refers to them has run.
#[test]
fn allocations_that_are_destroyed_amid_a_split_are_there_until_its_end() {
    for steps in 0..STEPS {
        let world = amid(steps, |world, _, allocations| {
            for &allocation in allocations {
                world.call(|vidmm, _, host| vidmm.destroy_allocation(host, allocation, DestroyFlags::empty())).unwrap();
            }
        });
        assert!(world.vidmm.is_idle());
        assert_eq!(world.errors(), []);
        assert_eq!(world.read.iter().filter(|&&read| read != 77).copied().collect::<Vec<_>>(), [10, 11, 12, 13, 14]);
    }
}

/// A suspended device ends the DMA buffer that it has begun: what is bound keeps its place until then. A DMA buffer
/// that had not begun waits.
#[test]
fn a_process_that_is_suspended_amid_a_split_ends_what_it_has_begun_and_goes_on_when_it_is_resumed() {
    for steps in 0..STEPS {
        let mut process = None;
        let mut world = amid(steps, |world, client, _| {
            process = Some(client.process);
            world.call(|vidmm, _, _| vidmm.suspend_process(client.process, false)).unwrap();
        });
        world.call(|vidmm, _, _| vidmm.resume_process(process.unwrap())).unwrap();
        world.run_all();
        assert!(world.vidmm.is_idle(), "after {steps}");
        assert_eq!(world.errors(), []);
        let read = world.read.iter().filter(|&&read| read != 77).copied().collect::<Vec<_>>();
        assert_eq!(read, [10, 11, 12, 13, 14], "after {steps}");
    }
}

/// Power goes when what has begun has ended, and comes back with everything in place.
#[test]
fn power_that_goes_amid_a_split_waits_for_its_end() {
    for steps in 0..STEPS {
        let world = amid(steps, |world, _, _| {
            world.call(|vidmm, _, _| vidmm.power_down());
            world.run_all();
            let is_down = |output: &Output| matches!(output, Output::PoweredDown);
            assert!(world.outputs.iter().any(is_down), "after {steps}");
            world.call(|vidmm, _, _| vidmm.power_up());
        });
        assert!(world.vidmm.is_idle(), "after {steps}");
        assert_eq!(world.errors(), []);
        let read = world.read.iter().filter(|&&read| read != 77).copied().collect::<Vec<_>>();
        assert_eq!(read, [10, 11, 12, 13, 14], "after {steps}");
    }
}

/// A device in error amid a split: nothing more of it runs, and nothing of it stays.
#[test]
fn a_device_in_error_amid_a_split_leaves_nothing_behind() {
    for steps in 0..STEPS {
        let mut device = None;
        let mut world = amid(steps, |world, client, allocations| {
            device = Some(client);
            let bad = Writer::new().split().read(1000, allocations[0], 0).finish();
            let rule = PatchListRule::SlotId;
            assert_eq!(
                world.try_render(client.context, bad),
                Err(RenderError::PatchLocationList { position: 0, rule })
            );
            for &allocation in allocations {
                world.call(|vidmm, _, host| vidmm.destroy_allocation(host, allocation, DestroyFlags::empty())).unwrap();
            }
        });
        assert!(world.vidmm.is_idle());
        let client = device.unwrap();
        world.call(|vidmm, driver, _| vidmm.destroy_context(driver, client.context)).unwrap();
        world.call(|vidmm, driver, host| vidmm.destroy_device(driver, host, client.device)).unwrap();
        world.call(|vidmm, driver, host| vidmm.destroy_process(driver, host, client.process)).unwrap();
    }
}

/// RES-11: a request that takes the room of a running portion waits for it; the same room is not promised twice.
#[test]
fn memory_of_a_running_portion_is_promised_to_no_other() {
    let mut world = World::new(Config::pages(8));
    let (client, other) = (world.client(), world.client());
    let copy = world.context(other.device, COPY);
    let [first, second] = [client, other].map(|client| world.local(client, 8));
    world.render(client.context, Writer::new().split().write(0, first, 7, 1).read(0, first, 7).finish());
    world.poll();
    world.render(copy, Writer::new().split().write(0, second, 7, 2).read(0, second, 7).finish());
    world.poll();
    assert_eq!(world.portions().len(), 1, "the second waits until the first has left");
    world.run_all();
    assert_eq!(world.read, [1, 2]);
}

/// D5, RES-11: a portion that is given up takes nothing from work that has overtaken other work of its device and is running.
#[test]
fn memory_of_work_that_overtook_stays_when_a_decided_portion_is_given_up() {
    let mut world = World::new(Config::pages(8));
    let (client, other) = (world.client(), world.client());
    let [overtaken, copy] = [RENDER, COPY].map(|engine| world.context(client.device, engine));
    let fence = world.call(|vidmm, _, _| vidmm.create_monitored_fence(0)).unwrap();
    let waits = vec![FenceValueDesc { fence, value: 1 }];
    world.call(|vidmm, _, _| vidmm.submit(overtaken, SubmitDesc { waits, ..SubmitDesc::default() })).unwrap();
    let [kept, wanted] = [0; 2].map(|_| world.local(client, 4));
    let [running, large] = [4, 8].map(|pages| world.local(other, pages));
    let touch = |allocation, token| Writer::new().split().write(0, allocation, 3, token).read(0, allocation, 3);
    world.render(copy, touch(kept, 1).finish());
    world.render(other.context, touch(running, 2).finish());
    world.poll();
    world.render(client.context, touch(wanted, 3).read(1, kept, 3).finish());
    world.poll();
    assert_eq!(world.portions().len(), 2, "the third waits until the second has left");
    world.call(|vidmm, _, _| vidmm.suspend_process(client.process, false)).unwrap();
    world.render(other.context, touch(large, 4).finish());
    world.poll();
    while world.complete(PAGING) || world.complete(RENDER) {
        world.poll();
    }
    assert_eq!(world.read_in(other.context), [2], "the fourth waits until the first has left");
    world.call(|vidmm, _, _| vidmm.resume_process(client.process)).unwrap();
    world.call(|vidmm, _, _| vidmm.signal_monitored_fence(fence, 1)).unwrap();
    world.run_all();
    assert_eq!(world.errors(), []);
    assert_eq!(world.read_in(client.context), [3, 1]);
    assert_eq!((world.read_in(copy), world.read_in(other.context)), (&[1][..], &[2, 4][..]));
}
