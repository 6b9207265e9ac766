//! The level up to which all processes are filled together, and what it says of one of them alone.
//!
//! A budget takes the demand of its process to have no end, so each process has a level of its own. That of one that is not
//! satisfied is the common one. That of any other is lower, but by so little, among many, that the same ones are satisfied there:
//! then its budget follows from the sums at the common level.

use super::ranking::{Parted, Rank};

/// The level that all processes together are filled up to.
#[derive(Clone, Copy, Debug)]
pub(super) struct Level {
    /// Bytes that are poured: what the reservations in use leave of the capacity.
    pub free: u64,
    pub parted: Parted,
}

impl Level {
    /// Whether what a process asks for ends above the level.
    pub fn is_below(&self, Rank { excess, weight }: Rank) -> bool {
        let poured_on_capped = u128::from(self.free) - self.parted.satisfied_excess;
        u128::from(excess) * u128::from(self.parted.capped_weight) > u128::from(weight) * poured_on_capped
    }

    /// The parts without `rank` at the level that there is if its process has `free` bytes above its reservation and asks for
    /// no end of them; none if that level lies so much lower that they are others there.
    pub fn parted_without(&self, rank: Rank, free: u64) -> Option<Parted> {
        let Parted { satisfied_excess, capped_weight, last_satisfied } = self.parted;
        if self.is_below(rank) {
            // It gets what the level gives, however much more it asks for.
            return Some(Parted { capped_weight: capped_weight - u64::from(rank.weight), ..self.parted });
        }
        let satisfied_excess = satisfied_excess - u128::from(rank.excess);
        let lower = Level {
            free,
            parted: Parted { satisfied_excess, capped_weight: capped_weight + u64::from(rank.weight), last_satisfied },
        };
        let are_the_same = u128::from(free) >= satisfied_excess && !lower.is_below(last_satisfied);
        are_the_same.then_some(Parted { satisfied_excess, ..self.parted })
    }
}
