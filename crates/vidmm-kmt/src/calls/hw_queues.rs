//! Hardware queues: each has an order of its own, and a progress fence that the end of each submission raises (SYN-06).

use vidmm::FenceValueDesc;

use super::invalid;
use crate::call::Reply;
use crate::objects::{Context, FenceOf, HwQueue, Object};
use crate::session::{Answer, Session};

/// `D3DDDI_CREATECONTEXTFLAGS`: the context has hardware queues (SYN-10).
const HW_QUEUE_SUPPORTED: u32 = 1 << 4;

impl Session {
    pub(super) fn create_hw_queue(&mut self, context: u32) -> Answer {
        let &mut Context { device, node_ordinal, flags, .. } = self.object(context)?;
        if flags & HW_QUEUE_SUPPORTED == 0 {
            return Err(invalid("the context was created without HwQueueSupported"));
        }
        let order = self.create_context(device, node_ordinal, 0)?.handle();
        let (created, progress) = self.insert_fence(device, 0, false, FenceOf::HwQueue)?;
        let (fence, slot) = (created.handle(), created.value() as usize);
        let queue = self.insert(Object::HwQueue(HwQueue { device, context, order, fence, slot, progress }));
        Ok(Reply { handles: vec![queue, fence], ..created })
    }

    pub(super) fn destroy_hw_queue(&mut self, hw_queue: u32) -> Answer {
        let &mut HwQueue { order, fence, progress, .. } = self.object(hw_queue)?;
        self.destroy_context(order)?;
        self.retry(|session| session.runtime.vidmm().destroy_monitored_fence(progress))?;
        [hw_queue, fence].into_iter().for_each(|handle| self.forget(handle));
        Ok(Reply::default())
    }

    pub(super) fn submit_to_hw_queue(&mut self, hw_queue: u32, commands: u64, value: u64) -> Answer {
        let &mut HwQueue { order, slot, progress, .. } = self.object(hw_queue)?;
        let last = self.promised[slot];
        if value <= last {
            return Err(invalid(format!("the progress fence is to have {last} already, and only rises")));
        }
        let submitted = self.submit(order, commands, Some(FenceValueDesc { fence: progress, value }))?;
        self.promised[slot] = value;
        Ok(submitted)
    }

    /// The hardware queues of a context, with their handles.
    pub(super) fn hw_queues_of(&self, context: u32) -> Vec<(u32, HwQueue)> {
        let device = match self.handles.get(context) {
            Ok(Object::Context(of)) if of.flags & HW_QUEUE_SUPPORTED != 0 => of.device,
            _ => return Vec::new(),
        };
        let queues = self.of_owner(device).filter_map(|(handle, object)| match object {
            Object::HwQueue(of) if of.context == context => Some((handle, *of)),
            _ => None,
        });
        queues.collect()
    }
}
