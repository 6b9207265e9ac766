//! What steps have created, by its names.

use std::collections::BTreeMap;

use vidmm::{AllocationId, ContextId, DeviceId, GpuVirtualAddress, MonitoredFenceId, PagingQueueId, ProcessId};

use super::ledger::{Part, Work};

/// Everything that steps have created.
#[derive(Debug, Default)]
pub(super) struct Objects {
    pub processes: BTreeMap<String, ProcessId>,
    pub devices: BTreeMap<String, Device>,
    pub allocations: BTreeMap<String, Allocation>,
    pub mappings: BTreeMap<String, Mapping>,
    pub fences: BTreeMap<String, MonitoredFenceId>,
    /// Kernel n is number n + 1.
    pub kernels: Vec<KernelState>,
}

/// A device with its paging queue, and a context on each engine.
#[derive(Debug)]
pub(super) struct Device {
    pub process: ProcessId,
    pub device: DeviceId,
    pub queue: PagingQueueId,
    pub engines: [EngineQueue; 2],
}

/// A context with the fence that counts its kernels.
#[derive(Debug)]
pub(super) struct EngineQueue {
    pub context: ContextId,
    pub fence: MonitoredFenceId,
    pub submitted: u64,
}

#[derive(Debug)]
pub(super) struct Allocation {
    pub id: AllocationId,
    pub device: String,
    pub pages: u64,
    pub surface: Option<u32>,
}

#[derive(Debug)]
pub(super) struct Mapping {
    pub process: ProcessId,
    pub device: String,
    pub virtual_address: GpuVirtualAddress,
    /// Bytes that are mapped, with those behind the allocation's last page that kernels see.
    pub size: u64,
    pub part: Part,
}

/// A kernel that was submitted.
#[derive(Debug)]
pub(super) struct KernelState {
    pub name: String,
    pub work: Work,
    pub device: DeviceId,
    /// The fence value that its end signals.
    pub fence: MonitoredFenceId,
    pub value: u64,
    pub fault_is_expected: bool,
    pub faulted: bool,
    pub ended: bool,
}

impl Objects {
    /// The kernel of that name; names are checked before a scenario is run.
    pub fn kernel(&self, name: &str) -> Option<&KernelState> {
        self.kernels.iter().find(|kernel| kernel.name == name)
    }
}
