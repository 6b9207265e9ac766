//! Clients that call at random, and the ledger of bytes: the token that each page must hold, whatever was answered and whatever
//! went wrong. The auditor judges what the log says of it.

mod end;
mod steps;
mod trouble;

use std::collections::BTreeMap;

use vidmm::contract::*;
use vidmm::*;

use crate::world::*;

pub use steps::{Step, adapter, step};
pub use trouble::{Mishap, Tempers, Trouble, tempers, trouble};

pub struct Dev {
    client: Client,
    contexts: [ContextId; 2],
    /// For how many steps it has been in error.
    in_error_for: u32,
}

/// An allocation on one device. Of an allocation that others have opened there are several, with one content.
#[derive(Clone)]
pub struct Alloc {
    id: AllocationId,
    device: usize,
    place: Place,
    /// Its tokens are written and read through its surface: they are compressed while the GPU uses them.
    surface: Option<KmdAllocationHandle>,
    pages: u64,
    /// Which of the model's contents it has.
    content: usize,
    is_offered: bool,
    count: u32,
    /// Work submitted since it was put on the list writes to it.
    written: bool,
    /// Address, first page of the allocation, pages.
    mappings: Vec<(u64, u64, u64)>,
    alive: bool,
}

/// Work, with the contents that it reads and writes.
pub struct Program {
    reads: Vec<(usize, u64)>,
    writes: Vec<(usize, u64, u64)>,
    device: DeviceId,
    /// It ran, or as far as it came.
    done: bool,
}

pub struct Model {
    pub world: World,
    devices: Vec<Dev>,
    allocs: Vec<Alloc>,
    /// Tokens of pages.
    contents: Vec<Vec<u64>>,
    /// The devices that have an allocation open, its owner first.
    open_on: BTreeMap<AllocationId, Vec<usize>>,
    programs: Vec<Program>,
    fence: MonitoredFenceId,
    chained: u64,
    /// No allocation may be outside local memory.
    only_local: bool,
    /// For how many steps a client bears that its device is in error.
    patience: u32,
    /// How often the adapter may be reset.
    resets_allowed: usize,
    /// How many events are known.
    num_events: usize,
}

/// An allocation of local memory that may be in some of the memory segments, in some order of preference.
fn among_segments(config: &Config, drawn: u32, info: AllocationInfo) -> AllocationInfo {
    let mut segments = config.memory_segments();
    if config.more_memory.is_empty() {
        return info;
    }
    let first = drawn as usize % segments.len();
    segments.rotate_left(first);
    let count = 1 + (drawn >> 4) as usize % segments.len();
    let in_system = info.supported_segment_set.0 & !SegmentSet::of(LOCAL).0;
    let mut preferred_segment = SegmentPreference::default();
    preferred_segment.segment_ids[..count].copy_from_slice(&segments[..count]);
    let set = segments[..count].iter().fold(in_system, |set, &segment| set | SegmentSet::of(segment).0);
    AllocationInfo { supported_segment_set: SegmentSet(set), preferred_segment, ..info }
}

impl Model {
    pub fn new(config: Config, only_local: bool, siblings: &[bool], busy_every: u32) -> Self {
        let mut world = World::new(config);
        let mut calls = 0;
        world.driver.answer = Box::new(move |build| {
            let moves = matches!(
                build.operation,
                PagingOperation::VirtualTransfer(_)
                    | PagingOperation::NotifyAlloc(_)
                    | PagingOperation::MapApertureSegment(_)
                    | PagingOperation::MapApertureSegment2(_)
                    | PagingOperation::UnmapApertureSegment(_)
            );
            calls += 1;
            let busy = moves && !build.allocation_is_idle && busy_every > 0 && calls % busy_every == 0;
            busy.then_some(BuildStatus::AllocationBusy)
        });
        let fence = world.fence();
        let mut devices: Vec<Dev> = Vec::new();
        for &is_sibling in siblings {
            let client = match devices.first() {
                Some(first) if is_sibling => world.sibling(first.client),
                _ => world.client(),
            };
            let contexts = [client.context, world.context(client, COPY)];
            devices.push(Dev { client, contexts, in_error_for: 0 });
        }
        let (allocs, programs) = (Vec::new(), Vec::new());
        let (contents, open_on) = (Vec::new(), BTreeMap::new());
        let (patience, resets_allowed, num_events, chained) = (0, 0, 0, 0);
        Self {
            world,
            devices,
            allocs,
            contents,
            open_on,
            programs,
            fence,
            chained,
            only_local,
            patience,
            resets_allowed,
            num_events,
        }
    }

    pub fn step(&mut self, step: &Step) {
        match *step {
            Step::MakeResident { device, ref picks } => self.make_resident(device % self.devices.len(), picks),
            Step::Evict { ref picks, flags } => self.evict(picks, flags),
            Step::Submit { device, copy, writes, chain, seed } => {
                self.submit(device % self.devices.len(), copy, writes, chain, seed)
            }
            Step::Complete { engine } => self.complete(engine, Ending::Heard),
            Step::Poll => self.world.poll(),
            Step::Map { pick, part } => self.map(pick, part),
            Step::Free { pick } => self.free(pick),
            Step::Create { device, pages, priority, kind } => {
                self.create(device % self.devices.len(), pages, priority, kind)
            }
            Step::Destroy { pick } => self.destroy(pick),
            Step::Open { pick, device } => self.open(pick, device % self.devices.len()),
            Step::Offer { pick, flags } => self.offer(pick, OfferFlags::from_bits_truncate(flags)),
            Step::Reclaim { pick } => self.reclaim(pick),
            Step::Suspend { device, may_wake } => {
                let process = self.client(device).process;
                self.world.call(|vidmm, _, _| vidmm.suspend_process(process, may_wake)).unwrap();
            }
            Step::Resume { device } => {
                let process = self.client(device).process;
                self.world.call(|vidmm, _, _| vidmm.resume_process(process)).unwrap();
            }
            Step::PowerDown => self.world.call(|vidmm, _, _| vidmm.power_down()),
            Step::PowerUp => self.world.call(|vidmm, _, _| vidmm.power_up()),
            Step::Reserve { device, pages } => {
                // An excessive demand is refused.
                _ = self.world.reserve(self.client(device), pages * PAGE_SIZE);
            }
            Step::Prioritise { device, band, visibility } => {
                self.world.set_priority(self.client(device), band, visibility)
            }
            Step::Wait { milliseconds } => self.wait(milliseconds, true),
            Step::RunAll => self.run_all(),
            Step::Suffer(ref trouble) => _ = self.has_trouble() && self.suffer(trouble),
        }
        self.learn();
        self.renew_devices();
    }

    fn client(&self, device: usize) -> Client {
        self.devices[device % self.devices.len()].client
    }

    fn pick(&self, pick: usize) -> Option<usize> {
        let alive: Vec<usize> = (0..self.allocs.len()).filter(|&index| self.allocs[index].alive).collect();
        Some(alive[pick.checked_rem(alive.len())?])
    }

    /// The place and the notifications follow from `kind`, as far as the adapter has them.
    pub fn create(&mut self, device: usize, pages: u64, priority: u32, kind: u32) {
        if self.is_in_error(device) {
            return;
        }
        let config = &self.world.config;
        let place = match (config.segment_bytes > 0, !self.only_local, kind % 4) {
            (true, false, _) | (true, true, 0) => Place::Local,
            (true, true, 1) => Place::LocalOrSystem,
            (_, _, 2) => Place::Aperture,
            _ => Place::System,
        };
        let flags2 = AllocationFlags2::from_bits_truncate(kind << 2);
        let info = config.allocation(place, pages, flags2);
        let info = match place {
            Place::Local | Place::LocalOrSystem => among_segments(config, kind >> 8, info),
            Place::System | Place::Aperture => info,
        };
        let info = AllocationInfo { allocation_priority: NORMAL + priority, ..info };
        let is_in_pool = matches!(place, Place::Local | Place::LocalOrSystem);
        let page_bytes = if is_in_pool { config.page_size.bytes() } else { PAGE_SIZE };
        let client = self.devices[device].client;
        let id = match kind % 3 {
            0 => self.world.create_to_share(client, info),
            _ => self.world.try_create(client, info).unwrap(),
        };
        self.open_on.insert(id, vec![device]);
        let handle = self.world.handle(id);
        let pages = (pages * PAGE_SIZE).next_multiple_of(page_bytes) / PAGE_SIZE;
        self.allocs.push(Alloc {
            id,
            device,
            place,
            surface: (place == Place::Local || flags2.contains(EVICTION)).then_some(handle),
            pages,
            content: self.contents.len(),
            is_offered: false,
            count: 0,
            written: false,
            mappings: Vec::new(),
            alive: true,
        });
        self.contents.push(vec![0; pages as usize]);
        self.map(usize::MAX, false);
    }

    fn open(&mut self, pick: usize, device: usize) {
        let Some(index) = self.pick(pick) else { return };
        if self.is_in_error(device) {
            return;
        }
        let process = |device: usize| self.devices[device].client.process;
        let Alloc { id, is_offered, .. } = self.allocs[index];
        if is_offered || self.open_on[&id].iter().any(|&other| process(other) == process(device)) {
            return;
        }
        match self.world.open(self.devices[device].client, id) {
            // An allocation that the device has closed stays open until the work that uses it has ended.
            Err(OpenError::NotShared | OpenError::AlreadyOpen) => return,
            answer => answer.unwrap(),
        }
        self.open_on.get_mut(&id).unwrap().push(device);
        let opened = self.allocs[index].clone();
        self.allocs.push(Alloc { device, count: 0, written: false, mappings: Vec::new(), ..opened });
        self.map(usize::MAX, false);
    }

    fn offer(&mut self, pick: usize, flags: OfferFlags) {
        let Some(index) = self.pick(pick) else { return };
        let Alloc { id, device, is_offered, .. } = self.allocs[index];
        if !self.is_in_error(device) && !is_offered && self.open_on[&id].len() == 1 {
            self.world.offer_with(self.devices[device].client, &[id], OfferPriority::Auto, flags).unwrap();
            self.allocs[index].is_offered = true;
        }
    }

    fn reclaim(&mut self, pick: usize) {
        let offered: Vec<usize> =
            (0..self.allocs.len()).filter(|&index| self.allocs[index].alive && self.allocs[index].is_offered).collect();
        let Some(index) = pick.checked_rem(offered.len()).map(|pick| offered[pick]) else { return };
        let Alloc { id, device, pages, .. } = self.allocs[index];
        if self.is_in_error(device) {
            return;
        }
        let answer = match self.world.reclaim(self.devices[device].client, &[id]) {
            Err(ReclaimError::NoMemory { .. }) => return,
            answer => answer.unwrap(),
        };
        let alloc = &mut self.allocs[index];
        alloc.is_offered = false;
        if answer.results == [ReclaimResult::Discarded] {
            // Work that was submitted before the offer still has the old content; from now on it reads as zero (U-36).
            alloc.content = self.contents.len();
            alloc.written = true;
            self.contents.push(vec![0; pages as usize]);
        } else {
            assert_eq!(answer.results, [ReclaimResult::Ok], "the host has memory");
        }
    }

    fn map(&mut self, pick: usize, part: bool) {
        let pick = if pick == usize::MAX { self.allocs.len().checked_sub(1) } else { self.pick(pick) };
        let Some(index) = pick else { return };
        if self.is_in_error(self.allocs[index].device) {
            return;
        }
        let alloc = &mut self.allocs[index];
        let client = self.devices[alloc.device].client;
        let first = if part { alloc.pages / 3 } else { 0 };
        let desc = MapGpuVirtualAddress { offset: first * PAGE_SIZE, ..MapGpuVirtualAddress::whole(alloc.id) };
        let answer = self.world.try_map(client, &desc);
        let mapped = match answer {
            Ok(mapped) => mapped,
            Err(MapError::NoMemory { .. } | MapError::Range(_)) => return,
            Err(error) => panic!("{error}"),
        };
        alloc.mappings.push((mapped.virtual_address.0, first, alloc.pages - first));
    }

    fn free(&mut self, pick: usize) {
        let Some(index) = self.pick(pick) else { return };
        let alloc = &mut self.allocs[index];
        let client = self.devices[alloc.device].client;
        let Some((address, first, pages)) = alloc.mappings.pop() else { return };
        // U-22: all of a mapping, or some of its pages; what is left on either side are mappings.
        let random = pick as u64 / 7;
        let before = if random.is_multiple_of(2) { 0 } else { random / 2 % pages };
        let freed = if random.is_multiple_of(2) { pages } else { 1 + random / 64 % (pages - before) };
        let at = |page: u64| address + page * PAGE_SIZE;
        match self.world.free(client, at(before), freed) {
            Err(GpuVaError::NoMemory { .. }) => return alloc.mappings.push((address, first, pages)),
            answer => answer.unwrap(),
        }
        let rests = [(address, first, before), (at(before + freed), first + before + freed, pages - before - freed)];
        alloc.mappings.extend(rests.into_iter().filter(|&(_, _, pages)| pages > 0));
    }

    fn make_resident(&mut self, device: usize, picks: &[usize]) {
        let own: Vec<usize> = (0..self.allocs.len())
            .filter(|&index| {
                let alloc = &self.allocs[index];
                alloc.alive && alloc.device == device && !alloc.is_offered
            })
            .collect();
        if own.is_empty() || self.is_in_error(device) {
            return;
        }
        let picks: Vec<usize> = picks.iter().map(|pick| own[pick % own.len()]).collect();
        let ids: Vec<AllocationId> = picks.iter().map(|&index| self.allocs[index].id).collect();
        let client = self.devices[device].client;
        let one_pool =
            self.world.config.more_memory.is_empty() && self.allocs.iter().all(|alloc| alloc.place == Place::Local);
        let mut rounds = 0;
        let mut answer = self.world.make_resident(client, &ids);
        while let Err(MakeResidentError::NoMemory { num_bytes_to_trim, .. }) = answer {
            assert!(!one_pool || rounds == 0, "P03: what was asked for was trimmed");
            // RES-14: trim and try again, until there is nothing left to trim.
            let trimmed = self.trim(device, num_bytes_to_trim, &ids);
            if trimmed == 0 || one_pool && trimmed < num_bytes_to_trim {
                answer = self.world.cant_trim(client, &ids);
                if answer.is_err() {
                    return;
                }
            } else {
                answer = self.world.make_resident(client, &ids);
            }
            rounds += 1;
        }
        let _: Residency = answer.unwrap();
        for &index in &picks {
            let alloc = &mut self.allocs[index];
            alloc.written &= alloc.count > 0;
            alloc.count += 1;
        }
    }

    /// Takes `bytes` off the device's list, if it is that long without `kept`; how many it took.
    fn trim(&mut self, device: usize, bytes: u64, kept: &[AllocationId]) -> u64 {
        let mut trimmed = 0;
        let is_listed =
            |alloc: &&mut Alloc| alloc.alive && alloc.device == device && alloc.count > 0 && !alloc.is_offered;
        for alloc in self.allocs.iter_mut().filter(is_listed) {
            if trimmed < bytes && !kept.contains(&alloc.id) {
                let all = vec![alloc.id; alloc.count as usize];
                self.world.evict(self.devices[device].client, &all, SOON).unwrap();
                alloc.count = 0;
                trimmed += alloc.pages * PAGE_SIZE;
            }
        }
        trimmed
    }

    fn evict(&mut self, picks: &[usize], flags: u32) {
        let picks: Vec<usize> = picks.iter().filter_map(|&pick| self.pick(pick)).collect();
        let Some(&first) = picks.first() else { return };
        let device = self.allocs[first].device;
        if self.is_in_error(device) {
            return;
        }
        let on_device = |pick: usize| {
            let is_it = |alloc: &Alloc| alloc.alive && alloc.id == self.allocs[pick].id && alloc.device == device;
            self.allocs.iter().position(is_it).unwrap_or(pick)
        };
        let picks: Vec<usize> = picks.into_iter().map(on_device).collect();
        let ids: Vec<AllocationId> = picks.iter().map(|&index| self.allocs[index].id).collect();
        let mut flags = EvictFlags::from_bits_truncate(flags);
        // The client is honest: what it wrote to, it says.
        flags.set(NOT_WRITTEN, flags.contains(NOT_WRITTEN) && !picks.iter().any(|&index| self.allocs[index].written));
        let mut counts: Vec<u32> = self.allocs.iter().map(|alloc| alloc.count).collect();
        let mut is_listed = |&index: &usize| {
            let listed = self.allocs[index].device == device && counts[index] > 0;
            counts[index] -= u32::from(listed);
            listed
        };
        let bad = picks.iter().position(|index| !is_listed(index));
        let answer = self.world.evict(self.devices[device].client, &ids, flags);
        match bad {
            Some(position) => assert_eq!(answer, Err(EvictError::NotResident { position }), "RES-02"),
            None => {
                answer.unwrap();
                picks.into_iter().for_each(|index| self.allocs[index].count -= 1);
            }
        }
    }

    fn submit(&mut self, device: usize, copy: bool, writes: bool, chain: bool, seed: u64) {
        if self.is_in_error(device) {
            return;
        }
        let number = self.programs.len() as u64;
        let mut accesses = vec![Access::Tag(number)];
        let mut writes_at = Vec::new();
        let (reads, writes_done) = (Vec::new(), Vec::new());
        let signals = chain.then(|| self.next_link());
        let mut program =
            Program { reads, writes: writes_done, device: self.devices[device].client.device, done: false };
        for (index, alloc) in self.allocs.iter_mut().enumerate() {
            let is_usable = alloc.alive && alloc.count > 0 && !alloc.is_offered;
            if !is_usable || alloc.device != device || alloc.mappings.is_empty() {
                continue;
            }
            let turn = seed.rotate_left(index as u32 * 7);
            let (address, first, pages) = alloc.mappings[turn as usize % alloc.mappings.len()];
            for page in [0, turn % pages, pages - 1] {
                accesses.push(alloc.read(address + page * PAGE_SIZE, first + page));
                program.reads.push((alloc.content, first + page));
            }
            if writes && turn & 0x100 > 0 {
                let (page, token) = (turn / 7 % pages, (number << 16) + index as u64 + 1);
                program.writes.push((alloc.content, first + page, token));
                writes_at.push((address + page * PAGE_SIZE, alloc.surface, first + page, token));
                alloc.written = true;
            }
        }
        accesses.extend(writes_at.into_iter().map(|(address, surface, page, token)| match surface {
            Some(handle) => Access::WriteSurface(address, handle, page, token),
            None => Access::Write(address, token),
        }));
        let context = self.devices[device].contexts[usize::from(copy)];
        match signals {
            Some((fence, value)) => {
                _ = self.world.submit_to(context, &accesses, &[(fence, value - 1)], &[(fence, value)])
            }
            None => _ = self.world.submit_to(context, &accesses, &[], &[]),
        }
        self.programs.push(program);
    }

    /// The next value of the fence that work waits for and signals. One that is at its end has no next.
    fn next_link(&mut self) -> (MonitoredFenceId, u64) {
        if self.world.vidmm.monitored_fence_value(self.fence) == Ok(u64::MAX) {
            (self.fence, self.chained) = (self.world.fence(), 0);
        }
        self.chained += 1;
        (self.fence, self.chained)
    }

    fn complete(&mut self, engine: u32, ending: Ending) {
        if !self.world.can_complete(engine) {
            return;
        }
        self.world.end(engine, ending);
        self.note_run(usize::MAX);
        self.world.poll();
    }

    /// Work has come so many accesses far, and will come no farther.
    fn note_run(&mut self, accesses: usize) {
        let read = std::mem::take(&mut self.world.read);
        let Some((&number, tokens)) = read.split_first() else { return };
        let program = &mut self.programs[number as usize];
        for (&(content, page), &token) in program.reads.iter().zip(tokens) {
            let expected = self.contents[content][page as usize];
            assert_eq!(token, expected, "I02: page {page} of content {content}, read by work {number}");
        }
        for &(content, page, token) in program.writes.iter().take(accesses.saturating_sub(1 + program.reads.len())) {
            self.contents[content][page as usize] = token;
        }
        assert!(!std::mem::replace(&mut program.done, true), "work {number} ran twice");
    }

    fn destroy(&mut self, pick: usize) {
        if let Some(index) = self.pick(pick) {
            self.destroy_alloc(index);
        }
    }

    fn destroy_alloc(&mut self, index: usize) {
        let alloc = &mut self.allocs[index];
        alloc.alive = false;
        let open_on = self.open_on.get_mut(&alloc.id).unwrap();
        if open_on[0] == alloc.device {
            self.world.destroy(alloc.id);
        } else {
            self.world.close(self.devices[alloc.device].client, alloc.id).unwrap();
        }
        open_on.retain(|&device| device != alloc.device);
    }
}

impl Alloc {
    fn read(&self, address: u64, page: u64) -> Access {
        match self.surface {
            Some(handle) => Access::ReadSurface(address, handle, page),
            None => Access::Read(address),
        }
    }
}
