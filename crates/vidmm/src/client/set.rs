//! The allocations that one submission uses.

use alloc::vec::Vec;

use super::{managed::Managed, uses::UseNo};

/// The allocations that one submission uses, each once. Ours; it belongs to the manager whose allocations are in it.
///
/// A use is a write ([`insert`](Self::insert)) unless it is said to be a read ([`insert_read`](Self::insert_read)). An
/// allocation that was only read is evicted without a copy of its content (RES-22).
///
/// Keep it and [`clear`](Self::clear) it instead of making a new one: its memory is four bytes for each allocation that the
/// manager has, eight for each member, and eight more for each that is written.
#[derive(Clone, Debug, Default)]
pub struct ResidencySet {
    members: Vec<Managed>,
    /// The members that are written.
    written: Vec<Managed>,
    /// Equal to `generation` for those that are in the set, and one more for those that are written.
    stamps: Vec<u32>,
    /// Rises by two whenever the set is cleared, from 2.
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
        Self { generation: 2, ..Self::default() }
    }

    /// Adds an allocation that the submission writes, or may write. Constant time.
    ///
    /// Returns `false` if it is in the set already; from then on it counts as written, even if it was only read before.
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

    /// Adds an allocation that the submission only reads. Constant time.
    ///
    /// The GPU must not write it in this submission: where it does, the content that it wrote may be lost (RES-22).
    /// Returns `false` if it is in the set already; a member that is written stays written.
    pub fn insert_read(&mut self, managed: Managed) -> bool {
        if managed.index() >= self.stamps.len() {
            self.stamps.resize(managed.index() + 1, 0);
        }
        // A set that was made by `default` was never cleared.
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

    /// The members, in the order in which they came.
    pub fn members(&self) -> &[Managed] {
        &self.members
    }

    /// The members that are written, in the order in which that was said.
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
