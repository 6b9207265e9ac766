//! The devices that have it open, and their processes.

use vidmm::event::ResumeReason;
use vidmm::{DeviceId, Event, MemorySegmentGroup, ProcessId, TrimFlags};

use super::subject::Subject;
use super::tale::Tale;
use super::words::{band, capitalised, suspend_reason, visibility};
use super::world::World;
use crate::ByteSize;

impl Subject {
    /// Tells the events of its devices and their processes, as far as they can touch it.
    pub fn of_devices(&self, event: &Event, world: &World, tale: &mut Tale) {
        match *event {
            Event::DeviceYielded { .. }
            | Event::DeviceSuspended { .. }
            | Event::DeviceResumed { .. }
            | Event::DeviceHeldUp { .. } => {
                self.of_turns(event, world, tale);
            }
            Event::PoweredDown if self.destroyed_at.is_none() => {
                tale.tell("The adapter lost power; all that was resident is in system memory.");
            }
            Event::PoweredUp if self.destroyed_at.is_none() => {
                tale.tell("The adapter had power again, with nothing in its memory.");
            }
            Event::ProcessSuspended { process, .. } if self.is_used_by(process, world) => {
                tale.tell(format!("{} was suspended by a call.", capitalised(&process.to_string())));
            }
            Event::ProcessResumed { process, by_submission } if self.is_used_by(process, world) => {
                let why = if by_submission { "a submission" } else { "a call" };
                tale.tell(format!("{} was resumed by {why}.", capitalised(&process.to_string())));
            }
            _ => self.of_budgets(event, world, tale),
        }
    }

    fn of_turns(&self, event: &Event, world: &World, tale: &mut Tale) {
        match *event {
            Event::DeviceYielded { device, reason, wanted_by } if self.is_listed_by(device) => {
                let to = wanted_by.map_or_else(String::new, |other| format!(" to {}", world.device(other)));
                let device = capitalised(&world.device(device));
                tale.tell(format!("{device}, whose list names it, yielded{to}: {}.", suspend_reason(reason)));
            }
            Event::DeviceSuspended { device } if self.is_listed_by(device) => {
                tale.tell(format!(
                    "{} was suspended: its list does not require it any more.",
                    capitalised(&world.device(device))
                ));
            }
            Event::DeviceHeldUp { device, behind, since } if self.is_listed_by(device) => {
                let (device, behind) = (capitalised(&world.device(device)), world.device(behind));
                let since = since as f64 / 1e6;
                tale.tell(format!(
                    "{device}, whose list names it, had waited since {since:.0} ms behind {behind}, which is in the foreground and not \
                     asleep, or within its reservation."
                ));
            }
            Event::DeviceResumed { device, reason, .. } if self.is_listed_by(device) => {
                let why = match reason {
                    ResumeReason::HasWork => "it had work and its turn had come",
                    ResumeReason::PressureFell => "there was room again",
                };
                tale.tell(format!("{} was resumed: {why}.", capitalised(&world.device(device))));
            }
            _ => {}
        }
    }

    fn of_budgets(&self, event: &Event, world: &World, tale: &mut Tale) {
        match *event {
            Event::TrimNotified { device, flags, num_bytes_to_trim, .. } if self.is_of_owner(device, world) => {
                let periodic =
                    if flags.contains(TrimFlags::PERIODIC_TRIM) { "what it had not used for a period" } else { "" };
                let to_budget = flags.contains(TrimFlags::TRIM_TO_BUDGET);
                let bytes = format!("to its budget ({})", ByteSize(num_bytes_to_trim));
                let what = match (to_budget, periodic) {
                    (true, "") => bytes,
                    (true, periodic) => format!("{periodic}, and {bytes}"),
                    (false, "") => "nothing: a period begins anew".to_owned(),
                    (false, periodic) => periodic.to_owned(),
                };
                tale.tell(format!("{} was asked to trim {what}.", capitalised(&world.device(device))));
            }
            Event::BudgetChanged { process, group, budget, requested } if self.is_owner(process, world) => {
                tale.tell(format!(
                    "{} was told its budget of {} ({}, of which its lists name {}).",
                    capitalised(&process.to_string()),
                    match group {
                        MemorySegmentGroup::Local => "local memory",
                        MemorySegmentGroup::NonLocal => "system memory",
                    },
                    ByteSize(budget),
                    ByteSize(requested)
                ));
            }
            Event::ProcessPriorityChanged { process, band: of, visibility: seen } if self.is_owner(process, world) => {
                let process = capitalised(&process.to_string());
                tale.tell(format!("{process} is {} and {} from now on.", band(of), visibility(seen)));
            }
            _ => {}
        }
    }

    /// Whether a device of the process has it open.
    fn is_used_by(&self, process: ProcessId, world: &World) -> bool {
        self.counts.keys().any(|&device| world.process_of(device) == Some(process))
    }

    fn is_owner(&self, process: ProcessId, world: &World) -> bool {
        self.destroyed_at.is_none() && world.process_of(self.owner) == Some(process)
    }

    fn is_of_owner(&self, device: DeviceId, world: &World) -> bool {
        world.process_of(device).is_some_and(|process| self.is_owner(process, world))
    }
}
