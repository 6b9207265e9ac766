//! Explanations of the story, and of steps written by hand.

use crate::log_support::faults::*;
use crate::log_support::*;
use vidmm::contract::*;
use vidmm::event::{ContentSource, Event, EvictReason, Neighbour, PrefetchReason, ResumeReason, SuspendReason};
use vidmm::*;
use vidmm_trace::{ExplainError, Explanation};

/// The explanation of an allocation, each step in one line without its number and time.
fn told(events: Vec<Event>, id: AllocationId) -> String {
    let mut explanation = Explanation::new(id);
    numbered(events).iter().for_each(|event| explanation.event(event));
    let text = explanation.finish().expect("it is in the log");
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// The story and more steps after it.
fn story_and(more: Vec<Event>) -> Vec<Event> {
    [story(), more].concat()
}

#[track_caller]
fn tells(text: &str, sentences: &[&str]) {
    let mut rest = text;
    for sentence in sentences {
        let Some((_, after)) = rest.split_once(sentence) else {
            panic!("`{sentence}` is not told, or not in its order:\n{text}")
        };
        rest = after;
    }
}

#[test]
fn a_life_is_told_from_its_creation_on() {
    let text = told(story(), A.id());
    tells(
        &text,
        &[
            "Device 0 of process 0 created it: 16 KiB, for local memory",
            "It was mapped into the addresses of process 0 (at 0x200000).",
            "Device 0 of process 0 asked for it to be resident (count 1): it had to wait (value 2 of paging queue 0).",
            "It got a place in local memory, filled with zeros, since it had no content (plan 2).",
            "It was ready for device 0 of process 0 (",
            "Device 0 of process 0 evicted it from its list (count 0): it is to leave.",
            "It left local memory because its room was wanted and it was the next in the order of eviction; its content was copied \
             to system memory (plan 3). Into its room came allocation 1.",
            "It got a place in local memory, with its content copied in from system memory (plan 5).",
            "others had to leave (allocation 1)",
            "In all it got a place twice (16 KiB copied in) and left one once (16 KiB copied out, content discarded 0 times)",
            "Into its room came allocation 1 (once).",
            "it was in local memory and on the list of device 0 of process 0.",
        ],
    );
}

#[test]
fn an_allocation_that_was_not_written_to_need_not_be_copied() {
    let text = told(story(), B.id());
    tells(
        &text,
        &[
            "work that used the room had to end (submission 1 of device 0); others had to leave (allocation 0)",
            "evicted it from its list (not written to, count 0)",
            "It left local memory because its room was wanted and it was the next in the order of eviction; nothing had to be copied \
             (plan 5). Into its room came allocation 0.",
            "it was resident nowhere and on no list.",
        ],
    );
}

#[test]
fn notifications_are_told() {
    let text = told(notified::IMPLICIT.story().0, notified::T.id());
    tells(
        &text,
        &[
            "The driver was told that it is to be evicted, of 4 MiB from 0 B on (at 0x400000, plan 3).",
            "The driver was told that it is to be evicted, of 4 MiB from 4 MiB on",
            "The driver was told that it is to be evicted, of 1 MiB from 8 MiB on",
        ],
    );
    let text = told(notified::BY_PROCESS.story().0, notified::T.id());
    tells(&text, &["The driver was told that it is to be unmapped from the IOMMU"]);
}

#[test]
fn a_refusal_says_why_and_how_much() {
    let refused = Event::MakeResidentRefused {
        device: device(),
        allocations: vec![A.id(), B.id()],
        flags: MakeResidentFlags::empty(),
        num_bytes_to_trim: 0x3000,
        reason: NoMemoryReason::OverBudget,
        shortages: short_of(SegmentId(1), 0x3000, NoMemoryReason::OverBudget),
    };
    let text = told(story_and(vec![refused]), A.id());
    tells(
        &text,
        &[
            "asked for it to be resident (with another allocation, 12 KiB of local memory to trim) and was refused: memory was short and the \
             process would have been above its budget. Of local memory",
            "refused once",
        ],
    );
}

#[test]
fn copies_ahead_of_an_eviction_are_told_with_their_reason() {
    let part = |offset, size, is_last| {
        let (allocation, ahead, watermark) = (A.id(), 0x1000, 0x3000);
        Event::Cleaned { plan: 6, allocation, offset, size, is_last, ahead, watermark }
    };
    let text = told(story_and(vec![part(0, 0x1000, false), part(0x1000, A.size - 0x1000, true)]), A.id());
    tells(
        &text,
        &[
            "its content began to be copied out ahead of an eviction: 4 KiB of 12 KiB at the cold end of the memory went before it, or were \
             free beyond a half (plan 6).",
            "The last part is copied out ahead (plan 6): if nothing writes meanwhile, an eviction before the next write copies nothing.",
        ],
    );
}

#[test]
fn an_announcement_and_the_prefetch_are_told_with_their_reason() {
    let announced = Event::Announced { device: device(), allocations: vec![B.id(), A.id()] };
    let by = |reason| Event::Prefetched { plan: 6, allocation: A.id(), reason };
    let reasons = [by(PrefetchReason::Announced { device: device() }), by(PrefetchReason::Policy)];
    let text = told(story_and([announced].into_iter().chain(reasons).collect()), A.id());
    tells(
        &text,
        &[
            "announced that it needs the allocation soon, as number 2.",
            "While engines left the bus alone, it came into free memory ahead of a MakeResident: device 0 of process 0 had announced it (plan 6).",
            "ahead of a MakeResident: the policy expected a use (plan 6).",
        ],
    );
}

#[test]
fn an_offer_its_loss_and_its_reclaim_are_told() {
    let (device, allocations, after_submission) = (device(), vec![A.id()], 2);
    let text = told(
        story_and(vec![
            Event::Offered {
                device,
                allocations: allocations.clone(),
                priority: OfferPriority::Low,
                flags: OfferFlags::ALLOW_DECOMMIT,
                after_submission,
            },
            Event::Evicted {
                plan: 6,
                allocation: A.id(),
                segment: SegmentId(1),
                extents: vec![extent(0x1_0000, A.size)],
                copied: false,
                reason: EvictReason::Offered,
                discarded: true,
                wanted_by: Some(for_device(DeviceId::from_bits(1))),
            },
            Event::ContentDiscarded { allocation: A.id(), plan: Some(6) },
            Event::Decommitted { allocation: A.id() },
            Event::Reclaimed {
                device,
                queue: queue(),
                allocations,
                results: vec![ReclaimResult::Discarded],
                backing_stores: vec![A.backing_store],
                after_submission,
                paging_fence_value: 0,
            },
        ]),
        A.id(),
    );
    tells(
        &text,
        &[
            "offered it as worthless: once the work before had ended its content and its backing store may go when room is wanted.",
            "It left local memory because it was offered, for device 1; its content was discarded (plan 6).",
            "Its backing store was given back to the system.",
            "took it back: its content was lost, and reads as zero.",
            "content discarded once",
            "Its room was wanted for device 1 (once).",
        ],
    );
}

#[test]
fn a_discard_in_system_memory_is_told() {
    let text = told(story_and(vec![Event::ContentDiscarded { allocation: A.id(), plan: None }]), A.id());
    tells(&text, &["Its content, which was in system memory only, was discarded.", "content discarded once"]);
}

#[test]
fn turns_of_the_device_that_lists_it_are_told() {
    let (device, wanted_by) = (device(), Some(DeviceId::from_bits(1)));
    let reason = SuspendReason::SliceOver;
    let text = told(
        story_and(vec![
            Event::DeviceYielded { device, reason, wanted_by },
            Event::DeviceSuspended { device },
            Event::DeviceResumed { device, reason: ResumeReason::HasWork, plans: vec![7] },
        ]),
        A.id(),
    );
    tells(
        &text,
        &[
            "Device 0 of process 0, whose list names it, yielded to device 1: its process was above its budget and its time slice \
             was over.",
            "Device 0 of process 0 was suspended: its list does not require it any more.",
            "Device 0 of process 0 was resumed: it had work and its turn had come.",
        ],
    );
    let of_b = told(story_and(vec![Event::DeviceSuspended { device }]), B.id());
    assert!(!of_b.contains("was suspended"), "nobody lists it: {of_b}");
}

#[test]
fn requests_to_its_process_are_told() {
    let notification = TrimNotificationId::from_bits(0);
    let trimmed = |flags, num_bytes_to_trim| Event::TrimNotified {
        notification,
        device: device(),
        flags,
        group: None,
        num_bytes_to_trim,
    };
    let text = told(
        story_and(vec![
            trimmed(TrimFlags::TRIM_TO_BUDGET, 4096),
            trimmed(TrimFlags::PERIODIC_TRIM, 0),
            Event::BudgetChanged {
                process: process(),
                group: MemorySegmentGroup::Local,
                budget: 8192,
                requested: 16384,
            },
        ]),
        A.id(),
    );
    tells(
        &text,
        &[
            "Device 0 of process 0 was asked to trim to its budget (4 KiB).",
            "Device 0 of process 0 was asked to trim what it had not used for a period.",
            "Process 0 was told its budget of local memory (8 KiB, of which its lists name 16 KiB).",
        ],
    );
}

#[test]
fn moves_and_views_of_the_cpu_are_told() {
    let (address, allocation) = (CpuVirtualAddress(0x7000), A.id());
    let store = vec![extent(A.backing_store, A.size)];

    let text = told(
        story_and(vec![
            Event::Locked {
                device: device(),
                allocation,
                address,
                segment: SegmentId(1),
                extents: vec![extent(0x1_0000, A.size)],
            },
            Event::Evicted {
                plan: 6,
                allocation,
                segment: SegmentId(1),
                extents: vec![extent(0x1_0000, A.size)],
                copied: true,
                reason: EvictReason::Moved,
                discarded: false,
                wanted_by: None,
            },
            Event::Placed {
                plan: 6,
                allocation,
                segment: SegmentId::SYSTEM,
                extents: store.clone(),
                content: ContentSource::InPlace,
            },
            Event::Rotated { plan: 6, allocation, address, segment: SegmentId::SYSTEM, extents: store },
            Event::Unlocked { allocation, locks: 0 },
        ]),
        allocation,
    );
    tells(
        &text,
        &[
            "The CPU saw it from now on (at 0x7000), in local memory.",
            "and was demoted: it is resident in system memory from now on.",
            "It had moved (plan 6), and the CPU saw it at the same address (at 0x7000), now in system memory.",
            "It was unlocked; the CPU saw it no more.",
            "it was in system memory",
        ],
    );
}

#[test]
fn owners_and_the_end_are_told() {
    let (allocation, other) = (A.id(), DeviceId::from_bits(1));
    let process = process();
    let text = told(
        story_and(vec![
            Event::DeviceCreated { device: other, process, residency: vidmm::DeviceResidency::DeviceList },
            Event::AllocationOpened { allocation, device: other, process },
            Event::AllocationDestroyed { allocation, flags: DestroyFlags::empty() },
            Event::AllocationOwnershipTransferred { allocation, device: other, process },
            Event::AllocationDestroyed { allocation, flags: DestroyFlags::all() },
            Event::AllocationReclaimed { allocation },
            Event::AllocationPriorityChanged { allocation, priority: 1 },
        ]),
        allocation,
    );
    tells(
        &text,
        &[
            "Device 1 of process 0 opened it.",
            "Its caller destroyed it; work submitted before may still use it.",
            "It belongs to device 1 of process 0 now, since that has it open: process 0 is charged for it.",
            "Its caller destroyed it, without waiting for work submitted before, and its caller waits for the end.",
            "Nothing named it any more",
            "it was gone.",
        ],
    );
    assert!(!text.contains("priority became"), "nothing is told of what is gone");
}

#[test]
fn rounds_are_told_once_and_counted() {
    let round = |value| vec![make_resident(B, 2, value), evict(B, EvictFlags::EVICT_ONLY_IF_NECESSARY, 2)];
    let text = told(story_and((5..25).flat_map(round).collect()), B.id());
    tells(&text, &["These 2 steps then happened 19 more times, up to event "]);
    assert_eq!(text.matches("(count 0): it may leave when room is wanted").count(), 1, "{text}");
}

#[test]
fn an_allocation_that_the_log_does_not_have_is_refused() {
    let nothing = Explanation::new(A.id()).finish();
    assert_eq!(nothing, Err(ExplainError::Unknown { name: A.id(), known: "it creates none".to_owned() }));
    let mut explanation = Explanation::new(AllocationId::from_bits(1 << 32));
    numbered(story()).iter().for_each(|event| explanation.event(event));
    let message = explanation.finish().unwrap_err().to_string();
    assert_eq!(message, "the log has no allocation 0.1; with that number it has allocation 0");
}

#[test]
fn a_reset_of_the_adapter_is_told_with_what_it_cost() {
    let text = told(adapter_reset().0, A.id());
    tells(
        &text,
        &[
            "Device 0 of process 0 was put in error: its work accessed 0x8, where nothing is resident",
            "It is not on that device's list any more.",
            "The adapter was to be reset: a fault needed it.",
            "The driver was told that it is not in local memory any more.",
            "Its content was lost",
            "The adapter ran again, and it was resident nowhere.",
            "it was resident nowhere and on no list.",
        ],
    );
}

#[test]
fn a_plan_that_was_given_up_is_told() {
    let text = told(adapter_reset_halfway_out().0, A.id());
    tells(&text, &["its content was copied to system memory (plan 3).", "The plan that moved it was given up"]);
}

#[test]
fn a_fault_next_to_a_mapping_is_told() {
    let neighbour =
        |address| Neighbour { allocation: A.id(), virtual_address: GpuVirtualAddress(address), size: A.size };
    let fault = |address, side: fn(&mut Event, Neighbour)| {
        let mut event = page_fault(fence(RENDER, 1), GpuVirtualAddress(address));
        side(&mut event, neighbour(MAPPED_AT));
        event
    };
    let set_below = |event: &mut Event, neighbour| {
        let Event::PageFault { below, .. } = event else { unreachable!("it is a fault") };
        *below = Some(neighbour);
    };
    let set_above = |event: &mut Event, neighbour| {
        let Event::PageFault { above, .. } = event else { unreachable!("it is a fault") };
        *above = Some(neighbour);
    };
    let after = fault(MAPPED_AT + A.size + 0x1000, set_below);
    let before = fault(MAPPED_AT - 0x2000, set_above);
    let text = told(story_and(vec![after, before]), A.id());
    tells(
        &text,
        &[
            "Work read an address after the end of its mapping, the nearest below (at 0x205000, 4 KiB after it), and faulted.",
            "Work read an address before its mapping, the nearest above (at 0x1fe000, 8 KiB before it), and faulted.",
        ],
    );
}
