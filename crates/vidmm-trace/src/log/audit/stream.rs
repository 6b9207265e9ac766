//! The stream: plans one after another, and what must hold when a plan is built to its end (I04, I05, I10, I20).

use vidmm::contract::EngineFence;
use vidmm::event::ContentSource;
use vidmm::{AllocationId, PageSize, PlanNo};

use super::allocation::{Mapping, Place};
use super::finding::Invariant;
use super::plans::{Arrival, Steps, Victim};
use super::{Audit, Building};

impl Audit {
    pub(super) fn victim(&self, id: AllocationId) -> Option<&Victim> {
        self.building.steps.victims.iter().find(|victim| victim.allocation == id)
    }

    pub(super) fn victim_mut(&mut self, id: AllocationId) -> Option<&mut Victim> {
        self.building.steps.victims.iter_mut().find(|victim| victim.allocation == id)
    }

    /// The allocations that the plan takes out which is being built.
    pub(super) fn victims(&self) -> Vec<AllocationId> {
        self.building.steps.victims.iter().map(|victim| victim.allocation).collect()
    }

    /// An operation of `plan` is built, or its end: the plans before it in the stream were built to their end. Plan 0 is adapter
    /// start, which comes before all plans.
    pub(super) fn begin_plan(&mut self, plan: PlanNo) {
        if plan == 0 {
            return self.findings.check(!self.started, Invariant::I20, || {
                "an operation of adapter start is built after one of a plan".to_owned()
            });
        }
        self.started = true;
        if self.building.plan == plan {
            return;
        }
        if !self.plans.is_waiting(plan) {
            let message =
                format!("an operation of plan {plan} is built, which is not in the stream or was built to its end");
            return self.findings.report(Invariant::I20, message);
        }
        if self.building.plan != 0 {
            self.report_unfinished(plan, self.building.plan);
        }
        while let Some(next) = self.next_plan().filter(|&next| next != plan) {
            self.report_unfinished(plan, next);
        }
    }

    fn report_unfinished(&mut self, plan: PlanNo, before: PlanNo) {
        let message = format!("plan {plan} is built before plan {before}, which is not built to its end");
        self.findings.report(Invariant::I20, message);
    }

    /// All of a plan is built: its last operation is in the packet that is named, or in one before it.
    pub(super) fn plan_built(&mut self, number: PlanNo, signal: EngineFence) {
        self.begin_plan(number);
        if self.building.plan == number {
            self.close_plan();
        }
        let submitted = self.fences.paging_submitted;
        let next = self.fences.next_paging();
        let is_right = match (self.sees_operations(), self.open_buffer.is_empty()) {
            (true, true) => signal.fence_id == submitted,
            (true, false) => signal.fence_id == next,
            (false, _) => [submitted, next].contains(&signal.fence_id),
        };
        self.findings.check(is_right && signal.engine == self.fences.paging_engine, Invariant::I20, || {
            format!("plan {number} is said to be built by {signal:?}, but {submitted} is the last packet handed out")
        });
        if let Some(plan) = self.plans.get_mut(number) {
            plan.built = Some(signal.fence_id);
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
                allocation.built = Some(arrival.place.clone());
            }
        }
        self.place_tables(&steps);
        self.building = Building { plan: number, steps, victims_checked: false };
        Some(number)
    }

    /// The allocations that leave with plans which are not built to their end, in the order of their plans.
    pub(super) fn unbuilt_victims(&self) -> impl Iterator<Item = &Victim> {
        let Building { plan, steps, .. } = &self.building;
        let building = Some(steps).filter(|_| self.plans.get(*plan).is_some_and(|plan| plan.built.is_none()));
        let others = self.plans.all().filter(|plan| plan.built.is_none()).map(|plan| &plan.steps);
        building.into_iter().chain(others).flat_map(|steps| &steps.victims)
    }

    /// From now on a plan writes to its tables.
    pub(super) fn place_tables(&mut self, steps: &Steps) {
        for &(process, address, table) in &steps.placed_tables {
            self.tables.place(process, address, table);
        }
    }

    /// The plan that is being built is built to its end: what it decided is done, and nothing else is left.
    fn close_plan(&mut self) {
        if !self.sees_operations() {
            // How the plan was carried out is not in the log.
            self.tables.forget(&std::mem::take(&mut self.building).steps.freed_tables);
            return;
        }
        if self.building.plan == 0 {
            return;
        }
        self.victims().into_iter().for_each(|id| self.check_told(id));
        let Building { plan, steps, .. } = std::mem::take(&mut self.building);
        for victim in &steps.victims {
            self.check_has_left(plan, victim, &steps);
        }
        for arrival in &steps.arrivals {
            self.check_has_arrived(plan, arrival);
        }
        if let Some(clean) = &steps.clean {
            self.check_is_clean(plan, clean);
        }
        if let Some(address) = self.tables.forget(&steps.freed_tables) {
            let message = format!("plan {plan} ends, but a table still points to the one that it frees at {address:?}");
            self.findings.report(Invariant::I15, message);
        }
        if let Some(stale) = self.shadow.tlb.take_stale() {
            let message = format!(
                "plan {plan} ends without a flush of {:#x}..{:#x} of process {}",
                stale.start, stale.end, stale.process.0
            );
            self.findings.report(Invariant::I05, message);
        }
        for id in steps.victims.iter().map(|of| of.allocation).chain(steps.arrivals.iter().map(|of| of.allocation)) {
            let place = self.allocations.get(&id).and_then(|allocation| allocation.built.clone());
            self.check_residency_told(id, place.as_ref());
        }
        self.check_windows_empty(plan);
        self.check_io_mmu_windows_empty(plan);
    }

    /// An allocation that the plan takes out is copied, and seen no more where it was.
    fn check_has_left(&mut self, plan: PlanNo, victim: &Victim, steps: &Steps) {
        let id = victim.allocation;
        self.check_moved(plan, id, "copied out", victim.moved, victim.copied, Invariant::I10);
        let untold = victim.discards.as_deref().unwrap_or_default();
        self.findings.check(untold.is_empty(), Invariant::U13, || {
            format!("plan {plan} ends, but the driver was not told that {id} left {untold:?} without a copy")
        });
        let returns = |arrival: &Arrival| arrival.allocation == id && arrival.place == victim.place;
        if self.places.is_aperture(victim.place.segment) && !steps.arrivals.iter().any(returns) {
            self.check_aperture(id, &victim.place, false);
        }
        self.findings.check(victim.lent.is_none(), Invariant::I24, || {
            format!(
                "plan {plan} ends, but {id} is still mapped at {:?} of the aperture, through which it left",
                victim.lent
            )
        });
        // An allocation that the plan also brings in is seen again by now: where it arrives.
        if steps.arrivals.iter().all(|arrival| arrival.allocation != id) {
            self.check_hidden(id, Invariant::I04);
        }
    }

    /// An allocation that the plan brings in has its content, and is seen wherever it is mapped.
    fn check_has_arrived(&mut self, plan: PlanNo, arrival: &Arrival) {
        let id = arrival.allocation;
        let must = arrival.content != ContentSource::InPlace;
        self.check_moved(plan, id, "brought in", arrival.moved, must, arrival.rule());
        if self.places.is_aperture(arrival.place.segment) {
            self.check_aperture(id, &arrival.place, true);
        }
        for mapping in &arrival.mappings {
            self.check_visible(mapping, &arrival.place);
        }
    }

    /// No process sees the allocation, nor does a TLB.
    pub(super) fn check_hidden(&mut self, id: AllocationId, invariant: Invariant) {
        let Some(allocation) = self.allocations.get(&id) else { return };
        let mappings = allocation.mappings.iter().filter_map(|key| self.mappings.get(key));
        for mapping in mappings {
            let shown = self.is_shown(mapping, allocation.handle);
            self.findings.check(!shown, invariant, || {
                format!("{id} has left, but {} still sees it at {:#x}", mapping.process, mapping.virtual_address)
            });
        }
        let stale = self.shadow.tlb.stale_of(allocation.handle);
        self.findings.check(stale.is_none(), Invariant::I05, || {
            format!("{id} has left, but a TLB may still know it: {stale:?}")
        });
    }

    /// A mapping shows its allocation, where that is.
    pub(super) fn check_visible(&mut self, mapping: &Mapping, place: &Place) {
        if !self.sees_operations() {
            return;
        }
        if self.adapter.has_io_mmu_addresses() {
            return self.check_in_io_mmu(mapping);
        }
        let Some(process) = self.processes.get(&mapping.process) else { return };
        // Pages of system memory are of 4 KiB, whatever the memory segment has (GVA-40).
        let in_system = self.places.in_system_memory(place.segment);
        let side = if in_system { PageSize::Kib4 } else { mapping.page_size };
        let shown = |side| self.shadow.translate(process.handle, side, mapping.virtual_address, mapping.size);
        let right = place.runs(mapping.allocation_offset, mapping.size);
        // The rest of a page that is being cut is seen as before, or nowhere until its own entries are there: work waits for that,
        // and it is looked at again when what was freed is reclaimed (GVA-42).
        let is_cut = mapping.cut_from.is_some_and(|side| {
            let is_dark = !self.shadow.is_mapped(process.handle, mapping.virtual_address, mapping.end());
            is_dark || shown(side).as_ref() == Some(&right)
        });
        let shown = shown(side);
        self.findings.check(is_cut || shown.as_ref() == Some(&right), Invariant::I04, || {
            format!(
                "{} of {} must show {} at {right:?}, but shows {shown:?}",
                vidmm::GpuVirtualAddress(mapping.virtual_address),
                mapping.process,
                mapping.allocation
            )
        });
    }
}
