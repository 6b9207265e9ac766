//! Policies of eviction (D24): each does what its paper says, and none breaks the order in which the manager lets things go.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;
use vidmm::policy::{Candidates, Policy, PolicyChoice, PolicyInUse, PolicyKind, Recency, Subject};
use vidmm::*;

use crate::world::*;

/// A client that uses allocations of one page, one at a time.
struct Reader {
    world: World,
    client: Client,
    allocations: Vec<AllocationId>,
}

impl Reader {
    fn new(policy: PolicyChoice, room: u64, count: usize) -> Self {
        let mut world = World::new(Config { policy, ..Config::pages(room) });
        let client = world.client();
        let allocations = (0..count).map(|_| world.allocate(client, 1)).collect();
        Self { world, client, allocations }
    }

    fn access(&mut self, number: usize) {
        let allocation = self.allocations[number];
        self.world.bring_in(self.client, &[allocation]);
        self.world.submit(self.client, &[]);
        self.world.evict(self.client, &[allocation], IF_NECESSARY).unwrap();
        self.world.run_all();
    }

    /// The numbers of all that were evicted so far, in that order.
    fn evicted(&self) -> Vec<usize> {
        let number = |id| self.allocations.iter().position(|&allocation| allocation == id).expect("it is one of them");
        self.world.evicted().into_iter().map(|(id, _)| number(id)).collect()
    }
}

/// A cache of objects of one size, written for these tests from the papers.
trait Cache {
    /// Uses an object. Returns the one that is evicted for it.
    fn access(&mut self, object: usize) -> Option<usize>;
}

/// Objects in the order of their arrival, and whether each was used since.
struct SecondChance(usize, Vec<(usize, bool)>);

impl Cache for SecondChance {
    fn access(&mut self, object: usize) -> Option<usize> {
        let Self(room, queue) = self;
        if let Some(found) = queue.iter_mut().find(|(known, _)| *known == object) {
            found.1 = true;
            return None;
        }
        let mut victim = None;
        while queue.len() == *room {
            let (first, is_used) = queue.remove(0);
            if is_used {
                queue.push((first, false));
            } else {
                victim = Some(first);
            }
        }
        queue.push((object, false));
        victim
    }
}

/// The key of each object, its uses, and the time of the last use. The key of a use follows from the key before, the uses and the age.
struct Aging {
    room: usize,
    key: fn(u64, u64, u64) -> u64,
    age: u64,
    time: u64,
    known: BTreeMap<usize, (u64, u64, u64)>,
}

impl Aging {
    fn new(room: usize, key: fn(u64, u64, u64) -> u64) -> Self {
        Self { room, key, age: 0, time: 0, known: BTreeMap::new() }
    }
}

impl Cache for Aging {
    fn access(&mut self, object: usize) -> Option<usize> {
        self.time += 1;
        let mut victim = None;
        if !self.known.contains_key(&object) && self.known.len() == self.room {
            let (&first, &(key, ..)) =
                self.known.iter().min_by_key(|&(_, &(key, _, time))| (key, time)).expect("it is full");
            self.known.remove(&first);
            (self.age, victim) = (key, Some(first));
        }
        let (key, uses, _) = self.known.get(&object).copied().unwrap_or((0, 0, 0));
        self.known.insert(object, ((self.key)(key, uses + 1, self.age), uses + 1, self.time));
        victim
    }
}

/// Objects in the order of their arrival with a mark for a use, and the place of the hand.
struct Hand {
    room: usize,
    queue: Vec<(usize, bool)>,
    at: usize,
}

impl Cache for Hand {
    fn access(&mut self, object: usize) -> Option<usize> {
        if let Some(found) = self.queue.iter_mut().find(|(known, _)| *known == object) {
            found.1 = true;
            return None;
        }
        let mut victim = None;
        while self.queue.len() == self.room {
            let (first, is_used) = self.queue[self.at];
            if is_used {
                self.queue[self.at].1 = false;
                self.at += 1;
            } else {
                self.queue.remove(self.at);
                victim = Some(first);
            }
            self.at = if self.at == self.queue.len() { 0 } else { self.at };
        }
        self.queue.push((object, false));
        victim
    }
}

/// The times of the last two uses of each object, the newest last.
struct TwoUses(usize, u64, BTreeMap<usize, (Option<u64>, u64)>);

impl Cache for TwoUses {
    fn access(&mut self, object: usize) -> Option<usize> {
        let Self(room, time, known) = self;
        *time += 1;
        let mut victim = None;
        if !known.contains_key(&object) && known.len() == *room {
            // Nothing is before the first time: an object with one use goes first.
            let (&first, _) = known.iter().min_by_key(|&(_, uses)| *uses).expect("it is full");
            known.remove(&first);
            victim = Some(first);
        }
        let before = known.get(&object).map(|&(_, last)| last);
        known.insert(object, (before, *time));
        victim
    }
}

/// The queues of S3-FIFO with the uses of each object, and those that the small one has pushed out. An object has ten units, so that
/// the small queue has room for `room` units, and the main queue and the ghosts for nine times as many.
#[derive(Default)]
struct ThreeQueues {
    room: usize,
    small: Vec<(usize, u32)>,
    main: Vec<(usize, u32)>,
    ghosts: Vec<usize>,
    has_evicted: bool,
}

impl ThreeQueues {
    fn evict(&mut self) -> usize {
        self.has_evicted = true;
        let is_main_full = self.main.len() * 10 > self.room * 9;
        loop {
            if !self.small.is_empty() && !is_main_full {
                let (object, uses) = self.small.remove(0);
                if uses <= 1 {
                    self.ghosts.push(object);
                    if self.ghosts.len() * 10 > self.room * 9 {
                        self.ghosts.remove(0);
                    }
                    return object;
                }
                self.main.push((object, 0));
            } else {
                let (object, uses) = self.main.remove(0);
                if uses == 0 {
                    return object;
                }
                self.main.push((object, uses - 1));
            }
        }
    }
}

impl Cache for ThreeQueues {
    fn access(&mut self, object: usize) -> Option<usize> {
        if let Some(found) = self.small.iter_mut().chain(&mut self.main).find(|(known, _)| *known == object) {
            found.1 = (found.1 + 1).min(3);
            return None;
        }
        let ghost = self.ghosts.iter().position(|&ghost| ghost == object);
        ghost.map(|at| self.ghosts.remove(at));
        let is_full = self.small.len() + self.main.len() == self.room;
        let victim = is_full.then(|| self.evict());
        let is_early = !self.has_evicted && self.small.len() * 10 >= self.room;
        if ghost.is_some() || is_early { &mut self.main } else { &mut self.small }.push((object, 0));
        victim
    }
}

fn evicts_as(policy: PolicyChoice, mut cache: impl Cache, room: usize, accesses: &[usize]) {
    let mut reader = Reader::new(policy, room as u64, 12);
    let mut expected = Vec::new();
    for &number in accesses {
        reader.access(number);
        expected.extend(cache.access(number));
        assert_eq!(reader.evicted(), expected, "after {number} of {accesses:?}");
    }
}

fn accesses() -> impl Strategy<Value = Vec<usize>> {
    prop::collection::vec(prop_oneof![2 => 0..12usize, 1 => 0..4usize], 1..60)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn clock_gives_second_chances(room in 2..9usize, accesses in accesses()) {
        evicts_as(PolicyChoice::CLOCK, SecondChance(room, Vec::new()), room, &accesses);
    }

    #[test]
    fn lfu_da_counts_uses_by_the_age(room in 2..9usize, accesses in accesses()) {
        let key = |key, uses, age| if uses == 1 { age + 1 } else { key + age };
        evicts_as(PolicyChoice::LFU_DA, Aging::new(room, key), room, &accesses);
    }

    /// All objects have one size, so a use counts one.
    #[test]
    fn gdsf_counts_uses_and_ages(room in 2..9usize, accesses in accesses()) {
        evicts_as(PolicyChoice::GDSF, Aging::new(room, |_, uses, age| uses + age), room, &accesses);
    }

    #[test]
    fn sieve_moves_a_hand_over_the_order_of_arrival(room in 2..9usize, accesses in accesses()) {
        evicts_as(PolicyChoice::SIEVE, Hand { room, queue: Vec::new(), at: 0 }, room, &accesses);
    }

    #[test]
    fn lru_2_looks_at_the_last_use_but_one(room in 2..9usize, accesses in accesses()) {
        evicts_as(PolicyChoice::LRU_2, TwoUses(room, 0, BTreeMap::new()), room, &accesses);
    }

    #[test]
    fn s3_fifo_lets_newcomers_pass_through_a_small_queue(room in 2..9usize, accesses in accesses()) {
        evicts_as(PolicyChoice::S3_FIFO, ThreeQueues { room, ..ThreeQueues::default() }, room, &accesses);
    }
}

/// Answers nonsense: slots of nobody and of anybody, and ranks of any size for candidates and for others.
#[derive(Debug, Default)]
struct Liar {
    answers: u64,
}

impl Liar {
    fn next(&mut self) -> u64 {
        self.answers += 1;
        // Any number may come, and each small number often comes.
        let drawn = self.answers.wrapping_mul(0x9E37_79B9_7F4A_7C15);
        if self.answers.is_multiple_of(2) { drawn } else { drawn % 32 }
    }
}

impl Policy for Liar {
    fn released(&mut self, _subject: Subject, _last_use: u64) {
        self.next();
    }

    fn rank(&self, slot: usize) -> u64 {
        u64::MAX - self.answers * slot as u64
    }

    fn victim(&mut self, candidates: &mut dyn Candidates) -> usize {
        for _ in 0..4 {
            let (slot, rank) = (self.next() as usize, self.next());
            candidates.set_rank(slot, rank);
        }
        self.next() as usize
    }
}

static LIAR: PolicyKind = PolicyKind::new("liar", &|_| Box::new(Liar::default()));
static LIFO: PolicyKind = PolicyKind::new("lifo", &|_| Box::new(LastInFirstOut::default()));
static RECENCY: PolicyKind = PolicyKind::new("recency", &|_| Box::new(Recency::default()));

/// The policies that come with the manager, and policies of a caller's own.
fn all() -> impl Iterator<Item = PolicyChoice> {
    PolicyChoice::ALL.into_iter().chain([&LIAR, &LIFO, &RECENCY].map(PolicyChoice::of))
}

/// The deeds of a program with an allocation of one page. Two programs have twelve allocations each.
#[derive(Clone, Copy, Debug)]
enum Deed {
    Use,
    /// The priority decides among which candidates a policy chooses.
    Prioritize(u32),
    /// The next use reclaims.
    Offer,
}

fn deeds() -> impl Strategy<Value = Vec<(usize, usize, Deed)>> {
    let deed = prop_oneof![
        8 => Just(Deed::Use),
        1 => (1..4_u32).prop_map(Deed::Prioritize),
        1 => Just(Deed::Offer),
    ];
    prop::collection::vec((0..2_usize, 0..12_usize, deed), 1..150)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 16, failure_persistence: None, ..ProptestConfig::default() })]

    /// A policy sees candidates of one program and one priority at a time. Further allocations keep old ranks meanwhile.
    /// CRE-30, RES-60: each victim is offered, or of the program's lowest priority while no allocation of the program is offered.
    #[test]
    fn every_policy_stands_priorities_offers_and_several_programs(room in 3..16_u64, deeds in deeds()) {
        for policy in all() {
            let mut world = World::new(Config { policy, ..Config::pages(room) });
            let programs = [world.client(), world.client()];
            let allocations = programs.map(|client| Vec::from_iter((0..12).map(|_| world.allocate(client, 1))));
            // The program of each allocation, whether the allocation is not offered, and the priority.
            let mut known = BTreeMap::new();
            for (program, &allocation) in allocations.iter().enumerate().flat_map(|(at, all)| all.iter().map(move |one| (at, one))) {
                world.call(|vidmm, _, _| vidmm.set_allocation_priority(allocation, 2)).unwrap();
                known.insert(allocation, (program, true, 2));
            }
            let (mut resident, mut judged) = (BTreeSet::new(), 0);
            for &(program, number, deed) in &deeds {
                let (client, allocation) = (programs[program], allocations[program][number]);
                let (_, is_wanted, priority) = known.get_mut(&allocation).expect("it exists");
                match deed {
                    Deed::Prioritize(new) => {
                        *priority = new;
                        world.call(|vidmm, _, _| vidmm.set_allocation_priority(allocation, new)).unwrap();
                        continue;
                    }
                    Deed::Offer => {
                        if std::mem::take(is_wanted) {
                            world.offer(client, &[allocation], OfferPriority::High).unwrap();
                        }
                        continue;
                    }
                    Deed::Use => {}
                }
                if !std::mem::replace(is_wanted, true) {
                    let _ = world.reclaim(client, &[allocation]).unwrap();
                }
                let before = world.evicted().len();
                // An allocation may also leave between uses, and nobody chose a victim then.
                world.evicted()[judged..before].iter().for_each(|(left, _)| _ = resident.remove(left));
                world.bring_in(client, &[allocation]);
                judged = world.evicted().len();
                for (victim, _) in world.evicted().split_off(before) {
                    // Offered allocations go in the order of the offers (U-37): the priority does not count.
                    let worth = |of: &AllocationId| match known[of] {
                        (program, false, _) => (program, false, 0),
                        wanted => wanted,
                    };
                    let program = known[&victim].0;
                    let others = resident.iter().filter(|&&other| other != allocation && known[&other].0 == program);
                    let least = others.map(worth).min();
                    prop_assert_eq!(Some(worth(&victim)), least, "{}: {:?}", policy, deeds);
                    resident.remove(&victim);
                }
                resident.insert(allocation);
                world.submit(client, &[]);
                world.evict(client, &[allocation], IF_NECESSARY).unwrap();
                world.run_all();
            }
            world.tear_down();
        }
    }
}

/// Keys that grow without end are made small again, and the order stays.
#[test]
fn the_keys_of_lfu_da_never_end() {
    let mut reader = Reader::new(PolicyChoice::LFU_DA, 2, 4);
    for round in 0..200 {
        for number in [0, 1, 0, 1, 0, 1, 2, 3, 2, 3, 2, 3] {
            reader.access(number);
        }
        assert_eq!(reader.evicted().len(), 4 * round + 2);
    }
    reader.world.tear_down();
}

/// CRE-30: a priority comes before any policy.
#[test]
fn lower_priorities_go_first_under_every_policy() {
    for policy in all() {
        let mut reader = Reader::new(policy, 4, 6);
        let low = reader.allocations[3];
        reader.world.call(|vidmm, _, _| vidmm.set_allocation_priority(low, 1)).unwrap();
        for number in [0, 1, 2, 3, 3, 3, 4] {
            reader.access(number);
        }
        assert_eq!(reader.evicted(), [3], "{policy}");
        reader.world.tear_down();
    }
}

/// RES-60: what is offered goes before what anybody misses.
#[test]
fn offered_allocations_go_first_under_every_policy() {
    for policy in all() {
        let mut reader = Reader::new(policy, 4, 6);
        for number in [0, 1, 2, 3, 3, 3] {
            reader.access(number);
        }
        let offered = reader.allocations[3];
        reader.world.offer(reader.client, &[offered], OfferPriority::High).unwrap();
        reader.access(4);
        assert_eq!(reader.evicted(), [3], "{policy}");
        reader.world.tear_down();
    }
}

/// Layers that are used in turn: the least recently used is the one that is wanted next.
#[test]
fn predict_keeps_a_part_of_what_comes_in_turn() {
    let misses = |policy| {
        let mut reader = Reader::new(policy, 9, 12);
        (0..20 * 12).for_each(|number| reader.access(number % 12));
        reader.evicted().len()
    };
    let [lru, ours] = [PolicyChoice::LRU, PolicyChoice::PREDICT].map(misses);
    assert_eq!(lru, 20 * 12 - 9, "every use is a miss");
    assert!(ours * 2 < lru, "{ours} evictions instead of {lru}");
}

/// The last that came in goes first; a caller's own policy.
#[derive(Debug, Default)]
struct LastInFirstOut {
    arrivals: u64,
    arrived: BTreeMap<usize, u64>,
}

impl Policy for LastInFirstOut {
    fn brought_in(&mut self, subject: Subject, _memory: SegmentId) {
        self.arrivals += 1;
        self.arrived.insert(subject.slot, self.arrivals);
    }

    fn rank(&self, slot: usize) -> u64 {
        self.arrived[&slot]
    }

    /// It answers with nonsense at first, and the first candidate goes.
    fn victim(&mut self, candidates: &mut dyn Candidates) -> usize {
        let last = self.arrived.iter().filter(|&(&slot, _)| candidates.get(slot).is_some()).max_by_key(|(_, at)| **at);
        if self.arrivals < 6 { usize::MAX } else { *last.expect("there is a candidate").0 }
    }

    fn left(&mut self, subject: Subject, _memory: SegmentId) {
        self.arrived.remove(&subject.slot);
    }
}

#[test]
fn a_caller_s_own_policy_chooses_among_candidates_only() {
    let mut world = World::new(Config::pages(4));
    let client = world.client();
    world.call(|vidmm, _, _| vidmm.set_policy(Box::new(LastInFirstOut::default()))).unwrap();
    let allocations: Vec<AllocationId> = (0..8).map(|_| world.allocate(client, 1)).collect();
    let late = world.call(|vidmm, _, _| vidmm.set_policy(Box::new(LastInFirstOut::default())));
    assert_eq!(late, Err(PolicyInUse));
    let mut reader = Reader { world, client, allocations };
    (0..8).for_each(|number| reader.access(number));
    let evicted = reader.evicted();
    assert_eq!(evicted.len(), 4);
    assert_eq!(evicted[2..], [5, 6], "the last that came in goes");
    reader.world.tear_down();
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 16, failure_persistence: None, ..ProptestConfig::default() })]

    /// CRE-31a: the documented order as a policy is the documented order.
    #[test]
    fn recency_is_the_documented_order(room in 2..9u64, accesses in accesses()) {
        let [own, documented] = [PolicyChoice::of(&RECENCY), PolicyChoice::LRU].map(|policy| {
            let mut reader = Reader::new(policy, room, 12);
            accesses.iter().for_each(|&number| reader.access(number));
            reader.evicted()
        });
        prop_assert_eq!(own, documented);
    }
}

#[test]
fn policies_are_known_by_their_names() {
    for choice in PolicyChoice::ALL {
        assert_eq!(choice.to_string().parse(), Ok(choice));
    }
    let drawn: PolicyChoice = "predict:sample=16:seed=7".parse().unwrap();
    assert_eq!((drawn.to_string(), drawn.seed()), ("predict:sample=16:seed=7".into(), Some(7)));
    assert_eq!(drawn.without_seed().with_seed(7), drawn);
    let wrong = |text: &str| text.parse::<PolicyChoice>().unwrap_err().to_string();
    let known = "lru, clock, s3-fifo, lfu-da, sieve, lru-2, gdsf and predict";
    assert_eq!(wrong("mru"), format!("`mru` is no policy; there are {known}"));
    for given in ["sample=0", "sample=4097", "seed", "seed=x", "size=1"] {
        let has = "sample=1..4096, seed=N and experts=1..3";
        assert_eq!(
            wrong(&format!("predict:{given}")),
            format!("`{given}` is no parameter of predict, which has {has}")
        );
    }
    assert_eq!(wrong("lru:seed=1"), "`seed=1` is no parameter of lru, which has none");
}
