//! A driver that makes mistakes: a wrapper round a right one, so that checks can be seen to fail.

use std::ops::RangeInclusive;

use vidmm::contract::{
    AdapterInfo, AllocationInfo, BuildPagingBuffer, BuildStatus, CreateAllocationError, Kmd, KmdAllocationHandle,
    KmdContextHandle, KmdError, KmdProcessHandle, MemoryTransferDirection, PagingOperation, RootPageTable,
    SubmitCommand,
};

/// A mistake of a driver.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum DriverFault {
    /// FLUSH_TLB is answered with success, and nothing is encoded.
    SkipTlbFlush,
    /// A transfer to system memory is answered with success, and nothing is encoded.
    DropPageOut,
}

/// A driver with a mistake in it.
pub struct FaultyKmd {
    inner: Box<dyn Kmd>,
    fault: DriverFault,
    /// Which of the operations that the fault is about it hits, counted from 1.
    hits: RangeInclusive<u64>,
    seen: u64,
}

impl FaultyKmd {
    /// Wraps `inner`: the fault hits its `nth` occasion, counted from 1, or every one.
    pub fn new(inner: Box<dyn Kmd>, fault: DriverFault, nth: Option<u64>) -> Self {
        let hits = nth.map_or(1..=u64::MAX, |nth| nth..=nth);
        Self { inner, fault, hits, seen: 0 }
    }

    fn is_about(&self, operation: &PagingOperation) -> bool {
        match (self.fault, operation) {
            (DriverFault::SkipTlbFlush, PagingOperation::FlushTlb(_)) => true,
            (DriverFault::DropPageOut, PagingOperation::VirtualTransfer(transfer)) => {
                transfer.transfer_direction == MemoryTransferDirection::LocalToSystem
            }
            _ => false,
        }
    }
}

impl Kmd for FaultyKmd {
    fn build_paging_buffer(&mut self, build: &mut BuildPagingBuffer<'_>) -> BuildStatus {
        // A continued operation belongs to the occasion that its first part was.
        if self.is_about(build.operation) && *build.multipass_offset == 0 {
            self.seen += 1;
            if self.hits.contains(&self.seen) {
                return BuildStatus::Success;
            }
        }
        self.inner.build_paging_buffer(build)
    }

    fn query_adapter_info(&mut self) -> AdapterInfo {
        self.inner.query_adapter_info()
    }

    fn query_paging_process_gpu_va_size(&mut self, physical_adapter_index: u32) -> Option<u32> {
        self.inner.query_paging_process_gpu_va_size(physical_adapter_index)
    }

    fn create_process(&mut self, system_process: bool) -> Result<KmdProcessHandle, KmdError> {
        self.inner.create_process(system_process)
    }

    fn destroy_process(&mut self, process: KmdProcessHandle) {
        self.inner.destroy_process(process);
    }

    fn create_context(
        &mut self,
        process: KmdProcessHandle,
        node_ordinal: u32,
        system_context: bool,
    ) -> Result<KmdContextHandle, KmdError> {
        self.inner.create_context(process, node_ordinal, system_context)
    }

    fn destroy_context(&mut self, context: KmdContextHandle) {
        self.inner.destroy_context(context);
    }

    fn create_allocation(&mut self, private_driver_data: &[u8]) -> Result<AllocationInfo, CreateAllocationError> {
        self.inner.create_allocation(private_driver_data)
    }

    fn destroy_allocation(&mut self, allocation: KmdAllocationHandle) {
        self.inner.destroy_allocation(allocation);
    }

    fn set_root_page_table(&mut self, context: KmdContextHandle, root: RootPageTable) {
        self.inner.set_root_page_table(context, root);
    }

    fn submit_command(&mut self, submit: &SubmitCommand, preamble: &mut Vec<u8>) {
        self.inner.submit_command(submit, preamble);
    }
}
