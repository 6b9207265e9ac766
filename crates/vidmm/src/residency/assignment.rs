//! Assignment: which of its homes each allocation is counted in, so that all have room (D30).
//!
//! To assign sizes to accounts is bin packing, for which there is no exact answer for long lists. Allocations that weigh the same and may be
//! in the same homes are one *class* (ours), and the search places classes: the largest first, as many of one as there is room for in its
//! first home, then in the next; where something finds no room, one less of what came before. It takes a bounded number of steps.

use alloc::vec::Vec;

use crate::{
    budget::account::{Account, Choices, Home, PerAccount, PerHome},
    memory::Memory,
    residency::weight::{PackingRoom, Weight},
};

/// The number of steps of a search beyond those that place each class once.
const STEPS_MAX: usize = 4096;

/// The room for more allocations.
#[derive(Clone)]
pub(crate) struct Room {
    /// Bytes; none where it is below 0.
    pub bytes: PerAccount<i128>,
    /// The room for ranges; none where no allocation is one.
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

    /// The bytes that a home misses for the range of an allocation; 0 or less if it fits.
    #[inline(always)]
    pub fn misplaced(&self, weight: Weight, home: Home) -> i128 {
        self.ranges.as_ref().map_or(0, |ranges| ranges[home].missing_for(weight.footprint(home)))
    }

    /// Takes the room of so many allocations of a weight. Returns the room for ranges before.
    #[inline(always)]
    pub fn take(&mut self, weight: Weight, home: Home, number: u64) -> Option<PackingRoom> {
        self.bytes[home.account()] -= i128::from(weight.size) * i128::from(number);
        let ranges = &mut self.ranges.as_mut()?[home];
        Some(core::mem::replace(ranges, ranges.with_many(weight.footprint(home), number)))
    }

    /// So many bytes of an account leave, of ranges where there are any.
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

/// Allocations that weigh the same and may be in the same homes.
#[derive(Debug)]
pub(crate) struct Class {
    pub weight: Weight,
    /// The homes that they may have, first choice first.
    pub homes: Choices,
    pub number: u64,
}

/// The answer of a search.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Assignment {
    /// For each class, how many of it have each of its homes, in their order.
    Found(Vec<Vec<u64>>),
    /// There is none.
    Impossible,
    /// The search did not end.
    NotFound,
}

/// How many of a class have a home.
#[derive(Clone, Copy)]
struct Placed {
    number: u64,
    /// How many of the class had none before.
    left: u64,
    ranges_before: Option<PackingRoom>,
}

/// Assigns each allocation of all classes, which are in the order in which they are placed, to one of its homes.
pub(crate) fn assign(classes: &[Class], mut room: Room) -> Assignment {
    if exceeds(classes, &room) {
        return Assignment::Impossible;
    }
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
            match go_back(classes, &slots, &mut placed, &mut room) {
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

/// Places one less of what was placed last and may be elsewhere. Returns how many of its class are left then; none if there is nothing.
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

fn found(classes: &[Class], slots: &[(usize, Home, bool)], placed: &[Placed]) -> Assignment {
    let mut numbers = Vec::from_iter(classes.iter().map(|_| Vec::new()));
    for (&(of, ..), placed) in slots.iter().zip(placed) {
        numbers[of].push(placed.number);
    }
    Assignment::Found(numbers)
}

/// Whether what may only be in some accounts weighs more than there is room in these, for any set of accounts.
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
