//! Models of real clients: the treatment of residency in open projects, written from descriptions of them.
//!
//! Each keeps the list of one process over the public calls alone, and without `vidmm-client`, so that the manager is
//! tried with habits that are not ours.

// A file imports only from those above it.
mod lru;
mod sync_point_lru;
mod mixed;
mod controller;

use self::{controller::Controller, mixed::Mixed, sync_point_lru::SyncPointLru};
use super::kind::ClientKind;
use super::list::ListKeeper;

/// A client that has done nothing yet.
pub(super) fn model(kind: ClientKind) -> Box<dyn ListKeeper> {
    match kind {
        ClientKind::SyncPointLru => Box::new(SyncPointLru::default()),
        ClientKind::Mixed => Box::new(Mixed::default()),
        ClientKind::MixedFixed => Box::new(Mixed::fixed()),
        ClientKind::Controller => Box::new(Controller::default()),
    }
}
