//! Requests refused while ranges come and go in 8 GiB (P2).

use super::{game_mix, placers::Placer};
use crate::draws::SplitMix64;

/// 8 GiB in units of 64 KiB.
const SIZE: u32 = 1 << 17;
const UNIT: u64 = 64 << 10;

/// How often the segment's size is requested.
const TURNOVERS: u64 = 20;

/// Percentage of requests refused, of all seeds together. Before each, ranges go until with it no more than `load` percent
/// would be taken.
pub fn refused<P: Placer>(seeds: u64, load: u32) -> f64 {
    let (mut requests, mut refusals) = (0u64, 0u64);
    for seed in 0..seeds {
        let random = &mut SplitMix64(seed);
        let mut placer = P::new(SIZE, UNIT, SIZE as usize);
        let mut by_age: Vec<(P::Range, u32)> = Vec::new();
        let (mut taken, mut requested) = (0, 0);
        let most = (u64::from(SIZE) * u64::from(load) / 100) as u32;
        while requested < u64::from(SIZE) * TURNOVERS {
            let units = game_mix::draw(random);
            let is_filling = taken + units <= most && requested < u64::from(most);
            while taken + units > most {
                let (range, units) = by_age.remove(game_mix::draw_victim(by_age.len(), random));
                placer.give(range);
                taken -= units;
            }
            requested += u64::from(units);
            let range = placer.take(units);
            if !is_filling {
                requests += 1;
                refusals += u64::from(range.is_none());
            }
            if let Some(range) = range {
                by_age.push((range, units));
                taken += units;
            }
        }
    }
    refusals as f64 / requests as f64 * 100.0
}
