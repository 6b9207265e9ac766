//! Portions on their way: patched, handed out, and given up.

use alloc::{collections::BTreeSet, vec::Vec};

use crate::{
    allocation::AllocationState,
    contract::{AllocationListElement, Kmd, Patch},
    event::{Event, PortionBinding, PortionEnd},
    id::{AllocationIx, ContextIx, DeviceIx, SubmissionNo},
    planted::PlantedBug,
    residency::EvictFlags,
    split::{Cut, Portion, References, ResourceTable},
    state::{DeferredAction, Queued, VidMm},
    submission::{Submission, SubmitDesc},
    units::PhysicalAddress,
};

use super::dispatch::Job;

impl VidMm {
    /// The decided portion in front of a context's queue, patched and ready for its engine (PAT-10).
    pub(super) fn next_portion(&mut self, kmd: &mut dyn Kmd, index: ContextIx, fence_id: u64) -> Job {
        let context = &mut self.contexts[index];
        let portion = context.portion.take().expect("it was found decided");
        let device = context.device;
        self.patching.turns += 1;
        context.served = self.patching.turns;
        let mut submission = context.queue.pop_front().expect("it was found dispatchable");
        let mut references = submission.references.take().expect("a portion is of a DMA buffer with references");
        self.devices[device].submitted += 1;
        let number = self.devices[device].submitted;
        self.devices[device].dispatches.end(number);

        let start = references.progress.start;
        let mut commands = submission.desc.dma_buffer[start as usize..portion.end as usize].to_vec();
        let size = submission.desc.dma_buffer.len() as u32;
        let patched = self.patch(kmd, index, fence_id, &references, &portion, size, &mut commands);
        self.record_portion(device, number, &references, &portion, patched);
        self.note_written(&references, &portion);
        let is_first = references.progress.portions == 0;
        let waits = if is_first { core::mem::take(&mut submission.desc.waits) } else { Vec::new() };
        let is_last = portion.cut.is_none();
        let fixed = match is_last || self.adapter.has_bug(PlantedBug::ForgetKept) {
            true => BTreeSet::new(),
            false => portion.table.fixed(&references, self.next_group(&references, &portion)),
        };
        self.leave_portion(device, number, &portion.required, &fixed);
        let (patch_end, end) = (portion.patch_locations.end, portion.end);
        let signals = if is_last { core::mem::take(&mut submission.desc.signals) } else { Vec::new() };
        if is_last {
            self.patching.splitting = self.patching.splitting.filter(|&splitting| splitting != index);
            self.stirred = true;
            self.forget_references(&references);
        } else {
            let progress = &mut references.progress;
            (progress.start, progress.next, progress.table, progress.fixed) = (end, patch_end, portion.table, fixed);
            progress.portions += 1;
            submission.references = Some(references);
            self.contexts[index].queue.push_front(submission);
        }
        Job { number, commands, waits, signals, offsets: Some((start, end)) }
    }

    /// A DMA buffer whose device list has brought in what it refers to: one portion, with the addresses of now (RES-04).
    pub(super) fn patch_whole(
        &mut self,
        kmd: &mut dyn Kmd,
        index: ContextIx,
        fence_id: u64,
        submission: Submission,
        references: &References,
    ) -> Job {
        let Submission { number, desc, .. } = submission;
        let SubmitDesc { dma_buffer: mut commands, waits, signals, .. } = desc;
        let size = commands.len() as u32;
        let portion = Portion {
            end: size,
            patch_locations: 0..references.patch_locations.len(),
            required: references.allocations().into_iter().collect(),
            table: ResourceTable::default(),
            plans: Vec::new(),
            cut: None,
        };
        let patched = self.patch(kmd, index, fence_id, references, &portion, size, &mut commands);
        let device = self.contexts[index].device;
        self.record_portion(device, number, references, &portion, patched);
        Job { number, commands, waits, signals, offsets: Some((0, size)) }
    }

    /// The patch locations at the split point where a portion ends: what they bind is reprogrammed there (SPL-08).
    fn next_group(&self, references: &References, portion: &Portion) -> core::ops::Range<usize> {
        let next = portion.patch_locations.end;
        if references.split_offset(next) == Some(portion.end) { references.group(next) } else { next..next }
    }

    /// Lets the driver write addresses into a portion, unless all that it wrote when it was rendered are still right (PAT-14).
    #[expect(clippy::too_many_arguments, reason = "a portion is described by the DMA buffer that it is of")]
    fn patch(
        &mut self,
        kmd: &mut dyn Kmd,
        index: ContextIx,
        fence_id: u64,
        references: &References,
        portion: &Portion,
        dma_buffer_size: u32,
        commands: &mut [u8],
    ) -> bool {
        let required: BTreeSet<AllocationIx> = portion.required.iter().copied().collect();
        let element = |reference: &crate::split::Reference| AllocationListElement {
            allocation: reference.allocation.map(|index| self.allocations[index].handle),
            write_operation: reference.write_operation,
            address: reference
                .allocation
                .filter(|index| required.contains(index))
                .and_then(|index| self.address(index)),
        };
        let elements: Vec<AllocationListElement> = references.list.iter().map(element).collect();
        let locations = &references.patch_locations[portion.patch_locations.clone()];
        let is_right = |element: u32| {
            let element = element as usize;
            references.list[element].allocation.is_none()
                || references.pre_patched[element] == elements[element].address
        };
        if !self.patching.knobs.always_repatch && locations.iter().all(|location| is_right(location.allocation_index)) {
            return false;
        }
        kmd.patch(&mut Patch {
            context: self.contexts[index].handle,
            dma_buffer: commands,
            dma_buffer_size,
            dma_buffer_submission_start_offset: references.progress.start,
            dma_buffer_submission_end_offset: portion.end,
            allocation_list: &elements,
            patch_location_list: &references.patch_locations,
            patch_location_list_submission_start: portion.patch_locations.start as u32,
            patch_location_list_submission_length: portion.patch_locations.len() as u32,
            submission_fence_id: fence_id,
        });
        true
    }

    /// What the GPU may write to in a portion must be copied when it goes.
    fn note_written(&mut self, references: &References, portion: &Portion) {
        let required: BTreeSet<AllocationIx> = portion.required.iter().copied().collect();
        for index in references.written().filter(|index| required.contains(index)) {
            self.allocations[index].state |= AllocationState::DIRTY;
        }
    }

    /// Takes what a portion required off its device's list, but for what keeps its place across the cut.
    fn leave_portion(
        &mut self,
        device: DeviceIx,
        number: SubmissionNo,
        required: &[AllocationIx],
        fixed: &BTreeSet<AllocationIx>,
    ) {
        for index in required.iter().copied().filter(|index| !fixed.contains(index)) {
            self.leave_required(device, number, index);
        }
    }

    fn leave_required(&mut self, device: DeviceIx, number: SubmissionNo, index: AllocationIx) {
        let allocation = &mut self.allocations[index];
        let (pool, size) = (allocation.pool(), allocation.size);
        let flags = EvictFlags::EVICT_ONLY_IF_NECESSARY | EvictFlags::NOT_WRITTEN_TO;
        let entry = allocation.entry_mut(device);
        let is_last = entry.count == 1;
        let effect = entry.leave(number, flags, &mut self.spans);
        if is_last {
            self.lighten_list(device, pool, size);
        } else {
            // Another portion of the device still requires it; what of this one has been handed out uses it too.
            self.allocations[index].entry_mut(device).extend(number);
        }
        self.withdraw_promise(device);
        self.apply(index, device, effect);
        self.renew_promise(device);
    }

    fn record_portion(
        &mut self,
        device: DeviceIx,
        submission: SubmissionNo,
        references: &References,
        portion: &Portion,
        patched: bool,
    ) {
        let (device, progress) = (self.device_id(device), &references.progress);
        let binding = |slot_id, element: u32, fixed| {
            let allocation = references.list[element as usize].allocation;
            let nowhere = PhysicalAddress { segment: crate::units::SegmentId::SYSTEM, offset: 0 };
            PortionBinding {
                slot_id,
                allocation: allocation.map(|index| self.allocation_id(index)),
                address: allocation.and_then(|index| self.address(index)).unwrap_or(nowhere),
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
                        PortionEnd::NoRoom { allocation: self.allocations.id(allocation) }
                    }
                },
                patched,
            }
        };
        let event = self.events.is_kept().then(event);
        self.events.record(|| event.expect("it is kept"));
    }

    /// Gives up the DMA buffer in front of a context's queue, which cannot be brought in, as was expected (SPL-13). A submission
    /// without commands takes its place, so that its fences are signaled in their order: after what was handed out before.
    pub(super) fn drop_front(&mut self, index: ContextIx, offset: u32, bytes: u64) {
        let device = self.contexts[index].device;
        self.give_up_portion(index);
        self.devices[device].submitted += 1;
        let number = self.devices[device].submitted;
        let submission = self.contexts[index].queue.front_mut().expect("it was found there");
        let references = submission.references.take().expect("it was found there");
        submission.number = number;
        submission.desc.dma_buffer.clear();
        let dma_buffer = references.number;
        self.forget_references(&references);
        let device = self.device_id(device);
        self.events.record(|| Event::PreparationFailed { device, dma_buffer, submission: number, offset, bytes });
        self.stirred = true;
    }

    /// Nothing more of the DMA buffer in front of a context's queue is handed out: its device's list is what it was without it.
    pub(super) fn give_up_portion(&mut self, index: ContextIx) {
        let context = &mut self.contexts[index];
        let device = context.device;
        let portion = context.portion.take();
        let front = context.queue.front_mut().and_then(|front| front.references.as_deref_mut());
        let fixed = front.map(|references| core::mem::take(&mut references.progress.fixed)).unwrap_or_default();
        let listed: BTreeSet<AllocationIx> =
            portion.into_iter().flat_map(|portion| portion.required).chain(fixed).collect();
        let number = self.devices[device].submitted;
        for allocation in listed {
            self.leave_required(device, number, allocation);
        }
        self.patching.splitting = self.patching.splitting.filter(|&splitting| splitting != index);
    }

    /// Whether a context of a device has begun a DMA buffer and not handed out its last portion.
    pub(super) fn is_amid_dma_buffer(&self, device: DeviceIx) -> bool {
        if !self.adapter.is_physical() {
            return false;
        }
        let is_begun = |queued: &Queued| {
            let context = &self.contexts[queued.context];
            context.device == device && (context.portion.is_some() || self.patching.splitting == Some(queued.context))
        };
        self.queued.iter().any(is_begun)
    }

    /// A DMA buffer has been handed out to its end, or is dropped: it refers to nothing any more.
    pub(super) fn forget_references(&mut self, references: &References) {
        for index in references.allocations() {
            let patched = self.patched.get_mut(&index).expect("it was counted when it was rendered");
            patched.queued -= 1;
            if patched.queued > 0 {
                continue;
            }
            self.reclassify(index);
            if self.allocations[index].state.contains(AllocationState::PURGE_DUE) {
                let device = self.allocations[index].device;
                self.defer(device, DeferredAction::Purge(index));
            }
        }
    }
}
