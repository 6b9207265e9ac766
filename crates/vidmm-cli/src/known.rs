//! The findings that are known.

use std::{fs, path::Path};

/// The findings that are known, by key; they do not fail a run.
#[derive(Default)]
pub struct Known(Vec<String>);

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
        Self(text.lines().map(key).filter(|key| !key.is_empty()).collect())
    }

    /// Whether a finding with this key is known.
    pub fn has(&self, key: &str) -> bool {
        self.0.iter().any(|known| known == key)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_findings_have_comments() {
        let known = Known::parse("# all of these\nBPB-40 VIRTUAL_TRANSFER  # ticket 7\n\nSHIM-LOCK\n");
        assert!(known.has("BPB-40 VIRTUAL_TRANSFER") && known.has("SHIM-LOCK") && !known.has("BPB-40"));
    }
}
