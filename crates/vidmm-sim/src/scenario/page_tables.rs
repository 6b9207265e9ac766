//! Whether the page tables of a machine can be built.

use serde::Deserialize;
use serde::de::{Deserializer, Error as _};

use super::adapter::{AdapterSettings, PageTables};
use super::page_size::PageSize;

/// The address bits inside a small page.
const PAGE_BITS: u32 = 12;

/// The most index bits of a level of page tables: tables of 16 MiB.
const MAX_INDEX_BITS: u32 = 20;

/// Why levels of page tables are refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PageTableError {
    /// There are too few or too many levels.
    #[error("`page-table-bits` has {0} levels; give 1 to 5, from the leaf up and without the root")]
    Levels(usize),
    /// A level below the root has too few or too many index bits.
    #[error("`page-table-bits` gives level {level} {bits} bits; give each level {fewest} to 20")]
    Bits {
        /// The level; 0 is the leaf.
        level: usize,
        /// Its index bits.
        bits: u32,
        /// The fewest that it may have: 4 for a leaf with dual entries, whose 64 KiB table has a sixteenth of the
        /// entries.
        fewest: u32,
    },
    /// Too few or too many address bits are left for the root.
    #[error(
        "`page-table-bits` leaves the root {root} of the {address} bits of an address; the levels below it must \
         leave it 1 to 20"
    )]
    Root {
        /// The bits that are left.
        root: i64,
        /// The bits of a virtual address.
        address: u32,
    },
    /// A table is larger than a page of the memory that it lives in.
    #[error(
        "`page-table-bits` gives level {level} {bits} bits, the root last; a table is at most one page of where it lives, \
         which is {most} bits there: change `page-table-bits`, or leave it out"
    )]
    TooLarge {
        /// The level; 0 is the leaf, and the root comes last.
        level: usize,
        /// Its index bits.
        bits: u32,
        /// The most that it may have.
        most: u32,
    },
}

impl AdapterSettings {
    /// Checks that the page tables can be built: [`Scenario::parse`](super::Scenario::parse) has done so,
    /// but a caller may change the settings.
    ///
    /// # Errors
    ///
    /// Returns the first rule that is broken.
    pub fn check_page_tables(&self) -> Result<(), PageTableError> {
        if self.is_physical() {
            return Ok(());
        }
        let mut levels = self.page_table_bits();
        if !(1..=5).contains(&levels.len()) {
            return Err(PageTableError::Levels(levels.len()));
        }
        for (level, &bits) in levels.iter().enumerate() {
            let fewest = if level == 0 && self.dual_pte() { 4 } else { 1 };
            if !(fewest..=MAX_INDEX_BITS).contains(&bits) {
                return Err(PageTableError::Bits { level, bits, fewest });
            }
        }
        levels.push(self.root_bits(&levels)?);
        self.check_table_sizes(&levels)
    }

    /// The bits that levels leave for the root.
    fn root_bits(&self, below: &[u32]) -> Result<u32, PageTableError> {
        let address = self.virtual_address_bits();
        let root = i64::from(address) - i64::from(PAGE_BITS) - below.iter().copied().map(i64::from).sum::<i64>();
        let usable = u32::try_from(root).ok().filter(|root| (1..=MAX_INDEX_BITS).contains(root));
        usable.ok_or(PageTableError::Root { root, address })
    }

    /// Checks that every table, the root included, fits into one page of its memory, but where it lies in an area of tables: an
    /// entry takes 8 bytes, a dual one 16.
    fn check_table_sizes(&self, levels: &[u32]) -> Result<(), PageTableError> {
        let page_bits = match (self.page_tables(), self.page_size) {
            (PageTables::Local, _) if self.page_table_area.bytes() > 0 => return Ok(()),
            (PageTables::Local, PageSize::Kib64) => 16,
            _ => PAGE_BITS,
        };
        for (level, &bits) in levels.iter().enumerate() {
            let entry_bits = if level == 1 && self.dual_pte() { 4 } else { 3 };
            let most = page_bits - entry_bits;
            if bits > most {
                return Err(PageTableError::TooLarge { level, bits, most });
            }
        }
        Ok(())
    }
}

/// Reads the machine, and checks that its keys go together.
pub(super) fn adapter<'de, D: Deserializer<'de>>(deserializer: D) -> Result<AdapterSettings, D::Error> {
    let adapter = AdapterSettings::deserialize(deserializer)?;
    adapter.check_memory().map_err(D::Error::custom)?;
    adapter.check_page_tables().map_err(D::Error::custom)?;
    Ok(adapter)
}
