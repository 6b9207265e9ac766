//! The answers: each call is looked up, judged, and handed to the manager.

use std::collections::BTreeMap;

use vidmm::{
    AllocationId, CreateMonitoredFenceDesc, DestroyFlags, DeviceErrorReason, EvictError, EvictFlags, FenceValueDesc,
    GpuVaError, GpuVirtualAddress, LockError, MakeResidentError, MakeResidentFlags, MapError, MapGpuVirtualAddress,
    MemorySegmentGroup, OfferFlags, OfferPriority, Residency, SubmitDesc, SubmitError, VaRangeError,
};
use vidmm_runtime::{AllocationDesc, AllocationSegments, CpuAccess, KernelCommand};
use vidmm_soft::{COPY_ENGINE, RENDER_ENGINE};

use crate::addresses::Mapping;
use crate::call::{AllocationInfo, Call, FenceValue, Memory, Reply};
use crate::objects::{
    Adapter, Allocation, Context, Device, Fence, FenceOf, Object, PagingQueue, Refused, TrimNotification,
};
use crate::rules::Rule;
use crate::session::{Answer, PATIENCE, QUANTUM, Session};
use crate::status::Status;

/// The GPU virtual address of the first fence's value: no mapping is there.
const FENCE_ADDRESSES: u64 = 0x7_0000_0000;

/// The states of `D3DKMT_DEVICEEXECUTION_STATE` (FLT-04).
const DEVICE_ACTIVE: u64 = 1;
const DEVICE_STOPPED: u64 = 4;
const DEVICE_OUT_OF_MEMORY: u64 = 5;
const DEVICE_PAGE_FAULT: u64 = 7;

/// A trim is ignored if so many calls later nothing was given back.
const CALLS_TO_TRIM: u64 = 32;

/// Bits of `D3DDDIGPUVIRTUALADDRESS_PROTECTION_TYPE`.
const PROTECTION_WRITE: u64 = 1 << 0;
const PROTECTION_EXECUTE: u64 = 1 << 1;

fn invalid(reason: impl ToString) -> Reply {
    Reply::refused(Status::INVALID_PARAMETER, reason)
}

impl Session {
    pub(crate) fn answer(&mut self, call: &Call) -> Answer {
        match *call {
            Call::OpenAdapter => self.insert(Object::Adapter(Adapter)).map(|adapter| Reply::created([adapter])),
            Call::CloseAdapter { adapter } => {
                self.object::<Adapter>(adapter)?;
                let is_left = |object: &Object| matches!(object, Object::Device(of) if of.adapter == adapter);
                self.judge_leaks("devices", is_left);
                self.forget(adapter);
                Ok(Reply::default())
            }
            Call::QueryAdapterInfo { adapter, .. } => self.object::<Adapter>(adapter).map(|_| Reply::default()),
            Call::CreateDevice { adapter } => self.create_device(adapter),
            Call::DestroyDevice { device } => self.destroy_device(device),
            Call::GetDeviceState { device } => self.device_state(device),
            Call::CreatePagingQueue { device, priority } => self.create_paging_queue(device, priority),
            Call::DestroyPagingQueue { paging_queue } => self.destroy_paging_queue(paging_queue),
            Call::CreateContext { device, node_ordinal } => self.create_context(device, node_ordinal),
            Call::DestroyContext { context } => self.destroy_context(context),
            Call::SetContextSchedulingPriority { context, priority } => {
                let id = self.object::<Context>(context)?.id;
                self.runtime.vidmm().set_context_scheduling_priority(id, priority).map_err(invalid)?;
                Ok(Reply::default())
            }
            Call::CreateAllocation { device, resource, creates_resource, ref allocations } => {
                self.create_allocations(device, resource, creates_resource, allocations)
            }
            Call::DestroyAllocation { device, resource, ref allocations, flags } => {
                self.destroy_allocations(device, resource, allocations, flags)
            }
            Call::SetAllocationPriority { ref allocations, ref priorities, .. } => {
                let ids = self.allocation_ids(allocations)?;
                for (id, &priority) in ids.into_iter().zip(priorities) {
                    self.runtime.vidmm().set_allocation_priority(id, priority).map_err(invalid)?;
                }
                Ok(Reply::default())
            }
            Call::QueryAllocationResidency { ref allocations, .. } => {
                let ids = self.allocation_ids(allocations)?;
                let status = |id| self.runtime.vidmm().query_allocation_residency(id).map_err(invalid);
                let statuses = ids.into_iter().map(status).collect::<Result<Vec<_>, _>>()?;
                // WDDM counts the statuses from 1.
                Ok(Reply { values: statuses.into_iter().map(|status| status as u64 + 1).collect(), ..Reply::default() })
            }
            Call::ReserveGpuVirtualAddress { object, base, minimum, maximum, size } => {
                self.reserve(object, base, (minimum, maximum), size)
            }
            Call::MapGpuVirtualAddress { .. } => self.map(call),
            Call::FreeGpuVirtualAddress { adapter, base, size } => self.free_address(adapter, base, size),
            Call::MakeResident { paging_queue, ref allocations, flags } => {
                self.make_resident(paging_queue, allocations, flags)
            }
            Call::Evict { device, ref allocations, flags } => self.evict(device, allocations, flags),
            Call::OfferAllocations { device, ref allocations, priority } => {
                let (id, ids) = (self.object::<Device>(device)?.id, self.allocation_ids(allocations)?);
                let priority = [OfferPriority::Low, OfferPriority::Normal, OfferPriority::High, OfferPriority::Auto]
                    .into_iter()
                    .find(|&known| known as u32 == priority)
                    .ok_or_else(|| invalid("there is no such priority of offers"))?;
                self.runtime.vidmm().offer_allocations(id, &ids, priority, OfferFlags::empty()).map_err(invalid)?;
                self.gave_back(device);
                Ok(Reply::default())
            }
            Call::ReclaimAllocations { paging_queue, ref allocations } => self.reclaim(paging_queue, allocations),
            Call::Lock { device, allocation } => self.lock(device, allocation),
            Call::Unlock { allocation, .. } => {
                let record = self.object::<Allocation>(allocation)?;
                let id = record.id;
                record.locks = record.locks.saturating_sub(1);
                let (vidmm, _, host) = self.runtime.borrow();
                vidmm.unlock(host, id).map_err(invalid)?;
                Ok(Reply::default())
            }
            Call::SubmitCommand { context, commands, fence_address, fence_value, .. } => {
                self.submit(context, commands, (fence_address, fence_value))
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
            Call::CreateMonitoredFence { device, initial_value } => self.create_fence(device, initial_value),
            Call::DestroySynchronizationObject { fence } => self.destroy_fence(fence),
            Call::SignalFromCpu { ref fences, .. } => {
                for &FenceValue { fence, value } in fences {
                    let id = self.monitored(fence, value)?;
                    self.runtime.vidmm().signal_monitored_fence(id, value).map_err(invalid)?;
                }
                Ok(Reply::default())
            }
            Call::SignalFromGpu { context, ref fences } => {
                let signal = |session: &mut Self, of: &FenceValue| {
                    let fence = session.monitored(of.fence, of.value)?;
                    Ok(FenceValueDesc { fence, value: of.value })
                };
                let signals = fences.iter().map(|of| signal(self, of)).collect::<Result<Vec<_>, Reply>>()?;
                self.queue(context, Vec::new(), signals)
            }
            Call::WaitFromGpu { context, ref fences } => self.wait_from_gpu(context, fences),
            Call::WaitFromCpu { ref fences, any, .. } => self.wait_from_cpu(fences, any),
            Call::QueryVideoMemoryInfo { adapter, local } => {
                self.object::<Adapter>(adapter)?;
                let process = self.process;
                let info = self.runtime.vidmm().query_video_memory_info(process, group(local)).map_err(invalid)?;
                let figures =
                    [info.budget, info.current_usage, info.current_reservation, info.available_for_reservation];
                Ok(Reply { values: figures.to_vec(), ..Reply::default() })
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
                let handle = self.insert(Object::TrimNotification(TrimNotification { device, id: notification }))?;
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
                self.find(Rule::NeverSignalled, text, None);
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

    /// Removes an object, and all that the session knows by the object.
    fn forget(&mut self, handle: u32) {
        match self.handles.remove(handle, self.call) {
            Ok(Object::Allocation(_)) => self.addresses.forget(handle),
            Ok(Object::PagingQueue(queue)) => self.free_slots.extend(self.slots_of_queues.remove(&queue.id)),
            Ok(Object::Fence(Fence { of: FenceOf::Monitored(id), address, .. })) => {
                self.fences_by_address.remove(&address);
                self.free_slots.extend(self.slots_of_fences.remove(&id));
            }
            Ok(Object::TrimNotification(of)) => _ = self.notifications.remove(&of.id),
            _ => {}
        }
    }

    fn create_device(&mut self, adapter: u32) -> Answer {
        self.object::<Adapter>(adapter)?;
        let process = self.process;
        let id = self.runtime.vidmm().create_device(process).map_err(invalid)?;
        let progress = CreateMonitoredFenceDesc { device: Some(id), initial_fence_value: 0 };
        let progress = self.runtime.vidmm().create_monitored_fence(progress).map_err(invalid)?;
        let device =
            Device { id, adapter, progress, submitted: 0, queues: Vec::new(), refused: None, asked_to_trim: None };
        Ok(Reply::created([self.insert(Object::Device(device))?]))
    }

    fn destroy_device(&mut self, device: u32) -> Answer {
        let id = self.object::<Device>(device)?.id;
        self.judge_leaks("allocations", |object| matches!(object, Object::Allocation(of) if of.device == device));
        let (vidmm, kmd, host) = self.runtime.borrow();
        vidmm.destroy_device(kmd, host, id).map_err(invalid)?;
        let of_device = self.handles.iter().filter(|(_, object)| object.device() == Some(device));
        let of_device = Vec::from_iter(of_device.map(|(handle, _)| handle));
        of_device.into_iter().chain([device]).for_each(|handle| self.forget(handle));
        Ok(Reply::default())
    }

    /// A client destroys the inner objects before the outer object.
    fn judge_leaks(&mut self, kind: &str, is_left: impl Fn(&Object) -> bool) {
        let left = self.handles.iter().filter(|(_, object)| is_left(object));
        let left = Vec::from_iter(left.map(|(handle, _)| handle));
        if let Some(first) = left.first() {
            self.find(Rule::Leaked, format!("{} {kind} are left, the first is {first:#x}", left.len()), None);
        }
    }

    fn device_state(&mut self, device: u32) -> Answer {
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

    fn create_paging_queue(&mut self, device: u32, priority: i32) -> Answer {
        let of = self.object::<Device>(device)?.id;
        let id = self.runtime.vidmm().create_paging_queue(of, priority).map_err(invalid)?;
        let slot = self.new_slot(0);
        self.slots_of_queues.insert(id, slot);
        let queue = self.insert(Object::PagingQueue(PagingQueue { device, id, fence: 0, owed: BTreeMap::new() }))?;
        let (of, address) = (FenceOf::PagingQueue(queue), FENCE_ADDRESSES + 8 * slot as u64);
        let fence = self.insert(Object::Fence(Fence { device, slot, of, address, promised: 0 }))?;
        self.object::<PagingQueue>(queue)?.fence = fence;
        self.object::<Device>(device)?.queues.push(queue);
        Ok(Reply { address: slot as u64, ..Reply::created([queue, fence]) })
    }

    fn destroy_paging_queue(&mut self, paging_queue: u32) -> Answer {
        let &mut PagingQueue { device, id, fence, .. } = self.object(paging_queue)?;
        self.object::<Device>(device)?.queues.retain(|&queue| queue != paging_queue);
        self.retry(|session| session.runtime.vidmm().destroy_paging_queue(id))?;
        [paging_queue, fence].into_iter().for_each(|handle| self.forget(handle));
        Ok(Reply::default())
    }

    /// Destroys what may be in use: time passes until nothing uses the object.
    fn retry(&mut self, destroy: impl Fn(&mut Self) -> Result<(), vidmm::DestroyError>) -> Result<(), Reply> {
        self.patiently(destroy, |_, error| matches!(error, vidmm::DestroyError::InUse { .. })).map_err(invalid)
    }

    fn create_context(&mut self, device: u32, node_ordinal: u32) -> Answer {
        let of = self.object::<Device>(device)?.id;
        let engine = if node_ordinal == 0 { RENDER_ENGINE } else { COPY_ENGINE };
        let (vidmm, kmd, _) = self.runtime.borrow();
        let id = vidmm.create_context(kmd, of, engine).map_err(invalid)?;
        let context = Context { device, id, waits: Vec::new(), awaited: BTreeMap::new() };
        Ok(Reply::created([self.insert(Object::Context(context))?]))
    }

    fn destroy_context(&mut self, context: u32) -> Answer {
        let id = self.object::<Context>(context)?.id;
        self.retry(|session| {
            let (vidmm, kmd, _) = session.runtime.borrow();
            vidmm.destroy_context(kmd, id)
        })?;
        self.forget(context);
        Ok(Reply::default())
    }

    fn create_allocations(
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

    fn destroy_allocations(&mut self, device: u32, resource: u32, named: &[u32], flags: u32) -> Answer {
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

    /// The number of the last submission of a device that has ended in the client's eyes.
    fn progress(&mut self, device: u32) -> Result<u64, Reply> {
        if self.settings.null_hardware {
            return Ok(u64::MAX);
        }
        let progress = self.object::<Device>(device)?.progress;
        Ok(self.runtime.vidmm().monitored_fence_value(progress).unwrap_or(u64::MAX))
    }

    /// The device has given memory back.
    fn gave_back(&mut self, device: u32) {
        if let Ok(Object::Device(device)) = self.handles.get_mut(device) {
            (device.refused, device.asked_to_trim) = (None, None);
        }
    }

    /// Reserves addresses on a paging queue, or on the adapter.
    fn reserve(&mut self, object: u32, base: u64, (minimum, maximum): (u64, u64), size: u64) -> Answer {
        let queue = match self.handles.get(object) {
            Ok(Object::PagingQueue(queue)) => Some(queue.id),
            Ok(Object::Adapter(_)) => self.slots_of_queues.keys().next().copied(),
            _ => None,
        };
        let Some(queue) = queue else {
            let dead = self.handles.get(object).err();
            return Err(self.dead(object, "paging queue or adapter with a device", dead));
        };
        let base = if base == 0 { self.addresses.choose(minimum, maximum, size) } else { Some(base) };
        let base = base.ok_or_else(|| invalid("no free range lies between the two addresses"))?;
        let (vidmm, _, host) = self.runtime.borrow();
        let reserved = vidmm
            .reserve_gpu_virtual_address(host, queue, Some(GpuVirtualAddress(base)), size)
            .map_err(|error| map_refused(&error))?;
        self.addresses.reserve(base, size);
        Ok(Reply { address: base, ..Reply::paging(reserved.paging_fence_value) })
    }

    fn map(&mut self, call: &Call) -> Answer {
        let &Call::MapGpuVirtualAddress {
            paging_queue,
            allocation,
            base,
            minimum,
            maximum,
            offset,
            size,
            protection,
            driver_protection,
        } = call
        else {
            unreachable!("the caller has looked");
        };
        let queue = self.object::<PagingQueue>(paging_queue)?.id;
        let &mut Allocation { id, size: whole, .. } = self.object(allocation)?;
        let size = if size == 0 { whole.saturating_sub(offset).next_multiple_of(4096) } else { size };
        let (mut from, is_chosen) = (minimum, base == 0);
        let (base, mapped) = loop {
            let base = if is_chosen { self.addresses.choose(from, maximum, size) } else { Some(base) };
            let base = base.ok_or_else(|| invalid("no free range lies between the two addresses"))?;
            let desc = MapGpuVirtualAddress {
                base_address: Some(GpuVirtualAddress(base)),
                allocation: id,
                offset,
                size,
                write: protection & PROTECTION_WRITE != 0,
                execute: protection & PROTECTION_EXECUTE != 0,
                driver_protection,
            };
            let (vidmm, _, host) = self.runtime.borrow();
            match vidmm.map_gpu_virtual_address(host, queue, &desc) {
                Ok(mapped) => break (base, mapped),
                // Work in flight may still use a range that was freed.
                Err(MapError::Range(VaRangeError::InUse)) if is_chosen => from = base + size,
                // The first addresses of a process are nobody's (GVA-58).
                Err(MapError::Range(VaRangeError::Invalid { first, .. })) if is_chosen && base < first.0 => {
                    from = first.0;
                }
                Err(error) => return Err(map_refused(&error)),
            }
        };
        self.addresses.map(base, Mapping { size, allocation });
        self.owe(paging_queue, "MapGpuVirtualAddress", mapped.paging_fence_value)?;
        Ok(Reply { address: base, ..Reply::paging(mapped.paging_fence_value) })
    }

    /// Frees addresses. Time passes while work in flight uses what was mapped in a reservation, and was destroyed.
    fn free_address(&mut self, adapter: u32, base: u64, size: u64) -> Answer {
        self.object::<Adapter>(adapter)?;
        let free = |session: &mut Self| {
            let process = session.process;
            let (vidmm, _, host) = session.runtime.borrow();
            vidmm.free_gpu_virtual_address(host, process, GpuVirtualAddress(base), size)
        };
        let is_early = |session: &Self, error: &GpuVaError| {
            matches!(error, GpuVaError::Range(VaRangeError::HasMappings)) && !session.addresses.has_mappings(base, size)
        };
        self.patiently(free, is_early).map_err(invalid)?;
        self.addresses.free(base, size);
        Ok(Reply::default())
    }

    /// A call on a paging queue ends with a value of the queue's fence.
    fn owe(&mut self, paging_queue: u32, function: &'static str, value: u64) -> Result<(), Reply> {
        if value == 0 {
            return Ok(());
        }
        let call = self.call;
        let queue = self.object::<PagingQueue>(paging_queue)?;
        queue.owed.insert(function, (value, call));
        let fence = queue.fence;
        let fence = self.object::<Fence>(fence)?;
        fence.promised = fence.promised.max(value);
        Ok(())
    }

    fn make_resident(&mut self, paging_queue: u32, handles: &[u32], flags: u32) -> Answer {
        let &mut PagingQueue { device, id: queue, .. } = self.object(paging_queue)?;
        let ids = self.allocation_ids(handles)?;
        let flags = MakeResidentFlags::from_bits(flags).ok_or_else(|| invalid("there are no such flags"))?;
        let is_final = flags.contains(MakeResidentFlags::CANT_TRIM_FURTHER);
        if flags == MakeResidentFlags::MUST_SUCCEED {
            self.find(Rule::MustSucceedAlone, "MustSucceed is legal only together with CantTrimFurther", None);
        }
        if is_final {
            self.judge_trimming(device);
        }
        let one_in = if is_final { self.settings.refuse_final } else { self.settings.refuse };
        let faulty = !flags.contains(MakeResidentFlags::MUST_SUCCEED) && self.strikes(one_in);
        let made = if faulty {
            self.refused_by_fault += 1;
            let sizes = handles.iter().map(|&handle| self.object::<Allocation>(handle).map_or(0, |of| of.size));
            Err((sizes.sum(), "a fault of the settings".to_owned()))
        } else {
            self.runtime.vidmm().make_resident(queue, &ids, flags).map_err(|error| match error {
                MakeResidentError::NoMemory { num_bytes_to_trim, .. } => (num_bytes_to_trim, error.to_string()),
                _ => (u64::MAX, error.to_string()),
            })
        };
        match made {
            Ok(residency) => {
                let since = (self.call, self.object::<Device>(device)?.submitted);
                for &handle in handles {
                    let allocation = self.object::<Allocation>(handle)?;
                    if allocation.count == 0 {
                        allocation.made_resident = since;
                    }
                    allocation.count += 1;
                }
                let value = match residency {
                    Residency::Resident => 0,
                    Residency::Pending { paging_fence_value } => paging_fence_value,
                };
                self.owe(paging_queue, "MakeResident", value)?;
                Ok(Reply::paging(value))
            }
            Err((u64::MAX, reason)) => Err(invalid(reason)),
            Err((num_bytes_to_trim, reason)) => {
                let idle_bytes = self.idle_bytes(device, handles)?;
                let refused = Refused { call: self.call, num_bytes_to_trim, idle_bytes };
                self.object::<Device>(device)?.refused = Some(refused);
                Err(Reply { num_bytes_to_trim, ..Reply::refused(Status::NO_MEMORY, reason) })
            }
        }
    }

    /// The bytes of the device's list beside the named allocations, if no work of the device is in flight.
    fn idle_bytes(&mut self, device: u32, named: &[u32]) -> Result<u64, Reply> {
        let submitted = self.object::<Device>(device)?.submitted;
        if self.progress(device)? < submitted {
            return Ok(0);
        }
        let idle = self.handles.iter().filter_map(|(handle, object)| match object {
            Object::Allocation(of) if of.device == device && of.count > 0 && of.locks == 0 => Some((handle, of.size)),
            _ => None,
        });
        Ok(idle.filter(|(handle, _)| !named.contains(handle)).map(|(_, size)| size).sum())
    }

    /// A device says that it can trim no further.
    fn judge_trimming(&mut self, device: u32) {
        let Ok(Object::Device(record)) = self.handles.get_mut(device) else { return };
        // Where nothing was to be trimmed, no trim would have made room.
        let would_help = |refused: &Refused| refused.num_bytes_to_trim > 0 && refused.idle_bytes > 0;
        let Some(refused) = record.refused.take().filter(would_help) else { return };
        let text = format!(
            "CantTrimFurther, and nothing was given back after a refusal with NumBytesToTrim {}, though {} bytes of idle allocations are on the list",
            refused.num_bytes_to_trim, refused.idle_bytes
        );
        self.find(Rule::NothingTrimmed, text, Some(refused.call));
    }

    fn evict(&mut self, device: u32, handles: &[u32], flags: u32) -> Answer {
        let id = self.object::<Device>(device)?.id;
        let ids = self.allocation_ids(handles)?;
        let flags = EvictFlags::from_bits(flags).ok_or_else(|| invalid("there are no such flags"))?;
        match self.runtime.vidmm().evict(id, &ids, flags) {
            Ok(num_bytes_to_trim) => {
                let &mut Device { submitted, ref refused, .. } = self.object(device)?;
                let refused = refused.as_ref().map(|refused| refused.call);
                for &handle in handles {
                    let (made, before) = self.object::<Allocation>(handle)?.made_resident;
                    if let Some(refused) = refused.filter(|_| before == submitted) {
                        let text = format!(
                            "{handle:#x} is evicted after call {refused} was refused, and no work has used it since it was made resident"
                        );
                        self.find(Rule::TakenBack, text, Some(made));
                    }
                    let allocation = self.object::<Allocation>(handle)?;
                    (allocation.count, allocation.last_submission) = (allocation.count - 1, submitted);
                }
                self.gave_back(device);
                Ok(Reply { num_bytes_to_trim, ..Reply::default() })
            }
            Err(EvictError::NotResident { position }) => {
                let text = format!("{:#x} was evicted more often than it was made resident", handles[position]);
                self.find(Rule::EvictedTooOften, text.clone(), None);
                Err(invalid(text))
            }
            Err(error) => Err(invalid(error)),
        }
    }

    fn reclaim(&mut self, paging_queue: u32, handles: &[u32]) -> Answer {
        let queue = self.object::<PagingQueue>(paging_queue)?.id;
        let ids = self.allocation_ids(handles)?;
        let (vidmm, _, host) = self.runtime.borrow();
        let reclaimed = vidmm.reclaim_allocations(host, queue, &ids).map_err(invalid)?;
        let value = reclaimed.paging_fence_value;
        self.owe(paging_queue, "ReclaimAllocations2", value)?;
        let mut reply = Reply::paging(value);
        reply.values.extend(reclaimed.results.into_iter().map(|result| result as u64));
        Ok(reply)
    }

    /// Locks an allocation. Time passes while the content is on its way (RES-80).
    fn lock(&mut self, device: u32, allocation: u32) -> Answer {
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

    fn submit(&mut self, context: u32, commands: u64, (fence_address, fence_value): (u64, u64)) -> Answer {
        let device = self.object::<Context>(context)?.device;
        self.judge_commands(commands);
        self.judge_fences(context)?;
        self.judge_trim(device);
        let mut signals = Vec::new();
        if fence_address != 0 {
            let handle = self.fences_by_address.get(&fence_address).copied();
            let handle = handle.ok_or_else(|| invalid("the private data names a fence that is not there"))?;
            signals.push(FenceValueDesc { fence: self.monitored(handle, fence_value)?, value: fence_value });
        }
        let kernel = KernelCommand {
            kernel: self.call,
            nanoseconds: self.settings.work,
            content: Default::default(),
            inputs: Vec::new(),
            outputs: Vec::new(),
        };
        let dma_buffer = self.runtime.umd().encode_kernel(&kernel);
        self.queue(context, dma_buffer, signals)
    }

    /// Queues work behind what the context waits for.
    fn queue(&mut self, context: u32, dma_buffer: Vec<u8>, mut signals: Vec<FenceValueDesc>) -> Answer {
        let of = self.object::<Context>(context)?;
        let (id, handle, waits) = (of.id, of.device, core::mem::take(&mut of.waits));
        let device = self.object::<Device>(handle)?;
        device.submitted += 1;
        let number = device.submitted;
        signals.push(FenceValueDesc { fence: device.progress, value: number });
        let desc = SubmitDesc { dma_buffer, waits, signals, allocations: Vec::new() };
        let submit = |session: &mut Self| session.runtime.vidmm().submit(id, desc.clone());
        let submitted = self.patiently(submit, |_, error| matches!(error, SubmitError::QueueFull { .. }));
        let _ = submitted.map_err(|error| match error {
            SubmitError::DeviceInError(_) => Reply::refused(Status::DEVICE_REMOVED, error),
            _ => invalid(error),
        })?;
        Ok(Reply::default())
    }

    /// The commands must be where an allocation is mapped that the device's list names (RES-05).
    fn judge_commands(&mut self, commands: u64) {
        let text = match self.addresses.allocation_at(commands) {
            None => format!("nothing is mapped at {commands:#x}"),
            Some(handle) => match self.handles.get(handle) {
                Ok(Object::Allocation(of)) if of.count > 0 => return,
                _ => format!("{handle:#x}, which is mapped at {commands:#x}, is not on the device's list"),
            },
        };
        self.find(Rule::CommandsNotResident, text, None);
    }

    /// The paging fences of earlier calls must be reached, or be waited for by the context (RES-12, GVA-50).
    fn judge_fences(&mut self, context: u32) -> Result<(), Reply> {
        let of = self.object::<Context>(context)?;
        let (device, awaited) = (of.device, of.awaited.clone());
        let mut owed = Vec::new();
        for handle in self.object::<Device>(device)?.queues.clone() {
            let queue = self.object::<PagingQueue>(handle)?;
            let (id, of_queue) = (queue.id, queue.owed.clone());
            let reached = self.values[self.slots_of_queues[&id]].max(awaited.get(&handle).copied().unwrap_or(0));
            owed.extend(of_queue.into_iter().map(|(function, (value, call))| (function, value, call, reached)));
        }
        for (function, value, call, reached) in owed {
            if value > reached {
                let rule = match function {
                    "MapGpuVirtualAddress" => Rule::SubmittedBeforeMapped,
                    _ => Rule::SubmittedBeforeResident,
                };
                let text = format!("work is submitted before the paging fence of {function}, {value}, was waited for");
                self.find(rule, text, Some(call));
            }
        }
        Ok(())
    }

    /// A notification to trim must have an effect (RES-40).
    fn judge_trim(&mut self, device: u32) {
        let now = self.call;
        let Ok(Object::Device(record)) = self.handles.get_mut(device) else { return };
        if let Some(asked) = record.asked_to_trim.filter(|asked| now > asked.call + CALLS_TO_TRIM) {
            record.asked_to_trim = None;
            let text = format!("{} bytes were to be trimmed, and nothing was given back", asked.num_bytes_to_trim);
            self.find(Rule::TrimIgnored, text, Some(asked.call));
        }
    }

    fn create_fence(&mut self, device: u32, initial_value: u64) -> Answer {
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

    fn destroy_fence(&mut self, fence: u32) -> Answer {
        let of = self.object::<Fence>(fence)?.of;
        let FenceOf::Monitored(id) = of else {
            return Err(invalid("a paging queue's fence ends with the queue"));
        };
        self.retry(|session| session.runtime.vidmm().destroy_monitored_fence(id))?;
        self.forget(fence);
        Ok(Reply::default())
    }

    /// The manager's fence of a handle, which is to reach a value.
    fn monitored(&mut self, handle: u32, value: u64) -> Result<vidmm::MonitoredFenceId, Reply> {
        let fence = self.object::<Fence>(handle)?;
        match fence.of {
            FenceOf::Monitored(id) => {
                fence.promised = fence.promised.max(value);
                Ok(id)
            }
            FenceOf::PagingQueue(_) => Err(invalid("the fence of a paging queue is signalled by the queue alone")),
        }
    }

    fn wait_from_gpu(&mut self, context: u32, fences: &[FenceValue]) -> Answer {
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

    fn wait_from_cpu(&mut self, fences: &[FenceValue], any: bool) -> Answer {
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

fn map_refused(error: &MapError) -> Reply {
    let status = match error {
        MapError::DeviceInError(_) => Status::DEVICE_REMOVED,
        MapError::NoMemory { .. } | MapError::PageTableAreaFull { .. } => Status::NO_MEMORY,
        _ => Status::INVALID_PARAMETER,
    };
    Reply::refused(status, error)
}

fn group(is_local: bool) -> MemorySegmentGroup {
    if is_local { MemorySegmentGroup::Local } else { MemorySegmentGroup::NonLocal }
}
