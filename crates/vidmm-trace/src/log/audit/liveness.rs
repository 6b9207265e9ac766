//! Nothing stays that is to go: what was destroyed, freed, taken off its list for good or offered to be discarded at once
//! (RES-21, RES-61, RES-91, GVA-53). And nothing waits while there is room (D30).

use std::collections::{BTreeMap, BTreeSet};

use vidmm::contract::SegmentSet;
use vidmm::{AllocationId, DeviceId, EvictFlags, ProcessId};

use super::Audit;
use super::allocation::Allocation;
use super::aspects::Pool;
use super::device::{Device, RequestKind};
use super::finding::Invariant;
use super::list_entry::ListEntry;

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

impl Audit {
    /// Nothing more follows by itself: nothing is under way, and the manager waits for no time. Finds devices with a request that is not
    /// granted, or with work that is not handed out, though all that lists name fits into memory together (D30).
    ///
    /// Ranges may fail to fit where their bytes do, and the log does not say how many page tables are to come: in these states nothing is
    /// found.
    pub fn at_rest(&mut self) {
        if !self.is_up() || self.adapter.is_physical() || !self.plans.are_over() || !self.all_lists_fit() {
            return;
        }
        let waiting = self.devices.iter().filter_map(|(&id, device)| Some((id, self.waits_in_vain(id, device)?)));
        for (id, what) in Vec::from_iter(waiting) {
            let message =
                format!("{what} of {id} waits for ever, though nothing is under way and all that lists name fits");
            self.findings.report(Invariant::D30, message);
        }
    }

    /// Whether all that lists name, now or for what is outstanding, fits together, each allocation in any memory where it may be.
    fn all_lists_fit(&self) -> bool {
        let is_named = |allocation: &&Allocation| {
            allocation.lists.iter().any(|(id, entry)| {
                let device = self.devices.get(id);
                let mut spans = entry.spans();
                entry.demands() || spans.any(|span| !span.granted || device.is_some_and(|of| of.still_holds(span)))
            })
        };
        let named = Vec::from_iter(self.allocations.values().filter(|of| of.committed).filter(is_named));
        let bytes_in = |pool: Pool| {
            let may_be_there =
                |of: &&&Allocation| self.places.pools_of(SegmentSet(of.supported_segment_set)).contains(&pool);
            named.iter().filter(may_be_there).fold(0, |sum: u64, of| sum.saturating_add(of.size))
        };
        self.tables_are_settled()
            && named.iter().all(|of| !of.accessed_physically)
            && self.places.pools().into_iter().all(|pool| bytes_in(pool) <= self.places.capacity(pool))
    }

    /// The request or the work of a device that waits for nothing that the log shows.
    fn waits_in_vain(&self, id: DeviceId, device: &Device) -> Option<String> {
        let process = self.processes.get(&device.process);
        let is_stopped = device.is_over() || process.is_none_or(|process| process.suspended.is_some());
        if is_stopped || !device.is_still() {
            return None;
        }
        if let Some(request) = device.next_request() {
            let RequestKind::MakeResident(spans) = &request.kind else { return None };
            let named = spans.iter().filter_map(|(id, _)| self.allocations.get(id));
            let mut of_device = self.allocations.values().filter_map(|of| of.lists.get(&id)).flat_map(ListEntry::spans);
            let has_left = of_device.any(|span| device.still_holds(span));
            // A locked allocation that may only be in hidden memory comes in after the unlock (U-40). The log does not say whether the CPU
            // sees the allocation in a memory segment. While outstanding work requires what has left the list, a new set of segments does
            // not help: the list does not say what must fit together then.
            let has_no_sight = |of: &Allocation| {
                let pools = self.places.pools_of(SegmentSet(of.supported_segment_set));
                let may_be_seen = pools.contains(&Pool::SYSTEM) && !has_left;
                of.cpu_view.is_some() && !of.seen_in_backing_store && !may_be_seen
            };
            let waits_for_unlock = named.into_iter().any(has_no_sight);
            return (!waits_for_unlock).then(|| format!("value {} of {}", request.fence_value, request.queue));
        }
        let mut seen = BTreeSet::new();
        let first = device.undispatched.iter().filter(|(_, work)| seen.insert(work.context));
        let mut ready = Vec::from_iter(first).into_iter().filter(|(_, work)| {
            let engine = self.contexts.get(&work.context).map(|context| context.engine);
            let is_free = |engine| self.fences.engine(engine).is_some_and(|books| books.in_flight.is_empty());
            engine.is_some_and(is_free) && work.waits.iter().all(|&wait| self.fences.monitored.has_reached(wait))
        });
        ready.next().map(|(submission, _)| format!("submission {submission}"))
    }
}

/// Whether a device has no work, and asks for nothing.
fn is_idle(device: &Device) -> bool {
    device.unretired.is_empty() && device.requests.is_empty()
}
