//! Objects that another driver has created, under the names that it gave them.

use vidmm::contract::{
    AllocationFlags, AllocationInfo, KmdContextHandle, KmdProcessHandle, PagingOperation, UpdateMode,
};

use super::{Allocation, Context, SoftKmd};
use crate::encoding;

impl SoftKmd {
    /// Takes note of a process.
    pub(crate) fn adopt_process(&mut self, process: KmdProcessHandle, is_system: bool) {
        self.processes.insert(process);
        if is_system {
            self.paging_process = Some(process);
        }
    }

    /// Takes note of a context.
    pub(crate) fn adopt_context(&mut self, context: KmdContextHandle, process: KmdProcessHandle, is_system: bool) {
        self.contexts.insert(context, Context { process, is_system, root: None, uses: Vec::new() });
    }

    /// Takes note of an allocation, which is never compressed: another driver's way to compress is its own.
    pub(crate) fn adopt_allocation(&mut self, info: &AllocationInfo) {
        let is_told = info.flags.contains(AllocationFlags::EXPLICIT_RESIDENCY_NOTIFICATION);
        self.allocations.insert(info.allocation, Allocation { size: info.size, surface: None, foreign: None, is_told });
    }

    /// All commands of an operation. An update of entries by the CPU has none: the entries are written at once
    /// (BPB-08).
    pub(crate) fn carry_out(&self, operation: &PagingOperation) -> Vec<u8> {
        let mut bytes = Vec::new();
        if let PagingOperation::UpdatePageTable(op) = operation
            && let UpdateMode::CpuVirtual(address) = op.update_mode
        {
            self.write_by_cpu(op, address);
            return bytes;
        }
        let commands = (0..).map_while(|index| self.command(operation, index));
        commands.for_each(|command| encoding::encode_to_vec(&command, &mut bytes));
        bytes
    }
}
