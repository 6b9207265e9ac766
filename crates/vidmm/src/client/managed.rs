//! The allocations that a manager manages, by dense numbers.

use alloc::vec::Vec;

use bitflags::bitflags;

use super::uses::{UNLISTED, UseNo};
use crate::AllocationId;

/// An allocation as its manager names it. Ours: a dense number, so that a set finds it without hashing.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Managed {
    index: u32,
    generation: u32,
}

impl Managed {
    pub(super) const fn index(self) -> usize {
        self.index as usize
    }
}

bitflags! {
    /// How an allocation is managed.
    #[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
    pub struct ManageFlags: u32 {
        /// Its content can be made again by whoever manages it: [`trim`](super::ResidencyManager::trim) destroys it.
        const INTERNAL = 1 << 0;
    }
}

/// The manager does not manage this, or does no longer.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("managed allocation {} was forgotten, or another manager's; take it out of the set", .0.index)]
pub struct Forgotten(pub Managed);

/// The record of a managed allocation, apart from its stamp.
#[derive(Clone, Copy, Debug)]
pub(super) struct Record {
    pub allocation: AllocationId,
    pub size: u64,
    pub flags: ManageFlags,
    generation: u32,
    is_live: bool,
}

/// All managed allocations. Stamps are apart from the rest, since they are all that a submission touches.
#[derive(Default)]
pub(super) struct Table {
    records: Vec<Record>,
    /// The last use of each; [`UNLISTED`] while it is not on the device's list.
    pub stamps: Vec<UseNo>,
    free: Vec<u32>,
}

impl Table {
    pub fn insert(&mut self, allocation: AllocationId, size: u64, flags: ManageFlags) -> Managed {
        let index = self.free.pop().unwrap_or(self.records.len() as u32);
        let generation = self.records.get(index as usize).map_or(0, |record| record.generation.wrapping_add(1));
        let record = Record { allocation, size, flags, generation, is_live: true };
        match self.records.get_mut(index as usize) {
            Some(freed) => *freed = record,
            None => {
                self.records.push(record);
                self.stamps.push(UNLISTED);
            }
        }
        Managed { index, generation }
    }

    /// Forgets an allocation. Returns what was known of it.
    pub fn remove(&mut self, managed: Managed) -> Result<Record, Forgotten> {
        let record = *self.get(managed)?;
        self.records[managed.index()].is_live = false;
        self.stamps[managed.index()] = UNLISTED;
        self.free.push(managed.index);
        Ok(record)
    }

    pub fn get(&self, managed: Managed) -> Result<&Record, Forgotten> {
        let record = self.records.get(managed.index());
        record.filter(|record| record.is_live && record.generation == managed.generation).ok_or(Forgotten(managed))
    }

    /// The record of a live allocation.
    pub fn at(&self, index: u32) -> &Record {
        &self.records[index as usize]
    }

    /// All live allocations.
    pub fn iter(&self) -> impl Iterator<Item = (Managed, &Record)> {
        let live = (0..).zip(&self.records).filter(|(_, record)| record.is_live);
        live.map(|(index, record)| (Managed { index, generation: record.generation }, record))
    }
}
