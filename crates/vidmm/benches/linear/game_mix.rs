//! The allocations of a game, in units of 64 KiB.

use vidmm_replay::suite;
use vidmm_trace::generate;

use crate::draws::SplitMix64;

/// The size of something that a game allocates.
pub fn draw(random: &mut SplitMix64) -> u32 {
    (suite::mixed_size(&mut generate::SplitMix64::new(random.next())) >> 16) as u32
}

/// Where, in a list of `n` sorted by age, lies what goes next: 70 % go from the newest quarter, the others from anywhere.
pub fn draw_victim(n: usize, random: &mut SplitMix64) -> usize {
    let newest = (n / 4).max(1);
    if random.below(100) < 70 { n - newest + random.below(newest) } else { random.below(n) }
}
