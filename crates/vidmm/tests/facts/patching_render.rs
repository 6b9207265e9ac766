//! Render: how command buffers become DMA buffers (PAT-10 to PAT-16).

use std::collections::BTreeSet;

use crate::patching::*;
use vidmm::{contract::RenderStatus, *};

/// A portion in the tests: the state, a write and a read.
const PORTION_BYTES: usize = 3 * COMMAND_BYTES as usize;

/// A driver whose DMA buffer is full goes on in a new DMA buffer, and the DMA buffers run in order (PAT-12).
#[test]
fn a_driver_that_fills_its_dma_buffer_goes_on_in_a_new_one() {
    for bytes in [PORTION_BYTES, 100, 4096, 5000, usize::MAX] {
        let mut world = World::new(Config::pages(8));
        world.driver.render_bytes_max = bytes;
        let client = world.client();
        let [first, second] = [6; 2].map(|pages| world.local(client, pages));
        let mut writer = Writer::new();
        for at in 0..300 {
            let (allocation, page) = if at % 150 < 75 { (first, at % 6) } else { (second, at % 5) };
            writer = writer.split().write(0, allocation, page, at).read(0, allocation, page);
        }
        let buffers = 300usize.div_ceil(bytes / PORTION_BYTES);
        assert_eq!(world.render(client.context, writer.finish()), 1..=buffers as u64);
        assert_eq!(world.driver.renders as usize, buffers);
        world.run_all();
        assert_eq!(world.read, Vec::from_iter(0..300));
        // Memory holds one of the allocations: a part of the commands ends where the other begins, or with its DMA buffer.
        let ends =
            (1..4).map(|change| change * 75).chain((1..=buffers).map(|at| (at * (bytes / PORTION_BYTES)).min(300)));
        assert_eq!(world.portions().len(), ends.collect::<BTreeSet<_>>().len());
    }
}

/// The first DMA buffer of a command buffer waits, and the last DMA buffer signals.
#[test]
fn fences_of_commands_are_for_the_first_dma_buffer_and_for_the_last() {
    let mut world = World::new(Config::pages(8));
    let client = world.client();
    let allocation = world.local(client, 1);
    let fence = |world: &mut World| world.call(|vidmm, _, _| vidmm.create_monitored_fence(0)).unwrap();
    let (before, after) = (fence(&mut world), fence(&mut world));
    let portions =
        (0..3).fold(Writer::new(), |writer, at| writer.split().write(0, allocation, 0, at).read(0, allocation, 0));
    let waits = vec![FenceValueDesc { fence: before, value: 1 }];
    let signals = vec![FenceValueDesc { fence: after, value: 1 }];
    world.driver.render_bytes_max = PORTION_BYTES;
    world.render(client.context, RenderDesc { waits, signals, ..portions.finish() });
    world.run_all();
    assert_eq!(world.read, [0; 0]);
    world.call(|vidmm, _, _| vidmm.signal_monitored_fence(before, 1)).unwrap();
    world.poll();
    for at in 0..3 {
        assert_eq!(world.vidmm.monitored_fence_value(after), Ok(0), "{at} DMA buffers have run");
        while world.read.len() == at {
            assert!(world.complete(PAGING) || world.complete(RENDER));
            world.poll();
        }
    }
    assert_eq!(world.vidmm.monitored_fence_value(after), Ok(1));
    assert_eq!(world.read, [0, 1, 2]);
}

/// The data that a driver keeps with a DMA buffer goes with each portion, as Render has left it or Patch has changed it (PAT-02).
#[test]
fn private_data_goes_with_each_portion() {
    for bytes in [2 * COMMAND_BYTES as usize, usize::MAX] {
        let mut world = World::new(Config::pages(8));
        let client = world.client();
        let [first, second] = [6; 2].map(|pages| world.local(client, pages));
        let writer = Writer::new().split().write(0, first, 0, 1).split().write(0, second, 0, 2).split();
        world.driver.render_bytes_max = bytes;
        world.render(client.context, writer.read(0, first, 0).finish());
        world.run_all();
        assert_eq!(world.portions().len(), 3);
        assert_eq!(world.private_data, [[PATCHED]; 3], "an address was unknown in each");
        world.private_data.clear();
        // The address of an allocation in its place is known to Render, so Patch is not called.
        let read = Writer::new().split().read(0, first, 0).finish();
        let length = read.command.len() as u32 / COMMAND_BYTES;
        world.render(client.context, read);
        world.run_all();
        assert_eq!(world.private_data, [[length as u8]]);
    }
}

/// A driver that fills one DMA buffer after the other, without an end.
#[test]
fn a_driver_that_never_ends_is_given_up() {
    let mut world = World::new(Config::pages(8));
    let client = world.client();
    let allocation = world.local(client, 1);
    let desc = Writer::new().split().read(0, allocation, 0).finish();
    world.driver.render_never_ends = true;
    let refused = world.try_render(client.context, desc.clone());
    assert_eq!(refused, Err(RenderError::Driver(RenderStatus::InsufficientDmaBuffer)));
    world.driver.render_never_ends = false;
    assert_eq!(world.render(client.context, desc), 1..=1, "nothing was queued");
    world.run_all();
    assert_eq!((world.errors(), world.read.as_slice()), (vec![], &[0][..]));
}

/// Nothing is queued, nobody is in error, and it ends.
#[test]
fn a_driver_that_never_has_room_enough_is_given_up() {
    let mut world = World::new(Config::pages(8));
    let client = world.client();
    let allocation = world.local(client, 1);
    let desc = Writer::new().split().read(0, allocation, 0).finish();
    world.driver.render_bytes_max = 0;
    let refused = world.try_render(client.context, desc.clone());
    assert_eq!(refused, Err(RenderError::Driver(RenderStatus::InsufficientDmaBuffer)));
    assert_eq!(world.driver.render_room, 64 << 20, "so much room is all there is");
    world.driver.render_bytes_max = usize::MAX;
    world.render(client.context, desc);
    world.run_all();
    assert_eq!((world.errors(), world.read.as_slice()), (vec![], &[0][..]));
}

#[test]
fn an_allocation_of_another_device_is_refused() {
    let mut world = World::new(Config::pages(8));
    let (client, other) = (world.client(), world.client());
    let (own, theirs) = (world.local(client, 1), world.local(other, 1));
    let desc = Writer::new().split().read(0, own, 0).read(1, theirs, 0).finish();
    assert_eq!(world.try_render(client.context, desc), Err(RenderError::WrongDevice { position: 1 }));
    world.call(|vidmm, _, host| vidmm.destroy_allocation(host, own, DestroyFlags::empty())).unwrap();
    world.run_all();
    let desc = Writer::new().split().read(0, own, 0).finish();
    assert!(matches!(world.try_render(client.context, desc), Err(RenderError::InvalidHandle(_))));
    assert_eq!(world.driver.renders, 0, "the driver is not asked");
}

/// The same element may be bound to several slots, and an allocation may be in several elements.
#[test]
fn an_allocation_that_is_named_many_times_is_brought_in_once() {
    let mut world = World::new(Config::pages(2));
    let client = world.client();
    let allocation = world.local(client, 2);
    let mut writer = Writer::new().split().write(0, allocation, 1, 5);
    for slot in 0..16 {
        writer = writer.split().read(slot, allocation, 1);
    }
    let mut desc = writer.finish();
    for location in &mut desc.patch_locations[5..] {
        location.allocation_index = 4;
    }
    world.render(client.context, desc);
    world.run_all();
    assert_eq!((world.portions().len(), world.read), (1, vec![5; 16]));
}

/// D14: DMA buffers that wait are bounded, and the refusal changes nothing.
#[test]
fn dma_buffers_that_wait_are_bounded() {
    let mut world = World::new(Config::pages(8));
    let client = world.client();
    let allocation = world.local(client, 1);
    let desc = Writer::new().split().write(0, allocation, 0, 7).finish();
    let mut queued = 0;
    let refused = loop {
        match world.vidmm.render(&mut world.driver, client.context, desc.clone()) {
            Ok(_) => queued += 1,
            Err(error) => break error,
        }
    };
    assert_eq!((queued, refused), (4096, RenderError::QueueFull { queued: 4096 }));
    assert_eq!(world.driver.renders, 4096, "the driver is not asked");
    world.run_all();
    world.render(client.context, desc);
    world.run_all();
    assert_eq!((world.errors(), world.portions().len()), (vec![], 4097));
    // Of commands all DMA buffers are queued, or none.
    world.driver.render_bytes_max = 2 * COMMAND_BYTES as usize;
    let portions = (0..4097).fold(Writer::new(), |writer, at| writer.split().write(0, allocation, 0, at));
    let refused = world.try_render(client.context, portions.finish());
    world.run_all();
    assert_eq!((refused, world.portions().len()), (Err(RenderError::QueueFull { queued: 0 }), 4097));
}

/// P51, I21: a driver that claims to have written more than its room puts the adapter in error.
#[test]
fn a_render_that_overruns_its_dma_buffer_is_found() {
    for more in [0, 1, usize::MAX / 2] {
        let mut world = World::new(Config::pages(8));
        let client = world.client();
        let allocation = world.local(client, 1);
        // As many bytes as the room has, so that one more is too many.
        let reads = 4096 / COMMAND_BYTES - 1;
        let writer = (0..reads).fold(Writer::new().split(), |writer, _| writer.read(0, allocation, 0));
        world.driver.render_claims_more = more;
        let rendered = world.try_render(client.context, writer.finish());
        world.run_all();
        let dma_bytes = 4096usize.saturating_add(more);
        let expected = Violation::BufferOverrun { operation: None, dma_bytes, private_bytes: 1 };
        let is_overrun = |output: &Output| matches!(output, Output::AdapterInError(found) if *found == expected);
        assert_eq!((rendered.is_err(), world.outputs.iter().any(is_overrun)), (more > 0, more > 0));
    }
}
