//! What a machine must be, without saying which: this crate names no GPU (DESIGN 2).

use vidmm::PageSize;
use vidmm_runtime::Machine;

use crate::scenario::Fault;

/// The machine that a run asks its factory for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MachineDesc {
    /// Bytes of local memory; a multiple of its page size.
    pub local_memory_bytes: u64,
    /// The pages of the memory segment.
    pub page_size: PageSize,
    /// Index bits of the page-table levels below the root, leaf first; none is the GPU's own choice.
    pub page_table_bits: Option<Vec<u32>>,
    /// Whether 64 KiB pages have page-table entries of their own (GVA-43).
    pub dual_pte: bool,
    /// Whether invalid entries are never cached.
    pub invalid_tlb_entries_not_cached: bool,
    /// Whether page tables live in system memory instead of local memory.
    pub page_tables_in_system_memory: bool,
    /// Bytes of a paging buffer.
    pub paging_buffer_bytes: u32,
    /// The driver's wish for the paging process's address space, in MiB; 0 leaves it to the core.
    pub paging_va_mib: u32,
    /// Bandwidth of the bus each way, in bytes a second.
    pub bus_bytes_per_second: u64,
    /// Bandwidth of local memory, in bytes a second.
    pub local_bytes_per_second: u64,
    /// Mistakes that are built in.
    pub faults: Vec<Fault>,
}

impl Default for MachineDesc {
    /// 8 GiB of local memory in 64 KiB pages, behind a PCIe 4 bus.
    fn default() -> Self {
        Self {
            local_memory_bytes: 8 << 30,
            page_size: PageSize::Kib64,
            page_table_bits: None,
            dual_pte: true,
            invalid_tlb_entries_not_cached: true,
            page_tables_in_system_memory: false,
            paging_buffer_bytes: 64 << 10,
            paging_va_mib: 0,
            bus_bytes_per_second: 25_000_000_000,
            local_bytes_per_second: 800_000_000_000,
            faults: Vec::new(),
        }
    }
}

/// What makes machines.
pub type MachineFactory<'a> = dyn Fn(&MachineDesc) -> Result<Machine, String> + 'a;
