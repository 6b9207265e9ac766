//! Requests that were admitted and wait for their grant or their end.

use alloc::vec::Vec;

use crate::{
    gpu_va::Mapping,
    id::{AllocationIx, PagingQueueIx, PlanNo, ProcessIx, SubmissionNo},
    objects::spans::SpanNo,
    units::Extent,
};

/// A call that was answered with a paging fence.
///
/// The requests of one device are granted in the order in which they were made, whatever their queue. Each is tied to a
/// position among the device's submissions, and granting a later one first could take the room that the earlier one
/// needs (D2). Between devices the queue's priority decides, then arrival (RES-32, U-28).
#[derive(Debug)]
pub(crate) struct Request {
    /// Its number within the device, from 1.
    pub number: u64,
    /// Its place among the requests of all devices.
    pub arrival: u64,
    /// The paging queue it was made on, and the value that it signals there.
    pub queue: PagingQueueIx,
    pub fence_value: u64,
    /// The last submission made before it: later ones require it (D2).
    pub position: SubmissionNo,
    pub kind: RequestKind,
    /// After the grant: plans that must have retired before the fence signals.
    pub plans: Vec<PlanNo>,
    /// Once all of them are built: the fence that the paging engine must have reached for it and all earlier requests.
    pub paging_fence: u64,
}

/// The kind of a request.
#[derive(Debug)]
pub(crate) enum RequestKind {
    /// Bring these in: allocation and the span that the grant is for.
    MakeResident(Vec<(AllocationIx, Option<SpanNo>)>),
    /// Nothing: these plans carry out a decision that was made with the call.
    Decided(Vec<PlanNo>),
    /// Make this mapping, with the tables that it needs.
    MapGpuVirtualAddress { allocation: AllocationIx, mapping: Mapping },
    /// Let these addresses read as zero, with the tables that say where they end.
    ReserveGpuVirtualAddress { process: ProcessIx, range: Extent },
}
