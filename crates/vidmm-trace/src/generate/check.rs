//! Refusing absurd parameters.

use std::ops::RangeInclusive;

use crate::{ByteSize, WorkloadError};

/// The largest size that a single buffer parameter may have: 1 TiB.
const MAX_BUFFER_BYTES: u64 = 1 << 40;

/// Checks that a parameter is in a range.
pub(super) fn range(
    field: &'static str,
    value: impl Into<u64>,
    range: RangeInclusive<u64>,
) -> Result<(), WorkloadError> {
    let value = value.into();
    if range.contains(&value) {
        return Ok(());
    }
    let expected = format!("from {} to {}", range.start(), range.end());
    Err(WorkloadError::Parameter { field, value: value.to_string(), expected })
}

/// Checks the size of a buffer.
pub(super) fn size(field: &'static str, size: ByteSize) -> Result<(), WorkloadError> {
    if (1..=MAX_BUFFER_BYTES).contains(&size.bytes()) {
        return Ok(());
    }
    let expected = format!("from 1 byte to {}", ByteSize(MAX_BUFFER_BYTES));
    Err(WorkloadError::Parameter { field, value: size.to_string(), expected })
}

/// Multiplies, where the product fits 64 bits.
pub(super) fn product(what: &'static str, factors: &[u64]) -> Result<u64, WorkloadError> {
    let product = factors.iter().try_fold(1_u64, |product, &factor| product.checked_mul(factor));
    product.ok_or(WorkloadError::Overflow { what })
}
