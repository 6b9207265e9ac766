//! A camera that walks over a landscape.

use vidmm_trace::generate::SplitMix64;

use super::{Popularity, mixed_size, unit};
use crate::{References, Use};

/// Tiles along a side of the landscape.
const SIDE: usize = 64;
const OF_A_TILE: usize = 12;
const MATERIALS: usize = 3000;
const MATERIALS_OF_A_TILE: usize = 6;
const RADIUS: f64 = 7.5;
/// Tiles that the camera moves in a frame, and by how much its direction changes at most, in radians.
const SPEED: f64 = 0.07;
const TURN: f64 = 0.1;

/// 64 x 64 tiles of 12 objects of a game's sizes, and 3,000 materials of such sizes, of which each tile uses 6 by Zipf's law with exponent
/// 0.9. A submission uses all tiles whose middles are within 7.5 tiles of the camera; 20,000 frames. The camera moves 0.07
/// of a tile each frame, turns by up to 0.1 radians, and turns round at the edge.
pub fn camera(seed: u64) -> References {
    let mut random = SplitMix64::new(seed);
    let objects = SIDE * SIDE * OF_A_TILE;
    let sizes = Vec::from_iter((0..objects + MATERIALS).map(|_| mixed_size(&mut random)));
    let popularity = Popularity::zipf(MATERIALS, 0.9, &mut random);
    let tiles = Vec::from_iter((0..SIDE * SIDE).map(|_| popularity.draw_distinct(MATERIALS_OF_A_TILE, &mut random)));
    let mut references = References::new("camera", sizes);
    let (mut x, mut y, mut direction) = (SIDE as f64 / 2.0, SIDE as f64 / 2.0, 0.0_f64);
    let mut frame = Vec::new();
    for _ in 0..20_000 {
        direction += (unit(&mut random) * 2.0 - 1.0) * TURN;
        let (next_x, next_y) = (x + SPEED * direction.cos(), y + SPEED * direction.sin());
        let is_inside = |at: f64| (0.0..SIDE as f64).contains(&at);
        match is_inside(next_x) && is_inside(next_y) {
            true => (x, y) = (next_x, next_y),
            false => direction += std::f64::consts::PI,
        }
        frame.clear();
        for (tile, materials) in tiles.iter().enumerate() {
            let (column, row) = ((tile % SIDE) as f64 + 0.5, (tile / SIDE) as f64 + 0.5);
            if (column - x).powi(2) + (row - y).powi(2) <= RADIUS * RADIUS {
                frame.extend((tile * OF_A_TILE..(tile + 1) * OF_A_TILE).map(|object| object as u32));
                frame.extend(materials.iter().map(|material| objects as u32 + material));
            }
        }
        frame.sort_unstable();
        frame.dedup();
        references.submit(frame.iter().copied().map(Use::read));
    }
    references
}
