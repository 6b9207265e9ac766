//! Layers that are used in turn, beside a hot set: a model that streams its weights.

use vidmm_trace::generate::SplitMix64;

use super::mebibytes;
use crate::{References, Use};

const LAYERS: u32 = 80;
const OF_A_LAYER: u32 = 6;
const HOT: u32 = 20;
const ROUNDS: u32 = 40;

/// 80 layers of 6 objects of 32 to 128 MiB, one layer a submission, and 20 hot objects of 8 to 64 MiB in every submission; 40 rounds.
pub fn cyclic(seed: u64) -> References {
    let mut random = SplitMix64::new(seed);
    let layers = Vec::from_iter((0..LAYERS * OF_A_LAYER).map(|_| mebibytes(32, 128, &mut random)));
    let hot = Vec::from_iter((0..HOT).map(|_| mebibytes(8, 64, &mut random)));
    let mut references = References::new("cyclic", layers.into_iter().chain(hot));
    for layer in (0..ROUNDS).flat_map(|_| 0..LAYERS) {
        let hot = LAYERS * OF_A_LAYER..LAYERS * OF_A_LAYER + HOT;
        references.submit((layer * OF_A_LAYER..(layer + 1) * OF_A_LAYER).chain(hot).map(Use::read));
    }
    references
}
