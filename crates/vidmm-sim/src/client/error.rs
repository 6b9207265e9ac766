//! Why a client cannot go on.

use vidmm::{CreateError, Violation, contract::EngineKind};
use vidmm_runtime::Runtime;
use vidmm_trace::ByteSize;

/// Why a client cannot go on.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// The memory is too small for a kernel and the page tables of the workload.
    #[error(
        "kernel {kernel} does not fit in local memory beside the page tables, or under the commit limit of system memory, even \
         with nothing else there: {} are missing; give it more {more}",
        ByteSize(*.num_bytes_to_trim)
    )]
    DoesNotFit {
        /// The kernel.
        kernel: usize,
        /// The number of bytes that are missing.
        num_bytes_to_trim: u64,
        /// The keys that give more memory, in words.
        more: &'static str,
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
    /// The driver broke a rule when it created an allocation: a finding of the run.
    #[error(transparent)]
    Violation(Violation),
    /// The machine has no engine of a kind that the workload needs.
    #[error("the machine has no {0:?} engine")]
    NoEngine(EngineKind),
}

pub(super) fn refused(kernel: usize, call: &'static str, reason: impl std::fmt::Display) -> ClientError {
    ClientError::Refused { kernel, call, reason: reason.to_string() }
}

/// The error of a call that creates an object.
pub(super) fn not_created(kernel: usize, call: &'static str, error: CreateError) -> ClientError {
    match error {
        CreateError::Violation(violation) => ClientError::Violation(violation),
        error => refused(kernel, call, error),
    }
}

/// The reason of a refusal when the requests of a device never end.
pub(super) const NEVER_ENDS: &str = "too many requests of the device are pending, and none of them ends";

/// Makes a call that the manager refuses while too many requests of the device are pending, which `call` answers with none: lets time
/// pass until some have ended. None if nothing is to come.
pub(super) fn polled<T>(runtime: &mut Runtime, mut call: impl FnMut(&mut Runtime) -> Option<T>) -> Option<T> {
    loop {
        match call(runtime) {
            None if runtime.advance(None) => {}
            answer => return answer,
        }
    }
}
