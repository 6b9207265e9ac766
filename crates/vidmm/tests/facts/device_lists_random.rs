//! Random calls on devices with device lists, alone and beside devices with reference lists: every kernel reads what it must,
//! and everything ends (I01, I02, I06, I09).

use std::collections::BTreeMap;

use crate::patching::{lister::Lister, random::Random, *};
use vidmm::{contract::*, *};

/// The test's record of an allocation.
#[derive(Clone, Debug)]
struct Known {
    id: AllocationId,
    /// The token that each page must hold.
    tokens: Vec<u64>,
    /// How often it is on its device's list.
    count: u32,
    is_offered: bool,
}

/// A device with what it has and what it must read.
struct Actor {
    client: Client,
    /// None with reference lists.
    lister: Option<Lister>,
    allocations: Vec<Known>,
    expected: Vec<u64>,
    is_suspended: bool,
    /// Each of its renders raises it by one.
    fence: MonitoredFenceId,
    rendered: u64,
}

impl Actor {
    /// The fence that waits for all that was rendered so far.
    fn last(&self) -> FenceValueDesc {
        FenceValueDesc { fence: self.fence, value: self.rendered }
    }
}

/// An allocation that all device lists have open; each use of it waits for the one before.
struct Shared {
    id: AllocationId,
    tokens: Vec<u64>,
    counts: Vec<u32>,
    last_use: Option<FenceValueDesc>,
}

/// The counts of a run.
#[derive(Default, Debug)]
struct Tally {
    refused: u32,
    discarded: u32,
    suspensions: usize,
    moved: usize,
    cut: usize,
}

struct Play {
    world: World,
    random: Random,
    actors: Vec<Actor>,
    shared: Vec<Shared>,
    /// The fence that the CPU signals, what waits for it, and what it has signalled.
    cpu_fence: MonitoredFenceId,
    cpu_awaited: u64,
    cpu_signalled: u64,
    next_token: u64,
    tally: Tally,
}

impl Play {
    fn new(seed: u64, listers: usize, others: usize) -> Self {
        let mut random = Random(seed);
        let config = Config {
            pages: 12 + random.below(8),
            aperture_pages: 16 * (2 + random.below(4)),
            more_pages: if seed.is_multiple_of(3) { vec![8 + seed % 7] } else { Vec::new() },
            preemption_aware: random.one_in(2),
            // The GPU takes its time.
            tdr: TdrOptions { quantum: u64::MAX, ..TdrOptions::default() },
            ..Config::default()
        };
        let mut world = World::new(config);
        let mut actors = Vec::new();
        for _ in 0..listers {
            let lister = world.lister();
            actors.push((lister.client, Some(lister)));
        }
        for _ in 0..others {
            actors.push((world.client(), None));
        }
        let actor = |(client, lister)| Actor {
            client,
            lister,
            allocations: Vec::new(),
            expected: Vec::new(),
            is_suspended: false,
            fence: world.call(|vidmm, _, _| vidmm.create_monitored_fence(0)).unwrap(),
            rendered: 0,
        };
        let actors: Vec<Actor> = actors.into_iter().map(actor).collect();
        let cpu_fence = world.call(|vidmm, _, _| vidmm.create_monitored_fence(0)).unwrap();
        let mut play = Self {
            world,
            random,
            actors,
            shared: Vec::new(),
            cpu_fence,
            cpu_awaited: 0,
            cpu_signalled: 0,
            next_token: 1,
            tally: Tally::default(),
        };
        for pages in 1..3 * (listers as u64).min(2) - 2 {
            play.share(pages);
        }
        play
    }

    fn share(&mut self, pages: u64) {
        let owner = self.actors[0].client;
        self.world.driver.next_allocation = Some(info(pages, SegmentSet::of(LOCAL)));
        let desc = CreateAllocationDesc { flags: CreateAllocationFlags::CREATE_SHARED, ..Default::default() };
        let create = |vidmm: &mut VidMm, driver: &mut Driver, host: &mut Memory| {
            vidmm.create_allocation(driver, host, owner.device, desc)
        };
        let id = self.world.call(create).unwrap();
        for actor in self.actors[1..].iter().filter(|actor| actor.lister.is_some()) {
            let device = actor.client.device;
            self.world.call(|vidmm, driver, _| vidmm.open_allocation(driver, device, id)).unwrap();
        }
        let counts = vec![0; self.actors.len()];
        self.shared.push(Shared { id, tokens: vec![0; pages as usize], counts, last_use: None });
    }

    /// A shared allocation joins a device's list or leaves it.
    fn list_shared(&mut self, at: usize, lister: Lister) {
        if self.shared.is_empty() {
            return;
        }
        let chosen = self.random.below(self.shared.len() as u64) as usize;
        let Shared { id, ref counts, .. } = self.shared[chosen];
        if counts[at] == 0 {
            let answer = self.world.make_resident(lister, &[id]);
            self.shared[chosen].counts[at] += u32::from(answer.is_ok());
        } else if self.random.one_in(3) {
            self.world.evict(lister, &[id]).unwrap();
            self.shared[chosen].counts[at] -= 1;
        }
    }

    fn create(&mut self, at: usize) {
        if self.actors[at].allocations.len() >= 7 {
            return;
        }
        let is_listed = self.actors[at].lister.is_some();
        let pages = 1 + self.random.below(if is_listed { 6 } else { 10 });
        let segments = [SegmentSet::of(LOCAL), SegmentSet::of(LOCAL), SegmentSet::of(APERTURE), SegmentSet(0b11)];
        let mut info = info(pages, segments[self.random.below(4) as usize]);
        if info.supported_segment_set == SegmentSet::of(LOCAL) {
            info.alignment = (PAGE_SIZE << self.random.below(3)) as u32;
        }
        if self.random.one_in(3) {
            info.flags |= AllocationFlags::FROM_END_OF_SEGMENT;
        }
        if !self.world.driver.config.more_pages.is_empty() {
            info.supported_segment_set.0 |= self.random.below(2) as u32 * SegmentSet::of(SegmentId(3)).0;
            info.preferred_segment.segment_ids[0] = match info.supported_segment_set.contains(SegmentId(3)) {
                true if self.random.one_in(2) => SegmentId(3),
                _ => SegmentId::SYSTEM,
            };
        }
        let id = self.world.create(self.actors[at].client, info);
        let tokens = vec![0; pages as usize];
        self.actors[at].allocations.push(Known { id, tokens, count: 0, is_offered: false });
    }

    /// Some of the actor's allocations that are `so`.
    fn some(&mut self, at: usize, so: impl Fn(&Known) -> bool) -> Vec<usize> {
        let among = self.actors[at].allocations.iter().enumerate().filter(|(_, known)| so(known));
        let among: Vec<usize> = among.map(|(index, _)| index).collect();
        among.into_iter().filter(|_| self.random.one_in(2)).collect()
    }

    fn ids(&self, at: usize, chosen: &[usize]) -> Vec<AllocationId> {
        chosen.iter().map(|&index| self.actors[at].allocations[index].id).collect()
    }

    fn make_resident(&mut self, at: usize, lister: Lister) {
        let chosen = self.some(at, |known| !known.is_offered);
        if chosen.is_empty() {
            return;
        }
        let flags = match self.random.one_in(2) {
            true => MakeResidentFlags::CANT_TRIM_FURTHER,
            false => MakeResidentFlags::empty(),
        };
        let ids = self.ids(at, &chosen);
        match self.world.call(|vidmm, _, _| vidmm.make_resident(lister.queue, &ids, flags)) {
            Ok(_) => chosen.iter().for_each(|&index| self.actors[at].allocations[index].count += 1),
            Err(MakeResidentError::NoMemory { num_bytes_to_trim, .. }) => {
                assert!(num_bytes_to_trim <= self.requested(at));
                self.tally.refused += 1;
            }
            Err(error) => panic!("{error}"),
        }
    }

    /// The listed bytes of a client's process.
    fn requested(&self, at: usize) -> u64 {
        let process = self.actors[at].client.process;
        let groups = [MemorySegmentGroup::Local, MemorySegmentGroup::NonLocal];
        groups.map(|group| self.world.vidmm.query_video_memory_info(process, group).unwrap().requested).iter().sum()
    }

    fn evict(&mut self, at: usize, lister: Lister) {
        let chosen = self.some(at, |known| known.count > 0);
        if chosen.is_empty() {
            return;
        }
        let flags = match self.random.one_in(2) {
            true => EvictFlags::EVICT_ONLY_IF_NECESSARY,
            false => EvictFlags::empty(),
        };
        let ids = self.ids(at, &chosen);
        self.world.call(|vidmm, _, _| vidmm.evict(lister.device, &ids, flags)).unwrap();
        chosen.iter().for_each(|&index| self.actors[at].allocations[index].count -= 1);
    }

    fn offer(&mut self, at: usize, lister: Lister) {
        let chosen = self.some(at, |known| !known.is_offered);
        if chosen.is_empty() {
            return;
        }
        let ids = self.ids(at, &chosen);
        let flags = if self.random.one_in(4) { OfferFlags::OFFER_IMMEDIATELY } else { OfferFlags::empty() };
        let priority = OfferPriority::Normal;
        self.world.call(|vidmm, _, _| vidmm.offer_allocations(lister.device, &ids, priority, flags)).unwrap();
        chosen.iter().for_each(|&index| self.actors[at].allocations[index].is_offered = true);
    }

    fn reclaim(&mut self, at: usize, lister: Lister) {
        let chosen = self.some(at, |known| known.is_offered);
        if chosen.is_empty() {
            return;
        }
        let ids = self.ids(at, &chosen);
        match self.world.call(|vidmm, _, host| vidmm.reclaim_allocations(host, lister.queue, &ids)) {
            Ok(reclaimed) => {
                for (&index, result) in chosen.iter().zip(reclaimed.results) {
                    let known = &mut self.actors[at].allocations[index];
                    known.is_offered = false;
                    if result == ReclaimResult::Discarded {
                        known.tokens.fill(0);
                        self.tally.discarded += 1;
                    }
                }
            }
            Err(ReclaimError::NoMemory { num_bytes_to_trim, .. }) => {
                assert!(num_bytes_to_trim <= self.requested(at));
            }
            Err(error) => panic!("{error}"),
        }
    }

    fn destroy(&mut self, at: usize) {
        if self.actors[at].allocations.is_empty() {
            return;
        }
        let index = self.random.below(self.actors[at].allocations.len() as u64) as usize;
        let known = self.actors[at].allocations.swap_remove(index);
        self.world.call(|vidmm, _, host| vidmm.destroy_allocation(host, known.id, DestroyFlags::empty())).unwrap();
    }

    /// Writes and reads some of what may be used now: all of a device with reference lists, what is on the list of another.
    fn render(&mut self, at: usize) {
        let is_prepared = self.actors[at].lister.is_none();
        let mut writer = Writer::new().split();
        for index in self.some(at, |known| is_prepared || (known.count > 0 && !known.is_offered)) {
            if is_prepared {
                writer = writer.split();
            }
            let known = &mut self.actors[at].allocations[index];
            let page = self.random.below(known.tokens.len() as u64);
            // An allocation that stays bound across a cut keeps its place: none does.
            let slot = if is_prepared { 0 } else { index as u32 };
            if self.random.one_in(2) {
                writer = writer.write(slot, known.id, page, self.next_token);
                known.tokens[page as usize] = self.next_token;
                self.next_token += 1;
            }
            let page = self.random.below(known.tokens.len() as u64);
            writer = writer.read(slot, known.id, page);
            let token = known.tokens[page as usize];
            self.actors[at].expected.push(token);
        }
        let mut waits = Vec::new();
        for index in 0..self.shared.len() {
            if self.shared[index].counts[at] > 0 && self.random.one_in(2) {
                writer = self.use_shared(writer, at, index);
                waits.extend(
                    self.shared[index]
                        .last_use
                        .replace(FenceValueDesc { fence: self.actors[at].fence, value: self.actors[at].rendered + 1 }),
                );
            }
        }
        if self.random.one_in(4) {
            let other = self.random.below(self.actors.len() as u64) as usize;
            waits.push(self.actors[other].last());
        }
        if self.random.one_in(8) {
            self.cpu_awaited += 1;
            waits.push(FenceValueDesc { fence: self.cpu_fence, value: self.cpu_awaited });
        }
        self.actors[at].rendered += 1;
        let signals = vec![self.actors[at].last()];
        self.world.render(self.actors[at].client.context, RenderDesc { waits, signals, ..writer.finish() });
    }

    fn use_shared(&mut self, writer: Writer, at: usize, index: usize) -> Writer {
        let Shared { id, tokens, .. } = &mut self.shared[index];
        let (slot, page) = (8 + index as u32, self.random.below(tokens.len() as u64));
        let token = std::mem::replace(&mut tokens[page as usize], self.next_token);
        self.next_token += 1;
        self.actors[at].expected.push(token);
        writer.read(slot, *id, page).write(slot, *id, page, self.next_token - 1)
    }

    fn signal(&mut self) {
        if self.cpu_signalled < self.cpu_awaited {
            self.cpu_signalled += 1;
            let (fence, value) = (self.cpu_fence, self.cpu_signalled);
            self.world.call(|vidmm, _, _| vidmm.signal_monitored_fence(fence, value)).unwrap();
        }
    }

    fn suspend_or_resume(&mut self, at: usize) {
        let process = self.actors[at].client.process;
        let is_suspended = std::mem::replace(&mut self.actors[at].is_suspended, true);
        if is_suspended {
            self.actors[at].is_suspended = false;
            self.world.call(|vidmm, _, _| vidmm.resume_process(process)).unwrap();
        } else {
            self.world.call(|vidmm, _, _| vidmm.suspend_process(process, false)).unwrap();
        }
    }

    fn step(&mut self) {
        let at = self.random.below(self.actors.len() as u64) as usize;
        let lister = self.actors[at].lister;
        match (self.random.below(32), lister) {
            (0..3, _) => self.create(at),
            (3..8, Some(lister)) => self.make_resident(at, lister),
            (8..11, Some(lister)) => self.evict(at, lister),
            (11, Some(lister)) => self.offer(at, lister),
            (12..14, Some(lister)) => self.reclaim(at, lister),
            (14, _) => self.destroy(at),
            (15, _) if self.random.one_in(4) => self.suspend_or_resume(at),
            (16..21, _) => self.render(at),
            (21..25, _) => self.world.poll(),
            (25, _) => self.world.now += 20_000_000 * self.random.below(20),
            (26, Some(lister)) => self.list_shared(at, lister),
            (27, _) => self.signal(),
            (28.., _) => drop(self.world.complete(self.random.below(3) as u32)),
            _ => {}
        }
    }

    /// Lets everything end, and compares what was read.
    fn end(mut self) -> Tally {
        for at in 0..self.actors.len() {
            if self.actors[at].is_suspended {
                self.suspend_or_resume(at);
            }
        }
        while self.cpu_signalled < self.cpu_awaited {
            self.signal();
        }
        self.world.run_in_time();
        assert!(self.world.vidmm.is_idle(), "everything ends");
        assert_eq!(self.world.errors(), []);
        for actor in &self.actors {
            assert_eq!(self.world.read_in(actor.client.context), actor.expected);
        }
        let mut portions: BTreeMap<u64, usize> = BTreeMap::new();
        for event in &self.world.events {
            match event {
                Event::Portion { dma_buffer, .. } => *portions.entry(*dma_buffer).or_default() += 1,
                Event::Evicted { reason: vidmm::event::EvictReason::Moved, .. } => self.tally.moved += 1,
                _ => {}
            }
        }
        self.tally.cut = portions.values().filter(|&&portions| portions > 1).count();
        self.tally.suspensions = self.world.suspensions();
        self.tally
    }
}

fn check(listers: usize, others: usize, seeds: impl Iterator<Item = u64>) -> Tally {
    let mut all = Tally::default();
    for seed in seeds {
        print!("seed {seed} of {listers} and {others}: ");
        let mut play = Play::new(seed, listers, others);
        for _ in 0..300 {
            play.step();
        }
        let tally = play.end();
        println!("{tally:?}");
        all.refused += tally.refused;
        all.discarded += tally.discarded;
        all.suspensions += tally.suspensions;
        all.moved += tally.moved;
        all.cut += tally.cut;
    }
    println!("{all:?}");
    all
}

#[test]
fn one_device_list_reads_what_it_has_written() {
    let tally = check(1, 0, 0..150);
    assert!(tally.refused > 100 && tally.discarded > 10 && tally.moved > 10, "{tally:?}");
}

#[test]
fn device_lists_that_do_not_fit_together_read_what_they_have_written() {
    let tally = check(3, 0, 0..150);
    assert!(tally.suspensions > 100 && tally.discarded > 10 && tally.moved > 10, "{tally:?}");
}

#[test]
fn device_lists_and_reference_lists_beside_one_another_read_what_they_have_written() {
    let tally = check(2, 2, 0..150);
    assert!(tally.suspensions > 100 && tally.cut > 100, "{tally:?}");
}

/// More worlds than a test should take; for changes of placement and of turns.
#[test]
#[ignore = "takes minutes"]
fn many_worlds_read_what_they_have_written() {
    for (listers, others) in [(1, 0), (2, 0), (3, 0), (4, 0), (1, 1), (2, 2), (1, 3), (3, 1)] {
        check(listers, others, 1000..6000);
    }
}
