//! System memory.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use vidmm::PhysicalAddress;
use vidmm::contract::CpuVirtualAddress;

use crate::memory::SparseMemory;

/// Bytes in the address space of system memory.
pub const SYSTEM_MEMORY_BYTES: u64 = 1 << 44;

/// The kernel sees system memory from this address on. It is no address of system memory itself, so that the two are not
/// confused.
const KERNEL_ADDRESS: u64 = 0xFFFF_8000_0000_0000;

/// The address at which the kernel sees a place in system memory.
pub(crate) fn kernel_virtual_address(place: PhysicalAddress) -> CpuVirtualAddress {
    CpuVirtualAddress(KERNEL_ADDRESS + place.offset)
}

/// The place in system memory, in bytes from its start, that the kernel sees at an address; `None` if it sees none there.
pub(crate) fn seen_at(address: CpuVirtualAddress) -> Option<u64> {
    address.0.checked_sub(KERNEL_ADDRESS).filter(|&offset| offset < SYSTEM_MEMORY_BYTES)
}

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
