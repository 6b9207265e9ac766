//! The two kinds of memory that residency is counted in: the memory segment, and system memory that the GPU reaches.

use core::ops::{Index, IndexMut};

use crate::{adapter::Adapter, budget::MemorySegmentGroup};

impl Adapter {
    /// The group that a pool's budget is for; none for a memory segment that the adapter does not have (RES-50, U-3).
    pub(crate) fn group_of(&self, pool: Pool) -> Option<MemorySegmentGroup> {
        match (pool, self.memory.is_some()) {
            (Pool::Memory, true) | (Pool::System, false) => Some(MemorySegmentGroup::Local),
            (Pool::System, true) => Some(MemorySegmentGroup::NonLocal),
            (Pool::Memory, false) => None,
        }
    }

    /// The pool that a group's budget is for; none if the adapter has nothing of it.
    pub(crate) fn pool_of(&self, group: MemorySegmentGroup) -> Option<Pool> {
        match (group, self.memory.is_some()) {
            (MemorySegmentGroup::Local, true) => Some(Pool::Memory),
            (MemorySegmentGroup::Local, false) | (MemorySegmentGroup::NonLocal, true) => Some(Pool::System),
            (MemorySegmentGroup::NonLocal, false) => None,
        }
    }
}

/// What an allocation takes while it is resident.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Pool {
    /// Pages of the memory segment.
    Memory,
    /// System memory, as implicit system memory or through the aperture: counted against one commit limit (SEG-50, U-6).
    System,
}

impl Pool {
    /// Both.
    pub const ALL: [Pool; 2] = [Pool::Memory, Pool::System];
}

/// One of each.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct PerPool<T>([T; 2]);

impl<T> PerPool<T> {
    /// One value for the memory segment, one for system memory.
    pub const fn new(memory: T, system: T) -> Self {
        Self([memory, system])
    }

    /// What `change` makes of each.
    pub fn map<U>(self, change: impl FnMut(T) -> U) -> PerPool<U> {
        PerPool(self.0.map(change))
    }
}

impl<T> Index<Pool> for PerPool<T> {
    type Output = T;
    fn index(&self, pool: Pool) -> &T {
        &self.0[pool as usize]
    }
}

impl<T> IndexMut<Pool> for PerPool<T> {
    fn index_mut(&mut self, pool: Pool) -> &mut T {
        &mut self.0[pool as usize]
    }
}
