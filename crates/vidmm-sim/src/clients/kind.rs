//! The models by name.

use serde::Deserialize;
use vidmm_runtime::AllocationSegments;

use super::{controller::Controller, mixed::Mixed, model::ClientModel, sync_point_lru::SyncPointLru};

/// A client that can be modelled.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ClientKind {
    /// A residency library for engines: an LRU list trimmed by age and to sync points. It goes over its budget when one
    /// submission needs more.
    SyncPointLru,
    /// A portable layer that keeps lists for local memory and for the rest, and forgets one when both are needed.
    Mixed,
    /// The same without the mistake.
    MixedFixed,
    /// A compute driver's controller, with trim call-backs and a ladder of five rungs.
    Controller,
}

impl ClientKind {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::SyncPointLru, Self::Mixed, Self::MixedFixed, Self::Controller];

    /// A client that has done nothing yet.
    pub fn model(self) -> Box<dyn ClientModel> {
        match self {
            Self::SyncPointLru => Box::new(SyncPointLru::default()),
            Self::Mixed => Box::new(Mixed::default()),
            Self::MixedFixed => Box::new(Mixed::fixed()),
            Self::Controller => Box::new(Controller::default()),
        }
    }

    /// Where such a client has its buffer of this number.
    pub fn segments(self, buffer: u32) -> AllocationSegments {
        match self {
            Self::Mixed | Self::MixedFixed if buffer % 3 == 2 => AllocationSegments::System,
            _ => AllocationSegments::Local,
        }
    }
}
