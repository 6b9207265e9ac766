//! The waits of requests: for plans, and for the work and the plans before them.

use std::collections::{BTreeMap, BTreeSet};

use vidmm::{AllocationId, DeviceId, Event, PagingQueueId, PlanNo};

use super::words::{list, time};

/// Plans that have not retired.
#[derive(Debug, Default)]
pub(super) struct Plans(BTreeMap<PlanNo, Plan>);

/// The requests of the subject that are pending.
#[derive(Debug, Default)]
pub(super) struct Requests(Vec<Request>);

/// A plan that has not retired.
#[derive(Debug, Default)]
struct Plan {
    waits: Vec<(DeviceId, u64)>,
    after: Vec<PlanNo>,
    victims: Vec<AllocationId>,
}

/// A request that names the subject.
#[derive(Debug)]
struct Request {
    device: DeviceId,
    queue: PagingQueueId,
    value: u64,
    asked_at: u64,
    granted_at: Option<u64>,
    /// The allocations that had to leave, and the work that had to end.
    victims: Vec<AllocationId>,
    work: BTreeSet<(DeviceId, u64)>,
}

/// The end of a request.
#[derive(Debug)]
pub(super) struct Ended {
    pub device: DeviceId,
    pub waited: u64,
    /// The reasons of its wait, as far as the log has them.
    pub for_what: Vec<String>,
}

impl Plans {
    pub fn learn(&mut self, event: &Event) {
        match *event {
            Event::Evicted { plan, allocation, .. } => self.0.entry(plan).or_default().victims.push(allocation),
            Event::PlanDecided { plan, ref waits, ref after } => {
                let plan = self.0.entry(plan).or_default();
                (plan.waits, plan.after) = (waits.clone(), after.clone());
            }
            Event::PlanRetired { plan } => drop(self.0.remove(&plan)),
            _ => {}
        }
    }

    /// The victims of these plans and of those that they follow, and the work that they wait for.
    fn of_grant(&self, plans: &[PlanNo], subject: AllocationId) -> (Vec<AllocationId>, BTreeSet<(DeviceId, u64)>) {
        let mut open = plans.to_vec();
        let mut seen = BTreeSet::new();
        let (mut victims, mut work) = (Vec::new(), BTreeSet::new());
        while let Some(number) = open.pop() {
            let Some(plan) = self.0.get(&number).filter(|_| seen.insert(number)) else { continue };
            victims.extend(plan.victims.iter().filter(|&&victim| victim != subject));
            work.extend(&plan.waits);
            open.extend(&plan.after);
        }
        victims.sort_unstable();
        (victims, work)
    }
}

impl Requests {
    /// Records a request for the subject.
    pub fn ask(&mut self, device: DeviceId, queue: PagingQueueId, value: u64, at: u64) {
        let (victims, work) = (Vec::new(), BTreeSet::new());
        self.0.push(Request { device, queue, value, asked_at: at, granted_at: None, victims, work });
    }

    /// Records the grant of a request, by its queue and value: these plans must retire first.
    pub fn grant(
        &mut self,
        (queue, value, plans): (PagingQueueId, u64, &[PlanNo]),
        known: &Plans,
        subject: AllocationId,
        at: u64,
    ) {
        for request in self.0.iter_mut().filter(|request| (request.queue, request.value) == (queue, value)) {
            (request.victims, request.work) = known.of_grant(plans, subject);
            request.granted_at = Some(at);
        }
    }

    /// Records a new value of a paging fence. Returns the requests that end with it.
    pub fn end(&mut self, queue: PagingQueueId, value: u64, at: u64) -> Vec<Ended> {
        let done = self.0.extract_if(.., |request| request.queue == queue && request.value <= value);
        done.map(|request| request.ended(at)).collect()
    }
}

impl Request {
    fn ended(&self, at: u64) -> Ended {
        let mut for_what = Vec::new();
        let until_granted = self.granted_at.map_or(0, |granted| granted.saturating_sub(self.asked_at));
        if until_granted > 0 {
            for_what.push(format!("its turn and room came after {}", time(until_granted)));
        }
        if !self.work.is_empty() {
            let work: Vec<String> =
                self.work.iter().map(|(device, last)| format!("submission {last} of {device}")).collect();
            for_what.push(format!("work that used the room had to end ({})", list(&work)));
        }
        if !self.victims.is_empty() {
            for_what.push(format!("others had to leave ({})", list(&self.victims)));
        }
        Ended { device: self.device, waited: at.saturating_sub(self.asked_at), for_what }
    }
}
