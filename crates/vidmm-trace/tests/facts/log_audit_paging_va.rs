//! The audit of the paging process's windows: the query for their size, and the size that follows (P31, P32).

use crate::log_support::broken::*;
use crate::log_support::notified::*;
use vidmm::contract::*;
use vidmm::event::Event;
use vidmm::*;
use vidmm_trace::Invariant::*;

const NONE: Run = Run { notify: AllocationFlags2::empty(), ..BY_PROCESS };
const LOCAL: Run = Run { notify: AllocationFlags2::empty(), ..IMPLICIT };

fn asked(event: &Event) -> bool {
    matches!(event, Event::PagingVaQueried { .. })
}

/// The story of an adapter whose driver gave this answer, and which has windows of this size.
fn answered(run: Run, answer: Option<u32>, size: u64) -> Broken {
    let mut story = run.story();
    for event in &mut story.0 {
        match event {
            Event::AdapterStarted { paging_va_size, .. } => *paging_va_size = size,
            Event::PagingVaQueried { answer_mib, paging_va_size, .. } => {
                (*answer_mib, *paging_va_size) = (answer, size)
            }
            _ => {}
        }
    }
    story
}

fn told(story: Broken, finding: DriverFinding) -> Broken {
    story.insert_after(asked, Event::DriverFinding { finding })
}

#[test]
fn right_sizes_have_no_findings() {
    // A quarter of 64 MiB, or the log buffers, which the log does not tell.
    for (answer, size) in [(None, 16), (Some(0), 16), (Some(0), 64), (Some(8), 8)] {
        answered(LOCAL, answer, size * MIB).breaks_nothing();
    }
    for (asked_mib, size) in [(3, 4), (7, 8)] {
        let (physical_adapter_index, paging_va_size) = (0, size * MIB);
        let rounded = DriverFinding::PagingVaRounded { physical_adapter_index, asked_mib, paging_va_size };
        told(answered(LOCAL, Some(asked_mib), size * MIB), rounded).breaks_nothing();
    }
    for (answer, size) in [(None, 0), (Some(0), 0), (Some(0), 4), (Some(8), 8)] {
        answered(NONE, answer, size * MIB).breaks_nothing();
    }
}

#[test]
fn u16_the_size_does_not_follow_from_the_answer() {
    for (answer, size) in [(None, 4), (Some(0), 8), (Some(8), 16), (Some(8), 0), (Some(0), 0)] {
        answered(LOCAL, answer, size * MIB).breaks_only(U16);
    }
    answered(NONE, Some(8), 16 * MIB).breaks_only(U16);
}

#[test]
fn u16_the_size_is_not_made_of_whole_leaf_tables() {
    // A leaf table of the story covers 4 MiB.
    answered(LOCAL, Some(6), 6 * MIB).breaks_only(U16);
}

#[test]
fn u16_an_answer_is_rounded_and_the_author_is_not_told() {
    let finding =
        |paging_va_size| DriverFinding::PagingVaRounded { physical_adapter_index: 0, asked_mib: 6, paging_va_size };
    answered(LOCAL, Some(6), 8 * MIB).breaks_only(U16);
    told(answered(LOCAL, Some(6), 8 * MIB), finding(8 * MIB)).breaks_nothing();
    told(answered(LOCAL, Some(6), 8 * MIB), finding(12 * MIB)).breaks_only(U16);
    told(answered(LOCAL, Some(8), 8 * MIB), finding(8 * MIB)).breaks_only(U16);
}

#[test]
fn u16_an_answer_is_ignored_and_the_author_is_not_told() {
    let (physical_adapter_index, asked_mib) = (0, 8);
    let finding = DriverFinding::PagingVaIgnored { physical_adapter_index, asked_mib };
    answered(NONE, Some(8), 0).breaks_only(U16);
    told(answered(NONE, Some(8), 0), finding).breaks_nothing();
    told(answered(NONE, Some(8), 8 * MIB), finding).breaks_only(U16);
}

#[test]
fn u16_an_answer_is_cut_and_the_author_is_not_told() {
    let (physical_adapter_index, asked_mib, paging_va_size) = (0, 512, 64 * MIB);
    let finding = DriverFinding::PagingVaClamped { physical_adapter_index, asked_mib, paging_va_size };
    answered(LOCAL, Some(512), 64 * MIB).breaks_only(U16);
    told(answered(LOCAL, Some(512), 64 * MIB), finding).breaks_nothing();
    told(answered(LOCAL, Some(512), 512 * MIB), finding).breaks_only(U16);
}

#[test]
fn u16_an_answer_is_said_to_be_larger_than_the_default_and_is_not() {
    let finding = |asked_mib| DriverFinding::PagingVaNeedlesslyLarge {
        physical_adapter_index: 0,
        asked_mib,
        default_size: 16 * MIB,
        table_bytes: 0x3000,
    };
    told(answered(LOCAL, Some(32), 32 * MIB), finding(32)).breaks_nothing();
    told(answered(LOCAL, Some(16), 16 * MIB), finding(16)).breaks_only(U16);
    told(answered(LOCAL, Some(8), 8 * MIB), finding(32)).breaks_only(U16);
}

#[test]
fn u16_an_allocation_is_said_not_to_fit_that_fits() {
    let finding = DriverFinding::AllocationBeyondPagingVa { size: 4 * MIB, paging_va_size: NOTIFY_WINDOW };
    told(LOCAL.story(), finding).breaks_only(U16);
}

#[test]
fn log_the_drivers_author_is_told_twice() {
    let finding = DriverFinding::NotifyIoMmuUnmapWithoutIoMmu;
    told(told(LOCAL.story(), finding), finding).breaks_only(Log);
}

#[test]
fn u16_the_driver_is_asked_in_another_form() {
    let wrong: [fn(&mut u32, &mut u32, &mut u32); 3] =
        [|kind, _, _| *kind = 47, |_, input, _| *input = 8, |_, _, output| *output = 8];
    for wrong in wrong {
        let change = |event: &mut Event| {
            let Event::PagingVaQueried { query_type, input_data_size, output_data_size, .. } = event else {
                unreachable!()
            };
            wrong(query_type, input_data_size, output_data_size);
        };
        LOCAL.story().change(asked, change).breaks_only(U16);
    }
}

#[test]
fn u16_the_driver_is_asked_for_another_physical_adapter() {
    let other = |event: &mut Event| {
        let Event::PagingVaQueried { physical_adapter_index, .. } = event else { unreachable!() };
        *physical_adapter_index = 1;
    };
    LOCAL.story().change(asked, other).breaks(U16);
    let linked = Event::PagingVaQueried {
        query_type: 48,
        physical_adapter_index: 1,
        input_data_size: 4,
        output_data_size: 4,
        answer_mib: Some(8),
        paging_va_size: 8 * MIB,
    };
    LOCAL.story().insert_after(asked, linked).breaks_nothing();
}

#[test]
fn u16_the_driver_is_asked_twice_or_never() {
    let story = LOCAL.story();
    let again = story.0[story.position(asked)].clone();
    story.insert_after(asked, again).breaks(U16);
    LOCAL.story().remove(asked).breaks_only(U16);
}

#[test]
fn u16_the_adapter_has_windows_of_another_size() {
    let larger = |event: &mut Event| {
        let Event::AdapterStarted { paging_va_size, .. } = event else { unreachable!() };
        *paging_va_size *= 2;
    };
    LOCAL.story().change(started, larger).breaks_only(U16);
}

#[test]
fn u16_notifications_need_windows_that_do_not_exist() {
    let wanted = |event: &mut Event| {
        let Event::AllocationCreated { notify, .. } = event else { unreachable!() };
        *notify = AllocationFlags2::NOTIFY_EVICTION;
    };
    let mut story = answered(NONE, Some(0), 0).change(created, wanted);
    let end = story.position(created) + 1;
    story.0.truncate(end);
    story.breaks_only(U16);
}

#[test]
fn i23_an_older_driver_is_asked() {
    let older = |event: &mut Event| {
        let Event::AdapterStarted { wddm_version, .. } = event else { unreachable!() };
        *wddm_version = WddmVersion::WDDM2_0.0;
    };
    LOCAL.story().change(started, older).breaks_only(I23);
    LOCAL.story().change(started, older).remove(asked).breaks_nothing();
}
