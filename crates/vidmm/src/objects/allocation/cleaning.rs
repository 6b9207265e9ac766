//! Cleaning: content is copied out ahead of an eviction, and the allocation stays in place (D37).

use super::{flags::AllocationState, record::Allocation};

impl Allocation {
    /// The first part of the content is to be copied out. The content stays news to the backing store until
    /// [`end_cleaning`](Self::end_cleaning).
    pub fn begin_cleaning(&mut self) {
        self.state |= AllocationState::CLEANING;
        self.state -= AllocationState::CLEANED;
    }

    /// The copy of the last part has ended. If nothing has written since the first part, an eviction before the next write copies nothing.
    pub fn end_cleaning(&mut self) {
        if self.is(AllocationState::CLEANING) {
            self.state -= AllocationState::DIRTY | AllocationState::CLEANING;
            self.state |= AllocationState::BACKED | AllocationState::CLEANED;
        }
    }

    /// The fate of the clean content is known.
    pub fn forget_cleaned(&mut self) {
        self.state -= AllocationState::CLEANED;
    }
}
