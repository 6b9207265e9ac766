//! `docs/reference/facts.md` explains each number that the project cites, such as RES-11 or I06, and no other.

use std::collections::{BTreeMap, BTreeSet};
use std::{fs, ops::RangeInclusive, path::Path};

use crate::common::workspace;

/// Families whose numbers follow a hyphen.
const FACTS: [&str; 16] =
    ["ABI", "BPB", "C", "CAP", "CRE", "DRV", "FLT", "GVA", "NTF", "PAT", "PGV", "RES", "SEG", "SPL", "SYN", "U"];
/// Where numbers are cited, with the files beside them in the root.
const FOLDERS: [&str; 5] = ["crates", "docs", "fuzz", "peers", "scenarios"];

/// A family, and the digits of a number in it, with the letter that may follow them.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Number {
    family: String,
    digits: String,
}

impl std::fmt::Display for Number {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let hyphen = if FACTS.contains(&&*self.family) { "-" } else { "" };
        write!(f, "{}{hyphen}{}", self.family, self.digits)
    }
}

impl Number {
    /// The number that `word` is: `RES-11`, `CRE-31a`, `D5`, `I06` or `P08`.
    fn new(word: &str) -> Option<Self> {
        let (family, digits) = word.split_at(word.find(|c: char| !c.is_ascii_uppercase())?);
        let number = |digits: &str| Self { family: family.to_owned(), digits: digits.to_owned() };
        let are_digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        match family {
            "D" if are_digits(digits) && digits.len() <= 2 => Some(number(digits)),
            "I" | "P" if are_digits(digits) && digits.len() == 2 => Some(number(digits)),
            _ if FACTS.contains(&family) => {
                let digits = digits.strip_prefix('-')?;
                let plain = digits.strip_suffix(|c: char| c.is_ascii_lowercase()).unwrap_or(digits);
                are_digits(plain).then(|| number(digits))
            }
            _ => None,
        }
    }

    fn value(&self) -> u32 {
        self.digits.trim_end_matches(|c: char| c.is_ascii_lowercase()).parse().expect("it is made of digits")
    }
}

/// The citations in files: numbers, each with one file that cites it, and ranges such as "RES-60 to RES-68" or
/// "PGV-01..05".
#[derive(Default)]
struct Cited {
    numbers: BTreeMap<Number, String>,
    ranges: Vec<(String, RangeInclusive<u32>)>,
}

impl Cited {
    fn read(&mut self, text: &str, file: &str) {
        let mut rest = text;
        let mut last: Option<Number> = None;
        while let Some(at) = rest.find(is_part_of_a_word) {
            let (gap, from_word) = rest.split_at(at);
            let end = from_word.find(|c| !is_part_of_a_word(c)).unwrap_or(from_word.len());
            let (word, after) = from_word.split_at(end);
            rest = after;
            if word == "to" {
                continue;
            }
            let between = &text[..text.len() - after.len() - word.len()];
            let is_range = gap == ".." || between.ends_with(" to ");
            let first = last.take().filter(|_| is_range);
            // "PGV-01..05" repeats only the digits.
            let short = first.as_ref().map(|first| format!("{}-{word}", first.family));
            let Some(number) = Number::new(word).or_else(|| Number::new(&short?)) else { continue };
            // Not facts: the name of a device in a scenario, and a planted bug's number before its name.
            if number.family == "D" && (file.ends_with(".toml") || after.starts_with(" `")) {
                continue;
            }
            if let Some(first) = first.filter(|first| first.family == number.family) {
                self.ranges.push((first.family.clone(), first.value()..=number.value()));
            }
            self.numbers.entry(number.clone()).or_insert_with(|| file.to_owned());
            last = Some(number);
        }
    }

    fn holds(&self, number: &Number) -> bool {
        let in_range = |(family, range): &(String, RangeInclusive<u32>)| {
            *family == number.family && range.contains(&number.value())
        };
        self.numbers.contains_key(number) || self.ranges.iter().any(in_range)
    }
}

fn is_part_of_a_word(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '-' || c == '_'
}

/// Reads all sources, scenarios and documents below `path`, other than the page itself and this test.
fn read_all(path: &Path, cited: &mut Cited) {
    for entry in fs::read_dir(path).expect("the folder can be read") {
        let path = entry.expect("the folder can be read").path();
        if path.is_dir() {
            if path.file_name().is_some_and(|name| name != "target") {
                read_all(&path, cited);
            }
        } else {
            read_file(&path, cited);
        }
    }
}

fn read_file(path: &Path, cited: &mut Cited) {
    let is_read = path.extension().is_some_and(|extension| ["md", "rs", "toml"].iter().any(|kind| extension == *kind));
    if is_read && !path.ends_with("docs/reference/facts.md") && !path.ends_with(file!()) {
        let text = fs::read_to_string(path).expect("the file can be read");
        cited.read(&text, &path.display().to_string());
    }
}

fn cited() -> Cited {
    let mut cited = Cited::default();
    for folder in FOLDERS {
        read_all(&workspace().join(folder), &mut cited);
    }
    for entry in fs::read_dir(workspace()).expect("the folder can be read") {
        let path = entry.expect("the folder can be read").path();
        if path.is_file() {
            read_file(&path, &mut cited);
        }
    }
    cited
}

/// The numbers that the page explains: items that begin with one in bold type.
fn explained() -> BTreeSet<Number> {
    let page = fs::read_to_string(workspace().join("docs/reference/facts.md")).expect("the page can be read");
    let mut explained = BTreeSet::new();
    for item in page.lines().filter_map(|line| line.strip_prefix("- **")) {
        let (word, explanation) = item.split_once("** ").expect("an explanation follows the number");
        let number = Number::new(word).unwrap_or_else(|| panic!("{word} is no number"));
        assert!(!explanation.is_empty(), "{word} has no explanation");
        assert!(explained.insert(number), "{word} is explained twice");
    }
    explained
}

#[test]
fn each_cited_number_is_explained() {
    let explained = explained();
    let missing: Vec<String> = cited()
        .numbers
        .into_iter()
        .filter(|(number, _)| !explained.contains(number))
        .map(|(number, file)| format!("{number}, cited in {file}"))
        .collect();
    assert!(missing.is_empty(), "docs/reference/facts.md does not explain:\n{}", missing.join("\n"));
}

#[test]
fn each_explained_number_is_cited() {
    let cited = cited();
    let idle: Vec<String> = explained().iter().filter(|number| !cited.holds(number)).map(Number::to_string).collect();
    assert!(idle.is_empty(), "docs/reference/facts.md explains what nothing cites: {}", idle.join(", "));
}

#[test]
fn numbers_and_ranges_are_found_in_text() {
    let mut cited = Cited::default();
    cited.read("RES-11 (CRE-31a, I06); PGV-01..05, D1 to D4. `D9` U-n FLT-, P1, I060, D18 `skip`", "a.rs");
    let numbers: Vec<String> = cited.numbers.keys().map(Number::to_string).collect();
    assert_eq!(numbers.join(" "), "CRE-31a D1 D4 D9 I06 PGV-01 PGV-05 RES-11");
    let ranges: Vec<_> = cited.ranges.iter().map(|(family, range)| (family.as_str(), range.clone())).collect();
    assert_eq!(ranges, [("PGV", 1..=5), ("D", 1..=4)]);
}
