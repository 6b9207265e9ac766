//! The rules of a valid workload.

use super::{Cost, Engine, Kernel, Workload};

/// The largest number of buffers, and of kernels, in a workload: their indices are 32 bits wide.
const MAX_ITEMS: usize = u32::MAX as usize - 1;

/// The largest sum of all buffers' sizes, in bytes: 1 EiB, so that rounding never overflows.
const MAX_TOTAL_BYTES: u128 = 1 << 60;

/// The longest sum of all kernels' times and the latest arrival, in nanoseconds: 36 years, so that no clock overflows.
const MAX_TOTAL_NANOSECONDS: u128 = 1 << 60;

/// The reason why a workload, or the parameters for one, are refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WorkloadError {
    /// There is nothing to run.
    #[error("the workload has no kernels; give it at least one")]
    Empty,
    /// There are more kernels, buffers or uses than the limit.
    #[error("the workload has more than {limit} {what}; make it smaller or shorter")]
    TooMany {
        /// The items.
        what: &'static str,
        /// The largest number that is accepted.
        limit: u64,
    },
    /// The buffers' sizes add up to more than the limit.
    #[error("the buffers add up to more than 1 EiB; make them smaller or fewer")]
    TooLarge,
    /// The kernels' times add up to more than the limit.
    #[error("the kernels' times and arrivals add up to more than 36 years; are they in nanoseconds?")]
    TooLong,
    /// A buffer has no bytes.
    #[error("buffer {name} has 0 bytes; every buffer needs at least 1")]
    NoBytes {
        /// The buffer's name in the trace.
        name: u64,
    },
    /// No kernel uses a buffer.
    #[error("no kernel uses buffer {name}; leave it out")]
    Unused {
        /// The buffer's name in the trace.
        name: u64,
    },
    /// A kernel names a buffer that does not exist.
    #[error("kernel {kernel} names buffer index {index}, but there are only {buffers} buffers")]
    NoSuchBuffer {
        /// The kernel's index.
        kernel: usize,
        /// The index it gives.
        index: u32,
        /// The number of buffers.
        buffers: usize,
    },
    /// A kernel uses no buffer at all.
    #[error("kernel {kernel} reads and writes nothing; leave it out")]
    Idle {
        /// The kernel's index.
        kernel: usize,
    },
    /// A kernel names one buffer twice in one list.
    #[error("kernel {kernel} names buffer {name} twice among its reads or its writes; name it once")]
    Twice {
        /// The kernel's index.
        kernel: usize,
        /// The buffer's name in the trace.
        name: u64,
    },
    /// An upload is more than a write on the copy engine.
    #[error(
        "kernel {kernel} is an upload, which must run on the copy engine, read nothing and write \
         something"
    )]
    BadUpload {
        /// The kernel's index.
        kernel: usize,
    },
    /// Two processes use one buffer.
    #[error(
        "kernel {kernel} of process {second} uses buffer {name}, which belongs to process {first}; \
         sharing between processes is not supported: give each process its own buffer"
    )]
    Shared {
        /// The index of the first kernel that uses the other process's buffer.
        kernel: usize,
        /// The buffer's name in the trace.
        name: u64,
        /// The process that uses it first, and so owns it.
        first: u32,
        /// The other process.
        second: u32,
    },
    /// A generator's parameter is out of range.
    #[error("`{field}` is {value}; it must be {expected}")]
    Parameter {
        /// The parameter's name, as written in a scenario.
        field: &'static str,
        /// Its value.
        value: String,
        /// The accepted values.
        expected: String,
    },
    /// A generator's parameters together give a size that does not fit 64 bits.
    #[error("the size of {what} overflows; make the parameters smaller")]
    Overflow {
        /// The sum.
        what: &'static str,
    },
}

impl Workload {
    /// Checks that the workload can be run.
    ///
    /// # Errors
    ///
    /// Returns the first error and its place: no kernels, indices out of range, buffers without bytes or uses, kernels
    /// without buffers, a buffer named twice in one list, malformed uploads, buffers used by two processes, or sizes
    /// and counts beyond any machine.
    pub fn validate(&self) -> Result<(), WorkloadError> {
        self.check_counts()?;
        self.check_sizes()?;
        let mut owners = vec![None; self.buffers.len()];
        for (at, kernel) in self.kernels.iter().enumerate() {
            self.check_kernel(at, kernel)?;
            self.check_owners(at, kernel, &mut owners)?;
        }
        match self.buffers.iter().zip(&owners).find(|(_, owner)| owner.is_none()) {
            Some((buffer, _)) => Err(WorkloadError::Unused { name: buffer.name }),
            None => Ok(()),
        }
    }

    /// Checks the number of kernels and buffers.
    fn check_counts(&self) -> Result<(), WorkloadError> {
        if self.kernels.is_empty() {
            return Err(WorkloadError::Empty);
        }
        for (what, count) in [("kernels", self.kernels.len()), ("buffers", self.buffers.len())] {
            if count > MAX_ITEMS {
                return Err(WorkloadError::TooMany { what, limit: MAX_ITEMS as u64 });
            }
        }
        Ok(())
    }

    /// Checks each buffer's size and their sum.
    fn check_sizes(&self) -> Result<(), WorkloadError> {
        if let Some(buffer) = self.buffers.iter().find(|buffer| buffer.bytes == 0) {
            return Err(WorkloadError::NoBytes { name: buffer.name });
        }
        let total: u128 = self.buffers.iter().map(|buffer| u128::from(buffer.bytes)).sum();
        if total > MAX_TOTAL_BYTES {
            return Err(WorkloadError::TooLarge);
        }
        let time = |kernel: &Kernel| match kernel.cost {
            Cost::Nanoseconds(nanoseconds) => u128::from(nanoseconds),
            Cost::Upload => 0,
        };
        let latest = self.kernels.iter().map(|kernel| u128::from(kernel.not_before_ns)).max().unwrap_or(0);
        if self.kernels.iter().map(time).sum::<u128>() + latest > MAX_TOTAL_NANOSECONDS {
            return Err(WorkloadError::TooLong);
        }
        Ok(())
    }

    /// Checks one kernel by itself.
    fn check_kernel(&self, at: usize, kernel: &Kernel) -> Result<(), WorkloadError> {
        if kernel.reads.is_empty() && kernel.writes.is_empty() {
            return Err(WorkloadError::Idle { kernel: at });
        }
        for list in [&kernel.reads, &kernel.writes] {
            self.check_list(at, list)?;
        }
        let proper = kernel.engine == Engine::Copy && kernel.reads.is_empty();
        if kernel.cost == Cost::Upload && !proper {
            return Err(WorkloadError::BadUpload { kernel: at });
        }
        Ok(())
    }

    /// Checks that a list names existing buffers, each once.
    fn check_list(&self, at: usize, list: &[u32]) -> Result<(), WorkloadError> {
        let buffers = self.buffers.len();
        if let Some(&index) = list.iter().find(|&&index| index as usize >= buffers) {
            return Err(WorkloadError::NoSuchBuffer { kernel: at, index, buffers });
        }
        let mut sorted = list.to_vec();
        sorted.sort_unstable();
        match sorted.windows(2).find(|pair| pair[0] == pair[1]) {
            Some(pair) => {
                let name = self.buffers[pair[0] as usize].name;
                Err(WorkloadError::Twice { kernel: at, name })
            }
            None => Ok(()),
        }
    }

    /// Checks that the kernel uses no buffer of another process, and notes the owners of new ones.
    fn check_owners(&self, at: usize, kernel: &Kernel, owners: &mut [Option<u32>]) -> Result<(), WorkloadError> {
        for &index in kernel.reads.iter().chain(&kernel.writes) {
            let first = *owners[index as usize].get_or_insert(kernel.process);
            if first != kernel.process {
                let name = self.buffers[index as usize].name;
                let second = kernel.process;
                return Err(WorkloadError::Shared { kernel: at, name, first, second });
            }
        }
        Ok(())
    }
}
