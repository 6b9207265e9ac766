//! Judging by rules alone: a program may do anything and be refused anything, and what the contract promises must hold.
//!
//! The event log goes through the auditor as it is written. Facts that are not in the log are judged here, by records
//! that follow from the answers alone: a kernel whose device has made everything resident that it uses does not fault,
//! and nothing is left of what ended.

mod banks;
mod doubt;
mod end;
mod knobs;
pub(crate) mod known;
mod refusals;
mod strangers;

use std::collections::{BTreeMap, BTreeSet};

use vidmm::{DeviceId, FenceValueDesc};

use crate::explicit::ledger::Part;
use crate::explicit::objects::Mapping;
use crate::explicit::session::Session;
use crate::scenario::steps::{Action, Answer, Step, Undone};

/// How many steps of the machine are between two looks at all of the manager's books.
const STEPS_BETWEEN_AUDITS: u64 = 1000;

/// How many steps of the machine are between two looks for a lost wake-up.
const STEPS_BETWEEN_WAKES: u64 = 4;

impl Session<'_> {
    /// The manager has done all that it can: a call that changes nothing makes nothing go on that could have gone on before.
    fn judge_wakes(&mut self) {
        // A manager that puts things off on purpose goes on later.
        let is_prompt = self.rules.as_ref().is_some_and(|rules| !rules.puts_off);
        let Some(&process) = self.objects.processes.values().next_back().filter(|_| is_prompt) else { return };
        let listens = self.budget_listeners.contains(&process);
        let before = self.num_events;
        let mut fences = self.objects.devices.values().map(|device| device.engines[0].fence);
        let vidmm = self.runtime.vidmm();
        // No fence is below 0: nothing waits for that.
        let is_signalled = fences.any(|fence| vidmm.signal_monitored_fence(fence, 0).is_ok());
        if is_signalled || vidmm.notify_budget_changes(process, listens).is_ok() {
            self.settle();
            if self.num_events > before {
                let next = before + 1;
                let problem = format!(
                    "a call that changes nothing made the manager go on with event {next}: it could have before"
                );
                self.broke("WAKES", problem);
            }
        }
    }

    /// Makes a step whatever it answers, and judges what followed. Returns the answer; none if the step names what was never
    /// made, or cannot be made now.
    pub(crate) fn play(&mut self, step: &Step) -> Option<Answer> {
        self.expect = step.expect;
        let events_before = self.num_events;
        let played = match &step.action {
            Action::Call(call) => {
                let answer = call.make(self).or_else(Undone::answer).map(|answered| answered.answer);
                if !self.narrator.silent {
                    let words = answer.as_ref().map_or_else(Undone::in_words, Answer::to_string);
                    self.narrator.step(call.to_string(), Some(words));
                }
                answer
            }
            Action::Look(look) => {
                if !self.narrator.silent {
                    self.narrator.step(look.to_string(), None);
                }
                let looked = self.look(look).map(|()| Answer::Ok);
                looked.inspect_err(|undone| self.narrator.checked(undone.in_words()))
            }
        };
        if matches!(played, Err(Undone::Races)) {
            return None;
        }
        self.answered(&step.action, played.as_ref().ok().copied());
        let is_of_steps = self.rules.as_ref().is_some_and(|rules| rules.is_of_steps);
        let is_named = is_of_steps && step.expect.is_some() && step.expect == played.as_ref().ok().copied();
        let violation =
            played.as_ref().ok().copied().filter(|answer| is_of_steps && !is_named && answer.is_violation());
        if let Some(answer) = violation.filter(|_| self.report.findings.is_empty()) {
            self.find_violation(answer);
        }
        if matches!(step.action, Action::Call(_)) {
            self.num_machine_steps += 1;
            if let (Ok(answer), Some(digest)) = (&played, self.rules.as_mut().and_then(|rules| rules.digest.as_mut())) {
                digest.add(answer);
            }
        }
        self.settle();
        if let (Action::Call(call), Ok(answer), true) = (&step.action, &played, self.rules.is_some()) {
            if !is_named {
                self.judge_by_answers(call, *answer);
            }
            self.judge_refused(call, *answer, events_before);
        }
        self.judge_strangers();
        if self.num_machine_steps.is_multiple_of(STEPS_BETWEEN_WAKES) {
            self.judge_wakes();
        }
        self.judge_rules();
        self.show_lines();
        played.ok()
    }

    /// Makes steps, up to the first that shows something. An adapter in error refuses what is asked of it, which is judged too.
    pub(crate) fn play_all(&mut self, steps: &[Step]) {
        for step in steps {
            self.step = (step.line, if self.narrator.silent { String::new() } else { step.action.to_string() });
            self.play(step);
            self.report.steps_done += 1;
            if !self.report.findings.is_empty() {
                return;
            }
        }
    }

    /// Allocations join a device's list, or leave it.
    pub(super) fn book_list(&mut self, device: DeviceId, allocations: &[String], joins: bool) {
        let Some(rules) = &mut self.rules else { return };
        for allocation in allocations {
            let count = rules.lists.entry((device, allocation.clone())).or_default();
            *count = if joins { *count + 1 } else { count.saturating_sub(1) };
        }
    }

    /// A device knows allocations no more, or their owner does not: its addresses of them are free.
    pub(super) fn free_mappings(&mut self, allocations: &[String], device: Option<&str>) {
        for name in allocations {
            let Some(owner) = self.objects.allocations.get(name).map(|known| known.device.clone()) else { continue };
            let device = device.unwrap_or(&owner);
            let of_device = |mapping: &&mut Mapping| mapping.part.allocation == *name && mapping.device == device;
            self.objects.mappings.values_mut().filter(of_device).for_each(|mapping| mapping.is_freed = true);
        }
    }

    /// A device forgets allocations: the device's list does not name the allocations, though earlier work may.
    pub(super) fn forget_lists(&mut self, allocations: &[String], device: &str) {
        let (Ok(device), Some(rules)) = (self.objects.device(device).map(|known| known.device), &mut self.rules) else {
            return;
        };
        let forgotten = |of: &(DeviceId, String)| of.0 == device && allocations.contains(&of.1);
        rules.lists.iter_mut().filter(|(of, _)| forgotten(of)).for_each(|(_, count)| *count = 0);
    }

    /// A device is in error: its list is empty.
    pub(super) fn empty_list(&mut self, device: DeviceId) {
        let Some(rules) = &mut self.rules else { return };
        rules.lists.retain(|(of, _), _| *of != device);
        rules.is_trouble = true;
        // Its fences let others go, while what it had handed out may still run, or begin.
        self.open_kernels(|kernel| kernel.device == device).into_iter().for_each(|kernel| self.doubt(kernel));
    }

    /// Their owner has promised that nobody uses them: whoever does may fault.
    pub(super) fn uncover(&mut self, allocations: &[String]) {
        let Some(rules) = &self.rules else { return };
        for allocation in allocations {
            for &kernel in rules.users.get(allocation).into_iter().flatten() {
                self.objects.kernels[kernel].uncover();
            }
        }
    }

    /// Whether a device has made everything resident that a kernel is to use, and has offered none of it (RES-62).
    pub(super) fn is_covered(&self, device: DeviceId, parts: &[&Part]) -> bool {
        let Some(rules) = &self.rules else { return false };
        let is_required = |part: &&Part| {
            let count = rules.lists.get(&(device, part.allocation.clone()));
            let known = &self.objects.allocations[&part.allocation];
            count.is_some_and(|&count| count > 0) && !self.truth.may_lose_content(known.id)
        };
        parts.iter().all(is_required)
    }

    /// The fences that a kernel must wait for that uses allocations which others use on other contexts, because what
    /// two kernels find that race is nobody's promise.
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
