//! The driver of the layer's manager, whose bytes are copies between homes and local memory, and the places of pages.
//!
//! A range of a home is an allocation of the core. The range with slot n has the GPU virtual addresses from `n * RANGE_BYTES` on, so that an
//! address names the range and the place in the range. An entry of a page table is a bind of sparse memory.

use std::collections::HashMap;

use vidmm::contract::*;
use vidmm::{GpuVirtualAddress, PAGE_SIZE, PAGE_SIZE_64K, PhysicalAddress, SegmentId};

/// The bytes of a range of a home.
pub const RANGE_BYTES: u64 = 2 << 20;

/// The unit of binds.
pub const PAGE_BYTES: u64 = PAGE_SIZE_64K;

/// The pages of a range.
pub const RANGE_PAGES: usize = (RANGE_BYTES / PAGE_BYTES) as usize;

/// The engine that pages.
pub const PAGING_ENGINE: u32 = 0;

const LOCAL: SegmentId = SegmentId(1);

/// A step of paging, at a GPU virtual address.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Step {
    /// The content comes from the home.
    PageIn { at: u64, bytes: u64, local: u64 },
    /// The content goes to the home.
    PageOut { at: u64, bytes: u64, local: u64 },
    /// The first content is zeros.
    Fill { at: u64, bytes: u64, local: u64 },
    /// Pages are in local memory from now on, one behind the other, or are not.
    Place { at: u64, bytes: u64, local: Option<u64> },
}

/// The bytes of a step.
const STEP: usize = 32;
/// The local offset of pages that are not in local memory.
const NOWHERE: u64 = u64::MAX;

impl Step {
    fn to_bytes(self) -> [u8; STEP] {
        let words = match self {
            Self::PageIn { at, bytes, local } => [1, at, bytes, local],
            Self::PageOut { at, bytes, local } => [2, at, bytes, local],
            Self::Fill { at, bytes, local } => [3, at, bytes, local],
            Self::Place { at, bytes, local } => [4, at, bytes, local.unwrap_or(NOWHERE)],
        };
        let mut step = [0; STEP];
        for (bytes, word) in step.chunks_exact_mut(8).zip(words) {
            bytes.copy_from_slice(&word.to_le_bytes());
        }
        step
    }

    /// The steps of a paging buffer.
    pub fn read(buffer: &[u8]) -> impl Iterator<Item = Self> {
        buffer.chunks_exact(STEP).map(|step| {
            let mut words = step.chunks_exact(8).map(|word| u64::from_le_bytes(word.try_into().expect("8 bytes")));
            let mut word = || words.next().expect("a step has 4 words");
            let (kind, at, bytes, local) = (word(), word(), word(), word());
            match kind {
                1 => Self::PageIn { at, bytes, local },
                2 => Self::PageOut { at, bytes, local },
                3 => Self::Fill { at, bytes, local },
                _ => Self::Place { at, bytes, local: (local != NOWHERE).then_some(local) },
            }
        })
    }
}

/// The driver of an adapter with some local memory.
pub struct Driver {
    local_bytes: u64,
    last_handle: u64,
    paging_process: Option<KmdProcessHandle>,
    /// The local memory that the paging process sees, by pages of 4 KiB.
    windows: HashMap<u64, u64>,
}

impl Driver {
    pub fn new(local_bytes: u64) -> Self {
        Self { local_bytes, last_handle: 0, paging_process: None, windows: HashMap::new() }
    }

    fn handle(&mut self) -> u64 {
        self.last_handle += 1;
        self.last_handle
    }

    /// The private data of the range with a slot.
    pub fn private_data(slot: u32, bytes: u64) -> [u8; 16] {
        let mut data = [0; 16];
        data[..8].copy_from_slice(&u64::from(slot).to_le_bytes());
        data[8..].copy_from_slice(&bytes.to_le_bytes());
        data
    }

    /// The pieces of local memory behind a window of the paging process: the offset in the window, the bytes, and the place.
    fn pieces(&self, window: GpuVirtualAddress, bytes: u64) -> Vec<(u64, u64, u64)> {
        let mut pieces: Vec<(u64, u64, u64)> = Vec::new();
        for offset in (0..bytes).step_by(PAGE_SIZE as usize) {
            let page = self.windows.get(&((window.0 + offset) / PAGE_SIZE));
            let local = *page.expect("the manager maps a window before the manager copies through the window");
            match pieces.last_mut() {
                Some((_, bytes, first)) if *first + *bytes == local => *bytes += PAGE_SIZE,
                _ => pieces.push((offset, PAGE_SIZE, local)),
            }
        }
        pieces
    }

    fn steps(&mut self, operation: &PagingOperation) -> Option<Vec<Step>> {
        let at = |allocation: KmdAllocationHandle, offset: u64| allocation.0 * RANGE_BYTES + offset;
        Some(match operation {
            PagingOperation::VirtualTransfer(op) => {
                let is_in = op.transfer_direction == MemoryTransferDirection::SystemToLocal;
                let window = if is_in { op.destination_virtual_address } else { op.source_virtual_address };
                let first = at(op.allocation, op.allocation_offset_in_bytes);
                let pieces = self.pieces(window, op.transfer_size_in_bytes).into_iter();
                let step = |(offset, bytes, local)| match is_in {
                    true => Step::PageIn { at: first + offset, bytes, local },
                    false => Step::PageOut { at: first + offset, bytes, local },
                };
                // The manager has no reason to move a range inside of local memory: pages are anywhere.
                if op.transfer_direction == MemoryTransferDirection::LocalToLocal {
                    return None;
                }
                pieces.map(step).collect()
            }
            PagingOperation::VirtualFill(op) => {
                let first = at(op.allocation, op.allocation_offset_in_bytes);
                let pieces = self.pieces(op.destination_virtual_address, op.fill_size_in_bytes).into_iter();
                pieces.map(|(offset, bytes, local)| Step::Fill { at: first + offset, bytes, local }).collect()
            }
            PagingOperation::UpdatePageTable(op) => self.entries(op).into_iter().collect(),
            PagingOperation::FlushTlb(_) => Vec::new(),
            _ => return None,
        })
    }

    /// Entries of the paging process are windows, and those of the program are places.
    fn entries(&mut self, op: &UpdatePageTable) -> Option<Step> {
        if op.page_table_level > 0 {
            return None;
        }
        let PteRun { first, num_page_table_entries, .. } = op.page_table_entries;
        let (page, count) = (op.page_size(), u64::from(num_page_table_entries));
        let (start, bytes) = (op.first_pte_virtual_address.0, count * page.bytes());
        let is_local = first.flags.contains(PteFlags::VALID) && first.address.segment == LOCAL;
        let local = is_local.then_some(first.address.offset);
        if Some(op.process) == self.paging_process {
            for offset in (0..bytes).step_by(PAGE_SIZE as usize) {
                let key = (start + offset) / PAGE_SIZE;
                match local {
                    Some(local) => self.windows.insert(key, local + offset),
                    None => self.windows.remove(&key),
                };
            }
            return None;
        }
        // The ranges of a program begin and end with pages of 64 KiB: tables of small pages say nothing about ranges.
        (page.bytes() == PAGE_BYTES).then_some(Step::Place { at: start, bytes, local })
    }
}

impl Kmd for Driver {
    fn query_adapter_info(&mut self) -> AdapterInfo {
        let segment = |flags, base_address, size| SegmentDescriptor { flags, base_address, size, commit_limit: size };
        let level = PageTableLevelDesc {
            page_table_index_bit_count: 9,
            // Vulkan has page tables of its own: those of the manager take no local memory.
            page_table_segment_id: SegmentId::SYSTEM,
            paging_process_page_table_segment_id: SegmentId::SYSTEM,
            page_table_size_in_bytes: 4096,
            page_table_alignment_in_bytes: 0,
        };
        let local = SegmentFlags::APPLICATION_TARGET | SegmentFlags::USE_64KB_PAGES | SegmentFlags::LOCAL_BUDGET_GROUP;
        let aperture = SegmentFlags::APERTURE | SegmentFlags::NON_LOCAL_BUDGET_GROUP;
        AdapterInfo {
            wddm_version: WddmVersion::WDDM3_2,
            addressing_model: AddressingModel::GpuMmu,
            memory_management_caps: VidMmCaps::empty(),
            linked_adapter_segments: Vec::new(),
            aperture_segment_commit_limit: u64::MAX,
            scheduling_log_buffer_size: None,
            segments: vec![
                segment(local, 0, self.local_bytes),
                segment(aperture, self.local_bytes.next_multiple_of(RANGE_BYTES), 64 << 20),
            ],
            engines: vec![EngineDesc { kind: EngineKind::Paging }, EngineDesc { kind: EngineKind::Render3d }],
            gpu_mmu: GpuMmuCaps {
                flags: GpuMmuFlags::DUAL_PTE_SUPPORTED,
                page_table_update_mode: PageTableUpdateMode::GpuPhysical,
                legacy_behaviors: LegacyBehaviors::empty(),
                virtual_address_bit_count: 48,
                leaf_page_table_size_for_64k_pages_in_bytes: 4096,
            },
            page_table_levels: vec![level; 4],
            paging_buffer: PagingBufferDesc { size: 64 << 10, private_data_size: 0 },
            write_behind: false,
            patching: PatchingCaps::default(),
        }
    }

    fn query_paging_process_gpu_va_size(&mut self, _physical_adapter_index: u32) -> Option<u32> {
        Some(64)
    }

    fn create_process(&mut self, system_process: bool) -> Result<KmdProcessHandle, KmdError> {
        let handle = KmdProcessHandle(self.handle());
        if system_process {
            self.paging_process = Some(handle);
        }
        Ok(handle)
    }

    fn destroy_process(&mut self, _process: KmdProcessHandle) {}

    fn create_context(&mut self, _: KmdProcessHandle, _node: u32, _system: bool) -> Result<KmdContextHandle, KmdError> {
        Ok(KmdContextHandle(self.handle()))
    }

    fn destroy_context(&mut self, _context: KmdContextHandle) {}

    fn create_allocation(&mut self, private_driver_data: &[u8]) -> Result<AllocationInfo, CreateAllocationError> {
        let word = |at: usize| Some(u64::from_le_bytes(private_driver_data.get(at..at + 8)?.try_into().ok()?));
        let (Some(slot), Some(size)) = (word(0), word(8)) else { return Err(CreateAllocationError::InvalidParameter) };
        Ok(AllocationInfo::new(KmdAllocationHandle(slot), size, SegmentSet::of(LOCAL)))
    }

    fn destroy_allocation(&mut self, _allocation: KmdAllocationHandle) {}

    fn set_root_page_table(&mut self, _context: KmdContextHandle, _root: RootPageTable) {}

    fn build_paging_buffer(&mut self, build: &mut BuildPagingBuffer<'_>) -> BuildStatus {
        const STATUS_NOT_SUPPORTED: i32 = 0xC000_00BB_u32 as i32;
        let Some(steps) = self.steps(build.operation) else { return BuildStatus::Other(STATUS_NOT_SUPPORTED) };
        build.write(steps.into_iter().map(Step::to_bytes))
    }

    fn submit_command(&mut self, _submit: &SubmitCommand, _preamble: &mut Vec<u8>) {}
}

/// The backing stores: homes have the content, so a backing store is an address.
#[derive(Default)]
pub struct Backing {
    end: u64,
}

impl Host for Backing {
    fn commit_backing_store(&mut self, size: u64) -> Result<PhysicalAddress, BackingStoreError> {
        let address = PhysicalAddress { segment: SegmentId::SYSTEM, offset: self.end };
        self.end += size.next_multiple_of(PAGE_BYTES);
        Ok(address)
    }

    fn decommit_backing_store(&mut self, _address: PhysicalAddress, _size: u64) {}

    fn reset_backing_store(&mut self, _address: PhysicalAddress, _size: u64) {}
}
