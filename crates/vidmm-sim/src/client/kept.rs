//! A residency list on which every used allocation stays until memory is short.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use vidmm::{AllocationId, EvictError, EvictFlags, MakeResidentFlags, MemorySegmentGroup, TrimFlags};

use super::list::{DeviceList, ListError, ListKeeper, Listed, Named};

/// The allocations on the list, least recently used first.
#[derive(Default)]
pub(crate) struct Kept {
    /// The number of kernels so far: the time of a use.
    kernels: u64,
    /// The first kernel of the present trim period.
    period: u64,
    entries: BTreeMap<AllocationId, Entry>,
    by_use: BTreeSet<(u64, AllocationId)>,
    /// The bytes of the entries in local memory.
    local_bytes: u64,
    /// Kernels under way, with the bytes in local memory that each brought to the list.
    joined: VecDeque<(u64, u64)>,
    /// A MakeResident of the present trim period was refused.
    is_short: bool,
}

#[derive(Clone, Copy)]
struct Entry {
    last_use: u64,
    written: bool,
    bytes: u64,
    group: MemorySegmentGroup,
}

impl Entry {
    fn local_bytes(self) -> u64 {
        if self.group == MemorySegmentGroup::Local { self.bytes } else { 0 }
    }
}

impl Kept {
    fn use_now(&mut self, named: &Named) {
        let before = self.forget(named.allocation);
        let written = named.written || before.is_some_and(|before| before.written);
        let entry = Entry { last_use: self.kernels, written, bytes: named.bytes, group: named.group };
        self.entries.insert(named.allocation, entry);
        self.by_use.insert((entry.last_use, named.allocation));
        self.local_bytes += entry.local_bytes();
    }

    /// Evicts the least recently used allocations, except those of kernels from `until` on, until `num_bytes` are
    /// reached. Returns the bytes.
    fn evict_oldest(&mut self, list: &mut DeviceList<'_>, num_bytes: u64, until: u64) -> Result<u64, EvictError> {
        self.evict_oldest_of(list, num_bytes, until, |entry| entry.bytes)
    }

    /// The same, where an allocation counts as other bytes, and stays if it counts as none.
    fn evict_oldest_of(
        &mut self,
        list: &mut DeviceList<'_>,
        num_bytes: u64,
        until: u64,
        bytes_of: fn(Entry) -> u64,
    ) -> Result<u64, EvictError> {
        let mut bytes = 0;
        let mut gone = Vec::new();
        for &(last_use, allocation) in &self.by_use {
            if bytes >= num_bytes || last_use >= until {
                break;
            }
            let counted = bytes_of(self.entries[&allocation]);
            bytes += counted;
            gone.extend((counted > 0).then_some(allocation));
        }
        self.evict(list, &gone)?;
        Ok(bytes)
    }

    /// Evicts what the next kernels will want the room of, once a MakeResident of this period was refused. Room becomes free when the
    /// kernels have ended that were submitted before the Evict. An Evict at the time of need waits for all kernels under way, and the
    /// bus is idle meanwhile. So the program leaves as much of its budget unused as its kernels under way brought to the list.
    fn make_room_ahead(&mut self, list: &mut DeviceList<'_>, joined: u64) -> Result<(), ListError> {
        self.joined.retain(|&(kernel, _)| kernel > list.completed);
        self.joined.push_back((self.kernels, joined));
        if !self.is_short {
            return Ok(());
        }
        let ahead: u64 = self.joined.iter().map(|&(_, bytes)| bytes).sum();
        let budget = list.budget(MemorySegmentGroup::Local)?;
        // A program that leaves more than half unused would bring in for each kernel what the kernel before had evicted.
        if ahead <= budget / 2 {
            let over = (self.local_bytes + ahead).saturating_sub(budget);
            self.evict_oldest_of(list, over, self.kernels, Entry::local_bytes)?;
        }
        Ok(())
    }

    fn evict(&mut self, list: &mut DeviceList<'_>, gone: &[AllocationId]) -> Result<(), EvictError> {
        let is_written = |allocation: &&AllocationId| self.entries[*allocation].written;
        let (written, read): (Vec<AllocationId>, Vec<AllocationId>) = gone.iter().partition(is_written);
        let flags = EvictFlags::EVICT_ONLY_IF_NECESSARY;
        list.evict(&written, flags)?;
        list.evict(&read, flags | EvictFlags::NOT_WRITTEN_TO)?;
        gone.iter().for_each(|&allocation| _ = self.forget(allocation));
        Ok(())
    }

    fn forget(&mut self, allocation: AllocationId) -> Option<Entry> {
        let entry = self.entries.remove(&allocation)?;
        self.by_use.remove(&(entry.last_use, allocation));
        self.local_bytes -= entry.local_bytes();
        Some(entry)
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
        while let Some(num_bytes) = list.make_resident(&allocations, MakeResidentFlags::empty())? {
            self.is_short = true;
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
        let before = self.local_bytes;
        missing.iter().for_each(|named| self.use_now(&Named { written: false, ..**named }));
        self.make_room_ahead(list, self.local_bytes - before)?;
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
            self.is_short = false;
        }
        Ok(())
    }

    fn trim_all(&mut self, list: &mut DeviceList<'_>) -> Result<(), EvictError> {
        self.evict_oldest(list, u64::MAX, u64::MAX)?;
        Ok(())
    }
}
