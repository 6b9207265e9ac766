//! The state of an allocation: the verbs that change the flags, the place and the last plan.

use super::{flags::AllocationState, record::Allocation};
use crate::{id::PlanNo, objects::place::Place};

impl Allocation {
    /// Whether all flags of `state` are set.
    #[inline(always)]
    pub fn is(&self, state: AllocationState) -> bool {
        self.state.contains(state)
    }

    /// Whether any flag of `state` is set.
    #[inline(always)]
    pub fn is_any(&self, state: AllocationState) -> bool {
        self.state.intersects(state)
    }

    /// All flags.
    pub fn state(&self) -> AllocationState {
        self.state
    }

    /// Work may have written to the allocation. A device in error has nothing brought in, and writes nowhere.
    pub fn note_written(&mut self) {
        if self.place.is_some() {
            self.state |= AllocationState::DIRTY;
            self.state -= AllocationState::CLEANING;
        }
    }

    /// The caller destroys the allocation.
    pub fn destroy(&mut self) {
        self.state |= AllocationState::DESTROYED;
    }

    /// The destroyer waits for the end.
    pub fn end_synchronously(&mut self) {
        self.state |= AllocationState::SYNCHRONOUS_DESTROY;
    }

    /// The allocation goes with the last use.
    pub fn purge_when_unused(&mut self) {
        self.state |= AllocationState::PURGE_DUE;
    }

    /// Whether the eviction is at the earliest opportunity, or when memory is wanted.
    pub fn set_hastened(&mut self, is_hastened: bool) {
        self.state.set(AllocationState::EVICT_SOON, is_hastened);
    }

    /// Whether a lock waits until the allocation has moved into the CPU's sight.
    pub fn set_lock_pending(&mut self, is_pending: bool) {
        self.state.set(AllocationState::LOCK_PENDING, is_pending);
    }

    /// Notes that a walk over a list has passed the allocation, or is over. Returns the note before.
    pub fn set_seen(&mut self, is_seen: bool) -> bool {
        let was_seen = self.is(AllocationState::SEEN);
        self.state.set(AllocationState::SEEN, is_seen);
        was_seen
    }

    /// Notes the last plan for the allocation. Returns the last plan before.
    pub fn follow(&mut self, plan: PlanNo) -> PlanNo {
        core::mem::replace(&mut self.last_plan, plan)
    }

    /// A plan brings the allocation to a place.
    pub fn come(&mut self, place: Place, plan: PlanNo) {
        self.place = Some(place);
        self.state -= AllocationState::LOCK_PENDING;
        self.last_plan = plan;
    }

    /// A plan takes the allocation out of the place. Returns the place, and whether written content goes to the backing
    /// store.
    ///
    /// # Panics
    ///
    /// If the allocation is nowhere.
    pub fn leave(&mut self, plan: PlanNo, is_worthless: bool, is_promoted: bool) -> (Place, bool) {
        let place = self.take_place().expect("what leaves a segment is in it");
        let has_news = !is_worthless && self.is(AllocationState::DIRTY);
        if has_news {
            let stays = is_promoted && self.is(AllocationState::NOTIFY_EVICTION);
            self.state |= AllocationState::BACKED;
            // Promoted content, which a driver would have put right in a notification, stays as written: a later eviction
            // copies the content.
            self.state.set(AllocationState::DIRTY, stays);
        }
        self.state -= AllocationState::EVICT_SOON | AllocationState::CLEANING | AllocationState::CLEANED;
        // A required allocation comes in again, where the CPU sees it.
        if !self.is_required() {
            self.state -= AllocationState::LOCK_PENDING;
        }
        self.last_plan = plan;
        (place, has_news)
    }

    /// A plan copies the content of the backing store to the place.
    pub fn refresh(&mut self, plan: PlanNo) {
        self.last_plan = plan;
        self.state -= AllocationState::DIRTY | AllocationState::CLEANING;
    }

    /// A reset takes the allocation out of the place. Content in system memory stays the content.
    pub fn purge(&mut self) {
        let place = self.take_place();
        if self.is(AllocationState::DIRTY) && matches!(place, Some(Place::System | Place::Aperture(_))) {
            self.state |= AllocationState::BACKED;
        }
        self.state -= AllocationState::DIRTY | AllocationState::EVICT_SOON | AllocationState::LOCK_PENDING;
        self.state -= AllocationState::CLEANING | AllocationState::CLEANED;
    }

    /// A reset has lost the content, which reads as zero from now on.
    pub fn lose_content(&mut self) {
        self.state -= AllocationState::BACKED;
    }

    /// Takes the place away.
    fn take_place(&mut self) -> Option<Place> {
        if let Some(cold) = &mut self.cold {
            cold.parts.clear();
        }
        self.place.take()
    }
}
