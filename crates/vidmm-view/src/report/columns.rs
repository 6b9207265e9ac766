//! Tables of numbers, packed column by column.
//!
//! A column is a run of variable-length integers: seven bits a byte, the low ones first, the high bit set on all bytes but the last.
//! Each is the difference to the number before, in zigzag order (0, -1, 1, -2, ...). Times and numbers that rise take a byte or two
//! each, and what is left is for the compressor.

use serde_json::{Map, Value, json};

/// A table of numbers.
#[derive(Debug)]
pub(super) struct Table<const N: usize> {
    names: [&'static str; N],
    columns: [Column; N],
    rows: u64,
}

#[derive(Clone, Debug, Default)]
struct Column {
    bytes: Vec<u8>,
    last: u64,
}

impl<const N: usize> Table<N> {
    pub fn new(names: [&'static str; N]) -> Self {
        Self { names, columns: std::array::from_fn(|_| Column::default()), rows: 0 }
    }

    /// Appends a row, and returns its number.
    pub fn push(&mut self, row: [u64; N]) -> u64 {
        for (column, value) in self.columns.iter_mut().zip(row) {
            column.push(value);
        }
        self.rows += 1;
        self.rows - 1
    }

    pub fn rows(&self) -> u64 {
        self.rows
    }

    /// Appends the columns to `blob`. Returns their places in it.
    pub fn pack(self, blob: &mut Vec<u8>) -> Value {
        let mut columns = Map::new();
        for (name, column) in self.names.into_iter().zip(self.columns) {
            columns.insert(name.to_owned(), json!([blob.len(), column.bytes.len()]));
            blob.extend_from_slice(&column.bytes);
        }
        json!({ "rows": self.rows, "columns": columns })
    }
}

impl Column {
    fn push(&mut self, value: u64) {
        let difference = value.wrapping_sub(self.last) as i64;
        self.last = value;
        let mut rest = ((difference << 1) ^ (difference >> 63)) as u64;
        while rest >= 0x80 {
            self.bytes.push(rest as u8 | 0x80);
            rest >>= 7;
        }
        self.bytes.push(rest as u8);
    }
}

/// A number that may be missing: 0 is none, and all others are one more.
pub(super) fn optional(value: Option<u64>) -> u64 {
    value.map_or(0, |value| value.saturating_add(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Reads a column as the page does.
    fn read(mut bytes: &[u8], rows: u64) -> Vec<u64> {
        let mut last = 0u64;
        (0..rows)
            .map(|_| {
                let (mut zigzag, mut shift) = (0u64, 0);
                while let [byte, rest @ ..] = bytes {
                    bytes = rest;
                    zigzag |= u64::from(byte & 0x7f) << shift;
                    shift += 7;
                    if byte & 0x80 == 0 {
                        break;
                    }
                }
                last = last.wrapping_add((zigzag >> 1) ^ (zigzag & 1).wrapping_neg());
                last
            })
            .collect()
    }

    #[test]
    fn numbers_are_read_as_they_were_written() {
        let values = [0, 1, 127, 128, 5, u64::MAX, 0, 1 << 53, u64::MAX / 2];
        let mut table = Table::new(["value"]);
        for value in values {
            table.push([value]);
        }
        let mut blob = vec![7];
        let places = table.pack(&mut blob);
        assert_eq!(places["rows"], 9);
        assert_eq!(places["columns"]["value"][0], 1, "it begins behind what was there");
        assert_eq!(read(&blob[1..], 9), values);
    }

    #[test]
    fn numbers_that_rise_by_little_take_a_byte_each() {
        let mut table = Table::new(["at"]);
        for at in 0..100 {
            table.push([1_000_000_000 + at * 50]);
        }
        let mut blob = Vec::new();
        table.pack(&mut blob);
        assert_eq!(blob.len(), 5 + 99, "the first takes five");
    }
}
