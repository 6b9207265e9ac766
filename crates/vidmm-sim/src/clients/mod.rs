//! Models of clients that exist: what open projects do about residency, written from descriptions of them.
//!
//! Each decides for one process what is resident when, over the public calls alone, and without `vidmm::client`: they try the
//! manager with habits that are not ours.

// A file imports only from those above it.
mod model;
mod lru;
mod sync_point_lru;
mod mixed;
mod controller;
mod kind;
mod process;
mod touches;

pub use kind::ClientKind;
pub use model::{ClientModel, ModelDevice, ModelError, Prepared, Use};
pub use process::{ModelProcess, ModelProcessDesc};
pub use touches::RandomTouches;
