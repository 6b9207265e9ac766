//! Scenario files.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use serde::Deserialize;
use serde::de::{Deserializer, Error as _};
use toml::Spanned;
use toml::de::{DeTable, DeValue};
use vidmm_trace::{ByteSize, LocalMemory};

use super::adapter::{AdapterSettings, DEFAULT_APERTURE};
use super::client::ClientSettings;
use super::cost::CostSettings;
use super::definition::{DEFAULT_NAME, Scenario};
use super::duration::Duration;
use super::error::ScenarioError;
use super::explicit::{DEFAULT_LOCAL_MEMORY, ExplicitScenario};
use super::fault::{Fault, FaultKind, fault_kind, faults};
use super::judged_by::JudgedBy;
use super::limits::{MAX_FILE_BYTES, MAX_LOCAL_MEMORY};
use super::number::within;
use super::page_tables::adapter;
use super::problem::Problem;
use super::process::read_processes;
use super::script::{Change, Check, CompareSettings, Script, TableSettings};
use super::source::WorkloadSource;
use super::steps::read_steps;
use super::value::read;

/// The longest name, in characters.
const MAX_NAME: usize = 100;

/// The content of a scenario file.
#[derive(Clone, Debug)]
pub enum ScenarioFile {
    /// A workload that is run as a whole.
    Workload(Box<Scenario>),
    /// Calls, one by one.
    Explicit(Box<ExplicitScenario>),
}

impl ScenarioFile {
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
    /// is opened, not even a trace. A scenario with steps is explicit.
    ///
    /// # Errors
    ///
    /// Returns a [`ScenarioError`] with the line of the first mistake: text that is not TOML, an unknown key, a value
    /// of a wrong type or out of range, page tables that contradict each other, not exactly one source of the workload,
    /// or a step that names an object which does not exist. Generator parameters are checked by
    /// [`load`](Scenario::load).
    pub fn parse(text: &str, path: &Path) -> Result<Self, ScenarioError> {
        let read = || {
            let table = parsed(text)?;
            if table.get_ref().is_empty() {
                let nothing = "the scenario is empty; write a `[workload]`, or steps".to_owned();
                return Err(Problem::At(0, nothing));
            }
            if table.get_ref().contains_key("step") {
                return Ok(Self::Explicit(Box::new(explicit(table, text, path)?)));
            }
            Ok(Self::Workload(Box::new(workload(table, path)?)))
        };
        read().map_err(|problem| located(problem, text, path))
    }
}

impl Scenario {
    /// Reads the scenario of a workload from text, as [`ScenarioFile::parse`] does.
    ///
    /// # Errors
    ///
    /// The errors of [`ScenarioFile::parse`]; steps are an unknown key.
    pub fn parse(text: &str, path: &Path) -> Result<Self, ScenarioError> {
        let read = || workload(parsed(text)?, path);
        read().map_err(|problem| located(problem, text, path))
    }
}

/// The keys of a scenario that are a table each, and those that are lists of tables.
const TABLES: [&str; 6] = ["adapter", "cost", "client", "workload", "table", "compare"];
const LISTS: [&str; 2] = ["change", "check"];

/// The keys of `[adapter]` that are a table each.
const TABLES_OF_ADAPTER: [&str; 4] = ["tdr", "preparation", "verifier", "write-behind"];

/// Parses the text. A key that is there twice, or a list in place of a table, is refused by its name.
fn parsed(text: &str) -> Result<Spanned<DeTable<'_>>, Problem> {
    let table =
        DeTable::parse(text).map_err(|error| match error.span().filter(|_| error.message() == "duplicate key") {
            Some(span) => {
                let line = text[..span.start].rfind('\n').map_or(0, |end| end + 1);
                let problem = match text[line..span.end].trim_start().strip_prefix('[') {
                    Some(name) => {
                        let name = name.trim_start_matches('[');
                        format!("there is another `[{name}]` above; a scenario has one: keep one of them")
                    }
                    None => format!("`{}` is given twice; keep one of them", &text[span.clone()]),
                };
                Problem::At(span.start, problem)
            }
            None => Problem::Toml(error),
        })?;
    check_shape(table.get_ref(), "", &TABLES, &LISTS)?;
    if let Some(adapter) = table.get_ref().get("adapter").and_then(|adapter| adapter.get_ref().as_table()) {
        check_shape(adapter, "adapter.", &TABLES_OF_ADAPTER, &[])?;
    }
    Ok(table)
}

/// Checks that tables are tables, and lists of tables are lists.
fn check_shape(table: &DeTable<'_>, prefix: &str, tables: &[&str], lists: &[&str]) -> Result<(), Problem> {
    for (key, value) in table {
        let (name, at) = (key.get_ref().as_ref(), key.span().start);
        if tables.contains(&name) && value.get_ref().is_array() {
            let problem =
                format!("`[[{prefix}{name}]]` is a list, and a scenario has one `[{prefix}{name}]`: keep one of them");
            return Err(Problem::At(at, problem));
        }
        if lists.contains(&name) && value.get_ref().is_table() {
            return Err(Problem::At(at, format!("`[{name}]` is one of a list; write `[[{name}]]` above each")));
        }
    }
    Ok(())
}

/// Adds the line to a problem.
fn located(problem: Problem, text: &str, path: &Path) -> ScenarioError {
    let (path, line) = (path.to_owned(), |offset| line_of(text, offset));
    match problem {
        Problem::Toml(mut error) => {
            error.set_input(Some(text));
            ScenarioError::Invalid { path, message: error.to_string().trim_end().to_owned() }
        }
        Problem::TwoSources(offset) => ScenarioError::TwoSources { path, line: line(offset) },
        Problem::NoSource(offset) => ScenarioError::NoSource { path, line: line(offset) },
        Problem::At(offset, message) => ScenarioError::At { path, line: line(offset), message },
    }
}

/// The line on which a byte of the text is, counted from 1.
fn line_of(text: &str, offset: usize) -> usize {
    text.bytes().take(offset).filter(|&byte| byte == b'\n').count() + 1
}

/// Reads a workload's scenario. The tables `[workload]` and `[[process]]` are taken out of it first, because their keys depend
/// on the source.
fn workload(mut table: Spanned<DeTable<'_>>, path: &Path) -> Result<Scenario, Problem> {
    let (workload, processes) = (table.get_mut().remove("workload"), table.get_mut().remove("process"));
    if let (Some(_), Some(processes)) = (&workload, &processes) {
        let both = "the scenario has a `[workload]` and a `[[process]]`; keep one of them".to_owned();
        return Err(Problem::At(processes.span().start, both));
    }
    let source = workload.map_or_else(|| Ok(WorkloadSource::default()), WorkloadSource::from_toml)?;
    let processes = processes.map_or_else(|| Ok(Vec::new()), read_processes)?;
    if let Some(judge) = table.get_ref().get("judge") {
        let of_steps = "a workload is judged by what its kernels read; leave `judge` out, or write steps".to_owned();
        return Err(Problem::At(judge.span().start, of_steps));
    }
    if let Some(fault) = table.get_ref().get("fault-at-seed") {
        let of_steps = "a seed changes the occasions of a workload; write `faults`, or steps".to_owned();
        return Err(Problem::At(fault.span().start, of_steps));
    }
    let Keys { name, seed, strict, adapter, cost, client, faults, shows, change, end, table, check, compare, .. } =
        read(Spanned::new(table.span(), DeValue::Table(table.into_inner())))?;
    let script = Script { changes: change, end, table, checks: check };
    let name = name.unwrap_or_else(|| stem(path));
    Ok(Scenario { name, seed, strict, adapter, cost, client, source, processes, script, compare, faults, shows })
}

/// Reads a scenario of steps. No value in it is a share, because there is no workload to take a share of.
fn explicit(mut table: Spanned<DeTable<'_>>, text: &str, path: &Path) -> Result<ExplicitScenario, Problem> {
    for key in ["workload", "process", "client", "change", "end", "table", "check", "compare"] {
        if let Some(other) = table.get_ref().get(key) {
            return Err(Problem::At(
                other.span().start,
                format!("the scenario has steps and a `[{key}]`; keep one of them"),
            ));
        }
    }
    let steps = table.get_mut().remove("step").expect("the caller saw it");
    let places = ["local-memory", "aperture-commit-limit"].map(|key| place_in_adapter(&table, key));
    let bytes = |key: &str, place: usize, amount: LocalMemory| match amount {
        LocalMemory::Bytes(size) if size.bytes() <= MAX_LOCAL_MEMORY => Ok(size.bytes()),
        _ => {
            let most = ByteSize(MAX_LOCAL_MEMORY);
            Err(Problem::At(place, format!("`{key}` is {amount} in a scenario of steps; give a size up to {most}")))
        }
    };
    let keys: Keys = read(Spanned::new(table.span(), DeValue::Table(table.into_inner())))?;
    let ends: Vec<usize> = text.match_indices('\n').map(|(end, _)| end).collect();
    let line = |offset| ends.partition_point(|&end| end < offset) + 1;
    let steps = read_steps(steps, keys.adapter.is_physical(), line)?;
    let local_memory_bytes = bytes("local-memory", places[0], keys.adapter.local_memory_or(DEFAULT_LOCAL_MEMORY))?;
    let limit = keys.adapter.aperture_commit_limit;
    let aperture_commit_limit_bytes =
        limit.map(|limit| bytes("aperture-commit-limit", places[1], limit)).transpose()?;
    let aperture_bytes = keys.adapter.aperture.unwrap_or(DEFAULT_APERTURE).bytes();
    let Keys { name, seed, judge, strict, adapter, cost, faults, fault_at_seed, shows, .. } = keys;
    let name = name.unwrap_or_else(|| stem(path));
    Ok(ExplicitScenario {
        name,
        seed,
        fault_at_seed,
        judged_by: judge,
        strict,
        shows,
        adapter,
        cost,
        faults,
        local_memory_bytes,
        aperture_bytes,
        aperture_commit_limit_bytes,
        steps,
    })
}

/// The place of the value of a key of `[adapter]`.
fn place_in_adapter(table: &Spanned<DeTable<'_>>, key: &str) -> usize {
    let adapter = table.get_ref().get("adapter");
    let value = adapter.and_then(|adapter| adapter.get_ref().as_table()?.get(key));
    value.map_or(0, |value| value.span().start)
}

/// The name of a scenario that has only its file's.
fn stem(path: &Path) -> String {
    let printable = |c: char| if c.is_control() { char::REPLACEMENT_CHARACTER } else { c };
    path.file_stem()
        .map_or_else(|| DEFAULT_NAME.to_owned(), |stem| stem.to_string_lossy().chars().map(printable).collect())
}

/// All keys of a scenario file but `[workload]`.
#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields, default, rename_all = "kebab-case")]
struct Keys {
    #[serde(deserialize_with = "name")]
    name: Option<String>,
    #[serde(default = "first_seed", deserialize_with = "within::<_, _, 0, { u64::MAX }>")]
    seed: u64,
    judge: JudgedBy,
    strict: bool,
    #[serde(deserialize_with = "adapter")]
    adapter: AdapterSettings,
    cost: CostSettings,
    client: ClientSettings,
    #[serde(deserialize_with = "faults")]
    faults: Vec<Fault>,
    #[serde(deserialize_with = "fault_kind")]
    fault_at_seed: Option<FaultKind>,
    shows: Option<String>,
    change: Vec<Change>,
    end: Option<Duration>,
    table: Option<TableSettings>,
    check: Vec<Check>,
    compare: Option<CompareSettings>,
}

/// The seed of a scenario that names none.
fn first_seed() -> u64 {
    Scenario::default().seed
}

/// Reads the name.
fn name<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<String>, D::Error> {
    let name = String::deserialize(deserializer)?;
    if (1..=MAX_NAME).contains(&name.chars().count()) && !name.chars().any(char::is_control) {
        return Ok(Some(name));
    }
    Err(D::Error::custom(format!("a name has from 1 to {MAX_NAME} characters, on one line")))
}
