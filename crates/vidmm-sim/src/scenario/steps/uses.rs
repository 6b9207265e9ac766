//! Uses by a queue that its owner runs (D25).

use std::fmt;

use serde::{Deserialize, Serialize};

use super::known::{Kind, Known};
use super::names;
use super::verb::{Verb, only_names};

only_names! {
    /// The owner's queue has ended a use.
    "end-use" => EndUse { name: String }, one Use;
}

/// A use to be begun, of all that a device's list names, by the device's self-scheduled context.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct BeginUse {
    /// Its name.
    #[serde(rename = "begin-use", with = "names")]
    pub name: String,
    /// The device; none is the default's.
    #[serde(default, with = "names", skip_serializing_if = "Option::is_none")]
    pub device: Option<String>,
}

impl Verb for BeginUse {
    fn words(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, " {}", self.name)?;
        self.device.as_ref().map_or(Ok(()), |device| write!(f, " on {device}"))
    }

    fn check(&mut self, known: &mut Known) -> Result<(), String> {
        known.optional(Kind::Device, &self.device)?;
        known.add(Kind::Use, &self.name)
    }
}
