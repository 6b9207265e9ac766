//! An adapter whose driver and host cost next to nothing: what is left to measure is the manager.

use std::collections::VecDeque;

use vidmm::{AdapterOptions, Output, PhysicalAddress, SegmentId, StartAdapterError, VidMm, contract::*};

/// The local memory of the adapter, if it has any.
pub const LOCAL_MEMORY: SegmentId = SegmentId(1);
/// The paging engine.
pub const PAGING: u32 = 0;
/// The engine of users' work.
pub const RENDER: u32 = 1;

/// The adapter.
#[derive(Clone, Copy, Debug)]
pub struct NullAdapter {
    /// How engines address memory.
    pub model: AddressingModel,
    /// Bytes of local memory; 0 is none.
    pub local_bytes: u64,
    /// Whether local memory has pages of 64 KiB, not of 4.
    pub has_large_pages: bool,
    /// Bytes that can be resident in system memory.
    pub system_bytes: u64,
    /// The size of the paging process's address space, in MiB.
    pub paging_va_mib: u32,
}

/// A manager on the adapter. Its GPU ends paging buffers at once, and users' packets when it is told to.
pub struct NullMachine {
    /// The manager.
    pub vidmm: VidMm,
    /// Its driver.
    pub driver: NullDriver,
    /// Its host.
    pub host: NullHost,
    /// Users' packets that the GPU has, the oldest first.
    running: VecDeque<(EngineFence, DmaBuffer)>,
}

impl NullMachine {
    /// Starts the adapter.
    ///
    /// # Errors
    ///
    /// If the manager refuses it: it has too little memory.
    pub fn start(adapter: NullAdapter, options: AdapterOptions) -> Result<Self, StartAdapterError> {
        let (mut driver, mut host) = (NullDriver::new(adapter), NullHost::default());
        let vidmm = VidMm::start_adapter(options, &mut driver, &mut host)?;
        Ok(Self { vidmm, driver, host, running: VecDeque::new() })
    }

    /// Polls until nothing is left to do, and ends paging buffers as they come.
    ///
    /// # Panics
    ///
    /// If the manager is wrong.
    pub fn settle(&mut self) {
        while let Some(output) = self.vidmm.poll(0, &mut self.driver, &mut self.host) {
            match output {
                Output::Submit(Packet { signal, buffer, .. }) if signal.engine == PAGING => {
                    self.vidmm.handle_completed(signal, buffer);
                }
                Output::Submit(Packet { signal, buffer, .. }) => self.running.push_back((signal, buffer)),
                Output::AdapterInError(violation) => panic!("the manager or its driver is wrong: {violation}"),
                _ => {}
            }
        }
    }

    /// The GPU ends all submissions up to number `last` that it has got. Returns whether it has got any of them.
    pub fn complete(&mut self, last: u64) -> bool {
        let mut has_ended = false;
        while self.running.front().is_some_and(|(signal, _)| signal.fence_id <= last) {
            let (signal, buffer) = self.running.pop_front().expect("there is a first");
            self.vidmm.handle_completed(signal, buffer);
            has_ended = true;
        }
        has_ended
    }
}

/// The description of an allocation; the driver reads it in its private data.
#[derive(Clone, Copy, Debug)]
pub struct NullAllocation {
    /// Its size in bytes.
    pub size: u64,
    /// The possible memory.
    pub memory: NullMemory,
    /// Its flags.
    pub flags2: AllocationFlags2,
    /// One range, addressed physically by engines.
    pub is_range: bool,
}

/// The possible memory of an allocation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum NullMemory {
    /// Local memory.
    Local,
    /// Implicit system memory.
    System,
    /// Local memory first, or else implicit system memory.
    Either,
}

impl NullAllocation {
    /// The private data.
    pub fn to_bytes(self) -> [u8; 16] {
        let rest = u64::from(self.flags2.bits()) << 3 | u64::from(self.is_range) << 2 | self.memory as u64;
        let words = [self.size, rest];
        let mut bytes = [0; 16];
        bytes[..8].copy_from_slice(&words[0].to_le_bytes());
        bytes[8..].copy_from_slice(&words[1].to_le_bytes());
        bytes
    }

    fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let word = |at: usize| Some(u64::from_le_bytes(bytes.get(at..at + 8)?.try_into().ok()?));
        let flags2 = AllocationFlags2::from_bits_truncate((word(8)? >> 3) as u32);
        let memory = match word(8)? & 3 {
            0 => NullMemory::Local,
            1 => NullMemory::System,
            2 => NullMemory::Either,
            _ => return None,
        };
        Some(Self { size: word(0)?, memory, flags2, is_range: word(8)? & 4 != 0 })
    }
}

/// A driver that encodes each operation in 8 bytes and keeps nothing about anything.
#[derive(Debug)]
pub struct NullDriver {
    adapter: NullAdapter,
    last_handle: u64,
}

impl NullDriver {
    /// The driver of an adapter.
    pub fn new(adapter: NullAdapter) -> Self {
        Self { adapter, last_handle: 0 }
    }

    fn handle(&mut self) -> u64 {
        self.last_handle += 1;
        self.last_handle
    }
}

impl Kmd for NullDriver {
    fn query_adapter_info(&mut self) -> AdapterInfo {
        let segment = |flags, base_address, size| SegmentDescriptor { flags, base_address, size, commit_limit: size };
        let level = PageTableLevelDesc {
            page_table_index_bit_count: 9,
            page_table_segment_id: SegmentId::SYSTEM,
            paging_process_page_table_segment_id: SegmentId::SYSTEM,
            page_table_size_in_bytes: 4096,
            page_table_alignment_in_bytes: 0,
        };
        let NullAdapter { model, local_bytes, has_large_pages, system_bytes, .. } = self.adapter;
        let mut flags = SegmentFlags::APPLICATION_TARGET;
        flags.set(SegmentFlags::USE_64KB_PAGES, has_large_pages);
        let local = segment(flags, 0, local_bytes);
        let aperture = segment(SegmentFlags::APERTURE, local_bytes, system_bytes);
        let has_page_tables = model == AddressingModel::GpuMmu;
        AdapterInfo {
            wddm_version: WddmVersion::WDDM3_2,
            addressing_model: model,
            memory_management_caps: VidMmCaps::empty(),
            linked_adapter_segments: Vec::new(),
            aperture_segment_commit_limit: u64::MAX,
            scheduling_log_buffer_size: (local_bytes == 0).then_some(1 << 20),
            segments: if local_bytes > 0 { vec![local, aperture] } else { vec![aperture] },
            engines: vec![EngineDesc { kind: EngineKind::Paging }, EngineDesc { kind: EngineKind::Render3d }],
            gpu_mmu: GpuMmuCaps {
                flags: GpuMmuFlags::DUAL_PTE_SUPPORTED,
                page_table_update_mode: PageTableUpdateMode::GpuPhysical,
                legacy_behaviors: LegacyBehaviors::empty(),
                virtual_address_bit_count: 48,
                leaf_page_table_size_for_64k_pages_in_bytes: 4096,
            },
            page_table_levels: if has_page_tables { vec![level; 4] } else { Vec::new() },
            paging_buffer: PagingBufferDesc { size: 64 << 10, private_data_size: 0 },
            write_behind: false,
            patching: PatchingCaps::default(),
        }
    }

    fn query_paging_process_gpu_va_size(&mut self, _physical_adapter_index: u32) -> Option<u32> {
        Some(self.adapter.paging_va_mib)
    }

    fn create_process(&mut self, _system_process: bool) -> Result<KmdProcessHandle, KmdError> {
        Ok(KmdProcessHandle(self.handle()))
    }

    fn destroy_process(&mut self, _process: KmdProcessHandle) {}

    fn create_context(&mut self, _: KmdProcessHandle, _node: u32, _system: bool) -> Result<KmdContextHandle, KmdError> {
        Ok(KmdContextHandle(self.handle()))
    }

    fn destroy_context(&mut self, _context: KmdContextHandle) {}

    fn create_allocation(&mut self, private_driver_data: &[u8]) -> Result<AllocationInfo, CreateAllocationError> {
        let Some(NullAllocation { size, memory, flags2, is_range }) = NullAllocation::from_bytes(private_driver_data)
        else {
            return Err(CreateAllocationError::InvalidParameter);
        };
        let aperture = if self.adapter.local_bytes > 0 { SegmentId(2) } else { SegmentId(1) };
        let supported = match memory {
            NullMemory::Local => SegmentSet::of(LOCAL_MEMORY),
            NullMemory::System => SegmentSet::of(aperture),
            NullMemory::Either => SegmentSet(SegmentSet::of(LOCAL_MEMORY).0 | SegmentSet::of(aperture).0),
        };
        let flags = if is_range { AllocationFlags::ACCESSED_PHYSICALLY } else { AllocationFlags::empty() };
        let plain = AllocationInfo::new(KmdAllocationHandle(self.handle()), size, supported);
        Ok(AllocationInfo { flags, flags2, ..plain })
    }

    fn destroy_allocation(&mut self, _allocation: KmdAllocationHandle) {}

    fn set_root_page_table(&mut self, _context: KmdContextHandle, _root: RootPageTable) {}

    fn build_paging_buffer(&mut self, build: &mut BuildPagingBuffer<'_>) -> BuildStatus {
        let Some(room) = build.dma_buffer.first_chunk_mut() else { return BuildStatus::InsufficientDmaBuffer };
        *room = [0xAA; 8];
        build.dma_bytes_written = room.len();
        BuildStatus::Success
    }

    fn submit_command(&mut self, _submit: &SubmitCommand, _preamble: &mut Vec<u8>) {}
}

/// A host that commits addresses and never reuses them.
#[derive(Debug, Default)]
pub struct NullHost {
    end: u64,
}

impl Host for NullHost {
    fn commit_backing_store(&mut self, size: u64) -> Result<PhysicalAddress, BackingStoreError> {
        let address = PhysicalAddress { segment: SegmentId::SYSTEM, offset: self.end };
        self.end += size.next_multiple_of(64 << 10);
        Ok(address)
    }

    fn decommit_backing_store(&mut self, _address: PhysicalAddress, _size: u64) {}

    fn reset_backing_store(&mut self, _address: PhysicalAddress, _size: u64) {}
}
