//! How a run ends, and what must hold then, whatever happened before.

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
            self.learn();
        }
        loop {
            if let Some(engine) = (0..3).find(|&engine| self.world.can_complete(engine)) {
                self.complete(engine, Ending::Heard);
            } else if self.world.do_what_is_owed() {
                self.world.poll();
            } else if !self.world.yield_who_can() && !self.world.pass_time() {
                break;
            }
            self.learn();
        }
        self.world.run_all();
        self.learn();
        self.has_run();
        assert!(self.world.vidmm.is_idle(), "I32: some paging never ended: {}", self.world.where_it_stands());
        for alloc in self.allocs.iter().filter(|alloc| alloc.alive && !alloc.is_offered) {
            if !self.world.placed.contains_key(&alloc.id) {
                self.is_in_backing_store(alloc);
            }
        }
    }

    /// I32: all work has run, but for what was dropped with its device.
    fn has_run(&mut self) {
        for program in &self.programs {
            let is_dropped = self.world.trouble.told.contains_key(&program.device);
            assert!(program.done || is_dropped, "I32: some work never ran: {}", self.world.where_it_stands());
        }
        self.programs.iter_mut().for_each(|program| program.done = true);
    }

    /// I02: what is nowhere resident is in its backing store, as plain tokens.
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
}
