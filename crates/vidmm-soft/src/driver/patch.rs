//! Patching: addresses of allocations go into commands.

use vidmm::contract::{AllocationListElement, KmdAllocationHandle, Patch, PatchLocation};

use super::SoftKmd;
use crate::encoding::UseAllocation;
use crate::physical_addresses::UNPATCHED_ADDRESS;

/// Bytes of an address in a command.
const ADDRESS_BYTES: usize = 8;

impl SoftKmd {
    /// Writes the addresses of the commands of a portion.
    pub(super) fn patch_portion(&self, patch: &mut Patch<'_>) {
        let (first, count) = (patch.patch_location_list_submission_start, patch.patch_location_list_submission_length);
        for location in patch.patch_location_list.iter().skip(first as usize).take(count as usize) {
            let Some(element) = patch.allocation_list.get(location.allocation_index as usize) else { continue };
            let Some(at) = location.patch_offset.checked_sub(patch.dma_buffer_submission_start_offset) else {
                continue;
            };
            self.write_address(patch.dma_buffer, at as usize, element, location);
        }
    }

    /// Notes where the portion expects what the GPU is told of. The aperture is not told of (BPB-51).
    pub(super) fn note_uses(&mut self, patch: &Patch<'_>) {
        let is_told =
            |handle: &KmdAllocationHandle| self.allocations.get(handle).is_some_and(|allocation| allocation.is_told);
        let used = |element: &AllocationListElement| {
            let (allocation, address) = (element.allocation.filter(is_told)?, element.address?);
            let is_local = self.config.memory_segments().any(|(segment, ..)| segment == address.segment);
            is_local.then(|| UseAllocation { allocation, address: self.addresses.address(address) })
        };
        let uses = patch.allocation_list.iter().filter_map(used).collect();
        if let Some(context) = self.contexts.get_mut(&patch.context) {
            context.uses = uses;
        }
    }

    /// Writes what `location` stands for to byte `at` of `commands`, if that is inside. Where an element's address is not known
    /// a command gets one at which it faults; the null element has none to write (PAT-16).
    pub(super) fn write_address(
        &self,
        commands: &mut [u8],
        at: usize,
        element: &AllocationListElement,
        location: &PatchLocation,
    ) {
        let Some(bytes) = commands.get_mut(at..).and_then(|rest| rest.get_mut(..ADDRESS_BYTES)) else { return };
        if element.allocation.is_none() {
            return;
        }
        let address = element.address.map(|address| self.addresses.address(address));
        let address = address.map(|address| address.offset(location.allocation_offset.into()));
        bytes.copy_from_slice(&address.unwrap_or(UNPATCHED_ADDRESS).0.to_le_bytes());
    }
}
