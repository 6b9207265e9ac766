//! Suspicions: what the client does later shows whether a call was a mistake.

use crate::objects::{Issued, Object};
use crate::rules::{Finding, Rule, Suspicion};
use crate::session::Session;

impl Session {
    pub(super) fn suspect(&mut self, rule: Rule, text: String, since: u64, allocations: Vec<u32>) {
        let finding = Finding { rule, call: self.call, since: Some(since), text };
        self.suspicions.push(Suspicion { finding, allocations });
    }

    /// The call was a mistake.
    pub(crate) fn confirm(&mut self, Suspicion { mut finding, allocations }: Suspicion) {
        if finding.rule == Rule::NothingTrimmed {
            let sizes = allocations.iter().filter_map(|&handle| self.memory_of(handle));
            let bytes: u64 = sizes.map(|(_, size)| size).sum();
            let first = allocations[0];
            finding.text +=
                &format!(", though {bytes} bytes of idle allocations are on the list, the first is {first:#x}");
        }
        self.findings.push(finding);
    }

    /// Work follows. The work may need its commands, and each allocation that no work has used yet. The others were idle.
    pub(super) fn judge_kept(&mut self, device: u32, commands: u64) {
        if self.suspicions.is_empty() {
            return;
        }
        let suspicions = std::mem::take(&mut self.suspicions);
        let commands = self.addresses.allocation_at(commands).and_then(|handle| self.memory_of(handle));
        let is_idle = |&handle: &u32| match (self.handles.get(handle), self.handles.get(device)) {
            (Ok(Object::Allocation(of)), Ok(Object::Device(device))) => {
                of.made_resident.submitted < device.submitted && commands.is_none_or(|(memory, _)| memory != of.memory)
            }
            _ => false,
        };
        let is_judged = |of: &Suspicion| of.finding.rule == Rule::NothingTrimmed && self.is_of(device, of);
        let (mut judged, left) = suspicions.into_iter().partition::<Vec<_>, _>(is_judged);
        judged.iter_mut().for_each(|of| of.allocations.retain(is_idle));
        self.suspicions = left;
        judged.into_iter().filter(|of| !of.allocations.is_empty()).for_each(|of| self.confirm(of));
    }

    fn is_of(&self, device: u32, suspicion: &Suspicion) -> bool {
        self.owned.contains(&(device, suspicion.allocations[0]))
    }

    /// The device gives an allocation back. Without work since the device kept the allocation, the allocation was idle. Without work behind
    /// a wait for the paging fence, the early work has used the allocation.
    pub(super) fn judge_given_back(&mut self, handle: u32) {
        let is_judged = |of: &Suspicion| of.finding.rule != Rule::TakenBack && of.allocations.contains(&handle);
        while let Some(at) = self.suspicions.iter().position(is_judged) {
            let suspicion = self.suspicions.remove(at);
            self.confirm(suspicion);
        }
    }

    /// Work follows that waits for all paging fences but those `owed`. The work can be the first that uses what the fences were for.
    pub(super) fn clear_waited_for(&mut self, device: u32, owed: &[Issued]) {
        let mut suspicions = std::mem::take(&mut self.suspicions);
        suspicions.retain(|of| match of.finding.rule {
            Rule::SubmittedBeforeResident | Rule::SubmittedBeforeMapped => {
                !self.is_of(device, of) || owed.iter().any(|owed| Some(owed.of.call) == of.finding.since)
            }
            _ => true,
        });
        self.suspicions = suspicions;
    }

    /// Allocations are resident again, so nothing was taken back for good.
    pub(super) fn clear_taken_back(&mut self, handles: &[u32]) {
        self.suspicions
            .retain(|of| of.finding.rule != Rule::TakenBack || of.allocations.iter().all(|of| !handles.contains(of)));
    }
}
