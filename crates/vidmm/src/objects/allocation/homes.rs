//! The homes of an allocation: where lists may count it.

use super::{flags::AllocationState, record::Allocation};
use crate::{
    budget::account::{Account, Choices, Home},
    id::DeviceIx,
    objects::list::ListEntry,
};

impl Allocation {
    /// The home: the lists of the devices count the allocation there.
    pub fn home(&self) -> Home {
        let home = self.state.intersection(AllocationState::HOME).bits();
        Home::from_bits((home / AllocationState::LOWEST_HOME_BIT) as u8)
    }

    /// The account of the home.
    pub fn account(&self) -> Account {
        self.home().account()
    }

    /// The home in which the list of the device counts the allocation: the next home, where a request moves the allocation.
    pub fn home_on_list(&self) -> Home {
        self.rehoming().map_or(self.home(), |rehoming| rehoming.to)
    }

    /// The account of that home.
    pub fn counted_in(&self) -> Account {
        self.home_on_list().account()
    }

    /// Lists count the allocation in `home` from now on.
    pub fn set_home(&mut self, home: Home) {
        let home = u32::from(home.bits()) * AllocationState::LOWEST_HOME_BIT;
        self.state = self.state.difference(AllocationState::HOME) | AllocationState::from_bits_retain(home);
    }

    /// The possible homes of an allocation that joins the list of `device`: only the present home, while anything
    /// outstanding requires
    /// the allocation.
    pub fn homes(&self, device: DeviceIx) -> Choices {
        let is_counted = |other, entry: &ListEntry| entry.is_outstanding() || (other != device && entry.count > 0);
        if self.any_entry(is_counted) {
            return Choices::only(self.home());
        }
        self.allowed_homes()
    }

    /// The possible homes. A locked allocation may use only homes in the CPU's sight, if there is such a home.
    #[inline]
    pub fn allowed_homes(&self) -> Choices {
        if self.is_any(AllocationState::LOCKED | AllocationState::LOCK_PENDING) && self.may_be_seen() {
            return self.seen_homes().collect();
        }
        self.choices
    }

    /// The homes in the CPU's sight, first choice first.
    pub fn seen_homes(&self) -> impl Iterator<Item = Home> {
        self.choices.into_iter().filter(|&home| self.is_seen_in(home.account()))
    }

    /// Whether a possible home is in the CPU's sight.
    pub fn may_be_seen(&self) -> bool {
        self.seen_homes().next().is_some()
    }

    /// Whether the present home is in the CPU's sight.
    pub fn is_seen_at_home(&self) -> bool {
        self.is_seen_in(self.account())
    }

    /// Whether the allocation may be resident in system memory.
    pub fn may_be_in_system(&self) -> bool {
        self.choices.contain_account(Account::SYSTEM)
    }

    /// Whether the present home is not the first choice.
    pub fn homes_differ(&self) -> bool {
        self.allowed_homes().first() != Some(self.home())
    }

    /// Records the memory segments in the CPU's sight.
    pub fn set_seen_in(&mut self, is_seen: impl Fn(Account) -> bool) {
        let seen = self.choices.accounts().filter(|&account| account.is_memory() && is_seen(account));
        self.seen_in = seen.fold(0, |seen, account| seen | 1 << account.bits());
    }

    /// Whether the CPU sees an account's memory, or a copy in system memory.
    pub fn is_seen_in(&self, account: Account) -> bool {
        self.is(AllocationState::KEEPS_COPY) || account == Account::SYSTEM || self.seen_in & 1 << account.bits() != 0
    }
}
