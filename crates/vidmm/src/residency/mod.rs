//! Residency: who must be where, for whom, until when.

mod evictable;
mod list;
mod request;

pub(crate) use evictable::{DEAD_PRIORITY, Evictable, Links};
pub use list::EvictFlags;
pub(crate) use list::{Effect, Lapsing, ListBytes, ListEntry, SpanNo, SubmissionNo};
pub(crate) use request::{Request, RequestKind};
