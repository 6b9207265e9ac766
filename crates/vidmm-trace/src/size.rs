//! Sizes as people write them: `24GiB`, `512 MiB`, `50%`.

mod local;
mod text;

pub use local::LocalMemory;

use std::fmt;
use std::str::FromStr;

use serde::de::{Deserialize, Deserializer};
use serde::ser::{Serialize, Serializer};

use text::{Number, SizeVisitor};

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;
const TIB: u64 = 1 << 40;

/// The reason why a size is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SizeError {
    /// The text is not a size.
    #[error(
        "`{0}` is not a size; write bytes as in `512`, or a number and a binary unit as in `64KiB`, \
         `512 MiB`, `1.5G`, `2T`"
    )]
    NotASize(String),
    /// The text is a size with a decimal unit, which has two meanings.
    #[error("`{0}` has a decimal unit; sizes are binary: write KiB, MiB, GiB or TiB")]
    DecimalUnit(String),
    /// The size does not fit 64 bits.
    #[error("`{0}` is too large; the largest size is below 16777216TiB")]
    TooLarge(String),
    /// The text is neither a size nor a share.
    #[error(
        "`{0}` is not an amount of local memory; write a share of what the workload needs, as in \
         `50%` or `12.5%`, or a size, as in `24GiB` or `512 MiB`"
    )]
    NotLocalMemory(String),
    /// The share is out of range or too fine.
    #[error("`{0}` is not a usable share; it must be from 0.01% to 100000%, with two decimals at most")]
    BadShare(String),
    /// There would be no local memory.
    #[error("local memory of `{0}` holds nothing; give a size or a share above 0")]
    NoLocalMemory(String),
}

/// A number of bytes, read from text such as `512`, `64KiB`, `24 GiB` or `1.5G`.
///
/// Units are binary, and their letter case does not matter; `k`, `M`, `G` and `T` may leave out the
/// `iB`. A fraction of a byte is dropped. `KB`, `MB`, `GB` and `TB` are refused, because they mean
/// different sizes to different people.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ByteSize(pub u64);

impl ByteSize {
    /// Returns the size of `count` KiB, saturated at the largest size.
    pub const fn kib(count: u64) -> Self {
        Self(count.saturating_mul(KIB))
    }

    /// Returns the size of `count` MiB, saturated at the largest size.
    pub const fn mib(count: u64) -> Self {
        Self(count.saturating_mul(MIB))
    }

    /// Returns the size of `count` GiB, saturated at the largest size.
    pub const fn gib(count: u64) -> Self {
        Self(count.saturating_mul(GIB))
    }

    /// Returns the number of bytes.
    pub const fn bytes(self) -> u64 {
        self.0
    }
}

impl FromStr for ByteSize {
    type Err = SizeError;

    /// Reads a size, or a sum of sizes, such as `1 GiB + 4 KiB`.
    ///
    /// # Errors
    ///
    /// Returns [`SizeError::NotASize`], [`SizeError::DecimalUnit`] or [`SizeError::TooLarge`], which
    /// quote the text and say what is accepted.
    fn from_str(text: &str) -> Result<Self, SizeError> {
        if text.contains('+') {
            let whole = |error| match error {
                SizeError::NotASize(_) => SizeError::NotASize(text.to_owned()),
                of_part => of_part,
            };
            let mut parts = text.split('+').map(|part| part.trim().parse::<Self>().map_err(whole));
            return parts.try_fold(Self(0), |Self(sum), part| {
                sum.checked_add(part?.0).map(Self).ok_or_else(|| SizeError::TooLarge(text.to_owned()))
            });
        }
        let not_a_size = || SizeError::NotASize(text.to_owned());
        let (number, unit) = Number::split(text).ok_or_else(not_a_size)?;
        let unit = match unit.to_ascii_lowercase().as_str() {
            "" | "b" if number.decimals > 0 => return Err(not_a_size()),
            "" | "b" => 1,
            "k" | "kib" => KIB,
            "m" | "mib" => MIB,
            "g" | "gib" => GIB,
            "t" | "tib" => TIB,
            "kb" | "mb" | "gb" | "tb" => return Err(SizeError::DecimalUnit(text.to_owned())),
            _ => return Err(not_a_size()),
        };
        number.times(unit).map(Self).ok_or_else(|| SizeError::TooLarge(text.to_owned()))
    }
}

impl fmt::Display for ByteSize {
    /// Writes the size in its largest unit: from GiB on with one decimal, below that only when
    /// there is a fraction.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (unit, name) = match self.0 {
            ..KIB => (1, "B"),
            KIB..MIB => (KIB, "KiB"),
            MIB..GIB => (MIB, "MiB"),
            GIB..TIB => (GIB, "GiB"),
            TIB.. => (TIB, "TiB"),
        };
        let text = if unit < GIB && self.0.is_multiple_of(unit) {
            format!("{} {name}", self.0 / unit)
        } else {
            let tenths = (u128::from(self.0) * 10 + u128::from(unit) / 2) / u128::from(unit);
            format!("{}.{} {name}", tenths / 10, tenths % 10)
        };
        f.pad(&text)
    }
}

impl Serialize for ByteSize {
    /// Writes the exact number of bytes: the displayed text is rounded.
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_u64(self.0)
    }
}

impl<'de> Deserialize<'de> for ByteSize {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(SizeVisitor::new("a size such as `64KiB`, or bytes"))
    }
}
