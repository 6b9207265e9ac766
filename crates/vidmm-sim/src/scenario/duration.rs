//! Times as people write them: `20 ms`, `1 s`.

use std::fmt;
use std::str::FromStr;

use serde::de::{Deserializer, Error, Visitor};
use serde::{Deserialize, Serialize, Serializer};
use vidmm::Nanoseconds;

/// The units, the largest first.
const UNITS: [(&str, Nanoseconds); 4] = [("s", 1_000_000_000), ("ms", 1_000_000), ("us", 1000), ("ns", 1)];

/// The longest time, in seconds: an hour.
const MAX_SECONDS: u64 = 3600;

/// A length of virtual time, or a point of time from the start of the run: a whole number and a unit, from `1 ns` to `3600 s`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub struct Duration {
    /// Nanoseconds.
    pub ns: Nanoseconds,
}

impl FromStr for Duration {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let digits = text.bytes().take_while(u8::is_ascii_digit).count();
        let (number, unit) = text.split_at(digits);
        let unit = UNITS.iter().find(|(name, _)| *name == unit.trim_start());
        let length = number.parse::<u64>().ok().zip(unit).and_then(|(number, (_, unit))| number.checked_mul(*unit));
        length.filter(|length| (1..=MAX_SECONDS * 1_000_000_000).contains(length)).map(|ns| Self { ns }).ok_or_else(|| {
            format!("`{text}` is no time; write a whole number and a unit, as in `20 ms`, from `1 ns` to `{MAX_SECONDS} s`")
        })
    }
}

impl<'de> Deserialize<'de> for Duration {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_str(DurationVisitor)
    }
}

impl Serialize for Duration {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// Reads a time from a string.
struct DurationVisitor;

impl Visitor<'_> for DurationVisitor {
    type Value = Duration;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a time with its unit, such as `\"20 ms\"`")
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Duration, E> {
        text.parse().map_err(E::custom)
    }
}

impl fmt::Display for Duration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (name, unit) = UNITS.into_iter().find(|(_, unit)| self.ns.is_multiple_of(*unit)).unwrap_or(("ns", 1));
        write!(f, "{} {name}", self.ns / unit)
    }
}

#[cfg(test)]
mod tests {
    use super::Duration;

    #[test]
    fn a_time_is_a_whole_number_and_a_unit() {
        let read = |text: &str| text.parse::<Duration>().ok().map(|time| time.ns);
        assert_eq!(read("20 ms"), Some(20_000_000));
        assert_eq!(read("3s"), Some(3_000_000_000));
        for wrong in ["", "20", "ms", "0 s", "1.5 s", "2 h", "3601 s", "18446744073709551615 s", "-1 s"] {
            assert_eq!(read(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn it_is_shown_in_the_largest_unit_without_a_fraction() {
        let shown = [1, 1500, 20_000_000, 2_000_000_000].map(|ns| Duration { ns }.to_string());
        assert_eq!(shown, ["1 ns", "1500 ns", "20 ms", "2 s"]);
    }
}
