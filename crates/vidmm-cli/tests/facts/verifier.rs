//! `vidmm run --verify` names the operation and the fact for each mistake that a driver makes, in the packet that shows it.

use std::fs;

use vidmm_sim::FaultKind;

use crate::common::{Scratch, vidmm_run, workspace};

const TRAINING: &str = "scenarios/training.toml";
const IO_MMU: &str = "scenarios/notification/integrated-training.toml";
const CHUNKS: &str = "scenarios/notification/p29-chunks.toml";
const FULL: &str = "scenarios/notification/p48-buffer-full.toml";
const APERTURE: &str = "scenarios/notification/p23-notify-from-aperture.toml";
const CACHED: &str = "scenarios/residency/cached-memory.toml";
const LARGE_PAGES: &str = "scenarios/residency/large-pages.toml";
const PATCHED: &str = "scenarios/notification/explicit-residency.toml";

/// Two mappings of an allocation that is read and written, one of which forbids writes.
const READ_ONLY: &str = r#"
name = "read-only"

[[step]]
create-allocation = "A"
size = "64 KiB"

[[step]]
map = "A"
as = "seen"
read-only = true

[[step]]
make-resident = "A"
expect = "pending"

[[step]]
kernel = "K"
reads = ["seen"]

[[step]]
wait = "idle"
"#;

/// A reference to the second page of an allocation.
const OFFSET: &str = r#"
name = "offset"

[adapter]
addressing-model = "physical"

[[step]]
create-allocation = "A"
size = "64 KiB"

[[step]]
render = "K"
commands = ["write A[1..3]@0"]

[[step]]
wait = "idle"
"#;

/// Each mistake, where it is made, and what is found. The mistakes of protocol, which the manager itself names, are not among
/// them.
const NAMED: [(&str, &str, &str); 54] = [
    ("skip-tlb-flush", TRAINING, "GVA-34: FLUSH_TLB"),
    ("drop-page-out", TRAINING, "BPB-40: VIRTUAL_TRANSFER"),
    ("skip-decompression", IO_MMU, "NTF-02: NOTIFY_ALLOC"),
    ("ignore-chunk-offset", CHUNKS, "NTF-02: NOTIFY_ALLOC"),
    ("late-notification", IO_MMU, "NTF-04: NOTIFY_ALLOC"),
    ("skip-cache-flush", IO_MMU, "NTF-04: NOTIFY_ALLOC"),
    ("reuse-paging-va", TRAINING, "GVA-34: FLUSH_TLB"),
    ("early-io-mmu-unmap", IO_MMU, "NTF-04: NOTIFY_ALLOC"),
    ("skip-patch", PATCHED, "PAT-10: patch location"),
    ("drop-page-in", TRAINING, "BPB-40: VIRTUAL_TRANSFER"),
    ("short-transfer", TRAINING, "BPB-40: VIRTUAL_TRANSFER"),
    ("transfer-next-page", TRAINING, "BPB-40: VIRTUAL_TRANSFER"),
    ("swap-transfer", TRAINING, "BPB-40: VIRTUAL_TRANSFER"),
    ("skip-part-after-full", FULL, "NTF-02: NOTIFY_ALLOC"),
    ("skip-fill", TRAINING, "BPB-42: VIRTUAL_FILL"),
    ("short-fill", TRAINING, "BPB-42: VIRTUAL_FILL"),
    ("wrong-fill-pattern", TRAINING, "BPB-42: VIRTUAL_FILL"),
    ("skip-entries", TRAINING, "GVA-30: UPDATE_PAGE_TABLE"),
    ("short-entries", TRAINING, "GVA-30: UPDATE_PAGE_TABLE"),
    ("wrong-entries", TRAINING, "GVA-30: UPDATE_PAGE_TABLE"),
    ("read-only-entries", TRAINING, "GVA-30: UPDATE_PAGE_TABLE"),
    ("keep-entries", TRAINING, "GVA-30: UPDATE_PAGE_TABLE"),
    ("skip-table-link", TRAINING, "GVA-30: UPDATE_PAGE_TABLE"),
    ("flush-other-process", TRAINING, "GVA-34: FLUSH_TLB"),
    ("skip-map-aperture", APERTURE, "BPB-30: MAP_APERTURE_SEGMENT"),
    ("map-next-pages", APERTURE, "BPB-30: MAP_APERTURE_SEGMENT"),
    ("skip-unmap-aperture", APERTURE, "BPB-33: UNMAP_APERTURE_SEGMENT"),
    ("patch-next-element", PATCHED, "PAT-10: patch location"),
    ("skip-last-patch", PATCHED, "PAT-10: patch location"),
    ("ignore-patch-offset", OFFSET, "PAT-10: patch location"),
    ("transfer-to-next-page", TRAINING, "BPB-40: VIRTUAL_TRANSFER"),
    ("half-transfer", TRAINING, "BPB-40: VIRTUAL_TRANSFER"),
    ("fill-from-next-page", TRAINING, "BPB-42: VIRTUAL_FILL"),
    ("half-fill", TRAINING, "BPB-42: VIRTUAL_FILL"),
    ("long-entries", TRAINING, "GVA-30: UPDATE_PAGE_TABLE"),
    ("entries-at-next-index", TRAINING, "GVA-30: UPDATE_PAGE_TABLE"),
    ("entries-of-system-memory", TRAINING, "GVA-30: UPDATE_PAGE_TABLE"),
    ("zero-entries", TRAINING, "GVA-30: UPDATE_PAGE_TABLE"),
    ("writable-entries", READ_ONLY, "GVA-30: UPDATE_PAGE_TABLE"),
    ("incoherent-entries", CACHED, "GVA-30: UPDATE_PAGE_TABLE"),
    ("repeat-entries", TRAINING, "GVA-30: UPDATE_PAGE_TABLE"),
    ("link-next-table", CHUNKS, "GVA-30: UPDATE_PAGE_TABLE"),
    ("large-page-as-table", LARGE_PAGES, "GVA-30: UPDATE_PAGE_TABLE"),
    ("skip-large-link", APERTURE, "GVA-30: UPDATE_PAGE_TABLE"),
    ("skip-initial-update", TRAINING, "GVA-30: UPDATE_PAGE_TABLE"),
    ("keep-table-link", TRAINING, "GVA-30: UPDATE_PAGE_TABLE"),
    ("short-flush", TRAINING, "GVA-34: FLUSH_TLB"),
    ("flush-from-next-page", TRAINING, "GVA-34: FLUSH_TLB"),
    ("short-map-aperture", APERTURE, "BPB-30: MAP_APERTURE_SEGMENT"),
    ("map-at-next-page", APERTURE, "BPB-30: MAP_APERTURE_SEGMENT"),
    ("short-unmap-aperture", APERTURE, "BPB-33: UNMAP_APERTURE_SEGMENT"),
    ("unmap-to-next-page", APERTURE, "BPB-33: UNMAP_APERTURE_SEGMENT"),
    ("short-notification", IO_MMU, "NTF-04: NOTIFY_ALLOC"),
    ("notify-from-next-page", IO_MMU, "NTF-04: NOTIFY_ALLOC"),
];

/// The path of a scenario: those that are no file yet become one.
fn file(scratch: &Scratch, scenario: &str) -> String {
    if scenario.contains('\n') { scratch.file("scenario.toml", scenario) } else { scenario.to_owned() }
}

#[test]
fn each_mistake_in_an_effect_is_named_by_operation_and_fact() {
    for (fault, scenario, named) in NAMED {
        let scratch = Scratch::new();
        let run = vidmm_run(&[&file(&scratch, scenario), "--faults", fault, "--verify"]).expect(1);
        assert!(run.stdout.contains(named), "{fault} is not named {named}: {run}");
    }
}

/// The operation that wrote the entry is named, and not the one that initialised it in the same packet.
#[test]
fn an_entry_too_many_is_told_once() {
    let run = vidmm_run(&[TRAINING, "--faults", "long-entries", "--verify"]).expect(1);
    let findings: Vec<&str> = run.stdout.lines().filter(|line| line.contains("GVA-30")).collect();
    assert!(!findings.is_empty(), "{run}");
    for finding in findings {
        assert!(finding.contains("was written, and is none of the operation's"), "{finding}: {run}");
    }
}

/// As `sim` writes a scenario that it has made small.
const BY_RULES: &str = r#"
name = "by-rules"
judge = "rules"
faults = ["half-transfer"]

[[step]]
create-allocation = "A"
size = "64 KiB"

[[step]]
map = "A"

[[step]]
make-resident = "A"

[[step]]
kernel = "K"
writes = ["A"]

[[step]]
wait = "idle"

[[step]]
evict = "A"

[[step]]
wait = "idle"
"#;

#[test]
fn a_scenario_that_rules_judge_is_verified_as_in_the_simulation() {
    let scratch = Scratch::new();
    let run = vidmm_run(&[&file(&scratch, BY_RULES)]).expect(1);
    assert!(run.stdout.contains("BPB-40: VIRTUAL_TRANSFER"), "{run}");
}

#[test]
fn nothing_is_found_about_a_driver_without_mistakes() {
    for scenario in [TRAINING, IO_MMU, CHUNKS, FULL, APERTURE, CACHED, PATCHED, READ_ONLY, OFFSET] {
        let scratch = Scratch::new();
        vidmm_run(&[&file(&scratch, scenario), "--verify"]).expect(0);
    }
}

#[test]
fn the_guide_lists_every_mistake() {
    let guide = fs::read_to_string(workspace().join("docs/guides/driver-authors.md")).expect("there is the guide");
    for fault in FaultKind::all() {
        assert!(guide.contains(&format!("`{}`", fault.name())), "{} is not in the guide", fault.name());
    }
}
