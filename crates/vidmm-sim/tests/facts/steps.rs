//! Scenarios of steps: the accepted ones, the refused ones, and the errors.

use std::path::Path;

use vidmm_sim::steps::{
    Action, AllocationPriority, Answer, ApertureShows, Call, CheckContent, CheckResidency, CheckSystem, CheckWaiting,
    CpuAccess, CpuRead, CpuWrite, DestroyFlag, Evict, EvictFlag, Group, KernelEngine, Look, MakeResident,
    MakeResidentFlag, OfferFlag, OfferPriority, Power, PowerState, QueryPagingVa, ReclaimResult, SuspendProcess,
    TrimFlag, Until, Wait, Whereabouts,
};
use vidmm_sim::{Content, Duration, ExplicitScenario, Notification, ScenarioFile};
use vidmm_trace::ByteSize;

/// Reads a scenario of steps, which must be accepted.
fn parse(text: &str) -> ExplicitScenario {
    match ScenarioFile::parse(text, Path::new("folder/tiny.toml")) {
        Ok(ScenarioFile::Explicit(scenario)) => *scenario,
        other => panic!("{text}: {other:?}"),
    }
}

/// Checks that a scenario is refused with an error that names the file and has those words.
#[track_caller]
fn refused(text: &str, words: &[&str]) {
    let Err(error) = ScenarioFile::parse(text, Path::new("folder/tiny.toml")) else { panic!("{text}: accepted") };
    let error = error.to_string();
    assert!(error.contains("folder/tiny.toml"), "{error}");
    words.iter().for_each(|word| assert!(error.contains(word), "no `{word}` in: {error}"));
}

/// An allocation that is mapped, in lines 1 to 5.
const MAPPED: &str = "[[step]]\ncreate-allocation = \"A\"\nsize = \"4 KiB\"\n[[step]]\nmap = \"A\"\n";

/// The call of the last step.
fn last_call(steps: &str) -> Call {
    let scenario = parse(steps);
    match scenario.steps.last().map(|step| step.action.clone()) {
        Some(Action::Call(call)) => call,
        other => panic!("{other:?} is no call"),
    }
}

fn names(names: &[&str]) -> Vec<String> {
    names.iter().map(|&name| name.to_owned()).collect()
}

#[test]
fn the_machine_of_steps_has_sizes() {
    let scenario = parse("[[step]]\nwait = \"idle\"");
    assert_eq!((scenario.name.as_str(), scenario.seed), ("tiny", 1));
    let sizes = |scenario: &ExplicitScenario| {
        (scenario.local_memory_bytes, scenario.aperture_bytes, scenario.aperture_commit_limit_bytes)
    };
    assert_eq!(sizes(&scenario), (256 << 20, 256 << 20, None));
    let adapter = "local-memory = \"1 MiB\"\naperture = \"2 MiB\"\naperture-commit-limit = \"3 MiB\"";
    let scenario = parse(&format!("[adapter]\n{adapter}\n[[step]]\nwait = \"idle\""));
    assert_eq!(sizes(&scenario), (1 << 20, 2 << 20, Some(3 << 20)));
    let io_mmu = parse("adapter.addressing-model = \"gpu-va-io-mmu\"\n[[step]]\nwait = \"idle\"");
    assert_eq!(io_mmu.local_memory_bytes, 0);
    let step = "[[step]]\nwait = \"idle\"";
    refused(&format!("[adapter]\nlocal-memory = \"50%\"\n{step}"), &["line 2", "`local-memory` is 50%", "give a size"]);
    refused(&format!("[adapter]\n\naperture-commit-limit = \"9%\"\n{step}"), &["line 3", "give a size"]);
}

#[test]
fn a_step_knows_its_line() {
    let lines: Vec<usize> = parse(&format!("# a comment\n{MAPPED}\n[[step]]\nwait = \"idle\""))
        .steps
        .iter()
        .map(|step| step.line)
        .collect();
    assert_eq!(lines, [2, 5, 8]);
}

#[test]
fn every_key_of_an_allocation_is_read() {
    let call = last_call(
        "[[step]]\ncreate-device = \"E\"\npriority = 2\n[[step]]\ncreate-allocation = \"A\"\nsize = \"1 MiB\"\n\
         segments = \"system\"\naccessed-physically = true\nnotify = [\"eviction\", \"io-mmu-unmap\"]\ncompression = true\n\
         count = 3\ndevice = \"E\"",
    );
    let Call::CreateAllocation(create) = call else { panic!("it creates allocations") };
    assert_eq!(create.names(), ["A1", "A2", "A3"]);
    assert_eq!((create.size, create.device.as_deref()), (ByteSize::mib(1), Some("E")));
    assert!(create.accessed_physically && create.compression);
    assert_eq!(create.notify, [Notification::Eviction, Notification::IoMmuUnmap]);
}

#[test]
fn a_group_stands_for_its_members() {
    let group = "[[step]]\ncreate-allocation = \"A\"\nsize = 1\ncount = 2\n[[step]]\nmap = \"A\"\n";
    assert!(matches!(
        last_call(&format!("{group}[[step]]\nmake-resident = \"A\"")),
        Call::MakeResident(MakeResident { allocations, .. }) if allocations == names(&["A1", "A2"])
    ));
    assert!(matches!(
        last_call(&format!("{group}[[step]]\nevict = [\"A2\", \"A\"]\nflags = [\"not-written-to\"]")),
        Call::Evict(Evict { allocations, flags, .. })
            if allocations == names(&["A2", "A1", "A2"]) && flags == [EvictFlag::NotWrittenTo]
    ));
    assert_eq!(
        last_call(&format!("{group}[[step]]\ncheck-content = \"A\"")),
        CheckContent { names: names(&["A1", "A2"]), device: None }.into()
    );
    refused(&format!("{group}[[step]]\nfree-va = \"A\""), &["line 7", "`A` is a group"]);
    refused(&format!("{group}[[step]]\nmap = \"A\"\nas = \"B\""), &["line 7", "names one mapping"]);
}

#[test]
fn every_key_of_a_kernel_is_read() {
    let steps = format!(
        "{MAPPED}[[step]]\ncreate-fence = \"gate\"\n[[step]]\nmap = \"A\"\nas = \"second\"\noffset = 0\nsize = 4096\n\
         read-only = true\n[[step]]\nkernel = \"K\"\nreads = [\"A\", \"second\"]\nwrites = \"A\"\ncontent = \"uniform\"\n\
         nanoseconds = 7\nengine = \"copy\"\nafter = \"gate\"\nexpect = \"page-fault\""
    );
    let Call::Kernel(kernel) = last_call(&steps) else { panic!("it is a kernel") };
    assert_eq!((kernel.reads, kernel.writes), (names(&["A", "second"]), names(&["A"])));
    assert_eq!((kernel.content, kernel.nanoseconds, kernel.engine), (Content::Uniform, 7, KernelEngine::Copy));
    assert_eq!((kernel.after, kernel.device), (names(&["gate"]), None));
    assert_eq!(parse(&steps).steps.last().and_then(|step| step.expect), Some(Answer::PageFault));
}

#[test]
fn every_key_of_a_look_is_read() {
    let looks = |text: &str| match parse(&format!("{MAPPED}{text}")).steps.last().map(|step| step.action.clone()) {
        Some(Action::Look(look)) => look,
        other => panic!("{text}: {other:?}"),
    };
    let kernel = "[[step]]\nkernel = \"K\"\n";
    let waits = |text: &str, until: Until| assert_eq!(looks(text), Wait { until }.into());
    waits("[[step]]\nwait = \"idle\"", Until::Idle);
    waits("[[step]]\nwait = \"quiet\"", Until::Quiet);
    waits("[[step]]\nwait = \"powered-down\"", Until::PoweredDown);
    waits("[[step]]\nwait = \"20 ms\"", Until::For(Duration { ns: 20_000_000 }));
    waits(&format!("{kernel}[[step]]\nwait = \"K\""), Until::Kernel("K".to_owned()));
    let allocations = names(&["A"]);
    assert_eq!(looks("[[step]]\ncheck-system = \"A\""), CheckSystem { allocations: allocations.clone() }.into());
    assert_eq!(looks("[[step]]\ncpu-write = \"A\""), CpuWrite { allocations: allocations.clone() }.into());
    assert_eq!(looks("[[step]]\ncpu-read = \"A\""), CpuRead { allocations: allocations.clone() }.into());
    let waiting = CheckWaiting { kernels: names(&["K"]) };
    assert_eq!(looks(&format!("{kernel}[[step]]\ncheck-waiting = \"K\"")), waiting.into());
    let residency = "[[step]]\ncheck-residency = \"A\"\nin = \"nowhere\"";
    assert_eq!(looks(residency), CheckResidency { allocations, r#in: Whereabouts::Nowhere }.into());
    let query = QueryPagingVa { adapter: 1, size: Some(ByteSize::mib(16)) };
    assert_eq!(looks("[[step]]\nquery-paging-va = 1\nsize = \"16 MiB\""), query.into());
    let Look::CheckAperture(check) = looks("[[step]]\ncheck-aperture = \"A\"\nshows = \"dummy-page\"") else {
        panic!()
    };
    assert_eq!((check.allocations, check.shows), (names(&["A"]), ApertureShows::DummyPage));
}

#[test]
fn a_step_without_one_verb_is_refused() {
    refused("seed = 1\n[[step]]\nexpect = \"ok\"", &["line 2", "does nothing", "`make-resident`", "`check-system`"]);
    refused("[[step]]\nmap = \"A\"\nevict = \"A\"", &["line 1", "`map` and a `evict`", "two steps"]);
    refused("[[step]]\nmake_resident = \"A\"", &["line 1", "`make_resident` is no step; write `make-resident`"]);
    refused("[[step]]\nnonsense = \"A\"\nsize = 1", &["`nonsense` is no step; write one of `create-process`, "]);
    refused("step = 3", &["line 1", "`[[step]]`"]);
    refused("step = [3]", &["line 1", "`[[step]]`"]);
    refused("[step]\nwait = \"idle\"", &["line 1", "`[[step]]`"]);
}

/// The verb of a step in the table of all steps, and the key that its struct reads.
#[test]
fn every_verb_is_a_key_of_its_step() {
    let error = |text: &str| match ScenarioFile::parse(text, Path::new("tiny.toml")) {
        Err(error) => error.to_string(),
        Ok(_) => panic!("{text}: accepted"),
    };
    let nothing = error("[[step]]\n");
    let verbs: Vec<&str> = nothing.split('`').skip(1).step_by(2).collect();
    assert!(verbs.len() > 40, "{nothing}");
    for verb in verbs {
        let error = error(&format!("[[step]]\n{verb} = {{}}"));
        assert!(error.contains("line 2") && !error.contains("unknown field"), "{verb}: {error}");
    }
}

#[test]
fn keys_that_a_step_does_not_have_are_refused_with_those_that_it_has() {
    refused("[[step]]\nwait = \"idle\"\nfor = 3", &["line 3", "unknown field `for`", "`wait`"]);
    refused("[[step]]\ncreate-allocation = \"A\"\nbytes = 3", &["line 3", "unknown field `bytes`", "`size`"]);
    refused("[[step]]\ncreate-allocation = \"A\"", &["line 1", "missing field `size`"]);
    refused("[[step]]\ncreate-allocation = \"A\"\nsize = 0", &["line 3", "`16 MiB`"]);
    refused("[[step]]\ncreate-allocation = \"A\"\nsize = 1\nsegments = \"vram\"", &["line 4", "`local-or-system`"]);
    refused("[[step]]\ncreate-allocation = \"A\"\nsize = 1\nnotify = \"eviction\"", &["line 4", "sequence"]);
    refused("[[step]]\ncreate-allocation = \"A\"\nsize = 1\ncount = 0", &["line 4", "from 1 to 1000"]);
    refused("[[step]]\ncreate-device = \"E\"\npriority = 3", &["line 3", "from 0 to 2"]);
    refused(&format!("{MAPPED}[[step]]\nevict = \"A\"\nflags = [\"soon\"]"), &["line 8", "`only-if-necessary`"]);
}

#[test]
fn unknown_answers_are_refused() {
    let resident = format!("{MAPPED}[[step]]\nmake-resident = \"A\"\n");
    refused(&format!("{resident}expect = \"no-memry\""), &["line 8", "`no-memry`", "`no-memory`", "`pending`"]);
    refused("[[step]]\nwait = \"idle\"\nexpect = \"ok\"", &["line 1", "nobody answers `wait`", "leave"]);
    let check = format!("{MAPPED}[[step]]\ncheck-system = \"A\"\nexpect = \"pending\"");
    refused(&check, &["line 6", "nobody answers `check-system`"]);
}

#[test]
fn kernels_are_for_machines_with_virtual_addresses() {
    let adapter = "[adapter]\naddressing-model = \"physical\"\n";
    refused(&format!("{adapter}[[step]]\nkernel = \"K\"\nhangs = true"), &["line 3", "`render` instead of `kernel`"]);
}

#[test]
fn unknown_names_are_refused_with_the_known_ones() {
    refused(&format!("{MAPPED}[[step]]\nmake-resident = \"B\""), &["line 6", "no allocation `B`", "`A`"]);
    refused("[[step]]\nmake-resident = \"B\"", &["line 1", "no allocation `B`", "none so far"]);
    refused(&format!("{MAPPED}[[step]]\nkernel = \"K\"\nreads = \"B\""), &["line 6", "no mapping `B`", "`A`"]);
    let unmapped = "[[step]]\ncreate-allocation = \"A\"\nsize = 1\n[[step]]\ncheck-content = \"A\"";
    refused(unmapped, &["line 4", "`A` is not mapped", "`map = \"A\"`"]);
    refused("[[step]]\nwait = \"busy\"", &["line 1", "no kernel `busy`", "`idle`", "`quiet`"]);
    refused("[[step]]\nkernel = \"K\"\nafter = \"gate\"", &["line 1", "no kernel or fence `gate`"]);
    refused("[[step]]\ncreate-device = \"E\"\nprocess = \"Q\"", &["line 1", "no process `Q`", "`P`"]);
    refused("[[step]]\nsignal = \"gate\"", &["line 1", "no fence `gate`"]);
}

#[test]
fn names_are_given_once() {
    refused(&format!("{MAPPED}{MAPPED}"), &["line 6", "already the allocation `A`"]);
    refused(&format!("{MAPPED}[[step]]\nmap = \"A\""), &["line 6", "already the mapping `A`", "another name"]);
    refused("[[step]]\nkernel = \"K\"\n[[step]]\nkernel = \"K\"", &["line 3", "already the kernel `K`"]);
    for name in ["idle", "powered-down", "20ms"] {
        refused(&format!("[[step]]\nkernel = \"{name}\""), &["line 1", "means something else"]);
    }
    refused("[[step]]\ncreate-process = \"P\"", &["line 1", "already the process `P`"]);
    let group = "[[step]]\ncreate-allocation = \"A\"\nsize = 1\ncount = 2\n";
    let member = "[[step]]\ncreate-allocation = \"A1\"\nsize = 1\n";
    refused(&format!("{group}{member}"), &["line 5", "already the allocation `A1`"]);
    for name in ["\"\"", "\"two words\"", "3"] {
        refused(&format!("[[step]]\ncreate-fence = {name}"), &["line 2"]);
    }
}

#[test]
fn steps_and_a_workload_do_not_go_together() {
    let step = "[[step]]\nwait = \"idle\"\n";
    refused(&format!("{step}[workload]\nkind = \"cyclic-layers\""), &["line 3", "`[workload]`", "keep one"]);
    refused(&format!("{step}[client]\nahead = 3"), &["line 3", "`[client]`", "keep one"]);
}

#[test]
fn every_key_of_residency_is_read() {
    let device = format!("{MAPPED}[[step]]\ncreate-device = \"E\"\n");
    let Call::MakeResident(call) = last_call(&format!(
        "{device}[[step]]\nmake-resident = \"A\"\ndevice = \"E\"\nflags = [\"cant-trim-further\", \"must-succeed\"]\n\
         num-bytes-to-trim = \"1 MiB\""
    )) else {
        panic!("it makes resident")
    };
    assert_eq!((call.device.as_deref(), call.num_bytes_to_trim), (Some("E"), Some(ByteSize::mib(1))));
    assert_eq!(call.flags, [MakeResidentFlag::CantTrimFurther, MakeResidentFlag::MustSucceed]);
    let offer = "[[step]]\noffer = \"A\"\npriority = \"high\"\nflags = [\"immediately\", \"allow-decommit\"]";
    let Call::Offer(call) = last_call(&format!("{MAPPED}{offer}")) else { panic!("it offers") };
    assert_eq!(
        (call.priority, call.flags),
        (OfferPriority::High, vec![OfferFlag::Immediately, OfferFlag::AllowDecommit])
    );
    let reclaim = "[[step]]\nreclaim = \"A\"\nresults = [\"not-committed\"]";
    let Call::Reclaim(call) = last_call(&format!("{MAPPED}{reclaim}")) else { panic!("it reclaims") };
    assert_eq!(call.results, [ReclaimResult::NotCommitted]);
    let destroy = "[[step]]\ndestroy-allocation = \"A\"\nflags = [\"assume-not-in-use\", \"synchronous\"]";
    let Call::DestroyAllocation(call) = last_call(&format!("{MAPPED}{destroy}")) else { panic!("it destroys") };
    assert_eq!(call.flags, [DestroyFlag::AssumeNotInUse, DestroyFlag::Synchronous]);
    let create = "[[step]]\ncreate-allocation = \"A\"\nsize = 1\npriority = \"high\"\ncpu = \"permanent-sys-mem\"\nshared = true";
    let Call::CreateAllocation(call) = last_call(create) else { panic!("it creates") };
    assert_eq!((call.priority, call.cpu), (Some(AllocationPriority::High), Some(CpuAccess::PermanentSysMem)));
    assert!(call.shared);
    assert_eq!(last_call("[[step]]\npower = \"down\""), Power { power: PowerState::Down }.into());
    let suspend = "[[step]]\nsuspend-process = \"P\"\nallow-wake-on-submission = true";
    let step = SuspendProcess { process: "P".to_owned(), allow_wake_on_submission: true };
    assert_eq!(last_call(suspend), step.into());
}

#[test]
fn every_key_of_budgets_and_trims_is_read() {
    let looks = |text: &str| match parse(text).steps.last().map(|step| step.action.clone()) {
        Some(Action::Look(look)) => look,
        other => panic!("{text}: {other:?}"),
    };
    let Look::QueryVideoMemory(query) = looks(
        "[[step]]\nquery-video-memory = \"P\"\ngroup = \"non-local\"\nbudget = \"3 MiB\"\nusage = 0\nrequested = 4096",
    ) else {
        panic!("it asks")
    };
    assert_eq!((query.group, query.budget), (Group::NonLocal, Some(ByteSize::mib(3))));
    assert_eq!((query.usage, query.requested, query.reservation), (Some(ByteSize(0)), Some(ByteSize::kib(4)), None));
    let Look::ExpectTrim(trim) =
        looks("[[step]]\nexpect-trim = \"D\"\nflags = [\"periodic\", \"to-budget\"]\nnum-bytes-to-trim = 1")
    else {
        panic!("it expects")
    };
    assert_eq!((trim.flags, trim.num_bytes_to_trim), (vec![TrimFlag::Periodic, TrimFlag::ToBudget], Some(ByteSize(1))));
    let set = "[[step]]\ntrim-intervals = { min = \"10 ms\", max = \"1 s\", idle = \"2 s\" }";
    let Call::TrimIntervals(set) = last_call(set) else { panic!("it sets") };
    assert_eq!((set.intervals.min.ns, set.intervals.idle.ns), (10_000_000, 2_000_000_000));
    refused("[[step]]\ntrim-intervals = { min = \"10\", max = \"1 s\", idle = \"2 s\" }", &["line 2", "`20 ms`"]);
    refused("[[step]]\nprocess-priority = \"P\"\nband = \"background\"", &["line 3", "`focus`"]);
    refused("[[step]]\nregister-trim = \"E\"", &["line 1", "no device `E`", "`D`"]);
}

#[test]
fn results_are_one_for_each_allocation_or_one_for_all() {
    let group = "[[step]]\ncreate-allocation = \"A\"\nsize = 1\ncount = 3\n[[step]]\nreclaim = \"A\"\n";
    refused(&format!("{group}results = [\"ok\", \"ok\"]"), &["line 5", "2 results for 3 allocations"]);
    last_call(&format!("{group}results = [\"ok\"]"));
    last_call(&format!("{group}results = [\"ok\", \"discarded\", \"ok\"]"));
}

#[test]
fn a_result_of_all_needs_no_list() {
    let group = "[[step]]\ncreate-allocation = \"A\"\nsize = \"4 KiB\"\ncount = 2\n[[step]]\nreclaim = \"A\"\n";
    let Call::Reclaim(call) = last_call(&format!("{group}results = \"discarded\"")) else { panic!("it is a reclaim") };
    assert_eq!(call.results, [ReclaimResult::Discarded]);
    refused(&format!("{group}results = \"lost\""), &["`ok`, `discarded` or `not-committed`, or a list of them"]);
}

#[test]
fn the_first_address_of_a_mapping_may_be_given() {
    let created = "[[step]]\ncreate-allocation = \"A\"\nsize = \"4 KiB\"\ncount = 2\n";
    let map = |rest: &str| format!("{created}[[step]]\nmap = {rest}\nbase-address = 0x1000_0000\n");
    let Call::Map(call) = last_call(&map("\"A1\"")) else { panic!("it is a map") };
    assert_eq!(call.base_address, Some(0x1000_0000));
    refused(&map("\"A\""), &["`base-address` is that of one mapping"]);
    refused(&map("\"A1\"").replace("0x", "-0x").replace("-0x1000_0000", "-1"), &["base-address", "out of range"]);
}

#[test]
fn groups_of_mapped_allocations_are_groups_of_mappings() {
    let group = |name: &str| format!("[[step]]\ncreate-allocation = \"{name}\"\nsize = \"4 KiB\"\ncount = 2\n");
    let created = group("A") + &group("B");
    let kernel = "[[step]]\nkernel = \"k\"\nwrites = [\"A\", \"B\"]\n";
    for maps in ["[[step]]\nmap = [\"A\", \"B\"]\n", "[[step]]\nmap = [\"B2\", \"A\"]\n[[step]]\nmap = \"B1\"\n"] {
        let Call::Kernel(call) = last_call(&format!("{created}{maps}{kernel}")) else { panic!("it is a kernel") };
        assert_eq!(call.writes, names(&["A1", "A2", "B1", "B2"]));
    }
    let one = "[[step]]\nmap = [\"A\", \"B1\"]\n";
    refused(&format!("{created}{one}{kernel}"), &["`B` is not mapped; write a step with `map = \"B\"`"]);
}

#[test]
fn a_name_of_another_kind_is_said_to_be_one() {
    let process = "[[step]]\ncreate-process = \"Q\"\n[[step]]\ncreate-device = \"E\"\nprocess = \"Q\"\n";
    let query = |of: &str| format!("{process}[[step]]\nquery-video-memory = \"{of}\"");
    refused(&query("E"), &["there is no process `E`", "`E` is a device; its process is `Q`"]);
    refused(&query("D"), &["there is no process `D`", "`D` is a device; its process is `P`"]);
    refused(&format!("{MAPPED}[[step]]\nwait = \"A\""), &["there is no kernel `A`", "is the name of a"]);
    refused(
        "[[step]]\ncreate-device = \"D\"",
        &["there is already the device `D`", "made when the first step needs it"],
    );
    refused(
        "[[step]]\ncreate-process = \"P\"",
        &["there is already the process `P`", "made when the first step needs it"],
    );
}

/// The document that tells how to write scenarios.
fn readme() -> String {
    let readme = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios/README.md");
    std::fs::read_to_string(readme).expect("it is there")
}

/// The error of a scenario that must be refused.
fn error_of(text: &str) -> String {
    ScenarioFile::parse(text, Path::new("tiny.toml")).expect_err("it is wrong").to_string()
}

#[test]
fn each_step_and_each_of_its_keys_is_in_the_readme() {
    let readme = readme();
    let nothing = error_of("[[step]]\n");
    for verb in nothing.split('`').skip(1).step_by(2) {
        let rows: Vec<&str> = readme.lines().filter(|line| line.contains(&format!("`{verb}"))).collect();
        let error = error_of(&format!("[[step]]\na-key = 1\n{verb} = {{}}"));
        let (_, keys) = error.split_once("unknown field `a-key`, expected ").expect("the error names the keys");
        for key in keys.split('`').skip(1).step_by(2) {
            let is_in = |row: &&str| [format!("`{key}`"), format!("`{key} = ")].iter().any(|named| row.contains(named));
            assert!(rows.iter().any(is_in), "no line about `{verb}` has its key `{key}`");
        }
    }
}

#[test]
fn each_answer_is_in_the_readme() {
    let readme = readme();
    let error = error_of(&format!("{MAPPED}[[step]]\nevict = \"A\"\nexpect = \"nonsense\""));
    let (_, answers) = error.split_once("expected one of ").expect("the error names the answers");
    let answers: Vec<&str> = answers.split('`').skip(1).step_by(2).collect();
    assert!(answers.len() > 40, "{error}");
    for answer in answers {
        assert!(readme.contains(&format!("`\"{answer}\"`")), "`{answer}` is an answer, and the README has not");
    }
}

#[test]
fn each_key_of_the_machine_is_in_the_readme() {
    let readme = readme();
    for (table, least) in [("adapter", 30), ("cost", 4)] {
        let text = format!("[{table}]\nno-such-key = 1\n[[step]]\nwait = \"idle\"\n");
        let error = error_of(&text);
        let (_, keys) = error.split_once("expected one of ").expect("the error names the keys");
        let keys: Vec<&str> = keys.split('`').skip(1).step_by(2).collect();
        assert!(keys.len() >= least, "{error}");
        for key in keys {
            assert!(readme.contains(&format!("`{key}`")), "[{table}] has `{key}`, and the README has not");
        }
    }
}
