//! Training: a forward pass, a backward pass, and an optimizer.

use vidmm_trace::generate::SplitMix64;

use super::mebibytes;
use crate::{References, Use};

const LAYERS: u32 = 48;
const ROUNDS: u32 = 25;

/// 48 layers with weights W of 64 to 192 MiB, activations A of 128 to 384 MiB, gradients G as large as W and moments M twice as large;
/// submissions {W, A} forward, {A, W, G} backward in the opposite order, {W, G, M} of the optimizer in the order of the layers; 25
/// rounds.
pub fn training(seed: u64) -> References {
    let mut random = SplitMix64::new(seed);
    let sizes = (0..LAYERS).flat_map(|_| {
        let weights = mebibytes(64, 192, &mut random);
        [weights, mebibytes(128, 384, &mut random), weights, 2 * weights]
    });
    let mut references = References::new("training", Vec::from_iter(sizes));
    for _ in 0..ROUNDS {
        let [weights, activations, gradients, moments] = [0, 1, 2, 3].map(|kind| move |layer: u32| 4 * layer + kind);
        (0..LAYERS).for_each(|layer| references.submit([weights(layer), activations(layer)].map(Use::read)));
        (0..LAYERS)
            .rev()
            .for_each(|layer| references.submit([weights(layer), activations(layer), gradients(layer)].map(Use::read)));
        (0..LAYERS)
            .for_each(|layer| references.submit([weights(layer), gradients(layer), moments(layer)].map(Use::read)));
    }
    references
}
