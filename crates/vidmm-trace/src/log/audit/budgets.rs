//! Budgets: refusals say what follows from the lists (I08, I16, RES-13, RES-53).

use std::collections::{BTreeMap, BTreeSet};
use std::ops::RangeInclusive;

use vidmm::{AllocationId, DeviceId, MakeResidentFlags, MemorySegmentGroup, NoMemoryReason, ProcessId, Shortage};

use super::Audit;
use super::aspects::{PerPool, Pool};
use super::engines::Next;
use super::finding::Invariant;
use super::list_entry::ListEntry;
use super::shares::{ROUNDING, Sharing, Standing};

/// The budget that a process was told last.
#[derive(Clone, Debug)]
pub(super) struct Told {
    budget: u64,
    /// The weights and reservations that it may be known by: those when it was told, and those with which it was the same since.
    parts: Vec<(u64, u64)>,
}

impl Told {
    /// Whether the budget of a process that stands so is the one that it was told.
    fn is_same(&self, standing: &Standing) -> bool {
        self.budget.abs_diff(standing.budget) <= ROUNDING
    }
}

/// How much too much a list would be, in bytes.
#[derive(Clone, Debug)]
struct Excess {
    /// More than fits if nobody else has anything.
    alone: u64,
    /// More than its process may have while not all that is asked for fits.
    entitled: RangeInclusive<u64>,
    /// The bytes listed now by the device and by the process.
    listed: u64,
    requested: u64,
}

impl Default for Excess {
    fn default() -> Self {
        Self { alone: 0, entitled: 0..=0, listed: 0, requested: 0 }
    }
}

impl Excess {
    /// Listed bytes without some, kept by the call.
    fn without(self, bytes: u64) -> Self {
        let (listed, requested) = (self.listed.saturating_sub(bytes), self.requested.saturating_sub(bytes));
        Self { listed, requested, ..self }
    }

    /// Whether device and process list the excess, with `bound` for the entitlement.
    fn could_be_given(&self, bound: impl Fn(&RangeInclusive<u64>) -> u64) -> bool {
        self.alone <= self.listed && bound(&self.entitled) <= self.requested
    }
}

/// The sum of ranges.
fn sum(ranges: impl Iterator<Item = RangeInclusive<u64>>) -> RangeInclusive<u64> {
    ranges.fold(0..=0, |sum, range| sum.start().saturating_add(*range.start())..=sum.end().saturating_add(*range.end()))
}

impl Audit {
    /// All processes together reserve at most half of a group (U-31).
    pub(super) fn reserved(&mut self, id: ProcessId, group: MemorySegmentGroup, reservation: u64) {
        let pools = self.pools_of_group(group);
        self.demands.relieved += 1;
        if let Some(process) = self.processes.get_mut(&id) {
            match pools[..] {
                [] => {}
                [only] => drop(process.reservations.insert(only, reservation)),
                _ => drop(process.group_reservations.insert(group, reservation)),
            }
        }
        let (half, all) = self.reserved_in(group, |_| true);
        self.findings.check(all <= half && (!pools.is_empty() || reservation == 0), Invariant::I16, || {
            format!("{id} reserves {reservation} bytes of {group:?}; all reserve {all} of the {half} that they can")
        });
        self.shares_changed(group);
    }

    pub(super) fn published(&mut self, process: ProcessId, group: MemorySegmentGroup, budget: u64, requested: u64) {
        let told = self.part_of(process, group).map(|part| Told { budget, parts: vec![part] });
        if let Some(of) = self.processes.get_mut(&process) {
            of.told.insert(group, told);
        }
        let pools = self.pools_of_group(group);
        if pools.is_empty() {
            let empty = budget == 0 && requested == 0;
            return self
                .findings
                .check(empty, Invariant::I16, || format!("{group:?} is empty, but {process} has a budget"));
        }
        if !self.demands_are_bounded() {
            return;
        }
        let named = sum(pools.iter().map(|&pool| self.requested_within(pool, process)));
        self.findings.check(named.contains(&requested), Invariant::I16, || {
            format!("{process} is said to request {requested} bytes of {group:?}, but its lists name {named:?}")
        });
        let Some(budgets) = self.budgets_of(process, group) else { return };
        self.findings.check(budgets.contains(&budget), Invariant::I16, || {
            format!("{process} is told a budget of {budget} bytes of {group:?}, but it follows to be {budgets:?}")
        });
    }

    /// The weight of a process and its reservation of a group that is one pool.
    fn part_of(&self, process: ProcessId, group: MemorySegmentGroup) -> Option<(u64, u64)> {
        let [only] = self.pools_of_group(group)[..] else { return None };
        Some(self.processes.get(&process)?.part_of(only))
    }

    /// The one pool that is a group, and how it is shared, if the log says that.
    fn sharing_of(&self, group: MemorySegmentGroup) -> Option<(Pool, Option<Sharing>)> {
        let [only] = self.pools_of_group(group)[..] else { return None };
        Some((only, self.demands_are_clear().then(|| self.sharing(only))))
    }

    /// A process whose budget is the same for its new weight or reservation, or for those of others, need not be told it again. It may become
    /// the same later, before the process is told.
    pub(super) fn shares_changed(&mut self, group: MemorySegmentGroup) {
        let Some((pool, sharing)) = self.sharing_of(group) else { return };
        for (&id, process) in &mut self.processes {
            let part = process.part_of(pool);
            let Some(told) = process.told.get_mut(&group) else { continue };
            match (&mut *told, &sharing) {
                (Some(of), _) if of.parts.contains(&part) => {}
                (Some(of), Some(sharing)) if of.is_same(&sharing.standing(id, 0)) => of.parts.push(part),
                (_, Some(_)) => drop(self.reweighted.insert(group)),
                // Where the log does not say the budget, it may be the same.
                (_, None) => *told = None,
            }
        }
    }

    /// A process that is asked to trim has been told the budget that it is above: anew, if its weight or reservation has changed
    /// since (RES-53, U-32).
    pub(super) fn check_told_budget(&mut self, process: ProcessId, group: MemorySegmentGroup) {
        let Some((pool, Some(sharing))) = self.sharing_of(group) else { return };
        let standing = sharing.standing(process, 0);
        let Some(of) = self.processes.get_mut(&process) else { return };
        let part = of.part_of(pool);
        let told = match of.told.get_mut(&group) {
            Some(None) => return,
            told => told.and_then(Option::as_mut),
        };
        let stands = told.as_ref().is_some_and(|told| {
            told.is_same(&standing) || told.parts.contains(&part) && standing.budgets().contains(&told.budget)
        });
        self.findings.check(stands, Invariant::I16, || {
            format!("{process} is above its budget of {} bytes of {group:?}, but was told {told:?}", standing.budget)
        });
        if let Some(told) = told {
            told.parts = vec![part];
        }
    }

    /// The budgets of a group that a process may be told; none if the log does not say enough.
    pub fn budgets_of(&self, process: ProcessId, group: MemorySegmentGroup) -> Option<RangeInclusive<u64>> {
        let pools = self.pools_of_group(group);
        if pools.is_empty() || !self.demands_are_bounded() {
            return None;
        }
        // The more the others demand, the less is left for it.
        Some(sum(pools.iter().map(|&pool| {
            let least = self.sharing_amid(pool, |id, listed| *self.beside_portions(pool, id, listed).end());
            let most = self.sharing_amid(pool, |id, listed| *self.beside_portions(pool, id, listed).start());
            *least.standing(process, 0).budgets().start()..=*most.standing(process, 0).budgets().end()
        })))
    }

    /// Whether a process can certainly reserve so much of a group: all reserve at most half of what page tables leave together (U-31).
    pub fn can_reserve(&self, process: ProcessId, group: MemorySegmentGroup, size: u64) -> bool {
        let room = self.pools_of_group(group).into_iter().map(|pool| self.places.capacity(pool) / 2);
        let (_, by_others) = self.reserved_in(group, |id| id != process);
        self.demands_are_bounded() && by_others.saturating_add(size) <= room.fold(0, u64::saturating_add)
    }

    /// Half of a group, and what those processes reserve of it.
    fn reserved_in(&self, group: MemorySegmentGroup, is_one: impl Fn(ProcessId) -> bool) -> (u64, u64) {
        let pools = self.pools_of_group(group);
        let half = pools.iter().map(|&pool| self.places.size(pool) / 2).fold(0, u64::saturating_add);
        let of_group = |process: &super::Process| match pools[..] {
            [only] => process.reservations.get(&only).copied(),
            _ => process.group_reservations.get(&group).copied(),
        };
        let processes = self.processes.iter().filter(|&(&id, _)| is_one(id));
        (half, processes.filter_map(|(_, process)| of_group(process)).fold(0, u64::saturating_add))
    }

    /// A list may grow if it fits beside all others, or while its process keeps to its budget; if nothing is left to trim, while
    /// it takes nothing that others have reserved (RES-15, RES-53). What was `requested` before and is named again takes nothing.
    pub(super) fn check_admitted(&mut self, device: DeviceId, flags: MakeResidentFlags, requested: &PerPool) {
        let Some(process) = self.process_of(device).filter(|_| self.demands_are_clear()) else {
            return;
        };
        for pool in self.places.pools() {
            let standing = self.sharing(pool).standing(process, 0);
            let limit = if flags.contains(MakeResidentFlags::CANT_TRIM_FURTHER) {
                standing.maximum.max(*standing.budgets().end())
            } else {
                *standing.budgets().end()
            };
            let grows = standing.requested > requested.of(pool);
            let holds = !grows || standing.lists_fit() || standing.requested <= limit;
            self.findings.check(holds, Invariant::I16, || {
                let Standing { requested, requested_total, capacity, .. } = standing;
                format!(
                    "a MakeResident of {device} is admitted, with which {process} requests {requested} bytes of {pool:?} and may \
                     have {limit}, while all request {requested_total} of {capacity}"
                )
            });
        }
    }

    /// A refusal has a true reason, and asks to trim the excess, no less and no more (P03); or nothing, where the process lists less than
    /// the excess.
    pub(super) fn refused(
        &mut self,
        id: DeviceId,
        named: &[AllocationId],
        flags: MakeResidentFlags,
        reason: NoMemoryReason,
        shortages: &[Shortage],
    ) {
        // That puts its device in error at once (RES-15).
        if flags.contains(MakeResidentFlags::MUST_SUCCEED) {
            let why =
                format!("a MakeResident of {id} that must succeed was refused, but the device is not put in error");
            self.must_follow(Next::Fail(id), Invariant::Res15, why);
        }
        self.check_words_of_budgets(id, shortages);
        let Some(process) = self.process_of(id).filter(|_| self.demands_are_clear()) else { return };
        self.check_can_give(id, process, shortages);
        if reason == NoMemoryReason::Fragmented {
            return;
        }
        let Some(added) = self.added(id, named) else { return };
        let excess = self.places.pools().into_iter().map(|pool| match added.get(&pool) {
            Some(&added) => {
                let excess = self.excess(id, pool, added, &self.sharing(pool).standing(process, added), flags);
                excess.without(self.named_on_list(id, named, pool))
            }
            None => Excess::default(),
        });
        let excess: Vec<(Pool, Excess)> = self.places.pools().into_iter().zip(excess).collect();
        let is_so = excess.iter().any(|(_, excess)| match reason {
            NoMemoryReason::DoesNotFit | NoMemoryReason::HeldForNow => excess.alone > 0,
            NoMemoryReason::NoAssignment => excess.alone > 0 || *excess.entitled.end() > 0,
            _ => *excess.entitled.end() > 0,
        });
        self.findings.check(is_so, Invariant::I16, || {
            format!("{id} is refused as {reason:?}, but with {added:?} bytes more {process} would not be above that")
        });
        if !is_so {
            return;
        }
        // Ranges take more than their bytes, and a range that is aligned to more than its segment has no place at all.
        let is_range = |id: &AllocationId| self.allocations.get(id).is_some_and(|of| of.accessed_physically);
        let takes_more = self.adapter.is_physical() || named.iter().any(is_range);
        let could_help = excess.iter().all(|(_, excess)| excess.could_be_given(|most| *most.start()));
        let would_help = excess.iter().all(|(_, excess)| excess.could_be_given(|most| *most.end()));
        let asks = shortages.iter().any(|shortage| shortage.num_bytes_to_trim > 0);
        self.findings.check(if asks { could_help } else { !would_help || takes_more }, Invariant::I08, || {
            format!("{id} is refused as {reason:?}, and is asked to trim: {asks}, but too much is {excess:?}")
        });
        for (pool, excess) in excess.into_iter().filter(|_| asks) {
            let to_trim = Self::to_trim(shortages, pool);
            let least = excess.alone.max(*excess.entitled.start());
            let most = excess.alone.max(*excess.entitled.end()).saturating_add(self.fragmented(named, pool));
            let is_enough = to_trim >= least && (to_trim <= most || takes_more);
            self.findings.check(is_enough, Invariant::I08, || {
                format!(
                    "{id} is refused as {reason:?} and is to trim {to_trim} bytes of {pool:?}, but {least} to {most} are too much"
                )
            });
        }
    }

    /// The bytes of a pool in the shortages of a refusal.
    fn to_trim(shortages: &[Shortage], pool: Pool) -> u64 {
        let here = shortages.iter().filter(|shortage| Pool(shortage.account.segment) == pool);
        here.map(|shortage| shortage.num_bytes_to_trim).fold(0, u64::saturating_add)
    }

    /// No shortage names the budget of a segment without a budget (RES-50).
    fn check_words_of_budgets(&mut self, id: DeviceId, shortages: &[Shortage]) {
        for shortage in shortages {
            let has_budget = self.groups.group(shortage.account.segment).is_some();
            let is_so = match shortage.reason {
                NoMemoryReason::OverBudget | NoMemoryReason::OverMaximumBudget => has_budget,
                NoMemoryReason::OverShare => !has_budget,
                _ => true,
            };
            self.findings.check(is_so, Invariant::I16, || {
                let Shortage { account, reason, .. } = shortage;
                format!("{id} is refused as {reason:?} in {:?}, which has a budget: {has_budget}", account.segment)
            });
        }
    }

    /// A refusal asks to trim no more than the process lists (RES-13).
    fn check_can_give(&mut self, id: DeviceId, process: ProcessId, shortages: &[Shortage]) {
        for pool in self.places.pools() {
            let (to_trim, listed) = (Self::to_trim(shortages, pool), self.demands.requested(pool, process));
            self.findings.check(to_trim <= listed, Invariant::I08, || {
                format!("{id} is to trim {to_trim} bytes of {pool:?}, but {process} lists {listed}")
            });
        }
    }

    /// How much too much a list would be in a pool: of what there is, and of what its process may have.
    fn excess(
        &self,
        device: DeviceId,
        pool: Pool,
        added: u64,
        standing: &Standing,
        flags: MakeResidentFlags,
    ) -> Excess {
        let &Standing { requested, maximum, capacity, .. } = standing;
        let limits = match flags.contains(MakeResidentFlags::CANT_TRIM_FURTHER) {
            true => maximum..=maximum,
            false => standing.present_budgets(),
        };
        // With so much less it fits beside all other lists, or its process keeps to its budget.
        let beside_all = standing.requested_total.saturating_sub(capacity);
        let over = |limit: &u64| requested.saturating_sub(*limit).min(beside_all);
        let listed = self.listed_bytes(device, pool);
        Excess {
            alone: listed.saturating_add(added).saturating_sub(capacity),
            entitled: over(limits.end())..=over(limits.start()),
            listed,
            requested: requested.saturating_sub(added),
        }
    }

    /// The listed bytes of a pool among the allocations of a call.
    fn named_on_list(&self, device: DeviceId, named: &[AllocationId], pool: Pool) -> u64 {
        let named: BTreeSet<&AllocationId> = named.iter().collect();
        let listed = named.into_iter().filter_map(|id| self.allocations.get(id)).filter(|allocation| {
            allocation.lists.get(&device).is_some_and(ListEntry::demands) && self.pool_of(allocation) == Some(pool)
        });
        listed.fold(0u64, |sum, allocation| sum.saturating_add(allocation.size))
    }

    /// The bytes that a refusal may ask to trim besides because there is no hole in a pool: at the most all that ranges
    /// can be in, for each allocation that needs one.
    fn fragmented(&self, named: &[AllocationId], pool: Pool) -> u64 {
        let named: BTreeSet<&AllocationId> = named.iter().collect();
        let needing = named.into_iter().filter_map(|id| self.allocations.get(id)).filter(|of| of.accessed_physically);
        let there = needing.filter(|allocation| self.only_pool_of(allocation) == Some(pool));
        there.map(|_| self.places.range_bytes(pool)).fold(0, u64::saturating_add)
    }

    /// Bytes that a MakeResident adds to what its process demands; none if the log does not say where.
    fn added(&self, device: DeviceId, named: &[AllocationId]) -> Option<BTreeMap<Pool, u64>> {
        let mut added = BTreeMap::new();
        let named: BTreeSet<&AllocationId> = named.iter().collect();
        for id in named {
            let allocation = self.allocations.get(id)?;
            if !allocation.lists.get(&device).is_some_and(ListEntry::demands) {
                let added: &mut u64 = added.entry(self.only_pool_of(allocation)?).or_default();
                *added = added.saturating_add(allocation.size);
            }
        }
        Some(added)
    }

    /// Bytes that the list of one device names, without what is offered: whether that fits again Reclaim finds out.
    fn listed_bytes(&self, device: DeviceId, pool: Pool) -> u64 {
        let named = self.allocations.values().filter(|allocation| allocation.committed).filter(|allocation| {
            allocation.lists.get(&device).is_some_and(ListEntry::demands) && self.pool_of(allocation) == Some(pool)
        });
        named.fold(0u64, |sum, allocation| sum.saturating_add(allocation.size))
    }

    /// Evict says what its process is still above its budget (RES-23).
    pub(super) fn check_left_to_trim(&mut self, device: DeviceId, to_trim: u64) {
        let Some(process) = self.process_of(device) else { return };
        self.check_over(process, None, to_trim, || format!("Evict of {device}"));
    }

    /// How the pools of a group are shared, or all.
    pub(super) fn sharings(&self, of: Option<Option<MemorySegmentGroup>>) -> Vec<Sharing> {
        let is_of = |&Pool(segment): &Pool| of.is_none_or(|group| self.groups.group(segment) == group);
        self.places.pools().into_iter().filter(is_of).map(|pool| self.sharing(pool)).collect()
    }

    /// The bytes that a process is above its budgets of pools that are shared so, while they are imposed.
    pub(super) fn above_budget(sharings: &[Sharing], process: ProcessId) -> RangeInclusive<u64> {
        sum(sharings.iter().map(|sharing| {
            let standing = sharing.standing(process, 0);
            let budgets = standing.present_budgets();
            standing.above(*budgets.end())..=standing.above(*budgets.start())
        }))
    }

    /// A figure is what a process is above its budgets of a group, or of all, while they are imposed: 0 otherwise.
    pub(super) fn check_over(
        &mut self,
        process: ProcessId,
        of: Option<Option<MemorySegmentGroup>>,
        figure: u64,
        what: impl FnOnce() -> String,
    ) {
        if !self.demands_are_clear() {
            return;
        }
        let over = Self::above_budget(&self.sharings(of), process);
        self.findings.check(over.contains(&figure), Invariant::I08, || {
            format!("{} says that {process} is to trim {figure} bytes, but it is {over:?} above its budget", what())
        });
    }
}
