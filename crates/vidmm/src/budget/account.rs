//! The two kinds of memory that residency is counted in: the memory segment, and system memory that the GPU reaches.

use core::ops::{Index, IndexMut};

/// What an allocation takes while it is resident.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Account {
    /// Pages of the memory segment.
    Memory,
    /// System memory, as implicit system memory or through the aperture: counted against one commit limit (SEG-50, U-6).
    System,
}

impl Account {
    /// Both.
    pub const ALL: [Account; 2] = [Account::Memory, Account::System];
}

/// One of each.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct PerAccount<T>([T; 2]);

impl<T> PerAccount<T> {
    /// One value for the memory segment, one for system memory.
    pub const fn new(memory: T, system: T) -> Self {
        Self([memory, system])
    }

    /// What `change` makes of each.
    pub fn map<U>(self, change: impl FnMut(T) -> U) -> PerAccount<U> {
        PerAccount(self.0.map(change))
    }
}

impl<T> Index<Account> for PerAccount<T> {
    type Output = T;
    fn index(&self, account: Account) -> &T {
        &self.0[account as usize]
    }
}

impl<T> IndexMut<Account> for PerAccount<T> {
    fn index_mut(&mut self, account: Account) -> &mut T {
        &mut self.0[account as usize]
    }
}
