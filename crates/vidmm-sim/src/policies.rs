//! The policies of this process by name, and the rules that policies of users have broken.
//!
//! [`register`] is the only writer of the names. A registered policy is judged: each answer is checked, and each broken rule is kept
//! for [`take_reports`]. The manager goes on with the first candidate.

use std::collections::BTreeMap;
use std::fmt::{self, Debug, Formatter};
use std::sync::{Mutex, PoisonError, RwLock};

use serde::{Deserialize, Deserializer, Serializer};
use vidmm::SegmentId;
use vidmm::policy::{Candidate, Candidates, Policy, PolicyChoice, PolicyError, PolicyKind, RANK_MAX, Subject};

/// The looks at candidates for one victim, for each resident allocation and one more.
const LOOKS: u64 = 64;

const REPORTS_MAX: usize = 100;

static OWN: RwLock<Vec<&'static PolicyKind>> = RwLock::new(Vec::new());
static REPORTS: Mutex<Vec<PolicyReport>> = Mutex::new(Vec::new());

/// A rule of policies.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PolicyRule {
    /// POL-01: the victim is one of the candidates.
    VictimIsCandidate,
    /// POL-02: a rank is below 2^56.
    RankIsSmall,
    /// POL-03: a hook returns a value of the promised kind, and raises nothing.
    HookReturns,
    /// POL-04: candidates are asked during `victim` alone.
    NothingIsKept,
    /// POL-05: a victim is chosen in 64 looks for each resident allocation.
    VictimIsFound,
    /// POL-06: a prefetched allocation is known, is in no memory segment, and fits into the free bytes.
    PrefetchFits,
}

impl PolicyRule {
    /// The name of the rule.
    pub fn name(self) -> &'static str {
        match self {
            Self::VictimIsCandidate => "POL-01",
            Self::RankIsSmall => "POL-02",
            Self::HookReturns => "POL-03",
            Self::NothingIsKept => "POL-04",
            Self::VictimIsFound => "POL-05",
            Self::PrefetchFits => "POL-06",
        }
    }
}

/// A rule that a policy has broken.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PolicyReport {
    /// The name of the policy.
    pub policy: String,
    /// The hook in which the rule was broken.
    pub hook: &'static str,
    /// The rule.
    pub rule: PolicyRule,
    /// The first deed.
    pub deed: String,
    /// The number of deeds.
    pub times: u64,
}

impl fmt::Display for PolicyReport {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let Self { policy, hook, rule, deed, times } = self;
        write!(f, "{}: policy {policy}, hook `{hook}`: {deed}", rule.name())?;
        if *times > 1 { write!(f, "; {times} times in all") } else { Ok(()) }
    }
}

/// Reports a broken rule. A policy, hook and rule have one report, with the first deed.
pub fn report(policy: &str, hook: &'static str, rule: PolicyRule, deed: impl FnOnce() -> String) {
    let mut reports = REPORTS.lock().unwrap_or_else(PoisonError::into_inner);
    let is_full = reports.len() >= REPORTS_MAX;
    let known = reports.iter_mut().find(|known| known.policy == policy && (known.hook, known.rule) == (hook, rule));
    match known {
        Some(known) => known.times += 1,
        None if !is_full => {
            reports.push(PolicyReport { policy: policy.to_owned(), hook, rule, deed: deed(), times: 1 });
        }
        None => {}
    }
}

/// Takes the reports of this process since the last call.
pub fn take_reports() -> Vec<PolicyReport> {
    std::mem::take(&mut *REPORTS.lock().unwrap_or_else(PoisonError::into_inner))
}

/// A name that a policy cannot have.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("a policy cannot have the name `{0}`; take the name of no other policy, with letters and neither `:` nor `,`")]
pub struct WrongPolicyName(String);

/// Adds a policy to those that have a name. A later one takes the place of an earlier one of the same name.
///
/// # Errors
///
/// If the manager has a policy of that name, or a command line could not state the name.
pub fn register(kind: &PolicyKind) -> Result<PolicyChoice, WrongPolicyName> {
    let is_taken = PolicyChoice::ALL.iter().any(|choice| choice.kind().name == kind.name);
    let cannot_be_stated = |c: char| matches!(c, ':' | ',') || c.is_whitespace() || c.is_control();
    if is_taken || kind.name.is_empty() || kind.name.contains(cannot_be_stated) {
        return Err(WrongPolicyName(kind.name.to_owned()));
    }
    let (name, make) = (kind.name, kind.make);
    // A process registers few policies, and none is ever forgotten.
    let judged = make.map(|make| -> &'static vidmm::policy::MakePolicy {
        Box::leak(Box::new(move |values: &[u64]| -> Box<dyn Policy> {
            Box::new(Judged { name, policy: make(values), resident: 0, known: BTreeMap::new() })
        }))
    });
    let kind: &'static PolicyKind = Box::leak(Box::new(PolicyKind { make: judged, ..*kind }));
    let mut own = OWN.write().unwrap_or_else(PoisonError::into_inner);
    own.retain(|other| other.name != name);
    own.push(kind);
    Ok(PolicyChoice::of(kind))
}

/// The policy that a text names.
///
/// # Errors
///
/// If no policy has the name, or the text states a wrong parameter.
pub fn find(text: &str) -> Result<PolicyChoice, PolicyError> {
    PolicyChoice::parse(text, &OWN.read().unwrap_or_else(PoisonError::into_inner))
}

/// All policies: first those that come with the manager.
pub fn all() -> Vec<PolicyChoice> {
    let own = OWN.read().unwrap_or_else(PoisonError::into_inner);
    PolicyChoice::ALL.into_iter().chain(own.iter().copied().map(PolicyChoice::of)).collect()
}

/// Reads the name of a policy in a file.
pub(crate) fn read<'de, D: Deserializer<'de>>(deserializer: D) -> Result<PolicyChoice, D::Error> {
    find(&String::deserialize(deserializer)?).map_err(serde::de::Error::custom)
}

/// Writes the name of a policy to a file.
pub(crate) fn write<S: Serializer>(choice: &PolicyChoice, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(choice)
}

/// A policy whose answers are checked.
struct Judged {
    name: &'static str,
    policy: Box<dyn Policy>,
    /// The number of resident allocations.
    resident: u64,
    /// The sizes of the allocations that a policy with prefetch has heard of, and whether they are in a memory segment.
    known: BTreeMap<usize, (u64, bool)>,
}

impl Judged {
    /// Takes note of an allocation, if the policy may choose it for a prefetch.
    fn note(&mut self, subject: Subject, is_in_memory: Option<bool>) {
        if self.policy.prefetches() {
            let (size, known) = self.known.entry(subject.slot).or_default();
            (*size, *known) = (subject.size, is_in_memory.unwrap_or(*known));
        }
    }
}

impl Debug for Judged {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        self.policy.fmt(f)
    }
}

impl Policy for Judged {
    fn used(&mut self, subject: Subject, time: u64) {
        self.note(subject, None);
        self.policy.used(subject, time);
    }

    fn brought_in(&mut self, subject: Subject, memory: SegmentId) {
        self.resident += 1;
        self.note(subject, Some(!memory.is_system()));
        self.policy.brought_in(subject, memory);
    }

    fn released(&mut self, subject: Subject, last_use: u64) {
        self.policy.released(subject, last_use);
    }

    fn rank(&self, slot: usize) -> u64 {
        checked(self.name, "rank", slot, self.policy.rank(slot))
    }

    fn victim(&mut self, candidates: &mut dyn Candidates) -> usize {
        let Self { name, ref mut policy, resident, .. } = *self;
        let looks = LOOKS * (resident + 1);
        let mut watched = Watched { name, candidates, looks: looks.into() };
        let slot = policy.victim(&mut watched);
        if watched.looks.get() == 0 {
            report(name, "victim", PolicyRule::VictimIsFound, || {
                format!("{looks} looks at the candidates found no victim; no further candidate is shown")
            });
        } else if watched.candidates.get(slot).is_none() {
            report(name, "victim", PolicyRule::VictimIsCandidate, || {
                format!("slot {slot} is no candidate; the first candidate goes in its place")
            });
        }
        slot
    }

    fn left(&mut self, subject: Subject, memory: SegmentId) {
        self.resident = self.resident.saturating_sub(1);
        self.note(subject, Some(false));
        self.policy.left(subject, memory);
    }

    fn cleans(&self, candidate: Candidate) -> bool {
        self.policy.cleans(candidate)
    }

    fn announced(&mut self, subject: Subject, time: u64) {
        self.note(subject, None);
        self.policy.announced(subject, time);
    }

    fn prefetches(&self) -> bool {
        self.policy.prefetches()
    }

    fn prefetch(&mut self, memory: SegmentId, free: u64) -> Option<usize> {
        let slot = self.policy.prefetch(memory, free)?;
        let wrong = match self.known.get(&slot) {
            None => Some("is no allocation of which the policy has heard".to_owned()),
            Some((_, true)) => Some("is in a memory segment already".to_owned()),
            Some(&(size, false)) if size > free => Some(format!("has {size} bytes, and {free} are free")),
            Some(_) => None,
        };
        if let Some(wrong) = wrong {
            report(self.name, "prefetch", PolicyRule::PrefetchFits, || {
                format!("slot {slot} {wrong}; nothing comes ahead")
            });
        }
        Some(slot)
    }

    fn gone(&mut self, subject: Subject) {
        self.known.remove(&subject.slot);
        self.policy.gone(subject);
    }
}

/// The rank, or the largest one if the policy's is too large.
fn checked(policy: &str, hook: &'static str, slot: usize, rank: u64) -> u64 {
    if rank > RANK_MAX {
        report(policy, hook, PolicyRule::RankIsSmall, || {
            format!("slot {slot} has rank {rank:#x}, which is not below 2^56; the largest rank stands in its place")
        });
    }
    rank.min(RANK_MAX)
}

/// Candidates with a count of looks. After too many looks no candidate is shown, which ends a loop of the policy.
struct Watched<'a> {
    name: &'static str,
    candidates: &'a mut dyn Candidates,
    /// The looks that are left.
    looks: std::cell::Cell<u64>,
}

impl Watched<'_> {
    /// Counts a look. Returns whether it is allowed.
    fn look(&self) -> bool {
        self.looks.set(self.looks.get().saturating_sub(1));
        self.looks.get() > 0
    }
}

impl Candidates for Watched<'_> {
    fn memory(&self) -> SegmentId {
        self.candidates.memory()
    }

    fn first_from(&self, rank: u64) -> Option<Candidate> {
        self.look().then(|| self.candidates.first_from(rank)).flatten()
    }

    fn get(&self, slot: usize) -> Option<Candidate> {
        self.look().then(|| self.candidates.get(slot)).flatten()
    }

    fn set_rank(&mut self, slot: usize, rank: u64) {
        self.candidates.set_rank(slot, checked(self.name, "set_rank", slot, rank));
    }
}
