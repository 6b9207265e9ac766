//! Presentations: the driver writes a copy from one allocation to another, and addresses are patched as in the work of users (PAT-10).
//! No presentation is submitted: nothing says what the commands do to the pixels.

use std::array;

use vidmm::PhysicalAddress;

use crate::abi::*;
use crate::adapter::{Adapter, PASSIVE_LEVEL};
use crate::bounce::Bounce;
use crate::memory::SegmentBases;
use crate::patching::{LOCATION_BYTES, NOT_BEHIND_THE_LAST, written_locations};
use crate::progress::Entry;
use crate::reports::{remark, report};

/// The context, the open allocations and their places.
pub(crate) struct Presentation<'a> {
    pub adapter: &'a Adapter,
    pub bases: &'a SegmentBases,
    /// The manager's number of the context.
    pub context: u64,
    /// `DXGK_CONTEXTINFO.DmaBufferSize`, and bytes of private data.
    pub dma_buffer_size: usize,
    pub private_size: usize,
    /// The source and the destination: the driver's names, and places.
    pub surfaces: [(HANDLE, PhysicalAddress); 2],
    /// The pixels of the smaller surface.
    pub pixels: (u32, u32),
    /// The driver patches addresses.
    pub patches: bool,
}

/// A DMA buffer of so many bytes, and a list of so many locations.
#[derive(Clone, Copy)]
struct Room {
    bytes: usize,
    locations: usize,
}

/// A surface moves by so many bytes.
const DISTANCE: u64 = 1 << 20;

/// More calls for one presentation are no progress.
const CALLS_MAX: usize = 64;

/// Elements without an allocation, the source, and the destination.
type Elements = [DXGK_ALLOCATIONLIST; 3];

/// The state between the calls of one presentation.
struct Progress {
    room: Room,
    multipass: u32,
}

impl Presentation<'_> {
    /// Presents with much room and with little, with addresses that are known and with addresses that are not.
    pub fn try_out(&self) {
        let large = Room { bytes: self.dma_buffer_size, locations: 64 };
        let small = Room { bytes: 48, ..large };
        let short = Room { locations: 2, ..large };
        for (is_known, room) in [(false, large), (true, large), (false, small), (false, short)] {
            let mut progress = Progress { room, multipass: 0 };
            let is_over = (0..CALLS_MAX).any(|_| self.call(is_known, &mut progress));
            if !is_over {
                report("DDI-PRESENT", format!("a presentation does not end in {CALLS_MAX} calls of DxgkDdiPresent"));
            }
        }
    }

    fn elements(&self, is_known: bool, moved: [bool; 2]) -> Elements {
        let mut elements = array::from_fn(|_| DXGK_ALLOCATIONLIST::zeroed());
        for ((element, (name, place)), is_moved) in elements[1..].iter_mut().zip(self.surfaces).zip(moved) {
            element.hDeviceSpecificAllocation = name;
            if is_known {
                let segment = u32::from(place.segment.0) << ALLOCATION_LIST_SEGMENT_SHIFT;
                element.WriteOperation = segment;
                element.PhysicalAddress = self.bases.address(place) + if is_moved { DISTANCE } else { 0 };
            }
        }
        elements[DXGK_PRESENT_DESTINATION_INDEX].WriteOperation |= 1;
        elements
    }

    /// One call. Returns whether the presentation is over.
    fn call(&self, is_known: bool, progress: &mut Progress) -> bool {
        let (adapter, Room { bytes: room, locations: list_size }) = (self.adapter, progress.room);
        let Some(function) = adapter.ddi().DxgkDdiPresent else { return true };
        let place = adapter.dma.rendered(self.context, room, self.private_size);
        let mut elements = self.elements(is_known, [false, false]);
        let mut list = Bounce::default();
        let (width, height) = (self.pixels.0 as i32, self.pixels.1 as i32);
        let whole = [0, 0, width, height];
        let halves = [[0, 0, width, height / 2], [0, height / 2, width, height]];
        let mut args = DXGKARG_PRESENT {
            pDmaBuffer: place.dma,
            DmaSize: room as u32,
            pDmaBufferPrivateData: place.private,
            DmaBufferPrivateDataSize: self.private_size as u32,
            pAllocationList: elements.as_mut_ptr(),
            pPatchLocationListOut: list.start(0, list_size * LOCATION_BYTES).cast(),
            PatchLocationListOutSize: list_size as u32,
            MultipassOffset: progress.multipass,
            DstRect: whole,
            SrcRect: whole,
            SubRectCnt: halves.len() as u32,
            pDstSubRects: halves.as_ptr(),
            Flags: PRESENT_BLT,
            DmaBufferPhysicalAddress: adapter.dma.patched(place.number).0.address,
            ..DXGKARG_PRESENT::zeroed()
        };
        let context = adapter.contexts.handle(self.context);
        // SAFETY: the struct, the lists and the buffers live for the call; beyond a buffer's end are bytes of ours.
        let status = adapter
            .call_with(Entry::DxgkDdiPresent, PASSIVE_LEVEL, &mut args, |args| unsafe { function(context, args) });
        let mut bytes = vec![0; room];
        let written = adapter.dma.take_dma(place, args.pDmaBuffer, &mut bytes);
        let private = match self.private_size {
            0 => None,
            _ => adapter.dma.take_private(place, args.pDmaBufferPrivateData, &mut []).err(),
        };
        let of_private = private.map(|damage| format!("{} bytes of private data, and {damage}", self.private_size));
        let of_buffer = written.err().map(|damage| format!("a DMA buffer of {room} bytes, and {damage}"));
        if let Some(told) = of_buffer.or(of_private) {
            report("BPB-02", format!("DxgkDdiPresent has {told}"));
            adapter.dma.release(place.number);
            return true;
        }
        bytes.truncate(written.unwrap_or_default());
        let Some(locations) = written_locations(&mut list, args.pPatchLocationListOut.cast()) else {
            report("DDI-PRESENT", format!("DxgkDdiPresent: {NOT_BEHIND_THE_LAST}"));
            adapter.dma.release(place.number);
            return true;
        };
        let is_full = status == STATUS_GRAPHICS_INSUFFICIENT_DMA_BUFFER;
        if !is_full && status < 0 {
            adapter.dma.release(place.number);
            if !matches!(status, STATUS_NO_MEMORY | STATUS_INSUFFICIENT_RESOURCES) {
                let message = "of a copy between two allocations: no presentation is judged";
                remark("DRV-19", format!("DxgkDdiPresent answers with status {status:#x} {message}"));
            }
            return true;
        }
        if is_full && bytes.is_empty() {
            adapter.dma.release(place.number);
            progress.room = Room { bytes: room * 2, locations: list_size * 2 };
            return false;
        }
        if is_full && args.MultipassOffset == progress.multipass {
            let message = "DxgkDdiPresent has filled a DMA buffer, and MultipassOffset is what it was";
            report("DDI-PRESENT", message);
            adapter.dma.release(place.number);
            return true;
        }
        progress.multipass = args.MultipassOffset;
        if self.judge(&bytes, &locations) && self.patches {
            self.patch(place.number, bytes.len(), &locations);
        }
        // The context's end cancels the buffer.
        adapter.dma.end_render(place.number);
        !is_full
    }

    /// Judges the list of a buffer. Returns whether the list is right, and something is in the list.
    fn judge(&self, bytes: &[u8], locations: &[D3DDDI_PATCHLOCATIONLIST]) -> bool {
        let wrong = locations.iter().find_map(|location| {
            let &D3DDDI_PATCHLOCATIONLIST { AllocationIndex: index, PatchOffset: offset, .. } = location;
            match index {
                0 => None,
                1 | 2 if (offset as usize) < bytes.len() => None,
                1 | 2 => Some(format!("PatchOffset {offset} is behind the {} bytes that were written", bytes.len())),
                _ => Some(format!("AllocationIndex is {index}, and the list has 3 elements")),
            }
        });
        let falls = !locations.is_sorted_by_key(|location| location.SplitOffset);
        let wrong = wrong.or(falls.then(|| "the split offsets fall from one entry to the next".to_owned()));
        if let Some(wrong) = wrong {
            report("DDI-PRESENT", format!("pPatchLocationListOut of DxgkDdiPresent: {wrong}"));
            return false;
        }
        let names = |index: usize| locations.iter().any(|location| location.AllocationIndex as usize == index);
        match (names(DXGK_PRESENT_SOURCE_INDEX), names(DXGK_PRESENT_DESTINATION_INDEX)) {
            (true, true) => true,
            (false, false) => {
                if !bytes.is_empty() && self.patches {
                    remark("DRV-19", "DxgkDdiPresent lists no patch location, and has written commands");
                }
                false
            }
            (has_source, _) => {
                let [listed, other] = if has_source { ["source", "destination"] } else { ["destination", "source"] };
                let message = format!("pPatchLocationListOut names the {listed} of a copy, and not the {other}");
                report("DDI-PRESENT", message);
                false
            }
        }
    }

    /// Lets the driver patch the buffer again and again: the bytes are others when a surface has moved.
    fn patch(&self, number: usize, size: usize, locations: &[D3DDDI_PATCHLOCATIONLIST]) {
        let patched = [[false, false], [true, false], [false, true]].map(|moved| {
            self.patch_once(number, size, locations, &self.elements(true, moved));
            self.adapter.dma.content(number, size)
        });
        for (moved, name) in patched[1..].iter().zip(["source", "destination"]) {
            if *moved == patched[0] {
                let message = format!("the {name} of a presentation has moved, and the DMA buffer is what it was");
                report("DDI-PRESENT", format!("DxgkDdiPatch: {message}"));
            }
        }
    }

    fn patch_once(&self, number: usize, size: usize, locations: &[D3DDDI_PATCHLOCATIONLIST], elements: &Elements) {
        let Some(function) = self.adapter.ddi().DxgkDdiPatch else { return };
        let (buffer, bytes) = self.adapter.dma.patched(number);
        let mut args = DXGKARG_PATCH {
            hContext: self.adapter.contexts.handle(self.context),
            DmaBufferPhysicalAddress: buffer.address,
            pDmaBuffer: bytes,
            DmaBufferSize: size as u32,
            DmaBufferSubmissionEndOffset: size as u32,
            pDmaBufferPrivateData: buffer.private,
            DmaBufferPrivateDataSize: buffer.private_size,
            DmaBufferPrivateDataSubmissionEndOffset: buffer.private_end(),
            pAllocationList: elements.as_ptr(),
            AllocationListSize: elements.len() as u32,
            pPatchLocationList: locations.as_ptr(),
            PatchLocationListSize: locations.len() as u32,
            PatchLocationListSubmissionLength: locations.len() as u32,
            SubmissionFenceId: self.adapter.fences.fence_of(1),
            Flags: SUBMIT_PRESENT,
            ..DXGKARG_PATCH::zeroed()
        };
        let handle = self.adapter.handle();
        // SAFETY: the struct, the lists and the buffer live for the call; beyond the buffer's end are bytes of ours.
        let status = self
            .adapter
            .call_with(Entry::DxgkDdiPatch, PASSIVE_LEVEL, &mut args, |args| unsafe { function(handle, args) });
        if status < 0 {
            let message = "Patch must not fail";
            report("PAT-15", format!("DxgkDdiPatch of a presentation failed with status {status:#x}: {message}"));
        }
        self.adapter.dma.must_be_whole(number, "SPL-11", "DxgkDdiPatch");
    }
}
