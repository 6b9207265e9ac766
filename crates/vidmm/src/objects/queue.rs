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
