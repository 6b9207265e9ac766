//! The pages that the operations of a paging buffer read and write, and the culprit of an access elsewhere.
//!
//! Virtual addresses are translated as the operations UPDATE_PAGE_TABLE have asked, in the order in which the hardware runs the
//! operations: the driver's own tables are on trial.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::fmt;

use vidmm::contract::{
    EngineFence, KmdAllocationHandle, KmdProcessHandle, PagingOperation, PagingOperationKind, PteFlags,
    UpdatePageTable, UpdatePageTableFlags,
};
use vidmm::{PAGE_SIZE, PhysicalAddress};

/// An operation, as findings name the operation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Culprit {
    pub kind: PagingOperationKind,
    allocation: Option<KmdAllocationHandle>,
}

impl Culprit {
    fn of(operation: &PagingOperation) -> Self {
        Self { kind: operation.kind(), allocation: operation.allocation() }
    }
}

impl fmt::Display for Culprit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.kind)?;
        self.allocation.map_or(Ok(()), |allocation| write!(f, " of allocation {:#x}", allocation.0))
    }
}

/// The effect of an operation, for the time when the hardware runs the operation.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Effect {
    /// Pages at a place are written, and as many pages at another place are read.
    Physical { culprit: Culprit, to: PhysicalAddress, from: Option<PhysicalAddress>, num_pages: u64 },
    /// The same at addresses of the paging process.
    Virtual { culprit: Culprit, to: u64, from: Option<u64>, num_pages: u64 },
    /// Entries of a table of so many bytes are written.
    Maps(UpdatePageTable, u64),
    /// Pages are written that the border does not know.
    Unknown,
}

impl Effect {
    /// The effect of an operation; none if the hardware writes nothing. `table_bytes` is the size of the table of an update.
    pub fn of(operation: &PagingOperation, table_bytes: u64) -> Option<Self> {
        let culprit = Culprit::of(operation);
        match operation {
            PagingOperation::Transfer(op) => {
                let (to, from) = (op.first_destination(), Some(op.first_source()));
                Some(Self::Physical { culprit, to, from, num_pages: op.transfer_size / PAGE_SIZE })
            }
            PagingOperation::Fill(op) => {
                Some(Self::Physical { culprit, to: op.destination, from: None, num_pages: op.fill_size / PAGE_SIZE })
            }
            PagingOperation::VirtualTransfer(op) => {
                let (to, from) = (op.destination_virtual_address.0, Some(op.source_virtual_address.0));
                Some(Self::Virtual { culprit, to, from, num_pages: op.transfer_size_in_bytes / PAGE_SIZE })
            }
            PagingOperation::VirtualFill(op) => {
                let (to, num_pages) = (op.destination_virtual_address.0, op.fill_size_in_bytes / PAGE_SIZE);
                Some(Self::Virtual { culprit, to, from: None, num_pages })
            }
            PagingOperation::UpdatePageTable(op) => Some(Self::Maps(*op, table_bytes)),
            PagingOperation::NotifyAlloc(_) => Some(Self::Unknown),
            PagingOperation::DiscardContent(_)
            | PagingOperation::FlushTlb(_)
            | PagingOperation::MapApertureSegment(_)
            | PagingOperation::MapApertureSegment2(_)
            | PagingOperation::UnmapApertureSegment(_)
            | PagingOperation::NotifyResidency(_) => None,
        }
    }
}

/// Pages of an operation.
#[derive(Clone, Copy, Debug)]
struct Range {
    first: PhysicalAddress,
    num_pages: u64,
    is_written: bool,
}

impl Range {
    /// How many pages a place is outside of the range; 0 inside.
    fn distance(&self, place: PhysicalAddress) -> u64 {
        if self.first.segment == place.segment {
            outside(self.first.offset, self.num_pages, place.offset)
        } else {
            u64::MAX
        }
    }
}

/// How many pages an offset is outside of pages; 0 inside.
fn outside(first: u64, num_pages: u64, offset: u64) -> u64 {
    let (first, page) = (first / PAGE_SIZE, offset / PAGE_SIZE);
    match page.checked_sub(first) {
        None => first - page,
        Some(past) => (past + 1).saturating_sub(num_pages),
    }
}

/// An operation in the running buffer.
#[derive(Debug)]
struct Running {
    culprit: Culprit,
    ranges: Vec<Range>,
    /// The first virtual address of each side; none for an operation without virtual addresses.
    addresses: Vec<u64>,
    num_pages: u64,
}

impl Running {
    fn ranges(&self, is_written: bool) -> impl Iterator<Item = &Range> {
        self.ranges.iter().filter(move |range| range.is_written == is_written)
    }

    fn has(&self, is_written: bool, place: PhysicalAddress) -> bool {
        self.ranges(is_written).any(|range| range.distance(place) == 0)
    }

    fn is_beside(&self, place: PhysicalAddress) -> bool {
        self.ranges(true).any(|range| range.distance(place) <= 1)
    }

    /// The place of a page of a side, counted from 0.
    fn page(&self, is_written: bool, mut number: u64) -> Option<PhysicalAddress> {
        for range in self.ranges(is_written) {
            if number < range.num_pages {
                return Some(range.first.offset_by(number * PAGE_SIZE));
            }
            number -= range.num_pages;
        }
        None
    }
}

/// The paging buffer that the hardware runs.
#[derive(Debug, Default)]
struct Buffer {
    operations: Vec<Running>,
    /// All pages are known, and nothing was reported.
    is_judged: bool,
    is_reported: bool,
    /// The operation of the last right write, and the number of writes of the operation.
    current: usize,
    written: u64,
    /// So many pages out of order are looked at.
    looks: u32,
}

impl Buffer {
    fn in_order(&mut self, is_in_order: bool) -> Access {
        if is_in_order || self.looks == LOOKS_MAX {
            return Access::Right;
        }
        self.looks += 1;
        Access::OutOfOrder
    }
}

/// More pages out of order belong to hardware that goes about pages in another order.
const LOOKS_MAX: u32 = 16;

/// A judged access of the hardware.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Access {
    /// The access is right, or nothing is known of the access.
    Right,
    /// The page is of the operation, and is not the next page.
    OutOfOrder,
    /// No operation of the running buffer accesses the page: the culprit.
    Astray(Culprit),
}

/// The work that the hardware runs: the engine, and the process.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Work {
    pub engine: u32,
    pub process: KmdProcessHandle,
}

/// The translation of a page.
#[derive(Default)]
struct Translation {
    now: Option<PhysicalAddress>,
    /// Earlier places, which a TLB without flushes may have.
    before: Vec<PhysicalAddress>,
}

/// So many earlier places of a page are remembered.
const BEFORE_MAX: usize = 16;

/// The translations of an adapter, and the paging buffer that the hardware runs.
#[derive(Default)]
pub(crate) struct Targets {
    /// By process and page.
    translations: RefCell<BTreeMap<(KmdProcessHandle, u64), Translation>>,
    buffer: RefCell<Buffer>,
    work: Cell<Option<Work>>,
    packet: Cell<Option<EngineFence>>,
}

impl Targets {
    /// The hardware begins a paging buffer with the effects of the operations.
    pub fn begin_paging(&self, packet: EngineFence, work: Option<Work>, effects: &[Effect]) {
        let mut buffer = Buffer { is_judged: true, ..Buffer::default() };
        for effect in effects {
            let operation = match *effect {
                Effect::Physical { culprit, to, from, num_pages } => {
                    let sides = [Some((to, true)), from.map(|from| (from, false))];
                    let ranges = sides.into_iter().flatten();
                    let ranges = ranges.map(|(first, is_written)| Range { first, num_pages, is_written }).collect();
                    Running { culprit, ranges, addresses: Vec::new(), num_pages }
                }
                Effect::Virtual { culprit, to, from, num_pages } => {
                    let mut ranges = Vec::new();
                    for (address, is_written) in [(Some(to), true), (from, false)] {
                        let Some(address) = address else { continue };
                        let is_known = work.is_some_and(|work| {
                            self.add_translated(work.process, address, num_pages, is_written, &mut ranges)
                        });
                        buffer.is_judged &= is_known;
                    }
                    Running { culprit, ranges, addresses: [Some(to), from].into_iter().flatten().collect(), num_pages }
                }
                Effect::Maps(op, table_bytes) => {
                    self.map(&op);
                    let num_pages = table_bytes.div_ceil(PAGE_SIZE);
                    let table = Range { first: op.page_table_address, num_pages, is_written: true };
                    let culprit = Culprit::of(&PagingOperation::UpdatePageTable(op));
                    Running { culprit, ranges: vec![table], addresses: Vec::new(), num_pages: 1 }
                }
                Effect::Unknown => {
                    buffer.is_judged = false;
                    continue;
                }
            };
            // The commands of a transfer without bytes are not run (BPB-27).
            if operation.num_pages > 0 {
                buffer.operations.push(operation);
            }
        }
        self.buffer.replace(buffer);
        self.work.set(work);
        self.packet.set(Some(packet));
    }

    /// The hardware begins work of a user.
    pub fn begin_user_work(&self, work: Option<Work>) {
        self.work.set(work);
    }

    /// The hardware has run the work.
    pub fn end(&self) {
        self.buffer.take();
        self.work.set(None);
        self.packet.set(None);
    }

    /// Notes the translations of an update.
    pub fn map(&self, op: &UpdatePageTable) {
        let mut translations = self.translations.borrow_mut();
        let first_page = op.first_pte_virtual_address.0 / PAGE_SIZE;
        if op.page_table_entries.has_large_pages() {
            // Nothing is known of the addresses behind the first address.
            translations.retain(|&(process, page), _| process != op.process || page < first_page);
            return;
        }
        if op.page_table_level > 0 {
            return;
        }
        let pages_of_entry = op.page_size().bytes() / PAGE_SIZE;
        let run = op.page_table_entries;
        for index in 0..u64::from(run.num_page_table_entries) {
            let repeats = op.flags.contains(UpdatePageTableFlags::REPEAT);
            let pte = if repeats { run.first } else { run.first.advanced(index, op.page_size()) };
            let is_mapped = pte.flags.contains(PteFlags::VALID) && !pte.flags.contains(PteFlags::ZERO);
            for page in 0..pages_of_entry {
                let key = (op.process, first_page + index * pages_of_entry + page);
                let now = is_mapped.then(|| pte.address.offset_by(page * PAGE_SIZE));
                if now.is_none() && !translations.contains_key(&key) {
                    continue;
                }
                let translation = translations.entry(key).or_default();
                if let Some(before) = std::mem::replace(&mut translation.now, now).filter(|&before| Some(before) != now)
                {
                    translation.before.retain(|&place| place != before);
                    translation.before.truncate(BEFORE_MAX - 1);
                    translation.before.insert(0, before);
                }
            }
        }
    }

    /// The process is destroyed.
    pub fn forget(&self, process: KmdProcessHandle) {
        self.translations.borrow_mut().retain(|&(of, _), _| of != process);
    }

    /// The place of a page in the process of the running work; none if the border does not know.
    pub fn place_of(&self, address: u64) -> Option<PhysicalAddress> {
        self.translations.borrow().get(&(self.work.get()?.process, address / PAGE_SIZE))?.now
    }

    /// Whether a page in the process of the running work was at a place earlier.
    pub fn was_at(&self, address: u64, place: PhysicalAddress) -> bool {
        let translations = self.translations.borrow();
        let translation = self.work.get().and_then(|work| translations.get(&(work.process, address / PAGE_SIZE)));
        translation.is_some_and(|translation| translation.before.contains(&place))
    }

    /// The packet of the paging buffer that the hardware runs.
    pub fn packet(&self) -> Option<EngineFence> {
        self.packet.get()
    }

    /// The engine that runs work.
    pub fn engine(&self) -> Option<u32> {
        self.work.get().map(|work| work.engine)
    }

    /// Adds the ranges at virtual addresses. Returns whether all pages are known.
    fn add_translated(
        &self,
        process: KmdProcessHandle,
        address: u64,
        num_pages: u64,
        is_written: bool,
        ranges: &mut Vec<Range>,
    ) -> bool {
        let translations = self.translations.borrow();
        for page in address / PAGE_SIZE..address / PAGE_SIZE + num_pages {
            let translation = translations.get(&(process, page));
            let Some(first) = translation.and_then(|translation| translation.now) else { return false };
            let goes_on = |last: &&mut Range| {
                last.is_written == is_written && last.first.offset_by(last.num_pages * PAGE_SIZE) == first
            };
            match ranges.last_mut().filter(goes_on) {
                Some(last) => last.num_pages += 1,
                None => ranges.push(Range { first, num_pages: 1, is_written }),
            }
        }
        true
    }

    /// Judges a write.
    pub fn write(&self, place: PhysicalAddress) -> Access {
        let buffer = &mut *self.buffer.borrow_mut();
        let operations = &buffer.operations;
        let Some(current) = operations.get(buffer.current).filter(|_| buffer.is_judged) else { return Access::Right };
        let writer = |from: usize| Some(from + operations.get(from..)?.iter().position(|it| it.has(true, place))?);
        let Some(right) = writer(buffer.current).or_else(|| writer(0)) else {
            let is_over = buffer.written >= current.num_pages && !current.is_beside(place);
            let culprit = if is_over { (buffer.current + 1).min(operations.len() - 1) } else { buffer.current };
            return Access::Astray(operations[culprit].culprit);
        };
        buffer.written = if right == buffer.current { buffer.written + 1 } else { 1 };
        buffer.current = right;
        let writer = &operations[right];
        buffer.in_order(writer.addresses.is_empty() || writer.page(true, buffer.written - 1) == Some(place))
    }

    /// Judges the source of the last write, which was a copy.
    pub fn read(&self, place: PhysicalAddress) -> Access {
        let buffer = &mut *self.buffer.borrow_mut();
        let current = buffer.operations.get(buffer.current).filter(|it| it.ranges(false).next().is_some());
        let Some(current) = current.filter(|_| buffer.is_judged) else { return Access::Right };
        if !current.has(false, place) {
            return Access::Astray(current.culprit);
        }
        let number = buffer.written.saturating_sub(1);
        buffer.in_order(current.addresses.is_empty() || current.page(false, number) == Some(place))
    }

    /// The buffer has a finding: further accesses are victims of the same mistake.
    pub fn set_reported(&self) {
        let mut buffer = self.buffer.borrow_mut();
        (buffer.is_judged, buffer.is_reported) = (false, true);
    }

    /// Whether the running buffer has a finding.
    pub fn is_reported(&self) -> bool {
        self.buffer.borrow().is_reported
    }

    /// The operation beside whose virtual addresses an address is: the culprit of a fault. None if the address is of an operation.
    pub fn culprit_of_fault(&self, address: u64) -> Option<Culprit> {
        let buffer = self.buffer.borrow();
        let distance = |it: &Running| {
            let distances = it.addresses.iter().map(|&first| outside(first, it.num_pages, address));
            Some((distances.min()?, it.culprit))
        };
        let current = buffer.operations.get(buffer.current).filter(|it| buffer.written >= it.num_pages);
        // The pages behind an operation may be pages of another operation.
        let goes_on = current.and_then(distance).filter(|&(distance, _)| distance == 1);
        let nearest = || buffer.operations.iter().filter_map(distance).min_by_key(|&(distance, _)| distance);
        let (distance, culprit) = goes_on.or_else(nearest)?;
        (distance > 0).then_some(culprit)
    }

    /// The virtual addresses of the pages of operations in the running buffer, and the places of the pages. For an access out of order
    /// the operation alone counts: the addresses of other operations may lead elsewhere by now.
    pub fn pages(&self, access: Access) -> Vec<(u64, PhysicalAddress)> {
        let buffer = self.buffer.borrow();
        let mut pages = Vec::new();
        let is_meant = |at: usize| access != Access::OutOfOrder || at == buffer.current;
        for (_, operation) in buffer.operations.iter().enumerate().filter(|&(at, _)| is_meant(at)) {
            for (&first, is_written) in operation.addresses.iter().zip([true, false]) {
                let ranges = operation.ranges(is_written);
                let places =
                    ranges.flat_map(|range| (0..range.num_pages).map(|at| range.first.offset_by(at * PAGE_SIZE)));
                pages.extend(places.enumerate().map(|(at, place)| (first + at as u64 * PAGE_SIZE, place)));
            }
        }
        pages
    }
}
