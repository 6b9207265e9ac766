//! Plans as the events tell of them: what they decide, what they follow, how far they are.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use vidmm::contract::KmdProcessHandle;
use vidmm::event::ContentSource;
use vidmm::{AllocationId, DeviceId, Extent, PhysicalAddress, PlanNo, SegmentId};

use super::allocation::{Mapping, Place};
use super::aspects::Chunk;
use super::finding::Invariant;
use super::list_entry::Span;
use super::notifications::Notices;
use super::tables::Table;

/// All plans that have not retired.
#[derive(Debug, Default)]
pub(super) struct Plans {
    plans: BTreeMap<PlanNo, Plan>,
    /// The last plan that was decided.
    pub last: PlanNo,
    /// Entered, and not built to the end: in the order in which they are built.
    stream: VecDeque<PlanNo>,
}

/// The record of a plan.
#[derive(Debug, Default)]
pub(super) struct Plan {
    pub stage: Stage,
    pub steps: Steps,
    /// The allocations that it takes out.
    pub leaving: Vec<AllocationId>,
    /// The leaving allocations with a copy out.
    pub copied: Vec<AllocationId>,
    /// The staying allocation with the last part copied.
    pub cleaned: Option<AllocationId>,
    /// The prefetched allocation: the plan evicts nothing else.
    pub prefetched: Option<AllocationId>,
    /// The allocations that it moves, in order: where to, or out.
    pub moves: Vec<(AllocationId, Option<Place>)>,
    /// Plans that it must follow, and why.
    pub must_follow: BTreeMap<PlanNo, Invariant>,
    /// The plans that it says it follows, and the work that it waits for.
    pub after: Vec<PlanNo>,
    pub waits: Vec<(DeviceId, u64)>,
    /// Work that uses what it takes away.
    pub users: Vec<(DeviceId, AllocationId, Span)>,
    /// The allocations that it brings up to date in their places.
    pub refreshes: Vec<AllocationId>,
    /// Plans that discard what it brings in: with their ends backing stores are reset.
    pub after_discards: Vec<PlanNo>,
    /// The system memory that is committed for tables which it frees.
    pub decommits: Vec<Extent>,
    /// The packet of the paging engine after which it is carried out, once it is built to its end.
    pub built: Option<u64>,
}

/// The steps of plans that have not retired with an allocation.
#[derive(Clone, Copy, Debug)]
pub(super) struct Halfway {
    /// One takes it out.
    pub is_out: bool,
    /// And copies its content.
    pub is_copied: bool,
}

/// How far a plan is.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) enum Stage {
    /// It is being decided.
    #[default]
    Draft,
    /// It is parked.
    Decided,
    /// It is in the stream.
    Entered,
}

/// The decisions of a plan.
#[derive(Debug, Default)]
pub(super) struct Steps {
    pub victims: Vec<Victim>,
    pub arrivals: Vec<Arrival>,
    /// The copied part of a staying allocation.
    pub clean: Option<CleanPart>,
    /// Page tables that are initialised, and where.
    pub placed_tables: Vec<(KmdProcessHandle, PhysicalAddress, Table)>,
    /// Page tables that are freed.
    pub freed_tables: Vec<(KmdProcessHandle, PhysicalAddress)>,
}

/// An allocation that leaves.
#[derive(Debug)]
pub(super) struct Victim {
    pub allocation: AllocationId,
    /// Where it was.
    pub place: Place,
    pub copied: bool,
    /// The range of the aperture through which it leaves the memory segment, while that is mapped (SEG-45).
    pub lent: Option<(SegmentId, Extent)>,
    /// Bytes copied so far.
    pub moved: u64,
    /// The offsets of the ranges that it leaves without a copy, which the driver is still to be told (U-13). None where the log leaves
    /// open whether it is told.
    pub discards: Option<Vec<u64>>,
    /// The notifications that its driver is to hear before anything is done to it.
    pub notices: Notices,
}

/// A part of a staying allocation, copied out by a plan.
#[derive(Debug)]
pub(super) struct CleanPart {
    pub allocation: AllocationId,
    pub place: Place,
    pub part: Chunk,
    /// Bytes copied so far.
    pub moved: u64,
}

/// An allocation that comes in.
#[derive(Debug)]
pub(super) struct Arrival {
    pub allocation: AllocationId,
    /// Where it will be.
    pub place: Place,
    pub content: ContentSource,
    /// Bytes filled or copied so far.
    pub moved: u64,
    /// Where it must be seen once the plan has run.
    pub mappings: Vec<Mapping>,
}

impl Arrival {
    /// The rule by which all of it comes. Where nothing was filled, there is what others have left (I26).
    pub fn rule(&self) -> Invariant {
        if self.content == ContentSource::Fill && self.moved == 0 { Invariant::I26 } else { Invariant::I10 }
    }
}

impl Plans {
    /// Those that have not retired.
    pub fn all(&self) -> impl Iterator<Item = &Plan> {
        self.plans.values()
    }

    /// Whether nothing is under way.
    pub fn are_over(&self) -> bool {
        self.plans.is_empty()
    }

    /// Whether all that was decided is carried out once the packets of the paging engine up to this one are.
    pub fn are_over_by(&self, fence_id: u64) -> bool {
        self.plans.values().all(|plan| plan.stage == Stage::Draft || plan.built.is_some_and(|built| built <= fence_id))
    }

    /// The plan that is being decided.
    pub fn draft(&mut self, number: PlanNo) -> &mut Plan {
        self.plans.entry(number).or_default()
    }

    pub fn get(&self, number: PlanNo) -> Option<&Plan> {
        self.plans.get(&number)
    }

    pub fn get_mut(&mut self, number: PlanNo) -> Option<&mut Plan> {
        self.plans.get_mut(&number)
    }

    /// Whether the plan is in the stream, or has been.
    pub fn has_entered(&self, number: PlanNo) -> bool {
        self.is_retired(number) || self.get(number).is_some_and(|plan| plan.stage == Stage::Entered)
    }

    /// Whether the plan has retired. Plan 0 is the start of the adapter, which nothing waits for.
    pub fn is_retired(&self, number: PlanNo) -> bool {
        number <= self.last && !self.plans.contains_key(&number)
    }

    /// `plan` must follow `before`, for `reason`, unless that has entered.
    pub fn must_follow(&mut self, plan: PlanNo, before: PlanNo, reason: Invariant) {
        if before != plan && !self.has_entered(before) {
            self.draft(plan).must_follow.insert(before, reason);
        }
    }

    /// Whether `plan` can enter only after `before` has: it names it, or a plan that follows it.
    pub fn follows(&self, plan: PlanNo, before: PlanNo) -> bool {
        let mut seen = BTreeSet::new();
        let mut open = vec![plan];
        while let Some(at) = open.pop() {
            if at == before {
                return true;
            }
            let after = self.get(at).filter(|_| seen.insert(at)).map(|plan| plan.after.as_slice());
            open.extend(after.unwrap_or_default());
        }
        self.has_entered(before)
    }

    pub fn enter(&mut self, number: PlanNo) {
        self.stream.push_back(number);
    }

    /// Whether the plan is in the stream and nothing of it is built.
    pub fn is_waiting(&self, number: PlanNo) -> bool {
        self.stream.contains(&number)
    }

    /// Whether the plan moves the allocation.
    pub fn moves(&self, number: PlanNo, id: AllocationId) -> bool {
        self.get(number).is_some_and(|plan| plan.moves.iter().any(|&(moved, _)| moved == id))
    }

    /// Takes the next plan to be built out of the stream.
    pub fn next_in_stream(&mut self) -> Option<PlanNo> {
        self.stream.pop_front()
    }

    /// Nothing is built any more of what is in the stream.
    pub fn clear_stream(&mut self) {
        self.stream.clear();
    }

    /// The ranges that plans which have not retired take out of an allocation's place.
    pub fn halfway_out(&self, id: AllocationId) -> Halfway {
        let leaving = |plan: &&Plan| plan.leaving.contains(&id);
        let copied = |plan: &Plan| plan.copied.contains(&id);
        let mut out = self.plans.values().filter(leaving).peekable();
        Halfway { is_out: out.peek().is_some(), is_copied: out.any(copied) }
    }

    /// The allocations that plans take out which wait for work to end.
    pub fn still_leaving(&self) -> impl Iterator<Item = AllocationId> {
        let parked = self.plans.values().filter(|plan| plan.stage == Stage::Decided);
        parked.flat_map(|plan| plan.leaving.iter().copied())
    }

    /// Whether the plan was decided.
    pub fn is_decided(&self, number: PlanNo) -> bool {
        number <= self.last
    }

    /// The first plan that has not retired.
    pub fn first_pending(&self) -> Option<PlanNo> {
        self.plans.first_key_value().map(|(&number, _)| number)
    }

    pub fn retire(&mut self, number: PlanNo) -> Option<Plan> {
        self.plans.remove(&number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plan_follows_what_the_plans_that_it_follows_follow() {
        let mut plans = Plans { last: 4, ..Plans::default() };
        for (plan, after) in [(1, vec![]), (2, vec![1]), (3, vec![]), (4, vec![2, 3])] {
            plans.draft(plan).after = after;
        }
        assert!(plans.follows(4, 1) && plans.follows(4, 3) && !plans.follows(3, 1) && !plans.follows(1, 4));
    }

    #[test]
    fn plans_that_follow_each_other_end_the_search() {
        let mut plans = Plans { last: 3, ..Plans::default() };
        for (plan, after) in [(1, vec![2]), (2, vec![1]), (3, vec![])] {
            plans.draft(plan).after = after;
        }
        assert!(!plans.follows(1, 3));
    }
}
