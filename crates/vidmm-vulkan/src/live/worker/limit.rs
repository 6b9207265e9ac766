//! How much local memory the manager may use: what the application says, and what others leave on the device.

use std::time::{Duration, Instant};

use vidmm::{MemorySegmentGroup, PAGE_SIZE_64K, SegmentId};

use super::super::command::LocalMemory;
use super::super::driver::LOCAL_SEGMENT;
use super::super::error::Error;
use super::vacating::Vacating;
use super::{Retired, Worker};

/// The time between two looks at what others leave.
pub(super) const GLANCE: Duration = Duration::from_secs(1);

/// The memory that others leave counts anew when it has moved by this part of local memory.
const HYSTERESIS: u64 = 32;

/// The bounds on the use of local memory.
pub(super) struct LocalLimit {
    /// All that there is of it.
    bytes: u64,
    /// The bytes that the application has for itself.
    pinned: u64,
    by_application: Option<u64>,
    by_others: Option<u64>,
    /// The limit that the manager was told last.
    told: Option<u64>,
    /// The last fence of the paging engine when memory that holds nothing was last searched for.
    searched_at: Option<u64>,
    looked: Instant,
}

impl LocalLimit {
    pub fn new(bytes: u64, now: Instant) -> Self {
        Self { bytes, pinned: 0, by_application: None, by_others: None, told: None, searched_at: None, looked: now }
    }

    /// The limit that the manager keeps.
    pub fn told(&self) -> Option<u64> {
        self.told
    }

    /// The least of the bounds, if that is less than there is.
    fn limit(&self) -> Option<u64> {
        let least = self.by_application.into_iter().chain(self.by_others).fold(self.bytes - self.pinned, u64::min);
        Some(least).filter(|&least| least < self.bytes)
    }
}

impl Worker {
    /// The local memory that there is, its limit, and what is taken from the device.
    pub(super) fn local_memory(&self) -> LocalMemory {
        let LocalLimit { bytes, told: limit, pinned, .. } = self.limit;
        LocalMemory { bytes, limit, pinned, allocated: self.paging.memory().borrow().allocated_bytes(LOCAL_SEGMENT) }
    }

    /// The application wants the manager to use no more than so much local memory.
    pub(super) fn restrict_local_memory(&mut self, bytes: Option<u64>) {
        self.limit.by_application = bytes;
        self.tell_limit();
    }

    /// The application wants so much local memory for itself.
    pub(super) fn pin_local_memory(&mut self, bytes: u64) -> Result<(), Error> {
        let left = self.limit.bytes - self.limit.pinned;
        if bytes > left {
            return Err(Error::Pinned { bytes, left });
        }
        self.limit.pinned += bytes;
        self.tell_limit();
        Ok(())
    }

    /// The application gives so much back of what it has pinned.
    pub(super) fn unpin_local_memory(&mut self, bytes: u64) {
        self.limit.pinned -= bytes;
        self.tell_limit();
    }

    /// Looks at what others leave of local memory, once in a while.
    pub(super) fn glance_at_others(&mut self) {
        if self.limit.looked.elapsed() < GLANCE {
            return;
        }
        self.limit.looked = Instant::now();
        let Some((budget, usage)) = self.device.local_budget() else { return };
        let memory = self.paging.memory().borrow();
        let [local, system] = [LOCAL_SEGMENT, SegmentId::SYSTEM].map(|segment| memory.allocated_bytes(segment));
        drop(memory);
        let beside = if self.device.report().has_one_heap() { system } else { 0 };
        let by_others = usage.saturating_sub(local + beside);
        let left = budget.saturating_sub(by_others + beside) / PAGE_SIZE_64K * PAGE_SIZE_64K;
        let is_near = |before: u64| left.abs_diff(before) < self.limit.bytes / HYSTERESIS;
        if !self.limit.by_others.is_some_and(is_near) {
            self.limit.by_others = Some(left);
            self.tell_limit();
        }
    }

    fn tell_limit(&mut self) {
        let limit = self.limit.limit();
        if limit != self.limit.told {
            (self.limit.told, self.limit.searched_at) = (limit, None);
            self.vacating = Vacating::default();
            self.vidmm.restrict_budget(MemorySegmentGroup::Local, limit);
        }
    }

    /// Gives the device back what is taken above the limit and holds nothing.
    pub(super) fn give_memory_back(&mut self) -> Result<(), Error> {
        let is_above = self.limit.told.is_some_and(|limit| self.local_memory().allocated > limit);
        // Paging alone empties memory: until more of it has ended, there is nothing that was not looked at.
        let has_news = self.limit.searched_at != Some(self.completed);
        if !is_above || !has_news || !self.paging.is_idle() || !self.paging_queue.is_empty() {
            return Ok(());
        }
        self.limit.searched_at = Some(self.completed);
        let blocks = self.paging.memory().borrow_mut().take_unused(LOCAL_SEGMENT)?;
        let submitted = self.device.submitted();
        self.graveyard.extend(blocks.into_iter().map(|block| (submitted, Retired::Block(block))));
        Ok(())
    }
}
