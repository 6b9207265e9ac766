//! The audit of budgets: refusals, requests to trim, and devices that yield to each other.

use crate::log_support::*;
use vidmm::contract::*;
use vidmm::event::{ContentSource, Event, EvictReason, SuspendReason};
use vidmm::*;
use vidmm_trace::Invariant::{self, *};

const MS: u64 = 1_000_000;
/// The pages that engines reach, and so share.
const PAGES: u64 = 100;

/// A run in which lists are made and nothing is brought in. There is no memory segment, so group LOCAL is system memory.
struct Run {
    events: Vec<NumberedEvent>,
    allocations: u64,
    values: [u64; 3],
    at: u64,
}

fn device_of(process: u64) -> DeviceId {
    DeviceId::from_bits(process)
}

fn id(process: u64) -> ProcessId {
    ProcessId::from_bits(process)
}

fn run() -> Run {
    let mut run = Run { events: Vec::new(), allocations: 0, values: [0; 3], at: 0 };
    let mut started = story().swap_remove(0);
    let Event::AdapterStarted {
        addressing_model,
        memory,
        level_bits,
        table_bytes,
        paging_tables,
        system_commit_limit,
        system_group,
        paging_va_size,
        ..
    } = &mut started
    else {
        panic!("a run begins with the start of its adapter")
    };
    (*addressing_model, *memory) = (AddressingModel::GpuVaIoMmu, vec![]);
    (*level_bits, *table_bytes, *paging_tables) = (vec![], vec![], vec![]);
    *system_group = MemorySegmentGroup::Local;
    (*system_commit_limit, *paging_va_size) = (PAGES * PAGE_SIZE, 0);
    run.push(started);
    run.with_process(0).with_process(1)
}

impl Run {
    fn push(&mut self, event: Event) {
        let number = self.events.len() as u64 + 1;
        self.events.push(NumberedEvent { number, at: self.at, occurred_at: None, event });
    }

    fn and(mut self, event: Event) -> Self {
        self.push(event);
        self
    }

    fn with_process(self, process: u64) -> Self {
        let (device, queue) = (device_of(process), PagingQueueId::from_bits(process));
        self.and(Event::ProcessCreated { process: id(process), handle: KmdProcessHandle(200 + process) })
            .and(Event::DeviceCreated { device, process: id(process), residency: vidmm::DeviceResidency::DeviceList })
            .and(Event::PagingQueueCreated { queue, device, priority: 0 })
    }

    /// Lets so many milliseconds pass.
    fn later(mut self, milliseconds: u64) -> Self {
        self.at += milliseconds * MS;
        self
    }

    /// An allocation of a process, of so many pages.
    fn created(&mut self, process: u64, pages: u64) -> AllocationId {
        let index = self.allocations;
        self.allocations += 1;
        let allocation = AllocationId::from_bits(index);
        let created = NewAllocation {
            device: device_of(process),
            process: id(process),
            size: pages * PAGE_SIZE,
            backing_store: index << 32,
            segment: SegmentId(2),
            ..NewAllocation::of(allocation)
        };
        self.push(created.event());
        allocation
    }

    /// The list of a process grows by so many pages.
    fn lists_with(mut self, process: u64, pages: u64, flags: MakeResidentFlags) -> Self {
        let allocation = self.created(process, pages);
        self.values[process as usize] += 1;
        let (device, queue) = (device_of(process), PagingQueueId::from_bits(process));
        let (allocations, waiting) = (vec![allocation], vec![allocation]);
        let (after_submission, paging_fence_value) = (0, self.values[process as usize]);
        self.and(Event::MakeResident {
            device,
            queue,
            allocations,
            flags,
            after_submission,
            paging_fence_value,
            waiting,
        })
    }

    fn lists(self, process: u64, pages: u64) -> Self {
        self.lists_with(process, pages, MakeResidentFlags::empty())
    }

    /// An allocation of a process is brought in by the plan of its number, and leaves the list. The room is not wanted yet.
    fn has_spare(self, process: u64, pages: u64) -> Self {
        let (allocation, plan) = (AllocationId::from_bits(self.allocations), self.allocations + 1);
        let extents = vec![extent(self.allocations << 32, pages * PAGE_SIZE)];
        let (device, queue) = (device_of(process), PagingQueueId::from_bits(process));
        let value = self.values[process as usize] + 1;
        let (allocations, flags) = (vec![allocation], EvictFlags::EVICT_ONLY_IF_NECESSARY);
        self.lists(process, pages)
            .and(Event::Placed {
                plan,
                allocation,
                segment: SegmentId::SYSTEM,
                extents,
                content: ContentSource::InPlace,
            })
            .and(Event::PlanDecided { plan, waits: vec![], after: vec![] })
            .and(Event::Granted { device, queue, paging_fence_value: value, plans: vec![plan] })
            .and(Event::PlanEntered { plan })
            .and(Event::PlanBuilt { plan, signal: fence(PAGING, 0) })
            .and(Event::PlanRetired { plan })
            .and(Event::PagingFenceSignaled { queue, value })
            .and(Event::Evict { device, allocations, flags, after_submission: 0, num_bytes_to_trim: 0 })
    }

    /// An allocation of so many pages makes room for a waiting process.
    fn takes(self, process: u64, number: u64, pages: u64) -> Self {
        self.and(Event::Evicted {
            plan: 3,
            allocation: AllocationId::from_bits(number),
            segment: SegmentId::SYSTEM,
            extents: vec![extent(number << 32, pages * PAGE_SIZE)],
            copied: false,
            reason: EvictReason::RoomWanted,
            discarded: false,
            wanted_by: Some(for_device(device_of(process))),
        })
    }

    /// A list is refused to grow by so many pages.
    fn refused(mut self, process: u64, pages: u64, reason: NoMemoryReason, to_trim: u64) -> Self {
        let allocations = vec![self.created(process, pages)];
        let device = device_of(process);
        let flags = match reason {
            NoMemoryReason::OverMaximumBudget => MakeResidentFlags::CANT_TRIM_FURTHER,
            _ => MakeResidentFlags::empty(),
        };
        let num_bytes_to_trim = to_trim * PAGE_SIZE;
        let shortages = short_of(SegmentId::SYSTEM, num_bytes_to_trim, reason);
        self.and(Event::MakeResidentRefused { device, allocations, flags, num_bytes_to_trim, reason, shortages })
    }

    /// The first allocation that a process listed leaves its list.
    fn evicts(self, process: u64, index: u64, to_trim: u64) -> Self {
        let (device, flags) = (device_of(process), EvictFlags::empty());
        let allocations = vec![AllocationId::from_bits(index)];
        let num_bytes_to_trim = to_trim * PAGE_SIZE;
        self.and(Event::Evict { device, allocations, flags, after_submission: 0, num_bytes_to_trim })
    }

    fn reserves(self, process: u64, pages: u64) -> Self {
        let (process, group) = (id(process), MemorySegmentGroup::Local);
        self.and(Event::ReservationChanged { process, group, reservation: pages * PAGE_SIZE })
    }

    fn is(self, process: u64, band: PriorityBand, visibility: Visibility) -> Self {
        self.and(Event::ProcessPriorityChanged { process: id(process), band, visibility })
    }

    fn occluded(self) -> Self {
        let is = |run: Self, process| run.is(process, PriorityBand::Normal, Visibility::Occluded);
        is(is(self, 0), 1)
    }

    fn yields(self, process: u64, reason: SuspendReason, to: u64) -> Self {
        self.and(Event::DeviceYielded { device: device_of(process), reason, wanted_by: Some(device_of(to)) })
    }

    fn listens(self, process: u64) -> Self {
        let notification = TrimNotificationId::from_bits(process);
        self.and(Event::TrimNotificationRegistered { notification, device: device_of(process) })
    }

    fn submits(self, process: u64) -> Self {
        let (device, context) = (device_of(process), ContextId::from_bits(process));
        let created = self.and(Event::ContextCreated { context, device, engine: 1 });
        let (waits, signals) = (Vec::new(), Vec::new());
        created.and(Event::Submitted { device, context, submission: 1, waits, signals })
    }

    fn told(self, process: u64, flags: TrimFlags, to_trim: u64) -> Self {
        let (notification, device) = (TrimNotificationId::from_bits(process), device_of(process));
        let group = flags.contains(TrimFlags::TRIM_TO_BUDGET).then_some(MemorySegmentGroup::Local);
        self.and(Event::TrimNotified { notification, device, flags, group, num_bytes_to_trim: to_trim * PAGE_SIZE })
    }

    #[track_caller]
    fn breaks_nothing(self) {
        let findings = audit(&self.events);
        assert!(findings.is_empty(), "{findings:#?}");
    }

    #[track_caller]
    fn breaks_only(self, invariant: Invariant) {
        let findings = audit(&self.events);
        let all = findings.iter().all(|finding| finding.invariant == invariant);
        assert!(!findings.is_empty() && all, "not only {invariant}: {findings:#?}");
    }
}

/// Process 0 asks for 60 pages and process 1 for 50, of 100: the budget of each is 50.
fn pressed() -> Run {
    run().lists(0, 60).lists(1, 50).and(published(0, 50, 60)).and(published(1, 50, 50))
}

/// A process is told its budget, in pages.
fn published(process: u64, budget: u64, requested: u64) -> Event {
    let (process, group) = (id(process), MemorySegmentGroup::Local);
    let [budget, requested] = [budget, requested].map(|pages| pages * PAGE_SIZE);
    Event::BudgetChanged { process, group, budget, requested }
}

#[test]
fn a_list_within_its_budget_and_a_list_that_fits_are_admitted() {
    run().lists(0, 90).lists(1, 10).breaks_nothing();
    pressed().breaks_nothing();
}

#[test]
fn a_refusal_asks_to_trim_the_excess_over_the_budget() {
    pressed().refused(1, 10, NoMemoryReason::OverBudget, 10).breaks_nothing();
    pressed().refused(0, 10, NoMemoryReason::OverBudget, 20).breaks_nothing();
}

#[test]
fn i08_a_refusal_asks_to_trim_too_little_or_too_much() {
    pressed().refused(1, 10, NoMemoryReason::OverBudget, 5).breaks_only(I08);
    pressed().refused(1, 10, NoMemoryReason::OverBudget, 15).breaks_only(I08);
    pressed().refused(1, 10, NoMemoryReason::OverBudget, 0).breaks_only(I08);
}

/// P03: a process that trims the requested amount succeeds, whatever reason the refusal gave.
#[test]
fn a_refusal_of_a_list_that_does_not_fit_alone_counts_the_excess_over_the_budget_too() {
    let refused = |to_trim| pressed().refused(0, 50, NoMemoryReason::DoesNotFit, to_trim);
    refused(60).breaks_nothing();
    // Without the other process 10 would be enough.
    refused(10).breaks_only(I08);
}

/// U-34: a shared allocation counts in the list of each device that names it, though its owner is charged already.
#[test]
fn a_device_may_be_refused_an_allocation_that_is_on_its_owners_list() {
    let mut shared = run();
    let allocation = shared.created(0, 60);
    if let Some(Event::AllocationCreated { shared, .. }) = shared.events.last_mut().map(|last| &mut last.event) {
        *shared = true;
    }
    shared.push(Event::AllocationOpened { allocation, device: device_of(1), process: id(1) });
    let (queue, flags, allocations) = (PagingQueueId::from_bits(0), MakeResidentFlags::empty(), vec![allocation]);
    let (device, after_submission, paging_fence_value) = (device_of(0), 0, 1);
    shared.push(Event::MakeResident {
        device,
        queue,
        allocations: allocations.clone(),
        flags,
        after_submission,
        paging_fence_value,
        waiting: allocations.clone(),
    });
    let refused = |pages| {
        let (device, num_bytes_to_trim, reason) = (device_of(1), pages * PAGE_SIZE, NoMemoryReason::OverBudget);
        let (shortages, allocations) = (short_of(SegmentId::SYSTEM, num_bytes_to_trim, reason), allocations.clone());
        Event::MakeResidentRefused { device, allocations, flags, num_bytes_to_trim, reason, shortages }
    };
    let events = shared.events.clone();
    shared.and(refused(0)).breaks_nothing();
    Run { events, ..run() }.and(refused(10)).breaks_only(I08);
}

/// D19: an allocation counts in a memory where it may be.
#[test]
fn i01_an_allocation_is_counted_where_it_may_not_be() {
    let counted = |segment| {
        let mut run = run();
        let allocation = run.created(0, 60);
        run.and(Event::AllocationCounted { allocation, segment, anew: false })
    };
    counted(SegmentId::SYSTEM).breaks_nothing();
    counted(SegmentId(1)).breaks_only(I01);
}

/// Reclaim finds out whether an offered allocation fits again.
#[test]
fn offered_allocations_take_no_room_from_a_list() {
    let mut offered = run().lists(0, 60);
    let (device, allocations) = (device_of(0), vec![AllocationId::from_bits(0)]);
    let (priority, flags) = (OfferPriority::Low, OfferFlags::empty());
    offered.push(Event::Offered { device, allocations, priority, flags, after_submission: 0 });
    offered.refused(0, 130, NoMemoryReason::DoesNotFit, 0).breaks_nothing();
}

#[test]
fn i16_a_list_that_fits_beside_all_others_is_refused() {
    run().lists(0, 60).refused(1, 40, NoMemoryReason::OverBudget, 0).breaks_only(I16);
}

#[test]
fn i16_a_list_within_its_budget_is_refused() {
    run().lists(0, 60).refused(1, 45, NoMemoryReason::OverBudget, 0).breaks_only(I16);
}

#[test]
fn i16_a_list_above_its_budget_is_admitted() {
    pressed().lists(1, 10).breaks_only(I16);
    run().lists(0, 60).lists(1, 60).breaks_only(I16);
}

#[test]
fn a_process_that_cannot_trim_may_have_all_memory_that_is_not_reserved() {
    let last_try = MakeResidentFlags::CANT_TRIM_FURTHER;
    pressed().lists_with(1, 40, last_try).breaks_nothing();
    run().reserves(0, 30).lists(0, 60).lists_with(1, 80, last_try).breaks_only(I16);
    run().reserves(0, 30).lists(0, 60).lists_with(1, 70, last_try).breaks_nothing();
}

#[test]
fn i08_the_maximum_budget_is_the_memory_that_others_have_not_reserved() {
    let reserved = || run().reserves(0, 30).lists(0, 60).lists(1, 20);
    reserved().refused(1, 60, NoMemoryReason::OverMaximumBudget, 10).breaks_nothing();
    reserved().refused(1, 60, NoMemoryReason::OverMaximumBudget, 11).breaks_only(I08);
    reserved().refused(1, 50, NoMemoryReason::OverMaximumBudget, 1).breaks_only(I16);
}

/// RES-13: a process cannot trim unlisted bytes; where all listed bytes would not be enough, a refusal asks for nothing.
#[test]
fn i08_a_refusal_asks_for_more_than_its_process_lists() {
    let refused = |pages, to_trim| run().lists(0, 60).refused(0, pages, NoMemoryReason::DoesNotFit, to_trim);
    refused(100, 60).breaks_nothing();
    refused(101, 0).breaks_nothing();
    refused(101, 61).breaks_only(I08);
    refused(101, 60).breaks_only(I08);
    refused(100, 0).breaks_only(I08);
    pressed().refused(1, 51, NoMemoryReason::OverBudget, 0).breaks_nothing();
    pressed().refused(1, 51, NoMemoryReason::OverBudget, 50).breaks_only(I08);
}

/// D30: the lists of a suspended process impose no budget beyond the reservation.
#[test]
fn a_suspended_process_demands_its_reservation_only() {
    let suspended = |reserved| {
        let suspended = Event::ProcessSuspended { process: id(0), allow_wake_on_submission: false };
        run().reserves(0, reserved).lists(0, 60).and(suspended)
    };
    suspended(0).lists(1, 100).breaks_nothing();
    suspended(30).lists(1, 70).breaks_nothing();
    suspended(30).lists(1, 90).breaks_only(I16);
    let resumed = Event::ProcessResumed { process: id(0), by_submission: false };
    suspended(0).and(resumed).lists(1, 100).breaks_only(I16);
}

#[test]
fn a_list_that_does_not_fit_alone_is_refused_for_that() {
    run().lists(0, 60).refused(0, 50, NoMemoryReason::DoesNotFit, 10).breaks_nothing();
    run().lists(0, 60).refused(0, 50, NoMemoryReason::DoesNotFit, 20).breaks_only(I08);
    run().lists(0, 60).refused(0, 40, NoMemoryReason::DoesNotFit, 10).breaks_only(I16);
}

#[test]
fn a_process_in_focus_may_have_more() {
    let focused = || run().is(1, PriorityBand::Focus, Visibility::Visible).lists(0, 60);
    // The focused process has 16 of 20 parts.
    focused().lists(1, 80).breaks_nothing();
    focused().lists(1, 90).breaks_only(I16);
    focused().lists(1, 50).refused(0, 10, NoMemoryReason::OverBudget, 20).breaks_nothing();
    let hidden = || run().is(1, PriorityBand::Normal, Visibility::Minimized).lists(0, 80);
    hidden().lists(1, 20).breaks_nothing();
    hidden().lists(1, 30).breaks_only(I16);
}

#[test]
fn a_process_with_a_reservation_may_have_more() {
    // The 60 pages above the reservation are shared by halves.
    let reserved = || run().reserves(0, 40).lists(0, 90);
    reserved().lists(1, 30).breaks_nothing();
    reserved().lists(1, 40).breaks_only(I16);
}

#[test]
fn i16_more_than_half_is_reserved() {
    run().reserves(0, 50).breaks_nothing();
    run().reserves(0, 30).reserves(1, 21).breaks_only(I16);
}

#[test]
fn i08_a_refusal_names_the_memory_that_is_short() {
    let refused = || pressed().refused(1, 10, NoMemoryReason::OverBudget, 10);
    refused().breaks_nothing();
    let changed = |change: &dyn Fn(&mut Vec<Shortage>)| {
        let mut run = refused();
        let Some(Event::MakeResidentRefused { shortages, .. }) = run.events.last_mut().map(|last| &mut last.event)
        else {
            panic!("it is refused last")
        };
        change(shortages);
        run
    };
    changed(&|shortages| shortages[0].account.segment = SegmentId(1)).breaks_only(I08);
    changed(&|shortages| shortages.clear()).breaks_only(I08);
    changed(&|shortages| shortages.push(shortages[0])).breaks_only(I08);
}

#[test]
fn i08_evict_answers_with_the_bytes_left_to_trim() {
    let pressed = || run().lists(0, 20).lists(0, 60).lists(1, 50);
    pressed().evicts(0, 0, 10).breaks_nothing();
    pressed().evicts(0, 0, 0).breaks_only(I08);
    pressed().evicts(0, 0, 30).breaks_only(I08);
    run().lists(0, 20).lists(0, 60).evicts(0, 0, 10).breaks_only(I08);
}

#[test]
fn res15_a_device_whose_last_try_fails_is_put_in_error() {
    let failed = |run: Run| {
        let mut run = run;
        let allocations = vec![run.created(1, 80)];
        let (device, flags) = (device_of(1), MakeResidentFlags::all());
        let (reason, num_bytes_to_trim, shortages) = (NoMemoryReason::OverMaximumBudget, 0, Vec::new());
        run.and(Event::MakeResidentRefused { device, allocations, flags, num_bytes_to_trim, reason, shortages })
    };
    let refused = || failed(run().reserves(0, 30).lists(0, 60));
    let error = Event::DeviceInError { device: device_of(1), reason: DeviceErrorReason::OutOfMemory };
    refused().and(error).breaks_nothing();
    refused().lists(0, 1).breaks_only(Res15);
}

#[test]
fn a_process_above_its_budget_is_asked_to_trim() {
    pressed().listens(0).told(0, TrimFlags::TRIM_TO_BUDGET, 10).breaks_nothing();
    pressed().listens(0).told(0, TrimFlags::PERIODIC_TRIM, 0).breaks_nothing();
    pressed().listens(0).told(0, TrimFlags::PERIODIC_TRIM | TrimFlags::TRIM_TO_BUDGET, 10).breaks_nothing();
}

#[test]
fn i08_a_process_is_asked_to_trim_more_than_its_excess() {
    pressed().listens(1).told(1, TrimFlags::TRIM_TO_BUDGET, 10).breaks_only(I08);
    pressed().listens(0).told(0, TrimFlags::TRIM_TO_BUDGET, 20).breaks_only(I08);
    let alone = run().lists(0, 90).and(published(0, 100, 90)).listens(0);
    alone.told(0, TrimFlags::TRIM_TO_BUDGET, 40).breaks_only(I08);
}

#[test]
fn res41_notifications_are_for_registered_devices_and_have_one_meaning() {
    let both = TrimFlags::PERIODIC_TRIM | TrimFlags::RESTART_PERIODIC_TRIM;
    pressed().listens(0).told(0, both, 0).breaks_only(Res41);
    pressed().listens(0).told(0, TrimFlags::empty(), 0).breaks_only(Res41);
    pressed().listens(0).told(0, TrimFlags::TRIM_TO_BUDGET, 0).breaks(&[Res41, I08]);
    let mut swapped = pressed().listens(0).listens(1);
    let (notification, device) = (TrimNotificationId::from_bits(0), device_of(1));
    let flags = TrimFlags::PERIODIC_TRIM;
    swapped.push(Event::TrimNotified { notification, device, flags, group: None, num_bytes_to_trim: 0 });
    swapped.breaks_only(Res41);
}

#[test]
fn res41_a_device_has_a_moment_for_each_request_to_trim() {
    let asked = || pressed().listens(0).told(0, TrimFlags::TRIM_TO_BUDGET, 10);
    asked().later(1000).told(0, TrimFlags::TRIM_TO_BUDGET, 10).breaks_only(Res41);
    let grown = |ms| {
        asked().later(ms).lists_with(0, 1, MakeResidentFlags::CANT_TRIM_FURTHER).told(0, TrimFlags::TRIM_TO_BUDGET, 11)
    };
    grown(999).breaks_only(Res41);
    grown(1000).breaks_nothing();
    let intervals = |run: Run| run.and(Event::TrimIntervalsSet { min: MS, max: MS, idle: MS });
    let soon = |ms| {
        let asked = intervals(pressed().listens(0)).told(0, TrimFlags::TRIM_TO_BUDGET, 10).later(ms);
        asked.lists_with(0, 1, MakeResidentFlags::CANT_TRIM_FURTHER).told(0, TrimFlags::TRIM_TO_BUDGET, 11)
    };
    soon(9).breaks_only(Res41);
    soon(10).breaks_nothing();
}

#[test]
fn res41_a_device_above_its_budget_is_not_asked_to_trim() {
    pressed().listens(0).later(1).reserves(1, 0).breaks_only(Res41);
    let asked = pressed().listens(0).told(0, TrimFlags::TRIM_TO_BUDGET, 10);
    asked.later(1).reserves(1, 0).breaks_nothing();
    let too_late = pressed().listens(0).later(1).told(0, TrimFlags::TRIM_TO_BUDGET, 10);
    too_late.breaks_only(Res41);
}

/// RES-42: what a device did not use while it was suspended it could not use.
#[test]
fn res41_a_period_ends_with_the_wrong_flag_or_at_the_wrong_time() {
    let works = || run().listens(0).submits(0);
    let (trims, restarts) = (TrimFlags::PERIODIC_TRIM, TrimFlags::RESTART_PERIODIC_TRIM);
    works().later(10_000).told(0, trims, 0).breaks_nothing();
    works().later(9_999).told(0, trims, 0).breaks_only(Res41);
    works().later(10_000).told(0, restarts, 0).breaks_only(Res41);
    // Most of the memory is on lists, or it is short.
    let busy = || run().lists(0, 75).listens(0).submits(0);
    busy().later(5_000).told(0, trims, 0).breaks_nothing();
    busy().later(4_999).told(0, trims, 0).breaks_only(Res41);
    pressed().listens(1).submits(1).later(1000).told(1, trims, 0).breaks_nothing();
    let suspended = || {
        let device = device_of(0);
        let yielded = Event::DeviceYielded { device, reason: SuspendReason::PowerDown, wanted_by: None };
        works().and(yielded).and(Event::DeviceSuspended { device })
    };
    suspended().later(10_000).told(0, restarts, 0).breaks_nothing();
    suspended().later(10_000).told(0, trims, 0).breaks_only(Res41);
    works().later(11_001).reserves(1, 0).breaks_only(Res41);
}

/// U-39: a device has its slice, and a moment for each request to trim.
#[test]
fn u39_a_device_yields_before_its_time() {
    pressed().later(99).yields(0, SuspendReason::SliceOver, 1).breaks_only(U39);
    let asked = |ms| {
        let asked = pressed().listens(0).told(0, TrimFlags::TRIM_TO_BUDGET, 10);
        asked.later(ms).yields(0, SuspendReason::IdleOverBudget, 1)
    };
    asked(9).breaks_only(U39);
    asked(10).breaks_nothing();
}

#[test]
fn i28_a_device_that_has_unregistered_is_asked_to_trim() {
    let notification = TrimNotificationId::from_bits(0);
    let gone = pressed().listens(0).and(Event::TrimNotificationUnregistered { notification });
    gone.told(0, TrimFlags::TRIM_TO_BUDGET, 10).breaks(&[I28, Res41]);
}

#[test]
fn i16_a_budget_is_published_that_does_not_follow() {
    pressed().and(published(0, 50, 60)).breaks_nothing();
    // A budget stands until it has moved by 5 %.
    pressed().and(published(0, 52, 60)).breaks_nothing();
    pressed().and(published(0, 54, 60)).breaks_only(I16);
    pressed().and(published(0, 50, 59)).breaks_only(I16);
}

#[test]
fn i16_a_budget_is_published_that_is_for_more_than_others_have_left() {
    let restricted = |pages: Option<u64>| {
        let (group, bytes) = (MemorySegmentGroup::Local, pages.map(|pages| pages * PAGE_SIZE));
        pressed().and(Event::BudgetRestricted { group, bytes })
    };
    restricted(Some(80)).and(published(0, 40, 60)).breaks_nothing();
    restricted(Some(80)).and(published(0, 50, 60)).breaks_only(I16);
    restricted(None).and(published(0, 50, 60)).breaks_nothing();
}

/// U-32: a budget that was told stands no longer for another weight, though it has moved by less than 5 %.
#[test]
fn i16_a_process_is_asked_to_trim_to_a_budget_that_it_was_not_told() {
    let asked = |run: Run| run.listens(0).told(0, TrimFlags::TRIM_TO_BUDGET, 10);
    asked(run().lists(0, 60).lists(1, 50)).breaks_only(I16);
    asked(run().lists(0, 60).lists(1, 50).and(published(0, 52, 60))).breaks_nothing();
    let weighs_less = || run().lists(0, 60).lists(1, 50).and(published(0, 52, 60)).occluded();
    asked(weighs_less()).breaks_only(I16);
    asked(weighs_less().and(published(0, 50, 60))).breaks_nothing();
}

/// U-32: the manager compares budgets when it tells them, which may be any time after a weight has changed.
#[test]
fn a_budget_that_comes_to_be_what_was_told_before_need_not_be_told_for_another_weight() {
    let weighs_less = || run().lists(0, 60).lists(1, 46).and(published(0, 52, 60)).occluded();
    let asked = |run: Run| run.listens(0).told(0, TrimFlags::TRIM_TO_BUDGET, 10);
    asked(weighs_less().lists(1, 2).lists(1, 2)).breaks_nothing();
    asked(weighs_less().lists(1, 4)).breaks_only(I16);
}

#[test]
fn offered_allocations_are_not_demanded() {
    let mut run = run().lists(0, 20).lists(0, 60);
    let (device, allocations) = (device_of(0), vec![AllocationId::from_bits(0)]);
    let (priority, flags) = (OfferPriority::Normal, OfferFlags::empty());
    run.push(Event::Offered { device, allocations, priority, flags, after_submission: 0 });
    let (process, group, budget, requested) = (id(0), MemorySegmentGroup::Local, PAGES * PAGE_SIZE, 60 * PAGE_SIZE);
    run.and(Event::BudgetChanged { process, group, budget, requested }).breaks_nothing();
}

#[test]
fn a_process_above_its_budget_yields() {
    pressed().later(100).yields(0, SuspendReason::SliceOver, 1).breaks_nothing();
    pressed().yields(0, SuspendReason::IdleOverBudget, 1).breaks_nothing();
}

/// Process 0 is above its budget, and process 1 below.
fn innocent() -> Run {
    run().lists(0, 60).lists(1, 45)
}

#[test]
fn p08_a_process_within_its_budget_is_left_alone() {
    innocent().later(100).yields(1, SuspendReason::SliceOver, 0).breaks_only(P08);
    innocent().later(2000).yields(1, SuspendReason::IdleOverBudget, 0).breaks_only(P08);
}

#[test]
fn p08_a_process_within_its_budget_yields_only_to_one_that_starves() {
    innocent().later(999).yields(1, SuspendReason::Starvation, 0).breaks_only(P08);
    innocent().later(1000).yields(1, SuspendReason::Starvation, 0).breaks_nothing();
    innocent().later(1000).yields(1, SuspendReason::Idle, 0).breaks_nothing();
}

#[test]
fn p08_a_process_in_focus_yields_within_its_budget_only_while_it_is_asleep() {
    let focused = || innocent().is(1, PriorityBand::Focus, Visibility::Visible);
    focused().later(2000).yields(1, SuspendReason::Starvation, 0).breaks_only(P08);
    focused().later(249).yields(1, SuspendReason::Asleep, 0).breaks_only(P08);
    focused().later(250).yields(1, SuspendReason::Asleep, 0).breaks_nothing();
    innocent().later(250).yields(1, SuspendReason::Asleep, 0).breaks_only(P08);
}

#[test]
fn p08_reserved_memory_is_never_taken() {
    let reserved = run().reserves(1, 45).lists(0, 60).lists(1, 45).later(2000);
    reserved.yields(1, SuspendReason::Starvation, 0).breaks_only(P08);
    let focused = run().reserves(1, 45).lists(0, 60).lists(1, 45).is(1, PriorityBand::Focus, Visibility::Visible);
    focused.later(2000).yields(1, SuspendReason::Asleep, 0).breaks_only(P08);
}

/// U-31, RES-53: two processes have an allocation to spare, and no budget is imposed. The process with a reservation, or in focus, keeps
/// its allocation, even if the second process has no memory afterwards.
#[test]
fn p08_memory_of_a_reservation_or_of_the_focus_makes_room() {
    let spare = |prepare: fn(Run) -> Run| prepare(run().with_process(2)).has_spare(0, 30).has_spare(2, 30).lists(1, 60);
    let reserved = || spare(|run| run.reserves(0, 30));
    reserved().takes(1, 0, 30).breaks_only(P08);
    reserved().takes(1, 1, 30).breaks_nothing();
    let focused = || spare(|run| run.is(0, PriorityBand::Focus, Visibility::Visible));
    focused().takes(1, 0, 30).breaks_only(P08);
    focused().takes(1, 1, 30).breaks_nothing();
    spare(|run| run).takes(1, 0, 30).breaks_nothing();
}

#[test]
fn devices_of_a_suspended_process_yield_whatever_their_budget() {
    let device = device_of(1);
    let suspended = pressed().and(Event::ProcessSuspended { process: id(1), allow_wake_on_submission: false });
    let reason = SuspendReason::ProcessSuspended;
    suspended.and(Event::DeviceYielded { device, reason, wanted_by: None }).breaks_nothing();
}

impl Run {
    /// Asserts that the audit finds exactly these broken.
    #[track_caller]
    fn breaks(self, invariants: &[Invariant]) {
        let findings = audit(&self.events);
        let all = findings.iter().all(|finding| invariants.contains(&finding.invariant));
        let each = invariants.iter().all(|&one| findings.iter().any(|finding| finding.invariant == one));
        assert!(all && each, "not {invariants:?}: {findings:#?}");
    }
}
