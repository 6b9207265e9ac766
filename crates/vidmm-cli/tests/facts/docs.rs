//! The program printed the runs that documents show: a block of text that follows the comment `<!-- vidmm run FILE -->`
//! is the output of that command; behind `<!-- $ COMMAND -->`, a line for the shell and its output. The lines of a block that follows `<!-- from the log of FILE -->` are lines of the event log of
//! `vidmm run FILE`, in that order, with remarks between. `UPDATE_EXPECTED=1 cargo test -p vidmm-cli --test facts docs` makes both
//! again.

use std::{fs, path::PathBuf};

use serde_json::Value;
use walkdir::WalkDir;

use crate::common::{Scratch, shell, vidmm_run, workspace};

const UPDATE: &str = "UPDATE_EXPECTED";
const COMMAND: &str = "<!-- vidmm run ";
const LINE: &str = "<!-- $ ";
const OPEN: &str = "```text\n";
const OF_A_LOG: &str = "<!-- from the log of ";
const OPEN_LOG: &str = "```jsonl\n";
const CLOSE: &str = "```";

fn documents() -> Vec<PathBuf> {
    let in_docs = WalkDir::new(workspace().join("docs")).sort_by_file_name().into_iter();
    let in_docs = in_docs.map(|file| file.expect("the folder can be read").into_path());
    let in_docs = in_docs.filter(|path| path.extension().is_some_and(|extension| extension == "md"));
    let root = ["README.md", "scenarios/README.md", "ARCHITECTURE.md", "CONTRIBUTING.md"];
    in_docs.chain(root.map(|name| workspace().join(name))).collect()
}

/// The document with the present output of every run that it shows behind a comment that begins with `opens`, and their number.
fn printed_anew(text: &str, opens: &str, run: impl Fn(&str) -> String) -> (String, usize) {
    let mut anew = String::new();
    let mut rest = text;
    let mut runs = 0;
    while let Some(at) = rest.find(opens) {
        let (before, command) = rest.split_at(at);
        let (arguments, after) = command[opens.len()..].split_once(" -->").expect("the comment ends");
        let opening = after.find(OPEN).expect("a block of text follows") + OPEN.len();
        let closing = opening + after[opening..].find(CLOSE).expect("the block ends");
        let printed = run(arguments);
        anew += &format!("{before}{opens}{arguments} -->{}{printed}", &after[..opening]);
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
        let arguments = |line: &str| vidmm_run(&Vec::from_iter(line.split_whitespace())).expect(0).stdout;
        let (anew, shown) = printed_anew(&text, COMMAND, arguments);
        runs += shown;
        // A reader sees no comments, so the line stands in the block, too.
        let line = |line: &str| format!("$ {line}\n{}", shell(line).expect(0).stdout);
        let (anew, shown) = printed_anew(&anew, LINE, line);
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

/// A stranger reads the README in a few minutes: 900 words at most, blocks of code included.
#[test]
fn the_readme_is_short() {
    let text = fs::read_to_string(workspace().join("README.md")).expect("the document can be read");
    let words = text.split_whitespace().count();
    assert!(words <= 900, "README.md has {words} words");
}

/// The commands in blocks of code that begin with the program, without remarks; of `cargo run`, the arguments of the program.
fn commands(text: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut is_code = false;
    for line in text.lines().map(str::trim) {
        if line.starts_with(CLOSE) {
            is_code = !is_code;
            continue;
        }
        let line = line.split(" #").next().unwrap().split(" > ").next().unwrap().trim_start_matches("$ ").trim();
        let arguments =
            ["vidmm ", "cargo run --release -- ", "cargo run -- "].iter().find_map(|start| line.strip_prefix(start));
        if let Some(arguments) = arguments.filter(|arguments| is_code && arguments.starts_with(char::is_alphabetic)) {
            found.extend(format!("vidmm {arguments}").split(" && ").map(str::to_owned));
        }
    }
    found
}

/// A command of a document is one that the program takes, and the files of the repository that it names are there.
#[test]
fn commands_in_documents_are_taken() {
    let mut taken = 0;
    for path in documents() {
        let text = fs::read_to_string(&path).expect("the document can be read");
        for command in commands(&text).iter().filter(|command| command.starts_with("vidmm ")) {
            let run = shell(&format!("{command} --help"));
            assert_eq!(run.status, Some(0), "{}: {run}", path.display());
            for file in command.split_whitespace().filter(|word| word.starts_with("scenarios/")) {
                assert!(workspace().join(file).exists(), "{}: {file} is not there", path.display());
            }
            taken += 1;
        }
    }
    assert!(taken > 30, "documents have {taken} commands");
}

/// The anchor that a heading gets.
fn anchor(heading: &str) -> String {
    let heading = heading.trim_start_matches('#').trim().to_lowercase();
    let kept = heading.chars().filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
    kept.map(|c| if c == ' ' { '-' } else { c }).collect()
}

/// Every relative link leads to a file, and to a heading in it.
#[test]
fn links_in_documents_lead_somewhere() {
    let mut dead = Vec::new();
    let mut links = 0;
    for path in documents() {
        let text = fs::read_to_string(&path).expect("the document can be read");
        let of_links = text.split("](").skip(1).filter_map(|rest| rest.split_once(')').map(|(link, _)| link));
        for link in of_links.filter(|link| !link.starts_with("http") && !link.contains([' ', '`'])) {
            links += 1;
            let (file, heading) = link.split_once('#').unwrap_or((link, ""));
            let target = if file.is_empty() { path.clone() } else { path.parent().unwrap().join(file) };
            let has_heading = |text: String| text.lines().any(|line| line.starts_with('#') && anchor(line) == heading);
            let is_right = match heading {
                "" => target.exists(),
                _ => fs::read_to_string(&target).is_ok_and(has_heading),
            };
            if !is_right {
                dead.push(format!("{}: {link}", path.display()));
            }
        }
    }
    assert!(dead.is_empty() && links > 100, "of {links} links these are dead:\n{}", dead.join("\n"));
}
