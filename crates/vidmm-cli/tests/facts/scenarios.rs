//! The scenarios of the repository print the texts beside them.
//!
//! The texts follow from the scenarios alone: times in them are virtual. After a change that is meant to change them,
//!
//! ```text
//! UPDATE_EXPECTED=1 cargo test -p vidmm-cli --test facts scenarios -- --include-ignored
//! ```
//!
//! makes them again; look at the difference before you keep it.

use std::fs;

use crate::common::{
    expected_status, fault_scenarios, is_long, notification_scenarios, program_scenarios, residency_scenarios,
    scenarios, segment_scenarios, short_scenarios, splitting_scenarios, vidmm_run, workspace,
};

/// The variable that asks for new texts.
const UPDATE: &str = "UPDATE_EXPECTED";

#[test]
fn scenarios_print_the_expected_texts() {
    all_scenarios()
        .iter()
        .filter(|scenario| !is_long(scenario))
        .for_each(|scenario| prints_the_expected_text(scenario));
}

#[test]
#[ignore = "takes long, runs in .ci/run"]
fn long_scenarios_print_the_expected_texts() {
    all_scenarios().iter().filter(|scenario| is_long(scenario)).for_each(|scenario| prints_the_expected_text(scenario));
}

fn prints_the_expected_text(scenario: &str) {
    let printed = vidmm_run(&[scenario]).expect(expected_status(scenario)).stdout;
    let path = workspace().join(scenario.replace(".toml", ".expected.txt"));
    if std::env::var_os(UPDATE).is_some() {
        fs::write(&path, &printed).expect("the text can be written");
    }
    let expected = fs::read_to_string(&path).unwrap_or_default();
    assert_eq!(printed, expected, "{scenario} prints something else; if that is meant, set {UPDATE}=1 and run again");
}

fn all_scenarios() -> Vec<String> {
    let folders = [notification_scenarios(), residency_scenarios(), fault_scenarios(), splitting_scenarios()];
    [scenarios(), folders.concat(), segment_scenarios(), program_scenarios()].concat()
}

/// Reads the expected texts; the test above holds that the program prints them.
#[test]
fn scenarios_page_in_and_out() {
    for scenario in short_scenarios() {
        let path = workspace().join(scenario.replace(".toml", ".expected.txt"));
        let text = fs::read_to_string(path).expect("it is there");
        let mib_after = |words: &str| {
            let (_, after) = text.split_once(words).expect("the text has this amount");
            let mut amount = after.split([' ', ',', ';']);
            let number: f64 = amount.next().and_then(|number| number.parse().ok()).expect("a number follows");
            match amount.next() {
                Some("GiB") => number * 1024.0,
                Some("MiB") => number,
                unit => panic!("{scenario}: {number} {unit:?}"),
            }
        };
        let footprint = mib_after("footprint ");
        let (paged_in, paged_out) = (mib_after("paging      "), mib_after("iB in, "));
        assert!(paged_in > footprint / 4.0, "{scenario}: {text}");
        assert!(paged_out > footprint / 4.0, "{scenario}: {text}");
    }
}

/// A size of eight digits is hard to read.
#[test]
fn no_text_has_a_size_in_a_long_number() {
    for scenario in all_scenarios() {
        let text =
            fs::read_to_string(workspace().join(scenario.replace(".toml", ".expected.txt"))).expect("it is there");
        let words: Vec<&str> = text.split_whitespace().collect();
        let is_long = |word: &str| word.len() >= 8 && word.bytes().all(|digit| digit.is_ascii_digit());
        let long =
            words.windows(2).find(|pair| is_long(pair[0]) && (pair[1].starts_with("byte") || pair[1].starts_with('B')));
        assert_eq!(long, None, "{scenario}");
    }
}

/// P01 to P60: a file each, or several, or a folder.
#[test]
fn each_of_the_sixty_has_a_file() {
    let readme = fs::read_to_string(workspace().join("scenarios/README.md")).expect("it is there");
    let paths = all_scenarios();
    for number in 1..=60 {
        let is_its = |path: &&String| path.split('/').any(|part| part.starts_with(&format!("p{number:02}")));
        let of_number: Vec<&String> = paths.iter().filter(is_its).collect();
        assert!(!of_number.is_empty(), "P{number:02} has no file");
        let row = readme.lines().find(|line| line.starts_with(&format!("| P{number:02} "))).unwrap_or_default();
        for path in of_number {
            let link = path.trim_start_matches("scenarios/");
            let folder = link.rsplit_once('/').map_or("", |(folder, _)| folder);
            let is_listed = row.contains(&format!("({link})")) || row.contains(&format!("({folder})"));
            assert!(is_listed, "scenarios/README.md does not list {link} for P{number:02}");
        }
    }
}

#[test]
fn every_expected_text_has_a_scenario() {
    let folders = [
        ("scenarios", scenarios()),
        ("scenarios/notification", notification_scenarios()),
        ("scenarios/residency", residency_scenarios()),
        ("scenarios/faults", fault_scenarios()),
        ("scenarios/splitting", splitting_scenarios()),
        ("scenarios/segments", segment_scenarios()),
        ("scenarios/programs", program_scenarios()),
    ];
    for (folder, scenarios) in folders {
        for file in fs::read_dir(workspace().join(folder)).expect("there are scenarios") {
            let name = file.expect("the folder can be read").file_name().into_string().expect("text");
            if let Some(stem) = name.strip_suffix(".expected.txt") {
                assert!(scenarios.contains(&format!("{folder}/{stem}.toml")), "{name} belongs to no scenario");
            }
        }
    }
}
