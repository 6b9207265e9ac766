//! A DMA buffer whose references do not fit is cut at its split points (SPL-01 to SPL-11; P33 to P40).

use crate::patching::*;
use vidmm::*;

/// Six commands, each of which writes to two allocations of four pages and reads them, in a memory that holds two (P33).
#[test]
fn a_buffer_is_cut_at_the_split_offset_of_what_does_not_fit() {
    let mut world = World::new(Config::pages(8));
    let client = world.client();
    let allocations: Vec<AllocationId> = (0..12).map(|_| world.local(client, 4)).collect();
    let mut writer = Writer::new();
    for (number, pair) in allocations.chunks(2).enumerate() {
        writer = writer.split();
        for (slot, &allocation) in pair.iter().enumerate() {
            let token = (number * 2 + slot) as u64 + 100;
            writer = writer.write(slot as u32, allocation, 3, token).read(slot as u32, allocation, 3);
        }
    }
    world.render(client.context, writer.finish());
    world.run_all();
    assert!(world.vidmm.is_idle());
    assert_eq!(world.read, Vec::from_iter(100..112));
    let each = 5 * COMMAND_BYTES;
    assert_eq!(world.portions(), Vec::from_iter((0..6).map(|at| (at * each, (at + 1) * each))));

    let mut again = Writer::new();
    for &allocation in &allocations {
        again = again.split().read(0, allocation, 3);
    }
    world.read.clear();
    world.render(client.context, again.finish());
    world.run_all();
    assert_eq!(world.read, Vec::from_iter(100..112), "what was paged out comes back");
}

/// P34: until the split point that binds another in its slot an allocation stays where it is; from there on it may go.
#[test]
fn an_allocation_replaced_in_its_slot_may_be_evicted_from_that_split_point_on() {
    let mut world = World::new(Config::pages(8));
    let client = world.client();
    let [first, second, third, fourth] = [4; 4].map(|pages| world.local(client, pages));
    let writer = Writer::new().split().program(0, first).write_bound(0, 1, 11).program(1, second);
    let writer = writer.split().program(1, third).read_bound(0, 1).write_bound(1, 0, 13);
    let writer = writer.split().program(0, fourth).read_bound(1, 0);
    world.render(client.context, writer.finish());
    world.run_all();
    assert_eq!(world.read, [11, 13]);
    assert_eq!(world.evicted(), [(1, second), (2, first)]);
    let (allocation, page, fixed) = world.place(1, 0).unwrap();
    assert_eq!((allocation, fixed), (first, true));
    assert_eq!(world.place(0, 0), Some((first, page, false)));
}

/// P35: a NULL allocation frees the slot at its split point, and what was in it may go. Without it the rest would not fit.
#[test]
fn an_unbound_allocation_may_be_evicted_from_that_split_point_on() {
    let buffer = |unbinds: bool, first, second| {
        let writer = Writer::new().split().write(0, first, 0, 5).split();
        let writer = if unbinds { writer.unbind(0) } else { writer };
        writer.write(1, second, 0, 6).finish()
    };
    for unbinds in [true, false] {
        let mut world = World::new(Config::pages(8));
        let client = world.client();
        let [first, second] = [5; 2].map(|pages| world.local(client, pages));
        world.render(client.context, buffer(unbinds, first, second));
        world.run_all();
        assert_eq!(world.portions().len(), 1 + usize::from(unbinds));
        let failed = DeviceErrorReason::PreparationFailed { dma_buffer: 1, bytes: 10 * PAGE_SIZE };
        assert_eq!(world.errors(), if unbinds { vec![] } else { vec![failed] });
        assert_eq!(world.evicted(), if unbinds { vec![(1, first)] } else { vec![] });
    }
}

/// P36: an allocation that stays bound and is not reprogrammed is where it was, whatever goes and comes around it.
#[test]
fn bound_allocations_keep_their_address_across_every_cut() {
    let mut world = World::new(Config::pages(8));
    let client = world.client();
    let kept = world.local(client, 2);
    let others: Vec<AllocationId> = (0..8).map(|at| world.local(client, 3 + at % 2)).collect();
    let mut writer = Writer::new().split().program(0, kept).write_bound(0, 1, 1);
    for (at, &other) in others.iter().enumerate() {
        writer = writer.split().read_bound(0, 1).write_bound(0, 1, at as u64 + 2).write(1, other, 2, 9);
    }
    world.render(client.context, writer.finish());
    world.run_all();
    assert_eq!(world.read, Vec::from_iter(1..9));
    let places: Vec<(AllocationId, u64, bool)> =
        (1..world.portions().len()).map(|portion| world.place(portion, 0).unwrap()).collect();
    assert!(places.len() >= 4);
    let page = world.place(0, 0).unwrap().1;
    assert!(places.iter().all(|&place| place == (kept, page, true)), "{places:?}");
}

/// Two pages in the middle of six, with a hole at either end for which four are wanted.
fn in_the_middle(reprograms: bool) -> (World, Vec<u64>) {
    let mut world = World::new(Config::pages(6));
    let client = world.client();
    let [before, texture] = [2; 2].map(|pages| world.local(client, pages));
    let large = world.local(client, 4);
    let writer = Writer::new().split().program(0, before).program(1, texture);
    let writer = writer.write_bound(1, 0, 70).write_bound(1, 1, 71).split().unbind(0);
    let writer = if reprograms { writer.program(1, texture) } else { writer };
    let writer = writer.write(2, large, 3, 72).read_bound(1, 0).read_bound(1, 1).read(2, large, 3);
    world.render(client.context, writer.finish());
    world.run_all();
    let read = world.read.clone();
    (world, read)
}

/// P37, SPL-08: an allocation that is reprogrammed at the split point may move, and takes its content along.
#[test]
fn reprogrammed_allocations_may_move_so_that_the_rest_fits() {
    let (world, read) = in_the_middle(true);
    assert_eq!(read, [70, 71, 72]);
    let (before, after) = (world.place(0, 1).unwrap(), world.place(1, 1).unwrap());
    assert_eq!(before.0, after.0);
    assert_ne!(before.1, after.1, "it has moved");
    assert_eq!(world.errors(), []);
}

/// SPL-08, SPL-10: an allocation that is bound and not reprogrammed does not move, even if nothing else fits then.
#[test]
fn allocations_not_reprogrammed_do_not_move_even_if_the_rest_does_not_fit() {
    let (world, read) = in_the_middle(false);
    assert_eq!(read, [0u64; 0]);
    assert_eq!(world.portions().len(), 1);
    assert_eq!(world.errors(), [DeviceErrorReason::PreparationFailed { dma_buffer: 1, bytes: 6 * PAGE_SIZE }],);
}

/// I19: patch locations that share a split offset are taken together or not at all.
#[test]
fn bindings_of_one_split_point_are_taken_whole() {
    let mut world = World::new(Config::pages(8));
    let client = world.client();
    let [first, second, third] = [4; 3].map(|pages| world.local(client, pages));
    let writer = Writer::new().split().write(0, first, 0, 1).split().unbind(0);
    let writer = writer.write(1, second, 0, 2).write(2, third, 0, 3).read(1, second, 0).read(2, third, 0);
    world.render(client.context, writer.finish());
    world.run_all();
    assert_eq!(world.portions(), [(0, 2 * COMMAND_BYTES), (2 * COMMAND_BYTES, 7 * COMMAND_BYTES)]);
    assert_eq!(world.read, [2, 3]);
}

/// SPL-02: the part before the first split offset requires nothing.
#[test]
fn a_buffer_may_begin_without_any_binding_and_need_none_at_all() {
    let mut world = World::new(Config::pages(4));
    let client = world.client();
    let allocation = world.local(client, 4);
    world.render(client.context, Writer::new().split().finish());
    world.render(
        client.context,
        Writer::new().split().split().write(0, allocation, 3, 7).read(0, allocation, 3).finish(),
    );
    world.render(client.context, Writer::new().finish());
    world.run_all();
    assert!(world.vidmm.is_idle());
    assert_eq!((world.read.as_slice(), world.errors()), (&[7][..], vec![]));
    assert_eq!(world.portions().len(), 3);
}

/// P40: the portions that can be brought in run, then the device is in error; others go on.
#[test]
fn a_buffer_that_cannot_ever_fit_puts_its_device_alone_in_error() {
    let mut world = World::new(Config::pages(8));
    let (client, other) = (world.client(), world.client());
    let [first, second, third] = [4; 3].map(|pages| world.local(client, pages));
    let theirs = world.local(other, 8);
    let writer = Writer::new().split().write(0, first, 0, 1).read(0, first, 0);
    let writer = writer.split().write(0, first, 0, 2).write(1, second, 0, 2).write(2, third, 0, 3);
    world.render(client.context, writer.finish());
    let queued = Writer::new().split().read(0, second, 0).finish();
    world.render(client.context, queued.clone());
    world.render(other.context, Writer::new().split().write(0, theirs, 7, 4).read(0, theirs, 7).finish());
    world.run_all();
    assert!(world.vidmm.is_idle());
    assert_eq!(world.read, [1, 4]);
    assert_eq!(world.errors(), [DeviceErrorReason::PreparationFailed { dma_buffer: 1, bytes: 12 * PAGE_SIZE }],);
    assert!(world.ran.len() < 10, "in bounded time: {:?}", world.ran);
    assert!(matches!(world.try_render(client.context, queued), Err(RenderError::DeviceInError(_))));
    world.render(other.context, Writer::new().split().read(0, theirs, 7).finish());
    world.run_all();
    assert_eq!(world.read, [1, 4, 4]);
}

/// Whose room was taken for another, and who is required himself then, has no other room to give.
#[test]
fn a_required_allocation_that_must_go_for_another_comes_in_the_next_portion() {
    let mut world = World::new(Config::pages(4));
    let client = world.client();
    let [first, second, large] = [2, 2, 3].map(|pages| world.local(client, pages));
    world.render(client.context, Writer::new().split().write(0, first, 1, 1).write(1, second, 1, 2).finish());
    world.run_all();
    let writer = Writer::new().split().write(0, large, 2, 3).read(0, large, 2).split().read(0, first, 1);
    world.render(client.context, writer.split().read(0, second, 1).finish());
    world.run_all();
    assert_eq!((world.errors(), world.read.as_slice()), (vec![], &[3, 1, 2][..]));
    assert_eq!(world.portions().len(), 3);
}
