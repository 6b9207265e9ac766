//! Reservations and mappings of GPU virtual addresses, compared with a plain list of taken ranges, and with the GPU's
//! view.

mod shadow;

use std::collections::BTreeMap;

use shadow::{Answer, Mapping, Range, Reason, Shadow};
use vidmm::contract::GpuMmuFlags;
use vidmm::{
    AllocationId, GpuVaError, GpuVirtualAddress, MapError, MapGpuVirtualAddress, PAGE_SIZE, PAGE_SIZE_64K, VaRangeError,
};

use super::{Target, none};
use crate::choices::Choices;
use crate::world::{Client, Config, SOON, World};

pub const TARGET: Target = Target { name: "gpu_va", run, seeds: none, words: &[], max_len: 160 };

struct Space {
    client: Client,
    shadow: Shadow,
    allocations: Vec<Alloc>,
}

struct Alloc {
    id: AllocationId,
    pages: u64,
    is_resident: bool,
    is_alive: bool,
}

struct Spaces<'d> {
    world: World,
    choices: Choices<'d>,
    spaces: Vec<Space>,
}

fn run(data: &[u8]) {
    let choices = Choices::new(data);
    let mut spaces = Spaces::new(choices.clone());
    while !choices.is_over() {
        let space = choices.index(spaces.spaces.len());
        match choices.below(8) {
            0 | 1 => spaces.reserve(space),
            2..=4 => spaces.map(space),
            5 | 6 => spaces.free(space),
            _ => spaces.do_something_else(space),
        }
        spaces.world.vidmm.check().unwrap();
    }
    spaces.settle();
}

/// Small address spaces, so that they fill up; the memory is large enough for all.
fn config(choices: &Choices<'_>) -> Config {
    let large_pages = match choices.below(3) {
        0 => GpuMmuFlags::empty(),
        1 => GpuMmuFlags::LARGE_PAGE_SUPPORTED | GpuMmuFlags::SYS_MEM_LARGE_PAGE_SUPPORTED,
        _ => GpuMmuFlags::LARGE_PAGE_SUPPORTED | GpuMmuFlags::ALLOW_NON_ALIGNED_LARGE_PAGE_ADDRESS,
    };
    let config = Config { segment_bytes: 128 * PAGE_SIZE, large_pages, ..Config::default() };
    match choices.below(5) {
        0 => Config { level_bits: vec![4, 6], ..config },
        1 => Config {
            level_bits: vec![3, 2, 2, 2, 4],
            tables_in_system: false,
            segment_bytes: 512 * PAGE_SIZE,
            ..config
        },
        2 => Config { dual: true, large_pages, ..Config::pages_64kb(24, true) },
        3 => Config { invalid_not_cached: true, ..config },
        _ => Config { level_bits: vec![6, 5], ..config },
    }
}

impl<'d> Spaces<'d> {
    fn new(choices: Choices<'d>) -> Self {
        let mut world = World::new(config(&choices));
        world.is_audited = false;
        let spaces = (0..2).map(|_| Space::new(&mut world)).collect();
        Self { world, choices, spaces }
    }

    /// A base address: near existing ranges, or anywhere; and none at times.
    fn base(&self, space: usize) -> Option<u64> {
        let shadow = &self.spaces[space].shadow;
        let mapped = shadow.mapped.iter().map(|mapping| mapping.range);
        let ranges: Vec<Range> = shadow.reserved.iter().copied().chain(mapped).collect();
        let ends = Range { base: shadow.first, size: shadow.end - shadow.first };
        let Range { base, size } = self.choices.pick_any(&ranges).unwrap_or(ends);
        let unit = self.choices.pick(&[PAGE_SIZE, PAGE_SIZE_64K]);
        match self.choices.below(6) {
            0 => None,
            1 => Some(base),
            2 => Some(base + size),
            3 => Some((base + self.choices.below(20) * unit).wrapping_sub(self.choices.below(3) * unit)),
            4 => Some(shadow.end - unit * self.choices.below(4)),
            _ => Some(self.choices.edge()),
        }
    }

    fn size(&self) -> u64 {
        match self.choices.below(8) {
            0 => self.choices.edge(),
            1..=3 => PAGE_SIZE_64K * (1 + self.choices.below(3)),
            _ => PAGE_SIZE * (1 + self.choices.below(20)),
        }
    }

    fn reserve(&mut self, space: usize) {
        let (base, size) = (self.base(space), self.size());
        let Space { client, shadow, .. } = &mut self.spaces[space];
        let World { vidmm, host, .. } = &mut self.world;
        let answer = vidmm.reserve_gpu_virtual_address(host, client.queue, base.map(GpuVirtualAddress), size);
        let answer = answer.map(|reserved| reserved.virtual_address.0).map_err(map_reason);
        if size > 0 && size.is_multiple_of(PAGE_SIZE_64K) || base.is_some() {
            shadow.judge(base, size, PAGE_SIZE_64K, answer, |shadow, range| shadow.reserves_at(range));
        } else {
            assert!(matches!(answer, Err(Reason::Invalid | Reason::Exhausted)), "GVA-52: {size:#x}: {answer:?}");
        }
        if let Ok(base) = answer {
            shadow.take(Range { base, size });
            shadow.reserved.push(Range { base, size });
        }
    }

    fn map(&mut self, space: usize) {
        let (base, choices) = (self.base(space), &self.choices);
        let Space { client, shadow, allocations } = &mut self.spaces[space];
        let number = choices.index(allocations.len());
        let alloc = &allocations[number];
        let whole = alloc.pages * PAGE_SIZE;
        let offset = if choices.one_in(3) { choices.below(alloc.pages) * PAGE_SIZE } else { 0 };
        let mut desc = MapGpuVirtualAddress {
            base_address: base.map(GpuVirtualAddress),
            offset,
            size: if choices.one_in(3) { PAGE_SIZE * choices.below(alloc.pages + 2) } else { 0 },
            ..MapGpuVirtualAddress::whole(alloc.id)
        };
        if choices.one_in(8) {
            (desc.offset, desc.size) = (choices.edge(), choices.edge());
        }
        let rest = whole.checked_sub(desc.offset).filter(|&rest| rest > 0);
        let size =
            if desc.size == 0 { rest } else { Some(desc.size).filter(|&size| rest.is_some_and(|rest| size <= rest)) };
        let size = size.filter(|size| (size | desc.offset).is_multiple_of(PAGE_SIZE));
        let answer = self.world.try_map(*client, &desc);
        if !alloc.is_alive {
            return assert!(
                matches!(answer, Err(MapError::InvalidHandle(_))),
                "I27: a dead allocation is mapped: {answer:?}"
            );
        }
        let Some(size) = size else {
            return assert!(matches!(answer, Err(MapError::Part { .. })), "GVA-50: {desc:?}: {answer:?}");
        };
        let answer = match answer {
            Ok(mapped) => Ok(mapped.virtual_address.0),
            Err(MapError::Range(error)) => Err(error.into()),
            // The tables of the mapping do not fit, so the call is refused.
            Err(MapError::NoMemory { .. }) => return,
            Err(error) => panic!("{error}"),
        };
        let unit = if size >= PAGE_SIZE_64K { PAGE_SIZE_64K } else { PAGE_SIZE };
        shadow.judge(base, size, unit, answer, |shadow, range| shadow.maps_at(range));
        if let Ok(base) = answer {
            let range = Range { base, size };
            shadow.take(range);
            let first_page = desc.offset / PAGE_SIZE;
            shadow.mapped.push(Mapping { range, allocation: number, first_page, ending: None });
        }
    }

    fn free(&mut self, space: usize) {
        let (base, size) = (self.base(space).unwrap_or(0), self.size());
        let Space { client, shadow, .. } = &mut self.spaces[space];
        let mapped = shadow.mapped.iter().map(|mapping| mapping.range);
        let ranges: Vec<Range> = shadow.reserved.iter().copied().chain(mapped).collect();
        let range = match self.choices.pick_any(&ranges) {
            Some(range) if !self.choices.one_in(4) => part(&self.choices, range),
            _ => Range { base, size },
        };
        let Range { base, size } = range;
        let World { vidmm, host, .. } = &mut self.world;
        let answer = vidmm.free_gpu_virtual_address(host, client.process, GpuVirtualAddress(base), size);
        if matches!(answer, Err(GpuVaError::NoMemory { .. })) {
            // A page of 64 KiB is cut, and the tables for its rest do not fit.
            return;
        }
        agree(shadow.frees(range), answer.map_err(reason), range);
        if answer.is_ok() {
            shadow.free(range);
        }
    }

    fn do_something_else(&mut self, space: usize) {
        let Space { client, shadow, allocations } = &mut self.spaces[space];
        let number = self.choices.index(allocations.len());
        let alloc = &mut allocations[number];
        match self.choices.below(6) {
            0 => _ = self.world.submit(*client, &[]),
            1 if alloc.is_alive && !alloc.is_resident => {
                _ = self.world.make_resident(*client, &[alloc.id]).expect("there is room for all");
                alloc.is_resident = true;
            }
            2 if alloc.is_resident => {
                self.world.evict(*client, &[alloc.id], SOON).expect("it is resident");
                alloc.is_resident = false;
            }
            3 if alloc.is_alive => {
                self.world.destroy(alloc.id);
                (alloc.is_alive, alloc.is_resident) = (false, false);
                let its = shadow.mapped.iter_mut().filter(|mapping| mapping.allocation == number);
                its.for_each(|mapping| _ = mapping.ending.get_or_insert(Reason::NotFound));
            }
            4 => self.world.poll(),
            _ => self.settle(),
        }
    }

    /// Ends all work. Then the GPU sees exactly the mapped and resident allocations.
    fn settle(&mut self) {
        self.world.run_all();
        let mut seen = BTreeMap::new();
        for Space { client, shadow, allocations } in &mut self.spaces {
            shadow.settle();
            for mapping in &shadow.mapped {
                let alloc = &allocations[mapping.allocation];
                for page in 0..mapping.range.size / PAGE_SIZE {
                    let at = mapping.range.base + page * PAGE_SIZE;
                    let place = self.world.translate(*client, at);
                    // An allocation on no list may be resident or not. If it is seen anywhere, all of its mappings show
                    // it.
                    assert!(place.is_some() || !alloc.is_resident, "P04: {at:#x} is mapped and resident, but faults");
                    let content = (alloc.id, mapping.first_page + page);
                    let known = *seen.entry(content).or_insert(place);
                    assert_eq!(known, place, "GVA-28: {content:?} is seen in two places");
                }
                let around = [mapping.range.base.wrapping_sub(PAGE_SIZE), mapping.range.base + mapping.range.size];
                for at in around.into_iter().filter(|&at| at < shadow.end) {
                    let is_mapped = shadow
                        .mapped
                        .iter()
                        .any(|other| (other.range.base..other.range.base + other.range.size).contains(&at));
                    assert!(
                        is_mapped || self.world.translate(*client, at).is_none(),
                        "I04: {at:#x} is not mapped, but seen"
                    );
                }
            }
        }
        let mut places: Vec<_> = seen.values().flatten().collect();
        let num_seen = places.len();
        places.sort();
        places.dedup();
        assert_eq!(places.len(), num_seen, "I01: two pages are seen in one place");
    }
}

/// All of a range, or some of its pages.
fn part(choices: &Choices<'_>, whole: Range) -> Range {
    let pages = whole.size / PAGE_SIZE;
    if pages < 2 || choices.one_in(2) {
        return whole;
    }
    let first = choices.below(pages);
    Range { base: whole.base + first * PAGE_SIZE, size: (1 + choices.below(pages - first)) * PAGE_SIZE }
}

impl Space {
    fn new(world: &mut World) -> Self {
        let client = world.client();
        let allocations = [1, 3, 16, 20].map(|pages| {
            let pages_of = world.config.page_size.bytes() / PAGE_SIZE;
            Alloc {
                id: world.allocate(client, pages),
                pages: u64::next_multiple_of(pages, pages_of),
                is_resident: false,
                is_alive: true,
            }
        });
        let World { vidmm, host, .. } = &mut *world;
        let nothing = vidmm.reserve_gpu_virtual_address(host, client.queue, Some(GpuVirtualAddress(0)), 0);
        let Err(MapError::Range(VaRangeError::Invalid { first, end, .. })) = nothing else {
            panic!("GVA-52: nothing is reserved: {nothing:?}")
        };
        Self { client, shadow: Shadow::new(first.0, end.0), allocations: allocations.into() }
    }
}

impl Shadow {
    /// Compares an answer with the expected one at an address; or at any, where addresses are aligned to `unit`.
    fn judge(
        &self,
        base: Option<u64>,
        size: u64,
        unit: u64,
        answer: Result<u64, Reason>,
        expected: impl Fn(&Self, Range) -> Answer,
    ) {
        match (base, answer) {
            (Some(base), _) => {
                let range = Range { base, size };
                agree(expected(self, range), answer.map(|found| assert_eq!(found, base)), range);
            }
            (None, Ok(base)) => {
                let range = Range { base, size };
                assert!(base.is_multiple_of(unit), "U-23: {base:#x} is not aligned to {unit:#x}");
                assert!(
                    !matches!(expected(self, range), Answer::Refused(_)),
                    "GVA-50: {range:x?} is not free: {self:x?}"
                );
            }
            (None, Err(refused)) => {
                assert_eq!(refused, Reason::Exhausted);
                assert!(!self.has_room(size, unit), "GVA-50: {size:#x} bytes are free in {self:x?}");
            }
        }
    }
}

fn agree(expected: Answer, found: Result<(), Reason>, range: Range) {
    let agrees = match expected {
        Answer::Done => found.is_ok(),
        Answer::Refused(reason) => found == Err(reason),
        Answer::Either(reason) => found.is_ok() || found == Err(reason),
    };
    assert!(agrees, "{range:x?}: {found:?}, but expected {expected:?}");
}

fn map_reason(error: MapError) -> Reason {
    match error {
        MapError::Range(error) => error.into(),
        error => panic!("{error}"),
    }
}

fn reason(error: GpuVaError) -> Reason {
    match error {
        GpuVaError::Range(error) => error.into(),
        error => panic!("{error}"),
    }
}
