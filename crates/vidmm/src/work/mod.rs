//! Work: the queues of contexts, and the allocations that queued work refers to.

use alloc::collections::BTreeSet;

use crate::{
    adapter::{Adapter, patching::Patching},
    contract::EngineFence,
    data::ordered_set::OrderedSet,
    event::{Event, list_flags::EvictFlags},
    id::{AllocationIx, ContextId, ContextIx, DeviceIx, SubmissionNo},
    moment::Moment,
    objects::{
        Objects,
        allocation::AllocationState,
        context::Queued,
        device::DeferredAction,
        list::Leave,
        split::References,
        submission::{FenceValueDesc, SubmitDesc},
    },
    requests::Requests,
    state::State,
};

/// Queued work.
pub(crate) struct Work {
    /// Contexts with queued work.
    pub queued: OrderedSet<Queued>,
    /// A context has another priority than most.
    pub has_priorities: bool,
    /// The state of an adapter without GPU virtual addresses.
    pub patching: Patching,
}

/// The number of a submission that is made now: it requires the device's list as it stands.
#[inline(always)]
pub(crate) fn number_submission(
    moment: &mut Moment,
    objects: &mut Objects,
    context: ContextId,
    device_index: DeviceIx,
    desc: &SubmitDesc,
) -> u64 {
    let number = objects.number_submission(device_index);
    let device = objects.devices.id(device_index);
    moment.record(|| Event::Submitted {
        device,
        context,
        submission: number,
        waits: FenceValueDesc::pairs(&desc.waits),
        signals: FenceValueDesc::pairs(&desc.signals),
    });
    number
}

/// Whether all that the submission in front of a context's queue waits for has been dispatched.
pub(crate) fn is_front_unblocked(state: &State, index: ContextIx) -> bool {
    // A packet that an engine gives back gets another fence.
    let is_settled = |wait: Option<EngineFence>| {
        wait.is_some_and(|wait| {
            wait.engine == state.adapter.paging_engine || !state.engines.recovery.is_recovering(wait.engine)
        })
    };
    let waits = state.objects[index].queue.front().map_or(&[][..], |next| &next.desc.waits);
    state.objects.fence_waits(waits).all(is_settled)
}

pub(crate) fn leave_required(state: &mut State, device: DeviceIx, number: SubmissionNo, index: AllocationIx) {
    let allocation = &mut state.objects[index];
    let (account, size) = (allocation.account(), allocation.size);
    let flags = EvictFlags::EVICT_ONLY_IF_NECESSARY | EvictFlags::NOT_WRITTEN_TO;
    let count = &mut allocation.entry_mut(device).count;
    *count -= 1;
    let leave = Leave { left: *count, last: number, flags };
    if leave.left == 0 {
        state.shares.lighten_list(&mut state.objects, device, account, size);
    }
    state.residency.leave(&mut state.moment, &mut state.objects, &mut state.memory, index, device, leave);
    state.shares.renew_promise(&mut state.objects, device);
}

/// A DMA buffer has been handed out to its end, or is dropped: it refers to nothing any more.
pub(crate) fn forget_references(state: &mut State, requests: &mut Requests, references: &References) {
    for index in references.allocations() {
        let patched = state.objects[index].patched_mut();
        patched.queued -= 1;
        if patched.queued > 0 {
            continue;
        }
        state.residency.reclassify(&mut state.objects, index);
        if state.objects[index].is(AllocationState::PURGE_DUE) {
            let device = state.objects[index].device;
            requests.defer(&mut state.objects, device, DeferredAction::Purge(index));
        }
    }
}

impl Work {
    /// Nothing more of the DMA buffer in front of a context's queue is handed out: its device's list is what it was without it.
    pub(crate) fn give_up_portion(&mut self, state: &mut State, index: ContextIx) {
        let context = &mut state.objects[index];
        let device = context.device;
        let portion = context.take_portion();
        let front = context.queue.front_mut().and_then(|front| front.references.as_deref_mut());
        let fixed = front.map(|references| references.take_fixed()).unwrap_or_default();
        let listed: BTreeSet<AllocationIx> =
            portion.into_iter().flat_map(|portion| portion.required).chain(fixed).collect();
        // Only work that is not dispatched keeps an allocation in place, and nothing that is given up will be.
        let number = state.objects[device].dispatched();
        for allocation in listed {
            leave_required(state, device, number, allocation);
        }
        self.patching.end_splitting(index);
    }

    /// Whether a context of a device has begun a DMA buffer and not handed out its last portion.
    pub(crate) fn is_amid_dma_buffer(&self, adapter: &Adapter, objects: &Objects, device: DeviceIx) -> bool {
        if !adapter.is_physical() {
            return false;
        }
        let is_begun = |queued: &Queued| {
            let context = &objects[queued.context];
            context.device == device && (context.portion.is_some() || self.patching.splitting == Some(queued.context))
        };
        self.queued.iter().any(is_begun)
    }

    /// Whether no other context's DMA buffer has been cut and not ended on the engine, if that cannot change contexts in between
    /// (SPL-07).
    pub(crate) fn is_engine_open(&self, adapter: &Adapter, objects: &Objects, index: ContextIx) -> bool {
        let engine = objects[index].engine;
        adapter.preemption_aware
            || self.patching.splitting.is_none_or(|splitting| splitting == index || objects[splitting].engine != engine)
    }

    /// Whether queued work of the device waits for nothing but its turn.
    pub(crate) fn has_runnable_work(&self, adapter: &Adapter, objects: &Objects, device: DeviceIx) -> bool {
        let mut queued = self.queued.iter().map(|queued| &objects[queued.context]);
        (objects[device].has_undispatched() || adapter.is_physical())
            && queued.any(|context| {
                let next = context.queue.front().filter(|_| context.device == device);
                next.is_some_and(|next| objects.fence_waits(&next.desc.waits).all(|wait| wait.is_some()))
            })
    }

    /// Whether a device has nothing to run and nothing under way.
    pub(crate) fn has_nothing_to_run(&self, adapter: &Adapter, objects: &Objects, device: DeviceIx) -> bool {
        let record = &objects[device];
        record.is_over()
            || (record.requests.is_empty()
                && !record.is_in_flight()
                && !self.has_runnable_work(adapter, objects, device))
    }
}
