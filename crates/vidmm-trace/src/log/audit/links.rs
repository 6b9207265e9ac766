//! How page tables hang together: which of them have content, and which parent points to which child (I15).

use std::collections::{BTreeMap, BTreeSet};

use vidmm::contract::{KmdProcessHandle, Pte, PteFlags, UpdatePageTable, UpdatePageTableFlags};
use vidmm::{PageSize, PhysicalAddress};

/// Whether an entry of a table above the leaves points to a table, and not to memory (GVA-21).
pub(super) fn points_to_table(entry: Pte) -> bool {
    entry.flags & (PteFlags::VALID | PteFlags::LARGE_PAGE) == PteFlags::VALID
}

/// A table of a process.
type Key = (KmdProcessHandle, PhysicalAddress);

/// An entry of a table, and which half of it.
type Slot = (KmdProcessHandle, PhysicalAddress, u32, PageSize);

/// The entries that were written to tables above the leaves.
#[derive(Debug, Default)]
pub(super) struct Links {
    initialised: BTreeSet<Key>,
    children: BTreeMap<Slot, PhysicalAddress>,
    parents: BTreeMap<Key, PhysicalAddress>,
}

impl Links {
    /// Entries are written. Valid entries of parents come one by one.
    pub fn write(&mut self, op: &UpdatePageTable) {
        let table = (op.process, op.page_table_address);
        if op.flags.contains(UpdatePageTableFlags::INITIAL_UPDATE) {
            self.initialised.insert(table);
            self.forget_children(table);
        }
        if op.page_table_level > 0 {
            let entries = op.page_table_entries;
            self.point(op, PageSize::Kib4, entries.first);
            entries.first_64kb.inspect(|&entry| self.point(op, PageSize::Kib64, entry));
        }
    }

    fn forget_children(&mut self, (process, address): Key) {
        let (first, last) = ((process, address, 0, PageSize::Kib4), (process, address, u32::MAX, PageSize::Kib64));
        let gone: Vec<Slot> = self.children.range(first..=last).map(|(&slot, _)| slot).collect();
        gone.into_iter().for_each(|slot| self.forget(slot));
    }

    fn forget(&mut self, slot: Slot) {
        if let Some(child) = self.children.remove(&slot) {
            self.parents.remove(&(slot.0, child));
        }
    }

    fn point(&mut self, op: &UpdatePageTable, side: PageSize, entry: Pte) {
        let slot = (op.process, op.page_table_address, op.start_index, side);
        self.forget(slot);
        if points_to_table(entry) {
            self.children.insert(slot, entry.address);
            self.parents.insert((op.process, entry.address), op.page_table_address);
        }
    }

    /// Whether a table has content.
    pub fn is_initialised(&self, table: Key) -> bool {
        self.initialised.contains(&table)
    }

    /// The table above, if its entry points here.
    pub fn parent(&self, (process, address): Key) -> Option<Key> {
        self.parents.get(&(process, address)).map(|&parent| (process, parent))
    }

    /// The table that an entry points to on one side.
    pub fn child(&self, (process, address): Key, index: u32, side: PageSize) -> Option<PhysicalAddress> {
        self.children.get(&(process, address, index, side)).copied()
    }

    /// A table is gone.
    pub fn forget_table(&mut self, table: Key) {
        self.initialised.remove(&table);
        self.forget_children(table);
        self.parents.remove(&table);
    }

    /// The memory that tables were in has lost its content.
    pub fn clear(&mut self) {
        *self = Self::default();
    }

    /// A process is gone.
    pub fn remove(&mut self, process: KmdProcessHandle) {
        self.initialised.retain(|&(of, _)| of != process);
        self.children.retain(|&(of, ..), _| of != process);
        self.parents.retain(|&(of, _), _| of != process);
    }
}
