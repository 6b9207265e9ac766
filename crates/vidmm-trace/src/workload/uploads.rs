//! Inserting the uploads that a trace leaves out.

use super::{Cost, Engine, Kernel, Workload};

impl Workload {
    /// Inserts the uploads by which the host loads inputs and weights.
    ///
    /// A trace starts with its inputs in place; a memory manager starts with nothing. So each buffer whose first use is
    /// a read gets one copy kernel that writes it, right before the kernel that reads it first, by the same process and
    /// with the same arrival time. After this no kernel reads a buffer that no kernel wrote; a second call changes
    /// nothing.
    pub fn insert_uploads(&mut self) {
        let mut written = vec![false; self.buffers.len()];
        let mut kernels = Vec::with_capacity(self.kernels.len());
        for kernel in std::mem::take(&mut self.kernels) {
            for &buffer in &kernel.reads {
                if mark(&mut written, buffer) {
                    kernels.push(upload(buffer, &kernel));
                }
            }
            for &buffer in &kernel.writes {
                mark(&mut written, buffer);
            }
            kernels.push(kernel);
        }
        self.kernels = kernels;
    }
}

/// Marks a buffer as written and returns whether it was not before. `validate` refuses an index out of range, which
/// counts as written.
fn mark(written: &mut [bool], buffer: u32) -> bool {
    written.get_mut(buffer as usize).is_some_and(|written| !std::mem::replace(written, true))
}

/// The kernel that writes `buffer` for its first reader.
fn upload(buffer: u32, reader: &Kernel) -> Kernel {
    Kernel {
        engine: Engine::Copy,
        reads: Vec::new(),
        writes: vec![buffer],
        cost: Cost::Upload,
        not_before_ns: reader.not_before_ns,
        process: reader.process,
    }
}
