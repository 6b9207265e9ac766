//! Training a transformer, layer by layer.
//!
//! A step runs the layers forward, then backward, then the optimizer over all weights. Activations
//! of the forward pass wait for the backward pass, last made first used, so that memory fills and
//! empties once a step; weights, gradients and the optimizer's state are there all the time.

mod layer;
mod step;

use serde::{Deserialize, Serialize};

use super::builder::Builder;
use super::check;
use crate::{Workload, WorkloadError};

/// The name of the generator and its workloads.
pub(super) const KIND: &str = "transformer-training";

/// The parameters of the generator `transformer-training`.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default, rename_all = "kebab-case")]
pub struct TrainingParams {
    /// The number of transformer layers.
    pub layers: u32,
    /// The width of the model: the number of elements of one token's state.
    pub hidden: u32,
    /// The number of tokens in a sequence.
    pub sequence: u32,
    /// The number of sequences in a batch.
    pub batch: u32,
    /// The width of the feed-forward part, in multiples of `hidden`.
    pub feed_forward_multiplier: u32,
    /// The number of attention heads; it decides the size of the attention matrices.
    pub heads: u32,
    /// The bytes of one element of a weight, a gradient or an activation. Adam's two moments
    /// always have 4.
    pub bytes_per_element: u32,
    /// The number of training steps.
    pub steps: u32,
}

impl Default for TrainingParams {
    /// The embedded demonstration: 8 layers, 1024 wide, two steps. It needs about 5 GiB and runs
    /// about 400 kernels.
    fn default() -> Self {
        Self {
            layers: 8,
            hidden: 1024,
            sequence: 1024,
            batch: 8,
            feed_forward_multiplier: 4,
            heads: 16,
            bytes_per_element: 2,
            steps: 2,
        }
    }
}

/// Makes the workload. It has nothing random, so the seed is not used.
///
/// # Errors
///
/// Returns [`WorkloadError`] for parameters that are 0 or absurdly large, alone or together.
pub fn generate(params: &TrainingParams, _seed: u64) -> Result<Workload, WorkloadError> {
    validate(params)?;
    let mut builder = Builder::new(KIND);
    let shape = layer::Shape::new(params)?;
    let layers = (0..params.layers).map(|_| layer::Layer::new(&shape, &mut builder)).collect::<Result<Vec<_>, _>>()?;
    for _ in 0..params.steps {
        step::Step::new(&shape, &mut builder).run(&layers)?;
    }
    builder.finish()
}

/// Refuses parameters out of range.
fn validate(params: &TrainingParams) -> Result<(), WorkloadError> {
    check::range("layers", params.layers, 1..=10_000)?;
    check::range("hidden", params.hidden, 1..=1_000_000)?;
    check::range("sequence", params.sequence, 1..=10_000_000)?;
    check::range("batch", params.batch, 1..=1_000_000)?;
    check::range("feed-forward-multiplier", params.feed_forward_multiplier, 1..=64)?;
    check::range("heads", params.heads, 1..=10_000)?;
    check::range("bytes-per-element", params.bytes_per_element, 1..=8)?;
    check::range("steps", params.steps, 1..=1_000_000)
}
