//! Residency: allocations that lists keep in place, that are offered, that the CPU sees, and the order of victims.

pub(crate) mod assignment;
pub(crate) mod evictable;
pub(crate) mod packing;
pub(crate) mod pins;
mod firsts;
mod hooks;
pub(crate) mod lock;
pub(crate) mod offers;
pub(crate) mod order;
pub(crate) mod place;
pub(crate) mod rehoming;
pub(crate) mod views;
pub(crate) mod weight;
pub(crate) mod worth;

use alloc::{
    boxed::Box,
    collections::{BTreeMap, VecDeque},
};

use crate::{
    budget::account::{Accounts, Home, PerAccount},
    event::offer::Offer,
    id::{AllocationIx, DeviceIx},
    objects::spans::Spans,
    policy::Policy,
    residency::{evictable::Evictable, lock::Lock},
};

/// The next home of an allocation.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Rehoming {
    pub to: Home,
    /// The device of the request, and the number of the request on the device.
    pub device: DeviceIx,
    pub request: u64,
}

/// The pins, offers and locks of allocations, and the order of victims.
pub(crate) struct Residents {
    pub evictable: PerAccount<Evictable>,
    /// The allocations that are offered.
    pub offers: BTreeMap<AllocationIx, Offer>,
    /// The allocations that the CPU sees.
    pub locks: BTreeMap<AllocationIx, Lock>,
    /// Evictable allocations whose last Evict asked for eviction at the earliest opportunity.
    pub evict_soon: VecDeque<AllocationIx>,
    /// The allocations that move their home with a request that is not granted.
    pub rehomings: BTreeMap<AllocationIx, Rehoming>,
    /// The policy that orders allocations of equal worth; none is the documented order (CRE-31a).
    pub policy: Option<Box<dyn Policy>>,
    /// The spans that requests are to bring in which are not granted.
    pub spans: Spans,
}

impl Residents {
    /// Nothing is resident yet.
    pub(crate) fn new(accounts: Accounts, policy: Option<Box<dyn Policy>>) -> Self {
        Self {
            evictable: accounts.none(),
            offers: BTreeMap::new(),
            locks: BTreeMap::new(),
            rehomings: BTreeMap::new(),
            evict_soon: VecDeque::new(),
            policy,
            spans: Spans::default(),
        }
    }
}
