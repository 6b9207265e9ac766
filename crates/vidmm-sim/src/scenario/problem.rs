//! What is wrong with a scenario's text, before the file and the line are known.

/// What is wrong with a scenario's text, without the file and the line. Offsets are in bytes.
pub(super) enum Problem {
    Toml(toml::de::Error),
    TwoSources(usize),
    NoSource(usize),
    /// What is wrong there, and what to write instead.
    At(usize, String),
}

impl From<toml::de::Error> for Problem {
    fn from(error: toml::de::Error) -> Self {
        Self::Toml(error)
    }
}
