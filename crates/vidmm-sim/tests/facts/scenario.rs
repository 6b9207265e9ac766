//! Scenario files: the accepted ones, the refused ones, and the errors.

use std::path::{Path, PathBuf};

use proptest::prelude::*;
use vidmm::contract::AddressingModel;
use vidmm::{NotificationRevision, PriorityBand, TdrOptions, Visibility};
use vidmm_runtime::AllocationSegments;
use vidmm_runtime::{DriverFault, GpuFault, InterruptFault};
use vidmm_sim::{
    Check, ClientKind, Content, Duration, Fault, FaultError, FaultKind, Lifetimes, Misbehaviour, Misdeed, Notification,
    PageSize, PageTables, PagingVa, ProcessSettings, Processes, ResidencyPolicy, Scenario, ScenarioError, ScenarioFile,
    SubmissionsSource, UpdateMode, Wddm, When, WorkloadSource,
};
use vidmm_trace::{Buffer, ByteSize, Generator, LocalMemory, Workload};

/// The scenarios of the repository.
fn scenarios() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios")
}

/// Reads a scenario, which must be accepted.
fn parse(text: &str) -> Scenario {
    match Scenario::parse(text, Path::new("folder/tiny.toml")) {
        Ok(scenario) => scenario,
        Err(error) => panic!("{text}: {error}"),
    }
}

/// Reads the file of a workload.
fn load(path: &Path) -> Result<Scenario, ScenarioError> {
    match ScenarioFile::load(path)? {
        ScenarioFile::Workload(scenario) => Ok(*scenario),
        ScenarioFile::Explicit(scenario) => panic!("{} has steps: {scenario:?}", path.display()),
    }
}

/// Reads a scenario, which must be refused, and returns the message for the user.
fn refusal(text: &str) -> String {
    match Scenario::parse(text, Path::new("folder/tiny.toml")) {
        Ok(scenario) => panic!("{text}: accepted as {scenario:?}"),
        Err(error) => error.to_string(),
    }
}

/// Checks that a scenario is refused with an error that names the file and has those words.
fn refused(text: &str, words: &[&str]) {
    let error = refusal(text);
    assert!(error.contains("folder/tiny.toml"), "{error}");
    words.iter().for_each(|word| assert!(error.contains(word), "no `{word}` in: {error}"));
}

/// The workload of a scenario without files.
fn workload(scenario: &Scenario) -> Workload {
    scenario.load(Path::new("")).expect("it generates").workload
}

#[test]
fn an_empty_file_has_all_defaults() {
    let scenario = parse("");
    let default = Scenario::default();
    assert_eq!(scenario.name, "tiny");
    assert_eq!(format!("{:?}", Scenario { name: "training".to_owned(), ..scenario }), format!("{default:?}"));
    assert_eq!(default.seed, 1);
    assert_eq!(default.adapter.local_memory, None);
    assert_eq!(default.segments(), AllocationSegments::Local);
    assert_eq!((default.adapter.page_table_bits(), default.adapter.dual_pte()), (vec![13, 10], true));
    assert_eq!(default.cost.bus_bytes_per_second(), 25_000_000_000);
    assert_eq!(default.cost.local_bytes_per_second(), 800_000_000_000);
    assert_eq!((default.client.ahead, default.client.scale, default.client.content), (8, 1, Content::Uniform));
    assert!(matches!(default.source, WorkloadSource::Generator(Generator::TransformerTraining(_))));
}

#[test]
fn a_seed_may_have_all_64_bits() {
    assert_eq!(parse("seed = 18446744073709551615").seed, u64::MAX);
    refused("seed = 18446744073709551616", &["line 1", "from 0 to 18446744073709551615"]);
}

#[test]
fn the_repository_s_scenarios_load_and_fit() {
    let mut names = Vec::new();
    for entry in std::fs::read_dir(scenarios()).expect("the folder exists") {
        let path = entry.expect("it can be listed").path();
        if path.extension().is_none_or(|extension| extension != "toml") {
            continue;
        }
        let scenario = load(&path).unwrap_or_else(|error| panic!("{error}"));
        let workload =
            scenario.load(&scenarios()).unwrap_or_else(|error| panic!("{}: {error}", path.display())).workload;
        let local =
            scenario.local_memory_bytes(&workload).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        let footprint = workload.footprint(scenario.adapter.page_size.bytes());
        assert!(local < footprint.peak_bytes, "{}: there is nothing to page", path.display());
        assert_eq!(path.file_stem().expect("a name").to_string_lossy(), scenario.name);
        let expects_faults =
            |process: &ProcessSettings| process.behaviour.recovers || process.behaviour.misbehaves.is_some();
        let is_ready = !scenario.processes.is_empty() && scenario.processes.iter().all(expects_faults);
        assert!(scenario.faults.is_empty() || is_ready, "{}: somebody does not expect mistakes", path.display());
        names.push(scenario.name);
    }
    names.sort();
    let known = ["cyclic", "serving", "textures", "training"];
    assert!(known.iter().all(|known| names.iter().any(|name| name == known)), "{names:?}");
}

#[test]
fn the_training_scenario_is_the_default() {
    let mut loaded = load(&scenarios().join("training.toml")).expect("it loads");
    let default = Scenario::default();
    let adapter = &mut loaded.adapter;
    let explicit = (adapter.page_table_bits.take(), adapter.dual_pte.take(), adapter.page_tables.take());
    let (bits, dual, tables) =
        (default.adapter.page_table_bits(), default.adapter.dual_pte(), default.adapter.page_tables());
    assert_eq!(explicit, (Some(bits), Some(dual), Some(tables)));
    assert_eq!(adapter.local_memory.take(), Some(LocalMemory::Percent(5000)));
    assert_eq!(loaded.client.segments.take(), Some(default.segments()));
    assert_eq!(format!("{loaded:?}"), format!("{default:?}"));
}

#[test]
fn the_textures_scenario_has_two_processes() {
    let scenario = load(&scenarios().join("textures.toml")).expect("it loads");
    assert_eq!(workload(&scenario).processes(), [0, 1]);
    assert_eq!(scenario.adapter.page_tables(), PageTables::System);
}

#[test]
fn every_key_is_read() {
    let scenario = parse(
        r#"
        name = "all keys"
        seed = 9_223_372_036_854_775_807
        faults = ["skip-tlb-flush@3", "flip-bit-in-transfer"]
        [adapter]
        local-memory = "1.5GiB"
        page-size = "4 KiB"
        page-table-bits = [9, 8, 9, 9]
        dual-pte = true
        invalid-tlb-entries-not-cached = false
        page-tables = "local"
        update-mode = "cpu-virtual"
        paging-buffer = 8192
        max-command = "1 MiB"
        paging-va-mib = 64
        paging-va-without-local-memory = true
        addressing-model = "gpu-mmu"
        aperture = "48 MiB"
        aperture-commit-limit = "25%"
        cache-coherent-aperture = true
        map-aperture2 = true
        scheduling-log = "4 MiB"
        notification-revision = "2024-08"
        wddm = "2.0"
        busy-notify-every = 3
        [[adapter.linked-adapters]]
        local-memory = "0"
        aperture = "8 MiB"
        paging-va-mib = "fails"
        [cost]
        bus-gb-per-s = 12.5
        local-gb-per-s = 1e3
        [client]
        ahead = 1
        scale = 16
        content = "ramp"
        segments = "local-or-system"
        compression = true
        notify = ["eviction", "io-mmu-unmap"]
        [workload]
        trace = "a/b.txt"
        block-bytes = "16 MiB"
        "#,
    );
    assert_eq!((scenario.name.as_str(), scenario.seed), ("all keys", i64::MAX as u64));
    let [flush, flip] =
        [(FaultKind::Driver(DriverFault::SkipTlbFlush), When::Nth(3)), (FaultKind::FlipBitInTransfer, When::Always)]
            .map(|(kind, when)| Fault { kind, when });
    assert_eq!(scenario.faults, [flush, flip]);
    let adapter = &scenario.adapter;
    assert_eq!(adapter.local_memory, Some(LocalMemory::Bytes(ByteSize::mib(1536))));
    assert_eq!((adapter.page_size, adapter.virtual_address_bits()), (PageSize::Kib4, 48));
    assert_eq!((adapter.page_table_bits(), adapter.dual_pte()), (vec![9, 8, 9, 9], true));
    assert!(!adapter.invalid_tlb_entries_not_cached);
    assert_eq!((adapter.paging_buffer, adapter.max_command), (ByteSize(8192), ByteSize::mib(1)));
    assert_eq!((adapter.paging_va_mib, adapter.paging_va_without_local_memory), (PagingVa::Mib(64), true));
    assert_eq!((adapter.addressing_model, adapter.wddm), (AddressingModel::GpuMmu, Wddm::V2_0));
    assert_eq!((adapter.aperture, adapter.cache_coherent_aperture), (Some(ByteSize::mib(48)), true));
    assert!(adapter.map_aperture2);
    assert_eq!((adapter.update_mode, adapter.page_tables()), (UpdateMode::CpuVirtual, PageTables::Local));
    assert_eq!(adapter.aperture_commit_limit, Some(LocalMemory::Percent(2500)));
    assert_eq!(adapter.scheduling_log, Some(ByteSize::mib(4)));
    assert_eq!(adapter.notification_revision, NotificationRevision::August2024);
    assert_eq!(adapter.busy_notify_every, Some(3));
    let [linked] = &adapter.linked_adapters[..] else { panic!("one linked adapter") };
    assert_eq!((linked.local_memory, linked.aperture), (ByteSize(0), ByteSize::mib(8)));
    assert_eq!(linked.paging_va_mib, PagingVa::Fails);
    assert_eq!(scenario.cost.bus_bytes_per_second(), 12_500_000_000);
    assert_eq!(scenario.cost.local_bytes_per_second(), 1_000_000_000_000);
    assert_eq!((scenario.client.ahead, scenario.client.scale, scenario.client.content), (1, 16, Content::Ramp));
    assert_eq!((scenario.segments(), scenario.client.compression), (AllocationSegments::LocalOrSystem, true));
    assert_eq!(scenario.client.notify, [Notification::Eviction, Notification::IoMmuUnmap]);
    let WorkloadSource::Trace(source) = &scenario.source else { panic!("a trace") };
    assert_eq!((source.trace.as_path(), source.block_bytes), (Path::new("a/b.txt"), ByteSize::mib(16)));
}

#[test]
fn each_generator_is_read_with_its_parameters() {
    for (kind, parameter) in [
        ("transformer-training", "layers = 1"),
        ("llm-serving", "requests = 2"),
        ("cyclic-layers", "passes = 1"),
        ("inference", "kernels = 2"),
        ("zipf-textures", "frames = 2"),
    ] {
        let scenario = parse(&format!("[workload]\n{parameter}\nkind = \"{kind}\""));
        let WorkloadSource::Generator(generator) = &scenario.source else { panic!("a generator") };
        assert_eq!(generator.kind(), kind);
        let default = parse(&format!("workload.kind = \"{kind}\""));
        assert!(workload(&scenario).kernels.len() < workload(&default).kernels.len(), "{kind}");
    }
}

#[test]
fn processes_are_read_with_their_workloads() {
    let scenario = parse(
        r#"
        [client]
        ahead = 3
        residency = "kept"
        [[process]]
        name = "server"
        trace = "log.jsonl"
        block-bytes = "1 MiB"
        start = "1500 ms"
        compress-arrivals = 400
        band = "focus"
        visibility = "occluded"
        lifetimes = "offer"
        ahead = 2
        [[process]]
        count = 3
        paced = true
        residency = "evicted-at-once"
        kind = "cyclic-layers"
        passes = 1
        "#,
    );
    let [server, layers] = &scenario.processes[..] else { panic!("two tables") };
    let behaviour = &server.behaviour;
    assert_eq!((behaviour.start, behaviour.compress_arrivals), (Duration { ns: 1_500_000_000 }, 400));
    assert_eq!((behaviour.band, behaviour.visibility), (PriorityBand::Focus, Visibility::Occluded));
    assert_eq!((behaviour.lifetimes, behaviour.ahead), (Some(Lifetimes::Offer), Some(2)));
    let WorkloadSource::Trace(source) = &server.source else { panic!("a trace") };
    assert_eq!((source.trace.as_path(), source.block_bytes), (Path::new("log.jsonl"), ByteSize::mib(1)));
    assert_eq!((layers.behaviour.count, layers.behaviour.paced), (3, true));
    assert_eq!(layers.behaviour.residency, Some(ResidencyPolicy::EvictedAtOnce));
    assert!(matches!(&layers.source, WorkloadSource::Generator(generator) if generator.kind() == "cyclic-layers"));
}

#[test]
fn each_process_has_a_name_and_behaves_as_its_table_or_the_client_says() {
    let layers = "kind = \"cyclic-layers\"\nlayers = 2\npasses = 1\n";
    let text = format!(
        "client.ahead = 3\n[[process]]\n{layers}count = 2\n[[process]]\nname = \"late\"\n{layers}start = \"2 ms\"\nahead = 1"
    );
    let Processes { workload, clients } = parse(&text).load(Path::new("")).expect("it generates");
    let named: Vec<(&str, usize)> = clients.iter().map(|client| (client.name.as_str(), client.ahead)).collect();
    assert_eq!(named, [("cyclic-layers 1", 3), ("cyclic-layers 2", 3), ("late", 1)]);
    assert_eq!(workload.processes(), [0, 1, 2]);
    let mut late = workload.kernels.iter().filter(|kernel| kernel.process == 2);
    assert!(late.all(|kernel| kernel.not_before_ns == 2_000_000));
    assert_eq!(clients[2].start, 2_000_000);
}

#[test]
fn a_process_may_be_a_client_that_exists_and_draw_its_submissions() {
    let scenario = parse(
        r#"
        [[process]]
        client = "sync-point-lru"
        submissions = 300
        allocations = 40
        largest = "64 KiB"
        [[process]]
        name = "layer"
        client = "mixed"
        lifetimes = "ignore"
        submissions = 300
        "#,
    );
    let [engine, layer] = &scenario.processes[..] else { panic!("two tables") };
    assert_eq!(
        (engine.behaviour.client, layer.behaviour.client),
        (Some(ClientKind::SyncPointLru), Some(ClientKind::Mixed))
    );
    let source = SubmissionsSource { submissions: 300, allocations: 40, largest: ByteSize(64 << 10) };
    assert!(matches!(engine.source, WorkloadSource::Submissions(read) if read == source));
    let Processes { workload, clients } = scenario.load(Path::new("")).expect("it is drawn");
    let named: Vec<_> = clients.iter().map(|client| (client.name.as_str(), client.residency)).collect();
    let modelled = ResidencyPolicy::Modelled;
    let expected = [("sync-point-lru", modelled(ClientKind::SyncPointLru)), ("layer", modelled(ClientKind::Mixed))];
    assert_eq!(named, expected);
    // The defaults are 96 allocations of up to 256 KiB.
    let (first, second) = workload.buffers.split_at(40);
    let largest = |buffers: &[Buffer]| buffers.iter().map(|buffer| buffer.bytes).max();
    assert_eq!((workload.kernels.len(), second.len()), (600, 96));
    assert!(
        largest(first) <= Some(64 << 10) && largest(second) > Some(128 << 10) && largest(second) <= Some(256 << 10)
    );
}

#[test]
fn the_names_of_clients_are_those_that_scenarios_use() {
    for client in ["sync-point-lru", "mixed", "mixed-fixed", "controller"] {
        let scenario = parse(&format!("[[process]]\nclient = \"{client}\"\nsubmissions = 1"));
        assert_eq!(scenario.processes[0].behaviour.client.map(ClientKind::name), Some(client));
    }
}

#[test]
fn clients_and_submissions_that_are_wrong_show_the_line() {
    let drawn = "[[process]]\nsubmissions = 10";
    refused(&format!("{drawn}\nclient = \"dawn\""), &["line 3", "`dawn`", "`sync-point-lru`", "`mixed-fixed`"]);
    refused(
        &format!("{drawn}\nclient = \"mixed\"\nresidency = \"kept\""),
        &["line 4", "`client`", "`residency`", "keep one of them"],
    );
    refused("[[process]]\nclient = \"mixed\"", &["line 1", "how many `submissions`"]);
    refused(&format!("{drawn}\nkind = \"cyclic-layers\""), &["line 1", "`kind`", "`submissions`", "keep one of them"]);
    refused(&format!("{drawn}\ntrace = \"x\""), &["line 1", "`trace`", "`submissions`", "keep one of them"]);
    refused("[[process]]\nsubmissions = 0", &["line 2", "from 1 to 1000000"]);
    refused(&format!("{drawn}\nallocations = 0"), &["line 3", "from 1 to 100000"]);
    refused(&format!("{drawn}\nlargest = \"1 KiB\""), &["line 3", "4 KiB", "1.0 GiB", "`256 KiB`"]);
    refused(&format!("{drawn}\nsmallest = 1"), &["line 3", "unknown field `smallest`", "`largest`"]);
    refused("[client]\nclient = \"mixed\"", &["line 2", "unknown field `client`"]);
}

#[test]
fn a_script_is_read_and_names_processes_that_are_there() {
    let process = "[[process]]\nname = \"A\"\nkind = \"cyclic-layers\"\nlayers = 2\npasses = 1\n";
    let scenario = parse(&format!(
        "end = \"9 s\"\n{process}[[change]]\nat = \"1 s\"\nprocess = \"A\"\nvisibility = \"minimized\"\ntrim = true\n\
         [table]\nevery = \"500 ms\"\nprocesses = [\"A\"]\n[[check]]\nthat = \"useful\"\nat-least = 70\n\
         [[check]]\nthat = \"brought-back\"\nprocess = \"A\"\naway = \"2 s\"\nback = \"3 s\"\n\
         [compare]\nresidency = \"evicted-at-once\""
    ));
    let [change] = &scenario.script.changes[..] else { panic!("one change") };
    assert_eq!((change.at.ns, change.visibility, change.band), (1_000_000_000, Some(Visibility::Minimized), None));
    assert!(change.trim && !change.exit);
    let (away, back) = (Duration { ns: 2_000_000_000 }, Duration { ns: 3_000_000_000 });
    let checks = [Check::Useful { at_least: 70.0 }, Check::BroughtBack { process: "A".to_owned(), away, back }];
    assert_eq!(scenario.script.checks, checks);
    scenario.load(Path::new("")).expect("A is there");
    let stranger = parse(&format!("{process}[[change]]\nat = \"1 s\"\nprocess = \"B\"\nexit = true"));
    let error = stranger.load(Path::new("")).expect_err("B is not").to_string();
    assert!(error.contains("no process `B`"), "{error}");
}

#[test]
fn wrong_processes_and_scripts_show_the_line() {
    let layers = "kind = \"cyclic-layers\"";
    refused(&format!("[workload]\n{layers}\n[[process]]\n{layers}"), &["line 3", "keep one of them"]);
    refused("[[process]]\nstart = \"3 s\"", &["line 1", "no `kind`, no `trace` and no `submissions`"]);
    refused(&format!("[[process]]\n{layers}\nlayer = 3"), &["line 3", "unknown field `layer`"]);
    refused(&format!("[[process]]\n{layers}\nstart = \"soon\""), &["line 3", "`soon` is no time", "`20 ms`"]);
    refused(&format!("[[process]]\n{layers}\nstart = \"1.5 s\""), &["line 3", "is no time", "whole number"]);
    refused(&format!("[[process]]\n{layers}\nstart = \"3601 s\""), &["line 3", "to `3600 s`"]);
    refused(&format!("[[process]]\n{layers}\nstart = 5"), &["line 3", "integer `5`", "a time with its unit"]);
    refused(&format!("[[process]]\n{layers}\ncount = 0"), &["line 3", "from 1 to 1000"]);
    refused(&format!("[[process]]\n{layers}\nband = \"high\""), &["line 3", "`focus`"]);
    refused(&format!("[process]\n{layers}"), &["line 1", "`[[process]]`"]);
    refused("[[change]]\nat = \"3 s\"", &["line 1", "`process`"]);
    refused("[table]\nevery = \"5 us\"\nprocesses = []", &["line 2", "at least `1 ms`"]);
    refused("[[check]]\nthat = \"nothing\"", &["`foreground-keeps`"]);
}

#[test]
fn toml_errors_show_the_line() {
    refused("seed = 1\nahead =", &["line 2", "ahead ="]);
    refused("seed = 1\nseed = 2", &["line 2", "`seed` is given twice"]);
    refused("[client]\nahed = 3", &["line 2", "unknown field `ahed`", "`ahead`"]);
    refused("[clients]\n", &["line 1", "unknown field `clients`", "`client`"]);
    refused("\n\n[adapter]\ndual-pte = \"yes\"", &["line 4", "dual-pte", "boolean"]);
    refused("adapter = 3", &["line 1", "a table"]);
    refused("[adapter]\npage-tables = \"both\"", &["line 2", "`local` or `system`"]);
    refused("[adapter]\nupdate-mode = \"cpu\"", &["line 2", "`cpu-virtual`, `gpu-virtual`, `gpu-physical`"]);
    let by_cpu = parse("[adapter]\nupdate-mode = \"cpu-virtual\"").adapter;
    assert_eq!(by_cpu.page_tables(), PageTables::System, "the CPU writes none in local memory");
    refused("[client]\n\ncontent = \"noise\"", &["line 3", "`uniform` or `ramp`"]);
    refused("name = \"\"", &["line 1", "1 to 100 characters"]);
    refused("name = \"two\\nlines\"", &["one line"]);
}

#[test]
fn workload_errors_show_the_line() {
    let table = "seed = 1\n[workload]\n";
    refused(
        &format!("{table}kind = \"zipf-textures\"\nlayers = 3"),
        &["line 4", "unknown field `layers`", "`textures`"],
    );
    refused(&format!("{table}layers = \"many\"\nkind = \"cyclic-layers\""), &["line 3", "many", "u32"]);
    refused(&format!("{table}layers = -1\nkind = \"cyclic-layers\""), &["line 3", "-1"]);
    refused(&format!("{table}kind = \"training\""), &["line 3", "`transformer-training`", "`zipf-textures`"]);
    refused(&format!("{table}kind = 7"), &["line 3"]);
    refused(&format!("{table}trace = 7"), &["line 3", "string"]);
    refused(&format!("{table}trace = \"x\"\nlayers = 1"), &["line 4", "unknown field `layers`", "`block-bytes`"]);
    refused(&format!("{table}trace = \"x\"\nblock-bytes = 0"), &["line 4", "2 MiB"]);
    refused(&format!("{table}trace = \"x\"\nkind = \"llm-serving\""), &["line 2", "keep one of them"]);
    refused(table, &["line 2", "no `kind`, no `trace` and no `submissions`"]);
    refused("\nworkload = 3", &["line 2", "no `kind`, no `trace` and no `submissions`"]);
    refused("\n[[workload]]\nkind = \"llm-serving\"", &["line 2", "`[[workload]]` is a list", "keep one of them"]);
}

#[test]
fn values_out_of_range_are_refused_with_the_range() {
    refused("seed = -1", &["line 1", "from 0 to"]);
    refused("[client]\nahead = -1", &["line 2", "from 0 to 1024"]);
    refused("[client]\nahead = 1025", &["line 2", "from 0 to 1024"]);
    refused("[client]\nahead = -99999999999999999999999999", &["line 2"]);
    refused("[client]\nahead = 99999999999999999999999999999999999999999999", &["line 2"]);
    refused("[client]\nscale = 0", &["line 2", "from 1 to"]);
    refused("[client]\nscale = 1.5", &["line 2"]);
    for key in ["bus-gb-per-s", "local-gb-per-s"] {
        for value in ["0", "-25", "nan", "inf", "-inf", "1e300", "1e-9", "99999999999999999999"] {
            refused(&format!("[cost]\n{key} = {value}"), &["line 2"]);
        }
        refused(&format!("[cost]\n{key} = 0.0"), &["a bandwidth of 0 GB/s", "from 0.001 to 1000000"]);
    }
    for memory in ["-5", "\"0%\"", "\"-3 GiB\"", "\"100001%\"", "\"half\"", "\"5GB\"", "1.5", "true"] {
        refused(&format!("[adapter]\nlocal-memory = {memory}"), &["line 2"]);
    }
    refused("[adapter]\npage-size = \"2 MiB\"", &["line 2", "`4 KiB` or `64 KiB`"]);
    for buffer in ["0", "\"1 KiB\"", "\"5000\"", "\"65 MiB\"", "\"16777215TiB\""] {
        refused(&format!("[adapter]\npaging-buffer = {buffer}"), &["line 2", "from 4 KiB to 64 MiB"]);
    }
    for answer in ["1048577", "-1", "\"64 MiB\"", "true"] {
        refused(&format!("[adapter]\npaging-va-mib = {answer}"), &["line 2", "`fails`"]);
    }
    for limit in ["0", "\"0%\"", "\"half\"", "-1"] {
        refused(&format!("[adapter]\naperture-commit-limit = {limit}"), &["line 2", "`50%`", "`512 MiB`"]);
    }
    for size in ["4095", "\"6 KiB\"", "\"2 TiB\""] {
        refused(&format!("[adapter]\naperture = {size}"), &["line 2", "a multiple of 4 KiB"]);
        refused(&format!("[adapter]\nmax-command = {size}"), &["line 2", "a multiple of 4 KiB"]);
    }
    refused("[adapter]\nmax-command = 0", &["line 2", "a multiple of 4 KiB"]);
    refused("[adapter]\nbusy-notify-every = 0", &["line 2", "from 1 to"]);
}

#[test]
fn page_tables_that_cannot_be_are_refused() {
    let bits = |bits: &str, more: &str| format!("seed = 1\n[adapter]\npage-table-bits = {bits}\n{more}");
    refused(&bits("[]", ""), &["line 2", "0 levels", "1 to 5"]);
    refused(&bits("[9, 9, 9, 2, 2, 2]", ""), &["6 levels"]);
    refused(&bits("[13, 0]", ""), &["level 1 0 bits", "1 to 20"]);
    refused(&bits("[3, 20]", ""), &["level 0 3 bits", "4 to 20"]);
    refused(&bits("[13, 21]", ""), &["level 1 21 bits"]);
    refused(&bits("[4294967295, 4294967295]", ""), &["level 0"]);
    refused(&bits("[4294967296]", ""), &["line 3"]);
    refused(&bits("[-1]", ""), &["line 3"]);
    refused(&bits("[13]", ""), &["leaves the root 22 of the 47 bits"]);
    refused(&bits("[15, 20]", ""), &["leaves the root 0 of the 47 bits"]);
    refused(&bits("[20, 20, 20, 20, 20]", ""), &["leaves the root -65 of the 47 bits"]);
    refused(&bits("[13, 10]", "page-tables = \"system\""), &["level 0 13 bits", "is 9 bits there"]);
    refused(&bits("[9, 9, 9]", "page-tables = \"system\""), &["level 1 9 bits", "is 8 bits there"]);
    refused(&bits("[9, 8, 8]", "page-tables = \"system\""), &["level 3 10 bits"]);
    refused(&bits("[14, 9]", ""), &["level 0 14 bits", "is 13 bits there"]);
    refused(&bits("[12, 13]", ""), &["level 1 13 bits", "is 12 bits there"]);
    parse(&bits("[3, 12, 12]", "dual-pte = false"));
    parse(&bits("[9, 8, 9]", "page-tables = \"system\""));
}

#[test]
fn the_default_page_tables_of_every_machine_can_be() {
    for size in ["4 KiB", "64 KiB"] {
        for tables in ["local", "system"] {
            for dual in ["", "dual-pte = true", "dual-pte = false"] {
                let text = format!("[adapter]\npage-size = \"{size}\"\npage-tables = \"{tables}\"\n{dual}");
                let adapter = parse(&text).adapter;
                let bits = match (size, tables, adapter.dual_pte()) {
                    ("64 KiB", "local", _) => vec![13, 10],
                    (_, _, true) => vec![9, 8, 8, 5],
                    (_, _, false) => vec![9, 9, 9],
                };
                assert_eq!(adapter.page_table_bits(), bits, "{text}");
                assert!(!dual.is_empty() || adapter.dual_pte() == (size == "64 KiB"), "{text}");
            }
        }
    }
}

#[test]
fn faults_are_read_and_written() {
    for (text, kind, when) in [
        ("flip-bit-in-transfer", FaultKind::FlipBitInTransfer, When::Always),
        ("flip-bit-in-transfer@100", FaultKind::FlipBitInTransfer, When::Nth(100)),
        ("skip-tlb-flush@1", FaultKind::Driver(DriverFault::SkipTlbFlush), When::Nth(1)),
        ("drop-page-out@18446744073709551615", FaultKind::Driver(DriverFault::DropPageOut), When::Nth(u64::MAX)),
        ("skip-decompression", FaultKind::Driver(DriverFault::SkipDecompression), When::Always),
        ("ignore-chunk-offset@2", FaultKind::Driver(DriverFault::IgnoreChunkOffset), When::Nth(2)),
        ("late-notification", FaultKind::Driver(DriverFault::LateNotification), When::Always),
        ("early-io-mmu-unmap", FaultKind::Driver(DriverFault::EarlyIoMmuUnmap), When::Always),
        ("skip-cache-flush", FaultKind::Driver(DriverFault::SkipCacheFlush), When::Always),
        ("reuse-paging-va", FaultKind::Driver(DriverFault::ReusePagingVa), When::Always),
        ("skip-patch", FaultKind::Driver(DriverFault::SkipPatch), When::Always),
        ("hang-packet@4", FaultKind::HangPacket, When::Nth(4)),
        ("hang-paging-buffer", FaultKind::HangPagingBuffer, When::Always),
        ("forge-page-fault", FaultKind::ForgePageFault, When::Always),
        ("forge-paging-fault@1", FaultKind::ForgePagingFault, When::Nth(1)),
        ("lie-about-engine-reset", FaultKind::LieAboutEngineReset, When::Always),
        ("swap-interrupts@3", FaultKind::Gpu(GpuFault::SwapInterrupts), When::Nth(3)),
        ("lose-interrupt@1/50", FaultKind::Gpu(GpuFault::LoseInterrupt), When::OneIn(50)),
        ("fail-commit@1/1", FaultKind::FailCommit, When::OneIn(1)),
        ("require-no-reset", FaultKind::Interrupt(InterruptFault::RequireNoReset), When::Always),
    ] {
        let fault = Fault { kind, when };
        assert_eq!(text.parse(), Ok(fault));
        assert_eq!(fault.to_string(), text);
    }
}

#[test]
fn every_misbehaviour_of_a_gpu_and_of_its_reports_is_a_fault() {
    for fault in GpuFault::ALL.map(FaultKind::Gpu).into_iter().chain(InterruptFault::ALL.map(FaultKind::Interrupt)) {
        assert_eq!(fault.name().parse(), Ok(Fault { kind: fault, when: When::Always }));
    }
}

#[test]
fn unknown_faults_are_refused_with_the_names() {
    for text in ["", "@", "@3", "Skip-TLB-flush", "skip-tlb-flush ", "hang"] {
        assert_eq!(text.parse::<Fault>(), Err(FaultError::Unknown(text.to_owned())));
    }
    for text in [
        "drop-page-out@",
        "drop-page-out@0",
        "drop-page-out@-1",
        "drop-page-out@1@2",
        "drop-page-out@1e3",
        "drop-page-out@1/0",
        "drop-page-out@2/3",
        "drop-page-out@1/",
    ] {
        assert_eq!(text.parse::<Fault>(), Err(FaultError::When(text.to_owned())));
    }
    let error = refusal("faults = [\"skip-tlb-flush\", \"hang\"]");
    for name in FaultKind::all().map(FaultKind::name) {
        assert!(error.contains("line 1") && error.contains(&format!("`{name}`")), "no `{name}` in: {error}");
    }
    refused("faults = [\"drop-page-out@0\"]", &["line 1", "from 1", "`skip-tlb-flush@3`"]);
    refused("faults = [\"drop-page-out@1\", \"drop-page-out@2\"]", &["line 1", "`drop-page-out` is named twice"]);
    refused("faults = \"drop-page-out\"", &["line 1", "sequence"]);
}

#[test]
fn files_that_cannot_be_read_are_refused() {
    let missing = load(Path::new("no/such.toml"));
    assert!(matches!(missing, Err(ScenarioError::Unreadable { .. })), "{missing:?}");
    assert!(matches!(load(&scenarios()), Err(ScenarioError::Unreadable { .. })));
    let folder = std::env::temp_dir().join(format!("vidmm-sim-scenario-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder");
    let (binary, long) = (folder.join("binary.toml"), folder.join("long.toml"));
    std::fs::write(&binary, [0xff, 0xfe, 0x00]).expect("a file");
    std::fs::write(&long, vec![b'\n'; (16 << 20) + 1]).expect("a file");
    let (binary, long) = (load(&binary), load(&long));
    std::fs::remove_dir_all(&folder).expect("the folder can go");
    assert!(binary.is_err_and(|error| error.to_string().contains("binary.toml")));
    assert!(matches!(long, Err(ScenarioError::TooLong { .. })), "{long:?}");
}

#[test]
fn workloads_are_scaled() {
    let whole = workload(&parse("workload.kind = \"cyclic-layers\""));
    let small = workload(&parse("client.scale = 1024\nworkload.kind = \"cyclic-layers\""));
    assert_eq!(whole.kernels, small.kernels);
    assert!(whole.buffers.iter().zip(&small.buffers).all(|(whole, small)| whole.bytes == 1024 * small.bytes));
    let odd = workload(&parse("[workload]\nkind = \"cyclic-layers\"\nlayer-bytes = \"5000\""));
    assert!(odd.buffers.iter().any(|buffer| buffer.bytes == 5000), "a scale of 1 keeps sizes exact");
}

#[test]
fn traces_start_at_the_scenario_s_folder() {
    let folder = std::env::temp_dir().join(format!("vidmm-sim-trace-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder");
    std::fs::write(folder.join("tiny.txt"), "10 | 0:1:4096 | 1:0:8192\n").expect("a file");
    let scenario = parse("workload.trace = \"tiny.txt\"");
    let (found, missing) = (scenario.load(&folder), scenario.load(&folder.join("elsewhere")));
    std::fs::remove_dir_all(&folder).expect("the folder can go");
    assert_eq!(found.expect("it imports").workload.buffers.len(), 2);
    let missing = missing.expect_err("there is none").to_string();
    assert!(missing.contains("tiny.txt") && missing.contains("check the path"), "{missing}");
}

#[test]
fn generator_parameters_out_of_range_are_refused() {
    for text in ["layers = 0", "layers = 4294967295", "hidden = 1000000\nsequence = 10000000\nbatch = 1000000"] {
        let scenario = parse(&format!("[workload]\nkind = \"transformer-training\"\n{text}"));
        let error = scenario.load(Path::new("")).expect_err("it is refused");
        assert!(matches!(error, ScenarioError::Workload(_)), "{error}");
    }
}

#[test]
fn local_memory_is_a_size_or_a_share_of_the_peak() {
    const MIB: u64 = 1 << 20;
    let local = |memory: &str, scale: u64| {
        let text =
            format!("client.scale = {scale}\nadapter.local-memory = {memory}\nworkload.kind = \"cyclic-layers\"");
        let scenario = parse(&text);
        scenario.local_memory_bytes(&workload(&scenario))
    };
    // 24 layers of 128 MiB and 4 hot buffers of 16 MiB, of which a kernel uses 192 MiB at once.
    assert_eq!(local("\"50%\"", 1).expect("it fits"), 1568 * MIB);
    assert_eq!(local("\"50.01%\"", 1).expect("it fits"), 1570 * MIB);
    assert_eq!(local("\"100%\"", 1).expect("it fits"), 3136 * MIB);
    assert_eq!(local("\"193 MiB\"", 1).expect("it fits"), 194 * MIB);
    assert_eq!(local("201326592", 1).expect("it fits"), 192 * MIB);
    assert_eq!(local("1", 1024).expect("it fits"), 2 * MIB);
    let small = local("\"190 MiB\"", 1).expect_err("a kernel needs more").to_string();
    assert!(small.contains("190 MiB") && small.contains("192 MiB") && small.contains("`local-memory`"), "{small}");
    assert!(matches!(local("\"0.01%\"", 1), Err(ScenarioError::LocalMemoryTooSmall { .. })));
    for memory in ["\"1025 GiB\"", "\"16777215TiB\"", "9223372036854775807", "\"18446744073709551615\""] {
        let large = local(memory, 1).expect_err("it is too large").to_string();
        assert!(large.contains("1.0 TiB"), "{large}");
    }
}

#[test]
fn a_machine_may_have_no_local_memory() {
    for text in [
        "adapter.local-memory = 0",
        "adapter.local-memory = \"0\"",
        "adapter.local-memory = \"0 MiB\"",
        "adapter.addressing-model = \"gpu-va-io-mmu\"",
        "adapter.addressing-model = \"gpu-va-io-mmu-global\"",
    ] {
        let scenario = parse(text);
        assert_eq!(scenario.local_memory_bytes(&workload(&scenario)).expect("it is none"), 0, "{text}");
        assert_eq!(
            (scenario.segments(), scenario.adapter.page_tables()),
            (AllocationSegments::System, PageTables::System)
        );
        let local = parse(&format!("{text}\nclient.segments = \"local\""));
        let error = local.local_memory_bytes(&workload(&local)).expect_err("the buffers have no place").to_string();
        assert!(error.contains("no local memory") && error.contains("`segments = \"system\"`"), "{error}");
    }
    refused("[adapter]\nlocal-memory = 0\npage-tables = \"local\"", &["line 1", "no local memory", "`page-tables`"]);
    let model = "addressing-model = \"gpu-va-io-mmu\"";
    refused(&format!("[adapter]\n{model}\nlocal-memory = \"1 GiB\""), &["line 1", "IOMMU", "leave `local-memory` out"]);
    refused("[adapter]\naddressing-model = \"iommu\"", &["line 2", "`gpu-mmu`", "`gpu-va-io-mmu-global`"]);
}

#[test]
fn system_memory_is_limited_by_the_commit_limit_and_the_aperture() {
    const MIB: u64 = 1 << 20;
    let sizes = |keys: &str| {
        let scenario = parse(&format!("workload.kind = \"cyclic-layers\"\nadapter.local-memory = 0\n{keys}"));
        let workload = workload(&scenario);
        let limit = scenario.aperture_commit_limit_bytes(&workload)?;
        Ok::<_, ScenarioError>((limit, scenario.aperture_bytes(&workload)?))
    };
    // 24 layers of 128 MiB and 4 hot buffers of 16 MiB, of which a kernel uses 192 MiB at once.
    assert_eq!(sizes("").expect("all fits"), (None, 3136 * MIB));
    let half = "adapter.aperture-commit-limit = \"50%\"";
    assert_eq!(sizes(half).expect("half fits"), (Some(1568 * MIB), 1568 * MIB));
    let both = format!("{half}\nadapter.aperture = \"512 MiB\"");
    assert_eq!(sizes(&both).expect("it fits"), (Some(1568 * MIB), 512 * MIB));
    let error = sizes("adapter.aperture-commit-limit = \"190 MiB\"").expect_err("a kernel needs more").to_string();
    assert!(
        error.contains("190 MiB") && error.contains("192 MiB") && error.contains("`aperture-commit-limit`"),
        "{error}"
    );
}

#[test]
fn a_share_that_overflows_is_refused() {
    let workload_keys = "kind = \"cyclic-layers\"\nlayers = 100000\nlayer-bytes = \"1TiB\"";
    let scenario = parse(&format!("adapter.local-memory = \"100000%\"\n[workload]\n{workload_keys}"));
    let local = scenario.local_memory_bytes(&workload(&scenario));
    assert!(matches!(local, Err(ScenarioError::LocalMemoryTooLarge { .. })), "{local:?}");
}

#[test]
fn deep_and_long_files_are_refused_without_panic() {
    refused(&format!("x = {}1", "[".repeat(100_000)), &[]);
    refused(&format!("x{} = 1", ".x".repeat(100_000)), &[]);
    refused(&format!("[{}]", "x.".repeat(100_000)), &[]);
    refused(&format!("name = \"{}\"", "x".repeat(1_000_000)), &["1 to 100 characters"]);
}

/// Any text that is nearly a scenario.
fn nearly_a_scenario() -> impl Strategy<Value = String> {
    let key = prop_oneof![
        Just("seed"),
        Just("name"),
        Just("faults"),
        Just("adapter"),
        Just("adapter.local-memory"),
        Just("adapter.page-size"),
        Just("adapter.page-table-bits"),
        Just("adapter.page-tables"),
        Just("adapter.paging-buffer"),
        Just("client"),
        Just("client.ahead"),
        Just("client.scale"),
        Just("cost.bus-gb-per-s"),
        Just("workload"),
        Just("workload.kind"),
        Just("workload.trace"),
        Just("workload.layers"),
        Just("workload.block-bytes"),
        Just("[workload]\nkind"),
        Just("adapter.addressing-model"),
        Just("adapter.paging-va-mib"),
        Just("adapter.linked-adapters"),
        Just("client.notify"),
        Just("[[process]]\nkind"),
        Just("process"),
        Just("[[change]]\nat"),
        Just("[[check]]\nthat"),
        Just("end"),
        Just("table.every"),
        Just("compare.lifetimes"),
        Just("step"),
        Just("[[step]]\nmake-resident"),
        Just("[[step]]\ncreate-allocation"),
        Just("[[step]]\nexpect"),
    ];
    let value = prop_oneof![
        any::<i64>().prop_map(|number| number.to_string()),
        any::<f64>().prop_map(|number| format!("{number:?}")),
        any::<Vec<i32>>().prop_map(|list| format!("{list:?}")),
        "[ -~\n]{0,12}".prop_map(|text| format!("{text:?}")),
        "\\PC{0,12}",
        Just("\"cyclic-layers\"".to_owned()),
        Just("\"64 KiB\"".to_owned()),
        Just("{ kind = \"llm-serving\", batch = 1 }".to_owned()),
        Just("{ kind = \"llm-serving\", trace = \"x\" }".to_owned()),
        Just("1979-05-27".to_owned()),
        Just("\"A\"\nsize = 4096".to_owned()),
        Just("[\"A\", \"A\"]".to_owned()),
        Just("[{ wait = \"idle\" }]".to_owned()),
    ];
    proptest::collection::vec((key, value), 0..4)
        .prop_map(|lines| lines.into_iter().map(|(key, value)| format!("{key} = {value}\n")).collect())
}

fn whens() -> impl Strategy<Value = When> {
    prop_oneof![Just(When::Always), (1_u64..).prop_map(When::Nth), (1_u64..).prop_map(When::OneIn)]
}

proptest! {
    #[test]
    fn any_text_is_read_or_refused(text in nearly_a_scenario()) {
        if let Err(error) = ScenarioFile::parse(&text, Path::new("any.toml")) {
            prop_assert!(error.to_string().starts_with("any.toml"));
        }
    }

    #[test]
    fn any_characters_are_read_or_refused(text in "\\PC*") {
        if let Err(error) = ScenarioFile::parse(&text, Path::new("any.toml")) {
            prop_assert!(error.to_string().starts_with("any.toml"));
        }
    }

    #[test]
    fn faults_read_what_they_write(kind in 0..FaultKind::all().count(), when in whens()) {
        let kind = FaultKind::all().nth(kind).expect("there are so many");
        let fault = Fault { kind, when };
        prop_assert_eq!(fault.to_string().parse(), Ok(fault));
    }
}

#[test]
fn time_limits_of_hangs_are_the_managers_unless_a_scenario_says_otherwise() {
    let tdr = |text: &str| TdrOptions::from(parse(text).adapter.tdr);
    assert_eq!(tdr(""), TdrOptions::default());
    let changed = tdr("[adapter.tdr]\nquantum = \"20 ms\"\nddi-delay = \"1 s\"\nlimit-count = 2");
    let expected =
        TdrOptions { quantum: 20_000_000, ddi_delay: 1_000_000_000, limit_count: 2, ..TdrOptions::default() };
    assert_eq!(changed, expected);
}

#[test]
fn processes_say_what_they_do_wrong_and_whether_they_recover() {
    let text = "[[process]]\nkind = \"cyclic-layers\"\nrecovers = true\n\
                [[process]]\nkind = \"cyclic-layers\"\nmisbehaves = \"hang\"\nevery = \"3 s\"\n";
    let clients = parse(text).load(&scenarios()).expect("the workloads are small").clients;
    let misbehaviour = Misbehaviour { misdeed: Misdeed::Hang, every: 3_000_000_000 };
    let behaviour: Vec<_> = clients.iter().map(|client| (client.recovers, client.misbehaviour)).collect();
    assert_eq!(behaviour, [(true, None), (false, Some(misbehaviour))]);
}

#[test]
fn an_adapter_may_have_several_segments_of_a_kind_or_no_aperture() {
    let wrong = [
        ("aperture = 0\nlocal-memory = 0", "leave `aperture` out"),
        ("more-memory = [{ size = \"64 KiB\" }]\nlocal-memory = 0", "leave `more-memory` out"),
        ("more-memory = [{ size = \"4 KiB\" }]", "64 KiB"),
        ("wddm = \"1.3\"", "2.0"),
        ("more-apertures = [{ size = \"4 KiB\" }]", "leave `more-apertures` out"),
        (
            "addressing-model = \"physical\"\nwddm = \"1.3\"\naperture = 0\nmore-apertures = [{ size = \"4 KiB\" }]",
            "first",
        ),
    ];
    for (adapter, words) in wrong {
        refused(&format!("[adapter]\n{adapter}"), &[words]);
    }
    assert_eq!(parse("[adapter]\naperture = 0").adapter.aperture, Some(ByteSize(0)));
    let more = parse("[adapter]\nmore-memory = [{ size = \"64 KiB\", cpu-visible = true }]").adapter.more_memory;
    assert_eq!((more.len(), more[0].size, more[0].cpu_visible), (1, ByteSize::kib(64), true));
}
