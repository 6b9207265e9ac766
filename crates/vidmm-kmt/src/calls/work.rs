//! Submissions, and the rules for what work uses.

use vidmm::{FenceValueDesc, SubmitDesc, SubmitError};
use vidmm_runtime::KernelCommand;

use super::invalid;
use crate::call::Reply;
use crate::objects::{Context, Device, Object, PagingQueue};
use crate::rules::Rule;
use crate::session::{Answer, Session};
use crate::status::Status;

impl Session {
    /// The number of the last submission of a device that has ended in the client's eyes.
    pub(super) fn progress(&mut self, device: u32) -> Result<u64, Reply> {
        if self.settings.null_hardware {
            return Ok(u64::MAX);
        }
        let progress = self.object::<Device>(device)?.progress;
        Ok(self.runtime.vidmm().monitored_fence_value(progress).unwrap_or(u64::MAX))
    }

    pub(super) fn submit(&mut self, context: u32, commands: u64, (fence_address, fence_value): (u64, u64)) -> Answer {
        let device = self.object::<Context>(context)?.device;
        self.judge_commands(commands);
        self.judge_fences(context)?;
        self.judge_trim(device);
        let mut signals = Vec::new();
        if fence_address != 0 {
            let handle = self.fences_by_address.get(&fence_address).copied();
            let handle = handle.ok_or_else(|| invalid("the private data names a fence that is not there"))?;
            signals.push(FenceValueDesc { fence: self.monitored(handle, fence_value)?, value: fence_value });
        }
        let kernel = KernelCommand {
            kernel: self.call,
            nanoseconds: self.settings.work,
            content: Default::default(),
            inputs: Vec::new(),
            outputs: Vec::new(),
        };
        let dma_buffer = self.runtime.umd().encode_kernel(&kernel);
        self.queue(context, dma_buffer, signals)
    }

    /// Queues work behind what the context waits for.
    pub(super) fn queue(&mut self, context: u32, dma_buffer: Vec<u8>, mut signals: Vec<FenceValueDesc>) -> Answer {
        let of = self.object::<Context>(context)?;
        let (id, handle, waits) = (of.id, of.device, core::mem::take(&mut of.waits));
        let device = self.object::<Device>(handle)?;
        device.submitted += 1;
        let number = device.submitted;
        signals.push(FenceValueDesc { fence: device.progress, value: number });
        let desc = SubmitDesc { dma_buffer, waits, signals, allocations: Vec::new() };
        let submit = |session: &mut Self| session.runtime.vidmm().submit(id, desc.clone());
        let submitted = self.patiently(submit, |_, error| matches!(error, SubmitError::QueueFull { .. }));
        let _ = submitted.map_err(|error| match error {
            SubmitError::DeviceInError(_) => Reply::refused(Status::DEVICE_REMOVED, error),
            _ => invalid(error),
        })?;
        Ok(Reply::default())
    }

    /// The commands must be where an allocation is mapped that the device's list names (RES-05).
    fn judge_commands(&mut self, commands: u64) {
        let text = match self.addresses.allocation_at(commands) {
            None => format!("nothing is mapped at {commands:#x}"),
            Some(handle) => match self.handles.get(handle) {
                Ok(Object::Allocation(of)) if of.count > 0 => return,
                _ => format!("{handle:#x}, which is mapped at {commands:#x}, is not on the device's list"),
            },
        };
        self.find(Rule::CommandsNotResident, text, None);
    }

    /// The paging fences of earlier calls must be reached, or be waited for by the context (RES-12, GVA-50).
    fn judge_fences(&mut self, context: u32) -> Result<(), Reply> {
        let of = self.object::<Context>(context)?;
        let (device, awaited) = (of.device, of.awaited.clone());
        let mut owed = Vec::new();
        for handle in self.object::<Device>(device)?.queues.clone() {
            let queue = self.object::<PagingQueue>(handle)?;
            let (id, of_queue) = (queue.id, queue.owed.clone());
            let reached = self.values[self.slots_of_queues[&id]].max(awaited.get(&handle).copied().unwrap_or(0));
            owed.extend(of_queue.into_iter().map(|(function, (value, call))| (function, value, call, reached)));
        }
        for (function, value, call, reached) in owed {
            if value > reached {
                let rule = match function {
                    "MapGpuVirtualAddress" => Rule::SubmittedBeforeMapped,
                    _ => Rule::SubmittedBeforeResident,
                };
                let text = format!("work is submitted before the paging fence of {function}, {value}, was waited for");
                self.find(rule, text, Some(call));
            }
        }
        Ok(())
    }
}
