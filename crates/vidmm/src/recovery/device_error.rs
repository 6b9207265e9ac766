//! A device that is over, for it is in error or was destroyed: its work is dropped, and it requires nothing any more
//! (FLT-04, FLT-33).

use alloc::vec::Vec;

use crate::{
    event::{
        Event,
        error::{DeviceErrorReason, DeviceInError},
        list_flags::EvictFlags,
    },
    id::DeviceIx,
    moment::Output,
    objects::context::Queued,
    requests::Requests,
    residency::pins,
    state::State,
    work::{self, Work},
};

/// Puts a device in error. No more work of it is accepted or dispatched, and its list is emptied. The fences of work that is
/// dropped are signalled to the maximum when what was dispatched has ended. It is told once.
pub(crate) fn put_device_in_error(
    state: &mut State,
    requests: &mut Requests,
    work: &mut Work,
    index: DeviceIx,
    reason: DeviceErrorReason,
) {
    if state.objects[index].is_over() {
        return;
    }
    state.objects[index].error = Some(reason);
    let device = state.objects.device_id(index);
    state.moment.record(|| Event::DeviceInError { device, reason });
    state.moment.hand_out(Output::DeviceInError(DeviceInError { device, reason }));
    end_work(state, requests, work, index);
}

/// Drops the queued work of a device that is over, and empties its list. The fences that the work would have signalled are at the
/// maximum when nothing of the device is in flight any more.
pub(crate) fn end_work(state: &mut State, requests: &mut Requests, work: &mut Work, index: DeviceIx) {
    state.objects[index].turn.set_takes_all(false);
    pins::note_writes(&mut state.objects, index);
    drop_queued_work(state, requests, work, index);
    empty_list(state, index);
    state.residency.expire_dispatched(
        &mut state.moment,
        &mut state.objects,
        &mut state.memory,
        &mut state.shares,
        index,
    );
    state.shares.settle_list(&mut state.objects, index);
    state.objects.signal_dropped(&mut state.moment, index);
}

fn drop_queued_work(state: &mut State, requests: &mut Requests, work: &mut Work, index: DeviceIx) {
    let of_device = |queued: &&Queued| state.objects[queued.context].device == index;
    for queued in Vec::from_iter(work.queued.iter().filter(of_device).copied()) {
        work.queued.remove(&queued);
        work.give_up_portion(state, queued.context);
        for dropped in core::mem::take(&mut state.objects[queued.context].queue) {
            let device = &mut state.objects[index];
            device.dispatches.end(dropped.number);
            device.retirements.end(dropped.number);
            if let Some(references) = dropped.references.as_ref().filter(|_| dropped.is_prepared()) {
                work::forget_references(state, requests, references);
            }
            for wait in &dropped.desc.waits {
                state.objects[wait.fence.ix()].references -= 1;
            }
            state.objects[index].drop_signals(dropped.desc.signals.iter().map(|named| named.fence));
        }
    }
}

/// Takes everything off a device's list, as Evict would, however often it is on it. Work under way still has it.
fn empty_list(state: &mut State, device: DeviceIx) {
    let listed = Vec::from_iter(pins::named_by_list(&state.objects, device));
    for index in listed {
        if state.objects[index].entry(device).is_some_and(|entry| entry.count > 0) {
            state.objects[index].set_hastened(false);
            state.leave_list(index, device, EvictFlags::EVICT_ONLY_IF_NECESSARY);
        }
    }
    // Nothing is brought in for it any more: its allocations keep their homes.
    while let Some(&index) = state.objects[device].rehomed.first() {
        state.objects.end_rehoming(index);
    }
}
