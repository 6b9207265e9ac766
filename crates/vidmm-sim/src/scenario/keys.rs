//! The spelling of values in files: exact, and left out where it is the default.

use serde::ser::{Serialize, SerializeSeq, Serializer};
use vidmm_trace::{ByteSize, LocalMemory};

use crate::exact::exact;

/// Whether a key may be left out.
pub(super) fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

/// Writes sizes with units, without rounding them.
pub(super) fn exactly<T: Exactly, S: Serializer>(sizes: &T, serializer: S) -> Result<S::Ok, S::Error> {
    sizes.exactly(serializer)
}

/// A size, or sizes.
pub(super) trait Exactly {
    fn exactly<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error>;
}

impl Exactly for ByteSize {
    fn exactly<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&exact(self.bytes()))
    }
}

impl Exactly for LocalMemory {
    fn exactly<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Bytes(size) => size.exactly(serializer),
            Self::Percent(_) => serializer.collect_str(self),
        }
    }
}

impl<T: Exactly> Exactly for Option<T> {
    fn exactly<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Some(size) => size.exactly(serializer),
            None => serializer.serialize_none(),
        }
    }
}

impl<T: Exactly> Exactly for Vec<T> {
    fn exactly<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut list = serializer.serialize_seq(Some(self.len()))?;
        self.iter().try_for_each(|size| list.serialize_element(&AsText(size)))?;
        list.end()
    }
}

/// A size in a list.
struct AsText<'a, T>(&'a T);

impl<T: Exactly> Serialize for AsText<'_, T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0.exactly(serializer)
    }
}
