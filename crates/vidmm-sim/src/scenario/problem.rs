//! The problems in a scenario's text, before the file and the line are known.

/// A problem with a scenario's text, without the file and the line. Offsets are in bytes.
pub(super) enum Problem {
    Toml(toml::de::Error),
    TwoSources(usize),
    NoSource(usize),
    /// The problem there, and what to write instead.
    At(usize, String),
}

impl From<toml::de::Error> for Problem {
    fn from(error: toml::de::Error) -> Self {
        Self::Toml(error)
    }
}
