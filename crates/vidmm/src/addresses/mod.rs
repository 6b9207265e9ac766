//! Addresses: the page tables of processes, and what the IOMMU shows.

use alloc::{collections::BTreeSet, vec::Vec};

use crate::{
    adapter::Adapter,
    contract::IoMmuDomain,
    data::ordered_set::OrderedSet,
    gpu_va::{Mapping, PageTables, TableKey},
    id::{AllocationId, AllocationIx, ProcessIx},
    objects::Objects,
    units::{Extent, GpuVirtualAddress},
};

/// A part of an allocation's backing store in the IOMMU.
#[derive(Debug, Clone, Copy)]
pub(crate) struct IoMmuRange {
    pub domain: IoMmuDomain,
    pub virtual_address: GpuVirtualAddress,
    pub size: u64,
    /// Where it is in system memory.
    pub system_offset: u64,
    pub read_only: bool,
    pub allocation: AllocationId,
    pub allocation_offset: u64,
    /// Whether it is a window of the paging process.
    pub window: bool,
}

/// Tables that are to be planned or freed.
#[derive(Default)]
pub(crate) struct Addresses {
    /// Processes whose root table is still to be planned.
    pub rootless: OrderedSet<ProcessIx>,
    /// Tables that nothing is mapped through any more, by process.
    pub empty_tables: BTreeSet<(ProcessIx, TableKey)>,
    /// Reserved addresses that were given back, and are still shown as zero.
    pub unreserved: Vec<Unreserved>,
}

/// Reserved addresses that were given back.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Unreserved {
    pub process: ProcessIx,
    pub part: Extent,
    /// The reservation that they were a part of.
    pub around: Extent,
}

/// The range that the host maps for a mapping; none if the GPU has page tables.
pub(crate) fn io_mmu_range(
    adapter: &Adapter,
    objects: &Objects,
    index: AllocationIx,
    mapping: &Mapping,
) -> Option<IoMmuRange> {
    let domain = adapter.io_mmu_domain(objects[mapping.process].handle)?;
    Some(IoMmuRange {
        domain,
        virtual_address: GpuVirtualAddress(mapping.virtual_address),
        size: mapping.size,
        system_offset: objects[index].backing_store + mapping.allocation_offset,
        read_only: mapping.read_only,
        allocation: objects.allocations.id(index),
        allocation_offset: mapping.allocation_offset,
        window: false,
    })
}

/// Something needs tables of a process, which are there.
pub(crate) fn hold_tables(objects: &mut Objects, process: ProcessIx, keys: impl IntoIterator<Item = TableKey>) {
    keys.into_iter().for_each(|key| objects[process].tables.get_mut(key).users += 1);
}

/// The tables that a mapping needs, roots first; none if the GPU has no page tables.
pub(crate) fn tables_of(adapter: &Adapter, mapping: &Mapping) -> impl Iterator<Item = TableKey> + use<> {
    let Mapping { virtual_address, size, pte_page_size, .. } = *mapping;
    let tables = adapter.has_page_tables();
    let needed = tables.then(|| PageTables::needed(adapter, virtual_address, size, pte_page_size));
    needed.into_iter().flatten()
}

impl Addresses {
    /// Whether no table is to be planned or freed.
    pub(crate) fn is_settled(&self) -> bool {
        self.rootless.is_empty() && self.empty_tables.is_empty() && self.unreserved.is_empty()
    }

    /// Whether tables of a process are to be freed, or reserved addresses of it that were given back.
    pub(crate) fn has_unsettled(&self, process: ProcessIx) -> bool {
        let first_empty = self.empty_tables.range((process, TableKey::FIRST)..).next();
        first_empty.is_some_and(|&(owner, _)| owner == process)
            || self.unreserved.iter().any(|unreserved| unreserved.process == process)
    }

    /// The root table of a new process is to be planned.
    pub(crate) fn need_root(&mut self, process: ProcessIx) {
        self.rootless.insert(process);
    }

    /// The root table of a process is planned.
    pub(crate) fn note_root(&mut self, process: ProcessIx) {
        self.rootless.remove(&process);
    }

    /// A table of a process that nothing is mapped through is to be freed.
    pub(crate) fn note_empty(&mut self, process: ProcessIx, key: TableKey) {
        self.empty_tables.insert((process, key));
    }

    /// Takes the tables that are to be freed.
    pub(crate) fn take_empty(&mut self) -> BTreeSet<(ProcessIx, TableKey)> {
        core::mem::take(&mut self.empty_tables)
    }

    /// Reserved addresses were given back.
    pub(crate) fn note_unreserved(&mut self, unreserved: Unreserved) {
        self.unreserved.push(unreserved);
    }

    /// Takes the reserved addresses that were given back.
    pub(crate) fn take_unreserved(&mut self) -> Vec<Unreserved> {
        core::mem::take(&mut self.unreserved)
    }

    /// A process is gone.
    pub(crate) fn forget_process(&mut self, process: ProcessIx) {
        self.rootless.remove(&process);
        self.empty_tables.retain(|&(owner, _)| owner != process);
        self.unreserved.retain(|unreserved| unreserved.process != process);
    }

    /// Something needs tables of a process no more.
    pub(crate) fn release_tables(
        &mut self,
        adapter: &Adapter,
        objects: &mut Objects,
        process: ProcessIx,
        keys: impl IntoIterator<Item = TableKey>,
    ) {
        for key in keys {
            let table = objects[process].tables.get_mut(key);
            table.users -= 1;
            let is_kept = key == TableKey::root(adapter);
            if table.users == 0 && !is_kept {
                self.note_empty(process, key);
            }
        }
    }
}
