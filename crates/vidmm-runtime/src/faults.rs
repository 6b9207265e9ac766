//! A driver that makes mistakes: a hook before a right one, so that checks can be seen to fail.

use vidmm::contract::{
    AdapterInfo, AddressingModel, BuildPagingBuffer, BuildStatus, IoMmuDomain, Kmd, KmdError, KmdProcessHandle,
    MemoryTransferDirection, NotifyAlloc, NotifyAllocFlags, PagingOperation, Patch, PteFlags, Render, RenderStatus,
    SegmentFlags, SegmentSet, Transfer, UpdatePageTable,
};
use vidmm::{PhysicalAddress, SegmentId};

use crate::driver_fault::DriverFault;
use crate::early_unmap::EarlyUnmaps;
use crate::garbled;
use crate::hook::{HookedKmd, KmdHook};
use crate::host_hook::HookedHost;
use crate::occasions::{Hits, Occasions};
use crate::runtime::Machine;

/// An NTSTATUS that drivers return for an operation which they do not know.
const STATUS_NOT_SUPPORTED: i32 = 0xC000_00BB_u32 as i32;

impl Machine {
    /// The machine with a mistake in it.
    pub fn with_fault(self, fault: DriverFault, hits: Hits) -> Self {
        let Self { kmd, host, .. } = self;
        let mut mistake = Mistake {
            fault,
            occasions: Occasions::new(hits, &self.fault_switch),
            is_hit: None,
            late: None,
            early_host: None,
            addressing_model: AddressingModel::GpuMmu,
            apertures: SegmentSet::default(),
            paging_process: None,
            num_slots: 0,
        };
        let host = match fault {
            DriverFault::EarlyIoMmuUnmap => {
                Box::new(mistake.early_host.insert(HookedHost::new(host, EarlyUnmaps::default())).clone())
            }
            _ => host,
        };
        Self { kmd: Box::new(HookedKmd::new(kmd, mistake)), host, ..self }
    }
}

/// A driver's mistake.
struct Mistake {
    fault: DriverFault,
    occasions: Occasions,
    /// Whether it hits the operation that the driver will be asked for again, if the last answer was not success.
    is_hit: Option<bool>,
    late: Option<Late>,
    early_host: Option<HookedHost<EarlyUnmaps>>,
    addressing_model: AddressingModel,
    /// The aperture segments.
    apertures: SegmentSet,
    paging_process: Option<KmdProcessHandle>,
    /// Slots of a resource table.
    num_slots: u32,
}

/// A notification that is still to be encoded.
struct Late {
    notification: NotifyAlloc,
    multipass_offset: u32,
}

impl KmdHook for Mistake {
    fn build_paging_buffer(&mut self, driver: &mut dyn Kmd, build: &mut BuildPagingBuffer<'_>) -> BuildStatus {
        if !self.catch_up(driver, build) {
            return BuildStatus::InsufficientDmaBuffer;
        }
        let is_hit = self.is_hit.unwrap_or_else(|| self.is_next_occasion_hit(build.operation));
        let status = if is_hit { self.blunder(driver, build) } else { encode(driver, build.operation, build) };
        // A busy or full answer brings the same operation again: it is the same occasion.
        self.is_hit = (status != BuildStatus::Success).then_some(is_hit);
        status
    }

    fn patch(&mut self, driver: &mut dyn Kmd, patch: &mut Patch<'_>) {
        let is_occasion = garbled::is_about_patches(self.fault) && patch.patch_location_list_submission_length > 0;
        match self.is_hit_by(is_occasion) {
            true => garbled::patch(self.fault, driver, patch),
            false => driver.patch(patch),
        }
    }

    fn render(&mut self, driver: &mut dyn Kmd, render: &mut Render<'_>) -> Result<(), RenderStatus> {
        driver.render(render)?;
        let list = &mut *render.patch_location_list_out;
        let can_be_split = list.windows(2).any(|pair| pair[0].split_offset != pair[1].split_offset);
        if self.is_hit_by(self.fault == DriverFault::ReverseSplitOffsets && can_be_split) {
            garbled::reverse_split_offsets(list);
        }
        if self.is_hit_by(self.fault == DriverFault::SlotBeyondTable && !list.is_empty()) {
            garbled::name_slot(list, self.num_slots);
        }
        let before_split = garbled::last_before_split(list);
        if let Some(position) = before_split.filter(|_| self.is_hit_by(self.fault == DriverFault::PatchAcrossSplit)) {
            list[position].patch_offset = list[position + 1].split_offset - 4;
        }
        Ok(())
    }

    fn allocate(&mut self) -> Result<(), KmdError> {
        if self.is_hit_by(self.fault == DriverFault::NoMemory) { Err(KmdError) } else { Ok(()) }
    }

    fn adapter_queried(&mut self, info: &AdapterInfo) {
        self.addressing_model = info.addressing_model;
        self.num_slots = info.patching.max_allocation_list_slot_id;
        let segments = (1..).map(SegmentId).zip(&info.segments);
        let apertures = segments.filter(|(_, segment)| segment.flags.contains(SegmentFlags::APERTURE));
        self.apertures = SegmentSet(apertures.map(|(id, _)| SegmentSet::of(id).0).sum());
    }

    fn process_created(&mut self, process: KmdProcessHandle, system_process: bool) {
        if system_process {
            self.paging_process = Some(process);
        }
    }
}

impl Mistake {
    fn is_about(&self, operation: &PagingOperation) -> bool {
        let uses_io_mmu =
            matches!(self.addressing_model, AddressingModel::GpuVaIoMmu | AddressingModel::GpuVaIoMmuGlobal);
        match (self.fault, operation) {
            (DriverFault::SkipTlbFlush, PagingOperation::FlushTlb(_)) => true,
            (DriverFault::DropPageOut, PagingOperation::VirtualTransfer(transfer)) => {
                transfer.transfer_direction == MemoryTransferDirection::LocalToSystem
            }
            (DriverFault::DropPageOut, PagingOperation::Transfer(transfer)) => self.is_page_out(transfer),
            (DriverFault::SkipDecompression, PagingOperation::NotifyAlloc(op)) => is_eviction(op),
            (DriverFault::IgnoreChunkOffset, PagingOperation::NotifyAlloc(op)) => {
                is_eviction(op) && op.offset_in_bytes > 0
            }
            (DriverFault::LateNotification, PagingOperation::NotifyAlloc(_)) => true,
            (DriverFault::SkipCacheFlush, PagingOperation::NotifyAlloc(op)) => !is_eviction(op),
            (DriverFault::ReusePagingVa, PagingOperation::FlushTlb(op)) => Some(op.process) == self.paging_process,
            (DriverFault::ReusePagingVa, PagingOperation::NotifyAlloc(op)) => uses_io_mmu && is_eviction(op),
            (DriverFault::EarlyIoMmuUnmap, PagingOperation::NotifyAlloc(_)) => uses_io_mmu,
            _ => garbled::is_about(self.fault, operation, self.paging_process),
        }
    }

    /// Whether content leaves local memory. With the zero-size transfers after a reset it has left already.
    fn is_page_out(&self, transfer: &Transfer) -> bool {
        let is_local =
            |address: PhysicalAddress| !address.segment.is_system() && !self.apertures.contains(address.segment);
        transfer.transfer_size > 0 && is_local(transfer.source) && !is_local(transfer.destination)
    }

    fn is_next_occasion_hit(&mut self, operation: &PagingOperation) -> bool {
        let is_occasion = self.is_about(operation);
        self.is_hit_by(is_occasion)
    }

    fn is_hit_by(&mut self, is_occasion: bool) -> bool {
        is_occasion && self.occasions.strike()
    }

    fn blunder(&mut self, driver: &mut dyn Kmd, build: &mut BuildPagingBuffer<'_>) -> BuildStatus {
        match (self.fault, build.operation) {
            (DriverFault::IgnoreChunkOffset, &PagingOperation::NotifyAlloc(op)) => {
                encode(driver, &PagingOperation::NotifyAlloc(NotifyAlloc { offset_in_bytes: 0, ..op }), build)
            }
            (DriverFault::LateNotification, &PagingOperation::NotifyAlloc(notification)) => {
                self.late = Some(Late { notification, multipass_offset: 0 });
                BuildStatus::Success
            }
            (DriverFault::ReusePagingVa, PagingOperation::NotifyAlloc(_)) => without_first_command(driver, build),
            (DriverFault::EarlyIoMmuUnmap, PagingOperation::NotifyAlloc(op)) => {
                if let (Some(host), Some(process)) = (&self.early_host, op.process.or(self.paging_process)) {
                    let domain = match self.addressing_model {
                        AddressingModel::GpuVaIoMmuGlobal => IoMmuDomain::Global,
                        _ => IoMmuDomain::Process(process),
                    };
                    host.unmap_now(domain, op.gpu_virtual_address_at_offset, op.size_in_bytes);
                }
                encode(driver, build.operation, build)
            }
            (DriverFault::SkipPartAfterFull, operation) => {
                if *build.multipass_offset > 0 {
                    *build.multipass_offset += 1;
                }
                encode(driver, operation, build)
            }
            (DriverFault::OverrunDmaBuffer, operation) => {
                let status = encode(driver, operation, build);
                build.dma_bytes_written = build.dma_buffer.len() + 1;
                status
            }
            (DriverFault::OverrunPrivateData, operation) => {
                let status = encode(driver, operation, build);
                build.private_bytes_written = build.dma_buffer_private_data.len() + 1;
                status
            }
            (DriverFault::AdvanceLess, operation) => {
                let status = encode(driver, operation, build);
                build.dma_bytes_written -= build.dma_bytes_written.min(8);
                status
            }
            (DriverFault::StandStill, _) => BuildStatus::InsufficientDmaBuffer,
            (DriverFault::StayBusy, _) => BuildStatus::AllocationBusy,
            (DriverFault::AnswerNotSupported, _) => BuildStatus::Other(STATUS_NOT_SUPPORTED),
            (fault, operation) => match garbled::operation(fault, operation, self.paging_process) {
                Some(operation) => encode(driver, &operation, build),
                None => BuildStatus::Success,
            },
        }
    }

    /// Encodes the late notification, if it is time; `false` if it does not fit.
    fn catch_up(&mut self, driver: &mut dyn Kmd, build: &mut BuildPagingBuffer<'_>) -> bool {
        let Some(late) = &mut self.late else { return true };
        // There is no buffer where the CPU writes entries.
        let is_for_cpu = build.operation.is_by_cpu();
        if is_for_cpu || is_unmapping(self.paging_process, &late.notification, build.operation) {
            return true;
        }
        let operation = PagingOperation::NotifyAlloc(late.notification);
        let status = encode_part(driver, &operation, &mut late.multipass_offset, true, build);
        let fits = status != BuildStatus::InsufficientDmaBuffer;
        if fits {
            self.late = None;
        }
        fits
    }
}

fn is_eviction(op: &NotifyAlloc) -> bool {
    op.flags.contains(NotifyAllocFlags::EVICTION)
}

/// Whether `operation` takes away entries of the window of `notification`.
fn is_unmapping(
    paging_process: Option<KmdProcessHandle>,
    notification: &NotifyAlloc,
    operation: &PagingOperation,
) -> bool {
    let PagingOperation::UpdatePageTable(UpdatePageTable {
        process,
        page_table_entries,
        first_pte_virtual_address,
        ..
    }) = operation
    else {
        return false;
    };
    let window = notification.gpu_virtual_address_at_offset;
    Some(*process) == paging_process
        && !page_table_entries.first.flags.contains(PteFlags::VALID)
        && (window..window.offset(notification.size_in_bytes)).contains(first_pte_virtual_address)
}

/// Lets `driver` encode `operation` instead of the one that it was asked for, behind the content of the buffer.
pub(crate) fn encode(
    driver: &mut dyn Kmd,
    operation: &PagingOperation,
    build: &mut BuildPagingBuffer<'_>,
) -> BuildStatus {
    let mut multipass_offset = *build.multipass_offset;
    let status = encode_part(driver, operation, &mut multipass_offset, build.allocation_is_idle, build);
    *build.multipass_offset = multipass_offset;
    status
}

fn encode_part(
    driver: &mut dyn Kmd,
    operation: &PagingOperation,
    multipass_offset: &mut u32,
    allocation_is_idle: bool,
    build: &mut BuildPagingBuffer<'_>,
) -> BuildStatus {
    let mut part = BuildPagingBuffer {
        operation,
        dma_buffer: build.dma_buffer.get_mut(build.dma_bytes_written..).unwrap_or_default(),
        dma_buffer_write_offset: build.dma_buffer_write_offset + build.dma_bytes_written as u32,
        dma_buffer_private_data: build
            .dma_buffer_private_data
            .get_mut(build.private_bytes_written..)
            .unwrap_or_default(),
        dma_bytes_written: 0,
        private_bytes_written: 0,
        multipass_offset,
        allocation_is_idle,
        system_context: build.system_context,
    };
    let status = driver.build_paging_buffer(&mut part);
    let (dma_bytes, private_bytes) = (part.dma_bytes_written, part.private_bytes_written);
    build.dma_bytes_written += dma_bytes;
    build.private_bytes_written += private_bytes;
    status
}

/// Lets `driver` encode its operation, but for the first command.
fn without_first_command(driver: &mut dyn Kmd, build: &mut BuildPagingBuffer<'_>) -> BuildStatus {
    if *build.multipass_offset == 0 {
        match lose_first_command(driver, build) {
            None => return BuildStatus::InsufficientDmaBuffer,
            Some(BuildStatus::Success) => return BuildStatus::Success,
            Some(_) => {}
        }
    }
    encode(driver, build.operation, build)
}

/// Lets `driver` encode the first command of its operation into a buffer that is never run: the smallest in which it
/// makes progress (BPB-04). `None` if it makes none in one as large as the right one.
fn lose_first_command(driver: &mut dyn Kmd, build: &mut BuildPagingBuffer<'_>) -> Option<BuildStatus> {
    (0..=build.dma_buffer.len()).find_map(|size| {
        let mut lost = BuildPagingBuffer {
            operation: build.operation,
            dma_buffer: &mut vec![0; size],
            dma_buffer_write_offset: 0,
            dma_buffer_private_data: &mut vec![0; build.dma_buffer_private_data.len()],
            dma_bytes_written: 0,
            private_bytes_written: 0,
            multipass_offset: build.multipass_offset,
            allocation_is_idle: true,
            system_context: build.system_context,
        };
        let status = driver.build_paging_buffer(&mut lost);
        (status == BuildStatus::Success || lost.dma_bytes_written > 0).then_some(status)
    })
}
