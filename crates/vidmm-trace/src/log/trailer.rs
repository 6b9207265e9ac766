//! The last line of a log, by which it is known to be whole.

use serde::{Deserialize, Serialize};

/// How a trailer begins, and no other line.
pub(super) const TRAILER_MARK: &[u8] = b"{\"vidmm_events_end\"";

/// The last line of a log: the lines before it. A run that crashed has none.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(super) struct Trailer {
    /// The number of events. It marks the line as the trailer, so it is written first.
    #[serde(rename = "vidmm_events_end")]
    pub events: u64,
    /// The CRC-32 of all bytes before the trailer. It finds accidents, not forgers.
    pub crc32: u32,
}
