//! Write-behind in a scenario.

use serde::{Deserialize, Serialize};
use vidmm::WriteBehind;

use super::number::within;

/// Copies of written content ahead of evictions (D37): the key `write-behind` of `[adapter]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default, rename_all = "kebab-case", expecting = "a table")]
pub struct WriteBehindSettings {
    /// The part of each memory at the cold end that is to be clean at most, in percent; 0 makes no copies.
    #[serde(deserialize_with = "within::<_, _, 0, 100>")]
    pub watermark: u8,
    /// The part of the time that the copies take at most, in percent.
    #[serde(deserialize_with = "within::<_, _, 1, 100>")]
    pub link: u8,
}

impl Default for WriteBehindSettings {
    fn default() -> Self {
        Self { watermark: WriteBehind::OFF.watermark_percent, link: WriteBehind::USUAL.link_percent }
    }
}

impl From<WriteBehindSettings> for WriteBehind {
    fn from(settings: WriteBehindSettings) -> Self {
        Self { watermark_percent: settings.watermark, link_percent: settings.link }
    }
}
