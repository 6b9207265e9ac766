//! The CPU's view of a locked allocation (5.9).

use alloc::vec::Vec;

use crate::{
    contract::CpuVirtualAddress,
    id::PlanNo,
    units::{Extent, SegmentId},
};

/// A locked allocation.
#[derive(Clone, Debug)]
pub(crate) struct Lock {
    /// How often it is locked; never 0.
    pub count: u32,
    /// Where the CPU sees it.
    pub address: CpuVirtualAddress,
    /// The ranges that the CPU sees there, and their segment.
    pub shown: (SegmentId, Vec<Extent>),
    /// The last plan in the stream that moves it: until that has retired, nothing is seen.
    pub moved_by: PlanNo,
}
