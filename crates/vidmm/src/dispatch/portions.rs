//! Portions on their way: patched, handed out, and given up.

use alloc::{boxed::Box, collections::BTreeSet, vec::Vec};

use crate::{
    contract::{AllocationListElement, DmaBuffer, Kmd, Patch, RenderedBuffer},
    dispatch::Job,
    event::{Event, PortionBinding, PortionEnd},
    id::{AllocationIx, ContextIx, DeviceIx, SubmissionNo},
    objects::{
        Objects,
        split::{Cut, Portion, Reference, References, ResourceTable},
        submission::{Submission, SubmitDesc},
    },
    requests::Requests,
    residency::place,
    state::State,
    units::PhysicalAddress,
    work::{self, Work},
};

/// The decided portion in front of a context's queue, patched and ready for its engine (PAT-10).
pub(crate) fn next_portion(
    state: &mut State,
    requests: &mut Requests,
    work: &mut Work,
    kmd: &mut dyn Kmd,
    index: ContextIx,
    fence_id: u64,
) -> Job {
    let context = &mut state.objects[index];
    let portion = context.take_portion().expect("it was found decided");
    let device = context.device;
    work.patching.turns += 1;
    context.served = work.patching.turns;
    let mut submission = context.queue.pop_front().expect("it was found dispatchable");
    let mut references = submission.references.take().expect("a portion is of a DMA buffer with references");
    let number = state.objects.number_submission(device);
    state.objects[device].dispatches.end(number);

    let start = references.progress.start;
    let dma_buffer = &submission.desc.dma_buffer;
    let buffer = patch(state, work, kmd, index, (number, fence_id), dma_buffer, &references, &portion);
    note_written(&mut state.objects, &references, &portion);
    let is_first = references.progress.portions == 0;
    let waits = if is_first { core::mem::take(&mut submission.desc.waits) } else { Vec::new() };
    let is_last = portion.cut.is_none();
    let fixed = match is_last {
        true => BTreeSet::new(),
        false => portion.table.fixed(&references, next_group(&references, &portion)),
    };
    // An allocation that keeps its place across the cut stays on the device's list.
    for allocation in portion.required.iter().copied().filter(|allocation| !fixed.contains(allocation)) {
        work::leave_required(state, device, number, allocation);
    }
    let (patch_end, end) = (portion.patch_locations.end, portion.end);
    let signals = if is_last { core::mem::take(&mut submission.desc.signals) } else { Vec::new() };
    if is_last {
        work.patching.end_splitting(index);
        work::forget_references(state, requests, &references);
    } else {
        references.advance(end, patch_end, portion.table, fixed);
        submission.references = Some(references);
        state.objects[index].queue.push_front(submission);
    }
    Job { number, buffer, waits, signals, offsets: Some((start, end)) }
}

/// A DMA buffer whose device list has brought in what it refers to: one portion, with the addresses of now (RES-04).
pub(crate) fn patch_whole(
    state: &mut State,
    work: &Work,
    kmd: &mut dyn Kmd,
    index: ContextIx,
    fence_id: u64,
    submission: Submission,
    references: &References,
) -> Job {
    let Submission { number, desc, .. } = submission;
    let SubmitDesc { dma_buffer, waits, signals, .. } = desc;
    let size = dma_buffer.len() as u32;
    let portion = Portion {
        end: size,
        patch_locations: 0..references.patch_locations.len(),
        required: references.allocations().into_iter().collect(),
        table: ResourceTable::default(),
        plans: Vec::new(),
        cut: None,
    };
    let buffer = patch(state, work, kmd, index, (number, fence_id), &dma_buffer, references, &portion);
    Job { number, buffer, waits, signals, offsets: Some((0, size)) }
}

/// The patch locations at the split point where a portion ends: what they bind is reprogrammed there (SPL-08).
fn next_group(references: &References, portion: &Portion) -> core::ops::Range<usize> {
    let next = portion.patch_locations.end;
    if references.split_offset(next) == Some(portion.end) { references.group(next) } else { next..next }
}

/// A portion of a DMA buffer with the addresses of now. The driver writes them, unless all that it wrote when it was rendered are still
/// right (PAT-14).
#[expect(clippy::too_many_arguments, reason = "a portion is described by the DMA buffer that it is of")]
fn patch(
    state: &mut State,
    work: &Work,
    kmd: &mut dyn Kmd,
    index: ContextIx,
    (number, fence_id): (SubmissionNo, u64),
    dma_buffer: &[u8],
    references: &References,
    portion: &Portion,
) -> DmaBuffer {
    let (adapter, objects) = (&state.adapter, &state.objects);
    let start = references.progress.start;
    let mut commands = dma_buffer[start as usize..portion.end as usize].to_vec();
    let mut private_data = references.private_data.clone();
    let required: BTreeSet<AllocationIx> = portion.required.iter().copied().collect();
    let element = |reference: &Reference| AllocationListElement {
        allocation: reference.allocation.map(|index| objects[index].handle),
        write_operation: reference.write_operation,
        address: reference
            .allocation
            .filter(|index| required.contains(index))
            .and_then(|index| place::address(adapter, objects, index)),
    };
    let elements: Vec<AllocationListElement> = references.list.iter().map(element).collect();
    let locations = &references.patch_locations[portion.patch_locations.clone()];
    let is_right = |element: u32| {
        let element = element as usize;
        references.list[element].allocation.is_none() || references.pre_patched[element] == elements[element].address
    };
    let patched =
        work.patching.knobs.always_repatch || !locations.iter().all(|location| is_right(location.allocation_index));
    if patched {
        kmd.patch(&mut Patch {
            context: objects.kmd_context(index),
            dma_buffer: &mut commands,
            dma_buffer_size: dma_buffer.len() as u32,
            dma_buffer_private_data: &mut private_data,
            dma_buffer_submission_start_offset: start,
            dma_buffer_submission_end_offset: portion.end,
            allocation_list: &elements,
            patch_location_list: &references.patch_locations,
            patch_location_list_submission_start: portion.patch_locations.start as u32,
            patch_location_list_submission_length: portion.patch_locations.len() as u32,
            submission_fence_id: fence_id,
        });
    }
    let device = objects[index].device;
    record_portion(state, device, number, references, portion, patched);
    DmaBuffer::Rendered(Box::new(RenderedBuffer { commands, private_data }))
}

/// Allocations that the GPU may write to in a portion must be copied when they go.
fn note_written(objects: &mut Objects, references: &References, portion: &Portion) {
    let required: BTreeSet<AllocationIx> = portion.required.iter().copied().collect();
    for index in references.written().filter(|index| required.contains(index)) {
        objects[index].note_written();
    }
}

fn record_portion(
    state: &mut State,
    device: DeviceIx,
    submission: SubmissionNo,
    references: &References,
    portion: &Portion,
    patched: bool,
) {
    let (device, progress) = (state.objects.device_id(device), &references.progress);
    let binding = |slot_id, element: u32, fixed| {
        let allocation = references.list[element as usize].allocation;
        let nowhere = PhysicalAddress { segment: crate::units::SegmentId::SYSTEM, offset: 0 };
        PortionBinding {
            slot_id,
            allocation: allocation.map(|index| state.objects.allocation_id(index)),
            address: allocation
                .and_then(|index| place::address(&state.adapter, &state.objects, index))
                .unwrap_or(nowhere),
            fixed,
        }
    };
    let is_fixed = |&(_, element): &(u32, u32)| {
        references.list[element as usize].allocation.is_some_and(|i| progress.fixed.contains(&i))
    };
    let event = || {
        let carried = progress.table.bound().filter(is_fixed).map(|(slot, element)| binding(slot, element, true));
        let locations = &references.patch_locations[portion.patch_locations.clone()];
        let bound = locations.iter().map(|at| binding(at.slot_id, at.allocation_index, false));
        Event::Portion {
            device,
            dma_buffer: references.number,
            portion: progress.portions,
            submission,
            start_offset: progress.start,
            end_offset: portion.end,
            is_last: portion.cut.is_none(),
            patch_location_start: portion.patch_locations.start as u32,
            patch_location_length: portion.patch_locations.len() as u32,
            bindings: carried.chain(bound).collect(),
            cut: match portion.cut {
                None => PortionEnd::EndOfDmaBuffer,
                Some(Cut::TakeSplitPoint) => PortionEnd::TakeSplitPoint,
                Some(Cut::NoRoom { allocation }) => {
                    PortionEnd::NoRoom { allocation: state.objects.allocations.id(allocation) }
                }
            },
            patched,
        }
    };
    let event = state.moment.keeps_events().then(event);
    state.moment.record(|| event.expect("it is kept"));
}

/// Gives up the DMA buffer in front of a context's queue, which cannot be brought in, as was expected (SPL-13). A submission
/// without commands is left, so that its fences are signaled in their order: after what was handed out before.
pub(crate) fn drop_front(
    state: &mut State,
    requests: &mut Requests,
    work: &mut Work,
    index: ContextIx,
    offset: u32,
    bytes: u64,
) {
    work.give_up_portion(state, index);
    let submission = state.objects[index].queue.front_mut().expect("it was found there");
    let references = submission.references.take().expect("it was found there");
    submission.desc.dma_buffer.clear();
    let dma_buffer = references.number;
    work::forget_references(state, requests, &references);
    let device = state.objects.device_id(state.objects[index].device);
    state.moment.record(|| Event::PreparationFailed { device, dma_buffer, offset, bytes });
    state.moment.request_poll();
}
