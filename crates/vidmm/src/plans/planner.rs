//! Writing plans: who comes in, who must go for it, and what that entails.

use alloc::vec::Vec;

use crate::{
    adapter::{Adapter, NotificationRevision},
    budget::account::Account,
    contract::{NotifyAllocFlags, NotifyResidency},
    data::extents::Extents,
    event::{ContentSource, Event, EvictReason, WantedBy},
    gpu_va::TableKey,
    id::{AllocationIx, ProcessIx},
    memory::Memory,
    objects::{
        Objects,
        allocation::{AllocationState, Store},
        place::{PageOffset, Place},
    },
    plans::{
        ApertureRange, Coming, InMemory, Leaving, Notice, PageIn, PageOut, Plans, ProcessTable, draft::Draft, mappings,
        views,
    },
    state::State,
    units::{Extent, GpuVirtualAddress, PhysicalAddress, SegmentId},
};
impl Plans {
    /// Writes into `draft` that `index` becomes resident where its device's list counts it. There must be room, if all that is
    /// evictable there goes.
    pub(crate) fn plan_in(&mut self, state: &mut State, draft: &mut Draft, index: AllocationIx) {
        self.cut_before(state, draft, index);
        draft.make_room_for(Some(index));
        let content = match state.objects[index].account() {
            Account::SYSTEM => {
                self.make_commit_room(state, draft, index);
                self.plan_into_system(state, draft, index)
            }
            account => self.plan_into_memory(state, draft, account, index),
        };
        draft.make_room_for(None);
        record_placed(state, index, content);
        self.park_if_full(&mut state.moment, &state.objects, draft);
    }

    fn plan_into_memory(
        &mut self,
        state: &mut State,
        draft: &mut Draft,
        account: Account,
        index: AllocationIx,
    ) -> ContentSource {
        let allocation = &state.objects[index];
        let (store, content) = (allocation.store(), allocation.state());
        let Store { handle, size, .. } = store;
        let is_assigned = state.objects[index].patched().is_some_and(|patched| patched.coming_at.is_some());
        let assigned = is_assigned.then(|| state.objects[index].patched_mut().coming_at.take()).flatten();
        let extents = match assigned {
            None => self.take(state, draft, account, size),
            Some(range) => {
                let mut after = Vec::new();
                state.memory.placers[account].take_at(range, &mut after);
                self.plan_after_all(draft, after);
                Extents::one(range)
            }
        };
        let is_backed = content.contains(AllocationState::BACKED);
        let to = InMemory { account, extents: extents.clone(), store };
        let physical_address = to.address(&state.adapter);
        draft.plan.copy_in(PageIn { to, is_backed, is_as_left: content.contains(AllocationState::DIRTY) });
        if content.contains(AllocationState::NOTIFY_RESIDENCY) {
            draft.plan.page_in.push(Coming::Told(NotifyResidency {
                allocation: handle,
                physical_address,
                resident: true,
            }));
        }
        let place = state.objects[index].place_in_memory(account, &extents);
        self.place(state, draft, index, place);
        match is_backed {
            true => {
                state.moment.statistics_mut().bytes_paged_in += size;
                state.objects.count(index, account, |traffic| traffic.bytes_paged_in += size);
                ContentSource::BackingStore
            }
            false => {
                state.moment.statistics_mut().bytes_filled += size;
                state.objects.count(index, account, |traffic| traffic.bytes_filled += size);
                ContentSource::Fill
            }
        }
    }

    /// Its content is where its backing store is, and reads as zero if it never had any: nothing is filled (I24).
    pub(crate) fn plan_into_system(&self, state: &mut State, draft: &mut Draft, index: AllocationIx) -> ContentSource {
        let store = state.objects[index].store();
        let mut after = Vec::new();
        state.memory.commit.charge(store.size, &mut after);
        let place = match state.memory.aperture.assigned(index) {
            None => Place::System,
            Some(range) => {
                state.memory.aperture.show(index, range, &mut after);
                let offset = range.offset;
                draft.plan.page_in.push(Coming::Aperture(ApertureRange { store, offset }));
                Place::Aperture(PageOffset::of_bytes(offset))
            }
        };
        self.plan_after_all(draft, after);
        self.place(state, draft, index, place);
        ContentSource::InPlace
    }

    /// Notes the place of an allocation, and that its mappings show it there.
    pub(crate) fn place(&self, state: &mut State, draft: &mut Draft, index: AllocationIx, place: Place) {
        let State { adapter, objects, shares, .. } = state;
        let last_plan = objects[index].last_plan;
        self.plan_after(draft, last_plan);
        // The host maps a range again only when the plan has retired that unmaps it.
        if adapter.is_behind_io_mmu() && !self.stream.is_retired(last_plan) {
            draft.plan.follow_retired(last_plan);
        }
        // Until its backing store is reset, that has what was discarded.
        if let Some(discard) = objects[index].discarded_by() {
            draft.plan.follow_retired(discard);
        }
        let number = self.stream.next_number();
        let allocation = &mut objects.allocations[index];
        shares.by_account[place.account()].add_usage(allocation.process, allocation.size);
        allocation.come(place, number);
        draft.decided = true;
        for mapping in objects[index].mappings() {
            mappings::show_mapping(adapter, objects, draft, index, mapping);
        }
        views::plan_view(adapter, objects, draft, index, place);
    }

    /// Writes into `draft` that a table of a process is placed, initialised and linked.
    pub(crate) fn plan_table(&mut self, state: &mut State, draft: &mut Draft, process: ProcessIx, key: TableKey) {
        let account = state.adapter.tables_in;
        let size = state.adapter.table_bytes_in(account);
        let address = match state.objects[process].tables.get_mut(key).address {
            Some(system) => system,
            None => {
                let offset = self.take_for_table(state, draft, account, size).offset;
                PhysicalAddress { segment: state.adapter.memory_id(account), offset }
            }
        };
        state.objects[process].tables.get_mut(key).address = Some(address);
        // The table that its parent's entry pointed to before may still be on its way out.
        let parent = key.parent(&state.adapter).and_then(|parent| state.objects[process].tables.get(parent));
        if let Some(unlinked) = parent.map(|parent| parent.unlinked) {
            self.plan_after(draft, unlinked);
        }
        let number = self.stream.next_number();
        self.plan_table_content(&mut state.objects, draft, process, key);
        let adapter = &state.adapter;
        let process = state.objects.processes.id(process);
        state.moment.record(|| Event::PageTablePlaced {
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
    pub(crate) fn plan_table_content(
        &self,
        objects: &mut Objects,
        draft: &mut Draft,
        process: ProcessIx,
        key: TableKey,
    ) {
        let table = objects[process].tables.get_mut(key);
        (table.plan, table.initialised) = (self.stream.next_number(), false);
        draft.plan.tables.push(ProcessTable { process, key });
        draft.decided = true;
    }

    /// Writes into `draft` that `index` leaves the place where it is resident, with its content if that is not in its backing
    /// store.
    pub(crate) fn plan_out(&mut self, state: &mut State, draft: &mut Draft, index: AllocationIx, reason: EvictReason) {
        self.cut_before(state, draft, index);
        state.residency.remove_candidate(&mut state.objects, index);
        let number = self.stream.next_number();
        let allocation = &state.objects[index];
        let (segment, extents) = allocation.location(&state.adapter);
        self.plan_after(draft, allocation.last_plan);
        for (device, entry) in allocation.entries() {
            let record = &state.objects[device];
            // Nothing of a suspended device is in flight, and what it has queued is not dispatched before it is resumed. Nor is
            // anything of a device that pins what moves: what it has queued waits for the move.
            if !record.is_suspended() && !entry.is_pinning() && entry.until() > record.retired() {
                draft.plan.wait_for(device, entry.until());
            }
        }
        for mapping in allocation.mappings() {
            mappings::hide_mapping(&state.adapter, &state.objects, draft, index, mapping);
        }
        let worthless = state.objects.is_worthless(index);
        let allocation = &mut state.objects.allocations[index];
        let (discarded, size) = (worthless && allocation.is(AllocationState::OFFERED), allocation.size);
        let (place, has_news) = allocation.leave(number, worthless, reason == EvictReason::Promoted);
        state.shares.by_account[place.account()].subtract_usage(allocation.process, allocation.size);
        state.residency.note_left(&state.adapter, &state.objects, place.account(), index);
        let copied = has_news && matches!(place, Place::Memory(..));
        draft.decided = true;
        match place {
            Place::Memory(account, _) => {
                self.plan_out_of_memory(state, draft, account, index, extents.clone(), copied);
            }
            Place::System => self.plan_out_of_system(state, draft, index, reason, has_news),
            Place::Aperture(offset) => {
                self.plan_out_of_system(state, draft, index, reason, has_news);
                let (store, offset) = (state.objects[index].store(), offset.bytes());
                state.memory.aperture.hide(number, Extent { offset, size: store.size });
                draft.plan.out.push(Leaving::Aperture(ApertureRange { store, offset }));
            }
        }
        views::plan_view(&state.adapter, &mut state.objects, draft, index, place);
        if discarded {
            self.plan_discard(&mut state.moment, &mut state.objects, draft, index);
        }
        state.objects.count(index, place.account(), |traffic| traffic.evict(reason, size));
        match reason {
            EvictReason::Destroyed => {}
            EvictReason::Promoted => state.moment.statistics_mut().promotions += 1,
            _ => state.moment.statistics_mut().evictions += 1,
        }
        let allocation = state.objects.allocations.id(index);
        let objects = &state.objects;
        let wanted_by = draft.wanted_by.filter(|_| reason.is_for_room()).map(|wanted| WantedBy {
            device: objects.device_id(wanted.device),
            request: wanted.request,
            allocation: wanted.allocation.map(|index| objects.allocation_id(index)),
        });
        state.moment.record(|| Event::Evicted {
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

    fn plan_out_of_memory(
        &self,
        state: &mut State,
        draft: &mut Draft,
        account: Account,
        index: AllocationIx,
        extents: Extents,
        copied: bool,
    ) {
        state.memory.placers[account].promise(self.stream.next_number(), extents.iter());
        let allocation = &state.objects[index];
        let store = allocation.store();
        let Store { handle, size, .. } = store;
        if allocation.is(AllocationState::NOTIFY_RESIDENCY) {
            let nowhere = PhysicalAddress { segment: SegmentId::SYSTEM, offset: 0 };
            let leaves = NotifyResidency { allocation: handle, physical_address: nowhere, resident: false };
            draft.plan.out.push(Leaving::Told(leaves));
        }
        if !copied {
            plan_discard_content(&state.adapter, &state.objects, draft, account, index, &extents);
            return;
        }
        let through_aperture = self.lend_aperture(&state.objects, &mut state.memory, index);
        draft.plan.copy_out(PageOut { from: InMemory { account, extents, store }, through_aperture });
        state.moment.statistics_mut().bytes_paged_out += size;
        state.objects.count(index, account, |traffic| traffic.bytes_paged_out += size);
        state.moment.statistics_mut().evictions_copied += 1;
    }

    /// The range of an aperture through which an allocation leaves, if its driver wants that and there is one (SEG-45).
    fn lend_aperture(&self, objects: &Objects, memory: &mut Memory, index: AllocationIx) -> Option<u64> {
        let size = objects[index].size;
        let wanted = objects[index].patched().map(|patched| patched.leaves_through).unwrap_or_default();
        let mut apertures = wanted.into_iter().filter(|_| size <= memory.commit.available());
        let range = apertures.find_map(|home| memory.aperture.lend(self.stream.next_number(), size, home));
        range.map(|range| range.offset)
    }

    /// The driver is notified, unless the content is discarded or moves to a memory segment (NTF-03, NTF-07, U-15).
    fn plan_out_of_system(
        &self,
        state: &mut State,
        draft: &mut Draft,
        index: AllocationIx,
        reason: EvictReason,
        has_news: bool,
    ) {
        let id = state.objects.allocations.id(index);
        let allocation = &state.objects[index];
        state.memory.commit.promise(self.stream.next_number(), allocation.size);
        if state.objects.is_worthless(index) || reason == EvictReason::Promoted {
            return;
        }
        let notice = |flags| Notice { allocation: id, store: allocation.store(), flags, has_news };
        if allocation.is(AllocationState::NOTIFY_EVICTION) {
            draft.plan.notify(notice(NotifyAllocFlags::EVICTION));
        }
        let as_eviction = state.adapter.revision == NotificationRevision::August2024;
        if as_eviction && allocation.is(AllocationState::NOTIFY_IO_MMU_UNMAP) {
            draft.plan.notify(notice(NotifyAllocFlags::IO_MMU_UNMAP));
        }
    }
}

pub(crate) fn record_placed(state: &mut State, index: AllocationIx, content: ContentSource) {
    let place = state.objects[index].place.expect("it has got a place");
    state.residency.note_came(&state.adapter, &state.objects, place.account(), index);
    if content != ContentSource::InPlace {
        state.moment.statistics_mut().page_ins += 1;
    }
    let (allocations, adapter) = (&state.objects.allocations, &state.adapter);
    state.moment.record(|| {
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

/// Without GPU virtual addresses the driver is told that content is left behind, unless its allocation was destroyed (U-13).
fn plan_discard_content(
    adapter: &Adapter,
    objects: &Objects,
    draft: &mut Draft,
    account: Account,
    index: AllocationIx,
    extents: &Extents,
) {
    if !adapter.is_physical() || objects.is_dead(index) {
        return;
    }
    let handle = objects[index].handle;
    draft.plan.out.extend(extents.iter().map(|extent| Leaving::Discarded { account, handle, offset: extent.offset }));
}
