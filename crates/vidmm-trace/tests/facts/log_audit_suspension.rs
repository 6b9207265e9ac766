//! The audit of suspension and of power.

use crate::log_support::broken::*;
use crate::log_support::steps::*;
use crate::log_support::*;
use vidmm::contract::*;
use vidmm::event::{ContentSource, Event, EvictReason, ResumeReason, SuspendReason};
use vidmm_trace::Invariant::*;

fn a_leaves(copied: bool) -> Event {
    leaves(6, A, &A_AT, copied, EvictReason::DeviceSuspended)
}

/// The plan takes `A` out while no device requires it, with or without a copy.
fn a_goes(copied: bool) -> Vec<Event> {
    let mut events = vec![
        a_leaves(copied),
        decided(6, &[], &[]),
        Event::PlanEntered { plan: 6 },
        entries_of_a(6, Pte::INVALID),
        flush_a(6),
    ];
    if copied {
        events.extend(copied_out(6));
    }
    events.extend(ended(6));
    events
}

/// The plan brings `A` back.
fn a_returns() -> Vec<Event> {
    vec![came_back(7), decided(7, &[], &[])]
}

/// The device works, yields, is suspended, loses `A`, is resumed, and works again.
fn suspended_and_resumed() -> Broken {
    story_and(
        [
            works(3, 5),
            vec![yields(SuspendReason::WaitsForRoom, None), submitted(4, &[], &[]), suspended()],
            a_goes(true),
            a_returns(),
            vec![resumed(&[7])],
            a_is_in(7, ContentSource::BackingStore),
            vec![dispatch_of(4, 7), Event::Completed { signal: fence(RENDER, 4) }],
        ]
        .concat(),
    )
}

#[test]
fn a_right_suspension_has_no_findings() {
    suspended_and_resumed().breaks_nothing();
}

#[test]
fn res71_work_of_a_device_that_yielded_is_dispatched() {
    suspended_and_resumed().move_before(is(dispatch_of(4, 7)), is(suspended())).breaks(Res71);
    let yielded = story_and([yields(SuspendReason::WaitsForRoom, None), submitted(3, &[], &[]), dispatch_of(3, 5)]);
    yielded.breaks_only(Res71);
}

#[test]
fn res71_a_device_is_suspended_while_its_work_is_in_flight() {
    let ended = is(Event::Completed { signal: fence(RENDER, 3) });
    suspended_and_resumed().move_before(is(suspended()), ended).breaks(Res71);
}

#[test]
fn res71_a_device_is_suspended_that_did_not_yield() {
    suspended_and_resumed().remove(is(yields(SuspendReason::WaitsForRoom, None))).breaks_only(Res71);
}

#[test]
fn res71_a_device_is_resumed_that_runs() {
    story_and([resumed(&[])]).breaks_only(Res71);
}

#[test]
fn i17_an_allocation_that_a_device_requires_goes_before_the_device_is_suspended() {
    suspended_and_resumed().move_before(is(a_leaves(true)), is(suspended())).breaks(I17);
    suspended_and_resumed().remove(is(suspended())).breaks(I17);
}

#[test]
fn i02_an_allocation_that_a_suspended_device_wrote_is_not_copied() {
    suspended_and_resumed()
        .change(evicted(6), |event| {
            let Event::Evicted { copied, .. } = event else { unreachable!() };
            *copied = false;
        })
        .breaks(I02);
}

#[test]
fn i06_work_does_not_wait_for_the_plans_that_bring_its_list_back() {
    let early = is(dispatch_of(4, 7));
    suspended_and_resumed().move_before(early, is(Event::PlanEntered { plan: 7 })).breaks(I06);
    // Without the plans of the resumption, the list itself is checked.
    let resumed_without = suspended_and_resumed().replace(is(resumed(&[7])), resumed(&[]));
    resumed_without.move_before(is(dispatch_of(4, 7)), is(Event::PlanEntered { plan: 7 })).breaks(I06);
}

#[test]
fn i06_a_device_runs_that_was_resumed_without_its_list() {
    let mut broken = suspended_and_resumed();
    let from = broken.position(is(came_back(7)));
    broken.0.truncate(from);
    broken.append(resumed(&[])).append(dispatch_of(4, 6)).breaks(I06);
}

#[test]
fn res71_room_is_made_for_a_device_that_waits_for_nothing() {
    let other = other_device();
    let wanted = |event: &mut Event| {
        let Event::Evicted { wanted_by, .. } = event else { unreachable!() };
        *wanted_by = Some(for_device(other));
    };
    let created =
        Event::DeviceCreated { device: other, process: process(), residency: vidmm::DeviceResidency::DeviceList };
    suspended_and_resumed()
        .insert_before(is(suspended()), created.clone())
        .change(evicted(6), wanted)
        .breaks_only(Res71);
    // The other device may wait for its own turn.
    let reason = SuspendReason::WaitsForRoom;
    let waits = Event::DeviceYielded { device: other, reason, wanted_by: None };
    let story = suspended_and_resumed().insert_before(is(suspended()), created);
    story.insert_before(is(suspended()), waits).change(evicted(6), wanted).breaks_nothing();
}

/// The adapter loses power with `A` in system memory.
fn without_power() -> Broken {
    story_and(
        [vec![yields(SuspendReason::PowerDown, None), suspended()], a_goes(false), vec![Event::PoweredDown]].concat(),
    )
}

#[test]
fn a_right_loss_of_power_has_no_findings() {
    without_power().append(Event::PoweredUp).breaks_nothing();
}

#[test]
fn p60_power_is_lost_while_an_allocation_is_in_memory() {
    story_and([yields(SuspendReason::PowerDown, None), suspended(), Event::PoweredDown]).breaks_only(P60);
}

#[test]
fn p60_power_is_lost_while_a_device_is_active() {
    without_power().remove(is(suspended())).remove(is(yields(SuspendReason::PowerDown, None))).breaks(P60);
}

#[test]
fn p60_power_is_lost_before_paging_has_ended() {
    without_power().remove(is(Event::PlanRetired { plan: 6 })).breaks_only(P60);
}

#[test]
fn p60_an_allocation_is_placed_or_a_device_resumed_without_power() {
    without_power().append(resumed(&[])).breaks(P60);
    without_power().append(came_back(7)).breaks_only(P60);
}

#[test]
fn p60_power_comes_back_that_was_not_lost() {
    story_and([Event::PoweredUp]).breaks_only(P60);
}

/// The process is suspended, and so is its device; what its list names goes.
fn process_suspended(allow_wake_on_submission: bool) -> Vec<Event> {
    let process = process();
    let suspends = Event::ProcessSuspended { process, allow_wake_on_submission };
    [vec![suspends, yields(SuspendReason::ProcessSuspended, None), suspended()], a_goes(false)].concat()
}

/// P10: a suspension by a call empties memory, whether others want it or not.
#[test]
fn res71_the_memory_of_a_suspended_process_stays() {
    let right = process_suspended(false);
    story_and(right.clone()).breaks_nothing();
    let goes_on = [submitted(3, &[], &[]), Event::ProcessResumed { process: process(), by_submission: false }];
    story_and([&right[..3], &goes_on].concat()).breaks_only(Res71);
}

/// P10, RES-74: a suspension lasts until it is ended, and a submission ends one that allows that.
#[test]
fn res71_the_suspension_of_a_process_ends_wrongly_or_not() {
    let process = process();
    let resumed_by = |by_submission| Event::ProcessResumed { process, by_submission };
    story_and([process_suspended(false), vec![resumed_by(false)]].concat()).breaks_nothing();
    story_and([process_suspended(false), vec![resumed_by(true)]].concat()).breaks_only(Res71);
    story_and(vec![resumed_by(false)]).breaks_only(Res71);
    story_and([process_suspended(false), vec![resumed(&[])]].concat()).breaks_only(Res71);
    let work = || vec![submitted(3, &[], &[])];
    story_and([process_suspended(true), work(), vec![resumed_by(true)]].concat()).breaks_nothing();
    story_and([process_suspended(true), work(), vec![yields(SuspendReason::PowerDown, None)]].concat())
        .breaks_only(Res71);
    story_and([process_suspended(false), work(), vec![resumed_by(false)]].concat()).breaks_nothing();
}

/// RES-71: the reasons for which a device yields and is resumed are facts.
#[test]
fn res71_a_device_yields_or_is_resumed_for_a_reason_that_is_none() {
    let turn = |reason| {
        let (device, plans) = (device(), vec![]);
        let resumed = Event::DeviceResumed { device, reason, plans };
        story_and([yields(SuspendReason::WaitsForRoom, None), suspended(), resumed])
    };
    turn(ResumeReason::PressureFell).breaks_nothing();
    turn(ResumeReason::HasWork).breaks_only(Res71);
    story_and([yields(SuspendReason::ProcessSuspended, None)]).breaks_only(Res71);
}
