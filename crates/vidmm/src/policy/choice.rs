//! The policies that come with the manager, by their names.

use alloc::{
    boxed::Box,
    string::{String, ToString},
};
use core::{fmt, str::FromStr};

use thiserror::Error;

use super::{
    Policy, clock::Clock, gdsf::Gdsf, lfu_da::LfuDa, lru_2::Lru2, predict::Predict, s3_fifo::S3Fifo, sieve::Sieve,
};

/// Candidates that `predict` looks at for each victim, unless it is told otherwise.
const SAMPLE: u32 = 64;

/// A policy that comes with the manager. Written as `NAME[:key=value]..`, such as `predict:sample=16:seed=7`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(try_from = "String", into = "String"))]
pub enum PolicyChoice {
    /// The least recently used goes first: the documented order (CRE-31a).
    #[default]
    Lru,
    /// Second chance.
    Clock,
    /// S3-FIFO.
    S3Fifo,
    /// Least frequently used with dynamic aging.
    LfuDa,
    /// SIEVE.
    Sieve,
    /// The allocation goes whose last use but one is oldest.
    Lru2,
    /// Greedy dual with size and frequency.
    Gdsf,
    /// The one goes whose next use is expected last, of some that are drawn at random.
    Predict {
        /// The number that is drawn for each victim.
        sample: u32,
        /// Draws follow from it.
        seed: u64,
    },
}

impl PolicyChoice {
    /// `predict` without parameters.
    pub const PREDICT: Self = Self::Predict { sample: SAMPLE, seed: 0 };

    /// All of them, as they are without parameters.
    pub const ALL: [Self; 8] =
        [Self::Lru, Self::Clock, Self::S3Fifo, Self::LfuDa, Self::Sieve, Self::Lru2, Self::Gdsf, Self::PREDICT];

    /// The policy; none is the documented order, in which the number of the last submission is the rank.
    pub fn policy(self) -> Option<Box<dyn Policy>> {
        Some(match self {
            Self::Lru => return None,
            Self::Clock => Box::new(Clock::default()),
            Self::S3Fifo => Box::new(S3Fifo::default()),
            Self::LfuDa => Box::new(LfuDa::default()),
            Self::Sieve => Box::new(Sieve::default()),
            Self::Lru2 => Box::new(Lru2::default()),
            Self::Gdsf => Box::new(Gdsf::default()),
            Self::Predict { sample, seed } => Box::new(Predict::new(sample, seed)),
        })
    }

    /// The seed of its draws, if it draws.
    pub fn seed(self) -> Option<u64> {
        match self {
            Self::Predict { seed, .. } => Some(seed),
            _ => None,
        }
    }

    /// The same with another seed, if it draws.
    #[must_use]
    pub fn with_seed(self, seed: u64) -> Self {
        match self {
            Self::Predict { sample, .. } => Self::Predict { sample, seed },
            _ => self,
        }
    }

    /// The same with the seed that it has without one.
    #[must_use]
    pub fn without_seed(self) -> Self {
        self.with_seed(0)
    }

    /// The name without parameters.
    pub fn name(self) -> &'static str {
        match self {
            Self::Lru => "lru",
            Self::Clock => "clock",
            Self::S3Fifo => "s3-fifo",
            Self::LfuDa => "lfu-da",
            Self::Sieve => "sieve",
            Self::Lru2 => "lru-2",
            Self::Gdsf => "gdsf",
            Self::Predict { .. } => "predict",
        }
    }
}

impl fmt::Display for PolicyChoice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Predict { sample, seed } if (sample, seed) != (SAMPLE, 0) => {
                f.write_str(self.name())?;
                if sample != SAMPLE {
                    write!(f, ":sample={sample}")?;
                }
                if seed == 0 { Ok(()) } else { write!(f, ":seed={seed}") }
            }
            choice => f.pad(choice.name()),
        }
    }
}

impl From<PolicyChoice> for String {
    fn from(choice: PolicyChoice) -> Self {
        choice.to_string()
    }
}

impl TryFrom<String> for PolicyChoice {
    type Error = PolicyError;

    fn try_from(text: String) -> Result<Self, PolicyError> {
        text.parse()
    }
}

/// A text names no policy.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
pub enum PolicyError {
    /// No policy has that name.
    #[error("`{0}` is no policy; there are lru, clock, s3-fifo, lfu-da, sieve, lru-2, gdsf and predict")]
    Name(String),
    /// It has no such parameter, or not such a value.
    #[error("`{0}` is no parameter of that policy; predict has sample=1..4096 and seed=N")]
    Parameter(String),
}

impl FromStr for PolicyChoice {
    type Err = PolicyError;

    fn from_str(text: &str) -> Result<Self, PolicyError> {
        let (name, parameters) = text.split_once(':').unwrap_or((text, ""));
        let mut choice =
            Self::ALL.into_iter().find(|choice| choice.name() == name).ok_or_else(|| PolicyError::Name(name.into()))?;
        for parameter in parameters.split(':').filter(|parameter| !parameter.is_empty()) {
            let wrong = || PolicyError::Parameter(parameter.into());
            let (key, value) = parameter.split_once('=').ok_or_else(wrong)?;
            let value: u64 = value.parse().map_err(|_| wrong())?;
            match (&mut choice, key) {
                (Self::Predict { sample, .. }, "sample") if (1..=4096).contains(&value) => *sample = value as u32,
                (Self::Predict { seed, .. }, "seed") => *seed = value,
                _ => return Err(wrong()),
            }
        }
        Ok(choice)
    }
}
