//! The tensors of a transformer layer.

use super::TrainingParams;
use crate::generate::builder::Builder;
use crate::generate::check::product;
use crate::{Lifetime, WorkloadError};

/// The bytes of one element of a moment of Adam's.
const MOMENT_BYTES: u64 = 4;

/// The sizes of all tensors, in bytes, and the work of all kernels, in floating-point operations.
pub(super) struct Shape {
    /// One state of every token: the unit of most activations.
    pub(super) state: u64,
    /// Queries, keys and values of every token.
    pub(super) qkv: u64,
    /// The attention of every token to every other, for each head.
    pub(super) attention: u64,
    /// The inner state of the feed-forward part.
    pub(super) inner: u64,
    /// Multiplying every token's state by a `hidden` x `hidden` matrix.
    pub(super) square_flops: u128,
    /// Attention's product of queries and keys; its other product has the same work.
    pub(super) attention_flops: u128,
    /// The feed-forward part's width over `hidden`.
    pub(super) multiplier: u64,
    hidden: u64,
    bytes_per_element: u64,
}

impl Shape {
    /// Works out the sizes.
    pub(super) fn new(params: &TrainingParams) -> Result<Self, WorkloadError> {
        let (hidden, sequence) = (u64::from(params.hidden), u64::from(params.sequence));
        let multiplier = u64::from(params.feed_forward_multiplier);
        let (heads, batch) = (u64::from(params.heads), u64::from(params.batch));
        let bytes_per_element = u64::from(params.bytes_per_element);
        let state = product("an activation", &[batch, sequence, hidden, bytes_per_element])?;
        let tokens = u128::from(batch) * u128::from(sequence);
        let pairs = tokens * u128::from(sequence);
        Ok(Self {
            state,
            qkv: product("an activation", &[state, 3])?,
            attention: product("an attention matrix", &[batch, heads, sequence, sequence, bytes_per_element])?,
            inner: product("an activation", &[state, multiplier])?,
            square_flops: 2 * tokens * u128::from(hidden) * u128::from(hidden),
            attention_flops: 2 * pairs * u128::from(hidden),
            multiplier,
            hidden,
            bytes_per_element,
        })
    }

    /// The number of elements of a matrix as wide as `columns` states and one state high.
    fn matrix(&self, columns: u64) -> Result<u64, WorkloadError> {
        product("a weight", &[self.hidden, self.hidden, columns])
    }
}

/// A weight, and its companions in training.
pub(super) struct Weight {
    /// The weight itself.
    pub(super) value: u32,
    /// Its gradient.
    pub(super) gradient: u32,
    /// Adam's two moments.
    pub(super) moments: [u32; 2],
    /// Its number of elements.
    pub(super) elements: u64,
}

impl Weight {
    /// Adds a weight of that many elements.
    fn new(elements: u64, shape: &Shape, builder: &mut Builder) -> Result<Self, WorkloadError> {
        let bytes = product("a weight", &[elements, shape.bytes_per_element])?;
        let moment = product("a moment", &[elements, MOMENT_BYTES])?;
        let value = builder.buffer(bytes, Lifetime::Whole)?;
        let gradient = builder.buffer(bytes, Lifetime::Whole)?;
        let first = builder.buffer(moment, Lifetime::Whole)?;
        let second = builder.buffer(moment, Lifetime::Whole)?;
        Ok(Self { value, gradient, moments: [first, second], elements })
    }
}

/// The weights of a layer.
pub(super) struct Layer {
    /// The normalisation before attention: a scale and a shift.
    pub(super) norm1: Weight,
    /// Makes queries, keys and values.
    pub(super) qkv: Weight,
    /// Projects attention's result back.
    pub(super) projection: Weight,
    /// The normalisation before the feed-forward part.
    pub(super) norm2: Weight,
    /// Into the feed-forward part.
    pub(super) up: Weight,
    /// Out of it.
    pub(super) down: Weight,
}

impl Layer {
    /// Adds a layer's weights.
    pub(super) fn new(shape: &Shape, builder: &mut Builder) -> Result<Self, WorkloadError> {
        let norm = 2 * shape.hidden;
        let inner = shape.matrix(shape.multiplier)?;
        Ok(Self {
            norm1: Weight::new(norm, shape, builder)?,
            qkv: Weight::new(shape.matrix(3)?, shape, builder)?,
            projection: Weight::new(shape.matrix(1)?, shape, builder)?,
            norm2: Weight::new(norm, shape, builder)?,
            up: Weight::new(inner, shape, builder)?,
            down: Weight::new(inner, shape, builder)?,
        })
    }

    /// Returns all weights.
    pub(super) fn weights(&self) -> [&Weight; 6] {
        [&self.norm1, &self.qkv, &self.projection, &self.norm2, &self.up, &self.down]
    }
}
