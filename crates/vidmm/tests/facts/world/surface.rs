//! Surfaces of the test world: which pages of an allocation hold compressed tokens.

use std::collections::BTreeSet;

use vidmm::contract::KmdAllocationHandle;

#[derive(Debug, Default)]
pub struct Surfaces {
    compressed: BTreeSet<(KmdAllocationHandle, u64)>,
}

/// The mark that tells a compressed token from a plain one.
const COMPRESSED: u64 = 0xC0_4B_1D << 40;

impl Surfaces {
    pub fn is_compressed(&self, allocation: KmdAllocationHandle, page: u64) -> bool {
        self.compressed.contains(&(allocation, page))
    }

    pub fn set(&mut self, allocation: KmdAllocationHandle, page: u64, compressed: bool) {
        if compressed {
            self.compressed.insert((allocation, page));
        } else {
            self.compressed.remove(&(allocation, page));
        }
    }

    pub fn compress(token: u64) -> u64 {
        token ^ COMPRESSED
    }

    pub fn plain(stored: u64) -> u64 {
        stored ^ COMPRESSED
    }

    pub fn forget(&mut self, allocation: KmdAllocationHandle) {
        self.compressed.retain(|&(owner, _)| owner != allocation);
    }

    /// The compressed pages of an allocation.
    pub fn pages_of(&self, allocation: KmdAllocationHandle) -> impl Iterator<Item = u64> {
        let range = (allocation, 0)..=(allocation, u64::MAX);
        self.compressed.range(range).map(|&(_, page)| page)
    }
}
