//! Lists of patch locations with one mistake each. Users are not trusted: DxgkDdiRender refuses these lists.

use crate::abi::*;
use crate::adapter::{Adapter, PASSIVE_LEVEL};
use crate::patching::{ContextOfDevice, Patching, locations_in, private_size, status_of};
use crate::progress::Entry;
use crate::reports::report;
use vidmm::contract::Render;

/// The place of the mistake.
#[derive(Clone, Copy, Debug)]
enum Wrong {
    /// Behind the last element of the allocation list.
    AllocationIndex,
    /// Behind the last byte of the commands.
    PatchOffset,
    /// Behind the last byte of the allocation.
    AllocationOffset,
    /// Behind the last slot of all.
    SlotId,
}

const WRONG: [Wrong; 4] = [Wrong::AllocationIndex, Wrong::PatchOffset, Wrong::AllocationOffset, Wrong::SlotId];

/// One of so many calls of Render comes behind a call with a wrong list.
const EACH: usize = 4;

/// No allocation of a check is so large.
const FAR_OFFSET: u32 = 0xFFFF_F000;

impl Patching {
    /// Lets the driver translate commands with a wrong list, before it gets the right list. Nothing of the driver's answer is used.
    pub fn render_what_is_wrong(
        &mut self,
        adapter: &Adapter,
        function: unsafe extern "C" fn(HANDLE, *mut DXGKARG_RENDER) -> NTSTATUS,
        context: &ContextOfDevice,
        render: &Render<'_>,
    ) {
        self.num_renders += 1;
        if !self.num_renders.is_multiple_of(EACH) {
            return;
        }
        let wrong = WRONG[self.num_renders / EACH % WRONG.len()];
        let names_allocation = |location: &D3DDDI_PATCHLOCATIONLIST| {
            let element = self.elements.get(location.AllocationIndex as usize);
            element.is_some_and(|element| !element.hDeviceSpecificAllocation.is_null())
        };
        let Some(at) = self.locations.iter().position(names_allocation) else { return };
        let (right, num_elements) = (self.locations[at], self.elements.len());
        let location = &mut self.locations[at];
        match wrong {
            Wrong::AllocationIndex => location.AllocationIndex = num_elements as u32,
            Wrong::PatchOffset => location.PatchOffset = render.command.len() as u32,
            Wrong::AllocationOffset => location.AllocationOffset = FAR_OFFSET,
            Wrong::SlotId if self.num_slots >= SLOT_ID_MASK => return,
            Wrong::SlotId => location.Value = SLOT_ID_MASK,
        }
        // A driver without a check of the index reads an empty element.
        self.elements.push(DXGK_ALLOCATIONLIST::zeroed());
        let place = adapter.dma.rendered(render.context.0, render.dma_buffer.len(), private_size(context));
        let mut args = self.arguments(adapter, context, render, place);
        args.AllocationListSize = num_elements as u32;
        let handle = adapter.contexts.handle(render.context.0);
        // SAFETY: the struct and its buffers live for the call; beyond a buffer's end are bytes of ours.
        let status =
            adapter.call_with(Entry::DxgkDdiRender, PASSIVE_LEVEL, &mut args, |args| unsafe { function(handle, args) });
        if status_of(status).is_ok() {
            self.judge(wrong, at, num_elements, render.command.len(), args.pPatchLocationListOut.cast());
        }
        self.elements.pop();
        self.locations[at] = right;
        adapter.dma.release(place.number);
    }

    /// The driver has accepted the list. A slot is a mistake only in the list of the driver, who may have other slots.
    fn judge(&mut self, wrong: Wrong, at: usize, num_elements: usize, num_bytes: usize, end: *const u8) {
        let written = self.locations_out.written(0, end).map_or_else(Vec::new, locations_in);
        let hands_on = written.iter().any(|location| location.Value & SLOT_ID_MASK == SLOT_ID_MASK);
        let (rule, told) = match wrong {
            Wrong::AllocationIndex => {
                ("SPL-02", format!("AllocationIndex is {num_elements}: pAllocationList has {num_elements} elements"))
            }
            Wrong::PatchOffset => ("PAT-10", format!("PatchOffset is {num_bytes:#x}, and so is CommandLength")),
            Wrong::AllocationOffset => {
                ("PAT-10", format!("AllocationOffset is {FAR_OFFSET:#x}, behind the end of the allocation"))
            }
            Wrong::SlotId if !hands_on => return,
            Wrong::SlotId => {
                let slots = self.num_slots;
                ("SPL-02", format!("SlotId is {SLOT_ID_MASK:#x}: MaxAllocationListSlotId is {slots}"))
            }
        };
        report(rule, format!("DxgkDdiRender has accepted a list of the user's in which entry {at} is wrong: {told}"));
    }
}
