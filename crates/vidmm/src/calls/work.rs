//! Work: submissions, and fences that the CPU signals.

use alloc::vec::Vec;

use crate::{
    error::SubmitError,
    event::Event,
    id::{ContextId, InvalidHandle, MonitoredFenceId, PagingQueueId},
    state::{FenceValue, Output, Submission, VidMm},
};

/// How many submissions of a context may wait for their dispatch (D14).
const QUEUED_MAX: usize = 4096;

/// Work for an engine.
#[derive(Clone, Debug, Default)]
pub struct SubmitDesc {
    /// The commands, encoded by the user-mode driver.
    pub dma_buffer: Vec<u8>,
    /// Fences that must have reached their values before it runs.
    pub waits: Vec<FenceValueDesc>,
    /// Fences that its end signals.
    pub signals: Vec<FenceValueDesc>,
}

/// A monitored fence and a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FenceValueDesc {
    /// The fence.
    pub fence: MonitoredFenceId,
    /// The value.
    pub value: u64,
}

impl VidMm {
    /// Queues work. It requires its device's residency list as it stands at this call (D2), and runs once all that was asked
    /// for before has been granted; the cost does not depend on the length of the list.
    ///
    /// Returns its number within the device, from 1.
    ///
    /// # Errors
    ///
    /// If a handle names nothing, the device is in error, or the context's queue is full.
    #[doc(alias = "D3DKMTSubmitCommand")]
    pub fn submit(&mut self, context: ContextId, desc: SubmitDesc) -> Result<u64, SubmitError> {
        let index = self.contexts.lookup(context)?;
        let device_index = self.contexts[index].device as usize;
        self.check_device(device_index)?;
        let queued = self.contexts[index].queue.len();
        if queued >= QUEUED_MAX {
            return Err(SubmitError::QueueFull { queued });
        }
        let waits = self.fence_values(&desc.waits)?;
        let signals = self.fence_values(&desc.signals)?;
        for named in waits.iter().chain(&signals) {
            self.monitored_fences[named.fence as usize].references += 1;
        }
        self.forget_not_written(device_index as u32);
        let device = &mut self.devices[device_index];
        device.submitted += 1;
        let number = device.submitted;
        device.undispatched.insert(number);
        device.unretired.insert(number);
        self.contexts[index].queue.push_back(Submission { number, dma_buffer: desc.dma_buffer, waits, signals });
        self.queued.insert(index as u32);
        self.stirred = true;
        self.note_work(device_index);
        let device = self.devices.id(device_index);
        let values = |descs: &[FenceValueDesc]| descs.iter().map(|desc| (desc.fence, desc.value)).collect();
        self.events.record(|| Event::Submitted {
            device,
            context,
            submission: number,
            waits: values(&desc.waits),
            signals: values(&desc.signals),
        });
        Ok(number)
    }

    /// A device has submitted work: its period begins, and it ends a suspension that allows it (P10).
    fn note_work(&mut self, device: usize) {
        self.devices[device].turn.last_busy = self.now;
        self.begin_period(device as u32);
        let process = self.devices[device].process as usize;
        if self.processes[process].standing.halted == Some(true) {
            self.end_suspension(process, true);
        }
    }

    /// The CPU signals a monitored fence (SYN-02). A value below the fence's is ignored.
    ///
    /// # Errors
    ///
    /// If the handle names nothing.
    pub fn signal_monitored_fence(&mut self, fence: MonitoredFenceId, value: u64) -> Result<(), InvalidHandle> {
        let index = self.monitored_fences.lookup(fence)?;
        self.raise_fence(index as u32, value);
        self.stirred = true;
        Ok(())
    }

    /// The value that a monitored fence has reached.
    ///
    /// # Errors
    ///
    /// If the handle names nothing.
    pub fn monitored_fence_value(&self, fence: MonitoredFenceId) -> Result<u64, InvalidHandle> {
        Ok(self.monitored_fences[self.monitored_fences.lookup(fence)?].value)
    }

    /// The value that a paging queue's fence has reached.
    ///
    /// # Errors
    ///
    /// If the handle names nothing.
    pub fn paging_fence_value(&self, queue: PagingQueueId) -> Result<u64, InvalidHandle> {
        Ok(self.paging_queues[self.paging_queues.lookup(queue)?].completed_value)
    }

    fn fence_values(&self, descs: &[FenceValueDesc]) -> Result<Vec<FenceValue>, InvalidHandle> {
        let lookup = |desc: &FenceValueDesc| {
            let fence = self.monitored_fences.lookup(desc.fence)? as u32;
            Ok(FenceValue { fence, value: desc.value })
        };
        descs.iter().map(lookup).collect()
    }

    /// Raises a fence to `value`, and says so.
    pub(crate) fn raise_fence(&mut self, index: u32, value: u64) {
        let books = &mut self.monitored_fences[index as usize];
        if value <= books.value {
            return;
        }
        books.value = value;
        let fence = self.monitored_fences.id(index as usize);
        self.events.record(|| Event::MonitoredFenceSignaled { fence, value });
        self.outputs.push_back(Output::MonitoredFenceSignaled { fence, value });
    }
}
