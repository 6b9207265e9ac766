//! A DMA buffer whose references do not fit is cut at its split points (SPL-01 to SPL-11; P33 to P40).

mod patching;

use patching::*;
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
