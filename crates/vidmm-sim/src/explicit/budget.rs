//! Making calls: budgets, reservations and trims; and judging what is said of them.

use vidmm::{
    AllocationResidencyStatus, MemorySegmentGroup, ProcessId, QueryStatistics, ReservationError, SegmentId, TrimFlags,
    VideoMemoryInfo,
};
use vidmm_trace::ByteSize;

use super::session::Session;
use crate::exact::exact;
use crate::scenario::steps::{
    Answered, CheckAccount, ExpectTrim, IgnoreBudget, Make, NotifyBudget, ProcessPriority, QueryVideoMemory,
    RegisterTrim, ReserveVideoMemory, RestrictBudget, See, TrimFlag, TrimIntervals, Undone, UnregisterTrim,
    Whereabouts,
};

/// Compares the group in which the manager counts allocations with the one in which it must.
impl See<Session<'_>> for CheckAccount {
    fn see(&self, session: &mut Session<'_>) -> Result<(), Undone> {
        for name in &self.allocations {
            let found = session.runtime.vidmm().query_account(session.objects.allocation(name)?.id)?;
            let memory = session.narrator.names.segments.name(found.segment);
            if found.group != Some(self.group.into()) {
                let problem = format!("{name} counts in {memory}, which is not of the {} group", self.group);
                session.found(problem);
            }
        }
        Ok(())
    }
}

impl Make<Session<'_>> for ReserveVideoMemory {
    fn make(&self, session: &mut Session<'_>) -> Result<Answered, Undone> {
        let process = session.process(&self.process)?;
        let (group, size) = (MemorySegmentGroup::from(self.group), self.size.bytes());
        let answer = session.runtime.vidmm().change_video_memory_reservation(process, group, size);
        let could = session.rules.as_ref().is_some_and(|rules| rules.audit.can_reserve(process, group, size));
        if could && matches!(answer, Err(ReservationError::TooMuch { .. })) {
            let size = exact(size);
            session.broke("U-31", format!("{} cannot reserve {size}, but so much is left to reserve", self.process));
        }
        if let (Ok(()), Some(rules)) = (&answer, &mut session.rules) {
            rules.reserved.insert((process, group), size);
        }
        Answered::of(answer)
    }
}

impl Make<Session<'_>> for ProcessPriority {
    fn make(&self, session: &mut Session<'_>) -> Result<Answered, Undone> {
        let process = session.process(&self.process)?;
        Answered::of(session.runtime.vidmm().set_process_priority(process, self.band, self.visibility))
    }
}

impl Make<Session<'_>> for RestrictBudget {
    fn make(&self, session: &mut Session<'_>) -> Result<Answered, Undone> {
        session.runtime.vidmm().restrict_budget(self.group.into(), self.size.map(ByteSize::bytes));
        Ok(Answered::ok())
    }
}

impl Make<Session<'_>> for NotifyBudget {
    fn make(&self, session: &mut Session<'_>) -> Result<Answered, Undone> {
        let process = session.process(&self.process)?;
        session.budget_listeners.insert(process);
        let vidmm = session.runtime.vidmm();
        // A process is told of what differs from what it can have asked for by now.
        for group in [MemorySegmentGroup::Local, MemorySegmentGroup::NonLocal] {
            session.budgets.insert((process, group), vidmm.query_video_memory_info(process, group)?.budget);
        }
        Answered::of(vidmm.notify_budget_changes(process, true))
    }
}

impl Make<Session<'_>> for IgnoreBudget {
    fn make(&self, session: &mut Session<'_>) -> Result<Answered, Undone> {
        let process = session.process(&self.process)?;
        session.budget_listeners.remove(&process);
        session.budgets.retain(|&(of, _), _| of != process);
        Answered::of(session.runtime.vidmm().notify_budget_changes(process, false))
    }
}

impl Make<Session<'_>> for RegisterTrim {
    fn make(&self, session: &mut Session<'_>) -> Result<Answered, Undone> {
        session.device(&self.device)?;
        let device = session.objects.devices.get_mut(&self.device).expect("it is there, or made");
        device.trim_notifications.push(session.runtime.vidmm().register_trim_notification(device.device)?);
        Ok(Answered::ok())
    }
}

impl Make<Session<'_>> for UnregisterTrim {
    fn make(&self, session: &mut Session<'_>) -> Result<Answered, Undone> {
        let name = &self.device;
        let device = session.objects.devices.get_mut(name).ok_or_else(|| Undone::Absent(name.clone()))?;
        let notification = device.trim_notifications.pop();
        let notification = notification.ok_or_else(|| Undone::Absent(format!("register-trim {name}")))?;
        Answered::of(session.runtime.vidmm().unregister_trim_notification(notification))
    }
}

impl Make<Session<'_>> for TrimIntervals {
    fn make(&self, session: &mut Session<'_>) -> Result<Answered, Undone> {
        session.runtime.vidmm().set_trim_intervals(self.intervals.into());
        Ok(Answered::ok())
    }
}

impl Session<'_> {
    /// A process has reserved what it was granted last (RES-51).
    fn judge_reservation(&mut self, process: ProcessId, group: MemorySegmentGroup, said: u64) {
        let Some(rules) = &self.rules else { return };
        let granted = rules.reserved.get(&(process, group)).copied().unwrap_or(0);
        if said != granted {
            self.broke("RES-51", format!("{said} bytes are said to be reserved, but {granted} were granted"));
        }
    }

    /// Each allocation is said to be where the log has it (RES-76).
    fn judge_residency(&mut self) {
        if self.rules.is_none() || self.truth.is_reset() {
            return;
        }
        let known: Vec<_> = self.objects.allocations.values().map(|known| known.id).collect();
        for id in known {
            let Ok(said) = self.runtime.vidmm().query_allocation_residency(id) else { continue };
            let is_right = match self.truth.whereabouts(id) {
                Whereabouts::Local => said == AllocationResidencyStatus::ResidentInGpuMemory,
                Whereabouts::System | Whereabouts::Aperture => {
                    said == AllocationResidencyStatus::ResidentInSharedMemory
                }
                Whereabouts::Nowhere => said == AllocationResidencyStatus::NotResident,
            };
            if !is_right {
                return self.broke("RES-76", format!("{id} is said to be {said:?}, but the log has it elsewhere"));
            }
        }
    }
}

impl Session<'_> {
    /// The statistics of a process, of system memory and of both together say what the log has there.
    fn judge_statistics(&mut self, process: ProcessId) {
        if self.rules.is_none() || self.truth.is_reset() {
            return;
        }
        let system = SegmentId::SYSTEM;
        let asked = [
            (QueryStatistics::Process(process), (Some(process), None)),
            (QueryStatistics::Segment(system), (None, Some(system))),
            (QueryStatistics::ProcessSegment(process, system), (Some(process), Some(system))),
        ];
        for (of, (process, segment)) in asked {
            let Ok(said) = self.runtime.vidmm().query_statistics(of) else { continue };
            let (bytes, count) = self.truth.resident(process, segment);
            if (said.bytes_resident, said.allocations_resident) != (bytes, count) {
                let problem = format!(
                    "{of:?}: {count} allocations of {bytes} bytes are resident by the log, but the answer is {said:?}"
                );
                return self.broke("STATISTICS", problem);
            }
        }
    }
}

/// Asks what a process may use, and compares it with what is expected, with what was said last, and with the event log.
impl See<Session<'_>> for QueryVideoMemory {
    fn see(&self, session: &mut Session<'_>) -> Result<(), Undone> {
        let process = session.process(&self.process)?;
        let group = MemorySegmentGroup::from(self.group);
        let info = session.runtime.vidmm().query_video_memory_info(process, group)?;
        let VideoMemoryInfo { budget, current_usage, current_reservation, available_for_reservation, requested } = info;
        let [may, uses, lists] = [budget, current_usage, requested].map(exact);
        let mut text = format!("{} may use {may}, uses {uses}, its lists name {lists}", self.process);
        if current_reservation > 0 {
            text += &format!("; it has reserved {}", exact(current_reservation));
        }
        session.narrator.checked(text);
        let expectations: [(&str, Option<ByteSize>, u64); 5] = [
            ("budget", self.budget, budget),
            ("usage", self.usage, current_usage),
            ("requested", self.requested, requested),
            ("reservation", self.reservation, current_reservation),
            ("available-for-reservation", self.available_for_reservation, available_for_reservation),
        ];
        for (name, expected, found) in expectations {
            session.judge_bytes(expected, found, |found| format!("the {name} is {found}"));
        }
        let told = session.rules.as_ref().and_then(|rules| rules.audit.budgets_of(process, group));
        if let Some(told) = told.filter(|told| !told.contains(&budget)) {
            session.broke(
                "I16",
                format!("{} is said to have a budget of {budget} bytes, but it follows to be {told:?}", self.process),
            );
        }
        session.judge_reservation(process, group, current_reservation);
        session.judge_residency();
        session.judge_statistics(process);
        let Some(resident) = session.truth.usage(process, group) else { return Ok(()) };
        if resident != current_usage {
            let [said, resident] = [current_usage, resident].map(exact);
            session.found(format!("the usage is said to be {said}, but by the event log {resident} are resident"));
        }
        if let Some(&notified) = session.budgets.get(&(process, group)).filter(|&&notified| notified != budget) {
            let [said, notified] = [budget, notified].map(exact);
            session.found(format!("the budget is said to be {said}, but {notified} was notified last"));
        }
        Ok(())
    }
}

/// Compares the oldest notification that was not looked at yet with what is expected.
impl See<Session<'_>> for ExpectTrim {
    fn see(&self, session: &mut Session<'_>) -> Result<(), Undone> {
        let device = session.objects.device(&self.device)?.device;
        let notified = session.trims.get_mut(&device).and_then(|trims| trims.pop_front());
        let flags = self.flags.iter().map(|flag| match flag {
            TrimFlag::Periodic => TrimFlags::PERIODIC_TRIM,
            TrimFlag::RestartPeriodic => TrimFlags::RESTART_PERIODIC_TRIM,
            TrimFlag::ToBudget => TrimFlags::TRIM_TO_BUDGET,
        });
        let expected: TrimFlags = flags.collect();
        let found = notified.map_or(TrimFlags::empty(), |(flags, _)| flags);
        if found != expected {
            let in_words = |flags: TrimFlags| match crate::sequence::trim_flags(flags) {
                words if words.is_empty() => "no notification".to_owned(),
                words => words,
            };
            let (found, expected) = (in_words(found), in_words(expected));
            session.found(format!("{} got {found}, but {expected} was expected", self.device));
        }
        let bytes = notified.map_or(0, |(_, bytes)| bytes);
        session.judge_bytes(self.num_bytes_to_trim, bytes, |found| format!("{} is asked to trim {found}", self.device));
        Ok(())
    }
}
