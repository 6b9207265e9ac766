//! Time limits: who has run for too long, who does not answer (6.3, 6.4).

use crate::{
    error::{DeviceErrorReason, Violation},
    event::PreemptReason,
    id::DeviceIx,
    recovery::{AdapterPhase, Phase},
    state::VidMm,
};

impl VidMm {
    /// Acts on the limits that are over, and notes when the next one is.
    #[inline(never)]
    pub(crate) fn watch(&mut self) {
        self.recovery.due = None;
        if let AdapterPhase::Resetting { until } | AdapterPhase::Restarting { until } = self.recovery.adapter {
            return self.expect_driver(until);
        }
        for engine in 0..self.engines.len() as u32 {
            if !self.recovery.is_working() {
                return;
            }
            match self.recovery.phase(engine) {
                None if self.engines[engine as usize].in_flight.is_empty() => {}
                None => self.watch_packet(engine),
                Some(Phase::Preempting { until, .. }) if self.now < until => self.recovery.due_at(until),
                Some(Phase::Preempting { reason, .. }) => self.time_out(engine, reason),
                Some(Phase::Resetting { until, .. }) => self.expect_driver(until),
                Some(Phase::Condemned { .. } | Phase::Answered) => {}
            }
        }
    }

    /// The driver does not come back from a reset.
    fn expect_driver(&mut self, until: u64) {
        if self.now < until {
            self.recovery.due_at(until);
        } else {
            self.fail(Violation::ResetDoesNotReturn);
        }
    }

    /// A packet that has run for a quantum is asked to yield. The engine has one.
    fn watch_packet(&mut self, engine: u32) {
        let books = &self.engines[engine as usize];
        let first = &books.in_flight[0];
        let can_run = first.waits.iter().all(|wait| self.engines[wait.engine as usize].retired >= wait.fence_id);
        if !can_run {
            self.engines[engine as usize].running_since = None;
            return;
        }
        let since = *self.engines[engine as usize].running_since.get_or_insert(self.now);
        let until = since.saturating_add(self.tdr.quantum);
        if self.now < until {
            return self.recovery.due_at(until);
        }
        self.preempt(engine, PreemptReason::Quantum);
    }

    /// An engine does not yield: its packet hangs, and who is to blame turns out when it has been reset. After a reset it means that
    /// the driver has not told the truth.
    fn time_out(&mut self, engine: u32, asked_for: PreemptReason) {
        self.stirred = true;
        match asked_for {
            PreemptReason::AfterReset => {
                self.begin_adapter_reset(DeviceErrorReason::EngineTimeoutPromotedToAdapterReset);
            }
            _ => self.condemn(engine, DeviceErrorReason::EngineTimeout),
        }
    }

    /// A process that hangs engines again and again loses the GPU (FLT-31).
    pub(super) fn note_timeout(&mut self, device: DeviceIx) {
        let index = self.devices[device].process;
        let (now, tdr) = (self.now, self.tdr);
        let standing = &mut self.processes[index].standing;
        standing.timeouts.retain(|&at| now - at < tdr.limit_time);
        standing.timeouts.push_back(now);
        if standing.timeouts.len() < tdr.limit_count as usize || standing.is_blocked {
            return;
        }
        standing.is_blocked = true;
        let process = self.processes.id(index);
        self.events.record(|| crate::event::Event::ProcessBlocked { process });
        for device in alloc::vec::Vec::from_iter(self.processes[index].devices.iter().copied()) {
            self.put_device_in_error(device, DeviceErrorReason::ProcessBlocked);
        }
    }
}
