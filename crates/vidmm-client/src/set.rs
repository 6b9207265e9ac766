//! The allocations of one submission.

use alloc::vec::Vec;

use super::{managed::Managed, uses::UseNo};

/// The allocations of one submission, each once. Ours; a set belongs to the manager of the members.
///
/// A use is a write ([`insert`](Self::insert)) or a read ([`insert_read`](Self::insert_read)). An allocation with reads alone
/// is evicted without a copy of the content (RES-22).
///
/// Keep a set and [`clear`](Self::clear) the set instead of making a new set: the memory is 4 bytes for each allocation of the
/// manager, 8 for each member, and 8 more for each written member.
#[derive(Clone, Debug, Default)]
pub struct ResidencySet {
    members: Vec<Managed>,
    /// The written members.
    written: Vec<Managed>,
    /// `generation` for a member that is only read, `generation + 1` for a written member.
    stamps: Vec<u32>,
    /// Rises by 2 with each `clear`, from 2.
    generation: u32,
    /// The manager's state at the last begin of the unchanged set.
    pub(super) begun: Option<Begun>,
}

/// A manager's state after making a set resident: while the state is the same, the set is resident.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Begun {
    pub number: UseNo,
    /// The number of departures from the device's list.
    pub departures: u64,
}

impl ResidencySet {
    /// An empty set.
    pub fn new() -> Self {
        Self { generation: 2, ..Self::default() }
    }

    /// Adds an allocation with a certain or possible write. Constant time.
    ///
    /// Returns `false` if the allocation is in the set already; a read becomes a write.
    pub fn insert(&mut self, managed: Managed) -> bool {
        let is_new = self.insert_read(managed);
        let stamp = &mut self.stamps[managed.index()];
        if *stamp == self.generation {
            *stamp += 1;
            self.written.push(managed);
            self.begun = None;
        }
        is_new
    }

    /// Adds an allocation with reads alone. Constant time.
    ///
    /// The GPU must not write the allocation in this submission: written content may be lost (RES-22). Returns `false` if the
    /// allocation is in the set already; a written member stays written.
    pub fn insert_read(&mut self, managed: Managed) -> bool {
        if managed.index() >= self.stamps.len() {
            self.stamps.resize(managed.index() + 1, 0);
        }
        // A set from `default` was never cleared.
        self.generation = self.generation.max(2);
        let stamp = &mut self.stamps[managed.index()];
        if *stamp >= self.generation {
            return false;
        }
        *stamp = self.generation;
        self.members.push(managed);
        self.begun = None;
        true
    }

    /// Empties the set, in constant time.
    pub fn clear(&mut self) {
        self.members.clear();
        self.written.clear();
        self.begun = None;
        self.generation = self.generation.max(2).wrapping_add(2);
        if self.generation == 0 {
            self.stamps.fill(0);
            self.generation = 2;
        }
    }

    /// The members, in the order of insertion.
    pub fn members(&self) -> &[Managed] {
        &self.members
    }

    /// The written members, in the order of their first `insert`.
    pub fn written(&self) -> &[Managed] {
        &self.written
    }

    /// How many members there are.
    pub fn len(&self) -> usize {
        self.members.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.members.is_empty()
    }
}
