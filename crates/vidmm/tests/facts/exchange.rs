//! Exchange: what a sleeper holds goes to a process that is away from home, and comes back as the sleeper wakes (D36, RES-71).

use crate::world::*;
use vidmm::event::SuspendReason;
use vidmm::*;

const SECOND: Nanoseconds = 1000 * MILLISECOND;

/// 16 pages of local memory: a sleeper holds 12 of them, and a guest, which works every second, has 6 pages in system memory.
struct Rivals {
    world: World,
    sleeper: Client,
    held: AllocationId,
    held_at: u64,
    guest: Client,
    late: AllocationId,
    late_at: u64,
}

impl Rivals {
    fn new() -> Self {
        let mut world = World::new(Config::discrete(16, 32));
        let sleeper = world.client();
        let held = world.create(sleeper, Place::Local, 12, SILENT);
        let held_at = world.map(sleeper, held);
        world.bring_in(sleeper, &[held]);
        world.submit(sleeper, &[Access::Write(held_at, 7)]);
        world.run_all();
        let guest = world.client();
        let late = world.create(guest, Place::LocalOrSystem, 6, SILENT);
        let late_at = world.map(guest, late);
        world.bring_in(guest, &[late]);
        assert_eq!(world.placed.get(&late), Some(&SegmentId::SYSTEM));
        Self { world, sleeper, held, held_at, guest, late, late_at }
    }

    /// The guest works once a second.
    fn sleep(&mut self, seconds: u64) {
        for token in 0..seconds {
            self.world.submit(self.guest, &[Access::Write(self.late_at, token)]);
            self.world.run_all();
            self.world.wait(SECOND);
        }
    }

    /// The sleeper has work.
    fn wake(&mut self) {
        self.world.submit(self.sleeper, &[Access::Read(self.held_at)]);
    }

    fn place_of(&self, allocation: AllocationId) -> Option<SegmentId> {
        self.world.placed.get(&allocation).copied()
    }

    fn exchanges(&self) -> usize {
        let is_exchange = |turn: &&(DeviceId, SuspendReason)| **turn == (self.sleeper.device, SuspendReason::Exchange);
        self.world.yielded().iter().filter(is_exchange).count()
    }
}

/// After ten seconds of sleep, not before, the guest comes home; the woken sleeper has its memory back at once, and its content.
#[test]
fn a_guest_has_the_memory_of_a_sleeper_until_the_sleeper_wakes() {
    let mut rivals = Rivals::new();
    rivals.sleep(9);
    assert_eq!((rivals.exchanges(), rivals.place_of(rivals.late)), (0, Some(SegmentId::SYSTEM)));
    rivals.sleep(2);
    assert_eq!((rivals.exchanges(), rivals.place_of(rivals.late)), (1, Some(LOCAL)));
    let woken = rivals.world.now;
    rivals.wake();
    rivals.world.run_all();
    assert_eq!(rivals.world.read, [7]);
    assert!(rivals.world.now - woken < 100 * MILLISECOND, "the sleeper waits for copies alone");
    assert_eq!((rivals.place_of(rivals.held), rivals.place_of(rivals.late)), (Some(LOCAL), Some(SegmentId::SYSTEM)));
    assert_eq!(rivals.world.token(rivals.guest, rivals.late_at), Some(1));
    rivals.world.tear_down();
}

/// The second exchange of a device is no sooner than twenty seconds after the first.
#[test]
fn each_exchange_doubles_the_wait_for_the_next() {
    let mut rivals = Rivals::new();
    rivals.sleep(11);
    rivals.wake();
    rivals.world.run_all();
    assert_eq!(rivals.exchanges(), 1);
    rivals.sleep(18);
    assert_eq!(rivals.exchanges(), 1, "twenty seconds after the first exchange are not over");
    rivals.sleep(3);
    assert_eq!((rivals.exchanges(), rivals.place_of(rivals.late)), (2, Some(LOCAL)));
    rivals.world.tear_down();
}

/// A guest that has evicted what came home owes nothing: nobody looks for the debt again and again.
#[test]
fn a_guest_that_has_left_home_gives_nothing_back() {
    let mut rivals = Rivals::new();
    rivals.sleep(11);
    assert_eq!(rivals.place_of(rivals.late), Some(LOCAL));
    rivals.world.evict(rivals.guest, &[rivals.late], SOON).unwrap();
    rivals.wake();
    rivals.world.run_all();
    assert_eq!((rivals.world.read.as_slice(), rivals.place_of(rivals.held)), (&[7][..], Some(LOCAL)));
    rivals.world.tear_down();
}

/// A sleeper that wakes while the guest's copy is on its way waits for the end of the copy without polling.
#[test]
fn a_sleeper_that_wakes_within_the_exchange_waits_for_its_copies() {
    let mut rivals = Rivals::new();
    rivals.sleep(9);
    let copies = |world: &World| (0..3).any(|engine| world.is_paging_next(engine));
    while !copies(&rivals.world) {
        rivals.world.now += 100 * MILLISECOND;
        rivals.world.poll();
    }
    assert_eq!(rivals.exchanges(), 1);
    rivals.wake();
    rivals.world.poll();
    rivals.world.run_all();
    assert_eq!(rivals.world.read, [7]);
    assert_eq!((rivals.place_of(rivals.held), rivals.place_of(rivals.late)), (Some(LOCAL), Some(SegmentId::SYSTEM)));
    rivals.world.tear_down();
}
