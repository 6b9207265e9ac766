//! The memory that a workload needs.

use super::{Kernel, Lifetime, Workload};

/// The memory that a workload needs, each buffer rounded up to a granule.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Footprint {
    /// The most bytes that are alive at one time: the local memory that needs no paging. Processes run beside each
    /// other, so this is the sum of their peaks.
    pub peak_bytes: u64,
    /// The bytes of all buffers that any kernel uses, each counted once.
    pub touched_bytes: u64,
    /// The bytes of the distinct buffers of the kernel that needs most: less local memory than this can not run the
    /// workload at all.
    pub largest_kernel_bytes: u64,
    /// The number of buffers.
    pub buffers: u64,
    /// The number of kernels, without the uploads.
    pub kernels: u64,
    /// The number of uploads by the host.
    pub uploads: u64,
    /// The number of pairs of a kernel and a buffer that it uses, without the uploads.
    pub touches: u64,
}

impl Footprint {
    /// Counts the uses of one kernel.
    fn add_working_set(&mut self, kernel: &Kernel, sizes: &[u128]) {
        let used = kernel.buffers();
        let bytes = used.iter().filter_map(|&buffer| sizes.get(buffer as usize)).sum();
        self.largest_kernel_bytes = self.largest_kernel_bytes.max(clamp(bytes));
        if !kernel.is_upload() {
            self.touches += used.len() as u64;
        }
    }
}

impl Workload {
    /// Measures the workload, each buffer rounded up to a multiple of `granule` bytes.
    ///
    /// The granule is the allocation granularity of the machine; 1 gives exact bytes, and 0 counts
    /// as 1. Sums beyond 64 bits saturate; [`Workload::validate`] refuses such workloads.
    pub fn footprint(&self, granule: u64) -> Footprint {
        let granule = granule.max(1);
        let sizes: Vec<u128> = self.buffers.iter().map(|b| rounded(b.bytes, granule)).collect();
        let uploads = self.kernels.iter().filter(|kernel| kernel.is_upload()).count();
        let mut footprint = Footprint {
            peak_bytes: clamp(self.peak(&sizes)),
            touched_bytes: clamp(self.touched(&sizes)),
            buffers: self.buffers.len() as u64,
            kernels: (self.kernels.len() - uploads) as u64,
            uploads: uploads as u64,
            ..Footprint::default()
        };
        for kernel in &self.kernels {
            footprint.add_working_set(kernel, &sizes);
        }
        footprint
    }

    /// The sum over all processes of the most bytes that each has alive at one time.
    fn peak(&self, sizes: &[u128]) -> u128 {
        let numbers = self.processes();
        let mut processes = vec![Alive::default(); numbers.len()];
        let owner = |kernel: usize| numbers.binary_search(&self.kernels[kernel].process).expect("it is listed");
        let uses = self.first_and_last_use();
        let mut born = vec![Vec::new(); self.kernels.len()];
        let mut dead = vec![Vec::new(); self.kernels.len()];
        for (buffer, (kind, &(first, last))) in self.buffers.iter().zip(&uses).enumerate() {
            match kind.lifetime {
                // A buffer that no kernel uses has no process; it counts for the first one, if there is one.
                Lifetime::Whole => {
                    let owner =
                        if first > last { (!numbers.is_empty()).then_some(0) } else { Some(owner(first as usize)) };
                    owner.into_iter().for_each(|owner| processes[owner].is_born(sizes[buffer]));
                }
                _ if first > last => {}
                Lifetime::Temporary => {
                    born[first as usize].push(buffer);
                    dead[last as usize].push(buffer);
                }
                Lifetime::Kept => born[first as usize].push(buffer),
            }
        }
        for (kernel, (born, dead)) in born.iter().zip(&dead).enumerate() {
            let process = &mut processes[owner(kernel)];
            born.iter().for_each(|&buffer| process.is_born(sizes[buffer]));
            process.bytes -= dead.iter().map(|&buffer| sizes[buffer]).sum::<u128>();
        }
        processes.iter().map(|process| process.peak).sum()
    }

    /// The bytes of all buffers that any kernel uses.
    fn touched(&self, sizes: &[u128]) -> u128 {
        let uses = self.first_and_last_use();
        let used = sizes.iter().zip(&uses).filter(|(_, (first, last))| first <= last);
        used.map(|(size, _)| size).sum()
    }
}

/// The bytes of a process that are alive, and their peak.
#[derive(Clone, Copy, Default)]
struct Alive {
    bytes: u128,
    peak: u128,
}

impl Alive {
    fn is_born(&mut self, bytes: u128) {
        self.bytes += bytes;
        self.peak = self.peak.max(self.bytes);
    }
}

/// The size rounded up to a multiple of the granule, in a type that no sum of sizes overflows.
fn rounded(bytes: u64, granule: u64) -> u128 {
    u128::from(bytes.div_ceil(granule)) * u128::from(granule)
}

/// The sum as 64 bits, saturated.
fn clamp(bytes: u128) -> u64 {
    u64::try_from(bytes).unwrap_or(u64::MAX)
}
