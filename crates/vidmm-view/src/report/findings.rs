//! Findings of a page: those that differ in numbers alone are one, with their count.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::timeline::record::{Finding, Severity};

/// The kinds of findings that a page has; of more, only the number is told.
const KINDS_MAX: usize = 500;

/// The characters of a finding that a page has.
const CHARS_MAX: usize = 4000;

/// Findings by their kinds.
#[derive(Debug, Default)]
pub(super) struct Findings {
    kinds: BTreeMap<(Severity, String), Kind>,
    /// Findings of further kinds.
    others: u64,
}

/// A finding, and how often one that differs in numbers alone followed it.
#[derive(Debug)]
struct Kind {
    at: u64,
    number: u64,
    allocation: Option<u64>,
    text: String,
    count: u64,
    last_at: u64,
}

impl Findings {
    /// Adds a finding about the allocation of a row.
    pub fn add(&mut self, finding: &Finding, allocation: Option<u64>) {
        let shape: String = finding.text.chars().filter(|letter| !letter.is_ascii_digit() && *letter != '.').collect();
        let key = (finding.severity, shape);
        if self.kinds.len() >= KINDS_MAX && !self.kinds.contains_key(&key) {
            self.others += 1;
            return;
        }
        let kind = self.kinds.entry(key).or_insert_with(|| {
            let text = crate::cut(&finding.text, CHARS_MAX);
            Kind { at: finding.at, number: finding.number, allocation, text, count: 0, last_at: finding.at }
        });
        kind.count += 1;
        kind.last_at = finding.at;
    }

    /// The heaviest first, and of equal ones the earliest.
    pub fn into_value(self) -> Value {
        let mut kinds: Vec<(Severity, Kind)> =
            self.kinds.into_iter().map(|((severity, _), kind)| (severity, kind)).collect();
        kinds.sort_by_key(|(severity, kind)| (std::cmp::Reverse(*severity), kind.number));
        let kinds: Vec<Value> = kinds
            .into_iter()
            .map(|(severity, kind)| {
                json!({
                    "severity": severity as u8,
                    "at": kind.at,
                    "number": kind.number,
                    "allocation": kind.allocation,
                    "text": kind.text,
                    "count": kind.count,
                    "lastAt": kind.last_at,
                })
            })
            .collect();
        json!({ "kinds": kinds, "others": self.others })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn findings_that_differ_in_numbers_alone_are_one() {
        let mut findings = Findings::default();
        for (number, severity, text) in [
            (1, Severity::Warning, "device 1 was refused, 4.5 MiB"),
            (2, Severity::Warning, "device 20 was refused, 12 MiB"),
            (3, Severity::Error, "a packet faulted"),
        ] {
            let text = text.to_owned();
            findings.add(&Finding { number, at: 10 * number, severity, allocation: None, text }, Some(7));
        }
        let value = findings.into_value();
        assert_eq!(value["kinds"][0]["text"], "a packet faulted", "errors come first");
        assert_eq!(value["kinds"][1]["text"], "device 1 was refused, 4.5 MiB");
        assert_eq!((&value["kinds"][1]["count"], &value["kinds"][1]["lastAt"]), (&json!(2), &json!(20)));
        assert_eq!(value["kinds"].as_array().map(Vec::len), Some(2));
    }
}
