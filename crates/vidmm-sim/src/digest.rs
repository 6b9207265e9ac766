//! One number for a whole run: the same on every machine and in every build.

use std::fmt::{self, Debug, Write};

/// Follows from all values that were added, in their order (FNV-1a).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Digest(pub u64);

impl Default for Digest {
    fn default() -> Self {
        Self(0xcbf2_9ce4_8422_2325)
    }
}

impl Digest {
    /// Adds a value's `Debug` text, which for an event is all of it.
    pub fn add(&mut self, value: &impl Debug) {
        write!(self, "{value:?}").expect("nothing is written anywhere");
    }
}

impl Write for Digest {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        for byte in text.bytes() {
            self.0 = (self.0 ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        }
        Ok(())
    }
}
