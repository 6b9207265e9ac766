//! Page tables come and go with what is mapped through them (D9).

use alloc::{collections::BTreeSet, vec::Vec};

use super::draft::Draft;
use crate::{
    contract::Host,
    error::PageTableError,
    event::Event,
    gpu_va::{Mapping, PageTables, Table, TableKey},
    id::{PlanNo, ProcessIx},
    paging::{Retire, UnlinkedTable},
    planted::PlantedBug,
    pool::Pool,
    state::VidMm,
    units::{Extent, GpuVirtualAddress, PageSize},
};

impl VidMm {
    /// Creates the books of the tables that parts of a process's addresses need, and sets their memory aside; or changes nothing.
    /// They are there until [`release_tables`](Self::release_tables).
    pub(crate) fn set_tables_aside(
        &mut self,
        host: &mut dyn Host,
        process: ProcessIx,
        mappings: &[Mapping],
    ) -> Result<(), PageTableError> {
        let tables = &self.processes[process].tables;
        let needed = mappings.iter().flat_map(|mapping| self.tables_of(mapping));
        let mut missing: Vec<TableKey> = needed.filter(|&key| tables.get(key).is_none()).collect();
        missing.sort_unstable();
        missing.dedup();
        if self.adapter.tables_in_system {
            self.commit_system_tables(host, process, &missing)?;
        } else {
            let bytes: u64 = missing.iter().map(|key| key.segment_bytes(&self.adapter)).sum();
            let free = self.not_promised();
            if bytes > free {
                return Err(PageTableError::NoMemory { num_bytes_to_trim: bytes - free });
            }
            self.set_pinned(self.pinned_bytes + bytes);
            for key in missing {
                self.processes[process].tables.insert(key, Table::new(None));
            }
        }
        mappings.iter().for_each(|mapping| self.hold_tables(mapping));
        Ok(())
    }

    fn commit_system_tables(
        &mut self,
        host: &mut dyn Host,
        process: ProcessIx,
        missing: &[TableKey],
    ) -> Result<(), PageTableError> {
        let adapter = &self.adapter;
        let tables = &mut self.processes[process].tables;
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

    /// A mapping needs its tables, which are there.
    pub(super) fn hold_tables(&mut self, mapping: &Mapping) {
        for key in self.tables_of(mapping) {
            self.processes[mapping.process].tables.get_mut(key).users += 1;
        }
    }

    /// A mapping needs its tables no more.
    pub(super) fn release_tables(&mut self, mapping: &Mapping) {
        for key in self.tables_of(mapping) {
            let table = self.processes[mapping.process].tables.get_mut(key);
            table.users -= 1;
            let is_kept = key == TableKey::root(&self.adapter) || self.adapter.has_bug(PlantedBug::KeepEmptyTables);
            if table.users == 0 && !is_kept {
                self.empty_tables.insert((mapping.process, key));
            }
        }
    }

    /// The tables that a mapping needs, roots first; none if the GPU has no page tables.
    pub(crate) fn tables_of(&self, mapping: &Mapping) -> impl Iterator<Item = TableKey> + use<> {
        let Mapping { virtual_address, size, pte_page_size, .. } = *mapping;
        let tables = self.adapter.has_page_tables();
        let needed = tables.then(|| PageTables::needed(&self.adapter, virtual_address, size, pte_page_size));
        needed.into_iter().flatten()
    }

    /// Whether there is room for the tables that are set aside for a mapping, and not placed yet.
    pub(super) fn has_room_for_tables(&self, mapping: &Mapping) -> bool {
        let tables = &self.processes[mapping.process].tables;
        let unplaced = |key: &TableKey| tables.get(*key).is_some_and(|table| table.address.is_none());
        let bytes: u64 = self.tables_of(mapping).filter(unplaced).map(|key| key.segment_bytes(&self.adapter)).sum();
        bytes <= self.placer.available() + self.evictable[Pool::Memory].bytes()
    }

    /// Writes into `draft` that the tables of a mapping are there before its entries are written. Returns the plans that see to
    /// that for those which are planned already.
    pub(super) fn plan_tables(&mut self, draft: &mut Draft, mapping: &Mapping) -> Vec<PlanNo> {
        let mut plans = Vec::new();
        for key in Vec::from_iter(self.tables_of(mapping)) {
            let plan = self.processes[mapping.process].tables.get_mut(key).plan;
            if plan == 0 {
                self.rootless.remove(&mapping.process);
                self.plan_table(draft, mapping.process, key);
            } else {
                self.plan_after(draft, plan);
                plans.push(plan);
            }
        }
        plans
    }

    /// Frees the tables that nothing is mapped through any more, but those that plans under way write to or point to: these later.
    pub(super) fn free_empty_tables(&mut self, host: &mut dyn Host) {
        let mut empty = core::mem::take(&mut self.empty_tables);
        while let Some(&(process, _)) = empty.first() {
            let others = empty.split_off(&(process.next(), TableKey::FIRST));
            let keys = core::mem::replace(&mut empty, others);
            self.free_tables(host, process, keys.into_iter().map(|(_, key)| key).collect());
        }
    }

    fn free_tables(&mut self, host: &mut dyn Host, process: ProcessIx, keys: Vec<TableKey>) {
        let mut draft = Draft::default();
        let mut freed = Vec::new();
        // Leaves come first: while a table stays, so does its parent.
        let mut stays = BTreeSet::new();
        for key in keys {
            let table = *self.processes[process].tables.get_mut(key);
            if table.users > 0 {
                continue;
            }
            if stays.contains(&key) || self.is_table_in_use(process, key, &table) {
                stays.extend(key.parent(&self.adapter).map(|(parent, _)| parent));
                self.empty_tables.insert((process, key));
                continue;
            }
            self.processes[process].tables.remove(key);
            self.plan_table_away(&mut draft, host, process, key, table);
            if table.plan > 0 {
                freed.push(key);
            }
        }
        for key in freed {
            self.plan_unlink(&mut draft, process, key);
        }
        self.finish(draft);
    }

    /// Whether a plan under way writes to a table, or to its parent's entry: for the pages of another size, too.
    fn is_table_in_use(&self, process: ProcessIx, key: TableKey, table: &Table) -> bool {
        let sides = [PageSize::Kib4, PageSize::Kib64].map(|page_size| TableKey { page_size, ..key });
        let tables = &self.processes[process].tables;
        let plans = sides.into_iter().filter_map(|side| tables.get(side)).map(|side| side.plan);
        plans.chain([table.unlinked]).any(|plan| !self.stream.is_retired(plan))
    }

    /// Writes into `draft` that the memory of a table is free.
    fn plan_table_away(
        &mut self,
        draft: &mut Draft,
        host: &mut dyn Host,
        process: ProcessIx,
        key: TableKey,
        table: Table,
    ) {
        let size = key.segment_bytes(&self.adapter);
        let Some(address) = table.address else { return self.set_pinned(self.pinned_bytes - size) };
        let number = self.stream.next_number();
        if address.segment.is_system() {
            let bytes = key.bytes(&self.adapter);
            // What no plan has initialised nothing points to.
            if table.plan == 0 {
                return host.decommit_backing_store(address, bytes);
            }
            self.plan_retire(draft, Retire::Table { address, bytes });
        } else {
            self.placer.promise(number, [Extent { offset: address.offset, size }]);
            self.set_pinned(self.pinned_bytes - size);
        }
        draft.decided = true;
        let first_address = GpuVirtualAddress(key.first_address(&self.adapter));
        let process = self.processes.id(process);
        self.events.record(|| Event::PageTableFreed {
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
    fn plan_unlink(&mut self, draft: &mut Draft, process: ProcessIx, child: TableKey) {
        let number = self.stream.next_number();
        let (parent, _) = child.parent(&self.adapter).expect("the root stays");
        if self.processes[process].tables.get(parent).is_none() {
            return;
        }
        let table = self.processes[process].tables.get_mut(parent);
        let Table { plan, unlinked, .. } = *table;
        table.unlinked = number;
        let address = table.address.expect("what points to a table is placed");
        self.plan_after(draft, plan);
        self.plan_after(draft, unlinked);
        draft.plan.unlink.push(UnlinkedTable { process, child, parent: address });
    }
}
