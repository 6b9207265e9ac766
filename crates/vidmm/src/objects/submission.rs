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
    /// Fences that must have reached their values before it runs.
    pub waits: Vec<FenceValueDesc>,
    /// Fences that its end signals.
    pub signals: Vec<FenceValueDesc>,
    /// The allocations that it uses, if engines do not find them by GPU virtual addresses, or they are to be checked: all must be on
    /// the device's list (RES-04).
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
    /// Fences and values as events have them.
    pub(crate) fn pairs(descs: &[Self]) -> Vec<(MonitoredFenceId, u64)> {
        descs.iter().map(|desc| (desc.fence, desc.value)).collect()
    }
}

impl SubmitDesc {
    /// The fences and allocations that it names: while it is queued they exist.
    pub(crate) fn fences(&self) -> impl Iterator<Item = &FenceValueDesc> {
        self.waits.iter().chain(&self.signals)
    }
}

/// Work that waits for its dispatch.
#[derive(Debug)]
pub(crate) struct Submission {
    /// Its number within the device; 0 if the references of DMA buffers drive the device's residency: then each portion, or
    /// what has none, gets its own when it is handed out. Nothing that uses memory overtakes what has an earlier number then.
    pub number: SubmissionNo,
    pub desc: SubmitDesc,
    /// Its references, without GPU virtual addresses.
    pub references: Option<Box<References>>,
    /// How often its engine was asked to yield for it.
    pub num_yields: u8,
}

impl Submission {
    /// Work that nothing was done for yet.
    pub fn new(number: SubmissionNo, desc: SubmitDesc, references: Option<Box<References>>) -> Self {
        Self { number, desc, references, num_yields: 0 }
    }
}

impl Submission {
    /// Whether its references drive residency: its portions are decided one after the other (SPL-01).
    pub fn is_prepared(&self) -> bool {
        self.number == 0 && self.references.is_some()
    }

    /// Whether a portion of it has been handed out, and not the last one.
    pub fn is_begun(&self) -> bool {
        self.references.as_ref().is_some_and(|references| references.progress.portions > 0)
    }
}
