//! The objects that calls name: one record each.

pub(crate) mod allocation;
pub(crate) mod context;
pub(crate) mod device;
pub(crate) mod list;
pub(crate) mod place;
pub(crate) mod process;
pub(crate) mod queue;
pub(crate) mod ranges;
pub(crate) mod request;
pub(crate) mod spans;
pub(crate) mod split;
pub(crate) mod submission;
pub(crate) mod traffic;
pub(crate) mod turn;
pub(crate) mod uses;

use alloc::vec::Vec;
use core::ops::{Index, IndexMut};

use crate::{
    budget::account::{Account, Accounts, PerAccount},
    contract::{EngineFence, KmdContextHandle},
    event::{
        Event, RequestName,
        error::{DeviceErrorReason, DeviceInError},
        offer::Offer,
    },
    id::{
        AllocationId, AllocationIx, ContextIx, DeviceId, DeviceIx, InvalidHandle, MonitoredFenceId, MonitoredFenceIx,
        PagingQueueIx, ProcessIx, Slots, SubmissionNo, kind,
    },
    moment::{Moment, Output},
    objects::{
        allocation::{Allocation, AllocationState, Allocations, Rehoming},
        context::Context,
        device::Device,
        process::{Process, Processes},
        queue::{MonitoredFence, PagingQueue},
        submission::FenceValueDesc,
        traffic::Traffic,
    },
};

/// The records of all objects.
pub(crate) struct Objects {
    pub processes: Processes,
    pub devices: Slots<kind::Device, Device>,
    pub contexts: Slots<kind::Context, Context>,
    pub paging_queues: Slots<kind::PagingQueue, PagingQueue>,
    pub monitored_fences: Slots<kind::MonitoredFence, MonitoredFence>,
    pub allocations: Allocations,
    /// Submissions of all devices so far.
    pub submissions: u64,
    /// The bytes that have gone through each memory, for all processes.
    pub traffic: PerAccount<Traffic>,
    /// Allocations of which no trace is left; the driver and the host are still to be told.
    pub dead: Vec<AllocationIx>,
    /// Allocations and devices that have closed them and no longer use them; the driver is still to be told.
    pub closed: Vec<(AllocationIx, DeviceIx)>,
    /// Objects that were destroyed and are still in use.
    pub ending: Ending,
}

/// Objects that their owners have destroyed and that are still in use: no call names them any more.
#[derive(Default)]
pub(crate) struct Ending {
    pub processes: Vec<ProcessIx>,
    pub devices: Vec<DeviceIx>,
    pub monitored_fences: Vec<MonitoredFenceIx>,
}

impl Ending {
    /// Whether nothing that was destroyed is still in use.
    pub fn is_over(&self) -> bool {
        self.processes.is_empty() && self.devices.is_empty() && self.monitored_fences.is_empty()
    }
}

impl Objects {
    /// The records of an allocation and of a device.
    #[inline(always)]
    pub fn records(&mut self, index: AllocationIx, device: DeviceIx) -> (&mut Allocation, &mut Device) {
        (&mut self.allocations[index], &mut self.devices[device])
    }

    /// Counts bytes of an allocation that go through a memory, for its process and for all.
    pub fn count(&mut self, index: AllocationIx, account: Account, count: impl Fn(&mut Traffic)) {
        let process = self.allocations[index].process;
        count(&mut self.processes[process].traffic[account]);
        count(&mut self.traffic[account]);
    }

    /// Numbers the next submission of a device. Whatever its list names is used by it.
    pub fn number_submission(&mut self, device: DeviceIx) -> SubmissionNo {
        self.submissions += 1;
        let record = &mut self.devices[device];
        record.last_use = self.submissions;
        record.submitted += 1;
        record.submitted
    }

    /// No trace of an allocation is left.
    pub fn note_dead(&mut self, index: AllocationIx) {
        self.dead.push(index);
    }

    /// A device has closed an allocation and does not use it any more.
    pub fn note_closed(&mut self, index: AllocationIx, device: DeviceIx) {
        self.closed.push((index, device));
    }

    /// Takes the allocations of which no trace is left.
    pub fn take_dead(&mut self) -> Vec<AllocationIx> {
        core::mem::take(&mut self.dead)
    }

    /// Takes the allocations and the devices that have closed them.
    pub fn take_closed(&mut self) -> Vec<(AllocationIx, DeviceIx)> {
        core::mem::take(&mut self.closed)
    }

    /// The owner of an allocation does without it until it is reclaimed (RES-61).
    pub fn begin_offer(&mut self, index: AllocationIx, offer: Offer) {
        let process = self[index].process;
        self[process].offered.insert(index);
        self[index].begin_offer(offer);
    }

    /// Ends the offer of an allocation. Returns the offer, and whether the content was lost meanwhile; none if it is not offered.
    pub fn end_offer(&mut self, index: AllocationIx) -> Option<(Offer, bool)> {
        let ended = self[index].end_offer()?;
        let process = self[index].process;
        self[process].offered.remove(&index);
        Some(ended)
    }

    /// An allocation moves to another home with a request of a device.
    pub fn begin_rehoming(&mut self, index: AllocationIx, rehoming: Rehoming) {
        self[index].set_rehoming(Some(rehoming));
        self[rehoming.device].rehomed.insert(index);
    }

    /// No request moves an allocation to another home any more.
    pub fn end_rehoming(&mut self, index: AllocationIx) {
        if let Some(rehoming) = self[index].set_rehoming(None) {
            self[rehoming.device].rehomed.remove(&index);
        }
    }

    pub fn new(accounts: Accounts) -> Self {
        Self {
            processes: Slots::new(),
            devices: Slots::new(),
            contexts: Slots::new(),
            paging_queues: Slots::new(),
            monitored_fences: Slots::new(),
            allocations: Slots::new(),
            submissions: 0,
            traffic: accounts.none(),
            dead: Vec::new(),
            closed: Vec::new(),
            ending: Ending::default(),
        }
    }
}

macro_rules! index {
    ($($table:ident: $ix:ty => $record:ty;)*) => {
        $(impl Index<$ix> for Objects {
            type Output = $record;
            #[inline]
            fn index(&self, index: $ix) -> &$record {
                &self.$table[index]
            }
        }

        impl IndexMut<$ix> for Objects {
            #[inline]
            fn index_mut(&mut self, index: $ix) -> &mut $record {
                &mut self.$table[index]
            }
        })*
    };
}

index! {
    processes: ProcessIx => Process;
    devices: DeviceIx => Device;
    contexts: ContextIx => Context;
    paging_queues: PagingQueueIx => PagingQueue;
    monitored_fences: MonitoredFenceIx => MonitoredFence;
    allocations: AllocationIx => Allocation;
}

impl Objects {
    /// Raises a fence that exists to `value`, and reports it.
    pub(crate) fn raise_fence(&mut self, moment: &mut Moment, fence: MonitoredFenceId, value: u64) {
        let record = &mut self[fence.ix()];
        if value <= record.value {
            return;
        }
        record.value = value;
        moment.record(|| Event::MonitoredFenceSignaled { fence, value });
        moment.hand_out(Output::MonitoredFenceSignaled { fence, value });
    }

    /// Raises the fences that a device's dropped and aborted work would have signalled to the maximum, once nothing of the device is in
    /// flight. Work that still runs may signal them too, and others wait for them so as not to run beside it.
    pub(crate) fn signal_dropped(&mut self, moment: &mut Moment, device: DeviceIx) {
        if self[device].dropped_signals.is_empty() || self[device].is_in_flight() {
            return;
        }
        for fence in core::mem::take(&mut self[device].dropped_signals) {
            self[fence.ix()].references -= 1;
            self.raise_fence(moment, fence, u64::MAX);
        }
    }

    /// The fences that a submission waits for on the GPU because of the monitored fences that it names; none for one
    /// whose signal is not dispatched.
    pub(crate) fn fence_waits(&self, waits: &[FenceValueDesc]) -> impl Iterator<Item = Option<EngineFence>> {
        waits.iter().filter_map(|&FenceValueDesc { fence, value }| {
            let fence = &self[fence.ix()];
            let signal = || fence.dispatched.iter().find(|&&(dispatched, _)| dispatched >= value);
            (fence.value < value).then(|| signal().map(|&(_, signal)| signal))
        })
    }

    /// The index of an allocation that the caller has not destroyed.
    pub(crate) fn lookup_allocation(&self, id: AllocationId) -> Result<AllocationIx, InvalidHandle> {
        self.find_allocation(id).map(|(index, _)| index)
    }

    /// The index and the record of an allocation that the caller has not destroyed.
    #[inline]
    pub(crate) fn find_allocation(&self, id: AllocationId) -> Result<(AllocationIx, &Allocation), InvalidHandle> {
        let (index, allocation) = self.allocations.find(id)?;
        if allocation.is(AllocationState::DESTROYED) {
            return Err(InvalidHandle { kind: "allocation", index: index.get() });
        }
        Ok((index, allocation))
    }

    /// Refuses calls on a device that is in error.
    pub(crate) fn check_device(&self, moment: &Moment, index: DeviceIx) -> Result<(), DeviceInError> {
        let adapter = moment.has_failed().then_some(DeviceErrorReason::AdapterInError);
        match adapter.or(self[index].error) {
            Some(reason) => Err(DeviceInError { device: self.devices.id(index), reason }),
            None => Ok(()),
        }
    }

    /// The manager's allocation by its number in requests and plans.
    pub(crate) fn allocation_id(&self, index: AllocationIx) -> AllocationId {
        self.allocations.id(index)
    }

    /// The driver's handle of a context whose work the driver sees.
    ///
    /// # Panics
    ///
    /// If the context is self-scheduled.
    pub(crate) fn kmd_context(&self, index: ContextIx) -> KmdContextHandle {
        self[index].handle.expect("the driver sees the work of a scheduled context")
    }

    pub(crate) fn device_id(&self, index: DeviceIx) -> DeviceId {
        self.devices.id(index)
    }

    /// The request of a device that is granted next, as its answer named it.
    pub(crate) fn next_request(&self, index: DeviceIx) -> Option<RequestName> {
        let device = &self[index];
        let request = device.requests.get(device.granted)?;
        let queue = self.paging_queues.id(request.queue);
        Some(RequestName { queue, paging_fence_value: request.fence_value })
    }
}
