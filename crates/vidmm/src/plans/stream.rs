//! The stream: plans in the order in which they run, and those that cannot run yet (D5).
//!
//! A plan is *parked* until the work that it waits for has retired and the plans that it follows have entered; then it enters
//! the stream and waits no more: what is in the stream can run. So a kernel that hangs holds back the plans that wait for it,
//! and nobody else's.

use alloc::{
    collections::{BTreeMap, VecDeque},
    vec::Vec,
};

use crate::{
    addresses::IoMmuRange,
    data::ordered_set::OrderedSet,
    id::{DeviceIx, PlanNo},
    plans::{Cursor, Plan},
};

/// All plans that have not retired.
#[derive(Debug, Default)]
pub(crate) struct Stream {
    last: PlanNo,
    /// All plans up to this one have retired.
    retired: PlanNo,
    plans: BTreeMap<PlanNo, Entry>,
    parked: OrderedSet<PlanNo>,
    /// Entered, and not built to its end.
    to_build: VecDeque<PlanNo>,
    /// Built, with the fence of the buffer that its last operation is in.
    built: VecDeque<(u64, PlanNo)>,
    /// The plans that the last reset of the adapter ended, in ascending order.
    abandoned: Vec<PlanNo>,
    /// A plan without content, for its memory.
    blank: Option<Plan>,
}

#[derive(Debug)]
struct Entry {
    plan: Plan,
    cursor: Cursor,
    /// The paging engine's fence that completes it; none until it is built.
    fence_id: Option<u64>,
}

impl Stream {
    /// The number that the next plan gets.
    pub fn next_number(&self) -> PlanNo {
        self.last + 1
    }

    /// A plan without content, with the memory of a plan that is over.
    pub fn blank(&mut self) -> Plan {
        self.blank.take().unwrap_or_default()
    }

    /// A plan is over: the next plan may have the memory.
    pub fn reuse(&mut self, mut plan: Plan) {
        plan.clear();
        self.blank = Some(plan);
    }

    /// Parks the plan whose number is [`next_number`](Self::next_number).
    pub fn park(&mut self, plan: Plan) {
        self.last += 1;
        self.plans.insert(self.last, Entry { plan, cursor: Cursor::default(), fence_id: None });
        self.parked.insert(self.last);
    }

    /// Lets the first parked plan enter for which `is_over` says of each wait that it is over, and `is_idle` of each device that
    /// is to be idle that it is. Returns its number, and what the host is to map for it.
    pub fn enter_next(
        &mut self,
        is_over: impl Fn(DeviceIx, u64) -> bool,
        is_idle: impl Fn(DeviceIx) -> bool,
    ) -> Option<(PlanNo, Vec<IoMmuRange>)> {
        let can_enter = |number: &&PlanNo| {
            let plan = &self.plans[*number].plan;
            plan.after.iter().all(|before| !self.parked.contains(before))
                && plan.after_retired.iter().all(|before| !self.plans.contains_key(before))
                && plan.waits.iter().all(|&(device, submission)| is_over(device, submission))
                && plan.idle_devices.iter().all(|&device| is_idle(device))
        };
        let number = *self.parked.iter().find(can_enter)?;
        self.parked.remove(&number);
        self.to_build.push_back(number);
        let entry = self.plans.get_mut(&number).expect("a parked plan has not retired");
        Some((number, core::mem::take(&mut entry.plan.io_mmu_map)))
    }

    /// A device is gone, with all its submissions over: no plan waits for any of them, nor for those of the device that takes
    /// its place.
    pub fn forget_device(&mut self, device: DeviceIx) {
        for entry in self.plans.values_mut() {
            entry.plan.waits.retain(|&(awaited, _)| awaited != device);
            entry.plan.idle_devices.retain(|&awaited| awaited != device);
        }
    }

    /// The plan to build, and how far it is.
    pub fn head(&mut self) -> Option<(PlanNo, &Plan, &mut Cursor)> {
        let number = *self.to_build.front()?;
        let entry = self.plans.get_mut(&number).expect("the stream's plans have not retired");
        Some((number, &entry.plan, &mut entry.cursor))
    }

    /// The plan that is being built, or is to be built next, and how far it is.
    pub fn being_built(&self) -> Option<(&Plan, &Cursor)> {
        self.plans.get(self.to_build.front()?).map(|entry| (&entry.plan, &entry.cursor))
    }

    /// The head's last operation is in the buffer that will signal `fence_id`.
    pub fn head_built(&mut self, fence_id: u64) {
        let number = self.to_build.pop_front().expect("only a head is built");
        self.plans.get_mut(&number).expect("the stream's plans have not retired").fence_id = Some(fence_id);
        self.built.push_back((fence_id, number));
    }

    /// Takes out the next plan whose last buffer's fence is at most `completed`.
    pub fn retire_next(&mut self, completed: u64) -> Option<(PlanNo, Plan)> {
        let &(fence_id, number) = self.built.front()?;
        if fence_id > completed {
            return None;
        }
        self.built.pop_front();
        let entry = self.plans.remove(&number).expect("a plan retires once");
        self.retired = self.plans.first_key_value().map_or(self.last, |(&first, _)| first - 1);
        Some((number, entry.plan))
    }

    /// Whether the plan has retired.
    pub fn is_retired(&self, number: PlanNo) -> bool {
        assert!(number <= self.last, "a plan that is being written has not retired");
        number <= self.retired || !self.plans.contains_key(&number)
    }

    /// Whether the last reset of the adapter ended the plan.
    pub fn has_abandoned(&self, number: PlanNo) -> bool {
        self.abandoned.binary_search(&number).is_ok()
    }

    /// Whether the plan waits outside the stream.
    pub fn is_parked(&self, number: PlanNo) -> bool {
        self.parked.contains(&number)
    }

    /// The fence that completes the plan: 0 if it has retired, none until it is built.
    pub fn fence_of(&self, number: PlanNo) -> Option<u64> {
        if number <= self.retired {
            return Some(0);
        }
        self.plans.get(&number).map_or(Some(0), |entry| entry.fence_id)
    }

    /// The fence that completes all of `plans`: 0 if they have retired, none until the last is built.
    pub fn fence_of_all(&self, plans: &[PlanNo]) -> Option<u64> {
        plans.iter().try_fold(0, |fence, &plan| Some(self.fence_of(plan)?.max(fence)))
    }

    /// Whether more than so many bytes are to be moved before the paging engine reaches a fence.
    pub fn has_to_move(&self, fence_id: u64, bytes: u64) -> bool {
        let before = self.built.iter().take_while(|&&(fence, _)| fence <= fence_id);
        let mut moved = before.scan(0, |moved, (_, number)| {
            *moved += self.plans[number].plan.bytes();
            Some(*moved)
        });
        moved.any(|moved| moved > bytes)
    }

    /// Those of `plans` that have not retired, in their order and each once.
    pub fn unretired(&self, mut plans: Vec<PlanNo>) -> Vec<PlanNo> {
        plans.sort_unstable();
        plans.dedup();
        plans.retain(|&plan| !self.is_retired(plan));
        plans
    }

    /// The plans that have not retired, in the order of their numbers.
    pub fn plans(&self) -> impl Iterator<Item = &Plan> {
        self.plans.values().map(|entry| &entry.plan)
    }

    /// The plans that have not been built to their end, in the order of their numbers.
    pub fn unbuilt(&self) -> impl Iterator<Item = &Plan> {
        self.plans.values().filter(|entry| entry.fence_id.is_none()).map(|entry| &entry.plan)
    }

    /// Whether no plan is being built, or is built and has not retired: what is left is parked.
    pub fn is_at_rest(&self) -> bool {
        self.to_build.is_empty() && self.built.is_empty()
    }

    /// The plan, for the audit.
    pub fn get(&self, number: PlanNo) -> Option<&Plan> {
        self.plans.get(&number).map(|entry| &entry.plan)
    }

    /// Whether all plans have retired.
    pub fn is_empty(&self) -> bool {
        self.plans.is_empty()
    }

    /// The plans that have not retired, in ascending order.
    pub fn numbers(&self) -> Vec<PlanNo> {
        self.plans.keys().copied().collect()
    }

    /// Gives all plans up, in the order of their numbers.
    pub fn abandon(&mut self) -> Vec<Abandoned> {
        let parked = core::mem::take(&mut self.parked);
        self.to_build.clear();
        self.built.clear();
        self.abandoned = self.numbers();
        let plans = core::mem::take(&mut self.plans).into_iter();
        let abandoned = plans.map(|(number, Entry { plan, fence_id, .. })| Abandoned {
            number,
            plan,
            has_entered: !parked.contains(&number),
            fence_id,
        });
        abandoned.collect()
    }
}

/// A plan that will not be carried out to its end.
pub(crate) struct Abandoned {
    pub number: PlanNo,
    pub plan: Plan,
    /// It had entered the stream.
    pub has_entered: bool,
    /// The fence that says that it is carried out, if it had been built to its end.
    pub fence_id: Option<u64>,
}

#[cfg(test)]
mod tests {
    use alloc::vec;

    use super::*;

    #[test]
    fn a_plan_outlives_the_device_whose_work_it_waited_for() {
        let mut stream = Stream::default();
        let mut plan = Plan::default();
        let (gone, other) = (DeviceIx::new(3), DeviceIx::new(4));
        plan.waits = vec![(gone, 1), (other, 1)];
        stream.park(plan);
        assert!(stream.enter_next(|_, _| true, |_| true).is_some());
        stream.forget_device(gone);
        assert_eq!(stream.get(1).unwrap().waits, [(other, 1)], "another device may have that number soon");
    }
}
