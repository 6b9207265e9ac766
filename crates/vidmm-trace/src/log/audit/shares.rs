//! How a group of memory is shared (U-32): the formula of budgets, by sorting and filling.
//!
//! A process may have its reservation and its weight times the *level*. The level is as high as it can be while everybody has
//! what they ask for, or what they may have if that is less, and all of that fits.

/// The bytes that a process asks for, and those that it may have.
#[derive(Clone, Copy, Debug)]
pub(super) struct Share {
    pub demand: u64,
    pub reservation: u64,
    pub weight: u64,
}

impl Share {
    /// The bytes that it asks for beyond its reservation.
    fn excess(&self) -> u128 {
        u128::from(self.demand.saturating_sub(self.reservation))
    }
}

/// The budget of a process with this reservation and weight beside `others`, who share `capacity` with it.
pub(super) fn budget(capacity: u64, others: &[Share], reservation: u64, weight: u64) -> u64 {
    let granted = others.iter().map(|other| u128::from(other.demand.min(other.reservation)));
    let mut free = u128::from(capacity).saturating_sub(granted.sum::<u128>() + u128::from(reservation));
    let mut weights = u128::from(weight);
    let mut thirsty: Vec<&Share> = others.iter().filter(|other| other.excess() > 0 && other.weight > 0).collect();
    weights += thirsty.iter().map(|other| u128::from(other.weight)).sum::<u128>();
    // The level at which one has all that it asks for is its excess divided by its weight: lower ones first.
    thirsty.sort_by(|a, b| (a.excess() * u128::from(b.weight)).cmp(&(b.excess() * u128::from(a.weight))));
    for other in thirsty {
        let filled = other.excess() * weights <= free * u128::from(other.weight);
        if !filled {
            break;
        }
        free -= other.excess();
        weights -= u128::from(other.weight);
    }
    let share = free * u128::from(weight) / weights.max(1);
    reservation.saturating_add(u64::try_from(share).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn share(demand: u64, reservation: u64, weight: u64) -> Share {
        Share { demand, reservation, weight }
    }

    #[test]
    fn a_process_that_is_alone_may_have_everything() {
        assert_eq!(budget(100, &[], 0, 4), 100);
        assert_eq!(budget(100, &[], 30, 4), 100);
    }

    #[test]
    fn the_bytes_that_others_do_not_ask_for_are_shared() {
        let modest = share(10, 0, 4);
        assert_eq!(budget(100, &[modest], 0, 4), 90);
        assert_eq!(budget(100, &[modest, share(1000, 0, 4)], 0, 4), 45);
    }

    #[test]
    fn weights_divide_what_all_want() {
        assert_eq!(budget(100, &[share(1000, 0, 1)], 0, 4), 80);
        assert_eq!(budget(100, &[share(1000, 0, 4)], 0, 1), 20);
    }

    #[test]
    fn a_reservation_comes_before_all_shares() {
        assert_eq!(budget(100, &[share(1000, 40, 4)], 0, 4), 30);
        assert_eq!(budget(100, &[share(1000, 0, 4)], 40, 4), 70);
        // A reservation that its process does not use is there for others.
        assert_eq!(budget(100, &[share(10, 40, 4)], 0, 4), 90);
    }

    #[test]
    fn nothing_is_left_when_reservations_take_all() {
        assert_eq!(budget(100, &[share(1000, 100, 4)], 0, 4), 0);
        assert_eq!(budget(100, &[share(1000, 60, 4)], 60, 4), 60);
    }
}
