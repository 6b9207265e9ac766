//! The allocations that one submission uses.

use alloc::vec::Vec;

use super::{managed::Managed, uses::UseNo};

/// The allocations that one submission uses, each once. Ours; it belongs to the manager whose allocations are in it.
///
/// Keep it and [`clear`](Self::clear) it instead of making a new one: its memory is four bytes for each allocation that the
/// manager has, and eight for each member.
#[derive(Clone, Debug, Default)]
pub struct ResidencySet {
    members: Vec<Managed>,
    /// Equal to `generation` for those that are in the set.
    stamps: Vec<u32>,
    /// Counts how often the set was cleared, from 1.
    generation: u32,
    /// The state that the manager knew when it last began the set as it is.
    pub(super) begun: Option<Begun>,
}

/// A manager's state when it had made a set resident: while it is the same, so is the set.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Begun {
    pub number: UseNo,
    /// How often anything had left the device's list.
    pub departures: u64,
}

impl ResidencySet {
    /// An empty set.
    pub fn new() -> Self {
        Self { generation: 1, ..Self::default() }
    }

    /// Adds an allocation; `false` if it is in the set already. Constant time.
    pub fn insert(&mut self, managed: Managed) -> bool {
        if managed.index() >= self.stamps.len() {
            self.stamps.resize(managed.index() + 1, 0);
        }
        // A set that was made by `default` was never cleared.
        self.generation = self.generation.max(1);
        let stamp = &mut self.stamps[managed.index()];
        if *stamp == self.generation {
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
        self.begun = None;
        self.generation = self.generation.wrapping_add(1);
        if self.generation == 0 {
            self.stamps.fill(0);
            self.generation = 1;
        }
    }

    /// The members, in the order in which they came.
    pub fn members(&self) -> &[Managed] {
        &self.members
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
