//! Allocations: created, destroyed, locked, offered.

use vidmm::contract::{SegmentPreference, SegmentSet};
use vidmm::{
    AllocationId, CreateAllocationDesc, CreateAllocationFlags, DestroyFlags, LockError, SegmentId,
    UpdateAllocationProperty,
};
use vidmm_runtime::{AllocationDesc, AllocationSegments, CpuAccess};

use super::{invalid, refused};
use crate::call::{AllocationInfo, Call, Memory, Reply};
use crate::objects::{Allocation, Device, MadeResident, PagingQueue};
use crate::rules::Rule;
use crate::session::{Answer, Session};
use crate::status::Status;

impl Session {
    pub(super) fn create_allocations(
        &mut self,
        device: u32,
        resource: u32,
        is_shared: bool,
        infos: &[AllocationInfo],
    ) -> Answer {
        let of = self.object::<Device>(device)?.id;
        if infos.is_empty() && resource == 0 {
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
            let flags = if is_shared { CreateAllocationFlags::CREATE_SHARED } else { CreateAllocationFlags::empty() };
            let desc = CreateAllocationDesc { flags, ..CreateAllocationDesc::from(&data) };
            let (vidmm, kmd, host) = self.runtime.borrow();
            match vidmm.create_allocation(kmd, host, of, desc) {
                Ok(id) => created.push(id),
                Err(error) => {
                    // A refused call changes nothing.
                    for id in created {
                        vidmm.destroy_allocation(host, id, DestroyFlags::empty()).expect("it was created");
                    }
                    return Err(refused(Status::NO_MEMORY, error));
                }
            }
        }
        let mut handles = vec![resource];
        for (id, info) in created.into_iter().zip(infos) {
            let handle = self.insert_allocation(Allocation {
                device,
                resource,
                id,
                size: info.size,
                count: 0,
                kinds: info.memory,
                made_resident: MadeResident::default(),
                evicted_by: None,
                last_submission: 0,
                locks: 0,
                offered: None,
                is_shared,
                is_opened: false,
                memory: 0,
            });
            self.object::<Allocation>(handle)?.memory = handle;
            handles.push(handle);
        }
        Ok(Reply::created(handles))
    }

    pub(super) fn destroy_allocations(&mut self, device: u32, resource: u32, named: &[u32], flags: u32) -> Answer {
        let flags = DestroyFlags::from_bits_truncate(flags);
        let handles = match named {
            [] if resource != 0 => self.of_resource(resource)?,
            _ => named.to_vec(),
        };
        self.allocation_ids(device, &handles)?;
        let progress = self.progress(device)?;
        for &handle in &handles {
            let &mut Device { submitted, submitted_by, .. } = self.object(device)?;
            let allocation = self.object::<Allocation>(handle)?.clone();
            let in_flight = if allocation.count > 0 { submitted } else { allocation.last_submission } > progress;
            if flags.contains(DestroyFlags::ASSUME_NOT_IN_USE) && in_flight {
                let text = format!("{handle:#x} is destroyed with AssumeNotInUse while work with it on the list runs");
                self.find(Rule::DestroyedInUse, text, Some(submitted_by));
            }
            if !(allocation.is_shared && self.close_allocation(&allocation)?) {
                let (vidmm, _, host) = self.runtime.borrow();
                let flags = flags & DestroyFlags::ASSUME_NOT_IN_USE;
                vidmm.destroy_allocation(host, allocation.id, flags).map_err(invalid)?;
            }
            self.judge_given_back(handle);
            self.forget(handle);
        }
        if named.is_empty() && resource != 0 {
            self.forget(resource);
        }
        self.gave_back(device);
        Ok(Reply::default())
    }

    /// Changes the segments of an allocation. The paging queue's fence says when the allocation is where it may be (CRE-50).
    pub(super) fn update_allocation_property(&mut self, call: &Call) -> Answer {
        let &Call::UpdateAllocationProperty { paging_queue, allocation, supported_segment_set, preferred_segments } =
            call
        else {
            unreachable!("the caller has looked");
        };
        let &mut PagingQueue { device, id: queue, .. } = self.object(paging_queue)?;
        let id = self.allocation_of(device, allocation)?.id;
        let update = UpdateAllocationProperty {
            supported_segment_set: supported_segment_set.map(SegmentSet),
            preferred_segment: preferred_segments.map(|ids| SegmentPreference::of(ids.map(SegmentId))),
        };
        let (vidmm, kmd, _) = self.runtime.borrow();
        let value = vidmm.update_allocation_property(kmd, queue, id, &update).map_err(invalid)?;
        Ok(Reply::paging(self.issue(paging_queue, "UpdateAllocationProperty", &[], value)?))
    }

    /// Locks an allocation. Time passes while the content is on its way (RES-80).
    pub(super) fn lock(&mut self, device: u32, allocation: u32) -> Answer {
        let (of, id) = (self.object::<Device>(device)?.id, self.allocation_of(device, allocation)?.id);
        let lock = |session: &mut Self| {
            let (vidmm, _, host) = session.runtime.borrow();
            vidmm.lock(host, of, id)
        };
        let locked = self.patiently(lock, |_, error| matches!(error, LockError::AllocationBusy));
        let _ = locked.map_err(|error| match error {
            LockError::AllocationBusy => refused(Status::ALLOCATION_BUSY, error),
            LockError::NotLockable => refused(Status::CANT_LOCK_MEMORY, error),
            _ => refused(Status::INVALID_PARAMETER, error),
        })?;
        self.object::<Allocation>(allocation)?.locks += 1;
        Ok(Reply::default())
    }
}
