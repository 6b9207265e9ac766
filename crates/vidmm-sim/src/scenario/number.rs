//! Whole numbers of a scenario file.

use serde::Deserialize;
use serde::de::{Deserializer, Error as _};

/// Reads a whole number from `MIN` to `MAX`, a range that fits `T`.
pub(super) fn within<'de, D: Deserializer<'de>, T: TryFrom<i128>, const MIN: u64, const MAX: u64>(
    deserializer: D,
) -> Result<T, D::Error> {
    let number = i128::deserialize(deserializer)?;
    let in_range = (i128::from(MIN)..=i128::from(MAX)).contains(&number);
    let number = T::try_from(number).ok().filter(|_| in_range);
    number.ok_or_else(|| D::Error::custom(format!("out of range; give a whole number from {MIN} to {MAX}")))
}
