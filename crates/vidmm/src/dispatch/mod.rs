//! Dispatch: queued work goes to its engine once all that it requires is on its way.

pub(crate) mod portions;
pub(crate) mod prepare;
mod ready;

pub(crate) use ready::waits_for_long;

use alloc::vec::Vec;

use ready::Overtakes;

use crate::{
    adapter::Adapter,
    buggify::{MOMENT, Unlikely},
    contract::{DmaBuffer, EngineFence, Kmd, Packet, RootPageTable, SubmitCommand},
    engines::engine::PacketWork,
    event::Event,
    gpu_va::TableKey,
    id::{ContextIx, ProcessIx, SubmissionNo},
    moment::Output,
    objects::{
        Objects,
        context::{Context, Queued},
        submission::{FenceValueDesc, Submission, SubmitDesc},
    },
    plans::{Plans, root_page_table},
    requests::Requests,
    state::State,
    work::{self, Work},
};

/// Packets of a context that an engine holds at most: enough that it never waits for the host between two of them (D7).
const IN_FLIGHT_MAX: usize = 4;

/// The work that is handed to an engine at once: a submission, or a portion of one.
pub(super) struct Job {
    pub number: SubmissionNo,
    pub buffer: DmaBuffer,
    pub waits: Vec<FenceValueDesc>,
    pub signals: Vec<FenceValueDesc>,
    /// Of a portion, its first byte in the DMA buffer and the first that is not in it.
    pub offsets: Option<(u32, u32)>,
}

/// Hands queued work to engines: first what is ready, then what waits (D23).
pub(crate) fn dispatch(state: &mut State, plans: &Plans, requests: &mut Requests, work: &mut Work, kmd: &mut dyn Kmd) {
    while hand_out_ready(state, plans, requests, work, kmd) {}
    if !work.queued.is_empty() {
        hand_out_waiting(state, plans, requests, work, kmd);
    }
}

/// Hands out one packet of each context whose next submission is ready, those of higher priority first. Returns whether there
/// was any.
fn hand_out_ready(
    state: &mut State,
    plans: &Plans,
    requests: &mut Requests,
    work: &mut Work,
    kmd: &mut dyn Kmd,
) -> bool {
    let mut has_handed_out = false;
    let mut next = Queued::FIRST;
    while let Some(queued) = work.queued.next_from(next) {
        next = queued.next();
        let index = queued.context;
        let paging_fence = dispatchable(state, plans, work, index);
        if let Some(paging_fence) = paging_fence.filter(|&fence| ready::is_ready(state, index, fence)) {
            if state.moment.makes(Unlikely::HoldPacket, index.get().into(), state.moment.now()) {
                state.moment.wake_at(state.moment.now() + MOMENT);
                continue;
            }
            match ready::overtakes(state, plans, work, index) {
                Overtakes::Nothing => {}
                Overtakes::AfterItsOwn => continue,
                Overtakes::Others(reason) => {
                    let front = state.objects[index].queue.front_mut().expect("it was found dispatchable");
                    front.num_yields += 1;
                    state.engines.preempt(&mut state.moment, state.objects[index].engine, reason);
                    continue;
                }
            }
            hand_out(state, requests, work, kmd, index, paging_fence);
            has_handed_out = true;
        }
        if state.objects[index].queue.is_empty() {
            work.queued.remove(&queued);
        }
    }
    has_handed_out
}

/// Hands out work that waits where it keeps no other context from running: so it begins without a round trip to the host.
fn hand_out_waiting(state: &mut State, plans: &Plans, requests: &mut Requests, work: &mut Work, kmd: &mut dyn Kmd) {
    // Most often no work can be handed out, and nobody asks what is held back.
    let mut held_back = None;
    let mut next = Queued::FIRST;
    while let Some(queued) = work.queued.next_from(next) {
        next = queued.next();
        let index = queued.context;
        while let Some(paging_fence) = dispatchable(state, plans, work, index) {
            let is_ready = ready::is_ready(state, index, paging_fence);
            let engine = state.objects[index].engine;
            let held_back = held_back.get_or_insert_with(|| ready::held_back(state, plans, work));
            let is_in_the_way = held_back.iter().any(|&(of, other)| of == engine && other != index);
            if is_ready || is_in_the_way || ready::is_behind_long_wait(state, plans, index) {
                break;
            }
            if state.moment.makes(Unlikely::HoldPacket, index.get().into(), state.moment.now()) {
                state.moment.wake_at(state.moment.now() + MOMENT);
                break;
            }
            hand_out(state, requests, work, kmd, index, paging_fence);
        }
        if state.objects[index].queue.is_empty() {
            work.queued.remove(&queued);
        }
    }
}

/// Hands out what goes before packets that engines have given back.
pub(crate) fn dispatch_before_returned(
    state: &mut State,
    plans: &Plans,
    requests: &mut Requests,
    work: &mut Work,
    kmd: &mut dyn Kmd,
) {
    let mut next = Queued::FIRST;
    while let Some(queued) = work.queued.next_from(next) {
        next = queued.next();
        let index = queued.context;
        while ready::goes_before_returned(state, plans, index)
            && let Some(paging_fence) = dispatchable_on(state, plans, work, index, |_| true)
            && ready::is_ready(state, index, paging_fence)
        {
            hand_out(state, requests, work, kmd, index, paging_fence);
        }
    }
}

/// The fence of the paging engine that the context's next submission waits for, 0 if it waits for none; none if it cannot be
/// handed out yet.
pub(crate) fn dispatchable(state: &State, plans: &Plans, work: &Work, context: ContextIx) -> Option<u64> {
    dispatchable_on(state, plans, work, context, |engine| !state.engines.recovery.is_recovering(engine))
}

fn dispatchable_on(
    state: &State,
    plans: &Plans,
    work: &Work,
    index: ContextIx,
    takes: impl Fn(u32) -> bool,
) -> Option<u64> {
    let context = &state.objects[index];
    // A use that has not begun is nothing that its owner's queue could be asked to give back: there may be any number.
    let has_room = context.in_flight < IN_FLIGHT_MAX || context.is_self_scheduled();
    let has_room = has_room && takes(context.engine);
    if has_room { awaited(state, plans, work, index) } else { None }
}

/// The same, whatever the engine has been given already.
fn awaited(state: &State, plans: &Plans, work: &Work, index: ContextIx) -> Option<u64> {
    let context = &state.objects[index];
    let next = context.queue.front()?;
    let device = &state.objects[context.device];
    if !work.is_engine_open(&state.adapter, &state.objects, index) {
        return None;
    }
    if state.objects[device.process].is_paused {
        return None;
    }
    // A device that yields ends the DMA buffers that it has begun.
    if !device.is_active() && (device.is_suspended() || !next.is_begun()) {
        return None;
    }
    // A context is not scheduled while its root is set (GVA-17).
    if context.in_flight > 0 && !knows_root(state, context) {
        return None;
    }
    // The driver was told the root table once it had been planned, and with nothing in the stream its plan has retired.
    let root_is_there = context.root_entries > 0 && plans.stream.is_empty();
    let root_fence = if root_is_there { 0 } else { root_fence(&state.adapter, &state.objects, plans, device.process)? };
    let mut paging_fence = device.gate(next.number)?.max(root_fence).max(device.turn.fence()?);
    paging_fence = paging_fence.max(plans.stream.fence_of(state.objects[device.process].cut_by)?);
    paging_fence = paging_fence.max(plans.stream.fence_of_all(&device.refreshes)?);
    if next.is_prepared() {
        paging_fence = paging_fence.max(plans.stream.fence_of_all(&context.portion.as_ref()?.plans)?);
    }
    if state.adapter.verifier.holds_work() {
        paging_fence = paging_fence.max(all_gone(state, plans)?);
    }
    (next.desc.waits.is_empty() || work::is_front_unblocked(state, index)).then_some(paging_fence)
}

/// The fence of the paging engine with which all is gone that is on its way out, and all else is done that was decided; none while
/// something waits to be decided, or for work that runs.
fn all_gone(state: &State, plans: &Plans) -> Option<u64> {
    if waits_for_decisions(state) { None } else { plans.stream.fence_of_all(&plans.stream.numbers()) }
}

/// Whether all work is held until evictions and discards have been decided, as the verifier's options ask.
pub(crate) fn waits_for_decisions(state: &State) -> bool {
    state.adapter.verifier.holds_work() && (!state.residency.evict_soon.is_empty() || state.objects.discards_are_due())
}

/// The fence of the paging engine that completes the root table of a process: 0 if it has, none until it is built.
fn root_fence(adapter: &Adapter, objects: &Objects, plans: &Plans, process: ProcessIx) -> Option<u64> {
    if !adapter.has_page_tables() {
        return Some(0);
    }
    let root = objects[process].tables.get(TableKey::root(adapter))?;
    plans.stream.fence_of(Some(root.plan).filter(|&plan| plan > 0)?)
}

/// Whether the driver knows the root page table of a context, with all the entries that it has by now; of a self-scheduled one its
/// owner does.
fn knows_root(state: &State, context: &Context) -> bool {
    let tables = &state.objects[state.objects[context.device].process].tables;
    context.handle.is_none() || context.root_entries == tables.root_entries()
}

/// Tells the driver the root page table of a context whose work runs for the first time, or again after power-up, or for the first time
/// since the root has grown (GVA-18).
fn set_root(state: &mut State, kmd: &mut dyn Kmd, index: ContextIx) {
    let context = &state.objects[index];
    let Some(handle) = context.handle.filter(|_| !knows_root(state, context)) else { return };
    let process = &state.objects[state.objects[context.device].process];
    let root = root_page_table(&state.adapter, &process.tables);
    let root = root.expect("nothing is dispatchable before its root table is built");
    kmd.set_root_page_table(handle, root);
    let RootPageTable { address, num_entries } = root;
    state.objects[index].note_root(num_entries);
    let context = state.objects.contexts.id(index);
    state.moment.record(|| Event::RootPageTableSet { context, address, num_entries });
}

fn hand_out(
    state: &mut State,
    requests: &mut Requests,
    work: &mut Work,
    kmd: &mut dyn Kmd,
    index: ContextIx,
    paging_fence: u64,
) {
    set_root(state, kmd, index);
    let context = &mut state.objects[index];
    context.begin();
    let (engine, device_index, handle) = (context.engine, context.device, context.handle);
    let signal = EngineFence { engine, fence_id: state.engines.engines[engine as usize].submitted + 1 };
    let Job { number, buffer, waits: waited, signals, offsets } =
        next_job(state, requests, work, kmd, index, signal.fence_id);
    let mut packet = Packet { waits: Vec::new(), signal, preamble: Vec::new(), buffer };
    if paging_fence > state.engines.paging_engine(&state.adapter).retired {
        state.engines.recovery.await_paging(paging_fence);
        packet.waits.push(EngineFence { engine: state.adapter.paging_engine, fence_id: paging_fence });
    }
    for wait in waited {
        packet.waits.extend(state.objects.fence_waits(&[wait]).flatten());
        state.objects[wait.fence.ix()].references -= 1;
    }
    for fence in &signals {
        state.objects[fence.fence.ix()].note_dispatched(fence.value, signal);
    }
    // Other packet_work may wait for a fence that this one signals: now it can be handed out.
    let packet_work = PacketWork::User { context: index, submission: number, signals, offsets };
    state.engines.engines[engine as usize].push(packet.waits.clone(), packet_work);
    if let Some(context) = handle {
        let submit = SubmitCommand {
            context,
            node_ordinal: engine,
            submission_fence_id: signal.fence_id,
            paging: false,
            dma_buffer_submission_offsets: offsets,
        };
        kmd.submit_command(&submit, &mut packet.preamble);
    }
    state.moment.statistics_mut().submissions += 1;
    let device = state.objects.device_id(device_index);
    // This alone asks for no step: the loop does, if anything is left to be done.
    let dispatched = || Event::Dispatched { device, submission: number, signal, waits: packet.waits.clone() };
    state.moment.events().record(dispatched);
    let record = &mut state.objects.devices[device_index];
    record.dispatches.end(number);
    state.objects.processes[record.process].stillness.begin(state.moment.now());
    state.residency.expire_dispatched(
        &mut state.moment,
        &mut state.objects,
        &mut state.memory,
        &mut state.shares,
        device_index,
    );
    state.moment.hand_out(match handle {
        Some(_) => Output::Submit(packet),
        None => Output::UseBegun { context: state.objects.contexts.id(index), number, waits: packet.waits },
    });
}

/// The work that a context hands out next.
fn next_job(
    state: &mut State,
    requests: &mut Requests,
    work: &mut Work,
    kmd: &mut dyn Kmd,
    index: ContextIx,
    fence_id: u64,
) -> Job {
    let Context { device, ref mut queue, .. } = state.objects[index];
    if queue.front().is_some_and(Submission::is_prepared) {
        return portions::next_portion(state, requests, work, kmd, index, fence_id);
    }
    let mut submission = queue.pop_front().expect("it was found dispatchable");
    if let Some(references) = submission.references.take() {
        return portions::patch_whole(state, work, kmd, index, fence_id, submission, &references);
    }
    if submission.number == 0 {
        let (context, State { moment, objects, .. }) = (state.objects.contexts.id(index), state);
        submission.number = work::number_submission(moment, objects, context, device, &submission.desc);
    }
    let Submission { number, desc, .. } = submission;
    let SubmitDesc { dma_buffer: commands, waits, signals, .. } = desc;
    Job { number, buffer: DmaBuffer::User(commands), waits, signals, offsets: None }
}
