//! Accounts, in which residency is counted. Each memory segment is one, and system memory that the GPU reaches is one.

use alloc::vec::Vec;
use core::ops::{Index, IndexMut};

/// The memory that an allocation takes bytes of while it is resident.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct Account(u8);

/// The accounts of an adapter. One without a memory segment has an account of no bytes for it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Accounts {
    memory_segments: u8,
}

/// One of each. The two that nearly every adapter has lie in place.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct PerAccount<T> {
    first: [T; 2],
    more: Vec<T>,
}

impl Account {
    /// System memory, as implicit system memory or through an aperture: counted against one commit limit (SEG-50, U-6).
    pub const SYSTEM: Account = Account(0);

    /// The memory segment that the driver reports first.
    pub const FIRST_MEMORY: Account = Account(1);

    /// How many there can be.
    pub const COUNT_MAX: usize = 15;

    /// Which of the adapter's memory segments it is, from 0; none for system memory.
    pub fn memory_segment(self) -> Option<usize> {
        usize::from(self.0).checked_sub(1)
    }

    /// Whether it is a memory segment.
    pub fn is_memory(self) -> bool {
        self != Account::SYSTEM
    }

    /// A number below [`COUNT_MAX`](Self::COUNT_MAX).
    pub const fn bits(self) -> u8 {
        self.0
    }

    /// The account of which [`bits`](Self::bits) is the number.
    pub const fn from_bits(bits: u8) -> Self {
        Account(bits)
    }
}

impl Accounts {
    /// Those of an adapter with so many memory segments.
    pub fn new(memory_segments: usize) -> Self {
        debug_assert!(memory_segments < Account::COUNT_MAX, "adapter start refuses more");
        Self { memory_segments: memory_segments.max(1) as u8 }
    }

    /// The memory segments, as the driver reports them.
    pub fn memory(self) -> impl DoubleEndedIterator<Item = Account> + Clone {
        (1..=self.memory_segments).map(Account)
    }

    /// All: the memory segments, and then system memory.
    pub fn iter(self) -> impl Iterator<Item = Account> + Clone {
        self.memory().chain([Account::SYSTEM])
    }

    /// One value for each.
    pub fn per<T>(self, mut of: impl FnMut(Account) -> T) -> PerAccount<T> {
        let first = Account::FIRST_MEMORY;
        let in_place = of(first);
        let more = self.memory().skip(1).map(&mut of).collect();
        PerAccount { first: [of(Account::SYSTEM), in_place], more }
    }

    /// Nothing of each.
    pub fn none<T: Default>(self) -> PerAccount<T> {
        self.per(|_| T::default())
    }
}

impl<T> PerAccount<T> {
    /// The accounts that there are values of.
    pub fn accounts(&self) -> Accounts {
        Accounts::new(self.more.len() + 1)
    }
}

impl<T> Index<Account> for PerAccount<T> {
    type Output = T;
    #[inline]
    fn index(&self, Account(account): Account) -> &T {
        let account = usize::from(account);
        self.first.get(account).unwrap_or_else(|| &self.more[account - 2])
    }
}

impl<T> IndexMut<Account> for PerAccount<T> {
    #[inline]
    fn index_mut(&mut self, Account(account): Account) -> &mut T {
        match usize::from(account) {
            account @ 0..2 => &mut self.first[account],
            account => &mut self.more[account - 2],
        }
    }
}

/// The accounts that an allocation may be counted in, first choice first.
#[derive(Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Choices(u64);

impl Choices {
    const BITS: u32 = 4;
    const MASK: u64 = (1 << Self::BITS) - 1;

    /// Only this one.
    pub const fn only(account: Account) -> Self {
        Self(account.0 as u64 + 1)
    }

    /// The first choice; none if there is no choice.
    pub fn first(self) -> Option<Account> {
        self.into_iter().next()
    }

    /// Whether this is one of them.
    pub fn contains(self, account: Account) -> bool {
        self.into_iter().any(|choice| choice == account)
    }

    /// Whether there is none.
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }
}

impl core::fmt::Debug for Choices {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_list().entries(*self).finish()
    }
}

impl FromIterator<Account> for Choices {
    /// Each account once, in the order in which it comes first.
    fn from_iter<I: IntoIterator<Item = Account>>(accounts: I) -> Self {
        let (mut choices, mut shift) = (Choices::default(), 0);
        for account in accounts {
            if !choices.contains(account) {
                choices.0 |= (u64::from(account.0) + 1) << shift;
                shift += Self::BITS;
            }
        }
        choices
    }
}

impl IntoIterator for Choices {
    type Item = Account;
    type IntoIter = ChoicesIter;
    fn into_iter(self) -> ChoicesIter {
        ChoicesIter(self.0)
    }
}

/// The rest of [`Choices`].
#[derive(Clone)]
pub(crate) struct ChoicesIter(u64);

impl Iterator for ChoicesIter {
    type Item = Account;
    #[inline]
    fn next(&mut self) -> Option<Account> {
        let account = (self.0 & Choices::MASK).checked_sub(1)?;
        self.0 >>= Choices::BITS;
        Some(Account(account as u8))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn choices_keep_their_order_and_name_each_account_once() {
        let all = Accounts::new(Account::COUNT_MAX - 1);
        let choices: Choices = all.iter().chain(all.iter()).collect();
        assert_eq!(Vec::from_iter(choices), Vec::from_iter(all.iter()));
        assert_eq!(Choices::only(Account::SYSTEM).first(), Some(Account::SYSTEM));
        assert_eq!(Choices::default().first(), None);
    }

    #[test]
    fn each_account_has_a_value_of_its_own() {
        let accounts = Accounts::new(4);
        let mut numbers = accounts.per(Account::bits);
        assert_eq!(numbers.accounts(), accounts);
        accounts.iter().for_each(|account| numbers[account] += 1);
        assert!(accounts.iter().all(|account| numbers[account] == account.bits() + 1));
    }
}
