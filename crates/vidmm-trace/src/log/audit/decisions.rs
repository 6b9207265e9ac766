//! Decisions: who goes where, and when plans enter and retire (I01, I02, I03, I17, D5).

use vidmm::event::ContentSource;
use vidmm::{AllocationId, DeviceId, Event, Extent, PageSize, PhysicalAddress, PlanNo, ProcessId};

use super::Audit;
use super::allocation::Place;
use super::finding::Invariant;
use super::plans::{Arrival, Built, Stage, Victim};
use super::roots::Root;
use super::tables::Table;

impl Audit {
    pub(super) fn decision(&mut self, event: &Event) {
        match *event {
            Event::Evicted { plan, allocation, ref extents, copied, .. } => {
                self.evicted(plan, allocation, extents, copied);
            }
            Event::Placed { plan, allocation, ref extents, content, .. } => {
                self.placed(plan, allocation, extents, content);
            }
            Event::PageTablePlaced { plan, process, level, page_size, virtual_address, address, size } => {
                let first_address = virtual_address.0;
                let page_size = if level == 0 { page_size } else { PageSize::Kib4 };
                self.page_table_placed(plan, process, Table { level, page_size, first_address }, address, size);
            }
            Event::PlanDecided { plan, ref waits, ref after } => self.plan_decided(plan, waits, after),
            Event::PlanEntered { plan } => self.plan_entered(plan),
            Event::PlanRetired { plan } => self.plan_retired(plan),
            _ => {}
        }
    }

    fn evicted(&mut self, plan: PlanNo, id: AllocationId, extents: &[Extent], copied: bool) {
        self.check_not_required(plan, id);
        let Some(allocation) = self.allocations.get_mut(&id) else { return };
        let place = allocation.decided.take();
        self.findings.check(place.is_some_and(|place| place.extents == extents), Invariant::I03, || {
            format!("{id} leaves {extents:?}, which is not its place")
        });
        let lost = allocation.written && !copied && !allocation.destroyed;
        self.findings.check(!lost, Invariant::I02, || format!("{id} was written, but is not copied out"));
        allocation.backed |= copied;
        allocation.written = false;
        self.plans.must_follow(plan, allocation.last_plan, Invariant::D5);
        allocation.last_plan = plan;
        for &extent in extents {
            self.segment.promise(extent, plan);
        }
        let victim = Victim { allocation: id, extents: extents.to_vec(), copied, moved: 0 };
        self.plans.draft(plan).steps.victims.push(victim);
    }

    /// A victim is required by nothing that is still to be dispatched; what uses it is remembered until the plan enters.
    fn check_not_required(&mut self, plan: PlanNo, id: AllocationId) {
        let Some(allocation) = self.allocations.get_mut(&id) else { return };
        let Some(device) = self.devices.get_mut(&allocation.device) else { return };
        for span in allocation.list.spans().filter(|span| span.granted) {
            let required = span.to.is_none() || device.undispatched_in(span).is_some();
            self.findings.check(!required, Invariant::I17, || {
                format!("{id} is taken out, but is required after submission {}", span.from)
            });
            if device.unretired_in(span).is_some() {
                self.plans.draft(plan).users.push((allocation.device, id, *span));
            }
        }
        allocation.written |= allocation.list.forget(|_| true);
        // Later submissions of spans that are left must find it in place again.
        device.spans.extend(allocation.list.spans().map(|span| (id, span.number)));
    }

    fn placed(&mut self, plan: PlanNo, id: AllocationId, extents: &[Extent], content: ContentSource) {
        self.take(plan, extents);
        let Some(allocation) = self.allocations.get_mut(&id) else { return };
        self.findings.check(allocation.decided.is_none(), Invariant::I03, || format!("{id} is placed twice"));
        let bytes = extents.iter().fold(0u64, |bytes, extent| bytes.saturating_add(extent.size));
        self.findings.check(bytes == allocation.size, Invariant::I01, || {
            format!("{id} of {} bytes is placed in {bytes} bytes", allocation.size)
        });
        let source = if allocation.backed { ContentSource::BackingStore } else { ContentSource::Fill };
        self.findings.check(content == source, Invariant::I02, || {
            format!("the content of {id} comes from {content:?}, but is in {source:?}")
        });
        self.plans.must_follow(plan, allocation.last_plan, Invariant::D5);
        allocation.last_plan = plan;
        allocation.decided = Some(Place { plan, extents: extents.to_vec() });
        let mappings = allocation.mappings.iter().filter_map(|key| self.mappings.get(key)).copied();
        let mappings = mappings.filter(|mapping| mapping.granted && mapping.freed.is_none()).collect();
        let arrival = Arrival { allocation: id, extents: extents.to_vec(), content, moved: 0, mappings };
        self.plans.draft(plan).steps.arrivals.push(arrival);
    }

    fn page_table_placed(&mut self, plan: PlanNo, id: ProcessId, table: Table, address: PhysicalAddress, size: u64) {
        let in_segment = !address.segment.is_system();
        let extent = Extent { offset: address.offset, size };
        if in_segment {
            self.take(plan, &[extent]);
        }
        let Some(process) = self.processes.get_mut(&id) else { return };
        process.tables.extend(in_segment.then_some(extent));
        if self.tables.is_root(table.level) {
            process.root = Some(Root { address, plan });
        }
        self.tables.check_size(table, size, &mut self.findings);
        self.tables.place(process.handle, address, table);
    }

    /// Takes ranges of the segment for `plan`, which must follow the plans that empty them.
    fn take(&mut self, plan: PlanNo, extents: &[Extent]) {
        for &extent in extents {
            for before in self.segment.take(extent, &mut self.findings) {
                self.plans.must_follow(plan, before, Invariant::I01);
            }
        }
    }

    fn plan_decided(&mut self, number: PlanNo, waits: &[(DeviceId, u64)], after: &[PlanNo]) {
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

    fn plan_entered(&mut self, number: PlanNo) {
        self.segment.entered(number);
        let Some(plan) = self.plans.get(number).filter(|plan| plan.stage == Stage::Decided) else {
            return self.findings.report(Invariant::D5, format!("plan {number} enters the stream, but is not parked"));
        };
        let parked = plan.after.iter().find(|&&before| !self.plans.has_entered(before));
        self.findings.check(parked.is_none(), Invariant::D5, || {
            format!("plan {number} enters before plan {}, which it follows", parked.unwrap_or(&0))
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
        if let Some(plan) = self.plans.get_mut(number) {
            plan.stage = Stage::Entered;
        }
        self.plans.enter(number);
    }

    fn plan_retired(&mut self, number: PlanNo) {
        self.close_through(number);
        let Some(plan) = self.plans.retire(number) else {
            return self.findings.report(Invariant::I20, format!("plan {number} retires, but does not exist"));
        };
        self.findings.check(plan.stage == Stage::Entered, Invariant::I20, || {
            format!("plan {number} retires, but never entered the stream")
        });
        let completed = self.fences.completed(self.fences.paging_engine);
        let done = match plan.built {
            Built::Nothing => true,
            Built::InOpenBuffer => false,
            Built::InBuffer(fence_id) => fence_id <= completed,
        };
        self.findings.check(done, Invariant::I13, || {
            format!(
                "plan {number} retires with its last operation {:?}, but packet {completed} is the last done",
                plan.built
            )
        });
    }
}
