//! Monitored fences, and waits.

use vidmm::{CreateMonitoredFenceDesc, FenceValueDesc, MonitoredFenceId};

use super::{FENCE_ADDRESSES, invalid};
use crate::call::{FenceValue, Reply};
use crate::objects::{Context, Device, Fence, FenceOf, Object, PagingQueue, Semaphore};
use crate::session::{Answer, PATIENCE, QUANTUM, Session};
use crate::status::Status;

impl Session {
    pub(super) fn create_fence(&mut self, device: u32, initial_value: u64, is_shared: bool) -> Answer {
        let (created, _) = self.insert_fence(device, initial_value, is_shared, FenceOf::Monitored)?;
        self.fences_by_address.insert(created.address, created.handle());
        Ok(created)
    }

    pub(super) fn insert_fence(
        &mut self,
        device: u32,
        initial_value: u64,
        is_shared: bool,
        of: impl Fn(MonitoredFenceId) -> FenceOf,
    ) -> Result<(Reply, MonitoredFenceId), Reply> {
        let owner = self.object::<Device>(device)?.id;
        // A shared fence lives on without the device.
        let desc =
            CreateMonitoredFenceDesc { device: (!is_shared).then_some(owner), initial_fence_value: initial_value };
        let id = self.runtime.vidmm().create_monitored_fence(desc).map_err(invalid)?;
        let slot = self.new_slot(initial_value);
        self.slots_of_fences.insert(id, slot);
        let address = FENCE_ADDRESSES + 8 * slot as u64;
        let fence = Fence { device, slot, of: of(id), address, is_shared };
        let handle = self.insert(Object::Fence(fence));
        Ok((Reply { address, values: vec![slot as u64], ..Reply::created([handle]) }, id))
    }

    pub(super) fn destroy_fence(&mut self, fence: u32) -> Answer {
        if let Ok(&Object::Semaphore(Semaphore { id, .. })) = self.handles.get(fence) {
            self.forget(fence);
            self.retry(|session| session.runtime.vidmm().destroy_monitored_fence(id))?;
            return Ok(Reply::default());
        }
        let &mut Fence { of, is_shared, .. } = self.object(fence)?;
        let FenceOf::Monitored(id) = of else {
            return Err(invalid("a queue's fence ends with the queue"));
        };
        self.forget(fence);
        if !(is_shared && self.is_open(id)) {
            self.retry(|session| session.runtime.vidmm().destroy_monitored_fence(id))?;
        }
        Ok(Reply::default())
    }

    /// The manager's fence of a handle, which is to reach a value.
    pub(super) fn monitored(&mut self, handle: u32, value: u64) -> Result<MonitoredFenceId, Reply> {
        let &mut Fence { of, slot, .. } = self.object(handle)?;
        match of {
            FenceOf::Monitored(id) => {
                self.promised[slot] = self.promised[slot].max(value);
                Ok(id)
            }
            _ => Err(invalid("a queue's fence is signalled by the queue alone")),
        }
    }

    /// The fence and the value that the end of commands signals, by the GPU virtual address of the fence's value; none at 0.
    pub(super) fn fence_at(&mut self, address: u64, value: u64) -> Result<Option<FenceValueDesc>, Reply> {
        if address == 0 {
            return Ok(None);
        }
        let handle = self.fences_by_address.get(&address).copied();
        let handle = handle.ok_or_else(|| invalid("the private data names a fence that is not there"))?;
        Ok(Some(FenceValueDesc { fence: self.monitored(handle, value)?, value }))
    }

    /// The end of the context's work so far signals fences.
    pub(super) fn signal_from_gpu(&mut self, context: u32, fences: &[FenceValue]) -> Answer {
        let signal = |session: &mut Self, of: &FenceValue| {
            let fence = session.monitored(of.fence, of.value)?;
            Ok(FenceValueDesc { fence, value: of.value })
        };
        let signals = fences.iter().map(|of| signal(self, of)).collect::<Result<Vec<_>, Reply>>()?;
        self.queue(context, Vec::new(), signals)
    }

    pub(super) fn wait_from_gpu(&mut self, context: u32, fences: &[FenceValue]) -> Answer {
        // All hardware queues of a context wait for the fences of the context.
        let queues = self.hw_queues_of(context).into_iter().map(|(_, queue)| queue.order);
        for context in Vec::from_iter(std::iter::once(context).chain(queues)) {
            for &FenceValue { fence, value } in fences {
                let (owner, id) = match self.object::<Fence>(fence)?.of {
                    FenceOf::Monitored(id) | FenceOf::HwQueue(id) => (fence, id),
                    FenceOf::PagingQueue(queue) => (queue, self.object::<PagingQueue>(queue)?.shown),
                };
                let context = self.object::<Context>(context)?;
                let awaited = context.awaited.entry(owner).or_default();
                *awaited = (*awaited).max(value);
                context.waits.push(FenceValueDesc { fence: id, value });
            }
        }
        Ok(Reply::default())
    }

    pub(super) fn wait_from_cpu(&mut self, fences: &[FenceValue], any: bool) -> Answer {
        let mut promises = Vec::new();
        for &FenceValue { fence, value } in fences {
            let slot = self.object::<Fence>(fence)?.slot;
            promises.push(self.promised[slot] >= value);
        }
        let promised = if any { promises.contains(&true) } else { !promises.contains(&false) };
        let until = self.now() + if promised { PATIENCE } else { QUANTUM };
        while !self.has_reached(fences, any) && self.now() < until {
            self.pass_time();
        }
        if self.has_reached(fences, any) {
            return Ok(Reply::default());
        }
        Err(Reply::refused(Status::IO_TIMEOUT, "the wait has not ended"))
    }
}
