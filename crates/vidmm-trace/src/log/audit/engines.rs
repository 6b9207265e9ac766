//! Engines that yield or are reset: what they have ends, is aborted or comes back (I30, FLT-22, FLT-23).

use vidmm::contract::EngineFence;
use vidmm::event::{Neighbour, PreemptReason};
use vidmm::{AllocationId, DeviceErrorReason, DeviceId, Event, GpuVirtualAddress, ProcessId};

use super::Audit;
use super::allocation::Mapping;
use super::device::Device;
use super::finding::Invariant;

/// The step that the manager must take next, and why.
#[derive(Debug)]
pub(super) struct Consequence {
    next: Next,
    invariant: Invariant,
    why: String,
}

/// A step that follows at once from the one before.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Next {
    /// The adapter stops.
    Stop,
    /// It stops, or is reset.
    Reset,
    /// A device is put in error.
    Fail(DeviceId),
    /// A process that was suspended goes on.
    Wake(ProcessId),
}

impl Audit {
    /// A page fault is told with the allocation that is mapped at its address, and with the nearest mappings beside that: their ends
    /// are next to it. Of mappings that were cut the log says no more.
    pub(super) fn check_fault(
        &mut self,
        signal: EngineFence,
        GpuVirtualAddress(address): GpuVirtualAddress,
        allocation: Option<AllocationId>,
        neighbours: [Option<Neighbour>; 2],
    ) {
        let device = self.fences.work.get(&signal).map(|work| work.device);
        let Some(process) = device.and_then(|id| self.process_of(id)) else { return };
        let at = self.mappings_within(process, address, address.saturating_add(1)).next().copied();
        self.findings.check(at.map(|mapping| mapping.allocation) == allocation, Invariant::Flt03, || {
            format!("{allocation:?} is said to be mapped at {address:#x} of {process}, but that is {at:?}")
        });
        let (start, end) = at.map_or((address, address), |mapping| (mapping.virtual_address, mapping.end()));
        let before = self.mappings.range((process, 0)..(process, start)).next_back();
        let after = self.mappings.range((process, end)..=(process, u64::MAX)).next();
        let right = [
            before.map(|(_, mapping)| (mapping.allocation, mapping.end())),
            after.map(|(_, mapping)| (mapping.allocation, mapping.virtual_address)),
        ];
        let [below, above] = neighbours;
        let told = [
            below.map(|of| (of.allocation, of.virtual_address.0.saturating_add(of.size))),
            above.map(|of| (of.allocation, of.virtual_address.0)),
        ];
        let is_rest = |of: &Mapping| at.is_some_and(|at| at.allocation == of.allocation);
        let is_cut = before.is_some_and(|(_, of)| is_rest(of) && of.end() == start)
            || after.is_some_and(|(_, of)| is_rest(of) && of.virtual_address == end);
        self.findings.check(is_cut || told == right, Invariant::Flt03, || {
            format!("{told:?} are said to be next to {address:#x} of {process}, but {right:?} are")
        });
    }

    /// An engine cannot go on with the first packet that it has. It has not ended. Only where the driver says that it knows of no packet
    /// may there be none (FLT-11).
    pub(super) fn stopped(&mut self, signal: EngineFence, may_be_none: bool) {
        self.findings.check(may_be_none || signal.fence_id > 0, Invariant::I30, || {
            format!("engine {} stops at a packet, but has none", signal.engine)
        });
        if let Some(work) = self.fences.work.get(&signal) {
            self.blamed.insert(work.device);
        }
        let Some(engine) = self.fences.engine_mut(signal.engine) else { return };
        let first = engine.in_flight.front().copied().unwrap_or(0);
        engine.stopped = true;
        self.findings.check(first == signal.fence_id, Invariant::I30, || {
            format!(
                "engine {} stops at packet {}, but the first that it has is {first}",
                signal.engine, signal.fence_id
            )
        });
    }

    pub(super) fn preempt_requested(&mut self, id: u32, number: u64, reason: PreemptReason) {
        let at = self.at;
        let Some(engine) = self.fences.engine_mut(id) else { return };
        let next = engine.preemptions.saturating_add(1);
        self.findings.check(number == next, Invariant::Log, || {
            format!("engine {id} is asked to yield with number {number}, but the next is {next}")
        });
        self.findings.check(engine.reset_for.is_none(), Invariant::I30, || {
            format!("engine {id} is asked to yield as {reason:?} while it is reset")
        });
        if let Some(quantum) = self.adapter.tdr_quantum.filter(|_| reason == PreemptReason::Quantum) {
            let since = engine.running.map_or(at, |(_, since)| since);
            self.findings.check(at >= since.saturating_add(quantum), Invariant::Flt22, || {
                format!("engine {id} is asked to yield at {at}, but its packet runs since {since}, and a quantum is {quantum} ns")
            });
        }
        engine.preemptions = number.max(engine.preemptions);
        (engine.asked, engine.is_to_yield) = (true, true);
        engine.dependent_since = (reason == PreemptReason::Dependent).then_some(at);
    }

    /// Engines that the reset of another harms were asked to yield before it begins (FLT-26).
    pub(super) fn check_dependents_yield(&mut self, id: u32, dependents: &[u32]) {
        let is_unasked = |dependent: &&u32| {
            let engine = self.fences.engine(**dependent);
            // An engine that is being reset itself runs nothing, also where it has answered too late.
            let runs = |engine: &super::fences::Engine| {
                !engine.in_flight.is_empty() && !engine.stopped && engine.reset_for.is_none()
            };
            engine.is_some_and(|engine| runs(engine) && !engine.asked)
        };
        let unasked = dependents.iter().find(is_unasked);
        self.findings.check(unasked.is_none(), Invariant::Flt26, || {
            format!("engine {id} is reset, which harms engine {unasked:?}, but that was not asked to yield")
        });
    }

    pub(super) fn preempted(&mut self, id: u32, number: u64, last_completed: u64, returned: &[u64]) {
        let Some(engine) = self.fences.engine_mut(id) else { return };
        // It may come late, when the engine is asked again already, or is reset (FLT-22).
        let is_answer = engine.answered < number && number <= engine.preemptions;
        engine.answered = number.max(engine.answered);
        engine.asked &= number != engine.preemptions;
        engine.is_to_yield &= number != engine.preemptions;
        self.findings.check(is_answer, Invariant::I30, || {
            format!("engine {id} answers request {number}, which it was not asked, or had answered")
        });
        let submitted = engine.submitted;
        self.findings.check(last_completed <= submitted, Invariant::I30, || {
            format!("engine {id} says that packet {last_completed} was the last to end, but {submitted} was the last")
        });
        if self.fences.engine_mut(id).is_some_and(|engine| engine.reset_for.is_some()) {
            // The answer to the reset says what has ended, and settles the rest.
            return self.take_back(id, 0, returned);
        }
        self.take_back(id, last_completed, returned);
        self.settling = Some(id);
    }

    /// The request has not ended before.
    pub(super) fn preempt_timed_out(&mut self, id: u32, number: u64) {
        let Some(engine) = self.fences.engine_mut(id) else { return };
        if let Some((since, delay)) = engine.dependent_since.zip(self.adapter.tdr_dependent_delay) {
            let waited = self.at.saturating_sub(since);
            self.findings.check(waited >= delay && waited / 2 < delay, Invariant::Flt26, || {
                format!("engine {id}, which a reset harms, had {waited} ns to yield, but {delay} ns are for it")
            });
        }
        engine.hung = engine.in_flight.front().copied();
        let has_ended = !std::mem::take(&mut engine.is_to_yield);
        let last = engine.preemptions;
        self.findings.check(!has_ended && number == last, Invariant::I30, || {
            format!("request {number} of engine {id} to yield was not answered in time, but it has ended; the last is {last}")
        });
    }

    /// Packets came back that an engine has not run.
    fn take_back(&mut self, id: u32, last: u64, returned: &[u64]) {
        let Some(engine) = self.fences.engine_mut(id) else { return };
        // Of what has ended only the buffer comes back; what it never had is nothing to anybody.
        for &packet in returned.iter().filter(|&&packet| packet > last) {
            if engine.in_flight.contains(&packet) {
                engine.in_flight.retain(|&other| other != packet);
                engine.returned.push(packet);
            }
        }
    }

    /// A packet that an engine did not give back when it yielded, or was reset, has ended or was aborted; else the adapter stops.
    pub(super) fn check_settled(&mut self, event: &Event) {
        let settles = matches!(
            event,
            Event::Completed { .. }
                | Event::Aborted { .. }
                | Event::MonitoredFenceSignaled { .. }
                | Event::DeviceInError { .. }
                | Event::ProcessBlocked { .. }
                | Event::DriverFinding { .. }
        );
        if settles {
            return;
        }
        let Some(id) = self.settling.take() else { return };
        self.check_blocked();
        let left = self.fences.engine_mut(id).and_then(|engine| engine.in_flight.front().copied());
        let stops = matches!(event, Event::AdapterInError { .. });
        self.findings.check(left.is_none() || stops, Invariant::I30, || {
            format!("engine {id} has yielded or was reset, but its packet {left:?} neither ended nor came back")
        });
    }

    pub(super) fn engine_reset_begun(&mut self, id: u32, reason: DeviceErrorReason) {
        let first = self.fences.engine_mut(id).and_then(|engine| engine.in_flight.front().copied());
        let runs_work =
            first.is_some_and(|fence_id| self.fences.work.contains_key(&EngineFence { engine: id, fence_id }));
        self.findings.check(id != self.fences.paging_engine || runs_work, Invariant::Flt23, || {
            format!("the paging engine is reset as {reason:?}; its reset is that of the adapter")
        });
        let Some(engine) = self.fences.engine_mut(id) else { return };
        engine.reset_for = Some(reason);
        let is_harmed = engine.dependent_since.is_some();
        self.findings.check(!is_harmed || reason != DeviceErrorReason::EngineTimeout, Invariant::Flt26, || {
            format!("engine {id}, which the reset of another harms, is reset for a timeout of its own")
        });
        let is_late = matches!(reason, DeviceErrorReason::EngineTimeout | DeviceErrorReason::DependentEngineReset);
        self.findings.check(!is_late || engine.hangs(), Invariant::Flt22, || {
            format!("engine {id} is reset as {reason:?}, but the packet {:?} that was too slow has ended", engine.hung)
        });
        let has_cause = engine.stopped || engine.asked;
        self.findings.check(has_cause, Invariant::I12, || {
            format!("engine {id} is reset as {reason:?}, but has neither stopped nor failed to yield")
        });
    }

    pub(super) fn engine_reset(&mut self, id: u32, last_aborted: Option<u64>, returned: &[u64]) {
        let Some(engine) = self.fences.engine_mut(id) else { return };
        let reason = engine.reset_for;
        // Earlier requests to it are over, unless it could not be reset: then it may still answer them, too late.
        if last_aborted.is_some() {
            (engine.answered, engine.reset_for) = (engine.preemptions, None);
        }
        (engine.stopped, engine.asked, engine.aborted) = (false, false, last_aborted);
        engine.is_to_yield = false;
        let (completed, submitted) = (engine.completed, engine.submitted);
        self.findings.check(reason.is_some(), Invariant::I30, || format!("engine {id} was reset, which had not begun"));
        // Whose packet it was is to blame; without one, whose was the first that was under way (FLT-24).
        let first = engine.in_flight.front().copied();
        let hung = last_aborted.filter(|&aborted| aborted > completed).or(first);
        let hung = hung.and_then(|fence_id| self.fences.work.get(&EngineFence { engine: id, fence_id }));
        let hung = hung.map(|work| work.device);
        self.blamed.extend(hung);
        let Some(last_aborted) = last_aborted else {
            self.suspect = hung.zip(reason);
            let why = format!("the reset of engine {id} failed, but the adapter is not reset");
            return self.must_follow(Next::Reset, Invariant::I30, why);
        };
        if !(completed..=submitted).contains(&last_aborted) {
            let why =
                format!("engine {id} aborted packet {last_aborted}, which is not from {completed} to {submitted}");
            return self.must_follow(Next::Stop, Invariant::Flt22, why);
        }
        let aborted = EngineFence { engine: id, fence_id: last_aborted };
        if self.fences.has(aborted) && self.fences.is_paging(aborted) {
            let why = format!("the reset of engine {id} aborted a paging buffer, but the adapter is not reset");
            return self.must_follow(Next::Reset, Invariant::Flt23, why);
        }
        self.take_back(id, last_aborted, returned);
        self.settling = Some(id);
        if reason == Some(DeviceErrorReason::EngineTimeout) {
            hung.into_iter().for_each(|device| self.note_timeout(device));
        }
    }

    /// The manager does what it must. An adapter is put in error once.
    pub(super) fn check_consequence(&mut self, event: &Event) {
        let Some(Consequence { next, invariant, why }) = self.consequence.take() else { return };
        let follows = match (next, event) {
            (Next::Fail(id), event) => matches!(event, Event::DeviceInError { device, .. } if *device == id),
            // A DMA buffer on a device with a list is rendered, and then submitted, which asks for the same.
            (Next::Wake(_), Event::Submitted { .. }) => true,
            (Next::Wake(id), event) => matches!(event, Event::ProcessResumed { process, .. } if *process == id),
            (Next::Reset, Event::AdapterResetBegun { .. }) | (_, Event::AdapterInError { .. }) => true,
            _ => self.has_failed,
        };
        self.findings.check(follows, invariant, || why);
    }

    /// This must follow at once.
    pub(super) fn must_follow(&mut self, next: Next, invariant: Invariant, why: String) {
        self.consequence = Some(Consequence { next, invariant, why });
    }

    /// A packet has left its engine without having ended. All that it would have signalled goes to the maximum when nothing
    /// of its device is in flight (FLT-33).
    pub(super) fn aborted(&mut self, signal: EngineFence) {
        let is_reset = self.reset.is_some();
        let engine = self.fences.engine_mut(signal.engine);
        let came_back = engine.as_ref().is_some_and(|engine| engine.returned.contains(&signal.fence_id));
        let by_reset = engine.is_some_and(|engine| engine.aborted == Some(signal.fence_id));
        let Some(work) = self.fences.abort(signal, &mut self.findings) else { return };
        self.retire_work(&work);
        let is_over = self.devices.get(&work.device).is_none_or(Device::is_over);
        self.findings.check(is_reset || by_reset && !came_back || came_back && is_over, Invariant::I12, || {
            format!("{signal:?} of {} is aborted, but was neither running at a reset nor is that in error", work.device)
        });
        if !came_back && !is_reset {
            self.blamed.insert(work.device);
            self.check_nobody_waits(signal);
        }
        self.owe_dropped(work.device, work.signals.into_iter().map(|(fence, _)| fence));
    }

    /// No packet of an engine waits for a fence that will never be signalled. In an adapter in error engines are left as they are.
    fn check_nobody_waits(&mut self, signal: EngineFence) {
        let waits = |(&packet, work): (&EngineFence, &super::fences::Work)| {
            // A fault counts as a signal for who waits (FLT-11), who may have begun, and stopped as well.
            let has_stopped = self.fences.has_stopped(packet.engine);
            (work.waits.contains(&signal) && self.fences.has(packet) && !has_stopped).then_some(packet)
        };
        let waiting = self.fences.work.iter().find_map(waits);
        self.findings.check(waiting.is_none() || self.has_failed, Invariant::I30, || {
            format!("{signal:?} is aborted, but {waiting:?} is under way and waits for it")
        });
    }
}
