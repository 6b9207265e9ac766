//! GPU virtual address spaces: who uses which addresses, and the page tables that follow from it (D9).

pub use space::VaRangeError;
pub(crate) use space::{Mapping, VaSpace};
pub(crate) use tables::{PageTables, Table, TableKey, leaf_runs};

mod address_map;
mod space;
mod tables;
