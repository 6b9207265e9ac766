//! Processes, devices, contexts, queues, fences, allocations: their creation and their end.

use alloc::collections::{BTreeSet, VecDeque};

use crate::{
    adapter::{Adapter, NotificationRevision},
    allocation::{Allocation, AllocationState, Owner},
    contract::{AllocationFlags, AllocationFlags2, AllocationInfo, Host, Kmd, SegmentSet, WddmVersion},
    error::{AllocationInfoRule, CreateError, DestroyError, DriverFinding, Violation},
    event::Event,
    gpu_va::{PageTables, Process, Table, TableKey, VaSpace},
    id::{AllocationId, ContextId, DeviceId, InvalidHandle, MonitoredFenceId, PagingQueueId, ProcessId},
    pool::{PerPool, Pool},
    residency::{EvictFlags, Lapsing},
    state::{Context, Deferred, DeferredAction, Device, MonitoredFence, PagingQueue, VidMm},
    units::{Extent, PAGE_SIZE_64K, PageSize, PhysicalAddress},
};

impl VidMm {
    /// A process begins to use the adapter. The memory of its root page table is set aside (D9).
    ///
    /// # Errors
    ///
    /// If the driver has no memory, or the root table would not fit beside what others were promised.
    #[doc(alias = "DxgkDdiCreateProcess")]
    pub fn create_process(&mut self, kmd: &mut dyn Kmd, host: &mut dyn Host) -> Result<ProcessId, CreateError> {
        let (first, end) =
            self.adapter.process_addresses(self.processes.next_index()).ok_or(CreateError::NoAddresses)?;
        let handle = kmd.create_process(false)?;
        let mut tables = PageTables::default();
        if self.adapter.has_page_tables() {
            let root = self.set_root_aside(host).inspect_err(|_| kmd.destroy_process(handle))?;
            tables.insert(TableKey::root(&self.adapter), root);
        }
        let space = VaSpace::new(first, end);
        let process = self.processes.insert(Process { handle, space, tables, devices: 0 });
        if self.adapter.has_page_tables() {
            self.rootless.insert(process.index() as u32);
        }
        self.stirred = true;
        self.events.record(|| Event::ProcessCreated { process, handle });
        Ok(process)
    }

    fn set_root_aside(&mut self, host: &mut dyn Host) -> Result<Table, CreateError> {
        let root = TableKey::root(&self.adapter);
        let mut table = Table { address: None, plan: 0, initialised: false };
        if self.adapter.tables_in_system {
            table.address = Some(host.commit_backing_store(root.bytes(&self.adapter))?);
            return Ok(table);
        }
        let bytes = root.segment_bytes(&self.adapter);
        let free = self.list_capacity(Pool::Memory) - self.promised_bytes[Pool::Memory];
        if bytes > free {
            return Err(CreateError::NoMemory { num_bytes_to_trim: bytes - free });
        }
        self.pinned_bytes += bytes;
        Ok(table)
    }

    /// A process ends; its page tables are freed.
    ///
    /// # Errors
    ///
    /// If it still has devices, or tables whose initialisation is under way.
    #[doc(alias = "DxgkDdiDestroyProcess")]
    pub fn destroy_process(
        &mut self,
        kmd: &mut dyn Kmd,
        host: &mut dyn Host,
        process: ProcessId,
    ) -> Result<(), DestroyError> {
        let index = self.processes.lookup(process)?;
        let Process { devices, ref tables, .. } = self.processes[index];
        let under_way = tables.iter().filter(|(_, table)| !self.stream.is_retired(table.plan)).count();
        in_use(u64::from(devices) + under_way as u64)?;
        self.rootless.remove(&(index as u32));
        let gone = self.processes.remove(index);
        for (key, table) in gone.tables.iter() {
            let size = key.segment_bytes(&self.adapter);
            match table.address {
                Some(address) if address.segment.is_system() => {
                    host.decommit_backing_store(address, key.bytes(&self.adapter));
                }
                Some(PhysicalAddress { offset, .. }) => {
                    self.placer.release(Extent { offset, size });
                    self.pinned_bytes -= size;
                }
                None => self.pinned_bytes -= size,
            }
        }
        kmd.destroy_process(gone.handle);
        self.events.record(|| Event::ProcessDestroyed { process });
        self.stirred = true;
        Ok(())
    }

    /// Creates a device: what has a residency list, and what is put in error.
    ///
    /// # Errors
    ///
    /// If the process does not exist.
    #[doc(alias = "DxgkDdiCreateDevice")]
    pub fn create_device(&mut self, process: ProcessId) -> Result<DeviceId, CreateError> {
        let process_index = self.processes.lookup(process)?;
        self.processes[process_index].devices += 1;
        let device = self.devices.insert(Device {
            process: process_index as u32,
            error: None,
            contexts: 0,
            paging_queues: 0,
            allocations: 0,
            list: PerPool::default(),
            held: PerPool::default(),
            lapsing: Lapsing::default(),
            requests: VecDeque::new(),
            ready: 0,
            granted: 0,
            last_request: 0,
            submitted: 0,
            undispatched: BTreeSet::new(),
            unretired: BTreeSet::new(),
            deferred: VecDeque::new(),
        });
        self.events.record(|| Event::DeviceCreated { device, process });
        Ok(device)
    }

    /// Destroys a device.
    ///
    /// # Errors
    ///
    /// If contexts, paging queues or allocations of it still live: an allocation lives until its last use has ended.
    #[doc(alias = "DxgkDdiDestroyDevice")]
    pub fn destroy_device(&mut self, device: DeviceId) -> Result<(), DestroyError> {
        let index = self.devices.lookup(device)?;
        let Device { contexts, paging_queues, allocations, .. } = self.devices[index];
        in_use(u64::from(contexts) + u64::from(paging_queues) + u64::from(allocations))?;
        let gone = self.devices.remove(index);
        Pool::ALL.into_iter().for_each(|pool| self.promised_bytes[pool] -= gone.promised(pool));
        self.processes[gone.process as usize].devices -= 1;
        self.events.record(|| Event::DeviceDestroyed { device });
        Ok(())
    }

    /// Creates a context: a queue of work for engine `engine`.
    ///
    /// # Errors
    ///
    /// If the device does not exist or is in error, the engine takes no contexts, or the driver has no memory.
    #[doc(alias = "DxgkDdiCreateContext")]
    pub fn create_context(
        &mut self,
        kmd: &mut dyn Kmd,
        device: DeviceId,
        engine: u32,
    ) -> Result<ContextId, CreateError> {
        let device_index = self.devices.lookup(device)?;
        self.check_device(device_index)?;
        let paging = self.adapter.paging_engine;
        if engine as usize >= self.engines.len() || engine == paging {
            return Err(CreateError::Engine { engine, last: self.engines.len() as u32 - 1, paging });
        }
        let process = self.processes[self.devices[device_index].process as usize].handle;
        let handle = kmd.create_context(process, engine, false)?;
        self.devices[device_index].contexts += 1;
        let context = self.contexts.insert(Context {
            device: device_index as u32,
            engine,
            handle,
            queue: VecDeque::new(),
            in_flight: 0,
            root_is_set: false,
        });
        self.events.record(|| Event::ContextCreated { context, device, engine });
        Ok(context)
    }

    /// Destroys a context.
    ///
    /// # Errors
    ///
    /// If work of it is queued or under way.
    #[doc(alias = "DxgkDdiDestroyContext")]
    pub fn destroy_context(&mut self, kmd: &mut dyn Kmd, context: ContextId) -> Result<(), DestroyError> {
        let index = self.contexts.lookup(context)?;
        in_use((self.contexts[index].queue.len() + self.contexts[index].in_flight) as u64)?;
        let gone = self.contexts.remove(index);
        self.devices[gone.device as usize].contexts -= 1;
        kmd.destroy_context(gone.handle);
        self.events.record(|| Event::ContextDestroyed { context });
        Ok(())
    }

    /// Creates a paging queue with its fence, which begins at 0 (RES-30). Between devices, requests of a queue with higher
    /// `priority` are granted first.
    ///
    /// # Errors
    ///
    /// If the device does not exist or is in error.
    #[doc(alias = "D3DKMTCreatePagingQueue")]
    pub fn create_paging_queue(&mut self, device: DeviceId, priority: i32) -> Result<PagingQueueId, CreateError> {
        let device_index = self.devices.lookup(device)?;
        self.check_device(device_index)?;
        self.devices[device_index].paging_queues += 1;
        let device_number = device_index as u32;
        let queue = self.paging_queues.insert(PagingQueue {
            device: device_number,
            priority,
            pending: 0,
            last_value: 0,
            completed_value: 0,
        });
        self.events.record(|| Event::PagingQueueCreated { queue, device, priority });
        Ok(queue)
    }

    /// Destroys a paging queue and its fence.
    ///
    /// # Errors
    ///
    /// If operations of it are pending (RES-31).
    #[doc(alias = "D3DKMTDestroyPagingQueue")]
    pub fn destroy_paging_queue(&mut self, queue: PagingQueueId) -> Result<(), DestroyError> {
        let index = self.paging_queues.lookup(queue)?;
        in_use(self.paging_queues[index].pending.into())?;
        let gone = self.paging_queues.remove(index);
        self.devices[gone.device as usize].paging_queues -= 1;
        self.events.record(|| Event::PagingQueueDestroyed { queue });
        Ok(())
    }

    /// Creates a monitored fence that begins at `value` (SYN-01).
    #[doc(alias = "D3DDDI_MONITORED_FENCE")]
    pub fn create_monitored_fence(&mut self, value: u64) -> MonitoredFenceId {
        let fence = self.monitored_fences.insert(MonitoredFence { value, dispatched: VecDeque::new(), references: 0 });
        self.events.record(|| Event::MonitoredFenceCreated { fence, value });
        fence
    }

    /// Destroys a monitored fence.
    ///
    /// # Errors
    ///
    /// If queued or running work names it.
    pub fn destroy_monitored_fence(&mut self, fence: MonitoredFenceId) -> Result<(), DestroyError> {
        let index = self.monitored_fences.lookup(fence)?;
        in_use(self.monitored_fences[index].references.into())?;
        self.monitored_fences.remove(index);
        self.events.record(|| Event::MonitoredFenceDestroyed { fence });
        Ok(())
    }

    /// Creates an allocation. The driver decides what it is from `private_driver_data` (CRE-03); the host commits its
    /// backing store (U-9). It is nowhere in the segment until MakeResident (CRE-43), and reads as zero (CRE-42).
    ///
    /// # Errors
    ///
    /// If the driver or the host refuses, or what the driver decided is impossible. Nothing then remains of it.
    #[doc(alias = "D3DKMTCreateAllocation2")]
    #[doc(alias = "DxgkDdiCreateAllocation")]
    pub fn create_allocation(
        &mut self,
        kmd: &mut dyn Kmd,
        host: &mut dyn Host,
        device: DeviceId,
        private_driver_data: &[u8],
    ) -> Result<AllocationId, CreateError> {
        let device_index = self.devices.lookup(device)?;
        self.check_device(device_index)?;
        let info = kmd.create_allocation(private_driver_data)?;
        let size = self.check_allocation(&info);
        let state = self.notifications(&info).map(|notify| notify | self.residence(&info));
        let checked = size.and_then(|size| Ok((size, state?)));
        let committed = checked
            .and_then(|(size, state)| Ok((size, state, host.commit_backing_store(size).map_err(CreateError::from)?)));
        let (size, state, backing_store) = committed.inspect_err(|_| kmd.destroy_allocation(info.allocation))?;
        self.report_notifications(&info, size);
        let owner = Owner { process: self.devices[device_index].process, device: device_index as u32 };
        let (handle, priority) = (info.allocation, info.allocation_priority);
        let allocation = Allocation::new(handle, size, backing_store.offset, owner, priority, state);
        let allocation = self.allocations.insert(allocation);
        self.devices[device_index].allocations += 1;
        let process = self.processes.id(owner.process as usize);
        self.events.record(|| Event::AllocationCreated {
            allocation,
            device,
            process,
            handle,
            size,
            priority,
            backing_store: backing_store.offset,
            supported_segment_set: info.supported_segment_set.0,
            accessed_physically: info.flags.contains(AllocationFlags::ACCESSED_PHYSICALLY),
            notify: notify_flags(state),
        });
        Ok(allocation)
    }

    /// The size of the allocation where it may live, or why it cannot be.
    fn check_allocation(&self, info: &AllocationInfo) -> Result<u64, CreateError> {
        let broken = |rule| Err(CreateError::Violation(Violation::AllocationInfo(rule)));
        let SegmentSet(set) = info.supported_segment_set;
        if set == 0 || set & !self.adapter.segments_mask != 0 {
            return broken(AllocationInfoRule::SegmentSet(set));
        }
        let in_memory = self.adapter.memory.filter(|memory| info.supported_segment_set.contains(memory.id));
        let page_size = in_memory.map_or(PageSize::Kib4, |memory| memory.page_size).bytes();
        let size = info.size.checked_next_multiple_of(page_size).filter(|&size| size > 0);
        let Some(size) = size.filter(|&size| size <= 1 << 62) else {
            return broken(AllocationInfoRule::Size(info.size));
        };
        let alignment = u64::from(info.alignment);
        if alignment != 0 && (!alignment.is_power_of_two() || alignment < page_size) {
            return broken(AllocationInfoRule::Alignment(info.alignment));
        }
        let preferred = info.preferred_segment.0.into_iter().take_while(|segment| segment.0 != 0);
        if let Some(outside) = preferred.into_iter().find(|&segment| !info.supported_segment_set.contains(segment)) {
            return broken(AllocationInfoRule::PreferredSegment(outside.0));
        }
        if info.allocation_priority == 0 {
            return broken(AllocationInfoRule::Priority);
        }
        // Backing stores and ranges of the aperture begin at multiples of 64 KiB.
        let finest = if in_memory.is_some() { page_size } else { PAGE_SIZE_64K };
        let contiguous = in_memory.is_some() && info.flags.contains(AllocationFlags::ACCESSED_PHYSICALLY);
        if alignment > finest || contiguous {
            return Err(CreateError::NotSupported("contiguous placement in the memory segment"));
        }
        Ok(size)
    }

    /// Where the driver lets the allocation be resident. An aperture segment in its set is system memory (SEG-11, SEG-12).
    fn residence(&self, info: &AllocationInfo) -> AllocationState {
        let set = info.supported_segment_set;
        let memory = self.adapter.memory.map(|memory| memory.id);
        let mut state = AllocationState::empty();
        state.set(AllocationState::MAY_BE_IN_MEMORY, memory.is_some_and(|memory| set.contains(memory)));
        state.set(AllocationState::MAY_BE_IN_SYSTEM, set.contains(self.adapter.aperture.id));
        state.set(AllocationState::PREFERS_SYSTEM, info.preferred_segment.0[0] == self.adapter.aperture.id);
        state.set(AllocationState::ACCESSED_PHYSICALLY, info.flags.contains(AllocationFlags::ACCESSED_PHYSICALLY));
        state.set(AllocationState::LISTED_IN_SYSTEM, !state.contains(AllocationState::MAY_BE_IN_MEMORY));
        state
    }

    /// The notifications that the driver asked for and will get (CRE-07, NTF-05).
    fn notifications(&self, info: &AllocationInfo) -> Result<AllocationState, CreateError> {
        let mut state = AllocationState::empty();
        if self.adapter.version < WddmVersion::WDDM3_2 {
            return Ok(state);
        }
        let as_eviction = self.adapter.revision == NotificationRevision::August2024;
        let unmapped = as_eviction || !self.adapter.has_page_tables();
        let wants = |flag| info.flags2.contains(flag);
        state.set(AllocationState::NOTIFY_EVICTION, wants(AllocationFlags2::NOTIFY_EVICTION));
        state.set(AllocationState::NOTIFY_IO_MMU_UNMAP, unmapped && wants(AllocationFlags2::NOTIFY_IO_MMU_UNMAP));
        let in_window = state.contains(AllocationState::NOTIFY_EVICTION)
            || (as_eviction && state.contains(AllocationState::NOTIFY_IO_MMU_UNMAP));
        if in_window && self.adapter.paging_va_size == 0 {
            return Err(CreateError::NoPagingVa);
        }
        Ok(state)
    }

    /// Tells the driver's author what the flags of an allocation will not do.
    fn report_notifications(&mut self, info: &AllocationInfo, size: u64) {
        let known = AllocationFlags2::NOTIFY_EVICTION | AllocationFlags2::NOTIFY_IO_MMU_UNMAP;
        let flags2 = info.flags2 & known;
        let Adapter { version, revision, paging_va_size, .. } = self.adapter;
        if version < WddmVersion::WDDM3_2 {
            if !flags2.is_empty() {
                self.report(DriverFinding::FlagsBeyondVersion { flags2, wddm_version: version.0 });
            }
            return;
        }
        if flags2.contains(AllocationFlags2::NOTIFY_EVICTION) && size > paging_va_size {
            self.report(DriverFinding::AllocationBeyondPagingVa { size, paging_va_size });
        }
        let never_sent = self.adapter.has_page_tables() && revision == NotificationRevision::Current;
        if flags2.contains(AllocationFlags2::NOTIFY_IO_MMU_UNMAP) && never_sent {
            self.report(DriverFinding::NotifyIoMmuUnmapWithoutIoMmu);
        }
    }

    /// Destroys an allocation. Work submitted before may still use it (RES-91): its memory, its addresses and its backing
    /// store are free when that has ended, and the handle is invalid at once. It leaves its device's list.
    ///
    /// # Errors
    ///
    /// If the handle names nothing.
    #[doc(alias = "D3DKMTDestroyAllocation2")]
    pub fn destroy_allocation(&mut self, allocation: AllocationId) -> Result<(), InvalidHandle> {
        let index = self.lookup_allocation(allocation)? as u32;
        self.events.record(|| Event::AllocationDestroyed { allocation });
        let device_index = self.allocations[index as usize].device as usize;
        let submitted = self.devices[device_index].submitted;
        let entry = &mut self.allocations[index as usize].entry;
        if entry.count > 0 {
            entry.count = 1;
            let effect = entry.leave(submitted, EvictFlags::all());
            let (size, pool) = (self.allocations[index as usize].size, self.allocations[index as usize].pool());
            self.set_list_bytes(device_index, pool, self.devices[device_index].list[pool].now() - size);
            self.apply(index, effect);
        }
        // Work that was submitted and still waits for its grant may need it: until then it can be evicted and come back.
        self.allocations[index as usize].state |= AllocationState::DESTROYED;
        self.bury(index);
        self.defer(device_index, DeferredAction::Purge(index));
        Ok(())
    }

    /// Does `action` once all that was submitted and requested so far is dispatched and granted.
    pub(crate) fn defer(&mut self, device: usize, action: DeferredAction) {
        let books = &mut self.devices[device];
        let deferred = Deferred { submission: books.submitted, request: books.last_request, action };
        books.deferred.push_back(deferred);
        self.deferring.insert(device as u32);
        self.stirred = true;
    }
}

/// The notifications that an allocation will get, as the driver asked for them.
fn notify_flags(state: AllocationState) -> AllocationFlags2 {
    let mut flags = AllocationFlags2::empty();
    flags.set(AllocationFlags2::NOTIFY_EVICTION, state.contains(AllocationState::NOTIFY_EVICTION));
    flags.set(AllocationFlags2::NOTIFY_IO_MMU_UNMAP, state.contains(AllocationState::NOTIFY_IO_MMU_UNMAP));
    flags
}

fn in_use(remaining: u64) -> Result<(), DestroyError> {
    if remaining > 0 { Err(DestroyError::InUse { remaining }) } else { Ok(()) }
}
