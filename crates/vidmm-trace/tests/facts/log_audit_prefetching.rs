//! The audit of content that comes ahead of its MakeResident (D37).

use crate::log_support::broken::*;
use crate::log_support::steps::*;
use crate::log_support::*;
use vidmm::contract::Pte;
use vidmm::event::{ContentSource, Event, EvictReason, PrefetchReason};
use vidmm::*;
use vidmm_trace::Invariant::*;

fn announced(allocations: &[AllocationId]) -> Event {
    Event::Announced { device: device(), allocations: allocations.to_vec() }
}

fn prefetched(reason: PrefetchReason) -> Event {
    Event::Prefetched { plan: 7, allocation: A.id(), reason }
}

fn is_prefetched(event: &Event) -> bool {
    matches!(event, Event::Prefetched { .. })
}

fn is_announced(event: &Event) -> bool {
    matches!(event, Event::Announced { .. })
}

/// Submission 3 writes to `A`, and `A` is evicted at once. The device announces `A`, and `A` comes back into free memory.
fn comes_ahead() -> Broken {
    let leaves = leaves(6, A, &A_AT, true, EvictReason::EvictRequested);
    let is_out =
        vec![leaves, decided(6, &[], &[]), Event::PlanEntered { plan: 6 }, entries_of_a(6, Pte::INVALID), flush_a(6)];
    let reason = PrefetchReason::Announced { device: device() };
    story_and(
        [
            works(3, 5),
            vec![evict(A, EvictFlags::empty(), 3)],
            is_out,
            copied_out(6),
            ended(6),
            vec![announced(&[A.id()]), prefetched(reason), came_back(7), decided(7, &[], &[])],
            a_is_in(7, ContentSource::BackingStore),
        ]
        .concat(),
    )
}

#[test]
fn announced_content_that_comes_into_free_memory_has_no_findings() {
    comes_ahead().breaks_nothing();
    comes_ahead().replace(is_prefetched, prefetched(PrefetchReason::Policy)).remove(is_announced).breaks_nothing();
}

#[test]
fn u41_content_comes_without_a_list_and_without_a_prefetch() {
    comes_ahead().remove(is_prefetched).breaks_only(U41);
}

#[test]
fn d37_the_last_announcement_does_not_name_the_allocation() {
    comes_ahead().replace(is_announced, announced(&[B.id()])).breaks_only(D37);
    comes_ahead().insert_before(is_prefetched, announced(&[])).breaks_only(D37);
}

#[test]
fn d37_a_list_names_the_allocation() {
    comes_ahead().insert_before(is_prefetched, make_resident(A, 3, 5)).breaks(D37);
}

#[test]
fn d37_the_paging_engine_has_something_else_to_do() {
    comes_ahead().move_before(is(Event::PlanRetired { plan: 6 }), |event| *event == decided(7, &[], &[])).breaks(D37);
}

#[test]
fn d37_the_owner_has_offered_the_allocation() {
    let (device, allocations, priority) = (device(), vec![A.id()], OfferPriority::Low);
    let offered = Event::Offered { device, allocations, priority, flags: OfferFlags::empty(), after_submission: 3 };
    comes_ahead().insert_before(is_prefetched, offered).breaks(D37);
}

#[test]
fn d37_something_is_evicted_for_the_allocation() {
    let goes = leaves(7, B, &B_AT, false, EvictReason::RoomWanted);
    comes_ahead().insert_before(is(came_back(7)), goes).breaks(D37);
}
