//! The status registers of the model GPU: what its interrupts say.

use vidmm::GpuVirtualAddress;
use vidmm::contract::{DmaPageFaulted, FaultErrorCode, KmdProcessHandle, NotifyInterrupt, PageFaultFlags};

const PAGE_FAULT: u32 = 1;
const ILLEGAL_COMMAND: u32 = 2;
const WRITE: u32 = 1 << 0;
const IO_MMU: u32 = 1 << 1;

/// The content of the registers after an engine has stopped.
///
/// They are 44 bytes, little-endian and without gaps:
///
/// | at | bytes | what |
/// |---:|------:|------|
/// | 0  | 4 | 1: page fault, 2: illegal command |
/// | 4  | 4 | the engine |
/// | 8  | 8 | the fence of the packet |
/// | 16 | 8 | the virtual address of the page; 0 for an illegal command |
/// | 24 | 8 | the process whose address space it is, as the driver names it; 0 if the engine had none |
/// | 32 | 4 | bit 0: it was a write, bit 1: the address was translated by the IOMMU |
/// | 36 | 4 | the level of the page tables at which the walk ended |
/// | 40 | 4 | the error code, as [`FaultErrorCode`] has it |
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct StatusRegisters {
    /// The kind of event.
    pub kind: StatusKind,
    /// The engine that has stopped.
    pub engine: u32,
    /// The packet that it ran.
    pub fence_id: u64,
}

/// Why an engine has stopped.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum StatusKind {
    /// An address could not be accessed.
    PageFault {
        /// That of the page.
        virtual_address: GpuVirtualAddress,
        /// Whether it was a write.
        write: bool,
        /// Whether the IOMMU translates addresses.
        io_mmu: bool,
        /// The level of the page tables at which the walk ended.
        page_table_level: u32,
        /// Whose address space it is.
        process: Option<KmdProcessHandle>,
    },
    /// A command means nothing.
    IllegalCommand,
}

impl StatusRegisters {
    /// The bytes of the registers.
    pub const SIZE: usize = 44;

    /// The bytes that the registers read as.
    pub fn to_bytes(self) -> Vec<u8> {
        let (kind, address, process, flags, level, code) = match self.kind {
            StatusKind::PageFault { virtual_address, write, io_mmu, page_table_level, process } => {
                let flags = (u32::from(write) * WRITE) | (u32::from(io_mmu) * IO_MMU);
                let process = process.map_or(0, |process| process.0);
                (PAGE_FAULT, virtual_address.0, process, flags, page_table_level, FaultErrorCode::PAGE_FAULT)
            }
            StatusKind::IllegalCommand => (ILLEGAL_COMMAND, 0, 0, 0, 0, FaultErrorCode::INVALID_INSTRUCTION),
        };
        let mut bytes = Vec::with_capacity(Self::SIZE);
        [kind, self.engine].iter().for_each(|word| bytes.extend(word.to_le_bytes()));
        [self.fence_id, address, process].iter().for_each(|word| bytes.extend(word.to_le_bytes()));
        [flags, level, code.0].iter().for_each(|word| bytes.extend(word.to_le_bytes()));
        bytes
    }

    /// Decodes `bytes`; `None` if these registers never read so.
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let bytes: &[u8; Self::SIZE] = bytes.try_into().ok()?;
        let word = |at: usize| u32::from_le_bytes(std::array::from_fn(|byte| bytes[at + byte]));
        let long = |at: usize| u64::from_le_bytes(std::array::from_fn(|byte| bytes[at + byte]));
        let kind = match word(0) {
            PAGE_FAULT => StatusKind::PageFault {
                virtual_address: GpuVirtualAddress(long(16)),
                write: word(32) & WRITE != 0,
                io_mmu: word(32) & IO_MMU != 0,
                page_table_level: word(36),
                process: Some(long(24)).filter(|&process| process != 0).map(KmdProcessHandle),
            },
            ILLEGAL_COMMAND => StatusKind::IllegalCommand,
            _ => return None,
        };
        Some(Self { kind, engine: word(4), fence_id: long(8) }).filter(|registers| registers.to_bytes() == bytes)
    }

    /// The same, as a driver reports it (6.2). An engine of this GPU runs again only after a reset, which is all that it needs.
    pub fn notification(self) -> NotifyInterrupt {
        let Self { kind, engine: node_ordinal, fence_id: faulted_fence_id } = self;
        let StatusKind::PageFault { virtual_address, write, io_mmu, page_table_level, process } = kind else {
            return NotifyInterrupt::DmaFaulted { faulted_fence_id, node_ordinal };
        };
        let mut page_fault_flags = PageFaultFlags::ENGINE_RESET_REQUIRED;
        page_fault_flags.set(PageFaultFlags::WRITE, write);
        page_fault_flags.set(PageFaultFlags::IOMMU, io_mmu);
        NotifyInterrupt::DmaPageFaulted(DmaPageFaulted {
            faulted_fence_id,
            faulted_primitive_api_sequence_number: DmaPageFaulted::PRIMITIVE_API_SEQUENCE_NUMBER_UNKNOWN,
            faulted_pipeline_stage: 0,
            faulted_bind_table_entry: DmaPageFaulted::BIND_TABLE_ENTRY_UNKNOWN,
            page_fault_flags,
            faulted_virtual_address: virtual_address,
            node_ordinal,
            page_table_level,
            fault_error_code: FaultErrorCode::PAGE_FAULT,
            faulted_process: process,
        })
    }
}
