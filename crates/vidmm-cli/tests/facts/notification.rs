//! Allocation notification: the output of its scenarios, and a finding for every mistake in it.

use std::fs::{self, File};
use std::io::BufReader;

use crate::common::{Run, Scratch, notification_scenarios, replay_command, shell, summary, vidmm_run};
use vidmm::Event;
use vidmm::contract::PagingOperation;
use vidmm_trace::LogReader;

/// Runs one of the scenarios about notification.
fn notification(name: &str, more: &[&str]) -> Run {
    let path = format!("scenarios/notification/{name}.toml");
    vidmm_run(&[&[path.as_str()], more].concat())
}

/// Runs steps, given as text.
fn steps(text: &str, more: &[&str]) -> Run {
    let scratch = Scratch::new();
    let path = scratch.file("steps.toml", text);
    vidmm_run(&[&[path.as_str()], more].concat())
}

/// Checks that a mistake is found, in these words, and can be shown again.
#[track_caller]
fn is_found(scenario: &str, fault: &str, words: &str) {
    let found = notification(scenario, &["--faults", fault]).expect(1);
    assert!(found.stdout.contains(words), "no `{words}`: {found}");
    let replay = shell(&replay_command(&found)).expect(1);
    assert_eq!(found.stdout, replay.stdout, "a replay is its own replay");
    assert_eq!(found.stderr, "", "findings are results, and no complaints");
}

#[test]
fn compressed_bytes_that_the_cpu_sees_are_found() {
    for scenario in [
        "p20-compressed",
        "p23-notify-from-aperture",
        "p25-notify-from-implicit-system",
        "p27-io-mmu-unmap",
        "p29-chunks",
        "p48-buffer-full",
        "revision-2024-08",
    ] {
        is_found(scenario, "skip-decompression", "the CPU sees a wrong page: page 0 of ");
    }
    is_found("integrated-training", "skip-decompression", "the CPU sees a wrong page: page 0 of allocation ");
}

#[test]
fn a_chunk_taken_for_the_first_is_found() {
    // The second chunk of 16 MiB begins with page 4096.
    is_found("p29-chunks", "ignore-chunk-offset", "the CPU sees a wrong page: page 4096 of S");
    is_found("p30-chunk-edges", "ignore-chunk-offset", "the CPU sees a wrong page: page 1024 of more");
    is_found("p48-buffer-full", "ignore-chunk-offset", "the CPU sees a wrong page: page 1024 of A");
}

#[test]
fn commands_that_come_too_late_are_found() {
    is_found("p23-notify-from-aperture", "late-notification", " wrote to 0x");
    is_found("p27-io-mmu-unmap", "late-notification", " wrote to 0x");
    is_found("p27-io-mmu-unmap-global", "late-notification", " wrote to 0x");
}

#[test]
fn an_io_mmu_unmap_before_its_time_is_found() {
    is_found("p27-io-mmu-unmap", "early-io-mmu-unmap", " wrote to 0x");
    is_found("p27-io-mmu-unmap-global", "early-io-mmu-unmap", " wrote to 0x");
    is_found("integrated-training", "early-io-mmu-unmap", "page fault");
}

#[test]
fn translations_that_the_device_kept_are_found() {
    is_found("addresses-used-again", "skip-cache-flush", "kernel check 2 read a wrong page: page 0 of B");
    is_found("late-access-after-io-mmu-unmap", "skip-cache-flush", "NTF-04: kernel late read 0x200000 after the host");
}

#[test]
fn a_window_used_again_without_a_flush_is_found() {
    is_found("p29-chunks", "reuse-paging-va", "the CPU sees a wrong page: page 4096 of L");
    is_found("p30-chunk-edges", "reuse-paging-va", "the CPU sees a wrong page");
    is_found("integrated-training", "reuse-paging-va", "the CPU sees a wrong page");
}

#[test]
fn a_stray_access_is_caught_by_the_dummy_page() {
    // The GPU uses a cached entry: it reads zeros, and harms no other allocation.
    is_found("p52-dummy-page", "skip-tlb-flush", "has zeros");
}

#[test]
fn transfers_that_go_wrong_are_found() {
    is_found("p21-demotion", "drop-page-out", "kernel check 3 read a wrong page: page 0 of A");
    is_found("p24-no-notify-from-local", "flip-bit-in-transfer", "the CPU sees a wrong page");
}

#[test]
fn the_switch_honours_the_answer_of_a_driver_without_local_memory() {
    let asks = "[adapter]\nlocal-memory = 0\npaging-va-mib = 8\n";
    let step = "[[step]]\nquery-paging-va = 0\nsize = ";
    let ignored = steps(&format!("{asks}{step}0"), &[]).expect(0);
    assert!(ignored.stdout.contains("finding     PGV-03: physical adapter 0 asks for"), "{ignored}");
    steps(&format!("{asks}paging-va-without-local-memory = true\n{step}\"8 MiB\""), &[]).expect(0);
}

#[test]
fn a_driver_of_an_earlier_version_is_not_notified() {
    let path = crate::common::workspace().join("scenarios/notification/p25-notify-from-implicit-system.toml");
    let text = fs::read_to_string(path).expect("there is the scenario");
    let plain = text.replace("compression = true\n", "");
    let steps_of = |version: &str| steps(&format!("adapter.wddm = \"{version}\"\n{plain}"), &[]).expect(0);
    assert!(steps_of("3.2").stdout.contains("NOTIFY_ALLOC"));
    let earlier = steps_of("2.0");
    assert!(!earlier.stdout.contains("NOTIFY_ALLOC") && earlier.stdout.contains("finding     CRE-07"), "{earlier}");
}

#[test]
#[ignore = "takes long, runs in .ci/run"]
fn equal_steps_print_and_log_equal_bytes() {
    let scratch = Scratch::new();
    for path in notification_scenarios() {
        let [first, second] = ["first", "second"].map(|name| {
            let (log, figures) = (scratch.path(&format!("{name}.jsonl")), scratch.path(&format!("{name}.json")));
            let run = vidmm_run(&[&path, "--events", &log, "--summary", &figures]).expect(0);
            (run.stdout, fs::read(log).expect("there is a log"), fs::read(figures).expect("there is a summary"))
        });
        // Not `assert_eq`: some logs have megabytes.
        assert!(first == second, "{path}");
    }
}

#[test]
fn the_log_has_the_printed_steps() {
    let scratch = Scratch::new();
    let (log, figures) = (scratch.path("log.jsonl"), scratch.path("figures.json"));
    let run = notification("p29-chunks", &["--events", &log, "--summary", &figures]).expect(0);
    let events = LogReader::new(BufReader::new(File::open(log).expect("there is a log"))).expect("it is a log");
    let is_notification =
        |event: Event| matches!(event, Event::PagingOperation { operation: PagingOperation::NotifyAlloc(_), .. });
    let logged = events.filter(|event| is_notification(event.as_ref().expect("it is whole").event.clone())).count();
    assert_eq!(logged, 7);
    assert_eq!(run.stdout.matches("NOTIFY_ALLOC  Eviction S").count(), 7);
    let figures = summary(&figures);
    let figure = |name: &str| figures[name].as_u64().expect("a number");
    assert_eq!((figure("eviction_notifications"), figure("eviction_notification_chunks")), (1, 7));
    assert_eq!(figure("eviction_notification_bytes"), 100 << 20);
    assert_eq!((figure("system_pages_checked"), figure("pages_wrong")), (2 * 25_600, 0));
    assert_eq!(figures["findings"], serde_json::json!([]));
}

/// An allocation that is mapped.
const MAPPED: &str = "[[step]]\ncreate-allocation = \"A\"\nsize = \"64 KiB\"\n[[step]]\nmap = \"A\"\n";

#[test]
fn an_unexpected_answer_is_a_finding_with_its_line() {
    let twice = format!("{MAPPED}[[step]]\nevict = \"A\"\n");
    let run = steps(&twice, &[]).expect(1);
    assert!(run.stdout.contains("finding     line 6, evict A: it was refused: not-resident"), "{run}");
    assert!(run.stdout.contains("checked     3 of 3 steps"), "{run}");
    let wrong = format!("{MAPPED}[[step]]\nmake-resident = \"A\"\nexpect = \"no-memory\"\n[[step]]\nwait = \"idle\"\n");
    let run = steps(&wrong, &[]).expect(1);
    assert!(run.stdout.contains("line 6, make-resident A: the answer was pending"), "{run}");
    assert!(run.stdout.contains("`no-memory` was expected") && run.stdout.contains("3 of 4 steps"), "{run}");
    steps(&format!("{MAPPED}[[step]]\nevict = \"A\"\nexpect = \"not-resident\"\n"), &[]).expect(0);
}

#[test]
fn refusals_have_names() {
    let large = "[adapter]\nlocal-memory = \"2 MiB\"\n[[step]]\ncreate-allocation = \"A\"\nsize = \"3 MiB\"\n\
                 [[step]]\nmake-resident = \"A\"\nexpect = \"no-memory\"\n";
    steps(large, &[]).expect(0);
    let mapped = format!("{MAPPED}[[step]]\nmap = \"A\"\nas = \"B\"\noffset = \"1 MiB\"\nexpect = \"part\"\n");
    steps(&mapped, &[]).expect(0);
    let other = "[[step]]\ncreate-device = \"E\"\n[[step]]\ncreate-allocation = \"B\"\nsize = 1\ndevice = \"E\"\n\
                 [[step]]\nmake-resident = [\"A\", \"B\"]\nexpect = \"wrong-device\"\n";
    steps(&format!("{MAPPED}{other}"), &[]).expect(0);
    let freed = "[[step]]\nfree-va = \"A\"\n[[step]]\nfree-va = \"A\"\nexpect = \"range\"\n";
    steps(&format!("{MAPPED}{freed}"), &[]).expect(0);
}

#[test]
fn a_kernel_that_does_not_fault_as_expected_is_a_finding() {
    let kernel = "[[step]]\nkernel = \"K\"\nwrites = \"A\"\nexpect = \"page-fault\"\n[[step]]\nwait = \"idle\"\n";
    let run = steps(&format!("{MAPPED}[[step]]\nmake-resident = \"A\"\n{kernel}"), &[]).expect(1);
    assert!(run.stdout.contains("kernel K ended, but `page-fault` was expected"), "{run}");
    steps(&format!("{MAPPED}{kernel}"), &[]).expect(0);
}

#[test]
fn work_that_never_ends_is_a_finding() {
    let held = "[[step]]\ncreate-fence = \"gate\"\n[[step]]\nkernel = \"K\"\nafter = \"gate\"\n";
    for wait in ["idle", "K"] {
        let run = steps(&format!("{held}[[step]]\nwait = \"{wait}\"\n"), &[]).expect(1);
        assert!(run.stdout.contains("nothing more happens"), "{run}");
    }
    steps(&format!("{held}[[step]]\nwait = \"quiet\"\n"), &[]).expect(0);
}

#[test]
fn looks_at_memory_that_does_not_exist_are_findings() {
    let resident = format!("{MAPPED}[[step]]\nmake-resident = \"A\"\n[[step]]\nwait = \"idle\"\n");
    let run = steps(&format!("{resident}[[step]]\ncheck-system = \"A\"\n"), &[]).expect(1);
    assert!(run.stdout.contains("system memory does not have the content of A"), "{run}");
    let run = steps(&format!("{resident}[[step]]\ncheck-aperture = \"A\"\n"), &[]).expect(1);
    assert!(run.stdout.contains("A was never mapped in the aperture"), "{run}");
    let run = steps("[[step]]\nquery-paging-va = 3\n", &[]).expect(1);
    assert!(run.stdout.contains("physical adapter 3 was never asked"), "{run}");
    let run = steps("[[step]]\nquery-paging-va = 0\nsize = \"1 MiB\"\n", &[]).expect(1);
    assert!(run.stdout.contains("the paging VA is 64 MiB, but 1 MiB was expected"), "{run}");
}

#[test]
fn the_dummy_page_is_told_from_the_allocation() {
    let path = crate::common::workspace().join("scenarios/notification/p23-notify-from-aperture.toml");
    let text = fs::read_to_string(path).expect("there is the scenario");
    let run = steps(&text.replacen("shows = \"allocation\"", "shows = \"dummy-page\"", 1), &[]).expect(1);
    assert!(run.stdout.contains("does not show the dummy page"), "{run}");
    let run = steps(&text.replacen("shows = \"dummy-page\"", "shows = \"allocation\"", 1), &[]).expect(1);
    assert!(run.stdout.contains("does not show the bytes of A"), "{run}");
    // The content is zero, like the dummy page.
    let unwritten = text.replacen("[[step]]\nkernel = \"K\"\nwrites = \"A\"\n", "", 1);
    let run = steps(&unwritten, &[]).expect(1);
    assert!(run.stdout.contains("A looks like the dummy page"), "{run}");
}

/// Checks that a run is refused with one message that has these words: the place and the remedy.
#[track_caller]
fn is_refused(run: Run, words: &[&str]) {
    let run = run.expect(2);
    assert_eq!(run.stdout, "", "{run}");
    assert!(run.stderr.starts_with("error: ") && !run.stderr.contains("panicked"), "{run}");
    words.iter().for_each(|word| assert!(run.stderr.contains(word), "no `{word}`: {run}"));
}

#[test]
fn steps_that_need_a_refused_object_are_refused() {
    let text = "adapter.local-memory = 0\n[[step]]\ncreate-allocation = \"A\"\nsize = 1\nnotify = [\"eviction\"]\n\
                expect = \"no-paging-va\"\n[[step]]\nmap = \"A\"\n";
    is_refused(steps(text, &[]), &["line 7", "`A` was never created"]);
}

#[test]
fn arguments_of_workloads_are_refused_for_steps() {
    for arguments in [["--scale", "4"], ["--ahead", "3"], ["--content", "ramp"], ["--block-bytes", "1MiB"]] {
        is_refused(notification("p26-not-asked", &arguments), &[arguments[0], "made of steps"]);
    }
    is_refused(notification("p26-not-asked", &["--local-memory", "50%"]), &["--local-memory", "give a size"]);
    notification("p24-no-notify-from-local", &["--local-memory", "128MiB", "--seed", "9"]).expect(0);
}

#[test]
fn memory_that_the_buffers_cannot_use_is_refused() {
    let small = "client.scale = 64\n[adapter]\nlocal-memory = 0\naperture-commit-limit = \"1 MiB\"\n";
    is_refused(steps(small, &[]), &["commit limit", "raise `aperture-commit-limit`"]);
    let narrow = "client.scale = 64\n[adapter]\nlocal-memory = 0\naperture = \"1 MiB\"\n";
    is_refused(steps(narrow, &[]), &["1 MiB for the workload's buffers", "largest kernel"]);
    is_refused(vidmm_run(&["--local-memory", "0"]), &["no local memory", "`segments = \"system\"`"]);
}
