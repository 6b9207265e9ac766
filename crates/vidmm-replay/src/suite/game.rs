//! Games: objects of very different popularity, without and with something that reads far more than fits.

use vidmm_trace::generate::SplitMix64;

use super::{Popularity, unit};
use crate::{References, Use};

/// The unit of sizes.
const UNIT: u64 = 64 << 10;

/// Render targets in bytes: 1080p, 1440p and 4K, of four and of eight bytes a pixel.
const RENDER_TARGETS: [u64; 6] =
    [1920 * 1080 * 4, 1920 * 1080 * 8, 2560 * 1440 * 4, 2560 * 1440 * 8, 3840 * 2160 * 4, 3840 * 2160 * 8];

/// The size of something that a game allocates, in bytes and a multiple of 64 KiB: 45 % buffers of 4 KiB to 1 MiB, 50 % compressed
/// textures with mips from 256 x 256 to 4096 x 4096, 4 % render targets, 1 % heaps of 16 to 128 MiB. The mean is 3.8 MiB.
pub fn mixed_size(random: &mut SplitMix64) -> u64 {
    let bytes = match random.below(100) {
        0..45 => between(4096.0, 1_048_576.0, random),
        45..95 => {
            let side = 256 << random.below(5);
            let bytes_of_two_pixels = 1 + random.below(2);
            side * side * bytes_of_two_pixels / 2 * 4 / 3
        }
        95..99 => RENDER_TARGETS[random.below(RENDER_TARGETS.len() as u64) as usize],
        _ => between(16_777_216.0, 134_217_728.0, random),
    };
    bytes.next_multiple_of(UNIT)
}

/// All magnitudes alike.
fn between(least: f64, most: f64, random: &mut SplitMix64) -> u64 {
    (least * (most / least).powf(unit(random))).ceil() as u64
}

/// 20,000 objects of a game's sizes, drawn by Zipf's law with exponent 0.8: 300 different ones in each of 6,000 submissions.
pub fn zipf(seed: u64) -> References {
    let mut random = SplitMix64::new(seed);
    let sizes = Vec::from_iter((0..20_000).map(|_| mixed_size(&mut random)));
    let popularity = Popularity::zipf(sizes.len(), 0.8, &mut random);
    let mut references = References::new("zipf", sizes);
    (0..6000).for_each(|_| references.submit(popularity.draw_distinct(300, &mut random).into_iter().map(Use::read)));
    references
}

/// 6,000 objects of a game's sizes, drawn by Zipf's law with exponent 1: 200 different ones in each of 4,000 submissions, each with
/// 4 of 1,500 objects of 16 MiB that are read in turn.
pub fn scanned(seed: u64) -> References {
    const OBJECTS: u32 = 6000;
    const SCANNED: u32 = 1500;
    let mut random = SplitMix64::new(seed);
    let sizes = Vec::from_iter((0..OBJECTS).map(|_| mixed_size(&mut random)));
    let popularity = Popularity::zipf(sizes.len(), 1.0, &mut random);
    let mut references = References::new("scan", sizes.into_iter().chain((0..SCANNED).map(|_| 16 << 20)));
    for submission in 0..4000 {
        let scanned = (0..4).map(|at| OBJECTS + (4 * submission + at) % SCANNED);
        references.submit(popularity.draw_distinct(200, &mut random).into_iter().chain(scanned).map(Use::read));
    }
    references
}
