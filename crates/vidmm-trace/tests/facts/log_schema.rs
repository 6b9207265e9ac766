//! The schema of the log: what is written is as it says, and it says what is written.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;
use vidmm_trace::{LogHeader, LogWriter};

use crate::log_files::{all_events, kinds_in_source};
use crate::log_support::{counted, schema::Schema};

const TEXT: &str = include_str!("../../../../docs/reference/events.md");

/// The lines of a log that has every kind of event.
fn lines() -> Vec<String> {
    let mut header = LogHeader::new("all", 1);
    header.settings.insert("gpu".into(), "soft".into());
    let mut writer = LogWriter::new(Vec::new(), &header);
    let mut events = counted(all_events());
    events[0].occurred_at = Some(7);
    events.iter().for_each(|event| writer.event(event));
    let bytes = writer.finish().expect("memory can be written");
    String::from_utf8(bytes).expect("logs are text").lines().map(str::to_owned).collect()
}

#[test]
fn every_line_is_as_the_schema_says() {
    let schema = Schema::read();
    lines().iter().for_each(|line| schema.check_line(line));
}

#[test]
#[should_panic(expected = "`additionalProperties`")]
fn a_field_that_the_schema_does_not_have_is_found() {
    Schema::read().check_line(r#"{"number":1,"at":0,"event":"plan_entered","plan":1,"why":2}"#);
}

#[test]
#[should_panic(expected = "`required`")]
fn a_field_that_is_missing_is_found() {
    Schema::read().check_line(r#"{"number":1,"at":0,"event":"plan_entered"}"#);
}

#[test]
#[should_panic(expected = "`plan`")]
fn a_field_of_another_type_is_found() {
    Schema::read().check_line(r#"{"number":1,"at":0,"event":"plan_entered","plan":"1"}"#);
}

#[test]
fn the_schema_has_every_kind_of_event_and_no_other() {
    let schema = Schema::read();
    let described: BTreeSet<String> = schema.kinds().map(str::to_owned).collect();
    assert_eq!(described, kinds_in_source());
    let lines: BTreeSet<String> = schema.lines().iter().map(|line| line.to_string()).collect();
    let events = described.iter().map(|kind| format!("#/$defs/events/{kind}"));
    assert_eq!(lines, events.chain(["#/$defs/header".into(), "#/$defs/trailer".into()]).collect());
    assert_eq!(schema.undescribed(), Vec::<String>::new());
}

/// A field that is never written is none.
#[test]
fn the_schema_has_no_field_that_is_not_written() {
    let mut written: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for line in lines() {
        let value: Value = serde_json::from_str(&line).unwrap();
        let Some(kind) = value["event"].as_str() else { continue };
        written.entry(kind.to_owned()).or_default().extend(value.as_object().unwrap().keys().cloned());
    }
    let schema = Schema::read();
    for kind in schema.kinds() {
        for field in schema.fields(kind).into_iter().filter(|field| *field != "occurred_at") {
            assert!(written[kind].contains(field), "`{field}` of `{kind}` is never written");
        }
    }
}

/// A reason is an object, whatever it has.
#[test]
fn a_reason_is_an_object_everywhere() {
    for line in lines() {
        let value: Value = serde_json::from_str(&line).unwrap();
        for name in ["reason", "cause", "finding", "violation", "cut"] {
            let reason = value.get(name);
            assert!(reason.is_none_or(|reason| reason["kind"].is_string()), "{line}");
        }
    }
}

/// `allocation` is an id, however deep it stands: a handle is called so.
#[test]
fn handles_are_called_handles() {
    let schema = Schema::read();
    let names: BTreeSet<&str> = schema.handles().into_iter().collect();
    assert_eq!(names, BTreeSet::from(["allocation_handle", "handle", "paging_process", "process_handle"]));
}

#[test]
fn the_guide_names_every_kind_of_event() {
    for kind in Schema::read().kinds() {
        assert!(TEXT.contains(&format!("`{kind}`")), "`{kind}` is not in docs/reference/events.md");
    }
}

#[test]
fn the_guide_says_what_every_rule_of_the_audit_means() {
    for rule in vidmm_trace::Invariant::ALL {
        assert!(TEXT.contains(&format!("\n| {rule} | ")), "{rule} is not in docs/reference/events.md");
    }
}
