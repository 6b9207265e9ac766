//! Writing plans: who comes in, who must go for it, and what that entails.

use alloc::vec::Vec;

use crate::{
    allocation::AllocationState,
    event::{ContentSource, Event, EvictReason},
    extents::Extents,
    gpu_va::TableKey,
    id::PlanNo,
    paging::{PageIn, PageOut, Plan, PlannedTable, PteRange, Retire, Stream},
    state::VidMm,
    units::{Extent, PhysicalAddress},
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
    /// Writes into `draft` that `index` is brought into the segment. There must be room, if all that is evictable goes.
    pub(crate) fn plan_in(&mut self, draft: &mut Draft, index: u32) {
        let (size, handle) = {
            let allocation = &self.allocations[index as usize];
            (allocation.size, allocation.handle)
        };
        let extents = Extents::from(self.take(draft, size));
        let number = self.stream.next_number();
        let allocation = &mut self.allocations[index as usize];
        let backed = allocation.state.contains(AllocationState::BACKED);
        let page_in = PageIn {
            handle,
            size,
            extents: extents.clone(),
            backing_store: backed.then_some(allocation.backing_store),
        };
        draft.plan.page_in.push(page_in);
        let entries = |mapping| PteRange { handle, mapping, extents: extents.clone() };
        draft.plan.validate.extend(allocation.mappings().map(entries));
        follow(&self.stream, &mut draft.plan, allocation.last_plan);
        allocation.place = Some(extents);
        allocation.last_plan = number;
        draft.decided = true;
        match backed {
            true => self.statistics.bytes_paged_in += size,
            false => self.statistics.bytes_filled += size,
        }
        let allocations = &self.allocations;
        self.events.record(|| {
            let allocation = &allocations[index as usize];
            Event::Placed {
                plan: number,
                allocation: allocations.id(index as usize),
                segment: self.adapter.memory.id,
                extents: allocation.place.iter().flat_map(|place| place.iter()).collect(),
                content: if backed { ContentSource::BackingStore } else { ContentSource::Fill },
            }
        });
        if draft.plan.bytes() >= PLAN_BYTES {
            self.park_draft(draft);
        }
    }

    /// Writes into `draft` that a table of a process is placed, initialised and linked.
    pub(crate) fn plan_table(&mut self, draft: &mut Draft, process: u32, key: TableKey) {
        let size = key.segment_bytes(&self.adapter);
        let address = match self.processes[process as usize].tables.get_mut(key).address {
            Some(system) => system,
            None => PhysicalAddress { segment: self.adapter.memory.id, offset: self.take_whole(draft, size).offset },
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

    /// Writes into `draft` that `index` leaves the segment, with its content if that is not in its backing store.
    pub(crate) fn plan_out(&mut self, draft: &mut Draft, index: u32, reason: EvictReason) {
        self.evictable.remove(&mut self.allocations, index);
        let number = self.stream.next_number();
        let allocation = &mut self.allocations[index as usize];
        let extents = allocation.place.take().expect("what leaves the segment is in it");
        let plan = &mut draft.plan;
        let entries = |mapping| PteRange { handle: allocation.handle, mapping, extents: extents.clone() };
        plan.invalidate.extend(allocation.mappings().map(entries));
        follow(&self.stream, plan, allocation.last_plan);
        let device = &self.devices[allocation.device as usize];
        if allocation.entry.until > device.retired() {
            plan.wait_for(allocation.device, allocation.entry.until);
        }
        let copied = !allocation.is_dead() && allocation.state.contains(AllocationState::DIRTY);
        if copied {
            plan.out.push(PageOut {
                handle: allocation.handle,
                size: allocation.size,
                extents: extents.clone(),
                backing_store: allocation.backing_store,
            });
            allocation.state |= AllocationState::BACKED;
            allocation.state -= AllocationState::DIRTY;
            self.statistics.bytes_paged_out += allocation.size;
            self.statistics.evictions_copied += 1;
        }
        allocation.state -= AllocationState::EVICT_SOON;
        allocation.last_plan = number;
        draft.decided = true;
        if reason != EvictReason::Destroyed {
            self.statistics.evictions += 1;
        }
        self.placer.promise(number, extents.iter());
        let allocation = self.allocations.id(index as usize);
        self.events.record(|| Event::Evicted {
            plan: number,
            allocation,
            segment: self.adapter.memory.id,
            extents: extents.iter().collect(),
            copied,
            reason,
        });
    }

    /// Writes into `draft` that the entries of a mapping become invalid, or valid, with the allocation where it is.
    pub(crate) fn plan_entries(&mut self, draft: &mut Draft, index: u32, mapping: crate::gpu_va::Mapping, valid: bool) {
        let number = self.stream.next_number();
        let allocation = &mut self.allocations[index as usize];
        follow(&self.stream, &mut draft.plan, allocation.last_plan);
        // Also without entries to write: whoever brings the allocation in writes them, and must follow the plan that
        // initialises their tables.
        if allocation.place.is_some() || draft.decided || !draft.plan.after.is_empty() {
            allocation.last_plan = number;
            draft.decided = true;
        }
        let Some(extents) = allocation.place.clone() else { return };
        let entries = PteRange { handle: allocation.handle, mapping, extents };
        match valid {
            true => draft.plan.validate.push(entries),
            false => draft.plan.invalidate.push(entries),
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
            after: plan.after.clone(),
        });
        self.statistics.plans += 1;
        self.stream.park(plan);
        draft.parked.push(number);
    }

    /// Takes `bytes` of the segment, making victims until there is room.
    fn take(&mut self, draft: &mut Draft, bytes: u64) -> Vec<Extent> {
        while self.placer.available() < bytes {
            let victim = self.evictable.iter(&self.allocations).next();
            let victim = victim.expect("a decision is made only when what is evictable makes enough room");
            let is_dead = self.allocations[victim as usize].is_dead();
            let reason = if is_dead { EvictReason::Destroyed } else { EvictReason::RoomWanted };
            self.plan_out(draft, victim, reason);
        }
        let number = self.stream.next_number();
        let mut after = Vec::new();
        let extents = self.placer.take(bytes, &mut after);
        after.into_iter().filter(|&plan| plan != number).for_each(|plan| draft.plan.follow(plan));
        extents
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
