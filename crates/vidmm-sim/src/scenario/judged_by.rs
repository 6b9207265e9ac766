//! What a scenario of steps is judged by.

use serde::{Deserialize, Serialize};

/// What a scenario of steps is judged by.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum JudgedBy {
    /// By what its steps expect: a step without `expect` must not be refused, and a device in error is expected by a step.
    #[default]
    Expectations,
    /// By the rules that every run keeps to: the log of events is audited. Refusals and errors are no findings by themselves,
    /// and a step that names what was never made is passed over.
    Rules,
}
