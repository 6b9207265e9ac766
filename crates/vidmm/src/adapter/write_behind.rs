//! Write-behind: copies of written content ahead of evictions (D37).

/// Copies of written content ahead of the eviction (D37). [`Self::OFF`] makes none.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct WriteBehind {
    /// The part of each memory at the cold end that is to be clean at most, in percent; 0 makes no copies.
    pub watermark_percent: u8,
    /// The part of the time that the copies take at most, in percent.
    pub link_percent: u8,
}

impl WriteBehind {
    /// No copies.
    pub const OFF: Self = Self { watermark_percent: 0, link_percent: 0 };
    /// A tenth of each memory, in a quarter of the time.
    pub const USUAL: Self = Self { watermark_percent: 10, link_percent: 25 };
}

impl Default for WriteBehind {
    fn default() -> Self {
        Self::OFF
    }
}
