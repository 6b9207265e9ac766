//! `vidmm check`: its answers, its files, and the process that it supervises.

use serde_json::Value;

use crate::common::c_driver::{bugs, built, built_of, can_build, check, check_planted, with_all_bugs};
use crate::common::workspace;

/// The right forms of all reference drivers: a driver, and a variable of its Makefile.
const RIGHT: [(&str, &str); 23] = [
    ("gpummu", ""),
    ("gpummu", "WITH_BACKWARDS"),
    ("gpummu", "WITH_COPY_ENGINE"),
    ("gpummu", "WITH_DEFERRED"),
    ("gpummu", "WITH_FEW_ADDRESS_BITS"),
    ("gpummu", "WITH_HOST_APERTURE"),
    ("gpummu", "WITH_MORE_MEMORY"),
    ("gpummu", "WITH_THREAD"),
    ("patching", ""),
    ("patching", "WITH_PARTS"),
    ("patching", "WITH_APERTURE"),
    ("patching", "WITH_MORE_MEMORY"),
    ("patching", "WITH_WDDM2"),
    ("patching", "WITH_WDDM1_1"),
    ("patching", "WITH_QUEUE"),
    ("patching", "WITH_KEPT_POINTERS"),
    ("patching", "WITH_ONE_CONTEXT"),
    ("patching", "WITH_REPORTER"),
    ("patching", "WITH_EVICTION_SET"),
    ("patching", "WITHOUT_ENGINE_RESET"),
    ("patching", "WITHOUT_MEMORY"),
    ("wdk", ""),
    ("wdk", "WITH_GPU_MMU"),
];

#[test]
#[ignore = "takes long, runs in .ci/run"]
fn the_right_drivers_have_no_findings() {
    if !can_build() {
        return;
    }
    for (driver, variant) in RIGHT {
        let driver = built_of(driver, "BUG_NONE", variant);
        // `ten_thousand_operations_of_each_right_driver_find_nothing` has further worlds.
        let run = check(&driver, &["--seeds", "1..2"]).expect(0);
        assert!(run.stdout.contains("found       0"), "{run}");
        assert!(run.stdout.contains("a model of its GPU"), "{run}");
        let here = check(&driver, &["--replay", "world-2", "--in-process"]).expect(0);
        assert!(here.stdout.contains("found       0"), "{here}");
    }
}

/// Checks each right driver with further worlds until so many paging operations were judged.
fn right_drivers_find_nothing_in(operations: u64) {
    let worlds = (operations / 200).min(5_000);
    for (driver, variant) in RIGHT {
        let built = built_of(driver, "BUG_NONE", variant);
        let (mut judged, mut first) = (0, 1);
        while judged < operations {
            let seeds = format!("{first}..{}", first + worlds - 1);
            let run = check(&built, &["--seeds", &seeds, "--format", "json"]).expect(0);
            let report: Value = serde_json::from_str(&run.stdout).expect("the report is JSON");
            let checks = report["checks"].as_array().expect("checks are a list");
            judged += checks.iter().filter_map(|check| check["builds"].as_u64()).sum::<u64>();
            first += worlds;
        }
        println!("{driver} {variant}: {judged} operations in worlds 1 to {}", first - 1);
    }
}

#[test]
#[ignore = "takes long, runs in .ci/run"]
fn ten_thousand_operations_of_each_right_driver_find_nothing() {
    if can_build() {
        right_drivers_find_nothing_in(10_000);
    }
}

/// `.ci/long` runs it.
#[test]
#[ignore = "takes minutes"]
fn a_million_operations_of_each_right_driver_find_nothing() {
    right_drivers_find_nothing_in(1_000_000);
}

#[test]
#[ignore = "takes long, runs in .ci/run"]
fn a_driver_without_a_model_of_its_gpu_is_judged_without_its_effects() {
    if !can_build() {
        return;
    }
    for driver in ["gpummu", "patching"] {
        let run = check(&built_of(driver, "BUG_NONE", "WITHOUT_GPU"), &["--seeds", "1..20"]).expect(0);
        assert!(run.stdout.contains("not judged  driver effects unchecked"), "{run}");
        assert!(run.stdout.contains("found       0"), "{run}");
    }
}

/// With one memory segment a list fits beside the page tables; with two the list is refused, and rightly: an allocation lies in the
/// second segment, so the page tables of its fill take more of the first. The step had expected a grant.
#[test]
#[ignore = "takes long, runs in .ci/run"]
fn scenarios_on_more_segments_are_judged_by_rules() {
    if !can_build() {
        return;
    }
    let refusing = ["--replay", "residency/home-changed-while-asked-for"];
    let not_judged = "not judged  the answers that scenarios expect";
    let right = check(&built_of("gpummu", "BUG_NONE", "WITH_MORE_MEMORY"), &refusing).expect(0);
    assert!(right.stdout.contains(not_judged) && !right.stdout.contains("for want of"), "{right}");
    let one_segment = check(&built("BUG_NONE"), &refusing).expect(0);
    assert!(!one_segment.stdout.contains(not_judged), "{one_segment}");
    let wrong = built_of("gpummu", "BUG_SHORT_TRANSFER", "WITH_MORE_MEMORY");
    let found = check(&wrong, &["--replay", "residency/p04-pending-fence"]).expect(1);
    assert!(found.stdout.contains("BPB-40 VIRTUAL_TRANSFER"), "{found}");
}

/// Documents are silent about a limit of 0, so the reading is a remark: said, and never counted (DRV-04, DRV-05, DRV-06).
#[test]
fn an_adapter_of_an_aperture_alone_is_judged_and_its_limits_are_remarks() {
    if !can_build() {
        return;
    }
    let run = check(&built_of("patching", "BUG_NONE", "WITHOUT_MEMORY"), &["--seeds", "1..20"]).expect(0);
    assert!(run.stdout.contains("found       0"), "{run}");
    for remark in
        ["ApertureSegmentCommitLimit is 0", "CommitLimit of aperture segment 1 is 0", "MaxAllocationListSlotId is 0"]
    {
        assert!(run.stdout.lines().any(|line| line.starts_with("remark") && line.contains(remark)), "{remark}: {run}");
    }
    let asked = run.stdout.lines().find(|line| line.starts_with("worlds")).expect("worlds were played");
    assert!(asked.contains("MAP_APERTURE_SEGMENT"), "{run}");
}

/// The commands of the guide for a driver that is ported, one behind the other in an empty folder.
#[test]
fn a_driver_in_cpp_is_ported_as_the_guide_says() {
    if !can_build()
        || !std::process::Command::new("g++").arg("--version").output().is_ok_and(|run| run.status.success())
    {
        return;
    }
    let guide = workspace().join("docs/guides/porting-a-driver.md");
    let guide = std::fs::read_to_string(guide).expect("the guide is there");
    let blocks = guide.split("```sh port\n").skip(1).map(|rest| rest.split("```").next().expect("a block ends"));
    let commands = blocks.collect::<String>().replace("$VIDMM/target/release/vidmm", env!("CARGO_BIN_EXE_vidmm"));
    let folder = tempfile::tempdir().expect("there is a folder for files");
    let mut shell = std::process::Command::new("sh");
    shell.args(["-ec", &commands]).current_dir(folder.path()).env("VIDMM", workspace());
    let run = crate::common::Run::new(commands.clone(), &shell.output().expect("there is a shell")).expect(0);
    assert_eq!(run.stdout.matches("found       0").count(), 2, "{run}");
    assert!(run.stdout.contains("MAP_APERTURE_SEGMENT") && run.stdout.contains("UPDATE_PAGE_TABLE"), "{run}");
    let shown = guide.split("```text\n").nth(1).and_then(|rest| rest.split("```").next()).expect("an output is shown");
    shown.lines().for_each(|line| assert!(run.stdout.contains(line), "the guide shows `{line}`: {run}"));
}

#[test]
fn segments_at_one_address_are_a_remark_where_engines_have_page_tables() {
    if !can_build() {
        return;
    }
    let run = check(&built_of("gpummu", "BUG_NONE", "WITH_SAME_BASES"), &["--seeds", "1..5"]).expect(0);
    assert!(run.stdout.contains("remark      DRV-08"), "{run}");
}

/// Windows does not load a driver on a machine with pages above HighestAcceptableAddress, so machines have no such pages (DRV-08).
#[test]
fn a_driver_for_few_address_bits_is_tried_in_small_machines_alone() {
    if !can_build() {
        return;
    }
    let run = check(&built_of("gpummu", "BUG_NONE", "WITH_FEW_ADDRESS_BITS"), &["--seeds", "1..20"]).expect(0);
    assert!(run.stdout.contains("found       0"), "{run}");
    assert!(run.stdout.contains("HighestAcceptableAddress 0xfffffffff (DRV-08)"), "{run}");
    let unlimited = check(&built("BUG_NONE"), &["--replay", "highest"]).expect(0);
    assert!(!unlimited.stdout.contains("skipped "), "{unlimited}");
}

#[test]
fn a_world_that_wants_what_the_adapter_lacks_is_skipped_by_name() {
    if !can_build() {
        return;
    }
    let run = check(&built_of("patching", "BUG_NONE", "WITH_SMALL_MEMORY"), &["--seeds", "1..40"]).expect(0);
    assert!(run.stdout.contains("found       0"), "{run}");
    assert!(run.stdout.contains("more local memory than the driver's 4096 KiB"), "{run}");
}

#[test]
fn a_run_without_paging_operations_does_not_pass() {
    if !can_build() {
        return;
    }
    let run = check(&built_of("patching", "BUG_NONE", "WITHOUT_ALLOCATIONS"), &["--seeds", "1..5"]).expect(1);
    assert!(run.stdout.contains("unjudged") && run.stdout.contains("found       0"), "{run}");
}

/// The private data of `gpummu`: a size, a set of segments, and a number that says that it is private data.
fn private_data(size: u64, segments: u32) -> Vec<u8> {
    let [priority, flags, magic, flags2, surface, width, height] = [0, 0, u32::from_le_bytes(*b"MGPU"), 0, 0, 0, 0];
    let words =
        [segments, priority, flags, magic, flags2, surface, width, height].into_iter().flat_map(u32::to_le_bytes);
    size.to_le_bytes().into_iter().chain(words).collect()
}

#[test]
#[ignore = "takes long, runs in .ci/run"]
fn a_driver_is_tried_with_private_data_that_was_recorded() {
    if !can_build() {
        return;
    }
    let folder = tempfile::tempdir().expect("there is a folder for files");
    let file = |name: &str, data: &[u8]| {
        let path = folder.path().join(name);
        std::fs::write(&path, data).expect("the file is written");
        path.to_str().expect("the path is text").to_owned()
    };
    let (small, large) = (file("small", &private_data(64 << 10, 1)), file("large", &private_data(1 << 20, 3)));
    let driver = built("BUG_NONE");
    let run = check(&driver, &["--seeds", "1..20", "--allocation", &small, "--allocation", &large]).expect(0);
    assert!(run.stdout.contains("found       0"), "{run}");
    assert!(run.stdout.contains("not judged  scenarios"), "{run}");
    let planted = check(&built("BUG_SHORT_TRANSFER"), &["--seeds", "1..20", "--allocation", &large]).expect(1);
    assert!(planted.stdout.contains("BPB-40 VIRTUAL_TRANSFER"), "{planted}");
    assert!(planted.stdout.contains(&format!("--allocation {large} --replay world-")), "{planted}");
    let refused = check(&driver, &["--allocation", &file("other", b"not the driver's")]).expect(1);
    assert!(refused.stdout.contains("the driver creates nothing from recorded private data"), "{refused}");
}

#[test]
fn reports_from_threads_of_the_driver_are_waited_for_and_counted() {
    if !can_build() {
        return;
    }
    let run = check(&built_of("gpummu", "BUG_NONE", "WITH_THREAD"), &["--seeds", "1..20"]).expect(0);
    assert!(run.stdout.contains("found       0"), "{run}");
    assert!(run.stdout.contains("from threads of the driver"), "{run}");
}

/// A report before the judged moment is seen, and a thread that is about to report is waited for, whatever the machine does meanwhile.
#[test]
fn reports_of_a_thread_that_races_are_seen() {
    if !can_build() {
        return;
    }
    let driver = built_of("patching", "BUG_NONE", "WITH_REPORTER");
    for race in ["race-1", "race-2", "race-3"].into_iter().cycle().take(9) {
        let run = check(&driver, &["--replay", race]).expect(0);
        assert!(run.stdout.contains("found       0"), "{run}");
    }
}

/// An adapter is tried without its aperture, and the driver may name the aperture for evictions all the same (SEG-45).
#[test]
fn a_driver_may_name_an_aperture_that_a_check_leaves_out() {
    if !can_build() {
        return;
    }
    let driver = built_of("patching", "BUG_NONE", "WITH_EVICTION_SET");
    for scenario in ["drivers/split", "drivers/patched-again"] {
        let run = check(&driver, &["--replay", scenario]).expect(0);
        assert!(run.stdout.contains("found       0") && !run.stdout.contains("skipped "), "{run}");
    }
}

/// Without SupportPerEngineTDR a fault leads to a reset of the adapter (FLT-20, FLT-32).
#[test]
fn a_driver_that_resets_no_single_engine_has_its_adapter_reset() {
    if !can_build() {
        return;
    }
    let right = built_of("patching", "BUG_NONE", "WITHOUT_ENGINE_RESET");
    let run = check(&right, &["--replay", "drivers/restart-and-patch"]).expect(0);
    assert!(run.stdout.contains("found       0") && !run.stdout.contains("skipped "), "{run}");
    let number = bugs("patching").iter().position(|bug| bug == "BUG_NO_PREPATCH").expect("the driver has the mistake");
    let faults = with_all_bugs("patching", "WITHOUT_ENGINE_RESET");
    let run = check_planted(&faults, number, &["--seeds", "1..12"]).expect(1);
    assert!(run.stdout.contains("PAT-14") && !run.stdout.contains("FLT-30"), "{run}");
}

#[test]
fn a_paging_buffer_without_room_is_a_remark() {
    if !can_build() {
        return;
    }
    let run = check(&built_of("patching", "BUG_NONE", "WITHOUT_PAGING_BUFFER"), &["--replay", "start"]).expect(0);
    assert!(run.stdout.contains("remark      SEG-35"), "{run}");
}

#[test]
fn rules_and_known_findings_that_there_are_not_are_refused() {
    if !can_build() {
        return;
    }
    let driver = built("BUG_NONE");
    for option in ["--rule", "--skip"] {
        let run = check(&driver, &["--replay", "start", option, "NONSENSE"]).expect(2);
        assert!(run.stderr.contains("there is no such rule"), "{run}");
        check(&driver, &["--replay", "start", option, "BPB-20,SHIM-LOCK,I04"]).expect(0);
    }
    let file = tempfile::NamedTempFile::new().expect("there is a folder for files");
    let known = file.path().to_str().expect("the path is text");
    for wrong in ["garbage line", "BPB-20 NONSENSE", "NONSENSE"] {
        std::fs::write(file.path(), format!("BPB-20 TRANSFER\n# a comment\n{wrong}\n")).expect("the file is written");
        let run = check(&driver, &["--replay", "start", "--known", known]).expect(2);
        assert!(run.stderr.contains(&format!("line 3 of {known}: `{wrong}` is no rule")), "{run}");
    }
}

/// A seed chooses the next thread at calls of the shim, so runs of a driver with threads are equal; races may differ.
#[test]
fn runs_of_a_driver_with_threads_repeat() {
    if !can_build() {
        return;
    }
    let driver = built_of("gpummu", "BUG_NONE", "WITH_THREAD");
    let run = || {
        let run = check(&driver, &["--seeds", "1..8", "--format", "json"]).expect(0);
        let mut report: Value = serde_json::from_str(&run.stdout).expect("the report is JSON");
        let checks = report["checks"].as_array_mut().expect("checks are a list");
        checks.retain(|check| !check["check"].as_str().is_some_and(|name| name.starts_with("race-")));
        report
    };
    assert_eq!(run(), run());
}

/// Handles of a driver are addresses, which differ from process to process: findings name objects by number.
#[test]
#[ignore = "takes long, runs in .ci/run"]
fn findings_of_equal_seeds_are_equal_byte_for_byte() {
    if !can_build() {
        return;
    }
    let planted = [
        ("gpummu", "BUG_SHORT_TRANSFER", "of allocation 0x1,"),
        ("gpummu", "BUG_FLUSH_WRONG_PROCESS", "GVA-34"),
        ("gpummu", "BUG_DOUBLE_FREE", "SHIM-POOL-FREE"),
        ("gpummu", "BUG_CRASH", "of allocation 0x7,"),
        ("patching", "BUG_NO_PREPATCH", "allocation 0x5 is at"),
    ];
    for (driver, bug, named) in planted {
        let number = bugs(driver).iter().position(|name| name == bug).expect("the driver has the mistake");
        let built = with_all_bugs(driver, "");
        let arguments = ["--seeds", "1..12", "--max-deaths", "1"];
        let run = || check_planted(&built, number, &arguments).expect(1).stdout;
        let first = run();
        assert_eq!(first, run(), "{bug}");
        assert!(first.contains(named), "{bug}: {first}");
    }
}

#[test]
#[ignore = "takes long, runs in .ci/run"]
fn a_driver_reads_the_registry() {
    if !can_build() {
        return;
    }
    // The driver flushes the whole TLB then. With the mistake it flushes that of another process, which shows either way.
    let driver = built("BUG_FLUSH_WRONG_PROCESS");
    let first = ["--max-failures", "1"];
    let run = check(&driver, &[&["--seeds", "1..12", "--registry", "FlushesAll=1"], &first[..]].concat()).expect(1);
    assert!(run.stdout.contains("--registry=FlushesAll=1 --replay"), "{run}");
    check(&built("BUG_NONE"), &["--seeds", "1..12", "--registry", "FlushesAll=1"]).expect(0);
    let wrong = check(&driver, &["--registry", "FlushesAll"]).expect(2);
    assert!(wrong.stderr.contains("NAME=VALUE"), "{wrong}");
}

#[test]
fn a_finding_is_named_and_replayed() {
    if !can_build() {
        return;
    }
    let driver = built("BUG_SHORT_TRANSFER");
    let run = check(&driver, &["--seeds", "1..12"]).expect(1);
    assert!(run.stdout.contains("BPB-40 VIRTUAL_TRANSFER"), "{run}");
    let replayed = run.stdout.lines().find_map(|line| line.split_once("--replay ")).map(|(_, name)| name.to_owned());
    let again = check(&driver, &["--replay", &replayed.expect("a command replays it")]).expect(1);
    assert!(again.stdout.contains("BPB-40 VIRTUAL_TRANSFER"), "{again}");
}

#[test]
fn known_findings_do_not_fail() {
    if !can_build() {
        return;
    }
    let driver = built("BUG_UNKNOWN_IS_SUCCESS");
    let file = tempfile::NamedTempFile::new().expect("there is a folder for files");
    std::fs::write(file.path(), "DDI-UNKNOWN-OPERATION  # to be mended\n").expect("the file is written");
    let known = file.path().to_str().expect("the path is text");
    check(&driver, &["--replay", "unknown"]).expect(1);
    let run = check(&driver, &["--replay", "unknown", "--known", known]).expect(0);
    assert!(run.stdout.contains("found       0; 1 known"), "{run}");
    check(&driver, &["--seeds", "1..1", "--skip", "DDI-UNKNOWN-OPERATION"]).expect(0);
}

#[test]
fn a_run_ends_when_so_many_mistakes_were_found() {
    if !can_build() {
        return;
    }
    let driver = built("BUG_SHORT_TRANSFER");
    let run = check(&driver, &["--seeds", "1..100", "--max-failures", "1"]).expect(1);
    assert_eq!(run.stdout.lines().filter(|line| line.starts_with("finding ")).count(), 1, "{run}");
    assert!(!run.stdout.contains("replay world-"), "the scenarios show the mistake before any world: {run}");
    // Findings that are not shown do not end a run.
    let other = ["--seeds", "1..1", "--rule", "BPB-40", "--max-failures", "1"];
    let run = check(&built("BUG_UNKNOWN_IS_SUCCESS"), &other).expect(0);
    assert!(run.stdout.contains("found       0"), "{run}");
    let none = check(&driver, &["--max-failures", "0"]).expect(2);
    assert!(none.stderr.contains("--max-failures"), "{none}");
}

#[test]
fn reports_for_programs_can_be_read() {
    if !can_build() {
        return;
    }
    let driver = built("BUG_CRASH");
    let run = check(&driver, &["--seeds", "1..3", "--max-deaths", "2", "--format", "json"]).expect(1);
    let report: Value = serde_json::from_str(&run.stdout).expect("the report is JSON");
    assert_eq!(report["findings"][0]["rule"], "CRASH", "{run}");
    assert_eq!(report["findings"][0]["operation"], "VIRTUAL_TRANSFER", "{run}");
    assert!(report["not_run"].as_u64() > Some(0), "{run}");
    let run = check(&driver, &["--seeds", "1..3", "--max-deaths", "2", "--format", "junit"]).expect(1);
    assert!(run.stdout.contains("<failure type=\"CRASH VIRTUAL_TRANSFER\""), "{run}");
    assert!(run.stdout.trim_end().ends_with("</testsuite>"), "{run}");
}

/// Three deaths of one driver were one line: each place, assertion and bug check is a finding of its own.
#[test]
#[ignore = "takes long, runs in .ci/run"]
fn deaths_are_told_apart_by_place_assertion_and_bug_check() {
    if !can_build() {
        return;
    }
    let driver = built("BUG_DEATHS");
    let arguments = |format| ["--seeds", "1..30", "--max-deaths", "30", "--rule", "CRASH", "--format", format];
    let json = check(&driver, &arguments("json")).expect(1);
    let report: Value = serde_json::from_str(&json.stdout).expect("the report is JSON");
    let findings = report["findings"].as_array().expect("findings are a list");
    let places = Vec::from_iter(findings.iter().filter_map(|finding| finding["place"].as_str()));
    let told = |text: &str| places.iter().filter(|place| place.contains(text)).count();
    assert_eq!(told(".so+0x"), 2, "{places:?}");
    assert_eq!(told("the assertion g_TransferSize == 0 of driver.c:"), 1, "{places:?}");
    assert_eq!(told("the driver calls KeBugCheckEx with code 0x10e, 0xb"), 1, "{places:?}");
    let text = check(&driver, &arguments("text")).expect(1);
    assert_eq!(text.stdout.matches("finding     CRASH VIRTUAL_TRANSFER, in").count(), 4, "{text}");
    let junit = check(&driver, &arguments("junit")).expect(1);
    assert!(junit.stdout.contains("the assertion g_TransferSize == 0 of driver.c:"), "{junit}");
    let sarif = check(&driver, &arguments("sarif")).expect(1);
    let log: Value = serde_json::from_str(&sarif.stdout).expect("SARIF is JSON");
    let results = log["runs"][0]["results"].as_array().expect("results are a list");
    let keys = results.iter().map(|result| result["partialFingerprints"]["vidmmKey/v1"].to_string());
    assert_eq!(keys.collect::<std::collections::BTreeSet<_>>().len(), 4, "{sarif}");
}

/// The bug check of Windows is in each form of the report (DRV-16).
#[test]
fn findings_name_the_bug_check_of_windows() {
    if !can_build() {
        return;
    }
    let driver = built_of("patching", "BUG_SUBMIT_FAILS", "");
    let arguments = |format| ["--seeds", "1..6", "--rule", "DDI-SUBMIT", "--max-failures", "1", "--format", format];
    let forms =
        ["in Windows  bug check 0x119, 2", "\"bug_check\": \"0x119, 2\"", "bug check 0x119, 2", "bug check 0x119, 2"];
    for (format, expected) in ["text", "json", "junit", "sarif"].into_iter().zip(forms) {
        let run = check(&driver, &arguments(format)).expect(1);
        assert!(run.stdout.contains(expected), "{format}: {run}");
    }
}

#[test]
fn every_rule_that_is_reported_is_listed() {
    let ddi = workspace().join("crates/vidmm-ddi");
    let folder = std::fs::read_dir(ddi.join("src")).expect("there are sources");
    let sources = folder.map(|file| file.expect("the folder can be read").path()).filter(|path| path.is_file());
    let listed = check("--list".as_ref(), &[]).expect(0).stdout;
    let mut rules = 0;
    for source in sources.chain([ddi.join("shim/shim.c")]) {
        let text = std::fs::read_to_string(&source).expect("a source is text");
        let calls = text.split("report(").chain(text.split("Report(")).skip(1);
        for call in calls {
            let Some((rule, _)) = call.trim_start().strip_prefix('"').and_then(|rest| rest.split_once('"')) else {
                continue;
            };
            let is_listed = listed.lines().any(|line| line.split(' ').next() == Some(rule));
            assert!(is_listed, "{rule} of {} is not listed", source.display());
            rules += 1;
        }
    }
    assert!(rules > 30, "{rules}");
}

#[test]
fn wrong_arguments_say_what_to_do() {
    if !can_build() {
        return;
    }
    let nowhere = check("no-such-driver.so".as_ref(), &[]).expect(2);
    assert!(nowhere.stderr.contains("-shared -fPIC"), "{nowhere}");
    let driver = built("BUG_PRIORITY_ZERO");
    let no_check = check(&driver, &["--replay", "word-17"]).expect(2);
    assert!(no_check.stderr.contains("world-17"), "{no_check}");
}

#[test]
fn a_library_that_is_no_driver_is_a_finding() {
    if !can_build() {
        return;
    }
    let run = check("Cargo.toml".as_ref(), &[]).expect(1);
    assert!(run.stdout.contains("START, in 1 check: the library cannot be opened"), "{run}");
}
