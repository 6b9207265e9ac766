//! What a game allocates, in units of 64 KiB.

use crate::draws::SplitMix64;

const UNIT: f64 = 65_536.0;

/// Render targets in bytes: 1080p, 1440p and 4K, of four and of eight bytes a pixel.
const RENDER_TARGETS: [u64; 6] =
    [1920 * 1080 * 4, 1920 * 1080 * 8, 2560 * 1440 * 4, 2560 * 1440 * 8, 3840 * 2160 * 4, 3840 * 2160 * 8];

/// 45 % buffers of 4 KiB to 1 MiB, 50 % compressed textures with mips from 256 x 256 to 4096 x 4096, 4 % render targets, 1 %
/// heaps of 16 to 128 MiB.
pub fn draw(random: &mut SplitMix64) -> u32 {
    let bytes = match random.below(100) {
        0..45 => between(4096.0, 1_048_576.0, random),
        45..95 => {
            let side = 256 << random.below(5);
            let bytes_of_two_pixels = 1 + random.below(2);
            (side * side * bytes_of_two_pixels / 2 * 4 / 3) as f64
        }
        95..99 => RENDER_TARGETS[random.below(RENDER_TARGETS.len())] as f64,
        _ => between(16_777_216.0, 134_217_728.0, random),
    };
    (bytes / UNIT).ceil() as u32
}

/// All magnitudes alike.
fn between(least: f64, most: f64, random: &mut SplitMix64) -> f64 {
    least * (most / least).powf(random.unit())
}

/// Where, in a list of `n` sorted by age, lies what goes next: 70 % go from the newest quarter, the others from anywhere.
pub fn draw_victim(n: usize, random: &mut SplitMix64) -> usize {
    let newest = (n / 4).max(1);
    if random.below(100) < 70 { n - newest + random.below(newest) } else { random.below(n) }
}
