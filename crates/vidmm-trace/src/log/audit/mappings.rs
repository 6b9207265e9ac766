//! Mappings: which addresses of a process show what, until the addresses are free again (I04, I17).

use vidmm::contract::{AddressingModel, KmdAllocationHandle, SegmentSet};
use vidmm::event::ReclaimReason;
use vidmm::{AllocationId, Event, GpuVirtualAddress, PAGE_SIZE, PageSize, ProcessId};

use super::Audit;
use super::allocation::Mapping;
use super::aspects::Pool;
use super::device::RequestKind;
use super::finding::Invariant;

impl Audit {
    pub(super) fn mapped(&mut self, event: &Event) {
        let &Event::GpuVirtualAddressMapped {
            process,
            virtual_address,
            size,
            allocation,
            allocation_offset,
            page_size,
            read_only,
            no_execute,
            driver_protection,
            queue,
            paging_fence_value,
        } = event
        else {
            return;
        };
        // The device of the queue is the one that maps: a device that opened an allocation maps it for itself.
        let Some(device) = self.fences.queues.get(&queue).map(|queue| queue.device) else { return };
        let mapping = Mapping {
            process,
            device,
            virtual_address: virtual_address.0,
            size,
            allocation,
            allocation_offset,
            page_size,
            cut_from: None,
            read_only,
            no_execute,
            driver_protection,
            asked_by: (queue, paging_fence_value),
            granted: paging_fence_value == 0,
            freed: None,
        };
        self.replace_mappings(&mapping);
        self.check_alone(&mapping);
        self.check_reserved(&mapping);
        self.check_addresses(process, virtual_address.0, mapping.end());
        self.check_not_ending(process, virtual_address.0, mapping.end());
        self.check_part(&mapping);
        if !self.allocations.contains_key(&allocation) {
            return;
        }
        self.note_mapping(mapping);
        self.reach(process, mapping.end());
        if paging_fence_value > 0 {
            let kind = RequestKind::Map(process, virtual_address.0, mapping.end());
            self.ask(device, queue, paging_fence_value, kind);
        }
    }

    fn note_mapping(&mut self, mapping: Mapping) {
        let key = (mapping.process, mapping.virtual_address);
        self.mappings.insert(key, mapping);
        self.liveness.note_freed(key, mapping.freed.is_some());
        match mapping.cut_from {
            Some(_) => self.rests.insert(key),
            None => self.rests.remove(&key),
        };
        if let Some(allocation) = self.allocations.get_mut(&mapping.allocation) {
            allocation.mappings.insert(key);
        }
    }

    /// The mappings that meet addresses of a process, in order.
    pub(super) fn mappings_within(&self, process: ProcessId, start: u64, end: u64) -> impl Iterator<Item = &Mapping> {
        let first = self.mappings.range((process, 0)..=(process, start)).next_back();
        let first = first.filter(|(_, mapping)| mapping.end() > start).map_or(start, |(&(_, first), _)| first);
        self.mappings.range((process, first)..(process, end.max(first))).map(|(_, mapping)| mapping)
    }

    /// The mappings that together show, at all of these addresses, an allocation from its byte `offset` on.
    pub(super) fn mappings_of(
        &self,
        process: ProcessId,
        (start, end): (u64, u64),
        allocation: AllocationId,
        offset: u64,
    ) -> Option<Vec<Mapping>> {
        let mappings: Vec<Mapping> = self.mappings_within(process, start, end).copied().collect();
        let shows = |mapping: &Mapping| {
            let begins = i128::from(mapping.virtual_address) - i128::from(mapping.allocation_offset);
            mapping.allocation == allocation && begins == i128::from(start) - i128::from(offset)
        };
        let (first, last) = (mappings.first()?, mappings.last()?);
        let is_all = first.virtual_address <= start && end <= last.end() && mappings.iter().all(shows);
        let adjoin = mappings.windows(2).all(|pair| pair[0].end() == pair[1].virtual_address);
        (is_all && adjoin).then_some(mappings)
    }

    /// Forgets mappings at the addresses of a new one: there must be none, until their addresses are reclaimed.
    fn replace_mappings(&mut self, new: &Mapping) {
        let old = self.mappings_within(new.process, new.virtual_address, new.end());
        for mapping in Vec::from_iter(old.copied()) {
            self.forget_mapping(&mapping);
            let Mapping { process, virtual_address: start, allocation, .. } = mapping;
            let message = format!("{start:#x} of {process} is mapped anew, but still belongs to {allocation}");
            self.findings.report(Invariant::I04, message);
        }
    }

    /// Where all processes share a domain, an address is of one of them (U-17).
    fn check_alone(&mut self, new: &Mapping) {
        if self.adapter.addressing_model != AddressingModel::GpuVaIoMmuGlobal {
            return;
        }
        let others = self.processes.keys().filter(|&&process| process != new.process);
        let other = others.filter_map(|&process| {
            let (_, before) = self.mappings.range((process, 0)..(process, new.end())).next_back()?;
            (before.end() > new.virtual_address).then_some(process)
        });
        let other = other.min();
        self.findings.check(other.is_none(), Invariant::I29, || {
            format!("{:#x} of {} is mapped, but {other:?} uses that address", new.virtual_address, new.process)
        });
    }

    /// Addresses are reserved that nothing else has.
    pub(super) fn reserve(&mut self, process: ProcessId, GpuVirtualAddress(start): GpuVirtualAddress, size: u64) {
        let end = start.saturating_add(size);
        let is_whole = size > 0 && (start | size).is_multiple_of(PageSize::Kib64.bytes());
        self.findings.check(is_whole, Invariant::Gva52, || {
            format!("{size:#x} bytes of {process} at {start:#x} are reserved, which are no blocks of 64 KiB")
        });
        self.check_addresses(process, start, end);
        self.check_not_ending(process, start, end);
        let mapped = self.mappings_within(process, start, end).next().map(|mapping| mapping.virtual_address);
        let reserved = self.reservation_within(process, start, end);
        self.findings.check(mapped.is_none() && reserved.is_none(), Invariant::Gva52, || {
            format!("{start:#x} of {process} is reserved, but {mapped:?} is mapped or {reserved:?} reserved there")
        });
        self.reservations.insert((process, start), size);
    }

    /// A process has only addresses that there are, and none that the first leaf table covers (GVA-58).
    fn check_addresses(&mut self, process: ProcessId, start: u64, end: u64) {
        let Some((first, last)) = self.adapter.user_addresses else { return };
        self.findings.check(first <= start && end <= last, Invariant::Gva58, || {
            format!("{process} has {start:#x}..{end:#x}, but processes have {first:#x}..{last:#x}")
        });
    }

    /// A mapping shows whole pages of its allocation, by pages of 64 KiB if its addresses and all segments that the allocation may be in
    /// have such pages (GVA-40, GVA-41). Only with dual entries there are any (GVA-43).
    fn check_part(&mut self, new: &Mapping) {
        let Some(allocation) = self.allocations.get(&new.allocation) else { return };
        let (size, set) = (allocation.size, SegmentSet(allocation.supported_segment_set));
        let last = new.allocation_offset.checked_add(new.size);
        let bits = new.virtual_address | new.size | new.allocation_offset;
        let is_inside = new.size > 0 && last.is_some_and(|last| last <= size) && bits.is_multiple_of(PAGE_SIZE);
        self.findings.check(is_inside, Invariant::I04, || {
            format!(
                "{} bytes from {} on of {} are mapped, which has {size}",
                new.size, new.allocation_offset, new.allocation
            )
        });
        let large = PageSize::Kib64.bytes();
        let has_large_pages = |pool: &Pool| self.places.memory(pool.0).is_some_and(|memory| memory.page_bytes == large);
        // Tables of small pages say what reads as zero (GVA-43).
        let is_over_zero = self.adapter.zero_in_pte_supported
            && self.reservation_within(new.process, new.virtual_address, new.end()).is_some();
        let is_large = self.tables.are_dual()
            && !is_over_zero
            && bits.is_multiple_of(large)
            && self.places.pools_of(set).iter().all(has_large_pages);
        let right = if is_large { PageSize::Kib64 } else { PageSize::Kib4 };
        self.findings.check(new.page_size == right, Invariant::Gva41, || {
            format!("{:#x} is mapped by pages of {:?}, which are to be {right:?}", new.virtual_address, new.page_size)
        });
    }

    /// The reservation that meets addresses of a process.
    fn reservation_within(&self, process: ProcessId, start: u64, end: u64) -> Option<(u64, u64)> {
        let (&(_, first), &size) = self.reservations.range((process, 0)..(process, end)).next_back()?;
        let last = first.saturating_add(size);
        (last > start).then_some((first, last))
    }

    /// A mapping is inside a reservation, or outside all (GVA-50).
    fn check_reserved(&mut self, new: &Mapping) {
        let Some((first, end)) = self.reservation_within(new.process, new.virtual_address, new.end()) else { return };
        self.findings.check(first <= new.virtual_address && new.end() <= end, Invariant::Gva52, || {
            format!(
                "{:#x}..{:#x} of {} is mapped, and {first:#x}..{end:#x} is reserved",
                new.virtual_address,
                new.end(),
                new.process
            )
        });
    }

    /// A reservation, or a part of it, is given back: nothing is mapped there.
    fn unreserve(&mut self, process: ProcessId, start: u64, end: u64) {
        let around =
            self.reservation_within(process, start, end).filter(|&(first, last)| first <= start && end <= last);
        let Some((first, last)) = around else {
            let message =
                format!("{start:#x}..{end:#x} of {process} is freed, but nothing is mapped or reserved there");
            return self.findings.report(Invariant::Gva52, message);
        };
        self.reservations.remove(&(process, first));
        if self.adapter.zero_in_pte_supported {
            self.zeros.end(process, start, end);
        }
        for (from, to) in [(first, start), (end, last)] {
            if from < to {
                self.reservations.insert((process, from), to.saturating_sub(from));
            }
        }
    }

    /// Work that was submitted by now may still use what is freed of a mapping. A range that is no mapping is a reservation.
    pub(super) fn free(&mut self, process: ProcessId, GpuVirtualAddress(start): GpuVirtualAddress, size: u64) {
        let end = start.saturating_add(size);
        if self.mappings_within(process, start, end).next().is_none() {
            return self.unreserve(process, start, end);
        }
        for mapping in Vec::from_iter(self.mappings_within(process, start, end).copied()) {
            let submitted = self.devices.get(&mapping.device).map_or(0, |device| device.submitted);
            let allocation = self.allocations.get(&mapping.allocation);
            let open = allocation.is_some_and(|allocation| allocation.open.contains(&mapping.device));
            // The mappings of a device that has closed the allocation were freed by that.
            let twice = mapping.freed.is_some() && open;
            self.findings.check(!twice, Invariant::Log, || format!("{start:#x} of {process} is freed twice"));
            let (freed, left) = mapping.cut(start, end);
            self.forget_mapping(&mapping);
            for part in left {
                self.note_mapping(part);
            }
            if let Some(freed) = freed {
                self.note_mapping(Mapping { freed: Some(submitted), ..freed });
            }
        }
    }

    /// Nothing uses what was freed any more, and nothing shows it.
    pub(super) fn reclaim(
        &mut self,
        process: ProcessId,
        GpuVirtualAddress(start): GpuVirtualAddress,
        size: u64,
        reason: ReclaimReason,
    ) {
        let end = start.saturating_add(size);
        if self.reclaim_reserved(process, start, end) {
            return;
        }
        let found: Vec<Mapping> = self.mappings_within(process, start, end).copied().collect();
        let is_whole =
            |mapping: &Mapping| mapping.freed.is_some() && start <= mapping.virtual_address && mapping.end() <= end;
        let bytes = found.iter().fold(0u64, |sum, mapping| sum.saturating_add(mapping.size));
        if bytes != size || !found.iter().all(is_whole) {
            let message =
                format!("{start:#x}..{end:#x} of {process} is reclaimed, but no such mapping was freed there");
            return self.findings.report(Invariant::Log, message);
        }
        for mapping in &found {
            self.forget_mapping(mapping);
            self.check_reclaimed(mapping, reason);
        }
        self.settle_rests(process, start, end);
    }

    fn check_reclaimed(&mut self, mapping: &Mapping, reason: ReclaimReason) {
        let Some(allocation) = self.allocations.get(&mapping.allocation) else { return };
        if let ReclaimReason::Closed { allocation: closed, device } = reason {
            let is_its = (closed, device) == (mapping.allocation, mapping.device) && !allocation.open.contains(&device);
            self.findings.check(is_its, Invariant::Log, || {
                format!(
                    "{:#x} is reclaimed because {device} closed {closed}, but is {mapping:?}",
                    mapping.virtual_address
                )
            });
        }
        let Mapping { process, virtual_address, device: id, .. } = *mapping;
        let handle = allocation.handle;
        let shown = self.is_shown(mapping, handle);
        let seen = self.ranges_of(mapping).next().is_some();
        self.findings.check(!seen, Invariant::I29, || {
            format!("{virtual_address:#x} of {process} is reclaimed, but still mapped for {}", mapping.allocation)
        });
        self.findings.check(!shown, Invariant::I04, || {
            format!("{virtual_address:#x} of {process} is reclaimed, but still shows {}", mapping.allocation)
        });
        let last = mapping.freed.unwrap_or(0);
        let retired = self.devices.get(&id).is_none_or(|device| device.has_retired(last));
        self.findings.check(retired, Invariant::I17, || {
            format!("{virtual_address:#x} of {process} is reclaimed, but submission {last} of {id} may use it")
        });
    }

    /// The rests of pages that reclaimed addresses cut are mapped by small pages from now on.
    fn settle_rests(&mut self, process: ProcessId, start: u64, end: u64) {
        let page = PageSize::Kib64.bytes();
        let end_of_page = end.checked_next_multiple_of(page).unwrap_or(u64::MAX);
        let around = self.mappings_within(process, start / page * page, end_of_page);
        let rests = around.filter(|rest| rest.cut_from.is_some());
        for rest in Vec::from_iter(rests.copied()) {
            let rest = Mapping { cut_from: None, ..rest };
            self.note_mapping(rest);
            if rest.granted {
                self.check_usable(&rest);
            }
        }
    }

    fn forget_mapping(&mut self, mapping: &Mapping) {
        let key = (mapping.process, mapping.virtual_address);
        self.mappings.remove(&key);
        self.rests.remove(&key);
        self.liveness.note_freed(key, false);
        if let Some(allocation) = self.allocations.get_mut(&mapping.allocation) {
            allocation.mappings.remove(&key);
        }
    }

    /// Whether a valid entry of the mapping shows the allocation.
    pub(super) fn is_shown(&self, mapping: &Mapping, allocation: KmdAllocationHandle) -> bool {
        self.processes.get(&mapping.process).is_some_and(|process| {
            self.shadow.shows(process.handle, mapping.virtual_address, mapping.end(), allocation)
        })
    }
}
