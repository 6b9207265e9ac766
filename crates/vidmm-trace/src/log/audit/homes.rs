//! Homes: what is away from home comes back when there is room, once at a time, and nothing moves without a reason (D36, RES-55).

use std::collections::{BTreeMap, BTreeSet};

use vidmm::contract::SegmentSet;
use vidmm::event::{EvictReason, WantedBy};
use vidmm::{AllocationId, DeviceId, ProcessId, SegmentId};

use super::Audit;
use super::allocation::Allocation;
use super::aspects::Pool;
use super::device::Device;
use super::finding::Invariant;
use super::list_entry::ListEntry;
use super::victim_order::is_off_all_lists;

/// An allocation changes its home in one direction no more often than once in so many nanoseconds; and while there is room for it at
/// home, and nothing runs, it is away no longer.
const SECOND: u64 = 1_000_000_000;

/// A device that is never still drains for one allocation a second. Its work in flight ends first.
const DRAIN: u64 = 10 * SECOND;

/// The homes of allocations that may be in several memories.
#[derive(Debug, Default)]
pub(super) struct Homes {
    /// When a decision of the manager last moved each allocation home, and when away.
    moved: BTreeMap<AllocationId, [Option<u64>; 2]>,
    /// Allocations that lists count outside of the preferred memory.
    away: BTreeSet<AllocationId>,
    /// Devices that have given their memory away while their processes slept.
    pub givers: BTreeSet<DeviceId>,
    /// Allocations that could be home, since when, and how often time has passed since.
    could_return: BTreeMap<AllocationId, (u64, u32)>,
    /// Devices with work in flight that could drain for an allocation, and since when.
    could_drain: BTreeMap<DeviceId, u64>,
}

impl Audit {
    /// The manager chooses the home of a listed allocation anew.
    pub(super) fn moved_home(&mut self, id: AllocationId, before: Option<Pool>, pool: Pool) {
        let preferred = self.allocations.get(&id).and_then(|of| self.preferred_memory(of));
        let Some(preferred) = preferred.filter(|&preferred| (before == Some(preferred)) != (pool == preferred)) else {
            return;
        };
        let is_home = pool == preferred;
        if let Some(of) = self.allocations.get(&id).filter(|_| is_home) {
            self.homes.could_drain.remove(&of.owner);
        }
        let last = self.homes.moved.entry(id).or_default()[usize::from(is_home)].replace(self.at);
        let apart = last.map_or(u64::MAX, |last| self.at.saturating_sub(last));
        self.findings.check(apart >= SECOND, Invariant::Res55, || {
            let to = if is_home { "comes home to" } else { "leaves its home for" };
            format!("{id} {to} {pool:?}, as it did {apart} ns before")
        });
    }

    /// Lists may count an allocation elsewhere than they did.
    pub(super) fn note_away(&mut self, id: AllocationId) {
        let of = self.allocations.get(&id);
        let is_away = of.is_some_and(|of| self.preferred_memory(of).zip(of.counted_in).is_some_and(|(a, b)| a != b));
        match is_away {
            true => self.homes.away.insert(id),
            false => self.homes.away.remove(&id),
        };
    }

    /// The next move of an allocation is its first.
    pub(super) fn forget_moves(&mut self, id: AllocationId) {
        self.homes.moved.remove(&id);
    }

    /// An allocation is gone.
    pub(super) fn forget_home(&mut self, id: AllocationId) {
        self.forget_moves(id);
        self.note_away(id);
    }

    /// The memory segment that an allocation's driver prefers, if it may be there.
    pub(super) fn preferred_memory(&self, of: &Allocation) -> Option<Pool> {
        let preferred =
            of.preferred_segment.filter(|&segment| SegmentSet(of.supported_segment_set).contains(segment))?;
        self.places.is_memory(preferred).then(|| self.places.pool(preferred))
    }

    /// Time passes until `at`: what could have been home for a second, with nothing under way, is home.
    pub(super) fn check_is_home(&mut self, at: u64) {
        let mut could = std::mem::take(&mut self.homes.could_return);
        // A device that is stopped goes before all that is away, and a request of any device before its own moves.
        let is_quiet = !self.homes.away.is_empty()
            && self.is_up()
            && self.plans.are_over()
            && !self.adapter.is_physical()
            && !self.adapter.restricts_budgets()
            && self.devices.values().all(|device| device.is_active() && device.requests.is_empty() || device.is_over())
            && self.demands_are_clear();
        let is_one = |id: &&AllocationId| {
            is_quiet && self.allocations.get(id).is_some_and(|of| self.could_return(**id, of).is_some())
        };
        let away: BTreeSet<AllocationId> = self.homes.away.iter().filter(is_one).copied().collect();
        could.retain(|id, _| away.contains(id));
        let mut late = None;
        for &id in &away {
            let (since, times) = could.entry(id).or_insert((self.occurred_at, 0));
            *times = times.saturating_add(1);
            if *times > 1 && at.saturating_sub(*since) > SECOND {
                late = late.or(Some((id, *since)));
                (*since, *times) = (at, 0);
            }
        }
        self.homes.could_return = could;
        self.findings.check(late.is_none(), Invariant::Res55, || {
            format!("{late:?} could have been home for more than a second, with nothing under way, and is not")
        });
        self.check_drains(at);
    }

    /// Time passes until `at`: a device that is never still, and alone is away from a memory with room, drains for an allocation.
    fn check_drains(&mut self, at: u64) {
        let mut could = std::mem::take(&mut self.homes.could_drain);
        let is_judged = self.is_up()
            && !self.adapter.is_physical()
            && !self.adapter.restricts_budgets()
            && self.devices.values().all(|device| device.requests.is_empty() || device.is_over())
            && self.demands_are_clear();
        let mut away = BTreeMap::<DeviceId, bool>::new();
        for id in self.homes.away.iter().filter(|_| is_judged) {
            let Some(of) = self.allocations.get(id) else { continue };
            *away.entry(of.owner).or_default() |= self.could_return_of_busy(*id, of);
        }
        // Beside another device that is away, the order of payment decides.
        let alone = away.iter().next().filter(|_| away.len() == 1).map(|(&device, &could)| (device, could));
        could.retain(|id, _| alone.is_some_and(|(device, could)| device == *id && could));
        let mut late = None;
        if let Some((device, true)) = alone {
            let since = could.entry(device).or_insert(at);
            if at.saturating_sub(*since) > DRAIN {
                late = Some((device, *since));
                *since = at;
            }
        }
        self.homes.could_drain = could;
        self.findings.check(late.is_none(), Invariant::Res55, || {
            format!("{late:?} is never still, has had room at home for that long, and has drained for no allocation")
        });
    }

    /// Whether an allocation of an active device with work in flight has room in the preferred memory.
    fn could_return_of_busy(&self, id: AllocationId, of: &Allocation) -> bool {
        let is_busy = |device: &&Device| device.is_active() && !device.unretired.is_empty();
        let device = self.devices.get(&of.owner).filter(is_busy);
        device.is_some_and(|device| self.could_return_on(id, of, device).is_some())
    }

    /// The preferred memory of an allocation of a still device, if the allocation is elsewhere and there is room.
    fn could_return(&self, id: AllocationId, of: &Allocation) -> Option<Pool> {
        let device = self.devices.get(&of.owner).filter(|device| device.unretired.is_empty())?;
        let (preferred, room) = self.could_return_on(id, of, device)?;
        (of.size.saturating_add(self.claimed(preferred)) <= room).then_some(preferred)
    }

    /// The preferred memory of an allocation of a device, and the room there, if the allocation is elsewhere and fits.
    fn could_return_on(&self, id: AllocationId, of: &Allocation, device: &Device) -> Option<(Pool, u64)> {
        let counted = of.counted_in?;
        let preferred = self.preferred_memory(of).filter(|&preferred| preferred != counted)?;
        let is_free =
            !of.shared && !of.accessed_physically && of.cpu_view.is_none() && of.offer.is_none() && !of.destroyed;
        let is_listed = of.lists.len() == 1 && of.lists.get(&of.owner).is_some_and(|entry| entry.count > 0);
        let last = self.homes.moved.get(&id).and_then(|[away, _]| *away);
        let has_stayed = last.is_none_or(|last| self.at.saturating_sub(last) >= SECOND);
        let is_suspended = self.processes.get(&device.process).is_none_or(|process| process.suspended.is_some());
        let has_ranges = self.places.memory(preferred.0).is_some_and(|memory| memory.has_ranges);
        if !is_free
            || !is_listed
            || !has_stayed
            || is_suspended
            || has_ranges
            || of.decided.is_none()
            || device.is_over()
        {
            return None;
        }
        let standing = self.sharing(preferred).standing(device.process, 0);
        let room = standing.capacity.saturating_sub(standing.total.max(standing.requested_total));
        if of.size > room {
            return None;
        }
        let taken = self.held_in(preferred).saturating_add(self.kept_in(preferred, device.process));
        let room = room.saturating_sub(taken);
        (of.size <= room).then_some((preferred, room))
    }

    /// The most bytes of unlisted allocations in a memory, kept by other processes: an allocation on the way home pushes nothing out of a
    /// process down to the entitlement (U-31, D36). Allocations leave whole, so bytes up to the largest allocation may stay in vain.
    fn kept_in(&self, memory: Pool, coming: ProcessId) -> u64 {
        // The bytes of each process: all, of unlisted allocations, and of the largest unlisted allocation.
        let mut bytes = BTreeMap::<ProcessId, (u64, u64, u64)>::new();
        for of in self.allocations_in(memory) {
            let Some(process) = self.process_of(of.owner).filter(|&process| process != coming) else { continue };
            let (all, unlisted, largest) = bytes.entry(process).or_default();
            *all = all.saturating_add(of.size);
            if is_off_all_lists(of) {
                *unlisted = unlisted.saturating_add(of.size);
                *largest = of.size.max(*largest);
            }
        }
        let sharing = self.sharing(memory);
        let kept = |(process, (all, unlisted, largest)): (ProcessId, (u64, u64, u64))| {
            let spare = all.saturating_sub(*sharing.entitled(process, coming).end());
            if unlisted <= spare { 0 } else { unlisted - spare.saturating_sub(largest) }
        };
        bytes.into_iter().map(kept).sum()
    }

    /// The bytes in a memory that no list names any more, and queued work still holds. After a move home they count in no demand.
    fn held_in(&self, memory: Pool) -> u64 {
        let holds = |(device, entry): (&DeviceId, &ListEntry)| {
            let device = self.devices.get(device);
            !entry.demands() && device.is_some_and(|device| entry.spans().any(|span| device.still_holds(span)))
        };
        self.allocations_in(memory).filter(|of| of.lists.iter().any(holds)).map(|of| of.size).sum()
    }

    /// Nothing that a list names leaves for an allocation that comes home, but of processes that a call has suspended and of sleepers,
    /// beyond their reservations (D36). Returns whether an allocation comes home.
    pub(super) fn check_leaves_for_home(
        &mut self,
        id: AllocationId,
        segment: SegmentId,
        reason: EvictReason,
        wanted_by: Option<WantedBy>,
    ) -> bool {
        let Some(WantedBy { device: wanting, request: None, allocation: Some(coming) }) = wanted_by else {
            return false;
        };
        // A device that is resumed has its list brought back, and comes with its turn.
        let has_turn = self.devices.get(&wanting).is_some_and(Device::requires_its_list);
        if !has_turn || !self.coming_back.contains(&(coming, EvictReason::Promoted)) {
            return false;
        }
        let Some(of) = self.allocations.get(&id).filter(|_| reason == EvictReason::DeviceSuspended) else {
            return true;
        };
        let process = self.process_of(of.owner);
        let is_halted = process.and_then(|id| self.processes.get(&id)).is_some_and(|of| of.suspended.is_some());
        let gives = is_halted || self.homes.givers.contains(&of.owner);
        let pool = self.places.pool(segment);
        let has = process.and_then(|process| self.bytes_in(pool).get(&process).copied()).unwrap_or(0);
        let reserved = process.map_or(0, |process| self.sharing(pool).reservation(process));
        let keeps = reserved == 0 || has.saturating_sub(of.size) >= reserved || !self.demands_are_clear();
        self.findings.check(gives, Invariant::Res55, || {
            format!("{id} leaves for {coming}, which comes home, and is on a list of a device that gives nothing")
        });
        self.findings.check(keeps, Invariant::P08, || {
            format!("{id} leaves for {coming}, which comes home, and of {has} bytes {reserved} are reserved")
        });
        true
    }

    /// The bytes of a memory that devices with work in flight may claim, for one move a second (D36).
    fn claimed(&self, memory: Pool) -> u64 {
        let away = self.homes.away.iter().filter_map(|id| self.allocations.get(id));
        let is_busy = |of: &&Allocation| self.devices.get(&of.owner).is_some_and(|device| !device.unretired.is_empty());
        away.filter(is_busy).filter(|of| self.preferred_memory(of) == Some(memory)).map(|of| of.size).sum()
    }

    /// An allocation that its own device requires moves only to where its list counts it, or where allocations are one range each. With a
    /// request that counts the allocation in another memory, the list comes back as it was, and the allocation moves at the grant (D19).
    pub(super) fn check_move(&mut self, id: AllocationId, segment: SegmentId, reason: EvictReason) {
        let Some(of) = self.allocations.get(&id).filter(|_| !self.adapter.is_physical()) else { return };
        let is_in_pages = self.places.memory(segment).is_some_and(|memory| !memory.has_ranges);
        let is_counted_here = of.counted_in == Some(self.places.pool(segment));
        let has_request = self.devices.get(&of.owner).is_some_and(|owner| owner.next_request().is_some());
        let is_moved = match reason {
            EvictReason::Moved => is_in_pages && is_counted_here,
            EvictReason::Promoted => is_counted_here && !has_request,
            _ => false,
        };
        let is_listed = of.lists.values().any(|entry| entry.count > 0) && of.cpu_view.is_none();
        self.findings.check(!is_moved || !is_listed, Invariant::Res55, || {
            format!("{id} leaves segment {} as {reason:?}, where its list counts it", segment.0)
        });
    }
}
