//! Blocks of local memory are vacated where little of each is in use.

use std::collections::VecDeque;

use vidmm_vulkan::{Options, Unbinding, Validation};

use crate::moving::local_memory;
use crate::{MIB, World, alone, open, options};

/// Every fourth of 128 buffers stays in use, in all blocks: they move together, a part with each frame, also while frames are in flight.
#[test]
fn scattered_local_memory_is_given_back_within_60_frames() {
    for (unbinding, depth) in [(Unbinding::Strict, 1), (Unbinding::Lazy, 3)] {
        let alone = alone();
        let options = Options { unbinding, ..options(160 * MIB) };
        let Some((adapter, is_validated)) = open(options, Validation::On) else { return };
        let mut world = World::over(adapter, is_validated, alone);
        let buffers: Vec<_> = (0..128).map(|_| world.buffer(MIB)).collect();
        for (seed, buffer) in (0..).zip(&buffers) {
            world.run_frame(&[(buffer, None, Some(seed))]);
        }
        let uses: Vec<_> =
            (0..).zip(&buffers).step_by(4).map(|(seed, buffer)| (buffer, Some(seed), Some(seed))).collect();
        world.run_frame(&uses);
        assert!(local_memory(&world).allocated >= 128 * MIB, "{:?}", local_memory(&world));
        world.adapter.restrict_local_memory(Some(33 * MIB)).expect("the adapter works");
        let (mut frames, mut in_flight) = (0, VecDeque::new());
        while local_memory(&world).allocated > (33 + 16) * MIB {
            assert!(frames < 60, "{unbinding:?}: {:?}", local_memory(&world));
            let before = world.adapter.statistics().expect("the adapter answers").bytes_paged_in;
            in_flight.push_back(world.begin_frame(&uses));
            let came = world.adapter.statistics().expect("the adapter answers").bytes_paged_in - before;
            assert!(came <= 16 * MIB, "{came} bytes come in for frame {frames}");
            if in_flight.len() >= depth {
                let frame = in_flight.pop_front().expect("there are some");
                world.end_frame(frame);
            }
            frames += 1;
        }
        in_flight.into_iter().for_each(|frame| world.end_frame(frame));
        let usage = world.process.budget().expect("the adapter answers").current_usage;
        assert!(usage <= 33 * MIB, "{usage} bytes are in use");
        for (seed, buffer) in (0..).zip(&buffers) {
            world.run_frame(&[(buffer, Some(seed), None)]);
        }
        drop(buffers);
        world.is_clean();
    }
}

/// Buffers on a list of the application's own move too: no use sees a buffer that is not there.
#[test]
fn scattered_buffers_on_a_list_of_the_application_move_too() {
    let Some(mut world) = World::new(160 * MIB) else { return };
    let buffers: Vec<_> = (0..128).map(|_| world.buffer(MIB)).collect();
    for (seed, buffer) in (0..).zip(&buffers) {
        world.run_frame(&[(buffer, None, Some(seed))]);
    }
    let listed: Vec<_> = buffers.iter().step_by(4).collect();
    world.wait(world.make_resident(&listed));
    // Some are there twice (RES-02).
    world.wait(world.make_resident(&listed[..8]));
    assert!(local_memory(&world).allocated >= 128 * MIB, "{:?}", local_memory(&world));
    world.adapter.restrict_local_memory(Some(33 * MIB)).expect("the adapter works");
    let mut uses = 0;
    while local_memory(&world).allocated > (33 + 16) * MIB {
        assert!(uses < 60, "{:?}", local_memory(&world));
        let number = uses % listed.len();
        let seed = Some(4 * number as u32);
        world.run(listed[number], seed, seed);
        uses += 1;
    }
    world.evict(&listed);
    world.evict(&listed[..8]);
    for (seed, buffer) in (0..).zip(&buffers) {
        world.run_frame(&[(buffer, Some(seed), None)]);
    }
    drop(buffers);
    world.is_clean();
}
