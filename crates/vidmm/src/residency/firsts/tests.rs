//! The search against a look at each process.

use alloc::vec::Vec;

use proptest::prelude::*;

use super::Firsts;
use crate::{
    budget::{AccountShares, ProcessShare},
    id::ProcessIx,
    objects::allocation::worth::{Class, Worth},
};

/// A change of one process.
#[derive(Clone, Copy, Debug)]
enum Change {
    Demand(u64),
    Reservation(u64),
    Weight(u32),
    Usage(u64),
    First(Option<(u64, u64)>),
}

fn weights() -> impl Strategy<Value = u32> {
    prop::sample::select(&[1u32, 2, 4, 8, 16])
}

fn changes() -> impl Strategy<Value = Change> {
    prop_oneof![
        (0..60u64).prop_map(Change::Demand),
        (0..30u64).prop_map(Change::Reservation),
        weights().prop_map(Change::Weight),
        (0..60u64).prop_map(Change::Usage),
        prop::option::of((1..20u64, 0..5u64)).prop_map(Change::First),
    ]
}

/// A worth of one of three classes. Nobody misses the dead.
fn worth(rank: u64, number: u32) -> Worth {
    let class = [Class::Dead, Class::NotRequired, Class::DeviceSuspended][(rank as usize + number as usize) % 3];
    if class.is_worthless() { (class, 0, 0) } else { (class, 0, rank) }
}

proptest! {
    /// CRE-31a, RES-53: after any changes, the victim is the first allocation that no process keeps.
    #[test]
    fn the_first_that_is_not_kept_is_found(
        capacity in 20..400u64,
        rounds in prop::collection::vec((prop::collection::vec((0..12u32, changes()), 0..8), 0..12u32), 1..40),
    ) {
        let mut shares = AccountShares::new(capacity, u64::MAX);
        let mut firsts = Firsts::default();
        for process in 0..12 {
            shares.insert(ProcessIx::new(process), ProcessShare { weight: 4, reservation: 0, demand: 0 });
        }
        let (mut known, mut usage) = (Vec::from([None; 12]), [0; 12]);
        for (changes, other) in rounds {
            for (number, change) in changes {
                let process = ProcessIx::new(number);
                match change {
                    Change::Demand(bytes) => shares.set_demand(process, bytes),
                    Change::Reservation(bytes) => shares.set_reservation(process, bytes),
                    Change::Weight(weight) => shares.set_weight(process, weight),
                    Change::Usage(bytes) => usage[process.at()] = bytes,
                    Change::First(first) => {
                        known[process.at()] = first.map(|(size, rank)| (size, worth(rank, number)));
                        firsts.set(process, known[process.at()].map(|(_, worth)| worth));
                    }
                }
            }
            for (number, &bytes) in (0..).zip(&usage) {
                // The first allocation is resident.
                let size = known[number as usize].map_or(0, |(size, _)| size);
                let process = ProcessIx::new(number);
                let before = shares.usage(process);
                if before != bytes.max(size) {
                    shares.subtract_usage(process, before);
                    shares.add_usage(process, bytes.max(size));
                }
            }
            let other = ProcessIx::new(other);
            let all = known.iter().zip(0..).filter_map(|(first, number)| {
                first.map(|(size, worth)| (worth, ProcessIx::new(number), size))
            });
            let all = Vec::from_iter(all);
            let is_kept = |&(worth, process, size): &(Worth, ProcessIx, u64)| {
                !worth.0.is_worthless() && shares.keeps(process, other, size)
            };
            let wanted = all.iter().copied().filter(|first| !is_kept(first)).map(|(worth, process, _)| (worth, process)).min();
            let can_lose = all.iter().any(|&(_, process, _)| shares.spare(process, other).is_none_or(|bytes| bytes > 0));
            let size_of = |_, process: ProcessIx| known[process.at()].map_or(0, |(size, _)| size);
            prop_assert_eq!(firsts.first_not_kept(&mut shares, other, size_of), wanted);
            prop_assert_eq!(firsts.can_lose(&shares, other), can_lose);
            let first = all.iter().map(|&(worth, process, _)| (worth, process)).min();
            prop_assert_eq!(firsts.first(), first);
        }
    }
}
