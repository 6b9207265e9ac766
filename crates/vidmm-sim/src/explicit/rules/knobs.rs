//! The knobs of the verifier (RES-25): what they make of calls, and of the work behind these.

use std::collections::BTreeMap;

use vidmm::contract::EngineFence;
use vidmm::{Event, EvictFlags, OfferFlags, VerifierKnobs};

use crate::explicit::Session;

/// The knobs, and what is on its way out.
#[derive(Debug, Default)]
pub(in crate::explicit) struct Knobs {
    set: VerifierKnobs,
    /// The plans that take something out and have not retired, and the packets that end them, once these are built.
    leaving: BTreeMap<u64, Option<EngineFence>>,
    /// The last packet that each engine has ended. A plan is said to have retired after that.
    completed: BTreeMap<u32, u64>,
}

impl Knobs {
    pub fn new(set: VerifierKnobs) -> Self {
        Self { set, ..Self::default() }
    }

    /// Takes note of an event. Returns whether it is what the knobs say.
    fn heeds(&mut self, event: &Event) -> bool {
        let set = self.set;
        let holds_work = set.force_synchronous_evict || set.always_discard_offer;
        match *event {
            Event::Evict { flags, .. } => {
                let hastens = set.never_defer_evictions || set.force_synchronous_evict;
                return !(hastens && flags.contains(EvictFlags::EVICT_ONLY_IF_NECESSARY));
            }
            Event::Offered { flags, .. } => {
                return !set.always_discard_offer || flags.contains(OfferFlags::OFFER_IMMEDIATELY);
            }
            Event::Evicted { plan, .. } if holds_work => drop(self.leaving.insert(plan, None)),
            Event::PlanBuilt { plan, signal } => {
                self.leaving.entry(plan).and_modify(|ends| *ends = Some(signal));
            }
            Event::PlanRetired { plan } => drop(self.leaving.remove(&plan)),
            Event::Completed { signal } => drop(self.completed.insert(signal.engine, signal.fence_id)),
            Event::AdapterResetBegun { .. } => self.leaving.clear(),
            // It begins behind all that is on its way out: on the same engine, or by what it waits for.
            Event::Dispatched { signal, ref waits, .. } => {
                let is_behind = |ends: &EngineFence| {
                    let waits = waits.iter().any(|wait| wait.engine == ends.engine && wait.fence_id >= ends.fence_id);
                    let has_ended = self.completed.get(&ends.engine).is_some_and(|&last| ends.fence_id <= last);
                    ends.engine == signal.engine || has_ended || waits
                };
                return self.leaving.values().all(|ends| ends.as_ref().is_some_and(is_behind));
            }
            _ => {}
        }
        true
    }
}

impl Session<'_> {
    /// An event is what the verifier makes of it.
    pub(in crate::explicit) fn judge_knobs(&mut self, event: &Event) {
        let Some(rules) = &mut self.rules else { return };
        if !rules.knobs.heeds(event) {
            let problem = format!("{event:?} is not what the verifier makes of it: {:?}", rules.knobs);
            self.broke("RES-25", problem);
        }
    }
}
