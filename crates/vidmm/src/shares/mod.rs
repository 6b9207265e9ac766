//! Shares: the budgets of processes, the promises to devices, and which devices are active.

use alloc::vec::Vec;

use crate::{
    adapter::Adapter,
    budget::{
        AccountShares, ProcessShare,
        account::{Account, Accounts, PerAccount},
    },
    data::ordered_set::OrderedSet,
    event::error::PageTableError,
    id::{DeviceIx, ProcessIx},
    memory::Memory,
    objects::{Objects, device::Device, list::ListBytes, turn::Activity},
};
/// The budgets of processes and the promises to devices.
pub(crate) struct Shares {
    /// How processes share each account.
    pub by_account: PerAccount<AccountShares>,
    /// The sum over all devices of [`Device::promised`](Device#structfield.promised).
    promised_bytes: PerAccount<u64>,
    /// Processes that want to be told their budgets.
    pub listeners: OrderedSet<ProcessIx>,
    /// Devices that are not active.
    pub stopped: OrderedSet<DeviceIx>,
    /// The accounts whose budgets a call has restricted, and to how many bytes.
    pub limits: Vec<(Account, u64)>,
}

impl Shares {
    /// Processes share each account; no device is promised anything yet.
    pub(crate) fn new(by_account: PerAccount<AccountShares>) -> Self {
        let promised_bytes = by_account.accounts().none();
        let (listeners, stopped) = (OrderedSet::default(), OrderedSet::default());
        Self { by_account, promised_bytes, listeners, stopped, limits: Vec::new() }
    }

    /// Promises the device what it needs now, after what it pins has changed.
    pub(crate) fn renew_promise(&mut self, objects: &mut Objects, device: DeviceIx) {
        self.accounts().iter().for_each(|account| self.renew_promise_in(&mut objects[device], account));
    }

    /// The same in one account.
    fn renew_promise_in(&mut self, record: &mut Device, account: Account) {
        let needed = record.needed_now(account);
        let promised = core::mem::replace(&mut record.promised[account], needed);
        self.promised_bytes[account] = self.promised_bytes[account] - promised + needed;
    }

    pub(crate) fn others_are_promised(&self, objects: &Objects, device: DeviceIx) -> bool {
        let record = &objects[device];
        self.accounts().iter().any(|account| self.promised_bytes[account] > record.promised[account])
    }

    /// Bytes that the process's lists name above its budgets; 0 without pressure (RES-23).
    pub(crate) fn num_bytes_to_trim(&self, process: ProcessIx) -> u64 {
        self.accounts().iter().map(|account| self.num_bytes_to_trim_in(process, account)).fold(0, u64::saturating_add)
    }

    /// The same of one account.
    pub(crate) fn num_bytes_to_trim_in(&self, process: ProcessIx, account: Account) -> u64 {
        let account_shares = &self.by_account[account];
        let over = || account_shares.requested(process).saturating_sub(account_shares.budget(process));
        if account_shares.is_pressed() { over() } else { 0 }
    }

    /// The processes that demand more than a budget which is imposed in one of the accounts; those that are above it by most come
    /// first.
    pub(crate) fn over_budget(&self, accounts: &[Account]) -> Vec<ProcessIx> {
        let mut over = Vec::new();
        for process in accounts.iter().flat_map(|&account| self.by_account[account].over_budget()) {
            if !over.contains(&process) {
                over.push(process);
            }
        }
        over
    }

    /// Whether memory is short anywhere, so that budgets are imposed there.
    pub(crate) fn is_pressed(&self) -> bool {
        self.by_account.values().any(AccountShares::is_pressed)
    }

    /// Whether the process demands more than a budget that is imposed.
    pub(crate) fn is_over_budget(&self, process: ProcessIx) -> bool {
        self.accounts().iter().any(|account| {
            let account_shares = &self.by_account[account];
            account_shares.is_pressed() && account_shares.get(process).demand > account_shares.budget(process)
        })
    }

    /// Changes whether a device's work runs, and with it what it is promised.
    pub(crate) fn set_activity(&mut self, objects: &mut Objects, device: DeviceIx, activity: Activity) {
        objects[device].turn.activity = activity;
        self.renew_promise(objects, device);
        match activity {
            Activity::Active => self.stopped.remove(&device),
            Activity::Yielding | Activity::Suspended => self.stopped.insert(device),
        };
    }

    /// A device goes that has no work and no list.
    pub(crate) fn forget_device(&mut self, objects: &mut Objects, device: DeviceIx) {
        self.accounts().iter().for_each(|account| self.recount_list(objects, device, account));
        self.accounts().iter().for_each(|account| self.promised_bytes[account] -= objects[device].promised[account]);
        self.stopped.remove(&device);
    }

    /// Bytes of an account that are promised to devices.
    pub(crate) fn promised_bytes(&self, account: Account) -> u64 {
        self.promised_bytes[account]
    }

    /// Halts a process, or ends the halt: a halted process demands the reservation only (D30). Returns whether the state is new.
    pub(crate) fn set_halted(&mut self, process: ProcessIx, is_halted: bool) -> bool {
        let accounts = self.accounts().iter();
        accounts.filter(|&account| self.by_account[account].set_halted(process, is_halted)).count() > 0
    }

    /// A process with a weight begins to share each account.
    pub(crate) fn insert_process(&mut self, process: ProcessIx, weight: u32) {
        let share = ProcessShare { weight, reservation: 0, demand: 0 };
        self.accounts().iter().for_each(|account| self.by_account[account].insert(process, share));
    }

    /// Bytes in use of an account are another process's from now on.
    pub(crate) fn move_usage(&mut self, account: Account, from: ProcessIx, to: ProcessIx, bytes: u64) {
        self.by_account[account].subtract_usage(from, bytes);
        self.by_account[account].add_usage(to, bytes);
    }

    /// The sharing of an account.
    pub(crate) fn account_mut(&mut self, account: Account) -> &mut AccountShares {
        &mut self.by_account[account]
    }

    /// Whether a process wants to be told its budgets.
    pub(crate) fn set_listening(&mut self, process: ProcessIx, is_listening: bool) {
        match is_listening {
            true => self.listeners.insert(process),
            false => self.listeners.remove(&process),
        };
    }

    /// A process is gone.
    pub(crate) fn forget_process(&mut self, process: ProcessIx) {
        self.listeners.remove(&process);
        self.accounts().iter().for_each(|account| self.by_account[account].remove(process));
    }

    /// Bytes of an account that are promised to nobody but the device.
    pub(crate) fn not_promised_to_others(
        &self,
        objects: &Objects,
        memory: &Memory,
        device: DeviceIx,
        account: Account,
    ) -> u64 {
        let others = self.promised_bytes[account] - objects[device].promised[account];
        memory.list_capacity(account) - others
    }

    /// Sets `bytes` of a memory segment aside for page tables, if every list still fits: those of active devices together, every
    /// other alone; or if they fit into the area that holds nothing else (D9, D19).
    pub(crate) fn promise_to_tables(
        &mut self,
        adapter: &Adapter,
        objects: &Objects,
        memory: &mut Memory,
        account: Account,
        bytes: u64,
    ) -> Result<(), PageTableError> {
        if memory.has_table_area(account) {
            let left = memory.table_areas[account].size() - memory.table_bytes[account];
            if bytes > left {
                return Err(PageTableError::AreaFull { missing: bytes - left });
            }
        } else {
            let capacity = memory.list_capacity(account);
            let stopped = self.stopped.iter().map(|&device| objects[device].needed(account));
            let free = capacity - stopped.max().unwrap_or(0).max(self.promised_bytes[account]).min(capacity);
            if bytes > free {
                let account = adapter.memory_account(account);
                return Err(PageTableError::NoMemory { num_bytes_to_trim: bytes - free, account });
            }
        }
        memory.table_bytes[account] += bytes;
        self.set_capacity(memory, account);
        Ok(())
    }

    /// Page tables take `bytes` less of a memory segment.
    pub(crate) fn remove_table_bytes(&mut self, memory: &mut Memory, account: Account, bytes: u64) {
        memory.table_bytes[account] -= bytes;
        self.set_capacity(memory, account);
    }

    /// Processes share what page tables leave of a memory segment.
    pub(crate) fn set_capacity(&mut self, memory: &Memory, account: Account) {
        self.by_account[account].set_capacity(memory.list_capacity(account));
    }

    /// Budgets of an account are for no more bytes than these from now on, or for all that there are.
    pub(crate) fn restrict(&mut self, memory: &Memory, account: Account, bytes: Option<u64>) {
        self.limits.retain(|&(of, _)| of != account);
        self.limits.extend(bytes.map(|bytes| (account, bytes)));
        self.by_account[account].set_limit(bytes.unwrap_or(u64::MAX));
        self.set_capacity(memory, account);
    }

    /// The accounts that are shared.
    pub(crate) fn accounts(&self) -> Accounts {
        self.by_account.accounts()
    }

    /// The device's list weighs `bytes` in an account from now on.
    pub(crate) fn set_list_bytes(&mut self, objects: &mut Objects, device: DeviceIx, account: Account, bytes: u64) {
        self.change_list(objects, device, account, |record| {
            let (retired, granted) = (record.retired(), record.granted_request());
            record.list[account].set(bytes, record.submitted, record.last_request);
            record.list[account].forget(retired, granted);
        });
    }

    /// Takes bytes off a device's list that a portion required and that need not be there for the device any more.
    pub(crate) fn lighten_list(&mut self, objects: &mut Objects, device: DeviceIx, account: Account, bytes: u64) {
        self.change_list(objects, device, account, |record| record.list[account].lighten(bytes));
    }

    /// Forgets what the device's list weighed for what is no longer outstanding: others may have the room.
    pub(crate) fn settle_list(&mut self, objects: &mut Objects, device: DeviceIx) {
        if objects[device].list.values().any(ListBytes::remembers) {
            for account in self.accounts().iter() {
                self.change_list(objects, device, account, |record| {
                    let (retired, granted) = (record.retired(), record.granted_request());
                    record.list[account].forget(retired, granted);
                });
            }
        }
    }

    /// Outstanding work and requests of the device weigh as much as its list does now: part of it is counted elsewhere.
    pub(crate) fn recount_list(&mut self, objects: &mut Objects, device: DeviceIx, account: Account) {
        self.change_list(objects, device, account, |record| record.list[account].recount());
    }

    /// Changes what a device's list weighs in an account, and with it what is promised to the device, and what its process
    /// requests and demands.
    fn change_list(
        &mut self,
        objects: &mut Objects,
        device: DeviceIx,
        account: Account,
        change: impl FnOnce(&mut Device),
    ) {
        let record = &mut objects[device];
        let weights = |record: &Device| (record.list[account].now(), record.demand(account));
        let (requested_before, demand_before) = weights(record);
        change(record);
        self.renew_promise_in(record, account);
        let (requested, demand) = weights(record);
        let (process, account_shares) = (record.process, &mut self.by_account[account]);
        if requested != requested_before {
            account_shares.set_requested(process, account_shares.requested(process) - requested_before + requested);
        }
        if demand != demand_before {
            account_shares.set_demand(process, account_shares.asked(process) - demand_before + demand);
        }
    }

    /// Whether a device may pin so much more: a device that runs ahead never pins what another one was admitted with.
    pub(crate) fn may_pin(
        &self,
        objects: &Objects,
        memory: &Memory,
        device: DeviceIx,
        bytes: &PerAccount<u64>,
    ) -> bool {
        let record = &objects[device];
        self.accounts().iter().all(|account| {
            let pinned = (record.pinned[account] + record.to_restore[account])
                .saturating_add(bytes[account])
                .max(record.list[account].peak());
            pinned <= self.not_promised_to_others(objects, memory, device, account)
        })
    }
}
