//! Steps about residency: lists, offers, and the segments where allocations may be.

use std::fmt;

use serde::de::Deserializer;
use serde::{Deserialize, Serialize};
use vidmm_runtime::AllocationSegments;
use vidmm_trace::ByteSize;

use super::known::{Kind, Known};
use super::list::list;
use super::names;
use super::objects::{AllocationPriority, places};
use super::verb::{Verb, only_names};
use crate::scenario::keys::{exactly, is_default};
use crate::scenario::memory::{optional_segments, write_segments};

only_names! {
    /// D3DKMTUnlock2.
    "unlock" => Unlock { allocations: Vec<String> }, about Allocation;
}

/// D3DKMTLock2.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Lock {
    /// The allocations.
    #[serde(rename = "lock", with = "names")]
    pub allocations: Vec<String>,
    /// The device; none is, of each allocation, the one that created it.
    #[serde(default, with = "names", skip_serializing_if = "Option::is_none")]
    pub device: Option<String>,
}

impl Verb for Lock {
    fn words(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, " {}{}", list(&self.allocations), on(self.device.as_deref()))
    }

    fn check(&mut self, known: &mut Known) -> Result<(), String> {
        known.optional(Kind::Device, &self.device)?;
        known.about(Kind::Allocation, &mut self.allocations)
    }
}

/// D3DKMTMakeResident.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct MakeResident {
    /// The allocations.
    #[serde(rename = "make-resident", with = "names")]
    pub allocations: Vec<String>,
    /// The device; none is that of the first allocation.
    #[serde(default, with = "names", skip_serializing_if = "Option::is_none")]
    pub device: Option<String>,
    /// The flags.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub flags: Vec<MakeResidentFlag>,
    /// The amount that a refusal must ask to trim.
    #[serde(default, serialize_with = "exactly")]
    pub num_bytes_to_trim: Option<ByteSize>,
    /// The amount that it must ask to trim of the local group.
    #[serde(default, serialize_with = "exactly")]
    pub trim_local: Option<ByteSize>,
    /// The amount that it must ask to trim of the other one.
    #[serde(default, serialize_with = "exactly")]
    pub trim_non_local: Option<ByteSize>,
}

/// The flags of MakeResident (RES-15).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum MakeResidentFlag {
    /// CantTrimFurther.
    CantTrimFurther,
    /// MustSucceed.
    MustSucceed,
}

impl Verb for MakeResident {
    fn words(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, " {}{}", list(&self.allocations), on(self.device.as_deref()))?;
        self.flags.iter().try_for_each(|flag| match flag {
            MakeResidentFlag::CantTrimFurther => f.write_str(", cannot trim further"),
            MakeResidentFlag::MustSucceed => f.write_str(", must succeed"),
        })
    }

    fn check(&mut self, known: &mut Known) -> Result<(), String> {
        known.optional(Kind::Device, &self.device)?;
        known.about(Kind::Allocation, &mut self.allocations)
    }
}

/// The question whether allocations would fit on a device's list (ours), and the expected answer.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct QueryRoom {
    /// The allocations.
    #[serde(rename = "query-room", with = "names")]
    pub allocations: Vec<String>,
    /// The device; none is that of the first allocation.
    #[serde(default, with = "names", skip_serializing_if = "Option::is_none")]
    pub device: Option<String>,
    /// Whether all must fit now.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fits: Option<bool>,
    /// The amount that the answer must ask to trim.
    #[serde(default, serialize_with = "exactly")]
    pub num_bytes_to_trim: Option<ByteSize>,
}

impl Verb for QueryRoom {
    fn words(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, " for {}{}", list(&self.allocations), on(self.device.as_deref()))
    }

    fn check(&mut self, known: &mut Known) -> Result<(), String> {
        known.optional(Kind::Device, &self.device)?;
        known.about(Kind::Allocation, &mut self.allocations)
    }
}

/// D3DKMTEvict.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Evict {
    /// The allocations.
    #[serde(rename = "evict", with = "names")]
    pub allocations: Vec<String>,
    /// The device; none is that of the first allocation.
    #[serde(default, with = "names", skip_serializing_if = "Option::is_none")]
    pub device: Option<String>,
    /// The flags.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub flags: Vec<EvictFlag>,
    /// The amount that the answer must ask to trim.
    #[serde(default, serialize_with = "exactly")]
    pub num_bytes_to_trim: Option<ByteSize>,
}

/// The flags of Evict.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum EvictFlag {
    /// EvictOnlyIfNecessary.
    OnlyIfNecessary,
    /// NotWrittenTo.
    NotWrittenTo,
}

impl Verb for Evict {
    fn words(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, " {}{}", list(&self.allocations), on(self.device.as_deref()))?;
        self.flags.iter().try_for_each(|flag| match flag {
            EvictFlag::OnlyIfNecessary => f.write_str(", only if necessary"),
            EvictFlag::NotWrittenTo => f.write_str(", not written to"),
        })
    }

    fn check(&mut self, known: &mut Known) -> Result<(), String> {
        known.optional(Kind::Device, &self.device)?;
        known.about(Kind::Allocation, &mut self.allocations)
    }
}

/// The allocations that a device needs soon (ours, D37).
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Announce {
    /// The allocations, the first need first.
    #[serde(rename = "announce", with = "names")]
    pub allocations: Vec<String>,
    /// The device; none is that of the first allocation.
    #[serde(default, with = "names", skip_serializing_if = "Option::is_none")]
    pub device: Option<String>,
}

impl Verb for Announce {
    fn words(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, " {}{}", list(&self.allocations), on(self.device.as_deref()))
    }

    fn check(&mut self, known: &mut Known) -> Result<(), String> {
        known.optional(Kind::Device, &self.device)?;
        known.about(Kind::Allocation, &mut self.allocations)
    }
}

fn on(device: Option<&str>) -> String {
    device.map_or_else(String::new, |device| format!(" on {device}"))
}

/// D3DKMTOfferAllocations.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Offer {
    /// The allocations.
    #[serde(rename = "offer", with = "names")]
    pub allocations: Vec<String>,
    /// The priority of the offer.
    #[serde(default, skip_serializing_if = "is_default")]
    pub priority: OfferPriority,
    /// The flags.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub flags: Vec<OfferFlag>,
}

/// The priority of an offer (RES-60): the content of lower ones is discarded first.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum OfferPriority {
    /// First.
    Low,
    /// Then.
    #[default]
    Normal,
    /// Last.
    High,
    /// As the allocation's own priority says.
    Auto,
}

/// The flags of an offer (RES-60).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum OfferFlag {
    /// OfferImmediately.
    Immediately,
    /// AllowDecommit.
    AllowDecommit,
}

impl Verb for Offer {
    fn words(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let priority = match self.priority {
            OfferPriority::Low => "low",
            OfferPriority::Normal => "normal",
            OfferPriority::High => "high",
            OfferPriority::Auto => "automatic",
        };
        write!(f, " {}, {priority} priority", list(&self.allocations))?;
        self.flags.iter().try_for_each(|flag| match flag {
            OfferFlag::Immediately => f.write_str(", immediately"),
            OfferFlag::AllowDecommit => f.write_str(", may be decommitted"),
        })
    }

    fn check(&mut self, known: &mut Known) -> Result<(), String> {
        known.about(Kind::Allocation, &mut self.allocations)
    }
}

/// D3DKMTReclaimAllocations2.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Reclaim {
    /// The allocations.
    #[serde(rename = "reclaim", with = "names")]
    pub allocations: Vec<String>,
    /// The expected state of each, in the same order; one for all of them.
    #[serde(default, deserialize_with = "results", skip_serializing_if = "Vec::is_empty")]
    pub results: Vec<ReclaimResult>,
    /// The amount that a refusal must ask to trim.
    #[serde(default, serialize_with = "exactly")]
    pub num_bytes_to_trim: Option<ByteSize>,
}

/// Reads the results of a reclaim: one for all allocations, or a list.
fn results<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<ReclaimResult>, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged, expecting = "`ok`, `discarded` or `not-committed`, or a list of them")]
    enum Results {
        One(ReclaimResult),
        Each(Vec<ReclaimResult>),
    }
    Ok(match Results::deserialize(deserializer)? {
        Results::One(result) => vec![result],
        Results::Each(results) => results,
    })
}

/// The state of offered content when it is reclaimed (RES-64).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum ReclaimResult {
    /// The content is intact.
    Ok,
    /// The content is lost.
    Discarded,
    /// The content is lost, and the allocation with it.
    NotCommitted,
}

impl fmt::Display for ReclaimResult {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Ok => "ok",
            Self::Discarded => "discarded",
            Self::NotCommitted => "not committed",
        })
    }
}

impl Verb for Reclaim {
    fn words(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, " {}", list(&self.allocations))
    }

    fn check(&mut self, known: &mut Known) -> Result<(), String> {
        known.about(Kind::Allocation, &mut self.allocations)?;
        match (self.allocations.len(), self.results.len()) {
            (_, 0 | 1) => Ok(()),
            (allocations, results) if allocations == results => Ok(()),
            (allocations, results) => Err(format!(
                "`results` has {results} results for {allocations} allocations; write one for each, or one for all"
            )),
        }
    }
}

/// D3DKMTSetAllocationPriority.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct SetPriority {
    /// The allocations.
    #[serde(rename = "set-priority", with = "names")]
    pub allocations: Vec<String>,
    /// Their priority.
    pub priority: AllocationPriority,
}

impl Verb for SetPriority {
    fn words(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, " {}: {}", list(&self.allocations), self.priority)
    }

    fn check(&mut self, known: &mut Known) -> Result<(), String> {
        known.about(Kind::Allocation, &mut self.allocations)
    }
}

/// D3DKMTUpdateAllocationProperty.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct UpdateProperty {
    /// The allocations.
    #[serde(rename = "update-property", with = "names")]
    pub allocations: Vec<String>,
    /// The segments where they may be from now on.
    #[serde(default, deserialize_with = "optional_segments", serialize_with = "write_segments")]
    pub segments: Option<AllocationSegments>,
}

impl Verb for UpdateProperty {
    fn words(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, " {}", list(&self.allocations))?;
        self.segments.map_or(Ok(()), |segments| write!(f, ": {}", places(segments)))
    }

    fn check(&mut self, known: &mut Known) -> Result<(), String> {
        known.about(Kind::Allocation, &mut self.allocations)
    }
}
