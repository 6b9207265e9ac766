//! The clients that are modelled, by name.

use serde::{Deserialize, Serialize};

/// A real client, modelled by its treatment of residency.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum ClientKind {
    /// A residency library for engines: an LRU list trimmed by age and to sync points. It goes over its budget when one
    /// submission needs more.
    SyncPointLru,
    /// A portable layer that keeps lists for local memory and for the rest, and forgets one when both are needed.
    Mixed,
    /// The same layer without the mistake.
    MixedFixed,
    /// A compute driver's controller, with trim call-backs and a ladder of five rungs.
    Controller,
}

impl ClientKind {
    /// Its name in scenarios.
    pub fn name(self) -> &'static str {
        match self {
            Self::SyncPointLru => "sync-point-lru",
            Self::Mixed => "mixed",
            Self::MixedFixed => "mixed-fixed",
            Self::Controller => "controller",
        }
    }

    /// Whether this client wants its buffer of this number in system memory.
    pub(super) fn wants_system(self, buffer: u32) -> bool {
        self.has_two_groups() && buffer % 3 == 2
    }

    /// Whether this client keeps some of its buffers in system memory.
    pub(super) fn has_two_groups(self) -> bool {
        matches!(self, Self::Mixed | Self::MixedFixed)
    }
}
