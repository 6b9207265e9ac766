//! Cleaning: content is copied out ahead of an eviction, and the allocation stays in place (D37).

use super::{flags::AllocationState, record::Allocation};

impl Allocation {
    /// The first part of the content is copied out. From now on the backing store holds content, right or not.
    pub fn begin_cleaning(&mut self) {
        self.state |= AllocationState::CLEANING | AllocationState::BACKED;
        self.state -= AllocationState::CLEANED;
    }

    /// The last part of the content is copied out: an eviction before the next write copies nothing.
    pub fn end_cleaning(&mut self) {
        self.state -= AllocationState::DIRTY | AllocationState::CLEANING;
        self.state |= AllocationState::CLEANED;
    }

    /// The fate of the clean content is known.
    pub fn forget_cleaned(&mut self) {
        self.state -= AllocationState::CLEANED;
    }
}
