//! Workloads made from a few parameters and a seed.
//!
//! They stand in for traces that nobody has recorded, and make demonstrations and tests need no
//! files. The same parameters and seed always give the same workload.

pub mod cyclic;
pub mod inference;
pub mod serving;
pub mod textures;
pub mod touches;
pub mod training;

mod builder;
mod check;
mod random;

use serde::{Deserialize, Serialize};

use crate::{Workload, WorkloadError};

pub use cyclic::CyclicParams;
pub use inference::InferenceParams;
pub use random::SplitMix64;
pub use serving::ServingParams;
pub use textures::TexturesParams;
pub use touches::TouchesParams;
pub use training::TrainingParams;

/// A generator and its parameters, as a scenario file writes them: `kind` names the generator, and
/// every parameter left out has its default.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum Generator {
    /// Training a transformer, layer by layer.
    TransformerTraining(TrainingParams),
    /// Serving an LLM from a cache of blocks.
    LlmServing(ServingParams),
    /// Reading the same layers again and again.
    CyclicLayers(CyclicParams),
    /// Answering requests, and being idle in between.
    Inference(InferenceParams),
    /// Rendering frames from textures of very different popularity.
    ZipfTextures(TexturesParams),
    /// Reading and rewriting buffers at random.
    RandomTouches(TouchesParams),
}

impl Default for Generator {
    /// The embedded demonstration: a small training run.
    fn default() -> Self {
        Self::TransformerTraining(TrainingParams::default())
    }
}

impl Generator {
    /// Makes the workload. It passes [`Workload::validate`], and its uploads are inserted.
    ///
    /// # Errors
    ///
    /// Returns [`WorkloadError::Parameter`] for a parameter out of range, and
    /// [`WorkloadError::TooMany`], [`WorkloadError::TooLarge`] or [`WorkloadError::Overflow`] where
    /// the parameters together ask for too much.
    pub fn generate(&self, seed: u64) -> Result<Workload, WorkloadError> {
        match self {
            Self::TransformerTraining(params) => training::generate(params, seed),
            Self::LlmServing(params) => serving::generate(params, seed),
            Self::CyclicLayers(params) => cyclic::generate(params, seed),
            Self::Inference(params) => inference::generate(params),
            Self::ZipfTextures(params) => textures::generate(params, seed),
            Self::RandomTouches(params) => touches::generate(params, seed),
        }
    }

    /// Returns the generator's kind, which is also the name of its workloads.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::TransformerTraining(_) => training::KIND,
            Self::LlmServing(_) => serving::KIND,
            Self::CyclicLayers(_) => cyclic::KIND,
            Self::Inference(_) => inference::KIND,
            Self::ZipfTextures(_) => textures::KIND,
            Self::RandomTouches(_) => touches::KIND,
        }
    }
}
