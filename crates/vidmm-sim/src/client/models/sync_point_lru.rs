//! A residency manager that many engines ship: an LRU list trimmed to sync points, which keeps to the budget that it
//! asks for.

use vidmm::{AllocationId, EvictError, EvictFlags, MakeResidentFlags, MemorySegmentGroup, Nanoseconds, TrimFlags};

use super::lru::{Lru, Resident, allocations};
use crate::client::list::{DeviceList, ListError, ListKeeper, Listed, Named};

const SECOND: Nanoseconds = 1_000_000_000;

/// The time that an allocation may lie unused: while little memory is used, and when the budget is used up.
const GRACE: [Nanoseconds; 2] = [60 * SECOND, SECOND];

/// The share of the budget above which the grace falls, in percent.
const GRACE_FALLS_FROM: u64 = 70;

/// The number of submissions that may be under way.
const MAX_LATENCY: u64 = 6;

/// A sync point is the fence value of a submission: all work up to it has ended when the fence has reached it.
///
/// Before a submission this manager evicts allocations that lay unused for too long and makes resident as many as fit into the budget.
/// Until all is resident it evicts up to the oldest sync point that has not ended, for which it waits. When only the
/// submission's own allocations are left it goes over its budget on purpose: MakeResident of Direct3D 12 does so unless
/// told otherwise.
#[derive(Debug, Default)]
pub(super) struct SyncPointLru {
    resident: Lru,
    /// The allocations of the present submission that are not resident yet.
    missing: Option<Vec<Named>>,
    /// Allocations last used in sync points up to this one were not used in the present period.
    period: u64,
}

impl SyncPointLru {
    /// Evicts allocations that lay unused for longer than the grace, as far as the GPU has ended with them.
    fn trim_by_age(&mut self, list: &mut DeviceList<'_>, budget: u64) -> Result<(), EvictError> {
        let (now, completed) = (list.now, list.completed);
        let grace = grace(self.resident.bytes, budget);
        let is_old = |resident: &Resident| resident.last_time + grace < now && resident.last_fence <= completed;
        let old = self.resident.take(is_old);
        list.evict(&allocations(&old), EvictFlags::empty()).map(drop)
    }

    /// Makes resident the first missing allocations, as many as fit into the budget.
    fn bring_in_what_fits(&mut self, list: &mut DeviceList<'_>, budget: u64) -> Result<(), ListError> {
        let missing = self.missing.as_mut().expect("a submission is being prepared");
        let mut room = budget.saturating_sub(self.resident.bytes);
        let fits = |what: &&Named| room.checked_sub(what.bytes).map(|left| room = left).is_some();
        let count = missing.iter().take_while(fits).count();
        self.bring_in(list, count).map(drop)
    }

    /// Makes resident the first `count` missing allocations. Returns whether there was room.
    fn bring_in(&mut self, list: &mut DeviceList<'_>, count: usize) -> Result<bool, ListError> {
        let missing = self.missing.as_mut().expect("a submission is being prepared");
        let batch: Vec<AllocationId> = missing[..count].iter().map(|what| what.allocation).collect();
        if list.make_resident(&batch, MakeResidentFlags::CANT_TRIM_FURTHER)?.is_some() {
            return Ok(false);
        }
        for what in missing.drain(..count) {
            self.resident.push(Resident { what, last_fence: list.submitted + 1, last_time: list.now });
        }
        Ok(true)
    }

    /// Evicts allocations used up to a sync point, the oldest first, until so many bytes are gone. Returns their bytes.
    fn trim_to_sync_point(
        &mut self,
        list: &mut DeviceList<'_>,
        sync_point: u64,
        bytes: u64,
    ) -> Result<u64, EvictError> {
        let mut trimmed = 0;
        let old = self.resident.take(|resident| {
            let goes = trimmed < bytes && resident.last_fence <= sync_point;
            trimmed += if goes { resident.what.bytes } else { 0 };
            goes
        });
        list.evict(&allocations(&old), EvictFlags::empty())?;
        Ok(trimmed)
    }
}

impl ListKeeper for SyncPointLru {
    fn make_resident(&mut self, list: &mut DeviceList<'_>, uses: &[Named]) -> Result<Listed, ListError> {
        if list.submitted - list.completed >= MAX_LATENCY {
            return Ok(Listed::WaitsFor(list.submitted + 1 - MAX_LATENCY));
        }
        let (sync_point, now) = (list.submitted + 1, list.now);
        if self.missing.is_none() {
            let missing = uses.iter().filter(|what| !self.resident.touch(what.allocation, sync_point, now));
            self.missing = Some(missing.copied().collect());
        }
        let budget = list.budget(MemorySegmentGroup::Local)?;
        self.trim_by_age(list, budget)?;
        loop {
            self.bring_in_what_fits(list, budget)?;
            let missing = self.missing.as_ref().expect("a submission is being prepared");
            let (count, bytes) = (missing.len(), missing.iter().map(|what| what.bytes).sum::<u64>());
            if count == 0 {
                self.missing = None;
                return Ok(Listed::All);
            }
            // Only the submission's own allocations are left, so it goes over the budget.
            let is_own = self.resident.oldest().is_none_or(|oldest| oldest.last_fence == sync_point);
            if is_own && self.bring_in(list, count)? {
                continue;
            }
            if is_own {
                return Err(ListError::NothingLeft { bytes });
            }
            let over = (self.resident.bytes + bytes).saturating_sub(budget).max(1);
            if self.trim_to_sync_point(list, list.completed, over)? == 0 {
                return Ok(Listed::WaitsFor(list.completed + 1));
            }
        }
    }

    fn leave(&mut self, list: &mut DeviceList<'_>, allocation: AllocationId) -> Result<(), EvictError> {
        list.evict(&allocations(&self.resident.take_one(allocation)), EvictFlags::empty()).map(drop)
    }

    fn trim_all(&mut self, list: &mut DeviceList<'_>) -> Result<(), EvictError> {
        // Allocations that the next submission had made resident are gone as well.
        self.missing = None;
        self.trim_to_sync_point(list, u64::MAX, u64::MAX).map(drop)
    }

    fn wants_trim_notifications(&self) -> bool {
        true
    }

    fn trim(&mut self, list: &mut DeviceList<'_>, flags: TrimFlags, num_bytes: u64) -> Result<(), EvictError> {
        if flags.contains(TrimFlags::PERIODIC_TRIM) {
            self.trim_to_sync_point(list, self.period.min(list.completed), u64::MAX)?;
        }
        if flags.intersects(TrimFlags::PERIODIC_TRIM | TrimFlags::RESTART_PERIODIC_TRIM) {
            self.period = list.completed;
        }
        if flags.contains(TrimFlags::TRIM_TO_BUDGET) {
            self.trim_to_sync_point(list, list.completed, num_bytes)?;
        }
        Ok(())
    }
}

/// The time that an allocation may lie unused while so much of the budget is used.
fn grace(used: u64, budget: u64) -> Nanoseconds {
    let percent = (used.min(budget) * 100).checked_div(budget).unwrap_or(100);
    let [longest, shortest] = GRACE;
    let falls = percent.saturating_sub(GRACE_FALLS_FROM) * (longest - shortest);
    longest - falls / (100 - GRACE_FALLS_FROM)
}

#[cfg(test)]
mod tests {
    use super::{SECOND, grace};

    #[test]
    fn the_grace_falls_from_a_minute_to_a_second_as_the_budget_is_used_up() {
        let used = [0, 70, 85, 100, 250];
        let seconds = used.map(|used| grace(used, 100) as f64 / SECOND as f64);
        assert_eq!(seconds, [60.0, 60.0, 30.5, 1.0, 1.0]);
        assert_eq!(grace(0, 0), SECOND);
    }
}
