//! Scenario files.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use serde::Deserialize;
use serde::de::{Deserializer, Error as _};
use toml::de::DeTable;

use super::adapter::AdapterSettings;
use super::client::ClientSettings;
use super::cost::CostSettings;
use super::definition::{DEFAULT_NAME, Scenario};
use super::error::ScenarioError;
use super::fault::{Fault, faults};
use super::limits::MAX_FILE_BYTES;
use super::number::within;
use super::page_tables::adapter;
use super::problem::Problem;
use super::source::WorkloadSource;

/// The longest name, in characters.
const MAX_NAME: usize = 100;

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
        let Scenario { name: _, seed, adapter, cost, client, source: _, faults } = Scenario::default();
        Self { name: None, seed, adapter, cost, client, faults }
    }
}

impl Keys {
    fn into_scenario(self, name: String, source: WorkloadSource) -> Scenario {
        let Self { name: _, seed, adapter, cost, client, faults } = self;
        Scenario { name, seed, adapter, cost, client, source, faults }
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
