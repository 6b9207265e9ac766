//! The machine.

use std::ops::RangeInclusive;

use serde::Deserialize;
use serde::de::{Deserializer, Error as _};
use vidmm_trace::{ByteSize, LocalMemory};

use super::number::within;
use super::page_size::PageSize;

/// The sizes that a paging buffer may have, in bytes.
const PAGING_BUFFERS: RangeInclusive<u64> = 4 << 10..=64 << 20;

/// What the size of a paging buffer is a multiple of, in bytes.
const PAGING_BUFFER_UNIT: u64 = 4 << 10;

/// The machine: its memory, and how its pages are mapped.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default, rename_all = "kebab-case", expecting = "a table")]
pub struct AdapterSettings {
    /// How much local memory there is; [`Scenario::local_memory_bytes`](super::Scenario::local_memory_bytes) turns a share into bytes.
    pub local_memory: LocalMemory,
    /// The pages that local memory is managed in.
    pub page_size: PageSize,
    /// The index bits of the levels of page tables below the root, from the leaf up. None leaves them to
    /// [`page_table_bits`](Self::page_table_bits).
    pub page_table_bits: Option<Vec<u32>>,
    /// Whether a level-1 entry points to a leaf table of 4 KiB pages and to one of 64 KiB pages. None leaves it to
    /// [`dual_pte`](Self::dual_pte).
    pub dual_pte: Option<bool>,
    /// Whether the TLB caches valid entries only. If it does not, an entry that becomes valid must be flushed as well.
    pub invalid_tlb_entries_not_cached: bool,
    /// Where page tables live.
    pub page_tables: PageTables,
    /// The size of a paging buffer: a multiple of 4 KiB, from 4 KiB to 64 MiB.
    #[serde(deserialize_with = "paging_buffer")]
    pub paging_buffer: ByteSize,
    /// The size of the paging process's scratch address space in MiB, 1 TiB at most; 0 leaves it to the manager.
    #[serde(deserialize_with = "within::<_, _, 0, 0x10_0000>")]
    pub paging_va_mib: u32,
}

/// Where page tables live.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PageTables {
    /// In local memory.
    #[default]
    Local,
    /// In system memory, where no table may be larger than 4 KiB.
    System,
}

impl Default for AdapterSettings {
    /// Half of the memory that the workload needs, in pages of 64 KiB.
    fn default() -> Self {
        Self {
            local_memory: LocalMemory::Percent(5000),
            page_size: PageSize::Kib64,
            page_table_bits: None,
            dual_pte: None,
            invalid_tlb_entries_not_cached: true,
            page_tables: PageTables::Local,
            paging_buffer: ByteSize::kib(64),
            paging_va_mib: 0,
        }
    }
}

impl AdapterSettings {
    /// Bits in a virtual address: 47 with pages of 64 KiB, 48 with pages of 4 KiB, as real GPUs have them.
    pub fn virtual_address_bits(&self) -> u32 {
        match self.page_size {
            PageSize::Kib4 => 48,
            PageSize::Kib64 => 47,
        }
    }

    /// Whether level-1 entries are dual: as the scenario says, or else with pages of 64 KiB only.
    pub fn dual_pte(&self) -> bool {
        self.dual_pte.unwrap_or(self.page_size == PageSize::Kib64)
    }

    /// The index bits of the levels below the root, from the leaf up: as the scenario says, or else `[13, 10]` for
    /// tables in local memory with pages of 64 KiB. Elsewhere a table is 4 KiB at most, so that they are `[9, 8, 8, 5]`
    /// with dual entries, which are twice as large, and `[9, 9, 9]` without.
    pub fn page_table_bits(&self) -> Vec<u32> {
        let default = || match (self.page_tables, self.page_size) {
            (PageTables::Local, PageSize::Kib64) => vec![13, 10],
            _ if self.dual_pte() => vec![9, 8, 8, 5],
            _ => vec![9, 9, 9],
        };
        self.page_table_bits.clone().unwrap_or_else(default)
    }
}

/// Reads the size of a paging buffer.
fn paging_buffer<'de, D: Deserializer<'de>>(deserializer: D) -> Result<ByteSize, D::Error> {
    let size = ByteSize::deserialize(deserializer)?;
    if PAGING_BUFFERS.contains(&size.bytes()) && size.bytes().is_multiple_of(PAGING_BUFFER_UNIT) {
        return Ok(size);
    }
    let (least, most) = (ByteSize(*PAGING_BUFFERS.start()), ByteSize(*PAGING_BUFFERS.end()));
    Err(D::Error::custom(format!("a paging buffer of {size}; give a multiple of 4 KiB from {least} to {most}")))
}
