//! A driver's patch-location list: the rules that it breaks, and what it could do better (SPL-01 to SPL-12).

use alloc::{
    collections::{BTreeMap, BTreeSet},
    vec::Vec,
};

use crate::{
    adapter::{Adapter, patching::PatchListRule},
    contract::PatchLocation,
    event::error::DriverFinding,
    id::AllocationIx,
    objects::{
        Objects,
        split::{Reference, References},
    },
};

/// Checks a driver's patch-location list (SPL-02 to SPL-04, C-15).
pub(super) fn check(
    adapter: &Adapter,
    locations: &[PatchLocation],
    list: &[Reference],
    dma_buffer_size: usize,
) -> Result<(), (usize, PatchListRule)> {
    let size = dma_buffer_size as u64;
    let mut end_of_group = size;
    for (position, location) in locations.iter().enumerate().rev() {
        let broken = |rule| Err((position, rule));
        let PatchLocation { allocation_index, slot_id, patch_offset, split_offset, .. } = *location;
        let Some(element) = list.get(allocation_index as usize) else {
            return broken(PatchListRule::AllocationIndex);
        };
        if slot_id >= adapter.num_slots {
            return broken(PatchListRule::SlotId);
        }
        if u64::from(split_offset) > size {
            return broken(PatchListRule::SplitOffset);
        }
        if let Some(after) = locations.get(position + 1)
            && after.split_offset != split_offset
        {
            if after.split_offset < split_offset {
                return Err((position + 1, PatchListRule::DecreasingSplitOffset));
            }
            end_of_group = after.split_offset.into();
        }
        let patched = u64::from(patch_offset)..u64::from(patch_offset) + ADDRESS_BYTES;
        if element.allocation.is_some() && (patched.start < u64::from(split_offset) || patched.end > end_of_group) {
            return broken(PatchListRule::PatchOffset);
        }
    }
    Ok(())
}

/// The findings about a list that breaks no rule: nothing is refused for it, but memory is wasted, or a DMA buffer fails where
/// it could have run.
pub(super) fn findings(adapter: &Adapter, objects: &Objects, references: &References) -> Vec<DriverFinding> {
    let mut found = Vec::new();
    let mut table: BTreeMap<u32, AllocationIx> = BTreeMap::new();
    let is_one_group = references.group(0).len() == references.patch_locations.len();
    let mut next = 0;
    while next < references.patch_locations.len() {
        let group = references.group(next);
        let locations = &references.patch_locations[group.clone()];
        if !table.is_empty() {
            let named: BTreeSet<u32> = locations.iter().map(|location| location.slot_id).collect();
            if !adapter.no_dma_patching && !named.iter().any(|slot| table.contains_key(slot)) {
                found.push(DriverFinding::BindingLeak { position: group.start });
            }
            let stays = table.iter().filter(|(slot, _)| !named.contains(slot));
            let large = stays.map(|(&slot_id, &index)| (slot_id, objects[index].size));
            if let Some((slot_id, size)) =
                large.max_by_key(|&(_, size)| size).filter(|&(_, size)| is_large(adapter, size))
            {
                found.push(DriverFinding::LargeStaysBound { position: group.start, slot_id, size });
            }
        }
        let mut bound_here: BTreeMap<u32, Option<AllocationIx>> = BTreeMap::new();
        for (position, location) in group.clone().zip(locations) {
            let (slot_id, bound) = (location.slot_id, references.bound_by(location));
            if bound_here.insert(slot_id, bound).is_some_and(|before| before != bound) {
                found.push(match is_one_group {
                    true => DriverFinding::NoSplitPoint { position, slot_id },
                    false => DriverFinding::MissingSplitPoint { position, slot_id },
                });
            }
            match bound {
                Some(index) => table.insert(slot_id, index),
                None => table.remove(&slot_id),
            };
        }
        next = group.end;
    }
    found
}

/// An allocation that takes a quarter of the largest memory segment is in the way of others where it cannot move.
fn is_large(adapter: &Adapter, size: u64) -> bool {
    adapter.memory.iter().map(|segment| segment.size).max().is_some_and(|largest| size >= largest / 4)
}

/// Bytes of an address in a DMA buffer.
const ADDRESS_BYTES: u64 = 8;
