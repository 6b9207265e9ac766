//! Sizes that are not rounded.

use vidmm::Bytes;

/// A size in words that say it exactly: a chunk's edge must not be rounded.
pub(crate) fn exact(bytes: u64) -> String {
    Bytes(bytes).to_string()
}

#[cfg(test)]
mod tests {
    use super::exact;
    use vidmm_trace::ByteSize;

    #[test]
    fn sizes_are_never_rounded_and_are_never_long_numbers() {
        let sizes = [0, 1, 4096, (16 << 20) - 4096, 16 << 20, 3 << 30, (1 << 30) + 1, (1 << 30) - 4096, 999_999];
        let words =
            ["0", "1 B", "4 KiB", "16380 KiB", "16 MiB", "3 GiB", "1 GiB + 1 B", "1023 MiB + 1020 KiB", "999999 B"];
        assert_eq!(sizes.map(exact), words);
        assert_eq!(words.map(|text| text.parse()), sizes.map(|size| Ok(ByteSize(size))));
    }
}
