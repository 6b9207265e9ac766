//! The state of a buffer, and the result of an attempt to submit.

use vidmm::AllocationId;
use vidmm_runtime::PageRange;

/// A buffer of the workload.
#[derive(Clone, Copy, Default)]
pub(super) struct BufferState {
    pub allocation: Option<AllocationId>,
    pub mapping: Option<PageRange>,
    pub last_use: u32,
    /// The fence value of each engine after the last kernel with the allocation.
    pub last_access: [u64; 2],
    /// Whether a kernel has named the allocation.
    pub was_used: bool,
    /// Whether the CPU's view was judged after the last kernel.
    pub copy_is_judged: bool,
    /// Whether the content was lost with a device. The client loads lost content again before a read.
    pub is_lost: bool,
    /// Whether the buffer was given up: the allocation is gone, or another buffer's.
    pub is_dead: bool,
}

/// The result of an attempt to submit.
pub(super) enum Attempt {
    Submitted,
    /// There is no room at present.
    NoMemory {
        num_bytes_to_trim: u64,
    },
    /// The kernels of the process up to this number must end before.
    WaitsFor(u64),
}
