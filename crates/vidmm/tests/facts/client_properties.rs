//! Random programs over a `ResidencyManager`, against a model that looks at everything each time: which allocations must be on
//! the list, which must be evicted, in which order and whether as written, and the content that work must read.

use crate::world::*;
use proptest::prelude::*;
use vidmm::policy::PolicyChoice;
use vidmm::*;
use vidmm_client::{BeginSubmissionError, Ladder, ManageFlags, Managed, ResidencyManager, ResidencySet};

const PAGES: u64 = 24;
const ALLOCATIONS: usize = 12;
const SETS: usize = 3;
/// The engine of each queue.
const ENGINES: [u32; QUEUES] = [RENDER, COPY];
const QUEUES: usize = 2;

#[derive(Clone, Debug)]
enum Step {
    /// Fills a set anew, begins it and submits work that reads all of it, and writes what is said.
    Submit {
        set: usize,
        queue: usize,
        picks: Vec<(usize, bool)>,
    },
    /// Begins a set as it is, and submits such work.
    Again {
        set: usize,
        queue: usize,
    },
    /// Begins a set as it is, and submits nothing.
    Abandon {
        set: usize,
        queue: usize,
    },
    Complete {
        queue: usize,
    },
    Notify {
        flags: u32,
        pages: u64,
    },
    GiveUp {
        pages: u64,
    },
    /// Destroys an allocation, and another takes its place.
    Replace {
        pick: usize,
        pages: u64,
    },
    GoIdle,
}

/// The model's record of an allocation.
#[derive(Clone, Copy)]
struct Known {
    managed: Managed,
    allocation: AllocationId,
    address: u64,
    pages: u64,
    token: u64,
    flags: ManageFlags,
    is_listed: bool,
    /// A begun set has written it since it joined the list.
    is_written: bool,
    /// The number of the last begin in each queue that used it.
    last_begun: [u64; QUEUES],
    /// The fence value of its last submission in each queue, and of the last that wrote it.
    last_fence: [u64; QUEUES],
    last_write: [u64; QUEUES],
}

impl Known {
    fn last_use(&self) -> u64 {
        self.last_begun.into_iter().max().unwrap()
    }
}

struct Model {
    world: World,
    client: Client,
    manager: ResidencyManager,
    ladder: Ladder,
    policy: PolicyChoice,
    contexts: [ContextId; QUEUES],
    fences: [MonitoredFenceId; QUEUES],
    submitted: [u64; QUEUES],
    completed: [u64; QUEUES],
    heard: usize,
    begun: u64,
    /// The last begun set was not submitted.
    is_open: bool,
    /// The number of the begin and the fence value of each submission, for each queue.
    submissions: [Vec<(u64, u64)>; QUEUES],
    known: Vec<Known>,
    /// Each set, its members, and whether they are written.
    sets: Vec<(ResidencySet, Vec<(usize, bool)>)>,
    /// An allocation whose last fence in each queue is not above this was not used in the present period, unless begun since.
    period_fence: [u64; QUEUES],
    period_begun: [u64; QUEUES],
    /// Tokens that each submission must have read.
    expected: Vec<Vec<u64>>,
    tokens: u64,
    /// Evictions of the present step, and whether as written.
    evicted: Vec<(AllocationId, bool)>,
    /// Events that were looked at.
    seen: usize,
}

impl Model {
    fn new(ladder: Ladder, policy: PolicyChoice, sizes: &[u64]) -> Self {
        let (mut world, client) = World::with_pages(PAGES);
        let fences = [world.fence(), world.fence()];
        let contexts = [client.context, world.context(client, COPY)];
        let manager = ResidencyManager::with_policy(client.device, client.queue, ladder, policy);
        let mut model = Self {
            world,
            client,
            manager,
            ladder,
            policy,
            contexts,
            fences,
            submitted: [0; QUEUES],
            completed: [0; QUEUES],
            heard: 0,
            begun: 0,
            is_open: false,
            submissions: Default::default(),
            known: Vec::new(),
            sets: vec![(ResidencySet::new(), Vec::new()); SETS],
            period_fence: [0; QUEUES],
            period_begun: [0; QUEUES],
            expected: Vec::new(),
            tokens: 0,
            evicted: Vec::new(),
            seen: 0,
        };
        for (index, &pages) in sizes.iter().enumerate() {
            let mut flags = ManageFlags::empty();
            flags.set(ManageFlags::INTERNAL, index % 4 == 3);
            flags.set(ManageFlags::WRITTEN_BY_OTHERS, index % 5 == 4);
            let known = model.create(pages, flags);
            model.known.push(known);
        }
        model
    }

    fn create(&mut self, pages: u64, flags: ManageFlags) -> Known {
        let allocation = self.world.allocate(self.client, pages);
        let address = self.world.map(self.client, allocation);
        let managed = self.manager.manage(allocation, pages * PAGE_SIZE, flags);
        let never = [0; QUEUES];
        Known {
            managed,
            allocation,
            address,
            pages,
            token: 0,
            flags,
            is_listed: false,
            is_written: false,
            last_begun: never,
            last_fence: never,
            last_write: never,
        }
    }

    /// Takes an allocation off the list.
    fn evict(&mut self, index: usize) {
        let known = &mut self.known[index];
        known.is_listed = false;
        let as_written = known.is_written || known.flags.contains(ManageFlags::WRITTEN_BY_OTHERS);
        self.evicted.push((known.allocation, as_written));
    }

    fn listed_pages(&self) -> u64 {
        self.known.iter().filter(|known| known.is_listed).map(|known| known.pages).sum()
    }

    /// The listed that may go, oldest first; of those used together, in the order of their numbers.
    fn oldest_first(&self) -> Vec<usize> {
        let may_go = |&index: &usize| {
            let known = &self.known[index];
            known.is_listed && !(self.is_open && known.last_use() == self.begun)
        };
        let mut order: Vec<usize> = (0..self.known.len()).filter(may_go).collect();
        order.sort_by_key(|&index| (self.known[index].last_use(), self.known[index].managed));
        order
    }

    /// The listed allocations that may go, in order. The choice of a policy comes first, the largest victim last: one victim too many is
    /// found.
    fn victims(&self, flags: EvictFlags) -> Vec<usize> {
        let mut order = self.oldest_first();
        if self.policy != PolicyChoice::LRU {
            let is_meant =
                |event: &&Event| matches!(event, Event::Evict { flags: of, .. } if of.difference(NOT_WRITTEN) == flags);
            let evicts = self.world.events[self.seen..].iter().filter(is_meant);
            let chosen: Vec<AllocationId> = evicts
                .flat_map(|event| match event {
                    Event::Evict { allocations, .. } => allocations.clone(),
                    _ => Vec::new(),
                })
                .collect();
            let is_chosen = |index: usize| chosen.contains(&self.known[index].allocation);
            order.sort_by_key(|&index| if is_chosen(index) { self.known[index].pages } else { u64::MAX });
        }
        order
    }

    /// Takes allocations off the list up to a number of pages; returns the number of pages.
    fn evict_victims(&mut self, pages: u64, flags: EvictFlags) -> u64 {
        let mut evicted = 0;
        for index in self.victims(flags) {
            if evicted >= pages {
                break;
            }
            evicted += self.known[index].pages;
            self.evict(index);
        }
        evicted
    }

    fn begin(&mut self, set: usize, queue: usize) -> bool {
        let (residency_set, members) = &mut self.sets[set];
        let fence = self.fences[queue];
        let found = self.world.call(|vidmm, _, _| self.manager.begin_submission(vidmm, fence, residency_set));
        let members = members.clone();
        self.begun += 1;
        self.is_open = true;
        let (listed, missing): (Vec<usize>, Vec<usize>) =
            members.iter().map(|&(index, _)| index).partition(|&index| self.known[index].is_listed);
        listed.iter().for_each(|&index| self.known[index].last_begun[queue] = self.begun);
        let missing_pages: u64 = missing.iter().map(|&index| self.known[index].pages).sum();
        // A refusal asks for listed bytes alone.
        let over_and_asked = |model: &Self| {
            let listed = model.listed_pages();
            let over = (listed + missing_pages).saturating_sub(PAGES);
            (over, if over <= listed { over } else { 0 })
        };
        let (_, asked) = over_and_asked(self);
        if asked > 0 && self.ladder == Ladder::Trim {
            self.evict_victims(asked, IF_NECESSARY);
        }
        let (over, asked) = over_and_asked(self);
        if over > 0 {
            let Err(BeginSubmissionError::MakeResident(MakeResidentError::NoMemory { num_bytes_to_trim, .. })) = found
            else {
                panic!("{over} pages are missing, but it said {found:?}")
            };
            assert_eq!(num_bytes_to_trim, asked * PAGE_SIZE);
            self.is_open = false;
            return false;
        }
        assert!(found.is_ok(), "all fit, but it said {found:?}");
        for index in missing {
            let known = &mut self.known[index];
            (known.is_listed, known.is_written, known.last_begun[queue]) = (true, false, self.begun);
        }
        members.iter().for_each(|&(index, writes)| self.known[index].is_written |= writes);
        true
    }

    fn submit(&mut self, set: usize, queue: usize) {
        if !self.begin(set, queue) {
            return;
        }
        self.submitted[queue] += 1;
        let value = self.submitted[queue];
        self.submissions[queue].push((self.begun, value));
        let number = self.expected.len() as u64;
        let mut program = vec![Access::Tag(number)];
        let mut tokens = vec![number];
        // A read comes after the writes of the other queue, and a write after all of its uses.
        let (other, mut after) = (1 - queue, 0);
        for (index, writes) in self.sets[set].1.clone() {
            let known = &mut self.known[index];
            after = after.max(if writes { known.last_fence[other] } else { known.last_write[other] });
            known.last_fence[queue] = value;
            // The last page tells whether all of it is there.
            let at = known.address + (known.pages - 1) * PAGE_SIZE;
            program.push(Access::Read(at));
            tokens.push(known.token);
            if writes {
                self.tokens += 1;
                (known.token, known.last_write[queue]) = (self.tokens, value);
                program.push(Access::Write(at, self.tokens));
            }
        }
        self.expected.push(tokens);
        let (waits, signals) = ([(self.fences[other], after)], [(self.fences[queue], value)]);
        self.world.submit_to(self.contexts[queue], &program, &waits, &signals);
        self.manager.submitted(value);
        self.is_open = false;
    }

    fn complete(&mut self, queue: usize) {
        self.world.run_paging();
        if self.world.can_complete(ENGINES[queue]) {
            self.world.complete(ENGINES[queue]);
        }
        self.hear();
    }

    fn hear(&mut self) {
        for output in &self.world.outputs[self.heard..] {
            if let Output::MonitoredFenceSignaled { fence, value } = *output {
                let queue = self.fences.iter().position(|&known| known == fence).expect("there are no other fences");
                self.completed[queue] = value;
                self.manager.fence_reached(fence, value);
            }
        }
        self.heard = self.world.outputs.len();
    }

    fn notify(&mut self, flags: TrimFlags, pages: u64) {
        let (bytes, local) = (pages * PAGE_SIZE, Some(MemorySegmentGroup::Local));
        let found = self.world.call(|vidmm, _, _| self.manager.trim_notification(vidmm, flags, local, bytes));
        let mut evicted = 0;
        if flags.contains(TrimFlags::TRIM_TO_BUDGET) {
            evicted += self.evict_victims(pages, EvictFlags::empty());
        }
        if flags.contains(TrimFlags::PERIODIC_TRIM) {
            for index in self.oldest_first() {
                let known = self.known[index];
                let is_unused = |queue: usize| {
                    known.last_fence[queue] <= self.period_fence[queue]
                        && known.last_begun[queue] <= self.period_begun[queue]
                };
                if (0..QUEUES).all(is_unused) {
                    self.evict(index);
                    evicted += known.pages;
                }
            }
        }
        if flags.intersects(TrimFlags::PERIODIC_TRIM | TrimFlags::RESTART_PERIODIC_TRIM) {
            self.begin_period();
        }
        assert_eq!(found, Ok(evicted * PAGE_SIZE));
    }

    /// A begin without a submission counts as ended when nothing before it is in flight in its queue.
    fn begin_period(&mut self) {
        self.period_fence = self.completed;
        for queue in 0..QUEUES {
            let in_flight = self.submissions[queue].iter().find(|&&(_, fence)| fence > self.completed[queue]);
            self.period_begun[queue] = match in_flight {
                Some((begun, _)) => begun - 1,
                None => self.begun - u64::from(self.is_open),
            };
        }
    }

    fn replace(&mut self, pick: usize, pages: u64) {
        let old = self.known[pick];
        self.world.destroy(old.allocation);
        assert_eq!(self.manager.forget(old.managed), Ok(old.allocation));
        self.known[pick] = self.create(pages, old.flags);
        self.refill_sets();
    }

    fn go_idle(&mut self) {
        let destroyed = self.world.call(|vidmm, _, host| self.manager.trim(vidmm, host)).unwrap();
        let mut internal: Vec<Managed> = self
            .known
            .iter()
            .filter(|known| known.flags.contains(ManageFlags::INTERNAL))
            .map(|known| known.managed)
            .collect();
        internal.sort();
        assert_eq!(destroyed, internal);
        for index in 0..self.known.len() {
            if self.known[index].is_listed {
                self.evict(index);
            }
            if self.known[index].flags.contains(ManageFlags::INTERNAL) {
                self.known[index] = self.create(self.known[index].pages, self.known[index].flags);
            }
        }
        self.refill_sets();
    }

    /// Sets name what lives: the program fills them again after it has destroyed something.
    fn refill_sets(&mut self) {
        for (set, members) in &mut self.sets {
            set.clear();
            for &(index, writes) in members.iter() {
                let managed = self.known[index].managed;
                assert!(if writes { set.insert(managed) } else { set.insert_read(managed) });
            }
        }
    }

    fn step(&mut self, step: &Step) {
        match *step {
            Step::Submit { set, queue, ref picks } => {
                let (residency_set, members) = &mut self.sets[set];
                residency_set.clear();
                members.clear();
                for &(pick, writes) in picks {
                    let managed = self.known[pick].managed;
                    let is_new =
                        if writes { residency_set.insert(managed) } else { residency_set.insert_read(managed) };
                    let known = members.iter_mut().find(|(member, _)| *member == pick);
                    assert_eq!(is_new, known.is_none());
                    match known {
                        Some((_, is_written)) => *is_written |= writes,
                        None => members.push((pick, writes)),
                    }
                }
                self.submit(set, queue);
            }
            Step::Again { set, queue } => self.submit(set, queue),
            Step::Abandon { set, queue } => _ = self.begin(set, queue),
            Step::Complete { queue } => self.complete(queue),
            Step::Notify { flags, pages } => self.notify(TrimFlags::from_bits_truncate(flags), pages),
            Step::GiveUp { pages } => {
                let found = self.world.call(|vidmm, _, _| self.manager.give_up(vidmm, pages * PAGE_SIZE));
                let evicted = self.evict_victims(pages, EvictFlags::empty());
                assert_eq!(found, Ok(evicted * PAGE_SIZE));
            }
            Step::Replace { pick, pages } => self.replace(pick, pages),
            Step::GoIdle => self.go_idle(),
        }
        self.assert_evictions_agree();
        self.assert_lists_agree();
    }

    /// The step has evicted what the model says, as written or not (RES-22).
    fn assert_evictions_agree(&mut self) {
        let mut found = Vec::new();
        for event in &self.world.events[self.seen..] {
            if let Event::Evict { allocations, flags, .. } = event {
                found.extend(allocations.iter().map(|&allocation| (allocation, !flags.contains(NOT_WRITTEN))));
            }
        }
        self.seen = self.world.events.len();
        let mut expected = core::mem::take(&mut self.evicted);
        found.sort();
        expected.sort();
        assert_eq!(found, expected);
    }

    /// The manager, the model and VidMm itself have the same on the list.
    fn assert_lists_agree(&self) {
        for known in &self.known {
            assert_eq!(self.manager.is_listed(known.managed), known.is_listed, "{:?}", known.managed);
            let mut count = 0_i64;
            for event in &self.world.events {
                match event {
                    Event::MakeResident { allocations, .. } => count += occurrences(allocations, known.allocation),
                    Event::Evict { allocations, .. } => count -= occurrences(allocations, known.allocation),
                    _ => {}
                }
            }
            assert_eq!(count, i64::from(known.is_listed), "{:?} on the device's list", known.allocation);
        }
        assert_eq!(self.manager.listed_bytes(), self.listed_pages() * PAGE_SIZE);
    }

    fn finish(mut self) {
        self.world.run_all();
        self.hear();
        assert_eq!(self.completed, self.submitted);
        let mut read = &self.world.read[..];
        while let Some(&number) = read.first() {
            let expected = &self.expected[number as usize];
            assert_eq!(read[..expected.len()], expected[..]);
            read = &read[expected.len()..];
        }
        assert_eq!(self.world.read.len(), self.expected.iter().map(Vec::len).sum::<usize>());
        self.world.tear_down();
    }
}

fn occurrences(allocations: &[AllocationId], allocation: AllocationId) -> i64 {
    allocations.iter().filter(|&&other| other == allocation).count() as i64
}

fn any_step() -> impl Strategy<Value = Step> {
    let (set, queue, pick) = (0..SETS, 0..QUEUES, 0..ALLOCATIONS);
    let begin = (set, queue.clone());
    let picks = prop::collection::vec((pick.clone(), prop::bool::weighted(0.3)), 1..7);
    prop_oneof![
        6 => (begin.clone(), picks).prop_map(|((set, queue), picks)| Step::Submit { set, queue, picks }),
        3 => begin.clone().prop_map(|(set, queue)| Step::Again { set, queue }),
        1 => begin.prop_map(|(set, queue)| Step::Abandon { set, queue }),
        6 => queue.prop_map(|queue| Step::Complete { queue }),
        3 => (prop::sample::select(vec![1_u32, 2, 4, 5, 6]), 0..12_u64).prop_map(|(flags, pages)| Step::Notify { flags, pages }),
        1 => (0..12_u64).prop_map(|pages| Step::GiveUp { pages }),
        1 => (pick, 1..6_u64).prop_map(|(pick, pages)| Step::Replace { pick, pages }),
        1 => Just(Step::GoIdle),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn the_manager_keeps_on_the_list_what_a_naive_one_would(
        trims in any::<bool>(),
        policy in prop_oneof![Just(PolicyChoice::LRU), prop::sample::select(PolicyChoice::ALL.to_vec())],
        sizes in prop::collection::vec(1..7_u64, ALLOCATIONS),
        steps in prop::collection::vec(any_step(), 1..60),
    ) {
        let mut model = Model::new(if trims { Ladder::Trim } else { Ladder::PassUp }, policy, &sizes);
        steps.iter().for_each(|step| model.step(step));
        model.finish();
    }
}
