//! Policies of users: names, and the rules that are named when a policy breaks one.

use std::collections::BTreeMap;

use vidmm::SegmentId;
use vidmm::policy::{Candidates, Policy, PolicyChoice, PolicyKind, Recency, Subject};
use vidmm_sim::policies::{PolicyRule, find, register, take_reports};
use vidmm_sim::{Profile, SimDesc, Unobserved, simulate};

/// Breaks each rule that a policy in Rust can break.
#[derive(Debug, Default)]
struct Liar {
    recency: Recency,
    victims: u64,
}

impl Policy for Liar {
    fn released(&mut self, subject: Subject, last_use: u64) {
        self.recency.released(subject, last_use);
    }

    fn rank(&self, slot: usize) -> u64 {
        self.recency.rank(slot) | 1 << 60
    }

    fn victim(&mut self, candidates: &mut dyn Candidates) -> usize {
        self.victims += 1;
        match self.victims % 3 {
            0 => usize::MAX,
            1 => {
                while candidates.first_from(0).is_some() {}
                0
            }
            _ => {
                candidates.set_rank(candidates.first_from(0).expect("there is a candidate").slot, u64::MAX);
                candidates.first_from(0).expect("there is a candidate").slot
            }
        }
    }

    fn prefetches(&self) -> bool {
        true
    }

    fn prefetch(&mut self, _memory: SegmentId, free: u64) -> Option<usize> {
        Some(free as usize % 64)
    }
}

/// Holds the manager to the order of its hooks: the rank of a resident allocation alone is asked, and allocations leave what they entered.
#[derive(Debug, Default)]
struct Strict(BTreeMap<usize, SegmentId>);

impl Policy for Strict {
    fn brought_in(&mut self, subject: Subject, memory: SegmentId) {
        assert_eq!(self.0.insert(subject.slot, memory), None, "{subject:?} comes into a second memory");
    }

    fn rank(&self, slot: usize) -> u64 {
        assert!(self.0.contains_key(&slot), "slot {slot} is in no memory");
        slot as u64
    }

    fn victim(&mut self, candidates: &mut dyn Candidates) -> usize {
        let victim = candidates.first_from(0).expect("there is a candidate").slot;
        assert_eq!(self.0.get(&victim), Some(&candidates.memory()));
        victim
    }

    fn left(&mut self, subject: Subject, memory: SegmentId) {
        assert_eq!(self.0.remove(&subject.slot), Some(memory), "{subject:?} leaves");
    }

    fn gone(&mut self, subject: Subject) {
        assert_eq!(self.0.get(&subject.slot), None, "{subject:?} is gone");
    }
}

static STRICT: PolicyKind = PolicyKind::new("a-strict-one", &|_| Box::new(Strict::default()));
static LIAR: PolicyKind = PolicyKind::new("a-liar", &|_| Box::new(Liar::default()));
static RIGHT: PolicyKind = PolicyKind::new("a-right-one", &|_| Box::new(Recency::default()));

/// The names of broken rules with the hooks, over some worlds, in which no rule of the manager may break.
fn broken(choice: PolicyChoice) -> Vec<(&'static str, &'static str)> {
    for seed in 1..=40 {
        let desc = SimDesc { seed, steps: 300, profile: Profile::Any, policy: Some(choice), digest: false };
        let outcome = simulate(desc, &crate::soft::machine, &mut Unobserved).expect("the machine starts");
        assert!(outcome.failure.is_none(), "seed {seed}: {}", outcome.failure.expect("there is one"));
    }
    let mut broken = Vec::new();
    for report in take_reports().into_iter().filter(|report| report.policy == choice.kind().name) {
        assert!(report.to_string().contains(report.hook) && report.times > 0, "{report}");
        broken.push((report.rule.name(), report.hook));
    }
    broken.sort_unstable();
    broken
}

#[test]
fn broken_rules_of_a_policy_are_named_and_no_rule_of_the_manager_breaks() {
    let liar = register(&LIAR).expect("the name is free");
    let right = [
        ("POL-01", "victim"),
        ("POL-02", "rank"),
        ("POL-02", "set_rank"),
        ("POL-05", "victim"),
        ("POL-06", "prefetch"),
    ];
    assert_eq!(broken(liar), right);
    for right in [&RIGHT, &STRICT] {
        assert_eq!(broken(register(right).expect("the name is free")), []);
    }
}

#[test]
fn a_registered_policy_has_a_name_and_the_last_one_of_a_name_counts() {
    static FIRST: PolicyKind = PolicyKind::new("twice", &|_| Box::new(Recency::default()));
    assert!(find("twice").is_err());
    let first = register(&FIRST).expect("the name is free");
    assert_eq!(find("twice"), Ok(first));
    let second = register(&FIRST).expect("a name can be given again");
    assert_ne!(first, second);
    assert_eq!(find("twice"), Ok(second));
    for name in ["lru", "predict", "", "a:b", "a,b", "a b"] {
        let wrong = PolicyKind { name, ..FIRST };
        assert!(register(&wrong).is_err(), "{name}");
    }
    assert_eq!(PolicyRule::HookReturns.name(), "POL-03");
}
