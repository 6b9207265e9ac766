//! The size of local memory in a run.

use std::fmt;
use std::str::FromStr;

use serde::de::{Deserialize, Deserializer};
use serde::ser::{Serialize, Serializer};

use super::text::{Number, SizeVisitor};
use super::{ByteSize, SizeError};

/// One percent, in the hundredths that [`LocalMemory::Percent`] counts.
const PERCENT: u64 = 100;

/// The largest share: a thousand times the workload's need.
const MAX_PERCENT: u64 = 100_000;

/// The size of local memory in a run: a size, or a share of the workload's need.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LocalMemory {
    /// This many bytes.
    Bytes(ByteSize),
    /// This share of the workload's peak footprint, in hundredths of a percent: 5000 is half.
    Percent(u32),
}

impl LocalMemory {
    /// Returns the bytes of local memory for a workload that needs `footprint` bytes; a share is
    /// rounded down.
    pub fn bytes_of(self, footprint: u64) -> u64 {
        match self {
            Self::Bytes(size) => size.bytes(),
            Self::Percent(hundredths) => {
                let whole = u128::from(100 * PERCENT);
                let bytes = u128::from(footprint) * u128::from(hundredths) / whole;
                u64::try_from(bytes).unwrap_or(u64::MAX)
            }
        }
    }
}

impl FromStr for LocalMemory {
    type Err = SizeError;

    /// Reads a share, which ends in `%`, or a size.
    ///
    /// # Errors
    ///
    /// Returns a [`SizeError`] that quotes the text and says what is accepted. Nothing at all and
    /// more than 100000% are refused, and so are negative amounts.
    fn from_str(text: &str) -> Result<Self, SizeError> {
        let trimmed = text.trim();
        if trimmed.starts_with('-') {
            return Err(SizeError::NoLocalMemory(text.to_owned()));
        }
        match trimmed.strip_suffix('%') {
            Some(share) => parse_share(share, text),
            None => parse_bytes(text),
        }
    }
}

/// Reads the number before the `%`.
fn parse_share(share: &str, text: &str) -> Result<LocalMemory, SizeError> {
    let Some((number, "")) = Number::split(share) else {
        return Err(SizeError::NotLocalMemory(text.to_owned()));
    };
    let hundredths = number.times(PERCENT).filter(|_| number.is_whole_times(PERCENT));
    match hundredths {
        Some(0) => Err(SizeError::NoLocalMemory(text.to_owned())),
        Some(hundredths) if hundredths <= MAX_PERCENT * PERCENT => Ok(LocalMemory::Percent(hundredths as u32)),
        _ => Err(SizeError::BadShare(text.to_owned())),
    }
}

/// Reads a size above 0.
fn parse_bytes(text: &str) -> Result<LocalMemory, SizeError> {
    match text.parse() {
        Ok(ByteSize(0)) => Err(SizeError::NoLocalMemory(text.to_owned())),
        Ok(size) => Ok(LocalMemory::Bytes(size)),
        Err(SizeError::NotASize(_)) => Err(SizeError::NotLocalMemory(text.to_owned())),
        Err(error) => Err(error),
    }
}

impl fmt::Display for LocalMemory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = match *self {
            Self::Bytes(size) => size.to_string(),
            Self::Percent(hundredths) => {
                let text = format!("{}.{:02}", hundredths / 100, hundredths % 100);
                format!("{}%", text.trim_end_matches('0').trim_end_matches('.'))
            }
        };
        f.pad(&text)
    }
}

impl Serialize for LocalMemory {
    /// Writes a share as its text, and a size as the exact number of bytes.
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Bytes(size) => size.serialize(serializer),
            Self::Percent(_) => serializer.collect_str(self),
        }
    }
}

impl<'de> Deserialize<'de> for LocalMemory {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let expected = "a share such as `50%`, or a size such as `24GiB`, or bytes";
        deserializer.deserialize_any(SizeVisitor::new(expected))
    }
}
