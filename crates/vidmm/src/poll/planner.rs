//! Writing plans: who comes in, who must go for it, and what that entails.

use alloc::vec::Vec;

use super::draft::{Draft, follow};
use crate::{
    adapter::NotificationRevision,
    allocation::{Allocation, AllocationState},
    contract::NotifyAllocFlags,
    event::{ContentSource, Event, EvictReason},
    extents::Extents,
    gpu_va::TableKey,
    id::{AllocationIx, ProcessIx},
    paging::{ApertureRange, Coming, Leaving, Notice, PageIn, PageOut, PlannedTable},
    place::{PageOffset, Place},
    planted::PlantedBug,
    pool::Pool,
    state::VidMm,
    units::{Extent, GpuVirtualAddress, PAGE_SIZE_64K, PhysicalAddress},
};

impl VidMm {
    /// Writes into `draft` that `index` becomes resident where its device's list counts it. There must be room, if all that is
    /// evictable there goes.
    pub(crate) fn plan_in(&mut self, draft: &mut Draft, index: AllocationIx) {
        self.cut_before(draft, index);
        let content = match self.allocations[index].pool() {
            Pool::Memory => self.plan_into_memory(draft, index),
            Pool::System => {
                self.make_commit_room(draft, index);
                self.plan_into_system(draft, index)
            }
        };
        self.record_placed(index, content);
        self.park_if_full(draft);
    }

    fn plan_into_memory(&mut self, draft: &mut Draft, index: AllocationIx) -> ContentSource {
        let Allocation { size, handle, backing_store, state, .. } = self.allocations[index];
        let mut extents = match self.adapter.is_physical() {
            false => self.take(draft, size),
            true => Extents::one(self.take_assigned(draft, index)),
        };
        if self.adapter.has_bug(PlantedBug::MisplaceByAPage) {
            extents = extents
                .iter()
                .map(|extent| Extent { offset: extent.offset + PAGE_SIZE_64K, ..extent })
                .collect::<Vec<_>>()
                .into();
        }
        let backed = state.contains(AllocationState::BACKED) && !self.adapter.has_bug(PlantedBug::FillContent);
        if backed || !self.adapter.has_bug(PlantedBug::SkipFill) {
            draft.plan.copy_in(PageIn {
                handle,
                size,
                extents: extents.clone(),
                backing_store: backed.then_some(backing_store),
                is_as_left: state.contains(AllocationState::DIRTY),
            });
        }
        let place = self.allocations[index].place_in_memory(&extents);
        self.place(draft, index, place);
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

    /// Takes the range of the linear memory segment that a portion's decision has assigned to an allocation.
    fn take_assigned(&mut self, draft: &mut Draft, index: AllocationIx) -> Extent {
        let patched = self.patched.get_mut(&index);
        let range = patched.and_then(|patched| patched.assigned.take()).expect("it was decided where it goes");
        let linear = self.placer.linear();
        linear.take(range).expect("it was decided that it is free");
        let mut after = Vec::new();
        linear.follow(range, &mut after);
        self.plan_after_all(draft, after);
        range
    }

    /// Its content is where its backing store is, and reads as zero if it never had any: nothing is filled (I24).
    pub(super) fn plan_into_system(&mut self, draft: &mut Draft, index: AllocationIx) -> ContentSource {
        let Allocation { size, handle, backing_store, .. } = self.allocations[index];
        let mut after = Vec::new();
        self.commit.take(size, &mut after);
        let place = match self.aperture.assigned(index) {
            None => Place::System,
            Some(range) => {
                self.aperture.show(index, range, &mut after);
                let offset = range.offset;
                draft.plan.page_in.push(Coming::Aperture(ApertureRange { handle, size, offset, backing_store }));
                Place::Aperture(PageOffset::of_bytes(offset))
            }
        };
        self.plan_after_all(draft, after);
        self.place(draft, index, place);
        ContentSource::InPlace
    }

    /// Notes the place of an allocation, and that its mappings show it there.
    fn place(&mut self, draft: &mut Draft, index: AllocationIx, place: Place) {
        let last_plan = self.allocations[index].last_plan;
        follow(&self.stream, &mut draft.plan, last_plan);
        // What the host unmaps when that plan has retired is mapped again only then.
        if self.adapter.is_behind_io_mmu() && !self.stream.is_retired(last_plan) {
            draft.plan.follow_retired(last_plan);
        }
        // Until its backing store is reset, that holds what was discarded.
        if let Some(&discard) = self.discards.get(&index) {
            draft.plan.follow_retired(discard);
        }
        let number = self.stream.next_number();
        let allocation = &mut self.allocations[index];
        self.processes[allocation.process].standing.usage[place.pool()] += allocation.size;
        allocation.place = Some(place);
        allocation.state -= AllocationState::LOCK_PENDING;
        allocation.last_plan = number;
        draft.decided = true;
        for mapping in Vec::from_iter(self.allocations[index].mappings()) {
            self.show_mapping(draft, index, mapping);
        }
        self.plan_view(draft, index);
    }

    pub(super) fn record_placed(&mut self, index: AllocationIx, content: ContentSource) {
        let (allocations, adapter) = (&self.allocations, &self.adapter);
        self.events.record(|| {
            let allocation = &allocations[index];
            let (segment, extents) = allocation.location(adapter);
            Event::Placed {
                plan: allocation.last_plan,
                allocation: allocations.id(index),
                segment,
                extents: extents.iter().collect(),
                content,
            }
        });
    }

    /// Writes into `draft` that a table of a process is placed, initialised and linked.
    pub(crate) fn plan_table(&mut self, draft: &mut Draft, process: ProcessIx, key: TableKey) {
        let size = key.segment_bytes(&self.adapter);
        let address = match self.processes[process].tables.get_mut(key).address {
            Some(system) => system,
            None => PhysicalAddress { segment: self.adapter.memory_id(), offset: self.take_whole(draft, size).offset },
        };
        self.processes[process].tables.get_mut(key).address = Some(address);
        // What its parent's entry pointed to before may still be on its way out.
        let parent = key.parent(&self.adapter).and_then(|(parent, _)| self.processes[process].tables.get(parent));
        if let Some(unlinked) = parent.map(|parent| parent.unlinked) {
            self.plan_after(draft, unlinked);
        }
        let number = self.stream.next_number();
        self.plan_table_content(draft, process, key);
        let adapter = &self.adapter;
        let process = self.processes.id(process);
        self.events.record(|| Event::PageTablePlaced {
            plan: number,
            process,
            level: key.level,
            page_size: key.page_size,
            virtual_address: GpuVirtualAddress(key.first_address(adapter)),
            address,
            size,
        });
    }

    /// Writes into `draft` that a table that has its place is initialised and linked.
    pub(super) fn plan_table_content(&mut self, draft: &mut Draft, process: ProcessIx, key: TableKey) {
        let table = self.processes[process].tables.get_mut(key);
        (table.plan, table.initialised) = (self.stream.next_number(), false);
        draft.plan.tables.push(PlannedTable { process, key });
        draft.decided = true;
    }

    /// Writes into `draft` that `index` leaves the place where it is resident, with its content if that is not in its backing
    /// store.
    pub(crate) fn plan_out(&mut self, draft: &mut Draft, index: AllocationIx, reason: EvictReason) {
        self.cut_before(draft, index);
        self.keep(index);
        let number = self.stream.next_number();
        let (segment, extents) = self.allocations[index].location(&self.adapter);
        let allocation = &self.allocations[index];
        follow(&self.stream, &mut draft.plan, allocation.last_plan);
        for (device, entry) in allocation.entries() {
            let books = &self.devices[device];
            let waits = !self.adapter.has_bug(PlantedBug::MoveInUse);
            // Nothing of a suspended device is in flight, and what it has queued is not dispatched before it is resumed. Nor is
            // anything of a device that holds what moves: what it has queued waits for the move.
            if waits && !books.is_suspended() && !entry.is_holding() && entry.until() > books.retired() {
                draft.plan.wait_for(device, entry.until());
            }
        }
        let hidden = if self.adapter.has_bug(PlantedBug::ForgetAliases) { 1 } else { usize::MAX };
        for mapping in Vec::from_iter(self.allocations[index].mappings().take(hidden)) {
            self.hide_mapping(draft, index, mapping);
        }
        let (discarded, worthless) = (self.is_discardable(index), self.is_worthless(index));
        let allocation = &mut self.allocations[index];
        let place = allocation.take_place().expect("what leaves a segment is in it");
        if !self.adapter.has_bug(PlantedBug::KeepUsage) {
            self.processes[allocation.process].standing.usage[place.pool()] -= allocation.size;
        }
        let has_news = !worthless && allocation.state.contains(AllocationState::DIRTY);
        let copied = has_news && matches!(place, Place::Memory(_)) && !self.adapter.has_bug(PlantedBug::SkipCopyOut);
        if has_news {
            allocation.state |= AllocationState::BACKED;
            // What a driver would have put right in a notification is promoted as it is: it must be copied out again.
            let as_it_is =
                reason == EvictReason::Promoted && allocation.state.contains(AllocationState::NOTIFY_EVICTION);
            allocation.state.set(AllocationState::DIRTY, as_it_is);
        }
        allocation.state -= AllocationState::EVICT_SOON;
        // What is required comes in again, where the CPU sees it.
        if !allocation.is_required() {
            allocation.state -= AllocationState::LOCK_PENDING;
        }
        allocation.last_plan = number;
        draft.decided = true;
        match place {
            Place::Memory(_) => self.plan_out_of_memory(draft, index, extents.clone(), copied),
            Place::System => self.plan_out_of_system(draft, index, reason, has_news),
            Place::Aperture(offset) => {
                self.plan_out_of_system(draft, index, reason, has_news);
                self.plan_out_of_aperture(draft, index, offset.bytes());
            }
        }
        self.plan_view(draft, index);
        if discarded {
            self.plan_discard(draft, index);
        }
        match reason {
            EvictReason::Destroyed => {}
            EvictReason::Promoted => self.statistics.promotions += 1,
            _ => self.statistics.evictions += 1,
        }
        let allocation = self.allocations.id(index);
        let wanted_by = draft.wanted_by.filter(|_| reason.is_for_room()).map(|device| self.device_id(device));
        self.events.record(|| Event::Evicted {
            plan: number,
            allocation,
            segment,
            extents: extents.iter().collect(),
            copied,
            reason,
            discarded,
            wanted_by,
        });
    }

    fn plan_out_of_memory(&mut self, draft: &mut Draft, index: AllocationIx, extents: Extents, copied: bool) {
        self.placer.promise(self.stream.next_number(), extents.iter());
        if self.adapter.has_bug(PlantedBug::NotifyFromLocal) {
            let Allocation { handle, size, backing_store, .. } = self.allocations[index];
            let (allocation, flags) = (self.allocations.id(index), NotifyAllocFlags::EVICTION);
            draft.plan.notify(Notice { allocation, handle, flags, has_news: copied, size, backing_store });
        }
        if !copied {
            self.plan_discard_content(draft, index, &extents);
            return;
        }
        let Allocation { handle, size, backing_store, .. } = self.allocations[index];
        let through_aperture = self.lend_aperture(index);
        draft.plan.copy_out(PageOut { handle, size, extents, backing_store, through_aperture });
        self.statistics.bytes_paged_out += size;
        self.statistics.evictions_copied += 1;
    }

    /// The range of the aperture through which an allocation leaves, if its driver wants that and there is one (SEG-45).
    fn lend_aperture(&mut self, index: AllocationIx) -> Option<u64> {
        let wants = self.patched.get(&index).is_some_and(|patched| patched.leaves_through_aperture);
        let size = self.allocations[index].size;
        let is_possible = wants && size <= self.commit.available();
        let range = is_possible.then(|| self.aperture.lend(self.stream.next_number(), size)).flatten();
        range.map(|range| range.offset)
    }

    /// Without GPU virtual addresses the driver is told that content is left behind, unless its allocation was destroyed (U-13).
    fn plan_discard_content(&self, draft: &mut Draft, index: AllocationIx, extents: &Extents) {
        if !self.adapter.is_physical() || self.is_dead(index) {
            return;
        }
        let handle = self.allocations[index].handle;
        draft.plan.out.extend(extents.iter().map(|extent| Leaving::Discarded { handle, offset: extent.offset }));
    }

    /// The driver is notified, unless the content is discarded or moves to the memory segment (NTF-03, NTF-07, U-15).
    fn plan_out_of_system(&mut self, draft: &mut Draft, index: AllocationIx, reason: EvictReason, has_news: bool) {
        let id = self.allocations.id(index);
        let allocation = &self.allocations[index];
        self.commit.promise(self.stream.next_number(), allocation.size);
        if self.is_worthless(index) || reason == EvictReason::Promoted {
            return;
        }
        let notice = |flags| Notice {
            allocation: id,
            handle: allocation.handle,
            flags,
            has_news,
            size: allocation.size,
            backing_store: allocation.backing_store,
        };
        let wants = allocation.state.contains(AllocationState::NOTIFY_EVICTION);
        if wants && !self.adapter.has_bug(PlantedBug::SkipNotice) {
            draft.plan.notify(notice(NotifyAllocFlags::EVICTION));
        }
        if wants && self.adapter.has_bug(PlantedBug::NotifyTwice) {
            draft.plan.notify(notice(NotifyAllocFlags::EVICTION));
        }
        let as_eviction = self.adapter.revision == NotificationRevision::August2024;
        if as_eviction && allocation.state.contains(AllocationState::NOTIFY_IO_MMU_UNMAP) {
            draft.plan.notify(notice(NotifyAllocFlags::IO_MMU_UNMAP));
        }
    }

    fn plan_out_of_aperture(&mut self, draft: &mut Draft, index: AllocationIx, offset: u64) {
        let Allocation { handle, size, backing_store, .. } = self.allocations[index];
        self.aperture.hide(self.stream.next_number(), Extent { offset, size });
        if !self.adapter.has_bug(PlantedBug::KeepAperture) {
            draft.plan.out.push(Leaving::Aperture(ApertureRange { handle, size, offset, backing_store }));
        }
    }
}
