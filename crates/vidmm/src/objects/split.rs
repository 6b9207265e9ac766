//! Splitting: the references of a DMA buffer, and the portions into which it has been cut so far (SPL-01 to SPL-11).
//!
//! The references are walked from first to last. They fall into *groups*, of one split offset each; a group is taken
//! whole or not at all (I19). The resource table has the allocation of each slot at the present point of the walk.

use alloc::{
    collections::{BTreeMap, BTreeSet},
    vec::Vec,
};
use core::ops::Range;

use crate::{
    contract::PatchLocation,
    id::{AllocationIx, PlanNo},
    units::PhysicalAddress,
};

/// The references of a DMA buffer.
#[derive(Debug)]
pub(crate) struct References {
    /// The allocation list.
    pub list: Vec<Reference>,
    /// The patch-location list.
    pub patch_locations: Vec<PatchLocation>,
    /// The addresses of the list's elements that the driver wrote into the DMA buffer (PAT-14).
    pub pre_patched: Vec<Option<PhysicalAddress>>,
    /// The private data of the DMA buffer.
    pub private_data: Vec<u8>,
    /// Its number among the adapter's DMA buffers.
    pub number: u64,
    /// Its progress.
    pub progress: Progress,
}

/// An element of an allocation list.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Reference {
    /// The allocation; none unbinds a slot (PAT-16).
    pub allocation: Option<AllocationIx>,
    pub write_operation: bool,
}

/// The part of a DMA buffer that has been handed out.
#[derive(Debug, Default)]
pub(crate) struct Progress {
    /// The first byte that has not been handed out.
    pub start: u32,
    /// The first patch location that is in none of the portions so far.
    pub next: usize,
    /// The number of portions so far.
    pub portions: u32,
    /// The table at `start`, before the group there is applied.
    pub table: ResourceTable,
    /// Allocations that keep their places: bound at `start`, and not reprogrammed there (SPL-08).
    pub fixed: BTreeSet<AllocationIx>,
}

/// A portion that is decided: all allocations that it requires have their places.
#[derive(Debug)]
pub(crate) struct Portion {
    /// The first byte behind it.
    pub end: u32,
    /// Its patch locations.
    pub patch_locations: Range<usize>,
    /// The allocations that it requires, in the order in which they are bound, and the table at its end.
    pub required: Vec<AllocationIx>,
    pub table: ResourceTable,
    /// The plans that bring those in.
    pub plans: Vec<PlanNo>,
    /// The reason why it ends there, if it is not the last.
    pub cut: Option<Cut>,
}

/// The reason of a cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Cut {
    /// This allocation does not fit beside the portion's requirements.
    NoRoom { allocation: AllocationIx },
    /// Every split point is taken (SPL-13).
    TakeSplitPoint,
}

/// The allocation of each slot, as an element of the allocation list. Every slot is empty at first (SPL-02).
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct ResourceTable(BTreeMap<u32, u32>);

impl References {
    /// The patch locations that share the split offset of number `first`.
    pub fn group(&self, first: usize) -> Range<usize> {
        let Some(offset) = self.split_offset(first) else { return first..first };
        let rest = &self.patch_locations[first..];
        first..first + rest.iter().take_while(|location| location.split_offset == offset).count()
    }

    /// A portion is handed out: the next begins at byte `start` and at patch location `next`.
    pub fn advance(&mut self, start: u32, next: usize, table: ResourceTable, fixed: BTreeSet<AllocationIx>) {
        let portions = self.progress.portions + 1;
        self.progress = Progress { start, next, portions, table, fixed };
    }

    /// Takes the allocations that keep their places for the next portion.
    pub fn take_fixed(&mut self) -> BTreeSet<AllocationIx> {
        core::mem::take(&mut self.progress.fixed)
    }

    /// The split offset of a patch location.
    pub fn split_offset(&self, location: usize) -> Option<u32> {
        self.patch_locations.get(location).map(|location| location.split_offset)
    }

    /// The allocation that a patch location binds.
    pub fn bound_by(&self, location: &PatchLocation) -> Option<AllocationIx> {
        self.list[location.allocation_index as usize].allocation
    }

    /// All allocations that it refers to, each once.
    pub fn allocations(&self) -> BTreeSet<AllocationIx> {
        self.list.iter().filter_map(|reference| reference.allocation).collect()
    }

    /// The allocations that the GPU writes to, as often as the list names them so.
    pub fn written(&self) -> impl Iterator<Item = AllocationIx> {
        self.list.iter().filter(|reference| reference.write_operation).filter_map(|reference| reference.allocation)
    }
}

impl ResourceTable {
    /// Applies patch locations: each binds its slot, and one whose element is the null element unbinds it (SPL-03).
    pub fn apply(&mut self, references: &References, locations: Range<usize>) {
        for location in &references.patch_locations[locations] {
            match references.bound_by(location) {
                Some(_) => {
                    self.0.insert(location.slot_id, location.allocation_index);
                }
                None => {
                    self.0.remove(&location.slot_id);
                }
            }
        }
    }

    /// The bound slots, and the elements of the allocation list that they are bound to.
    pub fn bound(&self) -> impl Iterator<Item = (u32, u32)> {
        self.0.iter().map(|(&slot, &element)| (slot, element))
    }

    /// The allocations that stay bound although `locations` are applied: they keep their places (SPL-08).
    pub fn fixed(&self, references: &References, locations: Range<usize>) -> BTreeSet<AllocationIx> {
        let reprogrammed: BTreeSet<u32> =
            references.patch_locations[locations].iter().map(|location| location.slot_id).collect();
        let kept = self.bound().filter(|(slot, _)| !reprogrammed.contains(slot));
        kept.filter_map(|(_, element)| references.list[element as usize].allocation).collect()
    }
}
