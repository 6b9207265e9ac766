//! How processes live and die: suspended by a call, without power, killed at any moment.

use std::collections::BTreeSet;

use vidmm::{DestroyError, DestroyFlags, ProcessId};

use super::objects::{Device, Doomed, EngineQueue, Mapping};
use super::session::Session;
use crate::scenario::steps::{
    Answered, DestroyDevice, KillProcess, Make, Power, PowerState, RenewContext, RenewPagingQueue, ResumeProcess,
    SuspendProcess, Undone,
};

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

    /// Ends a process, as the end of its program does.
    pub fn kill(&mut self, process: ProcessId) {
        let (vidmm, kmd, host) = self.runtime.borrow();
        // A step may have killed it before.
        let _ = vidmm.destroy_process(kmd, host, process);
        self.suspended.remove(&process);
        self.check_gone();
        let of_process = |(name, device): (&String, &Device)| (device.process == process).then(|| name.clone());
        let dead = self.objects.devices.iter().filter_map(of_process).collect();
        self.bury(&dead);
    }

    /// These devices are gone, with their allocations.
    fn bury(&mut self, dead: &BTreeSet<String>) {
        let mut unlocked = Vec::new();
        for (name, allocation) in &mut self.objects.allocations {
            allocation.openers.retain(|opener| !dead.contains(opener));
            if dead.contains(&allocation.device) {
                unlocked.push(name.clone());
                if allocation.openers.is_empty() {
                    self.gone.insert(allocation.id);
                }
            }
        }
        unlocked.iter().for_each(|name| self.locks_ended(name));
        let of_dead = |mapping: &&mut Mapping| dead.contains(&mapping.device);
        self.objects.mappings.values_mut().filter(of_dead).for_each(|mapping| mapping.is_freed = true);
    }

    /// The names of what went with earlier processes mean nothing, whatever has their numbers by now (I27).
    fn check_gone(&mut self) {
        for gone in self.gone.clone() {
            let (vidmm, _, host) = self.runtime.borrow();
            if vidmm.destroy_allocation(host, gone, DestroyFlags::empty()).is_ok() {
                self.broke("I27", format!("{gone} went with its process, and can be destroyed all the same"));
            }
        }
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
        let mut refused = Vec::new();
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

/// Destroys the context of a device on an engine, unless work of it is queued or under way, and creates another.
impl Make<Session<'_>> for RenewContext {
    fn make(&self, session: &mut Session<'_>) -> Result<Answered, Undone> {
        session.device(&self.device)?;
        let ordinal = session.engines[self.engine as usize];
        let Device { device, ref engines, .. } = session.objects.devices[&self.device];
        let EngineQueue { context, fence, .. } = engines[self.engine as usize];
        let has_work = session.objects.waiting.get(&fence).is_some_and(|waiting| !waiting.is_empty());
        let (vidmm, kmd, _) = session.runtime.borrow();
        let is_idle = vidmm.is_idle();
        let destroyed = vidmm.destroy_context(kmd, context);
        if matches!(destroyed, Err(DestroyError::InUse { .. })) && is_idle && !has_work {
            session.broke("I28", format!("{context} cannot be destroyed, but all its work has ended"));
        }
        destroyed?;
        let (vidmm, kmd, _) = session.runtime.borrow();
        let renewed = vidmm.create_context(kmd, device, ordinal);
        // A device that is refused the new one, as one in error is, has the name of the old one.
        if let (Ok(context), Some(known)) = (&renewed, session.objects.devices.get_mut(&self.device)) {
            known.engines[self.engine as usize].context = *context;
        }
        Answered::of(renewed.map(|_| ()))
    }
}

/// Destroys the paging queue of a device, unless an operation of it is pending, and creates another.
impl Make<Session<'_>> for RenewPagingQueue {
    fn make(&self, session: &mut Session<'_>) -> Result<Answered, Undone> {
        session.device(&self.device)?;
        let Device { device, queue, priority, .. } = session.objects.devices[&self.device];
        let queue = queue.ok_or_else(Undone::no_paging_queue)?;
        let vidmm = session.runtime.vidmm();
        let is_idle = vidmm.is_idle();
        let destroyed = vidmm.destroy_paging_queue(queue);
        if matches!(destroyed, Err(DestroyError::InUse { .. })) && is_idle {
            session.broke("I28", format!("{queue} cannot be destroyed, but all its operations have ended"));
        }
        destroyed?;
        if session.runtime.vidmm().paging_fence_value(queue).is_ok() {
            session.broke("I27", format!("{queue} was destroyed, and has a fence all the same"));
        }
        let renewed = session.runtime.vidmm().create_paging_queue(device, priority);
        // A device that is refused the new one, as one in error is, has the name of the old one.
        if let (Ok(queue), Some(known)) = (&renewed, session.objects.devices.get_mut(&self.device)) {
            known.queue = Some(*queue);
        }
        Answered::of(renewed.map(|_| ()))
    }
}

/// Destroys a device, with all that it has. Others of its process go on.
impl Make<Session<'_>> for DestroyDevice {
    fn make(&self, session: &mut Session<'_>) -> Result<Answered, Undone> {
        session.device(&self.device)?;
        let device = session.objects.devices[&self.device].device;
        let (vidmm, kmd, host) = session.runtime.borrow();
        vidmm.destroy_device(kmd, host, device)?;
        session.check_gone();
        session.bury(&BTreeSet::from([self.device.clone()]));
        Ok(Answered::ok())
    }
}
