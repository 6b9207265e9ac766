//! Time limits: packets that run for too long, engines and drivers that do not answer (6.3, 6.4).

use crate::{
    engines::{
        Engines,
        recovering::{AdapterPhase, Phase},
    },
    event::{
        Event, PreemptReason,
        error::{DeviceErrorReason, Violation},
    },
    id::DeviceIx,
    moment::Moment,
    recovery::{adapter_reset, device_error, engine_reset},
    requests::Requests,
    state::State,
    work::Work,
};

/// Acts on the limits that are over, and notes when the next one is.
#[inline(never)]
pub(crate) fn watch(state: &mut State, requests: &mut Requests, work: &mut Work) {
    state.engines.recovery.forget_due();
    if let AdapterPhase::Resetting { until } | AdapterPhase::Restarting { until } = state.engines.recovery.adapter {
        return expect_driver(&mut state.moment, &mut state.engines, until);
    }
    for engine in state.engines.scheduled() {
        if !state.engines.recovery.is_working() {
            return;
        }
        match state.engines.recovery.phase(engine) {
            None if state.engines.engines[engine as usize].in_flight().is_empty() => {}
            None => watch_packet(&mut state.moment, &mut state.engines, engine),
            Some(Phase::Preempting { until, .. }) if state.moment.now() < until => state.engines.recovery.due_at(until),
            Some(Phase::Preempting { reason, .. }) => time_out(state, requests, work, engine, reason),
            Some(Phase::Resetting { until, .. }) => expect_driver(&mut state.moment, &mut state.engines, until),
            Some(Phase::Condemned { .. } | Phase::Answered) => {}
        }
    }
}

/// The driver does not come back from a reset.
fn expect_driver(moment: &mut Moment, engines: &mut Engines, until: u64) {
    if moment.now() < until {
        engines.recovery.due_at(until);
    } else {
        moment.fail(Violation::ResetDoesNotReturn);
    }
}

/// A packet that has run for a quantum is asked to yield. The engine has one.
fn watch_packet(moment: &mut Moment, engines: &mut Engines, engine: u32) {
    let record = &engines.engines[engine as usize];
    let first = &record.in_flight()[0];
    let can_run = first.waits.iter().all(|wait| engines.engines[wait.engine as usize].retired >= wait.fence_id);
    if !can_run {
        engines.engines[engine as usize].wait();
        return;
    }
    let since = engines.engines[engine as usize].run(moment.now());
    let until = since.saturating_add(engines.tdr().quantum);
    if moment.now() < until {
        return engines.recovery.due_at(until);
    }
    engines.preempt(moment, engine, PreemptReason::Quantum);
}

/// Acts on an engine that does not yield: its packet hangs, and its reset shows the guilty device. After a reset it
/// means that the driver has not told the truth.
fn time_out(state: &mut State, requests: &mut Requests, work: &mut Work, engine: u32, asked_for: PreemptReason) {
    let preemption_fence_id = state.engines.engines[engine as usize].preemption_fence_id;
    state.moment.record(|| Event::PreemptTimedOut { engine, preemption_fence_id });
    match asked_for {
        PreemptReason::AfterReset => {
            let cause = DeviceErrorReason::EngineTimeoutPromotedToAdapterReset;
            adapter_reset::begin_adapter_reset(state, requests, work, cause, None);
        }
        PreemptReason::Dependent => {
            engine_reset::condemn(state, requests, work, engine, DeviceErrorReason::DependentEngineReset);
        }
        _ => engine_reset::condemn(state, requests, work, engine, DeviceErrorReason::EngineTimeout),
    }
}

/// A process that hangs engines again and again loses the GPU (FLT-31).
pub(crate) fn note_timeout(state: &mut State, requests: &mut Requests, work: &mut Work, device: DeviceIx) {
    let index = state.objects[device].process;
    let (now, tdr) = (state.moment.now(), state.engines.tdr());
    let standing = &mut state.objects[index].standing;
    standing.timeouts.retain(|&at| now - at < tdr.limit_time);
    standing.timeouts.push_back(now);
    if standing.timeouts.len() < tdr.limit_count as usize || standing.is_blocked {
        return;
    }
    standing.is_blocked = true;
    let process = state.objects.processes.id(index);
    state.moment.record(|| Event::ProcessBlocked { process });
    for device in alloc::vec::Vec::from_iter(state.objects[index].devices.iter().copied()) {
        device_error::put_device_in_error(state, requests, work, device, DeviceErrorReason::ProcessBlocked);
    }
}
