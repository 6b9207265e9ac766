//! How a run ends, and what must hold then, whatever happened before.

use std::collections::BTreeSet;

use vidmm::*;

use super::{Alloc, Model};
use crate::world::*;

impl Model {
    /// All that stands against the end of what was submitted is taken away, and all comes to its end.
    pub fn run_all(&mut self) {
        self.world.call(|vidmm, _, _| vidmm.power_up());
        for client in self.devices.iter().map(|device| device.client) {
            self.world.call(|vidmm, _, _| vidmm.resume_process(client.process)).unwrap();
            // The foreground never yields, nor does who has reserved what it has.
            self.world.set_priority(client, PriorityBand::Normal, Visibility::Visible);
            self.world.reserve(client, 0).unwrap();
        }
        self.world.poll();
        while !self.world.trouble.late.is_empty() {
            self.world.deliver();
            self.world.poll();
            self.settle();
        }
        loop {
            if let Some(engine) = (0..3).find(|&engine| self.world.can_complete(engine)) {
                self.complete(engine, Ending::Heard);
            } else if self.world.do_what_is_owed() {
                self.world.poll();
            } else if !self.world.yield_who_can() && !self.world.pass_time() {
                break;
            }
            self.settle();
        }
        self.world.run_all();
        self.cuts.clear();
        self.settle();
        self.has_run();
        for device in &self.devices {
            let (signaled, last) = (self.world.paging_fence(device.client), device.last_fence);
            assert!(signaled == last, "I32: some paging never ended: {}", self.world.where_it_stands());
        }
        assert!(self.promises.is_empty());
        self.is_where_it_was_placed();
        self.admits_what_fits();
    }

    /// I32: all work has run, but for what was dropped with its device; and whoever waits for any of it waits no longer.
    fn has_run(&mut self) {
        for program in &self.programs {
            let is_dropped = self.world.trouble.told.contains_key(&program.device);
            assert!(program.done || is_dropped, "I32: some work never ran: {}", self.world.where_it_stands());
            if let Some((fence, value)) = program.signals {
                let reached = self.world.vidmm.monitored_fence_value(fence).unwrap();
                assert!(reached >= value, "I32: work has ended, but {fence:?} is at {reached}, not {value}");
                assert!(program.done || reached == u64::MAX, "FLT-33: work was dropped, but {fence:?} is at {reached}");
            }
        }
        self.programs.iter_mut().for_each(|program| program.done = true);
    }

    /// I02: what is nowhere resident is in its backing store, as plain tokens. I29: the IOMMU shows what is resident, and
    /// nothing else; the aperture too.
    fn is_where_it_was_placed(&self) {
        let world = &self.world;
        let mut mapped = BTreeSet::new();
        for (index, alloc) in self.allocs.iter().enumerate().filter(|(_, alloc)| alloc.alive) {
            let handle = world.handle(alloc.id);
            let placed = world.placed.get(&alloc.id);
            let is_in_aperture = placed == Some(&world.config.aperture());
            assert_eq!(
                !world.machine.aperture.pages_of(handle).is_empty(),
                is_in_aperture,
                "SEG-13: allocation {index}"
            );
            if placed.is_some() && !world.config.has_page_tables() {
                let domain = world.config.domain(self.devices[alloc.device].client.kmd_process);
                mapped.extend(alloc.mappings.iter().map(|&(address, _, pages)| (domain, address, pages * PAGE_SIZE)));
            }
            if placed.is_none() && !alloc.is_offered {
                self.is_in_backing_store(alloc);
            }
        }
        let found = world.host.io_mmu.iter().map(|(&(domain, address), mapping)| (domain, address, mapping.size));
        assert_eq!(found.collect::<BTreeSet<_>>(), mapped, "I29");
    }

    pub(super) fn is_in_backing_store(&self, alloc: &Alloc) {
        let world = &self.world;
        let handle = world.handle(alloc.id);
        let store = world.machine.known[&handle].backing_store;
        for (page, &token) in (0..).zip(&self.contents[alloc.content]) {
            let found = world.machine.read(store.offset_by(page * PAGE_SIZE), &world.host);
            assert_eq!(found, token, "I02: page {page} of {:?}, which is nowhere resident", alloc.id);
        }
        assert_eq!(world.machine.surfaces.pages_of(handle).count(), 0, "{:?} is plain", alloc.id);
    }

    /// With nothing under way, all that is off every list is room.
    fn admits_what_fits(&mut self) {
        if !self.world.config.tables_in_system {
            return;
        }
        // Where a listed allocation may be in either pool, it is counted in both.
        let used = |may_be: fn(Place) -> bool| -> u64 {
            let listed = self.allocs.iter().filter(|alloc| alloc.alive && alloc.count > 0 && may_be(alloc.place));
            listed.map(|alloc| alloc.pages * PAGE_SIZE).sum()
        };
        let room = |used: u64, size: u64| size.saturating_sub(used);
        let local =
            room(used(|place| matches!(place, Place::Local | Place::LocalOrSystem)), self.world.config.segment_bytes);
        let system = room(used(|place| place != Place::Local), self.world.config.commit_limit());
        let fits = |alloc: &&Alloc| {
            let room = match alloc.place {
                Place::Local => local,
                Place::System => system,
                Place::LocalOrSystem => local.max(system),
                // It needs a range without a gap.
                Place::Aperture => 0,
            };
            let is_alone = self.open_on[&alloc.id].len() == 1 && !alloc.is_offered;
            let is_in_error = self.is_in_error(alloc.device);
            alloc.alive && !is_in_error && is_alone && alloc.count == 0 && alloc.pages * PAGE_SIZE <= room
        };
        let Some(alloc) = self.allocs.iter().find(fits) else { return };
        let client = self.devices[alloc.device].client;
        let answer =
            self.world.call(|vidmm, _, _| vidmm.make_resident(client.queue, &[alloc.id], MakeResidentFlags::empty()));
        if let Residency::Pending { paging_fence_value } = answer.expect("RES-13: it fits") {
            self.devices[alloc.device].last_fence = paging_fence_value;
        }
        self.world.evict(client, &[alloc.id], IF_NECESSARY).unwrap();
        self.world.run_all();
    }
}
