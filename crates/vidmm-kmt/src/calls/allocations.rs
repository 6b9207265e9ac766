//! Allocations: created, destroyed, locked, offered.

use vidmm::{AllocationId, DestroyFlags, LockError};
use vidmm_runtime::{AllocationDesc, AllocationSegments, CpuAccess};

use super::invalid;
use crate::call::{AllocationInfo, Memory, Reply};
use crate::objects::{Allocation, Device, Object};
use crate::rules::Rule;
use crate::session::{Answer, Session};
use crate::status::Status;

impl Session {
    pub(super) fn create_allocations(
        &mut self,
        device: u32,
        resource: u32,
        creates_resource: bool,
        infos: &[AllocationInfo],
    ) -> Answer {
        let of = self.object::<Device>(device)?.id;
        if infos.is_empty() && !creates_resource {
            return Err(invalid("the list of allocations is empty"));
        }
        let mut created: Vec<AllocationId> = Vec::new();
        for info in infos {
            let desc = AllocationDesc {
                size: info.size,
                segments: match info.memory {
                    Memory::Local => AllocationSegments::Local,
                    Memory::System => AllocationSegments::System,
                    Memory::LocalOrSystem => AllocationSegments::LocalOrSystem,
                },
                cpu: if info.lockable { CpuAccess::Visible } else { CpuAccess::None },
                ..AllocationDesc::default()
            };
            let data = self.runtime.umd().allocation_private_data(&desc);
            let (vidmm, kmd, host) = self.runtime.borrow();
            match vidmm.create_allocation(kmd, host, of, &data) {
                Ok(id) => created.push(id),
                Err(error) => {
                    // A refused call changes nothing.
                    for id in created {
                        vidmm.destroy_allocation(host, id, DestroyFlags::empty()).expect("it was created");
                    }
                    return Err(Reply::refused(Status::NO_MEMORY, error));
                }
            }
        }
        let resource = if creates_resource { self.insert(Object::Resource(device))? } else { resource };
        let mut handles = vec![resource];
        for (id, info) in created.into_iter().zip(infos) {
            let size = info.size;
            let allocation = Allocation {
                device,
                resource,
                id,
                size,
                count: 0,
                made_resident: (0, 0),
                last_submission: 0,
                locks: 0,
            };
            handles.push(self.insert(Object::Allocation(allocation))?);
        }
        Ok(Reply::created(handles))
    }

    pub(super) fn destroy_allocations(&mut self, device: u32, resource: u32, named: &[u32], flags: u32) -> Answer {
        let flags = DestroyFlags::from_bits_truncate(flags);
        let is_of_resource = |object: &Object| matches!(object, Object::Allocation(of) if of.resource == resource);
        let handles = if named.is_empty() && resource != 0 {
            let of_resource = self.handles.iter().filter(|(_, object)| is_of_resource(object));
            Vec::from_iter(of_resource.map(|(handle, _)| handle))
        } else {
            named.to_vec()
        };
        let ids = self.allocation_ids(&handles)?;
        let progress = self.progress(device)?;
        for (&handle, id) in handles.iter().zip(ids) {
            let submitted = self.object::<Device>(device)?.submitted;
            let allocation = self.object::<Allocation>(handle)?;
            let in_flight = if allocation.count > 0 { submitted } else { allocation.last_submission } > progress;
            if flags.contains(DestroyFlags::ASSUME_NOT_IN_USE) && in_flight {
                let text = format!("{handle:#x} is destroyed with AssumeNotInUse while work with it on the list runs");
                self.find(Rule::DestroyedInUse, text, None);
            }
            let (vidmm, _, host) = self.runtime.borrow();
            vidmm.destroy_allocation(host, id, flags & DestroyFlags::ASSUME_NOT_IN_USE).map_err(invalid)?;
            self.forget(handle);
        }
        if named.is_empty() && resource != 0 {
            self.forget(resource);
        }
        self.gave_back(device);
        Ok(Reply::default())
    }

    /// Locks an allocation. Time passes while the content is on its way (RES-80).
    pub(super) fn lock(&mut self, device: u32, allocation: u32) -> Answer {
        let (of, id) = (self.object::<Device>(device)?.id, self.object::<Allocation>(allocation)?.id);
        let lock = |session: &mut Self| {
            let (vidmm, _, host) = session.runtime.borrow();
            vidmm.lock(host, of, id)
        };
        let locked = self.patiently(lock, |_, error| matches!(error, LockError::AllocationBusy));
        let _ = locked.map_err(|error| match error {
            LockError::AllocationBusy => Reply::refused(Status::ALLOCATION_BUSY, error),
            LockError::NotLockable => Reply::refused(Status::CANT_LOCK_MEMORY, error),
            _ => invalid(error),
        })?;
        self.object::<Allocation>(allocation)?.locks += 1;
        Ok(Reply::default())
    }
}
