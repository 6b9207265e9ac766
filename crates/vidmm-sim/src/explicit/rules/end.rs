//! The end of a run: what is pending ends, everything is destroyed, and nothing is left (I28, I32).

use vidmm::{AllocationId, MemorySegmentGroup, PriorityBand, Visibility};

use crate::caught::caught;
use crate::explicit::Session;
use crate::explicit::held::{Held, HeldOfHost};
use crate::explicit::objects::Allocation;
use crate::explicit::report::{ExplicitReport, StepFinding};

impl Session<'_> {
    /// Lets everything end that is pending, then destroys all, and checks that nothing is left (I28, I32).
    pub(crate) fn end_by_rules(&mut self) {
        self.step = (0, "the end".to_owned());
        if self.is_intact() {
            self.let_everything_end();
        }
        if self.is_intact() {
            self.check_copies();
        }
        if self.stops_amid_work() {
            return;
        }
        let intact = self.is_intact();
        self.closing = true;
        let refused = self.close();
        if intact && self.adapter_error.is_none() {
            refused.into_iter().for_each(|refused| self.broke("I28", format!("it cannot be destroyed: {refused}")));
            self.audit();
        }
        self.settle();
        if intact && self.is_intact() && !self.awaited.is_empty() {
            self.broke("RES-91", "an allocation is gone that was destroyed synchronously, but nobody was told");
        }
        if intact && self.is_intact() {
            self.check_given_back();
        }
        if self.report.findings.is_empty() {
            self.judge_rules();
        }
    }

    /// Whether the adapter stops with all that is on it, in place of what ends before it: so it is in every fourth world.
    fn stops_amid_work(&self) -> bool {
        self.seed.is_multiple_of(4)
    }

    /// Stops the adapter. The host has back all that it ever gave then, and no object of the driver lives (I28).
    pub(crate) fn stop_by_rules(self) -> ExplicitReport {
        let Self { runtime, held, objects, mut report, step: (line, step), .. } = self;
        if !report.findings.is_empty() {
            return report;
        }
        let own = objects.allocations.values().filter_map(|known| known.existing).map(|(_, size)| size).sum();
        let panic = caught(|| runtime.stop());
        let Held { of_host, objects, misused } = held.take();
        let (rule, problem) = match (panic, misused, objects.first_key_value()) {
            (Some(message), ..) => ("PANIC", message),
            (None, Some(object), _) => ("I28", format!("the driver is told to end {object:?}, which does not live")),
            (None, None, Some((object, _))) => ("I28", format!("the adapter has stopped, but {object:?} lives")),
            (None, None, None) if of_host == HeldOfHost::of_programs(own) => return report,
            (None, None, None) => ("I28", format!("the adapter has stopped, but the host still has {of_host}")),
        };
        report.findings.push(StepFinding { line, step, rule: Some(rule), problem, event: 0 });
        report
    }

    /// The host has back all that it gave since the start, and the driver's objects have ended, each once.
    fn check_given_back(&mut self) {
        let Held { of_host: held, objects, misused } = self.held.borrow().clone();
        let left = objects.iter().find(|&(object, count)| self.held_at_start.objects.get(object) != Some(count));
        let at_start = self.held_at_start.of_host;
        if held != at_start {
            let problem = format!("everything is destroyed, but the host still has {held}; at the start: {at_start}");
            self.broke("I28", problem);
        }
        let problem = match (left, misused) {
            (_, Some(object)) => format!("the driver is told to end {object:?}, which does not live"),
            (Some((object, _)), None) => format!("everything is destroyed, but {object:?} of the driver lives"),
            (None, None) => return,
        };
        self.broke("I28", problem);
    }

    /// With nothing under way, what is in system memory only is what was written last, also if nobody reads it again.
    fn check_copies(&mut self) {
        let is_kept = |(_, known): &(&String, &Allocation)| !self.truth.may_lose_content(known.id);
        let known = self.objects.allocations.iter().filter(is_kept);
        let known: Vec<(String, AllocationId)> = known.map(|(name, known)| (name.clone(), known.id)).collect();
        for (name, id) in known {
            if matches!(self.runtime.vidmm().system_copy(id), Ok(Some(_))) {
                self.check_left_aperture(&name, id);
                let looked = self.check_system(&[name]);
                debug_assert!(looked.is_ok(), "it was found by its name");
            }
        }
    }

    /// Work that waits for a person goes on; the rest must end by itself.
    fn let_everything_end(&mut self) {
        self.runtime.end_faults();
        if std::mem::take(&mut self.is_down) {
            self.runtime.vidmm().power_up();
        }
        for process in std::mem::take(&mut self.suspended) {
            let _ = self.runtime.vidmm().resume_process(process);
        }
        // A process that is in front and within its budget, or has reserved what it has, keeps its memory as long as it
        // wants (P08).
        for process in self.objects.processes.values().copied().collect::<Vec<_>>() {
            let vidmm = self.runtime.vidmm();
            let _ = vidmm.set_process_priority(process, PriorityBand::Normal, Visibility::Visible);
            for group in [MemorySegmentGroup::Local, MemorySegmentGroup::NonLocal] {
                let _ = vidmm.change_video_memory_reservation(process, group, 0);
            }
        }
        for &fence in self.objects.fences.values() {
            let _ = self.runtime.vidmm().signal_monitored_fence(fence, 1);
        }
        // A program may keep a lock for ever: all that can go on beside the locks does so first (D30).
        self.run_until_idle();
        let locked = self.objects.allocations.iter().filter(|(_, known)| known.lock.is_some());
        let locked: Vec<String> = locked.filter(|(_, known)| !known.keeps_copy).map(|(name, _)| name.clone()).collect();
        for name in locked {
            while self.objects.allocations[&name].lock.is_some()
                && self.unlock(std::slice::from_ref(&name)).is_ok_and(|answered| answered.answer.is_done())
            {
            }
        }
        let is_idle = self.run_until_idle();
        if !self.is_intact() {
            return;
        }
        let in_error = &self.errors;
        let mut kernels = self.objects.kernels.iter();
        let waiting = kernels.find(|kernel| !kernel.ended && !in_error.contains_key(&kernel.device));
        match waiting.map(|kernel| kernel.name.clone()) {
            Some(kernel) => self.broke("I32", format!("kernel {kernel} never ends")),
            None if !is_idle => self.broke("I32", "something that is under way never ends".to_owned()),
            None => {}
        }
        self.judge_rules();
    }
}
