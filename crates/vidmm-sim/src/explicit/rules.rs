//! Judging by rules alone: a program may do anything and be refused anything, and what the contract promises must hold.
//!
//! The event log goes through the auditor as it is written. What is not in the log is judged here, by books that follow from
//! the answers alone: a kernel whose device has made everything resident that it uses does not fault, and nothing is left of
//! what ended.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use vidmm::contract::{AddressingModel, EngineFence};
use vidmm::{
    AllocationId, DeviceId, Event, FenceValueDesc, MemorySegmentGroup, NumberedEvent, PriorityBand, Visibility,
};
use vidmm_runtime::AllocationSegments;
use vidmm_trace::Audit;

use super::answered::Absent;
use super::ledger::Part;
use super::objects::{KernelState, Mapping, WrittenCopy};
use super::session::Session;
use crate::digest::Digest;
use crate::scenario::steps::{Action, Answer, Call, DestroyFlag, Kernel, Look, Step, Whereabouts};
use crate::scenario::{Fault, FaultKind, When};

/// How many steps of the machine are between two looks at all of the manager's books.
const STEPS_BETWEEN_AUDITS: u64 = 1000;

/// What is known when nothing is expected.
#[derive(Debug, Default)]
pub(crate) struct Rules {
    audit: Audit,
    /// What follows from all events and answers, if anybody wants to know.
    pub digest: Option<Digest>,
    /// How often each allocation is on the list of each device, by the answers.
    lists: BTreeMap<(DeviceId, String), u32>,
    /// Kernels that use an allocation and have not ended.
    users: BTreeMap<String, Vec<usize>>,
    /// Kernels of each submission.
    kernels: BTreeMap<String, Vec<usize>>,
    /// Allocations whose content was discarded, and how many kernels there were when that was said. Those that had been
    /// submitted before find what it was.
    discarded: BTreeMap<String, usize>,
    /// What is offered: its content may go at any time.
    offered: BTreeSet<AllocationId>,
    /// Engines find memory through an IOMMU.
    has_device_cache: bool,
    /// Page faults are made on purpose, or reported wrongly.
    forges_faults: bool,
    /// A fault was reported that nobody understood, and the adapter was not reset since.
    is_misreported: bool,
    /// Page faults are reported wrongly again and again, which the manager says only once of each kind.
    misreports_again: bool,
    /// Anything is made on purpose that may put the adapter in error.
    has_faults: bool,
    /// Steps of the machine when all books were looked at last.
    audited_at: u64,
    /// Something went wrong, so that all books are looked at after the step.
    is_trouble: bool,
}

impl Rules {
    /// The rules for a machine of that addressing model with these mistakes.
    pub fn new(addressing_model: AddressingModel, faults: &[Fault]) -> Self {
        let has_device_cache =
            matches!(addressing_model, AddressingModel::GpuVaIoMmu | AddressingModel::GpuVaIoMmuGlobal);
        let forges = |fault: &Fault| {
            matches!(fault.kind, FaultKind::ForgePageFault | FaultKind::ForgePagingFault | FaultKind::Interrupt(_))
        };
        let (forges_faults, has_faults) = (faults.iter().any(forges), !faults.is_empty());
        let is_report = |fault: &Fault| matches!(fault.kind, FaultKind::Interrupt(_));
        let misreports_again = faults.iter().any(|fault| is_report(fault) && !matches!(fault.when, When::Nth(_)));
        Self { has_device_cache, forges_faults, has_faults, misreports_again, ..Self::default() }
    }

    pub fn observe(&mut self, event: &NumberedEvent) {
        self.audit.event(event);
        match &event.event {
            Event::Offered { allocations, .. } => self.offered.extend(allocations),
            Event::Reclaimed { allocations, .. } => self.offered.retain(|id| !allocations.contains(id)),
            _ => {}
        }
        if let Some(digest) = &mut self.digest {
            digest.add(event);
        }
    }

    /// Whether what a kernel finds in an allocation has been discarded since it was submitted.
    pub fn is_past(&self, kernel: usize, allocation: &str) -> bool {
        self.discarded.get(allocation).is_some_and(|&since| kernel < since)
    }

    /// Whether the driver must hear of all that is unmapped from the IOMMU: the model GPU caches what that translates.
    pub fn needs_unmap_notices(&self) -> bool {
        self.has_device_cache
    }

    /// Something went wrong.
    pub fn trouble(&mut self) {
        self.is_trouble = true;
    }

    /// Whether a device may find anything that it has not made resident.
    pub fn may_fault(&self) -> bool {
        self.forges_faults
    }

    /// Whether something is done on purpose that may put the adapter in error.
    pub fn may_fail(&self) -> bool {
        self.has_faults
    }
}

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
            Call::FreeVa(name) => {
                self.objects.mappings.entry(name.clone()).and_modify(|mapping| mapping.is_freed = true);
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

    /// A kernel that uses what its device has not made resident writes to whatever is mapped at its addresses by now.
    pub(super) fn forget_addresses_of(&mut self, kernel: usize) {
        let written = &self.objects.kernels[kernel].outputs;
        for mapping in self.objects.mappings.values() {
            let (process, addresses) = mapping.addresses();
            let is_hit = |(of, range): &(_, Range<u64>)| {
                *of == process && range.start < addresses.end && addresses.start < range.end
            };
            if written.iter().any(is_hit) {
                self.ledger.forget(&mapping.part.allocation);
            }
        }
    }

    /// Kernels that others did not wait for have written by now: what those found meanwhile is not what is there. Nor is what was
    /// mapped, while they ran, where they write.
    pub(super) fn forget_late_writes(&mut self, signal: EngineFence) {
        for kernel in self.kernels_of(signal) {
            if self.objects.kernels[kernel].aborted {
                self.doubt(kernel);
            }
            if !self.objects.kernels[kernel].is_covered {
                self.forget_addresses_of(kernel);
            }
        }
    }

    /// A packet was aborted: what its kernels were to write is anybody's guess.
    pub(super) fn packet_aborted(&mut self, signal: EngineFence) {
        let Some(rules) = &mut self.rules else { return };
        rules.trouble();
        for kernel in self.kernels_of(signal) {
            match self.objects.kernels[kernel].begun {
                true => self.doubt(kernel),
                false => self.objects.kernels[kernel].aborted = true,
            }
        }
    }

    /// A kernel has faulted, or one of those under way if it is not said which: those that wait for it may run before its engine
    /// is reset, and find what it has written by then.
    pub(super) fn kernel_faulted(&mut self, name: Option<&str>) {
        if self.rules.is_none() {
            return;
        }
        let is_it = |kernel: &KernelState| kernel.begun && name.is_none_or(|name| kernel.submission == name);
        self.open_kernels(is_it).into_iter().for_each(|kernel| self.doubt(kernel));
    }

    /// A report was not understood. If it was one of a fault that nobody has had, those that wait for what it stopped may run, since
    /// a fault lets them go (FLT-11), and nobody knows who they are until the adapter is reset.
    pub(super) fn fault_misreported(&mut self) {
        let Some(rules) = self.rules.as_mut().filter(|rules| rules.may_fault()) else { return };
        rules.is_misreported = true;
        self.open_kernels(|_| true).into_iter().for_each(|kernel| self.let_go(kernel));
    }

    /// A kernel may run whenever it likes.
    fn let_go(&mut self, kernel: usize) {
        self.objects.kernels[kernel].is_covered = false;
        self.doubt(kernel);
    }

    /// Nobody can say when a kernel writes, or whether it does.
    fn doubt(&mut self, kernel: usize) {
        let kernel = &mut self.objects.kernels[kernel];
        kernel.aborted = true;
        self.ledger.aborted(&kernel.work);
    }

    /// The kernels of this kind that have not ended.
    fn open_kernels(&self, is_one: impl Fn(&KernelState) -> bool) -> Vec<usize> {
        let kernels = self.objects.kernels.iter().enumerate();
        kernels.filter(|(_, kernel)| !kernel.ended && is_one(kernel)).map(|(index, _)| index).collect()
    }

    /// The kernels of what an engine was handed.
    fn kernels_of(&self, signal: EngineFence) -> Vec<usize> {
        let Some(rules) = &self.rules else { return Vec::new() };
        let name = self.narrator.names.kernel_of(signal);
        name.and_then(|name| rules.kernels.get(&name).cloned()).unwrap_or_default()
    }

    /// The adapter works again.
    pub(super) fn adapter_restarted(&mut self) {
        self.rules.iter_mut().for_each(|rules| rules.is_misreported &= rules.misreports_again);
    }

    /// The CPU has written to the copy of an allocation that keeps one: until the lock ends, kernels may find it or what was
    /// there before (2.2).
    pub(super) fn copy_written(&mut self, name: &str) {
        let (is_judged, num_kernels, write) = (self.rules.is_some(), self.objects.kernels.len(), self.cpu_writes);
        let Some(known) = self.objects.allocations.get_mut(name).filter(|known| is_judged && known.keeps_copy) else {
            return;
        };
        // What leaves local memory at this time may reach the copy after the CPU.
        let is_overwritten = !self.runtime.vidmm().is_idle();
        known.written_copy = Some(WrittenCopy { write, num_kernels, is_overwritten });
        self.ledger.forget(name);
    }

    /// The last lock of an allocation ends, and what is in local memory is brought up to date from the copy: what the CPU has
    /// written is what it holds, unless kernels used it meanwhile.
    pub(super) fn copy_taken(&mut self, name: &str) {
        let Some(known) = self.objects.allocations.get_mut(name) else { return };
        if self.rules.is_none() || !known.keeps_copy {
            return;
        }
        let written = known.written_copy.take();
        let uses = |part: &Part| part.allocation == name;
        let mut since = self.objects.kernels[written.map_or(0, |written| written.num_kernels)..].iter();
        let is_used = since.any(|kernel| kernel.work.reads.iter().chain(&kernel.work.writes).any(uses));
        let is_doubtful = is_used || written.is_some_and(|written| written.is_overwritten);
        match written {
            Some(written) if !is_doubtful => drop(self.ledger.cpu_write(name, written.write)),
            // What kernels wrote may be overwritten with what the copy held before, or may not have been there yet.
            _ if is_doubtful => {
                self.ledger.forget(name);
                self.content_discarded(name);
            }
            _ => {}
        }
    }

    /// What an allocation held in local memory is copied out, over what the CPU may have written to its copy: of two writers nobody
    /// promises who comes last (2.2).
    pub(super) fn copied_out(&mut self, id: AllocationId) {
        let Some(name) = self.narrator.names.allocations.get(&id) else { return };
        let known = self.objects.allocations.get_mut(name);
        if let Some(written) = known.and_then(|known| known.written_copy.as_mut()) {
            written.is_overwritten = true;
        }
    }

    /// A program was told that what it had offered is lost.
    pub(super) fn content_discarded(&mut self, name: &str) {
        let num_kernels = self.objects.kernels.len();
        if let Some(rules) = &mut self.rules {
            rules.discarded.insert(name.to_owned(), num_kernels);
        }
    }

    /// Whether the CPU may see another content than kernels do: that of its copy.
    fn sees_copy(&mut self, name: &str) -> bool {
        let is_moving = !self.runtime.vidmm().is_idle();
        let Some(known) = self.objects.allocations.get(name) else { return true };
        known.keeps_copy && (is_moving || self.truth.whereabouts(known.id) == Whereabouts::Local)
    }

    /// Whether the step looks at what kernels are at work on.
    fn is_racing(&mut self, action: &Action) -> bool {
        match action {
            Action::Call(Call::Kernel(kernel)) => return self.uses_others_addresses(kernel),
            // The address may be that of another mapping by now.
            Action::Call(Call::FreeVa(name)) => {
                return self.objects.mappings.get(name).is_some_and(|mapping| mapping.is_freed);
            }
            Action::Call(Call::Unlock(names)) => return names.iter().any(|name| self.is_copy_in_use(name)),
            _ => {}
        }
        let Action::Look(Look::CpuRead(names) | Look::CpuWrite(names) | Look::System(names)) = action else {
            return false;
        };
        names.iter().any(|name| self.is_in_use(name) || !self.is_seen(name, action))
    }

    /// Whether a kernel uses addresses of another process than its own, or such as are free: nobody can say what it finds there.
    fn uses_others_addresses(&self, kernel: &Kernel) -> bool {
        let mappings = kernel.reads.iter().chain(&kernel.writes).filter_map(|name| self.objects.mappings.get(name));
        let device = kernel.device.as_ref().and_then(|name| self.objects.devices.get(name));
        let first = mappings.clone().next().map(|mapping| mapping.process);
        let own = device.map(|device| device.process).or(first);
        mappings.into_iter().any(|mapping| Some(mapping.process) != own || mapping.is_freed)
    }

    /// Whether the copy of an allocation would be taken while any kernel is under way: a kernel that was handed out before one
    /// that waits is not waited for (a known limit).
    fn is_copy_in_use(&self, name: &str) -> bool {
        let keeps_copy = self.objects.allocations.get(name).is_some_and(|known| known.keeps_copy);
        keeps_copy && self.objects.waiting.values().any(|kernels| !kernels.is_empty())
    }

    fn is_in_use(&self, name: &str) -> bool {
        let Some(rules) = &self.rules else { return false };
        let mut users = rules.users.get(name).into_iter().flatten();
        users.any(|&user| !self.objects.kernels[user].ended)
    }

    /// Whether the CPU sees an allocation now, and as kernels do. What a plan moves it does not see.
    fn is_seen(&mut self, name: &str, action: &Action) -> bool {
        if matches!(action, Action::Look(Look::System(_))) {
            return true;
        }
        if matches!(action, Action::Look(Look::CpuRead(_))) && self.sees_copy(name) {
            return false;
        }
        let lock = self.objects.allocations.get(name).and_then(|known| known.lock);
        lock.is_some_and(|(address, _)| self.runtime.cpu_page_digest(address).is_some())
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

    /// Lets everything end that is pending, then destroys all, and checks that nothing is left (I28, I32).
    pub(crate) fn end_by_rules(&mut self) {
        self.step = (0, "the end".to_owned());
        if self.report.findings.is_empty() && self.adapter_error.is_none() {
            self.let_everything_end();
        }
        if self.report.findings.is_empty() && self.adapter_error.is_none() {
            self.check_copies();
        }
        let intact = self.report.findings.is_empty() && self.adapter_error.is_none();
        self.closing = true;
        let refused = self.close();
        if intact && self.adapter_error.is_none() {
            refused.into_iter().for_each(|refused| self.broke("I28", format!("it cannot be destroyed: {refused}")));
            self.audit();
        }
        self.settle();
        if self.report.findings.is_empty() {
            self.judge_rules();
        }
    }

    /// With nothing under way, what is in system memory only is what was written last, also if nobody reads it again.
    fn check_copies(&mut self) {
        let Some(rules) = &self.rules else { return };
        let is_kept = |id: &AllocationId| !rules.offered.contains(id);
        let known = self.objects.allocations.iter().filter(|(_, known)| is_kept(&known.id));
        let known: Vec<(String, AllocationId)> = known.map(|(name, known)| (name.clone(), known.id)).collect();
        for (name, id) in known {
            if matches!(self.runtime.vidmm().system_copy(id), Ok(Some(_))) {
                self.check_left_aperture(&name, id);
                let looked = self.check_system(&[name]);
                debug_assert!(looked.is_ok(), "it was found by its name");
            }
        }
    }

    /// Whatever waits for a person goes on; the rest must end by itself.
    fn let_everything_end(&mut self) {
        self.runtime.end_faults();
        if std::mem::take(&mut self.is_down) {
            self.runtime.vidmm().power_up();
        }
        for process in std::mem::take(&mut self.suspended) {
            let _ = self.runtime.vidmm().resume_process(process);
        }
        // Who is in front and within its budget, or has reserved what it has, keeps its memory as long as it wants (P08).
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
        let locked = self.objects.allocations.iter().filter(|(_, known)| known.lock.is_some());
        let locked: Vec<String> = locked.filter(|(_, known)| !known.keeps_copy).map(|(name, _)| name.clone()).collect();
        for name in locked {
            while self.objects.allocations[&name].lock.is_some()
                && self.unlock(std::slice::from_ref(&name)).is_ok_and(|answered| answered.answer.is_done())
            {
            }
        }
        let is_idle = self.run_until_idle();
        if self.adapter_error.is_some() || !self.report.findings.is_empty() {
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
