//! Packets that engines gave back are handed out again: with which fences, in which order, and what it waits for (FLT-23, I30).

use std::collections::BTreeMap;

use vidmm::Event;
use vidmm::contract::EngineFence;

use super::Audit;
use super::device::Device;
use super::fences::Work;
use super::finding::Invariant;

/// A packet that is handed out again.
#[derive(Debug)]
pub(super) struct Resubmission {
    before: EngineFence,
    signal: EngineFence,
    is_paging: bool,
    /// The fences that it waited for; none of a paging buffer, which waits for nothing.
    waited: Vec<EngineFence>,
    waits: Vec<EngineFence>,
}

impl Audit {
    pub(super) fn resubmitted(&mut self, before: EngineFence, signal: EngineFence, waits: &[EngineFence]) {
        let is_paging = self.fences.is_paging(before);
        self.check_order(before, is_paging);
        let Some(engine) = self.fences.engine_mut(before.engine) else { return };
        let came_back = engine.returned.contains(&before.fence_id);
        engine.returned.retain(|&packet| packet != before.fence_id);
        self.findings.check(came_back && !engine.is_held(), Invariant::I30, || {
            format!(
                "{before:?} is handed out again, but it did not come back, or its engine is to yield or to be reset"
            )
        });
        let next = if is_paging { before.fence_id } else { engine.submitted.saturating_add(1) };
        self.findings.check(signal == EngineFence { fence_id: next, ..before }, Invariant::Flt23, || {
            format!("{before:?} is handed out again as {signal:?}; its number is to be {next}")
        });
        engine.submitted = signal.fence_id.max(engine.submitted);
        engine.in_flight.push_back(signal.fence_id);
        engine.asked = false;
        let work = self.fences.work.remove(&before);
        let waited = work.as_ref().map(|work| work.waits.clone()).unwrap_or_default();
        if let Some(mut work) = work {
            let is_over = self.devices.get(&work.device).is_some_and(Device::is_over);
            self.findings.check(!is_over, Invariant::I12, || {
                format!("{before:?} is handed out again, but {} is in error or was destroyed", work.device)
            });
            work.waits = waits.to_vec();
            self.fences.work.insert(signal, work);
        }
        self.resubmission.push(Resubmission { before, signal, is_paging, waited, waits: waits.to_vec() });
    }

    /// Paging buffers come first, and the packets of an engine in their order; but a context may come after others from its first
    /// packet on that waits for paging (D23).
    fn check_order(&mut self, before: EngineFence, is_paging: bool) {
        let is_held_up = |work: &Work| self.fences.awaits_paging(work);
        let own = self.fences.work.get(&before);
        let mut earlier = self
            .resubmission
            .iter()
            .filter(|other| other.before.engine == before.engine && other.before.fence_id < before.fence_id);
        let is_behind_own = |own: &Work| {
            let earlier = earlier.by_ref().filter_map(|other| self.fences.work.get(&other.signal));
            earlier.filter(|other| other.context == own.context).any(is_held_up)
        };
        if own.is_some_and(is_held_up) || own.is_some_and(is_behind_own) {
            return;
        }
        let comes_after = |other: &&Resubmission| match is_paging == other.is_paging {
            true => other.before.engine == before.engine && other.before.fence_id > before.fence_id,
            false => is_paging,
        };
        let passed = self.resubmission.iter().find(comes_after).map(|other| other.before);
        self.findings.check(passed.is_none(), Invariant::Flt23, || {
            format!("{before:?} is handed out again after {passed:?}, which came after it")
        });
    }

    /// All is handed out again that came back: what that waits for is under way by now, under the name that it has now.
    pub(super) fn check_resubmission(&mut self, event: &Event) {
        if self.resubmission.is_empty() || matches!(event, Event::Resubmitted { .. }) {
            return;
        }
        let batch = std::mem::take(&mut self.resubmission);
        let renamed: BTreeMap<EngineFence, EngineFence> = batch.iter().map(|one| (one.before, one.signal)).collect();
        for Resubmission { signal, waited, waits, .. } in &batch {
            let right: Vec<EngineFence> =
                waited.iter().map(|wait| renamed.get(wait).copied().unwrap_or(*wait)).collect();
            let lost = waits.iter().find(|&&wait| !self.fences.has(wait));
            self.findings.check(lost.is_none(), Invariant::I30, || {
                format!("{signal:?} waits for {lost:?}, which is not under way and will not be signalled")
            });
            let other = waits.iter().find(|wait| !right.contains(wait));
            self.findings.check(other.is_none(), Invariant::Flt23, || {
                format!("{signal:?} waits for {other:?}, for which it did not wait before")
            });
            let missing = right.iter().find(|&&wait| self.fences.has(wait) && !waits.contains(&wait));
            self.findings.check(missing.is_none(), Invariant::I30, || {
                format!("{signal:?} does not wait any more for {missing:?}, which has not ended")
            });
        }
        self.check_nobody_waits_for_old_names(&renamed);
        for (engine, books) in (0..).zip(&self.fences.engines) {
            let left = books.returned.first();
            self.findings.check(left.is_none(), Invariant::I30, || {
                format!("packet {left:?} of engine {engine} came back, and is neither handed out again nor aborted")
            });
        }
    }

    fn check_nobody_waits_for_old_names(&mut self, renamed: &BTreeMap<EngineFence, EngineFence>) {
        let is_old = |wait: &EngineFence| renamed.get(wait).is_some_and(|now| now != wait);
        let waiting =
            self.fences.work.iter().find(|(_, work)| work.waits.iter().any(is_old)).map(|(&packet, _)| packet);
        self.findings.check(waiting.is_none(), Invariant::I30, || {
            format!("{waiting:?} waits for a packet that has another name now, and never has its old one signalled")
        });
    }
}
