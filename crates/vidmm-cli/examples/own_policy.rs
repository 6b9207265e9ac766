//! A policy of one's own under the whole command line: `replay`, `run` and `sim` take it by its name. This one lets the most recently
//! used allocation go, which is right for layers that come in turn and wrong for most else.
//!
//! `cargo run --release -p vidmm-cli --example own_policy -- replay scenarios/cyclic.toml --policy lru,mru:keep=2`

use std::{
    collections::{BTreeMap, BTreeSet},
    process::ExitCode,
};

use vidmm::policy::{Candidates, Parameter, Policy, PolicyKind, Recency, Subject};
use vidmm_cli::ModelGpu;

/// The name, and a parameter for `--policy mru:keep=2`.
pub static MRU: PolicyKind = PolicyKind::new("mru", &|values| Box::new(Mru::keeping(values[0]))).with(&[Parameter {
    key: "keep",
    default: 0,
    range: 0..=1024,
}]);

/// Resident allocations in the order of their last use.
#[derive(Debug)]
pub struct Mru {
    /// So many of the most recently used allocations stay.
    keep: usize,
    /// Slots by the time of the last use, and the times by slot.
    used_at: BTreeSet<(u64, usize)>,
    times: BTreeMap<usize, u64>,
    /// Ranks are those of the documented order: where a range is wanted, they decide alone.
    recency: Recency,
}

impl Mru {
    fn keeping(keep: u64) -> Self {
        let keep = keep as usize;
        Self { keep, used_at: BTreeSet::new(), times: BTreeMap::new(), recency: Recency::default() }
    }

    fn forget(&mut self, slot: usize) {
        if let Some(time) = self.times.remove(&slot) {
            self.used_at.remove(&(time, slot));
        }
    }
}

impl Policy for Mru {
    fn used(&mut self, subject: Subject, time: u64) {
        self.forget(subject.slot);
        self.times.insert(subject.slot, time);
        self.used_at.insert((time, subject.slot));
    }

    fn released(&mut self, subject: Subject, last_use: u64) {
        self.recency.released(subject, last_use);
    }

    fn rank(&self, slot: usize) -> u64 {
        self.recency.rank(slot)
    }

    /// Allocations on a list, of another priority or of another process are no candidates.
    fn victim(&mut self, candidates: &mut dyn Candidates) -> usize {
        let newest = self.used_at.iter().rev().map(|&(_, slot)| slot);
        let mut candidates_by_age = newest.filter(|&slot| candidates.get(slot).is_some());
        let spared = candidates_by_age.nth(self.keep);
        spared.unwrap_or_else(|| candidates.first_from(0).expect("there is a candidate").slot)
    }

    fn gone(&mut self, subject: Subject) {
        self.forget(subject.slot);
        self.recency.gone(subject);
    }
}

fn main() -> ExitCode {
    vidmm_cli::main(&ModelGpu, &[&MRU])
}
