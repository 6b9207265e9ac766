//! The end of a wait.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::scenario::duration::Duration;

/// The end of a wait.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(from = "String", into = "String")]
pub enum Until {
    /// The time when nothing is under way or waiting.
    Idle,
    /// The time when nothing more happens by itself.
    Quiet,
    /// The time when everything is in system memory, and the adapter may lose power.
    PoweredDown,
    /// After so long.
    For(Duration),
    /// The end of a kernel.
    Kernel(String),
}

impl fmt::Display for Until {
    /// The spelling in scenarios.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Idle => f.write_str("idle"),
            Self::Quiet => f.write_str("quiet"),
            Self::PoweredDown => f.write_str("powered-down"),
            Self::For(duration) => duration.fmt(f),
            Self::Kernel(name) => f.write_str(name),
        }
    }
}

impl From<Until> for String {
    fn from(until: Until) -> Self {
        until.to_string()
    }
}

impl From<String> for Until {
    fn from(text: String) -> Self {
        match text.as_str() {
            "idle" => Self::Idle,
            "quiet" => Self::Quiet,
            "powered-down" => Self::PoweredDown,
            _ => text.parse().map_or(Self::Kernel(text), Self::For),
        }
    }
}
