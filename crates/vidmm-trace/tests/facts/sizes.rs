//! Sizes as people write them.

use proptest::prelude::*;
use serde::Deserialize;
use vidmm_trace::{ByteSize, LocalMemory, SizeError};

/// A scenario with both kinds of size.
#[derive(Debug, Deserialize)]
struct Sizes {
    block: ByteSize,
    local: LocalMemory,
}

#[test]
fn sizes_are_read_with_binary_units() {
    let good = [
        ("512", 512),
        ("512 B", 512),
        ("64KiB", 64 << 10),
        ("64k", 64 << 10),
        ("24 GiB", 24 << 30),
        ("  24 gib ", 24 << 30),
        ("1.5GiB", 3 << 29),
        ("0.25m", 1 << 18),
        ("2T", 2 << 40),
        ("0", 0),
        ("18446744073709551615", u64::MAX),
        ("1 GiB + 1 B", (1 << 30) + 1),
        ("15MiB+1020KiB", (16 << 20) - 4096),
    ];
    for (text, bytes) in good {
        assert_eq!(text.parse(), Ok(ByteSize(bytes)), "{text}");
    }
}

#[test]
fn other_text_is_refused_and_the_message_says_what_is_accepted() {
    let bad = [
        "", " ", "GiB", "-1", "+1", "1.5", "1.", ".5G", "1.2.3G", "1e3", "5 XiB", "5%", "٣", "1 0", "1 GiB +", "1 + 5%",
    ];
    for text in bad {
        let error = text.parse::<ByteSize>().expect_err(text);
        assert_eq!(error, SizeError::NotASize(text.to_owned()));
        assert!(error.to_string().contains("`64KiB`"), "{error}");
    }
}

#[test]
fn decimal_units_are_refused_with_the_binary_ones() {
    let error = "24GB".parse::<ByteSize>().expect_err("GB is ambiguous");
    assert!(error.to_string().contains("GiB"), "{error}");
}

#[test]
fn sizes_beyond_64_bits_are_refused() {
    for text in ["18446744073709551616", "16777216T", "99999999999999999999T"] {
        assert_eq!(text.parse::<ByteSize>(), Err(SizeError::TooLarge(text.to_owned())));
    }
}

#[test]
fn sizes_are_shown_in_their_largest_unit() {
    let shown = [
        (ByteSize(0), "0 B"),
        (ByteSize(1023), "1023 B"),
        (ByteSize::kib(4), "4 KiB"),
        (ByteSize(1536), "1.5 KiB"),
        (ByteSize::mib(512), "512 MiB"),
        (ByteSize::gib(24), "24.0 GiB"),
        (ByteSize(51_281_000_000), "47.8 GiB"),
        (ByteSize::gib(2048), "2.0 TiB"),
        (ByteSize(u64::MAX), "16777216.0 TiB"),
    ];
    for (size, text) in shown {
        assert_eq!(size.to_string(), text);
    }
    assert_eq!(format!("{:>10}|", ByteSize::kib(4)), "     4 KiB|");
}

#[test]
fn local_memory_is_a_share_or_a_size() {
    let good = [
        ("50%", LocalMemory::Percent(5000)),
        ("12.5 %", LocalMemory::Percent(1250)),
        ("0.01%", LocalMemory::Percent(1)),
        ("33.330%", LocalMemory::Percent(3333)),
        ("100000%", LocalMemory::Percent(10_000_000)),
        ("24GiB", LocalMemory::Bytes(ByteSize::gib(24))),
    ];
    for (text, memory) in good {
        assert_eq!(text.parse(), Ok(memory), "{text}");
    }
}

#[test]
fn useless_local_memory_is_refused_with_a_remedy() {
    let bad = [
        ("0", "above 0"),
        ("0%", "above 0"),
        ("0.00%", "above 0"),
        ("-5%", "above 0"),
        ("-1GiB", "above 0"),
        ("100000.01%", "100000%"),
        ("0.001%", "two decimals"),
        ("99999999999999999999%", "100000%"),
        ("half", "`50%`"),
        ("%", "`50%`"),
        ("5%%", "`50%`"),
        ("24GB", "GiB"),
    ];
    for (text, remedy) in bad {
        let error = text.parse::<LocalMemory>().expect_err(text).to_string();
        assert!(error.contains(remedy) && error.contains(text), "{error}");
    }
}

#[test]
fn a_share_is_taken_of_the_footprint() {
    assert_eq!(LocalMemory::Percent(5000).bytes_of(1001), 500);
    assert_eq!(LocalMemory::Percent(10_000_000).bytes_of(u64::MAX), u64::MAX);
    assert_eq!(LocalMemory::Bytes(ByteSize(7)).bytes_of(1001), 7);
}

#[test]
fn serde_reads_text_and_integers() {
    let sizes: Sizes = toml::from_str("block = \"64KiB\"\nlocal = \"50%\"").expect("both are text");
    assert_eq!((sizes.block, sizes.local), (ByteSize::kib(64), LocalMemory::Percent(5000)));
    let sizes: Sizes = toml::from_str("block = 64\nlocal = 4096").expect("both are integers");
    assert_eq!(sizes.block, ByteSize(64));
    assert_eq!(sizes.local, LocalMemory::Bytes(ByteSize(4096)));
}

#[test]
fn serde_errors_say_what_is_accepted() {
    let bad = [
        ("block = -1\nlocal = 1", "is not a size"),
        ("block = 1.5\nlocal = 1", "a size such as `64KiB`"),
        ("block = 1\nlocal = 0", "above 0"),
        ("block = 1\nlocal = true", "a share such as `50%`"),
    ];
    for (text, expected) in bad {
        let error = toml::from_str::<Sizes>(text).expect_err(text).to_string();
        assert!(error.contains(expected), "{error}");
    }
}

proptest! {
    #[test]
    fn no_text_makes_it_panic(text in "\\PC{0,12}", number in "[-0-9. %kKmMgGtTiIbB]{0,24}") {
        for text in [text, number] {
            let _ = text.parse::<ByteSize>();
            let _ = text.parse::<LocalMemory>();
        }
    }

    #[test]
    fn a_shown_size_is_read_again(bytes in any::<u64>()) {
        let size = ByteSize(bytes).to_string().parse::<ByteSize>();
        if let Ok(ByteSize(read)) = size {
            prop_assert!(read.abs_diff(bytes) <= bytes / 20);
        } else {
            prop_assert!(bytes > u64::MAX - (1 << 40));
        }
    }

    #[test]
    fn serde_keeps_every_byte(bytes in 1..u64::MAX, share in 1..10_000_000_u32) {
        let memories = [LocalMemory::Bytes(ByteSize(bytes)), LocalMemory::Percent(share)];
        for memory in memories {
            let text = serde_json::to_string(&memory).expect("it can be written");
            prop_assert_eq!(serde_json::from_str::<LocalMemory>(&text).expect("it can be read"), memory);
        }
    }
}
