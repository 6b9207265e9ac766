//! The words of the contract, as scenario files write them.

use serde::{Deserialize, Serialize};
use vidmm::NotificationRevision;
use vidmm::contract::{AddressingModel, WddmVersion};

/// The names of [`AddressingModel`].
#[derive(Deserialize, Serialize)]
#[serde(remote = "AddressingModel", rename_all = "kebab-case")]
pub(super) enum AddressingModelName {
    GpuMmu,
    GpuVaIoMmu,
    GpuVaIoMmuGlobal,
    Physical,
}

/// The names of [`NotificationRevision`].
#[derive(Deserialize, Serialize)]
#[serde(remote = "NotificationRevision", rename_all = "kebab-case")]
pub(super) enum NotificationRevisionName {
    Current,
    #[serde(rename = "2024-08")]
    August2024,
}

/// The interface version that a driver was written for.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Deserialize, Serialize)]
pub enum Wddm {
    /// Windows 8.1, on adapters without GPU virtual addresses.
    #[serde(rename = "1.3")]
    V1_3,
    /// Windows 10: GPU virtual addresses and residency lists.
    #[serde(rename = "2.0")]
    V2_0,
    /// Windows 11: MAP_APERTURE_SEGMENT2.
    #[serde(rename = "2.9")]
    V2_9,
    /// Windows 11 24H2: allocation notifications.
    #[default]
    #[serde(rename = "3.2")]
    V3_2,
}

impl Wddm {
    /// The version as drivers declare it.
    pub fn version(self) -> WddmVersion {
        match self {
            Self::V1_3 => WddmVersion::WDDM1_3,
            Self::V2_0 => WddmVersion::WDDM2_0,
            Self::V2_9 => WddmVersion::WDDM2_9,
            Self::V3_2 => WddmVersion::WDDM3_2,
        }
    }
}
