//! Engines that are asked to yield, or reset (6.3): the packets that they give back are handed out again.

use alloc::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    vec::Vec,
};

use crate::{
    contract::{DmaBuffer, EngineFence, Kmd, Packet, ReturnedBuffers, SubmitCommand},
    dispatch,
    engines::{
        Engines,
        engine::{InFlight, PacketWork},
        recovering::{Phase, Returned},
    },
    event::{
        Event, PreemptReason,
        error::{DeviceErrorReason, DriverFinding, Violation},
    },
    moment::{Moment, Output},
    objects::Objects,
    plans::Plans,
    recovery::{adapter_reset, retire},
    requests::Requests,
    state::State,
    work::Work,
};

/// A packet that is handed out again, and the fence that it had.
type Again = (EngineFence, InFlight, DmaBuffer);

/// Ends packets up to `fence_id`; those that were not reported have lost their interrupts.
pub(crate) fn complete_lost(state: &mut State, plans: &mut Plans, engine: u32, fence_id: u64) {
    let first = state.engines.engines[engine as usize].in_flight().front().map(|packet| packet.fence_id);
    if let Some(expected) = first.filter(|&first| first <= fence_id) {
        state.moment.report(DriverFinding::InterruptLost { found: EngineFence { engine, fence_id }, expected });
        retire::complete_up_to(state, plans, engine, fence_id);
    }
}

/// Takes in packets that an engine has not run.
pub(crate) fn take_in(engines: &mut Engines, engine: u32, returned: ReturnedBuffers) {
    for (fence_id, buffer) in returned {
        if let Some(packet) = engines.engines[engine as usize].take(fence_id) {
            engines.recovery.returned.push(Returned { engine, packet, buffer });
        }
    }
}

/// An engine that has answered has nothing left.
pub(crate) fn expect_nothing_more(moment: &mut Moment, engines: &Engines, engine: u32) {
    if let Some(missing) = engines.engines[engine as usize].in_flight().front() {
        let missing = EngineFence { engine, fence_id: missing.fence_id };
        moment.fail(Violation::PacketNotReturned { missing });
    }
}

/// Whether an engine runs a paging buffer, or nothing but paging buffers. Its reset is that of the adapter (FLT-23).
pub(crate) fn runs_paging(state: &State, engine: u32) -> bool {
    engine == state.adapter.paging_engine && state.engines.device_under_way(&state.objects, engine).is_none()
}

/// Schedules the reset of an engine.
pub(crate) fn condemn(
    state: &mut State,
    requests: &mut Requests,
    work: &mut Work,
    engine: u32,
    reason: DeviceErrorReason,
) {
    let first = state.engines.engines[engine as usize].in_flight().front().map_or(0, |packet| packet.fence_id);
    let phase = match is_timeout(reason) && first == 0 {
        // All its packets have ended, though the engine has not answered (FLT-22).
        true => Phase::Answered,
        false if runs_paging(state, engine) => {
            let cause = DeviceErrorReason::PagingEngineTimeout;
            return adapter_reset::begin_adapter_reset(state, requests, work, cause, None);
        }
        false => Phase::Condemned { reason, first, dependents: None },
    };
    state.engines.recovery.engines.insert(engine, phase);
    state.moment.request_poll();
}

/// Whether a reset is due to a packet that ran for too long. The packet may have ended since (FLT-22).
fn is_timeout(reason: DeviceErrorReason) -> bool {
    matches!(reason, DeviceErrorReason::EngineTimeout | DeviceErrorReason::DependentEngineReset)
}

/// One step of the recovery of engines: some must yield too, some are reset, and when all have answered, their packets
/// run again.
#[inline(never)]
pub(crate) fn recover(state: &mut State, plans: &Plans, requests: &mut Requests, work: &mut Work, kmd: &mut dyn Kmd) {
    if state.engines.recovery.engines.is_empty() || !state.engines.recovery.is_working() {
        return;
    }
    pardon(&mut state.moment, &mut state.engines);
    ask_dependent_engines(&mut state.moment, &mut state.engines, kmd);
    ask_waiting_engines(state);
    if state.engines.recovery.engines.values().any(|phase| matches!(phase, Phase::Preempting { .. })) {
        return;
    }
    reset_condemned(&mut state.moment, &mut state.engines);
    if state.engines.recovery.engines.values().all(|&phase| phase == Phase::Answered) {
        dispatch::dispatch_before_returned(state, plans, requests, work, kmd);
        state.engines.recovery.engines.clear();
        resubmit(state, plans, kmd);
    }
}

/// Engines that a reset harms yield first (FLT-26): also those that have got work while others did.
fn ask_dependent_engines(moment: &mut Moment, engines: &mut Engines, kmd: &mut dyn Kmd) {
    for engine in engines.scheduled() {
        let Some(Phase::Condemned { dependents, .. }) = engines.recovery.engines.get_mut(&engine) else { continue };
        let group = *dependents.get_or_insert_with(|| kmd.query_dependent_engine_group(engine));
        for other in engines.scheduled() {
            let is_busy = !engines.engines[other as usize].in_flight().is_empty();
            if other == engine || group >> other & 1 == 0 || !is_busy {
                continue;
            }
            match engines.recovery.phase(other) {
                None => engines.preempt(moment, other, PreemptReason::Dependent),
                Some(Phase::Preempting { until, .. }) => engines.hasten(moment, other, until),
                Some(_) => {}
            }
        }
    }
}

/// An engine with progress after all is not reset (FLT-22). A later packet of the engine may wait for a recovering engine.
fn pardon(moment: &mut Moment, engines: &mut Engines) {
    let Engines { engines, recovery, .. } = engines;
    recovery.engines.retain(|&engine, phase| {
        let record = &engines[engine as usize];
        let has_gone_on =
            matches!(*phase, Phase::Condemned { reason, first, .. } if is_timeout(reason) && !record.has(first));
        if has_gone_on {
            *phase = Phase::Answered;
            moment.request_poll();
        }
        !has_gone_on || record.in_flight().is_empty()
    });
}

/// Asks engines with packets that wait for one which gives its own back to yield too: those packets will have other
/// fences.
fn ask_waiting_engines(state: &mut State) {
    let mut settled = false;
    while !settled {
        settled = true;
        for engine in state.engines.scheduled() {
            let mut waits = state.engines.engines[engine as usize].in_flight().iter().flat_map(|packet| &packet.waits);
            let waits_for_held = waits.any(|wait| {
                state.engines.recovery.is_recovering(wait.engine)
                    && state.engines.engines[wait.engine as usize].retired < wait.fence_id
                    && wait.engine != state.adapter.paging_engine
            });
            if waits_for_held && !state.engines.recovery.is_recovering(engine) {
                state.engines.preempt(&mut state.moment, engine, PreemptReason::WaitsForReset);
                settled = false;
            }
        }
    }
}

fn reset_condemned(moment: &mut Moment, engines: &mut Engines) {
    let until = moment.now().saturating_add(engines.tdr().ddi_delay);
    for engine in engines.scheduled() {
        let Some(&Phase::Condemned { reason, dependents, .. }) = engines.recovery.engines.get(&engine) else {
            continue;
        };
        engines.recovery.engines.insert(engine, Phase::Resetting { reason, until });
        engines.recovery.due_at(until);
        let is_dependent = |&other: &u32| other != engine && dependents.unwrap_or(0) >> other & 1 == 1;
        let dependent_engines = engines.scheduled().filter(is_dependent).collect();
        moment.record(|| Event::EngineResetBegun { engine, reason, dependent_engines });
        moment.hand_out(Output::ResetEngine { engine });
    }
}

/// Hands out again the packets that engines gave back: paging buffers with the fences that they had, others with new ones
/// (FLT-23). Their order is the old one, but that contexts whose packets wait for much paging come after the others (D23).
fn resubmit(state: &mut State, plans: &Plans, kmd: &mut dyn Kmd) {
    let mut returned = core::mem::take(&mut state.engines.recovery.returned);
    let paging_engine = state.adapter.paging_engine;
    returned.sort_by_key(|returned| (returned.engine != paging_engine, returned.engine, returned.packet.fence_id));
    let mut held_up = BTreeSet::new();
    returned.sort_by_cached_key(|Returned { engine, packet, .. }| {
        let PacketWork::User { context, .. } = packet.work else { return (0, false) };
        // On an only engine all paging buffers come first.
        if *engine != paging_engine && dispatch::waits_for_long(state, plans, packet) {
            held_up.insert(context);
        }
        (engine + 1, held_up.contains(&context))
    });
    let mut renewed = BTreeMap::new();
    let mut again = Vec::new();
    for Returned { engine, mut packet, buffer } in returned {
        let before = EngineFence { engine, fence_id: packet.fence_id };
        if is_dropped(&state.objects, &packet) {
            retire::ended(state, engine, packet, true);
            continue;
        }
        if let PacketWork::User { .. } = packet.work {
            let record = &mut state.engines.engines[engine as usize];
            record.submitted += 1;
            packet.fence_id = record.submitted;
        }
        renewed.insert(before, packet.fence_id);
        again.push((before, packet, buffer));
    }
    for (before, mut packet, buffer) in in_order_of_waits(again) {
        packet.waits.retain_mut(|wait| {
            let is_renewed = renewed.get(wait).map(|&fence_id| wait.fence_id = fence_id).is_some();
            is_renewed || state.engines.engines[wait.engine as usize].has(wait.fence_id)
        });
        hand_out_again(state, plans, kmd, before, packet, buffer);
    }
    state.moment.request_poll();
}

fn hand_out_again(
    state: &mut State,
    plans: &Plans,
    kmd: &mut dyn Kmd,
    before: EngineFence,
    packet: InFlight,
    buffer: DmaBuffer,
) {
    let signal = EngineFence { engine: before.engine, fence_id: packet.fence_id };
    rename_signals(&mut state.objects, &packet, before, signal);
    let (context, paging, dma_buffer_submission_offsets) = match packet.work {
        PacketWork::Paging { .. } => (plans.system_context, true, None),
        PacketWork::User { context, offsets, .. } => (state.objects.kmd_context(context), false, offsets),
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
    state.moment.record(|| Event::Resubmitted { before, signal, waits: waits.clone() });
    state.engines.engines[signal.engine as usize].push_again(packet);
    state.moment.hand_out(Output::Submit(Packet { waits, signal, preamble, buffer }));
}

/// Whether a packet is not handed out again: its device is over.
fn is_dropped(objects: &Objects, packet: &InFlight) -> bool {
    matches!(packet.work, PacketWork::User { context, .. } if objects[objects[context].device].is_over())
}

/// Lets the monitored fences that a packet signals be signalled under its new fence.
fn rename_signals(objects: &mut Objects, packet: &InFlight, before: EngineFence, signal: EngineFence) {
    let PacketWork::User { signals, .. } = &packet.work else { return };
    for named in signals {
        for (_, by) in &mut objects[named.fence.ix()].dispatched {
            if *by == before {
                *by = signal;
            }
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
    // Of the packets that are left, the one that was handed out first waits for none of them.
    while let Some(queue) = engines.iter_mut().find(|queue| waits_for_none(queue, &left)) {
        let packet = queue.pop_front().expect("it has a first");
        left.remove(&packet.0);
        ordered.push(packet);
    }
    debug_assert!(left.is_empty(), "packets wait for each other: {left:?}");
    ordered
}
