//! Logs with numbers at the end of their range: no manager wrote them, and their readers go on.

use vidmm::{AllocationId, NumberedEvent};
use vidmm_trace::{Audit, Explanation, LogReader};

const HEADER: &str =
    r#"{"vidmm_events":10,"vidmm_version":"0.1.0","seed":1,"scenario":"extremes","level":"full","settings":{}}"#;

/// An adapter whose system memory is all that a number holds.
const STARTED: &str = r#""event":"adapter_started","wddm_version":69639,"addressing_model":"gpu_mmu","num_slots":0,"preemption_aware":false,"notification_revision":"current","memory":[],"apertures":[{"segment":1,"size":18446744073709551615}],"system_group":"local","system_commit_limit":18446744073709551615,"dummy_page":{"segment":0,"offset":65536},"engines":["paging","render3d"],"level_bits":[9,9],"table_bytes":[4096,4096],"leaf_table_64kb_bytes":null,"invalid_tlb_entries_not_cached":false,"paging_buffer_bytes":4096,"va_bits":30,"paging_va_size":4194304,"paging_process":1,"paging_tables":[],"paging_tables_segment":1,"paging_table_bytes":0,"tdr_limit_count":5,"tdr_limit_time":0"#;

fn created(allocation: u64) -> String {
    format!(
        r#""event":"allocation_created","allocation":{allocation},"device":0,"process":0,"handle":{allocation},"size":18446744073709551615,"priority":1,"backing_store":0,"supported_segment_set":1,"accessed_physically":false,"notify":"","shared":false,"existing_sys_mem":false,"permanent_sys_mem":false"#
    )
}

fn evicted_and_placed() -> [String; 2] {
    let evicted = r#""event":"evicted","plan":1,"allocation":0,"segment":1,"extents":[{"offset":0,"size":4096}],"copied":true,"reason":{"kind":"room_wanted"},"discarded":false,"wanted_by":null"#;
    let placed = r#""event":"placed","plan":1,"allocation":0,"segment":1,"extents":[{"offset":0,"size":4096}],"content":"backing_store""#;
    [evicted, placed].map(str::to_owned)
}

/// The events of a log of these lines, each of which is read.
fn events(lines: &[String]) -> Vec<NumberedEvent> {
    let numbered = (1..).zip(lines).map(|(number, line)| format!("{{\"number\":{number},\"at\":0,{line}}}\n"));
    let text = format!("{HEADER}\n{}", numbered.collect::<String>());
    let reader = LogReader::new(text.as_bytes()).expect("the header is right");
    let mut reader = reader.damaged();
    let events = reader.by_ref().collect::<Result<Vec<_>, _>>().expect("damage is no error");
    assert_eq!(events.len(), lines.len(), "each line is an event: {:?}", reader.damage());
    events
}

fn audit(lines: &[String]) -> usize {
    let mut audit = Audit::new();
    events(lines).iter().for_each(|event| audit.event(event));
    audit.finish().len()
}

#[test]
fn a_commit_limit_of_all_that_a_number_holds_is_audited() {
    // The start of the adapter is right as far as it goes.
    audit(&[STARTED.to_owned()]);
}

#[test]
fn sizes_that_add_up_to_more_than_a_number_holds_are_audited() {
    let make_resident = r#""event":"make_resident","device":0,"queue":0,"allocations":[0,1],"flags":"","after_submission":0,"paging_fence_value":1"#;
    let evict =
        r#""event":"evict","device":0,"allocations":[0,1],"flags":"","after_submission":0,"num_bytes_to_trim":0"#;
    let mut lines = vec![
        STARTED.to_owned(),
        r#""event":"process_created","process":0,"handle":2"#.to_owned(),
        r#""event":"device_created","device":0,"process":0"#.to_owned(),
        r#""event":"paging_queue_created","queue":0,"device":0,"priority":0"#.to_owned(),
    ];
    lines.extend([created(0), created(1), make_resident.to_owned(), make_resident.to_owned(), evict.to_owned()]);
    assert!(audit(&lines) > 0, "no adapter has room for them");
}

#[test]
fn copies_that_add_up_to_more_than_a_number_holds_are_told() {
    let mut lines = vec![created(0)];
    (0..3).for_each(|_| lines.extend(evicted_and_placed()));
    let mut explanation = Explanation::new(AllocationId::from_bits(0));
    events(&lines).iter().for_each(|event| explanation.event(event));
    let told = explanation.finish().expect("the allocation is there");
    assert!(told.contains("3 times"), "{told}");
}
