//! User work for an adapter without GPU virtual addresses: kernels that find memory through slots.

use vidmm::contract::PatchLocation;

use crate::kernel::{Content, Surface};

/// A step of a command buffer. A client lays steps into it in order.
///
/// Binding is record-keeping of the core and the driver (SPL-02): a kernel finds through a slot the address that the
/// driver patches into its command. Between two split points a slot holds one allocation, or the driver refuses the
/// buffer.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum CommandStep {
    /// The buffer may be split here (SPL-01). There is one at its start anyway.
    SplitPoint,
    /// The slot holds an element of the allocation list for the kernels that follow. Behind each split point it is bound when the
    /// first kernel uses it there, so that it may be moved (SPL-08); it stays bound, and in its place, while none does.
    Bind {
        /// The slot.
        slot_id: u32,
        /// The element; not 0, which is the null element.
        allocation_index: u32,
    },
    /// The slot holds nothing any more, from the last split point on (PAT-16). Element 0 of the allocation list has to be the null element.
    Unbind {
        /// The slot.
        slot_id: u32,
    },
    /// A kernel runs.
    Kernel(BoundKernel),
}

/// A kernel whose memory is in slots; else as [`KernelCommand`](crate::KernelCommand).
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct BoundKernel {
    /// Its number; its outputs depend on it.
    pub kernel: u64,
    /// Its duration in nanoseconds.
    pub nanoseconds: u64,
    /// Content that fills its outputs.
    pub content: Content,
    /// The ranges that it reads, in order.
    pub inputs: Vec<BoundRange>,
    /// The ranges that it writes, in order. The elements must be [write
    /// operations](vidmm::contract::AllocationListElement).
    pub outputs: Vec<BoundRange>,
}

/// Pages of the allocation that a slot holds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BoundRange {
    /// The slot.
    pub slot_id: u32,
    /// The first page, in pages of 4 KiB from the allocation's start; below 4 GiB.
    pub first_page: u64,
    /// Pages of 4 KiB.
    pub num_pages: u64,
    /// The compression surface that the pages belong to, if they do.
    pub surface: Option<Surface>,
}

/// A command buffer as the user-mode driver has written it.
#[doc(alias = "D3DKMT_RENDER")]
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct UserCommands {
    /// The commands.
    pub commands: Vec<u8>,
    /// The patch locations of the addresses in them, in the order of their split offsets (SPL-04).
    pub patch_locations: Vec<PatchLocation>,
}
