//! The audit: does the state hold together? Used after every step in tests and simulation.

use alloc::{format, string::String, vec::Vec};
use core::fmt;

use crate::{
    adapter::Adapter,
    addresses,
    budget::account::Account,
    gpu_va::PageTables,
    id::AllocationIx,
    manager::VidMm,
    memory::Memory,
    objects::{
        Objects,
        allocation::{Allocation, AllocationState},
        list::ListEntry,
        place::{PageOffset, Place},
    },
    plans::Plans,
    residency::{Residents, packing, place},
    state::State,
    units::Extent,
};
/// The findings of the audit: each line names the invariant and what breaks it.
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

/// # The audit
impl VidMm {
    /// Audits the whole state. Takes time in proportion to all that exists.
    ///
    /// # Errors
    ///
    /// If an invariant of the manager does not hold: that is a bug of the manager, never of its caller or driver.
    pub fn check(&self) -> Result<(), CheckError> {
        let mut audit = Audit { broken: Vec::new() };
        let accounts = self.state.memory.accounts();
        accounts.memory().for_each(|account| check_segment(&self.state, &self.plans, account, &mut audit));
        check_system_memory(&self.state.objects, &self.state.memory, &mut audit);
        check_aperture(&self.state, &mut audit);
        for account in accounts.iter() {
            check_evictable(&self.state.objects, &self.state.residency, account, &mut audit);
        }
        for (index, allocation) in self.state.objects.allocations.iter() {
            check_allocation_records(&self.state.adapter, &self.state.objects, index, allocation, &mut audit);
        }
        let entries = self.state.objects.allocations.iter().flat_map(|(_, allocation)| allocation.entries());
        let queued = entries.map(|(_, entry)| self.state.residency.spans.len(entry.spans) as u64).sum();
        audit.equal("D2: spans of ungranted requests", self.state.residency.spans.used() as u64, queued);
        // A record of what is gone breaks the rules of offers as well.
        check_records(&self.state.objects, &mut audit);
        check_offers(&self.state.objects, &mut audit);
        check_locks(&self.state.objects, &mut audit);
        check_devices(&self.state, &mut audit);
        check_plans(&self.state.objects, &self.plans, &mut audit);
        if audit.broken.is_empty() { Ok(()) } else { Err(CheckError { broken: audit.broken }) }
    }
}

/// I01: what is placed and what is free tile a memory segment, without overlap and without a leak.
fn check_segment(state: &State, plans: &Plans, account: Account, audit: &mut Audit) {
    let adapter = &state.adapter;
    let mut tables: Vec<Extent> = Vec::new();
    let mut pinned = 0;
    let spaces = state.objects.processes.iter().map(|(_, process)| (&process.tables, adapter.tables_in));
    for (space, home) in spaces.chain([(&plans.windows.tables, adapter.paging_tables_in)]) {
        for (_, table) in space.iter().filter(|_| home == account) {
            let size = adapter.table_bytes_in(account);
            pinned += size;
            tables.extend(table.address.map(|address| Extent { offset: address.offset, size }));
        }
    }
    audit.equal("D9: pinned bytes", state.memory.table_bytes[account], pinned);
    let placer = &state.memory.placers[account];
    let holes: u64 = placer.holes().iter().map(|hole| hole.size).sum();
    audit.equal("D4: available bytes", placer.available(), holes);
    let area = &state.memory.table_areas[account];
    let of_tables = adapter.table_area(account);
    let is_in_area = |table: &Extent| table.offset >= of_tables.offset;
    audit.holds(of_tables.size == 0 || tables.iter().all(is_in_area), || {
        format!("D19: a table of {account:?} lies below {of_tables:?}: {tables:?}")
    });

    let placed = state.objects.allocations.iter().filter_map(|(_, allocation)| match allocation.place {
        Some(Place::Memory(there, place)) if there == account => Some(allocation.extents(place)),
        _ => None,
    });
    let placed = placed.flat_map(|extents| Vec::from_iter(extents.iter()));
    let mut all: Vec<Extent> = placed.chain(tables).chain(placer.holes()).chain(area.holes()).collect();
    all.sort_unstable();
    let mut end = 0;
    for extent in all {
        audit.holds(extent.offset == end, || {
            format!("I01: {account:?} is not tiled at {end:#x}: the next range is {extent:?}")
        });
        end = extent.end();
    }
    audit.equal("I01: the end of the last range", end, placer.size() + area.size());
}

/// SEG-50: what is resident in system memory and what is left of the commit limit add up to it.
fn check_system_memory(objects: &Objects, memory: &Memory, audit: &mut Audit) {
    let in_system = objects.allocations.iter().filter(|(_, a)| is_in(a, Account::SYSTEM));
    let resident: u64 = in_system.map(|(_, allocation)| allocation.size).sum();
    audit.equal("D4: available commit", memory.commit.available(), memory.commit.holes());
    audit.equal("SEG-50: the commit limit", memory.commit.limit(), resident + memory.commit.holes());
}

/// SEG-13: assigned and unassigned ranges tile the aperture; what is mapped is where its allocation says, without overlap;
/// and who requires a range that shows another can evict that.
fn check_aperture(state: &State, audit: &mut Audit) {
    let mut tiles: Vec<Extent> = state.memory.aperture.tiles().collect();
    tiles.sort_unstable();
    for part in state.memory.aperture.parts() {
        let within = tiles.iter().filter(|&&tile| part.contains(tile));
        let end = { within }.try_fold(part.offset, |end, tile| (tile.offset == end).then_some(tile.end()));
        audit.holds(end == Some(part.end()), || format!("SEG-13: {part:?} of the aperture is not tiled: {tiles:?}"));
    }
    let mut end = 0;
    let mut mapped = 0;
    for (index, range) in state.memory.aperture.shown() {
        let place = state.objects[index].place;
        audit.holds(place == Some(Place::Aperture(PageOffset::of_bytes(range.offset))) && range.offset >= end, || {
            format!("SEG-13: {range:?} of the aperture shows allocation {index}, which is at {place:?}")
        });
        (end, mapped) = (range.end(), mapped + 1);
    }
    for vacant in state.memory.aperture.vacant() {
        let shown: Vec<AllocationIx> = state.memory.aperture.shown_in(vacant).collect();
        audit.holds(shown.is_empty(), || format!("SEG-13: {vacant:?} of the aperture is vacant and shows {shown:?}"));
    }
    let placed = state.objects.allocations.iter().filter(|(_, a)| matches!(a.place, Some(Place::Aperture(_)))).count();
    audit.equal("SEG-13: allocations in the aperture", mapped, placed as u64);
    for (index, allocation) in state.objects.allocations.iter() {
        let (assigned, pinned) = (state.memory.aperture.assigned(index), allocation.is_pinned());
        let is_elsewhere = matches!((allocation.place, assigned), (Some(Place::Aperture(at)), Some(range)) if range.offset != at.bytes());
        let physical = allocation.is(AllocationState::ACCESSED_PHYSICALLY);
        let is_unmapped = physical && allocation.place == Some(Place::System);
        audit.holds(!is_unmapped, || format!("SEG-13: allocation {index} is resident outside the aperture"));
        audit.holds(!(pinned && is_elsewhere), || format!("SEG-13: allocation {index} is pinned outside its range"));
        audit.holds(assigned.is_none() || pinned, || {
            format!("SEG-13: allocation {index} keeps a range, but nothing holds it")
        });
    }
}

/// CRE-31a: the queues hold exactly the resident allocations that nobody requires.
fn check_evictable(objects: &Objects, residency: &Residents, account: Account, audit: &mut Audit) {
    let queued: Vec<AllocationIx> = residency.evictable[account].iter(&objects.allocations).collect();
    let is_marked = |a: &Allocation| a.is(AllocationState::EVICTABLE) && is_in(a, account);
    let marked = objects.allocations.iter().filter(|(_, a)| is_marked(a));
    let (count, bytes) = marked.fold((0, 0), |(count, bytes), (_, a)| (count + 1, bytes + a.size));
    audit.equal("CRE-31a: evictable allocations", queued.len() as u64, count);
    audit.equal("CRE-31a: evictable bytes", residency.evictable[account].bytes(), bytes);
    let order = |&index: &AllocationIx| (objects[index].queued_worth(), objects[index].process);
    audit.holds(queued.is_sorted_by_key(order), || format!("CRE-31a: evictable allocations out of order: {queued:?}"));
    for index in queued {
        let allocation = &objects[index];
        let is_marked = allocation.is(AllocationState::EVICTABLE);
        audit.holds(is_marked, || format!("CRE-31a: allocation {index} is queued but not marked evictable"));
        let (stands, belongs) = (allocation.queued_class(), residency.class_of(objects, index));
        audit.holds(stands == belongs, || {
            format!("CRE-31a: allocation {index} stands among the {stands:?}, but is {belongs:?}")
        });
    }
}

/// I25: what is offered is on no list, and its room there is remembered; what was discarded or decommitted has no content.
fn check_offers(objects: &Objects, audit: &mut Audit) {
    let noted = objects.processes.iter().map(|(_, process)| process.offered.len() as u64).sum();
    let offered = objects.allocations.iter().filter(|(_, a)| a.is(AllocationState::OFFERED));
    let offered = Vec::from_iter(offered);
    audit.equal("I25: offered allocations", noted, offered.len() as u64);
    for (index, allocation) in offered {
        audit.holds(objects[allocation.process].offered.contains(&index) && allocation.offer().is_some(), || {
            format!("I25: allocation {index} is offered, without a noted offer of the process")
        });
        let is_listed = allocation.entries().any(|(_, entry)| entry.count > 0 || entry.is_open());
        audit.holds(!is_listed, || format!("I25: allocation {index} is offered, but a list requires it"));
    }
    for (index, allocation) in objects.allocations.iter() {
        let (state, place) = (allocation.state(), allocation.place);
        let has = |flag| state.contains(flag);
        let is_lost = has(AllocationState::DISCARDED) || has(AllocationState::NOT_COMMITTED);
        let has_content = has(AllocationState::BACKED) || has(AllocationState::DIRTY) || place.is_some();
        audit.holds(!is_lost || !has_content, || {
            format!("I25: allocation {index} is {state:?}, but is resident or has content")
        });
    }
}

/// RES-82, RES-84: what the CPU sees is where it sees it.
fn check_locks(objects: &Objects, audit: &mut Audit) {
    let locked = objects.allocations.iter().filter(|(_, a)| a.lock().is_some() || a.is(AllocationState::LOCKED));
    for (index, allocation) in locked {
        let lock = allocation.lock();
        let is_locked = lock.is_some_and(|lock| lock.count > 0) && allocation.is(AllocationState::LOCKED);
        audit.holds(is_locked, || format!("RES-80: allocation {index} has {lock:?}, but is not locked"));
        let is_destroyed = allocation.is(AllocationState::DESTROYED);
        // A request waits for the unlock only if it brings the allocation in for the first time since the lock (U-40).
        let is_granted = allocation.is_pinned() || allocation.is_to_restore();
        let is_counted = place::is_counted(objects, index) && is_granted;
        let next_home = objects[index].home_on_list();
        let in_sight = allocation.is_seen_at_home() && allocation.is_seen_in(next_home.account());
        audit.holds(in_sight || !is_counted, || {
            format!(
                "D30: allocation {index} is locked, and a list counts it in {next_home:?}, which the CPU does not see"
            )
        });
        audit
            .holds(allocation.place.is_none_or(|place| allocation.is_seen_in(place.account())) || is_destroyed, || {
                format!("RES-82: allocation {index} is locked, and where the CPU does not see it")
            });
    }
}

fn check_allocation_records(
    adapter: &Adapter,
    objects: &Objects,
    index: AllocationIx,
    allocation: &Allocation,
    audit: &mut Audit,
) {
    let (allocation_state, is_pinned) = (allocation.state(), allocation.is_pinned());
    for (device, entry) in allocation.entries() {
        let device = &objects[device];
        audit.holds(!entry.is_open() || entry.count > 0, || {
            format!("D2: allocation {index} has an open span, but its entry is {entry:?}")
        });
        audit.holds(
            entry.is_pinning() == (!device.is_suspended() && (entry.is_open() || entry.until() > device.dispatched())),
            || {
                format!(
                    "D2: allocation {index} is pinned although its last span has expired, or is not pinned: {entry:?}"
                )
            },
        );
        audit.holds(!entry.is_pinning() || entry.is_in_pinned(), || {
            format!("RES-71: allocation {index} is pinned, and its device has not noted it: {entry:?}")
        });
    }
    audit.holds(!is_pinned || allocation.place.is_some(), || {
        format!("I06: allocation {index} is required and granted, but has no place")
    });
    let evictable = allocation.place.is_some() && !is_pinned;
    audit.holds(allocation_state.contains(AllocationState::EVICTABLE) == evictable, || {
        format!("D3: allocation {index} is wrongly marked as to evictability: {allocation_state:?}")
    });
    if let Some(Place::Memory(_, place)) = allocation.place {
        let extents = allocation.extents(place);
        audit.equal("SEG-13: bytes of an allocation's extents", extents.bytes(), allocation.size);
        let is_whole = allocation.is(AllocationState::ACCESSED_PHYSICALLY);
        audit.holds(!is_whole || extents.iter().count() == 1, || {
            format!("SEG-13: allocation {index} is accessed physically, but lies in parts")
        });
    }
    audit.holds(!is_pinned || is_in(allocation, allocation.account()), || {
        format!("RES-11: allocation {index} is pinned, but not where its device's list counts it")
    });
    let may_be_there = allocation.place.is_none_or(|place| allocation.choices.contain_account(place.account()));
    audit.holds(may_be_there, || format!("I01: allocation {index} is outside its segment set"));
    for mapping in allocation.mappings() {
        let space = &objects[mapping.process].space;
        let shows = [mapping.virtual_address, mapping.end() - 1].map(|address| space.allocation_at(address));
        audit.holds(shows == [Some(index); 2], || {
            format!("GVA-50: {:#x} of allocation {index} is not in its address space", mapping.virtual_address)
        });
        for key in addresses::tables_of(adapter, &mapping) {
            let users = objects[mapping.process].tables.get(key).map_or(0, |table| table.users);
            audit.holds(users > 0, || {
                format!("D9: allocation {index} is mapped through {key:?}, which it does not hold")
            });
        }
    }
}

fn check_devices(state: &State, audit: &mut Audit) {
    for (index, process) in state.objects.processes.iter() {
        if state.adapter.has_zero {
            let cut = process.space.reservations().flat_map(|range| PageTables::cut_by(&state.adapter, range));
            let is_held = |key| process.tables.get(key).is_some_and(|table| table.users > 0);
            audit.holds(cut.filter(|&key| key.level < state.adapter.root_level()).all(is_held), || {
                format!("D9: process {index} has a reservation that does not hold the tables in which it ends")
            });
        }
        for account in state.memory.accounts().iter() {
            let own = state.objects.allocations.iter().filter(|(_, a)| a.process == index && is_in(a, account));
            let usage: u64 = own.map(|(_, allocation)| allocation.size).sum();
            audit.equal("I16: usage of a process", state.shares.by_account[account].usage(index), usage);
            let devices = || process.devices.iter().map(|&device| &state.objects[device]);
            let shares = &state.shares.by_account[account];
            let requested = devices().map(|device| device.list[account].now()).sum();
            audit.equal("RES-53: bytes that a process requests", shares.requested(index), requested);
            let demand = devices().map(|device| device.demand(account)).sum();
            audit.equal("RES-53: demand of a process without a halt", shares.asked(index), demand);
        }
    }
    for account in state.memory.accounts().iter() {
        for (_, device) in state.objects.devices.iter() {
            audit.equal("RES-11: bytes promised to a device", device.promised[account], device.needed_now(account));
        }
        let promised: u64 = state.objects.devices.iter().map(|(_, device)| device.promised[account]).sum();
        audit.equal("RES-11: promised bytes", state.shares.promised_bytes(account), promised);
        audit.holds(promised <= state.memory.list_capacity(account), || {
            format!(
                "RES-11: {promised} bytes of {account:?} are promised, {} are there",
                state.memory.list_capacity(account)
            )
        });
    }
    for (index, device) in state.objects.devices.iter() {
        let open = || {
            let open = state.objects.allocations.iter().filter_map(|(at, a)| Some((at, a, a.entry(index)?)));
            open.collect::<Vec<_>>()
        };
        audit.equal("I28: allocations of a device", device.allocations.into(), open().len() as u64);
        for account in state.memory.accounts().iter() {
            let bytes = |counts: fn(&ListEntry) -> bool| -> u64 {
                let counted = open().into_iter().filter(|(_, a, entry)| a.account() == account && counts(entry));
                counted.map(|(_, a, _)| a.size).sum()
            };
            let is_listed = |(at, _, entry): &(AllocationIx, &Allocation, &ListEntry)| {
                entry.count > 0 && state.objects[*at].counted_in() == account
            };
            let listed: u64 = open().into_iter().filter(is_listed).map(|(_, a, _)| a.size).sum();
            let pinned = bytes(ListEntry::is_pinning);
            audit.equal("D3: bytes that a device holds", device.pinned[account], pinned);
            let (needed, capacity) = (device.needed(account), state.memory.list_capacity(account));
            audit.holds(needed <= capacity, || {
                format!("D3: device {index} needs {needed} bytes of {account:?}, and even alone has only {capacity}")
            });
            audit.equal(
                "RES-71: bytes that a device is to_restore",
                device.to_restore[account],
                bytes(ListEntry::is_to_restore),
            );
            audit.equal("I07: bytes of a device's list", device.list[account].now(), listed);
        }
        let (are_right, fit) = packing::has_right_sums(&state.objects, &state.memory, index);
        audit.holds(are_right, || format!("RES-19: the sums of device {index}'s ranges are wrong"));
        audit.holds(fit, || format!("RES-19: the list of device {index} never fits"));
        audit.holds(device.ready <= device.granted && device.granted <= device.requests.len(), || {
            format!("D3: device {index} has more requests granted than made")
        });
        let in_order = |(a, b): (&crate::objects::request::Request, &crate::objects::request::Request)| {
            a.number < b.number && a.position <= b.position
        };
        audit.holds(device.requests.iter().zip(device.requests.iter().skip(1)).all(in_order), || {
            format!("RES-33: the requests of device {index} are out of order")
        });
    }
}

/// I34: nothing is kept of allocations that are gone.
fn check_records(objects: &Objects, audit: &mut Audit) {
    let rehomed = objects.devices.iter().flat_map(|(_, device)| device.rehomed.iter());
    for &index in rehomed.chain(objects.processes.iter().flat_map(|(_, process)| process.offered.iter())) {
        audit.holds(objects.allocations.contains(index), || {
            format!("I34: a record of allocation {index} is kept, but the allocation is gone")
        });
    }
}

/// D5: a parked plan waits only for dispatched work and for earlier plans.
fn check_plans(objects: &Objects, plans: &Plans, audit: &mut Audit) {
    for number in plans.stream.numbers() {
        let plan = plans.stream.get(number).expect("it was just listed");
        for &(device, submission) in &plan.waits {
            let dispatched = objects[device].dispatched();
            audit.holds(submission <= dispatched, || {
                format!("D5: plan {number} waits for submission {submission}, dispatched are {dispatched}")
            });
        }
        let mut before = plan.after.iter().chain(&plan.after_retired);
        let follows_later = before.any(|&before| before >= number);
        audit.holds(!follows_later, || format!("D5: plan {number} follows a later plan: {:?}", plan.after));
    }
}

fn is_in(allocation: &Allocation, account: Account) -> bool {
    allocation.place.is_some_and(|place| place.account() == account)
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

    fn equal(&mut self, what: &str, record: u64, recomputed: u64) {
        self.holds(record == recomputed, || format!("{what}: the record say {record}, a recount {recomputed}"));
    }
}
