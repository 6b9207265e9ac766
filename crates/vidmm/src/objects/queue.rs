//! Paging queues and monitored fences.

use alloc::collections::VecDeque;

use crate::{contract::EngineFence, id::DeviceIx};

/// A paging queue (RES-30).
#[derive(Debug)]
pub(crate) struct PagingQueue {
    pub device: DeviceIx,
    pub priority: i32,
    pub pending: u32,
    pub last_value: u64,
    pub completed_value: u64,
}

impl PagingQueue {
    /// A request is made. Returns the value of the queue's fence at the end of the request.
    pub fn begin(&mut self) -> u64 {
        self.last_value += 1;
        self.pending += 1;
        self.last_value
    }

    /// A request has ended.
    pub fn complete(&mut self, value: u64) {
        self.pending -= 1;
        self.completed_value = value;
    }
}

/// A monitored fence (SYN-01).
#[derive(Debug)]
pub(crate) struct MonitoredFence {
    /// The device that it ends with.
    pub device: Option<DeviceIx>,
    pub value: u64,
    /// Values that dispatched work will signal, and its own fence.
    pub dispatched: VecDeque<(u64, EngineFence)>,
    /// Queued submissions that name it.
    pub references: u32,
}

impl MonitoredFence {
    /// Dispatched work will signal a value.
    pub fn note_dispatched(&mut self, value: u64, signal: EngineFence) {
        self.dispatched.push_back((value, signal));
    }

    /// The work of a packet signals nothing any more.
    pub fn forget_signal(&mut self, signal: EngineFence) {
        self.dispatched.retain(|&(_, by)| by != signal);
    }
}
