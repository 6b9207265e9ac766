//! The story of one allocation, as far as it has been read.

use vidmm::NumberedEvent;

use super::rooms::Rooms;
use super::subject::Subject;
use super::tale::Tale;
use super::waits::{Plans, Requests};
use super::whole;
use super::world::World;

/// An allocation, and the sentences about it.
#[derive(Debug)]
pub(super) struct Story {
    subject: Subject,
    tale: Tale,
    requests: Requests,
    rooms: Rooms,
}

impl Story {
    /// Begins with the creation of the allocation.
    pub fn new(created: &NumberedEvent, world: &World) -> Self {
        let mut tale = Tale::default();
        tale.now(created.number, created.at);
        let subject = Subject::new(&created.event, world, &mut tale);
        Self { subject, tale, requests: Requests::default(), rooms: Rooms::default() }
    }

    /// Tells an event, if it concerns the allocation.
    pub fn event(&mut self, event: &NumberedEvent, world: &World, plans: &Plans) {
        let Self { subject, tale, requests, rooms } = self;
        if subject.gone {
            return;
        }
        tale.now(event.number, event.at);
        let event = &event.event;
        subject.of_itself(event, world, tale);
        subject.of_residency(event, world, tale, (plans, requests), rooms);
        subject.of_notifications(event, world, tale);
        subject.of_portions(event, world, tale);
        subject.of_faults(event, world, tale);
        subject.of_devices(event, world, tale);
        rooms.learn(event, subject.id, tale);
    }

    /// The steps that it has told.
    pub fn steps(&self) -> usize {
        self.tale.sentences.len()
    }

    /// Says whether further steps are only counted.
    pub fn set_full(&mut self, is_full: bool) {
        self.tale.is_full = is_full;
    }

    /// Whether the allocation is gone: its story has ended.
    pub fn is_over(&self) -> bool {
        self.subject.gone
    }

    /// The explanation, in lines.
    pub fn text(&self, world: &World) -> String {
        whole::text(&self.subject, &self.tale, world)
    }

    /// The explanation without the state at the end of the log.
    pub fn life(&self, world: &World) -> String {
        whole::life(&self.subject, &self.tale, world)
    }
}
