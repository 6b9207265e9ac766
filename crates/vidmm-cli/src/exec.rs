//! `vidmm exec`: an unmodified program, whose user-mode driver calls D3DKMT, or which uses Vulkan.

use std::{
    collections::BTreeMap,
    env,
    error::Error,
    ffi::OsString,
    fs,
    io::{self, BufRead, Write},
    path::{Path, PathBuf},
    process::Command,
};

use VkLayer_vidmm::{Mode, ResidencySettings};
use clap::ValueHint;
use vidmm::policy::PolicyChoice;
use vidmm_kmt::{Fault, Finding, Neighbour, Played, SETTINGS_VARIABLE, Settings, of_process};
use vidmm_trace::{ByteSize, LogHeader, LogWriter};

use crate::{
    layer,
    report::unless_closed,
    residency,
    style::{BAD, GOOD, counted},
};

/// The library, as a build leaves it.
const LIBRARY: &str = "libvidmm_kmt.so";

/// The first bytes of a log of calls.
const LOG_BEGIN: &[u8] = b"{\"vidmm_calls\"";

/// Run an unmodified program: under a layer of Vulkan for paging or for watching, or on the manager instead of a GPU
///
/// Without `--kmt` and `--trace` a layer of Vulkan gives the program a device-local heap in system memory, and brings ranges into local
/// memory for each submission; docs/explanation/layer.md has the design and the limits.
/// With `--kmt` the loader gives the program's driver a library of vidmm's for `libdxcore.so`. Kernels do nothing, so results are wrong;
/// memory management is the manager's, and each call is judged. docs/guides/d3dkmt.md has the steps for Debian's Intel compute runtime.
/// With `--trace` the program runs as always, and a layer of Vulkan writes what the program does with memory; docs/guides/traces.md has
/// the format.
#[derive(clap::Args)]
#[command(
    group(clap::ArgGroup::new("how").args(["kmt", "trace"])),
    after_help = "Examples:\n  vidmm exec --local-memory 1GiB -- ./program\n  vidmm exec --trace out.vt -- ./program\n  vidmm exec --kmt -- clinfo\n  vidmm exec --kmt --local-memory 256MiB --calls calls.jsonl -- ./program\n\nExit status: 0 no rule was broken and the program ended well, 1 otherwise, 2 the arguments are wrong"
)]
pub struct ExecArgs {
    /// Stand in for `libdxcore.so`
    #[arg(long)]
    pub kmt: bool,

    /// Watch what the program does with memory through Vulkan, and write a trace for `vidmm replay` and `vidmm run --trace`
    #[arg(long, value_name = "FILE.vt", value_hint = ValueHint::FilePath)]
    pub trace: Option<PathBuf>,

    /// Local memory [default: 8 GiB with `--kmt`, otherwise half of what the Vulkan device has]
    #[arg(long, conflicts_with = "trace", value_name = "SIZE")]
    pub local_memory: Option<ByteSize>,

    /// The device-local heap that a Vulkan program sees [default: half of system memory in mode a, local memory in mode b]
    #[arg(long, conflicts_with = "how", value_name = "SIZE")]
    pub heap: Option<ByteSize>,

    /// The policy of eviction for a Vulkan program, one of the manager's own
    #[arg(long, conflicts_with = "how", value_name = "POLICY", default_value_t = PolicyChoice::PREDICT)]
    pub policy: PolicyChoice,

    /// Ranges outside of local memory: `a`, bound to system memory: a missed use is slow and right; `b`, bound to nothing [default: `a` if
    /// the device can, otherwise `b`]
    #[arg(long, conflicts_with = "how", value_name = "a|b", value_parser = mode)]
    pub mode: Option<Mode>,

    /// Another user of the manager: a scenario whose processes play, or the local memory that a process keeps in use
    #[arg(long, requires = "kmt", value_name = "SCENARIO|SIZE", value_parser = neighbour, value_hint = ValueHint::FilePath)]
    pub neighbour: Option<Neighbour>,

    /// The seed that faults are drawn from
    #[arg(long, requires = "kmt", value_name = "N", default_value_t = 0)]
    pub seed: u64,

    /// The faults of the system: `refuse`, `refuse-final`, `pending`, `at-once`, `late`, `trim`, `suspend`, `hang` or `page-fault`, each
    /// with `@N` for the N-th time, or `@1/N` for one time in N
    #[arg(long, requires = "kmt", value_name = "FAULT,..", value_delimiter = ',')]
    pub faults: Vec<Fault>,

    /// Let budgets be for no more local memory than this, so that a program above it is asked to trim
    #[arg(long, requires = "kmt", value_name = "SIZE")]
    pub budget: Option<ByteSize>,

    /// The PCI device id that the driver sees: `56a0` has local memory, `9a49` has none
    #[arg(long, requires = "kmt", value_name = "HEX", default_value = "56a0", value_parser = hex)]
    pub device_id: u32,

    /// Write the calls to this file; `vidmm replay FILE` repeats them without the program
    #[arg(long, requires = "kmt", value_name = "FILE.jsonl", value_hint = ValueHint::FilePath)]
    pub calls: Option<PathBuf>,

    /// Write the manager's events to this file, for `vidmm explain`, `vidmm report` and `vidmm export`
    #[arg(long, conflicts_with = "trace", value_name = "FILE.jsonl", value_hint = ValueHint::FilePath)]
    pub events: Option<PathBuf>,

    /// The program and its arguments
    #[arg(value_name = "PROGRAM", required = true, last = true, value_hint = ValueHint::CommandWithArguments)]
    pub program: Vec<OsString>,
}

/// A size, or the scenario in a file.
fn neighbour(text: &str) -> Result<Neighbour, String> {
    if let Ok(size) = text.parse::<ByteSize>() {
        return Ok(Neighbour::Size(size.bytes()));
    }
    let content = fs::read_to_string(text).map_err(|error| format!("no size, and no scenario: {error}"))?;
    Ok(Neighbour::Scenario { name: text.to_owned(), text: content })
}

fn mode(text: &str) -> Result<Mode, String> {
    match text {
        "a" => Ok(Mode::BindsHome),
        "b" => Ok(Mode::BindsNothing),
        _ => Err("expected `a` or `b`".to_owned()),
    }
}

fn hex(text: &str) -> Result<u32, String> {
    let digits = text.strip_prefix("0x").unwrap_or(text);
    u32::from_str_radix(digits, 16).map_err(|error| error.to_string())
}

/// Runs the program, and repeats its calls if there are any to judge. Returns whether no rule was broken and the program ended well.
pub fn run(args: &ExecArgs) -> Result<bool, Box<dyn Error>> {
    if let Some(trace) = &args.trace {
        return layer::watch(trace, &args.program);
    }
    if !args.kmt {
        let here = env::current_dir()?;
        let settings = ResidencySettings {
            local: args.local_memory.map(ByteSize::bytes),
            heap: args.heap.map(ByteSize::bytes),
            mode: args.mode,
            policy: args.policy,
            events: args.events.as_ref().map(|path| here.join(path)),
            figures: None,
        };
        return residency::page(settings, &args.program);
    }
    let library = layer::library(LIBRARY, "vidmm-kmt")?;
    let folder = tempfile::tempdir()?;
    let link = |name: &str| -> io::Result<PathBuf> {
        let at = folder.path().join(name);
        symlink(&library, &at)?;
        Ok(at)
    };
    let stand_in = link("libdxcore.so")?;
    link("libwsl_compute_helper.so")?;
    let calls = args.calls.clone().unwrap_or_else(|| folder.path().join("calls.jsonl"));
    let settings = Settings {
        local_memory: args.local_memory.map_or(8 << 30, ByteSize::bytes),
        neighbour: args.neighbour.clone(),
        seed: args.seed,
        null_hardware: true,
        faults: args.faults.clone(),
        budget: args.budget.map(ByteSize::bytes),
        device_id: args.device_id,
        library: stand_in,
        driver_store: folder.path().to_owned(),
        calls: Some(env::current_dir()?.join(&calls)),
        ..Settings::default()
    };
    for file in files_of_processes(&calls) {
        fs::remove_file(&file).map_err(|error| format!("{}: {error}", file.display()))?;
    }
    let status = Command::new(&args.program[0])
        .args(&args.program[1..])
        .env(SETTINGS_VARIABLE, serde_json::to_string(&settings)?)
        .env("LD_AUDIT", &library)
        // Keys of Intel's driver: commands are not executed, so nothing waits for what kernels write.
        .env("NEOReadDebugKeys", "1")
        .env("EnableNullHardware", "1")
        .status()
        .map_err(|error| format!("{}: {error}", args.program[0].display()))?;
    if !calls.exists() {
        return Err(format!("{} ended ({status}) without a call of D3DKMT", args.program[0].display()).into());
    }
    let mut has_no_finding = true;
    for (process, file) in (1..).zip(files_of_processes(&calls)) {
        if process > 1 {
            anstream::println!("process     {process}, with a manager of its own");
        }
        let events = args.events.as_ref().map(|path| of_process(path, process));
        has_no_finding &= judge(&file, events.as_deref(), args.calls.as_ref().map(|_| &*file))?;
    }
    if !status.success() {
        anstream::println!("program     {BAD}{status}{BAD:#}");
    }
    Ok(has_no_finding && status.success())
}

/// The logs of the program's processes: each process that makes a call has a log.
fn files_of_processes(calls: &Path) -> impl Iterator<Item = PathBuf> {
    (1..).map(|process| of_process(calls, process)).take_while(|file| file.exists())
}

/// Whether a file is a log of calls.
pub fn is_call_log(path: &Path) -> bool {
    let mut begin = Vec::new();
    let read = fs::File::open(path).and_then(|file| io::BufReader::new(file).read_until(b':', &mut begin));
    read.is_ok() && begin.starts_with(LOG_BEGIN)
}

/// Repeats a log of calls, and prints what broke a rule. Returns whether nothing did, and the answers are those of the log.
pub fn judge(calls: &Path, events: Option<&Path>, shown: Option<&Path>) -> Result<bool, Box<dyn Error>> {
    let mut log = match events {
        Some(path) => Some(LogWriter::new(fs::File::create(path)?, &LogHeader::new("kmt", 0))),
        None => None,
    };
    let named = |error| format!("{}: {error}", calls.display());
    let played = vidmm_kmt::replay(calls, log.is_some(), |session| {
        if let Some(log) = &mut log {
            session.drain_events().for_each(|event| log.event(&event));
        }
    })
    .map_err(named)?;
    if let Some(log) = log {
        log.finish()?;
    }
    unless_closed(write(&mut anstream::stdout().lock(), &played, shown))?;
    Ok(played.findings.is_empty() && played.difference.is_none())
}

fn write(out: &mut impl Write, played: &Played, shown: Option<&Path>) -> io::Result<()> {
    let by_name = played.by_name.iter().map(|(name, of)| match of.refused {
        0 => format!("{} {name}", of.calls),
        refused => format!("{} {name} ({refused} refused)", of.calls),
    });
    writeln!(
        out,
        "judged      {}: {}",
        counted(played.calls, "call", "calls"),
        by_name.collect::<Vec<_>>().join(", ")
    )?;
    let struck = played.struck.iter().map(|(kind, times)| format!("{times} {}", kind.name()));
    if !played.struck.is_empty() {
        writeln!(out, "faults      {}", struck.collect::<Vec<_>>().join(", "))?;
    }
    if let Some(error) = &played.neighbour_error {
        writeln!(out, "neighbour   {BAD}plays no more: {error}{BAD:#}")?;
    }
    let mut by_rule: BTreeMap<_, Vec<&Finding>> = BTreeMap::new();
    played.findings.iter().for_each(|finding| by_rule.entry(finding.rule).or_default().push(finding));
    for findings in by_rule.values() {
        let (first, others) = findings.split_first().expect("a group has a finding");
        writeln!(out, "finding     {BAD}{first}{BAD:#}")?;
        if !others.is_empty() {
            writeln!(
                out,
                "            and {} of this rule",
                counted(others.len() as u64, "other finding", "other findings")
            )?;
        }
    }
    if let Some((number, logged, answered)) = &played.difference {
        writeln!(out, "differs     {BAD}call {number}: the log has {logged:?}, the answer is {answered:?}{BAD:#}")?;
    }
    if let Some(path) = shown {
        writeln!(out, "replay      vidmm replay {}", path.display())?;
    }
    let style = if played.findings.is_empty() { GOOD } else { BAD };
    writeln!(out, "found       {style}{}{style:#}", played.findings.len())
}

#[cfg(unix)]
fn symlink(of: &Path, at: &Path) -> io::Result<()> {
    std::os::unix::fs::symlink(of, at)
}

#[cfg(not(unix))]
fn symlink(_of: &Path, _at: &Path) -> io::Result<()> {
    Err(io::Error::new(io::ErrorKind::Unsupported, "`vidmm exec --kmt` needs Linux"))
}
