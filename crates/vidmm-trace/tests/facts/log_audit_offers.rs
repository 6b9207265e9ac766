//! The audit of offers, of the CPU's views, and of allocations that several devices have open.

use crate::log_support::broken::*;
use crate::log_support::steps::*;
use crate::log_support::*;
use vidmm::contract::*;
use vidmm::event::{ContentSource, Event, EvictReason};
use vidmm::*;
use vidmm_trace::Invariant::*;

fn offered() -> Event {
    offered_after(2, OfferFlags::empty())
}

fn offered_after(after_submission: u64, flags: OfferFlags) -> Event {
    let (device, allocations, priority) = (device(), vec![A.id()], OfferPriority::Low);
    Event::Offered { device, allocations, priority, flags, after_submission }
}

fn reclaimed(result: ReclaimResult, backing_store: u64, after_submission: u64, paging_fence_value: u64) -> Event {
    Event::Reclaimed {
        device: device(),
        queue: queue(),
        allocations: vec![A.id()],
        results: vec![result],
        backing_stores: vec![backing_store],
        after_submission,
        paging_fence_value,
    }
}

fn a_is_discarded() -> Event {
    leaves(6, A, &A_AT, false, EvictReason::Offered)
}

/// `A` is offered and discarded, for `B`; then `B` goes for `A`, which is reclaimed without its content.
fn discarded_and_reclaimed() -> Broken {
    story_and(
        [
            vec![offered()],
            b_comes_for(6, 5, a_is_discarded()),
            b_is_in(6, 5, false),
            works(3, 6),
            vec![evict(B, EvictFlags::all(), 3)],
            vec![reclaimed(ReclaimResult::Discarded, A.backing_store, 3, 6)],
            a_comes_back(7, 6, ContentSource::Fill),
            a_is_in(7, ContentSource::Fill),
            vec![Event::PagingFenceSignaled { queue: queue(), value: 6 }],
        ]
        .concat(),
    )
}

fn of_plan(plan: PlanNo) -> impl Fn(&Event) -> bool {
    evicted(plan)
}

fn is_reclaimed(event: &Event) -> bool {
    matches!(event, Event::Reclaimed { .. })
}

#[test]
fn right_offers_have_no_findings() {
    discarded_and_reclaimed().breaks_nothing();
    story_and([offered(), reclaimed(ReclaimResult::Ok, A.backing_store, 2, 0)]).breaks_nothing();
}

/// RES-22, U-41: `B` comes although its Evict was made before its grant, and no work was submitted between.
#[test]
fn u41_an_allocation_is_brought_in_that_was_evicted_before_its_grant() {
    let came = || {
        let a_leaves = leaves(6, A, &A_AT, false, EvictReason::RoomWanted);
        story_and([vec![evict(A, EvictFlags::EVICT_ONLY_IF_NECESSARY, 2)], b_comes_for(6, 5, a_leaves)].concat())
    };
    came().breaks_nothing();
    came().insert_before(evicted(6), evict(B, EvictFlags::empty(), 2)).breaks_only(U41);
}

#[test]
fn i25_an_offered_allocation_is_offered_again() {
    story_and([offered(), offered()]).breaks_only(I25);
}

#[test]
fn i25_an_offered_allocation_is_made_resident() {
    story_and([offered(), make_resident(A, 2, 5)]).breaks(I25);
}

#[test]
fn i25_an_allocation_that_is_not_offered_is_reclaimed() {
    story_and([reclaimed(ReclaimResult::Ok, A.backing_store, 2, 0)]).breaks_only(I25);
}

#[test]
fn i25_an_allocation_that_is_not_offered_is_discarded() {
    discarded_and_reclaimed().remove(is(offered())).breaks(I25);
}

#[test]
fn i25_a_discarded_allocation_is_copied() {
    discarded_and_reclaimed().change(of_plan(6), |event| set_copied(event, true)).breaks(I25);
}

#[test]
fn i25_an_allocation_that_leaves_because_it_is_offered_keeps_its_content() {
    discarded_and_reclaimed()
        .change(of_plan(6), |event| {
            let Event::Evicted { discarded, .. } = event else { unreachable!() };
            *discarded = false;
        })
        .breaks(I25);
}

#[test]
fn i25_lost_content_is_said_to_be_there() {
    discarded_and_reclaimed()
        .replace(is_reclaimed, reclaimed(ReclaimResult::Ok, A.backing_store, 3, 6))
        .breaks_only(I25);
}

#[test]
fn i25_content_that_is_there_is_said_to_be_lost() {
    story_and([offered(), reclaimed(ReclaimResult::Discarded, A.backing_store, 2, 0)]).breaks_only(I25);
    let immediately = offered_after(2, OfferFlags::OFFER_IMMEDIATELY);
    story_and([immediately, reclaimed(ReclaimResult::Discarded, A.backing_store, 2, 0)]).breaks_only(I25);
}

#[test]
fn an_allocation_without_a_place_is_discarded_at_once() {
    let (device, priority, flags) = (device(), OfferPriority::Low, OfferFlags::OFFER_IMMEDIATELY);
    let offered = Event::Offered { device, allocations: vec![B.id()], priority, flags, after_submission: 2 };
    let mut back = reclaimed(ReclaimResult::Discarded, B.backing_store, 2, 0);
    let Event::Reclaimed { allocations, .. } = &mut back else { unreachable!() };
    *allocations = vec![B.id()];
    let discarded = Event::ContentDiscarded { allocation: B.id(), plan: Some(6) };
    story_and([offered.clone(), discarded.clone(), back.clone()]).breaks_nothing();
    // I25: each discard is told, once, and of what is offered.
    story_and([offered.clone(), back.clone()]).breaks_only(I25);
    story_and([offered.clone(), discarded.clone(), discarded.clone(), back]).breaks_only(I25);
    story_and([discarded]).breaks_only(I25);
    // Without a plan content goes only when the host has no memory.
    story_and([offered, Event::ContentDiscarded { allocation: B.id(), plan: None }]).breaks_only(I25);
}

#[test]
fn i25_a_backing_store_moves_that_was_not_decommitted() {
    discarded_and_reclaimed()
        .replace(is_reclaimed, reclaimed(ReclaimResult::Discarded, 0x800_0000, 3, 6))
        .breaks_only(I25);
}

#[test]
fn i02_lost_content_is_copied_in() {
    discarded_and_reclaimed()
        .change(placed(7), |event| {
            let Event::Placed { content, .. } = event else { unreachable!() };
            *content = ContentSource::BackingStore;
        })
        .breaks(I02);
}

#[test]
fn i17_an_offered_allocation_goes_before_the_work_that_uses_it_has_retired() {
    let mut broken = discarded_and_reclaimed();
    let before = broken.position(is(offered()));
    broken
        .0
        .splice(before..=before, [submitted(3, &[], &[]), dispatch_of(3, 5), offered_after(3, OfferFlags::empty())]);
    broken.breaks(I17);
}

#[test]
fn i06_an_allocation_is_reclaimed_and_used_before_it_is_in() {
    let signaled = Event::PagingFenceSignaled { queue: queue(), value: 6 };
    let early = [submitted(4, &[], &[]), dispatch_of(4, 6)];
    discarded_and_reclaimed().insert_all_before(is(Event::PlanEntered { plan: 7 }), early).breaks(I06);
    discarded_and_reclaimed().append(submitted(4, &[], &[])).append(dispatch_of(4, 7)).breaks_nothing();
    discarded_and_reclaimed().remove(is(signaled)).breaks_nothing();
}

#[test]
fn u37_another_allocation_goes_before_an_offered_one() {
    discarded_and_reclaimed()
        .insert_before(of_plan(6), leaves(6, B, &B_AT, false, EvictReason::RoomWanted))
        .breaks(U37);
}

/// U-37: the allocations of a suspended process go without a device that wants their room; for one that does, they wait
/// for their turn.
#[test]
fn u37_an_allocation_of_a_suspended_device_goes_for_another_device_before_an_offered_one() {
    let goes_for = |wanted: Option<DeviceId>| {
        let mut leaves = leaves(6, B, &B_AT, false, EvictReason::DeviceSuspended);
        if let Event::Evicted { wanted_by, .. } = &mut leaves {
            *wanted_by = wanted.map(for_device);
        }
        let events = discarded_and_reclaimed().insert_before(of_plan(6), leaves).0;
        let is_out_of_order = |finding: &vidmm_trace::AuditFinding| finding.invariant == U37;
        audit(&numbered(events)).iter().any(is_out_of_order)
    };
    assert!(goes_for(Some(device())) && !goes_for(None));
}

/// U-36: what is reclaimed before its backing store is reset comes in after that.
#[test]
fn i25_an_allocation_comes_in_before_its_discard_is_over() {
    let retired = Event::PlanRetired { plan: 6 };
    let late = discarded_and_reclaimed().remove(is(retired.clone()));
    late.insert_after(is(Event::PlanEntered { plan: 7 }), retired).breaks(I25);
}

/// `A` is offered with its backing store, and loses both.
fn decommitted(flags: OfferFlags) -> Broken {
    let mut broken = discarded_and_reclaimed().replace(is(offered()), offered_after(2, flags));
    let at = broken.position(is_reclaimed);
    broken.0.insert(at, Event::Decommitted { allocation: A.id() });
    broken.replace(is_reclaimed, reclaimed(ReclaimResult::Discarded, 0x800_0000, 3, 6))
}

#[test]
fn a_decommitted_backing_store_comes_back_elsewhere() {
    decommitted(OfferFlags::ALLOW_DECOMMIT).breaks_nothing();
}

#[test]
fn i25_a_backing_store_is_decommitted_that_must_stay() {
    decommitted(OfferFlags::empty()).breaks_only(I25);
}

#[test]
fn i25_a_backing_store_is_decommitted_with_its_content() {
    let offered = offered_after(2, OfferFlags::ALLOW_DECOMMIT);
    story_and([offered, Event::Decommitted { allocation: A.id() }]).breaks_only(I25);
}

/// `A` has left for `B` with its content and is offered then; `more` follows.
fn offered_in_its_backing_store(more: &[Event]) -> Broken {
    let leaves = leaves(6, A, &A_AT, false, EvictReason::RoomWanted);
    let offered = vec![offered_after(2, OfferFlags::ALLOW_DECOMMIT)];
    let before = vec![evict(A, EvictFlags::empty(), 2)];
    story_and([before, b_comes_for(6, 5, leaves), b_is_in(6, 5, false), offered, more.to_vec()].concat())
}

/// RES-66: a backing store with content is decommitted only after the host has just refused another one.
#[test]
fn i25_a_backing_store_goes_with_its_content_though_the_host_has_memory() {
    let refused = Event::BackingStoreRefused { size: 4096 };
    let decommitted = Event::Decommitted { allocation: A.id() };
    let discarded = Event::ContentDiscarded { allocation: A.id(), plan: None };
    offered_in_its_backing_store(&[refused.clone(), discarded, decommitted.clone()]).breaks_nothing();
    offered_in_its_backing_store(&[refused.clone(), decommitted.clone()]).breaks_only(I25);
    offered_in_its_backing_store(std::slice::from_ref(&decommitted)).breaks_only(I25);
    offered_in_its_backing_store(&[refused, evict(B, EvictFlags::NOT_WRITTEN_TO, 2), decommitted]).breaks_only(I25);
}

/// `A` and `B` are offered with these priorities and have nothing but their backing stores, when the host refuses `size` bytes.
fn both_offered(priorities: [OfferPriority; 2], size: u64) -> Broken {
    let mut story = broken();
    let used = story.0.iter().position(|event| matches!(event, Event::GpuVirtualAddressMapped { .. }));
    story.0.truncate(used.expect("`A` is mapped"));
    let offered = [A, B].into_iter().zip(priorities).map(|(named, priority)| {
        let (device, allocations, flags) = (device(), vec![named.id()], OfferFlags::ALLOW_DECOMMIT);
        Event::Offered { device, allocations, priority, flags, after_submission: 0 }
    });
    offered.chain([Event::BackingStoreRefused { size }]).fold(story, Broken::append)
}

/// The content and the backing store of an allocation are given up for what was refused.
fn given_up(story: Broken, named: Thing) -> Broken {
    let discarded = Event::ContentDiscarded { allocation: named.id(), plan: None };
    story.append(discarded).append(Event::Decommitted { allocation: named.id() })
}

/// RES-66: what the host was refused is enough; no more content goes for it.
#[test]
fn u37_a_backing_store_goes_though_as_much_as_was_refused_is_free() {
    let both = |size| given_up(given_up(both_offered([OfferPriority::Low; 2], size), A), B);
    both(A.size + 1).breaks_nothing();
    both(A.size).breaks_only(U37);
}

/// U-37: low before normal; but what a Reclaim takes back is not offered any more, although that is told of afterwards.
#[test]
fn u37_a_backing_store_goes_before_one_of_a_lower_priority() {
    let normal = |priority_of_b| given_up(both_offered([OfferPriority::Normal, priority_of_b], A.size), A);
    let reclaimed_b = Event::Reclaimed {
        device: device(),
        queue: queue(),
        allocations: vec![B.id()],
        results: vec![ReclaimResult::Ok],
        backing_stores: vec![B.backing_store],
        after_submission: 0,
        paging_fence_value: 0,
    };
    let priority_changed = Event::AllocationPriorityChanged { allocation: B.id(), priority: 1 };
    normal(OfferPriority::High).append(priority_changed.clone()).breaks_nothing();
    normal(OfferPriority::Low).append(priority_changed).breaks_only(U37);
    normal(OfferPriority::Low).append(reclaimed_b).breaks_nothing();
}

#[test]
fn i25_an_allocation_that_could_not_be_committed_is_used() {
    let lost = reclaimed(ReclaimResult::NotCommitted, 0, 3, 0);
    let upto = |broken: Broken| {
        let at = broken.position(is_reclaimed);
        Broken(broken.0[..at].to_vec())
    };
    let never = upto(discarded_and_reclaimed()).append(lost.clone());
    never.breaks_only(I25);
    let gone = upto(decommitted(OfferFlags::ALLOW_DECOMMIT)).append(lost);
    Broken(gone.0.clone()).breaks_nothing();
    gone.append(make_resident(A, 3, 6)).breaks(I25);
}

const SEEN_AT: CpuVirtualAddress = CpuVirtualAddress(0x7_0000);

fn locked(address: CpuVirtualAddress) -> Event {
    Event::Locked { device: device(), allocation: A.id(), address, segment: SegmentId(1), extents: A_AT.to_vec() }
}

fn rotated(address: CpuVirtualAddress) -> Event {
    let (segment, extents) = (SegmentId::SYSTEM, vec![extent(A.backing_store, A.size)]);
    Event::Rotated { plan: 6, allocation: A.id(), address, segment, extents }
}

fn unlocked(locks: u32) -> Event {
    Event::Unlocked { allocation: A.id(), locks }
}

/// `A` is locked, and goes for `B`.
fn locked_and_moved() -> Broken {
    let leaves = leaves(6, A, &A_AT, true, EvictReason::RoomWanted);
    let mut broken = story_and(
        [
            vec![evict(A, EvictFlags::empty(), 2), locked(SEEN_AT)],
            b_comes_for(6, 5, leaves),
            b_is_in(6, 5, true),
            vec![unlocked(0)],
        ]
        .concat(),
    );
    let at = broken.position(is(Event::PlanRetired { plan: 6 }));
    broken.0.insert(at + 1, rotated(SEEN_AT));
    broken
}

#[test]
fn a_right_rotation_has_no_findings() {
    locked_and_moved().breaks_nothing();
    story_and([locked(SEEN_AT), locked(SEEN_AT), unlocked(1), unlocked(0)]).breaks_nothing();
}

#[test]
fn res86_a_locked_allocation_moves_and_the_cpu_view_is_not_rotated() {
    locked_and_moved().remove(is(rotated(SEEN_AT))).breaks_only(Res86);
}

#[test]
fn res86_a_view_is_rotated_to_another_address() {
    locked_and_moved().replace(is(rotated(SEEN_AT)), rotated(CpuVirtualAddress(0x8_0000))).breaks_only(Res86);
}

#[test]
fn res86_a_view_is_rotated_before_its_allocation_has_moved() {
    locked_and_moved().move_before(is(rotated(SEEN_AT)), is(Event::PlanEntered { plan: 6 })).breaks_only(Res86);
}

#[test]
fn res86_a_view_is_rotated_of_an_allocation_that_is_not_locked() {
    locked_and_moved().remove(is(locked(SEEN_AT))).breaks(Res86);
}

#[test]
fn res86_a_view_shows_another_place() {
    let elsewhere = Event::Locked {
        device: device(),
        allocation: A.id(),
        address: SEEN_AT,
        segment: SegmentId::SYSTEM,
        extents: vec![extent(A.backing_store, A.size)],
    };
    locked_and_moved().replace(is(locked(SEEN_AT)), elsewhere).breaks(Res86);
}

#[test]
fn res86_a_second_lock_shows_another_address() {
    story_and([locked(SEEN_AT), locked(CpuVirtualAddress(0x8_0000))]).breaks_only(Res86);
}

#[test]
fn res86_locks_are_miscounted() {
    story_and([locked(SEEN_AT), locked(SEEN_AT), unlocked(0)]).breaks_only(Res86);
    story_and([unlocked(0)]).breaks_only(Res86);
}

#[test]
fn i02_an_allocation_that_the_cpu_may_have_written_is_not_copied() {
    locked_and_moved().change(of_plan(6), |event| set_copied(event, false)).breaks(I02);
}

#[test]
fn i25_a_locked_allocation_is_offered_and_an_offered_one_is_locked() {
    story_and([locked(SEEN_AT), offered()]).breaks_only(I25);
    story_and([offered(), locked(SEEN_AT)]).breaks_only(I25);
}

fn set_copied(event: &mut Event, to: bool) {
    let Event::Evicted { copied, .. } = event else { unreachable!() };
    *copied = to;
}

fn opened() -> Event {
    Event::AllocationOpened { allocation: A.id(), device: other_device(), process: process() }
}

fn listed_by_other() -> Event {
    Event::MakeResident {
        device: other_device(),
        queue: other_queue(),
        allocations: vec![A.id()],
        flags: MakeResidentFlags::empty(),
        after_submission: 0,
        paging_fence_value: 0,
        waiting: Vec::new(),
    }
}

fn evicted_by_other() -> Event {
    let (device, allocations, flags) = (other_device(), vec![A.id()], EvictFlags::empty());
    Event::Evict { device, allocations, flags, after_submission: 0, num_bytes_to_trim: 0 }
}

fn destroyed() -> Event {
    Event::AllocationDestroyed { allocation: A.id(), flags: DestroyFlags::empty() }
}

fn inherited(device: DeviceId) -> Event {
    Event::AllocationOwnershipTransferred { allocation: A.id(), device, process: process() }
}

/// `A` is shared; another device opens it and puts it on its list too.
fn shared(more: Vec<Event>) -> Broken {
    let device = other_device();
    let opens = [
        Event::DeviceCreated { device, process: process(), residency: vidmm::DeviceResidency::DeviceList },
        Event::PagingQueueCreated { queue: other_queue(), device, priority: 0 },
        opened(),
        listed_by_other(),
    ];
    let is_a = |event: &Event| matches!(event, Event::AllocationCreated { allocation, .. } if *allocation == A.id());
    story_and(opens.into_iter().chain(more)).change(is_a, |event| {
        let Event::AllocationCreated { shared, .. } = event else { unreachable!() };
        *shared = true;
    })
}

#[test]
fn right_sharing_has_no_findings() {
    shared(vec![evict(A, EvictFlags::empty(), 2), evicted_by_other()]).breaks_nothing();
    shared(vec![destroyed(), inherited(other_device())]).breaks_nothing();
    let closed = Event::AllocationClosed { allocation: A.id(), device: other_device() };
    shared(vec![closed, evict(A, EvictFlags::empty(), 2)]).breaks_nothing();
}

#[test]
fn u34_an_allocation_that_is_not_shared_is_opened() {
    let is_a = |event: &Event| matches!(event, Event::AllocationCreated { allocation, .. } if *allocation == A.id());
    shared(vec![])
        .change(is_a, |event| {
            let Event::AllocationCreated { shared, .. } = event else { unreachable!() };
            *shared = false;
        })
        .breaks_only(U34);
}

#[test]
fn u34_an_open_allocation_is_opened_again() {
    shared(vec![opened()]).breaks_only(U34);
}

#[test]
fn i07_a_device_lists_an_allocation_that_it_has_not_opened() {
    shared(vec![]).remove(is(opened())).breaks_only(I07);
}

#[test]
fn i07_counts_are_each_devices_own() {
    shared(vec![evicted_by_other(), evicted_by_other()]).breaks_only(I07);
}

#[test]
fn i17_an_allocation_that_another_device_requires_leaves() {
    let leaves = leaves(6, A, &A_AT, false, EvictReason::RoomWanted);
    let mut events = vec![evict(A, EvictFlags::empty(), 2)];
    events.extend(b_comes_for(6, 5, leaves));
    events.extend(b_is_in(6, 5, false));
    // With what the other device lists, too, the process has more than there is.
    shared(events.clone()).breaks(I17);
    events.insert(0, evicted_by_other());
    shared(events).breaks_nothing();
}

#[test]
fn u34_an_owner_goes_and_no_device_inherits() {
    shared(vec![destroyed(), submitted(3, &[], &[])]).breaks_only(U34);
}

#[test]
fn u34_a_device_inherits_that_is_not_the_first() {
    shared(vec![destroyed(), inherited(device())]).breaks(U34);
    shared(vec![inherited(other_device())]).breaks(U34);
}

#[test]
fn i28_a_device_is_gone_that_has_an_allocation_open() {
    let gone =
        [Event::PagingQueueDestroyed { queue: other_queue() }, Event::DeviceDestroyed { device: other_device() }];
    shared(gone.to_vec()).breaks_only(I28);
}

#[test]
fn i28_an_allocation_that_another_device_has_open_is_reclaimed() {
    shared(vec![destroyed(), inherited(other_device()), Event::AllocationReclaimed { allocation: A.id() }]).breaks(I28);
}

#[test]
fn work_that_is_assumed_not_to_use_an_allocation_is_not_waited_for() {
    let destroyed = |flags| Event::AllocationDestroyed { allocation: A.id(), flags };
    let story = |flags| {
        let leaves = leaves(6, A, &A_AT, false, EvictReason::Destroyed);
        let mut events =
            vec![submitted(3, &[], &[]), dispatch_of(3, 5), destroyed(flags), leaves, decided(6, &[], &[])];
        events.extend([Event::PlanEntered { plan: 6 }, entries_of_a(6, Pte::INVALID), flush_a(6)]);
        events.extend(ended(6));
        story_and(events)
    };
    story(DestroyFlags::ASSUME_NOT_IN_USE).breaks_nothing();
    story(DestroyFlags::empty()).breaks_only(I17);
}

/// RES-84, U-40: a locked allocation is where the CPU sees it.
#[test]
fn res84_a_locked_allocation_is_where_the_cpu_does_not_see_it() {
    let hidden = |event: &mut Event| {
        let Event::AdapterStarted { memory, .. } = event else { unreachable!() };
        memory[0].cpu_visible = false;
    };
    story_and([locked(SEEN_AT)]).breaks_nothing();
    story_and([locked(SEEN_AT)]).change(started, hidden).breaks_only(Res84);
}

/// RES-61: with OFFER_IMMEDIATELY content goes whether memory is wanted or not.
#[test]
fn i25_content_stays_that_was_to_be_discarded_at_once() {
    let stays = |flags| story_and([vec![offered_after(2, flags)], time_passes().to_vec()].concat());
    stays(OfferFlags::empty()).breaks_nothing();
    stays(OfferFlags::OFFER_IMMEDIATELY).breaks_only(I25);
}

/// U-26, RES-15, CRE-05: calls that are refused.
#[test]
fn calls_are_accepted_that_must_be_refused() {
    let mut empty = [make_resident(A, 2, 0), evict(A, EvictFlags::empty(), 2), offered()];
    for event in &mut empty {
        let (Event::MakeResident { allocations, .. }
        | Event::Evict { allocations, .. }
        | Event::Offered { allocations, .. }) = event
        else {
            unreachable!()
        };
        allocations.clear();
        story_and([event.clone()]).breaks_only(U26);
    }
    let mut must = make_resident(A, 2, 0);
    let mut with = |with| {
        let Event::MakeResident { flags, .. } = &mut must else { unreachable!() };
        *flags = with;
        story_and([must.clone()])
    };
    with(MakeResidentFlags::all()).breaks_nothing();
    with(MakeResidentFlags::MUST_SUCCEED).breaks_only(Res15);
    let allocation = A.id();
    story_and([Event::AllocationPriorityChanged { allocation, priority: 0 }]).breaks_only(Cre05);
    let context = context();
    story_and([Event::ContextPriorityChanged { context, priority: -7 }]).breaks_nothing();
    story_and([Event::ContextPriorityChanged { context, priority: 8 }]).breaks_only(Log);
}

/// CRE-51: an allocation leaves a place where it may not be any more, and no other.
#[test]
fn cre51_a_change_of_the_set_takes_an_allocation_out_or_leaves_it_for_no_reason() {
    let updated = |supported_segment_set, paging_fence_value| {
        let (allocation, queue) = (A.id(), queue());
        Event::AllocationPropertyUpdated { allocation, supported_segment_set, queue, paging_fence_value }
    };
    let off_list = || evict(A, EvictFlags::EVICT_ONLY_IF_NECESSARY, 2);
    let out = || vec![off_list(), leaves(6, A, &A_AT, false, EvictReason::PropertyUpdated), decided(6, &[], &[])];
    let and = |event: Event| story_and([out(), vec![event]].concat());
    and(updated(0b10, 5)).breaks_nothing();
    and(updated(0b11, 5)).breaks_only(Cre51);
    and(updated(0b10, 0)).breaks_only(Cre51);
    and(Event::PlanEntered { plan: 6 }).breaks_only(Cre51);
    story_and([off_list(), updated(0b11, 0)]).breaks_nothing();
    story_and([off_list(), updated(0b11, 5)]).breaks_only(Cre51);
    story_and([off_list(), updated(0b10, 0)]).breaks_only(Cre51);
}
