//! Self-scheduled contexts: what a queue of its owner's uses stays in place until the owner says that its work has ended (D25).

use crate::world::*;
use vidmm::contract::*;
use vidmm::event::EvictReason;
use vidmm::*;

fn self_scheduled(world: &mut World, client: Client) -> ContextId {
    let context = world.call(|vidmm, _, _| vidmm.create_self_scheduled_context(client.device)).unwrap();
    world.more_contexts.push(context);
    context
}

fn begin(world: &mut World, context: ContextId) -> u64 {
    let number = world.call(|vidmm, _, _| vidmm.begin_use(context)).unwrap();
    world.poll();
    number
}

fn end(world: &mut World, context: ContextId, number: u64) -> Result<(), EndUseError> {
    let ended = world.call(|vidmm, _, _| vidmm.end_use(context, number));
    world.poll();
    ended
}

const SECOND: Nanoseconds = 1000 * MILLISECOND;

/// The numbers of the uses that have begun, and whether each waits for paging.
fn begun(world: &World) -> Vec<(u64, bool)> {
    let begun = |output: &Output| match output {
        Output::UseBegun { number, waits, .. } => Some((*number, !waits.is_empty())),
        _ => None,
    };
    world.outputs.iter().filter_map(begun).collect()
}

/// Two clients of which only one has room, and the first one's context.
fn crowd() -> (World, Client, Client, ContextId) {
    let (mut world, owner) = World::with_pages(8);
    let other = world.client();
    let context = self_scheduled(&mut world, owner);
    (world, owner, other, context)
}

/// The driver does not hear of the context, and its work is in no packet.
#[test]
fn a_use_is_nothing_to_the_driver() {
    let (mut world, owner) = World::with_pages(8);
    let contexts = world.driver.contexts.len();
    let context = self_scheduled(&mut world, owner);
    assert_eq!(world.driver.contexts.len(), contexts);
    let (number, packets) = (begin(&mut world, context), world.engines[RENDER as usize].len());
    assert_eq!(packets, 0);
    world.run_paging();
    end(&mut world, context, number).unwrap();
    world.tear_down();
}

/// A use begins at once: what it is to wait for are fences of the paging engine, before which it cannot end.
#[test]
fn a_use_waits_for_paging_on_the_gpu() {
    let (mut world, owner) = World::with_pages(8);
    let context = self_scheduled(&mut world, owner);
    let allocation = world.allocate(owner, 4);
    let _: Residency = world.make_resident(owner, &[allocation]).unwrap();
    let number = begin(&mut world, context);
    assert_eq!(begun(&world), [(number, true)]);
    let refused = end(&mut world, context, number);
    assert!(matches!(refused, Err(EndUseError::Waits { wait: EngineFence { engine: PAGING, .. }, .. })), "{refused:?}");
    world.run_paging();
    end(&mut world, context, number).unwrap();
    let second = begin(&mut world, context);
    assert_eq!(begun(&world), [(number, true), (second, false)], "nothing is left to wait for");
    end(&mut world, context, second).unwrap();
    world.tear_down();
}

/// Memory in use is no victim, however long: another device's request waits, and has its turn when the use has ended.
#[test]
fn others_wait_until_a_use_has_ended() {
    let (mut world, owner, other, context) = crowd();
    let (mine, _) = world.resident(owner, 5);
    let number = begin(&mut world, context);
    let theirs = world.allocate(other, 4);
    let _: Residency = world.make_resident(other, &[theirs]).unwrap();
    world.wait(100 * SECOND);
    assert_eq!((world.evicted(), world.paging_fence(other)), (vec![], 0));
    assert_eq!(world.preempting, [], "nobody asks an owner's queue to yield");
    end(&mut world, context, number).unwrap();
    world.run_all();
    assert_eq!(world.evicted(), [(mine, EvictReason::DeviceSuspended)]);
    assert_eq!(world.paging_fence(other), 1);
    world.tear_down();
}

/// Evict and Offer of what is in use take effect when the use has ended (RES-20).
#[test]
fn evicted_memory_leaves_when_its_use_has_ended() {
    let (mut world, owner) = World::with_pages(8);
    let context = self_scheduled(&mut world, owner);
    let (allocation, _) = world.resident(owner, 5);
    let number = begin(&mut world, context);
    world.evict(owner, &[allocation], EvictFlags::empty()).unwrap();
    let before = world.driver.operations.len();
    world.wait(SECOND);
    assert_eq!(world.driver.operations.len(), before, "its entries stay, and no byte of it moves");
    end(&mut world, context, number).unwrap();
    world.run_all();
    assert!(world.driver.operations.len() > before);
    world.tear_down();
}

/// A use that comes when its device has lost its turn begins once the device has all of its list again.
#[test]
fn a_use_begins_with_its_devices_turn() {
    let (mut world, owner, other, context) = crowd();
    world.resident(owner, 5);
    let _ = world.resident(other, 4);
    world.run_all();
    let number = begin(&mut world, context);
    world.run_all();
    assert_eq!(begun(&world).len(), 1);
    end(&mut world, context, number).unwrap();
    world.tear_down();
}

/// A queue runs its uses in order: where one has ended, the earlier ones have. Each ends once.
#[test]
fn the_end_of_a_use_ends_those_before_it() {
    let (mut world, owner) = World::with_pages(8);
    let context = self_scheduled(&mut world, owner);
    let numbers: Vec<u64> = (0..9).map(|_| begin(&mut world, context)).collect();
    assert_eq!(begun(&world).len(), 9, "no queue depth of the manager's holds them up");
    world.run_paging();
    end(&mut world, context, numbers[6]).unwrap();
    for &number in &numbers[..7] {
        assert_eq!(end(&mut world, context, number), Err(EndUseError::NotUnderWay { number }));
    }
    end(&mut world, context, numbers[8]).unwrap();
    world.tear_down();
}

/// A driver that reports of an owner's queue is wrong, and ends nothing.
#[test]
fn no_report_of_a_driver_ends_a_use() {
    let (mut world, owner) = World::with_pages(8);
    let context = self_scheduled(&mut world, owner);
    let number = begin(&mut world, context);
    world.run_paging();
    let engines = world.vidmm.engines().len() as u32;
    let signal = EngineFence { engine: engines, fence_id: 1 };
    world.call(|vidmm, _, _| vidmm.handle_completed(signal, DmaBuffer::User(vec![])));
    assert_eq!(world.vidmm.driver_findings(), [DriverFinding::CompletedForeign { found: signal }]);
    end(&mut world, context, number).unwrap();
    world.tear_down();
}

/// A program that ends leaves its queue's work behind: its memory is given back when that has ended, and not before.
#[test]
fn a_dead_programs_memory_stays_for_its_use() {
    let (mut world, owner) = World::with_pages(8);
    let context = world.call(|vidmm, _, _| vidmm.create_self_scheduled_context(owner.device)).unwrap();
    let (allocation, _) = world.resident(owner, 5);
    let number = begin(&mut world, context);
    world.end_process(owner);
    world.wait(SECOND);
    let refused = world.call(|vidmm, _, _| vidmm.begin_use(context));
    assert!(matches!(refused, Err(SubmitError::InvalidHandle(_))), "{refused:?}");
    assert!(world.living_handle(allocation).is_some(), "the queue may still write it");
    end(&mut world, context, number).unwrap();
    world.run_all();
    assert_eq!(world.living_handle(allocation), None);
    world.tear_down();
}

/// A reset of the adapter ends all that runs, and the memory with it.
#[test]
fn a_reset_of_the_adapter_ends_uses() {
    let (mut world, owner) = World::with_pages(8);
    let context = self_scheduled(&mut world, owner);
    world.resident(owner, 2);
    let number = begin(&mut world, context);
    let other = world.client();
    let theirs = world.allocate(other, 1);
    let _: Residency = world.make_resident(other, &[theirs]).unwrap();
    world.poll();
    world.fault(PAGING, 0xBAD_0000);
    world.run_all();
    assert_eq!(end(&mut world, context, number), Err(EndUseError::NotUnderWay { number }));
    world.tear_down();
}

/// Work of one kind of context is not for the other, and changes nothing.
#[test]
fn scheduled_and_self_scheduled_contexts_do_not_mix() {
    let (mut world, owner) = World::with_pages(8);
    let context = self_scheduled(&mut world, owner);
    let submitted = world.call(|vidmm, _, _| vidmm.submit(context, SubmitDesc::default()));
    assert_eq!(submitted, Err(SubmitError::WrongContext { is_self_scheduled: true }));
    let used = world.call(|vidmm, _, _| vidmm.begin_use(owner.context));
    assert_eq!(used, Err(SubmitError::WrongContext { is_self_scheduled: false }));
    let number = world.submit(owner, &[]);
    world.poll();
    assert_eq!(end(&mut world, owner.context, number), Err(EndUseError::NotUnderWay { number }));
    world.tear_down();
}
