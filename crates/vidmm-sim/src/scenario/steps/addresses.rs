//! Steps about GPU virtual addresses.

use std::fmt;

use serde::de::Deserializer;
use serde::{Deserialize, Serialize};
use vidmm_trace::ByteSize;

use super::known::{Kind, Known};
use super::list::list;
use super::names;
use super::verb::Verb;
use crate::exact::exact;
use crate::scenario::keys::{exactly, is_default};
use crate::scenario::number::within;

/// D3DKMTMapGpuVirtualAddress.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Map {
    /// The allocations to map, or a group.
    #[serde(rename = "map", with = "names")]
    pub allocations: Vec<String>,
    /// The mapping's name; none is the allocation's.
    #[serde(rename = "as", default, with = "names", skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The device whose process sees it; none is the allocation's own.
    #[serde(default, with = "names", skip_serializing_if = "Option::is_none")]
    pub device: Option<String>,
    /// The first byte.
    #[serde(default, skip_serializing_if = "is_default", serialize_with = "exactly")]
    pub offset: ByteSize,
    /// The number of bytes; 0 is all that follow.
    #[serde(default, skip_serializing_if = "is_default", serialize_with = "exactly")]
    pub size: ByteSize,
    /// Whether writes through it fault.
    #[serde(default, skip_serializing_if = "is_default")]
    pub read_only: bool,
    /// Whether nothing is executed through it.
    #[serde(default, skip_serializing_if = "is_default")]
    pub no_execute: bool,
    /// Its first address; none lets the manager choose.
    #[serde(default, deserialize_with = "base_address", skip_serializing_if = "Option::is_none")]
    pub base_address: Option<u64>,
    /// The reservation in which it lies.
    #[serde(default, with = "names", skip_serializing_if = "Option::is_none")]
    pub r#in: Option<String>,
    /// Its first byte in that reservation.
    #[serde(default, skip_serializing_if = "is_default", serialize_with = "exactly")]
    pub at: ByteSize,
}

impl Verb for Map {
    fn words(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, " {}", list(&self.allocations))?;
        if let Some(name) = &self.name {
            write!(f, " as {name}")?;
        }
        if let Some(device) = &self.device {
            write!(f, " for {device}")?;
        }
        f.write_str(&bytes(self.offset, self.size))?;
        if let Some(address) = self.base_address {
            write!(f, " at {address:#x}")?;
        }
        if let Some(reservation) = &self.r#in {
            write!(f, " in {reservation}{}", bytes(self.at, ByteSize(0)))?;
        }
        if self.read_only {
            f.write_str(", read only")?;
        }
        if self.no_execute { f.write_str(", without execution") } else { Ok(()) }
    }

    fn check(&mut self, known: &mut Known) -> Result<(), String> {
        known.about(Kind::Allocation, &mut self.allocations)?;
        known.optional(Kind::Device, &self.device)?;
        known.optional(Kind::Reservation, &self.r#in)?;
        match (&self.name, &self.allocations[..]) {
            _ if self.base_address.is_some() && self.r#in.is_some() => {
                Err("`base-address` and `in` both say where it lies; leave one out".to_owned())
            }
            _ if self.at.bytes() > 0 && self.r#in.is_none() => {
                Err("`at` is a place in a reservation; write `in = \"NAME\"` beside it".to_owned())
            }
            _ if self.base_address.is_some() && self.allocations.len() > 1 => {
                Err("`base-address` is that of one mapping; map one allocation there".to_owned())
            }
            _ if self.r#in.is_some() && self.allocations.len() > 1 => {
                Err("`at` is the place of one mapping; map one allocation there".to_owned())
            }
            (Some(name), [_]) => known.add(Kind::Mapping, name),
            (Some(name), _) => Err(format!("`as = \"{name}\"` names one mapping; map one allocation there")),
            (None, names) => known.add_mappings(names),
        }
    }
}

/// D3DKMTReserveGpuVirtualAddress: addresses of a process that mappings can be put in.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct ReserveVa {
    /// The reservation's name.
    #[serde(rename = "reserve-va", with = "names")]
    pub name: String,
    /// The device whose process gets them; none is the default device.
    #[serde(default, with = "names", skip_serializing_if = "Option::is_none")]
    pub device: Option<String>,
    /// The number of bytes, a multiple of 64 KiB.
    #[serde(serialize_with = "exactly")]
    pub size: ByteSize,
    /// Its first address; none lets the manager choose.
    #[serde(default, deserialize_with = "base_address", skip_serializing_if = "Option::is_none")]
    pub base_address: Option<u64>,
}

impl Verb for ReserveVa {
    fn words(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, " {}: {}", self.name, exact(self.size.bytes()))?;
        if let Some(device) = &self.device {
            write!(f, " for {device}")?;
        }
        self.base_address.iter().try_for_each(|address| write!(f, " at {address:#x}"))
    }

    fn check(&mut self, known: &mut Known) -> Result<(), String> {
        known.optional(Kind::Device, &self.device)?;
        // A step frees either by its name.
        known.is_new(Kind::Mapping, &self.name)?;
        known.add(Kind::Reservation, &self.name)
    }
}

/// D3DKMTFreeGpuVirtualAddress: a mapping or a reservation, or a part of one, is given back.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct FreeVa {
    /// The mapping or the reservation. The rest before the part keeps its name.
    #[serde(rename = "free-va", with = "names")]
    pub mapping: String,
    /// The first byte of the part.
    #[serde(default, skip_serializing_if = "is_default", serialize_with = "exactly")]
    pub offset: ByteSize,
    /// The number of bytes; 0 is all that follow.
    #[serde(default, skip_serializing_if = "is_default", serialize_with = "exactly")]
    pub size: ByteSize,
    /// The name of the rest behind the part.
    #[serde(default, with = "names", skip_serializing_if = "Option::is_none")]
    pub rest: Option<String>,
}

impl Verb for FreeVa {
    fn words(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, " {}{}", self.mapping, bytes(self.offset, self.size))?;
        self.rest.iter().try_for_each(|rest| write!(f, ", the rest is {rest}"))
    }

    fn check(&mut self, known: &mut Known) -> Result<(), String> {
        if known.has(Kind::Reservation, &self.mapping) {
            return self.rest.iter().try_for_each(|rest| known.add(Kind::Reservation, rest));
        }
        known.single(Kind::Mapping, &self.mapping, "free one mapping at a time")?;
        self.rest.iter().try_for_each(|rest| known.add(Kind::Mapping, rest))
    }
}

/// The bytes of a mapping or an allocation that a step names; nothing if they are all.
fn bytes(offset: ByteSize, size: ByteSize) -> String {
    let (offset, size) = (offset.bytes(), size.bytes());
    match (offset, size) {
        (0, 0) => String::new(),
        (_, 0) => format!(" from {} on", exact(offset)),
        (_, _) => format!(" [{}, {})", exact(offset), exact(offset.saturating_add(size))),
    }
}

fn base_address<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<u64>, D::Error> {
    within::<_, _, 0, { i64::MAX as u64 }>(deserializer).map(Some)
}
