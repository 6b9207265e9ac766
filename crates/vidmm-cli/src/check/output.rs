//! The report as text, as JSON, and as the XML of JUnit.

use std::{borrow::Cow, collections::BTreeMap, error::Error, fmt::Write, path::Path};

use serde_json::json;

use super::args::CheckArgs;
use super::bug_checks;
use super::containment::registry_argument;
use super::findings::{Group, Outcome, Report};
use crate::{
    args::{program, quoted},
    sarif::{Entry, log},
    style::{BAD, BOLD, GOOD, counted, number},
};

/// The command that runs a check again.
fn replay(args: &CheckArgs, check: &str) -> String {
    let mut command = format!("{} check {}", quoted(&program()), quoted(&driver(args)));
    for value in &args.registry {
        command += &format!(" {}", quoted(&registry_argument(value)));
    }
    for file in &args.allocation {
        command += &format!(" --allocation {}", quoted(&file.to_string_lossy()));
    }
    format!("{command} --replay {check}")
}

/// The name of the driver's library.
fn driver(args: &CheckArgs) -> Cow<'_, str> {
    args.driver.as_ref().map_or(Cow::default(), |driver| driver.to_string_lossy())
}

/// The report for people.
pub fn text(report: &Report, args: &CheckArgs) -> Result<String, Box<dyn Error>> {
    let mut out = String::new();
    writeln!(out, "{BOLD}check{BOLD:#}       {}: {}", driver(args), report.machine)?;
    let mut skipped: BTreeMap<&str, u64> = BTreeMap::new();
    for lack in report.outcomes.iter().filter_map(|outcome| outcome.skipped_for_want_of.as_deref()) {
        *skipped.entry(lack).or_default() += 1;
    }
    let checks = counted(report.outcomes.len() as u64 - skipped.values().sum::<u64>(), "check", "checks");
    let (steps, kernels) = (report.sum(|outcome| outcome.steps), report.sum(|outcome| outcome.kernels));
    let (calls, builds) = (report.sum(|outcome| outcome.calls), report.sum(|outcome| outcome.builds));
    writeln!(out, "judged      {checks}: {} steps, {} kernels", number(steps), number(kernels))?;
    for (lack, count) in skipped {
        writeln!(out, "skipped     {}, for want of {lack}", counted(count, "check", "checks"))?;
    }
    writeln!(out, "driver      {} calls, {} of them for a paging operation", number(calls), number(builds))?;
    let from_threads = report.sum(|outcome| outcome.reports_from_threads);
    if from_threads > 0 {
        let reports = counted(from_threads, "report", "reports");
        let cost = "the threads run in turns that a replay repeats, but in races";
        writeln!(out, "threads     {reports} from threads of the driver: {cost}")?;
    }
    if let Some((bytes, call)) = report.outcomes.iter().filter_map(|outcome| outcome.deepest.as_ref()).max() {
        let kib = bytes.div_ceil(1 << 10);
        writeln!(out, "stack       {call} takes the most, {kib} KiB, of the checks that measure (one of eight)")?;
    }
    for (kind, told) in by_kind(report) {
        writeln!(out, "{kind:<11} {told}")?;
    }
    for subject in &report.not_judged {
        writeln!(out, "not judged  {subject}")?;
    }
    if report.reaches_others {
        writeln!(
            out,
            "processes   a signal of the driver to every process reaches others: `unshare` does not work here"
        )?;
    }
    for Group { key, checks, first, .. } in &report.remarks {
        let others = counted(checks.len() as u64, "check", "checks");
        writeln!(out, "{BOLD}remark{BOLD:#}      {key}, in {others}: {}", first.message)?;
    }
    for Group { key, is_known, checks, first } in &report.groups {
        let name = if *is_known { "known" } else { "finding" };
        let style = if *is_known { BOLD } else { BAD };
        let others = counted(checks.len() as u64, "check", "checks");
        writeln!(out, "{style}{name:<11}{style:#} {key}, in {others}: {}", first.message)?;
        if let Some(code) = bug_checks::of(first) {
            writeln!(out, "in Windows  bug check {code} (DRV-16)")?;
        }
        writeln!(out, "replay      {}", replay(args, &checks[0]))?;
    }
    if report.not_run > 0 {
        let checks = counted(report.not_run, "check", "checks");
        writeln!(out, "{BAD}not run{BAD:#}     {checks}: the driver has ended its process too often (--max-deaths)")?;
    }
    if report.groups.is_empty() && !report.has_judged() {
        let why = "no paging operation was asked for: nothing is said about the driver's";
        writeln!(out, "{BAD}unjudged{BAD:#}    {why}")?;
    }
    let new = report.groups.iter().filter(|group| !group.is_known).count();
    let style = if new == 0 { GOOD } else { BAD };
    let known = report.groups.len() - new;
    let known = if known == 0 { String::new() } else { format!("; {known} known") };
    writeln!(out, "{style}found{style:#}       {new}{known}")?;
    Ok(out)
}

/// For each kind of check the number of judged and skipped checks, and the paging operations.
fn by_kind(report: &Report) -> Vec<(&'static str, String)> {
    let mut kinds: BTreeMap<&str, (u64, u64, BTreeMap<&str, u64>)> = BTreeMap::new();
    for outcome in &report.outcomes {
        let (judged, skipped, operations) = kinds.entry(outcome.kind()).or_default();
        *(if outcome.skipped_for_want_of.is_some() { skipped } else { judged }) += 1;
        for (name, count) in &outcome.operations {
            *operations.entry(name).or_default() += count;
        }
    }
    let told = |(judged, skipped, operations): (u64, u64, BTreeMap<&str, u64>)| {
        let operations = operations.iter().map(|(name, &count)| format!("{} {name}", number(count)));
        let operations = operations.collect::<Vec<_>>().join(", ");
        let operations = if operations.is_empty() { "no paging operation".to_owned() } else { operations };
        format!("{judged} judged, {skipped} skipped: {operations}")
    };
    kinds.into_iter().map(|(kind, counts)| (kind, told(counts))).collect()
}

/// The report for programs.
pub fn json(report: &Report, args: &CheckArgs) -> Result<String, Box<dyn Error>> {
    let groups = report.groups.iter().map(|group| {
        json!({
            "rule": group.first.rule,
            "operation": group.first.operation,
            "message": group.first.message,
            "place": group.first.place,
            "bug_check": bug_checks::of(&group.first),
            "known": group.is_known,
            "checks": group.checks,
            "replay": replay(args, &group.checks[0]),
        })
    });
    // Some bytes of a stack depend on where the process has the stack, and equal runs have equal reports.
    let checks = Vec::from_iter(report.outcomes.iter().map(|outcome| Outcome { deepest: None, ..outcome.clone() }));
    let report = json!({
        "driver": driver(args),
        "machine": report.machine,
        "not_judged": report.not_judged,
        "not_run": report.not_run,
        "reaches_others": report.reaches_others,
        "remarks": report.remarks,
        "findings": groups.collect::<Vec<_>>(),
        "checks": checks,
    });
    Ok(serde_json::to_string_pretty(&report)? + "\n")
}

/// The report as a log of SARIF: a result for each finding, at the driver's library.
pub fn sarif(report: &Report, driver: &Path) -> Result<String, Box<dyn Error>> {
    let entry = |group: &Group| Entry {
        rule: group.first.rule.clone(),
        message: match bug_checks::of(&group.first) {
            Some(code) => format!("{}; in Windows: bug check {code}", group.first.message),
            None => group.first.message.clone(),
        },
        line: 0,
        key: group.first.identity(),
        is_known: group.is_known,
    };
    let entries = Vec::from_iter(report.groups.iter().map(entry));
    Ok(serde_json::to_string_pretty(&log(driver, &entries))? + "\n")
}

/// The report for a build server: a test case for each check. Known findings do not fail one.
pub fn junit(report: &Report, args: &CheckArgs) -> String {
    let known: Vec<&str> =
        report.groups.iter().filter(|group| group.is_known).map(|group| group.key.as_str()).collect();
    let asked: Vec<&str> = report.groups.iter().map(|group| group.key.as_str()).collect();
    let mut cases = String::new();
    let mut failures = 0;
    for outcome in &report.outcomes {
        let keys = |found: &super::findings::Found| {
            let key = found.key();
            asked.contains(&key.as_str()) && !known.contains(&key.as_str())
        };
        let found: Vec<_> = outcome.found.iter().filter(|found| keys(found)).collect();
        let name = escaped(&outcome.check);
        if let Some(lack) = &outcome.skipped_for_want_of {
            let lack = escaped(lack);
            cases += &format!(
                "  <testcase classname=\"vidmm\" name=\"{name}\"><skipped message=\"for want of {lack}\"/></testcase>\n"
            );
            continue;
        }
        if found.is_empty() {
            cases += &format!("  <testcase classname=\"vidmm\" name=\"{name}\"/>\n");
            continue;
        }
        failures += 1;
        cases += &format!("  <testcase classname=\"vidmm\" name=\"{name}\">\n");
        for found in found {
            let (rule, message) = (escaped(&found.key()), escaped(&found.message));
            let code = bug_checks::of(found).map(|code| format!("in Windows: bug check {code}. ")).unwrap_or_default();
            let replay = escaped(&format!("{code}{}", replay(args, &outcome.check)));
            cases += &format!("    <failure type=\"{rule}\" message=\"{message}\">{replay}</failure>\n");
        }
        cases += "  </testcase>\n";
    }
    let (name, tests) = (escaped(&driver(args)), report.outcomes.len());
    format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n\
         <testsuite name=\"{name}\" tests=\"{tests}\" failures=\"{failures}\">\n{cases}</testsuite>\n"
    )
}

/// Text in XML. Characters that XML does not have are left out.
fn escaped(text: &str) -> String {
    let character = |character: char| match character {
        '&' => "&amp;".to_owned(),
        '<' => "&lt;".to_owned(),
        '>' => "&gt;".to_owned(),
        '"' => "&quot;".to_owned(),
        '\n' | '\t' => " ".to_owned(),
        character if character.is_control() => String::new(),
        character => character.to_string(),
    };
    text.chars().map(character).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_in_xml_has_no_marks_of_its_own() {
        assert_eq!(escaped("a<b & \"c\"\u{1}\n"), "a&lt;b &amp; &quot;c&quot; ");
    }
}
