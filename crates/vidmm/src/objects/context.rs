//! A context: a queue of work for one engine, which may be its owner's.

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
    /// The driver's; none of a self-scheduled context, of which it does not know.
    pub handle: Option<KmdContextHandle>,
    /// The priority of its work: -7 to 7, higher goes first.
    pub priority: i32,
    pub queue: VecDeque<Submission>,
    pub in_flight: usize,
    /// The next portion of the DMA buffer in front of the queue, if it is decided.
    pub portion: Option<Portion>,
    /// The time of its last service, among the portions of all contexts.
    pub served: u64,
    /// The entries of its root page table that the driver was told of (GVA-17); 0 before it was told of the table.
    pub root_entries: u32,
}

impl Context {
    /// A packet is handed out.
    pub fn begin(&mut self) {
        self.in_flight += 1;
    }

    /// A packet has left the engine.
    pub fn end(&mut self) {
        self.in_flight -= 1;
    }

    /// Decides the next portion.
    pub fn decide(&mut self, portion: Portion) {
        self.portion = Some(portion);
    }

    /// Takes the decided portion.
    pub fn take_portion(&mut self) -> Option<Portion> {
        self.portion.take()
    }

    /// The driver is told of the root table, with so many entries; 0 is a table without content after a power-down.
    pub fn note_root(&mut self, num_entries: u32) {
        self.root_entries = num_entries;
    }

    /// Whether its owner runs its work (D25).
    pub fn is_self_scheduled(&self) -> bool {
        self.handle.is_none()
    }
}

/// A context with queued work. They are served in this order: of higher priority first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Queued {
    rank: i32,
    pub context: ContextIx,
}

impl Queued {
    /// Before all other contexts.
    pub const FIRST: Self = Self { rank: i32::MIN, context: ContextIx::FIRST };

    pub fn new(priority: i32, context: ContextIx) -> Self {
        Self { rank: -priority, context }
    }

    /// The first position behind it.
    pub fn next(self) -> Self {
        Self { context: self.context.next(), ..self }
    }
}
