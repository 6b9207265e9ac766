//! Making calls: budgets, reservations and trims; and judging what is said of them.

use vidmm::{MemorySegmentGroup, TrimFlags, VideoMemoryInfo};
use vidmm_trace::ByteSize;

use super::answered::{Absent, Answered};
use super::session::Session;
use crate::exact::exact;
use crate::scenario::steps::{ExpectTrim, Intervals, ProcessPriority, QueryVideoMemory, ReserveVideoMemory, TrimFlag};

impl Session<'_> {
    pub fn reserve_video_memory(&mut self, step: &ReserveVideoMemory) -> Result<Answered, Absent> {
        let process = self.process(&step.process)?;
        let vidmm = self.runtime.vidmm();
        let changed = vidmm.change_video_memory_reservation(process, step.group.into(), step.size.bytes());
        Ok(Answered::of(changed))
    }

    pub fn process_priority(&mut self, step: &ProcessPriority) -> Result<Answered, Absent> {
        let process = self.process(&step.process)?;
        Ok(Answered::of(self.runtime.vidmm().set_process_priority(process, step.band, step.visibility)))
    }

    pub fn notify_budget(&mut self, process: &str) -> Result<Answered, Absent> {
        let process = self.process(process)?;
        Ok(Answered::of(self.runtime.vidmm().notify_budget_changes(process, true)))
    }

    pub fn register_trim(&mut self, name: &str) -> Result<Answered, Absent> {
        self.device(name)?;
        let device = self.objects.devices.get_mut(name).expect("it is there, or made");
        Ok(match self.runtime.vidmm().register_trim_notification(device.device) {
            Ok(notification) => {
                device.trim_notification = Some(notification);
                Answered::ok()
            }
            Err(error) => Answered::refused(&error),
        })
    }

    pub fn unregister_trim(&mut self, name: &str) -> Result<Answered, Absent> {
        let device = self.objects.devices.get_mut(name).ok_or_else(|| Absent(name.to_owned()))?;
        let notification = device.trim_notification.take().ok_or_else(|| Absent(format!("register-trim {name}")))?;
        Ok(Answered::of(self.runtime.vidmm().unregister_trim_notification(notification)))
    }

    pub fn set_trim_intervals(&mut self, intervals: Intervals) -> Answered {
        self.runtime.vidmm().set_trim_intervals(intervals.into());
        Answered::ok()
    }

    /// Asks what a process may use, and compares it with what is expected, with what was said last, and with the event log.
    pub fn query_video_memory(&mut self, query: &QueryVideoMemory) -> Result<(), Absent> {
        let process = self.process(&query.process)?;
        let group = MemorySegmentGroup::from(query.group);
        let info = match self.runtime.vidmm().query_video_memory_info(process, group) {
            Ok(info) => info,
            Err(error) => {
                self.found(error.to_string());
                return Ok(());
            }
        };
        let VideoMemoryInfo { budget, current_usage, current_reservation, available_for_reservation, requested } = info;
        let [may, uses, lists] = [budget, current_usage, requested].map(exact);
        let mut text = format!("{} may use {may}, uses {uses}, its lists name {lists}", query.process);
        if current_reservation > 0 {
            text += &format!("; it has reserved {}", exact(current_reservation));
        }
        self.narrator.checked(text);
        let expectations: [(&str, Option<ByteSize>, u64); 5] = [
            ("budget", query.budget, budget),
            ("usage", query.usage, current_usage),
            ("requested", query.requested, requested),
            ("reservation", query.reservation, current_reservation),
            ("available-for-reservation", query.available_for_reservation, available_for_reservation),
        ];
        for (name, expected, found) in expectations {
            if let Some(expected) = expected.filter(|expected| expected.bytes() != found) {
                let [expected, found] = [expected.bytes(), found].map(exact);
                self.found(format!("the {name} is {found}, but {expected} was expected"));
            }
        }
        let Some(resident) = self.truth.usage(process, group) else { return Ok(()) };
        if resident != current_usage {
            let [said, resident] = [current_usage, resident].map(exact);
            self.found(format!("the usage is said to be {said}, but by the event log {resident} are resident"));
        }
        if let Some(&notified) = self.budgets.get(&(process, group)).filter(|&&notified| notified != budget) {
            let [said, notified] = [budget, notified].map(exact);
            self.found(format!("the budget is said to be {said}, but {notified} was notified last"));
        }
        Ok(())
    }

    /// Compares the oldest notification that was not looked at yet with what is expected.
    pub fn expect_trim(&mut self, expect: &ExpectTrim) -> Result<(), Absent> {
        let device = self.objects.device(&expect.device)?.device;
        let notified = self.trims.get_mut(&device).and_then(|trims| trims.pop_front());
        let flags = expect.flags.iter().map(|flag| match flag {
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
            self.found(format!("{} got {found}, but {expected} was expected", expect.device));
        }
        let bytes = notified.map_or(0, |(_, bytes)| bytes);
        if let Some(expected) = expect.num_bytes_to_trim.filter(|expected| expected.bytes() != bytes) {
            let [expected, found] = [expected.bytes(), bytes].map(exact);
            self.found(format!("{} is asked to trim {found}, but {expected} was expected", expect.device));
        }
        Ok(())
    }
}
