//! Render and Patch: the work of users, translated by the driver and given the addresses of its allocations (PAT-10).

use std::collections::BTreeSet;

use vidmm::contract::{AllocationListElement, Patch, PatchLocation, Render, RenderStatus};

use crate::abi::*;
use crate::adapter::{Adapter, PASSIVE_LEVEL};
use crate::bounce::Bounce;
use crate::cancellation::cancel_unsubmitted;
use crate::dma_buffers::Place;
use crate::memory::SegmentBases;
use crate::opened::{Device, Opened};
use crate::progress::Entry;
use crate::reports::report;
use crate::user_work;

/// A context that submits, as the driver has created it.
#[derive(Clone, Copy)]
pub(crate) struct ContextOfDevice {
    pub device: Device,
    /// `DXGK_CONTEXTINFO.PatchLocationListSize`.
    pub patch_location_list_size: u32,
    /// `DXGK_CONTEXTINFO.DmaBufferPrivateDataSize`.
    pub private_data_size: u32,
    /// `DXGK_CONTEXTINFO.DmaBufferSize`.
    pub dma_buffer_size: u32,
}

/// The lists and buffers of the calls; they live until the next one.
pub(crate) struct Patching {
    bases: SegmentBases,
    /// The driver says that it needs no patches: what it leaves bound is its own affair (SPL-12).
    no_dma_patching: bool,
    /// MaxAllocationListSlotId.
    pub num_slots: u32,
    /// The calls of Render with whole commands.
    pub num_renders: usize,
    commands: Vec<u64>,
    pub elements: Vec<DXGK_ALLOCATIONLIST>,
    pub locations: Vec<D3DDDI_PATCHLOCATIONLIST>,
    pub locations_out: Bounce,
    /// The commands that are translated.
    running: Running,
}

/// The earlier calls of Render for the same commands: each has filled a DMA buffer.
#[derive(Default)]
struct Running {
    buffers: Vec<usize>,
    /// The references in their lists: an element and a slot each.
    references: BTreeSet<(u32, u32)>,
    leaks: usize,
}

type RenderFunction = unsafe extern "C" fn(HANDLE, *mut DXGKARG_RENDER) -> NTSTATUS;

/// A translation of a copy of the user's memory, which nobody submits.
struct Rendered {
    place: Place,
    args: DXGKARG_RENDER,
    result: Result<(), RenderStatus>,
}

/// Larger private data of a DMA buffer no driver has.
const PRIVATE_DATA_MAX: usize = 64 << 20;

pub(crate) const LOCATION_BYTES: usize = size_of::<D3DDDI_PATCHLOCATIONLIST>();

/// The mistake of a list for which [`written_locations`] has no answer.
pub(crate) const NOT_BEHIND_THE_LAST: &str =
    "pPatchLocationListOut is not behind the last entry of a list that has room for it";

/// The patch locations that the driver has written up to `end`; none if `end` is not behind a whole entry of the list.
pub(crate) fn written_locations(list: &mut Bounce, end: *const u8) -> Option<Vec<D3DDDI_PATCHLOCATIONLIST>> {
    list.written(0, end).filter(|bytes| bytes.len().is_multiple_of(LOCATION_BYTES)).map(locations_in)
}

/// The whole entries of a list of patch locations.
pub(crate) fn locations_in(list: &[u8]) -> Vec<D3DDDI_PATCHLOCATIONLIST> {
    let location = |entry: &[u8; LOCATION_BYTES]| {
        let word = |at: usize| u32::from_le_bytes(std::array::from_fn(|byte| entry[at * 4 + byte]));
        D3DDDI_PATCHLOCATIONLIST {
            AllocationIndex: word(0),
            Value: word(1),
            DriverId: word(2),
            AllocationOffset: word(3),
            PatchOffset: word(4),
            SplitOffset: word(5),
        }
    };
    list.as_chunks().0.iter().map(location).collect()
}

impl Patching {
    pub fn new(bases: SegmentBases, no_dma_patching: bool, num_slots: u32) -> Self {
        Self {
            bases,
            no_dma_patching,
            num_slots,
            num_renders: 0,
            commands: Vec::new(),
            elements: Vec::new(),
            locations: Vec::new(),
            locations_out: Bounce::default(),
            running: Running::default(),
        }
    }

    /// Lays out the lists of a call. A device whose driver cannot open an allocation has no name for it.
    fn lay_out(
        &mut self,
        adapter: &Adapter,
        opened: &mut Opened,
        device: Device,
        elements: &[AllocationListElement],
        locations: &[PatchLocation],
    ) -> Result<(), NTSTATUS> {
        self.elements.clear();
        for element in elements {
            let name =
                element.allocation.map(|allocation| opened.on_device(adapter, device, allocation)).transpose()?;
            let segment = element.address.map_or(0, |address| u32::from(address.segment.0));
            self.elements.push(DXGK_ALLOCATIONLIST {
                hDeviceSpecificAllocation: name.unwrap_or(std::ptr::null_mut()),
                WriteOperation: u32::from(element.write_operation) | segment << ALLOCATION_LIST_SEGMENT_SHIFT,
                PhysicalAddress: element.address.map_or(0, |address| self.bases.address(address)),
            });
        }
        self.locations.clear();
        self.locations.extend(locations.iter().map(|location| D3DDDI_PATCHLOCATIONLIST {
            AllocationIndex: location.allocation_index,
            Value: location.slot_id & SLOT_ID_MASK,
            DriverId: location.driver_id,
            AllocationOffset: location.allocation_offset,
            PatchOffset: location.patch_offset,
            SplitOffset: location.split_offset,
        }));
        Ok(())
    }

    /// Lets the driver translate commands, or the rest of commands, into a new DMA buffer (PAT-12). The manager's private data names
    /// the buffer.
    ///
    /// # Errors
    ///
    /// The driver's (PAT-12).
    pub fn render(
        &mut self,
        adapter: &Adapter,
        opened: &mut Opened,
        context: &ContextOfDevice,
        render: &mut Render<'_>,
    ) -> Result<(), RenderStatus> {
        let function = adapter.ddi().DxgkDdiRender.ok_or(RenderStatus::InvalidParameter)?;
        self.lay_out(adapter, opened, context.device, render.allocation_list, render.patch_location_list_in)
            .map_err(|_| RenderStatus::NoMemory)?;
        self.commands.clear();
        self.commands.resize(render.command.len().div_ceil(8), 0);
        for (at, &byte) in render.command.iter().enumerate() {
            self.commands[at / 8] |= u64::from(byte) << (at % 8 * 8);
        }
        let room = render.dma_buffer.len();
        if *render.multipass_offset == 0 {
            self.running = Running::default();
        }
        if adapter.user_memory_vanishes && *render.multipass_offset == 0 && adapter.dice.below(4) == 0 {
            self.render_what_vanishes(adapter, function, context, render);
        }
        if adapter.user_memory_changes && *render.multipass_offset == 0 && adapter.component_dice.below(2) == 0 {
            self.render_what_changes(adapter, function, context, render);
        }
        if *render.multipass_offset == 0 {
            self.render_what_is_wrong(adapter, function, context, render);
        }
        let place = adapter.dma.rendered(render.context.0, room, private_size(context));
        let number = place.number;
        self.running.buffers.push(number);
        *render.dma_buffer_private_data = (number as u64).to_le_bytes().to_vec();
        let mut args = self.arguments(adapter, context, render, place);
        let context = adapter.contexts.handle(render.context.0);
        // SAFETY: the struct, its lists and its buffers live for the call; beyond a buffer's end are bytes of ours.
        let status = adapter
            .call_with(Entry::DxgkDdiRender, PASSIVE_LEVEL, &mut args, |args| unsafe { function(context, args) });
        let is_where_it_was = *render.multipass_offset == args.MultipassOffset;
        *render.multipass_offset = args.MultipassOffset;
        let result = self.judged(adapter, render, &args, place, status, is_where_it_was);
        match result {
            Ok(()) => adapter.dma.end_render(number),
            // The manager submits nothing of an empty buffer.
            Err(RenderStatus::InsufficientDmaBuffer) if render.dma_bytes_written == 0 => {
                self.running.buffers.pop();
                adapter.dma.release(number);
            }
            Err(RenderStatus::InsufficientDmaBuffer) => adapter.dma.end_render(number),
            Err(_) => {
                let buffers = std::mem::take(&mut self.running.buffers);
                cancel_unsubmitted(adapter, render.context.0, |number| buffers.contains(&number));
                buffers.into_iter().for_each(|number| adapter.dma.release(number));
            }
        }
        result
    }

    /// The arguments of a call.
    pub fn arguments(
        &mut self,
        adapter: &Adapter,
        context: &ContextOfDevice,
        render: &Render<'_>,
        place: Place,
    ) -> DXGKARG_RENDER {
        let room_for_locations = self.locations.len().max(context.patch_location_list_size as usize).min(1 << 20);
        DXGKARG_RENDER {
            pCommand: self.commands.as_ptr().cast(),
            CommandLength: render.command.len() as u32,
            pDmaBuffer: place.dma,
            DmaSize: render.dma_buffer.len() as u32,
            pDmaBufferPrivateData: place.private,
            DmaBufferPrivateDataSize: private_size(context) as u32,
            pAllocationList: self.elements.as_mut_ptr(),
            AllocationListSize: self.elements.len() as u32,
            pPatchLocationListIn: self.locations.as_mut_ptr(),
            PatchLocationListInSize: self.locations.len() as u32,
            pPatchLocationListOut: self.locations_out.start(0, room_for_locations * LOCATION_BYTES).cast(),
            PatchLocationListOutSize: room_for_locations as u32,
            MultipassOffset: *render.multipass_offset,
            DmaBufferPhysicalAddress: adapter.dma.patched(place.number).0.address,
            ..DXGKARG_RENDER::zeroed()
        }
    }

    /// Lets the driver translate commands of which no byte can be read: the user has freed the memory (DRV-12). The driver's answer is a
    /// failure, and the commands come again.
    fn render_what_vanishes(
        &mut self,
        adapter: &Adapter,
        function: RenderFunction,
        context: &ContextOfDevice,
        render: &Render<'_>,
    ) {
        let copy = adapter.driver().shim().VanishedCopy;
        let Some(rendered) = self.render_copy(adapter, function, context, render, copy) else { return };
        if rendered.result.is_ok() && !render.command.is_empty() {
            let message =
                "DxgkDdiRender has succeeded with commands that cannot be read: the user's memory has vanished";
            report("DRV-12", message);
        }
        adapter.dma.release(rendered.place.number);
    }

    /// Lets the driver translate commands and a list twice: the second time bytes that the driver has read change at a moment of the call
    /// (DRV-12). The driver may refuse. A driver that reads each byte once translates what the user had written first.
    fn render_what_changes(
        &mut self,
        adapter: &Adapter,
        function: RenderFunction,
        context: &ContextOfDevice,
        render: &Render<'_>,
    ) {
        let shim = adapter.driver().shim();
        let mut change = (0, false);
        for is_changed in [false, true] {
            // SAFETY: the function takes numbers.
            unsafe { (shim.SetChange)(change.0, change.1.into()) };
            let Some(rendered) = self.render_copy(adapter, function, context, render, shim.ChangingCopy) else {
                return;
            };
            self.judge_changed(adapter, render, &rendered);
            let number = rendered.place.number;
            cancel_unsubmitted(adapter, render.context.0, |of| of == number);
            adapter.dma.release(number);
            if is_changed || rendered.result.is_err() {
                return;
            }
            // SAFETY: as above.
            let moments = [false, true].map(|of_copies| unsafe { (shim.CountMoments)(of_copies.into()) });
            let of_copies = moments[1] > 0 && adapter.component_dice.below(2) == 0;
            change = (1 + adapter.component_dice.below(moments[usize::from(of_copies)]), of_copies);
        }
    }

    /// Compares a translation with what the user has written first.
    fn judge_changed(&mut self, adapter: &Adapter, render: &Render<'_>, rendered: &Rendered) {
        let &Rendered { place, args, result } = rendered;
        let mut bytes = vec![0; render.dma_buffer.len()];
        let written = adapter.dma.take_dma(place, args.pDmaBuffer, &mut bytes).unwrap_or_default();
        if place.private.is_null() || adapter.dma.take_private(place, args.pDmaBufferPrivateData, &mut []).is_ok() {
            adapter.dma.end_render(place.number);
        }
        if result.is_err() || written != render.command.len() {
            return;
        }
        let message = "DxgkDdiRender reads memory of the user twice, and translates what is not checked";
        let is_address = |at: usize| {
            let mut offsets = render.patch_location_list_in.iter().map(|location| location.patch_offset as usize);
            offsets.any(|offset| (offset..offset + 8).contains(&at))
        };
        let changed = (0..written).find(|&at| bytes[at] != render.command[at] && !is_address(at));
        if let Some(at) = changed {
            report("DRV-12", format!("{message}: byte {at} of the commands has changed in between"));
        }
        let list = self.locations_out.written(0, args.pPatchLocationListOut.cast()).map_or_else(Vec::new, locations_in);
        let mut indices = list.iter().map(|location| location.AllocationIndex);
        let count = render.allocation_list.len();
        if let Some(index) = indices.find(|&index| index as usize >= count) {
            report(
                "DRV-12",
                format!("{message}: element {index} of an allocation list of {count} is in a patch location"),
            );
        }
    }

    /// Lets the driver translate a copy of the commands and of the list.
    fn render_copy(
        &mut self,
        adapter: &Adapter,
        function: RenderFunction,
        context: &ContextOfDevice,
        render: &Render<'_>,
        copy: unsafe extern "C" fn(u32, *const std::ffi::c_void, usize) -> *mut std::ffi::c_void,
    ) -> Option<Rendered> {
        let place = adapter.dma.rendered(render.context.0, render.dma_buffer.len(), private_size(context));
        let mut args = self.arguments(adapter, context, render, place);
        // SAFETY: the commands have so many bytes; the copy is the shim's.
        let command = unsafe { copy(0, args.pCommand.cast(), args.CommandLength as usize) };
        // SAFETY: as above, of the list.
        let locations = unsafe { copy(1, args.pPatchLocationListIn.cast(), self.locations.len() * LOCATION_BYTES) };
        if command.is_null() || locations.is_null() {
            adapter.dma.release(place.number);
            return None;
        }
        (args.pCommand, args.pPatchLocationListIn) = (command.cast(), locations.cast());
        let handle = adapter.contexts.handle(render.context.0);
        // SAFETY: the struct and its buffers live for the call; the driver is to guard reads of the user's memory.
        let status =
            adapter.call_with(Entry::DxgkDdiRender, PASSIVE_LEVEL, &mut args, |args| unsafe { function(handle, args) });
        Some(Rendered { place, args, result: status_of(status) })
    }

    /// The driver's answer, and the lists that it has written.
    fn judged(
        &mut self,
        adapter: &Adapter,
        render: &mut Render<'_>,
        args: &DXGKARG_RENDER,
        place: Place,
        status: NTSTATUS,
        is_where_it_was: bool,
    ) -> Result<(), RenderStatus> {
        let room = render.dma_buffer.len();
        let written = adapter.dma.take_dma(place, args.pDmaBuffer, render.dma_buffer);
        // More than there was room for: the manager names the rule.
        render.dma_bytes_written = *written.as_ref().unwrap_or(&(room + 1));
        let private = adapter.dma.patched(place.number).0.private_size;
        let written_beside = match private {
            0 => None,
            _ => adapter.dma.take_private(place, args.pDmaBufferPrivateData, &mut []).err(),
        };
        let of_private = written_beside.map(|damage| format!("{private} bytes of private data, and {damage}"));
        let of_buffer = written.err().map(|damage| format!("a DMA buffer of {room} bytes, and {damage}"));
        if let Some(told) = of_buffer.or(of_private) {
            report("BPB-02", format!("DxgkDdiRender has {told}"));
            return Err(RenderStatus::InvalidParameter);
        }
        match status_of(status) {
            // The next call would be the same, and so on for ever.
            Err(RenderStatus::InsufficientDmaBuffer) if is_where_it_was && render.dma_bytes_written > 0 => {
                let message = "DxgkDdiRender has filled a DMA buffer, and MultipassOffset is what it was";
                report("PAT-12", message);
                Err(RenderStatus::InvalidParameter)
            }
            // The manager submits nothing of it.
            Err(RenderStatus::InsufficientDmaBuffer) if render.dma_bytes_written == 0 => {
                Err(RenderStatus::InsufficientDmaBuffer)
            }
            result @ (Ok(()) | Err(RenderStatus::InsufficientDmaBuffer)) => {
                self.take_locations(args.pPatchLocationListOut.cast(), render, adapter.splits.get())?;
                check_addresses(adapter, render);
                let given = render.patch_location_list_in;
                let is_covered = |offset: usize| {
                    let names = |location: &PatchLocation| {
                        let element = render.allocation_list.get(location.allocation_index as usize);
                        element.is_some_and(|element| element.allocation.is_some())
                    };
                    given.iter().any(|location| location.patch_offset as usize == offset && names(location))
                };
                if let Some(offset) =
                    user_work::offsets_of_addresses(render.command).find(|&offset| !is_covered(offset))
                {
                    let why = "which no patch location covers: the user has chosen the address";
                    report(
                        "PAT-10",
                        format!("DxgkDdiRender has accepted commands with an address at {offset:#x}, {why}"),
                    );
                    return Err(RenderStatus::PrivilegedInstruction);
                }
                let locations = &*render.patch_location_list_out;
                if !locations.is_sorted_by_key(|location| location.split_offset) {
                    report("SPL-04", "the split offsets of pPatchLocationListOut fall from one entry to the next");
                }
                self.running.references.extend(locations.iter().map(reference));
                self.running.leaks += leaks(locations, render.allocation_list);
                if result.is_ok() {
                    self.check_references(render);
                }
                result
            }
            refused => refused,
        }
    }

    /// Every reference of the commands is in a list of the driver's, whatever the driver has written at once (PAT-14). A list that
    /// keeps what it was given bound at a split point where the user-mode driver's did not, leaks (SPL-12).
    fn check_references(&self, render: &Render<'_>) {
        let given = render.patch_location_list_in;
        if let Some((index, slot)) = given.iter().map(reference).find(|given| !self.running.references.contains(given))
        {
            let message =
                format!("element {index} in slot {slot} is in pPatchLocationListIn, and not in pPatchLocationListOut");
            report("PAT-14", message);
        }
        if !self.no_dma_patching && self.running.leaks > leaks(given, render.allocation_list) {
            let message =
                "at a split point of pPatchLocationListOut nothing is bound again or unbound of what is bound there";
            report("SPL-12", message);
        }
    }

    /// Takes the patch locations that the driver has written.
    fn take_locations(&mut self, end: *const u8, render: &mut Render<'_>, splits: bool) -> Result<(), RenderStatus> {
        let Some(written) = written_locations(&mut self.locations_out, end) else {
            report("DDI-RENDER", NOT_BEHIND_THE_LAST);
            return Err(RenderStatus::InvalidParameter);
        };
        render.patch_location_list_out.extend(written.iter().map(|location| PatchLocation {
            allocation_index: location.AllocationIndex,
            slot_id: location.Value & SLOT_ID_MASK,
            driver_id: location.DriverId,
            allocation_offset: location.AllocationOffset,
            patch_offset: location.PatchOffset,
            split_offset: if splits { location.SplitOffset } else { 0 },
        }));
        Ok(())
    }

    /// Lets the driver write addresses into a part of a DMA buffer: the buffer that it was given when it translated the commands.
    /// Bytes outside of the part are not there yet, or have run (SPL-11).
    pub fn patch(&mut self, adapter: &Adapter, opened: &mut Opened, context: &ContextOfDevice, patch: &mut Patch<'_>) {
        let Some(function) = adapter.ddi().DxgkDdiPatch else { return };
        let Some(number) = adapter.dma.of_token(patch.dma_buffer_private_data) else { return };
        if self.lay_out(adapter, opened, context.device, patch.allocation_list, patch.patch_location_list).is_err() {
            return;
        }
        let (start, end) = (patch.dma_buffer_submission_start_offset, patch.dma_buffer_submission_end_offset);
        let part = start as usize..start as usize + patch.dma_buffer.len();
        let (buffer, bytes) = adapter.dma.patched(number);
        let before = adapter.dma.content(number, usize::MAX);
        let mut args = DXGKARG_PATCH {
            hContext: adapter.contexts.handle(patch.context.0),
            DmaBufferPhysicalAddress: buffer.address,
            pDmaBuffer: bytes,
            DmaBufferSize: patch.dma_buffer_size,
            DmaBufferSubmissionStartOffset: start,
            DmaBufferSubmissionEndOffset: end,
            pDmaBufferPrivateData: buffer.private,
            DmaBufferPrivateDataSize: buffer.private_size,
            DmaBufferPrivateDataSubmissionEndOffset: buffer.private_end(),
            pAllocationList: self.elements.as_ptr(),
            AllocationListSize: self.elements.len() as u32,
            pPatchLocationList: self.locations.as_ptr(),
            PatchLocationListSize: self.locations.len() as u32,
            PatchLocationListSubmissionStart: patch.patch_location_list_submission_start,
            PatchLocationListSubmissionLength: patch.patch_location_list_submission_length,
            SubmissionFenceId: adapter.fences.fence_of(patch.submission_fence_id),
            ..DXGKARG_PATCH::zeroed()
        };
        // SAFETY: the struct, its lists and its buffer live for the call; beyond the buffer's end are bytes of ours.
        let status = adapter.call_with(Entry::DxgkDdiPatch, PASSIVE_LEVEL, &mut args, |args| unsafe {
            function(adapter.handle(), args)
        });
        if status < 0 {
            report("PAT-15", format!("DxgkDdiPatch failed with status {status:#x}: it must not fail"));
        }
        adapter.dma.must_be_whole(number, "SPL-11", "DxgkDdiPatch");
        let after = adapter.dma.content(number, before.len());
        if let Some(patched) = after.get(part.clone()) {
            patch.dma_buffer.copy_from_slice(patched);
        }
        let mut changed = (0..before.len()).filter(|&at| before[at] != after[at]);
        let outside = changed.find(|at| !part.contains(at));
        if let Some(at) = outside {
            let message = format!("DxgkDdiPatch has written at offset {at}, and {start} to {end} are submitted");
            report("SPL-11", message);
        }
    }
}

pub(crate) fn private_size(context: &ContextOfDevice) -> usize {
    (context.private_data_size as usize).min(PRIVATE_DATA_MAX)
}

pub(crate) fn status_of(status: NTSTATUS) -> Result<(), RenderStatus> {
    match status {
        0.. => Ok(()),
        STATUS_GRAPHICS_INSUFFICIENT_DMA_BUFFER => Err(RenderStatus::InsufficientDmaBuffer),
        STATUS_NO_MEMORY => Err(RenderStatus::NoMemory),
        STATUS_PRIVILEGED_INSTRUCTION => Err(RenderStatus::PrivilegedInstruction),
        STATUS_ILLEGAL_INSTRUCTION => Err(RenderStatus::IllegalInstruction),
        STATUS_INVALID_HANDLE => Err(RenderStatus::InvalidHandle),
        STATUS_INVALID_PARAMETER | STATUS_INVALID_USER_BUFFER => Err(RenderStatus::InvalidParameter),
        _ => {
            report("PAT-12", format!("DxgkDdiRender failed with status {status:#x}, which is not documented"));
            Err(RenderStatus::InvalidParameter)
        }
    }
}

/// An address that is known when commands are translated is to be in the DMA buffer at once: if it stays, Patch is not called
/// (PAT-14).
fn check_addresses(adapter: &Adapter, render: &Render<'_>) {
    if adapter.driver().gpu().is_none() {
        return;
    }
    let written = &render.dma_buffer[..render.dma_bytes_written];
    for location in &*render.patch_location_list_out {
        let element = render.allocation_list.get(location.allocation_index as usize);
        let known = element.and_then(|element| element.allocation.zip(element.address));
        let Some((allocation, address)) = known else { continue };
        let expected = address.offset_by(location.allocation_offset.into());
        if user_work::patched_address(adapter, written, location.patch_offset as usize) != Some(expected) {
            report(
                "PAT-14",
                format!(
                    "allocation {:#x} is at {:#x} of segment {} when DxgkDdiRender is called, and the DMA buffer has another address",
                    allocation.0, address.offset, address.segment.0
                ),
            );
        }
    }
}

fn reference(location: &PatchLocation) -> (u32, u32) {
    (location.allocation_index, location.slot_id)
}

/// The split points of a list at which something is bound, and none of it is bound again or unbound.
fn leaks(locations: &[PatchLocation], elements: &[AllocationListElement]) -> usize {
    let mut bound: BTreeSet<u32> = BTreeSet::new();
    let mut leaks = 0;
    for group in locations.chunk_by(|one, next| one.split_offset == next.split_offset) {
        leaks += usize::from(!bound.is_empty() && !group.iter().any(|location| bound.contains(&location.slot_id)));
        for location in group {
            let element = elements.get(location.allocation_index as usize);
            match element.is_some_and(|element| element.allocation.is_some()) {
                true => bound.insert(location.slot_id),
                false => bound.remove(&location.slot_id),
            };
        }
    }
    leaks
}
