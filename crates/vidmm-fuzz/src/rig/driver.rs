//! A driver that is right, or gives arbitrary answers.

use std::collections::BTreeSet;

use vidmm::contract::{
    AdapterInfo, AllocationFlags, AllocationFlags2, AllocationInfo, BuildPagingBuffer, BuildStatus,
    CreateAllocationError, Direction, Kmd, KmdAllocationHandle, KmdContextHandle, KmdError, KmdOpenHandle,
    KmdProcessHandle, Patch, PatchLocation, Render, RenderStatus, RootPageTable, SegmentBankPreference,
    SegmentPreference, SegmentSet, SubmitCommand,
};
use vidmm::{PAGE_SIZE, SegmentId};

use crate::choices::Choices;

/// Bytes of an operation.
const OPERATION_BYTES: usize = 8;

pub struct Driver<'d> {
    pub info: AdapterInfo,
    choices: Choices<'d>,
    /// Whether its answers are arbitrary.
    pub is_wild: bool,
    /// Its answer for the size of the paging process's addresses.
    pub paging_va_mib: Option<u32>,
    /// Its answer for the next allocation.
    pub next_allocation: Option<AllocationInfo>,
    /// Handles of objects that were created and not destroyed.
    pub live: BTreeSet<u64>,
    last_handle: u64,
}

impl<'d> Driver<'d> {
    pub fn new(info: AdapterInfo, choices: Choices<'d>) -> Self {
        let (live, next_allocation) = (BTreeSet::new(), None);
        Self { info, choices, is_wild: false, paging_va_mib: None, next_allocation, live, last_handle: 0 }
    }

    /// Whether it gives an odd answer this time.
    fn is_odd(&self, chances: u64) -> bool {
        self.is_wild && self.choices.one_in(chances)
    }

    fn create(&mut self) -> Result<u64, KmdError> {
        if self.is_odd(12) {
            return Err(KmdError);
        }
        self.last_handle += 1;
        self.live.insert(self.last_handle);
        Ok(self.last_handle)
    }

    fn destroy(&mut self, handle: u64) {
        assert!(self.live.remove(&handle), "I28: {handle} is destroyed, but does not live");
    }
}

/// An allocation of `pages` pages that may be in these segments.
pub fn allocation(pages: u64, segments: u32) -> AllocationInfo {
    AllocationInfo::new(KmdAllocationHandle(0), pages * PAGE_SIZE, SegmentSet(segments))
}

/// An allocation that is mostly possible; each of its properties may be impossible.
fn any_allocation(choices: &Choices<'_>) -> AllocationInfo {
    let mut info = allocation(1 + choices.below(24), 1 + choices.below(3) as u32);
    if choices.one_in(8) {
        info.size = choices.edge();
    }
    if choices.one_in(6) {
        info.alignment = choices.edge32();
    }
    if choices.one_in(8) {
        info.supported_segment_set = SegmentSet(choices.edge32());
    }
    if choices.one_in(4) {
        let segment_ids = [(); 5].map(|()| SegmentId(choices.below(4) as u8 * choices.pick(&[1, 1, 1, 85])));
        let directions = [(); 5].map(|()| direction(choices));
        info.preferred_segment = SegmentPreference { segment_ids, directions };
        let banks = [(); 4].map(|()| choices.below(5) as u8 * choices.pick(&[1, 1, 1, 63]));
        let directions = [(); 4].map(|()| direction(choices));
        info.hinted_bank = SegmentBankPreference { banks, directions };
        info.eviction_segment_set = SegmentSet(choices.edge32());
    }
    if choices.one_in(3) {
        info.allocation_priority = choices.edge32();
        info.flags = AllocationFlags::from_bits_retain(choices.edge32());
        info.flags2 = AllocationFlags2::from_bits_retain(choices.edge32());
    } else {
        info.flags.set(AllocationFlags::ACCESSED_PHYSICALLY, choices.one_in(4));
        info.flags.set(AllocationFlags::CPU_VISIBLE, choices.one_in(4));
        info.flags2 = AllocationFlags2::from_bits_truncate((choices.below(4) as u32) << 4);
    }
    info
}

fn direction(choices: &Choices<'_>) -> Direction {
    choices.pick(&[Direction::FromStart, Direction::FromEnd])
}

/// Encodes the operation as a driver should.
fn encode(build: &mut BuildPagingBuffer<'_>) -> BuildStatus {
    let Some(room) = build.dma_buffer.get_mut(..OPERATION_BYTES) else { return BuildStatus::InsufficientDmaBuffer };
    room.fill(1);
    build.dma_bytes_written = OPERATION_BYTES;
    BuildStatus::Success
}

/// Gives any answer, whether the contract allows it or not.
fn encode_oddly(build: &mut BuildPagingBuffer<'_>, choices: &Choices<'_>) -> BuildStatus {
    let (room, private_room) = (build.dma_buffer.len(), build.dma_buffer_private_data.len());
    match choices.below(12) {
        0 | 1 => BuildStatus::AllocationBusy,
        2 => BuildStatus::InsufficientDmaBuffer,
        3 | 4 => {
            *build.multipass_offset = build.multipass_offset.wrapping_add(1);
            BuildStatus::InsufficientDmaBuffer
        }
        5 => BuildStatus::Success,
        6 => {
            (build.dma_bytes_written, build.private_bytes_written) = (room, private_room);
            *build.multipass_offset = choices.edge32();
            BuildStatus::InsufficientDmaBuffer
        }
        7 => {
            (build.dma_bytes_written, build.private_bytes_written) = (room, private_room);
            BuildStatus::Success
        }
        8 => {
            *build.multipass_offset = choices.edge32();
            encode(build)
        }
        9 => {
            build.dma_bytes_written = choices.pick(&[room + 1, usize::MAX]);
            choices.pick(&[BuildStatus::Success, BuildStatus::InsufficientDmaBuffer, BuildStatus::AllocationBusy])
        }
        10 => {
            build.private_bytes_written = choices.pick(&[private_room + 1, usize::MAX]);
            choices.pick(&[BuildStatus::Success, BuildStatus::InsufficientDmaBuffer, BuildStatus::AllocationBusy])
        }
        _ => {
            build.dma_bytes_written = choices.index(room + 1);
            choices.pick(&[BuildStatus::Success, BuildStatus::InsufficientDmaBuffer, BuildStatus::AllocationBusy])
        }
    }
}

impl Kmd for Driver<'_> {
    fn query_adapter_info(&mut self) -> AdapterInfo {
        self.info.clone()
    }

    fn query_paging_process_gpu_va_size(&mut self, _: u32) -> Option<u32> {
        self.paging_va_mib
    }

    fn create_process(&mut self, _: bool) -> Result<KmdProcessHandle, KmdError> {
        self.create().map(KmdProcessHandle)
    }

    fn destroy_process(&mut self, process: KmdProcessHandle) {
        self.destroy(process.0);
    }

    fn create_context(&mut self, _: KmdProcessHandle, _: u32, _: bool) -> Result<KmdContextHandle, KmdError> {
        self.create().map(KmdContextHandle)
    }

    fn destroy_context(&mut self, context: KmdContextHandle) {
        self.destroy(context.0);
    }

    fn create_allocation(&mut self, _: &[u8]) -> Result<AllocationInfo, CreateAllocationError> {
        let handle = self.create().map_err(|_| CreateAllocationError::NoMemory)?;
        let info = match self.next_allocation.take() {
            Some(info) => info,
            None => any_allocation(&self.choices),
        };
        Ok(AllocationInfo { allocation: KmdAllocationHandle(handle), ..info })
    }

    fn destroy_allocation(&mut self, allocation: KmdAllocationHandle) {
        self.destroy(allocation.0);
    }

    fn open_allocation(
        &mut self,
        _: KmdProcessHandle,
        allocation: KmdAllocationHandle,
    ) -> Result<KmdOpenHandle, KmdError> {
        if self.is_odd(4) { Err(KmdError) } else { Ok(KmdOpenHandle(allocation.0)) }
    }

    fn validate_update_allocation_property(
        &mut self,
        _: KmdAllocationHandle,
        _: SegmentSet,
        _: SegmentPreference,
    ) -> bool {
        !self.is_odd(3)
    }

    fn set_root_page_table(&mut self, _: KmdContextHandle, _: RootPageTable) {}

    fn build_paging_buffer(&mut self, build: &mut BuildPagingBuffer<'_>) -> BuildStatus {
        if let Some(allocation) = build.operation.allocation() {
            assert!(self.live.contains(&allocation.0), "I28: an operation names a destroyed allocation");
        }
        match self.is_odd(4) {
            true => encode_oddly(build, &self.choices),
            false => encode(build),
        }
    }

    fn submit_command(&mut self, _: &SubmitCommand, preamble: &mut Vec<u8>) {
        preamble.push(1);
    }

    fn render(&mut self, render: &mut Render<'_>) -> Result<(), RenderStatus> {
        let choices = &self.choices;
        let odd = self.is_wild && choices.one_in(3);
        let bytes = render.command.len().min(render.dma_buffer.len());
        render.dma_bytes_written = bytes;
        render.patch_location_list_out.extend(render.patch_location_list_in);
        if !odd {
            return Ok(());
        }
        for _ in 0..choices.below(3) {
            let near = |choices: &Choices<'_>| choices.pick(&[0, 8, 32, 40, 64]) + choices.below(3) as u32;
            let location = PatchLocation {
                allocation_index: choices.below(5) as u32,
                slot_id: choices.below(6) as u32,
                allocation_offset: choices.edge32(),
                patch_offset: near(choices),
                split_offset: near(choices),
                driver_id: 0,
            };
            render.patch_location_list_out.push(location);
        }
        render.dma_bytes_written = choices.pick(&[bytes, 0, bytes / 2, render.dma_buffer.len() + 1, usize::MAX]);
        *render.multipass_offset = choices.edge32();
        match choices.below(8) {
            0 => Ok(()),
            1 => Err(RenderStatus::NoMemory),
            2 => Err(RenderStatus::PrivilegedInstruction),
            3 => Err(RenderStatus::IllegalInstruction),
            4 => Err(RenderStatus::InvalidParameter),
            5 => Err(RenderStatus::InvalidHandle),
            _ => Err(RenderStatus::InsufficientDmaBuffer),
        }
    }

    fn patch(&mut self, patch: &mut Patch<'_>) {
        let (start, end) = (patch.dma_buffer_submission_start_offset, patch.dma_buffer_submission_end_offset);
        let (first, len) = (patch.patch_location_list_submission_start, patch.patch_location_list_submission_length);
        assert_eq!(patch.dma_buffer.len() as u32, end - start, "PAT-10: a portion is what is submitted of it");
        for location in &patch.patch_location_list[first as usize..][..len as usize] {
            if patch.allocation_list[location.allocation_index as usize].allocation.is_some() {
                // The patch location must be inside the portion: the core has checked it.
                patch.dma_buffer[(location.patch_offset - start) as usize..][..8].fill(2);
            }
        }
    }

    fn query_dependent_engine_group(&mut self, node_ordinal: u32) -> u64 {
        if self.is_odd(2) { self.choices.any() } else { 1 << node_ordinal }
    }
}
