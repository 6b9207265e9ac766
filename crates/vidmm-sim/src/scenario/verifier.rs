//! The knobs of the verifier in a scenario.

use serde::{Deserialize, Serialize};
use vidmm::VerifierKnobs;
use vidmm_trace::ByteSize;

/// The consequences of mistakes that come at once (RES-25): the key `verifier` of `[adapter]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default, rename_all = "kebab-case", expecting = "a table")]
pub struct VerifierSettings {
    /// Memory of an Evict goes at once, and work waits for that.
    pub force_synchronous_evict: bool,
    /// EVICT_ONLY_IF_NECESSARY is ignored.
    pub never_defer_evictions: bool,
    /// Offered content is discarded at once, and work waits for that.
    pub always_discard_offer: bool,
    /// Budgets in each memory of the local group are those of one with no more bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub restrict_budget_local: Option<ByteSize>,
    /// The same of the non-local group.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub restrict_budget_non_local: Option<ByteSize>,
}

impl From<VerifierSettings> for VerifierKnobs {
    fn from(settings: VerifierSettings) -> Self {
        Self {
            force_synchronous_evict: settings.force_synchronous_evict,
            never_defer_evictions: settings.never_defer_evictions,
            always_discard_offer: settings.always_discard_offer,
            restrict_budget_local: settings.restrict_budget_local.map(ByteSize::bytes),
            restrict_budget_non_local: settings.restrict_budget_non_local.map(ByteSize::bytes),
        }
    }
}
