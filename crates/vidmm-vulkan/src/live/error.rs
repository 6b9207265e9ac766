//! The refusals of an adapter in real time.

use std::ops::Range;

use vidmm::{CreateError, MakeResidentError, MapError, OfferError, ReclaimError, StartAdapterError};

use crate::error::VulkanError;

use super::names::NamedAllocation;
use super::no_room::NoRoom;

/// Why a call was refused. A refused call changes nothing.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Error {
    /// Vulkan cannot be used, or has refused a call.
    #[error(transparent)]
    Vulkan(#[from] VulkanError),
    /// The manager does not start on such an adapter.
    #[error(transparent)]
    Start(#[from] StartAdapterError),
    /// A size that was asked for is 0, no multiple of 64 KiB, or more than there is.
    #[error("{what} of {asked} bytes: it takes a multiple of 65536, from 65536 to {most}")]
    Size {
        /// The memory or object.
        what: &'static str,
        /// The bytes that were asked for.
        asked: u64,
        /// The most that it can be, in bytes.
        most: u64,
    },
    /// The device binds memory in units that are larger than the manager's pages of 64 KiB.
    #[error(
        "the device binds memory in units of {granule} bytes, and the manager's pages have 65536: it cannot be used"
    )]
    Granule {
        /// The unit in bytes.
        granule: u64,
    },
    /// The device cannot bind system memory to buffers.
    #[error("the device binds no system memory to buffers: create them for local memory")]
    SystemMemory,
    /// The device has no such images whose memory is bound piece by piece.
    #[error("the device cannot bind memory to such an image: {reason}")]
    Image {
        /// Why not.
        reason: &'static str,
    },
    /// More local memory is to be pinned than the manager has.
    #[error("{bytes} bytes of local memory are to be pinned, and {left} are left that are not: pin fewer")]
    Pinned {
        /// The bytes that were asked for.
        bytes: u64,
        /// The bytes of the manager's local memory that are not pinned.
        left: u64,
    },
    /// An object could not be created.
    #[error(transparent)]
    Create(#[from] CreateError),
    /// The device has no addresses left for a buffer or an image.
    #[error(
        "the device has {limit} MiB of addresses for sparse resources: destroy buffers and images before you create more"
    )]
    Addresses {
        /// The addresses of all of them together, in MiB.
        limit: u64,
    },
    /// The process would have more buffers and images than the device can keep bound: each page of 64 KiB may be a mapping of its own.
    #[error(
        "the device keeps {limit} mappings of a process, and buffers and images would need more: destroy some before you create more"
    )]
    Mappings {
        /// The most mappings, each of 64 KiB or more.
        limit: usize,
    },
    /// An allocation got no addresses of the manager.
    #[error(transparent)]
    Map(#[from] MapError),
    /// There is no room. The message says for what, and what the caller can do.
    #[error(transparent)]
    NoRoom(Box<NoRoom>),
    /// Allocations could not be made resident, and not for want of room.
    #[error(transparent)]
    MakeResident(#[from] MakeResidentError),
    /// Allocations could not be offered.
    #[error(transparent)]
    Offer(#[from] OfferError),
    /// Allocations could not be reclaimed, and not for want of room.
    #[error(transparent)]
    Reclaim(#[from] ReclaimError),
    /// An allocation is to be used that is not on its device's residency list: it was evicted, or never made resident (RES-20).
    #[error("{allocation} is used and not resident: make it resident first, and evict it after its last use")]
    NotResident {
        /// The allocation.
        allocation: NamedAllocation,
    },
    /// An allocation is to be used that is offered: its content may be lost at any moment (RES-62).
    #[error("{allocation} is offered: reclaim it first")]
    Offered {
        /// The allocation.
        allocation: NamedAllocation,
    },
    /// An allocation is to be reclaimed that is not offered (RES-63).
    #[error("{allocation} is reclaimed and not offered")]
    NotOffered {
        /// The allocation.
        allocation: NamedAllocation,
    },
    /// A name has a zero byte, which no name has in Vulkan.
    #[error("the name {name:?} has a zero byte")]
    Name {
        /// The name.
        name: String,
    },
    /// An allocation was to be evicted more often than it was made resident (RES-02).
    #[error("{allocation} is evicted more often than it was made resident")]
    NotOnList {
        /// The allocation.
        allocation: NamedAllocation,
    },
    /// An allocation is another device's (RES-10).
    #[error("{allocation} was created on another device: use it with that one")]
    OtherDevice {
        /// The allocation.
        allocation: NamedAllocation,
    },
    /// A range is empty, or ends behind its buffer.
    #[error(
        "the bytes {} to {} are no part of {allocation}, which has {size}: name one byte or more, and none behind its end",
        range.start,
        range.end
    )]
    Range {
        /// The buffer.
        allocation: NamedAllocation,
        /// The bytes that were named.
        range: Range<u64>,
        /// The bytes of the buffer.
        size: u64,
    },
    /// The device has as many uses as it may that have not ended.
    #[error("{uses} uses of the device have not ended: end uses, and wait for the GPU, before the next")]
    TooManyUses {
        /// The limit.
        uses: usize,
    },
    /// A point is of a semaphore that is not the adapter's.
    #[error(
        "the point is of a semaphore that the adapter has not made: it looks only at its own, see Adapter::create_semaphore"
    )]
    ForeignPoint,
    /// A call that needs an answer was made in a call-back, on the thread that would answer.
    #[error("a call-back of the adapter cannot wait for the adapter: make the call from another thread")]
    InCallBack,
    /// The adapter cannot go on: the GPU has failed, or has not answered. Destroy everything, and open it anew.
    #[error("the adapter is lost: {0}")]
    Lost(String),
}
