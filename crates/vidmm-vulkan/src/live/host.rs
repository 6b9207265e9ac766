//! The host: it hands out backing store in the device's system memory.

use std::cell::RefCell;
use std::rc::Rc;

use vidmm::contract::{BackingStoreError, Host};
use vidmm::{PAGE_SIZE_64K, PhysicalAddress, SegmentId};
use vidmm_runtime::FreeRanges;

use crate::error::sure;
use crate::memory::VulkanMemory;

/// Bytes in the address space of system memory.
const ADDRESS_SPACE: u64 = 1 << 44;

/// Backing store in whole units of 64 KiB; address 0 is never handed out.
pub(super) struct BackingStore {
    memory: Rc<RefCell<VulkanMemory>>,
    free: FreeRanges,
    /// The bytes that may still be committed.
    left: u64,
}

impl BackingStore {
    /// Backing store of at most `bytes` bytes in `memory`.
    pub fn new(memory: Rc<RefCell<VulkanMemory>>, bytes: u64) -> Self {
        Self { memory, free: FreeRanges::new(PAGE_SIZE_64K, ADDRESS_SPACE), left: bytes }
    }

    /// Refuses what could not be committed now.
    pub fn check(&self, size: u64) -> Result<(), BackingStoreError> {
        if size == 0 || size > self.left { Err(BackingStoreError { size }) } else { Ok(()) }
    }
}

impl Host for BackingStore {
    fn commit_backing_store(&mut self, size: u64) -> Result<PhysicalAddress, BackingStoreError> {
        self.check(size)?;
        let offset = self.free.take(size.next_multiple_of(PAGE_SIZE_64K)).ok_or(BackingStoreError { size })?;
        self.left -= size;
        let address = PhysicalAddress { segment: SegmentId::SYSTEM, offset };
        // A page table is smaller, and has no content here.
        if size >= PAGE_SIZE_64K {
            self.reset_backing_store(address, size);
        }
        Ok(address)
    }

    fn decommit_backing_store(&mut self, address: PhysicalAddress, size: u64) {
        self.free.give(address.offset, size.next_multiple_of(PAGE_SIZE_64K));
        self.left += size;
    }

    /// The device recycles memory with the content of its last owner.
    fn reset_backing_store(&mut self, address: PhysicalAddress, size: u64) {
        sure(self.memory.borrow_mut().clear_system(address.offset, size));
    }
}
