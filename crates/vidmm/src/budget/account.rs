//! Accounts, in which residency is counted; and homes, of which a list counts an allocation in one.
//!
//! Each memory segment is an account, and system memory that the GPU reaches is one, through whichever aperture. A home is a memory
//! segment too, or system memory and one of the apertures: where ranges lie is a matter of homes, how many bytes there are is one of
//! accounts.

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
    pub const COUNT_MAX: usize = 11;

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
    #[inline]
    pub fn per<T>(self, mut of: impl FnMut(Account) -> T) -> PerAccount<T> {
        let first = Account::FIRST_MEMORY;
        let in_place = of(first);
        let more = (2..=self.memory_segments).map(|account| of(Account(account))).collect();
        PerAccount { first: [of(Account::SYSTEM), in_place], more }
    }

    /// Nothing of each.
    #[inline]
    pub fn none<T: Default>(self) -> PerAccount<T> {
        self.per(|_| T::default())
    }
}

impl<T> PerAccount<T> {
    /// The accounts that there are values of.
    pub fn accounts(&self) -> Accounts {
        Accounts::new(self.more.len() + 1)
    }

    /// The values, without their accounts.
    #[inline]
    pub fn values(&self) -> impl Iterator<Item = &T> {
        self.first.iter().chain(&self.more)
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

/// Where a list counts an allocation: a memory segment, or system memory and one of the apertures that show it (D19).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct Home(u8);

impl Home {
    /// Implicit system memory, and the aperture that the driver reports first.
    pub const SYSTEM: Home = Home(0);

    /// How many apertures there can be.
    pub const APERTURES_MAX: usize = 5;

    /// System memory through the aperture that the driver reports at this place, from 0.
    pub const fn aperture(number: usize) -> Home {
        match number {
            0 => Home::SYSTEM,
            _ => Home((Account::COUNT_MAX + number) as u8 - 1),
        }
    }

    /// Which of the apertures it is, from 0; none for a memory segment.
    pub fn aperture_number(self) -> Option<usize> {
        let further = || (usize::from(self.0) + 1).checked_sub(Account::COUNT_MAX).filter(|&number| number > 0);
        if self == Home::SYSTEM { Some(0) } else { further() }
    }

    /// The account that counts it.
    pub const fn account(self) -> Account {
        if self.0 < Account::COUNT_MAX as u8 { Account(self.0) } else { Account::SYSTEM }
    }

    /// A number below 15.
    pub const fn bits(self) -> u8 {
        self.0
    }

    /// The home of which [`bits`](Self::bits) is the number.
    pub const fn from_bits(bits: u8) -> Self {
        Home(bits)
    }
}

impl From<Account> for Home {
    /// The first home whose bytes are the account's.
    fn from(Account(account): Account) -> Self {
        Home(account)
    }
}

/// The homes of an adapter.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Homes {
    pub accounts: Accounts,
    pub num_apertures: u8,
}

impl Homes {
    /// All: the memory segments, and then the apertures; there is one for system memory also without an aperture.
    pub fn iter(self) -> impl Iterator<Item = Home> + Clone {
        let further = (1..usize::from(self.num_apertures)).map(Home::aperture);
        self.accounts.iter().map(Home::from).chain(further)
    }

    /// One value for each.
    pub fn per<T>(self, mut of: impl FnMut(Home) -> T) -> PerHome<T> {
        let first = self.accounts.per(|account| of(account.into()));
        let further = (1..usize::from(self.num_apertures)).map(|number| of(Home::aperture(number))).collect();
        PerHome { first, further }
    }
}

/// One of each.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct PerHome<T> {
    first: PerAccount<T>,
    further: Vec<T>,
}

impl<T> PerHome<T> {
    /// The homes with a value.
    pub fn homes(&self) -> Homes {
        Homes { accounts: self.first.accounts(), num_apertures: self.further.len() as u8 + 1 }
    }
}

impl<T> Index<Home> for PerHome<T> {
    type Output = T;
    #[inline]
    fn index(&self, home: Home) -> &T {
        match home.aperture_number() {
            None | Some(0) => &self.first[home.account()],
            Some(number) => &self.further[number - 1],
        }
    }
}

impl<T> IndexMut<Home> for PerHome<T> {
    #[inline]
    fn index_mut(&mut self, home: Home) -> &mut T {
        match home.aperture_number() {
            None | Some(0) => &mut self.first[home.account()],
            Some(number) => &mut self.further[number - 1],
        }
    }
}

/// The homes that an allocation may have, first choice first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub(crate) struct Choices(u64);

impl Choices {
    const BITS: u32 = 4;
    const MASK: u64 = (1 << Self::BITS) - 1;

    /// Only this one.
    pub const fn only(home: Home) -> Self {
        Self(home.0 as u64 + 1)
    }

    /// The first choice; none if there is no choice.
    pub fn first(self) -> Option<Home> {
        self.into_iter().next()
    }

    /// Whether this is one of them.
    pub fn contains(self, home: Home) -> bool {
        self.into_iter().any(|choice| choice == home)
    }

    /// Whether one of them is counted in this account.
    pub fn contain_account(self, account: Account) -> bool {
        self.accounts().any(|choice| choice == account)
    }

    /// The accounts that count them.
    pub fn accounts(self) -> impl Iterator<Item = Account> + Clone {
        self.into_iter().map(Home::account)
    }

    /// Whether there are several.
    pub fn are_several(self) -> bool {
        self.0 >> Self::BITS != 0
    }

    /// How many there are.
    pub fn len(self) -> u32 {
        (u64::BITS - self.0.leading_zeros()).div_ceil(Self::BITS)
    }
}

impl core::fmt::Debug for Choices {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_list().entries(*self).finish()
    }
}

impl FromIterator<Home> for Choices {
    /// Each home once, in the order in which it comes first.
    fn from_iter<I: IntoIterator<Item = Home>>(homes: I) -> Self {
        let (mut choices, mut shift) = (Choices::default(), 0);
        for home in homes {
            if !choices.contains(home) {
                choices.0 |= (u64::from(home.0) + 1) << shift;
                shift += Self::BITS;
            }
        }
        choices
    }
}

impl IntoIterator for Choices {
    type Item = Home;
    type IntoIter = ChoicesIter;
    fn into_iter(self) -> ChoicesIter {
        ChoicesIter(self.0)
    }
}

/// The rest of [`Choices`].
#[derive(Clone)]
pub(crate) struct ChoicesIter(u64);

impl Iterator for ChoicesIter {
    type Item = Home;
    #[inline]
    fn next(&mut self) -> Option<Home> {
        let home = (self.0 & Choices::MASK).checked_sub(1)?;
        self.0 >>= Choices::BITS;
        Some(Home(home as u8))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn choices_keep_their_order_and_name_each_account_once() {
        let accounts = Accounts::new(Account::COUNT_MAX - 1);
        let all = Homes { accounts, num_apertures: Home::APERTURES_MAX as u8 };
        let choices: Choices = all.iter().chain(all.iter()).collect();
        assert_eq!(Vec::from_iter(choices), Vec::from_iter(all.iter()));
        assert_eq!([choices, Choices::only(Home::SYSTEM), Choices::default()].map(Choices::len), [15, 1, 0]);
        assert_eq!(Choices::only(Home::SYSTEM).first(), Some(Home::SYSTEM));
        assert_eq!(Choices::default().first(), None);
    }

    #[test]
    fn each_home_has_a_value_of_its_own_and_its_account() {
        let homes = Homes { accounts: Accounts::new(3), num_apertures: 3 };
        let mut numbers = homes.per(Home::bits);
        homes.iter().for_each(|home| numbers[home] += 1);
        assert!(homes.iter().all(|home| numbers[home] == home.bits() + 1));
        let counted =
            Vec::from_iter(homes.iter().map(|home| (home.account().memory_segment(), home.aperture_number())));
        let [first, second, third] = [0, 1, 2].map(|segment| (Some(segment), None));
        assert_eq!(counted, [first, second, third, (None, Some(0)), (None, Some(1)), (None, Some(2))]);
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
