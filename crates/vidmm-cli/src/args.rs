//! The arguments.

use std::{
    collections::BTreeMap,
    error::Error,
    ffi::OsString,
    fmt,
    ops::RangeInclusive,
    path::{Path, PathBuf},
};

use clap::{Parser, Subcommand, ValueEnum, ValueHint, builder::styling};
use vidmm::policy::PolicyChoice;
use vidmm_replay::{Columns, Link, Lists, RequestFormat, RequestOptions, Sizes};
use vidmm_runtime::TransferOffset;
use vidmm_sim::{Bench, Fault, Profile, policies};
use vidmm_trace::{ByteSize, EventsLevel, LocalMemory, TraceFormat};

use crate::{check::CheckArgs, exec::ExecArgs};

/// The colours that users of cargo are used to.
const STYLES: styling::Styles = styling::Styles::styled()
    .header(styling::AnsiColor::Green.on_default().bold())
    .usage(styling::AnsiColor::Green.on_default().bold())
    .literal(styling::AnsiColor::Cyan.on_default().bold())
    .placeholder(styling::AnsiColor::Cyan.on_default());

/// The version with the commit and the features that the program is built with.
const LONG_VERSION: &str =
    concat!(env!("CARGO_PKG_VERSION"), "\ncommit ", env!("VIDMM_COMMIT"), "\nfeatures ", env!("VIDMM_FEATURES"));

/// A GPU video memory manager with the contract of WDDM: runs workloads on a GPU with too little memory, and checks every
/// byte that the GPU reads.
#[derive(Parser)]
#[command(name = "vidmm", version, long_version = LONG_VERSION, styles = STYLES, max_term_width = 100, after_help = DOORS)]
pub struct Args {
    #[command(subcommand)]
    pub command: Command,
}

/// The first command of each kind of user.
const DOORS: &str = "\
Three ways to begin:
  vidmm check ./driver.so               you write a driver: each rule that the driver breaks
  vidmm run scenarios/cyclic.toml       you write an engine or an app: a workload in too little memory
  vidmm replay scenarios/cyclic.toml    you study eviction: five policies at four sizes of memory

`vidmm run` needs no file: the built-in scenario is a training step in half of the memory that the
step needs. `vidmm help COMMAND` describes a command, and has examples.";

#[derive(Subcommand)]
pub enum Command {
    Run(RunArgs),
    Sim(SimArgs),
    Replay(ReplayArgs),
    Explain(ExplainArgs),
    Check(CheckArgs),
    Exec(ExecArgs),
    Doctor(DoctorArgs),
    Report(ReportArgs),
    Export(ExportArgs),
    Completions(CompletionsArgs),
    Man(ManArgs),
}

/// Write an event log for Perfetto, or as tables
///
/// The only input is a log that `vidmm run --events` wrote. docs/guides/export.md lists the tables, with example queries.
#[derive(clap::Args)]
#[command(
    after_help = "Example:\n  vidmm run --events run.jsonl && vidmm export run.jsonl --perfetto run.pftrace\nThen open run.pftrace at https://ui.perfetto.dev."
)]
pub struct ExportArgs {
    /// The event log of a run
    #[arg(value_name = "EVENTS.jsonl[.gz]", value_hint = ValueHint::FilePath)]
    pub events: PathBuf,

    /// Write a trace for Perfetto to this file: engines, contexts, requests, and counters of memory
    #[arg(long, value_name = "FILE.pftrace", value_hint = ValueHint::FilePath)]
    pub perfetto: Option<PathBuf>,

    /// Write the tables as Parquet to this folder; a missing folder is made
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub parquet: Option<PathBuf>,

    /// Write the tables as CSV to this folder; a missing folder is made
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub csv: Option<PathBuf>,

    /// Accept an incomplete log, such as a crashed run leaves: read up to the first bad line, and name that line
    #[arg(long)]
    pub damaged: bool,
}

/// Say which GPUs this machine has for `--gpu vulkan`, and what each can do
///
/// Prints what the manager needs of each Vulkan device: how memory is bound, the types of memory, the limits.
/// docs/guides/vulkan.md explains the answers.
#[derive(clap::Args)]
#[command(
    after_help = "Example:\n  vidmm doctor\n  vidmm doctor --measure\n\nExit status: 0 a device can be used, 1 none can, 2 the arguments are wrong"
)]
pub struct DoctorArgs {
    /// Measure the cost of copies, bindings and mapped memory on the device that `--gpu vulkan` uses; takes a few seconds
    #[arg(long)]
    pub measure: bool,
    /// Print the findings as JSON, for a report
    #[arg(long)]
    pub json: bool,
}

/// Print the completions of a shell
#[derive(clap::Args)]
#[command(
    after_help = "Example:\n  vidmm completions bash > ~/.local/share/bash-completion/completions/vidmm\n  vidmm completions zsh > ~/.zfunc/_vidmm    in a folder of fpath"
)]
pub struct CompletionsArgs {
    /// The shell
    pub shell: clap_complete::Shell,
}

/// Write the manual pages to a folder
#[derive(clap::Args)]
#[command(after_help = "Example:\n  vidmm man ~/.local/share/man/man1 && man vidmm-run")]
pub struct ManArgs {
    /// The folder; a missing folder is made
    #[arg(value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub folder: PathBuf,
}

/// Run traces or workloads under several policies and sizes of memory, and print one table
///
/// The manager makes its decisions and no content is copied. Each combination of input, policy and size is a run of its own; runs use
/// all processors. Decisions are the same on every machine.
#[derive(clap::Args)]
#[command(
    after_help = "Columns:\n  in, out    bytes copied to local memory and back\n  misses     objects brought in, of all uses; bytes: the same by size\n  by MIN     bytes in by those of Belady's MIN on bytes, which no policy betters\n  by whole   bytes in by those of MIN on whole allocations, a heuristic: a policy may be below 1\n  by work    virtual time by that of the kernels; by plan: by that of MIN's copies with the kernels\n  fairness   of several processes: 1 if sharing multiplies the bytes in of each by the same factor\n\nExample:\n  vidmm replay bert.txt --policy lru,predict --local-memory 25%,50%,75% --csv bert.csv --svg bert.svg"
)]
pub struct ReplayArgs {
    /// Traces, as `vidmm run --trace` reads them; requests to a cache, known by the ending (`.csv`, `.oracleGeneral`, `.lcs`, `.vscsi`)
    /// or by --format; or scenarios with a workload, which end in `.toml`. Files may be packed by gzip or zstd
    #[arg(value_name = "TRACE|SCENARIO.toml", required = true, value_hint = ValueHint::FilePath)]
    pub inputs: Vec<PathBuf>,

    /// The policies, separated by commas: names, or libraries of your own such as `./policy.so`
    #[arg(long, value_name = "NAME,..", value_delimiter = ',', default_value = "lru,clock,s3-fifo,lfu-da,predict")]
    pub policy: Vec<PolicyArg>,

    /// The sizes of local memory, separated by commas: sizes such as `24GiB`, or shares of the workload's footprint such as `50%`
    #[arg(long, value_name = "SIZE|PERCENT,..", value_delimiter = ',', default_value = "25%,50%,75%,90%", value_parser = vidmm_sim::local_memory)]
    pub local_memory: Vec<LocalMemory>,

    /// Run each policy that draws at random with each seed from A to B; the table has the mean and the deviation
    #[arg(long, value_name = "A..B", value_parser = seeds)]
    pub seeds: Option<RangeInclusive<u64>>,

    /// Count no figures in the first N submissions, while memory fills
    #[arg(long, value_name = "N", default_value_t = 0, conflicts_with = "check")]
    pub warm_up: usize,

    /// How a program keeps its device's residency list: made anew for each submission, or kept and changed
    #[arg(long, value_enum, default_value_t = ListsArg::Anew, conflicts_with = "check")]
    pub lists: ListsArg,

    /// The format of the traces, where content or ending does not say enough
    #[arg(long, value_name = "NAME", value_parser = formats(), ignore_case = true)]
    pub format: Option<String>,

    /// The columns of text that count, by numbers from 1 or by the names in the first line: `time=2,id=5,size=4,op=3`. Only `id` is
    /// needed; the id may be any text, and without `op` each request is a read. `process` names the process of a request
    #[arg(long, value_name = "WHAT=COLUMN,..")]
    pub columns: Option<Columns>,

    /// The character between columns: a character, `tab` or `space`
    #[arg(long, value_name = "CHARACTER", default_value = ",", value_parser = delimiter)]
    pub delimiter: u8,

    /// The size of an object whose requests state different sizes: of the `first` request, the `largest`, or a `new` object each time
    #[arg(long, value_name = "WHICH", value_enum, default_value_t = SizesArg::First, conflicts_with = "check")]
    pub sizes: SizesArg,

    /// Let requests for objects larger than local memory pass by: such a request is a miss, and takes no memory
    #[arg(long, conflicts_with = "check")]
    pub pass_by: bool,

    /// The page size to which sizes are rounded up, a power of two from 1 byte to 64 KiB; small objects of a cache need small pages
    #[arg(long, value_name = "SIZE", default_value = "4KiB", value_parser = page_size, conflicts_with = "check")]
    pub page_size: ByteSize,

    /// The bandwidth of copies in and out, in 10^9 bytes a second, for the virtual time; one number is for both
    #[arg(long, value_name = "IN[,OUT]", value_parser = link, default_value = "25", conflicts_with = "check")]
    pub bus_gb_per_s: Link,
    /// Read a share of the objects of requests to a cache, such as `1%`: sizes of memory shrink with the sample, and the table has the
    /// error of the sample (SHARDS)
    #[arg(long, value_name = "PERCENT", value_parser = sample, conflicts_with_all = ["check", "manager", "pass_by"])]
    pub sample: Option<u32>,

    /// The size of a cache block in a log of Mooncake or Bailian; the log has no size
    #[arg(long, value_name = "SIZE")]
    pub block_bytes: Option<ByteSize>,

    /// The number of cache requests that make one submission
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=4096), conflicts_with = "check")]
    pub batch: u32,

    /// Repeat a trace of kernels N times; each repetition makes its buffers anew
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1024), conflicts_with = "check")]
    pub iterations: u32,

    /// Leave out the offline optimum
    #[arg(long)]
    pub no_bounds: bool,

    /// Play the whole manager, with plans and page tables. Without the option a study of the manager's order and policies gives the same
    /// figures in a fraction of the time; with --ahead above 1 the manager plays by itself
    #[arg(long, conflicts_with = "check")]
    pub manager: bool,

    /// Run each combination with content on the model GPU, and check every page that a kernel reads
    #[arg(long)]
    pub check: bool,

    /// Submissions queued ahead of the running submission [default: 1; with --check the scenario's]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(0..=1024))]
    pub ahead: Option<u32>,

    /// Runs at one time [default: one for each processor]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=JOBS_MAX))]
    pub jobs: Option<u16>,

    /// Run only combinations N, N + OF, N + 2 OF, ...: the rows of all shards make one table
    #[arg(long, value_name = "N/OF", default_value = "1/1", value_parser = shard)]
    pub shard: Shard,

    /// Write a row for each combination to this file, with the commit, the digest of the input and all parameters
    #[arg(long, value_name = "FILE.csv", value_hint = ValueHint::FilePath)]
    pub csv: Option<PathBuf>,

    /// Write the same rows to this file
    #[arg(long, value_name = "FILE.parquet", value_hint = ValueHint::FilePath)]
    pub parquet: Option<PathBuf>,

    /// Write a row for each use to this file: hit, reuse distance, victims and rank. For a single combination
    #[arg(long, value_name = "FILE.parquet", value_hint = ValueHint::FilePath, conflicts_with_all = ["check", "manager", "sample"])]
    pub uses: Option<PathBuf>,

    /// Draw the bytes brought in by the size of memory to this file, a curve for each policy
    #[arg(long, value_name = "FILE.svg", value_hint = ValueHint::FilePath)]
    pub svg: Option<PathBuf>,

    /// The height of a curve in the picture: the `bytes` brought in of all bytes used, the `misses` of all uses, bytes `by-min` of
    /// Belady's MIN on bytes, or the virtual time `by-work` of the kernels
    #[arg(long, value_enum, default_value_t = HeightArg::Bytes, requires = "svg")]
    pub svg_y: HeightArg,

    /// The sizes of memory in the picture: in `percent` of the footprint, or in `mib`
    #[arg(long, value_enum, default_value_t = WidthArg::Percent, requires = "svg")]
    pub svg_x: WidthArg,
}

impl ReplayArgs {
    /// The format of traces with kernels, if the arguments state one.
    pub fn trace_format(&self) -> Option<TraceFormat> {
        self.format.as_deref().and_then(|name| name.to_ascii_lowercase().parse().ok())
    }

    /// How files of requests are read.
    pub fn requests(&self) -> RequestOptions {
        let is_named = |format: &RequestFormat| {
            self.format.as_deref().is_some_and(|name| format.name().eq_ignore_ascii_case(name))
        };
        RequestOptions {
            batch: self.batch,
            page: self.page_size.bytes(),
            sizes: self.sizes.into(),
            format: RequestFormat::ALL.into_iter().find(is_named),
            columns: self.columns.clone(),
            delimiter: self.delimiter,
            sample: self.sample,
        }
    }

    /// The share of the objects that are read.
    pub fn share(&self) -> f64 {
        self.sample.map_or(1.0, |millionths| f64::from(millionths) / 1e6)
    }
}

/// A share in millionths.
fn link(text: &str) -> Result<Link, String> {
    let bytes_per_second = |text: &str| {
        let bandwidth = text.parse::<f64>().ok().filter(|bandwidth| (0.001..=1e6).contains(bandwidth));
        bandwidth.map(|bandwidth| (bandwidth * 1e9) as u64)
    };
    let (inward, outward) = text.split_once(',').unwrap_or((text, text));
    let speeds = bytes_per_second(inward).zip(bytes_per_second(outward));
    let link = |(bytes_in_per_second, bytes_out_per_second)| Link { bytes_in_per_second, bytes_out_per_second };
    speeds
        .map(link)
        .ok_or_else(|| "give one bandwidth or two, from 0.001 to 1000000, such as `25` or `25,12.5`".to_owned())
}

fn sample(text: &str) -> Result<u32, String> {
    let share = text.trim().strip_suffix('%').and_then(|number| number.trim().parse::<f64>().ok());
    let millionths = share.map(|percent| (percent * 1e4).round()).filter(|millionths| (1.0..=1e6).contains(millionths));
    millionths
        .map(|millionths| millionths as u32)
        .ok_or_else(|| "give a share from 0.0001% to 100%, such as `1%`".to_owned())
}

fn formats() -> clap::builder::PossibleValuesParser {
    RequestFormat::ALL.map(RequestFormat::name).into_iter().chain(TraceFormat::ALL.map(TraceFormat::name)).into()
}

fn delimiter(text: &str) -> Result<u8, String> {
    match text.as_bytes() {
        b"tab" => Ok(b'\t'),
        b"space" => Ok(b' '),
        &[character] if character.is_ascii() && !character.is_ascii_alphanumeric() => Ok(character),
        _ => Err("give one character that no name has, such as `;`, or `tab` or `space`".to_owned()),
    }
}

fn page_size(text: &str) -> Result<ByteSize, String> {
    let size: ByteSize = text.parse().map_err(|error| format!("{error}"))?;
    let is_good = size.bytes().is_power_of_two() && size.bytes() <= 64 << 10;
    if is_good { Ok(size) } else { Err("give a power of two from 1 byte to 64 KiB".to_owned()) }
}

/// The size of an object whose requests state different sizes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum SizesArg {
    /// The size of the first request
    First,
    /// The largest size of all requests
    Largest,
    /// A request of another size replaces the object by a new object
    New,
}

impl From<SizesArg> for Sizes {
    fn from(sizes: SizesArg) -> Self {
        match sizes {
            SizesArg::First => Self::First,
            SizesArg::Largest => Self::Largest,
            SizesArg::New => Self::New,
        }
    }
}

/// How programs keep their device's list.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum ListsArg {
    /// The list is made anew for each submission, and the policy sees each use
    Anew,
    /// The list is kept and changed, and the policy sees the changes alone
    Kept,
}

impl ListsArg {
    /// The name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::Anew => "anew",
            Self::Kept => "kept",
        }
    }
}

impl From<ListsArg> for Lists {
    fn from(lists: ListsArg) -> Self {
        match lists {
            ListsArg::Anew => Self::Anew,
            ListsArg::Kept => Self::Kept,
        }
    }
}

/// A part of all combinations.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Shard {
    /// From 1 to `of`.
    pub number: usize,
    pub of: usize,
}

fn shard(text: &str) -> Result<Shard, String> {
    let parts = text.split_once('/').and_then(|(number, of)| Some((number.parse().ok()?, of.parse().ok()?)));
    let shard = parts.map(|(number, of)| Shard { number, of }).filter(|shard| (1..=shard.of).contains(&shard.number));
    shard.ok_or_else(|| format!("`{text}` is no shard; write its number and how many there are, as in `3/64`"))
}

/// Run a scenario or a trace and print what happened
///
/// Without a scenario and a trace, runs the built-in scenario: a training step of a transformer in half of the memory that the step
/// needs.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct RunArgs {
    /// The scenario to run: a workload, or steps one by one
    #[arg(value_name = "SCENARIO.toml", value_hint = ValueHint::FilePath)]
    pub scenario: Option<PathBuf>,

    /// Run a recorded trace, on the scenario's machine if a scenario is given: G10 kernels or Mooncake requests, plain or gzip,
    /// recognised by content. Repeat the option to run several traces at once, each as a process
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub trace: Vec<PathBuf>,

    /// Divide the arrival times in traces by N, so that a recorded hour passes in seconds
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=1_000_000_000))]
    pub compress_arrivals: Option<u64>,

    /// The GPU that executes what the driver encodes: `soft`, the model GPU, or `vulkan`, the first Vulkan device of this machine
    /// that `vidmm doctor` finds usable [default: this program's own, which is `soft` in vidmm]
    #[arg(long, value_name = "NAME")]
    pub gpu: Option<String>,

    /// Local memory: a size such as `24GiB`, a share of the workload's footprint such as `50%`, or `0` for none [default: the
    /// scenario's]
    #[arg(long, value_name = "SIZE|PERCENT", value_parser = vidmm_sim::local_memory)]
    pub local_memory: Option<LocalMemory>,

    /// The order of eviction among allocations of equal priority: `lru`, `clock`, `s3-fifo`, `lfu-da`, `sieve`, `lru-2`,
    /// `gdsf` or `predict`, with parameters as in `predict:sample=16:seed=7`; or a library of your own such as `./policy.so`
    /// [default: the scenario's]
    #[arg(long, value_name = "NAME[:KEY=VALUE]..")]
    pub policy: Option<PolicyArg>,

    /// The seed of all random choices, and of the machine's speed where the scenario gives none [default: the scenario's]
    #[arg(long, value_name = "N")]
    pub seed: Option<u64>,

    /// Run the scenario, or all scenarios below a folder, with each seed from A to B, and print a line for each scenario. Each seed
    /// generates the workload anew, and draws how fast the machine is
    #[arg(long, value_name = "A..B", value_parser = seeds, requires = "scenario", conflicts_with_all = OF_ONE_RUN)]
    pub seeds: Option<RangeInclusive<u64>>,

    /// Runs at one time, with --seeds [default: one for each processor]
    #[arg(long, value_name = "N", requires = "seeds", value_parser = clap::value_parser!(u16).range(1..=JOBS_MAX))]
    pub jobs: Option<u16>,

    /// Kernels that each process queues ahead of the running kernel; 0 waits for each kernel [default: the scenario's]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(0..=1024))]
    pub ahead: Option<u32>,

    /// Make mistakes on purpose, to see the checks find each mistake: of the driver, such as `skip-tlb-flush`; of the GPU, such as
    /// `hang-packet`; or of the GPU's reports, such as `lose-interrupt`. `@N` makes the mistake on its n-th occasion only. An
    /// unknown name, such as `?`, lists all names
    #[arg(long, value_name = "FAULT[@N]", value_delimiter = ',')]
    pub faults: Vec<Fault>,

    /// Compare the effect of each paging operation with the documented effect when its packet ends, and name each wrong operation
    #[arg(long)]
    pub verify: bool,

    /// Report work that uses an allocation which its device has evicted or offered, even if the content is still in place (RES-20,
    /// U-35). Decisions stay the same
    #[arg(long)]
    pub strict: bool,

    /// A file of known --strict findings, one `RULE DEVICE ALLOCATION` on each line; known findings do not fail the run
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub known: Option<PathBuf>,

    /// Write all findings to this file as SARIF 2.1.0
    #[arg(long, value_name = "FILE.sarif", value_hint = ValueHint::FilePath, requires = "scenario")]
    pub sarif: Option<PathBuf>,

    /// The address that a driver gets for a later part of an allocation: `documented`, where the driver adds the offset, or
    /// `preadvanced`, with the offset added
    #[arg(long, value_name = "READING", default_value_t)]
    pub transfer_offset: TransferOffset,

    /// Kernels write `uniform` pages, of one repeated word, or `ramp` pages, whose words all differ [default: the scenario's]
    #[arg(long, value_enum)]
    pub content: Option<ContentArg>,

    /// After the last use of a buffer a process does this: `destroy` the buffer, `offer` the buffer and reclaim it for the next
    /// buffer, or `ignore` that the use was the last [default: the scenario's]
    #[arg(long, value_enum)]
    pub lifetimes: Option<LifetimesArg>,

    /// How long a process keeps a buffer on its residency list: for `each-kernel`, `kept` until memory is short, or
    /// `evicted-at-once` behind the kernel [default: the scenario's]
    #[arg(long, value_enum)]
    pub residency: Option<ResidencyArg>,

    /// Divide all buffer sizes by N [default: the scenario's]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub scale: Option<u64>,

    /// The size of a cache block in a Mooncake trace; the trace has no size
    #[arg(long, value_name = "SIZE")]
    pub block_bytes: Option<ByteSize>,

    /// Write every event to this file as JSON lines, compressed by gzip if the name ends with `.gz`
    #[arg(long, value_name = "FILE.jsonl[.gz]", value_hint = ValueHint::FilePath)]
    pub events: Option<PathBuf>,

    /// The events in the log: `full`, or `decisions` alone without their execution, which is most of a log
    #[arg(long, value_enum, value_name = "LEVEL", default_value_t = LevelArg::Full, requires = "events")]
    pub events_level: LevelArg,

    /// Write the figures to this file as JSON
    #[arg(long, value_name = "FILE.json", value_hint = ValueHint::FilePath)]
    pub summary: Option<PathBuf>,

    /// Print for each process and segment: the most bytes resident, bytes moved, bytes evicted by reason
    #[arg(long)]
    pub statistics: bool,
}

impl SimArgs {
    /// How the driver is tried.
    pub fn bench(&self) -> Bench {
        Bench { verify: !self.no_verify, transfer_offset: self.transfer_offset }
    }
}

impl RunArgs {
    /// How the driver is tried.
    pub fn bench(&self) -> Bench {
        Bench { verify: self.verify, transfer_offset: self.transfer_offset }
    }

    /// The files that the arguments say to read.
    pub fn inputs(&self) -> Vec<PathBuf> {
        self.scenario.iter().chain(&self.trace).cloned().collect()
    }

    /// The files that the arguments say to write.
    pub fn outputs(&self) -> Vec<&Path> {
        [&self.events, &self.summary, &self.sarif].into_iter().flatten().map(PathBuf::as_path).collect()
    }
}

/// The arguments that change a run, or write its results to files.
const OF_ONE_RUN: [&str; 19] = [
    "strict",
    "known",
    "sarif",
    "statistics",
    "trace",
    "compress_arrivals",
    "local_memory",
    "policy",
    "seed",
    "ahead",
    "faults",
    "content",
    "lifetimes",
    "residency",
    "scale",
    "block_bytes",
    "events",
    "events_level",
    "summary",
];

const EXAMPLES: &str = "\
Examples:
  vidmm run                                    the built-in scenario
  vidmm run scenarios/serving.toml --seed 7
  vidmm run scenarios/notification/p23-notify-from-aperture.toml    see what is sent, step by step
  vidmm run --trace bert.txt --local-memory 50% --ahead 16
  vidmm run --trace bert.txt --trace mooncake.jsonl.gz --compress-arrivals 400    two processes
  vidmm run --faults skip-tlb-flush            see the check fail
  vidmm run scenarios --seeds 1..100           all scenarios, each with a hundred seeds

Exit status: 0 all checks held, 1 a check did not hold or nothing was judged, 2 the input or the arguments are wrong";

/// Draw worlds at random, and judge every step of them by the rules
///
/// A world is a machine, its programs, and what goes wrong, all drawn from a seed. An oracle that shares no code with the manager
/// follows every event and every page. At the end all pending work must end, and no memory may be left in use.
#[derive(clap::Args)]
#[command(
    after_help = "Examples:\n  vidmm sim --seeds 1..1000\n  vidmm sim --seed 17    one world again\n\nExit status: 0 nothing was found, 1 something was, 2 the arguments are wrong, 130 a signal ended the run, and nothing was found until then"
)]
pub struct SimArgs {
    /// The seeds from A to B
    #[arg(long, value_name = "A..B", default_value = "1..100", value_parser = seeds)]
    pub seeds: RangeInclusive<u64>,

    /// One seed
    #[arg(long, value_name = "N", conflicts_with = "seeds")]
    pub seed: Option<u64>,

    /// Steps of each world before all its work must end; a step is a call, or a report of the GPU
    #[arg(long, value_name = "N", default_value_t = 2000)]
    pub steps: u64,

    /// The GPU that executes what the driver encodes: `soft`, the model GPU, or `vulkan` [default: this program's own]
    #[arg(long, value_name = "NAME")]
    pub gpu: Option<String>,

    /// Worlds at one time [default: one for each processor]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=JOBS_MAX))]
    pub jobs: Option<u16>,

    /// The worlds to draw: `any`, `calm` without mistakes, or `speed` with 64 allocations on a discrete GPU
    #[arg(long, value_name = "PROFILE", default_value_t)]
    pub profile: Profile,

    /// The order of eviction in all worlds, as `vidmm run` takes it [default: each seed draws one]
    #[arg(long, value_name = "NAME[:KEY=VALUE]..")]
    pub policy: Option<PolicyArg>,

    /// Print a digest of every event and every answer: the same on every machine, in every build, with any number of jobs
    #[arg(long)]
    pub digest: bool,

    /// Count each call, flag, answer, event and reason, and name those that never occurred; a case that never occurred without a
    /// known reason fails the campaign
    #[arg(long)]
    pub coverage: bool,

    /// Do not compare the effect of each paging operation with the documented effect; judge by the content that kernels read
    #[arg(long)]
    pub no_verify: bool,

    /// The address that a driver gets for a later part of an allocation: `documented`, where the driver adds the offset, or
    /// `preadvanced`, with the offset added
    #[arg(long, value_name = "READING", default_value_t)]
    pub transfer_offset: TransferOffset,

    /// Show the last N steps of one seed
    #[arg(long, value_name = "N", default_value_t = 25)]
    pub show_last: usize,

    /// Shrink the failure to few steps, and write them as a scenario file
    #[arg(long, value_name = "FILE.toml", value_hint = ValueHint::FilePath)]
    pub shrink: Option<PathBuf>,

    /// Write every event of one seed to this file as JSON lines, compressed by gzip if the name ends with `.gz`
    #[arg(long, value_name = "FILE.jsonl[.gz]", value_hint = ValueHint::FilePath)]
    pub events: Option<PathBuf>,

    /// The events in the log: `full`, or `decisions` alone without their execution, which is most of a log
    #[arg(long, value_enum, value_name = "LEVEL", default_value_t = LevelArg::Full, requires = "events")]
    pub events_level: LevelArg,

    /// Stop after N findings
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..))]
    pub max_failures: u32,

    /// Plant bugs, `all` or some by name, and search the seeds from 1 to the last of --seeds for each
    #[arg(long, value_name = "all|NAME,...")]
    pub planted: Option<String>,
}

/// The most worlds at one time: each is a thread.
const JOBS_MAX: i64 = 1024;

/// The number of worlds at one time.
pub fn jobs(given: Option<u16>) -> usize {
    given.map_or_else(|| std::thread::available_parallelism().map_or(1, usize::from), usize::from)
}

/// A policy as a command line states it: a name, or the path of a library, which has a slash.
#[derive(Clone)]
pub struct PolicyArg(String);

impl PolicyArg {
    /// The policy. A library is loaded.
    pub fn choice(&self) -> Result<PolicyChoice, Box<dyn Error>> {
        let Self(text) = self;
        let (name, _) = text.split_once(':').unwrap_or((text, ""));
        let wrong = |error: &dyn fmt::Display| format!("--policy {}: {error}", quoted(text));
        if name.contains('/') && !policies::all().iter().any(|known| known.kind().name == name) {
            let kind = vidmm_ddi::load_policy(Path::new(name)).map_err(|error| wrong(&error))?;
            policies::register(&kind).map_err(|error| wrong(&error))?;
        }
        Ok(policies::find(text).map_err(|error| wrong(&error))?)
    }
}

impl fmt::Display for PolicyArg {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&quoted(&self.0))
    }
}

impl From<&str> for PolicyArg {
    fn from(text: &str) -> Self {
        Self(text.to_owned())
    }
}

/// The number of seeds in a range.
pub fn count_of(seeds: &RangeInclusive<u64>) -> u64 {
    seeds.end() - seeds.start() + 1
}

/// Reads a range of seeds, which can be counted.
pub fn seeds(text: &str) -> Result<RangeInclusive<u64>, String> {
    let ends = text.split_once("..").and_then(|(first, last)| Some((first.parse().ok()?, last.parse().ok()?)));
    let is_range = |&(first, last): &(u64, u64)| first <= last && last - first < u64::MAX;
    let message = || format!("`{text}` is no range of seeds; write the first and the last, as in `1..1000`");
    ends.filter(is_range).map(|(first, last)| first..=last).ok_or_else(message)
}

/// Tell in sentences what happened to an allocation, why, and who benefited
///
/// The only input is a log that `vidmm run --events` wrote. Repeated steps are told once and counted.
#[derive(clap::Args)]
#[command(after_help = "Example:\n  vidmm run --events run.jsonl && vidmm explain run.jsonl 7")]
pub struct ExplainArgs {
    /// The event log of a run
    #[arg(value_name = "EVENTS.jsonl[.gz]", value_hint = ValueHint::FilePath)]
    pub events: PathBuf,

    /// The allocation by its name in the log: `7`, `allocation 7`, or `7.1` for the second that has that number
    #[arg(value_name = "ALLOCATION")]
    pub allocation: String,

    /// Accept an incomplete log, such as a crashed run leaves: read up to the first bad line, and name that line
    #[arg(long)]
    pub damaged: bool,
}

/// Write a page that shows a run: memory, engines, waits, evictions and their cost
///
/// The only input is a log that `vidmm run --events` wrote. The page is one file for any current browser, and loads no other file.
#[derive(clap::Args)]
#[command(after_help = "Example:\n  vidmm run --events run.jsonl && vidmm report run.jsonl -o report.html")]
pub struct ReportArgs {
    /// The event log of a run
    #[arg(value_name = "EVENTS.jsonl[.gz]", value_hint = ValueHint::FilePath)]
    pub events: PathBuf,

    /// The file of the page
    #[arg(short, long, value_name = "FILE.html", default_value = "report.html", value_hint = ValueHint::FilePath)]
    pub output: PathBuf,

    /// Accept an incomplete log, such as a crashed run leaves: read up to the first bad line, and name that line
    #[arg(long)]
    pub damaged: bool,
}

/// The height of a curve in a picture.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum HeightArg {
    Bytes,
    Misses,
    ByMin,
    ByWork,
}

/// The unit of sizes of memory in a picture.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum WidthArg {
    Percent,
    Mib,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum LevelArg {
    Decisions,
    Full,
}

impl From<LevelArg> for EventsLevel {
    fn from(level: LevelArg) -> Self {
        match level {
            LevelArg::Decisions => Self::Decisions,
            LevelArg::Full => Self::Full,
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum ContentArg {
    Uniform,
    Ramp,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum LifetimesArg {
    Destroy,
    Offer,
    Ignore,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum ResidencyArg {
    EachKernel,
    Kept,
    EvictedAtOnce,
}

/// The command line for a shell, with the seed and the faults of the run.
pub fn replay_command(seed: u64, faults: &[Fault]) -> String {
    with_seed(words_without(&["--seed", "--faults"]), seed, faults)
}

/// The command line for a shell by which the run is repeated, without the files that it writes.
fn repeat_command(seed: u64, faults: &[Fault]) -> String {
    with_seed(
        words_without(&["--seed", "--faults", "--events", "--events-level", "--summary", "--sarif", "--shrink"]),
        seed,
        faults,
    )
}

/// The settings of a run that its files name: with these, the version and the inputs it is repeated.
pub fn settings(faults: &[Fault], seed: u64, buggify: Option<u64>) -> BTreeMap<String, String> {
    let names: Vec<String> = faults.iter().map(ToString::to_string).collect();
    let mut settings = BTreeMap::from([("command".to_owned(), repeat_command(seed, faults))]);
    if !names.is_empty() {
        settings.insert("faults".to_owned(), names.join(","));
    }
    if let Some(buggify) = buggify {
        settings.insert("buggify".to_owned(), buggify.to_string());
    }
    settings
}

/// The name of this program: that of its file, without the extension.
pub fn program() -> String {
    let path = std::env::args_os().next().map(PathBuf::from);
    let stem = path.as_deref().and_then(Path::file_stem);
    stem.map_or_else(|| "vidmm".to_owned(), |stem| stem.to_string_lossy().into_owned())
}

/// The words of the command line, but options of these names with their values.
fn words_without(names: &[&str]) -> Vec<String> {
    let mut words = vec![quoted(&program())];
    let mut given = std::env::args_os().skip(1).map(OsString::into_string);
    while let Some(word) = given.next() {
        let word = word.unwrap_or_else(|word| word.to_string_lossy().into_owned());
        let (name, joined) = word.split_once('=').map_or((word.as_str(), false), |(name, _)| (name, true));
        match names.contains(&name) {
            true if joined => {}
            true => drop(given.next()),
            false => words.push(quoted(&word)),
        }
    }
    words
}

fn with_seed(mut words: Vec<String>, seed: u64, faults: &[Fault]) -> String {
    words.push(format!("--seed {seed}"));
    if !faults.is_empty() {
        let faults: Vec<String> = faults.iter().map(ToString::to_string).collect();
        words.push(format!("--faults {}", faults.join(",")));
    }
    words.join(" ")
}

/// A word for a shell.
pub fn quoted(word: &str) -> String {
    let plain = |character: char| character.is_ascii_alphanumeric() || "-_./=%:,@+".contains(character);
    if !word.is_empty() && word.chars().all(plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', r"'\''"))
    }
}
