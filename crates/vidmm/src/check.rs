//! The audit: does the state hold together? Used after every step in tests and simulation (DESIGN 4).

use alloc::{format, string::String, vec::Vec};
use core::fmt;

use crate::{
    allocation::{Allocation, AllocationState},
    state::VidMm,
    units::Extent,
};

/// What the audit found: each line names the invariant and what breaks it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CheckError {
    /// The broken invariants.
    pub broken: Vec<String>,
}

impl core::error::Error for CheckError {}

impl fmt::Display for CheckError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} invariant(s) of the manager are broken", self.broken.len())?;
        self.broken.iter().try_for_each(|line| write!(f, "\n  {line}"))
    }
}

impl VidMm {
    /// Audits the whole state. Takes time in proportion to all that exists.
    ///
    /// # Errors
    ///
    /// If an invariant of the manager does not hold: that is a bug of the manager, never of its caller or driver.
    pub fn check(&self) -> Result<(), CheckError> {
        let mut audit = Audit { broken: Vec::new() };
        self.check_segment(&mut audit);
        self.check_evictable(&mut audit);
        for (index, allocation) in self.allocations.iter() {
            self.check_allocation_books(index, allocation, &mut audit);
        }
        self.check_devices(&mut audit);
        self.check_plans(&mut audit);
        if audit.broken.is_empty() { Ok(()) } else { Err(CheckError { broken: audit.broken }) }
    }

    /// I01: what is placed and what is free tile the segment, without overlap and without a leak.
    fn check_segment(&self, audit: &mut Audit) {
        let mut tables: Vec<Extent> = Vec::new();
        let mut pinned = 0;
        let spaces = self.processes.iter().map(|(_, process)| &process.tables);
        for (key, table) in spaces.chain([&self.windows.tables]).flat_map(|tables| tables.iter()) {
            let size = key.segment_bytes(&self.adapter);
            match table.address {
                Some(address) if address.segment.is_system() => {}
                Some(address) => {
                    pinned += size;
                    tables.push(Extent { offset: address.offset, size });
                }
                None => pinned += size,
            }
        }
        audit.equal("D9: pinned bytes", self.pinned_bytes, pinned);
        let holes: u64 = self.placer.holes().map(|hole| hole.size).sum();
        audit.equal("D4: available bytes", self.placer.available(), holes);

        let placed = self.allocations.iter().filter_map(|(_, allocation)| allocation.place.as_ref());
        let placed = placed.flat_map(|place| place.iter());
        let mut all: Vec<Extent> = placed.chain(tables).chain(self.placer.holes()).collect();
        all.sort_unstable();
        let mut end = 0;
        for extent in all {
            audit.holds(extent.offset == end, || {
                format!("I01: the segment is not tiled at {end:#x}: the next range is {extent:?}")
            });
            end = extent.end();
        }
        audit.equal("I01: the end of the last range", end, self.placer.size());
    }

    /// CRE-31a: the queues hold exactly the resident allocations that nobody requires.
    fn check_evictable(&self, audit: &mut Audit) {
        let queued: Vec<u32> = self.evictable.iter(&self.allocations).collect();
        let marked = self.allocations.iter().filter(|(_, a)| a.state.contains(AllocationState::EVICTABLE));
        let (count, bytes) = marked.fold((0, 0), |(count, bytes), (_, a)| (count + 1, bytes + a.size));
        audit.equal("CRE-31a: evictable allocations", queued.len() as u64, count);
        audit.equal("CRE-31a: evictable bytes", self.evictable.bytes(), bytes);
        for index in queued {
            let is_marked = self.allocations[index as usize].state.contains(AllocationState::EVICTABLE);
            audit.holds(is_marked, || format!("CRE-31a: allocation {index} is queued but not marked evictable"));
        }
    }

    fn check_allocation_books(&self, index: usize, allocation: &Allocation, audit: &mut Audit) {
        let entry = &allocation.entry;
        let device = &self.devices[allocation.device as usize];
        let state = allocation.state;
        audit.holds(!entry.open || (entry.holding && entry.count > 0), || {
            format!("D2: allocation {index} has an open span, but its entry is {entry:?}")
        });
        audit.holds(entry.open || !entry.holding || entry.until > device.dispatched(), || {
            format!("D2: allocation {index} is held although its last span has lapsed: {entry:?}")
        });
        audit.holds(!entry.holding || allocation.place.is_some(), || {
            format!("I06: allocation {index} is required and granted, but has no place")
        });
        let evictable = allocation.place.is_some() && !entry.holding;
        audit.holds(state.contains(AllocationState::EVICTABLE) == evictable, || {
            format!("D3: allocation {index} is wrongly marked as to evictability: {state:?}, {entry:?}")
        });
        if let Some(place) = &allocation.place {
            audit.equal("SEG-13: bytes of an allocation's extents", place.bytes(), allocation.size);
        }
        for mapping in allocation.mappings() {
            let space = &self.processes[mapping.process as usize].space;
            let found = space.lookup(mapping.virtual_address);
            audit.holds(found == Some((index as u32, 0)), || {
                format!("GVA-50: {:#x} of allocation {index} is not in its address space", mapping.virtual_address)
            });
        }
    }

    fn check_devices(&self, audit: &mut Audit) {
        let mut promised = 0;
        for (index, device) in self.devices.iter() {
            let own = self.allocations.iter().filter(|(_, a)| a.device as usize == index);
            let (mut count, mut listed, mut held) = (0, 0, 0);
            for (_, allocation) in own {
                count += 1;
                listed += if allocation.entry.count > 0 { allocation.size } else { 0 };
                held += if allocation.entry.holding { allocation.size } else { 0 };
            }
            promised += device.promised();
            audit.equal("D3: bytes that a device holds", device.held, held);
            audit.equal("RES-02: bytes of a device's list", device.list.now(), listed);
            audit.equal("I28: allocations of a device", device.allocations.into(), count);
            audit.holds(device.ready <= device.granted && device.granted <= device.requests.len(), || {
                format!("D3: device {index} has more requests granted than made")
            });
            let in_order = |(a, b): (&crate::request::Request, &crate::request::Request)| {
                a.number < b.number && a.position <= b.position
            };
            audit.holds(device.requests.iter().zip(device.requests.iter().skip(1)).all(in_order), || {
                format!("RES-33: the requests of device {index} are out of order")
            });
        }
        audit.equal("RES-11: promised bytes", self.promised_bytes, promised);
        audit.holds(self.pinned_bytes + promised <= self.placer.size(), || {
            format!("RES-11: {promised} bytes are promised beside tables of {} bytes", self.pinned_bytes)
        });
    }

    /// D5: a parked plan waits only for dispatched work and for earlier plans.
    fn check_plans(&self, audit: &mut Audit) {
        for number in self.stream.numbers() {
            let plan = self.stream.get(number).expect("it was just listed");
            for &(device, submission) in &plan.waits {
                let dispatched = self.devices[device as usize].dispatched();
                audit.holds(submission <= dispatched, || {
                    format!("D5: plan {number} waits for submission {submission}, dispatched are {dispatched}")
                });
            }
            let follows_later = plan.after.iter().any(|&before| before >= number);
            audit.holds(!follows_later, || format!("D5: plan {number} follows a later plan: {:?}", plan.after));
        }
    }
}

struct Audit {
    broken: Vec<String>,
}

impl Audit {
    fn holds(&mut self, holds: bool, line: impl FnOnce() -> String) {
        if !holds {
            self.broken.push(line());
        }
    }

    fn equal(&mut self, what: &str, books: u64, recomputed: u64) {
        self.holds(books == recomputed, || format!("{what}: the books say {books}, a recount {recomputed}"));
    }
}
