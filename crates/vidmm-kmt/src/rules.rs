//! The rules for the calls of a client. A finding names the call and the earlier call behind the mistake.

use std::fmt;

use serde::{Deserialize, Serialize};

/// A rule. The numbers are those of the guide.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Rule {
    /// KMT-01: work uses allocations before the paging fence of MakeResident was waited for (RES-11). The use is certain if the commands are
    /// in these allocations, if the device's list has no other allocation, or if the device gives an allocation back before other work.
    SubmittedBeforeResident,
    /// KMT-02: the same for MapGpuVirtualAddress (GVA-50); or the commands are in an update before its fence was waited for (GVA-55).
    SubmittedBeforeMapped,
    /// KMT-03: the commands are at an address that no resident allocation is mapped at (RES-05).
    CommandsNotResident,
    /// KMT-04: a handle names nothing any more, or an object of another kind.
    DeadHandle,
    /// KMT-05: Evict without a MakeResident (RES-10).
    EvictedTooOften,
    /// KMT-06: after a refusal nothing was trimmed, although idle allocations are held (RES-13). The next work may need its commands, and
    /// each allocation that no work has used yet. A device that has trimmed after an earlier refusal is trusted.
    NothingTrimmed,
    /// KMT-07: after a refusal the driver evicted an allocation without any use since MakeResident, although that MakeResident was done
    /// before the refusal, and never made the allocation resident again. The program may have been told that the allocation is resident.
    TakenBack,
    /// KMT-08: MUST_SUCCEED without CANT_TRIM_FURTHER (RES-15).
    MustSucceedAlone,
    /// KMT-09: a notification to trim was ignored (RES-40).
    TrimIgnored,
    /// KMT-10: an allocation was destroyed as not in use while work with the allocation was in flight (RES-91).
    DestroyedInUse,
    /// KMT-11: a wait for a value that nothing signals.
    NeverSignalled,
    /// KMT-12: an adapter is closed with devices left, or a device is destroyed with allocations left.
    Leaked,
}

impl Rule {
    /// The number of the rule.
    pub fn number(self) -> &'static str {
        match self {
            Self::SubmittedBeforeResident => "KMT-01",
            Self::SubmittedBeforeMapped => "KMT-02",
            Self::CommandsNotResident => "KMT-03",
            Self::DeadHandle => "KMT-04",
            Self::EvictedTooOften => "KMT-05",
            Self::NothingTrimmed => "KMT-06",
            Self::TakenBack => "KMT-07",
            Self::MustSucceedAlone => "KMT-08",
            Self::TrimIgnored => "KMT-09",
            Self::DestroyedInUse => "KMT-10",
            Self::NeverSignalled => "KMT-11",
            Self::Leaked => "KMT-12",
        }
    }
}

/// A broken rule.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Finding {
    /// The rule.
    pub rule: Rule,
    /// The number of the call.
    pub call: u64,
    /// The number of the earlier call behind the mistake, if there is such a call.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub since: Option<u64>,
    /// The mistake in words.
    pub text: String,
}

/// A call that may have broken a rule for residency. Later calls show whether the call did.
#[derive(Debug)]
pub(crate) struct Suspicion {
    pub finding: Finding,
    /// The allocations: kept, taken back, or still on the way.
    pub allocations: Vec<u32>,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}  call {}: {}", self.rule.number(), self.call, self.text)?;
        self.since.map_or(Ok(()), |since| write!(f, " (call {since})"))
    }
}
