//! Room: who goes for what comes, in the documented order (CRE-31a), and who of them stays resident elsewhere.

use alloc::vec::Vec;

use super::draft::Draft;
use crate::{allocation::AllocationState, event::EvictReason, pool::Pool, state::VidMm, units::Extent};

impl VidMm {
    /// Takes `bytes` of the memory segment, making victims until there is room.
    pub(super) fn take(&mut self, draft: &mut Draft, bytes: u64) -> Vec<Extent> {
        while self.placer.available() < bytes {
            let (victim, reason) = self.next_victim(Pool::Memory);
            self.plan_out(draft, victim, reason);
            if self.can_be_demoted(victim) {
                self.demote(draft, victim);
            }
        }
        let mut after = Vec::new();
        let extents = self.placer.take(bytes, &mut after);
        self.plan_after_all(draft, after);
        extents
    }

    /// Makes victims until `index` fits under the commit limit, and its range of the aperture is free.
    pub(super) fn make_commit_room(&mut self, draft: &mut Draft, index: u32) {
        if let Some(range) = self.aperture.assigned(index) {
            for occupant in Vec::from_iter(self.aperture.shown_in(range)) {
                self.plan_out(draft, occupant, self.reason(occupant, EvictReason::RangeWanted));
            }
        }
        while self.commit.available() < self.allocations[index as usize].size {
            let (victim, reason) = self.next_victim(Pool::System);
            self.plan_out(draft, victim, reason);
        }
    }

    /// Who goes next, in the documented order (CRE-31a).
    fn next_victim(&self, pool: Pool) -> (u32, EvictReason) {
        let victim = self.evictable[pool].iter(&self.allocations).next();
        let victim = victim.expect("a decision is made only when what is evictable makes enough room");
        (victim, self.reason(victim, EvictReason::RoomWanted))
    }

    /// Why an allocation goes: what is dead goes for that, whatever else is wanted of it.
    fn reason(&self, index: u32, otherwise: EvictReason) -> EvictReason {
        let allocation = &self.allocations[index as usize];
        match otherwise {
            _ if allocation.is_dead() => EvictReason::Destroyed,
            EvictReason::RoomWanted if allocation.state.contains(AllocationState::SUSPENDED) => {
                EvictReason::DeviceSuspended
            }
            otherwise => otherwise,
        }
    }

    /// Whether a victim of the memory segment stays resident in implicit system memory: where nobody must go for it.
    fn can_be_demoted(&self, index: u32) -> bool {
        let allocation = &self.allocations[index as usize];
        let may_be_there = allocation.state.contains(AllocationState::MAY_BE_IN_SYSTEM);
        may_be_there && !allocation.is_dead() && self.commit.available() >= allocation.size
    }

    /// A victim becomes resident in implicit system memory, in the plan that takes it out of the memory segment.
    fn demote(&mut self, draft: &mut Draft, index: u32) {
        let content = self.plan_into_system(draft, index);
        self.record_placed(index, content);
        self.statistics.demotions += 1;
        self.expose(index);
    }

    /// Takes one page of the segment for a table; adapter start refuses larger ones.
    pub(super) fn take_whole(&mut self, draft: &mut Draft, bytes: u64) -> Extent {
        let [whole] = self.take(draft, bytes)[..] else { unreachable!("one page is one range") };
        whole
    }
}
