//! The reset of the adapter: begun, cleaned up, and the GPU restarted (FLT-32, FLT-33, I30, I31).

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use vidmm::{AllocationId, DeviceErrorReason, DeviceId, Event, PlanNo, Violation};

use super::Audit;
use super::aspects::Residency;
use super::fences::Engine;
use super::finding::Invariant;

/// A reset that is going on.
#[derive(Debug)]
pub(super) struct Reset {
    pub cause: DeviceErrorReason,
    /// The device whose packet led to it, and what that did.
    pub suspect: Option<(DeviceId, DeviceErrorReason)>,
    /// Devices that are still to be told.
    pub doomed: BTreeSet<DeviceId>,
    /// Allocations of which the driver was told that they are not resident any more.
    pub purged: BTreeSet<AllocationId>,
    /// Allocations whose content was lost, and whether its bytes are kept.
    pub lost: BTreeMap<AllocationId, bool>,
    /// The driver refused to be told: the adapter stops, and nobody is told of the rest.
    pub is_refused: bool,
    /// Nothing is resident any more.
    is_cleared: bool,
}

/// Resets that are remembered.
#[derive(Debug, Default)]
pub(super) struct Resets {
    /// How many may be, and how long each is, in nanoseconds.
    pub limit: (u32, u64),
    at: VecDeque<u64>,
}

impl Resets {
    /// How many there were at this time.
    fn count(&mut self, now: u64) -> usize {
        let limit = self.limit.1;
        self.at.retain(|&at| now.saturating_sub(at) < limit);
        self.at.len()
    }
}

impl Audit {
    pub(super) fn reset_begun(&mut self, cause: DeviceErrorReason) {
        self.check_cause(cause);
        let remembered = self.resets.count(self.at);
        let limit = self.resets.limit.0;
        self.findings.check(remembered < limit as usize, Invariant::I31, || {
            format!("the adapter is reset as {cause:?} after {remembered} resets, of which {limit} are tolerated")
        });
        self.resets.at.push_back(self.at);
        let doomed = self.devices.iter().filter(|(_, device)| !device.is_over()).map(|(&id, _)| id).collect();
        let reset = Reset {
            cause,
            suspect: self.suspect.take(),
            doomed,
            purged: BTreeSet::new(),
            lost: BTreeMap::new(),
            is_refused: false,
            is_cleared: false,
        };
        let before = self.reset.replace(reset);
        self.findings
            .check(before.is_none(), Invariant::Flt32, || "a reset of the adapter begins during another".to_owned());
    }

    /// The adapter is reset for what the log has.
    fn check_cause(&mut self, cause: DeviceErrorReason) {
        let paging = self.fences.paging_engine;
        let of_paging = self.fences.engine(paging).map(|engine| (engine.stopped, engine.asked));
        let hangs = self.fences.engine(paging).is_none_or(Engine::hangs);
        self.findings.check(cause != DeviceErrorReason::PagingEngineTimeout || hangs, Invariant::Flt22, || {
            format!("the adapter is reset as {cause:?}, but the paging buffer that was too slow has ended")
        });
        let is_right = match cause {
            DeviceErrorReason::PagingBufferFault => of_paging.is_none_or(|(stopped, _)| stopped),
            DeviceErrorReason::PagingEngineTimeout => of_paging.is_none_or(|(_, asked)| asked),
            DeviceErrorReason::AdapterReset => self.fences.engines.iter().any(|engine| engine.stopped),
            DeviceErrorReason::EngineTimeoutPromotedToAdapterReset => true,
            _ => false,
        };
        self.findings.check(is_right, Invariant::I12, || format!("the adapter is reset as {cause:?}, without that"));
    }

    /// While the GPU is stopped nothing ends, nothing is built and nothing is handed out; and without a reset nothing is lost.
    pub(super) fn check_during_reset(&mut self, event: &Event) {
        let needs_reset = matches!(
            event,
            Event::PurgeOperation { .. }
                | Event::ContentLost { .. }
                | Event::PlanAbandoned { .. }
                | Event::AdapterRestarted
        );
        let needs_gpu = matches!(
            event,
            Event::Completed { .. }
                | Event::Dispatched { .. }
                | Event::PagingOperation { .. }
                | Event::PagingBufferSubmitted { .. }
                | Event::PlanEntered { .. }
                | Event::PlanBuilt { .. }
                | Event::PageFault { .. }
                | Event::IllegalCommand { .. }
                | Event::PreemptRequested { .. }
                | Event::Preempted { .. }
                | Event::PreemptTimedOut { .. }
                | Event::EngineResetBegun { .. }
                | Event::EngineReset { .. }
                | Event::Resubmitted { .. }
        );
        let is_reset = self.reset.is_some();
        self.findings.check(!needs_gpu || !is_reset, Invariant::I30, || {
            format!("the adapter is being reset, but this needs a GPU that runs: {event:?}")
        });
        self.findings.check(!needs_reset || is_reset, Invariant::Flt32, || {
            format!("the adapter is not being reset, but this belongs to that: {event:?}")
        });
    }

    pub(super) fn plan_abandoned(&mut self, plan: PlanNo) {
        self.clear_adapter();
        let Some(abandoned) = self.plans.retire(plan) else {
            return self.findings.report(Invariant::Flt32, format!("plan {plan} is abandoned, but is not pending"));
        };
        // The tables that it was to initialise are initialised later, in their places.
        self.place_tables(&abandoned.steps);
        self.tables.forget(&abandoned.steps.freed_tables);
        abandoned.decommits.iter().for_each(|&extent| self.places.system.decommit(extent));
    }

    /// Nothing is resident, under way or being built any more.
    fn clear_adapter(&mut self) {
        if self.reset.as_mut().is_none_or(|reset| std::mem::replace(&mut reset.is_cleared, true)) {
            return;
        }
        self.check_all_aborted();
        self.check_purge();
        self.settle_content();
        self.tables.forget(&self.building.steps.freed_tables);
        self.forget_places();
    }

    fn check_all_aborted(&mut self) {
        let returned = (0..).zip(&self.fences.engines).filter(|(_, books)| !books.returned.is_empty());
        let left = self.fences.in_flight().map(|packet| packet.engine).chain(returned.map(|(engine, _)| engine)).next();
        self.findings.check(left.is_none(), Invariant::I30, || {
            format!("the adapter was reset, but packets of engine {left:?} are not said to be aborted")
        });
    }

    fn forget_places(&mut self) {
        for allocation in self.allocations.values_mut() {
            let place = allocation.decided.take().filter(|place| self.places.is_memory(place.segment));
            if let Some(place) = place
                && let Some(ledger) = self.places.ranges(place.segment)
            {
                place.extents.into_iter().for_each(|extent| ledger.free(extent));
            }
            (allocation.entered, allocation.built) = (None, None);
            allocation.residency = allocation.residency.map(|_| Residency::default());
        }
        self.places.clear();
        self.apertures = Default::default();
        self.shadow.clear();
        self.views.clear();
        self.tables.lose_content();
        self.zeros.lose_content();
        self.open_buffer.clear();
        (self.building, self.unfinished, self.notified_in) = Default::default();
        self.plans.clear_stream();
        // The tables of the paging process are built before anything else.
        self.started = false;
    }

    pub(super) fn restarted(&mut self) {
        self.has_restarted = true;
        self.clear_adapter();
        let pending = self.plans.first_pending();
        self.findings.check(pending.is_none(), Invariant::Flt32, || {
            format!("the adapter runs again, but plan {pending:?} is still pending")
        });
        let seen = self.io_mmu.first();
        self.findings.check(seen.is_none(), Invariant::I29, || {
            format!("the adapter was reset, but the IOMMU still shows something at {seen:?}")
        });
        self.check_views_after_reset();
        self.forget_told_roots();
        for engine in &mut self.fences.engines {
            engine.restart();
        }
        let Some(reset) = self.reset.take() else { return };
        let untold = reset.doomed.first().copied();
        self.findings.check(untold.is_none(), Invariant::I12, || {
            format!("the adapter was reset, but {untold:?} is not in error")
        });
    }

    /// The adapter stops for being reset too often only if it was (FLT-31).
    pub(super) fn adapter_failed(&mut self, violation: &Violation) {
        self.has_failed = true;
        if let Some(reset) = self.reset.as_mut().filter(|_| *violation == Violation::PurgeRefused) {
            reset.is_refused = true;
        }
        if let Violation::TooManyResets { resets, .. } = *violation {
            let (remembered, limit) = (self.resets.count(self.at), self.resets.limit.0);
            self.findings.check(remembered >= limit as usize && resets == limit, Invariant::I31, || {
                format!("the adapter stops after {remembered} resets, of which {limit} are tolerated")
            });
        }
    }
}
