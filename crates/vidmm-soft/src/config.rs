//! What the adapter of the reference driver looks like.

use vidmm::{PAGE_SIZE, PageSize};

use crate::layout::PageTableLayout;

/// Everything about the adapter that a user of the reference driver may choose.
///
/// The driver reports it, and the model GPU is built to it: both must be made from the same value.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SoftAdapterConfig {
    /// Bytes of local memory, which is segment 1; a multiple of `page_size`.
    pub local_memory_bytes: u64,
    /// The pages that local memory is managed in (GVA-40).
    pub page_size: PageSize,
    /// Bytes of the aperture segment, segment 2, which exists because one must (SEG-10); a multiple of 4 KiB.
    pub aperture_bytes: u64,
    /// Bits in a GPU virtual address.
    pub virtual_address_bit_count: u32,
    /// Index bits of the page-table levels below the root, leaf first. The root takes the bits that remain (GVA-12).
    pub page_table_index_bits: Vec<u32>,
    /// Whether a level-1 entry points to a 4 KiB and to a 64 KiB leaf table (GVA-43).
    pub dual_pte: bool,
    /// Whether the page tables live in system memory, where none may be larger than 4 KiB (GVA-15), or in segment 1.
    pub page_tables_in_system_memory: bool,
    /// Whether the TLB caches valid entries only. If not, an entry that becomes valid must be flushed too.
    pub invalid_tlb_entries_not_cached: bool,
    /// Bytes in a paging buffer (SEG-35).
    pub paging_buffer_bytes: u32,
    /// Bytes of private data beside each paging buffer. If there are any, each build that encodes commands takes 8.
    pub paging_buffer_private_data_bytes: u32,
    /// The size of the paging process's address space in MiB; `None` leaves it to the core (PGV-02).
    pub paging_va_mib: Option<u32>,
    /// The most bytes that one transfer or fill command covers; a multiple of 4 KiB.
    pub max_command_bytes: u64,
    /// The most entries that one command writes into a page table.
    pub max_entries_per_command: u32,
    /// Answer "allocation busy" to every n-th transfer that does not promise an idle allocation (BPB-06).
    pub busy_every: Option<u32>,
}

impl Default for SoftAdapterConfig {
    fn default() -> Self {
        Self {
            local_memory_bytes: 8 << 30,
            page_size: PageSize::Kib64,
            aperture_bytes: 256 << 20,
            virtual_address_bit_count: 47,
            page_table_index_bits: vec![13, 10],
            dual_pte: true,
            page_tables_in_system_memory: false,
            invalid_tlb_entries_not_cached: true,
            paging_buffer_bytes: 64 << 10,
            paging_buffer_private_data_bytes: 0,
            paging_va_mib: None,
            max_command_bytes: 64 << 20,
            max_entries_per_command: 1 << 20,
            busy_every: None,
        }
    }
}

impl SoftAdapterConfig {
    /// The default adapter with a 4 KiB pool: four levels of 9 bits in a 48-bit space, and one kind of leaf table.
    pub fn with_4kib_pages() -> Self {
        Self {
            page_size: PageSize::Kib4,
            virtual_address_bit_count: 48,
            page_table_index_bits: vec![9, 9, 9],
            dual_pte: false,
            ..Self::default()
        }
    }

    /// The shape of the page tables.
    ///
    /// # Panics
    ///
    /// If the levels break a rule of [`check`](Self::check).
    pub fn layout(&self) -> PageTableLayout {
        PageTableLayout::new(&self.page_table_index_bits, self.virtual_address_bit_count, self.dual_pte)
    }

    /// Looks for a contradiction.
    ///
    /// # Errors
    ///
    /// The first rule that is broken.
    pub fn check(&self) -> Result<(), ConfigError> {
        check_multiple("local_memory_bytes", self.local_memory_bytes, self.page_size.bytes())?;
        check_multiple("aperture_bytes", self.aperture_bytes, PAGE_SIZE)?;
        check_multiple("max_command_bytes", self.max_command_bytes, PAGE_SIZE)?;
        if self.max_entries_per_command == 0 {
            return Err(ConfigError::NoEntriesPerCommand);
        }
        self.check_levels()
    }

    fn check_levels(&self) -> Result<(), ConfigError> {
        let levels = self.page_table_index_bits.len() as u32 + 1;
        if !(2..=6).contains(&levels) {
            return Err(ConfigError::LevelCount { levels });
        }
        // A 64 KiB leaf table has a sixteenth of the entries of a 4 KiB one (GVA-44).
        let fewest = if self.dual_pte { 4 } else { 1 };
        if self.page_table_index_bits[0] < fewest || self.page_table_index_bits.contains(&0) {
            return Err(ConfigError::IndexBits);
        }
        let below_root: u64 = 12 + self.page_table_index_bits.iter().map(|&bits| u64::from(bits)).sum::<u64>();
        let address_bits = u64::from(self.virtual_address_bit_count);
        if address_bits > 63 || below_root >= address_bits || address_bits - below_root > MAX_INDEX_BITS {
            return Err(ConfigError::IndexBits);
        }
        if self.page_table_index_bits.iter().any(|&bits| u64::from(bits) > MAX_INDEX_BITS) {
            return Err(ConfigError::IndexBits);
        }
        let layout = self.layout();
        if self.page_tables_in_system_memory
            && (0..levels).any(|level| u64::from(layout.table_bytes(level)) > PAGE_SIZE)
        {
            return Err(ConfigError::TableTooLargeForSystemMemory);
        }
        Ok(())
    }
}

/// Index bits beyond which a table no longer has a size that fits the contract's 32 bits.
const MAX_INDEX_BITS: u64 = 27;

fn check_multiple(field: &'static str, value: u64, unit: u64) -> Result<(), ConfigError> {
    if value == 0 || !value.is_multiple_of(unit) {
        return Err(ConfigError::NotAMultiple { field, value, unit });
    }
    Ok(())
}

/// Why a [`SoftAdapterConfig`] describes no adapter.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum ConfigError {
    /// A size is 0 or no multiple of its unit.
    #[error("{field} is {value}: it must be a multiple of {unit}, and not 0")]
    NotAMultiple {
        /// The field.
        field: &'static str,
        /// Its value, in bytes.
        value: u64,
        /// The unit, in bytes.
        unit: u64,
    },
    /// A command could write no entry.
    #[error("max_entries_per_command is 0")]
    NoEntriesPerCommand,
    /// There are 2 to 6 levels of page tables, the root included (GVA-11).
    #[error("{levels} levels of page tables: there are 2 to 6, the root included")]
    LevelCount {
        /// How many were asked for, the root included.
        levels: u32,
    },
    /// The index bits of the levels do not add up to a virtual address.
    #[error(
        "page_table_index_bits must be at least 1 a level (4 for the leaf with dual entries), at most 27, and leave the root 1 \
         to 27 bits of an address of at most 63"
    )]
    IndexBits,
    /// A table in system memory is larger than 4 KiB (GVA-15).
    #[error("a page table in system memory cannot be larger than 4 KiB")]
    TableTooLargeForSystemMemory,
}
