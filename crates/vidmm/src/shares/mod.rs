//! Shares: the budgets of processes, the promises to devices, and which devices are active.

use crate::{
    budget::{
        PoolShares,
        pool::{PerPool, Pool},
    },
    data::ordered_set::OrderedSet,
    id::{DeviceIx, ProcessIx},
    memory::Memory,
    moment::Moment,
    objects::{Objects, device::Device, turn::Activity},
};
/// The budgets of processes and the promises to devices.
pub(crate) struct Shares {
    /// How processes share each pool.
    pub pools: PerPool<PoolShares>,
    /// The sum over all devices of [`Device::promised`].
    promised_bytes: PerPool<u64>,
    /// Processes that want to be told their budgets.
    listeners: OrderedSet<ProcessIx>,
    /// Devices that are not active.
    stopped: OrderedSet<DeviceIx>,
}

impl Shares {
    /// Processes share each pool; no device is promised anything yet.
    pub(crate) fn new(pools: PerPool<PoolShares>) -> Self {
        Self {
            pools,
            promised_bytes: PerPool::default(),
            listeners: OrderedSet::default(),
            stopped: OrderedSet::default(),
        }
    }

    /// Takes back what the device is promised, while what it holds changes. Until [`renew_promise`](Self::renew_promise) nothing
    /// may ask what devices are promised.
    pub(crate) fn withdraw_promise(&mut self, objects: &Objects, device: DeviceIx) {
        let books = &objects[device];
        Pool::ALL.into_iter().for_each(|pool| self.promised_bytes[pool] -= books.promised(pool));
    }

    /// Promises the device what it holds and lists now.
    pub(crate) fn renew_promise(&mut self, objects: &Objects, device: DeviceIx) {
        let books = &objects[device];
        Pool::ALL.into_iter().for_each(|pool| self.promised_bytes[pool] += books.promised(pool));
    }

    pub(crate) fn others_are_promised(&self, objects: &Objects, device: DeviceIx) -> bool {
        let books = &objects[device];
        Pool::ALL.into_iter().any(|pool| self.promised_bytes[pool] > books.promised(pool))
    }

    /// What the process's lists name above its budgets, in bytes; 0 without pressure (RES-23).
    pub(crate) fn num_bytes_to_trim(&self, process: ProcessIx) -> u64 {
        let over = |pool| {
            let pool_shares = &self.pools[pool];
            let over = || pool_shares.get(process).demand.saturating_sub(pool_shares.budget(process));
            if pool_shares.is_pressed() { over() } else { 0 }
        };
        over(Pool::Memory) + over(Pool::System)
    }

    /// Whether the process is above a budget that is imposed.
    pub(crate) fn is_over_budget(&self, process: ProcessIx) -> bool {
        self.num_bytes_to_trim(process) > 0
    }

    /// Changes whether a device's work runs, and with it what it is promised.
    pub(crate) fn set_activity(&mut self, objects: &mut Objects, device: DeviceIx, activity: Activity) {
        self.withdraw_promise(objects, device);
        objects[device].turn.activity = activity;
        self.renew_promise(objects, device);
        match activity {
            Activity::Active => self.stopped.remove(&device),
            Activity::Yielding | Activity::Suspended => self.stopped.insert(device),
        };
    }

    /// Whether a device is not active.
    pub(crate) fn has_stopped(&self) -> bool {
        !self.stopped.is_empty()
    }

    /// The devices that are not active.
    pub(crate) fn stopped(&self) -> impl Iterator<Item = DeviceIx> {
        self.stopped.iter().copied()
    }

    /// A device goes that has no work and no list.
    pub(crate) fn forget_device(&mut self, objects: &Objects, device: DeviceIx) {
        self.withdraw_promise(objects, device);
        self.stopped.remove(&device);
    }

    /// Bytes of a pool that are promised to devices.
    pub(crate) fn promised_bytes(&self, pool: Pool) -> u64 {
        self.promised_bytes[pool]
    }

    /// A process wants to be told its budgets, or does not any more.
    pub(crate) fn set_listens(&mut self, process: ProcessIx, listens: bool) {
        match listens {
            true => self.listeners.insert(process),
            false => self.listeners.remove(&process),
        };
    }

    /// Whether a process wants to be told its budgets.
    pub(crate) fn has_listeners(&self) -> bool {
        !self.listeners.is_empty()
    }

    /// The processes that want to be told their budgets.
    pub(crate) fn listeners(&self) -> impl Iterator<Item = ProcessIx> {
        self.listeners.iter().copied()
    }

    /// A process is gone.
    pub(crate) fn forget_process(&mut self, process: ProcessIx) {
        self.listeners.remove(&process);
        Pool::ALL.into_iter().for_each(|pool| self.pools[pool].remove(process));
    }

    /// Bytes of a pool that are promised to nobody but the device.
    pub(crate) fn not_promised_to_others(
        &self,
        objects: &Objects,
        memory: &Memory,
        device: DeviceIx,
        pool: Pool,
    ) -> u64 {
        let others = self.promised_bytes[pool] - objects[device].promised(pool);
        memory.list_capacity(pool) - others
    }

    /// Bytes of the memory segment that can be pinned for page tables, so that every list still fits: those of active devices
    /// together, every other alone.
    pub(crate) fn not_promised(&self, objects: &Objects, memory: &Memory) -> u64 {
        let capacity = memory.list_capacity(Pool::Memory);
        let stopped = self.stopped.iter().map(|&device| objects[device].needed(Pool::Memory));
        capacity - stopped.max().unwrap_or(0).max(self.promised_bytes[Pool::Memory]).min(capacity)
    }

    /// Page tables take `bytes` more of the memory segment.
    pub(crate) fn pin(&mut self, memory: &mut Memory, bytes: u64) {
        memory.pin(bytes);
        self.set_capacity(memory);
    }

    /// Page tables take `bytes` less of the memory segment.
    pub(crate) fn unpin(&mut self, memory: &mut Memory, bytes: u64) {
        memory.unpin(bytes);
        self.set_capacity(memory);
    }

    /// Processes share what page tables leave of the memory segment.
    pub(crate) fn set_capacity(&mut self, memory: &Memory) {
        self.pools[Pool::Memory].set_capacity(memory.list_capacity(Pool::Memory));
    }

    /// The device's list weighs `bytes` in a pool from now on.
    pub(crate) fn set_list_bytes(
        &mut self,
        moment: &mut Moment,
        objects: &mut Objects,
        device: DeviceIx,
        pool: Pool,
        bytes: u64,
    ) {
        self.change_list(moment, objects, device, pool, |books| {
            let (retired, granted) = (books.retired(), books.granted_request());
            books.list[pool].set(bytes, books.submitted, books.last_request);
            books.list[pool].forget(retired, granted);
        });
    }

    /// Takes bytes off a device's list that a portion required and that need not be there for the device any more.
    pub(crate) fn lighten_list(
        &mut self,
        moment: &mut Moment,
        objects: &mut Objects,
        device: DeviceIx,
        pool: Pool,
        bytes: u64,
    ) {
        self.change_list(moment, objects, device, pool, |books| books.list[pool].lighten(bytes));
    }

    fn change_list(
        &mut self,
        moment: &mut Moment,
        objects: &mut Objects,
        device: DeviceIx,
        pool: Pool,
        change: impl FnOnce(&mut Device),
    ) {
        let before = objects[device].list[pool].now();
        self.account(objects, device, pool, change);
        let bytes = objects[device].list[pool].now();
        let process = objects[device].process;
        let demand = self.pools[pool].get(process).demand;
        self.pools[pool].set_demand(process, demand - before + bytes);
        // Whoever is above its budget, and whoever listens, is to hear of it.
        moment.stir_if(self.pools[pool].is_pressed() || !self.listeners.is_empty());
    }

    /// Forgets what the device's list weighed for what is no longer outstanding: others may have the room.
    pub(crate) fn settle_list(&mut self, objects: &mut Objects, device: DeviceIx) {
        for pool in Pool::ALL {
            if objects[device].list[pool].remembers() {
                self.account(objects, device, pool, |books| {
                    let (retired, granted) = (books.retired(), books.granted_request());
                    books.list[pool].forget(retired, granted);
                });
            }
        }
    }

    /// Changes what a device is promised in a pool.
    pub(crate) fn account(
        &mut self,
        objects: &mut Objects,
        device: DeviceIx,
        pool: Pool,
        change: impl FnOnce(&mut Device),
    ) {
        let books = &mut objects[device];
        self.promised_bytes[pool] -= books.promised(pool);
        change(books);
        self.promised_bytes[pool] += books.promised(pool);
    }

    /// Whether a device may hold so much more: a device that runs ahead never holds what another one was admitted with.
    pub(crate) fn may_hold(&self, objects: &Objects, memory: &Memory, device: DeviceIx, bytes: PerPool<u64>) -> bool {
        let books = &objects[device];
        Pool::ALL.into_iter().all(|pool| {
            let held = (books.held[pool] + books.owed[pool]).saturating_add(bytes[pool]).max(books.list[pool].peak());
            held <= self.not_promised_to_others(objects, memory, device, pool)
        })
    }
}
