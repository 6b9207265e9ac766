//! Dispatch: queued work goes to its engine once all that it requires is on its way.

pub(crate) mod portions;
pub(crate) mod prepare;

use alloc::vec::Vec;

use crate::{
    adapter::Adapter,
    buggify::{MOMENT, Unlikely},
    contract::{DmaBuffer, EngineFence, Kmd, Packet, SubmitCommand},
    engines::{
        engine::{InFlight, PacketWork},
        recovering::Returned,
    },
    event::{Event, PreemptReason},
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
    pub commands: Vec<u8>,
    pub waits: Vec<FenceValueDesc>,
    pub signals: Vec<FenceValueDesc>,
    /// Of a portion, its first byte in the DMA buffer and the first that is not in it.
    pub offsets: Option<(u32, u32)>,
}

/// Hands queued work to engines, context by context.
pub(crate) fn dispatch(state: &mut State, plans: &Plans, requests: &mut Requests, work: &mut Work, kmd: &mut dyn Kmd) {
    let mut next = Queued::FIRST;
    while let Some(queued) = work.queued.next_from(next) {
        next = queued.next();
        while let Some(paging_fence) = dispatchable(state, plans, work, queued.context) {
            if state.moment.makes(Unlikely::HoldPacket) {
                state.moment.wake_at(state.moment.now() + MOMENT);
                break;
            }
            if work.has_priorities && overtakes(state, queued.context, paging_fence) {
                state.engines.preempt(&mut state.moment, state.objects[queued.context].engine, PreemptReason::Priority);
                break;
            }
            hand_out(state, requests, work, kmd, queued.context, paging_fence);
        }
        if state.objects[queued.context].queue.is_empty() {
            work.queued.remove(&queued);
        }
    }
}

/// Whether the context's next submission could run now, and its engine has been given less urgent work that it has not begun.
/// One that still waits for something does not overtake what it may wait for.
fn overtakes(state: &State, context: ContextIx, paging_fence: u64) -> bool {
    let Context { engine, priority, ref queue, .. } = state.objects[context];
    let waits = queue.front().map_or(&[][..], |next| &next.desc.waits);
    // Without saved state nothing comes between the portions of a DMA buffer (SPL-07).
    let may_come_between = !state.adapter.is_physical() || state.adapter.preemption_aware;
    if !may_come_between
        || paging_fence > state.engines.paging_engine(&state.adapter).retired
        || state.objects.fence_waits(waits).next().is_some()
    {
        return false;
    }
    let not_begun = state.engines.engines[engine as usize].in_flight.iter().skip(1);
    not_begun.into_iter().any(|packet| priority_of(&state.objects, packet).is_some_and(|given| given < priority))
}

/// How urgent a packet is; none for a paging buffer.
fn priority_of(objects: &Objects, packet: &InFlight) -> Option<i32> {
    match packet.work {
        PacketWork::Paging { .. } => None,
        PacketWork::User { context, .. } => Some(objects[context].priority),
    }
}

/// Hands out what overtakes packets that engines have given back, before these are handed out again.
pub(crate) fn dispatch_urgent(
    state: &mut State,
    plans: &Plans,
    requests: &mut Requests,
    work: &mut Work,
    kmd: &mut dyn Kmd,
) {
    if !work.has_priorities {
        return;
    }
    let mut next = Queued::FIRST;
    while let Some(queued) = work.queued.next_from(next) {
        next = queued.next();
        let Context { engine, priority, .. } = state.objects[queued.context];
        let is_less_urgent = |returned: &Returned| {
            returned.engine == engine
                && priority_of(&state.objects, &returned.packet).is_some_and(|given| given < priority)
        };
        if !state.engines.recovery.returned.iter().any(is_less_urgent) {
            continue;
        }
        while let Some(paging_fence) = dispatchable_on(state, plans, work, queued.context, |_| true) {
            hand_out(state, requests, work, kmd, queued.context, paging_fence);
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
    let next = context.queue.front()?;
    let device = &state.objects[context.device];
    if context.in_flight >= IN_FLIGHT_MAX
        || !takes(context.engine)
        || !work.is_engine_open(&state.adapter, &state.objects, index)
    {
        return None;
    }
    if state.objects[device.process].is_paused {
        return None;
    }
    // A device that yields ends the DMA buffers that it has begun.
    let is_begun = next.is_prepared() && context.portion.is_some();
    if !device.is_active() && (device.is_suspended() || !is_begun) {
        return None;
    }
    // The driver was told the root table once it had been planned, and with nothing in the stream its plan has retired.
    let root_is_there = context.root_is_set && plans.stream.is_empty();
    let root_fence = if root_is_there { 0 } else { root_fence(&state.adapter, &state.objects, plans, device.process)? };
    let mut paging_fence = device.gate(next.number)?.max(root_fence).max(device.turn.fence()?);
    for &plan in &device.refreshes {
        paging_fence = paging_fence.max(plans.stream.fence_of(plan)?);
    }
    if next.is_prepared() {
        paging_fence = paging_fence.max(plans.stream.fence_of_all(&context.portion.as_ref()?.plans)?);
    }
    (next.desc.waits.is_empty() || work::is_front_unblocked(state, index)).then_some(paging_fence)
}

/// The fence of the paging engine that completes the root table of a process: 0 if it has, none until it is built.
fn root_fence(adapter: &Adapter, objects: &Objects, plans: &Plans, process: ProcessIx) -> Option<u64> {
    if !adapter.has_page_tables() {
        return Some(0);
    }
    let root = objects[process].tables.get(TableKey::root(adapter))?;
    plans.stream.fence_of(Some(root.plan).filter(|&plan| plan > 0)?)
}

/// Tells the driver the root page table of a context whose work runs for the first time, or again after power-up.
fn set_root(state: &mut State, kmd: &mut dyn Kmd, index: ContextIx) {
    let context = &mut state.objects.contexts[index];
    if context.root_is_set || !state.adapter.has_page_tables() {
        return;
    }
    let process = &state.objects.processes[state.objects.devices[context.device].process];
    let root = root_page_table(&state.adapter, &process.tables);
    let root = root.expect("nothing is dispatchable before its root table is built");
    kmd.set_root_page_table(context.handle, root);
    context.root_is_set = true;
    let context = state.objects.contexts.id(index);
    state.moment.record(|| Event::RootPageTableSet { context, address: root.address });
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
    context.in_flight += 1;
    let (engine, device_index, handle) = (context.engine, context.device, context.handle);
    let signal = EngineFence { engine, fence_id: state.engines.engines[engine as usize].submitted + 1 };
    let Job { number, commands, waits: waited, signals, offsets } =
        next_job(state, requests, work, kmd, index, signal.fence_id);
    let buffer = DmaBuffer::User(commands);
    let mut packet = Packet { waits: Vec::new(), signal, preamble: Vec::new(), buffer };
    if paging_fence > state.engines.paging_engine(&state.adapter).retired {
        state.engines.recovery.awaited = state.engines.recovery.awaited.max(paging_fence);
        packet.waits.push(EngineFence { engine: state.adapter.paging_engine, fence_id: paging_fence });
    }
    for wait in waited {
        packet.waits.extend(state.objects.fence_waits(&[wait]).flatten());
        state.objects[wait.fence.ix()].references -= 1;
    }
    for fence in &signals {
        state.objects[fence.fence.ix()].dispatched.push_back((fence.value, signal));
    }
    // Other packet_work may wait for a fence that this one signals: now it can be handed out.
    let packet_work = PacketWork::User { context: index, submission: number, signals, offsets };
    state.engines.engines[engine as usize].push(packet.waits.clone(), packet_work);
    let submit = SubmitCommand {
        context: handle,
        node_ordinal: engine,
        submission_fence_id: signal.fence_id,
        paging: false,
        dma_buffer_submission_offsets: offsets,
    };
    kmd.submit_command(&submit, &mut packet.preamble);
    state.moment.statistics_mut().submissions += 1;
    let device = state.objects.device_id(device_index);
    state.moment.record(|| Event::Dispatched { device, submission: number, signal, waits: packet.waits.clone() });
    state.objects[device_index].dispatches.end(number);
    state.residency.expire_dispatched(
        &mut state.moment,
        &mut state.objects,
        &mut state.memory,
        &mut state.shares,
        device_index,
    );
    state.moment.hand_out(Output::Submit(packet));
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
    let queue = &mut state.objects[index].queue;
    if queue.front().is_some_and(Submission::is_prepared) {
        return portions::next_portion(state, requests, work, kmd, index, fence_id);
    }
    let mut submission = queue.pop_front().expect("it was found dispatchable");
    if let Some(references) = submission.references.take() {
        return portions::patch_whole(state, work, kmd, index, fence_id, submission, &references);
    }
    let Submission { number, desc, .. } = submission;
    let SubmitDesc { dma_buffer: commands, waits, signals, .. } = desc;
    Job { number, commands, waits, signals, offsets: None }
}
