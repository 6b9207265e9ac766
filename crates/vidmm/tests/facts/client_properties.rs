//! Random programs over a `ResidencyManager`, against a model that looks at everything each time: who must be on the list,
//! what must be evicted and in which order, and what work must read.

use crate::world::*;
use proptest::prelude::*;
use vidmm::client::{BeginSubmissionError, Ladder, ManageFlags, Managed, ResidencyManager, ResidencySet};
use vidmm::*;

const PAGES: u64 = 24;
const ALLOCATIONS: usize = 12;
const SETS: usize = 3;

#[derive(Clone, Debug)]
enum Step {
    /// Fills a set anew, begins it and submits work that reads and writes all of it.
    Submit {
        set: usize,
        picks: Vec<usize>,
    },
    /// Begins a set as it is.
    Again {
        set: usize,
    },
    /// Begins a set as it is, and submits nothing.
    Abandon {
        set: usize,
    },
    Complete,
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
    is_internal: bool,
    is_listed: bool,
    /// The number of the last begin that used it.
    last_use: u64,
    /// The fence value of its last submission.
    last_fence: u64,
}

struct Model {
    world: World,
    client: Client,
    manager: ResidencyManager,
    ladder: Ladder,
    fence: MonitoredFenceId,
    submitted: u64,
    completed: u64,
    heard: usize,
    begun: u64,
    /// The last begun set was not submitted.
    is_open: bool,
    /// The number of the begin and the fence value of each submission.
    submissions: Vec<(u64, u64)>,
    known: Vec<Known>,
    sets: Vec<(ResidencySet, Vec<usize>)>,
    /// An allocation whose last fence is not above this was not used in the present period, unless begun since.
    period_fence: u64,
    period_begun: u64,
    /// Tokens that work must have read, in the order of submission.
    expected: Vec<u64>,
    tokens: u64,
}

impl Model {
    fn new(ladder: Ladder, sizes: &[u64]) -> Self {
        let (mut world, client) = World::with_pages(PAGES);
        let fence = world.fence();
        let manager = ResidencyManager::new(client.device, client.queue, ladder);
        let mut model = Self {
            world,
            client,
            manager,
            ladder,
            fence,
            submitted: 0,
            completed: 0,
            heard: 0,
            begun: 0,
            is_open: false,
            submissions: Vec::new(),
            known: Vec::new(),
            sets: vec![(ResidencySet::new(), Vec::new()); SETS],
            period_fence: 0,
            period_begun: 0,
            expected: Vec::new(),
            tokens: 0,
        };
        for (index, &pages) in sizes.iter().enumerate() {
            let known = model.create(pages, index % 4 == 3);
            model.known.push(known);
        }
        model
    }

    fn create(&mut self, pages: u64, is_internal: bool) -> Known {
        let allocation = self.world.allocate(self.client, pages);
        let address = self.world.map(self.client, allocation);
        let flags = if is_internal { ManageFlags::INTERNAL } else { ManageFlags::empty() };
        let managed = self.manager.manage(allocation, pages * PAGE_SIZE, flags);
        let (token, is_listed, last_use, last_fence) = (0, false, 0, 0);
        Known { managed, allocation, address, pages, token, is_internal, is_listed, last_use, last_fence }
    }

    fn listed_pages(&self) -> u64 {
        self.known.iter().filter(|known| known.is_listed).map(|known| known.pages).sum()
    }

    /// The listed that may go, oldest first; of those used together, in the order of their numbers.
    fn oldest_first(&self) -> Vec<usize> {
        let may_go = |&index: &usize| {
            let known = &self.known[index];
            known.is_listed && !(self.is_open && known.last_use == self.begun)
        };
        let mut order: Vec<usize> = (0..self.known.len()).filter(may_go).collect();
        order.sort_by_key(|&index| (self.known[index].last_use, self.known[index].managed));
        order
    }

    /// Takes the oldest off the list until so many pages are; returns how many were.
    fn evict_oldest(&mut self, pages: u64) -> u64 {
        let mut evicted = 0;
        for index in self.oldest_first() {
            if evicted >= pages {
                break;
            }
            evicted += self.known[index].pages;
            self.known[index].is_listed = false;
        }
        evicted
    }

    fn begin(&mut self, set: usize) -> bool {
        let (residency_set, members) = &mut self.sets[set];
        let found = self.world.call(|vidmm, _, _| self.manager.begin_submission(vidmm, residency_set));
        let members = members.clone();
        self.begun += 1;
        self.is_open = true;
        let (listed, missing): (Vec<usize>, Vec<usize>) =
            members.iter().partition(|&&index| self.known[index].is_listed);
        listed.iter().for_each(|&index| self.known[index].last_use = self.begun);
        let missing_pages: u64 = missing.iter().map(|&index| self.known[index].pages).sum();
        let over = (self.listed_pages() + missing_pages).saturating_sub(PAGES);
        if over > 0 && self.ladder == Ladder::Trim {
            self.evict_oldest(over);
        }
        let over = (self.listed_pages() + missing_pages).saturating_sub(PAGES);
        if over > 0 {
            let Err(BeginSubmissionError::MakeResident(MakeResidentError::NoMemory { num_bytes_to_trim, .. })) = found
            else {
                panic!("{over} pages are missing, but it said {found:?}")
            };
            assert_eq!(num_bytes_to_trim, over * PAGE_SIZE);
            self.is_open = false;
            return false;
        }
        assert!(found.is_ok(), "all fit, but it said {found:?}");
        for index in missing {
            (self.known[index].is_listed, self.known[index].last_use) = (true, self.begun);
        }
        true
    }

    fn submit(&mut self, set: usize) {
        if !self.begin(set) {
            return;
        }
        self.submitted += 1;
        self.submissions.push((self.begun, self.submitted));
        let mut program = Vec::new();
        for index in self.sets[set].1.clone() {
            let known = &mut self.known[index];
            known.last_fence = self.submitted;
            // The last page tells whether all of it is there.
            let at = known.address + (known.pages - 1) * PAGE_SIZE;
            self.tokens += 1;
            program.extend([Access::Read(at), Access::Write(at, self.tokens)]);
            self.expected.push(core::mem::replace(&mut known.token, self.tokens));
        }
        self.world.submit_to(self.client.context, &program, &[], &[(self.fence, self.submitted)]);
        self.manager.submitted(self.submitted);
        self.is_open = false;
    }

    fn complete(&mut self) {
        self.world.run_paging();
        if self.world.can_complete(RENDER) {
            self.world.complete(RENDER);
        }
        self.hear();
    }

    fn hear(&mut self) {
        for output in &self.world.outputs[self.heard..] {
            if let Output::MonitoredFenceSignaled { value, .. } = *output {
                self.completed = value;
                self.manager.fence_reached(value);
            }
        }
        self.heard = self.world.outputs.len();
    }

    fn notify(&mut self, flags: TrimFlags, pages: u64) {
        let (bytes, local) = (pages * PAGE_SIZE, Some(MemorySegmentGroup::Local));
        let found = self.world.call(|vidmm, _, _| self.manager.trim_notification(vidmm, flags, local, bytes));
        let mut evicted = 0;
        if flags.contains(TrimFlags::TRIM_TO_BUDGET) {
            evicted += self.evict_oldest(pages);
        }
        if flags.contains(TrimFlags::PERIODIC_TRIM) {
            for index in self.oldest_first() {
                let known = &mut self.known[index];
                if known.last_fence <= self.period_fence && known.last_use <= self.period_begun {
                    known.is_listed = false;
                    evicted += known.pages;
                }
            }
        }
        if flags.intersects(TrimFlags::PERIODIC_TRIM | TrimFlags::RESTART_PERIODIC_TRIM) {
            self.begin_period();
        }
        assert_eq!(found, Ok(evicted * PAGE_SIZE));
    }

    /// A begin without a submission counts as ended when nothing before it is in flight.
    fn begin_period(&mut self) {
        self.period_fence = self.completed;
        let in_flight = self.submissions.iter().find(|&&(_, fence)| fence > self.completed);
        self.period_begun = match in_flight {
            Some((begun, _)) => begun - 1,
            None => self.begun - u64::from(self.is_open),
        };
    }

    fn replace(&mut self, pick: usize, pages: u64) {
        let old = self.known[pick];
        self.world.destroy(old.allocation);
        assert_eq!(self.manager.forget(old.managed), Ok(old.allocation));
        self.known[pick] = self.create(pages, old.is_internal);
        self.refill_sets();
    }

    fn go_idle(&mut self) {
        let destroyed = self.world.call(|vidmm, _, host| self.manager.trim(vidmm, host)).unwrap();
        let mut internal: Vec<Managed> =
            self.known.iter().filter(|known| known.is_internal).map(|known| known.managed).collect();
        internal.sort();
        assert_eq!(destroyed, internal);
        for index in 0..self.known.len() {
            self.known[index].is_listed = false;
            if self.known[index].is_internal {
                self.known[index] = self.create(self.known[index].pages, true);
            }
        }
        self.refill_sets();
    }

    /// Sets name what lives: the program fills them again after it has destroyed something.
    fn refill_sets(&mut self) {
        for (set, members) in &mut self.sets {
            set.clear();
            members.iter().for_each(|&index| _ = set.insert(self.known[index].managed));
        }
    }

    fn step(&mut self, step: &Step) {
        match *step {
            Step::Submit { set, ref picks } => {
                let (residency_set, members) = &mut self.sets[set];
                residency_set.clear();
                members.clear();
                for &pick in picks {
                    assert_eq!(residency_set.insert(self.known[pick].managed), !members.contains(&pick));
                    if !members.contains(&pick) {
                        members.push(pick);
                    }
                }
                self.submit(set);
            }
            Step::Again { set } => self.submit(set),
            Step::Abandon { set } => _ = self.begin(set),
            Step::Complete => self.complete(),
            Step::Notify { flags, pages } => self.notify(TrimFlags::from_bits_truncate(flags), pages),
            Step::GiveUp { pages } => {
                let found = self.world.call(|vidmm, _, _| self.manager.give_up(vidmm, pages * PAGE_SIZE));
                let evicted = self.evict_oldest(pages);
                assert_eq!(found, Ok(evicted * PAGE_SIZE));
            }
            Step::Replace { pick, pages } => self.replace(pick, pages),
            Step::GoIdle => self.go_idle(),
        }
        self.assert_lists_agree();
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
        assert_eq!(self.world.read, self.expected);
        self.world.tear_down();
    }
}

fn occurrences(allocations: &[AllocationId], allocation: AllocationId) -> i64 {
    allocations.iter().filter(|&&other| other == allocation).count() as i64
}

fn any_step() -> impl Strategy<Value = Step> {
    let (set, pick) = (0..SETS, 0..ALLOCATIONS);
    prop_oneof![
        6 => (set.clone(), prop::collection::vec(pick.clone(), 1..7)).prop_map(|(set, picks)| Step::Submit { set, picks }),
        3 => set.clone().prop_map(|set| Step::Again { set }),
        1 => set.prop_map(|set| Step::Abandon { set }),
        6 => Just(Step::Complete),
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
        sizes in prop::collection::vec(1..7_u64, ALLOCATIONS),
        steps in prop::collection::vec(any_step(), 1..60),
    ) {
        let mut model = Model::new(if trims { Ladder::Trim } else { Ladder::PassUp }, &sizes);
        steps.iter().for_each(|step| model.step(step));
        model.finish();
    }
}
