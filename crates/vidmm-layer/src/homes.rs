//! Homes: memory of the program, in ranges that are in local memory or not, and the buffers that are bound there.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ops::Range;

use ash::vk;

use crate::descriptors::Use;
use crate::driver::{PAGE_BYTES, RANGE_BYTES, RANGE_PAGES, Step};
use crate::fault;
use crate::manager::Slot;
use crate::ranges::Access;

/// The place of a page that is not in local memory.
const HOME: u32 = u32::MAX;
/// The place of a page that stays in the home.
const FIXED: u32 = HOME - 1;

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
        if self.fixed[page] > 0 { FIXED } else { self.places[page] }
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
            if (before == 0) == (range.fixed[page] == 0) {
                continue;
            }
            self.touched.insert(slot);
            if local == HOME {
                continue;
            }
            // The content follows the page.
            let kind = if is_fixed { CopyKind::Out } else { CopyKind::In };
            copy_page(&mut self.copies, kind, range, page, u64::from(local) * PAGE_BYTES);
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
                copy_page(&mut self.copies, CopyKind::Out, range, page, u64::from(local) * PAGE_BYTES);
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
            if range.fixed[in_range] == 0 {
                copy_page(&mut self.copies, kind, range, in_range, local + page * PAGE_BYTES - at);
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

/// Copies a page of a range, together with the last copy if the page goes on behind the last copy.
fn copy_page(copies: &mut Vec<Copy>, kind: CopyKind, range: &HomeRange, page: usize, local: u64) {
    let at = range.first + page as u64 * PAGE_BYTES;
    match copies.last_mut() {
        Some(last)
            if (last.kind, last.home) == (kind, range.memory)
                && (last.at + last.bytes, last.local + last.bytes) == (at, local) =>
        {
            last.bytes += PAGE_BYTES;
        }
        _ => copies.push(Copy { kind, home: range.memory, at, local, bytes: PAGE_BYTES }),
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
        FIXED => Place::Home(range.memory, at),
        HOME if is_bound_home => Place::Home(range.memory, at),
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

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use ash::vk::{self, Handle};
    use vidmm::policy::PolicyChoice;

    use super::{Bind, CopyKind, Homes, Place};
    use crate::driver::{PAGE_BYTES, RANGE_BYTES};
    use crate::manager::Manager;

    const HOME_PAGES: u64 = 100;
    const LOCAL_RANGES: u64 = 2;

    /// Memory by page, with a number as content, and the pages that buffers are bound to.
    struct Machine {
        homes: Homes,
        manager: Manager,
        memory: vk::DeviceMemory,
        is_bound_home: bool,
        home: Vec<u64>,
        local: Vec<u64>,
        bound: HashMap<(vk::Buffer, u64), Place>,
    }

    impl Machine {
        fn new(is_bound_home: bool) -> Self {
            let mut manager = Manager::start(LOCAL_RANGES * RANGE_BYTES, PolicyChoice::PREDICT, None).unwrap();
            let memory = vk::DeviceMemory::from_raw(1);
            let bytes = HOME_PAGES * PAGE_BYTES;
            let sizes = (0..bytes).step_by(RANGE_BYTES as usize).map(|at| RANGE_BYTES.min(bytes - at));
            let slots = sizes.map(|bytes| manager.create(bytes).unwrap()).collect();
            let mut homes = Homes::default();
            homes.add(memory, bytes, slots);
            let local = vec![u64::MAX; (LOCAL_RANGES * RANGE_BYTES / PAGE_BYTES) as usize];
            let home = vec![0; HOME_PAGES as usize];
            Self { homes, manager, memory, is_bound_home, home, local, bound: HashMap::new() }
        }

        /// Plays the queue in front of a submission.
        fn flush(&mut self) {
            self.manager.steps().into_iter().for_each(|step| self.homes.apply(step));
            for copy in self.homes.copies() {
                for page in 0..copy.bytes / PAGE_BYTES {
                    let (at, local) = (copy.at / PAGE_BYTES + page, copy.local / PAGE_BYTES + page);
                    let (home, local) = (&mut self.home[at as usize], &mut self.local[local as usize]);
                    match copy.kind {
                        CopyKind::In => *local = *home,
                        CopyKind::Out => *home = *local,
                        CopyKind::Zeros => *local = 0,
                    }
                }
            }
            for Bind { buffer, offset, bytes, place } in self.homes.binds(self.is_bound_home) {
                for page in 0..bytes / PAGE_BYTES {
                    let place = match place {
                        Place::Local(local) => Place::Local(local + page * PAGE_BYTES),
                        Place::Home(memory, at) => Place::Home(memory, at + page * PAGE_BYTES),
                        Place::Nothing => Place::Nothing,
                    };
                    self.bound.insert((buffer, offset / PAGE_BYTES + page), place);
                }
            }
        }

        /// The content that a buffer sees in a page; none if nothing is bound.
        fn seen(&mut self, buffer: vk::Buffer, page: u64) -> Option<&mut u64> {
            match self.bound[&(buffer, page)] {
                Place::Local(local) => self.local.get_mut((local / PAGE_BYTES) as usize),
                Place::Home(_, at) => self.home.get_mut((at / PAGE_BYTES) as usize),
                Place::Nothing => None,
            }
        }
    }

    /// The content of memory by page is the model, whatever has a part of the memory.
    #[test]
    fn buffers_see_the_content_of_their_memory_wherever_the_pages_are() {
        let mut state = 7_u64;
        let mut draw = move |below: u64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) % below
        };
        for is_bound_home in [true, false] {
            let mut machine = Machine::new(is_bound_home);
            let memory = machine.memory;
            let mut model = vec![0; HOME_PAGES as usize];
            let (mut moving, mut plain) = (Vec::new(), Vec::new());
            for number in 1..3000 {
                let pages = 1 + draw(40);
                let first = draw(HOME_PAGES - pages + 1);
                match draw(10) {
                    0 | 1 if moving.len() < 6 => {
                        let buffer = vk::Buffer::from_raw(number);
                        machine.homes.place(buffer, number, memory, first * PAGE_BYTES, pages * PAGE_BYTES);
                        moving.push((buffer, first, pages));
                    }
                    2 if moving.len() > 3 => {
                        let (buffer, ..) = moving.swap_remove(draw(moving.len() as u64) as usize);
                        machine.homes.forget(buffer);
                    }
                    3 if plain.len() < 3 => {
                        let (first, pages) = (first, pages.min(5));
                        machine.homes.fix(memory, first * PAGE_BYTES..(first + pages) * PAGE_BYTES, true);
                        plain.push((first, pages));
                    }
                    4 if !plain.is_empty() => {
                        let (first, pages) = plain.swap_remove(draw(plain.len() as u64) as usize);
                        machine.homes.fix(memory, first * PAGE_BYTES..(first + pages) * PAGE_BYTES, false);
                    }
                    5 if !plain.is_empty() => {
                        machine.flush();
                        let (first, pages) = plain[draw(plain.len() as u64) as usize];
                        let at = (first + draw(pages)) as usize;
                        assert_eq!(machine.home[at], model[at], "a resource that stays sees the home");
                        (machine.home[at], model[at]) = (number, number);
                    }
                    _ if !moving.is_empty() => {
                        let (buffer, first, pages) = moving[draw(moving.len() as u64) as usize];
                        let page = draw(pages);
                        let slot =
                            machine.homes.homes[&memory].slots[((first + page) * PAGE_BYTES / RANGE_BYTES) as usize];
                        let is_written = draw(2) == 0;
                        machine.manager.use_ranges(&[(slot, is_written)]).unwrap();
                        machine.flush();
                        let at = (first + page) as usize;
                        let seen = machine.seen(buffer, page).expect("what is used is bound");
                        assert_eq!(*seen, model[at], "step {number}");
                        if is_written {
                            (*seen, model[at]) = (number, number);
                        }
                    }
                    _ => {}
                }
            }
            assert!(machine.manager.statistics().bytes_paged_out > 0);
        }
    }
}
