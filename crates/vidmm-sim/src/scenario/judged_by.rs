//! The judge of a scenario of steps.

use serde::{Deserialize, Serialize};

/// The judge of a scenario of steps.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum JudgedBy {
    /// The steps' expectations: a step without `expect` must not be refused, and a step must expect each device in
    /// error.
    #[default]
    Expectations,
    /// The rules that every run keeps to: the log of events is audited. Refusals and errors are no findings by
    /// themselves, and a step that names an object which was never made is passed over.
    Rules,
}
