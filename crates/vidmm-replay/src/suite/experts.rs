//! A mixture of experts: each token goes through some experts of each layer, often those of the token before.

use vidmm_trace::generate::SplitMix64;

use super::{Popularity, unit};
use crate::{References, Use};

const LAYERS: u32 = 32;
const OF_A_LAYER: u32 = 64;
const CHOSEN: usize = 8;
const KEPT: f64 = 0.35;

/// 32 layers of 64 experts of 64 MiB. A submission uses 8 of one layer, drawn by Zipf's law with exponent 0.7; each that the token before
/// chose is kept with a probability of 0.35. 400 tokens.
pub fn experts(seed: u64) -> References {
    let mut random = SplitMix64::new(seed);
    let popularity = Vec::from_iter((0..LAYERS).map(|_| Popularity::zipf(OF_A_LAYER as usize, 0.7, &mut random)));
    let mut references = References::new("experts", (0..LAYERS * OF_A_LAYER).map(|_| 64 << 20));
    let mut last = vec![Vec::new(); LAYERS as usize];
    for layer in (0..400).flat_map(|_| 0..LAYERS) {
        let chosen: &mut Vec<u32> = &mut last[layer as usize];
        chosen.retain(|_| unit(&mut random) < KEPT);
        while chosen.len() < CHOSEN {
            let one = popularity[layer as usize].draw(&mut random);
            if !chosen.contains(&one) {
                chosen.push(one);
            }
        }
        references.submit(chosen.iter().map(|expert| Use::read(layer * OF_A_LAYER + expert)));
    }
    references
}
