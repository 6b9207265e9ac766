//! A residency manager as many engines ship it: an LRU list trimmed to sync points, which keeps to its budget by asking for it.

use vidmm::{EvictFlags, MakeResidentFlags, MemorySegmentGroup, Nanoseconds, TrimFlags};

use super::{
    lru::{Lru, Resident, allocations},
    model::{ClientModel, ModelDevice, ModelError, Prepared, Use},
};

const SECOND: Nanoseconds = 1_000_000_000;

/// How long something may lie unused: as long as little memory is used, and when the budget is used up.
const GRACE: [Nanoseconds; 2] = [60 * SECOND, SECOND];

/// From this share of the budget on the grace falls, in percent.
const GRACE_FALLS_FROM: u64 = 70;

/// How many submissions may be under way.
const MAX_LATENCY: u64 = 6;

/// A sync point is the fence value of a submission: everything up to it has ended when the fence has reached it.
///
/// Before a submission it evicts what lay unused for too long, makes resident what fits into the budget, and evicts up to
/// the oldest sync point that has not ended, which it waits for, until all is resident. When only the submission's own is
/// left it goes over its budget, on purpose: MakeResident of Direct3D 12 does so unless told otherwise.
#[derive(Debug, Default)]
pub(super) struct SyncPointLru {
    resident: Lru,
    /// What the submission that is being prepared has not made resident yet.
    missing: Option<Vec<Use>>,
    /// What was used in sync points up to this one was not used in the present period.
    period: u64,
}

impl SyncPointLru {
    /// Evicts what lay unused for longer than the grace, as far as the GPU is done with it.
    fn trim_by_age(&mut self, device: &mut ModelDevice<'_>, budget: u64) -> Result<(), ModelError> {
        let (now, completed) = (device.now, device.completed);
        let grace = grace(self.resident.bytes, budget);
        let is_old = |resident: &Resident| resident.last_time + grace < now && resident.last_fence <= completed;
        let old = self.resident.take(is_old);
        Ok(device.evict(&allocations(&old), EvictFlags::empty())?)
    }

    /// Makes resident the first of what is missing, as much as fits into the budget.
    fn bring_in_what_fits(&mut self, device: &mut ModelDevice<'_>, budget: u64) -> Result<(), ModelError> {
        let missing = self.missing.as_mut().expect("a submission is being prepared");
        let mut room = budget.saturating_sub(self.resident.bytes);
        let fits = |what: &&Use| room.checked_sub(what.bytes).map(|left| room = left).is_some();
        let count = missing.iter().take_while(fits).count();
        self.bring_in(device, count).map(drop)
    }

    /// Makes resident the first `count` of what is missing. Returns whether there was room.
    fn bring_in(&mut self, device: &mut ModelDevice<'_>, count: usize) -> Result<bool, ModelError> {
        let missing = self.missing.as_mut().expect("a submission is being prepared");
        let batch: Vec<_> = missing[..count].iter().map(|what| what.allocation).collect();
        if device.make_resident(&batch, MakeResidentFlags::CANT_TRIM_FURTHER)?.is_some() {
            return Ok(false);
        }
        for what in missing.drain(..count) {
            self.resident.push(Resident { what, last_fence: device.submitted + 1, last_time: device.now });
        }
        Ok(true)
    }

    /// Evicts what was used up to a sync point, the oldest first, until so many bytes are gone. Returns how many are.
    fn trim_to_sync_point(
        &mut self,
        device: &mut ModelDevice<'_>,
        sync_point: u64,
        bytes: u64,
    ) -> Result<u64, ModelError> {
        let mut trimmed = 0;
        let old = self.resident.take(|resident| {
            let goes = trimmed < bytes && resident.last_fence <= sync_point;
            trimmed += if goes { resident.what.bytes } else { 0 };
            goes
        });
        device.evict(&allocations(&old), EvictFlags::empty())?;
        Ok(trimmed)
    }
}

impl ClientModel for SyncPointLru {
    fn prepare(&mut self, device: &mut ModelDevice<'_>, uses: &[Use]) -> Result<Prepared, ModelError> {
        if device.submitted - device.completed >= MAX_LATENCY {
            return Ok(Prepared::WaitsFor(device.submitted + 1 - MAX_LATENCY));
        }
        let (sync_point, now) = (device.submitted + 1, device.now);
        if self.missing.is_none() {
            let missing = uses.iter().filter(|what| !self.resident.touch(what.allocation, sync_point, now));
            self.missing = Some(missing.copied().collect());
        }
        let budget = device.budget(MemorySegmentGroup::Local)?;
        self.trim_by_age(device, budget)?;
        loop {
            self.bring_in_what_fits(device, budget)?;
            let missing = self.missing.as_ref().expect("a submission is being prepared");
            let (count, bytes) = (missing.len(), missing.iter().map(|what| what.bytes).sum::<u64>());
            if count == 0 {
                self.missing = None;
                return Ok(Prepared::Ready);
            }
            // Only the submission's own is left: over the budget, then.
            let is_own = self.resident.oldest().is_none_or(|oldest| oldest.last_fence == sync_point);
            if is_own && self.bring_in(device, count)? {
                continue;
            }
            if is_own {
                return Err(ModelError::NothingLeft { bytes });
            }
            let over = (self.resident.bytes + bytes).saturating_sub(budget).max(1);
            if self.trim_to_sync_point(device, device.completed, over)? == 0 {
                return Ok(Prepared::WaitsFor(device.completed + 1));
            }
        }
    }

    fn wants_trim_notifications(&self) -> bool {
        true
    }

    fn trim(&mut self, device: &mut ModelDevice<'_>, flags: TrimFlags, num_bytes: u64) -> Result<(), ModelError> {
        if flags.contains(TrimFlags::PERIODIC_TRIM) {
            self.trim_to_sync_point(device, self.period.min(device.completed), u64::MAX)?;
        }
        if flags.intersects(TrimFlags::PERIODIC_TRIM | TrimFlags::RESTART_PERIODIC_TRIM) {
            self.period = device.completed;
        }
        if flags.contains(TrimFlags::TRIM_TO_BUDGET) {
            self.trim_to_sync_point(device, device.completed, num_bytes)?;
        }
        Ok(())
    }
}

/// How long something may lie unused while so much of the budget is used.
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
