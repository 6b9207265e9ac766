//! Devices that yield, are suspended and resumed (RES-71, U-39), and what for.

use vidmm::event::{EvictReason, RequestName, ResumeReason, SuspendReason, WantedBy};
use vidmm::{AllocationId, DeviceId, PlanNo, PriorityBand, ProcessId};

use super::Audit;
use super::allocation::Allocation;
use super::device::{Activity, Device, Period};
use super::dispatch::Dispatch;
use super::engines::Next;
use super::finding::Invariant;
use super::liveness::late;

/// A device within its budget yields to one that has waited so long, in nanoseconds (U-39).
const STARVATION: u64 = 1_000_000_000;

/// The shortest slice of a turn, in nanoseconds (U-39).
const SLICE: u64 = 100_000_000;

/// A slice is also so many times as long as the paging for it took.
const SLICE_PER_PAGING: u64 = 4;

impl Audit {
    pub(super) fn yielded(&mut self, id: DeviceId, reason: SuspendReason, wanted_by: Option<DeviceId>) {
        self.check_may_be_made_to_yield(id, reason, wanted_by);
        self.check_has_had_its_time(id, reason, wanted_by);
        self.check_is_halted(id, reason);
        self.check_is_exchange(id, reason, wanted_by);
        let Some(device) = self.devices.get_mut(&id) else { return };
        if device.is_active() {
            device.activity = Activity::Yielded(self.at);
        }
    }

    /// A device gives its memory away because its process sleeps only if that is so, to another process within its budget; and gives it
    /// back only to one that gave it (D36).
    fn check_is_exchange(&mut self, id: DeviceId, reason: SuspendReason, wanted_by: Option<DeviceId>) {
        let process = self.process_of(id);
        let other = wanted_by.and_then(|other| self.process_of(other));
        let is_so = match reason {
            SuspendReason::Exchange => {
                self.homes.givers.extend(wanted_by.is_some().then_some(id));
                let record = process.and_then(|process| self.processes.get(&process));
                let may_be_above = other.is_none_or(|other| self.is_above_budget(other));
                record.is_some_and(|of| of.stillness.is_asleep(self.at)) && other != process && !may_be_above
            }
            SuspendReason::ExchangeEnds => wanted_by.is_some_and(|other| self.homes.givers.contains(&other)),
            _ => true,
        };
        self.findings
            .check(is_so, Invariant::Res71, || format!("{id} yields as {reason:?} for {wanted_by:?}, which is not so"));
    }

    /// A device yields because its process was suspended only if that is so.
    fn check_is_halted(&mut self, id: DeviceId, reason: SuspendReason) {
        let process = self.process_of(id).and_then(|process| self.processes.get(&process));
        let is_halted = process.is_some_and(|process| process.suspended.is_some());
        self.findings.check(reason != SuspendReason::ProcessSuspended || is_halted, Invariant::Res71, || {
            format!("{id} yields as {reason:?}, but its process runs")
        });
    }

    /// A device is resumed because it has work, or because its list fits again although it has none. Of portions that are not handed out
    /// the log does not say which device has them.
    pub(super) fn check_why_resumed(&mut self, id: DeviceId, reason: ResumeReason) {
        let Some(device) = self.devices.get(&id).filter(|_| !self.adapter.is_physical()) else { return };
        let (requests, works) = (device.next_request().is_some(), !device.undispatched.is_empty());
        let is_so = match reason {
            ResumeReason::HasWork => requests || works,
            ResumeReason::PressureFell => !requests,
        };
        self.findings.check(is_so, Invariant::Res71, || {
            format!("{id} is resumed as {reason:?}; it has asked for something: {requests}, it has work: {works}")
        });
    }

    /// Once all devices of a process that was suspended have stopped, what their lists name is out, whether others want its memory or
    /// not (RES-71, P10): of that, allocations that nobody else may use or see, and that no plan moves. It is decided at once, so
    /// the second time that time passes is late enough.
    pub(super) fn check_suspended_are_out(&mut self) {
        let has_stopped = |id: &ProcessId| {
            let mut devices = self.devices.values().filter(|device| device.process == *id);
            devices.all(|device| matches!(device.activity, Activity::Suspended(_)) || device.is_over())
        };
        let suspended = self.processes.iter().filter(|(_, of)| of.suspended.is_some()).map(|(&id, _)| id);
        let due = late(&mut self.liveness.due_suspended, suspended.filter(has_stopped));
        let Some(id) = due else { return };
        let is_of_stopped = |of: &Allocation| {
            let mut lists = of.lists.iter().filter_map(|(device, entry)| Some((self.devices.get(device)?, entry)));
            self.process_of(of.owner) == Some(id)
                && lists.clone().all(|(device, _)| device.process == id && !device.is_over())
                && lists.any(|(_, entry)| entry.spans().any(|span| span.granted && span.to.is_none()))
        };
        let is_left = |of: &Allocation| {
            let is_free = !of.shared && !of.destroyed && of.cpu_view.is_none() && !of.existing_sys_mem;
            is_free && of.decided.is_some() && self.plans.is_retired(of.last_plan) && is_of_stopped(of)
        };
        let left = self.allocations.iter().find(|(_, of)| is_left(of)).map(|(&allocation, _)| allocation);
        self.findings.check(left.is_none(), Invariant::Res71, || {
            format!(
                "{id} is suspended, and its devices have stopped, but {left:?} on their lists is still in its place"
            )
        });
    }

    /// Only a suspension that allows it ends with a submission.
    pub(super) fn process_resumed(&mut self, id: ProcessId, by_submission: bool) {
        let suspended = self.processes.get_mut(&id).and_then(|process| process.suspended.take());
        let right = suspended.is_some_and(|wakes| wakes || !by_submission);
        self.findings.check(right, Invariant::Res71, || {
            format!("{id} is resumed, by a submission: {by_submission}, but was suspended as {suspended:?}")
        });
    }

    /// A submission ends the suspension of its process, where that allows it, at once (P10).
    pub(super) fn submitted_to_its_process(&mut self, id: DeviceId) {
        let Some(process) = self.process_of(id) else { return };
        if self.processes.get(&process).is_some_and(|process| process.suspended == Some(true)) {
            let why = format!("work of {process} was submitted, which ends its suspension, but it is not resumed");
            self.must_follow(Next::Wake(process), Invariant::Res71, why);
        }
    }

    pub(super) fn suspended(&mut self, id: DeviceId) {
        let running = self.fences.work.values().find(|work| work.device == id).map(|work| work.submission);
        let Some(device) = self.devices.get_mut(&id) else { return };
        self.findings.check(running.is_none(), Invariant::Res71, || {
            format!("{id} is suspended while its submission {} is in flight", running.unwrap_or(0))
        });
        let since = match device.activity {
            Activity::Yielded(at) => at,
            other => {
                self.findings.report(Invariant::Res71, format!("{id} is suspended, but is {other:?}"));
                self.at
            }
        };
        device.activity = Activity::Suspended(since);
        if let Period::Runs { was_suspended, .. } = &mut device.period {
            *was_suspended = true;
        }
        self.keep_writes_of(id);
    }

    pub(super) fn resumed(&mut self, id: DeviceId, plans: &[PlanNo]) {
        self.check_has_power(|| format!("{id} is resumed"));
        let unknown = plans.iter().find(|&&plan| !self.plans.is_decided(plan));
        self.findings
            .check(unknown.is_none(), Invariant::Log, || format!("{id} waits for {unknown:?}, which is not decided"));
        // Allocations that were brought in for it are no request's.
        self.taken = Default::default();
        let Some(device) = self.devices.get_mut(&id) else { return };
        let suspended = self.processes.get(&device.process).is_some_and(|process| process.suspended.is_some());
        self.findings
            .check(!suspended, Invariant::Res71, || format!("{id} is resumed, but its process is suspended (P10)"));
        (device.resumed_at, device.began_at) = (self.at, self.at);
        let was = std::mem::take(&mut device.activity);
        // A device that only yielded may still wait for the plans of its last turn.
        if matches!(was, Activity::Suspended(_)) {
            device.resumed_by.clear();
        }
        device.resumed_by.extend(plans);
        self.findings
            .check(was != Activity::Active, Invariant::Res71, || format!("{id} is resumed, but did not yield"));
    }

    /// Work is let go: its device runs, and what brings its list back after a suspension is in (I06). A device that yielded ends
    /// the DMA buffers that it has begun.
    pub(super) fn check_runs(&mut self, dispatch: Dispatch, portion: Option<u32>) {
        self.check_has_power(|| format!("submission {} of {} is dispatched", dispatch.submission, dispatch.device));
        let Some(device) = self.devices.get_mut(&dispatch.device) else { return };
        let activity = device.activity;
        let is_begun = portion.is_some_and(|portion| portion > 0);
        let process = self.processes.get(&device.process);
        let suspended = process.is_some_and(|process| process.suspended.is_some());
        let runs = device.is_active() && !suspended || device.requires_its_list() && is_begun;
        self.findings.check(runs, Invariant::Res71, || {
            format!(
                "submission {} of {} is dispatched, but that is {activity:?}; its process is suspended: {suspended}",
                dispatch.submission, dispatch.device
            )
        });
        let cut_by = process.map_or(0, |process| process.cut_by);
        device.resumed_by.retain(|&plan| !self.plans.is_retired(plan));
        for plan in device.resumed_by.clone() {
            self.check_gate(dispatch, plan);
        }
        self.check_gate(dispatch, cut_by);
    }

    /// A device is made to yield for another process only if its own is above its budget, or the other has waited for long. For the
    /// latter a process that asks for no more than it has reserved never does, and one in band Focus or Dwm only while it is asleep
    /// (P08, RES-44, RES-52, RES-71). A device that is in error, or waits for work of others itself, holds nobody up.
    fn check_may_be_made_to_yield(&mut self, id: DeviceId, reason: SuspendReason, wanted_by: Option<DeviceId>) {
        let for_another = matches!(
            reason,
            SuspendReason::IdleOverBudget
                | SuspendReason::SliceOver
                | SuspendReason::Idle
                | SuspendReason::Asleep
                | SuspendReason::Starvation
        );
        let (Some(device), Some(other)) = (self.devices.get(&id), wanted_by.and_then(|id| self.devices.get(&id)))
        else {
            return;
        };
        let process = device.process;
        if !for_another || device.is_over() || other.process == process || !self.is_within_budget(process) {
            return;
        }
        let said = matches!(reason, SuspendReason::IdleOverBudget | SuspendReason::SliceOver);
        let record = self.processes.get(&process);
        let band = record.map_or(PriorityBand::Normal, |process| process.weight.band);
        let is_reserved = self.is_reserved(process);
        // A device whose list has ranges may find no place, however little it needs.
        let may_find_no_place = wanted_by.is_some_and(|other| self.lists_ranges(other));
        let protected = (band != PriorityBand::Normal || is_reserved) && !device.is_blocked() && !may_find_no_place;
        let waited = self.waited(other);
        let may_yield = match reason {
            SuspendReason::Asleep => {
                !is_reserved && band != PriorityBand::Normal && record.is_some_and(|of| of.stillness.is_asleep(self.at))
            }
            _ => !said && !protected && waited >= STARVATION,
        };
        self.findings.check(may_yield, Invariant::P08, || {
            format!(
                "{id} yields as {reason:?} to {wanted_by:?}, which has waited for {waited} ns, but {process} is within its budget, in \
                 band {band:?}"
            )
        });
    }

    /// A device is said to wait behind another that need not yield to it, once it has waited for long (P08).
    pub(super) fn held_up(&mut self, id: DeviceId, behind: DeviceId, since: u64) {
        let Some(waited) = self.devices.get(&id).map(|device| self.waited(device)) else { return };
        let told = self.at.saturating_sub(since);
        self.findings.check(STARVATION <= told && told <= waited, Invariant::P08, || {
            format!("{id} is said to have waited for {told} ns behind {behind}, but has for {waited} ns")
        });
        let process = self.process_of(behind).and_then(|process| self.processes.get(&process));
        let process = process.filter(|of| of.reservations.is_empty() && of.group_reservations.is_empty());
        let is_normal = process.is_some_and(|of| of.weight.band == PriorityBand::Normal);
        let is_asleep = process.is_some_and(|of| of.stillness.is_asleep(self.at));
        self.findings.check(!is_normal && !is_asleep, Invariant::P08, || {
            format!("{id} waits behind {behind}, which is not in the foreground, or asleep, and has reserved nothing")
        });
    }

    /// A device that has something to run runs for its slice, at least for the shortest, before it yields to another. A device of a
    /// process that is above its budget has a moment for each request to trim, unless another has waited for long (U-30).
    fn check_has_had_its_time(&mut self, id: DeviceId, reason: SuspendReason, wanted_by: Option<DeviceId>) {
        let Some(device) = self.devices.get(&id).filter(|device| !device.is_over()) else { return };
        let (is_busy, is_above) = match reason {
            SuspendReason::SliceOver => (true, true),
            SuspendReason::Starvation => (true, false),
            SuspendReason::IdleOverBudget => (false, true),
            SuspendReason::Idle => (false, false),
            _ => return,
        };
        let is_back = device.resumed_by.iter().all(|&plan| self.plans.is_retired(plan));
        let ran = self.at.saturating_sub(device.began_at);
        let paged = device.began_at.saturating_sub(device.resumed_at);
        let slice = SLICE.max(paged.saturating_mul(SLICE_PER_PAGING));
        self.findings.check(!is_busy || is_back && ran >= slice, Invariant::U39, || {
            format!("{id} yields as {reason:?}, but has run for {ran} ns of {slice}; its list is back: {is_back}")
        });
        self.findings.check(is_busy || device.is_still(), Invariant::U39, || {
            format!("{id} yields as {reason:?}, but work of it is in flight")
        });
        let other = wanted_by.and_then(|id| self.devices.get(&id));
        let is_starved = other.is_some_and(|other| self.waited(other) >= STARVATION);
        let until = self.trims_until(id);
        self.findings.check(!is_above || is_starved || self.at >= until, Invariant::U39, || {
            format!("{id} yields as {reason:?} to {wanted_by:?}, but has time to trim until {until} ns")
        });
    }

    /// The nanoseconds that a device has waited: 0 if it waits for nothing.
    fn waited(&self, device: &Device) -> u64 {
        device.waits_since().map_or(0, |since| self.at.saturating_sub(since))
    }

    /// Whether a device's list has an allocation that is one range: without GPU virtual addresses every allocation is (SEG-13).
    fn lists_ranges(&self, id: DeviceId) -> bool {
        let is_range = |allocation: &Allocation| allocation.accessed_physically && allocation.lists.contains_key(&id);
        self.adapter.is_physical() || self.allocations.values().any(is_range)
    }

    /// Room is made for a device that waits for a grant or for its turn, or whose process waits for its root table.
    pub(super) fn check_wanted(&mut self, id: AllocationId, reason: EvictReason, wanted_by: Option<WantedBy>) {
        let Some(WantedBy { device: wanted_by, request, allocation }) = wanted_by else { return };
        let Some(device) = self.devices.get(&wanted_by) else { return };
        let next =
            device.next_request().map(|next| RequestName { queue: next.queue, paging_fence_value: next.fence_value });
        self.findings.check(request.is_none() || request == next, Invariant::Res71, || {
            format!("{id} is taken out for {request:?}, but the next request of {wanted_by} is {next:?}")
        });
        let has_place = |of: &AllocationId| self.allocations.get(of).is_some_and(|of| of.decided.is_some());
        let in_place = allocation.filter(has_place);
        self.findings.check(in_place.is_none(), Invariant::Res71, || {
            format!("{id} is taken out for {in_place:?}, which has its place")
        });
        let rootless = self.processes.get(&device.process).is_some_and(|process| process.root.is_none());
        // An allocation that comes home leaves its place first.
        let comes_home = allocation.is_some_and(|of| {
            [EvictReason::Promoted, EvictReason::Moved]
                .into_iter()
                .any(|reason| self.coming_back.contains(&(of, reason)))
        });
        let waits = device.next_request().is_some() || !device.is_active() || rootless || comes_home;
        self.findings.check(waits, Invariant::Res71, || {
            format!("{id} is taken out as {reason:?} for {wanted_by}, which waits for nothing")
        });
    }
}
