//! Writing plans: who comes in, who must go for it, and what that entails.

use alloc::vec::Vec;

use crate::{
    adapter::NotificationRevision,
    allocation::{Allocation, AllocationState, Place},
    contract::NotifyAllocFlags,
    event::{ContentSource, Event, EvictReason},
    extents::Extents,
    gpu_va::{Mapping, TableKey},
    id::PlanNo,
    paging::{
        ApertureRange, Coming, IoMmuRange, Leaving, Notice, PageIn, PageOut, Plan, PlannedTable, PteRange, Retire,
        Stream, UnmapNotice,
    },
    pool::Pool,
    state::VidMm,
    units::{Extent, GpuVirtualAddress, PhysicalAddress},
};

/// A plan is cut when it moves this many bytes, so that paging and the work that waits for it overlap (D6).
const PLAN_BYTES: u64 = 32 << 20;

/// Plans being written for one decision: a plan is parked when it is full, and another begun.
#[derive(Default)]
pub(crate) struct Draft {
    plan: Plan,
    /// Something was decided under the number of `plan`: it must be parked, even if it needs no operation.
    decided: bool,
    parked: Vec<PlanNo>,
}

impl VidMm {
    /// Writes into `draft` that `index` becomes resident where its device's list counts it. There must be room, if all that is
    /// evictable there goes.
    pub(crate) fn plan_in(&mut self, draft: &mut Draft, index: u32) {
        self.cut_before(draft, index);
        let content = match self.allocations[index as usize].pool() {
            Pool::Memory => self.plan_into_memory(draft, index),
            Pool::System => {
                self.make_commit_room(draft, index);
                self.plan_into_system(draft, index)
            }
        };
        self.record_placed(index, content);
        if draft.plan.bytes() >= PLAN_BYTES {
            self.park_draft(draft);
        }
    }

    fn plan_into_memory(&mut self, draft: &mut Draft, index: u32) -> ContentSource {
        let Allocation { size, handle, backing_store, state, .. } = self.allocations[index as usize];
        let extents = Extents::from(self.take(draft, size));
        let backed = state.contains(AllocationState::BACKED);
        draft.plan.page_in.push(Coming::Memory(PageIn {
            handle,
            size,
            extents: extents.clone(),
            backing_store: backed.then_some(backing_store),
        }));
        self.place(draft, index, Place::Memory(extents));
        match backed {
            true => {
                self.statistics.bytes_paged_in += size;
                ContentSource::BackingStore
            }
            false => {
                self.statistics.bytes_filled += size;
                ContentSource::Fill
            }
        }
    }

    /// Its content is where its backing store is, and reads as zero if it never had any: nothing is filled (I24).
    fn plan_into_system(&mut self, draft: &mut Draft, index: u32) -> ContentSource {
        let Allocation { size, handle, backing_store, .. } = self.allocations[index as usize];
        let mut after = Vec::new();
        self.commit.take(size, &mut after);
        let place = match self.aperture.assigned(index) {
            None => Place::System,
            Some(range) => {
                self.aperture.show(index, range, &mut after);
                let offset = range.offset;
                draft.plan.page_in.push(Coming::Aperture(ApertureRange { handle, size, offset, backing_store }));
                Place::Aperture(offset)
            }
        };
        self.plan_after_all(draft, after);
        self.place(draft, index, place);
        ContentSource::InPlace
    }

    /// Notes the place of an allocation, and that its mappings show it there.
    fn place(&mut self, draft: &mut Draft, index: u32, place: Place) {
        let last_plan = self.allocations[index as usize].last_plan;
        follow(&self.stream, &mut draft.plan, last_plan);
        // What the host unmaps when that plan has retired is mapped again only then.
        if !self.adapter.has_page_tables() && !self.stream.is_retired(last_plan) {
            draft.plan.follow_retired(last_plan);
        }
        let number = self.stream.next_number();
        let allocation = &mut self.allocations[index as usize];
        allocation.place = Some(place);
        allocation.last_plan = number;
        draft.decided = true;
        for mapping in Vec::from_iter(self.allocations[index as usize].mappings()) {
            self.show_mapping(draft, index, mapping);
        }
    }

    /// An allocation is planned twice in one plan only to move it from one place to another: then no notification is given
    /// after its content has moved.
    fn cut_before(&mut self, draft: &mut Draft, index: u32) {
        let allocation = &self.allocations[index as usize];
        let is_in_draft = draft.decided && allocation.last_plan == self.stream.next_number();
        if is_in_draft && !(self.adapter.has_page_tables() && allocation.place.is_none()) {
            self.park_draft(draft);
        }
    }

    fn record_placed(&mut self, index: u32, content: ContentSource) {
        let (allocations, adapter) = (&self.allocations, &self.adapter);
        self.events.record(|| {
            let allocation = &allocations[index as usize];
            let (segment, extents) = allocation.location(adapter);
            Event::Placed {
                plan: allocation.last_plan,
                allocation: allocations.id(index as usize),
                segment,
                extents: extents.iter().collect(),
                content,
            }
        });
    }

    /// Writes into `draft` that a table of a process is placed, initialised and linked.
    pub(crate) fn plan_table(&mut self, draft: &mut Draft, process: u32, key: TableKey) {
        let size = key.segment_bytes(&self.adapter);
        let address = match self.processes[process as usize].tables.get_mut(key).address {
            Some(system) => system,
            None => PhysicalAddress { segment: self.adapter.memory_id(), offset: self.take_whole(draft, size).offset },
        };
        let number = self.stream.next_number();
        let books = &mut self.processes[process as usize];
        let table = books.tables.get_mut(key);
        (table.address, table.plan) = (Some(address), number);
        draft.plan.tables.push(PlannedTable { process, key });
        draft.decided = true;
        let adapter = &self.adapter;
        let process = self.processes.id(process as usize);
        self.events.record(|| Event::PageTablePlaced {
            plan: number,
            process,
            level: key.level,
            page_size: key.page_size,
            virtual_address: crate::GpuVirtualAddress(key.first_address(adapter)),
            address,
            size,
        });
    }

    /// Writes into `draft` that `index` leaves the place where it is resident, with its content if that is not in its backing
    /// store.
    pub(crate) fn plan_out(&mut self, draft: &mut Draft, index: u32, reason: EvictReason) {
        self.cut_before(draft, index);
        self.keep(index);
        let number = self.stream.next_number();
        let (segment, extents) = self.allocations[index as usize].location(&self.adapter);
        let allocation = &mut self.allocations[index as usize];
        follow(&self.stream, &mut draft.plan, allocation.last_plan);
        let device = &self.devices[allocation.device as usize];
        if allocation.entry.until > device.retired() {
            draft.plan.wait_for(allocation.device, allocation.entry.until);
        }
        for mapping in Vec::from_iter(self.allocations[index as usize].mappings()) {
            self.hide_mapping(draft, index, mapping);
        }
        let allocation = &mut self.allocations[index as usize];
        let place = allocation.place.take().expect("what leaves a segment is in it");
        let has_news = !allocation.is_dead() && allocation.state.contains(AllocationState::DIRTY);
        let copied = has_news && matches!(place, Place::Memory(_));
        if has_news {
            allocation.state |= AllocationState::BACKED;
            // What a driver would have put right in a notification is promoted as it is: it must be copied out again.
            let as_it_is =
                reason == EvictReason::Promoted && allocation.state.contains(AllocationState::NOTIFY_EVICTION);
            allocation.state.set(AllocationState::DIRTY, as_it_is);
        }
        allocation.state -= AllocationState::EVICT_SOON;
        allocation.last_plan = number;
        draft.decided = true;
        match place {
            Place::Memory(extents) => self.plan_out_of_memory(draft, index, extents, copied),
            Place::System => self.plan_out_of_system(draft, index, reason),
            Place::Aperture(offset) => {
                self.plan_out_of_system(draft, index, reason);
                self.plan_out_of_aperture(draft, index, offset);
            }
        }
        match reason {
            EvictReason::Destroyed => {}
            EvictReason::Promoted => self.statistics.promotions += 1,
            _ => self.statistics.evictions += 1,
        }
        let allocation = self.allocations.id(index as usize);
        self.events.record(|| Event::Evicted {
            plan: number,
            allocation,
            segment,
            extents: extents.iter().collect(),
            copied,
            reason,
        });
    }

    fn plan_out_of_memory(&mut self, draft: &mut Draft, index: u32, extents: Extents, copied: bool) {
        self.placer.promise(self.stream.next_number(), extents.iter());
        if !copied {
            return;
        }
        let Allocation { handle, size, backing_store, .. } = self.allocations[index as usize];
        draft.plan.out.push(Leaving::Memory(PageOut { handle, size, extents, backing_store }));
        self.statistics.bytes_paged_out += size;
        self.statistics.evictions_copied += 1;
    }

    /// The driver is notified, unless the content is discarded or moves to the memory segment (NTF-03, NTF-07, U-15).
    fn plan_out_of_system(&mut self, draft: &mut Draft, index: u32, reason: EvictReason) {
        let id = self.allocations.id(index as usize);
        let allocation = &self.allocations[index as usize];
        self.commit.promise(self.stream.next_number(), allocation.size);
        if allocation.is_dead() || reason == EvictReason::Promoted {
            return;
        }
        let notice = |flags| Notice {
            allocation: id,
            handle: allocation.handle,
            flags,
            size: allocation.size,
            backing_store: allocation.backing_store,
        };
        if allocation.state.contains(AllocationState::NOTIFY_EVICTION) {
            draft.plan.notify.push(notice(NotifyAllocFlags::EVICTION));
        }
        let as_eviction = self.adapter.revision == NotificationRevision::August2024;
        if as_eviction && allocation.state.contains(AllocationState::NOTIFY_IO_MMU_UNMAP) {
            draft.plan.notify.push(notice(NotifyAllocFlags::IO_MMU_UNMAP));
        }
    }

    fn plan_out_of_aperture(&mut self, draft: &mut Draft, index: u32, offset: u64) {
        let Allocation { handle, size, backing_store, .. } = self.allocations[index as usize];
        self.aperture.hide(self.stream.next_number(), Extent { offset, size });
        draft.plan.out.push(Leaving::Aperture(ApertureRange { handle, size, offset, backing_store }));
    }

    /// Writes into `draft` that a mapping shows its allocation where that is resident.
    fn show_mapping(&self, draft: &mut Draft, index: u32, mapping: Mapping) {
        let allocation = &self.allocations[index as usize];
        match self.io_mmu_range(index, &mapping) {
            Some(range) => draft.plan.io_mmu_map.push(range),
            None => {
                let (segment, extents) = allocation.location(&self.adapter);
                draft.plan.validate.push(PteRange { handle: allocation.handle, mapping, segment, extents });
            }
        }
    }

    /// Writes into `draft` that a mapping shows its allocation no longer. The driver is told before the host unmaps it from
    /// the IOMMU, whatever becomes of the content: it is about caches (U-15).
    fn hide_mapping(&self, draft: &mut Draft, index: u32, mapping: Mapping) {
        let allocation = &self.allocations[index as usize];
        let handle = allocation.handle;
        let Some(range) = self.io_mmu_range(index, &mapping) else {
            let (segment, extents) = allocation.location(&self.adapter);
            draft.plan.invalidate.push(PteRange { handle, mapping, segment, extents });
            return;
        };
        draft.plan.io_mmu_unmap.push(range);
        let is_current = self.adapter.revision == NotificationRevision::Current;
        if is_current && allocation.state.contains(AllocationState::NOTIFY_IO_MMU_UNMAP) {
            let process = self.processes[mapping.process as usize].handle;
            draft.plan.notify_unmap.push(UnmapNotice { handle, process, mapping });
        }
    }

    /// What the host maps for a mapping; none if the GPU has page tables.
    fn io_mmu_range(&self, index: u32, mapping: &Mapping) -> Option<IoMmuRange> {
        let domain = self.adapter.io_mmu_domain(self.processes[mapping.process as usize].handle)?;
        Some(IoMmuRange {
            domain,
            virtual_address: GpuVirtualAddress(mapping.virtual_address),
            size: mapping.size,
            system_offset: self.allocations[index as usize].backing_store + mapping.allocation_offset,
            read_only: mapping.read_only,
            allocation: self.allocations.id(index as usize),
            allocation_offset: mapping.allocation_offset,
            window: false,
        })
    }

    /// Writes into `draft` that a mapping shows its allocation, or no longer, with the allocation where it is.
    pub(crate) fn plan_entries(&mut self, draft: &mut Draft, index: u32, mapping: Mapping, valid: bool) {
        let number = self.stream.next_number();
        let allocation = &mut self.allocations[index as usize];
        follow(&self.stream, &mut draft.plan, allocation.last_plan);
        // Also without entries to write: whoever brings the allocation in writes them, and must follow the plan that
        // initialises their tables.
        if allocation.place.is_some() || draft.decided || !draft.plan.after.is_empty() {
            allocation.last_plan = number;
            draft.decided = true;
        }
        match (allocation.place.is_some(), valid) {
            (false, _) => {}
            (true, true) => self.show_mapping(draft, index, mapping),
            (true, false) => self.hide_mapping(draft, index, mapping),
        }
    }

    /// Makes `draft` wait for a submission, if it has not retired.
    pub(crate) fn plan_wait(&self, draft: &mut Draft, device: u32, submission: u64) {
        if submission > self.devices[device as usize].retired() {
            draft.plan.wait_for(device, submission);
        }
    }

    /// Makes `draft` follow a plan that has not entered the stream.
    pub(crate) fn plan_after(&self, draft: &mut Draft, plan: PlanNo) {
        follow(&self.stream, &mut draft.plan, plan);
    }

    /// Notes in `draft` what is to be done once it has retired.
    pub(crate) fn plan_retire(&self, draft: &mut Draft, retire: Retire) {
        draft.plan.retire.push(retire);
        draft.decided = true;
    }

    /// Parks what is left in `draft`. Returns the numbers of all its plans.
    pub(crate) fn finish(&mut self, mut draft: Draft) -> Vec<PlanNo> {
        if draft.decided {
            self.park_draft(&mut draft);
        }
        draft.parked
    }

    fn park_draft(&mut self, draft: &mut Draft) {
        let plan = core::mem::take(&mut draft.plan);
        draft.decided = false;
        let number = self.stream.next_number();
        let devices = &self.devices;
        self.events.record(|| Event::PlanDecided {
            plan: number,
            waits: plan.waits.iter().map(|&(device, last)| (devices.id(device as usize), last)).collect(),
            after: plan.after.iter().chain(&plan.after_retired).copied().collect(),
        });
        self.statistics.plans += 1;
        self.stream.park(plan);
        draft.parked.push(number);
    }

    /// Takes `bytes` of the memory segment, making victims until there is room.
    fn take(&mut self, draft: &mut Draft, bytes: u64) -> Vec<Extent> {
        while self.placer.available() < bytes {
            let (victim, reason) = self.next_victim(Pool::Memory);
            self.plan_out(draft, victim, reason);
            if self.can_be_demoted(victim) {
                self.demote(draft, victim);
            }
        }
        let mut after = Vec::new();
        let extents = self.placer.take(bytes, &mut after);
        self.plan_after_all(draft, after);
        extents
    }

    /// Makes victims until `index` fits under the commit limit, and its range of the aperture is free.
    fn make_commit_room(&mut self, draft: &mut Draft, index: u32) {
        if let Some(range) = self.aperture.assigned(index) {
            for occupant in Vec::from_iter(self.aperture.shown_in(range)) {
                self.plan_out(draft, occupant, EvictReason::RangeWanted);
            }
        }
        while self.commit.available() < self.allocations[index as usize].size {
            let (victim, reason) = self.next_victim(Pool::System);
            self.plan_out(draft, victim, reason);
        }
    }

    /// Who goes next, in the documented order (CRE-31a).
    fn next_victim(&self, pool: Pool) -> (u32, EvictReason) {
        let victim = self.evictable[pool].iter(&self.allocations).next();
        let victim = victim.expect("a decision is made only when what is evictable makes enough room");
        let is_dead = self.allocations[victim as usize].is_dead();
        (victim, if is_dead { EvictReason::Destroyed } else { EvictReason::RoomWanted })
    }

    /// Whether a victim of the memory segment stays resident in implicit system memory: where nobody must go for it.
    fn can_be_demoted(&self, index: u32) -> bool {
        let allocation = &self.allocations[index as usize];
        let may_be_there = allocation.state.contains(AllocationState::MAY_BE_IN_SYSTEM);
        may_be_there && !allocation.is_dead() && self.commit.available() >= allocation.size
    }

    /// A victim becomes resident in implicit system memory, in the plan that takes it out of the memory segment.
    fn demote(&mut self, draft: &mut Draft, index: u32) {
        let content = self.plan_into_system(draft, index);
        self.record_placed(index, content);
        self.statistics.demotions += 1;
        self.expose(index);
    }

    /// Makes `draft` follow those of `plans` that are not its own.
    fn plan_after_all(&self, draft: &mut Draft, plans: Vec<PlanNo>) {
        let number = self.stream.next_number();
        plans.into_iter().filter(|&plan| plan != number).for_each(|plan| draft.plan.follow(plan));
    }

    /// Takes one page of the segment for a table; adapter start refuses larger ones.
    fn take_whole(&mut self, draft: &mut Draft, bytes: u64) -> Extent {
        let [whole] = self.take(draft, bytes)[..] else { unreachable!("one page is one range") };
        whole
    }
}

/// Makes `plan` follow `before`, if that has not entered the stream.
fn follow(stream: &Stream, plan: &mut Plan, before: PlanNo) {
    if stream.is_parked(before) {
        plan.follow(before);
    }
}
