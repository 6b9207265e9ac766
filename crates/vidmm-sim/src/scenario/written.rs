//! Writing a scenario of steps, so that it can be read again.

use serde::Serialize;
use toml::{Table, Value};
use vidmm_trace::{ByteSize, LocalMemory};

use super::adapter::{AdapterSettings, DEFAULT_APERTURE};
use super::explicit::{DEFAULT_LOCAL_MEMORY, ExplicitScenario};
use super::fault::{Fault, FaultKind};
use super::judged_by::JudgedBy;
use super::keys::is_default;
use super::steps::Step;

/// A scenario of steps, by the keys of its file.
#[derive(Serialize)]
#[serde(rename_all = "kebab-case")]
struct Written<'a> {
    name: &'a str,
    seed: u64,
    #[serde(skip_serializing_if = "is_default")]
    judge: JudgedBy,
    #[serde(skip_serializing_if = "is_default")]
    strict: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    shows: Option<&'a str>,
    #[serde(skip_serializing_if = "<[Fault]>::is_empty")]
    faults: &'a [Fault],
    #[serde(skip_serializing_if = "Option::is_none")]
    fault_at_seed: Option<&'a str>,
    #[serde(skip_serializing_if = "Table::is_empty")]
    adapter: Table,
    #[serde(skip_serializing_if = "Table::is_empty")]
    cost: Table,
    #[serde(rename = "step")]
    steps: &'a [Step],
}

impl ExplicitScenario {
    /// The text of a scenario file that is read as this scenario, but for the lines of its steps. Keys with their
    /// default are left out, but for the name and the seed. Sizes are exact.
    ///
    /// A value that no file can have is written as it is, and refused when it is read. [`check`](Self::check) finds the
    /// mistakes of steps.
    ///
    /// # Panics
    ///
    /// If [`steps`](Self::steps) is empty: a file without steps is a workload.
    pub fn to_toml(&self) -> String {
        assert!(!self.steps.is_empty(), "a scenario of steps has steps");
        let keys = || {
            toml::to_string(&Written {
                name: &self.name,
                seed: self.seed,
                judge: self.judged_by,
                strict: self.strict,
                shows: self.shows.as_deref(),
                faults: &self.faults,
                fault_at_seed: self.fault_at_seed.map(FaultKind::name),
                adapter: without_defaults(&self.adapter_as_sized())?,
                cost: without_defaults(&self.cost)?,
                steps: &self.steps,
            })
        };
        keys().expect("every value of a scenario has a form in TOML")
    }

    /// The adapter with the sizes of its memory, which the scenario keeps beside it.
    fn adapter_as_sized(&self) -> AdapterSettings {
        let mut adapter = self.adapter.clone();
        let bytes = |bytes| LocalMemory::Bytes(ByteSize(bytes));
        if adapter.local_memory_or(DEFAULT_LOCAL_MEMORY) != bytes(self.local_memory_bytes) {
            adapter.local_memory = Some(bytes(self.local_memory_bytes));
        }
        if adapter.aperture.unwrap_or(DEFAULT_APERTURE) != ByteSize(self.aperture_bytes) {
            adapter.aperture = Some(ByteSize(self.aperture_bytes));
        }
        adapter.aperture_commit_limit = self.aperture_commit_limit_bytes.map(bytes);
        adapter
    }
}

/// The keys of a table that differ from its default.
fn without_defaults<T: Serialize + Default>(settings: &T) -> Result<Table, toml::ser::Error> {
    let [mut table, default] = [Table::try_from(settings)?, Table::try_from(T::default())?];
    remove_same(&mut table, &default);
    Ok(table)
}

fn remove_same(table: &mut Table, default: &Table) {
    table.retain(|key, value| {
        let default = default.get(key);
        if let (Value::Table(table), Some(Value::Table(default))) = (&mut *value, default) {
            remove_same(table, default);
            return !table.is_empty();
        }
        Some(&*value) != default
    });
}
