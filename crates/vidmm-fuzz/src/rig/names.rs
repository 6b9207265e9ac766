//! The names of all objects that ever were.

use vidmm::{
    AllocationId, ContextId, DeviceId, GpuVirtualAddress, Id, MonitoredFenceId, PagingQueueId, ProcessId,
    TrimNotificationId,
};

use crate::choices::Choices;

#[derive(Default)]
pub struct Names {
    pub processes: Vec<ProcessId>,
    pub devices: Vec<DeviceId>,
    pub queues: Vec<PagingQueueId>,
    pub contexts: Vec<ContextId>,
    pub allocations: Vec<AllocationId>,
    pub fences: Vec<MonitoredFenceId>,
    pub trims: Vec<TrimNotificationId>,
    /// Ranges that were mapped or reserved.
    pub ranges: Vec<(ProcessId, GpuVirtualAddress, u64)>,
}

/// One of `known`, living or dead; or, rarely, a name that was never given.
pub fn name<K>(known: &[Id<K>], choices: &Choices<'_>) -> Id<K> {
    let invented = choices.one_in(24);
    match choices.pick_any(known).filter(|_| !invented) {
        Some(name) => name,
        None => Id::from_bits(choices.below(5) | choices.below(3) << 32),
    }
}

/// Up to four names, of which some may be equal.
pub fn names<K>(known: &[Id<K>], choices: &Choices<'_>) -> Vec<Id<K>> {
    (0..choices.below(5)).map(|_| name(known, choices)).collect()
}
