//! Refusals: the reason, and the bytes to trim first (RES-13).
//!
//! NumBytesToTrim follows from the budget at the call, not from the published budget. The amount is no more than the lists of the process
//! name, and suffices: after such a trim the same call is admitted (P03). Where a trim of all lists would not be enough, the amount is 0.

use alloc::{collections::BTreeSet, vec::Vec};

use super::{
    admission::{self, Terms},
    candidates::{self, Candidate, Joining, Joins},
};
use crate::{
    adapter::Adapter,
    budget::account::{Account, PerAccount},
    event::{
        error::{NoMemoryReason, Shortage},
        list_flags::MakeResidentFlags,
    },
    residency::assignment::{self, Assignment, Room},
    state::State,
};

/// A MakeResident without memory.
pub(crate) struct Refusal {
    pub shortages: Shortages,
    pub reason: NoMemoryReason,
}

/// The missing bytes by account, and the reasons. Nothing is missing by default.
#[derive(Default)]
pub(crate) struct Shortages(Vec<(Account, u64, NoMemoryReason)>);

impl Shortages {
    /// An account misses bytes, for a reason.
    pub(crate) fn add(&mut self, account: Account, bytes: u64, reason: NoMemoryReason) {
        self.0.extend((bytes > 0).then_some((account, bytes, reason)));
    }

    /// The missing bytes of all accounts.
    pub(crate) fn num_bytes_to_trim(&self) -> u64 {
        self.0.iter().map(|&(_, bytes, _)| bytes).fold(0, u64::saturating_add)
    }

    /// The shortages for callers, memory segments first.
    pub(crate) fn told(&self, adapter: &Adapter) -> Vec<Shortage> {
        let mut shortages = self.0.clone();
        shortages.sort_by_key(|&(account, ..)| (!account.is_memory(), account));
        let told = |(account, num_bytes_to_trim, reason)| Shortage {
            account: adapter.memory_account(account),
            num_bytes_to_trim,
            reason,
        };
        shortages.into_iter().map(told).collect()
    }
}

/// Gives the reason of a refusal with these flags, and the amounts. `within` is the answer of the search within the
/// entitlement.
pub(crate) fn refuse(
    state: &State,
    joining: &Joining<'_>,
    candidates: &[(Candidate, u64)],
    flags: MakeResidentFlags,
    within: Assignment,
) -> Refusal {
    let missing = missing(state, joining, Terms::Entitled(flags));
    let reason = match within {
        Assignment::NotFound => NoMemoryReason::NoAssignment,
        _ => reason_alone(state, joining, candidates).unwrap_or_else(|| {
            let short = state.memory.accounts().iter().filter(|&account| missing[account] > 0);
            let has_budget = |account: Account| state.adapter.memory_account(account).group.is_some();
            over_share(flags, { short }.any(has_budget))
        }),
    };
    let is_budget =
        matches!(reason, NoMemoryReason::OverBudget | NoMemoryReason::OverMaximumBudget | NoMemoryReason::OverShare);
    let mut shortages = Shortages::default();
    let to_trim = enough(state, joining, Terms::Entitled(flags), missing);
    for account in state.memory.accounts().iter() {
        let has_budget = state.adapter.memory_account(account).group.is_some();
        shortages.add(account, to_trim[account], if is_budget { over_share(flags, has_budget) } else { reason });
    }
    Refusal { shortages, reason }
}

fn over_share(flags: MakeResidentFlags, has_budget: bool) -> NoMemoryReason {
    match has_budget {
        true if flags.contains(MakeResidentFlags::CANT_TRIM_FURTHER) => NoMemoryReason::OverMaximumBudget,
        true => NoMemoryReason::OverBudget,
        false => NoMemoryReason::OverShare,
    }
}

/// The reason why a list does not fit alone; none if the list fits.
fn reason_alone(state: &State, joining: &Joining<'_>, candidates: &[(Candidate, u64)]) -> Option<NoMemoryReason> {
    let room = admission::room_without(state, joining, candidates, Terms::Alone);
    let classes = || candidates::classes(candidates, |candidate| candidate.choices);
    let now = assignment::assign(classes(), room.clone());
    if matches!(now, Assignment::Found(_)) {
        return None;
    }
    let without_ranges = || assignment::assign(classes(), Room { ranges: None, ..room.clone() });
    if room.ranges.is_some() && matches!(without_ranges(), Assignment::Found(_)) {
        return Some(NoMemoryReason::Fragmented);
    }
    // The whole list anew, without locks, sharing or requests.
    let anew = assignment::assign(candidates::classes(candidates, |candidate| candidate.allowed), room);
    Some(match (now, anew) {
        (_, Assignment::Impossible) => NoMemoryReason::DoesNotFit,
        (Assignment::Impossible, Assignment::Found(_)) => NoMemoryReason::HeldForNow,
        _ => NoMemoryReason::NoAssignment,
    })
}

/// The bytes missing on these terms beside the present list: after a trim, each joining allocation has room in any possible account.
fn missing(state: &State, joining: &Joining<'_>, terms: Terms) -> PerAccount<u64> {
    let mut room = terms.room(state, joining);
    let mut missing: PerAccount<u64> = state.memory.accounts().none();
    for &Joins { weight, choices, .. } in &joining.allocations {
        if let Some(home) = choices.into_iter().find(|&home| room.has(weight, home)) {
            room.take(weight, home, 1);
            continue;
        }
        for account in state.memory.accounts().iter().filter(|&account| choices.contain_account(account)) {
            let there = || choices.into_iter().filter(|home| home.account() == account);
            let misplaced = there().map(|home| room.misplaced(weight, home)).max().unwrap_or(0);
            let bytes = i128::from(weight.size) - room.bytes[account];
            let bytes = u64::try_from(bytes.max(misplaced).max(0)).unwrap_or(u64::MAX);
            missing[account] = missing[account].saturating_add(bytes);
            room.trim(account, bytes);
            for home in there() {
                room.take(weight, home, 1);
            }
            room.bytes[account] = room.bytes[account].max(0);
        }
    }
    missing
}

/// The missing bytes as far as the process lists so many, if enough; else all listed bytes of the short accounts, or of all accounts, if
/// enough.
fn enough(state: &State, joining: &Joining<'_>, terms: Terms, missing: PerAccount<u64>) -> PerAccount<u64> {
    let accounts = state.memory.accounts();
    let device = &state.objects[joining.device];
    let stays = named_on_list(state, joining);
    let listed =
        |account: Account| state.shares.by_account[account].requested(device.process).saturating_sub(stays[account]);
    let some = accounts.per(|account| missing[account].min(listed(account)));
    let all_there = accounts.per(|account| if missing[account] > 0 { listed(account) } else { 0 });
    let all = accounts.per(listed);
    let suffice = |trimmed: &PerAccount<u64>| {
        let mut room = terms.room(state, joining);
        for account in accounts.iter() {
            // Only ranges of the device's list make room for ranges.
            let own = device.list[account].now();
            match trimmed[account] >= own {
                true => room.empty_ranges(&state.memory, account),
                false => room.trim(account, trimmed[account]),
            }
            room.bytes[account] = terms.left_after_trimming(state, joining.device, account, trimmed[account]);
        }
        let candidates = candidates::counted(candidates::joining(&state.objects, joining));
        let classes = candidates::classes(&candidates, |candidate| candidate.choices);
        matches!(assignment::assign(classes, room), Assignment::Found(_))
    };
    [some, all_there, all].into_iter().find(suffice).unwrap_or_else(|| accounts.none())
}

/// The bytes of listed allocations in the call: no trim takes these.
fn named_on_list(state: &State, joining: &Joining<'_>) -> PerAccount<u64> {
    let mut bytes: PerAccount<u64> = state.memory.accounts().none();
    if joining.named.len() > joining.allocations.len() {
        let joins = BTreeSet::from_iter(joining.allocations.iter().map(|joins| joins.index));
        for index in BTreeSet::from_iter(joining.named.iter().copied().filter(|index| !joins.contains(index))) {
            bytes[state.objects[index].counted_in()] += state.objects[index].size;
        }
    }
    bytes
}
