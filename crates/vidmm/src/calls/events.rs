use alloc::vec::Vec;

use crate::{
    contract::{
        DmaBuffer, EngineFence, NotifyInterrupt, PageFaultFlags, ResetEngineError, RestartError, ReturnedBuffers,
    },
    engines::{
        engine::PacketWork,
        recovering::{AdapterPhase, Phase},
    },
    event::{
        Event, PreemptReason,
        error::{DeviceErrorReason, DriverFinding, Violation},
    },
    id::DeviceIx,
    manager::VidMm,
    recovery::{adapter_reset, device_error, engine_reset, faults, retire, watch},
    schedule::power,
    schedule::waiting,
};

/// # Events of the GPU
impl VidMm {
    /// The driver has stopped the GPU: the content of its memory segment is lost, and no packet will end any more. The
    /// packets that it had come back.
    #[doc(alias = "DxgkDdiResetFromTimeout")]
    pub fn handle_reset_from_timeout(&mut self, returned: Vec<(EngineFence, DmaBuffer)>) {
        let AdapterPhase::Resetting { .. } = self.state.engines.recovery.adapter else {
            return self.state.moment.report(DriverFinding::AdapterResetUnasked);
        };
        // No packet is run again: a paging buffer may have begun, and users' devices are in error.
        drop(returned);
        self.state.engines.recovery.adapter = AdapterPhase::CleaningUp;
        self.state.moment.request_poll();
    }

    /// The driver has started the GPU again, or could not.
    #[doc(alias = "DxgkDdiRestartFromTimeout")]
    pub fn handle_restart_from_timeout(&mut self, result: Result<(), RestartError>) {
        let AdapterPhase::Restarting { .. } = self.state.engines.recovery.adapter else {
            return self.state.moment.report(DriverFinding::AdapterResetUnasked);
        };
        if result.is_err() {
            return self.state.moment.fail(Violation::RestartFailed);
        }
        self.state.engines.recovery.adapter = AdapterPhase::Working;
        self.state.moment.record(|| Event::AdapterRestarted);
        // Without power the tables would be lost: they are written when power is back.
        if self.schedule.turns.power != waiting::Power::Down {
            power::write_all_tables_again(&mut self.state, &mut self.plans);
        }
    }

    /// An engine has yielded: packets up to `last_completed_fence_id` have ended, the others come back.
    #[doc(alias = "DXGK_INTERRUPT_DMA_PREEMPTED")]
    pub fn handle_preempted(
        &mut self,
        engine: u32,
        preemption_fence_id: u64,
        last_completed_fence_id: u64,
        returned: ReturnedBuffers,
    ) {
        let is_asked = self.state.engines.named(engine).is_some_and(|engine| {
            (engine.last_answered + 1..=engine.preemption_fence_id).contains(&preemption_fence_id)
                && last_completed_fence_id <= engine.submitted
        });
        if !is_asked || !self.state.engines.recovery.is_working() {
            return self.state.moment.report(DriverFinding::PreemptedUnasked { engine, preemption_fence_id });
        }
        let record = &mut self.state.engines.engines[engine as usize];
        record.answer(preemption_fence_id);
        let is_last = record.preemption_fence_id == preemption_fence_id;
        self.state.moment.record(|| Event::Preempted {
            engine,
            preemption_fence_id,
            last_completed_fence_id,
            returned: returned.iter().map(|&(fence_id, _)| fence_id).collect(),
        });
        if !self.state.engines.hears(engine) {
            // The answer comes too late, but the answer to the reset will not return these packets again.
            engine_reset::take_in(&mut self.state.engines, engine, returned);
            return self.state.moment.report(DriverFinding::PreemptedUnasked { engine, preemption_fence_id });
        }
        engine_reset::complete_lost(&mut self.state, &mut self.plans, engine, last_completed_fence_id);
        engine_reset::take_in(&mut self.state.engines, engine, returned);
        // An engine that had nothing under way was not waited for; meanwhile it may have got the packets that it gives
        // back now.
        let phase = self.state.engines.recovery.engines.entry(engine).or_insert(Phase::Answered);
        if is_last {
            if let Phase::Preempting { .. } = phase {
                *phase = Phase::Answered;
            }
            engine_reset::expect_nothing_more(&mut self.state.moment, &self.state.engines, engine);
        }
        self.state.moment.request_poll();
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
        let Some(&Phase::Resetting { reason, .. }) = self.state.engines.recovery.engines.get(&engine) else {
            return self.state.moment.report(DriverFinding::ResetUnasked { engine });
        };
        if !self.state.engines.recovery.is_working() {
            return;
        }
        let last_aborted_fence_id = result.ok();
        self.state.moment.record(|| Event::EngineReset {
            engine,
            last_aborted_fence_id,
            returned: returned.iter().map(|&(fence_id, _)| fence_id).collect(),
        });
        let Some(last_aborted) = last_aborted_fence_id else {
            let suspect = self.state.engines.device_under_way(&self.state.objects, engine);
            // The reset counts as one of the adapter, and not as an engine timeout of a process: the owner of the
            // packet stays unknown (FLT-31).
            let cause = DeviceErrorReason::EngineTimeoutPromotedToAdapterReset;
            return self.reset_adapter(cause, suspect.map(|device| (device, reason)));
        };
        let record = &self.state.engines.engines[engine as usize];
        let (last_completed, last_submitted) = (record.retired, record.submitted);
        if !(last_completed..=last_submitted).contains(&last_aborted) {
            return self.state.moment.fail(Violation::AbortedFence {
                engine,
                last_aborted,
                last_completed,
                last_submitted,
            });
        }
        // An only engine has gone on to a paging buffer, which is half done.
        if self.state.engines.engines[engine as usize].has_paging(last_aborted) {
            return self.reset_adapter(DeviceErrorReason::EngineTimeoutPromotedToAdapterReset, None);
        }
        self.state.moment.statistics_mut().engine_resets += 1;
        // The engine's earlier requests to yield are over.
        let record = &mut self.state.engines.engines[engine as usize];
        record.answer(record.preemption_fence_id);
        engine_reset::complete_lost(&mut self.state, &mut self.plans, engine, last_aborted.saturating_sub(1));
        // Only now is the packet that hung known: it may not be the first that was not reported. If none was aborted, the first is
        // meant, and its device is in error none the less (FLT-24).
        let guilty = self.state.engines.device_under_way(&self.state.objects, engine);
        if let Some(guilty) = guilty {
            let (state, requests, work) = (&mut self.state, &mut self.requests, &mut self.work);
            device_error::put_device_in_error(state, requests, work, guilty, reason);
            if reason == DeviceErrorReason::EngineTimeout {
                watch::note_timeout(state, requests, work, guilty);
            }
        }
        if let Some(aborted) = self.state.engines.engines[engine as usize].pop_up_to(last_aborted) {
            retire::ended(&mut self.state, engine, aborted, true);
        }
        engine_reset::take_in(&mut self.state.engines, engine, returned);
        engine_reset::expect_nothing_more(&mut self.state.moment, &self.state.engines, engine);
        // An engine that runs answers this request. One that still hangs is found out before it gets any packet.
        self.state.engines.preempt(&mut self.state.moment, engine, PreemptReason::AfterReset);
    }

    /// The driver reports that an engine has stopped at a packet which cannot go on.
    ///
    /// The device that submitted it is in error, and its engine is reset; no other is harmed. If the driver does not
    /// know the packet, the engine's reset names it (FLT-11). A fault in a paging buffer has no guilty device: the
    /// adapter is reset (FLT-23, U-43).
    #[doc(alias = "DxgkCbNotifyInterrupt")]
    pub fn handle_interrupt(&mut self, interrupt: &NotifyInterrupt) {
        let (engine, fence_id) = match *interrupt {
            NotifyInterrupt::DmaPageFaulted(fault) => (fault.node_ordinal, fault.faulted_fence_id),
            NotifyInterrupt::DmaFaulted { faulted_fence_id, node_ordinal } => (node_ordinal, faulted_fence_id),
        };
        if !self.state.engines.hears(engine) {
            return;
        }
        let flags = match interrupt {
            NotifyInterrupt::DmaPageFaulted(fault) => fault.page_fault_flags,
            NotifyInterrupt::DmaFaulted { .. } => PageFaultFlags::empty(),
        };
        if flags.contains(PageFaultFlags::FATAL_HARDWARE_ERROR) {
            return self.state.moment.fail(Violation::FatalHardwareError);
        }
        let resets = PageFaultFlags::ADAPTER_RESET_REQUIRED | PageFaultFlags::ENGINE_RESET_REQUIRED;
        let is_sound = match flags.contains(PageFaultFlags::FENCE_INVALID) {
            true => self.state.engines.named(engine).is_some() && fence_id == 0 && flags.intersects(resets),
            false => self.state.engines.named(engine).is_some_and(|engine| engine.has(fence_id)),
        };
        if !is_sound {
            return self.state.moment.report(DriverFinding::FaultData { engine, fence_id });
        }
        // All packets before this one have ended (FLT-11).
        retire::complete_up_to(&mut self.state, &mut self.plans, engine, fence_id.saturating_sub(1));
        let first = self.state.engines.engines[engine as usize].in_flight().front().map_or(0, |packet| packet.fence_id);
        let signal = EngineFence { engine, fence_id: first };
        let reason = match interrupt {
            NotifyInterrupt::DmaPageFaulted(fault) => {
                faults::record_page_fault(&mut self.state, signal, fault);
                DeviceErrorReason::PageFault { virtual_address: fault.faulted_virtual_address }
            }
            NotifyInterrupt::DmaFaulted { .. } => {
                self.state.moment.record(|| Event::IllegalCommand { signal });
                DeviceErrorReason::IllegalCommand
            }
        };
        if engine_reset::runs_paging(&self.state, engine) {
            // Work that waits for the packet finds it undone, whether it begins or not: it writes nothing that is right.
            if !flags.contains(PageFaultFlags::FENCE_INVALID) {
                self.state.engines.recovery.await_paging_at_most(fence_id.saturating_sub(1));
            }
            return self.reset_adapter(DeviceErrorReason::PagingBufferFault, None);
        }
        let resets_adapter = flags.contains(PageFaultFlags::ADAPTER_RESET_REQUIRED);
        // The first packet of which no end was reported may only have lost its interrupt. The reset of the adapter
        // names no packet, and harms its device in any case.
        let is_known = !flags.contains(PageFaultFlags::FENCE_INVALID) || resets_adapter;
        if let Some(device) = self.state.engines.device_under_way(&self.state.objects, engine).filter(|_| is_known) {
            device_error::put_device_in_error(&mut self.state, &mut self.requests, &mut self.work, device, reason);
        }
        match resets_adapter {
            true => self.reset_adapter(DeviceErrorReason::AdapterReset, None),
            false => engine_reset::condemn(&mut self.state, &mut self.requests, &mut self.work, engine, reason),
        }
    }

    fn reset_adapter(&mut self, cause: DeviceErrorReason, suspect: Option<(DeviceIx, DeviceErrorReason)>) {
        adapter_reset::begin_adapter_reset(&mut self.state, &mut self.requests, &mut self.work, cause, suspect);
    }

    /// An engine has ended the packet that signals `signal`; its buffer comes back.
    ///
    /// Engines end packets in order: all earlier ones of the engine have ended too, and if that was not reported, an interrupt
    /// was lost. A fence that has ended before, or was never handed out, changes nothing. Each is reported as a
    /// [`DriverFinding`] (SYN-13, P47).
    #[doc(alias = "DXGK_INTERRUPT_DMA_COMPLETED")]
    pub fn handle_completed(&mut self, signal: EngineFence, buffer: DmaBuffer) {
        if !self.state.engines.hears(signal.engine) {
            return;
        }
        let first = self.state.engines.named(signal.engine).and_then(|engine| engine.in_flight().front());
        if first.is_none_or(|first| first.fence_id != signal.fence_id)
            && !retire::has_missed_interrupts(&mut self.state, &mut self.plans, signal)
        {
            return;
        }
        let packet =
            self.state.engines.engines[signal.engine as usize].pop_up_to(signal.fence_id).expect("it is under way");
        if matches!(packet.work, PacketWork::Paging { .. }) {
            self.plans.take_back(&self.state.adapter, buffer);
        }
        retire::ended(&mut self.state, signal.engine, packet, false);
    }
}
