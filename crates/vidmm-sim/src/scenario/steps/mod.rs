//! The steps of an explicit scenario: one call each, with the answer that is expected.
//!
//! ```toml
//! [[step]]
//! create-allocation = "A"
//! size = "16 MiB"
//! segments = "system"
//! notify = ["eviction"]
//!
//! [[step]]
//! make-resident = "A"
//! expect = "pending"
//! ```
//!
//! A step is a table whose verb is one of its keys; the verb's value names the objects of the call. Steps that create
//! objects give them names for later steps. A process `P` with a device `D` exists unless steps say otherwise.

// A file imports only from those above it.
mod answer;
mod answered;
mod list;
mod names;
mod until;
mod known;
mod verb;
mod objects;
mod addresses;
mod residency;
mod budget;
mod kernel;
mod life;
mod render;
mod uses;
mod fault;
mod look;
mod call;
mod check;
mod read;

use serde::Serialize;

pub use addresses::*;
pub use answer::Answer;
pub(crate) use answered::{Answered, Undone};
pub use budget::*;
pub use call::{Action, Call, Look};
pub(crate) use call::{Make, See};
pub(super) use check::{check_steps, drop_orphans};
pub use fault::*;
pub use kernel::*;
pub use life::*;
pub use look::*;
pub use objects::*;
pub(super) use read::read_steps;
pub use render::*;
pub use residency::*;
pub use until::Until;
pub use uses::*;

/// The device of steps that name none.
pub const DEFAULT_DEVICE: &str = "D";

/// The process of devices that name none.
pub const DEFAULT_PROCESS: &str = "P";

/// A call or a look, and the expected answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Step {
    /// The line of its table in the file, counted from 1.
    #[serde(skip)]
    pub line: usize,
    /// The action.
    #[serde(flatten)]
    pub action: Action,
    /// The expected answer; none is any answer but a refusal.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expect: Option<Answer>,
}
