//! The allocations that a manager manages, by dense numbers.

use alloc::{collections::BTreeSet, vec::Vec};

use bitflags::bitflags;

use vidmm::AllocationId;

/// A manager's name for an allocation. Ours: a dense number, so that a set finds the allocation without hashing.
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
        /// The owner can make the content again: [`trim`](super::ResidencyManager::trim) destroys the allocation.
        const INTERNAL = 1 << 0;
        /// Unannounced work writes the allocation, or the CPU does without a lock: every Evict counts the allocation as
        /// written. CPU writes under a lock are kept without the flag.
        const WRITTEN_BY_OTHERS = 1 << 1;
    }
}

bitflags! {
    /// The state of a managed allocation.
    #[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
    pub(super) struct State: u8 {
        /// The allocation is on the device's list.
        const LISTED = 1 << 0;
        /// A use has written the allocation since the allocation joined the list.
        const WRITTEN = 1 << 1;
    }
}

/// The manager does not manage the allocation, or no longer.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("managed allocation {} was forgotten, or another manager's; take it out of the set", .0.index)]
pub struct Forgotten(pub Managed);

/// The record of a managed allocation, without the state.
#[derive(Clone, Copy, Debug)]
pub(super) struct Record {
    pub allocation: AllocationId,
    pub size: u64,
    pub flags: ManageFlags,
    generation: u32,
    is_live: bool,
}

/// All managed allocations. States are apart from the rest, since a submission touches only states.
#[derive(Default)]
pub(super) struct Table {
    records: Vec<Record>,
    states: Vec<State>,
    free: Vec<u32>,
    /// The live allocations with [`ManageFlags::INTERNAL`].
    internal: BTreeSet<u32>,
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
                self.states.push(State::empty());
            }
        }
        if flags.contains(ManageFlags::INTERNAL) {
            self.internal.insert(index);
        }
        Managed { index, generation }
    }

    /// Forgets an allocation. Returns the record.
    pub fn remove(&mut self, managed: Managed) -> Result<Record, Forgotten> {
        let record = *self.get(managed)?;
        self.records[managed.index()].is_live = false;
        self.states[managed.index()] = State::empty();
        self.internal.remove(&managed.index);
        self.free.push(managed.index);
        Ok(record)
    }

    pub fn get(&self, managed: Managed) -> Result<&Record, Forgotten> {
        let record = self.records.get(managed.index());
        record.filter(|record| record.is_live && record.generation == managed.generation).ok_or(Forgotten(managed))
    }

    /// Counts the content as written from now on.
    pub fn expect_other_writers(&mut self, managed: Managed) -> Result<(), Forgotten> {
        self.get(managed)?;
        self.records[managed.index()].flags |= ManageFlags::WRITTEN_BY_OTHERS;
        Ok(())
    }

    /// The record of a live allocation.
    pub fn at(&self, index: u32) -> &Record {
        &self.records[index as usize]
    }

    /// The state of an index; empty if the index has no allocation.
    pub fn state(&self, index: u32) -> State {
        self.states.get(index as usize).copied().unwrap_or_default()
    }

    /// The states, by index.
    pub fn states_mut(&mut self) -> &mut [State] {
        &mut self.states
    }

    pub fn is_listed(&self, index: u32) -> bool {
        self.state(index).contains(State::LISTED)
    }

    /// Whether the content may be newer than when the allocation joined the list.
    pub fn may_be_written(&self, index: u32) -> bool {
        self.state(index).contains(State::WRITTEN) || self.at(index).flags.contains(ManageFlags::WRITTEN_BY_OTHERS)
    }

    /// The number of indices.
    pub fn len(&self) -> usize {
        self.records.len()
    }

    /// The allocations with [`ManageFlags::INTERNAL`].
    pub fn internal(&self) -> impl Iterator<Item = Managed> {
        self.internal.iter().map(|&index| Managed { index, generation: self.at(index).generation })
    }
}
