//! The reset of the adapter (6.4): begun, cleaned up, and the GPU restarted.

use alloc::{collections::BTreeSet, vec::Vec};

use crate::{
    contract::{Host, Kmd},
    engines::{engine::PacketWork, recovering::AdapterPhase},
    event::{
        Event,
        error::{DeviceErrorReason, Violation},
    },
    id::DeviceIx,
    moment::Output,
    plans::Plans,
    recovery::{device_error, purge, retire},
    requests::Requests,
    state::State,
    work::Work,
};

/// Begins a reset of the adapter: the driver is to stop the GPU. All devices are in error, each is told once (U-43);
/// the suspect, if there is one, is told its own fault. One reset too many within the limit's time stops the adapter for good (FLT-31).
pub(crate) fn begin_adapter_reset(
    state: &mut State,
    requests: &mut Requests,
    work: &mut Work,
    cause: DeviceErrorReason,
    suspect: Option<(DeviceIx, DeviceErrorReason)>,
) {
    if !state.engines.recovery.is_working() || state.moment.has_failed() {
        return;
    }
    let (now, tdr) = (state.moment.now(), state.engines.tdr());
    state.engines.recovery.resets.retain(|&at| now - at < tdr.limit_time);
    if state.engines.recovery.resets.len() >= tdr.limit_count as usize {
        return state
            .moment
            .fail(Violation::TooManyResets { resets: tdr.limit_count, seconds: tdr.limit_time / 1_000_000_000 });
    }
    state.engines.recovery.resets.push_back(now);
    state.moment.statistics_mut().adapter_resets += 1;
    state.moment.record(|| Event::AdapterResetBegun { cause });
    let owners = owners_of_first_paging_packet(state);
    for device in Vec::from_iter(state.objects.devices.iter().map(|(index, _)| index)) {
        let reason = match (suspect, cause) {
            (Some((suspect, reason)), _) if suspect == device => reason,
            (_, DeviceErrorReason::PagingBufferFault) if owners.contains(&device) => cause,
            _ => DeviceErrorReason::AdapterReset,
        };
        device_error::put_device_in_error(state, requests, work, device, reason);
    }
    state.engines.recovery.adapter = AdapterPhase::Resetting { until: now.saturating_add(tdr.ddi_delay) };
    state.moment.hand_out(Output::ResetFromTimeout);
}

/// The owners of the allocations that the paging buffer which runs names (FLT-23).
fn owners_of_first_paging_packet(state: &State) -> Vec<DeviceIx> {
    let first = state.engines.paging_engine(&state.adapter).in_flight().front();
    let Some(PacketWork::Paging { allocations: named }) = first.map(|packet| &packet.work) else { return Vec::new() };
    let named = BTreeSet::from_iter(named);
    let allocations = state.objects.allocations.iter().filter(|(_, allocation)| named.contains(&allocation.handle));
    allocations.map(|(_, allocation)| allocation.device).collect()
}

/// Cleans up between reset and restart: all packets and plans are over, and nothing is resident (FLT-32).
#[inline(never)]
pub(crate) fn clean_up(state: &mut State, plans: &mut Plans, kmd: &mut dyn Kmd, host: &mut dyn Host) {
    if state.engines.recovery.adapter != AdapterPhase::CleaningUp {
        return;
    }
    end_all(state, plans, host);
    purge::purge_driver(state, plans, kmd);
    purge::clear(state, plans, host);
    if state.moment.has_failed() {
        return;
    }
    state.engines.recovery.adapter =
        AdapterPhase::Restarting { until: state.moment.now().saturating_add(state.engines.tdr().ddi_delay) };
    state.moment.hand_out(Output::RestartFromTimeout);
}

/// No packet is under way any more. Those that had ended before have ended.
pub(crate) fn end_all(state: &mut State, plans: &mut Plans, host: &mut dyn Host) {
    plans.retire_plans(state, host);
    state.engines.recovery.engines.clear();
    for returned in core::mem::take(&mut state.engines.recovery.returned) {
        retire::ended(state, returned.engine, returned.packet, true);
    }
    for engine in 0..state.engines.engines.len() as u32 {
        while let Some(packet) = state.engines.engines[engine as usize].pop_up_to(u64::MAX) {
            retire::ended(state, engine, packet, true);
        }
        state.engines.engines[engine as usize].end_all();
    }
    plans.builder.forget_work();
}
