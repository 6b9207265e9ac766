//! One training step, kernel by kernel.

use super::layer::{Layer, Shape, Weight};
use crate::generate::builder::{Builder, Task};
use crate::{Lifetime, WorkloadError};

/// The operations a GPU sustains in a microsecond: 140e12 a second, 45 % of an A100's peak at 16
/// bits.
const FLOPS_PER_US: u128 = 140_000_000;

/// The bytes a GPU moves in a microsecond: 1.4e12 a second, 90 % of an A100's bandwidth.
const BYTES_PER_US: u128 = 1_400_000;

/// The least time of a kernel, in nanoseconds: the cost of its launch.
const LAUNCH_NS: u64 = 5_000;

/// The operations of Adam for one element: two moments, their correction, and the update.
const ADAM_FLOPS: u128 = 12;

type Result<T> = std::result::Result<T, WorkloadError>;

/// The activations of a layer's forward pass that its backward pass reads.
struct Saved {
    input: u32,
    norm1: u32,
    qkv: u32,
    attention: u32,
    context: u32,
    middle: u32,
    norm2: u32,
    up: u32,
    gelu: u32,
}

/// A training step under construction.
pub(super) struct Step<'a> {
    shape: &'a Shape,
    builder: &'a mut Builder,
}

impl<'a> Step<'a> {
    /// Starts a step.
    pub(super) fn new(shape: &'a Shape, builder: &'a mut Builder) -> Self {
        Self { shape, builder }
    }

    /// Adds the kernels of the whole step. The host uploads its input and the expected output.
    pub(super) fn run(&mut self, layers: &[Layer]) -> Result<()> {
        let mut state = self.activation(self.shape.state)?;
        let mut saved = Vec::with_capacity(layers.len());
        for layer in layers {
            let kept = self.forward(layer, state)?;
            state = self.leave(layer, &kept)?;
            saved.push(kept);
        }
        let mut gradient = self.loss(state)?;
        for (layer, saved) in layers.iter().zip(&saved).rev() {
            let middle = self.backward_feed_forward(layer, saved, gradient)?;
            gradient = self.backward_attention(layer, saved, middle)?;
        }
        self.optimize(layers)
    }

    /// Runs a layer forward up to the middle of its feed-forward part.
    fn forward(&mut self, layer: &Layer, input: u32) -> Result<Saved> {
        let Shape { state, qkv, attention, inner, .. } = *self.shape;
        let (square, pairs) = (self.shape.square_flops, self.shape.attention_flops);
        let wide = square * u128::from(self.shape.multiplier);
        let norm1 = self.make(state, &[input, layer.norm1.value], 0)?;
        let qkv = self.make(qkv, &[norm1, layer.qkv.value], 3 * square)?;
        let attention = self.make(attention, &[qkv], pairs)?;
        let context = self.make(state, &[attention, qkv], pairs)?;
        let projected = self.make(state, &[context, layer.projection.value], square)?;
        let middle = self.make(state, &[input, projected], 0)?;
        let norm2 = self.make(state, &[middle, layer.norm2.value], 0)?;
        let up = self.make(inner, &[norm2, layer.up.value], wide)?;
        let gelu = self.make(inner, &[up], 0)?;
        Ok(Saved { input, norm1, qkv, attention, context, middle, norm2, up, gelu })
    }

    /// Leaves a layer: the second half of its feed-forward part. Returns the layer's output.
    fn leave(&mut self, layer: &Layer, saved: &Saved) -> Result<u32> {
        let wide = self.shape.square_flops * u128::from(self.shape.multiplier);
        let out = self.make(self.shape.state, &[saved.gelu, layer.down.value], wide)?;
        self.make(self.shape.state, &[saved.middle, out], 0)
    }

    /// Compares the output with the expected one, and returns the output's gradient.
    fn loss(&mut self, output: u32) -> Result<u32> {
        let target = self.activation(self.shape.state)?;
        self.make(self.shape.state, &[output, target], 0)
    }

    /// Runs a layer's feed-forward part backward, and returns the gradient of its middle.
    fn backward_feed_forward(&mut self, layer: &Layer, saved: &Saved, gradient: u32) -> Result<u32> {
        let Shape { state, inner, .. } = *self.shape;
        let wide = self.shape.square_flops * u128::from(self.shape.multiplier);
        let gelu = self.back(inner, &layer.down, &[gradient, saved.gelu], 2 * wide)?;
        let up = self.make(inner, &[gelu, saved.up], 0)?;
        let norm2 = self.back(state, &layer.up, &[up, saved.norm2], 2 * wide)?;
        self.back(state, &layer.norm2, &[norm2, saved.middle, gradient], 0)
    }

    /// Runs a layer's attention backward, and returns the gradient of the layer's input.
    fn backward_attention(&mut self, layer: &Layer, saved: &Saved, middle: u32) -> Result<u32> {
        let Shape { state, qkv, attention, .. } = *self.shape;
        let (square, pairs) = (self.shape.square_flops, self.shape.attention_flops);
        let context = self.back(state, &layer.projection, &[middle, saved.context], 2 * square)?;
        let scores = self.make(attention, &[context, saved.attention, saved.qkv], pairs)?;
        let values = self.activation(qkv)?;
        self.kernel(&[context, saved.attention], &[values], pairs)?;
        // The softmax's gradient goes into queries and keys, beside that of the values.
        self.kernel(&[scores, saved.attention, saved.qkv, values], &[values], 2 * pairs)?;
        let norm1 = self.back(state, &layer.qkv, &[values, saved.norm1], 6 * square)?;
        self.back(state, &layer.norm1, &[norm1, saved.input, middle], 0)
    }

    /// Updates every weight and its moments in place.
    fn optimize(&mut self, layers: &[Layer]) -> Result<()> {
        for weight in layers.iter().flat_map(Layer::weights) {
            let [first, second] = weight.moments;
            let reads = [weight.value, weight.gradient, first, second];
            let flops = u128::from(weight.elements) * ADAM_FLOPS;
            self.kernel(&reads, &[weight.value, first, second], flops)?;
        }
        Ok(())
    }

    /// Adds the kernel that makes the gradient of a weight and the gradient, of that many bytes, of the weight's input.
    /// Returns the latter.
    fn back(&mut self, bytes: u64, weight: &Weight, reads: &[u32], flops: u128) -> Result<u32> {
        let made = self.activation(bytes)?;
        let reads = [reads, &[weight.value]].concat();
        self.kernel(&reads, &[made, weight.gradient], flops)?;
        Ok(made)
    }

    /// Adds an activation of that many bytes and the kernel that makes it.
    fn make(&mut self, bytes: u64, reads: &[u32], flops: u128) -> Result<u32> {
        let made = self.activation(bytes)?;
        self.kernel(reads, &[made], flops)?;
        Ok(made)
    }

    /// Adds an activation.
    fn activation(&mut self, bytes: u64) -> Result<u32> {
        self.builder.buffer(bytes, Lifetime::Temporary)
    }

    /// Adds a kernel, whose time is that of its operations or of its memory traffic, whichever
    /// takes longer.
    fn kernel(&mut self, reads: &[u32], writes: &[u32], flops: u128) -> Result<()> {
        let bytes = self.builder.bytes(reads) + self.builder.bytes(writes);
        let ns = (flops * 1000 / FLOPS_PER_US).max(bytes * 1000 / BYTES_PER_US);
        let ns = u64::try_from(ns).map_err(|_| WorkloadError::Overflow { what: "the time of a kernel" })?;
        let nanoseconds = ns.max(LAUNCH_NS);
        let (reads, writes) = (reads.to_vec(), writes.to_vec());
        self.builder.kernel(Task { reads, writes, nanoseconds, ..Task::default() })
    }
}
