//! Ready work first (D23): who is kept from running by a packet that waits, and the engine that is asked to yield for it.

use alloc::vec::Vec;

use crate::{
    contract::EngineFence,
    dispatch::{IN_FLIGHT_MAX, awaited},
    engines::engine::{InFlight, PacketWork},
    event::PreemptReason,
    id::ContextIx,
    objects::{Objects, context::Context},
    plans::Plans,
    state::State,
    work::Work,
};

/// A packet waits for long if more bytes are to be paged before it: what a bus of 16 GB/s moves in a millisecond.
const LONG_WAIT_BYTES: u64 = 16 << 20;

/// How often an engine is asked to yield for one submission at most.
const YIELDS_MAX: u8 = 2;

/// Whether nothing is unfinished that the context's next submission waits for: paging up to `paging_fence`, another engine, or
/// earlier packets of the context that wait themselves.
pub(super) fn is_ready(state: &State, index: ContextIx, paging_fence: u64) -> bool {
    let Context { engine, in_flight, ref queue, .. } = state.objects[index];
    let waits = queue.front().map_or(&[][..], |next| &next.desc.waits);
    let is_own = |packet: &&InFlight| is_of(packet, index);
    let mut own = state.engines.engines[engine as usize].in_flight().iter().filter(is_own);
    paging_fence <= state.engines.paging_engine(&state.adapter).retired
        && (waits.is_empty() || state.objects.fence_waits(waits).next().is_none())
        && (in_flight == 0 || !own.any(|packet| waits_for_anything(state, packet)))
}

/// Contexts with ready work of which their engine holds as many packets as it may, and that engine.
pub(super) fn held_back(state: &State, plans: &Plans, work: &Work) -> Vec<(u32, ContextIx)> {
    let contexts = work.queued.iter().map(|queued| queued.context);
    let is_held_back = |&index: &ContextIx| {
        state.objects[index].in_flight >= IN_FLIGHT_MAX
            && awaited(state, plans, work, index).is_some_and(|fence| is_ready(state, index, fence))
    };
    contexts.filter(is_held_back).map(|index| (state.objects[index].engine, index)).collect()
}

/// Whether a context's ready work overtakes packets that its engine has been given and has not begun.
pub(super) enum Overtakes {
    Nothing,
    /// It does once the engine has begun the last of the context's own packets, whose order never changes.
    AfterItsOwn,
    /// The engine is to give them back.
    Others(PreemptReason),
}

/// Says which packets a context's ready work overtakes. An engine is asked to yield for a submission twice at most: for the context's own packets
/// behind one that waits, and then for it.
pub(super) fn overtakes(state: &State, plans: &Plans, work: &Work, index: ContextIx) -> Overtakes {
    let Context { engine, priority, ref queue, .. } = state.objects[index];
    let has_asked = queue.front().is_some_and(|next| next.num_yields >= YIELDS_MAX);
    // Without saved state nothing comes between the portions of a DMA buffer (SPL-07). On an only engine paging buffers lie
    // between the packets: they keep their fences, so no new packet can go before them.
    let is_only = engine == state.adapter.paging_engine;
    if has_asked || is_only || state.adapter.is_physical() && !state.adapter.preemption_aware {
        return Overtakes::Nothing;
    }
    let in_flight = state.engines.engines[engine as usize].in_flight();
    let is_less_urgent = |packet: &InFlight| priority_of(&state.objects, packet).is_some_and(|given| given < priority);
    if work.has_priorities && in_flight.iter().skip(1).any(is_less_urgent) {
        return Overtakes::Others(PreemptReason::Priority);
    }
    let Some(first) = long_waits(state, plans, index).map(|packet| packet.fence_id).min() else {
        return Overtakes::Nothing;
    };
    let before = in_flight.iter().take_while(|packet| packet.fence_id < first);
    match { before }.skip(1).any(|packet| is_of(packet, index)) {
        true => Overtakes::AfterItsOwn,
        false => Overtakes::Others(PreemptReason::ReadyWork),
    }
}

/// Whether the engine of a context has been given another context's packet that waits for long.
pub(super) fn is_behind_long_wait(state: &State, plans: &Plans, index: ContextIx) -> bool {
    long_waits(state, plans, index).next().is_some()
}

/// Packets of further contexts on the engine of a context, with a long wait each. The later a fence, the more bytes are paged before.
fn long_waits<'a>(state: &'a State, plans: &'a Plans, index: ContextIx) -> impl Iterator<Item = &'a InFlight> {
    let paging_engine = state.adapter.paging_engine;
    let next = state.engines.paging_engine(&state.adapter).retired + 1;
    let waiting = state.engines.engines[state.objects[index].engine as usize]
        .waiting(EngineFence { engine: paging_engine, fence_id: next });
    let long = waiting.take_while(|&(fence_id, _)| plans.stream.has_to_move(fence_id, LONG_WAIT_BYTES));
    long.map(|(_, packet)| packet).filter(move |packet| !is_of(packet, index))
}

/// Whether a context has no packet among those that its engine has given back, and goes before one of them: that is less urgent,
/// or waits for long. On an only engine nothing does: paging buffers among them keep their fences.
pub(super) fn goes_before_returned(state: &State, plans: &Plans, index: ContextIx) -> bool {
    let Context { engine, priority, .. } = state.objects[index];
    let returned = state.engines.recovery.returned.iter().filter(|returned| returned.engine == engine);
    let mut packets = returned.map(|returned| &returned.packet);
    let is_urgent = |packet: &InFlight| priority_of(&state.objects, packet).is_some_and(|given| given < priority);
    engine != state.adapter.paging_engine
        && packets.clone().all(|packet| !is_of(packet, index))
        && packets.any(|packet| is_urgent(packet) || waits_for_long(state, plans, packet))
}

fn is_of(packet: &InFlight, index: ContextIx) -> bool {
    matches!(packet.work, PacketWork::User { context, .. } if context == index)
}

/// How urgent a packet is; none for a paging buffer.
fn priority_of(objects: &Objects, packet: &InFlight) -> Option<i32> {
    match packet.work {
        PacketWork::Paging { .. } => None,
        PacketWork::User { context, .. } => Some(objects[context].priority),
    }
}

fn unfinished<'a>(state: &'a State, packet: &'a InFlight) -> impl Iterator<Item = &'a EngineFence> {
    packet.waits.iter().filter(|wait| state.engines.engines[wait.engine as usize].retired < wait.fence_id)
}

fn waits_for_anything(state: &State, packet: &InFlight) -> bool {
    unfinished(state, packet).next().is_some()
}

/// Whether a packet waits for more paging than takes a moment.
pub(crate) fn waits_for_long(state: &State, plans: &Plans, packet: &InFlight) -> bool {
    let mut paging = unfinished(state, packet).filter(|wait| wait.engine == state.adapter.paging_engine);
    paging.any(|wait| plans.stream.has_to_move(wait.fence_id, LONG_WAIT_BYTES))
}
