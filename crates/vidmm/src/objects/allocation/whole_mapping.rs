//! The common mapping, in one word.

use core::num::NonZeroU64;

use super::cold::Owner;
use crate::{
    gpu_va::Mapping,
    units::{PAGE_SIZE, PageSize},
};

/// A mapping of a whole allocation without driver protection, the common case: the address, with flags in the low bits of
/// the
/// page address.
#[derive(Clone, Copy, Debug)]
pub(super) struct WholeMapping(NonZeroU64);

impl WholeMapping {
    const KIB64: u64 = 1 << 0;
    const READ_ONLY: u64 = 1 << 1;
    const NO_EXECUTE: u64 = 1 << 2;

    pub fn pack(mapping: &Mapping) -> Self {
        let bit = |is_set, bit| if is_set { bit } else { 0 };
        let flags = bit(mapping.pte_page_size == PageSize::Kib64, Self::KIB64)
            | bit(mapping.read_only, Self::READ_ONLY)
            | bit(mapping.no_execute, Self::NO_EXECUTE);
        Self(NonZeroU64::new(mapping.virtual_address | flags).expect("address 0 is never mapped"))
    }

    pub fn unpack(self, owner: Owner, size: u64) -> Mapping {
        Mapping {
            process: owner.process,
            device: owner.device,
            pte_page_size: if self.0.get() & Self::KIB64 != 0 { PageSize::Kib64 } else { PageSize::Kib4 },
            read_only: self.0.get() & Self::READ_ONLY != 0,
            no_execute: self.0.get() & Self::NO_EXECUTE != 0,
            virtual_address: self.0.get() & !(PAGE_SIZE - 1),
            size,
            allocation_offset: 0,
            driver_protection: 0,
        }
    }
}
