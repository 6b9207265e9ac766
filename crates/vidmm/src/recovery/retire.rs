//! Retires work by the engines' reports. No driver is called here; the next `poll` does all that follows.

use crate::{
    contract::EngineFence,
    engines::engine::{InFlight, PacketWork},
    event::{Event, error::DriverFinding},
    plans::Plans,
    state::State,
};

/// Whether a packet that an engine reports is one under way. If so, the packets before it have ended.
#[inline(never)]
pub(crate) fn has_missed_interrupts(state: &mut State, plans: &mut Plans, found: EngineFence) -> bool {
    let Some(engine) = state.engines.named(found.engine).filter(|engine| engine.has(found.fence_id)) else {
        let was_submitted = state.engines.named(found.engine).is_some_and(|engine| found.fence_id <= engine.submitted);
        state.moment.report(match was_submitted && found.fence_id > 0 {
            true => DriverFinding::CompletedAgain { found },
            false => DriverFinding::CompletedForeign { found },
        });
        return false;
    };
    let expected = engine.in_flight()[0].fence_id;
    state.moment.report(DriverFinding::InterruptLost { found, expected });
    complete_up_to(state, plans, found.engine, found.fence_id - 1);
    true
}

/// Ends all packets of an engine up to `fence_id`, although their end was not reported: their buffers will not come
/// back.
pub(crate) fn complete_up_to(state: &mut State, plans: &mut Plans, engine: u32, fence_id: u64) {
    while let Some(packet) = state.engines.engines[engine as usize].pop_up_to(fence_id) {
        if matches!(packet.work, PacketWork::Paging { .. }) {
            plans.lose_buffer();
        }
        ended(state, engine, packet, false);
    }
}

/// A packet has left its engine: it has ended, or was aborted, for which its device is over.
pub(crate) fn ended(state: &mut State, engine: u32, packet: InFlight, is_aborted: bool) {
    let signal = EngineFence { engine, fence_id: packet.fence_id };
    state.moment.record(|| if is_aborted { Event::Aborted { signal } } else { Event::Completed { signal } });
    let PacketWork::User { context, submission, signals, .. } = packet.work else { return };
    let context = &mut state.objects[context];
    context.end();
    let device_index = context.device;
    let now = state.moment.now();
    let device = &mut state.objects.devices[device_index];
    device.retirements.end(submission);
    device.turn.note_busy(now);
    state.objects.processes[device.process].stillness.end(now);
    state.shares.settle_list(&mut state.objects, device_index);
    for named in signals {
        let fence = &mut state.objects[named.fence.ix()];
        fence.forget_signal(signal);
        if is_aborted {
            state.objects[device_index].drop_signals([named.fence]);
        } else {
            fence.references -= 1;
            state.objects.raise_fence(&mut state.moment, named.fence, named.value);
        }
    }
    state.objects.signal_dropped(&mut state.moment, device_index);
}
