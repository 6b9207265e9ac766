//! Nothing stays that is to go: what was destroyed, freed, taken off its list for good or offered to be discarded at once
//! (RES-21, RES-61, RES-91, GVA-53).

use std::collections::{BTreeMap, BTreeSet};

use vidmm::{AllocationId, DeviceId, EvictFlags, ProcessId};

use super::Audit;
use super::device::Device;
use super::finding::Invariant;

/// The first address of a mapping of a process.
type At = (ProcessId, u64);

/// Things that nothing keeps from what is to happen to them at once, and how often in a row time has passed since.
type Due<T> = BTreeMap<T, u32>;

/// Time passes while nothing keeps these things. Returns one that nothing has kept for the second time: what is decided
/// at once has happened by then. Each is told once.
pub(super) fn late<T: Ord + Copy>(due: &mut Due<T>, free: impl Iterator<Item = T>) -> Option<T> {
    let before = std::mem::take(due);
    due.extend(free.map(|thing| (thing, before.get(&thing).map_or(1, |times| times.saturating_add(1)))));
    let (&thing, times) = due.iter_mut().find(|(_, times)| (2..u32::MAX).contains(*times))?;
    *times = u32::MAX;
    Some(thing)
}

/// Things that are to go, and those of them that are due.
#[derive(Debug, Default)]
pub(super) struct Liveness {
    pub destroyed: BTreeSet<AllocationId>,
    freed: BTreeSet<At>,
    pub evicted: BTreeSet<AllocationId>,
    due_destroyed: Due<AllocationId>,
    due_freed: Due<At>,
    due_evicted: Due<AllocationId>,
    due_offered: Due<AllocationId>,
    pub due_suspended: Due<ProcessId>,
}

impl Liveness {
    /// A mapping was freed, or is no freed one any more.
    pub fn note_freed(&mut self, at: At, is_freed: bool) {
        if is_freed {
            self.freed.insert(at)
        } else {
            self.freed.remove(&at)
        };
    }

    /// An allocation is gone, or another's.
    pub fn forget(&mut self, id: AllocationId) {
        self.destroyed.remove(&id);
        self.evicted.remove(&id);
    }

    pub fn forget_evicted(&mut self, ids: &[AllocationId]) {
        self.evicted.retain(|id| !ids.contains(id));
    }
}

impl Audit {
    /// Evicted allocations that nothing keeps on a list go at once, if that is asked for.
    pub(super) fn note_evicted(&mut self, allocations: &[AllocationId], flags: EvictFlags) {
        self.liveness.forget_evicted(allocations);
        let is_asked = !flags.contains(EvictFlags::EVICT_ONLY_IF_NECESSARY);
        let is_off = |id: &&AllocationId| {
            self.allocations.get(*id).is_some_and(|of| {
                let is_own = of.lists.len() == 1 && !of.shared && !of.accessed_physically;
                is_own && of.offer.is_none() && of.lists.values().all(|entry| entry.count == 0)
            })
        };
        self.liveness.evicted.extend(allocations.iter().filter(is_off).filter(|_| is_asked));
    }

    /// Time passes, and all that was decided is carried out: nothing is left that could have gone when time last passed.
    pub(super) fn check_has_gone(&mut self) {
        let is_settled = self.is_up() && self.plans.are_over();
        let is_free = is_settled && self.rests.is_empty();
        let mut live = std::mem::take(&mut self.liveness);
        let destroyed = live.destroyed.iter().copied().filter(|&id| is_free && self.is_used_by_nobody(id));
        let freed = live.freed.iter().copied().filter(|at| is_free && self.is_left_by_all(at));
        let evicted = live.evicted.iter().copied().filter(|&id| is_free && self.is_to_leave(id));
        let offered = self.offered.iter().copied().filter(|&id| self.is_to_be_discarded(id));
        let left = late(&mut live.due_destroyed, destroyed);
        let kept = late(&mut live.due_freed, freed);
        let there = late(&mut live.due_evicted, evicted);
        if let Some(id) = is_settled.then(|| late(&mut live.due_offered, offered)).flatten() {
            let message =
                format!("{id} was offered to be discarded at once, and nothing uses it, but it keeps its content");
            self.findings.report(Invariant::I25, message);
        }
        self.liveness = live;
        self.findings.check(left.is_none(), Invariant::Res91, || {
            format!("{left:?} was destroyed, and nothing uses it, but it is not gone")
        });
        self.findings.check(kept.is_none(), Invariant::Res91, || {
            format!("{kept:?} was freed, and nothing uses it, but its addresses are not free")
        });
        self.findings.check(there.is_none(), Invariant::Res21, || {
            format!("{there:?} was evicted to go at once, and nothing uses it, but it keeps its place")
        });
    }

    /// Whether no device that has had an allocation has work or asks for anything. The log does not say how long a resource table or a DMA
    /// buffer that is not handed out names it.
    fn is_used_by_nobody(&self, id: AllocationId) -> bool {
        let Some(allocation) = self.allocations.get(&id).filter(|_| !self.adapter.is_physical()) else { return false };
        let of_it = allocation
            .lists
            .keys()
            .chain([&allocation.owner])
            .chain(&allocation.open)
            .chain(allocation.closed_by.iter().map(|(device, _)| device));
        let mapped = allocation.mappings.iter().filter_map(|at| self.mappings.get(at)).map(|mapping| &mapping.device);
        of_it.chain(mapped).filter_map(|id| self.devices.get(id)).all(is_idle)
    }

    /// Whether the device that freed a mapping has no work and asks for nothing.
    fn is_left_by_all(&self, at: &At) -> bool {
        self.mappings.get(at).and_then(|mapping| self.devices.get(&mapping.device)).is_some_and(is_idle)
    }

    /// Whether an allocation has a place, and its device runs, but has no work and asks for nothing.
    fn is_to_leave(&self, id: AllocationId) -> bool {
        let Some(allocation) = self.allocations.get(&id) else { return false };
        let is_free = |device: &Device| is_idle(device) && device.is_active() && !device.is_over();
        let owner: Option<&DeviceId> = allocation.lists.keys().next();
        allocation.decided.is_some()
            && allocation.cpu_view.is_none()
            && owner.and_then(|id| self.devices.get(id)).is_some_and(is_free)
    }
}

/// Whether a device has no work, and asks for nothing.
fn is_idle(device: &Device) -> bool {
    device.unretired.is_empty() && device.requests.is_empty()
}
