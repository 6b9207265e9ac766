//! The reset of the adapter (6.4): begun, cleaned up, and the GPU restarted.

use alloc::vec::Vec;

use crate::{
    contract::{DmaBuffer, EngineFence, Host, Kmd, RestartError},
    error::{DeviceErrorReason, DriverFinding, Violation},
    event::Event,
    id::DeviceIx,
    planted::PlantedBug,
    recovery::AdapterPhase,
    state::{Output, VidMm},
    turn::Power,
};

impl VidMm {
    /// The adapter is to be reset, and no device is to blame.
    pub(super) fn begin_adapter_reset(&mut self, cause: DeviceErrorReason) {
        self.begin_adapter_reset_for(cause, None);
    }

    /// Nothing less helps: the driver is to stop the GPU. All devices are in error, each is told once (U-43); the one whose packet it
    /// is for, as far as is known, is told what it did. One reset too many within the limit's time stops the adapter for good
    /// (FLT-31).
    pub(super) fn begin_adapter_reset_for(
        &mut self,
        cause: DeviceErrorReason,
        suspect: Option<(DeviceIx, DeviceErrorReason)>,
    ) {
        if !self.recovery.is_working() || self.failed.is_some() {
            return;
        }
        let (now, tdr) = (self.now, self.tdr);
        self.recovery.resets.retain(|&at| now - at < tdr.limit_time);
        let tolerated = usize::from(self.adapter.has_bug(PlantedBug::TolerateReset));
        if self.recovery.resets.len() >= tdr.limit_count as usize + tolerated {
            return self
                .fail(Violation::TooManyResets { resets: tdr.limit_count, seconds: tdr.limit_time / 1_000_000_000 });
        }
        self.recovery.resets.push_back(now);
        self.statistics.adapter_resets += 1;
        self.events.record(|| Event::AdapterResetBegun { cause });
        let owners = self.owners_under_way();
        for device in Vec::from_iter(self.devices.iter().map(|(index, _)| index)) {
            let reason = match (suspect, cause) {
                (Some((suspect, reason)), _) if suspect == device => reason,
                (_, DeviceErrorReason::PagingBufferFault) if owners.contains(&device) => cause,
                _ => DeviceErrorReason::AdapterReset,
            };
            self.put_device_in_error(device, reason);
        }
        self.recovery.adapter = AdapterPhase::Resetting { until: now.saturating_add(tdr.ddi_delay) };
        self.outputs.push_back(Output::ResetFromTimeout);
        self.stirred = true;
    }

    /// The devices that own what paging buffers under way are about (FLT-23).
    fn owners_under_way(&self) -> Vec<DeviceIx> {
        let is_under_way = |last_plan| !self.stream.is_retired(last_plan) && !self.stream.is_parked(last_plan);
        let named = self.allocations.iter().filter(|(_, allocation)| is_under_way(allocation.last_plan));
        named.map(|(_, allocation)| allocation.device).collect()
    }

    /// The driver has stopped the GPU: what its memory segment held is lost, and no packet will end any more. The packets that
    /// it had come back.
    #[doc(alias = "DxgkDdiResetFromTimeout")]
    pub fn handle_reset_from_timeout(&mut self, returned: Vec<(EngineFence, DmaBuffer)>) {
        let AdapterPhase::Resetting { .. } = self.recovery.adapter else {
            return self.report(DriverFinding::AdapterResetUnasked);
        };
        // None is run again: a paging buffer may have begun, and users' devices are in error.
        drop(returned);
        self.recovery.adapter = AdapterPhase::CleaningUp;
        self.stirred = true;
    }

    /// Between reset and restart: whatever was under way is over, and nothing is resident (FLT-32).
    #[inline(never)]
    pub(crate) fn clean_up(&mut self, kmd: &mut dyn Kmd, host: &mut dyn Host) {
        if self.recovery.adapter != AdapterPhase::CleaningUp {
            return;
        }
        // What had ended before the reset has ended.
        self.retire_plans(host);
        self.abort_all();
        self.purge(kmd, host);
        if self.failed.is_some() {
            return;
        }
        self.recovery.adapter = AdapterPhase::Restarting { until: self.now.saturating_add(self.tdr.ddi_delay) };
        self.outputs.push_back(Output::RestartFromTimeout);
    }

    /// No packet is under way any more.
    fn abort_all(&mut self) {
        self.recovery.engines.clear();
        let reason = Some(DeviceErrorReason::AdapterReset);
        for returned in core::mem::take(&mut self.recovery.returned) {
            self.ended(returned.engine, returned.packet, reason);
        }
        for engine in 0..self.engines.len() as u32 {
            while let Some(packet) = self.engines[engine as usize].pop_up_to(u64::MAX) {
                self.ended(engine, packet, reason);
            }
            let books = &mut self.engines[engine as usize];
            books.retired = books.submitted;
            books.last_answered = books.preemption_fence_id;
        }
        self.builder.forget_work();
    }

    /// The driver has started the GPU again, or could not.
    #[doc(alias = "DxgkDdiRestartFromTimeout")]
    pub fn handle_restart_from_timeout(&mut self, result: Result<(), RestartError>) {
        let AdapterPhase::Restarting { .. } = self.recovery.adapter else {
            return self.report(DriverFinding::AdapterResetUnasked);
        };
        if result.is_err() {
            return self.fail(Violation::RestartFailed);
        }
        self.recovery.adapter = AdapterPhase::Working;
        self.events.record(|| Event::AdapterRestarted);
        // Without power they would be lost: they are written when it is back.
        if self.turns.power != Power::Down {
            self.write_all_tables_again();
        }
        self.stirred = true;
    }
}
