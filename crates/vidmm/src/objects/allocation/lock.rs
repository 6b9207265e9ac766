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
    /// The number of locks; never 0.
    pub count: u32,
    /// The address of the CPU's view.
    pub address: CpuVirtualAddress,
    /// The ranges in the CPU's view, and the segment of the ranges.
    pub shown: (SegmentId, Vec<Extent>),
    /// The last plan in the stream with a move of the allocation: the CPU sees nothing until the plan has retired.
    pub moved_by: PlanNo,
}
