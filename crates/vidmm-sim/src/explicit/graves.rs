//! Allocations that are gone: no paging operation may name them any more (P59).

use std::collections::BTreeMap;

use vidmm::contract::{KmdAllocationHandle, KmdProcessHandle, PagingOperation};
use vidmm::{AllocationId, Event, ProcessId};

/// The driver's names of what lives.
#[derive(Debug, Default)]
pub(crate) struct Graves {
    allocations: BTreeMap<AllocationId, KmdAllocationHandle>,
    /// How many living allocations have a name: a wrong driver may give one twice.
    names: BTreeMap<KmdAllocationHandle, u32>,
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
                *self.names.entry(handle).or_default() += 1;
            }
            Event::AllocationReclaimed { allocation } => {
                let name = self.allocations.remove(&allocation);
                if let Some(living) = name.and_then(|handle| self.names.get_mut(&handle)) {
                    *living -= 1;
                }
            }
            Event::PagingOperation { ref operation, .. } => return self.judge(operation),
            _ => {}
        }
        None
    }

    fn judge(&self, operation: &PagingOperation) -> Option<String> {
        let lives = |handle: KmdAllocationHandle| self.names.get(&handle).is_some_and(|&living| living > 0);
        let runs = |handle: KmdProcessHandle| {
            self.paging_process == Some(handle) || self.processes.values().any(|&living| living == handle)
        };
        let kind = operation.kind();
        if let Some(allocation) = operation.allocation().filter(|&allocation| !lives(allocation)) {
            return Some(format!("{kind} names allocation {:#x}, which is gone", allocation.0));
        }
        let process = operation.process().filter(|&process| !runs(process))?;
        Some(format!("{kind} names process {:#x}, which is gone", process.0))
    }
}
