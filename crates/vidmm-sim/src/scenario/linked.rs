//! The other physical adapters of a link.

use serde::{Deserialize, Serialize};
use vidmm_trace::ByteSize;

use super::keys::exactly;
use super::paging_va::PagingVa;

/// A physical adapter that is linked to the first. Its driver is asked for the size of its paging process's address
/// space (PGV-01); no allocation is placed in its segments.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default, rename_all = "kebab-case", expecting = "a table")]
pub struct LinkedAdapter {
    /// Its local memory; 0 is none.
    #[serde(serialize_with = "exactly")]
    pub local_memory: ByteSize,
    /// Its aperture segment.
    #[serde(serialize_with = "exactly")]
    pub aperture: ByteSize,
    /// Its driver's answer.
    pub paging_va_mib: PagingVa,
}

impl Default for LinkedAdapter {
    /// The sizes of the first adapter of an explicit scenario: 256 MiB each.
    fn default() -> Self {
        Self { local_memory: ByteSize::mib(256), aperture: ByteSize::mib(256), paging_va_mib: PagingVa::default() }
    }
}
