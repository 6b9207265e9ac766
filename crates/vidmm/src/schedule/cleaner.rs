//! Write-behind: written content at the cold end of a memory is copied out ahead of the eviction, in idle time (D37).
//!
//! A copy is made in chunks of at most 250 us, one at a time: so nobody waits for longer than a chunk. The speed of the bus is learned from
//! the chunks. The copies take no more than a share of the time. The cold end is what goes next, up to a watermark; memory that is free
//! beyond a half counts as clean. Clean content that is written again before the allocation goes was copied in vain: the watermark falls.
//! The watermark rises with each eviction of clean content, and slowly with each eviction that copies.

use alloc::vec::Vec;

use crate::{
    adapter::write_behind::WriteBehind,
    budget::account::Account,
    id::{AllocationId, AllocationIx, DeviceIx, PlanNo},
    objects::{allocation::AllocationState, list::ListEntry},
    plans::{Plans, cleaning::ToClean},
    state::State,
    units::{Nanoseconds, PAGE_SIZE_64K},
};

/// The longest chunk.
const CHUNK: Nanoseconds = 250_000;
/// Time that nothing was copied in gives copies the share of a second at most.
const SECOND: Nanoseconds = 1_000_000_000;
/// A search looks at no more candidates of a memory than this.
const CANDIDATES_MAX: usize = 256;
/// Content that was cleaned in vain lowers the watermark by so many times the size.
const VAIN_WEIGHT: u64 = 2;
/// An eviction that copies raises the watermark by this part of the bytes.
const MISSED_PART: u64 = 8;

/// The state of write-behind.
#[derive(Debug)]
pub(crate) struct Cleaner {
    options: WriteBehind,
    /// The bytes at the cold ends of all memories that are to be clean, as learned, and the most.
    clean_bytes: u64,
    most_clean_bytes: u64,
    /// The bytes of all memories.
    memory_bytes: u64,
    /// The chunk under way.
    under_way: Option<Chunk>,
    /// The allocation of which a part is clean, and the first byte that is not.
    begun: Option<(AllocationId, u64)>,
    /// Clean allocations whose fate is not known yet.
    cleaned: Vec<AllocationId>,
    /// Bytes copied out by evictions so far, when the watermark was last learned.
    copied: u64,
    /// Bytes that are copied in the time of a chunk, as the last chunk has shown.
    chunk_bytes: u64,
    /// The time that copies may still take: no more than the share of a second, as at the start; below 0 after a chunk that took longer
    /// than expected.
    credit: i64,
    /// The time of the last count of the credit.
    counted_at: Nanoseconds,
    /// The next search for something to clean, and whether it comes also if nothing happens before.
    searches_at: Nanoseconds,
    is_awaited: bool,
}

#[derive(Debug)]
struct Chunk {
    plan: PlanNo,
    allocation: AllocationId,
    bytes: u64,
    is_last: bool,
    began_at: Nanoseconds,
}

impl Cleaner {
    /// Nothing is clean yet. The memories of the adapter have so many bytes.
    pub(crate) fn new(options: WriteBehind, memory_bytes: u64) -> Self {
        let most_clean_bytes = percent_of(memory_bytes, options.watermark_percent);
        Self {
            options,
            clean_bytes: most_clean_bytes,
            most_clean_bytes,
            memory_bytes,
            under_way: None,
            begun: None,
            cleaned: Vec::new(),
            copied: 0,
            chunk_bytes: PAGE_SIZE_64K,
            credit: share_of(SECOND, options),
            counted_at: 0,
            searches_at: 0,
            is_awaited: false,
        }
    }

    /// Whether content is copied out ahead of evictions.
    #[inline]
    pub(super) fn is_on(&self) -> bool {
        self.options.watermark_percent > 0
    }

    /// Whether the next search comes at a time, and not with the next event.
    #[inline]
    pub(super) fn is_awaited(&self) -> bool {
        self.is_awaited
    }

    /// Takes note of the time. Returns whether a chunk is under way.
    pub(super) fn is_under_way(&mut self, state: &State, plans: &Plans) -> bool {
        let now = state.moment.now();
        self.earn(now);
        if let Some(chunk) = self.under_way.take_if(|chunk| plans.stream.is_retired(chunk.plan)) {
            let took = (now - chunk.began_at).max(1);
            self.credit = self.credit.saturating_sub(i64::try_from(took).unwrap_or(i64::MAX));
            // A reset ended the copy early, and the time does not tell the speed of the bus.
            if !plans.stream.has_abandoned(chunk.plan) {
                self.settle_chunk(state, chunk, took);
            }
        }
        self.under_way.is_some()
    }

    /// Decides the next chunk, if there is something to clean and time for the copy.
    pub(super) fn begin_chunk(&mut self, state: &mut State, plans: &mut Plans) {
        let now = state.moment.now();
        if now < self.searches_at {
            self.is_awaited = true;
            return state.moment.wake_at(self.searches_at);
        }
        self.is_awaited = false;
        self.learn(state);
        let Some(part) = self.next_part(state, plans) else {
            // The next search is not at once, and only after something has happened.
            self.searches_at = now.saturating_add(CHUNK);
            return;
        };
        let missing = time_of(part.size, self.chunk_bytes).saturating_sub(self.credit);
        if missing > 0 {
            let until = missing.unsigned_abs().saturating_mul(100) / u64::from(self.options.link_percent.max(1)) + 1;
            (self.searches_at, self.is_awaited) = (now.saturating_add(until), true);
            return state.moment.wake_at(self.searches_at);
        }
        let id = state.objects.allocation_id(part.index);
        let end = part.offset + part.size;
        let is_last = end == state.objects[part.index].size;
        let plan = plans.plan_clean(state, &part);
        self.begun = (!is_last).then_some((id, end));
        self.under_way = Some(Chunk { plan, allocation: id, bytes: part.size, is_last, began_at: now });
    }

    /// A chunk has ended: the time tells the speed of the bus.
    fn settle_chunk(&mut self, state: &State, chunk: Chunk, took: Nanoseconds) {
        let Chunk { allocation: id, bytes, is_last, .. } = chunk;
        let record = state.objects.allocations.lookup(id).map(|index| &state.objects[index]);
        let is_clean = is_last && record.is_ok_and(|allocation| !allocation.is(AllocationState::DIRTY));
        self.cleaned.extend(is_clean.then_some(id));
        let in_chunk = u128::from(bytes) * u128::from(CHUNK) / u128::from(took);
        let in_chunk = u64::try_from(in_chunk).unwrap_or(u64::MAX);
        self.chunk_bytes = (in_chunk - in_chunk % PAGE_SIZE_64K).max(PAGE_SIZE_64K);
    }

    /// The time up to now gives copies their share.
    fn earn(&mut self, now: Nanoseconds) {
        let since = now - core::mem::replace(&mut self.counted_at, now);
        let most = share_of(SECOND, self.options);
        self.credit = self.credit.saturating_add(share_of(since, self.options)).min(most);
    }

    /// Learns from the fates of clean allocations, and from evictions that had to copy.
    fn learn(&mut self, state: &mut State) {
        let statistics = state.moment.statistics();
        let copied = statistics.bytes_paged_out - statistics.bytes_cleaned;
        let missed = (copied - core::mem::replace(&mut self.copied, copied)) / MISSED_PART;
        let (mut useful, mut vain) = (missed, 0u64);
        let objects = &mut state.objects;
        self.cleaned.retain(|&id| {
            let Ok(index) = objects.allocations.lookup(id) else { return false };
            let allocation = &mut objects[index];
            let stays = allocation.is(AllocationState::CLEANED);
            let is_written = stays && allocation.is(AllocationState::DIRTY);
            if is_written {
                vain = allocation.size.saturating_mul(VAIN_WEIGHT).saturating_add(vain);
                allocation.forget_cleaned();
            } else if !stays {
                useful = allocation.size.saturating_add(useful);
            }
            stays && !is_written
        });
        self.clean_bytes = self.clean_bytes.saturating_add(useful).saturating_sub(vain).min(self.most_clean_bytes);
    }

    /// The bytes at the cold end of a memory that are to be clean.
    fn watermark(&self, state: &State, account: Account) -> u64 {
        let size = u128::from(state.memory.placers[account].size());
        let part = size * u128::from(self.clean_bytes) / u128::from(self.memory_bytes.max(1));
        u64::try_from(part).unwrap_or(u64::MAX)
    }

    /// The next part to copy: of the allocation that is clean in part, or else of the first that goes.
    fn next_part(&self, state: &State, plans: &Plans) -> Option<ToClean> {
        state.memory.accounts().memory().find_map(|account| self.next_part_in(state, plans, account))
    }

    fn next_part_in(&self, state: &State, plans: &Plans, account: Account) -> Option<ToClean> {
        let State { memory, residency, objects, .. } = state;
        let watermark = self.watermark(state, account);
        let begun = self.begun.and_then(|(id, offset)| Some((objects.allocations.lookup(id).ok()?, offset)));
        let begun = begun.filter(|&(index, _)| objects[index].is(AllocationState::CLEANING));
        // While less than half of the memory is in use, nothing is short.
        let spare = memory.available(account).saturating_sub(memory.placers[account].size() / 2);
        let (mut ahead, mut first) = (spare, None);
        let part = |(index, offset): (AllocationIx, u64), ahead| {
            let size = self.chunk_bytes.min(objects[index].size - offset);
            ToClean { index, offset, size, ahead, watermark }
        };
        for index in residency.evictable[account].iter(&objects.allocations).take(CANDIDATES_MAX) {
            if ahead >= watermark {
                break;
            }
            let is_begun = begun.filter(|&(begun, _)| begun == index);
            if (is_begun.is_some() || first.is_none()) && can_be_cleaned(state, plans, index) {
                if let Some(begun) = is_begun {
                    return Some(part(begun, ahead));
                }
                first = Some((index, ahead));
            }
            ahead = objects[index].size.saturating_add(ahead);
        }
        first.map(|(index, ahead)| part((index, 0), ahead))
    }
}

/// Whether a candidate has content that only the memory segment has, which nothing that was handed out writes, and which the owner or a
/// driver will miss.
fn can_be_cleaned(state: &State, plans: &Plans, index: AllocationIx) -> bool {
    const NEVER: AllocationState = AllocationState::OFFERED
        .union(AllocationState::DESTROYED)
        .union(AllocationState::EVICT_SOON)
        .union(AllocationState::LOCKED)
        .union(AllocationState::LOCK_PENDING)
        .union(AllocationState::KEEPS_COPY)
        .union(AllocationState::EXISTING_SYS_MEM)
        .union(AllocationState::NOT_COMMITTED);
    let State { objects, residency, .. } = state;
    let allocation = &objects[index];
    let is_used = |device: DeviceIx, entry: &ListEntry| entry.until() > objects[device].retired();
    allocation.is(AllocationState::DIRTY)
        && !allocation.is_any(NEVER)
        && plans.stream.is_retired(allocation.last_plan)
        && !allocation.any_entry(is_used)
        && residency.cleans(objects, index)
}

/// So many percent of a number.
fn percent_of(number: u64, percent: u8) -> u64 {
    u64::try_from(u128::from(number) * u128::from(percent) / 100).unwrap_or(u64::MAX)
}

/// The share of a time that copies may take.
fn share_of(time: Nanoseconds, options: WriteBehind) -> i64 {
    i64::try_from(percent_of(time, options.link_percent)).unwrap_or(i64::MAX)
}

/// The time of a copy, if so many bytes are copied in the time of a chunk.
fn time_of(bytes: u64, chunk_bytes: u64) -> i64 {
    let time = u128::from(bytes) * u128::from(CHUNK) / u128::from(chunk_bytes.max(1));
    i64::try_from(time).unwrap_or(i64::MAX)
}
