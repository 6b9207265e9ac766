//! The source of the workload.

use std::path::PathBuf;

use serde::Deserialize;
use serde::de::{Deserializer, Error as _};
use toml::Spanned;
use toml::de::DeValue;
use vidmm_trace::{ByteSize, Generator, ImportOptions, TraceFormat};

use super::problem::Problem;
use super::submissions::SubmissionsSource;
use super::value::read;

/// The largest cache block of a serving trace, in bytes: 1 TiB.
const MAX_BLOCK_BYTES: u64 = 1 << 40;

/// The source of the workload.
#[derive(Clone, Debug)]
pub enum WorkloadSource {
    /// Generated from parameters and the scenario's seed.
    Generator(Generator),
    /// Read from a recorded trace.
    Trace(TraceSource),
    /// Drawn at random; no submission says anything about the next.
    Submissions(SubmissionsSource),
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
    /// The format, by the name; if none, the content decides.
    #[serde(default, deserialize_with = "trace_format")]
    pub format: Option<TraceFormat>,
}

impl Default for WorkloadSource {
    /// The demonstration: a small training run.
    fn default() -> Self {
        Self::Generator(Generator::default())
    }
}

impl WorkloadSource {
    /// Reads the table `[workload]`. `Generator` could read itself, but it would lose the lines of its parameters.
    pub(super) fn from_toml(mut workload: Spanned<DeValue<'_>>) -> Result<Self, Problem> {
        let start = workload.span().start;
        let DeValue::Table(table) = workload.get_mut() else {
            return Err(Problem::NoSource(start));
        };
        let has = ["kind", "trace", "submissions"].map(|key| table.contains_key(key));
        match (has, table.remove("kind")) {
            ([false, true, false], _) => Ok(Self::Trace(read(workload)?)),
            ([false, false, true], _) => Ok(Self::Submissions(read(workload)?)),
            ([true, false, false], Some(kind)) => Ok(Self::Generator(read::<Kind>(kind)?.generator(workload)?)),
            ([false, false, false], _) => Err(Problem::NoSource(start)),
            _ => Err(Problem::TwoSources(start)),
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
    Inference,
    ZipfTextures,
    RandomTouches,
}

impl Kind {
    /// Reads the generator's parameters.
    fn generator(self, parameters: Spanned<DeValue<'_>>) -> Result<Generator, toml::de::Error> {
        Ok(match self {
            Self::TransformerTraining => Generator::TransformerTraining(read(parameters)?),
            Self::LlmServing => Generator::LlmServing(read(parameters)?),
            Self::CyclicLayers => Generator::CyclicLayers(read(parameters)?),
            Self::Inference => Generator::Inference(read(parameters)?),
            Self::ZipfTextures => Generator::ZipfTextures(read(parameters)?),
            Self::RandomTouches => Generator::RandomTouches(read(parameters)?),
        })
    }
}

/// Reads the name of a format.
fn trace_format<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<TraceFormat>, D::Error> {
    String::deserialize(deserializer)?.parse().map(Some).map_err(D::Error::custom)
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
