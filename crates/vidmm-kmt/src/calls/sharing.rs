//! Shared objects: each device has handles of its own for one allocation, or for one fence (RES-02).

use vidmm::{MonitoredFenceId, OpenError};

use super::{invalid, invalid_unless_lost};
use crate::call::Reply;
use crate::objects::{Allocation, Device, Fence, FenceOf, MadeResident, Object, Resource};
use crate::session::{Answer, Session};
use crate::status::Status;

impl Session {
    /// The allocations of a resource, in the order of their creation.
    pub(super) fn of_resource(&self, resource: u32) -> Result<Vec<u32>, Reply> {
        match self.handles.get(resource) {
            Ok(Object::Resource(of)) => Ok(of.allocations.clone()),
            // Windows keeps what only a shared handle keeps, so the call is no mistake.
            _ => Err(Reply::refused(Status::INVALID_HANDLE, "nobody has the resource open any more")),
        }
    }

    /// A new handle of an allocation, which the resource lists.
    pub(super) fn insert_allocation(&mut self, allocation: Allocation) -> u32 {
        let resource = allocation.resource;
        let handle = self.insert(Object::Allocation(allocation));
        if let Ok(Object::Resource(resource)) = self.handles.get_mut(resource) {
            resource.allocations.push(handle);
        }
        handle
    }

    pub(super) fn open_resource(&mut self, device: u32, shared: u32) -> Answer {
        let id = self.object::<Device>(device)?.id;
        let allocations = self.of_resource(shared)?;
        if !self.object::<Resource>(shared)?.is_shared {
            return Err(invalid("the resource was not created to be shared"));
        }
        let resource = Resource { device, is_shared: true, allocations: Vec::new() };
        let resource = self.insert(Object::Resource(resource));
        let mut handles = vec![resource];
        for handle in allocations {
            let of = self.object::<Allocation>(handle)?;
            of.is_opened = true;
            let of = of.clone();
            let (vidmm, kmd, _) = self.runtime.borrow();
            if let Err(error) = vidmm.open_allocation(kmd, id, of.id) {
                // A refused call changes nothing.
                for handle in handles.into_iter().skip(1) {
                    let opened = self.object::<Allocation>(handle)?.id;
                    self.runtime.vidmm().close_allocation(id, opened).expect("it was opened");
                    self.forget(handle);
                }
                self.forget(resource);
                return Err(invalid_unless_lost(error));
            }
            let made_resident = MadeResident::default();
            let opened = Allocation {
                device,
                resource,
                count: 0,
                made_resident,
                evicted_by: None,
                last_submission: 0,
                locks: 0,
                ..of
            };
            handles.push(self.insert_allocation(opened));
        }
        Ok(Reply::created(handles))
    }

    /// Closes an allocation on a device that has opened it. Returns whether the device had: the owner destroys.
    pub(super) fn close_allocation(&mut self, allocation: &Allocation) -> Result<bool, Reply> {
        let device = self.object::<Device>(allocation.device)?.id;
        match self.runtime.vidmm().close_allocation(device, allocation.id) {
            Ok(()) => Ok(true),
            Err(OpenError::NotOpen) => Ok(false),
            Err(error) => Err(invalid_unless_lost(error)),
        }
    }

    pub(super) fn open_fence(&mut self, device: u32, shared: u32) -> Answer {
        self.object::<Device>(device)?;
        let Ok(&Object::Fence(Fence { slot, of, address, is_shared, .. })) = self.handles.get(shared) else {
            return Err(Reply::refused(Status::INVALID_HANDLE, "nobody has the fence open any more"));
        };
        if !is_shared {
            return Err(invalid("the fence was not created to be shared"));
        }
        let fence = self.insert(Object::Fence(Fence { device, slot, of, address, is_shared }));
        Ok(Reply { address, values: vec![slot as u64], ..Reply::created([fence]) })
    }

    /// Whether a handle names the fence.
    pub(super) fn is_open(&self, fence: MonitoredFenceId) -> bool {
        self.handles.iter().any(|object| match object {
            Object::Fence(Fence { of: FenceOf::Monitored(id), is_shared: true, .. }) => *id == fence,
            _ => false,
        })
    }
}
