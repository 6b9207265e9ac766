//! The effect of each step.

use super::*;

impl Caller {
    pub(super) fn step(&mut self, step: &Step) {
        match *step {
            Step::Begin(device) => self.begin(device),
            Step::Leave(device) => self.leave(device),
            Step::Create { slot, device, pages, place, shared } => self.create(slot, device, pages, place, shared),
            Step::Destroy { slot, flags } => self.destroy(slot, flags),
            Step::Open { slot, device } => self.open(slot, device),
            Step::Close { slot } => {
                let slot = self.first(slot, |alloc| alloc.uses.iter().filter(|used| used.is_open).count() > 1);
                self.close(slot);
            }
            Step::Map { slot, device, in_reservation } => self.map(slot, device, in_reservation),
            Step::Free { slot, device } => self.free(slot, device),
            Step::MakeResident { slot, device, flags } => self.make_resident(slot, device, flags),
            Step::Evict { slot, device, flags } => self.evict(slot, device, flags),
            Step::Offer { slot, flags } => self.offer(slot, flags),
            Step::Reclaim { slot } => self.reclaim(self.first(slot, |alloc| alloc.is_offered)),
            Step::Lock { slot } => self.lock(slot),
            Step::Unlock { slot } => self.unlock(self.first(slot, |alloc| alloc.locked.is_some())),
            Step::Update { slot, place } => self.update(slot, place),
            Step::SetPriority { slot, priority } => self.set_priority(slot, priority),
            Step::Write { slot, device } => self.access(slot, device, true),
            Step::Read { slot, device } => self.access(slot, device, false),
            Step::WaitForFence { device } => self.wait_for_fence(device),
            Step::Signal => self.signal(),
            Step::PowerDown => self.world.call(|vidmm, _, _| vidmm.power_down()),
            Step::PowerUp => self.world.call(|vidmm, _, _| vidmm.power_up()),
            Step::SetTrimIntervals { milliseconds } => {
                let [min, max, idle] = [1, 2, 3].map(|times| times * milliseconds * MILLISECOND);
                self.world.call(|vidmm, _, _| vidmm.set_trim_intervals(TrimIntervals { min, max, idle }));
            }
            Step::SetContextPriority { device, priority } => self.set_context_priority(device, priority),
            Step::Poll => self.world.poll(),
            Step::RunPaging => self.world.run_paging(),
            Step::RunAll => self.run_all(),
            Step::Wait { milliseconds } => self.world.wait(milliseconds * MILLISECOND),
            Step::Reserve { .. }
            | Step::SetProcessPriority { .. }
            | Step::NotifyBudgetChanges { .. }
            | Step::Suspend { .. }
            | Step::Resume { .. } => self.step_of_process(step),
        }
    }

    /// The first allocation from `slot` on of which this is true; else what is in the slot.
    fn first(&self, slot: usize, is_it: impl Fn(&Alloc) -> bool) -> usize {
        let slots = (slot..SLOTS).chain(0..slot);
        let mut found = slots.filter(|&slot| self.allocs[slot].as_ref().is_some_and(&is_it));
        found.next().unwrap_or(slot)
    }

    fn step_of_process(&mut self, step: &Step) {
        let (Step::Reserve { device, .. }
        | Step::SetProcessPriority { device, .. }
        | Step::NotifyBudgetChanges { device, .. }
        | Step::Suspend { device, .. }
        | Step::Resume { device }) = *step
        else {
            unreachable!("the others are not about a process")
        };
        let Some((process, _)) = self.processes[process_of(device)] else { return };
        match *step {
            Step::Reserve { pages, .. } => {
                let (group, bytes) = (MemorySegmentGroup::Local, pages * PAGE_SIZE);
                self.attempt("reservation", |vidmm, _, _| vidmm.change_video_memory_reservation(process, group, bytes));
            }
            Step::SetProcessPriority { band, .. } => {
                self.attempt("process priority", |vidmm, _, _| {
                    vidmm.set_process_priority(process, band, Visibility::Visible)
                });
            }
            Step::NotifyBudgetChanges { wanted, .. } => {
                self.attempt("budget notification", |vidmm, _, _| vidmm.notify_budget_changes(process, wanted));
            }
            Step::Suspend { may_wake, .. } => {
                self.attempt("suspend", |vidmm, _, _| vidmm.suspend_process(process, may_wake));
            }
            _ => drop(self.attempt("resume", |vidmm, _, _| vidmm.resume_process(process))),
        }
    }

    /// Creates what the device has not.
    fn begin(&mut self, number: usize) {
        let process = process_of(number);
        if self.processes[process].is_none() {
            let created = self.attempt("create process", |vidmm, driver, host| {
                vidmm.create_process(driver, host).map(|process| (process, KmdProcessHandle(driver.last_handle)))
            });
            self.processes[process] = created;
        }
        let Some((process, _)) = self.processes[process] else { return };
        if self.devices[number].device.is_none() {
            self.devices[number].device = self.attempt("create device", |vidmm, _, _| vidmm.create_device(process));
        }
        let Some(device) = self.devices[number].device else { return };
        if self.devices[number].queue.is_none() {
            self.devices[number].queue =
                self.attempt("create queue", |vidmm, _, _| vidmm.create_paging_queue(device, number as i32));
        }
        for (context, engine) in [RENDER, COPY].into_iter().enumerate() {
            if self.devices[number].contexts[context].is_none() {
                self.devices[number].contexts[context] =
                    self.attempt("create context", |vidmm, driver, _| vidmm.create_context(driver, device, engine));
            }
        }
        if self.devices[number].trims.is_none() {
            self.devices[number].trims =
                self.attempt("register trims", |vidmm, _, _| vidmm.register_trim_notification(device));
        }
        if self.fence.is_none() {
            self.fence = Some(self.world.call(|vidmm, _, _| vidmm.create_monitored_fence(0)).unwrap());
        }
    }

    /// Destroys the device with all that it has. Its submitted work ends before.
    pub(super) fn leave(&mut self, number: usize) {
        if self.devices[number].device.is_none() {
            return;
        }
        self.let_everybody_run();
        self.run_all();
        for slot in 0..SLOTS {
            if self.allocs[slot].as_ref().is_some_and(|alloc| alloc.owner == number) {
                self.destroy(slot, DestroyFlags::empty());
            } else if self.allocs[slot].as_ref().is_some_and(|alloc| alloc.uses[number].is_open) {
                self.close(slot);
            }
        }
        self.run_all();
        let Dev { device, queue, contexts, trims } = std::mem::take(&mut self.devices[number]);
        if let Some(trims) = trims {
            self.attempt("unregister trims", |vidmm, _, _| vidmm.unregister_trim_notification(trims)).unwrap();
        }
        for context in contexts.into_iter().flatten() {
            self.attempt("destroy context", |vidmm, driver, _| vidmm.destroy_context(driver, context)).unwrap();
        }
        if let Some(queue) = queue {
            self.attempt("destroy queue", |vidmm, _, _| vidmm.destroy_paging_queue(queue)).unwrap();
        }
        let device = device.expect("it was created");
        self.attempt("destroy device", |vidmm, driver, host| vidmm.destroy_device(driver, host, device)).unwrap();
    }

    /// Every fence that work waits for can come.
    pub(super) fn let_everybody_run(&mut self) {
        self.world.call(|vidmm, _, _| vidmm.power_up());
        for (process, _) in self.processes.into_iter().flatten() {
            self.world.call(|vidmm, _, _| vidmm.resume_process(process)).unwrap();
        }
        self.signal();
        for slot in 0..SLOTS {
            self.unlock(slot);
        }
    }

    fn run_all(&mut self) {
        self.world.run_all();
        self.note_reads();
    }

    fn info(&self, pages: u64, place: Place) -> AllocationInfo {
        let flags2 = if pages.is_multiple_of(2) { BOTH } else { SILENT };
        let config = &self.world.config;
        let place = match place {
            Place::Local | Place::LocalOrSystem if config.segment_bytes == 0 => Place::System,
            place => place,
        };
        config.allocation(place, pages, flags2)
    }

    fn create(&mut self, slot: usize, device: usize, pages: u64, place: Place, is_shared: bool) {
        let Some(id) = self.devices[device].device.filter(|_| self.allocs[slot].is_none()) else { return };
        let info = self.info(pages, place);
        let flags = if is_shared { CreateAllocationFlags::CREATE_SHARED } else { CreateAllocationFlags::empty() };
        let created = self.attempt("create allocation", |vidmm, driver, host| {
            driver.next_allocation = Some(info);
            let data = private_data(0, 0);
            let desc = CreateAllocationDesc { flags, ..CreateAllocationDesc::from(&data) };
            vidmm.create_allocation(driver, host, id, desc)
        });
        self.world.driver.next_allocation = None;
        let Some(id) = created else { return };
        let pages = self.world.driver.infos[&self.world.handle(id)].size.div_ceil(PAGE_SIZE);
        let mut uses: [Use; DEVICES] = Default::default();
        uses[device].is_open = true;
        self.allocs[slot] = Some(Alloc {
            id,
            owner: device,
            pages,
            tokens: vec![0; pages as usize],
            uses,
            is_offered: false,
            locked: None,
            last_access: None,
        });
    }

    /// The owner destroys it; if another device has it open, it is that device's from now on.
    pub(super) fn destroy(&mut self, slot: usize, flags: DestroyFlags) {
        let Some(alloc) = &mut self.allocs[slot] else { return };
        let (id, owner) = (alloc.id, alloc.owner);
        alloc.uses[owner] = Use::default();
        alloc.is_offered = false;
        match alloc.uses.iter().position(|used| used.is_open) {
            Some(next) => alloc.owner = next,
            None => self.allocs[slot] = None,
        }
        self.attempt("destroy allocation", |vidmm, _, host| vidmm.destroy_allocation(host, id, flags)).unwrap();
    }

    fn open(&mut self, slot: usize, device: usize) {
        let Some(id) = self.devices[device].device else { return };
        let Some(alloc) = &self.allocs[slot] else { return };
        // One other device has it at most, of another process.
        let is_other = process_of(device) != process_of(alloc.owner);
        if !is_other || alloc.is_offered || alloc.uses.iter().filter(|used| used.is_open).count() > 1 {
            return;
        }
        let allocation = alloc.id;
        let opened = self.attempt("open", |vidmm, driver, _| vidmm.open_allocation(driver, id, allocation)).is_some();
        self.allocs[slot].as_mut().expect("it is there").uses[device].is_open |= opened;
    }

    fn close(&mut self, slot: usize) {
        let Some(alloc) = &mut self.allocs[slot] else { return };
        let other = (0..DEVICES).find(|&device| device != alloc.owner && alloc.uses[device].is_open);
        let Some(other) = other else { return };
        alloc.uses[other] = Use::default();
        let (allocation, device) = (alloc.id, self.devices[other].device.expect("it has opened it"));
        self.attempt("close", |vidmm, _, _| vidmm.close_allocation(device, allocation)).unwrap();
    }

    fn alloc(&mut self, slot: usize) -> &mut Alloc {
        self.allocs[slot].as_mut().expect("it is there")
    }

    /// The allocation in a slot, for a device that has it open and has a paging queue.
    fn usable(&self, slot: usize, device: usize) -> Option<(AllocationId, PagingQueueId, Use)> {
        let alloc = self.allocs[slot].as_ref().filter(|alloc| alloc.uses[device].is_open)?;
        Some((alloc.id, self.devices[device].queue?, alloc.uses[device]))
    }

    fn map(&mut self, slot: usize, device: usize, in_reservation: bool) {
        let Some((allocation, queue, used)) = self.usable(slot, device) else { return };
        if used.address.is_some() {
            return;
        }
        let process = process_of(device);
        let mut desc = MapGpuVirtualAddress::whole(allocation);
        if in_reservation {
            let size = self.alloc(slot).pages * PAGE_SIZE;
            let size = size.next_multiple_of(PAGE_SIZE_64K);
            desc.base_address = self
                .attempt("reserve", |vidmm, _, host| vidmm.reserve_gpu_virtual_address(host, queue, None, size))
                .map(|reserved| reserved.virtual_address)
                .inspect(|base| self.reserved.push((process, base.0, size)));
        }
        let mapped = self.attempt("map", |vidmm, _, host| vidmm.map_gpu_virtual_address(host, queue, &desc));
        self.alloc(slot).uses[device].address = mapped.map(|mapped| mapped.virtual_address.0);
    }

    /// Frees a mapping: a page of it first, if that can be, and then what is left on either side (U-22).
    fn free(&mut self, slot: usize, device: usize) {
        let Some((_, _, Use { address: Some(address), .. })) = self.usable(slot, device) else { return };
        let (process, _) = self.processes[process_of(device)].expect("it has a device");
        let pages = self.alloc(slot).pages;
        let mut free = |kind, first: u64, pages: u64| {
            let base = GpuVirtualAddress(address + first * PAGE_SIZE);
            let size = pages * PAGE_SIZE;
            self.attempt(kind, |vidmm, _, host| vidmm.free_gpu_virtual_address(host, process, base, size))
        };
        let middle = pages / 2;
        if pages > 2 && free("free a part", middle, 1).is_some() {
            free("free", 0, middle).unwrap();
            free("free", middle + 1, pages - middle - 1).unwrap();
        } else {
            free("free", 0, pages).unwrap();
        }
        self.alloc(slot).uses[device].address = None;
        // A reservation can be given back when nothing is mapped there any more, which work may delay.
        self.run_all();
        let reserved = self.reserved.iter().position(|&(of, at, _)| (of, at) == (process_of(device), address));
        if let Some(at) = reserved {
            let (base, (_, _, size)) = (GpuVirtualAddress(address), self.reserved[at]);
            let freed =
                self.attempt("unreserve", |vidmm, _, host| vidmm.free_gpu_virtual_address(host, process, base, size));
            if freed.is_some() {
                self.reserved.remove(at);
            }
        }
    }

    fn make_resident(&mut self, slot: usize, device: usize, flags: MakeResidentFlags) {
        let Some((allocation, queue, _)) = self.usable(slot, device) else { return };
        let answer = self.attempt("make resident", |vidmm, _, _| vidmm.make_resident(queue, &[allocation], flags));
        if answer.is_some() {
            self.alloc(slot).uses[device].count += 1;
        }
    }

    fn evict(&mut self, slot: usize, device: usize, flags: EvictFlags) {
        let Some((allocation, _, used)) = self.usable(slot, device) else { return };
        let id = self.devices[device].device.expect("it has a queue");
        let evicted = self.attempt("evict", |vidmm, _, _| vidmm.evict(id, &[allocation], flags)).is_some();
        assert_eq!(evicted, used.count > 0, "RES-20: it is on the list {} times", used.count);
        if evicted {
            self.alloc(slot).uses[device].count -= 1;
        }
    }

    fn offer(&mut self, slot: usize, flags: OfferFlags) {
        let Some(alloc) = &self.allocs[slot] else { return };
        let (allocation, device) = (alloc.id, self.devices[alloc.owner].device.expect("it owns something"));
        let offered = self
            .attempt("offer", |vidmm, _, _| vidmm.offer_allocations(device, &[allocation], OfferPriority::Auto, flags));
        self.alloc(slot).is_offered |= offered.is_some();
    }

    fn reclaim(&mut self, slot: usize) {
        let Some(alloc) = &self.allocs[slot] else { return };
        let (allocation, Some(queue)) = (alloc.id, self.devices[alloc.owner].queue) else { return };
        let reclaimed = self.attempt("reclaim", |vidmm, _, host| vidmm.reclaim_allocations(host, queue, &[allocation]));
        let Some(Reclaimed { results, .. }) = reclaimed else { return };
        self.alloc(slot).is_offered = false;
        match results[..] {
            [ReclaimResult::Ok] => {}
            [ReclaimResult::Discarded] => self.alloc(slot).tokens.fill(0),
            // RES-66: it can only be destroyed.
            _ => self.destroy(slot, DestroyFlags::empty()),
        }
    }

    /// Locks, reads what is there, and writes something else, if no work is under way for it.
    fn lock(&mut self, slot: usize) {
        let Some(alloc) = &self.allocs[slot] else { return };
        let (allocation, device) = (alloc.id, self.devices[alloc.owner].device.expect("it owns something"));
        let is_still = alloc.last_access.is_none_or(|(_, work)| self.ended.contains(&work));
        if alloc.locked.is_some() || !is_still {
            return;
        }
        let mut locked = self.attempt("lock", |vidmm, _, host| vidmm.lock(host, device, allocation));
        if locked.is_none() {
            // RES-83: it may have to leave first.
            self.world.run_paging();
            locked = self.attempt("lock", |vidmm, _, host| vidmm.lock(host, device, allocation));
        }
        let Some(address) = locked else { return };
        self.alloc(slot).locked = Some(address);
        for page in 0..self.alloc(slot).pages {
            if self.world.host.seen(address, page).is_some() {
                let expected = self.alloc(slot).tokens[page as usize];
                assert_eq!(self.world.cpu_read(address, page), expected, "I30: the CPU sees something else");
                self.next_token += 1;
                self.world.cpu_write(address, page, self.next_token);
                self.alloc(slot).tokens[page as usize] = self.next_token;
            }
        }
    }

    fn unlock(&mut self, slot: usize) {
        let Some(alloc) = &mut self.allocs[slot] else { return };
        if alloc.locked.take().is_some() {
            let allocation = alloc.id;
            self.attempt("unlock", |vidmm, _, host| vidmm.unlock(host, allocation)).unwrap();
        }
    }

    fn update(&mut self, slot: usize, place: Place) {
        let Some(alloc) = &self.allocs[slot] else { return };
        let (allocation, Some(queue)) = (alloc.id, self.devices[alloc.owner].queue) else { return };
        let set = self.info(alloc.pages, place).supported_segment_set;
        let update = UpdateAllocationProperty { supported_segment_set: Some(set), preferred_segment: None };
        self.attempt("update", |vidmm, driver, _| vidmm.update_allocation_property(driver, queue, allocation, &update));
    }

    fn set_priority(&mut self, slot: usize, priority: u32) {
        let Some(allocation) = self.allocs[slot].as_ref().map(|alloc| alloc.id) else { return };
        self.attempt("priority", |vidmm, _, _| vidmm.set_allocation_priority(allocation, priority)).unwrap();
    }

    fn set_context_priority(&mut self, device: usize, priority: i32) {
        let Some(context) = self.devices[device].contexts[1] else { return };
        self.attempt("context priority", |vidmm, _, _| vidmm.set_context_scheduling_priority(context, priority))
            .unwrap();
    }

    /// Work that writes each page, or reads one. Its device's list must have the allocation, and nobody else may use it.
    fn access(&mut self, slot: usize, device: usize, writes: bool) {
        let Some((_, _, used)) = self.usable(slot, device) else { return };
        let (Some(address), Some(context)) = (used.address, self.devices[device].contexts[0]) else { return };
        let alloc = self.allocs[slot].as_ref().expect("it is usable");
        let others = alloc.last_access.filter(|&(other, work)| other != device && !self.ended.contains(&work));
        if used.count == 0 || alloc.is_offered || alloc.locked.is_some() || others.is_some() {
            return;
        }
        self.num_works += 1;
        let number = self.num_works;
        let mut program = vec![Access::Tag(number | WORK)];
        if writes {
            for page in 0..alloc.pages {
                self.next_token += 1;
                program.push(Access::Write(address + page * PAGE_SIZE, self.next_token));
            }
            let tokens = program[1..].iter().map(|access| match *access {
                Access::Write(_, token) => token,
                _ => unreachable!("all are writes"),
            });
            self.allocs[slot].as_mut().expect("it is usable").tokens = tokens.collect();
        } else {
            let page = number % alloc.pages;
            self.expected.insert(number, alloc.tokens[page as usize]);
            program.push(Access::Read(address + page * PAGE_SIZE));
        }
        self.alloc(slot).last_access = Some((device, number));
        self.world.submit_to(context, &program, &[], &[]);
        self.answers.entry(if writes { "write" } else { "read" }).or_default().0 += 1;
    }

    fn wait_for_fence(&mut self, device: usize) {
        let (Some(context), Some(fence)) = (self.devices[device].contexts[1], self.fence) else { return };
        self.fence_value += 1;
        self.world.submit_to(context, &[], &[(fence, self.fence_value)], &[]);
        self.answers.entry("wait for fence").or_default().0 += 1;
    }

    fn signal(&mut self) {
        if let Some(fence) = self.fence {
            self.world.signal(fence, self.fence_value);
        }
    }

    /// Each allocation holds what was written last: everything is brought in and read, one by one.
    pub(super) fn check_contents(&mut self) {
        for slot in 0..SLOTS {
            let Some(device) = self.allocs[slot].as_ref().map(|alloc| alloc.owner) else { continue };
            if self.alloc(slot).is_offered {
                self.reclaim(slot);
            }
            if self.allocs[slot].is_none() {
                continue;
            }
            self.map(slot, device, false);
            self.make_resident(slot, device, MakeResidentFlags::CANT_TRIM_FURTHER);
            self.access(slot, device, false);
            self.run_all();
        }
        assert!(self.expected.is_empty(), "I32: work has not ended: {:?}", self.expected);
    }
}
