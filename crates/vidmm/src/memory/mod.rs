//! Memory: which ranges of segments are free, taken and promised, and how much system memory may be resident.

pub(crate) mod aperture;
pub(crate) mod commit;
pub(crate) mod linear_placer;
pub(crate) mod placer;

use crate::{
    budget::account::Account,
    memory::{aperture::ApertureRanges, commit::CommitLimit, placer::Placer},
    units::PhysicalAddress,
};
/// The places that allocations can be in.
pub(crate) struct Memory {
    pub placer: Placer,
    pub commit: CommitLimit,
    pub aperture: ApertureRanges,
    /// Bytes of page tables that live in the segment, placed or promised to a mapping that was admitted (D9).
    pinned_bytes: u64,
    /// The page of system memory that unmapped pages of the aperture show (BPB-33).
    dummy_page: PhysicalAddress,
}

impl Memory {
    /// The memory of an adapter whose paging process has `pinned_bytes` of tables in the segment.
    pub(crate) fn new(
        placer: Placer,
        commit: CommitLimit,
        aperture: ApertureRanges,
        pinned_bytes: u64,
        dummy_page: PhysicalAddress,
    ) -> Self {
        Self { placer, commit, aperture, pinned_bytes, dummy_page }
    }

    /// Bytes of page tables that live in the segment, placed or promised to a mapping that was admitted (D9).
    pub(crate) fn pinned_bytes(&self) -> u64 {
        self.pinned_bytes
    }

    /// Page tables take `bytes` more of the segment.
    pub(crate) fn pin(&mut self, bytes: u64) {
        self.pinned_bytes += bytes;
    }

    /// Page tables take `bytes` less of the segment.
    pub(crate) fn unpin(&mut self, bytes: u64) {
        self.pinned_bytes -= bytes;
    }

    /// The page of system memory that unmapped pages of the aperture show (BPB-33).
    pub(crate) fn dummy_page(&self) -> PhysicalAddress {
        self.dummy_page
    }

    /// Whether ranges are assigned with each grant, and not when allocations join a list: where each allocation is one range.
    pub(crate) fn assigns_with_grant(&self) -> bool {
        matches!(self.placer, Placer::Linear(_))
    }

    /// Bytes of an account that lists may use: of the memory segment all but page tables.
    pub(crate) fn list_capacity(&self, account: Account) -> u64 {
        match account {
            Account::Memory => self.placer.size() - self.pinned_bytes,
            Account::System => self.commit.limit(),
        }
    }

    /// Bytes that can be taken in an account without a victim.
    pub(crate) fn available(&self, account: Account) -> u64 {
        match account {
            Account::Memory => self.placer.available(),
            Account::System => self.commit.available(),
        }
    }
}
