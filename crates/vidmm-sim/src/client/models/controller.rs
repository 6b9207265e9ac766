//! The residency controller of a compute driver: trim call-backs, and a ladder of measures when memory runs out.

use vidmm::{AllocationId, EvictError, EvictFlags, MakeResidentFlags, TrimFlags};

use super::lru::{Lru, Resident, allocations};
use crate::client::list::{DeviceList, ListError, ListKeeper, Listed, Named};

/// The rung of the ladder on which a refused submission is.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
enum Rung {
    /// The submission was not refused yet.
    #[default]
    Ground,
    /// The controller trims this many bytes, and waits for the GPU's last use of each allocation.
    Trims(u64),
    /// The controller waits for all submitted work.
    Flushes,
    /// The controller evicts temporary allocations.
    EvictsTemporaries,
    /// The controller has nothing left to trim.
    CantTrimFurther,
}

/// Evicts only allocations that the GPU has ended with. A trim request that cannot be fulfilled goes on as fences come
/// in.
#[derive(Debug, Default)]
pub(super) struct Controller {
    resident: Lru,
    rung: Rung,
    /// Whether a submission was refused once: from then on evictions are immediate.
    is_budget_exhausted: bool,
    /// The fence value at the last periodic trim.
    last_trim_fence: u64,
    /// The bytes that are still to be trimmed when the GPU has ended with them.
    to_trim: u64,
}

impl Controller {
    fn evict_flags(&self) -> EvictFlags {
        if self.is_budget_exhausted { EvictFlags::empty() } else { EvictFlags::EVICT_ONLY_IF_NECESSARY }
    }

    /// Evicts `gone`, and returns its bytes.
    fn evict(&mut self, list: &mut DeviceList<'_>, gone: &[Resident]) -> Result<u64, EvictError> {
        list.evict(&allocations(gone), self.evict_flags())?;
        Ok(gone.iter().map(|resident| resident.what.bytes).sum())
    }

    /// Evicts the oldest until so many bytes are gone; stops at one that the GPU still uses. Returns the bytes left to
    /// trim.
    fn trim_to_budget(&mut self, list: &mut DeviceList<'_>, bytes: u64) -> Result<u64, EvictError> {
        let mut gone = Vec::new();
        let mut left = bytes;
        while left > 0 && self.resident.oldest().is_some_and(|oldest| oldest.last_fence <= list.completed) {
            let oldest = self.resident.pop().expect("it was just seen");
            left = left.saturating_sub(oldest.what.bytes);
            gone.push(oldest);
        }
        self.evict(list, &gone)?;
        Ok(left)
    }

    /// Takes the measure of the next rung, or waits on the present one.
    fn climb(&mut self, list: &mut DeviceList<'_>, refused: u64) -> Result<Option<Listed>, ListError> {
        self.is_budget_exhausted = true;
        if self.rung == Rung::Ground {
            self.rung = Rung::Trims(refused);
        }
        self.rung = match self.rung {
            Rung::Trims(bytes) => {
                let left = self.trim_to_budget(list, bytes)?;
                let oldest = self.resident.oldest().map(|oldest| oldest.last_fence);
                match oldest.filter(|&fence| left > 0 && fence <= list.submitted) {
                    Some(fence) => {
                        self.rung = Rung::Trims(left);
                        return Ok(Some(Listed::WaitsFor(fence)));
                    }
                    None => Rung::Flushes,
                }
            }
            Rung::Flushes if list.completed < list.submitted => {
                return Ok(Some(Listed::WaitsFor(list.submitted)));
            }
            Rung::Flushes => Rung::EvictsTemporaries,
            Rung::EvictsTemporaries => {
                let submitted = list.submitted;
                let temporary = |resident: &Resident| resident.what.is_temporary && resident.last_fence <= submitted;
                let gone = self.resident.take(temporary);
                self.evict(list, &gone)?;
                Rung::CantTrimFurther
            }
            Rung::Ground | Rung::CantTrimFurther => return Err(ListError::NothingLeft { bytes: refused }),
        };
        Ok(None)
    }
}

impl ListKeeper for Controller {
    fn make_resident(&mut self, list: &mut DeviceList<'_>, uses: &[Named]) -> Result<Listed, ListError> {
        let (last_fence, last_time) = (list.submitted + 1, list.now);
        let missing: Vec<Named> =
            uses.iter().copied().filter(|what| !self.resident.touch(what.allocation, last_fence, last_time)).collect();
        let named: Vec<AllocationId> = missing.iter().map(|what| what.allocation).collect();
        loop {
            let flags = match self.rung {
                Rung::CantTrimFurther => MakeResidentFlags::CANT_TRIM_FURTHER,
                _ => MakeResidentFlags::empty(),
            };
            let Some(refused) = list.make_resident(&named, flags)? else { break };
            if let Some(waits) = self.climb(list, refused)? {
                return Ok(waits);
            }
        }
        self.rung = Rung::Ground;
        missing.iter().for_each(|&what| self.resident.push(Resident { what, last_fence, last_time }));
        Ok(Listed::All)
    }

    fn fence_reached(&mut self, list: &mut DeviceList<'_>) -> Result<(), EvictError> {
        self.to_trim = self.trim_to_budget(list, self.to_trim)?;
        Ok(())
    }

    fn leave(&mut self, list: &mut DeviceList<'_>, allocation: AllocationId) -> Result<(), EvictError> {
        let gone = self.resident.take_one(allocation);
        self.evict(list, &gone).map(drop)
    }

    fn trim_all(&mut self, list: &mut DeviceList<'_>) -> Result<(), EvictError> {
        let all = self.resident.take(|_| true);
        self.evict(list, &all).map(drop)
    }

    fn wants_trim_notifications(&self) -> bool {
        true
    }

    fn trim(&mut self, list: &mut DeviceList<'_>, flags: TrimFlags, num_bytes: u64) -> Result<(), EvictError> {
        if flags.contains(TrimFlags::PERIODIC_TRIM) {
            let last = self.last_trim_fence;
            let unused = self.resident.take(|resident| resident.last_fence <= last);
            self.evict(list, &unused)?;
        }
        if flags.intersects(TrimFlags::PERIODIC_TRIM | TrimFlags::RESTART_PERIODIC_TRIM) {
            self.last_trim_fence = list.completed;
        }
        if flags.contains(TrimFlags::TRIM_TO_BUDGET) {
            // A later request replaces an earlier one: it has the latest figure.
            self.to_trim = self.trim_to_budget(list, num_bytes)?;
        }
        Ok(())
    }
}
