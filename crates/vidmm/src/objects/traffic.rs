//! The bytes that have gone through a memory.

use core::ops::AddAssign;

use crate::event::EvictReason;

/// The bytes that have gone through a memory so far, for one process or for all.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Traffic {
    /// Bytes copied in from backing stores.
    pub bytes_paged_in: u64,
    /// Bytes copied out to backing stores.
    pub bytes_paged_out: u64,
    /// Bytes filled because they had no content yet.
    pub bytes_filled: u64,
    /// Bytes that left a memory segment and stayed resident in system memory.
    pub bytes_demoted: u64,
    evicted: [u64; EvictReason::ALL.len()],
}

impl Traffic {
    /// Bytes that have left the memory for a reason; demoted bytes among them.
    pub fn bytes_evicted(&self, reason: EvictReason) -> u64 {
        self.evicted[reason as usize]
    }

    pub(crate) fn demote(&mut self, bytes: u64) {
        self.bytes_demoted += bytes;
    }

    pub(crate) fn evict(&mut self, reason: EvictReason, bytes: u64) {
        self.evicted[reason as usize] += bytes;
    }
}

impl AddAssign for Traffic {
    fn add_assign(&mut self, other: Self) {
        self.bytes_paged_in += other.bytes_paged_in;
        self.bytes_paged_out += other.bytes_paged_out;
        self.bytes_filled += other.bytes_filled;
        self.bytes_demoted += other.bytes_demoted;
        self.evicted.iter_mut().zip(other.evicted).for_each(|(sum, bytes)| *sum += bytes);
    }
}
