//! Times of a scenario file.

use std::fmt;

use serde::Deserialize;
use serde::de::{Deserializer, Error, Visitor};

/// The longest time, in nanoseconds: a day.
const MAX: u64 = 24 * 3600 * 1_000_000_000;

/// The units of time, in nanoseconds.
const UNITS: [(&str, u64); 4] = [("ns", 1), ("us", 1_000), ("ms", 1_000_000), ("s", 1_000_000_000)];

/// A time, or a point of time from the start of the run: `1.5 s`, `20 ms`, or a number of nanoseconds.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub struct Duration {
    /// Nanoseconds.
    pub ns: u64,
}

impl Duration {
    fn parse(text: &str) -> Option<Self> {
        let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
        let (number, unit) = (&text[..end], text[end..].trim());
        let (_, factor) = UNITS.into_iter().find(|(name, _)| *name == unit)?;
        let ns = number.parse::<f64>().ok()? * factor as f64;
        (0.0..=MAX as f64).contains(&ns).then(|| Self { ns: ns.round() as u64 })
    }
}

impl<'de> Deserialize<'de> for Duration {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(DurationVisitor)
    }
}

struct DurationVisitor;

impl Visitor<'_> for DurationVisitor {
    type Value = Duration;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a time such as `2 s` or `20 ms`, or nanoseconds")
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Duration, E> {
        let wrong =
            || E::custom(format!("`{text}` is no time; write one up to a day such as `1.5 s`, `20 ms` or `500 us`"));
        Duration::parse(text.trim()).ok_or_else(wrong)
    }

    fn visit_u64<E: Error>(self, ns: u64) -> Result<Duration, E> {
        self.visit_str(&format!("{ns} ns"))
    }

    fn visit_i64<E: Error>(self, ns: i64) -> Result<Duration, E> {
        self.visit_str(&format!("{ns} ns"))
    }
}
