//! Calls with handles that are stale, or another device's: each is refused, and changes nothing (P53).

use super::*;

/// One object of each kind.
struct Objects {
    process: ProcessId,
    device: DeviceId,
    queue: PagingQueueId,
    context: ContextId,
    allocation: AllocationId,
    fence: MonitoredFenceId,
    trims: TrimNotificationId,
}

macro_rules! refused {
    ($caller:ident, $($call:expr),+ $(,)?) => {
        $(assert!($caller.attempt("wrong handle", $call).is_none(), "accepted: {}", stringify!($call));)+
    };
}

impl Caller {
    /// A destroyed object is not confused with the one that has its place now.
    pub fn make_stale_calls(&mut self) {
        let stale = self.create_objects();
        self.destroy_objects(&stale);
        let alive = self.create_objects();
        let before = self.world.fingerprint();
        self.make_calls_with(&stale, &alive);
        assert_eq!(self.world.fingerprint(), before, "something followed from a refused call");
        self.destroy_objects(&alive);
    }

    fn make_calls_with(&mut self, stale: &Objects, alive: &Objects) {
        let &Objects { process, device, queue, context, allocation, fence, trims } = stale;
        let (local, at, some) = (MemorySegmentGroup::Local, GpuVirtualAddress(1 << 16), &[allocation][..]);
        let (here, there) = (&[alive.allocation][..], alive.device);
        let whole = MapGpuVirtualAddress::whole;
        let none = MakeResidentFlags::empty();
        let update = UpdateAllocationProperty::default();
        let data = private_data(PAGE_SIZE, NORMAL);
        let waits = |fence| SubmitDesc { waits: vec![FenceValueDesc { fence, value: 1 }], ..SubmitDesc::default() };
        let (normal, visible) = (PriorityBand::Normal, Visibility::Visible);
        let (auto, offer) = (OfferPriority::Auto, OfferFlags::empty());
        refused!(
            self,
            |v, k, h| v.destroy_process(k, h, process),
            |v, _, _| v.create_device(process),
            |v, _, host| v.free_gpu_virtual_address(host, process, at, PAGE_SIZE_64K),
            |v, _, _| v.query_video_memory_info(process, local),
            |v, _, _| v.announce(device, here),
            |v, _, _| v.announce(there, some),
            |v, _, _| v.query_room(device, here),
            |v, _, _| v.query_room(there, some),
            |v, _, _| v.query_room(there, &[]),
            |v, _, _| v.change_video_memory_reservation(process, local, 0),
            |v, _, _| v.set_process_priority(process, normal, visible),
            |v, _, _| v.notify_budget_changes(process, true),
            |v, _, _| v.suspend_process(process, false),
            |v, _, _| v.resume_process(process),
            |v, k, h| v.destroy_device(k, h, device),
            |v, k, _| v.create_context(k, device, RENDER),
            |v, _, _| v.create_paging_queue(device, 0),
            |v, _, _| v.register_trim_notification(device),
            |v, k, h| v.create_allocation(k, h, device, &data),
            |v, k, _| v.open_allocation(k, device, here[0]),
            |v, _, _| v.close_allocation(device, here[0]),
            |v, _, _| v.evict(device, here, EvictFlags::empty()),
            |v, _, _| v.offer_allocations(device, here, auto, offer),
            |v, _, h| v.lock(h, device, here[0]),
            |v, _, _| v.destroy_paging_queue(queue),
            |v, _, _| v.paging_fence_value(queue),
            |v, _, _| v.make_resident(queue, here, none),
            |v, _, h| v.map_gpu_virtual_address(h, queue, &whole(here[0])),
            |v, _, h| v.reserve_gpu_virtual_address(h, queue, None, PAGE_SIZE_64K),
            |v, _, h| v.reclaim_allocations(h, queue, here),
            |v, k, _| v.update_allocation_property(k, queue, here[0], &update),
            |v, k, _| v.destroy_context(k, context),
            |v, _, _| v.submit(context, SubmitDesc::default()),
            |v, _, _| v.set_context_scheduling_priority(context, 1),
            |v, _, _| v.destroy_monitored_fence(fence),
            |v, _, _| v.signal_monitored_fence(fence, 1),
            |v, _, _| v.monitored_fence_value(fence),
            |v, _, _| v.submit(alive.context, waits(fence)),
            |v, _, _| v.unregister_trim_notification(trims),
            |v, _, host| v.destroy_allocation(host, allocation, DestroyFlags::empty()),
            |v, k, _| v.open_allocation(k, there, allocation),
            |v, _, _| v.close_allocation(there, allocation),
            |v, _, _| v.evict(there, some, EvictFlags::empty()),
            |v, _, _| v.offer_allocations(there, some, auto, offer),
            |v, _, h| v.lock(h, there, allocation),
            |v, _, h| v.unlock(h, allocation),
            |v, _, _| v.make_resident(alive.queue, some, none),
            |v, _, _| v.make_resident(alive.queue, &[here[0], allocation], none),
            |v, _, h| v.map_gpu_virtual_address(h, alive.queue, &whole(allocation)),
            |v, _, h| v.reclaim_allocations(h, alive.queue, some),
            |v, k, _| v.update_allocation_property(k, alive.queue, allocation, &update),
            |v, _, _| v.set_allocation_priority(allocation, 1),
        );
    }

    /// Objects of another device are not to be used.
    pub fn make_foreign_calls(&mut self) {
        let (own, other) = (self.create_objects(), self.create_objects());
        let before = self.world.fingerprint();
        let (device, queue, theirs) = (own.device, own.queue, other.allocation);
        let both = &[own.allocation, theirs][..];
        let update = UpdateAllocationProperty::default();
        let (auto, offer, none) = (OfferPriority::Auto, OfferFlags::empty(), MakeResidentFlags::empty());
        refused!(
            self,
            |v, _, _| v.make_resident(queue, both, none),
            |v, _, _| v.evict(device, &[theirs], EvictFlags::empty()),
            |v, _, _| v.offer_allocations(device, both, auto, offer),
            |v, _, h| v.reclaim_allocations(h, queue, both),
            |v, _, h| v.lock(h, device, theirs),
            |v, _, h| v.map_gpu_virtual_address(h, queue, &MapGpuVirtualAddress::whole(theirs)),
            |v, k, _| v.update_allocation_property(k, queue, theirs, &update),
            |v, k, _| v.open_allocation(k, device, theirs),
            |v, _, _| v.close_allocation(device, theirs),
        );
        assert_eq!(self.world.fingerprint(), before, "something followed from a refused call");
        self.destroy_objects(&own);
        self.destroy_objects(&other);
    }

    fn create_objects(&mut self) -> Objects {
        let data = private_data(PAGE_SIZE, NORMAL);
        let objects = self.world.call(|vidmm, driver, host| {
            let process = vidmm.create_process(driver, host)?;
            let device = vidmm.create_device(process)?;
            Ok::<_, CreateError>(Objects {
                process,
                device,
                queue: vidmm.create_paging_queue(device, 0)?,
                context: vidmm.create_context(driver, device, RENDER)?,
                allocation: vidmm.create_allocation(driver, host, device, &data)?,
                fence: vidmm.create_monitored_fence(0)?,
                trims: vidmm.register_trim_notification(device)?,
            })
        });
        self.world.run_all();
        objects.unwrap()
    }

    fn destroy_objects(&mut self, objects: &Objects) {
        let &Objects { process, device, queue, context, allocation, fence, trims } = objects;
        self.world.call(|vidmm, _, host| vidmm.destroy_allocation(host, allocation, DestroyFlags::empty())).unwrap();
        self.world.run_all();
        self.world.call(|vidmm, _, _| vidmm.unregister_trim_notification(trims)).unwrap();
        self.world.call(|vidmm, driver, _| vidmm.destroy_context(driver, context)).unwrap();
        self.world.call(|vidmm, _, _| vidmm.destroy_paging_queue(queue)).unwrap();
        self.world.call(|vidmm, _, _| vidmm.destroy_monitored_fence(fence)).unwrap();
        self.world.call(|vidmm, driver, host| vidmm.destroy_device(driver, host, device)).unwrap();
        self.world.call(|vidmm, driver, host| vidmm.destroy_process(driver, host, process)).unwrap();
    }
}
