//! Judging by rules alone: a program may do anything and be refused anything, and what the contract promises must hold.
//!
//! The event log goes through the auditor as it is written. What is not in the log is judged here, by books that follow from
//! the answers alone: a kernel whose device has made everything resident that it uses does not fault, and nothing is left of
//! what ended.

mod doubt;
mod end;
pub(crate) mod known;

use std::collections::{BTreeMap, BTreeSet};

use vidmm::{DeviceId, FenceValueDesc};
use vidmm_runtime::AllocationSegments;

use crate::explicit::answered::Absent;
use crate::explicit::ledger::Part;
use crate::explicit::objects::Mapping;
use crate::explicit::session::Session;
use crate::scenario::steps::{Action, Answer, Call, DestroyFlag, Step};

/// How many steps of the machine are between two looks at all of the manager's books.
const STEPS_BETWEEN_AUDITS: u64 = 1000;

impl Session<'_> {
    /// Makes a step whatever it answers, and judges what followed. Returns the answer; none if the step names what was never
    /// made, or cannot be made now.
    pub(crate) fn play(&mut self, step: &Step, default: AllocationSegments) -> Option<Answer> {
        if self.is_racing(&step.action) {
            return None;
        }
        let played = match &step.action {
            Action::Call(call) => {
                let answered = self.play_call(call, step.expect, default);
                if !self.narrator.silent {
                    let absent = |Absent(name): &Absent| format!("passed over: `{name}` was never made");
                    let answer = answered.as_ref().map_or_else(absent, ToString::to_string);
                    self.narrator.step(step.action.to_string(), Some(answer));
                }
                answered
            }
            Action::Look(look) => {
                if !self.narrator.silent {
                    self.narrator.step(look.to_string(), None);
                }
                self.look(look).map(|()| Answer::Ok)
            }
        };
        self.settle();
        self.judge_rules();
        self.show_lines();
        played.ok()
    }

    /// Makes steps, up to the first that shows something.
    pub(crate) fn play_all(&mut self, steps: &[Step], default: AllocationSegments) {
        for step in steps {
            self.step = (step.line, if self.narrator.silent { String::new() } else { step.action.to_string() });
            self.play(step, default);
            self.report.steps_done += 1;
            if !self.report.findings.is_empty() || self.adapter_error.is_some() {
                return;
            }
        }
    }

    fn play_call(
        &mut self,
        call: &Call,
        expect: Option<Answer>,
        default: AllocationSegments,
    ) -> Result<Answer, Absent> {
        self.num_machine_steps += 1;
        let answer = self.call(call, expect, default)?.answer;
        if let Some(digest) = self.rules.as_mut().and_then(|rules| rules.digest.as_mut()) {
            digest.add(&answer);
        }
        if answer.is_done() {
            self.book(call);
        }
        Ok(answer)
    }

    /// Keeps the books of a call that was done.
    fn book(&mut self, call: &Call) {
        match call {
            Call::MakeResident(step) => self.book_list(step.device.as_deref(), &step.allocations, true),
            Call::Evict(step) => self.book_list(step.device.as_deref(), &step.allocations, false),
            Call::CloseAllocation(close) => {
                self.forget_lists(&close.allocations, Some(&close.device));
                self.free_mappings(&close.allocations, Some(&close.device));
            }
            Call::FreeVa(free) if free.offset.bytes() == 0 => {
                self.objects.mappings.entry(free.mapping.clone()).and_modify(|mapping| mapping.is_freed = true);
            }
            Call::DestroyAllocation(destroy) => {
                self.free_mappings(&destroy.allocations, None);
                if destroy.flags.contains(&DestroyFlag::AssumeNotInUse) {
                    self.uncover(&destroy.allocations);
                }
            }
            _ => {}
        }
    }

    fn book_list(&mut self, device: Option<&str>, allocations: &[String], joins: bool) {
        let Ok(Some(device)) = self.objects.device_of(device, allocations) else { return };
        let device = device.device;
        let Some(rules) = &mut self.rules else { return };
        for allocation in allocations {
            let count = rules.lists.entry((device, allocation.clone())).or_default();
            *count = if joins { *count + 1 } else { count.saturating_sub(1) };
        }
    }

    /// A device knows allocations no more, or their owner does not: its addresses of them are free.
    fn free_mappings(&mut self, allocations: &[String], device: Option<&str>) {
        for name in allocations {
            let Some(owner) = self.objects.allocations.get(name).map(|known| known.device.clone()) else { continue };
            let device = device.unwrap_or(&owner);
            let of_device = |mapping: &&mut Mapping| mapping.part.allocation == *name && mapping.device == device;
            self.objects.mappings.values_mut().filter(of_device).for_each(|mapping| mapping.is_freed = true);
        }
    }

    /// A device knows allocations no more: they are on its list no more.
    fn forget_lists(&mut self, allocations: &[String], device: Option<&str>) {
        let Some(device) = device.and_then(|name| self.objects.devices.get(name)).map(|device| device.device) else {
            return;
        };
        let Some(rules) = &mut self.rules else { return };
        rules.lists.retain(|(of, allocation), _| *of != device || !allocations.contains(allocation));
    }

    /// A device is in error: its list is empty.
    pub(super) fn empty_list(&mut self, device: DeviceId) {
        let Some(rules) = &mut self.rules else { return };
        rules.lists.retain(|(of, _), _| *of != device);
        rules.trouble();
        // Its fences let others go, while what it had handed out may still run, or begin.
        self.open_kernels(|kernel| kernel.device == device).into_iter().for_each(|kernel| self.doubt(kernel));
    }

    /// Their owner has promised that nobody uses them: whoever does may fault.
    fn uncover(&mut self, allocations: &[String]) {
        let Some(rules) = &self.rules else { return };
        for allocation in allocations {
            for &kernel in rules.users.get(allocation).into_iter().flatten() {
                self.objects.kernels[kernel].is_covered = false;
            }
        }
    }

    /// Whether a device has made everything resident that a kernel is to use.
    pub(super) fn is_covered(&self, device: DeviceId, parts: &[&Part]) -> bool {
        let Some(rules) = &self.rules else { return false };
        let is_listed =
            |part: &&Part| rules.lists.get(&(device, part.allocation.clone())).is_some_and(|&count| count > 0);
        parts.iter().all(is_listed)
    }

    /// What a kernel must wait for that uses allocations which others use on other contexts, because what two kernels find that
    /// race is nobody's promise.
    pub(super) fn waits_for_users(&self, parts: &[&Part], own: vidmm::MonitoredFenceId) -> Vec<FenceValueDesc> {
        let Some(rules) = &self.rules else { return Vec::new() };
        let users = parts.iter().filter_map(|part| rules.users.get(&part.allocation)).flatten();
        let users: BTreeSet<usize> = users.copied().collect();
        let mut last = BTreeMap::new();
        for kernel in users.into_iter().map(|kernel| &self.objects.kernels[kernel]) {
            if !kernel.ended && kernel.fence != own {
                last.insert(kernel.fence, kernel.value);
            }
        }
        last.into_iter().map(|(fence, value)| FenceValueDesc { fence, value }).collect()
    }

    /// A kernel was submitted.
    pub(super) fn add_user(&mut self, kernel: usize) {
        let Self { rules: Some(rules), objects, .. } = self else { return };
        let state = &objects.kernels[kernel];
        rules.kernels.entry(state.submission.clone()).or_default().push(kernel);
        for part in state.work.reads.iter().chain(&state.work.writes) {
            let users = rules.users.entry(part.allocation.clone()).or_default();
            users.retain(|&user| !objects.kernels[user].ended);
            users.push(kernel);
        }
        if rules.is_misreported {
            self.let_go(kernel);
        }
    }

    /// Looks at what the auditor found, and now and then at all of the manager's books.
    pub(crate) fn judge_rules(&mut self) {
        let steps = self.num_machine_steps;
        let Some(rules) = &mut self.rules else { return };
        if let Some(finding) = rules.audit.findings().first() {
            let (rule, problem) = (finding.invariant.name(), format!("event {}: {}", finding.event, finding.message));
            return self.broke(rule, problem);
        }
        if std::mem::take(&mut rules.is_trouble) || steps >= rules.audited_at + STEPS_BETWEEN_AUDITS {
            rules.audited_at = steps;
            self.audit();
        }
    }
}
