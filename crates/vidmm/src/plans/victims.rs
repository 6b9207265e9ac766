//! Room: who goes for what comes, in the documented order (CRE-31a), and who of them stays resident elsewhere.

use alloc::vec::Vec;

use crate::{
    budget::account::Account,
    buggify::Unlikely,
    data::extents::Extents,
    event::EvictReason,
    id::AllocationIx,
    memory::{Memory, placer::PagePlacer},
    objects::{Objects, allocation::AllocationState},
    plans::{Plans, draft::Draft, planner},
    state::State,
    units::Extent,
};
impl Plans {
    /// Takes `bytes` of a memory segment, making victims until there is room.
    pub(crate) fn take(&mut self, state: &mut State, draft: &mut Draft, account: Account, bytes: u64) -> Extents {
        while state.memory.available(account) < bytes || self.makes_another(state, draft, account) {
            let (victim, reason) = next_victim(state, draft, account);
            self.plan_out(state, draft, victim, reason);
            if can_be_demoted(&state.objects, &state.memory, victim) {
                self.demote(state, draft, account, victim);
            }
        }
        self.take_from(state.memory.placers[account].pages(), draft, bytes)
    }

    /// Whether to make a victim beyond the need, a legal and unlikely choice.
    fn makes_another(&self, state: &State, draft: &Draft, account: Account) -> bool {
        draft.chosen.is_none()
            && state.moment.makes(Unlikely::EvictMore, self.stream.next_number(), state.memory.available(account))
            && state.residency.evictable[account].iter(&state.objects.allocations).next().is_some()
    }

    fn take_from(&self, pages: &mut PagePlacer, draft: &mut Draft, bytes: u64) -> Extents {
        let number = self.stream.next_number();
        pages.take(bytes, |plan| {
            if plan != number {
                draft.plan.follow(plan);
            }
        })
    }

    /// Makes victims until `index` fits under the commit limit, and its range of the aperture is free.
    pub(crate) fn make_commit_room(&mut self, state: &mut State, draft: &mut Draft, index: AllocationIx) {
        if let Some(range) = state.memory.aperture.assigned(index) {
            for occupant in Vec::from_iter(state.memory.aperture.shown_in(range)) {
                self.plan_out(
                    state,
                    draft,
                    occupant,
                    state.residency.reason(&state.objects, occupant, EvictReason::RangeWanted),
                );
            }
        }
        while state.memory.commit.available() < state.objects[index].size
            || self.makes_another(state, draft, Account::SYSTEM)
        {
            let (victim, reason) = next_victim(state, draft, Account::SYSTEM);
            self.plan_out(state, draft, victim, reason);
        }
    }

    /// Plans that what nothing requires leaves memories of which others have left less than is in use.
    pub(crate) fn keep_to_limits(&mut self, state: &mut State) {
        for (account, limit) in state.shares.limits.clone() {
            let mut draft = Draft::default();
            while is_above(state, account, limit) {
                let (victim, reason) = next_victim(state, &mut draft, account);
                let is_for_room = reason == EvictReason::RoomWanted;
                let reason = if is_for_room { EvictReason::BudgetRestricted } else { reason };
                self.plan_out(state, &mut draft, victim, reason);
                self.park_if_full(&mut state.moment, &state.objects, &mut draft);
            }
            self.decide(&mut state.moment, &state.objects, draft);
        }
    }

    /// A victim becomes resident in implicit system memory, in the plan that takes it out of its memory segment.
    fn demote(&self, state: &mut State, draft: &mut Draft, from: Account, index: AllocationIx) {
        let content = self.plan_into_system(state, draft, index);
        planner::record_placed(state, index, content);
        state.moment.statistics_mut().demotions += 1;
        let size = state.objects[index].size;
        state.objects.count(index, from, |traffic| traffic.demote(size));
        state.residency.make_evictable(&mut state.objects, index);
    }

    /// Takes one page of a memory segment for a table; adapter start refuses larger ones.
    pub(crate) fn take_for_table(
        &mut self,
        state: &mut State,
        draft: &mut Draft,
        account: Account,
        bytes: u64,
    ) -> Extent {
        let taken = match state.memory.has_table_area(account) {
            true => self.take_from(state.memory.table_placer(account), draft, bytes),
            false => self.take(state, draft, account, bytes),
        };
        taken.first()
    }
}

/// Whether more of a memory is in use than others have left, and something of it may go.
pub(crate) fn exceeds_limits(state: &State) -> bool {
    state.shares.limits.iter().any(|&(account, limit)| is_above(state, account, limit))
}

fn is_above(state: &State, account: Account, limit: u64) -> bool {
    state.memory.used(account) > limit && state.residency.evictable[account].bytes() > 0
}

fn next_victim(state: &mut State, draft: &mut Draft, account: Account) -> (AllocationIx, EvictReason) {
    let is_there = |index: &AllocationIx| state.objects[*index].place.is_some_and(|place| place.account() == account);
    if let Some(victims) = &mut draft.chosen
        && victims.front().is_some_and(is_there)
        && let Some(chosen) = victims.pop_front()
    {
        return (chosen, state.residency.reason(&state.objects, chosen, EvictReason::RoomWanted));
    }
    let memory = state.adapter.memory_account(account).segment;
    let wanted_by = draft.wanted_by.map(|wanted| state.objects[wanted.device].process);
    state.residency.next_victim(&mut state.objects, &mut state.shares, (account, memory), wanted_by)
}

/// Whether a victim of a memory segment stays resident in implicit system memory: where nobody must go for it. An allocation that is one
/// range would need one of the aperture.
fn can_be_demoted(objects: &Objects, memory: &Memory, index: AllocationIx) -> bool {
    let allocation = &objects[index];
    let is_pages = !allocation.is(AllocationState::ACCESSED_PHYSICALLY);
    is_pages
        && allocation.may_be_in_system()
        && !objects.is_worthless(index)
        && memory.commit.available() >= allocation.size
}
