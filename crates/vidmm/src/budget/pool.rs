//! The two kinds of memory that residency is counted in: the memory segment, and system memory that the GPU reaches.

use core::ops::{Index, IndexMut};

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
