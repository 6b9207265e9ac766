//! The paging buffer that is being built.

use alloc::vec::Vec;

use crate::{
    contract::{KmdAllocationHandle, PagingBuffer},
    id::PlanNo,
    plans::step::Steps,
};

/// The paging buffer that is being built, and those that wait for use.
#[derive(Debug, Default)]
pub(crate) struct Builder {
    pub pool: Vec<PagingBuffer>,
    /// Buffers that exist: in the pool, being built, submitted.
    pub buffers: usize,
    pub current: Option<PagingBuffer>,
    /// The fence of the last paging buffer that was handed out. An only engine has fences of other work beside these.
    pub submitted: u64,
    /// The allocations that the operations in it name; one may be there more than once.
    pub named: Vec<KmdAllocationHandle>,
    /// Steps that are not done yet, all of one plan.
    pub steps: Steps,
    /// That plan; 0 is adapter start.
    pub plan: PlanNo,
    /// The driver's progress in the first of them.
    pub multipass_offset: u32,
    /// How often it asked for another buffer for that step, and how often in a row without a byte in a fresh one.
    pub passes: u64,
    pub empty_passes: u32,
    /// The driver wants the allocation idle: wait for this fence of the paging engine, then say so.
    pub idle_at: Option<u64>,
    /// The host's next step waits for this fence of the paging engine.
    pub host_step_at: Option<u64>,
}

impl Builder {
    /// All building and running is over, and no buffer comes back.
    pub fn forget_work(&mut self) {
        self.pool.clear();
        self.named.clear();
        (self.current, self.buffers) = (None, 0);
        self.begin_operation();
        (self.idle_at, self.host_step_at) = (None, None);
    }

    /// Takes the steps that are not done.
    pub fn take_steps(&mut self) -> Steps {
        core::mem::take(&mut self.steps)
    }

    /// The driver begins to encode a step.
    pub fn begin_operation(&mut self) {
        (self.multipass_offset, self.passes, self.empty_passes) = (0, 0, 0);
    }

    /// Whether steps are left to do, or a buffer to hand out. A buffer in which a driver has written nothing waits for further operations.
    pub fn has_work(&self) -> bool {
        !self.steps.is_empty() || self.current.as_ref().is_some_and(|buffer| !buffer.is_empty())
    }
}
