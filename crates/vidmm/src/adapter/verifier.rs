//! Knobs that make the consequence of a client's mistake come at once.

use crate::budget::MemorySegmentGroup;

/// The choices by which a use of what was evicted or offered, or of more than there may be, shows at once, instead of when memory is short. They change what the
/// manager decides, and never what a client that keeps to the contract finds in memory.
///
/// Only their names are public (RES-25); each says which meaning we gave it.
#[doc(alias = "VerifierOption")]
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct VerifierKnobs {
    /// Memory of an Evict goes as soon as the work that was submitted before allows it, whatever its flags say. No work begins
    /// while anything is on its way out: what is submitted later, and uses it, faults.
    #[doc(alias = "ForceSynchronousEvict")]
    pub force_synchronous_evict: bool,
    /// `EVICT_ONLY_IF_NECESSARY` is ignored: memory of an Evict goes as soon as the work that was submitted before allows it.
    #[doc(alias = "NeverDeferEvictions")]
    pub never_defer_evictions: bool,
    /// Every Offer is one with `OFFER_IMMEDIATELY`: the content is discarded as soon as the work that was submitted before allows
    /// it, and no work begins while that is under way.
    #[doc(alias = "AlwaysDiscardOffer")]
    pub always_discard_offer: bool,
    /// Budgets in each memory of the local group are those of one with no more bytes than this. The memory stays: a list that fits beside
    /// all others is accepted, and its process is told of a budget that it is above.
    #[doc(alias = "RestrictBudget")]
    pub restrict_budget_local: Option<u64>,
    /// The same of the non-local group.
    pub restrict_budget_non_local: Option<u64>,
}

impl VerifierKnobs {
    /// Whether no Evict waits until memory is wanted.
    pub(crate) fn hastens_evictions(self) -> bool {
        self.force_synchronous_evict || self.never_defer_evictions
    }

    /// The most bytes of an account of a group that budgets are for.
    pub(crate) fn budget_limit(self, group: MemorySegmentGroup) -> u64 {
        let limit = match group {
            MemorySegmentGroup::Local => self.restrict_budget_local,
            MemorySegmentGroup::NonLocal => self.restrict_budget_non_local,
        };
        limit.unwrap_or(u64::MAX)
    }

    /// Whether work waits for what is on its way out.
    pub(crate) fn holds_work(self) -> bool {
        self.force_synchronous_evict || self.always_discard_offer
    }
}
