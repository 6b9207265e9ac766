//! Page tables come and go with what is mapped through them (D9).

use alloc::{collections::BTreeSet, vec::Vec};

use crate::{
    adapter::Adapter,
    addresses,
    budget::account::Account,
    contract::Host,
    event::{Event, error::PageTableError},
    gpu_va::{Table, TableKey},
    id::{PlanNo, ProcessIx},
    objects::Objects,
    placement::satisfy,
    plans::{
        Plans, ProcessTable, Retire,
        draft::{self, Draft},
    },
    state::State,
    units::{Extent, GpuVirtualAddress, PageSize},
};
impl Plans {
    /// Plans the root tables of new processes, as there is room: no work runs without (GVA-17).
    pub(crate) fn plan_roots(&mut self, state: &mut State) {
        while let Some(process) = state.addresses.rootless.first().copied() {
            let root = TableKey::root(&state.adapter);
            let placed = state.objects[process].tables.get_mut(root).address.is_some();
            let account = state.adapter.tables_in;
            if !placed && !satisfy::has_room_for(state, account, state.adapter.table_bytes_in(account)) {
                return;
            }
            state.addresses.note_root(process);
            let mut draft = Draft::default();
            self.plan_table(state, &mut draft, process, root);
            self.decide(&mut state.moment, &state.objects, draft);
        }
    }
}

/// Creates the records of the tables that something of a process needs, and sets their memory aside; or changes nothing.
/// They are there until [`Addresses::release_tables`](crate::addresses::Addresses::release_tables).
pub(crate) fn set_tables_aside(
    state: &mut State,
    host: &mut dyn Host,
    process: ProcessIx,
    needed: Vec<TableKey>,
) -> Result<(), PageTableError> {
    let tables = &state.objects[process].tables;
    let mut missing: Vec<TableKey> = needed.iter().copied().filter(|&key| tables.get(key).is_none()).collect();
    missing.sort_unstable();
    missing.dedup();
    let account = state.adapter.tables_in;
    if account == Account::SYSTEM {
        commit_system_tables(&state.adapter, &mut state.objects, host, process, &missing)?;
    } else {
        let bytes = missing.len() as u64 * state.adapter.table_bytes_in(account);
        state.shares.promise_to_tables(&state.adapter, &state.objects, &mut state.memory, account, bytes)?;
        for key in missing {
            state.objects[process].tables.insert(key, Table::new(None));
        }
    }
    addresses::hold_tables(&mut state.objects, process, needed);
    Ok(())
}

fn commit_system_tables(
    adapter: &Adapter,
    objects: &mut Objects,
    host: &mut dyn Host,
    process: ProcessIx,
    missing: &[TableKey],
) -> Result<(), PageTableError> {
    let tables = &mut objects[process].tables;
    for (done, &key) in missing.iter().enumerate() {
        match host.commit_backing_store(key.bytes(adapter)) {
            Ok(address) => tables.insert(key, Table::new(Some(address))),
            Err(error) => {
                for &key in &missing[..done] {
                    let address = tables.remove(key).address.expect("it was just committed");
                    host.decommit_backing_store(address, key.bytes(adapter));
                }
                return Err(PageTableError::BackingStore(error));
            }
        }
    }
    Ok(())
}

impl Plans {
    /// Writes into `draft` that tables of a process, roots first, are there before entries are written to them. Returns the plans
    /// that see to that for those which are planned already.
    pub(crate) fn plan_tables(
        &mut self,
        state: &mut State,
        draft: &mut Draft,
        process: ProcessIx,
        keys: Vec<TableKey>,
    ) -> Vec<PlanNo> {
        let mut numbers = Vec::new();
        for key in keys {
            let plan = state.objects[process].tables.get_mut(key).plan;
            if plan == 0 {
                state.addresses.note_root(process);
                self.plan_table(state, draft, process, key);
            } else {
                self.plan_after(draft, plan);
                numbers.push(plan);
            }
        }
        numbers
    }

    /// Frees the tables that nothing is mapped through any more, but those that plans under way write to or point to:
    /// these later.
    pub(crate) fn free_empty_tables(&mut self, state: &mut State, host: &mut dyn Host) {
        let mut empty = state.addresses.take_empty();
        while let Some(&(process, _)) = empty.first() {
            let others = empty.split_off(&(process.next(), TableKey::FIRST));
            let keys = core::mem::replace(&mut empty, others);
            self.free_tables(state, host, process, keys.into_iter().map(|(_, key)| key).collect());
        }
    }

    fn free_tables(&mut self, state: &mut State, host: &mut dyn Host, process: ProcessIx, keys: Vec<TableKey>) {
        let mut draft = Draft::default();
        let mut freed = Vec::new();
        // Leaves come first: while a table stays, so does its parent.
        let mut stays = BTreeSet::new();
        for key in keys {
            let table = *state.objects[process].tables.get_mut(key);
            if table.users > 0 {
                continue;
            }
            if stays.contains(&key) || self.is_table_in_use(&state.objects, process, key, &table) {
                stays.extend(key.parent(&state.adapter));
                state.addresses.note_empty(process, key);
                continue;
            }
            state.objects[process].tables.remove(key);
            self.plan_table_away(state, &mut draft, host, process, key, table);
            if table.plan > 0 {
                freed.push(key);
            }
        }
        for key in freed {
            self.plan_unlink(&state.adapter, &mut state.objects, &mut draft, process, key);
        }
        self.decide(&mut state.moment, &state.objects, draft);
    }

    /// Whether a plan under way writes to a table, or to its parent's entry: for the pages of another size, too.
    fn is_table_in_use(&self, objects: &Objects, process: ProcessIx, key: TableKey, table: &Table) -> bool {
        let sides = [PageSize::Kib4, PageSize::Kib64].map(|page_size| TableKey { page_size, ..key });
        let tables = &objects[process].tables;
        let numbers = sides.into_iter().filter_map(|side| tables.get(side)).map(|side| side.plan);
        numbers.chain([table.unlinked]).any(|plan| !self.stream.is_retired(plan))
    }

    /// Writes into `draft` that the memory of a table is free.
    fn plan_table_away(
        &self,
        state: &mut State,
        draft: &mut Draft,
        host: &mut dyn Host,
        process: ProcessIx,
        key: TableKey,
        table: Table,
    ) {
        let account = state.adapter.tables_in;
        let size = state.adapter.table_bytes_in(account);
        let Some(address) = table.address else {
            return state.shares.remove_table_bytes(&mut state.memory, account, size);
        };
        let number = self.stream.next_number();
        if address.segment.is_system() {
            let bytes = key.bytes(&state.adapter);
            // Nothing points to a table that no plan has initialised.
            if table.plan == 0 {
                return host.decommit_backing_store(address, bytes);
            }
            draft::plan_retire(draft, Retire::Table { address, bytes });
        } else {
            state.memory.table_placer(account).promise(number, [Extent { offset: address.offset, size }]);
            state.shares.remove_table_bytes(&mut state.memory, account, size);
        }
        draft.decided = true;
        let first_address = GpuVirtualAddress(key.first_address(&state.adapter));
        let process = state.objects.processes.id(process);
        state.moment.record(|| Event::PageTableFreed {
            plan: number,
            process,
            level: key.level,
            page_size: key.page_size,
            virtual_address: first_address,
            address,
            size,
        });
    }

    /// Writes into `draft` that the parent of a freed table, if that stays, does not point to it any more.
    fn plan_unlink(
        &self,
        adapter: &Adapter,
        objects: &mut Objects,
        draft: &mut Draft,
        process: ProcessIx,
        key: TableKey,
    ) {
        let number = self.stream.next_number();
        let parent = key.parent(adapter).expect("the root stays");
        if objects[process].tables.get(parent).is_none() {
            return;
        }
        let table = objects[process].tables.get_mut(parent);
        let Table { plan, unlinked, .. } = *table;
        table.unlinked = number;
        self.plan_after(draft, plan);
        self.plan_after(draft, unlinked);
        draft.plan.unlink.push(ProcessTable { process, key });
    }
}
