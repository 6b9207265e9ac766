//! Submission without GPU virtual addresses: references, and the calls that let a driver patch them (section 7).

use alloc::vec::Vec;

use super::{KmdAllocationHandle, KmdContextHandle};
use crate::units::PhysicalAddress;

/// An allocation that a DMA buffer refers to (7.1).
#[doc(alias = "DXGK_ALLOCATIONLIST")]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct AllocationListElement {
    /// The allocation; none unbinds the slot of the patch location that names it (PAT-16).
    #[doc(alias = "hDeviceSpecificAllocation")]
    pub allocation: Option<KmdAllocationHandle>,
    /// Whether the GPU writes to it.
    pub write_operation: bool,
    /// Its address; none if that is not known yet (PAT-14).
    #[doc(alias = "SegmentId")]
    pub address: Option<PhysicalAddress>,
}

/// A place in a DMA buffer that holds an allocation's address (7.1).
#[doc(alias = "D3DDDI_PATCHLOCATIONLIST")]
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "snake_case"))]
pub struct PatchLocation {
    /// The index of the element of the allocation list.
    pub allocation_index: u32,
    /// The row of the resource table that the allocation is bound to (SPL-02). 24 bits.
    pub slot_id: u32,
    /// A value of the driver's own.
    pub driver_id: u32,
    /// The offset to be added to the allocation's address, in bytes.
    pub allocation_offset: u32,
    /// The offset of the address in the DMA buffer, in bytes.
    pub patch_offset: u32,
    /// The offset in the DMA buffer up to which the GPU may run without the allocation, in bytes (SPL-02).
    pub split_offset: u32,
}

/// One call of [`render`](super::Kmd::render).
#[doc(alias = "DXGKARG_RENDER")]
#[derive(Debug)]
pub struct Render<'a> {
    /// The context.
    pub context: KmdContextHandle,
    /// The user-mode driver's commands.
    pub command: &'a [u8],
    /// An empty DMA buffer. A call for the rest of the commands has a new DMA buffer (PAT-12).
    pub dma_buffer: &'a mut [u8],
    /// The allocations that the commands refer to, with the addresses that are known: these are to be written into the
    /// DMA buffer at once (PAT-14).
    pub allocation_list: &'a [AllocationListElement],
    /// The user-mode driver's patch locations.
    pub patch_location_list_in: &'a [PatchLocation],
    /// Appended to by the driver: the places of addresses in the DMA buffer, in the order of the buffer.
    pub patch_location_list_out: &'a mut Vec<PatchLocation>,
    /// Set by the driver: the number of bytes of `dma_buffer` that it wrote.
    pub dma_bytes_written: usize,
    /// Appended to by the driver: the private data that it keeps with the DMA buffer, at most 64 MiB (PAT-02). Patch and the packet have it.
    #[doc(alias = "pDmaBufferPrivateData")]
    pub dma_buffer_private_data: &'a mut Vec<u8>,
    /// The driver's progress in earlier calls for these commands. 0 at first; the core never writes it (PAT-12).
    pub multipass_offset: &'a mut u32,
}

/// The reason why a driver does not translate commands (PAT-12).
#[doc(alias = "DxgkDdiRender")]
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "snake_case"))]
pub enum RenderStatus {
    /// The DMA buffer is full: the driver goes on in a new DMA buffer. A driver that has written nothing gets a larger DMA buffer.
    #[error("the DMA buffer is full")]
    InsufficientDmaBuffer,
    /// The driver is out of memory.
    #[error("the driver has no memory to translate the commands")]
    NoMemory,
    /// A command that only the driver may give.
    #[error("a command is privileged")]
    PrivilegedInstruction,
    /// A command that means nothing.
    #[error("a command means nothing to the driver")]
    IllegalInstruction,
    /// Arguments that mean nothing.
    #[error("the driver does not understand the command buffer")]
    InvalidParameter,
    /// A list that names a forbidden allocation.
    #[error("the driver refuses an allocation or patch location")]
    InvalidHandle,
}

/// One call of [`patch`](super::Kmd::patch): the addresses of a portion are known, and will not change before it has run.
#[doc(alias = "DXGKARG_PATCH")]
#[derive(Debug)]
pub struct Patch<'a> {
    /// The context.
    pub context: KmdContextHandle,
    /// The bytes of the DMA buffer from the start offset to the end offset.
    pub dma_buffer: &'a mut [u8],
    /// Bytes in the whole DMA buffer.
    pub dma_buffer_size: u32,
    /// The private data of the whole DMA buffer; a change is for this submission.
    #[doc(alias = "pDmaBufferPrivateData")]
    pub dma_buffer_private_data: &'a mut [u8],
    /// The first byte that is submitted.
    pub dma_buffer_submission_start_offset: u32,
    /// The first byte behind the portion.
    pub dma_buffer_submission_end_offset: u32,
    /// The references of the DMA buffer, with addresses for those that are bound in this portion.
    pub allocation_list: &'a [AllocationListElement],
    /// The patch locations of the whole DMA buffer.
    pub patch_location_list: &'a [PatchLocation],
    /// The first of them whose split offset is in the portion (U-47).
    pub patch_location_list_submission_start: u32,
    /// The number of those that are.
    pub patch_location_list_submission_length: u32,
    /// The fence that the portion's end signals.
    pub submission_fence_id: u64,
}
