//! Why a client cannot go on.

use vidmm::contract::EngineKind;
use vidmm_trace::ByteSize;

/// Why a client cannot go on.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// The memory is too small for a kernel and the page tables of the workload.
    #[error(
        "kernel {kernel} does not fit in local memory beside the page tables, or under the commit limit of system memory, even \
         with nothing else there: {} are missing; give it more with `--local-memory`, or with `local-memory` or `aperture-commit-limit` in `[adapter]`",
        ByteSize(*.num_bytes_to_trim)
    )]
    DoesNotFit {
        /// The kernel.
        kernel: usize,
        /// The number of bytes that are missing.
        num_bytes_to_trim: u64,
    },
    /// The manager refused a call that a good client may make.
    #[error("kernel {kernel}: {call} was refused: {reason}")]
    Refused {
        /// The kernel.
        kernel: usize,
        /// The call.
        call: &'static str,
        /// The manager's words.
        reason: String,
    },
    /// The machine has no engine of a kind that the workload needs.
    #[error("the machine has no {0:?} engine")]
    NoEngine(EngineKind),
}

pub(super) fn refused(kernel: usize, call: &'static str, reason: impl std::fmt::Display) -> ClientError {
    ClientError::Refused { kernel, call, reason: reason.to_string() }
}
