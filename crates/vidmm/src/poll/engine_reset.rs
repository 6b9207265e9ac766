//! Engines that are asked to yield, or reset (6.3): what they give back is handed out again.

use alloc::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    vec::Vec,
};

use crate::{
    contract::{DmaBuffer, EngineFence, Kmd, Packet, ResetEngineError, ReturnedBuffers, SubmitCommand},
    engine::{InFlight, Work},
    error::{DeviceErrorReason, DriverFinding, Violation},
    event::{Event, PreemptReason},
    id::DeviceIx,
    planted::PlantedBug,
    recovery::{Phase, Returned},
    state::{Output, VidMm},
};

/// A packet that is handed out again, and the fence that it had.
type Again = (EngineFence, InFlight, DmaBuffer);

impl VidMm {
    /// An engine has yielded: packets up to `last_completed_fence_id` have ended, the others come back.
    #[doc(alias = "DXGK_INTERRUPT_DMA_PREEMPTED")]
    pub fn handle_preempted(
        &mut self,
        engine: u32,
        preemption_fence_id: u64,
        last_completed_fence_id: u64,
        returned: ReturnedBuffers,
    ) {
        let is_asked = self.engines.get(engine as usize).is_some_and(|engine| {
            (engine.last_answered + 1..=engine.preemption_fence_id).contains(&preemption_fence_id)
                && last_completed_fence_id <= engine.submitted
        });
        if !is_asked || !self.recovery.is_working() {
            return self.report(DriverFinding::PreemptedUnasked { engine, preemption_fence_id });
        }
        let books = &mut self.engines[engine as usize];
        books.last_answered = preemption_fence_id;
        let is_last = books.preemption_fence_id == preemption_fence_id;
        if !self.hears(engine) {
            // It comes too late, but the answer to the reset will not bring them again.
            self.take_in(engine, returned);
            return self.report(DriverFinding::PreemptedUnasked { engine, preemption_fence_id });
        }
        self.events.record(|| Event::Preempted {
            engine,
            preemption_fence_id,
            last_completed_fence_id,
            returned: returned.iter().map(|&(fence_id, _)| fence_id).collect(),
        });
        self.complete_lost(engine, last_completed_fence_id);
        self.take_in(engine, returned);
        // An engine that had nothing under way was not waited for; meanwhile it may have got what it gives back now.
        let phase = self.recovery.engines.entry(engine).or_insert(Phase::Answered);
        if is_last {
            if let Phase::Preempting { .. } = phase {
                *phase = Phase::Answered;
            }
            self.expect_nothing_more(engine);
        }
        self.stirred = true;
    }

    /// The driver has reset an engine, or could not. The last aborted packet did not end, those before it did, those after
    /// it come back (FLT-22).
    #[doc(alias = "DXGKARG_RESETENGINE")]
    pub fn handle_engine_reset(
        &mut self,
        engine: u32,
        result: Result<u64, ResetEngineError>,
        returned: ReturnedBuffers,
    ) {
        let Some(&Phase::Resetting { reason, .. }) = self.recovery.engines.get(&engine) else {
            return self.report(DriverFinding::ResetUnasked { engine });
        };
        if !self.recovery.is_working() {
            return;
        }
        self.stirred = true;
        let last_aborted_fence_id = result.ok();
        self.events.record(|| Event::EngineReset {
            engine,
            last_aborted_fence_id,
            returned: returned.iter().map(|&(fence_id, _)| fence_id).collect(),
        });
        let suspect = self.device_under_way(engine);
        let Some(last_aborted) = last_aborted_fence_id else {
            // It counts among the resets of the adapter, and not among the engine timeouts of a process: whose packet it was
            // stays unsaid (FLT-31).
            let cause = DeviceErrorReason::EngineTimeoutPromotedToAdapterReset;
            return self.begin_adapter_reset_for(cause, suspect.map(|device| (device, reason)));
        };
        let books = &self.engines[engine as usize];
        let (last_completed, last_submitted) = (books.retired, books.submitted);
        if !(last_completed..=last_submitted).contains(&last_aborted) {
            return self.fail(Violation::AbortedFence { engine, last_aborted, last_completed, last_submitted });
        }
        self.statistics.engine_resets += 1;
        // What it was asked before is over.
        self.engines[engine as usize].last_answered = self.engines[engine as usize].preemption_fence_id;
        self.complete_lost(engine, last_aborted.saturating_sub(1));
        // Whose packet hung is known only now: it may not be the first that was not reported. If it has ended after all, its
        // device is in error none the less (FLT-24).
        let guilty = if last_aborted > last_completed { self.device_under_way(engine) } else { suspect };
        self.blame(guilty, reason);
        if let Some(aborted) = self.engines[engine as usize].pop_up_to(last_aborted) {
            let reason = (!self.adapter.has_bug(PlantedBug::CompleteAborted)).then_some(reason);
            self.ended(engine, aborted, reason);
        }
        self.take_in(engine, returned);
        self.expect_nothing_more(engine);
        // An engine that runs answers; one that still hangs is found out before anything is handed to it.
        self.preempt(engine, PreemptReason::AfterReset);
    }

    /// A device is to blame for the reset of an engine.
    fn blame(&mut self, device: Option<DeviceIx>, reason: DeviceErrorReason) {
        let Some(device) = device else { return };
        self.put_device_in_error(device, reason);
        if reason == DeviceErrorReason::EngineTimeout {
            self.note_timeout(device);
        }
    }

    /// Packets up to `fence_id` have ended; what was not reported is an interrupt that was lost.
    fn complete_lost(&mut self, engine: u32, fence_id: u64) {
        let first = self.engines[engine as usize].in_flight.front().map(|packet| packet.fence_id);
        if let Some(expected) = first.filter(|&first| first <= fence_id) {
            self.report(DriverFinding::InterruptLost { found: EngineFence { engine, fence_id }, expected });
            self.complete_up_to(engine, fence_id);
        }
    }

    /// Takes packets in that an engine has not run.
    fn take_in(&mut self, engine: u32, returned: ReturnedBuffers) {
        for (fence_id, buffer) in returned {
            let books = &mut self.engines[engine as usize];
            if let Some(at) = books.in_flight.iter().position(|packet| packet.fence_id == fence_id) {
                let packet = books.in_flight.remove(at).expect("it is there");
                books.running_since = None;
                self.recovery.returned.push(Returned { engine, packet, buffer });
            }
        }
    }

    /// An engine that has answered has nothing left.
    fn expect_nothing_more(&mut self, engine: u32) {
        if let Some(missing) = self.engines[engine as usize].in_flight.front() {
            let missing = EngineFence { engine, fence_id: missing.fence_id };
            self.fail(Violation::PacketNotReturned { missing });
        }
    }

    /// Asks an engine to yield.
    pub(super) fn preempt(&mut self, engine: u32, reason: PreemptReason) {
        let delay = if reason == PreemptReason::Dependent { self.tdr.dependent_delay } else { self.tdr.delay };
        let until = self.now.saturating_add(delay);
        self.recovery.engines.insert(engine, Phase::Preempting { until, reason });
        let books = &mut self.engines[engine as usize];
        books.preemption_fence_id += 1;
        let preemption_fence_id = books.preemption_fence_id;
        self.statistics.preemptions += 1;
        self.events.record(|| Event::PreemptRequested { engine, preemption_fence_id, reason });
        self.outputs.push_back(Output::PreemptCommand { engine, preemption_fence_id });
        self.stirred = true;
    }

    /// An engine is to be reset.
    pub(super) fn condemn(&mut self, engine: u32, reason: DeviceErrorReason) {
        if engine == self.adapter.paging_engine {
            return self.begin_adapter_reset(DeviceErrorReason::PagingEngineTimeout);
        }
        let first = self.engines[engine as usize].in_flight.front().map_or(0, |packet| packet.fence_id);
        self.recovery.engines.insert(engine, Phase::Condemned { reason, first, asked: false });
        self.stirred = true;
    }

    /// One step of the recovery of engines: who must yield too, who is reset, and when all have answered, what runs again.
    #[inline(never)]
    pub(crate) fn recover(&mut self, kmd: &mut dyn Kmd) {
        if self.recovery.engines.is_empty() || !self.recovery.is_working() {
            return;
        }
        self.ask_dependent_engines(kmd);
        self.ask_waiting_engines();
        if self.recovery.engines.values().any(|phase| matches!(phase, Phase::Preempting { .. })) {
            return;
        }
        self.reset_condemned();
        if self.recovery.engines.values().all(|&phase| phase == Phase::Answered) {
            self.dispatch_urgent(kmd);
            self.recovery.engines.clear();
            self.resubmit(kmd);
        }
    }

    /// Engines that a reset harms yield first (FLT-26).
    fn ask_dependent_engines(&mut self, kmd: &mut dyn Kmd) {
        for engine in 0..self.engines.len() as u32 {
            let Some(Phase::Condemned { asked: asked @ false, .. }) = self.recovery.engines.get_mut(&engine) else {
                continue;
            };
            *asked = true;
            let group = kmd.query_dependent_engine_group(engine);
            for other in 0..self.engines.len() as u32 {
                let is_busy = !self.engines[other as usize].in_flight.is_empty();
                if other != engine && group >> other & 1 == 1 && is_busy && !self.recovery.holds(other) {
                    self.preempt(other, PreemptReason::Dependent);
                }
            }
        }
    }

    /// Engines with packets that wait for one which gives its own back yield too: those packets will have other fences.
    fn ask_waiting_engines(&mut self) {
        let mut settled = false;
        while !settled {
            settled = true;
            for engine in 0..self.engines.len() as u32 {
                let mut waits = self.engines[engine as usize].in_flight.iter().flat_map(|packet| &packet.waits);
                let waits_for_held = waits.any(|wait| {
                    self.recovery.holds(wait.engine)
                        && self.engines[wait.engine as usize].retired < wait.fence_id
                        && wait.engine != self.adapter.paging_engine
                });
                if waits_for_held && !self.recovery.holds(engine) {
                    self.preempt(engine, PreemptReason::WaitsForReset);
                    settled = false;
                }
            }
        }
    }

    fn reset_condemned(&mut self) {
        let until = self.now.saturating_add(self.tdr.ddi_delay);
        for engine in 0..self.engines.len() as u32 {
            let Some(&Phase::Condemned { reason, first, .. }) = self.recovery.engines.get(&engine) else { continue };
            if reason == DeviceErrorReason::EngineTimeout && !self.engines[engine as usize].has(first) {
                // It has gone on after all (FLT-22).
                self.recovery.engines.insert(engine, Phase::Answered);
                continue;
            }
            self.recovery.engines.insert(engine, Phase::Resetting { reason, until });
            self.recovery.due_at(until);
            self.events.record(|| Event::EngineResetBegun { engine, reason });
            self.outputs.push_back(Output::ResetEngine { engine });
        }
    }

    /// Hands out again what engines gave back, in the order in which it was: paging buffers with the fences that they had,
    /// others with new ones (FLT-23).
    fn resubmit(&mut self, kmd: &mut dyn Kmd) {
        let mut returned = core::mem::take(&mut self.recovery.returned);
        let paging_engine = self.adapter.paging_engine;
        returned.sort_by_key(|returned| (returned.engine != paging_engine, returned.engine, returned.packet.fence_id));
        let mut renewed = BTreeMap::new();
        let mut again = Vec::new();
        for Returned { engine, mut packet, buffer } in returned {
            let before = EngineFence { engine, fence_id: packet.fence_id };
            if let Some(reason) = self.error_of(&packet) {
                self.ended(engine, packet, Some(reason));
                continue;
            }
            if let Work::User { .. } = packet.work {
                let books = &mut self.engines[engine as usize];
                books.submitted += 1;
                packet.fence_id = books.submitted;
            }
            renewed.insert(before, packet.fence_id);
            again.push((before, packet, buffer));
        }
        for (before, mut packet, buffer) in in_order_of_waits(again) {
            packet.waits.retain_mut(|wait| {
                let is_renewed = renewed.get(wait).map(|&fence_id| wait.fence_id = fence_id).is_some();
                is_renewed || self.engines[wait.engine as usize].has(wait.fence_id)
            });
            self.hand_out_again(kmd, before, packet, buffer);
        }
        self.stirred = true;
    }

    fn hand_out_again(&mut self, kmd: &mut dyn Kmd, before: EngineFence, packet: InFlight, buffer: DmaBuffer) {
        let signal = EngineFence { engine: before.engine, fence_id: packet.fence_id };
        self.rename_signals(&packet, before, signal);
        let (context, paging, dma_buffer_submission_offsets) = match packet.work {
            Work::Paging => (self.builder.system_context, true, None),
            Work::User { context, offsets, .. } => (self.contexts[context].handle, false, offsets),
        };
        let mut preamble = Vec::new();
        let submit = SubmitCommand {
            context,
            node_ordinal: signal.engine,
            submission_fence_id: signal.fence_id,
            paging,
            dma_buffer_submission_offsets,
        };
        kmd.submit_command(&submit, &mut preamble);
        let waits = packet.waits.clone();
        self.events.record(|| Event::Resubmitted { before, signal, waits: waits.clone() });
        self.engines[signal.engine as usize].in_flight.push_back(packet);
        self.outputs.push_back(Output::Submit(Packet { waits, signal, preamble, buffer }));
    }

    /// Why the work of a packet is dropped, if it is.
    fn error_of(&self, packet: &InFlight) -> Option<DeviceErrorReason> {
        let Work::User { context, .. } = packet.work else { return None };
        self.devices[self.contexts[context].device].error
    }

    /// The monitored fences that a packet signals are signalled under its new fence.
    fn rename_signals(&mut self, packet: &InFlight, before: EngineFence, signal: EngineFence) {
        let Work::User { signals, .. } = &packet.work else { return };
        for named in signals {
            for (_, by) in &mut self.monitored_fences[named.fence.ix()].dispatched {
                if *by == before {
                    *by = signal;
                }
            }
        }
    }

    /// The device whose packet an engine runs.
    pub(super) fn device_under_way(&self, engine: u32) -> Option<DeviceIx> {
        let in_flight = &self.engines[engine as usize].in_flight;
        let is_last = self.adapter.has_bug(PlantedBug::BlameLast);
        match if is_last { in_flight.back()? } else { in_flight.front()? }.work {
            Work::Paging => None,
            Work::User { context, .. } => Some(self.contexts[context].device),
        }
    }
}

/// Packets of each engine in their order, and none before one that it waits for (D7).
fn in_order_of_waits(again: Vec<Again>) -> Vec<Again> {
    let mut left: BTreeSet<EngineFence> = again.iter().map(|&(before, ..)| before).collect();
    let mut ordered = Vec::with_capacity(again.len());
    let mut engines: Vec<VecDeque<Again>> = Vec::new();
    for packet in again {
        match engines.last_mut() {
            Some(queue) if queue[0].0.engine == packet.0.engine => queue.push_back(packet),
            _ => engines.push(VecDeque::from([packet])),
        }
    }
    let waits_for_none = |queue: &VecDeque<Again>, left: &BTreeSet<EngineFence>| {
        queue.front().is_some_and(|(_, packet, _)| packet.waits.iter().all(|wait| !left.contains(wait)))
    };
    // What was handed out first of all that is left waits for none of it.
    while let Some(queue) = engines.iter_mut().find(|queue| waits_for_none(queue, &left)) {
        let packet = queue.pop_front().expect("it has a first");
        left.remove(&packet.0);
        ordered.push(packet);
    }
    debug_assert!(left.is_empty(), "packets wait for each other: {left:?}");
    ordered
}
