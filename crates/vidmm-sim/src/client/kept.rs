//! A residency list on which every used allocation stays until memory is short.

use std::collections::BTreeMap;

use vidmm::{AllocationId, EvictError, EvictFlags, MakeResidentFlags, TrimFlags};

use super::list::{DeviceList, ListError, ListKeeper, Listed, Named};

/// The allocations on the list, least recently used first.
#[derive(Default)]
pub(crate) struct Kept {
    /// The number of kernels so far: the time of a use.
    kernels: u64,
    /// The first kernel of the present trim period.
    period: u64,
    entries: BTreeMap<AllocationId, Entry>,
    by_use: BTreeMap<(u64, AllocationId), u64>,
}

#[derive(Clone, Copy)]
struct Entry {
    last_use: u64,
    written: bool,
}

impl Kept {
    fn use_now(&mut self, named: &Named) {
        let before = self.entries.get(&named.allocation).copied();
        if let Some(before) = before {
            self.by_use.remove(&(before.last_use, named.allocation));
        }
        let written = named.written || before.is_some_and(|before| before.written);
        let entry = Entry { last_use: self.kernels, written };
        self.entries.insert(named.allocation, entry);
        self.by_use.insert((entry.last_use, named.allocation), named.bytes);
    }

    /// Evicts the least recently used allocations, except those of kernels from `until` on, until `num_bytes` are
    /// reached. Returns the bytes.
    fn evict_oldest(&mut self, list: &mut DeviceList<'_>, num_bytes: u64, until: u64) -> Result<u64, EvictError> {
        let mut bytes = 0;
        let mut gone = Vec::new();
        for (&(last_use, allocation), &size) in &self.by_use {
            if bytes >= num_bytes || last_use >= until {
                break;
            }
            bytes += size;
            gone.push(allocation);
        }
        self.evict(list, &gone)?;
        Ok(bytes)
    }

    fn evict(&mut self, list: &mut DeviceList<'_>, gone: &[AllocationId]) -> Result<(), EvictError> {
        let is_written = |allocation: &&AllocationId| self.entries[*allocation].written;
        let (written, read): (Vec<AllocationId>, Vec<AllocationId>) = gone.iter().partition(is_written);
        let flags = EvictFlags::EVICT_ONLY_IF_NECESSARY;
        list.evict(&written, flags)?;
        list.evict(&read, flags | EvictFlags::NOT_WRITTEN_TO)?;
        gone.iter().for_each(|&allocation| self.forget(allocation));
        Ok(())
    }

    fn forget(&mut self, allocation: AllocationId) {
        if let Some(entry) = self.entries.remove(&allocation) {
            self.by_use.remove(&(entry.last_use, allocation));
        }
    }
}

impl ListKeeper for Kept {
    fn wants_trim_notifications(&self) -> bool {
        true
    }

    /// The ladder of RES-14: trim the refused amount and try again. When nothing is left, wait for own kernels, then
    /// say that the client cannot trim further.
    fn make_resident(&mut self, list: &mut DeviceList<'_>, named: &[Named]) -> Result<Listed, ListError> {
        self.kernels += 1;
        let is_listed = |named: &&Named| self.entries.contains_key(&named.allocation);
        let (listed, missing): (Vec<&Named>, Vec<&Named>) = named.iter().partition(is_listed);
        // The allocations of this kernel must not be trimmed for it.
        listed.iter().for_each(|named| self.use_now(&Named { written: false, ..**named }));
        let allocations: Vec<AllocationId> = missing.iter().map(|named| named.allocation).collect();
        if allocations.is_empty() {
            return Ok(Listed::All);
        }
        while let Some(num_bytes) = list.make_resident(&allocations, MakeResidentFlags::empty())? {
            let evicted = self.evict_oldest(list, num_bytes, self.kernels).expect("it is on the list");
            if evicted == 0 {
                let refused = if list.is_busy() {
                    Some(num_bytes)
                } else {
                    list.make_resident(&allocations, MakeResidentFlags::CANT_TRIM_FURTHER)?
                };
                if refused.is_some() {
                    return Ok(refused.into());
                }
                break;
            }
        }
        missing.iter().for_each(|named| self.use_now(&Named { written: false, ..**named }));
        Ok(Listed::All)
    }

    fn submitted(&mut self, _: &mut DeviceList<'_>, named: &[Named]) -> Result<(), EvictError> {
        named.iter().for_each(|named| self.use_now(named));
        Ok(())
    }

    fn leave(&mut self, list: &mut DeviceList<'_>, allocation: AllocationId) -> Result<(), EvictError> {
        if self.entries.contains_key(&allocation) { self.evict(list, &[allocation]) } else { Ok(()) }
    }

    fn trim(&mut self, list: &mut DeviceList<'_>, flags: TrimFlags, num_bytes: u64) -> Result<(), EvictError> {
        if flags.contains(TrimFlags::TRIM_TO_BUDGET) {
            // The next kernel needs the last kernel's buffers as well.
            self.evict_oldest(list, num_bytes, self.kernels)?;
        }
        if flags.contains(TrimFlags::PERIODIC_TRIM) {
            self.evict_oldest(list, u64::MAX, self.period)?;
        }
        if flags.intersects(TrimFlags::PERIODIC_TRIM | TrimFlags::RESTART_PERIODIC_TRIM) {
            self.period = self.kernels + 1;
        }
        Ok(())
    }

    fn trim_all(&mut self, list: &mut DeviceList<'_>) -> Result<(), EvictError> {
        self.evict_oldest(list, u64::MAX, u64::MAX)?;
        Ok(())
    }
}
