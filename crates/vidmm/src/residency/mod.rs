//! Residency: what lists keep in place, what is offered, what the CPU sees, and who may go in which order.

pub(crate) mod evictable;
pub(crate) mod holds;
pub(crate) mod lock;
pub(crate) mod offers;
pub(crate) mod order;
pub(crate) mod place;
pub(crate) mod views;
pub(crate) mod weight;

use alloc::collections::{BTreeMap, VecDeque};

use crate::{
    budget::pool::PerPool,
    event::offer::Offer,
    id::AllocationIx,
    objects::spans::Spans,
    residency::{evictable::Evictable, lock::Lock},
};
/// What keeps allocations resident, and what lets them go.
#[derive(Default)]
pub(crate) struct Residents {
    pub evictable: PerPool<Evictable>,
    /// The allocations that are offered.
    pub offers: BTreeMap<AllocationIx, Offer>,
    /// The allocations that the CPU sees.
    pub locks: BTreeMap<AllocationIx, Lock>,
    /// Evictable allocations whose last Evict asked for eviction at the earliest opportunity.
    pub evict_soon: VecDeque<AllocationIx>,
    /// What requests that are not granted are to bring in.
    pub spans: Spans,
}
