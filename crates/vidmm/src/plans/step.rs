//! The steps that plans are expanded into.

use crate::{
    contract::{IoMmuDomain, PagingOperation},
    id::AllocationId,
    units::GpuVirtualAddress,
};

/// One step of the stream: what the driver encodes, or what the host does in between.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Step {
    Operation(PagingOperation),
    /// Nothing that is under way uses the addresses: done at once.
    MapIoMmu(IoMmuRange),
    /// Done when all that was built before has completed.
    UnmapIoMmu(IoMmuRange),
}

/// A part of an allocation's backing store in the IOMMU.
#[derive(Debug, Clone, Copy)]
pub(crate) struct IoMmuRange {
    pub domain: IoMmuDomain,
    pub virtual_address: GpuVirtualAddress,
    pub size: u64,
    /// Where it is in system memory.
    pub system_offset: u64,
    pub read_only: bool,
    pub allocation: AllocationId,
    pub allocation_offset: u64,
    /// Whether it is a window of the paging process.
    pub window: bool,
}
