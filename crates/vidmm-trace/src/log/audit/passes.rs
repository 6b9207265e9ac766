//! Operations that the driver did not end at once: they come again as they were, and after a busy answer on an idle GPU (I17, I20,
//! I22).

use vidmm::DriverFinding;
use vidmm::contract::{BuildStatus, PagingOperation};

use super::Audit;
use super::finding::Invariant;

/// An operation that is to come again.
#[derive(Debug)]
pub(super) struct Unfinished {
    operation: PagingOperation,
    /// Whether the driver has answered busy: the GPU is idle each time that it is asked from then on.
    was_busy: bool,
}

impl Audit {
    /// An operation is built: if the one before was not ended, it is that one.
    pub(super) fn check_goes_on(&mut self, operation: &PagingOperation, status: BuildStatus) {
        let before = self.unfinished.take();
        let has_been_busy = before.as_ref().is_some_and(|before| before.was_busy);
        let was_busy = has_been_busy || status == BuildStatus::AllocationBusy;
        self.unfinished = (status != BuildStatus::Success).then_some(Unfinished { operation: *operation, was_busy });
        let Some(Unfinished { operation: before, .. }) = before else { return };
        if promised_idle(&before) != promised_idle(operation) {
            let is_same = (before.kind(), before.allocation()) == (operation.kind(), operation.allocation());
            let is_changed = is_same && matches!(operation, PagingOperation::Transfer(_));
            let invariant = if is_changed { Invariant::I22 } else { Invariant::I20 };
            let message = format!("{operation:?} is built before {before:?} was ended");
            return self.findings.report(invariant, message);
        }
        if has_been_busy {
            self.check_after_busy(operation);
        }
    }

    /// The driver wants the allocation idle: all that was built before has ended. TRANSFER and DISCARD_CONTENT promise that it is; no
    /// other operation may be answered so by the documents, which the driver's author is told (BPB-06, NTF-08).
    fn check_after_busy(&mut self, operation: &PagingOperation) {
        let (submitted, completed) = (self.fences.paging_submitted, self.fences.paging_completed());
        self.findings.check(self.open_buffer.is_empty() && submitted <= completed, Invariant::I17, || {
            format!(
                "{} comes again after a busy answer when packet {completed} of {submitted} has ended",
                operation.kind()
            )
        });
        if operation.kind().may_be_busy() {
            return self.findings.check(*operation == promised_idle(operation), Invariant::I17, || {
                format!("{} comes again after a busy answer without AllocationIsIdle", operation.kind())
            });
        }
        let told = self.paging_va.is_told(&DriverFinding::BusyUndocumented { operation: operation.kind() });
        self.findings.check(told, Invariant::I20, || {
            format!("the driver answered busy to {}, and its author is not told", operation.kind())
        });
    }
}

/// The operation as it is when its allocation is promised to be idle: with that it comes again after a busy answer.
fn promised_idle(operation: &PagingOperation) -> PagingOperation {
    let mut promised = *operation;
    promised.note_idle();
    promised
}
