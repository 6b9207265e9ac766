//! The findings that are known.

use std::{fs, path::Path};

/// The findings that are known, by key, each with its line; they do not fail a run.
#[derive(Default)]
pub struct Known(Vec<(usize, String)>);

impl Known {
    /// Reads a file, if there is one.
    pub fn read(path: Option<&Path>) -> Result<Self, String> {
        let Some(path) = path else { return Ok(Self::default()) };
        let text = fs::read_to_string(path).map_err(|error| format!("cannot read `{}`: {error}", path.display()))?;
        Ok(Self::parse(&text))
    }

    /// Reads the text of a file: a key on each line, and comments from `#` on.
    pub fn parse(text: &str) -> Self {
        let key = |line: &str| line.split('#').next().unwrap_or_default().trim().to_owned();
        Self((1..).zip(text.lines().map(key)).filter(|(_, key)| !key.is_empty()).collect())
    }

    /// Refuses keys that no finding can have.
    ///
    /// # Errors
    ///
    /// The number of the first line with such a key, and the key.
    pub fn must_be(&self, is_key: impl Fn(&str) -> bool) -> Result<(), (usize, &str)> {
        self.0.iter().find(|(_, key)| !is_key(key)).map_or(Ok(()), |(line, key)| Err((*line, key)))
    }

    /// Whether a finding with this key is known.
    pub fn has(&self, key: &str) -> bool {
        self.0.iter().any(|(_, known)| known == key)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_findings_have_comments() {
        let known = Known::parse("# all of these\nBPB-40 VIRTUAL_TRANSFER  # ticket 7\n\nSHIM-LOCK\n");
        assert!(known.has("BPB-40 VIRTUAL_TRANSFER") && known.has("SHIM-LOCK") && !known.has("BPB-40"));
        assert_eq!(known.must_be(|key| key != "SHIM-LOCK"), Err((4, "SHIM-LOCK")));
        assert_eq!(known.must_be(|_| true), Ok(()));
    }
}
