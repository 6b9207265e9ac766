//! Scenarios: what is run, on what machine, and what goes wrong on purpose.
//!
//! A scenario is a TOML file. Every key has a default, so an empty file is the training demonstration. Whatever is
//! wrong in a file is answered with the file, the line and what to write instead.

use std::fmt;
use std::fs::File;
use std::io::{self, Read};
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use serde::Deserialize;
use serde::de::{DeserializeOwned, Deserializer, Error as _};
use toml::Spanned;
use toml::de::{DeTable, DeValue, ValueDeserializer};
use vidmm_trace::{ByteSize, Generator, ImportError, ImportOptions, LocalMemory, Workload, WorkloadError, import};

use crate::oracle::Content;

/// The longest scenario file that is read, in bytes: a wrong file ends in an error and not in exhausted memory.
const MAX_FILE_BYTES: u64 = 1 << 20;

/// What local memory is rounded up to, in bytes: a multiple of every page size, so that the whole of it can be used.
const LOCAL_MEMORY_UNIT: u64 = 2 << 20;

/// The most local memory that a machine may have, in bytes: 16 TiB, which leaves room in its address spaces.
const MAX_LOCAL_MEMORY: u64 = 16 << 40;

/// The name of a scenario that has none, and no file either.
const DEFAULT_NAME: &str = "training";

/// The longest name, in characters.
const MAX_NAME: usize = 100;

/// The address bits inside a small page.
const PAGE_BITS: u32 = 12;

/// The most index bits of a level of page tables: tables of 16 MiB.
const MAX_INDEX_BITS: u32 = 20;

/// The sizes that a paging buffer may have, in bytes.
const PAGING_BUFFERS: RangeInclusive<u64> = 4 << 10..=64 << 20;

/// The bandwidths that there are, in 10^9 bytes a second.
const BANDWIDTHS: RangeInclusive<f64> = 0.001..=1_000_000.0;

/// The largest cache block of a serving trace, in bytes: 1 TiB.
const MAX_BLOCK_BYTES: u64 = 1 << 40;

/// What is run, on what machine, and what goes wrong on purpose.
#[derive(Clone, Debug)]
pub struct Scenario {
    /// What reports call it; by default its file's name without the extension.
    pub name: String,
    /// What everything random follows from: the generated workload, and which transfer a fault hits.
    pub seed: u64,
    /// The machine.
    pub adapter: AdapterSettings,
    /// How fast the machine is.
    pub cost: CostSettings,
    /// How the client uses it.
    pub client: ClientSettings,
    /// Where the workload comes from.
    pub source: WorkloadSource,
    /// The errors to be made on purpose, each name once, so that a run can show that they are found.
    pub faults: Vec<Fault>,
}

/// The machine: its memory, and how its pages are mapped.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default, rename_all = "kebab-case", expecting = "a table")]
pub struct AdapterSettings {
    /// How much local memory there is; [`Scenario::local_memory_bytes`] turns a share into bytes.
    pub local_memory: LocalMemory,
    /// The pages that local memory is managed in.
    pub page_size: PageSize,
    /// The index bits of the levels of page tables below the root, from the leaf up. None leaves them to
    /// [`page_table_bits`](Self::page_table_bits).
    pub page_table_bits: Option<Vec<u32>>,
    /// Whether a level-1 entry points to a leaf table of 4 KiB pages and to one of 64 KiB pages. None leaves it to
    /// [`dual_pte`](Self::dual_pte).
    pub dual_pte: Option<bool>,
    /// Whether the TLB caches valid entries only. If it does not, an entry that becomes valid must be flushed as well.
    pub invalid_tlb_entries_not_cached: bool,
    /// Where page tables live.
    pub page_tables: PageTables,
    /// The size of a paging buffer: a multiple of 4 KiB, from 4 KiB to 64 MiB.
    #[serde(deserialize_with = "paging_buffer")]
    pub paging_buffer: ByteSize,
    /// The size of the paging process's scratch address space in MiB, 1 TiB at most; 0 leaves it to the manager.
    #[serde(deserialize_with = "within::<_, _, 0, 0x10_0000>")]
    pub paging_va_mib: u32,
}

/// The pages that local memory is managed in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(try_from = "ByteSize")]
pub enum PageSize {
    /// 4 KiB.
    Kib4,
    /// 64 KiB.
    #[default]
    Kib64,
}

/// Where page tables live.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PageTables {
    /// In local memory.
    #[default]
    Local,
    /// In system memory, where no table may be larger than 4 KiB.
    System,
}

/// How fast the machine is.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default, rename_all = "kebab-case", expecting = "a table")]
pub struct CostSettings {
    /// The bandwidth between system and local memory, each way, in 10^9 bytes a second: from 0.001 to 1000000.
    #[serde(deserialize_with = "bandwidth")]
    pub bus_gb_per_s: f64,
    /// The bandwidth of local memory, in 10^9 bytes a second: from 0.001 to 1000000.
    #[serde(deserialize_with = "bandwidth")]
    pub local_gb_per_s: f64,
}

/// How the client uses the machine.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default, rename_all = "kebab-case", expecting = "a table")]
pub struct ClientSettings {
    /// Kernels that a process submits ahead of the one that runs, from 0, which waits for each, to 1024.
    #[serde(deserialize_with = "within::<_, _, 0, 1024>")]
    pub ahead: u32,
    /// What the workload's buffer sizes are divided by, from 1 to 2^40; [`Workload::scale`] rounds them up to 4 KiB.
    #[serde(deserialize_with = "within::<_, _, 1, 0x100_0000_0000>")]
    pub scale: u64,
    /// What fills the pages that kernels write.
    pub content: Content,
}

/// Where the workload comes from.
#[derive(Clone, Debug)]
pub enum WorkloadSource {
    /// It is made from parameters and the scenario's seed.
    Generator(Generator),
    /// It is read from a recorded trace.
    Trace(TraceSource),
}

/// A recorded trace.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct TraceSource {
    /// The file; a relative path starts at the scenario's folder.
    pub trace: PathBuf,
    /// The size of one cache block of a serving trace, which traces do not say; 2 MiB by default.
    #[serde(default = "default_block_bytes", deserialize_with = "block_bytes")]
    pub block_bytes: ByteSize,
}

/// An error to be made on purpose, and when: the n-th time, counted from 1, or as the kind of fault says.
///
/// It is written as its name, and `@N` after it for the n-th time only: `skip-tlb-flush`, `drop-page-out@3`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub enum Fault {
    /// One bit of the n-th transfer flips; of a transfer that the runner draws from the seed if there is no n.
    FlipBitInTransfer(Option<u64>),
    /// The n-th TLB flush is left out; every one if there is no n.
    SkipTlbFlush(Option<u64>),
    /// The n-th transfer of evicted pages to system memory is left out; every one if there is no n.
    DropPageOut(Option<u64>),
}

/// Why a scenario cannot be used, where, and what to do about it.
#[derive(Debug, thiserror::Error)]
pub enum ScenarioError {
    /// The file is missing, cannot be read or is not text.
    #[error(
        "cannot read the scenario {}: {source}; check the path, its permissions and that it is a text file",
        .path.display()
    )]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// What the system says.
        source: io::Error,
    },
    /// The file is longer than is ever read.
    #[error(
        "{}: a scenario has at most {}, and this file has more; give the path of a scenario",
        .path.display(),
        ByteSize(MAX_FILE_BYTES)
    )]
    TooLong {
        /// The file.
        path: PathBuf,
    },
    /// The file is not TOML, or a key or its value is not accepted.
    #[error("{}: {message}", .path.display())]
    Invalid {
        /// The file.
        path: PathBuf,
        /// The line and column, the line itself, and what is wrong there.
        message: String,
    },
    /// The table `[workload]` names a generator and a trace.
    #[error("{}, line {line}: the workload has a `kind` and a `trace`; keep one of them", .path.display())]
    TwoSources {
        /// The file.
        path: PathBuf,
        /// The line of the table, counted from 1.
        line: usize,
    },
    /// The table `[workload]` names neither a generator nor a trace.
    #[error(
        "{}, line {line}: the workload has neither a `kind` nor a `trace`; write a generator such as \
         `kind = \"transformer-training\"`, or `trace = \"FILE\"`", .path.display()
    )]
    NoSource {
        /// The file.
        path: PathBuf,
        /// The line of the table, counted from 1.
        line: usize,
    },
    /// The workload cannot be generated.
    #[error("the scenario's `[workload]` cannot be generated: {0}")]
    Workload(#[from] WorkloadError),
    /// The trace cannot be imported.
    #[error("the scenario's trace cannot be used: {0}")]
    Import(#[from] ImportError),
    /// A kernel alone uses more than the local memory.
    #[error(
        "local memory of {} cannot run the workload: one of its kernels uses {} at once; raise `local-memory` above \
         that, or `scale` in `[client]`",
        ByteSize(*.bytes),
        ByteSize(*.needed)
    )]
    LocalMemoryTooSmall {
        /// The local memory, in bytes.
        bytes: u64,
        /// What the neediest kernel uses, in bytes, without page tables.
        needed: u64,
    },
    /// The local memory is larger than any that is modelled.
    #[error(
        "local memory of {local_memory} is more than {}, the most that a machine may have; lower `local-memory`, or \
         raise `scale` in `[client]`",
        ByteSize(MAX_LOCAL_MEMORY)
    )]
    LocalMemoryTooLarge {
        /// The local memory as the scenario has it.
        local_memory: LocalMemory,
    },
}

/// Why levels of page tables are refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PageTableError {
    /// There are too few or too many levels.
    #[error("`page-table-bits` has {0} levels; give 1 to 5, from the leaf up and without the root")]
    Levels(usize),
    /// A level below the root has too few or too many index bits.
    #[error("`page-table-bits` gives level {level} {bits} bits; give each level {fewest} to 20")]
    Bits {
        /// The level; 0 is the leaf.
        level: usize,
        /// Its index bits.
        bits: u32,
        /// The fewest that it may have: 4 for a leaf with dual entries, whose 64 KiB table has a sixteenth of the
        /// entries.
        fewest: u32,
    },
    /// Too few or too many address bits are left for the root.
    #[error(
        "`page-table-bits` leaves the root {root} of the {address} bits of an address; the levels below it must \
         leave it 1 to 20"
    )]
    Root {
        /// The bits that are left.
        root: i64,
        /// The bits of a virtual address.
        address: u32,
    },
    /// A table in system memory is larger than a page.
    #[error(
        "`page-tables = \"system\"` allows tables of 4 KiB, which is 9 bits a level, and 8 in level 1 with `dual-pte`; \
         level {level} has {bits}: change `page-table-bits`, or leave it out"
    )]
    TooLargeForSystem {
        /// The level; 0 is the leaf, and the root comes last.
        level: usize,
        /// Its index bits.
        bits: u32,
    },
}

/// Why a fault is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FaultError {
    /// There is no such fault.
    #[error(
        "`{0}` is not a fault; the faults are {names}, each with `@N` for the n-th time only",
        names = Fault::names()
    )]
    Unknown(String),
    /// What follows the `@` is not a number from 1 on.
    #[error("`{0}` does not say when; write a whole number from 1 after the `@`, as in `skip-tlb-flush@3`")]
    When(String),
    /// A fault is named twice.
    #[error("`{0}` is named twice; name each fault once")]
    Twice(&'static str),
}

impl Default for Scenario {
    /// The demonstration: training on half of the memory that it needs.
    fn default() -> Self {
        Keys::default().into_scenario(DEFAULT_NAME.to_owned(), WorkloadSource::default())
    }
}

impl Scenario {
    /// Reads a scenario file.
    ///
    /// # Errors
    ///
    /// Returns [`ScenarioError::Unreadable`] or [`ScenarioError::TooLong`], and whatever [`parse`](Self::parse)
    /// returns.
    pub fn load(path: &Path) -> Result<Self, ScenarioError> {
        let unreadable = |source| ScenarioError::Unreadable { path: path.to_owned(), source };
        let mut text = Vec::new();
        let file = File::open(path).map_err(unreadable)?;
        file.take(MAX_FILE_BYTES + 1).read_to_end(&mut text).map_err(unreadable)?;
        if text.len() as u64 > MAX_FILE_BYTES {
            return Err(ScenarioError::TooLong { path: path.to_owned() });
        }
        let text = String::from_utf8(text).map_err(|error| unreadable(io::Error::other(error)))?;
        Self::parse(&text, path)
    }

    /// Reads a scenario from the text of the file `path`, which names it in errors and gives it a default name. No file
    /// is opened, a trace neither.
    ///
    /// # Errors
    ///
    /// Returns a [`ScenarioError`] with the line of the first thing that is wrong: text that is not TOML, an unknown
    /// key, a value of a wrong type or out of range, page tables that contradict each other, or not exactly one source
    /// of the workload. Generator parameters are checked by [`workload`](Self::workload).
    pub fn parse(text: &str, path: &Path) -> Result<Self, ScenarioError> {
        let at = |offset: usize| text.bytes().take(offset).filter(|&byte| byte == b'\n').count() + 1;
        Self::from_toml(text, path).map_err(|problem| match problem {
            Problem::Toml(mut error) => {
                error.set_input(Some(text));
                let message = error.to_string().trim_end().to_owned();
                ScenarioError::Invalid { path: path.to_owned(), message }
            }
            Problem::TwoSources(offset) => ScenarioError::TwoSources { path: path.to_owned(), line: at(offset) },
            Problem::NoSource(offset) => ScenarioError::NoSource { path: path.to_owned(), line: at(offset) },
        })
    }

    /// Reads the text. The table `[workload]` is taken out of it first, because its keys depend on its source.
    fn from_toml(text: &str, path: &Path) -> Result<Self, Problem> {
        let mut table = DeTable::parse(text)?;
        let source = match table.get_mut().remove("workload") {
            Some(workload) => WorkloadSource::from_toml(workload)?,
            None => WorkloadSource::default(),
        };
        let mut keys = Keys::deserialize(toml::Deserializer::from(table))?;
        let name = keys.name.take().unwrap_or_else(|| stem(path));
        Ok(keys.into_scenario(name, source))
    }

    /// Generates or imports the workload, and scales it. `base_dir` is where the path of a trace starts: the scenario's
    /// folder.
    ///
    /// # Errors
    ///
    /// Returns [`ScenarioError::Workload`] for generator parameters out of range, and [`ScenarioError::Import`] for a
    /// trace that cannot be read.
    pub fn workload(&self, base_dir: &Path) -> Result<Workload, ScenarioError> {
        let mut workload = match &self.source {
            WorkloadSource::Generator(generator) => generator.generate(self.seed)?,
            WorkloadSource::Trace(source) => {
                let options = ImportOptions { block_bytes: source.block_bytes.bytes() };
                import::read(&base_dir.join(&source.trace), &options)?
            }
        };
        if self.client.scale > 1 {
            workload.scale(self.client.scale);
        }
        Ok(workload)
    }

    /// Returns the bytes of local memory for `workload`, which is the scenario's own: a size as it stands, or a share
    /// of the most bytes that are alive at one time, each buffer rounded up to whole pages. Either is rounded up to a
    /// multiple of 2 MiB.
    ///
    /// # Errors
    ///
    /// Returns [`ScenarioError::LocalMemoryTooSmall`] if one kernel's buffers alone are larger, and
    /// [`ScenarioError::LocalMemoryTooLarge`] above 16 TiB.
    pub fn local_memory_bytes(&self, workload: &Workload) -> Result<u64, ScenarioError> {
        let footprint = workload.footprint(self.adapter.page_size.bytes());
        let local_memory = self.adapter.local_memory;
        let asked = local_memory.bytes_of(footprint.peak_bytes).max(1);
        let bytes = asked.checked_next_multiple_of(LOCAL_MEMORY_UNIT).filter(|&bytes| bytes <= MAX_LOCAL_MEMORY);
        let bytes = bytes.ok_or(ScenarioError::LocalMemoryTooLarge { local_memory })?;
        let needed = footprint.largest_kernel_bytes;
        if needed > bytes {
            return Err(ScenarioError::LocalMemoryTooSmall { bytes, needed });
        }
        Ok(bytes)
    }
}

/// The name of a scenario that has only its file's.
fn stem(path: &Path) -> String {
    path.file_stem().map_or_else(|| DEFAULT_NAME.to_owned(), |stem| stem.to_string_lossy().into_owned())
}

/// All keys of a scenario file but `[workload]`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields, default, rename_all = "kebab-case")]
struct Keys {
    #[serde(deserialize_with = "name")]
    name: Option<String>,
    #[serde(deserialize_with = "within::<_, _, 0, { u64::MAX }>")]
    seed: u64,
    #[serde(deserialize_with = "adapter")]
    adapter: AdapterSettings,
    cost: CostSettings,
    client: ClientSettings,
    #[serde(deserialize_with = "faults")]
    faults: Vec<Fault>,
}

impl Default for Keys {
    fn default() -> Self {
        Self {
            name: None,
            seed: 1,
            adapter: AdapterSettings::default(),
            cost: CostSettings::default(),
            client: ClientSettings::default(),
            faults: Vec::new(),
        }
    }
}

impl Keys {
    fn into_scenario(self, name: String, source: WorkloadSource) -> Scenario {
        let Self { name: _, seed, adapter, cost, client, faults } = self;
        Scenario { name, seed, adapter, cost, client, source, faults }
    }
}

/// What is wrong with a scenario's text, before the file and the line are added. Offsets are in bytes.
enum Problem {
    Toml(toml::de::Error),
    TwoSources(usize),
    NoSource(usize),
}

impl From<toml::de::Error> for Problem {
    fn from(error: toml::de::Error) -> Self {
        Self::Toml(error)
    }
}

impl Default for WorkloadSource {
    /// The demonstration: a small training run.
    fn default() -> Self {
        Self::Generator(Generator::default())
    }
}

impl WorkloadSource {
    /// Reads the table `[workload]`. `Generator` could read itself, but it would lose the lines of its parameters.
    fn from_toml(mut workload: Spanned<DeValue<'_>>) -> Result<Self, Problem> {
        let start = workload.span().start;
        let DeValue::Table(table) = workload.get_mut() else {
            return Err(Problem::NoSource(start));
        };
        let has_trace = table.contains_key("trace");
        match table.remove("kind") {
            Some(_) if has_trace => Err(Problem::TwoSources(start)),
            Some(kind) => Ok(Self::Generator(read::<Kind>(kind)?.generator(workload)?)),
            None if has_trace => Ok(Self::Trace(read(workload)?)),
            None => Err(Problem::NoSource(start)),
        }
    }
}

/// The generators, by the names of [`Generator::kind`].
#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Kind {
    TransformerTraining,
    LlmServing,
    CyclicLayers,
    ZipfTextures,
}

impl Kind {
    /// Reads the generator's parameters.
    fn generator(self, parameters: Spanned<DeValue<'_>>) -> Result<Generator, toml::de::Error> {
        Ok(match self {
            Self::TransformerTraining => Generator::TransformerTraining(read(parameters)?),
            Self::LlmServing => Generator::LlmServing(read(parameters)?),
            Self::CyclicLayers => Generator::CyclicLayers(read(parameters)?),
            Self::ZipfTextures => Generator::ZipfTextures(read(parameters)?),
        })
    }
}

/// Reads a value of the file.
fn read<T: DeserializeOwned>(value: Spanned<DeValue<'_>>) -> Result<T, toml::de::Error> {
    T::deserialize(ValueDeserializer::from(value))
}

impl Default for AdapterSettings {
    /// Half of the memory that the workload needs, in pages of 64 KiB.
    fn default() -> Self {
        Self {
            local_memory: LocalMemory::Percent(5000),
            page_size: PageSize::Kib64,
            page_table_bits: None,
            dual_pte: None,
            invalid_tlb_entries_not_cached: true,
            page_tables: PageTables::Local,
            paging_buffer: ByteSize::kib(64),
            paging_va_mib: 0,
        }
    }
}

impl AdapterSettings {
    /// Bits in a virtual address: 47 with pages of 64 KiB, 48 with pages of 4 KiB, as real GPUs have them.
    pub fn virtual_address_bits(&self) -> u32 {
        match self.page_size {
            PageSize::Kib4 => 48,
            PageSize::Kib64 => 47,
        }
    }

    /// Whether level-1 entries are dual: as the scenario says, or else with pages of 64 KiB only.
    pub fn dual_pte(&self) -> bool {
        self.dual_pte.unwrap_or(self.page_size == PageSize::Kib64)
    }

    /// The index bits of the levels below the root, from the leaf up: as the scenario says, or else `[13, 10]` with
    /// pages of 64 KiB and `[9, 9, 9]` with pages of 4 KiB. In system memory, where a table is one page, they are `[9,
    /// 8, 8, 5]` with dual entries, which are twice as large, and `[9, 9, 9]` without.
    pub fn page_table_bits(&self) -> Vec<u32> {
        let default = || match (self.page_tables, self.page_size) {
            (PageTables::Local, PageSize::Kib64) => vec![13, 10],
            (PageTables::System, _) if self.dual_pte() => vec![9, 8, 8, 5],
            _ => vec![9, 9, 9],
        };
        self.page_table_bits.clone().unwrap_or_else(default)
    }

    /// Checks that the page tables can be built: [`Scenario::parse`] has done so, but a caller may change the settings.
    ///
    /// # Errors
    ///
    /// Returns the first rule that is broken.
    pub fn check_page_tables(&self) -> Result<(), PageTableError> {
        let mut levels = self.page_table_bits();
        if !(1..=5).contains(&levels.len()) {
            return Err(PageTableError::Levels(levels.len()));
        }
        for (level, &bits) in levels.iter().enumerate() {
            let fewest = if level == 0 && self.dual_pte() { 4 } else { 1 };
            if !(fewest..=MAX_INDEX_BITS).contains(&bits) {
                return Err(PageTableError::Bits { level, bits, fewest });
            }
        }
        levels.push(self.root_bits(&levels)?);
        if self.page_tables == PageTables::System {
            self.check_system_tables(&levels)?;
        }
        Ok(())
    }

    /// The bits that levels leave for the root.
    fn root_bits(&self, below: &[u32]) -> Result<u32, PageTableError> {
        let address = self.virtual_address_bits();
        let root = i64::from(address) - i64::from(PAGE_BITS) - below.iter().copied().map(i64::from).sum::<i64>();
        let usable = u32::try_from(root).ok().filter(|root| (1..=MAX_INDEX_BITS).contains(root));
        usable.ok_or(PageTableError::Root { root, address })
    }

    /// Checks that every table, the root included, is one page.
    fn check_system_tables(&self, levels: &[u32]) -> Result<(), PageTableError> {
        for (level, &bits) in levels.iter().enumerate() {
            let most = if level == 1 && self.dual_pte() { 8 } else { 9 };
            if bits > most {
                return Err(PageTableError::TooLargeForSystem { level, bits });
            }
        }
        Ok(())
    }
}

impl PageSize {
    /// Returns the bytes of a page.
    pub fn bytes(self) -> u64 {
        match self {
            Self::Kib4 => 4 << 10,
            Self::Kib64 => 64 << 10,
        }
    }
}

impl TryFrom<ByteSize> for PageSize {
    type Error = String;

    /// Takes 4 KiB or 64 KiB.
    ///
    /// # Errors
    ///
    /// Returns what is accepted, for any other size.
    fn try_from(size: ByteSize) -> Result<Self, String> {
        let sizes = [Self::Kib4, Self::Kib64];
        let same = sizes.into_iter().find(|page_size| page_size.bytes() == size.bytes());
        same.ok_or_else(|| format!("there are no pages of {size}; write `4 KiB` or `64 KiB`"))
    }
}

impl Default for CostSettings {
    /// A GPU on 16 lanes of PCIe 4.
    fn default() -> Self {
        Self { bus_gb_per_s: 25.0, local_gb_per_s: 800.0 }
    }
}

impl CostSettings {
    /// The bandwidth between system and local memory, each way, in bytes a second.
    pub fn bus_bytes_per_second(&self) -> u64 {
        bytes_per_second(self.bus_gb_per_s)
    }

    /// The bandwidth of local memory, in bytes a second.
    pub fn local_bytes_per_second(&self) -> u64 {
        bytes_per_second(self.local_gb_per_s)
    }
}

/// Turns 10^9 bytes a second into bytes a second; never 0, whatever the number.
fn bytes_per_second(gb_per_s: f64) -> u64 {
    ((gb_per_s * 1e9) as u64).max(1)
}

impl Default for ClientSettings {
    /// Eight kernels ahead, with all bytes of the workload and uniform pages.
    fn default() -> Self {
        Self { ahead: 8, scale: 1, content: Content::Uniform }
    }
}

impl Fault {
    /// Every kind of fault.
    const ALL: [Self; 3] = [Self::FlipBitInTransfer(None), Self::SkipTlbFlush(None), Self::DropPageOut(None)];

    /// The names of all faults, for people.
    fn names() -> String {
        Self::ALL.map(|fault| format!("`{fault}`")).join(", ")
    }

    /// The fault's name, without the `@N`.
    pub fn name(self) -> &'static str {
        match self {
            Self::FlipBitInTransfer(_) => "flip-bit-in-transfer",
            Self::SkipTlbFlush(_) => "skip-tlb-flush",
            Self::DropPageOut(_) => "drop-page-out",
        }
    }

    /// The same fault at another time.
    fn at(self, nth: Option<u64>) -> Self {
        match self {
            Self::FlipBitInTransfer(_) => Self::FlipBitInTransfer(nth),
            Self::SkipTlbFlush(_) => Self::SkipTlbFlush(nth),
            Self::DropPageOut(_) => Self::DropPageOut(nth),
        }
    }

    /// When it happens: the n-th time, counted from 1. What none means depends on the fault.
    pub fn nth(self) -> Option<u64> {
        match self {
            Self::FlipBitInTransfer(nth) | Self::SkipTlbFlush(nth) | Self::DropPageOut(nth) => nth,
        }
    }

    /// Checks that a list names each fault once.
    ///
    /// # Errors
    ///
    /// Returns [`FaultError::Twice`] for the first that it names again.
    pub fn check_list(faults: &[Self]) -> Result<(), FaultError> {
        for (at, fault) in faults.iter().enumerate() {
            if faults[..at].iter().any(|earlier| earlier.name() == fault.name()) {
                return Err(FaultError::Twice(fault.name()));
            }
        }
        Ok(())
    }
}

impl FromStr for Fault {
    type Err = FaultError;

    /// Reads a fault's name, and `@N` if it follows.
    ///
    /// # Errors
    ///
    /// Returns [`FaultError::Unknown`], which lists the names, or [`FaultError::When`].
    fn from_str(text: &str) -> Result<Self, FaultError> {
        let (name, nth) = text.split_once('@').map_or((text, None), |(name, nth)| (name, Some(nth)));
        let known = Self::ALL.into_iter().find(|known| known.name() == name);
        let fault = known.ok_or_else(|| FaultError::Unknown(text.to_owned()))?;
        let number = |nth: &str| nth.parse().ok().filter(|&nth| nth > 0);
        let nth = nth.map(|nth| number(nth).ok_or_else(|| FaultError::When(text.to_owned()))).transpose()?;
        Ok(fault.at(nth))
    }
}

impl TryFrom<String> for Fault {
    type Error = FaultError;

    fn try_from(text: String) -> Result<Self, FaultError> {
        text.parse()
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.nth() {
            Some(nth) => write!(f, "{}@{nth}", self.name()),
            None => f.write_str(self.name()),
        }
    }
}

/// Reads the name.
fn name<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<String>, D::Error> {
    let name = String::deserialize(deserializer)?;
    if (1..=MAX_NAME).contains(&name.chars().count()) && !name.chars().any(char::is_control) {
        return Ok(Some(name));
    }
    Err(D::Error::custom(format!("a name has from 1 to {MAX_NAME} characters, on one line")))
}

/// Reads a whole number from `MIN` to `MAX`, a range that fits `T`.
fn within<'de, D: Deserializer<'de>, T: TryFrom<i128>, const MIN: u64, const MAX: u64>(
    deserializer: D,
) -> Result<T, D::Error> {
    let number = i128::deserialize(deserializer)?;
    let in_range = (i128::from(MIN)..=i128::from(MAX)).contains(&number);
    let number = T::try_from(number).ok().filter(|_| in_range);
    number.ok_or_else(|| D::Error::custom(format!("out of range; give a whole number from {MIN} to {MAX}")))
}

/// Reads a bandwidth in 10^9 bytes a second.
fn bandwidth<'de, D: Deserializer<'de>>(deserializer: D) -> Result<f64, D::Error> {
    let bandwidth = f64::deserialize(deserializer)?;
    if BANDWIDTHS.contains(&bandwidth) {
        return Ok(bandwidth);
    }
    let (least, most) = (BANDWIDTHS.start(), BANDWIDTHS.end());
    Err(D::Error::custom(format!("a bandwidth of {bandwidth} GB/s; give a number from {least} to {most}")))
}

/// Reads the size of a paging buffer.
fn paging_buffer<'de, D: Deserializer<'de>>(deserializer: D) -> Result<ByteSize, D::Error> {
    let size = ByteSize::deserialize(deserializer)?;
    if PAGING_BUFFERS.contains(&size.bytes()) && size.bytes().is_multiple_of(1 << PAGE_BITS) {
        return Ok(size);
    }
    let (least, most) = (ByteSize(*PAGING_BUFFERS.start()), ByteSize(*PAGING_BUFFERS.end()));
    Err(D::Error::custom(format!("a paging buffer of {size}; give a multiple of 4 KiB from {least} to {most}")))
}

/// Reads the size of a cache block.
fn block_bytes<'de, D: Deserializer<'de>>(deserializer: D) -> Result<ByteSize, D::Error> {
    let size = ByteSize::deserialize(deserializer)?;
    if (1..=MAX_BLOCK_BYTES).contains(&size.bytes()) {
        return Ok(size);
    }
    let most = ByteSize(MAX_BLOCK_BYTES);
    Err(D::Error::custom(format!("a cache block of {size}; give a size from 1 byte to {most}, such as `2 MiB`")))
}

/// The size of a cache block if the scenario has none.
fn default_block_bytes() -> ByteSize {
    ByteSize(ImportOptions::default().block_bytes)
}

/// Reads the machine, and checks that its keys go together.
fn adapter<'de, D: Deserializer<'de>>(deserializer: D) -> Result<AdapterSettings, D::Error> {
    let adapter = AdapterSettings::deserialize(deserializer)?;
    adapter.check_page_tables().map_err(D::Error::custom)?;
    Ok(adapter)
}

/// Reads the faults, and checks that each is named once.
fn faults<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<Fault>, D::Error> {
    let faults = Vec::deserialize(deserializer)?;
    Fault::check_list(&faults).map_err(D::Error::custom)?;
    Ok(faults)
}
