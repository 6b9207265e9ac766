//! The rights of devices to what their work uses (RES-05, RES-20, RES-66, U-35).

use vidmm::{
    AllocationId, ContextId, DeviceId, Event, EvictFlags, MakeResidentFlags, NumberedEvent, OfferFlags, OfferPriority,
    PagingQueueId, ReclaimResult,
};
use vidmm_trace::{EndOfRight, Rights};

const DEVICE: DeviceId = DeviceId::from_bits(1);
const OTHER: DeviceId = DeviceId::from_bits(2);
const QUEUE: PagingQueueId = PagingQueueId::from_bits(1);
const A: AllocationId = AllocationId::from_bits(7);
const B: AllocationId = AllocationId::from_bits(8);

/// A run, event by event.
#[derive(Default)]
struct Story {
    rights: Rights,
    number: u64,
    submissions: u64,
}

impl Story {
    fn event(&mut self, event: Event) -> Vec<(AllocationId, EndOfRight)> {
        self.number += 1;
        let found = self.rights.observe(&NumberedEvent { number: self.number, at: 0, occurred_at: None, event });
        found.iter().for_each(|found| assert_eq!((found.event, found.submission), (self.number, self.submissions)));
        found.into_iter().map(|found| (found.allocation, found.ended)).collect()
    }

    fn make_resident(&mut self, device: DeviceId, allocations: &[AllocationId]) {
        let (allocations, flags) = (allocations.to_vec(), MakeResidentFlags::empty());
        let (after_submission, paging_fence_value) = (self.submissions, 0);
        self.event(Event::MakeResident {
            device,
            queue: QUEUE,
            allocations,
            flags,
            after_submission,
            paging_fence_value,
            waiting: Vec::new(),
        });
    }

    /// Returns the number of the event.
    fn evict(&mut self, allocations: &[AllocationId]) -> u64 {
        let (allocations, flags) = (allocations.to_vec(), EvictFlags::EVICT_ONLY_IF_NECESSARY);
        let after_submission = self.submissions;
        self.event(Event::Evict { device: DEVICE, allocations, flags, after_submission, num_bytes_to_trim: 0 });
        self.number
    }

    fn offer(&mut self, allocation: AllocationId) -> u64 {
        let (priority, flags) = (OfferPriority::Normal, OfferFlags::empty());
        let (allocations, after_submission) = (vec![allocation], self.submissions);
        self.event(Event::Offered { device: DEVICE, allocations, priority, flags, after_submission });
        self.number
    }

    fn reclaim(&mut self, allocation: AllocationId, result: ReclaimResult) -> u64 {
        self.event(Event::Reclaimed {
            device: DEVICE,
            queue: QUEUE,
            allocations: vec![allocation],
            results: vec![result],
            backing_stores: vec![0],
            after_submission: self.submissions,
            paging_fence_value: 0,
        });
        self.number
    }

    fn uses(&mut self, device: DeviceId, allocations: &[AllocationId]) -> Vec<(AllocationId, EndOfRight)> {
        self.submissions += 1;
        let (submission, context) = (self.submissions, ContextId::from_bits(1));
        self.rights.declare(device, submission, allocations.iter().copied());
        self.event(Event::Submitted { device, context, submission, waits: Vec::new(), signals: Vec::new() })
    }
}

#[test]
fn a_right_lasts_from_make_resident_to_as_many_evicts() {
    let mut story = Story::default();
    assert_eq!(story.uses(DEVICE, &[A]), [(A, EndOfRight::NeverResident)]);
    story.make_resident(DEVICE, &[A, B, A]);
    assert_eq!(story.uses(DEVICE, &[B, A, A]), []);
    story.evict(&[A]);
    assert_eq!(story.uses(DEVICE, &[A]), []);
    let evicted = story.evict(&[A]);
    assert_eq!(story.uses(DEVICE, &[A, B]), [(A, EndOfRight::Evict(evicted))]);
    story.make_resident(DEVICE, &[A]);
    assert_eq!(story.uses(DEVICE, &[A]), []);
}

#[test]
fn a_right_is_one_devices() {
    let mut story = Story::default();
    story.make_resident(OTHER, &[A]);
    assert_eq!(story.uses(OTHER, &[A]), []);
    assert_eq!(story.uses(DEVICE, &[A]), [(A, EndOfRight::NeverResident)]);
}

#[test]
fn an_offer_suspends_a_right_until_a_reclaim_that_succeeds() {
    let mut story = Story::default();
    story.make_resident(DEVICE, &[A]);
    let offered = story.offer(A);
    assert_eq!(story.uses(DEVICE, &[A]), [(A, EndOfRight::Offer(offered))]);
    story.reclaim(A, ReclaimResult::Discarded);
    assert_eq!(story.uses(DEVICE, &[A]), []);
    story.offer(A);
    let failed = story.reclaim(A, ReclaimResult::NotCommitted);
    assert_eq!(story.uses(DEVICE, &[A]), [(A, EndOfRight::Reclaim(failed))]);
}

#[test]
fn nothing_is_kept_of_an_allocation_that_is_gone() {
    let mut story = Story::default();
    story.make_resident(DEVICE, &[A]);
    story.event(Event::AllocationReclaimed { allocation: A });
    assert_eq!(story.uses(DEVICE, &[A]), [(A, EndOfRight::NeverResident)]);
}
