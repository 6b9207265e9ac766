//! The driver of a semantic machine: the author's, and beside it the reference driver.

use std::collections::{BTreeMap, BTreeSet};

use vidmm::GpuVirtualAddress;
use vidmm::contract::{
    AdapterInfo, AllocationInfo, BuildPagingBuffer, BuildStatus, CreateAllocationError, EngineFence, Kmd,
    KmdAllocationHandle, KmdContextHandle, KmdError, KmdOpenHandle, KmdProcessHandle, NotifyInterrupt, Patch, Render,
    RenderStatus, RootPageTable, SegmentPreference, SegmentSet, SubmitCommand,
};
use vidmm_runtime::may_be_empty;

use super::packets::PacketOperations;
use crate::driver::SoftKmd;
use crate::encoding::{self, Command, FlushRange};

/// The author's driver, whose answers count, and the reference driver, whose commands are executed.
///
/// The reference driver takes over the author's handles, so that operations and reports of faults need no translation.
pub(super) struct SemanticKmd {
    author: Box<dyn Kmd>,
    info: AdapterInfo,
    soft: SoftKmd,
    packets: PacketOperations,
    /// The bytes that the author's driver has written for the operation that it is asked for again.
    bytes_so_far: usize,
    /// The processes that were destroyed. The author's driver may use such a handle again, and the model GPU may still
    /// have cached translations of the old process.
    ended_processes: BTreeSet<KmdProcessHandle>,
    /// Contexts that have submitted nothing yet, of processes whose handles were used before.
    reused: BTreeMap<KmdContextHandle, KmdProcessHandle>,
}

impl SemanticKmd {
    /// The driver of the adapter that `info` describes, to which `soft` was built.
    pub fn new(author: Box<dyn Kmd>, info: AdapterInfo, soft: SoftKmd, packets: PacketOperations) -> Self {
        let (ended_processes, reused) = (BTreeSet::new(), BTreeMap::new());
        Self { author, info, soft, packets, bytes_so_far: 0, ended_processes, reused }
    }

    /// The author's driver has encoded an operation to its end, and has written `bytes` for it: it is carried out with
    /// the packet that is encoded.
    fn carry_out(&self, build: &mut BuildPagingBuffer<'_>, bytes: usize) {
        if bytes == 0 && !build.operation.is_by_cpu() && !may_be_empty(build.operation, build.allocation_is_idle, false)
        {
            return;
        }
        let commands = self.soft.carry_out(build.operation);
        let is_empty = build.dma_buffer_write_offset == 0 && build.dma_bytes_written == 0;
        // An empty paging buffer is not submitted, and what waits for the operation would not wait for anything.
        if is_empty && !commands.is_empty() {
            build.dma_bytes_written = build.dma_buffer.len().min(1);
        }
        self.packets.append(&commands);
    }
}

impl Kmd for SemanticKmd {
    fn query_adapter_info(&mut self) -> AdapterInfo {
        self.packets.start();
        self.bytes_so_far = 0;
        self.info.clone()
    }

    fn query_paging_process_gpu_va_size(&mut self, physical_adapter_index: u32) -> Option<u32> {
        self.author.query_paging_process_gpu_va_size(physical_adapter_index)
    }

    fn get_root_page_table_size(&mut self, num_entries: u32) -> Option<u32> {
        self.author.get_root_page_table_size(num_entries)
    }

    fn create_process(&mut self, system_process: bool) -> Result<KmdProcessHandle, KmdError> {
        let process = self.author.create_process(system_process)?;
        self.soft.adopt_process(process, system_process);
        Ok(process)
    }

    fn destroy_process(&mut self, process: KmdProcessHandle) {
        self.author.destroy_process(process);
        self.soft.destroy_process(process);
        self.ended_processes.insert(process);
    }

    fn create_context(
        &mut self,
        process: KmdProcessHandle,
        node_ordinal: u32,
        system_context: bool,
    ) -> Result<KmdContextHandle, KmdError> {
        let context = self.author.create_context(process, node_ordinal, system_context)?;
        self.soft.adopt_context(context, process, system_context);
        if self.ended_processes.contains(&process) {
            self.reused.insert(context, process);
        }
        Ok(context)
    }

    fn destroy_context(&mut self, context: KmdContextHandle) {
        self.author.destroy_context(context);
        self.soft.destroy_context(context);
        self.reused.remove(&context);
    }

    fn create_allocation(&mut self, private_driver_data: &[u8]) -> Result<AllocationInfo, CreateAllocationError> {
        let info = self.author.create_allocation(private_driver_data)?;
        self.soft.adopt_allocation(&info);
        Ok(info)
    }

    fn destroy_allocation(&mut self, allocation: KmdAllocationHandle) {
        self.author.destroy_allocation(allocation);
        self.soft.destroy_allocation(allocation);
    }

    fn open_allocation(
        &mut self,
        process: KmdProcessHandle,
        allocation: KmdAllocationHandle,
    ) -> Result<KmdOpenHandle, KmdError> {
        self.author.open_allocation(process, allocation)
    }

    fn close_allocation(&mut self, allocation: KmdOpenHandle) {
        self.author.close_allocation(allocation);
    }

    fn validate_update_allocation_property(
        &mut self,
        allocation: KmdAllocationHandle,
        supported_segment_set: SegmentSet,
        preferred_segment: SegmentPreference,
    ) -> bool {
        self.author.validate_update_allocation_property(allocation, supported_segment_set, preferred_segment)
    }

    fn set_root_page_table(&mut self, context: KmdContextHandle, root: RootPageTable) {
        self.author.set_root_page_table(context, root);
        self.soft.set_root_page_table(context, root);
    }

    fn build_paging_buffer(&mut self, build: &mut BuildPagingBuffer<'_>) -> BuildStatus {
        let status = self.author.build_paging_buffer(build);
        if self.packets.is_resetting() && !build.operation.is_by_cpu() {
            self.bytes_so_far = 0;
            return status;
        }
        let bytes = self.bytes_so_far.saturating_add(build.dma_bytes_written);
        match status {
            BuildStatus::Success => {
                self.bytes_so_far = 0;
                self.carry_out(build, bytes);
            }
            BuildStatus::InsufficientDmaBuffer | BuildStatus::AllocationBusy => self.bytes_so_far = bytes,
            BuildStatus::Other(_) => self.bytes_so_far = 0,
        }
        status
    }

    fn submit_command(&mut self, submit: &SubmitCommand, preamble: &mut Vec<u8>) {
        self.author.submit_command(submit, &mut Vec::new());
        self.soft.submit_command(submit, preamble);
        if let Some(process) = self.reused.remove(&submit.context) {
            let (start, end) = (GpuVirtualAddress(0), GpuVirtualAddress(0));
            let everything = FlushRange { process: Some(process), start, end };
            encoding::encode_to_vec(&Command::FlushTlb(everything), preamble);
        }
        if submit.paging {
            let fence = EngineFence { engine: submit.node_ordinal, fence_id: submit.submission_fence_id };
            preamble.extend(self.packets.submit(fence));
        }
    }

    fn render(&mut self, render: &mut Render<'_>) -> Result<(), RenderStatus> {
        self.soft.render(render)
    }

    fn patch(&mut self, patch: &mut Patch<'_>) {
        self.soft.patch(patch);
    }

    /// The interrupts are the model GPU's.
    fn interrupt_routine(&mut self, status: &[u8]) -> Option<NotifyInterrupt> {
        self.soft.interrupt_routine(status)
    }

    fn query_dependent_engine_group(&mut self, node_ordinal: u32) -> u64 {
        self.author.query_dependent_engine_group(node_ordinal)
    }
}
