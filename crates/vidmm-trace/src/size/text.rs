//! Reading decimal numbers exactly, and sizes through serde.

use std::fmt;
use std::marker::PhantomData;
use std::str::FromStr;

use serde::de::{Error, Visitor};

/// A decimal number: `digits` divided by 10 to the power of `decimals`.
///
/// Integers keep `12.3%` and `1.1GiB` exact, which floating point would not.
#[derive(Clone, Copy)]
pub(super) struct Number {
    digits: u128,
    /// The number of digits after the point.
    pub(super) decimals: u32,
}

/// The most digits that a number may have; more say nothing about a size.
const MAX_DIGITS: usize = 20;

impl Number {
    /// Splits text into the number at its start and the rest, without the white space around them.
    /// Returns `None` unless it starts with a number such as `12` or `1.5`.
    pub(super) fn split(text: &str) -> Option<(Self, &str)> {
        let text = text.trim();
        let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
        let (number, rest) = text.split_at(end);
        let (whole, fraction) = match number.split_once('.') {
            Some((_, "")) => return None,
            Some(parts) => parts,
            None => (number, ""),
        };
        if whole.is_empty() || fraction.contains('.') || whole.len() + fraction.len() > MAX_DIGITS {
            return None;
        }
        let digits = format!("{whole}{fraction}").parse().ok()?;
        let decimals = u32::try_from(fraction.len()).ok()?;
        Some((Self { digits, decimals }, rest.trim_start()))
    }

    /// Returns the number times `factor`, its fraction dropped, where that fits 64 bits.
    pub(super) fn times(self, factor: u64) -> Option<u64> {
        let product = self.digits.checked_mul(u128::from(factor))?;
        u64::try_from(product / 10_u128.pow(self.decimals)).ok()
    }

    /// Says whether the number times `factor` is whole.
    pub(super) fn is_whole_times(self, factor: u64) -> bool {
        let product = self.digits.checked_mul(u128::from(factor));
        product.is_some_and(|product| product.is_multiple_of(10_u128.pow(self.decimals)))
    }
}

/// Reads a size from a string, or from an integer, which it takes as its decimal digits.
pub(super) struct SizeVisitor<T> {
    expected: &'static str,
    kind: PhantomData<T>,
}

impl<T> SizeVisitor<T> {
    /// Makes a visitor whose errors say what was expected.
    pub(super) fn new(expected: &'static str) -> Self {
        Self { expected, kind: PhantomData }
    }
}

impl<T: FromStr<Err: fmt::Display>> Visitor<'_> for SizeVisitor<T> {
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.expected)
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<T, E> {
        text.parse().map_err(E::custom)
    }

    fn visit_u64<E: Error>(self, bytes: u64) -> Result<T, E> {
        self.visit_str(&bytes.to_string())
    }

    fn visit_i64<E: Error>(self, bytes: i64) -> Result<T, E> {
        self.visit_str(&bytes.to_string())
    }
}
