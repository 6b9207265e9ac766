//! A context: a queue of work for one engine.

use alloc::collections::VecDeque;

use crate::{
    contract::KmdContextHandle,
    id::{ContextIx, DeviceIx},
    objects::{split::Portion, submission::Submission},
};

/// A context: a queue of work for one engine.
#[derive(Debug)]
pub(crate) struct Context {
    pub device: DeviceIx,
    pub engine: u32,
    pub handle: KmdContextHandle,
    /// Of higher priority goes first: -7 to 7.
    pub priority: i32,
    pub queue: VecDeque<Submission>,
    pub in_flight: usize,
    /// The next portion of the DMA buffer in front of the queue, if it is decided.
    pub portion: Option<Portion>,
    /// When it was served last, among the portions of all contexts.
    pub served: u64,
    /// The driver knows the root page table (GVA-17).
    pub root_is_set: bool,
}

/// A context with queued work. They are served in this order: of higher priority first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Queued {
    rank: i32,
    pub context: ContextIx,
}

impl Queued {
    /// Before all others.
    pub const FIRST: Self = Self { rank: i32::MIN, context: ContextIx::FIRST };

    pub fn new(priority: i32, context: ContextIx) -> Self {
        Self { rank: -priority, context }
    }

    /// Where those begin that come after it.
    pub fn next(self) -> Self {
        Self { context: self.context.next(), ..self }
    }
}
