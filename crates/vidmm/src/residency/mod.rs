//! Residency: allocations that lists keep in place, that are offered, that the CPU sees, and the order of victims.

pub(crate) mod assignment;
pub(crate) mod evictable;
pub(crate) mod packing;
pub(crate) mod pins;
mod firsts;
mod hooks;
pub(crate) mod offers;
pub(crate) mod order;
pub(crate) mod place;
pub(crate) mod rehoming;
pub(crate) mod views;
pub(crate) mod weight;

use alloc::{boxed::Box, collections::VecDeque};

use crate::{
    budget::account::{Accounts, PerAccount},
    id::AllocationIx,
    objects::spans::Spans,
    policy::Policy,
    residency::evictable::Evictable,
};

/// The pins, offers and locks of allocations, and the order of victims.
pub(crate) struct Residents {
    pub evictable: PerAccount<Evictable>,
    /// Evictable allocations whose last Evict asked for eviction at the earliest opportunity.
    pub evict_soon: VecDeque<AllocationIx>,
    /// The policy that orders allocations of equal worth; none is the documented order (CRE-31a).
    pub policy: Option<Box<dyn Policy>>,
    /// The policy chooses what comes ahead of its MakeResident.
    pub may_prefetch: bool,
    /// The spans that requests are to bring in which are not granted.
    pub spans: Spans,
}

impl Residents {
    /// Nothing is resident yet.
    pub(crate) fn new(accounts: Accounts, policy: Option<Box<dyn Policy>>) -> Self {
        let mut residents = Self {
            evictable: accounts.none(),
            evict_soon: VecDeque::new(),
            policy: None,
            may_prefetch: false,
            spans: Spans::default(),
        };
        policy.into_iter().for_each(|policy| residents.set_policy(policy));
        residents
    }

    /// Sets the policy, which has heard of no allocation yet.
    pub(crate) fn set_policy(&mut self, policy: Box<dyn Policy>) {
        self.may_prefetch = policy.prefetches();
        self.policy = Some(policy);
    }
}
