//! Where the page tables of processes lie, and that entries are written to them (I15).

use std::collections::{BTreeMap, BTreeSet};

use vidmm::contract::{KmdProcessHandle, Pte, PteFlags, UpdatePageTable, UpdatePageTableFlags};
use vidmm::{GpuVirtualAddress, PAGE_SIZE, PageSize, PhysicalAddress};

use super::finding::{Findings, Invariant};
use super::links::{Links, points_to_table};

/// The page tables of all processes but the paging process, whose tables no event places.
#[derive(Debug, Default)]
pub(super) struct Tables {
    /// Index bits of the levels, leaf first.
    level_bits: Vec<u32>,
    /// Bytes of a table of each level, leaf first.
    table_bytes: Vec<u64>,
    /// Bytes of a leaf table of 64 KiB pages, if that is another.
    leaf_64kb_bytes: Option<u64>,
    places: BTreeMap<(KmdProcessHandle, PhysicalAddress), Table>,
    links: Links,
    /// The leaf tables in place of which their parents show large pages: their sides, and the first addresses that they cover.
    large_pages: BTreeSet<(KmdProcessHandle, PageSize, u64)>,
}

/// A page table.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Table {
    pub level: u32,
    /// The pages that its entries map; 4 KiB above the leaves.
    pub page_size: PageSize,
    /// The first address that it covers.
    pub first_address: u64,
}

impl Table {
    pub fn new(level: u32, page_size: PageSize, first_address: GpuVirtualAddress) -> Self {
        let page_size = if level == 0 { page_size } else { PageSize::Kib4 };
        Self { level, page_size, first_address: first_address.0 }
    }
}

impl Tables {
    pub fn new(level_bits: &[u32], table_bytes: &[u64], leaf_64kb_bytes: Option<u64>) -> Self {
        let (level_bits, table_bytes) = (level_bits.to_vec(), table_bytes.to_vec());
        Self { level_bits, table_bytes, leaf_64kb_bytes, ..Self::default() }
    }

    /// Bytes of addresses that a leaf table covers; 0 if there are no tables.
    pub fn leaf_coverage(&self) -> u64 {
        self.level_bits.first().map_or(0, |_| self.entry_bytes(1, PageSize::Kib4))
    }

    /// Whether leaf tables of pages of 64 KiB stand beside those of 4 KiB (GVA-43).
    pub fn are_dual(&self) -> bool {
        self.leaf_64kb_bytes.is_some()
    }

    /// Whether tables of this level are roots.
    pub fn is_root(&self, level: u32) -> bool {
        level as usize + 1 == self.level_bits.len()
    }

    /// The level of roots.
    pub fn root_level(&self) -> u32 {
        (self.level_bits.len() as u32).saturating_sub(1)
    }

    /// A table takes as many bytes as the largest that the driver said, in whole pages of where it lives.
    pub fn check_size(&self, table: Table, size: u64, page_bytes: u64, findings: &mut Findings) {
        let right = self.largest().checked_next_multiple_of(page_bytes);
        findings.check(right == Some(size), Invariant::I15, || {
            format!("a table of level {} is placed in {size} bytes, but needs {right:?}", table.level)
        });
    }

    /// Bytes of the largest table that the driver said.
    pub fn largest(&self) -> u64 {
        self.table_bytes.iter().copied().chain(self.leaf_64kb_bytes).max().unwrap_or(0)
    }

    /// Bytes that the table needs whose entries an operation writes, in whole pages of 4 KiB.
    pub fn bytes_of(&self, op: &UpdatePageTable) -> u64 {
        let is_large = op.page_table_level == 0 && op.page_size() == PageSize::Kib64;
        let of_level = self.table_bytes.get(op.page_table_level as usize).copied();
        self.leaf_64kb_bytes.filter(|_| is_large).or(of_level).unwrap_or(0).next_multiple_of(PAGE_SIZE)
    }

    /// A table is placed.
    pub fn place(&mut self, process: KmdProcessHandle, address: PhysicalAddress, table: Table) {
        self.places.insert((process, address), table);
    }

    /// The table of a process at an address.
    pub fn at(&self, process: KmdProcessHandle, address: PhysicalAddress) -> Option<Table> {
        self.places.get(&(process, address)).copied()
    }

    /// A plan that frees tables is built to its end. Returns the first that a table which stays still points to, or shows a large page
    /// in place of.
    pub fn forget(&mut self, freed: &[(KmdProcessHandle, PhysicalAddress)]) -> Option<PhysicalAddress> {
        let stays = |parent| !freed.contains(&parent);
        let is_replaced = |&(process, at): &(KmdProcessHandle, PhysicalAddress)| {
            self.at(process, at).is_some_and(|table| self.is_replaced(process, table))
        };
        let still_needs = |table: &&(_, _)| self.links.parent(**table).is_some_and(stays) || is_replaced(table);
        let pointed_to = freed.iter().find(still_needs).map(|&(_, at)| at);
        for &table in freed {
            self.links.forget_table(table);
            self.places.remove(&table);
        }
        pointed_to
    }

    /// The address after the last that a table covers.
    pub fn end(&self, table: Table) -> u64 {
        table.first_address.saturating_add(self.entry_bytes(table.level.saturating_add(1), PageSize::Kib4))
    }

    /// The addresses that an entry showed through a table to which it points no longer, now that it is written.
    pub fn unlinked(&self, op: &UpdatePageTable) -> Option<(u64, u64)> {
        let table = (op.process, op.page_table_address);
        let entries = op.page_table_entries;
        let sides = [(PageSize::Kib4, Some(entries.first)), (PageSize::Kib64, entries.first_64kb)];
        let is_cut = |&(side, entry): &(PageSize, Option<Pte>)| {
            let child = self.links.child(table, op.start_index, side);
            // A large page shows what its table does.
            let is_large = entry.is_some_and(|entry| entry.flags.contains(PteFlags::LARGE_PAGE));
            let pointed_to = entry.filter(|&entry| points_to_table(entry)).map(|entry| entry.address);
            child.is_some() && !is_large && child != pointed_to
        };
        let is_initial = op.flags.contains(UpdatePageTableFlags::INITIAL_UPDATE);
        let start = op.first_pte_virtual_address.0;
        let end = start.saturating_add(self.entry_bytes(op.page_table_level, PageSize::Kib4));
        (!is_initial && sides.iter().any(is_cut)).then_some((start, end))
    }

    /// The memory segment has lost its content: tables must be initialised again.
    pub fn lose_content(&mut self) {
        self.large_pages.clear();
        self.links.clear();
    }

    /// A process is gone.
    pub fn remove(&mut self, process: KmdProcessHandle) {
        self.places.retain(|&(of, _), _| of != process);
        self.large_pages.retain(|&(of, ..)| of != process);
        self.links.remove(process);
    }

    /// Entries of a process are written: to one of its tables, at the index of the address that they map.
    pub fn check_write(&mut self, op: &UpdatePageTable, findings: &mut Findings) {
        let address = op.page_table_address;
        let Some(table) = self.places.get(&(op.process, address)) else {
            let message =
                format!("entries of process {} are written at {address:?}, where it has no table", op.process.0);
            return findings.report(Invariant::I15, message);
        };
        let side = if op.page_table_level == 0 { op.page_size() } else { PageSize::Kib4 };
        let index = u64::from(op.start_index);
        let at = table.first_address.saturating_add(index.saturating_mul(self.entry_bytes(table.level, side)));
        let fits =
            table.level == op.page_table_level && table.page_size == side && at == op.first_pte_virtual_address.0;
        findings.check(fits, Invariant::I15, || {
            format!(
                "entries of level {} from {} on are written at index {index} of a table of level {} that begins at {:#x}",
                op.page_table_level, op.first_pte_virtual_address, table.level, table.first_address
            )
        });
        let has_two_sides = op.page_table_level == 1 && self.are_dual();
        findings.check(op.page_table_entries.first_64kb.is_some() == has_two_sides, Invariant::I15, || {
            let told = if has_two_sides { "one side of" } else { "two sides of" };
            format!("{told} each entry of level {} is written at {address:?} (GVA-43)", op.page_table_level)
        });
        if op.page_table_level > 0 {
            let entries = op.page_table_entries;
            self.check_link(op, entries.first, PageSize::Kib4, findings);
            entries.first_64kb.inspect(|&entry| self.check_link(op, entry, PageSize::Kib64, findings));
        } else if op.page_table_entries.first.flags.contains(PteFlags::VALID) {
            self.check_reached(op, findings);
        }
        self.links.write(op);
    }

    /// A leaf that shows something has content, and so have all tables above it, up to the root, each of which points
    /// to the next.
    fn check_reached(&self, op: &UpdatePageTable, findings: &mut Findings) {
        let is_root = |key: &(KmdProcessHandle, PhysicalAddress)| {
            self.places.get(key).is_some_and(|table| self.is_root(table.level))
        };
        let mut at = (op.process, op.page_table_address);
        // A table has one parent, so that the way up is no longer than there are levels.
        for _ in 0..self.level_bits.len() {
            if !self.links.is_initialised(at) || is_root(&at) {
                break;
            }
            let Some(parent) = self.links.parent(at) else { break };
            at = parent;
        }
        findings.check(is_root(&at) && self.links.is_initialised(at), Invariant::I15, || {
            let address = op.first_pte_virtual_address;
            format!("{address} becomes valid, but the table at {:?} is not reached or has no content", at.1)
        });
    }

    /// A valid entry of a parent points to the child for its address.
    fn check_link(&self, op: &UpdatePageTable, entry: Pte, side: PageSize, findings: &mut Findings) {
        if !points_to_table(entry) {
            return;
        }
        let first_address = op.first_pte_virtual_address.0;
        let child = Table { level: op.page_table_level - 1, page_size: side, first_address };
        let found = self.places.get(&(op.process, entry.address));
        let has_content = self.links.is_initialised((op.process, entry.address));
        findings.check(found != Some(&child) || has_content, Invariant::I15, || {
            format!(
                "an entry of level {} points to a table without content at {:?}",
                op.page_table_level, entry.address
            )
        });
        findings.check(found == Some(&child), Invariant::I15, || {
            format!(
                "an entry of level {} points to {found:?} at {:?}, not to {child:?}",
                op.page_table_level, entry.address
            )
        });
    }

    /// Whether a leaf table of a process has a large page in its place.
    pub fn is_replaced(&self, process: KmdProcessHandle, table: Table) -> bool {
        table.level == 0 && self.large_pages.contains(&(process, table.page_size, table.first_address))
    }

    /// Entries of level 1 are written: the leaf tables that they stand for on one side have a large page in their place, which is
    /// one then, or none any more.
    pub fn replace(&mut self, op: &UpdatePageTable, side: PageSize, is_large: bool) {
        let first = op.first_pte_virtual_address.0;
        let count = u64::from(op.page_table_entries.num_page_table_entries);
        let end = first.saturating_add(count.saturating_mul(self.leaf_coverage()));
        let at = |address| (op.process, side, address);
        let gone: Vec<_> = self.large_pages.range(at(first)..at(end)).copied().collect();
        gone.iter().for_each(|table| _ = self.large_pages.remove(table));
        if is_large {
            self.large_pages.insert(at(first));
        }
    }

    /// Bytes of addresses that one entry covers.
    pub fn entry_bytes(&self, level: u32, side: PageSize) -> u64 {
        if level == 0 {
            return side.bytes();
        }
        let bits = self.level_bits.iter().take(level as usize).fold(0u32, |sum, &bits| sum.saturating_add(bits));
        PAGE_SIZE.checked_shl(bits).unwrap_or(u64::MAX)
    }
}
