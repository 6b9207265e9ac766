//! Paging operations, in the order in which they are built (I04, I05, I15, I20).

use vidmm::contract::{BuildStatus, EngineFence, PagingOperation, PteFlags, UpdatePageTable, UpdatePageTableFlags};
use vidmm::{AllocationId, Event, Extent, PlanNo};

use super::allocation::{Mapping, Place};
use super::finding::Invariant;
use super::plans::Built;
use super::segment::runs_of;
use super::shadow::{leaf_bytes, page_size};
use super::{Audit, Building};

impl Audit {
    pub(super) fn paging(&mut self, event: &Event) {
        match *event {
            Event::PagingOperation { plan, ref operation, status, offset, bytes, .. } => {
                let in_open_buffer = offset > 0 || bytes > 0;
                self.operation(plan, operation, status, in_open_buffer);
            }
            Event::PagingBufferSubmitted { signal, .. } => self.buffer_submitted(signal),
            _ => {}
        }
    }

    fn buffer_submitted(&mut self, signal: EngineFence) {
        self.fences.submit(signal, &mut self.findings);
        self.plans.buffer_submitted(signal.fence_id);
    }

    fn operation(&mut self, plan: PlanNo, operation: &PagingOperation, status: BuildStatus, in_open_buffer: bool) {
        let unfinished = self.unfinished.take();
        self.findings.check(unfinished.is_none_or(|before| before == *operation), Invariant::I20, || {
            format!("{operation:?} is built before {unfinished:?} was ended")
        });
        self.begin_plan(plan);
        self.note_built(plan, in_open_buffer);
        if status != BuildStatus::Success {
            self.unfinished = Some(*operation);
            return;
        }
        match operation {
            PagingOperation::VirtualTransfer(op) => self.transfer(op),
            PagingOperation::VirtualFill(op) => self.fill(op),
            PagingOperation::UpdatePageTable(op) => self.update_page_table(op),
            PagingOperation::FlushTlb(op) => self.shadow.flush(op),
            _ => self.findings.report(Invariant::Log, format!("this audit does not know {operation:?}")),
        }
    }

    /// Remembers in which buffer a plan's last operation so far is.
    fn note_built(&mut self, number: PlanNo, in_open_buffer: bool) {
        let submitted = self.fences.submitted(self.fences.paging_engine);
        let Some(plan) = self.plans.get_mut(number) else { return };
        plan.built = if in_open_buffer { Built::InOpenBuffer } else { Built::InBuffer(submitted) };
        if let Some(event) = plan.relied_on.take() {
            let message = format!("work was dispatched before plan {number}, which it requires, was built to its end");
            self.findings.report_at(event, Invariant::I06, message);
        }
    }

    /// An operation of `plan` is built: the plans before it in the stream are built to their end. Plan 0 is adapter start.
    fn begin_plan(&mut self, plan: PlanNo) {
        if plan == 0 || self.building.as_ref().is_some_and(|building| building.plan == plan) {
            return;
        }
        if !self.plans.is_waiting(plan) {
            let message =
                format!("an operation of plan {plan} is built, which is not in the stream or was built to its end");
            return self.findings.report(Invariant::I20, message);
        }
        while self.next_plan().is_some_and(|next| next != plan) {}
    }

    /// All of `plan` is built, and all that was before it in the stream.
    pub(super) fn close_through(&mut self, plan: PlanNo) {
        if self.plans.is_waiting(plan) {
            self.begin_plan(plan);
        }
        if self.building.as_ref().is_some_and(|building| building.plan == plan) {
            self.close_plan();
        }
    }

    /// Goes on to the next plan of the stream: what it decides is what is built from now on.
    fn next_plan(&mut self) -> Option<PlanNo> {
        self.close_plan();
        let number = self.plans.next_in_stream()?;
        let steps = self.plans.get_mut(number).map(|plan| std::mem::take(&mut plan.steps)).unwrap_or_default();
        for victim in &steps.victims {
            if let Some(allocation) = self.allocations.get_mut(&victim.allocation) {
                allocation.built = None;
            }
        }
        for arrival in &steps.arrivals {
            if let Some(allocation) = self.allocations.get_mut(&arrival.allocation) {
                allocation.built = Some(Place { plan: number, extents: arrival.extents.clone() });
            }
        }
        self.building = Some(Building { plan: number, steps, victims_checked: false });
        Some(number)
    }

    /// The plan that is being built is built to its end: what it decided is done, and nothing else is left.
    fn close_plan(&mut self) {
        let Some(Building { plan, steps, .. }) = self.building.take() else { return };
        for victim in &steps.victims {
            self.check_moved(plan, victim.allocation, "copied out", victim.moved, victim.copied);
            self.check_hidden(victim.allocation, Invariant::I04);
        }
        for arrival in &steps.arrivals {
            self.check_moved(plan, arrival.allocation, "brought in", arrival.moved, true);
            for mapping in &arrival.mappings {
                self.check_visible(mapping, &arrival.extents);
            }
        }
        if let Some(stale) = self.shadow.take_stale() {
            let message = format!(
                "plan {plan} ends without a flush of {:#x}..{:#x} of process {}",
                stale.start, stale.end, stale.process.0
            );
            self.findings.report(Invariant::I05, message);
        }
        self.check_windows_empty(plan);
    }

    /// No process sees the allocation, nor does a TLB.
    pub(super) fn check_hidden(&mut self, id: AllocationId, invariant: Invariant) {
        let Some(allocation) = self.allocations.get(&id) else { return };
        let mappings = allocation.mappings.iter().filter_map(|key| self.mappings.get(key));
        for mapping in mappings {
            let Some(process) = self.processes.get(&mapping.process) else { continue };
            let shown = self.shadow.shows(process.handle, mapping.virtual_address, mapping.end(), allocation.handle);
            self.findings.check(!shown, invariant, || {
                format!("{id} has left, but {} still sees it at {:#x}", mapping.process, mapping.virtual_address)
            });
        }
        let stale = self.shadow.stale_of(allocation.handle);
        self.findings.check(stale.is_none(), Invariant::I05, || {
            format!("{id} has left, but a TLB may still know it: {stale:?}")
        });
    }

    /// A mapping shows its allocation, where that is.
    pub(super) fn check_visible(&mut self, mapping: &Mapping, extents: &[Extent]) {
        let Some(process) = self.processes.get(&mapping.process) else { return };
        let shown = self.shadow.translate(process.handle, mapping.page_size, mapping.virtual_address, mapping.size);
        let right = runs_of(self.segment.id, extents, mapping.allocation_offset, mapping.size);
        self.findings.check(shown.as_ref() == Some(&right), Invariant::I04, || {
            format!(
                "{} of {} must show {} at {right:?}, but shows {shown:?}",
                vidmm::GpuVirtualAddress(mapping.virtual_address),
                mapping.process,
                mapping.allocation
            )
        });
    }

    fn update_page_table(&mut self, op: &UpdatePageTable) {
        let of_paging_process = self.paging_process == Some(op.process);
        if op.flags.contains(UpdatePageTableFlags::INITIAL_UPDATE) {
            self.check_victims_hidden();
        }
        if !of_paging_process {
            self.tables.check_write(op, &mut self.findings);
        }
        if op.page_table_level > 0 {
            return;
        }
        if !of_paging_process && op.page_table_entries.first.flags.contains(PteFlags::VALID) {
            self.check_valid_entries(op);
        }
        self.shadow.write(op, !of_paging_process);
    }

    /// Valid leaf entries of a user's process show what is mapped there, where it is.
    fn check_valid_entries(&mut self, op: &UpdatePageTable) {
        let Some((id, offset)) = self.mapped_at(op) else {
            let message =
                format!("{} becomes valid, but nothing such is mapped there: {op:?}", op.first_pte_virtual_address);
            return self.findings.report(Invariant::I04, message);
        };
        let entries = op.page_table_entries;
        let repeated = op.flags.contains(UpdatePageTableFlags::REPEAT) && entries.num_page_table_entries > 1;
        let place = self.allocations.get(&id).and_then(|allocation| allocation.built.as_ref());
        let extents = place.map_or(&[][..], |place| &place.extents);
        let right = runs_of(self.segment.id, extents, offset, leaf_bytes(op));
        let shown = (entries.first.address, leaf_bytes(op));
        self.findings.check(right == [shown] && !repeated, Invariant::I04, || {
            format!("entries for {id} from its byte {offset} on point to {shown:?}, but it is at {right:?}")
        });
    }

    /// The allocation that is mapped where the entries are, and the byte of it that the first one shows.
    fn mapped_at(&self, op: &UpdatePageTable) -> Option<(AllocationId, u64)> {
        let process = *self.by_process_handle.get(&op.process)?;
        let id = *self.by_handle.get(&op.allocation?)?;
        let start = op.first_pte_virtual_address.0;
        let end = start.checked_add(leaf_bytes(op))?;
        let (_, mapping) = self.mappings.range((process, 0)..=(process, start)).next_back()?;
        let offset = mapping.allocation_offset.checked_add(start - mapping.virtual_address)?;
        let fits = mapping.allocation == id && end <= mapping.end() && mapping.page_size == page_size(op);
        (fits && offset == op.allocation_offset_in_bytes).then_some((id, offset))
    }
}
