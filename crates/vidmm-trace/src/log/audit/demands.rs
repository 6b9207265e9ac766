//! The demands of processes in each pool: the bytes that the lists of their devices name, and named for what is outstanding (I16, U-33).

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ops::RangeInclusive;

use vidmm::contract::SegmentSet;
use vidmm::{AllocationId, DeviceId, MemorySegmentGroup, PriorityBand, ProcessId, Visibility};

use super::Audit;
use super::allocation::Allocation;
use super::aspects::{Charge, PerPool, Pool};
use super::device::RequestKind;
use super::shares::{Share, Sharing};

/// How much a process counts in the sharing of memory (U-32).
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Weight {
    pub band: PriorityBand,
    pub visibility: Visibility,
}

impl Weight {
    pub fn value(self) -> u64 {
        let band = match self.band {
            PriorityBand::Dwm | PriorityBand::Focus => 4,
            PriorityBand::Normal => 1,
        };
        let visibility = match self.visibility {
            Visibility::Visible => 4,
            Visibility::Occluded => 2,
            Visibility::Minimized => 1,
        };
        band * visibility
    }
}

/// The bytes that a device's list names in a pool, and named while its outstanding work and requests were made.
#[derive(Debug, Default)]
struct ListBytes {
    now: u64,
    /// Earlier bytes that are more than all later ones, and the event that ended each.
    earlier: VecDeque<(u64, u64)>,
    /// The first event of the last call that counted allocations in other pools, and the bytes before that call.
    before_call: (u64, u64),
}

impl ListBytes {
    fn grow(&mut self, bytes: u64, call: Option<u64>) {
        self.before(call);
        self.now = self.now.saturating_add(bytes);
    }

    fn shrink(&mut self, bytes: u64, event: u64, call: Option<u64>) {
        let before = self.before(call);
        while self.earlier.back().is_some_and(|&(earlier, _)| earlier <= before) {
            self.earlier.pop_back();
        }
        self.earlier.push_back((before, event));
        self.now = self.now.saturating_sub(bytes);
    }

    /// The bytes before a change. All changes of a call are one change.
    fn before(&mut self, call: Option<u64>) -> u64 {
        let Some(call) = call else { return self.now };
        if self.before_call.0 != call {
            self.before_call = (call, self.now);
        }
        self.before_call.1
    }

    /// The oldest of what is outstanding was made by this event; none if nothing is. Returns whether that changes the demand.
    fn forget(&mut self, oldest: Option<u64>) -> bool {
        let before = self.demand();
        while self.earlier.front().is_some_and(|&(_, ended)| oldest.is_none_or(|oldest| ended < oldest)) {
            self.earlier.pop_front();
        }
        self.demand() < before
    }

    fn demand(&self) -> u64 {
        self.earlier.front().map_or(self.now, |&(earlier, _)| earlier.max(self.now))
    }
}

/// The bytes that lists name.
#[derive(Debug, Default)]
pub(super) struct Demands {
    lists: BTreeMap<(Pool, ProcessId, DeviceId), ListBytes>,
    /// Allocations of which the log does not say where they are counted.
    unclear: u64,
    /// The event after which there were none.
    unclear_until: u64,
    /// How often something happened after which a process may have come within its budget, or has trimmed.
    pub relieved: u64,
    /// The first and the last event of a call that counts allocations in other pools.
    recounts: (u64, u64),
}

impl Demands {
    /// Whether the log has said since an event where each allocation counts.
    pub fn were_clear_since(&self, event: u64) -> bool {
        self.unclear == 0 && self.unclear_until < event
    }

    /// A call counts an allocation in another pool with an event. The events of a call follow each other.
    pub fn note_recount(&mut self, event: u64) {
        let (first, last) = self.recounts;
        self.recounts = (if last + 1 == event { first } else { event }, event);
    }

    /// The first event of the call that counts allocations in other pools; none if the event is of another kind.
    fn call_of(&self, event: u64) -> Option<u64> {
        let (first, last) = self.recounts;
        (last == event).then_some(first)
    }

    fn add(&mut self, charge: Charge, event: u64) {
        let call = self.call_of(event);
        match charge.pool {
            Some(pool) => {
                self.lists.entry((pool, charge.process, charge.device)).or_default().grow(charge.size, call);
            }
            None => self.unclear += 1,
        }
    }

    fn remove(&mut self, charge: Charge, event: u64) {
        let call = self.call_of(event);
        self.relieved += 1;
        match charge.pool {
            Some(pool) => {
                if let Some(list) = self.lists.get_mut(&(pool, charge.process, charge.device)) {
                    list.shrink(charge.size, event, call);
                }
            }
            None => (self.unclear, self.unclear_until) = (self.unclear.saturating_sub(1), event),
        }
    }

    /// The lists of all devices in a pool, by their processes.
    fn of_pool(&self, pool: Pool) -> impl Iterator<Item = (ProcessId, &ListBytes)> {
        let first = (pool, ProcessId::from_bits(0), DeviceId::from_bits(0));
        let lists = self.lists.range(first..).take_while(move |((of, ..), _)| *of == pool);
        lists.map(|(&(_, process, _), list)| (process, list))
    }

    fn of(&self, pool: Pool, process: ProcessId) -> impl Iterator<Item = &ListBytes> {
        let (first, last) = (DeviceId::from_bits(0), DeviceId::from_bits(u64::MAX));
        self.lists.range((pool, process, first)..=(pool, process, last)).map(|(_, list)| list)
    }

    /// Bytes of all lists.
    pub fn requested_by_all(&self, pool: Pool) -> u64 {
        self.of_pool(pool).fold(0, |sum, (_, list)| sum.saturating_add(list.now))
    }

    /// Bytes that the lists of a process name.
    pub(super) fn requested(&self, pool: Pool, process: ProcessId) -> u64 {
        self.of(pool, process).fold(0, |sum, list| sum.saturating_add(list.now))
    }

    /// Bytes that they name, or named for what is outstanding: for each device the most since the oldest of that was made.
    fn demand(&self, pool: Pool, process: ProcessId) -> u64 {
        self.of(pool, process).fold(0, |sum, list| sum.saturating_add(list.demand()))
    }
}

impl Audit {
    /// The way in which lists count an allocation may have changed.
    pub(super) fn charge(&mut self, id: AllocationId) {
        let Some(allocation) = self.allocations.get(&id) else { return };
        let (now, last_use) = (self.charges_of(allocation), self.last_use(allocation));
        let Some(allocation) = self.allocations.get_mut(&id) else { return };
        allocation.last_use = last_use;
        let before = std::mem::replace(&mut allocation.charges, now.clone());
        for &gone in before.iter().filter(|charge| !now.contains(charge)) {
            self.demands.remove(gone, self.findings.event);
            self.settle(gone.device);
        }
        let event = self.findings.event;
        now.into_iter().filter(|charge| !before.contains(charge)).for_each(|charge| self.demands.add(charge, event));
    }

    /// Forgets what the list of a device named for work and requests that are no longer outstanding.
    pub(super) fn settle(&mut self, id: DeviceId) {
        let Some(device) = self.devices.get(&id) else { return };
        let (process, oldest) = (device.process, device.oldest_outstanding());
        for pool in self.places.pools() {
            if let Some(list) = self.demands.lists.get_mut(&(pool, process, id)) {
                self.demands.relieved += u64::from(list.forget(oldest));
            }
        }
    }

    /// A device is gone, and its list with it.
    pub(super) fn forget_list(&mut self, id: DeviceId) {
        self.demands.lists.retain(|&(_, _, device), _| device != id);
    }

    /// Each list that demands an allocation counts it, unless Reclaim found no backing store for it (RES-66).
    fn charges_of(&self, allocation: &Allocation) -> Vec<Charge> {
        if !allocation.committed {
            return Vec::new();
        }
        let listing = allocation.lists.iter().filter(|(_, entry)| entry.demands()).map(|(&device, _)| device);
        let (pool, size) = (self.pool_of(allocation), allocation.size);
        let charge = |device| Some(Charge { process: self.process_of(device)?, device, pool, size });
        listing.filter_map(charge).collect()
    }

    /// The list of a device weighs in a pool what it names now, whatever it named earlier.
    pub(super) fn recount(&mut self, pool: Pool, id: DeviceId) {
        let Some(process) = self.process_of(id) else { return };
        if let Some(list) = self.demands.lists.get_mut(&(pool, process, id)) {
            self.demands.relieved += u64::from(list.forget(None));
        }
    }

    /// The pool in which lists count an allocation.
    pub(super) fn pool_of(&self, allocation: &Allocation) -> Option<Pool> {
        allocation.counted_in.or_else(|| self.only_pool_of(allocation))
    }

    /// The one pool that an allocation may be in.
    pub(super) fn only_pool_of(&self, allocation: &Allocation) -> Option<Pool> {
        match self.places.pools_of(SegmentSet(allocation.supported_segment_set))[..] {
            [only] => Some(only),
            _ => None,
        }
    }

    /// Whether the log says what everybody demands, and how much there is to share.
    pub(super) fn demands_are_clear(&self) -> bool {
        self.demands_are_bounded() && self.portions.references().next().is_none()
    }

    /// Whether the log says at least within which bounds demands lie (see [`beside_portions`](Self::beside_portions)), and how much
    /// there is to share: room for page tables that are asked for may be set aside already.
    pub(super) fn demands_are_bounded(&self) -> bool {
        let was_clear = |oldest: Option<u64>| oldest.is_none_or(|oldest| oldest > self.demands.unclear_until);
        let is_clear = self.demands.unclear_until == 0
            || self.devices.values().all(|device| was_clear(device.oldest_outstanding()));
        self.demands.unclear == 0
            && is_clear
            && self.tables_are_settled()
            && !self.has_split_reservations()
            && !self.places.pools().into_iter().any(|pool| self.is_crowded(pool))
    }

    /// Whether no page tables are to be placed: for mappings that are not granted, for pages that are cut, for processes without a root.
    pub(super) fn tables_are_settled(&self) -> bool {
        let tables_come = |kind: &RequestKind| matches!(kind, RequestKind::Map(..) | RequestKind::Reserve);
        let mut requests = self.devices.values().flat_map(|device| &device.requests);
        let settled = !requests.any(|request| request.granted.is_none() && tables_come(&request.kind));
        let rooted = !self.adapter.has_page_tables() || self.processes.values().all(|of| of.root.is_some());
        settled && self.rests.is_empty() && !self.zeros.has_ending() && rooted
    }

    /// Whether a process has reserved memory of a group that has several segments: how much of each the log does not say.
    fn has_split_reservations(&self) -> bool {
        self.processes.values().any(|process| !process.group_reservations.is_empty())
    }

    /// Whether reservations do not fit together any more, since page tables have taken the room: then no formula is documented.
    fn is_crowded(&self, pool: Pool) -> bool {
        let reservations = self.processes.values().filter_map(|process| process.reservations.get(&pool));
        reservations.fold(0u64, |sum, &bytes| sum.saturating_add(bytes)) > self.budgeted(pool)
    }

    /// The bytes of a pool that budgets are for.
    fn budgeted(&self, pool: Pool) -> u64 {
        let limit = self.groups.group(pool.0).map_or(u64::MAX, |group| self.adapter.budget_limit(group));
        self.places.capacity(pool).min(limit)
    }

    /// The bytes that the lists of a process name in a pool, at the least and at the most.
    pub(super) fn requested_within(&self, pool: Pool, process: ProcessId) -> RangeInclusive<u64> {
        self.beside_portions(pool, process, self.demands.requested(pool, process))
    }

    /// The bytes of a pool that a process demands beside those of its lists, at the least and at the most. When a portion of a DMA buffer is
    /// decided the log does not say: its process demands what is kept across a cut, and nothing that its DMA buffers do not name.
    pub(super) fn beside_portions(&self, pool: Pool, process: ProcessId, listed: u64) -> RangeInclusive<u64> {
        let (mut kept, mut named) = (BTreeSet::new(), BTreeSet::new());
        for (device, id, is_kept) in self.portions.references() {
            let is_its_own = self.devices.get(&device).is_some_and(|device| device.process == process);
            let Some(allocation) = self.allocations.get(&id).filter(|_| is_its_own) else { continue };
            if is_kept && allocation.decided.as_ref().is_some_and(|place| self.places.pool(place.segment) == pool) {
                kept.insert(id);
            }
            if self.pool_of(allocation).is_none_or(|only| only == pool) {
                named.insert(id);
            }
        }
        let bytes = |ids: BTreeSet<AllocationId>| {
            let sizes = ids.iter().filter_map(|id| self.allocations.get(id)).map(|allocation| allocation.size);
            sizes.fold(listed, u64::saturating_add)
        };
        bytes(kept)..=bytes(named)
    }

    /// How a pool is shared.
    pub(super) fn sharing(&self, pool: Pool) -> Sharing {
        self.sharing_amid(pool, |_, listed| listed)
    }

    /// The same, if all demand what `demand_of` says, which knows what their lists do.
    pub(super) fn sharing_amid(&self, pool: Pool, demand_of: impl Fn(ProcessId, u64) -> u64) -> Sharing {
        let mut lists = self.demands.of_pool(pool).peekable();
        let share = |(&id, of): (&ProcessId, &super::Process)| {
            let (mut demand, mut requested) = (0u64, 0u64);
            while let Some((process, list)) = lists.next_if(|&(process, _)| process <= id) {
                if process == id {
                    demand = demand.saturating_add(list.demand());
                    requested = requested.saturating_add(list.now);
                }
            }
            let (weight, reservation) = of.part_of(pool);
            // A process suspended by a call, or without power, demands the reservation only (D30).
            let limit = if of.suspended.is_some() || self.powered_down { reservation } else { u64::MAX };
            (id, Share { demand: demand_of(id, demand).min(limit), requested, reservation, weight })
        };
        let shares = self.processes.iter().map(share).collect();
        Sharing::new(self.places.capacity(pool), self.budgeted(pool), shares)
    }

    /// Whether a process certainly demands no more than it may have.
    pub(super) fn is_within_budget(&self, process: ProcessId) -> bool {
        let within = |pool| {
            let standing = self.sharing(pool).standing(process, 0);
            !standing.is_pressed() || standing.demand <= *standing.budgets().start()
        };
        self.demands_are_clear() && self.places.pools().into_iter().all(within)
    }

    /// Whether a process certainly demands more than it may have.
    pub(super) fn is_above_budget(&self, process: ProcessId) -> bool {
        let above = |pool| {
            let standing = self.sharing(pool).standing(process, 0);
            standing.is_pressed() && standing.demand > *standing.budgets().end()
        };
        self.demands_are_clear() && self.places.pools().into_iter().any(above)
    }

    /// Whether a process has reserved all that it demands.
    pub(super) fn is_reserved(&self, process: ProcessId) -> bool {
        let reservations = self.processes.get(&process).map(|process| &process.reservations);
        let reserved = |pool| reservations.and_then(|of| of.get(&pool)).copied().unwrap_or(0);
        let mut of_process = self.devices.values().filter(|device| device.process == process);
        // Allocations of others that work in flight uses count for its process too, whatever that demands.
        let is_its = |id: &DeviceId| self.process_of(*id) == Some(process);
        let has_others = || self.allocations.values().any(|of| !is_its(&of.owner) && of.open.iter().any(is_its));
        let may_use_others = of_process.any(|device| !device.unretired.is_empty()) && has_others();
        // An allocation that leaves stays until all has ended that was submitted before, and is more than the process demands.
        let is_charged = |id: AllocationId| self.allocations.get(&id).is_some_and(|of| is_its(&of.owner));
        let keeps_more = self.plans.still_leaving().any(is_charged);
        // A process that has reserved nothing has nothing that is protected.
        let pools = self.places.pools();
        let has_reserved = pools.iter().any(|&pool| reserved(pool) > 0);
        let is_within = |pool: Pool| self.demands.demand(pool, process) <= reserved(pool);
        !may_use_others && !keeps_more && has_reserved && pools.into_iter().all(is_within)
    }

    /// The process that a device is of.
    pub(super) fn process_of(&self, device: DeviceId) -> Option<ProcessId> {
        self.devices.get(&device).map(|device| device.process)
    }

    /// The bytes that the lists of a process name now.
    pub(super) fn requested_by(&self, process: ProcessId) -> PerPool {
        PerPool(self.places.pools().into_iter().map(|pool| (pool, self.demands.requested(pool, process))).collect())
    }

    /// The pools whose budgets are together a group's (RES-50, U-3).
    pub(super) fn pools_of_group(&self, group: MemorySegmentGroup) -> Vec<Pool> {
        self.places.pools().into_iter().filter(|&Pool(segment)| self.groups.group(segment) == Some(group)).collect()
    }
}
