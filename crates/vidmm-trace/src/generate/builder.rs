//! Putting a workload together.

use crate::{Buffer, Cost, Engine, Kernel, Lifetime, Workload, WorkloadError};

/// The most kernels and buffers that a generator makes of each.
const MAX_ITEMS: usize = 1_000_000;

/// The most uses of a buffer by a kernel that a generator makes: 128 MB of indices.
const MAX_USES: usize = 32_000_000;

/// A workload under construction. It stops a generator before absurd parameters exhaust memory.
pub(super) struct Builder {
    workload: Workload,
    uses: usize,
}

impl Builder {
    /// Starts a workload.
    pub(super) fn new(name: &str) -> Self {
        let workload = Workload { name: name.to_owned(), ..Workload::default() };
        Self { workload, uses: 0 }
    }

    /// Adds a buffer, whose name is its index, and returns the index.
    pub(super) fn buffer(&mut self, bytes: u64, lifetime: Lifetime) -> Result<u32, WorkloadError> {
        let index = self.workload.buffers.len();
        self.named(index as u64, bytes, lifetime)
    }

    /// Adds a buffer with a name of its own and returns its index.
    pub(super) fn named(&mut self, name: u64, bytes: u64, lifetime: Lifetime) -> Result<u32, WorkloadError> {
        let index = self.workload.buffers.len();
        limit("buffers", index, MAX_ITEMS)?;
        self.workload.buffers.push(Buffer { name, bytes, lifetime });
        Ok(index as u32)
    }

    /// Adds a kernel.
    pub(super) fn kernel(&mut self, task: Task) -> Result<(), WorkloadError> {
        limit("kernels", self.workload.kernels.len(), MAX_ITEMS)?;
        self.uses += task.reads.len() + task.writes.len();
        limit("uses of a buffer by a kernel", self.uses, MAX_USES)?;
        self.workload.kernels.push(Kernel {
            engine: Engine::Compute,
            reads: task.reads,
            writes: task.writes,
            cost: Cost::Nanoseconds(task.nanoseconds),
            not_before_ns: task.not_before_ns,
            process: task.process,
        });
        Ok(())
    }

    /// Returns the bytes of a list of buffers.
    pub(super) fn bytes(&self, buffers: &[u32]) -> u128 {
        buffers.iter().map(|&index| u128::from(self.workload.buffers[index as usize].bytes)).sum()
    }

    /// Inserts the uploads, checks the workload and returns it.
    pub(super) fn finish(mut self) -> Result<Workload, WorkloadError> {
        self.workload.insert_uploads();
        self.workload.validate()?;
        Ok(self.workload)
    }
}

/// A kernel, as a generator describes it.
#[derive(Default)]
pub(super) struct Task {
    pub(super) reads: Vec<u32>,
    pub(super) writes: Vec<u32>,
    pub(super) nanoseconds: u64,
    pub(super) not_before_ns: u64,
    pub(super) process: u32,
}

/// Refuses one more item above the limit.
fn limit(what: &'static str, count: usize, limit: usize) -> Result<(), WorkloadError> {
    if count >= limit {
        return Err(WorkloadError::TooMany { what, limit: limit as u64 });
    }
    Ok(())
}
