//! The question whether a set fits: the answer is that of a MakeResident at the same moment, and nothing changes.

use crate::world::*;
use vidmm::*;

#[test]
fn the_answer_names_the_room_now_the_room_after_trims_and_the_holders() {
    let (mut world, game) = World::with_pages(8);
    let editor = world.client();
    let [big, small, wanted] = [4, 2, 3].map(|pages| world.allocate(game, pages));
    let other = world.allocate(editor, 2);
    world.bring_in(game, &[big]);
    world.bring_in(editor, &[other]);
    let room = world.vidmm.query_room(game.device, &[small]).unwrap();
    let [memory] = &room.memory[..] else { panic!("{room:?}") };
    assert_eq!((room.refusal, memory.bytes_now), (None, 2 * PAGE_SIZE), "two pages are free");
    let holder = |client: Client, pages| Holder { process: client.process, bytes: pages * PAGE_SIZE };
    assert_eq!(memory.holders, [holder(game, 4), holder(editor, 2)], "nobody has a reservation");
    assert_eq!(memory.bytes_after_trims, 6 * PAGE_SIZE, "the editor keeps its two pages");

    world
        .call(|vidmm, _, _| {
            vidmm.change_video_memory_reservation(editor.process, MemorySegmentGroup::Local, 2 * PAGE_SIZE)
        })
        .unwrap();
    let room = world.vidmm.query_room(game.device, &[wanted]).unwrap();
    let refusal = room.refusal.expect("three pages do not fit beside the editor");
    assert_eq!((refusal.num_bytes_to_trim, refusal.reason), (PAGE_SIZE, NoMemoryReason::OverBudget));
    assert_eq!(room.memory[0].holders, [holder(game, 4)], "the editor has what is reserved");
    let before = world.fingerprint();
    assert_eq!(world.vidmm.query_room(game.device, &[]), Err(MakeResidentError::Empty));
    assert_eq!(world.vidmm.query_room(editor.device, &[big]), Err(MakeResidentError::WrongDevice { position: 0 }));
    assert_eq!(world.fingerprint(), before, "a question changes nothing");
}

/// The device's set of allocations with several homes still has the destroyed and the evicted when the question is asked.
#[test]
fn allocations_that_are_gone_have_no_part_in_the_answer() {
    let mut world = World::new(Config::discrete(16, 32));
    let client = world.client();
    let [gone, evicted, listed] = [4, 4, 12].map(|pages| world.create(client, Place::LocalOrSystem, pages, SILENT));
    world.bring_in(client, &[gone, evicted, listed]);
    world.call(|vidmm, _, _| vidmm.evict(client.device, &[gone, evicted], SOON)).unwrap();
    world.destroy(gone);
    world.run_all();
    let [fits, not] = [30, 60].map(|pages| world.create(client, Place::LocalOrSystem, pages, SILENT));
    for wanted in [not, fits] {
        let before = world.fingerprint();
        let room = world.vidmm.query_room(client.device, &[wanted, evicted]).unwrap();
        assert_eq!(room.refusal.is_none(), wanted == fits, "{room:?}");
        assert_eq!(world.fingerprint(), before);
        assert_eq!(world.make_resident(client, &[wanted, evicted]).is_ok(), wanted == fits);
    }
    world.run_all();
    world.tear_down();
}
