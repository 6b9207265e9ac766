//! How processes live and die: suspended by a call, without power, killed at any moment.

use vidmm::{DestroyError, DestroyFlags, InvalidHandle, ProcessId};

use super::objects::{Allocation, Doomed};
use super::session::Session;
use crate::scenario::steps::{Answered, KillProcess, Make, Power, PowerState, ResumeProcess, SuspendProcess, Undone};

impl Session<'_> {
    /// The GPU has made a step: whoever's time has come dies.
    pub fn count_down(&mut self) {
        self.doomed.iter_mut().for_each(|doomed| doomed.steps_left -= 1);
        let (now, later) = std::mem::take(&mut self.doomed).into_iter().partition(|doomed| doomed.steps_left == 0);
        self.doomed = later;
        let now: Vec<Doomed> = now;
        for doomed in now {
            if let Some(&process) = self.objects.processes.get(&doomed.process) {
                self.narrator.said("kill", doomed.process.clone());
                self.kill(process);
            }
        }
    }

    /// Destroys all that a process has, as its exit would: at once what can be, the rest when its work has ended.
    pub fn kill(&mut self, process: ProcessId) {
        if self.suspended.remove(&process) {
            let _ = self.runtime.vidmm().resume_process(process);
        }
        let devices = self.objects.devices.iter().filter(|(_, device)| device.process == process);
        let devices: Vec<(String, vidmm::DeviceId)> =
            devices.map(|(name, device)| (name.clone(), device.device)).collect();
        for (name, _) in &devices {
            self.end_views(name);
        }
        for (name, device) in &devices {
            for allocation in self.objects.allocations.values_mut() {
                if allocation.device == *name {
                    // Some were destroyed by steps.
                    let _ = self.runtime.vidmm().destroy_allocation(allocation.id, DestroyFlags::empty());
                    allocation.lock = None;
                } else if allocation.openers.contains(name) {
                    // Its owner may be gone, and it is the opener's now (U-34).
                    if self.runtime.vidmm().close_allocation(*device, allocation.id).is_err() {
                        let _ = self.runtime.vidmm().destroy_allocation(allocation.id, DestroyFlags::empty());
                    }
                    allocation.openers.retain(|opener| opener != name);
                }
            }
        }
        self.dying.insert(process);
    }

    /// The CPU's views of what a device created end with its process: who inherits an allocation could not end them.
    fn end_views(&mut self, device: &str) {
        // A program that has a copy sees the allocation that keeps it there.
        let is_its = |known: &Allocation| known.device == device && !known.keeps_copy;
        let locked = self.objects.allocations.iter().filter(|(_, known)| is_its(known));
        let locked: Vec<_> = locked.filter_map(|(_, known)| Some((known.id, known.lock?.1))).collect();
        for (id, locks) in locked {
            for _ in 0..locks {
                let (vidmm, _, host) = self.runtime.borrow();
                let _ = vidmm.unlock(host, id);
            }
        }
    }

    /// Destroys what is left of processes that were killed, as far as their work has ended.
    pub fn bury(&mut self) {
        for process in self.dying.clone() {
            if self.remains(process).is_empty() {
                self.dying.remove(&process);
            }
        }
    }

    /// Destroys what is left of a process. Returns what cannot be destroyed yet, and why.
    pub fn remains(&mut self, process: ProcessId) -> Vec<String> {
        let (vidmm, kmd, host) = self.runtime.borrow();
        let mut left = Vec::new();
        let mut note = |what: &str, result: Result<(), DestroyError>| match result {
            // An object that an earlier try destroyed is no more.
            Ok(()) | Err(DestroyError::InvalidHandle(InvalidHandle { .. })) => {}
            Err(error) => left.push(format!("{what}: {error}")),
        };
        for (name, device) in self.objects.devices.iter().filter(|(_, device)| device.process == process) {
            for engine in &device.engines {
                note(name, vidmm.destroy_context(kmd, engine.context));
                note(name, vidmm.destroy_monitored_fence(engine.fence));
            }
            if let Some(queue) = device.queue {
                note(name, vidmm.destroy_paging_queue(queue));
            }
            note(name, vidmm.destroy_device(device.device));
        }
        let name = self.narrator.names.process(process);
        note(&name, vidmm.destroy_process(kmd, host, process));
        left
    }

    /// Kills all processes that are left, so that the end shows whether anything leaks. Returns what cannot be destroyed.
    pub fn close(&mut self) -> Vec<String> {
        if std::mem::take(&mut self.is_down) {
            self.runtime.vidmm().power_up();
        }
        self.doomed.clear();
        let processes: Vec<ProcessId> = self.objects.processes.values().copied().collect();
        processes.iter().for_each(|&process| self.kill(process));
        for &fence in self.objects.fences.values() {
            let _ = self.runtime.vidmm().signal_monitored_fence(fence, 1);
        }
        if !self.run_until_idle() {
            return vec!["something never ends".to_owned()];
        }
        let mut refused: Vec<String> = processes.iter().flat_map(|&process| self.remains(process)).collect();
        let (vidmm, _, host) = self.runtime.borrow();
        let forged = &self.objects.forged_fences;
        for (name, &fence) in self.objects.fences.iter().filter(|(name, _)| !forged.contains(*name)) {
            refused.extend(vidmm.destroy_monitored_fence(fence).err().map(|error| format!("{name}: {error}")));
        }
        for allocation in self.objects.allocations.values_mut() {
            if let Some((address, size)) = allocation.existing.take() {
                host.decommit_backing_store(address, size);
            }
        }
        refused
    }
}

impl Make<Session<'_>> for SuspendProcess {
    fn make(&self, session: &mut Session<'_>) -> Result<Answered, Undone> {
        let process = session.process(&self.process)?;
        session.suspended.insert(process);
        Answered::of(session.runtime.vidmm().suspend_process(process, self.allow_wake_on_submission))
    }
}

impl Make<Session<'_>> for ResumeProcess {
    fn make(&self, session: &mut Session<'_>) -> Result<Answered, Undone> {
        let process = session.process(&self.process)?;
        session.suspended.remove(&process);
        Answered::of(session.runtime.vidmm().resume_process(process))
    }
}

impl Make<Session<'_>> for Power {
    fn make(&self, session: &mut Session<'_>) -> Result<Answered, Undone> {
        match self.power {
            PowerState::Down => session.runtime.vidmm().power_down(),
            PowerState::Up => session.runtime.vidmm().power_up(),
        }
        session.is_down = self.power == PowerState::Down;
        session.has_powered_down = false;
        Ok(Answered::ok())
    }
}

/// Kills a process now, or soon.
impl Make<Session<'_>> for KillProcess {
    fn make(&self, session: &mut Session<'_>) -> Result<Answered, Undone> {
        let process = session.process(&self.process)?;
        if self.after > 0 {
            session.doomed.push(Doomed { process: self.process.clone(), steps_left: self.after });
        } else {
            session.kill(process);
        }
        Ok(Answered::ok())
    }
}
