//! The submissions of clients.

use alloc::{boxed::Box, vec::Vec};

use crate::{
    id::{AllocationId, MonitoredFenceId, SubmissionNo},
    objects::split::References,
};

/// Work for an engine.
#[derive(Clone, Debug, Default)]
pub struct SubmitDesc {
    /// The commands, encoded by the user-mode driver.
    pub dma_buffer: Vec<u8>,
    /// Fences that must have reached their values before the work runs.
    pub waits: Vec<FenceValueDesc>,
    /// Fences signalled by the end of the work.
    pub signals: Vec<FenceValueDesc>,
    /// The used allocations, if engines have no GPU virtual addresses, or for a check: all must be on the device's list
    /// (RES-04).
    #[doc(alias = "DXGK_ALLOCATIONLIST")]
    pub allocations: Vec<AllocationId>,
}

/// A monitored fence and a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FenceValueDesc {
    /// The fence.
    pub fence: MonitoredFenceId,
    /// The value.
    pub value: u64,
}

impl FenceValueDesc {
    /// Fences and values in the form of events.
    pub(crate) fn pairs(descs: &[Self]) -> Vec<(MonitoredFenceId, u64)> {
        descs.iter().map(|desc| (desc.fence, desc.value)).collect()
    }
}

impl SubmitDesc {
    /// The named fences, alive while the work is queued.
    pub(crate) fn fences(&self) -> impl Iterator<Item = &FenceValueDesc> {
        self.waits.iter().chain(&self.signals)
    }
}

/// Work that waits for the dispatch.
#[derive(Debug)]
pub(crate) struct Submission {
    /// The number within the device; 0 if references of DMA buffers drive the device's residency: each portion, or work without
    /// portions, gets a number at the hand-out. Work with memory never overtakes an earlier number.
    pub number: SubmissionNo,
    pub desc: SubmitDesc,
    /// The references, without GPU virtual addresses.
    pub references: Option<Box<References>>,
    /// How often the engine was asked to yield for the work.
    pub num_yields: u8,
}

impl Submission {
    /// Fresh work.
    pub fn new(number: SubmissionNo, desc: SubmitDesc, references: Option<Box<References>>) -> Self {
        Self { number, desc, references, num_yields: 0 }
    }
}

impl Submission {
    /// Whether references drive residency: portions are decided one after another (SPL-01).
    pub fn is_prepared(&self) -> bool {
        self.number == 0 && self.references.is_some()
    }

    /// Whether a portion, but not the last portion, has been handed out.
    pub fn is_begun(&self) -> bool {
        self.references.as_ref().is_some_and(|references| references.progress.portions > 0)
    }
}
