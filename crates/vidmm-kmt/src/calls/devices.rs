//! Devices, paging queues and contexts.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use vidmm::{CreateMonitoredFenceDesc, DeviceErrorReason, EvictError, EvictFlags};
use vidmm_soft::{COPY_ENGINE, RENDER_ENGINE};

use super::{FENCE_ADDRESSES, invalid, invalid_unless_lost};
use crate::call::Reply;
use crate::objects::{Adapter, Context, Device, Fence, FenceOf, Object, PagingQueue};
use crate::rules::Rule;
use crate::session::{Answer, Session};

/// The states of `D3DKMT_DEVICEEXECUTION_STATE` (FLT-04).
const DEVICE_ACTIVE: u64 = 1;
const DEVICE_STOPPED: u64 = 4;
const DEVICE_OUT_OF_MEMORY: u64 = 5;
const DEVICE_PAGE_FAULT: u64 = 7;

impl Session {
    pub(super) fn create_device(&mut self, adapter: u32) -> Answer {
        self.object::<Adapter>(adapter)?;
        let process = self.process;
        let id = self.runtime.vidmm().create_device(process).map_err(invalid)?;
        let progress = CreateMonitoredFenceDesc { device: Some(id), initial_fence_value: 0 };
        let progress = self.runtime.vidmm().create_monitored_fence(progress).map_err(invalid)?;
        let device = Device {
            id,
            adapter,
            progress,
            submitted: 0,
            submitted_by: 0,
            queues: BTreeSet::new(),
            companion: None,
            refused: None,
            has_trimmed: false,
            asked_to_trim: None,
        };
        Ok(Reply::created([self.insert(Object::Device(device))]))
    }

    pub(super) fn destroy_device(&mut self, device: u32) -> Answer {
        let id = self.object::<Device>(device)?.id;
        self.judge_leaks(device, "allocations", |object| matches!(object, Object::Allocation(_)));
        let (vidmm, kmd, host) = self.runtime.borrow();
        vidmm.destroy_device(kmd, host, id).map_err(invalid)?;
        for handle in Vec::from_iter(self.of_owner(device).map(|(handle, _)| handle)) {
            match self.handles.get(handle) {
                // A shared fence ends with the last device that has it open.
                Ok(Object::Fence(Fence { is_shared: true, .. })) => _ = self.destroy_fence(handle)?,
                _ => self.forget(handle),
            }
        }
        self.forget(device);
        Ok(Reply::default())
    }

    /// A client destroys the inner objects before the outer object.
    pub(super) fn judge_leaks(&mut self, owner: u32, kind: &str, is_left: impl Fn(&Object) -> bool) {
        let left = self.of_owner(owner).filter(|(_, object)| is_left(object));
        let left = Vec::from_iter(left.map(|(handle, _)| handle));
        if let Some(&first) = left.first() {
            let text = format!("{} {kind} of {owner:#x} are left, the first is {first:#x}", left.len());
            self.find(Rule::Leaked, text, self.handles.added_by(first));
        }
    }

    pub(super) fn device_state(&mut self, device: u32) -> Answer {
        let id = self.object::<Device>(device)?.id;
        // The manager looks at the device's error before it looks at the list.
        let state = match self.runtime.vidmm().evict(id, &[], EvictFlags::empty()) {
            Err(EvictError::DeviceInError(error)) => match error.reason {
                DeviceErrorReason::OutOfMemory => DEVICE_OUT_OF_MEMORY,
                DeviceErrorReason::PageFault { .. } => DEVICE_PAGE_FAULT,
                _ => DEVICE_STOPPED,
            },
            _ => DEVICE_ACTIVE,
        };
        Ok(Reply { values: vec![state], ..Reply::default() })
    }

    pub(super) fn create_paging_queue(&mut self, device: u32, priority: i32) -> Answer {
        let of = self.object::<Device>(device)?.id;
        let id = self.runtime.vidmm().create_paging_queue(of, priority).map_err(invalid_unless_lost)?;
        let shown = CreateMonitoredFenceDesc { device: Some(of), initial_fence_value: 0 };
        let shown = self.runtime.vidmm().create_monitored_fence(shown).map_err(invalid)?;
        let slot = self.new_slot(0);
        let queue = self.insert(Object::PagingQueue(PagingQueue {
            device,
            id,
            fence: 0,
            slot,
            shown,
            issued: VecDeque::new(),
            last: 0,
            reached: 0,
        }));
        self.queues.insert(id, queue);
        let (of, address) = (FenceOf::PagingQueue(queue), FENCE_ADDRESSES + 8 * slot as u64);
        let fence = self.insert(Object::Fence(Fence { device, slot, of, address, is_shared: false }));
        self.object::<PagingQueue>(queue)?.fence = fence;
        self.object::<Device>(device)?.queues.insert(queue);
        Ok(Reply { address: slot as u64, ..Reply::created([queue, fence]) })
    }

    pub(super) fn destroy_paging_queue(&mut self, paging_queue: u32) -> Answer {
        let &mut PagingQueue { device, id, fence, shown, .. } = self.object(paging_queue)?;
        self.object::<Device>(device)?.queues.remove(&paging_queue);
        self.retry(|session| session.runtime.vidmm().destroy_paging_queue(id))?;
        self.retry(|session| session.runtime.vidmm().destroy_monitored_fence(shown))?;
        [paging_queue, fence].into_iter().for_each(|handle| self.forget(handle));
        Ok(Reply::default())
    }

    /// Destroys what may be in use: time passes until nothing uses the object.
    pub(super) fn retry(
        &mut self,
        destroy: impl Fn(&mut Self) -> Result<(), vidmm::DestroyError>,
    ) -> Result<(), Reply> {
        self.patiently(destroy, |_, error| matches!(error, vidmm::DestroyError::InUse { .. })).map_err(invalid)
    }

    pub(super) fn create_context(&mut self, device: u32, node_ordinal: u32, flags: u32) -> Answer {
        let of = self.object::<Device>(device)?.id;
        let engine = if node_ordinal == 0 { RENDER_ENGINE } else { COPY_ENGINE };
        let (vidmm, kmd, _) = self.runtime.borrow();
        let id = vidmm.create_context(kmd, of, engine).map_err(invalid_unless_lost)?;
        let context = Context { device, id, node_ordinal, flags, waits: Vec::new(), awaited: BTreeMap::new() };
        Ok(Reply::created([self.insert(Object::Context(context))]))
    }

    pub(super) fn destroy_context(&mut self, context: u32) -> Answer {
        let id = self.object::<Context>(context)?.id;
        for (queue, _) in self.hw_queues_of(context) {
            self.destroy_hw_queue(queue)?;
        }
        self.retry(|session| {
            let (vidmm, kmd, _) = session.runtime.borrow();
            vidmm.destroy_context(kmd, id)
        })?;
        self.forget(context);
        Ok(Reply::default())
    }
}
