//! GPU virtual addresses: reserved, mapped, freed.

use std::ops::Range;

use vidmm::{GpuVirtualAddress, MapError, MapGpuVirtualAddress, PAGE_SIZE, PAGE_SIZE_64K, ProcessId};
use vidmm_trace::ByteSize;

use super::ledger::Part;
use super::objects::{Allocation, Mapping, Reservation, named};
use super::session::Session;
use crate::scenario::steps::{Answered, DEFAULT_DEVICE, FreeVa, Make, Map, ReserveVa, Undone};

impl Make<Session<'_>> for ReserveVa {
    fn make(&self, session: &mut Session<'_>) -> Result<Answered, Undone> {
        let name = self.device.as_deref().unwrap_or(DEFAULT_DEVICE);
        session.device(name)?;
        let device = session.objects.device(name)?;
        let (process, queue) = (device.process, device.queue_at(session.num_machine_steps)?);
        let (size, base) = (self.size.bytes(), self.base_address.map(GpuVirtualAddress));
        let (vidmm, _, host) = session.runtime.borrow();
        let reserved = vidmm.reserve_gpu_virtual_address(host, queue, base, size)?;
        let address = reserved.virtual_address;
        session.check_reserved_by_nobody(process, address.0..address.0 + size);
        let reservation = Reservation {
            process,
            device: name.to_owned(),
            reads_zero: reserved.paging_fence_value > 0,
            addresses: address.0..address.0 + size,
            used: Vec::new(),
        };
        session.objects.reservations.insert(self.name.clone(), reservation);
        Ok(Answered::pending(reserved.paging_fence_value))
    }
}

impl Session<'_> {
    /// Addresses that the manager chose are in no reservation (GVA-52).
    fn check_reserved_by_nobody(&mut self, process: ProcessId, chosen: Range<u64>) {
        let meets = |(_, of): &(&String, &Reservation)| {
            of.process == process && of.addresses.start < chosen.end && chosen.start < of.addresses.end
        };
        if let Some((name, _)) = self.objects.reservations.iter().find(meets) {
            let (name, chosen) = (name.clone(), chosen.start);
            self.broke("GVA-52", format!("{chosen:#x} was chosen, which is reserved as {name}"));
        }
    }

    /// Addresses that the manager chose are aligned as the driver asked, and to 64 KiB from that size on (SEG-46, U-23).
    fn check_aligned(&mut self, chosen: GpuVirtualAddress, size: u64, alignment: u64) {
        let alignment = alignment.max(if size < PAGE_SIZE_64K { PAGE_SIZE } else { PAGE_SIZE_64K });
        if !chosen.0.is_multiple_of(alignment) {
            let problem =
                format!("{size} bytes are mapped at {chosen}, which was chosen, but is no multiple of {alignment}");
            self.broke("U-23", problem);
        }
    }

    /// Addresses inside a reservation where nothing was ever mapped can be had (GVA-50).
    fn check_not_free(&mut self, name: &str, asked: &Range<u64>) {
        let Some(reservation) = self.objects.reservations.get(name) else { return };
        let is_possible = reservation.addresses.start <= asked.start
            && asked.start < asked.end
            && asked.end <= reservation.addresses.end
            && (asked.start | asked.end).is_multiple_of(PAGE_SIZE);
        let is_used = reservation.used.iter().any(|used| used.start < asked.end && asked.start < used.end);
        if is_possible && !is_used {
            self.broke("GVA-50", format!("{:#x} of {name} is free, but cannot be mapped", asked.start));
        }
    }

    /// Gives a reservation back, or a part of it: the rest before it keeps its name, the rest after it gets another, or none. The
    /// call names addresses: where a mapping covers them it frees that, and the reservation stays.
    fn unreserve(&mut self, free: &FreeVa, reservation: Reservation) -> Result<Answered, Undone> {
        let Reservation { process, addresses, .. } = reservation.clone();
        let start = addresses.start + free.offset.bytes();
        let end = if free.size.bytes() == 0 { addresses.end } else { start + free.size.bytes() };
        let size = end.saturating_sub(start);
        let covers = |(_, mapping): &(&String, &Mapping)| {
            let (of, addresses) = mapping.addresses();
            of == process && !mapping.is_freed && addresses.start <= start && end <= addresses.end
        };
        if let Some(mapping) = self.objects.mappings.iter().find(covers).map(|(name, _)| name.clone()) {
            let first = self.objects.mappings[&mapping].virtual_address.0;
            let (offset, size) = (ByteSize(start - first), ByteSize(size));
            return FreeVa { mapping, offset, size, rest: None }.make(self);
        }
        let (vidmm, _, host) = self.runtime.borrow();
        vidmm.free_gpu_virtual_address(host, process, GpuVirtualAddress(start), size)?;
        self.objects.uncover_zeros(process, &(start..end));
        self.objects.reservations.remove(&free.mapping);
        let before = (free.mapping.clone(), addresses.start..start);
        let after = free.rest.clone().map(|rest| (rest, end..addresses.end));
        for (name, addresses) in [before].into_iter().chain(after).filter(|(_, addresses)| !addresses.is_empty()) {
            self.objects.reservations.insert(name, Reservation { addresses, ..reservation.clone() });
        }
        Ok(Answered::ok())
    }
}

/// Maps each of the allocations, up to the first that is refused.
impl Make<Session<'_>> for Map {
    fn make(&self, session: &mut Session<'_>) -> Result<Answered, Undone> {
        let mut answered = Answered::ok();
        for name in &self.allocations {
            let &Allocation { id, pages, alignment, is_one_range, ref device, .. } =
                session.objects.allocation(name)?;
            let device = self.device.clone().unwrap_or_else(|| device.clone());
            let known = session.objects.device(&device)?;
            let (process, queue) = (known.process, known.queue_at(session.num_machine_steps)?);
            let (offset, size) = (self.offset.bytes(), self.size.bytes());
            let base_address = match &self.r#in {
                Some(name) => Some(named(&session.objects.reservations, name)?.addresses.start + self.at.bytes()),
                None => self.base_address,
            };
            let (write, execute) = (!self.read_only, !self.no_execute);
            let whole = MapGpuVirtualAddress::whole(id);
            let base = base_address.map(GpuVirtualAddress);
            // Any number, which the driver is to get back (GVA-57): the same whenever the step is made. Most mappings have none, and such
            // a mapping of a whole allocation is kept in another form.
            let has_protection = session.rules.is_some() && id.to_bits().is_multiple_of(3);
            let driver_protection = if has_protection { (id.to_bits() & 0xFFFF) << 5 | 1 } else { 0 };
            let desc =
                MapGpuVirtualAddress { base_address: base, offset, size, write, execute, driver_protection, ..whole };
            let (vidmm, _, host) = session.runtime.borrow();
            let answer = vidmm.map_gpu_virtual_address(host, queue, &desc);
            if let (Some(name), Some(base), Err(MapError::Range(_))) = (&self.r#in, base_address, &answer) {
                session.check_not_free(name, &(base..base.saturating_add(size)));
            }
            let mapped = answer?;
            let virtual_address = mapped.virtual_address;
            if session.rules.is_some() {
                session.asked_mappings.ask(desc, virtual_address);
            }
            let addresses = virtual_address.0..virtual_address.0 + size.max(PAGE_SIZE);
            session.objects.uncover_zeros(process, &addresses);
            // An address that the program chose may be in a reservation that it does not name.
            let reservations = session.objects.reservations.values_mut().filter(|of| of.process == process);
            reservations.for_each(|of| of.used.push(addresses.clone()));
            if base_address.is_none() {
                session.check_reserved_by_nobody(process, addresses);
                let size = if size == 0 { pages * PAGE_SIZE } else { size };
                // Of one range the alignment is that of its place.
                let is_whole = !is_one_range && offset.is_multiple_of(alignment.max(1));
                let alignment = if is_whole { alignment } else { 0 };
                session.check_aligned(virtual_address, size, alignment);
            }
            // The allocation is rounded up: what is mapped behind its last page is no kernel's.
            let first_page = (offset / PAGE_SIZE).min(pages);
            let rest = pages - first_page;
            let part_pages = if size == 0 { rest } else { rest.min(size / PAGE_SIZE) };
            let part = Part { allocation: name.clone(), first_page, pages: part_pages };
            let read_only = mapped.read_only;
            let mapping = Mapping { process, device, virtual_address, size, part, read_only, is_freed: false };
            let mapping_name = self.name.clone().unwrap_or_else(|| name.clone());
            session.objects.mappings.insert(mapping_name, mapping);
            answered = Answered::pending(mapped.paging_fence_value);
        }
        Ok(answered)
    }
}

/// Frees a mapping, or a part of it. The rest before the part keeps its name, the rest after it gets another, or none.
impl Make<Session<'_>> for FreeVa {
    fn make(&self, session: &mut Session<'_>) -> Result<Answered, Undone> {
        if let Some(reservation) = session.objects.reservations.get(&self.mapping).cloned() {
            return session.unreserve(self, reservation);
        }
        // The address may be that of another mapping by now.
        if session.rules.is_some() && session.objects.mappings.get(&self.mapping).is_some_and(|known| known.is_freed) {
            return Err(Undone::Races);
        }
        // The size of a whole mapping is the manager's to say, in the event of the mapping.
        session.settle();
        let known = named(&session.objects.mappings, &self.mapping)?;
        let Mapping { process, virtual_address, size, .. } = *known;
        let said = session.narrator.names.mapped.get(&(process, virtual_address)).copied();
        let whole = if size == 0 { said.unwrap_or(size) } else { size };
        let mapping = Mapping { size: whole, ..known.clone() };
        let offset = self.offset.bytes();
        let size = if self.size.bytes() == 0 { whole.saturating_sub(offset) } else { self.size.bytes() };
        // A part that was freed by other names is of no mapping any more.
        if session.rules.is_some() && offset.saturating_add(size) > whole {
            return Err(Undone::Races);
        }
        let base = GpuVirtualAddress(virtual_address.0.saturating_add(offset));
        let (vidmm, _, host) = session.runtime.borrow();
        vidmm.free_gpu_virtual_address(host, process, base, size)?;
        let [before, after] = mapping.without(offset, offset + size);
        let before = before.map(|before| (self.mapping.clone(), before));
        let after = self.rest.clone().zip(after);
        session.objects.mappings.extend(before.into_iter().chain(after));
        if offset == 0 {
            session.objects.mappings.entry(self.mapping.clone()).and_modify(|mapping| mapping.is_freed = true);
        }
        Ok(Answered::ok())
    }
}
