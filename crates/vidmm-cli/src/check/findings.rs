//! Findings: by rule, by operation, and whether they are known.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Instant;

use serde::{Deserialize, Serialize};
use vidmm_ddi::OPERATIONS;
use vidmm_sim::StepFinding;

use super::args::CheckArgs;
use super::jobs::Job;
use super::rules::{is_fact, is_rule};
use crate::known::Known;

/// A finding of a check.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Found {
    /// The rule: the number of a fact or of an invariant, or a name of ours.
    pub rule: String,
    /// The paging operation that it is about, if it names one.
    pub operation: Option<String>,
    /// The mistake.
    pub message: String,
    /// The place of a death: the call, and why the process ends. Deaths in different places are different mistakes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub place: Option<String>,
}

/// Whether a finding may have this key: a rule, or a rule and an operation.
pub fn is_key(key: &str) -> bool {
    match key.split_once(' ') {
        Some((rule, operation)) => is_rule(rule) && OPERATIONS.contains(&operation),
        None => is_rule(key),
    }
}

/// The first fact that a text begins to tell of, as in `BPB-05, U-10: the driver ...`, and the text from there on; where the fact is in
/// parentheses, up to their end.
fn fact_in(text: &str) -> Option<(&str, &str)> {
    let starts = text.char_indices().filter(|&(at, _)| at == 0 || text[..at].ends_with([' ', '('])).map(|(at, _)| at);
    starts.map(|at| &text[at..at + end_of_parentheses(&text[at..])]).find_map(|rest| {
        let (word, _) = rest.split_once([':', ','])?;
        is_fact(word).then_some((word, rest))
    })
}

/// Where the parentheses end in which a text begins; its length if it begins in none.
fn end_of_parentheses(text: &str) -> usize {
    let mut open = 0;
    let ends = |byte: u8| {
        open += i64::from(byte == b'(') - i64::from(byte == b')');
        open < 0
    };
    text.bytes().position(ends).unwrap_or(text.len())
}

impl Found {
    /// A finding by a rule.
    pub fn new(rule: &str, message: String) -> Self {
        // The longest name: TRANSFER is in VIRTUAL_TRANSFER.
        let named = OPERATIONS.iter().filter(|name| message.contains(**name)).max_by_key(|name| name.len());
        Self { rule: rule.to_owned(), operation: named.map(|&name| name.to_owned()), message, place: None }
    }

    /// The findings of an adapter that does not start: a finding for each broken rule, or a finding of the rule START.
    pub fn of_start(error: &str) -> Vec<Self> {
        let broken = error.lines().skip(1).filter_map(|line| fact_in(line.trim()));
        let mut found: Vec<Self> = Vec::new();
        for (rule, told) in broken {
            let new = Self::new(rule, format!("the adapter does not start: {told}"));
            if !found.contains(&new) {
                found.push(new);
            }
        }
        if found.is_empty() { vec![Self::new("START", error.to_owned())] } else { found }
    }

    /// The finding of a world or of a scenario. The fact that the text names is the rule: that an adapter is in error, or that a step
    /// was answered otherwise than it expects, only follows from it.
    pub fn of_finding(finding: &StepFinding) -> Self {
        let problem = finding.problem.as_str();
        let follows = matches!(finding.rule, None | Some("I12"));
        match fact_in(problem).filter(|_| follows) {
            Some((rule, told)) => Self::new(rule, told.to_owned()),
            None => Self::new(finding.rule.unwrap_or("EXPECT"), problem.to_owned()),
        }
    }

    /// The part that stays the same from one world to the next: findings with one key are one mistake, as far as can be told.
    pub fn key(&self) -> String {
        self.operation.as_ref().map_or_else(|| self.rule.clone(), |operation| format!("{} {operation}", self.rule))
    }
}

impl Found {
    /// The key, and the place of a death: findings with one identity are one line of the report.
    pub fn identity(&self) -> String {
        self.place.as_ref().map_or_else(|| self.key(), |place| format!("{} {place}", self.key()))
    }
}

/// The outcome of a check.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Outcome {
    /// Its name.
    pub check: String,
    /// Its findings.
    pub found: Vec<Found>,
    /// Readings of answers without a word in the documents: no findings.
    pub remarks: Vec<Found>,
    /// The needs of a scenario that the driver's machine lacks; none if it was played.
    pub skipped_for_want_of: Option<String>,
    /// Steps of the machine, each judged.
    pub steps: u64,
    /// Kernels whose pages were judged.
    pub kernels: u64,
    /// How often the driver was called.
    pub calls: u64,
    /// How often it was asked for a paging operation.
    pub builds: u64,
    /// How often the driver was asked for each paging operation.
    pub operations: BTreeMap<String, u64>,
    /// How often threads of the driver's own have reported something.
    pub reports_from_threads: u64,
    /// The call that took the most stack, if that was measured, and the bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deepest: Option<(u64, String)>,
}

impl Outcome {
    /// Whether the check is a scenario or a world.
    pub fn asks_for_operations(&self) -> bool {
        matches!(Job::parse(&self.check), Some(Job::Scenario { .. } | Job::World { .. }))
    }

    /// The kind of the check.
    pub fn kind(&self) -> &'static str {
        match Job::parse(&self.check) {
            Some(Job::Scenario { .. }) => "scenarios",
            Some(Job::World { .. }) => "worlds",
            Some(Job::Race { .. }) => "races",
            Some(Job::Pool { .. }) => "pool",
            _ => "calls",
        }
    }

    /// Nothing yet.
    pub fn new(job: Job) -> Self {
        Self { check: job.to_string(), ..Self::default() }
    }
}

/// The findings with one key, or the remarks.
#[derive(Serialize)]
pub struct Group {
    /// The rule, and the operation.
    pub key: String,
    /// Whether the file of known findings has it.
    pub is_known: bool,
    /// The checks that found it.
    pub checks: Vec<String>,
    /// The first of them.
    pub first: Found,
}

/// The outcome of all checks.
#[derive(Serialize)]
pub struct Report {
    /// The findings by key.
    pub groups: Vec<Group>,
    /// The remarks by key.
    pub remarks: Vec<Group>,
    /// Every check.
    pub outcomes: Vec<Outcome>,
    /// How the machine is described, and what no check judges.
    pub machine: String,
    /// The features that are not judged.
    pub not_judged: Vec<String>,
    /// Checks that were not run, because the driver had ended its process too often.
    pub not_run: u64,
    /// A signal of the driver to every process reaches others than its own.
    pub reaches_others: bool,
}

/// Decides when enough was found to end a run.
pub struct Limit<'a> {
    args: &'a CheckArgs,
    known: &'a Known,
    begun: Instant,
    /// The checks that are counted.
    num_checks: usize,
    /// The keys of new findings.
    new: BTreeSet<String>,
}

impl<'a> Limit<'a> {
    /// Nothing was found yet.
    pub fn new(args: &'a CheckArgs, known: &'a Known) -> Self {
        Self { args, known, begun: Instant::now(), num_checks: 0, new: BTreeSet::new() }
    }

    /// Counts what the checks up to now have found. Returns whether another check is to be run.
    pub fn goes_on(&mut self, ran: &[Outcome]) -> bool {
        let last = &ran[std::mem::replace(&mut self.num_checks, ran.len())..];
        let shown = last.iter().flat_map(|outcome| &outcome.found).filter(|found| self.args.shows(&found.rule));
        self.new.extend(shown.filter(|found| !self.known.has(&found.key())).map(Found::identity));
        self.args.max_failures.is_none_or(|most| (self.new.len() as u64) < most)
            && self.args.time.is_none_or(|time| self.begun.elapsed() < time)
    }
}

/// The outcomes of a run, and the description of the machine.
#[derive(Default)]
pub struct Ran {
    pub outcomes: Vec<Outcome>,
    pub machine: String,
    pub not_judged: Vec<String>,
    pub not_run: u64,
    /// A signal of the driver to every process reaches others than its own.
    pub reaches_others: bool,
}

impl Report {
    /// Groups what the checks found.
    pub fn new(ran: Ran, args: &CheckArgs, known: &Known) -> Self {
        let grouped = |of: fn(&Outcome) -> &[Found], key_of: fn(&Found) -> String| {
            let mut groups: BTreeMap<String, Group> = BTreeMap::new();
            for outcome in &ran.outcomes {
                for found in of(outcome).iter().filter(|found| args.shows(&found.rule)) {
                    let key = found.key();
                    let is_known = known.has(&key);
                    let new = || Group { key, is_known, checks: Vec::new(), first: found.clone() };
                    let group = groups.entry(key_of(found)).or_insert_with(new);
                    if group.checks.last() != Some(&outcome.check) {
                        group.checks.push(outcome.check.clone());
                    }
                }
            }
            groups.into_values().collect::<Vec<_>>()
        };
        let groups = grouped(|outcome| &outcome.found, Found::identity);
        // The words of a remark are part of the key: a rule may have two remarks.
        let remarks = grouped(|outcome| &outcome.remarks, |found| found.key() + &found.message);
        let Ran { outcomes, machine, not_judged, not_run, reaches_others } = ran;
        Self { groups, remarks, outcomes, machine, not_judged, not_run, reaches_others }
    }

    /// Whether paging operations were asked for and judged, if scenarios or worlds were to run.
    pub fn has_judged(&self) -> bool {
        let mut played = self.outcomes.iter().filter(|outcome| outcome.asks_for_operations()).peekable();
        played.peek().is_none() || played.any(|outcome| outcome.steps > 0 && outcome.builds > 0)
    }

    /// A figure of all checks together.
    pub fn sum(&self, figure: impl Fn(&Outcome) -> u64) -> u64 {
        self.outcomes.iter().map(figure).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_finding_names_the_longest_operation() {
        let found = Found::new("BPB-40", "BPB-40: VIRTUAL_TRANSFER of allocation 0x7".into());
        assert_eq!(found.key(), "BPB-40 VIRTUAL_TRANSFER");
        assert_eq!(Found::new("SHIM-LOCK", "a lock is held".into()).key(), "SHIM-LOCK");
    }

    #[test]
    fn a_fact_is_found_where_its_story_begins() {
        let told = "BPB-05, U-10: the driver wrote nothing";
        assert_eq!(fact_in(told), Some(("BPB-05", told)));
        assert_eq!(fact_in(&format!("the adapter is in error: {told}")), Some(("BPB-05", told)));
        assert_eq!(fact_in("it was refused: violation (CRE-03: a size of 0)"), Some(("CRE-03", "CRE-03: a size of 0")));
        let told = "FLT-30: the driver did not return (a reset)";
        assert_eq!(fact_in(&format!("it is in error ({told})")), Some(("FLT-30", told)));
        assert_eq!(fact_in("the answer was ok (at 0x10), but `busy` was expected (RES-80)"), None);
    }
}
