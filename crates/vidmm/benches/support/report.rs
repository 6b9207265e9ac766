//! Metrics: measured round by round, printed as a table and as lines of JSON, held against goals.

use std::fmt::Write;

/// A goal is missed in a check only beyond this factor: shared machines are noisy.
const SLACK: f64 = 1.3;

/// The most that a metric should be: its ratio where it has a baseline, else its value.
#[derive(Clone, Copy)]
pub struct Goal {
    limit: f64,
    /// A check fails beyond the limit times this.
    slack: Option<f64>,
}

impl Goal {
    /// A goal that `--check` insists on.
    pub fn gate(limit: f64) -> Option<Self> {
        Some(Self { limit, slack: Some(SLACK) })
    }

    /// A goal that is reported.
    pub fn report(limit: f64) -> Option<Self> {
        Some(Self { limit, slack: None })
    }

    /// A goal for something that is counted and not timed: `--check` insists on it as it is.
    pub fn exact(limit: f64) -> Option<Self> {
        Some(Self { limit, slack: Some(1.0) })
    }
}

/// One line of the report.
pub struct Metric {
    id: String,
    unit: &'static str,
    value: f64,
    baseline: Option<f64>,
    ratio: Option<f64>,
    rounds: usize,
    /// Least and largest of the rounds: of the ratio if there is one, else of the value.
    min: f64,
    max: f64,
    goal: Option<Goal>,
}

impl Metric {
    /// A value measured in some rounds; the median counts.
    pub fn alone(id: impl Into<String>, unit: &'static str, rounds: &[f64], goal: Option<Goal>) -> Self {
        let (value, min, max) = spread(rounds.iter().copied());
        Self { id: id.into(), unit, value, baseline: None, ratio: None, rounds: rounds.len(), min, max, goal }
    }

    /// A value and its baseline, measured in the same rounds; the median of the rounds' ratios counts.
    pub fn against(id: impl Into<String>, unit: &'static str, rounds: &[(f64, f64)], goal: Option<Goal>) -> Self {
        let (value, ..) = spread(rounds.iter().map(|&(value, _)| value));
        let (baseline, ..) = spread(rounds.iter().map(|&(_, baseline)| baseline));
        let (ratio, min, max) = spread(rounds.iter().map(|&(value, baseline)| value / baseline));
        let (baseline, ratio) = (Some(baseline), Some(ratio));
        Self { id: id.into(), unit, value, baseline, ratio, rounds: rounds.len(), min, max, goal }
    }

    pub fn value(&self) -> f64 {
        self.value
    }

    fn verdict(&self) -> &'static str {
        let measured = self.ratio.unwrap_or(self.value);
        match self.goal {
            None => "",
            // A difference of two times that is below zero says that the machine was not quiet.
            Some(_) if measured < 0.0 => "noise",
            Some(Goal { limit, .. }) if measured <= limit => "ok",
            Some(Goal { limit, slack: Some(slack) }) if measured > limit * slack => "MISSED",
            Some(_) => "missed",
        }
    }

    fn row(&self) -> String {
        let number = |number: Option<f64>| number.map_or(String::new(), three_digits);
        let goal = self.goal.map(|goal| goal.limit);
        let spread = format!("{} .. {}", three_digits(self.min), three_digits(self.max));
        let (value, baseline, ratio) = (three_digits(self.value), number(self.baseline), number(self.ratio));
        let (id, unit, goal, verdict) = (&self.id, self.unit, number(goal), self.verdict());
        format!("{id:<44} {value:>8} {unit:<7} {baseline:>8} {ratio:>8} {spread:>20} {goal:>6} {verdict}")
    }

    fn json(&self) -> String {
        let number = |number: Option<f64>| number.map_or("null".into(), |number| format!("{number:.6}"));
        let mut line = format!(r#"{{"id":"{}","value":{:.6},"unit":"{}""#, self.id, self.value, self.unit);
        let (baseline, ratio, goal) = (number(self.baseline), number(self.ratio), self.goal.map(|goal| goal.limit));
        let _ = write!(line, r#","baseline":{baseline},"ratio":{ratio},"rounds":{}"#, self.rounds);
        let _ = write!(line, r#","min":{:.6},"max":{:.6},"goal":{}}}"#, self.min, self.max, number(goal));
        line
    }
}

/// All metrics of a run.
pub struct Report {
    json_only: bool,
    metrics: Vec<Metric>,
}

impl Report {
    pub fn new(json_only: bool) -> Self {
        if !json_only {
            let head = ("id", "value", "unit", "baseline", "ratio", "of rounds", "goal");
            println!(
                "{:<44} {:>8} {:<7} {:>8} {:>8} {:>20} {:>6}",
                head.0, head.1, head.2, head.3, head.4, head.5, head.6
            );
        }
        Self { json_only, metrics: Vec::new() }
    }

    /// Adds a metric, and shows it at once.
    pub fn add(&mut self, metric: Metric) {
        if !self.json_only {
            println!("{}", metric.row());
        }
        self.metrics.push(metric);
    }

    /// Prints what is left to print. Returns whether all goals that gate were met, with some slack.
    pub fn finish(self) -> bool {
        if !self.json_only {
            println!();
        }
        for metric in &self.metrics {
            println!("{}", metric.json());
        }
        !self.metrics.iter().any(|metric| metric.verdict() == "MISSED")
    }
}

/// The value below which `percent` of `sorted` lie.
pub fn percentile(sorted: &[f64], percent: usize) -> f64 {
    sorted[(sorted.len() * percent / 100).min(sorted.len() - 1)]
}

/// Median, least and largest.
fn spread(values: impl Iterator<Item = f64>) -> (f64, f64, f64) {
    let mut sorted: Vec<f64> = values.collect();
    sorted.sort_unstable_by(f64::total_cmp);
    (percentile(&sorted, 50), sorted[0], sorted[sorted.len() - 1])
}

fn three_digits(number: f64) -> String {
    let digits = if number == 0.0 { 0 } else { (2 - number.abs().log10().floor() as i32).clamp(0, 4) };
    format!("{number:.*}", digits as usize)
}
