//! Work: submissions, and fences that the CPU signals.

use crate::{
    error::{DeviceErrorReason, PriorityError, SubmitError},
    event::Event,
    id::{AllocationId, ContextId, ContextIx, DeviceIx, InvalidHandle, MonitoredFenceId, PagingQueueId},
    state::{Output, Queued, VidMm},
    submission::{FenceValueDesc, Submission, SubmitDesc},
};

/// How many submissions of a context may wait for their dispatch (D14).
pub(super) const QUEUED_MAX: usize = 4096;

impl VidMm {
    /// Queues work. It requires its device's residency list as it stands at this call (D2), and runs once all that was asked
    /// for before has been granted; the cost does not depend on the length of the list.
    ///
    /// Returns its number within the device, from 1.
    ///
    /// # Errors
    ///
    /// If a handle names nothing, the device is in error, or the context's queue is full. If it names an allocation that is not on
    /// the device's list, the device is in error from now on (FLT-02).
    #[doc(alias = "D3DKMTSubmitCommand")]
    pub fn submit(&mut self, context: ContextId, desc: SubmitDesc) -> Result<u64, SubmitError> {
        let index = self.contexts.lookup(context)?;
        let device_index = self.contexts[index].device;
        self.check_device(device_index)?;
        let queued = self.contexts[index].queue.len();
        if queued >= QUEUED_MAX {
            return Err(SubmitError::QueueFull { queued });
        }
        self.check_allocation_list(device_index, &desc.allocations)?;
        for named in desc.fences() {
            self.monitored_fences.lookup(named.fence)?;
        }
        let number = self.number_submission(context, device_index, &desc);
        self.queue(index, Submission { number, desc, references: None });
        Ok(number)
    }

    /// The number of a submission that is made now: it requires the device's list as it stands.
    #[inline(always)]
    pub(super) fn number_submission(&mut self, context: ContextId, device_index: DeviceIx, desc: &SubmitDesc) -> u64 {
        self.forget_not_written(device_index);
        let device = &mut self.devices[device_index];
        device.submitted += 1;
        let number = device.submitted;
        let device = self.devices.id(device_index);
        let values = |descs: &[FenceValueDesc]| descs.iter().map(|desc| (desc.fence, desc.value)).collect();
        self.events.record(|| Event::Submitted {
            device,
            context,
            submission: number,
            waits: values(&desc.waits),
            signals: values(&desc.signals),
        });
        number
    }

    /// Queues work of a context.
    #[inline(always)]
    pub(super) fn queue(&mut self, context: ContextIx, submission: Submission) {
        for named in submission.desc.fences() {
            self.monitored_fences[named.fence.ix()].references += 1;
        }
        self.note_work(self.contexts[context].device);
        self.queued.insert(Queued::new(self.contexts[context].priority, context));
        self.contexts[context].queue.push_back(submission);
        self.stirred = true;
    }

    /// Changes how urgent a context's work is, from -7 to 7; 0 is usual. On an engine work of higher priority goes first, also
    /// before what the engine has been given and has not begun.
    ///
    /// # Errors
    ///
    /// If the context does not exist, or there is no such priority.
    #[doc(alias = "D3DKMTSetContextSchedulingPriority")]
    pub fn set_context_scheduling_priority(&mut self, context: ContextId, priority: i32) -> Result<(), PriorityError> {
        let index = self.contexts.lookup(context)?;
        if !(-7..=7).contains(&priority) {
            return Err(PriorityError::Range { priority });
        }
        let before = core::mem::replace(&mut self.contexts[index].priority, priority);
        if self.queued.remove(&Queued::new(before, index)) {
            self.queued.insert(Queued::new(priority, index));
        }
        self.has_priorities |= priority != 0;
        self.stirred = true;
        self.events.record(|| Event::ContextPriorityChanged { context, priority });
        Ok(())
    }

    /// A device has submitted work: its period begins, and it ends a suspension that allows it (P10).
    fn note_work(&mut self, device: DeviceIx) {
        self.devices[device].turn.last_busy = self.now;
        self.begin_period(device);
        let process = self.devices[device].process;
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
        self.monitored_fences.lookup(fence)?;
        self.raise_fence(fence, value);
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

    /// What is named must be on the device's list (RES-04): else the program is wrong, and its device in error (FLT-02).
    fn check_allocation_list(&mut self, device: DeviceIx, allocations: &[AllocationId]) -> Result<(), SubmitError> {
        if allocations.is_empty() {
            return Ok(());
        }
        allocations.iter().try_for_each(|&id| self.lookup_allocation(id).map(drop))?;
        match allocations.iter().position(|&id| !self.is_on_list(device, id)) {
            None => Ok(()),
            Some(position) => {
                let allocation = allocations[position];
                self.put_device_in_error(device, DeviceErrorReason::NotResident { allocation });
                Err(SubmitError::NotResident { position })
            }
        }
    }

    /// Whether an allocation is open on a device and on its list.
    pub(super) fn is_on_list(&self, device: DeviceIx, allocation: AllocationId) -> bool {
        self.lookup_allocation(allocation).is_ok_and(|index| {
            let books = &self.allocations[index];
            books.is_open_on(device) && books.entry(device).is_some_and(|entry| entry.count > 0)
        })
    }

    /// Raises a fence that exists to `value`, and says so.
    pub(crate) fn raise_fence(&mut self, fence: MonitoredFenceId, value: u64) {
        let books = &mut self.monitored_fences[fence.ix()];
        if value <= books.value {
            return;
        }
        books.value = value;
        self.events.record(|| Event::MonitoredFenceSignaled { fence, value });
        self.outputs.push_back(Output::MonitoredFenceSignaled { fence, value });
    }
}
