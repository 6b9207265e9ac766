//! Assignment: a home with room for each allocation of a list (D30).
//!
//! An assignment of sizes to accounts is bin packing, without an exact answer for long lists. Allocations of equal weight and homes are a
//! *class* (ours). The search places classes, largest first: as many allocations as possible in the first home, the rest in the next. Where
//! an allocation finds no room, the search takes back an earlier placement. The number of steps is bounded.

use alloc::vec::Vec;
use core::cmp::Reverse;

use crate::{
    budget::account::{Account, Choices, Home, PerAccount, PerHome},
    memory::Memory,
    residency::packing::PackingRoom,
    residency::weight::Weight,
};

/// The steps of a search beyond the first placement of each class.
const STEPS_MAX: usize = 4096;

/// The room for more allocations.
#[derive(Clone)]
pub(crate) struct Room {
    /// In bytes; no room below 0.
    pub bytes: PerAccount<i128>,
    /// The room for ranges; none for pages alone.
    pub ranges: Option<PerHome<PackingRoom>>,
}

impl Room {
    /// How many more allocations of a weight fit in a home.
    #[inline(always)]
    fn number_of(&self, weight: Weight, home: Home) -> u64 {
        let bytes = u64::try_from(self.bytes[home.account()].max(0)).unwrap_or(u64::MAX);
        let of_ranges = self.ranges.as_ref().map_or(u64::MAX, |ranges| ranges[home].number_of(weight.footprint(home)));
        (bytes / weight.size.max(1)).min(of_ranges)
    }

    /// Whether an allocation fits in a home.
    #[inline(always)]
    pub fn has(&self, weight: Weight, home: Home) -> bool {
        i128::from(weight.size) <= self.bytes[home.account()] && self.misplaced(weight, home) <= 0
    }

    /// The missing bytes of a home for the range of an allocation; 0 or less for none.
    #[inline(always)]
    pub fn misplaced(&self, weight: Weight, home: Home) -> i128 {
        self.ranges.as_ref().map_or(0, |ranges| ranges[home].missing_for(weight.footprint(home)))
    }

    /// Takes the room of several allocations of a weight. Returns the former room for ranges.
    #[inline(always)]
    pub fn take(&mut self, weight: Weight, home: Home, number: u64) -> Option<PackingRoom> {
        self.bytes[home.account()] -= i128::from(weight.size) * i128::from(number);
        let ranges = &mut self.ranges.as_mut()?[home];
        Some(core::mem::replace(ranges, ranges.with_many(weight.footprint(home), number)))
    }

    /// Bytes of an account leave, and as many of the ranges.
    pub fn trim(&mut self, account: Account, bytes: u64) {
        self.bytes[account] += i128::from(bytes);
        let Some(ranges) = &mut self.ranges else { return };
        for home in ranges.homes().iter().filter(|home| home.account() == account) {
            ranges[home] = ranges[home].after_trimming(bytes);
        }
    }

    /// All ranges of an account have left.
    pub fn empty_ranges(&mut self, memory: &Memory, account: Account) {
        let Some(ranges) = &mut self.ranges else { return };
        for home in ranges.homes().iter().filter(|home| home.account() == account) {
            ranges[home] = PackingRoom::empty(memory, home);
        }
    }

    fn give_back(&mut self, weight: Weight, home: Home, Placed { number, ranges_before, .. }: Placed) {
        self.bytes[home.account()] += i128::from(weight.size) * i128::from(number);
        if let Some((ranges, before)) = self.ranges.as_mut().zip(ranges_before) {
            ranges[home] = before;
        }
    }
}

/// Allocations of equal weight and homes.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Class {
    pub weight: Weight,
    /// The possible homes, first choice first.
    pub homes: Choices,
    pub number: u64,
}

impl Class {
    /// The order of classes: largest first, then fewest homes.
    pub fn order(weight: Weight, homes: Choices) -> impl Ord {
        (Reverse(weight), homes.len(), homes)
    }
}

/// The answer of a search.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Assignment {
    /// The classes in order, with the number of allocations in each home.
    Found(Vec<(Class, Vec<u64>)>),
    /// No assignment exists.
    Impossible,
    /// The search did not end.
    NotFound,
}

/// The allocations of a class in a home.
#[derive(Clone, Copy)]
struct Placed {
    number: u64,
    /// The allocations of the class without a home before.
    left: u64,
    ranges_before: Option<PackingRoom>,
}

/// Assigns each allocation of all classes to a home, largest first.
pub(crate) fn assign(mut classes: Vec<Class>, mut room: Room) -> Assignment {
    // A sum costs less than an order: most refusals end here.
    if exceeds(&classes, &room) {
        return Assignment::Impossible;
    }
    classes.sort_unstable_by_key(|class| Class::order(class.weight, class.homes));
    classes.dedup_by(|next, class| {
        let is_equal = (next.weight, next.homes) == (class.weight, class.homes);
        class.number += if is_equal { next.number } else { 0 };
        is_equal
    });
    let slots = Vec::from_iter(classes.iter().enumerate().flat_map(|(of, class)| {
        let last = class.homes.len() - 1;
        (0..).zip(class.homes).map(move |(at, home)| (of, home, at == last))
    }));
    let mut placed: Vec<Placed> = Vec::with_capacity(slots.len());
    let mut left = classes.first().map_or(0, |class| class.number);
    for _ in 0..slots.len().saturating_add(STEPS_MAX) {
        let Some(&(of, home, is_last)) = slots.get(placed.len()) else { return found(classes, &slots, &placed) };
        let weight = classes[of].weight;
        let number = room.number_of(weight, home).min(left);
        if is_last && number < left {
            match go_back(&classes, &slots, &mut placed, &mut room) {
                Some(left_now) => left = left_now,
                None => return Assignment::Impossible,
            }
            continue;
        }
        placed.push(Placed { number, left, ranges_before: room.take(weight, home, number) });
        left = if is_last { classes.get(of + 1).map_or(0, |class| class.number) } else { left - number };
    }
    match placed.len() == slots.len() {
        true => found(classes, &slots, &placed),
        false => Assignment::NotFound,
    }
}

/// Takes one allocation out of the last home with an alternative. Returns the allocations of the class without a home; none without an
/// alternative.
fn go_back(classes: &[Class], slots: &[(usize, Home, bool)], placed: &mut Vec<Placed>, room: &mut Room) -> Option<u64> {
    loop {
        let last = placed.pop()?;
        let (of, home, is_last) = slots[placed.len()];
        let weight = classes[of].weight;
        room.give_back(weight, home, last);
        if !is_last && last.number > 0 {
            let number = last.number - 1;
            placed.push(Placed { number, left: last.left, ranges_before: room.take(weight, home, number) });
            return Some(last.left - number);
        }
    }
}

fn found(classes: Vec<Class>, slots: &[(usize, Home, bool)], placed: &[Placed]) -> Assignment {
    let mut assigned = Vec::from_iter(classes.into_iter().map(|class| (class, Vec::new())));
    for (&(of, ..), placed) in slots.iter().zip(placed) {
        assigned[of].1.push(placed.number);
    }
    Assignment::Found(assigned)
}

/// Whether the allocations limited to a set of accounts weigh more than the room of the set, for any set.
fn exceeds(classes: &[Class], room: &Room) -> bool {
    let bit = |account: Account| 1u32 << account.bits();
    let mut of_sets: Vec<(u32, u128)> = Vec::new();
    for class in classes {
        let set = class.homes.accounts().fold(0, |set, account| set | bit(account));
        let bytes = u128::from(class.weight.size) * u128::from(class.number);
        match of_sets.iter_mut().find(|(of, _)| *of == set) {
            Some((_, sum)) => *sum += bytes,
            None => of_sets.push((set, bytes)),
        }
    }
    let accounts = room.bytes.accounts();
    let all = accounts.iter().fold(0, |set, account| set | bit(account));
    (1..=all).any(|set| {
        let within = of_sets.iter().filter(|&&(of, _)| of & !set == 0).map(|&(_, bytes)| bytes);
        let in_set = accounts.iter().filter(|&account| set & bit(account) != 0);
        let capacity = in_set.map(|account| room.bytes[account].max(0).unsigned_abs());
        within.sum::<u128>() > capacity.sum()
    })
}
