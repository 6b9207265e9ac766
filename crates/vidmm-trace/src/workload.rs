//! The workload model: buffers, and the kernels that use them in order.

mod combine;
mod footprint;
mod uploads;
mod validate;

use std::collections::BTreeSet;

pub use footprint::Footprint;
pub use validate::WorkloadError;

/// The unit to which [`Workload::scale`] rounds, in bytes: a small GPU page.
pub const SCALE_UNIT: u64 = 4096;

/// A client's work on a GPU: buffers and the kernels that read and write them, in order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Workload {
    /// The name in reports: the trace's or the generator's.
    pub name: String,
    /// Every buffer of the run; kernels name them by their index here.
    pub buffers: Vec<Buffer>,
    /// The kernels in execution order; those of one process run one after the other.
    pub kernels: Vec<Kernel>,
}

/// A piece of GPU memory that kernels read and write as a whole.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Buffer {
    /// The tensor or block id, as the trace names it.
    pub name: u64,
    /// The size in bytes, exact as in the trace; never 0 in a valid workload.
    pub bytes: u64,
    /// The time in which the buffer exists.
    pub lifetime: Lifetime,
}

/// The time in which a buffer exists, and so needs memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lifetime {
    /// It exists from the start to the end, as a weight does.
    Whole,
    /// It is born at its first use and dies after its last, as an activation does.
    Temporary,
    /// It is born at its first use and kept to the end: an LLM server cannot know that a cached
    /// block will never be asked for again.
    Kept,
}

/// One piece of work on an engine of the GPU.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Kernel {
    /// The engine that runs it.
    pub engine: Engine,
    /// Indices into [`Workload::buffers`] of its inputs, each once.
    pub reads: Vec<u32>,
    /// Indices into [`Workload::buffers`] of its outputs, each once. A buffer in both lists is updated in place.
    pub writes: Vec<u32>,
    /// Its duration once all its buffers are resident.
    pub cost: Cost,
    /// The arrival time in nanoseconds from the start of the run: it does not start earlier.
    pub not_before_ns: u64,
    /// The process that submits it.
    pub process: u32,
}

/// The part of the GPU that runs a kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Engine {
    /// The shader cores.
    Compute,
    /// The copy engine, on which the host's uploads run.
    Copy,
}

/// The duration of a kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cost {
    /// The measured or estimated time, in nanoseconds.
    Nanoseconds(u64),
    /// An upload by the host: the machine's bus bandwidth decides.
    Upload,
}

impl Kernel {
    /// Returns the distinct buffers that the kernel uses, in ascending order.
    pub fn buffers(&self) -> Vec<u32> {
        let mut used: Vec<u32> = self.reads.iter().chain(&self.writes).copied().collect();
        used.sort_unstable();
        used.dedup();
        used
    }

    /// Says whether this is an upload by the host rather than work of the client's own.
    pub fn is_upload(&self) -> bool {
        self.cost == Cost::Upload
    }
}

impl Workload {
    /// The time that the longest kernel takes, in nanoseconds; an upload's follows from the machine.
    pub fn longest_kernel(&self) -> u64 {
        let lengths = self.kernels.iter().map(|kernel| match kernel.cost {
            Cost::Nanoseconds(nanoseconds) => nanoseconds,
            Cost::Upload => 0,
        });
        lengths.max().unwrap_or(0)
    }

    /// Divides every buffer's size by `divisor`, rounds it up to [`SCALE_UNIT`], and leaves the
    /// times as they are.
    ///
    /// Small runs, in which every byte of content is checked, use it. The rounding keeps each
    /// buffer at least one page long. A divisor of 0 counts as 1.
    pub fn scale(&mut self, divisor: u64) {
        for buffer in &mut self.buffers {
            let pages = (buffer.bytes / divisor.max(1)).div_ceil(SCALE_UNIT).max(1);
            // Only a size within a page of `u64::MAX` saturates; `validate` refuses such sizes.
            buffer.bytes = pages.saturating_mul(SCALE_UNIT);
        }
    }

    /// Returns, for each buffer, the indices of the first and the last kernel that use it.
    ///
    /// A buffer that no kernel uses gets `(u32::MAX, 0)`, an empty range; [`Workload::validate`]
    /// refuses such a buffer. Indices out of range are passed over, and refused there too.
    pub fn first_and_last_use(&self) -> Vec<(u32, u32)> {
        let mut uses = vec![(u32::MAX, 0); self.buffers.len()];
        for (at, kernel) in (0_u32..).zip(&self.kernels) {
            for &buffer in kernel.reads.iter().chain(&kernel.writes) {
                if let Some((first, last)) = uses.get_mut(buffer as usize) {
                    *first = at.min(*first);
                    *last = at;
                }
            }
        }
        uses
    }

    /// Returns the processes that submit kernels, in ascending order and each once.
    ///
    /// A buffer belongs to the process of the kernel that uses it first.
    pub fn processes(&self) -> Vec<u32> {
        let all = self.kernels.iter().map(|kernel| kernel.process);
        all.collect::<BTreeSet<u32>>().into_iter().collect()
    }
}
