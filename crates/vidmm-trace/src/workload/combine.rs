//! Several workloads as one, each with processes of its own.

use std::ops::Range;

use super::Workload;

impl Workload {
    /// Makes everything arrive `nanoseconds` later.
    pub fn delay(&mut self, nanoseconds: u64) {
        for kernel in &mut self.kernels {
            // Only an arrival that `validate` refuses saturates.
            kernel.not_before_ns = kernel.not_before_ns.saturating_add(nanoseconds);
        }
    }

    /// Divides the times of all arrivals by `divisor`, so that a recorded hour passes in seconds; the durations of
    /// kernels stay as they are. A divisor of 0 counts as 1.
    pub fn compress_arrivals(&mut self, divisor: u64) {
        for kernel in &mut self.kernels {
            kernel.not_before_ns /= divisor.max(1);
        }
    }

    /// Adds the processes of another workload, which run beside the present ones. Returns their numbers here: they
    /// follow the last one, in the same order.
    pub fn append(&mut self, other: Self) -> Range<u32> {
        let first_process = self.processes().last().map_or(0, |last| last + 1);
        let first_buffer = self.buffers.len() as u32;
        let numbers = other.processes();
        let process = |number: u32| first_process + numbers.partition_point(|&other| other < number) as u32;
        self.buffers.extend(other.buffers);
        self.kernels.extend(other.kernels.into_iter().map(|mut kernel| {
            kernel.reads.iter_mut().chain(&mut kernel.writes).for_each(|buffer| *buffer += first_buffer);
            kernel.process = process(kernel.process);
            kernel
        }));
        first_process..first_process + numbers.len() as u32
    }
}
