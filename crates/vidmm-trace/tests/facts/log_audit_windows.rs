//! The audit of windows in batches: a window is flushed before the operation, has one operation, and is unmapped before the addresses are
//! used again (I05, I10, I14).

use crate::log_support::broken::*;
use crate::log_support::*;
use vidmm::contract::*;
use vidmm::event::Event;
use vidmm::*;
use vidmm_trace::Invariant::*;

/// The plans in which `A` leaves in two chunks, and comes back.
const OUT: PlanNo = 3;
const BACK: PlanNo = 5;

/// A window moves to other addresses.
fn shift(event: &mut Event, bytes: u64) {
    let Event::PagingOperation { operation, .. } = event else { unreachable!() };
    let addresses = match operation {
        PagingOperation::UpdatePageTable(op) => [Some(&mut op.first_pte_virtual_address), None],
        PagingOperation::VirtualTransfer(op) => {
            [Some(&mut op.source_virtual_address), Some(&mut op.destination_virtual_address)]
        }
        other => panic!("{other:?}"),
    };
    addresses.into_iter().flatten().for_each(|address| address.0 += bytes);
}

fn is_window_flush(event: &Event) -> bool {
    matches!(event, Event::PagingOperation { operation: PagingOperation::FlushTlb(op), .. } if op.process == PAGING_HANDLE)
}

/// The place of the flush of the windows of the chunk whose transfer is at `transfer`.
fn flush_before(story: &Broken, transfer: usize) -> usize {
    story.0[..transfer].iter().rposition(is_window_flush).expect("windows are flushed")
}

/// The windows of both chunks of a plan are mapped beside each other and flushed together. Both transfers follow, and all windows are unmapped.
fn in_a_batch(mut story: Broken, plan: PlanNo) -> Broken {
    let (first, second) = (story.position(transfer(plan, 0)), story.position(transfer(plan, WINDOW)));
    let flushed = flush_before(&story, first);
    let mut of_second = Vec::from_iter(story.0.drain(flush_before(&story, second) + 1..=second + 2));
    story.0.remove(first + 3);
    of_second.iter_mut().for_each(|event| shift(event, WINDOW));
    let unmapped = of_second.split_off(of_second.len() - 2);
    let moved = of_second.pop().expect("the transfer");
    story.0.splice(first + 3..first + 3, unmapped);
    story.0.insert(first + 1, moved);
    story.0.splice(first..first, of_second);
    let Event::PagingOperation { operation: PagingOperation::FlushTlb(op), .. } = &mut story.0[flushed] else {
        unreachable!()
    };
    op.end_virtual_address.0 += WINDOW;
    story
}

/// The story with both chunks of `A` in a batch, both ways.
fn batches() -> Broken {
    in_a_batch(in_a_batch(broken(), OUT), BACK)
}

#[test]
fn windows_may_be_mapped_together() {
    batches().breaks_nothing();
}

#[test]
fn i05_windows_are_used_before_their_flush() {
    let mut story = batches();
    let last = story.position(transfer(BACK, WINDOW));
    let flushed = flush_before(&story, last);
    let flush = story.0.remove(flushed);
    Broken(story.0.clone()).breaks_only(I05);
    story.0.insert(last, flush.clone());
    story.breaks_only(I05);
    let mut story = batches();
    let Event::PagingOperation { operation: PagingOperation::FlushTlb(op), .. } = &mut story.0[flushed] else {
        unreachable!()
    };
    op.end_virtual_address.0 -= WINDOW;
    story.breaks_only(I05);
}

#[test]
fn i10_a_range_is_used_again_before_its_window_is_unmapped() {
    let mut story = broken();
    let unmapped = story.position(transfer(OUT, 0)) + 1;
    story.0.remove(unmapped);
    story.breaks(I10);
    // In a batch: the second window lies where the first is.
    let mut story = batches();
    let (first, second) = (story.position(transfer(OUT, 0)), story.position(transfer(OUT, WINDOW)));
    let mapped = story.0[..first].iter_mut().rev().take(2);
    mapped.for_each(|event| change_update(event, |op| op.first_pte_virtual_address.0 -= WINDOW));
    change_transfer(&mut story.0[second], |op| {
        op.source_virtual_address.0 -= WINDOW;
        op.destination_virtual_address.0 -= WINDOW;
    });
    story.breaks(I10);
}

fn change_transfer(event: &mut Event, change: impl FnOnce(&mut TransferVirtual)) {
    let Event::PagingOperation { operation: PagingOperation::VirtualTransfer(op), .. } = event else { unreachable!() };
    change(op);
}

#[test]
fn i14_two_operations_share_a_window() {
    let mut story = batches();
    let second = story.position(transfer(OUT, WINDOW));
    change_transfer(&mut story.0[second], |op| op.destination_virtual_address.0 -= WINDOW);
    story.breaks_only(I14);
    // Even if the window shows the memory of the second operation.
    let mut story = broken();
    let (first, second) = (story.position(transfer(BACK, 0)), story.position(transfer(BACK, WINDOW)));
    let of_system = |event: &Event| matches!(event, Event::PagingOperation { operation: PagingOperation::UpdatePageTable(op), .. } if op.first_pte_virtual_address.0 == SYSTEM_WINDOW);
    let unmapped = (first..second).find(|&at| of_system(&story.0[at])).expect("the window goes");
    story.0.remove(unmapped);
    story.breaks(I14);
}

#[test]
fn i14_a_window_goes_that_no_operation_has_used() {
    let aside = |mut event: Event| {
        shift(&mut event, 4 * WINDOW);
        event
    };
    let mut story = batches();
    let (first, second) = (story.position(transfer(OUT, 0)), story.position(transfer(OUT, WINDOW)));
    let (mapped, unmapped) = (aside(story.0[first - 1].clone()), aside(story.0[second + 4].clone()));
    story.0.insert(second + 1, unmapped);
    story.0.insert(first, mapped);
    story.breaks_only(I14);
}
