//! The driver's answer for the size of the paging process's address space.

use std::fmt;

use serde::de::{Deserializer, Error, Visitor};
use serde::{Deserialize, Serialize, Serializer};

/// The largest answer, in MiB: 1 TiB.
const MAX_MIB: u32 = 0x10_0000;

/// A driver's answer to the query PAGINGPROCESSGPUVASIZE (PGV-01).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PagingVa {
    /// The driver fails the query, as all drivers did before it existed.
    Fails,
    /// So many MiB; 0 leaves the size to the manager (PGV-02).
    Mib(u32),
}

impl Default for PagingVa {
    fn default() -> Self {
        Self::Mib(0)
    }
}

impl PagingVa {
    /// The answer; none if the query fails.
    pub fn answer(self) -> Option<u32> {
        match self {
            Self::Fails => None,
            Self::Mib(mib) => Some(mib),
        }
    }
}

impl<'de> Deserialize<'de> for PagingVa {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(PagingVaVisitor)
    }
}

impl Serialize for PagingVa {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Fails => serializer.serialize_str("fails"),
            Self::Mib(mib) => serializer.serialize_u32(*mib),
        }
    }
}

struct PagingVaVisitor;

impl Visitor<'_> for PagingVaVisitor {
    type Value = PagingVa;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a number of MiB, or `fails`")
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<PagingVa, E> {
        match text {
            "fails" => Ok(PagingVa::Fails),
            _ => Err(E::custom(format!("`{text}` is no answer of a driver; give a number of MiB, or `fails`"))),
        }
    }

    fn visit_i64<E: Error>(self, mib: i64) -> Result<PagingVa, E> {
        self.visit_i128(mib.into())
    }

    fn visit_u64<E: Error>(self, mib: u64) -> Result<PagingVa, E> {
        self.visit_i128(mib.into())
    }

    fn visit_i128<E: Error>(self, mib: i128) -> Result<PagingVa, E> {
        let mib = u32::try_from(mib).ok().filter(|&mib| mib <= MAX_MIB);
        mib.map(PagingVa::Mib)
            .ok_or_else(|| E::custom(format!("out of range; give a whole number from 0 to {MAX_MIB}, or `fails`")))
    }
}
