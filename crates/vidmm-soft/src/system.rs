//! System memory.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

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
