//! Amounts of memory: a size, a share of the workload's need, or none.

use std::fmt;

use serde::de::{Deserializer, Error, Visitor};
use vidmm_trace::{ByteSize, LocalMemory};

/// No memory at all.
pub(super) const NONE: LocalMemory = LocalMemory::Bytes(ByteSize(0));

/// Reads an amount of local memory: a size or a share as [`LocalMemory`] reads it, or `0`, which is a machine without local
/// memory.
///
/// # Errors
///
/// Returns the error of [`LocalMemory`] for the text.
pub fn local_memory(text: &str) -> Result<LocalMemory, String> {
    match text.parse::<ByteSize>() {
        Ok(ByteSize(0)) => Ok(NONE),
        _ => text.parse().map_err(|error: vidmm_trace::SizeError| error.to_string()),
    }
}

/// Reads `local-memory`.
pub(super) fn optional_local_memory<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<LocalMemory>, D::Error> {
    deserializer.deserialize_any(AmountVisitor(local_memory)).map(Some)
}

/// Reads `aperture-commit-limit`.
pub(super) fn optional_commit_limit<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<LocalMemory>, D::Error> {
    deserializer.deserialize_any(AmountVisitor(commit_limit)).map(Some)
}

fn commit_limit(text: &str) -> Result<LocalMemory, String> {
    let wrong = |_: vidmm_trace::SizeError| {
        format!(
            "`{text}` is no commit limit; write a share of what the workload needs, as in `50%`, or a size, as in `512 MiB`"
        )
    };
    text.parse().map_err(wrong)
}

/// Reads an amount from a string, or from an integer, which is a number of bytes.
struct AmountVisitor(fn(&str) -> Result<LocalMemory, String>);

impl Visitor<'_> for AmountVisitor {
    type Value = LocalMemory;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a share such as `50%`, or a size such as `24GiB`, or bytes")
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<LocalMemory, E> {
        self.0(text).map_err(E::custom)
    }

    fn visit_u64<E: Error>(self, bytes: u64) -> Result<LocalMemory, E> {
        self.visit_str(&bytes.to_string())
    }

    fn visit_i64<E: Error>(self, bytes: i64) -> Result<LocalMemory, E> {
        self.visit_str(&bytes.to_string())
    }
}
