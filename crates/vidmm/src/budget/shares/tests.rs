//! The sharing against its definition, computed anew for each process by trial.

use alloc::{collections::BTreeMap, vec, vec::Vec};

use proptest::prelude::*;

use super::{AccountShares, ProcessShare};
use crate::id::ProcessIx;

const fn share(weight: u32, reservation: u64, demand: u64) -> ProcessShare {
    ProcessShare { weight, reservation, demand }
}

fn shares(capacity: u64, members: &[ProcessShare]) -> AccountShares {
    let mut shares = AccountShares::new(capacity, u64::MAX);
    members.iter().zip(0..).for_each(|(&member, process)| shares.insert(ProcessIx::new(process), member));
    shares
}

fn budgets(shares: &AccountShares, processes: core::ops::Range<u32>) -> Vec<u64> {
    processes.map(|process| shares.budget(ProcessIx::new(process))).collect()
}

#[test]
fn one_process_may_have_everything() {
    assert_eq!(shares(100, &[share(4, 0, 7)]).budget(ProcessIx::FIRST), 100);
    assert_eq!(shares(100, &[share(4, 30, 7)]).budget(ProcessIx::FIRST), 100);
}

#[test]
fn equal_processes_share_equally_whatever_they_demand_above_the_level() {
    let shares = shares(90, &[share(4, 0, 50), share(4, 0, 1000), share(4, 0, 31)]);
    assert_eq!(budgets(&shares, 0..3), [30; 3]);
    assert_eq!(
        Vec::from_iter(shares.over_budget().map(ProcessIx::get)),
        [1, 0, 2],
        "the furthest above the level first"
    );
}

#[test]
fn a_process_that_asks_for_less_than_the_level_leaves_the_rest_to_the_others() {
    let shares = shares(90, &[share(1, 0, 10), share(1, 0, 200), share(1, 0, 200)]);
    assert_eq!(budgets(&shares, 0..3), [30, 40, 40]);
    assert_eq!(Vec::from_iter(shares.over_budget().map(ProcessIx::get)), [2, 1]);
}

#[test]
fn weight_multiplies_what_is_above_the_reservation_only() {
    let shares = shares(100, &[share(1, 20, 90), share(3, 0, 90)]);
    assert_eq!(budgets(&shares, 0..2), [20 + 20, 60]);
}

#[test]
fn a_reservation_that_is_not_used_is_lent_to_others_and_comes_back_with_the_demand() {
    let mut shares = shares(100, &[share(1, 40, 0), share(1, 0, 100)]);
    assert_eq!(shares.budget(ProcessIx::new(1)), 100);
    shares.set_demand(ProcessIx::new(0), 40);
    assert_eq!(shares.budget(ProcessIx::new(1)), 60);
    assert_eq!(budgets(&shares, 0..1), [40 + 30], "its own demand does not change its budget");
}

#[test]
fn without_pressure_nobody_is_over_its_budget() {
    let shares = shares(100, &[share(1, 0, 90), share(16, 0, 10)]);
    assert!(!shares.is_pressed());
    assert_eq!(shares.over_budget().count(), 0);
    assert_eq!(budgets(&shares, 0..2), [90, 94], "each at least what it demands");
}

/// Budgets follow the limit while the account has more, and the account when it has less (RES-25).
#[test]
fn budgets_are_for_no_more_than_the_limit() {
    let mut shares = AccountShares::new(100, 40);
    for process in 0..2 {
        shares.insert(ProcessIx::new(process), ProcessShare { weight: 1, reservation: 0, demand: 30 });
    }
    assert!(shares.is_pressed());
    assert_eq!(shares.budget(ProcessIx::new(0)), 20);
    shares.set_capacity(20);
    assert_eq!(shares.budget(ProcessIx::new(0)), 10);
    shares.set_capacity(1_000);
    assert_eq!((shares.budget(ProcessIx::new(0)), shares.maximum_budget(ProcessIx::new(0))), (20, 40));
}

#[test]
fn without_capacity_every_budget_is_nothing() {
    let shares = shares(0, &[share(1, 0, 1), share(2, 5, 5), share(3, 5, 0)]);
    assert_eq!(budgets(&shares, 0..3), [0; 3]);
    assert_eq!(Vec::from_iter(shares.over_budget().map(ProcessIx::get)), [0, 1]);
}

#[test]
fn reservations_that_do_not_fit_together_share_the_capacity_in_proportion() {
    let shares = shares(60, &[share(1, 100, 100), share(16, 50, 50)]);
    assert_eq!(budgets(&shares, 0..2), [40, 20]);
    assert_eq!(shares.over_budget().count(), 2);
}

#[test]
fn the_maximum_budget_is_what_reservations_in_use_leave() {
    let shares = shares(100, &[share(1, 30, 80), share(1, 30, 10), share(1, 0, 500)]);
    assert_eq!([0, 1, 2].map(|process| shares.maximum_budget(ProcessIx::new(process))), [90, 70, 60]);
}

#[test]
fn ten_thousand_equal_processes_share_to_the_last_byte_that_divides() {
    const PROCESSES: u32 = 10_000;
    let mut shares = shares(1 << 40, &vec![share(4, 0, 1 << 30); PROCESSES as usize]);
    assert_eq!(budgets(&shares, 0..PROCESSES), [(1 << 40) / u64::from(PROCESSES); PROCESSES as usize]);
    let expected: Vec<u32> = (0..PROCESSES).rev().collect();
    assert_eq!(Vec::from_iter(shares.over_budget().map(ProcessIx::get)), expected);

    // All but the first become satisfied one by one.
    (1..PROCESSES).for_each(|process| shares.set_demand(ProcessIx::new(process), 1 << 20));
    assert_eq!(shares.budget(ProcessIx::new(0)), (1 << 40) - (u64::from(PROCESSES - 1) << 20));
    assert!(!shares.is_pressed());
}

#[test]
fn absurd_demands_do_not_overflow() {
    let shares = shares(u64::MAX, &[share(16, u64::MAX, u64::MAX); 3]);
    assert_eq!(budgets(&shares, 0..3), [u64::MAX / 3; 3]);
    assert_eq!((shares.demanded > u128::from(u64::MAX), shares.reservation_total()), (true, u64::MAX));
}

#[test]
fn a_published_budget_stands_until_the_budget_has_moved_by_more_than_a_twentieth() {
    let mut shares = shares(1000, &[share(1, 0, 2000), share(1, 0, 0)]);
    assert_eq!(shares.published_budget(ProcessIx::new(0)), 1000, "nobody was told anything yet");
    assert_eq!((shares.publish(ProcessIx::new(0)), shares.publish(ProcessIx::new(0))), (Some(1000), None));

    shares.set_demand(ProcessIx::new(1), 50);
    assert_eq!(
        (
            shares.budget(ProcessIx::new(0)),
            shares.publish(ProcessIx::new(0)),
            shares.published_budget(ProcessIx::new(0))
        ),
        (950, None, 1000)
    );
    shares.set_demand(ProcessIx::new(1), 51);
    assert_eq!(
        (
            shares.published_budget(ProcessIx::new(0)),
            shares.publish(ProcessIx::new(0)),
            shares.published_budget(ProcessIx::new(0))
        ),
        (949, Some(949), 949)
    );
    shares.set_demand(ProcessIx::new(1), 60);
    assert_eq!(
        (shares.budget(ProcessIx::new(0)), shares.publish(ProcessIx::new(0))),
        (940, None),
        "it moved from the new one by less"
    );
}

#[test]
fn a_change_of_weight_or_reservation_is_published_whatever_it_changes() {
    let mut shares = shares(1000, &[share(1, 0, 2000), share(1, 0, 2000)]);
    assert_eq!(shares.publish(ProcessIx::new(0)), Some(500));
    shares.set_reservation(ProcessIx::new(0), 10);
    assert_eq!((shares.published_budget(ProcessIx::new(0)), shares.publish(ProcessIx::new(0))), (505, Some(505)));
    shares.set_weight(ProcessIx::new(0), 2);
    assert_eq!(shares.publish(ProcessIx::new(0)), Some(670));
    shares.set_weight(ProcessIx::new(1), 2);
    assert_eq!(shares.publish(ProcessIx::new(0)), Some(505));
    shares.set_weight(ProcessIx::new(0), 1);
    shares.set_weight(ProcessIx::new(1), 1);
    assert_eq!(shares.publish(ProcessIx::new(0)), None, "the same as before is no news");
}

/// The definition: the level is tried out, for each process anew.
struct Definition<'a> {
    capacity: u64,
    members: &'a BTreeMap<u32, ProcessShare>,
}

impl Definition<'_> {
    fn sum(&self, of: impl Fn(&ProcessShare) -> u64) -> u128 {
        self.members.values().map(|member| u128::from(of(member))).sum()
    }

    /// Whether all others get what they get at the level at which `process` has `budget` bytes, and it too.
    fn fits(&self, process: u32, budget: u64) -> bool {
        // Everything is multiplied by the weight of the process, so that the level has no fraction.
        let own = self.members[&process];
        let own_weight = u128::from(own.weight);
        let level = u128::from(budget - own.reservation);
        let others = self.members.iter().filter(|&(&other, _)| other != process).map(|(_, other)| {
            let water = u128::from(other.reservation) * own_weight + u128::from(other.weight) * level;
            water.min(u128::from(other.demand) * own_weight)
        });
        others.sum::<u128>() + u128::from(budget) * own_weight <= u128::from(self.capacity) * own_weight
    }

    fn budget(&self, process: u32) -> u64 {
        let own = self.members[&process];
        if own.reservation > self.capacity || !self.fits(process, own.reservation) {
            let covered_of_others =
                self.sum(|member| member.demand.min(member.reservation)) - u128::from(own.demand.min(own.reservation));
            let left = u128::from(self.capacity).saturating_sub(covered_of_others);
            let proportion =
                u128::from(own.reservation) * u128::from(self.capacity) / self.sum(|member| member.reservation);
            return left.max(proportion) as u64;
        }
        // The largest budget that fits, by halving.
        let (mut fits, mut least_that_may_not) = (own.reservation, u128::from(self.capacity) + 1);
        while u128::from(fits) + 1 < least_that_may_not {
            let middle = ((u128::from(fits) + least_that_may_not) / 2) as u64;
            match self.fits(process, middle) {
                true => fits = middle,
                false => least_that_may_not = middle.into(),
            }
        }
        fits
    }
}

#[derive(Clone, Debug)]
enum Operation {
    Insert(u32, ProcessShare),
    Remove(u32),
    SetWeight(u32, u32),
    SetReservation(u32, u64),
    SetDemand(u32, u64),
    SetCapacity(u64),
}

const PROCESSES: u32 = 12;
const CASES: u32 = 250;
const OPERATIONS: usize = 80;

/// Sizes that often make processes equal, bytes as they come, and sizes at the end of what a number holds.
fn sizes() -> impl Strategy<Value = fn(u64) -> u64> {
    let small: fn(u64) -> u64 = |random| random % 40;
    let usual: fn(u64) -> u64 = |random| random % (1 << 34);
    let pages: fn(u64) -> u64 = |random| (random % 64) << 16;
    let absurd: fn(u64) -> u64 = |random| random | 1 << 63;
    prop_oneof![6 => Just(small), 2 => Just(usual), 2 => Just(pages), 1 => Just(absurd)]
}

fn operation() -> impl Strategy<Value = (u8, u32, u32, [u64; 3])> {
    (0..16_u8, 0..PROCESSES, 1..=16_u32, any::<[u64; 3]>())
}

fn operations() -> impl Strategy<Value = Vec<Operation>> {
    let drawn = (sizes(), proptest::collection::vec(operation(), OPERATIONS));
    drawn.prop_map(|(size, drawn)| {
        let operation = |(kind, process, weight, [a, b, c]): (u8, u32, u32, [u64; 3])| match kind {
            0..=3 => Operation::Insert(process, share(weight, if c % 3 == 0 { size(a) / 4 } else { 0 }, size(b))),
            4 => Operation::Remove(process),
            5..=6 => Operation::SetWeight(process, weight),
            7..=8 => Operation::SetReservation(process, size(a) / 4),
            9..=13 => Operation::SetDemand(process, size(a)),
            _ => Operation::SetCapacity(size(a).saturating_mul(b % 8)),
        };
        drawn.into_iter().map(operation).collect()
    })
}

/// Does an operation if it names a process that is there, or is not, as it must be.
fn apply(
    operation: &Operation,
    shares: &mut AccountShares,
    members: &mut BTreeMap<u32, ProcessShare>,
    capacity: &mut u64,
) {
    match *operation {
        Operation::Insert(process, share) if !members.contains_key(&process) => {
            shares.insert(ProcessIx::new(process), share);
            members.insert(process, share);
        }
        Operation::Remove(process) if members.remove(&process).is_some() => shares.remove(ProcessIx::new(process)),
        Operation::SetWeight(process, weight) if members.contains_key(&process) => {
            shares.set_weight(ProcessIx::new(process), weight);
            members.get_mut(&process).unwrap().weight = weight;
        }
        Operation::SetReservation(process, reservation) if members.contains_key(&process) => {
            shares.set_reservation(ProcessIx::new(process), reservation);
            members.get_mut(&process).unwrap().reservation = reservation;
        }
        Operation::SetDemand(process, demand) if members.contains_key(&process) => {
            shares.set_demand(ProcessIx::new(process), demand);
            members.get_mut(&process).unwrap().demand = demand;
        }
        Operation::SetCapacity(bytes) => {
            shares.set_capacity(bytes);
            *capacity = bytes;
        }
        _ => {}
    }
}

fn compare(
    shares: &mut AccountShares,
    members: &BTreeMap<u32, ProcessShare>,
    capacity: u64,
) -> Result<(), TestCaseError> {
    let definition = Definition { capacity, members };
    let demanded = definition.sum(|member| member.demand);
    let is_pressed = demanded > capacity.into();
    prop_assert_eq!(shares.is_pressed(), is_pressed);
    prop_assert_eq!(shares.demanded, demanded);
    prop_assert_eq!(
        u128::from(shares.reservation_total()),
        definition.sum(|member| member.reservation).min(u64::MAX.into())
    );

    let (mut allowed, mut over) = (0, vec![]);
    for (&process, &member) in members {
        let budget = definition.budget(process);
        prop_assert_eq!(shares.get(ProcessIx::new(process)), member);
        prop_assert_eq!(shares.budget(ProcessIx::new(process)), budget, "process {}", process);
        prop_assert!(shares.maximum_budget(ProcessIx::new(process)) >= budget && budget <= capacity);
        allowed += u128::from(member.demand.min(budget));
        if is_pressed && member.demand > budget {
            over.push(process);
        }

        // A process that trims until it is within its budget with what it wants to add is within it then.
        let added = budget / 2;
        let to_trim = (u128::from(member.demand) + u128::from(added)).saturating_sub(budget.into()) as u64;
        shares.set_demand(ProcessIx::new(process), member.demand - to_trim);
        prop_assert_eq!(shares.budget(ProcessIx::new(process)), budget, "process {} trims {}", process, to_trim);
        prop_assert!(shares.maximum_budget(ProcessIx::new(process)) >= budget);
        shares.set_demand(ProcessIx::new(process), member.demand);
    }
    prop_assert!(allowed <= capacity.into(), "together they may have {} of {}", allowed, capacity);
    if definition.sum(|member| member.reservation) <= capacity.into() {
        prop_assert!(
            members.iter().all(|(&process, member)| shares.budget(ProcessIx::new(process)) >= member.reservation)
        );
    }

    let found: Vec<u32> = shares.over_budget().map(ProcessIx::get).collect();
    prop_assert_eq!(found.iter().collect::<alloc::collections::BTreeSet<_>>().len(), found.len());
    let above_level = |process: u32| members[&process].demand.saturating_sub(members[&process].reservation);
    let is_above = |&one: &u32, &other: &u32| {
        let of_one = u128::from(above_level(one)) * u128::from(members[&other].weight);
        let of_other = u128::from(above_level(other)) * u128::from(members[&one].weight);
        (of_one, one) > (of_other, other)
    };
    prop_assert!(found.is_sorted_by(is_above));
    let mut found = found;
    found.sort_unstable();
    prop_assert_eq!(found, over);
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(CASES) })]

    #[test]
    fn budgets_are_what_the_definition_says_after_any_change(operations in operations()) {
        let (mut shares, mut members, mut capacity) = (AccountShares::new(0, u64::MAX), BTreeMap::new(), 0);
        for operation in &operations {
            apply(operation, &mut shares, &mut members, &mut capacity);
            compare(&mut shares, &members, capacity)?;
        }
    }

    #[test]
    fn a_process_that_asks_for_more_raises_no_other_budget(
        operations in operations(), process in 0..PROCESSES, more in any::<u64>(),
    ) {
        let (mut shares, mut members, mut capacity) = (AccountShares::new(0, u64::MAX), BTreeMap::new(), 0);
        operations.iter().for_each(|operation| apply(operation, &mut shares, &mut members, &mut capacity));
        if let Some(&ProcessShare { demand, .. }) = members.get(&process) {
            let before: BTreeMap<u32, u64> = members.keys().map(|&other| (other, shares.budget(ProcessIx::new(other)))).collect();
            for more in [1, more % 1000, more] {
                shares.set_demand(ProcessIx::new(process), demand.saturating_add(more));
                prop_assert_eq!(shares.budget(ProcessIx::new(process)), before[&process], "its own stays");
                prop_assert!(before.iter().all(|(&other, &budget)| shares.budget(ProcessIx::new(other)) <= budget));
            }
        }
    }
}
