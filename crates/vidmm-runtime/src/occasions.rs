//! The occasions of mistakes that are made on purpose.

use std::cell::Cell;
use std::rc::Rc;

/// The occasions that a fault hits.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Hits {
    /// Every one.
    Always,
    /// The n-th, counted from 1.
    Nth(u64),
    /// One in so many, drawn for each occasion. The same seed draws the same.
    OneIn {
        /// The number of occasions for one hit, on average. No occasion is hit if it is 0.
        occasions: u64,
        /// The seed of the draws.
        seed: u64,
    },
}

/// Ends faults: from then on none that shares the switch hits any more. The effect of an earlier hit stays.
#[derive(Clone, Debug, Default)]
pub struct FaultSwitch(Rc<Cell<Phase>>);

/// The progress of a machine.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
enum Phase {
    #[default]
    Starting,
    Started,
    FaultsEnded,
}

/// The occasions of a fault, one after another.
#[derive(Clone, Debug)]
pub struct Occasions {
    hits: Hits,
    seen: u64,
    switch: FaultSwitch,
}

impl FaultSwitch {
    /// Records that the adapter has started.
    pub(crate) fn adapter_started(&self) {
        self.0.set(Phase::Started);
    }

    /// Ends the faults.
    pub fn turn_off(&self) {
        self.0.set(Phase::FaultsEnded);
    }
}

impl Occasions {
    /// Makes the occasions of a fault, which hits some of them until `switch` ends it.
    pub fn new(hits: Hits, switch: &FaultSwitch) -> Self {
        Self { hits, seen: 0, switch: switch.clone() }
    }

    /// Counts an occasion. Returns whether the fault hits it.
    pub fn strike(&mut self) -> bool {
        self.seen += 1;
        let is_hit = match self.hits {
            Hits::Always => true,
            Hits::Nth(nth) => self.seen == nth,
            Hits::OneIn { occasions, seed } => mixed(mixed(seed) ^ self.seen).checked_rem(occasions) == Some(0),
        };
        is_hit && self.switch.0.get() != Phase::FaultsEnded
    }

    /// As [`strike`](Self::strike), but calls that the adapter needs to start are no occasions.
    pub fn strike_once_started(&mut self) -> bool {
        self.switch.0.get() != Phase::Starting && self.strike()
    }
}

impl From<Hits> for Occasions {
    /// Makes occasions that no switch ends.
    fn from(hits: Hits) -> Self {
        Self::new(hits, &FaultSwitch::default())
    }
}

/// Mixes a number, so that the result hides it: the last step of SplitMix64.
pub fn mixed(number: u64) -> u64 {
    let mut mixed = number.wrapping_add(0x9E37_79B9_7F4A_7C15);
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    mixed ^ (mixed >> 31)
}

#[cfg(test)]
mod tests {
    use super::{FaultSwitch, Hits, Occasions};

    fn hit(hits: Hits) -> Vec<u64> {
        let mut occasions = Occasions::from(hits);
        (1..=1000).filter(|_| occasions.strike()).collect()
    }

    #[test]
    fn hits_are_the_nth_or_one_in_so_many() {
        assert_eq!(hit(Hits::Always).len(), 1000);
        assert_eq!(hit(Hits::Nth(7)), [7]);
        let drawn = |occasions, seed| hit(Hits::OneIn { occasions, seed });
        assert!((60..140).contains(&drawn(10, 1).len()), "about a tenth: {}", drawn(10, 1).len());
        assert_eq!(drawn(10, 1), drawn(10, 1));
        assert_ne!(drawn(10, 1), drawn(10, 2));
        assert_eq!((drawn(1, 3).len(), drawn(0, 3).len()), (1000, 0));
    }

    #[test]
    fn a_switch_ends_all_that_share_it() {
        let switch = FaultSwitch::default();
        let mut both = [Hits::Always, Hits::Nth(2)].map(|hits| Occasions::new(hits, &switch));
        assert_eq!(both.each_mut().map(Occasions::strike), [true, false]);
        switch.turn_off();
        assert_eq!(both.each_mut().map(Occasions::strike), [false, false]);
    }

    #[test]
    fn calls_of_adapter_start_are_no_occasions() {
        let switch = FaultSwitch::default();
        let mut first = Occasions::new(Hits::Nth(1), &switch);
        assert!(!first.strike_once_started());
        switch.adapter_started();
        assert!(first.strike_once_started(), "this is the first");
    }
}
