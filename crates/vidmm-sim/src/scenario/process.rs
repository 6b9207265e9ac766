//! The tables `[[process]]`: several processes in one run.

use serde::Deserialize;
use serde::de::{Deserializer, Error as _};
use toml::Spanned;
use toml::de::{DeTable, DeValue};
use vidmm::{PriorityBand, Visibility};

use super::client::ClientSettings;
use super::duration::Duration;
use super::number::within;
use super::problem::Problem;
use super::source::WorkloadSource;
use super::value::read;
use crate::client::{ClientDesc, ClientKind, Lifetimes, Misbehaviour, Misdeed, ResidencyPolicy};

/// The number of tables, and of processes of one table, at most.
const MAX_PROCESSES: usize = 1000;

/// The keys of the table that do not belong to its workload.
const KEYS: [&str; 15] = [
    "name",
    "count",
    "start",
    "compress-arrivals",
    "band",
    "visibility",
    "ahead",
    "announces",
    "client",
    "residency",
    "lifetimes",
    "paced",
    "recovers",
    "misbehaves",
    "every",
];

/// One process of a run, or several that are alike: a workload of its own, and how it behaves.
#[derive(Clone, Debug, Default)]
pub struct ProcessSettings {
    /// The source of its workload.
    pub source: WorkloadSource,
    /// Its behaviour.
    pub behaviour: ProcessBehaviour,
}

/// The behaviour of a process. A key that is left out has the value of `[client]`.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, default, rename_all = "kebab-case", expecting = "a table")]
pub struct ProcessBehaviour {
    /// The name in reports; by default its client's, or else its workload's.
    #[serde(deserialize_with = "name")]
    pub name: Option<String>,
    /// The number of processes like this, each with a seed of its own.
    #[serde(deserialize_with = "within::<_, _, 1, 1000>")]
    pub count: u32,
    /// When it begins; its arrivals count from then.
    pub start: Duration,
    /// The divisor of its arrival times: a recorded hour then passes in seconds.
    #[serde(deserialize_with = "within::<_, _, 1, 1_000_000_000>")]
    pub compress_arrivals: u64,
    /// Its priority band.
    pub band: PriorityBand,
    /// Its visibility to the user.
    pub visibility: Visibility,
    /// Kernels submitted ahead of the running kernel.
    #[serde(deserialize_with = "optional_ahead")]
    pub ahead: Option<u32>,
    /// Kernels behind the last submitted kernel whose buffers the process announces.
    #[serde(deserialize_with = "optional_ahead")]
    pub announces: Option<u32>,
    /// The real client whose treatment of its residency list and of the places of buffers it has.
    pub client: Option<ClientKind>,
    /// The treatment of its residency list; a `client` has its own.
    pub residency: Option<ResidencyPolicy>,
    /// The treatment of a buffer behind its last use.
    pub lifetimes: Option<Lifetimes>,
    /// Whether it is paced by its display, as a game is: a frame that cannot be submitted in time delays all that
    /// follow, and while the process is minimised no frame arrives.
    pub paced: bool,
    /// Whether it creates another device when its own is in error through no fault of its own, loads its content again,
    /// and goes on.
    pub recovers: bool,
    /// The mistake that it makes again and again, and survives.
    pub misbehaves: Option<Misdeed>,
    /// The time between two mistakes.
    pub every: Option<Duration>,
}

impl Default for ProcessBehaviour {
    /// One process that begins at once, and behaves as `[client]` says.
    fn default() -> Self {
        Self {
            name: None,
            count: 1,
            start: Duration::default(),
            compress_arrivals: 1,
            band: PriorityBand::default(),
            visibility: Visibility::default(),
            ahead: None,
            announces: None,
            client: None,
            residency: None,
            lifetimes: None,
            paced: false,
            recovers: false,
            misbehaves: None,
            every: None,
        }
    }
}

impl ProcessBehaviour {
    /// The process, with the settings of the scenario for all processes.
    pub(super) fn client(&self, name: &str, client: &ClientSettings, base: &ClientDesc) -> ClientDesc {
        ClientDesc {
            name: self.name.as_deref().unwrap_or(self.client.map_or(name, |client| client.name())).to_owned(),
            start: self.start.ns,
            ahead: self.ahead.unwrap_or(client.ahead) as usize,
            announces: self.announces.unwrap_or(client.announces) as usize,
            residency: self.client.map(ResidencyPolicy::Modelled).or(self.residency).unwrap_or(client.residency),
            lifetimes: self.lifetimes.unwrap_or(client.lifetimes),
            band: self.band,
            visibility: self.visibility,
            paced: self.paced,
            recovers: self.recovers,
            misbehaviour: self
                .misbehaves
                .zip(self.every)
                .map(|(misdeed, every)| Misbehaviour { misdeed, every: every.ns }),
            ..base.clone()
        }
    }
}

/// Reads the tables `[[process]]`.
pub(super) fn read_processes(tables: Spanned<DeValue<'_>>) -> Result<Vec<ProcessSettings>, Problem> {
    let start = tables.span().start;
    let DeValue::Array(tables) = tables.into_inner() else {
        return Err(Problem::At(start, "`process` is a list of tables; write `[[process]]` above each".to_owned()));
    };
    if tables.is_empty() || tables.len() > MAX_PROCESSES {
        return Err(Problem::At(start, format!("a run has from 1 to {MAX_PROCESSES} tables `[[process]]`")));
    }
    tables.into_iter().map(read_process).collect()
}

/// Takes the keys of the process out of its table; the rest are those of its workload.
fn read_process(mut process: Spanned<DeValue<'_>>) -> Result<ProcessSettings, Problem> {
    let span = process.span();
    let DeValue::Table(table) = process.get_mut() else {
        return Err(Problem::At(span.start, "a process is a table; write `[[process]]` above its keys".to_owned()));
    };
    if let (Some(_), Some(residency)) = (table.get("client"), table.get("residency")) {
        let both = "a process has a `client`, which keeps its list in its own way, and a `residency`; keep one of them";
        return Err(Problem::At(residency.span().start, both.to_owned()));
    }
    let half = match (table.get("misbehaves"), table.get("every")) {
        (Some(misdeed), None) => {
            Some((misdeed, "a process that misbehaves does so `every` so often, as in `\"50 ms\"`"))
        }
        (None, Some(every)) => Some((every, "`every` is how often a process `misbehaves`; say what it does")),
        _ => None,
    };
    if let Some((value, message)) = half {
        return Err(Problem::At(value.span().start, message.to_owned()));
    }
    let mut behaviour = DeTable::new();
    for (key, value) in KEYS.iter().filter_map(|&key| table.remove_entry(key)) {
        behaviour.insert(key, value);
    }
    let behaviour = Spanned::new(span, DeValue::Table(behaviour));
    let behaviour = read(behaviour)?;
    Ok(ProcessSettings { source: WorkloadSource::from_toml(process)?, behaviour })
}

/// Reads the name of a process.
fn name<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<String>, D::Error> {
    let name = String::deserialize(deserializer)?;
    if (1..=20).contains(&name.chars().count()) && !name.chars().any(char::is_control) {
        return Ok(Some(name));
    }
    Err(D::Error::custom("the name of a process has from 1 to 20 characters, on one line"))
}

/// Reads the number of kernels to submit ahead, or to announce.
fn optional_ahead<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<u32>, D::Error> {
    within::<_, _, 0, 1024>(deserializer).map(Some)
}
