//! The programs' use of memory: allocations, lists, offers, access by the CPU.

use vidmm::contract::AddressingModel;
use vidmm_runtime::{AllocationSegments, MemoryKind, SegmentOrder};
use vidmm_trace::ByteSize;

use super::cast::{Allocation, View};
use super::player::Player;
use crate::features::Features;
use crate::scenario::steps::{
    AllocationPriority, Answer, CloseAllocation, CpuAccess, CpuRead, CpuWrite, CreateAllocation, DestroyAllocation,
    DestroyFlag, DirectionName, EvictFlag, FreeVa, Lock, MakeResident, MakeResidentFlag, Map, Offer, OfferFlag,
    OfferPriority, OpenAllocation, Reclaim, SetPriority, Unlock, Until, UpdateProperty, Wait,
};
use crate::scenario::{Duration, Notification, Wddm};

const SEGMENTS: [(u32, AllocationSegments); 3] =
    [(5, AllocationSegments::Local), (2, AllocationSegments::System), (3, AllocationSegments::LocalOrSystem)];

const PRIORITIES: [AllocationPriority; 5] = [
    AllocationPriority::Minimum,
    AllocationPriority::Low,
    AllocationPriority::Normal,
    AllocationPriority::High,
    AllocationPriority::Maximum,
];

impl Player<'_, '_> {
    fn is_physical(&self) -> bool {
        self.world.scenario.adapter.is_physical()
    }

    /// The segments where an allocation of this machine may be.
    fn draw_segments(&mut self) -> AllocationSegments {
        let scenario = &self.world.scenario;
        if scenario.local_memory_bytes == 0 && scenario.adapter.more_apertures.is_empty() {
            return AllocationSegments::System;
        }
        if !self.has(Features::NAMED_SEGMENTS) {
            return AllocationSegments::LocalOrSystem;
        }
        let more = scenario.adapter.more_memory.len() as u8;
        let has_aperture = scenario.aperture_bytes > 0;
        if self.world.habits.spills && has_aperture && self.dice.chance(70) {
            return AllocationSegments::LocalOrSystem;
        }
        let more_apertures = scenario.adapter.more_apertures.len() as u8;
        if more + more_apertures > 0 && self.dice.chance(60) {
            let memory = (1..=more + 1).map(MemoryKind::Memory);
            let apertures = (2..).take(more_apertures.into()).map(MemoryKind::Aperture);
            let kinds = Vec::from_iter(memory.chain(has_aperture.then_some(MemoryKind::System)).chain(apertures));
            let drawn = self.dice.some(&kinds, 3);
            return SegmentOrder::new(drawn).map_or(AllocationSegments::Local, AllocationSegments::Ordered);
        }
        if has_aperture { self.dice.weighted(&SEGMENTS) } else { AllocationSegments::Local }
    }

    /// Creates an allocation, unless there are enough, and maps it.
    pub fn create(&mut self, device: usize) {
        if self.cast.those(|_| true).len() >= self.world.max_allocations {
            return;
        }
        let segments = self.draw_segments();
        let scenario = &self.world.scenario;
        let room = match segments {
            AllocationSegments::System => scenario.aperture_commit_limit_bytes.unwrap_or(scenario.aperture_bytes),
            _ => scenario.local_memory_bytes,
        };
        let largest = if self.dice.chance(5) { room * 5 / 4 } else { room / self.world.habits.largest_part };
        let mut size = match self.world.habits.fills_memory {
            true => self.dice.within(largest.max(2) / 2, largest.max(2)),
            false => self.dice.log_within(1, largest.max(2)),
        };
        if self.dice.chance(70) {
            size = size.next_multiple_of(1 << 12);
        }
        size = size.min(self.world.largest_allocation.unwrap_or(u64::MAX));
        let mut create = self.draw_allocation(device, segments, size);
        let mut answer = self.call(create.clone());
        if answer == Answer::NoPagingVa {
            // Without addresses of the paging process the driver cannot be notified, and the allocation does without.
            create.notify.retain(|&notification| notification == Notification::IoMmuUnmap);
            create.compression = false;
            create.name = self.cast.name("a");
            answer = self.call(create.clone());
        }
        if answer.is_done() {
            self.add(device, &create);
        }
    }

    fn draw_allocation(&mut self, device: usize, segments: AllocationSegments, size: u64) -> CreateAllocation {
        let is_physical = self.is_physical();
        let behind_io_mmu = matches!(
            self.world.scenario.adapter.addressing_model,
            AddressingModel::GpuVaIoMmu | AddressingModel::GpuVaIoMmuGlobal
        );
        // A driver that is not notified of an eviction leaves the content compressed.
        let is_notified = self.world.scenario.adapter.wddm == Wddm::V3_2;
        let has_notifications = self.has(Features::NOTIFICATIONS);
        let may_compress = !is_physical && is_notified && has_notifications && self.has(Features::COMPRESSION);
        let compression = may_compress && self.dice.chance(10);
        let mut notify = Vec::new();
        if compression || has_notifications && self.dice.chance(25) {
            notify.push(Notification::Eviction);
        }
        if behind_io_mmu && has_notifications {
            // The model GPU caches translations of the IOMMU, so its driver is notified of each unmap.
            notify.push(Notification::IoMmuUnmap);
        }
        let cpu = match self.dice.below(10) {
            _ if compression || !self.has(Features::CPU_ACCESS) => None,
            0 | 1 => Some(CpuAccess::Visible),
            2 | 3 if !self.has(Features::SYSTEM_COPIES) => None,
            2 if segments != AllocationSegments::System => Some(CpuAccess::PermanentSysMem),
            3 => Some(CpuAccess::ExistingSysMem),
            _ => None,
        };
        let name = self.cast.name("a");
        let has_placement = self.has(Features::PLACEMENT);
        let may_be_accessed = !is_physical && segments == AllocationSegments::System && has_placement;
        let is_accessed_physically = self.world.tells_residency
            || self.world.has_ranges && self.dice.chance(25)
            || may_be_accessed && self.dice.chance(25);
        let banks = self.draw_banks(segments);
        let directions = [DirectionName::FromStart, DirectionName::FromEnd];
        let bank_direction = if banks.is_empty() { None } else { self.dice.pick(&directions) };
        let is_aligned_range = self.world.has_ranges && is_accessed_physically;
        let has_direction = (is_physical || is_aligned_range) && has_placement;
        CreateAllocation {
            name,
            size: ByteSize(size),
            segments: Some(segments),
            accessed_physically: is_accessed_physically,
            explicit_residency_notification: self.world.tells_residency,
            notify,
            compression,
            priority: if self.dice.chance(40) { self.dice.pick(&PRIORITIES) } else { None },
            cpu,
            // Every third by its size, as read-only mappings are: nothing is drawn, and worlds stay as they are.
            disable_large_page_mapping: self.world.scenario.adapter.large_pages
                && (size / vidmm::PAGE_SIZE).is_multiple_of(7),
            cached: cpu.is_some() && (size / vidmm::PAGE_SIZE).is_multiple_of(3),
            shared: self.cast.devices[device].has_list && self.dice.chance(self.world.habits.shares),
            count: None,
            alignment: ((is_physical && has_placement || is_aligned_range) && self.dice.chance(30))
                .then(|| ByteSize(1 << self.dice.within(12, 18))),
            direction: match self.dice.below(4) {
                0 if has_direction => Some(DirectionName::FromStart),
                1 if has_direction => Some(DirectionName::FromEnd),
                _ => None,
            },
            banks,
            bank_direction,
            evict_through_aperture: is_physical && has_placement && self.dice.chance(20),
            device: Some(self.cast.devices[device].name.clone()),
        }
    }

    /// The banks of local memory where the driver of an allocation would rather have it, if it prefers that segment (SEG-43).
    fn draw_banks(&mut self, segments: AllocationSegments) -> Vec<u8> {
        let ends = &self.world.scenario.adapter.banks;
        let is_last_implied = ends.last().is_some_and(|end| end.bytes() < self.world.scenario.local_memory_bytes);
        let count = ends.len() + usize::from(is_last_implied);
        let prefers_local = matches!(segments, AllocationSegments::Local | AllocationSegments::LocalOrSystem);
        if count == 0 || !prefers_local || self.dice.chance(40) {
            return Vec::new();
        }
        let banks: Vec<u8> = (1..=count as u8).collect();
        self.dice.some(&banks, 3)
    }

    fn add(&mut self, device: usize, create: &CreateAllocation) {
        self.cast.allocations.push(Allocation {
            name: create.name.clone(),
            device,
            pages: create.size.bytes().div_ceil(vidmm::PAGE_SIZE),
            is_shared: create.shared,
            is_lockable: create.cpu.is_some(),
            is_compressed: create.compression,
            openers: Vec::new(),
            views: Vec::new(),
            lists: Default::default(),
            writers: Default::default(),
            is_written_at_any_time: false,
            is_offered: false,
            locks: 0,
            lives: true,
        });
        let allocation = self.cast.allocations.len() - 1;
        if !self.is_physical() {
            self.map(allocation, device);
        }
    }

    /// Maps an allocation for a device.
    pub fn map(&mut self, allocation: usize, device: usize) {
        let (name, is_read_only) = (self.cast.name("m"), self.dice.chance(8));
        let Allocation { name: of, pages, .. } = &self.cast.allocations[allocation];
        let (of, pages) = (of.clone(), *pages);
        // Parts are made of the pages of the memory segment, which may be of 64 KiB.
        let (mut offset, mut mapped) = (if pages > 32 && self.dice.chance(10) { 16 } else { 0 }, 0);
        if pages > 1 && self.dice.chance(10) {
            offset = self.dice.within(0, pages - 1);
            mapped = self.dice.within(1, pages - offset);
        }
        let map = Map {
            allocations: vec![of],
            name: Some(name.clone()),
            device: Some(self.cast.devices[device].name.clone()),
            offset: ByteSize(offset * vidmm::PAGE_SIZE),
            size: ByteSize(mapped * vidmm::PAGE_SIZE),
            read_only: is_read_only,
            // From what is drawn already, so that the other draws of a seed stay as they were.
            no_execute: pages % 3 == 2,
            ..Map::default()
        };
        if self.call(map).is_done() {
            self.cast.allocations[allocation].views.push(View {
                name,
                device,
                is_read_only,
                pages: if mapped == 0 { pages - offset } else { mapped },
            });
        }
    }

    /// Destroys an allocation, or frees one of its mappings.
    pub fn destroy(&mut self, device: usize) {
        let own = self.cast.those(|allocation| allocation.device == device);
        let Some(chosen) = self.dice.pick(&own) else { return };
        let view = self.cast.allocations[chosen].views.last().cloned();
        if let Some(view) = view.filter(|_| self.dice.chance(50)) {
            return self.free(chosen, &view);
        }
        let flags = match self.dice.below(6) {
            0 => vec![DestroyFlag::Synchronous],
            1 if self.misuses() || self.is_done_with(chosen) => vec![DestroyFlag::AssumeNotInUse],
            _ => Vec::new(),
        };
        self.destroy_now(chosen, flags);
    }

    /// Destroys an allocation.
    pub fn destroy_now(&mut self, chosen: usize, flags: Vec<DestroyFlag>) {
        let allocations = self.cast.names(&[chosen]);
        if self.call(DestroyAllocation { allocations, flags }).is_done() {
            self.cast.allocations[chosen].lives = false;
        }
    }

    /// Whether no work uses an allocation any more that only one device knows.
    fn is_done_with(&self, allocation: usize) -> bool {
        let known = &self.cast.allocations[allocation];
        known.openers.is_empty() && !self.session.is_in_use(&known.name)
    }

    /// Frees a mapping, or some pages of it: then the rest on either side becomes a mapping of its own.
    fn free(&mut self, allocation: usize, view: &View) {
        let (mut offset, mut size, mut rest) = (0, 0, None);
        if view.pages > 1 && self.dice.chance(60) {
            offset = self.dice.within(0, view.pages - 1);
            size = self.dice.within(1, view.pages - offset);
            rest = (offset + size < view.pages).then(|| self.cast.name("m"));
        }
        let bytes = |pages| ByteSize(pages * vidmm::PAGE_SIZE);
        let free = FreeVa { mapping: view.name.clone(), offset: bytes(offset), size: bytes(size), rest: rest.clone() };
        if !self.call(free).is_done() {
            return;
        }
        let views = &mut self.cast.allocations[allocation].views;
        views.retain(|known| known.name != view.name);
        if offset > 0 {
            views.push(View { pages: offset, ..view.clone() });
        }
        if let Some(name) = rest {
            views.push(View { name, pages: view.pages - offset - size, ..view.clone() });
        }
    }

    /// Puts an allocation on a device's list, or takes one off.
    pub fn change_list(&mut self, device: usize) {
        if !self.cast.devices[device].has_list {
            return;
        }
        if self.dice.chance(60) { self.make_resident(device) } else { self.evict_some(device, 3) }
    }

    /// Makes an allocation resident. If there is no room, takes another off the list and tries again.
    pub fn make_resident(&mut self, device: usize) {
        let usable = self.cast.usable_by(device);
        let again = self.dice.chance(10);
        let unlisted = usable.into_iter().filter(|&known| again || !self.cast.allocations[known].is_listed_by(device));
        let mut wanted = self.dice.some(&unlisted.collect::<Vec<_>>(), 4);
        if wanted.is_empty() {
            return;
        }
        if self.dice.chance(5) {
            wanted.push(wanted[0]);
        }
        let allocations = self.cast.names(&wanted);
        let flags = match self.dice.below(20) {
            0 => vec![MakeResidentFlag::CantTrimFurther],
            1 if self.misuses() => vec![MakeResidentFlag::CantTrimFurther, MakeResidentFlag::MustSucceed],
            _ => Vec::new(),
        };
        let device_name = Some(self.cast.devices[device].name.clone());
        for _ in 0..4 {
            let step = MakeResident {
                allocations: allocations.clone(),
                device: device_name.clone(),
                flags: flags.clone(),
                ..MakeResident::default()
            };
            match self.call(step) {
                answer if answer.is_done() => {
                    for &allocation in &wanted {
                        let known = &mut self.cast.allocations[allocation];
                        let count = known.lists.entry(device).or_default();
                        *count += 1;
                        if *count == 1 {
                            known.writers.remove(&device);
                        }
                    }
                    return;
                }
                Answer::NoMemory => self.evict_some(device, 4),
                _ => return,
            }
        }
    }

    /// Takes up to `most` allocations off a device's list.
    fn evict_some(&mut self, device: usize, most: usize) {
        let listed = self.cast.listed_by(device);
        let leaving = if self.misuses() { self.cast.usable_by(device) } else { listed };
        if leaving.is_empty() {
            return;
        }
        let is_lazy = self.dice.chance(self.world.habits.lazy_evictions);
        let flags = if is_lazy { vec![EvictFlag::OnlyIfNecessary] } else { Vec::new() };
        self.evict(device, &leaving, most, flags);
    }

    /// Offers an allocation that is on no list, or reclaims one that is offered.
    pub fn offer_or_reclaim(&mut self, device: usize) {
        let offered = self.cast.those(|known| known.device == device && known.is_offered);
        if !offered.is_empty() && self.dice.chance(50) {
            let chosen = self.dice.some(&offered, 4);
            let step = Reclaim { allocations: self.cast.names(&chosen), ..Reclaim::default() };
            if self.call(step).is_done() {
                chosen.iter().for_each(|&known| self.cast.allocations[known].is_offered = false);
            }
            return;
        }
        let idle = self.cast.those(|known| known.device == device && !known.is_offered && !known.is_listed());
        let chosen = self.dice.some(&idle, 4);
        if chosen.is_empty() {
            return;
        }
        let priorities = [OfferPriority::Low, OfferPriority::Normal, OfferPriority::High, OfferPriority::Auto];
        let flags = match self.dice.below(4) {
            0 => vec![OfferFlag::Immediately],
            1 => vec![OfferFlag::AllowDecommit],
            _ => Vec::new(),
        };
        let priority = self.dice.pick(&priorities).unwrap_or_default();
        let step = Offer { allocations: self.cast.names(&chosen), priority, flags };
        if self.call(step).is_done() {
            chosen.iter().for_each(|&known| self.cast.allocations[known].is_offered = true);
        }
    }

    /// The CPU locks, reads, writes or unlocks.
    pub fn use_cpu(&mut self, device: usize) {
        let is_any = self.has(Features::CPU_ACCESS) && self.dice.chance(10);
        let may_lock = |known: &Allocation| known.is_lockable || is_any && !known.is_compressed;
        let lockable = self.cast.those(|known| known.device == device && may_lock(known) && !known.is_offered);
        let Some(chosen) = self.dice.pick(&lockable) else { return };
        let allocations = self.cast.names(&[chosen]);
        let locks = self.cast.allocations[chosen].locks;
        match self.dice.below(4) {
            0 | 1 if locks > 0 && self.dice.chance(50) => self.see(CpuWrite { allocations }),
            0 | 1 if locks > 0 => self.see(CpuRead { allocations }),
            2 if locks > 0 && !self.world.habits.keeps_locks => {
                let ended = u32::from(self.call(Unlock { allocations }).is_done());
                self.cast.allocations[chosen].locks -= ended;
            }
            _ if locks < 3 => {
                let lock = Lock { allocations, device: None };
                let mut answer = self.call(lock.clone());
                for _ in 0..8 {
                    if answer != Answer::Busy || !self.world.habits.keeps_locks {
                        break;
                    }
                    self.see(Wait { until: Until::For(Duration { ns: 2_000_000 }) });
                    answer = self.call(lock.clone());
                }
                self.cast.allocations[chosen].locks += u32::from(answer.is_done());
            }
            _ => {}
        }
    }

    /// Changes the priority of allocations, or the segments where they may be.
    pub fn change_properties(&mut self, device: usize) {
        let own = self.cast.those(|known| known.device == device);
        let chosen = self.dice.some(&own, 2);
        if chosen.is_empty() {
            return;
        }
        let allocations = self.cast.names(&chosen);
        if self.is_physical() || self.dice.chance(50) {
            let priority = self.dice.pick(&PRIORITIES).unwrap_or(AllocationPriority::Normal);
            self.call(SetPriority { allocations, priority });
        } else {
            let segments = Some(self.draw_segments());
            self.call(UpdateProperty { allocations, segments });
        }
    }

    /// Opens an allocation that another device shares, maps it, or closes it.
    pub fn share(&mut self, device: usize) {
        if !self.cast.devices[device].has_list {
            return;
        }
        let open = self.cast.those(|known| known.openers.contains(&device));
        let shared = self.cast.those(|known| known.is_shared && !known.is_known_to(device));
        match (self.dice.pick(&open), self.dice.pick(&shared)) {
            (Some(chosen), _) if self.dice.chance(25) => self.close(chosen, device),
            (_, Some(chosen)) => {
                let (allocations, name) = (self.cast.names(&[chosen]), self.cast.devices[device].name.clone());
                if self.call(OpenAllocation { allocations, device: name }).is_done() {
                    self.cast.allocations[chosen].openers.push(device);
                    if !self.is_physical() {
                        self.map(chosen, device);
                    }
                }
            }
            _ => {}
        }
    }

    /// Closes an allocation that a device has opened.
    pub fn close(&mut self, chosen: usize, device: usize) {
        let (allocations, name) = (self.cast.names(&[chosen]), self.cast.devices[device].name.clone());
        if self.call(CloseAllocation { allocations, device: name }).is_done() {
            let known = &mut self.cast.allocations[chosen];
            known.openers.retain(|&opener| opener != device);
            known.lists.remove(&device);
        }
    }
}
