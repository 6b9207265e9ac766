//! The same calls are answered by the same events, whatever ran before.

use std::hash::{DefaultHasher, Hash, Hasher};

use crate::caller::*;
use crate::world::*;

/// A number for all events of a run, in their order, and how many they are.
fn events(seed: u64) -> (u64, usize) {
    let mut caller = Caller::new(Config::discrete(40, 48));
    // The sweep audits each call; here only the log counts.
    caller.world.driver.failing.arm(Some(usize::MAX));
    caller.run(&script(seed, 200));
    caller.come_to_rest();
    let mut hasher = DefaultHasher::new();
    caller.world.events.iter().for_each(|event| format!("{event:?}").hash(&mut hasher));
    (hasher.finish(), caller.world.events.len())
}

#[test]
fn the_same_calls_have_the_same_events() {
    let (first, len) = events(1);
    assert!(len > 500, "there are only {len} events");
    for run in 0..100 {
        assert_eq!(events(1), (first, len), "run {run} differs");
        // Something else in between.
        assert_ne!(events(2), (first, len), "the events tell nothing");
    }
}
