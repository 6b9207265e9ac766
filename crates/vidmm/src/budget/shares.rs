//! The level at which processes share an account (RES-53, U-31, U-32).
//!
//! Each process has a *weight*, a *reservation* and a *demand*: what the lists of its devices name, and named while its oldest
//! outstanding work was submitted. Its column is as wide as its weight and stands on its reservation; the account's capacity is poured over all columns like water, up to one level `L`. Who
//! asks for less than the level leaves the rest to the others.
//!
//! ```text
//!              |                        #######
//!              |                        # not #        demand above the level: over budget
//!      ~~~~~~~~|~~~~~~~~~+---+~~~~~~~~~~#######~~~~~~~ L     bytes for each unit of weight
//!              |         |   |          |.....|
//!              |  ###    |...|  ###     |.....|        . water: what a process gets above its reservation
//!              |  |.|    |...|  |.|     |.....|
//!      --------+--+-+----+---+--+-+-----+-----+--------
//!              |  |r|    | r |          |  r  |        its reservation, or its demand if that is less
//!
//!     weight       1       2     1         3
//! ```
//!
//! `L` is the largest level at which the sum of `min(demand, reservation + weight * L)` over all processes is at most the
//! capacity. The *budget* of a process is `reservation + weight * L`, with `L` taken as if its own demand had no end: what it
//! could have at most now. So its own demand never changes its budget, and whoever lowers its demand to its budget is within it.
//!
//! A budget is at least the reservation as long as all reservations fit together. Where they do not (page tables have taken the
//! room since they were made), nothing is poured: a process then gets what the reservations in use leave of the capacity, and
//! at least the share of the capacity that its reservation is of all reservations.
//!
//! For all demands the sum of `min(demand, budget)` over all processes is at most the capacity: its own level gives no
//! process more of what it demands than the common one does.

use super::{
    level::Level,
    ranking::{self, Parted, Rank, Ranking},
};
use alloc::vec::Vec;

use crate::id::ProcessIx;

/// A published budget stands while the present one is within this part of it: 1/20 is 5 %.
const HYSTERESIS: u128 = 20;

/// The part that a process has in the sharing of an account.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct ProcessShare {
    /// From 1 to 16.
    pub weight: u32,
    /// The minimum that it cannot go without, in bytes.
    pub reservation: u64,
    /// Bytes that its devices require at most: for each, the largest that its list has been since its oldest outstanding
    /// submission or request was made. Capped by the reservation if the process is halted (D30).
    pub demand: u64,
}

impl ProcessShare {
    /// The part of the demand that the reservation covers.
    fn covered(self) -> u64 {
        self.demand.min(self.reservation)
    }

    fn rank(self) -> Rank {
        Rank { excess: self.demand - self.covered(), weight: self.weight }
    }
}

/// The budget that a process was told, and what it was told it for.
#[derive(Clone, Copy, Debug)]
struct Published {
    budget: u64,
    weight: u32,
    reservation: u64,
}

#[derive(Clone, Copy, Debug)]
struct Member {
    share: ProcessShare,
    /// The demand without a halt.
    asked: u64,
    /// Whether the process is suspended by a call, or without power.
    is_halted: bool,
    /// Bytes that the lists of its devices name now: those that it can trim (U-33).
    requested: u64,
    /// Bytes of its allocations that are resident.
    usage: u64,
    /// Whether the process is among those that have changed.
    has_changed: bool,
    published: Option<Published>,
}

/// The bytes that a process can lose at most.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct ToLose {
    /// Resident bytes above the reservation.
    pub above_reservation: i64,
    /// Resident bytes above the part of the demand that the reservation covers.
    pub above_covered: i64,
}

impl ToLose {
    /// No limit.
    pub const EVERYTHING: Self = Self { above_reservation: i64::MAX, above_covered: i64::MAX };

    /// Nothing at all.
    pub const NOTHING: Self = Self { above_reservation: i64::MIN, above_covered: i64::MIN };

    /// The rest after a loss of `bytes`.
    pub fn less(self, bytes: u64) -> Self {
        let less = |term: i64| if term == i64::MAX { term } else { term.saturating_sub_unsigned(bytes) };
        Self { above_reservation: less(self.above_reservation), above_covered: less(self.above_covered) }
    }

    /// Whether it is as much in both terms.
    pub fn is_at_least(self, least: Self) -> bool {
        self.above_reservation >= least.above_reservation && self.above_covered >= least.above_covered
    }

    /// The larger of each term.
    pub fn max(self, other: Self) -> Self {
        Self {
            above_reservation: self.above_reservation.max(other.above_reservation),
            above_covered: self.above_covered.max(other.above_covered),
        }
    }
}

/// Bytes as a signed number, the largest if there are more.
fn signed(bytes: impl TryInto<i64>) -> i64 {
    bytes.try_into().unwrap_or(i64::MAX)
}

/// How processes share one account. Changing one of them costs O(log n); asking for a budget costs as much at most, and under
/// pressure nearly always O(1).
#[derive(Debug)]
pub(crate) struct AccountShares {
    capacity: u64,
    /// The most bytes that budgets are for, however many there are (RES-25).
    limit: u64,
    /// None without pressure, and where the reservations in use do not fit together. Every change of anything else here ends with
    /// finding it anew.
    level: Option<Level>,
    /// By process.
    members: Vec<Option<Member>>,
    ranking: Ranking,
    /// Processes with a change of the share or the usage, until `next_changed` returns them.
    changed: Vec<ProcessIx>,
    // Sums over all processes.
    demanded: u128,
    reserved: u128,
    covered: u128,
    requested: u128,
}

impl AccountShares {
    /// An account of `capacity` bytes that nobody uses, of which budgets are for no more than `limit`.
    pub fn new(capacity: u64, limit: u64) -> Self {
        let mut shares = Self {
            capacity,
            limit,
            level: None,
            members: Vec::new(),
            ranking: Ranking::default(),
            changed: Vec::new(),
            demanded: 0,
            reserved: 0,
            covered: 0,
            requested: 0,
        };
        shares.set_capacity(capacity);
        shares
    }

    /// Changes the most bytes that budgets are for; the capacity is to be set then.
    pub fn set_limit(&mut self, limit: u64) {
        self.limit = limit;
    }

    /// Changes the capacity, in bytes.
    pub fn set_capacity(&mut self, capacity: u64) {
        self.capacity = capacity.min(self.limit);
        self.find_level();
    }

    /// Adds a process.
    ///
    /// # Panics
    ///
    /// If it is there already, or has no weight.
    pub fn insert(&mut self, process: ProcessIx, share: ProcessShare) {
        assert!(share.weight > 0, "a process without weight has no share");
        let index = process.at();
        if self.members.len() <= index {
            self.members.resize(index + 1, None);
        }
        let member = Member {
            share,
            asked: share.demand,
            is_halted: false,
            requested: 0,
            usage: 0,
            has_changed: false,
            published: None,
        };
        let before = self.members[index].replace(member);
        assert!(before.is_none(), "a process shares an account once");
        self.add(share);
        self.ranking.insert(process.get(), share.rank());
        self.find_level();
    }

    /// Takes a process out.
    ///
    /// # Panics
    ///
    /// If it is not there, as everything else that names a process.
    pub fn remove(&mut self, process: ProcessIx) {
        let Member { share, requested, .. } = *self.member(process);
        self.ranking.remove(process.get());
        self.subtract(share);
        self.requested -= u128::from(requested);
        self.members[process.at()] = None;
        self.find_level();
    }

    /// Changes a process's weight, from 1 to 16.
    pub fn set_weight(&mut self, process: ProcessIx, weight: u32) {
        assert!(weight > 0, "a process without weight has no share");
        self.change(process, |member| member.share.weight = weight);
    }

    /// Changes a process's reservation, in bytes.
    pub fn set_reservation(&mut self, process: ProcessIx, reservation: u64) {
        self.change(process, |member| member.share.reservation = reservation);
    }

    /// Changes the demand of a process without a halt, in bytes.
    pub fn set_demand(&mut self, process: ProcessIx, demand: u64) {
        self.change(process, |member| member.asked = demand);
    }

    /// The demand of a process without a halt, in bytes.
    pub fn asked(&self, process: ProcessIx) -> u64 {
        self.member(process).asked
    }

    /// Halts a process, suspended by a call or without power; or ends the halt. Returns whether the state is new.
    pub fn set_halted(&mut self, process: ProcessIx, is_halted: bool) -> bool {
        let is_new = self.member(process).is_halted != is_halted;
        if is_new {
            self.change(process, |member| member.is_halted = is_halted);
        }
        is_new
    }

    /// Changes what the lists of a process's devices name, in bytes.
    pub fn set_requested(&mut self, process: ProcessIx, requested: u64) {
        let member = self.members[process.at()].as_mut().expect("a process that has a list shares the account");
        let before = core::mem::replace(&mut member.requested, requested);
        self.requested = self.requested - u128::from(before) + u128::from(requested);
    }

    /// Bytes that the lists of a process's devices name.
    pub fn requested(&self, process: ProcessIx) -> u64 {
        self.member(process).requested
    }

    /// A process has `bytes` more resident.
    pub fn add_usage(&mut self, process: ProcessIx, bytes: u64) {
        self.note_changed(process).usage += bytes;
    }

    /// A process has `bytes` less resident.
    pub fn subtract_usage(&mut self, process: ProcessIx, bytes: u64) {
        self.note_changed(process).usage -= bytes;
    }

    /// Bytes of a process's allocations that are resident.
    pub fn usage(&self, process: ProcessIx) -> u64 {
        self.member(process).usage
    }

    /// A process with a change of the share or the usage since the last return of the process.
    pub fn next_changed(&mut self) -> Option<ProcessIx> {
        let process = self.changed.pop()?;
        if let Some(member) = &mut self.members[process.at()] {
            member.has_changed = false;
        }
        Some(process)
    }

    fn note_changed(&mut self, process: ProcessIx) -> &mut Member {
        let member = self.members[process.at()].as_mut().expect("a process that is changed shares the account");
        if !core::mem::replace(&mut member.has_changed, true) {
            self.changed.push(process);
        }
        member
    }

    /// The part of a process.
    pub fn get(&self, process: ProcessIx) -> ProcessShare {
        self.member(process).share
    }

    /// Bytes that all lists name.
    pub fn requested_total(&self) -> u64 {
        self.requested.try_into().unwrap_or(u64::MAX)
    }

    /// Bytes that all processes have reserved.
    pub fn reservation_total(&self) -> u64 {
        self.reserved.try_into().unwrap_or(u64::MAX)
    }

    /// Whether not all processes can have what they demand: only then budgets are imposed.
    pub fn is_pressed(&self) -> bool {
        self.demanded > self.capacity.into()
    }

    /// The most that the process could have now, in bytes.
    pub fn budget(&self, process: ProcessIx) -> u64 {
        let share = self.get(process);
        let left = self.left_by_others(share);
        let Some(free) = left.checked_sub(share.reservation) else { return self.budget_of_the_crowded(share, left) };
        let parted = self.level.and_then(|level| level.parted_without(share.rank(), free));
        let Parted { satisfied_excess, capped_weight, .. } =
            parted.unwrap_or_else(|| self.fill(Some(process), free, share.weight));
        let weight = u128::from(share.weight);
        let above_reservation = weight * (u128::from(free) - satisfied_excess) / (u128::from(capped_weight) + weight);
        share.reservation + above_reservation as u64
    }

    /// The largest budget that the process could be granted: all that the reservations which others use leave (U-24). Never
    /// below its budget.
    pub fn maximum_budget(&self, process: ProcessIx) -> u64 {
        let share = self.get(process);
        let left = self.left_by_others(share);
        if left >= share.reservation { left } else { self.budget_of_the_crowded(share, left) }
    }

    /// Whether a process keeps what it is entitled to from another, once `bytes` more have gone.
    pub fn keeps(&self, process: ProcessIx, other: ProcessIx, bytes: u64) -> bool {
        process != other && self.spare(process, other).is_some_and(|spare| bytes > spare)
    }

    /// Bytes that a process can lose for another process and keep the entitlement. The entitlement is the reservation (U-31); or the
    /// budget, while budgets are imposed (RES-53, RES-70), and for a process of more weight than the other process. Without an
    /// entitlement there is no limit.
    pub fn spare(&self, process: ProcessIx, other: ProcessIx) -> Option<u64> {
        if !self.keeps_budget(self.get(process).weight, other) {
            return self.above_reservation(process);
        }
        let budget = self.budget(process);
        (budget > 0).then(|| self.usage(process).saturating_sub(budget))
    }

    /// Whether processes of a weight keep their budgets from another, and not only their reservations.
    fn keeps_budget(&self, weight: u32, other: ProcessIx) -> bool {
        self.is_pressed() || weight > self.get(other).weight
    }

    /// Resident bytes above the reservation; none for a process without a reservation.
    fn above_reservation(&self, process: ProcessIx) -> Option<u64> {
        let (share, usage) = (self.get(process), self.usage(process));
        (share.reservation > 0).then(|| usage.saturating_sub(share.reservation))
    }

    /// The bytes that a process has to lose. [`least_to_lose`](Self::least_to_lose) has limits in the same two terms.
    pub fn to_lose(&self, process: ProcessIx) -> ToLose {
        let above_reservation = self.above_reservation(process).map_or(i64::MAX, signed);
        let above_covered = signed(self.usage(process)) - signed(self.get(process).covered());
        ToLose { above_reservation, above_covered }
    }

    /// The least that a process of a weight has to lose, if the process loses anything for another. A process with as much may keep
    /// everything all the same.
    ///
    /// Let `F` be what the reservations in use leave of the capacity, `S` the satisfied excess, `C` the weight of the others, the weight
    /// of the process included or not. Then `(F - S) / (C + weight)` is no more than the level of the process alone, so the budget is at
    /// least what the reservation covers and `weight` times as much.
    pub fn least_to_lose(&self, weight: u32, other: ProcessIx) -> ToLose {
        if !self.keeps_budget(weight, other) {
            return ToLose { above_reservation: 0, above_covered: i64::MIN };
        }
        // A budget is below the reservation only where the reservations do not fit together.
        let above_reservation = if self.reserved <= self.capacity.into() { 0 } else { i64::MIN };
        let (poured, capped_weight) = match self.level {
            Some(Level { free, parted }) => (u128::from(free) - parted.satisfied_excess, parted.capped_weight),
            None => match u128::from(self.capacity).checked_sub(self.demanded) {
                Some(left) => (left, 0),
                None => return ToLose { above_reservation, above_covered: i64::MIN },
            },
        };
        let share = u128::from(weight) * poured / (u128::from(capped_weight) + u128::from(weight));
        ToLose { above_reservation, above_covered: signed(share) }
    }

    /// Processes that demand more than their budget while the account is pressed; those that are above the level by most for
    /// their weight come first, among equals the higher number.
    pub fn over_budget(&self) -> impl Iterator<Item = ProcessIx> {
        let level = self.level;
        let is_capped = move |process: ProcessIx| level.is_none_or(|level| level.is_below(self.get(process).rank()));
        let capped = self.ranking.descending().map(ProcessIx::new).take_while(move |&process| is_capped(process));
        let pressed = self.is_pressed().then_some(capped).into_iter().flatten();
        // Without a level even a reservation may be above the budget.
        pressed.filter(move |&process| level.is_some() || self.get(process).demand > self.budget(process))
    }

    /// The budget that the process was told, unless its budget has moved away from that by more than 5 %, or its weight or reservation
    /// has changed; then its budget.
    pub fn published_budget(&self, process: ProcessIx) -> u64 {
        self.stands(process).unwrap_or_else(|| self.budget(process))
    }

    /// Says what the process is to be told, if it is to be told anything, and takes it as told.
    pub fn publish(&mut self, process: ProcessIx) -> Option<u64> {
        if self.stands(process).is_some() {
            return None;
        }
        let budget = self.budget(process);
        let member = self.members[process.at()].as_mut()?;
        let ProcessShare { weight, reservation, .. } = member.share;
        let before = member.published.replace(Published { budget, weight, reservation });
        (before.map(|published| published.budget) != Some(budget)).then_some(budget)
    }

    /// The published budget, while it stands.
    fn stands(&self, process: ProcessIx) -> Option<u64> {
        let Member { share, published, .. } = *self.member(process);
        let Published { budget, weight, reservation } = published?;
        let moved = u128::from(self.budget(process).abs_diff(budget)) * HYSTERESIS;
        (weight == share.weight && reservation == share.reservation && moved <= budget.into()).then_some(budget)
    }

    /// Fills `free` bytes above what reservations cover: at the level, who is satisfied, and who is not. One process is left
    /// out if its demand is taken to have no end; `endless_weight` is its weight.
    fn fill(&self, endless: Option<ProcessIx>, free: u64, endless_weight: u32) -> Parted {
        ranking::part(
            &self.ranking,
            endless,
            |Rank { excess, weight }, Parted { satisfied_excess, capped_weight, .. }| {
                // Whether a level of excess / weight takes no more than what is free.
                let free = u128::from(free).checked_sub(satisfied_excess);
                let capped_weight = u128::from(capped_weight) + u128::from(endless_weight);
                free.is_some_and(|free| u128::from(excess) * capped_weight <= u128::from(weight) * free)
            },
        )
    }

    /// The part of the capacity that the reservations in use of others leave.
    fn left_by_others(&self, share: ProcessShare) -> u64 {
        let others = self.covered - u128::from(share.covered());
        u128::from(self.capacity).saturating_sub(others) as u64
    }

    /// The budget where even its reservation does not fit beside those that others use, which leave `left`.
    fn budget_of_the_crowded(&self, share: ProcessShare, left: u64) -> u64 {
        let proportion = u128::from(share.reservation) * u128::from(self.capacity) / self.reserved;
        left.max(proportion as u64)
    }

    fn member(&self, process: ProcessIx) -> &Member {
        let member = self.members.get(process.at()).and_then(Option::as_ref);
        member.expect("a process that is asked for shares the account")
    }

    fn change(&mut self, process: ProcessIx, change: impl FnOnce(&mut Member)) {
        let member = self.note_changed(process);
        let before = member.share;
        change(member);
        let limit = if member.is_halted { member.share.reservation } else { u64::MAX };
        member.share.demand = member.asked.min(limit);
        let after = member.share;
        self.subtract(before);
        self.add(after);
        if after.rank() != before.rank() {
            self.ranking.remove(process.get());
            self.ranking.insert(process.get(), after.rank());
        }
        self.find_level();
    }

    fn find_level(&mut self) {
        let free = u128::from(self.capacity).checked_sub(self.covered).filter(|_| self.is_pressed());
        self.level = free.map(|free| Level { free: free as u64, parted: self.fill(None, free as u64, 0) });
    }

    fn add(&mut self, share: ProcessShare) {
        self.demanded += u128::from(share.demand);
        self.reserved += u128::from(share.reservation);
        self.covered += u128::from(share.covered());
    }

    fn subtract(&mut self, share: ProcessShare) {
        self.demanded -= u128::from(share.demand);
        self.reserved -= u128::from(share.reservation);
        self.covered -= u128::from(share.covered());
    }
}

#[cfg(test)]
mod tests;
