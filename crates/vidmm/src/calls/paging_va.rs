//! The size of the address space of the paging process (PGV-01 to PGV-06, U-16).
//!
//! The size is that of one window; a transfer has one on each side. Its page tables stay resident for ever, so the
//! pinnable memory bounds it, whatever the driver answers.

use crate::{adapter::Adapter, budget::account::Account, event::error::DriverFinding, units::PAGE_SIZE_64K};

/// The type of the query, PAGINGPROCESSGPUVASIZE. It takes and gives 4 bytes.
#[doc(alias = "DXGKQAITYPE_PAGINGPROCESSGPUVASIZE")]
pub(crate) const QUERY_TYPE: u32 = 48;

const MIB: u64 = 1 << 20;
const PINNED_LEAF_TABLES_MAX: u64 = 256 << 20;

/// The facts that decide the size for one physical adapter.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PagingVaQuery {
    pub physical_adapter_index: u32,
    /// Bytes of its largest memory segment, 0 without one.
    pub memory_size: u64,
    /// Bytes that the leaf tables of the paging process may take of the memory segment in which they live.
    pub leaf_table_bytes_max: u64,
    /// Bytes of the log buffers of hardware scheduling; none if the OS schedules.
    pub scheduling_log: Option<u64>,
    /// Whether the driver knows the query.
    pub is_asked: bool,
    /// The driver's answer; none or 0 leaves the size to us.
    pub answer_mib: Option<u32>,
    /// The driver's size counts even where there would be no addresses (U-16).
    pub without_local_memory: bool,
}

impl PagingVaQuery {
    /// The size of a window in bytes, 0 if the paging process has no addresses, and the finding for the driver's
    /// author.
    pub fn size(self, adapter: &Adapter) -> (u64, Option<DriverFinding>) {
        let Self { physical_adapter_index, memory_size, .. } = self;
        let asked_mib = self.answer_mib.unwrap_or(0);
        let asked = u64::from(asked_mib) * MIB;
        if adapter.is_physical() {
            let ignored = DriverFinding::PagingVaWithPhysicalAddresses { physical_adapter_index, asked_mib };
            return (0, (asked > 0).then_some(ignored));
        }
        let has_addresses = memory_size > 0 || self.scheduling_log.is_some_and(|log| log > 0);
        let is_honoured = self.without_local_memory && asked > 0;
        if !has_addresses && !is_honoured {
            let ignored = DriverFinding::PagingVaIgnored { physical_adapter_index, asked_mib };
            return (0, (asked > 0).then_some(ignored));
        }
        let default_size = self.bounded((memory_size / 4).max(self.scheduling_log.unwrap_or(0)), adapter);
        if asked == 0 {
            return (default_size, None);
        }
        let paging_va_size = self.bounded(asked, adapter);
        let finding = if paging_va_size < asked {
            Some(DriverFinding::PagingVaClamped { physical_adapter_index, asked_mib, paging_va_size })
        } else if memory_size > 0 && paging_va_size > default_size {
            let table_bytes = leaf_tables(adapter, paging_va_size);
            let needlessly =
                DriverFinding::PagingVaNeedlesslyLarge { physical_adapter_index, asked_mib, default_size, table_bytes };
            Some(needlessly)
        } else if paging_va_size > asked {
            Some(DriverFinding::PagingVaRounded { physical_adapter_index, asked_mib, paging_va_size })
        } else {
            None
        };
        (paging_va_size, finding)
    }

    /// Rounds up to whole leaf tables. No allocation is larger than the memory that can be resident, so a window beyond
    /// that is only pinned tables. Both windows must fit in the address space, and their leaf tables may take an eighth
    /// of the memory segment or a quarter of its area for tables, and 256 MiB at most.
    fn bounded(self, size: u64, adapter: &Adapter) -> u64 {
        let (_, addresses) = adapter.paging_addresses();
        let largest = self.memory_size.max(adapter.system_commit_limit);
        let unit = unit(adapter);
        let most = (addresses / 8).min(largest).min(pinnable(adapter, self.leaf_table_bytes_max)).max(unit);
        size.max(4 * MIB).min(most).next_multiple_of(unit)
    }
}

/// The unit of a window's size.
fn unit(adapter: &Adapter) -> u64 {
    if adapter.has_page_tables() { adapter.coverage(0) } else { PAGE_SIZE_64K }
}

/// Bytes of address space whose leaf tables can be pinned, on each side of a transfer.
fn pinnable(adapter: &Adapter, leaf_table_bytes_max: u64) -> u64 {
    if !adapter.has_page_tables() {
        return u64::MAX;
    }
    let of_memory = if adapter.paging_tables_in == Account::SYSTEM { u64::MAX } else { leaf_table_bytes_max };
    let tables = of_memory.min(PINNED_LEAF_TABLES_MAX) / (2 * leaf_table(adapter));
    tables.max(1).saturating_mul(adapter.coverage(0))
}

/// Bytes that a leaf table of the paging process takes.
fn leaf_table(adapter: &Adapter) -> u64 {
    adapter.table_bytes_in(adapter.paging_tables_in)
}

/// Bytes of leaf tables that both windows of `size` bytes take.
fn leaf_tables(adapter: &Adapter, size: u64) -> u64 {
    2 * size / adapter.coverage(0) * leaf_table(adapter)
}
