//! The manager: the parts, and questions to the manager. The calls are in `calls`, the loop in `poll`.

use crate::{
    contract::EngineKind,
    event::{EventLog, error::DriverFinding},
    id::{AllocationId, InvalidHandle},
    moment::Statistics,
    objects::allocation::AllocationState,
    plans::Plans,
    requests::Requests,
    schedule::Schedule,
    state::State,
    units::PhysicalAddress,
    work::Work,
};

/// The video memory manager of one adapter.
///
/// The manager owns no driver, no GPU, no host and no clock. The methods are of three kinds:
///
/// - *Calls* admit: `create_*`, `destroy_*`, [`make_resident`](Self::make_resident), [`evict`](Self::evict),
///   [`map_gpu_virtual_address`](Self::map_gpu_virtual_address), [`submit`](Self::submit), ... Calls validate, answer at once,
///   and never wait. A refused call changes nothing.
/// - [`poll`](Self::poll) grants, builds, and returns outputs for the caller to carry out. Call `poll` until the answer is
///   `None`, after calls and after events.
/// - *Events* retire: [`handle_completed`](Self::handle_completed), [`handle_interrupt`](Self::handle_interrupt), and the ends
///   of resets.
///
/// The same calls with the same answers of the driver and the host give the same outputs.
pub struct VidMm {
    pub(crate) state: State,
    pub(crate) plans: Plans,
    pub(crate) requests: Requests,
    pub(crate) work: Work,
    pub(crate) schedule: Schedule,
}

/// # Looks at the manager
impl VidMm {
    /// The log of events: drain it after each call if the adapter was started with events on.
    pub fn events(&mut self) -> &mut EventLog {
        self.state.moment.events()
    }

    /// The adapter's engines, by ordinal.
    pub fn engines(&self) -> &[EngineKind] {
        &self.state.adapter.engines
    }

    /// The counters of the work so far.
    pub fn statistics(&self) -> Statistics {
        self.state.moment.statistics()
    }

    /// Findings for the driver's author, in the order of discovery.
    pub fn driver_findings(&self) -> &[DriverFinding] {
        self.state.moment.driver_findings()
    }

    /// The size of the paging process's address space in bytes, on each side of a transfer; 0 without an address space
    /// (PGV-03).
    pub fn paging_va_size(&self) -> u64 {
        self.state.adapter.paging_va_size
    }

    /// The address of an allocation's content in system memory, for the CPU; none while the allocation is resident, while a
    /// plan is under way for the allocation, or without a backing store (RES-66).
    ///
    /// # Errors
    ///
    /// If the handle names nothing.
    pub fn system_copy(&self, allocation: AllocationId) -> Result<Option<PhysicalAddress>, InvalidHandle> {
        let record = &self.state.objects[self.state.objects.lookup_allocation(allocation)?];
        let is_committed = !record.is(AllocationState::NOT_COMMITTED);
        let is_there = is_committed && record.place.is_none() && self.plans.stream.is_retired(record.last_plan);
        Ok(is_there.then_some(record.store_address()))
    }

    /// Whether nothing is under way or waiting.
    pub fn is_idle(&self) -> bool {
        self.plans.stream.is_empty()
            && self.work.queued.is_empty()
            && self.requests.is_idle()
            && self.state.objects.ending.is_over()
            && self.state.addresses.is_settled()
            && self.state.engines.engines.iter().all(|engine| engine.in_flight().is_empty())
            && self.state.engines.recovery.is_over()
    }
}
