//! The audit of logs of split DMA buffers: a right log holds, and each rule that a log breaks is named.

use std::fs::File;
use std::io::BufReader;

use crate::common::{Scratch, splitting_scenarios, vidmm_run};
use vidmm::contract::{PagingOperation, TransferFlags};
use vidmm::event::PortionEnd;
use vidmm::{Event, NumberedEvent};
use vidmm_trace::{Audit, LogReader};

/// The log of a scenario.
fn log_of(scenario: &str) -> Vec<NumberedEvent> {
    let scratch = Scratch::new();
    let path = scratch.path("events.jsonl");
    vidmm_run(&[scenario, "--events", &path]).expect(0);
    let file = BufReader::new(File::open(path).expect("the log was written"));
    LogReader::new(file).expect("it is a log").map(|event| event.expect("it is whole")).collect()
}

/// The audit's findings: the names of invariants, with the problems.
fn findings(events: &[NumberedEvent]) -> Vec<String> {
    let mut audit = Audit::new();
    events.iter().for_each(|event| audit.event(event));
    audit.finish().iter().map(ToString::to_string).collect()
}

/// Changes the `nth` event, counted from 0, for which `change` returns true; checks that the audit names the invariant.
#[track_caller]
fn is_found(scenario: &str, nth: usize, invariant: &str, mut change: impl FnMut(&mut Event) -> bool) {
    let path = format!("scenarios/splitting/{scenario}.toml");
    let mut events = log_of(&path);
    let mut seen = 0;
    for numbered in &mut events {
        let before = numbered.event.clone();
        if change(&mut numbered.event) {
            if seen == nth {
                break;
            }
            seen += 1;
            numbered.event = before;
        }
    }
    let found = findings(&events);
    assert!(found.iter().any(|finding| finding.contains(&format!(": {invariant}: "))), "{scenario}: {found:#?}");
}

#[test]
fn right_logs_hold() {
    for scenario in splitting_scenarios() {
        assert_eq!(findings(&log_of(&scenario)), [""; 0], "{scenario}");
    }
}

#[test]
fn a_bound_allocation_that_moves_is_found() {
    is_found("p36-bound-means-fixed", 1, "I11", |event| match event {
        Event::Portion { bindings, .. } => {
            bindings.iter_mut().filter(|b| b.fixed).map(|b| b.address.offset += 4096).count() > 0
        }
        _ => false,
    });
}

#[test]
fn a_bound_allocation_that_is_not_required_is_found() {
    is_found("p36-bound-means-fixed", 1, "I11", |event| match event {
        Event::Portion { bindings, .. } => bindings.pop().is_some(),
        _ => false,
    });
    is_found("p36-bound-means-fixed", 0, "I11", |event| match event {
        Event::Portion { bindings, .. } => bindings.iter_mut().filter(|b| b.fixed).map(|b| b.fixed = false).count() > 0,
        _ => false,
    });
}

#[test]
fn a_gap_between_portions_is_found() {
    is_found("p33-first-split", 2, "I11", |event| match event {
        Event::Portion { start_offset, .. } => {
            *start_offset += 8;
            true
        }
        _ => false,
    });
    is_found("p33-first-split", 2, "I11", |event| match event {
        Event::Portion { portion, .. } => {
            *portion += 1;
            true
        }
        _ => false,
    });
    is_found("p33-first-split", 5, "I11", |event| match event {
        Event::Portion { end_offset, .. } => {
            *end_offset -= 8;
            true
        }
        _ => false,
    });
}

#[test]
fn a_cut_that_is_at_no_split_point_is_found() {
    is_found("p33-first-split", 1, "I19", |event| match event {
        Event::Portion { end_offset, cut: PortionEnd::NoRoom { .. }, .. } => {
            *end_offset -= 8;
            true
        }
        _ => false,
    });
}

#[test]
fn half_a_group_is_found() {
    is_found("p33-first-split", 0, "I19", |event| match event {
        Event::Portion { patch_location_length, bindings, .. } => {
            *patch_location_length -= 1;
            bindings.pop().is_some()
        }
        _ => false,
    });
}

#[test]
fn patch_locations_out_of_order_or_bounds_are_found() {
    is_found("p33-first-split", 0, "I18", |event| match event {
        Event::Rendered { patch_locations, .. } => {
            patch_locations.reverse();
            true
        }
        _ => false,
    });
    is_found("p33-first-split", 0, "I18", |event| match event {
        Event::Rendered { patch_locations, .. } => {
            patch_locations[0].slot_id = 9;
            true
        }
        _ => false,
    });
}

#[test]
fn a_portion_of_another_between_two_is_found() {
    let mut events = log_of("scenarios/splitting/p39-paging-in-between.toml");
    let last = events
        .iter()
        .position(|numbered| matches!(numbered.event, Event::Portion { dma_buffer: 1, is_last: true, .. }));
    // Without its last portion, the first DMA buffer is still cut when the second begins.
    events.remove(last.expect("it was split"));
    events.iter_mut().zip(1..).for_each(|(numbered, number)| numbered.number = number);
    let found = findings(&events);
    assert!(found.iter().any(|finding| finding.contains("I11: a portion of DMA buffer 2 comes between")), "{found:#?}");
}

#[test]
fn a_kept_allocation_that_is_taken_out_is_found() {
    let events = log_of("scenarios/splitting/p36-bound-means-fixed.toml");
    let k = events.iter().find_map(|numbered| match &numbered.event {
        Event::Portion { bindings, .. } => bindings.iter().find(|b| b.fixed).and_then(|b| b.allocation),
        _ => None,
    });
    let k = k.expect("K is fixed");
    is_found("p36-bound-means-fixed", 0, "I11", |event| match event {
        Event::Evicted { allocation, .. } => {
            *allocation = k;
            true
        }
        _ => false,
    });
}

#[test]
fn content_that_moves_elsewhere_than_was_decided_is_found() {
    let transfer = |change: fn(&mut vidmm::contract::Transfer)| {
        move |event: &mut Event| match event {
            Event::PagingOperation { operation: PagingOperation::Transfer(transfer), .. } => {
                change(transfer);
                true
            }
            _ => false,
        }
    };
    for change in [
        (|transfer| transfer.source.offset += 4096) as fn(&mut vidmm::contract::Transfer),
        |transfer| transfer.destination.offset += 4096,
        |transfer| transfer.mdl_offset += 1,
        |transfer| transfer.transfer_size -= 4096,
    ] {
        is_found("p34-slot-replaced", 0, "I10", transfer(change));
        is_found("p34-slot-replaced", 2, "I10", transfer(change));
    }
    for change in [
        (|transfer| transfer.flags.remove(TransferFlags::TRANSFER_START)) as fn(&mut vidmm::contract::Transfer),
        |transfer| transfer.flags.remove(TransferFlags::TRANSFER_END),
    ] {
        is_found("p34-slot-replaced", 0, "I22", transfer(change));
    }
    is_found("p34-slot-replaced", 0, "I10", |event| match event {
        Event::PagingOperation { operation: PagingOperation::Fill(fill), .. } => {
            fill.destination.offset += 4096;
            true
        }
        _ => false,
    });
    is_found("p34-slot-replaced", 0, "U-13", |event| match event {
        Event::PagingOperation { operation: PagingOperation::DiscardContent(discard), .. } => {
            discard.address.offset += 4096;
            true
        }
        _ => false,
    });
}

#[test]
fn an_allocation_that_is_not_promised_to_be_idle_after_a_busy_answer_is_found() {
    is_found("p49-transfer-busy", 0, "I17", |event| match event {
        Event::PagingOperation { operation: PagingOperation::Transfer(transfer), .. } => {
            let is_idle = transfer.flags.contains(TransferFlags::ALLOCATION_IS_IDLE);
            transfer.flags.remove(TransferFlags::ALLOCATION_IS_IDLE);
            is_idle
        }
        _ => false,
    });
}
