//! What is gone: no paging operation may name it any more (P59).

use std::collections::BTreeMap;

use vidmm::contract::{KmdAllocationHandle, KmdProcessHandle, PagingOperation};
use vidmm::{AllocationId, Event, ProcessId};

/// The driver's names of what lives.
#[derive(Debug, Default)]
pub(crate) struct Graves {
    allocations: BTreeMap<AllocationId, KmdAllocationHandle>,
    processes: BTreeMap<ProcessId, KmdProcessHandle>,
    paging_process: Option<KmdProcessHandle>,
}

impl Graves {
    /// Takes note of an event. Returns what is wrong with it, if it names what is gone.
    pub fn observe(&mut self, event: &Event) -> Option<String> {
        match *event {
            Event::AdapterStarted { paging_process, .. } => self.paging_process = Some(paging_process),
            Event::ProcessCreated { process, handle } => {
                self.processes.insert(process, handle);
            }
            Event::ProcessDestroyed { process } => {
                self.processes.remove(&process);
            }
            Event::AllocationCreated { allocation, handle, .. } => {
                self.allocations.insert(allocation, handle);
            }
            Event::AllocationReclaimed { allocation } => {
                self.allocations.remove(&allocation);
            }
            Event::PagingOperation { ref operation, .. } => return self.judge(operation),
            _ => {}
        }
        None
    }

    fn judge(&self, operation: &PagingOperation) -> Option<String> {
        let (allocation, process) = named(operation);
        let lives = |handle: KmdAllocationHandle| self.allocations.values().any(|&living| living == handle);
        let runs = |handle: KmdProcessHandle| {
            self.paging_process == Some(handle) || self.processes.values().any(|&living| living == handle)
        };
        let kind = operation.kind();
        if let Some(allocation) = allocation.filter(|&allocation| !lives(allocation)) {
            return Some(format!("{kind} names allocation {:#x}, which is gone", allocation.0));
        }
        let process = process.filter(|&process| !runs(process))?;
        Some(format!("{kind} names process {:#x}, which is gone", process.0))
    }
}

/// The allocation and the process that an operation names.
fn named(operation: &PagingOperation) -> (Option<KmdAllocationHandle>, Option<KmdProcessHandle>) {
    match *operation {
        PagingOperation::VirtualTransfer(transfer) => (Some(transfer.allocation), None),
        PagingOperation::VirtualFill(fill) => (Some(fill.allocation), None),
        PagingOperation::FlushTlb(flush) => (None, Some(flush.process)),
        PagingOperation::MapApertureSegment(map) => (Some(map.allocation), None),
        PagingOperation::UnmapApertureSegment(unmap) => (Some(unmap.allocation), None),
        PagingOperation::NotifyAlloc(notify) => (Some(notify.allocation), notify.process),
        PagingOperation::UpdatePageTable(ref update) => (update.allocation, Some(update.process)),
        PagingOperation::Transfer(_) | PagingOperation::Fill(_) | PagingOperation::DiscardContent(_) => (None, None),
        PagingOperation::NotifyResidency(notice) => (Some(notice.allocation), None),
    }
}
