//! Working sets that move, and experts of other shapes: where a policy that learns must not be much worse than a simple policy.

use vidmm_trace::generate::SplitMix64;

use super::{Popularity, unit};
use crate::{References, Use};

/// Objects of 1 to 8 MiB.
const OBJECTS: u32 = 2000;

fn objects(name: &str, random: &mut SplitMix64) -> References {
    References::new(name, Vec::from_iter((0..OBJECTS).map(|_| super::mebibytes(1, 8, random))))
}

/// `count` different numbers below `of`.
fn distinct(count: usize, of: u32, random: &mut SplitMix64) -> Vec<u32> {
    let mut drawn: Vec<u32> = Vec::new();
    while drawn.len() < count {
        let one = random.below(of.into()) as u32;
        if !drawn.contains(&one) {
            drawn.push(one);
        }
    }
    drawn
}

/// A window of a tenth of the objects moves by an object at every second submission; a submission uses 8 objects of the window. 8,000
/// submissions.
pub fn drifting(seed: u64) -> References {
    let mut random = SplitMix64::new(seed);
    let mut references = objects("drifting", &mut random);
    for submission in 0..8000 {
        let list = distinct(8, OBJECTS / 10, &mut random);
        references.submit(list.into_iter().map(|at| Use::read((submission / 2 + at) % OBJECTS)));
    }
    references
}

/// A loop over `percent` + 2 % of the objects, 8 in each submission and 12 times; then the loop moves by half of its length. 16 loops.
fn nearly_fitting(percent: u32, seed: u64) -> References {
    let mut random = SplitMix64::new(seed);
    let mut references = objects("nearly-fitting", &mut random);
    let length = OBJECTS * (percent + 2) / 100;
    for number in 0..16 {
        let start = number * length / 2;
        for at in (0..12).flat_map(|_| (0..length / 8).map(|at| 8 * at)) {
            references.submit((at..at + 8).map(|at| Use::read((start + at) % OBJECTS)));
        }
    }
    references
}

/// Loops that nearly fit into 25 % of the memory.
pub fn nearly_fitting_25(seed: u64) -> References {
    nearly_fitting(25, seed)
}

/// Loops that nearly fit into half of the memory.
pub fn nearly_fitting_50(seed: u64) -> References {
    nearly_fitting(50, seed)
}

/// Half of the objects in turn, 8 in each of 1,000 submissions; then 1,000 submissions with 8 of the other half by Zipf's law with exponent
/// 0.9. Four times.
pub fn phases(seed: u64) -> References {
    let mut random = SplitMix64::new(seed);
    let mut references = objects("phases", &mut random);
    let popularity = Popularity::zipf(OBJECTS as usize / 2, 0.9, &mut random);
    for _ in 0..4 {
        (0..1000).for_each(|at| references.submit((8 * at..8 * at + 8).map(|at| Use::read(at % (OBJECTS / 2)))));
        for _ in 0..1000 {
            let list = popularity.draw_distinct(8, &mut random);
            references.submit(list.into_iter().map(|object| Use::read(OBJECTS / 2 + object)));
        }
    }
    references
}

/// 16 layers of 64 experts of 64 MiB. Of 8 experts that a token uses in a layer, each is kept by the next token with a probability of
/// `kept`; the others are drawn, all alike. 300 tokens.
fn experts(name: &str, kept: f64, seed: u64) -> References {
    let mut random = SplitMix64::new(seed);
    let mut references = References::new(name, (0..16 * 64).map(|_| 64 << 20));
    let mut last = vec![Vec::new(); 16];
    for layer in (0..300).flat_map(|_| 0..16_u32) {
        let chosen: &mut Vec<u32> = &mut last[layer as usize];
        chosen.retain(|_| unit(&mut random) < kept);
        while chosen.len() < 8 {
            let one = random.below(64) as u32;
            if !chosen.contains(&one) {
                chosen.push(one);
            }
        }
        references.submit(chosen.iter().map(|expert| Use::read(layer * 64 + expert)));
    }
    references
}

/// Experts that tokens mostly keep.
pub fn local_experts(seed: u64) -> References {
    experts("local-experts", 0.8, seed)
}

/// Experts that are all drawn alike for each token.
pub fn flat_experts(seed: u64) -> References {
    experts("flat-experts", 0.0, seed)
}
