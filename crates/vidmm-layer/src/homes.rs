//! Homes: memory of the program, in ranges that are in local memory or not, and the buffers that are bound there.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ops::Range;

use ash::vk;

use crate::descriptors::Use;
use crate::driver::{PAGE_BYTES, RANGE_BYTES, RANGE_PAGES, Step};
use crate::fault;
use crate::manager::Slot;
use crate::ranges::Access;

/// The place of a page: a page of local memory, or the home.
const HOME: u32 = u32::MAX;

/// A copy that goes in front of the program's commands.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Copy {
    pub kind: CopyKind,
    pub home: vk::DeviceMemory,
    /// The offset in the home.
    pub at: u64,
    pub local: u64,
    pub bytes: u64,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CopyKind {
    In,
    Out,
    /// Local memory gets zeros.
    Zeros,
}

/// The place that a part of a buffer is bound to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Place {
    Local(u64),
    Home(vk::DeviceMemory, u64),
    Nothing,
}

/// A bind of a part of a buffer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Bind {
    pub buffer: vk::Buffer,
    pub offset: u64,
    pub bytes: u64,
    pub place: Place,
}

/// A range of a home.
struct HomeRange {
    memory: vk::DeviceMemory,
    /// The offset in the home.
    first: u64,
    /// The pages of local memory with the content.
    places: [u32; RANGE_PAGES],
    /// The places that buffers are bound to.
    bound: [u32; RANGE_PAGES],
    /// How many resources that stay in the home have a part of each page.
    fixed: [u16; RANGE_PAGES],
    /// The home may have content that local memory never had.
    has_content: bool,
}

impl HomeRange {
    /// The place that a page is to be bound to.
    fn target(&self, page: usize) -> u32 {
        if self.fixed[page] > 0 { HOME } else { self.places[page] }
    }
}

struct Home {
    bytes: u64,
    slots: Vec<Slot>,
    buffers: Vec<(Range<u64>, vk::Buffer)>,
}

/// The homes of a device.
#[derive(Default)]
pub struct Homes {
    homes: HashMap<vk::DeviceMemory, Home>,
    ranges: HashMap<Slot, HomeRange>,
    /// The homes of buffers whose ranges move, and the numbers of the buffers.
    buffers: HashMap<vk::Buffer, (vk::DeviceMemory, u64)>,
    /// The places of these buffers by number.
    numbers: HashMap<u64, (vk::DeviceMemory, u64)>,
    /// Buffers that nothing is bound to yet.
    fresh: Vec<vk::Buffer>,
    /// Ranges with pages that may be bound to another place than they are to be.
    touched: BTreeSet<Slot>,
    copies: Vec<Copy>,
}

/// The pages of an extent of bytes.
fn pages(bytes: Range<u64>) -> Range<u64> {
    bytes.start / PAGE_BYTES..bytes.end.div_ceil(PAGE_BYTES)
}

impl Homes {
    /// A new home whose ranges have these slots.
    pub fn add(&mut self, memory: vk::DeviceMemory, bytes: u64, slots: Vec<Slot>) {
        for (number, &slot) in (0..).zip(&slots) {
            let nowhere = [HOME; RANGE_PAGES];
            let range = HomeRange {
                memory,
                first: number * RANGE_BYTES,
                places: nowhere,
                bound: nowhere,
                fixed: [0; RANGE_PAGES],
                has_content: false,
            };
            self.ranges.insert(slot, range);
        }
        self.homes.insert(memory, Home { bytes, slots, buffers: Vec::new() });
    }

    /// Removes a home, and returns the slots.
    pub fn remove(&mut self, memory: vk::DeviceMemory) -> Vec<Slot> {
        let Some(home) = self.homes.remove(&memory) else { return Vec::new() };
        self.copies.retain(|copy| copy.home != memory);
        self.buffers.retain(|_, (of, _)| *of != memory);
        self.numbers.retain(|_, (of, _)| *of != memory);
        self.fresh.retain(|buffer| self.buffers.contains_key(buffer));
        for slot in &home.slots {
            self.ranges.remove(slot);
            self.touched.remove(slot);
        }
        home.slots
    }

    /// Whether memory is a home.
    pub fn has(&self, memory: vk::DeviceMemory) -> bool {
        self.homes.contains_key(&memory)
    }

    /// Bytes of a home.
    pub fn bytes_in(&self, memory: vk::DeviceMemory) -> u64 {
        self.homes.get(&memory).map_or(0, |home| home.bytes)
    }

    /// Bytes of all homes.
    pub fn bytes(&self) -> u64 {
        self.homes.values().map(|home| home.bytes).sum()
    }

    /// The slots of all ranges.
    pub fn all(&self) -> Vec<Slot> {
        Vec::from_iter(self.ranges.keys().copied())
    }

    /// A buffer whose ranges move has a place in a home.
    pub fn place(&mut self, buffer: vk::Buffer, number: u64, memory: vk::DeviceMemory, offset: u64, bytes: u64) {
        let Some(home) = self.homes.get_mut(&memory) else { return };
        home.buffers.push((offset..offset + bytes, buffer));
        self.buffers.insert(buffer, (memory, number));
        self.numbers.insert(number, (memory, offset));
        self.fresh.push(buffer);
    }

    /// A buffer is destroyed.
    pub fn forget(&mut self, buffer: vk::Buffer) {
        let Some((memory, number)) = self.buffers.remove(&buffer) else { return };
        self.numbers.remove(&number);
        self.fresh.retain(|fresh| *fresh != buffer);
        if let Some(home) = self.homes.get_mut(&memory) {
            home.buffers.retain(|(_, of)| *of != buffer);
        }
    }

    /// A resource that stays in the home has these bytes from now on, or no longer.
    pub fn fix(&mut self, memory: vk::DeviceMemory, bytes: Range<u64>, is_fixed: bool) {
        let Some(home) = self.homes.get(&memory) else { return };
        for page in pages(bytes.start..bytes.end.min(home.bytes)) {
            let (number, page) = ((page as usize) / RANGE_PAGES, (page as usize) % RANGE_PAGES);
            let slot = home.slots[number];
            let Some(range) = self.ranges.get_mut(&slot) else { continue };
            let before = range.fixed[page];
            range.fixed[page] = if is_fixed { before.saturating_add(1) } else { before.saturating_sub(1) };
            range.has_content = true;
            let local = range.places[page];
            if (before == 0) == (range.fixed[page] == 0) || local == HOME {
                continue;
            }
            // The content follows the page.
            let kind = if is_fixed { CopyKind::Out } else { CopyKind::In };
            let at = range.first + page as u64 * PAGE_BYTES;
            let local = u64::from(local) * PAGE_BYTES;
            self.copies.push(Copy { kind, home: memory, at, local, bytes: PAGE_BYTES });
            self.touched.insert(slot);
        }
    }

    /// The ranges that uses need, and whether each is written.
    pub fn slots<'a>(&self, uses: impl IntoIterator<Item = &'a Use>) -> BTreeMap<Slot, bool> {
        let mut slots = BTreeMap::new();
        for Use { buffer, range, access } in uses {
            let Some(&(memory, offset)) = self.numbers.get(buffer).filter(|_| !range.is_empty()) else { continue };
            let Some(home) = self.homes.get(&memory) else { continue };
            let (first, last) = ((offset + range.start) / RANGE_BYTES, (offset + range.end - 1) / RANGE_BYTES);
            for &slot in home.slots.iter().take(last as usize + 1).skip(first as usize) {
                *slots.entry(slot).or_default() |= *access != Access::Read;
            }
        }
        slots
    }

    /// Bytes of a range.
    pub fn bytes_of(&self, slot: Slot) -> u64 {
        let range = self.ranges.get(&slot).map(|range| (range.memory, range.first));
        range.map_or(0, |(memory, first)| (self.homes[&memory].bytes - first).min(RANGE_BYTES))
    }

    /// Uses of a range go to the home from now on, whatever local memory has. Returns whether the manager has to forget where the range was.
    pub fn send_home(&mut self, slot: Slot) -> bool {
        let Some(range) = self.ranges.get_mut(&slot) else { return false };
        range.has_content = true;
        let was_local = range.places.iter().any(|&place| place != HOME);
        for page in 0..RANGE_PAGES {
            let local = std::mem::replace(&mut range.places[page], HOME);
            if local != HOME && range.fixed[page] == 0 {
                let at = range.first + page as u64 * PAGE_BYTES;
                let local = u64::from(local) * PAGE_BYTES;
                self.copies.push(Copy { kind: CopyKind::Out, home: range.memory, at, local, bytes: PAGE_BYTES });
            }
        }
        self.touched.insert(slot);
        was_local
    }

    /// The manager's name of a range has changed.
    pub fn rename(&mut self, old: Slot, new: Slot) {
        let Some(range) = self.ranges.remove(&old) else { return };
        let home = self.homes.get_mut(&range.memory).expect("a range has a home");
        home.slots.iter_mut().filter(|slot| **slot == old).for_each(|slot| *slot = new);
        self.ranges.insert(new, range);
        self.touched.remove(&old);
        self.touched.insert(new);
    }

    /// Takes a step of paging over.
    pub fn apply(&mut self, step: Step) {
        match step {
            Step::PageIn { at, bytes, local } => self.copy(CopyKind::In, at, bytes, local),
            Step::PageOut { at, bytes, local } => self.copy(CopyKind::Out, at, bytes, local),
            Step::Fill { at, bytes, local } => self.copy(CopyKind::Zeros, at, bytes, local),
            Step::Place { at, bytes, local } => {
                for page in pages(at..at + bytes) {
                    let slot = (page / RANGE_PAGES as u64) as Slot;
                    let Some(range) = self.ranges.get_mut(&slot) else { continue };
                    let place = local.map(|local| ((local + page * PAGE_BYTES - at) / PAGE_BYTES) as u32);
                    range.places[page as usize % RANGE_PAGES] = place.unwrap_or(HOME);
                    self.touched.insert(slot);
                }
            }
        }
    }

    /// Copies the pages of a range that do not stay in the home.
    fn copy(&mut self, kind: CopyKind, at: u64, bytes: u64, local: u64) {
        let slot = (at / RANGE_BYTES) as Slot;
        let Some(range) = self.ranges.get_mut(&slot) else { return };
        let kind = if kind == CopyKind::Zeros && range.has_content { CopyKind::In } else { kind };
        for page in pages(at..at + bytes) {
            let in_range = page as usize % RANGE_PAGES;
            if range.fixed[in_range] > 0 {
                continue;
            }
            let local = local + page * PAGE_BYTES - at;
            let at = range.first + in_range as u64 * PAGE_BYTES;
            match self.copies.last_mut() {
                Some(last)
                    if (last.kind, last.home) == (kind, range.memory)
                        && (last.at + last.bytes, last.local + last.bytes) == (at, local) =>
                {
                    last.bytes += PAGE_BYTES;
                }
                _ => self.copies.push(Copy { kind, home: range.memory, at, local, bytes: PAGE_BYTES }),
            }
        }
    }

    /// The copies since the last call, in their order.
    pub fn copies(&mut self) -> Vec<Copy> {
        let mut copies = std::mem::take(&mut self.copies);
        if fault::is("no-write-back") {
            copies.retain(|copy| copy.kind != CopyKind::Out);
        }
        copies
    }

    /// The binds that put each buffer where the content is. `is_bound_home` tells whether a range that is not in local memory is bound.
    pub fn binds(&mut self, is_bound_home: bool) -> Vec<Bind> {
        let mut binds = Vec::new();
        for slot in std::mem::take(&mut self.touched) {
            let Some(range) = self.ranges.get_mut(&slot) else { continue };
            let changed = Vec::from_iter((0..RANGE_PAGES).filter(|&page| range.bound[page] != range.target(page)));
            changed.iter().for_each(|&page| range.bound[page] = range.target(page));
            let Some(home) = self.homes.get(&range.memory) else { continue };
            let end = range.first + RANGE_BYTES;
            let here = home.buffers.iter().filter(|(bytes, _)| bytes.start < end && bytes.end > range.first);
            for (bytes, buffer) in here.filter(|(_, buffer)| !self.fresh.contains(buffer)) {
                for &page in &changed {
                    bind_page(&mut binds, range, page, bytes, *buffer, is_bound_home);
                }
            }
        }
        for buffer in std::mem::take(&mut self.fresh) {
            let Some(&(memory, _)) = self.buffers.get(&buffer) else { continue };
            let home = &self.homes[&memory];
            let Some((bytes, _)) = home.buffers.iter().find(|(_, of)| *of == buffer) else { continue };
            for page in pages(bytes.clone()) {
                let range = &self.ranges[&home.slots[page as usize / RANGE_PAGES]];
                bind_page(&mut binds, range, page as usize % RANGE_PAGES, bytes, buffer, is_bound_home);
            }
        }
        binds
    }
}

/// Binds the part of a buffer that is in a page.
fn bind_page(
    binds: &mut Vec<Bind>,
    range: &HomeRange,
    page: usize,
    bytes: &Range<u64>,
    buffer: vk::Buffer,
    is_bound_home: bool,
) {
    let at = range.first + page as u64 * PAGE_BYTES;
    if at < bytes.start || at >= bytes.end {
        return;
    }
    let place = match range.bound[page] {
        HOME if is_bound_home || range.fixed[page] > 0 => Place::Home(range.memory, at),
        HOME => Place::Nothing,
        local => Place::Local(u64::from(local) * PAGE_BYTES),
    };
    let (offset, count) = (at - bytes.start, PAGE_BYTES.min(bytes.end - at));
    let goes_on = |last: &Bind| {
        last.buffer == buffer
            && last.offset + last.bytes == offset
            && match (last.place, place) {
                (Place::Local(before), Place::Local(now)) => before + last.bytes == now,
                (Place::Home(before, first), Place::Home(now, next)) => before == now && first + last.bytes == next,
                (before, now) => before == now,
            }
    };
    match binds.last_mut() {
        Some(last) if goes_on(last) => last.bytes += count,
        _ => binds.push(Bind { buffer, offset, bytes: count, place }),
    }
}
