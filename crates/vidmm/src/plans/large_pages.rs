//! Large pages: an entry of level 1 shows all that a leaf table shows, where that is one piece of memory (GVA-21).
//!
//! The leaf table says the same all the while. So a part of a large page is hidden as any range is, once its parent points to the
//! leaf table again; and since both say the same, nothing that a TLB remembers becomes wrong when one takes the other's place.

use crate::{
    contract::{PteFlags, UpdatePageTable},
    gpu_va::{Mapping, TableKey, leaf_runs},
    plans::{BuildEnv, PteRange, Steps, table::TableWriter},
    units::PhysicalAddress,
};

/// Leaf tables show the parts of some ranges, whose entries change next, instead of large pages.
pub(super) fn split(ranges: &[PteRange], env: &mut BuildEnv<'_>, steps: &mut Steps) {
    if env.adapter.large_pages.is_none() {
        return;
    }
    for Mapping { process, virtual_address, size, pte_page_size, .. } in ranges.iter().map(|range| range.mapping) {
        let process = &mut env.processes[process];
        for (start, _) in leaf_runs(env.adapter, virtual_address, size) {
            let key = TableKey::covering(env.adapter, 0, pte_page_size, start);
            if process.tables.get_mut(key).large_page.take().is_some() {
                let mut writer = TableWriter::of(env.adapter, process, steps);
                writer.push(writer.link(key));
            }
        }
    }
}

/// Large pages show the parts of some ranges, whose entries are written, that are one piece of memory each.
pub(super) fn join(ranges: &[PteRange], env: &mut BuildEnv<'_>, steps: &mut Steps) {
    let Some(large) = env.adapter.large_pages else { return };
    for range in ranges.iter().filter(|range| range.may_be_large) {
        let Mapping { virtual_address, size, allocation_offset, pte_page_size, driver_protection, .. } = range.mapping;
        let process = &mut env.processes[range.mapping.process];
        for (start, run) in range.extents.runs(allocation_offset, size) {
            let first = virtual_address + (start - allocation_offset);
            for (address, _) in leaf_runs(env.adapter, first, run.size).filter(|&(_, size)| size == large.bytes) {
                let done = address - first;
                let at = PhysicalAddress { segment: range.segment, offset: run.offset + done };
                if !large.may_begin_at(at) {
                    continue;
                }
                let key = TableKey::covering(env.adapter, 0, pte_page_size, address);
                let mut entry = range.entry(env.adapter, at.offset);
                entry.flags |= PteFlags::LARGE_PAGE;
                process.tables.get_mut(key).large_page = Some(entry);
                let mut writer = TableWriter::of(env.adapter, process, steps);
                writer.push(UpdatePageTable {
                    allocation: Some(range.handle),
                    allocation_offset_in_bytes: start + done,
                    driver_protection,
                    ..writer.link(key)
                });
            }
        }
    }
}
