//! Sizes that are not rounded.

/// A size in the largest unit that has no fraction: a chunk's edge must not be rounded.
pub(crate) fn exact(bytes: u64) -> String {
    const UNITS: [(u64, &str); 3] = [(1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")];
    match UNITS.into_iter().find(|(unit, _)| bytes > 0 && bytes.is_multiple_of(*unit)) {
        Some((unit, name)) => format!("{} {name}", bytes / unit),
        None if bytes == 0 => "0".to_owned(),
        None => format!("{bytes} B"),
    }
}

#[cfg(test)]
mod tests {
    use super::exact;

    #[test]
    fn sizes_are_never_rounded() {
        let sizes = [0, 1, 4096, (16 << 20) - 4096, 16 << 20, 3 << 30, (1 << 30) + 1];
        let words = ["0", "1 B", "4 KiB", "16380 KiB", "16 MiB", "3 GiB", "1073741825 B"];
        assert_eq!(sizes.map(exact), words);
    }
}
