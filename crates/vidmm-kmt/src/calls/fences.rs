//! Monitored fences, and waits.

use vidmm::{CreateMonitoredFenceDesc, FenceValueDesc};

use super::{FENCE_ADDRESSES, invalid};
use crate::call::{FenceValue, Reply};
use crate::objects::{Context, Device, Fence, FenceOf, Object};
use crate::session::{Answer, PATIENCE, QUANTUM, Session};
use crate::status::Status;

impl Session {
    pub(super) fn create_fence(&mut self, device: u32, initial_value: u64) -> Answer {
        let of = self.object::<Device>(device)?.id;
        let desc = CreateMonitoredFenceDesc { device: Some(of), initial_fence_value: initial_value };
        let id = self.runtime.vidmm().create_monitored_fence(desc).map_err(invalid)?;
        let slot = self.new_slot(initial_value);
        self.slots_of_fences.insert(id, slot);
        let address = FENCE_ADDRESSES + 8 * slot as u64;
        let fence = Fence { device, slot, of: FenceOf::Monitored(id), address, promised: initial_value };
        let handle = self.insert(Object::Fence(fence))?;
        self.fences_by_address.insert(address, handle);
        Ok(Reply { address, values: vec![slot as u64], ..Reply::created([handle]) })
    }

    pub(super) fn destroy_fence(&mut self, fence: u32) -> Answer {
        let of = self.object::<Fence>(fence)?.of;
        let FenceOf::Monitored(id) = of else {
            return Err(invalid("a paging queue's fence ends with the queue"));
        };
        self.retry(|session| session.runtime.vidmm().destroy_monitored_fence(id))?;
        self.forget(fence);
        Ok(Reply::default())
    }

    /// The manager's fence of a handle, which is to reach a value.
    pub(super) fn monitored(&mut self, handle: u32, value: u64) -> Result<vidmm::MonitoredFenceId, Reply> {
        let fence = self.object::<Fence>(handle)?;
        match fence.of {
            FenceOf::Monitored(id) => {
                fence.promised = fence.promised.max(value);
                Ok(id)
            }
            FenceOf::PagingQueue(_) => Err(invalid("the fence of a paging queue is signalled by the queue alone")),
        }
    }

    pub(super) fn wait_from_gpu(&mut self, context: u32, fences: &[FenceValue]) -> Answer {
        for &FenceValue { fence, value } in fences {
            match self.object::<Fence>(fence)?.of {
                FenceOf::Monitored(id) => {
                    self.object::<Context>(context)?.waits.push(FenceValueDesc { fence: id, value });
                }
                FenceOf::PagingQueue(queue) => self.await_paging(context, queue, value)?,
            }
        }
        Ok(Reply::default())
    }

    fn await_paging(&mut self, context: u32, queue: u32, value: u64) -> Result<(), Reply> {
        let awaited = self.object::<Context>(context)?.awaited.entry(queue).or_default();
        *awaited = (*awaited).max(value);
        Ok(())
    }

    pub(super) fn wait_from_cpu(&mut self, fences: &[FenceValue], any: bool) -> Answer {
        let mut promises = Vec::new();
        for &FenceValue { fence, value } in fences {
            promises.push(self.object::<Fence>(fence)?.promised >= value);
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
