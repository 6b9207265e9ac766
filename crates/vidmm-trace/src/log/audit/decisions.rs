//! Decisions: who goes where, and when plans enter and retire (I01, I02, I03, I17, D5, SEG-50).

use vidmm::contract::AllocationFlags2;
use vidmm::event::{ContentSource, EvictReason};
use vidmm::{AllocationId, DeviceId, Extent, PAGE_SIZE, PhysicalAddress, PlanNo, ProcessId, SegmentId};

use super::Audit;
use super::allocation::{Mapping, Place};
use super::finding::Invariant;
use super::list_entry::{ListEntry, Span, Writes};
use super::plans::{Arrival, Stage, Victim};
use super::roots::Root;
use super::tables::Table;

impl Audit {
    /// A plan takes an allocation out of `left`.
    pub(super) fn evicted(
        &mut self,
        id: AllocationId,
        left: Place,
        copied: bool,
        reason: EvictReason,
        discarded: bool,
    ) {
        let plan = left.plan;
        self.check_not_required(plan, id, reason);
        self.check_move(id, left.segment, reason);
        self.check_not_kept(id);
        self.check_discard(id, reason, copied, discarded);
        let wanted = self.is_wanted(id);
        let Some(allocation) = self.allocations.get_mut(&id) else { return };
        let place = allocation.decided.take();
        let is_there = |place: &Place| (place.segment, &place.extents) == (left.segment, &left.extents);
        self.findings.check(place.as_ref().is_some_and(is_there), Invariant::I03, || {
            format!("{id} leaves {:?} of segment {}, which is not its place", left.extents, left.segment.0)
        });
        let in_place = self.places.in_system_memory(left.segment);
        // Places where the CPU may write.
        if allocation.cpu_view.as_ref().is_some_and(|view| !view.shown.0.is_system()) {
            allocation.writes.add(Writes::BY_CPU);
        }
        allocation.stop_cleaning();
        let Writes { certain, possible } = allocation.writes;
        let lost = certain && !copied && wanted && !in_place;
        self.findings.check(!lost, Invariant::I02, || format!("{id} was written, but is not copied out"));
        self.findings.check(possible || !copied, Invariant::Res22, || {
            format!("{id} is copied out, but has no write that the backing store lacks")
        });
        self.findings.check(!(copied && in_place), Invariant::I24, || {
            format!("{id} is copied out of segment {}, where it is in its backing store", left.segment.0)
        });
        // Content that is written to the backing store itself need not be copied there.
        allocation.backed |= copied || certain && in_place;
        allocation.was_in_place |= in_place;
        // A driver is not notified of a promotion. Content that a notified driver would put right is copied out again later.
        let is_as_left =
            reason == EvictReason::Promoted && allocation.notify.contains(AllocationFlags2::NOTIFY_EVICTION);
        allocation.writes = Writes { certain: false, possible: possible && is_as_left };
        allocation.moved_at = self.findings.event;
        // A pending lock may keep it where the CPU sees it.
        allocation.preferred_segment = allocation.preferred_segment.filter(|_| reason != EvictReason::Locked);
        let is_unclear = allocation.destroyed
            && (!allocation.lists.is_empty() || self.portions.references().any(|(_, named, _)| named == id));
        self.plans.must_follow(plan, allocation.last_plan, Invariant::D5);
        allocation.last_plan = plan;
        self.places.promise(left.segment, &left.extents, plan);
        let notices = self.notices(id, left.segment, reason, discarded, wanted);
        if let Some(allocation) = self.allocations.get_mut(&id)
            && (copied || notices.must_tell_eviction())
        {
            allocation.last_copy = plan;
        }
        let is_told = self.adapter.is_physical() && !in_place && !copied && wanted;
        let discards = left.extents.iter().filter(|_| is_told).map(|extent| extent.offset).collect();
        let discards = (!is_unclear).then_some(discards);
        let victim = Victim { allocation: id, place: left, copied, lent: None, moved: 0, discards, notices };
        let draft = self.plans.draft(plan);
        draft.moves.push((id, None));
        draft.leaving.push(id);
        draft.copied.extend(copied.then_some(id));
        draft.steps.victims.push(victim);
        let comes_back = matches!(reason, EvictReason::Promoted | EvictReason::Moved);
        self.coming_back.extend(comes_back.then_some((id, reason)));
    }

    /// Whether a list names an allocation, or work does that is not dispatched. An ended span in which work was submitted
    /// holds the allocation until all that was submitted before its end is dispatched.
    pub(super) fn is_in_use(&self, id: AllocationId) -> bool {
        let Some(allocation) = self.allocations.get(&id) else { return true };
        let is_used = |(device, entry): (&DeviceId, &ListEntry)| {
            let Some(device) = self.devices.get(device) else { return false };
            let holds = |span: &Span| span.to.is_none_or(|to| span.from < to) && device.still_holds(span);
            entry.spans().any(|span| span.to.is_none() || holds(span))
        };
        allocation.lists.iter().any(is_used) || self.portions.references().any(|(_, named, _)| named == id)
    }

    /// Whether somebody will read its content: its caller, or work that was submitted before the caller destroyed it.
    fn is_wanted(&self, id: AllocationId) -> bool {
        let Some(allocation) = self.allocations.get(&id) else { return false };
        let is_required = |(device, entry): (&DeviceId, &ListEntry)| {
            let device = self.devices.get(device);
            device.is_some_and(|device| entry.spans().any(|span| device.undispatched_in(span).is_some()))
        };
        !allocation.destroyed || allocation.lists.iter().any(is_required)
    }

    /// A victim is required by no active device: by nothing of it that is still to be dispatched. Work that uses it is
    /// remembered until the plan enters; and what work wrote to it. An allocation that only moves comes back before
    /// later work runs: it may be required by devices of which nothing is in flight.
    fn check_not_required(&mut self, plan: PlanNo, id: AllocationId, reason: EvictReason) {
        let Some(allocation) = self.allocations.get_mut(&id) else { return };
        for (&device_id, entry) in &mut allocation.lists {
            let Some(device) = self.devices.get_mut(&device_id) else { continue };
            let moves = matches!(reason, EvictReason::Moved | EvictReason::Promoted);
            let waits_for_move = moves && device.is_still();
            for span in entry.spans().filter(|span| span.granted) {
                let required = span.to.is_none() || device.undispatched_in(span).is_some();
                self.findings.check(!required || !device.requires_its_list() || waits_for_move, Invariant::I17, || {
                    format!("{id} is taken out, but {device_id} requires it after submission {}", span.from)
                });
                if device.unretired_in(span).is_some_and(|_| device.requires_its_list() && !waits_for_move) {
                    self.plans.draft(plan).users.push((device_id, id, *span));
                }
                allocation.writes.add(device.writes_in(span, allocation.moved_at));
            }
            entry.forget(|span| device.undispatched_in(span).is_none() && !device.still_holds(span), |_| Writes::NONE);
            // Later submissions of spans that are left must find it in place again.
            device.spans.extend(entry.spans().map(|span| (id, span.number)));
        }
    }

    /// A plan brings an allocation to `place`.
    pub(super) fn placed(&mut self, id: AllocationId, place: Place, content: ContentSource) {
        let plan = place.plan;
        self.take(plan, place.segment, &place.extents);
        self.check_preferred(id, place.segment);
        if !self.places.in_system_memory(place.segment) {
            self.check_has_power(|| format!("{id} is placed in the memory segment"));
        }
        let draft = self.plans.draft(plan);
        let is_explained = draft.leaving.contains(&id) || draft.prefetched == Some(id);
        self.findings.check(is_explained || self.is_in_use(id), Invariant::U41, || {
            format!("{id} is brought in, but no list names it, and no work that was submitted will use it")
        });
        let Some(allocation) = self.allocations.get_mut(&id) else { return };
        self.places.check_place(allocation, place.segment, &place.extents, &mut self.findings);
        if allocation.cpu_view.is_some() && !allocation.seen_in_backing_store && !allocation.destroyed {
            self.places.check_seen(id, place.segment, &mut self.findings);
            // From the arrival to the unlock the CPU may write there.
            allocation.writes.possible |= self.places.is_memory(place.segment);
        }
        self.findings.check(allocation.decided.is_none(), Invariant::I03, || format!("{id} is placed twice"));
        let bytes = place.extents.iter().fold(0u64, |bytes, extent| bytes.saturating_add(extent.size));
        self.findings.check(bytes == allocation.size, Invariant::I01, || {
            format!("{id} of {} bytes is placed in {bytes} bytes", allocation.size)
        });
        let in_place = self.places.in_system_memory(place.segment);
        let right = match content {
            ContentSource::InPlace => in_place,
            ContentSource::BackingStore => !in_place && (allocation.backed || allocation.was_in_place),
            ContentSource::Fill => !in_place && !allocation.backed,
        };
        self.findings.check(right, Invariant::I02, || {
            let of = if allocation.backed { "in its backing store" } else { "nowhere yet" };
            format!("{id} goes to segment {} with content from {content:?}, but that is {of}", place.segment.0)
        });
        self.plans.must_follow(plan, allocation.last_plan, Invariant::D5);
        self.plans.draft(plan).after_discards.push(allocation.discarded_by);
        allocation.last_plan = plan;
        allocation.last_copy = if in_place { allocation.last_copy } else { plan };
        allocation.moved_at = self.findings.event;
        allocation.decided = Some(place.clone());
        let is_moved = |reason| self.coming_back.contains(&(id, reason));
        allocation.moved_by = [EvictReason::Moved, EvictReason::Promoted].into_iter().any(is_moved).then_some(plan);
        let is_back = |reason: EvictReason| reason == EvictReason::Moved || self.places.is_memory(place.segment);
        self.coming_back.retain(|&(coming, reason)| coming != id || !is_back(reason));
        let mappings = allocation.mappings.iter().filter_map(|key| self.mappings.get(key)).copied();
        let mappings: Vec<Mapping> = mappings.filter(|mapping| mapping.granted && mapping.freed.is_none()).collect();
        self.taken.0.insert(self.places.pool(place.segment));
        let draft = self.plans.draft(plan);
        draft.moves.push((id, Some(place.clone())));
        draft.steps.arrivals.push(Arrival { allocation: id, place, content, moved: 0, mappings });
    }

    /// A plan copies in again what is in the memory segment already, because the CPU may have written to the copy: no work
    /// that was handed out may be using it.
    pub(super) fn refreshed(&mut self, plan: PlanNo, id: AllocationId) {
        let Some(allocation) = self.allocations.get_mut(&id) else { return };
        let place = allocation.decided.clone().filter(|place| self.places.is_memory(place.segment));
        self.findings.check(place.is_some() && allocation.seen_in_backing_store, Invariant::I02, || {
            format!("{id} is brought up to date, but is not in the memory segment, or keeps no copy")
        });
        let Some(place) = place else { return };
        self.plans.must_follow(plan, allocation.last_plan, Invariant::D5);
        (allocation.last_plan, allocation.last_copy) = (plan, plan);
        // Earlier writes are overwritten: the copy is its content.
        (allocation.backed, allocation.writes) = (true, Writes::NONE);
        allocation.moved_at = self.findings.event;
        allocation.refreshed_by = plan;
        let draft = self.plans.draft(plan);
        draft.refreshes.push(id);
        let content = ContentSource::BackingStore;
        draft.steps.arrivals.push(Arrival { allocation: id, place, content, moved: 0, mappings: Vec::new() });
    }

    pub(super) fn page_table_placed(
        &mut self,
        plan: PlanNo,
        id: ProcessId,
        table: Table,
        address: PhysicalAddress,
        size: u64,
    ) {
        let in_segment = !address.segment.is_system();
        let extent = Extent { offset: address.offset, size };
        if in_segment {
            self.take(plan, address.segment, &[extent]);
            self.taken.0.insert(self.places.pool(address.segment));
            if let Some(ledger) = self.places.ranges(address.segment) {
                ledger.check_side(extent, true, &mut self.findings);
                ledger.add_tables(size);
            }
        } else {
            self.places.system.commit(extent, &mut self.findings);
        }
        let Some(process) = self.processes.get_mut(&id) else { return };
        process.tables.push((address.segment, extent));
        if self.tables.is_root(table.level) {
            process.root = Some(Root { address, plan });
        }
        self.findings.check(self.adapter.has_page_tables(), Invariant::I15, || {
            format!("a page table is placed on an adapter of the model {:?}", self.adapter.addressing_model)
        });
        let page_bytes = self.places.memory(address.segment).map_or(PAGE_SIZE, |memory| memory.page_bytes);
        self.tables.check_size(table, size, page_bytes, &mut self.findings);
        self.plans.draft(plan).steps.placed_tables.push((process.handle, address, table));
    }

    /// Nothing is mapped through a table any more; when the plan has retired, nothing points to it.
    pub(super) fn page_table_freed(
        &mut self,
        plan: PlanNo,
        id: ProcessId,
        table: Table,
        address: PhysicalAddress,
        size: u64,
    ) {
        let extent = Extent { offset: address.offset, size };
        let Some(process) = self.processes.get_mut(&id) else { return };
        let handle = process.handle;
        let at = process.tables.iter().position(|&of| of == (address.segment, extent));
        at.map(|at| process.tables.remove(at));
        let found = self.tables.at(handle, address);
        // Without operations the log does not say when a table takes its place.
        let is_right = found == Some(table) || !self.sees_operations();
        self.findings.check(at.is_some() && is_right, Invariant::I15, || {
            format!("{table:?} of {id} is freed at {address:?}, where {found:?} is")
        });
        let end = self.tables.end(table);
        let is_user = |mapping: &&Mapping| table.level > 0 || mapping.has_pages_of(table.page_size);
        let user = self.mappings_within(id, table.first_address, end).find(is_user).copied();
        self.findings
            .check(user.is_none(), Invariant::I15, || format!("{table:?} of {id} is freed, but shows {user:?}"));
        if address.segment.is_system() {
            self.plans.draft(plan).decommits.push(extent);
        } else {
            self.places.promise(address.segment, &[extent], plan);
            if let Some(ledger) = self.places.ranges(address.segment) {
                ledger.tables = ledger.tables.saturating_sub(size);
                self.demands.relieved += 1;
            }
        }
        let draft = self.plans.draft(plan);
        draft.steps.freed_tables.push((handle, address));
    }

    /// Takes ranges of a segment for `plan`, which must follow the plans that empty them.
    fn take(&mut self, plan: PlanNo, segment: SegmentId, extents: &[Extent]) {
        let Some(ledger) = self.places.ranges(segment) else { return };
        for &extent in extents {
            for before in ledger.take(extent, &mut self.findings) {
                self.plans.must_follow(plan, before, Invariant::I01);
            }
        }
    }

    pub(super) fn plan_decided(&mut self, number: PlanNo, waits: &[(DeviceId, u64)], after: &[PlanNo]) {
        let expected = self.plans.last.saturating_add(1);
        self.findings.check(number == expected, Invariant::Log, || {
            format!("plan {number} is decided, but the next is {expected}")
        });
        self.plans.last = number.max(self.plans.last);
        let plan = self.plans.draft(number);
        plan.stage = Stage::Decided;
        plan.after = after.to_vec();
        plan.waits = waits.to_vec();
        let must_follow = std::mem::take(&mut plan.must_follow);
        for (before, reason) in must_follow {
            self.findings.check(self.plans.follows(number, before), reason, || {
                format!("plan {number} does not say that it follows plan {before}, whose allocation or range it takes")
            });
        }
        let later = after.iter().find(|&&before| before >= number);
        self.findings
            .check(later.is_none(), Invariant::D5, || format!("plan {number} follows a later plan: {after:?}"));
    }

    /// A promoted allocation is placed in the memory segment by the same decision, and one that moves is placed again:
    /// before any plan of it enters.
    fn check_back(&mut self) {
        for (id, reason) in std::mem::take(&mut self.coming_back) {
            let message = match reason {
                EvictReason::Moved => format!("{id} moves, but is placed nowhere"),
                _ => format!("{id} is promoted, but not placed in the memory segment"),
            };
            self.findings.report(Invariant::I03, message);
        }
    }

    pub(super) fn plan_entered(&mut self, number: PlanNo) {
        self.check_back();
        self.check_is_updated();
        self.places.entered(number);
        let Some(plan) = self.plans.get(number).filter(|plan| plan.stage == Stage::Decided) else {
            return self.findings.report(Invariant::D5, format!("plan {number} enters the stream, but is not parked"));
        };
        let parked = plan.after.iter().find(|&&before| !self.plans.has_entered(before));
        self.findings.check(parked.is_none(), Invariant::D5, || {
            format!("plan {number} enters before plan {}, which it follows", parked.unwrap_or(&0))
        });
        let discarding = plan.after_discards.iter().find(|&&discard| !self.plans.is_retired(discard));
        self.findings.check(discarding.is_none(), Invariant::I25, || {
            format!("plan {number} enters before plan {discarding:?} has reset the backing store of what it brings in")
        });
        for &(id, submission) in &plan.waits {
            let over = self.devices.get(&id).is_none_or(|device| device.has_retired(submission));
            self.findings.check(over, Invariant::D5, || {
                format!("plan {number} enters before submission {submission} of {id} has retired")
            });
        }
        for (id, allocation, span) in &plan.users {
            let user = self.devices.get(id).and_then(|device| device.unretired_in(span));
            self.findings.check(user.is_none(), Invariant::I17, || {
                format!("plan {number} takes {allocation} out while submission {} of {id} uses it", user.unwrap_or(0))
            });
        }
        for &id in &plan.refreshes {
            let entries = self.allocations.get(&id).into_iter().flat_map(|allocation| &allocation.lists);
            let in_flight = |(device, entry): (&DeviceId, &ListEntry)| {
                let device = self.devices.get(device)?;
                entry.spans().filter(|span| span.granted).find_map(|span| device.in_flight_in(span))
            };
            let user = entries.into_iter().find_map(in_flight);
            self.findings.check(user.is_none(), Invariant::I17, || {
                format!("plan {number} brings {id} up to date while submission {} uses it", user.unwrap_or(0))
            });
        }
        self.turn_over(number);
        if let Some(plan) = self.plans.get_mut(number) {
            plan.stage = Stage::Entered;
        }
        self.plans.enter(number);
    }

    /// In the turn of a plan, what it takes out of system memory goes before what it brings in there comes.
    fn turn_over(&mut self, number: PlanNo) {
        let Some(steps) = self.plans.get(number).map(|plan| &plan.steps) else { return };
        let places = &self.places;
        let bytes = |place: &Place| {
            let system = places.in_system_memory(place.segment);
            place.extents.iter().filter(|_| system).fold(0u64, |sum, extent| sum.saturating_add(extent.size))
        };
        let sum = |bytes: u64, more| bytes.saturating_add(more);
        let leave = steps.victims.iter().map(|victim| bytes(&victim.place)).fold(0, sum);
        let enter = steps.arrivals.iter().map(|arrival| bytes(&arrival.place)).fold(0, sum);
        let leaving = steps.victims.iter().map(|victim| (victim.allocation, None));
        let arriving = steps.arrivals.iter().map(|arrival| (arrival.allocation, Some(arrival.place.clone())));
        for (id, place) in leaving.chain(arriving) {
            if let Some(allocation) = self.allocations.get_mut(&id) {
                allocation.entered = place;
            }
        }
        self.places.system.turn_over(number, leave, enter, &mut self.findings);
    }

    pub(super) fn plan_retired(&mut self, number: PlanNo) {
        let Some(plan) = self.plans.retire(number) else {
            return self.findings.report(Invariant::I20, format!("plan {number} retires, but does not exist"));
        };
        plan.leaving.iter().for_each(|&id| self.check_left_io_mmu(number, id));
        plan.cleaned.into_iter().for_each(|id| self.settle_cleaning(id));
        plan.decommits.iter().for_each(|&extent| self.places.system.decommit(extent));
        self.findings.check(plan.stage == Stage::Entered, Invariant::I20, || {
            format!("plan {number} retires, but never entered the stream")
        });
        let completed = self.fences.paging_completed();
        let built = plan.built;
        self.findings.check(built.is_some_and(|fence_id| fence_id <= completed), Invariant::I13, || {
            format!("plan {number} retires when packet {completed} is the last done, but was built by packet {built:?}")
        });
        let resumed = self.devices.values_mut().filter(|device| device.resumed_by.contains(&number));
        resumed.for_each(|device| device.began_at = self.at);
        self.expect_rotations(number, &plan.moves);
    }
}
