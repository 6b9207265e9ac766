//! The audit of copies ahead of evictions (D37).

use crate::log_support::broken::*;
use crate::log_support::steps::*;
use crate::log_support::*;
use vidmm::event::{Event, EvictReason};
use vidmm::*;
use vidmm_trace::Invariant::*;

fn cleaned(plan: PlanNo) -> Event {
    let (allocation, size) = (A.id(), A.size);
    Event::Cleaned { plan, allocation, offset: 0, size, is_last: true, ahead: 0, watermark: 0x1000 }
}

fn is_cleaned(event: &Event) -> bool {
    matches!(event, Event::Cleaned { .. })
}

/// A plan copies `A` out in place.
fn clean(plan: PlanNo) -> Vec<Event> {
    [vec![cleaned(plan), decided(plan, &[], &[]), Event::PlanEntered { plan }], copied_out(plan), ended(plan)].concat()
}

/// Submission 3 writes to `A`, and `A` is cleaned. `B` comes, and `A` goes with a copy or without.
fn cleaned_and_evicted(copied: bool) -> Broken {
    let b_comes = b_comes_for(7, 5, leaves(7, A, &A_AT, copied, EvictReason::RoomWanted));
    story_and(
        [
            works(3, 5),
            vec![evict(A, EvictFlags::EVICT_ONLY_IF_NECESSARY, 3)],
            clean(6),
            [vec![make_resident(B, 3, 5)], b_comes[1..].to_vec()].concat(),
            b_is_in(7, 5, copied),
        ]
        .concat(),
    )
}

fn change(change: impl FnOnce(&mut u64, &mut bool, &mut u64, &mut u64)) -> Broken {
    cleaned_and_evicted(false).change(is_cleaned, |event| {
        let Event::Cleaned { size, is_last, ahead, watermark, .. } = event else { unreachable!() };
        change(size, is_last, ahead, watermark);
    })
}

#[test]
fn an_eviction_of_clean_content_that_copies_nothing_has_no_findings() {
    cleaned_and_evicted(false).breaks_nothing();
}

#[test]
fn res22_clean_content_is_copied_again() {
    cleaned_and_evicted(true).breaks(Res22);
}

#[test]
fn i02_written_content_that_is_not_clean_is_not_copied() {
    let story = cleaned_and_evicted(false);
    let (at, end) = (story.position(is_cleaned), story.position(evicted(7)));
    let mut events = story.0;
    let next = events[at..end].iter().position(|event| matches!(event, Event::MakeResident { .. })).unwrap();
    events.drain(at..at + next);
    Broken(events).breaks(I02);
}

#[test]
fn i02_content_is_not_clean_before_the_copy_has_ended() {
    let ends = |event: &Event| *event == Event::PlanRetired { plan: 6 };
    cleaned_and_evicted(false).move_before(evicted(7), ends).breaks(I02);
}

#[test]
fn d37_enough_of_the_cold_end_is_clean_already() {
    change(|_, _, ahead, watermark| *ahead = *watermark).breaks_only(D37);
}

#[test]
fn i10_another_part_is_copied_than_the_event_says() {
    change(|size, is_last, _, _| (*size, *is_last) = (*size - 0x1000, false)).breaks(I10);
    change(|_, is_last, _, _| *is_last = false).breaks(I10);
}

#[test]
fn d37_work_under_way_may_write_to_the_allocation() {
    let ends = Event::Completed { signal: fence(RENDER, 3) };
    cleaned_and_evicted(false).move_before(is(ends), |event| *event == decided(6, &[], &[])).breaks(D37);
}

#[test]
fn d37_a_list_names_the_allocation() {
    let leaves = evict(A, EvictFlags::EVICT_ONLY_IF_NECESSARY, 3);
    cleaned_and_evicted(false).move_before(is(leaves), |event| *event == decided(6, &[], &[])).breaks(D37);
}

#[test]
fn d37_the_paging_engine_has_something_else_to_do() {
    cleaned_and_evicted(false).move_before(is(Event::PlanRetired { plan: 5 }), evicted(7)).breaks(D37);
}

#[test]
fn d37_the_owner_has_offered_the_allocation() {
    let (device, allocations, priority) = (device(), vec![A.id()], OfferPriority::Low);
    let offered = Event::Offered { device, allocations, priority, flags: OfferFlags::empty(), after_submission: 3 };
    cleaned_and_evicted(false).insert_before(is_cleaned, offered).breaks(D37);
}

#[test]
fn res22_content_without_a_write_is_cleaned() {
    let quiet = evict(A, EvictFlags::EVICT_ONLY_IF_NECESSARY | EvictFlags::NOT_WRITTEN_TO, 3);
    let leaves = evict(A, EvictFlags::EVICT_ONLY_IF_NECESSARY, 3);
    cleaned_and_evicted(false).replace(is(leaves), quiet).breaks_only(Res22);
}
