//! The answers: each call is looked up, judged, and handed to the manager.

mod addresses;
mod allocations;
mod devices;
mod fences;
mod hw_queues;
mod residency;
mod semaphores;
mod sharing;
mod suspicions;
mod updates;
mod work;

use vidmm::{MemorySegmentGroup, OfferFlags, OfferPriority, QueryStatistics, SegmentId};
use vidmm_soft::LOCAL_SEGMENT;

use crate::call::{Call, FenceValue, Reply};
use crate::objects::{Adapter, Context, Device, Fence, FenceOf, HwQueue, Object, Resource, TrimNotification};
use crate::rules::Rule;
use crate::session::{Answer, Session};
use crate::status::Status;

/// The GPU virtual address of the first fence's value: no mapping is there.
const FENCE_ADDRESSES: u64 = 0x7_0000_0000;

fn invalid(reason: impl ToString) -> Reply {
    Reply::refused(Status::INVALID_PARAMETER, reason)
}

/// An error of the manager that may say that the device is in error (FLT-04).
trait DeviceError: ToString {
    fn is_device_in_error(&self) -> bool;
}

macro_rules! device_errors {
    ($($error:ident),*) => {$(
        impl DeviceError for vidmm::$error {
            fn is_device_in_error(&self) -> bool {
                matches!(self, Self::DeviceInError(_))
            }
        }
    )*};
}

device_errors!(
    CreateError,
    EvictError,
    LockError,
    MakeResidentError,
    MapError,
    OfferError,
    OpenError,
    ReclaimError,
    SubmitError
);

/// The answer to a call that the manager refused, where `status` says why if the device works.
fn refused(status: Status, error: impl DeviceError) -> Reply {
    Reply::refused(if error.is_device_in_error() { Status::DEVICE_REMOVED } else { status }, error)
}

fn invalid_unless_lost(error: impl DeviceError) -> Reply {
    refused(Status::INVALID_PARAMETER, error)
}

impl Session {
    pub(crate) fn answer(&mut self, call: &Call) -> Answer {
        self.room(self.handles_of(call))?;
        match *call {
            Call::OpenAdapter => Ok(Reply::created([self.insert(Object::Adapter(Adapter))])),
            Call::CloseAdapter { adapter } => {
                self.object::<Adapter>(adapter)?;
                self.judge_leaks(adapter, "devices", |_| true);
                self.forget(adapter);
                Ok(Reply::default())
            }
            Call::QueryAdapterInfo { adapter, .. } => self.object::<Adapter>(adapter).map(|_| Reply::default()),
            Call::CreateDevice { adapter } => self.create_device(adapter),
            Call::DestroyDevice { device } => self.destroy_device(device),
            Call::GetDeviceState { device } => self.device_state(device),
            Call::CreatePagingQueue { device, priority } => self.create_paging_queue(device, priority),
            Call::DestroyPagingQueue { paging_queue } => self.destroy_paging_queue(paging_queue),
            Call::CreateContext { device, node_ordinal, flags } => self.create_context(device, node_ordinal, flags),
            Call::CreateHwQueue { context } => self.create_hw_queue(context),
            Call::DestroyHwQueue { hw_queue } => self.destroy_hw_queue(hw_queue),
            Call::SubmitCommandToHwQueue { hw_queue, commands, progress_fence_value } => {
                self.submit_to_hw_queue(hw_queue, commands, progress_fence_value)
            }
            Call::SubmitWaitForSyncObjectsToHwQueue { hw_queue, ref fences } => {
                let order = self.object::<HwQueue>(hw_queue)?.order;
                self.wait_from_gpu(order, fences)
            }
            Call::SubmitSignalSyncObjectsToHwQueue { hw_queue, ref fences } => {
                let order = self.object::<HwQueue>(hw_queue)?.order;
                self.signal_from_gpu(order, fences)
            }
            Call::DestroyContext { context } => self.destroy_context(context),
            Call::SetContextSchedulingPriority { context, priority } => {
                let id = self.object::<Context>(context)?.id;
                self.runtime.vidmm().set_context_scheduling_priority(id, priority).map_err(invalid)?;
                Ok(Reply::default())
            }
            Call::CreateAllocation { device, resource, creates_resource, is_shared, ref allocations } => {
                let resource = if creates_resource {
                    self.insert(Object::Resource(Resource { device, is_shared, allocations: Vec::new() }))
                } else {
                    resource
                };
                let created = self.create_allocations(device, resource, is_shared, allocations);
                if created.is_err() && creates_resource {
                    self.forget(resource);
                }
                created
            }
            Call::QueryResourceInfo { device, resource } => {
                self.object::<Device>(device)?;
                let count = self.of_resource(resource)?.len() as u64;
                Ok(Reply { values: vec![count], ..Reply::default() })
            }
            Call::OpenResource { device, resource } => self.open_resource(device, resource),
            Call::DestroyAllocation { device, resource, ref allocations, flags } => {
                self.destroy_allocations(device, resource, allocations, flags)
            }
            Call::SetAllocationPriority { device, ref allocations, ref priorities } => {
                let ids = self.allocation_ids(device, allocations)?;
                for (id, &priority) in ids.into_iter().zip(priorities) {
                    self.runtime.vidmm().set_allocation_priority(id, priority).map_err(invalid)?;
                }
                Ok(Reply::default())
            }
            Call::UpdateAllocationProperty { .. } => self.update_allocation_property(call),
            Call::InvalidateCache { device, allocation, offset, length } => {
                let size = self.allocation_of(device, allocation)?.size;
                // The model's memory is coherent, so nothing is to be done (RES-85).
                let is_inside = offset.checked_add(length).is_some_and(|end| end <= size);
                if is_inside { Ok(Reply::default()) } else { Err(invalid("the range is not inside the allocation")) }
            }
            Call::QueryAllocationResidency { device, ref allocations } => {
                let ids = self.allocation_ids(device, allocations)?;
                let status = |id| self.runtime.vidmm().query_allocation_residency(id).map_err(invalid);
                let statuses = ids.into_iter().map(status).collect::<Result<Vec<_>, _>>()?;
                // WDDM counts the statuses from 1.
                Ok(Reply { values: statuses.into_iter().map(|status| status as u64 + 1).collect(), ..Reply::default() })
            }
            Call::ReserveGpuVirtualAddress { object, base, minimum, maximum, size } => {
                self.reserve(object, base, (minimum, maximum), size)
            }
            Call::MapGpuVirtualAddress { .. } => self.map(call),
            Call::UpdateGpuVirtualAddress { context, fence, does_not_wait, ref operations } => {
                self.update_addresses(context, fence, does_not_wait, operations)
            }
            Call::FreeGpuVirtualAddress { adapter, base, size } => self.free_address(adapter, base, size),
            Call::MakeResident { paging_queue, ref allocations, flags } => {
                self.make_resident(paging_queue, allocations, flags)
            }
            Call::Evict { device, ref allocations, flags } => self.evict(device, allocations, flags),
            Call::OfferAllocations { device, ref allocations, priority } => {
                let (id, ids) = (self.object::<Device>(device)?.id, self.allocation_ids(device, allocations)?);
                let priority = [OfferPriority::Low, OfferPriority::Normal, OfferPriority::High, OfferPriority::Auto]
                    .into_iter()
                    .find(|&known| known as u32 == priority)
                    .ok_or_else(|| invalid("there is no such priority of offers"))?;
                self.runtime
                    .vidmm()
                    .offer_allocations(id, &ids, priority, OfferFlags::empty())
                    .map_err(invalid_unless_lost)?;
                self.note_offered(allocations, true)?;
                self.gave_back(device);
                Ok(Reply::default())
            }
            Call::ReclaimAllocations { paging_queue, ref allocations } => self.reclaim(paging_queue, allocations),
            Call::Lock { device, allocation } => self.lock(device, allocation),
            Call::Unlock { device, allocation } => {
                let record = self.allocation_of(device, allocation)?;
                let id = record.id;
                record.locks = record.locks.saturating_sub(1);
                let (vidmm, _, host) = self.runtime.borrow();
                vidmm.unlock(host, id).map_err(invalid)?;
                Ok(Reply::default())
            }
            Call::SubmitCommand { context, commands, fence_address, fence_value, .. } => {
                let signal = self.fence_at(fence_address, fence_value)?;
                self.submit(context, commands, signal)
            }
            Call::ShareObjects { ref objects } => {
                for &object in objects {
                    self.handles
                        .get(object)
                        .err()
                        .map_or(Ok(()), |dead| Err(self.dead(object, "object", Some(dead))))?;
                }
                Ok(Reply::default())
            }
            Call::CreateMonitoredFence { device, initial_value, is_shared } => {
                self.create_fence(device, initial_value, is_shared)
            }
            Call::OpenSyncObject { device, fence } => self.open_fence(device, fence),
            Call::DestroySynchronizationObject { fence } => self.destroy_fence(fence),
            Call::SignalFromCpu { ref fences, .. } => {
                for &FenceValue { fence, value } in fences {
                    let id = self.monitored(fence, value)?;
                    self.runtime.vidmm().signal_monitored_fence(id, value).map_err(invalid)?;
                }
                Ok(Reply::default())
            }
            Call::SignalFromGpu { context, ref fences } => self.signal_from_gpu(context, fences),
            Call::CreateSemaphore { device, initial_count } => self.create_semaphore(device, initial_count),
            Call::SignalSemaphores { context, ref semaphores } => self.signal_semaphores(context, semaphores),
            Call::WaitForSemaphores { context, ref semaphores } => self.wait_for_semaphores(context, semaphores),
            Call::WaitFromGpu { context, ref fences } => self.wait_from_gpu(context, fences),
            Call::WaitFromCpu { ref fences, any, .. } => self.wait_from_cpu(fences, any),
            Call::SignalEventFromFences { ref fences, .. } => {
                fences.iter().try_for_each(|of| self.object::<Fence>(of.fence).map(|_| ()))?;
                Ok(Reply::default())
            }
            Call::QueryVideoMemoryInfo { adapter, local } => {
                self.object::<Adapter>(adapter)?;
                let process = self.process;
                let info = self.runtime.vidmm().query_video_memory_info(process, group(local)).map_err(invalid)?;
                let figures =
                    [info.budget, info.current_usage, info.current_reservation, info.available_for_reservation];
                Ok(Reply { values: figures.to_vec(), ..Reply::default() })
            }
            Call::QueryRoom { device, ref allocations } => self.query_room(device, allocations),
            Call::QueryStatistics { local, of_process } => {
                let (process, segment) = (self.process, if local { LOCAL_SEGMENT } else { SegmentId::SYSTEM });
                let of = match of_process {
                    true => QueryStatistics::ProcessSegment(process, segment),
                    false => QueryStatistics::Segment(segment),
                };
                let of = self.runtime.vidmm().query_statistics(of).map_err(invalid)?;
                let figures = [of.commit_limit, of.bytes_committed, of.bytes_resident];
                Ok(Reply { values: figures.to_vec(), ..Reply::default() })
            }
            Call::QueryClockCalibration { adapter } => {
                self.object::<Adapter>(adapter)?;
                Ok(Reply { values: vec![self.now()], ..Reply::default() })
            }
            Call::ChangeVideoMemoryReservation { adapter, local, bytes } => {
                self.object::<Adapter>(adapter)?;
                let process = self.process;
                let vidmm = self.runtime.vidmm();
                vidmm.change_video_memory_reservation(process, group(local), bytes).map_err(invalid)?;
                Ok(Reply::default())
            }
            Call::RegisterTrimNotification { device } => {
                let id = self.object::<Device>(device)?.id;
                let notification = self.runtime.vidmm().register_trim_notification(id).map_err(invalid)?;
                let handle = self.insert(Object::TrimNotification(TrimNotification { device, id: notification }));
                self.notifications.insert(notification, handle);
                Ok(Reply::created([handle]))
            }
            Call::UnregisterTrimNotification { notification } => {
                let id = self.object::<TrimNotification>(notification)?.id;
                self.runtime.vidmm().unregister_trim_notification(id).map_err(invalid)?;
                self.forget(notification);
                Ok(Reply::default())
            }
            Call::NotSupported { ref function } => {
                Err(Reply::refused(Status::NOT_SUPPORTED, format!("{function} is not there")))
            }
            Call::GiveUpWaiting { ref fences } => {
                let waits = fences.iter().map(|of| format!("{:#x} at {}", of.fence, of.value));
                let text = format!("nothing signals {}", Vec::from_iter(waits).join(", "));
                let made = fences.first().and_then(|of| self.handles.added_by(of.fence));
                self.find(Rule::NeverSignalled, text, made);
                Err(Reply::refused(Status::DEVICE_REMOVED, "the wait has not ended"))
            }
            Call::TimePasses { until } => {
                while self.now() < until {
                    self.pass_time();
                }
                Ok(Reply::default())
            }
        }
    }

    /// The most handles that a call makes.
    fn handles_of(&self, call: &Call) -> usize {
        match *call {
            Call::OpenAdapter
            | Call::CreateDevice { .. }
            | Call::CreateContext { .. }
            | Call::CreateMonitoredFence { .. }
            | Call::CreateSemaphore { .. }
            | Call::OpenSyncObject { .. }
            | Call::RegisterTrimNotification { .. } => 1,
            Call::CreatePagingQueue { .. } => 2,
            Call::CreateHwQueue { .. } => 3,
            Call::CreateAllocation { ref allocations, .. } => 1 + allocations.len(),
            Call::OpenResource { resource, .. } => 1 + self.of_resource(resource).map_or(0, |of| of.len()),
            _ => 0,
        }
    }

    /// Removes an object, and all that the session knows by the object.
    fn forget(&mut self, handle: u32) {
        let removed = self.handles.remove(handle, self.call);
        if let Some(owner) = removed.as_ref().ok().and_then(Object::owner) {
            self.owned.remove(&(owner, handle));
        }
        match removed {
            Ok(Object::Allocation(of)) => {
                self.addresses.forget(handle, self.call);
                if let Ok(Object::Resource(resource)) = self.handles.get_mut(of.resource) {
                    resource.allocations.retain(|&other| other != handle);
                }
                let is_same = |other: &Object| matches!(other, Object::Allocation(other) if other.memory == of.memory);
                if !of.is_opened || !self.handles.iter().any(is_same) {
                    self.gone.push(of.memory);
                }
            }
            Ok(Object::PagingQueue(queue)) => {
                self.queues.remove(&queue.id);
                self.unshown.remove(&handle);
                self.free_slots.push(queue.slot);
            }
            Ok(Object::Resource(_)) => self.gone.push(handle),
            Ok(Object::Fence(Fence {
                of: FenceOf::Monitored(id) | FenceOf::HwQueue(id),
                address,
                slot,
                is_shared,
                ..
            })) if !(is_shared && self.is_open(id)) => {
                self.fences_by_address.remove(&address);
                self.slots_of_fences.remove(&id);
                self.free_slots.push(slot);
            }
            Ok(Object::TrimNotification(of)) => _ = self.notifications.remove(&of.id),
            _ => {}
        }
    }
}

fn group(is_local: bool) -> MemorySegmentGroup {
    if is_local { MemorySegmentGroup::Local } else { MemorySegmentGroup::NonLocal }
}
