//! Plans while they are written: what belongs to one decision, cut where it has grown large enough.

use alloc::{collections::VecDeque, vec::Vec};

use crate::{
    event::{Event, RequestName},
    id::{AllocationIx, DeviceIx, PlanNo},
    moment::Moment,
    objects::Objects,
    plans::{Plan, Plans, Retire},
    state::State,
};

/// A plan is cut when it moves this many bytes, so that paging and the work that waits for it overlap (D6).
const PLAN_BYTES: u64 = 32 << 20;

/// Plans being written for one decision: a plan is parked when it is full, and another begun.
#[derive(Default)]
pub(crate) struct Draft {
    pub(super) plan: Plan,
    /// Something was decided under the number of `plan`: it must be parked, even if it needs no operation.
    pub(crate) decided: bool,
    /// The request or allocation that it makes room for.
    pub(super) wanted_by: Option<Wanted>,
    pub(super) parked: Vec<PlanNo>,
    /// Victims chosen before the decision, without further victims; otherwise victims are chosen as room is needed.
    pub(super) chosen: Option<VecDeque<AllocationIx>>,
}

/// The request or allocation that a decision makes room for.
#[derive(Clone, Copy)]
pub(crate) struct Wanted {
    pub device: DeviceIx,
    /// The request that is granted with it.
    pub request: Option<RequestName>,
    /// The allocation that comes next, while room is made for it alone.
    pub allocation: Option<AllocationIx>,
}

impl Draft {
    /// The decision makes room with these victims alone.
    pub(crate) fn with_victims(self, chosen: Vec<AllocationIx>) -> Self {
        Self { chosen: Some(chosen.into()), ..self }
    }

    /// From now on room is made for one allocation, or for all that the decision brings in.
    pub(super) fn make_room_for(&mut self, allocation: Option<AllocationIx>) {
        if let Some(wanted) = &mut self.wanted_by {
            wanted.allocation = allocation;
        }
    }
}

impl Plans {
    /// Begins a decision for a device, and for a request of it.
    pub(crate) fn begin(&mut self, device: DeviceIx, request: Option<RequestName>) -> Draft {
        let wanted_by = Some(Wanted { device, request, allocation: None });
        Draft { plan: self.stream.blank(), wanted_by, ..Draft::default() }
    }

    /// An allocation is planned twice in one plan only to move it from one place to another: then no notification is given
    /// after its content has moved.
    pub(crate) fn cut_before(&mut self, state: &mut State, draft: &mut Draft, index: AllocationIx) {
        let allocation = &state.objects[index];
        let is_in_draft = draft.decided && allocation.last_plan == self.stream.next_number();
        if is_in_draft && (state.adapter.is_behind_io_mmu() || allocation.place.is_some()) {
            self.park_draft(&mut state.moment, &state.objects, draft);
        }
    }

    /// Makes `draft` follow a plan that has not entered the stream.
    pub(crate) fn plan_after(&self, draft: &mut Draft, plan: PlanNo) {
        if self.stream.is_parked(plan) {
            draft.plan.follow(plan);
        }
    }

    /// Parks what is left in `draft`. Returns the numbers of all its plans.
    pub(crate) fn decide(&mut self, moment: &mut Moment, objects: &Objects, mut draft: Draft) -> Vec<PlanNo> {
        if draft.decided {
            self.park_draft(moment, objects, &mut draft);
        }
        draft.parked
    }

    /// Parks what is in `draft` if it has grown large enough, and begins another plan.
    pub(crate) fn park_if_full(&mut self, moment: &mut Moment, objects: &Objects, draft: &mut Draft) {
        if draft.plan.bytes() >= PLAN_BYTES {
            self.park_draft(moment, objects, draft);
        }
    }

    fn park_draft(&mut self, moment: &mut Moment, objects: &Objects, draft: &mut Draft) {
        let plan = core::mem::replace(&mut draft.plan, self.stream.blank());
        draft.decided = false;
        let number = self.stream.next_number();
        let devices = &objects.devices;
        moment.record(|| Event::PlanDecided {
            plan: number,
            waits: plan.waits.iter().map(|&(device, last)| (devices.id(device), last)).collect(),
            after: plan.after.iter().chain(&plan.after_retired).copied().collect(),
        });
        moment.statistics_mut().plans += 1;
        self.stream.park(plan);
        draft.parked.push(number);
    }

    /// Makes `draft` follow those of `plans` that are not its own.
    pub(crate) fn plan_after_all(&self, draft: &mut Draft, numbers: Vec<PlanNo>) {
        let number = self.stream.next_number();
        numbers.into_iter().filter(|&plan| plan != number).for_each(|plan| draft.plan.follow(plan));
    }
}

/// Makes `draft` wait for a submission, if it has not retired.
pub(crate) fn plan_wait(objects: &Objects, draft: &mut Draft, device: DeviceIx, submission: u64) {
    if submission > objects[device].retired() {
        draft.plan.wait_for(device, submission);
    }
}

/// Notes in `draft` what is to be done once it has retired.
pub(crate) fn plan_retire(draft: &mut Draft, retire: Retire) {
    draft.plan.retire.push(retire);
    draft.decided = true;
}
