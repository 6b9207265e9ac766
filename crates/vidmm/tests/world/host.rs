//! The operating system of the test world: a ledger of what it promised.

use std::collections::BTreeMap;

use vidmm::contract::{BackingStoreError, Host};
use vidmm::{PAGE_SIZE, PAGE_SIZE_64K, PhysicalAddress, SegmentId};

/// Addresses are never handed out twice, so use after return is seen.
#[derive(Debug, Default)]
pub struct Ledger {
    /// Address and size of what is committed.
    pub live: BTreeMap<u64, u64>,
    /// The most bytes that may be committed, if there is a limit.
    pub limit: Option<u64>,
    /// How many commits still succeed before one fails.
    pub fails_after: Option<u64>,
    pub next: u64,
    /// The sum of the sizes, kept so that a commit need not add them up.
    pub committed: u64,
}

impl Ledger {
    pub fn bytes(&self) -> u64 {
        self.committed
    }

    /// Whether `address` is committed.
    pub fn holds(&self, address: u64) -> bool {
        self.live.range(..=address).next_back().is_some_and(|(start, size)| address < start + size)
    }
}

impl Host for Ledger {
    fn commit_backing_store(&mut self, size: u64) -> Result<PhysicalAddress, BackingStoreError> {
        assert!(size > 0 && size.is_multiple_of(PAGE_SIZE), "commits are whole pages, not {size} bytes");
        let left = self.fails_after.unwrap_or(u64::MAX);
        if left == 0 || self.limit.is_some_and(|limit| self.bytes() + size > limit) {
            self.fails_after = None;
            return Err(BackingStoreError { size });
        }
        self.fails_after = self.fails_after.map(|left| left - 1);
        self.next += PAGE_SIZE_64K;
        let offset = self.next;
        self.next = (offset + size).next_multiple_of(PAGE_SIZE_64K);
        self.live.insert(offset, size);
        self.committed += size;
        Ok(PhysicalAddress { segment: SegmentId::SYSTEM, offset })
    }

    fn decommit_backing_store(&mut self, address: PhysicalAddress, size: u64) {
        assert!(address.segment.is_system());
        assert_eq!(
            self.live.remove(&address.offset),
            Some(size),
            "only what was committed is returned, once and whole"
        );
        self.committed -= size;
    }
}
