//! Submissions, and the rules for what work uses.

use std::collections::BTreeSet;

use vidmm::{FenceValueDesc, SubmitDesc};
use vidmm_runtime::KernelCommand;

use super::invalid_unless_lost;
use crate::call::Reply;
use crate::faults::FaultKind;
use crate::objects::{Allocation, Context, Device, Issued, Issuer, Object};
use crate::rules::Rule;
use crate::session::{Answer, PATIENCE, Session};

/// The most submissions of a device that have not ended.
const IN_FLIGHT_MAX: u64 = 2048;

/// Work without an end after so many nanoseconds is held up.
const HELD_UP: u64 = 1_000_000_000;

impl Session {
    /// The number of the last submission of a device that has ended.
    pub(super) fn progress(&mut self, device: u32) -> Result<u64, Reply> {
        let progress = self.object::<Device>(device)?.progress;
        Ok(self.runtime.vidmm().monitored_fence_value(progress).unwrap_or(u64::MAX))
    }

    /// Lets time pass until so many submissions of a device have ended, or until `patience` is over.
    fn await_progress(&mut self, device: u32, number: u64, patience: u64) -> Result<(), Reply> {
        let until = self.now() + patience;
        while self.progress(device)? < number && self.now() < until {
            self.pass_time();
        }
        Ok(())
    }

    pub(super) fn submit(&mut self, context: u32, commands: u64, signal: Option<FenceValueDesc>) -> Answer {
        let device = self.object::<Context>(context)?.device;
        self.judge_commands(device, commands);
        self.judge_updates(context, commands);
        self.judge_fences(context, commands);
        self.judge_trim(device);
        self.judge_kept(device, commands);
        if !self.notifications.is_empty() && self.strikes(FaultKind::Trim) {
            self.trim_by_fault();
        }
        if self.strikes(FaultKind::Suspend) {
            self.suspend();
        }
        let kernel = KernelCommand {
            kernel: self.call,
            nanoseconds: self.settings.work,
            content: Default::default(),
            inputs: Vec::new(),
            outputs: Vec::new(),
        };
        let dma_buffer = self.runtime.umd().encode_kernel(&kernel);
        let reply = self.queue(context, dma_buffer, signal.into_iter().collect())?;
        if self.settings.null_hardware {
            // The driver takes the work for done. The work is done, unless a fence or paging holds the work up.
            let number = self.object::<Device>(device)?.submitted;
            // The GPU begins the work a little later, so the work ends in the step behind.
            self.pass_time_until(self.now() + self.settings.work + 1);
            self.await_progress(device, number, HELD_UP)?;
        }
        Ok(reply)
    }

    /// Queues work behind what the context waits for.
    pub(super) fn queue(&mut self, context: u32, dma_buffer: Vec<u8>, mut signals: Vec<FenceValueDesc>) -> Answer {
        let of = self.object::<Context>(context)?;
        let (id, handle, mut waits) = (of.id, of.device, core::mem::take(&mut of.waits));
        // A fence that is gone keeps nobody waiting.
        waits.retain(|wait| self.runtime.vidmm().monitored_fence_value(wait.fence).is_ok());
        let device = self.object::<Device>(handle)?;
        let number = device.submitted + 1;
        signals.push(FenceValueDesc { fence: device.progress, value: number });
        // So the manager's queue is never full.
        self.await_progress(handle, number.saturating_sub(IN_FLIGHT_MAX), PATIENCE)?;
        let desc = SubmitDesc { dma_buffer, waits, signals, allocations: Vec::new() };
        let _ = self.runtime.vidmm().submit(id, desc).map_err(invalid_unless_lost)?;
        let call = self.call;
        let device = self.object::<Device>(handle)?;
        (device.submitted, device.submitted_by) = (number, call);
        Ok(Reply::default())
    }

    /// The commands must be where an allocation is mapped that the device's list names (RES-05).
    fn judge_commands(&mut self, device: u32, commands: u64) {
        let Some(handle) = self.addresses.allocation_at(commands) else {
            let was = self.addresses.was_at(commands);
            let of = was.map_or(String::new(), |(handle, _)| format!(" any more; {handle:#x} was"));
            let text = format!("nothing is mapped at {commands:#x}{of}");
            return self.find(Rule::CommandsNotResident, text, was.map(|(_, call)| call));
        };
        let (text, since) = match self.named_by_list(device, handle) {
            Some(Allocation { offered: None, .. }) => return,
            Some(Allocation { offered, .. }) => ("is offered", *offered),
            None => match self.handles.get(handle) {
                Ok(Object::Allocation(Allocation { evicted_by: Some(call), .. })) => ("was evicted", Some(*call)),
                _ => ("was never made resident", self.handles.added_by(handle)),
            },
        };
        let text = format!("{handle:#x}, which is mapped at {commands:#x}, {text}");
        self.find(Rule::CommandsNotResident, text, since);
    }

    /// The allocation of a handle, if the device's list names the allocation, by that handle or another.
    fn named_by_list(&self, device: u32, handle: u32) -> Option<&Allocation> {
        let Ok(Object::Allocation(mapped)) = self.handles.get(handle) else { return None };
        let is_listed = |of: &&Allocation| of.device == device && of.id == mapped.id && of.count > 0;
        if !mapped.is_opened {
            return Some(mapped).filter(is_listed);
        }
        self.listed(device).map(|(_, of)| of).find(is_listed)
    }

    /// Before work uses allocations, the paging fences of MakeResident and of the mappings must be reached, or the context must wait for the
    /// fences (RES-11, GVA-50). Only the commands are known to be used. Work with other allocations on the list may not use the rest.
    fn judge_fences(&mut self, context: u32, commands: u64) {
        let owed = self.owed(context);
        let Ok(Object::Context(of)) = self.handles.get(context) else { return };
        let device = of.device;
        self.clear_waited_for(device, &owed);
        if owed.is_empty() {
            return;
        }
        let memory = |handle: u32| self.memory_of(handle).map(|of| of.0);
        let commands = self.addresses.allocation_at(commands).and_then(memory);
        let unfinished = BTreeSet::from_iter(owed.iter().flat_map(|of| &of.of.allocations).copied());
        let has_other = self.listed(device).any(|(of, _)| memory(of) != commands && !unfinished.contains(&of));
        for Issued { value, of: Issuer { function, call, allocations }, .. } in owed {
            let rule = match function {
                "MapGpuVirtualAddress" => Rule::SubmittedBeforeMapped,
                _ => Rule::SubmittedBeforeResident,
            };
            let first = allocations[0];
            let text =
                format!("work is submitted before the paging fence of {function}({first:#x}), {value}, was waited for");
            let has_commands = allocations.iter().any(|&of| self.memory_of(of).map(|of| of.0) == commands);
            if has_commands || !has_other {
                self.find(rule, text, Some(call));
            } else if !self.suspicions.iter().any(|of| of.finding.rule == rule && of.finding.since == Some(call)) {
                self.suspect(rule, text, call, allocations);
            }
        }
    }

    /// The values of the device's paging fences ahead of the context's next work, of calls with allocations.
    fn owed(&self, context: u32) -> Vec<Issued> {
        let Ok(Object::Context(of)) = self.handles.get(context) else { return Vec::new() };
        let Ok(Object::Device(device)) = self.handles.get(of.device) else { return Vec::new() };
        let mut owed = Vec::new();
        for handle in &device.queues {
            let Ok(Object::PagingQueue(queue)) = self.handles.get(*handle) else { continue };
            let awaited = of.awaited.get(handle).copied().unwrap_or(0);
            let is_owed = |issued: &&Issued| issued.value > awaited && !issued.of.allocations.is_empty();
            owed.extend(queue.issued.iter().filter(is_owed).cloned());
        }
        owed
    }
}
