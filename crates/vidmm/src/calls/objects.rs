//! Processes, devices, contexts, queues, fences: their creation, and the end of those that are not in use. `termination` ends
//! processes and devices with all that they have.

use alloc::{collections::VecDeque, vec::Vec};

use crate::{
    budget::{Standing, account::Account},
    contract::{Host, Kmd, KmdContextHandle},
    data::{ordered_set::OrderedSet, progress::Progress},
    event::{
        Event,
        device_residency::DeviceResidency,
        error::{CreateError, DestroyError},
    },
    gpu_va::{PageTables, Table, TableKey, VaSpace},
    id::{
        ContextId, ContextIx, DeviceId, DeviceIx, InvalidHandle, MonitoredFenceId, MonitoredFenceIx, PagingQueueId,
        PagingQueueIx, ProcessId,
    },
    manager::VidMm,
    objects::{
        context::Context,
        device::Device,
        list::Expiries,
        process::Process,
        queue::{MonitoredFence, PagingQueue},
        ranges::ListRanges,
        turn::{Stillness, Turn},
    },
    schedule::waiting,
    state::State,
};
/// A device to be created. A process alone makes one of the adapter's usual kind.
#[doc(alias = "D3DKMT_CREATEDEVICE")]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CreateDeviceDesc {
    /// The process that it belongs to.
    pub process: ProcessId,
    /// The lists that drive its residency; none is the adapter's usual kind.
    pub residency: Option<DeviceResidency>,
}

impl From<ProcessId> for CreateDeviceDesc {
    fn from(process: ProcessId) -> Self {
        Self { process, residency: None }
    }
}

/// A monitored fence to be created. A value alone makes one that no device owns.
#[doc(alias = "D3DKMT_CREATESYNCHRONIZATIONOBJECT2")]
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct CreateMonitoredFenceDesc {
    /// The device that it ends with, if there is one: then it is at the maximum, so that others who wait for it go on.
    pub device: Option<DeviceId>,
    /// The value that it begins at.
    pub initial_fence_value: u64,
}

impl From<u64> for CreateMonitoredFenceDesc {
    fn from(initial_fence_value: u64) -> Self {
        Self { device: None, initial_fence_value }
    }
}

/// # Processes, devices, contexts, queues and fences: their creation
impl VidMm {
    /// Creates a process. The memory of its root page table is set aside (D9).
    ///
    /// # Errors
    ///
    /// If the driver has no memory, or the root table would not fit beside the memory that others were promised.
    #[doc(alias = "DxgkDdiCreateProcess")]
    pub fn create_process(&mut self, kmd: &mut dyn Kmd, host: &mut dyn Host) -> Result<ProcessId, CreateError> {
        let (first, end) = self
            .state
            .adapter
            .process_addresses(self.state.objects.processes.next_index().at())
            .ok_or(CreateError::NoAddresses)?;
        let handle = kmd.create_process(false)?;
        let mut tables = PageTables::new(&self.state.adapter);
        if self.state.adapter.has_page_tables() {
            let root = set_root_aside(&mut self.state, host).inspect_err(|_| kmd.destroy_process(handle))?;
            tables.insert(TableKey::root(&self.state.adapter), root);
        }
        let space = VaSpace::new(first, end);
        let process = self.state.objects.processes.insert(Process {
            handle,
            space,
            tables,
            devices: OrderedSet::default(),
            offered: OrderedSet::default(),
            is_paused: false,
            cut_by: 0,
            reserved_by: 0,
            stillness: Stillness::new(self.state.moment.now()),
            standing: Standing::default(),
            traffic: self.state.memory.accounts().none(),
        });
        self.state.shares.insert_process(process.ix(), self.state.objects[process.ix()].standing.weight());
        self.schedule.renew_demand(&mut self.state, process.ix());
        if self.state.adapter.has_page_tables() {
            self.state.addresses.need_root(process.ix());
        }
        self.state.moment.record(|| Event::ProcessCreated { process, handle });
        Ok(process)
    }

    /// Creates a device: the unit that has a residency list, and that is put in error. A process alone makes one of the
    /// adapter's usual kind: with reference lists where engines use no GPU virtual addresses, else with a device list.
    ///
    /// # Errors
    ///
    /// If the process does not exist, or has lost the GPU (FLT-31); or if it is to have reference lists where engines use GPU
    /// virtual addresses.
    #[doc(alias = "DxgkDdiCreateDevice")]
    pub fn create_device(&mut self, desc: impl Into<CreateDeviceDesc>) -> Result<DeviceId, CreateError> {
        let CreateDeviceDesc { process, residency } = desc.into();
        let process_index = self.state.objects.processes.lookup(process)?;
        let residency = match (self.state.adapter.is_physical(), residency) {
            (true, None) => DeviceResidency::ReferenceLists,
            (false, Some(DeviceResidency::ReferenceLists)) => {
                return Err(CreateError::NotSupported("a device with reference lists beside GPU virtual addresses"));
            }
            (false, _) => DeviceResidency::DeviceList,
            (true, Some(residency)) => residency,
        };
        if self.state.objects[process_index].standing.is_blocked {
            return Err(CreateError::ProcessBlocked);
        }
        let accounts = self.state.memory.accounts();
        let device = self.state.objects.devices.insert(Device {
            process: process_index,
            residency,
            error: None,
            has_ended: false,
            dropped_signals: Vec::new(),
            allocations: 0,
            list: accounts.none(),
            ranges: ListRanges::none(self.state.memory.homes()),
            turn: Turn::new(self.state.moment.now()),
            pinned: accounts.none(),
            promised: accounts.none(),
            num_pins: 0,
            to_restore: accounts.none(),
            pinned_allocations: Vec::new(),
            with_choice: Vec::new(),
            rehomed: OrderedSet::default(),
            to_bring_back: Vec::new(),
            notifications: Vec::new(),
            period_runs: false,
            suspended_in_period: false,
            refreshes: Vec::new(),
            expiring: Expiries::default(),
            requests: VecDeque::new(),
            ready: 0,
            granted: 0,
            last_request: 0,
            submitted: 0,
            last_use: 0,
            dispatches: Progress::default(),
            retirements: Progress::default(),
            deferred: VecDeque::new(),
        });
        self.state.objects[process_index].devices.insert(device.ix());
        self.state.moment.record(|| Event::DeviceCreated { device, process, residency });
        if self.state.objects[process_index].standing.halted.is_some()
            || self.schedule.turns.power != waiting::Power::Up
        {
            self.schedule.halt(&mut self.state, device.ix());
        }
        Ok(device)
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
        let device_index = self.state.objects.devices.lookup(device)?;
        self.state.objects.check_device(&self.state.moment, device_index)?;
        let paging = self.state.adapter.paging_engine;
        let count = self.state.engines.scheduled().end;
        if engine >= count || engine == paging && count > 1 {
            return Err(CreateError::Engine { engine, last: count - 1, paging });
        }
        let process = self.state.objects[self.state.objects[device_index].process].handle;
        let handle = kmd.create_context(process, engine, false)?;
        Ok(self.insert_context(device_index, engine, Some(handle)))
    }

    pub(crate) fn insert_context(
        &mut self,
        device_index: DeviceIx,
        engine: u32,
        handle: Option<KmdContextHandle>,
    ) -> ContextId {
        let context = self.state.objects.contexts.insert(Context {
            device: device_index,
            engine,
            handle,
            priority: 0,
            queue: VecDeque::new(),
            in_flight: 0,
            portion: None,
            served: 0,
            root_entries: 0,
        });
        let device = self.state.objects.devices.id(device_index);
        self.state.moment.record(|| Event::ContextCreated { context, device, engine });
        context
    }

    /// Destroys a context.
    ///
    /// # Errors
    ///
    /// If work of it is queued or under way.
    #[doc(alias = "DxgkDdiDestroyContext")]
    pub fn destroy_context(&mut self, kmd: &mut dyn Kmd, context: ContextId) -> Result<(), DestroyError> {
        let index = self.state.objects.contexts.lookup(context)?;
        in_use((self.state.objects[index].queue.len() + self.state.objects[index].in_flight) as u64)?;
        self.remove_context(kmd, index);
        Ok(())
    }

    pub(crate) fn remove_context(&mut self, kmd: &mut dyn Kmd, index: ContextIx) {
        let context = self.state.objects.contexts.id(index);
        let gone = self.state.objects.contexts.remove(index);
        if let Some(handle) = gone.handle {
            kmd.destroy_context(handle);
        }
        self.state.engines.forget_context(gone.engine);
        self.state.moment.record(|| Event::ContextDestroyed { context });
    }

    /// Creates a paging queue with its fence, which begins at 0 (RES-30). Between devices, requests of a queue with higher
    /// `priority` are granted first.
    ///
    /// # Errors
    ///
    /// If the device does not exist, is in error, or has reference lists.
    #[doc(alias = "D3DKMTCreatePagingQueue")]
    pub fn create_paging_queue(&mut self, device: DeviceId, priority: i32) -> Result<PagingQueueId, CreateError> {
        let device_index = self.state.objects.devices.lookup(device)?;
        self.state.objects.check_device(&self.state.moment, device_index)?;
        if self.state.objects[device_index].has_reference_lists() {
            return Err(CreateError::ReferenceLists);
        }
        let queue = self.state.objects.paging_queues.insert(PagingQueue {
            device: device_index,
            priority,
            pending: 0,
            last_value: 0,
            completed_value: 0,
        });
        self.state.moment.record(|| Event::PagingQueueCreated { queue, device, priority });
        Ok(queue)
    }

    /// Destroys a paging queue and its fence.
    ///
    /// # Errors
    ///
    /// If operations of it are pending (RES-31).
    #[doc(alias = "D3DKMTDestroyPagingQueue")]
    pub fn destroy_paging_queue(&mut self, queue: PagingQueueId) -> Result<(), DestroyError> {
        let index = self.state.objects.paging_queues.lookup(queue)?;
        in_use(self.state.objects[index].pending.into())?;
        self.remove_queue(index);
        Ok(())
    }

    pub(crate) fn remove_queue(&mut self, index: PagingQueueIx) {
        let queue = self.state.objects.paging_queues.id(index);
        self.state.objects.paging_queues.remove(index);
        self.state.moment.record(|| Event::PagingQueueDestroyed { queue });
    }

    /// Creates a monitored fence (SYN-01). A value alone makes one that ends only when it is destroyed.
    ///
    /// # Errors
    ///
    /// If the device does not exist.
    #[doc(alias = "D3DDDI_MONITORED_FENCE")]
    #[doc(alias = "D3DKMTCreateSynchronizationObject2")]
    pub fn create_monitored_fence(
        &mut self,
        desc: impl Into<CreateMonitoredFenceDesc>,
    ) -> Result<MonitoredFenceId, InvalidHandle> {
        let CreateMonitoredFenceDesc { device, initial_fence_value: value } = desc.into();
        let owner = device.map(|device| self.state.objects.devices.lookup(device)).transpose()?;
        let fence = MonitoredFence { device: owner, value, dispatched: VecDeque::new(), references: 0 };
        let fence = self.state.objects.monitored_fences.insert(fence);
        self.state.moment.record(|| Event::MonitoredFenceCreated { fence, value, device });
        Ok(fence)
    }

    /// Destroys a monitored fence.
    ///
    /// # Errors
    ///
    /// If queued or running work names it.
    pub fn destroy_monitored_fence(&mut self, fence: MonitoredFenceId) -> Result<(), DestroyError> {
        let index = self.state.objects.monitored_fences.lookup(fence)?;
        in_use(self.state.objects[index].references.into())?;
        self.remove_fence(index);
        Ok(())
    }

    pub(crate) fn remove_fence(&mut self, index: MonitoredFenceIx) {
        let fence = self.state.objects.monitored_fences.id(index);
        self.state.objects.monitored_fences.remove(index);
        self.state.moment.record(|| Event::MonitoredFenceDestroyed { fence });
    }
}

fn set_root_aside(state: &mut State, host: &mut dyn Host) -> Result<Table, CreateError> {
    let root = TableKey::root(&state.adapter);
    let mut table = Table::new(None);
    let account = state.adapter.tables_in;
    if account == Account::SYSTEM {
        table.address = Some(host.commit_backing_store(root.bytes(&state.adapter))?);
        return Ok(table);
    }
    let bytes = state.adapter.table_bytes_in(account);
    state.shares.promise_to_tables(&state.adapter, &state.objects, &mut state.memory, account, bytes)?;
    Ok(table)
}

fn in_use(remaining: u64) -> Result<(), DestroyError> {
    if remaining > 0 { Err(DestroyError::InUse { remaining }) } else { Ok(()) }
}
