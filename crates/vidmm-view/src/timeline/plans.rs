//! Plans, the allocations that they move, and what that cost.

use std::collections::{BTreeMap, BTreeSet};

use vidmm::contract::EngineFence;
use vidmm::event::{ContentSource, EvictReason};
use vidmm::{AllocationId, DeviceId, Nanoseconds, PlanNo};

use super::record::{Eviction, PageIn, Plan, Record, Returned, Wait, WaitedFor};

/// Plans that are not settled, and evictions whose cost is not known yet.
#[derive(Debug, Default)]
pub(super) struct Plans {
    plans: BTreeMap<PlanNo, State>,
    /// Plans whose last packet has ended, by that packet, until no wait can be for them any more.
    ended: BTreeMap<EngineFence, Vec<PlanNo>>,
    /// Evictions by their plans, until these are settled.
    leaving: BTreeMap<PlanNo, Vec<Eviction>>,
    /// Evictions whose plans are settled, until their allocations come back or are gone.
    away: BTreeMap<AllocationId, Eviction>,
    /// Allocations that are gone before their evictions are settled.
    gone: BTreeSet<AllocationId>,
}

#[derive(Debug)]
struct State {
    plan: Plan,
    page_ins: Vec<PageIn>,
    is_over: bool,
}

impl Plans {
    fn state(&mut self, plan: PlanNo, at: Nanoseconds) -> &mut State {
        self.plans.entry(plan).or_insert_with(|| State {
            plan: Plan { plan, decided_at: at, ..Plan::default() },
            page_ins: Vec::new(),
            is_over: false,
        })
    }

    pub fn evicted(&mut self, eviction: Eviction, out: &mut Vec<Record>) {
        // It leaves the place that the eviction before had moved it to, and comes back from this one.
        if self.away.get(&eviction.allocation).is_some_and(|before| before.returned.is_none()) {
            out.extend(self.away.remove(&eviction.allocation).map(Record::Eviction));
        }
        self.state(eviction.plan, eviction.at).plan.bytes_out += eviction.bytes_out;
        self.leaving.entry(eviction.plan).or_default().push(eviction);
    }

    /// A plan copies bytes out ahead of an eviction.
    pub fn cleaned(&mut self, plan: PlanNo, at: Nanoseconds, bytes: u64) {
        self.state(plan, at).plan.bytes_out += bytes;
    }

    pub fn placed(&mut self, page_in: PageIn) {
        let PageIn { plan, allocation, segment, bytes, content, at, .. } = page_in;
        let state = self.state(plan, at);
        match content {
            ContentSource::BackingStore => state.plan.bytes_in += bytes,
            ContentSource::Fill => state.plan.bytes_filled += bytes,
            ContentSource::InPlace => {}
        }
        state.page_ins.push(page_in);
        let bytes_in = if content == ContentSource::BackingStore { bytes } else { 0 };
        let returned = Returned { at, plan, segment, bytes_in, lost_ns: 0 };
        let mut last = self.leaving.values_mut().rev().flat_map(|evictions| evictions.iter_mut().rev());
        let last = last.find(|eviction| eviction.allocation == allocation);
        match last.or_else(|| self.away.get_mut(&allocation)) {
            Some(eviction) if eviction.plan == plan => eviction.moved_to = Some(segment),
            Some(eviction) => eviction.returned = eviction.returned.or(Some(returned)),
            None => {}
        }
    }

    pub fn decided(&mut self, plan: PlanNo, at: Nanoseconds, waits: &[(DeviceId, u64)], after: &[PlanNo]) {
        let plan = &mut self.state(plan, at).plan;
        (plan.waits, plan.after) = (waits.to_vec(), after.to_vec());
    }

    pub fn entered(&mut self, plan: PlanNo, at: Nanoseconds) {
        if let Some(state) = self.plans.get_mut(&plan) {
            state.plan.entered_at = Some(at);
        }
    }

    pub fn built(&mut self, plan: PlanNo, signal: EngineFence) {
        if let Some(state) = self.plans.get_mut(&plan) {
            state.plan.signal = Some(signal);
        }
        self.ended.entry(signal).or_default().push(plan);
    }

    /// A packet of the paging engine has ended, and with it the plans that were built to their ends in it.
    pub fn packet_ended(&mut self, signal: EngineFence, at: Nanoseconds) {
        for plan in self.ended.get(&signal).into_iter().flatten() {
            if let Some(state) = self.plans.get_mut(plan) {
                state.plan.ended_at = Some(at);
            }
        }
    }

    pub fn retired(&mut self, plan: PlanNo, at: Nanoseconds) {
        if let Some(state) = self.plans.get_mut(&plan) {
            state.is_over = true;
            state.plan.ended_at = state.plan.ended_at.or(Some(at));
        }
    }

    pub fn abandoned(&mut self, plan: PlanNo, out: &mut Vec<Record>) {
        self.settle_plan(plan, out);
    }

    pub fn allocation_gone(&mut self, allocation: AllocationId, out: &mut Vec<Record>) {
        if self.leaving.values().flatten().any(|eviction| eviction.allocation == allocation) {
            self.gone.insert(allocation);
        }
        out.extend(self.away.remove(&allocation).map(Record::Eviction));
    }

    /// Shares a wait for the paging engine among the plans that ended during it.
    pub fn charge(&mut self, wait: &Wait) {
        let WaitedFor::Packet(on) = wait.on else { return };
        let first = EngineFence { engine: on.engine, fence_id: 0 };
        let ended = self.ended.range(first..=on).flat_map(|(_, plans)| plans);
        let during: Vec<(PlanNo, u64)> = ended
            .filter_map(|plan| {
                let plan = &self.plans.get(plan)?.plan;
                let is_during = plan.ended_at.is_some_and(|at| wait.from < at && at <= wait.to);
                is_during.then_some((plan.plan, moved(plan)))
            })
            .collect();
        let all: u64 = during.iter().map(|&(_, bytes)| bytes).sum();
        for (plan, bytes) in during {
            if let Some(state) = self.plans.get_mut(&plan) {
                let lost = part(wait.to.saturating_sub(wait.from), bytes, all);
                state.plan.lost_ns = state.plan.lost_ns.saturating_add(lost);
            }
        }
    }

    /// Yields the plans that are over and that ended at `horizon` or before, and what they moved.
    pub fn settle(&mut self, horizon: Nanoseconds, out: &mut Vec<Record>) {
        let is_settled = |plan: &PlanNo, plans: &BTreeMap<PlanNo, State>| {
            plans.get(plan).is_none_or(|state| state.is_over && state.plan.ended_at.is_none_or(|at| at <= horizon))
        };
        while let Some(entry) = self.ended.first_entry() {
            if !entry.get().iter().all(|plan| is_settled(plan, &self.plans)) {
                break;
            }
            for plan in entry.remove() {
                self.settle_plan(plan, out);
            }
        }
    }

    /// Yields all that is left.
    pub fn finish(&mut self, out: &mut Vec<Record>) {
        let plans: Vec<PlanNo> = self.plans.keys().copied().collect();
        plans.into_iter().for_each(|plan| self.settle_plan(plan, out));
        out.extend(std::mem::take(&mut self.away).into_values().map(Record::Eviction));
    }

    fn settle_plan(&mut self, plan: PlanNo, out: &mut Vec<Record>) {
        let Some(State { plan, page_ins, .. }) = self.plans.remove(&plan) else { return };
        let all = moved(&plan);
        for page_in in page_ins {
            let bytes = if page_in.content == ContentSource::InPlace { 0 } else { page_in.bytes };
            let page_in = PageIn { ended_at: plan.ended_at, lost_ns: part(plan.lost_ns, bytes, all), ..page_in };
            self.came_back(&page_in, out);
            out.push(Record::PageIn(page_in));
        }
        for eviction in self.leaving.remove(&plan.plan).unwrap_or_default() {
            let eviction = Eviction { lost_out_ns: part(plan.lost_ns, eviction.bytes_out, all), ..eviction };
            let never_returns = self.gone.remove(&eviction.allocation) || eviction.reason == EvictReason::Destroyed;
            match never_returns {
                true => out.push(Record::Eviction(eviction)),
                false => out.extend(self.away.insert(eviction.allocation, eviction).map(Record::Eviction)),
            }
        }
        out.push(Record::Plan(plan));
    }

    /// The plan that brought an allocation back is settled, and with it the cost of its eviction.
    fn came_back(&mut self, page_in: &PageIn, out: &mut Vec<Record>) {
        let is_back = |eviction: &&mut Eviction| eviction.returned.is_some_and(|back| back.plan == page_in.plan);
        if let Some(returned) =
            self.away.get_mut(&page_in.allocation).filter(is_back).and_then(|of| of.returned.as_mut())
        {
            returned.lost_ns = page_in.lost_ns;
            out.extend(self.away.remove(&page_in.allocation).map(Record::Eviction));
        }
    }
}

/// The bytes that a plan moves.
fn moved(plan: &Plan) -> u64 {
    plan.bytes_in + plan.bytes_out + plan.bytes_filled
}

/// A part of a time, by bytes of all bytes.
fn part(time: Nanoseconds, bytes: u64, all: u64) -> Nanoseconds {
    (u128::from(time) * u128::from(bytes) / u128::from(all.max(1))) as u64
}

#[cfg(test)]
mod tests {
    use vidmm::SegmentId;

    use super::*;

    const VICTIM: AllocationId = AllocationId::from_bits(7);
    const OTHER: AllocationId = AllocationId::from_bits(8);

    fn signal(fence_id: u64) -> EngineFence {
        EngineFence { engine: 0, fence_id }
    }

    fn eviction(plan: PlanNo, at: Nanoseconds) -> Eviction {
        Eviction {
            number: at,
            at,
            plan,
            allocation: VICTIM,
            process: None,
            segment: SegmentId(1),
            bytes: 100,
            bytes_out: 100,
            reason: EvictReason::RoomWanted,
            discarded: false,
            wanted_by: None,
            moved_to: None,
            returned: None,
            lost_out_ns: 0,
        }
    }

    fn page_in(plan: PlanNo, allocation: AllocationId, at: Nanoseconds) -> PageIn {
        PageIn {
            number: at,
            at,
            ended_at: None,
            plan,
            allocation,
            segment: SegmentId(1),
            bytes: 100,
            content: ContentSource::BackingStore,
            lost_ns: 0,
        }
    }

    /// Builds a plan to its end in a packet, ends that, and charges a wait for it.
    fn carry_out(plans: &mut Plans, plan: PlanNo, ended_at: Nanoseconds, waited: Nanoseconds) {
        plans.built(plan, signal(plan));
        plans.packet_ended(signal(plan), ended_at);
        let (from, on) = (ended_at - waited, WaitedFor::Packet(signal(plan)));
        plans.charge(&Wait { device: DeviceId::from_bits(0), submission: 1, from, to: ended_at, on });
        plans.retired(plan, ended_at);
    }

    fn evictions(out: &[Record]) -> Vec<&Eviction> {
        let evictions = out.iter().filter_map(|record| match record {
            Record::Eviction(eviction) => Some(eviction),
            _ => None,
        });
        evictions.collect()
    }

    #[test]
    fn the_price_of_an_eviction_is_its_part_of_both_waits() {
        let (mut plans, mut out) = (Plans::default(), Vec::new());
        plans.evicted(eviction(1, 10), &mut out);
        plans.placed(page_in(1, OTHER, 10));
        carry_out(&mut plans, 1, 100, 60);
        plans.settle(100, &mut out);
        assert!(evictions(&out).is_empty(), "it may come back, and its price is not known");
        plans.placed(page_in(2, VICTIM, 200));
        carry_out(&mut plans, 2, 300, 50);
        plans.settle(300, &mut out);
        let [eviction] = evictions(&out)[..] else { panic!("there is one: {out:?}") };
        assert_eq!(eviction.lost_out_ns, 30, "half of the bytes of its plan are its own");
        assert_eq!(eviction.returned.map(|back| (back.plan, back.bytes_in, back.lost_ns)), Some((2, 100, 50)));
        assert_eq!(eviction.lost_ns(), 80);
    }

    #[test]
    fn an_allocation_that_is_gone_never_returns() {
        let (mut plans, mut out) = (Plans::default(), Vec::new());
        plans.evicted(eviction(1, 10), &mut out);
        plans.allocation_gone(VICTIM, &mut out);
        carry_out(&mut plans, 1, 100, 10);
        plans.settle(100, &mut out);
        assert_eq!(evictions(&out).len(), 1, "it is settled with its plan");
        plans.finish(&mut out);
        assert_eq!(evictions(&out).len(), 1);
    }

    #[test]
    fn a_move_within_one_plan_is_no_return() {
        let (mut plans, mut out) = (Plans::default(), Vec::new());
        plans.evicted(eviction(1, 10), &mut out);
        plans.placed(page_in(1, VICTIM, 10));
        carry_out(&mut plans, 1, 100, 0);
        plans.finish(&mut out);
        let [eviction] = evictions(&out)[..] else { panic!("there is one: {out:?}") };
        assert_eq!((eviction.moved_to, eviction.returned), (Some(SegmentId(1)), None));
    }
}
