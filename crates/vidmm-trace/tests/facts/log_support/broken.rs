//! The story with a mistake in it, and the audit's findings.

use vidmm::contract::*;
use vidmm::event::Event;
use vidmm::*;
use vidmm_trace::Invariant;

use super::{audit, numbered, story};

/// A story that a test breaks.
pub struct Broken(pub Vec<Event>);

pub fn broken() -> Broken {
    Broken(story())
}

impl Broken {
    /// The position of the one event for which `is_it` holds.
    pub fn position(&self, is_it: impl Fn(&Event) -> bool) -> usize {
        let mut found = self.0.iter().enumerate().filter(|(_, event)| is_it(event)).map(|(at, _)| at);
        let at = found.next().expect("the story has such an event");
        assert_eq!(found.next(), None, "the story has one such event");
        at
    }

    pub fn remove(mut self, is_it: impl Fn(&Event) -> bool) -> Self {
        self.0.remove(self.position(is_it));
        self
    }

    pub fn change(mut self, is_it: impl Fn(&Event) -> bool, change: impl FnOnce(&mut Event)) -> Self {
        let at = self.position(is_it);
        change(&mut self.0[at]);
        self
    }

    pub fn replace(self, is_it: impl Fn(&Event) -> bool, by: Event) -> Self {
        self.change(is_it, |event| *event = by)
    }

    pub fn insert_before(mut self, is_it: impl Fn(&Event) -> bool, event: Event) -> Self {
        self.0.insert(self.position(is_it), event);
        self
    }

    pub fn insert_after(mut self, is_it: impl Fn(&Event) -> bool, event: Event) -> Self {
        self.0.insert(self.position(is_it) + 1, event);
        self
    }

    /// Moves the event for which `is_it` holds before the one for which `before` holds.
    pub fn move_before(mut self, is_it: impl Fn(&Event) -> bool, before: impl Fn(&Event) -> bool) -> Self {
        let event = self.0.remove(self.position(is_it));
        self.insert_before(before, event)
    }

    /// Removes all events for which `is_it` holds; there are some.
    pub fn remove_all(mut self, is_it: impl Fn(&Event) -> bool) -> Self {
        let before = self.0.len();
        self.0.retain(|event| !is_it(event));
        assert!(self.0.len() < before, "the story has such events");
        self
    }

    pub fn insert_all_before(
        mut self,
        is_it: impl Fn(&Event) -> bool,
        events: impl IntoIterator<Item = Event>,
    ) -> Self {
        let at = self.position(is_it);
        self.0.splice(at..at, events);
        self
    }

    pub fn append(mut self, event: Event) -> Self {
        self.0.push(event);
        self
    }

    /// Asserts that the audit has no finding.
    #[track_caller]
    pub fn breaks_nothing(self) {
        let findings = audit(&numbered(self.0));
        assert!(findings.is_empty(), "{findings:#?}");
    }

    /// Asserts that the audit finds `invariant` broken.
    #[track_caller]
    pub fn breaks(self, invariant: Invariant) {
        let findings = audit(&numbered(self.0));
        let names: Vec<_> = findings.iter().map(ToString::to_string).collect();
        assert!(findings.iter().any(|finding| finding.invariant == invariant), "not {invariant}: {names:#?}");
    }

    /// Asserts that the audit finds `invariant` broken, and no other.
    #[track_caller]
    pub fn breaks_only(self, invariant: Invariant) {
        self.breaks_exactly(&[invariant]);
    }

    /// Asserts that the audit finds all `invariants` broken, and no other invariant.
    #[track_caller]
    pub fn breaks_exactly(self, invariants: &[Invariant]) {
        let findings = audit(&numbered(self.0));
        let names: Vec<_> = findings.iter().map(ToString::to_string).collect();
        let is_found = |invariant: &Invariant| findings.iter().any(|finding| finding.invariant == *invariant);
        let all = findings.iter().all(|finding| invariants.contains(&finding.invariant));
        assert!(invariants.iter().all(is_found) && all, "not exactly {invariants:?}: {names:#?}");
    }
}

pub fn is(event: Event) -> impl Fn(&Event) -> bool {
    move |other| *other == event
}

pub fn placed(plan: PlanNo) -> impl Fn(&Event) -> bool {
    move |event| matches!(event, Event::Placed { plan: of, .. } if *of == plan)
}

pub fn evicted(plan: PlanNo) -> impl Fn(&Event) -> bool {
    move |event| matches!(event, Event::Evicted { plan: of, .. } if *of == plan)
}

pub fn dispatched(number: u64) -> impl Fn(&Event) -> bool {
    move |event| matches!(event, Event::Dispatched { submission, .. } if *submission == number)
}

pub fn root_set(event: &Event) -> bool {
    matches!(event, Event::RootPageTableSet { .. })
}

pub fn buffer(number: u64) -> impl Fn(&Event) -> bool {
    move |event| matches!(event, Event::PagingBufferSubmitted { signal, .. } if signal.fence_id == number)
}

/// The transfer of `plan` that begins at byte `offset` of its allocation.
pub fn transfer(plan: PlanNo, offset: u64) -> impl Fn(&Event) -> bool {
    move |event| match event {
        Event::PagingOperation { plan: of, operation: PagingOperation::VirtualTransfer(op), .. } => {
            *of == plan && op.allocation_offset_in_bytes == offset
        }
        _ => false,
    }
}

pub fn fill(plan: PlanNo, offset: u64) -> impl Fn(&Event) -> bool {
    move |event| match event {
        Event::PagingOperation { plan: of, operation: PagingOperation::VirtualFill(op), .. } => {
            *of == plan && op.allocation_offset_in_bytes == offset
        }
        _ => false,
    }
}

/// The start of the adapter.
pub fn started(event: &Event) -> bool {
    matches!(event, Event::AdapterStarted { .. })
}

pub fn created(event: &Event) -> bool {
    matches!(event, Event::AllocationCreated { .. })
}

pub fn change_extents(event: &mut Event, change: impl FnOnce(&mut Vec<Extent>)) {
    match event {
        Event::Placed { extents, .. } | Event::Evicted { extents, .. } => change(extents),
        _ => panic!("not a place"),
    }
}

pub fn change_waits(event: &mut Event, by: &[EngineFence]) {
    let Event::Dispatched { waits, .. } = event else { panic!("not dispatched") };
    *waits = by.to_vec();
}

pub fn change_update(event: &mut Event, change: impl FnOnce(&mut UpdatePageTable)) {
    match event {
        Event::PagingOperation { operation: PagingOperation::UpdatePageTable(op), .. } => change(op),
        _ => panic!("not entries"),
    }
}
