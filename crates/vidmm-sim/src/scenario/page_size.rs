//! The pages that local memory is managed in.

use serde::{Deserialize, Serialize, Serializer};
use vidmm_trace::ByteSize;

use super::keys::exactly;

/// The pages that local memory is managed in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(try_from = "ByteSize")]
pub enum PageSize {
    /// 4 KiB.
    Kib4,
    /// 64 KiB.
    #[default]
    Kib64,
}

impl PageSize {
    /// Returns the bytes of a page.
    pub fn bytes(self) -> u64 {
        match self {
            Self::Kib4 => 4 << 10,
            Self::Kib64 => 64 << 10,
        }
    }
}

impl TryFrom<ByteSize> for PageSize {
    type Error = String;

    /// Takes 4 KiB or 64 KiB.
    ///
    /// # Errors
    ///
    /// Returns the accepted sizes, for any other size.
    fn try_from(size: ByteSize) -> Result<Self, String> {
        let sizes = [Self::Kib4, Self::Kib64];
        let same = sizes.into_iter().find(|page_size| page_size.bytes() == size.bytes());
        same.ok_or_else(|| format!("there are no pages of {size}; write `4 KiB` or `64 KiB`"))
    }
}

impl Serialize for PageSize {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        exactly(&ByteSize(self.bytes()), serializer)
    }
}
