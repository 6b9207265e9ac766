//! How a group of memory is shared (U-32): the formula of budgets, by sorting and filling.
//!
//! A process may have its reservation and its weight times the *level*. The level is as high as it can be while everybody has
//! what they ask for, or what they may have if that is less, and all of that fits.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;

use vidmm::ProcessId;

/// Bytes by which the manager's rounding may differ from ours: a level in whole bytes, times the largest weight.
pub(super) const ROUNDING: u64 = 16;

/// The figures of a process in the sharing of a pool.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Share {
    /// The bytes that it asks for.
    pub demand: u64,
    /// Those that its lists name now.
    pub requested: u64,
    pub reservation: u64,
    pub weight: u64,
}

impl Share {
    /// The bytes that it asks for beyond its reservation.
    fn excess(&self) -> u128 {
        u128::from(self.demand.saturating_sub(self.reservation))
    }

    /// The bytes of its reservation that it uses.
    fn reserved(&self) -> u128 {
        u128::from(self.demand.min(self.reservation))
    }
}

/// How a pool is shared among all processes.
#[derive(Debug)]
pub(super) struct Sharing {
    capacity: u64,
    budgeted: u64,
    shares: BTreeMap<ProcessId, Share>,
    /// The processes that ask for more than they have reserved, in the order in which they have it all as the level rises.
    thirsty: Vec<(ProcessId, Share)>,
    demand: u128,
    requested: u128,
    reserved: u128,
    thirsty_weight: u128,
}

impl Sharing {
    /// A pool of so many bytes, of which budgets are for so many, is shared so.
    pub fn new(capacity: u64, budgeted: u64, shares: BTreeMap<ProcessId, Share>) -> Self {
        let sum = |bytes: fn(&Share) -> u128| shares.values().map(bytes).sum();
        let (demand, requested) = (sum(|of| of.demand.into()), sum(|of| of.requested.into()));
        let reserved = sum(Share::reserved);
        let is_thirsty = |of: &Share| of.excess() > 0 && of.weight > 0;
        let mut thirsty: Vec<_> = shares.iter().filter(|(_, of)| is_thirsty(of)).map(|(&id, &of)| (id, of)).collect();
        // The level at which one has all that it asks for is its excess divided by its weight: lower ones first.
        thirsty.sort_by(|(_, a), (_, b)| (a.excess() * u128::from(b.weight)).cmp(&(b.excess() * u128::from(a.weight))));
        let thirsty_weight = thirsty.iter().map(|(_, of)| u128::from(of.weight)).sum();
        Self { capacity, budgeted, shares, thirsty, demand, requested, reserved, thirsty_weight }
    }

    /// How a process stands if its lists name `more` bytes.
    pub fn standing(&self, process: ProcessId, more: u64) -> Standing {
        let own = self.shares.get(&process).copied().unwrap_or_default();
        Standing {
            demand: own.demand,
            requested: own.requested.saturating_add(more),
            budget: self.budget(process, &own),
            maximum: self.budgeted.saturating_sub(whole(self.reserved - own.reserved())),
            total: whole(self.demand),
            requested_total: whole(self.requested + u128::from(more)),
            capacity: self.capacity,
            budgeted: self.budgeted,
        }
    }

    /// The least and the most bytes that a process is entitled to against another process: the budget, while budgets are imposed, or where
    /// the process means more to the user; otherwise the reservation, to the byte (U-31, RES-53, RES-70).
    pub fn entitled(&self, process: ProcessId, against: ProcessId) -> RangeInclusive<u64> {
        let share = |id: ProcessId| self.shares.get(&id).copied().unwrap_or_default();
        let standing = self.standing(process, 0);
        let (bytes, rounding) = match share(process).weight > share(against).weight || standing.is_pressed() {
            true => (standing.budget, ROUNDING),
            false => (share(process).reservation, 0),
        };
        bytes.saturating_sub(rounding)..=bytes.saturating_add(rounding)
    }

    /// The bytes that a process has reserved.
    pub fn reservation(&self, process: ProcessId) -> u64 {
        self.shares.get(&process).map_or(0, |share| share.reservation)
    }

    /// The budget of a process beside all others.
    fn budget(&self, process: ProcessId, own: &Share) -> u64 {
        let granted = self.reserved - own.reserved() + u128::from(own.reservation);
        let mut free = u128::from(self.budgeted).saturating_sub(granted);
        let (own_weight, mut weights) = (u128::from(own.weight), self.thirsty_weight);
        if own.excess() == 0 {
            weights += own_weight;
        }
        for (_, other) in self.thirsty.iter().filter(|&&(id, _)| id != process) {
            if other.excess() * weights > free * u128::from(other.weight) {
                break;
            }
            free -= other.excess();
            weights -= u128::from(other.weight);
        }
        let share = free * own_weight / weights.max(1);
        own.reservation.saturating_add(whole(share))
    }
}

/// A sum in bytes, or as much as can be said.
fn whole(sum: u128) -> u64 {
    u64::try_from(sum).unwrap_or(u64::MAX)
}

/// How a process stands in a pool.
#[derive(Clone, Copy, Debug)]
pub(super) struct Standing {
    pub demand: u64,
    /// The bytes that its lists name now.
    pub requested: u64,
    pub budget: u64,
    /// The bytes that it could have at the most: what the reservations that others use leave (U-24).
    pub maximum: u64,
    /// The bytes that all demand together, and that all lists name.
    pub total: u64,
    pub requested_total: u64,
    pub capacity: u64,
    /// Of the capacity, the bytes that budgets are for (RES-25).
    pub budgeted: u64,
}

impl Standing {
    /// The budgets are imposed (RES-53).
    pub fn is_pressed(&self) -> bool {
        self.total > self.budgeted
    }

    /// Budgets that it may have been told: one stands until the present one is 5 % away from it.
    pub fn budgets(&self) -> RangeInclusive<u64> {
        let slack = self.budget / 19 + ROUNDING;
        self.budget.saturating_sub(slack)..=self.budget.saturating_add(slack)
    }

    /// The present budget, published or not: the source of NumBytesToTrim (RES-13, RES-23).
    pub fn present_budgets(&self) -> RangeInclusive<u64> {
        self.budget.saturating_sub(ROUNDING)..=self.budget.saturating_add(ROUNDING)
    }

    /// Bytes that the process can trim and is above a budget while budgets are imposed.
    pub fn above(&self, budget: u64) -> u64 {
        if self.is_pressed() { self.requested.saturating_sub(budget) } else { 0 }
    }

    /// Whether all lists fit together.
    pub fn lists_fit(&self) -> bool {
        self.requested_total <= self.capacity
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn share(demand: u64, reservation: u64, weight: u64) -> Share {
        Share { demand, requested: demand, reservation, weight }
    }

    /// The budget of a process, of 100 bytes, beside these others.
    fn budget(others: &[Share], reservation: u64, weight: u64) -> u64 {
        // All have the same budget, whatever they ask for themselves.
        let [least, most] = [0, 1000].map(|demand| {
            let all = others.iter().copied().chain([share(demand, reservation, weight)]);
            let shares: BTreeMap<_, _> = (0..).map(ProcessId::from_bits).zip(all).collect();
            let last = *shares.keys().next_back().expect("there is one");
            Sharing::new(100, 100, shares).standing(last, 0).budget
        });
        assert_eq!(least, most);
        least
    }

    #[test]
    fn a_process_that_is_alone_may_have_everything() {
        assert_eq!(budget(&[], 0, 4), 100);
        assert_eq!(budget(&[], 30, 4), 100);
    }

    #[test]
    fn the_bytes_that_others_do_not_ask_for_are_shared() {
        let modest = share(10, 0, 4);
        assert_eq!(budget(&[modest], 0, 4), 90);
        assert_eq!(budget(&[modest, share(1000, 0, 4)], 0, 4), 45);
    }

    #[test]
    fn weights_divide_what_all_want() {
        assert_eq!(budget(&[share(1000, 0, 1)], 0, 4), 80);
        assert_eq!(budget(&[share(1000, 0, 4)], 0, 1), 20);
    }

    #[test]
    fn a_reservation_comes_before_all_shares() {
        assert_eq!(budget(&[share(1000, 40, 4)], 0, 4), 30);
        assert_eq!(budget(&[share(1000, 0, 4)], 40, 4), 70);
        // A reservation that its process does not use is there for others.
        assert_eq!(budget(&[share(10, 40, 4)], 0, 4), 90);
    }

    #[test]
    fn nothing_is_left_when_reservations_take_all() {
        assert_eq!(budget(&[share(1000, 100, 4)], 0, 4), 0);
        assert_eq!(budget(&[share(1000, 60, 4)], 60, 4), 60);
    }
}
