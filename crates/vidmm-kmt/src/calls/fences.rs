//! Monitored fences, and waits.

use vidmm::{CreateMonitoredFenceDesc, FenceValueDesc};

use super::{FENCE_ADDRESSES, invalid};
use crate::call::{FenceValue, Reply};
use crate::objects::{Context, Device, Fence, FenceOf, Object, PagingQueue, Semaphore};
use crate::session::{Answer, PATIENCE, QUANTUM, Session};
use crate::status::Status;

impl Session {
    pub(super) fn create_fence(&mut self, device: u32, initial_value: u64, is_shared: bool) -> Answer {
        let of = self.object::<Device>(device)?.id;
        // A shared fence lives on without the device.
        let desc = CreateMonitoredFenceDesc { device: (!is_shared).then_some(of), initial_fence_value: initial_value };
        let id = self.runtime.vidmm().create_monitored_fence(desc).map_err(invalid)?;
        let slot = self.new_slot(initial_value);
        self.slots_of_fences.insert(id, slot);
        let address = FENCE_ADDRESSES + 8 * slot as u64;
        let fence = Fence { device, slot, of: FenceOf::Monitored(id), address, is_shared };
        let handle = self.insert(Object::Fence(fence))?;
        self.fences_by_address.insert(address, handle);
        Ok(Reply { address, values: vec![slot as u64], ..Reply::created([handle]) })
    }

    pub(super) fn destroy_fence(&mut self, fence: u32) -> Answer {
        if let Ok(&Object::Semaphore(Semaphore { id, .. })) = self.handles.get(fence) {
            self.forget(fence);
            self.retry(|session| session.runtime.vidmm().destroy_monitored_fence(id))?;
            return Ok(Reply::default());
        }
        let &mut Fence { of, is_shared, .. } = self.object(fence)?;
        let FenceOf::Monitored(id) = of else {
            return Err(invalid("a paging queue's fence ends with the queue"));
        };
        self.forget(fence);
        if !(is_shared && self.is_open(id)) {
            self.retry(|session| session.runtime.vidmm().destroy_monitored_fence(id))?;
        }
        Ok(Reply::default())
    }

    /// The manager's fence of a handle, which is to reach a value.
    pub(super) fn monitored(&mut self, handle: u32, value: u64) -> Result<vidmm::MonitoredFenceId, Reply> {
        let &mut Fence { of, slot, .. } = self.object(handle)?;
        match of {
            FenceOf::Monitored(id) => {
                self.promised[slot] = self.promised[slot].max(value);
                Ok(id)
            }
            FenceOf::PagingQueue(_) => Err(invalid("the fence of a paging queue is signalled by the queue alone")),
        }
    }

    pub(super) fn wait_from_gpu(&mut self, context: u32, fences: &[FenceValue]) -> Answer {
        for &FenceValue { fence, value } in fences {
            let id = match self.object::<Fence>(fence)?.of {
                FenceOf::Monitored(id) => id,
                FenceOf::PagingQueue(queue) => {
                    let awaited = self.object::<Context>(context)?.awaited.entry(queue).or_default();
                    *awaited = (*awaited).max(value);
                    self.object::<PagingQueue>(queue)?.shown
                }
            };
            self.object::<Context>(context)?.waits.push(FenceValueDesc { fence: id, value });
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
