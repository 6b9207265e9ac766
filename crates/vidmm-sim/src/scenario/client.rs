//! The client's use of the machine.

use serde::Deserialize;
use vidmm_runtime::AllocationSegments;

use super::memory::{Notification, optional_segments};
use super::number::within;
use crate::client::{Lifetimes, ResidencyPolicy};
use crate::prediction::Content;

/// The client's use of the machine.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default, rename_all = "kebab-case", expecting = "a table")]
pub struct ClientSettings {
    /// Kernels that a process submits ahead of the one that runs, from 0, which waits for each, to 1024.
    #[serde(deserialize_with = "within::<_, _, 0, 1024>")]
    pub ahead: u32,
    /// Kernels whose buffers a process announces behind the last submitted kernel, from 0 to 1024: buffers that exist come into free
    /// memory ahead of their use.
    #[serde(deserialize_with = "within::<_, _, 0, 1024>")]
    pub announces: u32,
    /// The divisor of the workload's buffer sizes, from 1 to 2^40; [`Workload::scale`](vidmm_trace::Workload::scale)
    /// rounds them up to 4 KiB.
    #[serde(deserialize_with = "within::<_, _, 1, 0x100_0000_0000>")]
    pub scale: u64,
    /// The fill of the pages that kernels write.
    pub content: Content,
    /// Where the buffers may be. None is local memory where there is any, and system memory elsewhere.
    #[serde(deserialize_with = "optional_segments")]
    pub segments: Option<AllocationSegments>,
    /// Whether each buffer has a compression surface, through which kernels read and write it.
    pub compression: bool,
    /// The notifications that the driver asks for about the buffers.
    pub notify: Vec<Notification>,
    /// The treatment of a process's residency list.
    pub residency: ResidencyPolicy,
    /// The treatment of a buffer behind its last use.
    pub lifetimes: Lifetimes,
}

impl Default for ClientSettings {
    /// Eight kernels ahead, with all bytes of the workload and uniform pages.
    fn default() -> Self {
        Self {
            ahead: 8,
            announces: 0,
            scale: 1,
            content: Content::Uniform,
            segments: None,
            compression: false,
            notify: Vec::new(),
            residency: ResidencyPolicy::default(),
            lifetimes: Lifetimes::default(),
        }
    }
}
