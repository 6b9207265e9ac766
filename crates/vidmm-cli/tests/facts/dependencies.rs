//! `docs/reference/dependencies.md` has a row for each direct dependency of each package, and no other.

use std::{collections::BTreeSet, fs};

use serde_json::Value;

use crate::common::workspace;

/// The direct dependencies of the packages on crates that are not of this repository, as the document writes them. A
/// crate that a package builds with is no "tests" row, if its tests use it too.
fn depended_on() -> BTreeSet<(String, String)> {
    let mut command = std::process::Command::new(env!("CARGO"));
    command.args(["metadata", "--no-deps", "--offline", "--format-version", "1"]).current_dir(workspace());
    let output = command.output().expect("cargo starts");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let metadata: Value = serde_json::from_slice(&output.stdout).expect("it is JSON");
    let text = |value: &Value| value.as_str().expect("it is text").to_owned();
    let mut rows = BTreeSet::new();
    for package in metadata["packages"].as_array().expect("there are packages") {
        let foreign = |dependency: &&Value| dependency.get("path").is_none();
        let foreign = Vec::from_iter(package["dependencies"].as_array().expect("a list").iter().filter(foreign));
        let is_of_tests = |dependency: &&&Value| dependency["kind"] == "dev";
        let builds: BTreeSet<String> =
            foreign.iter().filter(|it| !is_of_tests(it)).map(|it| text(&it["name"])).collect();
        let tests = foreign.iter().filter(is_of_tests).map(|it| text(&it["name"])).filter(|it| !builds.contains(it));
        let tests = Vec::from_iter(tests.map(|name| format!("{name} (tests)")));
        rows.extend(builds.into_iter().chain(tests).map(|name| (text(&package["name"]), name)));
    }
    rows
}

#[test]
fn each_dependency_has_a_row_with_its_reason() {
    let document = fs::read_to_string(workspace().join("docs/reference/dependencies.md")).expect("there is a document");
    let (_, table) = document.split_once("<!-- dependencies -->\n").expect("the table begins");
    let (table, _) = table.split_once("<!-- end of dependencies -->").expect("the table ends");
    let mut rows = BTreeSet::new();
    for line in table.lines().skip(2) {
        let cells: Vec<&str> = line.trim_matches('|').split('|').map(str::trim).collect();
        let [package, dependency, why] = cells[..] else { panic!("three cells: {line}") };
        assert!(!why.is_empty(), "a reason: {line}");
        assert!(rows.insert((package.to_owned(), dependency.to_owned())), "a row of its own: {line}");
    }
    let right = depended_on();
    let missing = Vec::from_iter(right.difference(&rows));
    let excess = Vec::from_iter(rows.difference(&right));
    assert!(missing.is_empty() && excess.is_empty(), "rows that miss: {missing:?}; of no dependency: {excess:?}");
}
