//! The program printed the runs that documents show: a block of text that follows the comment `<!-- vidmm run FILE -->`
//! is the output of that command. The lines of a block that follows `<!-- from the log of FILE -->` are lines of the event log of
//! `vidmm run FILE`, in that order, with remarks between. `UPDATE_EXPECTED=1 cargo test -p vidmm-cli --test facts docs` makes both
//! again.

use std::{fs, path::PathBuf};

use serde_json::Value;

use crate::common::{Scratch, vidmm_run, workspace};

const UPDATE: &str = "UPDATE_EXPECTED";
const COMMAND: &str = "<!-- vidmm run ";
const OPEN: &str = "```text\n";
const OF_A_LOG: &str = "<!-- from the log of ";
const OPEN_LOG: &str = "```jsonl\n";
const CLOSE: &str = "```";

fn documents() -> Vec<PathBuf> {
    let in_docs = fs::read_dir(workspace().join("docs")).expect("there are documents");
    let in_docs = in_docs.map(|file| file.expect("the folder can be read").path());
    let in_docs = in_docs.filter(|path| path.extension().is_some_and(|extension| extension == "md"));
    in_docs.chain([workspace().join("README.md")]).collect()
}

/// The document with the present output of every run that it shows, and their number.
fn printed_anew(text: &str) -> (String, usize) {
    let mut anew = String::new();
    let mut rest = text;
    let mut runs = 0;
    while let Some(at) = rest.find(COMMAND) {
        let (before, command) = rest.split_at(at);
        let (arguments, after) = command[COMMAND.len()..].split_once(" -->").expect("the comment ends");
        let opening = after.find(OPEN).expect("a block of text follows") + OPEN.len();
        let closing = opening + after[opening..].find(CLOSE).expect("the block ends");
        let arguments: Vec<&str> = arguments.split_whitespace().collect();
        let printed = vidmm_run(&arguments).expect(0).stdout;
        anew += &format!("{before}{COMMAND}{} -->{}{printed}", arguments.join(" "), &after[..opening]);
        rest = &after[closing..];
        runs += 1;
    }
    (anew + rest, runs)
}

/// The document with the present lines of every log of which it shows a part, and the number of these.
fn logged_anew(text: &str) -> (String, usize) {
    let mut anew = String::new();
    let mut rest = text;
    let mut logs = 0;
    while let Some(at) = rest.find(OF_A_LOG) {
        let after = at + OF_A_LOG.len();
        let (scenario, _) = rest[after..].split_once(" -->").expect("the comment ends");
        let opening = after + rest[after..].find(OPEN_LOG).expect("a block of lines follows") + OPEN_LOG.len();
        let closing = opening + rest[opening..].find(CLOSE).expect("the block ends");
        anew += &rest[..opening];
        anew += &lines_anew(scenario, &rest[opening..closing]);
        rest = &rest[closing..];
        logs += 1;
    }
    (anew + rest, logs)
}

/// The same lines as they are in the log of a scenario now: one after another, those that say the same but for numbers and times.
fn lines_anew(scenario: &str, shown: &str) -> String {
    let scratch = Scratch::new();
    let path = scratch.path("log.jsonl");
    vidmm_run(&[scenario, "--events", &path]);
    let log = fs::read_to_string(path).expect("there is a log");
    let facts = |line: &str| {
        let mut value: Value = serde_json::from_str(line).unwrap_or_else(|error| panic!("{line}: {error}"));
        let fields = value.as_object_mut().expect("a line is an object");
        fields.retain(|name, _| !["number", "at", "occurred_at"].contains(&name.as_str()));
        value
    };
    let mut lines = log.lines();
    let anew = shown.lines().map(|line| {
        if !line.starts_with('{') {
            return format!("{line}\n");
        }
        let right = facts(line);
        let found = lines.find(|line| facts(line) == right);
        format!("{}\n", found.unwrap_or_else(|| panic!("the log of {scenario} has no such line here any more: {line}")))
    });
    anew.collect()
}

#[test]
fn documents_show_the_output_of_the_program() {
    let (mut runs, mut logs) = (0, 0);
    for path in documents() {
        let text = fs::read_to_string(&path).expect("the document can be read");
        let (anew, shown) = printed_anew(&text);
        runs += shown;
        let (anew, shown) = logged_anew(&anew);
        logs += shown;
        if std::env::var_os(UPDATE).is_some() && anew != text {
            fs::write(&path, &anew).expect("the document can be written");
        } else {
            assert!(
                anew == text,
                "{} shows something else than is printed; set {UPDATE}=1 and run again",
                path.display()
            );
        }
    }
    assert!(runs > 0 && logs >= 3, "documents show {runs} runs, and parts of {logs} logs");
}
