//! What the CPU sees of an allocation while it is locked (5.9).

use crate::{contract::CpuVirtualAddress, id::PlanNo};

/// A locked allocation.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Lock {
    /// How often it is locked; never 0.
    pub count: u32,
    /// Where the CPU sees it.
    pub address: CpuVirtualAddress,
    /// The last plan in the stream that moves it: until that has retired, nothing is seen.
    pub moved_by: PlanNo,
}
