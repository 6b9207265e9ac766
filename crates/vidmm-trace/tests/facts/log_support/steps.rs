//! Steps that follow the story, and steps of it under names that are no predicates.

use vidmm::contract::*;
use vidmm::event::{ContentSource, Event, EvictReason, ResumeReason, SuspendReason};
use vidmm::*;

use super::broken::Broken;
use super::*;

/// The place of `A` at the end of the story.
pub const A_AT: [Extent; 1] = [Extent { offset: 0x1_0000, size: A.size }];
/// The place of `B` whenever it is resident.
pub const B_AT: [Extent; 2] = [Extent { offset: 0x9000, size: 0x1_7000 }, Extent { offset: 0x5000, size: 0x4000 }];

pub fn other_device() -> DeviceId {
    DeviceId::from_bits(1)
}

pub fn other_queue() -> PagingQueueId {
    PagingQueueId::from_bits(1)
}

/// The story, and more after it.
pub fn story_and(more: impl IntoIterator<Item = Event>) -> Broken {
    let mut events = story();
    events.extend(more);
    Broken(events)
}

/// An allocation leaves the memory segment.
pub fn leaves(plan: PlanNo, thing: Thing, extents: &[Extent], copied: bool, reason: EvictReason) -> Event {
    let (allocation, segment, extents) = (thing.id(), SegmentId(1), extents.to_vec());
    let discarded = reason == EvictReason::Offered;
    Event::Evicted { plan, allocation, segment, extents, copied, reason, discarded, wanted_by: None }
}

/// The plan that brings `B` in for `A` is decided and granted.
pub fn b_comes_for(plan: PlanNo, value: u64, a_leaves: Event) -> Vec<Event> {
    let mut events = vec![make_resident(B, 2, value)];
    if let Event::Evicted { allocation, discarded: true, .. } = a_leaves {
        events.push(Event::ContentDiscarded { allocation, plan: Some(plan) });
    }
    events.extend([
        a_leaves,
        super::placed(plan, B, &B_AT, ContentSource::Fill),
        decided(plan, &[], &[]),
        granted(value, &[plan]),
    ]);
    events
}

/// The plan that brings `B` in is built and done; `A` is copied out or not.
pub fn b_is_in(plan: PlanNo, value: u64, copied: bool) -> Vec<Event> {
    let mut events = vec![Event::PlanEntered { plan }, entries_of_a(plan, Pte::INVALID), flush_a(plan)];
    if copied {
        events.extend(super::transfer(plan, A, &A_AT, MemoryTransferDirection::LocalToSystem));
    }
    events.extend(super::fill(plan, B, &B_AT));
    events.extend(ended(plan));
    events.push(Event::PagingFenceSignaled { queue: queue(), value });
    events
}

/// `A` comes back to its place at the end of the story, and `B`, which is clean, goes: decided and granted.
pub fn a_comes_back(plan: PlanNo, value: u64, content: ContentSource) -> Vec<Event> {
    vec![
        leaves(plan, B, &B_AT, false, EvictReason::RoomWanted),
        super::placed(plan, A, &A_AT, content),
        decided(plan, &[], &[]),
        granted(value, &[plan]),
    ]
}

/// The plan that brings `A` back is built and done.
pub fn a_is_in(plan: PlanNo, content: ContentSource) -> Vec<Event> {
    let mut events = vec![Event::PlanEntered { plan }];
    events.extend(match content {
        ContentSource::Fill => super::fill(plan, A, &A_AT),
        _ => super::transfer(plan, A, &A_AT, MemoryTransferDirection::SystemToLocal),
    });
    events.push(entries_of_a(plan, Pte::valid(local(A_AT[0].offset))));
    events.extend(ended(plan));
    events
}

/// The packet of a plan runs to its end.
pub fn ended(plan: PlanNo) -> Vec<Event> {
    vec![
        Event::PagingBufferSubmitted { signal: fence(PAGING, plan), bytes: 0 },
        Event::Completed { signal: fence(PAGING, plan) },
        Event::PlanRetired { plan },
    ]
}

/// Submission `submission` runs after packet `paging`, and ends.
pub fn works(submission: u64, paging: u64) -> Vec<Event> {
    vec![
        submitted(submission, &[], &[]),
        super::dispatched(submission, paging),
        Event::Completed { signal: fence(RENDER, submission) },
    ]
}

/// The dispatch of submission `submission` behind packet `paging`.
pub fn dispatch_of(submission: u64, paging: u64) -> Event {
    super::dispatched(submission, paging)
}

pub fn yields(reason: SuspendReason, wanted_by: Option<DeviceId>) -> Event {
    Event::DeviceYielded { device: device(), reason, wanted_by }
}

pub fn suspended() -> Event {
    Event::DeviceSuspended { device: device() }
}

pub fn resumed(plans: &[PlanNo]) -> Event {
    Event::DeviceResumed { device: device(), reason: ResumeReason::HasWork, plans: plans.to_vec() }
}

/// The content of `A` is copied out.
pub fn copied_out(plan: PlanNo) -> Vec<Event> {
    super::transfer(plan, A, &A_AT, MemoryTransferDirection::LocalToSystem)
}

/// `A` gets its place back.
pub fn came_back(plan: PlanNo) -> Event {
    super::placed(plan, A, &A_AT, ContentSource::BackingStore)
}
