//! The entries that a TLB may still remember although they that were written since (I05).

use vidmm::contract::{FlushTlb, KmdAllocationHandle, KmdProcessHandle};

use super::intervals::Intervals;

/// The entries that are not flushed yet.
#[derive(Debug, Default)]
pub(super) struct Tlb {
    /// It may remember that an entry was invalid.
    pub remembers_invalid: bool,
    /// Whose addresses the windows are.
    pub paging_process: Option<KmdProcessHandle>,
    /// Of users: what a plan leaves it must flush, so there are few.
    stale: Vec<Stale>,
    /// Of the paging process: flushed when addresses are used again.
    windows: Intervals<()>,
}

/// Addresses that a TLB may still know by entries that are gone.
#[derive(Clone, Copy, Debug)]
pub(super) struct Stale {
    pub process: KmdProcessHandle,
    pub start: u64,
    pub end: u64,
    /// The memory that the entries showed; none if they were invalid.
    pub allocation: Option<KmdAllocationHandle>,
}

impl Tlb {
    /// Entries were written that say something else than before.
    pub fn written(&mut self, stale: Stale) {
        if self.paging_process == Some(stale.process) {
            self.windows.insert(stale.start, stale.end, ());
        } else {
            self.stale.push(stale);
        }
    }

    /// Addresses are flushed; both 0 are the whole space.
    pub fn flush(&mut self, op: &FlushTlb) {
        let (start, end) = match (op.start_virtual_address.0, op.end_virtual_address.0) {
            (0, 0) => (0, u64::MAX),
            range => range,
        };
        if self.paging_process == Some(op.process) {
            self.windows.remove(start, end);
            return;
        }
        let mut rest = Vec::new();
        self.stale.retain(|stale| {
            let touched = stale.process == op.process && stale.start < end && start < stale.end;
            if touched {
                let parts = [(stale.start, start.min(stale.end)), (end.max(stale.start), stale.end)];
                let parts = parts.into_iter().filter(|(start, end)| start < end);
                rest.extend(parts.map(|(start, end)| Stale { start, end, ..*stale }));
            }
            !touched
        });
        self.stale.append(&mut rest);
    }

    /// It knows nothing.
    pub fn clear(&mut self) {
        self.stale.clear();
        self.windows = Intervals::default();
    }

    /// Where a TLB may still know an allocation.
    pub fn stale_of(&self, allocation: KmdAllocationHandle) -> Option<Stale> {
        self.stale.iter().find(|stale| stale.allocation == Some(allocation)).copied()
    }

    /// The first part of a window that a TLB may know as it was before.
    pub fn stale_window(&self, start: u64, end: u64) -> Option<u64> {
        self.windows.within(start, end).next().map(|(start, ..)| start)
    }

    /// Forgets what is stale of users, and returns the first of it.
    pub fn take_stale(&mut self) -> Option<Stale> {
        let first = self.stale.first().copied();
        self.stale.clear();
        first
    }
}
