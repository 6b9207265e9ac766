//! Work: submissions, and fences that the CPU signals.

use crate::{
    contract::EngineFence,
    event::{
        Event,
        error::{DeviceErrorReason, PriorityError, SubmitError},
    },
    id::{AllocationId, ContextId, DeviceIx, InvalidHandle, MonitoredFenceId, PagingQueueId},
    manager::VidMm,
    objects::{
        Objects,
        context::Queued,
        submission::{Submission, SubmitDesc},
    },
    recovery::device_error,
    requests::Requests,
    state::State,
    work::{self, Work},
};

/// The number of submissions of a context that may wait for their dispatch (D14).
pub(super) const QUEUED_MAX: usize = 4096;

/// # Submissions, and fences that the CPU signals
impl VidMm {
    /// Queues work. It requires its device's residency list as it stands at this call (D2), and runs once all earlier
    /// requests have been granted. The cost does not depend on the length of the list.
    ///
    /// Returns its number within the device, from 1; 0 if the references of DMA buffers drive the device's residency: then it is
    /// numbered when it is handed out.
    ///
    /// # Errors
    ///
    /// If a handle names nothing, the device is in error, the context is self-scheduled, or its queue is full. If it names an allocation that is not on
    /// the device's list, the device is in error from now on (FLT-02).
    #[doc(alias = "D3DKMTSubmitCommand")]
    pub fn submit(&mut self, context: ContextId, desc: SubmitDesc) -> Result<u64, SubmitError> {
        self.queue_work(context, desc, false)
    }

    /// Queues work of a context that is, or is not, self-scheduled.
    #[inline]
    pub(crate) fn queue_work(
        &mut self,
        context: ContextId,
        desc: SubmitDesc,
        is_use: bool,
    ) -> Result<u64, SubmitError> {
        let index = self.state.objects.contexts.lookup(context)?;
        let is_self_scheduled = self.state.objects[index].is_self_scheduled();
        if is_self_scheduled != is_use {
            return Err(SubmitError::WrongContext { is_self_scheduled });
        }
        let device_index = self.state.objects[index].device;
        self.state.objects.check_device(&self.state.moment, device_index)?;
        let queued = self.state.objects[index].queue.len();
        if queued >= QUEUED_MAX {
            return Err(SubmitError::QueueFull { queued });
        }
        check_allocation_list(&mut self.state, &mut self.requests, &mut self.work, device_index, &desc.allocations)?;
        for named in desc.fences() {
            self.state.objects.monitored_fences.lookup(named.fence)?;
        }
        let number = match self.state.objects[device_index].has_reference_lists() {
            true => 0,
            false => {
                work::number_submission(&mut self.state.moment, &mut self.state.objects, context, device_index, &desc)
            }
        };
        self.schedule.queue(&mut self.state, &mut self.work, index, Submission::new(number, desc, None));
        Ok(number)
    }

    /// Sets the priority of a context's work, from -7 to 7; 0 is usual. On an engine work of higher priority goes
    /// first, also before packets that the engine has been given and has not begun.
    ///
    /// # Errors
    ///
    /// If the context does not exist, or there is no such priority.
    #[doc(alias = "D3DKMTSetContextSchedulingPriority")]
    pub fn set_context_scheduling_priority(&mut self, context: ContextId, priority: i32) -> Result<(), PriorityError> {
        let index = self.state.objects.contexts.lookup(context)?;
        if !(-7..=7).contains(&priority) {
            return Err(PriorityError::Range { priority });
        }
        let before = core::mem::replace(&mut self.state.objects[index].priority, priority);
        if self.work.queued.remove(&Queued::new(before, index)) {
            self.work.queued.insert(Queued::new(priority, index));
        }
        self.work.has_priorities |= priority != 0;
        self.state.moment.record(|| Event::ContextPriorityChanged { context, priority });
        Ok(())
    }

    /// Signals a monitored fence from the CPU (SYN-02). A value below the fence's is ignored.
    ///
    /// # Errors
    ///
    /// If the handle names nothing.
    pub fn signal_monitored_fence(&mut self, fence: MonitoredFenceId, value: u64) -> Result<(), InvalidHandle> {
        self.state.objects.monitored_fences.lookup(fence)?;
        self.state.objects.raise_fence(&mut self.state.moment, fence, value);
        self.state.moment.request_poll();
        Ok(())
    }

    /// The value that a monitored fence has reached.
    ///
    /// # Errors
    ///
    /// If the handle names nothing.
    pub fn monitored_fence_value(&self, fence: MonitoredFenceId) -> Result<u64, InvalidHandle> {
        Ok(self.state.objects[self.state.objects.monitored_fences.lookup(fence)?].value)
    }

    /// The value that a paging queue's fence has reached.
    ///
    /// # Errors
    ///
    /// If the handle names nothing.
    pub fn paging_fence_value(&self, queue: PagingQueueId) -> Result<u64, InvalidHandle> {
        Ok(self.state.objects[self.state.objects.paging_queues.lookup(queue)?].completed_value)
    }

    /// The fence of the paging engine with which the request is over that signals `value` of a paging queue: from then on a client can let
    /// the GPU wait for it, before the manager itself hears of its end. None while paging buffers of the request are still to be handed
    /// out, and once the value is reached.
    ///
    /// # Errors
    ///
    /// If the handle names nothing.
    pub fn paging_fence_end(&self, queue: PagingQueueId, value: u64) -> Result<Option<EngineFence>, InvalidHandle> {
        let index = self.state.objects.paging_queues.lookup(queue)?;
        let device = &self.state.objects[self.state.objects[index].device];
        let mut ready = device.requests.iter().take(device.ready);
        let request = ready.find(|request| request.queue == index && request.fence_value == value);
        let engine = self.state.adapter.paging_engine;
        Ok(request.map(|request| EngineFence { engine, fence_id: request.paging_fence }))
    }
}

/// Checks that the allocations that a submission names exist, and are on the device's list (RES-04).
fn check_allocation_list(
    state: &mut State,
    requests: &mut Requests,
    work: &mut Work,
    device: DeviceIx,
    allocations: &[AllocationId],
) -> Result<(), SubmitError> {
    if allocations.is_empty() {
        return Ok(());
    }
    allocations.iter().try_for_each(|&id| state.objects.lookup_allocation(id).map(drop))?;
    let named = allocations.iter().copied().map(Some);
    check_on_list(state, requests, work, device, named).map_err(|position| SubmitError::NotResident { position })
}

/// Checks that what work names is on the device's list. Otherwise the program is wrong, and its device in error (FLT-02): returns the
/// position of the first that is not.
pub(crate) fn check_on_list(
    state: &mut State,
    requests: &mut Requests,
    work: &mut Work,
    device: DeviceIx,
    named: impl Iterator<Item = Option<AllocationId>>,
) -> Result<(), usize> {
    let is_missing = |id: Option<AllocationId>| id.filter(|&id| !is_on_list(&state.objects, device, id));
    let mut missing = named.map(is_missing).enumerate();
    let Some((position, allocation)) = missing.find_map(|(position, id)| Some((position, id?))) else { return Ok(()) };
    device_error::put_device_in_error(state, requests, work, device, DeviceErrorReason::NotResident { allocation });
    Err(position)
}

/// Whether an allocation is open on a device and on its list.
fn is_on_list(objects: &Objects, device: DeviceIx, allocation: AllocationId) -> bool {
    objects.lookup_allocation(allocation).is_ok_and(|index| {
        let record = &objects[index];
        record.is_open_on(device) && record.entry(device).is_some_and(|entry| entry.count > 0)
    })
}
