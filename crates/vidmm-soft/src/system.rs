//! System memory, and the host that hands it out.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use vidmm::contract::{BackingStoreError, Host};
use vidmm::{PAGE_SIZE, PAGE_SIZE_64K, PhysicalAddress, SegmentId};

use crate::memory::SparseMemory;

/// Bytes in the address space of system memory.
pub const SYSTEM_MEMORY_BYTES: u64 = 1 << 44;

/// System memory as the GPU addresses it: a handle that the GPU and the host share.
#[derive(Clone, Debug)]
pub struct SystemMemory(Arc<Mutex<SparseMemory>>);

impl SystemMemory {
    /// System memory without content.
    pub fn new() -> Self {
        Self(Arc::new(Mutex::new(SparseMemory::new(SYSTEM_MEMORY_BYTES))))
    }

    /// The content, for as long as the guard lives.
    pub fn lock(&self) -> MutexGuard<'_, SparseMemory> {
        // Every write leaves the memory whole, so a panic elsewhere does not spoil it.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Default for SystemMemory {
    fn default() -> Self {
        Self::new()
    }
}

/// A host that keeps backing store in [`SystemMemory`].
///
/// It takes the smallest free range that is large enough, the lowest of several; ranges are whole units of 64 KiB, and
/// address 0 is never handed out. All calls take logarithmic time, apart from the content that is given back.
#[derive(Debug)]
pub struct SoftHost {
    memory: SystemMemory,
    free: FreeRanges,
    committed: BTreeMap<u64, u64>,
    committed_bytes: u64,
    commit_limit: Option<u64>,
}

impl SoftHost {
    /// A host over `memory` that commits at most `commit_limit` bytes.
    pub fn new(memory: SystemMemory, commit_limit: Option<u64>) -> Self {
        let free = FreeRanges::new(PAGE_SIZE_64K, SYSTEM_MEMORY_BYTES);
        Self { memory, free, committed: BTreeMap::new(), committed_bytes: 0, commit_limit }
    }

    /// Bytes that are committed now.
    pub fn committed_bytes(&self) -> u64 {
        self.committed_bytes
    }
}

impl Host for SoftHost {
    fn commit_backing_store(&mut self, size: u64) -> Result<PhysicalAddress, BackingStoreError> {
        let error = BackingStoreError { size };
        let committed = self.committed_bytes.checked_add(size).ok_or(error)?;
        if size == 0 || self.commit_limit.is_some_and(|limit| committed > limit) {
            return Err(error);
        }
        let units = size.checked_next_multiple_of(PAGE_SIZE_64K).ok_or(error)?;
        let offset = self.free.take(units).ok_or(error)?;
        self.committed.insert(offset, size);
        self.committed_bytes = committed;
        Ok(PhysicalAddress { segment: SegmentId::SYSTEM, offset })
    }

    /// # Panics
    ///
    /// If `address` and `size` are not those of one commit: the core has lost track.
    fn decommit_backing_store(&mut self, address: PhysicalAddress, size: u64) {
        assert_eq!(
            self.committed.remove(&address.offset),
            Some(size),
            "decommit of what was not committed: {address:?}"
        );
        self.committed_bytes -= size;
        self.memory.lock().release(address.offset / PAGE_SIZE, size.div_ceil(PAGE_SIZE));
        self.free.give(address.offset, size.next_multiple_of(PAGE_SIZE_64K));
    }
}

/// Free ranges, by address to join neighbours and by size to find a fit.
#[derive(Debug)]
struct FreeRanges {
    by_start: BTreeMap<u64, u64>,
    by_size: BTreeSet<(u64, u64)>,
}

impl FreeRanges {
    fn new(start: u64, end: u64) -> Self {
        let mut ranges = Self { by_start: BTreeMap::new(), by_size: BTreeSet::new() };
        ranges.insert(start, end - start);
        ranges
    }

    fn insert(&mut self, start: u64, size: u64) {
        self.by_start.insert(start, size);
        self.by_size.insert((size, start));
    }

    fn remove(&mut self, start: u64, size: u64) {
        self.by_start.remove(&start);
        self.by_size.remove(&(size, start));
    }

    fn take(&mut self, size: u64) -> Option<u64> {
        let &(found, start) = self.by_size.range((size, 0)..).next()?;
        self.remove(start, found);
        if found > size {
            self.insert(start + size, found - size);
        }
        Some(start)
    }

    fn give(&mut self, mut start: u64, mut size: u64) {
        if let Some((&before, &bytes)) = self.by_start.range(..start).next_back()
            && before + bytes == start
        {
            self.remove(before, bytes);
            (start, size) = (before, size + bytes);
        }
        if let Some(&bytes) = self.by_start.get(&(start + size)) {
            self.remove(start + size, bytes);
            size += bytes;
        }
        self.insert(start, size);
    }
}
